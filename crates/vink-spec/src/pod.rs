//! Pods, and the paths of packets that lead through them.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::{inside, memory_bytes, nearest, PathError, Point, Span, Time};

/// The least memory that a pod may be given, in bytes.
const LEAST_MEMORY: u64 = 1 << 20;
/// The period of a budget that names none, in ns.
const PERIOD: u64 = 10_000_000;
/// Packets that wait for a period unless a path says otherwise.
const QUEUE: u32 = 1000;
/// The longest time that a pod may take for one crossing, in ns: everything waits for it.
const LONGEST: u64 = 1_000_000_000;

/// A pod: code on a packet's path, in a protection domain of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PodSpec {
    /// A shared object, or a WebAssembly module (`.wasm`), made with vink/pod.h: a path in the lab's folder, or an absolute one.
    pub file: String,
    /// What protects everything else from it; none: `wasm` for a module, `process` for a shared object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Wall>,
    /// What its `pod_init()` gets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// The memory that it may have, such as 16M (default 64M).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The time that one crossing may take (default 100ms); then it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
}

/// What protects everything else from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wall {
    /// A process of its own, which has no files, no network and hardly a system call.
    Process,
    /// WebAssembly, compiled ahead of time.
    Wasm,
    /// Protection keys of the processor.
    Key,
    /// None: the pod is part of the worker. For measurements only.
    None,
}

/// A path: packets at an interface, or a stream of a machine's virtualized process, and the pods that they go through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PathSpec {
    /// Where packets take it: `machine:interface`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// In the place of `at`: the machine whose virtualized process (`stream`, `relay`) has its stream take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// What happens to the packet there: it departs (default) or arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<PathPoint>,
    /// Which packets, as in pcap-filter(7); none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Only departing packets that have this mark: a rule's `meta mark set`, tc's `skbedit mark`, `SO_MARK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// The pods, in the order in which a packet meets them.
    pub pods: Vec<String>,
    /// The length of a period of its budget (default 10ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
    /// Cycles of the processor that its packets may take in a period; more wait for the next one. None: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Bytes of frames that may enter its pods in a period, such as 128K; more wait for the next one. None: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Packets that may wait for a period (default 1000); more are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// Of several paths with packets, those of the highest class go first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub class: u32,
    /// What becomes of its packets when one of its pods has ended.
    #[serde(default, skip_serializing_if = "OnFault::is_drop")]
    pub on_fault: OnFault,
}

/// Where on its way a packet meets a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathPoint {
    /// The interface has sent it; the wire does not have it yet.
    Departure,
    /// The wire has carried it; the interface does not have it yet.
    Arrival,
}

/// What becomes of a path's packets when one of its pods has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnFault {
    /// They are lost: nothing goes by that the pod has not seen.
    #[default]
    Drop,
    /// They pass as if there were no path.
    Pass,
}

pub(crate) const WALLS: [(&str, Wall); 4] = [
    ("process", Wall::Process),
    ("wasm", Wall::Wasm),
    ("key", Wall::Key),
    ("none", Wall::None),
];
pub(crate) const PATH_POINTS: [(&str, PathPoint); 2] = [
    ("departure", PathPoint::Departure),
    ("arrival", PathPoint::Arrival),
];
pub(crate) const ON_FAULT: [(&str, OnFault); 2] =
    [("drop", OnFault::Drop), ("pass", OnFault::Pass)];

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl OnFault {
    fn is_drop(&self) -> bool {
        *self == OnFault::Drop
    }
}

impl From<PathPoint> for Point {
    fn from(point: PathPoint) -> Point {
        match point {
            PathPoint::Departure => Point::Departure,
            PathPoint::Arrival => Point::Arrival,
        }
    }
}

impl Wall {
    /// Its word in a lab file.
    pub fn word(self) -> &'static str {
        let found = WALLS.iter().find(|(_, wall)| *wall == self);
        found.map_or("", |(word, _)| word)
    }

    /// The wall of this word.
    pub fn named(word: &str) -> Option<Wall> {
        let found = WALLS.iter().find(|(known, _)| *known == word);
        found.map(|(_, wall)| *wall)
    }
}

impl PodSpec {
    /// Bytes of memory; `None`: the default.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_deref().and_then(memory_bytes)
    }

    /// Its file, of a lab whose file is in this folder.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn path(&self, folder: &Path) -> Result<PathBuf, PathError> {
        let path = Path::new(&self.file);
        if !path.is_absolute() {
            return inside(folder, &self.file);
        }
        match path.metadata() {
            Ok(_) => Ok(path.to_owned()),
            Err(error) => Err(PathError::Missing(self.file.clone(), error.to_string())),
        }
    }

    /// What is wrong with it by itself: the key, and why; the fix.
    pub fn mistake(&self) -> Option<(&'static str, &'static str, &'static str)> {
        if self.file.trim().is_empty() {
            return Some((
                "file",
                "a pod is a file, and this is no path",
                "write its path, such as count.so",
            ));
        }
        let is_module = self.file.ends_with(".wasm");
        if is_module && !matches!(self.wall, None | Some(Wall::Wasm)) {
            return Some((
                "wall",
                "only the wasm wall takes a WebAssembly module",
                "leave `wall` out, or write wasm",
            ));
        }
        if !is_module && self.wall == Some(Wall::Wasm) {
            return Some((
                "wall",
                "the wasm wall takes a WebAssembly module, and this is none",
                "make one with clang --target=wasm32-wasi, and call it .wasm",
            ));
        }
        if self.memory.is_some() && self.memory_bytes().is_none_or(|bytes| bytes < LEAST_MEMORY) {
            return Some((
                "memory",
                "that is no size of memory for a pod",
                "write 1M or more, such as 16M",
            ));
        }
        if self
            .time
            .is_some_and(|time| time.0 == 0 || time.0 > LONGEST)
        {
            return Some((
                "time",
                "everything waits for a pod, for a second at most",
                "write a time such as 1ms or 100ms",
            ));
        }
        None
    }
}

