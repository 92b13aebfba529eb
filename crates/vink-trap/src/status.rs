//! How programs and processes end.

use std::os::fd::OwnedFd;

use vink_sys::pidfd::child_event;
use vink_sys::poll::is_readable;

/// How a program ended; see wait(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Status {
    /// Of what wait(2) tells.
    pub(crate) fn of(status: i32) -> Status {
        match libc::WIFEXITED(status) {
            true => Status::Exited(libc::WEXITSTATUS(status)),
            false => Status::Killed(libc::WTERMSIG(status)),
        }
    }

    /// As a shell gives it: the exit status, or 128 + the signal.
    pub fn code(self) -> i32 {
        match self {
            Status::Exited(status) => status,
            Status::Killed(signal) => 128 + signal,
        }
    }
}

/// Takes the status of a dead child; `None` if it is another process's child, or not dead.
pub(crate) fn reap(pidfd: &OwnedFd) -> Option<Status> {
    let event = child_event(pidfd, libc::WEXITED)?;
    Some(match event.code {
        libc::CLD_EXITED => Status::Exited(event.status),
        _ => Status::Killed(event.status),
    })
}

/// Waits for a process that has been killed.
pub(crate) fn wait_for_end(pidfd: &OwnedFd) {
    // A killed process that does not go (it may hang in a driver) must not hold us up for ever.
    is_readable(pidfd, 1000);
}
