//! `CLOCK_MONOTONIC` by the processor's time stamp counter, for half of what the vDSO takes.
//!
//! The counter runs at one rate, on all processors alike, if the processor says so and the host's
//! kernel uses it as its own clock. Which rate, is measured: two readings of both clocks are an
//! *anchor* and a factor. The clock is read anew, and becomes the next anchor, whenever the last
//! one is [`SPAN`] old, so that neither the factor's error nor what ntpd(8) does to the rate adds
//! up. If it is not where it was expected (the machine was suspended, or moved to another host),
//! the factor is measured afresh.

use std::arch::x86_64::{__cpuid, _rdtsc};
use std::cell::Cell;
use std::sync::OnceLock;

use vink_sys::rustix::process::{time_stamp_counter_readability, TimeStampCounterReadability};

use crate::clock::monotonic;

/// Nanoseconds for which an anchor is good.
const SPAN: u64 = 1_000_000;
/// How far from its expected value a clock may be found.
const TOLERANCE: u64 = 1_000;
/// A factor is renewed when it comes from a measurement this long: it can't get much better, but
/// older.
const BASE: u64 = 1_000_000_000;
/// As often as this the factor may be found wrong before the counter is not used any more.
const MAX_BAD_FACTORS: u32 = 100;

/// Both clocks at one time.
#[derive(Clone, Copy, Default)]
struct ClockReading {
    ticks: u64,
    ns: u64,
}

/// As many ticks, some hundred nanoseconds, may pass while a reading is taken: more is a processor
/// that was taken away meanwhile.
const INSTANT: u64 = 1_000;

impl ClockReading {
    /// Now; and whether both were read at once.
    fn now() -> (ClockReading, bool) {
        let (before, ns, after) = (ticks(), monotonic(), ticks());
        let took = after.wrapping_sub(before);
        let ticks = before.wrapping_add(took / 2);
        (ClockReading { ticks, ns }, took < INSTANT)
    }
}

/// A monotonic clock; for one thread at a time.
pub(crate) struct Counter {
    anchor: Cell<ClockReading>,
    /// Nanoseconds for a tick, times 2^32. 0: not known yet.
    factor: Cell<u64>,
    /// How many ticks the anchor is good for; 0 as long as the factor is not known.
    good_for: Cell<u64>,
    /// What the factor was measured from.
    base: Cell<ClockReading>,
    /// What was read last: it never goes back.
    last: Cell<u64>,
    /// How often it may still be wrong; 0: the counter is not used.
    bad_factors_left: Cell<u32>,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter {
            anchor: Cell::default(),
            factor: Cell::default(),
            good_for: Cell::default(),
            base: Cell::default(),
            last: Cell::default(),
            bad_factors_left: Cell::new(if is_steady() { MAX_BAD_FACTORS } else { 0 }),
        }
    }
}

