//! poll(2) and select(2), answered from the ring's readiness page if that has all descriptors that
//! are asked about.
//!
//! As long as nothing is ready, the thread spins for a little while and polls again, with signals
//! blocked. Then it makes the system call, with the mask that the program wants and for the time
//! that is left: so a signal finds the thread in a call that it ends. A thread in such a call is
//! counted in `host_waiters` and marked in `polling_slots`: the worker flushes the placeholders of
//! the files concerned, and keeps them up to date as long as the thread is counted.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use libc::{c_int, fd_set, pollfd, timespec};
use vink_ring::SharedRing;
use vink_shim::{Given, Mask};

use crate::post::{knows, own_slot, ring};
use crate::sets::{await_news, now, take_over, Blocked, PAGE_SPINS};
use crate::wait::{next_ppoll, next_pselect};

const IN: u32 = libc::EPOLLIN as u32;
const PRI: u32 = libc::EPOLLPRI as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;

/// What makes a descriptor readable, writable and exceptional for select(2), of published events.
const KINDS: [u32; 3] = [IN | HUP | ERR, OUT | ERR, PRI];

/// The most descriptors that are handled here: as many as a `fd_set` has.
const MOST: usize = 1024;
const WORDS: usize = MOST / 64;

/// What is asked about.
pub(crate) trait Asked {
    /// How many are ready, which is written where the program reads it, if it is more than none or
    /// the `last` word; `None`: the page does not have all of them.
    fn look(&mut self, ring: &SharedRing, last: bool) -> Option<c_int>;

    /// Asks the host, with the time that is left.
    fn sleep(&mut self, limit: Option<&timespec>, mask: Mask) -> c_int;
}

/// How to wait.
pub(crate) struct Wait<'a> {
    /// Nanoseconds; `None`: for ever.
    pub(crate) limit: Option<u64>,
    pub(crate) mask: Mask<'a>,
}

impl Wait<'_> {
    /// What the call gives; `None`: it is to be made.
    #[inline]
    pub(crate) fn answer(&self, asked: &mut impl Asked) -> Option<c_int> {
        let ring = ring().filter(|_| knows())?;
        // One that does not wait polls once, unless a signal that is pending may come in by the
        // mask: that ends even such a call.
        let last = self.limit == Some(0) && self.mask.is_none();
        if !ring.wait_published() {
            return None;
        }
        match asked.look(ring, last)? {
            0 if last => Some(0),
            0 if self.limit == Some(0) => None,
            0 => self.wait(ring, asked),
            ready => Some(ready),
        }
    }

    #[cold]
    fn wait(&self, ring: &'static SharedRing, asked: &mut impl Asked) -> Option<c_int> {
        own_slot(ring)?;
        take_over(ring);
        let mut blocked = Blocked::new();
        let before = blocked.block();
        let deadline = self.limit.map(|limit| now().saturating_add(limit));
        let mut looks = 0;
        while ring.worker_polling.load(Ordering::Relaxed) != 0 && looks < PAGE_SPINS {
            let seen = ring.publish_count.0.load(Ordering::Acquire);
            match asked.look(ring, false) {
                Some(0) => {}
                Some(ready) => return Some(ready),
                None => break,
            }
            await_news(ring, seen, &mut looks);
        }
        let _counted = Counted::new(ring)?;
        let left = deadline.map(|deadline| time(deadline.saturating_sub(now())));
        Some(asked.sleep(left.as_ref(), self.mask.or(Some(&before))))
    }
}

/// Of nanoseconds.
pub(crate) fn time(nanoseconds: u64) -> timespec {
    timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    }
}

/// This thread uses the host's readiness, as long as this lives.
pub(crate) struct Counted {
    ring: &'static SharedRing,
    slot: usize,
}

