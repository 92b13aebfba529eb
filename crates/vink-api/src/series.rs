//! Time series of a lab.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A time series to be begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewSeries {
    /// Its name.
    pub name: String,
    /// As in a lab file.
    pub spec: vink_spec::Series,
}

/// A time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Series {
    /// Its name.
    pub name: String,
    /// As in a lab file.
    pub spec: vink_spec::Series,
    /// Its file.
    pub path: String,
    /// Rows that it has.
    pub rows: u64,
    /// Events that came faster than they could be kept.
    pub missed: u64,
    /// Why it has no more of them.
    pub error: Option<String>,
}