impl Counter {
    /// `CLOCK_MONOTONIC` in ns, to less than [`TOLERANCE`] mostly; never less than last time.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        let anchor = self.anchor.get();
        let passed = ticks().wrapping_sub(anchor.ticks);
        let now = if passed < self.good_for.get() {
            anchor.ns + scale(passed, self.factor.get())
        } else {
            self.drop_anchor()
        };
        let now = now.max(self.last.get());
        self.last.set(now);
        now
    }

    /// Reads the clock, and takes the reading for an anchor if a factor is or becomes known.
    #[cold]
    fn drop_anchor(&self) -> u64 {
        if self.bad_factors_left.get() == 0 {
            return monotonic();
        }
        let (now, exact) = ClockReading::now();
        let (base, factor) = (self.base.get(), self.factor.get());
        let passed = now.ns - base.ns;
        if !exact {
            // Next time.
        } else if base.ns == 0 {
            self.base.set(now);
        } else if factor == 0 {
            if passed >= SPAN {
                self.measure(base, now);
            }
        } else if !self.expects(now) {
            self.bad_factors_left.set(self.bad_factors_left.get() - 1);
            self.factor.set(0);
            self.good_for.set(0);
            self.base.set(now);
        } else if passed >= BASE {
            self.measure(base, now);
        } else {
            self.anchor.set(now);
        }
        now.ns
    }

    /// Whether the clock is where the counter says. The longer it was not looked at, the farther
    /// off it may be.
    fn expects(&self, now: ClockReading) -> bool {
        let anchor = self.anchor.get();
        let ticks = now.ticks.wrapping_sub(anchor.ticks);
        let expected = anchor.ns.wrapping_add(scale(ticks, self.factor.get()));
        expected.abs_diff(now.ns) <= TOLERANCE + (now.ns - anchor.ns) / 1_000
    }

    fn measure(&self, from: ClockReading, to: ClockReading) {
        let ns = u128::from(to.ns - from.ns);
        let ticks = u128::from(to.ticks.wrapping_sub(from.ticks)).max(1);
        let factor = u64::try_from((ns << 32) / ticks).unwrap_or(0);
        self.factor.set(factor);
        let span = (u128::from(SPAN) << 32) / u128::from(factor.max(1));
        self.good_for.set(span as u64);
        self.anchor.set(to);
        self.base.set(to);
    }
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has it, and programs may use it: see
    // `is_steady()`.
    unsafe { _rdtsc() }
}

#[inline]
fn scale(ticks: u64, factor: u64) -> u64 {
    ((u128::from(ticks) * u128::from(factor)) >> 32) as u64
}

/// Whether the counter may be used, and as a clock.
fn is_steady() -> bool {
    static STEADY: OnceLock<bool> = OnceLock::new();
    *STEADY.get_or_init(|| {
        if time_stamp_counter_readability() != Ok(TimeStampCounterReadability::Readable) {
            return false;
        }
        let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let used = std::fs::read_to_string(file);
        used.is_ok_and(|name| name.trim() == "tsc") && is_invariant()
    })
}

/// What Linux calls constant_tsc and nonstop_tsc.
fn is_invariant() -> bool {
    const POWER: u32 = 0x8000_0007;
    // SAFETY: every processor of this architecture has the instruction; some compilers know that.
    #[allow(unused_unsafe)]
    let leaf = |leaf| unsafe { __cpuid(leaf) };
    leaf(0x8000_0000).eax >= POWER && leaf(POWER).edx & 1 << 8 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter's time, which must lie between what the clock says before and after.
    fn checked(counter: &Counter, tolerance: u64) -> u64 {
        let (before, now, after) = (monotonic(), counter.now(), monotonic());
        let fits = now + tolerance >= before && now <= after + tolerance;
        assert!(fits, "{now} in {before}..{after}");
        now
    }

    #[test]
    fn it_is_the_clock_and_never_goes_back() {
        let counter = Counter::default();
        let start = checked(&counter, TOLERANCE);
        let (mut last, mut anchors, mut anchor) = (start, 0, 0);
        while last < start + 1_000_000_000 {
            let now = checked(&counter, TOLERANCE);
            assert!(now >= last, "{now} after {last}");
            last = now;
            if counter.anchor.get().ns != anchor {
                anchor = counter.anchor.get().ns;
                anchors += 1;
            }
        }
        assert_eq!(anchors > 0, is_steady());
        assert!(!is_steady() || counter.bad_factors_left.get() > 0);
    }

    #[test]
    fn a_counter_that_is_not_steady_is_found_out() {
        let counter = Counter::default();
        if !is_steady() {
            return;
        }
        for bad_factors_left in (0..MAX_BAD_FACTORS).rev() {
            while counter.good_for.get() == 0 {
                checked(&counter, 0);
            }
            // As if it went at another rate than when it was measured: 2 % slower. Never the
            // clock's fault.
            counter.factor.set(counter.factor.get() / 100 * 98);
            while counter.good_for.get() != 0 {
                checked(&counter, SPAN);
            }
            assert_eq!(counter.bad_factors_left.get(), bad_factors_left);
        }
        assert_eq!(counter.factor.get(), 0);
        for _ in 0..100 {
            checked(&counter, 0);
        }
    }
}
