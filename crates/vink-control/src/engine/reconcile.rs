//! Reconciles a lab with its specification, one step after the other.
//!
//! A step becomes requests to workers. Many steps of a kind are in flight at once: workers answer
//! in order, and a step is committed to the lab's state when its answers have come. So the state
//! says what runs even if a step fails.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use vink_api::Happening;
use vink_protocol::{Action, Answer, NewInterface, NewMachine, UplinkTarget};
use vink_spec::{
    derived_mac, inside, mac_bytes, Change, Core, EventsChange, FileChange, FileSpec, FilterChange,
    Interface, InterfaceChange, MachineChange, MachineSpec, NamedChange, ProgramChange, Route,
    RoutesChange, Settings, SwitchChange, SysctlChange, UplinkChange, WireChange, WireSpec,
};

use super::lab::{api_change, Lab, State, WirePlacement};
use super::series::series_file;
use super::worker::Worker;
use super::worker_client::PendingAnswer;
use crate::host::{Descriptor, HostLink};
use crate::http_error::HttpError;

/// Steps in flight at once.
const MAX_IN_FLIGHT: usize = 128;
/// The most steps that an error names.
const MAX_NAMED_STEPS: usize = 100;
/// Machines whose set-up lines run at once.
const MAX_PARALLEL_SETUPS: usize = 8;

/// A request for a worker.
pub(super) struct WorkerCmd {
    worker: usize,
    action: Action,
    descriptors: Vec<Descriptor>,
    /// Undoes what was done of it if it fails.
    undo: Option<Action>,
    /// It may fail: what it removes may be gone.
    lenient: bool,
}

impl WorkerCmd {
    fn new(worker: usize, action: Action) -> WorkerCmd {
        WorkerCmd {
            worker,
            action,
            descriptors: Vec::new(),
            undo: None,
            lenient: false,
        }
    }
}

/// A step in flight.
struct InFlightStep {
    at: usize,
    commands: Vec<(usize, PendingAnswer, Option<Action>, bool)>,
}

impl Lab {
    /// Carries out these steps in order, up to the first that fails; with `commit`, the lab's state
    /// follows.
    pub(crate) async fn reconcile(
        self: &Arc<Lab>,
        steps: Vec<Change>,
        commit: bool,
    ) -> Result<(), HttpError> {
        let mut done = 0;
        let steps = self.with_filters(steps);
        // Before the actor's turn: the lab's clock runs meanwhile.
        let prepared = match self.connect_hosts(&steps).await {
            Ok(()) => self.compile_filters(&steps).await,
            Err(fault) => Err(fault),
        };
        let carried = match prepared {
            Ok(()) => {
                self.as_actor(Box::pin(self.steps(&steps, commit, &mut done)))
                    .await
            }
            Err(fault) => Err((0, fault)),
        };
        if done > 0 {
            for worker in &mut self.state().workers {
                worker.knows_hosts = false;
            }
        }
        let unused = self.state().unused_workers();
        for number in unused {
            self.retire(number).await?;
        }
        carried.map_err(|(at, mut fault)| {
            let name = |steps: &[Change]| {
                let mut names: Vec<String> = steps
                    .iter()
                    .take(MAX_NAMED_STEPS)
                    .map(Change::to_string)
                    .collect();
                if steps.len() > MAX_NAMED_STEPS {
                    names.push(format!("and {} more", steps.len() - MAX_NAMED_STEPS));
                }
                names
            };
            fault.problem.done = name(&steps[..at]);
            fault.problem.not_done = name(&steps[at..]);
            fault
        })
    }

    /// The error comes with the index of the step that failed.
    async fn steps(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
        done: &mut usize,
    ) -> Result<(), (usize, HttpError)> {
        let mut window: VecDeque<InFlightStep> = VecDeque::new();
        let mut at = 0;
        let mut failed: Option<(usize, HttpError)> = None;
        while at < steps.len() && failed.is_none() {
            if *self.ending.borrow() {
                failed = Some((
                    at,
                    HttpError::conflict(format!("lab {} is being taken down", self.name)),
                ));
                break;
            }
            let exclusive = matches!(
                steps[at],
                Change::Program(ProgramChange::Remove { .. })
                    | Change::Options(_)
                    | Change::Switch(SwitchChange { .. })
                    | Change::Machine(MachineChange::Setup { .. })
                    | Change::Filter(FilterChange { .. })
                    | Change::Program(ProgramChange::Add { .. })
                    | Change::Program(ProgramChange::Restart { .. })
                    | Change::Events(EventsChange { .. })
            );
            // A step needs the commits of steps of other kinds: a machine those of its wires.
            let kind = std::mem::discriminant(&steps[at]);
            let other = window.back().is_some_and(|step_in_flight| {
                std::mem::discriminant(&steps[step_in_flight.at]) != kind
            });
            let left = match exclusive || other {
                true => 0,
                false => MAX_IN_FLIGHT / 2,
            };
            if left == 0 || window.len() >= MAX_IN_FLIGHT {
                while window.len() > left && failed.is_none() {
                    let step_in_flight = window.pop_front().expect("not empty");
                    failed = self
                        .finish_step(steps, step_in_flight, commit, done)
                        .await
                        .err();
                }
                if failed.is_some() {
                    break;
                }
            }
            if exclusive {
                // The lab's clock may go on meanwhile.
                self.note_changes().await;
                match self.exclusive(&steps[at..], commit).await {
                    Ok(count) => {
                        at += count;
                        *done = at;
                    }
                    Err((after, fault)) => failed = Some((at + after, fault)),
                }
                continue;
            }
            match self.command(&steps[at], commit).await {
                Ok(commands) => {
                    window.push_back(self.send(at, commands));
                    at += 1;
                }
                Err(fault) => failed = Some((at, fault)),
            }
        }
        // Steps in flight are carried out even if an earlier one has failed.
        while let Some(step_in_flight) = window.pop_front() {
            if let Err(error) = self.finish_step(steps, step_in_flight, commit, done).await {
                failed.get_or_insert(error);
            }
        }
        self.note_changes().await;
        match failed {
            Some((at, fault)) => Err((at, fault.during(&steps[at].to_string()))),
            None => Ok(()),
        }
    }

