//! Less of a schedule that still breaks the same property.

use crate::{Error, Fate, Outcome, Runner, Schedule};

impl Runner {
    /// The least schedule that can be had of one that breaks a property, and its run: first fewer
    /// deviations (ddmin; Zeller and Hildebrandt, 2002), then weaker ones.
    ///
    /// # Errors
    /// As of [`Runner::run`].
    pub fn shrink(&mut self, schedule: Schedule, property: &str) -> Result<Schedule, Error> {
        least(schedule, &mut |schedule| self.breaks(schedule, property))
    }

    /// The same schedule with times in the place of what depends on timers, if that breaks the
    /// property, too: so it can be said to a breakpoint.
    ///
    /// # Errors
    /// As of [`Runner::run`].
    pub fn with_times(&mut self, schedule: Schedule, property: &str) -> Result<Schedule, Error> {
        let timed = self.timed(&schedule)?;
        match timed == schedule || self.breaks(&timed, property)? {
            true => Ok(timed),
            false => Ok(schedule),
        }
    }

    /// A schedule with the times that its run has found for what depends on timers.
    ///
    /// # Errors
    /// As of [`Runner::run`].
    pub fn timed(&mut self, schedule: &Schedule) -> Result<Schedule, Error> {
        let mut fates = schedule.iter().map(|deviation| deviation.fate);
        match fates.any(|fate| fate == Fate::Late) {
            true => Ok(self.run(schedule, false)?.timed(schedule)),
            false => Ok(schedule.clone()),
        }
    }

    fn breaks(&mut self, schedule: &Schedule, property: &str) -> Result<bool, Error> {
        let Outcome { violation, .. } = self.run(schedule, false)?;
        Ok(violation.is_some_and(|violation| violation.property == property))
    }
}

impl Outcome {
    /// The schedule of this run, with the times that the run has found for what depends on timers.
    pub fn timed(&self, schedule: &Schedule) -> Schedule {
        /// A packet that is let go behind a timer is a moment later than the timer.
        const MOMENT: u64 = 1_000;
        let mut timed = schedule.clone();
        let late = timed
            .iter_mut()
            .filter(|deviation| deviation.fate == Fate::Late);
        for deviation in late {
            let fault = self
                .faults
                .iter()
                .find(|fault| fault.deviation == *deviation);
            if let Some((time, until)) = fault.and_then(|fault| Some((fault.time, fault.until?))) {
                deviation.fate = Fate::Delay(until - time + MOMENT);
            }
        }
        timed
    }
}

/// The least schedule of which that is still so: fewer deviations, then weaker ones.
pub(crate) fn least(
    schedule: Schedule,
    breaks: &mut dyn FnMut(&Schedule) -> Result<bool, Error>,
) -> Result<Schedule, Error> {
    let mut least = schedule;
    let mut pieces = 2;
    while least.len() > 1 {
        let size = least.len().div_ceil(pieces);
        let mut smaller = None;
        for from in (0..least.len()).step_by(size) {
            let mut rest = least.clone();
            rest.drain(from..(from + size).min(rest.len()));
            if breaks(&rest)? {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
            Some(rest) => {
                least = rest;
                pieces = 2.max(pieces - 1);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(least.len()),
        }
    }
    if least.len() == 1 && breaks(&Vec::new())? {
        least.clear();
    }
    for at in 0..least.len() {
        for weaker in least[at].fate.weaker() {
            let mut other = least.clone();
            other[at].fate = *weaker;
            if breaks(&other)? {
                least = other;
                break;
            }
        }
    }
    Ok(least)
}
