//! A packet as properties see it: where, when, and what its headers say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ETHERNET: usize = 14;

/// What happens to a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The interface has sent it, and the wire does not have it yet.
    Departure,
    /// The wire has carried it, and the interface does not have it yet.
    Arrival,
    /// The wire has lost it, or the stack of the interface's machine has dropped it.
    Loss,
}

/// A packet at an interface.
#[derive(Debug)]
pub struct Packet<'a> {
    /// On the clock of the machines, ns.
    pub time: u64,
    /// The interface: its place in [`World::ends`](crate::World::ends).
    pub end: usize,
    /// What happens to it.
    pub point: Point,
    /// The frame, from its Ethernet header on.
    pub frame: &'a [u8],
    /// What it says, if it is a whole TCP segment.
    pub tcp: Option<Segment<'a>>,
    /// It is on the machine that has sent it, or that it is for; not at a router between.
    pub at_end: bool,
    /// Its `struct tcp_sock` on this machine: of the connection that has sent it, or that it comes
    /// for. Empty: it has none. [`World::field`](crate::World::field) reads it.
    pub socket: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Its segment, and the connection on this machine that it is of, by its own address and its
    /// peer's. `None`: it is no TCP segment, or is lost.
    pub fn connection(&self) -> Option<(Segment<'a>, SocketAddr, SocketAddr)> {
        let segment = self.tcp?;
        match self.point {
            Point::Departure => Some((segment, segment.from, segment.to)),
            Point::Arrival => Some((segment, segment.to, segment.from)),
            Point::Loss => None,
        }
    }
}

#[cfg(test)]
impl<'a> Packet<'a> {
    /// A segment at an end of its connection, for tests of properties.
    pub(crate) fn at_end_of(
        segment: Segment<'a>,
        end: usize,
        point: Point,
        time: u64,
    ) -> Packet<'a> {
        Packet {
            time,
            end,
            point,
            frame: &[],
            tcp: Some(segment),
            at_end: true,
            socket: &[],
        }
    }

    /// The same with its `struct tcp_sock` ([`World::socket`](crate::World)).
    pub(crate) fn of_socket(mut self, socket: &'a [u8]) -> Packet<'a> {
        self.socket = socket;
        self
    }
}

#[cfg(test)]
impl<'a> Segment<'a> {
    /// A segment without options, between two addresses, for tests of properties.
    pub(crate) fn of(
        ends: (SocketAddr, SocketAddr),
        flags: u8,
        seq: u32,
        ack: u32,
        data: &'a [u8],
    ) -> Segment<'a> {
        Segment {
            from: ends.0,
            to: ends.1,
            seq,
            ack,
            flags,
            window: 100,
            options: &[],
            data,
        }
    }
}

/// A TCP segment's header (RFC 9293, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Where it comes from.
    pub from: SocketAddr,
    /// Where it goes to.
    pub to: SocketAddr,
    /// Its sequence number.
    pub seq: u32,
    /// Its acknowledgement number; means nothing without the flag.
    pub ack: u32,
    /// Its flags: [`Segment::FIN`] and so on.
    pub flags: u8,
    /// Its window, not scaled.
    pub window: u16,
    /// Its options as they are.
    pub options: &'a [u8],
    /// Its bytes.
    pub data: &'a [u8],
}

impl Segment<'_> {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Sequence numbers begin.
    pub const SYN: u8 = 0x02;
    /// The connection is to be reset.
    pub const RST: u8 = 0x04;
    /// The data is to be pushed on.
    pub const PSH: u8 = 0x08;
    /// `ack` means something.
    pub const ACK: u8 = 0x10;

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// How many sequence numbers it takes: its bytes, SYN and FIN.
    pub fn length(&self) -> u32 {
        let flags = u32::from(self.has(Self::SYN)) + u32::from(self.has(Self::FIN));
        self.data.len() as u32 + flags
    }

    /// The sequence number behind it.
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.length())
    }
}

/// How far a sequence number is behind another, modulo 2^32; negative: before it.
pub fn behind(seq: u32, other: u32) -> i32 {
    seq.wrapping_sub(other) as i32
}

/// Whether two parts of the sequence numbers, each from one up to but not with another, have any in
/// common.
pub(crate) fn overlap(one: (u32, u32), other: (u32, u32)) -> bool {
    behind(one.1, other.0) > 0 && behind(other.1, one.0) > 0
}

