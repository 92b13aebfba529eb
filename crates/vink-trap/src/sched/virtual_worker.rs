//! The way from a worker to what is done by one in virtual time.
//!
//! Code of virtual time is written for a [`VirtualWorker`], which exists only where the clock is
//! virtual: [`Supervisor::virtual_time`] is the one place that looks. A [`Supervisor`] itself has no
//! scheduler to ask.

use std::ops::{Deref, DerefMut};

use super::Clock;
use crate::supervisor::Supervisor;

/// A worker whose clock is virtual.
pub(crate) struct VirtualWorker<'a> {
    /// Its clock is [`Clock::Virtual`].
    pub(super) worker: &'a mut Supervisor,
}

impl Deref for VirtualWorker<'_> {
    type Target = Supervisor;

    fn deref(&self) -> &Supervisor {
        self.worker
    }
}

impl DerefMut for VirtualWorker<'_> {
    fn deref_mut(&mut self) -> &mut Supervisor {
        self.worker
    }
}

impl Supervisor {
    /// The worker as virtual time's code has it; `None` in real time.
    pub(crate) fn virtual_time(&mut self) -> Option<VirtualWorker<'_>> {
        match self.calls.clock {
            Clock::Real => None,
            Clock::Virtual(_) => Some(VirtualWorker { worker: self }),
        }
    }
}
