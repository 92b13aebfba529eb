//! How a lab and what is in it are, and requests that change a part of it.

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::StatusCode;
use indexmap::IndexMap;
use ipnet::IpNet;
use vink_api::{
    ChangeInterface, ChangeWire, EndStatistics, Interface, LabStatus, LabSummary, Machine,
    MachineState, MachineSummary, NewInterface, NewMachine, NewWire, Statistics, Topology,
    TopologyEnd, TopologyNode, TopologyWire, Wire, WireEnd, WireStatistics, WorkerStatistics,
    WorkerStatus,
};
use vink_protocol::{Action, Answer, InterfaceStatus, Status};
use vink_spec::{
    diff, Change, Core, InterfaceChange, Lab as Spec, MachineChange, MachineSpec, ProgramChange,
    RoutesChange, UplinkChange, WireChange, WireSpec,
};

use super::lab::{Lab, State};
use super::stuck::Stuck;
use crate::http_error::HttpError;
use crate::parts::kind_of;

/// What the picture of a lab is drawn from. `state`: of a machine.
pub(crate) fn topology_of(
    spec: &Spec,
    revision: u64,
    state: impl Fn(&str) -> MachineState,
) -> Topology {
    let node = |(name, machine): (&String, &MachineSpec)| TopologyNode {
        name: name.clone(),
        kind: kind_of(machine),
        state: state(name),
    };
    let mut ends = Vec::new();
    let mut wires = Vec::with_capacity(spec.wires.len());
    for (name, of_wire) in spec.ends_of_wires() {
        let wire = &spec.wires[name];
        let first = ends.len();
        ends.extend(of_wire.into_iter().map(|end| match end {
            Some((machine, interface)) => TopologyEnd {
                node: spec.machines.get_index_of(machine),
                interface: interface.to_owned(),
            },
            None => TopologyEnd {
                node: None,
                interface: String::new(),
            },
        }));
        wires.push(TopologyWire {
            name: name.to_owned(),
            up: wire.up != Some(false),
            bus: wire.bus.unwrap_or(false),
            ends: (first..ends.len()).collect(),
        });
    }
    Topology {
        revision,
        nodes: spec.machines.iter().map(node).collect(),
        wires,
        ends,
    }
}

impl Lab {
    pub(crate) fn summary(&self) -> LabSummary {
        let opened = self.opened_from();
        let state = self.state();
        LabSummary {
            name: self.name.clone(),
            state: state.phase,
            folder: self.folder.display().to_string(),
            machines: state.spec.machines.len(),
            wires: state.spec.wires.len(),
            programs: state.tasks.values().filter(|task| task.is_shown()).count(),
            up_seconds: match state.clock.is_virtual {
                true => state.clock.up_for().as_secs_f64(),
                false => state.up.map_or(0.0, |up| up.elapsed().as_secs_f64()),
            },
            switchbox: state.switch_box.as_ref().map(|open| open.address),
            opened,
        }
    }

    pub(crate) fn status(&self) -> LabStatus {
        let summary = self.summary();
        let state = self.state();
        let workers = state.workers.iter().filter(|it| it.is_shown());
        let workers = workers.map(|worker| WorkerStatus {
            host: worker.host.clone(),
            image: worker.image.clone(),
            worker: worker.group.clone(),
            core: worker.cpus.clone(),
            path: worker.path.display().to_string(),
            pid: worker.pid,
            release: worker.release.clone(),
            machines: worker.machines,
            error: worker.error.clone(),
            stuck: worker.stuck.as_ref().map(Stuck::describe),
        });
        let failed = state.tasks.values().filter_map(|task| {
            let name = task.name.as_ref()?;
            let code = task.code.filter(|code| *code != 0 && !task.is_running())?;
            let why = task.error.clone();
            let why = why.unwrap_or_else(|| format!("ended with status {code}"));
            Some(format!("{}.{name}: {why}", task.machine))
        });
        LabStatus {
            summary,
            hosts: state.hosts_status(),
            workers: workers.collect(),
            failed: failed.collect(),
        }
    }

