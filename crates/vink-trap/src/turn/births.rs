//! New threads and processes: they are out from the moment of their creation, before they are heard of.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use super::{states, Out, Patience, SILENCE};
use crate::launch::{has_ended, open_pidfd};
use crate::target;
use crate::worker::Worker;
use crate::Error;

/// Of `<linux/pidfd.h>`, since Linux 6.9: the number is a thread's.
const PIDFD_THREAD: i32 = libc::O_EXCL;

impl Worker {
    /// A call that makes a thread or a process is about to pass.
    pub(crate) fn expect_birth(&mut self, tid: i32, flags: u64) {
        let Some(turn) = &mut self.turn else { return };
        let thread = flags & libc::CLONE_THREAD as u64 != 0;
        turn.round.expect_birth(tid, thread);
        self.set_unfree(self.threads[&tid].pid);
        if !thread && flags & libc::CLONE_VM as u64 != 0 {
            self.show_for_ever(self.threads[&tid].pid);
        }
    }

    /// If the holder is back from a call that made somebody, finds out whom.
    pub(super) fn find_births(&mut self) -> Result<(), Error> {
        let turn = self.turn.as_ref().expect("virtual time");
        let mut parents = turn.round.parents();
        parents.retain(|tid| turn.has_arrived(*tid));
        for parent in parents {
            self.find_births_of(parent)?;
        }
        Ok(())
    }

    /// The same of a holder that is back for sure.
    pub(super) fn find_births_of(&mut self, holder: i32) -> Result<(), Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        let Some(thread) = turn.round.take_birth(holder) else {
            return Ok(());
        };
        let Some(pid) = self.threads.get(&holder).map(|thread| thread.pid) else {
            return Ok(());
        };
        match thread {
            true => self.find_threads(pid, holder),
            false => drop(self.find_children(pid, holder)?),
        }
        Ok(())
    }

    /// Threads of the process that have not been heard of are out.
    fn find_threads(&mut self, pid: i32, holder: i32) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let turn = self.turn.as_mut().expect("virtual time");
        let mut found: Vec<i32> = tasks
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|tid| !self.threads.contains_key(tid))
            .filter(|tid| !turn.has_arrived(*tid) && !turn.is_out(*tid) && !turn.astray.has(*tid))
            .filter(|tid| !turn.line.iter().any(|ready| ready.tid() == *tid))
            .collect();
        found.sort_unstable();
        for tid in found {
            turn.round.note_born(holder, tid);
            turn.go_out(tid, pid, Patience::Runs);
        }
    }

    /// Makes the thread's new children known: those that have not been heard of are out. The first of them.
    fn find_children(&mut self, pid: i32, tid: i32) -> Result<Option<i32>, Error> {
        let mut unknown = target::children(pid, tid);
        unknown.retain(|child| !self.processes.contains_key(child));
        self.bring_forth(pid, tid)?;
        unknown.retain(|child| self.processes.contains_key(child));
        for child in &unknown {
            self.sets_out_unheard(tid, *child);
        }
        Ok(unknown.first().copied())
    }

    /// A new process is out, unless it has been heard of.
    fn sets_out_unheard(&mut self, parent: i32, child: i32) {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.round.note_born(parent, child);
        let heard = turn.line.iter().any(|ready| ready.tid() == child);
        if !heard && !turn.has_arrived(child) && !turn.is_out(child) {
            turn.go_out(child, child, Patience::Runs);
        }
    }

    /// A process has ended. If its last call made a process that has not been heard of, that is with the first one of the
    /// machine now, and out.
    pub(crate) fn find_orphans(&mut self, program: usize) -> Result<(), Error> {
        let tree = &self.trees[program];
        let first = tree.home.as_ref().and_then(|home| home.first());
        let Some(first) = first.filter(|_| !tree.orphans.is_empty()) else {
            return Ok(());
        };
        for child in target::children(first, first) {
            if self.processes.contains_key(&child) || self.trees[program].orphans.is_empty() {
                continue;
            }
            if let Some(pidfd) = open_pidfd(child).ok().filter(|p| !has_ended(p.as_fd())) {
                let inherited = self.claim(program, first, child);
                self.add_process(program, child, pidfd, inherited)?;
                self.sets_out_unheard(first, child);
            }
        }
        Ok(())
    }

    /// A thread was found waiting in vfork(2): its child has the turn.
    pub(super) fn wait_for_vfork(&mut self, tid: i32, pid: i32) -> Result<(), Error> {
        let child = self.find_children(pid, tid)?;
        let turn = self.turn.as_mut().expect("virtual time");
        match child {
            Some(child) => {
                turn.round.take_birth(tid);
                turn.vforked.push((tid, child));
                turn.round.rename(tid, child);
            }
            // It has waited for something else.
            None => turn.out.push(Out {
                tid,
                pid,
                patience: Patience::Vfork,
            }),
        }
        Ok(())
    }

    /// The process executes a program, or has ended: whoever made it by vfork(2) goes on.
    pub(super) fn release_vfork(&mut self, child: i32) {
        let turn = self.turn.as_mut().expect("virtual time");
        let Some(index) = turn.vforked.iter().position(|(_, c)| *c == child) else {
            return;
        };
        let (tid, _) = turn.vforked.remove(index);
        let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid) else {
            return;
        };
        turn.go_out(tid, pid, Patience::Released(child));
    }

    /// Waits until a thread that has been let go to its end has got there. It knew itself by this number.
    pub(crate) fn await_end(&mut self, pid: i32, tid: i32, number: i32) -> Result<(), Error> {
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        turn.stale = true;
        turn.out.retain(|out| out.tid != tid);
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, PIDFD_THREAD) };
        if fd >= 0 {
            // SAFETY: new, and nobody else's.
            let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
            let mut poll = libc::pollfd {
                fd: fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one structure, as said.
            unsafe { libc::poll(&mut poll, 1, SILENCE.as_millis() as i32) };
        }
        let start = Instant::now();
        while !matches!(states::of(pid, tid), None | Some(b'Z' | b'X')) && start.elapsed() < SILENCE
        {
            std::thread::yield_now();
        }
        self.wake_after_end(number);
        self.catch_events(Some(std::time::Duration::ZERO)).map(drop)
    }
}
