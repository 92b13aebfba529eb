//! How long a thread that waits for packets spins before it blocks.
//!
//! A thread that shares its processor with others is *crowded* (`vink_sys::contention`): it blocks at once for a while,
//! near to the thread that wakes it (`meeting`).

use std::cell::Cell;
use std::os::fd::IntoRawFd;
use std::time::Duration;

use vink_sys::contention::{shows_contention, FIRST_PAUSE, WINDOW};
use vink_sys::procfs::SchedStat;
use vink_sys::rustix::fs::{open, Mode, OFlags};
use vink_sys::rustix::io::{close, pread};

use crate::host;
use crate::meeting::Meeting;

/// The longest pause: what it takes to notice that the others have gone. A pause is four times the one before.
const LONGEST: Duration = Duration::from_millis(320);

/// How often a crowded thread looks whether it mostly waits. Not in the first pauses: a short delay is no crowd.
const LOOK: Duration = Duration::from_millis(25);

/// The account of one thread. Only that thread uses it.
#[derive(Debug)]
pub(crate) struct SpinBudget {
    /// The open account; -1: not opened yet, or there is none.
    file: Cell<i32>,
    opened: Cell<bool>,
    /// When the account was last looked at.
    looked: Cell<u64>,
    before: Cell<SchedStat>,
    /// What it said when the thread began to spin, or did so again.
    begun: Cell<SchedStat>,
    /// When that was.
    resumed: Cell<u64>,
    /// Waits that began to spin since that look, and those that were in vain: nothing came meanwhile.
    spins: Cell<u32>,
    in_vain: Cell<u32>,
    /// The thread does not spin until then; 0: it does.
    crowded_until: Cell<u64>,
    /// How long it does not, next time.
    pause: Cell<Duration>,
}

impl SpinBudget {
    pub fn new() -> SpinBudget {
        SpinBudget {
            file: Cell::new(-1),
            opened: Cell::new(false),
            looked: Cell::new(0),
            before: Cell::default(),
            begun: Cell::default(),
            resumed: Cell::new(0),
            spins: Cell::new(0),
            in_vain: Cell::new(0),
            crowded_until: Cell::new(0),
            pause: Cell::new(FIRST_PAUSE),
        }
    }

    /// For how many ns the calling thread may spin now, of `most`.
    pub fn allowed(&self, now: u64, most: u64, meeting: Option<Meeting>) -> u64 {
        if most == 0 {
            return 0;
        }
        if now < self.crowded_until.get() {
            if let Some(meeting) = meeting.filter(|_| now >= self.looked.get() + ns(LOOK)) {
                self.look(now, meeting);
            }
            return 0;
        }
        let is_crowded = self.crowded_until.get() != 0;
        if is_crowded || now >= self.looked.get() + ns(WINDOW) {
            if let Some(account) = self.read() {
                self.weigh(now, account);
            }
        }
        match self.crowded_until.get() {
            0 => {
                // Without an account they are never counted anew.
                self.spins.set(self.spins.get().saturating_add(1));
                most
            }
            _ => 0,
        }
    }

    /// The thread has spun for as long as it was allowed to, and has to block.
    pub fn was_in_vain(&self) {
        self.in_vain.set(self.in_vain.get().saturating_add(1));
    }

    /// A crowded thread that mostly waits joins the other end's; one that computes has more of a processor of its own.
    fn look(&self, now: u64, meeting: Meeting) {
        let Some(account) = self.read() else {
            return;
        };
        let SchedStat { ran, delayed } = account.since(self.before.replace(account));
        let since = self.looked.replace(now);
        if ns(ran + delayed) < (now - since) / 4 * 3 {
            meeting.join();
        }
    }