/// The first sequence number from one on that is in none of such parts.
pub(crate) fn first_outside(parts: &[(u32, u32)], mut from: u32) -> u32 {
    let has = |at: u32, part: &&(u32, u32)| behind(at, part.0) >= 0 && behind(part.1, at) > 0;
    // Each part once: those of a broken peer may go around all sequence numbers.
    for _ in parts {
        match parts.iter().find(|part| has(from, part)) {
            Some((_, end)) => from = *end,
            None => break,
        }
    }
    from
}

/// An IP packet's protocol, its ends, and what it carries; `None`: it is none, or a fragment.
pub fn internet(frame: &[u8]) -> Option<(u8, IpAddr, IpAddr, &[u8])> {
    let packet = frame.get(ETHERNET..)?;
    match frame.get(12..ETHERNET)? {
        [0x08, 0x00] => {
            let header = usize::from(packet.first()? & 15) * 4;
            let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
            let fragment = u16::from_be_bytes(packet.get(6..8)?.try_into().ok()?) & 0x3fff;
            if fragment != 0 {
                return None;
            }
            let ends = packet.get(12..20)?;
            let four = |at: usize| -> Option<IpAddr> {
                let bytes: [u8; 4] = ends[at..at + 4].try_into().ok()?;
                Some(Ipv4Addr::from(bytes).into())
            };
            // A packet that is segmented later may be longer than its header can say.
            let end = if total == 0 { packet.len() } else { total };
            let rest = packet.get(header..end.min(packet.len()))?;
            Some((*packet.get(9)?, four(0)?, four(4)?, rest))
        }
        [0x86, 0xdd] => {
            let ends = packet.get(8..40)?;
            let sixteen = |at: usize| -> Option<IpAddr> {
                let bytes: [u8; 16] = ends[at..at + 16].try_into().ok()?;
                Some(Ipv6Addr::from(bytes).into())
            };
            let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
            let end = if length == 0 {
                packet.len()
            } else {
                40 + length
            };
            let rest = packet.get(40..end.min(packet.len()))?;
            Some((*packet.get(6)?, sixteen(0)?, sixteen(16)?, rest))
        }
        _ => None,
    }
}

/// Reads a TCP segment.
pub fn segment(frame: &[u8]) -> Option<Segment<'_>> {
    let (protocol, from, to, bytes) = internet(frame)?;
    if i32::from(protocol) != libc::IPPROTO_TCP {
        return None;
    }
    let header = bytes.get(..20)?;
    let two = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let four = |at: usize| u32::from(two(at)) << 16 | u32::from(two(at + 2));
    let length = usize::from(header[12] >> 4) * 4;
    Some(Segment {
        from: SocketAddr::new(from, two(0)),
        to: SocketAddr::new(to, two(2)),
        seq: four(4),
        ack: four(8),
        flags: header[13],
        window: two(14),
        options: bytes.get(20..length)?,
        data: bytes.get(length..)?,
    })
}

/// Whether the fates of a packet are searched: TCP, UDP and SCTP, over either IP.
pub fn is_searched(frame: &[u8]) -> bool {
    let searched = [libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_SCTP];
    internet(frame).is_some_and(|(protocol, ..)| searched.contains(&i32::from(protocol)))
}

/// The same for a breakpoint, as in pcap-filter(7).
pub const SEARCHED: &str = "tcp or udp or sctp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_read() {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00]);
        frame.extend([0x45, 0, 0, 43, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x80, 0, 0, 80, 0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x19, 1, 0]);
        frame.extend([0, 0, 0, 0]);
        frame.extend(b"abc");
        // Padding of a short frame.
        frame.extend([0; 5]);
        let segment = segment(&frame).expect("a segment");
        assert_eq!(segment.from, "10.0.0.1:32768".parse().unwrap());
        assert_eq!(segment.to, "10.0.0.2:80".parse().unwrap());
        assert_eq!((segment.seq, segment.ack, segment.window), (5, 9, 256));
        assert_eq!((segment.data, segment.end()), (&b"abc"[..], 9));
        assert!(segment.has(Segment::FIN) && is_searched(&frame));
        assert!(!is_searched(&frame[..20]));
        assert_eq!(behind(3, u32::MAX), 4);
    }

    #[test]
    fn parts_are_gone_through_in_any_order() {
        let parts = [(20, 30), (u32::MAX, 10), (5, 20), (40, 50)];
        assert_eq!(first_outside(&parts, u32::MAX), 30);
        assert_eq!(first_outside(&parts, 30), 30);
        assert_eq!(first_outside(&[], 7), 7);
        // They go around all numbers.
        let third = u32::MAX / 3;
        let around = [(0, third), (third, 2 * third), (2 * third, 0)];
        assert_eq!(first_outside(&around, 0), 0);
    }
}
