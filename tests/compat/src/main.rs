//! `vink-compat`: well-known programs, each run on the host and on Vink; both must agree.
//!
//! Theory of operation: a program is a shell file of `tests/compat/programs` with a server and a client (or a client
//! only). For each user it is run in two network namespaces of the host joined by a veth pair (`host`), on
//! two machines of a worker joined by a wire (`vink`), trapped and with `--calls shared`, and, if it is made of programs that
//! do not fork, with a stack in each program (`in_process`). A run is a process of its own (`side`), as
//! that user, in a folder of its own: it starts the server at one end, waits until it listens (`ready`), runs
//! the client at the other, and ends the server. What the client printed, and how the server ended, must be
//! the same on all sides (`compare`); rows of results become a table and a file (`report`).

mod compare;
mod determinism;
mod host;
mod in_process;
mod labs;
mod probe;
mod program;
mod ready;
mod repeat;
mod report;
mod side;
mod stage;
mod vink;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use side::Side;

/// Anything that ends a run early; its text says what to do.
type BoxError = Box<dyn Error>;

/// Well-known programs on the host and on Vink: do they do the same?
#[derive(Parser)]
struct Arguments {
    /// Only these, by the names of their files in tests/compat/programs; with --repeat also labs, by their folders in labs/
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Only those that `make test` runs, and without --calls shared unless that form is asked for
    #[arg(long)]
    short: bool,
    /// Only as this user
    #[arg(long, value_name = "NAME")]
    user: Option<compare::User>,
    /// Only in this form
    #[arg(long, value_name = "FORM")]
    form: Option<compare::Form>,
    /// Where the results go as JSON
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Where the results go as a page of the documentation
    #[arg(long, value_name = "PATH")]
    page: Option<PathBuf>,
    /// Instead: whether they, and the ready labs, repeat in virtual time
    #[arg(long)]
    repeat: bool,
    /// Leave the folders of runs that failed
    #[arg(long)]
    keep: bool,
    #[command(subcommand)]
    inner: Option<Inner>,
}

/// How this program calls itself.
#[derive(Subcommand)]
#[command(hide = true)]
enum Inner {
    /// One run of a program, in the current folder
    Side {
        side: Side,
        program: String,
        ready: Vec<String>,
    },
    /// One run of a program in virtual time, in the current folder
    RepeatOnce {
        program: String,
        seed: u64,
        date: u64,
        journal: PathBuf,
        /// With a virtual time stamp counter
        #[arg(long)]
        rdtsc: bool,
    },
    /// One run of a ready lab, in its folder
    LabOnce {
        lab: String,
        seed: u64,
        vink: PathBuf,
    },
    /// A run trapped and one in vink run's default form for each line read; prints the seconds that the client took in each
    Rounds { program: String },
    /// Ends when a server is ready
    Await {
        what: String,
        /// It is on the other end, at $SERVER
        #[arg(long)]
        there: bool,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.inner {
        Some(Inner::Side {
            side,
            program,
            ready,
        }) => side::run(*side, program, ready).map(|()| true),
        Some(Inner::RepeatOnce {
            program,
            seed,
            date,
            journal,
            rdtsc,
        }) => repeat::once(program, *seed, *date, journal, *rdtsc).map(|()| true),
        Some(Inner::LabOnce { lab, seed, vink }) => labs::once(lab, *seed, vink).map(|()| true),
        Some(Inner::Rounds { program }) => compare::rounds(program).map(|()| true),
        Some(Inner::Await { what, there }) => ready::wait(what, *there).map(|()| true),
        None => suite(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("vink-compat: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what was asked for and reports it. `false`: not all agree.
fn suite(arguments: &Arguments) -> Result<bool, BoxError> {
    let mut programs = program::all(&vink_tests::root().join("tests/compat/programs"))?;
    let mut labs: Vec<&labs::Lab> = match arguments.repeat {
        true => labs::ALL.iter().collect(),
        false => Vec::new(),
    };
    let names = programs.iter().map(|p| &*p.name);
    let names: Vec<_> = names.chain(labs.iter().map(|lab| lab.name)).collect();
    for name in &arguments.only {
        if !names.contains(&name.as_str()) {
            return Err(format!("no program {name}; there are {}", names.join(" ")).into());
        }
    }
    let wanted = |name: &str, short: bool| {
        let named = arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
        named && (short || !arguments.short)
    };
    programs.retain(|p| wanted(&p.name, p.short));
    labs.retain(|lab| wanted(lab.name, lab.short));

    let stage = stage::Stage::new(arguments.keep)?;
    if arguments.repeat {
        return repeat_all(arguments, &stage, &programs, &labs);
    }
    let mut forms = compare::Form::ALL.to_vec();
    forms.retain(|form| match arguments.form {
        Some(only) => *form == only,
        None => !(arguments.short && *form == compare::Form::Shared),
    });
    let mut rows = Vec::new();
    for program in &programs {
        for row in compare::compare(&stage, program, arguments.user, &forms)? {
            row.print();
            rows.push(row);
        }
    }
    if let Some(path) = &arguments.json {
        report::write_json(path, &rows)?;
    }
    if let Some(path) = &arguments.page {
        report::write_page(path, &programs, &rows)?;
    }
    let failed = rows.iter().filter(|row| !row.ok()).count();
    println!("{} of {} agree", rows.len() - failed, rows.len());
    Ok(failed == 0)
}

/// The same for what repeats. `false`: not all do.
fn repeat_all(
    arguments: &Arguments,
    stage: &stage::Stage,
    programs: &[program::Program],
    labs: &[&labs::Lab],
) -> Result<bool, BoxError> {
    let mut findings = Vec::new();
    let mut take = |finding: determinism::Finding| {
        finding.print();
        findings.push(finding);
    };
    for program in programs {
        take(repeat::repeat(stage, program)?);
    }
    for lab in labs {
        take(labs::repeat(stage, lab)?);
    }
    // The page first: it says whether the tree is the commit's, which it is not once the list is written.
    if let Some(path) = &arguments.page {
        determinism::write_page(path, &findings)?;
    }
    if let Some(path) = &arguments.json {
        determinism::write_json(path, &findings)?;
    }
    let failed = findings.iter().filter(|f| !f.is_good()).count();
    match failed {
        0 => println!("all repeat"),
        _ => println!("{failed} of {} do not repeat", findings.len()),
    }
    Ok(failed == 0)
}
