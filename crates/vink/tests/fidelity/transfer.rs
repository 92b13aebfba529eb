//! The ready labs' transfers, by either clock: what is measured of them, and whether the host let them.

use std::process::Child;

use vink_timeseries::{Cell, Format, Table};

use super::common::control::Control;
use super::common::{root, Place};

/// A ready lab, and what is sent in it at the same time.
pub struct Lab {
    pub name: &'static str,
    pub transfers: &'static [Transfer],
    /// The same with another network, which must be told apart.
    pub another: Another,
}

/// From which machine, to which, with which congestion control, and past which queue.
pub struct Transfer {
    pub name: &'static str,
    machine: &'static str,
    server: &'static str,
    congestion: &'static str,
    queue: Option<&'static str>,
}

/// A line of the lab's file that is another one, and what shows that: of which transfer, which number.
pub struct Another {
    from: &'static str,
    to: &'static str,
    pub told_by: (&'static str, &'static str),
}

pub const LABS: [Lab; 2] = [
    Lab {
        name: "lossy-wan",
        transfers: &[
            Transfer {
                name: "CUBIC, 1 % loss",
                machine: "east",
                server: "10.1.0.2",
                congestion: "cubic",
                queue: None,
            },
            Transfer {
                name: "BBR, 1 % loss",
                machine: "east",
                server: "10.2.0.2",
                congestion: "bbr",
                queue: None,
            },
        ],
        another: Another {
            from: "loss: 1%",
            to: "loss: 2%",
            told_by: ("CUBIC, 1 % loss", "rate"),
        },
    },
    Lab {
        name: "bufferbloat",
        transfers: &[
            Transfer {
                name: "CUBIC, pfifo",
                machine: "client-pfifo",
                server: "10.1.2.2",
                congestion: "cubic",
                queue: Some("router-pfifo:eth1"),
            },
            Transfer {
                name: "CUBIC, fq_codel",
                machine: "client-codel",
                server: "10.2.2.2",
                congestion: "cubic",
                queue: Some("router-codel:eth1"),
            },
        ],
        another: Another {
            from: "delay: 10ms",
            to: "delay: 13ms",
            told_by: ("CUBIC, fq_codel", "round trip"),
        },
    },
];

/// By which clock, and in virtual time over which network.
#[derive(Clone, Copy, PartialEq)]
pub enum Time {
    Real,
    Virtual,
    Another,
}

/// How long each transfer takes, in seconds.
const SECONDS: &str = "6";
/// How often it is looked at, in seconds: from its first bytes on.
const EVERY: f64 = 0.05;
const FIRST: f64 = 1e5;
/// How often the kernel has something to do besides, so that it is seen how late the host lets it.
const LOOK: f64 = 1e-3;
/// Of these looks, how many may be missing, for they come more than once too late; and for how long there may be none: two of the
/// shortest round trip.
const MOST_MISSED: f64 = 0.03;
const LONGEST: f64 = 0.04;

/// What happened in a lab.
#[derive(Clone)]
pub struct Run {
    pub traces: Vec<Trace>,
    /// Of the looks, how many are missing, and the longest time without one, in seconds.
    pub missed: f64,
    pub longest: f64,
}

/// What a transfer looked like; times in seconds, from 0.
#[derive(Clone)]
pub struct Trace {
    pub time: Vec<f64>,
    /// Bytes.
    pub delivered: Vec<f64>,
    /// Segments that may be under way, and the round trip in ms.
    pub window: Vec<f64>,
    pub trip: Vec<f64>,
    /// Packets that wait in front of the wire; none: of no queue.
    pub queue: Vec<f64>,
}

impl Run {
    /// Why this is not what the network does: the host had other things to do.
    pub fn spoilt(&self) -> Option<String> {
        let (missed, longest) = (self.missed, self.longest);
        let is_spoilt = missed > MOST_MISSED || longest > LONGEST;
        is_spoilt.then(|| {
            format!(
                "{:.1} % of what was due each ms was not done in time, for {:.0} ms on end",
                1e2 * missed,
                1e3 * longest
            )
        })
    }
}

/// All transfers of these labs at once, by this clock.
pub fn transfer(place: &Place, labs: &[&Lab], time: Time, seed: u32) -> Vec<Run> {
    let control = Control::of(place);
    for lab in labs {
        begin(&control, lab, time, seed);
    }
    let all = labs
        .iter()
        .flat_map(|lab| lab.transfers.iter().map(move |of| (lab, of)));
    let running: Vec<Child> = all
        .map(|(lab, transfer)| {
            control.start(&[
                "exec",
                "--lab",
                lab.name,
                transfer.machine,
                "--",
                "iperf3",
                "-c",
                transfer.server,
                "-t",
                SECONDS,
                "-C",
                transfer.congestion,
            ])
        })
        .collect();
    for client in running {
        let ended = client.wait_with_output().expect("iperf3");
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "iperf3: {said}");
    }
    control.vink(&["lab", "down", "--all"]);
    labs.iter().map(|lab| run(&control, lab, time)).collect()
}

