//! A process's end of a wire, mapped: the control words of both rings, and the doorbell.
//!
//! The doorbell is not rung for a process that is busy. Before it sleeps it says so
//! ([`Line::rest`]), and looks once more. The line is up from the other side's first byte on.

use std::ffi::c_void;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

use libc::EINVAL;
use vink_abi::Pipe;
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::rustix::fs::{fcntl_get_seals, fstat, SealFlags};
use vink_sys::rustix::io::Errno;
use vink_sys::rustix::net::{recv, send, RecvFlags, SendFlags};

use crate::half::Half;

/// Bytes of frames on their way: a power of two, and some times the largest frame.
pub const SIZE: usize = 2 << 20;
/// Bytes of the page in front.
pub(crate) const CONTROL: usize = 4096;

const GONE: &str = "the other worker is gone";
const SPOILED: &str = "the other worker has spoiled the memory that both share";

/// Whether the process at the other end is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Not yet.
    Awaited,
    /// Frames get through.
    Present,
    /// No more, for good. Why, as a sentence without a full stop.
    Gone(&'static str),
}

/// One end, mapped.
pub struct Line {
    /// What this end sends.
    pub out: Direction,
    /// What it receives.
    pub inward: Direction,
    bell: UnixStream,
    met: bool,
    spoiled: bool,
    gone: Option<&'static str>,
}

impl Line {
    /// Maps both rings.
    ///
    /// # Errors
    /// As mmap(2); `InvalidInput`: these are not the descriptors of [`halves`](crate::halves).
    pub fn new(half: &Half) -> io::Result<Line> {
        Ok(Line {
            out: Direction::new(&half.sends)?,
            inward: Direction::new(&half.receives)?,
            bell: UnixStream::from(half.bell.try_clone()?),
            met: false,
            spoiled: false,
            gone: None,
        })
    }

    /// A byte, without waiting and without SIGPIPE. If there is no room, so many have been rung
    /// that the other side will look. If it is gone, reading tells.
    pub fn ring(&self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&self.bell, b"!", flags);
    }

    /// Takes the bytes that have come; how the other side is now, and whether there were any.
    pub fn listen(&mut self) -> (PeerState, bool) {
        let mut bytes = [0u8; 64];
        let mut rang = false;
        while self.gone.is_none() {
            match recv(&self.bell, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.lose(),
                Ok((got, _)) => {
                    (self.met, rang) = (true, true);
                    if got < bytes.len() {
                        break;
                    }
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(_) => self.lose(),
            }
        }
        (self.state(), rang)
    }

    fn lose(&mut self) {
        self.gone = Some(if self.spoiled { SPOILED } else { GONE });
        // The other side learns of it.
        let _ = self.bell.shutdown(Shutdown::Both);
    }

    /// How the other side was when it was last listened to.
    pub fn state(&self) -> PeerState {
        match self.gone {
            Some(why) => PeerState::Gone(why),
            None if self.met => PeerState::Present,
            None => PeerState::Awaited,
        }
    }

    /// The other side has written nonsense: nothing is read from it any more.
    pub fn spoil(&mut self) {
        self.spoiled = true;
        // So that it is heard.
        let _ = self.bell.shutdown(Shutdown::Both);
    }

    /// Whether it has.
    pub fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Whether the other side has something for this one: frames, or room for one that waits.
    pub fn has_something(&self) -> bool {
        self.has(true, true)
    }

    fn has(&self, frames: bool, room: bool) -> bool {
        let words = self.inward.words();
        !self.spoiled
            && (frames && words.head.load(Ordering::Relaxed) != words.tail.load(Ordering::Relaxed)
                || room && self.out.words().has_room_for_one_that_waits())
    }

    /// Has the other side ring from now on; false if there is something already.
    pub fn rest(&self) -> bool {
        self.rest_but_for(true, true)
    }

    /// The same of one that wants no frames now, or has none that wait for room.
    pub(crate) fn rest_but_for(&self, frames: bool, room: bool) -> bool {
        if self.spoiled {
            return true;
        }
        let words = self.inward.words();
        words.asleep.store(1, Ordering::Relaxed);
        // Either we see what the other side shows now, or it sees the flag.
        fence(Ordering::SeqCst);
        if !self.has(frames, room) {
            return true;
        }
        words.asleep.store(0, Ordering::Relaxed);
        false
    }

    /// Rings if the other side's process sleeps, and does not know that there is something.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        let asleep = self.out.words().asleep;
        if asleep.load(Ordering::Relaxed) != 0 {
            asleep.store(0, Ordering::Relaxed);
            self.ring();
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The caller's descriptor of it may still be open.
        let _ = self.bell.shutdown(Shutdown::Both);
    }
}

