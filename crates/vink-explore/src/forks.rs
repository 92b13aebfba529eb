//! Forks of this process, each of which is a copy of the lab.
//!
//! # What a fork shares
//!
//! Memory: nothing but what the processes of a search claim ([`Claims`]). The kernel's arena is private and copied
//! ([`vink_kernel::Kernel::give_to_forks`]), as are the image's data, the apps' stacks and heaps.
//! Threads: there is one, so that no lock is held by a thread that the copy does not have.
//! Descriptors: a file's position, a socket's and a pipe's content would be common. So there are
//! none that the lab uses: a lab whose parts need some is refused, and [`assert_alone`] looks
//! whether any was opened all the same. The clock is virtual, so no timer of the host's is needed.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};

use vink_sys::mapping::{Mapping, Pages};
use vink_sys::process::{exit_now, fork_into, kill, waitpid};
use vink_sys::rustix::process::{set_parent_process_death_signal, Signal};

use crate::Error;

/// First deviations that there may be: more than four for each packet of the longest run ([`crate::Limits`]).
const FIRST: usize = 1 << 17;
/// How long a run may compute, in seconds: so long only one takes that does not end.
const CPU_LIMIT: i64 = 20;

/// A first deviation that no process has taken yet; that one has; all behind it has been tried.
const FREE: u8 = 0;
const TAKEN: u8 = 1;
const DONE: u8 = 2;

/// What all processes of a search share.
#[repr(C)]
pub(crate) struct Claims {
    /// The search is over: what runs ends.
    pub stop: AtomicBool,
    /// Runs that have ended.
    pub runs: AtomicU64,
    /// Packets that were sent in them.
    pub packets: AtomicU64,
    /// Which first deviations have been taken by a process, and which are done.
    first: [AtomicU8; FIRST],
}

impl Claims {
    /// Shared memory, which lasts as long as the process and its forks.
    pub fn new() -> Result<&'static Claims, Error> {
        let claims = common(size_of::<Claims>())?.cast::<Claims>();
        // SAFETY: so many bytes of zeroes, aligned to pages, never unmapped; all of it is atomic.
        Ok(unsafe { &*claims })
    }

    /// Takes a first deviation; `false`: a process has it or has done it, or there are too many.
    pub fn claim(&self, number: usize) -> bool {
        let take = |claim: &AtomicU8| {
            let order = Ordering::Relaxed;
            claim.compare_exchange(FREE, TAKEN, order, order).is_ok()
        };
        self.first.get(number).is_some_and(take)
    }

    /// All schedules with this first deviation, which this process has taken, were tried, and what they break is said.
    pub fn finish(&self, number: usize) {
        if let Some(claim) = self.first.get(number) {
            claim.store(DONE, Ordering::Release);
        }
    }

    /// Which are done: from and to.
    pub fn done(&self) -> Vec<(usize, usize)> {
        let mut all: Vec<(usize, usize)> = Vec::new();
        for (number, claim) in self.first.iter().enumerate() {
            if claim.load(Ordering::Acquire) != DONE {
                continue;
            }
            match all.last_mut() {
                Some((_, end)) if *end == number => *end += 1,
                _ => all.push((number, number + 1)),
            }
        }
        all
    }

    /// These are done already, and no process takes them.
    pub fn restore(&self, done: &[(usize, usize)]) {
        let numbers = done.iter().flat_map(|(from, to)| *from..*to);
        numbers.for_each(|number| self.finish(number));
    }

    /// Nothing is taken any more.
    pub fn clear(&self) {
        let claims = self.first.iter();
        claims.for_each(|claim| claim.store(FREE, Ordering::Relaxed));
    }

    /// Whether the search is over.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// So many bytes of zeroes, by whole pages, that forks share, and which no engine puts back. They are
/// never unmapped.
///
/// # Errors
/// [`Error::Host`]: as mmap(2).
pub(crate) fn common(len: usize) -> Result<*mut u8, Error> {
    let what = "mapping memory that forks share";
    let mapping = Mapping::new(len.next_multiple_of(4096)).map_err(Error::host(what))?;
    let all = 0..mapping.len();
    mapping
        .replace(all, Pages::Common)
        .map_err(Error::host(what))?;
    let start = mapping.start().cast();
    std::mem::forget(mapping);
    Ok(start)
}

/// Which side of a fork this is.
pub(crate) enum Side {
    /// The new process; it ends with its parent.
    Child,
    /// The old one, and the new one.
    Parent(Forked),
}

/// A copy of this process, which ends when this is dropped.
pub(crate) struct Forked(Option<i32>);

impl Forked {
    /// Ends it, and what it has forked. One that has ended by itself stays as it is until it is waited for.
    pub fn kill(&self) {
        if let Some(pid) = self.0 {
            let _ = kill(pid, libc::SIGKILL);
        }
    }

