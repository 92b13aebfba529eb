//! A packet in one line, in the manner of tcpdump(8).

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A line about an Ethernet frame of `length` bytes, of which these are known. One that ends early
/// is told as far as it is there.
pub fn summary(frame: &[u8], length: u32) -> String {
    let mut line = String::new();
    if ethernet(&mut line, frame, length).is_none() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str("[cut short]");
    }
    line
}

fn ethernet(line: &mut String, frame: &[u8], length: u32) -> Option<()> {
    let mut kind = half(frame, 12)?;
    let mut at = 14;
    // VLANs: 802.1Q and 802.1ad.
    while matches!(kind, 0x8100 | 0x88a8) {
        put(line, format_args!("vlan {}, ", half(frame, at)? & 0xfff));
        kind = half(frame, at + 2)?;
        at += 4;
    }
    let rest = frame.get(at..)?;
    match kind {
        0x0800 => ipv4(line, rest),
        0x86dd => ipv6(line, rest),
        0x0806 => arp(line, rest),
        0..=1500 => {
            put(line, format_args!("802.3, length {length}"));
            Some(())
        }
        _ => {
            put(
                line,
                format_args!("ethertype 0x{kind:04x}, length {length}"),
            );
            Some(())
        }
    }
}

fn arp(line: &mut String, arp: &[u8]) -> Option<()> {
    let (sender, target) = (v4(arp, 14)?, v4(arp, 24)?);
    match half(arp, 6)? {
        1 => put(line, format_args!("ARP, who-has {target} tell {sender}")),
        2 => {
            let mac = mac(arp.get(8..14)?);
            put(line, format_args!("ARP, {sender} is-at {mac}"));
        }
        other => put(line, format_args!("ARP, operation {other}")),
    }
    Some(())
}

fn ipv4(line: &mut String, ip: &[u8]) -> Option<()> {
    let header = usize::from(ip.first()? & 0xf) * 4;
    let (from, to) = (v4(ip, 12)?, v4(ip, 16)?);
    let total = usize::from(half(ip, 2)?);
    let offset = half(ip, 6)? & 0x1fff;
    if offset > 0 {
        let offset = u32::from(offset) * 8;
        put(line, format_args!("IP {from} > {to}: fragment at {offset}"));
        return Some(());
    }
    let names = ("IP", from.to_string(), to.to_string());
    // A packet larger than 64 KiB that is still to be segmented has no length.
    let payload = (total != 0).then(|| total.saturating_sub(header));
    transport(line, names, *ip.get(9)?, ip.get(header..)?, payload)
}

fn ipv6(line: &mut String, ip: &[u8]) -> Option<()> {
    let (from, to) = (v6(ip, 8)?, v6(ip, 24)?);
    let mut payload = usize::from(half(ip, 4)?);
    let mut next = *ip.get(6)?;
    let mut rest = ip.get(40..)?;
    // Extension headers: hop-by-hop, routing, destination options.
    while matches!(next, 0 | 43 | 60) {
        let length = usize::from(*rest.get(1)?) * 8 + 8;
        next = *rest.first()?;
        rest = rest.get(length..)?;
        payload = payload.saturating_sub(length);
    }
    let names = ("IP6", from.to_string(), to.to_string());
    transport(line, names, next, rest, Some(payload))
}

/// `payload` is what the network's header says is behind it.
fn transport(
    line: &mut String,
    (family, from, to): (&str, String, String),
    protocol: u8,
    rest: &[u8],
    payload: Option<usize>,
) -> Option<()> {
    let payload = payload.unwrap_or(rest.len());
    match protocol {
        6 => {
            let (source, target) = (half(rest, 0)?, half(rest, 2)?);
            put(
                line,
                format_args!("{family} {from}.{source} > {to}.{target}: TCP"),
            );
            let (offset, bits) = (*rest.get(12)?, *rest.get(13)?);
            let names = [
                (0x02, 'S'),
                (0x01, 'F'),
                (0x04, 'R'),
                (0x08, 'P'),
                (0x20, 'U'),
                (0x40, 'E'),
                (0x80, 'W'),
                (0x10, '.'),
            ];
            let set = names.iter().filter(|(bit, _)| bits & bit != 0);
            let flags: String = set.map(|(_, name)| name).collect();
            let data = payload.saturating_sub(usize::from(offset >> 4) * 4);
            put(line, format_args!(" [{flags}], seq {}", word(rest, 4)?));
            if bits & 0x10 != 0 {
                put(line, format_args!(", ack {}", word(rest, 8)?));
            }
            put(
                line,
                format_args!(", win {}, length {data}", half(rest, 14)?),
            );
        }
        17 => {
            let (source, target) = (half(rest, 0)?, half(rest, 2)?);
            let data = payload.saturating_sub(8);
            put(
                line,
                format_args!("{family} {from}.{source} > {to}.{target}: UDP, length {data}"),
            );
        }
        1 | 58 => {
            let name = if protocol == 1 { "ICMP" } else { "ICMP6" };
            put(line, format_args!("{family} {from} > {to}: {name} "));
            icmp(line, protocol == 58, rest)?;
            put(line, format_args!(", length {payload}"));
        }
        2 => put(line, format_args!("{family} {from} > {to}: IGMP")),
        89 => put(
            line,
            format_args!("{family} {from} > {to}: OSPF, length {payload}"),
        ),
        other => put(
            line,
            format_args!("{family} {from} > {to}: protocol {other}, length {payload}"),
        ),
    }
    Some(())
}