/// The control words of a direction, as both sides read and write them.
pub(crate) struct Words<'a> {
    pub(crate) head: &'a AtomicU64,
    pub(crate) tail: &'a AtomicU64,
    pub(crate) asleep: &'a AtomicU32,
    pub(crate) starved: &'a AtomicU32,
    pub(crate) most: &'a AtomicU32,
}

impl Words<'_> {
    /// As abi.h says of `asleep`.
    fn has_room_for_one_that_waits(&self) -> bool {
        let on_way = || {
            let head = self.head.load(Ordering::Relaxed);
            head.wrapping_sub(self.tail.load(Ordering::Relaxed))
        };
        self.starved.load(Ordering::Relaxed) != 0 && on_way() <= SIZE as u64 / 2
    }
}

/// One direction's memory: its page, and its ring mapped twice in a row, so that no frame is in two
/// pieces.
pub struct Direction(Mapping);

impl Direction {
    /// Maps what [`halves`](crate::halves) made, perhaps in another process.
    fn new(memory: impl AsFd) -> io::Result<Direction> {
        // What makes sure that a mapping stays backed.
        let wanted = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let is_sealed = fcntl_get_seals(&memory)?.contains(wanted);
        if !is_sealed || fstat(&memory)?.st_size != (CONTROL + SIZE) as i64 {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        let mapping = Mapping::new(CONTROL + 2 * SIZE)?;
        for (at, from, len) in [(0, 0, CONTROL + SIZE), (CONTROL + SIZE, CONTROL, SIZE)] {
            let pages = Pages::Shared(memory.as_fd(), from as u64);
            mapping.replace(at..at + len, pages)?;
        }
        // A child of ours has no business with it.
        mapping.keep_from_forks(0..mapping.len());
        Ok(Direction(mapping))
    }

    /// The page of control words, a `struct vink_pipe`.
    pub fn start(&self) -> *mut c_void {
        self.0.start()
    }

    /// The ring's first byte.
    pub fn bytes(&self) -> *mut c_void {
        self.0.start().wrapping_byte_add(CONTROL)
    }

    /// Copies bytes from the ring, behind so many that were ever put there.
    pub(crate) fn read(&self, count: u64, into: &mut [u8]) {
        self.0.read(place(count), into);
    }

    /// Copies bytes into it.
    pub(crate) fn write(&self, count: u64, bytes: &[u8]) {
        self.0.write(place(count), bytes);
    }

    pub(crate) fn words(&self) -> Words<'_> {
        let pipe: *mut Pipe = self.0.start().cast();
        // SAFETY: the page is there, is aligned, and is only accessed by atomics as long as the
        // mapping; the images do so by single instructions.
        unsafe {
            Words {
                head: AtomicU64::from_ptr(&raw mut (*pipe).head),
                tail: AtomicU64::from_ptr(&raw mut (*pipe).tail),
                asleep: AtomicU32::from_ptr(&raw mut (*pipe).asleep),
                starved: AtomicU32::from_ptr(&raw mut (*pipe).starved),
                most: AtomicU32::from_ptr(&raw mut (*pipe).most),
            }
        }
    }
}

fn place(count: u64) -> usize {
    CONTROL + (count & (SIZE as u64 - 1)) as usize
}
