//! Makes a lab in this process, as a lab worker would: its kernel, machines, wires, programs.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vink_apps::{AppId, Apps, State};
use vink_kernel::{Attachment, Clock, Config, EndId, Image, Kernel, MachineId, WireKind};
use vink_lab::worker::{seed, sysctl_path, wire_settings};
use vink_lab::{field, report_of, Machine, NetworkConfig, Numbered, Snapshot, StaticRoute};
use vink_pcb::{Connection, Field, Layout, Process};
use vink_spec::{
    app_words, derived_mac, mac_bytes, memory_bytes, named_by, order, Lab, Quantity, Ready, Source,
    Term, Time, Virtual,
};

use crate::stack::Stack;
use crate::trapped::{self, Recipe, Trapped};
use crate::{End, Ended, Error, Program, World};

/// The kernel's memory if the lab says nothing. Little: what is not there need not be copied.
const MEMORY: u64 = 64 << 20;
/// When the first programs are started, ns: 0 on the clock of a lab that a control process makes.
pub const BEGIN: u64 = 1_000_000_000;
/// The seed of a lab that has none.
pub const SEED: u64 = 1;

/// Lines of the kernel's log that are complaints begin so, or have this in them.
const COMPLAINTS: [&str; 6] = [
    "WARNING:",
    "BUG:",
    "Oops",
    "soft lockup",
    "refcount_t:",
    "KASAN:",
];

/// Where a lab's trapped programs are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// The lab file's folder.
    pub folder: PathBuf,
    /// The variables that they all have.
    pub env: Vec<(String, String)>,
    /// A folder in which those without full rights find nothing.
    #[serde(skip)]
    pub hidden: Option<PathBuf>,
}

impl Surroundings {
    /// The lab file's folder, and this process's environment as far as programs have it.
    pub fn of(folder: PathBuf, hidden: PathBuf) -> Surroundings {
        Surroundings {
            folder,
            env: trapped::environment(),
            hidden: Some(hidden),
        }
    }
}

/// A lab that has not begun.
pub(crate) struct Booted {
    pub stack: Stack,
    pub apps: Apps,
    pub trapped: Trapped,
    /// The lab, and where its trapped programs are.
    pub spec: Lab,
    pub around: Surroundings,
    machines: Vec<Machine>,
    /// The kernel's names of [`World::ends`].
    pub ids: Vec<EndId>,
    /// How much of an app's output is known.
    outputs: HashMap<AppId, u64>,
    /// The numbers that its properties compare.
    watched: Vec<Watched>,
    /// Programs that have not been started, in the order in which they may be.
    pub starts: Vec<Start>,
    /// Where the kernel's complaints are put.
    pub complaints: Arc<Mutex<Vec<String>>>,
}

/// A number that a property of the lab file's compares.
struct Watched {
    quantity: Quantity,
    /// Its line in the lab file.
    line: usize,
    /// That of a connection.
    field: Option<Field>,
}

/// A program to be started.
pub(crate) struct Start {
    /// Its place in [`World::programs`].
    pub program: usize,
    machine: MachineId,
    /// How it is started; none: it is an app.
    pub recipe: Option<Recipe>,
    /// The programs that must be ready first.
    pub after: Vec<usize>,
    /// What it is ready by itself.
    pub ready: Option<Ready>,
    /// Since when it runs, ns.
    pub started: Option<u64>,
    pub app: Option<AppId>,
}

