//! Carries out the steps from one lab to another.
//!
//! A step becomes requests to workers. Many of a kind are under way at once: workers answer in order, and each step is
//! noted when its answer comes, so that what runs is known when one fails.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use vink_api::Happening;
use vink_lab::worker::protocol::{Action, Answer, NewInterface, NewMachine, Outside};
use vink_spec::{
    inside, mac_bytes, Change, FileSpec, Interface, MachineSpec, Route, Settings, WireSpec,
};

use super::lab::{told, Lab, Laid, State};
use super::link::Asked;
use super::series::series_file;
use super::worker::Worker;
use crate::fault::Fault;

/// Steps under way at once.
const WINDOW: usize = 128;
/// How many steps an error names.
const NAMED: usize = 100;
/// Machines that are set up at once.
const SETTING_UP: usize = 8;

/// A request for a worker.
struct Order {
    worker: usize,
    action: Action,
    descriptors: Vec<OwnedFd>,
    /// What takes back a part of it, if it fails half-way.
    undo: Option<Action>,
    /// It may fail: what it takes away may be gone.
    lenient: bool,
}

impl Order {
    fn new(worker: usize, action: Action) -> Order {
        Order {
            worker,
            action,
            descriptors: Vec::new(),
            undo: None,
            lenient: false,
        }
    }
}

/// A step under way.
struct Sent {
    at: usize,
    orders: Vec<(usize, Asked, Option<Action>, bool)>,
}

impl Lab {
    /// Carries these out in order; with `note`, what runs is noted to be so. At the first that fails the rest is left.
    pub(crate) async fn carry_out(
        self: &Arc<Lab>,
        steps: Vec<Change>,
        note: bool,
    ) -> Result<(), Fault> {
        let mut done = 0;
        let carried = self.in_turn(Box::pin(self.steps(&steps, note, &mut done)));
        let carried = carried.await;
        if done > 0 {
            let mut state = self.state();
            for worker in &mut state.workers {
                worker.knows_hosts = false;
            }
        }
        carried.map_err(|(at, mut fault)| {
            let name = |steps: &[Change]| {
                let mut names: Vec<String> =
                    steps.iter().take(NAMED).map(Change::to_string).collect();
                if steps.len() > NAMED {
                    names.push(format!("and {} more", steps.len() - NAMED));
                }
                names
            };
            fault.problem.done = name(&steps[..at]);
            fault.problem.not_done = name(&steps[at..]);
            fault
        })
    }

    /// The error comes with the step that failed.
    async fn steps(
        self: &Arc<Lab>,
        steps: &[Change],
        note: bool,
        done: &mut usize,
    ) -> Result<(), (usize, Fault)> {
        let mut window: VecDeque<Sent> = VecDeque::new();
        let mut at = 0;
        let mut failed: Option<(usize, Fault)> = None;
        while at < steps.len() && failed.is_none() {
            if *self.ending.borrow() {
                failed = Some((
                    at,
                    Fault::conflict(format!("lab {} is being taken down", self.name)),
                ));
                break;
            }
            let alone = matches!(
                steps[at],
                Change::RemoveProgram { .. }
                    | Change::Options(_)
                    | Change::Setup { .. }
                    | Change::AddProgram { .. }
                    | Change::RestartProgram { .. }
                    | Change::Events { .. }
            );
            // Steps look at what those of another kind have noted: machines at their wires.
            let kind = std::mem::discriminant(&steps[at]);
            let other = window
                .back()
                .is_some_and(|sent| std::mem::discriminant(&steps[sent.at]) != kind);
            let left = match alone || other {
                true => 0,
                false => WINDOW / 2,
            };
            if left == 0 || window.len() >= WINDOW {
                while window.len() > left && failed.is_none() {
                    let sent = window.pop_front().expect("not empty");
                    failed = self.settled(steps, sent, note, done).await.err();
                }
                if failed.is_some() {
                    break;
                }
            }
            if alone {
                match self.alone(&steps[at..], note).await {
                    Ok(count) => {
                        at += count;
                        *done = at;
                    }
                    Err((after, fault)) => failed = Some((at + after, fault)),
                }
                continue;
            }
            match self.order(&steps[at], note).await {
                Ok(orders) => {
                    window.push_back(self.send(at, orders));
                    at += 1;
                }
                Err(fault) => failed = Some((at, fault)),
            }
        }
        // What is under way is carried out, whatever failed before it.
        while let Some(sent) = window.pop_front() {
            if let Err(error) = self.settled(steps, sent, note, done).await {
                failed.get_or_insert(error);
            }
        }
        match failed {
            Some((at, fault)) => Err((at, fault.during(&steps[at].to_string()))),
            None => Ok(()),
        }
    }

