//! Interfaces and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use vink_protocol::{Action, NewInterface};
use vink_spec::{derived_mac, mac_bytes, Interface, InterfaceChange, Route, RoutesChange};

use super::{Commands, WorkerCmd};
use crate::engine::lab::{Lab, State};
use crate::http_error::HttpError;

impl Commands for InterfaceChange {
    fn commands(&self, lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            InterfaceChange::Remove { machine, interface } => {
                let worker = state.worker_for_machine(machine)?;
                state.detach(machine, interface);
                let action = Action::Detach {
                    machine: machine.clone(),
                    interface: interface.clone(),
                };
                vec![WorkerCmd::new(worker, action)]
            }
            InterfaceChange::Add {
                machine,
                interface,
                spec,
            } => {
                let worker = state.worker_for_machine(machine)?;
                let mut commands = match &spec.wire {
                    Some(wire) => {
                        let end = format!("{machine}:{interface}");
                        state.ensure_wire(wire, worker, Some(end))?
                    }
                    None => Vec::new(),
                };
                commands.push(WorkerCmd {
                    undo: Some(Action::Detach {
                        machine: machine.clone(),
                        interface: interface.clone(),
                    }),
                    ..WorkerCmd::new(worker, state.attach(&lab.name, machine, interface, spec)?)
                });
                if let Some(wire) = &spec.wire {
                    commands.extend(state.end_settings(
                        wire,
                        worker,
                        &format!("{machine}:{interface}"),
                    ));
                }
                commands
            }
            InterfaceChange::Addresses {
                machine,
                interface,
                old,
                new,
            } => {
                let worker = state.worker_for_machine(machine)?;
                let command = |address: &IpNet, remove| WorkerCmd {
                    // A program may have removed it.
                    lenient: remove,
                    ..WorkerCmd::new(
                        worker,
                        Action::Address {
                            machine: machine.clone(),
                            interface: interface.clone(),
                            address: *address,
                            remove,
                        },
                    )
                };
                let gone = old.iter().filter(|address| !new.contains(address));
                let come = new.iter().filter(|address| !old.contains(address));
                gone.map(|address| command(address, true))
                    .chain(come.map(|address| command(address, false)))
                    .collect()
            }
        })
    }
}

impl Commands for RoutesChange {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        let worker = state.worker_for_machine(&self.machine)?;
        let mut commands = Vec::new();
        // All are added again: routes that went with an interface are not known.
        for (routes, remove) in [(&self.old, true), (&self.new, false)] {
            for each in routes {
                commands.push(WorkerCmd {
                    lenient: remove,
                    ..WorkerCmd::new(worker, route(&self.machine, each, remove)?)
                });
            }
        }
        Ok(commands)
    }
}

impl State {
    /// Forgets that an interface is, or was to be, attached.
    pub(in crate::engine) fn detach(&mut self, machine: &str, interface: &str) {
        let end = format!("{machine}:{interface}");
        for placement in self.wires.values_mut() {
            placement.ends.remove(&end);
        }
    }

    pub(super) fn attach(
        &self,
        lab: &str,
        machine: &str,
        name: &str,
        interface: &Interface,
    ) -> Result<Action, HttpError> {
        let mac = match &interface.mac {
            Some(text) => mac_bytes(text).ok_or_else(|| {
                HttpError::invalid(format!("{text:?} is not an Ethernet address"))
                    .hint("write it like 02:00:00:00:00:01")
            })?,
            None => derived_mac(lab, machine, name),
        };
        let wire = interface.wire.as_ref();
        let mtu = wire.and_then(|wire| self.spec.wires.get(wire)?.settings.mtu);
        Ok(Action::Attach(NewInterface {
            machine: machine.to_owned(),
            interface: name.to_owned(),
            wire: interface.wire.clone(),
            mac,
            mtu: mtu.unwrap_or(1500),
            addresses: interface.addresses.clone(),
        }))
    }
}

pub(super) fn route(machine: &str, route: &Route, remove: bool) -> Result<Action, HttpError> {
    let to = match (route.to.as_str(), route.via) {
        ("default", Some(IpAddr::V6(_))) => IpNet::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        ("default", _) => IpNet::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        (to, _) => match to.parse::<IpAddr>() {
            Ok(host) => Ok(host.into()),
            Err(_) => match to.parse() {
                Ok(net) => Ok(net),
                Err(_) => {
                    return Err(HttpError::invalid(format!(
                        "a route of {machine}: {to:?} is not a network"
                    ))
                    .hint("write it like 10.1.0.0/16, fd00::/64 or default"))
                }
            },
        },
    };
    Ok(Action::Route {
        machine: machine.to_owned(),
        to: to.expect("prefixes of no length are good").trunc(),
        via: route.via,
        dev: route.dev.clone(),
        metric: route.metric,
        remove,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let to = |to: &str, via: Option<&str>| {
            let route = Route {
                to: to.to_owned(),
                via: via.map(|via| via.parse().unwrap()),
                dev: None,
                metric: None,
            };
            match super::route("m", &route, false) {
                Ok(Action::Route { to, .. }) => Some(to.to_string()),
                _ => None,
            }
        };
        assert_eq!(to("default", None).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(to("default", Some("fd00::1")).as_deref(), Some("::/0"));
        assert_eq!(to("10.1.2.3", None).as_deref(), Some("10.1.2.3/32"));
        assert_eq!(to("10.1.2.3/16", None).as_deref(), Some("10.1.0.0/16"));
        assert_eq!(to("nowhere", None), None);
    }
}