impl Booted {
    /// Boots the image and makes the lab, which has no [`refusals`](crate::refusals).
    ///
    /// # Errors
    /// As of the kernel, and of what can't be set.
    pub fn new(lab: &Lab, image: &Path, around: &Surroundings) -> Result<(Booted, World), Error> {
        let lab = &lab.normal();
        let complaints = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&complaints);
        let memory = lab.memory.as_deref().and_then(memory_bytes);
        let config = Config {
            arena_bytes: memory.unwrap_or(MEMORY),
            cmdline: String::new(),
            seed: Some(seed(lab.seed.unwrap_or(SEED))),
            console: Some(Box::new(move |text| {
                let lines = text.lines();
                let bad = lines.filter(|line| COMPLAINTS.iter().any(|word| line.contains(word)));
                let mut heard = heard.lock().expect("no panic while it is held");
                heard.extend(bad.map(str::to_owned));
            })),
            clock: Clock::Virtual,
            date: None,
        };
        let mut kernel = Kernel::boot(Image::open(image)?, config)?;
        let mut machines = HashMap::new();
        for (name, spec) in &lab.machines {
            let machine = Machine::new(&mut kernel, name)?;
            if spec.forward {
                machine.forward(&mut kernel)?;
            }
            for (sysctl, value) in &spec.sysctls {
                let path = sysctl_path(sysctl).ok_or_else(|| {
                    Error::Lab(format!("machine {name}: {sysctl:?} is no sysctl"))
                })?;
                let network = machine.network;
                network.sysctl(&mut kernel, &path, &value.to_string())?;
            }
            machines.insert(name.as_str(), machine);
        }
        let (ends, ids) = wires(lab, &mut kernel, &machines)?;
        routes(lab, &mut kernel, &machines)?;
        // A time of 0 is none to the kernel: tcp_clean_rtx_queue() warns of it.
        // From timer to timer: one jump would make them late, by which a wire with a rate goes.
        let begin = kernel.now() + BEGIN;
        while kernel.now() < begin {
            let next = kernel.settle()?.unwrap_or(begin);
            kernel.wait(next.min(begin));
        }
        kernel.settle()?;
        let apps = Apps::new();
        apps.names().replace(addresses(lab));
        let (mut memory, unreadable) = match Process::open(std::process::id()) {
            Ok(memory) => (Some(memory), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let nets = memory.as_ref().map(Process::machines).transpose()?;
        let nets = nets.unwrap_or_default();
        if let Some(memory) = &mut memory {
            let all: Vec<u64> = nets.iter().map(|machine| machine.net).collect();
            // SAFETY: the kernel is in this process, and its forks. It is asked when all machines wait, or within a
            // question of the kernel's own, and not when the kernel is gone.
            unsafe { memory.read_directly(&all)? };
        }
        let nets = nets.into_iter().map(|machine| (machine.net, machine.name));
        let nets = nets.filter(|(_, name)| machines.contains_key(name.as_str()));
        let mut world = World {
            addresses: addresses(lab)
                .into_iter()
                .flat_map(|(machine, all)| all.into_iter().map(move |one| (one, machine.clone())))
                .collect(),
            nets: nets.collect(),
            memory,
            unreadable,
            ..World::new(kernel.now(), ends)
        };
        let starts = starts(lab, &machines, &mut world, around)?;
        for start in starts.iter().filter(|start| start.recipe.is_none()) {
            let program = &world.programs[start.program];
            let loaded = Apps::keep_loaded(&app_words(&program.words, &around.folder));
            loaded.map_err(|error| cannot_start(program, &error.into()))?;
        }
        let machines = machines.into_values().collect();
        let booted = Booted {
            stack: Stack::Kernel(Box::new(kernel)),
            apps,
            trapped: Trapped::default(),
            spec: lab.clone(),
            around: around.clone(),
            machines,
            ids,
            outputs: HashMap::new(),
            watched: watched(lab, &world)?,
            starts,
            complaints,
        };
        Ok((booted, world))
    }

    /// Whether programs of the host take part, of which no fork has a copy.
    pub fn has_trapped(&self) -> bool {
        self.starts.iter().any(|start| start.recipe.is_some())
    }

    /// Lets a worker serve trapped programs, if the lab has some: from here on no fork is a copy of it.
    pub fn serve_programs(&mut self) -> Result<(), Error> {
        if !self.has_trapped() {
            return Ok(());
        }
        let time = match self.spec.time {
            Time::Virtual(time) => time,
            _ => Virtual::default(),
        };
        let worker = self
            .stack
            .serve_programs(self.spec.seed.unwrap_or(SEED), time)?;
        for machine in &self.machines {
            let config = trapped::surroundings(&self.spec, machine, &self.around)?;
            worker.configure_namespaces(machine.id, &config)?;
        }
        Ok(())
    }

    /// Starts what may be started; whether there was something.
    pub fn start(&mut self, world: &mut World) -> Result<bool, Error> {
        let mut any = false;
        for at in 0..self.starts.len() {
            let start = &self.starts[at];
            if start.started.is_some() {
                continue;
            }
            let mut is_ready = true;
            for other in start.after.clone() {
                is_ready = is_ready && self.is_ready(world, other)?;
            }
            if !is_ready {
                continue;
            }
            let start = &mut self.starts[at];
            let place = start.program;
            let failed = |error| cannot_start(&world.programs[place], &error);
            if let Some(recipe) = &start.recipe {
                let worker = self.stack.worker().expect("a lab with programs");
                let started = self.trapped.start(worker, start.machine, place, recipe);
                started.map_err(failed)?;
            } else {
                let words = app_words(&world.programs[place].words, &self.around.folder);
                let app = self.apps.start(self.stack.kernel(), start.machine, &words);
                let app = app.map_err(|error| failed(error.into()))?;
                world.apps.insert(app, place);
                start.app = Some(app);
            }
            start.started = Some(self.stack.now());
            any = true;
        }
        Ok(any)
    }

    /// When a program is ready by the time alone, ns.
    pub fn next_start(&self) -> Option<u64> {
        let now = self.stack.now();
        let times = self.starts.iter().filter_map(|start| {
            let Some(Ready::Time(span)) = start.ready else {
                return None;
            };
            Some(start.started? + span.0)
        });
        times.filter(|time| *time > now).min()
    }

    fn is_ready(&mut self, world: &World, program: usize) -> Result<bool, Error> {
        let Some(start) = self.starts.iter().find(|start| start.program == program) else {
            return Ok(false);
        };
        let Some(started) = start.started else {
            return Ok(false);
        };
        let its = &world.programs[program];
        match &its.ended {
            Some(ended) => return Ok(ended.status == 0),
            None if start.ready.is_none() => return Ok(true),
            None => {}
        }
        Ok(match start.ready.as_ref() {
            None => true,
            Some(Ready::Success) => false,
            Some(Ready::Time(span)) => started + span.0 <= self.stack.now(),
            Some(Ready::Output(text)) => its.output.contains(text.as_str()),
            Some(Ready::Port(port)) if start.app.is_none() => {
                let is_its = |machine: &&Machine| machine.id == start.machine;
                match self.machines.iter().find(is_its) {
                    Some(machine) => machine.listens(self.stack.kernel(), *port)?,
                    None => false,
                }
            }
            Some(Ready::Port(_) | Ready::Command(_)) => start.app.is_some_and(|app| {
                let status = self.apps.status(app);
                status.is_ok_and(|status| status.ready)
            }),
        })
    }

    /// Notes what programs have written, and which have ended.
    pub fn look_after_programs(&mut self, world: &mut World) -> Result<(), Error> {
        if let Stack::Kernel(kernel) = &mut self.stack {
            while kernel.next_event().is_some() {}
        }
        while let Some(app) = self.apps.next_written() {
            let Some(program) = world.apps.get(&app).copied() else {
                continue;
            };
            let from = self.outputs.entry(app).or_default();
            let output = self.apps.output(app, *from)?;
            *from = output.next;
            world.hear(program, &output.text);
        }
        while let Some(app) = self.apps.next_ended() {
            let status = self.apps.take(app)?;
            let Some(program) = world.apps.remove(&app) else {
                continue;
            };
            if let State::Ended { status, error } = status.state {
                world.programs[program].ended = Some(Ended {
                    time: self.stack.now(),
                    status,
                    error,
                });
            }
        }
        for (program, text) in self.trapped.written() {
            world.hear(program, &text);
        }
        if let Some(worker) = self.stack.worker() {
            for (program, ended) in self.trapped.ended(worker)? {
                world.programs[program].ended = Some(ended);
            }
        }
        Ok(())
    }

    /// Looks at the numbers that the lab file's properties compare.
    pub fn look_at_numbers(&mut self, world: &mut World) -> Result<(), Error> {
        world.numbers.clear();
        let mut snapshot = Snapshot::default();
        for watched in &self.watched {
            let mut eyes = Eyes {
                kernel: self.stack.kernel(),
                machines: &self.machines,
                ids: &self.ids,
                apps: &self.apps,
                world,
            };
            let Quantity { source, .. } = &watched.quantity;
            let number = snapshot.look(&mut eyes, source, watched.field.as_ref(), Path::new(""));
            let number =
                number.map_err(|why| cannot_look(watched.line, &watched.quantity, &why))?;
            if let Some(number) = number {
                world.numbers.insert(watched.quantity.to_string(), number);
            }
        }
        Ok(())
    }

    /// What all properties of the lab file say.
    pub fn spec(&self) -> &Lab {
        &self.spec
    }
}

/// What numbers are read of.
struct Eyes<'a> {
    kernel: &'a mut Kernel,
    machines: &'a [Machine],
    ids: &'a [EndId],
    apps: &'a Apps,
    world: &'a World,
}

