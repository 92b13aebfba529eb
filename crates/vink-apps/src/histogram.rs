//! A histogram of times, exact to 1/64 of each value, for quantiles.

use std::time::Duration;

/// Steps of a power of two.
const STEPS: u32 = 64;

/// How often each time was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// The place of a value: exact below 64 ns, then 64 steps for each power of two.
fn place(ns: u64) -> usize {
    let power = ns.max(1).ilog2().saturating_sub(STEPS.ilog2());
    (u64::from(power * STEPS) + (ns >> power)) as usize
}

/// The middle of what has a place.
fn value(place: usize) -> f64 {
    let place = place as u64;
    let power = (place / u64::from(STEPS)).saturating_sub(1);
    let first = (place - power * u64::from(STEPS)) << power;
    first as f64 + ((1u64 << power) - 1) as f64 / 2.0
}

impl Histogram {
    pub fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = place(ns);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.min = if self.count == 0 {
            ns
        } else {
            self.min.min(ns)
        };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum += u128::from(ns);
    }

    /// The time that this part (0 to 1) of all is not above, in seconds.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        let ns = at.map_or(0.0, value);
        ns.clamp(self.min as f64, self.max as f64) / 1e9
    }

    /// Shortest, mean and longest, in seconds.
    pub fn summary(&self) -> [f64; 3] {
        let mean = self.sum as f64 / self.count.max(1) as f64;
        [self.min as f64, mean, self.max as f64].map(|ns| ns / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_place_near_it() {
        let mut last = 0;
        for ns in (0..1000).chain([4095, 4096, 123_456_789, 1 << 40, u64::MAX / 2]) {
            let at = place(ns);
            assert!(at >= last, "{ns}");
            last = at;
            let error = (value(at) - ns as f64).abs();
            assert!(error <= ns as f64 / 128.0, "{ns}: {}", value(at));
        }
    }

    #[test]
    fn quantiles() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile(0.5), 0.0);
        for ms in 1..=1000 {
            times.add(Duration::from_millis(ms));
        }
        for (part, ms) in [
            (0.0, 1.0),
            (0.5, 500.0),
            (0.9, 900.0),
            (0.99, 990.0),
            (1.0, 1000.0),
        ] {
            let found = times.quantile(part) * 1e3;
            assert!((found - ms).abs() <= ms / 100.0, "{part}: {found}");
        }
        assert_eq!(times.summary(), [0.001, 0.5005, 1.0]);
    }
}
