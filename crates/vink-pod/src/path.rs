//! What a path may use: cycles and bytes in each period, charged at each crossing.
//!
//! What a path has used beyond its budget it owes to the periods that follow: it waits until all of
//! it is paid. So a path gets what its budget says over any length of time, whatever one of its
//! packets takes.

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

    /// Charges what so many packets have taken.
    pub fn charge(&mut self, cycles: u64, packets: usize) {
        if self.budget.cycles.is_none() || packets == 0 {
            return;
        }
        self.owed_cycles += cycles;
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
