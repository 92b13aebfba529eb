//! docs/fidelity.md, which `make fidelity` writes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::compare::{Bound, MOST_SPREAD};
use super::transfer::Run;
use super::Plan;

/// What was compared, and how far apart it was.
pub fn text(plan: &Plan, bounds: &[Bound], real: &[BTreeMap<u32, Vec<Run>>]) -> String {
    let mut rows = String::new();
    for bound in bounds {
        let (by_host, by_own) = match bound.values {
            Some((by_host, by_own, unit)) => (
                format!("{by_host:.2} {unit}"),
                format!("{by_own:.2} {unit}"),
            ),
            None => (String::new(), String::new()),
        };
        let [spread, off, most] = [bound.spread, bound.off, bound.most()].map(|part| 1e2 * part);
        writeln!(
            rows,
            "| {} | {} | {by_host} | {by_own} | {spread:.1} % | {off:.1} % | {most:.1} % |",
            bound.transfer, bound.number
        )
        .expect("a string");
    }
    let missed = real
        .iter()
        .flat_map(BTreeMap::values)
        .flatten()
        .map(|run| 1e2 * run.missed);
    let missed = missed.fold(0.0, f64::max);
    PAGE.replace("ROWS\n", &rows)
        .replace("SEEDS", &plan.seeds.to_string())
        .replace("EACH", &plan.each.to_string())
        .replace("MISSED", &format!("{missed:.1}"))
        .replace("MOST", &MOST_SPREAD.to_string())
}

const PAGE: &str = "# Virtual time beside the host's clock

Written by `make fidelity`; a shorter form of it is a test (`crates/vink/tests/fidelity`).

The transfers of the ready labs [lossy-wan](../labs/lossy-wan/README.md) and
[bufferbloat](../labs/bufferbloat/README.md), iperf3 for 6 s each, run with SEEDS seeds: once in
virtual time, EACH times by the host's clock. The wires lose the same packets in all runs with one
seed, so runs are compared one by one. 20 times a second a time series samples the delivered bytes,
the congestion window, the round trip and the queue.

By the host's clock no two runs are the same, because the host is always a little late. The *spread*
is how far the farthest run is from the others with its seed. In virtual time a run may be *off* by
at most the sum of two parts (*at most*):

- a margin stated beforehand, 5 % of rates and round trips and 15 % of windows and queues, for the
  processor time that the host takes for itself in all of its runs,
- the spread, of which no more counts than MOST margins.

Numbers are means over a run, the middle of all. A curve is off by the area between two curves, as a
share of the area below them.

| transfer | what | host's clock | virtual time | spread | off | at most |
|---|---|---|---|---|---|---|
ROWS

A busy host spoils its runs. BBR reaches a tenth of its rate when timers are 10 ms late, and CUBIC's
slow start ends elsewhere. So the runs are scheduled first (nice -20, which only root may ask for),
and the kernel has a task each millisecond that is recorded. A run counts if at most 3 % of these
are missing (here MISSED %), and never for longer than 40 ms. The run's own results do not decide. A
test shows that the bounds are tight: with 2 % loss instead of 1 %, or 13 ms of delay instead of 10,
they do not hold.
";
