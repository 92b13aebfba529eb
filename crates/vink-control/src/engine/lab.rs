//! A lab that runs, and all of a user's labs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Instant, SystemTime};

use axum::http::StatusCode;
use futures_util::{stream, Stream, StreamExt};
use indexmap::IndexMap;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use vink_api::{Applied, ChangeKind, Event, Happening, LabState, PutLab, Restarted};
use vink_protocol::{self as protocol, Action};
use vink_spec::{
    check_lab, diff, Change, FilterChange, Lab as Spec, MachineChange, NamedChange, ProgramChange,
    SwitchChange, Time, UplinkChange,
};

use super::capture::ActiveCapture;
use super::clock::{is_acting, Clock};
use super::driver::WireDriver;
use super::feed::Feeds;
use super::opened::Opened;
use super::place::{Crossing, Host};
use super::program::{Phase, Task};
use super::record::Recorded;
use super::ruleset::{machine_of, Filters};
use super::timed::Timed;
use super::watched_interfaces::WatchedInterfaces;
use super::worker::Worker;
use super::{Hooks, SwitchBox};
use crate::explored::ExploredLabs;
use crate::http_error::{to_its_end, HttpError};
use crate::runs::Runs;
use crate::views::Views;

tokio::task_local! {
    /// The user whose request a task carries out.
    pub(super) static ASKED_BY: Arc<str>;
}

/// How many events a slow reader may be behind.
const EVENTS: usize = 4096;

/// Bytes of a request's body that is told.
const LONGEST_TOLD: usize = 1024;

/// A lab. Changes of its machines and wires are made one after the other (`changing`); what is
/// asked of it, and its programs, need not wait for that.
pub(crate) struct Lab {
    pub(crate) name: String,
    /// The name that its programs see, and that it is recorded under: another one if it is a moment
    /// of a recorded run.
    pub(crate) label: String,
    /// What relative paths are relative to.
    pub(crate) folder: PathBuf,
    /// Its own folder within the control process's: logs.
    pub(crate) runtime: PathBuf,
    pub(crate) env: IndexMap<String, String>,
    pub(crate) hooks: Hooks,
    /// What its pages share.
    pub(crate) views: Arc<Views>,
    events: broadcast::Sender<Event>,
    /// All labs, of which this is one.
    pub(crate) labs: Weak<Labs>,
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Its revision, when it has changed.
    pub(crate) changes: watch::Sender<u64>,
    /// Set once, when it is to be taken down.
    pub(crate) ending: watch::Sender<bool>,
    /// When this was made.
    pub(crate) made: Instant,
    state: Mutex<State>,
}

/// The state of a lab. Its lock is never held across an `await`.
pub(crate) struct State {
    /// What runs now: as asked for, and changed since. As [`Spec::normal`] has it.
    pub(crate) spec: Spec,
    /// How often it was changed.
    pub(crate) revision: u64,
    pub(crate) phase: LabState,
    pub(crate) clock: Clock,
    pub(crate) up: Option<Instant>,
    pub(crate) workers: Vec<Worker>,
    /// The worker of each machine.
    pub(crate) worker_of: HashMap<String, usize>,
    /// The workers that know a wire, and the one that has its uplink.
    pub(crate) wires: HashMap<String, WirePlacement>,
    /// Other hosts, by name.
    pub(crate) hosts: HashMap<String, Host>,
    /// Sockets of wires that are about to be joined.
    pub(crate) crossings: HashMap<String, Crossing>,
    /// The driver processes of wires.
    pub(crate) drivers: HashMap<String, WireDriver>,
    pub(crate) tasks: BTreeMap<u64, Task>,
    /// Programs of the lab file, by machine and name.
    pub(crate) named: HashMap<(String, String), u64>,
    /// Programs that run, by worker and its number for them.
    pub(crate) running: HashMap<(usize, u64), u64>,
    /// Those that had ended before it was known that they were started.
    pub(crate) early: HashMap<(usize, u64), Vec<protocol::Event>>,
    pub(crate) next: u64,
    pub(crate) recorded: Option<Recorded>,
    /// It is a moment of a recorded run.
    pub(crate) opened: Option<Opened>,
    /// Captures have numbers of their own: a run that is repeated has none of them, and its programs
    /// the same numbers.
    pub(crate) next_capture: u64,
    pub(crate) captures: BTreeMap<u64, ActiveCapture>,
    pub(crate) feeds: Feeds,
    pub(crate) watched: WatchedInterfaces,
    pub(crate) timed: Timed,
    pub(crate) switch_box: Option<SwitchBox>,
    /// Compiled filters of breakpoints, by their expressions.
    pub(crate) filters: HashMap<String, protocol::Filter>,
    /// nft rules in force, and their earlier versions.
    pub(crate) rulesets: Filters,
}

