//! An end of a wire in a process without an image: frames into one ring and out of the other, by
//! the protocol of `stack/arch/vink/drivers/shared.c`.
//!
//! The other process is not trusted. Only this side's own counters are believed, the other's must
//! make sense, a frame's length is read once, and a frame is looked at when it has been copied.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{compiler_fence, Ordering};

use crate::backend::HEADER;
use crate::half::Half;
use crate::line::{Line, PeerState, SIZE};

/// Bytes in front of a frame, `struct vink_frame`: its length, nothing, virtio's header.
const LEAD: usize = 24;
const HEADER_AT: usize = 8;
/// Of Ethernet: no frame is shorter.
const SHORTEST: usize = 14;
/// The largest frame that every side takes: an IP packet of 64 KiB, and what may be beside it.
pub const LARGEST_SHARED: usize = 65536 + 64;
/// Frames that wait for room in the ring: more are lost.
const MOST_WAITING: usize = 1024;

/// A process's end.
pub struct End {
    line: Line,
    bell: OwnedFd,
    /// All that was ever put into the ring, in bytes.
    head: u64,
    /// All that was ever taken.
    tail: u64,
    /// Whole frames with their [`LEAD`].
    waiting: VecDeque<Box<[u8]>>,
    lost: u64,
}

/// What was taken out of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// There is nothing.
    Nothing,
    /// A frame of so many bytes, with its header.
    Frame(usize),
    /// A frame that there was no room for. It is gone.
    TooLong,
}

impl End {
    /// Maps it, and says to the other process that this one is here.
    ///
    /// # Errors
    /// As [`Line::new`].
    pub fn new(half: Half) -> io::Result<End> {
        let line = Line::new(&half)?;
        let most = line.inward.words().most;
        most.store(LARGEST_SHARED as u32, Ordering::Relaxed);
        line.ring();
        Ok(End {
            line,
            bell: half.into_bell(),
            head: 0,
            tail: 0,
            waiting: VecDeque::new(),
            lost: 0,
        })
    }

    /// Listens to the other process; to be called when the descriptor is readable.
    pub fn hear(&mut self) -> PeerState {
        self.line.listen().0
    }

    /// Frames that were malformed, or that there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether frames wait for room, so that there should be no more now.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes that have not been taken out yet, of what was put in.
    fn on_way(&mut self) -> usize {
        let tail = self.line.out.words().tail.load(Ordering::Acquire);
        let bytes = self.head.wrapping_sub(tail);
        if bytes > SIZE as u64 {
            self.line.spoil();
            return SIZE;
        }
        bytes as usize
    }

    /// Copies what is a frame into the ring; false if there is no room.
    fn put(&mut self, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let room = length.next_multiple_of(8);
        if room > SIZE - self.on_way() {
            return false;
        }
        let mut at = self.head;
        for part in parts {
            self.line.out.write(at, part);
            at += part.len() as u64;
        }
        self.head += room as u64;
        // First the frame, then the news.
        let head = self.line.out.words().head;
        head.store(self.head, Ordering::Release);
        self.line.wake();
        true
    }

    /// Sends a frame with this `struct virtio_net_hdr`. Without room it waits, and [`End::is_full`]
    /// tells.
    pub fn send(&mut self, header: &[u8; HEADER], frame: &[u8]) {
        if self.line.is_spoiled() || !(SHORTEST..=LARGEST_SHARED).contains(&frame.len()) {
            self.lost += 1;
            return;
        }
        let mut lead = [0; LEAD];
        lead[..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        lead[HEADER_AT..HEADER_AT + HEADER].copy_from_slice(header);
        if self.waiting.is_empty() && self.put(&[&lead, frame]) {
            return;
        }
        if self.waiting.len() == MOST_WAITING {
            self.lost += 1;
            return;
        }
        self.waiting.push_back([&lead, frame].concat().into());
        self.show_starved();
    }

    fn show_starved(&self) {
        let starved = self.line.out.words().starved;
        starved.store((!self.waiting.is_empty()).into(), Ordering::Relaxed);
    }

    /// Sends what has waited, when it is worth while.
    pub fn go_on(&mut self) {
        if self.waiting.is_empty() || self.on_way() > SIZE / 2 {
            return;
        }
        while let Some(frame) = self.waiting.pop_front() {
            if !self.put(&[&frame]) {
                self.waiting.push_front(frame);
                break;
            }
        }
        self.show_starved();
    }

    /// Takes a frame out, with its header in front.
    pub fn receive(&mut self, into: &mut [u8]) -> Taken {
        let words = self.line.inward.words();
        // First the news, then the frame.
        let there = words.head.load(Ordering::Acquire).wrapping_sub(self.tail);
        if there == 0 || self.line.is_spoiled() {
            return Taken::Nothing;
        }
        let mut lead = [0; LEAD];
        self.line.inward.read(self.tail, &mut lead);
        // What was copied is what is looked at, however the ring changes.
        compiler_fence(Ordering::SeqCst);
        let length = u32::from_ne_bytes([lead[0], lead[1], lead[2], lead[3]]) as usize;
        let room = (LEAD + length).next_multiple_of(8) as u64;
        if there > SIZE as u64
            || !there.is_multiple_of(8)
            || !(SHORTEST..=LARGEST_SHARED).contains(&length)
            || room > there
        {
            self.line.spoil();
            return Taken::Nothing;
        }
        let fits = into.len() >= HEADER + length;
        if fits {
            into[..HEADER].copy_from_slice(&lead[HEADER_AT..HEADER_AT + HEADER]);
            let frame = &mut into[HEADER..HEADER + length];
            self.line.inward.read(self.tail + LEAD as u64, frame);
        }
        self.tail += room;
        let words = self.line.inward.words();
        words.tail.store(self.tail, Ordering::Release);
        match fits {
            true => Taken::Frame(HEADER + length),
            false => {
                self.lost += 1;
                Taken::TooLong
            }
        }
    }

    /// After some were taken out: wakes the other process if it has waited for that.
    pub fn taken(&self) {
        let words = self.line.inward.words();
        let there = words.head.load(Ordering::Relaxed).wrapping_sub(self.tail);
        if words.starved.load(Ordering::Relaxed) != 0 && there <= SIZE as u64 / 2 {
            self.line.wake();
        }
    }

    /// This process is awake: it need not be woken.
    pub fn wake(&self) {
        let asleep = self.line.inward.words().asleep;
        if asleep.load(Ordering::Relaxed) != 0 {
            asleep.store(0, Ordering::Relaxed);
        }
    }

    /// To be asked before this process sleeps: false if the other one has something already. From
    /// now on it rings. `frames`: whether frames are wanted now.
    pub fn may_sleep(&self, frames: bool) -> bool {
        self.line.rest_but_for(frames, true)
    }
}

/// Readable when [`End::hear`] is to be called.
impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
