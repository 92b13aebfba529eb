//! What the worker knows of each trapped process and thread, and of their descriptors.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use vink_kernel::{MachineId, TaskId};

use crate::mapped_ring::Lent;
use crate::networks::NetnsId;
use crate::placeholder::Placeholder;
use crate::process_ring::ProcessRing;
use crate::signal_poll::PendingCall;
use crate::syscall_ctx::SyscallCtx;
use crate::transfer::{Sendfile, Splice};
use crate::Error;

/// What a file is, as far as calls on it differ.
pub(crate) enum FileKind {
    /// A socket, or another one whose calls are the kernel's as they are.
    Plain,
    /// An rtnetlink socket.
    Rtnetlink,
    /// One of the machine's own files, of which the kernel knows more than the placeholder shows.
    Procfs,
    /// ... whose contents the placeholder is a copy of: the same for writing.
    Copy(fs::File),
}

/// An open Vink file: what several descriptors of several processes may share.
pub(crate) struct File {
    pub(crate) placeholder: Placeholder,
    pub(crate) kind: FileKind,
    /// The name of its watch in the kernel; 0 as long as no thread waits on the host.
    pub(crate) cookie: Cell<u64>,
    /// Some epoll instance may have it: the placeholder must follow every change at once.
    pub(crate) mirrors_edges: Cell<bool>,
    /// It has, or had, an owner or `O_ASYNC`: what it shows may be a signal.
    pub(crate) owned: Cell<bool>,
    /// In virtual time: it is a timer by this clock, or tells when that began (`/proc/uptime`,
    /// `/proc/stat`).
    pub(crate) timer: Cell<i32>,
}

impl File {
    /// Of descriptors below `below`.
    pub(crate) fn new(below: i32) -> Result<Rc<File>, Error> {
        File::of_kind(below, FileKind::Plain)
    }

    /// The same of another kind.
    pub(crate) fn of_kind(below: i32, kind: FileKind) -> Result<Rc<File>, Error> {
        Ok(File::of(Placeholder::new(below)?, kind))
    }

    pub(crate) fn directory(pid: i32, path: &CStr) -> Result<Rc<File>, Error> {
        Ok(File::of(
            Placeholder::directory(pid, path)?,
            FileKind::Procfs,
        ))
    }

    /// `copy` has the contents, and `readable` is the same file opened for reading.
    pub(crate) fn copied(copy: fs::File, readable: OwnedFd) -> Rc<File> {
        File::of(Placeholder::fixed(readable), FileKind::Copy(copy))
    }

    /// Whether it is one of the machine's own files.
    pub(crate) fn is_procfs(&self) -> bool {
        matches!(self.kind, FileKind::Procfs | FileKind::Copy(_))
    }

    /// What the placeholder is a copy of, to write to it.
    pub(crate) fn copy(&self) -> Option<&fs::File> {
        match &self.kind {
            FileKind::Copy(copy) => Some(copy),
            _ => None,
        }
    }

    fn of(placeholder: Placeholder, kind: FileKind) -> Rc<File> {
        Rc::new(File {
            placeholder,
            kind,
            cookie: Cell::new(0),
            mirrors_edges: Cell::new(false),
            owned: Cell::new(false),
            timer: Cell::new(-1),
        })
    }
}

/// What a Vink descriptor of a program is.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) file: Rc<File>,
    /// The kernel's descriptor of it, in the same process's table there. It differs from the
    /// program's: accept(2) takes its number before it waits, so the kernel's numbers can't be made
    /// to follow the host's.
    pub(crate) number: i32,
}

impl Entry {
    /// The kernel's number, if its readiness must be read after a call on it.
    pub(crate) fn poll_fd(&self) -> Option<i32> {
        self.file.mirrors_edges.get().then_some(self.number)
    }
}

/// Which descriptors of a process are Vink's. Processes made with `CLONE_FILES` share one.
#[derive(Default)]
pub(crate) struct FdTable(Rc<RefCell<Slots>>);

#[derive(Clone, Default)]
struct Slots {
    entries: Vec<Option<Entry>>,
    used: usize,
    may_have_received: bool,
    mirrors_edges: bool,
    /// Others than the library may wait at epoll instances of it: another process, or the program
    /// by itself.
    seen_by_others: bool,
    /// The ring of the one process that has this table.
    ring: Option<Rc<ProcessRing>>,
}

impl FdTable {
    /// Another table with the same descriptors.
    pub(crate) fn copy(&self) -> FdTable {
        let mut slots = self.0.borrow_mut();
        slots.seen_by_others |= slots.mirrors_edges;
        for entry in slots.entries.iter().flatten() {
            entry.file.placeholder.share();
        }
        let mut copy = slots.clone();
        if let Some(ring) = copy.ring.take().filter(|_| slots.seen_by_others) {
            ring.forbid_stale();
        }
        FdTable(Rc::new(RefCell::new(copy)))
    }

