//! Fork, exec and exit: who is who among processes and threads, and which tasks they have.
//!
//! A fork is let pass, and the host makes the child. What the child inherits is copied before that,
//! as an [`Unborn`], because the parent may change its descriptors before the child makes its first
//! trapped call. The child is matched to it when it shows up as a process never seen, or when the
//! parent's thread makes its next call, whichever comes first.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use vink_kernel::{CloneKind, TaskId};

use crate::launch::{has_ended, open_pidfd};
use crate::notify::Notification;
use crate::place::is_place;
use crate::process::{Process, Table, Then, Thread, Unborn};
use crate::serve::soften;
use crate::target;
use crate::worker::Worker;
use crate::Error;

/// Descriptors that a process may have in the kernel; the host's limit is the one that counts.
const NOFILE: libc::rlimit64 = libc::rlimit64 {
    rlim_cur: 1 << 20,
    rlim_max: 1 << 20,
};

impl Worker {
    /// Gets to know a process, with what it inherited.
    pub(crate) fn add_process(
        &mut self,
        program: usize,
        pid: i32,
        pidfd: OwnedFd,
        inherited: Option<Unborn>,
    ) -> Result<(), Error> {
        self.attend_death(pidfd.as_fd(), pid)?;
        let begins = inherited.unwrap_or_else(|| Unborn {
            parent: 0,
            table: Table::default(),
            task: None,
            network: None,
            moves: false,
            wanders: target::directory(pid, libc::AT_FDCWD).is_some_and(|path| is_place(&path)),
        });
        let process = Process {
            pid,
            pidfd,
            program,
            machine: self.trees[program].machine,
            table: begins.table,
            threads: vec![pid],
            threaded: false,
            tasks: begins.task.into_iter().collect(),
            spare: begins.task,
            unborn: Vec::new(),
            executing: None,
            lent: None,
            attention: begins.moves,
            moved: begins.network.is_some(),
            moving: begins.moves.then_some(pid).into_iter().collect(),
            wanders: begins.wanders,
        };
        self.processes.insert(pid, process);
        let mut thread = Thread::new(pid);
        thread.network = begins.network;
        self.threads.insert(pid, thread);
        Ok(())
    }

    /// Gets to know a thread that was never seen before, of a known process or of a new one.
    /// False if it is gone already.
    pub(crate) fn meet(&mut self, program: usize, tid: i32) -> Result<bool, Error> {
        let Some((pid, parent)) = target::kin(tid) else {
            return Ok(false);
        };
        if !self.processes.contains_key(&pid) {
            let Ok(pidfd) = open_pidfd(pid) else {
                return Ok(false);
            };
            let inherited = self.claim(program, parent, pid);
            self.add_process(program, pid, pidfd, inherited)?;
        }
        // The first one too is new if it was about to exit, and a signal came first.
        if !self.threads.contains_key(&tid) {
            let process = self.processes.get_mut(&pid).expect("known by now");
            process.threads.push(tid);
            if process.moved {
                process.moving.push(tid);
                process.attention = true;
            }
            self.threads.insert(tid, Thread::new(pid));
        }
        Ok(true)
    }

    /// What an unknown process inherited: from its parent, or from one that is dead.
    pub(crate) fn claim(&mut self, program: usize, parent: i32, child: i32) -> Option<Unborn> {
        if let Some(process) = self.processes.get_mut(&parent) {
            let unborn = &mut process.unborn;
            let index = match unborn.len() {
                0 | 1 => (!unborn.is_empty()).then_some(0),
                _ => unborn
                    .iter()
                    .position(|u| target::children(parent, u.parent).contains(&child)),
            };
            if let Some(index) = index {
                return Some(unborn.remove(index));
            }
        }
        let orphans = &mut self.trees[program].orphans;
        if !orphans.is_empty() {
            return Some(orphans.remove(0));
        }
        // A child given to its grandparent (CLONE_PARENT): whose it is is clear if there is one only.
        let mut parents = self.processes.values_mut();
        let one = parents.find(|p| p.program == program && !p.unborn.is_empty())?;
        one.unborn.pop()
    }

    /// A fork is about to pass: copies what the child will inherit.
    pub(crate) fn conceive(&mut self, tid: i32, flags: u64) -> Result<(), vink_kernel::Error> {
        let pid = self.threads[&tid].pid;
        let has = |flag: i32| flags & flag as u64 != 0;
        let (shares, moves) = (has(libc::CLONE_FILES), has(libc::CLONE_NEWNET));
        let task = self.clone_for_child(tid, shares)?;
        let network = self.threads[&tid].network;
        let process = self.process_mut(pid);
        process.unborn.push(Unborn {
            parent: tid,
            table: match shares {
                true => process.table.share(),
                false => process.table.copy(),
            },
            task,
            network,
            moves,
            wanders: process.wanders,
        });
        process.attention = true;
        Ok(())
    }

