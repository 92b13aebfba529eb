//! What a lab file names that only those know that run it: apps, the switch box's words, filters, pods, the kernel's fields
//! and counters. It is found before anything starts, and told with its place like any other mistake.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use vink_apps::Apps;
use vink_pcb::Layout;
use vink_pod::LoadError;
use vink_shell::{parse, Break, Command, End, Show};
use vink_spec::{nearest, Core, Lab, LabDiagnostic, Source, Time, Wall};

use vink_sys::process::{affinity, cpu_list};

use crate::compile_filter;

/// So many characters of a filter are shown.
const SHOWN: usize = 100;

/// What nstat(8) puts before the names of the files' counters.
const GROUPS: [&str; 8] = [
    "TcpExt", "IpExt", "MPTcpExt", "UdpLite", "Icmp", "Udp", "Tcp", "Ip",
];

/// What is wrong with a lab whose file is in this folder.
pub(crate) fn look(lab: &Lab, folder: &Path) -> Vec<LabDiagnostic> {
    let mut look = Look {
        lab,
        folder,
        made: HashSet::new(),
        images: HashMap::new(),
        at: Vec::new(),
        found: Vec::new(),
    };
    look.cores();
    look.apps();
    look.filters();
    look.pods();
    look.lines();
    look.series();
    look.found
}

struct Look<'a> {
    lab: &'a Lab,
    folder: &'a Path,
    /// Machines, wires and `machine:interface` that lines of events make.
    made: HashSet<String>,
    /// What is known of images, by their names in the lab.
    images: HashMap<Option<&'a str>, Image>,
    at: Vec<String>,
    found: Vec<LabDiagnostic>,
}

/// What is known of a kernel that doesn't run; nothing, if its file or its debug information is not there.
#[derive(Default)]
struct Image {
    layout: Option<Layout>,
    bytes: Vec<u8>,
}

impl<'a> Look<'a> {
    fn add(&mut self, message: impl Into<String>, fix: impl Into<String>) {
        let path: Vec<&str> = self.at.iter().map(String::as_str).collect();
        self.found.push(LabDiagnostic::new(&path, message, fix));
    }

    fn within(&mut self, path: &[&str]) {
        self.at = path.iter().map(|&step| step.to_owned()).collect();
    }

    /// Processors that this process, and so the lab's control process, may not use.
    fn cores(&mut self) {
        let Some(own) = affinity(0) else { return };
        for (machine, spec) in &self.lab.machines {
            let cpus = spec.core.as_ref().map(Core::cpus).unwrap_or_default();
            if let Some(missing) = cpus.into_iter().find(|cpu| !own.is_set(*cpu as usize)) {
                self.within(&["machines", machine, "core"]);
                let there = cpu_list(&own);
                self.add(
                    format!("there is no core {missing} here, or it may not be used"),
                    format!("write one of {there}: taskset -cp $$ shows them"),
                );
            }
        }
    }

    fn apps(&mut self) {
        for (machine, spec) in &self.lab.machines {
            for (program, spec) in &spec.programs {
                if let Some(app) = &spec.app {
                    self.within(&["machines", machine, "programs", program, "app"]);
                    let words: Vec<String> = app.split_whitespace().map(str::to_owned).collect();
                    self.app(&words);
                }
            }
        }
    }

