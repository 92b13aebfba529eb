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

/// The machines that have one.
pub(crate) type Policies = Vec<(MachineId, Rc<RefCell<dyn PortPolicy>>)>;