    fn send(&self, at: usize, commands: Vec<WorkerCmd>) -> InFlightStep {
        let state = self.state();
        let commands = commands
            .into_iter()
            .filter_map(|command| {
                // `None`: the worker has died, and its machines are known to be dead.
                let client = state.workers[command.worker].client.as_ref()?;
                let asked = client.ask(command.action, command.descriptors);
                Some((command.worker, asked, command.undo, command.lenient))
            })
            .collect();
        InFlightStep { at, commands }
    }

    /// Waits for a step's answers, and commits it.
    async fn finish_step(
        self: &Arc<Lab>,
        steps: &[Change],
        step_in_flight: InFlightStep,
        commit: bool,
        done: &mut usize,
    ) -> Result<(), (usize, HttpError)> {
        let step = &steps[step_in_flight.at];
        let mut failed = None;
        for (worker, asked, undo, lenient) in step_in_flight.commands {
            match self.read(asked.answer().await) {
                Err(fault) if !lenient => {
                    if let Some(undo) = undo {
                        // It was done in part, or not at all.
                        let _ = self.have(worker, undo, Vec::new()).await;
                    }
                    failed.get_or_insert(fault);
                }
                Ok(Answer::Route { .. }) | Ok(_) | Err(_) => {}
            }
        }
        if let Some(fault) = failed {
            match step {
                Change::Machine(MachineChange::Add { machine, .. }) => {
                    self.state().unplace(machine)
                }
                Change::Interface(InterfaceChange::Add {
                    machine, interface, ..
                }) => self.state().detach(machine, interface),
                _ => {}
            }
            if let Change::Uplink(UplinkChange::Add { wire, .. }) = step {
                self.end_driver(wire).await;
            }
            return Err((step_in_flight.at, fault));
        }
        self.commit(step, commit);
        *done += 1;
        let (at, total) = (step_in_flight.at + 1, steps.len());
        if at % 64 == 0 || at == total {
            self.tell(Happening::Progress {
                step: api_change(step).object,
                done: at,
                total,
            });
        }
        Ok(())
    }

    /// Applies a step to the lab's state, and sends its events.
    pub(super) fn commit(&self, step: &Change, commit: bool) {
        if let Change::Machine(MachineChange::Remove { machine, again }) = step {
            let mut state = self.state();
            match again {
                Some(_) => state.rulesets.lost(|lost| lost == machine),
                None => state.rulesets.forget(machine),
            }
        }
        if !commit {
            return;
        }
        let revision = {
            let mut state = self.state();
            step.apply(&mut state.spec);
            state.record_step(step);
            state.revision += 1;
            state.revision
        };
        self.changes.send_replace(revision);
        self.tell(Happening::Changed {
            change: api_change(step),
            revision,
        });
        match step {
            Change::Wire(WireChange::Set { wire, new, .. }) => self.tell(Happening::Wire {
                wire: wire.clone(),
                from: None,
                settings: new.settings.clone(),
                up: new.up != Some(false),
            }),
            Change::Wire(WireChange::Plug { wire, up }) => {
                let settings = {
                    let state = self.state();
                    let wire = state.spec.wires.get(wire);
                    wire.map(|wire| wire.settings.clone()).unwrap_or_default()
                };
                self.tell(Happening::Wire {
                    wire: wire.clone(),
                    from: None,
                    settings,
                    up: *up,
                });
            }
            _ => {}
        }
    }

