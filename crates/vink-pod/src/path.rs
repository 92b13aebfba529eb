//! A path: what it may use, which is charged at each crossing, what it has counted, and how what
//! streams through it opens it.
//!
//! What a path has used beyond its budget it owes to the periods that follow: it waits until all of
//! it is paid. So a path gets what its budget says over any length of time, whatever one of its
//! packets takes.

use crate::Stage;

/// What a path has counted. A path of a stream has units where one of packets has packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathNumbers {
    /// Packets that have come.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Cycles of crossings.
    pub cycles: u64,
    /// Crossings of pods' walls.
    pub crossings: u64,
    /// Packets that have left.
    pub passed: u64,
    /// Of them, those that a pod has changed.
    pub changed: u64,
    /// Packets that a pod has dropped.
    pub dropped: u64,
    /// Packets that pods have made.
    pub emitted: u64,
    /// Packets that had to wait for another period.
    pub waited: u64,
    /// Packets that wait now.
    pub waiting: u64,
    /// How often the budget was spent and more was there.
    pub overdrafts: u64,
    /// Packets that were lost for want of room, of time or of a pod.
    pub lost: u64,
    /// Of a stream's units: those that have left too late.
    pub late: u64,
    /// Of a stream's lost units: those that were left out before work was spent on them.
    pub shed: u64,
}

/// A path of a stream, as what streams through it has it. It is closed when this is dropped.
pub struct OpenPath {
    /// Its name.
    pub name: String,
    /// Its pods, in order; those of the same name are the same in all paths.
    pub pods: Vec<Stage>,
    /// Of several paths, the highest goes first.
    pub class: u32,
    /// What it may use.
    pub account: Account,
    /// What passes goes on as it is when a pod has ended; else it does not go on.
    pub passes_on_fault: bool,
    /// Takes its numbers.
    pub meter: Box<dyn Meter>,
}

/// Takes what a path has counted, for those that ask.
pub trait Meter {
    /// All so far.
    fn count(&self, numbers: PathNumbers);
}

/// Where paths of streams are found.
pub trait OpenPaths {
    /// Opens these, for one stream or, if `anew` is not set, for many connections; at this time of
    /// the lab's clock, ns. A path is open once. With `anew` each of their pods is as it was loaded:
    /// it has seen no other stream.
    ///
    /// # Errors
    /// A sentence, for users.
    fn open(&self, paths: &[String], anew: bool, now: u64) -> Result<Vec<OpenPath>, String>;
}

/// What a path may use in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The period's length, ns.
    pub period: u64,
    /// Cycles of the processor; `None`: any number.
    pub cycles: Option<u64>,
    /// Bytes of frames; `None`: any number.
    pub bytes: Option<u64>,
}

/// What a path has used.
#[derive(Clone, Debug)]
pub struct Account {
    budget: Budget,
    /// When this period began, ns of the lab's clock.
    began: u64,
    /// Owed by this period.
    owed_cycles: u64,
    owed_bytes: u64,
    /// Cycles of a packet, on average.
    each: u64,
}

impl PathNumbers {
    /// By name, for a path of a stream or of packets.
    pub fn by_name(&self, is_stream: bool) -> Vec<(String, u64)> {
        let all = [
            ("packets", self.packets),
            ("bytes", self.bytes),
            ("cycles", self.cycles),
            ("crossings", self.crossings),
            ("passed", self.passed),
            ("changed", self.changed),
            ("dropped", self.dropped),
            ("emitted", self.emitted),
            ("waited", self.waited),
            ("waiting", self.waiting),
            ("overdrafts", self.overdrafts),
            ("lost", self.lost),
        ];
        let more = [("late", self.late), ("shed", self.shed)];
        let more = more.into_iter().filter(|_| is_stream);
        let all = all.into_iter().chain(more);
        all.map(|(name, n)| (name.to_owned(), n)).collect()
    }
}