    /// The thread has left its fork: its child is there, or never will be.
    pub(crate) fn bring_forth(&mut self, pid: i32, tid: i32) -> Result<(), Error> {
        let program = self.processes[&pid].program;
        loop {
            let unborn = &mut self.process_mut(pid).unborn;
            let Some(index) = unborn.iter().position(|u| u.parent == tid) else {
                return Ok(());
            };
            let unborn = unborn.remove(index);
            // Dead ones may be there too, and have been known before: not this one.
            let children = target::children(pid, tid).into_iter();
            let mut unknown = children.filter(|c| !self.processes.contains_key(c));
            let child = unknown.find_map(|child| {
                let pidfd = open_pidfd(child).ok()?;
                (!has_ended(pidfd.as_fd())).then_some((child, pidfd))
            });
            match child {
                Some((child, pidfd)) => {
                    self.add_process(program, child, pidfd, Some(unborn))?;
                }
                None => self.drop_unborn(unborn),
            }
        }
    }

    /// As far as can be told now, makes all children of the program's processes known.
    pub(crate) fn bring_forth_all(&mut self, program: usize) -> Result<(), Error> {
        for child in self.unknown_children(program) {
            let Some((_, parent)) = target::kin(child) else {
                continue;
            };
            if let Some(pidfd) = open_pidfd(child).ok().filter(|p| !has_ended(p.as_fd())) {
                let inherited = self.claim(program, parent, child);
                self.add_process(program, child, pidfd, inherited)?;
            }
        }
        Ok(())
    }

    /// Children of the program's processes that have not made a trapped call yet.
    pub(crate) fn unknown_children(&self, program: usize) -> Vec<i32> {
        let mut found = Vec::new();
        let processes = self.processes.values();
        for process in processes.filter(|p| p.program == program && !p.unborn.is_empty()) {
            for unborn in &process.unborn {
                found.extend(target::children(process.pid, unborn.parent));
            }
        }
        found.retain(|pid| !self.processes.contains_key(pid));
        found
    }

    pub(crate) fn drop_unborn(&mut self, unborn: Unborn) {
        if let Some(task) = unborn.task {
            self.end_task(task, true);
        }
    }

    pub(crate) fn end_task(&mut self, task: TaskId, group: bool) {
        // Only fails for a task that is gone.
        let _ = self.kernel.exit_task(task, 0, group);
        self.stirred = true;
    }

    pub(crate) fn process_mut(&mut self, pid: i32) -> &mut Process {
        self.processes
            .get_mut(&pid)
            .expect("threads only have known processes")
    }

    /// The thread's task in the kernel. The thread must have no call in progress there.
    pub(crate) fn task_of(&mut self, tid: i32) -> Result<TaskId, vink_kernel::Error> {
        let thread = self.threads.get_mut(&tid).expect("only known threads call");
        if let Some(task) = thread.task {
            return Ok(task);
        }
        let process = self.processes.get_mut(&thread.pid);
        let process = process.expect("threads only have known processes");
        self.stirred = true;
        let task = match process.spare.take() {
            Some(task) => task,
            None => {
                let task = self.kernel.task(process.machine)?;
                process.tasks.push(task);
                self.allow_descriptors(task)?;
                task
            }
        };
        let thread = self.threads.get_mut(&tid).expect("as before");
        thread.task = Some(task);
        self.tasks.insert(task, tid);
        if let Some(key) = self.threads[&tid].network {
            self.enter_network(task, key)?;
        }
        let process = self.process_mut(self.threads[&tid].pid);
        if process.threaded && process.spare.is_none() {
            let spare = self.kernel.clone_task(task, CloneKind::Thread)?;
            let process = self.process_mut(self.threads[&tid].pid);
            process.tasks.push(spare);
            process.spare = Some(spare);
        }
        Ok(task)
    }

    /// Lets a task's process have as many descriptors as it likes.
    pub(crate) fn allow_descriptors(&mut self, task: TaskId) -> Result<(), vink_kernel::Error> {
        let limit = NOFILE;
        let address = &raw const limit as u64;
        let args = [0, libc::RLIMIT_NOFILE.into(), address, 0, 0, 0];
        self.kernel.call(task, libc::SYS_prlimit64, args).map(drop)
    }

    /// The thread makes another one: see to it that there will be a task for that.
    pub(crate) fn expect_thread(&mut self, tid: i32) -> Result<(), vink_kernel::Error> {
        let process = self.process_mut(self.threads[&tid].pid);
        process.threaded = true;
        if process.tasks.is_empty() || process.spare.is_some() {
            return Ok(());
        }
        let had_task = self.threads[&tid].task.is_some();
        let task = self.task_of(tid)?;
        if had_task {
            let spare = self.kernel.clone_task(task, CloneKind::Thread)?;
            self.stirred = true;
            let process = self.process_mut(self.threads[&tid].pid);
            process.tasks.push(spare);
            process.spare = Some(spare);
        }
        Ok(())
    }

