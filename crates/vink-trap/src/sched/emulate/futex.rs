//! futex(2) in virtual time: `vink-sched` decides, and this carries it out.

use vink_kernel::Kernel;
use vink_sched::futex::{FutexOutcome, Waiter};

use crate::process_table::ProcessTable;
use crate::sched::tracees::Threads;
use crate::sched::Scheduler;
use crate::syscall_ctx::SyscallCtx;

impl Scheduler {
    /// futex(2): what becomes of the call. Others that it wakes are woken.
    pub(in crate::sched) fn futex(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        call: SyscallCtx,
    ) -> FutexOutcome {
        let times = self.times_of_call(kernel);
        let mut threads = Threads {
            table,
            blocked: &self.blocked,
            memories: &mut self.memories,
        };
        let outcome = self
            .futexes
            .call(&call.notification.into(), &times, &mut threads);
        if let FutexOutcome::Answer(_, woken) = &outcome {
            self.wake_futex_waiters(woken);
        }
        outcome
    }

    fn wake_futex_waiters(&mut self, woken: &[Waiter]) {
        for waiter in woken {
            self.wake(waiter.tid, waiter.id, Some(0));
        }
    }

    /// A thread is gone, which knew itself by this number.
    pub(in crate::sched) fn wake_after_end(&mut self, table: &ProcessTable, number: i32) {
        let threads = Threads {
            table,
            blocked: &self.blocked,
            memories: &mut self.memories,
        };
        let woken = self.futexes.wake_after_end(number, &threads);
        self.wake_futex_waiters(&woken);
    }
}
