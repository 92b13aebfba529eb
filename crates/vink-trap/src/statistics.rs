//! What a worker counts.

use std::collections::BTreeMap;

use crate::advice::advice;

/// What a worker counted since it was made.
#[derive(Clone, Debug)]
pub struct Statistics {
    trapped: Vec<u64>,
    unsupported: BTreeMap<i64, u64>,
    pub(crate) posted: u64,
    pub(crate) deferred: u64,
    pub(crate) refused: u64,
}

impl Statistics {
    pub(crate) fn new() -> Statistics {
        Statistics {
            trapped: vec![0; vink_syscalls::NR_END],
            unsupported: BTreeMap::new(),
            posted: 0,
            deferred: 0,
            refused: 0,
        }
    }

    /// This system call was trapped.
    pub(crate) fn count_trapped(&mut self, nr: i64) {
        if let Some(count) = self.trapped.get_mut(nr as usize) {
            *count += 1;
        }
    }

    /// This system call had to be refused or treated as something simpler.
    pub(crate) fn count_unsupported(&mut self, nr: i64) {
        *self.unsupported.entry(nr).or_default() += 1;
    }

    /// How often each system call was trapped: number, count.
    pub fn trapped(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let all = self.trapped.iter().enumerate();
        all.filter(|(_, n)| **n > 0).map(|(nr, n)| (nr as i64, *n))
    }

    /// How many calls were posted in shared memory, and made in the kernel; see
    /// [`Worker::allow_shared_rings`].
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// How many of these were not refused, to be made as system calls.
    pub(crate) fn served(&self) -> u64 {
        self.posted.saturating_sub(self.refused)
    }

    /// How many of these were sends that their threads did not wait for.
    pub fn deferred_sends(&self) -> u64 {
        self.deferred
    }

    /// Calls on Vink files that the interposer had to refuse or treat as something simpler: number,
    /// count, what was done and what can be done about it.
    pub fn unsupported(&self) -> impl Iterator<Item = (i64, u64, &'static str)> + '_ {
        self.unsupported
            .iter()
            .map(|(nr, n)| (*nr, *n, advice(*nr)))
    }
}
