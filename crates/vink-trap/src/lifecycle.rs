//! Fork, exec and exit: which processes and threads there are, and which tasks they have.
//!
//! A fork passes through, and the host makes the child. What the child inherits is copied before
//! that, as a [`PendingFork`], because the parent may change its descriptors before the child makes
//! its first trapped call. The child is matched to it when it shows up as a process never seen, or
//! when the parent's thread makes its next call, whichever comes first.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::error::to_errno_result;
use crate::fd_table::FdTable;
use crate::in_flight::AfterClose;
use crate::pids::{has_ended, open_pidfd};
use crate::process::{PendingFork, Process, Thread};
use crate::reactor::{Reactor, Token};
use crate::supervisor::Supervisor;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::virtual_paths::may_lead_to_procfs;
use crate::Error;

impl Tasks {
    /// Gets to know a process, with what it inherited.
    pub(crate) fn add_process(
        &mut self,
        reactor: &Reactor,
        program: usize,
        pid: i32,
        pidfd: OwnedFd,
        inherited: Option<PendingFork>,
    ) -> Result<(), Error> {
        let exit = Token::ProcessExit(pid);
        reactor.add_readable(pidfd.as_raw_fd(), exit)?;
        let begins = inherited.unwrap_or_else(|| PendingFork {
            parent: 0,
            table: FdTable::default(),
            task: None,
            network: None,
            new_netns: false,
            cwd_in_procfs: tracee::directory(pid, libc::AT_FDCWD)
                .is_some_and(|path| may_lead_to_procfs(&path)),
        });
        let process = Process {
            pid,
            pidfd,
            program,
            machine: self.programs[program].machine,
            table: begins.table,
            threads: vec![pid],
            threaded: false,
            tasks: begins.task.into_iter().collect(),
            spare: begins.task,
            pending_forks: Vec::new(),
            executing: None,
            calls_without_ring: 0,
            lent_ring: None,
            needs_update: begins.new_netns,
            has_changed_netns: begins.network.is_some(),
            may_change_netns: begins.new_netns.then_some(pid).into_iter().collect(),
            cwd_in_procfs: begins.cwd_in_procfs,
        };
        let mut thread = Thread::new(pid);
        thread.network = begins.network;
        self.table.add(process, thread);
        Ok(())
    }

    /// Gets to know a thread that was never seen before, of a known process or of a new one: the
    /// process. `None` if it is gone already.
    pub(crate) fn ensure_thread(
        &mut self,
        reactor: &Reactor,
        program: usize,
        tid: i32,
    ) -> Result<Option<i32>, Error> {
        let Some((pid, parent)) = tracee::tgid_and_ppid(tid) else {
            return Ok(None);
        };
        if !self.table.has_process(pid) {
            let Ok(pidfd) = open_pidfd(pid) else {
                return Ok(None);
            };
            let inherited = self.claim_fork(program, parent, pid);
            self.add_process(reactor, program, pid, pidfd, inherited)?;
        }
        self.table.add_thread(pid, tid);
        Ok(Some(pid))
    }

    /// What an unknown process inherited: from its parent, or from one that is dead.
    pub(crate) fn claim_fork(
        &mut self,
        program: usize,
        parent: i32,
        child: i32,
    ) -> Option<PendingFork> {
        if let Some(pending) = self.table.claim_fork(parent, child) {
            return Some(pending);
        }
        let orphans = &mut self.programs[program].orphans;
        match orphans.is_empty() {
            true => self.table.claim_only_fork(program),
            false => Some(orphans.remove(0)),
        }
    }

    /// A fork is about to pass: copies what the child will inherit.
    pub(crate) fn prepare_fork(&mut self, tid: i32, flags: u64) -> Result<(), vink_kernel::Error> {
        let pid = self.table.pid_of(tid);
        let has = |flag: i32| flags & flag as u64 != 0;
        let (shares, moves) = (has(libc::CLONE_FILES), has(libc::CLONE_NEWNET));
        let task = self.clone_for_child(tid, shares)?;
        let network = self.table.netns(tid);
        let process = self.table.process_mut(pid);
        process.pending_forks.push(PendingFork {
            parent: tid,
            table: match shares {
                true => process.table.share(),
                false => process.table.copy(),
            },
            task,
            network,
            new_netns: moves,
            cwd_in_procfs: process.cwd_in_procfs,
        });
        process.needs_update = true;
        Ok(())
    }

    /// The thread has left its fork: its child is there, or never will be.
    pub(crate) fn resolve_forks(
        &mut self,
        reactor: &Reactor,
        pid: i32,
        tid: i32,
    ) -> Result<(), Error> {
        let program = self.table.process(pid).program;
        loop {
            let pending = &mut self.table.process_mut(pid).pending_forks;
            let Some(index) = pending.iter().position(|u| u.parent == tid) else {
                return Ok(());
            };
            let pending = pending.remove(index);
            // Dead ones may be there too, and have been known before: not this one.
            let children = tracee::children(pid, tid).into_iter();
            let mut unknown = children.filter(|c| !self.table.has_process(*c));
            let child = unknown.find_map(|child| {
                let pidfd = open_pidfd(child).ok()?;
                (!has_ended(pidfd.as_fd())).then_some((child, pidfd))
            });
            match child {
                Some((child, pidfd)) => {
                    self.add_process(reactor, program, child, pidfd, Some(pending))?;
                }
                None => self.drop_fork(pending),
            }
        }
    }

