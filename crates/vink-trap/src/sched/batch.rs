//! Batches: threads of different machines run at the same time, so that they compute on all
//! processors.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;

use vink_kernel::MachineId;

use super::{Runnable, Scheduler, VirtualWorker, TIMESLICE};
use crate::Error;

/// How many threads may be in a batch. Runs repeat, so it does not depend on the number of
/// processors.
const MAX_MEMBERS: usize = 32;

/// How many entries of the run queue are examined for a batch.
const MAX_SCANNED: usize = 4 * MAX_MEMBERS;

/// A thread that is in the batch.
#[derive(Debug)]
struct Member {
    tid: i32,
    machine: MachineId,
    /// Calls that it has made in a row.
    calls_in_row: u32,
    /// Its last call makes a thread (true) or a process (false).
    forking: Option<bool>,
}

/// The threads that run, or are about to run before anything else is decided.
#[derive(Default)]
pub(super) struct Batch {
    members: Vec<Member>,
    pending: VecDeque<Runnable>,
    /// Threads and processes that were created, with the index of the member that created each.
    created: Vec<(usize, i32)>,
    /// Processes and programs whose ends are known, but not handled yet.
    exited: Vec<i32>,
    hung_up: Vec<usize>,
    /// Threads whose pipes have become ready (splice(2)).
    ready_pipes: Vec<i32>,
}

impl Batch {
    /// The next member to run, unless calls are held back.
    pub(super) fn next_member(&mut self, held: bool) -> Option<Runnable> {
        match held {
            true => None,
            false => self.pending.pop_front(),
        }
    }

    /// Whether members of this batch have still to run.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Which member the thread is.
    pub(super) fn index_of(&self, tid: i32) -> Option<usize> {
        self.members.iter().position(|member| member.tid == tid)
    }

    /// Whether the member may run on, although others wait.
    pub(super) fn has_timeslice(&mut self, index: usize) -> bool {
        let member = &mut self.members[index];
        if member.calls_in_row < TIMESLICE {
            return true;
        }
        member.calls_in_row = 0;
        false
    }

    /// Other threads come before the thread's next call.
    pub(super) fn end_timeslice(&mut self, tid: i32) {
        for member in self.members.iter_mut().filter(|h| h.tid == tid) {
            member.calls_in_row = TIMESLICE;
        }
    }

    /// Another thread takes the member's place.
    pub(super) fn rename(&mut self, from: i32, to: i32) {
        for member in self.members.iter_mut().filter(|h| h.tid == from) {
            member.tid = to;
        }
    }

    /// The thread is not in the batch any more.
    pub(super) fn leave(&mut self, tid: i32) {
        self.members.retain(|member| member.tid != tid);
    }

    /// The thread is gone.
    pub(super) fn forget(&mut self, tid: i32) {
        self.pending.retain(|runnable| runnable.tid() != tid);
        self.rename(tid, 0);
    }

    /// The thread's call makes a thread, or a process.
    pub(super) fn expect_fork(&mut self, tid: i32, thread: bool) {
        for member in self.members.iter_mut().filter(|h| h.tid == tid) {
            member.forking = Some(thread);
        }
    }

    /// What the thread's call was to create, once.
    pub(super) fn take_fork(&mut self, tid: i32) -> Option<bool> {
        let mut members = self.members.iter_mut();
        members.find(|member| member.tid == tid)?.forking.take()
    }

    /// The members whose calls create a thread or a process.
    pub(super) fn forking(&self) -> Vec<i32> {
        let parents = self
            .members
            .iter()
            .filter(|member| member.forking.is_some());
        parents.map(|member| member.tid).collect()
    }

    /// This thread was made.
    pub(super) fn note_created(&mut self, parent: i32, child: i32) {
        let index = self.index_of(parent).unwrap_or(usize::MAX);
        self.created.push((index, child));
    }

    /// Ends the batch, and begins one with these.
    fn begin(&mut self, chosen: VecDeque<Runnable>, machines: &[MachineId]) {
        let before = std::mem::take(&mut self.members);
        for (runnable, machine) in chosen.iter().zip(machines) {
            let tid = runnable.tid();
            let member = before.iter().find(|member| member.tid == tid);
            self.members.push(Member {
                tid,
                machine: *machine,
                calls_in_row: member.map_or(0, |member| member.calls_in_row) + 1,
                forking: None,
            });
        }
        self.pending = chosen;
    }
}

impl Scheduler {
    /// Threads that were created in this batch get their numbers in the order of creation.
    pub(super) fn number_created(&mut self) {
        let mut born = std::mem::take(&mut self.batch.created);
        born.sort_by_key(|(index, _)| *index);
        for (_, tid) in born {
            self.serial(tid);
        }
    }
}

