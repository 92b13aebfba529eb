//! What may be decided about the ports of a machine (`binding`).

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use vink_kernel::{Kernel, MachineId};

/// Decides about the ports of a machine.
pub trait PortPolicy {
    /// A program is about to bind a socket of TCP, or of UDP, to this address, whose port is not 0. An
    /// error number refuses it.
    ///
    /// # Errors
    /// Those that end the kernel.
    fn may_bind(
        &mut self,
        kernel: &mut Kernel,
        address: SocketAddr,
        udp: bool,
    ) -> Result<Result<(), i32>, vink_kernel::Error>;
}

/// One that several may have.
type SharedPolicy = Rc<RefCell<dyn PortPolicy>>;

/// The machines that have one.
#[derive(Default)]
pub(crate) struct Policies(Vec<(MachineId, SharedPolicy)>);

impl Policies {
    /// A machine has this one from now on, or none.
    pub(crate) fn set(&mut self, machine: MachineId, policy: Option<SharedPolicy>) {
        self.0.retain(|(other, _)| *other != machine);
        self.0.extend(policy.map(|policy| (machine, policy)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// That of a machine.
    pub(crate) fn of(&self, machine: MachineId) -> Option<&SharedPolicy> {
        let found = self.0.iter().find(|(its, _)| *its == machine);
        found.map(|(_, policy)| policy)
    }
}
