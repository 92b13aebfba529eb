//! `vink lab logs`: what a program that is not attached has written.

use std::io::Write;
use std::process::ExitCode;

use vink_api::{Client, LabApi, OutputQuery, RuntimeDir};

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime};

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Logs {
    /// The program: MACHINE.PROGRAM, or its number
    program: String,
    /// The lab; may be left away if only one runs
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Go on until the program ends
    #[arg(short, long)]
    follow: bool,
    /// Only the last bytes
    #[arg(long, value_name = "BYTES")]
    tail: Option<u64>,
}

/// Copies it to standard output.
pub(crate) fn logs(arguments: &Logs) -> Result<ExitCode, CliError> {
    let client = Client::of(&RuntimeDir::find());
    let query = OutputQuery {
        follow: arguments.follow,
        tail: arguments.tail,
    };
    runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        let mut log = client.output(&lab, &arguments.program, &query).await?;
        let mut to = std::io::stdout().lock();
        while let Some(bytes) = log.next().await? {
            to.write_all(&bytes)
                .and_then(|()| to.flush())
                .map_err(CliError::host("standard output"))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
