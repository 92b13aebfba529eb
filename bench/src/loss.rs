//! What random loss leaves of TCP's rate: iperf3 with CUBIC over a wire of 1 Gbit/s and a round trip of 20 ms, in virtual time,
//! by the host's clock, and by the model.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use vink_kernel::{
    find_image, Attachment, Clock, Config, Image, Kernel, Loss, WireKind, WireSettings,
};
use vink_lab::Machine;
use vink_trap::{Program, Status, Stdio, Worker};

use crate::programs::Directory;
use crate::BoxError;

/// Of a packet, that it is lost.
const LOSSES: [f64; 4] = [0.0, 1e-4, 1e-3, 1e-2];
const RATE: u64 = 1_000_000_000;
const DELAY: Duration = Duration::from_millis(10);
/// Payload of a segment, and its frame, in bytes.
const SEGMENT: f64 = 1448.0;
const FRAME: f64 = 1514.0;
/// Of the kernel of both machines.
const ARENA: u64 = 512 << 20;

/// A way to run it: the clock, runs with a seed each, and how many seconds each of them takes.
struct Way {
    clock: Clock,
    runs: u8,
    seconds: u32,
}

/// Long enough for several losses at a time at the least rate.
const VIRTUAL: Way = Way {
    clock: Clock::Virtual,
    runs: 3,
    seconds: 30,
};
const REAL: Way = Way {
    clock: Clock::Real,
    runs: 3,
    seconds: 20,
};

/// Measures, prints, and writes both files.
pub(crate) fn table(json: &Path, page: &Path) -> Result<(), BoxError> {
    let mut rows = Vec::new();
    println!(
        "{:>8} {:>10} {:>10} {:>10}  Mbit/s",
        "loss", "model", "virtual", "real"
    );
    for loss in LOSSES {
        let (by_virtual, by_real) = (rates(&VIRTUAL, loss)?, rates(&REAL, loss)?);
        let model = model(loss);
        let [a, b] = [&by_virtual, &by_real].map(|rates| middle(rates));
        println!("{:>7}% {model:>10.1} {a:>10.1} {b:>10.1}", loss * 100.0);
        rows.push((loss, model, by_virtual, by_real));
    }
    let values: Vec<_> = rows
        .iter()
        .map(|(loss, model, by_virtual, by_real)| {
            json!({"loss": loss, "model": model, "virtual": by_virtual, "real": by_real})
        })
        .collect();
    fs::write(json, serde_json::to_string_pretty(&values)? + "\n")?;
    let mut lines = String::new();
    for (loss, model, by_virtual, by_real) in &rows {
        let list = |rates: &[f64]| {
            let words: Vec<_> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
            words.join(", ")
        };
        let (by_virtual, by_real) = (list(by_virtual), list(by_real));
        let percent = loss * 100.0;
        writeln!(
            lines,
            "| {percent} % | {model:.1} | {by_virtual} | {by_real} |"
        )?;
    }
    fs::write(page, PAGE.replace("ROWS\n", &lines))?;
    Ok(())
}

const PAGE: &str = "# What loss leaves of TCP's rate

Written by `make loss`, as is [bench/loss.json](../bench/loss.json): one stream of iperf3 with CUBIC
over a wire of 1 Gbit/s with a round trip of 20 ms that loses packets at random, in Mbit/s received.
In virtual time three seeds, 30 s each. By the host's clock three seeds, 20 s each (8 s without
loss), beside whatever else the machine did then.

The model is RFC 9438's (section 5): the average window is the larger one of CUBIC's own and of its
Reno-friendly region, as far as the wire can carry it.

| loss | model | virtual time | the host's clock |
|---|---|---|---|
ROWS