    /// What runs, as a lab file would have it: without what such a file need not say.
    pub(crate) fn saved(&self) -> Spec {
        let mut spec = self.state().spec.clone();
        let ends: IndexMap<String, Vec<String>> = spec
            .ends()
            .into_iter()
            .map(|(wire, ends)| {
                let names = ends.into_iter().map(|(m, i)| format!("{m}:{i}"));
                (wire.to_owned(), names.collect())
            })
            .collect();
        spec.wires.retain(|name, wire| {
            let names = ends.get(name).map_or(&[][..], Vec::as_slice);
            let ends = names.len();
            // What is kept for an end that may come back is nothing that a file may say.
            wire.from
                .retain(|end, _| end == "outside" || names.contains(end));
            let said = wire.bus.take();
            if said.is_some_and(|said| said != wire.is_bus(ends)) {
                wire.bus = said;
            }
            ends == 0 || *wire != WireSpec::default()
        });
        spec.collapsed()
    }

    pub(crate) fn machines(&self) -> Vec<MachineSummary> {
        let state = self.state();
        let mut programs: IndexMap<&str, usize> = IndexMap::new();
        for task in state.tasks.values().filter(|task| task.is_shown()) {
            *programs.entry(&task.machine).or_default() += 1;
        }
        let summary = |(name, spec): (&String, &MachineSpec)| MachineSummary {
            name: name.clone(),
            state: state.machine_state(name),
            host: spec.host.clone(),
            image: spec.image.clone(),
            worker: spec.worker.clone(),
            core: spec.core.as_ref().map(Core::cpus).unwrap_or_default(),
            pid: state.pid_of_machine(name),
            interfaces: spec
                .interfaces
                .iter()
                .map(|(name, interface)| (name.clone(), interface.addresses.clone()))
                .collect(),
            programs: programs.get(name.as_str()).copied().unwrap_or(0),
        };
        state.spec.machines.iter().map(summary).collect()
    }

    pub(crate) async fn machine(self: &Arc<Lab>, name: &str) -> Result<Machine, HttpError> {
        let (mut machine, worker) = {
            let state = self.state();
            let spec = state.machine(&self.name, name)?;
            let worker = state.worker_of.get(name).copied();
            let programs = state.tasks.iter();
            let machine = Machine {
                name: name.to_owned(),
                state: state.machine_state(name),
                error: worker.and_then(|worker| state.workers[worker].error.clone()),
                host: spec.host.clone(),
                image: spec.image.clone(),
                forward: spec.forward,
                rights: spec.rights,
                interfaces: Vec::new(),
                programs: programs
                    .filter(|(_, task)| task.machine == name && task.is_shown())
                    .map(|(id, _)| *id)
                    .collect(),
            };
            (machine, worker)
        };
        if let (MachineState::Running, Some(worker)) = (machine.state, worker) {
            let status = self
                .worker_status(worker, Some(vec![name.to_owned()]))
                .await?;
            let found = status.machines.into_iter().find(|m| m.machine == name);
            let interfaces = found.map(|found| found.interfaces).unwrap_or_default();
            machine.interfaces = interfaces.into_iter().map(interface).collect();
        }
        Ok(machine)
    }

