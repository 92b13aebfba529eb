# "receive" notes what groups get in the file "received"; "send" sends to them.
import os
import selectors
import socket
import struct
import sys

PORT = 7100
eth0 = socket.if_nametoindex("eth0")


def v4(group):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((group, PORT))
    return s


def receive():
    any_source = v4("239.1.1.1")
    request = struct.pack("4s4si", socket.inet_aton("239.1.1.1"), bytes(4), eth0)
    any_source.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    one_source = v4("239.1.1.2")
    IP_ADD_SOURCE_MEMBERSHIP = 39
    request = b"".join(map(socket.inet_aton, ("239.1.1.2", os.environ["SERVER"], os.environ["CLIENT"])))
    one_source.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, request)
    other_source = v4("239.1.1.3")
    request = b"".join(map(socket.inet_aton, ("239.1.1.3", os.environ["SERVER"], "10.0.0.77")))
    other_source.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, request)
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    six.bind(("::", PORT + 1))
    request = socket.inet_pton(socket.AF_INET6, "ff15::1") + struct.pack("i", eth0)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    print("joined", flush=True)

    names = {any_source: "any source", one_source: "one source", other_source: "another source", six: "IPv6"}
    selector = selectors.DefaultSelector()
    for s in names:
        selector.register(s, selectors.EVENT_READ)
    seen = []
    while True:
        for key, _ in selector.select():
            s = key.fileobj
            data, control, _, address = s.recvmsg(100, 100)
            hops = [struct.unpack("i", value)[0] for _, kind, value in control if kind == socket.IPV6_HOPLIMIT]
            seen.append(f"{names[s]}: {data.decode()} from {address[0]} {hops}")
            if data == b"end":
                with open("received.new", "w") as f:
                    f.write("\n".join(sorted(seen)) + "\n")
                os.rename("received.new", "received")


def send():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    request = struct.pack("4s4si", bytes(4), bytes(4), eth0)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
    for ttl in 0, 1, 5:  # with 0 it does not leave the computer
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        for last in 1, 2, 3, 4:
            s.sendto(b"ttl %d" % ttl, (f"239.1.1.{last}", PORT))
    own = v4("239.1.1.1")
    own.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.1.1") + request[4:])
    own.setblocking(False)
    for loop in 0, 1:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, loop)
        s.sendto(b"loop %d" % loop, ("239.1.1.1", PORT))
    print("comes back:", own.recv(100))
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 7)
    six.sendto(b"hello", ("ff15::1", PORT + 1, 0, eth0))
    s.sendto(b"end", ("239.1.1.1", PORT))


{"receive": receive, "send": send}[sys.argv[1]]()
