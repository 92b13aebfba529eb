//! futex(2) in virtual time: `vink-sched` decides, and this carries it out.

use vink_sched::futex::{FutexOutcome, Waiter};

use super::VirtualWorker;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;

impl VirtualWorker<'_> {
    /// futex(2).
    pub(crate) fn futex(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let times = self.times_of_call();
        let mut futexes = std::mem::take(&mut self.worker.clock.sched_mut().futexes);
        let outcome = futexes.call(&call.notification.into(), &times, self);
        self.worker.clock.sched_mut().futexes = futexes;
        match outcome {
            FutexOutcome::Answer(result, woken) => {
                self.wake_futex_waiters(&woken);
                self.answer(call, result)
            }
            FutexOutcome::Block(condition) => {
                self.block(call, condition);
                Ok(())
            }
            FutexOutcome::Host => self.passthrough_that_may_block(call),
        }
    }

    fn wake_futex_waiters(&mut self, woken: &[Waiter]) {
        for waiter in woken {
            self.wake(waiter.tid, waiter.id, Some(0));
        }
    }

    /// A thread is gone, which knew itself by this number.
    pub(crate) fn wake_after_end(&mut self, number: i32) {
        let mut futexes = std::mem::take(&mut self.worker.clock.sched_mut().futexes);
        let woken = futexes.wake_after_end(number, self);
        self.worker.clock.sched_mut().futexes = futexes;
        self.wake_futex_waiters(&woken);
    }

    /// After which process the memory of this one is named: vfork(2) and `CLONE_VM` share it.
    pub(super) fn memory_of(&mut self, pid: i32) -> i32 {
        if let Some(memory) = self.worker.clock.sched().memories.get(&pid) {
            return *memory;
        }
        let parent = tracee::tgid_and_ppid(pid).map_or(0, |(_, parent)| parent);
        let memory =
            match self.worker.table.has_process(parent) && tracee::share_memory(pid, parent) {
                true => self.memory_of(parent),
                false => pid,
            };
        self.worker.clock.sched_mut().memories.insert(pid, memory);
        memory
    }
}
