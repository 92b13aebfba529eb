//! What `vink-sched` asks of threads and of the time, answered by the worker.

use std::fs;

use vink_sched::{Syscall, Times, Tracees};

use super::clocks::BOOTED;
use super::signals::{bit, Signals};
use super::VirtualWorker;
use crate::notification::Notification;
use crate::tracee;

impl From<Notification> for Syscall {
    fn from(call: Notification) -> Syscall {
        let Notification { id, tid, nr, args } = call;
        Syscall { id, tid, nr, args }
    }
}

impl VirtualWorker<'_> {
    /// What time it is for the call that is dispatched.
    pub(super) fn times_of_call(&self) -> Times {
        let now = self.worker.kernel.now();
        Times {
            now,
            monotonic: now + BOOTED,
            realtime: self.worker.kernel.date(now),
            resumed: self.worker.clock.sched().resumed_deadline,
        }
    }
}

impl Tracees for VirtualWorker<'_> {
    fn read(&self, tid: i32, address: u64, bytes: &mut [u8]) -> bool {
        tracee::read(tid, address, bytes)
    }

    fn write(&mut self, tid: i32, address: u64, bytes: &[u8]) -> bool {
        tracee::write(tid, address, bytes)
    }

    fn is_blocked(&self, tid: i32, call: u64) -> bool {
        self.worker.clock.sched().is_blocked(tid, call)
    }

    fn memory(&mut self, tid: i32) -> i32 {
        self.memory_of(self.worker.table.pid_of(tid))
    }

    fn maps(&self, tid: i32) -> String {
        let pid = self.worker.table.pid_of(tid);
        fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
    }

    fn thread_numbered(&self, pid: i32, number: i32) -> Option<i32> {
        tracee::thread_by_ns_pid(pid, number)
    }

    fn is_signal_pending(&self, pid: i32, tid: i32, signal: i32) -> bool {
        Signals::of(pid, tid).pending & bit(signal) != 0
    }
}