impl VirtualWorker<'_> {
    /// No thread is running: takes the next batch out of the run queue. False: the run queue is
    /// empty.
    pub(super) fn begin_batch(&mut self) -> Result<bool, Error> {
        let sched = self.worker.clock.sched_mut();
        let Some(first) = sched.dequeue() else {
            sched.batch.begin(VecDeque::new(), &[]);
            return Ok(false);
        };
        let tid = first.tid();
        let machine = self.machine_of(&first);
        let batches = self.has_other_machine(machine) && self.may_batch(tid);
        let is_independent = batches && self.is_independent(&first);
        let mut machines = vec![machine];
        let mut chosen = VecDeque::from([first]);
        if is_independent {
            self.fill_batch(&mut chosen, &mut machines);
        }
        let same_cpu = chosen.len() == 1;
        for runnable in &chosen {
            if let Some(listener) = &self.worker.programs[self.program_of(runnable)].listener {
                listener.wake_same_cpu(same_cpu);
            }
        }
        let sched = self.worker.clock.sched_mut();
        sched.batch.begin(chosen, &machines);
        if batches && !is_independent {
            // Threads behind it in the run queue make such calls, too, before they all run in a
            // batch again.
            sched.batch.end_timeslice(tid);
        }
        Ok(true)
    }

    /// Takes threads out of the run queue that may run beside the first one.
    fn fill_batch(&mut self, chosen: &mut VecDeque<Runnable>, machines: &mut Vec<MachineId>) {
        let mut index = 0;
        for _ in 0..MAX_SCANNED {
            let sched = self.worker.clock.sched_mut();
            let Some(runnable) = sched.run_queue.remove(index) else {
                return;
            };
            let machine = self.machine_of(&runnable);
            let is_other = !machines.contains(&machine);
            if is_other && self.may_batch(runnable.tid()) && self.is_independent(&runnable) {
                machines.push(machine);
                chosen.push_back(runnable);
                if chosen.len() == MAX_MEMBERS {
                    return;
                }
            } else {
                let sched = self.worker.clock.sched_mut();
                sched.run_queue.insert(index, runnable);
                index += 1;
            }
        }
    }

    /// Whether a thread of another machine is among the first of the run queue.
    fn has_other_machine(&self, machine: MachineId) -> bool {
        let sched = self.worker.clock.sched();
        let mut first = sched.run_queue.iter().take(MAX_SCANNED);
        first.any(|runnable| self.machine_of(runnable) != machine)
    }

    /// The machine of its program, whatever network namespace the thread is in.
    pub(super) fn machine_of(&self, runnable: &Runnable) -> MachineId {
        self.worker.programs[self.program_of(runnable)].machine
    }

    /// The same of a process.
    pub(super) fn machine_of_process(&self, pid: i32) -> MachineId {
        self.worker.programs[self.worker.processes[&pid].program].machine
    }

    fn program_of(&self, runnable: &Runnable) -> usize {
        match runnable {
            Runnable::Syscall(program, _) => *program,
            _ => self.worker.processes[&self.worker.threads[&runnable.tid()].pid].program,
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
            && sched.runaways.limit().is_none()
            && !sched.parents.has_stopped()
            && !sched.shared_state.forbids_batches()
            && self.worker.file_holder.is_none()
            && self.worker.ring_polling.is_none()
            && !sched.is_near_penalty(tid, MAX_SCANNED as u64)
    }

    /// Sorts threads by the first member of the batch that is on their machine; threads of one
    /// machine stay in their order.
    pub(super) fn sort_by_batch<T>(&self, all: &mut [T], tid: impl Fn(&T) -> i32) {
        let sched = self.worker.clock.sched();
        all.sort_by_key(|one| {
            let pid = self.worker.threads.get(&tid(one)).map(|thread| thread.pid);
            let machine = pid.map(|pid| self.machine_of_process(pid));
            let mut members = sched.batch.members.iter();
            let index = members.position(|member| Some(member.machine) == machine);
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
        sched.batch.exited.push(pid);
        if let Some(process) = self.worker.processes.get(&pid) {
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
        sched.batch.ready_pipes.push(tid);
        true
    }

    /// The same of a program's last process.
    pub(crate) fn defer_tree_exit(&mut self, id: usize) -> bool {
        let Some(sched) = self.sched_in_batch() else {
            return false;
        };
        sched.batch.hung_up.push(id);
        true
    }

    /// No thread is running: handles what was deferred.
    pub(super) fn handle_deferred(&mut self) -> Result<(), Error> {
        let sched = self.worker.clock.sched_mut();
        let batch = &sched.batch;
        if batch.exited.is_empty() && batch.hung_up.is_empty() && batch.ready_pipes.is_empty() {
            return Ok(());
        }
        sched.number_created();
        let mut ready_pipes = std::mem::take(&mut sched.batch.ready_pipes);
        let mut dead = std::mem::take(&mut sched.batch.exited);
        dead.sort_by_key(|pid| (sched.serials.get(pid).copied().unwrap_or(u64::MAX), *pid));
        for pid in dead {
            self.on_process_exit(pid)?;
            self.run_kernel()?;
        }
        let sched = self.worker.clock.sched_mut();
        let mut hung_up = std::mem::take(&mut sched.batch.hung_up);
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
