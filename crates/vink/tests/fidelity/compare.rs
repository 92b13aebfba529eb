//! How far runs in virtual time are from runs by the host's clock, beside how far these are from each other.
//!
//! All runs with one seed lose the same packets, so that they can be compared one by one. By the host's clock they still differ, for the host
//! is late by a little, another one each time. How far a run is from the others with its seed, in the middle, is for the farthest of
//! them the *spread*. A run in virtual time may be no farther from them than that, and a *margin* that is stated beforehand: what
//! the host takes for itself in all of its runs (programs compute, timers are late), which in virtual time is nothing. A spread
//! counts up to a limit, so that no chance makes the bound a wide one; and a network that is another in one line of its lab must be
//! outside of it.

use std::collections::BTreeMap;
use std::fmt;

use super::transfer::{Lab, Run, Trace};

/// How much of a spread counts, in margins.
pub const MOST_SPREAD: f64 = 3.0;

/// What is compared of a transfer, and the margin.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    unit: &'static str,
    margin: f64,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    /// A number: by how much it is larger or smaller (the logarithm of the ratio).
    Number(fn(&Trace) -> f64),
    /// A curve: the area between two, as a share of the one below them.
    Curve(fn(&Trace) -> &[f64]),
}

const MEASURES: [Measure; 6] = [
    Measure {
        name: "rate",
        unit: "Mbit/s",
        margin: 0.05,
        of: Of::Number(Trace::rate),
    },
    Measure {
        name: "round trip",
        unit: "ms",
        margin: 0.05,
        of: Of::Number(|t| mean(&t.trip)),
    },
    Measure {
        name: "window",
        unit: "segments",
        margin: 0.15,
        of: Of::Number(|t| mean(&t.window)),
    },
    Measure {
        name: "queue",
        unit: "packets",
        margin: 0.15,
        of: Of::Number(|t| mean(&t.queue)),
    },
    Measure {
        name: "delivered by time",
        unit: "",
        margin: 0.05,
        of: Of::Curve(|t| &t.delivered),
    },
    Measure {
        name: "window by time",
        unit: "",
        margin: 0.15,
        of: Of::Curve(|t| &t.window),
    },
];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The middle one, or the mean of two.
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}

impl Measure {
    fn distance(&self, a: &Trace, b: &Trace) -> f64 {
        match self.of {
            Of::Number(number) => (number(a) / number(b)).ln().abs(),
            Of::Curve(curve) => {
                let until = a.lasts().min(b.lasts());
                let (a, b) = (a.course(curve(a), until), b.course(curve(b), until));
                let between: f64 = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum();
                2.0 * between / (a.iter().sum::<f64>() + b.iter().sum::<f64>())
            }
        }
    }

    /// How far a run is from these, the middle distance.
    fn distance_to_all<'a>(&self, run: &Trace, all: impl Iterator<Item = &'a Trace>) -> f64 {
        middle(all.map(|other| self.distance(run, other)).collect())
    }

    fn values<'a>(
        &self,
        by_host: impl Iterator<Item = &'a Trace>,
        by_own: impl Iterator<Item = &'a Trace>,
    ) -> Option<(f64, f64, &'static str)> {
        let Of::Number(number) = self.of else {
            return None;
        };
        let (by_host, by_own) = (by_host.map(number).collect(), by_own.map(number).collect());
        Some((middle(by_host), middle(by_own), self.unit))
    }

    fn is_of(&self, trace: &Trace) -> bool {
        self.name != "queue" || !trace.queue.is_empty()
    }
}

/// How far runs in virtual time were from others, and how far they might have been.
#[derive(Debug)]
pub struct Bound {
    pub transfer: &'static str,
    pub number: &'static str,
    /// Of a number: by the host's clock and in virtual time, the middle of all seeds, with its unit.
    pub values: Option<(f64, f64, &'static str)>,
    /// Of runs by the host's clock from each other, at most.
    pub spread: f64,
    pub margin: f64,
    /// Of the farthest run in virtual time.
    pub off: f64,
}

impl Bound {
    pub fn most(&self) -> f64 {
        self.spread.min(MOST_SPREAD * self.margin) + self.margin
    }

    pub fn holds(&self) -> bool {
        self.off <= self.most()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [off, most, spread] = [self.off, self.most(), self.spread].map(|part| 1e2 * part);
        write!(
            f,
            "{}, {}: {off:.1} % off, of at most {most:.1} (runs by the host's clock: {spread:.1})",
            self.transfer, self.number
        )
    }
}

/// Everything that is compared of a lab.
pub fn compare(lab: &Lab, real: &BTreeMap<u32, Vec<Run>>, own: &BTreeMap<u32, Run>) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for (at, transfer) in lab.transfers.iter().enumerate() {
        for measure in MEASURES {
            let (mut spread, mut off) = (0.0_f64, 0.0_f64);
            if !own.values().all(|run| measure.is_of(&run.traces[at])) {
                continue;
            }
            for (seed, runs) in real {
                let traces: Vec<&Trace> = runs.iter().map(|run| &run.traces[at]).collect();
                for (n, one) in traces.iter().enumerate() {
                    let others = traces.iter().enumerate().filter(|(other, _)| *other != n);
                    let far = measure.distance_to_all(one, others.map(|(_, other)| *other));
                    spread = spread.max(far);
                }
                if let Some(run) = own.get(seed) {
                    off = off.max(measure.distance_to_all(&run.traces[at], traces.into_iter()));
                }
            }
            let by_host = real.values().flatten().map(|run| &run.traces[at]);
            let by_own = own.values().map(|run| &run.traces[at]);
            bounds.push(Bound {
                transfer: transfer.name,
                number: measure.name,
                values: measure.values(by_host, by_own),
                spread,
                margin: measure.margin,
                off,
            });
        }
    }
    bounds
}
