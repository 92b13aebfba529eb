//! Programs that ask again and again whether they may send or receive yet, instead of waiting (`EAGAIN`).
//!
//! Each such call takes the worker's time, which whoever they wait for needs too. So a thread that makes the same call a
//! second time in vain is let wait for its file in the kernel, for [`LONGEST`] at most; then the call is made once more, and
//! what it gives is the answer. The host's scheduler does the same to it, at any time.

use crate::notify::Notification;
use crate::process::{Busy, Stage};
use crate::serve::{poll_fd, EAGAIN};
use crate::worker::Worker;
use crate::Error;

/// For how long a call may be held, in ns.
const LONGEST: i64 = 100_000;

/// A thread's last call that was made in vain.
#[derive(Default)]
pub(crate) struct Vain {
    /// Its number and its descriptor.
    call: (i64, u64),
    count: u32,
}

/// What ppoll(2) is about: it must stay where it is until that is done.
pub(crate) struct Lull {
    file: libc::pollfd,
    limit: libc::timespec,
}

impl Vain {
    /// A call of the thread begins.
    pub(crate) fn call(&mut self, call: Notification) {
        if self.count > 0 && self.call != (call.nr, call.args[0]) {
            self.count = 0;
        }
    }

    /// This one was made in vain. Whether it was not the first one.
    fn count(&mut self, call: Notification) -> bool {
        self.call = (call.nr, call.args[0]);
        self.count += 1;
        self.count > 1
    }
}

/// What a call on a file waits for, if it can be in vain.
fn wanted(nr: i64) -> Option<i16> {
    match nr {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
            Some(libc::POLLIN)
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => {
            Some(libc::POLLOUT)
        }
        _ => None,
    }
}

impl Worker {
    /// Whether a call that was made in vain had better wait a little.
    pub(crate) fn is_idle_talk(&mut self, call: Notification) -> bool {
        // In virtual time, waiting is what changes things: see `watchdog`.
        let thread = self.threads.get_mut(&call.tid);
        self.turn.is_none()
            && wanted(call.nr).is_some()
            && thread.is_some_and(|thread| thread.vain.count(call))
    }

    /// Lets the call wait.
    pub(crate) fn lull(&mut self, call: Notification) -> Result<(), Error> {
        let Some(entry) = self.table_of(call.tid).get(call.args[0]) else {
            return self.answer(call, EAGAIN);
        };
        let mut lull = Box::new(Lull {
            file: libc::pollfd {
                fd: entry.number,
                events: wanted(call.nr).expect("looked at"),
                revents: 0,
            },
            limit: libc::timespec {
                tv_sec: 0,
                tv_nsec: LONGEST,
            },
        });
        let at = [&raw mut lull.file as u64, &raw mut lull.limit as u64];
        let busy = Busy {
            call,
            stage: Stage::Lull { _about: lull },
            file: Some(entry.file.clone()),
        };
        self.start(
            busy,
            libc::SYS_ppoll,
            [at[0], 1, at[1], 0, 0, 0],
            0,
            poll_fd(&entry),
        )
    }

    /// It has waited: with this result of ppoll(2).
    pub(crate) fn lulled(&mut self, call: Notification, result: i64) -> Result<(), Error> {
        self.threads.get_mut(&call.tid).expect("concluded").vain = Vain::default();
        match result {
            1 => self.dispatch(call),
            _ => self.answer(call, EAGAIN),
        }
    }
}
