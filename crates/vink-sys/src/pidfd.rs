//! Processes by descriptors (pidfd_open(2)): they can't become another's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::{pidfd_getfd, pidfd_open, Pid, PidfdFlags, PidfdGetfdFlags};

use crate::process::{waitid, ChildEvent};
use crate::NumericCall;

/// `PIDFD_THREAD`, since Linux 6.9.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// A descriptor of a process.
///
/// # Errors
/// As pidfd_open(2).
pub fn open(pid: i32) -> io::Result<OwnedFd> {
    open_with(pid, PidfdFlags::empty())
}

/// A descriptor of a thread, readable when that has ended.
///
/// # Errors
/// As pidfd_open(2); `InvalidInput` before Linux 6.9, unless it leads its process.
pub fn open_thread(tid: i32) -> io::Result<OwnedFd> {
    open_with(tid, PIDFD_THREAD)
}

fn open_with(pid: i32, flags: PidfdFlags) -> io::Result<OwnedFd> {
    match Pid::from_raw(pid.max(0)) {
        Some(pid) => Ok(pidfd_open(pid, flags)?),
        None => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// A copy of what the process has open under a number.
///
/// # Errors
/// As pidfd_getfd(2).
pub fn copy_fd(pidfd: impl AsFd, number: i32) -> io::Result<OwnedFd> {
    match number {
        0.. => Ok(pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty())?),
        _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// Sends the process a signal.
///
/// # Errors
/// As pidfd_send_signal(2).
pub fn send_signal(pidfd: impl AsFd, signal: i32) -> io::Result<()> {
    let pidfd = pidfd.as_fd().as_raw_fd().into();
    NumericCall::PidfdSendSignal.make([pidfd, signal.into(), 0, 0, 0])?;
    Ok(())
}

/// What there is to be told of a child, without waiting; `None`: nothing, or it is no child.
pub fn child_event(pidfd: impl AsFd, what: i32) -> Option<ChildEvent> {
    let number = pidfd.as_fd().as_raw_fd();
    let event = waitid(libc::P_PIDFD, number, what | libc::WNOHANG).ok()?;
    (event.pid != 0).then_some(event)
}
