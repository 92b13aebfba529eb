//! The direct way in: for a thread that makes one call after the other and waits for each.
//!
//! A call that [`Kernel::start`] leaves a note of wakes its task from the idle one, and when it is
//! done the idle task takes over again, each time with all that a processor does that falls asleep.
//! Of a task that [entered](Kernel::enter) the kernel takes it that its program runs, as any kernel
//! does of what it has returned to: the next call is there at once. Only if other tasks can run, or
//! by [`Kernel::run`], is it put to sleep.

use vink_abi::VINK_FLAG_STAY;

use crate::kernel::not_managed;
use crate::slot::{Slot, State};
use crate::{user, Call, Error, Kernel, Outcome, TaskId};

/// What [`Kernel::enter`] brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// `None`: the call waits. It is as one that was started: [`Kernel::run`],
    /// [`Event::Done`](crate::Event::Done), [`Kernel::poll`].
    pub outcome: Option<Outcome>,
    /// As of [`Kernel::run`], which is to be called then at the latest.
    pub deadline: Option<u64>,
}

impl Kernel {
    /// Makes a call and runs the kernel until it has nothing to do, in one; for the thread that
    /// waits for the outcome. No event tells of a call that is done by then. A virtual clock does
    /// not jump.
    ///
    /// # Errors
    /// As [`Kernel::start`] and [`Kernel::run`].
    #[inline]
    pub fn enter(&mut self, t: TaskId, call: &Call) -> Result<Entered, Error> {
        not_managed(call.nr)?;
        self.ready_to_enter()?;
        self.launch_fibers()?;
        // The task is looked up once: a look takes a fifth of the time of a short call.
        let remote = match self.tasks.get_mut(&t) {
            Some(Slot::Remote(remote)) if remote.exiting => return Err(Error::NoSuchTask),
            Some(Slot::Remote(remote)) if remote.state() == State::Idle => remote,
            Some(_) => return Err(Error::Busy),
            None => return Err(Error::NoSuchTask),
        };
        let task = remote.image_id;
        let handed = remote.prepare(t, call, VINK_FLAG_STAY);
        user::forget();
        // SAFETY: the call stays where it is until it is done or its task is gone.
        let started = unsafe { (self.image.exports.call_start)(task, handed) };
        if started != 0 {
            return self.check_start(started).map(|()| Entered::default());
        }
        self.host.awaited.set(Some(t));
        let runs = self.registration.runs();
        let (ran, deadline) = runs.during(|| self.image.run());
        let mut outcome = remote.take();
        let mut deadline = self.check_run(ran, deadline);
        if deadline.is_ok() && self.replace_taken() {
            deadline = self.step();
            outcome = outcome.or_else(|| self.poll(t));
        }
        self.host.awaited.set(None);
        let deadline = deadline?;
        Ok(Entered { outcome, deadline })
    }
}