    async fn worker_status(
        self: &Arc<Lab>,
        worker: usize,
        machines: Option<Vec<String>>,
    ) -> Result<Status, HttpError> {
        match self
            .have(worker, Action::Status { machines }, Vec::new())
            .await?
        {
            Answer::Status(status) => Ok(status),
            other => Err(HttpError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("the worker answered {other:?}"),
            )),
        }
    }

    pub(crate) async fn interface(
        self: &Arc<Lab>,
        machine: &str,
        name: &str,
    ) -> Result<Interface, HttpError> {
        let found = self.machine(machine).await?.interfaces;
        let names: Vec<String> = found.iter().map(|i| i.name.clone()).collect();
        let found = found.into_iter().find(|interface| interface.name == name);
        found.ok_or_else(|| {
            let names = names.iter().map(String::as_str);
            HttpError::no("interface", name, names, &format!("of machine {machine}"))
        })
    }

    /// Makes a machine.
    pub(crate) async fn new_machine(
        self: &Arc<Lab>,
        new: NewMachine,
    ) -> Result<Machine, HttpError> {
        name_is_good("machine", &new.name)?;
        let name = new.name.clone();
        {
            let _one = self.changing.lock().await;
            let mut steps = Vec::new();
            {
                let state = self.state();
                if state.spec.machines.contains_key(&name) {
                    return Err(HttpError::conflict(format!(
                        "machine {name} is in lab {} already",
                        self.name
                    )));
                }
                let mut spec = new.spec.with_relays();
                for interface in spec.interfaces.values() {
                    state.wire_has_room(interface.wire.as_deref())?;
                    if let Some(wire) = &interface.wire {
                        steps.extend(state.wire_if_new(wire));
                    }
                }
                let programs = std::mem::take(&mut spec.programs);
                let setup = std::mem::take(&mut spec.setup);
                steps.push(Change::Machine(MachineChange::Add {
                    machine: name.clone(),
                    spec: Box::new(spec),
                }));
                if !setup.is_empty() {
                    steps.push(Change::Machine(MachineChange::Setup {
                        machine: name.clone(),
                        lines: setup,
                    }));
                }
                steps.extend(programs.into_iter().map(|(program, spec)| {
                    Change::Program(ProgramChange::Add {
                        machine: name.clone(),
                        program,
                        spec,
                    })
                }));
            }
            self.change(steps).await?;
        }
        self.machine(&name).await
    }

    pub(crate) async fn remove_machine(self: &Arc<Lab>, machine: &str) -> Result<(), HttpError> {
        let _one = self.changing.lock().await;
        self.state().machine(&self.name, machine)?;
        let machine = machine.to_owned();
        let step = Change::Machine(MachineChange::Remove {
            machine,
            again: None,
        });
        self.change(vec![step]).await
    }

    pub(crate) async fn new_interface(
        self: &Arc<Lab>,
        machine: &str,
        new: NewInterface,
    ) -> Result<Interface, HttpError> {
        if new.name.is_empty() || new.name.len() > 15 || new.name.contains(['/', ':', ' ']) {
            return Err(HttpError::invalid(format!(
                "{:?} is not a name for an interface",
                new.name
            ))
            .hint("at most 15 letters, none of them /, : or a space")
            .at("/name"));
        }
        {
            let _one = self.changing.lock().await;
            let mut steps = Vec::new();
            {
                let state = self.state();
                let spec = state.machine(&self.name, machine)?;
                if spec.interfaces.contains_key(&new.name) {
                    return Err(HttpError::conflict(format!(
                        "machine {machine} has an interface {} already",
                        new.name
                    )));
                }
                state.wire_has_room(new.spec.wire.as_deref())?;
                if let Some(wire) = &new.spec.wire {
                    steps.extend(state.wire_if_new(wire));
                }
            }
            steps.push(Change::Interface(InterfaceChange::Add {
                machine: machine.to_owned(),
                interface: new.name.clone(),
                spec: new.spec,
            }));
            self.change(steps).await?;
        }
        self.interface(machine, &new.name).await
    }

    pub(crate) async fn change_interface(
        self: &Arc<Lab>,
        machine: &str,
        interface: &str,
        change: ChangeInterface,
    ) -> Result<Interface, HttpError> {
        {
            let _one = self.changing.lock().await;
            // On another wire it is made anew, and keeps what programs have given it.
            let kept = match change.detach || change.wire.is_some() {
                true => self.interface(machine, interface).await?.addresses,
                false => Vec::new(),
            };
            let mut steps = Vec::new();
            {
                let state = self.state();
                let spec = state.machine(&self.name, machine)?;
                let mut new = state.interface(machine, interface)?.clone();
                let old = new.addresses.clone();
                new.addresses
                    .retain(|address| !change.remove.contains(address));
                for address in change.add {
                    if !new.addresses.contains(&address) {
                        new.addresses.push(address);
                    }
                }
                let wire = match change.detach {
                    true => None,
                    false => change.wire.or_else(|| new.wire.clone()),
                };
                if wire != new.wire {
                    for address in kept {
                        // Those of its link it makes itself.
                        let of_link =
                            matches!(address, IpNet::V6(a) if a.addr().is_unicast_link_local());
                        if !of_link
                            && !new.addresses.contains(&address)
                            && !change.remove.contains(&address)
                        {
                            new.addresses.push(address);
                        }
                    }
                    state.wire_has_room(wire.as_deref())?;
                    if let Some(wire) = &wire {
                        steps.extend(state.wire_if_new(wire));
                    }
                    new.wire = wire;
                    steps.push(Change::Interface(InterfaceChange::Remove {
                        machine: machine.to_owned(),
                        interface: interface.to_owned(),
                    }));
                    steps.push(Change::Interface(InterfaceChange::Add {
                        machine: machine.to_owned(),
                        interface: interface.to_owned(),
                        spec: new,
                    }));
                    if !spec.routes.is_empty() {
                        steps.push(Change::Routes(RoutesChange {
                            machine: machine.to_owned(),
                            old: spec.routes.clone(),
                            new: spec.routes.clone(),
                        }));
                    }
                } else if new.addresses != old {
                    steps.push(Change::Interface(InterfaceChange::Addresses {
                        machine: machine.to_owned(),
                        interface: interface.to_owned(),
                        old,
                        new: new.addresses,
                    }));
                }
            }
            self.change(steps).await?;
        }
        self.interface(machine, interface).await
    }

    pub(crate) async fn remove_interface(
        self: &Arc<Lab>,
        machine: &str,
        interface: &str,
    ) -> Result<(), HttpError> {
        let _one = self.changing.lock().await;
        {
            let state = self.state();
            state.machine(&self.name, machine)?;
            state.interface(machine, interface)?;
        }
        let step = Change::Interface(InterfaceChange::Remove {
            machine: machine.to_owned(),
            interface: interface.to_owned(),
        });
        self.change(vec![step]).await
    }

    /// Machines, wires and ends, all of one moment.
    pub(crate) fn topology(&self) -> Topology {
        let state = self.state();
        topology_of(&state.spec, state.revision, |name| {
            state.machine_state(name)
        })
    }

    pub(crate) fn wires(&self) -> Vec<Wire> {
        let state = self.state();
        let ends = state.spec.ends();
        let all = state.spec.wires.iter();
        all.map(|(name, spec)| {
            let none = Vec::new();
            let ends = ends.get(name.as_str()).unwrap_or(&none);
            state.describe_wire(name, spec, ends)
        })
        .collect()
    }

    pub(crate) async fn wire(self: &Arc<Lab>, name: &str) -> Result<Wire, HttpError> {
        let (mut wire, workers, crosses) = {
            let state = self.state();
            let spec = state.wire(&self.name, name)?;
            let ends = state.spec.ends();
            let none = Vec::new();
            let ends = ends.get(name).unwrap_or(&none);
            let wire = state.describe_wire(name, spec, ends);
            let placement = state.wires.get(name);
            let alive = |worker: &usize| state.workers[*worker].client.is_some();
            let workers = placement
                .map(|placement| placement.workers.clone())
                .unwrap_or_default();
            let workers: Vec<usize> = workers.into_iter().filter(alive).collect();
            let hosts = workers.iter().map(|worker| &state.workers[*worker].host);
            let crosses = hosts.collect::<HashSet<_>>().len() > 1;
            (wire, workers, crosses)
        };
        wire.rejected = crosses.then_some(0);
        for worker in workers {
            let status = self.worker_status(worker, Some(Vec::new())).await?;
            for found in status.wires.into_iter().filter(|w| w.wire == name) {
                for (end, counters) in found.ends {
                    if let (Some(all), "outside") = (&mut wire.rejected, end.as_str()) {
                        let its = counters.iter().find(|(name, _)| name == "rejected");
                        *all += its.map_or(0, |(_, count)| *count);
                    }
                    if let Some(own) = wire.ends.iter_mut().find(|own| own.end == end) {
                        own.counters = counted(counters);
                    }
                }
                wire.uplink_error = wire.uplink_error.or(found.uplink_error);
            }
        }
        Ok(wire)
    }

    pub(crate) async fn new_wire(self: &Arc<Lab>, new: NewWire) -> Result<Wire, HttpError> {
        name_is_good("wire", &new.name)?;
        let name = new.name.clone();
        {
            let _one = self.changing.lock().await;
            if self.state().spec.wires.contains_key(&name) {
                return Err(HttpError::conflict(format!(
                    "wire {name} is in lab {} already",
                    self.name
                )));
            }
            let mut spec = new.spec;
            // A wire that the file does not describe becomes a bus with its third end.
            spec.bus = Some(spec.bus.unwrap_or(true));
            let uplink = spec.uplink.take();
            let mut steps = vec![Change::Wire(WireChange::Add {
                wire: name.clone(),
                spec: Box::new(spec),
            })];
            steps.extend(uplink.map(|uplink| {
                Change::Uplink(UplinkChange::Add {
                    wire: name.clone(),
                    uplink,
                })
            }));
            self.change(steps).await?;
        }
        self.wire(&name).await
    }

    pub(crate) async fn change_wire(
        self: &Arc<Lab>,
        name: &str,
        change: ChangeWire,
    ) -> Result<Wire, HttpError> {
        {
            let _one = self.changing.lock().await;
            let mut steps = Vec::new();
            {
                let state = self.state();
                let old = state.wire(&self.name, name)?;
                let mut new = old.clone();
                match &change.from {
                    Some(end) => {
                        if !state.has_end(name, end) {
                            let ends = state.spec.ends();
                            let ends = ends.get(name).cloned().unwrap_or_default();
                            let mut ends: Vec<String> =
                                ends.iter().map(|(m, i)| format!("{m}:{i}")).collect();
                            ends.extend(old.uplink.as_ref().map(|_| "outside".to_owned()));
                            let ends = ends.iter().map(String::as_str);
                            return Err(HttpError::no(
                                "end",
                                end,
                                ends,
                                &format!("of wire {name}"),
                            )
                            .at("/from"));
                        }
                        let own = new.from.entry(end.clone()).or_default();
                        *own = match change.replace {
                            true => change.settings,
                            false => own.with(&change.settings),
                        };
                    }
                    None if change.replace => new.settings = change.settings.plain(),
                    None => new.settings = new.settings.with(&change.settings).plain(),
                }
                if (&new.settings, &new.from) != (&old.settings, &old.from) {
                    steps.push(Change::Wire(WireChange::Set {
                        wire: name.to_owned(),
                        old: Box::new(old.clone()),
                        new: Box::new(new),
                    }));
                }
                let was_up = old.up != Some(false);
                if let Some(up) = change.up.filter(|up| *up != was_up) {
                    let wire = name.to_owned();
                    steps.push(Change::Wire(WireChange::Plug { wire, up }));
                }
            }
            self.change(steps).await?;
        }
        self.wire(name).await
    }

    pub(crate) async fn remove_wire(self: &Arc<Lab>, name: &str) -> Result<(), HttpError> {
        let _one = self.changing.lock().await;
        let mut steps = Vec::new();
        {
            let state = self.state();
            let spec = state.wire(&self.name, name)?;
            if spec.uplink.is_some() {
                let wire = name.to_owned();
                steps.push(Change::Uplink(UplinkChange::Remove { wire }));
            }
            let ends = state.spec.ends();
            let mut come = Vec::new();
            for (machine, interface) in ends.get(name).into_iter().flatten() {
                let mut spec = state.spec.machines[*machine].interfaces[*interface].clone();
                spec.wire = None;
                let (machine, interface) = ((*machine).to_owned(), (*interface).to_owned());
                steps.push(Change::Interface(InterfaceChange::Remove {
                    machine: machine.clone(),
                    interface: interface.clone(),
                }));
                come.push(Change::Interface(InterfaceChange::Add {
                    machine,
                    interface,
                    spec,
                }));
            }
            let wire = name.to_owned();
            steps.push(Change::Wire(WireChange::Remove { wire, again: None }));
            steps.extend(come);
        }
        self.change(steps).await
    }

    pub(crate) async fn statistics(self: &Arc<Lab>) -> Result<Statistics, HttpError> {
        let workers: Vec<(usize, Option<String>)> = {
            let state = self.state();
            let alive = state.workers.iter().enumerate();
            alive
                .filter(|(_, worker)| worker.client.is_some())
                .map(|(number, worker)| (number, worker.image.clone()))
                .collect()
        };
        let mut statistics = Statistics {
            time: std::time::SystemTime::now()
                .duration_since(std::time::SystemTime::UNIX_EPOCH)
                .map_or(0.0, |time| time.as_secs_f64()),
            workers: Vec::new(),
            wires: Vec::new(),
        };
        let mut wires: IndexMap<String, Vec<EndStatistics>> = IndexMap::new();
        for (worker, image) in workers {
            let status = self.worker_status(worker, Some(Vec::new())).await?;
            statistics.workers.push(WorkerStatistics {
                image,
                resident: status.resident,
                counters: counted(status.counters),
            });
            for wire in status.wires {
                let ends = wires.entry(wire.wire).or_default();
                ends.extend(wire.ends.into_iter().map(|(end, counters)| EndStatistics {
                    end,
                    counters: counted(counters),
                }));
            }
        }
        let wires = wires.into_iter();
        statistics.wires = wires
            .map(|(wire, ends)| WireStatistics { wire, ends })
            .collect();
        Ok(statistics)
    }
}

