//! From one lab to another: the steps that a running lab takes, in an order in which they can be taken.
//!
//! Interfaces, machines and wires go before others come, and wires come before what is attached to them:
//!
//! 1. breakpoints, paths and series go, programs end, uplinks are cut, interfaces go, machines go, wires go;
//! 2. what holds for the whole lab;
//! 3. wires come and change, machines come, those that stay change, uplinks are joined,
//!    breakpoints, pods, paths and series come, and pods go;
//! 4. switches' bridges come and change, new machines are set up, programs start (a program after those that it waits for), events.
//!
//! A machine whose host, image, worker, core, root or set-up lines differ is made again, as is a wire that becomes a bus or stops being
//! one, and everything if clock, seed or memory differ. A new lab comes up by the steps from an empty one.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    order, AtSwitch, Breakpoint, Bridge, Calls, Event, FileSpec, HostSpec, Interface, Lab,
    MachineSpec, PathSpec, PodSpec, ProgramSpec, Route, Scalar, Series, Settings, SwitchSpec, Time,
    Uplink, WireSpec,
};

/// A step from one lab to another. What it prints is its line in the output of `vink lab apply`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// A program is ended.
    RemoveProgram {
        /// Its machine.
        machine: String,
        /// Its name there.
        program: String,
    },
    /// A wire's uplink is cut.
    RemoveUplink {
        /// The wire.
        wire: String,
    },
    /// An interface goes, and with it its addresses and routes.
    RemoveInterface {
        /// Its machine.
        machine: String,
        /// Its name there.
        interface: String,
    },
    /// A machine goes with its interfaces and programs.
    RemoveMachine {
        /// Its name.
        machine: String,
        /// It comes again with a later step, because these differ.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<String>,
    },
    /// A wire goes; nothing is attached to it any more.
    RemoveWire {
        /// Its name.
        wire: String,
        /// It comes again with a later step, because these differ.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<String>,
    },
    /// What holds for the whole lab. If clock, seed, memory, images or hosts differ, the machines concerned are gone by now.
    Options(Options),
    /// A wire comes, without ends and without its uplink. What is in `from` is for ends that come later.
    AddWire {
        /// Its name.
        wire: String,
        /// All of it but its uplink; `bus` is always there.
        spec: WireSpec,
    },
    /// A wire does something else to packets, as a whole (`settings`) or at some ends (`from`).
    SetWire {
        /// Its name.
        wire: String,
        /// As it was.
        old: Box<WireSpec>,
        /// As it becomes; only `settings` and `from` count here.
        new: Box<WireSpec>,
    },
    /// A wire is plugged in or out.
    Plug {
        /// Its name.
        wire: String,
        /// In.
        up: bool,
    },
    /// A machine comes with interfaces and routes.
    AddMachine {
        /// Its name.
        machine: String,
        /// All of it but `setup`, `programs`, the interface `lo`, and sysctls of single interfaces.
        spec: Box<MachineSpec>,
    },
    /// A machine becomes a router or stops being one.
    Forward {
        /// Its name.
        machine: String,
        /// A router.
        forward: bool,
    },
    /// A value below /proc/sys.
    Sysctl {
        /// The machine.
        machine: String,
        /// Its name in sysctl(8).
        name: String,
        /// As the lab had it; none: it said nothing.
        old: Option<Scalar>,
        /// None: the lab says nothing any more. It stays until the machine is made again.
        new: Option<Scalar>,
    },
    /// A file that programs find.
    File {
        /// The machine.
        machine: String,
        /// Its absolute path.
        path: String,
        /// None: it goes.
        new: Option<FileSpec>,
        /// Whether there was another one of this path.
        replaces: bool,
    },
    /// An interface comes with its addresses.
    AddInterface {
        /// Its machine.
        machine: String,
        /// Its name there.
        interface: String,
        /// All of it.
        spec: Interface,
    },
    /// Addresses of an interface; of `lo` those besides its own.
    Addresses {
        /// Its machine.
        machine: String,
        /// Its name there.
        interface: String,
        /// As they were.
        #[schemars(with = "Vec<String>")]
        old: Vec<IpNet>,
        /// As they become.
        #[schemars(with = "Vec<String>")]
        new: Vec<IpNet>,
    },
    /// Rules for nft(8), in one transaction.
    Filter {
        /// A machine, or `machine:interface`.
        place: String,
        /// None: they go.
        new: Option<FileSpec>,
        /// Whether there were others.
        replaces: bool,
    },
    /// Static routes. Those in both are there afterwards too, even if a change of interfaces took them away; `old` and
    /// `new` may be the same for that reason.
    Routes {
        /// The machine.
        machine: String,
        /// As they were.
        old: Vec<Route>,
        /// As they become.
        new: Vec<Route>,
    },
    /// A wire is joined to something outside.
    AddUplink {
        /// The wire.
        wire: String,
        /// What.
        uplink: Uplink,
    },
    /// A switch's bridge comes or changes, now that its ports are there.
    SetSwitch {
        /// Its name.
        switch: String,
        /// All that the lab says of it.
        spec: SwitchSpec,
        /// The interfaces at it, by machine and name.
        at: Vec<(String, String, AtSwitch)>,
        /// What its kernel was told; none: nothing yet.
        old: Option<Bridge>,
        /// What it is told.
        new: Bridge,
    },
    /// A new machine is set up, now that all machines and wires are there.
    Setup {
        /// Its name.
        machine: String,
        /// Shell commands, one after the other.
        lines: Vec<String>,
    },
    /// A program is started.
    AddProgram {
        /// Its machine.
        machine: String,
        /// Its name there.
        program: String,
        /// All of it.
        spec: ProgramSpec,
    },
    /// A program is ended if it runs, and started as it is now.
    RestartProgram {
        /// Its machine.
        machine: String,
        /// Its name there.
        program: String,
        /// As it becomes.
        spec: ProgramSpec,
        /// Which of its keys differ.
        why: String,
    },
    /// A breakpoint goes.
    RemoveBreakpoint {
        /// Its name.
        breakpoint: String,
    },
    /// A breakpoint comes, in the place of one of its name: nothing has been counted.
    AddBreakpoint {
        /// Its name.
        breakpoint: String,
        /// All of it.
        spec: Breakpoint,
    },
    /// A pod goes; no path leads through it any more.
    RemovePod {
        /// Its name.
        pod: String,
    },
    /// A pod comes, in the place of one of its name: paths through that go on through it.
    AddPod {
        /// Its name.
        pod: String,
        /// All of it.
        spec: PodSpec,
    },
    /// A path goes: its packets take none any more.
    RemovePath {
        /// Its name.
        path: String,
    },
    /// A path comes, in the place of one of its name.
    AddPath {
        /// Its name.
        path: String,
        /// All of it.
        spec: PathSpec,
    },
    /// A time series ends.
    RemoveSeries {
        /// Its name.
        series: String,
    },
    /// A time series begins, with an empty file.
    AddSeries {
        /// Its name.
        series: String,
        /// All of it.
        spec: Series,
    },
    /// Other events.
    Events {
        /// All of them.
        events: Vec<Event>,
    },
}

