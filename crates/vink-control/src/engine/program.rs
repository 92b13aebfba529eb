//! Programs of a lab: what is known of them, the order in which they start, and who is started again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use vink_api::{Happening, NewProgram, Program, ProgramState};
use vink_lab::worker::protocol::{Action, Answer, Event};
use vink_spec::{named_by, Change, ProgramSpec, Ready, Restart};

use super::clock::{is_of_line, Reason};
use super::lab::{is_over, Lab, State};
use super::log::Log;
use super::spawn::Start;
use crate::fault::Fault;

/// How many programs without a name are remembered after their end.
const REMEMBERED: usize = 256;
/// From the end of a program to its next start: doubled each time, up to the second; the first again when it has run
/// for that long.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Between two looks at whether a program is ready, where nobody tells: doubled each time up to the second.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

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
    /// It waits for its client.
    pub(crate) attach: Option<NewProgram>,
    /// Somebody waits for its end, so that time passes for it.
    pub(crate) awaited: bool,
    /// A line of the lab's own has asked for it.
    pub(crate) of_line: bool,
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
            attach: None,
            awaited: false,
            of_line: is_of_line(),
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

    /// Nobody starts it again.
    pub(crate) fn stop_supervision(&self) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.abort();
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Starting | Phase::Ready)
    }

    /// It has ended.
    fn ended(&mut self, code: i32, error: Option<String>) {
        self.run = None;
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
        if self.tasks.len() <= self.named.len() + REMEMBERED {
            return;
        }
        let old = |(id, task): (&u64, &Task)| {
            let over = task.name.is_none() && is_over(&task.phase.borrow());
            over.then_some(*id)
        };
        let old: Vec<u64> = self.tasks.iter().filter_map(old).collect();
        for id in &old[..old.len().saturating_sub(REMEMBERED / 2)] {
            self.tasks.remove(id);
        }
    }

    /// A program by its number or its name.
    pub(crate) fn program(&self, which: &str) -> Result<u64, Fault> {
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
            Fault::no("program", which, there, "named in the lab")
        })
    }
}