    /// Forgets a thread that has ended, or is about to.
    pub(crate) fn end_thread(&mut self, tid: i32) {
        let Some(thread) = self.threads.remove(&tid) else {
            return;
        };
        self.forget_thread(tid);
        let process = self.process_mut(thread.pid);
        process.moving.retain(|t| *t != tid);
        process.threads.retain(|t| *t != tid);
        let Some(task) = thread.task else { return };
        if process.spare.is_none() && thread.busy.is_none() {
            process.spare = Some(task);
            self.tasks.remove(&task);
        } else {
            process.tasks.retain(|t| *t != task);
            self.tasks.remove(&task);
            self.end_task(task, false);
        }
    }

    /// Gives up all that a process has in the kernel: it has ended, or is about to.
    pub(crate) fn retire(&mut self, pid: i32) {
        self.stir_carried();
        let process = self.process_mut(pid);
        process.table = Table::default();
        process.spare = None;
        let task = process.tasks.first().copied();
        let tasks = std::mem::take(&mut process.tasks);
        for tid in process.threads.clone() {
            if let Some(thread) = self.threads.get_mut(&tid) {
                *thread = Thread::new(pid);
            }
        }
        for task in &tasks {
            self.tasks.remove(task);
        }
        if let Some(task) = task {
            self.end_task(task, true);
        }
    }

    /// Forgets a dead process. Its pidfd and its program; `None` if it was unknown.
    pub(crate) fn bury(&mut self, pid: i32) -> Option<(OwnedFd, usize)> {
        self.processes.get(&pid)?;
        self.retire(pid);
        let process = self.processes.remove(&pid)?;
        for tid in &process.threads {
            self.threads.remove(tid);
            self.forget_thread(*tid);
        }
        self.forget_process(pid);
        let tree = &mut self.trees[process.program];
        match tree.listener {
            Some(_) => tree.orphans.extend(process.unborn),
            // Nobody is left who could be one of them: the filter's end is told first (Linux 6.11).
            None => {
                for unborn in process.unborn {
                    self.drop_unborn(unborn);
                }
            }
        }
        Some((process.pidfd, process.program))
    }

    /// The first trapped call after a fork, an exec or an mmap of a ring. True if the call may be looked at now;
    /// else it will be dispatched again.
    pub(crate) fn catch_up(&mut self, call: Notification) -> Result<bool, Error> {
        let pid = self.threads[&call.tid].pid;
        self.give_back(call);
        self.bring_forth(pid, call.tid)?;
        let process = self.process_mut(pid);
        let executing = process.executing;
        // As long as the thread is there and silent, another's call tells nothing of its exec.
        let over = |tid| tid == call.tid || !target::has_thread(pid, tid);
        process.executing = executing.filter(|tid| !over(*tid));
        process.attention = !process.unborn.is_empty()
            || process.executing.is_some()
            || process.lent.is_some()
            || process.moving.iter().any(|tid| *tid != call.tid);
        if let Err(error) = self.relocate(call.tid) {
            let result = soften(error)?;
            self.process_mut(pid).attention = true;
            self.answer(call, result)?;
            return Ok(false);
        }
        let process = self.process_mut(pid);
        if executing.is_none() || process.executing.is_some() {
            return Ok(true);
        }
        self.sweep_rings()?;
        // After an exec there is one thread, with the process's own number. A failed one finds all
        // in place.
        for tid in self.processes[&pid].threads.clone() {
            if tid != call.tid && !target::has_thread(pid, tid) {
                self.end_thread(tid);
            }
        }
        self.take_up(pid)?;
        if self.turn.is_some() {
            self.begin(call.tid)?;
        }
        let process = self.process_mut(pid);
        if process.threads == [call.tid]
            && fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|d| d.count() == 1)
        {
            process.threaded = false;
            if let Err(error) = self.part_if_executed(call.tid) {
                soften(error)?;
            }
        }
        let process = self.process_mut(pid);
        let closed = process.table.remove_if(|fd, entry| {
            target::descriptor(pid, fd) != Some(entry.file.placeholder.identity())
        });
        if closed.is_empty() {
            return Ok(true);
        }
        self.close_all(call, closed, Then::Dispatch)?;
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
            // SAFETY: returns a number.
            tell.send((unsafe { libc::gettid() }, child.id() as i32))
                .unwrap();
            std::thread::park();
            drop(child.stdin.take());
            child.wait().unwrap();
        });
        let (tid, child) = told.recv().unwrap();
        let me = std::process::id() as i32;
        // SAFETY: returns a number.
        let own = target::children(me, unsafe { libc::gettid() });
        assert_eq!(target::children(me, tid), [child]);
        assert!(!own.contains(&child));
        thread.thread().unpark();
        thread.join().unwrap();
    }
}