/// What holds for a whole lab: see [`Lab`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// Its name.
    pub name: String,
    /// Its clock.
    pub time: Time,
    /// Seed of everything random.
    pub seed: Option<u64>,
    /// The kernel's memory for each image.
    pub memory: Option<String>,
    /// How programs make their calls.
    #[serde(default, skip_serializing_if = "Calls::is_auto")]
    pub calls: Calls,
    /// Images by name.
    pub images: IndexMap<String, String>,
    /// Other computers by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub hosts: IndexMap<String, HostSpec>,
}

impl Options {
    /// Those of a lab.
    pub fn of(lab: &Lab) -> Options {
        Options {
            name: lab.name.clone(),
            time: lab.time,
            seed: lab.seed,
            memory: lab.memory.clone(),
            calls: lab.calls,
            images: lab.images.clone(),
            hosts: lab.hosts.clone(),
        }
    }
}

/// The steps from `old` to `new`, in an order in which they can be carried out; none if they are the same lab.
pub fn diff(old: &Lab, new: &Lab) -> Vec<Change> {
    let (old, new) = (old.normal(), new.normal());
    let mut steps = Steps::default();
    let options = (Options::of(&old), Options::of(&new));
    let all = differing(&options.0, &options.1, |key| {
        matches!(key, "time" | "seed" | "memory" | "calls")
    });
    let anew = !(all.is_empty() || old.machines.is_empty() && old.wires.is_empty());
    steps.compare(&old, &new, anew.then_some(&all));
    let mut changes = Vec::new();
    for (name, was) in &old.breakpoints {
        if new.breakpoints.get(name) != Some(was) {
            let breakpoint = name.clone();
            changes.push(Change::RemoveBreakpoint { breakpoint });
        }
    }
    for name in old.paths.keys() {
        if !new.paths.contains_key(name) {
            let path = name.clone();
            changes.push(Change::RemovePath { path });
        }
    }
    for (name, was) in &old.series {
        if anew || new.series.get(name) != Some(was) {
            let series = name.clone();
            changes.push(Change::RemoveSeries { series });
        }
    }
    changes.append(&mut steps.gone);
    if options.0 != options.1 {
        changes.push(Change::Options(options.1));
    }
    changes.append(&mut steps.wires);
    changes.append(&mut steps.machines);
    changes.append(&mut steps.filters);
    changes.append(&mut steps.uplinks);
    for (name, spec) in &new.breakpoints {
        if old.breakpoints.get(name) != Some(spec) {
            let (breakpoint, spec) = (name.clone(), spec.clone());
            changes.push(Change::AddBreakpoint { breakpoint, spec });
        }
    }
    // In one step each, so that no packet goes by in between.
    for (name, spec) in &new.pods {
        if old.pods.get(name) != Some(spec) {
            let (pod, spec) = (name.clone(), spec.clone());
            changes.push(Change::AddPod { pod, spec });
        }
    }
    for (name, spec) in &new.paths {
        if old.paths.get(name) != Some(spec) {
            let (path, spec) = (name.clone(), spec.clone());
            changes.push(Change::AddPath { path, spec });
        }
    }
    for name in old.pods.keys() {
        if !new.pods.contains_key(name) {
            let pod = name.clone();
            changes.push(Change::RemovePod { pod });
        }
    }
    for (name, spec) in &new.series {
        if anew || old.series.get(name) != Some(spec) {
            let (series, spec) = (name.clone(), spec.clone());
            changes.push(Change::AddSeries { series, spec });
        }
    }
    changes.append(&mut steps.switches);
    changes.append(&mut steps.setups);
    let place: std::collections::HashMap<_, _> = order(&new)
        .into_iter()
        .enumerate()
        .map(|(at, p)| (p, at))
        .collect();
    steps.programs.sort_by_key(|change| match change {
        Change::AddProgram {
            machine, program, ..
        }
        | Change::RestartProgram {
            machine, program, ..
        } => place.get(&(machine.as_str(), program.as_str())).copied(),
        _ => None,
    });
    changes.append(&mut steps.programs);
    if old.events != new.events {
        changes.push(Change::Events { events: new.events });
    }
    changes
}

