//! Which threads have no signal pending for sure: they need not be checked when they wait with
//! another signal mask (ppoll(2)), as event loops do again and again.
//!
//! The worker gets no event for a signal that is blocked. But the signal has a source: another
//! thread's call, a timer, a death, the thread's own call; each of these invalidates the cache. A
//! signal from outside is found a little later.

use vink_syscalls::{file_signals, is_plain_io, FileSignals, FIOSETOWN, F_SETOWN_EX, SIOCSPGRP};

use super::{Scheduler, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;

impl VirtualWorker<'_> {
    /// Whether this is known of a thread.
    pub(super) fn has_no_pending_signal(&self, tid: i32) -> bool {
        let sched = self.worker.clock.sched();
        !sched.any_file_signals
            && self
                .worker
                .signals
                .is_without_signal(self.worker.table.pid_of(tid), tid)
    }

    /// The host does a call, which may send signals.
    pub(super) fn invalidate_signals_after(&mut self, call: SyscallCtx) {
        if !is_plain_io(call.nr) {
            self.worker.signals.invalidate_all();
        }
    }
}

impl Scheduler {
    /// Before a call: it may ask for signals that come with other calls than those that send them.
    pub(super) fn note_file_signals(&mut self, call: SyscallCtx) {
        let [_, command, argument, ..] = call.args;
        let asks = match file_signals(call.nr) {
            FileSignals::Never => false,
            FileSignals::Always => true,
            FileSignals::Fcntl => match command as i32 {
                libc::F_SETFL => argument & libc::O_ASYNC as u64 != 0,
                libc::F_SETOWN | F_SETOWN_EX | libc::F_SETLEASE | libc::F_NOTIFY => true,
                _ => false,
            },
            FileSignals::Ioctl => {
                let request = command as u32;
                [libc::FIOASYNC as u32, FIOSETOWN, SIOCSPGRP].contains(&request)
            }
        };
        if asks {
            self.any_file_signals = true;
        }
    }
}
