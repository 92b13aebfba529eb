//! The limit of a crossing's time: a thread looks each millisecond, and sends a signal when it is over.
//!
//! Time is processor time of the thread that crosses. Linux may have it sleep meanwhile, for a lock of
//! the bus that it does not like: after ten times the limit of real time it is over, too. While no pod is
//! crossed the looking thread rests.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use vink_sys::process::{cpu_time_of_thread, tgkill};

use super::gate::{CROSSING, OVER};
use crate::ticks::{Ticks, TICK};

/// Real time of a crossing, as a multiple of its limit.
const REAL: u64 = 10;

static LIMIT: AtomicU64 = AtomicU64::new(0);
static WHOSE: AtomicI32 = AtomicI32::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);
static TICKS: Ticks = Ticks::new();

/// Starts the thread, once.
///
/// # Errors
/// A sentence: the host gives no thread.
pub(super) fn start() -> Result<(), String> {
    let mut seen = Seen {
        crossing: 0,
        ran: 0,
        began: Instant::now(),
    };
    TICKS.start("pod-clock", move || {
        seen.look();
        TICK
    })
}

/// A call of a pod has begun, on this thread.
pub(super) fn begin(thread: i32, limit: Duration) {
    LIMIT.store(limit.as_nanos().try_into().unwrap_or(u64::MAX), SeqCst);
    WHOSE.store(thread, SeqCst);
    CROSSING.store(NEXT.fetch_add(1, SeqCst), SeqCst);
    TICKS.crossing();
}

/// Whether the time of what has begun is over.
pub(super) fn is_over() -> bool {
    OVER.load(SeqCst) == CROSSING.load(SeqCst)
}

/// It has ended.
pub(super) fn end() {
    CROSSING.store(0, SeqCst);
}

/// Which crossing it looks at, and the thread's time (ns) and the host's when it saw it first.
struct Seen {
    crossing: u64,
    ran: u64,
    began: Instant,
}

impl Seen {
    fn look(&mut self) {
        let crossing = CROSSING.load(SeqCst);
        if crossing == 0 {
            return;
        }
        TICKS.crossing();
        let whose = WHOSE.load(SeqCst);
        let now = cpu_time_of_thread(whose).map_or(0, |time| time.as_nanos() as u64);
        if crossing != self.crossing {
            *self = Seen {
                crossing,
                ran: now,
                began: Instant::now(),
            };
            return;
        }
        let ran = now.saturating_sub(self.ran);
        if is_too_long(ran, self.began.elapsed(), LIMIT.load(SeqCst)) {
            OVER.store(crossing, SeqCst);
            if CROSSING.load(SeqCst) == crossing {
                // Late, it is ignored.
                let _ = tgkill(std::process::id() as i32, whose, libc::SIGSYS);
            }
        }
    }
}

/// Whether a crossing is over that has run for so long (ns), while so much time passed.
fn is_too_long(ran: u64, passed: Duration, limit: u64) -> bool {
    ran > limit || passed.as_nanos() > u128::from(limit) * u128::from(REAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_that_sleeps_ends_too() {
        let passed = Duration::from_nanos;
        assert!(!is_too_long(100, passed(1000), 100));
        assert!(is_too_long(101, passed(101), 100));
        assert!(is_too_long(0, passed(1001), 100));
        assert!(!is_too_long(1 << 40, passed(1 << 40), u64::MAX));
    }
}