/// Steps by when they are taken.
#[derive(Default)]
struct Steps {
    gone: Vec<Change>,
    wires: Vec<Change>,
    machines: Vec<Change>,
    filters: Vec<Change>,
    uplinks: Vec<Change>,
    switches: Vec<Change>,
    setups: Vec<Change>,
    programs: Vec<Change>,
}

impl Steps {
    /// `again`: why everything is made again, if it is.
    fn compare(&mut self, old: &Lab, new: &Lab, again: Option<&str>) {
        let mut programs_gone = Vec::new();
        let mut uplinks_gone = Vec::new();
        let mut interfaces_gone = Vec::new();
        let mut machines_gone = Vec::new();
        let mut wires_gone = Vec::new();

        let mut fresh_wires: HashSet<&str> = HashSet::new();
        for (name, was) in &old.wires {
            let why = match (new.wires.get(name), again) {
                (None, _) => None,
                (Some(_), Some(why)) => Some(why.to_owned()),
                (Some(is), None) if is.bus != was.bus => Some("bus".to_owned()),
                (Some(is), None) => {
                    self.wire(name, was, is, &mut uplinks_gone);
                    continue;
                }
            };
            fresh_wires.insert(name);
            if was.uplink.is_some() {
                uplinks_gone.push(Change::RemoveUplink { wire: name.clone() });
            }
            wires_gone.push(Change::RemoveWire {
                wire: name.clone(),
                again: why,
            });
        }
        for (name, is) in &new.wires {
            if old.wires.contains_key(name) && !fresh_wires.contains(name.as_str()) {
                continue;
            }
            self.wires.push(Change::AddWire {
                wire: name.clone(),
                spec: WireSpec {
                    uplink: None,
                    ..is.clone()
                },
            });
            self.join(name, is);
        }

        let mut fresh_machines: HashSet<&str> = HashSet::new();
        for (name, was) in &old.machines {
            let why = match new.machines.get(name) {
                None => None,
                Some(is) => {
                    let image = |lab: &Lab, spec: &MachineSpec| {
                        let name = spec.image.as_ref()?;
                        lab.images.get(name).cloned()
                    };
                    let host = |lab: &Lab, spec: &MachineSpec| {
                        let name = spec.host.as_ref()?;
                        lab.hosts.get(name).cloned()
                    };
                    let why = match again {
                        Some(why) => why.to_owned(),
                        None if image(old, was) != image(new, is) => "image".to_owned(),
                        None if host(old, was) != host(new, is) => "host".to_owned(),
                        None => differing(was, is, |key| {
                            matches!(
                                key,
                                "host" | "image" | "worker" | "core" | "rights" | "root" | "setup"
                            )
                        }),
                    };
                    if why.is_empty() {
                        self.machine(
                            name,
                            was,
                            is,
                            &fresh_wires,
                            &mut programs_gone,
                            &mut interfaces_gone,
                        );
                        continue;
                    }
                    Some(why)
                }
            };
            fresh_machines.insert(name);
            machines_gone.push(Change::RemoveMachine {
                machine: name.clone(),
                again: why,
            });
        }
        for (name, is) in &new.machines {
            if !old.machines.contains_key(name) || fresh_machines.contains(name.as_str()) {
                self.add_machine(name, is);
            }
        }
        for (name, is) in &new.switches {
            let bridge = |lab: &Lab| -> Option<Bridge> {
                lab.machines.get(name)?.bridge.as_deref().cloned()
            };
            let mut was = bridge(old).filter(|_| !fresh_machines.contains(name.as_str()));
            // A port whose interface is made again is not in the bridge.
            let comes = |port: &str| {
                self.machines.iter().any(|step| {
                    matches!(step, Change::AddInterface { machine, interface, .. }
                        if machine == name && interface == port)
                })
            };
            if let Some(was) = &mut was {
                was.ports.retain(|port, _| !comes(port));
            }
            let Some(bridge) = bridge(new) else { continue };
            let at = new.at_switch(name);
            let said = (old.switches.get(name), old.at_switch(name));
            if was.as_ref() != Some(&bridge) || said != (Some(is), at.clone()) {
                self.switches.push(Change::SetSwitch {
                    switch: name.clone(),
                    spec: is.clone(),
                    at,
                    old: was,
                    new: bridge,
                });
            }
        }
        for mut part in [
            programs_gone,
            uplinks_gone,
            interfaces_gone,
            machines_gone,
            wires_gone,
        ] {
            self.gone.append(&mut part);
        }
    }

