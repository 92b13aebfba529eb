//! Wires: a wire is on the workers of its ends, and two halves on two workers are joined.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vink_protocol::{Action, UplinkTarget};
use vink_spec::{MachineSpec, Settings, Uplink, UplinkChange, WireChange, WireSpec};

use super::{Commands, WorkerCmd};
use crate::engine::lab::{Lab, State, WirePlacement};
use crate::host::{Descriptor, HostLink};
use crate::http_error::HttpError;

impl Commands for WireChange {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            WireChange::Remove { wire, .. } => {
                let placement = state.wires.remove(wire).unwrap_or_default();
                let wire = wire.clone();
                WorkerCmd::to_each(placement.workers, &Action::RemoveWire { wire })
            }
            // Workers make it with its first end.
            WireChange::Add { wire, .. } => {
                state.wires.insert(wire.clone(), WirePlacement::default());
                Vec::new()
            }
            WireChange::Set { wire, old, new } => state.set_wire(wire, old, new),
            WireChange::Plug { wire, up } => {
                let placement = state.wires.get(wire).cloned().unwrap_or_default();
                let (wire, up) = (wire.clone(), *up);
                WorkerCmd::to_each(placement.workers, &Action::Plug { wire, up })
            }
        })
    }
}

impl Commands for UplinkChange {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            UplinkChange::Remove { wire } => {
                let placement = state.wires.get_mut(wire);
                let worker = placement.and_then(|placement| {
                    placement.uplink_error = None;
                    placement.uplink.take()
                });
                let wire = wire.clone();
                let command = worker.map(|w| WorkerCmd::new(w, Action::RemoveUplink { wire }));
                command.into_iter().collect()
            }
            UplinkChange::Add { .. } => unreachable!("it may have to wait for a driver"),
        })
    }
}

impl Lab {
    /// A wire's uplink, whose driver is started first.
    pub(super) async fn uplink_commands(
        self: &Arc<Lab>,
        wire: &String,
        uplink: &Uplink,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let time = self.state().spec.time;
        if !time.allows_uplinks() {
            let error = format!(
                "wire {wire}: what is outside does not live by the virtual clock of lab {}",
                self.name
            );
            let hint = "`time: {virtual: {uplinks: true}}` in its file allows it: runs are not the same then";
            return Err(HttpError::conflict(error).hint(hint));
        }
        let (mut released, found) = {
            let mut state = self.state();
            let released = state.release_halves(wire);
            let placement = state.wires.get(wire);
            let found = placement.and_then(|it| it.workers.first().copied());
            (released, found)
        };
        let worker = match found {
            Some(worker) => worker,
            None => self.worker_for(&MachineSpec::default()).await?,
        };
        // Before the wire, which it may have to wait for.
        let driver = match uplink.driver() {
            Some(words) => Some(self.driver(wire, uplink, words).await?),
            None => None,
        };
        let mut state = self.state();
        released.extend(state.ensure_wire(wire, worker, None)?);
        let mut commands = released;
        let placement = state.wires.entry(wire.clone()).or_default();
        if placement.joined {
            return Err(HttpError::invalid(format!(
                "wire {wire} joins machines of two workers, and can't have an uplink too"
            ))
            .hint(
                "give the uplink to a wire of its own, and join both by a machine that forwards",
            ));
        }
        placement.uplink = Some(worker);
        placement.uplink_error = None;
        let (ends, target) = match driver {
            Some((ends, share)) => {
                let ends = [Some(ends.wire), ends.ports].into_iter().flatten();
                (ends.collect(), UplinkTarget::Driver { share })
            }
            None => (Vec::new(), UplinkTarget::Uplink(uplink.clone())),
        };
        commands.push(WorkerCmd {
            undo: Some(Action::RemoveUplink { wire: wire.clone() }),
            descriptors: ends.into_iter().map(Descriptor::Here).collect(),
            ..WorkerCmd::new(
                worker,
                Action::Uplink {
                    wire: wire.clone(),
                    target,
                },
            )
        });
        commands.extend(state.end_settings(wire, worker, "outside"));
        Ok(commands)
    }
}

