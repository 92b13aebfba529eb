//! The virtual clock of a lab: which actor may act, and how far the clock may run.
//!
//! # Theory of operation
//!
//! The worker's clock is paused until a run is requested ([`Action::RunUntil`]). It pauses at the
//! end of the run, and when a program has ended or a breakpoint has a line to be carried out. What
//! the engine then does by itself happens at that time, in the same order in each run of the lab:
//! all that acts is an *actor* (the request that makes or changes the lab, the supervisor of each
//! program, the timed lines), and one actor acts at a time. An actor *waits* until one of its
//! [`WakeCondition`]s holds: the clock has reached a time, or a program has reached a phase. When
//! no actor acts, the first one with a condition that holds gets its turn, as soon as the lab is
//! quiescent: its programs are idle at that time. If there is no such actor, the clock runs.
//!
//! The clock runs while there is a condition: a program that a client or a set-up line waits for, a
//! [`TimeRequest`], or a free-running clock. It never passes a time that an actor waits for, and it
//! is paused while a breakpoint has stopped the whole lab.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{watch, Notify};
use tokio::task::JoinSet;
use vink_protocol::{Action, Answer, Stop};
use vink_spec::Time;

use super::lab::{Lab, State};
use super::program::{Phase, Task};
use crate::direct::DirectApi;
use vink_api::LabState;

tokio::task_local! {
    /// The actor that a task is.
    static ACTOR: u64;
}

/// Which side a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A client, over a socket.
    Client,
    /// A line of the lab's own, timed or of a breakpoint.
    Line,
}

/// The clock's state, and what is requested of it. Times are the kernel's, in ns.
#[derive(Default)]
pub(crate) struct Clock {
    /// The lab has a clock of its own.
    pub(crate) is_virtual: bool,
    /// The last time that the worker has reported.
    pub(crate) now: u64,
    /// The time at which the lab was up.
    pub(crate) up_at: u64,
    pub(crate) paused: bool,
    /// It runs without a request.
    pub(crate) free_running: bool,
    pub(crate) speed: Option<f64>,
    /// A breakpoint has stopped the whole lab.
    pub(crate) halted: bool,
    /// The lab's record is being ended: no actor acts, and no time passes.
    pub(crate) is_frozen: bool,
    /// The event epoch: how many ends of programs, and lines and stops of breakpoints, were
    /// reported.
    epoch: u64,
    /// The lab may not be quiescent: something was done since it last was.
    pub(super) needs_quiesce: bool,
    /// Notified at each change.
    changed: watch::Sender<()>,
    /// Runs requested, the last run that has ended, and the run that may be under way.
    run: u64,
    paused_run: u64,
    running: Option<RunUntil>,
    /// Runs that have ended before their time.
    early_pauses: u64,
    requests: BTreeMap<u64, TimeRequest>,
    actors: BTreeMap<u64, Actor>,
    /// The actor whose turn it is.
    acting: Option<u64>,
    /// Lines of the lab that are being carried out.
    lines: usize,
    last: u64,
}

/// A run of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RunUntil {
    until: u64,
    stop: Option<Stop>,
    speed: Option<f64>,
}

/// A phase that a program is to reach.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    /// The program's phases.
    phase: watch::Receiver<Phase>,
    /// Whether it is this one.
    good: fn(&Phase) -> bool,
}

impl Goal {
    /// That this program reaches this phase.
    pub(crate) fn new(phase: &watch::Receiver<Phase>, good: fn(&Phase) -> bool) -> Goal {
        let phase = phase.clone();
        Goal { phase, good }
    }

    fn is_reached(&self) -> bool {
        (self.good)(&self.phase.borrow())
    }
}

/// A request that the clock run.
#[derive(Debug)]
pub(crate) struct TimeRequest {
    /// Until this time.
    pub(crate) until: u64,
    /// Or until this event.
    pub(crate) stop: Option<Stop>,
    /// Or until a program has reached a phase: then it counts no more, though it may not be dropped yet.
    pub(crate) reached: Option<Goal>,
    /// Whether it counts while the clock is paused, or a line is carried out.
    pub(crate) priority: Priority,
}

impl TimeRequest {
    /// Until the guard is dropped, paused or not.
    fn required() -> TimeRequest {
        TimeRequest {
            until: u64::MAX,
            stop: None,
            reached: None,
            priority: Priority::Required,
        }
    }