    /// A wire that stays.
    fn wire(&mut self, name: &str, was: &WireSpec, is: &WireSpec, gone: &mut Vec<Change>) {
        let wire = name.to_owned();
        if was.effect() != is.effect() {
            self.wires.push(Change::SetWire {
                wire: wire.clone(),
                old: Box::new(was.clone()),
                new: Box::new(is.clone()),
            });
        }
        if was.up != is.up {
            let up = is.up != Some(false);
            self.wires.push(Change::Plug {
                wire: wire.clone(),
                up,
            });
        }
        if was.uplink != is.uplink {
            if was.uplink.is_some() {
                gone.push(Change::RemoveUplink { wire });
            }
            self.join(name, is);
        }
    }

    fn join(&mut self, name: &str, is: &WireSpec) {
        self.uplinks
            .extend(is.uplink.as_ref().map(|uplink| Change::AddUplink {
                wire: name.to_owned(),
                uplink: uplink.clone(),
            }));
    }

    fn add_machine(&mut self, name: &str, is: &MachineSpec) {
        let machine = || name.to_owned();
        let mut spec = MachineSpec {
            setup: Vec::new(),
            programs: IndexMap::new(),
            bridge: None,
            ..is.clone()
        };
        spec.interfaces.shift_remove(LOOPBACK);
        spec.filter = None;
        for interface in spec.interfaces.values_mut() {
            interface.filter = None;
        }
        spec.sysctls
            .retain(|sysctl, _| interface_of(sysctl).is_none());
        self.machines.push(Change::AddMachine {
            machine: machine(),
            spec: Box::new(spec),
        });
        self.loopback(name, &[], own_addresses(is));
        for (sysctl, value) in &is.sysctls {
            if interface_of(sysctl).is_some() {
                self.sysctl(name, sysctl, None, Some(value));
            }
        }
        self.filter(name.to_owned(), None, is.filter.as_ref());
        for (interface, spec) in &is.interfaces {
            self.filter(format!("{name}:{interface}"), None, spec.filter.as_ref());
        }
        if !is.setup.is_empty() {
            self.setups.push(Change::Setup {
                machine: machine(),
                lines: is.setup.clone(),
            });
        }
        for (program, spec) in &is.programs {
            self.add_program(name, program, spec);
        }
    }

    fn sysctl(&mut self, machine: &str, name: &str, old: Option<&Scalar>, new: Option<&Scalar>) {
        self.machines.push(Change::Sysctl {
            machine: machine.to_owned(),
            name: name.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        });
    }

    fn filter(&mut self, place: String, old: Option<&FileSpec>, new: Option<&FileSpec>) {
        if old != new {
            self.filters.push(Change::Filter {
                place,
                new: new.cloned(),
                replaces: old.is_some(),
            });
        }
    }

    /// It is always there, and may have more addresses.
    fn loopback(&mut self, machine: &str, old: &[IpNet], new: &[IpNet]) {
        if old != new {
            self.machines.push(Change::Addresses {
                machine: machine.to_owned(),
                interface: LOOPBACK.to_owned(),
                old: old.to_vec(),
                new: new.to_vec(),
            });
        }
    }

    fn add_program(&mut self, machine: &str, program: &str, spec: &ProgramSpec) {
        self.programs.push(Change::AddProgram {
            machine: machine.to_owned(),
            program: program.to_owned(),
            spec: spec.clone(),
        });
    }

