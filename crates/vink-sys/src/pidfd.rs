//! Processes by descriptors (pidfd_open(2)): they can't become another's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::null;

use crate::process::{waitid, ChildEvent};
use crate::{done, owned};

/// `PIDFD_THREAD`, since Linux 6.9.
const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

/// A descriptor of a process.
///
/// # Errors
/// As pidfd_open(2).
pub fn open(pid: i32) -> io::Result<OwnedFd> {
    open_with(pid, 0)
}

/// A descriptor of a thread, readable when that has ended.
///
/// # Errors
/// As pidfd_open(2); `InvalidInput` before Linux 6.9, unless it leads its process.
pub fn open_thread(tid: i32) -> io::Result<OwnedFd> {
    open_with(tid, PIDFD_THREAD)
}

fn open_with(pid: i32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor that nothing else owns.
    unsafe { owned(libc::syscall(libc::SYS_pidfd_open, pid, flags)) }
}

/// A copy of what the process has open under a number.
///
/// # Errors
/// As pidfd_getfd(2).
pub fn copy_fd(pidfd: impl AsFd, number: i32) -> io::Result<OwnedFd> {
    let pidfd = pidfd.as_fd().as_raw_fd();
    // SAFETY: makes a descriptor that nothing else owns.
    unsafe { owned(libc::syscall(libc::SYS_pidfd_getfd, pidfd, number, 0)) }
}

/// Sends the process a signal.
///
/// # Errors
/// As pidfd_send_signal(2).
pub fn send_signal(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let pidfd = pidfd.as_fd().as_raw_fd();
    let info = null::<libc::siginfo_t>();
    // SAFETY: takes numbers and a null pointer.
    done(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, info, 0) }).map(|_| ())
}

/// What there is to be told of a child, without waiting; `None`: nothing, or it is no child.
pub fn child_event(pidfd: impl AsFd, what: i32) -> Option<ChildEvent> {
    let number = pidfd.as_fd().as_raw_fd();
    let event = waitid(libc::P_PIDFD, number, what | libc::WNOHANG).ok()?;
    (event.pid != 0).then_some(event)
}
