//! What the stack knows of a thread of the program.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{fence, AtomicBool, AtomicI32, AtomicU32, Ordering};

use vink_kernel::{Outcome, TaskId};
use vink_sys::rustix::event::{eventfd, EventfdFlags};
use vink_sys::rustix::io::{read, write};

use crate::spin::SpinBudget;
use crate::{host, Error};

/// One thread that has made a call; its record stays where it is until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Thread(pub(crate) &'static Record);

/// Not asleep.
const AWAKE: u32 = 0;
/// In futex(2), by `word`.
const BY_WORD: u32 = 1;
/// In ppoll(2), with `bell`.
const BY_BELL: u32 = 2;

/// A thread's record. Those of threads that have ended are used again.
pub(crate) struct Record {
    /// Its own task; the keeper has none.
    pub task: Cell<Option<TaskId>>,
    /// Of its call that waited; written by the token's holder, before `done`.
    outcome: UnsafeCell<Outcome>,
    /// `outcome` is there.
    done: AtomicBool,
    /// What another thread did may concern what it waits for.
    pub notified: AtomicBool,
    /// Its wait is to end.
    pub interrupted: AtomicBool,
    /// Changes with each waking.
    word: AtomicU32,
    asleep: AtomicU32,
    /// An eventfd(2), from when it first sleeps in ppoll(2); -1 before.
    bell: AtomicI32,
    /// Room for what its waits give to poll(2): its thread's alone.
    pub set: Cell<Vec<libc::pollfd>>,
    /// How long its waits spin: its thread's alone, or of the token's holder when its thread has ended.
    pub spin: SpinBudget,
}

// SAFETY: `task` is written before the record is shared and when its thread has ended, by the token's holder; only its
// thread uses `set` and `spin`, until it has ended;
// `outcome` is handed over by `done`.
unsafe impl Sync for Record {}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Record");
        shown.field("task", &self.task).finish_non_exhaustive()
    }
}

impl Record {
    pub fn new(task: Option<TaskId>) -> Record {
        Record {
            task: Cell::new(task),
            outcome: UnsafeCell::new(Outcome::default()),
            done: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            word: AtomicU32::new(0),
            asleep: AtomicU32::new(AWAKE),
            bell: AtomicI32::new(-1),
            set: Cell::default(),
            spin: SpinBudget::new(),
        }
    }

    /// As of a thread that has made no call; the bell stays.
    pub fn reset(&self) {
        for flag in [&self.done, &self.notified, &self.interrupted] {
            flag.store(false, Ordering::Relaxed);
        }
        self.spin.reset();
    }

    /// Something has happened that may concern it.
    pub fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        self.wake();
    }

    /// Its call is done. By the token's holder.
    pub fn deliver(&self, outcome: Outcome) {
        // SAFETY: the thread does not look before `done` is set, and has no other call before it has looked.
        unsafe { *self.outcome.get() = outcome };
        self.done.store(true, Ordering::Release);
        self.wake();
    }

    /// What was delivered, once.
    pub fn delivered(&self) -> Option<Outcome> {
        if !self.is_done() {
            return None;
        }
        self.done.store(false, Ordering::Relaxed);
        // SAFETY: delivered, and not written again before this thread makes another call.
        Some(unsafe { *self.outcome.get() })
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Ends its sleep, or the one that it is about to begin. May be called in a signal handler.
    pub fn wake(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
        // Either it sees why it is woken before it sleeps, or we see that it sleeps.
        fence(Ordering::SeqCst);
        match self.asleep.load(Ordering::Relaxed) {
            BY_WORD => host::wake(&self.word),
            BY_BELL => ring(self.bell.load(Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Sleeps until woken, for `limit` ns at most, unless there is a reason not to.
    pub fn sleep(&self, limit: Option<u64>, awake: impl Fn() -> bool) {
        let word = self.word.load(Ordering::Relaxed);
        self.asleep.store(BY_WORD, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !awake() {
            host::sleep_while(&self.word, word, limit);
        }
        self.asleep.store(AWAKE, Ordering::Relaxed);
    }

    /// The same in ppoll(2): also until one of `fds` is ready, of which the first is for the bell. How many of the
    /// others are, or `-errno`.
    pub fn poll(
        &self,
        fds: &mut [libc::pollfd],
        limit: Option<u64>,
        awake: impl Fn() -> bool,
    ) -> i64 {
        fds[0] = libc::pollfd {
            fd: self.bell.load(Ordering::Relaxed),
            events: libc::POLLIN,
            revents: 0,
        };
        self.asleep.store(BY_BELL, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let limit = if awake() { Some(0) } else { limit };
        let ready = host::poll(fds, limit);
        self.asleep.store(AWAKE, Ordering::Relaxed);
        if ready > 0 && fds[0].revents != 0 {
            silence(fds[0].fd);
            return ready - 1;
        }
        ready
    }

    /// Makes its bell, if it has none.
    pub fn prepare_bell(&self) -> Result<(), Error> {
        if self.bell.load(Ordering::Relaxed) < 0 {
            self.bell.store(bell()?, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// An eventfd(2).
fn bell() -> Result<i32, Error> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let bell = made.map_err(|error| Error::System {
        what: "eventfd()",
        errno: error.raw_os_error(),
    })?;
    Ok(host::moved(bell.into_raw_fd()))
}

fn ring(bell: i32) {
    let _ = write(host::own(bell), &1u64.to_ne_bytes());
}

fn silence(bell: i32) {
    let _ = read(host::own(bell), &mut [0; 8]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_waking_is_lost() {
        const COUNT: u64 = 4000;
        let record = Record::new(None);
        record.prepare_bell().expect("a bell");
        let guard = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for now in 1..=COUNT {
                    guard.store(now, Ordering::Release);
                    record.wake();
                    while guard.load(Ordering::Acquire) == now {
                        std::thread::yield_now();
                    }
                }
            });
            for now in 1..=COUNT {
                let has_come = || guard.load(Ordering::Acquire) == now;
                while !has_come() {
                    if now % 2 == 0 {
                        record.sleep(None, has_come);
                    } else {
                        let mut fds = [libc::pollfd {
                            fd: -1,
                            events: 0,
                            revents: 0,
                        }];
                        record.poll(&mut fds, None, has_come);
                    }
                }
                guard.store(0, Ordering::Release);
            }
        });
    }
}
