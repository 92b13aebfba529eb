//! Drives a virtual clock: how far it runs and how fast, one run after the other, as the control
//! process says.
//!
//! The clock is paused at first. [`Action::RunUntil`](vink_protocol::Action::RunUntil) starts a
//! run; at its end the clock pauses, and [`Event::Paused`] is sent. The clock also pauses when a
//! program has ended, and at a breakpoint that the control process must act on. Each of these
//! advances the *event epoch*; a run that was requested in an earlier epoch is ignored, since the
//! control process did not know of the event.

use std::time::Duration;

use vink_kernel::Clock;

use super::lab::{Lab, WorkerError};
use crate::Speed;
use vink_protocol::{Answer, Event, Stop};

/// How far (ns) threads that are charged for calls may pass the end of a run before the pause is
/// reported.
const MAX_OVERRUN: u64 = 1_000_000_000;

/// The state of the current run.
#[derive(Debug, Default)]
pub(super) struct ClockDriver {
    /// The kernel's clock is virtual.
    is_virtual: bool,
    /// The number of the run.
    run: u64,
    /// Where it ends, in ns of the kernel's clock.
    until: u64,
    /// What ends it before that, and the packet count at its begin.
    stop: Option<(Stop, u64)>,
    speed: Option<Speed>,
    /// The event epoch: events reported that pause the clock.
    epoch: u64,
    /// The end of the run was reported.
    reported: bool,
    /// The kernel and its programs were idle at the end of the run.
    is_idle: bool,
}

impl ClockDriver {
    /// For a kernel with this clock.
    pub(super) fn new(clock: Clock) -> ClockDriver {
        ClockDriver {
            is_virtual: clock == Clock::Virtual,
            // The initial pause is not reported.
            reported: true,
            ..ClockDriver::default()
        }
    }

    /// Whether the clock is virtual, and was paused before the lab was idle.
    pub(super) fn has_pending_work(&self) -> bool {
        self.is_virtual && !self.is_idle
    }

    /// Whether the kernel's clock is virtual.
    pub(super) fn is_virtual(&self) -> bool {
        self.is_virtual
    }
}

impl Lab {
    /// Starts a run if `epoch` is the current one. A run to a time in the past ends when the lab is
    /// idle at this time.
    pub(super) fn run_until(
        &mut self,
        run: u64,
        until: u64,
        stop: Option<Stop>,
        speed: Option<f64>,
        epoch: u64,
    ) -> Answer {
        let calls = (stop == Some(Stop::Call)).then_some(1);
        if self.driver.is_virtual && epoch == self.driver.epoch {
            self.worker.mark_kernel_dirty();
            let now = self.worker.now();
            let went = self.driver.until > now;
            let stop = stop.map(|stop| (stop, self.packets()));
            self.worker.allow_calls(calls);
            let driver = &mut self.driver;
            let speed = speed.map(|factor| match driver.speed.take() {
                Some(old) if went && old.factor() == factor => old,
                _ => Speed::new(factor, now),
            });
            *driver = ClockDriver {
                is_virtual: true,
                run,
                until: until.max(now),
                stop,
                speed,
                epoch,
                reported: false,
                is_idle: false,
            };
        }
        self.clock()
    }

    /// The kernel's time.
    pub(super) fn clock(&mut self) -> Answer {
        Answer::Clock {
            now: self.worker.now(),
            next: self.worker.next_timer(),
        }
    }

    /// Pauses the clock until the control process knows of an event, and returns the event's time.
    pub(super) fn advance_epoch(&mut self) -> u64 {
        self.driver.epoch += 1;
        self.driver.until = 0;
        self.driver.reported = true;
        self.driver.is_idle = false;
        self.worker.now()
    }

    /// Before a step: sets the horizon. Returns how long the step may block, at most.
    pub(super) fn set_horizon(&mut self) -> Option<Duration> {
        if !self.driver.is_virtual {
            let due = self.due()?;
            return Some(Duration::from_nanos(due.saturating_sub(self.worker.now())));
        }
        // It pauses where something else is due, too.
        let until = self.driver.until.min(self.due().unwrap_or(u64::MAX));
        let Some(speed) = &self.driver.speed else {
            self.worker.set_horizon(until);
            return None;
        };
        speed.let_go(&mut self.worker, until)
    }

    /// When a series or a path is due, in ns of the kernel's clock.
    fn due(&self) -> Option<u64> {
        let all = [self.series.due(), self.paths.due()];
        all.into_iter().flatten().min()
    }

    /// After a step: reports the end of the run.
    pub(super) fn report_pause(&mut self) -> Result<(), WorkerError> {
        if self.driver.reported {
            return Ok(());
        }
        let now = self.worker.now();
        let is_idle = self.worker.is_idle() || self.worker.waits_for_input()?;
        let until = self.driver.until;
        let mut over = is_idle && now >= until || now > until.saturating_add(MAX_OVERRUN);
        let is_done = match self.driver.stop {
            Some((Stop::Packet, before)) => self.packets() != before,
            Some((Stop::Call, _)) => self.worker.is_held(),
            None => false,
        };
        if is_done {
            self.driver.until = 0;
            over = true;
        }
        if over {
            self.driver.reported = true;
            self.driver.is_idle = is_idle;
            self.events.push(Event::Paused {
                run: self.driver.run,
                now,
            });
        }
        Ok(())
    }

    /// Packets sent, received or lost since boot, at all ends.
    fn packets(&mut self) -> u64 {
        let (kernel, mut count) = (self.worker.kernel(), 0);
        for end in self.end_names.keys() {
            // A program may have removed the interface.
            if let Ok(s) = kernel.wire_statistics(*end) {
                count += s.sent + s.received;
                count += s.lost_random + s.lost_limit + s.lost_mtu + s.lost_down;
            }
        }
        count
    }
}
