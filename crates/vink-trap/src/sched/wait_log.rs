//! What a run in virtual time waits for: `VINK_LOG=sched=debug`.
//!
//! It is logged when the worker has waited and nothing has come: one line for each thread. Calls cost nothing more for
//! it, and the same state is logged once.

use std::fs;
use std::time::Duration;

use tracing::{debug, enabled, Level};
use vink_kernel::Kernel;

use super::{Scheduler, ThreadState};
use crate::process_table::ProcessTable;
use crate::trace::call_name;
use vink_syscalls::{fd_role, FdRole};

/// How long nothing must have been heard of running threads, on the host's clock.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// A thread's last system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastCall {
    pub(super) nr: i64,
    /// When it was scheduled, on the kernel's clock in ns.
    pub(super) time: u64,
}

impl Scheduler {
    /// Logs what each thread waits for, if that is wanted and has changed.
    pub(super) fn log_waits(&mut self, (table, kernel): (&ProcessTable, &Kernel)) {
        if !enabled!(target: "sched", Level::DEBUG) {
            return;
        }
        let place = (table, kernel);
        let mut lines = Vec::new();
        for running in &self.running {
            let what = match running.state {
                ThreadState::Running | ThreadState::InExec => "runs, and all others wait for it",
                ThreadState::MayBlock | ThreadState::WaitsOutside => {
                    "is in a call of the host, and all others wait for it"
                }
                ThreadState::InVfork | ThreadState::VforkReleased(_) => "waits in vfork",
            };
            lines.push(self.wait_line(place, (running.pid, running.tid), what, None));
        }
        for (tid, pid) in &self.blocked_on_host {
            lines.push(self.wait_line(place, (*pid, *tid), "is blocked on the host", None));
        }
        for (tid, blocked) in self.blocked.iter() {
            let pid = table.find_pid(*tid).unwrap_or(*tid);
            let what = match blocked.polled.is_empty() {
                true => "is blocked",
                false => "is blocked on files of the host",
            };
            let until = match blocked.condition.deadline {
                Some(time) => format!(", until {}", seconds(time)),
                None => ", for ever".to_owned(),
            };
            let call = call_on_file(pid, blocked.call.nr, blocked.call.args[0]);
            lines.push(self.wait_line(place, (pid, *tid), what, Some((call, until))));
        }
        for (tid, thread) in table.threads() {
            if let Some(pending) = &thread.pending {
                let call = pending.in_flight.call;
                let call = call_on_file(thread.pid, call.nr, call.args[0]);
                let what = "is blocked in the machine's kernel";
                let known = Some((call, String::new()));
                lines.push(self.wait_line(place, (thread.pid, tid), what, known));
            }
        }
        lines.sort();
        lines.dedup();
        let now = seconds(kernel.now());
        let state = (now.clone(), lines);
        if self.logged_waits.as_ref() == Some(&state) {
            return;
        }
        debug!(target: "sched", "the clock stands at {now}; threads: {}", state.1.len());
        for line in &state.1 {
            debug!(target: "sched", "{line}");
        }
        self.logged_waits = Some(state);
    }

    /// `known` is the call, and until when it waits, if the worker or its kernel has it; `None`: the host has it.
    fn wait_line(
        &self,
        (table, kernel): (&ProcessTable, &Kernel),
        (pid, tid): (i32, i32),
        what: &str,
        known: Option<(String, String)>,
    ) -> String {
        let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let last = self.last_calls.get(&tid);
        let (call, until) = known.unwrap_or_else(|| {
            let of_host = host_call(pid, tid);
            let call = of_host.or_else(|| last.map(|last| call_name(last.nr)));
            let call = call.unwrap_or_else(|| "no call yet".to_owned());
            (call, String::new())
        });
        let since = last.map(|last| format!(", since {}", seconds(last.time)));
        let machine = table.find_process(pid).map(|process| process.machine);
        let machine = machine.and_then(|id| kernel.machine_name(id));
        format!(
            "{} (process {pid}, thread {tid}, machine {}) {what}: {call}{}{until}",
            name.trim(),
            machine.unwrap_or("?"),
            since.unwrap_or_default(),
        )
    }
}

/// A call, with its descriptor's file if its first argument is one.
fn call_on_file(pid: i32, nr: i64, first: u64) -> String {
    let name = call_name(nr);
    if fd_role(nr) != FdRole::File {
        return name;
    }
    let fd = first as i32;
    let file = fs::read_link(format!("/proc/{pid}/fd/{fd}"));
    let file = file.map(|file| format!(" <{}>", file.display()));
    format!("{name}({fd}{}, ...)", file.unwrap_or_default())
}

/// The call in which the host has the thread: see proc_pid_syscall(5). `None`: it is in none.
fn host_call(pid: i32, tid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let nr: i64 = words.next()?.parse().ok().filter(|nr| *nr >= 0)?;
    let first = words.next()?.strip_prefix("0x")?;
    let first = u64::from_str_radix(first, 16).ok()?;
    Some(call_on_file(pid, nr, first))
}

/// A time on the kernel's clock.
fn seconds(time: u64) -> String {
    let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
    format!("{seconds}.{rest:09} s")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .flat_map(|path| match path.is_dir() {
                true => files(&path),
                false => vec![path],
            })
            .collect()
    }

    #[test]
    fn calls_are_not_logged() {
        // Only what looks at a run that stands, and what changes the form of calls, log anything.
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let logs = |path: &PathBuf| {
            let text = fs::read_to_string(path).expect("a file");
            text.contains(concat!("use ", "tracing")) || text.contains(concat!("tracing", "::"))
        };
        let mut logging: Vec<PathBuf> = files(&source).into_iter().filter(logs).collect();
        logging.sort();
        let expected = ["polling.rs", "sched/livelock.rs", "sched/wait_log.rs"];
        assert_eq!(logging, expected.map(|path| source.join(path)));
    }

    #[test]
    fn times() {
        assert_eq!(seconds(1_500_000_000), "1.500000000 s");
        assert_eq!(seconds(7), "0.000000007 s");
    }

    #[test]
    fn a_call_of_the_host() {
        let (read, write) = std::io::pipe().expect("a pipe");
        let (tids, tid) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            tids.send(vink_sys::process::gettid()).expect("heard");
            std::io::Read::read(&mut &read, &mut [0]).expect("an end")
        });
        let tid = tid.recv().expect("its number");
        let pid = std::process::id() as i32;
        let call = loop {
            match host_call(pid, tid) {
                Some(call) if call.starts_with("read(") => break call,
                _ => std::thread::yield_now(),
            }
        };
        assert!(call.contains("<pipe:["), "{call}");
        drop(write);
        assert_eq!(reader.join().expect("no panic"), 0);
    }
}
