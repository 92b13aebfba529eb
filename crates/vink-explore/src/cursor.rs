//! Where a process is in the tree of schedules, as its parent sees it: so that another one can go on there when
//! it has died.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::forks::common;
use crate::Error;

/// Steps at most; what is deeper is not seen.
const DEPTH: usize = 32;

/// A branch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The interface's place among all.
    pub place: usize,
    /// The packet's number there.
    pub packet: u32,
    /// Its fate's place among those that are tried.
    pub fate: usize,
    /// How many first deviations come before it, if it is the first one.
    pub first: usize,
}

/// Memory that forks share.
#[repr(C)]
pub(crate) struct Cursor {
    len: AtomicUsize,
    /// Of each step place, packet, fate, first.
    steps: [[AtomicU64; 4]; DEPTH],
}

impl Cursor {
    /// At the root.
    pub fn new() -> Result<&'static Cursor, Error> {
        let cursor = common(size_of::<Cursor>())?.cast::<Cursor>();
        // SAFETY: so many bytes of zeroes, aligned to pages, never unmapped; all of it is atomic.
        Ok(unsafe { &*cursor })
    }

    /// The process is in this branch, the last of so many more.
    pub fn go(&self, depth: usize, step: Step) {
        let Some(there) = self.steps.get(depth) else {
            return;
        };
        let numbers = [step.place, step.packet as usize, step.fate, step.first];
        for (there, number) in there.iter().zip(numbers) {
            there.store(number as u64, Ordering::Relaxed);
        }
        self.back(depth + 1);
    }

    /// It is in so many branches.
    pub fn back(&self, depth: usize) {
        self.len.store(depth, Ordering::Relaxed);
    }

    /// The branches that it is in.
    pub fn path(&self) -> Vec<Step> {
        let len = self.len.load(Ordering::Relaxed).min(DEPTH);
        let step = |numbers: &[AtomicU64; 4]| {
            let [place, packet, fate, first] = numbers
                .each_ref()
                .map(|number| number.load(Ordering::Relaxed) as usize);
            Step {
                place,
                packet: packet as u32,
                fate,
                first,
            }
        };
        self.steps[..len].iter().map(step).collect()
    }
}