    fn weigh(&self, now: u64, account: SchedStat) {
        let before = self.before.replace(account);
        let since = self.looked.replace(now);
        let is_futile = self.in_vain.replace(0) > self.spins.replace(0) / 2;
        if self.crowded_until.replace(0) != 0 || since == 0 {
            // It tries again; what it was delayed meanwhile says nothing about spinning.
            self.begun.set(account);
            self.resumed.set(now);
            return;
        }
        let pause = self.pause.get();
        // Beside a crowd the thread that is waited for may have to wait for this one's processor, and
        // this one for none.
        let is_same_crowd = is_futile && pause > FIRST_PAUSE;
        if !is_same_crowd && !shows_contention(account, before) {
            if now >= self.resumed.get() + ns(pause) {
                self.pause.set(FIRST_PAUSE);
            }
            return;
        }
        // A slice of the host's scheduler is longer than a window, so a busy process does not show in
        // each. It shows in all that the thread has run since it tried again; a short delay does not.
        let pause = match is_same_crowd || shows_contention(account, self.begun.get()) {
            true => pause,
            false => FIRST_PAUSE,
        };
        // The other end tries again at the same time: alone it would spin in vain.
        self.crowded_until
            .set((now + ns(pause)).next_multiple_of(ns(pause)));
        self.pause.set(LONGEST.min(4 * pause));
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
        self.spins.set(0);
        self.in_vain.set(0);
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
    use super::*;

    const MS: u64 = 1_000_000;
    const SPIN: u64 = 50_000;

    /// A thread with an account that is made up.
    struct Thread {
        budget: SpinBudget,
        now: u64,
        account: SchedStat,
    }

    impl Thread {
        fn new() -> Thread {
            let mut thread = Thread {
                budget: SpinBudget::new(),
                now: 12 * MS,
                account: SchedStat::default(),
            };
            assert!(thread.may_spin());
            thread
        }

        /// As `allowed`.
        fn may_spin(&mut self) -> bool {
            let budget = &self.budget;
            let is_crowded = budget.crowded_until.get() != 0;
            let is_due = self.now >= budget.looked.get() + ns(WINDOW);
            if self.now >= budget.crowded_until.get() && (is_crowded || is_due) {
                budget.weigh(self.now, self.account);
            }
            budget.crowded_until.get() == 0
        }

        /// It runs and is delayed for so many windows; whether it may spin.
        fn after(&mut self, ran: u32, delayed: u32) -> bool {
            self.now += ns((ran + delayed) * WINDOW);
            self.account.ran += ran * WINDOW;
            self.account.delayed += delayed * WINDOW;
            self.may_spin()
        }

        /// It blocks until its pause is over, the length of which is returned.
        fn pauses(&mut self) -> u64 {
            let until = self.budget.crowded_until.get();
            let pause = until - self.now;
            self.now = until - 1;
            self.account.delayed += 50 * WINDOW;
            assert!(!self.may_spin());
            self.now = until;
            assert!(self.may_spin());
            pause
        }
    }

    #[test]
    fn a_crowded_thread_blocks_at_once_and_tries_less_often() {
        let mut thread = Thread::new();
        for _ in 0..100 {
            assert!(thread.after(1, 0));
        }
        let mut pauses = Vec::new();
        for _ in 0..10 {
            // A busy process runs for some windows, the thread for some: that is the same crowd.
            assert!(thread.after(1, 0));
            assert!(!thread.after(0, 2));
            pauses.push(thread.pauses());
        }
        assert!((ns(FIRST_PAUSE)..2 * ns(FIRST_PAUSE)).contains(&pauses[0]));
        let grows = |pair: &[u64]| pair[1] > 2 * pair[0] || pair[1] > ns(LONGEST) / 2;
        assert!(pauses.windows(2).all(grows), "{pauses:?}");
        // Both ends try again at once.
        assert_eq!(thread.now % ns(LONGEST), 0);
    }

    #[test]
    fn a_crowd_that_has_gone_is_forgotten() {
        let mut thread = Thread::new();
        for _ in 0..5 {
            assert!(!thread.after(1, 2));
            thread.pauses();
        }
        // One comes by, again and again.
        for _ in 0..5 {
            for _ in 0..LONGEST.div_duration_f64(WINDOW) as u32 {
                assert!(thread.after(1, 0));
            }
            assert!(!thread.after(1, 1));
            assert!(thread.pauses() < 2 * ns(FIRST_PAUSE));
        }
    }

    /// The thread that it waits for may be waiting for this one's processor.
    #[test]
    fn what_is_in_vain_after_a_pause_is_left() {
        let mut thread = Thread::new();
        let spins = |thread: &Thread, in_vain: u32| {
            thread.budget.spins.set(10);
            (0..in_vain).for_each(|_| thread.budget.was_in_vain());
        };
        spins(&thread, 10);
        assert!(thread.after(1, 0), "no crowd was there");
        assert!(!thread.after(1, 1));
        thread.pauses();
        spins(&thread, 5);
        assert!(thread.after(1, 0));
        spins(&thread, 6);
        assert!(!thread.after(1, 0));
        thread.pauses();
    }

    #[test]
    fn a_thread_that_does_not_spin_does_not_look() {
        let budget = SpinBudget::new();
        assert_eq!(budget.allowed(MS, 0, None), 0);
        assert!(!budget.opened.get());
        assert_eq!(budget.allowed(10 * MS, SPIN, None), SPIN);
        assert!(budget.opened.get());
        assert!(budget.read().is_some(), "this thread's");
        budget.reset();
    }
}
