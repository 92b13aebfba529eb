//! `vink shell`: the switch box at this terminal, and its lines in scripts.

use std::fs::File;
use std::io::{stdin, BufRead, BufReader, Cursor, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use vink_api::{Client, Place};
use vink_shell::{interact, run_script, Options};

use crate::client::{lab_or_only, runtime};
use crate::failure::Failure;

/// What `vink shell` is told.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The lab (default: the one that runs)
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Carry out LINE; may be repeated
    #[arg(short, value_name = "LINE", conflicts_with = "file")]
    command: Vec<String>,
    /// Go on after a line that fails
    #[arg(long)]
    keep_going: bool,
    /// For each line, an object of JSON on a line of its own
    #[arg(long)]
    json: bool,
    /// Carry out the lines of this file; -: of standard input, which is also used if it is no terminal
    file: Option<PathBuf>,
}

/// Commands a lab until the lines end.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (name, lines): (String, Box<dyn BufRead + Send>) = match &arguments.file {
        _ if !arguments.command.is_empty() => {
            let text = arguments.command.join("\n");
            ("-c".to_owned(), Box::new(Cursor::new(text)))
        }
        Some(file) if file.as_os_str() != "-" => {
            let name = file.display().to_string();
            let opened = File::open(file).map_err(Failure::host(name.clone()))?;
            (name, Box::new(BufReader::new(opened)))
        }
        None if stdin().is_terminal() && !arguments.json => return at_terminal(arguments),
        _ => (
            "standard input".to_owned(),
            Box::new(BufReader::new(stdin())),
        ),
    };
    let options = Options {
        keep_going: arguments.keep_going,
        json: arguments.json,
    };
    let folder = std::env::current_dir().map_err(Failure::host("the current folder"))?;
    let runtime = runtime()?;
    let status = runtime.block_on(async {
        let client = Client::of(&Place::find());
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        run_script(client, &lab, folder, &name, lines, options)
            .await
            .map_err(Failure::host(name.clone()))
    })?;
    // Something may still wait for a line.
    runtime.shutdown_background();
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

fn at_terminal(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder = std::env::current_dir().map_err(Failure::host("the current folder"))?;
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let client = Client::of(&Place::find());
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        interact(client, &lab, folder)
            .await
            .map_err(|failure| Failure::Other(failure.to_string()))
    });
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