impl Lab {
    /// Carries out the steps of a request, and those that follow for switches.
    async fn change(self: &Arc<Lab>, steps: Vec<Change>) -> Result<(), HttpError> {
        let steps = self.state().with_switches(steps)?;
        self.reconcile(steps, true).await
    }
}

impl State {
    /// Steps with what they mean for ports of switches.
    fn with_switches(&self, steps: Vec<Change>) -> Result<Vec<Change>, HttpError> {
        let mut after = self.spec.clone();
        for step in &steps {
            step.apply(&mut after);
        }
        let machines = after.machines.values();
        let mut interfaces = machines.flat_map(|machine| machine.interfaces.values());
        let at = interfaces.find_map(|it| {
            let at = it.switch.as_ref()?.name();
            (it.wire.is_none() && !after.switches.contains_key(at)).then_some(at)
        });
        if let Some(at) = at.filter(|_| {
            steps
                .iter()
                .all(|step| !matches!(step, Change::Machine(MachineChange::Remove { .. })))
        }) {
            let names = self.spec.switches.keys().map(String::as_str);
            return Err(HttpError::no("switch", at, names, "in the lab"));
        }
        match self.spec.switches.is_empty() {
            true => Ok(steps),
            false => Ok(diff(&self.spec, &after.expanded_again())),
        }
    }