    /// A machine that stays.
    fn machine(
        &mut self,
        name: &str,
        was: &MachineSpec,
        is: &MachineSpec,
        fresh_wires: &HashSet<&str>,
        programs_gone: &mut Vec<Change>,
        interfaces_gone: &mut Vec<Change>,
    ) {
        let machine = || name.to_owned();
        for (program, old) in &was.programs {
            match is.programs.get(program) {
                None => programs_gone.push(Change::RemoveProgram {
                    machine: machine(),
                    program: program.clone(),
                }),
                Some(new) if new != old => self.programs.push(Change::RestartProgram {
                    machine: machine(),
                    program: program.clone(),
                    spec: new.clone(),
                    why: differing(old, new, |_| true),
                }),
                Some(_) => {}
            }
        }
        for (program, spec) in &is.programs {
            if !was.programs.contains_key(program) {
                self.add_program(name, program, spec);
            }
        }
        if was.forward != is.forward {
            self.machines.push(Change::Forward {
                machine: machine(),
                forward: is.forward,
            });
        }
        let (later, now): (Vec<_>, Vec<_>) = both(&was.sysctls, &is.sysctls)
            .partition(|(sysctl, ..)| interface_of(sysctl).is_some());
        for (sysctl, old, new) in now {
            self.sysctl(name, sysctl, old, new);
        }
        for (path, old, new) in both(&was.files, &is.files) {
            self.machines.push(Change::File {
                machine: machine(),
                path: path.clone(),
                new: new.cloned(),
                replaces: old.is_some(),
            });
        }
        let mut routes_suffer = false;
        let mut fresh: HashSet<&str> = HashSet::new();
        let moved = |interface: &Interface| {
            let wire = interface.wire.as_deref();
            wire.is_some_and(|wire| fresh_wires.contains(wire))
        };
        self.loopback(name, own_addresses(was), own_addresses(is));
        let attached = |(interface, _): &(&String, &Interface)| *interface != LOOPBACK;
        for (interface, old) in was.interfaces.iter().filter(attached) {
            let new = is.interfaces.get(interface);
            let stays = new.is_some_and(|new| place(old) == place(new) && !moved(old));
            if !stays {
                routes_suffer = true;
                interfaces_gone.push(Change::RemoveInterface {
                    machine: machine(),
                    interface: interface.clone(),
                });
                // Not before: nothing passes without it.
                if old.filter.is_some() {
                    interfaces_gone.push(Change::Filter {
                        place: format!("{name}:{interface}"),
                        new: None,
                        replaces: true,
                    });
                }
            } else if let Some(new) = new.filter(|new| new.addresses != old.addresses) {
                routes_suffer = true;
                self.machines.push(Change::Addresses {
                    machine: machine(),
                    interface: interface.clone(),
                    old: old.addresses.clone(),
                    new: new.addresses.clone(),
                });
            }
        }
        for (interface, spec) in is.interfaces.iter().filter(attached) {
            let stays = was
                .interfaces
                .get(interface)
                .is_some_and(|old| place(old) == place(spec) && !moved(old));
            if !stays {
                fresh.insert(interface);
                self.machines.push(Change::AddInterface {
                    machine: machine(),
                    interface: interface.clone(),
                    spec: Interface {
                        filter: None,
                        ..spec.clone()
                    },
                });
            }
        }
        for (interface, spec) in &is.interfaces {
            let old = was.interfaces.get(interface);
            let old = old.filter(|_| !fresh.contains(interface.as_str()));
            let old = old.and_then(|old| old.filter.as_ref());
            self.filter(format!("{name}:{interface}"), old, spec.filter.as_ref());
        }
        match (&was.filter, &is.filter) {
            // Chains at a device go with it, and have to come again.
            (Some(old), Some(new)) if old == new && !fresh.is_empty() => {
                self.filters.push(Change::Filter {
                    place: machine(),
                    new: Some(new.clone()),
                    replaces: true,
                });
            }
            (old, new) => self.filter(machine(), old.as_ref(), new.as_ref()),
        }
        for (sysctl, old, new) in later {
            self.sysctl(name, sysctl, old, new);
        }
        // An interface that is made again has the kernel's own values.
        for (sysctl, value) in &is.sysctls {
            let again = interface_of(sysctl).is_some_and(|interface| fresh.contains(interface));
            if again && was.sysctls.get(sysctl) == Some(value) {
                self.sysctl(name, sysctl, None, Some(value));
            }
        }
        if was.routes != is.routes || routes_suffer && !is.routes.is_empty() {
            self.machines.push(Change::Routes {
                machine: machine(),
                old: was.routes.clone(),
                new: is.routes.clone(),
            });
        }
    }
}

/// What makes an interface another one if it differs.
fn place(interface: &Interface) -> (Option<&str>, Option<&str>, Option<&str>) {
    let switch = interface.switch.as_ref().map(AtSwitch::name);
    (interface.wire.as_deref(), interface.mac.as_deref(), switch)
}

/// The interface that each machine has.
const LOOPBACK: &str = "lo";

/// The interface that a sysctl is of, which must be there first: `net.ipv4.conf.eth0.rp_filter`.
pub(crate) fn interface_of(sysctl: &str) -> Option<&str> {
    let separator = if sysctl.contains('.') { '.' } else { '/' };
    let mut steps = sysctl.split(separator).skip(2);
    let kind = steps.next()?;
    let interface = steps.next()?;
    let is_one =
        matches!(kind, "conf" | "neigh") && !matches!(interface, "all" | "default" | LOOPBACK);
    is_one.then_some(interface)
}

