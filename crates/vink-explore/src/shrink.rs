//! Less of a schedule that still breaks the same property.

use crate::{Error, Fate, Outcome, Runner, Schedule};

impl Runner {
    /// The least schedule that can be had of one that breaks a property, and its run: first fewer
    /// deviations (ddmin; Zeller and Hildebrandt, 2002), then weaker ones.
    ///
    /// # Errors
    /// As of [`Runner::run`].
    pub fn shrink(&mut self, schedule: Schedule, property: &str) -> Result<Schedule, Error> {
        let mut least = schedule;
        let mut pieces = 2;
        while least.len() > 1 {
            let size = least.len().div_ceil(pieces);
            let mut smaller = None;
            for from in (0..least.len()).step_by(size) {
                let mut rest = least.clone();
                rest.drain(from..(from + size).min(rest.len()));
                if self.breaks(&rest, property)? {
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
        if least.len() == 1 && self.breaks(&Vec::new(), property)? {
            least.clear();
        }
        for at in 0..least.len() {
            for weaker in least[at].fate.weaker() {
                let mut other = least.clone();
                other[at].fate = *weaker;
                if self.breaks(&other, property)? {
                    least = other;
                    break;
                }
            }
        }
        Ok(least)
    }

    /// The same schedule with times in the place of what depends on timers, if that breaks the
    /// property, too: so it can be said to a breakpoint.
    ///
    /// # Errors
    /// As of [`Runner::run`].
    pub fn with_times(&mut self, schedule: Schedule, property: &str) -> Result<Schedule, Error> {
        /// A packet that is let go behind a timer is a moment later than the timer.
        const MOMENT: u64 = 1_000;
        if !schedule
            .iter()
            .any(|deviation| deviation.fate == Fate::Late)
        {
            return Ok(schedule);
        }
        let Outcome { faults, .. } = self.run(&schedule, false)?;
        let timed = faults.into_iter().map(|fault| {
            let mut deviation = fault.deviation;
            if let (Fate::Late, Some(until)) = (deviation.fate, fault.until) {
                deviation.fate = Fate::Delay(until - fault.time + MOMENT);
            }
            deviation
        });
        let timed: Schedule = timed.collect();
        match self.breaks(&timed, property)? {
            true => Ok(timed),
            false => Ok(schedule),
        }
    }

    fn breaks(&mut self, schedule: &Schedule, property: &str) -> Result<bool, Error> {
        let Outcome { violation, .. } = self.run(schedule, false)?;
        Ok(violation.is_some_and(|violation| violation.property == property))
    }
}
