//! Less of a schedule that still breaks the same property.

use crate::{Error, Outcome, Runner, Schedule};

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

    fn breaks(&mut self, schedule: &Schedule, property: &str) -> Result<bool, Error> {
        let Outcome { violation, .. } = self.run(schedule, false)?;
        Ok(violation.is_some_and(|violation| violation.property == property))
    }
}
