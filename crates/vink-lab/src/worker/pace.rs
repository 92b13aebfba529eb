//! How far a virtual clock goes, and how fast: as the control process says, one leg after the other.
//!
//! The clock stands from the beginning. [`Action::Go`](super::protocol::Action::Go) sends it off to a time, where it stands
//! again, which is told. It also stands when a program has ended, or a breakpoint was met that asks for more than can be done
//! here, since the control process may have something to do then: what it asked for before it knew of these *news* does not
//! count.

use std::time::Duration;

use vink_kernel::Clock;

use super::lab::Lab;
use super::protocol::{Answer, Event, Stop};
use crate::Speed;

/// How far programs that are charged for calls may go beyond the end of a leg (ns) before that is told.
const BEYOND: u64 = 1_000_000_000;

/// A leg of the clock's way.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// There is a virtual clock.
    own: bool,
    number: u64,
    /// Where it ends, on the kernel's clock in ns.
    until: u64,
    /// What ends it before that, and how many packets there were when it began.
    stop: Option<(Stop, u64)>,
    speed: Option<Speed>,
    /// How many news were told.
    news: u64,
    /// That the clock stands at the end of the leg was told.
    told: bool,
    /// Nothing was left to be done then.
    still: bool,
}

impl Pace {
    /// For a kernel with this clock.
    pub(super) fn new(clock: Clock) -> Pace {
        Pace {
            own: clock == Clock::Virtual,
            // Nobody is told that it stands before it was sent anywhere.
            told: true,
            ..Pace::default()
        }
    }

    /// Whether there is a virtual clock, and something was left to be done when it was last sent off.
    pub(super) fn is_amidst_something(&self) -> bool {
        self.own && !self.still
    }
}

impl Pace {
    /// Whether there is a virtual clock.
    pub(super) fn has_own_clock(&self) -> bool {
        self.own
    }
}

impl Lab {
    /// Begins a leg, if it was asked for with all news known. One to a time that has passed ends when nothing is left to be
    /// done at this one.
    pub(super) fn go(
        &mut self,
        number: u64,
        until: u64,
        stop: Option<Stop>,
        speed: Option<f64>,
        news: u64,
    ) -> Answer {
        let turns = (stop == Some(Stop::Call)).then_some(1);
        if self.pace.own && news == self.pace.news {
            self.worker.stir();
            let now = self.worker.now();
            let went = self.pace.until > now;
            let stop = stop.map(|stop| (stop, self.packets()));
            self.worker.allow_turns(turns);
            let pace = &mut self.pace;
            let speed = speed.map(|factor| match pace.speed.take() {
                Some(old) if went && old.factor() == factor => old,
                _ => Speed::new(factor, now),
            });
            *pace = Pace {
                own: true,
                number,
                until: until.max(now),
                stop,
                speed,
                news,
                told: false,
                still: false,
            };
        }
        self.clock()
    }

    /// How late it is.
    pub(super) fn clock(&mut self) -> Answer {
        Answer::Clock {
            now: self.worker.now(),
            next: self.worker.next_timer(),
        }
    }

    /// News are told: the clock stands until they are known. Returns when that was.
    pub(super) fn note_news(&mut self) -> u64 {
        self.pace.news += 1;
        self.pace.until = 0;
        self.pace.told = true;
        self.pace.still = false;
        self.worker.now()
    }

    /// Before a step: lets the clock go as far as it may now. Returns how long the step may wait, at most.
    pub(super) fn set_pace(&mut self) -> Option<Duration> {
        if !self.pace.own {
            return self.series.wait(self.worker.now());
        }
        // It stands where a series is due, too.
        let until = self.pace.until.min(self.series.due().unwrap_or(u64::MAX));
        let Some(speed) = &self.pace.speed else {
            self.worker.set_horizon(until);
            return None;
        };
        speed.let_go(&mut self.worker, until)
    }

    /// After a step: tells when the clock stands at the end of its leg.
    pub(super) fn look_at_clock(&mut self) {
        if self.pace.told {
            return;
        }
        let now = self.worker.now();
        let still = self.worker.stands() || self.worker.waits_for_input();
        let until = self.pace.until;
        let mut over = still && now >= until || now > until.saturating_add(BEYOND);
        let is_done = match self.pace.stop {
            Some((Stop::Packet, before)) => self.packets() != before,
            Some((Stop::Call, _)) => self.worker.is_held(),
            None => false,
        };
        if is_done {
            self.pace.until = 0;
            over = true;
        }
        if over {
            self.pace.told = true;
            self.pace.still = still;
            self.events.push(Event::Stands {
                leg: self.pace.number,
                now,
            });
        }
    }

    /// How many packets have been sent, received or lost.
    fn packets(&mut self) -> u64 {
        let (kernel, mut count) = (self.worker.kernel(), 0);
        for end in self.places.keys() {
            // A program may have removed the interface.
            if let Ok(s) = kernel.wire_statistics(*end) {
                count += s.sent + s.received;
                count += s.lost_random + s.lost_limit + s.lost_mtu + s.lost_down;
            }
        }
        count
    }
}
