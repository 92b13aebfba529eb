//! Reads and writes of the host's pipes in virtual time, that are not trapped: those that can be
//! done without waiting.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use libc::{ssize_t, SYS_fcntl, SYS_preadv2, SYS_pwritev2};
use vink_ring::{PIPE_BROKEN, PIPE_USED, UNTRAPPED};
use vink_shim::{finish, Part};

use crate::post::budgeted_pipe;
use crate::system_call::system_call;

const EAGAIN: i64 = -(libc::EAGAIN as i64);
const EPIPE: i64 = -(libc::EPIPE as i64);

/// Reads into the parts; `None`: by a system call that is trapped.
#[inline]
pub(crate) fn read(fd: c_int, parts: &[Part]) -> Option<ssize_t> {
    transfer(SYS_preadv2, fd, parts)
}

/// Writes what the parts have, if that is done at once or not at all; `None`: by a system call that
/// is trapped.
#[inline]
pub(crate) fn write(fd: c_int, parts: &[Part]) -> Option<ssize_t> {
    let mut room = libc::PIPE_BUF;
    for part in parts {
        room = room.checked_sub(part.len())?;
    }
    transfer(SYS_pwritev2, fd, parts)
}

fn transfer(nr: i64, fd: c_int, parts: &[Part]) -> Option<ssize_t> {
    let sched = budgeted_pipe(fd)?;
    let before = sched.touched.load(Ordering::Relaxed);
    sched.touched.store(before | PIPE_USED, Ordering::Relaxed);
    let (at, count) = (parts.as_ptr() as u64, parts.len() as u64);
    // The file position, which a pipe has not; the half of this argument that the host ignores is
    // the mark.
    let here = u64::MAX;
    let flags = libc::RWF_NOWAIT as u64;
    match system_call(nr, [fd as u64, at, count, here, UNTRAPPED, flags]) {
        result @ 0.. => Some(finish(result)),
        EPIPE => {
            sched.touched.fetch_or(PIPE_BROKEN, Ordering::Relaxed);
            Some(finish(EPIPE))
        }
        EAGAIN => {
            sched.touched.store(before, Ordering::Relaxed);
            // A thread that does this again and again waits for another one, which only the worker
            // sees.
            sched.pipe_would_block.store(1, Ordering::Relaxed);
            let args = [fd as u64, libc::F_GETFL as u64, 0, 0, 0, UNTRAPPED];
            let flags = system_call(SYS_fcntl, args);
            let waits = flags < 0 || flags & i64::from(libc::O_NONBLOCK) == 0;
            (!waits).then(|| finish(EAGAIN))
        }
        // Whatever it is, nothing has been done.
        _ => None,
    }
}
