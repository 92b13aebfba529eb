//! Programs that work all the time, some of which are killed at random moments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vink_lab::Machine;
use vink_trap::{ProgramId, Worker};

use crate::ledger::Ledger;
use crate::random::Random;
use crate::stage::{check, on_machine, start, worker};
use crate::watch::{BoxError, Log};
use crate::Options;

/// Programs at a time.
const PROGRAMS: usize = 5;
const ROLES: [&str; 5] = ["connections", "stream", "datagrams", "tree", "passing"];
/// Of 100 programs, how many are killed, and within which time.
const KILLED: u64 = 30;
const LIFE_MS: u64 = 150;

struct Running {
    program: ProgramId,
    role: Vec<String>,
    /// When it is to be killed.
    until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Tally {
    started: BTreeMap<&'static str, u64>,
    killed: u64,
}

pub(crate) fn run(options: &Options, log: Log) -> Result<(), BoxError> {
    let mut worker = worker(log)?;
    let mut random = Random::new(options.seed);
    let mut tally = Tally::default();
    warm_up(&mut worker, &mut random)?;
    let before = Ledger::take(&mut worker)?;
    let since = Instant::now();
    let mut round = 0;
    on_machine(&mut worker, |worker, machine| {
        let mut running = Vec::new();
        loop {
            while running.len() < PROGRAMS && options.go_on(round, since.elapsed()) {
                running.push(begin(worker, machine, &mut random, &mut tally)?);
                round += 1;
            }
            if running.is_empty() {
                return Ok(());
            }
            worker.step(Some(Duration::from_millis(5)))?;
            for n in (0..running.len()).rev() {
                if is_over(worker, &running[n], &mut random)? {
                    running.swap_remove(n);
                }
            }
        }
    })?;
    let seconds = since.elapsed().as_secs();
    let after = before.settle(&mut worker, round)?;
    let calls: u64 = worker.statistics().trapped().map(|(_, n)| n).sum();
    println!(
        "soak: {round} programs in {seconds} s ({:?}), {} of them killed; {calls} trapped calls",
        tally.started, tally.killed
    );
    println!("before: {before}\nafter:  {after}");
    Ok(())
}

/// Runs each kind of program once, for what kernel and worker set up only once.
pub(crate) fn warm_up(worker: &mut Worker, random: &mut Random) -> Result<(), BoxError> {
    for kind in ROLES {
        run_alone(worker, &role(kind, random))?;
    }
    Ok(())
}

/// Runs a program on a machine of its own.
pub(crate) fn run_alone(worker: &mut Worker, role: &[String]) -> Result<(), BoxError> {
    on_machine(worker, |worker, machine| {
        let program = start(worker, machine, role, false)?;
        let status = worker.wait(program)?;
        check(role, status)?;
        Ok(worker.kill(program)?)
    })
}

fn role(kind: &str, random: &mut Random) -> Vec<String> {
    let mut role = vec![kind.to_owned(), random.next().to_string()];
    if kind == "tree" {
        role.push("3".to_owned());
    }
    role
}

fn begin(
    worker: &mut Worker,
    machine: &Machine,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<Running, BoxError> {
    let kind = random.pick(&ROLES);
    let role = role(kind, random);
    let life = Duration::from_millis(random.below(LIFE_MS));
    let killed = random.chance(KILLED);
    *tally.started.entry(kind).or_default() += 1;
    tally.killed += u64::from(killed);
    // What is killed may have something to say about its other half.
    let program = start(worker, machine, &role, killed)?;
    Ok(Running {
        program,
        role,
        until: killed.then(|| Instant::now() + life),
    })
}

/// Kills the program if it is time, and looks whether it has ended, as it must if it was let live.
fn is_over(worker: &mut Worker, running: &Running, random: &mut Random) -> Result<bool, BoxError> {
    let program = running.program;
    if running.until.is_some_and(|until| until <= Instant::now()) {
        if random.chance(50) {
            // Its first process alone, at first.
            let _ = worker.signal(program, libc::SIGKILL);
            while worker.status(program)?.is_none() {
                worker.step(None)?;
            }
        }
        worker.kill(program)?;
        return Ok(true);
    }
    let Some(status) = worker.status(program)? else {
        return Ok(false);
    };
    if running.until.is_none() {
        check(&running.role, status)?;
    }
    worker.kill(program)?;
    Ok(true)
}
