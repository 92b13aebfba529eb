//! Several descriptors behind one, which a device can be waited for by: an epoll(7) set and a
//! timer.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use vink_sys::epoll;
use vink_sys::rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};

/// A set of descriptors. Readable as long as one of them has what it is waited for.
pub struct Poll(OwnedFd);

/// To be told when there is something to be read.
pub const INPUT: i32 = libc::EPOLLIN;
/// ... or room to write, too.
pub const ROOM: i32 = libc::EPOLLIN | libc::EPOLLOUT;

impl Poll {
    /// An empty one.
    ///
    /// # Errors
    /// As epoll_create1(2).
    pub fn new() -> io::Result<Poll> {
        epoll::create().map(Poll)
    }

    /// Waits for `events` of one more descriptor, which leaves the set when it is closed.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add(&self, fd: impl AsFd, events: i32) -> io::Result<()> {
        epoll::add(&self.0, fd.as_fd().as_raw_fd(), events as u32, 0)
    }

    /// Waits for other events of a descriptor of the set.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn change(&self, fd: impl AsFd, events: i32) -> io::Result<()> {
        epoll::modify(&self.0, fd.as_fd().as_raw_fd(), events as u32, 0)
    }

    /// Waits for it no more.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        epoll::remove(self.0.as_raw_fd(), fd.as_fd().as_raw_fd())
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// timerfd_create(2) of the monotonic clock.
pub struct Timer(File);

impl Timer {
    /// One that is not set.
    ///
    /// # Errors
    /// As timerfd_create(2).
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer(timer.into()))
    }

    /// Goes off each time that this much has passed; never if it is zero.
    ///
    /// # Errors
    /// As timerfd_settime(2).
    pub fn every(&self, period: Duration) -> io::Result<()> {
        let time = Timespec {
            tv_sec: period.as_secs() as i64,
            tv_nsec: period.subsec_nanos().into(),
        };
        let setting = Itimerspec {
            it_interval: time,
            it_value: time,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    /// Whether it went off since this was last asked.
    pub fn went_off(&self) -> bool {
        let mut count = [0u8; 8];
        (&self.0).read(&mut count).is_ok_and(|got| got > 0)
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
