//! The file holder: what a task of the kernel's has open of files on their way (`scm_rights`).

use std::rc::Rc;

use vink_kernel::{MachineId, TaskId};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::kernel_runner::KernelRunner;
use crate::reactor::{Reactor, Token};
use crate::tasks::Tasks;
use crate::tracee;
use crate::Error;

/// Has the files that are, or were, on their way.
struct FileHolder {
    task: TaskId,
    /// Its process in the kernel.
    pid: i64,
    files: Vec<HeldFile>,
    /// A file has lost one of those that had it since this was last looked after.
    dirty: bool,
}

struct HeldFile {
    /// With the holder's number.
    entry: Entry,
    /// No program is known to have it: the end of its placeholder is waited for.
    only_in_flight: bool,
}

/// Files on their way over unix sockets.
#[derive(Default)]
pub(crate) struct HeldFiles(Option<FileHolder>);

impl HeldFiles {
    /// Whether no file is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A file may have lost the last program that had it.
    pub(crate) fn mark_dirty(&mut self) {
        if let Some(holder) = &mut self.0 {
            holder.dirty = true;
        }
    }

    /// The file holder; `None` if the kernel can't make its task.
    fn holder(
        &mut self,
        kernel: &mut KernelRunner,
        machine: MachineId,
    ) -> Result<Option<&mut FileHolder>, Error> {
        if self.0.is_none() {
            let task = match kernel.task(machine) {
                Ok(task) => task,
                Err(error) => return to_errno_result(error).map(|_| None),
            };
            kernel.raise_nofile(task)?;
            let pid = kernel.run_call(task, libc::SYS_getpid, [0; 6])?;
            self.0 = Some(FileHolder {
                task,
                pid,
                files: Vec::new(),
                dirty: false,
            });
        }
        Ok(self.0.as_mut())
    }

    /// A thread of this machine is about to send a file.
    pub(crate) fn hold(
        &mut self,
        tasks: &mut Tasks,
        tid: i32,
        machine: MachineId,
        entry: Entry,
    ) -> Result<(), Error> {
        let is_it = |f: &HeldFile| Rc::ptr_eq(&f.entry.file, &entry.file);
        if self.0.as_ref().is_some_and(|h| h.files.iter().any(is_it)) {
            return Ok(());
        }
        let Ok(sender) = tasks.try_task_of(tid)? else {
            return Ok(());
        };
        let pid = tasks.kernel.run_call(sender, libc::SYS_getpid, [0; 6])?;
        let Some(holder) = self.holder(&mut tasks.kernel, machine)? else {
            return Ok(());
        };
        let copied = tasks.kernel.copy_from(holder.task, pid, entry.number);
        if let number @ 0.. = copied.or_else(to_errno_result)? {
            let (file, number) = (entry.file, number as i32);
            holder.files.push(HeldFile {
                entry: Entry { file, number },
                only_in_flight: false,
            });
        }
        Ok(())
    }

    /// If a thread's descriptor is unknown and a held file: a descriptor of its task's for the same
    /// file.
    pub(crate) fn adopt(
        &mut self,
        (tasks, reactor): (&mut Tasks, &Reactor),
        tid: i32,
        fd: i32,
    ) -> Result<Option<(TaskId, Entry)>, Error> {
        let Some(holder) = &mut self.0 else {
            return Ok(None);
        };
        if tasks.table.entry(tid, fd as u64).is_some() {
            return Ok(None);
        }
        let Some(found) = tracee::descriptor(tasks.table.pid_of(tid), fd) else {
            return Ok(None);
        };
        let is_it = |f: &&mut HeldFile| f.entry.file.placeholder.identity() == found;
        let Some(held) = holder.files.iter_mut().find(is_it) else {
            return Ok(None);
        };
        let Ok(task) = tasks.try_task_of(tid)? else {
            return Ok(None);
        };
        let there = held.entry.number;
        let copied = tasks.kernel.copy_from(task, holder.pid, there);
        let number = copied.or_else(to_errno_result)?;
        if number < 0 {
            return Ok(None);
        }
        let file = held.entry.file.clone();
        if std::mem::take(&mut held.only_in_flight) {
            if let Some(end) = tasks.table.borrow_descriptor(tid, fd as u64) {
                file.placeholder.set_received(end);
            }
            if let Some(end) = file.placeholder.worker_end() {
                reactor.remove(end);
            }
        }
        let number = number as i32;
        Ok(Some((task, Entry { file, number })))
    }

    /// If a held file has lost a user, releases those that no process and no message has any more.
    pub(crate) fn release(&mut self, tasks: &mut Tasks, reactor: &Reactor) -> Result<(), Error> {
        let Some(holder) = &mut self.0 else {
            return Ok(());
        };
        if !std::mem::take(&mut holder.dirty) {
            return Ok(());
        }
        // A placeholder that has hung up can't always tell that its other end is gone.
        let none_alive = tasks.programs.iter().all(|entry| entry.listener.is_none());
        let mut leaving = Vec::new();
        let mut to_watch = Vec::new();
        holder.files.retain_mut(|held| {
            let Entry { file, number } = &held.entry;
            if Rc::strong_count(file) > 1 {
                return true;
            }
            if !held.only_in_flight {
                held.only_in_flight = true;
                file.placeholder.set_in_flight();
                to_watch.extend(file.placeholder.worker_end());
            }
            let gone = none_alive || file.placeholder.is_gone();
            if gone {
                leaving.push(*number);
                to_watch.retain(|end| Some(*end) != file.placeholder.worker_end());
            }
            !gone
        });
        let (task, empty) = (holder.task, holder.files.is_empty());
        for end in to_watch {
            reactor.add(end, libc::EPOLLET as u32, Token::HeldFile)?;
        }
        if empty {
            self.0 = None;
            tasks.kernel.end_task(task, true);
            return Ok(());
        }
        for number in leaving {
            let args = [number as u64, 0, 0, 0, 0, 0];
            tasks.kernel.run_call(task, libc::SYS_close, args)?;
        }
        Ok(())
    }
}
