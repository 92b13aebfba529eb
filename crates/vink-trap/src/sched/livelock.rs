//! Programs that never wait: each is named, and made to let time pass and others go on, so that
//! nothing hangs in silence. What that costs is in `vink-sched`.

use std::fs;
use std::time::{Duration, Instant};

use tracing::warn;
use vink_sched::livelock::{CallPenalty, RUNAWAY_BUDGET};
use vink_sys::procfs::StatFields;

use super::determinism::uptime::until_tick;
use super::{Scheduler, ThreadState, VirtualWorker, STALL_TIMEOUT};
use crate::notification::Notification;
use crate::process_table::ProcessTable;
use crate::trace::call_name;
use crate::Error;

/// How long the thread has had a processor, by the host's ticks; see proc_pid_stat(5).
fn processor_time(pid: i32, tid: i32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    Some(StatFields::parse(&stat)?.cpu_time())
}

impl Scheduler {
    /// How far the virtual clock may go now; `None`: as far as it likes.
    pub(super) fn limit(&self) -> Option<u64> {
        self.runaways.limit(Instant::now)
    }

    fn describe(&self, table: &ProcessTable, tid: i32) -> String {
        let pid = table.find_pid(tid).unwrap_or(tid);
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let last = self.last_calls.get(&tid).map(|last| call_name(last.nr));
        let last = last.unwrap_or_else(|| "none".to_owned());
        format!("{} (process {pid}, last call: {last})", name.trim())
    }
}

impl VirtualWorker<'_> {
    /// The thread reads the clock, or polls: if it does so for ever, time must pass.
    pub(crate) fn count_poll(&mut self, tid: i32) -> Result<(), Error> {
        match self.worker.calls.clock.sched_mut().livelock.count_poll(tid) {
            None => Ok(()),
            Some(penalty) => self.penalize(tid, penalty),
        }
    }

    /// The same of a call of any kind.
    pub(super) fn count_call(&mut self, call: &Notification) -> Result<(), Error> {
        let worker = &mut *self.worker;
        let until_tick = || until_tick(worker.calls.tasks.kernel.now());
        let livelock = &mut worker.calls.clock.sched_mut().livelock;
        match livelock.count_call(&(*call).into(), until_tick) {
            None => Ok(()),
            Some(penalty) => self.penalize(call.tid, penalty),
        }
    }

    /// Makes time pass for the thread, and lets the others go first; says so once, if it is told.
    fn penalize(&mut self, tid: i32, penalty: CallPenalty) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched_mut();
        sched.batch.end_timeslice(tid);
        if penalty.is_told && sched.warned.insert(tid) {
            let thread = sched.describe(&self.worker.calls.tasks.table, tid);
            warn!(target: "sched", "{thread} calls again and again without waiting: time is made to pass for it"
            );
        }
        let now = self.worker.calls.tasks.kernel.now();
        let next = [self.worker.calls.next_timer(), Some(self.worker.horizon)];
        let next = next.into_iter().flatten().filter(|next| *next > now);
        self.advance_to(next.fold(now.saturating_add(penalty.ns), u64::min));
        self.run_kernel()?;
        self.fire_deadlines();
        Ok(())
    }

    /// No call has come from the running threads for a while: names the first, and ends the wait
    /// when its budget is used up.
    pub(super) fn check_stall(&mut self) -> Result<(), Error> {
        let now = self.worker.calls.tasks.kernel.now();
        let sched = self.worker.calls.clock.sched_mut();
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
        let used = sched.stall.used(tid, time);
        if sched.stall.lasted >= STALL_TIMEOUT && sched.warned.insert(tid) {
            let (thread, secs) = (
                sched.describe(&self.worker.calls.tasks.table, tid),
                STALL_TIMEOUT.as_secs(),
            );
            warn!(target: "sched", "{thread} has made no system call for {secs} s, and all wait for it");
        }
        if used < cpu_budget {
            return Ok(());
        }
        let sched = self.worker.calls.clock.sched_mut();
        sched.running.retain(|running| running.tid != tid);
        if sched.runaways.add((pid, tid), (now, Instant::now()), used) {
            let thread = sched.describe(&self.worker.calls.tasks.table, tid);
            warn!(target: "sched", "{thread} has computed for {cpu_budget:?} without a system call: until it makes one, the others go on \
                 beside it, and time passes as on the host's clock, so that this run is not the same again; from now on \
                 they wait {RUNAWAY_BUDGET:?} for this process"
            );
        }
        let sched = self.worker.calls.clock.sched_mut();
        sched.host_fds_dirty = true;
        let holds = sched.batch.index_of(tid).is_some();
        let worker = &self.worker;
        if let Some(pid) = worker.calls.tasks.table.find_pid(tid) {
            worker
                .placement
                .revoke_call_budget(&worker.calls.tasks.table, pid);
            self.send_deferred_in_virtual_time(pid)?;
        }
        if holds {
            self.find_forked_by(tid)?;
            self.worker.calls.clock.sched_mut().batch.leave(tid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
