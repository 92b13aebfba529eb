//! A lab that was recorded, once more: made with a standing clock, which goes as far as it went then. What its users did to
//! it is in the journal, and is done again when the clock is there.

use std::path::Path;

use serde_json::Value;
use vink_api::{Client, LabApi, RuntimeDir};
use vink_control::{repeat, requests};
use vink_record::{Manifest, Totals};
use vink_spec::{Lab, Time};

use crate::cli_error::CliError;
use crate::client::runtime;
use crate::record::open;

/// Makes the lab, lets its clock go, takes it down. What is recorded of it is in this folder then, which must not be there yet.
pub(super) fn again(
    manifest: &Manifest,
    spec: &Value,
    then: &Totals,
    journal: &Path,
    folder: &Path,
) -> Result<(), CliError> {
    let spec: Lab = serde_json::from_value(spec.clone())
        .map_err(|error| CliError::Other(format!("the lab in the manifest: {error}")))?;
    if spec.time == Time::Real {
        return Err(CliError::Other(format!(
            "lab {} lived by the host's clock: no two runs of it are the same. vink lab diff compares them; with \
             `time: virtual` in its file, or vink lab up --time virtual, it repeats",
            spec.name
        )));
    }
    let name = spec.name.clone();
    let asked = requests(&mut open(journal)?)?;
    let wanted = vink_control::again(manifest, spec, folder);
    let executable = std::env::current_exe().map_err(CliError::host("finding vink itself"))?;
    runtime()?.block_on(async {
        let client = Client::start(&RuntimeDir::find(), &executable)?;
        client.put_lab(&name, &wanted).await?;
        let went = repeat(&client, &name, &name, asked, manifest.inputs, then.end).await;
        client.remove_lab(&name).await?;
        Ok(went?)
    })
}
