//! When a thread that spins shares its processor with others: the rule, and how often it is applied.
//!
//! Spinning pays as long as the host has nothing else to run on the processor. Beside busy processes it delays the very
//! thread that is waited for. The host's kernel keeps an account of each thread's run queue delay
//! (`/proc/thread-self/schedstat`). If that is a good part of what the thread has run, there is *contention*: the thread
//! does not spin for a pause. Then it tries again, and pauses longer each time that there is contention at once.

use std::time::Duration;

use crate::procfs::SchedStat;

/// How often the account is read.
pub const WINDOW: Duration = Duration::from_millis(2);
/// The pause after contention, at first and at most.
pub const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// See [`FIRST_PAUSE`].
pub const MAX_PAUSE: Duration = Duration::from_millis(1600);

/// A delay that counts, and how many times as much the thread has run at most if that is to be too much.
const MIN_DELAY: Duration = Duration::from_millis(1);
const MAX_RATIO: u32 = 4;

/// Whether what the account has got since `before` shows contention.
pub fn shows_contention(account: SchedStat, before: SchedStat) -> bool {
    let SchedStat { ran, delayed } = account.since(before);
    delayed >= MIN_DELAY && delayed * MAX_RATIO > ran
}

/// Whether the thread has waited for a processor for more than two thirds of the time since then that it was runnable.
pub fn is_mostly_delayed(account: SchedStat, before: SchedStat) -> bool {
    let SchedStat { ran, delayed } = account.since(before);
    delayed >= MIN_DELAY && delayed > 2 * ran
}

/// The pause after one of `pause` that ended in contention at once.
pub fn longer(pause: Duration) -> Duration {
    MAX_PAUSE.min(pause * 2)
}

/// The pause for the next contention, after a window without any.
pub fn shorter(pause: Duration) -> Duration {
    FIRST_PAUSE.max(pause / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn account(ran: Duration, delayed: Duration) -> SchedStat {
        SchedStat { ran, delayed }
    }

    #[test]
    fn a_delay_counts_by_what_was_run() {
        let before = account(7 * MS, 9 * MS);
        let later = |ran, delayed| account(7 * MS + ran, 9 * MS + delayed);
        assert!(!shows_contention(later(2 * MS, MS / 2), before));
        assert!(shows_contention(later(2 * MS, MS), before));
        assert!(!shows_contention(later(4 * MS, MS), before));
        assert!(!is_mostly_delayed(later(2 * MS, 4 * MS), before));
        assert!(is_mostly_delayed(later(2 * MS, 5 * MS), before));
    }

    #[test]
    fn pauses_have_bounds() {
        let pauses = std::iter::successors(Some(FIRST_PAUSE), |pause| Some(longer(*pause)));
        assert_eq!(pauses.take(20).last(), Some(MAX_PAUSE));
        let pauses = std::iter::successors(Some(MAX_PAUSE), |pause| Some(shorter(*pause)));
        assert_eq!(pauses.take(20).last(), Some(FIRST_PAUSE));
    }
}
