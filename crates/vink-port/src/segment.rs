//! What a `struct virtio_net_hdr` says is left to be done for a frame, done here: its checksum, and
//! cutting it into packets. For backends that have frames as they are on a cable.
//!
//! The header comes from another process, and may say anything: a frame that it does not fit is no
//! frame.

use crate::backend::HEADER;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// UDP's segmentation, of either IP.
pub(crate) const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Of Ethernet, up to the type.
const ADDRESSES: usize = 12;
/// TCP's least maximum segment size, as Linux has it, in bytes.
const LEAST_MSS: usize = 48;
/// The most that UDP is cut into.
const MOST_DATAGRAMS: usize = 128;

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The type of segmentation that the header asks for.
pub(crate) fn gso_type(header: &[u8; HEADER]) -> u8 {
    header[1] & !GSO_ECN
}

/// Hands over the frames that this one is on a cable, complete. False: it is none, or not by this
/// header.
pub fn complete(header: &[u8; HEADER], frame: &mut [u8], out: &mut dyn FnMut(&[u8])) -> bool {
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]).into();
    let [_headers, size, start, offset]: [usize; 4] = [2, 4, 6, 8].map(half);
    let needs = header[0] & NEEDS_CSUM != 0;
    let kind = gso_type(header);
    if kind == GSO_NONE {
        if needs && !finish(frame, start, offset) {
            return false;
        }
        out(frame);
        return true;
    }
    let cut = match needs {
        true => Cut::new(frame, kind, size, start),
        // All that is segmented has a checksum to be filled in.
        false => None,
    };
    match cut {
        Some(cut) => {
            cut.go(frame, out);
            true
        }
        None => false,
    }
}

/// Fills in a checksum whose field has that of the pseudo header.
fn finish(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let at = start + offset;
    if at + 2 > frame.len() {
        return false;
    }
    let sum = folded(sum(&frame[start..]));
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// RFC 1071's sum of big-endian words.
fn sum(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let words = pairs
        .by_ref()
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])));
    let all: u64 = words.sum();
    all + pairs
        .remainder()
        .first()
        .map_or(0, |last| u64::from(*last) << 8)
}

/// The checksum that a sum makes. Never 0, which means none to UDP; to others it is the same.
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        other => other,
    }
}

/// RFC 1071's checksum over parts, each but the last of an even number of bytes.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    folded(parts.iter().map(|part| sum(part)).sum())
}

/// The header of a frame that was not segmented: its checksum is to be filled in if its field has the sum of the pseudo
/// header alone, as Linux leaves it to hardware. By chance a whole checksum looks so once in 65,536 packets, and is taken for
/// right.
pub(crate) fn partial(frame: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    if let Some((start, offset)) = find_partial(frame) {
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&(start as u16).to_le_bytes());
        header[8..10].copy_from_slice(&(offset as u16).to_le_bytes());
    }
    header
}

