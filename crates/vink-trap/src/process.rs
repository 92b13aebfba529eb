//! What the worker knows of each trapped process and thread.

use std::os::fd::OwnedFd;

use vink_kernel::{MachineId, TaskId};

use crate::fd_table::FdTable;
use crate::mapped_ring::Lent;
use crate::networks::NetnsId;
use crate::signal_poll::PendingCall;

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
    /// How many trapped calls it has made without a ring that would have had use for one.
    pub(crate) calls_without_ring: u32,
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
