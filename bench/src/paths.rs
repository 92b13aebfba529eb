//! Pods: what a path costs its packets, and how long it takes until a path or a pod is gone.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vink_pod::{load, Entry, Limits, Source};
use vink_protocol::{
    Action, Answer, BreakpointScope, Channel, Event, Message, NewInterface, NewMachine, Request,
    WorkerClock, WorkerConfig,
};
use vink_spec::{Breakpoint, Calls, PathSpec, PodSpec, Rights, Wall};
use vink_sys::child::{prepare, Step};

use crate::programs::Directory;
use crate::side::Round;
use crate::{host, BoxError};

/// Counts frames, and lets them pass.
const COUNT: &str = "int32_t pod_packet(uint8_t *f, uint32_t l, uint32_t r, uint32_t d)
{ vink_count(d, 1); vink_count(2 + d, l); return POD_PASS; }";
/// Never ends.
const LOOP: &str = "int32_t pod_stream(const uint8_t *b, uint32_t l, uint32_t f) { for (;;); }";
/// Round trips of one measurement, and how long a flood takes.
const ECHOES: u64 = 50_000;
const FLOOD: &str = "1s";
/// How often a path goes, and a pod is killed, in a round.
const REVOKES: usize = 300;
const KILLS: usize = 500;
/// In the first round: pages that are left would add up.
const MANY_KILLS: usize = 10_000;
/// Before they are counted.
const FIRST_KILLS: usize = 50;
/// The time that a pod has.
const LIMIT: Duration = Duration::from_millis(2);

/// A lab worker with two machines on an ideal wire.
struct Worker {
    process: Child,
    channel: Channel,
    last: u64,
    events: VecDeque<Event>,
    /// Where its pod is.
    pod: PathBuf,
    _directory: Directory,
}

/// Compiles a pod.
fn compile(directory: &Directory, name: &str, source: &str) -> Result<PathBuf, BoxError> {
    let (text, pod) = (
        directory.path().join(format!("{name}.c")),
        directory.path().join(format!("{name}.so")),
    );
    std::fs::write(&text, format!("#include <vink/pod.h>\nPOD();\n{source}\n"))?;
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-w", "-I"])
        .arg(include)
        .arg("-o")
        .args([&pod, &text])
        .status()?;
    match done.success() {
        true => Ok(pod),
        false => Err(format!("cc: {done}").into()),
    }
}

