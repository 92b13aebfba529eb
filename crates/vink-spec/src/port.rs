//! A port of a switch: its addresses, VLANs and group.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::switch::{hash, LONGEST};
use crate::{nearest, FileSpec, Interface, Port, SwitchSpec};

/// A port of a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortSpec {
    /// The wire that it is attached to; none: it has no carrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// The Ethernet address of what is at the port: frames from another one are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its addresses, or networks of them: packets from others are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<SourceAddress>,
    /// Whether they are pinned (default: if they are given). `true` without any: those of the interface at the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<bool>,
    /// The VLAN of frames without a tag (default: 1, if no others are tagged).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// VLANs whose frames have tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tagged: Vec<u16>,
    /// The group of ports that it is in, by any name: they have the same addresses and share the flows to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Rules for nft(8), in force before a frame passes the port; docs/filter.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FileSpec>,
}

/// The switch that an interface is at, by its name, or with what is said of the port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AtSwitch {
    /// The switch.
    Name(String),
    /// The switch and its port.
    Port(PortOf),
}

/// A port that an interface makes at a switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortOf {
    /// The switch.
    pub name: String,
    /// Whether the interface's addresses are pinned (default: yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<bool>,
    /// The VLAN of frames without a tag (default: 1, if no others are tagged).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// VLANs whose frames have tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tagged: Vec<u16>,
    /// The group of ports that it is in, by any name: they have the same addresses and share the flows to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Rules for nft(8) at the port, which the machine can't change; docs/filter.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FileSpec>,
}

impl AtSwitch {
    /// The switch's name.
    pub fn name(&self) -> &str {
        match self {
            AtSwitch::Name(name) => name,
            AtSwitch::Port(port) => &port.name,
        }
    }

    /// The group that the port is in.
    pub(crate) fn group(&self) -> Option<&str> {
        match self {
            AtSwitch::Name(_) => None,
            AtSwitch::Port(port) => port.group.as_deref(),
        }
    }

    /// What is said of the port.
    pub(crate) fn port(&self) -> PortOf {
        match self {
            AtSwitch::Name(name) => PortOf {
                name: name.clone(),
                ..PortOf::default()
            },
            AtSwitch::Port(port) => port.clone(),
        }
    }

    /// The same with these rules at the port. What says no more than the name is the name.
    pub(crate) fn with_filter(&self, filter: Option<FileSpec>) -> AtSwitch {
        let port = PortOf {
            filter,
            ..self.port()
        };
        let named = PortOf {
            name: port.name.clone(),
            ..PortOf::default()
        };
        match port == named {
            true => AtSwitch::Name(port.name),
            false => AtSwitch::Port(port),
        }
    }
}

/// An address, or a network of addresses: `10.0.0.1`, `fd00::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceAddress(pub IpNet);

impl FromStr for SourceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<SourceAddress, String> {
        let net = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse::<IpNet>().map_err(|_| {
                format!("{text:?} is no address: write it like 10.0.0.1, or like 10.1.0.0/16 for a network")
            })?,
        };
        match net.trunc() == net {
            true => Ok(SourceAddress(net)),
            false => Err(format!(
                "{text} is neither an address nor a network: write {} for the one, {} for the other",
                net.addr(),
                net.trunc()
            )),
        }
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(f),
            false => self.0.fmt(f),
        }
    }
}

impl Serialize for SourceAddress {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SourceAddress {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<SourceAddress, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SourceAddress {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SourceAddress".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// The name of the port that an interface makes: `MACHINE-INTERFACE` as far as an interface's name may be so long.
pub fn port_name(machine: &str, interface: &str) -> String {
    let name = format!("{machine}-{interface}");
    if name.len() <= LONGEST {
        return name;
    }
    // What is cut off is told by a number of it.
    let hash = hash(&name) & 0xff_ffff;
    let mut end = LONGEST - 7;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let kept = &name[..end];
    format!("{}-{hash:06x}", kept.trim_end_matches(['-', '.']))
}

/// The name of the wire between such a port and its interface.
pub fn port_wire(switch: &str, port: &str) -> String {
    format!("{switch}.{port}")
}

/// In what two ports of a group differ.
fn differs(one: &Port, other: &Port) -> Option<&'static str> {
    if one.mac != other.mac {
        Some("Ethernet addresses")
    } else if one.addresses != other.addresses {
        Some("addresses")
    } else if one.vlan != other.vlan {
        Some("VLANs")
    } else {
        None
    }
}

impl Reader {
    pub(crate) fn port(&mut self, node: &Node) -> Option<PortSpec> {
        self.fields(node, "a port", |r, f| PortSpec {
            wire: r.field(f, "wire", Reader::text),
            mac: r.field(f, "mac", Reader::text),
            addresses: r.field_or_default(f, "addresses", |r, n| r.list(n, Reader::parsed)),
            pin: r.field(f, "pin", Reader::flag),
            vlan: r.field(f, "vlan", Reader::vlan),
            tagged: r.field_or_default(f, "tagged", |r, n| r.list(n, Reader::vlan)),
            group: r.field(f, "group", Reader::text),
            filter: r.field(f, "filter", Reader::file),
        })
    }

    pub(crate) fn at_switch(&mut self, node: &Node) -> Option<AtSwitch> {
        if !matches!(&node.kind, Kind::Map(_)) {
            return self.text(node).map(AtSwitch::Name);
        }
        let port = self.fields(node, "the port of a switch", |r, f| {
            let name = r.needed(f, (node, "name", "sw"), Reader::text);
            let pin = r.field(f, "pin", Reader::flag);
            let vlan = r.field(f, "vlan", Reader::vlan);
            let tagged = r.field_or_default(f, "tagged", |r, n| r.list(n, Reader::vlan));
            let group = r.field(f, "group", Reader::text);
            let filter = r.field(f, "filter", Reader::file);
            Some(AtSwitch::Port(PortOf {
                name: name?,
                pin,
                vlan,
                tagged,
                group,
                filter,
            }))
        });
        port.flatten()
    }

