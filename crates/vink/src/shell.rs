//! `vink shell`: the switch box at this terminal, and its lines in scripts.

use std::io::{stdin, BufRead, BufReader, Cursor, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use vink_api::{Client, RuntimeDir};
use vink_shell::{interact, run_script, Options};

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime};

/// What `vink shell` is told.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
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

const EXAMPLES: &str = "\
Examples:
  vink shell                                          at this terminal; `help` lists the commands
  vink shell -c 'wire w1 loss 1%' -c 'show wires'
  vink shell lines.vink                               a file of lines, up to the first that fails
  echo 'exec alice ping -c 1 bob' | vink shell --json
The commands: docs/switchbox.md.";

/// Commands a lab until the lines end.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let (name, lines): (String, Box<dyn BufRead + Send>) = match &arguments.file {
        _ if !arguments.command.is_empty() => {
            let text = arguments.command.join("\n");
            ("-c".to_owned(), Box::new(Cursor::new(text)))
        }
        Some(file) if file.as_os_str() != "-" => {
            let name = file.display().to_string();
            let opened = vink_spec::open_file(file).map_err(CliError::host(name.clone()))?;
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
    let folder = std::env::current_dir().map_err(CliError::host("the current folder"))?;
    let runtime = runtime()?;
    let status = runtime.block_on(async {
        let client = Client::of(&RuntimeDir::find());
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        run_script(client, &lab, folder, &name, lines, options)
            .await
            .map_err(CliError::host(name.clone()))
    })?;
    // Something may still wait for a line.
    runtime.shutdown_background();
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

fn at_terminal(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let folder = std::env::current_dir().map_err(CliError::host("the current folder"))?;
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let client = Client::of(&RuntimeDir::find());
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        interact(client, &lab, folder)
            .await
            .map_err(|failure| CliError::Other(failure.to_string()))
    });
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
