//! Receives what comes to the host for shared ports: a packet socket of a family of IP, at all
//! interfaces, before the host's rules see the packets.
//!
//! It is a receiver beside the host's IP, not beside its interfaces: packets come as IP would get
//! them, once, from whichever VLAN or bridge, and those of the loopback interface, too.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use libc::sock_filter;

use crate::backend::HEADER;
use crate::batch::{Datagram, FRONT};
use crate::bpf::{
    attach, step, AND, ANY_BIT, AT_LEAST, BYTE, BYTE_AT, EQUAL, GREATER, HALF, HALF_AT, INDEX,
    NOTHING, RETURN, SHIFT_LEFT, TO_INDEX, WHOLE, WORD,
};
use crate::packet::{bind, unbound};

use super::guard::Protocol;
use super::ports::{PortSet, Reserved};

/// Offsets from here on are from the IP header on, whatever the interface puts before it.
const IP: u32 = libc::SKF_NET_OFF as u32;
/// Where a packet is for.
const KIND: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
/// Instructions that a filter may have: linux/bpf_common.h.
const MOST_STEPS: usize = 4096;
/// An Ethernet header.
const ETHERNET: usize = 14;

/// A socket that receives what is for these ports at an address of the host's, and what may be
/// about them.
///
/// # Errors
/// As socket(2) and packet(7): it takes `CAP_NET_RAW`.
pub fn open(address: IpAddr, ports: &Reserved) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    filter_by(&socket, address, ports)?;
    let protocol = match address {
        IpAddr::V4(_) => libc::ETH_P_IP,
        IpAddr::V6(_) => libc::ETH_P_IPV6,
    };
    bind(&socket, protocol, 0)?;
    Ok(socket)
}

/// Has it receive what is for these ports from now on.
///
/// # Errors
/// As socket(7), `SO_ATTACH_FILTER`.
pub fn filter_by(socket: &OwnedFd, address: IpAddr, ports: &Reserved) -> io::Result<()> {
    attach(socket, &mut filter(address, ports))
}

fn filter(address: IpAddr, ports: &Reserved) -> Vec<sock_filter> {
    let mut code = unless(&[step(BYTE, KIND, 0, 0)], libc::PACKET_HOST.into());
    // Of what is not about ports, all is taken that may be the stack's; it is looked at again.
    let (words, at, protocol, icmp): (Vec<u8>, _, _, _) = match address {
        IpAddr::V4(a) => (a.octets().to_vec(), 16, 9, libc::IPPROTO_ICMP),
        IpAddr::V6(a) => (a.octets().to_vec(), 24, 6, libc::IPPROTO_ICMPV6),
    };
    for (n, word) in words.chunks_exact(4).enumerate() {
        let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        code.extend(unless(&[step(WORD, IP + at + 4 * n as u32, 0, 0)], word));
    }
    let of_address = code.len();
    // The index is the header's length.
    let length = match address {
        IpAddr::V4(_) => {
            // Later fragments have no ports.
            code.extend([
                step(HALF, IP + 6, 0, 0),
                step(ANY_BIT, 0x1fff, 0, 1),
                step(RETURN, WHOLE, 0, 0),
            ]);
            vec![
                step(BYTE, IP, 0, 0),
                step(AND, 15, 0, 0),
                step(SHIFT_LEFT, 2, 0, 0),
                step(TO_INDEX, 0, 0, 0),
            ]
        }
        IpAddr::V6(_) => {
            code.extend([
                step(BYTE, IP + 6, 0, 0),
                step(EQUAL, libc::IPPROTO_FRAGMENT as u32, 0, 1),
                step(RETURN, WHOLE, 0, 0),
            ]);
            vec![step(INDEX, 40, 0, 0)]
        }
    };
    code.extend(length);
    // ICMP: no echo requests, nor others that the host answers.
    let errors_and_replies: &[u32] = match address {
        IpAddr::V4(_) => &[0, 3, 11, 12],
        IpAddr::V6(_) => &[1, 2, 3, 4, 129],
    };
    let mut part = vec![step(BYTE_AT, IP, 0, 0)];
    for kind in errors_and_replies {
        part.extend([step(EQUAL, *kind, 0, 1), step(RETURN, WHOLE, 0, 0)]);
    }
    code.extend(of_protocol(protocol, icmp as u32, part));
    for each in [Protocol::Tcp, Protocol::Udp] {
        let mut part = vec![step(HALF_AT, IP + 2, 0, 0)];
        part.extend(any_of(ports.of(each)));
        code.extend(of_protocol(protocol, each.number().into(), part));
    }
    if code.len() >= MOST_STEPS {
        // Too many for a filter: what is taken is looked at again.
        code.truncate(of_address);
        code.push(step(RETURN, WHOLE, 0, 0));
    }
    code.push(step(RETURN, NOTHING, 0, 0));
    code
}

/// Takes nothing, unless this is loaded.
fn unless(load: &[sock_filter], value: u32) -> Vec<sock_filter> {
    let end = [step(EQUAL, value, 1, 0), step(RETURN, NOTHING, 0, 0)];
    [load, &end].concat()
}

/// Goes through a part, and then takes nothing, if the protocol is this; else goes on.
fn of_protocol(at: u32, number: u32, mut part: Vec<sock_filter>) -> Vec<sock_filter> {
    part.push(step(RETURN, NOTHING, 0, 0));
    let beyond = step(libc::BPF_JMP | libc::BPF_JA, part.len() as u32, 0, 0);
    let mut code = vec![step(BYTE, IP + at, 0, 0), step(EQUAL, number, 1, 0), beyond];
    code.extend(part);
    code
}

/// Takes the packet if the loaded port is one of these.
fn any_of(ports: &PortSet) -> Vec<sock_filter> {
    let each = ports.runs().into_iter().flat_map(|(first, last)| {
        [
            step(AT_LEAST, first.into(), 0, 2),
            step(GREATER, last.into(), 1, 0),
            step(RETURN, WHOLE, 0, 0),
        ]
    });
    each.collect()
}

/// What has come, as a frame behind its header, whose Ethernet header is still to be written; and
/// where the packet is in it. `None`: there is not enough of it.
pub fn frame(datagram: Datagram<'_>) -> Option<(&mut [u8], usize)> {
    let Datagram {
        bytes,
        control,
        cut,
        ..
    } = datagram;
    let network = network_offset(control)?;
    if cut || bytes.len() <= FRONT + HEADER + network {
        return None;
    }
    // Where the header would begin if an Ethernet header was in front of the packet.
    let start = (FRONT + network).checked_sub(ETHERNET)?;
    bytes.copy_within(FRONT..FRONT + HEADER, start);
    let header = &mut bytes[start..][..HEADER];
    // How long all headers are, and where the checksum starts.
    for at in [2, 6] {
        let place = usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        if place > 0 {
            let place = (place + ETHERNET).checked_sub(network)? as u16;
            header[at..at + 2].copy_from_slice(&place.to_ne_bytes());
        }
    }
    Some((&mut bytes[start..], HEADER + ETHERNET))
}

/// Where the packet begins in what has come: of `struct tpacket_auxdata`.
fn network_offset(control: &[u8]) -> Option<usize> {
    let word = |at: usize| {
        let bytes = control.get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_ne_bytes(bytes))
    };
    if [word(8)?, word(12)?] != [libc::SOL_PACKET, libc::PACKET_AUXDATA] {
        return None;
    }
    let bytes = control.get(30..32)?;
    Some(u16::from_ne_bytes([bytes[0], bytes[1]]).into())
}
