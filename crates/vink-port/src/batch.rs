//! Many datagrams by one system call: sendmmsg(2) and recvmmsg(2).

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::null_mut;

use vink_sys::rustix::io::Errno;
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
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while self.start < self.end {
            let vectors: [_; COUNT] = std::array::from_fn(|n| {
                let first = n * SLOT + FRONT - self.front;
                [IoSlice::new(
                    &self.bytes[first..][..self.front + self.lengths[n]],
                )]
            });
            let mut controls: [SendAncillaryBuffer<'_, '_, '_>; COUNT] = Default::default();
            let mut controls = controls.iter_mut();
            let mut messages = vectors
                .each_ref()
                .map(|vector| MMsgHdr::new(vector, controls.next().expect("as many")));
            match sendmmsg(&socket, &mut messages[self.start..self.end], flags) {
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
        }
        // SAFETY: that many messages, whose vectors, bytes and controls live here.
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
