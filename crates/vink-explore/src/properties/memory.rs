//! TCP gives back all memory that it has charged, and its sockets end (P12): when all programs have
//! ended and no connection is left, there is none (Linux's `tcp_mem`, ip-sysctl; RFC 9293, 3.10.8).
//!
//! What is charged and not given back makes memory short for connections to come.

use super::{Check, Property};
use crate::{Ending, World};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Memory;

impl Property for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn says(&self) -> &'static str {
        "When all programs and connections have ended, TCP has no memory and no sockets."
    }

    fn end(&mut self, world: &World, _: &Ending) -> Check {
        let has_ended = world.programs.iter().all(|program| program.ended.is_some());
        let Some(memory) = world.memory.as_ref().filter(|_| has_ended) else {
            return Ok(());
        };
        if !world.connections().is_empty() {
            return Ok(());
        }
        match memory.tcp_held() {
            Ok((pages, sockets)) if (pages, sockets) != (0, 0) => {
                let what = format!(
                    "All programs and connections have ended, and TCP has {pages} pages and {sockets} sockets."
                );
                Err(self.broken(world, "", what))
            }
            _ => Ok(()),
        }
    }
}
