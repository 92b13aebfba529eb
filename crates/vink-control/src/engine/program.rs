//! Programs of a lab: their state, the order in which they start, and restarts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use vink_api::{Happening, NewProgram, Program, ProgramState};
use vink_protocol::{Action, Answer, Event};
use vink_spec::{named_by, Change, ProgramChange, ProgramSpec, Readiness, Ready, Restart, Rights};

use super::clock::{Goal, Requester, WakeCondition};
use super::input::InputEnd;
use super::kept::Kept;
use super::lab::{is_over, Lab, State};
use super::log::Log;
use super::spawn::Start;
use crate::http_error::HttpError;

/// How many programs without a name are remembered after their end.
const MAX_ENDED_PROGRAMS: usize = 256;
/// From the end of a program to its next start: doubled each time, up to the second; the first
/// again when it has run for that long.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The interval of readiness checks that must poll: doubled each time, up to the second.
const READINESS_POLL: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(250));

/// How far a program is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    Waiting,
    Starting,
    Ready,
    /// With this code; `last`: it is not started again.
    Ended {
        code: i32,
        last: bool,
    },
}

/// A program.
pub(crate) struct Task {
    pub(crate) machine: String,
    pub(crate) name: Option<String>,
    pub(crate) words: Vec<String>,
    pub(crate) app: bool,
    /// It is the lab's own: a set-up line, or a look at whether a program is ready. It is not
    /// listed.
    pub(crate) own: bool,
    /// Why it was given up: it was not ready in time.
    pub(crate) late: Option<String>,
    /// How the last look at whether it is ready came out.
    pub(crate) looked: Option<String>,
    /// It waits for its client.
    pub(crate) attach: Option<NewProgram>,
    /// Its terminal, if that is the lab's.
    pub(crate) kept: Option<Arc<Kept>>,
    /// Where its client's input goes.
    pub(crate) input: Option<InputEnd>,
    /// What waits for its end: the clock runs for it.
    pub(crate) awaited_by: Option<Requester>,
    /// The worker that it runs on, and its number there.
    pub(crate) run: Option<(usize, u64)>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) restart: Restart,
    /// It is ended on purpose.
    pub(crate) stopping: bool,
    pub(crate) code: Option<i32>,
    pub(crate) error: Option<String>,
    pub(crate) report: Option<serde_json::Value>,
    pub(crate) restarts: u32,
    pub(crate) began: Option<Instant>,
    pub(crate) ran: Duration,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) supervisor: Option<AbortHandle>,
}

impl Task {
    pub(crate) fn new(machine: &str, words: Vec<String>) -> Task {
        Task {
            machine: machine.to_owned(),
            name: None,
            words,
            app: false,
            own: false,
            late: None,
            looked: None,
            attach: None,
            kept: None,
            input: None,
            awaited_by: None,
            run: None,
            phase: watch::Sender::new(Phase::Waiting),
            restart: Restart::Never,
            stopping: false,
            code: None,
            error: None,
            report: None,
            restarts: 0,
            began: None,
            ran: Duration::ZERO,
            log: None,
            supervisor: None,
        }
    }

    /// It is not restarted.
    pub(crate) fn stop_supervision(&self) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.abort();
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Starting | Phase::Ready)
    }

    /// It runs, and is not the lab's own.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_running() && !self.own
    }

    /// It has ended.
    fn ended(&mut self, code: i32, error: Option<String>) {
        self.run = None;
        self.input = None;
        self.ran = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.began = None;
        self.code = Some(code);
        self.error = error;
        let again = match self.restart {
            Restart::Never => false,
            Restart::OnFailure => code != 0,
            Restart::Always => true,
        };
        let last = self.stopping || !again;
        self.phase.send_replace(Phase::Ended { code, last });
    }

    pub(crate) fn describe(&self, id: u64) -> Program {
        let phase = self.phase.borrow().clone();
        Program {
            id,
            machine: self.machine.clone(),
            name: self.name.clone(),
            words: self.words.clone(),
            app: self.app,
            state: match phase {
                Phase::Waiting | Phase::Ended { last: false, .. } => ProgramState::Waiting,
                Phase::Starting => ProgramState::Starting,
                Phase::Ready => ProgramState::Running,
                Phase::Ended { last: true, .. } => ProgramState::Ended,
            },
            code: self.code,
            error: self.error.clone(),
            restarts: self.restarts,
            seconds: self
                .began
                .map_or(self.ran, |began| began.elapsed())
                .as_secs_f64(),
            report: self.report.clone(),
        }
    }
}

