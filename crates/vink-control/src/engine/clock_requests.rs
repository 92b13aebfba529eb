//! What is asked of a lab's clock from outside: to stand, to go, to go so far.

use std::sync::Arc;

use vink_api::{ChangeClock, ClockState, Happening, RunClock, Speed, Step};
use vink_protocol::{Action, Answer, Stop};
use vink_spec::Factor;

use super::clock::{Clock, Goal, Priority, Requester, TimeRequest, WakeCondition};
use super::lab::{is_over, Lab};
use super::program::Phase;
use crate::http_error::HttpError;

/// How long (ns) a step to a packet or a call waits for one, by the lab's clock: there is always a
/// next timer of the kernel's own.
const LONGEST_STEP: u64 = 3_600_000_000_000;

impl Lab {
    /// `GET .../clock`.
    pub(crate) async fn clock(&self) -> Result<vink_api::Clock, HttpError> {
        let (worker, own) = {
            let state = self.state();
            let mut workers = state.workers.iter();
            (
                workers.position(|worker| worker.client.is_some()),
                state.clock.is_virtual,
            )
        };
        let kernel = match worker {
            Some(worker) => match self.have(worker, Action::Clock, Vec::new()).await? {
                Answer::Clock { now, .. } => now,
                other => return Err(HttpError::invalid(format!("the worker answered {other:?}"))),
            },
            None => 0,
        };
        let state = self.state();
        let clock = &state.clock;
        let up = match own {
            true => kernel.saturating_sub(clock.up_at),
            false => state.up.map_or(0, |up| up.elapsed().as_nanos() as u64),
        };
        Ok(vink_api::Clock {
            time: state.spec.time,
            state: match (own, clock.is_running(), clock.paused) {
                _ if clock.halted && (own || !clock.paused) => ClockState::Stopped,
                (false, _, true) => ClockState::Paused,
                (false, _, false) | (true, true, _) => ClockState::Running,
                (true, false, true) => ClockState::Paused,
                (true, false, false) => ClockState::Standing,
            },
            seconds: up as f64 / 1e9,
            nanoseconds: up,
            kernel_nanoseconds: kernel,
            free: !own || clock.free_running,
            speed: clock.speed.and_then(|speed| Factor::try_from(speed).ok()),
        })
    }

    /// How it is now, told to all.
    pub(crate) async fn tell_clock(&self) -> Result<vink_api::Clock, HttpError> {
        let clock = self.clock().await?;
        self.tell(Happening::Clock {
            clock: clock.clone(),
        });
        Ok(clock)
    }

    /// A lab whose clock can't be told anything says so.
    fn own_clock(&self, what: &str) -> Result<(), HttpError> {
        match self.state().clock.is_virtual {
            true => Ok(()),
            false => Err(HttpError::conflict(format!(
                "lab {} lives by the host's clock, which can't be {what}",
                self.name
            ))
            .hint("`time: virtual` in its file, or vink lab up --time virtual, gives a lab a clock of its own")),
        }
    }

    /// `PATCH .../clock`.
    pub(crate) async fn change_clock(
        self: &Arc<Lab>,
        change: ChangeClock,
    ) -> Result<vink_api::Clock, HttpError> {
        if change.free.is_some() || change.speed.is_some() {
            self.own_clock("slowed down, and runs freely")?;
        }
        {
            let mut state = self.state();
            let clock = &mut state.clock;
            clock.paused = change.paused.unwrap_or(clock.paused);
            clock.free_running = change.free.unwrap_or(clock.free_running);
            clock.speed = match change.speed {
                None => clock.speed,
                Some(Speed::Max) => None,
                Some(Speed::Factor(factor)) => Some(factor.get()),
            };
            state.schedule();
        }
        let (own, halted) = {
            let clock = &self.state().clock;
            (clock.is_virtual, clock.halted)
        };
        match change.paused {
            Some(false) if halted => self.resume().await?,
            // As a breakpoint does it.
            Some(true) if !own => self.stops(None),
            _ => {}
        }
        self.tell_clock().await
    }

