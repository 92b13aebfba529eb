//! The kernel as a worker drives it: when it must run, and calls of the worker's own.

use std::ffi::CStr;
use std::ops::{Deref, DerefMut};

use vink_kernel::{Call, Kernel, TaskId};

use crate::error::to_errno_result;
use crate::Error;

/// Descriptors that a process may have in the kernel; the host's limit is the one that counts.
const NOFILE: libc::rlimit64 = libc::rlimit64 {
    rlim_cur: 1 << 20,
    rlim_max: 1 << 20,
};
/// More than any file of the kernel's own holds; a file that does not end is cut off.
const MAX_FILE: usize = 64 << 20;
/// Bytes that are read at once.
pub(crate) const CHUNK: usize = 64 << 10;
/// Devices that give random numbers.
pub(crate) const RANDOM: [&CStr; 2] = [c"/dev/random", c"/dev/urandom"];
/// See random(4).
const RANDOM_NUMBERS: [libc::dev_t; 2] = [libc::makedev(1, 8), libc::makedev(1, 9)];

/// A kernel, and when it must run.
pub(crate) struct KernelRunner {
    kernel: Kernel,
    /// Something was started in it: it must run before the worker may wait.
    pub(crate) dirty: bool,
    /// Its next timer.
    pub(crate) deadline: Option<u64>,
    /// How often it has run.
    runs: u64,
}

impl Deref for KernelRunner {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

impl DerefMut for KernelRunner {
    fn deref_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }
}

impl KernelRunner {
    pub(crate) fn new(kernel: Kernel) -> KernelRunner {
        KernelRunner {
            kernel,
            dirty: true,
            deadline: None,
            runs: 0,
        }
    }

    /// If anything was started, runs the kernel until it is idle. Whether it has.
    pub(crate) fn run_if_dirty(&mut self) -> Result<bool, Error> {
        let runs = std::mem::take(&mut self.dirty);
        if runs {
            self.deadline = self.kernel.settle()?;
            self.runs += 1;
        }
        Ok(runs)
    }

    /// How often it has run until it was idle. As long as this stays the same, so does what is true of its
    /// files.
    pub(crate) fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether the time of its next timer has come.
    pub(crate) fn is_due(&self) -> bool {
        self.deadline.is_some_and(|at| at <= self.kernel.now())
    }

    /// A call of the worker's own, that ends by itself, on a task that has none in progress.
    pub(crate) fn run_call(&mut self, task: TaskId, nr: i64, args: [u64; 6]) -> Result<i64, Error> {
        let call = Call {
            nr,
            args,
            ..Call::default()
        };
        self.run_call_of(task, &call)
    }

    /// The same for a call whose pointers may be into a program's memory.
    pub(crate) fn run_call_of(&mut self, task: TaskId, call: &Call) -> Result<i64, Error> {
        self.dirty = true;
        match self.kernel.complete(task, call) {
            Ok(result) => Ok(result),
            Err(error) => to_errno_result(error),
        }
    }

    /// Cancels a task's call. It may be done, and `Event::Done` on its way.
    pub(crate) fn cancel_call(&mut self, task: TaskId) {
        let _ = self.kernel.cancel(task);
        self.dirty = true;
    }

    pub(crate) fn end_task(&mut self, task: TaskId, group: bool) {
        // Only fails for a task that is gone.
        let _ = self.kernel.exit_task(task, 0, group);
        self.dirty = true;
    }

    /// Lets a task's process have as many descriptors as it likes.
    pub(crate) fn raise_nofile(&mut self, task: TaskId) -> Result<(), vink_kernel::Error> {
        let limit = NOFILE;
        let address = &raw const limit as u64;
        let args = [0, libc::RLIMIT_NOFILE.into(), address, 0, 0, 0];
        self.kernel.call(task, libc::SYS_prlimit64, args).map(drop)
    }

