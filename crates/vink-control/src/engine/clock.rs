//! The clock of a lab that does not live by the host's: who lets it go, how far, and whose turn it is when it stands.
//!
//! # Theory of operation
//!
//! The worker's clock stands until it is told to go to a time ([`Action::Go`]). It stands again there, or when a program has
//! ended or a breakpoint has a line to be carried out, and tells. What the engine then does of its own accord happens at that time, in an order that is the same each
//! time: everything that acts in the lab is a *party* (the one that makes or changes it, the supervisor of each program, the
//! one that carries out events), and one of them acts at a time. A party *rests* until one of its reasons holds: the
//! clock has come to a time, or a program is so far. When nobody acts, the first party with a reason that holds has its turn,
//! as soon as the lab's programs have nothing left to do at that time; if there is none, the clock goes on.
//!
//! It goes on only for somebody: for a program that a client or a set-up line waits for, for somebody that has asked for
//! a time ([`Demand`]), or always (*free*). And never past the time that a party rests until, nor while all of the lab is
//! stopped by a breakpoint.

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
    /// What is asked for is asked for by a line of the lab's own.
    static OF_LINE: bool;
}

/// Carries out a request, of which this is known.
pub(crate) async fn of_line_scope<T>(of_line: bool, work: impl Future<Output = T>) -> T {
    OF_LINE.scope(of_line, work).await
}

/// Whether this is done for a line of the lab's own.
pub(crate) fn is_of_line() -> bool {
    OF_LINE.try_with(|of_line| *of_line).unwrap_or(false)
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
    /// A breakpoint has stopped all of the lab.
    pub(crate) halted: bool,
    /// The lab's record is being ended: nobody acts any more, and no time passes.
    pub(crate) over: bool,
    /// News that were told: ends of programs, and breakpoints' lines and stops.
    news: u64,
    /// Something was done in the lab since it was last found to have nothing left to do.
    pub(super) unsettled: bool,
    /// Told whenever anything has happened.
    told: watch::Sender<()>,
    /// Legs begun, the last one at whose end it stood, and where the last one leads; the clock may be on its way.
    leg: u64,
    stood: u64,
    going: Option<Leg>,
    /// How often a leg has ended before its time.
    stopped: u64,
    demands: BTreeMap<u64, Demand>,
    parties: BTreeMap<u64, Party>,
    /// The party that acts.
    turn: Option<u64>,
    /// Lines of the lab's own under way.
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
    /// Even if it is paused, or somebody else acts.
    pub(crate) how: Urgency,
}

/// When a demand counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// If the clock is not paused, and no line is under way.
    Wish,
    /// Even if it is paused; but no line is under way.
    Told,
    /// Always: for a line, or for what must be done before the lab can do anything else.
    Need,
}

struct Party {
    /// None: it acts, or is about to.
    reasons: Option<Vec<Reason>>,
    wake: Arc<Notify>,
}

impl Party {
    /// `over`: whatever it waits for.
    fn can_act(&self, moment: &Moment, over: bool) -> bool {
        let reasons = self.reasons.as_ref();
        reasons.is_some_and(|all| over || all.iter().any(|reason| reason.holds(moment)))
    }
}

/// Why a party goes on.
pub(crate) enum Reason {
    /// Nothing is left to be waited for.
    Now,
    /// No line of the lab's own has anything to do at this time.
    Idle,
    /// The clock is there.
    At(u64),
    /// The same, and no line of the lab's own has anything to do there.
    Until(u64),
    /// A program is so far.
    Phase(watch::Receiver<Phase>, fn(&Phase) -> bool),
    /// The clock has been stopped more often than that.
    Stopped(u64),
    /// Somebody has said so.
    Said(watch::Receiver<bool>),
    /// A breakpoint has stopped all of the lab.
    Halted,
}

/// What reasons are about.
struct Moment {
    now: u64,
    stopped: u64,
    halted: bool,
    /// A line is under way that does not wait for time to pass.
    busy: bool,
}

impl Reason {
    fn holds(&self, moment: &Moment) -> bool {
        match self {
            Reason::Now => true,
            Reason::At(time) => *time <= moment.now,
            Reason::Idle => !moment.busy,
            Reason::Until(time) => *time <= moment.now && !moment.busy,
            Reason::Phase(phase, good) => good(&phase.borrow()) || phase.has_changed().is_err(),
            Reason::Stopped(before) => moment.stopped > *before,
            Reason::Said(said) => *said.borrow() || said.has_changed().is_err(),
            Reason::Halted => moment.halted,
        }
    }
}