/// Where a wire is.
#[derive(Clone, Debug, Default)]
pub(crate) struct WirePlacement {
    pub(crate) workers: Vec<usize>,
    /// Its ends, each with its worker, those included that are being made.
    pub(crate) ends: HashMap<String, usize>,
    /// Its ends in two workers are joined.
    pub(crate) joined: bool,
    pub(crate) uplink: Option<usize>,
    pub(crate) uplink_error: Option<String>,
}

impl Lab {
    fn new(
        name: &str,
        asked: &PutLab,
        runtime: PathBuf,
        hooks: Hooks,
        events: broadcast::Sender<Event>,
        labs: Weak<Labs>,
        opened: Option<Opened>,
    ) -> Lab {
        let label = match &opened {
            Some(_) => asked.spec.name.clone(),
            None => name.to_owned(),
        };
        let file = asked.file.as_deref().map(PathBuf::from);
        let beside = file.and_then(|file| file.parent().map(PathBuf::from));
        Lab {
            name: name.to_owned(),
            label: label.clone(),
            folder: PathBuf::from(&asked.folder),
            views: Views::new(beside.unwrap_or_else(|| runtime.clone()), name),
            runtime,
            env: asked.env.clone(),
            hooks,
            events,
            labs,
            changing: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
            ending: watch::Sender::new(false),
            made: Instant::now(),
            state: Mutex::new(State {
                spec: Spec {
                    name: label,
                    ..Spec::default()
                },
                revision: 0,
                phase: LabState::Starting,
                clock: Clock::default(),
                up: None,
                workers: Vec::new(),
                worker_of: HashMap::new(),
                wires: HashMap::new(),
                hosts: HashMap::new(),
                crossings: HashMap::new(),
                drivers: HashMap::new(),
                tasks: BTreeMap::new(),
                named: HashMap::new(),
                running: HashMap::new(),
                early: HashMap::new(),
                next: 0,
                recorded: None,
                opened,
                next_capture: 0,
                captures: BTreeMap::new(),
                watched: WatchedInterfaces::default(),
                feeds: Feeds::default(),
                timed: Timed::default(),
                switch_box: None,
                filters: HashMap::new(),
                rulesets: Filters::default(),
            }),
        }
    }

