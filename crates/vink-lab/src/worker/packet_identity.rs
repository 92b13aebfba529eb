//! What of a packet stays the same from hop to hop, as two numbers: which packet it is, and which
//! flow it belongs to.
//!
//! Routers change TTL, checksums and Ethernet addresses; offloads leave checksums undone. All else of
//! the headers, and the first bytes behind them, go into the packet's number, so that a share of
//! packets chosen by it is the same on each hop (trajectory sampling: Duffield and Grossglauser, 2000;
//! RFC 5475, 6.2).

const ETHERNET: usize = 12;
const VLAN: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Bytes behind the last header that is known.
const PAYLOAD: usize = 16;
/// ... of what is neither IPv4 nor IPv6.
const OTHER: usize = 32;

/// The two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketIdentity {
    /// The packet's.
    pub(super) packet: u32,
    /// The flow's, the same in both directions; 0: it is of none.
    pub(super) flow: u32,
}

/// Mixes words of 64 bits: fast, and every bit of the result depends on every bit that came in.
struct Mix(u64);

impl Mix {
    fn new() -> Mix {
        Mix(0x9e37_79b9_7f4a_7c15)
    }

    fn word(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0xd6e8_feb8_6659_fd93;
        self.0 = (wide as u64) ^ (wide >> 64) as u64 ^ self.0.rotate_left(23);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn done(mut self) -> u32 {
        self.word(0);
        (self.0 >> 32) as u32
    }
}

impl PacketIdentity {
    /// Of a packet that begins with these bytes, the Ethernet header first.
    pub(super) fn of(frame: &[u8]) -> PacketIdentity {
        let mut mix = Mix::new();
        let mut at = ETHERNET;
        while VLAN.contains(&half(frame, at)) {
            at += 4;
        }
        let kind = half(frame, at);
        let inner = frame.get(at + 2..).unwrap_or_default();
        let flow = match (kind, inner.first().map(|byte| byte >> 4)) {
            (IPV4, Some(4)) if inner.len() >= 20 => of_ipv4(&mut mix, inner),
            (IPV6, Some(6)) if inner.len() >= 40 => of_ipv6(&mut mix, inner),
            _ => {
                mix.word(kind.into());
                mix.bytes(&inner[..inner.len().min(OTHER)]);
                0
            }
        };
        let packet = mix.done();
        PacketIdentity { packet, flow }
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

fn of_ipv4(mix: &mut Mix, ip: &[u8]) -> u32 {
    let (source, target) = (&ip[12..16], &ip[16..20]);
    mix.bytes(&ip[12..20]);
    // Identification, flags, and offset.
    mix.bytes(&ip[4..8]);
    let inner = ip.get(usize::from(ip[0] & 15) * 4..).unwrap_or_default();
    let is_first = half(ip, 6) & 0x1fff == 0;
    of_transport(mix, ip[9], inner, source, target, is_first)
}

fn of_ipv6(mix: &mut Mix, ip: &[u8]) -> u32 {
    mix.bytes(&ip[8..40]);
    // The flow's label.
    mix.bytes(&ip[1..4]);
    of_transport(mix, ip[6], &ip[40..], &ip[8..24], &ip[24..40], true)
}

/// What is behind the network's header. Returns the flow.
fn of_transport(
    mix: &mut Mix,
    protocol: u8,
    inner: &[u8],
    source: &[u8],
    target: &[u8],
    has_header: bool,
) -> u32 {
    mix.word(protocol.into());
    // Where its header ends, and the checksum is.
    let known = match protocol {
        TCP => Some((usize::from(inner.get(12).unwrap_or(&0x50) >> 4) * 4, 16)),
        UDP => Some((8, 6)),
        ICMP | ICMPV6 => Some((8, 2)),
        _ => None,
    };
    let known = known.filter(|_| has_header);
    let (header, checksum) = known.unwrap_or((0, usize::MAX));
    let some = &inner[..inner.len().min(header + PAYLOAD)];
    match some.get(..checksum.min(some.len())) {
        Some(before) if checksum < some.len() => {
            mix.bytes(before);
            mix.bytes(some.get(checksum + 2..).unwrap_or_default());
        }
        _ => mix.bytes(some),
    }
    let ports = match protocol {
        TCP | UDP if has_header => (half(inner, 0), half(inner, 2)),
        _ => (0, 0),
    };
    let mut sides = [(source, ports.0), (target, ports.1)];
    sides.sort_unstable();
    let mut flow = Mix::new();
    flow.word(protocol.into());
    for (address, port) in sides {
        flow.bytes(address);
        flow.word(port.into());
    }
    flow.done().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.1:1000 to 10.0.0.2:53, with this TTL, checksum and payload.
    fn udp(ttl: u8, checksum: u8, payload: u8) -> Vec<u8> {
        let mut frame = vec![ttl; 12];
        frame.extend([0x08, 0]);
        frame.extend([0x45, 0, 0, 32, 1, 2, 0x40, 0, ttl, 17, checksum, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x03, 0xe8, 0, 53, 0, 12, checksum, 0, 1, 2, 3, payload]);
        frame
    }

    #[test]
    fn a_packet_is_the_same_on_each_hop() {
        let here = PacketIdentity::of(&udp(64, 1, 4));
        assert_eq!(here, PacketIdentity::of(&udp(63, 2, 4)));
        let mut tagged = udp(62, 3, 4);
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(here, PacketIdentity::of(&tagged));
        let other = PacketIdentity::of(&udp(64, 1, 5));
        assert_ne!(here.packet, other.packet);
        assert_eq!(here.flow, other.flow);
        let mut back = udp(64, 1, 4);
        back[26..34].rotate_left(4);
        back[34..38].rotate_left(2);
        let back = PacketIdentity::of(&back);
        assert_ne!(here.packet, back.packet);
        assert_eq!(here.flow, back.flow);
    }

    #[test]
    fn what_is_cut_short_has_one_too() {
        let whole = udp(64, 1, 4);
        for len in 0..whole.len() {
            let _ = PacketIdentity::of(&whole[..len]);
        }
        assert_eq!(PacketIdentity::of(&whole[..20]).flow, 0);
    }

    #[test]
    fn shares_are_even() {
        let mut frame = udp(64, 1, 4);
        let mut counts = [0u32; 8];
        for n in 0..8000u16 {
            frame[18..20].copy_from_slice(&n.to_be_bytes());
            counts[(PacketIdentity::of(&frame).packet >> 29) as usize] += 1;
        }
        for count in counts {
            assert!((880..1120).contains(&count), "{counts:?}");
        }
    }
}
