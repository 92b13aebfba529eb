//! Attached devices: what moves data between a file of the kernel and a descriptor of the host.
//!
//! The worker waits for both sides, and lets the device serve whichever has something to do. Reading
//! and writing is the device's; the worker knows nothing of what passes.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::Child;

use vink_kernel::{Kernel, TaskId};

use crate::worker::{Worker, DEVICE};
use crate::Error;

/// Something to attach to a worker with [`Worker::attach_device`]. Dropped when it ends, or with the
/// worker.
pub trait Device {
    /// The host's side: a descriptor that stays the same and that epoll(7) can wait for.
    fn host(&self) -> BorrowedFd<'_>;

    /// The kernel's side: a task and its descriptor, opened with `O_NONBLOCK`. `None`: the kernel sees to it by itself.
    fn file(&self) -> Option<(TaskId, i32)>;

    /// Moves what can be moved, without waiting. What is left readable of the file is not told again: the
    /// device is served next when the host's side is ready, or as [`Wants`] says.
    ///
    /// # Errors
    /// Those that end the kernel, and with it the worker.
    fn serve(&mut self, kernel: &mut Kernel) -> Result<Wants, vink_kernel::Error>;
}

/// When a device is to be served again, other than when its file becomes readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// When there is something to be read from the host's side.
    Input,
    /// ... or that can be written to again.
    Room,
    /// In the worker's next step, which does not wait: there is more, but it is the others' turn.
    Again,
    /// Never: it has ended.
    Nothing,
}

impl Wants {
    fn events(self) -> u32 {
        match self {
            Wants::Input | Wants::Again => libc::EPOLLIN as u32,
            Wants::Room => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
            Wants::Nothing => 0,
        }
    }
}

/// Names a device that is attached to a [`Worker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

impl DeviceId {
    /// For a [`Site`] that is no worker.
    pub fn new(index: usize) -> DeviceId {
        DeviceId(index)
    }
}

/// Where devices are attached to: a worker, or what stands in its place in a program's own process.
pub trait Site {
    /// The kernel, to configure what the devices are to be attached to.
    fn kernel(&mut self) -> &mut Kernel;

    /// Serves a device from now on, until it ends.
    ///
    /// # Errors
    /// [`Error::System`] if the host's side can't be waited for; [`Error::Kernel`], also if the file can't be watched.
    fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, Error>;

    /// Has a child of this process, which has not been waited for, end with this process.
    ///
    /// # Errors
    /// [`Error::System`].
    fn take_along(&mut self, helper: &Child) -> Result<(), Error>;
}

impl Site for Worker {
    fn kernel(&mut self) -> &mut Kernel {
        Worker::kernel(self)
    }

    fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, Error> {
        Worker::attach_device(self, device)
    }

    fn take_along(&mut self, helper: &Child) -> Result<(), Error> {
        Worker::take_along(self, helper)
    }
}

/// A device and what it wants.
pub(crate) type Attached = Option<(Box<dyn Device>, Wants)>;

/// Cookies of the devices' watches; files have small ones.
const COOKIES: u64 = 1 << 63;

/// The device that a cookie means, if it is a device's.
pub(crate) fn of_cookie(cookie: u64) -> Option<usize> {
    (cookie & COOKIES != 0).then_some((cookie & !COOKIES) as usize)
}

/// Has the kernel tell, with this cookie, when the device's file has something.
///
/// # Errors
/// [`Error::Kernel`]: the file can't be watched.
pub fn watch(kernel: &mut Kernel, device: &dyn Device, cookie: u64) -> Result<(), Error> {
    let Some((task, file)) = device.file() else {
        return Ok(());
    };
    let args = [file as u64, cookie, libc::EPOLLIN as u64, 0, 0, 0];
    let nr = i64::from(vink_abi::VINK_CALL_WATCH);
    match kernel.call(task, nr, args)? {
        0.. => Ok(()),
        failed => Err(Error::Kernel(vink_kernel::Error::Errno {
            what: "watching a device's file",
            errno: -failed as i32,
        })),
    }
}

impl Worker {
    /// Serves a device from now on, until it ends.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2); [`Error::Kernel`], also if the file can't be watched.
    pub fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, Error> {
        let free = self.devices.iter().position(Option::is_none);
        let id = free.unwrap_or(self.devices.len());
        let tag = DEVICE | id as u64;
        self.attend(device.host(), tag)?;
        if let Err(error) = watch(&mut self.kernel, &*device, COOKIES | id as u64) {
            self.ignore(device.host());
            return Err(error);
        }
        let attached = Some((device, Wants::Input));
        match free {
            Some(id) => self.devices[id] = attached,
            None => self.devices.push(attached),
        }
        self.serve_device(id)?;
        Ok(DeviceId(id))
    }

    /// Serves it no more and gives it back; `None` if it has ended. Its file is as it was: nobody looks at it
    /// any more. What is left of its readiness may have another device served once more than needed.
    pub fn detach_device(&mut self, id: DeviceId) -> Option<Box<dyn Device>> {
        let (device, _) = self.devices.get_mut(id.0)?.take()?;
        self.ignore(device.host());
        Some(device)
    }

    /// One of its sides has something.
    pub(crate) fn serve_device(&mut self, id: usize) -> Result<(), Error> {
        let Some((device, wanted)) = &mut self.devices[id] else {
            return Ok(());
        };
        self.stirred = true;
        let wants = device.serve(&mut self.kernel)?;
        let wanted = std::mem::replace(wanted, wants);
        if wants == Wants::Again && !self.again.contains(&id) {
            self.again.push(id);
        }
        if wants == Wants::Nothing {
            if let Some((device, _)) = self.devices[id].take() {
                self.ignore(device.host());
            }
        } else if wants.events() != wanted.events() {
            let fd = device.host().as_raw_fd();
            self.neglect(fd);
            self.attend_to_events(fd, wants.events(), DEVICE | id as u64)?;
        }
        Ok(())
    }
}