/// Where TCP's or UDP's header starts, and where its checksum is in it.
fn find_partial(frame: &[u8]) -> Option<(usize, usize)> {
    const IP: usize = ADDRESSES + 2;
    let half = |at: usize| {
        let bytes = frame.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let (protocol, start, length, addresses) = match half(ADDRESSES)? {
        // No fragment.
        0x0800 if half(IP + 6)? & 0x3fff == 0 => {
            let size = usize::from(frame[IP] & 15) * 4;
            let length = half(IP + 2)?.checked_sub(size as u16)?;
            (
                *frame.get(IP + 9)?,
                IP + size,
                length,
                frame.get(IP + 12..IP + 20)?,
            )
        }
        0x86dd => (
            *frame.get(IP + 6)?,
            IP + 40,
            half(IP + 4)?,
            frame.get(IP + 8..IP + 40)?,
        ),
        _ => return None,
    };
    let offset = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let pseudo = sum(addresses) + u64::from(protocol) + u64::from(length);
    (half(start + offset)? == !folded(pseudo)).then_some((start, offset))
}

/// How a frame is cut.
struct Cut {
    /// Where the IP header starts, where that of TCP or UDP does, and where the data does.
    ip: usize,
    transport: usize,
    data: usize,
    is_v4: bool,
    protocol: u8,
    size: usize,
}

impl Cut {
    fn new(frame: &[u8], kind: u8, size: usize, transport: usize) -> Option<Cut> {
        let mut ip = ADDRESSES;
        let half = |at: usize| {
            let bytes = frame.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        while matches!(half(ip)?, 0x8100 | 0x88a8) {
            ip += 4;
        }
        let is_v4 = match half(ip)? {
            0x0800 => true,
            0x86dd => false,
            _ => return None,
        };
        ip += 2;
        let shortest = if is_v4 { 20 } else { 40 };
        let (protocol, length) = match kind {
            GSO_TCPV4 | GSO_TCPV6 if is_v4 == (kind == GSO_TCPV4) => {
                (TCP, usize::from(frame.get(transport + 12)? >> 4) * 4)
            }
            GSO_UDP_L4 => (UDP, 8),
            _ => return None,
        };
        let data = transport + length;
        let payload = frame.len().checked_sub(data)?;
        let fits = match protocol {
            TCP => length >= 20 && size >= LEAST_MSS,
            _ => size > 0 && payload.div_ceil(size) <= MOST_DATAGRAMS,
        };
        // A packet of IP has at most 65535 bytes, also with all of its data.
        let fits = fits && ip + shortest <= transport && data - ip + size <= 65535;
        fits.then_some(Cut {
            ip,
            transport,
            data,
            is_v4,
            protocol,
            size,
        })
    }

    fn go(&self, frame: &[u8], out: &mut dyn FnMut(&[u8])) {
        let (headers, payload) = frame.split_at(self.data);
        let count = payload.len().div_ceil(self.size).max(1);
        let mut packet = Vec::with_capacity(self.data + self.size);
        for n in 0..count {
            let first = n * self.size;
            let last = payload.len().min(first + self.size);
            packet.clear();
            packet.extend_from_slice(headers);
            packet.extend_from_slice(&payload[first..last]);
            self.address(&mut packet, n, first, n + 1 == count);
            out(&packet);
        }
    }

    /// Makes the headers those of packet `n`, whose data starts at byte `first`.
    fn address(&self, packet: &mut [u8], n: usize, first: usize, is_last: bool) {
        let end = packet.len();
        let (ip, rest) = packet[self.ip..].split_at_mut(self.transport - self.ip);
        let length = (end - self.ip) as u16;
        let pseudo = if self.is_v4 {
            ip[2..4].copy_from_slice(&length.to_be_bytes());
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(n as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let own = folded(sum(ip));
            ip[10..12].copy_from_slice(&own.to_be_bytes());
            sum(&ip[12..20])
        } else {
            let length = (end - self.ip - 40) as u16;
            ip[4..6].copy_from_slice(&length.to_be_bytes());
            sum(&ip[8..40])
        };
        let checksum = if self.protocol == TCP {
            let number = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
            let number = number.wrapping_add(first as u32);
            rest[4..8].copy_from_slice(&number.to_be_bytes());
            if !is_last {
                rest[13] &= !(FIN | PSH);
            }
            if n > 0 {
                rest[13] &= !CWR;
            }
            16
        } else {
            let length = rest.len() as u16;
            rest[4..6].copy_from_slice(&length.to_be_bytes());
            6
        };
        rest[checksum..checksum + 2].fill(0);
        let all = pseudo + u64::from(self.protocol) + rest.len() as u64 + sum(rest);
        rest[checksum..checksum + 2].copy_from_slice(&folded(all).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of IPv4 or IPv6 with TCP or UDP and so many bytes, and where TCP or UDP starts.
    fn frame(is_v4: bool, protocol: u8, bytes: usize) -> (Vec<u8>, usize) {
        let mut frame = vec![2; ADDRESSES];
        let length = if protocol == TCP { 20 } else { 8 } + bytes;
        if is_v4 {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + length as u16).to_be_bytes());
            frame.extend([0, 7, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((length as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend((0..32).map(|n| n as u8));
        }
        let transport = frame.len();
        frame.extend([0, 1, 0, 2]);
        match protocol {
            TCP => frame.extend([0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x98 | FIN, 1, 0, 0, 0, 0, 0]),
            _ => frame.extend([0, 0, 0, 0]),
        }
        frame.extend((0..bytes).map(|n| n as u8));
        (frame, transport)
    }

    fn header(flags: u8, kind: u8, size: u16, start: u16, offset: u16) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&[flags, kind]);
        for (at, value) in [(4, size), (6, start), (8, offset)] {
            header[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        header
    }

    /// The sum over a packet's pseudo header and the rest, which is all ones if it is right.
    fn is_right(packet: &[u8], is_v4: bool, protocol: u8, transport: usize) -> bool {
        let addresses = if is_v4 { 26..34 } else { 22..54 };
        let rest = &packet[transport..];
        let all = sum(&packet[addresses]) + u64::from(protocol) + rest.len() as u64 + sum(rest);
        let whole = |sum| matches!(folded(sum), 0xffff);
        whole(all) && (!is_v4 || whole(sum(&packet[14..34])))
    }

    #[test]
    fn packets_are_right_and_together_the_whole() {
        for is_v4 in [true, false] {
            for protocol in [TCP, UDP] {
                let (mut whole, transport) = frame(is_v4, protocol, 2500);
                let kind = match (protocol, is_v4) {
                    (UDP, _) => GSO_UDP_L4,
                    (_, true) => GSO_TCPV4,
                    _ => GSO_TCPV6,
                };
                let field = if protocol == TCP { 16 } else { 6 };
                let header = header(NEEDS_CSUM, kind, 1000, transport as u16, field);
                let data = transport + if protocol == TCP { 20 } else { 8 };
                let (mut together, mut lengths) = (Vec::new(), Vec::new());
                let done = complete(&header, &mut whole, &mut |packet| {
                    assert!(is_right(packet, is_v4, protocol, transport));
                    if protocol == TCP {
                        let flags = packet[transport + 13];
                        assert_eq!(flags & FIN != 0, together.len() == 2000);
                        assert_eq!(flags & CWR != 0, together.is_empty());
                        assert_eq!(
                            packet[transport + 6..transport + 8],
                            (5 + together.len() as u16).to_be_bytes()
                        );
                    }
                    lengths.push(packet.len() - data);
                    together.extend_from_slice(&packet[data..]);
                });
                assert!(done && together == whole[data..]);
                assert_eq!(lengths, [1000, 1000, 500]);
            }
        }
    }

    #[test]
    fn a_checksum_alone() {
        let (mut whole, transport) = frame(true, UDP, 33);
        let length = (whole.len() - transport) as u16;
        whole[transport + 4..transport + 6].copy_from_slice(&length.to_be_bytes());
        let pseudo = sum(&whole[26..34]) + u64::from(UDP) + u64::from(length);
        let field = transport + 6..transport + 8;
        whole[field].copy_from_slice(&(!folded(pseudo)).to_be_bytes());
        whole[24..26].fill(0);
        let own = folded(sum(&whole[14..34]));
        whole[24..26].copy_from_slice(&own.to_be_bytes());
        let header = header(NEEDS_CSUM, 0, 0, transport as u16, 6);
        let mut seen = 0;
        assert!(complete(&header, &mut whole, &mut |packet| {
            assert!(is_right(packet, true, UDP, transport));
            seen += 1;
        }));
        assert_eq!(seen, 1);
    }

    #[test]
    fn headers_that_lie() {
        let (whole, transport) = frame(true, TCP, 300);
        let start = transport as u16;
        for lie in [
            header(0, GSO_TCPV4, 100, start, 16),
            header(NEEDS_CSUM, GSO_TCPV6, 100, start, 16),
            header(NEEDS_CSUM, GSO_TCPV4, 0, start, 16),
            header(NEEDS_CSUM, GSO_TCPV4, 1, start, 16),
            header(NEEDS_CSUM, GSO_TCPV4, 100, 0, 16),
            header(NEEDS_CSUM, GSO_TCPV4, 100, 65535, 65535),
            header(NEEDS_CSUM, GSO_TCPV4, 65535, start, 16),
            header(NEEDS_CSUM, GSO_UDP_L4, 1, start, 6),
            header(NEEDS_CSUM, 3, 100, start, 6),
            header(NEEDS_CSUM, 0x7f, 100, start, 6),
            header(NEEDS_CSUM, 0, 0, 65535, 65535),
            header(NEEDS_CSUM, 0, 0, whole.len() as u16 - 1, 0),
        ] {
            let mut frame = whole.clone();
            let refused = !complete(&lie, &mut frame, &mut |_| panic!("{lie:?}"));
            assert!(refused, "{lie:?}");
        }
        // Cut off anywhere, or of any bytes: it ends.
        for length in 0..whole.len() {
            let header = header(NEEDS_CSUM, GSO_TCPV4, 100, start, 16);
            complete(&header, &mut whole.clone()[..length], &mut |_| {});
        }
    }
}
