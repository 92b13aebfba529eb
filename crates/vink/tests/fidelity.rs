//! TCP over a wire's impairments behaves as over Linux's own netem with the same settings, and in virtual time as by the host's clock.

mod common;

use common::control::Control;
use common::lab::{slope, Up};
use common::{root, Place};
use vink_series::{Cell, Format};

/// Bits per second that a connection delivers from `east`, of whose wires one does by itself what netem(8) does
/// at the ends of the other.
fn rates(lab: &Up<'_>, congestion: &str) -> [f64; 2] {
    [("wire", "10.1.0.2"), ("netem", "10.2.0.2")].map(|(name, server)| {
        let file = format!("{congestion}-{name}.csv");
        let line = format!(
            "python3 ../../sample.py --seconds 8 --congestion {congestion} --server {server} >../../../{file}"
        );
        lab.on("east", &line);
        8.0 * slope(&lab.column(&file, "acked"))
    })
}

#[test]
fn a_wire_is_as_netem() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "tests/netem");
    let [wire, netem] = rates(&lab, "bbr");
    assert!(
        (0.8..1.25).contains(&(wire / netem)),
        "BBR: {wire}, {netem} bit/s"
    );
    // Some 30 losses in 8 s, each of which halves a window: a fifth of the rate is chance.
    let [wire, netem] = rates(&lab, "cubic");
    assert!(
        (0.4..2.5).contains(&(wire / netem)),
        "CUBIC: {wire}, {netem} bit/s"
    );
}

/// Seconds that a transfer takes.
const SECONDS: &str = "6";
/// A transfer: its lab, from which machine, to whom, with which congestion control, and past which queue.
const TRANSFERS: [(&str, &str, &str, &str, Option<&str>); 4] = [
    ("lossy-wan", "east", "10.1.0.2", "cubic", None),
    ("lossy-wan", "east", "10.2.0.2", "bbr", None),
    (
        "bufferbloat",
        "client-pfifo",
        "10.1.2.2",
        "cubic",
        Some("router-pfifo:eth1"),
    ),
    (
        "bufferbloat",
        "client-codel",
        "10.2.2.2",
        "cubic",
        Some("router-codel:eth1"),
    ),
];

/// What a transfer looked like, 20 times a second from its first 100 kB on.
#[derive(Debug)]
struct Trace {
    /// Bits per second.
    rate: f64,
    /// Segments that may be under way, and the round trip in ms.
    window: Vec<f64>,
    trip: Vec<f64>,
    /// Packets that wait in front of the wire; none: of no queue.
    queue: Vec<f64>,
}

/// All transfers of a lab, by this clock.
fn transfers(place: &Place, lab: &str, time: &str, seed: u32) -> Vec<Trace> {
    let control = Control::of(place);
    let text = std::fs::read_to_string(root().join(format!("labs/{lab}/lab.yaml"))).expect(lab);
    let lines = text.lines().filter(|line| !line.starts_with("seed: "));
    let lines: Vec<&str> = lines.collect();
    control.write("lab.yaml", &format!("seed: {seed}\n{}\n", lines.join("\n")));
    control.vink(&["lab", "up", "--time", time]);
    let own = TRANSFERS.iter().filter(|transfer| transfer.0 == lab);
    let traces = own.map(|(_, machine, server, congestion, queue)| {
        let of = |field| format!("{field}=tcp {machine} {field} {server}:");
        let queue = queue.map(|queue| format!("queue=qdisc {queue} qlen"));
        let columns = [of("bytes_acked"), of("snd_cwnd"), of("srtt_us")];
        let mut words = vec!["series", "add", "--every", "50ms", "-o", "trace.csv"];
        words.extend(columns.iter().chain(&queue).map(String::as_str));
        control.vink(&words);
        let iperf = ["iperf3", "-c", server, "-t", SECONDS, "-C", congestion];
        control.vink(&[&["exec", machine, "--"][..], &iperf].concat());
        control.vink(&["series", "rm", "trace"]);
        trace(&std::fs::read(control.folder().join("trace.csv")).expect("trace.csv"))
    });
    let traces = traces.collect();
    control.vink(&["lab", "down"]);
    traces
}

