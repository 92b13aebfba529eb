//! A cache of what is known of a process's descriptors, since programs poll, read and write the
//! same ones again and again: by thread what it has polled last, by process what data was moved to
//! or from.
//!
//! A copy of a descriptor keeps its file open, so none is kept across a call that may close the
//! descriptor or make it another file's, nor for processes that share their descriptors.

use super::host_fds::{CachedFd, PolledFd};
use super::{Scheduler, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;
use vink_syscalls::{kind, Kind};

/// So many files that data was moved to or from are kept of a process.
const MAX_CACHED: usize = 32;

impl VirtualWorker<'_> {
    /// The thread's wait is over.
    pub(super) fn cache_polled(&mut self, tid: i32, mut polled: Vec<PolledFd>) {
        let pid = self.worker.table.find_pid(tid);
        if polled.is_empty() || pid.is_none_or(|pid| self.table.fd_table(pid).is_shared()) {
            return;
        }
        let sched = self.worker.clock.sched_mut();
        sched.polled_fds.entry(tid).or_default().append(&mut polled);
    }

    /// What is kept of a file that data was moved to or from.
    pub(super) fn cached_fd(&self, tid: i32, number: u32) -> Option<CachedFd> {
        let sched = self.worker.clock.sched();
        let polled = sched.cached_fds.get(&self.worker.table.pid_of(tid))?;
        polled
            .iter()
            .find(|cached| cached.number == number)
            .cloned()
    }

    /// Data is moved to or from this.
    pub(super) fn cache_fd(&mut self, tid: i32, cached: &CachedFd) {
        let pid = self.worker.table.pid_of(tid);
        if self.table.fd_table(pid).is_shared() {
            return;
        }
        let sched = self.worker.clock.sched_mut();
        let polled = sched.cached_fds.entry(pid).or_default();
        if polled.len() == MAX_CACHED {
            polled.remove(0);
        }
        polled.push(cached.clone());
    }

    /// Before a call that may change what the process has open.
    pub(super) fn invalidate_fd_cache(&mut self, call: SyscallCtx) {
        let closed = match kind(call.nr) {
            Kind::Close => Some(call.args[0] as u32),
            Kind::Dup2 | Kind::Dup3 => Some(call.args[1] as u32),
            Kind::CloseRange
            | Kind::Fork
            | Kind::Clone
            | Kind::Clone3
            | Kind::Exec
            | Kind::Unshare => None,
            _ => return,
        };
        let pid = call.pid;
        self.unmark_pipes(pid, closed);
        let sched = self.worker.clock.sched_mut();
        if let Some(cached) = sched.cached_fds.get_mut(&pid) {
            cached.retain(|cached| closed.is_some_and(|closed| closed != cached.number));
        }
        if sched.polled_fds.is_empty() && sched.last_polls.is_empty() {
            return;
        }
        for tid in self.worker.table.threads_of(pid) {
            sched.last_polls.remove(tid);
            if let Some(polled) = sched.polled_fds.get_mut(tid) {
                polled.retain(|polled| closed.is_some_and(|closed| closed != polled.number()));
            }
        }
    }
}

impl Scheduler {
    /// What is kept of the thread's last wait.
    pub(super) fn take_polled(&mut self, tid: i32) -> Vec<PolledFd> {
        self.polled_fds.remove(&tid).unwrap_or_default()
    }

    /// What is kept of waits for this.
    pub(super) fn take_polled_fd(
        &mut self,
        tid: i32,
        number: u64,
        events: i16,
    ) -> Option<PolledFd> {
        let polled = self.polled_fds.get_mut(&tid)?;
        let index = polled.iter().position(|polled| polled.is(number, events))?;
        Some(polled.swap_remove(index))
    }
}
