//! Times of round trips and what is said of them, as ping(8) does.

use std::time::Duration;

/// Sums over round trips.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundTrips {
    count: u64,
    min: u128,
    max: u128,
    sum: u128,
    squares: u128,
}

impl RoundTrips {
    pub fn add(&mut self, time: Duration) {
        let ns = time.as_nanos();
        self.min = if self.count == 0 {
            ns
        } else {
            self.min.min(ns)
        };
        self.max = self.max.max(ns);
        self.count += 1;
        self.sum += ns;
        self.squares += ns * ns;
    }

    /// Minimum, mean, maximum and standard deviation, in seconds.
    pub fn summary(&self) -> [f64; 4] {
        if self.count == 0 {
            return [0.0; 4];
        }
        let n = u128::from(self.count);
        // Whole numbers: nothing is lost when the mean is large and the deviation small.
        let variance = (n * self.squares - self.sum * self.sum) as f64 / (n * n) as f64;
        let mean = self.sum as f64 / n as f64;
        [self.min as f64, mean, self.max as f64, variance.sqrt()].map(|ns| ns / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_four() {
        let mut times = RoundTrips::default();
        assert_eq!(times.summary(), [0.0; 4]);
        for ms in [1, 2, 3, 4] {
            times.add(Duration::from_millis(ms));
        }
        let [min, avg, max, mdev] = times.summary();
        assert_eq!((min, avg, max), (0.001, 0.0025, 0.004));
        assert!((mdev - 0.001_118_034).abs() < 1e-9, "{mdev}");
    }
}
