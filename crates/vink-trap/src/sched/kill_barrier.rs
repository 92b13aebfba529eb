//! A process that another one kills is dead before anything else goes on: what it has open is
//! closed, at the time of the kill.
//!
//! kill(2) returns when the signal has been sent. How soon its receiver ends depends on the host,
//! and must not be visible. While the killer runs, all other threads are blocked, or blocked on the
//! host. So it can be told for sure which process dies: a fatal signal is pending as `SIGKILL` for
//! all threads of its group, and a thread that takes it is marked before it does anything else.
//!
//! So it is with a signal from outside: no time passes before what it kills is dead.
//!
//! A parent that kills its own child gets a `SIGCHLD`, and must not make more of its way before that
//! than in another run. So the worker itself sends a signal that ends the caller's child, and the call
//! has its answer when the child is dead.

use std::fs;
use std::time::Duration;

use vink_kernel::MachineId;
use vink_sys::pidfd::send_signal;
use vink_sys::poll::is_readable;
use vink_sys::process::settle_exits;
use vink_sys::procfs::{children, status_field, threads};

use super::signals::{bit, Signals, IGNORED_BY_DEFAULT};
use super::thread_states::parse_status;
use super::VirtualWorker;
use crate::syscall_ctx::SyscallCtx;
use crate::Error;

/// How long an end is waited for: it may dump a core. In ms.
const EXIT_TIMEOUT_MS: i32 = 10_000;
/// They stop a process by default.
const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
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

    /// kill(2) of a child of the caller's that the signal ends: it is dead then, and its parent has the
    /// `SIGCHLD`. Whether it is one; otherwise the host does it.
    pub(super) fn kill_child(&mut self, call: SyscallCtx) -> bool {
        let [named, signal, ..] = call.args.map(|argument| argument as i32);
        let calls = &self.worker.calls;
        let ends_none = IGNORED_BY_DEFAULT.contains(&signal) || STOPS.contains(&signal);
        let may_end = call.nr == libc::SYS_kill && named > 0 && bit(signal) != 0 && !ends_none;
        // With a virtual counter all are traced: their tracer would have to see to the end.
        if !may_end || calls.clock.sched().tsc.is_some() {
            return false;
        }
        let Ok(own) = fs::read_to_string(format!("/proc/{}/status", call.tid)) else {
            return false;
        };
        let is_ended = |child: &i32| {
            let status = fs::read_to_string(format!("/proc/{child}/status"));
            status.is_ok_and(|status| ends(&own, &status, named, signal))
        };
        let mut all = threads(call.pid)
            .into_iter()
            .flat_map(|tid| children(call.pid, tid));
        let child = all
            .find(is_ended)
            .and_then(|child| calls.tasks.table.find_process(child))
            .filter(|child| child.executing.is_none());
        let Some(child) = child else {
            return false;
        };
        if send_signal(&child.pidfd, signal).is_err() {
            return false;
        }
        is_readable(&child.pidfd, EXIT_TIMEOUT_MS);
        settle_exits();
        true
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

/// Whether a parent's signal to the child that it knows by this number ends that, by what their status
/// files say. The parent must be allowed to send it by their users alone.
fn ends(parent: &str, child: &str, named: i32, signal: i32) -> bool {
    let numbers = |status| -> Option<Vec<i32>> {
        let all = status_field(status, "NSpid:")?.split_ascii_whitespace();
        all.map(|number| number.parse().ok()).collect()
    };
    let (Some(above), Some(own)) = (numbers(parent), numbers(child)) else {
        return false;
    };
    let is_it = above.len() == own.len() && own.last() == Some(&named);
    let same = |name| status_field(parent, name) == status_field(child, name);
    let signals = Signals::parse(child);
    let acts = (signals.blocked | signals.caught | signals.ignored) & bit(signal) == 0;
    let stands = status_field(child, "State:").is_some_and(|state| state.starts_with(['T', 't']));
    is_it
        && same("Uid:")
        && status_field(child, "TracerPid:") == Some("0")
        && (signal == libc::SIGKILL || acts && !stands)
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
    fn what_ends_a_child() {
        let parent = "Uid:\t0\t0\t0\t0\nNSpid:\t900\t7\n";
        let child = "State:\tS (sleeping)\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nNSpid:\t901\t8\n\
                     SigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t1\nSigCgt:\t2\n";
        let (hangup, interrupt, term) = (libc::SIGHUP, libc::SIGINT, libc::SIGTERM);
        assert!(ends(parent, child, 8, term) && ends(parent, child, 8, libc::SIGKILL));
        // Another one, one that ignores it, one that handles it.
        assert!(!ends(parent, child, 7, term));
        assert!(!ends(parent, child, 8, hangup) && !ends(parent, child, 8, interrupt));
        let but = |old: &str, new: &str| child.replace(old, new);
        assert!(!ends(parent, &but("Uid:\t0", "Uid:\t1"), 8, term));
        assert!(!ends(parent, &but("901\t8", "901\t902\t8"), 8, term));
        assert!(!ends(parent, &but("Pid:\t0", "Pid:\t5"), 8, libc::SIGKILL));
        let stopped = but("S (sleeping)", "T (stopped)");
        assert!(!ends(parent, &stopped, 8, term) && ends(parent, &stopped, 8, libc::SIGKILL));
        assert!(!ends(parent, &but("SigBlk:\t0", "SigBlk:\t4000"), 8, term));
    }

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
