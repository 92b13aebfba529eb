//! `vink daemon`, the control process, and `vink lab-worker`, which it starts.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use vink_api::{Client, RuntimeDir};
use vink_control::{Hooks, Options};

use crate::cli_error::CliError;
use crate::lab_check;

/// The command line of `vink daemon`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also answer clients over TCP at this loopback address, which need the token that is written down
    #[arg(long, value_name = "127.0.0.1:PORT")]
    listen: Option<SocketAddr>,
    /// Tell on this descriptor when clients are answered, and end after the last lab
    #[arg(long, hide = true, value_name = "FD")]
    ready: Option<i32>,
    /// Tell on this descriptor when clients are answered, and end when its other end is closed
    #[arg(long, hide = true, value_name = "FD", conflicts_with = "ready")]
    owner: Option<i32>,
}

/// Runs until it is told to end.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let dir = RuntimeDir::find();
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    let client = Client::of(&dir);
    let hooks = Hooks {
        executable,
        run_line: Arc::new(|api, lab, line| {
            Box::pin(async move {
                let ran = vink_shell::run_line(api, &lab, &line).await;
                ran.map(drop).map_err(|failure| failure.to_string())
            })
        }),
        check: Arc::new(lab_check::look),
        switch_box: Arc::new(move |lab, listener| {
            let client = client.clone();
            Box::pin(async move {
                let served = vink_shell::serve(client, lab, listener).await;
                served.map_err(|error| error.to_string())
            })
        }),
    };
    let options = Options {
        listen: arguments.listen,
        ready: arguments.ready,
        owner: arguments.owner,
    };
    vink_control::run(&dir, options, hooks).map_err(|error| CliError::Other(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
