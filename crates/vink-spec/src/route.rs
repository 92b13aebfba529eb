//! A static route of a machine.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{added_and_gone, colon, Object, Phase, Plan};
use crate::check::Check;
use crate::interface::{attached, stays};
use crate::node::Node;
use crate::read::Reader;
use crate::{nearest, Interface, Lab, MachineSpec};

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

/// A machine has other static routes. Those in both are there afterwards too, even if a change of
/// interfaces took them away; `old` and `new` may be the same for that reason.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutesChange {
    /// The machine.
    pub machine: String,
    /// As they were.
    pub old: Vec<Route>,
    /// As they become.
    pub new: Vec<Route>,
}

impl Object for RoutesChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut steps = Vec::new();
        for (name, was, is) in plan.machines_that_stay() {
            let suffers = |(interface, old): (&String, &Interface)| {
                let new = is.interfaces.get(interface);
                let same = new.is_some_and(|new| new.addresses == old.addresses);
                !same || !stays(plan, interface, was, is)
            };
            if was.routes != is.routes || !is.routes.is_empty() && attached(was).any(suffers) {
                steps.push(RoutesChange {
                    machine: name.to_owned(),
                    old: was.routes.clone(),
                    new: is.routes.clone(),
                });
            }
        }
        for step in steps {
            plan.step(Phase::Routes, step);
        }
    }

    fn apply(&self, lab: &mut Lab) {
        lab.machine(&self.machine, |m| m.routes = self.new.clone());
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = added_and_gone(&self.old, &self.new, Route::to_string);
        if told.is_empty() {
            told.push("the same, its interfaces having changed".to_owned());
        }
        write!(f, "~ routes of {}", self.machine)?;
        colon(f, told)
    }
}

impl Reader {
    pub(crate) fn route(&mut self, node: &Node) -> Option<Route> {
        let route = self.fields(node, "a route", |r, f| {
            let to = r.needed(f, (node, "to", "default"), Reader::text);
            let via = r.field(f, "via", |r, n| {
                let text = r.text(n)?;
                let via = text.parse();
                if via.is_err() {
                    let message = format!("{text:?} is not an address");
                    r.lose(n.span, message, "write it like 10.0.0.1 or fd00::1");
                }
                via.ok()
            });
            let dev = r.field(f, "dev", Reader::text);
            let metric = r.field(f, "metric", |r, n| r.number(n, 0, u32::MAX));
            Some(Route {
                to: to?,
                via,
                dev,
                metric,
            })
        });
        route.flatten()
    }
}

impl<'a> Check<'a> {
    pub(crate) fn route(&mut self, spec: &MachineSpec, route: &Route, before: &[Route]) {
        let to: Option<IpNet> = match route.to.as_str() {
            "default" => None,
            text => {
                let network = text
                    .parse::<IpNet>()
                    .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
                match network {
                    Ok(network) if network.addr() != network.network() => {
                        let fix = format!("write {}", network.trunc());
                        self.at("to", |c| {
                            c.add(
                                format!("{text} is an address within a network, not a network"),
                                fix,
                            )
                            .key = false
                        });
                        return;
                    }
                    Ok(network) => Some(network),
                    Err(_) => {
                        let fix = "write `default`, or a network like 10.0.0.0/8 or fd00::/8";
                        self.at("to", |c| {
                            c.add(format!("{text:?} is not where a route can go to"), fix)
                                .key = false
                        });
                        return;
                    }
                }
            }
        };
        if route.via.is_none() && route.dev.is_none() {
            let fix = "add `via:` with the next router's address, or `dev:` with an interface";
            self.add(format!("nothing says how to get to {}", route.to), fix)
                .may_follow = true;
        }
        if let Some(dev) = &route.dev {
            if dev != "lo" && !spec.interfaces.contains_key(dev) {
                let known = spec.interfaces.keys().map(String::as_str);
                let fix = match nearest(dev, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name one of the machine's `interfaces`".to_owned(),
                };
                self.at("dev", |c| {
                    c.add(format!("the machine has no interface `{dev}`"), fix)
                        .may_follow = true;
                });
            }
        }
        if let Some(via) = route.via {
            if to.is_some_and(|to| to.addr().is_ipv4() != via.is_ipv4()) {
                let fix = "both must be IPv4, or both IPv6";
                self.at("via", |c| {
                    c.add(format!("{} can't be reached by {via}", route.to), fix)
                        .key = false
                });
            } else {
                self.via(spec, via, route.dev.as_deref());
            }
        }
        let family = |route: &Route| match route.via {
            Some(via) => via.is_ipv4(),
            None => !route.to.contains(':'),
        };
        let same = |other: &&Route| {
            (&other.to, other.metric.unwrap_or(0)) == (&route.to, route.metric.unwrap_or(0))
                && family(other)
        };
        // Of IPv6 several make one route with several ways.
        if family(route) && before.iter().any(|other| same(&other)) {
            self.add(
                format!("there is another route to {} already", route.to),
                "remove one, or give it a `metric`",
            );
        }
    }

