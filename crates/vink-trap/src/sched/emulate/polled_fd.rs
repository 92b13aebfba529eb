//! Copies of descriptors of the host's: those that blocked threads wait for, and those that data is
//! moved to or from.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use vink_sys::plain::Zeroed;
use vink_sys::{epoll, fd, poll};

/// A descriptor of the host's in the set; leaves it when dropped.
pub(in crate::sched) struct PolledFd {
    pub(in crate::sched) copy: OwnedFd,
    pub(in crate::sched) epoll: RawFd,
    /// The program's descriptor, and what is waited for (`POLL*`).
    pub(in crate::sched) number: u64,
    pub(in crate::sched) events: i16,
}

impl PolledFd {
    /// Whether this waits for the same.
    pub(in crate::sched) fn is(&self, number: u64, events: i16) -> bool {
        (self.number, self.events) == (number, events)
    }

    /// The low half of the program's descriptor.
    pub(in crate::sched) fn number(&self) -> u32 {
        self.number as u32
    }

    /// The worker's own descriptor of it.
    pub(in crate::sched) fn fd(&self) -> RawFd {
        self.copy.as_raw_fd()
    }

    /// What is true of all of these now, by one look.
    pub(in crate::sched) fn poll_all(all: &[PolledFd]) -> Vec<i16> {
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
pub(in crate::sched) fn events_of(fd: RawFd, events: i16) -> i16 {
    poll::events_of(fd, events, 0)
}

/// What kind of file it is (`S_IFMT`), and which.
pub(in crate::sched) fn file_type_of(fd: RawFd) -> (libc::mode_t, (u64, u64), u64) {
    let stat = fd::stat(fd).unwrap_or(libc::stat::zeroed());
    (
        stat.st_mode & libc::S_IFMT,
        (stat.st_dev, stat.st_ino),
        stat.st_rdev,
    )
}

/// What a program moves data to or from.
#[derive(Clone)]
pub(in crate::sched) struct CachedFd {
    /// The low half of the program's descriptor.
    pub(in crate::sched) number: u32,
    /// A copy of it; `None`: the host never waits for such a file.
    pub(in crate::sched) copy: Option<Rc<OwnedFd>>,
    /// `S_IFMT`: of the character devices there are terminals only.
    pub(in crate::sched) kind: libc::mode_t,
    /// It is a pipe or a socket whose other end is outside the worker's programs.
    pub(in crate::sched) outside: bool,
}
