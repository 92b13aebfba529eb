//! What succeeds without faults succeeds with them (P13): an app's exit status is its own assertion.

use super::{Check, Property};
use crate::{Ending, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Outcome;

impl Property for Outcome {
    fn name(&self) -> &'static str {
        "outcome"
    }

    fn says(&self) -> &'static str {
        "A program that ends with status 0 without faults does so with them."
    }

    fn end(&mut self, world: &World, _: &Ending) -> Check {
        for (program, expected) in world.programs.iter().zip(&world.expected) {
            let (Some(ended), Some(expected)) = (&program.ended, expected) else {
                continue;
            };
            let Some(failure) = program.failure().filter(|_| expected.status == 0) else {
                continue;
            };
            let what = format!(
                "{} ended with {failure}; without faults it ends with 0.",
                program.name
            );
            let mut violation = self.broken(world, &program.machine, what);
            violation.time = ended.time;
            return Err(violation);
        }
        Ok(())
    }
}
