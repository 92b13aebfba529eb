//! What a user of a kernel names and hands over: machines, tasks, calls, outcomes, events.

use std::fmt;

/// One machine of a kernel. Only valid with the kernel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MachineId(pub(crate) u64);

impl MachineId {
    /// The image's number for it, as [`vink_abi::VINK_CALL_MACHINE_FD`] wants it.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One task of a kernel. Never used again for another one; only valid with the kernel that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub(crate) u64);

impl TaskId {
    /// The image's own control task; users never see it.
    pub(crate) const CONTROL: TaskId = TaskId(0);

    /// A number that is unique within the kernel, for logs.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What [`Kernel::clone_task`](crate::Kernel::clone_task) makes; see clone(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneKind {
    /// As fork(2): a copy of the descriptor table.
    Process,
    /// As `CLONE_THREAD | CLONE_FILES`: same thread group and descriptors.
    Thread,
    /// As `CLONE_FILES` alone: another thread group, the same descriptors.
    SharedFiles,
}

/// A system call of a remote task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// `libc::SYS_*`, or a `vink_abi::VINK_CALL_*` (whose pointers are always the caller's own
    /// memory).
    pub nr: i64,
    /// The arguments.
    pub args: [u64; 6],
    /// Whose memory the pointers among them are in: 0, this process, or a process id, which is
    /// reached with process_vm_readv(2). They must be valid until the call is done.
    pub space: u64,
    /// Also report this descriptor's readiness afterwards, in [`Outcome::events`].
    pub poll_fd: Option<i32>,
    /// For posted calls.
    pub send_mode: SendMode,
}

/// Whether a call is a deferred send, or reports send credit; see `VINK_FLAG_DEFERRED` and
/// `VINK_FLAG_CREDIT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendMode {
    /// Neither.
    #[default]
    Ordinary,
    /// [`Outcome::credit`] of [`Call::poll_fd`].
    ReportCredit,
    /// The same, of a deferred send: the program has been told already that it succeeded.
    Deferred,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// As from the system call instruction: `-errno` on failure.
    pub result: i64,
    /// Signals that the kernel sent to the task meanwhile; bit n-1 stands for signal n.
    pub signals: u64,
    /// `-EINTR` stands for `-ERESTART*`: after a signal, `SA_RESTART` handlers start the call
    /// again.
    pub restart: bool,
    /// The `EPOLL*` mask of [`Call::poll_fd`]; `None` if that was `None`.
    pub events: Option<u32>,
    /// Bytes that a send on [`Call::poll_fd`], a TCP socket, can't fail to take, if nothing else
    /// is done there before; `None` if that was not asked for.
    pub credit: Option<u32>,
}

/// Something that happened while the kernel ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task's call is done: [`Kernel::poll`](crate::Kernel::poll) gives its outcome.
    Done(TaskId),
    /// A watched file ([`vink_abi::VINK_CALL_WATCH`]) has become ready.
    Ready {
        /// As given to the watch.
        cookie: u64,
        /// `EPOLL*`.
        events: u32,
    },
    /// The task is gone, its descriptors closed.
    Gone {
        /// The task.
        task: TaskId,
        /// As in wait(2).
        status: i32,
    },
}
