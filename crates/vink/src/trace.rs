//! `vink trace`: what is in a journal, for other programs and for people.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use vink_record::{pcapng, perfetto, Tail};

use crate::cli_error::CliError;
use crate::record::open;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a recorded run for another program
    Export(Export),
}

/// The command line of `vink trace export`.
#[derive(clap::Args)]
struct Export {
    /// The run: its manifest, its journal, or the folder that a lab was recorded to
    run: PathBuf,
    /// perfetto: for ui.perfetto.dev; pcapng: its packets, for Wireshark; text: a line for each event
    #[arg(long, value_enum, default_value_t = Format::Perfetto)]
    format: Format,
    /// Where to, - for standard output, which is meant if it is no terminal
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Perfetto,
    Pcapng,
    Text,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let Command::Export(export) = &arguments.command;
    let mut reader = open(&export.run)?;
    let file = export
        .output
        .as_ref()
        .filter(|path| path.as_os_str() != "-");
    if file.is_none() && export.format != Format::Text && std::io::stdout().is_terminal() {
        return Err(CliError::Other(
            "a trace is not for terminals: use -o FILE, or --format text".to_owned(),
        ));
    }
    let (to, name): (Box<dyn Write>, String) = match file {
        Some(path) => {
            let name = path.display().to_string();
            let file = File::create(path).map_err(CliError::host(format!("creating {name}")))?;
            (Box::new(file), name)
        }
        None => (Box::new(std::io::stdout()), "standard output".to_owned()),
    };
    let mut to = BufWriter::new(to);
    match export.format {
        Format::Perfetto => perfetto(reader, &mut to, &name)?,
        Format::Pcapng => drop(pcapng(reader, &mut to, &name)?),
        Format::Text => {
            let failed = |error: std::io::Error| match error.kind() {
                // The reader has enough.
                std::io::ErrorKind::BrokenPipe => CliError::Signal(libc::SIGPIPE),
                _ => CliError::host(format!("writing {name}"))(error),
            };
            while let Some(record) = reader.next_record()? {
                writeln!(to, "{record}").map_err(failed)?;
            }
            if let Some(Tail::Cut(_)) = reader.tail() {
                eprintln!("vink: the journal was cut short: its run did not end in order");
            }
        }
    }
    to.flush()
        .map_err(CliError::host(format!("writing {name}")))?;
    Ok(ExitCode::SUCCESS)
}
