//! What a lab must mean: names that can be used, ends that fit together, routes that the kernel
//! takes.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use indexmap::IndexMap;
use ipnet::IpNet;

use crate::diagnostic::{nearest, Diagnostic, SourceSpan};
use crate::diff::interface_of;
use crate::folder::{inside, looks_inside};
use crate::share::can_be_shared;
use crate::unit::{digits, scaled};
use crate::{
    cycle, named_by, port_name, port_wire, AtSwitch, Breakpoint, Claim, FileSpec, HostSpec,
    Interface, Lab, MachineSpec, PathSpec, PodSpec, Port, PortSpec, ProgramSpec, Ready, RelaySpec,
    Route, Ruleset, RulesetTable, Scalar, Series, Settings, SwitchSpec, Term, Time, Uplink,
    WireSpec,
};

/// The kernel's memory that an image needs at least, in bytes.
const LEAST_MEMORY: u64 = 16 << 20;

/// Something wrong at a path of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabDiagnostic {
    pub(crate) path: Vec<String>,
    /// The path's last key is what is wrong, not its value.
    pub(crate) key: bool,
    /// May only follow from another mistake.
    pub(crate) may_follow: bool,
    message: String,
    fix: String,
    warning: bool,
}

impl LabDiagnostic {
    /// The value at this path of keys and list indices is wrong; if something else of the lab could
    /// not be read, it may be right. The fix is a line for people.
    pub fn new(path: &[&str], message: impl Into<String>, fix: impl Into<String>) -> LabDiagnostic {
        LabDiagnostic {
            path: path.iter().map(|&step| step.to_owned()).collect(),
            key: false,
            may_follow: true,
            message: message.into(),
            fix: fix.into(),
            warning: false,
        }
    }

    pub(crate) fn mistake(self, span: SourceSpan) -> Diagnostic {
        Diagnostic {
            file: None,
            span,
            excerpt: String::new(),
            path: self.path.join("."),
            message: self.message,
            fix: self.fix,
            warning: self.warning,
        }
    }
}

struct Check<'a> {
    /// With all that its switches are.
    lab: &'a Lab,
    /// As it was written.
    said: &'a Lab,
    folder: Option<&'a Path>,
    path: Vec<String>,
    found: Vec<LabDiagnostic>,
    /// The addresses at each wire.
    at_wires: HashMap<&'a str, HashSet<IpAddr>>,
}

/// All that is wrong or suspicious. Without a folder, what paths lead to is not looked at.
pub(crate) fn check(said: &Lab, folder: Option<&Path>) -> Vec<LabDiagnostic> {
    let whole = said.expanded();
    let lab = &whole;
    let mut check = Check {
        lab,
        said,
        folder,
        path: Vec::new(),
        found: Vec::new(),
        at_wires: HashMap::new(),
    };
    for interface in lab.machines.values().flat_map(|m| m.interfaces.values()) {
        if let Some(wire) = &interface.wire {
            let there = check.at_wires.entry(wire).or_default();
            there.extend(interface.addresses.iter().map(IpNet::addr));
        }
    }
    for switch in lab.switches.keys() {
        check.join_wires_of(switch);
    }
    check.lab();
    for finding in &mut check.found {
        said_at(said, &mut finding.path);
    }
    check.found
}

/// What was made of a switch is where the switch is, or the interface that makes the port.
fn said_at(said: &Lab, path: &mut Vec<String>) {
    let Some([machines, switch]) = path.first_chunk_mut() else {
        return;
    };
    if machines != "machines" || said.machines.contains_key(switch) {
        return;
    }
    *machines = "switches".to_owned();
    let (switch, key) = (switch.clone(), path.get_mut(2));
    let Some(key) = key.filter(|key| *key == "interfaces") else {
        return;
    };
    *key = "ports".to_owned();
    let Some(port) = path.get(3) else { return };
    let made_by = said.at_switch(&switch).into_iter();
    let mut made_by = made_by.filter(|(machine, name, _)| port_name(machine, name) == *port);
    let is_own = said
        .switches
        .get(&switch)
        .is_some_and(|its| its.ports.contains_key(port));
    if let Some((machine, interface, _)) = made_by.next().filter(|_| !is_own) {
        let place = ["machines", &machine, "interfaces", &interface, "switch"];
        path.splice(..4, place.map(str::to_owned));
    }
}

/// How many bytes `64M` or `4G` are.
pub fn memory_bytes(text: &str) -> Option<u64> {
    let (number, unit) = digits(text);
    let unit = unit.trim_start().trim_end_matches(['B', 'b', 'i']);
    scaled(number, unit).ok()
}

