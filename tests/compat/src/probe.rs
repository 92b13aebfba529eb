//! Whether a port is open at the other end, without a connection: a server that takes one only would have had it.
//!
//! A SYN is answered with SYN and ACK if a socket listens. That kernel's half a connection ends with our kernel's RST, for
//! it knows of none (RFC 9293).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const SYN: u8 = 2;
const ACK: u8 = 16;
/// Our own port, at which no socket listens.
const OWN_PORT: u16 = 1;

/// Asks once. `false` also if there is no answer within a tenth of a second.
///
/// # Errors
/// Raw sockets are not for this user, or there is no route yet.
pub(crate) fn is_open(from: Ipv4Addr, to: Ipv4Addr, port: u16) -> io::Result<bool> {
    // SAFETY: a plain system call; the result is a new descriptor or an error.
    let socket = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP) })?;
    // SAFETY: just made, and owned here alone.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut segment = [0u8; 20];
    segment[..2].copy_from_slice(&OWN_PORT.to_be_bytes());
    segment[2..4].copy_from_slice(&port.to_be_bytes());
    // Five words of header, the flag, a window.
    segment[12..16].copy_from_slice(&[5 << 4, SYN, 255, 255]);
    let sum = checksum(from, to, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(to).to_be(),
        },
        sin_zero: [0; 8],
    };
    let limit = libc::timeval {
        tv_sec: 0,
        tv_usec: 100_000,
    };
    let fd = socket.as_raw_fd();
    // SAFETY: structures and a buffer that live, with their lengths.
    unsafe {
        let (at, length) = ((&raw const limit).cast(), size_of_val(&limit) as u32);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        check(libc::setsockopt(fd, level, option, at, length))?;
        let (at, length) = ((&raw const address).cast(), size_of_val(&address) as u32);
        check(libc::sendto(fd, segment.as_ptr().cast(), segment.len(), 0, at, length) as i32)?;
    }
    let mut packet = [0u8; 100];
    loop {
        // SAFETY: a buffer that lives, with its length.
        let got = check(unsafe { libc::recv(fd, packet.as_mut_ptr().cast(), 100, 0) } as i32)?;
        // Behind an IP header of as many words as its first byte says.
        let header = usize::from(packet[0] & 15) * 4;
        let answer = packet[..got as usize].get(header..).unwrap_or_default();
        let ports = [port.to_be_bytes(), OWN_PORT.to_be_bytes()].concat();
        if answer.len() >= 20 && answer.starts_with(&ports) {
            return Ok(answer[13] & (SYN | ACK) == SYN | ACK);
        }
    }
}

/// Of a segment and its pseudo header.
fn checksum(from: Ipv4Addr, to: Ipv4Addr, segment: &[u8]) -> u16 {
    let length = (segment.len() as u16).to_be_bytes();
    let pseudo = [&from.octets()[..], &to.octets(), &[0, 6], &length].concat();
    let words = pseudo.chunks_exact(2).chain(segment.chunks_exact(2));
    let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum + (sum >> 16)) as u16
}

fn check(result: i32) -> io::Result<i32> {
    match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_with_its_checksum_sums_up_to_nothing() {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut segment = [0xf0u8; 20];
        segment[16..18].fill(0);
        let sum = checksum(from, to, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(from, to, &segment), 0);
    }
}