    /// The process of a machine's worker.
    fn pid_of_machine(&self, name: &str) -> Option<u32> {
        self.workers[*self.worker_of.get(name)?].pid
    }

    fn machine_state(&self, name: &str) -> MachineState {
        match self.worker_of.get(name) {
            Some(worker) if self.is_on_lost_host(*worker) => MachineState::Lost,
            Some(worker) if self.workers[*worker].client.is_some() => MachineState::Running,
            Some(worker) if self.workers[*worker].error.is_some() => MachineState::Dead,
            _ => MachineState::Starting,
        }
    }

    pub(super) fn machine(&self, lab: &str, name: &str) -> Result<&MachineSpec, HttpError> {
        self.spec.machines.get(name).ok_or_else(|| {
            let names = self.spec.machines.keys().map(String::as_str);
            HttpError::no("machine", name, names, &format!("in lab {lab}"))
        })
    }

    pub(crate) fn interface(
        &self,
        machine: &str,
        name: &str,
    ) -> Result<&vink_spec::Interface, HttpError> {
        let interfaces = &self.spec.machines[machine].interfaces;
        interfaces.get(name).ok_or_else(|| {
            let names = interfaces.keys().map(String::as_str);
            HttpError::no("interface", name, names, &format!("of machine {machine}"))
        })
    }

