//! Figures of a lab that runs.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::Span;

/// How much was done so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Statistics {
    /// Seconds since 1970.
    pub time: f64,
    /// Of its workers.
    pub workers: Vec<WorkerStatistics>,
    /// Of its wires.
    pub wires: Vec<WireStatistics>,
}

/// Figures of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WorkerStatistics {
    /// The image's name in the lab; none: the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Resident memory in bytes.
    pub resident: u64,
    /// The kernel's counters by name.
    pub counters: IndexMap<String, u64>,
}

/// Figures of a wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireStatistics {
    /// Its name.
    pub wire: String,
    /// Of packets that its ends sent.
    pub ends: Vec<EndStatistics>,
}

/// Figures of one direction of a wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct EndStatistics {
    /// `machine:interface`, or `outside`.
    pub end: String,
    /// By name: `sent`, `lost` ...
    pub counters: IndexMap<String, u64>,
}

/// How often statistics are wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StatisticsQuery {
    /// Between one and the next (default 1s, at least 10ms).
    #[serde(default = "second")]
    pub interval: Span,
}

fn second() -> Span {
    Span(1_000_000_000)
}

impl Default for StatisticsQuery {
    fn default() -> StatisticsQuery {
        StatisticsQuery { interval: second() }
    }
}
