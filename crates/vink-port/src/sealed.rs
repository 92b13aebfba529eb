//! The backend of a wire between two hosts: frames in encrypted, authenticated UDP datagrams.
//!
//! A datagram is a header of 12 bytes ([`MAGIC`] and a number, big endian), then what the header's
//! number and one side's key make of pieces of frames (ChaCha20-Poly1305, RFC 8439), then 16 bytes
//! that prove both. Each side has a key for what it sends. Both are new for each join of a wire, and
//! numbers only grow, so no number is used twice with a key. There are 2^64 of them, which no wire
//! comes to the end of, so keys are not changed while it is joined. A receiver takes each number
//! once, in any order, up to [`WINDOW`] behind the newest (RFC 6479); all else is counted and dropped.
//!
//! Frames are packed one behind the other, and a frame that does not fit goes on in the next
//! datagram. So no datagram is longer than the usual packet of 1500 bytes, none is cut on its way,
//! and a frame of the usual length does not cost two of them.
//!
//! A datagram without a frame is a hello ([`Hello`]). The peer's address is that of its newest
//! datagram: one side has to know it at first, and either may be behind an address translation.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, Key, KeyInit, Nonce, Tag};
use vink_sys::rustix::io::Errno;

use super::backend::{Backend, Deliver, LinkState, Stop, LARGEST};
use super::batch::{send_some, Incoming, FRONT};
use super::hello::Hello;

/// "VNK" and the version of this protocol; version 1 is the plain one's (`udp.rs`).
const MAGIC: [u8; 4] = *b"VNK\x02";
/// Bytes in front of what is encrypted: the magic, and the datagram's number.
const LEAD: usize = 12;
/// Bytes behind it.
const TAG: usize = 16;
/// Bytes of pieces in a datagram, which is then a packet of 1500 bytes with UDP's and IPv6's header.
const ROOM_FOR_PIECES: usize = 1500 - 40 - 8 - LEAD - TAG;
/// Bytes in front of a piece: its length, and the two flags.
const PIECE: usize = 2;
/// The frame goes on in the next datagram; it has begun in the one before.
const GOES_ON: u16 = 1 << 15;
const HAS_BEGUN: u16 = 1 << 14;
/// A frame's last piece is not made shorter than that, if it is longer.
const LEAST_PIECE: usize = 64;
/// Datagrams that wait for the host before no further frame is taken.
const QUEUE: usize = 64;
/// Datagrams of one system call.
const BATCH: usize = 32;
/// How far behind the newest a number may be that is taken: a power of two.
const WINDOW: u64 = 2048;

/// Bytes of a key.
pub const KEY: usize = 32;

/// The keys of one side of a wire. The other side has them the other way round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// Of what this side sends.
    pub send: [u8; KEY],
    /// Of what it receives.
    pub receive: [u8; KEY],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

/// The datagrams that one side sends.
struct Sealer {
    cipher: ChaCha20Poly1305,
    /// The number of the next one.
    number: u64,
    /// Those that are not sent yet.
    queue: VecDeque<Vec<u8>>,
    /// Sent ones, to be written anew.
    spare: Vec<Vec<u8>>,
    /// The one that is being filled, if it is not empty: behind room for its header.
    open: Vec<u8>,
}

