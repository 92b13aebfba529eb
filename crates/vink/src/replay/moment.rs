//! `vink replay --until`: a moment of a recorded lab, opened as another lab.

use std::path::Path;
use std::process::ExitCode;

use vink_api::{Client, NewRun, OpenRun, RuntimeDir};
use vink_spec::Span;

use crate::cli_error::CliError;
use crate::client::runtime;
use crate::interrupt::Interrupts;
use crate::print;

/// Has the run of this manifest repeated until then, in a lab of this name, which stands there then.
pub(super) fn open(
    manifest: &Path,
    until: Span,
    name: Option<&str>,
    anyway: bool,
) -> Result<ExitCode, CliError> {
    let what = manifest.display().to_string();
    let path = std::path::absolute(manifest).map_err(CliError::host(what))?;
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    runtime()?.block_on(async {
        let mut interrupts = Interrupts::catch()?;
        let client = Client::start(&RuntimeDir::find(), &executable)?;
        let opening = async {
            let new = NewRun {
                path: path.display().to_string(),
            };
            let runs = client.add_run(&new).await?;
            let [run] = &runs[..] else {
                return Err(CliError::Other(format!(
                    "{} has {} runs: name one of them",
                    path.display(),
                    runs.len()
                )));
            };
            let open = OpenRun {
                at: until.0,
                name: name.map(str::to_owned),
                anyway,
            };
            Ok(client.open_run(&run.id, &open).await?)
        };
        let opened = tokio::select! {
            opened = opening => opened?,
            signal = interrupts.next() => {
                // The control process takes down what no client waits for any more.
                eprintln!("vink: the lab was not opened");
                return Err(CliError::Signal(signal));
            }
        };
        print::text(&format!(
            "lab {} stands at {}.{:09} s of the run; {} passed\n",
            opened.lab,
            opened.nanoseconds / 1_000_000_000,
            opened.nanoseconds % 1_000_000_000,
            print::count(opened.checked as usize, "keyframe"),
        ))?;
        Ok(ExitCode::SUCCESS)
    })
}
