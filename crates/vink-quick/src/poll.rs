//! poll(2) in virtual time: untrapped, if it is like the last trapped call and something of the host's is ready. Otherwise the
//! worker finds beside the mailbox what it would have to look for in the program's memory, and leaves there what it would write.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use libc::{pollfd, sigset_t, timespec, SYS_poll};
use vink_mailbox::{Turn, HAS_MASK, HAS_TIME, LOOKED, NATIVE, WAITED};

use crate::symbols::system_call;

const NOTHING: pollfd = pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// A structure as it stands in the mailbox.
fn told(bytes: u64) -> pollfd {
    pollfd {
        fd: bytes as c_int,
        events: (bytes >> 32) as i16,
        revents: (bytes >> 48) as i16,
    }
}

/// ... and as it is to stand there.
fn bytes(fd: &pollfd) -> u64 {
    u64::from(fd.fd as u32) | u64::from(fd.events as u16) << 32 | u64::from(fd.revents as u16) << 48
}

/// How many of these are ready, which the structures say then. Otherwise, by a system call that is trapped: whether what of them is
/// the host's has been looked at.
#[inline]
pub(crate) fn polled(turn: &Turn, fds: &mut [pollfd]) -> Result<c_int, bool> {
    if fds.is_empty() || turn.count.load(Ordering::Relaxed) as usize != fds.len() {
        return Err(false);
    }
    let own = turn.own.load(Ordering::Relaxed);
    let mut asked = [NOTHING; WAITED];
    for (n, (fd, asked)) in fds.iter().zip(&mut asked).enumerate() {
        let waited = told(turn.waited[n].load(Ordering::Relaxed));
        if (waited.fd, waited.events) != (fd.fd, fd.events) {
            return Err(false);
        }
        if own & 1 << n == 0 {
            *asked = waited;
        }
    }
    // Those that are none, as Vink's are here, are left out.
    let args = [asked.as_mut_ptr() as u64, fds.len() as u64, 0, 0, 0, NATIVE];
    match system_call(SYS_poll, args) {
        0 => return Err(true),
        1.. => {}
        _ => return Err(false),
    }
    let mut ready = 0;
    for (n, (fd, asked)) in fds.iter_mut().zip(asked).enumerate() {
        fd.revents = match own & 1 << n {
            0 => asked.revents,
            _ => told(turn.waited[n].load(Ordering::Relaxed)).revents,
        };
        ready += c_int::from(fd.revents != 0);
    }
    Ok(ready)
}

/// Says what the next call will be.
pub(crate) fn ask(
    turn: &Turn,
    fds: &[pollfd],
    time: Option<&timespec>,
    mask: Option<&sigset_t>,
    looked: bool,
) {
    let mut how = if looked { LOOKED } else { 0 };
    turn.count.store(0, Ordering::Relaxed);
    for (fd, place) in fds.iter().zip(&turn.waited) {
        place.store(bytes(fd), Ordering::Relaxed);
    }
    if let Some(time) = time {
        how |= HAS_TIME;
        turn.time[0].store(time.tv_sec as u64, Ordering::Relaxed);
        turn.time[1].store(time.tv_nsec as u64, Ordering::Relaxed);
    }
    if let Some(mask) = mask {
        how |= HAS_MASK;
        // The kernel's is the first word of the C library's.
        // SAFETY: it is as long as that at least.
        let mask = unsafe { (&raw const *mask).cast::<u64>().read() };
        turn.mask.store(mask, Ordering::Relaxed);
    }
    turn.how.store(how, Ordering::Relaxed);
    turn.asked.store(fds.as_ptr() as u64, Ordering::Relaxed);
}

/// The call is back: what it was to write is written.
pub(crate) fn answered(turn: &Turn, fds: &mut [pollfd]) {
    if turn.found.swap(0, Ordering::Relaxed) != 0 {
        for (fd, waited) in fds.iter_mut().zip(&turn.waited) {
            fd.revents = told(waited.load(Ordering::Relaxed)).revents;
        }
    }
    let place = turn.clock_at.swap(0, Ordering::Relaxed) as *mut u32;
    if place.is_null() {
        return;
    }
    for (n, word) in turn.clock.iter().enumerate() {
        // SAFETY: the worker has written there before, in this process's memory, what this process only reads as machine code does.
        unsafe { place.add(n).write_volatile(word.load(Ordering::Relaxed)) };
    }
}
