//! How many schedules `vink explore` tries a second, with one process.

use std::path::Path;
use std::process::Command;

use crate::BoxError;

/// A client, a server and a wire.
const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../labs/explore/lab.yaml");

/// Runs a second, and packets.
pub(crate) fn states(vink: &Path) -> Result<Vec<Option<f64>>, BoxError> {
    let mut command = Command::new(vink);
    command.args(["explore", LAB, "-j", "1", "--json"]);
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let numbers: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| numbers[name].as_f64().ok_or(format!("no {name}"));
    let seconds = number("seconds")?;
    Ok(vec![
        Some(number("runs")? / seconds),
        Some(number("packets")? / seconds),
    ])
}
