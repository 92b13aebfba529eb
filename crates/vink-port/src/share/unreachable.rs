//! What a router tells a sender whose packet it can't send on (RFC 792, RFC 4443): here the host
//! tells the stack.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::segment::checksum;

use super::send::Unsent;

/// Of a packet of ICMPv6, which should be no longer than the least MTU.
const MOST_V6: usize = 1280 - 48;
/// Of a packet of ICMP.
const MOST_V4: usize = 576 - 28;

/// The packet that tells the sender of `packet` why that was not sent; `None` if nothing is told.
pub fn told(packet: &[u8], why: Unsent) -> Option<Vec<u8>> {
    let is_v4 = packet.first()? >> 4 == 4;
    let (kind, code, word) = match (why, is_v4) {
        (Unsent::TooBig(limit), true) => (3, 4, limit & 0xffff),
        (Unsent::TooBig(limit), false) => (2, 0, limit),
        (Unsent::NoRoute, true) => (3, 0, 0),
        (Unsent::NoRoute, false) => (1, 0, 0),
        (Unsent::Lost, _) => return None,
    };
    let most = if is_v4 { MOST_V4 } else { MOST_V6 };
    let quoted = &packet[..packet.len().min(most)];
    let mut message = vec![kind, code, 0, 0];
    message.extend(word.to_be_bytes());
    message.extend_from_slice(quoted);
    let length = message.len();
    if is_v4 {
        let own: [u8; 4] = *packet.get(12..)?.first_chunk()?;
        let sum = checksum(&[&message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut ip = vec![0x45, 0xc0];
        ip.extend((20 + length as u16).to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 1, 0, 0]);
        ip.extend(Ipv4Addr::from(own).octets());
        ip.extend(Ipv4Addr::from(own).octets());
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        return Some([ip, message].concat());
    }
    let own: [u8; 16] = *packet.get(8..)?.first_chunk()?;
    let own = Ipv6Addr::from(own).octets();
    let pseudo = [
        &own[..],
        &own,
        &(length as u32).to_be_bytes(),
        &[0, 0, 0, 58],
    ]
    .concat();
    let sum = checksum(&[&pseudo, &message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((length as u16).to_be_bytes());
    ip.extend([58, 64]);
    ip.extend(own);
    ip.extend(own);
    Some([ip, message].concat())
}
