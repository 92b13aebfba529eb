//! An interface of a machine, at a wire or a switch.

use std::collections::HashMap;
use std::fmt;
use std::mem::discriminant;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{added_and_gone, colon, put, Object, Phase, Plan};
use crate::check::Check;
use crate::node::Node;
use crate::read::Reader;
use crate::{mac_bytes, AtSwitch, FileSpec, Lab, MachineSpec};

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

/// The interface that each machine has.
pub(crate) const LOOPBACK: &str = "lo";

/// What becomes of an interface.
#[derive(Clone, Debug, PartialEq)]
pub enum InterfaceChange {
    /// It goes, and with it its addresses and routes.
    Remove {
        /// Its machine.
        machine: String,
        /// Its name there.
        interface: String,
    },
    /// It comes with its addresses.
    Add {
        /// Its machine.
        machine: String,
        /// Its name there.
        interface: String,
        /// All of it.
        spec: Interface,
    },
    /// It has other addresses; `lo` besides its own.
    Addresses {
        /// Its machine.
        machine: String,
        /// Its name there.
        interface: String,
        /// As they were.
        old: Vec<IpNet>,
        /// As they become.
        new: Vec<IpNet>,
    },
}

impl Object for InterfaceChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut steps = Vec::new();
        for (name, was, is) in plan.machines_that_stay() {
            loopback(&mut steps, name, own_addresses(was), own_addresses(is));
            changed(plan, &mut steps, name, was, is);
        }
        for (name, is) in plan.machines_that_come() {
            loopback(&mut steps, name, &[], own_addresses(is));
        }
        for step in steps {
            let goes = matches!(step, InterfaceChange::Remove { .. });
            let phase = if goes {
                Phase::InterfacesGo
            } else {
                Phase::Interfaces
            };
            plan.step(phase, step);
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    fn apply(&self, lab: &mut Lab) {
        match self {
            InterfaceChange::Remove { machine, interface } => {
                lab.machine(machine, |m| {
                    m.interfaces.shift_remove(interface);
                    // A switch's port has left its bridge.
                    if let Some(bridge) = &mut m.bridge {
                        bridge.ports.shift_remove(interface);
                    }
                });
            }
            InterfaceChange::Add {
                machine,
                interface,
                spec,
            } => {
                let spec = spec.clone();
                lab.machine(machine, |m| m.interfaces.insert(interface.clone(), spec));
            }
            InterfaceChange::Addresses {
                machine,
                interface,
                new,
                ..
            } => lab.machine(machine, |m| {
                if interface == LOOPBACK {
                    let lo = Interface {
                        addresses: new.clone(),
                        ..Interface::default()
                    };
                    let lo = Some(lo).filter(|_| !new.is_empty());
                    put(&mut m.interfaces, LOOPBACK, &lo);
                } else if let Some(interface) = m.interfaces.get_mut(interface) {
                    interface.addresses = new.clone();
                }
            }),
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterfaceChange::Remove { machine, interface } => {
                write!(f, "- interface {machine}:{interface}")
            }
            InterfaceChange::Add {
                machine,
                interface,
                spec,
            } => {
                write!(f, "+ interface {machine}:{interface}")?;
                if let Some(wire) = &spec.wire {
                    write!(f, " at {wire}")?;
                }
                colon(f, spec.addresses.iter().map(IpNet::to_string).collect())
            }
            InterfaceChange::Addresses {
                machine,
                interface,
                old,
                new,
            } => {
                write!(f, "~ interface {machine}:{interface}")?;
                colon(f, added_and_gone(old, new, |address| address.to_string()))
            }
        }
    }
}

/// It is always there, and may have more addresses.
fn loopback(steps: &mut Vec<InterfaceChange>, machine: &str, old: &[IpNet], new: &[IpNet]) {
    if old != new {
        steps.push(InterfaceChange::Addresses {
            machine: machine.to_owned(),
            interface: LOOPBACK.to_owned(),
            old: old.to_vec(),
            new: new.to_vec(),
        });
    }
}

