//! What comes while threads of a batch are running, and is handled when none is, in an order that does
//! not depend on when it came.

use super::Scheduler;

/// What is known while threads are running, and handled when none is.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Processes and programs that have ended.
    pub(super) exited: Vec<i32>,
    pub(crate) hung_up: Vec<usize>,
    /// Threads whose pipes have become ready (splice(2)).
    pub(crate) ready_pipes: Vec<i32>,
}

impl Scheduler {
    /// What is deferred while threads are running; `None`: none is.
    pub(crate) fn deferred(&mut self) -> Option<&mut Deferred> {
        (!self.running.is_empty()).then_some(&mut self.deferred)
    }

    /// A process has ended. True: that will be handled when no thread is running, in an order that
    /// does not depend on when it was received.
    pub(crate) fn defer_exit(&mut self, pid: i32) -> bool {
        if self.running.is_empty() {
            return false;
        }
        self.running.retain(|running| running.pid != pid);
        self.deferred.exited.push(pid);
        true
    }
}