    /// Adds all children of the program's processes that can be found now.
    pub(crate) fn resolve_all_forks(
        &mut self,
        reactor: &Reactor,
        program: usize,
    ) -> Result<(), Error> {
        for child in self.table.unknown_children(program) {
            let Some((_, parent)) = tracee::tgid_and_ppid(child) else {
                continue;
            };
            if let Some(pidfd) = open_pidfd(child).ok().filter(|p| !has_ended(p.as_fd())) {
                let inherited = self.claim_fork(program, parent, child);
                self.add_process(reactor, program, child, pidfd, inherited)?;
            }
        }
        Ok(())
    }

    /// The child will never be there.
    pub(crate) fn drop_fork(&mut self, pending: PendingFork) {
        if let Some(task) = pending.task {
            self.kernel.end_task(task, true);
        }
    }
}

impl Supervisor {
    /// Forgets a thread that has ended, or is about to.
    pub(crate) fn end_thread(&mut self, tid: i32) {
        let Some(task) = self.calls.tasks.table.remove_thread(tid) else {
            return;
        };
        self.forget_thread(tid);
        if let Some(task) = task {
            self.calls.tasks.kernel.end_task(task, false);
        }
    }

    /// The thread is gone from the table.
    fn forget_thread(&mut self, tid: i32) {
        self.placement.forget(tid);
        if let Some(sched) = self.calls.clock.virtual_time_mut() {
            sched.forget_thread(tid);
            // A signal to others may have gone with it.
            self.calls.signals.invalidate_all();
        }
    }

    /// Forgets a dead process. Its pidfd and its program; `None` if it was unknown.
    pub(crate) fn remove_process(&mut self, pid: i32) -> Option<(OwnedFd, usize)> {
        self.calls.tasks.table.find_process(pid)?;
        self.calls.held_files.mark_dirty();
        if let Some(task) = self.calls.tasks.table.clear_process(pid) {
            self.calls.tasks.kernel.end_task(task, true);
        }
        let process = self.calls.tasks.table.remove_process(pid)?;
        for tid in &process.threads {
            self.forget_thread(*tid);
        }
        if let Some(sched) = self.calls.clock.virtual_time_mut() {
            sched.forget_process(&self.calls.tasks.table, pid);
        }
        let entry = &mut self.calls.tasks.programs[process.program];
        match entry.listener {
            Some(_) => entry.orphans.extend(process.pending_forks),
            // No process is left that could be one of them: the filter's end comes first (Linux
            // 6.11).
            None => {
                for pending in process.pending_forks {
                    self.calls.tasks.drop_fork(pending);
                }
            }
        }
        Some((process.pidfd, process.program))
    }

    /// Before the first trapped call after a fork, an exec or an mmap of a ring. True if the call
    /// may be dispatched now; else it will be dispatched again.
    pub(crate) fn update_process(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        let pid = call.pid;
        self.calls.tasks.give_back(call);
        self.calls
            .tasks
            .resolve_forks(&self.calls.reactor, pid, call.tid)?;
        let process = self.calls.tasks.table.process_mut(pid);
        let executing = process.executing;
        // As long as the thread is there and silent, another's call tells nothing of its exec.
        let over = |tid| tid == call.tid || !tracee::has_thread(pid, tid);
        process.executing = executing.filter(|tid| !over(*tid));
        process.needs_update = !process.pending_forks.is_empty()
            || process.executing.is_some()
            || process.lent_ring.is_some()
            || process.may_change_netns.iter().any(|tid| *tid != call.tid);
        if let Err(error) = self.calls.tasks.update_netns(call.tid) {
            let result = to_errno_result(error)?;
            self.calls.tasks.table.process_mut(pid).needs_update = true;
            self.calls.answer(call, result)?;
            return Ok(false);
        }
        let process = self.calls.tasks.table.process_mut(pid);
        if executing.is_none() || process.executing.is_some() {
            return Ok(true);
        }
        self.packet_rings.sweep(&mut self.calls.tasks)?;
        // After an exec there is one thread, with the process's own number. A failed one finds all
        // in place.
        for tid in self.calls.tasks.table.process(pid).threads.clone() {
            if tid != call.tid && !tracee::has_thread(pid, tid) {
                self.end_thread(tid);
            }
        }
        self.resume_suspended(pid)?;
        if let Some(mut time) = self.virtual_time() {
            time.prepare_executed(call.tid)?;
        }
        let process = self.calls.tasks.table.process_mut(pid);
        if process.threads == [call.tid]
            && fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|d| d.count() == 1)
        {
            process.threaded = false;
            if let Err(error) = self.calls.tasks.part_if_executed(call.tid) {
                to_errno_result(error)?;
            }
        }
        let process = self.calls.tasks.table.process_mut(pid);
        let closed = process.table.remove_if(|fd, entry| {
            tracee::descriptor(pid, fd) != Some(entry.file.placeholder.identity())
        });
        if closed.is_empty() {
            return Ok(true);
        }
        self.close_all(call, closed, AfterClose::Dispatch)?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_told_apart() {
        // A thread's children are its own: what claim() relies on.
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut child = std::process::Command::new("cat")
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            tell.send((vink_sys::process::gettid(), child.id() as i32))
                .unwrap();
            std::thread::park();
            drop(child.stdin.take());
            child.wait().unwrap();
        });
        let (tid, child) = told.recv().unwrap();
        let me = std::process::id() as i32;
        // SAFETY: returns a number.
        let own = tracee::children(me, vink_sys::process::gettid());
        assert_eq!(tracee::children(me, tid), [child]);
        assert!(!own.contains(&child));
        thread.thread().unpark();
        thread.join().unwrap();
    }
}
