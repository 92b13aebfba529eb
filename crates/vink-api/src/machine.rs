//! Machines and their interfaces.

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::{MachineSpec, Rights};

/// A machine to be made, with its interfaces, set-up commands and programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewMachine {
    /// Its name.
    pub name: String,
    /// What it is, as in a lab file.
    #[serde(default, deserialize_with = "vink_spec::as_written::machine")]
    pub spec: MachineSpec,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineState {
    /// It is being made.
    Starting,
    /// It runs.
    Running,
    /// Its worker has died.
    Dead,
    /// Its host is lost.
    Lost,
}

/// A machine in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MachineSummary {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub state: MachineState,
    /// Which of the lab's hosts it is on; none: the one of the control process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The image's name in the lab; none: the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The worker that the lab names for it; none: the lab's own, or that of its `core`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The processors on which its worker and its programs stay; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core: Vec<u32>,
    /// The process of its worker, by its number on its host; none: it has died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its interfaces but `lo`, each with the addresses that the lab gave it.
    #[schemars(with = "IndexMap<String, Vec<String>>")]
    pub interfaces: IndexMap<String, Vec<IpNet>>,
    /// How many programs of it run.
    pub programs: usize,
}

/// A machine as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Whether it runs.
    pub state: MachineState,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Which of the lab's hosts it is on; none: the one of the control process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The image's name in the lab; none: the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether it forwards packets.
    pub forward: bool,
    /// What its programs may do; none: everything.
    #[serde(default, skip_serializing_if = "Rights::is_full")]
    pub rights: Rights,
    /// Its interfaces but `lo`.
    pub interfaces: Vec<Interface>,
    /// Numbers of its programs that run.
    pub programs: Vec<u64>,
}

/// An interface as its machine has it now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The wire that it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Its Ethernet address.
    pub mac: String,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its addresses now, also those that programs have added.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
    /// Packets, bytes, drops and errors by name, such as `rx-packets`.
    pub counters: IndexMap<String, u64>,
}

/// An interface to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewInterface {
    /// Its name.
    pub name: String,
    /// What it is, as in a lab file.
    #[serde(default, deserialize_with = "vink_spec::as_written::interface")]
    pub spec: vink_spec::Interface,
}

/// What is to be different about an interface. What is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeInterface {
    /// Attach it to this wire. It is made anew for that, with its addresses: routes through it that
    /// the lab does not name are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Detach it from its wire.
    #[serde(default)]
    pub detach: bool,
    /// Give it these addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub add: Vec<IpNet>,
    /// Take these from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub remove: Vec<IpNet>,
}