    /// The same table, for another process.
    pub(crate) fn share(&self) -> FdTable {
        self.close_ring();
        FdTable(self.0.clone())
    }

    /// The process's ring, if it has one.
    pub(crate) fn ring(&self) -> Option<Rc<ProcessRing>> {
        self.0.borrow().ring.clone()
    }

    pub(crate) fn set_ring(&self, ring: Rc<ProcessRing>) {
        self.0.borrow_mut().ring = Some(ring);
    }

    /// The process is to post nothing any more.
    pub(crate) fn close_ring(&self) {
        if let Some(ring) = self.0.borrow_mut().ring.take() {
            ring.close();
        }
    }

    /// Whether another process has it too, or will have it.
    pub(crate) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Whether the two are the same.
    pub(crate) fn is(&self, other: &FdTable) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// recvmsg(2) on a host file was called: there may be Vink files that are not in here yet.
    pub(crate) fn set_may_have_received(&self) {
        self.0.borrow_mut().may_have_received = true;
    }

    pub(crate) fn may_have_received(&self) -> bool {
        self.0.borrow().may_have_received
    }

    /// An epoll instance was made, and may be among the host's: all files are followed. What it
    /// gets is the host's business alone.
    pub(crate) fn set_mirrors_edges(&self) {
        self.0.borrow_mut().mirrors_edges = true;
    }

    pub(crate) fn mirrors_edges(&self) -> bool {
        self.0.borrow().mirrors_edges
    }

    /// Others than the library may wait at an epoll instance.
    pub(crate) fn set_seen_by_others(&self) {
        let mut slots = self.0.borrow_mut();
        slots.seen_by_others = true;
        if let Some(ring) = &slots.ring {
            ring.forbid_stale();
        }
    }

    pub(crate) fn is_seen_by_others(&self) -> bool {
        self.0.borrow().seen_by_others
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().used
    }

    /// By a system call's argument, of which the low half counts.
    pub(crate) fn get(&self, argument: u64) -> Option<Entry> {
        let slots = self.0.borrow();
        slots.entries.get(argument as u32 as usize)?.clone()
    }

    /// All of them.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.borrow().entries.iter().flatten().cloned().collect()
    }

    /// What the number was before.
    pub(crate) fn insert(&self, fd: i32, entry: Entry) -> Option<Entry> {
        let mut slots = self.0.borrow_mut();
        let index = fd as u32 as usize;
        if slots.entries.len() <= index {
            slots.entries.resize(index + 1, None);
        }
        let old = slots.entries[index].replace(entry);
        slots.used += usize::from(old.is_none());
        if let Some(ring) = &slots.ring {
            match &old {
                Some(old) => close(ring, fd, old),
                // It may be in use already: the call that has made it is not waited for.
                None => ring.forget_file(fd),
            }
        }
        old
    }

    pub(crate) fn remove(&self, fd: i32) -> Option<Entry> {
        let mut slots = self.0.borrow_mut();
        let entry = slots.entries.get_mut(fd as u32 as usize)?.take()?;
        slots.used -= 1;
        if let Some(ring) = &slots.ring {
            close(ring, fd, &entry);
        }
        Some(entry)
    }

    /// Removes those of which the program's number and the entry satisfy the condition.
    pub(crate) fn remove_if(&self, condition: impl Fn(i32, &Entry) -> bool) -> Vec<Entry> {
        let mut slots = self.0.borrow_mut();
        let mut removed = Vec::new();
        let ring = slots.ring.clone();
        for (fd, slot) in slots.entries.iter_mut().enumerate() {
            if let Some(entry) = slot.take_if(|e| condition(fd as i32, e)) {
                if let Some(ring) = &ring {
                    close(ring, fd as i32, &entry);
                }
                removed.push(entry);
            }
        }
        slots.used -= removed.len();
        removed
    }
}

/// A number with a ring is not this file's any more.
fn close(ring: &Rc<ProcessRing>, fd: i32, entry: &Entry) {
    ring.close_file(fd);
    entry.file.unpublish(ring, fd);
}

/// A child that a trapped fork is about to make: its descriptors as they were at that instant.
pub(crate) struct PendingFork {
    /// The thread that forks.
    pub(crate) parent: i32,
    pub(crate) table: FdTable,
    /// The kernel's copy; `None` if there was nothing to copy.
    pub(crate) task: Option<TaskId>,
    /// As [`Thread::network`], of the thread that forks.
    pub(crate) network: Option<NetnsId>,
    /// The child begins in a network namespace of its own.
    pub(crate) new_netns: bool,
    /// As [Process::cwd_in_procfs].
    pub(crate) cwd_in_procfs: bool,
}

