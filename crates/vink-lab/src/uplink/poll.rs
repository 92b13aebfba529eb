//! Several descriptors behind one, which a device can be waited for by: an epoll(7) set and a timer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::time::Duration;

/// A set of descriptors. Readable as long as one of them has what it is waited for.
pub(crate) struct Poll(OwnedFd);

/// To be told when there is something to be read.
pub(crate) const INPUT: i32 = libc::EPOLLIN;
/// ... or room to write, too.
pub(crate) const ROOM: i32 = libc::EPOLLIN | libc::EPOLLOUT;

impl Poll {
    pub(crate) fn new() -> io::Result<Poll> {
        // SAFETY: makes a descriptor.
        descriptor(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Poll)
    }

    /// Waits for `events` of one more descriptor, which leaves the set when it is closed.
    pub(crate) fn add(&self, fd: impl AsFd, events: i32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_fd(), events)
    }

    /// Waits for other events of a descriptor of the set.
    pub(crate) fn change(&self, fd: impl AsFd, events: i32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd(), events)
    }

    /// Waits for it no more.
    pub(crate) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_fd(), 0)
    }

    fn control(&self, operation: i32, fd: BorrowedFd<'_>, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: 0,
        };
        let set = self.0.as_raw_fd();
        // SAFETY: open descriptors and a structure that outlives the call.
        match unsafe { libc::epoll_ctl(set, operation, fd.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// timerfd_create(2) of the monotonic clock.
pub(crate) struct Timer(OwnedFd);

impl Timer {
    /// One that is not set.
    pub(crate) fn new() -> io::Result<Timer> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: makes a descriptor.
        descriptor(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Timer)
    }

    /// Goes off each time that this much has passed; never if it is zero.
    pub(crate) fn every(&self, period: Duration) -> io::Result<()> {
        let time = libc::timespec {
            tv_sec: period.as_secs() as libc::time_t,
            tv_nsec: period.subsec_nanos().into(),
        };
        let setting = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: a structure that outlives the call; none is filled in.
        match unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &setting, null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether it went off since this was last asked.
    pub(crate) fn went_off(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: room for as many bytes as said.
        let got = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        got > 0
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a system call that makes a descriptor has returned.
pub(crate) fn descriptor(fd: i32) -> io::Result<OwnedFd> {
    match fd {
        0.. => {
            // SAFETY: it was made just now, and is nobody else's.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}