impl State {
    /// Programs of a machine that goes.
    pub(crate) fn forget_programs(&mut self, machine: &str) {
        let ids: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.machine == machine)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.forget_program(id);
        }
    }

    pub(crate) fn forget_program(&mut self, id: u64) {
        if let Some(mut task) = self.tasks.remove(&id) {
            task.stop_supervision();
            task.stopping = true;
            if let Some(run) = task.run {
                self.running.remove(&run);
            }
            if !is_over(&task.phase.borrow().clone()) {
                task.ended(137, Some("its machine was removed".to_owned()));
            }
            if let Some(name) = task.name {
                self.named.remove(&(task.machine, name));
            }
        }
    }

    /// Forgets the programs without a name that ended first.
    fn forget_old(&mut self) {
        if self.tasks.len() <= self.named.len() + MAX_ENDED_PROGRAMS {
            return;
        }
        let old = |(id, task): (&u64, &Task)| {
            let over = task.name.is_none() && is_over(&task.phase.borrow());
            over.then_some(*id)
        };
        let old: Vec<u64> = self.tasks.iter().filter_map(old).collect();
        for id in &old[..old.len().saturating_sub(MAX_ENDED_PROGRAMS / 2)] {
            self.tasks.remove(id);
        }
    }

    /// A program by its number or its name.
    pub(crate) fn program(&self, which: &str) -> Result<u64, HttpError> {
        if let Some(id) = which.parse().ok().filter(|id| self.tasks.contains_key(id)) {
            return Ok(id);
        }
        let names = which.match_indices('.').find_map(|(dot, _)| {
            let name = (which[..dot].to_owned(), which[dot + 1..].to_owned());
            self.named.get(&name).copied()
        });
        names.ok_or_else(|| {
            let names: Vec<String> = self.named.keys().map(|(m, p)| format!("{m}.{p}")).collect();
            let there = names.iter().map(String::as_str);
            HttpError::no("program", which, there, "named in the lab")
        })
    }
}

