//! Deferred sends: they are certain to succeed, so that their thread does not wait for them.

use std::cell::UnsafeCell;

use crate::atomic::{sized, AtomicI32, AtomicU32, Ordering};

/// As many may be under way; a power of two.
pub const MAX_DEFERRED: usize = sized(64, 2);
/// Bytes that one can carry.
pub const MAX_DEFERRED_LEN: usize = sized(4080, 8);

/// A thread's.
#[repr(C, align(128))]
#[cfg_attr(loom, derive(Default))]
pub struct DeferredSends {
    /// Sends written so far, by the thread.
    written: AtomicU32,
    /// ... and sent, by the worker.
    sent: AtomicU32,
    sends: [DeferredSend; MAX_DEFERRED],
}

/// One send.
#[repr(C, align(64))]
#[cfg_attr(loom, derive(Default))]
pub struct DeferredSend {
    fd: AtomicI32,
    flags: AtomicI32,
    len: AtomicU32,
    data: UnsafeCell<[u8; MAX_DEFERRED_LEN]>,
}

// SAFETY: as of `Slot`.
unsafe impl Sync for DeferredSend {}

impl DeferredSends {
    /// Where the thread may write one; none if so many are under way.
    #[inline]
    pub fn free(&self) -> Option<&DeferredSend> {
        let written = self.written.load(Ordering::Relaxed);
        let under_way = written.wrapping_sub(self.sent.load(Ordering::Acquire));
        ((under_way as usize) < MAX_DEFERRED).then(|| &self.sends[written as usize % MAX_DEFERRED])
    }

    /// It has been written, and is the worker's.
    pub fn push(&self) {
        let written = self.written.load(Ordering::Relaxed);
        self.written
            .store(written.wrapping_add(1), Ordering::Release);
    }

    /// The last one is the thread's again, if the worker has not sent it. The worker may not be
    /// about to.
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
        if count > MAX_DEFERRED {
            return 0;
        }
        count
    }

    /// The next one that is to be sent.
    pub fn first(&self) -> Option<&DeferredSend> {
        let sent = self.sent.load(Ordering::Relaxed);
        (self.count() > 0).then(|| &self.sends[sent as usize % MAX_DEFERRED])
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

impl DeferredSend {
    /// Its bytes, [`MAX_DEFERRED_LEN`] of them.
    pub fn data(&self) -> *mut u8 {
        self.data.get().cast()
    }

    /// Where the first `len` of them are to go, with which flags (`MSG_*`).
    pub fn set_header(&self, fd: i32, flags: i32, len: usize) {
        self.fd.store(fd, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.len.store(len as u32, Ordering::Relaxed);
    }

    /// What was given to [`DeferredSend::set_header`].
    pub fn read(&self) -> (i32, i32, usize) {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let flags = self.flags.load(Ordering::Relaxed);
        (
            self.fd.load(Ordering::Relaxed),
            flags,
            len.min(MAX_DEFERRED_LEN),
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn deferred_sends_keep_their_order() {
        // SAFETY: all of its fields are numbers, for which zero is valid.
        let sends = unsafe { Box::<DeferredSends>::new_zeroed().assume_init() };
        let mut read = 0;
        for n in 0..3 * MAX_DEFERRED as i32 {
            while sends.free().is_none() {
                assert_eq!(sends.first().unwrap().read(), (read, 2, MAX_DEFERRED_LEN));
                sends.pop();
                read += 1;
            }
            sends.free().unwrap().set_header(n, 2, MAX_DEFERRED_LEN + 1);
            sends.push();
        }
        assert_eq!(read, 2 * MAX_DEFERRED as i32);
        assert_eq!(sends.count(), MAX_DEFERRED);
        sends.pop();
        assert_eq!(sends.count(), MAX_DEFERRED - 1);
        sends.clear();
        assert!(sends.free().is_some() && !sends.take_back());
        sends.push();
        assert!(sends.take_back() && sends.first().is_none());
    }
}