fn icmp(line: &mut String, v6: bool, rest: &[u8]) -> Option<()> {
    let (kind, code) = (*rest.first()?, *rest.get(1)?);
    match (v6, kind) {
        (false, 8 | 0) | (true, 128 | 129) => {
            let what = if matches!(kind, 8 | 128) {
                "request"
            } else {
                "reply"
            };
            let (id, seq) = (half(rest, 4)?, half(rest, 6)?);
            put(line, format_args!("echo {what}, id {id}, seq {seq}"));
        }
        (false, 3) | (true, 1) => put(line, format_args!("destination unreachable, code {code}")),
        (true, 2) => put(line, format_args!("packet too big, mtu {}", word(rest, 4)?)),
        (false, 11) | (true, 3) => put(line, format_args!("time exceeded")),
        (true, 133) => put(line, format_args!("router solicitation")),
        (true, 134) => put(line, format_args!("router advertisement")),
        (true, 135) => put(
            line,
            format_args!("neighbor solicitation, who has {}", self::v6(rest, 8)?),
        ),
        (true, 136) => put(
            line,
            format_args!("neighbor advertisement, tgt is {}", self::v6(rest, 8)?),
        ),
        (true, 143) => put(line, format_args!("multicast listener report")),
        _ => put(line, format_args!("type {kind}, code {code}")),
    }
    Some(())
}

fn put(line: &mut String, what: std::fmt::Arguments<'_>) {
    line.write_fmt(what).expect("writing to a string");
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn v4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(word(bytes, at)?.into())
}

fn v6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?))
}

fn mac(bytes: &[u8]) -> String {
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::summary;

    fn frame(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(kind.to_be_bytes());
        frame.extend(parts.concat());
        frame
    }

    fn line(frame: &[u8]) -> String {
        summary(frame, frame.len() as u32)
    }

    const V4: &[u8] = &[
        0x45, 0, 0, 52, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];

    #[test]
    fn packets() {
        let syn = [
            &[0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2][..],
            &[0x80, 0x12, 0xff, 0xff, 0, 0, 0, 0],
            &[0; 12],
        ]
        .concat();
        assert_eq!(
            line(&frame(0x800, &[V4, &syn])),
            "IP 10.0.0.1.12345 > 10.0.0.2.80: TCP [S.], seq 1, ack 2, win 65535, length 0"
        );
        let mut udp = V4.to_vec();
        udp[9] = 17;
        let ports = [0, 53, 0, 54, 0, 8, 0, 0];
        assert_eq!(
            line(&frame(0x8100, &[&[0, 5, 8, 0], &udp, &ports])),
            "vlan 5, IP 10.0.0.1.53 > 10.0.0.2.54: UDP, length 24"
        );
        udp[9] = 1;
        assert_eq!(
            line(&frame(0x800, &[&udp, &[8, 0, 0, 0, 0, 7, 0, 1]])),
            "IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 7, seq 1, length 32"
        );
        let arp = [
            &[0, 1, 8, 0, 6, 4, 0, 1][..],
            &[2; 6],
            &[10, 0, 0, 1],
            &[0; 6],
            &[10, 0, 0, 2],
        ]
        .concat();
        assert_eq!(
            line(&frame(0x806, &[&arp])),
            "ARP, who-has 10.0.0.2 tell 10.0.0.1"
        );
        let mut v6 = vec![0x60, 0, 0, 0, 0, 32, 0, 255];
        v6.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        v6.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 2]);
        let hop = [58, 0, 5, 2, 0, 0, 1, 0];
        let mut asks = vec![135, 0, 0, 0, 0, 0, 0, 0];
        asks.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(
            line(&frame(0x86dd, &[&v6, &hop, &asks])),
            "IP6 fe80::1 > ff02::1:ff00:2: ICMP6 neighbor solicitation, who has fe80::2, length 24"
        );
        assert_eq!(line(&frame(0x88cc, &[])), "ethertype 0x88cc, length 14");
        assert_eq!(line(&frame(38, &[])), "802.3, length 14");
    }

    #[test]
    fn anything_is_told() {
        let whole = frame(0x800, &[V4, &[0; 20]]);
        // Without its checksum and urgent pointer it says all that is told.
        for len in 0..whole.len() - 4 {
            assert!(line(&whole[..len]).contains("cut short"), "{len}");
        }
        let mut random = 1u32;
        for _ in 0..10_000 {
            let mut bytes = frame(
                [0x800, 0x86dd, 0x806, 0x8100][(random >> 8) as usize % 4],
                &[],
            );
            for _ in 0..(random >> 16) % 80 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bytes.push((random >> 24) as u8);
            }
            random = random.wrapping_add(1).wrapping_mul(22_695_477);
            assert!(!line(&bytes).is_empty());
        }
    }
}
