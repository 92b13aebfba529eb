//! The kernel complains of nothing: no panic, no warning, no soft lock-up (P2).
//!
//! A panic ends the run by itself; it is told by whatever drives the run, under this name.

use super::{Check, Property};
use crate::World;

/// The name under which a panic is told, too.
pub(crate) const NAME: &str = "panic";

/// See the head of the file.
#[derive(Default)]
pub(super) struct NoPanic;

impl Property for NoPanic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn says(&self) -> &'static str {
        "The kernel does not panic, and warns of nothing in its log."
    }

    fn idle(&mut self, world: &World) -> Check {
        match world.complaints.first() {
            None => Ok(()),
            Some(line) => Err(self.broken(world, "", format!("The kernel's log says: {line}"))),
        }
    }
}
