//! A process for each branch; its parent waits for its end.

use vink_sys::process::exit_now;

use super::copier::{Branches, Copier};
use super::rehearsal::Rehearsal;
use crate::forks::{fork_for_run, Side};
use crate::runner::Runner;
use crate::Error;

/// See the head of the file.
pub(super) struct Fork(Rehearsal);

impl Fork {
    /// Of this process, in which a run is about to begin.
    ///
    /// # Errors
    /// As of [`Rehearsal::of`].
    pub fn new(runner: &mut Runner) -> Result<Fork, Error> {
        Rehearsal::of(runner).map(Fork)
    }
}

impl Copier for Fork {
    fn branch(
        &self,
        _depth: usize,
        count: usize,
        branches: &mut dyn Branches,
    ) -> Result<Option<usize>, Error> {
        for branch in 0..count {
            if !branches.wants(branch) {
                continue;
            }
            match fork_for_run()? {
                Side::Child => {
                    self.0.provide();
                    return Ok(Some(branch));
                }
                Side::Parent(mut forked) => {
                    if let Some(how) = forked.wait() {
                        branches.died(branch, how);
                    }
                }
            }
        }
        Ok(None)
    }

    fn end(&self, _depth: usize) -> ! {
        exit_now(0)
    }
}
