//! Breakpoints of a lab.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A breakpoint to be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewBreakpoint {
    /// Its name; none: a number that none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As in a lab file.
    #[serde(deserialize_with = "vink_spec::as_written::breakpoint")]
    pub spec: vink_spec::Breakpoint,
}

/// A breakpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Breakpoint {
    /// Its name.
    pub name: String,
    /// As in a lab file.
    pub spec: vink_spec::Breakpoint,
    /// Packets that it was about.
    pub seen: u64,
    /// Packets that it has done something to.
    pub hits: u64,
}

/// All breakpoints of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Breakpoints {
    /// In the order in which they were set.
    pub breakpoints: Vec<Breakpoint>,
    /// One has stopped all of the lab.
    pub stopped: bool,
    /// Machines that one has stopped.
    pub machines: Vec<String>,
}

/// What becomes of the packet at which a breakpoint has stopped the lab, when it goes on: beside
/// what breakpoints do to it. What is not named is not done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PacketVerdict {
    /// Of which hit: how often the breakpoint was met by then.
    pub number: u64,
    /// It is lost.
    #[serde(default)]
    pub drop: bool,
    /// It passes so much later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<vink_spec::Span>,
    /// These bytes pass in its place: from the Ethernet header on, two hexadecimal digits each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
}

/// A breakpoint is to do something, or nothing for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeBreakpoint {
    /// To do something.
    pub enabled: bool,
}
