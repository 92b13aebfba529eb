//! Keeping the worker and programs that call it all the time on one processor.
//!
//! They wait for each other: a thread that is woken on another processor, which has gone to sleep
//! meanwhile, is there later by several times what a call costs. The host's scheduler prefers an
//! idle processor all the same. So while calls are frequent, the worker stays on the processor that
//! it is on and pins the threads that make them there, too; a thread that computes for long makes
//! few calls, and is left alone. Now and then all are unpinned for a moment, so that the scheduler
//! may find a better processor.
//!
//! Programs don't see it: when one asks for an affinity all have their own again, and when one sets
//! an affinity no thread is pinned any more. A child is made with the affinity of a parent that is
//! not pinned. (`/proc/PID/status` does show it.)

use std::collections::HashMap;

use vink_kernel::monotonic;
use vink_sys::process::{affinity, cpus, current_cpu, one_cpu, set_affinity, CpuSet};

/// One of so many calls is sampled: not a number of calls that programs make over and over.
const STRIDE: u32 = 7;
/// So many samples are evaluated together.
const SAMPLE: usize = 32;
/// How many of them make a thread stay.
const MIN_CALLS: usize = 3;
/// They come thick and fast if they take less time (ns), and no longer if they take more.
const PIN_WITHIN: u64 = 8_000_000;
const UNPIN_AFTER: u64 = 12_000_000;
/// For how long they stay (ns).
const PIN_TIME: u64 = 1_000_000_000;

/// The threads that are pinned.
pub(crate) struct CpuAffinity {
    calls: u32,
    callers: Vec<i32>,
    /// When they were last evaluated (`CLOCK_MONOTONIC`, ns).
    since: u64,
    pinning: Option<Pinning>,
}

/// On one processor.
struct Pinning {
    processor: CpuSet,
    until: u64,
    /// What the worker and the threads had.
    own: CpuSet,
    threads: HashMap<i32, CpuSet>,
}

impl CpuAffinity {
    /// `None` if there is one processor only.
    pub(crate) fn new() -> Option<CpuAffinity> {
        let several = affinity(0).is_some_and(|own| own.count() > 1);
        several.then(|| CpuAffinity {
            calls: 0,
            callers: Vec::with_capacity(SAMPLE),
            since: monotonic(),
            pinning: None,
        })
    }

    /// A thread has made a call.
    pub(crate) fn count_call(&mut self, tid: i32) {
        self.calls += 1;
        if self.calls < STRIDE {
            return;
        }
        self.calls = 0;
        self.callers.push(tid);
        if self.callers.len() == SAMPLE {
            self.update();
        }
    }

    /// Decides which threads are pinned from now on.
    fn update(&mut self) {
        let now = monotonic();
        let took = now - std::mem::replace(&mut self.since, now);
        let mut notes = std::mem::replace(&mut self.callers, Vec::with_capacity(SAMPLE));
        if took > UNPIN_AFTER
            || self
                .pinning
                .as_ref()
                .is_some_and(|pinning| pinning.until < now)
        {
            return self.unpin_all();
        }
        if self.pinning.is_none() && took < PIN_WITHIN {
            self.pinning = Pinning::begin(now);
        }
        let Some(pinning) = &mut self.pinning else {
            return;
        };
        let quiet: Vec<i32> = pinning.threads.keys().copied().collect();
        for tid in quiet.iter().filter(|tid| !notes.contains(tid)) {
            pinning.unpin(*tid);
        }
        notes.sort_unstable();
        for same in notes
            .chunk_by(|a, b| a == b)
            .filter(|s| s.len() >= MIN_CALLS)
        {
            pinning.pin(same[0]);
        }
    }

    /// When all are unpinned unless calls come (`CLOCK_MONOTONIC`, ns); nothing is pinned where none
    /// come.
    pub(crate) fn due(&self) -> Option<u64> {
        self.pinning.as_ref().map(|_| self.since + UNPIN_AFTER)
    }

    /// It is now.
    pub(crate) fn expire(&mut self, now: u64) {
        if self.due().is_some_and(|due| due <= now) {
            self.unpin_all();
        }
    }

    /// All have their own affinity again.
    pub(crate) fn unpin_all(&mut self) {
        self.pinning = None;
    }

    /// A thread has its own affinity again.
    pub(crate) fn unpin(&mut self, tid: i32) {
        if let Some(pinning) = &mut self.pinning {
            pinning.unpin(tid);
        }
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, tid: i32) {
        if let Some(pinning) = &mut self.pinning {
            pinning.threads.remove(&tid);
        }
    }
}

impl Pinning {
    /// The worker stays where it is.
    fn begin(now: u64) -> Option<Pinning> {
        let own = affinity(0)?;
        let processor = one_cpu(current_cpu());
        set_affinity(0, &processor).then(|| Pinning {
            processor,
            until: now + PIN_TIME,
            own,
            threads: HashMap::new(),
        })
    }

    /// A thread stays too, if it may be there and the host lets this process say so.
    fn pin(&mut self, tid: i32) {
        if self.threads.contains_key(&tid) {
            return;
        }
        let Some(had) = affinity(tid) else { return };
        if had.count() > 1 && contains(&had, &self.processor) && set_affinity(tid, &self.processor)
        {
            self.threads.insert(tid, had);
        }
    }

    fn unpin(&mut self, tid: i32) {
        if let Some(had) = self.threads.remove(&tid) {
            self.restore(tid, &had);
        }
    }

    /// Unless another process has set it meanwhile.
    fn restore(&self, tid: i32, had: &CpuSet) {
        if affinity(tid).as_ref() == Some(&self.processor) {
            set_affinity(tid, had);
        }
    }
}

impl Drop for Pinning {
    fn drop(&mut self) {
        for (tid, had) in &self.threads {
            self.restore(*tid, had);
        }
        self.restore(0, &self.own);
    }
}

/// Whether the only member of the other one is a member.
fn contains(set: &CpuSet, one: &CpuSet) -> bool {
    cpus(one).any(|cpu| set.is_set(cpu))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A process that is as free as the test's thread was before that was bound.
    pub(crate) fn unbound_child(own: &CpuSet) -> std::process::Child {
        let mut sleep = std::process::Command::new("sleep");
        let child = sleep.arg("60").spawn().unwrap();
        assert!(set_affinity(child.id() as i32, own));
        child
    }

    #[test]
    fn stays() {
        let Some(mut pins) = CpuAffinity::new() else {
            return;
        };
        let own = affinity(0).expect("this thread's");
        let tid = vink_sys::process::gettid();
        for _ in 0..STRIDE as usize * SAMPLE {
            pins.count_call(tid);
        }
        // The worker is this thread; what it was given back is what it had.
        let pinning = pins.pinning.as_ref().expect("these calls are fast");
        assert_eq!(affinity(0).unwrap().count(), 1);
        assert!(pinning.own == own);
        pins.unpin_all();
        assert!(affinity(0).unwrap() == own);
        assert!(pins.due().is_none());
    }

    #[test]
    fn others_have_their_say() {
        let Some(own) = affinity(0).filter(|own| own.count() > 1) else {
            return;
        };
        let mut pinning = Pinning::begin(monotonic()).expect("of several processors");
        let mut child = unbound_child(&own);
        let tid = child.id() as i32;
        pinning.pin(tid);
        assert_eq!(affinity(tid).unwrap().count(), 1);
        pinning.unpin(tid);
        assert_eq!(affinity(tid).unwrap().count(), own.count());
        pinning.pin(tid);
        assert!(set_affinity(tid, &own));
        drop(pinning);
        assert_eq!(affinity(tid).unwrap().count(), own.count());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