impl Numbered for Eyes<'_> {
    fn kernel(&mut self) -> &mut Kernel {
        self.kernel
    }

    fn network(&self, machine: &str) -> Option<NetworkConfig> {
        let mut all = self.machines.iter();
        all.find_map(|its| (its.name == machine).then_some(its.network))
    }

    fn end(&self, place: &str) -> Option<EndId> {
        let mut all = self.world.ends.iter().zip(self.ids);
        all.find_map(|(end, id)| (end.name() == place).then_some(*id))
    }

    fn report(&self, machine: &str, app: &str) -> Option<serde_json::Value> {
        let id = self.machines.iter().find(|its| its.name == machine)?.id;
        report_of(self.apps, id, app)
    }

    fn connections(&mut self, machine: &str) -> Vec<Connection> {
        let all = self.world.connections().into_iter();
        let its = all.filter(|(name, _)| *name == machine);
        its.map(|(_, connection)| connection).collect()
    }

    fn layout(&self) -> Option<&Layout> {
        self.world.memory.as_ref().map(Process::layout)
    }
}

/// The numbers that a lab's properties compare.
fn watched(lab: &Lab, world: &World) -> Result<Vec<Watched>, Error> {
    let mut all: Vec<Watched> = Vec::new();
    for claim in lab.always.values().chain(lab.eventually.values()) {
        for term in claim.terms() {
            let Term::Quantity(quantity) = term else {
                continue;
            };
            let why = |why: String| cannot_look(claim.line, quantity, &why);
            let field = match (&quantity.source, &world.memory) {
                (Source::Tcp { .. }, None) => {
                    let unreadable = world.unreadable.as_deref().unwrap_or_default();
                    return Err(why(format!(
                        "it is read by the image's debug information, which can't be: {unreadable}"
                    )));
                }
                (source, Some(memory)) => field(source, memory.layout()).map_err(why)?,
                (_, None) => None,
            };
            if !all.iter().any(|its| its.quantity == *quantity) {
                all.push(Watched {
                    quantity: quantity.clone(),
                    line: claim.line,
                    field,
                });
            }
        }
    }
    Ok(all)
}