    /// `POST .../clock/run`.
    pub(crate) async fn run_clock(
        self: &Arc<Lab>,
        run: RunClock,
        requester: Requester,
    ) -> Result<vink_api::Clock, HttpError> {
        self.own_clock("told how far to go")?;
        // The clock is the kernel's, and the first machine boots it.
        if self.state().workers.iter().all(|w| w.client.is_none()) {
            let error = format!(
                "lab {} has no machine, so no kernel that has a clock",
                self.name
            );
            return Err(HttpError::conflict(error).hint("vink machine add NAME makes one"));
        }
        let clock = self.clock().await?;
        let mut until = u64::MAX;
        let mut conditions = Vec::new();
        if let Some(span) = run.until {
            until = until.min(self.state().clock.up_at.saturating_add(span.0));
        }
        if let Some(span) = run.by {
            until = until.min(clock.kernel_nanoseconds.saturating_add(span.0));
        }
        let mut stop = None;
        match run.next {
            None => {}
            Some(Step::Event) => match self.have(0, Action::Clock, Vec::new()).await? {
                Answer::Clock {
                    next: Some(next), ..
                } => until = until.min(next),
                _ => {
                    let error = format!("nothing in lab {} waits for any time", self.name);
                    return Err(HttpError::conflict(error));
                }
            },
            Some(Step::Packet) => stop = Some(Stop::Packet),
            Some(Step::Call) => {
                if !self.has_callers() {
                    let error = format!(
                        "no program of the host runs in lab {}: there is none to make a call",
                        self.name
                    );
                    return Err(HttpError::conflict(error));
                }
                stop = Some(Stop::Call);
            }
        }
        for (program, good) in [
            (run.ended, is_over as fn(&Phase) -> bool),
            (run.ready, is_ready),
        ] {
            let Some(program) = program else {
                continue;
            };
            let phase = {
                let state = self.state();
                let id = state.program(&program)?;
                state.tasks.get(&id).map(|task| task.phase.subscribe())
            };
            conditions.extend(phase.map(|phase| WakeCondition::Reached(Goal::new(&phase, good))));
        }
        if until == u64::MAX && stop.is_none() && conditions.is_empty() {
            return Err(HttpError::invalid(
                "nothing says how far the clock is to go",
            ));
        }
        let mut in_vain = None;
        if until == u64::MAX && stop.is_some() {
            until = clock.kernel_nanoseconds.saturating_add(LONGEST_STEP);
            in_vain = Some(until);
        }
        if until < u64::MAX {
            conditions.push(match requester {
                Requester::Line => WakeCondition::At(until),
                Requester::Client => WakeCondition::AtNoLine(until),
            });
        }
        conditions.push(WakeCondition::Halted);
        let actor = self.new_actor();
        let stopped = self.state().clock.early_pauses();
        if stop.is_some() {
            conditions.push(WakeCondition::PausedEarly(stopped));
        }
        let passes = self.request_time(TimeRequest {
            until,
            stop,
            reached: None,
            priority: match requester {
                Requester::Line => Priority::Required,
                Requester::Client => Priority::Explicit,
            },
        });
        let Some(actor) = actor else {
            return Err(HttpError::conflict("its clock was changed"));
        };
        actor
            .run(async {
                self.wait_until(conditions).await;
                // Before the next one's turn: the clock would go on for this one.
                drop(passes);
            })
            .await;
        if self
            .state()
            .workers
            .iter()
            .any(|worker| worker.error.is_some())
        {
            return Err(self.is_dead());
        }
        let is_in_vain = |clock: &Clock| {
            clock.early_pauses() == stopped && in_vain.is_some_and(|until| clock.now >= until)
        };
        if is_in_vain(&self.state().clock) {
            let error = format!(
                "no {} within an hour of lab {}'s clock",
                match stop {
                    Some(Stop::Call) => "program has made a call",
                    _ => "packet was sent, received or lost",
                },
                self.name
            );
            let hint = "vink lab until --ended PROGRAM, or a time, lets the clock go further";
            return Err(HttpError::conflict(error).hint(hint));
        }
        self.tell_clock().await
    }

    /// Whether a program of the host runs, or will.
    fn has_callers(&self) -> bool {
        let state = self.state();
        let mut tasks = state.tasks.values();
        tasks.any(|task| {
            let over = matches!(*task.phase.borrow(), Phase::Ended { last: true, .. });
            !task.app && !over
        })
    }
}

/// Ready, or over.
fn is_ready(phase: &Phase) -> bool {
    matches!(phase, Phase::Ready | Phase::Ended { last: true, .. })
}
