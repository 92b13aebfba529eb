//! A kernel that fork(2) copies with its process.
//!
//! All that a kernel is lies in its process's private memory: the arena, the image's data, fibers'
//! stacks, the calls. So the child has a kernel that goes on from there, and the two know nothing of
//! each other, as long as nothing else is shared: no ring of another process, and no call whose
//! pointers lead into another process's memory.

use crate::fiber::keep_stacks;
use crate::slot::{Slot, State};
use crate::{Error, Kernel};

/// For how many fibers a kernel that is copied has stacks.
const FIBERS: usize = 32;

impl Kernel {
    /// From now on a fork(2) of the process copies this kernel, which it does not by default. The
    /// child has to have the thread that forks only, and the caller sees to what else it shares:
    /// descriptors of its own. The kernel maps and unmaps nothing from then on, while there are no more
    /// than 32 more fibers: so its pages may be copied and copied back, too.
    ///
    /// # Errors
    /// [`Error::Errno`]: mmap(2) refused. [`Error::Shared`]: a packet ring, a wire to another process, or a call of a program.
    pub fn give_to_forks(&mut self) -> Result<(), Error> {
        let calls = self.tasks.values().any(|slot| match slot {
            Slot::Remote(remote) => remote.state() == State::Running,
            Slot::Fiber(_) => false,
        });
        let hindrances = [
            (
                !self.rings.is_empty(),
                "a packet socket's ring, which a program has mapped",
            ),
            (
                !self.host.shares.borrow().is_empty(),
                "a wire to another process",
            ),
            (calls, "a program's system call that is in progress"),
        ];
        match hindrances.iter().find(|(is_there, _)| *is_there) {
            Some((_, what)) => Err(Error::Shared { what }),
            None => {
                self.host.arena.give_to_forks();
                keep_stacks(FIBERS)
            }
        }
    }
}
