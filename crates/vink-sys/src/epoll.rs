//! epoll(7), with members that are numbers: files of other processes, whose copies come and go.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::null;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::{done, numbered};

/// An empty set, which no executed program inherits.
///
/// # Errors
/// As epoll_create1(2).
pub fn create() -> io::Result<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

/// Waits for these events (`EPOLL*`) of a descriptor; they come with the tag.
///
/// # Errors
/// As `EPOLL_CTL_ADD`.
pub fn add(set: impl AsFd, fd: RawFd, events: u32, tag: u64) -> io::Result<()> {
    let (tag, events) = (
        EventData::new_u64(tag),
        EventFlags::from_bits_retain(events),
    );
    Ok(epoll::add(set, numbered(fd)?, tag, events)?)
}

/// Waits for other events of a member.
///
/// # Errors
/// As `EPOLL_CTL_MOD`.
pub fn modify(set: impl AsFd, fd: RawFd, events: u32, tag: u64) -> io::Result<()> {
    let (tag, events) = (
        EventData::new_u64(tag),
        EventFlags::from_bits_retain(events),
    );
    Ok(epoll::modify(set, numbered(fd)?, tag, events)?)
}

/// Takes a member out. The set is a number since it may be gone before its members.
///
/// # Errors
/// As `EPOLL_CTL_DEL`.
pub fn remove(set: RawFd, fd: RawFd) -> io::Result<()> {
    Ok(epoll::delete(numbered(set)?, numbered(fd)?)?)
}

/// Waits so many ms (-1: for ever): how many of the events are filled in.
///
/// # Errors
/// As epoll_wait(2); `Interrupted` if a handler of a signal ran.
pub fn wait(set: RawFd, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
    let most = i32::try_from(events.len()).unwrap_or(i32::MAX);
    // SAFETY: room for as many events as said.
    let count = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), most, timeout_ms) };
    done(count.into()).map(|count| count as usize)
}

/// The same to the nanosecond (epoll_pwait2(2)); without a limit for ever.
///
/// # Errors
/// As epoll_pwait2(2); `Interrupted` if a handler of a signal ran.
#[inline]
pub fn wait_precisely(
    set: impl AsFd,
    events: &mut [libc::epoll_event],
    limit: Option<Duration>,
) -> io::Result<usize> {
    let limit = limit.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: t.subsec_nanos().into(),
    });
    // SAFETY: room for as many events as said; the timeout lives long enough.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_fd().as_raw_fd(),
            events.as_mut_ptr(),
            events.len(),
            limit.as_ref().map_or(null(), |t| t as *const _),
            null::<libc::sigset_t>(),
            0,
        )
    };
    done(count).map(|count| count as usize)
}

/// As [`wait`] without waiting, for a program: the events as they are in its memory.
///
/// # Errors
/// As epoll_wait(2).
pub fn ready_events(set: RawFd, events: &mut [u8]) -> io::Result<usize> {
    let most = events.len() / size_of::<libc::epoll_event>();
    // SAFETY: room for as many events as said, which are packed on x86-64: they need no alignment.
    let count = unsafe { libc::epoll_wait(set, events.as_mut_ptr().cast(), most as i32, 0) };
    done(count.into()).map(|count| count as usize)
}
