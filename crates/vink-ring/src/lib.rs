//! Shared rings: memory that a trapped process shares with its worker, in which its threads post
//! calls on streams that need no system call. One side is `vink-quick`, in the program; the other
//! `vink-trap`.
//!
//! # Theory of operation
//!
//! Each thread has a [`Slot`]. It writes a request there, sets the slot's bit in
//! [`SharedRing::posted`], and polls the slot's state until the answer is there. The worker polls
//! `posted` while [`SharedRing::worker_polling`] is set, clears the bit, which makes the request
//! its own, and answers. A thread that has waited for long may clear the bit itself: then the
//! request was never made. So no request is served twice, or lost.
//!
//! A request never blocks in the kernel. A request that can't be done at once, or is anything but
//! the transfer of a stream's bytes, is [`REFUSED`], and the thread makes the system call instead,
//! which is trapped.
//!
//! A small send that is certain to succeed, as [`ReadinessEntry::take_credit`] says, need not be
//! waited for: it is a [`DeferredSend`] in the slot's [`DeferredSends`]. The worker carries out a
//! thread's deferred sends in their order, and all of a process's before whatever else it does for
//! that process or any other, but receives that find data.
//!
//! [`SharedRing::files`] says what descriptors are, of which not all need be known. A number is
//! cleared there before it is closed: what it says is true as long as the descriptor is open.
//!
//! [`SharedRing::readiness`] has the readiness of some descriptors, which the host need not know
//! then: the placeholder of a socket that only the library waits for may be stale.
//!
//! The worker believes nothing that is in here but what it has checked, once it has copied it.
//!
//! In virtual time nothing is posted. One thread runs at a time then, and what it does to a pipe of
//! the host's until its next trapped call can disturb no other thread: it makes such calls itself,
//! within the budget in [`SchedPage`], and notes them there. So it answers a poll(2) like its last
//! one itself, if something of the host's is ready: the readiness of Vink's files is there.

#![deny(unsafe_op_in_unsafe_fn)]

mod atomic;
mod deferred;
mod readiness;

use std::cell::UnsafeCell;

use atomic::{sized, spin_loop, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicU8, Ordering};

pub use deferred::{DeferredSend, DeferredSends, MAX_DEFERRED, MAX_DEFERRED_LEN};
pub use readiness::{Edges, Readiness, ReadinessEntry, PUBLISHED};

/// Threads of a process that can post.
pub const SLOTS: usize = sized(64, 2);
/// Bytes that a request can carry.
pub const MAX_DATA: usize = sized(128 << 10, 8);
/// Descriptors that requests can be about: the numbers below this one.
pub const FILES: usize = sized(4096, 1);

/// No answer of a system call: it is to be made.
pub const REFUSED: i64 = -1000;

/// How the library's path (`LD_PRELOAD`) ends if it is to be handed on only to what a program
/// executes in its own process, and not to what its children execute.
pub const IN_OWN_PROCESS: &str = "./libvink_quick.so";

/// `ioctl(-1, GET_RING)`, as long as a worker traps it, gives a descriptor of the process's ring,
/// to be mapped and closed; `EBADF` if it is to have none.
pub const GET_RING: u64 = 0x564e_4b01;
/// `ioctl(-1, GET_SLOT)` gives the number of the calling thread's slot.
pub const GET_SLOT: u64 = 0x564e_4b02;

/// `ioctl(-1, FLUSH)` does what [`Request::FLUSH`] asks for.
pub const FLUSH: u64 = 0x564e_4b03;

/// As the sixth argument of a system call that has five at most: it is the host's business alone,
/// and is not trapped.
pub const UNTRAPPED: u64 = 0x5649_4e4b_4e41_5456;

/// Flags of a posted send (`MSG_*`): those that mean the same to one that doesn't wait.
pub const SENDS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
/// The same of a receive.
pub const RECEIVES: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_PEEK;

/// [`SharedRing::files`]: nothing is known of it yet; the worker marks it at a system call.
pub const UNKNOWN: u8 = 0;
/// It is a stream socket of Vink's.
pub const STREAM: u8 = 1;
/// It is something of Vink's that only system calls are for.
pub const OTHER: u8 = 2;
/// It is the host's. Also a program may say so, of what it has just opened.
pub const HOST: u8 = 3;
/// In virtual time: it is a pipe of the host's.
pub const PIPE: u8 = 4;