    fn wire(&self, lab: &str, name: &str) -> Result<&WireSpec, HttpError> {
        self.spec.wires.get(name).ok_or_else(|| {
            let names = self.spec.wires.keys().map(String::as_str);
            HttpError::no("wire", name, names, &format!("in lab {lab}"))
        })
    }

    /// A wire that only interfaces name comes with the first of them, and takes any number.
    fn wire_if_new(&self, wire: &str) -> Option<Change> {
        (!self.spec.wires.contains_key(wire)).then(|| {
            Change::Wire(WireChange::Add {
                wire: wire.to_owned(),
                spec: Box::new(WireSpec {
                    bus: Some(true),
                    ..WireSpec::default()
                }),
            })
        })
    }

    /// Whether one more interface may be attached.
    fn wire_has_room(&self, wire: Option<&str>) -> Result<(), HttpError> {
        let Some(spec) = wire.and_then(|wire| self.spec.wires.get(wire)) else {
            return Ok(());
        };
        if spec.bus == Some(true) {
            return Ok(());
        }
        let name = wire.unwrap_or_default();
        let machines = self.spec.machines.values();
        let mut ends = usize::from(spec.uplink.is_some());
        for interface in machines.flat_map(|machine| machine.interfaces.values()) {
            ends += usize::from(interface.wire.as_deref() == Some(name));
        }
        if ends < 2 {
            return Ok(());
        }
        Err(
            HttpError::conflict(format!("wire {name} has two ends already"))
                .hint("one made with \"bus: true\" takes any number"),
        )
    }

