//! `vink lab-host`: what the control process starts on each other host of a lab. A user does not run it.

use std::process::ExitCode;

use crate::cli_error::CliError;

/// Serves at standard input and output until the input ends.
pub(crate) fn run() -> Result<ExitCode, CliError> {
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    vink_control::serve_host(&executable).map_err(CliError::host("serving another host's labs"))?;
    Ok(ExitCode::SUCCESS)
}
