//! `vink lab-worker`: what the control process starts for each image and worker group of a lab. A user does not run it.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;

use vink_lab::worker::{serve, End};
use vink_sys::fd::set_cloexec;

use crate::cli_error::{CliError, PANICKED};
use crate::watchdog::watch_worker;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The socket to the control process
    #[arg(long, value_name = "DESCRIPTOR")]
    socket: RawFd,
    /// The descriptor that the kernel's watchdog tells of its news
    #[arg(long, value_name = "DESCRIPTOR")]
    watchdog: Option<RawFd>,
}

/// Serves until the socket ends.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let socket = inherited("--socket", arguments.socket)?;
    let watchdog = arguments.watchdog;
    let watchdog = watchdog.map(|number| inherited("--watchdog", number));
    let pipe = watchdog.transpose()?;
    let _watchdog = pipe.map(|pipe| watch_worker(pipe.into())).transpose()?;
    Ok(match serve(socket)? {
        End::Closed => ExitCode::SUCCESS,
        End::Panicked => ExitCode::from(PANICKED),
    })
}

/// A descriptor that the control process has left to us.
fn inherited(option: &str, number: RawFd) -> Result<OwnedFd, CliError> {
    if number < 3 || set_cloexec(number, true).is_err() {
        let text = format!(
            "{option} {number}: no descriptor of this number is open; \
             labs start their workers by themselves: see `vink lab up`"
        );
        return Err(CliError::Other(text));
    }
    // SAFETY: it is open, and nothing else here uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
