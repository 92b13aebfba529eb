# Asks until all four have answered, ends one, and asks 200 times more.
import os
import socket


def ask(order=b"who"):
    with socket.create_connection((os.environ["SERVER"], 7000)) as connection:
        connection.sendall(order)
        return connection.recv(100)


seen = set()
while len(seen) < 4:
    seen.add(ask())
print("all answered:", sorted(seen))
ended = ask(b"end")
while True:  # its socket is closed some time after it has answered
    try:
        more = {ask() for _ in range(200)}
    except ConnectionError:
        continue
    if ended not in more:
        break
print("the ended one answers:", ended in more, "others:", len(more))