    fn is_reached(&self) -> bool {
        self.reached.as_ref().is_some_and(Goal::is_reached)
    }
}

/// When a time request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// While the clock is not paused, and no line is carried out.
    Normal,
    /// While no line is carried out, even if the clock is paused.
    Explicit,
    /// Always: for a line, or for work that the lab cannot proceed without.
    Required,
}

struct Actor {
    /// `None`: it acts, or is about to.
    conditions: Option<Vec<WakeCondition>>,
    wake: Arc<Notify>,
}

impl Actor {
    /// `over`: the lab ends, and no condition counts.
    fn can_act(&self, snapshot: &Snapshot, over: bool) -> bool {
        let conditions = self.conditions.as_ref();
        conditions.is_some_and(|all| over || all.iter().any(|condition| condition.holds(snapshot)))
    }
}

/// What an actor waits for.
pub(crate) enum WakeCondition {
    /// Its next turn.
    Immediately,
    /// No line of the lab has anything to do at this time.
    NoLine,
    /// The clock has reached this time.
    At(u64),
    /// The same, and no line of the lab has anything to do then.
    AtNoLine(u64),
    /// A program has reached a phase, or is not known any more.
    Reached(Goal),
    /// More runs than that have ended early.
    PausedEarly(u64),
    /// A task has sent `true`.
    Signalled(watch::Receiver<bool>),
    /// A breakpoint has stopped the whole lab.
    Halted,
}

/// What conditions are checked against.
struct Snapshot {
    now: u64,
    early_pauses: u64,
    halted: bool,
    /// A line is carried out that does not wait for time to pass.
    busy: bool,
}

impl WakeCondition {
    fn holds(&self, snapshot: &Snapshot) -> bool {
        match self {
            WakeCondition::Immediately => true,
            WakeCondition::At(time) => *time <= snapshot.now,
            WakeCondition::NoLine => !snapshot.busy,
            WakeCondition::AtNoLine(time) => *time <= snapshot.now && !snapshot.busy,
            WakeCondition::Reached(goal) => goal.is_reached() || goal.phase.has_changed().is_err(),
            WakeCondition::PausedEarly(before) => snapshot.early_pauses > *before,
            WakeCondition::Signalled(signal) => *signal.borrow() || signal.has_changed().is_err(),
            WakeCondition::Halted => snapshot.halted,
        }
    }
}

impl State {
    /// To be called at each change: gives an actor its turn, or lets the clock run.
    pub(crate) fn schedule(&mut self) {
        let over = self.is_ending();
        let snapshot = self.snapshot();
        let clock = &mut self.clock;
        clock.changed.send_replace(());
        if !clock.is_virtual || clock.is_frozen || clock.acting.is_some() {
            return;
        }
        let mut actors = clock.actors.iter_mut();
        let first = actors.find(|(_, actor)| actor.can_act(&snapshot, over));
        if let Some((number, actor)) = first {
            actor.conditions = None;
            actor.wake.notify_one();
            clock.acting = Some(*number);
            return;
        }
        if snapshot.halted {
            return;
        }
        let now = snapshot.now;
        // While a line is carried out, only its own programs are waited for.
        let line = self.clock.lines > 0;
        let awaits = |task: &Task| match task.awaited_by {
            Some(Requester::Client) => !line,
            Some(Requester::Line) => true,
            None => false,
        };
        let mut tasks = self.tasks.values();
        let is_wanted = tasks.any(|task| awaits(task) && task.is_running());
        let run = self.clock.next_run(is_wanted);
        let running = &mut self.clock.running;
        if *running == Some(run) || running.is_none() && run.until <= now {
            return;
        }
        let Some(client) = self
            .workers
            .first()
            .and_then(|worker| worker.client.as_ref())
        else {
            return;
        };
        *running = Some(run);
        // The answer has no news.
        drop(client.ask(self.clock.run_until(run), Vec::new()));
    }

    fn snapshot(&self) -> Snapshot {
        let clock = &self.clock;
        let needs = |request: &TimeRequest| {
            request.priority == Priority::Required
                && request.until > clock.now
                && !request.is_reached()
        };
        let mut tasks = self.tasks.values();
        let waits = clock.requests.values().any(needs)
            || tasks.any(|task| task.awaited_by == Some(Requester::Line) && task.is_running());
        Snapshot {
            now: clock.now,
            early_pauses: clock.early_pauses,
            halted: clock.halted,
            busy: clock.lines > 0 && !waits,
        }
    }