    fn app(&mut self, words: &[String]) {
        match Apps::check(words) {
            Ok(()) => {}
            Err(vink_apps::Error::NoSuchName { name, known }) => {
                let fix = match nearest(&name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}, and so:FILE", known.join(", ")),
                };
                self.add(format!("there is no app `{name}`"), fix);
            }
            Err(error) => {
                let error = error.to_string();
                let (message, usage) = error.split_once("; usage: ").unwrap_or((&error, ""));
                self.add(message, format!("write {usage}"));
            }
        }
    }

    fn filters(&mut self) {
        for (name, breakpoint) in &self.lab.breakpoints {
            // One that says nothing has been told of.
            if let Some(filter) = breakpoint.filter.as_ref().filter(|f| !f.trim().is_empty()) {
                self.within(&["breakpoints", name, "filter"]);
                self.filter(filter);
            }
        }
        for (name, path) in &self.lab.paths {
            if let Some(filter) = path.filter.as_ref().filter(|f| !f.trim().is_empty()) {
                self.within(&["paths", name, "filter"]);
                self.filter(filter);
            }
        }
    }

    /// Loads each pod, behind its wall, to see whether it can be.
    fn pods(&mut self) {
        for (name, pod) in &self.lab.pods {
            // What is wrong with the words has been told of.
            let Ok(file) = pod.path(self.folder) else {
                continue;
            };
            if pod.mistake().is_some() || pod.wall == Some(Wall::None) {
                continue;
            }
            let Err(error) = vink_lab::worker::load_pod(pod, &file, 0, self.lab.time != Time::Real)
            else {
                continue;
            };
            self.within(&["pods", name, "file"]);
            let text = error.to_string();
            match error {
                LoadError::Version { .. } | LoadError::File { .. } => {
                    let (message, fix) = text.rsplit_once(": ").unwrap_or((&text, ""));
                    self.add(message, fix);
                }
                LoadError::Init { .. } => {
                    self.add(text, "mend the pod, or its `config`, `memory` or `time`");
                }
                LoadError::Host { .. } => {
                    self.add(text, "vink doctor says what this host has");
                }
            }
        }
    }

    fn filter(&mut self, filter: &str) {
        if let Err(why) = compile_filter::check(filter) {
            let mut shown: String = filter.chars().take(SHOWN).collect();
            if shown.len() < filter.len() {
                shown += "...";
            }
            let fix = "write it as in pcap-filter(7), such as tcp port 80";
            self.add(format!("`{shown}` is no filter: {why}"), fix);
        }
    }

    /// Lines of the switch box.
    fn lines(&mut self) {
        let lab = self.lab;
        let events = lab.events.iter().enumerate();
        let events = events.map(|(at, event)| {
            let path = ["events".to_owned(), at.to_string(), "do".to_owned()];
            (path, &event.line)
        });
        let breakpoints = lab.breakpoints.iter().filter_map(|(name, breakpoint)| {
            let path = ["breakpoints", name, "run"].map(str::to_owned);
            Some((path, breakpoint.run.as_ref()?))
        });
        let mut commands = Vec::new();
        for (path, line) in events.chain(breakpoints) {
            match parse(line, None) {
                Ok(command) => commands.extend(command.map(|command| (path, command))),
                Err(mistake) => {
                    self.at = path.to_vec();
                    let mistake = mistake.to_string();
                    let (message, fix) = match mistake.split_once("; usage: ") {
                        Some((message, usage)) => (message, format!("write {usage}")),
                        None => match mistake.split_once(": ") {
                            Some((message, fix)) => (message, fix.to_owned()),
                            None => (mistake.as_str(), String::new()),
                        },
                    };
                    self.add(message, fix);
                }
            }
        }
        for (_, command) in &commands {
            match command {
                // What they make is not known here.
                Command::Load(_) | Command::Source(_) => return,
                Command::NewMachine { machine: name, .. } | Command::NewWire { wire: name, .. } => {
                    self.made.insert(name.clone());
                }
                Command::AddInterface(end) => {
                    self.made
                        .insert(format!("{}:{}", end.machine, end.interface));
                }
                _ => {}
            }
        }
        for (path, command) in &commands {
            self.at = path.to_vec();
            self.command(command);
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::DeleteMachine(machine)
            | Command::Connect(machine)
            | Command::AddInterface(End { machine, .. })
            | Command::Show(Show::Programs(Some(machine)) | Show::Machine(machine))
            | Command::Ifconfig { machine, .. }
            | Command::Run { machine, .. }
            | Command::Break(Break::Continue(Some(machine))) => self.machine(machine),
            Command::App { machine, words, .. } => {
                self.machine(machine);
                self.app(words);
            }
            Command::DeleteWire(wire)
            | Command::WirePlug { wire, .. }
            | Command::Show(Show::Wire(wire)) => self.wire(wire),
            Command::WireSet { wire, from, .. } => {
                self.wire(wire);
                if let Some((machine, interface)) = from.as_ref().and_then(|f| f.split_once(':')) {
                    self.interface(machine, interface);
                }
            }
            Command::DeleteInterface(end) | Command::WireDown(end) => {
                self.interface(&end.machine, &end.interface);
            }
            Command::WireUp { end, wire } => {
                self.interface(&end.machine, &end.interface);
                self.wire(wire);
            }
            Command::Capture { end, filter, .. } => {
                self.interface(&end.machine, &end.interface);
                if let Some(filter) = filter {
                    self.filter(filter);
                }
            }
            Command::Break(Break::Add { spec, .. }) => {
                match spec.at.as_deref().map(|at| (at, at.split_once(':'))) {
                    Some((_, Some((machine, interface)))) => self.interface(machine, interface),
                    Some((at, None)) if !self.lab.machines.contains_key(at) => self.wire(at),
                    _ => {}
                }
                if let Some(filter) = &spec.filter {
                    self.filter(filter);
                }
            }
            _ => {}
        }
    }

    fn machine(&mut self, machine: &str) {
        let machines = &self.lab.machines;
        if !machines.contains_key(machine) && !self.made.contains(machine) {
            self.missing("machine", machine, machines.keys().map(String::as_str));
        }
    }

    fn wire(&mut self, wire: &str) {
        let ends = self.lab.ends();
        if !ends.contains_key(wire) && !self.made.contains(wire) {
            self.missing("wire", wire, ends.keys().copied());
        }
    }

    fn interface(&mut self, machine: &str, interface: &str) {
        let Some(spec) = self.lab.machines.get(machine) else {
            return self.machine(machine);
        };
        let place = format!("{machine}:{interface}");
        if !spec.interfaces.contains_key(interface) && !self.made.contains(&place) {
            let known: Vec<String> = spec
                .interfaces
                .keys()
                .map(|i| format!("{machine}:{i}"))
                .collect();
            self.missing("interface", &place, known.iter().map(String::as_str));
        }
    }

    fn missing<'n>(
        &mut self,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) {
        let fix = match nearest(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let some: Vec<&str> = known.take(8).collect();
                match some.is_empty() {
                    true => format!("the lab has no {what}"),
                    false => format!("there are {}", some.join(", ")),
                }
            }
        };
        self.add(format!("there is no {what} `{name}`"), fix);
    }

    fn series(&mut self) {
        for (name, series) in &self.lab.series {
            for (column, quantity) in &series.values {
                self.within(&["series", name, "values", column]);
                match &quantity.source {
                    Source::Tcp { machine, field, .. } if field != "state" => {
                        let Some(layout) = &self.image(machine).layout else {
                            continue;
                        };
                        if layout.tcp.field(field).is_none() {
                            let fields = layout.tcp.fields.iter().map(|field| field.name.as_str());
                            let fix = match nearest(field, fields) {
                                Some(near) => format!("did you mean `{near}`?"),
                                None => "`vink pcb --json` shows them".to_owned(),
                            };
                            self.add(format!("a connection has no field `{field}`"), fix);
                        }
                    }
                    Source::Counter { machine, name } if !self.image(machine).counts(name) => {
                        let fix =
                            "write a name that `nstat -az` shows there, such as TcpRetransSegs";
                        self.add(format!("the kernel has no counter `{name}`"), fix);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The image of a machine.
    fn image(&mut self, machine: &str) -> &Image {
        let lab = self.lab;
        let name = lab
            .machines
            .get(machine)
            .and_then(|spec| spec.image.as_deref());
        let folder = self.folder;
        self.images.entry(name).or_insert_with(|| {
            let file = match name {
                None => vink_kernel::find_image().ok(),
                Some(name) => lab.images.get(name).and_then(|path| {
                    let file = folder.join(path);
                    match file.is_file() || path.contains('/') {
                        true => Some(file),
                        false => vink_kernel::image_named(Path::new(path)).ok(),
                    }
                }),
            };
            let file = file.unwrap_or_default();
            Image {
                layout: Layout::of_file(&file).ok(),
                bytes: std::fs::read(&file).unwrap_or_default(),
            }
        })
    }
}

impl Image {
    /// Whether it has a counter of this name: the kernel's tables have them as texts, with or without their group.
    fn counts(&self, name: &str) -> bool {
        // These are named by the messages' numbers.
        let by_number = name.starts_with("IcmpMsg") || name.starts_with("Icmp6");
        if self.bytes.is_empty() || by_number {
            return true;
        }
        let groups = GROUPS.iter().filter_map(|group| name.strip_prefix(group));
        let mut texts = groups.chain([name]).filter(|text| !text.is_empty());
        texts.any(|text| {
            let text = [b"\0", text.as_bytes(), b"\0"].concat();
            let first = text[1];
            let found = |at: usize| self.bytes[at - 1..].starts_with(&text);
            let starts = self.bytes.iter().enumerate().skip(1);
            starts
                .filter(|(_, byte)| **byte == first)
                .any(|(at, _)| found(at))
        })
    }
}
