//! What a worker has: to be the same after all its programs have ended as before they began.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use vink_trap::Worker;

use crate::watch::BoxError;

/// How long the kernel may take to give things back: a connection whose other end does not answer is
/// kept for a while after its last descriptor.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(100);
/// Pages that the kernel's allocators may keep, and bytes that this process's tables may.
const KEPT_PAGES: u64 = 512;
const KEPT_HEAP: u64 = 1 << 20;
/// Bytes that a worker keeps of each program: how it ended.
const KEPT_OF_PROGRAM: u64 = 1 << 10;

/// Counts that must come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    tasks: u64,
    machines: u64,
    sockets: u64,
    files: u64,
    /// Of this process.
    descriptors: usize,
    /// Of this process: children that live. (A process that never made a trapped call is unknown to
    /// the worker; if its parent did not reap it, no process does.)
    children: usize,
}

/// Counts, and memory, of which some may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    counts: Counts,
    free_pages: u64,
    /// Bytes that this process has allocated.
    heap: u64,
}

impl Ledger {
    /// What is there now.
    pub(crate) fn take(worker: &mut Worker) -> Result<Ledger, BoxError> {
        let c = worker.counters()?;
        let me = std::process::id();
        let children = fs::read_to_string(format!("/proc/{me}/task/{me}/children"))?;
        Ok(Ledger {
            counts: Counts {
                tasks: c.tasks,
                machines: c.machines,
                sockets: c.sockets,
                files: c.files,
                descriptors: fs::read_dir("/proc/self/fd")?.count(),
                children: children.split_whitespace().filter(|c| lives(c)).count(),
            },
            free_pages: c.free_pages,
            heap: heap(),
        })
    }

    /// Serves until all counts are as they were before so many programs: an error if that does not happen, or if there is less
    /// memory than what caches explain.
    pub(crate) fn settle(&self, worker: &mut Worker, programs: u64) -> Result<Ledger, BoxError> {
        let kept = KEPT_HEAP + KEPT_OF_PROGRAM * programs;
        let since = Instant::now();
        loop {
            let now = Ledger::take(worker)?;
            let lost = self.free_pages.saturating_sub(now.free_pages);
            let grown = now.heap.saturating_sub(self.heap);
            let same = now.counts == self.counts && worker.object_counts() == [0; 3];
            if same && lost <= KEPT_PAGES && grown <= kept {
                return Ok(now);
            }
            if since.elapsed() > RELEASE_TIMEOUT {
                let open = descriptors()?;
                return Err(
                    format!("leaked: before {self:?}, after {now:?}; open: {open:?}").into(),
                );
            }
            worker.step(Some(Duration::from_millis(50)))?;
        }
    }
}

/// What this process has open, and how often.
fn descriptors() -> Result<BTreeMap<String, u32>, BoxError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        // The folder itself is gone by now.
        let Ok(target) = fs::read_link(entry?.path()) else {
            continue;
        };
        let kind = target.display().to_string();
        let kind = kind.split(":[").next().unwrap_or_default().to_owned();
        *found.entry(kind).or_default() += 1;
    }
    Ok(found)
}

/// Whether a process is there, and no zombie.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Bytes in use of the allocator that this process has (mallinfo2(3)).
fn heap() -> u64 {
    // SAFETY: returns a structure of numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

impl std::fmt::Display for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let c = &self.counts;
        write!(
            f,
            "{} tasks, {} sockets, {} files, {} machines, {} free pages; here {} descriptors, {} children, {} KiB",
            c.tasks, c.sockets, c.files, c.machines, self.free_pages, c.descriptors, c.children, self.heap >> 10
        )
    }
}