impl Sealer {
    fn new(key: &[u8; KEY]) -> Sealer {
        Sealer {
            cipher: ChaCha20Poly1305::new(Key::from_slice(key)),
            number: 0,
            queue: VecDeque::new(),
            spare: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Packs a frame behind those before it.
    fn put(&mut self, mut frame: &[u8]) {
        let mut flags = 0;
        while !frame.is_empty() {
            let used = self.open.len().saturating_sub(LEAD);
            let room = ROOM_FOR_PIECES.saturating_sub(used + PIECE);
            if room < frame.len().min(LEAST_PIECE) {
                self.seal();
                continue;
            }
            let (piece, rest) = frame.split_at(frame.len().min(room));
            if !rest.is_empty() {
                flags |= GOES_ON;
            }
            if self.open.is_empty() {
                self.open.resize(LEAD, 0);
            }
            let word = piece.len() as u16 | flags;
            self.open.extend(word.to_be_bytes());
            self.open.extend(piece);
            frame = rest;
            flags = HAS_BEGUN;
        }
    }

    /// Closes the datagram that is being filled, or an empty one.
    fn seal(&mut self) {
        let mut bytes = std::mem::replace(&mut self.open, self.spare.pop().unwrap_or_default());
        self.open.clear();
        bytes.resize(bytes.len().max(LEAD), 0);
        let number = self.number;
        self.number += 1;
        let (lead, pieces) = bytes.split_at_mut(LEAD);
        lead[..4].copy_from_slice(&MAGIC);
        lead[4..].copy_from_slice(&number.to_be_bytes());
        let sealed = self
            .cipher
            .encrypt_in_place_detached(&nonce(number), lead, pieces);
        let tag = sealed.expect("a datagram is far shorter than the cipher's limit");
        bytes.extend(tag);
        self.queue.push_back(bytes);
    }

    /// Closes what has been filled.
    fn finish(&mut self) {
        if !self.open.is_empty() {
            self.seal();
        }
    }

    /// The first `count` have gone.
    fn sent(&mut self, count: usize) {
        for mut bytes in self.queue.drain(..count) {
            if self.spare.len() < QUEUE {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce.into()
}

/// The numbers that have come.
struct Window {
    /// One more than the newest.
    next: u64,
    /// A bit of each of the last [`WINDOW`], at its number modulo that.
    seen: [u64; WINDOW as usize / 64],
}

impl Window {
    fn new() -> Window {
        Window {
            next: 0,
            seen: [0; WINDOW as usize / 64],
        }
    }

    fn bit(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }

    /// Whether it may be taken: it has not come, as far as is known.
    fn is_new(&self, number: u64) -> bool {
        let (word, bit) = Window::bit(number);
        number >= self.next || number + WINDOW >= self.next && self.seen[word] & bit == 0
    }

    /// It has come, and how many between were not there yet.
    fn take(&mut self, number: u64) -> u64 {
        let mut missed = 0;
        if number >= self.next {
            missed = number - self.next;
            for forgotten in self.next..=number.min(self.next + WINDOW - 1) {
                let (word, bit) = Window::bit(forgotten);
                self.seen[word] &= !bit;
            }
            self.next = number + 1;
        }
        let (word, bit) = Window::bit(number);
        self.seen[word] |= bit;
        missed
    }
}

/// The datagrams that come.
struct Opener {
    cipher: ChaCha20Poly1305,
    window: Window,
    /// A frame that goes on in the datagram of this number.
    begun: Vec<u8>,
    goes_on: Option<u64>,
    lost: u64,
    rejected: u64,
}

impl Opener {
    fn new(key: &[u8; KEY]) -> Opener {
        Opener {
            cipher: ChaCha20Poly1305::new(Key::from_slice(key)),
            window: Window::new(),
            begun: Vec::new(),
            goes_on: None,
            lost: 0,
            rejected: 0,
        }
    }

    /// Decrypts a datagram, in its place, and hands over its frames. True if the peer has sent it.
    fn open(&mut self, bytes: &mut [u8], deliver: Deliver<'_>) -> Result<bool, Stop> {
        let Some((number, pieces)) = self.unseal(bytes) else {
            self.rejected += 1;
            return Ok(false);
        };
        self.lost += self.window.take(number);
        let mut rest = pieces;
        while let Some((word, behind)) = rest.split_first_chunk::<PIECE>() {
            let word = u16::from_be_bytes(*word);
            let length = usize::from(word & !(GOES_ON | HAS_BEGUN));
            let Some((piece, behind)) = behind.split_at_checked(length) else {
                break;
            };
            rest = behind;
            let goes_on = word & GOES_ON != 0;
            if word & HAS_BEGUN == 0 {
                if !goes_on {
                    deliver(piece)?;
                    continue;
                }
                self.begun.clear();
            } else if self.goes_on.take() != Some(number) {
                // Its beginning has not come.
                continue;
            }
            self.begun.extend(piece);
            if goes_on {
                self.goes_on = Some(number + 1).filter(|_| self.begun.len() <= LARGEST);
            } else {
                deliver(&self.begun)?;
            }
        }
        Ok(true)
    }

    fn unseal<'a>(&self, bytes: &'a mut [u8]) -> Option<(u64, &'a [u8])> {
        let (lead, rest) = bytes.split_at_mut_checked(LEAD)?;
        let number = u64::from_be_bytes(*lead.strip_prefix(&MAGIC)?.first_chunk()?);
        // The sender's ends before.
        if number == u64::MAX || !self.window.is_new(number) {
            return None;
        }
        let (pieces, tag) = rest.split_at_mut_checked(rest.len().checked_sub(TAG)?)?;
        self.cipher
            .decrypt_in_place_detached(&nonce(number), lead, pieces, Tag::from_slice(tag))
            .ok()?;
        Some((number, pieces))
    }
}

/// A socket, and what is known of the peer.
pub struct SealedBackend {
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    hello: Hello,
    incoming: Incoming,
    opener: Opener,
    sealer: Sealer,
    /// The next frame.
    frame: Box<[u8]>,
    lost: u64,
}

impl SealedBackend {
    /// Over a bound UDP socket; `peer`: where the other side is, if that is known.
    ///
    /// # Errors
    /// As of timerfd_create(2), epoll_create1(2), epoll_ctl(2) and setsockopt(2).
    pub fn new(socket: OwnedFd, peer: Option<SocketAddr>, keys: &Keys) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        let mut backend = SealedBackend {
            hello: Hello::new(&socket)?,
            socket,
            peer,
            incoming: Incoming::new(),
            opener: Opener::new(&keys.receive),
            sealer: Sealer::new(&keys.send),
            frame: vec![0; LARGEST].into(),
            lost: 0,
        };
        backend.say_hello();
        Ok(backend)
    }

    /// Says that we are there.
    fn say_hello(&mut self) {
        if self.peer.is_some() && self.sealer.queue.is_empty() {
            self.sealer.seal();
            self.send();
        }
    }

    /// Sends what waits; false if the host has no room for all of it now.
    fn send(&mut self) -> bool {
        if self.peer.is_none() {
            self.sealer.queue.clear();
        }
        while !self.sealer.queue.is_empty() {
            let queue = &self.sealer.queue;
            let vectors: [_; BATCH] = std::array::from_fn(|n| {
                let bytes = queue.get(n).map_or(&[][..], Vec::as_slice);
                [IoSlice::new(bytes)]
            });
            let some = 0..queue.len().min(BATCH);
            let sent = match send_some(&self.socket, self.peer, &vectors, some) {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => return false,
                // No way there, for now: the link's state says whether the peer is heard.
                Err(_) => {
                    self.lost += 1;
                    1
                }
            };
            self.sealer.sent(sent);
        }
        true
    }
}

impl Backend for SealedBackend {
    fn host(&self) -> BorrowedFd<'_> {
        self.hello.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        if self.hello.is_due() {
            self.say_hello();
        }
        match (self.hello.is_heard(), self.peer) {
            (true, _) => LinkState::Up,
            (false, Some(peer)) => {
                LinkState::Down(format!("the other host does not answer at {peer}"))
            }
            (false, None) => LinkState::Down("the other host has not been heard of".to_owned()),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        let was_there = self.hello.is_heard();
        let SealedBackend {
            socket,
            incoming,
            opener,
            ..
        } = self;
        let mut heard = None;
        // An error is one of the peer's host, which tells no more than silence.
        let _ = incoming.receive(&*socket, |datagram| {
            let source = datagram.source();
            let newest = opener.window.next;
            if opener.open(&mut datagram.bytes[FRONT..], deliver)? {
                // What was overtaken says nothing of where the peer is now.
                let is_newest = opener.window.next > newest;
                heard = source.filter(|_| is_newest).or(heard).or(self.peer);
            }
            Ok(())
        })?;
        if let Some(peer) = heard {
            self.hello.heard();
            self.peer = Some(peer);
            if !was_there {
                self.say_hello();
            }
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        (self.sealer.queue.len() < QUEUE).then_some(&mut self.frame)
    }

    fn put(&mut self, length: usize) {
        self.sealer.put(&self.frame[..length]);
    }

    fn flush(&mut self) -> bool {
        self.sealer.finish();
        let full = !self.send();
        // Without that, the hello's period is when it is tried again.
        let _ = self.hello.set_full(&self.socket, full);
        false
    }

    fn lost(&self) -> u64 {
        self.lost + self.opener.lost
    }

    fn refused(&self) -> u64 {
        self.opener.rejected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_A: [u8; KEY] = [7; KEY];

    /// The datagrams that these frames become.
    fn sealed(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut sealer = Sealer::new(&KEY_A);
        for frame in frames {
            sealer.put(frame);
        }
        sealer.finish();
        sealer.queue.into()
    }

    /// The frames that come out of datagrams.
    fn opened(opener: &mut Opener, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for datagram in datagrams {
            let mut deliver = |frame: &[u8]| {
                frames.push(frame.to_vec());
                Ok(())
            };
            opener.open(&mut datagram.clone(), &mut deliver).unwrap();
        }
        frames
    }

    fn frames() -> Vec<Vec<u8>> {
        let lengths = [60, 1514, 1, 1514, 1514, LARGEST, 60, 1410, 1408, 64, 70];
        let frame = |(n, length): (usize, &usize)| vec![n as u8; *length];
        lengths.iter().enumerate().map(frame).collect()
    }

    #[test]
    fn frames_are_packed_and_come_out_as_they_were() {
        let datagrams = sealed(&frames());
        assert!(datagrams.iter().all(|d| d.len() <= 1452));
        let total: usize = frames().iter().map(Vec::len).sum();
        assert!(datagrams.len() <= total / ROOM_FOR_PIECES + 3);
        let mut opener = Opener::new(&KEY_A);
        assert_eq!(opened(&mut opener, &datagrams), frames());
        assert_eq!((opener.lost, opener.rejected), (0, 0));
    }

    #[test]
    fn what_was_changed_or_has_another_key_or_comes_again_is_dropped() {
        let datagrams = sealed(&frames());
        let mut opener = Opener::new(&[8; KEY]);
        assert!(opened(&mut opener, &datagrams).is_empty());
        assert_eq!(opener.rejected as usize, datagrams.len());
        let mut opener = Opener::new(&KEY_A);
        for at in 0..datagrams[0].len() {
            let mut other = datagrams[0].clone();
            other[at] ^= 1;
            assert!(opened(&mut opener, &[other]).is_empty(), "{at}");
        }
        for length in 0..datagrams[0].len() {
            let cut = datagrams[0][..length].to_vec();
            assert!(opened(&mut opener, &[cut]).is_empty(), "{length}");
        }
        assert_eq!(opened(&mut opener, &datagrams), frames());
        let before = opener.rejected;
        assert!(opened(&mut opener, &datagrams).is_empty());
        assert_eq!((opener.rejected - before) as usize, datagrams.len());
    }

    #[test]
    fn a_lost_datagram_costs_the_frames_that_were_in_it() {
        let frames: Vec<Vec<u8>> = (0..50).map(|n| vec![n; 1514]).collect();
        let datagrams = sealed(&frames);
        for lost in 0..datagrams.len() {
            let mut rest = datagrams.clone();
            rest.remove(lost);
            let mut opener = Opener::new(&KEY_A);
            let got = opened(&mut opener, &rest);
            assert!(got.len() >= 47 && got.iter().all(|frame| frames.contains(frame)));
        }
        // Others' order is no matter, but for what goes on in the next one.
        let hellos: Vec<Vec<u8>> = {
            let mut sealer = Sealer::new(&KEY_A);
            (0..20).for_each(|_| sealer.seal());
            sealer.queue.into_iter().rev().collect()
        };
        let mut opener = Opener::new(&KEY_A);
        assert!(opened(&mut opener, &hellos).is_empty());
        assert_eq!(opener.rejected, 0);
    }

    #[test]
    fn numbers_are_taken_once_as_far_as_the_window_goes() {
        let mut window = Window::new();
        assert!(window.is_new(5));
        assert_eq!(window.take(5), 5);
        assert!(!window.is_new(5) && window.is_new(0) && window.is_new(6));
        assert_eq!(window.take(WINDOW + 3), WINDOW - 3);
        assert!(window.is_new(6) && window.is_new(4) && !window.is_new(3) && !window.is_new(5));
        assert_eq!(window.take(10 * WINDOW), 9 * WINDOW - 4);
        assert!(window.is_new(10 * WINDOW - 1) && !window.is_new(10 * WINDOW));
        assert!(!window.is_new(8 * WINDOW) && window.is_new(u64::MAX - 1));
    }
}