    /// A descriptor, in the task's table, of what another process of the kernel has open.
    pub(crate) fn copy_from(
        &mut self,
        task: TaskId,
        pid: i64,
        number: i32,
    ) -> Result<i64, vink_kernel::Error> {
        self.dirty = true;
        let args = [pid as u64, 0, 0, 0, 0, 0];
        let pidfd = self.kernel.call(task, libc::SYS_pidfd_open, args)?;
        if pidfd < 0 {
            return Ok(pidfd);
        }
        let pidfd = pidfd as u64;
        let args = [pidfd, number as u64, 0, 0, 0, 0];
        let copied = self.kernel.call(task, libc::SYS_pidfd_getfd, args)?;
        let args = [pidfd, 0, 0, 0, 0, 0];
        self.kernel.call(task, libc::SYS_close, args)?;
        Ok(copied)
    }

    /// All that can be read of a file of the kernel's, or the error if that is nothing.
    pub(crate) fn read_file(
        &mut self,
        task: TaskId,
        number: i32,
    ) -> Result<Result<Vec<u8>, i64>, Error> {
        let mut contents = Vec::new();
        loop {
            let old = contents.len();
            contents.resize(old + CHUNK, 0);
            let into = contents[old..].as_mut_ptr() as u64;
            let args = [number as u64, into, CHUNK as u64, old as u64, 0, 0];
            let got = self.run_call(task, libc::SYS_pread64, args)?;
            contents.truncate(old + usize::try_from(got).unwrap_or(0));
            if got < 0 && contents.is_empty() {
                return Ok(Err(got));
            }
            if got <= 0 || contents.len() > MAX_FILE {
                return Ok(Ok(contents));
            }
        }
    }

    /// Whether the kernel has this file.
    pub(crate) fn has_file(&mut self, task: TaskId, path: &CStr) -> Result<bool, Error> {
        let args = [path.as_ptr() as u64, libc::F_OK as u64, 0, 0, 0, 0];
        Ok(self.run_call(task, libc::SYS_access, args)? == 0)
    }

    /// The protocol of a socket of the internet's (`IPPROTO_*`); `None` for what is no such socket.
    pub(crate) fn internet_protocol(
        &mut self,
        task: TaskId,
        number: i32,
    ) -> Result<Option<i32>, Error> {
        let mut option = |name: i32| -> Result<i32, Error> {
            let (mut value, mut len) = (-1i32, size_of::<i32>() as libc::socklen_t);
            let at = [(&raw mut value) as u64, (&raw mut len) as u64];
            let level = libc::SOL_SOCKET as u64;
            let args = [number as u64, level, name as u64, at[0], at[1], 0];
            let result = self.run_call(task, libc::SYS_getsockopt, args)?;
            Ok(if result < 0 { -1 } else { value })
        };
        let of_internet = matches!(option(libc::SO_DOMAIN)?, libc::AF_INET | libc::AF_INET6);
        Ok(match of_internet {
            true => Some(option(libc::SO_PROTOCOL)?),
            false => None,
        })
    }

    /// Sees to it that the kernel has the devices that give random numbers.
    pub(crate) fn make_random_devices(&mut self, task: TaskId) -> Result<(), Error> {
        for (path, number) in RANDOM.iter().zip(RANDOM_NUMBERS) {
            let kind = u64::from(libc::S_IFCHR | 0o666);
            let args = [path.as_ptr() as u64, kind, number, 0, 0, 0];
            // It may have them.
            self.run_call(task, libc::SYS_mknod, args)?;
        }
        Ok(())
    }

    /// Lets the task see its machine's sysfs. A sysfs shows the network namespace that it was
    /// mounted in, and the one that all tasks begin with was mounted at boot.
    pub(crate) fn mount_sysfs(&mut self, task: TaskId) -> Result<(), Error> {
        let (name, place) = (c"sysfs".as_ptr() as u64, c"/sys".as_ptr() as u64);
        let flags = libc::CLONE_NEWNS as u64;
        self.run_call(task, libc::SYS_unshare, [flags, 0, 0, 0, 0, 0])?;
        self.run_call(task, libc::SYS_mount, [name, place, name, 0, 0, 0])?;
        Ok(())
    }
}
