//! Switches: Linux's own bridge on a machine in a worker of its own, on which no program of the lab
//! runs.
//!
//! A lab file says what a switch's ports are (`switches:`), or at an interface that it is at a
//! switch (`switch: sw`), which makes the port and an ideal wire between. [`Lab::expanded`] makes
//! machines, interfaces and wires of that, which is what runs; [`Lab::collapsed`] takes them away
//! again, which is what is saved. [`Bridge`] is what the switch's kernel is told beside.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::Node;
use crate::read::Reader;
use crate::{
    mac_bytes, port_name, port_wire, AtSwitch, Bridge, Core, EthernetAddress, FileSpec, Interface,
    Lab, MachineSpec, Port, PortSpec, Scalar, SourceAddress, Time, WireSpec,
};

/// The longest name of an interface.
pub(crate) const LONGEST: usize = 15;

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SwitchSpec {
    /// Which of the lab's `hosts` it runs on; none: this computer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Which image it runs: a name of the lab's `images`; none: the one that `vink version` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The host's processors on which it stays: a number, or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<Core>,
    /// Whether it keeps VLANs apart (default: if a port names one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<bool>,
    /// Whether it sends what is for a group to members only (default: yes, as soon as a querier is there).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast_snooping: Option<bool>,
    /// Rules for nft(8) of all of it, in force before a frame passes; docs/filter.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FileSpec>,
    /// Ports by name, beside those of interfaces that are at this switch.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub ports: IndexMap<String, PortSpec>,
}

/// FNV-1a.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An Ethernet address derived from names, with the bit of locally administered addresses: what an
/// interface has whose lab gives it none.
pub fn derived_mac(lab: &str, machine: &str, interface: &str) -> [u8; 6] {
    let hash = hash(&format!("{lab}/{machine}/{interface}"));
    let [_, _, a, b, c, d, e, f] = hash.to_be_bytes();
    [a & 0xfc | 0x02, b, c, d, e, f]
}

/// The Ethernet address of all interfaces of a group that have none of their own.
fn group_mac(lab: &str, interface: &Interface) -> Option<String> {
    let at = interface.switch.as_ref()?;
    let mac = derived_mac(lab, at.name(), at.group()?);
    Some(EthernetAddress(mac).to_string())
}

/// An interface's addresses as sources.
fn sources(interface: &Interface) -> BTreeSet<SourceAddress> {
    let addresses = interface.addresses.iter();
    addresses
        .map(|address| SourceAddress(address.addr().into()))
        .collect()
}

impl Lab {
    /// The lab with the programs that its relays are, and with the machines, interfaces and wires that its switches are. These have the
    /// filters, in the place of `switches`. A machine of a switch's name that is there already stays:
    /// a running lab's.
    pub fn expanded(&self) -> Lab {
        let mut lab = self.clone();
        for machine in lab.machines.values_mut() {
            *machine = std::mem::take(machine).with_relays();
        }
        if self.switches.is_empty() {
            return lab;
        }
        let mut switches: IndexMap<String, MachineSpec> = IndexMap::new();
        for (name, spec) in &mut lab.switches {
            let off = |scope: &str| {
                (
                    format!("net.ipv6.conf.{scope}.disable_ipv6"),
                    Scalar::Number(1),
                )
            };
            let ports = spec.ports.iter_mut().map(|(name, port)| {
                let interface = Interface {
                    wire: port.wire.clone(),
                    filter: port.filter.take(),
                    ..Interface::default()
                };
                (name.clone(), interface)
            });
            let machine = MachineSpec {
                host: spec.host.clone(),
                image: spec.image.clone(),
                worker: Some(name.clone()),
                core: spec.core.clone(),
                filter: spec.filter.take(),
                interfaces: ports.collect(),
                // It has no address, and says nothing by itself.
                sysctls: ["all", "default"].map(off).into_iter().collect(),
                ..MachineSpec::default()
            };
            switches.insert(name.clone(), machine);
        }
        for (machine, spec) in &mut lab.machines {
            for (name, interface) in &mut spec.interfaces {
                let Some(at) = &mut interface.switch else {
                    continue;
                };
                let Some(switch) = switches.get_mut(at.name()) else {
                    continue;
                };
                let port = port_name(machine, name);
                let wire = port_wire(at.name(), &port);
                let end = Interface {
                    wire: Some(wire.clone()),
                    filter: at.port().filter,
                    ..Interface::default()
                };
                switch.interfaces.entry(port).or_insert(end);
                *at = at.with_filter(None);
                if let Some(mac) = group_mac(&self.name, interface) {
                    interface.mac.get_or_insert(mac);
                }
                interface.wire = Some(wire);
            }
        }
        for (name, mut machine) in switches {
            if !lab.machines.contains_key(&name) {
                machine.bridge = Some(Box::new(lab.bridge(&name)));
                lab.machines.insert(name, machine);
            }
        }
        lab
    }