impl State {
    /// To be called when anything has happened: gives somebody its turn, or lets the clock go on.
    pub(crate) fn look_at_clock(&mut self) {
        let over = self.is_over();
        let moment = self.moment();
        let clock = &mut self.clock;
        clock.told.send_replace(());
        if !clock.own || clock.over || clock.turn.is_some() {
            return;
        }
        let mut parties = clock.parties.iter_mut();
        let first = parties.find(|(_, party)| party.can_act(&moment, over));
        if let Some((number, party)) = first {
            party.reasons = None;
            party.wake.notify_one();
            clock.turn = Some(*number);
            return;
        }
        if moment.halted {
            return;
        }
        let now = moment.now;
        // While a line is carried out, nobody else's programs are waited for.
        let line = self.clock.lines > 0;
        let awaits = |task: &super::program::Task| task.awaited && (task.of_line || !line);
        let mut tasks = self.tasks.values();
        let is_wanted = tasks.any(|task| awaits(task) && task.is_running());
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

    fn moment(&self) -> Moment {
        let clock = &self.clock;
        let needs = |demand: &Demand| demand.how == Urgency::Need && demand.until > clock.now;
        let mut tasks = self.tasks.values();
        let waits = clock.demands.values().any(needs)
            || tasks.any(|task| task.of_line && task.awaited && task.is_running());
        Moment {
            now: clock.now,
            stopped: clock.stopped,
            halted: clock.halted,
            busy: clock.lines > 0 && !waits,
        }
    }

    /// Whether a line is under way that does not wait for time to pass, or something is due.
    pub(super) fn is_busy(&self) -> bool {
        let now = self.clock.now;
        let parties = self.clock.parties.values();
        let mut reasons = parties.flat_map(|party| party.reasons.iter().flatten());
        let is_due = |reason: &Reason| matches!(reason, Reason::At(time) if *time <= now);
        self.moment().busy || reasons.any(is_due)
    }

    /// Whether anybody has something to do before time passes.
    pub(super) fn is_amidst_something(&self) -> bool {
        let moment = self.moment();
        let clock = &self.clock;
        let mut parties = clock.parties.values();
        clock.own
            && (clock.lines > 0
                || clock.turn.is_some()
                || parties.any(|party| party.can_act(&moment, false)))
    }

    /// Nothing that anybody waits for will come.
    fn is_over(&self) -> bool {
        self.phase == LabState::Ending || self.workers.iter().any(|w| w.error.is_some())
    }
}

impl Clock {
    /// Of a lab with this clock, whose worker is about to boot.
    pub(crate) fn begin(&mut self, time: Time) {
        self.own = time != Time::Real;
        self.now = 0;
        self.up = 0;
        self.news = 0;
        self.halted = false;
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
            self.stood = leg;
            self.unsettled = false;
        }
    }

    /// The worker tells of a program's end or a breakpoint, at which it stands.
    pub(crate) fn tells_news(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.news += 1;
        self.unsettled |= self.going.take().is_some();
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
            news: self.news,
        }
    }

    /// Where it should go now.
    fn next_leg(&self, is_wanted: bool) -> Leg {
        let line = self.lines > 0;
        let counts = |demand: &&Demand| match demand.how {
            Urgency::Wish => !self.paused && !line,
            Urgency::Told => !line,
            Urgency::Need => true,
        };
        let demands = self.demands.values().filter(counts);
        let mut until = demands
            .clone()
            .map(|demand| demand.until)
            .max()
            .unwrap_or(0);
        let mut all = self.demands.values();
        let is_driven = !self.paused || all.any(|demand| demand.how != Urgency::Wish);
        if self.free && !self.paused && !line || is_wanted && is_driven {
            until = u64::MAX;
        }
        let reasons = self
            .parties
            .values()
            .flat_map(|party| party.reasons.iter().flatten());
        let bounds = reasons.filter_map(|reason| match reason {
            Reason::At(time) | Reason::Until(time) => Some(*time),
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
            // What it has done may concern programs.
            state.clock.unsettled = true;
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
        self.join_for(Reason::Now)
    }

    /// The same, whose first turn comes when this holds.
    pub(crate) fn join_for(self: &Arc<Lab>, reason: Reason) -> Option<Seat> {
        let mut state = self.state();
        if !state.clock.own {
            return None;
        }
        let number = state.clock.number();
        let party = Party {
            reasons: Some(vec![reason]),
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
                clock.unsettled = true;
            }
            state.look_at_clock();
        }
        self.have_turn(number).await;
    }

    /// Waits for one's turn, and until nothing is left to be done in the lab at this time.
    async fn have_turn(&self, number: u64) {
        let wake = match self.state().clock.parties.get(&number) {
            Some(party) => party.wake.clone(),
            None => return,
        };
        while self.state().clock.turn != Some(number) {
            wake.notified().await;
        }
        self.settles().await;
    }

    /// Stops the clock where it is, and waits until the lab's programs have nothing left to do there.
    pub(crate) async fn settles(&self) {
        let mut told = self.state().clock.told.subscribe();
        loop {
            let (stop, leg, news) = {
                let clock = &mut self.state().clock;
                let settled = clock.going.take().is_none() && !clock.unsettled;
                if settled || clock.halted || !clock.own {
                    return;
                }
                clock.unsettled = true;
                let here = Leg {
                    until: 0,
                    stop: None,
                    speed: clock.speed,
                };
                (clock.go(here), clock.leg, clock.news)
            };
            // One that has died stands, too.
            let Ok(Answer::Clock { now, .. }) = self.have(0, stop, Vec::new()).await else {
                return;
            };
            {
                let clock = &mut self.state().clock;
                clock.now = clock.now.max(now);
            }
            let is_settled = |state: &State| {
                let clock = &state.clock;
                let settled = clock.stood == leg || clock.halted || state.is_over();
                // It does not count then.
                let again = clock.news != news;
                (settled || again).then_some(settled)
            };
            loop {
                told.mark_unchanged();
                let found = is_settled(&self.state());
                match found {
                    Some(true) => return,
                    Some(false) => break,
                    None if told.changed().await.is_err() => return,
                    None => {}
                }
            }
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
            how: Urgency::Need,
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
