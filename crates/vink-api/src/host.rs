//! Other computers on which machines of a lab run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a host is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// It is being reached.
    Connecting,
    /// Its machines run.
    Connected,
    /// It was not reached, or is not there any more: `vink lab up` again brings it back.
    Lost,
}

/// A host of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub state: HostState,
    /// The way to it: for ssh, or a command.
    pub way: String,
    /// Why it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many machines are on it.
    pub machines: usize,
}
