//! A machine of a lab.

use std::collections::HashMap;
use std::fmt;
use std::mem::discriminant;
use std::net::IpAddr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{differing, why, Object, Phase, Plan};
use crate::check::Check;
use crate::interface::LOOPBACK;
use crate::node::Node;
use crate::read::Reader;
use crate::sysctl::interface_of;
use crate::{
    nearest, Bridge, Core, FileSpec, Interface, Lab, ProgramSpec, RelaySpec, Rights, Route, Scalar,
};

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

/// What becomes of a machine as such.
#[derive(Clone, Debug, PartialEq)]
pub enum MachineChange {
    /// It goes with its interfaces and programs.
    Remove {
        /// Its name.
        machine: String,
        /// It comes again with a later step, because these differ.
        again: Option<String>,
    },
    /// It comes with interfaces and routes.
    Add {
        /// Its name.
        machine: String,
        /// All of it but `setup`, `programs`, the interface `lo`, and sysctls of single interfaces.
        spec: Box<MachineSpec>,
    },
    /// It becomes a router or stops being one.
    Forward {
        /// Its name.
        machine: String,
        /// A router.
        forward: bool,
    },
    /// A new machine is set up, now that all machines and wires are there.
    Setup {
        /// Its name.
        machine: String,
        /// Shell commands, one after the other.
        lines: Vec<String>,
    },
}

impl Object for MachineChange {
    fn diff(plan: &mut Plan<'_>) {
        let (old, new) = (plan.old, plan.new);
        for (name, was) in &old.machines {
            let is = new.machines.get(name);
            let again = is.map(|is| made_again(plan, was, is));
            if let (Some(""), Some(is)) = (again.as_deref(), is) {
                if was.forward != is.forward {
                    let (machine, forward) = (name.clone(), is.forward);
                    plan.step(Phase::Machines, MachineChange::Forward { machine, forward });
                }
                continue;
            }
            plan.machines_gone.insert(name);
            let machine = name.clone();
            plan.step(Phase::MachinesGo, MachineChange::Remove { machine, again });
        }
        for (name, is) in plan.machines_that_come() {
            let spec = Box::new(bare(is));
            let machine = name.to_owned();
            plan.step(Phase::Machines, MachineChange::Add { machine, spec });
            if !is.setup.is_empty() {
                let (machine, lines) = (name.to_owned(), is.setup.clone());
                plan.step(Phase::Setup, MachineChange::Setup { machine, lines });
            }
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    fn apply(&self, lab: &mut Lab) {
        match self {
            MachineChange::Remove { machine, again } => {
                lab.machines.shift_remove(machine);
                if again.is_none() {
                    lab.switches.shift_remove(machine);
                }
            }
            MachineChange::Add { machine, spec } => {
                lab.machines.insert(machine.clone(), (**spec).clone());
            }
            MachineChange::Forward { machine, forward } => {
                lab.machine(machine, |m| m.forward = *forward);
            }
            MachineChange::Setup { machine, lines } => {
                lab.machine(machine, |m| m.setup = lines.clone());
            }
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineChange::Remove { machine, again } => {
                write!(f, "- machine {machine}{}", why(again))
            }
            MachineChange::Add { machine, .. } => write!(f, "+ machine {machine}"),
            MachineChange::Forward { machine, forward } => {
                write!(f, "~ machine {machine}: forward {} -> {forward}", !forward)
            }
            MachineChange::Setup { machine, lines } => {
                let plural = if lines.len() == 1 { "" } else { "s" };
                write!(f, "+ setup of {machine}: {} command{plural}", lines.len())
            }
        }
    }
}

/// Why a machine of both labs is made again; nothing: it stays.
fn made_again(plan: &Plan<'_>, was: &MachineSpec, is: &MachineSpec) -> String {
    let image = |lab: &Lab, spec: &MachineSpec| lab.images.get(spec.image.as_ref()?).cloned();
    let host = |lab: &Lab, spec: &MachineSpec| lab.hosts.get(spec.host.as_ref()?).cloned();
    match &plan.again {
        Some(why) => why.clone(),
        None if image(plan.old, was) != image(plan.new, is) => "image".to_owned(),
        None if host(plan.old, was) != host(plan.new, is) => "host".to_owned(),
        None => differing(was, is, |key| {
            matches!(
                key,
                "host" | "image" | "worker" | "core" | "rights" | "root" | "setup"
            )
        }),
    }
}

/// What comes with a machine; the rest has steps of its own.
fn bare(is: &MachineSpec) -> MachineSpec {
    let mut spec = MachineSpec {
        setup: Vec::new(),
        programs: IndexMap::new(),
        bridge: None,
        filter: None,
        ..is.clone()
    };
    spec.interfaces.shift_remove(LOOPBACK);
    for interface in spec.interfaces.values_mut() {
        interface.filter = None;
    }
    spec.sysctls
        .retain(|sysctl, _| interface_of(sysctl).is_none());
    spec
}

impl Reader {
    pub(crate) fn machine(&mut self, node: &Node) -> Option<MachineSpec> {
        self.fields(node, "a machine", |r, f| MachineSpec {
            host: r.field(f, "host", Reader::text),
            image: r.field(f, "image", Reader::text),
            worker: r.field(f, "worker", Reader::text),
            core: r.field(f, "core", Reader::core),
            interfaces: r.field_or_default(f, "interfaces", |r, n| r.named(n, Reader::interface)),
            routes: r.field_or_default(f, "routes", |r, n| r.list(n, Reader::route)),
            forward: r.field_or_default(f, "forward", Reader::flag),
            rights: r.field_or_default(f, "rights", |r, n| r.word(n, &Rights::NAMES)),
            sysctls: r.field_or_default(f, "sysctls", |r, n| r.named(n, Reader::scalar)),
            files: r.field_or_default(f, "files", |r, n| r.named(n, Reader::file)),
            root: r.field(f, "root", Reader::text),
            filter: r.field(f, "filter", Reader::file),
            setup: r.field_or_default(f, "setup", |r, n| r.list(n, Reader::text)),
            programs: r.field_or_default(f, "programs", |r, n| r.named(n, Reader::program)),
            relays: r.field_or_default(f, "relays", |r, n| r.named(n, Reader::relay)),
            bridge: None,
        })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn machine(&mut self, name: &'a str, spec: &'a MachineSpec) {
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

    /// No two interfaces of a machine have the same address.
    pub(crate) fn own_addresses(&mut self, spec: &MachineSpec) {
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
}
