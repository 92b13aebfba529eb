//! Which clock programs live by.

use super::deferred::Deferred;
use super::{Scheduler, ThreadState};
use crate::notification::Reply;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;

/// The clock that programs live by; it is the kernel's, and stays what it is.
pub(crate) enum Clock {
    /// The host's.
    Real,
    /// One that stands while threads run.
    Virtual(Box<Scheduler>),
}

impl Clock {
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual(_))
    }

    /// Whether each call costs virtual time, so that each must be trapped.
    pub(crate) fn charges_calls(&self) -> bool {
        let sched = self.virtual_time();
        sched.is_some_and(|sched| !sched.config.charge.call.is_zero())
    }

    /// The scheduler, on a virtual clock.
    pub(crate) fn virtual_time(&self) -> Option<&Scheduler> {
        match self {
            Clock::Real => None,
            Clock::Virtual(sched) => Some(sched),
        }
    }

    /// The same, to change it.
    pub(crate) fn virtual_time_mut(&mut self) -> Option<&mut Scheduler> {
        match self {
            Clock::Real => None,
            Clock::Virtual(sched) => Some(sched),
        }
    }

    /// The thread has its answer, or its call is the host's now.
    pub(crate) fn thread_resumed(
        &mut self,
        tasks: &Tasks,
        call: SyscallCtx,
        sent: Reply,
        state: ThreadState,
    ) {
        if let Some(sched) = self.virtual_time_mut() {
            sched.thread_resumed(&tasks.table, call.tid, sent, state);
        }
    }

    /// Tells the observer of a call that is about to be answered.
    pub(crate) fn notify_observer(&mut self, tasks: &Tasks, call: SyscallCtx, result: Option<i64>) {
        if let Some(sched) = self.virtual_time_mut() {
            sched.notify_observer(tasks.place(), call, result);
        }
    }

    /// Before the thread goes on: its process is to read what time it is.
    pub(crate) fn publish_time(&mut self, tasks: &Tasks, tid: i32, state: ThreadState) {
        if let Some(sched) = self.virtual_time_mut() {
            sched.clocks.publish(tasks.place(), tid, &[], state);
        }
    }

    /// What is deferred while threads run in virtual time; `None`: what comes is handled at once.
    pub(crate) fn deferred(&mut self) -> Option<&mut Deferred> {
        self.virtual_time_mut().and_then(Scheduler::deferred)
    }

    /// The scheduler of a [`VirtualWorker`], beside which its other fields can be used.
    pub(super) fn sched(&self) -> &Scheduler {
        self.virtual_time().expect("a virtual worker's clock")
    }

    /// The same, to change it.
    pub(super) fn sched_mut(&mut self) -> &mut Scheduler {
        self.virtual_time_mut().expect("a virtual worker's clock")
    }
}
