//! What a packet is at a glance: its class, and numbers by which it and its flow are known on each
//! hop.
//!
//! Addresses of Ethernet, times to live and checksums change on the way, so they are left out.

/// The classes of packets, by number. [`MARKS`] follow them where both are counted.
pub const CLASSES: [&str; 8] = [
    "other",
    "arp",
    "icmp",
    "tcp-handshake",
    "tcp",
    "tcp-again",
    "udp",
    "routing",
];

/// A packet at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The place of its class in [`CLASSES`].
    pub class: u8,
    /// The same on each hop.
    pub id: u32,
    /// The same for both directions of its flow; 0: it has none.
    pub flow: u32,
}

/// FNV-1a.
fn hash(of: &[&[u8]]) -> u32 {
    let bytes = of.iter().flat_map(|part| part.iter());
    bytes.fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Looks at an Ethernet frame, as far as it is there.
pub fn look(frame: &[u8]) -> Look {
    let other = Look {
        id: hash(&[frame]),
        ..Look::default()
    };
    let half = |at: usize| {
        let bytes = frame.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let mut at = 12;
    // VLANs: 802.1Q and 802.1ad.
    while matches!(half(at), Some(0x8100 | 0x88a8)) {
        at += 4;
    }
    let rest = frame.get(at + 2..).unwrap_or_default();
    let found = match half(at) {
        Some(0x0806) => Some(Look { class: 1, ..other }),
        Some(0x0800) => ipv4(rest),
        Some(0x86dd) => ipv6(rest),
        _ => None,
    };
    found.unwrap_or(other)
}

fn ipv4(ip: &[u8]) -> Option<Look> {
    let header = usize::from(ip.first()? & 15) * 4;
    let is_first = (u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1fff) == 0;
    let rest = ip.get(header..).unwrap_or_default();
    let identifier = ip.get(4..8)?;
    let (from, to) = (ip.get(12..16)?, ip.get(16..20)?);
    Some(transport(*ip.get(9)?, from, to, identifier, rest, is_first))
}

fn ipv6(ip: &[u8]) -> Option<Look> {
    let mut next = *ip.get(6)?;
    let mut rest = ip.get(40..)?;
    // Extension headers: hop-by-hop, routing, destination options.
    while matches!(next, 0 | 43 | 60) {
        let length = usize::from(*rest.get(1)?) * 8 + 8;
        next = *rest.first()?;
        rest = rest.get(length..)?;
    }
    let (from, to) = (ip.get(8..24)?, ip.get(24..40)?);
    Some(transport(next, from, to, &[], rest, true))
}

/// `rest` is what is behind the network's header; `is_first`: it begins with the transport's.
fn transport(
    protocol: u8,
    from: &[u8],
    to: &[u8],
    identifier: &[u8],
    rest: &[u8],
    is_first: bool,
) -> Look {
    let port = |at: usize| match (is_first, matches!(protocol, 6 | 17)) {
        (true, true) => rest.get(at..at + 2).unwrap_or_default(),
        _ => &[],
    };
    let is = |number: u16| [port(0), port(2)].contains(&&number.to_be_bytes()[..]);
    let class = match protocol {
        // Neighbour and router discovery.
        58 if is_first && matches!(rest.first(), Some(133..=137)) => 1,
        1 | 58 => 2,
        89 => 7,
        6 if is(179) => 7,
        17 if is(520) || is(521) => 7,
        // SYN, FIN, RST
        6 if rest.get(13).is_some_and(|bits| is_first && bits & 7 != 0) => 3,
        6 => 4,
        17 => 6,
        _ => 0,
    };
    // The transport's checksum does not change on the way, but where addresses are translated.
    let start = &rest[..rest.len().min(24)];
    let ends = [(from, port(0)), (to, port(2))];
    let (one, other) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    Look {
        class,
        id: hash(&[&[protocol], from, to, identifier, start]),
        flow: hash(&[&[protocol], one.0, one.1, other.0, other.1]).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP segment from port 80 of 10.0.0.1 to port 5000 of 10.0.0.2, or back.
    fn segment(back: bool, bits: u8, ttl: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 7, 0, 0, ttl, 6, 0, 0]);
        let mut ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let mut ports = [80_u16, 5000];
        if back {
            ends.reverse();
            ports.reverse();
        }
        frame.extend(ends.concat());
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, bits, 1, 1, 0, 0, 0, 0]);
        frame
    }

    #[test]
    fn a_flow_is_known_in_both_directions_and_a_packet_on_each_hop() {
        let there = look(&segment(false, 0x10, 64));
        let back = look(&segment(true, 0x10, 64));
        assert_eq!((there.class, back.class), (4, 4));
        assert!(there.flow == back.flow && there.flow != 0 && there.id != back.id);
        assert_eq!(look(&segment(false, 0x10, 63)), there);
        assert_eq!(look(&segment(false, 0x12, 64)).class, 3);
        let mut tagged = segment(false, 0x10, 64);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(look(&tagged), there);
    }

    #[test]
    fn what_is_cut_short_has_a_look_too() {
        let whole = segment(false, 2, 64);
        for end in 0..whole.len() {
            assert!(usize::from(look(&whole[..end]).class) < CLASSES.len());
        }
        let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
        assert_eq!(look(&arp).class, 1);
    }
}
