"""Frames by hand, on a machine of a lab: `frames.py send IF NAMES...`, `frames.py receive IF UNTIL`.

Each frame that is sent has its name in it. The receiver prints the names that it finds, up to UNTIL.
"""

import re
import socket
import struct
import sys

OTHER = bytes.fromhex("02ffffffffff")
ALL = b"\xff" * 6


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(source, name):
    """A UDP packet to 10.0.0.255."""
    payload = struct.pack("!HHHH", 7, 7, 8 + len(name), 0) + name
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton("10.0.0.255"))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ip6(source, next_header, payload, to="ff02::1"):
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload), next_header, 255,
                       socket.inet_pton(socket.AF_INET6, source),
                       socket.inet_pton(socket.AF_INET6, to)) + payload


def icmp6(source, kind, body):
    message = struct.pack("!BBH", kind, 0, 0) + body
    to = socket.inet_pton(socket.AF_INET6, "ff02::1")
    pseudo = socket.inet_pton(socket.AF_INET6, source) + to + struct.pack("!II", len(message), 58)
    message = message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]
    return ip6(source, 58, message)


def arp(mac, source):
    return struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, mac, socket.inet_aton(source), bytes(6),
                       socket.inet_aton("10.0.0.250"))


def neighbour(address):
    return bytes(4) + socket.inet_pton(socket.AF_INET6, address)


def neighbour_of(address):
    """The Ethernet address by which this machine knows another one."""
    with open("/proc/net/arp") as known:
        return next(bytes.fromhex(line.split()[3].replace(":", "")) for line in known if line.startswith(address + " "))


def to_group(name, own, link):
    """Frames for 10.0.0.100 and fd00::100, which several ports have: destination, type and content."""
    address = socket.inet_aton("10.0.0.100")
    head = struct.pack("!HHBBH6s4s", 1, 0x0800, 6, 4, 1, own, socket.inet_aton("10.0.0.1"))
    if name.startswith("who-"):
        return ALL, 0x0806, head + bytes(6) + address
    if name.startswith("asks-"):
        return ALL, 0x86DD, icmp6(link, 135, neighbour("fd00::100"))
    if not name.startswith(("again-", "is-", "lost-")):
        return None
    group = neighbour_of("10.0.0.100")
    if name.startswith("again-"):
        return group, 0x0806, head + group + address
    if name.startswith("is-"):
        return group, 0x0806, head[:7] + b"\2" + head[8:] + group + address
    return group, 0x86DD, icmp6(link, 2, bytes(4))


def frame(name, own):
    """The frame of this name, from an interface with 10.0.0.1 and fd00::1."""
    mark = f"<{name}>".encode()
    first = bytes([own[0] ^ 2])
    link = "fe80::" + socket.inet_ntop(socket.AF_INET6, bytes(8) + first + own[1:3] + b"\xff\xfe" + own[3:])[2:]
    packet = ip("10.0.0.1", mark)
    of_name = {
        "other-mac": (OTHER, 0x0800, packet),
        "other-ip": (own, 0x0800, ip("10.0.0.77", mark)),
        "no-ip": (own, 0x0800, ip("0.0.0.0", mark)),
        "cut-ip": (own, 0x0800, packet[:8]),
        "other-ip6": (own, 0x86DD, ip6("fd00::77", 59, mark)),
        "other-link": (own, 0x86DD, ip6("fe80::77", 59, mark)),
        "no-ip6": (own, 0x86DD, ip6("::", 59, mark)),
        "arp-mac": (own, 0x0806, arp(OTHER, "10.0.0.1")),
        "arp-ip": (own, 0x0806, arp(own, "10.0.0.77")),
        "nd-target": (own, 0x86DD, icmp6(link, 136, neighbour("fd00::77"))),
        "nd-router": (own, 0x86DD, icmp6(link, 134, bytes(12))),
        "tag": (own, 0x8100, struct.pack("!HH", 20, 0x0800) + packet),
        "double-tag": (own, 0x8100, struct.pack("!HHHH", 10, 0x8100, 20, 0x0800) + packet),
        "service-tag": (own, 0x88A8, struct.pack("!HH", 10, 0x0800) + packet),
        "other-type": (own, 0x88B5, mark),
        "own-arp": (own, 0x0806, arp(own, "10.0.0.1")),
        "probe": (own, 0x0806, arp(own, "0.0.0.0")),
        "own-nd": (own, 0x86DD, icmp6(link, 136, neighbour("fd00::1"))),
        "dad": (own, 0x86DD, icmp6("::", 135, neighbour("fd00::1"))),
        "own-ip6": (own, 0x86DD, ip6("fd00::1", 59, mark)),
    }
    for_group = to_group(name, own, link)
    if for_group:
        to, kind, content = for_group
        return to + own + struct.pack("!H", kind) + content + mark.rjust(60, b"\0")
    # `vlan-N-...` has the tag of VLAN N.
    tagged = re.match(r"vlan-(\d+)-", name)
    if tagged:
        made = (own, 0x8100, struct.pack("!HH", int(tagged[1]), 0x0800) + packet)
    else:
        made = of_name.get(name, (own, 0x0800, packet))
    source, kind, content = made
    return ALL + source + struct.pack("!H", kind) + content + mark.rjust(60, b"\0")


def main():
    what, interface, *rest = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as packets:
        packets.bind((interface, 3))
        own = packets.getsockname()[4]
        if what == "send":
            for name in rest:
                packets.send(frame(name, own))
            return
        print("listening", flush=True)
        while True:
            data, (_, _, direction, _, _) = packets.recvfrom(65536)
            found = re.search(rb"<([a-z0-9-]+)>", data)
            if direction == socket.PACKET_OUTGOING or not found:
                continue
            name = found[1].decode()
            print(name, flush=True)
            if name == rest[0]:
                return


main()
