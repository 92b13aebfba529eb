//! Engines: how all schedules of so many deviations are tried.
//!
//! `search` counts the deviations, and says when it is over. An engine knows how a run with another
//! schedule is come by: `tree` has runs branch at packets, by copies of the process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::forks::Claims;
use crate::runner::Runner;
use crate::saved::Saver;
use crate::search::{Found, Ran, Wanted};
use crate::Error;

pub(crate) mod copier;
mod folios;
mod fork;
mod guards;
mod heap;
mod huge;
mod pagemap;
mod pages;
mod rehearsal;
pub(crate) mod rerun;
mod smaps;
pub(crate) mod tree;

/// See the head of the file.
pub(crate) trait Engine {
    /// Its name, as users know it.
    fn name(&self) -> &'static str;

    /// Tries all schedules of so many deviations, and puts what they break into `found`. `tell` is called a few
    /// times a second.
    ///
    /// # Errors
    /// The lab can't be run, or a process of the search is gone.
    fn try_all(
        &mut self,
        runner: &mut Runner,
        level: &Level<'_>,
        found: &mut BTreeMap<String, Found>,
        tell: &mut dyn FnMut(),
    ) -> Result<End, Error>;
}

/// What is tried: all schedules of so many deviations.
pub(crate) struct Level<'a> {
    /// What the processes of the search share, and count runs in.
    pub claims: &'static Claims,
    /// How many.
    pub deviations: usize,
    pub wanted: &'a Wanted,
    /// Ends the search by becoming readable.
    pub interrupt: Option<&'a OwnedFd>,
    /// Where it is written down how far it is.
    pub saver: Option<&'a Saver>,
    /// When the budget is used up.
    pub deadline: Option<Instant>,
    /// What has come of each run, if that is compared with another image.
    pub ran: RefCell<Vec<Ran>>,
}

/// Why a level has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All schedules were tried.
    Complete,
    /// One breaks a property, and that is enough.
    Found,
    /// The budget is used up.
    Budget,
    /// The search was interrupted.
    Interrupted,
}
