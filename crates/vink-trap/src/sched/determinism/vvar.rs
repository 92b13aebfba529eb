//! The clocks that programs read without a system call, as they do on the host: code written over
//! clock_gettime(2) in a program's vDSO returns what the worker has written beside it, before it
//! let the program run.
//!
//! Each process has a copy of its own, which its children inherit. It may be read so many times
//! only until time passes: then the code makes the system call, so that the worker notices a loop
//! that waits for time. Counting down writes to the page, so the code makes it writable first;
//! where that is refused, and for any other clock, it makes the system call.
//!
//! Nothing is published to a process that does not read: at first it may read no times, so that its
//! first read is a system call, by which the worker knows of it; and again when what was published
//! has not been read for a while.

use vink_kernel::{Kernel, Numbered};
use vink_sched::timespec;

use crate::process_table::ProcessTable;
use crate::sched::determinism::auxv::Auxv;
use crate::sched::determinism::clock_code::{CPU_PER_CALL, LOOKED};
use crate::sched::determinism::uptime::BOOTED;
use crate::sched::determinism::vdso;
use crate::sched::{Scheduler, ThreadState};
use crate::tracee;

/// So many reads need no system call.
const FREE_READS: u32 = 1_000;
/// Each so many times it is checked whether what was published last has been read.
const CHECK_INTERVAL: u32 = 8;
/// What is written behind the code: two clocks, the CPU time of process and thread, how many reads
/// are free.
const WRITTEN: usize = 4 * vink_ring::CLOCK_WORDS;
/// That, and where it is.
pub(in crate::sched) type ClockBytes = (u64, [u8; WRITTEN]);
/// Where the last of them is.
const FREE: u64 = 48;

/// What a process reads of the clock.
pub(crate) struct VvarPage {
    /// Where the clocks are in its memory; `None`: it makes a system call.
    place: Option<u64>,
    /// What they show, and for which thread; `None`: not known.
    state: Option<(u64, i32)>,
    /// It reads them, or may have inherited what was published to another.
    wanted: bool,
    /// Another process has the same memory, and may be shown another time.
    shared: bool,
    /// How often it was shown something.
    times: u32,
    /// The last time, that could be written.
    written: bool,
}

impl VvarPage {
    /// Of a process that has just been executed, and may not look.
    fn new(place: Option<u64>) -> VvarPage {
        VvarPage {
            place,
            state: None,
            wanted: false,
            shared: false,
            times: 0,
            written: false,
        }
    }

    /// Of one that was forked, or whose vDSO may have been replaced.
    fn of(pid: i32) -> VvarPage {
        let base = Auxv::of(pid).and_then(|auxiliary| auxiliary.vdso);
        let parent = tracee::tgid_and_ppid(pid).map(|(_, parent)| parent);
        VvarPage {
            wanted: true,
            shared: parent.is_none_or(|parent| tracee::share_memory(pid, parent)),
            ..VvarPage::new(base.and_then(|base| vdso::clocks_of(pid, base)))
        }
    }
}

/// The clocks that processes read without a call, and the CPU time of threads, which is computed
/// from their calls.
#[derive(Default)]
pub(crate) struct ClockPages {
    pages: Numbered<i32, VvarPage>,
    /// Calls of each thread.
    calls: Numbered<i32, u64>,
    /// Each look costs time, and must be known: nothing is published.
    pub(in crate::sched) are_hidden: bool,
}

impl ClockPages {
    /// The thread makes a call.
    pub(in crate::sched) fn count_call(&mut self, tid: i32) {
        *self.calls.entry(tid).or_default() += 1;
    }

    /// The CPU time of these threads, computed from their calls.
    fn time_of_calls(&self, tids: &[i32]) -> u64 {
        let calls = tids.iter().filter_map(|tid| self.calls.get(tid));
        calls.sum::<u64>() * CPU_PER_CALL
    }

    /// The CPU time of these threads of a process as they find it, in ns: reads of it add to it.
    pub(in crate::sched) fn cpu_time(&self, pid: i32, tids: &[i32]) -> u64 {
        let shown = self.pages.get(&pid);
        let place = shown.and_then(|shown| shown.place.as_ref());
        let looked = place.and_then(|address| tracee::read_u64(pid, address + LOOKED));
        self.time_of_calls(tids) + looked.unwrap_or(0)
    }

    /// The process has read its CPU time by a call: what it reads here must not be behind that.
    pub(in crate::sched) fn republish(&mut self, pid: i32) {
        if let Some(shown) = self.pages.get_mut(&pid) {
            shown.state = None;
        }
    }

