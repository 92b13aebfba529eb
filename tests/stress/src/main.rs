//! Fuzzing and soaking a worker: what it is, and that it leaves nothing behind.
//!
//! `vink-stress fuzz` runs programs that make random system calls, `vink-stress soak` ones that do real
//! work under signals and kills. Both run on a worker in a process of its own, so that its death can be
//! told, with the calls that came before it (`watch`). What is counted before must be the same
//! afterwards (`ledger`). The programs are this executable again (`program`).

mod fuzz;
mod ledger;
mod packets;
mod program;
mod random;
mod rings;
mod soak;
mod stage;
mod texts;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Fuzzes or soaks a Vink worker.
#[derive(Parser)]
#[command(name = "vink-stress")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Programs that make random system calls; the worker must survive them
    Fuzz(Options),
    /// A mixed load under kills and signals; nothing may be leaked, and no byte be wrong
    Soak(Options),
    #[command(hide = true)]
    Program {
        #[command(subcommand)]
        role: program::Role,
    },
}

#[derive(Args, Clone, Debug)]
struct Options {
    /// End after so many seconds; 600 if neither these nor minutes nor rounds are given
    #[arg(long, conflicts_with = "rounds")]
    seconds: Option<u64>,
    /// End after so many minutes
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    minutes: Option<u64>,
    /// End after so many rounds
    #[arg(long)]
    rounds: Option<u64>,
    /// What all choices follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The log of calls, inherited: this is the worker
    #[arg(long, hide = true)]
    log: Option<i32>,
}

impl Options {
    /// In seconds.
    fn duration(&self) -> u64 {
        let minutes = self.minutes.map(|minutes| 60 * minutes);
        self.seconds.or(minutes).unwrap_or(600)
    }

    /// Whether a round is still to be done.
    fn go_on(&self, round: u64, since: Duration) -> bool {
        match self.rounds {
            Some(rounds) => round < rounds,
            None => since.as_secs() < self.duration(),
        }
    }
}

fn main() -> ExitCode {
    let (name, options, work) = match Arguments::parse().command {
        Command::Program { role } => return program::run(&role),
        Command::Fuzz(options) => ("fuzz", options, fuzz::run as watch::Work),
        Command::Soak(options) => ("soak", options, soak::run as watch::Work),
    };
    let done = match options.log {
        Some(log) => watch::work(log, &options, work),
        None => watch::over(name, &options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vink-stress: {error}");
            ExitCode::FAILURE
        }
    }
}