/// What the lab adds to those.
fn own_addresses(spec: &MachineSpec) -> &[IpNet] {
    spec.interfaces
        .get(LOOPBACK)
        .map_or(&[], |lo| &lo.addresses)
}

/// The entries that differ.
fn both<'a, V: PartialEq>(
    old: &'a IndexMap<String, V>,
    new: &'a IndexMap<String, V>,
) -> impl Iterator<Item = (&'a String, Option<&'a V>, Option<&'a V>)> {
    let gone_or_changed = old
        .iter()
        .map(|(key, value)| (key, Some(value), new.get(key)));
    let come = new
        .iter()
        .filter(|(key, _)| !old.contains_key(*key))
        .map(|(key, value)| (key, None, Some(value)));
    gone_or_changed
        .chain(come)
        .filter(|(_, old, new)| old != new)
}

/// A structure by its keys in a lab file.
fn keys(of: &impl Serialize) -> serde_json::Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    }
}

/// The keys that count and differ, joined by commas.
fn differing<T: Serialize>(old: &T, new: &T, counts: fn(&str) -> bool) -> String {
    let (old, new) = (keys(old), keys(new));
    let mut differ: Vec<&str> = Vec::new();
    for key in old.keys().chain(new.keys()) {
        if counts(key) && old.get(key) != new.get(key) && !differ.contains(&key.as_str()) {
            differ.push(key);
        }
    }
    differ.join(", ")
}

impl Change {
    /// Takes this step in the model: carried out one after the other, those of [`diff`] make `new` of `old`, both as
    /// [`Lab::normal`] has them. What names something that isn't there changes nothing.
    pub fn apply(&self, lab: &mut Lab) {
        match self {
            Change::RemoveProgram { machine, program } => {
                lab.machine(machine, |m| m.programs.shift_remove(program));
            }
            Change::RemoveUplink { wire } => lab.wire(wire, |w| w.uplink = None),
            Change::RemoveInterface { machine, interface } => {
                lab.machine(machine, |m| {
                    m.interfaces.shift_remove(interface);
                    // A switch's port has left its bridge.
                    if let Some(bridge) = &mut m.bridge {
                        bridge.ports.shift_remove(interface);
                    }
                });
            }
            Change::RemoveMachine { machine, again } => {
                lab.machines.shift_remove(machine);
                if again.is_none() {
                    lab.switches.shift_remove(machine);
                }
            }
            Change::RemoveWire { wire, .. } => {
                lab.wires.shift_remove(wire);
            }
            Change::Options(options) => {
                let options = options.clone();
                lab.name = options.name;
                lab.time = options.time;
                lab.seed = options.seed;
                lab.memory = options.memory;
                lab.calls = options.calls;
                lab.images = options.images;
                lab.hosts = options.hosts;
            }
            Change::AddWire { wire, spec } => {
                lab.wires.insert(wire.clone(), spec.clone());
            }
            Change::SetWire { wire, new, .. } => lab.wire(wire, |w| {
                w.settings = new.settings.clone();
                w.from = new.from.clone();
            }),
            Change::Plug { wire, up } => {
                lab.wire(wire, |w| w.up = if *up { None } else { Some(false) });
            }
            Change::AddMachine { machine, spec } => {
                lab.machines.insert(machine.clone(), (**spec).clone());
            }
            Change::Forward { machine, forward } => lab.machine(machine, |m| m.forward = *forward),
            Change::Sysctl {
                machine, name, new, ..
            } => {
                lab.machine(machine, |m| put(&mut m.sysctls, name, new));
            }
            Change::File {
                machine, path, new, ..
            } => {
                lab.machine(machine, |m| put(&mut m.files, path, new));
            }
            Change::AddInterface {
                machine,
                interface,
                spec,
            } => {
                let spec = spec.clone();
                lab.machine(machine, |m| m.interfaces.insert(interface.clone(), spec));
            }
            Change::Addresses {
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
                    put(
                        &mut m.interfaces,
                        LOOPBACK,
                        &Some(lo).filter(|_| !new.is_empty()),
                    );
                } else if let Some(interface) = m.interfaces.get_mut(interface) {
                    interface.addresses = new.clone();
                }
            }),
            Change::Filter { place, new, .. } => match place.split_once(':') {
                None => lab.machine(place, |m| m.filter = new.clone()),
                Some((machine, interface)) => lab.machine(machine, |m| {
                    if let Some(interface) = m.interfaces.get_mut(interface) {
                        interface.filter = new.clone();
                    }
                }),
            },
            Change::Routes { machine, new, .. } => {
                lab.machine(machine, |m| m.routes = new.clone());
            }
            Change::AddUplink { wire, uplink } => {
                lab.wire(wire, |w| w.uplink = Some(uplink.clone()));
            }
            Change::SetSwitch {
                switch,
                spec,
                at,
                new,
                ..
            } => {
                for (machine, name, at) in at {
                    lab.machine(machine, |m| {
                        if let Some(interface) = m.interfaces.get_mut(name) {
                            interface.switch = Some(at.clone());
                        }
                    });
                }
                lab.switches.insert(switch.clone(), spec.clone());
                lab.machine(switch, |m| m.bridge = Some(Box::new(new.clone())));
            }
            Change::Setup { machine, lines } => lab.machine(machine, |m| m.setup = lines.clone()),
            Change::AddProgram {
                machine,
                program,
                spec,
            }
            | Change::RestartProgram {
                machine,
                program,
                spec,
                ..
            } => {
                let spec = spec.clone();
                lab.machine(machine, |m| m.programs.insert(program.clone(), spec));
            }
            Change::RemoveBreakpoint { breakpoint } => {
                lab.breakpoints.shift_remove(breakpoint);
            }
            Change::AddBreakpoint { breakpoint, spec } => {
                lab.breakpoints.insert(breakpoint.clone(), spec.clone());
            }
            Change::RemovePod { pod } => {
                lab.pods.shift_remove(pod);
            }
            Change::AddPod { pod, spec } => {
                lab.pods.insert(pod.clone(), spec.clone());
            }
            Change::RemovePath { path } => {
                lab.paths.shift_remove(path);
            }
            Change::AddPath { path, spec } => {
                lab.paths.insert(path.clone(), spec.clone());
            }
            Change::RemoveSeries { series } => {
                lab.series.shift_remove(series);
            }
            Change::AddSeries { series, spec } => {
                lab.series.insert(series.clone(), spec.clone());
            }
            Change::Events { events } => lab.events = events.clone(),
        }
    }
}