/// One trapped process.
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    /// Index of the program it descends from.
    pub(crate) program: usize,
    pub(crate) machine: MachineId,
    pub(crate) table: FdTable,
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
    pub(crate) pending_forks: Vec<PendingFork>,
    /// This thread's execve passed through: descriptors and other threads may be gone.
    pub(crate) executing: Option<i32>,
    /// It has been in one of the machine's own directories: any relative path may lead to its
    /// files.
    pub(crate) cwd_in_procfs: bool,
    /// A descriptor of it is its ring's file for now.
    pub(crate) lent_ring: Option<Lent>,
    /// `pending_forks`, `executing`, `lent_ring` or `may_change_netns` must be looked after at the next trapped call.
    pub(crate) needs_update: bool,
    /// A thread of it has been in another network namespace than the machine's.
    pub(crate) has_changed_netns: bool,
    /// Threads that may be in another one now.
    pub(crate) may_change_netns: Vec<i32>,
}

/// One thread that made a trapped call.
pub(crate) struct Thread {
    pub(crate) pid: i32,
    /// Its task in the kernel; made when first needed.
    pub(crate) task: Option<TaskId>,
    /// The network namespace that it moved to, by the host's; `None`: its machine's.
    pub(crate) network: Option<NetnsId>,
    /// The task has the machine's sysfs mounted.
    pub(crate) has_sysfs: bool,
    /// Its call in the kernel.
    pub(crate) pending: Option<PendingCall>,
    /// ... or one that waits for another thread's exec to fail.
    pub(crate) suspended: Option<PendingCall>,
    /// Of placeholders that its last call closes for good: the worker's ends. See
    /// [`Placeholder::release`].
    pub(crate) closing: Vec<OwnedFd>,
}

impl Thread {
    pub(crate) fn new(pid: i32) -> Thread {
        Thread {
            pid,
            task: None,
            network: None,
            has_sysfs: false,
            pending: None,
            suspended: None,
            closing: Vec::new(),
        }
    }
}

/// A call of a thread that the kernel works on.
pub(crate) struct InFlight {
    pub(crate) call: SyscallCtx,
    pub(crate) continuation: Continuation,
    /// The file concerned: kept alive, and its readiness shown when the call is done.
    pub(crate) file: Option<Rc<File>>,
}

/// What to do with the kernel's result.
pub(crate) enum Continuation {
    /// It is the program's.
    Answer,
    /// The host does the same, unless it is an error.
    HostToo,
    /// It is a descriptor of the kernel's, for which the program needs a placeholder.
    Descriptor { cloexec: bool },
    /// A descriptor has been closed: close the rest, then go on.
    Close { rest: Vec<Entry>, then: AfterClose },
    /// A piece of a file has been sent.
    Sendfile(Box<Sendfile>),
    /// A step of a splice(2) is done.
    Splice(Box<Splice>),
    /// It is for the thread that has posted the call.
    Posted {
        ring: Rc<ProcessRing>,
        slot: usize,
        /// The call as it was posted would wait, if the file does.
        may_wait: bool,
        /// It was a deferred send: no thread waits for the answer.
        is_deferred: bool,
    },
}

/// How to go on after closing.
#[derive(Clone, Copy)]
pub(crate) enum AfterClose {
    /// Let the host do the call as well.
    Passthrough,
    /// Dispatch the call again.
    Dispatch,
    /// This is the result.
    Answer(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let table = FdTable::default();
        assert!(table.is_empty() && table.get(3).is_none() && table.get(u64::MAX).is_none());
        let (a, b) = (File::new(i32::MAX).unwrap(), File::new(i32::MAX).unwrap());
        let entry = |file: &Rc<File>, number| Entry {
            file: file.clone(),
            number,
        };
        assert!(table.insert(7, entry(&a, 0)).is_none());
        assert!(table.insert(3, entry(&b, 1)).is_none());
        assert_eq!(table.insert(3, entry(&a, 2)).unwrap().number, 1);
        assert_eq!(table.get(0xffff_ffff_0000_0003).unwrap().number, 2);
        let copy = table.copy();
        assert_eq!((Rc::strong_count(&a), Rc::strong_count(&b)), (5, 1));
        let shared = table.share();
        assert!(table.is_shared() && shared.is(&table) && !copy.is(&table) && !copy.is_shared());
        assert!(table.remove(3).is_some() && shared.remove(3).is_none());
        assert!(!table.is_empty());
        shared.remove(7);
        assert!(table.is_empty());
        assert_eq!((copy.entries().len(), table.entries().len()), (2, 0));
        let removed = copy.remove_if(|fd, entry| fd == 7 && entry.number == 0);
        assert_eq!((removed.len(), copy.get(7).is_none()), (1, true));
        assert_eq!(copy.remove_if(|_, _| true).len(), 1);
        assert!(copy.is_empty());
    }
}