/// The others of a machine that stays.
fn changed(
    plan: &Plan<'_>,
    steps: &mut Vec<InterfaceChange>,
    name: &str,
    was: &MachineSpec,
    is: &MachineSpec,
) {
    let machine = || name.to_owned();
    for (interface, old) in attached(was) {
        let interface = interface.clone();
        match is.interfaces.get(&interface) {
            Some(new) if stays(plan, &interface, was, is) => {
                if new.addresses != old.addresses {
                    steps.push(InterfaceChange::Addresses {
                        machine: machine(),
                        interface,
                        old: old.addresses.clone(),
                        new: new.addresses.clone(),
                    });
                }
            }
            _ => steps.push(InterfaceChange::Remove {
                machine: machine(),
                interface,
            }),
        }
    }
    for (interface, spec) in attached(is) {
        if !stays(plan, interface, was, is) {
            steps.push(InterfaceChange::Add {
                machine: machine(),
                interface: interface.clone(),
                spec: Interface {
                    filter: None,
                    ..spec.clone()
                },
            });
        }
    }
}

/// Interfaces that may be attached to something.
pub(crate) fn attached(spec: &MachineSpec) -> impl Iterator<Item = (&String, &Interface)> {
    spec.interfaces.iter().filter(|(name, _)| *name != LOOPBACK)
}

/// Whether an interface of a machine that stays does so, too: not if its wire goes, even if that
/// comes again.
pub(crate) fn stays(plan: &Plan<'_>, name: &str, was: &MachineSpec, is: &MachineSpec) -> bool {
    let (Some(old), Some(new)) = (was.interfaces.get(name), is.interfaces.get(name)) else {
        return false;
    };
    let mut wire = old.wire.as_deref().into_iter();
    place(old) == place(new) && !wire.any(|wire| plan.wires_gone.contains(wire))
}

/// What makes an interface another one if it differs.
fn place(interface: &Interface) -> (Option<&str>, Option<&str>, Option<&str>) {
    let switch = interface.switch.as_ref().map(AtSwitch::name);
    (interface.wire.as_deref(), interface.mac.as_deref(), switch)
}

/// What the lab adds to those.
fn own_addresses(spec: &MachineSpec) -> &[IpNet] {
    spec.interfaces
        .get(LOOPBACK)
        .map_or(&[], |lo| &lo.addresses)
}

impl Reader {
    pub(crate) fn interface(&mut self, node: &Node) -> Option<Interface> {
        self.fields(node, "an interface", |r, f| Interface {
            wire: r.field(f, "wire", Reader::text),
            switch: r.field(f, "switch", Reader::at_switch),
            addresses: r.field_or_default(f, "addresses", |r, n| r.list(n, Reader::address)),
            mac: r.field(f, "mac", Reader::text),
            filter: r.field(f, "filter", Reader::file),
        })
    }

    pub(crate) fn address(&mut self, node: &Node) -> Option<IpNet> {
        let text = self.text(node)?;
        let address = text.parse();
        if address.is_err() {
            let fix = match text.split_once('/') {
                None if text.parse::<IpAddr>().is_ok() => {
                    let size = if text.contains(':') { 64 } else { 24 };
                    format!("say how large its network is, such as {text}/{size}")
                }
                _ => "write it like 10.0.0.1/24 or fd00::1/64".to_owned(),
            };
            self.lose(
                node.span,
                format!("{text:?} is not an address with the size of its network"),
                fix,
            );
        }
        address.ok()
    }
}

impl<'a> Check<'a> {
    pub(crate) fn interface(&mut self, name: &str, spec: &Interface) {
        self.interface_name(name);
        self.at_switch(spec);
        if name == "lo" && (spec.wire.is_some() || spec.mac.is_some()) {
            let fix = "give `lo` addresses only, or call the interface eth0";
            self.add(
                "`lo` is the machine's own: it has no wire and no Ethernet address",
                fix,
            )
            .key = true;
        }
        if let Some(mac) = &spec.mac {
            self.at("mac", |c| c.mac(mac));
        }
        for (at, address) in spec.addresses.iter().enumerate() {
            self.path.extend(["addresses".to_owned(), at.to_string()]);
            self.address(address);
            self.path.truncate(self.path.len() - 2);
        }
    }

