//! The host's monotonic clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use vink_sys::rustix::io::Errno;
use vink_sys::rustix::thread::clock_nanosleep_absolute;
use vink_sys::rustix::time::{clock_gettime, ClockId, Timespec};

/// For how many ns a debugger has stopped this process, or [`stood_still`] was told: the kernels'
/// real clock stood still meanwhile. The debugger adds to it, while the process is stopped
/// (crates/vink/gdb/vink.py).
#[no_mangle]
pub(crate) static VINK_STOPPED: AtomicU64 = AtomicU64::new(0);

/// See [`VINK_STOPPED`].
#[inline]
pub(crate) fn stopped() -> u64 {
    VINK_STOPPED.load(Ordering::Relaxed)
}

/// Takes so many ns that have passed out of the real clock of this process's kernels: they stood
/// still meanwhile, and must not have run.
pub fn stood_still(ns: u64) {
    VINK_STOPPED.fetch_add(ns, Ordering::Relaxed);
}

/// Which clock a kernel lives by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The host's `CLOCK_MONOTONIC`, less the time for which a debugger has stopped the process.
    #[default]
    Real,
    /// Starts at 0 and stands still while anything can be done, then jumps to the next deadline.
    Virtual,
}

/// `CLOCK_MONOTONIC` in ns: through the vDSO, without a system call (clock_gettime(2), vdso(7)).
#[inline]
pub fn monotonic() -> u64 {
    read(ClockId::Monotonic)
}

/// A clock of the host's, in ns.
#[inline]
pub(crate) fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The date when `CLOCK_MONOTONIC` was at 0, in ns since 1970, by the host's present date.
pub(crate) fn monotonic_epoch() -> u64 {
    let date = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    };
    // The shortest of some tries is the most exact one.
    let tries = (0..5).map(|_| {
        let (before, date, after) = (monotonic(), date(), monotonic());
        (after - before, date.saturating_sub(before.midpoint(after)))
    });
    tries.min().map_or(0, |(_, epoch)| epoch)
}

/// Sleeps until `CLOCK_MONOTONIC` is at `deadline` ns (clock_nanosleep(2)); signals don't shorten
/// it.
pub(crate) fn sleep_until(deadline: u64) {
    let until = Timespec {
        tv_sec: (deadline / 1_000_000_000) as i64,
        tv_nsec: (deadline % 1_000_000_000) as i64,
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_until_the_deadline_and_not_for_one_that_has_passed() {
        let deadline = monotonic() + 2_000_000;
        sleep_until(deadline);
        assert!(monotonic() >= deadline);
        sleep_until(0);
    }
}