impl Lab {
    /// All but the lab's own.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let state = self.state();
        let shown = state.tasks.iter().filter(|(_, task)| !task.own);
        shown.map(|(id, task)| task.describe(*id)).collect()
    }

    /// How a program is, unless its machine was removed meanwhile.
    pub(crate) fn described(&self, id: u64) -> Result<Program, HttpError> {
        match self.state().tasks.get(&id) {
            Some(task) => Ok(task.describe(id)),
            None => Err(HttpError::conflict("its machine was removed")),
        }
    }

    /// A program's first process has ended, or a virtualized process has written something.
    pub(crate) fn program_told(&self, worker: usize, number: u64, event: Event) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(&id) = state.running.get(&(worker, number)) else {
            let early = state.early.entry((worker, number));
            early.or_default().push(event);
            return;
        };
        let log = state.tasks.get(&id).and_then(|task| task.log.clone());
        if let (Event::Output { text, .. }, Some(log)) = (&event, &log) {
            if let Err(error) = log.write(text.as_bytes()) {
                tracing::warn!(target: "control", "a program's log: {error}");
            }
        }
        let Event::Ended {
            code,
            error,
            report,
            ..
        } = event
        else {
            return;
        };
        state.running.remove(&(worker, number));
        if let Some(task) = state.tasks.get_mut(&id) {
            if let (true, Some(log)) = (task.app, log) {
                log.end(true);
            }
            task.report = report;
            task.ended(code, error.clone());
            self.tell(Happening::Ended {
                program: id,
                machine: task.machine.clone(),
                name: task.name.clone(),
                code,
                error,
            });
        }
        state.forget_old();
    }

    /// The programs of a worker that has died.
    pub(crate) fn programs_died(&self, state: &mut State, worker: usize, why: &str) {
        state.early.retain(|(on, _), _| *on != worker);
        let here: Vec<(usize, u64)> = state
            .running
            .keys()
            .filter(|(on, _)| *on == worker)
            .copied()
            .collect();
        for run in here {
            let id = state.running.remove(&run).expect("one of its keys");
            if let Some(task) = state.tasks.get_mut(&id) {
                task.stopping = true;
                task.stop_supervision();
                task.ended(137, Some(why.to_owned()));
                self.tell(Happening::Ended {
                    program: id,
                    machine: task.machine.clone(),
                    name: task.name.clone(),
                    code: 137,
                    error: Some(why.to_owned()),
                });
            }
        }
        // Those that wait on its machines, and their clients, would wait for ever.
        for task in state.tasks.values_mut() {
            let waits = !is_over(&task.phase.borrow()) && task.run.is_none();
            if waits && state.worker_of.get(&task.machine) == Some(&worker) {
                task.stopping = true;
                task.stop_supervision();
                task.ended(137, Some(why.to_owned()));
            }
        }
    }

    /// Starts programs of the lab file, each when those that it waits for are ready; returns when
    /// all are.
    pub(crate) async fn start_named(
        self: &Arc<Lab>,
        steps: &[Change],
    ) -> Result<(), (usize, HttpError)> {
        // All are known before the first waits for another.
        let mut waiting = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            let (Change::Program(ProgramChange::Add {
                machine,
                program,
                spec,
            })
            | Change::Program(ProgramChange::Restart {
                machine,
                program,
                spec,
                ..
            })) = step
            else {
                continue;
            };
            self.remove_named(machine, program).await;
            let words = words(spec);
            let (id, phase) = {
                let mut state = self.state();
                let id = state.number();
                let mut task = Task::new(machine, words);
                task.name = Some(program.clone());
                task.app = spec.app.is_some();
                task.restart = spec.restart;
                task.log = Some(Arc::new(self.new_log(id)));
                let phase = task.phase.subscribe();
                state.tasks.insert(id, task);
                state.named.insert((machine.clone(), program.clone()), id);
                (id, phase)
            };
            waiting.push((at, id, phase, spec.clone()));
        }
        let mut running = Vec::with_capacity(waiting.len());
        for (at, id, phase, spec) in waiting {
            let ready = spec.ready.clone();
            let (actor, supervision) = (self.new_actor(), self.clone().supervise(id, spec));
            let supervision = tokio::spawn(async move {
                match actor {
                    Some(actor) => actor.run(supervision).await,
                    None => supervision.await,
                }
            });
            if let Some(task) = self.state().tasks.get_mut(&id) {
                task.supervisor = Some(supervision.abort_handle());
            }
            running.push((at, id, phase, ready));
        }
        let total = running.len();
        // For none, the clock would go on by as much as it can until this is over.
        let _time = (total > 0).then(|| self.require_time());
        let mut ending = self.ending.subscribe();
        for (count, (at, id, mut phase, ready)) in running.into_iter().enumerate() {
            let good = |phase: &Phase| match phase {
                Phase::Ready => true,
                Phase::Ended { last, .. } => *last,
                _ => false,
            };
            let step = &steps[at];
            let wants_success = ready
                .as_ref()
                .is_some_and(|ready| ready.by == Ready::Success);
            let progress = Progress {
                step: super::lab::api_change(step).object,
                done: count,
                total,
            };
            let _telling = progress.tell(self, id, ready);
            let came = tokio::select! {
                came = self.wait_for_phase(&mut phase, good) => came,
                _ = ending.wait_for(|ending| *ending) => None,
            };
            let failed = |text: String| (at, HttpError::invalid(text));
            match came {
                Some(Phase::Ready) => {}
                Some(Phase::Ended { code: 0, .. }) => {}
                Some(Phase::Ended { code, .. }) => {
                    let state = self.state();
                    let task = state.tasks.get(&id);
                    // One that was never ready has failed; others may end as they like.
                    let late = task.and_then(|task| task.late.clone());
                    let why = late.or_else(|| task.and_then(|task| task.error.clone()));
                    let unready = task.is_some_and(|task| task.began.is_none()) && why.is_some();
                    if unready || wants_success {
                        let log = task.and_then(|task| task.log.clone());
                        let words = why.unwrap_or_else(|| format!("it ended with status {code}"));
                        return Err(failed(words + &tail(log.as_deref())));
                    }
                }
                Some(_) | None => {
                    return Err(failed(format!("lab {} is being taken down", self.name)))
                }
            }
        }
        Ok(())
    }

    /// Sees a program of the lab file through its life.
    async fn supervise(self: Arc<Lab>, id: u64, spec: ProgramSpec) {
        if let Err(fault) = self.wait_for_others(id, &spec).await {
            self.never_started(id, fault.problem.to_string());
            return;
        }
        let mut backoff = BACKOFF.0;
        loop {
            let began = self.elapsed();
            if let Err(fault) = self.start_once(id, &spec).await {
                self.never_started(id, fault.problem.to_string());
                return;
            }
            let Some(mut phase) = self.phase(id) else {
                return;
            };
            let limit = spec.ready.as_ref().and_then(Readiness::limit);
            let is_late = if self.state().clock.is_virtual {
                let end = limit.map(|limit| self.elapsed() + limit.duration());
                let looked = self.look_until_ready(id, &spec, end).await;
                if looked == Looked::Ready {
                    self.ready(id);
                }
                looked == Looked::Late
            } else {
                let limit = limit.map_or(Duration::MAX, |limit| limit.duration());
                tokio::select! {
                    biased;
                    _ = phase.wait_for(is_over) => false,
                    is_ready = tokio::time::timeout(limit, self.clone().until_ready(id, &spec)) => {
                        if is_ready == Ok(true) {
                            self.ready(id);
                        }
                        is_ready.is_err()
                    }
                }
            };
            if let (true, Some(ready)) = (is_late, &spec.ready) {
                self.give_up(id, ready).await;
            }
            let _ = self.wait_for_phase(&mut phase, is_over).await;
            let phase = phase.borrow().clone();
            if !matches!(phase, Phase::Ended { last: false, .. }) {
                return;
            }
            if self.elapsed().saturating_sub(began) >= BACKOFF.1 {
                backoff = BACKOFF.0;
            }
            self.sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF.1);
            if let Some(task) = self.state().tasks.get_mut(&id) {
                task.restarts += 1;
            }
        }
    }

    /// Ends a program that was not ready in time.
    async fn give_up(self: &Arc<Lab>, id: u64, ready: &Readiness) {
        let limit = ready.limit().unwrap_or_default();
        if let Some(task) = self.state().tasks.get_mut(&id) {
            let looked = task.looked.take().map(|looked| format!(" ({looked})"));
            let looked = looked.unwrap_or_default();
            task.late = Some(format!(
                "not ready after {limit}: it waited for {}{looked}; `timeout` of `ready` says how long that may take",
                ready.by
            ));
        }
        // What can't be ended has ended, or its worker has.
        let _ = self.end_program(id).await;
    }

    async fn start_once(self: &Arc<Lab>, id: u64, spec: &ProgramSpec) -> Result<(), HttpError> {
        let (machine, log) = {
            let state = self.state();
            let Some(task) = state.tasks.get(&id) else {
                return Err(HttpError::conflict("it was removed"));
            };
            (task.machine.clone(), task.log.clone())
        };
        let start = Start {
            env: self.environment(&machine, &spec.env, false),
            dir: self.directory(&machine, spec.dir.as_deref()),
            machine,
            words: words(spec),
            app: spec.app.is_some(),
            rights: None,
        };
        self.start_logged(id, start, log).await
    }

    /// It could not be started, and is not tried again.
    pub(crate) fn never_started(&self, id: u64, why: String) {
        let mut state = self.state();
        if let Some(task) = state.tasks.get_mut(&id) {
            task.stopping = true;
            task.ended(126, Some(why.clone()));
            self.tell(Happening::Ended {
                program: id,
                machine: task.machine.clone(),
                name: task.name.clone(),
                code: 126,
                error: Some(why),
            });
        }
    }

    pub(crate) fn ready(&self, id: u64) {
        let mut state = self.state();
        if let Some(task) = state.tasks.get_mut(&id) {
            let became = task.phase.send_if_modified(|phase| {
                let starting = *phase == Phase::Starting;
                if starting {
                    *phase = Phase::Ready;
                }
                starting
            });
            if became {
                self.tell(Happening::Ready {
                    program: id,
                    machine: task.machine.clone(),
                    name: task.name.clone(),
                });
            }
        }
        state.schedule();
    }

    /// Where a program's phase is told.
    pub(crate) fn phase(&self, id: u64) -> Option<watch::Receiver<Phase>> {
        let state = self.state();
        state.tasks.get(&id).map(|task| task.phase.subscribe())
    }

    /// Waits until all programs that one comes after are ready.
    async fn wait_for_others(&self, id: u64, spec: &ProgramSpec) -> Result<(), HttpError> {
        for after in &spec.after {
            let (mut phase, name) = {
                let state = self.state();
                let Some(task) = state.tasks.get(&id) else {
                    return Err(HttpError::conflict("it was removed"));
                };
                let found = named_by(&state.spec, &task.machine, after);
                let other = found.and_then(|(machine, program)| {
                    let key = (machine.to_owned(), program.to_owned());
                    let other = state.tasks.get(state.named.get(&key)?)?;
                    Some((other.phase.subscribe(), format!("{machine}.{program}")))
                });
                other.ok_or_else(|| {
                    HttpError::invalid(format!("it comes after {after}, which there is not"))
                })?
            };
            let good = |phase: &Phase| match phase {
                Phase::Ready => true,
                Phase::Ended { last, .. } => *last,
                _ => false,
            };
            match self.wait_for_phase(&mut phase, good).await {
                Some(Phase::Ended { code, .. }) if code != 0 => {
                    return Err(HttpError::invalid(format!(
                        "it comes after {name}, which failed with status {code}"
                    )))
                }
                Some(_) => {}
                None => {
                    return Err(HttpError::invalid(format!(
                        "it comes after {name}, which was removed"
                    )))
                }
            }
        }
        Ok(())
    }

    /// Whether a program that runs has become ready; `false`: it can't any more.
    async fn until_ready(self: Arc<Lab>, id: u64, spec: &ProgramSpec) -> bool {
        let (machine, log, udp) = {
            let state = self.state();
            match state.tasks.get(&id) {
                Some(task) => (task.machine.clone(), task.log.clone(), task.app),
                None => return false,
            }
        };
        let mut pause = READINESS_POLL.0;
        match spec.ready.as_ref().map(|ready| &ready.by) {
            None => true,
            Some(Ready::Success) => {
                let Some(mut phase) = self.phase(id) else {
                    return false;
                };
                let over = phase.wait_for(is_over).await.map(|phase| phase.clone());
                matches!(over, Ok(Phase::Ended { code: 0, .. }))
            }
            Some(Ready::Time(span)) => {
                tokio::time::sleep(span.duration()).await;
                true
            }
            Some(Ready::Output(text)) => match log {
                Some(log) => log.says(text).await,
                None => false,
            },
            Some(Ready::Port(port)) => loop {
                let Ok(worker) = self.worker_for_machine(&machine) else {
                    return false;
                };
                let action = Action::Listens {
                    machine: machine.clone(),
                    port: *port,
                    udp,
                };
                match self.have(worker, action, Vec::new()).await {
                    Ok(Answer::Yes(true)) => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
                // There is no event for a new listener.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(READINESS_POLL.1);
            },
            Some(Ready::Command(line)) => loop {
                match self.look(id, &machine, line).await {
                    Ok(true) => return true,
                    Ok(false) => {}
                    Err(_) => return false,
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(READINESS_POLL.1);
            },
        }
    }

    /// Whether a command says that a program is ready; what else it said is kept.
    async fn look(self: &Arc<Lab>, id: u64, machine: &str, line: &str) -> Result<bool, HttpError> {
        let (code, output) = self.shell(machine, line, None).await?;
        if let Some(task) = self.state().tasks.get_mut(&id) {
            let output = String::from_utf8_lossy(&output);
            task.looked = Some(match output.trim_end().lines().last() {
                Some(last) => format!("status {code}, {last}"),
                None => format!("status {code}"),
            });
        }
        Ok(code == 0)
    }

    /// The same by a clock of the lab's own: looked for at times of that clock, while it stands,
    /// and up to an end.
    async fn look_until_ready(
        self: &Arc<Lab>,
        id: u64,
        spec: &ProgramSpec,
        end: Option<Duration>,
    ) -> Looked {
        let Some(phase) = self.phase(id) else {
            return Looked::Over;
        };
        let by = spec.ready.as_ref().map(|ready| &ready.by);
        let over = || WakeCondition::Reached(Goal::new(&phase, is_over));
        let mut pause = READINESS_POLL.0;
        loop {
            let now = phase.borrow().clone();
            if let Phase::Ended { code, .. } = now {
                return match by == Some(&Ready::Success) && code == 0 {
                    true => Looked::Ready,
                    false => Looked::Over,
                };
            }
            if end.is_some_and(|end| self.elapsed() >= end) {
                return Looked::Late;
            }
            let (is_ready, next) = match by {
                None => (true, None),
                Some(Ready::Success) => (false, None),
                Some(Ready::Time(span)) => {
                    self.wait_until(vec![over(), self.after(span.duration())])
                        .await;
                    (!is_over(&phase.borrow()), None)
                }
                Some(ready) => {
                    self.quiesce().await;
                    (self.is_ready(id, ready).await, Some(pause))
                }
            };
            if is_ready {
                return Looked::Ready;
            }
            let mut conditions = vec![over()];
            conditions.extend(next.map(|pause| self.after(pause)));
            self.wait_until(conditions).await;
            pause = (pause * 2).min(READINESS_POLL.1);
        }
    }

    /// Whether a program is ready, for conditions without an event.
    async fn is_ready(self: &Arc<Lab>, id: u64, ready: &Ready) -> bool {
        let (machine, log, udp) = {
            let state = self.state();
            match state.tasks.get(&id) {
                Some(task) => (task.machine.clone(), task.log.clone(), task.app),
                None => return false,
            }
        };
        match ready {
            Ready::Output(text) => log.is_some_and(|log| log.has_said(text)),
            Ready::Port(port) => {
                let Ok(worker) = self.worker_for_machine(&machine) else {
                    return false;
                };
                let port = *port;
                let action = Action::Listens { machine, port, udp };
                let answer = self.have(worker, action, Vec::new()).await;
                matches!(answer, Ok(Answer::Yes(true)))
            }
            Ready::Command(line) => matches!(self.look(id, &machine, line).await, Ok(true)),
            Ready::Success | Ready::Time(_) => false,
        }
    }

    /// Runs one of a machine's set-up lines.
    pub(crate) async fn set_up_line(
        self: &Arc<Lab>,
        machine: &str,
        line: &str,
    ) -> Result<(), HttpError> {
        let all = Some(Rights::Full);
        let (code, output) = self.shell(machine, line, all).await?;
        if code == 0 {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&output).trim_end().to_owned();
        Err(HttpError::invalid(format!(
            "`{line}` ended with status {code}{}{output}",
            if output.is_empty() { "" } else { ": " }
        )))
    }

    /// Ends a program of the lab file, and forgets it.
    pub(crate) async fn remove_named(self: &Arc<Lab>, machine: &str, program: &str) {
        let key = (machine.to_owned(), program.to_owned());
        let id = self.state().named.get(&key).copied();
        if let Some(id) = id {
            // What can't be ended has ended, or its worker has.
            let _ = self.end_program(id).await;
            self.state().forget_program(id);
        }
    }

    /// Ends a program, and waits for it: a virtualized process by asking it, any other by SIGKILL.
    pub(crate) async fn end_program(self: &Arc<Lab>, id: u64) -> Result<(), HttpError> {
        let (run, app, mut phase) = {
            let mut state = self.state();
            let Some(task) = state.tasks.get_mut(&id) else {
                return Ok(());
            };
            task.stopping = true;
            let run = task.run;
            if run.is_none() {
                task.stop_supervision();
                if !matches!(*task.phase.borrow(), Phase::Ended { last: true, .. }) {
                    task.ended(137, None);
                }
            }
            (run, task.app, task.phase.subscribe())
        };
        let Some((worker, program)) = run else {
            return Ok(());
        };
        let action = match app {
            true => Action::StopApp {
                program,
                report: false,
            },
            false => Action::Kill { program },
        };
        // If it has ended meanwhile, the worker does not know it.
        let asked = self.have(worker, action, Vec::new()).await;
        // A virtualized process ends in its own time: that goes on from when the process was asked to.
        let over = self.let_reach(&mut phase, is_over);
        match asked {
            Ok(_) => {
                let _ = over.await;
                Ok(())
            }
            Err(fault) => match tokio::time::timeout(Duration::from_secs(1), over).await {
                Ok(_) => Ok(()),
                Err(_) => Err(fault),
            },
        }
    }
}

/// What came of looking at whether a program is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// It is.
    Ready,
    /// It has ended before.
    Over,
    /// It was not in time.
    Late,
}

