//! Programs that never wait: each is named, and made to let time pass and others go on, so that
//! nothing hangs in silence.
//!
//! A thread that calls again and again is penalised by count, so that the run repeats
//! ([`Livelock`]): time passes for it, but no further than to the
//! next event. A thread that makes no call at all, since it computes or spins on memory, can't be
//! counted: when it has used up its budget it becomes a *runaway*. The
//! others go on beside it then, and time passes as on the host's clock, until it makes a call.
//!
//! Two threads of a Python process that contend for its lock make a call every 5 ms of virtual
//! time, and compute without one in between. So once a process has had a runaway it has only
//! [`RUNAWAY_BUDGET`] of the processor, and what it used of that passes as time: else the other
//! programs would get 5 ms per budget.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use vink_syscalls::{polling, sched_class, Polling, Sched};

use crate::Syscall;

/// How long a thread may compute without a system call if its process has had a runaway before.
pub const RUNAWAY_BUDGET: Duration = Duration::from_millis(20);

/// What calls of some kind cost: after so many with no time passing each one a microsecond, twice
/// as much after each so many more, and at most so many ns.
struct Penalty {
    threshold: u64,
    doubles_every: u64,
    max_ns: u64,
}

/// One thread reads the clock, or polls with time-out 0: a loop that waits for time.
const POLL_PENALTY: Penalty = Penalty {
    threshold: 20_000,
    doubles_every: 1_000,
    max_ns: 1_000_000,
};
/// One thread makes the same poll(2), or reads the ticks of times(2), with no other call in
/// between: nothing can have changed, and only time can change it.
const REPEAT_PENALTY: Penalty = Penalty {
    threshold: 100,
    doubles_every: 100,
    max_ns: 1_000_000,
};
/// Calls of any kind, of all threads together: a program may wait for a file to appear.
const CALL_PENALTY: Penalty = Penalty {
    threshold: 200_000,
    doubles_every: 10_000,
    max_ns: 16_000,
};

impl Penalty {
    /// Of one more after so many; `None`: nothing.
    fn after(&self, count: u64) -> Option<u64> {
        let more = count.checked_sub(self.threshold)?;
        Some((1_000 << (more / self.doubles_every).min(10)).min(self.max_ns))
    }
}

/// The last call, if it asks whether something is ready, and how often it has been made in a row.
#[derive(Default)]
struct RepeatedCall {
    call: Option<(i32, i64, [u64; 6])>,
    count: u64,
}

/// Whether a call asks whether something is ready.
fn asks(nr: i64) -> bool {
    polling(nr) != Polling::None || sched_class(nr) == Sched::Times
}

impl RepeatedCall {
    /// One more call; how many are like it.
    fn add(&mut self, call: &Syscall) -> u64 {
        let this = asks(call.nr).then_some((call.tid, call.nr, call.args));
        let tells_time = matches!(
            sched_class(call.nr),
            Sched::ClockGettime | Sched::Gettimeofday | Sched::Time
        );
        if this.is_some() && self.call == this {
            self.count += 1;
        } else if !tells_time || self.call.is_some_and(|(tid, ..)| tid != call.tid) {
            *self = RepeatedCall {
                call: this,
                count: 0,
            };
        }
        self.count
    }
}

/// How often threads have called since time last jumped.
#[derive(Default)]
pub struct Livelock {
    /// Calls of all threads.
    calls: u64,
    repeated: RepeatedCall,
    /// How often each thread has read the clock or polled.
    polls: BTreeMap<i32, u64>,
}

/// What a call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPenalty {
    /// So much time, in ns, is to pass for its thread.
    pub ns: u64,
    /// Users are to be told.
    pub is_told: bool,
}

impl Livelock {
    /// The thread reads the clock, or polls: if it does so for ever, time must pass.
    pub fn count_poll(&mut self, tid: i32) -> Option<CallPenalty> {
        let polls = self.polls.entry(tid).or_default();
        *polls += 1;
        let ns = POLL_PENALTY.after(*polls)?;
        Some(CallPenalty { ns, is_told: true })
    }