    /// What it is now.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    /// Sends an event to the clients that listen.
    pub(crate) fn tell(&self, what: Happening) {
        let time = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |time| time.as_secs_f64());
        // Fails if no client listens.
        let _ = self.events.send(Event {
            lab: self.name.clone(),
            time,
            actor: ASKED_BY.try_with(|actor| actor.to_string()).ok(),
            what,
        });
    }

    /// Tells that a user has asked for this.
    pub(crate) fn tell_asked(&self, actor: &Arc<str>, method: &str, path: &str, body: &[u8]) {
        let body = Some(body).filter(|body| (1..=LONGEST_TOLD).contains(&body.len()));
        let asked = Happening::Asked {
            method: method.to_owned(),
            path: path.to_owned(),
            body: body.map(|body| String::from_utf8_lossy(body).into_owned()),
        };
        ASKED_BY.sync_scope(actor.clone(), || self.tell(asked));
    }

    pub(crate) fn set_phase(&self, phase: LabState) {
        {
            let mut state = self.state();
            if state.phase == phase || state.phase == LabState::Ending {
                return;
            }
            state.phase = phase;
            state.schedule();
        }
        self.tell(Happening::Lab { state: phase });
    }

    /// Something that a worker tells.
    pub(crate) fn happened(
        self: &Arc<Lab>,
        worker: usize,
        generation: u64,
        event: protocol::Event,
        last_words: &mut Option<(String, Vec<String>, String)>,
    ) {
        let image = {
            let state = self.state();
            if state.workers[worker].generation != generation {
                return;
            }
            state.workers[worker].image.clone()
        };
        match event {
            protocol::Event::Ended { program, time, .. } => {
                self.state().clock.advance_epoch(time);
                self.program_told(worker, program, event);
                self.state().schedule();
            }
            protocol::Event::Output { program, .. } => {
                self.program_told(worker, program, event);
            }
            protocol::Event::Paused { run, now } => {
                let mut state = self.state();
                state.clock.paused_at(now, run);
                state.schedule();
            }
            protocol::Event::Gone { .. } => {}
            protocol::Event::Uplink { wire, error } => {
                if let Some(placement) = self.state().wires.get_mut(&wire) {
                    placement.uplink_error.clone_from(&error);
                }
                self.tell(Happening::Uplink { wire, error });
            }
            protocol::Event::CaptureEnded { capture, error } => {
                self.capture_ended(worker, capture, error);
            }
            protocol::Event::Packet(of) => self.tell(Happening::Packet(packet(of))),
            protocol::Event::Breakpoint { hit, time } => {
                if hit.pauses_clock() {
                    self.state().clock.advance_epoch(time);
                }
                self.breakpoint_met(worker, hit);
                self.state().schedule();
            }
            protocol::Event::PodEnded {
                pod,
                path,
                fault,
                time: _,
            } => self.tell(Happening::PodEnded { pod, path, fault }),
            protocol::Event::PodLog { pod, line } => self.tell(Happening::PodLog { pod, line }),
            protocol::Event::Missed { packets } => {
                self.tell(Happening::Missed { events: packets });
            }
            protocol::Event::Panic {
                message,
                backtrace,
                log,
            } => *last_words = Some((message, backtrace, log)),
            protocol::Event::Log { text } => {
                for line in text.lines() {
                    self.tell(Happening::Log {
                        image: image.clone(),
                        line: line.to_owned(),
                    });
                }
            }
        }
    }

    /// A worker's process has ended: its machines with it.
    pub(crate) fn worker_ended(
        &self,
        number: usize,
        generation: u64,
        how: String,
        last_words: Option<(String, Vec<String>, String)>,
    ) {
        let (message, backtrace, log) =
            last_words.unwrap_or_else(|| (how, Vec::new(), String::new()));
        let mut dead: Vec<String>;
        {
            let mut state = self.state();
            let state = &mut *state;
            let worker = &mut state.workers[number];
            if worker.generation != generation {
                return;
            }
            worker.client = None;
            worker.pid = None;
            worker.stuck = None;
            let mut error = message.clone();
            for symbol in &backtrace {
                error += "\n  ";
                error += symbol;
            }
            worker.error = Some(error);
            dead = state
                .worker_of
                .iter()
                .filter(|(_, worker)| **worker == number)
                .map(|(machine, _)| machine.clone())
                .collect();
            dead.sort();
            self.programs_died(state, number, "the worker of its machine has died");
            let State {
                rulesets,
                worker_of,
                ..
            } = state;
            rulesets.lost(|machine| worker_of.get(machine) == Some(&number));
            for recording in state.captures.values_mut() {
                recording.died(number);
            }
            state.schedule();
        }
        self.set_phase(LabState::Broken);
        self.tell(Happening::Dead {
            machines: dead,
            message,
            backtrace,
            log,
        });
    }

    /// A new lab, or one that is changed. Changes already carried out stay when one fails.
    async fn apply(self: &Arc<Lab>, asked: &PutLab, created: bool) -> Result<Applied, HttpError> {
        let _one = self.changing.lock().await;
        let mut wanted = asked.spec.clone();
        // Ethernet addresses are made of it.
        wanted.name.clone_from(&self.label);
        let wanted = wanted.normal();
        let steps = diff(&self.state().spec, &wanted);
        let answer = |changes| Applied {
            lab: self.name.clone(),
            created,
            changes,
            switchbox: self.state().switch_box.as_ref().map(|s| s.address),
        };
        let changes: Vec<vink_api::Change> = steps.iter().map(api_change).collect();
        if asked.dry_run {
            return Ok(answer(changes));
        }
        if let Some(port) = asked.switchbox {
            self.open_switch_box(port).await?;
        }
        if created {
            self.prepare_record(asked)?;
        }
        self.state().clock.is_virtual = wanted.time != Time::Real;
        let reconciled = self.reconcile(steps, true).await;
        {
            let mut state = self.state();
            state.clock.is_virtual = state.spec.time != Time::Real;
        }
        reconciled?;
        if created {
            {
                let mut state = self.state();
                state.up = Some(Instant::now());
                state.clock.up_at = state.clock.now;
                state.clock.paused = asked.paused;
            }
            self.start_timed();
        }
        self.settle();
        self.state().schedule();
        Ok(answer(changes))
    }

    /// After a change: whether all is well.
    pub(crate) fn settle(&self) {
        let phase = {
            let state = self.state();
            let dead = state.workers.iter().any(|worker| worker.error.is_some());
            match (state.phase, dead) {
                (LabState::Starting | LabState::Running | LabState::Broken, true) => {
                    LabState::Broken
                }
                (LabState::Starting | LabState::Running | LabState::Broken, false) => {
                    LabState::Running
                }
                (phase, _) => phase,
            }
        };
        self.set_phase(phase);
    }

    async fn open_switch_box(self: &Arc<Lab>, port: u16) -> Result<(), HttpError> {
        if let Some(open) = &self.state().switch_box {
            if port == 0 || open.address.port() == port {
                return Ok(());
            }
        }
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
            .await
            .map_err(|error| {
                HttpError::conflict(format!("a switch box on port {port}: {error}"))
                    .hint("--switchbox 0 takes any port that is free")
            })?;
        let address = listener
            .local_addr()
            .map_err(|error| HttpError::host("getsockname", error))?;
        let serving = (self.hooks.switch_box)(self.name.clone(), listener);
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::warn!(target: "control", "the switch box at {address}: {error}");
            }
        });
        let old = self.state().switch_box.replace(SwitchBox { address, task });
        if let Some(old) = old {
            old.task.abort();
        }
        Ok(())
    }

    /// Boots workers again, with what should run there.
    pub(crate) async fn restart(
        self: &Arc<Lab>,
        machine: Option<&str>,
    ) -> Result<Restarted, HttpError> {
        let numbers: Vec<usize> = match machine {
            Some(machine) => vec![self.worker_for_machine(machine)?],
            None => (0..self.state().workers.len()).collect(),
        };
        self.restart_workers(numbers).await
    }

    /// Boots these workers again.
    async fn restart_workers(self: &Arc<Lab>, numbers: Vec<usize>) -> Result<Restarted, HttpError> {
        let _one = self.changing.lock().await;
        let mut machines = Vec::new();
        // Wires whose halves elsewhere are joined to one that is gone.
        let mut loose = Vec::new();
        for &number in &numbers {
            self.end_worker(number).await?;
            let mut state = self.state();
            let state = &mut *state;
            self.programs_died(state, number, "its machine was started again");
            for recording in state.captures.values_mut() {
                recording.died(number);
            }
            loose.extend(state.forget_wires_of(number));
            machines.extend(
                state
                    .spec
                    .machines
                    .keys()
                    .filter(|machine| state.worker_of.get(*machine) == Some(&number))
                    .cloned(),
            );
            let State {
                rulesets,
                worker_of,
                ..
            } = state;
            rulesets.lost(|machine| worker_of.get(machine) == Some(&number));
        }
        self.unjoin(loose).await;
        let again: HashSet<&str> = machines.iter().map(String::as_str).collect();
        let steps = {
            let state = self.state();
            let steps = diff(&Spec::default(), &state.spec);
            let concerns = |step: &Change| match step {
                Change::Machine(MachineChange::Add { machine, .. })
                | Change::Switch(SwitchChange {
                    switch: machine, ..
                })
                | Change::Machine(MachineChange::Setup { machine, .. })
                | Change::Program(ProgramChange::Add { machine, .. }) => {
                    again.contains(machine.as_str())
                }
                Change::Filter(FilterChange { place, .. }) => again.contains(machine_of(place)),
                Change::Uplink(UplinkChange::Add { wire, .. }) => {
                    let placement = state.wires.get(wire);
                    placement.is_none_or(|placement| placement.uplink.is_none())
                }
                Change::Series(NamedChange::Add { spec, .. }) => {
                    numbers.contains(&state.worker_of_series(spec))
                }
                _ => false,
            };
            steps.into_iter().filter(concerns).collect()
        };
        for &number in &numbers {
            self.boot(number).await?;
        }
        self.watch_again().await;
        self.reconcile(steps, false).await?;
        self.number_ends().await;
        {
            let mut state = self.state();
            state.clock.up_at = state.clock.now;
        }
        if self.state().clock.is_virtual {
            self.start_timed();
        }
        self.settle();
        Ok(Restarted { machines })
    }

    /// Cuts wires from halves on other workers that are gone.
    async fn unjoin(self: &Arc<Lab>, loose: Vec<(usize, String)>) {
        for (worker, wire) in loose {
            // It may have died, too.
            let _ = self
                .have(worker, Action::RemoveUplink { wire }, Vec::new())
                .await;
        }
    }

    /// Ends a worker that has no machines any more. It is started again when one comes.
    pub(crate) async fn retire(self: &Arc<Lab>, number: usize) -> Result<(), HttpError> {
        self.end_worker(number).await?;
        let loose = {
            let mut state = self.state();
            state.workers[number].error = None;
            // The next process counts its programs from the beginning, too.
            self.programs_died(&mut state, number, "its machine was removed");
            state.forget_wires_of(number)
        };
        self.unjoin(loose).await;
        Ok(())
    }

    /// All of them, at once: each may take its time.
    async fn end_workers(self: &Arc<Lab>) -> Result<(), HttpError> {
        let workers = self.state().workers.len();
        let ends = (0..workers).map(|number| self.end_worker(number));
        let ended = futures_util::future::join_all(ends).await;
        for number in 0..workers {
            let mut state = self.state();
            self.programs_died(&mut state, number, "the lab was taken down");
        }
        ended.into_iter().collect()
    }

    /// Takes it down: all its processes, and its files.
    ///
    /// # Errors
    /// A process is still there.
    async fn end(self: &Arc<Lab>) -> Result<(), HttpError> {
        self.end_record().await;
        self.set_phase(LabState::Ending);
        // What is being done fails at its next step.
        self.ending.send_replace(true);
        {
            let mut state = self.state();
            state.timed.stop();
            if let Some(open) = state.switch_box.take() {
                open.task.abort();
            }
            for task in state.tasks.values() {
                task.stop_supervision();
            }
        }
        // What is being done waits for programs that may never end by themselves. Once it has given
        // up, what it has started meanwhile is ended too.
        let first = self.end_workers().await;
        let _one = self.changing.lock().await;
        let ended = first.and(self.end_workers().await);
        self.end_hosts().await;
        self.end_drivers().await;
        let views = self.views.clone();
        let _ = tokio::task::spawn_blocking(move || views.save_changes()).await;
        if let Err(error) = std::fs::remove_dir_all(&self.runtime) {
            tracing::warn!(target: "control", "{}: {error}", self.runtime.display());
        }
        ended
    }
}

