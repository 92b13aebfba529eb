//! How long a thread that waits for packets spins before it blocks.
//!
//! Beside busy processes (`vink_sys::contention`) it spins half as long, but it still spins, as long as packets come
//! meanwhile: a thread that blocks and the one that wakes it need an interrupt between processors, which in a virtual
//! machine costs both some 20 µs. If no packets come, the thread that would send them may be waiting for this one's
//! processor, so this one goes to another. Both ends do, and neither knows the other's place; therefore the processor is
//! drawn by lot. After some lots in vain the thread is *crowded*, and blocks at once for a while.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::IntoRawFd;
use std::time::Duration;

use vink_sys::contention::{shows_contention, FIRST_PAUSE, WINDOW};
use vink_sys::process::{affinity, cpus, current_cpu, one_cpu, set_affinity};
use vink_sys::procfs::SchedStat;
use vink_sys::rustix::fs::{open, Mode, OFlags};
use vink_sys::rustix::io::{close, pread};

use crate::host;

/// The longest pause: what it takes to notice that the others have gone. A pause is four times the one before.
const LONGEST: Duration = Duration::from_millis(320);

/// Lots before a pause. Of two processors, both ends draw the same one in half of all cases.
const MOST_LOTS: u32 = 6;

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
    /// Busy processes use its processor too.
    beside_others: Cell<bool>,
    /// Processors drawn since spinning last went well.
    lots: Cell<u32>,
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
            beside_others: Cell::new(false),
            lots: Cell::new(0),
            crowded_until: Cell::new(0),
            pause: Cell::new(FIRST_PAUSE),
        }
    }

    /// For how many ns the calling thread may spin now, of `most`.
    pub fn allowed(&self, now: u64, most: u64) -> u64 {
        if most == 0 || now < self.crowded_until.get() {
            return 0;
        }
        let is_crowded = self.crowded_until.get() != 0;
        if is_crowded || now >= self.looked.get() + ns(WINDOW) {
            if let Some(account) = self.read() {
                if self.weigh(now, account) && !move_to_any_processor(now) {
                    // No lot helps.
                    self.lots.set(MOST_LOTS);
                }
            }
        }
        match self.crowded_until.get() {
            0 => {
                // Without an account they are never counted anew.
                self.spins.set(self.spins.get().saturating_add(1));
                match self.beside_others.get() {
                    true => most / 2,
                    false => most,
                }
            }
            _ => 0,
        }
    }

    /// The thread has spun for as long as it was allowed to, and has to block.
    pub fn was_in_vain(&self) {
        self.in_vain.set(self.in_vain.get().saturating_add(1));
    }

    /// Whether the thread is to try another processor.
    fn weigh(&self, now: u64, account: SchedStat) -> bool {
        let before = self.before.replace(account);
        let since = self.looked.replace(now);
        let is_futile = self.in_vain.replace(0) > self.spins.replace(0) / 2;
        if self.crowded_until.replace(0) != 0 || since == 0 {
            // It tries again; what it was delayed meanwhile says nothing about spinning.
            self.begun.set(account);
            self.resumed.set(now);
            self.lots.set(0);
            return false;
        }
        let pause = self.pause.get();
        // A slice of the host's scheduler is longer than a window, so a busy process does not show in
        // each. It shows in all that the thread has run since it tried again.
        let is_beside_others = pause > FIRST_PAUSE
            || shows_contention(account, before)
            || shows_contention(account, self.begun.get());
        self.beside_others.set(is_beside_others);
        if !is_futile || !is_beside_others {
            if now >= self.resumed.get() + ns(pause) {
                self.resumed.set(now);
                self.begun.set(account);
                self.pause.set(FIRST_PAUSE);
                self.lots.set(0);
            }
            return false;
        }
        if self.lots.get() < MOST_LOTS {
            self.lots.set(self.lots.get() + 1);
            return true;
        }
        // The other end tries again at the same time: alone it would spin in vain.
        self.crowded_until
            .set((now + ns(pause)).next_multiple_of(ns(pause)));
        self.pause.set(LONGEST.min(4 * pause));
        false
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
        self.beside_others.set(false);
        self.lots.set(0);
        self.crowded_until.set(0);
        self.pause.set(FIRST_PAUSE);
    }
}

