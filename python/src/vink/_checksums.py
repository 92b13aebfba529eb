"""The checksums of a frame that was changed: IPv4's own, and those of TCP, UDP, ICMP and ICMPv6 in it."""

from __future__ import annotations

ETHERNET = 14
IPV4, IPV6 = 0x0800, 0x86DD
ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
# Where a protocol has its checksum.
PLACES = {ICMP: 2, TCP: 16, UDP: 6, ICMPV6: 2}


def checksum(data: bytes) -> int:
    """That of RFC 1071."""
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0")) for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def with_checksums(frame: bytes) -> bytes:
    """The frame with right checksums. What is not understood stays: other protocols, fragments, extension headers."""
    kind = int.from_bytes(frame[12:ETHERNET])
    packet = bytearray(frame[ETHERNET:])
    if kind == IPV4 and len(packet) >= 20:
        header = (packet[0] & 15) * 4
        end = int.from_bytes(packet[2:4])
        packet[10:12] = b"\0\0"
        packet[10:12] = checksum(bytes(packet[:header])).to_bytes(2)
        protocol, addresses = packet[9], packet[12:20]
        is_fragment = int.from_bytes(packet[6:8]) & 0x3FFF != 0
    elif kind == IPV6 and len(packet) >= 40:
        header, end = 40, 40 + int.from_bytes(packet[4:6])
        protocol, addresses = packet[6], packet[8:40]
        is_fragment = False
    else:
        return frame
    place = header + PLACES.get(protocol, 0)
    if protocol in PLACES and not is_fragment and place + 2 <= end <= len(packet):
        pseudo = b"" if protocol == ICMP else addresses + (end - header).to_bytes(4) + protocol.to_bytes(4)
        packet[place : place + 2] = b"\0\0"
        found = checksum(bytes(pseudo + packet[header:end]))
        # No checksum is what 0 means with UDP.
        packet[place : place + 2] = ((found or 0xFFFF) if protocol == UDP else found).to_bytes(2)
    return frame[:ETHERNET] + bytes(packet)