impl Counted {
    fn new(ring: &'static SharedRing) -> Option<Counted> {
        let slot = own_slot(ring)?;
        ring.host_waiters.fetch_add(1, Ordering::SeqCst);
        ring.polling_slots.fetch_or(1 << slot, Ordering::SeqCst);
        Some(Counted { ring, slot })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bit = 1 << self.slot;
        self.ring.polling_slots.fetch_and(!bit, Ordering::SeqCst);
        self.ring.host_waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// This thread is about to poll by a system call; `None`: it can't be counted.
pub(crate) fn counted() -> Option<Counted> {
    Counted::new(ring().filter(|_| knows())?)
}

/// The readiness of a descriptor, by its entry.
#[inline]
fn told(ring: &SharedRing, fd: usize) -> Option<u32> {
    ring.readiness.get(fd)?.read().events
}

/// What poll(2) asks about.
pub(crate) struct Polled<'a>(&'a mut [pollfd]);

impl<'a> Polled<'a> {
    /// `None`: they are none, or too many.
    pub(crate) fn new(fds: &'a mut [pollfd]) -> Option<Polled<'a>> {
        (1..=MOST).contains(&fds.len()).then_some(Polled(fds))
    }
}

impl Asked for Polled<'_> {
    #[inline]
    fn look(&mut self, ring: &SharedRing, _last: bool) -> Option<c_int> {
        let mut ready = 0;
        for polled in self.0.iter_mut() {
            polled.revents = 0;
            if let Ok(fd) = usize::try_from(polled.fd) {
                polled.revents =
                    all_names(told(ring, fd)?) & (polled.events | libc::POLLERR | libc::POLLHUP);
                ready += c_int::from(polled.revents != 0);
            }
        }
        // A call with no descriptor waits for something else.
        (ready > 0 || self.0.iter().any(|polled| polled.fd >= 0)).then_some(ready)
    }

    fn sleep(&mut self, limit: Option<&timespec>, mask: Mask) -> c_int {
        next_ppoll(self.0, limit, mask)
    }
}

/// The published events of a TCP socket, with both names that poll(2) has for each.
fn all_names(events: u32) -> i16 {
    let mut events = events as i16;
    if events & libc::POLLIN != 0 {
        events |= libc::POLLRDNORM;
    }
    if events & libc::POLLOUT != 0 {
        events |= libc::POLLWRNORM;
    }
    events
}

/// What select(2) asks about: sets of so many bits, in words; those that are null have none.
pub(crate) struct Selected<'a> {
    count: usize,
    sets: [&'a [Word]; 3],
}

/// A program may pass one set twice.
pub(crate) type Word = Cell<[u8; 8]>;

/// What a program asks about; `None`: the host had better read that memory.
pub(crate) struct Selection<'a>(pub(crate) Option<Selected<'a>>);

impl Given<(c_int, [*mut fd_set; 3])> for Selection<'_> {
    #[inline]
    unsafe fn given((count, given): (c_int, [*mut fd_set; 3])) -> Self {
        let count = usize::try_from(count).ok();
        let Some(count) = count.filter(|count| (1..=MOST).contains(count)) else {
            return Selection(None);
        };
        let mut sets: [&[Word]; 3] = [&[]; 3];
        for (set, given) in sets.iter_mut().zip(given).filter(|(_, at)| !at.is_null()) {
            let words = (given.cast_const().cast::<Word>(), count.div_ceil(64));
            // SAFETY: by the caller: a set has a bit for each descriptor.
            match unsafe { Option::given(words) } {
                Some(words) => *set = words,
                None => return Selection(None),
            }
        }
        Selection(Some(Selected { count, sets }))
    }
}

impl Asked for Selected<'_> {
    #[inline]
    fn look(&mut self, ring: &SharedRing, last: bool) -> Option<c_int> {
        let mut found = [[0u64; WORDS]; 3];
        let (mut asked, mut ready) = (0, 0);
        for ((set, found), kinds) in self.sets.iter().zip(&mut found).zip(KINDS) {
            for (n, (word, found)) in set.iter().zip(found).enumerate() {
                // Without what is beyond the last descriptor.
                let rest = self.count - n * 64;
                let mask = if rest < 64 { (1 << rest) - 1 } else { u64::MAX };
                let mut word = u64::from_ne_bytes(word.get()) & mask;
                asked |= word;
                while word != 0 {
                    let bit = word & word.wrapping_neg();
                    let fd = n * 64 + bit.trailing_zeros() as usize;
                    if told(ring, fd)? & kinds != 0 {
                        *found |= bit;
                        ready += 1;
                    }
                    word ^= bit;
                }
            }
        }
        // A call with no descriptor waits for something else.
        if asked == 0 {
            return None;
        }
        if ready > 0 || last {
            for (set, found) in self.sets.iter().zip(&found) {
                for (word, found) in set.iter().zip(found) {
                    word.set(found.to_ne_bytes());
                }
            }
        }
        Some(ready)
    }

    fn sleep(&mut self, limit: Option<&timespec>, mask: Mask) -> c_int {
        next_pselect(self.count, self.sets, limit, mask)
    }
}