/// What is told of a packet.
pub(crate) fn packet(packet: protocol::Packet) -> vink_api::Packet {
    vink_api::Packet {
        nanoseconds: packet.time,
        end: packet.end,
        what: packet.kind,
        reason: packet.reason,
        length: packet.length,
        summary: packet.summary,
    }
}

/// How a step is told.
pub(crate) fn api_change(step: &Change) -> vink_api::Change {
    let line = step.to_string();
    let (sign, rest) = line.split_at(line.len().min(2));
    let (object, text) = match rest.split_once(": ") {
        Some((object, text)) => (object.to_owned(), text.to_owned()),
        None => (rest.to_owned(), String::new()),
    };
    vink_api::Change {
        kind: match sign.trim() {
            "+" => ChangeKind::Add,
            "-" => ChangeKind::Remove,
            _ => ChangeKind::Change,
        },
        object,
        text,
    }
}

/// All labs of the control process.
pub(crate) struct Labs {
    folder: PathBuf,
    hooks: Hooks,
    events: broadcast::Sender<Event>,
    /// Set when the control process is about to end: nothing new is begun.
    pub(crate) closing: watch::Sender<bool>,
    labs: Mutex<BTreeMap<String, Arc<Lab>>>,
    /// Recorded runs that are listed.
    pub(crate) runs: Runs,
    /// Explored labs that are listed.
    pub(crate) explored: ExploredLabs,
    /// How many there are.
    pub(crate) count: watch::Sender<usize>,
}

