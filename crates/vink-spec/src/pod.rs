//! Pods, and the paths of packets that lead through them.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{inside, memory_bytes, PathError, Point, Span};

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