impl Account {
    /// Of a path that begins now, in ns of the lab's clock.
    pub fn new(budget: Budget, now: u64) -> Account {
        Account {
            budget,
            began: now,
            owed_cycles: 0,
            owed_bytes: 0,
            each: 0,
        }
    }

    /// How many packets may cross now, at least one: `None`, any number; 0: none before
    /// [`Account::opens`].
    pub fn admits(&mut self, now: u64) -> Option<usize> {
        let periods = now.saturating_sub(self.began) / self.budget.period;
        self.began += periods * self.budget.period;
        let pay = |owed: u64, budget: Option<u64>| match budget {
            Some(budget) => owed.saturating_sub(periods.saturating_mul(budget)),
            None => 0,
        };
        self.owed_cycles = pay(self.owed_cycles, self.budget.cycles);
        self.owed_bytes = pay(self.owed_bytes, self.budget.bytes);
        if self
            .budget
            .bytes
            .is_some_and(|budget| self.owed_bytes >= budget)
        {
            return Some(0);
        }
        match self.budget.cycles {
            Some(budget) if self.owed_cycles >= budget => Some(0),
            Some(budget) => Some(((budget - self.owed_cycles) / self.each.max(1)).max(1) as usize),
            None => None,
        }
    }

    /// Charges a frame of so many bytes that enters the path. False: it is the last one of this
    /// period.
    pub fn enter(&mut self, bytes: usize) -> bool {
        let Some(budget) = self.budget.bytes else {
            return true;
        };
        self.owed_bytes += bytes as u64;
        self.owed_bytes < budget
    }

    /// Charges what so many packets have taken; of none: what a part of their way has taken.
    pub fn charge(&mut self, cycles: u64, packets: usize) {
        if self.budget.cycles.is_none() {
            return;
        }
        self.owed_cycles += cycles;
        if packets == 0 {
            return;
        }
        let each = cycles / packets as u64;
        self.each = match self.each {
            0 => each,
            before => (before * 7 + each) / 8,
        };
    }

    /// When a packet may cross again, in ns of the lab's clock.
    pub fn opens(&self) -> u64 {
        let periods = |owed: u64, budget: Option<u64>| match budget {
            // What is owed has to be less than a budget.
            Some(budget) => owed / budget,
            None => 0,
        };
        let cycles = periods(self.owed_cycles, self.budget.cycles);
        let bytes = periods(self.owed_bytes, self.budget.bytes);
        self.began + cycles.max(bytes) * self.budget.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_debt_is_paid_by_the_periods_that_follow() {
        let budget = Budget {
            period: 10 * MS,
            cycles: Some(1000),
            bytes: None,
        };
        let mut account = Account::new(budget, 5);
        assert_eq!(account.admits(5), Some(1000));
        account.charge(3500, 1);
        assert_eq!(account.admits(6), Some(0));
        assert_eq!(account.opens(), 5 + 30 * MS);
        assert_eq!(account.admits(4 + 30 * MS), Some(0));
        // 500 are still owed, and a packet takes more than what is left.
        assert_eq!(account.admits(5 + 30 * MS), Some(1));
        assert_eq!(account.admits(5 + 50 * MS), Some(1));
        for _ in 0..100 {
            account.charge(10, 1);
        }
        assert!(account.admits(5 + 60 * MS).is_some_and(|most| most >= 90));
    }

    #[test]
    fn bytes_are_counted_as_frames_enter() {
        let budget = Budget {
            period: MS,
            cycles: None,
            bytes: Some(3000),
        };
        let mut account = Account::new(budget, 0);
        assert_eq!(account.admits(0), None);
        assert!(account.enter(1500));
        assert!(!account.enter(1500));
        assert_eq!(account.admits(MS - 1), Some(0));
        assert_eq!(account.opens(), MS);
        assert_eq!(account.admits(MS), None);
        let all = Budget {
            bytes: None,
            ..budget
        };
        let mut account = Account::new(all, 0);
        account.charge(1 << 40, 1);
        assert!(account.enter(1 << 30));
        assert_eq!(account.admits(0), None);
    }
}
