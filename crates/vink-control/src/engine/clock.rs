//! The clock of a lab that does not live by the host's: who lets it go, how far, and whose turn it is when it stands.
//!
//! # Theory of operation
//!
//! The worker's clock stands until it is told to go to a time ([`Action::Go`]). It stands again there, or when a program has
//! ended, and tells. What the engine then does of its own accord happens at that time, in an order that is the same each
//! time: everything that acts in the lab is a *party* (the one that makes or changes it, the supervisor of each program, the
//! one that carries out events), and one of them acts at a time. A party *rests* until one of its reasons holds: the
//! clock has come to a time, or a program is so far. When nobody acts, the first party with a reason that holds has its turn;
//! if there is none, the clock goes on.
//!
//! It goes on only for somebody: for a program that a client or a set-up line waits for, for somebody that has asked for
//! a time ([`Demand`]), or always (*free*). And never past the time that a party rests until.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{watch, Notify};
use vink_lab::worker::protocol::{Action, Answer, Stop};
use vink_spec::Time;

use super::lab::{Lab, State};
use super::program::Phase;
use vink_api::LabState;

tokio::task_local! {
    /// The party that a task is.
    static PARTY: u64;
}

/// What is known of the clock, and who wants what of it. Times are the kernel's, in ns.
#[derive(Default)]
pub(crate) struct Clock {
    /// It is not the host's.
    pub(crate) own: bool,
    /// When it was last heard of.
    pub(crate) now: u64,
    /// When the lab was up.
    pub(crate) up: u64,
    pub(crate) paused: bool,
    /// It goes on for nobody's sake.
    pub(crate) free: bool,
    pub(crate) speed: Option<f64>,
    /// Ends of programs that were told.
    ended: u64,
    /// Legs begun, and where the last one leads; the clock may be on its way.
    leg: u64,
    going: Option<Leg>,
    /// How often a leg has ended before its time.
    stopped: u64,
    demands: BTreeMap<u64, Demand>,
    parties: BTreeMap<u64, Party>,
    /// The party that acts.
    turn: Option<u64>,
    /// Lines of the switch box under way.
    lines: usize,
    last: u64,
}

/// Where the clock was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leg {
    until: u64,
    stop: Option<Stop>,
    speed: Option<f64>,
}

/// Somebody wants the clock to go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Up to here.
    pub(crate) until: u64,
    /// Or until this has happened.
    pub(crate) stop: Option<Stop>,
    /// Even if it is paused.
    pub(crate) always: bool,
}

struct Party {
    /// None: it acts, or is about to.
    reasons: Option<Vec<Reason>>,
    wake: Arc<Notify>,
}

/// Why a party goes on.
pub(crate) enum Reason {
    /// Nothing is left to be waited for.
    Now,
    /// The clock is there.
    At(u64),
    /// A program is so far.
    Phase(watch::Receiver<Phase>, fn(&Phase) -> bool),
    /// The clock has been stopped more often than that.
    Stopped(u64),
    /// Somebody has said so.
    Said(watch::Receiver<bool>),
}

impl Reason {
    fn holds(&self, now: u64, stopped: u64) -> bool {
        match self {
            Reason::Now => true,
            Reason::At(time) => *time <= now,
            Reason::Phase(phase, good) => good(&phase.borrow()) || phase.has_changed().is_err(),
            Reason::Stopped(before) => stopped > *before,
            Reason::Said(said) => *said.borrow() || said.has_changed().is_err(),
        }
    }
}

impl State {
    /// To be called when anything has happened: gives somebody its turn, or lets the clock go on.
    pub(crate) fn look_at_clock(&mut self) {
        let clock = &mut self.clock;
        if !clock.own || clock.turn.is_some() {
            return;
        }
        let (now, stopped) = (clock.now, clock.stopped);
        // Nothing that they wait for will come.
        let over = self.phase == LabState::Ending || self.workers.iter().any(|w| w.error.is_some());
        let can_act = |party: &Party| {
            let reasons = party.reasons.as_ref();
            reasons.is_some_and(|all| over || all.iter().any(|r| r.holds(now, stopped)))
        };
        if let Some((number, party)) = clock.parties.iter_mut().find(|(_, party)| can_act(party)) {
            party.reasons = None;
            party.wake.notify_one();
            clock.turn = Some(*number);
            return;
        }
        let is_wanted = self
            .tasks
            .values()
            .any(|task| task.awaited && task.is_running());
        let leg = self.clock.next_leg(is_wanted);
        let going = &mut self.clock.going;
        if *going == Some(leg) || going.is_none() && leg.until <= now {
            return;
        }
        let Some(link) = self.workers.first().and_then(|worker| worker.link.as_ref()) else {
            return;
        };
        *going = Some(leg);
        // The answer says nothing new.
        drop(link.ask(self.clock.go(leg), Vec::new()));
    }
}

