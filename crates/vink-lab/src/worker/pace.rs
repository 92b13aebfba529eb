//! How far a virtual clock goes, and how fast: as the control process says, one leg after the other.
//!
//! The clock stands from the beginning. [`Action::Go`](super::protocol::Action::Go) sends it off to a time, where it stands
//! again, which is told. It also stands when a program has ended, since the control process may have something to do then:
//! what it asked for before it knew of that end does not count.

use std::time::Duration;

use vink_kernel::Clock;

use super::lab::Lab;
use super::protocol::{Answer, Event, Stop};
use crate::Speed;

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
    /// How many ends of programs were told.
    ended: u64,
    /// That the clock stands at the end of the leg was told.
    told: bool,
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
}

impl Lab {
    /// Begins a leg, if `ended` programs are all that have ended.
    pub(super) fn go(
        &mut self,
        number: u64,
        until: u64,
        stop: Option<Stop>,
        speed: Option<f64>,
        ended: u64,
    ) -> Answer {
        let turns = (stop == Some(Stop::Call)).then_some(1);
        if self.pace.own && ended == self.pace.ended {
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
                until,
                stop,
                speed,
                ended,
                told: false,
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

    /// A program's end is told: the clock stands until its news is known. Returns when that was.
    pub(super) fn note_end(&mut self) -> u64 {
        self.pace.ended += 1;
        self.pace.until = 0;
        self.pace.told = true;
        self.worker.now()
    }

    /// Before a step: lets the clock go as far as it may now. Returns how long the step may wait, at most.
    pub(super) fn set_pace(&mut self) -> Option<Duration> {
        if !self.pace.own {
            return None;
        }
        let until = self.pace.until;
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
        let mut over = self.worker.stands() && now >= self.pace.until;
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