impl State {
    /// Gives up a wire's halves on workers where it has no end any more.
    pub(super) fn release_halves(&mut self, wire: &str) -> Vec<WorkerCmd> {
        let Some(placement) = self.wires.get_mut(wire) else {
            return Vec::new();
        };
        let used = |worker: &usize| {
            placement.uplink == Some(*worker) || placement.ends.values().any(|it| it == worker)
        };
        let (kept, idle): (Vec<usize>, Vec<usize>) =
            placement.workers.iter().copied().partition(used);
        if idle.is_empty() {
            return Vec::new();
        }
        let name = || wire.to_owned();
        let mut commands = Vec::new();
        if std::mem::take(&mut placement.joined) {
            let cut = |worker| (worker, Action::RemoveUplink { wire: name() });
            commands.extend(placement.workers.iter().copied().map(cut));
        }
        let remove = |worker| (worker, Action::RemoveWire { wire: name() });
        commands.extend(idle.into_iter().map(remove));
        placement.workers = kept;
        // The other side may have cut it, and an idle worker may be on its way out.
        let lenient = |(worker, action)| WorkerCmd {
            lenient: true,
            ..WorkerCmd::new(worker, action)
        };
        commands.into_iter().map(lenient).collect()
    }

    /// Makes a wire on a worker if it is not there, for this end if for one, and joins it to its
    /// ends on another worker.
    pub(super) fn ensure_wire(
        &mut self,
        wire: &str,
        worker: usize,
        end: Option<String>,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let spec = self.spec.wires.get(wire).cloned().unwrap_or_default();
        let placement = self.wires.entry(wire.to_owned()).or_default();
        if placement.workers.contains(&worker) {
            placement.ends.extend(end.map(|end| (end, worker)));
            return Ok(Vec::new());
        }
        let mut commands = self.release_halves(wire);
        let placement = self.wires.entry(wire.to_owned()).or_default();
        let name = || wire.to_owned();
        let bus = spec.bus.unwrap_or(false);
        let mut actions = vec![Action::Wire { wire: name(), bus }];
        if spec.settings != Settings::default() {
            actions.push(Action::Set {
                wire: name(),
                end: None,
                settings: spec.settings.clone(),
            });
        }
        if spec.up == Some(false) {
            actions.push(Action::Plug {
                wire: name(),
                up: false,
            });
        }
        commands.push(WorkerCmd::new(worker, Action::All(actions)));
        match placement.workers.as_slice() {
            [] => {}
            &[other] if placement.uplink.is_none() => {
                placement.joined = true;
                if self.workers[other].host != self.workers[worker].host {
                    commands.extend(self.join_hosts(wire, other, worker)?);
                } else if let Some(host) = &self.workers[worker].host {
                    let link = self.link_to(host)?;
                    commands.extend(join_there(&link, wire, other, worker));
                } else {
                    commands.extend(join_here(wire, other, worker)?);
                }
            }
            _ => {
                let why = match placement.uplink {
                    Some(_) => "an uplink and machines of two workers",
                    None => "machines of three workers",
                };
                return Err(HttpError::invalid(format!("wire {wire} would have {why}"))
                    .hint("use two wires, and a machine between them that forwards"));
            }
        }
        let placement = self.wires.entry(wire.to_owned()).or_default();
        placement.workers.push(worker);
        placement.ends.extend(end.map(|end| (end, worker)));
        Ok(commands)
    }

    /// Sets what is different for packets of a new end.
    pub(super) fn end_settings(&self, wire: &str, worker: usize, end: &str) -> Option<WorkerCmd> {
        let spec = self.spec.wires.get(wire)?;
        let own = spec.from.get(end)?;
        Some(WorkerCmd::new(
            worker,
            Action::Set {
                wire: wire.to_owned(),
                end: Some(end.to_owned()),
                settings: spec.settings.with(own),
            },
        ))
    }

