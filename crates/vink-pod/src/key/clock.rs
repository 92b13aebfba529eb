//! The limit of a crossing's time: a thread looks each millisecond, and sends a signal when it is over.
//!
//! Time is processor time of the thread that crosses. Linux may have it sleep meanwhile, for a lock of
//! the bus that it does not like: after ten times the limit of real time it is over, too. While no pod is
//! crossed the looking thread rests.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::gate::{CROSSING, OVER};

const TICK: Duration = Duration::from_millis(1);
/// Real time of a crossing, as a multiple of its limit.
const REAL: u64 = 10;
/// Ticks without a crossing until it rests.
const IDLE: u32 = 100;

static LIMIT: AtomicU64 = AtomicU64::new(0);
static WHOSE: AtomicI32 = AtomicI32::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);
static RESTS: AtomicBool = AtomicBool::new(false);
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Starts the thread, once.
///
/// # Errors
/// A sentence: the host gives no thread.
pub(super) fn start() -> Result<(), String> {
    if THREAD.get().is_some() {
        return Ok(());
    }
    let thread = thread::Builder::new()
        .name("pod-clock".to_owned())
        .spawn(look)
        .map_err(|error| format!("starting the thread that limits a pod's time: {error}"))?;
    // Another thread may have been first: then two look.
    let _ = THREAD.set(thread.thread().clone());
    Ok(())
}

/// A call of a pod has begun, on this thread.
pub(super) fn begin(thread: i32, limit: Duration) {
    LIMIT.store(limit.as_nanos().try_into().unwrap_or(u64::MAX), SeqCst);
    WHOSE.store(thread, SeqCst);
    CROSSING.store(NEXT.fetch_add(1, SeqCst), SeqCst);
    if RESTS.swap(false, SeqCst) {
        if let Some(thread) = THREAD.get() {
            thread.unpark();
        }
    }
}

/// Whether the time of what has begun is over.
pub(super) fn is_over() -> bool {
    OVER.load(SeqCst) == CROSSING.load(SeqCst)
}

/// It has ended.
pub(super) fn end() {
    CROSSING.store(0, SeqCst);
}

fn look() {
    // Which crossing it looks at, and the thread's time and the host's when it saw it first.
    let (mut seen, mut since, mut began) = (0, 0, Instant::now());
    let mut idle = 0;
    let process = std::process::id() as i32;
    loop {
        thread::sleep(TICK);
        let crossing = CROSSING.load(SeqCst);
        let whose = WHOSE.load(SeqCst);
        if crossing == 0 {
            idle += 1;
        } else {
            idle = 0;
            let now = processor_time(whose);
            if crossing != seen {
                (seen, since, began) = (crossing, now, Instant::now());
            } else if is_too_long(
                now.saturating_sub(since),
                began.elapsed(),
                LIMIT.load(SeqCst),
            ) {
                OVER.store(crossing, SeqCst);
                if CROSSING.load(SeqCst) == crossing {
                    // Late, it is ignored.
                    let _ = vink_sys::process::tgkill(process, whose, libc::SIGSYS);
                }
            }
        }
        if idle > IDLE {
            RESTS.store(true, SeqCst);
            while RESTS.load(SeqCst) && CROSSING.load(SeqCst) == 0 {
                thread::park();
            }
            RESTS.store(false, SeqCst);
            idle = 0;
        }
    }
}

/// Whether a crossing is over that has run for so long (ns), while so much time passed.
fn is_too_long(ran: u64, passed: Duration, limit: u64) -> bool {
    ran > limit || passed.as_nanos() > u128::from(limit) * u128::from(REAL)
}

/// Nanoseconds that a thread has run.
fn processor_time(thread: i32) -> u64 {
    // MAKE_THREAD_CPUCLOCK of the kernel's, CPUCLOCK_SCHED.
    let clock = (!thread) << 3 | 6;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
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
