//! How far a virtual clock goes: to the next thing that is waited for, and never past a horizon that whoever drives it sets.

use crate::Worker;

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

    /// Something may happen before time passes: [`Worker::stands`] is to be found out anew.
    pub fn stir(&mut self) {
        self.stands = false;
    }

    /// In virtual time: whether all that is waited for is a program that reads what comes from outside, by a pipe that is
    /// its standard input. No time passes meanwhile.
    pub fn waits_for_input(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| turn.waits_for_input())
    }

    /// What is waited for next, by the kernel or by a program, on the kernel's clock in ns.
    pub fn next_timer(&mut self) -> Option<u64> {
        let alarm = self.next_alarm();
        [self.deadline, alarm].into_iter().flatten().min()
    }

    /// The kernel's clock, as [`vink_kernel::Kernel::now`] has it.
    pub fn now(&self) -> u64 {
        self.kernel.now()
    }

    /// Moves a virtual clock on to a time before which nothing is waited for; never back.
    pub fn advance_clock(&mut self, time: u64) {
        if self.turn.is_some() && self.next_timer().is_none_or(|next| time < next) {
            self.kernel.wait(time);
        }
    }
}
