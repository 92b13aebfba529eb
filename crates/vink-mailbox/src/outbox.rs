//! Outboxes: sends that are certain to succeed, which their thread does not wait for.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// As many may be under way; a power of two.
pub const LETTERS: usize = 64;
/// Bytes that one can carry.
pub const LETTER: usize = 4080;

/// A thread's.
#[repr(C, align(128))]
pub struct Outbox {
    /// Letters written so far, by the thread.
    written: AtomicU32,
    /// ... and sent, by the worker.
    sent: AtomicU32,
    letters: [Letter; LETTERS],
}

/// One send.
#[repr(C, align(64))]
pub struct Letter {
    fd: AtomicI32,
    flags: AtomicI32,
    len: AtomicU32,
    data: UnsafeCell<[u8; LETTER]>,
}

// SAFETY: as of `Slot`.
unsafe impl Sync for Letter {}

impl Outbox {
    /// Where the thread may write one; none if so many are under way.
    #[inline]
    pub fn free(&self) -> Option<&Letter> {
        let written = self.written.load(Ordering::Relaxed);
        let under_way = written.wrapping_sub(self.sent.load(Ordering::Acquire));
        ((under_way as usize) < LETTERS).then(|| &self.letters[written as usize % LETTERS])
    }

    /// It has been written, and is the worker's.
    pub fn push(&self) {
        let written = self.written.load(Ordering::Relaxed);
        self.written
            .store(written.wrapping_add(1), Ordering::Release);
    }

    /// The last one is the thread's again, if it has not been sent, which nobody may be about to do.
    pub fn take_back(&self) -> bool {
        let is_there = self.first().is_some();
        if is_there {
            let written = self.written.load(Ordering::Relaxed);
            self.written
                .store(written.wrapping_sub(1), Ordering::Release);
        }
        is_there
    }

    /// How many are to be sent.
    pub fn count(&self) -> usize {
        let sent = self.sent.load(Ordering::Relaxed);
        let count = self.written.load(Ordering::Acquire).wrapping_sub(sent) as usize;
        // More there can't be: the program has written garbage.
        if count > LETTERS {
            return 0;
        }
        count
    }

    /// The next one that is to be sent.
    pub fn first(&self) -> Option<&Letter> {
        let sent = self.sent.load(Ordering::Relaxed);
        (self.count() > 0).then(|| &self.letters[sent as usize % LETTERS])
    }

    /// None is to be sent.
    pub fn clear(&self) {
        let written = self.written.load(Ordering::Acquire);
        self.sent.store(written, Ordering::Release);
    }

    /// It has been sent.
    pub fn pop(&self) {
        let sent = self.sent.load(Ordering::Relaxed);
        self.sent.store(sent.wrapping_add(1), Ordering::Release);
    }
}

impl Letter {
    /// Its bytes, [`LETTER`] of them.
    pub fn data(&self) -> *mut u8 {
        self.data.get().cast()
    }

    /// Where the first `len` of them are to go, with which flags (`MSG_*`).
    pub fn address(&self, fd: i32, flags: i32, len: usize) {
        self.fd.store(fd, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.len.store(len as u32, Ordering::Relaxed);
    }

    /// What was given to [`Letter::address`].
    pub fn read(&self) -> (i32, i32, usize) {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let flags = self.flags.load(Ordering::Relaxed);
        (self.fd.load(Ordering::Relaxed), flags, len.min(LETTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_sent_in_their_order() {
        // SAFETY: all of its fields are numbers, for which zero is valid.
        let outbox = unsafe { Box::<Outbox>::new_zeroed().assume_init() };
        let mut read = 0;
        for n in 0..3 * LETTERS as i32 {
            while outbox.free().is_none() {
                assert_eq!(outbox.first().unwrap().read(), (read, 2, LETTER));
                outbox.pop();
                read += 1;
            }
            outbox.free().unwrap().address(n, 2, LETTER + 1);
            outbox.push();
        }
        assert_eq!(read, 2 * LETTERS as i32);
        assert_eq!(outbox.count(), LETTERS);
        outbox.pop();
        assert_eq!(outbox.count(), LETTERS - 1);
        outbox.clear();
        assert!(outbox.free().is_some() && !outbox.take_back());
        outbox.push();
        assert!(outbox.take_back() && outbox.first().is_none());
    }
}