impl Labs {
    /// Their logs are in this folder.
    pub(crate) fn new(folder: PathBuf, hooks: Hooks) -> Arc<Labs> {
        Arc::new(Labs {
            folder,
            hooks,
            events: broadcast::Sender::new(EVENTS),
            closing: watch::Sender::new(false),
            labs: Mutex::default(),
            runs: Runs::default(),
            explored: ExploredLabs::default(),
            count: watch::Sender::new(0),
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Lab>> {
        let labs = self.labs.lock().expect("no panic while it is held");
        labs.values().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Lab>, HttpError> {
        let labs = self.labs.lock().expect("no panic while it is held");
        labs.get(name)
            .cloned()
            .ok_or_else(|| HttpError::no("lab", name, labs.keys().map(String::as_str), "running"))
    }

    /// Events from now on, of one lab or of all, until the control process is about to end; packets
    /// only of these interfaces.
    pub(crate) fn events(
        &self,
        of: Option<String>,
        watched: Vec<String>,
    ) -> impl Stream<Item = Event> + Send + 'static {
        let known = (self.events.subscribe(), self.closing.subscribe());
        let all = stream::unfold(known, |(mut events, mut closing)| async move {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = closing.wait_for(|closing| *closing) => return None,
            };
            let event = match event {
                Ok(event) => Ok(event),
                Err(RecvError::Lagged(events)) => Err(Happening::Missed { events }),
                Err(RecvError::Closed) => return None,
            };
            Some((event, (events, closing)))
        });
        all.filter_map(move |event| {
            let event = event.unwrap_or_else(|what| Event {
                lab: of.clone().unwrap_or_default(),
                time: 0.0,
                actor: None,
                what,
            });
            let mine = of.as_ref().is_none_or(|of| *of == event.lab);
            // Another client's interfaces are not this one's.
            let wanted = match &event.what {
                Happening::Packet(packet) => watched.contains(&packet.end),
                _ => true,
            };
            ready((mine && wanted).then_some(event))
        })
    }

    /// Where this control process has its files.
    pub(super) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Makes or changes one.
    pub(crate) async fn put(
        self: &Arc<Labs>,
        name: &str,
        asked: PutLab,
    ) -> Result<Applied, HttpError> {
        self.put_as(name, asked, None).await
    }

    /// Makes one that is a moment of a recorded run.
    pub(super) async fn put_opened(
        self: &Arc<Labs>,
        name: &str,
        asked: PutLab,
        opened: Opened,
    ) -> Result<Applied, HttpError> {
        self.put_as(name, asked, Some(opened)).await
    }

    async fn put_as(
        self: &Arc<Labs>,
        name: &str,
        asked: PutLab,
        opened: Option<Opened>,
    ) -> Result<Applied, HttpError> {
        if *self.closing.borrow() {
            let error = "this control process is about to end";
            return Err(HttpError::new(StatusCode::SERVICE_UNAVAILABLE, error)
                .hint("the next one takes the request"));
        }
        check(name, &asked)?;
        let found = self.get(name);
        let (lab, created) = match found {
            Ok(lab) if asked.new && !lab.lost_workers().is_empty() => {
                return self.bring_back(lab, asked).await;
            }
            Ok(_) if asked.new => {
                return Err(HttpError::conflict(format!("lab {name} runs already"))
                    .hint("vink lab apply changes it; vink lab down takes it down"))
            }
            Ok(lab) => (lab, false),
            Err(fault) if asked.running => return Err(fault),
            Err(_) => (self.make(name, &asked, opened)?, true),
        };
        if created && asked.dry_run {
            let changes = diff(&Spec::default(), &asked.spec)
                .iter()
                .map(api_change)
                .collect();
            self.forget(&lab);
            let _ = std::fs::remove_dir_all(&lab.runtime);
            return Ok(Applied {
                lab: name.to_owned(),
                created,
                changes,
                switchbox: None,
            });
        }
        let labs = self.clone();
        let work = async move {
            let applied = lab.apply(&asked, created).await;
            if created && applied.is_err() {
                let ending = *lab.ending.borrow();
                if asked.keep {
                    lab.set_phase(LabState::Failed);
                } else if !ending {
                    // What it could not be made for is the news.
                    let _ = labs.end(&lab).await;
                }
            }
            applied
        };
        match is_acting() {
            // The turn is the task's that has it.
            true => work.await,
            false => to_its_end(work).await,
        }
    }

    /// Starts what was on lost hosts again, and then makes the lab what is asked for.
    async fn bring_back(&self, lab: Arc<Lab>, asked: PutLab) -> Result<Applied, HttpError> {
        to_its_end(async move {
            lab.restart_workers(lab.lost_workers()).await?;
            lab.apply(&asked, false).await
        })
        .await
    }

    fn make(
        self: &Arc<Labs>,
        name: &str,
        asked: &PutLab,
        opened: Option<Opened>,
    ) -> Result<Arc<Lab>, HttpError> {
        let mut labs = self.labs.lock().expect("no panic while it is held");
        // Programs see the folder's path: that of a moment of a run is the run's, if that is free.
        let label = opened.as_ref().map_or(name, |_| asked.spec.name.as_str());
        let folders = [label, name].map(|name| self.folder.join("labs").join(name));
        let is_free = |folder: &PathBuf| labs.values().all(|lab| lab.runtime != *folder);
        let others = (2..).map(|number| self.folder.join("labs").join(format!("{name}.{number}")));
        let runtime = folders.into_iter().chain(others).find(is_free);
        let runtime = runtime.expect("there are more numbers than labs");
        std::fs::create_dir_all(&runtime)
            .map_err(|error| HttpError::host(&runtime.display().to_string(), error))?;
        let lab = Lab::new(
            name,
            asked,
            runtime,
            self.hooks.clone(),
            self.events.clone(),
            Arc::downgrade(self),
            opened,
        );
        let lab = Arc::new(lab);
        labs.insert(name.to_owned(), lab.clone());
        self.count.send_replace(labs.len());
        Ok(lab)
    }

    fn forget(&self, lab: &Arc<Lab>) {
        let mut labs = self.labs.lock().expect("no panic while it is held");
        if labs
            .get(&lab.name)
            .is_some_and(|found| Arc::ptr_eq(found, lab))
        {
            labs.remove(&lab.name);
        }
        self.count.send_replace(labs.len());
    }

    /// Takes one down.
    ///
    /// # Errors
    /// A process of it is still there, though killed; the lab is not.
    pub(crate) async fn end(&self, lab: &Arc<Lab>) -> Result<(), HttpError> {
        let ended = lab.end().await;
        self.forget(lab);
        ended
    }
}

/// What must hold before anything is made.
fn check(name: &str, asked: &PutLab) -> Result<(), HttpError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 63 || name.starts_with('.') || !name.chars().all(good) {
        return Err(HttpError::invalid(format!("{name:?} is not a name for a lab")).hint(
            "a name has letters, digits, -, _ and ., does not begin with a dot, and is at most 63 long",
        ));
    }
    if !PathBuf::from(&asked.folder).is_absolute() {
        let error = format!(
            "the lab's folder {:?} is not an absolute path",
            asked.folder
        );
        return Err(HttpError::invalid(error).at("/folder"));
    }
    if let Some(file) = asked
        .file
        .as_ref()
        .filter(|file| !PathBuf::from(file).is_absolute())
    {
        let error = format!("the lab file {file:?} is not an absolute path");
        return Err(HttpError::invalid(error).at("/file"));
    }
    if asked.paused && asked.spec.time == Time::Real {
        let error = format!("lab {name} lives by the host's clock, which can't be stopped");
        return Err(HttpError::invalid(error)
            .hint("leave `paused` out, or give the lab a clock of its own: `time: virtual`")
            .at("/paused"));
    }
    let folder = PathBuf::from(&asked.folder);
    check_lab(&asked.spec, Some(&folder))
        .map(drop)
        .map_err(|mistakes| HttpError::of_mistakes(&mistakes, "/spec"))
}

impl State {
    /// A worker's halves of wires go with it: returns those on other workers that were joined to them.
    fn forget_wires_of(&mut self, number: usize) -> Vec<(usize, String)> {
        let mut loose = Vec::new();
        for (wire, placement) in &mut self.wires {
            if placement.workers.contains(&number) {
                placement.workers.retain(|worker| *worker != number);
                placement.ends.retain(|_, worker| *worker != number);
                if std::mem::take(&mut placement.joined) {
                    loose.extend(placement.workers.iter().map(|other| (*other, wire.clone())));
                }
            }
            if placement.uplink == Some(number) {
                placement.uplink = None;
                placement.uplink_error = None;
            }
        }
        loose
    }

    /// A number for something new.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// For those that wait: whether this is the end.
pub(crate) fn is_over(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended { .. })
}
