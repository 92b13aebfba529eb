//! Linux's interface behind safe functions. What [`rustix`] has is taken from there; here is what it
//! has not: seccomp notifications, the memory of traced threads, processes by descriptors and
//! numbers, what `/proc` says, and errno as system calls return it.
//!
//! Functions that take a descriptor as a number ([`std::os::fd::RawFd`]) look at it, move its
//! offset, wait for it or put it into an epoll set: a wrong number is an error (`EBADF`) or concerns
//! another file, but no memory. A new descriptor comes as an [`std::os::fd::OwnedFd`]; nothing here
//! closes or owns a number.
//!
//! A system call that rustix makes does not go by libc. So code that may run in a program of a
//! machine, where a preloaded library answers libc's functions, uses std or libc instead.

pub mod child;
pub mod epoll;
pub mod errno;
pub mod fd;
pub mod mapping;
pub mod memory;
pub mod pidfd;
pub mod plain;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod seccomp;
pub mod socket;
pub mod terminal;

pub use rustix;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Owns what a call of libc's has made: a descriptor, or -1 and errno.
///
/// # Safety
/// Nothing else owns the descriptor.
unsafe fn owned(made: i64) -> io::Result<OwnedFd> {
    match i32::try_from(made) {
        // SAFETY: as the caller promises.
        Ok(number @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a call of libc's says: 0 or more, or -1 and errno.
fn done(result: i64) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}