/// The most descriptors of a poll(2) that a page holds.
pub const MAX_POLLED: usize = sized(64, 1);

/// [`SchedPage::flags`]: there is a time-out.
pub const HAS_TIME: u32 = 1;
/// There is a signal mask.
pub const HAS_MASK: u32 = 2;
/// The process has polled what of it is the host's, and nothing of that is ready.
pub const HOST_POLLED: u32 = 4;

/// As many words are what a process is shown of the clock.
pub const CLOCK_WORDS: usize = sized(13, 1);

/// [`SchedPage::touched`]: data has been moved to or from a pipe.
pub const PIPE_USED: u32 = 1;
/// ... and a `SIGPIPE` may have been sent.
pub const PIPE_BROKEN: u32 = 2;

/// The answer is there, if there ever was a request.
const ANSWERED: u32 = 0;
/// There is a request.
const POSTED: u32 = 1;
/// ... and its thread sleeps (futex(2)).
const SLEEPING: u32 = 2;

/// The memory that a process shares with its worker.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub struct SharedRing {
    /// Tells it from every other one of its worker's; not 0.
    pub id: AtomicU64,
    /// Not 0: the worker polls `posted`.
    pub worker_polling: AtomicU32,
    /// Counts the process's trapped calls: any of them may take send credit that was published. In
    /// virtual time, those before which the kernel has run.
    pub syscall_seq: AtomicU32,
    /// A bit for each slot: a request waits there.
    pub posted: CacheLine<AtomicU64>,
    /// A bit for each slot: there may be deferred sends.
    pub deferred: CacheLine<AtomicU64>,
    /// Of virtual time.
    pub sched: SchedPage,
    /// How many threads use, or may use, the host's readiness: as long as it is 0, and
    /// `worker_polling` is not, placeholders may be stale. The worker begins with 1, for the
    /// program as such.
    pub host_waiters: AtomicU32,
    /// A bit for each slot: its thread is counted in `host_waiters` while it polls.
    pub polling_slots: AtomicU64,
    /// Not 0: calls have been answered, and the readiness that they caused is not published yet, as
    /// long as `worker_polling` is not 0.
    pub publish_pending: CacheLine<AtomicU32>,
    /// Counts what is published in `readiness`.
    pub publish_count: CacheLine<AtomicU32>,
    /// What is known of readiness, by descriptor.
    pub readiness: ReadinessPage,
    /// What a descriptor is: [`STREAM`], for example.
    pub files: [AtomicU8; FILES],
    /// One for each thread.
    pub slots: [Slot; SLOTS],
}

/// The readiness of a process's descriptors, by their numbers.
pub type ReadinessPage = [ReadinessEntry; FILES];

/// What a process may do untrapped in virtual time, and what it has done.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub struct SchedPage {
    /// Not 0: time is virtual. It does not change.
    pub is_virtual: AtomicU32,
    /// How many calls may be made before the next one that is trapped.
    pub call_budget: AtomicU32,
    /// Not 0: none of them on a pipe, for one has found nothing.
    pub pipe_would_block: AtomicU32,
    /// [`PIPE_USED`] and [`PIPE_BROKEN`], since the last trapped call.
    pub touched: AtomicU32,
    /// How many of `polled` count; 0 if nothing is known.
    pub polled_count: AtomicU32,
    /// What the last trapped call, a poll(2), has waited for, or the next one will: each a `struct
    /// pollfd`, as little-endian bytes.
    pub polled: [AtomicU64; MAX_POLLED],
    /// Which of these are Vink's: as long as no call is trapped, what was found of them is true.
    pub vink_fds: AtomicU64,
    /// Where the next call, a poll(2), has what it waits for: it need not be looked for there, for
    /// it is in `polled`. 0: it may be another call.
    pub posted_poll: AtomicU64,
    /// ... of that one: [`HAS_TIME`] and others.
    pub flags: AtomicU32,
    /// ... its `struct timespec`.
    pub time: [AtomicU64; 2],
    /// Its signal mask.
    pub mask: AtomicU64,
    /// Not 0: when the call is back, the process is to take what was found from `polled`.
    pub results_ready: AtomicU32,
    /// Where the process is to copy `clock` to when the call is back; 0: nowhere.
    pub clock_at: AtomicU64,
    /// What it is shown of the clock.
    pub clock: [AtomicU32; CLOCK_WORDS],
}

