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
    /// Where to: the absolute path of a file, which is made, or emptied. Without one the lab keeps the
    /// packets, 64 MiB of them at most.
    #[serde(default, skip_serializing_if = "String::is_empty")]
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
    /// The file; none: they go to a client, or the lab keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether its packets can be asked for.
    pub readable: bool,
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

/// Which packets of a capture: from one on, by its number from 0 on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CapturedQuery {
    /// The first one.
    #[serde(default)]
    pub from: u64,
    /// At most so many: 200, and never more than 2,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// Packets of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CapturedPackets {
    /// So many packets it has until now.
    pub total: u64,
    /// The date of the first one, in seconds since 1970; 0: there is none yet.
    pub began: f64,
    /// Those that were asked for.
    pub packets: Vec<CapturedPacket>,
}

/// A packet of a capture or of a recorded run, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CapturedPacket {
    /// Its number, from 0 on; in a run its place in the journal.
    pub number: u64,
    /// How long after the capture's first one; in a run on its clock.
    pub nanoseconds: i64,
    /// Where: `machine:interface`.
    pub end: String,
    /// `departure`, `arrival` or `loss`.
    pub what: String,
    /// Why it was lost, in the kernel's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its length in bytes.
    pub length: u32,
    /// In the manner of tcpdump(8).
    pub summary: String,
}

/// All that is known of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PacketDetail {
    /// What lists show of it.
    pub packet: CapturedPacket,
    /// The bytes that were kept, in hexadecimal.
    pub bytes: String,
    /// What Wireshark's dissectors find in it; none: `undissected` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<PacketField>>,
    /// Why there are no fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undissected: Option<String>,
}

/// A part of a packet, as Wireshark shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PacketField {
    /// What it says.
    pub text: String,
    /// A display filter that it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Where it is in the packet's bytes, and how many bytes it has; both 0: it has none.
    #[serde(default)]
    pub start: u32,
    /// How many bytes it has.
    #[serde(default)]
    pub length: u32,
    /// Its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<PacketField>,
}
