//! Process groups that a program shares with the worker.
//!
//! A program of `vink run` is in the worker's process group, as the terminal's signals are for
//! both. That group has no number in the namespace: programs see 0. So by kill(2) of its own group
//! a program would signal the worker too, and could not give the terminal back to a group that it
//! had it from. The worker does both for it.

use std::os::fd::OwnedFd;

use vink_sys::errno;
use vink_sys::pidfd::{copy_fd, send_signal};
use vink_sys::process::{foreground, getpgid, getsid, kill};
use vink_sys::rustix::process::getpgrp;
use vink_sys::rustix::termios::tcsetpgrp;
use vink_sys::signals::{mask, Mask, SignalSet};

use crate::process::Process;
use crate::process_table::ProcessTable;
use crate::reactor::Reactor;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::Error;

impl Tasks {
    /// Does a kill(2) of the caller's own group for it, if the worker is in that group: its result.
    /// `None`: the host can do it.
    pub(crate) fn signal_own_group(
        &mut self,
        reactor: &Reactor,
        call: SyscallCtx,
    ) -> Result<Option<i64>, Error> {
        let caller = self.table.process(call.pid);
        let (machine, program) = (caller.machine, caller.program);
        let (own, group) = (getpgid(0), getpgid(caller.pid));
        if call.args[0] as i32 != 0 || group != own {
            return Ok(None);
        }
        self.resolve_all_forks(reactor, program)?;
        let mut result = -i64::from(libc::ESRCH);
        for process in self.table.processes().filter(|p| p.machine == machine) {
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
        Ok(Some(result))
    }
}

impl ProcessTable {
    /// Does an ioctl(2) `TIOCSPGRP` for a program of the worker's session that means the worker's
    /// group, if a group of the machine has the terminal: its result. `None`: it is the host's.
    pub(crate) fn give_terminal_back(&self, call: SyscallCtx) -> Option<i64> {
        let [number, request, at, ..] = call.args;
        let mut group = [1; 4];
        if call.nr != libc::SYS_ioctl
            || request != libc::TIOCSPGRP
            || !tracee::read(call.tid, at, &mut group)
            || group != [0; 4]
        {
            return None;
        }
        let caller = self.process(call.pid);
        let session = (getsid(0), getsid(caller.pid));
        let terminal = copy_fd(&caller.pidfd, number as i32).ok();
        let terminal = terminal.filter(|_| session.0 == session.1)?;
        let foreground = foreground(&terminal);
        let is_in = |p: &Process| getpgid(p.pid) == foreground;
        let is_gone = || kill(-foreground, 0).is_err();
        if foreground <= 0 || !(self.processes().any(is_in) || is_gone()) {
            return None;
        }
        Some(set_foreground(&terminal))
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