fn trace(csv: &[u8]) -> Trace {
    let table = vink_series::read(Format::Csv, csv).expect("CSV");
    let number = |cell: Option<&Cell>| match cell {
        Some(Cell::Number(number)) => Some(*number),
        _ => None,
    };
    let rows: Vec<&Vec<Cell>> = table
        .rows
        .iter()
        .filter(|row| number(row.get(1)).is_some_and(|acked| acked > 1e5))
        .collect();
    let column =
        |at: usize| -> Vec<f64> { rows.iter().filter_map(|r| number(r.get(at))).collect() };
    let (time, acked) = (column(0), column(1));
    let last = time.len() - 1;
    Trace {
        rate: 8.0 * (acked[last] - acked[0]) / (time[last] - time[0]),
        window: column(2),
        trip: column(3).into_iter().map(|us| us / 8e3).collect(),
        queue: column(4),
    }
}

/// The middle one.
fn middle(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The largest distance between the distributions of two samples (Kolmogorov and Smirnov's).
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let below = |all: &[f64], x: f64| {
        all.iter().filter(|value| **value <= x).count() as f64 / all.len() as f64
    };
    let both = a.iter().chain(b);
    both.map(|x| (below(a, *x) - below(b, *x)).abs())
        .fold(0.0, f64::max)
}

/// How often the host's clock is asked before its answer is believed.
const TRIES: u32 = 8;

/// A run by the host's clock that agrees. What else the host does makes timers late and lets programs wait for a processor, which is
/// no property of the network: one of several tries has to agree.
fn agrees(place: &Place, lab: &str, check: impl Fn(&[Trace]) -> Result<(), String>) {
    let tries = (1..=TRIES).map(|seed| check(&transfers(place, lab, "real", seed)));
    let mut failed = Vec::new();
    for done in tries {
        match done {
            Ok(()) => return,
            Err(why) => failed.push(why),
        }
    }
    panic!("{lab}: {}", failed.join("; "));
}

fn is_in(range: std::ops::Range<f64>, what: &str, found: f64) -> Result<(), String> {
    match range.contains(&found) {
        true => Ok(()),
        false => Err(format!("{what}: {found}")),
    }
}

#[test]
fn virtual_time_is_as_real_time_where_packets_are_lost() {
    let place = &Place::all()[0];
    let runs: Vec<Vec<Trace>> = (1..4)
        .map(|seed| transfers(place, "lossy-wan", "virtual", seed))
        .collect();
    // BBR fills the wire in spite of losses. By the clock of a host that is late it does not, over netem neither.
    for run in &runs {
        assert!((40e6..50e6).contains(&run[1].rate), "{}", run[1].rate);
    }
    let windows: Vec<f64> = runs.iter().flat_map(|run| run[0].window.clone()).collect();
    let rates: Vec<f64> = runs.iter().map(|run| run[0].rate).collect();
    agrees(place, "lossy-wan", |real| {
        // Windows of the same distribution. Some 40 losses in 6 s: a third of the rate is chance.
        is_in(
            0.0..0.3,
            "CUBIC's windows",
            distance(&real[0].window, &windows),
        )?;
        is_in(0.4..2.5, "CUBIC's rate", real[0].rate / middle(&rates))
    });
}

#[test]
fn virtual_time_is_as_real_time_where_packets_wait() {
    let place = &Place::all()[0];
    let runs = transfers(place, "bufferbloat", "virtual", 1);
    let shapes = |run: &[Trace]| {
        let (long, short) = (middle(&run[0].queue), middle(&run[1].queue));
        is_in(5.0..f64::INFINITY, "queue by queue", long / short)?;
        let (long, short) = (middle(&run[0].trip), middle(&run[1].trip));
        is_in(3.0..f64::INFINITY, "trip by trip", long / short)
    };
    shapes(&runs).expect("in virtual time");
    // However large slow start has left a window: what of it has no room on the wire waits.
    let each = |of: &Trace| {
        let both = of.trip.iter().zip(&of.window);
        middle(&both.map(|(trip, window)| trip / window).collect::<Vec<_>>())
    };
    agrees(place, "bufferbloat", |real| {
        shapes(real)?;
        for (real, run) in real.iter().zip(&runs) {
            is_in(0.95..1.05, "rate", real.rate / run.rate)?;
            is_in(0.9..1.1, "trip by window", each(real) / each(run))?;
            let windows = middle(&real.window) / middle(&run.window);
            is_in(0.6..1.7, "window", windows)?;
        }
        Ok(())
    });
}