impl Lab {
    fn machine<T>(&mut self, name: &str, change: impl FnOnce(&mut MachineSpec) -> T) {
        self.machines.get_mut(name).map(change);
    }

    fn wire(&mut self, name: &str, change: impl FnOnce(&mut WireSpec)) {
        self.wires.get_mut(name).map(change);
    }
}

fn put<V: Clone>(map: &mut IndexMap<String, V>, key: &str, value: &Option<V>) {
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value.clone());
        }
        None => {
            map.shift_remove(key);
        }
    }
}

/// What is different about a bridge, in words.
fn ports(old: &Bridge, new: &Bridge) -> Vec<String> {
    let mut told = Vec::new();
    if old.vlan != new.vlan {
        told.push(format!("vlan {} -> {}", old.vlan, new.vlan));
    }
    if old.multicast_snooping != new.multicast_snooping {
        let (old, new) = (old.multicast_snooping, new.multicast_snooping);
        told.push(format!("multicast-snooping {old} -> {new}"));
    }
    told.extend(
        both(&old.ports, &new.ports).map(|(name, old, new)| match (old, new) {
            (_, None) => format!("- port {name}"),
            (None, _) => format!("+ port {name}"),
            _ => format!("~ port {name}"),
        }),
    );
    told
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = |again: &Option<String>| match again {
            Some(why) => format!(", to be made again: {why}"),
            None => String::new(),
        };
        match self {
            Change::RemoveProgram { machine, program } => {
                write!(f, "- program {machine}.{program}")
            }
            Change::RemoveUplink { wire } => write!(f, "- uplink of {wire}"),
            Change::RemoveInterface { machine, interface } => {
                write!(f, "- interface {machine}:{interface}")
            }
            Change::RemoveMachine { machine, again } => {
                write!(f, "- machine {machine}{}", why(again))
            }
            Change::RemoveWire { wire, again } => write!(f, "- wire {wire}{}", why(again)),
            Change::Options(_) => write!(f, "~ the lab's options"),
            Change::AddWire { wire, spec } => {
                write!(f, "+ wire {wire}")?;
                let ideal = (Settings::default(), IndexMap::new());
                let down = (spec.up == Some(false)).then(|| "down".to_owned());
                effects(f, &ideal, &spec.effect(), down)
            }
            Change::SetWire { wire, old, new } => {
                write!(f, "~ wire {wire}")?;
                effects(f, &old.effect(), &new.effect(), None)
            }
            Change::Plug { wire, up } => {
                write!(f, "~ wire {wire}: {}", if *up { "up" } else { "down" })
            }
            Change::AddMachine { machine, .. } => write!(f, "+ machine {machine}"),
            Change::Forward { machine, forward } => {
                write!(f, "~ machine {machine}: forward {} -> {forward}", !forward)
            }
            Change::Sysctl {
                machine,
                name,
                old,
                new,
            } => {
                write!(f, "~ machine {machine}: {name} ")?;
                match (old, new) {
                    (Some(old), Some(new)) => write!(f, "{old} -> {new}"),
                    (None, Some(new)) => write!(f, "-> {new}"),
                    (_, None) => f.write_str("stays as it is"),
                }
            }
            Change::File {
                machine,
                path,
                new,
                replaces,
            } => {
                let sign = sign(new, *replaces);
                write!(f, "{sign} file {path} of {machine}")
            }
            Change::AddInterface {
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
            Change::Addresses {
                machine,
                interface,
                old,
                new,
            } => {
                write!(f, "~ interface {machine}:{interface}")?;
                colon(f, added_and_gone(old, new, |address| address.to_string()))
            }
            Change::Routes { machine, old, new } => {
                let mut told = added_and_gone(old, new, Route::to_string);
                if told.is_empty() {
                    told.push("the same, its interfaces having changed".to_owned());
                }
                write!(f, "~ routes of {machine}")?;
                colon(f, told)
            }
            Change::Filter {
                place,
                new,
                replaces,
            } => {
                let sign = sign(new, *replaces);
                write!(f, "{sign} filter of {place}")
            }
            Change::AddUplink { wire, uplink } => {
                write!(f, "+ uplink of {wire}: {uplink}")
            }
            Change::SetSwitch {
                switch, old, new, ..
            } => match old {
                None => write!(f, "+ switch {switch}"),
                Some(old) => {
                    write!(f, "~ switch {switch}")?;
                    colon(f, ports(old, new))
                }
            },
            Change::Setup { machine, lines } => {
                let plural = if lines.len() == 1 { "" } else { "s" };
                write!(f, "+ setup of {machine}: {} command{plural}", lines.len())
            }
            Change::AddProgram {
                machine, program, ..
            } => write!(f, "+ program {machine}.{program}"),
            Change::RestartProgram {
                machine,
                program,
                why,
                ..
            } => write!(f, "~ program {machine}.{program}, started again: {why}"),
            Change::RemoveBreakpoint { breakpoint } => write!(f, "- breakpoint {breakpoint}"),
            Change::AddBreakpoint { breakpoint, spec } => {
                write!(f, "+ breakpoint {breakpoint}: {spec}")
            }
            Change::RemovePod { pod } => write!(f, "- pod {pod}"),
            Change::AddPod { pod, spec } => write!(f, "+ pod {pod}: {spec}"),
            Change::RemovePath { path } => write!(f, "- path {path}"),
            Change::AddPath { path, spec } => write!(f, "+ path {path}: {spec}"),
            Change::RemoveSeries { series } => write!(f, "- series {series}"),
            Change::AddSeries { series, spec } => write!(f, "+ series {series} {spec}"),
            Change::Events { events } => write!(f, "~ events: {}", events.len()),
        }
    }
}

