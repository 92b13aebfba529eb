//! A whole lab.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::diagnostic::Diagnostic;
use crate::generate::Generate;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::{
    cycle, memory_bytes, Breakpoint, Calls, Claim, Event, HostSpec, MachineSpec, PathSpec, PodSpec,
    Series, SwitchSpec, Time, WireSpec,
};

/// A lab: what `vink lab up` makes and `vink lab save` writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lab {
    /// The lab's name: letters, digits, `-`, `_` and `.`; at most 63. None: the file's name without its ending.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Which clock its machines have.
    #[serde(default, skip_serializing_if = "Time::is_real")]
    pub time: Time,
    /// Seed of everything random; none: another one each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The kernel's memory for each image, such as 64M or 4G (default 256M).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// How dynamically linked programs make their calls on sockets.
    #[serde(default, skip_serializing_if = "Calls::is_auto")]
    pub calls: Calls,
    /// Further images by name: paths relative to the lab file, or absolute, or names that `vink image list` knows.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub images: IndexMap<String, String>,
    /// Other computers by name, for machines that say `host`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub hosts: IndexMap<String, HostSpec>,
    /// Machines by name.
    #[serde(default)]
    pub machines: IndexMap<String, MachineSpec>,
    /// Switches by name. No machine has the name of one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub switches: IndexMap<String, SwitchSpec>,
    /// Wires by name. One that only an interface names is ideal.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub wires: IndexMap<String, WireSpec>,
    /// Breakpoints by name, set before programs start.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub breakpoints: IndexMap<String, Breakpoint>,
    /// Pods by name, loaded before programs start.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub pods: IndexMap<String, PodSpec>,
    /// Paths of packets through pods, by name. Of several at one place a packet takes the first that it fits.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub paths: IndexMap<String, PathSpec>,
    /// Time series by name, begun before programs start.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub series: IndexMap<String, Series>,
    /// What holds in every run whenever all machines wait, by name: `vink explore` checks it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub always: IndexMap<String, Claim>,
    /// What holds in every run at some time.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub eventually: IndexMap<String, Claim>,
    /// What happens while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

/// The kernel's memory that an image needs at least, in bytes.
const LEAST_MEMORY: u64 = 16 << 20;

impl Reader {
    /// The lab, with what it generates.
    pub(crate) fn lab(&mut self, node: &Node) -> Option<Lab> {
        let (mut lab, generate) = self.lab_itself(node)?;
        for (at, generate) in generate.iter().enumerate() {
            match generate.lab() {
                Ok(generated) => lab.add(generated),
                Err(message) => {
                    self.lost = true;
                    let path = ["generate".to_owned(), at.to_string()];
                    self.mistakes.push(Diagnostic {
                        file: None,
                        span: node.find(&path, true),
                        excerpt: String::new(),
                        path: path[..1].concat(),
                        message,
                        fix: "give it other numbers".to_owned(),
                        warning: false,
                    });
                }
            }
        }
        Some(lab)
    }

    /// The lab, and what it says is to be generated.
    fn lab_itself(&mut self, node: &Node) -> Option<(Lab, Vec<Generate>)> {
        if node.is_null() {
            self.wrong(
                node.span,
                "there is nothing in it",
                "write a lab, such as\n    machines:\n      m1: {}",
            );
            return None;
        }
        self.fields(node, "a lab", |r, f| {
            let lab = Lab {
                name: r.field_or_default(f, "name", Reader::text),
                time: r.field_or_default(f, "time", Reader::time),
                seed: r.field(f, "seed", |r, n| r.number(n, 0, u64::MAX)),
                memory: r.field(f, "memory", Reader::text),
                calls: r.field_or_default(f, "calls", |r, n| r.word(n, &Calls::NAMES)),
                images: r.field_or_default(f, "images", |r, n| r.named(n, Reader::text)),
                hosts: r.field_or_default(f, "hosts", |r, n| r.named(n, Reader::host)),
                machines: r.field_or_default(f, "machines", |r, n| r.named(n, Reader::machine)),
                switches: r.field_or_default(f, "switches", |r, n| r.named(n, Reader::switch)),
                wires: r.field_or_default(f, "wires", |r, n| r.named(n, Reader::wire)),
                breakpoints: r
                    .field_or_default(f, "breakpoints", |r, n| r.named(n, Reader::breakpoint)),
                pods: r.field_or_default(f, "pods", |r, n| r.named(n, Reader::pod)),
                paths: r.field_or_default(f, "paths", |r, n| r.named(n, Reader::packet_path)),
                series: r.field_or_default(f, "series", |r, n| r.named(n, Reader::series)),
                always: r.field_or_default(f, "always", |r, n| r.named(n, Reader::claim)),
                eventually: r.field_or_default(f, "eventually", |r, n| r.named(n, Reader::claim)),
                events: r.field_or_default(f, "events", |r, n| r.list(n, Reader::event)),
            };
            let generate = r.field(f, "generate", |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::generate),
                _ => r.generate(n).map(|generate| vec![generate]),
            });
            (lab, generate.unwrap_or_default())
        })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn lab(&mut self) {
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
}