    /// Steps that cannot be in flight with others: returns how many were committed, or which
    /// failed.
    async fn exclusive(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
    ) -> Result<usize, (usize, HttpError)> {
        match &steps[0] {
            Change::Machine(MachineChange::Setup { .. }) => {
                let count = steps
                    .iter()
                    .take_while(|step| matches!(step, Change::Machine(MachineChange::Setup { .. })))
                    .count();
                self.run_setup(&steps[..count], commit).await?;
                Ok(count)
            }
            Change::Filter(FilterChange { place, new, .. }) => {
                let done = self.carry_out_filter(place, new.as_ref()).await;
                done.map_err(|fault| (0, fault))?;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            Change::Program(ProgramChange::Add { .. })
            | Change::Program(ProgramChange::Restart { .. }) => {
                let is_program = |step: &&Change| {
                    matches!(
                        step,
                        Change::Program(ProgramChange::Add { .. })
                            | Change::Program(ProgramChange::Restart { .. })
                    )
                };
                let count = steps.iter().take_while(is_program).count();
                for step in &steps[..count] {
                    self.commit(step, commit);
                }
                self.start_named(&steps[..count]).await?;
                Ok(count)
            }
            Change::Program(ProgramChange::Remove { machine, program }) => {
                self.remove_named(machine, program).await;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            Change::Switch(SwitchChange {
                switch, old, new, ..
            }) => {
                self.set_switch(switch, old.as_ref(), new)
                    .await
                    .map_err(|fault| (0, fault))?;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            Change::Options(options) => {
                let others = {
                    let state = self.state();
                    options.memory != state.spec.memory
                        || options.calls != state.spec.calls
                        || options.seed != state.spec.seed
                        || options.time != state.spec.time
                };
                if others {
                    // Their machines are removed by now, and are made again on new workers.
                    let count = self.state().workers.len();
                    for number in 0..count {
                        self.retire(number).await.map_err(|fault| (0, fault))?;
                    }
                }
                self.leave_hosts(&options.hosts)
                    .await
                    .map_err(|fault| (0, fault))?;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            step => {
                self.commit(step, commit);
                self.start_timed();
                Ok(1)
            }
        }
    }

    /// Runs the set-up lines of several machines at once.
    async fn run_setup(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
    ) -> Result<(), (usize, HttpError)> {
        if self.state().clock.is_virtual {
            return self.run_setup_in_order(steps, commit).await;
        }
        let mut running = tokio::task::JoinSet::new();
        let mut failed: Option<(usize, HttpError)> = None;
        let mut done = 0;
        let mut next = steps.iter().enumerate();
        loop {
            while running.len() < MAX_PARALLEL_SETUPS && failed.is_none() {
                let Some((at, Change::Machine(MachineChange::Setup { machine, lines }))) =
                    next.next()
                else {
                    break;
                };
                let (lab, machine, lines) = (self.clone(), machine.clone(), lines.clone());
                running.spawn(async move {
                    for line in &lines {
                        let ran = lab.set_up_line(&machine, line).await;
                        ran.map_err(|fault| (at, fault))?;
                    }
                    Ok(at)
                });
            }
            match running.join_next().await {
                None => break,
                Some(Ok(Ok(at))) => {
                    self.commit(&steps[at], commit);
                    done += 1;
                    self.tell(Happening::Progress {
                        step: "setup".to_owned(),
                        done,
                        total: steps.len(),
                    });
                }
                Some(Ok(Err(error))) => {
                    failed.get_or_insert(error);
                }
                Some(Err(error)) => {
                    failed.get_or_insert((0, HttpError::invalid(error.to_string())));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Runs them one after the other, for a lab with a clock of its own.
    async fn run_setup_in_order(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
    ) -> Result<(), (usize, HttpError)> {
        for (at, step) in steps.iter().enumerate() {
            if let Change::Machine(MachineChange::Setup { machine, lines }) = step {
                for line in lines {
                    let ran = self.set_up_line(machine, line).await;
                    ran.map_err(|fault| (at, fault))?;
                }
            }
            self.commit(step, commit);
            self.tell(Happening::Progress {
                step: "setup".to_owned(),
                done: at + 1,
                total: steps.len(),
            });
        }
        Ok(())
    }

    /// The requests that a step becomes.
    async fn command(
        self: &Arc<Lab>,
        step: &Change,
        commit: bool,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        match step {
            Change::Machine(MachineChange::Add { machine, spec }) => {
                let worker = self.worker_for(spec).await?;
                let wires = spec.interfaces.values();
                self.prepare_wires(worker, wires.filter_map(|it| it.wire.as_deref()))
                    .await?;
                let files = self.files(machine, spec)?;
                let root = match &spec.root {
                    Some(root) => Some(inside(&self.folder, root).map_err(|error| {
                        HttpError::invalid(format!("root of {machine}: {error}"))
                    })?),
                    None => None,
                };
                let new = NewMachine {
                    machine: machine.clone(),
                    forward: spec.forward,
                    rights: spec.rights,
                    // The control process's folder; that of this lab is below it.
                    hidden: self
                        .runtime
                        .ancestors()
                        .nth(2)
                        .filter(|_| spec.host.is_none())
                        .map(|folder| folder.display().to_string()),
                    files,
                    root: root.map(|root| root.display().to_string()),
                    sysctls: spec
                        .sysctls
                        .iter()
                        .map(|(name, value)| (name.clone(), value.to_string()))
                        .collect(),
                };
                let mut state = self.state();
                let commands = state.add_machine(&self.label, spec, new, worker)?;
                if state.worker_of.insert(machine.clone(), worker).is_none() {
                    state.workers[worker].machines += 1;
                }
                Ok(commands)
            }
            Change::Uplink(UplinkChange::Add { wire, uplink }) => {
                let time = self.state().spec.time;
                if !time.allows_uplinks() {
                    let error = format!(
                        "wire {wire}: what is outside does not live by the virtual clock of lab {}",
                        self.name
                    );
                    return Err(HttpError::conflict(error).hint(
                        "`time: {virtual: {uplinks: true}}` in its file allows it: runs are not the same then",
                    ));
                }
                let (mut released, found) = {
                    let mut state = self.state();
                    let released = state.release_halves(wire);
                    let placement = state.wires.get(wire);
                    let found = placement.and_then(|it| it.workers.first().copied());
                    (released, found)
                };
                let worker = match found {
                    Some(worker) => worker,
                    None => self.worker_for(&MachineSpec::default()).await?,
                };
                // Before the wire, which it may have to wait for.
                let driver = match uplink.driver() {
                    Some(words) => Some(self.driver(wire, uplink, words).await?),
                    None => None,
                };
                let mut state = self.state();
                released.extend(state.ensure_wire(wire, worker, None)?);
                let mut commands = released;
                let placement = state.wires.entry(wire.clone()).or_default();
                if placement.joined {
                    return Err(HttpError::invalid(format!(
                        "wire {wire} joins machines of two workers, and can't have an uplink too"
                    ))
                    .hint("give the uplink to a wire of its own, and join both by a machine that forwards"));
                }
                placement.uplink = Some(worker);
                placement.uplink_error = None;
                let (ends, target) = match driver {
                    Some((ends, share)) => {
                        let ends = [Some(ends.wire), ends.ports].into_iter().flatten();
                        (ends.collect(), UplinkTarget::Driver { share })
                    }
                    None => (Vec::new(), UplinkTarget::Uplink(uplink.clone())),
                };
                commands.push(WorkerCmd {
                    undo: Some(Action::RemoveUplink { wire: wire.clone() }),
                    descriptors: ends.into_iter().map(Descriptor::Here).collect(),
                    ..WorkerCmd::new(
                        worker,
                        Action::Uplink {
                            wire: wire.clone(),
                            target,
                        },
                    )
                });
                commands.extend(state.end_settings(wire, worker, "outside"));
                Ok(commands)
            }
            step => {
                match step {
                    Change::Uplink(UplinkChange::Remove { wire }) => self.end_driver(wire).await,
                    Change::Interface(InterfaceChange::Add { machine, spec, .. }) => {
                        let worker = self.worker_for_machine(machine)?;
                        self.prepare_wires(worker, spec.wire.as_deref().into_iter())
                            .await?;
                    }
                    _ => {}
                }
                let mut state = self.state();
                state.command(self, step, commit)
            }
        }
    }

    /// The texts of a machine's files.
    fn files(&self, machine: &str, spec: &MachineSpec) -> Result<Vec<(String, String)>, HttpError> {
        let mut files = Vec::with_capacity(spec.files.len());
        for (path, file) in &spec.files {
            files.push((
                path.clone(),
                self.text_of(&format!("file {path} of {machine}"), file)?,
            ));
        }
        Ok(files)
    }

    /// The text itself, or that of the file that it is from; `of` what it is, for messages.
    pub(super) fn text_of(&self, of: &str, file: &FileSpec) -> Result<String, HttpError> {
        match file {
            FileSpec::Text(text) => Ok(text.clone()),
            FileSpec::From { from } => {
                let source = inside(&self.folder, from)
                    .map_err(|error| HttpError::invalid(format!("{of}: {error}")))?;
                vink_spec::read_text_file(&source, vink_spec::LARGEST_FILE).map_err(|error| {
                    HttpError::invalid(format!("{of}: {}: {error}", source.display()))
                })
            }
        }
    }

    /// An image by its path, from the lab's folder, or by its name.
    fn image(&self, path: &str) -> Result<PathBuf, HttpError> {
        let file = self.folder.join(path);
        if file.is_file() || path.contains('/') {
            return Ok(file);
        }
        vink_kernel::image_named(Path::new(path))
            .map_err(|error| HttpError::invalid(error.to_string()))
    }

    /// The worker for machines of an image and a worker group, which is started if it does not run.
    async fn worker_for(self: &Arc<Lab>, spec: &MachineSpec) -> Result<usize, HttpError> {
        let image = spec.image.as_deref();
        let group = spec.worker_group();
        let cpus = spec.core.as_ref().map(Core::cpus).unwrap_or_default();
        let host = spec.host.as_deref();
        let path = {
            let state = self.state();
            match image {
                // Found by the agent there.
                None if host.is_some() => PathBuf::new(),
                Some(name) if host.is_some() => match state.spec.images.get(name) {
                    Some(path) => PathBuf::from(path),
                    None => return Err(state.no_image(name)),
                },
                Some(name) => match state.spec.images.get(name) {
                    Some(path) => self.image(path)?,
                    None => return Err(state.no_image(name)),
                },
                None => match self.env.get("VINK_IMAGE").filter(|path| !path.is_empty()) {
                    Some(path) => vink_kernel::image_named(Path::new(path)),
                    None => vink_kernel::find_image(),
                }
                .map_err(|error| HttpError::invalid(error.to_string()))?,
            }
        };
        // One whose machines have gone since, and come again on other processors.
        let outdated = {
            let state = self.state();
            let is_it =
                |it: &Worker| it.is_for(host, image, &path) && it.group == group && it.cpus != cpus;
            let found = state.workers.iter().position(is_it);
            found.filter(|number| state.workers[*number].machines == 0)
        };
        if let Some(number) = outdated {
            self.retire(number).await?;
        }
        let number = {
            let mut state = self.state();
            let mut workers = state.workers.iter();
            let found = workers.position(|it| it.is_for(host, image, &path) && it.group == group);
            match found {
                Some(number) if state.workers[number].cpus != cpus => {
                    let worker = &mut state.workers[number];
                    if worker.client.is_some() || worker.error.is_some() {
                        return Err(worker.has_other_cpus(&cpus));
                    }
                    worker.cpus = cpus;
                    number
                }
                Some(number) if state.workers[number].client.is_some() => return Ok(number),
                Some(number) if state.workers[number].error.is_some() => {
                    let lost = state.lost_host_of(number);
                    return Err(lost.unwrap_or_else(|| self.is_dead()));
                }
                Some(number) => number,
                None if state.clock.is_virtual && !state.workers.is_empty() => {
                    let error = format!(
                        "lab {} has a clock of its own, and that is the clock of one kernel: a machine of another image or \
                         worker needs another kernel",
                        self.name
                    );
                    return Err(HttpError::conflict(error).hint(
                        "give all machines the same image and worker, or take a lab with `time: real`",
                    ));
                }
                None => {
                    state.workers.push(Worker {
                        host: host.map(str::to_owned),
                        image: image.map(str::to_owned),
                        group,
                        cpus,
                        path,
                        generation: 0,
                        client: None,
                        pid: None,
                        release: String::new(),
                        machines: 0,
                        error: None,
                        stage: None,
                        stuck: None,
                        knows_hosts: false,
                    });
                    state.workers.len() - 1
                }
            }
        };
        self.boot(number).await?;
        Ok(number)
    }
}

impl State {
    fn no_image(&self, name: &str) -> HttpError {
        let names = self.spec.images.keys().map(String::as_str);
        HttpError::no("image", name, names, "in the lab's images")
    }

    /// The workers of groups that have no machines any more, nor a wire's uplink.
    fn unused_workers(&self) -> Vec<usize> {
        let is_unused = |(number, worker): &(usize, &Worker)| {
            (worker.group.is_some() || worker.host.is_some())
                && worker.machines == 0
                && (worker.client.is_some() || worker.error.is_some())
                && !self.wires.values().any(|it| it.uplink == Some(*number))
        };
        let workers = self.workers.iter().enumerate().filter(is_unused);
        workers.map(|(number, _)| number).collect()
    }

    /// Forgets the worker of a machine.
    fn unplace(&mut self, machine: &str) {
        if let Some(worker) = self.worker_of.remove(machine) {
            self.workers[worker].machines -= 1;
        }
        let is_its = |end: &str| end.split_once(':').is_some_and(|(it, _)| it == machine);
        for placement in self.wires.values_mut() {
            placement.ends.retain(|end, _| !is_its(end));
        }
    }

    /// Forgets that an interface is, or was to be, attached.
    fn detach(&mut self, machine: &str, interface: &str) {
        let end = format!("{machine}:{interface}");
        for placement in self.wires.values_mut() {
            placement.ends.remove(&end);
        }
    }

    fn add_machine(
        &mut self,
        lab: &str,
        spec: &MachineSpec,
        new: NewMachine,
        worker: usize,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let name = new.machine.clone();
        let machine = name.as_str();
        let mut before = Vec::new();
        let mut actions = vec![Action::Machine(new)];
        let mut after = Vec::new();
        for (name, interface) in &spec.interfaces {
            if let Some(wire) = &interface.wire {
                let end = format!("{machine}:{name}");
                before.extend(self.ensure_wire(wire, worker, Some(end))?);
            }
            actions.push(self.attach(lab, machine, name, interface)?);
            if let Some(wire) = &interface.wire {
                after.extend(self.end_settings(wire, worker, &format!("{machine}:{name}")));
            }
        }
        for route in &spec.routes {
            actions.push(self::route(machine, route, false)?);
        }
        before.push(WorkerCmd {
            undo: Some(Action::RemoveMachine {
                machine: machine.to_owned(),
            }),
            ..WorkerCmd::new(worker, Action::All(actions))
        });
        before.extend(after);
        Ok(before)
    }

    fn attach(
        &self,
        lab: &str,
        machine: &str,
        name: &str,
        interface: &Interface,
    ) -> Result<Action, HttpError> {
        let mac = match &interface.mac {
            Some(text) => mac_bytes(text).ok_or_else(|| {
                HttpError::invalid(format!("{text:?} is not an Ethernet address"))
                    .hint("write it like 02:00:00:00:00:01")
            })?,
            None => derived_mac(lab, machine, name),
        };
        let wire = interface.wire.as_ref();
        let mtu = wire.and_then(|wire| self.spec.wires.get(wire)?.settings.mtu);
        Ok(Action::Attach(NewInterface {
            machine: machine.to_owned(),
            interface: name.to_owned(),
            wire: interface.wire.clone(),
            mac,
            mtu: mtu.unwrap_or(1500),
            addresses: interface.addresses.clone(),
        }))
    }

    /// Gives up a wire's halves on workers where it has no end any more.
    fn release_halves(&mut self, wire: &str) -> Vec<WorkerCmd> {
        let Some(placement) = self.wires.get_mut(wire) else {
            return Vec::new();
        };
        let used = |worker: &usize| {
            placement.uplink == Some(*worker) || placement.ends.values().any(|it| it == worker)
        };
        let (kept, idle): (Vec<usize>, Vec<usize>) =
            placement.workers.iter().copied().partition(used);
        if idle.is_empty() {
            return Vec::new();
        }
        let name = || wire.to_owned();
        let mut commands = Vec::new();
        if std::mem::take(&mut placement.joined) {
            let cut = |worker| (worker, Action::RemoveUplink { wire: name() });
            commands.extend(placement.workers.iter().copied().map(cut));
        }
        let remove = |worker| (worker, Action::RemoveWire { wire: name() });
        commands.extend(idle.into_iter().map(remove));
        placement.workers = kept;
        // The other side may have cut it, and an idle worker may be on its way out.
        let lenient = |(worker, action)| WorkerCmd {
            lenient: true,
            ..WorkerCmd::new(worker, action)
        };
        commands.into_iter().map(lenient).collect()
    }

    /// Makes a wire on a worker if it is not there, for this end if for one, and joins it to its
    /// ends on another worker.
    fn ensure_wire(
        &mut self,
        wire: &str,
        worker: usize,
        end: Option<String>,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let spec = self.spec.wires.get(wire).cloned().unwrap_or_default();
        let placement = self.wires.entry(wire.to_owned()).or_default();
        if placement.workers.contains(&worker) {
            placement.ends.extend(end.map(|end| (end, worker)));
            return Ok(Vec::new());
        }
        let mut commands = self.release_halves(wire);
        let placement = self.wires.entry(wire.to_owned()).or_default();
        let name = || wire.to_owned();
        let bus = spec.bus.unwrap_or(false);
        let mut actions = vec![Action::Wire { wire: name(), bus }];
        if spec.settings != Settings::default() {
            actions.push(Action::Set {
                wire: name(),
                end: None,
                settings: spec.settings.clone(),
            });
        }
        if spec.up == Some(false) {
            actions.push(Action::Plug {
                wire: name(),
                up: false,
            });
        }
        commands.push(WorkerCmd::new(worker, Action::All(actions)));
        match placement.workers.as_slice() {
            [] => {}
            &[other] if placement.uplink.is_none() => {
                placement.joined = true;
                if self.workers[other].host != self.workers[worker].host {
                    commands.extend(self.join_hosts(wire, other, worker)?);
                } else if let Some(host) = &self.workers[worker].host {
                    let link = self.link_to(host)?;
                    commands.extend(join_there(&link, wire, other, worker));
                } else {
                    commands.extend(join_here(wire, other, worker)?);
                }
            }
            _ => {
                let why = match placement.uplink {
                    Some(_) => "an uplink and machines of two workers",
                    None => "machines of three workers",
                };
                return Err(HttpError::invalid(format!("wire {wire} would have {why}"))
                    .hint("use two wires, and a machine between them that forwards"));
            }
        }
        let placement = self.wires.entry(wire.to_owned()).or_default();
        placement.workers.push(worker);
        placement.ends.extend(end.map(|end| (end, worker)));
        Ok(commands)
    }
    /// Sets what is different for packets of a new end.
    fn end_settings(&self, wire: &str, worker: usize, end: &str) -> Option<WorkerCmd> {
        let spec = self.spec.wires.get(wire)?;
        let own = spec.from.get(end)?;
        Some(WorkerCmd::new(
            worker,
            Action::Set {
                wire: wire.to_owned(),
                end: Some(end.to_owned()),
                settings: spec.settings.with(own),
            },
        ))
    }

    /// The worker of one of a wire's ends, if that end is there.
    fn worker_of_end(&self, wire: &str, end: &str) -> Option<usize> {
        if end == "outside" {
            return self.wires.get(wire)?.uplink;
        }
        let (machine, interface) = end.split_once(':')?;
        let found = self.spec.machines.get(machine)?.interfaces.get(interface)?;
        let here = found.wire.as_deref() == Some(wire);
        self.worker_of.get(machine).filter(|_| here).copied()
    }

    fn worker_for_machine(&self, machine: &str) -> Result<usize, HttpError> {
        match self.worker_of.get(machine) {
            Some(worker) => Ok(*worker),
            None => {
                let names = self.spec.machines.keys().map(String::as_str);
                Err(HttpError::no("machine", machine, names, "in the lab"))
            }
        }
    }

    fn command(
        &mut self,
        lab: &Lab,
        step: &Change,
        commit: bool,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let commands = match step {
            Change::Uplink(UplinkChange::Remove { wire }) => {
                let placement = self.wires.get_mut(wire);
                let worker = placement.and_then(|placement| {
                    placement.uplink_error = None;
                    placement.uplink.take()
                });
                let wire = wire.clone();
                let command = worker.map(|w| WorkerCmd::new(w, Action::RemoveUplink { wire }));
                command.into_iter().collect()
            }
            Change::Interface(InterfaceChange::Remove { machine, interface }) => {
                let worker = self.worker_for_machine(machine)?;
                self.detach(machine, interface);
                let action = Action::Detach {
                    machine: machine.clone(),
                    interface: interface.clone(),
                };
                vec![WorkerCmd::new(worker, action)]
            }
            Change::Machine(MachineChange::Remove { machine, .. }) => {
                let worker = self.worker_for_machine(machine)?;
                self.forget_programs(machine);
                self.unplace(machine);
                let machine = machine.clone();
                vec![WorkerCmd::new(worker, Action::RemoveMachine { machine })]
            }
            Change::Wire(WireChange::Remove { wire, .. }) => {
                let placement = self.wires.remove(wire).unwrap_or_default();
                let command = |worker: &usize| {
                    let wire = wire.clone();
                    WorkerCmd::new(*worker, Action::RemoveWire { wire })
                };
                placement.workers.iter().map(command).collect()
            }
            // Workers make it with its first end.
            Change::Wire(WireChange::Add { wire, .. }) => {
                self.wires.insert(wire.clone(), WirePlacement::default());
                Vec::new()
            }
            Change::Breakpoint(NamedChange::Remove { name: breakpoint }) => {
                let command = |worker| {
                    let breakpoint = breakpoint.clone();
                    WorkerCmd::new(worker, Action::RemoveBreakpoint { breakpoint })
                };
                self.alive().into_iter().map(command).collect()
            }
            Change::Breakpoint(NamedChange::Add {
                name: breakpoint,
                spec,
            }) => {
                let command = |worker| WorkerCmd {
                    undo: Some(Action::RemoveBreakpoint {
                        breakpoint: breakpoint.clone(),
                    }),
                    ..WorkerCmd::new(worker, self.breakpoint(breakpoint, spec))
                };
                self.alive().into_iter().map(command).collect()
            }
            Change::Pod(NamedChange::Remove { name: pod }) => {
                let command = |worker| {
                    let pod = pod.clone();
                    WorkerCmd::new(worker, Action::RevokePod { pod, forget: true })
                };
                self.pod_workers().into_iter().map(command).collect()
            }
            Change::Pod(NamedChange::Add { name: pod, spec }) => {
                let action = self.load_pod(lab, pod, spec)?;
                let command = |worker| WorkerCmd::new(worker, action.clone());
                self.pod_workers().into_iter().map(command).collect()
            }
            Change::Path(NamedChange::Remove { name: path }) => {
                let command = |worker| {
                    let path = path.clone();
                    WorkerCmd::new(worker, Action::RemovePath { path })
                };
                self.pod_workers().into_iter().map(command).collect()
            }
            Change::Path(NamedChange::Add { name: path, spec }) => {
                let here = self.worker_of_path(spec);
                let command = |worker| match here == Some(worker) {
                    true => WorkerCmd::new(worker, self.add_path(path, spec)),
                    // It may have been there before.
                    false => {
                        let path = path.clone();
                        WorkerCmd::new(worker, Action::RemovePath { path })
                    }
                };
                self.pod_workers().into_iter().map(command).collect()
            }
            Change::Series(NamedChange::Remove { name: series }) => {
                let command = |worker| {
                    let series = series.clone();
                    WorkerCmd::new(worker, Action::RemoveSeries { series })
                };
                self.alive().into_iter().map(command).collect()
            }
            Change::Series(NamedChange::Add { name: series, spec }) => {
                let action = Action::AddSeries {
                    series: series.clone(),
                    what: spec.clone(),
                    folder: lab.folder.display().to_string(),
                };
                vec![WorkerCmd {
                    descriptors: vec![series_file(&lab.folder, spec, series)?.into()],
                    undo: Some(Action::RemoveSeries {
                        series: series.clone(),
                    }),
                    ..WorkerCmd::new(self.worker_of_series(spec), action)
                }]
            }
            Change::Wire(WireChange::Set { wire, old, new }) => self.set_wire(wire, old, new),
            Change::Wire(WireChange::Plug { wire, up }) => {
                let placement = self.wires.get(wire).cloned().unwrap_or_default();
                let command = |worker: &usize| {
                    let wire = wire.clone();
                    WorkerCmd::new(*worker, Action::Plug { wire, up: *up })
                };
                placement.workers.iter().map(command).collect()
            }
            Change::Machine(MachineChange::Forward { machine, forward }) => {
                let worker = self.worker_for_machine(machine)?;
                let (machine, forward) = (machine.clone(), *forward);
                vec![WorkerCmd::new(worker, Action::Forward { machine, forward })]
            }
            Change::Sysctl(SysctlChange {
                machine, name, new, ..
            }) => {
                let worker = self.worker_for_machine(machine)?;
                let set = new.as_ref().map(|value| {
                    let action = Action::Sysctl {
                        machine: machine.clone(),
                        name: name.clone(),
                        value: value.to_string(),
                    };
                    WorkerCmd::new(worker, action)
                });
                // The kernel does not report defaults: the value stays until the machine is made
                // again.
                set.into_iter().collect()
            }
            Change::File(FileChange {
                machine, path, new, ..
            }) => {
                let worker = self.worker_for_machine(machine)?;
                let mut spec = self.spec.machines.get(machine).cloned().unwrap_or_default();
                match new {
                    Some(file) => spec.files.insert(path.clone(), file.clone()),
                    None => spec.files.shift_remove(path),
                };
                let files = lab.files(machine, &spec)?;
                let machine = machine.clone();
                vec![WorkerCmd::new(worker, Action::Files { machine, files })]
            }
            Change::Interface(InterfaceChange::Add {
                machine,
                interface,
                spec,
            }) => {
                let worker = self.worker_for_machine(machine)?;
                let mut commands = match &spec.wire {
                    Some(wire) => {
                        let end = format!("{machine}:{interface}");
                        self.ensure_wire(wire, worker, Some(end))?
                    }
                    None => Vec::new(),
                };
                commands.push(WorkerCmd {
                    undo: Some(Action::Detach {
                        machine: machine.clone(),
                        interface: interface.clone(),
                    }),
                    ..WorkerCmd::new(worker, self.attach(&lab.name, machine, interface, spec)?)
                });
                if let Some(wire) = &spec.wire {
                    commands.extend(self.end_settings(
                        wire,
                        worker,
                        &format!("{machine}:{interface}"),
                    ));
                }
                commands
            }
            Change::Interface(InterfaceChange::Addresses {
                machine,
                interface,
                old,
                new,
            }) => {
                let worker = self.worker_for_machine(machine)?;
                let command = |address: &IpNet, remove| WorkerCmd {
                    // A program may have removed it.
                    lenient: remove,
                    ..WorkerCmd::new(
                        worker,
                        Action::Address {
                            machine: machine.clone(),
                            interface: interface.clone(),
                            address: *address,
                            remove,
                        },
                    )
                };
                let gone = old.iter().filter(|address| !new.contains(address));
                let come = new.iter().filter(|address| !old.contains(address));
                gone.map(|address| command(address, true))
                    .chain(come.map(|address| command(address, false)))
                    .collect()
            }
            Change::Routes(RoutesChange { machine, old, new }) => {
                let worker = self.worker_for_machine(machine)?;
                let mut commands = Vec::new();
                // All are added again: routes that went with an interface are not known.
                for (routes, remove) in [(old, true), (new, false)] {
                    for each in routes {
                        commands.push(WorkerCmd {
                            lenient: remove,
                            ..WorkerCmd::new(worker, route(machine, each, remove)?)
                        });
                    }
                }
                commands
            }
            other => unreachable!("{other} is not a step for workers (noted: {commit})"),
        };
        Ok(commands)
    }

    fn set_wire(&self, wire: &str, old: &WireSpec, new: &WireSpec) -> Vec<WorkerCmd> {
        let placement = self.wires.get(wire).cloned().unwrap_or_default();
        let mut commands = Vec::new();
        if old.settings != new.settings {
            for &worker in &placement.workers {
                commands.push(WorkerCmd::new(
                    worker,
                    Action::Set {
                        wire: wire.to_owned(),
                        end: None,
                        settings: new.settings.clone(),
                    },
                ));
                if placement.joined {
                    commands.push(ideal_uplink_end(wire, worker));
                }
            }
        }
        let mut ends: HashMap<&String, &Settings> = new.from.iter().collect();
        let none = Settings::default();
        for end in old.from.keys() {
            ends.entry(end).or_insert(&none);
        }
        for (end, own) in ends {
            if let Some(worker) = self.worker_of_end(wire, end) {
                commands.push(WorkerCmd::new(
                    worker,
                    Action::Set {
                        wire: wire.to_owned(),
                        end: Some(end.clone()),
                        settings: new.settings.with(own),
                    },
                ));
            }
        }
        commands
    }
}

impl Lab {
    /// The worker of a machine.
    pub(crate) fn worker_for_machine(&self, machine: &str) -> Result<usize, HttpError> {
        self.state().worker_for_machine(machine)
    }
}

/// Joins the halves of a wire on two workers of this host, by memory that they share.
fn join_here(wire: &str, first: usize, second: usize) -> Result<Vec<WorkerCmd>, HttpError> {
    let halves = vink_kernel::halves()
        .map_err(|error| HttpError::host("making a wire in shared memory", error))?;
    let mut commands = Vec::new();
    for (worker, half) in [first, second].into_iter().zip(&halves) {
        let descriptors = half
            .descriptors()
            .iter()
            .map(|part: &BorrowedFd<'_>| part.try_clone_to_owned().map(Descriptor::Here))
            .collect::<Result<_, _>>()
            .map_err(|error| HttpError::host("dup", error))?;
        commands.extend(join(wire, worker, UplinkTarget::Worker, descriptors));
    }
    Ok(commands)
}

/// The same on two workers of another host, whose agent makes the memory.
fn join_there(link: &HostLink, wire: &str, first: usize, second: usize) -> Vec<WorkerCmd> {
    let number = link.wire_number();
    let sides = [first, second].into_iter().enumerate();
    let commands = sides.flat_map(|(side, worker)| {
        let part = |part| Descriptor::Half {
            wire: number,
            side,
            part,
        };
        let descriptors = (0..3).map(part).collect();
        join(wire, worker, UplinkTarget::Worker, descriptors)
    });
    commands.collect()
}

/// Joins one half of a wire to another.
pub(super) fn join(
    wire: &str,
    worker: usize,
    target: UplinkTarget,
    descriptors: Vec<Descriptor>,
) -> [WorkerCmd; 2] {
    let action = Action::Uplink {
        wire: wire.to_owned(),
        target,
    };
    [
        WorkerCmd {
            descriptors,
            ..WorkerCmd::new(worker, action)
        },
        // Packets from there were impaired by the other worker's ends already.
        ideal_uplink_end(wire, worker),
    ]
}

fn ideal_uplink_end(wire: &str, worker: usize) -> WorkerCmd {
    WorkerCmd::new(
        worker,
        Action::Set {
            wire: wire.to_owned(),
            end: Some("outside".to_owned()),
            settings: Settings::default(),
        },
    )
}

fn route(machine: &str, route: &Route, remove: bool) -> Result<Action, HttpError> {
    let to = match (route.to.as_str(), route.via) {
        ("default", Some(IpAddr::V6(_))) => IpNet::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        ("default", _) => IpNet::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        (to, _) => match to.parse::<IpAddr>() {
            Ok(host) => Ok(host.into()),
            Err(_) => match to.parse() {
                Ok(net) => Ok(net),
                Err(_) => {
                    return Err(HttpError::invalid(format!(
                        "a route of {machine}: {to:?} is not a network"
                    ))
                    .hint("write it like 10.1.0.0/16, fd00::/64 or default"))
                }
            },
        },
    };
    Ok(Action::Route {
        machine: machine.to_owned(),
        to: to.expect("prefixes of no length are good").trunc(),
        via: route.via,
        dev: route.dev.clone(),
        metric: route.metric,
        remove,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let to = |to: &str, via: Option<&str>| {
            let route = Route {
                to: to.to_owned(),
                via: via.map(|via| via.parse().unwrap()),
                dev: None,
                metric: None,
            };
            match super::route("m", &route, false) {
                Ok(Action::Route { to, .. }) => Some(to.to_string()),
                _ => None,
            }
        };
        assert_eq!(to("default", None).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(to("default", Some("fd00::1")).as_deref(), Some("::/0"));
        assert_eq!(to("10.1.2.3", None).as_deref(), Some("10.1.2.3/32"));
        assert_eq!(to("10.1.2.3/16", None).as_deref(), Some("10.1.0.0/16"));
        assert_eq!(to("nowhere", None), None);
    }
}
