//! A machine's PID namespace: its programs can't name, and so not signal, a process outside of it;
//! their numbers are the same in each run; none of them outlives the worker.
//!
//! A process can't enter a PID namespace, only its children are born in one. So what is forked to
//! become a program forks once more, as a sibling (`CLONE_PARENT`): the program still is the
//! worker's child. The first process of a namespace, number 1, does nothing but inherit orphans.
//! The worker kills it when the machine ends, and the host's kernel if the worker is killed; all
//! others in the namespace die with it.
//!
//! A program of `vink run` is in the worker's process group, as the terminal's signals are for
//! both. That group has no number in the namespace: programs see 0. So by kill(2) of its own group
//! a program would signal the worker too, and could not give the terminal back to a group that it
//! had it from. The worker does both for it.

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use vink_sys::errno;
use vink_sys::pidfd::{copy_fd, send_signal};
use vink_sys::process::{exit_now, foreground, getpgid, getsid, kill};
use vink_sys::procfs::StatFields;
use vink_sys::rustix::event::pause;
use vink_sys::rustix::process::{getpgrp, set_parent_process_death_signal, setsid, Signal};
use vink_sys::rustix::termios::tcsetpgrp;
use vink_sys::rustix::thread::set_name;
use vink_sys::signals::{mask, Action, Mask, SignalSet};

use crate::process::Process;
use crate::sched::STALL_TIMEOUT;
use crate::spawn::has_ended;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::worker::{reap, wait_for_end, Worker};
use crate::Error;

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

/// Makes this process's group a terminal's foreground: 0, or an errno below it.
fn set_foreground(terminal: &OwnedFd) -> i64 {
    // A process in the background is stopped by this, unless it blocks the signal.
    let before = mask(Mask::Block, SignalSet::of([libc::SIGTTOU]));
    let set = tcsetpgrp(terminal, getpgrp());
    mask(Mask::Set, before);
    set.map_or_else(|error| -i64::from(error.raw_os_error()), |()| 0)
}

/// Waits until an orphan that has died has been reaped by the first process of its machine, for
/// others see it until then.
pub(crate) fn wait_until_reaped(pidfd: &OwnedFd) {
    let start = Instant::now();
    while send_signal(pidfd, 0).is_ok() && start.elapsed() < STALL_TIMEOUT {
        std::thread::yield_now();
    }
}

impl Worker {
    /// Does a kill(2) of the caller's own group for it, if the worker is in that group. False: the
    /// host can do it.
    pub(crate) fn signal_own_group(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        let caller = &self.processes[&call.pid];
        let (machine, program) = (caller.machine, caller.program);
        let (own, group) = (getpgid(0), getpgid(caller.pid));
        if call.args[0] as i32 != 0 || group != own {
            return Ok(false);
        }
        self.resolve_all_forks(program)?;
        let mut result = -i64::from(libc::ESRCH);
        for process in self.processes.values().filter(|p| p.machine == machine) {
            // The process has not been reaped, so the number is its own.
            if getpgid(process.pid) != group {
                continue;
            }
            match send_signal(&process.pidfd, call.args[1] as i32) {
                Ok(()) => result = 0,
                Err(error) if result != 0 => result = errno::of(&error),
                Err(_) => {}
            }
        }
        self.signals.hint();
        self.answer(call, result)?;
        Ok(true)
    }

    /// Does an ioctl(2) `TIOCSPGRP` for a program of the worker's session that means the worker's
    /// group, if a group of the machine has the terminal. False: it is the host's.
    pub(crate) fn give_terminal_back(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        let [number, request, at, ..] = call.args;
        let mut group = [1; 4];
        if call.nr != libc::SYS_ioctl
            || request != libc::TIOCSPGRP
            || !tracee::read(call.tid, at, &mut group)
            || group != [0; 4]
        {
            return Ok(false);
        }
        let caller = &self.processes[&call.pid];
        let session = (getsid(0), getsid(caller.pid));
        let terminal = copy_fd(&caller.pidfd, number as i32).ok();
        let Some(terminal) = terminal.filter(|_| session.0 == session.1) else {
            return Ok(false);
        };
        let foreground = foreground(&terminal);
        let is_in = |p: &Process| getpgid(p.pid) == foreground;
        let is_gone = || kill(-foreground, 0).is_err();
        if foreground <= 0 || !(self.processes.values().any(is_in) || is_gone()) {
            return Ok(false);
        }
        let set = set_foreground(&terminal);
        self.answer(call, set)?;
        Ok(true)
    }

    /// The worker's number of a process or thread that this thread names by its machine's number.
    /// `None` if it has made no trapped call, or is gone.
    pub(crate) fn number_of(&self, tid: i32, named: i32) -> Option<i32> {
        let machine = |tid: &i32| self.processes[&self.threads[tid].pid].machine;
        let mut neighbours = self.threads.keys().filter(|t| machine(t) == machine(&tid));
        neighbours
            .find(|t| tracee::ns_pid(**t) == Some(named))
            .copied()
    }
}
