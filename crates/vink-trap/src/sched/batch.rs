//! Batches: threads of different machines run at the same time, so that they compute on all
//! processors.

use std::os::fd::AsRawFd;

use vink_kernel::MachineId;
use vink_sched::batch::{BatchRule, MAX_SCANNED};
use vink_sched::run_queue::Queued;

use super::{Runnable, Scheduler, VirtualWorker};
use crate::Error;

/// What is known while threads are running, and handled when none is.
#[derive(Default)]
pub(super) struct Deferred {
    /// Processes and programs that have ended.
    exited: Vec<i32>,
    hung_up: Vec<usize>,
    /// Threads whose pipes have become ready (splice(2)).
    ready_pipes: Vec<i32>,
}

impl Scheduler {
    /// Threads that were created in this batch get their numbers in the order of creation.
    pub(super) fn number_created(&mut self) {
        for tid in self.batch.take_created() {
            self.serial(tid);
        }
    }
}

impl BatchRule<Runnable> for VirtualWorker<'_> {
    fn machine(&self, runnable: &Runnable) -> u64 {
        self.machine_of(runnable).get()
    }

    fn may_batch(&self, tid: i32) -> bool {
        VirtualWorker::may_batch(self, tid)
    }

    fn is_independent(&mut self, runnable: &Runnable) -> bool {
        VirtualWorker::is_independent(self, runnable)
    }
}

impl VirtualWorker<'_> {
    /// No thread is running: takes the next batch out of the run queue. False: the run queue is
    /// empty.
    pub(super) fn begin_batch(&mut self) -> bool {
        let sched = self.worker.clock.sched_mut();
        let mut queue = std::mem::take(&mut sched.run_queue);
        let mut batch = std::mem::take(&mut sched.batch);
        let any = batch.begin_next(&mut queue, self);
        let same_cpu = batch.pending().len() == 1;
        for runnable in batch.pending() {
            if let Some(listener) = &self.worker.programs[self.program_of(runnable)].listener {
                listener.wake_same_cpu(same_cpu);
            }
        }
        let sched = self.worker.clock.sched_mut();
        (sched.run_queue, sched.batch) = (queue, batch);
        any
    }

    /// The machine of its program, whatever network namespace the thread is in.
    pub(super) fn machine_of(&self, runnable: &Runnable) -> MachineId {
        self.worker.programs[self.program_of(runnable)].machine
    }

    /// The same of a process.
    pub(super) fn machine_of_process(&self, pid: i32) -> MachineId {
        self.worker.table.machine_of(pid)
    }

    fn program_of(&self, runnable: &Runnable) -> usize {
        match runnable {
            Runnable::Syscall(program, _) => *program,
            _ => self.worker.table.program_of(runnable.tid()),
        }
    }

    /// Whether there may be a batch of several now. One thread at a time runs where time passes
    /// with calls or by the host's clock, where a thread is blocked on the host, or where programs
    /// have a budget of untrapped calls, which they use alone (`call_budget`).
    fn may_batch(&self, tid: i32) -> bool {
        let sched = self.worker.clock.sched();
        sched.tsc.is_none()
            && sched.config.charge.call.is_zero()
            && sched.blocked_on_host.is_empty()
            && sched.limit().is_none()
            && !sched.parents.has_stopped()
            && !sched.shared_state.forbids_batches()
            && self.worker.file_holder.is_none()
            && !self.worker.placement.has_rings()
            && !sched.livelock.is_near_penalty(tid, MAX_SCANNED as u64)
    }

    /// Sorts threads by the first member of the batch that is on their machine; threads of one
    /// machine stay in their order.
    pub(super) fn sort_by_batch<T>(&self, all: &mut [T], tid: impl Fn(&T) -> i32) {
        let sched = self.worker.clock.sched();
        all.sort_by_key(|one| {
            let pid = self.worker.table.find_pid(tid(one));
            let machine = pid.map(|pid| self.machine_of_process(pid));
            let index = machine.and_then(|machine| sched.batch.index_of_machine(machine.get()));
            index.unwrap_or(usize::MAX)
        });
    }

    /// A process has ended. True: that will be handled when no thread is running, in an order that
    /// does not depend on when it was received.
    pub(crate) fn defer_exit(&mut self, pid: i32) -> bool {
        let Some(sched) = self.sched_in_batch() else {
            return false;
        };
        sched.running.retain(|running| running.pid != pid);
        sched.deferred.exited.push(pid);
        if let Some(process) = self.worker.table.find_process(pid) {
            self.worker.reactor.remove(process.pidfd.as_raw_fd());
        }
        true
    }

    /// The scheduler while threads are running.
    fn sched_in_batch(&mut self) -> Option<&mut Scheduler> {
        let sched = self.worker.clock.sched_mut();
        (!sched.running.is_empty()).then_some(sched)
    }

    /// The same of a pipe that a thread waits for.
    pub(crate) fn defer_pipe(&mut self, tid: i32) -> bool {
        let Some(sched) = self.sched_in_batch() else {
            return false;
        };
        sched.deferred.ready_pipes.push(tid);
        true
    }

    /// The same of a program's last process.
    pub(crate) fn defer_tree_exit(&mut self, id: usize) -> bool {
        let Some(sched) = self.sched_in_batch() else {
            return false;
        };
        sched.deferred.hung_up.push(id);
        true
    }

    /// No thread is running: handles what was deferred.
    pub(super) fn handle_deferred(&mut self) -> Result<(), Error> {
        let sched = self.worker.clock.sched_mut();
        let deferred = &sched.deferred;
        if deferred.exited.is_empty()
            && deferred.hung_up.is_empty()
            && deferred.ready_pipes.is_empty()
        {
            return Ok(());
        }
        sched.number_created();
        let mut ready_pipes = std::mem::take(&mut sched.deferred.ready_pipes);
        let mut dead = std::mem::take(&mut sched.deferred.exited);
        dead.sort_by_key(|pid| (sched.serials.get(pid).copied().unwrap_or(u64::MAX), *pid));
        for pid in dead {
            self.on_process_exit(pid)?;
            self.run_kernel()?;
        }
        let sched = self.worker.clock.sched_mut();
        let mut hung_up = std::mem::take(&mut sched.deferred.hung_up);
        hung_up.sort_unstable();
        for id in hung_up {
            self.on_tree_exit(id);
        }
        self.sort_by_batch(&mut ready_pipes, |tid| *tid);
        for tid in ready_pipes {
            self.on_pipe_ready(tid);
        }
        Ok(())
    }
}
