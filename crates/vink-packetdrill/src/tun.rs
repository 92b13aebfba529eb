//! The machine's interface `tun0`: IP packets in and out, whole ones as the machine's TCP has made them.

use std::net::IpAddr;

use vink_kernel::{Kernel, TaskId};
use vink_lab::Machine;

use crate::stack::Error;

const NAME: &str = "tun0";
const DEVICE: &[u8] = b"/dev/net/tun\0";
/// Of linux/if_tun.h.
const TUNSETIFF: u64 = 0x4004_54ca;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
/// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`, `TUN_F_TSO_ECN`.
const OFFLOADS: u64 = 0x0f;

/// `struct virtio_net_hdr`, in front of each packet: flags, kind, header's length, size of a segment, where the
/// checksum begins and where it goes.
const HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;

/// The interface, which a task of its own has open.
pub(crate) struct Tun {
    task: TaskId,
    file: u64,
    /// One packet and its header.
    buffer: Vec<u8>,
}

impl Tun {
    /// Makes the interface and all routes of the machine, which lead there.
    pub(crate) fn new(
        kernel: &mut Kernel,
        machine: &Machine,
        local: &[(IpAddr, u8)],
        mtu: u32,
    ) -> Result<Tun, Error> {
        let task = kernel.task(machine.id)?;
        let flags = (libc::O_RDWR | libc::O_NONBLOCK) as u64;
        let args = [
            libc::AT_FDCWD as u64,
            DEVICE.as_ptr() as u64,
            flags,
            0,
            0,
            0,
        ];
        let file = succeed(
            "opening /dev/net/tun",
            kernel.call(task, libc::SYS_openat, args)?,
        )?;
        // `struct ifreq`: a name of 16 bytes and what depends.
        let mut request = [0u8; 40];
        request[..NAME.len()].copy_from_slice(NAME.as_bytes());
        let kind = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as u16;
        request[16..18].copy_from_slice(&kind.to_ne_bytes());
        for (nr, value) in [
            (TUNSETIFF, request.as_mut_ptr() as u64),
            (TUNSETOFFLOAD, OFFLOADS),
        ] {
            let args = [file, nr, value, 0, 0, 0];
            succeed("making tun0", kernel.call(task, libc::SYS_ioctl, args)?)?;
        }
        let admin = &machine.admin;
        admin.mtu(kernel, NAME, mtu)?;
        // Nobody is there to answer, and scripts don't expect it.
        for (name, value) in [
            ("autoconf", "0"),
            ("router_solicitations", "0"),
            ("addr_gen_mode", "1"),
        ] {
            admin.sysctl(kernel, &format!("net/ipv6/conf/{NAME}/{name}"), value)?;
        }
        admin.up(kernel, NAME)?;
        for (address, bits) in local {
            admin.address(kernel, NAME, *address, *bits)?;
            let (all, neighbour) = elsewhere(*address);
            admin.route(kernel, all, 0, neighbour)?;
        }
        let buffer = vec![0; HEADER + (64 << 10)];
        Ok(Tun { task, file, buffer })
    }

    /// Takes a packet that the machine has sent; `None`: there is none.
    pub(crate) fn take(&mut self, kernel: &mut Kernel) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let (into, len) = (self.buffer.as_mut_ptr() as u64, self.buffer.len() as u64);
            let got = kernel.call(self.task, libc::SYS_read, [self.file, into, len, 0, 0, 0])?;
            if got < HEADER as i64 {
                return Ok(None);
            }
            let (header, packet) = self.buffer[..got as usize].split_at_mut(HEADER);
            if is_housekeeping(packet) {
                continue;
            }
            if header[0] & NEEDS_CHECKSUM != 0 {
                let at = |i: usize| usize::from(u16::from_ne_bytes([header[i], header[i + 1]]));
                complete_checksum(packet, at(6), at(8));
            }
            return Ok(Some(packet.to_vec()));
        }
    }

    /// Gives the machine a packet.
    pub(crate) fn put(&mut self, kernel: &mut Kernel, packet: &[u8]) -> Result<(), Error> {
        let mut bytes = vec![0; HEADER];
        bytes.extend_from_slice(packet);
        let args = [
            self.file,
            bytes.as_ptr() as u64,
            bytes.len() as u64,
            0,
            0,
            0,
        ];
        succeed(
            "injecting a packet",
            kernel.call(self.task, libc::SYS_write, args)?,
        )?;
        Ok(())
    }
}

fn succeed(what: &'static str, result: i64) -> Result<u64, Error> {
    u64::try_from(result).map_err(|_| Error::Refused {
        what,
        errno: -result as i32,
    })
}

/// All addresses of the family, and a neighbour of this one.
fn elsewhere(address: IpAddr) -> (IpAddr, IpAddr) {
    match address {
        IpAddr::V4(own) => {
            let other = u32::from(own) ^ 3;
            (IpAddr::V4(0.into()), IpAddr::V4(other.into()))
        }
        IpAddr::V6(own) => {
            let other = u128::from(own) ^ 3;
            (IpAddr::V6(0.into()), IpAddr::V6(other.into()))
        }
    }
}

/// Whether a packet is one that IPv6 sends unasked: RFC 3810 (multicast listeners) and RFC 4861 (neighbours).
fn is_housekeeping(packet: &[u8]) -> bool {
    const HOP_BY_HOP: u8 = 0;
    const ICMPV6: u8 = 58;
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return false;
    }
    let (next, at) = match packet[6] {
        HOP_BY_HOP if packet.len() > 48 => (packet[40], 48),
        next => (next, 40),
    };
    next == ICMPV6
        && packet
            .get(at)
            .is_some_and(|kind| matches!(kind, 130..=137 | 143))
}

/// Finishes a checksum of which only the pseudo-header's part is there: RFC 1071.
fn complete_checksum(packet: &mut [u8], start: usize, offset: usize) {
    if start + offset + 2 > packet.len() {
        return;
    }
    let sum: u64 = packet[start..]
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    let mut folded = sum;
    while folded >> 16 != 0 {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    let value = !(folded as u16);
    packet[start + offset..][..2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums() {
        // The example of RFC 1071, section 3, and a place for the sum.
        let mut bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0];
        complete_checksum(&mut bytes, 0, 8);
        assert_eq!(bytes[8..], (!0xddf2u16).to_be_bytes());
        complete_checksum(&mut bytes, 9, 8);
    }

    #[test]
    fn neighbours() {
        let [a, b] = ["192.168.0.1", "192.168.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(elsewhere(a).1, b);
    }
}
