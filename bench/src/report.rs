//! The table on the terminal and the file of results.

use std::fs;
use std::path::Path;

use serde_json::{json, Value};

use crate::benchmark::{Bar, Figure, Side};
use crate::BoxError;

/// The medians of one figure.
pub(crate) struct Row {
    pub figure: &'static Figure,
    pub vink: Option<f64>,
    pub host: Option<f64>,
    pub host_two_cpus: Option<f64>,
    /// Which of the host's the ratio is to.
    pub against: Side,
    pub rounds: u32,
}

/// Prints the table's head.
pub(crate) fn head() {
    println!(
        "{:<18}{:>8}{:>12}{:>12}{:>12}{:>10}  bar",
        "", "unit", "Vink", "host, 1 CPU", "2 CPUs", "Vink:host"
    );
}

impl Row {
    /// Vink's figure divided by the host's.
    fn ratio(&self) -> Option<f64> {
        let host = match self.against {
            Side::HostTwoCpus => self.host_two_cpus,
            _ => self.host,
        };
        Some(self.vink? / host?)
    }

    /// Whether the bar, if there is one, is held.
    pub fn holds(&self) -> Option<bool> {
        match self.figure.bar? {
            Bar::RatioAtMost(most) => Some(self.ratio()? <= most),
            Bar::RatioAtLeast(least) => Some(self.ratio()? >= least),
            Bar::AtMost(most) => Some(self.vink? <= most),
            Bar::AtLeast(least) => Some(self.vink? >= least),
        }
    }

    /// Prints a line of the table.
    pub fn print(&self) {
        let number = |n: Option<f64>| match n {
            Some(n) if n < 10.0 => format!("{n:.2}"),
            Some(n) if n < 100.0 => format!("{n:.1}"),
            Some(n) => format!("{n:.0}"),
            None => "-".to_owned(),
        };
        let bar = match self.figure.bar {
            Some(Bar::RatioAtMost(most)) => format!("ratio <= {most}"),
            Some(Bar::RatioAtLeast(least)) => format!("ratio >= {least}"),
            Some(Bar::AtMost(most)) => format!("<= {most}"),
            Some(Bar::AtLeast(least)) => format!(">= {least}"),
            None => String::new(),
        };
        let verdict = match self.holds() {
            Some(true) => "  ok",
            Some(false) => "  MISSED",
            None => "",
        };
        println!(
            "{:<18}{:>8}{:>12}{:>12}{:>12}{:>10}  {bar}{verdict}",
            self.figure.name,
            self.figure.unit,
            number(self.vink),
            number(self.host),
            number(self.host_two_cpus),
            number(self.ratio()),
        );
    }

    fn json(&self) -> Value {
        json!({
            "name": self.figure.name,
            "unit": self.figure.unit,
            "vink": self.vink,
            "host": self.host,
            "host_two_cpus": self.host_two_cpus,
            "ratio": self.ratio(),
            "rounds": self.rounds,
        })
    }
}

/// Writes all rows as a JSON list.
pub(crate) fn write(path: &Path, rows: &[Row]) -> Result<(), BoxError> {
    let list = Value::Array(rows.iter().map(Row::json).collect());
    let text = serde_json::to_string_pretty(&list)? + "\n";
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()).into())
}
