//! Programs that never wait: each is named, and made to let time pass and others go on, so that
//! nothing hangs in silence.
//!
//! A thread that calls again and again is penalised by count, so that the run repeats
//! ([`VirtualWorker::count_poll`], [`VirtualWorker::count_call`]): time passes for it, but no further than to the
//! next event. A thread that makes no call at all, since it computes or spins on memory, can't be
//! counted: when it has used up its [`super::Charge::cpu_budget`] it becomes a *runaway*. The
//! others go on beside it then, and time passes as on the host's clock, until it makes a call.
//!
//! Two threads of a Python process that contend for its lock make a call every 5 ms of virtual
//! time, and compute without one in between. So once a process has had a runaway it has only
//! [`RUNAWAY_BUDGET`] of the processor, and what it used of that passes as time: else the other
//! programs would get 5 ms per budget.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use tracing::warn;
use vink_sys::procfs::StatFields;

use vink_syscalls::{polling, sched_class, Polling, Sched};

use super::{Scheduler, ThreadState, VirtualWorker, STALL_TIMEOUT};
use crate::notify::Notification;
use crate::trace::call_name;
use crate::Error;

/// How long a thread may compute without a system call if its process has had a runaway before.
const RUNAWAY_BUDGET: Duration = Duration::from_millis(20);

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
pub(super) struct RepeatedCall {
    call: Option<(i32, i64, [u64; 6])>,
    count: u64,
}

/// Whether a call asks whether something is ready.
fn asks(nr: i64) -> bool {
    polling(nr) != Polling::None || sched_class(nr) == Sched::Times
}

