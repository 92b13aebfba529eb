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
    #[serde(deserialize_with = "vink_spec::as_written::series")]
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

/// Which rows of a time series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RowsQuery {
    /// From this time on, in seconds of the first column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// Until this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// At most so many rows: 2,000, and never more than 20,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<usize>,
}

/// Rows of a time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SeriesRows {
    /// The columns' names, the time first.
    pub columns: Vec<String>,
    /// Their numbers, by row. Of a part of the time that has more rows than are given, there are two:
    /// with the least and the greatest number of each column, in the order in which they came.
    pub rows: Vec<Vec<Option<f64>>>,
    /// So many rows these stand for.
    pub stands_for: u64,
    /// There are more rows after the last one: ask from its time on.
    pub more: bool,
}
