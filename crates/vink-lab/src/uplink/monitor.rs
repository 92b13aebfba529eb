//! Whether an interface of the host is there, up, and has a carrier: told by rtnetlink(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use vink_sys::plain::Zeroed;
use vink_sys::rustix::net::netlink::SocketAddrNetlink;
use vink_sys::rustix::net::{bind, socket_with, AddressFamily, SocketFlags, SocketType};
use vink_sys::socket::receive;

/// How an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostLink {
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
    pub(crate) fn news(&mut self) -> Option<HostLink> {
        let mut told = false;
        let mut buffer = [0u8; 16 << 10];
        loop {
            let got = receive(&self.socket, &mut buffer, 0);
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
    pub(crate) fn now(&self) -> HostLink {
        let Ok(name) = std::ffi::CString::new(self.name.as_str()) else {
            return HostLink::Missing;
        };
        // SAFETY: a string that ends with NUL.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let flags = flags(&self.name).unwrap_or(0);
        match (index, flags & libc::IFF_UP) {
            (0, _) => HostLink::Missing,
            (index, 0) => HostLink::Down(index),
            (index, _) => HostLink::Up {
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
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    let mut request = interface_request(name);
    // SAFETY: a structure as these ioctls want it, which they fill in.
    match unsafe { libc::ioctl(socket.as_raw_fd(), nr as _, &mut request) } {
        0.. => Ok(request),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A `struct ifreq` of this name, which is cut off if it is too long, and so not found.
pub(crate) fn interface_request(name: &str) -> libc::ifreq {
    let mut request = libc::ifreq::zeroed();
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}
