//! Batches: threads of different machines run at the same time, so that they compute on all
//! processors.

use vink_kernel::MachineId;
use vink_sched::batch::{BatchRule, MAX_SCANNED};
use vink_sched::run_queue::Queued;

use super::{Runnable, Scheduler, VirtualWorker};
use crate::process_table::ProcessTable;
use crate::program_table::ProgramTable;
use crate::Error;

impl Runnable {
    /// The place of its program.
    fn program(&self, table: &ProcessTable) -> usize {
        match self {
            Runnable::Syscall(program, _) => *program,
            _ => table.program_of(self.tid()),
        }
    }
}

/// Which threads may be in a batch.
struct Rule<'a> {
    sched: &'a Scheduler,
    table: &'a ProcessTable,
    programs: &'a ProgramTable,
    /// Nothing of the worker's is against batches.
    has_batches: bool,
}

impl Rule<'_> {
    /// The machine of its program, whatever network namespace the thread is in.
    fn machine_of(&self, runnable: &Runnable) -> MachineId {
        self.programs[runnable.program(self.table)].machine
    }
}

impl BatchRule<Runnable> for Rule<'_> {
    fn machine(&self, runnable: &Runnable) -> u64 {
        self.machine_of(runnable).get()
    }

    /// Whether there may be a batch of several now. One thread at a time runs where time passes
    /// with calls or by the host's clock, or where a thread is blocked on the host.
    fn may_batch(&self, tid: i32) -> bool {
        let sched = self.sched;
        sched.tsc.is_none()
            && sched.config.charge.call.is_zero()
            && sched.blocked_on_host.is_empty()
            && sched.limit().is_none()
            && !sched.parents.has_stopped()
            && !sched.shared.forbids_batches()
            && self.has_batches
            && !sched.livelock.is_near_penalty(tid, MAX_SCANNED as u64)
    }

    fn is_independent(&mut self, runnable: &Runnable) -> bool {
        let machine = self.machine_of(runnable);
        let shared = &self.sched.shared;
        shared.is_independent(self.table, machine, runnable)
    }
}

impl Scheduler {
    /// Threads that were created in this batch get their numbers in the order of creation.
    pub(super) fn number_created(&mut self) {
        for tid in self.batch.take_created() {
            self.serial(tid);
        }
    }

    /// No thread is running: takes the next batch out of the run queue. False: the run queue is
    /// empty.
    pub(super) fn begin_batch(
        &mut self,
        (table, programs): (&ProcessTable, &ProgramTable),
        has_batches: bool,
    ) -> bool {
        let mut queue = std::mem::take(&mut self.run_queue);
        let mut batch = std::mem::take(&mut self.batch);
        let mut rule = Rule {
            sched: self,
            table,
            programs,
            has_batches,
        };
        let any = batch.begin_next(&mut queue, &mut rule);
        let same_cpu = batch.pending().len() == 1;
        for runnable in batch.pending() {
            if let Some(listener) = &programs[runnable.program(table)].listener {
                listener.wake_same_cpu(same_cpu);
            }
        }
        (self.run_queue, self.batch) = (queue, batch);
        any
    }

    /// Sorts threads by the first member of the batch that is on their machine; threads of one
    /// machine stay in their order.
    pub(super) fn sort_by_batch<T>(
        &self,
        table: &ProcessTable,
        all: &mut [T],
        tid: impl Fn(&T) -> i32,
    ) {
        all.sort_by_key(|one| {
            let pid = table.find_pid(tid(one));
            let machine = pid.map(|pid| table.machine_of(pid).get());
            let index = machine.and_then(|machine| self.batch.index_of_machine(machine));
            index.unwrap_or(usize::MAX)
        });
    }
}

impl VirtualWorker<'_> {
    /// No thread is running: handles what was deferred.
    pub(super) fn handle_deferred(&mut self) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched_mut();
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
        let sched = self.worker.calls.clock.sched_mut();
        let mut hung_up = std::mem::take(&mut sched.deferred.hung_up);
        hung_up.sort_unstable();
        for id in hung_up {
            self.on_tree_exit(id);
        }
        let sched = self.worker.calls.clock.sched();
        sched.sort_by_batch(&self.worker.calls.tasks.table, &mut ready_pipes, |tid| *tid);
        for tid in ready_pipes {
            self.worker.calls.tasks.on_pipe_ready(tid);
        }
        Ok(())
    }
}
