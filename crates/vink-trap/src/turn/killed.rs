//! Who is killed by a program is dead before anything else goes on: what it has open is closed, at the time it is.
//!
//! kill(2) returns when the signal has been sent. How soon its receiver ends is the host's business, which nobody is to see.
//! While the killer is out everybody else is parked, or waits in the host, so that who dies can be told for sure: a fatal
//! signal is pending as `SIGKILL` for all threads of its group, and whoever takes that is marked before it does anything else.

use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::states::glance;
use crate::worker::Worker;
use crate::Error;

/// How long an end is waited for: it may dump a core. In ms.
const LONGEST: i32 = 10_000;
/// In a set of pending signals.
const KILL: u64 = 1 << (libc::SIGKILL - 1);
/// In the flags of proc_pid_stat(5): a signal ends it (`PF_SIGNALED` of the kernel's sched.h).
const SIGNALED: u64 = 0x400;

impl Worker {
    /// A call of this thread that may kill others of its machine is about to pass.
    pub(super) fn expect_deaths(&mut self, tid: i32) {
        let pid = self.threads[&tid].pid;
        // It is not to see what they have open being closed, either.
        self.set_unfree(pid);
        let machine = self.processes[&pid].machine;
        self.turn.as_mut().expect("virtual time").killing = Some(machine);
    }

    /// Nobody is out: if there may be somebody who was killed, waits for the end. Whether it has looked.
    pub(super) fn await_deaths(&mut self) -> Result<bool, Error> {
        let turn = self.turn.as_mut().expect("virtual time");
        let Some(machine) = turn.killing.take() else {
            return Ok(false);
        };
        // One that executes ends its own threads.
        let own = self.processes.iter();
        let own = own.filter(|(_, p)| p.machine == machine && p.executing.is_none());
        for (pid, process) in own {
            let mut threads = process.threads.iter();
            if threads.any(|tid| is_dying(*pid, *tid)) {
                let mut end = libc::pollfd {
                    fd: process.pidfd.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                // SAFETY: one structure, as said.
                unsafe { libc::poll(&mut end, 1, LONGEST) };
            }
        }
        self.catch_events(Some(Duration::ZERO))?;
        self.arrive()?;
        Ok(true)
    }
}

/// Whether a signal is ending the thread.
fn is_dying(pid: i32, tid: i32) -> bool {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).ok();
    let pending = read("status").and_then(|status| glance(&status));
    // Read later: whoever has taken the signal meanwhile is marked.
    let flags = read("stat").and_then(|stat| flags(&stat));
    pending.is_some_and(|(_, (pending, _))| pending & KILL != 0)
        || flags.is_some_and(|flags| flags & SIGNALED != 0)
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
        // Dying at once, until nobody is there.
        assert!(is_dying(pid, pid));
        child.wait().unwrap();
        assert!(!is_dying(pid, pid));
    }
}
