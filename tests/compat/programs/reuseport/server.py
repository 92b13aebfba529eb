# Four processes with a listening socket each on one port; a connection is told which one it got.
import os
import signal
import socket


def serve(number):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("0.0.0.0", 7000))
    listener.listen(64)
    os.write(ready, b".")
    while True:
        connection, _ = listener.accept()
        order = connection.recv(100)
        connection.sendall(b"%d" % number)
        connection.close()
        if order == b"end":
            os._exit(0)


told, ready = os.pipe()
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        serve(number)
    children.append(child)
listening = b""
while len(listening) < 4:
    listening += os.read(told, 4)
print("4 listen", flush=True)


def end(*_):
    for child in children:
        os.kill(child, signal.SIGKILL)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
signal.pause()
