//! What a blocked thread waits for, and when it has waited long enough.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a signal answers where the host's kernel then runs the handler, and restarts the call if
/// `SA_RESTART` says so or there is none.
pub const ERESTARTSYS: i64 = -512;
/// The same where it restarts the call only if there is no handler.
pub const ERESTARTNOHAND: i64 = -514;

/// What a blocked thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCondition {
    /// On the scheduler's clock, in ns.
    pub deadline: Option<u64>,
    /// The result at the deadline; `None`: the call is dispatched once more.
    pub on_timeout: Option<i64>,
    /// The result if a signal comes: what the host's kernel makes of it is as if it had been its
    /// own.
    pub on_signal: i64,
    /// The signal mask of this call alone (ppoll(2) and others): if one of the others comes, the
    /// host does the call, and finds it.
    pub mask: Option<u64>,
    /// Signals that it waits for although they are blocked: if one is pending the call is
    /// dispatched again.
    pub awaited_signals: u64,
    /// What comes by a network may end it.
    pub by_network: bool,
}

impl BlockCondition {
    /// Without a deadline, until it is woken or a signal comes.
    pub const fn forever() -> BlockCondition {
        BlockCondition {
            deadline: None,
            on_timeout: None,
            on_signal: ERESTARTNOHAND,
            mask: None,
            awaited_signals: 0,
            by_network: false,
        }
    }
}

/// Time, serial number, and the thread and its call.
type Deadline = (u64, u64, (i32, u64));

/// The deadlines of blocked calls. Of calls that ended in another way they are recognised and
/// skipped when they are reached.
#[derive(Default)]
pub struct Deadlines(BinaryHeap<Reverse<Deadline>>);

impl Deadlines {
    /// The thread's call waits until then, in ns. Of threads with the same deadline that with the
    /// lowest `serial` comes first.
    pub fn add(&mut self, time: u64, serial: u64, tid: i32, call: u64) {
        self.0.push(Reverse((time, serial, (tid, call))));
    }

    /// The first deadline that still means something: of a call that `waits`.
    pub fn next(&mut self, waits: impl Fn(i32, u64) -> bool) -> Option<u64> {
        while let Some(Reverse((time, _, (tid, call)))) = self.0.peek() {
            if waits(*tid, *call) {
                return Some(*time);
            }
            self.0.pop();
        }
        None
    }

    /// Takes out the first one that is over at this time: thread and call. It may mean nothing any
    /// more.
    pub fn take_due(&mut self, now: u64) -> Option<(i32, u64)> {
        let Reverse((time, ..)) = self.0.peek()?;
        if *time > now {
            return None;
        }
        self.0.pop().map(|Reverse((.., name))| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_deadline_that_means_something() {
        let mut deadlines = Deadlines::default();
        for (time, serial, tid) in [(30, 1, 5), (20, 2, 6), (20, 1, 7), (10, 3, 8)] {
            deadlines.add(time, serial, tid, 100);
        }
        assert_eq!(deadlines.take_due(9), None);
        assert_eq!(
            deadlines.next(|tid, call| tid != 8 && call == 100),
            Some(20)
        );
        assert_eq!(deadlines.take_due(20), Some((7, 100)));
        assert_eq!(deadlines.take_due(20), Some((6, 100)));
        assert_eq!(deadlines.take_due(20), None);
        assert_eq!(deadlines.next(|_, _| false), None);
        assert_eq!(deadlines.take_due(u64::MAX), None);
    }
}