/// Alone in its cache lines.
#[repr(C, align(128))]
#[cfg_attr(loom, derive(Default))]
pub struct CacheLine<T>(pub T);

/// What a thread asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// `SYS_sendto`, `SYS_recvfrom`, `SYS_ioctl` or `SYS_fcntl`; see also [`Request::FLUSH`].
    pub nr: i64,
    /// The program's descriptor.
    pub fd: i32,
    /// `MSG_*`; of an ioctl(2) its request, which is `FIONREAD`; of a fcntl(2) its command,
    /// `F_GETFL`.
    pub flags: i32,
    /// Bytes in the slot to be sent, or that there is room for.
    pub len: usize,
}

impl Request {
    /// No call: asks the worker to flush stale placeholders, before a thread that counts in
    /// [`SharedRing::host_waiters`] polls on the host.
    pub const FLUSH: Request = Request {
        nr: libc::SYS_epoll_wait,
        fd: -1,
        flags: 0,
        len: 0,
    };
}

/// A thread's place in a ring.
#[repr(C, align(128))]
#[cfg_attr(loom, derive(Default))]
pub struct Slot {
    state: AtomicU32,
    nr: AtomicU32,
    fd: AtomicI32,
    flags: AtomicI32,
    len: AtomicU32,
    result: AtomicI64,
    /// In virtual time, where the thread's next call, which receives, has its buffer: what comes may stand
    /// in [`Slot::data`] instead. 0: it may be another call.
    pub posted_receive: AtomicU64,
    /// ... not 0: it stands there when the call is back.
    pub received: AtomicU32,
    /// Sends that the thread does not wait for.
    pub deferred_sends: DeferredSends,
    data: CacheLine<UnsafeCell<[u8; MAX_DATA]>>,
}

// SAFETY: everything but the data is atomic. The data is only reached by pointers (`Slot::data`),
// and the other process, which may write there at any time, is outside of what Rust knows of.
unsafe impl Sync for Slot {}

/// How often `publish_pending` is read before a thread gives up: publication takes a microsecond or
/// two.
const PUBLISH_SPINS: usize = sized(2000, 2);

impl SharedRing {
    /// Whether time is virtual.
    #[inline]
    pub fn is_virtual(&self) -> bool {
        self.sched.is_virtual.load(Ordering::Relaxed) != 0
    }

    /// Waits until all readiness that answered calls have caused is published. False: some may not
    /// be.
    #[inline]
    pub fn wait_published(&self) -> bool {
        if self.worker_polling.load(Ordering::Acquire) == 0 {
            return false;
        }
        for _ in 0..PUBLISH_SPINS {
            if self.publish_pending.0.load(Ordering::Acquire) == 0 {
                return true;
            }
            spin_loop();
        }
        false
    }

    /// Posts what stands in a slot. False: the worker does not poll, and it was not posted.
    pub fn post(&self, slot: usize) -> bool {
        self.posted.0.fetch_or(1 << slot, Ordering::SeqCst);
        // Either this thread sees that the worker has gone to sleep, or the worker sees the bit
        // before it does.
        self.worker_polling.load(Ordering::SeqCst) != 0 || !self.take(slot)
    }

    /// A slot has a deferred send more. False: the worker does not poll, and may not see it.
    #[inline]
    pub fn post_deferred(&self, slot: usize) -> bool {
        self.deferred.0.fetch_or(1 << slot, Ordering::SeqCst);
        // As of `post`.
        self.worker_polling.load(Ordering::SeqCst) != 0
    }

    /// Whether the worker polls from now on. After it has said that it does not, it is to look once
    /// more whether the ring is [empty](SharedRing::is_empty) before it sleeps.
    pub fn set_polling(&self, polls: bool) {
        self.worker_polling.store(polls.into(), Ordering::SeqCst);
    }

    /// Whether nothing is posted, and no send deferred.
    pub fn is_empty(&self) -> bool {
        self.posted.0.load(Ordering::SeqCst) == 0 && self.deferred.0.load(Ordering::SeqCst) == 0
    }

    /// Takes a slot's request out: true if it was there, and now is the caller's alone.
    pub fn take(&self, slot: usize) -> bool {
        let bit = 1 << slot;
        self.posted.0.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }
}

