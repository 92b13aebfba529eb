//! How a thread waits: as the driver, or asleep until the driver has something for it.

use std::ptr::null_mut;
use std::sync::atomic::{fence, Ordering};

use vink_kernel::monotonic;

use crate::host::poll;
use crate::stack::{die, Stack};
use crate::thread::Record;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// `ready` said so.
    Ready,
    /// So many of the host's descriptors are ready, as their `revents` say.
    Host(usize),
    /// The deadline has passed.
    TimedOut,
    /// By [`Stack::interrupt`].
    Interrupted,
    /// The host's poll(2) failed with this errno(3).
    Failed(i32),
}

/// Why time has stopped passing.
pub(crate) enum Passed {
    /// What was waited for is there.
    Over,
    /// As ppoll(2): how many are ready, or `-errno`.
    Host(i64),
    TimedOut,
    Interrupted,
}

impl Stack {
    /// Waits until `ready` says so, which is asked whenever something has happened in the kernel that may concern it, and
    /// may make calls that don't wait; or until one of the host's descriptors is ready, or until `deadline`, in ns
    /// of `CLOCK_MONOTONIC`.
    pub fn wait(
        &self,
        host: &mut [libc::pollfd],
        ready: &mut dyn FnMut(&Stack) -> bool,
        deadline: Option<u64>,
    ) -> Waited {
        let me = self.me();
        self.token.take().attend(me);
        let waited = loop {
            me.notified.store(false, Ordering::SeqCst);
            if ready(self) {
                break Waited::Ready;
            }
            let notified = || me.notified.load(Ordering::Acquire);
            match self.pass(me, host, deadline, &notified) {
                Passed::Over => {}
                Passed::Host(count) => match usize::try_from(count) {
                    Ok(count) => break Waited::Host(count),
                    Err(_) => break Waited::Failed(-count as i32),
                },
                Passed::TimedOut => break Waited::TimedOut,
                Passed::Interrupted => break Waited::Interrupted,
            }
        };
        self.token.take().ignore(me);
        waited
    }

    /// Lets time pass until `over`, driving the kernel if no other thread does.
    pub(crate) fn pass(
        &self,
        me: &'static Record,
        host: &mut [libc::pollfd],
        deadline: Option<u64>,
        over: &dyn Fn() -> bool,
    ) -> Passed {
        let deadline = deadline.unwrap_or(u64::MAX);
        let passed = loop {
            if over() {
                break Passed::Over;
            }
            if me.interrupted.swap(false, Ordering::AcqRel) {
                break Passed::Interrupted;
            }
            // Empty, if a signal's handler waits in the middle of a wait.
            let mut set = me.set.take();
            set.clear();
            set.push(NOTHING);
            let passed = match self.becomes_driver(me) {
                true => self.drive(me, &mut set, host, deadline, over),
                false => self.sleep(me, &mut set, host, deadline, over),
            };
            me.set.set(set);
            if let Some(passed) = passed {
                break passed;
            }
        };
        self.resign(me);
        passed
    }