    /// The same of a call of any kind. `until_tick`: what is left of the tick that times(2) tells,
    /// which is the same until then.
    pub fn count_call(
        &mut self,
        call: &Syscall,
        until_tick: impl FnOnce() -> u64,
    ) -> Option<CallPenalty> {
        self.calls += 1;
        let any = CALL_PENALTY.after(self.calls);
        let again = REPEAT_PENALTY.after(self.repeated.add(call));
        let ns = any.max(again)?;
        Some(match sched_class(call.nr) {
            Sched::Times => CallPenalty {
                ns: ns.max(until_tick()),
                is_told: any.is_some(),
            },
            // Programs poll a socket like that for a round trip or two, for want of an idea: that
            // is soon over.
            _ => CallPenalty {
                ns,
                is_told: any.is_some() || ns == REPEAT_PENALTY.max_ns,
            },
        })
    }

    /// Whether time may be made to pass for one of so many more calls of all threads, this one
    /// among them.
    pub fn is_near_penalty(&self, tid: i32, more: u64) -> bool {
        let polls = self.polls.get(&tid).copied().unwrap_or(0);
        polls + more >= POLL_PENALTY.threshold
            || self.calls + more >= CALL_PENALTY.threshold
            // Those of one thread in a row, of which it has one at most beside others.
            || self.repeated.count + 1 >= REPEAT_PENALTY.threshold
    }
}

/// What is known of a thread that makes no call.
#[derive(Default)]
pub struct Stall {
    /// For how long no call has come, on the host's clock.
    pub lasted: Duration,
    /// The processor time of the thread that is waited for, when it was first checked.
    first: Option<(i32, Duration)>,
}

impl Stall {
    /// What the thread has used of a processor since it was first checked, by what it has used in
    /// all.
    pub fn used(&mut self, tid: i32, time: Duration) -> Duration {
        match self.first {
            Some((first, before)) if first == tid => time.saturating_sub(before),
            _ => {
                self.first = Some((tid, time));
                Duration::ZERO
            }
        }
    }
}

/// Threads that compute while others go on.
#[derive(Default)]
pub struct Runaways {
    tids: Vec<i32>,
    /// When the first of them got there, on the virtual clock and on the host's.
    since: Option<(u64, Instant)>,
    /// Processes that have had a runaway.
    processes: HashSet<i32>,
}

impl Runaways {
    /// Whether the thread is one.
    pub fn includes(&self, tid: i32) -> bool {
        self.tids.contains(&tid)
    }

    /// It makes a call, or is gone.
    pub fn remove(&mut self, tid: i32) {
        self.tids.retain(|runaways| *runaways != tid);
        if self.tids.is_empty() {
            self.since = None;
        }
    }

    /// The thread has computed for so long, at this time on the virtual clock and on the host's.
    /// Whether it is the first of its process.
    pub fn add(
        &mut self,
        (pid, tid): (i32, i32),
        (now, real): (u64, Instant),
        used: Duration,
    ) -> bool {
        let is_first = self.processes.insert(pid);
        // Before the first time computing took no time.
        let used = if is_first { Duration::ZERO } else { used };
        let real = real.checked_sub(used).unwrap_or(real);
        self.tids.push(tid);
        self.since.get_or_insert((now, real));
        is_first
    }

    /// Whether the process has had a runaway.
    pub fn includes_process(&self, pid: i32) -> bool {
        self.processes.contains(&pid)
    }