impl Slot {
    /// The bytes that go with the request, [`MAX_DATA`] of them.
    pub fn data(&self) -> *mut u8 {
        self.data.0.get().cast()
    }

    /// Writes a request, before it is posted.
    pub fn write(&self, request: Request) {
        self.nr.store(request.nr as u32, Ordering::Relaxed);
        self.fd.store(request.fd, Ordering::Relaxed);
        self.flags.store(request.flags, Ordering::Relaxed);
        self.len.store(request.len as u32, Ordering::Relaxed);
        self.state.store(POSTED, Ordering::Release);
    }

    /// Reads it, after it was taken.
    pub fn read(&self) -> Request {
        Request {
            nr: self.nr.load(Ordering::Relaxed).into(),
            fd: self.fd.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            len: (self.len.load(Ordering::Relaxed) as usize).min(MAX_DATA),
        }
    }

    /// The answer, if it is there: as from a system call, or [`REFUSED`].
    pub fn answer(&self) -> Option<i64> {
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        answered.then(|| self.result.load(Ordering::Relaxed))
    }

    /// Answers.
    pub fn set_answer(&self, result: i64) {
        self.result.store(result, Ordering::Relaxed);
        if self.state.swap(ANSWERED, Ordering::SeqCst) == SLEEPING {
            self.futex(libc::FUTEX_WAKE, i32::MAX as u32);
        }
    }

    /// Waits for the answer to a request that has been taken.
    pub fn wait(&self) -> i64 {
        loop {
            if let Some(result) = self.answer() {
                return result;
            }
            let (from, to) = (POSTED, SLEEPING);
            let _ = self
                .state
                .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
            self.futex(libc::FUTEX_WAIT, SLEEPING);
        }
    }

    /// In a model nothing sleeps: the state is looked at again.
    #[cfg(loom)]
    fn futex(&self, _operation: i32, _value: u32) {
        loom::thread::yield_now();
    }

    #[cfg(not(loom))]
    fn futex(&self, operation: i32, value: u32) {
        // SAFETY: the word is mapped as long as the slot is; there is no time-out.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.state.as_ptr(),
                operation,
                value,
                std::ptr::null::<libc::timespec>(),
            )
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Memory of a ring, all zero.
    fn ring() -> Box<SharedRing> {
        // SAFETY: all of its fields are numbers, for which zero is valid.
        unsafe { Box::<SharedRing>::new_zeroed().assume_init() }
    }

    const REQUEST: Request = Request {
        nr: libc::SYS_sendto,
        fd: -3,
        flags: libc::MSG_DONTWAIT,
        len: MAX_DATA,
    };

    #[test]
    fn a_request_and_its_answer() {
        let ring = ring();
        let slot = &ring.slots[5];
        slot.write(REQUEST);
        assert!(!ring.post(5), "the worker does not poll");
        assert_eq!(ring.posted.0.load(Ordering::Relaxed), 0);
        ring.worker_polling.store(1, Ordering::Relaxed);
        assert!(ring.post(5) && slot.answer().is_none());
        assert!(ring.take(5) && !ring.take(5));
        assert_eq!(slot.read(), REQUEST);
        slot.set_answer(-11);
        assert_eq!((slot.answer(), slot.wait()), (Some(-11), -11));
    }

    #[test]
    fn more_than_there_is_room_for_is_cut_off() {
        let ring = ring();
        let len = MAX_DATA + 1;
        ring.slots[0].write(Request { len, ..REQUEST });
        assert_eq!(ring.slots[0].read().len, MAX_DATA);
    }

    #[test]
    fn threads_that_sleep_are_woken() {
        let ring = ring();
        ring.worker_polling.store(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for n in 0..SLOTS {
                let ring = &ring;
                scope.spawn(move || {
                    for round in 0..100 {
                        let fd = round * SLOTS as i32 + n as i32;
                        ring.slots[n].write(Request { fd, ..REQUEST });
                        assert!(ring.post(n));
                        assert_eq!(ring.slots[n].wait(), fd.into());
                    }
                });
            }
            let mut left = 100 * SLOTS;
            while left > 0 {
                for (n, slot) in ring.slots.iter().enumerate() {
                    if ring.take(n) {
                        slot.set_answer(slot.read().fd.into());
                        left -= 1;
                    }
                }
            }
        });
    }
}
