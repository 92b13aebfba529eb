//! Captures: packets of interfaces as pcapng.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capture to be started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewCapture {
    /// Of which interfaces: `machine:interface`, all of one worker.
    pub interfaces: Vec<String>,
    /// Which packets, as in pcap-filter(7); none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Bytes of each packet; 0: all.
    #[serde(default)]
    pub snap: u32,
    /// Where to: the absolute path of a file, which is made, or emptied.
    pub path: String,
}

/// A capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Capture {
    /// Its number in the lab.
    pub id: u64,
    /// Of which interfaces: `machine:interface`.
    pub interfaces: Vec<String>,
    /// Which packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The file; none: they go to a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it goes on.
    pub running: bool,
    /// Why it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Packets written, when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Packets that came faster than they could be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

/// A capture whose packets come at once, over a WebSocket: binary frames are a pcapng file in
/// pieces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CaptureQuery {
    /// Of which interfaces: `machine:interface`, separated by commas, all of one worker.
    pub interfaces: String,
    /// Which packets, as in pcap-filter(7); none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Bytes of each packet; 0: all.
    #[serde(default)]
    pub snap: u32,
}
