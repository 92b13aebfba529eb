//! A processor's time of crossings: this thread's, and that of the pod's process.
//!
//! Theory of operation: one of both runs at any time, so a crossing has taken the time that has passed,
//! unless other threads had the processor meanwhile. The host's kernel knows, and is asked seldom, since a
//! system call is much beside a crossing: after one that took unusually long, and at times. What was charged
//! too much until then is credited.

use std::time::Duration;

/// The kernel is asked after a crossing that was inside for longer than this many quarters of a usual one.
const LONG: u32 = 5;
/// And after so much time inside the wall.
const ASKED_AFTER: Duration = Duration::from_millis(10);
/// What the kernel takes at most to switch to a process and back, with cold caches.
const SWITCHES: Duration = Duration::from_micros(20);

/// What a pod's process has used, as far as it was asked for.
#[derive(Default)]
pub(super) struct Usage {
    /// How long the process had run when the kernel was asked last; `None`: it never was.
    ran: Option<Duration>,
    /// How long crossings were inside the wall since then, and how often.
    inside: Duration,
    times: u32,
    /// The same of this crossing.
    now_inside: Duration,
    /// The average of crossings, as charged.
    usual: Duration,
    /// What was charged too much.
    credit: Duration,
}

impl Usage {
    /// The wall was crossed both ways, which took so long.
    #[inline]
    pub(super) fn was_inside(&mut self, time: Duration) {
        self.inside += time;
        self.now_inside += time;
        self.times = self.times.saturating_add(1);
    }

    /// A crossing begins whose time will be asked for; `ran` says how long the process has run.
    pub(super) fn begin(&mut self, ran: impl FnOnce() -> Duration) {
        self.now_inside = Duration::ZERO;
        if self.ran.is_none() {
            self.ran = Some(ran());
            (self.inside, self.times) = (Duration::ZERO, 0);
        }
    }

    /// A processor's time of the crossing, which took so long; `ran` says nothing of a process that
    /// has ended.
    pub(super) fn of(
        &mut self,
        elapsed: Duration,
        ran: impl FnOnce() -> Option<Duration>,
    ) -> Duration {
        if self.inside >= ASKED_AFTER || self.now_inside > LONG * self.usual / 4 {
            if let (Some(ran), Some(before)) = (ran(), self.ran) {
                let most = ran.saturating_sub(before) + SWITCHES * self.times;
                self.credit += self.inside.saturating_sub(most);
                self.ran = Some(ran);
                (self.inside, self.times) = (Duration::ZERO, 0);
            }
        }
        // What this thread does by itself is not disturbed often.
        let credited = self.credit.min(self.now_inside);
        self.credit -= credited;
        self.usual = (7 * self.usual + self.now_inside - credited) / 8;
        elapsed.saturating_sub(credited)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A crossing of so many ms, of which the process runs so many; it had run so long before.
    fn cross(usage: &mut Usage, inside: u32, runs: u32, ran: &mut Duration) -> Duration {
        usage.begin(|| *ran);
        usage.was_inside(inside * MS);
        *ran += runs * MS;
        usage.of(inside * MS + MS / 2, || Some(*ran))
    }

    #[test]
    fn what_others_took_is_not_charged() {
        let (mut usage, mut ran) = (Usage::default(), 7 * MS);
        // Those before the first that is asked for are not looked at.
        usage.was_inside(50 * MS);
        for _ in 0..30 {
            assert_eq!(cross(&mut usage, 4, 4, &mut ran), 4 * MS + MS / 2);
        }
        // Another thread has the processor for 9 ms: unusually long.
        let time = cross(&mut usage, 13, 4, &mut ran);
        assert!(4 * MS < time && time < 5 * MS, "{time:?}");
        // For 2 ms, three times: in the end all is credited.
        let three: Duration = (0..3).map(|_| cross(&mut usage, 6, 4, &mut ran)).sum();
        let one = cross(&mut usage, 4, 4, &mut ran);
        let all = three + one;
        assert!(all.abs_diff(4 * (4 * MS + MS / 2)) < MS / 4, "{all:?}");
    }

    #[test]
    fn the_kernel_is_asked_seldom() {
        let mut usage = Usage::default();
        let asked = Cell::new(0);
        for _ in 0..1000 {
            usage.begin(|| MS);
            usage.was_inside(MS / 10);
            usage.of(MS / 10, || {
                asked.set(asked.get() + 1);
                Some(asked.get() * 20 * MS)
            });
        }
        // Until the first ones are usual, and then each hundredth.
        assert!((10..30).contains(&asked.get()), "{}", asked.get());
    }

    #[test]
    fn a_process_that_has_ended_is_charged_by_the_clock() {
        let mut usage = Usage::default();
        usage.begin(|| MS);
        usage.was_inside(30 * MS);
        assert_eq!(usage.of(31 * MS, || None), 31 * MS);
    }
}
