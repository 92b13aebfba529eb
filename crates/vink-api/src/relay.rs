//! Relays of machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::RelaySpec;

use crate::ProgramState;

/// A relay to be added to a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewRelay {
    /// Its name.
    pub name: String,
    /// What it is, as in a lab file.
    #[serde(deserialize_with = "vink_spec::as_written::relay")]
    pub spec: RelaySpec,
}

/// A relay as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Relay {
    /// On which machine.
    pub machine: String,
    /// Its name there.
    pub name: String,
    /// What it is, as in a lab file.
    pub spec: RelaySpec,
    /// How far it is.
    pub state: ProgramState,
    /// Why it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How bytes go from one connection to the other.
    pub way: String,
    /// What it has counted so far, as the report of a virtualized process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<serde_json::Value>,
}
