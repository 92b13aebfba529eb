#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A store of values by keys, to be explored: one machine has it, another one a copy.

    store.py first COPY [together]
    store.py copy
    store.py client FIRST COPY

Values are put at the first one and got at the copy, over UDP; what brings no answer is asked again.
The client writes what it asks for and what it is told.

It has a mistake: the first one says that a value has been put as soon as it has told the copy, which
may not have heard it. With "together" it waits until the copy has it.
"""

import socket
import sys

PORT, COPY_PORT = 7600, 7601
AGAIN = 0.3


def ask(to, port, words):
    """Asks until there is an answer, which begins with the question's number."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(AGAIN)
        while True:
            link.sendto(" ".join(words).encode(), (to, port))
            try:
                while True:
                    answer = link.recv(1000).decode().split()
                    if answer[0] == words[0]:
                        return answer[1:]
            except TimeoutError:
                pass


def serve(port, copy=None, together=False):
    """Answers `NUMBER put KEY VALUE` and `NUMBER get KEY`; a put that is old by its number is not done again."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("", port))
    values, newest = {}, 0
    while True:
        data, client = link.recvfrom(1000)
        if len(data.split()) < 3:
            # The copy's answer to what it was only told.
            continue
        number, what, key, *value = data.decode().split()
        answer = [number]
        if what == "get":
            answer += [values[key]] if key in values else []
        elif int(number) > newest:
            newest, values[key] = int(number), value[0]
            if together:
                ask(copy, COPY_PORT, [number, "put", key, value[0]])
            elif copy:
                link.sendto(data, (copy, COPY_PORT))
        link.sendto(" ".join(answer).encode(), client)


def client(first, copy):
    number = 0
    for words in (["put", "x", "1"], ["put", "x", "2"], ["get", "x"]):
        number += 1
        print("call", number, *words, flush=True)
        to = (first, PORT) if words[0] == "put" else (copy, COPY_PORT)
        print("done", number, *ask(*to, [str(number), *words]), flush=True)


if sys.argv[1] == "first":
    serve(PORT, sys.argv[2], "together" in sys.argv)
elif sys.argv[1] == "copy":
    serve(COPY_PORT)
else:
    client(*sys.argv[2:])