    /// If there is no driver, or only the keeper.
    pub(crate) fn becomes_driver(&self, me: &Record) -> bool {
        let me = std::ptr::from_ref(me).cast_mut();
        let keeper = std::ptr::from_ref(self.keeper.record()).cast_mut();
        let driver = self.driver.load(Ordering::Acquire);
        driver == me
            || ((driver.is_null() || driver == keeper)
                && self
                    .driver
                    .compare_exchange(driver, me, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok())
    }

    pub(crate) fn resign(&self, me: &Record) {
        let me = std::ptr::from_ref(me).cast_mut();
        if self.driver.load(Ordering::Relaxed) == me {
            self.sleeps_until.store(0, Ordering::Relaxed);
            self.driver.store(null_mut(), Ordering::Release);
            self.keeper.rouse();
        }
    }

    /// One round as the driver: `None` if it is to be looked at again. `set` has an entry for the bell.
    fn drive(
        &self,
        me: &'static Record,
        set: &mut Vec<libc::pollfd>,
        host: &mut [libc::pollfd],
        deadline: u64,
        over: &dyn Fn() -> bool,
    ) -> Option<Passed> {
        // The bell, the devices, and what the caller waits for.
        let guard = self.token.take();
        set.extend(guard.poll_set());
        let mut more = guard.has_more();
        drop(guard);
        let devices = 1..set.len();
        set.extend_from_slice(host);
        let beginning = monotonic();
        let spins_until = beginning + me.spin.allowed(beginning, self.spin);
        let mut spun = spins_until == beginning;
        let mut round = 0u32;
        loop {
            let time = monotonic();
            let due = self.due.load(Ordering::SeqCst).min(deadline);
            let guard = self.token.take();
            let called = guard.kernel.is_called();
            let spinning = time < spins_until;
            let asleep = !more && !called && !spinning && due > time && guard.may_sleep();
            drop(guard);
            round += 1;
            let ready = if asleep {
                if !std::mem::replace(&mut spun, true) {
                    me.spin.was_in_vain();
                }
                self.sleeps_until.store(due, Ordering::SeqCst);
                let awake = || {
                    over()
                        || me.interrupted.load(Ordering::Acquire)
                        || self.due.load(Ordering::SeqCst) < due
                };
                let limit = (due != u64::MAX).then(|| due - time);
                let ready = me.poll(set, limit, awake);
                self.sleeps_until.store(0, Ordering::SeqCst);
                ready
            } else if called || (spinning && !round.is_multiple_of(MEMORY_POLLS)) {
                std::hint::spin_loop();
                0
            } else {
                poll(&mut set[1..], Some(0))
            };
            let theirs = set[devices.end..].iter().filter(|fd| fd.revents != 0);
            let theirs = theirs.count();
            let ours = more || called || ready > theirs as i64;
            if ours || self.due.load(Ordering::SeqCst) <= monotonic() {
                let mut guard = self.token.take();
                let served = match ready > 0 {
                    true => guard.serve_ready(&set[devices.clone()]),
                    false => guard.serve_ready(&[]),
                };
                more = guard.has_more();
                for (entry, device) in set[devices.clone()].iter_mut().zip(guard.poll_set()) {
                    *entry = device;
                }
                self.leave(guard);
                served.unwrap_or_else(|error| die(&error));
            }
            if over() || me.interrupted.load(Ordering::Acquire) {
                return None;
            }
            if theirs > 0 {
                host.copy_from_slice(&set[devices.end..]);
                return Some(Passed::Host(theirs as i64));
            }
            if ready < 0 && ready != -i64::from(libc::EINTR) {
                return Some(Passed::Host(ready));
            }
            if monotonic() >= deadline {
                return Some(Passed::TimedOut);
            }
            fence(Ordering::Acquire);
        }
    }

    /// Sleeps while another thread is the driver.
    fn sleep(
        &self,
        me: &'static Record,
        set: &mut Vec<libc::pollfd>,
        host: &mut [libc::pollfd],
        deadline: u64,
        over: &dyn Fn() -> bool,
    ) -> Option<Passed> {
        let time = monotonic();
        if time >= deadline {
            return Some(Passed::TimedOut);
        }
        let limit = (deadline != u64::MAX).then(|| deadline - time);
        let awake = || over() || me.interrupted.load(Ordering::Acquire);
        if host.is_empty() {
            me.sleep(limit, awake);
            return None;
        }
        set.extend_from_slice(host);
        let ready = me.poll(set, limit, awake);
        host.copy_from_slice(&set[1..]);
        match ready {
            0 => None,
            _ if ready == -i64::from(libc::EINTR) => None,
            _ => Some(Passed::Host(ready)),
        }
    }
}

/// Of so many looks at memory that is shared, one is also at descriptors.
const MEMORY_POLLS: u32 = 16;

const NOTHING: libc::pollfd = libc::pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};