    fn has_end(&self, wire: &str, end: &str) -> bool {
        if end == "outside" {
            let wire = self.spec.wires.get(wire);
            return wire.is_some_and(|wire| wire.uplink.is_some());
        }
        let found = end.split_once(':').and_then(|(machine, interface)| {
            let machine = self.spec.machines.get(machine)?;
            machine.interfaces.get(interface)?.wire.as_deref()
        });
        found == Some(wire)
    }

    fn describe_wire(&self, name: &str, spec: &WireSpec, ends: &[(&str, &str)]) -> Wire {
        let mut ends: Vec<String> = ends.iter().map(|(m, i)| format!("{m}:{i}")).collect();
        ends.extend(spec.uplink.as_ref().map(|_| "outside".to_owned()));
        let end = |end| WireEnd {
            end,
            counters: IndexMap::new(),
        };
        let placement = self.wires.get(name);
        Wire {
            name: name.to_owned(),
            bus: spec.bus.unwrap_or(false),
            up: spec.up != Some(false),
            settings: spec.settings.clone(),
            from: spec.from.clone(),
            ends: ends.into_iter().map(end).collect(),
            uplink: spec.uplink.clone(),
            uplink_error: placement.and_then(|placement| placement.uplink_error.clone()),
            rejected: None,
        }
    }
}

/// A name of a machine, a wire, a breakpoint or a time series.
pub(crate) fn name_is_good(kind: &str, name: &str) -> Result<(), HttpError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(good) {
        return Err(
            HttpError::invalid(format!("{name:?} is not a name for a {kind}"))
                .hint("a name has letters, digits, -, _ and ., and is at most 63 long")
                .at("/name"),
        );
    }
    Ok(())
}

fn counted(counters: Vec<(String, u64)>) -> IndexMap<String, u64> {
    let counters = counters.into_iter();
    counters
        .map(|(name, value)| (name.replace('_', "-"), value))
        .collect()
}

fn interface(status: InterfaceStatus) -> Interface {
    Interface {
        name: status.interface,
        wire: status.wire,
        mac: status.mac.map(|byte| format!("{byte:02x}")).join(":"),
        up: status.up,
        carrier: status.carrier,
        addresses: status.addresses,
        counters: counted(status.counters),
    }
}
