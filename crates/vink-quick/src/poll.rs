//! poll(2) in virtual time: untrapped, if it is like the last trapped call and something of the
//! host's is ready. Otherwise the worker finds in the ring what it would have to read from the
//! program's memory, and leaves there what it would write.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use libc::{pollfd, timespec, SYS_poll};
use vink_ring::{SchedPage, HAS_MASK, HAS_TIME, HOST_POLLED, MAX_POLLED, UNTRAPPED};
use vink_shim::Mask;

use crate::system_call::system_call;

const NOTHING: pollfd = pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// A structure as it stands in the ring.
fn pollfd_of(bytes: u64) -> pollfd {
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

/// How many of these are ready, which is written to the structures then. Otherwise, by a system
/// call that is trapped: whether what of them is the host's has been polled.
#[inline]
pub(crate) fn polled(sched: &SchedPage, fds: &mut [pollfd]) -> Result<c_int, bool> {
    if fds.is_empty() || sched.polled_count.load(Ordering::Relaxed) as usize != fds.len() {
        return Err(false);
    }
    let own = sched.vink_fds.load(Ordering::Relaxed);
    let mut asked = [NOTHING; MAX_POLLED];
    for (n, (fd, asked)) in fds.iter().zip(&mut asked).enumerate() {
        let waited = pollfd_of(sched.polled[n].load(Ordering::Relaxed));
        if (waited.fd, waited.events) != (fd.fd, fd.events) {
            return Err(false);
        }
        if own & 1 << n == 0 {
            *asked = waited;
        }
    }
    // Those that are none, as Vink's are here, are left out.
    let args = [
        asked.as_mut_ptr() as u64,
        fds.len() as u64,
        0,
        0,
        0,
        UNTRAPPED,
    ];
    match system_call(SYS_poll, args) {
        0 => return Err(true),
        1.. => {}
        _ => return Err(false),
    }
    let mut ready = 0;
    for (n, (fd, asked)) in fds.iter_mut().zip(asked).enumerate() {
        fd.revents = match own & 1 << n {
            0 => asked.revents,
            _ => pollfd_of(sched.polled[n].load(Ordering::Relaxed)).revents,
        };
        ready += c_int::from(fd.revents != 0);
    }
    Ok(ready)
}

/// Says what the next call will be.
pub(crate) fn post_poll(
    sched: &SchedPage,
    fds: &[pollfd],
    time: Option<&timespec>,
    mask: Mask,
    looked: bool,
) {
    let mut how = if looked { HOST_POLLED } else { 0 };
    sched.polled_count.store(0, Ordering::Relaxed);
    for (fd, place) in fds.iter().zip(&sched.polled) {
        place.store(bytes(fd), Ordering::Relaxed);
    }
    if let Some(time) = time {
        how |= HAS_TIME;
        sched.time[0].store(time.tv_sec as u64, Ordering::Relaxed);
        sched.time[1].store(time.tv_nsec as u64, Ordering::Relaxed);
    }
    if let Some(mask) = mask {
        how |= HAS_MASK;
        sched.mask.store(*mask, Ordering::Relaxed);
    }
    sched.flags.store(how, Ordering::Relaxed);
    sched
        .posted_poll
        .store(fds.as_ptr() as u64, Ordering::Relaxed);
}

/// The call is back: what it was to write is written.
pub(crate) fn take_results(sched: &SchedPage, fds: &mut [pollfd]) {
    if sched.results_ready.swap(0, Ordering::Relaxed) != 0 {
        for (fd, waited) in fds.iter_mut().zip(&sched.polled) {
            fd.revents = pollfd_of(waited.load(Ordering::Relaxed)).revents;
        }
    }
    let place = sched.clock_at.swap(0, Ordering::Relaxed) as *mut u32;
    if place.is_null() {
        return;
    }
    for (n, word) in sched.clock.iter().enumerate() {
        // SAFETY: the worker has written there before, in this process's memory, what this process
        // only reads as machine code does.
        unsafe { place.add(n).write_volatile(word.load(Ordering::Relaxed)) };
    }
}
