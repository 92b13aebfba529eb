//! What follows from a lab's text: which wires there are, what is attached to them, in which order
//! programs start.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use crate::{Lab, Settings, WireSpec};

/// A program by its machine and its name there.
pub type Program<'a> = (&'a str, &'a str);
/// A wire and its ends by machine and interface; `None`: the one outside.
pub type WireEnds<'a> = (&'a str, Vec<Option<(&'a str, &'a str)>>);

impl Lab {
    /// The ends of each wire that there is, by machine and interface, without uplinks. Wires come
    /// as in `wires`, and then those that only interfaces name.
    pub fn ends(&self) -> IndexMap<&str, Vec<(&str, &str)>> {
        let mut ends: IndexMap<&str, Vec<(&str, &str)>> = self
            .wires
            .keys()
            .map(|wire| (wire.as_str(), Vec::new()))
            .collect();
        for (machine, spec) in &self.machines {
            for (interface, spec) in &spec.interfaces {
                if let Some(wire) = &spec.wire {
                    ends.entry(wire).or_default().push((machine, interface));
                }
            }
        }
        ends
    }

    /// The ends of each of `wires`, and its end outside as `None`: the place of an end among all of
    /// them is its number in the lab's topology.
    pub fn ends_of_wires(&self) -> Vec<WireEnds<'_>> {
        let mut attached = self.ends();
        let wires = self.wires.iter();
        let ends = wires.map(|(name, wire)| {
            let attached = attached.get_mut(name.as_str()).map(std::mem::take);
            let mut ends: Vec<_> = attached.unwrap_or_default().into_iter().map(Some).collect();
            ends.extend(wire.uplink.is_some().then_some(None));
            (name.as_str(), ends)
        });
        ends.collect()
    }

    /// The same lab with all said that this file format lets one leave out about wires: each is in
    /// `wires` and knows whether it is a bus; one that is plugged in does not say so, and `lo` is
    /// named where it has addresses. Each machine of a worker group knows the group's processors,
    /// and switches are machines ([`Lab::expanded`]).
    pub fn normal(&self) -> Lab {
        self.expanded().with_all_said()
    }

    fn with_all_said(&self) -> Lab {
        let mut wires: IndexMap<String, WireSpec> = IndexMap::new();
        for (name, ends) in self.ends() {
            let mut wire = self.wires.get(name).cloned().unwrap_or_default();
            wire.bus = Some(wire.is_bus(ends.len()));
            wire.up = wire.up.filter(|up| !up);
            wires.insert(name.to_owned(), wire);
        }
        let mut lab = Lab {
            wires,
            ..self.clone()
        };
        for machine in lab.machines.values_mut() {
            machine
                .interfaces
                .retain(|name, spec| name != "lo" || !spec.addresses.is_empty());
        }
        lab.spread_cores();
        lab
    }
}

impl WireSpec {
    /// Whether it is an Ethernet segment, if so many interfaces are attached to it.
    pub fn is_bus(&self, ends: usize) -> bool {
        let ends = ends + usize::from(self.uplink.is_some());
        self.bus.unwrap_or(ends > 2)
    }

    /// What it does to packets, however it is said: of every end, and of those at which that is
    /// something else.
    pub fn effect(&self) -> (Settings, IndexMap<String, Settings>) {
        let all = self.settings.plain();
        let from = self.from.iter().filter_map(|(end, own)| {
            let own = self.settings.with(own).plain();
            (own != all).then(|| (end.clone(), own))
        });
        let from = from.collect();
        (all, from)
    }
}

/// What a program's `after` means: a program of the same machine, or `machine.program`.
pub fn named_by<'a>(lab: &'a Lab, machine: &'a str, after: &'a str) -> Option<Program<'a>> {
    let has = |machine: &str, program: &str| {
        lab.machines
            .get(machine)
            .is_some_and(|spec| spec.programs.contains_key(program))
    };
    if has(machine, after) {
        return Some((machine, after));
    }
    // Both names may have dots.
    after
        .match_indices('.')
        .map(|(dot, _)| (&after[..dot], &after[dot + 1..]))
        .find(|(machine, program)| has(machine, program))
}

/// All programs, each after those that it waits for, otherwise as in the file. Those of a [`cycle`]
/// come in any order.
pub fn order(lab: &Lab) -> Vec<Program<'_>> {
    Walk::all(lab).done
}

/// Programs of which each waits for the next and the last for the first, if there are such: two at
/// least.
pub fn cycle(lab: &Lab) -> Option<Vec<Program<'_>>> {
    Walk::all(lab).cycle
}

/// A depth-first walk without recursion, since files may be hostile.
struct Walk<'a> {
    lab: &'a Lab,
    seen: HashSet<Program<'a>>,
    done: Vec<Program<'a>>,
    cycle: Option<Vec<Program<'a>>>,
}

impl<'a> Walk<'a> {
    fn all(lab: &'a Lab) -> Walk<'a> {
        let mut walk = Walk {
            lab,
            seen: HashSet::new(),
            done: Vec::new(),
            cycle: None,
        };
        for (machine, spec) in &lab.machines {
            for program in spec.programs.keys() {
                walk.from((machine, program));
            }
        }
        walk
    }

    fn after(&self, (machine, program): Program<'a>) -> Vec<Program<'a>> {
        let after = self.lab.machines[machine].programs[program].after.iter();
        after
            .filter_map(|after| named_by(self.lab, machine, after))
            .filter(|after| *after != (machine, program))
            .rev()
            .collect()
    }

    fn from(&mut self, start: Program<'a>) {
        if !self.seen.insert(start) {
            return;
        }
        // The way from `start`, each with what it still has to wait for; and where on the way each
        // is.
        let mut way = vec![(start, self.after(start))];
        let mut places = HashMap::from([(start, 0)]);
        while let Some((program, left)) = way.last_mut() {
            match left.pop() {
                Some(next) => {
                    if let (Some(at), None) = (places.get(&next), &self.cycle) {
                        self.cycle = Some(way[*at..].iter().map(|(program, _)| *program).collect());
                    }
                    if self.seen.insert(next) {
                        places.insert(next, way.len());
                        let after = self.after(next);
                        way.push((next, after));
                    }
                }
                None => {
                    places.remove(program);
                    self.done.push(*program);
                    way.pop();
                }
            }
        }
    }
}