impl Worker {
    fn start() -> Result<Worker, BoxError> {
        let directory = Directory::new()?;
        let pod = compile(&directory, "count", COUNT)?;
        let (ours, theirs) = UnixStream::pair()?;
        let (dog, watchdog) = UnixStream::pair()?;
        let mut command = Command::new(host::own("vink")?);
        command
            .arg("lab-worker")
            .args(["--socket", &theirs.as_raw_fd().to_string()])
            .args(["--watchdog", &watchdog.as_raw_fd().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let keep = [theirs.as_raw_fd(), watchdog.as_raw_fd()].map(Step::Keep);
        prepare(&mut command, keep);
        let process = command.spawn()?;
        // What a watchdog says is not read here.
        std::mem::forget(dog);
        let mut worker = Worker {
            process,
            channel: Channel::new(ours),
            last: 0,
            events: VecDeque::new(),
            pod,
            _directory: directory,
        };
        let config = WorkerConfig {
            image: vink_kernel::find_image()?,
            cpus: Vec::new(),
            memory: 256 << 20,
            cmdline: String::new(),
            seed: Some(1),
            calls: Calls::Auto,
            clock: WorkerClock::Real,
        };
        worker.channel.send_now(&config, &[])?;
        worker.receive()?;
        worker.ask(Action::Wire {
            wire: "w".to_owned(),
            bus: false,
        })?;
        for (n, machine) in (1..).zip(["a", "b"]) {
            worker.ask(Action::Machine(NewMachine {
                machine: machine.to_owned(),
                forward: false,
                rights: Rights::Full,
                hidden: None,
                files: Vec::new(),
                root: None,
                sysctls: Vec::new(),
            }))?;
            worker.ask(Action::Attach(NewInterface {
                machine: machine.to_owned(),
                interface: "eth0".to_owned(),
                wire: Some("w".to_owned()),
                mac: [2, 0, 0, 0, 0, n],
                mtu: 1500,
                addresses: vec![format!("10.0.0.{n}/24").parse()?],
            }))?;
        }
        Ok(worker)
    }

    fn receive(&mut self) -> Result<Message, BoxError> {
        loop {
            if let Some(message) = self.channel.next_message()? {
                return Ok(message);
            }
            if !self.channel.receive()? {
                return Err("the worker has ended".into());
            }
        }
    }

    fn ask(&mut self, action: Action) -> Result<Answer, BoxError> {
        self.last += 1;
        let request = Request {
            id: self.last,
            action,
        };
        self.channel.send_now(&request, &[])?;
        loop {
            match self.receive()? {
                Message::Done { answer, .. } => return Ok(answer),
                Message::Failed { error, .. } => return Err(error.into()),
                Message::Event(event) => self.events.push_back(event),
                Message::Ready { .. } => {}
            }
        }
    }

    /// Starts an app.
    fn app(&mut self, machine: &str, line: &str) -> Result<u64, BoxError> {
        let words = line.split(' ').map(str::to_owned).collect();
        match self.ask(Action::App {
            machine: machine.to_owned(),
            words,
        })? {
            Answer::Program(number) => Ok(number),
            other => Err(format!("{line}: {other:?}").into()),
        }
    }

    /// Waits for an app's report.
    fn report(&mut self, number: u64) -> Result<serde_json::Value, BoxError> {
        loop {
            while let Some(event) = self.events.pop_front() {
                match event {
                    Event::Ended {
                        program, report, ..
                    } if program == number => {
                        return report.ok_or_else(|| "an app without a report".into());
                    }
                    _ => {}
                }
            }
            match self.receive()? {
                Message::Event(event) => self.events.push_back(event),
                other => return Err(format!("{other:?}").into()),
            }
        }
    }

    /// Has UDP packets that the first machine sends take a path through a pod.
    fn path(&mut self, wall: Wall) -> Result<(), BoxError> {
        let what = PodSpec {
            file: self.pod.display().to_string(),
            wall: Some(wall),
            ..PodSpec::default()
        };
        self.ask(Action::LoadPod {
            pod: "count".to_owned(),
            file: what.file.clone(),
            what,
        })?;
        self.add_path()
    }

    fn add_path(&mut self) -> Result<(), BoxError> {
        self.ask(Action::AddPath {
            path: "p".to_owned(),
            what: PathSpec {
                at: "a:eth0".to_owned(),
                pods: vec!["count".to_owned()],
                ..PathSpec::default()
            },
            filter: None,
        })
        .map(drop)
    }

    fn remove_path(&mut self) -> Result<(), BoxError> {
        let path = "p".to_owned();
        self.ask(Action::RemovePath { path }).map(drop)
    }

    /// Nanoseconds of a round trip, and of each datagram of a flood.
    fn times(&mut self) -> Result<[f64; 2], BoxError> {
        let echo = self.app("a", &format!("echo -u -c {ECHOES} 10.0.0.2"))?;
        let start = Instant::now();
        self.report(echo)?;
        let each = start.elapsed().as_nanos() as f64 / ECHOES as f64;
        let before = self.arrived()?;
        let flood = self.app("a", &format!("source -u -r max -l 64 -t {FLOOD} 10.0.0.2"))?;
        let start = Instant::now();
        self.report(flood)?;
        let took = start.elapsed().as_nanos() as f64;
        Ok([each, took / (self.arrived()? - before) as f64])
    }

    /// Packets that have come to the second machine.
    fn arrived(&mut self) -> Result<u64, BoxError> {
        match self.ask(Action::Status { machines: None })? {
            Answer::Status(status) => {
                let ends = status.wires.iter().flat_map(|wire| &wire.ends);
                let mut ends = ends.filter(|(name, _)| name == "b:eth0");
                let numbers = ends.next().map(|(_, numbers)| numbers);
                let mut numbers = numbers.into_iter().flatten();
                let found = numbers.find(|(name, _)| name == "received");
                found.map(|(_, n)| *n).ok_or_else(|| "no number".into())
            }
            other => Err(format!("{other:?}").into()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Nanoseconds that a path adds to a packet, alone and of a flood: without pods, when the packet is only asked about, with no
/// wall and with a process.
pub(crate) fn packets() -> Result<Round, BoxError> {
    let mut worker = Worker::start()?;
    worker.app("b", "echoserver")?;
    worker.app("b", "sink -u")?;
    Ok(Box::new(move || {
        let plain = worker.times()?;
        let mut all = vec![Some(plain[0]), Some(plain[1])];
        // A question about each packet, which a pod that is crossed there and then would need, too.
        worker.ask(Action::Breakpoint {
            breakpoint: "asked".to_owned(),
            scope: BreakpointScope::Interface("a:eth0".to_owned()),
            what: Breakpoint {
                drop: true,
                after: u64::MAX,
                ..Breakpoint::default()
            },
            filter: None,
        })?;
        let asked = worker.times()?;
        worker.ask(Action::RemoveBreakpoint {
            breakpoint: "asked".to_owned(),
        })?;
        all.extend([0, 1].map(|at| Some(asked[at] - plain[at])));
        for wall in [Wall::None, Wall::Process] {
            worker.path(wall)?;
            let with = worker.times()?;
            worker.remove_path()?;
            all.extend([0, 1].map(|at| Some(with[at] - plain[at])));
        }
        Ok(all)
    }))
}

/// The 99th percentile, in ms.
fn percentile(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() * 99 / 100].as_secs_f64() * 1e3
}

/// How long it takes until a path is gone, under a flood through it.
pub(crate) fn revokes() -> Result<Round, BoxError> {
    let mut worker = Worker::start()?;
    worker.app("b", "sink -u")?;
    worker.path(Wall::Process)?;
    worker.app("a", "source -u -r 100mbit -l 64 -t 1h 10.0.0.2")?;
    Ok(Box::new(move || {
        let mut times = Vec::new();
        for _ in 0..REVOKES {
            let start = Instant::now();
            worker.remove_path()?;
            times.push(start.elapsed());
            worker.add_path()?;
        }
        Ok(vec![Some(percentile(times))])
    }))
}

/// How long a pod that loops outlives its limit, until all that it had is gone; and pages that are
/// left of each, of all that it had.
pub(crate) fn kills() -> Result<Round, BoxError> {
    let directory = Directory::new()?;
    let file = compile(&directory, "loop", LOOP)?;
    let mut kills = MANY_KILLS;
    Ok(Box::new(move || {
        let _directory = &directory;
        let kills = std::mem::replace(&mut kills, KILLS);
        let mut times = Vec::new();
        let mut before = 0;
        for kill in 0..FIRST_KILLS + kills {
            if kill == FIRST_KILLS {
                before = resident()?;
                times.clear();
            }
            let (mut pod, mut batch) = load(&Source {
                file: &file,
                config: b"",
                limits: Limits {
                    time: LIMIT,
                    ..Limits::default()
                },
                wall: None,
                now: 0,
                repeats: false,
            })?;
            batch.clear(0);
            batch.push(Entry::Stream, 0, b"x");
            let start = Instant::now();
            let Err(_) = pod.cross(&mut batch) else {
                return Err("a pod that loops has come back".into());
            };
            drop((pod, batch));
            times.push(start.elapsed().saturating_sub(LIMIT));
        }
        // In hundredths: one page of 200 kills would show.
        let left = resident()?.saturating_sub(before) as f64 / kills as f64;
        let left = (left * 100.0).round() / 100.0;
        Ok(vec![Some(percentile(times)), Some(left)])
    }))
}

/// Pages of this process, of files and shared ones too.
fn resident() -> Result<u64, BoxError> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse().ok());
    pages.ok_or_else(|| "/proc/self/statm has no number".into())
}
