//! What holds for a whole lab.

use std::fmt;

use indexmap::IndexMap;
use serde::Serialize;

use crate::change::{differing, Object, Phase, Plan};
use crate::{Calls, HostSpec, Lab, Time};

/// What holds for a whole lab: see [`Lab`]. If clock, seed, memory, images or hosts differ, the
/// machines concerned are gone when the step is taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    pub calls: Calls,
    /// Images by name.
    pub images: IndexMap<String, String>,
    /// Other computers by name.
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

    /// Which of them differ so that everything is made again; none: that stays.
    pub(crate) fn make_all_again(old: &Lab, new: &Lab) -> Option<String> {
        if old.machines.is_empty() && old.wires.is_empty() {
            return None;
        }
        let why = differing(&Options::of(old), &Options::of(new), |key| {
            matches!(key, "time" | "seed" | "memory" | "calls")
        });
        (!why.is_empty()).then_some(why)
    }
}

impl Object for Options {
    fn diff(plan: &mut Plan<'_>) {
        let options = Options::of(plan.new);
        if Options::of(plan.old) != options {
            plan.step(Phase::Options, options);
        }
    }

    fn apply(&self, lab: &mut Lab) {
        let options = self.clone();
        lab.name = options.name;
        lab.time = options.time;
        lab.seed = options.seed;
        lab.memory = options.memory;
        lab.calls = options.calls;
        lab.images = options.images;
        lab.hosts = options.hosts;
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("~ the lab's options")
    }
}
