//! How far a virtual clock goes: to the next event, and never past a horizon that the worker's
//! caller sets.

use crate::sched::Scheduler;
use crate::{Error, Worker};

impl Worker {
    /// Lets a virtual clock go on as far as `horizon` (ns on [`vink_kernel::Kernel::now`]'s clock),
    /// and no further, whatever is waited for. `u64::MAX`, as at the beginning: from one event to
    /// the next, for as long as there are any. A horizon in the past stops the clock where it is.
    /// The real clock has no horizon.
    pub fn set_horizon(&mut self, horizon: u64) {
        if self.horizon != horizon {
            self.horizon = horizon;
            self.idle = false;
        }
    }

    /// Whether a virtual clock has come as far as it may, and nothing more can happen there: it is
    /// at the horizon, or no thread waits for any time. The step that finds this returns at once;
    /// the next one waits for events from outside.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// Something has come from outside that no call has told of, such as what is typed at a
    /// program's terminal: it is looked for before virtual time passes.
    pub fn stir(&mut self) {
        self.mark_kernel_dirty();
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.note_host_io();
        }
        self.signals.hint();
    }

    /// Something may happen before time passes: [`Worker::is_idle`] is determined anew.
    pub fn mark_kernel_dirty(&mut self) {
        self.idle = false;
    }

    /// In virtual time: whether all that is waited for is a program that reads what comes from
    /// outside, by a pipe that is its standard input. No time passes meanwhile. One that has just
    /// been given something does not wait.
    ///
    /// # Errors
    /// A listener can't be read.
    pub fn waits_for_input(&mut self) -> Result<bool, Error> {
        match self.virtual_time() {
            Some(mut time) => time.waits_for_input(),
            None => Ok(false),
        }
    }

    /// What is waited for next, by the kernel or by a program, on the kernel's clock in ns.
    pub fn next_timer(&mut self) -> Option<u64> {
        let alarm = self
            .clock
            .virtual_time_mut()
            .and_then(Scheduler::next_deadline);
        [self.tasks.kernel.deadline, alarm]
            .into_iter()
            .flatten()
            .min()
    }

    /// The kernel's clock, as [`vink_kernel::Kernel::now`] has it.
    pub fn now(&self) -> u64 {
        self.tasks.kernel.now()
    }

    /// Moves a virtual clock on to a time before which nothing is waited for; never back.
    pub fn advance_clock(&mut self, time: u64) {
        if self.clock.is_virtual() && self.next_timer().is_none_or(|next| time < next) {
            self.tasks.kernel.wait(time);
        }
    }
}
