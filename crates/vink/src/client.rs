//! What all commands that are clients of the control process need.

use tokio::runtime::{Builder, Runtime};
use vink_api::Client;

use crate::failure::Failure;

/// Of which lab, and how the answer is written: options of the commands about what runs in one.
#[derive(clap::Args)]
pub(crate) struct Within {
    /// The lab; may be left away if only one runs
    #[arg(long, global = true, value_name = "NAME")]
    pub lab: Option<String>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// Runs the client's requests, on this thread.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::host("starting an event loop"))
}

/// The lab that is meant: the one of this name, or the only one.
pub(crate) async fn lab_or_only(client: &Client, name: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let labs: Vec<String> = client.labs().await?.into_iter().map(|l| l.name).collect();
    match labs.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Failure::Other(
            "no lab runs; vink lab up FILE starts one".to_owned(),
        )),
        several => Err(Failure::Other(format!(
            "several labs run ({}): say which with --lab",
            several.join(", ")
        ))),
    }
}
