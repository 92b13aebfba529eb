#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A protocol to be explored: two banks, each of which transfers money to the other.

    bank.py OWN OTHER SECONDS [ordered]

Each bank has a lock on its accounts. A transfer is debited here and credited at the other bank,
over TCP. It begins so many seconds after the start. Status 0: both transfers are booked.

It has a mistake: the lock is held while the other bank is asked, which needs its own lock to
answer. With the word `ordered` it is given back before.
"""

import socket
import sys
import threading
import time

PORT = 7200
ORDERED = sys.argv[4:] == ["ordered"]

lock = threading.Lock()
balance = 100


def credits(listener):
    """Books what the other bank sends, which is one transfer."""
    global balance
    connection, _ = listener.accept()
    amount = int(connection.recv(16))
    print("a credit waits for the lock", flush=True)
    with lock:
        balance += amount
    connection.sendall(b"booked")
    print(f"credited {amount}", flush=True)


def ask(other, amount):
    """Has the other bank credit an amount."""
    with socket.create_connection((other, PORT)) as connection:
        connection.sendall(b"%d" % amount)
        print("the other bank is asked", flush=True)
        if connection.recv(16) != b"booked":
            sys.exit("the other bank has not booked it")


def debit(other, amount):
    """Transfers an amount."""
    global balance
    with lock:
        balance -= amount
        if not ORDERED:
            ask(other, amount)
    if ORDERED:
        ask(other, amount)
    print(f"debited {amount}", flush=True)


def main():
    own, other, seconds = sys.argv[1:4]
    listener = socket.create_server((own, PORT))
    booking = threading.Thread(target=credits, args=[listener])
    booking.start()
    time.sleep(float(seconds))
    debit(other, 10)
    booking.join()
    if balance != 100:
        sys.exit(f"the balance is {balance}")


main()
