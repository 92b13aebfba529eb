//! How many schedules `vink explore` tries a second, with one process, by either engine.

use std::path::Path;
use std::process::Command;

use crate::BoxError;

/// A client, a server and a wire.
const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../labs/explore/lab.yaml");

/// Runs a second and packets by pages, runs a second by forks, which follow at once.
pub(crate) fn states(vink: &Path) -> Result<Vec<Option<f64>>, BoxError> {
    let [pages, forks] = ["pages", "fork"].map(|engine| search(vink, engine));
    let ([runs, packets], [by_forks, _]) = (pages?, forks?);
    Ok(vec![Some(runs), Some(packets), Some(by_forks)])
}

/// Runs a second, and packets.
fn search(vink: &Path, engine: &str) -> Result<[f64; 2], BoxError> {
    let mut command = Command::new(vink);
    command.args(["explore", LAB, "-j", "1", "--json", "--engine", engine]);
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let numbers: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| numbers[name].as_f64().ok_or(format!("no {name}"));
    let seconds = number("seconds")?;
    Ok([number("runs")? / seconds, number("packets")? / seconds])
}
