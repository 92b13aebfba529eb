//! How far a virtual clock goes: to the next thing that is waited for, and never past a horizon that whoever drives it sets.

use std::time::Duration;

use vink_kernel::Clock;

use crate::{Error, Worker};

impl Worker {
    /// Lets a virtual clock go on as far as `horizon` (ns on [`vink_kernel::Kernel::now`]'s clock), and no further: there
    /// it stands, whatever is waited for. `u64::MAX`, as at the beginning: from one thing that is waited for to the next,
    /// for as long as there are any. One that has passed stops the clock where it is. The real clock takes no notice.
    pub fn set_horizon(&mut self, horizon: u64) {
        if self.horizon != horizon {
            self.horizon = horizon;
            self.stands = false;
        }
    }

    /// Whether a virtual clock has come as far as it may, and nothing more can happen there: it is at the horizon, or nobody
    /// waits for any time. The step that finds this returns at once; the next one waits for what comes from outside.
    pub fn stands(&self) -> bool {
        self.stands
    }

    /// What is waited for next, on the kernel's clock in ns.
    pub fn next_timer(&self) -> Option<u64> {
        self.deadline
    }

    pub(crate) fn is_virtual(&self) -> bool {
        self.kernel.clock() == Clock::Virtual
    }

    /// Looks for what has come from outside. If nothing has, and nothing else is to be done (`idle`), time passes, or it is
    /// waited for, for `timeout` at most, if the clock stood before: `None` if the caller may have something to see first.
    pub(crate) fn wait_in_virtual_time(
        &mut self,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
        idle: bool,
    ) -> Result<Option<usize>, Error> {
        let stood = std::mem::take(&mut self.stands);
        let count = self.wait_for_events(events, Some(Duration::ZERO))?;
        if count > 0 || !idle {
            return Ok(Some(count));
        }
        self.pass_time()?;
        if !(self.stands && stood) {
            return Ok(None);
        }
        let count = self.wait_for_events(events, timeout)?;
        self.stands = count == 0;
        Ok(Some(count))
    }

    /// Nothing can happen any more at this time: the clock goes to what is waited for next, or to the horizon.
    fn pass_time(&mut self) -> Result<(), Error> {
        let now = self.kernel.now();
        let to = match self.deadline {
            None if self.horizon == u64::MAX => now,
            None => self.horizon,
            Some(next) => next.min(self.horizon),
        };
        self.stands = to <= now;
        if !self.stands {
            self.kernel.wait(to);
            self.stirred = true;
            self.settle()?;
        }
        Ok(())
    }
}
