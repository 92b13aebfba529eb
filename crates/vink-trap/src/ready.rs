//! Waiting for readiness: poll, select and epoll over Vink files, host files, or both.
//!
//! If all descriptors are Vink's and one of them is ready, the kernel answers, exactly. In all
//! other cases the placeholders are made to show the files' state and the host does the waiting: so
//! time-outs, signal masks, `EINTR` (which poll(2) gives even with `SA_RESTART`, other than a call
//! that waits for a seccomp answer) and mixed sets are the host's own.

use std::rc::Rc;

use crate::notify::Notification;
use crate::process::{Busy, File, Stage};
use crate::serve::soften;
use crate::target;
use crate::worker::Worker;
use crate::Error;

const POLLFD: usize = size_of::<libc::pollfd>();
/// The most descriptors that one call may name here; the host's limit is its descriptor limit.
const MOST: u64 = 1 << 20;

const IN: u32 = libc::EPOLLIN as u32;
const PRI: u32 = libc::EPOLLPRI as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;

/// A Vink file that a call asks about, and what makes it ready for that call.
type Asked = (i32, Rc<File>, u32);

impl Worker {
    /// poll(2) and ppoll(2).
    pub(crate) fn poll(&mut self, call: Notification) -> Result<(), Error> {
        let count = call.args[1] & 0xffff_ffff;
        let process = &self.processes[&self.threads[&call.tid].pid];
        if process.table.is_empty() || count == 0 || count > MOST {
            return self.pass(call);
        }
        self.scratch.resize(count as usize * POLLFD, 0);
        if !target::read(call.tid, call.args[0], &mut self.scratch) {
            return self.pass(call);
        }
        let mut asked: Vec<Asked> = Vec::new();
        let mut pure = true;
        for entry in self.scratch.chunks_exact(POLLFD) {
            let fd = i32::from_ne_bytes(entry[..4].try_into().expect("four bytes"));
            let events = u16::from_ne_bytes(entry[4..6].try_into().expect("two bytes"));
            match process.table.get(fd as u64) {
                Some(file) => asked.push((fd, file.clone(), u32::from(events) | ERR | HUP)),
                None => pure &= fd < 0,
            }
        }
        let ready = self.show_all(call, &asked)?;
        if ready && pure {
            // The kernel's own answer is exact where a placeholder's may not be.
            let args = [call.args[0], count, 0, 0, 0, 0];
            return self.at_once(call, libc::SYS_poll, args);
        }
        self.pass(call)
    }

    /// select(2) and pselect6(2).
    pub(crate) fn select(&mut self, call: Notification) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&call.tid].pid];
        let count = call.args[0] as i32;
        if process.table.is_empty() || count <= 0 || count as u64 > MOST {
            return self.pass(call);
        }
        let words = (count as usize).div_ceil(64);
        let mut asked: Vec<Asked> = Vec::new();
        let mut pure = true;
        // Readable, writable, exceptional.
        for (set, events) in [(1, IN | HUP | ERR), (2, OUT | ERR), (3, PRI)] {
            if call.args[set] == 0 {
                continue;
            }
            self.scratch.resize(words * 8, 0);
            if !target::read(call.tid, call.args[set], &mut self.scratch) {
                return self.pass(call);
            }
            for fd in 0..count {
                if self.scratch[fd as usize / 8] & 1 << (fd % 8) == 0 {
                    continue;
                }
                match process.table.get(fd as u64) {
                    Some(file) => asked.push((fd, file.clone(), events)),
                    None => pure = false,
                }
            }
        }
        let ready = self.show_all(call, &asked)?;
        if ready && pure {
            let mut args = call.args;
            // No signal mask: the call won't wait.
            args[5] = 0;
            return self.at_once(call, call.nr, args);
        }
        self.pass(call)
    }

    /// epoll_ctl(2): from when it is in a set, a file's placeholder follows it.
    pub(crate) fn epoll_ctl(&mut self, call: Notification) -> Result<(), Error> {
        let process = &self.processes[&self.threads[&call.tid].pid];
        let file = match (process.table.get(call.args[2]), call.args[1] as i32) {
            (Some(file), libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD) => file.clone(),
            _ => return self.pass(call),
        };
        let mut events = [0; 4];
        if target::read(call.tid, call.args[3], &mut events)
            && u32::from_ne_bytes(events) & libc::EPOLLET as u32 != 0
        {
            file.edges.set(true);
        }
        file.epoll.set(true);
        self.show_all(call, &[(call.args[2] as i32, file, 0)])?;
        self.pass(call)
    }

    /// Makes the placeholders show the files' state. Whether any is as asked for.
    fn show_all(&mut self, call: Notification, asked: &[Asked]) -> Result<bool, Error> {
        if asked.is_empty() {
            return Ok(false);
        }
        let task = match self.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => return soften(error).map(|_| false),
        };
        let mut ready = false;
        for (number, file, wanted) in asked {
            let events = self.watch(task, *number, file)?;
            file.placeholder.show(events);
            ready |= events & wanted != 0;
        }
        Ok(ready)
    }

    /// Runs a call that won't wait on the program's memory.
    fn at_once(&mut self, call: Notification, nr: i64, args: [u64; 6]) -> Result<(), Error> {
        let busy = Busy {
            call,
            stage: Stage::Answer,
            file: None,
        };
        self.start(busy, nr, args, call.tid as u64, None)
    }
}
