//! How a thread that spins gives its processor to threads that could run there (sched_yield(2)).
//!
//! The thread that is waited for may be one of them. It soon waits for something itself, and then the
//! thread spins on. One that computes stays for a time slice of the host's scheduler, which is longer than
//! any spin: after that the thread gives way to none for a while.

use std::cell::Cell;
use std::time::Duration;

/// What only a thread that computes takes: less than a time slice, and more than a burst of packets takes.
const LONG: Duration = Duration::from_millis(2);
/// Without another thread a yield takes less than this, with one more: two context switches.
const SWITCH: Duration = Duration::from_micros(4);
/// So many times as long as that has lasted, a thread that spins lets no other one in.
const SHARE: u32 = 64;

/// What one thread knows of those beside it.
#[derive(Debug)]
pub struct GiveWay {
    /// In ns of `CLOCK_MONOTONIC`.
    paused_until: Cell<u64>,
    share: u32,
}

impl Default for GiveWay {
    fn default() -> GiveWay {
        GiveWay::new()
    }
}

impl GiveWay {
    /// Of a thread that spins and knows nothing yet.
    pub fn new() -> GiveWay {
        GiveWay::with_share(SHARE)
    }

    /// The same of one that lets no other one in for `share` times as long as one that computes has had.
    pub fn with_share(share: u32) -> GiveWay {
        GiveWay {
            paused_until: Cell::new(0),
            share,
        }
    }

    /// Whether no thread beside this one is known to compute.
    #[inline]
    pub fn may(&self, now: u64) -> bool {
        now >= self.paused_until.get()
    }

    /// Lets others run, if that [may](GiveWay::may) be; `clock` is `CLOCK_MONOTONIC`, in ns. Whether one
    /// has.
    #[inline]
    pub fn give_way(&self, clock: impl Fn() -> u64) -> bool {
        let before = clock();
        if !self.may(before) {
            return false;
        }
        rustix::thread::sched_yield();
        self.weigh(before, clock())
    }

    #[inline]
    fn weigh(&self, before: u64, after: u64) -> bool {
        let taken = after.saturating_sub(before);
        if taken >= LONG.as_nanos() as u64 {
            self.paused_until.set(after + u64::from(self.share) * taken);
        }
        taken >= SWITCH.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_is_let_in_seldom() {
        let give = GiveWay::new();
        let ms = |n: u64| n * 1_000_000;
        give.weigh(0, ms(2) - 1);
        assert!(give.may(ms(2)), "a burst of packets");
        give.weigh(ms(2), ms(5));
        assert!(!give.may(ms(5)) && !give.may(ms(5 + 3 * 64) - 1) && give.may(ms(5 + 3 * 64)));
        let give = GiveWay::with_share(8);
        give.weigh(0, ms(2));
        assert!(!give.may(ms(2 + 2 * 8) - 1) && give.may(ms(2 + 2 * 8)));
        // That it does not yield meanwhile changes nothing.
        let give = GiveWay::new();
        give.weigh(0, ms(2));
        let times = Cell::new(ms(2));
        let clock = || times.replace(times.get() + ms(3));
        give.give_way(clock);
        assert_eq!(times.get(), ms(5), "the clock is looked at once");
        times.set(ms(200));
        give.give_way(clock);
        assert_eq!(times.get(), ms(206));
        assert!(!give.may(ms(206)));
    }
}
