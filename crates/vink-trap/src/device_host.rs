//! A worker as a host of devices (`device`), for what makes uplinks.

use std::process::Child;

use vink_kernel::{Device, DeviceHost, DeviceId, Kernel};

use crate::worker::Worker;
use crate::Error;

impl DeviceHost for Worker {
    fn kernel(&mut self) -> &mut Kernel {
        Worker::kernel(self)
    }

    fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, vink_kernel::Error> {
        Worker::attach_device(self, device).map_err(of_host)
    }

    fn guard_helper(&mut self, helper: &Child) -> Result<(), vink_kernel::Error> {
        Worker::guard_helper(self, helper).map_err(of_host)
    }
}

/// An error as any host of devices has it.
fn of_host(error: Error) -> vink_kernel::Error {
    match error {
        Error::Kernel(error) => error,
        Error::System { what, errno } => vink_kernel::Error::Errno { what, errno },
        _ => vink_kernel::Error::Errno {
            what: "attaching a device",
            errno: libc::EINVAL,
        },
    }
}

impl Worker {
    /// Serves a device from now on, until it ends.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2); [`Error::Kernel`], also if the file can't be watched.
    pub fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, Error> {
        self.supervisor.calls.tasks.kernel.dirty = true;
        let place = (
            &mut *self.supervisor.calls.tasks.kernel,
            &mut self.supervisor.calls.reactor,
        );
        self.supervisor.devices.attach(place, device)
    }

    /// Serves it no more and gives it back; `None` if it has ended. Its file is as it was, and not
    /// watched any more. What is left of its readiness may have another device served once more
    /// than needed.
    pub fn detach_device(&mut self, id: DeviceId) -> Option<Box<dyn Device>> {
        self.supervisor
            .devices
            .detach(&self.supervisor.calls.reactor, id)
    }
}
