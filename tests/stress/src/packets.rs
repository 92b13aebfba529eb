//! Ethernet frames, good ones and malformed ones, and what `struct virtio_net_hdr` may say of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vink_port::{HEADER, LARGEST_SHARED};

use crate::random::Random;

/// A machine and a process at one wire: 10.0.N.1 and 10.0.N.2, fd00:N::1 and fd00:N::2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    number: u8,
    pub(crate) machine: [u8; 6],
    peer: [u8; 6],
}

pub(crate) const GOOD: Link = Link::new(1);
pub(crate) const BAD: Link = Link::new(2);

const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
const VLAN: [u8; 2] = [0x81, 0x00];
const ICMP: u8 = 1;
const NEEDS_CSUM: u8 = 1;
/// Of Ethernet, and of IPv4 without options.
const ETHERNET: usize = 14;
const IP: usize = 20;

/// IP protocols that the kernel knows: ICMP, IGMP, IPIP, TCP, UDP, IPv6, routing and fragment
/// headers, GRE, ESP, AH, ICMPv6, destination options, SCTP, UDP-Lite; and one that it does not.
const PROTOCOLS: [u8; 18] = [
    0, ICMP, 2, 4, 6, 6, 17, 17, 41, 43, 44, 47, 50, 51, 58, 60, 132, 253,
];
/// Bytes that mean something in headers: versions, types, options, flags.
const WORDS: [&str; 8] = [
    "\0",
    "\0\0\0\0",
    "E",
    "F",
    "`",
    "\u{1}\u{8}",
    "\u{7f}\u{7f}",
    "\u{5}",
];
/// Bytes behind the headers.
const LENGTHS: [usize; 10] = [0, 1, 7, 8, 20, 60, 512, 1480, 9000, 64000];

impl Link {
    const fn new(number: u8) -> Link {
        Link {
            number,
            machine: [2, 0, 0, 0, number, 1],
            peer: [2, 0, 0, 0, number, 2],
        }
    }

    /// The machine's, with their prefixes' lengths.
    pub(crate) fn addresses(self) -> [(IpAddr, u8); 2] {
        [
            (self.ipv4(1).into(), 24),
            (Ipv6Addr::from(self.ipv6(1)).into(), 64),
        ]
    }

    fn ipv4(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, self.number, host)
    }

    fn ipv6(self, host: u8) -> [u8; 16] {
        let mut address = [0; 16];
        (address[0], address[3], address[15]) = (0xfd, self.number, host);
        address
    }

    /// From the process to the machine.
    fn ethernet(self, kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
        [&self.machine[..], &self.peer, &kind, payload].concat()
    }

    fn over_ipv4(self, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
        let length = (IP + payload.len()) as u16;
        let mut header = [0; IP];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        (header[8], header[9]) = (64, protocol);
        header[12..16].copy_from_slice(&self.ipv4(2).octets());
        header[16..20].copy_from_slice(&self.ipv4(1).octets());
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        self.ethernet(IPV4, &[&header, payload].concat())
    }

    fn over_ipv6(self, next: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u16;
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(length.to_be_bytes());
        header.extend([next, 255]);
        header.extend(self.ipv6(2));
        header.extend(self.ipv6(1));
        self.ethernet(IPV6, &[&header, payload].concat())
    }
}

/// RFC 1071's.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

/// The process asks for the machine's Ethernet address (RFC 826).
pub(crate) fn arp_request(link: Link) -> Vec<u8> {
    let mut request = vec![0, 1, 8, 0, 6, 4, 0, 1];
    request.extend(link.peer);
    request.extend(link.ipv4(2).octets());
    request.extend([0; 6]);
    request.extend(link.ipv4(1).octets());
    link.ethernet(ARP, &request)
}

/// Of ICMP (RFC 792).
pub(crate) fn echo_request(link: Link, number: u16) -> Vec<u8> {
    let mut request = [8, 0, 0, 0, 0, 0, 0, 0];
    request[6..].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    link.over_ipv4(ICMP, 0, &request)
}

/// Whether a frame is the answer to it.
pub(crate) fn is_echo_reply(frame: &[u8], number: u16) -> bool {
    let Some((headers, reply)) = frame.split_at_checked(ETHERNET + IP) else {
        return false;
    };
    headers[12..14] == IPV4
        && headers[ETHERNET + 9] == ICMP
        && reply.first() == Some(&0)
        && reply.get(6..8) == Some(&number.to_be_bytes())
}

/// A frame to the machine with something wrong in it, of a length that a ring takes.
pub(crate) fn malformed(random: &mut Random) -> Vec<u8> {
    let payload = payload(random);
    let protocol = random.pick(&PROTOCOLS);
    let mut frame = match random.below(6) {
        0 => arp_request(BAD),
        1 | 2 => {
            // Whole, or a fragment at any place, which may be too small or lie over another one.
            let fragment = match random.chance(30) {
                true => (random.next() >> random.below(64)) as u16 & 0x3fff,
                false => 0,
            };
            BAD.over_ipv4(protocol, fragment, &payload)
        }
        3 | 4 => BAD.over_ipv6(protocol, &payload),
        _ => BAD.ethernet((random.next() as u16).to_be_bytes(), &payload),
    };
    for _ in 0..random.below(3) * random.below(2) {
        let tag = random.next().to_be_bytes();
        let tag = [VLAN[0], VLAN[1], tag[0], tag[1]];
        frame.splice(12..12, tag);
    }
    if random.chance(60) {
        // Most mistakes are to be in headers, and none in the addresses of Ethernet.
        let (headers, rest) = frame.split_at(frame.len().min(100));
        let changed = random.with_mistakes(&headers[12..], &WORDS);
        frame = [&headers[..12], &changed, rest].concat();
    }
    frame.truncate(LARGEST_SHARED);
    frame.resize(frame.len().max(ETHERNET), 0);
    frame
}

/// Bytes that begin as ports, types and chains of headers do.
fn payload(random: &mut Random) -> Vec<u8> {
    let length = random.pick(&LENGTHS);
    let mut payload: Vec<u8> = (0..length)
        .map(|at| match at {
            0..64 => (random.next() >> random.below(64)) as u8,
            _ => at as u8,
        })
        .collect();
    if let Some(first) = payload.first_mut() {
        *first = random.pick(&PROTOCOLS);
    }
    payload
}

/// What `struct virtio_net_hdr` says of a frame, often what could be true.
pub(crate) fn header(random: &mut Random, frame: &[u8]) -> [u8; HEADER] {
    if random.chance(30) {
        return [0; HEADER];
    }
    let near = |random: &mut Random, value: u64| match random.below(4) {
        0 => random.next() >> random.below(64),
        1 => value.wrapping_add(random.below(5)).wrapping_sub(2),
        _ => value,
    };
    let is_ipv6 = frame[12..14] == IPV6;
    let network = if is_ipv6 { 40 } else { IP };
    let start = (ETHERNET + network) as u64;
    let gso = random.pick(&[0, 0, 1, 1, 3, 4, 4, 5, 0x81, 0x84, 2]);
    let offset = random.pick(&[16, 6, 2]);
    let words = [start + 20, 1448, start, offset].map(|value| near(random, value) as u16);
    let mut header = [0; HEADER];
    header[0] = random.pick(&[NEEDS_CSUM, NEEDS_CSUM, 0, 2, 3, 0xff]);
    header[1] = gso;
    for (at, word) in words.into_iter().enumerate() {
        header[2 + 2 * at..4 + 2 * at].copy_from_slice(&word.to_le_bytes());
    }
    header
}