impl Clock {
    /// Of a lab with this clock, whose worker is about to boot.
    pub(crate) fn begin(&mut self, time: Time) {
        self.own = time != Time::Real;
        self.now = 0;
        self.up = 0;
        self.ended = 0;
        self.going = None;
        self.speed = match time {
            Time::Scaled(factor) => Some(factor.get()),
            Time::Real | Time::Virtual(_) => None,
        };
        self.free = self.speed.is_some();
    }

    /// How long the lab has been up.
    pub(crate) fn up_for(&self) -> Duration {
        Duration::from_nanos(self.now.saturating_sub(self.up))
    }

    /// The worker tells that it stands.
    pub(crate) fn stands(&mut self, now: u64, leg: u64) {
        self.now = self.now.max(now);
        if leg == self.leg {
            if self.going.is_some_and(|going| now < going.until) {
                self.stopped += 1;
            }
            self.going = None;
        }
    }

    /// The worker tells of a program's end, at which it stands.
    pub(crate) fn program_ended(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.ended += 1;
        self.going = None;
    }

    /// How often it stood before it was where it was sent.
    pub(crate) fn stopped(&self) -> u64 {
        self.stopped
    }

    /// Whether it moves, or may be about to.
    pub(crate) fn is_going(&self) -> bool {
        self.going.is_some_and(|going| going.until > self.now)
    }

    fn go(&mut self, leg: Leg) -> Action {
        self.leg += 1;
        Action::Go {
            leg: self.leg,
            until: leg.until,
            stop: leg.stop,
            speed: leg.speed,
            ended: self.ended,
        }
    }

    /// Where it should go now.
    fn next_leg(&self, is_wanted: bool) -> Leg {
        // While a line is carried out, who asked for a time before has to wait.
        let only_always = self.paused || self.lines > 0;
        let demands = self.demands.values();
        let demands = demands.filter(|demand| demand.always || !only_always);
        let mut until = demands
            .clone()
            .map(|demand| demand.until)
            .max()
            .unwrap_or(0);
        if !only_always && self.free || !self.paused && is_wanted {
            until = u64::MAX;
        }
        let reasons = self
            .parties
            .values()
            .flat_map(|party| party.reasons.iter().flatten());
        let bounds = reasons.filter_map(|reason| match reason {
            Reason::At(time) => Some(*time),
            _ => None,
        });
        Leg {
            until: bounds.fold(until, u64::min),
            stop: demands.filter_map(|demand| demand.stop).next(),
            speed: self.speed,
        }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// A party, which leaves when this is dropped.
pub(crate) struct Seat {
    lab: Arc<Lab>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.lab.state();
        state.clock.parties.remove(&self.number);
        if state.clock.turn == Some(self.number) {
            state.clock.turn = None;
        }
        state.look_at_clock();
    }
}

/// A demand, which ends when this is dropped.
pub(crate) struct Demanded {
    lab: Arc<Lab>,
    number: u64,
}

impl Drop for Demanded {
    fn drop(&mut self) {
        let mut state = self.lab.state();
        state.clock.demands.remove(&self.number);
        state.look_at_clock();
    }
}

impl Seat {
    /// Does this when it is the party's turn, and leaves then.
    pub(crate) async fn run<T>(self, work: impl Future<Output = T>) -> T {
        self.lab.have_turn(self.number).await;
        PARTY.scope(self.number, work).await
    }
}

impl Lab {
    /// A new party, with its turn after those that were there before; none in a lab with the host's clock.
    pub(crate) fn join(self: &Arc<Lab>) -> Option<Seat> {
        let mut state = self.state();
        if !state.clock.own {
            return None;
        }
        let number = state.clock.number();
        let party = Party {
            reasons: Some(vec![Reason::Now]),
            wake: Arc::default(),
        };
        state.clock.parties.insert(number, party);
        state.look_at_clock();
        let lab = self.clone();
        Some(Seat { lab, number })
    }