fn cannot_look(line: usize, quantity: &Quantity, why: &str) -> Error {
    Error::Lab(format!("line {line} of the lab file: {quantity}: {why}"))
}

fn cannot_start(program: &Program, why: &Error) -> Error {
    let Program { machine, name, .. } = program;
    Error::Lab(format!("program {name} of {machine}: {why}"))
}

/// Makes the wires, and the interfaces at them, with the kernel's names for these.
fn wires(
    lab: &Lab,
    kernel: &mut Kernel,
    machines: &HashMap<&str, Machine>,
) -> Result<(Vec<End>, Vec<EndId>), Error> {
    let mut ends = Vec::new();
    let mut ids = Vec::new();
    for (name, of_wire) in lab.ends() {
        let spec = lab.wires.get(name).cloned().unwrap_or_default();
        let wire = kernel.wire(match spec.is_bus(of_wire.len()) {
            true => WireKind::Bus,
            false => WireKind::PointToPoint,
        })?;
        let (all, from) = spec.effect();
        kernel.set_wire(wire, None, &wire_settings(&all))?;
        let mut by_name: HashMap<String, EndId> = HashMap::new();
        for (machine, interface) in of_wire {
            let its = &lab.machines[machine].interfaces[interface];
            let mac = its.mac.as_deref().and_then(mac_bytes);
            let attachment = Attachment {
                interface,
                address: Some(mac.unwrap_or_else(|| derived_mac(&lab.name, machine, interface))),
                mtu: Some(spec.settings.mtu.unwrap_or(1500)),
            };
            let end = kernel.attach(wire, machines[machine].id, attachment)?;
            by_name.insert(format!("{machine}:{interface}"), end);
            let network = machines[machine].network;
            for address in &its.addresses {
                network.address(kernel, interface, address.addr(), address.prefix_len())?;
            }
            network.up(kernel, interface)?;
            ids.push(end);
            ends.push(End {
                machine: machine.to_owned(),
                interface: interface.to_owned(),
                wire: name.to_owned(),
            });
        }
        for (end, settings) in &from {
            if let Some(end) = by_name.get(end) {
                kernel.set_wire(wire, Some(*end), &wire_settings(settings))?;
            }
        }
        if spec.up == Some(false) {
            kernel.wire_up(wire, false)?;
        }
    }
    for end in &ends {
        machines[end.machine.as_str()]
            .network
            .carrier(kernel, &end.interface)?;
    }
    for (machine, spec) in &lab.machines {
        for address in spec
            .interfaces
            .get("lo")
            .iter()
            .flat_map(|lo| &lo.addresses)
        {
            let network = machines[machine.as_str()].network;
            network.address(kernel, "lo", address.addr(), address.prefix_len())?;
        }
    }
    Ok((ends, ids))
}

