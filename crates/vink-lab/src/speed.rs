//! A virtual clock that goes at most so many times as fast as the host's.

use std::time::{Duration, Instant};

use vink_trap::Worker;

/// How fast, and since when.
#[derive(Debug)]
pub struct Speed {
    factor: f64,
    since: Instant,
    from: u64,
}

impl Speed {
    /// So many times as fast as the host's clock, from now on, when the kernel's is at `from` ns.
    pub fn new(factor: f64, from: u64) -> Speed {
        Speed {
            factor,
            since: Instant::now(),
            from,
        }
    }

    /// How many times as fast.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// To be called before each step: lets the worker's clock go as far as it may now, and never
    /// past `until` (ns). Returns how long the step may wait, at most; `None`: for whatever comes
    /// from outside.
    pub fn let_go(&self, worker: &mut Worker, until: u64) -> Option<Duration> {
        let next = worker.next_timer().unwrap_or(u64::MAX).min(until);
        let elapsed = self.since.elapsed().as_nanos() as f64;
        let allowed = self.from.saturating_add((elapsed * self.factor) as u64);
        if allowed >= next {
            worker.set_horizon(allowed.min(until));
            return Some(Duration::ZERO);
        }
        worker.set_horizon(0);
        // Nothing is missed on the way; what comes from outside finds the clock where it should be.
        worker.advance_clock(allowed);
        if next == u64::MAX {
            return None;
        }
        let left = (next - allowed) as f64 / self.factor;
        Some(Duration::from_nanos(left.ceil() as u64))
    }
}
