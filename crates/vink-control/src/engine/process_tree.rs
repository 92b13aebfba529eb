//! Kills a process and its descendants, and waits until they are gone.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use vink_sys::pidfd;
use vink_sys::poll::is_readable;
use vink_sys::procfs::StatFields;

/// The time that the worker's guardian has to kill its processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// A killed process that is still there after this time hangs in a driver of the host.
const GONE_TIMEOUT: Duration = Duration::from_secs(8);

/// A process's state and time, from proc_pid_stat(5).
pub(super) struct ProcessSample {
    parent: i32,
    stopped: bool,
    /// Processor time.
    pub(super) time: Duration,
}

impl ProcessSample {
    /// `None`: it is gone.
    pub(super) fn at(pid: i32) -> Option<ProcessSample> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields = StatFields::parse(&stat)?;
        Some(ProcessSample {
            parent: fields.get(4)?,
            stopped: matches!(fields.state()?, b'T' | b't'),
            time: fields.cpu_time(),
        })
    }

    /// Whether a signal or a debugger has stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }
}

/// A process, and its descendants behind it.
pub(crate) struct ProcessTree(Vec<(i32, OwnedFd)>);

impl ProcessTree {
    /// The tree below a child of this process. The child is stopped: its programs cannot fork
    /// without it.
    pub(crate) fn of(pid: i32) -> ProcessTree {
        let mut members = Vec::new();
        let root = open(pid);
        // Its number is not reused: it is a child that was not waited for.
        let own = std::process::id() as i32;
        if let Some(root) = root.filter(|_| ProcessSample::at(pid).is_some_and(|l| l.parent == own))
        {
            send(&root, libc::SIGSTOP);
            members.push((pid, root));
        } else {
            return ProcessTree(members);
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all: Vec<(i32, i32)> = entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                Some((pid, ProcessSample::at(pid)?.parent))
            })
            .collect();
        let mut known = HashSet::from([pid]);
        loop {
            let before = known.len();
            let children = all.iter().filter(|(_, parent)| known.contains(parent));
            let children: Vec<i32> = children.map(|(pid, _)| *pid).collect();
            known.extend(children);
            if known.len() == before {
                break;
            }
        }
        known.remove(&pid);
        members.extend(known.into_iter().filter_map(|pid| Some((pid, open(pid)?))));
        ProcessTree(members)
    }

    /// Kills all of them and waits until they are gone.
    ///
    /// # Errors
    /// Those that are still there.
    pub(crate) async fn end(self) -> Result<(), Vec<i32>> {
        if let Some((_, root)) = self.0.first() {
            send(root, libc::SIGKILL);
        }
        let ended = tokio::task::spawn_blocking(|| {
            // Its guardian is among the others: it sees more than the descendants, and ends last.
            let left = wait(self.0, KILL_TIMEOUT);
            for (_, process) in &left {
                send(process, libc::SIGKILL);
            }
            let left = wait(left, GONE_TIMEOUT);
            match left.is_empty() {
                true => Ok(()),
                false => Err(left.into_iter().map(|(pid, _)| pid).collect()),
            }
        });
        ended.await.unwrap_or(Err(Vec::new()))
    }
}

/// Returns those that are still there at the time limit. Blocks its thread.
fn wait(members: Vec<(i32, OwnedFd)>, limit: Duration) -> Vec<(i32, OwnedFd)> {
    let until = Instant::now() + limit;
    let is_there = |(_, process): &(i32, OwnedFd)| {
        let left = until.saturating_duration_since(Instant::now());
        !is_readable(process, left.as_millis() as i32)
    };
    members.into_iter().filter(is_there).collect()
}

fn open(pid: i32) -> Option<OwnedFd> {
    pidfd::open(pid).ok()
}

fn send(process: &OwnedFd, signal: i32) {
    let _ = pidfd::send_signal(process, signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[tokio::test]
    async fn a_stopped_process_and_what_it_has_started() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & setsid sleep 1000 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = String::new();
        let output = shell.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let pid = shell.id() as i32;
        let family = ProcessTree::of(pid);
        while !ProcessSample::at(pid).expect("it is there").is_stopped() {
            std::thread::yield_now();
        }
        let pids: Vec<i32> = family.0.iter().map(|(pid, _)| *pid).collect();
        assert!(pids[0] == pid && pids.len() >= 3, "{pids:?}");
        family.end().await.expect("all are gone");
        shell.wait().expect("our child");
        for pid in pids {
            let there = ProcessSample::at(pid).is_some_and(|sample| sample.parent == 1);
            // A zombie that init has not waited for yet has no memory map.
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            assert!(!there || maps.is_empty(), "{pid}");
        }
    }
}
