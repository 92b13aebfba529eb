//! POSIX message queues in virtual time (mq_overview(7)): the host does a call when it will not wait, and time-outs
//! are by the virtual clock. System V's semaphores and queues wait in the host, so what has a time-out there is refused.

use std::os::fd::AsRawFd;

use super::host::events_of;
use super::Until;
use crate::interrupt::ERESTARTSYS;
use crate::limits::read_timespec;
use crate::notify::Notification;
use crate::worker::Worker;
use crate::Error;

const ENOSYS: i64 = -(libc::ENOSYS as i64);
const ETIMEDOUT: i64 = -(libc::ETIMEDOUT as i64);

impl Worker {
    /// mq_timedsend(2), mq_timedreceive(2).
    pub(crate) fn use_queue(&mut self, call: Notification) -> Result<(), Error> {
        // It may be said by a signal that there is a message (mq_notify(3)).
        self.pulse.hint();
        let events = match call.nr {
            libc::SYS_mq_timedsend => libc::POLLOUT,
            _ => libc::POLLIN,
        };
        let Some(copy) = self.copy_of(call.tid, call.args[0]) else {
            return self.pass(call);
        };
        // SAFETY: takes numbers.
        let flags = unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_GETFL) };
        if flags & libc::O_NONBLOCK != 0 || events_of(copy.as_raw_fd(), events) != 0 {
            return self.pass(call);
        }
        let shown = self.clock(call.tid, libc::CLOCK_REALTIME).unwrap_or(0);
        let lasting = match call.args[4] {
            0 => None,
            address => match read_timespec(call.tid, address) {
                Ok(date) => Some(date.saturating_sub(shown)),
                Err(errno) => return self.answer(call, errno),
            },
        };
        if lasting == Some(0) {
            return self.answer(call, ETIMEDOUT);
        }
        let until = Until {
            deadline: self.deadline(lasting),
            late: Some(ETIMEDOUT),
            interrupted: ERESTARTSYS,
            ..Until::forever()
        };
        let watched = self.watch_host(call.tid, vec![(call.args[0], copy, events)]);
        self.park_for(call, until, watched, 0);
        Ok(())
    }

    /// semtimedop(2).
    pub(crate) fn use_semaphores(&mut self, call: Notification) -> Result<(), Error> {
        if call.args[3] == 0 {
            return self.pass_that_may_wait(call);
        }
        self.note_unsupported(call.nr);
        self.answer(call, ENOSYS)
    }
}
