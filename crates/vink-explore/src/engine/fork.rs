//! A process for each branch; its parent waits for its end.

use vink_sys::process::exit_now;

use super::copier::{Branches, Copier};
use crate::forks::{fork, wait, Side};
use crate::Error;

/// See the head of the file.
pub(super) struct Fork;

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
            match fork()? {
                Side::Child => return Ok(Some(branch)),
                Side::Parent(pid) => {
                    if let Some(how) = wait(pid) {
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
