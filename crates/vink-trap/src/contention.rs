//! Whether the worker gets the processor that it has for posted calls (`shared_ring`), or shares it with
//! other processes of the host.
//!
//! A processor of its own pays as long as the host runs nothing else there. Beside a busy process
//! each wake-up is late by a slice of the scheduler's, some milliseconds, and a spin for posted
//! calls uses up what the worker would need for an answer. Under contention (`vink_sys::contention`)
//! the worker polls no ring for a while and runs on the processors of its programs, near to them,
//! as it does without `--quick`.

use std::time::{Duration, Instant};

use vink_sys::contention::{
    is_mostly_delayed, longer, shorter, shows_contention, FIRST_PAUSE, WINDOW,
};
use vink_sys::procfs::{SchedStat, SchedStatFile};

/// The worker's processor, and whether other processes of the host run there.
pub(crate) struct Contention {
    /// `None`: the host keeps no account, or it is not to be read.
    file: Option<SchedStatFile>,
    /// When that was last read, and what it said.
    since: Instant,
    before: SchedStat,
    /// There is contention until then.
    until: Option<Instant>,
    /// How long it is so next time.
    pause: Duration,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Others use the worker's processor.
    Contended,
    /// It may try its own processor again.
    Alone,
}

impl Contention {
    /// Of the calling thread.
    pub(crate) fn new() -> Contention {
        let mut contention = Contention {
            file: SchedStatFile::open().ok(),
            ..Contention::none()
        };
        contention.before = contention.read().unwrap_or_default();
        contention
    }

    /// Contention is never found.
    pub(crate) fn none() -> Contention {
        Contention {
            file: None,
            since: Instant::now(),
            before: SchedStat::default(),
            until: None,
            pause: FIRST_PAUSE,
        }
    }

    fn read(&self) -> Option<SchedStat> {
        self.file.as_ref()?.read()
    }

    /// Whether the worker may try its own processor, of which the account begins anew then. Not if
    /// it has waited for a processor for most of the time since the last look.
    pub(crate) fn is_over(&mut self) -> bool {
        let account = self.read().unwrap_or_default();
        self.may_try(Instant::now(), account)
    }

    fn may_try(&mut self, now: Instant, account: SchedStat) -> bool {
        if self.until.is_some_and(|until| now < until) {
            return false;
        }
        let before = std::mem::replace(&mut self.before, account);
        let was_contended = self.until.take().is_some();
        self.since = now;
        // A pause has just gone by: what was then is no reason for another one.
        if !was_contended && is_mostly_delayed(account, before) {
            self.until = Some(now + FIRST_PAUSE);
            return false;
        }
        true
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.until.is_some()
    }

    /// What has changed by now.
    pub(crate) fn check(&mut self) -> Option<Change> {
        let now = Instant::now();
        match self.until {
            Some(until) if now < until => return None,
            None if now < self.since + WINDOW => return None,
            _ => {}
        }
        let account = self.read()?;
        self.evaluate(now, account)
    }

    fn evaluate(&mut self, now: Instant, account: SchedStat) -> Option<Change> {
        let before = std::mem::replace(&mut self.before, account);
        let since = std::mem::replace(&mut self.since, now);
        if self.until.take().is_some() {
            return Some(Change::Alone);
        }
        if !shows_contention(account, before) {
            if now > since + WINDOW {
                // Calm for once: the next crowd is a new one, if not quite.
                self.pause = shorter(self.pause);
            }
            return None;
        }
        self.until = Some(now + self.pause);
        self.pause = longer(self.pause);
        Some(Change::Contended)
    }
}

#[cfg(test)]
mod tests {
    use vink_sys::contention::MAX_PAUSE;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_worker_that_waits_for_processors_does_not_take_one() {
        let mut contention = Contention::none();
        let mut now = Instant::now();
        let mut account = SchedStat::default();
        account.ran += 5 * MS;
        account.delayed += 2 * MS;
        assert!(
            contention.may_try(now, account),
            "callers run between calls"
        );
        account.ran += MS;
        account.delayed += 3 * MS;
        assert!(!contention.may_try(now, account), "it mostly waits");
        account.ran += MS;
        account.delayed += 3 * MS;
        assert!(!contention.may_try(now + FIRST_PAUSE / 2, account));
        now += FIRST_PAUSE;
        assert!(contention.may_try(now, account), "after a pause");
        account.delayed += 3 * MS;
        assert!(!contention.may_try(now, account), "and still");
    }

    #[test]
    fn a_crowd_is_found_and_tried_less_often() {
        let mut contention = Contention::new();
        let mut now = Instant::now();
        let mut account = SchedStat::default();
        contention.evaluate(now, account);
        // It has its processor, but for what an interrupt takes.
        for _ in 0..100 {
            now += 2 * MS;
            account.ran += 2 * MS;
            account.delayed += MS / 50;
            assert_eq!(contention.evaluate(now, account), None);
        }
        // It wakes up late each time.
        let mut pauses = Vec::new();
        for _ in 0..10 {
            now += 4 * MS;
            account.ran += MS;
            account.delayed += 3 * MS;
            assert_eq!(contention.evaluate(now, account), Some(Change::Contended));
            let until = contention.until.expect("crowded out");
            pauses.push(until - now);
            now = until;
            assert_eq!(contention.evaluate(now, account), Some(Change::Alone));
        }
        assert!(pauses.is_sorted() && pauses[0] == FIRST_PAUSE && pauses[9] == MAX_PAUSE);
        // Others have gone.
        for _ in 0..10 {
            now += 4 * MS;
            account.ran += 3 * MS;
            assert_eq!(contention.evaluate(now, account), None);
        }
        assert_eq!(contention.pause, FIRST_PAUSE);
    }
}
