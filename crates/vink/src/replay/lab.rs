//! A lab that was recorded, once more: made with a standing clock, which goes as far as it went then.

use std::path::Path;

use serde_json::Value;
use vink_api::{Client, Place, PutLab, RecordLab, RunClock};
use vink_record::{Manifest, Totals};
use vink_spec::{Lab, Span, Time};

use crate::client::runtime;
use crate::failure::Failure;

/// Makes the lab, lets its clock go, takes it down. What is recorded of it is in this folder then, which must not be there yet.
pub(super) fn again(
    manifest: &Manifest,
    spec: &Value,
    then: &Totals,
    folder: &Path,
) -> Result<(), Failure> {
    let spec: Lab = serde_json::from_value(spec.clone())
        .map_err(|error| Failure::Other(format!("the lab in the manifest: {error}")))?;
    if spec.time == Time::Real {
        return Err(Failure::Other(format!(
            "lab {} lived by the host's clock: no two runs of it are the same. vink lab diff compares them; with \
             `time: virtual` in its file, or vink lab up --time virtual, it repeats",
            spec.name
        )));
    }
    let name = spec.name.clone();
    let wanted = PutLab {
        spec,
        folder: manifest.folder.display().to_string(),
        env: manifest.env.iter().cloned().collect(),
        new: true,
        paused: true,
        record: Some(RecordLab {
            folder: folder.display().to_string(),
            lab_file: None,
        }),
        ..PutLab::default()
    };
    let executable = std::env::current_exe().map_err(Failure::host("finding vink itself"))?;
    runtime()?.block_on(async {
        let client = Client::start(&Place::find(), &executable)?;
        client.put_lab(&name, &wanted).await?;
        let went = go(&client, &name, then.end).await;
        client.remove_lab(&name).await?;
        Ok(went?)
    })
}

/// To this time of the kernel's clock.
async fn go(client: &Client, lab: &str, time: u64) -> Result<(), vink_api::Error> {
    let now = client.clock(lab).await?.kernel_nanoseconds;
    if now < time {
        let run = RunClock {
            by: Some(Span(time - now)),
            ..RunClock::default()
        };
        client.run_clock(lab, &run).await?;
    }
    Ok(())
}