fn colon(f: &mut fmt::Formatter<'_>, told: Vec<String>) -> fmt::Result {
    match told.is_empty() {
        true => Ok(()),
        false => write!(f, ": {}", told.join(", ")),
    }
}

/// How a line begins about what comes, goes, or is replaced.
fn sign<T>(new: &Option<T>, replaces: bool) -> char {
    match (new, replaces) {
        (None, _) => '-',
        (Some(_), true) => '~',
        (Some(_), false) => '+',
    }
}

/// What a wire does otherwise: to the packets of every end, then what differs for single ends.
fn effects(
    f: &mut fmt::Formatter<'_>,
    (old, old_ends): &(Settings, IndexMap<String, Settings>),
    (new, new_ends): &(Settings, IndexMap<String, Settings>),
    more: Option<String>,
) -> fmt::Result {
    let everywhere = settings(old, new);
    colon(f, everywhere.iter().cloned().chain(more).collect())?;
    for (end, was, is) in both(old_ends, new_ends) {
        let Some(is) = is else {
            write!(f, "; from {end}: as the rest")?;
            continue;
        };
        let mut told = settings(was.unwrap_or(old), is);
        told.retain(|told| !everywhere.contains(told));
        if !told.is_empty() {
            write!(f, "; from {end}: {}", told.join(", "))?;
        }
    }
    Ok(())
}

fn added_and_gone<T: PartialEq>(old: &[T], new: &[T], text: fn(&T) -> String) -> Vec<String> {
    let gone = old.iter().filter(|x| !new.contains(x));
    let come = new.iter().filter(|x| !old.contains(x));
    gone.map(|x| format!("- {}", text(x)))
        .chain(come.map(|x| format!("+ {}", text(x))))
        .collect()
}

/// What differs, such as `loss 0% -> 1%`.
fn settings(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = (keys(old), keys(new));
    let text = |key: &str, value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(parts)) => parts
            .iter()
            .map(|(key, value)| format!("{key} {}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(" "),
        Some(value) => value.to_string(),
        None => match key {
            "rate" => "unlimited",
            "delay" | "jitter" => "0ms",
            "overtake" => "false",
            "burst" => "none",
            "limit" => "1000",
            "mtu" => "1500",
            _ => "0%",
        }
        .to_owned(),
    };
    let mut all: Vec<&String> = old.keys().chain(new.keys()).collect();
    all.sort();
    all.dedup();
    all.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .map(|key| {
            let (old, new) = (old.get(key), new.get(key));
            format!("{key} {} -> {}", text(key, old), text(key, new))
        })
        .collect()
}
