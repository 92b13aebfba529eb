//! A machine of a lab.

use std::net::IpAddr;

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AtSwitch, Bridge, Core, ProgramSpec, RelaySpec, Rights};

/// A machine: its interfaces, what its kernel is told, and what runs on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MachineSpec {
    /// Which of the lab's `hosts` it runs on; none: this computer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Which image it runs: a name of the lab's `images`; none: the one that `vink version` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The worker process that it is in: machines of one image and one name share one; none: the lab's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The host's processors on which its worker and its programs stay: a number, or a list. Without `worker`, the
    /// machines with the same `core` share a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<Core>,
    /// Interfaces by name. `lo` is always there.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub interfaces: IndexMap<String, Interface>,
    /// Static routes, in the order in which they are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// A router: forwards packets between its interfaces, IPv4 and IPv6.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward: bool,
    /// What its programs may do on it. `setup` has all rights.
    #[serde(default, skip_serializing_if = "Rights::is_full")]
    pub rights: Rights,
    /// Values below /proc/sys by their names as in sysctl(8): net.ipv4.tcp_congestion_control.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub sysctls: IndexMap<String, Scalar>,
    /// Files that its programs find, by absolute path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub files: IndexMap<String, FileSpec>,
    /// A folder, relative to the lab file and not outside its folder, whose files shadow the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Rules for nft(8) that hold for all of it. The control process loads them before any program
    /// starts; docs/filter.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FileSpec>,
    /// Shell commands run one after the other when the machine is there, before its programs; each must succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Programs by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub programs: IndexMap<String, ProgramSpec>,
    /// Relays by name: what comes to an address of the machine goes on to a target, inside the worker; docs/relay.md.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub relays: IndexMap<String, RelaySpec>,
    /// Of a switch that runs: what its kernel was told. No file says it.
    #[serde(skip)]
    pub bridge: Option<Box<Bridge>>,
}

/// An interface of a machine, at a wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Interface {
    /// The wire that it is attached to; none: it has no carrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// In the place of `wire`: the switch at which it makes a port and an ideal wire to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<AtSwitch>,
    /// Addresses with the size of their network, such as 10.0.0.1/24 or fd00::1/64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
    /// Its Ethernet address; none: one that is made from the names of lab, machine and interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Rules for nft(8) that are about this interface, in which `{{interface}}` is its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FileSpec>,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Route {
    /// Where to: a network, or `default` (of the family of `via`; IPv4 without it).
    pub to: String,
    /// The next router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub via: Option<IpAddr>,
    /// Through which interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<String>,
    /// Its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// As the arguments of `ip route add`.
impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(dev) = &self.dev {
            write!(f, " dev {dev}")?;
        }
        if let Some(metric) = self.metric {
            write!(f, " metric {metric}")?;
        }
        Ok(())
    }
}

/// What is in a file of a machine, or in a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FileSpec {
    /// This text.
    Text(String),
    /// What is in this file.
    From {
        /// A path relative to the lab file, not outside its folder.
        from: String,
    },
}

/// A value as it is written in YAML: 1 is as good as "1".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// An integer.
    Number(i64),
    /// Anything else.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Number(number) => number.fmt(f),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}
