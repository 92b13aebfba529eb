//! A process that another one kills is dead before anything else goes on: what it has open is
//! closed, at the time of the kill.
//!
//! kill(2) returns when the signal has been sent. How soon its receiver ends depends on the host,
//! and must not be visible. While the killer runs, all other threads are blocked, or blocked on the
//! host. So it can be told for sure which process dies: a fatal signal is pending as `SIGKILL` for
//! all threads of its group, and a thread that takes it is marked before it does anything else.
//!
//! So it is with a signal from outside: no time passes before what it kills is dead.

use std::fs;
use std::time::Duration;

use vink_kernel::MachineId;
use vink_sys::pidfd::send_signal;
use vink_sys::poll::is_readable;

use super::thread_states::parse_status;
use super::VirtualWorker;
use crate::Error;

/// How long an end is waited for: it may dump a core. In ms.
const EXIT_TIMEOUT_MS: i32 = 10_000;
/// In a set of pending signals.
const SIGKILL_BIT: u64 = 1 << (libc::SIGKILL - 1);
/// In the flags of proc_pid_stat(5): a signal ends it (`PF_SIGNALED` of the kernel's sched.h).
const PF_SIGNALED: u64 = 0x400;

/// Signals that may kill, and were not looked at yet.
#[derive(Default)]
pub(crate) struct Kills {
    /// On these machines processes may have been killed, by a call that passed through or from
    /// outside.
    sent_on: Vec<MachineId>,
    /// One of them is from outside.
    from_outside: bool,
}

impl Kills {
    /// A call that may kill processes of this machine is about to pass.
    pub(super) fn expect(&mut self, machine: MachineId) {
        if !self.sent_on.contains(&machine) {
            self.sent_on.push(machine);
        }
    }

    /// A process of this machine has been sent a signal that is no program's.
    pub(crate) fn note_from_outside(&mut self, machine: MachineId) {
        self.expect(machine);
        self.from_outside = true;
    }

    /// Whether one of them is from outside, which is told once.
    pub(super) fn take_from_outside(&mut self) -> bool {
        std::mem::take(&mut self.from_outside)
    }
}

impl VirtualWorker<'_> {
    /// Kills all processes of a program that are known: each is gone before the next is killed, so
    /// that their ends come in the same order in each run.
    pub(crate) fn kill_in_order(&mut self, program: usize) -> Result<(), Error> {
        let processes = self.worker.calls.tasks.table.processes_in(program);
        let mut pids: Vec<i32> = processes.map(|process| process.pid).collect();
        let serials = &self.worker.calls.clock.sched().serials;
        pids.sort_by_key(|pid| (serials.get(pid).copied().unwrap_or(u64::MAX), *pid));
        for pid in pids {
            let Some(process) = self.worker.calls.tasks.table.find_process(pid) else {
                continue;
            };
            let _ = send_signal(&process.pidfd, libc::SIGKILL);
            if is_readable(&process.pidfd, EXIT_TIMEOUT_MS) {
                self.on_process_exit(pid)?;
            }
        }
        self.calls.signals.hint();
        Ok(())
    }

    /// No thread is running: waits for the end of processes that may have been killed. Whether it
    /// has looked for any.
    pub(super) fn wait_for_kills(&mut self) -> Result<bool, Error> {
        let sched = self.worker.calls.clock.sched_mut();
        let machines = std::mem::take(&mut sched.kills.sent_on);
        if machines.is_empty() {
            return Ok(false);
        }
        // One that executes ends its own threads.
        let own = self.worker.calls.tasks.table.processes();
        let own = own.filter(|p| machines.contains(&p.machine) && p.executing.is_none());
        for process in own {
            let mut threads = process.threads.iter();
            if threads.any(|tid| is_dying(process.pid, *tid)) {
                is_readable(&process.pidfd, EXIT_TIMEOUT_MS);
            }
        }
        self.poll_events(Some(Duration::ZERO))?;
        self.note_arrivals()?;
        Ok(true)
    }
}

/// Whether a signal is ending the thread.
fn is_dying(pid: i32, tid: i32) -> bool {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok();
    let pending = read("status").and_then(|status| parse_status(&status));
    // Read later: a thread that has taken the signal meanwhile is marked.
    let flags = read("stat").and_then(|stat| flags(&stat));
    pending.is_some_and(|(_, (pending, _))| pending & SIGKILL_BIT != 0)
        || flags.is_some_and(|flags| flags & PF_SIGNALED != 0)
}

/// In a thread's `stat`; the name in parentheses may contain anything.
fn flags(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dying() {
        assert_eq!(flags("7 (a) b) S 1 2 3 4 5 4194304 7"), Some(0x40_0000));
        assert_eq!((flags("7 (a"), flags("7 (a) S 1")), (None, None));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert!(!is_dying(pid, pid));
        child.kill().unwrap();
        // Dying at once, until it is gone.
        assert!(is_dying(pid, pid));
        child.wait().unwrap();
        assert!(!is_dying(pid, pid));
    }
}