    /// The process is gone, or executes another program.
    pub fn forget_process(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// How far the virtual clock may go now, in ns, if this is what the host's shows; `None`: as far
    /// as it likes.
    pub fn limit(&self, real: impl FnOnce() -> Instant) -> Option<u64> {
        let (now, since) = self.since?;
        let elapsed = real().saturating_duration_since(since);
        Some(now.saturating_add(elapsed.as_nanos() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn prices() {
        assert_eq!(POLL_PENALTY.after(19_999), None);
        assert_eq!(POLL_PENALTY.after(20_999), Some(1_000));
        assert_eq!(POLL_PENALTY.after(23_000), Some(8_000));
        assert_eq!(POLL_PENALTY.after(u64::MAX), Some(1_000_000));
        assert_eq!(CALL_PENALTY.after(u64::MAX), Some(16_000));
    }

    #[test]
    fn the_same_again() {
        let call = |tid, nr, first| Syscall {
            id: 0,
            tid,
            nr,
            args: [first, 0, 0, 0, 0, 0],
        };
        let mut repeated = RepeatedCall::default();
        let mut add = |call| repeated.add(&call);
        assert_eq!(add(call(5, libc::SYS_poll, 1)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 1)), 1);
        assert_eq!(add(call(5, libc::SYS_clock_gettime, 1)), 1);
        assert_eq!(add(call(5, libc::SYS_poll, 1)), 2);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 1);
        assert_eq!(add(call(6, libc::SYS_clock_gettime, 1)), 0);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_read, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_read, 2)), 0);
        assert_eq!(add(call(5, libc::SYS_times, 0)), 0);
        assert_eq!(add(call(5, libc::SYS_times, 0)), 1);
        assert_eq!(add(call(5, libc::SYS_gettimeofday, 1)), 1);
        assert_eq!(add(call(5, libc::SYS_times, 0)), 2);
        assert_eq!(add(call(5, libc::SYS_poll, 2)), 0);
    }

    #[test]
    fn the_clock_keeps_to_the_hosts_while_there_is_a_runaway() {
        let limit = |runaways: &Runaways| runaways.limit(Instant::now);
        let mut runaways = Runaways::default();
        assert_eq!(limit(&runaways), None);
        assert!(runaways.add((4, 5), (1_000, Instant::now()), Duration::from_secs(30)));
        let first = limit(&runaways).unwrap();
        assert!(first < 30 * SECOND);
        assert!(!runaways.add((4, 6), (2_000, Instant::now()), Duration::ZERO));
        assert!(first >= 1_000 && limit(&runaways).unwrap() >= first);
        runaways.remove(5);
        assert!(limit(&runaways).is_some() && runaways.includes(6));
        runaways.remove(6);
        assert_eq!(limit(&runaways), None);
        // The next time, what it has used before passes, too.
        assert!(!runaways.add((4, 5), (1_000, Instant::now()), Duration::from_secs(1)));
        assert!(limit(&runaways).unwrap() >= 1_000 + SECOND);
        runaways.forget_process(4);
        assert!(!runaways.includes_process(4));
    }

    #[test]
    fn what_a_thread_has_used_since_it_was_first_checked() {
        let mut stall = Stall::default();
        let second = Duration::from_secs(1);
        assert_eq!(stall.used(5, second), Duration::ZERO);
        assert_eq!(stall.used(5, 3 * second), 2 * second);
        assert_eq!(stall.used(6, 3 * second), Duration::ZERO);
        assert_eq!(stall.used(5, 3 * second), Duration::ZERO);
    }

    #[test]
    fn all_is_forgotten_when_time_jumps() {
        let mut livelock = Livelock::default();
        for _ in 1..POLL_PENALTY.threshold {
            assert_eq!(livelock.count_poll(5), None);
        }
        assert!(livelock.is_near_penalty(5, 1) && !livelock.is_near_penalty(6, 1));
        let first = CallPenalty {
            ns: 1_000,
            is_told: true,
        };
        assert_eq!(livelock.count_poll(5), Some(first));
        livelock = Livelock::default();
        assert_eq!(livelock.count_poll(5), None);
    }

    #[test]
    fn a_tick_is_waited_for() {
        let mut livelock = Livelock::default();
        let call = Syscall {
            id: 0,
            tid: 5,
            nr: libc::SYS_times,
            args: [0; 6],
        };
        for _ in 0..REPEAT_PENALTY.threshold {
            assert_eq!(livelock.count_call(&call, || 7_000_000), None);
        }
        let penalty = livelock.count_call(&call, || 7_000_000);
        let to_tick = CallPenalty {
            ns: 7_000_000,
            is_told: false,
        };
        assert_eq!(penalty, Some(to_tick));
    }
}
