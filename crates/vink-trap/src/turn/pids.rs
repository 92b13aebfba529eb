//! Process numbers of a machine's own: a pid namespace, so that they are the same in each run.
//!
//! A process can't enter a pid namespace, only its children are born in one. So what is forked to become a
//! program forks once more, as a sister (`CLONE_PARENT`): the program still is the worker's child. The first process of a
//! namespace, number 1, does nothing but inherit orphans. The worker kills it when no
//! program of the machine is left, and the host's kernel if the worker is killed; all others in the namespace die with it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use super::SILENCE;
use crate::launch::has_ended;
use crate::target;
use crate::worker::{reap, send_signal, wait_for_end, Worker};

/// What was made, by the worker's numbers; 0: nothing. In memory that all have.
#[derive(Default)]
pub(crate) struct Born {
    pub(crate) first: AtomicI32,
    pub(crate) program: AtomicI32,
}

/// Returns in a new process, in the pid namespace that the calling one has made or entered for its children. The
/// calling one ends. `first`: that namespace is new. False if that was not possible. Async-signal-safe.
pub(crate) fn be_born(born: &Born, first: bool, worker: BorrowedFd<'_>) -> bool {
    if first {
        // Whoever looks finds it by this name, from its beginning.
        // SAFETY: a NUL-terminated string.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"vink-init".as_ptr()) };
        // Orphans are gone at their deaths, though the process that inherits them had no processor so far: it is born
        // like this. They would be dead and there for ever.
        // SAFETY: constants, and what this process has.
        let first = unsafe {
            let before = libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            let first = sister();
            if first != 0 {
                libc::signal(libc::SIGCHLD, before);
            }
            first
        };
        match first {
            0 => adopt_orphans(worker),
            pid if pid < 0 => return false,
            pid => born.first.store(pid, Ordering::Relaxed),
        }
    }
    match sister() {
        0 => true,
        pid if pid < 0 => false,
        pid => {
            born.program.store(pid, Ordering::Relaxed);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
    }
}

/// As fork(2), for a child of the parent's.
fn sister() -> i32 {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: without a stack of its own the new process goes on with a copy of this one's.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as i32 }
}

/// What the first process does until it is killed.
fn adopt_orphans(worker: BorrowedFd<'_>) -> ! {
    // SAFETY: numbers, constants, and a set that lives here.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, null_mut());
        if has_ended(worker) {
            libc::_exit(0);
        }
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        loop {
            libc::pause();
        }
    }
}

/// The first process of a namespace. When this is dropped, it is killed, with all that are left there; the
/// worker's own children among them must have been waited for.
pub(crate) struct First(i32, OwnedFd);

impl First {
    /// A child of this process.
    pub(crate) fn new(pid: i32, pidfd: OwnedFd) -> First {
        First(pid, pidfd)
    }

    /// The worker's number of it.
    pub(crate) fn number(&self) -> i32 {
        self.0
    }
}

impl Drop for First {
    fn drop(&mut self) {
        send_signal(&self.1, libc::SIGKILL);
        wait_for_end(&self.1);
        reap(&self.1);
    }
}

/// Waits until an orphan that has died has been reaped by the first process of its machine, for others see it until then.
pub(crate) fn await_reaping(pidfd: &OwnedFd) {
    let start = Instant::now();
    while send_signal(pidfd, 0) == 0 && start.elapsed() < SILENCE {
        std::thread::yield_now();
    }
}

impl Worker {
    /// The worker's number of a process or thread that this thread names by its machine's number. `None`
    /// if it has made no trapped call, or is gone.
    pub(crate) fn number_of(&self, tid: i32, named: i32) -> Option<i32> {
        if self.turn.is_none() {
            return Some(named);
        }
        let machine = |tid: &i32| self.processes[&self.threads[tid].pid].machine;
        let mut near = self.threads.keys().filter(|t| machine(t) == machine(&tid));
        near.find(|t| target::own_number(**t) == Some(named))
            .copied()
    }
}
