//! The feed of a lab: what its packets, counters and queues do now, for a picture of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problem;

/// What a viewer wants to see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FeedSubscription {
    /// Filters as in pcap-filter(7), 32 at most, of 1,000 characters each. A flight's class is the
    /// place of the first one that it fits, from 1 on; 0: it fits none. They see the first 256 bytes
    /// of a packet.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Counters and queues of all ends, and the time; none: they are not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overview: Option<FeedOverview>,
    /// Packets one by one; none: they are not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<FeedDetail>,
    /// A filter: its packets are told beside the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<String>,
    /// A flow, by its number in records: its packets are told beside the budget, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
}

/// How often counters are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FeedOverview {
    /// Times a second by the host's clock, 1 to 10.
    pub hz: u32,
}

/// Which packets are told one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FeedDetail {
    /// Those that these ends send, 400 at most: `machine:interface`, or `:WIRE` for what comes over
    /// that wire from outside; none: all ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Vec<String>>,
    /// So many a second by the host's clock, 1 to 200,000. If there are more, one of so many is
    /// told, the same ones on each hop.
    pub budget: u32,
}

/// What a viewer says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FromViewer {
    /// What it wants from now on, in the place of what it wanted.
    Subscribe(FeedSubscription),
    /// It has taken the frames of flights up to this number. No more than 16 are under way.
    Ack(u32),
}

/// What a viewer is told beside frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToViewer {
    /// The subscription is in force.
    Subscribed,
    /// It is not: what was in force before still is.
    Refused(Problem),
}
