//! A machine's PID namespace: its programs can't name, and so not signal, a process outside of it;
//! their numbers are the same in each run; none of them outlives the worker.
//!
//! A process can't enter a PID namespace, only its children are born in one. So what is forked to
//! become a program forks once more, as a sibling (`CLONE_PARENT`): the program still is the
//! worker's child. The first process of a namespace, number 1, does nothing but inherit orphans.
//! The worker kills it when the machine ends, and the host's kernel if the worker is killed; all
//! others in the namespace die with it.

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use vink_sys::pidfd::{self, send_signal};
use vink_sys::poll::is_readable;
use vink_sys::process::exit_now;
use vink_sys::procfs::StatFields;
use vink_sys::rustix::event::pause;
use vink_sys::rustix::process::{set_parent_process_death_signal, setsid, Signal};
use vink_sys::rustix::thread::set_name;
use vink_sys::signals::{mask, Action, Mask, SignalSet};

use crate::status::{reap, wait_for_end};
use crate::tracee::STALL_TIMEOUT;
use crate::Error;

/// pidfd_open(2).
pub(crate) fn open_pidfd(pid: i32) -> Result<OwnedFd, Error> {
    pidfd::open(pid).map_err(Error::of("pidfd_open()"))
}

/// Whether the process is dead (it may be a zombie). Async-signal-safe.
pub(crate) fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    is_readable(pidfd, 0)
}

/// What was made, by the worker's numbers; 0: nothing. In memory that all have.
#[derive(Default)]
pub(crate) struct CloneResult {
    pub(crate) first: AtomicI32,
    pub(crate) program: AtomicI32,
}

/// Returns in a new process, in the pid namespace that the calling one has made or entered for its
/// children. The calling one ends. `first`: that namespace is new. Async-signal-safe, as in
/// `spawn`.
pub(crate) fn fork_into_pidns(
    born: &CloneResult,
    first: bool,
    arguments: Range<usize>,
    worker: BorrowedFd<'_>,
) -> io::Result<()> {
    if first {
        // Tools find it by this name, from its beginning.
        let _ = set_name(c"vink-init");
        // Orphans are gone at their deaths, though the process that inherits them had no processor
        // so far: it is born like this. They would be dead and there for ever.
        let before = Action::IGNORE.set(libc::SIGCHLD);
        match clone_sibling()? {
            0 => adopt_orphans(arguments, worker),
            pid => born.first.store(pid, Ordering::Relaxed),
        }
        let _ = before.and_then(|before| before.set(libc::SIGCHLD));
    }
    match clone_sibling()? {
        0 => Ok(()),
        pid => {
            born.program.store(pid, Ordering::Relaxed);
            exit_now(0)
        }
    }
}

/// Where this process's arguments are in its memory (proc_pid_stat(5)); empty if that can't be
/// known.
pub(crate) fn arguments() -> Range<usize> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = StatFields::parse(&stat);
    let field = |number| fields.and_then(|fields| fields.get(number)).unwrap_or(0);
    field(48)..field(49)
}

/// As fork(2), for a child of the parent's.
fn clone_sibling() -> io::Result<i32> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: without a stack of its own the new process goes on with a copy of this one's.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid as i32),
    }
}

/// What the first process does until it is killed.
fn adopt_orphans(arguments: Range<usize>, worker: BorrowedFd<'_>) -> ! {
    const NAME: &[u8] = b"vink-init";
    if arguments.len() > NAME.len() {
        let command_line = arguments.start as *mut u8;
        // SAFETY: a copy of the worker's arguments, which no code reads any more.
        unsafe {
            command_line.write_bytes(0, arguments.len());
            command_line.copy_from(NAME.as_ptr(), NAME.len());
        }
    }
    let _ = setsid();
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    mask(Mask::Set, SignalSet::ALL);
    if has_ended(worker) {
        exit_now(0);
    }
    // SAFETY: this process uses no descriptor from here on.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
    loop {
        pause();
    }
}

/// The first process of a namespace. When this is dropped, it is killed, with all that are left
/// there; the worker's own children among them must have been waited for.
pub(crate) struct InitProcess(i32, OwnedFd);

impl InitProcess {
    /// A child of this process.
    pub(crate) fn new(pid: i32, pidfd: OwnedFd) -> InitProcess {
        InitProcess(pid, pidfd)
    }

    /// The worker's number of it.
    pub(crate) fn number(&self) -> i32 {
        self.0
    }
}

impl Drop for InitProcess {
    fn drop(&mut self) {
        let _ = send_signal(&self.1, libc::SIGKILL);
        wait_for_end(&self.1);
        reap(&self.1);
    }
}

/// Waits until an orphan that has died has been reaped by the first process of its machine, for
/// others see it until then.
pub(crate) fn wait_until_reaped(pidfd: &OwnedFd) {
    let start = Instant::now();
    while send_signal(pidfd, 0).is_ok() && start.elapsed() < STALL_TIMEOUT {
        std::thread::yield_now();
    }
}
