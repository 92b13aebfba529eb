//! One timer of the host's for all that the worker waits for by the clock.
//!
//! A time limit of epoll_pwait2(2) costs a reading of the clock and a timer of the host's, set and
//! taken back, at each wait, though nearly every wait ends sooner: a program has made a call. So
//! what is due next is left set in a timerfd(2), one more source of the reactor. It is set again
//! only if something becomes due sooner. What it was set for may be over, or be due later by then:
//! it goes off in vain then, and is set anew at the next wait.
//!
//! What is new is a limit of the next wait first, and set only if that ends sooner: what is due soon,
//! as packets on wires with a delay are, costs no timerfd_settime(2).

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use vink_sys::rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};

use crate::Error;

/// When it is set. All times are of `CLOCK_MONOTONIC`, in ns.
#[derive(Debug, Default)]
struct Plan {
    /// What it goes off at; `None` if it has gone off since.
    set_for: Option<u64>,
    /// What was the limit of the last wait.
    limit: Option<u64>,
}

/// What a wait needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing: nothing is due, or the timer goes off by then.
    Nothing,
    /// A limit of its own.
    Limit,
    /// The timer is to be set.
    Set,
}

impl Plan {
    /// The next wait must not be longer than to this time.
    fn next(&mut self, due: Option<u64>) -> Step {
        let last = self.limit.take();
        match due {
            None => Step::Nothing,
            Some(due) if self.set_for.is_some_and(|set_for| set_for <= due) => Step::Nothing,
            Some(due) if last == Some(due) => {
                self.set_for = Some(due);
                Step::Set
            }
            due => {
                self.limit = due;
                Step::Limit
            }
        }
    }

    /// It has gone off.
    fn went_off(&mut self) {
        self.set_for = None;
    }
}

/// The timer.
pub(crate) struct Alarm {
    timer: OwnedFd,
    plan: Plan,
}

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// [`Error::System`] as timerfd_create(2).
    pub(crate) fn new() -> Result<Alarm, Error> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|errno| Error::of("timerfd_create()")(errno.into()))?;
        Ok(Alarm {
            timer,
            plan: Plan::default(),
        })
    }

    /// Sees to it that a wait ends at `due` (`CLOCK_MONOTONIC`, ns): by itself, or by the limit that
    /// is returned. `now` reads that clock.
    ///
    /// # Errors
    /// [`Error::System`] as timerfd_settime(2).
    pub(crate) fn limit(
        &mut self,
        due: Option<u64>,
        now: impl FnOnce() -> u64,
    ) -> Result<Option<Duration>, Error> {
        let step = self.plan.next(due);
        let Some(due) = due.filter(|_| step != Step::Nothing) else {
            return Ok(None);
        };
        if step == Step::Limit {
            return Ok(Some(Duration::from_nanos(due.saturating_sub(now()))));
        }
        // All zero would be off.
        let due = due.max(1);
        let time = Timespec {
            tv_sec: (due / 1_000_000_000) as i64,
            tv_nsec: (due % 1_000_000_000) as i64,
        };
        let setting = Itimerspec {
            it_interval: Timespec::default(),
            it_value: time,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)
            .map_err(|errno| Error::of("timerfd_settime()")(errno.into()))?;
        Ok(None)
    }

    /// It has gone off, as epoll(7) has said: it will not again before it is set.
    pub(crate) fn went_off(&mut self) {
        self.plan.went_off();
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_due_is_set_once() {
        let mut plan = Plan::default();
        assert_eq!(plan.next(None), Step::Nothing);
        assert_eq!(plan.next(Some(50)), Step::Limit);
        assert_eq!(plan.next(Some(50)), Step::Set);
        for due in [Some(50), Some(70), None, Some(50)] {
            assert_eq!(plan.next(due), Step::Nothing);
        }
        // Sooner than that.
        assert_eq!(plan.next(Some(40)), Step::Limit);
        assert_eq!(plan.next(Some(40)), Step::Set);
    }

    #[test]
    fn what_changes_at_each_wait_is_never_set() {
        let mut plan = Plan::default();
        for due in 0..10 {
            assert_eq!(plan.next(Some(due)), Step::Limit);
        }
    }

    /// It goes off for what is over, while something else is due later: that must not be lost.
    #[test]
    fn a_later_time_is_not_lost_when_an_earlier_one_goes_off() {
        let mut plan = Plan::default();
        assert_eq!(plan.next(Some(50)), Step::Limit);
        assert_eq!(plan.next(Some(50)), Step::Set);
        assert_eq!(plan.next(Some(70)), Step::Nothing);
        plan.went_off();
        assert_eq!(plan.next(Some(70)), Step::Limit);
        assert_eq!(plan.next(Some(70)), Step::Set);
        assert_eq!(plan.next(Some(70)), Step::Nothing);
        // The same when a wait had a limit in between, and when it goes off too soon.
        assert_eq!(plan.next(Some(60)), Step::Limit);
        plan.went_off();
        assert_eq!(plan.next(Some(60)), Step::Set);
        plan.went_off();
        assert_eq!(plan.next(Some(60)), Step::Limit);
    }
}
