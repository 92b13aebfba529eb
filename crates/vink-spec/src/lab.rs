//! A whole lab.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Breakpoint, Calls, Claim, Event, HostSpec, MachineSpec, PathSpec, PodSpec, Series, Settings,
    SwitchSpec, Time, Uplink,
};

/// A lab: what `vink lab up` makes and `vink lab save` writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lab {
    /// The lab's name: letters, digits, `-`, `_` and `.`; at most 63. None: the file's name without its ending.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Which clock its machines have.
    #[serde(default, skip_serializing_if = "Time::is_real")]
    pub time: Time,
    /// Seed of everything random; none: another one each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The kernel's memory for each image, such as 64M or 4G (default 256M).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// How dynamically linked programs make their calls on sockets.
    #[serde(default, skip_serializing_if = "Calls::is_auto")]
    pub calls: Calls,
    /// Further images by name: paths relative to the lab file, or absolute, or names that `vink image list` knows.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub images: IndexMap<String, String>,
    /// Other computers by name, for machines that say `host`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub hosts: IndexMap<String, HostSpec>,
    /// Machines by name.
    #[serde(default)]
    pub machines: IndexMap<String, MachineSpec>,
    /// Switches by name. No machine has the name of one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub switches: IndexMap<String, SwitchSpec>,
    /// Wires by name. One that only an interface names is ideal.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub wires: IndexMap<String, WireSpec>,
    /// Breakpoints by name, set before programs start.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub breakpoints: IndexMap<String, Breakpoint>,
    /// Pods by name, loaded before programs start.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub pods: IndexMap<String, PodSpec>,
    /// Paths of packets through pods, by name. Of several at one place a packet takes the first that it fits.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub paths: IndexMap<String, PathSpec>,
    /// Time series by name, begun before programs start.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub series: IndexMap<String, Series>,
    /// What holds in every run whenever all machines wait, by name: `vink explore` checks it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub always: IndexMap<String, Claim>,
    /// What holds in every run at some time.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub eventually: IndexMap<String, Claim>,
    /// What happens while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// A wire: what it does to packets, in both directions unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WireSpec {
    /// In every direction.
    #[serde(flatten)]
    pub settings: Settings,
    /// An Ethernet segment with any number of ends (default: if it has more than two).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<bool>,
    /// Whether it is plugged in (default: yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// What is different for packets that one end sends, by `machine:interface` (`outside` for the uplink).
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub from: IndexMap<String, Settings>,
    /// Joins it to something outside the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Uplink>,
}