    /// Does something as a party, if it is not one's already.
    pub(crate) async fn in_turn<T>(self: &Arc<Lab>, work: impl Future<Output = T>) -> T {
        if PARTY.try_with(|_| ()).is_ok() {
            return work.await;
        }
        match self.join() {
            Some(seat) => seat.run(work).await,
            None => work.await,
        }
    }

    /// Lets others act until one of these holds; only for parties.
    pub(crate) async fn rest(&self, reasons: Vec<Reason>) {
        let number = PARTY.get();
        {
            let mut state = self.state();
            let clock = &mut state.clock;
            if let Some(party) = clock.parties.get_mut(&number) {
                party.reasons = Some(reasons);
            }
            if clock.turn == Some(number) {
                clock.turn = None;
            }
            state.look_at_clock();
        }
        self.have_turn(number).await;
    }

    /// Waits for one's turn, and stops the clock for it.
    async fn have_turn(&self, number: u64) {
        let wake = match self.state().clock.parties.get(&number) {
            Some(party) => party.wake.clone(),
            None => return,
        };
        while self.state().clock.turn != Some(number) {
            wake.notified().await;
        }
        let stop = {
            let mut state = self.state();
            let clock = &mut state.clock;
            let leg = Leg {
                until: 0,
                stop: None,
                speed: clock.speed,
            };
            clock.going.take().map(|_| clock.go(leg))
        };
        let Some(stop) = stop else {
            return;
        };
        // One that has died stands, too.
        if let Ok(Answer::Clock { now, .. }) = self.have(0, stop, Vec::new()).await {
            let clock = &mut self.state().clock;
            clock.now = clock.now.max(now);
        }
    }

    /// Waits until a program is so far; `None`: it is not known any more.
    pub(crate) async fn until_phase(
        &self,
        phase: &mut watch::Receiver<Phase>,
        good: fn(&Phase) -> bool,
    ) -> Option<Phase> {
        if PARTY.try_with(|_| ()).is_ok() {
            self.rest(vec![Reason::Phase(phase.clone(), good)]).await;
            let now = phase.borrow().clone();
            return good(&now).then_some(now);
        }
        phase.wait_for(good).await.map(|phase| phase.clone()).ok()
    }

    /// Lets this pass by the lab's clock.
    pub(crate) async fn pass(&self, span: Duration) {
        if PARTY.try_with(|_| ()).is_err() {
            return tokio::time::sleep(span).await;
        }
        self.rest(vec![self.after(span)]).await;
    }

    /// When this has passed by the lab's clock.
    pub(crate) fn after(&self, span: Duration) -> Reason {
        let now = self.state().clock.now;
        Reason::At(now.saturating_add(span.as_nanos() as u64))
    }

    /// How late it is by the lab's clock, from some time on.
    pub(crate) fn moment(&self) -> Duration {
        let state = self.state();
        match state.clock.own {
            true => Duration::from_nanos(state.clock.now),
            false => self.made.elapsed(),
        }
    }

    /// Wants the clock to go on, for as long as the answer is kept.
    pub(crate) fn demand(self: &Arc<Lab>, demand: Demand) -> Demanded {
        let mut state = self.state();
        let number = state.clock.number();
        state.clock.demands.insert(number, demand);
        state.look_at_clock();
        let lab = self.clone();
        Demanded { lab, number }
    }

    /// Wants it to go on for as long as it takes, paused or not.
    pub(crate) fn needs_time(self: &Arc<Lab>) -> Demanded {
        self.demand(Demand {
            until: u64::MAX,
            stop: None,
            always: true,
        })
    }

    /// Carries out a line of the switch box while nobody else acts, and no time passes but for programs that it waits for.
    pub(crate) async fn line(self: &Arc<Lab>, line: String) -> Result<(), String> {
        let running = (self.hooks.run_line)(self.name.clone(), line);
        if PARTY.try_with(|_| ()).is_err() {
            return running.await;
        }
        let (said, is_said) = watch::channel(false);
        let _counted = Counted::new(self);
        let (ran, ()) = tokio::join!(
            async {
                let ran = running.await;
                said.send_replace(true);
                self.state().look_at_clock();
                ran
            },
            self.rest(vec![Reason::Said(is_said)]),
        );
        ran
    }
}

/// A line under way.
struct Counted<'a>(&'a Lab);

impl Counted<'_> {
    fn new(lab: &Lab) -> Counted<'_> {
        lab.state().clock.lines += 1;
        Counted(lab)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.state().clock.lines -= 1;
    }
}