    /// Waits for its end: `None`, it has ended by itself with status 0, or this has been told before; else how it
    /// died.
    pub fn wait(&mut self) -> Option<Death> {
        let pid = self.0.take()?;
        let status = loop {
            match waitpid(pid, 0) {
                Ok((_, status)) => break status,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It is no child: there is none to wait for.
                Err(_) => return Some(Death::Status(-1)),
            }
        };
        if libc::WIFSIGNALED(status) {
            return Some(Death::Signal(libc::WTERMSIG(status)));
        }
        match libc::WEXITSTATUS(status) {
            0 => None,
            other => Some(Death::Status(other)),
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        self.kill();
        self.wait();
    }
}

/// Copies the process, for a run: that may compute for so long ([`limit_cpu`]).
///
/// # Errors
/// As fork(2).
pub(crate) fn fork_for_run() -> Result<Side, Error> {
    let side = fork()?;
    if let Side::Child = side {
        limit_cpu();
    }
    Ok(side)
}

/// Copies the process.
///
/// # Errors
/// As fork(2).
pub(crate) fn fork() -> Result<Side, Error> {
    let parent = std::process::id();
    let pid = fork_into(0).map_err(Error::host("fork(2)"))?;
    if pid != 0 {
        return Ok(Side::Parent(Forked(Some(pid))));
    }
    // A parent that is gone by now has no use for this one.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if std::os::unix::process::parent_id() != parent {
        exit_now(1);
    }
    Ok(Side::Child)
}

/// SIGPROF ends the process when it has computed too long; a fork's fork begins anew.
pub(crate) fn limit_cpu() {
    let value = libc::timeval {
        tv_sec: CPU_LIMIT,
        tv_usec: 0,
    };
    let never = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let timer = libc::itimerval {
        it_interval: never,
        it_value: value,
    };
    // SAFETY: reads a structure. It can't fail: the timer is there.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
}

/// How a process has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// A signal.
    Signal(i32),
    /// By itself, with this status.
    Status(i32),
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Death::Signal(libc::SIGPROF) => {
                write!(f, "it computed for {CPU_LIMIT} s without coming to an end")
            }
            Death::Signal(signal) => write!(f, "signal {signal} ended the process"),
            Death::Status(status) => write!(f, "the process ended with status {status}"),
        }
    }
}

/// The descriptors that are open.
///
/// # Errors
/// /proc can't be read.
pub(crate) fn descriptors() -> Result<BTreeSet<RawFd>, Error> {
    let what = "reading /proc/self/fd";
    let folder = fs::read_dir("/proc/self/fd").map_err(Error::host(what))?;
    let names = folder.flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
    let all: BTreeSet<RawFd> = numbers.collect();
    // The folder's own is closed by now.
    let open = |fd: &RawFd| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok();
    Ok(all.into_iter().filter(open).collect())
}

/// Makes sure that a fork has all of the lab to itself: one thread, and no descriptor but those that
/// were there `before` the lab was made, and files that are only read.
///
/// # Errors
/// [`Error::Shared`], which names the thread or the descriptor.
pub(crate) fn assert_alone(before: &BTreeSet<RawFd>) -> Result<(), Error> {
    let what = "reading /proc/self/task";
    let threads = fs::read_dir("/proc/self/task").map_err(Error::host(what))?;
    let count = threads.count();
    if count != 1 {
        return Err(Error::Shared(format!(
            "it has {count} threads, and a fork has one"
        )));
    }
    for fd in descriptors()?.difference(before) {
        let link = format!("/proc/self/fd/{fd}");
        let leads_to = fs::read_link(&link).unwrap_or_default();
        let kind = fs::metadata(&link).map(|about| about.file_type());
        let is_plain = kind.is_ok_and(|kind| {
            kind.is_file() && !kind.is_fifo() && !kind.is_socket() && !kind.is_char_device()
        });
        if !is_plain {
            let leads_to = leads_to.display();
            return Err(Error::Shared(format!(
                "descriptor {fd} ({leads_to}) would be common to both"
            )));
        }
    }
    Ok(())
}

/// Writes in one piece; what is longer than a pipe takes in one piece goes in several.
pub(crate) fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match vink_sys::rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_remains_so() {
        let claims = Claims::new().unwrap();
        claims.restore(&[(1, 3)]);
        let taken: Vec<_> = (0..5).map(|number| claims.claim(number)).collect();
        assert_eq!(taken, [true, false, false, true, true]);
        // Another process goes along the same run.
        claims.finish(3);
        assert!((0..5).all(|number| !claims.claim(number)));
        assert_eq!(claims.done(), [(1, 4)]);
        claims.clear();
        assert!(claims.claim(1));
    }
}
