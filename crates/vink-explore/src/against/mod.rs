//! Differential exploring: the same schedules on two images, or of two labs, and what both answer, compared.
//!
//! # Theory of operation
//!
//! Each image has a process of its own (`peer`), and both make the same search, without properties but the
//! kernel's own complaints. A run is taken down without what may be any value (`normal`), and told by its digest.
//! After each number of deviations the digests of both are compared, schedule by schedule. Where two differ the
//! schedule is run once more on both, and the first difference is found (`compare`). Between two versions of
//! Linux some may be (`rules`).
//!
//! A schedule names packets by their numbers at interfaces. It is the same on both images, as long as these have
//! answered alike until then: where they have not, a schedule of fewer deviations has told so.
//!
//! Two labs are the same but for what is on their machines, such as another TCP. Of these only the outline of a run
//! is compared (`outline`): what comes of each connection, and not by which segments. A packet that a schedule names
//! may be another one there; it is the same one if it does the same.

mod compare;
mod normal;
mod outline;
mod peer;
mod rules;
mod story;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use compare::{compare, Difference, Verdict, What};
pub(crate) use normal::Normalizer;
pub use normal::{Flow, FlowName, Item, Normal, Number, ProgramEnd, SegmentItem, Sent};
pub use outline::{Counterparts, Step};
pub use peer::Peer;
pub use rules::{between, Rule, OUTLINE_RULES, RULES};
pub use story::{names, DifferenceStory};

use crate::properties::panic;
use crate::search::{search_and, Ran, Tried};
use crate::shrink::least;
use crate::{Error, Outcome, Progress, Runner, Schedule, Searched, Wanted};

/// The name under which a difference is told, beside those of properties.
pub const DIFFERENCE: &str = "difference";

/// What of two runs is compared.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// All that is sent, but for what may be any value: of one lab on two images.
    Packets,
    /// What comes of connections: of two labs on one image.
    Outlines(Arc<Counterparts>),
}

/// An image that is explored, and another one; or two labs.
pub struct Against<'a> {
    /// The one that is explored.
    pub runner: &'a mut Runner,
    /// The other one.
    pub peer: &'a mut Peer,
    /// What may differ.
    rules: Vec<&'static Rule>,
}

/// What has come of a comparison of two searches.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The search on the image that is explored.
    pub searched: Searched,
    /// Schedules that both images have run.
    pub schedules: u64,
    /// Those whose runs were not looked at, though they differ: one difference was enough.
    pub unseen: u64,
    /// Those whose first difference a rule lets be, by its name.
    pub explained: BTreeMap<&'static str, u64>,
    /// Those that have hit other packets, sent in another order.
    pub other_packets: u64,
    /// Those that one image alone has, since it has sent more packets than the other.
    pub alone: u64,
    /// The first schedule for each kind of difference.
    pub differences: BTreeMap<&'static str, Different>,
}

/// A schedule whose runs differ.
#[derive(Clone, Debug)]
pub struct Different {
    /// The schedule.
    pub schedule: Schedule,
    /// The first difference.
    pub difference: Difference,
    /// How many schedules have one of this kind.
    pub runs: u64,
}

impl<'a> Against<'a> {
    /// Of two whose lab is made. The runner goes by its own complaints only from here on, as the other does.
    ///
    /// # Errors
    /// None that is foreseen.
    pub fn new(runner: &'a mut Runner, peer: &'a mut Peer) -> Result<Against<'a>, Error> {
        runner.compares = Some(peer.comparison().clone());
        runner.check_only(&[panic::NAME.to_owned()])?;
        let rules = match peer.comparison() {
            Comparison::Packets => between(runner.release(), peer.release()),
            Comparison::Outlines(_) => OUTLINE_RULES.iter().collect(),
        };
        Ok(Against {
            runner,
            peer,
            rules,
        })
    }

    /// Searches on both. It ends with the fewest deviations that make a difference, or when all is tried
    /// ([`Wanted::keep_going`]).
    ///
    /// # Errors
    /// As of [`search`](crate::search), on either; [`Error::Interrupted`].
    pub fn search(
        &mut self,
        wanted: &Wanted,
        interrupt: Option<&OwnedFd>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Compared, Error> {
        let mut compared = Compared {
            searched: Searched::default(),
            schedules: 0,
            unseen: 0,
            explained: BTreeMap::new(),
            other_packets: 0,
            alone: 0,
            differences: BTreeMap::new(),
        };
        // Both have half of the processors.
        let halved = Wanted {
            jobs: wanted.jobs.div_ceil(2),
            ..wanted.clone()
        };
        let Against {
            runner,
            peer,
            rules,
        } = self;
        peer.search(&halved)?;
        compared.searched = search_and(
            runner,
            &halved,
            interrupt,
            progress,
            &mut |runner, tried| {
                let (its, ends) = peer.tried(tried.deviations, interrupt)?;
                let is_over = tried.is_over || ends;
                let mut level = Level {
                    runner,
                    peer,
                    rules: rules.as_slice(),
                    interrupt,
                    keep_going: wanted.keep_going,
                };
                level.compare(tried, its, &mut compared)?;
                let goes_on = !is_over && (wanted.keep_going || compared.differences.is_empty());
                peer.go_on(goes_on)?;
                Ok(goes_on)
            },
        )?;
        Ok(compared)
    }

    /// The least schedule with a difference of this kind: as [`Runner::shrink`], and with times in the place of
    /// what depends on timers, as [`Runner::with_times`].
    ///
    /// # Errors
    /// As of a run on either.
    pub fn shrink(&mut self, schedule: Schedule, kind: &str) -> Result<Schedule, Error> {
        let small = least(schedule, &mut |schedule| self.differ(schedule, kind))?;
        let timed = self.runner.timed(&small)?;
        match timed == small || self.differ(&timed, kind)? {
            true => Ok(timed),
            false => Ok(small),
        }
    }

    /// A run of a schedule on both, the explored image's first; with `record`, all that happens is written down.
    ///
    /// # Errors
    /// As of a run on either.
    pub fn run(&mut self, schedule: &Schedule, record: bool) -> Result<[Outcome; 2], Error> {
        both(self.runner, self.peer, schedule, record)
    }

    /// What comes of a comparison of these runs.
    pub fn verdict(&self, outcomes: &[Outcome; 2]) -> Verdict {
        verdict(outcomes, &self.rules)
    }

    fn differ(&mut self, schedule: &Schedule, kind: &str) -> Result<bool, Error> {
        let outcomes = self.run(schedule, false)?;
        Ok(match self.verdict(&outcomes) {
            Verdict::Different(difference) => difference.kind() == kind,
            _ => false,
        })
    }
}

