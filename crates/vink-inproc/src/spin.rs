//! How long a thread that waits for packets spins before it blocks.
//!
//! A thread that shares its processor with others is *crowded* (`vink_sys::contention`): it blocks at once for a while.

use std::cell::Cell;
use std::os::fd::IntoRawFd;
use std::time::Duration;

use vink_sys::contention::{longer, shorter, shows_contention, FIRST_PAUSE, WINDOW};
use vink_sys::procfs::SchedStat;
use vink_sys::rustix::fs::{open, Mode, OFlags};
use vink_sys::rustix::io::{close, pread};

use crate::host;

/// The account of one thread. Only that thread uses it.
#[derive(Debug)]
pub(crate) struct SpinBudget {
    /// The open account; -1: not opened yet, or there is none.
    file: Cell<i32>,
    opened: Cell<bool>,
    /// When the account was last looked at.
    looked: Cell<u64>,
    before: Cell<SchedStat>,
    /// The thread does not spin until then; 0: it does.
    crowded_until: Cell<u64>,
    pause: Cell<Duration>,
}

impl SpinBudget {
    pub fn new() -> SpinBudget {
        SpinBudget {
            file: Cell::new(-1),
            opened: Cell::new(false),
            looked: Cell::new(0),
            before: Cell::default(),
            crowded_until: Cell::new(0),
            pause: Cell::new(FIRST_PAUSE),
        }
    }

    /// For how many ns the calling thread may spin now, of `most`.
    pub fn allowed(&self, now: u64, most: u64) -> u64 {
        if most == 0 || now < self.crowded_until.get() {
            return 0;
        }
        if self.crowded_until.get() == 0 && now < self.looked.get() + ns(WINDOW) {
            return most;
        }
        if let Some(account) = self.read() {
            self.weigh(now, account);
        }
        match self.crowded_until.get() {
            0 => most,
            _ => 0,
        }
    }

    fn weigh(&self, now: u64, account: SchedStat) {
        let before = self.before.replace(account);
        let since = self.looked.replace(now);
        if self.crowded_until.replace(0) != 0 || since == 0 {
            // It tries again; what it was delayed meanwhile says nothing about spinning.
            return;
        }
        let pause = self.pause.get();
        if shows_contention(account, before) {
            self.crowded_until.set(now + ns(pause));
            self.pause.set(longer(pause));
        } else {
            self.pause.set(shorter(pause));
        }
    }

    fn read(&self) -> Option<SchedStat> {
        if !self.opened.replace(true) {
            self.file.set(open_account());
        }
        let mut text = [0u8; 80];
        if self.file.get() < 0 {
            return None;
        }
        let len = pread(host::own(self.file.get()), &mut text, 0).ok()?;
        let text = text.get(..len)?;
        SchedStat::parse(std::str::from_utf8(text).ok()?)
    }

    /// The thread has ended; another one may use this.
    pub fn reset(&self) {
        if self.file.get() >= 0 {
            // SAFETY: a descriptor that only this uses.
            unsafe { close(self.file.get()) };
        }
        self.file.set(-1);
        self.opened.set(false);
        self.looked.set(0);
        self.crowded_until.set(0);
        self.pause.set(FIRST_PAUSE);
    }
}

fn ns(span: Duration) -> u64 {
    span.as_nanos() as u64
}

/// Opens the calling thread's account; -1 if there is none.
fn open_account() -> i32 {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(c"/proc/thread-self/schedstat", flags, Mode::empty());
    file.map_or(-1, |file| host::moved(file.into_raw_fd()))
}

#[cfg(test)]
mod tests {
    use vink_sys::contention::MAX_PAUSE;

    use super::*;

    const MS: u64 = 1_000_000;
    const SPIN: u64 = 50_000;

    /// As `allowed`, with this account.
    fn allowed(budget: &SpinBudget, now: u64, account: SchedStat) -> bool {
        if now >= budget.crowded_until.get()
            && (budget.crowded_until.get() != 0 || now >= budget.looked.get() + ns(WINDOW))
        {
            budget.weigh(now, account);
        }
        budget.crowded_until.get() == 0
    }

    #[test]
    fn a_crowded_thread_blocks_at_once_and_tries_less_often() {
        let budget = SpinBudget::new();
        let mut account = SchedStat::default();
        let mut now = 10 * MS;
        // It has its processor, but for what an interrupt takes.
        for _ in 0..100 {
            now += ns(WINDOW);
            account.ran += WINDOW;
            account.delayed += WINDOW / 50;
            assert!(allowed(&budget, now, account));
        }
        let mut pauses = Vec::new();
        for _ in 0..10 {
            now += ns(WINDOW);
            account.ran += WINDOW / 2;
            account.delayed += WINDOW / 2;
            assert!(!allowed(&budget, now, account));
            let until = budget.crowded_until.get();
            pauses.push(until - now);
            assert!(!allowed(&budget, until - 1, account));
            now = until;
            account.delayed += 50 * WINDOW;
            assert!(allowed(&budget, now, account));
        }
        assert!(pauses.is_sorted() && pauses[0] == ns(FIRST_PAUSE) && pauses[9] == ns(MAX_PAUSE));
        // The others have gone.
        for _ in 0..10 {
            now += ns(WINDOW);
            account.ran += WINDOW;
            assert!(allowed(&budget, now, account));
        }
        assert_eq!(budget.pause.get(), FIRST_PAUSE);
    }

    #[test]
    fn a_thread_that_does_not_spin_does_not_look() {
        let budget = SpinBudget::new();
        assert_eq!(budget.allowed(MS, 0), 0);
        assert!(!budget.opened.get());
        assert_eq!(budget.allowed(10 * MS, SPIN), SPIN);
        assert!(budget.opened.get());
        assert!(budget.read().is_some(), "this thread's");
        budget.reset();
    }
}
