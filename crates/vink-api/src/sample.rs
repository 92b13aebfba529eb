//! Samples of sockets: what they are when the kernel passes its tracepoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which sockets, and when. What comes is for `vink pcb`, which knows what the bytes mean by the
/// image's debug information.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SampleQuery {
    /// A machine: its worker's kernel is looked at.
    pub machine: String,
    /// The kernel's tracepoints, separated by commas, whose first argument is a socket.
    pub points: String,
    /// Bytes of each socket.
    pub bytes: usize,
    /// Only of sockets that have `number`, of eight bytes, at this offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// The number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}