/// Puts the calling thread on a processor that the lot names, of those that it may use; false: it may use but one.
/// Its affinity (sched_setaffinity(2)) stays, so the host's scheduler may move it on; one that another process sets
/// just then is lost.
fn move_to_any_processor(lot: u64) -> bool {
    let Some(allowed) = affinity(0).filter(|allowed| allowed.count() > 1) else {
        return false;
    };
    let mut hasher = DefaultHasher::new();
    (lot, std::process::id()).hash(&mut hasher);
    let lot = hasher.finish() % u64::from(allowed.count());
    let processor = cpus(&allowed).nth(lot as usize);
    if let Some(processor) = processor.filter(|processor| *processor != current_cpu()) {
        if set_affinity(0, &one_cpu(processor)) {
            // It is what the thread had a moment ago, so it can't be refused.
            set_affinity(0, &allowed);
        }
    }
    true
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
        moves: u32,
    }

    impl Thread {
        fn new() -> Thread {
            let mut thread = Thread {
                budget: SpinBudget::new(),
                now: 12 * MS,
                account: SchedStat::default(),
                moves: 0,
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
                self.moves += u32::from(budget.weigh(self.now, self.account));
            }
            budget.crowded_until.get() == 0
        }

        /// It runs and is delayed for so many windows, and of ten spins these are in vain; whether it may spin.
        fn after(&mut self, ran: u32, delayed: u32, in_vain: u32) -> bool {
            self.now += ns((ran + delayed) * WINDOW);
            self.account.ran += ran * WINDOW;
            self.account.delayed += delayed * WINDOW;
            self.budget.spins.set(10);
            (0..in_vain).for_each(|_| self.budget.was_in_vain());
            self.may_spin()
        }

        /// It spins in vain, and tries other processors.
        fn draws(&mut self) {
            let before = self.moves;
            (0..MOST_LOTS).for_each(|_| assert!(self.after(1, 1, 10)));
            assert_eq!(self.moves - before, MOST_LOTS);
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
    fn a_thread_that_spins_in_vain_beside_others_moves_and_then_blocks_at_once() {
        let mut thread = Thread::new();
        for _ in 0..100 {
            assert!(thread.after(1, 0, 10), "nothing else runs there");
        }
        assert_eq!(thread.moves, 0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            thread.draws();
            assert!(!thread.after(1, 1, 6));
            pauses.push(thread.pauses());
        }
        assert!((ns(FIRST_PAUSE)..2 * ns(FIRST_PAUSE)).contains(&pauses[0]));
        let grows = |pair: &[u64]| pair[1] > 2 * pair[0] || pair[1] > ns(LONGEST) / 2;
        assert!(pauses.windows(2).all(grows), "{pauses:?}");
        // Both ends try again at once.
        assert_eq!(thread.now % ns(LONGEST), 0);
    }

    /// The other end has a processor, if not always.
    #[test]
    fn a_thread_that_gets_packets_spins_beside_others_too() {
        let mut thread = Thread::new();
        for _ in 0..1000 {
            assert!(thread.after(1, 2, 5));
        }
        assert_eq!(thread.moves, 0);
    }

    #[test]
    fn what_was_in_vain_once_is_forgotten() {
        let mut thread = Thread::new();
        for _ in 0..5 {
            thread.draws();
            assert!(!thread.after(1, 2, 10));
            thread.pauses();
        }
        for _ in 0..5 {
            for _ in 0..LONGEST.div_duration_f64(WINDOW) as u32 {
                assert!(thread.after(1, 0, 0));
            }
            thread.draws();
            assert!(!thread.after(1, 1, 10));
            assert!(thread.pauses() < 2 * ns(FIRST_PAUSE));
        }
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

    #[test]
    fn a_lot_moves_the_thread_and_leaves_its_affinity() {
        let before = affinity(0).expect("a set");
        let mut places: Vec<usize> = Vec::new();
        for lot in 0..64 {
            assert_eq!(move_to_any_processor(lot), before.count() > 1);
            places.push(current_cpu());
            assert_eq!(affinity(0).expect("a set"), before);
        }
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 1 || before.count() == 1);
        let alone = one_cpu(places[0]);
        assert!(set_affinity(0, &alone));
        assert!(!move_to_any_processor(0));
        assert_eq!(affinity(0).expect("a set"), alone);
        set_affinity(0, &before);
    }
}