/// Puts a lab up that is looked at.
fn begin(control: &Control<'_>, lab: &Lab, time: Time, seed: u32) {
    let file = root().join(format!("labs/{}/lab.yaml", lab.name));
    let text = std::fs::read_to_string(file).expect(lab.name);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("seed: "))
        .collect();
    let mut text = format!("seed: {seed}\n{}\n", lines.join("\n"));
    if time == Time::Another {
        assert!(text.contains(lab.another.from), "{text}");
        text = text.replace(lab.another.from, lab.another.to);
    }
    let file = format!("{}.yaml", lab.name);
    control.write(&file, &text);
    let clock = match time {
        Time::Real => "real",
        Time::Virtual | Time::Another => "virtual",
    };
    control.vink(&["lab", "up", &file, "--time", clock]);
    for (at, transfer) in lab.transfers.iter().enumerate() {
        let of = |field| {
            format!(
                "{field}=tcp {} {field} {}:",
                transfer.machine, transfer.server
            )
        };
        let mut columns = vec![of("bytes_acked"), of("snd_cwnd"), of("srtt_us")];
        columns.extend(
            transfer
                .queue
                .map(|queue| format!("queue=qdisc {queue} qlen")),
        );
        let every = format!("{:.0}ms", 1e3 * EVERY);
        look(control, lab, &every, &at.to_string(), &columns);
    }
    if time == Time::Real {
        let sent = format!("sent=wire {}:eth0 sent", lab.transfers[0].machine);
        look(
            control,
            lab,
            &format!("{:.0}ms", 1e3 * LOOK),
            "looks",
            &[sent],
        );
    }
}

fn file(lab: &Lab, name: &str) -> String {
    format!("{}-{name}.csv", lab.name)
}

fn look(control: &Control<'_>, lab: &Lab, every: &str, name: &str, columns: &[String]) {
    let file = file(lab, name);
    let mut words = vec![
        "series", "add", "--lab", lab.name, "--every", every, "-o", &file,
    ];
    words.extend(columns.iter().map(String::as_str));
    control.vink(&words);
}

fn number(cell: Option<&Cell>) -> Option<f64> {
    match cell {
        Some(Cell::Number(number)) => Some(*number),
        _ => None,
    }
}

fn table(control: &Control<'_>, lab: &Lab, name: &str) -> Table {
    let file = file(lab, name);
    let csv = std::fs::read(control.folder().join(&file)).expect(&file);
    vink_timeseries::read(Format::Csv, &csv).expect(&file)
}

fn run(control: &Control<'_>, lab: &Lab, time: Time) -> Run {
    let (mut begin, mut end) = (f64::INFINITY, 0.0_f64);
    let mut traces = Vec::new();
    for at in 0..lab.transfers.len() {
        let trace = trace(&table(control, lab, &at.to_string()));
        begin = begin.min(trace.time[0]);
        end = end.max(trace.time[trace.time.len() - 1]);
        traces.push(trace.beginning_at_zero());
    }
    let (mut missed, mut longest) = (0.0, 0.0);
    if time == Time::Real {
        let looks = table(control, lab, "looks");
        let times = looks.rows.iter().filter_map(|row| number(row.first()));
        let times: Vec<f64> = times.filter(|time| (begin..=end).contains(time)).collect();
        missed = 1.0 - times.len() as f64 * LOOK / (end - begin);
        let gaps = times.windows(2).map(|two| two[1] - two[0]);
        longest = gaps.fold(0.0, f64::max);
    }
    Run {
        traces,
        missed,
        longest,
    }
}

fn trace(table: &Table) -> Trace {
    let rows = table.rows.iter();
    let rows: Vec<&Vec<Cell>> = rows
        .filter(|row| number(row.get(1)).is_some_and(|acked| acked > FIRST))
        .collect();
    let column =
        |at: usize| -> Vec<f64> { rows.iter().filter_map(|row| number(row.get(at))).collect() };
    assert!(rows.len() > 20, "{} looks at a transfer", rows.len());
    Trace {
        time: column(0),
        delivered: column(1),
        window: column(2),
        trip: column(3).into_iter().map(|us| us / 8e3).collect(),
        queue: column(4),
    }
}

impl Trace {
    fn beginning_at_zero(mut self) -> Trace {
        let first = self.time[0];
        for time in &mut self.time {
            *time -= first;
        }
        self
    }

    /// Mbit/s.
    pub fn rate(&self) -> f64 {
        let last = self.time.len() - 1;
        8e-6 * (self.delivered[last] - self.delivered[0]) / (self.time[last] - self.time[0])
    }

    /// A column as a function of time: what was found at the last look before each time, as long as both this and
    /// another trace last.
    pub fn course(&self, column: &[f64], until: f64) -> Vec<f64> {
        let steps = (until / EVERY) as usize;
        let mut at = 0;
        (0..=steps)
            .map(|step| {
                let now = (step as f64 + 0.5) * EVERY;
                while at + 1 < self.time.len() && self.time[at + 1] <= now {
                    at += 1;
                }
                column[at]
            })
            .collect()
    }

    pub fn lasts(&self) -> f64 {
        self.time[self.time.len() - 1]
    }
}
