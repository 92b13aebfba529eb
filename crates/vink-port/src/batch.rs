//! Many datagrams by one system call: sendmmsg(2) and recvmmsg(2).

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::null_mut;

use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::addr::SocketAddrArg;
use vink_sys::rustix::net::{sendmmsg, MMsgHdr, SendAncillaryBuffer, SendFlags};

use super::backend::{Stop, LARGEST};

/// Datagrams of one call.
const COUNT: usize = 16;
/// Bytes in front of a frame for the header of the backend.
pub const FRONT: usize = 16;
/// A datagram's place.
const SLOT: usize = FRONT + LARGEST;
/// Bytes for a control message, such as packet(7)'s `PACKET_AUXDATA`.
const CONTROL: usize = 64;

/// Datagrams to be sent. Some are in use: those between `start` and `end`.
pub struct Outgoing {
    bytes: Box<[u8]>,
    lengths: [usize; COUNT],
    start: usize,
    end: usize,
    front: usize,
}

impl Outgoing {
    /// Each with so many bytes, at most [`FRONT`], in front of its frame.
    pub fn new(front: usize) -> Outgoing {
        Outgoing {
            bytes: vec![0; COUNT * SLOT].into(),
            lengths: [0; COUNT],
            start: 0,
            end: 0,
            front,
        }
    }

    /// Where the next frame is to be put; `None` if there is no place.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let place = (self.end < COUNT).then_some(self.end * SLOT)?;
        Some(&mut self.bytes[place + FRONT..place + SLOT])
    }

    /// That many bytes have been put there. What goes in front of them.
    pub fn put(&mut self, length: usize) -> &mut [u8] {
        let place = self.end * SLOT;
        self.lengths[self.end] = length;
        self.end += 1;
        &mut self.bytes[place + FRONT - self.front..place + FRONT]
    }

    /// Sends what has been put. False if the host has no room for all of it now. What it does not
    /// take for another reason is gone, and the reason is told.
    pub fn send(&mut self, socket: impl AsFd, mut refused: impl FnMut(io::Error)) -> bool {
        while self.start < self.end {
            let vectors: [_; COUNT] = std::array::from_fn(|n| {
                let first = n * SLOT + FRONT - self.front;
                [IoSlice::new(
                    &self.bytes[first..][..self.front + self.lengths[n]],
                )]
            });
            match send_some(&socket, None, &vectors, self.start..self.end) {
                Ok(sent) => self.start += sent,
                Err(Errno::AGAIN) => return false,
                Err(error) => {
                    self.start += 1;
                    refused(error.into());
                }
            }
        }
        (self.start, self.end) = (0, 0);
        true
    }

    /// Forgets what has not been sent; how many frames.
    pub fn forget(&mut self) -> usize {
        let count = self.end - self.start;
        (self.start, self.end) = (0, 0);
        count
    }
}

/// Sends those datagrams of the range, to this address unless the socket is connected: how many of
/// them.
///
/// # Errors
/// As sendmmsg(2), if not even the first one is sent.
pub fn send_some<const N: usize>(
    socket: impl AsFd,
    to: Option<SocketAddr>,
    vectors: &[[IoSlice<'_>; 1]; N],
    range: Range<usize>,
) -> Result<usize, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let to = to.map(|address| address.as_any());
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; N] =
        std::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut controls = controls.iter_mut();
    let mut messages = vectors.each_ref().map(|vector| {
        let control = controls.next().expect("as many");
        match &to {
            Some(to) => MMsgHdr::new_with_addr(to, vector, control),
            None => MMsgHdr::new(vector, control),
        }
    });
    sendmmsg(socket, &mut messages[range], flags)
}

/// Where a datagram came from: a `struct sockaddr` of any kind, at most so long (socket(7)).
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Name([u8; NAME]);
const NAME: usize = 128;

/// Places for datagrams that come.
pub struct Incoming(Box<[u8]>);

/// One of them.
pub struct Datagram<'a> {
    /// What it is, from [`FRONT`] on.
    pub bytes: &'a mut [u8],
    /// Control messages, as cmsg(3) has them.
    pub control: &'a [u8],
    /// It was longer than there was room.
    pub cut: bool,
    /// The address of its sender, as the host has it: at least its family.
    pub name: &'a [u8],
}

impl Datagram<'_> {
    /// The address of its sender; `None`: not of the internet. See ip(7) and ipv6(7).
    pub fn source(&self) -> Option<SocketAddr> {
        let (family, rest) = self.name.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let port = u16::from_be_bytes(*port);
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => {
                let address: [u8; 4] = *rest.first_chunk()?;
                Some((Ipv4Addr::from(address), port).into())
            }
            libc::AF_INET6 => {
                let (_flow, rest) = rest.split_at_checked(4)?;
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let scope = u32::from_ne_bytes(*rest.first_chunk()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(*address), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// Room for control messages, aligned as their headers want it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

impl Incoming {
    pub fn new() -> Incoming {
        Incoming(vec![0; COUNT * SLOT].into())
    }

    /// Receives some, and hands over each. How many there were: none, if none are there.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        mut each: impl FnMut(Datagram<'_>) -> Result<(), Stop>,
    ) -> Result<io::Result<usize>, Stop> {
        let mut vectors = [EMPTY; COUNT];
        let mut controls = [Control([0; CONTROL]); COUNT];
        let mut names = [Name([0; NAME]); COUNT];
        let mut messages = [NOTHING; COUNT];
        for n in 0..COUNT {
            let bytes = &mut self.0[n * SLOT + FRONT..(n + 1) * SLOT];
            vectors[n].iov_base = bytes.as_mut_ptr().cast();
            vectors[n].iov_len = bytes.len();
            let header = &mut messages[n].msg_hdr;
            header.msg_iov = &mut vectors[n];
            header.msg_iovlen = 1;
            header.msg_control = controls[n].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
            header.msg_name = names[n].0.as_mut_ptr().cast();
            header.msg_namelen = NAME as u32;
        }
        // SAFETY: that many messages, whose vectors, bytes, controls and names live here.
        let got = unsafe {
            let first = messages.as_mut_ptr();
            let socket = socket.as_fd().as_raw_fd();
            libc::recvmmsg(
                socket,
                first,
                COUNT as u32,
                libc::MSG_DONTWAIT as _,
                null_mut(),
            )
        };
        let Ok(got) = usize::try_from(got) else {
            return Ok(match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            });
        };
        for n in 0..got {
            let header = &messages[n].msg_hdr;
            let length = FRONT + messages[n].msg_len as usize;
            each(Datagram {
                bytes: &mut self.0[n * SLOT..][..length],
                control: &controls[n].0[..header.msg_controllen.min(CONTROL)],
                cut: header.msg_flags & libc::MSG_TRUNC != 0,
                name: &names[n].0[..(header.msg_namelen as usize).min(NAME)],
            })?;
        }
        Ok(Ok(got))
    }
}

const EMPTY: libc::iovec = libc::iovec {
    iov_base: null_mut(),
    iov_len: 0,
};

const NOTHING: libc::mmsghdr = libc::mmsghdr {
    msg_hdr: libc::msghdr {
        msg_name: null_mut(),
        msg_namelen: 0,
        msg_iov: null_mut(),
        msg_iovlen: 0,
        msg_control: null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    },
    msg_len: 0,
};
