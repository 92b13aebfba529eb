//! Devices that are attached to a worker ([`vink_kernel::Device`]), and when they are served.

use std::os::fd::AsRawFd;

use vink_kernel::{watch, Device, DeviceId, Interest, Kernel};

use crate::reactor::{Reactor, Token};
use crate::Error;

/// A device and what it waits for.
type Attached = Option<(Box<dyn Device>, Interest)>;

/// Cookies of the devices' watches; files have small ones.
const COOKIES: u64 = 1 << 63;

/// The device that a cookie means, if it is a device's.
pub(crate) fn of_cookie(cookie: u64) -> Option<usize> {
    (cookie & COOKIES != 0).then_some((cookie & !COOKIES) as usize)
}

/// All devices of a worker, and those whose side in the kernel has something.
#[derive(Default)]
pub(crate) struct Devices {
    all: Vec<Attached>,
}

/// What serves them: the kernel, and what waits for the host's side.
type Place<'a> = (&'a mut Kernel, &'a mut Reactor);

impl Devices {
    /// Serves a device from now on, until it ends.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2); [`Error::Kernel`], also if the file can't be watched.
    pub(crate) fn attach(
        &mut self,
        (kernel, reactor): Place<'_>,
        device: Box<dyn Device>,
    ) -> Result<DeviceId, Error> {
        let free = self.all.iter().position(Option::is_none);
        let id = free.unwrap_or(self.all.len());
        let host = device.host().as_raw_fd();
        reactor.add_readable(host, Token::Device(id))?;
        if let Err(error) = watch(kernel, &*device, COOKIES | id as u64) {
            reactor.remove(device.host().as_raw_fd());
            return Err(error.into());
        }
        let attached = Some((device, Interest::Readable));
        match free {
            Some(id) => self.all[id] = attached,
            None => self.all.push(attached),
        }
        self.serve((kernel, reactor), id)?;
        Ok(DeviceId::new(id))
    }

    /// Serves it no more and gives it back; `None` if it has ended.
    pub(crate) fn detach(&mut self, reactor: &Reactor, id: DeviceId) -> Option<Box<dyn Device>> {
        let (device, _) = self.all.get_mut(id.index())?.take()?;
        reactor.remove(device.host().as_raw_fd());
        Some(device)
    }

    /// One of its sides has something.
    pub(crate) fn serve(&mut self, (kernel, reactor): Place<'_>, id: usize) -> Result<(), Error> {
        let Some((device, before)) = &mut self.all[id] else {
            return Ok(());
        };
        let interest = device.serve(kernel)?;
        let before = std::mem::replace(before, interest);
        if interest == Interest::Unfinished {
            reactor.handle_again(Token::Device(id));
        }
        if interest == Interest::Ended {
            if let Some((device, _)) = self.all[id].take() {
                reactor.remove(device.host().as_raw_fd());
            }
        } else if interest.events() != before.events() {
            let fd = device.host().as_raw_fd();
            reactor.replace(fd, interest.events(), Token::Device(id))?;
        }
        Ok(())
    }
}
