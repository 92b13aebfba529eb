//! Bytes by time: an amount for each interval since the start.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// So many intervals are kept at most; what comes later counts for the last one.
const MOST: usize = 100_000;

/// How much came in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// When it begins, in seconds since the start.
    pub start: f64,
    /// Bytes.
    pub bytes: u64,
    /// Bits per second over the whole interval.
    pub rate: f64,
}

/// Sums by interval; none are kept if there is no length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    length: Option<Duration>,
    sums: Vec<u64>,
}

impl Series {
    pub fn new(length: Option<Duration>) -> Series {
        Series {
            length: length.filter(|l| !l.is_zero()),
            sums: Vec::new(),
        }
    }

    /// So many bytes, so long after the start.
    pub fn add(&mut self, since: Duration, bytes: u64) {
        let Some(length) = self.length else { return };
        let at = (since.as_nanos() / length.as_nanos()).min(MOST as u128 - 1) as usize;
        if at >= self.sums.len() {
            self.sums.resize(at + 1, 0);
        }
        self.sums[at] += bytes;
    }

    pub fn intervals(&self) -> Vec<Interval> {
        let length = self.length.map_or(0.0, |l| l.as_secs_f64());
        let interval = |(at, bytes): (usize, &u64)| Interval {
            start: at as f64 * length,
            bytes: *bytes,
            rate: *bytes as f64 * 8.0 / length,
        };
        self.sums.iter().enumerate().map(interval).collect()
    }
}
