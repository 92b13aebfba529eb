//! All processes and threads of programs, and the tasks that stand for them, by their numbers.
//!
//! Each thread belongs to a process that is known, and is in its list; a task belongs to one thread
//! at most. What changes one of these changes the others with it.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use vink_kernel::{MachineId, Numbered, TaskId};
use vink_sys::pidfd::copy_fd;

use crate::fd_table::{Entry, FdTable};
use crate::networks::NetnsId;
use crate::process::{PendingFork, Process, Thread};
use crate::process_ring::ProcessRing;
use crate::signal_poll::PendingCall;
use crate::tracee;

/// They are found by the worker's numbers, not by those that their machines give them.
#[derive(Default)]
pub(crate) struct ProcessTable {
    processes: Numbered<i32, Process>,
    threads: Numbered<i32, Thread>,
    /// The thread that each task stands for.
    tasks: Numbered<TaskId, i32>,
}

impl ProcessTable {
    /// How many processes, threads and tasks there are.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [self.processes.len(), self.threads.len(), self.tasks.len()]
    }

    /// Whether there is no thread.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// A process that is known.
    pub(crate) fn process(&self, pid: i32) -> &Process {
        &self.processes[&pid]
    }

    /// The same, to change it.
    pub(crate) fn process_mut(&mut self, pid: i32) -> &mut Process {
        let process = self.processes.get_mut(&pid);
        process.expect("threads only have known processes")
    }

    pub(crate) fn find_process(&self, pid: i32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    pub(crate) fn has_process(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values()
    }

    /// Those of a program.
    pub(crate) fn processes_in(&self, program: usize) -> impl Iterator<Item = &Process> {
        let all = self.processes.values();
        all.filter(move |process| process.program == program)
    }

    /// The process of a thread that is known.
    pub(crate) fn process_of(&self, tid: i32) -> &Process {
        self.process(self.pid_of(tid))
    }

    /// The same, to change it.
    pub(crate) fn process_of_mut(&mut self, tid: i32) -> &mut Process {
        self.process_mut(self.pid_of(tid))
    }

    /// The threads of a process that is known.
    pub(crate) fn threads_of(&self, pid: i32) -> &[i32] {
        &self.process(pid).threads
    }

    /// Where a process that is known is.
    pub(crate) fn machine_of(&self, pid: i32) -> MachineId {
        self.process(pid).machine
    }

    /// The place of the program that a thread's process descends from.
    pub(crate) fn program_of(&self, tid: i32) -> usize {
        self.process_of(tid).program
    }

    /// The shared ring of a process, if it has one.
    pub(crate) fn ring(&self, pid: i32) -> Option<Rc<ProcessRing>> {
        self.processes.get(&pid)?.table.ring()
    }

    /// The same for a call that has use for one, which is counted if there is none.
    pub(crate) fn ring_for_call(&mut self, pid: i32) -> Option<Rc<ProcessRing>> {
        let process = self.processes.get_mut(&pid)?;
        let ring = process.table.ring();
        if ring.is_none() {
            process.calls_without_ring = process.calls_without_ring.saturating_add(1);
        }
        ring
    }

    /// A process has been in one of the machine's own directories.
    pub(crate) fn note_cwd_in_procfs(&mut self, pid: i32) {
        self.process_mut(pid).cwd_in_procfs = true;
    }

    /// The descriptors of a process that is known.
    pub(crate) fn fd_table(&self, pid: i32) -> &FdTable {
        &self.process(pid).table
    }

    /// Whether no other thread has a process's descriptors.
    pub(crate) fn is_alone(&self, pid: i32) -> bool {
        let process = self.process(pid);
        !process.threaded && !process.table.is_shared()
    }

    /// The process of a thread that is known.
    pub(crate) fn pid_of(&self, tid: i32) -> i32 {
        self.threads[&tid].pid
    }

    /// The same of one that may be known.
    pub(crate) fn find_pid(&self, tid: i32) -> Option<i32> {
        self.threads.get(&tid).map(|thread| thread.pid)
    }

    pub(crate) fn has_thread(&self, tid: i32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// A thread that makes a call.
    fn caller_mut(&mut self, tid: i32) -> &mut Thread {
        self.threads.get_mut(&tid).expect("it makes a call")
    }

    /// All threads, with their numbers.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (i32, &Thread)> {
        self.threads.iter().map(|(tid, thread)| (*tid, thread))
    }

    /// The same, to change them, each with its process.
    pub(crate) fn threads_mut(&mut self) -> impl Iterator<Item = (i32, &mut Thread, &Process)> {
        let processes = &self.processes;
        let all = self.threads.iter_mut();
        all.map(|(tid, thread)| {
            let process = &processes[&thread.pid];
            (*tid, thread, process)
        })
    }

    /// The call of a thread that the kernel works on.
    pub(crate) fn pending(&self, tid: i32) -> Option<&PendingCall> {
        self.threads.get(&tid)?.pending.as_ref()
    }

    /// It works on it no more.
    pub(crate) fn take_pending(&mut self, tid: i32) -> Option<PendingCall> {
        self.threads.get_mut(&tid)?.pending.take()
    }

    /// It does from now on.
    pub(crate) fn set_pending(&mut self, tid: i32, call: PendingCall) {
        self.caller_mut(tid).pending = Some(call);
    }

    /// The process of a thread that may be known, and whether the thread is in the middle of a call.
    pub(crate) fn process_and_state(&self, tid: i32) -> Option<(&Process, bool)> {
        let thread = self.threads.get(&tid)?;
        let is_busy = thread.pending.is_some() || thread.suspended.is_some();
        Some((self.process(thread.pid), is_busy))
    }

    /// A thread's call, which the kernel has interrupted, is put aside for another thread's exec.
    pub(crate) fn suspend(&mut self, call: PendingCall) {
        let tid = call.in_flight.call.tid;
        self.caller_mut(tid).suspended = Some(call);
    }

    /// The call of a thread that was put aside.
    pub(crate) fn take_suspended(&mut self, tid: i32) -> Option<PendingCall> {
        self.threads.get_mut(&tid)?.suspended.take()
    }

    /// The worker's end of what a thread's call closes for good, until its next call.
    pub(crate) fn close_later(&mut self, tid: i32, end: Option<OwnedFd>) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.closing.extend(end);
        }
    }

    /// Whether the kernel works on any call, as far as the condition holds for it.
    pub(crate) fn any_pending(&self, condition: impl Fn(&PendingCall) -> bool) -> bool {
        let mut all = self.threads.values().filter_map(|t| t.pending.as_ref());
        all.any(condition)
    }

    /// A thread makes a call: what the last one closed is closed. False: it is in the middle of
    /// another call.
    pub(crate) fn begin_call(&mut self, tid: i32) -> bool {
        let thread = self.caller_mut(tid);
        thread.closing.clear();
        thread.pending.is_none() && thread.suspended.is_none()
    }

    /// The task that stands for a thread, if one does.
    pub(crate) fn task(&self, tid: i32) -> Option<TaskId> {
        self.threads.get(&tid)?.task
    }

    /// The network namespace that a thread moved to; `None`: its machine's.
    pub(crate) fn netns(&self, tid: i32) -> Option<NetnsId> {
        self.threads.get(&tid)?.network
    }

    /// A thread has moved to a network namespace.
    pub(crate) fn set_netns(&mut self, tid: i32, key: NetnsId) {
        let thread = self.caller_mut(tid);
        thread.network = Some(key);
        thread.has_sysfs = false;
        let process = self.process_of_mut(tid);
        if !std::mem::replace(&mut process.has_changed_netns, true) {
            // Tasks that others are given from now on may have been this one's, or its copies.
            process.may_change_netns = process.threads.clone();
            process.needs_update = true;
        }
    }

    /// A thread's task has its machine's sysfs from now on. Whether it had before.
    pub(crate) fn mark_sysfs(&mut self, tid: i32) -> bool {
        std::mem::replace(&mut self.caller_mut(tid).has_sysfs, true)
    }

    /// The thread that a task stands for.
    pub(crate) fn thread_of(&self, task: TaskId) -> Option<i32> {
        self.tasks.get(&task).copied()
    }

    /// A task stands for a thread from now on.
    pub(crate) fn set_task(&mut self, tid: i32, task: TaskId) {
        self.caller_mut(tid).task = Some(task);
        self.tasks.insert(task, tid);
    }

    /// A process with its first thread.
    pub(crate) fn add(&mut self, process: Process, first: Thread) {
        let pid = process.pid;
        self.processes.insert(pid, process);
        self.threads.insert(pid, first);
    }

    /// A thread of a known process; nothing happens if it is known. It is where its process's threads
    /// are, or have been.
    pub(crate) fn add_thread(&mut self, pid: i32, tid: i32) {
        // The first one too is new if it was about to exit, and a signal came first.
        if self.threads.contains_key(&tid) {
            return;
        }
        let process = self.processes.get_mut(&pid).expect("known by now");
        process.threads.push(tid);
        if process.has_changed_netns {
            process.may_change_netns.push(tid);
            process.needs_update = true;
        }
        self.threads.insert(tid, Thread::new(pid));
    }

    /// The number of a thread that was taken out passes to another one of its process.
    pub(crate) fn reuse_number(&mut self, pid: i32, tid: i32) {
        self.process_mut(pid).threads.push(tid);
        self.threads.insert(tid, Thread::new(pid));
    }

    /// Takes a thread out. Its process keeps its task, if it may stand for another thread: `Some` is
    /// one that does not, which is the process's no more.
    pub(crate) fn remove_thread(&mut self, tid: i32) -> Option<Option<TaskId>> {
        let thread = self.threads.remove(&tid)?;
        let process = self.process_mut(thread.pid);
        process.may_change_netns.retain(|t| *t != tid);
        process.threads.retain(|t| *t != tid);
        let Some(task) = thread.task else {
            return Some(None);
        };
        let leaves = process.spare.is_some() || thread.pending.is_some();
        match leaves {
            true => process.tasks.retain(|t| *t != task),
            false => process.spare = Some(task),
        }
        self.tasks.remove(&task);
        Some(leaves.then_some(task))
    }

    /// A process and its threads are without anything in the kernel from now on. One of the tasks
    /// that it had, if it had any.
    pub(crate) fn clear_process(&mut self, pid: i32) -> Option<TaskId> {
        let process = self.processes.get_mut(&pid).expect("it is known");
        process.table = FdTable::default();
        process.spare = None;
        let tasks = std::mem::take(&mut process.tasks);
        for tid in &process.threads {
            if let Some(thread) = self.threads.get_mut(tid) {
                *thread = Thread::new(pid);
            }
        }
        for task in &tasks {
            self.tasks.remove(task);
        }
        tasks.first().copied()
    }

    /// Takes a process out, with its threads.
    pub(crate) fn remove_process(&mut self, pid: i32) -> Option<Process> {
        let process = self.processes.remove(&pid)?;
        for tid in &process.threads {
            self.threads.remove(tid);
        }
        Some(process)
    }

    /// What an unknown process inherited from its parent, or from the one process of its program
    /// that can be it.
    pub(crate) fn claim_fork(&mut self, parent: i32, child: i32) -> Option<PendingFork> {
        let pending = &mut self.processes.get_mut(&parent)?.pending_forks;
        let index = match pending.len() {
            0 | 1 => (!pending.is_empty()).then_some(0),
            _ => pending
                .iter()
                .position(|u| tracee::children(parent, u.parent).contains(&child)),
        };
        Some(pending.remove(index?))
    }

    /// The same of a child given to its grandparent (`CLONE_PARENT`): its parent is clear if there is
    /// one candidate only.
    pub(crate) fn claim_only_fork(&mut self, program: usize) -> Option<PendingFork> {
        let mut parents = self.processes.values_mut();
        let one = parents.find(|p| p.program == program && !p.pending_forks.is_empty())?;
        one.pending_forks.pop()
    }

    /// Children of the program's processes that have not made a trapped call yet.
    pub(crate) fn unknown_children(&self, program: usize) -> Vec<i32> {
        let mut found = Vec::new();
        for process in self.processes_in(program) {
            for pending in &process.pending_forks {
                found.extend(tracee::children(process.pid, pending.parent));
            }
        }
        found.retain(|pid| !self.processes.contains_key(pid));
        found
    }

    /// The other processes with the same table of descriptors, as far as they are known.
    pub(crate) fn sharers(&self, pid: i32) -> Vec<i32> {
        let table = self.fd_table(pid);
        let others = self.processes.values();
        let others = others.filter(|p| p.pid != pid && p.table.is(table));
        others.map(|p| p.pid).collect()
    }

    /// What a thread's process has under a number, if that is one of Vink's files.
    pub(crate) fn entry(&self, tid: i32, fd: u64) -> Option<Entry> {
        self.fd_table(self.find_pid(tid)?).get(fd)
    }

    /// A thread's process has a Vink file under this number from now on. What it had there before.
    pub(crate) fn insert_entry(&mut self, tid: i32, fd: i32, entry: Entry) -> Option<Entry> {
        self.process_of(tid).table.insert(fd, entry)
    }

    /// A copy of what a thread's process has open under a number.
    pub(crate) fn borrow_descriptor(&self, tid: i32, fd: u64) -> Option<OwnedFd> {
        copy_fd(&self.process_of(tid).pidfd, fd as i32).ok()
    }

    /// The number of a process or thread that this thread names by its machine's number. `None` if it
    /// has made no trapped call, or is gone.
    pub(crate) fn number_of(&self, tid: i32, named: i32) -> Option<i32> {
        let machine = |tid: &i32| self.process_of(*tid).machine;
        let mut neighbours = self.threads.keys().filter(|t| machine(t) == machine(&tid));
        neighbours
            .find(|t| tracee::ns_pid(**t) == Some(named))
            .copied()
    }

    /// Where a thread is on the network: `None` is its machine's own namespace.
    fn network(&self, tid: i32) -> Option<(MachineId, Option<NetnsId>)> {
        let thread = self.threads.get(&tid)?;
        Some((self.process(thread.pid).machine, thread.network))
    }

    /// Whether this is the number of a process or a thread in the same network as the thread.
    pub(crate) fn is_in_same_netns(&self, tid: i32, number: i32) -> bool {
        let number = self.number_of(tid, number);
        number.is_some_and(|number| self.network(number) == self.network(tid))
    }

    /// The thread may be in another network namespace when it makes its next trapped call.
    pub(crate) fn expect_netns_change(&mut self, tid: i32) {
        let process = self.process_of_mut(tid);
        process.may_change_netns.push(tid);
        process.needs_update = true;
    }
}
