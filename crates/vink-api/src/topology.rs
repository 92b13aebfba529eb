//! What the picture of a lab is drawn from: machines, wires, and the numbers of wires' ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MachineState;

/// `GET /v1/labs/LAB/topology`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Topology {
    /// How many changes of the lab this has; the event of each one says the number.
    pub revision: u64,
    /// Its machines and switches.
    pub nodes: Vec<TopologyNode>,
    /// Its wires.
    pub wires: Vec<TopologyWire>,
    /// All ends of wires. The place here is the number of the end, for as long as the revision is the same.
    pub ends: Vec<TopologyEnd>,
}

/// A machine or a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TopologyNode {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Whether it runs.
    pub state: MachineState,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A machine that forwards no packets.
    Machine,
    /// A machine that does.
    Router,
    /// A switch.
    Switch,
}

/// A wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TopologyWire {
    /// Its name.
    pub name: String,
    /// Whether it is plugged in.
    pub up: bool,
    /// An Ethernet segment with any number of ends.
    pub bus: bool,
    /// Its ends, by number.
    pub ends: Vec<usize>,
}

/// An end of a wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TopologyEnd {
    /// Its node's place in `nodes`; none: outside.
    pub node: Option<usize>,
    /// Its interface; empty: outside.
    pub interface: String,
}
