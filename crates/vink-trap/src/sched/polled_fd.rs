//! Copies of descriptors of the host's: those that blocked threads wait for, and those that data is
//! moved to or from.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use vink_sys::plain::Zeroed;
use vink_sys::{epoll, fd, poll};

/// A descriptor of the host's in the set; leaves it when dropped.
pub(super) struct PolledFd {
    pub(super) copy: OwnedFd,
    pub(super) epoll: RawFd,
    /// The program's descriptor, and what is waited for (`POLL*`).
    pub(super) number: u64,
    pub(super) events: i16,
}

impl PolledFd {
    /// Whether this waits for the same.
    pub(super) fn is(&self, number: u64, events: i16) -> bool {
        (self.number, self.events) == (number, events)
    }

    /// The low half of the program's descriptor.
    pub(super) fn number(&self) -> u32 {
        self.number as u32
    }

    /// The worker's own descriptor of it.
    pub(super) fn fd(&self) -> RawFd {
        self.copy.as_raw_fd()
    }

    /// What is true of all of these now, by one look.
    pub(super) fn poll_all(all: &[PolledFd]) -> Vec<i16> {
        let fd = |polled: &PolledFd| libc::pollfd {
            fd: polled.fd(),
            events: polled.events,
            revents: 0,
        };
        let mut fds: Vec<libc::pollfd> = all.iter().map(fd).collect();
        if !fds.is_empty() {
            let _ = poll::poll(&mut fds, 0);
        }
        fds.iter().map(|fd| fd.revents).collect()
    }
}

impl Drop for PolledFd {
    fn drop(&mut self) {
        // The program has the file open too, so closing would not take it out of the set.
        let _ = epoll::remove(self.epoll, self.copy.as_raw_fd());
    }
}

/// What poll(2) says of a descriptor.
pub(super) fn events_of(fd: RawFd, events: i16) -> i16 {
    poll::events_of(fd, events, 0)
}

/// What kind of file it is (`S_IFMT`), and which.
pub(super) fn file_type_of(fd: RawFd) -> (libc::mode_t, (u64, u64), u64) {
    let stat = fd::stat(fd).unwrap_or(libc::stat::zeroed());
    (
        stat.st_mode & libc::S_IFMT,
        (stat.st_dev, stat.st_ino),
        stat.st_rdev,
    )
}

/// What a program moves data to or from.
#[derive(Clone)]
pub(super) struct CachedFd {
    /// The low half of the program's descriptor.
    pub(super) number: u32,
    /// A copy of it; `None`: the host never waits for such a file.
    pub(super) copy: Option<Rc<OwnedFd>>,
    /// `S_IFMT`: of the character devices there are terminals only.
    pub(super) kind: libc::mode_t,
    /// It is a pipe or a socket whose other end is outside the worker's programs.
    pub(super) outside: bool,
}
