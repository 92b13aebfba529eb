//! POSIX message queues in virtual time (mq_overview(7)): the host does a call when it will not
//! wait, and time-outs are by the virtual clock. System V's semaphores and queues wait in the host,
//! so what has a time-out there is refused.

use std::os::fd::AsRawFd;

use vink_sys::errno::ETIMEDOUT;
use vink_sys::fd;

use crate::sched::emulate::polled_fd::events_of;
use crate::sched::{BlockCondition, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;
use crate::timeouts::read_timespec;
use crate::Error;
use vink_sched::block::ERESTARTSYS;

impl VirtualWorker<'_> {
    /// mq_timedsend(2), mq_timedreceive(2): `events` (`POLL*`) is what it waits for.
    pub(crate) fn mq_call(&mut self, call: SyscallCtx, events: i16) -> Result<(), Error> {
        // It may be said by a signal that there is a message (mq_notify(3)).
        self.worker.calls.signals.hint();
        let Some(copy) = self
            .worker
            .calls
            .tasks
            .table
            .borrow_descriptor(call.tid, call.args[0])
        else {
            return self.passthrough(call);
        };
        let flags = fd::flags(copy.as_raw_fd());
        if flags & libc::O_NONBLOCK != 0 || events_of(copy.as_raw_fd(), events) != 0 {
            return self.passthrough(call);
        }
        let now = self.worker.calls.tasks.kernel.now();
        let shown = self.worker.calls.tasks.kernel.date(now);
        let lasting = match call.args[4] {
            0 => None,
            address => match read_timespec(call.tid, address) {
                Ok(date) => Some(date.saturating_sub(shown)),
                Err(errno) => return self.calls.answer(call, errno),
            },
        };
        if lasting == Some(0) {
            return self.calls.answer(call, ETIMEDOUT);
        }
        let sched = self.worker.calls.clock.sched_mut();
        let condition = BlockCondition {
            deadline: sched.deadline(now, lasting),
            on_timeout: Some(ETIMEDOUT),
            on_signal: ERESTARTSYS,
            ..BlockCondition::forever()
        };
        let watched = sched
            .fds
            .watch(call.tid, vec![(call.args[0], copy, events)]);
        sched.block_on(&mut self.worker.calls.signals, call, condition, watched, 0);
        Ok(())
    }
}
