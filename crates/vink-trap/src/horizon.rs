//! How far a virtual clock goes: to the next event, and never past a horizon that the worker's
//! caller sets.

use crate::sched::{Observer, Scheduler, VirtualTime};
use crate::{Error, Worker};

impl Worker {
    /// Lets a virtual clock go on as far as `horizon` (ns on [`vink_kernel::Kernel::now`]'s clock),
    /// and no further, whatever is waited for. `u64::MAX`, as at the beginning: from one event to
    /// the next, for as long as there are any. A horizon in the past stops the clock where it is.
    /// The real clock has no horizon.
    pub fn set_horizon(&mut self, horizon: u64) {
        if self.supervisor.horizon != horizon {
            self.supervisor.horizon = horizon;
            self.supervisor.idle = false;
        }
    }

    /// Whether a virtual clock has come as far as it may, and nothing more can happen there: it is
    /// at the horizon, or no thread waits for any time. The step that finds this returns at once;
    /// the next one waits for events from outside.
    pub fn is_idle(&self) -> bool {
        self.supervisor.idle
    }

    /// Something has come from outside that no call has told of, such as what is typed at a
    /// program's terminal: it is looked for before virtual time passes.
    pub fn stir(&mut self) {
        self.mark_kernel_dirty();
        if let Some(sched) = self.supervisor.calls.clock.virtual_time_mut() {
            sched.note_host_io();
        }
        self.supervisor.calls.signals.hint();
    }

    /// Something may happen before time passes: [`Worker::is_idle`] is determined anew.
    pub fn mark_kernel_dirty(&mut self) {
        self.supervisor.idle = false;
    }

    /// In virtual time: whether all that is waited for is a program that reads what comes from
    /// outside, by a pipe that is its standard input. No time passes meanwhile. One that has just
    /// been given something does not wait.
    ///
    /// # Errors
    /// A listener can't be read.
    pub fn waits_for_input(&mut self) -> Result<bool, Error> {
        match self.supervisor.virtual_time() {
            Some(mut time) => time.waits_for_input(),
            None => Ok(false),
        }
    }

    /// What is waited for next, by the kernel or by a program, on the kernel's clock in ns.
    pub fn next_timer(&mut self) -> Option<u64> {
        self.supervisor.calls.next_timer()
    }

    /// The kernel's clock, as [`vink_kernel::Kernel::now`] has it.
    pub fn now(&self) -> u64 {
        self.supervisor.calls.tasks.kernel.now()
    }

    /// Moves a virtual clock on to a time before which nothing is waited for; never back.
    pub fn advance_clock(&mut self, time: u64) {
        if self.supervisor.calls.clock.is_virtual()
            && self.next_timer().is_none_or(|next| time < next)
        {
            self.supervisor.calls.tasks.kernel.wait(time);
        }
    }

    /// Says how virtual time passes, before the first program is started. The worker's kernel must
    /// be on [`vink_kernel::Clock::Virtual`], or nothing comes of it.
    pub fn set_time(&mut self, how: VirtualTime) {
        if let Some(sched) = self.supervisor.calls.clock.virtual_time_mut() {
            sched.configure(how);
        }
    }

    /// In virtual time: calls this for all calls of programs, in their order. There is one observer
    /// at most.
    pub fn observe_calls(&mut self, observer: Option<Observer>) {
        if let Some(sched) = self.supervisor.calls.clock.virtual_time_mut() {
            sched.observer = observer;
        }
    }

    /// In virtual time: how often the clock may jump in one step, for callers that have work to do
    /// after each jump.
    pub fn set_max_jumps(&mut self, jumps: u32) {
        if let Some(sched) = self.supervisor.calls.clock.virtual_time_mut() {
            sched.max_jumps = jumps;
        }
    }

    /// In virtual time: how many more system calls of programs may be dispatched. `None`: any
    /// number.
    pub fn allow_calls(&mut self, turns: Option<u64>) {
        if let Some(sched) = self.supervisor.calls.clock.virtual_time_mut() {
            sched.calls_left = turns;
        }
    }

    /// In virtual time: whether programs could go on, but for [`Worker::allow_calls`].
    pub fn is_held(&self) -> bool {
        let sched = self.supervisor.calls.clock.virtual_time();
        sched.is_some_and(Scheduler::is_held)
    }
}
