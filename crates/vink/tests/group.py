"""Several machines behind one address: `group.py serve`, and `group.py ask ADDRESS`.

A server answers each byte with its machine's name, by TCP and by UDP. The client has many connections, and many
sockets for datagrams. For each line on its input it asks by all of them, and prints how many answers came from which
machine. The line names the machines that do not answer any more.
"""

import collections
import json
import select
import socket
import sys
import threading

PORT = 7
FLOWS = 64


def serve():
    name = socket.gethostname().encode()
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.bind(("::", PORT))

    def echo():
        while True:
            datagrams.sendto(name, datagrams.recvfrom(1)[1])

    def answer(connection):
        while connection.recv(1):
            connection.sendall(name)

    threading.Thread(target=echo, daemon=True).start()
    with socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=FLOWS) as server:
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


def ask(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flows = [socket.create_connection((address, PORT)) for _ in range(FLOWS)]
    for _ in range(FLOWS):
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        datagrams.connect((address, PORT))
        flows.append(datagrams)
    whose = [None] * len(flows)
    for line in sys.stdin:
        dead = line.split()
        for flow in flows:
            flow.send(b"?")
        for at, flow in enumerate(flows):
            if whose[at] not in dead:
                name = flow.recv(64).decode()
                assert whose[at] in (None, name), f"{whose[at]} has become {name}"
                whose[at] = name
        # The others have answered: an answer of a dead one would be here.
        silent = [flow for at, flow in enumerate(flows) if whose[at] in dead]
        assert not select.select(silent, [], [], 0)[0]
        print(json.dumps(collections.Counter(whose)), flush=True)


if sys.argv[1] == "serve":
    serve()
else:
    ask(sys.argv[2])