    /// The worker of one of a wire's ends, if that end is there.
    fn worker_of_end(&self, wire: &str, end: &str) -> Option<usize> {
        if end == "outside" {
            return self.wires.get(wire)?.uplink;
        }
        let (machine, interface) = end.split_once(':')?;
        let found = self.spec.machines.get(machine)?.interfaces.get(interface)?;
        let here = found.wire.as_deref() == Some(wire);
        self.worker_of.get(machine).filter(|_| here).copied()
    }

    fn set_wire(&self, wire: &str, old: &WireSpec, new: &WireSpec) -> Vec<WorkerCmd> {
        let placement = self.wires.get(wire).cloned().unwrap_or_default();
        let mut commands = Vec::new();
        if old.settings != new.settings {
            for &worker in &placement.workers {
                commands.push(WorkerCmd::new(
                    worker,
                    Action::Set {
                        wire: wire.to_owned(),
                        end: None,
                        settings: new.settings.clone(),
                    },
                ));
                if placement.joined {
                    commands.push(ideal_uplink_end(wire, worker));
                }
            }
        }
        let mut ends: HashMap<&String, &Settings> = new.from.iter().collect();
        let none = Settings::default();
        for end in old.from.keys() {
            ends.entry(end).or_insert(&none);
        }
        for (end, own) in ends {
            if let Some(worker) = self.worker_of_end(wire, end) {
                commands.push(WorkerCmd::new(
                    worker,
                    Action::Set {
                        wire: wire.to_owned(),
                        end: Some(end.clone()),
                        settings: new.settings.with(own),
                    },
                ));
            }
        }
        commands
    }
}

/// Joins the halves of a wire on two workers of this host, by memory that they share.
fn join_here(wire: &str, first: usize, second: usize) -> Result<Vec<WorkerCmd>, HttpError> {
    let halves = vink_kernel::halves()
        .map_err(|error| HttpError::host("making a wire in shared memory", error))?;
    let mut commands = Vec::new();
    for (worker, half) in [first, second].into_iter().zip(&halves) {
        let descriptors = half
            .descriptors()
            .iter()
            .map(|part: &BorrowedFd<'_>| part.try_clone_to_owned().map(Descriptor::Here))
            .collect::<Result<_, _>>()
            .map_err(|error| HttpError::host("dup", error))?;
        commands.extend(join(wire, worker, UplinkTarget::Worker, descriptors));
    }
    Ok(commands)
}

/// The same on two workers of another host, whose agent makes the memory.
fn join_there(link: &HostLink, wire: &str, first: usize, second: usize) -> Vec<WorkerCmd> {
    let number = link.wire_number();
    let sides = [first, second].into_iter().enumerate();
    let commands = sides.flat_map(|(side, worker)| {
        let part = |part| Descriptor::Half {
            wire: number,
            side,
            part,
        };
        let descriptors = (0..3).map(part).collect();
        join(wire, worker, UplinkTarget::Worker, descriptors)
    });
    commands.collect()
}

/// Joins one half of a wire to another.
pub(in crate::engine) fn join(
    wire: &str,
    worker: usize,
    target: UplinkTarget,
    descriptors: Vec<Descriptor>,
) -> [WorkerCmd; 2] {
    let action = Action::Uplink {
        wire: wire.to_owned(),
        target,
    };
    [
        WorkerCmd {
            descriptors,
            ..WorkerCmd::new(worker, action)
        },
        // Packets from there were impaired by the other worker's ends already.
        ideal_uplink_end(wire, worker),
    ]
}

fn ideal_uplink_end(wire: &str, worker: usize) -> WorkerCmd {
    WorkerCmd::new(
        worker,
        Action::Set {
            wire: wire.to_owned(),
            end: Some("outside".to_owned()),
            settings: Settings::default(),
        },
    )
}
