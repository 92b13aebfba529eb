//! Rounds of programs that make random system calls, and after each a program that does real work;
//! malformed texts; rings that are written to at random.

use std::time::{Duration, Instant};

use vink_trap::Worker;

use crate::ledger::Ledger;
use crate::random::Random;
use crate::rings;
use crate::soak::{run_alone, warm_up};
use crate::stage::{on_machine, start, worker};
use crate::texts;
use crate::watch::{BoxError, Log};
use crate::Options;

/// Programs at a time; calls that each makes, not counting what it forks; forks that each may make.
const PROGRAMS: usize = 2;
const CALLS: u64 = 2000;
const FORKS: u64 = 30;

pub(crate) fn run(options: &Options, log: Log) -> Result<(), BoxError> {
    let mut worker = worker(log)?;
    let mut random = Random::new(options.seed);
    warm_up(&mut worker, &mut random)?;
    let before = Ledger::take(&mut worker)?;
    let since = Instant::now();
    let mut round = 0;
    while options.go_on(round, since.elapsed()) {
        fuzz(&mut worker, &mut random)?;
        serve(&mut worker, &mut random)?;
        texts::read_some(&mut random)?;
        rings::spoil_some(&mut worker, &mut random)?;
        round += 1;
    }
    let after = before.settle(&mut worker, round * (PROGRAMS as u64 + 1))?;
    let calls: u64 = worker.statistics().trapped().map(|(_, n)| n).sum();
    let kinds = worker.statistics().trapped().count();
    println!(
        "fuzz: {round} rounds in {} s: {calls} trapped calls of {kinds} kinds",
        since.elapsed().as_secs()
    );
    println!("before: {before}\nafter:  {after}");
    Ok(())
}

fn fuzz(worker: &mut Worker, random: &mut Random) -> Result<(), BoxError> {
    let seeds = [(); PROGRAMS].map(|()| random.next());
    on_machine(worker, |worker, machine| {
        let mut programs = Vec::new();
        for seed in seeds {
            let role = [
                "fuzz".to_owned(),
                seed.to_string(),
                CALLS.to_string(),
                FORKS.to_string(),
            ];
            programs.push(start(worker, machine, &role, true)?);
        }
        // How they end is up to them.
        for program in programs {
            while worker.status(program)?.is_none() {
                worker.step(Some(Duration::from_secs(1)))?;
            }
            worker.kill(program)?;
        }
        Ok(())
    })
}

/// The worker does what it is for.
fn serve(worker: &mut Worker, random: &mut Random) -> Result<(), BoxError> {
    let role = ["connections".to_owned(), random.next().to_string()];
    run_alone(worker, &role)
}
