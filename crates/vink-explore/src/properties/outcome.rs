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
            if expected.status != 0 || ended.status == 0 {
                continue;
            }
            let why = ended.error.as_deref().or(program.last_line());
            let why = why.unwrap_or("it does not say why");
            let what = format!(
                "{} ended with status {} ({why}); without faults it ends with 0.",
                program.name, ended.status
            );
            let mut violation = self.broken(world, &program.machine, what);
            violation.time = ended.time;
            return Err(violation);
        }
        Ok(())
    }
}