    /// The lab without what [`Lab::expanded`] has added. Wires of ports that have settings stay.
    pub fn collapsed(&self) -> Lab {
        let mut lab = self.clone();
        lab.machines
            .retain(|name, _| !self.switches.contains_key(name));
        for machine in lab.machines.values_mut() {
            *machine = std::mem::take(machine).without_relays();
        }
        let filter_of = |switch: &str, port: &str| -> Option<Option<FileSpec>> {
            let port = self.machines.get(switch)?.interfaces.get(port)?;
            Some(port.filter.clone())
        };
        for (name, machine) in &mut lab.machines {
            for (interface, spec) in &mut machine.interfaces {
                let mac = group_mac(&self.name, spec);
                let Some(at) = &mut spec.switch else { continue };
                spec.wire = None;
                spec.mac.take_if(|its| Some(&*its) == mac.as_ref());
                if let Some(filter) = filter_of(at.name(), &port_name(name, interface)) {
                    *at = at.with_filter(filter);
                }
            }
        }
        for (name, switch) in &mut lab.switches {
            if let Some(machine) = self.machines.get(name) {
                switch.filter = machine.filter.clone();
            }
            for (port, spec) in &mut switch.ports {
                if let Some(filter) = filter_of(name, port) {
                    spec.filter = filter;
                }
            }
        }
        lab.wires.retain(|name, wire| {
            let of_port = self.switches.keys().any(|switch| {
                name.strip_prefix(switch.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
            });
            let plain = WireSpec {
                bus: wire.bus,
                ..WireSpec::default()
            };
            !of_port || *wire != plain || wire.bus == Some(true)
        });
        lab
    }

    /// The same lab, its switches expanded anew.
    pub fn expanded_again(&self) -> Lab {
        self.collapsed().expanded()
    }

    /// What the kernel of a switch is told.
    fn bridge(&self, name: &str) -> Bridge {
        let spec = &self.switches[name];
        let mut ports: IndexMap<String, Port> = IndexMap::new();
        for (port, said) in &spec.ports {
            let pinned = said.pin != Some(false);
            let other = (said.pin == Some(true) && said.mac.is_none() && said.addresses.is_empty())
                .then(|| self.at_other_end(said.wire.as_deref(), name))
                .flatten();
            let (mac, addresses) = match other {
                Some((machine, interface)) => self.sources_of(machine, interface),
                None => (
                    said.mac.as_deref().and_then(mac_bytes),
                    said.addresses.iter().copied().collect(),
                ),
            };
            let port_is = Port {
                mac: mac.filter(|_| pinned),
                addresses: addresses.into_iter().filter(|_| pinned).collect(),
                vlan: said.vlan,
                tagged: said.tagged.iter().copied().collect(),
                group: said.group.clone(),
            };
            ports.insert(port.clone(), port_is);
        }
        for (machine, it) in &self.machines {
            for (interface, spec) in &it.interfaces {
                let Some(at) = spec.switch.as_ref().filter(|at| at.name() == name) else {
                    continue;
                };
                let said = at.port();
                let (mac, addresses) = match said.pin {
                    Some(false) => (None, BTreeSet::new()),
                    _ => self.sources_of(machine, interface),
                };
                let port = Port {
                    mac,
                    addresses,
                    vlan: said.vlan,
                    tagged: said.tagged.into_iter().collect(),
                    group: said.group,
                };
                ports.entry(port_name(machine, interface)).or_insert(port);
            }
        }
        let named = |port: &Port| port.vlan.is_some() || !port.tagged.is_empty();
        let vlan = spec.vlan.unwrap_or_else(|| ports.values().any(named));
        for port in ports.values_mut() {
            let usual = (vlan && !named(port)).then_some(1);
            port.vlan = port.vlan.or(usual);
        }
        Bridge {
            vlan,
            multicast_snooping: spec.multicast_snooping.unwrap_or(true),
            ports,
        }
    }

    /// What an interface sends from. A machine that forwards sends from others' addresses, too.
    fn sources_of(
        &self,
        machine: &str,
        interface: &str,
    ) -> (Option<[u8; 6]>, BTreeSet<SourceAddress>) {
        let spec = &self.machines[machine];
        let its = &spec.interfaces[interface];
        let mac = match &its.mac {
            Some(text) => mac_bytes(text),
            None => Some(derived_mac(&self.name, machine, interface)),
        };
        let addresses = match spec.forward {
            true => BTreeSet::new(),
            false => sources(its),
        };
        (mac, addresses)
    }

    /// The interfaces that are at a switch, with what each says of its port.
    pub(crate) fn at_switch(&self, switch: &str) -> Vec<(String, String, AtSwitch)> {
        let mut found = Vec::new();
        for (machine, spec) in &self.machines {
            for (name, interface) in &spec.interfaces {
                let at = interface.switch.as_ref().filter(|at| at.name() == switch);
                found.extend(at.map(|at| (machine.clone(), name.clone(), at.clone())));
            }
        }
        found
    }

    /// The only interface of a machine at a wire, beside a switch's port.
    pub(crate) fn at_other_end(&self, wire: Option<&str>, switch: &str) -> Option<(&str, &str)> {
        let mut found = None;
        for (machine, spec) in self.machines.iter().filter(|(name, _)| *name != switch) {
            for (name, interface) in &spec.interfaces {
                if wire.is_some() && interface.wire.as_deref() == wire {
                    match found {
                        None => found = Some((machine.as_str(), name.as_str())),
                        Some(_) => return None,
                    }
                }
            }
        }
        found
    }
}

impl Reader {
    pub(crate) fn switch(&mut self, node: &Node) -> Option<SwitchSpec> {
        self.fields(node, "a switch", |r, f| SwitchSpec {
            host: r.field(f, "host", Reader::text),
            image: r.field(f, "image", Reader::text),
            core: r.field(f, "core", Reader::core),
            vlan: r.field(f, "vlan", Reader::flag),
            multicast_snooping: r.field(f, "multicast-snooping", Reader::flag),
            filter: r.field(f, "filter", Reader::file),
            ports: r.field_or_default(f, "ports", |r, n| r.named(n, Reader::port)),
        })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn switch(&mut self, name: &'a str, spec: &'a SwitchSpec) {
        if self.said.machines.contains_key(name) {
            let message = format!("`{name}` is a machine and a switch");
            self.add(message, "give one of them another name").key = true;
        }
        if self.lab.time != Time::Real {
            let message =
                "a switch has a worker of its own, which can't share a clock of the lab's own";
            self.add(message, "say `time: real`, or use a wire with `bus: true`")
                .key = true;
        }
        self.each("ports", &spec.ports, |c, port, its| c.port(name, port, its));
        self.groups(name, spec);
        if spec.vlan != Some(false) {
            return;
        }
        let named = |vlan: Option<u16>, tagged: &[u16]| vlan.is_some() || !tagged.is_empty();
        if spec
            .ports
            .values()
            .any(|port| named(port.vlan, &port.tagged))
        {
            self.at("vlan", |c| {
                let message = "its ports have VLANs, and it is not to keep them apart";
                c.add(message, "leave `vlan` out here, or at the ports")
                    .path
                    .len()
            });
        }
    }

    /// What is at one wire of a switch is at all of them.
    pub(crate) fn join_wires_of(&mut self, switch: &str) {
        let Some(machine) = self.lab.machines.get(switch) else {
            return;
        };
        let wires = machine
            .interfaces
            .values()
            .filter_map(|it| it.wire.as_deref());
        let wires: Vec<&'a str> = wires.collect();
        let there = |wire: &&str| self.at_wires.get(wire).cloned().unwrap_or_default();
        let all: HashSet<IpAddr> = wires.iter().flat_map(there).collect();
        for wire in wires {
            self.at_wires.insert(wire, all.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports() {
        assert_eq!(port_name("a", "eth0"), "a-eth0");
        assert_eq!(port_name("database", "eth0"), "database-eth0");
        let [one, two] = ["database1", "database2"].map(|name| port_name(name, "ethernet0"));
        assert!(
            one.len() <= LONGEST && two.len() <= LONGEST && one != two,
            "{one} {two}"
        );
        assert!(one.starts_with("database-"), "{one}");
    }

    #[test]
    fn ethernet_addresses() {
        let made = derived_mac("lab", "m1", "eth0");
        assert_eq!(made[0] & 3, 2);
        assert_eq!(made, derived_mac("lab", "m1", "eth0"));
        assert_ne!(made, derived_mac("lab", "m1", "eth1"));
    }

    #[test]
    fn source_addresses() {
        for good in ["10.0.0.1", "10.0.0.0/24", "fd00::1", "fd00::/64"] {
            let read: SourceAddress = good.parse().expect(good);
            assert_eq!(read.to_string(), good);
        }
        for bad in ["10.0.0.1/24", "10.0.0", "fd00::1/64", ""] {
            bad.parse::<SourceAddress>().expect_err(bad);
        }
    }
}
