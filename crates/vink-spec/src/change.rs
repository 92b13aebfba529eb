//! From one lab to another: the steps that a running lab takes, in an order in which they can be
//! taken ([`Phase`]).
//!
//! Each kind of object has its steps beside what it is: `wire.rs` those of wires. A machine whose
//! host, image, worker, core, root or set-up lines differ is made again, as is a wire that becomes a
//! bus or stops being one, and everything if clock, seed or memory differ. A new lab comes up by the
//! steps from an empty one.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use crate::bridge::SwitchChange;
use crate::event::EventsChange;
use crate::file_spec::FileChange;
use crate::filter::FilterChange;
use crate::interface::InterfaceChange;
use crate::machine::MachineChange;
use crate::options::Options;
use crate::program::ProgramChange;
use crate::route::RoutesChange;
use crate::sysctl::SysctlChange;
use crate::uplink::UplinkChange;
use crate::wire::WireChange;
use crate::{Breakpoint, Lab, MachineSpec, NamedChange, PathSpec, PodSpec, Series, WireSpec};

/// What the steps of a kind of object are.
pub(crate) trait Object: Sized {
    /// Plans the steps that its objects take.
    fn diff(plan: &mut Plan<'_>);

    /// Takes this step in the model. What names something that isn't there changes nothing.
    fn apply(&self, lab: &mut Lab);

    /// Whether another step does the same, as to something else.
    fn is_like(&self, _other: &Self) -> bool {
        true
    }

    /// Its line in the output of `vink lab apply`.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// `Change`, with what is the same for each kind.
macro_rules! changes {
    ($($(#[$doc:meta])* $kind:ident($step:ty),)*) => {
        /// A step from one lab to another. What it prints is its line in the output of `vink lab apply`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Change {
            $($(#[$doc])* $kind($step),)*
        }

        $(
            impl From<$step> for Change {
                fn from(step: $step) -> Change {
                    Change::$kind(step)
                }
            }
        )*

        impl Change {
            /// Takes this step in the model: carried out one after the other, those of [`diff`] make
            /// `new` of `old`, both as [`Lab::normal`] has them. What names something that isn't
            /// there changes nothing.
            pub fn apply(&self, lab: &mut Lab) {
                match self {
                    $(Change::$kind(step) => step.apply(lab),)*
                }
            }

            /// Whether another step does the same to another object. Such steps can be carried out
            /// side by side.
            pub fn is_like(&self, other: &Change) -> bool {
                match (self, other) {
                    $((Change::$kind(step), Change::$kind(other)) => step.is_like(other),)*
                    _ => false,
                }
            }
        }

        impl fmt::Display for Change {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Change::$kind(step) => step.describe(f),)*
                }
            }
        }

        impl Plan<'_> {
            /// The steps of every kind.
            fn diff(&mut self) {
                $(<$step>::diff(self);)*
            }
        }
    };
}

// In this order objects are compared: machines by what has become of wires, for example.
changes! {
    /// What holds for the whole lab.
    Options(Options),
    /// A wire.
    Wire(WireChange),
    /// What a wire is joined to outside.
    Uplink(UplinkChange),
    /// A machine.
    Machine(MachineChange),
    /// An interface of a machine.
    Interface(InterfaceChange),
    /// Static routes of a machine.
    Routes(RoutesChange),
    /// A value below /proc/sys of a machine.
    Sysctl(SysctlChange),
    /// A file that a machine's programs find.
    File(FileChange),
    /// Rules for nft(8).
    Filter(FilterChange),
    /// A switch's bridge.
    Switch(SwitchChange),
    /// A program of a machine.
    Program(ProgramChange),
    /// A breakpoint.
    Breakpoint(NamedChange<Breakpoint>),
    /// A pod. A path through it goes on through the one that comes in its place.
    Pod(NamedChange<PodSpec>),
    /// A path of packets: without it they take none.
    Path(NamedChange<PathSpec>),
    /// A time series, which begins with an empty file.
    Series(NamedChange<Series>),
    /// The lab's events.
    Events(EventsChange),
}

/// When a step is taken: what is attached to something goes before it and comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    BreakpointsGo,
    PathsGo,
    SeriesEnd,
    ProgramsEnd,
    UplinksGo,
    InterfacesGo,
    MachinesGo,
    WiresGo,
    Options,
    Wires,
    /// Machines come with their interfaces.
    Machines,
    Sysctls,
    Files,
    Interfaces,
    /// Sysctls of single interfaces.
    InterfaceSysctls,
    Routes,
    Filters,
    Uplinks,
    Breakpoints,
    Pods,
    Paths,
    /// Now no path leads through them.
    PodsGo,
    Series,
    Switches,
    Setup,
    Programs,
    Events,
}

