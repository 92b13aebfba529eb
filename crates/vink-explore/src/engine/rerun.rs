//! The rerun engine: each schedule is a run from the beginning. It is for labs with programs of the host, of
//! which no fork is a copy.
//!
//! The lab is made once, and waits for its begin. A run is a fork of that, which starts the programs and goes to
//! its end; so many are under way as there are processors. The order of packets in a run says which schedules of
//! one deviation more there are: those of a packet behind the last one that has another fate. So the schedules
//! are the same as the fork engine's, each once.
//!
//! A run in which the same has happened as in an earlier one is not extended: what comes of it is known.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use vink_sys::poll::{poll, wanted};

use super::{End, Engine, Level};
use crate::runner::{Runner, Running};
use crate::search::Ran;
use crate::{Deviation, Error, Found, Outcome, Schedule};

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Rerun {
    /// Runs that are extended by a deviation, in the order of their schedules.
    nodes: Vec<Node>,
    /// What has happened in runs so far, by its digest: behind which packet they were extended.
    seen: HashMap<String, usize>,
}

/// A run that was made.
struct Node {
    schedule: Schedule,
    /// The interfaces that have sent packets, by their places, in the order of these.
    departures: Vec<u16>,
    /// Behind how many packets it is extended.
    from: usize,
}

/// A run that is under way.
struct Started {
    /// The place of its schedule among all of the level.
    number: u64,
    schedule: Schedule,
    /// How many packets come before the last that has another fate, and that one.
    until: usize,
    running: Running,
}

impl Engine for Rerun {
    fn name(&self) -> &'static str {
        "rerun"
    }

    fn try_all(
        &mut self,
        runner: &mut Runner,
        level: &Level<'_>,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        if level.deviations == 1 {
            let plain = runner.plain()?;
            self.nodes = vec![Node {
                schedule: Schedule::new(),
                departures: plain.departures.clone(),
                from: 0,
            }];
        }
        let names: Vec<String> = runner.ends().iter().map(crate::End::name).collect();
        let mut round = Round {
            engine: self,
            level,
            started: Vec::new(),
            next: BTreeMap::new(),
            first: HashMap::new(),
            found,
        };
        let end = round.run(runner, &names, tell);
        let next = std::mem::take(&mut round.next);
        let end = end?;
        self.nodes = next.into_values().collect();
        Ok(end)
    }
}

/// All schedules of so many deviations, in their order.
fn schedules<'a>(
    nodes: &'a [Node],
    names: &'a [String],
    fates: &'a [crate::Fate],
) -> impl Iterator<Item = (Schedule, usize)> + 'a {
    nodes.iter().flat_map(move |node| {
        let mut counts = vec![0; names.len()];
        let numbered: Vec<(usize, u32)> = node
            .departures
            .iter()
            .map(|end| {
                let end = usize::from(*end);
                counts[end] += 1;
                (end, counts[end])
            })
            .collect();
        let behind = numbered.into_iter().enumerate().skip(node.from);
        behind.flat_map(move |(at, (end, packet))| {
            fates.iter().map(move |fate| {
                let mut schedule = node.schedule.clone();
                schedule.push(Deviation {
                    from: names[end].clone(),
                    packet,
                    fate: *fate,
                });
                (schedule, at + 1)
            })
        })
    })
}

/// A level that is being tried.
struct Round<'a> {
    engine: &'a mut Rerun,
    level: &'a Level<'a>,
    started: Vec<Started>,
    /// Runs that the next level extends.
    next: BTreeMap<u64, Node>,
    /// The schedule that was found for each property, by its place.
    first: HashMap<String, u64>,
    found: &'a mut BTreeMap<String, Found>,
}

impl Round<'_> {
    fn run(
        &mut self,
        runner: &mut Runner,
        names: &[String],
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error> {
        let nodes = std::mem::take(&mut self.engine.nodes);
        let wanted = self.level.wanted;
        let mut all = (0..).zip(schedules(&nodes, names, &wanted.fates));
        loop {
            // The first in their order is told, so those before it are waited for.
            let enough = self.enough();
            if let Some(last) = enough {
                self.started.retain(|started| started.number < last);
            }
            while enough.is_none() && self.started.len() < wanted.jobs {
                let Some((number, (schedule, until))) = all.next() else {
                    break;
                };
                let running = runner.begin(&schedule, false)?;
                self.started.push(Started {
                    number,
                    schedule,
                    until,
                    running,
                });
            }
            if self.started.is_empty() {
                return Ok(match enough {
                    Some(_) => End::Found,
                    None => End::Complete,
                });
            }
            if self.wait()? {
                return Ok(End::Interrupted);
            }
            tell();
            self.take()?;
            let over = |deadline| Instant::now() > deadline;
            if self.level.deadline.is_some_and(over) {
                return Ok(End::Budget);
            }
        }
    }

    /// Behind which place nothing is tried any more.
    fn enough(&self) -> Option<u64> {
        match self.level.wanted.keep_going {
            true => None,
            false => self.first.values().min().copied(),
        }
    }

    /// Waits until a run has said something; `true`: the search is interrupted.
    fn wait(&self) -> Result<bool, Error> {
        let runs = self.started.iter();
        let mut ready: Vec<_> = runs
            .map(|started| wanted(started.running.reads.as_raw_fd(), libc::POLLIN))
            .collect();
        let interrupt = self.level.interrupt;
        ready.extend(interrupt.map(|fd| wanted(fd.as_raw_fd(), libc::POLLIN)));
        match poll(&mut ready, 250) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                return Err(Error::host("poll(2)")(error));
            }
            _ => {}
        }
        let is_last = |fd: &libc::pollfd| interrupt.is_some() && fd.revents != 0;
        Ok(ready.last().is_some_and(is_last))
    }

    /// Takes what runs have come to.
    fn take(&mut self) -> Result<(), Error> {
        let mut at = 0;
        while at < self.started.len() {
            let Some(outcome) = self.started[at].running.read()? else {
                at += 1;
                continue;
            };
            let started = self.started.swap_remove(at);
            let claims = self.level.claims;
            claims.runs.fetch_add(1, Ordering::Relaxed);
            claims.packets.fetch_add(outcome.packets, Ordering::Relaxed);
            if let Some(normal) = &outcome.normal {
                self.level.ran.borrow_mut().push(Ran {
                    first: started.number as usize,
                    schedule: started.schedule.clone(),
                    digest: normal.digest(),
                });
            }
            self.came(started, outcome);
        }
        Ok(())
    }

    fn came(&mut self, started: Started, outcome: Outcome) {
        let Started {
            number,
            schedule,
            until,
            ..
        } = started;
        if let Some(violation) = outcome.violation {
            let name = violation.property.clone();
            let known = self.first.get(&name);
            let is_new = !self.found.contains_key(&name);
            if is_new || known.is_some_and(|known| number < *known) {
                self.first.insert(name.clone(), number);
                self.found.insert(
                    name,
                    Found {
                        schedule,
                        violation,
                    },
                );
            }
            return;
        }
        if self.level.deviations == self.level.wanted.deviations {
            return;
        }
        // Another image may tell apart what this one does not.
        let is_compared = outcome.normal.is_some();
        if let Some(trace) = outcome.trace.filter(|_| !is_compared) {
            let seen = self.engine.seen.entry(trace).or_insert(usize::MAX);
            if *seen <= until {
                return;
            }
            *seen = until;
        }
        let node = Node {
            schedule,
            departures: outcome.departures,
            from: until,
        };
        self.next.insert(number, node);
    }
}
