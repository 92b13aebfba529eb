//! What `vink-sched` asks of threads and of the time, answered by the worker.

use std::fs;

use vink_kernel::{Kernel, Numbered};
use vink_sched::{Syscall, Times, Tracees};

use super::determinism::uptime::BOOTED;
use super::signals::{bit, Signals};
use super::{BlockedThread, Scheduler};
use crate::notification::Notification;
use crate::process_table::ProcessTable;
use crate::tracee;

impl From<Notification> for Syscall {
    fn from(call: Notification) -> Syscall {
        let Notification { id, tid, nr, args } = call;
        Syscall { id, tid, nr, args }
    }
}

impl Scheduler {
    /// What time it is for the call that is dispatched.
    pub(super) fn times_of_call(&self, kernel: &Kernel) -> Times {
        let now = kernel.now();
        Times {
            now,
            monotonic: now + BOOTED,
            realtime: kernel.date(now),
            resumed: self.resumed_deadline,
        }
    }
}

/// Processes that share their memory (vfork(2), `CLONE_VM`).
#[derive(Default)]
pub(super) struct Memories {
    /// After which process the memory of one is named.
    known: Numbered<i32, i32>,
}

impl Memories {
    /// After which process the memory of this one is named.
    fn of(&mut self, table: &ProcessTable, pid: i32) -> i32 {
        if let Some(memory) = self.known.get(&pid) {
            return *memory;
        }
        let parent = tracee::tgid_and_ppid(pid).map_or(0, |(_, parent)| parent);
        let memory = match table.has_process(parent) && tracee::share_memory(pid, parent) {
            true => self.of(table, parent),
            false => pid,
        };
        self.known.insert(pid, memory);
        memory
    }

    /// The process is gone, or its memory is another.
    pub(super) fn forget(&mut self, pid: i32) {
        self.known.remove(&pid);
    }
}

/// The threads that decisions are about.
pub(super) struct Threads<'a> {
    pub(super) table: &'a ProcessTable,
    pub(super) blocked: &'a Numbered<i32, BlockedThread>,
    pub(super) memories: &'a mut Memories,
}

impl Tracees for Threads<'_> {
    fn read(&self, tid: i32, address: u64, bytes: &mut [u8]) -> bool {
        tracee::read(tid, address, bytes)
    }

    fn write(&mut self, tid: i32, address: u64, bytes: &[u8]) -> bool {
        tracee::write(tid, address, bytes)
    }

    fn is_blocked(&self, tid: i32, call: u64) -> bool {
        let blocked = self.blocked.get(&tid);
        blocked.is_some_and(|blocked| blocked.waits_in(call))
    }

    fn memory(&mut self, tid: i32) -> i32 {
        self.memories.of(self.table, self.table.pid_of(tid))
    }

    fn maps(&self, tid: i32) -> String {
        let pid = self.table.pid_of(tid);
        fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
    }

    fn thread_numbered(&self, pid: i32, number: i32) -> Option<i32> {
        tracee::thread_by_ns_pid(pid, number)
    }

    fn is_signal_pending(&self, pid: i32, tid: i32, signal: i32) -> bool {
        Signals::of(pid, tid).pending & bit(signal) != 0
    }
}