impl PathSpec {
    /// The machine that it is on.
    pub fn machine(&self) -> &str {
        let interface = || self.at.split(':').next().unwrap_or_default();
        self.stream.as_deref().unwrap_or_else(interface)
    }

    /// What happens to the packets that it is about.
    pub fn point(&self) -> PathPoint {
        self.on.unwrap_or(PathPoint::Departure)
    }

    /// The length of a period.
    pub fn period(&self) -> Span {
        self.period.unwrap_or(Span(PERIOD))
    }

    /// Bytes of frames in a period; `None`: any number.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes.as_deref().and_then(memory_bytes)
    }

    /// Packets that may wait.
    pub fn queue(&self) -> u32 {
        self.queue.unwrap_or(QUEUE)
    }

    /// What is wrong with it by itself: the key, and why; the fix.
    pub fn mistake(&self) -> Option<(&'static str, &'static str, &'static str)> {
        if self.stream.is_some() {
            for (key, is_there) in [
                ("at", !self.at.is_empty()),
                ("on", self.on.is_some()),
                ("filter", self.filter.is_some()),
                ("mark", self.mark.is_some()),
                ("queue", self.queue.is_some()),
            ] {
                if is_there {
                    return Some((
                        key,
                        "a path of a stream has no packets",
                        "leave it out, or leave `stream` out",
                    ));
                }
            }
        }
        if self.mark.is_some() && self.point() != PathPoint::Departure {
            return Some((
                "mark",
                "a packet that arrives has no mark yet",
                "leave it out, or put the path where the packet departs",
            ));
        }
        if self.pods.is_empty() {
            return Some((
                "pods",
                "a path through no pod",
                "name one of the lab's pods, such as pods: [count]",
            ));
        }
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| filter.trim().is_empty())
        {
            return Some((
                "filter",
                "a filter that says nothing",
                "write one as in pcap-filter(7), such as tcp port 80, or leave it out",
            ));
        }
        if self.period.is_some_and(|period| period.0 == 0) {
            return Some(("period", "a period of no time", "write a time such as 10ms"));
        }
        if self.cycles == Some(0) {
            return Some((
                "cycles",
                "a budget of nothing",
                "write 1 or more, or leave it out",
            ));
        }
        if self.bytes.is_some() && self.bytes().is_none_or(|bytes| bytes == 0) {
            return Some((
                "bytes",
                "that is no number of bytes",
                "write a size such as 128K, or leave it out",
            ));
        }
        None
    }
}

impl fmt::Display for PodSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(wall) = self.wall {
            write!(f, " behind {}", wall.word())?;
        }
        Ok(())
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stream {
            Some(machine) => write!(f, "{machine} stream")?,
            None => write!(f, "{} {}", self.at, Point::from(self.point()).word())?,
        }
        if let Some(filter) = &self.filter {
            write!(f, " {filter:?}")?;
        }
        if let Some(mark) = self.mark {
            write!(f, " mark {mark}")?;
        }
        write!(f, " through {}", self.pods.join(", "))
    }
}

impl Reader {
    pub(crate) fn pod(&mut self, node: &Node) -> Option<PodSpec> {
        let pod = self.fields(node, "a pod", |r, f| {
            let file = r.needed(f, (node, "file", "count.so"), Reader::text);
            let wall = r.field(f, "wall", |r, n| r.word(n, &WALLS));
            let config = r.field_or_default(f, "config", Reader::text);
            let memory = r.field(f, "memory", Reader::text);
            let time = r.field(f, "time", Reader::parsed);
            Some(PodSpec {
                file: file?,
                wall,
                config,
                memory,
                time,
            })
        });
        pod.flatten()
    }

    pub(crate) fn packet_path(&mut self, node: &Node) -> Option<PathSpec> {
        let path = self.fields(node, "a path", |r, f| {
            let stream = r.field(f, "stream", Reader::text);
            let at = match stream {
                Some(_) => r.field(f, "at", Reader::text).or(Some(String::new())),
                None => r.needed(f, (node, "at", "client:eth0"), Reader::text),
            };
            let on = r.field(f, "on", |r, n| r.word(n, &PATH_POINTS));
            let filter = r.field(f, "filter", Reader::text);
            let mark = r.field(f, "mark", |r, n| r.number(n, 0, u32::MAX));
            let pods = r.needed(f, (node, "pods", "[count]"), |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::text),
                _ => r.text(n).map(|pod| vec![pod]),
            });
            let period = r.field(f, "period", Reader::parsed);
            let cycles = r.field(f, "cycles", |r, n| r.number(n, 1, u64::MAX));
            let bytes = r.field(f, "bytes", Reader::text);
            let queue = r.field(f, "queue", |r, n| r.number(n, 1, u32::MAX));
            let class = r.field_or_default(f, "class", |r, n| r.number(n, 0, u32::MAX));
            let on_fault = r.field_or_default(f, "on-fault", |r, n| r.word(n, &ON_FAULT));
            Some(PathSpec {
                at: at?,
                stream,
                on,
                filter,
                mark,
                pods: pods?,
                period,
                cycles,
                bytes,
                queue,
                class,
                on_fault,
            })
        });
        path.flatten()
    }
}

impl<'a> Check<'a> {
    pub(crate) fn pod(&mut self, name: &str, pod: &PodSpec) {
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

    pub(crate) fn packet_path(&mut self, name: &str, path: &PathSpec) {
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

    /// Pods are files of this computer.
    pub(crate) fn runs_pods(&mut self, machine: &str) {
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
}
