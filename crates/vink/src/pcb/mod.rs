//! `vink pcb`: TCP connections as the kernel sees them, live, by the image's own debug information.
//!
//! Connections are found and read from outside, in the memory of the process that the kernel is in (`vink-pcb`). For
//! samples at the kernel's own events, the worker copies them at that moment and sends them (`vink_lab::SocketProbes`).
//! Whatever comes goes through one channel to one loop (`session`), which has the screen, or the stream, as its output.

mod choice;
mod program;
mod screen;
mod session;
mod source;
mod stream;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use vink_spec::Span;

use crate::cli_error::CliError;
pub(crate) use program::Watcher;
use session::Session;
use source::Event;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A machine of a lab, or of the process
    machine: Option<String>,
    /// The lab; may be left away if only one runs
    #[arg(long, value_name = "NAME", conflicts_with_all = ["run", "pid"])]
    lab: Option<String>,
    /// A process with a kernel in it: `vink run`, or a program with the stack inside
    #[arg(long, conflicts_with = "run")]
    pid: Option<u32>,
    /// Run a program, beside which its connections are shown
    #[arg(long, requires = "program", conflicts_with = "machine")]
    run: bool,
    /// A field, such as snd_cwnd, or several, such as 'rx_opt.*'; may be repeated. All of them otherwise
    #[arg(short, long = "field", value_name = "PATTERN")]
    fields: Vec<String>,
    /// Only connections that have this in their addresses, such as :80 or 10.0.0.2:; may be repeated
    #[arg(short, long = "connection", value_name = "TEXT")]
    connections: Vec<String>,
    /// How often it is looked at
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    every: Span,
    /// Look when the kernel does something, in the place of --every; several with commas between them
    #[arg(long, value_name = "EVENT", value_enum, value_delimiter = ',')]
    each: Vec<Event>,
    /// Write each sample as a line of JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Write each sample as a line of CSV, for `vink plot`
    #[arg(long)]
    csv: bool,
    /// Where samples go; standard output otherwise, but with --run that is the program's
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End after so many samples
    #[arg(short = 'n', long, value_name = "SAMPLES")]
    count: Option<u64>,
    /// With --run: the program, after options of `vink run` and another `--`
    #[arg(last = true, value_name = "PROGRAM", requires = "run")]
    program: Vec<OsString>,
}

/// What is done with what comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A picture of how it is now.
    Screen,
    /// A line for each sample.
    Json,
    /// A line for each sample.
    Csv,
    /// How it is now, once.
    Once,
}

/// Watches until there is nothing more, or a signal ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let form = form(arguments)?;
    let start = Session::begin();
    if arguments.run {
        return program::run(arguments, form, start);
    }
    let found = source::find(arguments)?;
    source::watch(arguments, form, start, found)
}

/// What the options say of the output.
fn form(arguments: &Arguments) -> Result<Form, CliError> {
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let refused = |text: &str| Err(CliError::Other(text.to_owned()));
    let stream = arguments.json || arguments.csv;
    if arguments.every.duration() < Duration::from_millis(1) {
        return refused("--every is 1ms at least; --each looks at every single event");
    }
    if arguments.pid.is_some() && !arguments.each.is_empty() {
        return refused(
            "--each is for --run and for labs, whose workers can be asked for it: leave it away",
        );
    }
    if arguments.run && stream && arguments.output.is_none() {
        return refused("standard output is the program's: say by -o FILE where samples go");
    }
    if arguments.output.is_some() && !stream {
        return refused("-o FILE goes with --json or --csv");
    }
    Ok(match (arguments.json, arguments.csv) {
        (true, _) => Form::Json,
        (_, true) => Form::Csv,
        _ if terminal => Form::Screen,
        _ if !arguments.run && arguments.each.is_empty() => Form::Once,
        _ => return refused("this is no terminal to draw on: use --json or --csv"),
    })
}
