//! How long a thread that waits for packets spins before it blocks.
//!
//! Spinning pays as long as the host has nothing else to run on this processor. Beside busy processes it delays the very
//! thread that is waited for. So each thread looks at its run queue delay, of which the host's kernel keeps an account
//! (`/proc/thread-self/schedstat`). If that is a good part of what the thread has run, the thread is *crowded*: it blocks at
//! once for a while, then tries again, and waits longer each time that it is found crowded at once.

use std::cell::Cell;
use std::os::fd::IntoRawFd;

use vink_sys::rustix::fs::{open, Mode, OFlags};
use vink_sys::rustix::io::{close, pread};

use crate::host;

const MS: u64 = 1_000_000;
/// How often the account is looked at, in ns.
const WINDOW: u64 = 2 * MS;
/// A delay that counts, and how many times as much the thread has run at most if it is crowded.
const DELAY: u64 = MS;
const SHARE: u64 = 4;
/// For how long a crowded thread does not spin, at first and at most.
const FIRST: u64 = 5 * MS;
const MOST: u64 = 1600 * MS;

/// What the account says, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    ran: u64,
    /// Runnable, and not running.
    delayed: u64,
}

impl Account {
    fn parse(text: &str) -> Option<Account> {
        let mut fields = text.split_ascii_whitespace();
        let mut next = || fields.next()?.parse().ok();
        Some(Account {
            ran: next()?,
            delayed: next()?,
        })
    }

    /// Whether what has been added since `before` shows that other threads want the processor.
    fn shows_crowd(self, before: Account) -> bool {
        let ran = self.ran.saturating_sub(before.ran);
        let delayed = self.delayed.saturating_sub(before.delayed);
        delayed >= DELAY && delayed.saturating_mul(SHARE) > ran
    }
}

/// The account of one thread. Only that thread uses it.
#[derive(Debug)]
pub(crate) struct SpinBudget {
    /// The open account; -1: not opened yet, or there is none.
    file: Cell<i32>,
    opened: Cell<bool>,
    /// When the account was last looked at.
    looked: Cell<u64>,
    before: Cell<Account>,
    /// The thread does not spin until then; 0: it does.
    crowded_until: Cell<u64>,
    pause: Cell<u64>,
}

impl SpinBudget {
    pub fn new() -> SpinBudget {
        SpinBudget {
            file: Cell::new(-1),
            opened: Cell::new(false),
            looked: Cell::new(0),
            before: Cell::default(),
            crowded_until: Cell::new(0),
            pause: Cell::new(FIRST),
        }
    }

    /// For how many ns the calling thread may spin now, of `most`.
    pub fn allowed(&self, now: u64, most: u64) -> u64 {
        if most == 0 || now < self.crowded_until.get() {
            return 0;
        }
        if self.crowded_until.get() == 0 && now < self.looked.get() + WINDOW {
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

    fn weigh(&self, now: u64, account: Account) {
        let before = self.before.replace(account);
        let since = self.looked.replace(now);
        if self.crowded_until.replace(0) != 0 || since == 0 {
            // It tries again; what it was delayed meanwhile says nothing about spinning.
            return;
        }
        if account.shows_crowd(before) {
            let pause = self.pause.get();
            self.crowded_until.set(now + pause);
            self.pause.set(MOST.min(pause * 2));
        } else {
            self.pause.set(FIRST.max(self.pause.get() / 2));
        }
    }

    fn read(&self) -> Option<Account> {
        if !self.opened.replace(true) {
            self.file.set(open_account());
        }
        let mut text = [0u8; 80];
        if self.file.get() < 0 {
            return None;
        }
        let len = pread(host::own(self.file.get()), &mut text, 0).ok()?;
        let text = text.get(..len)?;
        Account::parse(std::str::from_utf8(text).ok()?)
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
        self.pause.set(FIRST);
    }
}

/// Opens the calling thread's account; -1 if there is none.
fn open_account() -> i32 {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = open(c"/proc/thread-self/schedstat", flags, Mode::empty());
    file.map_or(-1, |file| host::moved(file.into_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: u64 = 50_000;

    #[test]
    fn accounts_are_read() {
        let account = Account {
            ran: 1_010_775,
            delayed: 880_811,
        };
        assert_eq!(Account::parse("1010775 880811 2\n"), Some(account));
        assert_eq!(Account::parse("0\n"), None);
        let budget = SpinBudget::new();
        assert!(budget.read().is_some(), "this thread's");
        budget.reset();
    }

    /// As `allowed`, with this account.
    fn allowed(budget: &SpinBudget, now: u64, account: Account) -> bool {
        if now >= budget.crowded_until.get()
            && (budget.crowded_until.get() != 0 || now >= budget.looked.get() + WINDOW)
        {
            budget.weigh(now, account);
        }
        budget.crowded_until.get() == 0
    }

    #[test]
    fn a_crowded_thread_blocks_at_once_and_tries_less_often() {
        let budget = SpinBudget::new();
        let mut account = Account::default();
        let mut now = 10 * MS;
        // It has its processor, but for what an interrupt takes.
        for _ in 0..100 {
            now += WINDOW;
            account.ran += WINDOW;
            account.delayed += WINDOW / 50;
            assert!(allowed(&budget, now, account));
        }
        let mut pauses = Vec::new();
        for _ in 0..10 {
            now += WINDOW;
            account.ran += MS;
            account.delayed += MS;
            assert!(!allowed(&budget, now, account));
            let until = budget.crowded_until.get();
            pauses.push(until - now);
            assert!(!allowed(&budget, until - 1, account));
            now = until;
            account.delayed += 100 * MS;
            assert!(allowed(&budget, now, account));
        }
        assert!(pauses.is_sorted() && pauses[0] == FIRST && pauses[9] == MOST);
        // The others have gone.
        for _ in 0..10 {
            now += WINDOW;
            account.ran += WINDOW;
            assert!(allowed(&budget, now, account));
        }
        assert_eq!(budget.pause.get(), FIRST);
    }

    #[test]
    fn a_thread_that_does_not_spin_does_not_look() {
        let budget = SpinBudget::new();
        assert_eq!(budget.allowed(MS, 0), 0);
        assert!(!budget.opened.get());
        assert_eq!(budget.allowed(10 * MS, SPIN), SPIN);
        assert!(budget.opened.get());
        budget.reset();
    }
}
