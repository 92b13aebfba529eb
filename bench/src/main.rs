//! `vink-bench`: what Vink costs and saves beside the host kernel, in the same run.
//!
//! Theory of operation: each benchmark has up to three sides: Vink, the host with both ends on one
//! processor (the fair comparison, which the bars are against), and the host with both ends free.
//! A side is a process of its own, started anew for each benchmark, which does a round whenever it is
//! told to (`side`). Rounds of the sides alternate, so that whatever else the computer does hits all
//! of them; the medians count. Both kernels run the same code (`work`), by syscall(2) or by a
//! fiber's function call.

mod benchmark;
mod beside;
mod crossing;
mod driver;
mod echo;
mod explore;
mod filter;
mod filter_change;
mod floor;
mod host;
mod kvs;
mod lab;
mod loss;
mod outside;
mod paths;
mod pinning;
mod pods;
mod profiles;
mod programs;
mod rebuild;
mod recorded;
mod relay;
mod report;
mod scale;
mod share;
mod side;
mod switch;
mod switch_flood;
mod transcoder;
mod viewer;
mod vink;
mod virtual_time;
mod vm;
mod work;
mod workers;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};

use benchmark::{Group, Side, GROUPS};
use report::Row;
use side::Process;

/// Anything that ends a benchmark early; its text says what to do.
type BoxError = Box<dyn Error>;

/// Vink beside the host kernel: a table, and bench/results.json.
#[derive(Parser)]
struct Arguments {
    /// Only these, by the names of the table
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds of each side
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where the results go as JSON
    #[arg(long, value_name = "PATH", default_value = "bench/results.json")]
    json: PathBuf,
    /// End with status 1 if a bar is missed
    #[arg(long)]
    check: bool,
    #[command(subcommand)]
    inner: Option<Inner>,
}

/// Other tables, and how this program calls itself.
#[derive(Subcommand)]
enum Inner {
    /// What random loss leaves of TCP's rate, in virtual time, by the host's clock, and by the model
    Loss {
        /// Where the figures go as JSON
        #[arg(long, value_name = "PATH", default_value = "bench/loss.json")]
        json: PathBuf,
        /// Where the table goes as a page
        #[arg(long, value_name = "PATH", default_value = "docs/loss.md")]
        page: PathBuf,
    },
    /// One side of one benchmark: a round for each line read
    #[command(hide = true)]
    Side { group: String, side: Side },
    #[command(hide = true)]
    /// The program that runs under the interposer: prints nanoseconds per call, or microseconds per round trip
    Loop { group: String, to: Option<String> },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.inner {
        Some(Inner::Loss { json, page }) => loss::table(json, page).map(|()| true),
        Some(Inner::Side { group, side }) => side::serve(group, *side).map(|()| true),
        Some(Inner::Loop { group, to }) => work::print_loop(group, to.as_deref()).map(|()| true),
        None => compare(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("vink-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what was asked for and reports it. `false`: something failed, or a bar was missed and that
/// counts.
fn compare(arguments: &Arguments) -> Result<bool, BoxError> {
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name);
    for name in &arguments.only {
        if !GROUPS
            .iter()
            .flat_map(|g| g.figures)
            .any(|f| f.name == name)
        {
            let all: Vec<_> = GROUPS
                .iter()
                .flat_map(|g| g.figures)
                .map(|f| f.name)
                .collect();
            return Err(format!(
                "no benchmark is called {name}; there are {}",
                all.join(", ")
            )
            .into());
        }
    }
    let mut rows = Vec::new();
    let mut fine = true;
    report::head();
    for group in GROUPS
        .iter()
        .filter(|g| g.figures.iter().any(|f| wanted(f.name)))
    {
        match measure(group, arguments.rounds.min(group.most_rounds)) {
            Ok(measured) => {
                for row in measured.into_iter().filter(|row| wanted(row.figure.name)) {
                    row.print();
                    fine &= !arguments.check || row.holds() != Some(false);
                    rows.push(row);
                }
            }
            Err(e) => {
                eprintln!("vink-bench: {}: {e}", group.name);
                fine = false;
            }
        }
    }
    report::write(&arguments.json, &rows)?;
    Ok(fine)
}

/// All rounds of one group.
fn measure(group: &'static Group, rounds: u32) -> Result<Vec<Row>, BoxError> {
    let mut sides = Vec::new();
    for side in group.sides {
        sides.push((
            *side,
            None::<Process>,
            vec![Vec::new(); group.figures.len()],
        ));
    }
    let begun = Instant::now();
    let mut done = 0;
    while done < rounds && (done == 0 || begun.elapsed() < group.longest) {
        done += 1;
        for (side, process, samples) in &mut sides {
            if group.fresh {
                *process = None;
            }
            if process.is_none() {
                *process = Some(Process::start(group, *side)?);
            }
            let figures = process.as_mut().expect("just started").round()?;
            for (samples, figure) in samples.iter_mut().zip(figures) {
                samples.extend(figure);
            }
        }
    }
    let median_of = |wanted: Side, figure: usize| {
        let mut samples = sides.iter().find(|(side, ..)| *side == wanted)?.2[figure].clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    };
    Ok((0..group.figures.len())
        .map(|i| Row {
            figure: &group.figures[i],
            vink: median_of(Side::Vink, i),
            host: median_of(Side::Host, i),
            host_two_cpus: median_of(Side::HostTwoCpus, i),
            against: group.against,
            rounds: done,
        })
        .collect())
}
