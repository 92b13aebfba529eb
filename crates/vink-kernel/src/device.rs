//! Devices: what moves data between a file of the kernel and a descriptor of the host.
//!
//! What drives the kernel waits for both sides, and lets the device serve whichever has something to
//! do. Reading and writing is the device's; its host knows nothing of what passes.

use std::os::fd::BorrowedFd;
use std::process::Child;

use crate::{Error, Kernel, TaskId};

/// Something to attach to a worker with [`DeviceHost::attach_device`]. Dropped when it ends, or with
/// the worker.
pub trait Device {
    /// The host's side: a descriptor that stays the same and that epoll(7) can wait for.
    fn host(&self) -> BorrowedFd<'_>;

    /// The kernel's side: a task and its descriptor, opened with `O_NONBLOCK`. `None`: the kernel
    /// sees to it by itself.
    fn file(&self) -> Option<(TaskId, i32)>;

    /// Moves what can be moved, without waiting. What is left readable of the file causes no event:
    /// the device is served next when the host's side is ready, or as [`Interest`] says.
    ///
    /// # Errors
    /// Those that end the kernel, and with it the worker.
    fn serve(&mut self, kernel: &mut Kernel) -> Result<Interest, Error>;
}

/// When a device is to be served again, other than when its file becomes readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// When there is something to be read from the host's side.
    Readable,
    /// ... or that can be written to again.
    Writable,
    /// In the worker's next step, which does not wait: there is more, but others come first.
    Unfinished,
    /// Never: it has ended.
    Ended,
}

impl Interest {
    /// What epoll(7) is to wait for on the host's side.
    pub fn events(self) -> u32 {
        match self {
            Interest::Readable | Interest::Unfinished => libc::EPOLLIN as u32,
            Interest::Writable => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
            Interest::Ended => 0,
        }
    }
}

/// Names a device that is attached to a [`DeviceHost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

impl DeviceId {
    /// The device that is this one of its host's.
    pub fn new(index: usize) -> DeviceId {
        DeviceId(index)
    }

    /// Which one of its host's it is.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Where devices are attached to: a worker that supervises programs, or what stands in its place in
/// a program's own process.
pub trait DeviceHost {
    /// The kernel, to configure what the devices are to be attached to.
    fn kernel(&mut self) -> &mut Kernel;

    /// Serves a device from now on, until it ends.
    ///
    /// # Errors
    /// [`Error::Errno`] if one of the sides can't be waited for.
    fn attach_device(&mut self, device: Box<dyn Device>) -> Result<DeviceId, Error>;

    /// Has a child of this process, which has not been waited for, end with this process.
    ///
    /// # Errors
    /// [`Error::Errno`].
    fn guard_helper(&mut self, helper: &Child) -> Result<(), Error>;
}

/// Has the kernel tell, with this cookie, when the device's file has something.
///
/// # Errors
/// [`Error::Errno`]: the file can't be watched.
pub fn watch(kernel: &mut Kernel, device: &dyn Device, cookie: u64) -> Result<(), Error> {
    let Some((task, file)) = device.file() else {
        return Ok(());
    };
    let args = [file as u64, cookie, libc::EPOLLIN as u64, 0, 0, 0];
    let nr = i64::from(vink_abi::VINK_CALL_WATCH);
    match kernel.call(task, nr, args)? {
        0.. => Ok(()),
        failed => Err(Error::Errno {
            what: "watching a device's file",
            errno: -failed as i32,
        }),
    }
}