/// Six bytes of an Ethernet address such as `02:00:00:00:00:01`.
pub fn mac_bytes(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
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

impl<'a> Check<'a> {
    fn add(&mut self, message: impl Into<String>, fix: impl Into<String>) -> &mut LabDiagnostic {
        self.found.push(LabDiagnostic {
            path: self.path.clone(),
            key: false,
            may_follow: false,
            message: message.into(),
            fix: fix.into(),
            warning: false,
        });
        self.found.last_mut().expect("it was just added")
    }

    fn at<T>(&mut self, step: impl ToString, check: impl FnOnce(&mut Check<'a>) -> T) -> T {
        self.path.push(step.to_string());
        let value = check(self);
        self.path.pop();
        value
    }

    fn each<V>(
        &mut self,
        key: &str,
        map: impl IntoIterator<Item = (&'a String, &'a V)>,
        mut check: impl FnMut(&mut Check<'a>, &'a str, &'a V),
    ) where
        V: 'a,
    {
        self.path.push(key.to_owned());
        for (name, value) in map {
            self.at(name, |c| check(c, name, value));
        }
        self.path.pop();
    }

    fn breakpoint(
        &mut self,
        name: &str,
        breakpoint: &Breakpoint,
        ends: &IndexMap<&str, Vec<(&str, &str)>>,
    ) {
        self.name("a breakpoint", name, false);
        if let Some((key, message, fix)) = breakpoint.mistake() {
            self.at(key, |c| c.add(message, fix).path.len());
        }
        let Some(at) = &breakpoint.at else { return };
        let machines = &self.lab.machines;
        let known = match at.split_once(':') {
            Some((machine, interface)) => machines
                .get(machine)
                .is_some_and(|machine| machine.interfaces.contains_key(interface)),
            None => {
                let wire = self.lab.wires.contains_key(at) || ends.contains_key(at.as_str());
                wire || machines.contains_key(at)
            }
        };
        if !known {
            let names = machines
                .keys()
                .map(String::as_str)
                .chain(ends.keys().copied());
            let fix = match nearest(at, names) {
                Some(near) => format!("did you mean {near}?"),
                None => "write machine:interface, a machine, or a wire".to_owned(),
            };
            self.at("at", |c| {
                let message = format!("the lab has no interface, machine or wire {at}");
                c.add(message, fix).path.len()
            });
        }
    }

    fn pod(&mut self, name: &str, pod: &PodSpec) {
        self.name("a pod", name, false);
        if let Some((key, message, fix)) = pod.mistake() {
            self.at(key, |c| c.add(message, fix).path.len());
            return;
        }
        let Some(folder) = self.folder else { return };
        if let Err(error) = pod.path(folder) {
            let error = error.to_string();
            let (message, fix) = error.split_once(": ").unwrap_or((&error, ""));
            self.at("file", |c| c.add(message, fix).path.len());
        }
    }

    fn packet_path(&mut self, name: &str, path: &PathSpec) {
        self.name("a path", name, false);
        if let Some((key, message, fix)) = path.mistake() {
            self.at(key, |c| c.add(message, fix).path.len());
        }
        let is_switch = |c: &Check<'_>, machine: &str| {
            let is_switch = c.lab.switches.contains_key(machine);
            is_switch.then(|| format!("{machine} is a switch, which runs no pod"))
        };
        if let Some(machine) = &path.stream {
            self.at("stream", |c| match is_switch(c, machine) {
                Some(message) => drop(c.add(message, "write a machine at the switch")),
                None => {
                    c.is_there(machine, None);
                    c.runs_pods(machine);
                }
            });
        }
        self.at("at", |c| match path.at.split_once(':') {
            _ if path.stream.is_some() => {}
            Some((machine, _)) if is_switch(c, machine).is_some() => {
                let message = is_switch(c, machine).unwrap_or_default();
                c.add(
                    message,
                    "put the path at the interface of a machine at the switch",
                );
            }
            Some((machine, interface)) => {
                c.is_there(machine, Some(interface));
                c.runs_pods(machine);
            }
            None => {
                let message = format!("{} is no interface", path.at);
                c.add(message, "write machine:interface");
            }
        });
        for (at, pod) in path.pods.iter().enumerate() {
            if self.lab.pods.contains_key(pod) {
                continue;
            }
            let fix = match nearest(pod, self.lab.pods.keys().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("add {pod} to `pods`"),
            };
            self.path.push("pods".to_owned());
            self.at(at, |c| {
                c.add(format!("the lab has no pod {pod}"), fix).path.len()
            });
            self.path.pop();
        }
        let virtual_time = matches!(self.lab.time, Time::Virtual(_));
        let native = |pod: &&String| {
            self.lab
                .pods
                .get(*pod)
                .is_some_and(|p| !p.file.ends_with(".wasm"))
        };
        if let (true, Some(_), Some(pod)) =
            (virtual_time, path.cycles, path.pods.iter().find(native))
        {
            let message = format!(
                "a budget of cycles by a virtual clock, but the cycles of pod {pod} are the host's, and others in each run"
            );
            let fix = "make the pod a WebAssembly module, or give the path a budget of bytes";
            self.at("cycles", |c| c.add(message, fix).path.len());
        }
    }

    fn series(&mut self, name: &str, series: &Series) {
        self.name("a time series", name, false);
        if let Some((key, message, fix)) = series.mistake() {
            self.at(key, |c| c.add(message, fix).path.len());
        }
        if let Some(at) = &series.at {
            let (machine, interface) = match at.split_once(':') {
                Some((machine, interface)) => (machine, Some(interface)),
                None => (at.as_str(), None),
            };
            self.at("at", |c| c.is_there(machine, interface));
        }
        self.path.push("values".to_owned());
        let mut worker = None;
        for (column, value) in &series.values {
            let Some((machine, interface)) = value.source.place() else {
                continue;
            };
            self.at(column, |c| {
                c.is_there(machine, interface);
                let Some(its) = c.lab.machines.get(machine) else {
                    return;
                };
                let its = (&its.host, &its.image, its.worker_group());
                if *worker.get_or_insert_with(|| its.clone()) != its {
                    let message = format!("{machine} is in another worker than machines before it");
                    c.add(message, "make a series for each worker");
                }
            });
        }
        self.path.pop();
    }

    fn claim(&mut self, name: &str, claim: &Claim) {
        self.name("what holds", name, false);
        let histories = claim.linearizable.iter();
        for program in histories.filter(|name| named_by(self.lab, "", name).is_none()) {
            self.no_program(program);
        }
        for term in claim.terms() {
            match term {
                Term::Number(_) => {}
                Term::Quantity(quantity) => {
                    if let Some((machine, interface)) = quantity.source.place() {
                        self.is_there(machine, interface);
                    }
                }
                Term::Lines { program, .. } | Term::Output { program, .. } => {
                    if named_by(self.lab, "", program).is_none() {
                        self.no_program(program);
                    }
                }
            }
        }
    }

    fn no_program(&mut self, name: &str) {
        let message = format!("the lab has no program {name}");
        self.add(message, "write MACHINE.PROGRAM, by their names");
    }

    /// A machine, and an interface of it.
    fn is_there(&mut self, machine: &str, interface: Option<&str>) {
        let machines = &self.lab.machines;
        let near = |name, names: &mut dyn Iterator<Item = &'a String>| {
            let near = nearest(name, names.map(String::as_str));
            near.map_or_else(String::new, |near| format!("did you mean {near}?"))
        };
        let Some(spec) = machines.get(machine) else {
            let fix = near(machine, &mut machines.keys());
            self.add(format!("the lab has no machine {machine}"), fix);
            return;
        };
        let Some(interface) = interface else { return };
        if !spec.interfaces.contains_key(interface) {
            let fix = near(interface, &mut spec.interfaces.keys());
            self.add(format!("{machine} has no interface {interface}"), fix);
        }
    }

    /// A name of something that has no rules of its own.
    fn name(&mut self, what: &str, name: &str, empty_is_fine: bool) {
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = name.len() <= 63 && name.chars().all(usable);
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !(fits && (starts || name.is_empty() && empty_is_fine)) {
            let message = format!("{name:?} can't be the name of {what}");
            let fix = "use at most 63 letters, digits, `-`, `_` and `.`, and begin with a letter or digit";
            self.add(message, fix).key = true;
        }
    }

    fn lab(&mut self) {
        let lab = self.lab;
        self.at("name", |c| c.name("a lab", &lab.name, true));
        if let Some(memory) = &lab.memory {
            self.at("memory", |c| match memory_bytes(memory) {
                None => {
                    c.add(
                        format!("{memory:?} is not a size"),
                        "write it like 64M or 4G",
                    );
                }
                Some(bytes) if bytes < LEAST_MEMORY => {
                    c.add(
                        format!("{memory} is too little for a kernel"),
                        "write 16M or more",
                    );
                }
                Some(_) => {}
            });
        }
        self.each("images", &lab.images, |c, name, path| {
            c.name("an image", name, false);
            if path.is_empty() {
                c.add(
                    "an image is a file, and this is no path",
                    "write its path, such as build/mine.so",
                );
            }
        });
        self.each("hosts", &lab.hosts, Check::host);
        self.each("machines", &lab.machines, Check::machine);
        self.each("switches", &lab.switches, Check::switch);
        self.wires_of_switches();
        let ends = lab.ends();
        self.each("wires", &lab.wires, |c, name, wire| {
            let ends = ends.get(name).map(Vec::as_slice).unwrap_or_default();
            c.wire(name, wire, ends);
        });
        for (wire, at) in &ends {
            self.undeclared(wire, at, ends.keys().copied());
            self.sharing(at);
        }
        for wire in ends.keys().filter(|wire| lab.machines.contains_key(**wire)) {
            self.path = ["machines", wire].map(str::to_owned).to_vec();
            let message = format!("`{wire}` is a machine and a wire");
            let fix =
                "give one of them another name: commands such as `show` and `break` take either";
            self.add(message, fix).key = true;
            self.path.clear();
        }
        self.each("breakpoints", &lab.breakpoints, |c, name, breakpoint| {
            c.breakpoint(name, breakpoint, &ends);
        });
        self.each("pods", &lab.pods, Check::pod);
        self.each("paths", &lab.paths, Check::packet_path);
        self.each("series", &lab.series, Check::series);
        self.each("always", &lab.always, |c, name, claim| {
            c.claim(name, claim);
            if claim.within.is_some() {
                c.add(
                    "what always holds has no time by which it does",
                    "leave `within` out, or write it below `eventually:`",
                );
            }
        });
        self.each("eventually", &lab.eventually, |c, name, claim| {
            c.claim(name, claim);
            if !claim.linearizable.is_empty() {
                c.add(
                    "what is linearizable is so from the beginning on",
                    "write it below `always:`",
                );
            }
            if c.lab.always.contains_key(name) {
                let message = format!("{name} is the name of one below `always:`, too");
                c.add(message, "give it another name").key = true;
            }
        });
        for (at, event) in lab.events.iter().enumerate() {
            if event.every.is_some_and(|every| every.0 == 0) {
                self.path = ["events", &at.to_string(), "every"]
                    .map(str::to_owned)
                    .to_vec();
                self.add(
                    "every no time at all",
                    "write a time such as 10s, or leave `every` out",
                );
            }
            if event.line.trim().is_empty() {
                self.path = ["events", &at.to_string(), "do"]
                    .map(str::to_owned)
                    .to_vec();
                self.add(
                    "there is nothing to do",
                    "write a line of the switch box, such as wire w1 down",
                );
            }
        }
        self.path.clear();
        self.clock();
        if let Some(cycle) = cycle(lab) {
            let (machine, program) = cycle[0];
            let names: Vec<String> = cycle
                .iter()
                .chain(&cycle[..1])
                .map(|(m, p)| format!("{m}.{p}"))
                .collect();
            self.path = ["machines", machine, "programs", program, "after"]
                .map(str::to_owned)
                .to_vec();
            let message = format!("these wait for each other: {}", names.join(" after "));
            self.add(message, "remove one of these `after`").key = true;
            self.path.clear();
        }
    }

    fn machine(&mut self, name: &'a str, spec: &'a MachineSpec) {
        let label = |label: &str| {
            let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
            !label.is_empty()
                && label.chars().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > 63 || !name.split('.').all(label) {
            let good: String = name
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || c == '.' {
                        c
                    } else {
                        '-'
                    }
                })
                .take(63)
                .collect();
            let good = good.trim_matches(['-', '.']);
            let fix = match good.split('.').all(label) {
                true => format!("call it {good}: letters, digits and `-`, at most 63"),
                false => "use letters, digits and `-` within, at most 63".to_owned(),
            };
            self.add(
                format!("{name:?} can't be a machine's name, which is a host name"),
                fix,
            )
            .key = true;
        }
        self.place(spec);
        if let Some(image) = spec
            .image
            .as_ref()
            .filter(|image| !self.lab.images.contains_key(*image))
        {
            self.at("image", |c| {
                let known = c.lab.images.keys().map(String::as_str);
                let fix = match nearest(image, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("say where it is, in the lab's `images`: {{{image}: PATH}}"),
                };
                c.add(format!("there is no image `{image}` in this lab"), fix)
                    .may_follow = true;
            });
        }
        if let Some(worker) = &spec.worker {
            self.at("worker", |c| {
                c.name("a worker", worker, false);
                if worker != name && c.lab.switches.contains_key(worker) {
                    let message =
                        format!("worker {worker} is the switch {worker}, which no machine shares");
                    c.add(message, "give it another name");
                }
            });
        }
        self.core(spec);
        let mut filtered = Vec::new();
        if let Some(filter) = &spec.filter {
            self.at("filter", |c| c.filter(filter, (name, None), &mut filtered));
        }
        self.each("interfaces", &spec.interfaces, |c, interface, spec| {
            c.interface(interface, spec);
            if let Some(filter) = &spec.filter {
                let place = (name, Some(interface));
                c.at("filter", |c| c.filter(filter, place, &mut filtered));
            }
        });
        self.own_addresses(spec);
        for (at, route) in spec.routes.iter().enumerate() {
            self.path.extend(["routes".to_owned(), at.to_string()]);
            self.route(spec, route, &spec.routes[..at]);
            self.path.truncate(self.path.len() - 2);
        }
        self.each("sysctls", &spec.sysctls, |c, name, value| {
            c.sysctl(name, value);
            c.sysctl_of(spec, name);
        });
        self.each("files", &spec.files, Check::file);
        if let Some(root) = &spec.root {
            self.at("root", |c| c.inside(root, Some(true)));
        }
        for (at, line) in spec.setup.iter().enumerate() {
            if line.trim().is_empty() {
                self.path.extend(["setup".to_owned(), at.to_string()]);
                self.add("there is nothing to do", "write a shell command");
                self.path.truncate(self.path.len() - 2);
            }
        }
        let said = self.said.machines.get(name);
        let relays = said.map(|said| &said.relays).into_iter();
        for relays in relays {
            self.each("relays", relays, |c, relay, spec| {
                c.name("a relay", relay, false);
                if said.is_some_and(|said| said.programs.contains_key(relay)) {
                    let message = format!("`{relay}` is a program and a relay of {name}");
                    c.add(message, "give one of them another name").key = true;
                }
                c.relay(spec, relays);
                c.path_of_relay(name, spec, relays);
            });
        }
        self.each("programs", &spec.programs, |c, program, spec| {
            c.name("a program", program, false);
            c.program(name, program, spec);
        });
    }

    fn relay(&mut self, spec: &RelaySpec, all: &IndexMap<String, RelaySpec>) {
        let listen = &spec.listen;
        self.at("listen", |c| {
            if spec.port().is_none() {
                let fix = "write it like 10.0.0.1:80, [fd00::1]:80, or 80 for all addresses";
                c.add(format!("{listen:?} is no address and port"), fix);
            }
            let mut others = all.iter().filter(|(_, other)| !std::ptr::eq(*other, spec));
            let same =
                |other: &RelaySpec| (&other.listen, other.protocol) == (listen, spec.protocol);
            if let Some((other, _)) = others.find(|(_, other)| same(other)) {
                let message = format!("relay {other} listens on {} {listen}, too", spec.protocol);
                c.add(message, "give one of them another address or port");
            }
        });
        self.at("to", |c| match spec.target() {
            None => {
                let to = &spec.to;
                let fix = "write it like 10.0.1.2:80, [fd00::2]:80 or server:80";
                c.add(format!("{to:?} is no host and port"), fix);
            }
            Some((host, _)) => {
                let address = host.split('%').next().unwrap_or_default();
                if address.parse::<IpAddr>().is_ok() || c.lab.machines.contains_key(host) {
                    return;
                }
                let known = c.lab.machines.keys().map(String::as_str);
                let fix = match nearest(host, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name a machine of this lab, or write an address".to_owned(),
                };
                c.add(format!("`{host}` is neither an address nor a machine"), fix)
                    .may_follow = true;
            }
        });
    }

    fn path_of_relay(
        &mut self,
        machine: &str,
        spec: &RelaySpec,
        all: &IndexMap<String, RelaySpec>,
    ) {
        let Some(path) = &spec.path else { return };
        let known = self.lab.paths.get(path);
        let is_here = known.is_some_and(|its| its.stream.as_deref() == Some(machine));
        let mut others = all.iter().filter(|(_, other)| !std::ptr::eq(*other, spec));
        let other = others.find(|(_, other)| other.path.as_ref() == Some(path));
        self.at("path", |c| {
            if let (Some((other, _)), true) = (other, is_here) {
                let message = format!("path {path} is that of relay {other}");
                c.add(message, "give each relay a path of its own");
            } else if !is_here {
                let message = format!("the lab has no path {path} of a stream of {machine}");
                let fix = format!("add {path} to `paths`, with stream: {machine}");
                c.add(message, fix).may_follow = true;
            }
        });
    }

    /// What is at one wire of a switch is at all of them.
    fn join_wires_of(&mut self, switch: &str) {
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

    fn switch(&mut self, name: &'a str, spec: &'a SwitchSpec) {
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

    fn port(&mut self, switch: &str, name: &str, spec: &PortSpec) {
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
    fn groups(&mut self, switch: &str, spec: &SwitchSpec) {
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
    fn wires_of_switches(&mut self) {
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
    fn vlans(&mut self, untagged: Option<u16>, tagged: &[u16]) {
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
    fn at_switch(&mut self, spec: &Interface) {
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

    fn mac(&mut self, mac: &str) {
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

    fn host(&mut self, name: &str, spec: &HostSpec) {
        self.name("a host", name, false);
        let (message, fix) = match (&spec.ssh, spec.command.first()) {
            (None, None) => (
                "nothing says how this host is reached",
                "write `ssh: NAME`, as in `ssh NAME`, or `command:` with a list of words that lead there",
            ),
            (Some(_), Some(_)) => ("a host has one way to it", "leave `ssh` or `command` out"),
            (Some(name), None) if name.is_empty() || name.starts_with('-') => (
                "this is no name for ssh",
                "write it as in `ssh NAME`: lab2, user@10.0.0.7",
            ),
            (None, Some(program)) if program.is_empty() => {
                ("the command has no program", "write its name first")
            }
            _ => return,
        };
        self.add(message, fix);
    }

    /// What can't be on another computer.
    fn place(&mut self, spec: &MachineSpec) {
        let Some(host) = &spec.host else { return };
        let hosts = &self.lab.hosts;
        if !hosts.contains_key(host) {
            let fix = match nearest(host, hosts.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "say how it is reached, in the lab's `hosts`: {{{host}: {{ssh: {host}}}}}"
                ),
            };
            self.at("host", |c| {
                c.add(format!("there is no host `{host}` in this lab"), fix)
                    .may_follow = true;
            });
        }
        if self.lab.time != Time::Real {
            self.at("host", |c| {
                let message = format!(
                    "a clock of the lab's own is the clock of one kernel, and host {host} has another"
                );
                c.add(message, "leave `host` out, or say `time: real`");
            });
        }
        if spec.root.is_some() {
            self.at("root", |c| {
                let message = format!("the lab's folder is not on host {host}");
                c.add(message, "give the machine `files`, or leave `host` out");
            });
        }
    }

    /// Pods are files of this computer.
    fn runs_pods(&mut self, machine: &str) {
        let host = self
            .lab
            .machines
            .get(machine)
            .and_then(|it| it.host.as_ref());
        if let Some(host) = host {
            let message = format!("{machine} is on host {host}, where no pods are loaded");
            self.add(message, "put the path at a machine of this computer");
        }
    }

    /// A wire has two sides, each on one computer.
    fn places_of_wire(&mut self, wire: &WireSpec, ends: &[(&str, &str)]) {
        let of_end = |(machine, _): &(&str, &str)| self.lab.machines.get(*machine);
        let mut places: Vec<&Option<String>> =
            ends.iter().filter_map(of_end).map(|it| &it.host).collect();
        places.sort();
        places.dedup();
        let name = |host: &Option<String>| host.clone().unwrap_or("this computer".to_owned());
        if places.len() > 2 {
            let names: Vec<String> = places.iter().map(|host| name(host)).collect();
            let message = format!("a wire of {} computers: {}", names.len(), names.join(", "));
            self.add(
                message,
                "use wires of two, and a machine or a switch between them",
            );
        }
        let Some(uplink) = &wire.uplink else { return };
        if let (2.., Some(Some(host))) = (places.len(), places.last()) {
            let message = format!("a wire with an uplink leads to host {host}, too");
            let fix =
                "give the uplink to a wire of its own, and join both by a machine that forwards";
            self.at("uplink", |c| c.add(message, fix).path.len());
        } else if let (true, Some(Some(host))) = (uplink.driver().is_some(), places.last()) {
            let message =
                format!("a driver process runs on this computer, and the wire is on host {host}");
            let fix = "use an uplink of the worker's own: passt, tap, interface or udp";
            self.at("uplink", |c| c.add(message, fix).path.len());
        }
    }

    /// A worker has the same processors whichever of its machines says so.
    fn core(&mut self, spec: &MachineSpec) {
        let (Some(worker), Some(core)) = (&spec.worker, &spec.core) else {
            return;
        };
        let mut all = self.lab.machines.iter();
        let first = all.find(|(_, it)| {
            it.worker.as_ref() == Some(worker) && it.host == spec.host && it.core.is_some()
        });
        let first = first.and_then(|(name, it)| Some((name, it.core.as_ref()?)));
        if let Some((name, its)) = first.filter(|(_, its)| its.cpus() != core.cpus()) {
            self.at("core", |c| {
                let message = format!(
                    "worker {worker} has core {its} by machine {name}, and can't have core {core} too"
                );
                c.add(message, "give one of the machines another `worker`").path.len()
            });
        }
    }

    /// What a clock of the lab's own does not go with.
    fn clock(&mut self) {
        let lab = self.lab;
        if lab.time == Time::Real {
            return;
        }
        let first = lab.machines.values().next();
        let other = |(_, machine): &(&String, &MachineSpec)| {
            first.is_some_and(|first| first.image != machine.image)
        };
        let apart = |(_, machine): &(&String, &MachineSpec)| {
            let differ = first.is_some_and(|first| first.worker_group() != machine.worker_group());
            // Of a switch it has been told.
            differ && machine.bridge.is_none()
        };
        // Of two that differ, one at least says where it is.
        let two = [lab.machines.iter().find(apart), lab.machines.first()];
        let mut saying = two.into_iter().flatten();
        if let (Some(_), Some((name, machine))) =
            (two[0], saying.find(|(_, it)| it.worker_group().is_some()))
        {
            let key = if machine.worker.is_some() {
                "worker"
            } else {
                "core"
            };
            self.path = ["machines", name, key].map(str::to_owned).to_vec();
            self.add(
                "machines of several workers can't share a clock of the lab's own: each worker has a kernel of its own",
                "give all machines the same `worker` and `core`, or none, or say `time: real`",
            );
        }
        if let Some((name, _)) = lab.machines.iter().find(other) {
            self.path = ["machines", name, "image"].map(str::to_owned).to_vec();
            let fix = "give all machines the same image, or say `time: real`";
            self.add(
                "machines of several images can't share a clock of the lab's own: each image has a kernel of its own",
                fix,
            );
        }
        if lab.time.allows_uplinks() {
            self.path.clear();
            return;
        }
        for (name, _) in lab.wires.iter().filter(|(_, wire)| wire.uplink.is_some()) {
            self.path = ["wires", name, "uplink"].map(str::to_owned).to_vec();
            self.add(
                "what is outside does not live by the lab's virtual clock",
                "leave the uplink out, or say `time: {virtual: {uplinks: true}}`: runs are not the same then",
            );
        }
        self.path.clear();
    }

    fn interface_name(&mut self, name: &str) {
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

    fn interface(&mut self, name: &str, spec: &Interface) {
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

    fn address(&mut self, address: &IpNet) {
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

    /// No two interfaces of a machine have the same address.
    fn own_addresses(&mut self, spec: &MachineSpec) {
        let mut seen: HashMap<IpAddr, &str> = HashMap::new();
        for (name, interface) in &spec.interfaces {
            for (at, address) in interface.addresses.iter().enumerate() {
                if let Some(first) = seen.insert(address.addr(), name) {
                    self.path.extend(
                        ["interfaces", name, "addresses", &at.to_string()].map(str::to_owned),
                    );
                    let message =
                        format!("{} is here twice: {first} has it already", address.addr());
                    self.add(message, "give each interface its own address");
                    self.path.truncate(self.path.len() - 4);
                }
            }
        }
    }

    /// What interfaces at the same wire must not share.
    fn sharing(&mut self, ends: &[(&str, &str)]) {
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

    fn route(&mut self, spec: &MachineSpec, route: &Route, before: &[Route]) {
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
    fn via(&mut self, spec: &MachineSpec, via: IpAddr, dev: Option<&str>) {
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
    fn leads_out(&self, interface: &Interface) -> bool {
        let wire = interface.wire.as_ref();
        let wire = wire.and_then(|wire| self.lab.wires.get(wire));
        wire.is_some_and(|wire| wire.uplink.is_some())
    }

    fn sysctl(&mut self, name: &'a str, value: &'a Scalar) {
        let steps: Vec<&str> = match name.contains('/') {
            true => name.split('/').collect(),
            false => name.split('.').collect(),
        };
        if steps.iter().any(|step| step.is_empty() || *step == "..") || steps.len() < 2 {
            let fix = "write it as sysctl(8) does: net.ipv4.tcp_congestion_control";
            self.add(format!("{name:?} is not the name of a sysctl"), fix)
                .key = true;
        } else if steps[0] != "net" && !name.starts_with("net.") {
            let fix = "only net.* is a machine's own; remove it";
            self.add(
                format!("{name} is not a machine's, but its kernel's or the host's"),
                fix,
            )
            .key = true;
        }
        if matches!(value, Scalar::Text(text) if matches!(text.as_str(), "true" | "false")) {
            let number = i32::from(value.to_string() == "true");
            self.add(
                format!("the kernel takes numbers here, not {value}"),
                format!("write {number}"),
            );
        }
    }

    /// Some are there only with their interface.
    fn sysctl_of(&mut self, spec: &MachineSpec, name: &str) {
        let Some(interface) = interface_of(name) else {
            return;
        };
        // sysctl(8) writes a name's dots as `/`.
        if !spec.interfaces.contains_key(&interface.replace('/', ".")) {
            let fix = match nearest(interface, spec.interfaces.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "set it in `setup`, if a command there makes the interface".to_owned(),
            };
            let finding = self.add(format!("the machine has no interface `{interface}`"), fix);
            (finding.key, finding.may_follow) = (true, true);
        }
    }

    fn file(&mut self, path: &'a str, spec: &'a FileSpec) {
        let below = |folder: &str| path == folder || path.starts_with(&format!("{folder}/"));
        if !path.starts_with('/') || path.ends_with('/') {
            let fix = "write it like /etc/motd";
            self.add(format!("{path:?} is not the absolute path of a file"), fix)
                .key = true;
        } else if path.split('/').any(|step| step == ".." || step == ".") || path.contains("//") {
            let fix = "write it without `.`, `..` and `//`";
            self.add(format!("{path:?} is not the shortest path of a file"), fix)
                .key = true;
        } else if ["/proc", "/sys", "/dev"].into_iter().any(below) {
            let fix = "for /proc/sys use `sysctls`";
            self.add(format!("{path} is the kernel's"), fix).key = true;
        }
        if let FileSpec::From { from } = spec {
            self.at("from", |c| c.inside(from, Some(false)));
        }
    }

    /// What can be known of a filter's rules without nft(8). `others`: the tables that filters of the
    /// machine have declared so far.
    fn filter(
        &mut self,
        spec: &'a FileSpec,
        (machine, interface): (&str, Option<&str>),
        others: &mut Vec<RulesetTable>,
    ) {
        if interface == Some("lo") {
            let fix = "give it to the machine: rules there can name `lo`";
            self.add("`lo` has no filter of its own", fix).key = true;
            return;
        }
        let (read, file) = match spec {
            FileSpec::Text(text) => (Ruleset::read(text, machine, interface), None),
            FileSpec::From { from } => {
                self.at("from", |c| c.inside(from, Some(false)));
                let found = self.folder.and_then(|folder| inside(folder, from).ok());
                let Some(path) = found.filter(|path| !path.is_dir()) else {
                    return;
                };
                match crate::read_text_file(&path, crate::LARGEST_FILE) {
                    Err(error) => {
                        let fix = "write the path of a text for nft(8)";
                        self.add(format!("`{from}` can't be read: {error}"), fix);
                        return;
                    }
                    Ok(text) => (Ruleset::read(&text, machine, interface), Some(from)),
                }
            }
        };
        match (read, file) {
            (Err(error), None) => drop(self.add(format!("the rules, {error}"), error.fix)),
            (Err(error), Some(from)) => {
                let (line, message) = (error.line, error.message);
                self.add(format!("{from}:{line}: {message}"), error.fix);
            }
            (Ok(read), _) => {
                if let Some(table) = read.tables.iter().find(|table| others.contains(table)) {
                    let fix = format!("give it another name, such as `{table}-2`, or with {{{{interface}}}} in it");
                    self.add(
                        format!("another filter of {machine} has table {table}"),
                        fix,
                    );
                }
                others.extend(read.tables);
            }
        }
    }

    /// A path in the lab's folder: a folder or a file, if it matters.
    fn inside(&mut self, path: &str, folder: Option<bool>) {
        let found = match self.folder {
            Some(folder) => inside(folder, path),
            None => looks_inside(path).map(|()| Path::new("").to_owned()),
        };
        match found {
            Err(error) => {
                let error = error.to_string();
                let (message, fix) = error.split_once(": ").unwrap_or((&error, ""));
                self.add(message, fix);
            }
            Ok(found) => {
                let fits = folder.is_none_or(|folder| folder == found.is_dir());
                if self.folder.is_some() && !fits {
                    let (is, needed) = match folder {
                        Some(true) => ("not a folder", "a folder"),
                        _ => ("a folder", "a file"),
                    };
                    self.add(
                        format!("`{path}` is {is}"),
                        format!("write the path of {needed}"),
                    );
                }
            }
        }
    }

    fn program(&mut self, machine: &'a str, program: &str, spec: &'a ProgramSpec) {
        let empty = spec.command.as_ref().is_some_and(|command| match command {
            crate::Command::Shell(line) => line.trim().is_empty(),
            crate::Command::List(words) => words.first().is_none_or(String::is_empty),
        });
        match (&spec.command, &spec.app) {
            (None, None) => {
                let fix =
                    "add `command:` with a shell command, or `app:` with a virtualized process";
                let finding = self.add("nothing says what is run", fix);
                (finding.key, finding.may_follow) = (true, true);
            }
            (Some(_), Some(_)) => {
                self.add("`command` and `app` are both there", "remove one of them")
                    .key = true;
            }
            _ if empty => {
                self.at("command", |c| {
                    c.add("there is nothing to do", "write a shell command").key = false
                });
            }
            _ => {}
        }
        for name in spec.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                self.path.extend(["env".to_owned(), name.clone()]);
                let message = format!("{name:?} can't be the name of an environment variable");
                self.add(message, "write it without `=`").key = true;
                self.path.truncate(self.path.len() - 2);
            }
        }
        if let Some(dir) = &spec.dir {
            self.at("dir", |c| c.inside(dir, Some(true)));
        }
        for (at, after) in spec.after.iter().enumerate() {
            self.path.extend(["after".to_owned(), at.to_string()]);
            match named_by(self.lab, machine, after) {
                None => {
                    let fix = self.program_like(machine, after);
                    self.add(format!("there is no program `{after}` to wait for"), fix)
                        .may_follow = true;
                }
                // Longer cycles are found for the whole lab.
                Some(found) if found == (machine, program) => {
                    self.add("it waits for itself", "remove it");
                }
                Some(_) => {}
            }
            self.path.truncate(self.path.len() - 2);
        }
        let by = spec.ready.as_ref().map(|ready| &ready.by);
        if matches!(by, Some(Ready::Time(_)))
            && spec.ready.as_ref().is_some_and(|r| r.timeout.is_some())
        {
            self.at("ready", |c| {
                c.add(
                    "`timeout` says nothing here: `time` passes by itself",
                    "remove `timeout`",
                )
                .key = false
            });
        }
        if matches!(by, Some(Ready::Output(text)) if text.is_empty()) {
            self.at("ready", |c| {
                c.add(
                    "each output has an empty text in it",
                    "write what it says when it is ready",
                )
                .key = false
            });
        }
    }

    fn program_like(&self, machine: &str, after: &str) -> String {
        let here = self.lab.machines[machine].programs.keys().cloned();
        let there = self.lab.machines.iter().flat_map(|(machine, spec)| {
            spec.programs
                .keys()
                .map(move |program| format!("{machine}.{program}"))
        });
        let known: Vec<String> = here.chain(there).collect();
        let suffix = format!(".{after}");
        let elsewhere = known
            .iter()
            .find(|name| name.ends_with(&suffix))
            .map(String::as_str);
        match nearest(after, known.iter().map(String::as_str)).or(elsewhere) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a program of this machine, or `machine.program`".to_owned(),
        }
    }

    fn wire(&mut self, name: &'a str, spec: &'a WireSpec, ends: &[(&str, &str)]) {
        self.name("a wire", name, false);
        self.places_of_wire(spec, ends);
        let outside = usize::from(spec.uplink.is_some());
        let count = ends.len() + outside;
        if spec.bus == Some(false) && count > 2 {
            let all: Vec<String> = ends.iter().map(|(m, i)| format!("{m}:{i}")).collect();
            let uplink = if outside == 1 { " and an uplink" } else { "" };
            let message = format!(
                "`{name}` is not to be a bus and has {count} ends: {}{uplink}",
                all.join(", ")
            );
            let fix = "remove `bus: false`, or use a wire for each pair";
            self.at("bus", |c| c.add(message, fix).key = true);
        }
        if count < 2 && spec.bus != Some(true) {
            let message = match (ends, outside) {
                ([], 0) => format!("nothing is attached to wire `{name}`"),
                ([(machine, interface)], _) => {
                    format!("wire `{name}` has one end only, {machine}:{interface}")
                }
                _ => format!("wire `{name}` has an uplink and no machine"),
            };
            let finding = self.add(
                message,
                format!("name it as the `wire` of another interface: `wire: {name}`"),
            );
            finding.warning = true;
            finding.key = true;
            finding.may_follow = true;
        }
        self.settings(&spec.settings, &spec.settings);
        for (end, settings) in &spec.from {
            self.path.extend(["from".to_owned(), end.clone()]);
            let known: Vec<String> = ends.iter().map(|(m, i)| format!("{m}:{i}")).collect();
            let there = match end.as_str() {
                "outside" => outside == 1,
                end => known.iter().any(|known| known == end),
            };
            if !there {
                let fix = match nearest(end, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "attach an interface to it first".to_owned(),
                    None => format!("its ends are {}", known.join(", ")),
                };
                let finding = self.add(format!("`{end}` is not an end of this wire"), fix);
                (finding.key, finding.may_follow) = (true, true);
            }
            self.settings(settings, &spec.settings.with(settings));
            self.path.truncate(self.path.len() - 2);
        }
        if let Some(uplink) = &spec.uplink {
            self.path.push("uplink".to_owned());
            self.uplink(uplink);
            self.path.pop();
        }
    }

    /// `all`: with what is said of the wire elsewhere.
    fn settings(&mut self, own: &Settings, all: &Settings) {
        let zero = |span: Option<crate::Span>| span.is_none_or(|span| span.0 == 0);
        if own.loss.is_some() && own.burst.is_some() {
            let fix = "remove `loss`: `burst` has a `loss` and a `good-loss` of its own";
            self.at("burst", |c| {
                c.add("`loss` and `burst` are both there", fix).key = true
            });
        }
        let touched = own.jitter.is_some() || own.delay.is_some();
        if touched && all.jitter > all.delay && !zero(all.jitter) {
            let fix = "give it a `delay` of at least that, around which it varies";
            let step = if own.jitter.is_some() {
                "jitter"
            } else {
                "delay"
            };
            self.at(step, |c| {
                c.add(
                    "`jitter` is more than `delay`, and no packet arrives before it was sent",
                    fix,
                )
                .key = false
            });
        }
        if own.reorder.is_some_and(|share| share.0 > 0.0) && zero(all.delay) {
            let fix = "give the wire a `delay`, which some packets then don't have";
            self.at("reorder", |c| {
                c.add("without a `delay` there is nothing to overtake", fix)
                    .warning = true
            });
        }
    }

    fn uplink(&mut self, uplink: &Uplink) {
        self.path.push(uplink.kind().to_owned());
        match uplink {
            Uplink::Tap(name) | Uplink::Interface(name) => self.interface_name(name),
            // The host's struct sockaddr_un: unix(7).
            Uplink::Qemu(path)
            | Uplink::QemuConnect(path)
            | Uplink::QemuDgram(path)
            | Uplink::VhostUser(path)
            | Uplink::Wire(path)
                if path.is_empty() || path.len() > 107 =>
            {
                self.add(
                    format!("{path:?} can't be the path of a socket"),
                    "write a path of 1 to 107 bytes",
                );
            }
            Uplink::Driver(driver) => self.uplink(&driver.opens()),
            Uplink::Share(share) => {
                let never = |address: &&IpAddr| !can_be_shared(**address);
                for address in share.addresses.iter().filter(never) {
                    self.add(
                        format!("{address} can't be shared"),
                        "write an address of the host's that other hosts reach",
                    );
                }
            }
            Uplink::Udp { listen, peer } if listen.is_ipv4() != peer.is_ipv4() => {
                self.add(
                    format!("{listen} can't send to {peer}"),
                    "both must be IPv4, or both IPv6",
                );
            }
            _ => {}
        }
        self.path.pop();
    }

    /// A wire that only interfaces name is fine; one that only one of them names is likely a slip.
    fn undeclared<'w>(
        &mut self,
        wire: &str,
        ends: &[(&str, &str)],
        known: impl Iterator<Item = &'w str>,
    ) {
        if self.lab.wires.contains_key(wire) {
            return;
        }
        let [(machine, interface)] = ends else {
            let (machine, interface) = ends[0];
            self.path = ["machines", machine, "interfaces", interface, "wire"]
                .map(str::to_owned)
                .to_vec();
            self.name("a wire", wire, false);
            self.path.clear();
            return;
        };
        self.path = ["machines", machine, "interfaces", interface, "wire"]
            .map(str::to_owned)
            .to_vec();
        let fix = match nearest(wire, known.filter(|other| *other != wire)) {
            Some(near) => format!("did you mean `{near}`? If not, add `{wire}: {{}}` to `wires`"),
            None => format!("attach another interface to it, or add `{wire}: {{}}` to `wires`"),
        };
        let message = format!("there is no wire `{wire}`: it is not in `wires`, and no other interface is attached to it");
        self.add(message, fix).may_follow = true;
        self.path.clear();
    }
}