    /// Before the thread goes on: its process is to read what time it is. Writes other things into
    /// its memory before; how many bytes of those could be written.
    pub(crate) fn publish(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        tid: i32,
        parts: &[(u64, &[u8])],
        state: ThreadState,
    ) -> usize {
        let clock = self.next((table, kernel), tid, state);
        let clock = clock.as_ref().map(|(place, bytes)| (*place, &bytes[..]));
        if parts.is_empty() && clock.is_none() {
            return 0;
        }
        let wanted: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        let all: Vec<(u64, &[u8])> = parts.iter().copied().chain(clock).collect();
        let written = tracee::write_parts(tid, &all);
        if let Some(clock) = clock {
            let missed = written < wanted + WRITTEN;
            let missed = missed && (written >= wanted || !tracee::write(tid, clock.0, clock.1));
            if let Some(shown) = self.pages.get_mut(&table.pid_of(tid)) {
                shown.written = !missed;
                if missed {
                    // Its vDSO can't be written to yet, since it has not looked, or no longer.
                    (shown.wanted, shown.state) = (shown.shared, None);
                }
            }
        }
        written.min(wanted)
    }

    /// What is to be written for it, and where.
    pub(in crate::sched) fn next(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        tid: i32,
        state: ThreadState,
    ) -> Option<ClockBytes> {
        let now = kernel.now();
        let pid = table.find_pid(tid)?;
        if self.are_hidden {
            return None;
        }
        let leaves = state == ThreadState::InExec;
        if leaves && !self.pages.contains_key(&pid) {
            // Its memory is about to be another.
            return None;
        }
        let shown = self.pages.entry(pid).or_insert_with(|| VvarPage::of(pid));
        let place = shown.place.filter(|_| shown.wanted);
        let Some(place) = place.filter(|_| shown.state != Some((now, tid))) else {
            if leaves {
                self.pages.remove(&pid);
            }
            return None;
        };
        shown.state = Some((now, tid));
        shown.times += 1;
        let mut looks = FREE_READS;
        if shown.times.is_multiple_of(CHECK_INTERVAL) && !shown.shared {
            let mut left = [0; 4];
            if tracee::read(tid, place + FREE, &mut left) && u32::from_ne_bytes(left) == FREE_READS
            {
                (looks, shown.wanted) = (0, false);
            }
        }
        let mut all = [0; WRITTEN];
        let mut at = 0;
        let mut add = |bytes: &[u8]| {
            all[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        add(&timespec(now + BOOTED));
        add(&timespec(kernel.date(now)));
        add(&self.time_of_calls(table.threads_of(pid)).to_ne_bytes());
        add(&self.time_of_calls(&[tid]).to_ne_bytes());
        add(&looks.to_ne_bytes());
        if leaves {
            // Where it was shown the time there may be something else soon.
            self.pages.remove(&pid);
        }
        Some((place, all))
    }

    /// Whether the process's memory could be written to when it was shown the clock last, and is
    /// its own.
    pub(in crate::sched) fn is_published(&self, pid: i32) -> bool {
        let shown = self.pages.get(&pid);
        shown.is_some_and(|shown| shown.written && !shown.shared)
    }

    /// The process is to have a child with the same memory.
    pub(in crate::sched) fn keep_current(&mut self, pid: i32) {
        let shown = self.pages.entry(pid).or_insert_with(|| VvarPage::of(pid));
        (shown.wanted, shown.shared) = (true, true);
    }

    /// The process has a new vDSO.
    pub(in crate::sched) fn set_page(&mut self, pid: i32, place: Option<u64>) {
        self.pages.insert(pid, VvarPage::new(place));
    }

    /// The process has asked for the time by a system call.
    pub(in crate::sched) fn start_publishing(&mut self, pid: i32) {
        if let Some(shown) = self.pages.get_mut(&pid).filter(|shown| !shown.wanted) {
            (shown.wanted, shown.state) = (true, None);
        }
    }

    /// A thread is gone.
    pub(in crate::sched) fn forget_thread(&mut self, tid: i32) {
        self.calls.remove(&tid);
    }

    /// A process is gone.
    pub(in crate::sched) fn forget_process(&mut self, pid: i32) {
        self.pages.remove(&pid);
    }
}

impl Scheduler {
    /// Time has passed: publishes it to threads that may go on without the worker.
    pub(in crate::sched) fn publish_time_to_runaways(
        &mut self,
        table: &ProcessTable,
        kernel: &Kernel,
    ) {
        if self.blocked_on_host.is_empty() && self.vforked.is_empty() && self.running.is_empty() {
            return;
        }
        let inside = self.blocked_on_host.iter().map(|(tid, _)| *tid);
        let vforked = self.vforked.iter().map(|(tid, _)| *tid);
        let out = self.running.iter().map(|out| out.tid);
        for tid in inside.chain(vforked).chain(out) {
            let state = ThreadState::MayBlock;
            self.clocks.publish((table, kernel), tid, &[], state);
        }
    }
}
