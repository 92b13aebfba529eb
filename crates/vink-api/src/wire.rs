//! Wires.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::{Settings, Uplink, WireSpec};

/// A wire to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewWire {
    /// Its name.
    pub name: String,
    /// What it is, as in a lab file.
    #[serde(default, deserialize_with = "vink_spec::as_written::wire")]
    pub spec: WireSpec,
}

/// A wire as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Wire {
    /// Its name.
    pub name: String,
    /// An Ethernet segment with any number of ends.
    pub bus: bool,
    /// Whether it is plugged in.
    pub up: bool,
    /// What it does to packets of every end that `from` does not name.
    pub settings: Settings,
    /// What is different for packets that one end sends.
    pub from: IndexMap<String, Settings>,
    /// Its ends.
    pub ends: Vec<WireEnd>,
    /// What it is joined to outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Uplink>,
    /// What is wrong with that, or with the way to another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_error: Option<String>,
    /// Of a wire between two hosts: datagrams that were dropped, as neither side had sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<u64>,
}

/// An end of a wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireEnd {
    /// `machine:interface`, or `outside`.
    pub end: String,
    /// What happened to packets that it sent, by name (`sent`, `lost` ...); nothing in lists.
    #[serde(default)]
    pub counters: IndexMap<String, u64>,
}

/// What is to be different about a wire. What is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeWire {
    /// What it is to do to packets; an explicit zero makes a setting ideal again.
    #[serde(default, deserialize_with = "vink_spec::as_written::settings")]
    pub settings: Settings,
    /// Only to those that this end sends (`machine:interface`, or `outside`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The settings are all there are: those that are not named become ideal.
    #[serde(default)]
    pub replace: bool,
    /// Plug it in or out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}
