//! The keeper: a thread of our own that drives the kernel when no thread of the program does.
//!
//! It looks once in each tick. If the program has made a call since, that has served what there was; if a thread
//! of the program is the driver, the keeper sleeps until that resigns. Else it is the driver, until a thread of
//! the program waits or calls.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::thread::Builder;
use std::time::Duration;

use vink_kernel::monotonic;
use vink_sys::signals::{mask, Mask, SignalSet};

use crate::host::poll;
use crate::stack::{die, Stack};
use crate::thread::Record;
use crate::Error;

/// In ns: for so long, or twice, nothing drives the kernel when the program has stopped calling.
const TICK: u64 = 1_000_000;

/// Enough for the host operations; the kernel has stacks of its own.
const STACK_BYTES: usize = 256 << 10;

/// Does something with all signals blocked, for a thread that is made there.
pub(crate) fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    let before = mask(Mask::Set, SignalSet::ALL);
    let result = f();
    mask(Mask::Set, before);
    result
}

pub(crate) struct Keeper {
    record: Record,
    /// It sleeps until a driver resigns.
    asleep: AtomicBool,
    started: OnceLock<Result<(), i32>>,
}

impl Keeper {
    pub fn new() -> Result<Keeper, Error> {
        let record = Record::new(None);
        record.prepare_bell()?;
        Ok(Keeper {
            record,
            asleep: AtomicBool::new(false),
            started: OnceLock::new(),
        })
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Starts the thread, once. It gets none of the program's signals.
    pub fn start(&self, stack: &'static Stack) -> Result<(), &'static Error> {
        static FAILED: OnceLock<Error> = OnceLock::new();
        let started = self.started.get_or_init(|| {
            let thread = without_signals(|| {
                Builder::new()
                    .name("vink".to_owned())
                    .stack_size(STACK_BYTES)
                    .spawn(move || stack.keeper.keep(stack))
            });
            let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EAGAIN);
            thread.map(drop).map_err(errno)
        });
        started.map_err(|errno| {
            FAILED.get_or_init(|| Error::System {
                what: "starting a thread for the stack",
                errno,
            })
        })
    }

    /// There is no driver any more.
    #[inline]
    pub fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst) {
            self.record.wake();
        }
    }

    fn keep(&self, stack: &'static Stack) -> ! {
        loop {
            let entries = stack.entries.load(Ordering::Relaxed);
            self.record.sleep(Some(TICK), || false);
            if stack.entries.load(Ordering::Relaxed) != entries {
                continue;
            }
            if stack.driver.load(Ordering::SeqCst).is_null() {
                if stack.becomes_driver(&self.record) {
                    self.drive(stack, entries);
                }
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            self.record
                .sleep(None, || stack.driver.load(Ordering::SeqCst).is_null());
            self.asleep.store(false, Ordering::SeqCst);
        }
    }

    /// As the driver, until the program is at it.
    fn drive(&self, stack: &'static Stack, entries: u64) {
        let own = std::ptr::from_ref(&self.record).cast_mut();
        let is_driver = || stack.driver.load(Ordering::SeqCst) == own;
        let mut set = Vec::new();
        while is_driver() && stack.entries.load(Ordering::Relaxed) == entries {
            let mut guard = stack.token.take();
            let served = guard.serve_all();
            let more = !guard.may_sleep();
            let due = guard.due;
            set.clear();
            set.push(libc::pollfd {
                fd: -1,
                events: 0,
                revents: 0,
            });
            set.extend(guard.poll_set());
            stack.sleeps_until.store(due, Ordering::SeqCst);
            stack.leave(guard);
            served.unwrap_or_else(|error| die(&error));
            let limit = match more {
                true => Some(0),
                false => (due != u64::MAX).then(|| due.saturating_sub(monotonic())),
            };
            self.record.poll(&mut set, limit, || {
                !is_driver() || stack.due.load(Ordering::SeqCst) < due
            });
        }
        let resigned =
            stack
                .driver
                .compare_exchange(own, null_mut(), Ordering::SeqCst, Ordering::Relaxed);
        if resigned.is_ok() {
            stack.sleeps_until.store(0, Ordering::SeqCst);
        }
    }

    /// See [`Stack::finish`].
    pub fn linger(&self, stack: &Stack, limit: Duration) -> Result<(), vink_kernel::Error> {
        let end = monotonic() + limit.as_nanos() as u64;
        stack.token.take().end()?;
        loop {
            let mut guard = stack.token.take();
            guard.serve_all()?;
            let mut set: Vec<_> = guard.poll_set().collect();
            let time = monotonic();
            if time >= end || set.iter().all(|fd| fd.fd < 0) || !guard.has_unfinished()? {
                return Ok(());
            }
            let until = guard.due.min(end);
            let limit = if !guard.may_sleep() {
                0
            } else {
                until.saturating_sub(time)
            };
            drop(guard);
            poll(&mut set, Some(limit));
        }
    }
}