impl Lab {
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
                eprintln!("vink daemon: a program's log: {error}");
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
            if waits && state.places.get(&task.machine) == Some(&worker) {
                task.stopping = true;
                task.stop_supervision();
                task.ended(137, Some(why.to_owned()));
            }
        }
    }

    /// Starts programs of the lab file, each when those that it waits for are ready; returns when all are.
    pub(crate) async fn start_named(
        self: &Arc<Lab>,
        steps: &[Change],
    ) -> Result<(), (usize, Fault)> {
        // All are known before the first waits for another.
        let mut waiting = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            let (Change::AddProgram {
                machine,
                program,
                spec,
            }
            | Change::RestartProgram {
                machine,
                program,
                spec,
                ..
            }) = step
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
            let wants_success = spec.ready == Some(Ready::Success);
            let (party, supervision) = (self.join(), self.clone().supervise(id, spec));
            let supervision = tokio::spawn(async move {
                match party {
                    Some(party) => party.run(supervision).await,
                    None => supervision.await,
                }
            });
            if let Some(task) = self.state().tasks.get_mut(&id) {
                task.supervisor = Some(supervision.abort_handle());
            }
            running.push((at, id, phase, wants_success));
        }
        let total = running.len();
        let _passes = self.needs_time();
        let mut ending = self.ending.subscribe();
        for (count, (at, id, mut phase, wants_success)) in running.into_iter().enumerate() {
            let good = |phase: &Phase| match phase {
                Phase::Ready => true,
                Phase::Ended { last, .. } => *last,
                _ => false,
            };
            let step = &steps[at];
            self.tell(Happening::Progress {
                step: super::lab::told(step).object,
                done: count,
                total,
            });
            let came = tokio::select! {
                came = self.until_phase(&mut phase, good) => came,
                _ = ending.wait_for(|ending| *ending) => None,
            };
            let failed = |text: String| (at, Fault::invalid(text));
            match came {
                Some(Phase::Ready) => {}
                Some(Phase::Ended { code: 0, .. }) => {}
                Some(Phase::Ended { code, .. }) => {
                    let state = self.state();
                    let task = state.tasks.get(&id);
                    // One that was never ready has failed; others may end as they like.
                    let why = task.and_then(|task| task.error.clone());
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
            let began = self.moment();
            if let Err(fault) = self.start_once(id, &spec).await {
                self.never_started(id, fault.problem.to_string());
                return;
            }
            let Some(mut phase) = self.phase(id) else {
                return;
            };
            if self.state().clock.own {
                if self.look_until_ready(id, &spec).await {
                    self.ready(id);
                }
            } else {
                tokio::select! {
                    biased;
                    _ = phase.wait_for(is_over) => {}
                    is_ready = self.clone().until_ready(id, &spec) => {
                        if is_ready {
                            self.ready(id);
                        }
                    }
                }
            }
            let _ = self.until_phase(&mut phase, is_over).await;
            let phase = phase.borrow().clone();
            if !matches!(phase, Phase::Ended { last: false, .. }) {
                return;
            }
            if self.moment().saturating_sub(began) >= BACKOFF.1 {
                backoff = BACKOFF.0;
            }
            self.pass(backoff).await;
            backoff = (backoff * 2).min(BACKOFF.1);
            if let Some(task) = self.state().tasks.get_mut(&id) {
                task.restarts += 1;
            }
        }
    }

    async fn start_once(self: &Arc<Lab>, id: u64, spec: &ProgramSpec) -> Result<(), Fault> {
        let (machine, log) = {
            let state = self.state();
            let Some(task) = state.tasks.get(&id) else {
                return Err(Fault::conflict("it was removed"));
            };
            (task.machine.clone(), task.log.clone())
        };
        let start = Start {
            env: self.environment(&machine, &spec.env, false),
            machine,
            words: words(spec),
            app: spec.app.is_some(),
            dir: self.directory(spec.dir.as_deref()),
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
        state.look_at_clock();
    }

    /// Where a program's phase is told.
    pub(crate) fn phase(&self, id: u64) -> Option<watch::Receiver<Phase>> {
        let state = self.state();
        state.tasks.get(&id).map(|task| task.phase.subscribe())
    }

    /// Waits until all programs that one comes after are ready.
    async fn wait_for_others(&self, id: u64, spec: &ProgramSpec) -> Result<(), Fault> {
        for after in &spec.after {
            let (mut phase, name) = {
                let state = self.state();
                let Some(task) = state.tasks.get(&id) else {
                    return Err(Fault::conflict("it was removed"));
                };
                let found = named_by(&state.spec, &task.machine, after);
                let other = found.and_then(|(machine, program)| {
                    let key = (machine.to_owned(), program.to_owned());
                    let other = state.tasks.get(state.named.get(&key)?)?;
                    Some((other.phase.subscribe(), format!("{machine}.{program}")))
                });
                other.ok_or_else(|| {
                    Fault::invalid(format!("it comes after {after}, which there is not"))
                })?
            };
            let good = |phase: &Phase| match phase {
                Phase::Ready => true,
                Phase::Ended { last, .. } => *last,
                _ => false,
            };
            match self.until_phase(&mut phase, good).await {
                Some(Phase::Ended { code, .. }) if code != 0 => {
                    return Err(Fault::invalid(format!(
                        "it comes after {name}, which failed with status {code}"
                    )))
                }
                Some(_) => {}
                None => {
                    return Err(Fault::invalid(format!(
                        "it comes after {name}, which was removed"
                    )))
                }
            }
        }
        Ok(())
    }

    /// Whether a program that runs has become ready; `false`: it can't any more.
    async fn until_ready(self: Arc<Lab>, id: u64, spec: &ProgramSpec) -> bool {
        let (machine, log) = {
            let state = self.state();
            match state.tasks.get(&id) {
                Some(task) => (task.machine.clone(), task.log.clone()),
                None => return false,
            }
        };
        let mut pause = LOOK.0;
        match &spec.ready {
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
                let Ok(worker) = self.place(&machine) else {
                    return false;
                };
                let action = Action::Listens {
                    machine: machine.clone(),
                    port: *port,
                };
                match self.have(worker, action, Vec::new()).await {
                    Ok(Answer::Yes(true)) => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
                // Nobody tells when somebody listens.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LOOK.1);
            },
            Some(Ready::Command(line)) => loop {
                match self.shell(&machine, line).await {
                    Ok((0, _)) => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LOOK.1);
            },
        }
    }

    /// The same by a clock of the lab's own: looked for at times of that clock, while it stands.
    async fn look_until_ready(self: &Arc<Lab>, id: u64, spec: &ProgramSpec) -> bool {
        let Some(phase) = self.phase(id) else {
            return false;
        };
        let over = || Reason::Phase(phase.clone(), is_over);
        let mut pause = LOOK.0;
        loop {
            let now = phase.borrow().clone();
            if let Phase::Ended { code, .. } = now {
                return spec.ready == Some(Ready::Success) && code == 0;
            }
            let (is_ready, next) = match &spec.ready {
                None => (true, None),
                Some(Ready::Success) => (false, None),
                Some(Ready::Time(span)) => {
                    self.rest(vec![over(), self.after(span.duration())]).await;
                    (!is_over(&phase.borrow()), None)
                }
                Some(ready) => {
                    self.settles().await;
                    (self.is_ready(id, ready).await, Some(pause))
                }
            };
            if is_ready {
                return true;
            }
            let mut reasons = vec![over()];
            reasons.extend(next.map(|pause| self.after(pause)));
            self.rest(reasons).await;
            pause = (pause * 2).min(LOOK.1);
        }
    }

    /// Whether a program has got so far; for those that nobody tells of.
    async fn is_ready(self: &Arc<Lab>, id: u64, ready: &Ready) -> bool {
        let (machine, log) = {
            let state = self.state();
            match state.tasks.get(&id) {
                Some(task) => (task.machine.clone(), task.log.clone()),
                None => return false,
            }
        };
        match ready {
            Ready::Output(text) => log.is_some_and(|log| log.has_said(text)),
            Ready::Port(port) => {
                let Ok(worker) = self.place(&machine) else {
                    return false;
                };
                let port = *port;
                let answer = self.have(worker, Action::Listens { machine, port }, Vec::new());
                matches!(answer.await, Ok(Answer::Yes(true)))
            }
            Ready::Command(line) => matches!(self.shell(&machine, line).await, Ok((0, _))),
            Ready::Success | Ready::Time(_) => false,
        }
    }

    /// Runs one of a machine's set-up lines.
    pub(crate) async fn set_up_line(
        self: &Arc<Lab>,
        machine: &str,
        line: &str,
    ) -> Result<(), Fault> {
        let (code, output) = self.shell(machine, line).await?;
        if code == 0 {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&output).trim_end().to_owned();
        Err(Fault::invalid(format!(
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
    pub(crate) async fn end_program(self: &Arc<Lab>, id: u64) -> Result<(), Fault> {
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
        // A virtualized process ends in its own time.
        let _passes = self.needs_time();
        // If it has ended meanwhile, the worker does not know it.
        let asked = self.have(worker, action, Vec::new()).await;
        let over = self.until_phase(&mut phase, is_over);
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
    let Some(log) = log else {
        return String::new();
    };
    let (end, _) = *log.written().borrow();
    let text = match log.read(end.saturating_sub(2000)) {
        Ok((_, bytes)) => String::from_utf8_lossy(&bytes).trim_end().to_owned(),
        Err(_) => String::new(),
    };
    match text.is_empty() {
        true => text,
        false => format!("; its last words:\n{text}"),
    }
}