    fn send(&self, at: usize, orders: Vec<Order>) -> Sent {
        let state = self.state();
        let orders = orders
            .into_iter()
            .filter_map(|order| {
                // One that has died by now: its machines are known to be dead.
                let link = state.workers[order.worker].link.as_ref()?;
                let asked = link.ask(order.action, order.descriptors);
                Some((order.worker, asked, order.undo, order.lenient))
            })
            .collect();
        Sent { at, orders }
    }

    /// Waits for a step's answers, and notes that it was taken.
    async fn settled(
        self: &Arc<Lab>,
        steps: &[Change],
        sent: Sent,
        note: bool,
        done: &mut usize,
    ) -> Result<(), (usize, Fault)> {
        let step = &steps[sent.at];
        let mut failed = None;
        for (worker, asked, undo, lenient) in sent.orders {
            match self.read(asked.answer().await) {
                Err(fault) if !lenient => {
                    if let Some(undo) = undo {
                        // It was made in part, or not at all.
                        let _ = self.have(worker, undo, Vec::new()).await;
                    }
                    failed.get_or_insert(fault);
                }
                Ok(Answer::Route { .. }) | Ok(_) | Err(_) => {}
            }
        }
        if let Some(fault) = failed {
            if let Change::AddMachine { machine, .. } = step {
                self.state().leave(machine);
            }
            return Err((sent.at, fault));
        }
        self.taken(step, note);
        *done += 1;
        let (at, total) = (sent.at + 1, steps.len());
        if at % 64 == 0 || at == total {
            self.tell(Happening::Progress {
                step: told(step).object,
                done: at,
                total,
            });
        }
        Ok(())
    }

