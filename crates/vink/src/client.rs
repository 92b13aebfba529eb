//! What all commands that are clients of the control process need.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use vink_api::{Client, EventFilter, Happening, LabApi};

use crate::cli_error::CliError;
use crate::lab::{line, stuck};

/// How long an answer may take before the lab's kernel is looked at.
const ATTENTION: Duration = Duration::from_secs(1);

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

/// The lab that a command is about as a whole: named by `--lab`, as everywhere, or by the command's only word.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// The lab; may be left away if only one runs
    #[arg(id = "word", value_name = "LAB", conflicts_with = "lab")]
    word: Option<String>,
    /// The same
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
}

impl Which {
    /// Its name, if it was said.
    pub fn name(&self) -> Option<&str> {
        self.lab.as_deref().or(self.word.as_deref())
    }
}

/// Runs the client's requests, on this thread.
pub(crate) fn runtime() -> Result<Runtime, CliError> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::host("starting an event loop"))
}

/// Waits for an answer that a lab's kernel may keep waiting for, and says so on standard error if that does not return.
pub(crate) async fn attentively<T>(
    client: &Client,
    lab: &str,
    answer: impl Future<Output = T>,
) -> T {
    let watch = async {
        // Most answers come at once, and cost no connection for events.
        tokio::time::sleep(ATTENTION).await;
        let filter = EventFilter {
            lab: Some(lab.to_owned()),
            watch: None,
        };
        let mut events = client.events(&filter).await?;
        // It may have been so before; a lab that is being made is not there yet.
        if let Ok(status) = client.lab(lab).await {
            for line in stuck(&status) {
                eprintln!("vink: {line}");
            }
        }
        while let Some(event) = events.next().await? {
            if let Happening::Kernel { .. } = event.what {
                eprint!("vink: {}", line(&event).unwrap_or_default());
            }
        }
        Ok::<_, vink_api::Error>(())
    };
    let watch = async {
        // The answer says what is wrong.
        let _ = watch.await;
        std::future::pending::<()>().await
    };
    tokio::select! {
        answer = answer => answer,
        () = watch => unreachable!("it does not end"),
    }
}

/// The lab that is meant: the one of this name, or the only one.
pub(crate) async fn lab_or_only(client: &Client, name: Option<&str>) -> Result<String, CliError> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let labs: Vec<String> = client.labs().await?.into_iter().map(|l| l.name).collect();
    match labs.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(CliError::Other(
            "no lab runs; vink lab up FILE starts one".to_owned(),
        )),
        several => Err(CliError::Other(format!(
            "several labs run ({}): say which with --lab",
            several.join(", ")
        ))),
    }
}
