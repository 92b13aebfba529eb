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

Written by `make fidelity`; a shorter form of it is a test (`crates/vink/tests/fidelity`). The transfers of the ready labs
[lossy-wan](../labs/lossy-wan/README.md) and [bufferbloat](../labs/bufferbloat/README.md), iperf3 for 6 s each, with SEEDS seeds: once in virtual time, EACH times by the
host's clock. The wires lose the same packets in all runs with one seed, so that run is compared with run. 20 times a second a time series
looks at what was delivered, at the congestion window, the round trip and the queue.

By the host's clock no two runs are the same, for the host is late by a little. How far a run is from the others with its
seed is the *spread*, of the farthest one. In virtual time a run may be *off* by a margin stated
beforehand, 5 % of rates and round trips and 15 % of windows and queues, for what the host takes for itself in all of its runs, and by that spread, of which
no more counts than MOST margins: together *at most*. Numbers are
means over a run, the middle of all; a curve is off by the area between two, as a share of the area below them.

| transfer | what | host's clock | virtual time | spread | off | at most |
|---|---|---|---|---|---|---|
ROWS

A busy host spoils its runs: BBR comes to a tenth of its rate when timers are 10 ms late, CUBIC's slow start ends elsewhere. So they are served first
(nice -20, which only root may ask for), and each ms the kernel has something to do that is written down: a run counts if no more
than 3 % of that is missing (here MISSED %), and if it never is for longer than 40 ms. How the run went is not asked. That the bounds are tight
is tested, too: with 2 % loss instead of 1 %, or 13 ms of delay instead of 10, they do not hold.
";