    /// Notes a step, and tells of it.
    fn taken(&self, step: &Change, note: bool) {
        if !note {
            return;
        }
        step.apply(&mut self.state().spec);
        self.tell(Happening::Changed { change: told(step) });
        match step {
            Change::SetWire { wire, new, .. } => self.tell(Happening::Wire {
                wire: wire.clone(),
                from: None,
                settings: new.settings.clone(),
                up: new.up != Some(false),
            }),
            Change::Plug { wire, up } => {
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

    /// Steps that can't be under way with others: how many of the first ones were taken, or which failed.
    async fn alone(self: &Arc<Lab>, steps: &[Change], note: bool) -> Result<usize, (usize, Fault)> {
        match &steps[0] {
            Change::Setup { .. } => {
                let count = steps
                    .iter()
                    .take_while(|step| matches!(step, Change::Setup { .. }))
                    .count();
                self.set_up(&steps[..count], note).await?;
                Ok(count)
            }
            Change::AddProgram { .. } | Change::RestartProgram { .. } => {
                let is_program = |step: &&Change| {
                    matches!(
                        step,
                        Change::AddProgram { .. } | Change::RestartProgram { .. }
                    )
                };
                let count = steps.iter().take_while(is_program).count();
                for step in &steps[..count] {
                    self.taken(step, note);
                }
                self.start_named(&steps[..count]).await?;
                Ok(count)
            }
            Change::RemoveProgram { machine, program } => {
                self.remove_named(machine, program).await;
                self.taken(&steps[0], note);
                Ok(1)
            }
            Change::Options(options) => {
                let others = {
                    let state = self.state();
                    options.memory != state.spec.memory
                        || options.seed != state.spec.seed
                        || options.time != state.spec.time
                };
                if others {
                    // Their machines are gone by now, and come again with new ones.
                    let count = self.state().workers.len();
                    for number in 0..count {
                        self.end_worker(number).await;
                    }
                }
                self.taken(&steps[0], note);
                Ok(1)
            }
            step => {
                self.taken(step, note);
                self.start_timed();
                Ok(1)
            }
        }
    }

    /// Runs the set-up lines of machines, of several at once.
    async fn set_up(self: &Arc<Lab>, steps: &[Change], note: bool) -> Result<(), (usize, Fault)> {
        if self.state().clock.own {
            return self.set_up_in_order(steps, note).await;
        }
        let mut running = tokio::task::JoinSet::new();
        let mut failed: Option<(usize, Fault)> = None;
        let mut done = 0;
        let mut next = steps.iter().enumerate();
        loop {
            while running.len() < SETTING_UP && failed.is_none() {
                let Some((at, Change::Setup { machine, lines })) = next.next() else {
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
                    self.taken(&steps[at], note);
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
                    failed.get_or_insert((0, Fault::invalid(error.to_string())));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The same one after the other, as a lab with a clock of its own has it done.
    async fn set_up_in_order(
        self: &Arc<Lab>,
        steps: &[Change],
        note: bool,
    ) -> Result<(), (usize, Fault)> {
        for (at, step) in steps.iter().enumerate() {
            if let Change::Setup { machine, lines } = step {
                for line in lines {
                    let ran = self.set_up_line(machine, line).await;
                    ran.map_err(|fault| (at, fault))?;
                }
            }
            self.taken(step, note);
            self.tell(Happening::Progress {
                step: "setup".to_owned(),
                done: at + 1,
                total: steps.len(),
            });
        }
        Ok(())
    }

    /// What a step means for workers.
    async fn order(self: &Arc<Lab>, step: &Change, note: bool) -> Result<Vec<Order>, Fault> {
        match step {
            Change::AddMachine { machine, spec } => {
                let worker = self.worker_for(spec.image.as_deref()).await?;
                let files = self.files(machine, spec)?;
                let root =
                    match &spec.root {
                        Some(root) => Some(inside(&self.folder, root).map_err(|error| {
                            Fault::invalid(format!("root of {machine}: {error}"))
                        })?),
                        None => None,
                    };
                let new = NewMachine {
                    machine: machine.clone(),
                    forward: spec.forward,
                    files,
                    root: root.map(|root| root.display().to_string()),
                    sysctls: spec
                        .sysctls
                        .iter()
                        .map(|(name, value)| (name.clone(), value.to_string()))
                        .collect(),
                };
                let mut state = self.state();
                let orders = state.add_machine(&self.name, spec, new, worker)?;
                if state.places.insert(machine.clone(), worker).is_none() {
                    state.workers[worker].machines += 1;
                }
                Ok(orders)
            }
            Change::AddUplink { wire, uplink } => {
                let time = self.state().spec.time;
                if !time.allows_uplinks() {
                    let error = format!(
                        "wire {wire}: what is outside does not live by the virtual clock of lab {}",
                        self.name
                    );
                    return Err(Fault::conflict(error).hint(
                        "`time: {virtual: {uplinks: true}}` in its file allows it: runs are not the same then",
                    ));
                }
                let found = {
                    let state = self.state();
                    let laid = state.wires.get(wire);
                    laid.and_then(|laid| laid.workers.first().copied())
                };
                let worker = match found {
                    Some(worker) => worker,
                    None => self.worker_for(None).await?,
                };
                let mut state = self.state();
                let mut orders = state.lay(wire, worker)?;
                let laid = state.wires.entry(wire.clone()).or_default();
                if laid.joined {
                    return Err(Fault::invalid(format!(
                        "wire {wire} joins machines of two images, and can't have an uplink too"
                    ))
                    .hint("give the uplink to a wire of its own, and join both by a machine that forwards"));
                }
                laid.uplink = Some(worker);
                laid.uplink_error = None;
                orders.push(Order {
                    undo: Some(Action::RemoveUplink { wire: wire.clone() }),
                    ..Order::new(
                        worker,
                        Action::Uplink {
                            wire: wire.clone(),
                            outside: Outside::Uplink(uplink.clone()),
                        },
                    )
                });
                orders.extend(state.set_end(wire, worker, "outside"));
                Ok(orders)
            }
            step => {
                let mut state = self.state();
                state.order(self, step, note)
            }
        }
    }

    /// The texts of a machine's files.
    fn files(&self, machine: &str, spec: &MachineSpec) -> Result<Vec<(String, String)>, Fault> {
        let mut files = Vec::with_capacity(spec.files.len());
        for (path, file) in &spec.files {
            files.push((path.clone(), self.text_of(machine, path, file)?));
        }
        Ok(files)
    }

    fn text_of(&self, machine: &str, path: &str, file: &FileSpec) -> Result<String, Fault> {
        match file {
            FileSpec::Text(text) => Ok(text.clone()),
            FileSpec::From { from } => {
                let of = format!("file {path} of {machine}");
                let source = inside(&self.folder, from)
                    .map_err(|error| Fault::invalid(format!("{of}: {error}")))?;
                std::fs::read_to_string(&source)
                    .map_err(|error| Fault::invalid(format!("{of}: {}: {error}", source.display())))
            }
        }
    }

    /// An image by its path, from the lab's folder, or by its name.
    fn image(&self, path: &str) -> Result<PathBuf, Fault> {
        let file = self.folder.join(path);
        if file.is_file() || path.contains('/') {
            return Ok(file);
        }
        vink_kernel::image_named(Path::new(path)).map_err(|error| Fault::invalid(error.to_string()))
    }

    /// The worker for machines of an image, which is started if it does not run.
    async fn worker_for(self: &Arc<Lab>, image: Option<&str>) -> Result<usize, Fault> {
        let path = {
            let state = self.state();
            match image {
                Some(name) => match state.spec.images.get(name) {
                    Some(path) => self.image(path)?,
                    None => {
                        let names = state.spec.images.keys().map(String::as_str);
                        return Err(Fault::no("image", name, names, "in the lab's images"));
                    }
                },
                None => match self.env.get("VINK_IMAGE").filter(|path| !path.is_empty()) {
                    Some(path) => vink_kernel::image_named(Path::new(path)),
                    None => vink_kernel::find_image(),
                }
                .map_err(|error| Fault::invalid(error.to_string()))?,
            }
        };
        let number = {
            let mut state = self.state();
            let found = state.workers.iter().position(|worker| worker.path == path);
            match found {
                Some(number) if state.workers[number].link.is_some() => return Ok(number),
                Some(number) if state.workers[number].error.is_some() => {
                    return Err(self.is_dead());
                }
                Some(number) => number,
                None if state.clock.own && !state.workers.is_empty() => {
                    let error = format!(
                        "lab {} has a clock of its own, and that is the clock of one kernel: a machine of another image \
                         needs another kernel",
                        self.name
                    );
                    return Err(Fault::conflict(error).hint(
                        "give all machines the same image, or take a lab with `time: real`",
                    ));
                }
                None => {
                    state.workers.push(Worker {
                        image: image.map(str::to_owned),
                        path,
                        generation: 0,
                        link: None,
                        pid: None,
                        release: String::new(),
                        machines: 0,
                        error: None,
                        gone: None,
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
    /// A machine is no longer where it was.
    fn leave(&mut self, machine: &str) {
        if let Some(worker) = self.places.remove(machine) {
            self.workers[worker].machines -= 1;
        }
    }

    fn add_machine(
        &mut self,
        lab: &str,
        spec: &MachineSpec,
        new: NewMachine,
        worker: usize,
    ) -> Result<Vec<Order>, Fault> {
        let name = new.machine.clone();
        let machine = name.as_str();
        let mut before = Vec::new();
        let mut actions = vec![Action::Machine(new)];
        let mut after = Vec::new();
        for (name, interface) in &spec.interfaces {
            if let Some(wire) = &interface.wire {
                before.extend(self.lay(wire, worker)?);
            }
            actions.push(self.attach(lab, machine, name, interface)?);
            if let Some(wire) = &interface.wire {
                after.extend(self.set_end(wire, worker, &format!("{machine}:{name}")));
            }
        }
        for route in &spec.routes {
            actions.push(self::route(machine, route, false)?);
        }
        before.push(Order {
            undo: Some(Action::RemoveMachine {
                machine: machine.to_owned(),
            }),
            ..Order::new(worker, Action::All(actions))
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
    ) -> Result<Action, Fault> {
        let mac = match &interface.mac {
            Some(text) => mac_bytes(text).ok_or_else(|| {
                Fault::invalid(format!("{text:?} is not an Ethernet address"))
                    .hint("write it like 02:00:00:00:00:01")
            })?,
            None => made_up(lab, machine, name),
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

    /// Sees to it that a worker knows a wire, and that its ends elsewhere are joined to it.
    fn lay(&mut self, wire: &str, worker: usize) -> Result<Vec<Order>, Fault> {
        let spec = self.spec.wires.get(wire).cloned().unwrap_or_default();
        let laid = self.wires.entry(wire.to_owned()).or_default();
        if laid.workers.contains(&worker) {
            return Ok(Vec::new());
        }
        let mut orders = Vec::new();
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
        orders.push(Order::new(worker, Action::All(actions)));
        match laid.workers.as_slice() {
            [] => {}
            &[other] if laid.uplink.is_none() => {
                let halves =
                    vink_lab::shared().map_err(|error| Fault::invalid(error.to_string()))?;
                for (worker, half) in [other, worker].into_iter().zip(&halves) {
                    let descriptors = half
                        .descriptors()
                        .iter()
                        .map(|descriptor: &BorrowedFd<'_>| descriptor.try_clone_to_owned())
                        .collect::<Result<_, _>>()
                        .map_err(|error| Fault::host("dup", error))?;
                    orders.push(Order {
                        descriptors,
                        ..Order::new(
                            worker,
                            Action::Uplink {
                                wire: name(),
                                outside: Outside::Worker,
                            },
                        )
                    });
                    // What the other worker's ends do to packets they have done when these come from there.
                    orders.push(ideal_outside(wire, worker));
                }
                laid.joined = true;
            }
            _ => {
                let why = match laid.uplink {
                    Some(_) => "an uplink and machines of two images",
                    None => "machines of three images",
                };
                return Err(Fault::invalid(format!("wire {wire} would have {why}"))
                    .hint("use two wires, and a machine between them that forwards"));
            }
        }
        laid.workers.push(worker);
        Ok(orders)
    }

    /// What is different for packets of an end that has just come.
    fn set_end(&self, wire: &str, worker: usize, end: &str) -> Option<Order> {
        let spec = self.spec.wires.get(wire)?;
        let own = spec.from.get(end)?;
        Some(Order::new(
            worker,
            Action::Set {
                wire: wire.to_owned(),
                end: Some(end.to_owned()),
                settings: spec.settings.with(own),
            },
        ))
    }

    /// The worker of one of a wire's ends, if that end is there.
    fn worker_of(&self, wire: &str, end: &str) -> Option<usize> {
        if end == "outside" {
            return self.wires.get(wire)?.uplink;
        }
        let (machine, interface) = end.split_once(':')?;
        let found = self.spec.machines.get(machine)?.interfaces.get(interface)?;
        let here = found.wire.as_deref() == Some(wire);
        self.places.get(machine).filter(|_| here).copied()
    }

    fn place(&self, machine: &str) -> Result<usize, Fault> {
        match self.places.get(machine) {
            Some(worker) => Ok(*worker),
            None => {
                let names = self.spec.machines.keys().map(String::as_str);
                Err(Fault::no("machine", machine, names, "in the lab"))
            }
        }
    }

    fn order(&mut self, lab: &Lab, step: &Change, note: bool) -> Result<Vec<Order>, Fault> {
        let orders = match step {
            Change::RemoveUplink { wire } => {
                let laid = self.wires.get_mut(wire);
                let worker = laid.and_then(|laid| {
                    laid.uplink_error = None;
                    laid.uplink.take()
                });
                let wire = wire.clone();
                let order = worker.map(|w| Order::new(w, Action::RemoveUplink { wire }));
                order.into_iter().collect()
            }
            Change::RemoveInterface { machine, interface } => vec![Order::new(
                self.place(machine)?,
                Action::Detach {
                    machine: machine.clone(),
                    interface: interface.clone(),
                },
            )],
            Change::RemoveMachine { machine, .. } => {
                let worker = self.place(machine)?;
                self.forget_programs(machine);
                self.leave(machine);
                let machine = machine.clone();
                vec![Order::new(worker, Action::RemoveMachine { machine })]
            }
            Change::RemoveWire { wire, .. } => {
                let laid = self.wires.remove(wire).unwrap_or_default();
                let order = |worker: &usize| {
                    let wire = wire.clone();
                    Order::new(*worker, Action::RemoveWire { wire })
                };
                laid.workers.iter().map(order).collect()
            }
            // Workers hear of it with its first end.
            Change::AddWire { wire, .. } => {
                self.wires.insert(wire.clone(), Laid::default());
                Vec::new()
            }
            Change::RemoveBreakpoint { breakpoint } => {
                let order = |worker| {
                    let breakpoint = breakpoint.clone();
                    Order::new(worker, Action::RemoveBreakpoint { breakpoint })
                };
                self.alive().into_iter().map(order).collect()
            }
            Change::AddBreakpoint { breakpoint, spec } => {
                let order = |worker| Order {
                    undo: Some(Action::RemoveBreakpoint {
                        breakpoint: breakpoint.clone(),
                    }),
                    ..Order::new(worker, self.breakpoint(breakpoint, spec))
                };
                self.alive().into_iter().map(order).collect()
            }
            Change::RemoveSeries { series } => {
                let order = |worker| {
                    let series = series.clone();
                    Order::new(worker, Action::RemoveSeries { series })
                };
                self.alive().into_iter().map(order).collect()
            }
            Change::AddSeries { series, spec } => {
                let action = Action::AddSeries {
                    series: series.clone(),
                    what: spec.clone(),
                    folder: lab.folder.display().to_string(),
                };
                vec![Order {
                    descriptors: vec![series_file(&lab.folder, spec, series)?],
                    undo: Some(Action::RemoveSeries {
                        series: series.clone(),
                    }),
                    ..Order::new(self.series_place(spec), action)
                }]
            }
            Change::SetWire { wire, old, new } => self.set_wire(wire, old, new),
            Change::Plug { wire, up } => {
                let laid = self.wires.get(wire).cloned().unwrap_or_default();
                let order = |worker: &usize| {
                    let wire = wire.clone();
                    Order::new(*worker, Action::Plug { wire, up: *up })
                };
                laid.workers.iter().map(order).collect()
            }
            Change::Forward { machine, forward } => {
                let worker = self.place(machine)?;
                let value = u8::from(*forward).to_string();
                let order = |name: &str| {
                    let action = Action::Sysctl {
                        machine: machine.clone(),
                        name: name.to_owned(),
                        value: value.clone(),
                    };
                    Order::new(worker, action)
                };
                vec![
                    order("net.ipv4.ip_forward"),
                    order("net.ipv6.conf.all.forwarding"),
                ]
            }
            Change::Sysctl {
                machine, name, new, ..
            } => {
                let worker = self.place(machine)?;
                let set = new.as_ref().map(|value| {
                    let action = Action::Sysctl {
                        machine: machine.clone(),
                        name: name.clone(),
                        value: value.to_string(),
                    };
                    Order::new(worker, action)
                });
                // The kernel does not tell what it would have been: it stays until the machine is made again.
                set.into_iter().collect()
            }
            Change::File {
                machine, path, new, ..
            } => {
                let worker = self.place(machine)?;
                let mut spec = self.spec.machines.get(machine).cloned().unwrap_or_default();
                match new {
                    Some(file) => spec.files.insert(path.clone(), file.clone()),
                    None => spec.files.shift_remove(path),
                };
                let files = lab.files(machine, &spec)?;
                let machine = machine.clone();
                vec![Order::new(worker, Action::Files { machine, files })]
            }
            Change::AddInterface {
                machine,
                interface,
                spec,
            } => {
                let worker = self.place(machine)?;
                let mut orders = match &spec.wire {
                    Some(wire) => self.lay(wire, worker)?,
                    None => Vec::new(),
                };
                orders.push(Order {
                    undo: Some(Action::Detach {
                        machine: machine.clone(),
                        interface: interface.clone(),
                    }),
                    ..Order::new(worker, self.attach(&lab.name, machine, interface, spec)?)
                });
                if let Some(wire) = &spec.wire {
                    orders.extend(self.set_end(wire, worker, &format!("{machine}:{interface}")));
                }
                orders
            }
            Change::Addresses {
                machine,
                interface,
                old,
                new,
            } => {
                let worker = self.place(machine)?;
                let order = |address: &IpNet, remove| Order {
                    // A program may have taken it away.
                    lenient: remove,
                    ..Order::new(
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
                gone.map(|address| order(address, true))
                    .chain(come.map(|address| order(address, false)))
                    .collect()
            }
            Change::Routes { machine, old, new } => {
                let worker = self.place(machine)?;
                let mut orders = Vec::new();
                // Those in both as well: the ones that an interface took along are not known.
                for (routes, remove) in [(old, true), (new, false)] {
                    for each in routes {
                        orders.push(Order {
                            lenient: remove,
                            ..Order::new(worker, route(machine, each, remove)?)
                        });
                    }
                }
                orders
            }
            other => unreachable!("{other} is not a step for workers (noted: {note})"),
        };
        Ok(orders)
    }

    fn set_wire(&self, wire: &str, old: &WireSpec, new: &WireSpec) -> Vec<Order> {
        let laid = self.wires.get(wire).cloned().unwrap_or_default();
        let mut orders = Vec::new();
        if old.settings != new.settings {
            for &worker in &laid.workers {
                orders.push(Order::new(
                    worker,
                    Action::Set {
                        wire: wire.to_owned(),
                        end: None,
                        settings: new.settings.clone(),
                    },
                ));
                if laid.joined {
                    orders.push(ideal_outside(wire, worker));
                }
            }
        }
        let mut ends: HashMap<&String, &Settings> = new.from.iter().collect();
        let none = Settings::default();
        for end in old.from.keys() {
            ends.entry(end).or_insert(&none);
        }
        for (end, own) in ends {
            if let Some(worker) = self.worker_of(wire, end) {
                orders.push(Order::new(
                    worker,
                    Action::Set {
                        wire: wire.to_owned(),
                        end: Some(end.clone()),
                        settings: new.settings.with(own),
                    },
                ));
            }
        }
        orders
    }
}

impl Lab {
    /// The worker of a machine.
    pub(crate) fn place(&self, machine: &str) -> Result<usize, Fault> {
        self.state().place(machine)
    }
}

fn ideal_outside(wire: &str, worker: usize) -> Order {
    Order::new(
        worker,
        Action::Set {
            wire: wire.to_owned(),
            end: Some("outside".to_owned()),
            settings: Settings::default(),
        },
    )
}

fn route(machine: &str, route: &Route, remove: bool) -> Result<Action, Fault> {
    let to = match (route.to.as_str(), route.via) {
        ("default", Some(IpAddr::V6(_))) => IpNet::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        ("default", _) => IpNet::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        (to, _) => match to.parse::<IpAddr>() {
            Ok(host) => Ok(host.into()),
            Err(_) => match to.parse() {
                Ok(net) => Ok(net),
                Err(_) => {
                    return Err(Fault::invalid(format!(
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

/// The same address for the same names each time: FNV-1a, and the bit that says that nobody assigned it.
fn made_up(lab: &str, machine: &str, interface: &str) -> [u8; 6] {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in format!("{lab}/{machine}/{interface}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let [_, _, a, b, c, d, e, f] = hash.to_be_bytes();
    [a & 0xfc | 0x02, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses() {
        let made = made_up("lab", "m1", "eth0");
        assert_eq!(made[0] & 3, 2);
        assert_eq!(made, made_up("lab", "m1", "eth0"));
        assert_ne!(made, made_up("lab", "m1", "eth1"));
    }

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
