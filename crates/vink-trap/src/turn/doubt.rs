//! Which threads have no signal pending for sure: they need not be looked at when they wait with another signal mask
//! (ppoll(2)), as event loops do again and again.
//!
//! Nobody tells the worker of a signal that is blocked. But it comes from somewhere: another thread's call, a timer, a death,
//! the thread's own call; all of these end the certainty. What comes from outside is found a little later.

use crate::calls::F_SETOWN_EX;
use crate::notify::Notification;
use crate::worker::Worker;

/// Of `<asm-generic/sockios.h>`.
const FIOSETOWN: libc::c_ulong = 0x8901;
const SIOCSPGRP: libc::c_ulong = 0x8902;

impl Worker {
    /// Whether this is known of a thread.
    pub(super) fn has_no_signals(&self, tid: i32) -> bool {
        let turn = self.turn.as_ref().expect("virtual time");
        !turn.file_signals && self.pulse.is_certain(self.threads[&tid].pid, tid)
    }

    /// Before a call: it may ask for signals that come with other calls than those that send them.
    pub(super) fn look_for_file_signals(&mut self, call: Notification) {
        let asks = match (call.nr, call.args[1] as i32) {
            (libc::SYS_fcntl, libc::F_SETFL) => call.args[2] & libc::O_ASYNC as u64 != 0,
            (libc::SYS_fcntl, command) => matches!(
                command,
                libc::F_SETOWN | F_SETOWN_EX | libc::F_SETLEASE | libc::F_NOTIFY
            ),
            (libc::SYS_ioctl, request) => matches!(
                request as u32 as libc::c_ulong,
                libc::FIOASYNC | FIOSETOWN | SIOCSPGRP
            ),
            (libc::SYS_mq_notify, _) => true,
            _ => false,
        };
        if asks {
            self.turn.as_mut().expect("virtual time").file_signals = true;
        }
    }

    /// The host does a call, which may send somebody a signal.
    pub(super) fn doubt_after(&mut self, call: Notification) {
        let sends_none = matches!(
            call.nr,
            libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev
        );
        if !sends_none {
            self.pulse.doubt_all();
        }
    }
}