The model has one loss per fixed number of packets, at equal distances, and no time-outs, slow start
or delayed acknowledgements. A simulator with a TCP of its own and Reno has 955, 113, 29 and 3.6
here (Shadow's figures, quoted).
";

/// Mbit/s by RFC 9438, equations 5 and 6 of section 5.1, with C = 0.4 and beta = 0.7.
fn model(loss: f64) -> f64 {
    let most = RATE as f64 / 1e6 * SEGMENT / FRAME;
    if loss == 0.0 {
        return most;
    }
    let (c, beta) = (0.4f64, 0.7);
    let trip = 2.0 * DELAY.as_secs_f64();
    let cubic = (c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25) * (trip / loss).powf(0.75);
    let alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    let friendly = (alpha * (1.0 + beta) / (2.0 * (1.0 - beta) * loss)).sqrt();
    most.min(cubic.max(friendly) * SEGMENT * 8.0 / trip / 1e6)
}

fn middle(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn rates(way: &Way, loss: f64) -> Result<Vec<f64>, BoxError> {
    (1..=way.runs).map(|seed| rate(way, loss, seed)).collect()
}

/// Without loss there is nothing to be averaged, and each packet of a full wire is one more that wakes its reader.
const WITHOUT_LOSS: u32 = 8;

/// Mbit/s of one run.
fn rate(way: &Way, loss: f64, seed: u8) -> Result<f64, BoxError> {
    let config = Config {
        arena_bytes: ARENA,
        seed: Some([seed; 32]),
        clock: way.clock,
        ..Config::default()
    };
    let mut kernel = Kernel::boot(Image::open(&find_image()?)?, config)?;
    let client = Machine::new(&mut kernel, "client")?;
    let server = Machine::new(&mut kernel, "server")?;
    let wire = kernel.wire(WireKind::PointToPoint)?;
    let mut sends = None;
    for (machine, address) in [(&client, [10, 0, 0, 1]), (&server, [10, 0, 0, 2])] {
        let attachment = Attachment {
            interface: "eth0",
            ..Attachment::default()
        };
        let end = kernel.attach(wire, machine.id, attachment)?;
        sends.get_or_insert(end);
        let network = &machine.network;
        network.address(&mut kernel, "eth0", address.into(), 24)?;
        network.up(&mut kernel, "eth0")?;
    }
    let settings = WireSettings {
        rate: RATE,
        delay: DELAY,
        ..WireSettings::default()
    };
    kernel.set_wire(wire, None, &settings)?;
    // The acknowledgements' way loses nothing.
    let lossy = WireSettings {
        loss: Loss::Random(loss),
        ..settings
    };
    kernel.set_wire(wire, sends, &lossy)?;
    let directory = Directory::new()?;
    let output = directory.path().join("output");
    let mut worker = Worker::new(kernel)?;
    let program = |line: &str| {
        let mut words = line.split_whitespace();
        let program = Program::new(words.next().unwrap_or_default());
        program.args(words).stdin(Stdio::Null)
    };
    let listen = program("iperf3 --server --one-off").stdout(Stdio::Null);
    let listening = worker.spawn(server.id, listen)?;
    let seconds = match loss {
        0.0 => WITHOUT_LOSS,
        _ => way.seconds,
    };
    // A client that comes before the server listens is refused, and tries again.
    let line = format!(
        "for n in 1 2 3 4 5 6 7 8 9; do iperf3 --client 10.0.0.2 --congestion cubic --time {seconds} --json && exit; sleep 1; done; exit 1"
    );
    let client_program = Program::new("sh").args(["-c", &line]).stdin(Stdio::Null);
    let file = fs::File::create(&output)?;
    let sending = worker.spawn(client.id, client_program.stdout(Stdio::Fd(file.into())))?;
    for id in [sending, listening] {
        match worker.wait(id)? {
            Status::Exited(0) => {}
            status => return Err(format!("iperf3: {status:?}").into()),
        }
    }
    let text = fs::read_to_string(&output)?;
    // Those that were refused have said so in front.
    let last = text.rfind("\n{\n").map_or(0, |at| at + 1);
    let value: serde_json::Value = serde_json::from_str(&text[last..])?;
    let rate = value["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.map(|rate| rate / 1e6)
        .ok_or_else(|| format!("no figure in:\n{text}").into())
}
