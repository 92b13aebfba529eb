//! Whether an interface of the host is there, up, and has a carrier: told by rtnetlink(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::netdevice::name_to_index;
use vink_sys::rustix::net::netlink::SocketAddrNetlink;
use vink_sys::rustix::net::{
    bind, recv, socket_with, AddressFamily, RecvFlags, SocketFlags, SocketType,
};

/// How an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLink {
    /// There is none of this name.
    Missing,
    /// It is set down.
    Down(u32),
    /// It is up, with or without a carrier: its index.
    Up {
        /// See netdevice(7).
        index: u32,
        /// Something is at its other end.
        carrier: bool,
    },
}

/// Follows one interface, by its name.
pub struct Monitor {
    socket: OwnedFd,
    name: String,
}

impl Monitor {
    /// # Errors
    /// As socket(2) and bind(2).
    pub fn new(name: &str) -> io::Result<Monitor> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::RAW;
        // NETLINK_ROUTE is protocol 0.
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, None)?;
        let groups = libc::RTMGRP_LINK as u32;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Monitor {
            socket,
            name: name.to_owned(),
        })
    }

    /// How the interface is now, if anything was told of any interface since this was last asked.
    pub fn news(&mut self) -> Option<HostLink> {
        let mut told = false;
        let mut buffer = [0u8; 16 << 10];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok(_) => {}
                // Something was missed.
                Err(Errno::NOBUFS) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return told.then(|| self.now()),
            }
            told = true;
        }
    }

    /// Asks the host: what a message says may be over when it is read.
    pub fn now(&self) -> HostLink {
        let index = name_to_index(&self.socket, &self.name).unwrap_or(0);
        let flags = flags(&self.socket, &self.name).unwrap_or(0);
        match (index, flags & libc::IFF_UP) {
            (0, _) => HostLink::Missing,
            (index, 0) => HostLink::Down(index),
            (index, _) => HostLink::Up {
                index,
                carrier: flags & libc::IFF_RUNNING != 0,
            },
        }
    }

    /// The interface's MTU in bytes.
    pub fn mtu(&self) -> io::Result<u32> {
        let [a, b, c, d, ..] = ask(&self.socket, &self.name, libc::SIOCGIFMTU as _)?;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The interface's flags (`IFF_*`).
fn flags(socket: &OwnedFd, name: &str) -> io::Result<i32> {
    let [low, high, ..] = ask(socket, name, libc::SIOCGIFFLAGS as _)?;
    Ok(i16::from_ne_bytes([low, high]).into())
}

/// One of the ioctls of netdevice(7) that tell something of an interface, in the network of a
/// socket of any kind: this process may have left that since.
fn ask(socket: &OwnedFd, name: &str, nr: libc::c_ulong) -> io::Result<[u8; 24]> {
    let mut request = InterfaceRequest::new(name, [0; 24]);
    // SAFETY: a structure as these ioctls want it, which they fill in.
    match unsafe { libc::ioctl(socket.as_raw_fd(), nr as _, &raw mut request) } {
        0.. => Ok(request.value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct ifreq`.
#[repr(C, align(8))]
pub struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    /// A union.
    value: [u8; 24],
}

const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

impl InterfaceRequest {
    /// About the interface of this name, which is cut off if it is too long, and so not found.
    pub fn new(name: &str, value: [u8; 24]) -> InterfaceRequest {
        let mut own = [0; libc::IFNAMSIZ];
        let length = name.len().min(own.len() - 1);
        own[..length].copy_from_slice(&name.as_bytes()[..length]);
        InterfaceRequest { name: own, value }
    }
}