    /// Whether an actor is due now, or a line is carried out that does not wait for time to pass.
    pub(super) fn has_due_work(&self) -> bool {
        let now = self.clock.now;
        let actors = self.clock.actors.values();
        let mut conditions = actors.flat_map(|actor| actor.conditions.iter().flatten());
        let is_due = |condition: &WakeCondition| matches!(condition, WakeCondition::At(time) if *time <= now);
        self.snapshot().busy || conditions.any(is_due)
    }

    /// Whether an actor has something to do before time passes.
    pub(super) fn has_pending_work(&self) -> bool {
        let snapshot = self.snapshot();
        let clock = &self.clock;
        let mut actors = clock.actors.values();
        clock.is_virtual
            && (clock.lines > 0
                || clock.acting.is_some()
                || actors.any(|actor| actor.can_act(&snapshot, false)))
    }

    /// The lab ends, or a worker has died: no condition will hold any more.
    fn is_ending(&self) -> bool {
        self.phase == LabState::Ending || self.workers.iter().any(|w| w.error.is_some())
    }
}

impl Clock {
    /// Resets the clock: the lab's worker is about to boot.
    pub(crate) fn begin(&mut self, time: Time) {
        self.is_virtual = time != Time::Real;
        self.now = 0;
        self.up_at = 0;
        self.epoch = 0;
        self.halted = false;
        self.running = None;
        self.speed = match time {
            Time::Scaled(factor) => Some(factor.get()),
            Time::Real | Time::Virtual(_) => None,
        };
        self.free_running = self.speed.is_some();
    }

    /// The time since the lab was up.
    pub(crate) fn up_for(&self) -> Duration {
        Duration::from_nanos(self.now.saturating_sub(self.up_at))
    }

    /// The worker has reported the end of a run.
    pub(crate) fn paused_at(&mut self, now: u64, run: u64) {
        self.now = self.now.max(now);
        if run == self.run {
            if self.running.is_some_and(|running| now < running.until) {
                self.early_pauses += 1;
            }
            self.running = None;
            self.paused_run = run;
            self.needs_quiesce = false;
        }
    }

    /// The worker has reported a program's end or a breakpoint, and its clock is paused.
    pub(crate) fn advance_epoch(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.epoch += 1;
        self.needs_quiesce |= self.running.take().is_some();
    }

    /// How many runs have ended before their time.
    pub(crate) fn early_pauses(&self) -> u64 {
        self.early_pauses
    }

