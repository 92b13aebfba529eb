//! Which threads have no signal pending for sure: they need not be checked when they wait with
//! another signal mask (ppoll(2)), as event loops do again and again.
//!
//! The worker gets no event for a signal that is blocked. But the signal has a source: another
//! thread's call, a timer, a death, the thread's own call; each of these invalidates the cache. A
//! signal from outside is found a little later.

use vink_syscalls::{file_signals, FileSignals, FIOSETOWN, F_SETOWN_EX, SIOCSPGRP};

use super::Scheduler;
use crate::signal_poll::SignalPoll;
use crate::syscall_ctx::SyscallCtx;

impl Scheduler {
    /// Whether this is known of the calling thread.
    pub(super) fn has_no_pending_signal(&self, signals: &SignalPoll, call: SyscallCtx) -> bool {
        !self.any_file_signals && signals.is_without_signal(call.pid, call.tid)
    }

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