    pub(crate) fn interface_name(&mut self, name: &str) {
        let bad = |c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c.is_control();
        let message = format!("{name:?} can't be an interface's name");
        let fix = if name.len() > 15 {
            "the kernel takes at most 15 bytes"
        } else if name.contains(bad) || name.is_empty() {
            "use a name such as eth0: without spaces, `/`, `:` and `%`"
        } else if matches!(name, "." | ".." | "all" | "default") {
            "the kernel means something else by that: use another one, such as eth0"
        } else {
            return;
        };
        self.add(message, fix).key = true;
    }

    pub(crate) fn address(&mut self, address: &IpNet) {
        let addr = address.addr();
        let small = address.max_prefix_len() - address.prefix_len() <= 1;
        let what = if addr.is_multicast() {
            "a group's"
        } else if addr.is_unspecified() {
            "no address at all"
        } else if address.addr().is_ipv4() && !small && addr == address.network() {
            "that of the network itself"
        } else if address.addr().is_ipv4() && !small && addr == address.broadcast() {
            "its network's broadcast address"
        } else {
            return;
        };
        let message = format!("{address} can't be an interface's address: it is {what}");
        let first = address.hosts().next().unwrap_or(addr);
        let fix = match addr.is_multicast() || addr.is_unspecified() {
            true => "write another one".to_owned(),
            false => format!(
                "write an address within, such as {first}/{}",
                address.prefix_len()
            ),
        };
        self.add(message, fix);
    }

    pub(crate) fn mac(&mut self, mac: &str) {
        match mac_bytes(mac) {
            None => {
                self.add(
                    format!("{mac:?} is not an Ethernet address"),
                    "write it like 02:00:00:00:00:01",
                );
            }
            Some(bytes) if bytes[0] & 1 == 1 || bytes == [0; 6] => {
                let fix = "use one whose first byte is even, such as 02";
                self.add(format!("{mac} is not the address of one interface"), fix);
            }
            Some(_) => {}
        }
    }

    /// What interfaces at the same wire must not share.
    pub(crate) fn sharing(&mut self, ends: &[(&str, &str)]) {
        let mut addresses: HashMap<IpAddr, (&str, &str)> = HashMap::new();
        let mut macs: HashMap<String, (&str, &str)> = HashMap::new();
        for (machine, interface) in ends {
            let spec = &self.lab.machines[*machine].interfaces[*interface];
            let path = |rest: &[&str]| {
                let start = ["machines", machine, "interfaces", interface];
                start
                    .iter()
                    .chain(rest)
                    .map(|step| (*step).to_owned())
                    .collect::<Vec<_>>()
            };
            for (at, address) in spec.addresses.iter().enumerate() {
                let first = *addresses
                    .entry(address.addr())
                    .or_insert((*machine, *interface));
                // Those of one machine have been told of.
                if first.0 != *machine {
                    self.path = path(&["addresses", &at.to_string()]);
                    let message = format!(
                        "{} is at this wire twice: {}:{} has it already",
                        address.addr(),
                        first.0,
                        first.1
                    );
                    self.add(message, "give each machine its own address");
                }
            }
            if let Some(mac) = &spec.mac {
                let first = macs
                    .entry(mac.to_lowercase())
                    .or_insert((*machine, *interface));
                if first != &(*machine, *interface) {
                    let message = format!(
                        "{mac} is at this wire twice: {}:{} has it already",
                        first.0, first.1
                    );
                    self.path = path(&["mac"]);
                    self.add(
                        message,
                        "give each interface its own, or none: then one is made",
                    );
                }
            }
        }
        self.path.clear();
    }
}
