//! Beside processes that only compute: what the default form of calls and a stack in the own process
//! lose there.
//!
//! Two such processes run during a round, and end with it. A round of programs is one of
//! `vink-compat`, which runs the suite's programs trapped and in the default form, one after the other,
//! so that the ratio is of the same minute.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::pinning::{allow, processors};
use crate::side::{die_with_parent, Round};
use crate::BoxError;

/// How many busy processes there are.
const BUSY: usize = 2;
/// One ends by itself then, whatever has become of this process.
const LONGEST: Duration = Duration::from_secs(150);

/// What a busy process does.
pub(crate) fn spin() {
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {}
}

/// Busy processes, ended with this.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    pub(crate) fn start(count: usize) -> Result<Busy, BoxError> {
        let mut busy = Busy(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["loop", "spin"]).stdin(Stdio::null());
            // SAFETY: one system call, with no memory involved.
            unsafe { command.pre_exec(die_with_parent) };
            busy.0.push(command.spawn()?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `vink-compat` with one program; ended with this.
struct Suite(Child, Option<ChildStdin>);

impl Drop for Suite {
    fn drop(&mut self) {
        // No more orders: it removes its folders and ends.
        self.1 = None;
        let _ = self.0.wait();
    }
}

/// A program of the suite: the time in the default form to the trapped one, then both, in seconds.
pub(crate) fn programs(program: &str) -> Result<Round, BoxError> {
    let suite = std::env::current_exe()?.with_file_name("vink-compat");
    let mut command = Command::new(&suite);
    command
        .args(["rounds", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    // SAFETY: one system call, with no memory involved.
    unsafe { command.pre_exec(die_with_parent) };
    let mut child = command
        .spawn()
        .map_err(|e| format!("{}: {e}: build vink-compat first", suite.display()))?;
    let orders = child.stdin.take();
    let mut answers = BufReader::new(child.stdout.take().expect("piped"));
    let mut suite = Suite(child, orders);
    let mut answer = move || -> Result<String, BoxError> {
        let mut line = String::new();
        match answers.read_line(&mut line)? {
            0 => Err("vink-compat has ended; what it said is above".into()),
            _ => Ok(line),
        }
    };
    // It has prepared what the program needs.
    answer()?;
    Ok(Box::new(move || {
        let orders = suite.1.as_mut().expect("open until the end");
        let busy = Busy::start(BUSY)?;
        writeln!(orders, "round")?;
        let line = answer()?;
        drop(busy);
        let times: Vec<f64> = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [trapped, auto] = times[..] else {
            return Err(format!("vink-compat says {line}").into());
        };
        Ok(vec![Some(auto / trapped), Some(auto), Some(trapped)])
    }))
}

/// What the other process of [`pipe_round_trip`] does.
pub(crate) fn echo() -> Result<(), BoxError> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut byte = [0];
    while input.read(&mut byte)? > 0 {
        output.write_all(&byte)?;
        output.flush()?;
    }
    Ok(())
}

/// A round trip of a byte through two pipes, in us: what two processes that block and wake each other
/// need at least, without a network stack.
fn pipe_round_trip() -> Result<f64, BoxError> {
    const TRIPS: u32 = 20_000;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["loop", "echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut input = child.stdin.take().expect("piped");
    let mut output = child.stdout.take().expect("piped");
    let mut trip = || {
        input
            .write_all(b"x")
            .and_then(|()| output.read_exact(&mut [0]))
    };
    // The other process has begun.
    trip()?;
    let begin = Instant::now();
    for _ in 0..TRIPS {
        trip()?;
    }
    let figure = begin.elapsed().as_secs_f64() * 1e6 / f64::from(TRIPS);
    // Its input ends, and so does the other process.
    drop(input);
    child.wait()?;
    Ok(figure)
}

/// Round trips between two programs beside busy processes, in us: with the stack in their own
/// process to the trapped ones; both; the first without busy processes, and to that; and what a
/// pipe has beside busy processes.
pub(crate) fn round_trips(mut in_process: Round, mut trapped: Round) -> Result<Round, BoxError> {
    let processors = processors()?;
    let figure = |round: &mut Round| -> Result<f64, BoxError> {
        let figure = round()?.first().copied().flatten();
        figure.ok_or_else(|| "the client has printed no figure".into())
    };
    Ok(Box::new(move || {
        // The worker of the trapped programs is of this process, and goes to a processor of its own.
        allow(&processors)?;
        let idle = figure(&mut in_process)?;
        let busy = Busy::start(BUSY)?;
        let beside = figure(&mut in_process)?;
        let trapped = figure(&mut trapped)?;
        let pipe = pipe_round_trip()?;
        drop(busy);
        let figures = [beside / trapped, beside, trapped, idle, beside / idle, pipe];
        Ok(figures.map(Some).to_vec())
    }))
}
