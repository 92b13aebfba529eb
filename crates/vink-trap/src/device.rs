//! Devices that are attached to a worker ([`vink_kernel::Device`]), and when they are served.

use std::os::fd::AsRawFd;
use std::process::Child;

use vink_kernel::{watch, Device, DeviceHost, DeviceId, Interest, Kernel};

use crate::reactor::Token;
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

/// A device and what it waits for.
pub(crate) type Attached = Option<(Box<dyn Device>, Interest)>;

/// Cookies of the devices' watches; files have small ones.
const COOKIES: u64 = 1 << 63;

/// The device that a cookie means, if it is a device's.
pub(crate) fn of_cookie(cookie: u64) -> Option<usize> {
    (cookie & COOKIES != 0).then_some((cookie & !COOKIES) as usize)
}

impl Worker {
    /// Serves a device from now on, until it ends.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2); [`Error::Kernel`], also if the file can't be watched.
    pub fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, Error> {
        let free = self.devices.iter().position(Option::is_none);
        let id = free.unwrap_or(self.devices.len());
        let host = device.host().as_raw_fd();
        self.reactor.add_readable(host, Token::Device(id))?;
        if let Err(error) = watch(&mut self.kernel, &*device, COOKIES | id as u64) {
            self.reactor.remove(device.host().as_raw_fd());
            return Err(error.into());
        }
        let attached = Some((device, Interest::Readable));
        match free {
            Some(id) => self.devices[id] = attached,
            None => self.devices.push(attached),
        }
        self.serve_device(id)?;
        Ok(DeviceId::new(id))
    }

    /// Serves it no more and gives it back; `None` if it has ended. Its file is as it was, and not
    /// watched any more. What is left of its readiness may have another device served once more
    /// than needed.
    pub fn detach_device(&mut self, id: DeviceId) -> Option<Box<dyn Device>> {
        let (device, _) = self.devices.get_mut(id.index())?.take()?;
        self.reactor.remove(device.host().as_raw_fd());
        Some(device)
    }

    /// One of its sides has something.
    pub(crate) fn serve_device(&mut self, id: usize) -> Result<(), Error> {
        let Some((device, before)) = &mut self.devices[id] else {
            return Ok(());
        };
        self.kernel_dirty = true;
        let interest = device.serve(&mut self.kernel)?;
        let before = std::mem::replace(before, interest);
        if interest == Interest::Unfinished {
            self.reactor.handle_again(Token::Device(id));
        }
        if interest == Interest::Ended {
            if let Some((device, _)) = self.devices[id].take() {
                self.reactor.remove(device.host().as_raw_fd());
            }
        } else if interest.events() != before.events() {
            let fd = device.host().as_raw_fd();
            self.reactor
                .replace(fd, interest.events(), Token::Device(id))?;
        }
        Ok(())
    }
}
