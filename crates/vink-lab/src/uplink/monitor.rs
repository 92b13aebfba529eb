//! Whether an interface of the host is there, up, and has a carrier: told by rtnetlink(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::poll::descriptor;

/// How an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
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
pub(crate) struct Monitor {
    socket: OwnedFd,
    name: String,
}

impl Monitor {
    /// # Errors
    /// As socket(2) and bind(2).
    pub(crate) fn new(name: &str) -> io::Result<Monitor> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: makes a descriptor.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        let socket = descriptor(socket)?;
        // SAFETY: all zero is a valid value of this plain structure.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = libc::RTMGRP_LINK as u32;
        // SAFETY: an address of this length.
        let bound = unsafe {
            let length = size_of_val(&address) as u32;
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Monitor {
            socket,
            name: name.to_owned(),
        })
    }

    /// How the interface is now, if anything was told of any interface since this was last asked.
    pub(crate) fn news(&mut self) -> Option<Link> {
        let mut told = false;
        let mut buffer = [0u8; 16 << 10];
        loop {
            // SAFETY: room for as many bytes as said.
            let got = unsafe {
                let into = buffer.as_mut_ptr().cast();
                libc::recv(self.socket.as_raw_fd(), into, buffer.len(), 0)
            };
            if got < 0 {
                match io::Error::last_os_error().raw_os_error() {
                    // Something was missed.
                    Some(libc::ENOBUFS) => {}
                    Some(libc::EINTR) => continue,
                    _ => return told.then(|| self.now()),
                }
            }
            told = true;
        }
    }

    /// Asks the host: what a message says may be over when it is read.
    pub(crate) fn now(&self) -> Link {
        let Ok(name) = std::ffi::CString::new(self.name.as_str()) else {
            return Link::Missing;
        };
        // SAFETY: a string that ends with NUL.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let flags = flags(&self.name).unwrap_or(0);
        match (index, flags & libc::IFF_UP) {
            (0, _) => Link::Missing,
            (index, 0) => Link::Down(index),
            (index, _) => Link::Up {
                index,
                carrier: flags & libc::IFF_RUNNING != 0,
            },
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The interface's flags (`IFF_*`).
fn flags(name: &str) -> io::Result<i32> {
    let answer = ask(name, libc::SIOCGIFFLAGS as _)?;
    // SAFETY: the ioctl has filled in the flags.
    Ok(i32::from(unsafe { answer.ifr_ifru.ifru_flags }))
}

/// The interface's MTU in bytes.
pub(crate) fn mtu(name: &str) -> io::Result<u32> {
    let answer = ask(name, libc::SIOCGIFMTU as _)?;
    // SAFETY: the ioctl has filled in the MTU.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu } as u32)
}

/// One of the ioctls of netdevice(7) that tell something of an interface.
fn ask(name: &str, nr: libc::c_ulong) -> io::Result<libc::ifreq> {
    // SAFETY: makes a descriptor.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let socket = descriptor(socket)?;
    let mut request = interface_request(name);
    // SAFETY: a structure as these ioctls want it, which they fill in.
    match unsafe { libc::ioctl(socket.as_raw_fd(), nr as _, &mut request) } {
        0.. => Ok(request),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A `struct ifreq` of this name, which is cut off if it is too long, and so not found.
pub(crate) fn interface_request(name: &str) -> libc::ifreq {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}