    pub(crate) fn vlan(&mut self, node: &Node) -> Option<u16> {
        self.number(node, 1, 4094)
    }
}

impl<'a> Check<'a> {
    pub(crate) fn port(&mut self, switch: &str, name: &str, spec: &PortSpec) {
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        // The rest has been told of: it is an interface's name.
        let told = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
        if name.len() <= 15 && name.chars().any(|c| !usable(c)) && !name.contains(told) {
            let message = format!("{name:?} can't be the name of a port");
            self.add(message, "use letters, digits, `-`, `_` and `.`, at most 15")
                .key = true;
        }
        if let Some(mac) = &spec.mac {
            self.at("mac", |c| c.mac(mac));
        }
        self.vlans(spec.vlan, &spec.tagged);
        if spec.pin != Some(true) || spec.mac.is_some() || !spec.addresses.is_empty() {
            return;
        }
        if self
            .lab
            .at_other_end(spec.wire.as_deref(), switch)
            .is_none()
        {
            self.at("pin", |c| {
                let message = "nothing says which addresses are pinned: its wire does not lead to one interface";
                c.add(message, "give `mac` and `addresses` here").path.len()
            });
        }
    }

    /// The ports of a group are the same to whatever sends to them.
    pub(crate) fn groups(&mut self, switch: &str, spec: &SwitchSpec) {
        let machine = self.lab.machines.get(switch);
        let Some(bridge) = machine.and_then(|machine| machine.bridge.as_deref()) else {
            return;
        };
        let at = self.said.at_switch(switch);
        let of_switch = std::mem::take(&mut self.path);
        for (group, ports) in bridge.groups() {
            let (first, as_first) = ports[0];
            for (name, port) in &ports {
                let key = match at.iter().find(|(m, i, _)| port_name(m, i) == *name) {
                    Some((machine, interface, _)) if !spec.ports.contains_key(*name) => [
                        "machines",
                        machine,
                        "interfaces",
                        interface,
                        "switch",
                        "group",
                    ],
                    _ => ["switches", switch, "ports", name, "group", ""],
                };
                let key = key.into_iter().filter(|step| !step.is_empty());
                self.path = key.map(str::to_owned).collect();
                self.name("a group", group, false);
                if port.mac.is_none() || port.addresses.is_empty() {
                    self.add(
                        format!("the addresses of port {name} are not pinned, and group {group} is known by its addresses"),
                        "give the port `mac` and `addresses`, or the interface `addresses`, without `pin: false`",
                    );
                } else if !port.tagged.is_empty() {
                    let message = format!("port {name} has tagged VLANs, and is in group {group}");
                    self.add(
                        message,
                        "leave `tagged` out: a group is in one VLAN, without tags",
                    );
                } else if let Some(what) = differs(port, as_first) {
                    self.add(
                        format!("ports {first} and {name} of group {group} have different {what}"),
                        format!("give all ports of the group the same {what}"),
                    );
                }
            }
        }
        self.path = of_switch;
    }

    /// An interface at a switch has the wire that this makes.
    pub(crate) fn wires_of_switches(&mut self) {
        for (machine, spec) in &self.said.machines {
            for (name, interface) in &spec.interfaces {
                let (Some(at), Some(wire)) = (&interface.switch, &interface.wire) else {
                    continue;
                };
                let own = port_wire(at.name(), &port_name(machine, name));
                if *wire != own {
                    self.path = ["machines", machine, "interfaces", name, "wire"]
                        .map(str::to_owned)
                        .to_vec();
                    let message = "an interface is at a wire or at a switch, not at both";
                    let fix = format!("leave one out: its wire to the switch is called {own}");
                    self.add(message, fix).key = true;
                    self.path.clear();
                }
            }
        }
    }

    /// Those of a port.
    pub(crate) fn vlans(&mut self, untagged: Option<u16>, tagged: &[u16]) {
        let mut seen: HashSet<u16> = untagged.into_iter().collect();
        for (at, vlan) in tagged
            .iter()
            .enumerate()
            .filter(|(_, vlan)| !seen.insert(**vlan))
        {
            self.path.extend(["tagged".to_owned(), at.to_string()]);
            let message = format!("VLAN {vlan} is there twice");
            self.add(
                message,
                "a port's frames of a VLAN have a tag, or they have none",
            );
            self.path.truncate(self.path.len() - 2);
        }
    }

    /// The port that an interface makes.
    pub(crate) fn at_switch(&mut self, spec: &Interface) {
        let Some(at) = &spec.switch else { return };
        let Some(switch) = self.lab.switches.get(at.name()) else {
            let fix = match nearest(at.name(), self.lab.switches.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("say what it is: `switches: {{{}: {{}}}}`", at.name()),
            };
            self.at("switch", |c| {
                let message = format!("there is no switch `{}` in this lab", at.name());
                c.add(message, fix).may_follow = true;
            });
            return;
        };
        let AtSwitch::Port(port) = at else { return };
        self.at("switch", |c| {
            c.vlans(port.vlan, &port.tagged);
            if switch.vlan == Some(false) && (port.vlan.is_some() || !port.tagged.is_empty()) {
                let message = format!("switch {} is not to keep VLANs apart", at.name());
                c.add(
                    message,
                    "leave `vlan: false` out there, or the port's VLANs here",
                );
            }
        });
    }
}