fn routes(lab: &Lab, kernel: &mut Kernel, machines: &HashMap<&str, Machine>) -> Result<(), Error> {
    for (name, spec) in &lab.machines {
        for route in &spec.routes {
            let to = match route.to.as_str() {
                "default" if route.via.is_some_and(|via| via.is_ipv6()) => {
                    IpNet::new(Ipv6Addr::UNSPECIFIED.into(), 0).ok()
                }
                "default" => IpNet::new(Ipv4Addr::UNSPECIFIED.into(), 0).ok(),
                text => text
                    .parse()
                    .ok()
                    .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)),
            };
            let to = to.ok_or_else(|| {
                Error::Lab(format!("machine {name}: {:?} is no network", route.to))
            })?;
            let route = StaticRoute {
                to,
                via: route.via,
                dev: route.dev.as_deref(),
                metric: route.metric,
                mtu: None,
            };
            let network = machines[name.as_str()].network;
            network.change_route(kernel, &route, false)?;
        }
    }
    Ok(())
}

/// The names of machines, and their addresses.
pub(crate) fn addresses(lab: &Lab) -> Vec<(String, Vec<IpAddr>)> {
    let machines = lab.machines.iter();
    machines
        .map(|(name, spec)| {
            let interfaces = spec.interfaces.iter().filter(|(name, _)| *name != "lo");
            let all = interfaces.flat_map(|(_, interface)| &interface.addresses);
            (name.clone(), all.map(IpNet::addr).collect())
        })
        .collect()
}

/// All programs, in the order in which they may be started.
fn starts(
    lab: &Lab,
    machines: &HashMap<&str, Machine>,
    world: &mut World,
    around: &Surroundings,
) -> Result<Vec<Start>, Error> {
    let mut places = HashMap::new();
    let mut starts = Vec::new();
    for (machine, name) in order(lab) {
        let spec = &lab.machines[machine].programs[name];
        let recipe = Recipe::of(lab, machine, spec, &around.folder, &around.env);
        let app = spec.app.as_deref().unwrap_or_default();
        let words = match &recipe {
            Some(recipe) => recipe.words.clone(),
            None => app.split_whitespace().map(str::to_owned).collect(),
        };
        let place = world.programs.len();
        places.insert((machine, name), place);
        world.programs.push(Program {
            machine: machine.to_owned(),
            name: name.to_owned(),
            words,
            output: String::new(),
            ended: None,
        });
        let after = spec.after.iter();
        let after = after.filter_map(|after| named_by(lab, machine, after));
        let after = after.filter_map(|program| places.get(&program).copied());
        starts.push(Start {
            program: place,
            machine: machines[machine].id,
            recipe,
            after: after.collect(),
            ready: spec.ready.as_ref().map(|ready| ready.by.clone()),
            started: None,
            app: None,
        });
    }
    Ok(starts)
}
