//! What the worker knows of each trapped process and thread, and of their descriptors.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use vink_kernel::{MachineId, Outcome, TaskId};

use crate::mirror::Placeholder;
use crate::notify::Notification;
use crate::Error;

/// An open Vink file: what several descriptors of several processes may share.
pub(crate) struct File {
    pub(crate) placeholder: Placeholder,
    /// The name of its watch in the kernel; 0 as long as nobody waits natively.
    pub(crate) cookie: Cell<u64>,
    /// Some epoll instance has it: the placeholder must follow every change at once.
    pub(crate) epoll: Cell<bool>,
    /// ... with `EPOLLET`: repeated edges must be shown too.
    pub(crate) edges: Cell<bool>,
}

impl File {
    pub(crate) fn new() -> Result<Rc<File>, Error> {
        Ok(File::of(Placeholder::new()?))
    }

    pub(crate) fn directory(path: &CStr) -> Result<Rc<File>, Error> {
        Ok(File::of(Placeholder::directory(path)?))
    }

    fn of(placeholder: Placeholder) -> Rc<File> {
        Rc::new(File {
            placeholder,
            cookie: Cell::new(0),
            epoll: Cell::new(false),
            edges: Cell::new(false),
        })
    }
}

/// Which descriptors of a process are Vink's.
#[derive(Clone, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Rc<File>>>,
    used: usize,
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// By a system call's argument, of which the low half counts.
    pub(crate) fn get(&self, argument: u64) -> Option<&Rc<File>> {
        self.slots.get(argument as u32 as usize)?.as_ref()
    }

    pub(crate) fn has(&self, number: i32) -> bool {
        self.get(number as u64).is_some()
    }

    pub(crate) fn insert(&mut self, number: i32, file: Rc<File>) {
        let index = number as u32 as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        if self.slots[index].replace(file).is_none() {
            self.used += 1;
        }
    }

    pub(crate) fn remove(&mut self, number: i32) -> Option<Rc<File>> {
        let file = self.slots.get_mut(number as u32 as usize)?.take()?;
        self.used -= 1;
        Some(file)
    }

    /// All numbers in use with their files, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &Rc<File>)> {
        let used = |(n, slot): (usize, &'_ Option<Rc<File>>)| -> Option<i32> {
            slot.is_some().then_some(n as i32)
        };
        let numbers = self.slots.iter().enumerate().filter_map(used);
        numbers.zip(self.slots.iter().flatten())
    }
}

/// A child that a trapped fork is about to make: its descriptors as they were at that instant.
pub(crate) struct Unborn {
    /// The thread that forks.
    pub(crate) parent: i32,
    pub(crate) table: Table,
    /// The kernel's copy; `None` if there was nothing to copy.
    pub(crate) task: Option<TaskId>,
}

/// One trapped process.
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    /// Index of the program it descends from.
    pub(crate) program: usize,
    pub(crate) machine: MachineId,
    pub(crate) table: Table,
    /// Its threads that made trapped calls.
    pub(crate) threads: Vec<i32>,
    /// It has, or had, more than one thread.
    pub(crate) threaded: bool,
    /// Its tasks in the kernel: of threads, and the spare one. If the table is not empty,
    /// there is one.
    pub(crate) tasks: Vec<TaskId>,
    /// A task for the next thread that needs one. A threaded process with tasks always has it,
    /// since a task can only be cloned while it has no call in progress.
    pub(crate) spare: Option<TaskId>,
    /// Kernel descriptors that had to give way before their owner's call was concluded: old, new.
    pub(crate) moved: Vec<(i32, i32)>,
    pub(crate) unborn: Vec<Unborn>,
    /// This thread's execve was let pass: descriptors and other threads may be gone.
    pub(crate) executing: Option<i32>,
    /// `unborn` or `executing` must be looked after at the next trapped call.
    pub(crate) attention: bool,
}

impl Process {
    /// The current number of what the kernel gave as descriptor `number`.
    pub(crate) fn moved_to(&mut self, number: i32) -> i32 {
        match self.moved.iter().position(|(old, _)| *old == number) {
            Some(index) => self.moved.swap_remove(index).1,
            None => number,
        }
    }
}

/// One thread that made a trapped call.
pub(crate) struct Thread {
    pub(crate) pid: i32,
    /// Its task in the kernel; made when first needed.
    pub(crate) task: Option<TaskId>,
    /// Its call in the kernel.
    pub(crate) busy: Option<Busy>,
    /// A later call, trapped while `busy` had not ended: a signal took the thread out of that one.
    pub(crate) queued: Option<Notification>,
    /// A call that ended when the thread had been taken out of it: for the same call, restarted.
    pub(crate) kept: Option<(Busy, Outcome)>,
}

impl Thread {
    pub(crate) fn new(pid: i32) -> Thread {
        Thread {
            pid,
            task: None,
            busy: None,
            queued: None,
            kept: None,
        }
    }
}

/// A call of a thread that the kernel works on.
pub(crate) struct Busy {
    pub(crate) call: Notification,
    pub(crate) stage: Stage,
    /// The file concerned: kept alive, and its readiness shown when the call is done.
    pub(crate) file: Option<Rc<File>>,
}

/// What to do with the kernel's result.
pub(crate) enum Stage {
    /// It is the program's.
    Answer,
    /// It is a descriptor of the kernel's, for which the program needs a placeholder.
    Descriptor { cloexec: bool },
    /// A descriptor has been closed: close the rest, then go on.
    Close { rest: Vec<i32>, then: Then },
    /// A piece of a file has been sent.
    Sendfile(Box<Sendfile>),
}

/// How to go on after closing.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// Let the host do the call as well.
    Pass,
    /// Look at the call again.
    Dispatch,
}

/// A sendfile(2) from a host file to a Vink file.
pub(crate) struct Sendfile {
    /// The host file: the same open file as the program's.
    pub(crate) source: OwnedFd,
    /// Where in it the call started.
    pub(crate) base: i64,
    /// The program's offset variable; 0: the file's own offset counts.
    pub(crate) pointer: u64,
    /// Bytes sent.
    pub(crate) done: u64,
    /// Bytes to send.
    pub(crate) left: u64,
    /// The piece under way.
    pub(crate) piece: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let mut table = Table::default();
        assert!(table.is_empty() && !table.has(3) && !table.has(-1));
        let (a, b) = (File::new().unwrap(), File::new().unwrap());
        table.insert(7, a.clone());
        table.insert(3, b.clone());
        table.insert(3, a.clone());
        assert!(table.has(3) && table.has(7) && !table.has(4));
        assert!(table.get(0xffff_ffff_0000_0003).is_some());
        let copy = table.clone();
        assert_eq!(Rc::strong_count(&a), 5);
        assert!(table.remove(3).is_some() && table.remove(3).is_none());
        let numbers = |t: &Table| t.iter().map(|(n, _)| n).collect::<Vec<_>>();
        assert_eq!(numbers(&table), [7]);
        assert_eq!(numbers(&copy), [3, 7]);
        table.remove(7);
        assert!(table.is_empty() && !copy.is_empty());
        assert_eq!(Rc::strong_count(&b), 1);
    }
}
