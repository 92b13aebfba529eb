//! The host's own addresses: which it would use by itself, and whether it still has one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vink_sys::netlink::{attributes, dump_request, messages, Part};
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::netlink::SocketAddrNetlink;
use vink_sys::rustix::net::{
    bind, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

/// For documentation: no host has them, and the default route leads to them.
const AWAY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// The addresses that the host uses when it sends by its default routes.
pub fn default_addresses() -> Vec<IpAddr> {
    let own = |away: &IpAddr| -> io::Result<IpAddr> {
        let any: IpAddr = match away {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Sends nothing.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((*away, 9))?;
        Ok(socket.local_addr()?.ip())
    };
    let found = AWAY.iter().filter_map(|away| own(away).ok());
    found.filter(|own| !own.is_loopback()).collect()
}

/// Follows them, by rtnetlink(7).
pub struct Addresses {
    socket: OwnedFd,
}

impl Addresses {
    /// # Errors
    /// As socket(2) and bind(2).
    pub fn new() -> io::Result<Addresses> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // NETLINK_ROUTE is protocol 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        let groups = libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        bind(&socket, &SocketAddrNetlink::new(0, groups as u32))?;
        Ok(Addresses { socket })
    }

    /// Whether anything was told of any address since this was last asked.
    pub fn news(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        let mut told = false;
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok(_) | Err(Errno::NOBUFS) => told = true,
                Err(Errno::INTR) => {}
                Err(_) => return told,
            }
        }
    }

    /// The index of the interface that has each of these, if one has.
    ///
    /// # Errors
    /// As send(2) and recv(2).
    pub fn interfaces(&self, addresses: &[IpAddr]) -> io::Result<Vec<Option<u32>>> {
        let mut found = vec![None; addresses.len()];
        // struct ifaddrmsg.
        let request = dump_request(libc::RTM_GETADDR, &[0; 8]);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut buffer = [0; 32 << 10];
        loop {
            let (got, _) = recv(&self.socket, &mut buffer, RecvFlags::empty())?;
            for part in messages(&buffer[..got]) {
                let body = match part {
                    Part::Done => return Ok(found),
                    Part::Error(number) => return Err(io::Error::from_raw_os_error(number)),
                    Part::Message(body) => body,
                };
                let Some((header, rest)) = body.split_first_chunk::<8>() else {
                    continue;
                };
                let index = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
                for (kind, value) in attributes(rest) {
                    // IPv6 has IFA_ADDRESS only; of IPv4 that may be the peer's.
                    let is_own = match header[0].into() {
                        libc::AF_INET => kind == libc::IFA_LOCAL,
                        _ => kind == libc::IFA_ADDRESS,
                    };
                    let at = addresses.iter().position(|a| match a {
                        IpAddr::V4(a) => a.octets() == value,
                        IpAddr::V6(a) => a.octets() == value,
                    });
                    if let (true, Some(at)) = (is_own, at) {
                        found[at] = Some(index);
                    }
                }
            }
        }
    }
}

/// Readable when there is news.
impl AsFd for Addresses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
