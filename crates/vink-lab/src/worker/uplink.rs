//! Wires to the outside.

use vink_kernel::EndId;

use super::lab::{refused, Descriptors, Lab, Trouble};
use super::protocol::{Answer, Outside};

/// A wire's end outside.
pub(super) struct Joined {
    pub(super) end: EndId,
}

impl Joined {
    /// What is wrong with it.
    pub(super) fn error(&self) -> Option<String> {
        None
    }
}

impl Lab {
    pub(super) fn uplink(
        &mut self,
        wire: &str,
        _outside: Outside,
        _descriptors: &mut Descriptors,
    ) -> Result<Answer, Trouble> {
        self.wire(wire)?;
        Err(refused(format!(
            "wire {wire}: this version joins no wire to the outside"
        )))
    }

    pub(super) fn remove_uplink(&mut self, wire: &str) -> Result<(), Trouble> {
        self.wire(wire)?;
        Err(refused(format!("wire {wire}: it has no uplink")))
    }
}
