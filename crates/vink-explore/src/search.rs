//! Tries all schedules of up to so many deviations, the fewer first, by an engine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::engine::copier::CopierKind;
use crate::engine::{End, Level};
use crate::forks::Claims;
use crate::runner::Runner;
use crate::saved::{Saved, Saver};
use crate::{Error, Fate, Schedule, Violation};

/// What is searched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// Deviations at most.
    pub deviations: usize,
    /// Processes at a time.
    pub jobs: usize,
    /// The host's time after which it ends; `None`: when all is tried.
    pub budget: Option<Duration>,
    /// Goes on when a property is broken, until all is tried.
    pub keep_going: bool,
    /// What becomes of packets.
    pub fates: Vec<Fate>,
    /// How runs branch.
    pub copier: CopierKind,
    /// A folder in which it is written down how far it is, to go on there; what is there already is not tried again.
    pub resume: Option<PathBuf>,
}

/// A schedule that breaks a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The schedule.
    pub schedule: Schedule,
    /// What it breaks.
    pub violation: Violation,
}

/// A run of a search that is compared with one of another image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// Its place among all of the level, by its first deviation.
    pub first: usize,
    /// Its schedule.
    pub schedule: Schedule,
    /// Of what is compared.
    pub digest: String,
}

/// All runs of so many deviations, or what the budget allowed of them.
pub(crate) struct Tried {
    /// How many.
    pub deviations: usize,
    /// The runs, if they are compared.
    pub ran: Vec<Ran>,
    /// There are none with one more.
    pub is_over: bool,
}

/// How far a search is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// How many deviations the schedules have that are tried now.
    pub deviations: usize,
    /// Runs so far.
    pub runs: u64,
    /// About how many there will be with so many deviations.
    pub expected: u64,
    /// Since its begin.
    pub time: Duration,
}

/// What has come of a search.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// The first schedule that was found to break each property, by the property's name.
    pub found: BTreeMap<String, Found>,
    /// Runs, those of an earlier process included.
    pub runs: u64,
    /// Packets in them.
    pub packets: u64,
    /// Runs of the process that this one has gone on behind.
    pub resumed: u64,
    /// By the host's clock.
    pub time: Duration,
    /// The number of deviations of which all schedules were tried; `None`: not even of none.
    pub complete: Option<usize>,
    /// The descriptor that it was told to look at has become readable.
    pub interrupted: bool,
}

/// Searches. `progress` is called a few times a second. `interrupt` ends it by becoming readable.
///
/// # Errors
/// As of [`Runner::plain`], and of fork(2).
pub fn search(
    runner: &mut Runner,
    wanted: &Wanted,
    interrupt: Option<&OwnedFd>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Searched, Error> {
    search_and(runner, wanted, interrupt, progress, &mut |_, _| Ok(true))
}

/// The same, and hears of all runs of so many deviations before there are runs of one more; `false` ends it.
pub(crate) fn search_and(
    runner: &mut Runner,
    wanted: &Wanted,
    interrupt: Option<&OwnedFd>,
    progress: &mut dyn FnMut(Progress),
    tried: &mut dyn FnMut(&mut Runner, Tried) -> Result<bool, Error>,
) -> Result<Searched, Error> {
    let begin = Instant::now();
    let claims = Claims::new()?;
    let plain = runner.plain()?.clone();
    let saver = match &wanted.resume {
        Some(_) if runner.has_trapped() => {
            return Err(Error::Lab(
                "a search of a lab with programs of the host can't be resumed: leave --resume out"
                    .to_owned(),
            ));
        }
        Some(folder) => Some(Saver::open(folder, runner)?),
        None => None,
    };
    let saved = saver.as_ref().map(Saver::saved).unwrap_or_default();
    let Saved { runs, packets, .. } = saved;
    let (runs_here, packets_here) = match runs {
        0 => (1, plain.packets),
        _ => (0, 0),
    };
    claims.runs.store(runs + runs_here, Ordering::Relaxed);
    let packets = packets + packets_here;
    claims.packets.store(packets, Ordering::Relaxed);
    let mut searched = Searched {
        found: saved.found,
        runs: 0,
        packets: 0,
        resumed: runs,
        time: Duration::ZERO,
        complete: Some(saved.complete.min(wanted.deviations)),
        interrupted: false,
    };
    if let Some(violation) = plain.violation.clone() {
        let name = violation.property.clone();
        let schedule = Vec::new();
        searched.found.insert(
            name,
            Found {
                schedule,
                violation,
            },
        );
    }
    let points: u64 = plain
        .searched
        .iter()
        .map(|(_, count)| u64::from(*count))
        .sum();
    let per_point = wanted.fates.len() as u64;
    let mut engine = runner.engine(wanted.copier);
    let mut expected = 1;
    let mut ran = Vec::new();
    if runner.compares.is_some() {
        // Once more: by now it is known which programs end, and so when a run is over.
        let schedule = Schedule::new();
        if let Some(normal) = runner.run(&schedule, false)?.normal {
            ran.push(Ran {
                first: 0,
                schedule,
                digest: normal.digest(),
            });
        }
    }
    let without = Tried {
        deviations: 0,
        ran,
        is_over: wanted.deviations == 0,
    };
    let mut goes_on = tried(runner, without)?;
    for deviations in 1..=wanted.deviations {
        // The number of subsets of so many packets, and the fates of each.
        let left = (points + 1).saturating_sub(deviations as u64);
        expected = expected * left * per_point / deviations as u64;
        if !goes_on {
            break;
        }
        if deviations <= saved.complete {
            continue;
        }
        let mut found = searched.found.values();
        if !wanted.keep_going && found.any(|found| found.schedule.len() < deviations) {
            break;
        }
        let before = claims.runs.load(Ordering::Relaxed);
        claims.clear();
        if deviations == saved.complete + 1 {
            claims.restore(&saved.done);
        }
        let level = Level {
            claims,
            deviations,
            wanted,
            interrupt,
            saver: saver.as_ref(),
            deadline: wanted.budget.map(|budget| begin + budget),
            ran: RefCell::default(),
        };
        let mut tell = || {
            let runs = claims.runs.load(Ordering::Relaxed);
            progress(Progress {
                deviations,
                runs,
                expected: before + expected,
                time: begin.elapsed(),
            });
        };
        let end = engine.try_all(runner, &level, &mut searched.found, &mut tell)?;
        if let End::Complete | End::Budget = end {
            let ran = level.ran.into_inner();
            let is_over = end == End::Budget || deviations == wanted.deviations;
            let all = Tried {
                deviations,
                ran,
                is_over,
            };
            goes_on = tried(runner, all)?;
        }
        match end {
            End::Complete => {
                searched.complete = Some(deviations);
                if let Some(saver) = &saver {
                    saver.completed(deviations, claims, &searched.found)?;
                }
            }
            End::Found => break,
            End::Budget => break,
            End::Interrupted => {
                searched.interrupted = true;
                break;
            }
        }
    }
    searched.runs = claims.runs.load(Ordering::Relaxed);
    searched.packets = claims.packets.load(Ordering::Relaxed);
    searched.time = begin.elapsed();
    Ok(searched)
}
