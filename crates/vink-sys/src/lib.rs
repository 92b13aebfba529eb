//! Linux's interface behind safe functions. What [`rustix`] has is taken from there; here is what it
//! has not: seccomp notifications, the memory of traced threads, ptrace(2), signals, processes by
//! descriptors and numbers, what `/proc` says, and errno as system calls return it.
//!
//! Functions that take a descriptor as a number ([`std::os::fd::RawFd`]) look at it, move its
//! offset, wait for it or put it into an epoll set: a wrong number is an error (`EBADF`) or concerns
//! another file, but no memory. A new descriptor comes as an [`std::os::fd::OwnedFd`]; nothing here
//! closes or owns a number.
//!
//! A system call that rustix makes does not go by libc. So code that may run in a program of a
//! machine, where a preloaded library answers libc's functions, uses std or libc instead.

pub mod child;
pub mod contention;
pub mod epoll;
pub mod errno;
pub mod fd;
pub mod fs_credentials;
pub mod give_way;
pub mod mapping;
pub mod maps;
pub mod memory;
pub mod mount;
pub mod netlink;
pub mod pidfd;
pub mod plain;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod ptrace;
pub mod rseq;
pub mod seccomp;
pub mod signals;
pub mod socket;
pub mod terminal;
pub mod written;

pub use rustix;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// A number as a descriptor, for one call of rustix's: that gives it to the kernel and does nothing
/// else with it, and the kernel refuses one that is not open.
fn numbered<'a>(number: RawFd) -> io::Result<BorrowedFd<'a>> {
    match number {
        // SAFETY: not -1; whether it is open is for the kernel to say, as above.
        0.. | libc::AT_FDCWD => Ok(unsafe { BorrowedFd::borrow_raw(number) }),
        _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// System calls that rustix has not, or not for all numbers, whose arguments are numbers.
#[derive(Clone, Copy)]
#[repr(i64)]
enum NumericCall {
    /// Of those that are executed, never of this process: with `CLOSE_RANGE_CLOEXEC`.
    CloseRange = libc::SYS_close_range,
    Getpgid = libc::SYS_getpgid,
    Getsid = libc::SYS_getsid,
    Kcmp = libc::SYS_kcmp,
    Kill = libc::SYS_kill,
    Personality = libc::SYS_personality,
    /// With a null pointer in place of further information.
    PidfdSendSignal = libc::SYS_pidfd_send_signal,
    Tgkill = libc::SYS_tgkill,
    Unshare = libc::SYS_unshare,
}

impl NumericCall {
    fn make(self, [a, b, c, d, e]: [i64; 5]) -> io::Result<u64> {
        // SAFETY: none of these calls reads or writes this process's memory.
        done(unsafe { libc::syscall(self as i64, a, b, c, d, e) })
    }
}

/// What a call of libc's says: 0 or more, or -1 and errno.
#[inline]
fn done(result: i64) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}