/// Steps that are being put together.
pub(crate) struct Plan<'a> {
    /// Both as [`Lab::normal`] has them.
    pub(crate) old: &'a Lab,
    pub(crate) new: &'a Lab,
    /// Why everything is made again, if it is.
    pub(crate) again: Option<String>,
    /// Wires and machines of the old lab that go, even if they come again.
    pub(crate) wires_gone: HashSet<&'a str>,
    pub(crate) machines_gone: HashSet<&'a str>,
    steps: Vec<(Phase, Change)>,
}

impl<'a> Plan<'a> {
    /// A step in this phase, behind those that are there.
    pub(crate) fn step(&mut self, phase: Phase, step: impl Into<Change>) {
        self.steps.push((phase, step.into()));
    }

    /// Whether a wire of the new lab is made.
    pub(crate) fn wire_comes(&self, name: &str) -> bool {
        !self.old.wires.contains_key(name) || self.wires_gone.contains(name)
    }

    /// The machines that are made.
    pub(crate) fn machines_that_come(&self) -> Vec<(&'a str, &'a MachineSpec)> {
        let comes =
            |name: &str| !self.old.machines.contains_key(name) || self.machines_gone.contains(name);
        let all = self.new.machines.iter();
        let all = all.map(|(name, is)| (name.as_str(), is));
        all.filter(|(name, _)| comes(name)).collect()
    }

    /// The machines that are there before and afterwards, and are not made again.
    pub(crate) fn machines_that_stay(&self) -> Vec<(&'a str, &'a MachineSpec, &'a MachineSpec)> {
        let both = self.old.machines.iter().filter_map(|(name, was)| {
            let is = self.new.machines.get(name)?;
            Some((name.as_str(), was, is))
        });
        both.filter(|(name, ..)| !self.machines_gone.contains(name))
            .collect()
    }
}

/// The steps from `old` to `new`, in an order in which they can be carried out; none if they are the same lab.
pub fn diff(old: &Lab, new: &Lab) -> Vec<Change> {
    let (old, new) = (old.normal(), new.normal());
    let mut plan = Plan {
        again: Options::make_all_again(&old, &new),
        old: &old,
        new: &new,
        wires_gone: HashSet::new(),
        machines_gone: HashSet::new(),
        steps: Vec::new(),
    };
    plan.diff();
    plan.steps.sort_by_key(|(phase, _)| *phase);
    plan.steps.into_iter().map(|(_, step)| step).collect()
}

impl Lab {
    pub(crate) fn machine<T>(&mut self, name: &str, change: impl FnOnce(&mut MachineSpec) -> T) {
        self.machines.get_mut(name).map(change);
    }

    pub(crate) fn wire(&mut self, name: &str, change: impl FnOnce(&mut WireSpec)) {
        self.wires.get_mut(name).map(change);
    }
}

pub(crate) fn put<V: Clone>(map: &mut IndexMap<String, V>, key: &str, value: &Option<V>) {
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value.clone());
        }
        None => {
            map.shift_remove(key);
        }
    }
}

/// The entries that differ.
pub(crate) fn both<'a, V: PartialEq>(
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
pub(crate) fn keys(of: &impl Serialize) -> serde_json::Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    }
}

/// The keys that count and differ, joined by commas.
pub(crate) fn differing<T: Serialize>(old: &T, new: &T, counts: fn(&str) -> bool) -> String {
    let (old, new) = (keys(old), keys(new));
    let mut differ: Vec<&str> = Vec::new();
    for key in old.keys().chain(new.keys()) {
        if counts(key) && old.get(key) != new.get(key) && !differ.contains(&key.as_str()) {
            differ.push(key);
        }
    }
    differ.join(", ")
}

pub(crate) fn colon(f: &mut fmt::Formatter<'_>, told: Vec<String>) -> fmt::Result {
    match told.is_empty() {
        true => Ok(()),
        false => write!(f, ": {}", told.join(", ")),
    }
}

/// How a line begins about what comes, goes, or is replaced.
pub(crate) fn sign<T>(new: &Option<T>, replaces: bool) -> char {
    match (new, replaces) {
        (None, _) => '-',
        (Some(_), true) => '~',
        (Some(_), false) => '+',
    }
}

pub(crate) fn added_and_gone<T: PartialEq>(
    old: &[T],
    new: &[T],
    text: fn(&T) -> String,
) -> Vec<String> {
    let gone = old.iter().filter(|x| !new.contains(x));
    let come = new.iter().filter(|x| !old.contains(x));
    gone.map(|x| format!("- {}", text(x)))
        .chain(come.map(|x| format!("+ {}", text(x))))
        .collect()
}

/// What is said of something that goes and comes again.
pub(crate) fn why(again: &Option<String>) -> String {
    match again {
        Some(why) => format!(", to be made again: {why}"),
        None => String::new(),
    }
}
