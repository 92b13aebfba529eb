//! `vink lab logs`: what a program that is not attached has written.

use std::io::Write;
use std::process::ExitCode;

use vink_api::{Client, OutputQuery, Place};

use crate::client::{lab_or_only, runtime};
use crate::failure::Failure;

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
pub(crate) fn logs(arguments: &Logs) -> Result<ExitCode, Failure> {
    let client = Client::of(&Place::find());
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
                .map_err(Failure::host("standard output"))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