impl RepeatedCall {
    /// One more call; how many are like it.
    fn add(&mut self, call: &Notification) -> u64 {
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

/// What is known of a thread that makes no call.
#[derive(Default)]
pub(super) struct Stall {
    /// For how long no call has come, on the host's clock.
    pub(super) lasted: Duration,
    /// The processor time of the thread that is waited for, when it was first checked.
    first: Option<(i32, Duration)>,
}

/// Threads that compute while others go on.
#[derive(Default)]
pub(super) struct Runaways {
    tids: Vec<i32>,
    /// When the first of them got there, on the virtual clock and on the host's.
    since: Option<(u64, Instant)>,
    /// Processes that have had a runaway.
    processes: HashSet<i32>,
}

impl Runaways {
    pub(super) fn includes(&self, tid: i32) -> bool {
        self.tids.contains(&tid)
    }

    /// It makes a call, or is gone.
    pub(super) fn remove(&mut self, tid: i32) {
        self.tids.retain(|runaways| *runaways != tid);
        if self.tids.is_empty() {
            self.since = None;
        }
    }

    /// The thread has computed for so long. Whether it is the first of its process.
    fn add(&mut self, pid: i32, tid: i32, now: u64, used: Duration) -> bool {
        let is_first = self.processes.insert(pid);
        // Before the first time computing took no time.
        let used = if is_first { Duration::ZERO } else { used };
        let real = Instant::now();
        let real = real.checked_sub(used).unwrap_or(real);
        self.tids.push(tid);
        self.since.get_or_insert((now, real));
        is_first
    }

    /// Whether the process has had a runaway.
    pub(super) fn includes_process(&self, pid: i32) -> bool {
        self.processes.contains(&pid)
    }

    /// The process is gone, or executes another program.
    pub(super) fn forget_process(&mut self, pid: i32) {
        self.processes.remove(&pid);
    }

    /// How far the virtual clock may go now; `None`: as far as it likes.
    pub(super) fn limit(&self) -> Option<u64> {
        let (now, real) = self.since?;
        Some(now.saturating_add(real.elapsed().as_nanos() as u64))
    }
}

/// How long the thread has had a processor, by the host's ticks; see proc_pid_stat(5).
fn processor_time(pid: i32, tid: i32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    Some(StatFields::parse(&stat)?.cpu_time())
}

impl Scheduler {
    /// Whether time may be made to pass for one of so many more calls of all threads, this one
    /// among them.
    pub(super) fn is_near_penalty(&self, tid: i32, more: u64) -> bool {
        let looks = self.polls_since_jump.get(&tid).copied().unwrap_or(0);
        looks + more >= POLL_PENALTY.threshold
            || self.calls_since_jump + more >= CALL_PENALTY.threshold
            // Those of one thread in a row, of which it has one at most beside others.
            || self.repeated_call.count + 1 >= REPEAT_PENALTY.threshold
    }
}

impl VirtualWorker<'_> {
    /// The thread reads the clock, or polls: if it does so for ever, time must pass.
    pub(crate) fn count_poll(&mut self, tid: i32) -> Result<(), Error> {
        let sched = self.worker.clock.sched_mut();
        let looks = sched.polls_since_jump.entry(tid).or_default();
        *looks += 1;
        match POLL_PENALTY.after(*looks) {
            None => Ok(()),
            Some(penalty) => self.penalize(tid, penalty, true),
        }
    }

    /// The same of a call of any kind.
    pub(super) fn count_call(&mut self, call: &Notification) -> Result<(), Error> {
        let sched = self.worker.clock.sched_mut();
        sched.calls_since_jump += 1;
        let any = CALL_PENALTY.after(sched.calls_since_jump);
        let again = REPEAT_PENALTY.after(sched.repeated_call.add(call));
        match any.max(again) {
            None => Ok(()),
            // It tells the same until then.
            Some(penalty) if sched_class(call.nr) == Sched::Times => {
                let penalty = penalty.max(self.until_tick());
                self.penalize(call.tid, penalty, any.is_some())
            }
            // Programs poll a socket like that for a round trip or two, for want of an idea: that
            // is soon over.
            Some(penalty) => self.penalize(
                call.tid,
                penalty,
                any.is_some() || penalty == REPEAT_PENALTY.max_ns,
            ),
        }
    }

    /// Makes time pass for the thread, and lets the others go first. `tells`: says so, once.
    fn penalize(&mut self, tid: i32, penalty: u64, tells: bool) -> Result<(), Error> {
        let sched = self.worker.clock.sched_mut();
        sched.batch.end_timeslice(tid);
        if tells && sched.warned.insert(tid) {
            let thread = self.describe(tid);
            warn!(target: "sched", "{thread} calls again and again without waiting: time is made to pass for it"
            );
        }
        let now = self.worker.kernel.now();
        let next = [self.next_timer(), Some(self.worker.horizon)];
        let next = next.into_iter().flatten().filter(|next| *next > now);
        self.advance_to(next.fold(now.saturating_add(penalty), u64::min));
        self.run_kernel()?;
        self.fire_deadlines()
    }

    /// No call has come from the running threads for a while: names the first, and ends the wait
    /// when its budget is used up.
    pub(super) fn check_stall(&mut self) -> Result<(), Error> {
        let now = self.worker.kernel.now();
        let sched = self.worker.clock.sched_mut();
        let waits = [ThreadState::WaitsOutside, ThreadState::InVfork];
        let mut quiet = sched.running.iter().filter(|o| !waits.contains(&o.state));
        let Some((pid, tid)) = quiet.next().map(|running| (running.pid, running.tid)) else {
            return Ok(());
        };
        let mut cpu_budget = sched.config.charge.cpu_budget;
        if sched.runaways.includes_process(pid) {
            cpu_budget = cpu_budget.min(RUNAWAY_BUDGET);
        }
        let time = processor_time(pid, tid).unwrap_or_default();
        let used = match sched.stall.first {
            Some((first, before)) if first == tid => time.saturating_sub(before),
            _ => {
                sched.stall.first = Some((tid, time));
                Duration::ZERO
            }
        };
        if sched.stall.lasted >= STALL_TIMEOUT && sched.warned.insert(tid) {
            let (thread, secs) = (self.describe(tid), STALL_TIMEOUT.as_secs());
            warn!(target: "sched", "{thread} has made no system call for {secs} s, and all wait for it");
        }
        if used < cpu_budget {
            return Ok(());
        }
        let sched = self.worker.clock.sched_mut();
        sched.running.retain(|running| running.tid != tid);
        if sched.runaways.add(pid, tid, now, used) {
            let thread = self.describe(tid);
            warn!(target: "sched", "{thread} has computed for {cpu_budget:?} without a system call: until it makes one, the others go on \
                 beside it, and time passes as on the host's clock, so that this run is not the same again; from now on \
                 they wait {RUNAWAY_BUDGET:?} for this process"
            );
        }
        let sched = self.worker.clock.sched_mut();
        sched.host_fds_dirty = true;
        let holds = sched.batch.index_of(tid).is_some();
        if let Some(pid) = self.worker.threads.get(&tid).map(|thread| thread.pid) {
            self.revoke_call_budget(pid);
        }
        if holds {
            self.find_forked_by(tid)?;
            self.worker.clock.sched_mut().batch.leave(tid);
        }
        Ok(())
    }

    fn describe(&self, tid: i32) -> String {
        let pid = self
            .worker
            .threads
            .get(&tid)
            .map_or(tid, |thread| thread.pid);
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let sched = self.worker.clock.sched();
        let last = sched.last_calls.get(&tid).map(|last| call_name(last.nr));
        let last = last.unwrap_or_else(|| "none".to_owned());
        format!("{} (process {pid}, last call: {last})", name.trim())
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
        let call = |tid, nr, first| Notification {
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
        let mut runaways = Runaways::default();
        assert_eq!(runaways.limit(), None);
        assert!(runaways.add(4, 5, 1_000, Duration::from_secs(30)));
        let first = runaways.limit().unwrap();
        assert!(first < 30 * SECOND);
        assert!(!runaways.add(4, 6, 2_000, Duration::ZERO));
        assert!(first >= 1_000 && runaways.limit().unwrap() >= first);
        runaways.remove(5);
        assert!(runaways.limit().is_some() && runaways.includes(6));
        runaways.remove(6);
        assert_eq!(runaways.limit(), None);
        // The next time, what it has used before passes, too.
        assert!(!runaways.add(4, 5, 1_000, Duration::from_secs(1)));
        assert!(runaways.limit().unwrap() >= 1_000 + SECOND);
        runaways.forget_process(4);
        assert!(!runaways.includes_process(4));
    }

    #[test]
    fn a_threads_time() {
        let me = std::process::id() as i32;
        let tid = vink_sys::process::gettid();
        let before = processor_time(me, tid).unwrap();
        let mut number = 1u64;
        while processor_time(me, tid).unwrap() == before {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert_eq!(processor_time(me, 0), None);
    }
}