    /// A next router must be at one of the machine's wires.
    pub(crate) fn via(&mut self, spec: &MachineSpec, via: IpAddr, dev: Option<&str>) {
        let link_local =
            matches!(via, IpAddr::V6(address) if (address.segments()[0] & 0xffc0) == 0xfe80);
        if link_local {
            if dev.is_none() {
                let fix = "add `dev:` with the interface";
                self.at("via", |c| {
                    c.add(format!("{via} is at each wire: nothing says at which"), fix)
                        .key = false
                });
            }
            return;
        }
        let interfaces = spec.interfaces.iter();
        if interfaces
            .flat_map(|(_, interface)| &interface.addresses)
            .any(|address| address.addr() == via)
        {
            let fix = "write the neighbour's address";
            self.at("via", |c| {
                c.add(format!("{via} is the machine's own address"), fix)
                    .key = false
            });
            return;
        }
        let has = |interface: &Interface| interface.addresses.iter().any(|a| a.contains(&via));
        // The kernel takes no gateway behind `lo`.
        let mut outward = spec.interfaces.iter().filter(|(name, _)| *name != "lo");
        let through = |name: &String| dev.is_none_or(|dev| dev == name);
        let Some((_, interface)) = outward.clone().find(|(name, interface)| {
            through(name) && (has(interface) || self.leads_out(interface))
        }) else {
            let elsewhere = outward.find(|(_, interface)| has(interface));
            let (message, fix) = match (dev, elsewhere) {
                (Some(dev), Some((name, _))) => (
                    format!("{via} is in no network of `{dev}`, but in one of `{name}`"),
                    format!("write `dev: {name}`, or leave `dev` out"),
                ),
                _ => (
                    format!("{via} is at none of the machine's wires"),
                    "give an interface an address in its network, or write a neighbour's address"
                        .to_owned(),
                ),
            };
            self.at("via", |c| c.add(message, fix).may_follow = true);
            return;
        };
        let broadcast = |address: &IpNet| match address {
            IpNet::V4(net) => net.prefix_len() < 31 && net.broadcast() == via,
            IpNet::V6(_) => false,
        };
        if interface.addresses.iter().any(broadcast) {
            let message = format!("{via} is its network's broadcast address, not a router's");
            self.at("via", |c| {
                c.add(message, "write a neighbour's address").key = false
            });
            return;
        }
        let Some(wire) = interface
            .wire
            .as_deref()
            .filter(|_| !self.leads_out(interface))
        else {
            return;
        };
        let there = &self.at_wires[wire];
        if !there.contains(&via) {
            let own = |other: &&IpAddr| interface.addresses.iter().any(|a| a.addr() == **other);
            let others = there.iter().filter(|other| !own(other));
            let mut known: Vec<String> = others.map(IpAddr::to_string).collect();
            known.sort();
            let fix = match nearest(&via.to_string(), known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => "write a neighbour's address; a command may also give one this address"
                    .to_owned(),
            };
            self.at("via", |c| {
                let finding = c.add(format!("no interface at `{wire}` has {via}"), fix);
                (finding.warning, finding.may_follow) = (true, true);
            });
        }
    }

    /// Whether what is at its wire is not all in the lab.
    pub(crate) fn leads_out(&self, interface: &Interface) -> bool {
        let wire = interface.wire.as_ref();
        let wire = wire.and_then(|wire| self.lab.wires.get(wire));
        wire.is_some_and(|wire| wire.uplink.is_some())
    }
}