/// How far the start of programs is, told to clients.
struct Progress {
    step: String,
    done: usize,
    total: usize,
}

/// Tells until it is dropped.
struct Telling(AbortHandle);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Progress {
    /// Tells it now, and then each second what a program waits for and what it wrote last, by the
    /// host's clock: a terminal shows it while the lab's clock may stand.
    fn tell(self, lab: &Arc<Lab>, id: u64, ready: Option<Readiness>) -> Telling {
        let (lab, began) = (Arc::downgrade(lab), Instant::now());
        let telling = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1));
            loop {
                ticks.tick().await;
                let Some(lab) = lab.upgrade() else { return };
                let mut step = self.step.clone();
                let seconds = began.elapsed().as_secs();
                if let (1.., Some(ready)) = (seconds, &ready) {
                    step += &format!(": {seconds} s, waits for {}", ready.by);
                    if let Some(limit) = ready.limit() {
                        step += &format!(", for {limit} at most");
                    }
                    let log = lab.state().tasks.get(&id).and_then(|task| task.log.clone());
                    if let Some(last) = last_words(log.as_deref()).lines().last() {
                        step += &format!("; its log: {last}");
                    }
                }
                let (done, total) = (self.done, self.total);
                lab.tell(Happening::Progress { step, done, total });
            }
        });
        Telling(telling.abort_handle())
    }
}

/// What is executed.
fn words(spec: &ProgramSpec) -> Vec<String> {
    match (&spec.app, &spec.command) {
        (Some(app), _) => app.split_whitespace().map(str::to_owned).collect(),
        (None, Some(command)) => command.words(),
        (None, None) => Vec::new(),
    }
}

/// The last that a program said, for an error.
fn tail(log: Option<&Log>) -> String {
    let text = last_words(log);
    match text.is_empty() {
        true => text,
        false => format!("; its last words:\n{text}"),
    }
}

/// The end of what a program has written.
fn last_words(log: Option<&Log>) -> String {
    let Some(log) = log else {
        return String::new();
    };
    let (end, _) = *log.written().borrow();
    match log.read(end.saturating_sub(2000)) {
        Ok((_, bytes)) => String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        Err(_) => String::new(),
    }
}