    /// Whether a run is under way, or about to begin.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some_and(|running| running.until > self.now)
    }

    fn run_until(&mut self, run: RunUntil) -> Action {
        self.run += 1;
        Action::RunUntil {
            run: self.run,
            until: run.until,
            stop: run.stop,
            speed: run.speed,
            epoch: self.epoch,
        }
    }

    /// The run that all requests and actors allow.
    fn next_run(&self, is_wanted: bool) -> RunUntil {
        let line = self.lines > 0;
        let mut all = self
            .requests
            .values()
            .filter(|request| !request.is_reached());
        let counts = |request: &&TimeRequest| match request.priority {
            Priority::Normal => !self.paused && !line,
            Priority::Explicit => !line,
            Priority::Required => true,
        };
        let requests = all.clone().filter(counts);
        let mut until = requests
            .clone()
            .map(|request| request.until)
            .max()
            .unwrap_or(0);
        let is_driven = !self.paused || all.any(|request| request.priority != Priority::Normal);
        if self.free_running && !self.paused && !line || is_wanted && is_driven {
            until = u64::MAX;
        }
        let conditions = self
            .actors
            .values()
            .flat_map(|actor| actor.conditions.iter().flatten());
        let bounds = conditions.filter_map(|condition| match condition {
            WakeCondition::At(time) | WakeCondition::AtNoLine(time) => Some(*time),
            _ => None,
        });
        RunUntil {
            until: bounds.fold(until, u64::min),
            stop: requests.filter_map(|request| request.stop).next(),
            speed: self.speed,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// An actor; it is removed when this is dropped.
pub(crate) struct ActorGuard {
    lab: Arc<Lab>,
    number: u64,
}

impl Drop for ActorGuard {
    fn drop(&mut self) {
        let mut state = self.lab.state();
        state.clock.actors.remove(&self.number);
        if state.clock.acting == Some(self.number) {
            state.clock.acting = None;
            // Its actions may have given programs something to do.
            state.clock.needs_quiesce = true;
        }
        state.schedule();
    }
}

/// A time request; it is withdrawn when this is dropped.
pub(crate) struct TimeRequestGuard {
    lab: Arc<Lab>,
    number: u64,
}

impl Drop for TimeRequestGuard {
    fn drop(&mut self) {
        let mut state = self.lab.state();
        state.clock.requests.remove(&self.number);
        state.schedule();
    }
}

/// Whether the task is an actor, in its turn.
pub(crate) fn is_acting() -> bool {
    ACTOR.try_with(|_| ()).is_ok()
}

impl ActorGuard {
    /// Does this in the actor's turn, and removes the actor.
    pub(crate) async fn run<T>(self, work: impl Future<Output = T>) -> T {
        self.lab.wait_for_turn(self.number).await;
        ACTOR.scope(self.number, work).await
    }
}

impl Lab {
    /// A new actor, behind all earlier ones; `None` in a lab with the host's clock.
    pub(crate) fn new_actor(self: &Arc<Lab>) -> Option<ActorGuard> {
        self.new_actor_when(WakeCondition::Immediately)
    }

    /// The same, with a condition for its first turn.
    pub(crate) fn new_actor_when(self: &Arc<Lab>, condition: WakeCondition) -> Option<ActorGuard> {
        let mut state = self.state();
        if !state.clock.is_virtual {
            return None;
        }
        let number = state.clock.next_id();
        let actor = Actor {
            conditions: Some(vec![condition]),
            wake: Arc::default(),
        };
        state.clock.actors.insert(number, actor);
        state.schedule();
        let lab = self.clone();
        Some(ActorGuard { lab, number })
    }

    /// Does something as a new actor, unless the task is one already.
    pub(crate) async fn as_actor<T>(self: &Arc<Lab>, work: impl Future<Output = T>) -> T {
        if is_acting() {
            return work.await;
        }
        match self.new_actor() {
            Some(actor) => actor.run(work).await,
            None => work.await,
        }
    }

    /// Lets other actors act until one of these holds. Only for actors.
    pub(crate) async fn wait_until(&self, conditions: Vec<WakeCondition>) {
        let number = ACTOR.get();
        {
            let mut state = self.state();
            let clock = &mut state.clock;
            if let Some(actor) = clock.actors.get_mut(&number) {
                actor.conditions = Some(conditions);
            }
            if clock.acting == Some(number) {
                clock.acting = None;
                clock.needs_quiesce = true;
            }
            state.schedule();
        }
        self.wait_for_turn(number).await;
    }

    /// Waits for the actor's turn, and until the lab is quiescent.
    async fn wait_for_turn(&self, number: u64) {
        let wake = match self.state().clock.actors.get(&number) {
            Some(actor) => actor.wake.clone(),
            None => return,
        };
        while self.state().clock.acting != Some(number) {
            wake.notified().await;
        }
        self.quiesce().await;
    }

    /// Pauses the clock, and waits until the lab's programs are idle at this time.
    pub(crate) async fn quiesce(&self) {
        let mut changed = self.state().clock.changed.subscribe();
        loop {
            let (pause, run, epoch) = {
                let clock = &mut self.state().clock;
                let settled = clock.running.take().is_none() && !clock.needs_quiesce;
                if settled || clock.halted || !clock.is_virtual {
                    return;
                }
                clock.needs_quiesce = true;
                let here = RunUntil {
                    until: 0,
                    stop: None,
                    speed: clock.speed,
                };
                (clock.run_until(here), clock.run, clock.epoch)
            };
            // A worker that has died is quiescent, too.
            let Ok(Answer::Clock { now, .. }) = self.have(0, pause, Vec::new()).await else {
                return;
            };
            {
                let clock = &mut self.state().clock;
                clock.now = clock.now.max(now);
            }
            let is_settled = |state: &State| {
                let clock = &state.clock;
                let settled = clock.paused_run == run || clock.halted || state.is_ending();
                // The run was requested in an earlier epoch, and is ignored.
                let again = clock.epoch != epoch;
                (settled || again).then_some(settled)
            };
            loop {
                changed.mark_unchanged();
                let found = is_settled(&self.state());
                match found {
                    Some(true) => return,
                    Some(false) => break,
                    None if changed.changed().await.is_err() => return,
                    None => {}
                }
            }
        }
    }

    /// Waits until a program has reached a phase; `None`: it is not known any more.
    pub(crate) async fn wait_for_phase(
        &self,
        phase: &mut watch::Receiver<Phase>,
        good: fn(&Phase) -> bool,
    ) -> Option<Phase> {
        if is_acting() {
            let goal = Goal::new(phase, good);
            self.wait_until(vec![WakeCondition::Reached(goal)]).await;
            let now = phase.borrow().clone();
            return good(&now).then_some(now);
        }
        phase.wait_for(good).await.map(|phase| phase.clone()).ok()
    }

    /// Sleeps by the lab's clock.
    pub(crate) async fn sleep(&self, span: Duration) {
        if !is_acting() {
            return tokio::time::sleep(span).await;
        }
        self.wait_until(vec![self.after(span)]).await;
    }

    /// Holds when this time has passed by the lab's clock.
    pub(crate) fn after(&self, span: Duration) -> WakeCondition {
        let now = self.state().clock.now;
        WakeCondition::At(now.saturating_add(span.as_nanos() as u64))
    }

    /// The time by the lab's clock, since some origin.
    pub(crate) fn elapsed(&self) -> Duration {
        let state = self.state();
        match state.clock.is_virtual {
            true => Duration::from_nanos(state.clock.now),
            false => self.made.elapsed(),
        }
    }

    /// Requests that the clock run, until the guard is dropped.
    pub(crate) fn request_time(self: &Arc<Lab>, request: TimeRequest) -> TimeRequestGuard {
        let mut state = self.state();
        let number = state.clock.next_id();
        state.clock.requests.insert(number, request);
        state.schedule();
        let lab = self.clone();
        TimeRequestGuard { lab, number }
    }

    /// Requests that the clock run without limit, paused or not.
    pub(crate) fn require_time(self: &Arc<Lab>) -> TimeRequestGuard {
        self.request_time(TimeRequest::required())
    }

    /// Waits until a program has reached a phase, while the clock runs for that, paused or not, and no further.
    pub(crate) async fn let_reach(
        self: &Arc<Lab>,
        phase: &mut watch::Receiver<Phase>,
        good: fn(&Phase) -> bool,
    ) -> Option<Phase> {
        let _time = self.request_time(TimeRequest {
            reached: Some(Goal::new(phase, good)),
            ..TimeRequest::required()
        });
        self.wait_for_phase(phase, good).await
    }

    /// Carries out a line of the switch box. Meanwhile no other actor acts, and time passes only
    /// for programs that it waits for.
    pub(crate) async fn run_line(self: &Arc<Lab>, line: String) -> Result<(), String> {
        let Some(api) = DirectApi::of(self) else {
            return Err("the control process is about to end".to_owned());
        };
        let running = (self.hooks.run_line)(api, self.name.clone(), line);
        if !is_acting() {
            return running.await;
        }
        // A task of its own is no actor: what the line asks for becomes one where a client's
        // request does.
        let mut task = JoinSet::from_iter([running]);
        let (signal, signalled) = watch::channel(false);
        let _guard = LineGuard::new(self);
        let (ran, ()) = tokio::join!(
            async {
                let ran = task.join_next().await.expect("one was spawned");
                let ran = ran.unwrap_or_else(|error| Err(error.to_string()));
                signal.send_replace(true);
                self.state().schedule();
                ran
            },
            self.wait_until(vec![WakeCondition::Signalled(signalled)]),
        );
        ran
    }
}

/// Counts a line that is carried out.
struct LineGuard<'a>(&'a Lab);

impl LineGuard<'_> {
    fn new(lab: &Lab) -> LineGuard<'_> {
        lab.state().clock.lines += 1;
        LineGuard(lab)
    }
}

impl Drop for LineGuard<'_> {
    fn drop(&mut self) {
        self.0.state().clock.lines -= 1;
    }
}
