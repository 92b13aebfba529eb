//! The backend to another Vink: each frame is a UDP datagram behind a header of 8 bytes.
//!
//! The header is [`MAGIC`] and a number that counts datagrams, big endian. A datagram without a
//! frame is a hello ([`Hello`]). A peer whose host reports that the port is closed is gone, too. There
//! is no authentication: a process that can send datagrams from the peer's address is the peer.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use vink_sys::socket::set_option;

use super::backend::{Backend, Deliver, LinkState, Stop};
use super::batch::{Incoming, Outgoing, FRONT};
use super::hello::Hello;
use crate::Error;

/// "VNK" and the version of this protocol.
const MAGIC: [u8; 4] = *b"VNK\x01";
/// Bytes in front of a frame: the magic, and a number.
const LEAD: usize = 8;

/// A socket, connected with the peer's address.
pub struct UdpBackend {
    socket: UdpSocket,
    peer: SocketAddr,
    hello: Hello,
    incoming: Incoming,
    outgoing: Outgoing,
    /// The number of the next datagram to be sent.
    number: u32,
    /// The number that the next received datagram has if none is lost.
    expected: Option<u32>,
    /// The error that the host has reported since the peer was heard.
    refused: Option<io::Error>,
    lost: u64,
}

impl UdpBackend {
    /// Binds and connects the socket.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(listen: SocketAddr, peer: SocketAddr) -> Result<UdpBackend, Error> {
        let fail = |what: &str| {
            let what = format!("the uplink udp:{listen}:{peer}: {what}");
            move |error: io::Error| {
                let why = match error.raw_os_error() {
                    Some(libc::EADDRINUSE) => "; another program has that port: take another one",
                    Some(libc::EADDRNOTAVAIL) => "; the first address must be one of this host's",
                    _ => "",
                };
                Error::Uplink(format!("{what}: {error}{why}"))
            }
        };
        if listen.is_ipv4() != peer.is_ipv4() {
            return Err(Error::Uplink(format!(
                "the uplink udp:{listen}:{peer}: both addresses must be of one family"
            )));
        }
        let socket = UdpSocket::bind(listen).map_err(fail("listening"))?;
        socket.connect(peer).map_err(fail("naming the peer"))?;
        let (level, option, value) = match listen {
            SocketAddr::V4(_) => (
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_DONT,
            ),
            SocketAddr::V6(_) => (
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_DONT,
            ),
        };
        // Frames of the usual length are longer than a packet with their header: the host may cut
        // them.
        set_option(&socket, level, option, value).map_err(fail("setting up"))?;
        let hello = Hello::new(&socket).map_err(fail("setting up"))?;
        let mut backend = UdpBackend {
            socket,
            peer,
            hello,
            incoming: Incoming::new(),
            outgoing: Outgoing::new(LEAD),
            number: 0,
            expected: None,
            refused: None,
            lost: 0,
        };
        backend.say_hello();
        Ok(backend)
    }

    fn is_there(&self) -> bool {
        self.hello.is_heard() && self.refused.is_none()
    }

    /// Says that we are there.
    fn say_hello(&mut self) {
        // What is wrong with the peer is told by what is received, or not.
        let word = lead(self.next_number());
        if let Err(error) = self.socket.send(&word) {
            self.failed(error);
        }
    }

    fn next_number(&mut self) -> u32 {
        let number = self.number;
        self.number = number.wrapping_add(1);
        number
    }

    fn failed(&mut self, error: io::Error) {
        if error.kind() != io::ErrorKind::WouldBlock {
            self.refused = Some(error);
        }
    }
}

fn lead(number: u32) -> [u8; LEAD] {
    let mut lead = [0; LEAD];
    lead[..4].copy_from_slice(&MAGIC);
    lead[4..].copy_from_slice(&number.to_be_bytes());
    lead
}

/// Number and frame of what has come; `None` if it is not of this protocol.
fn read(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (number, frame) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), frame))
}

impl Backend for UdpBackend {
    fn host(&self) -> BorrowedFd<'_> {
        self.hello.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        if self.hello.is_due() {
            self.say_hello();
        }
        let peer = self.peer;
        match &self.refused {
            Some(error) => LinkState::Down(format!("no answer from {peer}: {error}")),
            None if self.hello.is_heard() => LinkState::Up,
            None => LinkState::Down(format!("no answer from {peer}")),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        let was_there = self.is_there();
        let UdpBackend {
            socket,
            incoming,
            expected,
            lost,
            ..
        } = self;
        let mut heard = false;
        let received = incoming.receive(&*socket, |datagram| {
            match read(&datagram.bytes[FRONT..]) {
                Some((number, frame)) if !datagram.cut => {
                    let missed = expected.map_or(0, |expected| number.wrapping_sub(expected));
                    // More than that is one that was overtaken, or another peer that has begun.
                    if missed < 1 << 16 {
                        *lost += u64::from(missed);
                    }
                    *expected = Some(number.wrapping_add(1));
                    heard = true;
                    if frame.is_empty() {
                        return Ok(());
                    }
                    deliver(frame)
                }
                _ => {
                    *lost += 1;
                    Ok(())
                }
            }
        })?;
        if heard {
            self.hello.heard();
            self.refused = None;
            if !was_there {
                self.say_hello();
            }
        }
        if let Err(error) = received {
            self.failed(error);
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.outgoing.room()
    }

    fn put(&mut self, length: usize) {
        let number = self.next_number();
        self.outgoing.put(length).copy_from_slice(&lead(number));
    }

    fn flush(&mut self) -> bool {
        let mut failure = None;
        let full = !self.outgoing.send(&self.socket, |error| {
            self.lost += 1;
            // What is too long is lost alone.
            if error.raw_os_error() != Some(libc::EMSGSIZE) {
                failure = Some(error);
            }
        });
        if let Some(error) = failure {
            self.failed(error);
        }
        if let Err(error) = self.hello.set_full(&self.socket, full) {
            self.failed(error);
        }
        false
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_not_read() {
        let mut datagram = lead(7).to_vec();
        assert_eq!(read(&datagram), Some((7, &[][..])));
        datagram.extend([1, 2, 3]);
        assert_eq!(read(&datagram), Some((7, &[1, 2, 3][..])));
        for end in 0..LEAD {
            assert_eq!(read(&datagram[..end]), None);
        }
        for at in 0..4 {
            let mut other = datagram.clone();
            other[at] ^= 1;
            assert_eq!(read(&other), None);
        }
    }
}
