//! poll(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// A descriptor, and the events (`POLL*`) that are waited for.
pub fn wanted(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits so many ms (-1: for ever) for one of the descriptors: how many have events, which are in
/// `revents` then. A number that is not open has `POLLNVAL`.
///
/// # Errors
/// As poll(2); `Interrupted` if a handler of a signal ran.
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> io::Result<usize> {
    // SAFETY: as many structures as said.
    let count = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The same of one descriptor: its events, none if the time is over or a handler of a signal ran.
pub fn events_of(fd: RawFd, events: i16, timeout_ms: i32) -> i16 {
    let mut fd = [wanted(fd, events)];
    let _ = poll(&mut fd, timeout_ms);
    fd[0].revents
}

/// Whether there is something to be read within so many ms (-1: for ever), or an end or error.
pub fn is_readable(fd: impl AsFd, timeout_ms: i32) -> bool {
    events_of(fd.as_fd().as_raw_fd(), libc::POLLIN, timeout_ms) != 0
}
