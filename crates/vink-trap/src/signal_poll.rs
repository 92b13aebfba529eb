//! Calls that the kernel works on, and when to look for signals of their threads (`interrupt`).

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use vink_kernel::monotonic;
use vink_sys::process::tgkill;
use vink_sys::procfs::stat_state;

use crate::in_flight::{AfterClose, Continuation, InFlight};

/// ns between polls: after a hint, and when nothing has happened for long.
const MIN_INTERVAL: u64 = 100_000;
const MAX_INTERVAL: u64 = 8_000_000;
/// Looking takes one part in so many of the worker's time at most.
const MAX_DUTY: u64 = 50;

/// A call in progress in the kernel, or put aside.
pub(crate) struct PendingCall {
    pub(crate) in_flight: InFlight,
    /// The thread was seen with a signal pending.
    pub(crate) has_signal: bool,
    /// The thread's `/proc/PID/task/TID/stat`, once it has been read.
    stat: Option<File>,
    _counted: Rc<()>,
}

impl PendingCall {
    /// Whether a signal has come for the thread, which makes this call.
    pub(crate) fn is_signalled(&mut self, pid: i32) -> bool {
        if let Continuation::Close {
            then: AfterClose::Answer(_),
            ..
        } = self.in_flight.continuation
        {
            // It was woken to be given a descriptor.
            return false;
        }
        if self.stat.is_none() {
            let tid = self.in_flight.call.tid;
            self.stat = File::open(format!("/proc/{pid}/task/{tid}/stat")).ok();
        }
        // The number, the name in parentheses and the state take up less.
        let mut text = [0; 64];
        let stat = self.stat.as_ref();
        let length = stat.and_then(|stat| stat.read_at(&mut text, 0).ok());
        // A dead thread's can't be read.
        stat_state(&text[..length.unwrap_or(0)]) == Some(b'D')
    }
}

/// Processes that may have been sent a signal.
pub(crate) enum Suspects {
    /// Any.
    All,
    These(Vec<i32>),
}

/// When to look for signals (`CLOCK_MONOTONIC`, ns).
pub(crate) struct SignalPoll {
    interval: u64,
    next: u64,
    /// Since they were last taken.
    suspects: Suspects,
    /// Threads that were found without a signal, by process, as long as nothing may have raised
    /// one.
    without_signal: HashMap<i32, Vec<i32>>,
    /// Shared with each [`PendingCall`].
    count: Rc<()>,
}

impl SignalPoll {
    pub(crate) fn new() -> SignalPoll {
        SignalPoll {
            interval: MAX_INTERVAL,
            next: monotonic(),
            suspects: Suspects::These(Vec::new()),
            without_signal: HashMap::new(),
            count: Rc::new(()),
        }
    }

    pub(crate) fn begin(&self, in_flight: InFlight) -> PendingCall {
        PendingCall {
            in_flight,
            has_signal: false,
            stat: None,
            _counted: self.count.clone(),
        }
    }

    /// Something may have raised a signal.
    pub(crate) fn hint(&mut self) {
        self.interval = MIN_INTERVAL;
        self.next = monotonic() + MIN_INTERVAL;
        self.suspects = Suspects::All;
        self.invalidate_all();
    }

    /// Something may have raised a signal for this process.
    pub(crate) fn hint_of(&mut self, pid: i32) {
        self.invalidate(pid);
        match std::mem::replace(&mut self.suspects, Suspects::All) {
            Suspects::All => {}
            Suspects::These(mut these) => {
                these.push(pid);
                self.suspects = Suspects::These(these);
            }
        }
        self.interval = MIN_INTERVAL;
        self.next = monotonic() + MIN_INTERVAL;
    }

    /// Sends a thread the signals that the kernel sent to its task.
    pub(crate) fn forward(&mut self, pid: i32, tid: i32, signals: u64) {
        if signals == 0 {
            return;
        }
        self.hint_of(pid);
        for bit in (0..64).filter(|bit| signals & 1 << bit != 0) {
            let _ = tgkill(pid, tid, bit + 1);
        }
    }

    /// No signal is pending for the thread.
    pub(crate) fn mark_without_signal(&mut self, pid: i32, tid: i32) {
        self.without_signal.entry(pid).or_default().push(tid);
    }

    /// Whether it is known that no signal is pending for the thread.
    pub(crate) fn is_without_signal(&self, pid: i32, tid: i32) -> bool {
        let certain = self.without_signal.get(&pid);
        certain.is_some_and(|certain| certain.contains(&tid))
    }

    /// A signal may be pending for this process, for which no thread needs to be checked until one
    /// waits.
    pub(crate) fn invalidate(&mut self, pid: i32) {
        self.without_signal.remove(&pid);
    }

    /// The same of all.
    pub(crate) fn invalidate_all(&mut self) {
        self.without_signal.clear();
    }

    /// The processes that may have been sent a signal since this was last called.
    pub(crate) fn take_suspects(&mut self) -> Suspects {
        std::mem::replace(&mut self.suspects, Suspects::These(Vec::new()))
    }

    /// When the next look is due; `None` while no call waits.
    pub(crate) fn due(&self) -> Option<u64> {
        let waits = Rc::strong_count(&self.count) > 1;
        waits.then_some(self.next)
    }

    /// A look begun at `start` is over.
    pub(crate) fn checked(&mut self, start: u64, found: bool) {
        let now = monotonic();
        self.interval = match found {
            true => MIN_INTERVAL,
            false => MAX_INTERVAL.min(2 * self.interval),
        };
        self.next = now + self.interval.max(MAX_DUTY * (now - start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        assert_eq!(stat_state(b"12 (cat) S 1 2 3"), Some(b'S'));
        assert_eq!(stat_state(b"1234567 (a (b) D c) D 1 2 3"), Some(b'D'));
        assert_eq!(stat_state(b"12 (cat)"), None);
        assert_eq!(stat_state(b""), None);
        let stat = std::fs::read("/proc/thread-self/stat").unwrap();
        assert_eq!(stat_state(&stat[..64]), Some(b'R'));
    }
}
