//! New threads and processes: they are running from the moment of their creation, before their
//! first call.

use std::fs;
use std::os::fd::AsFd;
use std::time::Instant;

use vink_sys::pidfd::open_thread;
use vink_sys::poll::is_readable;

use super::{thread_states, RunningThread, Scheduler, ThreadState, VirtualWorker, STALL_TIMEOUT};
use crate::pids::{has_ended, open_pidfd};
use crate::process_table::ProcessTable;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;

impl VirtualWorker<'_> {
    /// If a member is back from a call that creates threads or processes, finds these.
    pub(super) fn find_forked(&mut self) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched();
        let mut parents = sched.batch.forking();
        parents.retain(|tid| sched.has_arrived(*tid));
        for parent in parents {
            self.find_forked_by(parent)?;
        }
        Ok(())
    }

    /// The same of a holder that is back for sure.
    pub(super) fn find_forked_by(&mut self, parent: i32) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched_mut();
        let Some(thread) = sched.batch.take_fork(parent) else {
            return Ok(());
        };
        let Some(pid) = self.worker.calls.tasks.table.find_pid(parent) else {
            return Ok(());
        };
        match thread {
            true => sched.find_threads(&self.worker.calls.tasks.table, pid, parent),
            false => drop(self.find_children(pid, parent)?),
        }
        Ok(())
    }

    /// Adds the thread's new children; those that have made no call are running. The first of them.
    fn find_children(&mut self, pid: i32, tid: i32) -> Result<Option<i32>, Error> {
        let mut unknown = tracee::children(pid, tid);
        unknown.retain(|child| !self.worker.calls.tasks.table.has_process(*child));
        let worker = &mut *self.worker;
        worker
            .calls
            .tasks
            .resolve_forks(&worker.calls.reactor, pid, tid)?;
        unknown.retain(|child| self.worker.calls.tasks.table.has_process(*child));
        for child in &unknown {
            self.worker
                .calls
                .clock
                .sched_mut()
                .process_created(tid, *child);
        }
        Ok(unknown.first().copied())
    }

    /// A process has ended. If its last call created a process that has made no call, that is now a
    /// child of the machine's init, and running.
    pub(crate) fn find_orphan(&mut self, program: usize) -> Result<(), Error> {
        let entry = &self.worker.calls.tasks.programs[program];
        let first = entry.namespaces.as_ref().map(|n| n.init_pid());
        let is_looked_for = !entry.orphans.is_empty();
        let Some(first) = first.filter(|_| is_looked_for) else {
            return Ok(());
        };
        for child in tracee::children(first, first) {
            if self.worker.calls.tasks.table.has_process(child)
                || self.worker.calls.tasks.programs[program].orphans.is_empty()
            {
                continue;
            }
            if let Some(pidfd) = open_pidfd(child).ok().filter(|p| !has_ended(p.as_fd())) {
                let worker = &mut *self.worker;
                let (tasks, reactor) = (&mut worker.calls.tasks, &worker.calls.reactor);
                let inherited = tasks.claim_fork(program, first, child);
                tasks.add_process(reactor, program, child, pidfd, inherited)?;
                worker.calls.clock.sched_mut().process_created(first, child);
            }
        }
        Ok(())
    }

    /// A thread was found waiting in vfork(2): its child runs in its place.
    pub(super) fn wait_for_vfork(&mut self, tid: i32, pid: i32) -> Result<(), Error> {
        let child = self.find_children(pid, tid)?;
        let sched = self.worker.calls.clock.sched_mut();
        match child {
            Some(child) => {
                sched.batch.take_fork(tid);
                sched.vforked.push((tid, child));
                sched.batch.rename(tid, child);
            }
            // It has waited for something else.
            None => sched.running.push(RunningThread {
                tid,
                pid,
                state: ThreadState::InVfork,
            }),
        }
        Ok(())
    }

    /// Waits until a thread that has been let go to its end has got there. It knew itself by this
    /// number.
    pub(crate) fn wait_for_thread_exit(
        &mut self,
        pid: i32,
        tid: i32,
        number: i32,
    ) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched_mut();
        sched.host_fds_dirty = true;
        sched.running.retain(|running| running.tid != tid);
        if let Ok(thread) = open_thread(tid) {
            is_readable(&thread, STALL_TIMEOUT.as_millis() as i32);
        }
        let start = Instant::now();
        while !matches!(thread_states::state_of(pid, tid), None | Some(b'Z' | b'X'))
            && start.elapsed() < STALL_TIMEOUT
        {
            std::thread::yield_now();
        }
        let sched = self.worker.calls.clock.sched_mut();
        sched.wake_after_end(&self.worker.calls.tasks.table, number);
        self.poll_events(Some(std::time::Duration::ZERO)).map(drop)
    }
}

impl Scheduler {
    /// A call that makes a thread or a process is about to pass.
    pub(crate) fn watch_fork(&mut self, call: SyscallCtx, flags: u64) {
        let thread = flags & libc::CLONE_THREAD as u64 != 0;
        self.batch.expect_fork(call.tid, thread);
        if !thread && flags & libc::CLONE_VM as u64 != 0 {
            self.clocks.keep_current(call.pid);
        }
    }

    /// Threads of the process that have no number yet were made by this one. Those that have made no call
    /// are running.
    fn find_threads(&mut self, table: &ProcessTable, pid: i32, parent: i32) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let mut found: Vec<i32> = tasks
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|tid| !table.has_thread(*tid) && !self.serials.contains_key(tid))
            .filter(|tid| !self.is_running(*tid) && !self.runaways.includes(*tid))
            .filter(|tid| !self.run_queue.contains(*tid))
            .collect();
        found.sort_unstable();
        for tid in found {
            self.batch.note_created(parent, tid);
            // Its call may have been received before its maker's.
            if !self.has_arrived(tid) {
                self.add_running(tid, pid, ThreadState::Running);
            }
        }
    }

    /// The process executes a program, or has ended: if it was made by vfork(2), its parent goes
    /// on.
    pub(super) fn release_vfork(&mut self, table: &ProcessTable, child: i32) {
        let Some(index) = self.vforked.iter().position(|(_, c)| *c == child) else {
            return;
        };
        let (tid, _) = self.vforked.remove(index);
        let Some(pid) = table.find_pid(tid) else {
            return;
        };
        self.add_running(tid, pid, ThreadState::VforkReleased(child));
    }

    /// A new process is running, unless it has made a call.
    fn process_created(&mut self, parent: i32, child: i32) {
        self.batch.note_created(parent, child);
        let heard = self.run_queue.contains(child);
        if !heard && !self.has_arrived(child) && !self.is_running(child) {
            self.add_running(child, child, ThreadState::Running);
        }
    }
}