/// All schedules of so many deviations.
struct Level<'a> {
    runner: &'a mut Runner,
    peer: &'a mut Peer,
    rules: &'a [&'static Rule],
    interrupt: Option<&'a OwnedFd>,
    keep_going: bool,
}

impl Level<'_> {
    fn compare(
        &mut self,
        mine: Tried,
        its: Vec<Ran>,
        compared: &mut Compared,
    ) -> Result<(), Error> {
        let mut its: HashMap<Schedule, String> = its
            .into_iter()
            .map(|ran| (sorted(ran.schedule), ran.digest))
            .collect();
        let mut mine = mine.ran;
        for ran in &mut mine {
            ran.schedule = sorted(std::mem::take(&mut ran.schedule));
        }
        // The one that deviates first is told, whichever was tried first.
        mine.sort_by_cached_key(|ran| (ran.first, format!("{:?}", ran.schedule)));
        for ran in mine {
            match its.remove(&ran.schedule) {
                None => compared.alone += 1,
                Some(digest) => {
                    compared.schedules += 1;
                    if digest != ran.digest {
                        self.look(ran.schedule, [&ran.digest, &digest], compared)?;
                    }
                }
            }
        }
        compared.alone += its.len() as u64;
        Ok(())
    }

    /// Runs a schedule once more, whose runs differ.
    fn look(
        &mut self,
        schedule: Schedule,
        then: [&String; 2],
        compared: &mut Compared,
    ) -> Result<(), Error> {
        if !self.keep_going && !compared.differences.is_empty() {
            compared.unseen += 1;
            return Ok(());
        }
        self.peer.begin(&schedule, false)?;
        let mine = self.runner.run(&schedule, false)?;
        let outcomes = [mine, self.peer.came(self.interrupt)?];
        let now = outcomes.each_ref().map(|outcome| outcome.normal.as_ref());
        if now.map(|normal| normal.map(Normal::digest)) != then.map(|digest| Some(digest.clone())) {
            return Err(Error::Lab(format!(
                "a run has not come to the same twice: {schedule:?}"
            )));
        }
        match verdict(&outcomes, self.rules) {
            Verdict::Same => Ok(()),
            Verdict::Explained(rule) => {
                *compared.explained.entry(rule.name).or_default() += 1;
                Ok(())
            }
            Verdict::OtherPackets => {
                compared.other_packets += 1;
                Ok(())
            }
            Verdict::Different(difference) => {
                let kind = difference.kind();
                let known = compared.differences.entry(kind).or_insert(Different {
                    schedule,
                    difference: *difference,
                    runs: 0,
                });
                known.runs += 1;
                Ok(())
            }
        }
    }
}

/// In an order that does not depend on which packet was sent first.
fn sorted(mut schedule: Schedule) -> Schedule {
    schedule.sort_by(|one, other| (&one.from, one.packet).cmp(&(&other.from, other.packet)));
    schedule
}

fn both(
    runner: &mut Runner,
    peer: &mut Peer,
    schedule: &Schedule,
    record: bool,
) -> Result<[Outcome; 2], Error> {
    runner.plain()?;
    peer.begin(schedule, record)?;
    let mine = runner.run(schedule, record)?;
    let interrupt = runner.interrupt.as_ref();
    Ok([mine, peer.came(interrupt)?])
}

fn verdict(outcomes: &[Outcome; 2], rules: &[&'static Rule]) -> Verdict {
    let [one, other] = outcomes.each_ref().map(|outcome| outcome.normal.as_ref());
    match (one, other) {
        (Some(one), Some(other)) => compare(one, other, rules),
        _ => Verdict::Same,
    }
}
