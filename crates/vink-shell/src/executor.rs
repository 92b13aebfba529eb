//! Commands that the control process carries out: from a [`Command`] to requests, and from answers
//! to a reply.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use ipnet::IpNet;
use serde_json::json;
use vink_api::{
    ChangeInterface, ChangeWire, Clock, Happening, LabApi, NewBreakpoint, NewCapture, NewFilter,
    NewInterface, NewMachine, NewPod, NewProgram, NewWire, OutputQuery, Program, ProgramState,
    PutLab, Rollback, Size,
};
use vink_spec::{MachineSpec, PodSpec, Settings, WireSpec};

use crate::complete::Names;
use crate::ifconfig::Ifconfig;
use crate::{host, reply, Break, Command, End, Filter, Pod, Reply, ShellError, Show};

/// Of a program's output, `show program` has this many bytes from its end.
const SHOWN: u64 = 64 << 10;

/// Carries out commands in a lab.
#[derive(Clone, Debug)]
pub(crate) struct Executor<A> {
    pub(crate) api: A,
    pub(crate) lab: String,
    /// What the names of files are relative to.
    pub(crate) folder: PathBuf,
}

impl<A: LabApi> Executor<A> {
    /// Carries out a command that needs no session.
    pub(crate) async fn ask(&self, command: &Command) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self;
        match command {
            Command::NewMachine {
                machine,
                image,
                forward,
            } => {
                let machine = NewMachine {
                    name: machine.clone(),
                    spec: MachineSpec {
                        image: image.clone(),
                        forward: *forward,
                        ..MachineSpec::default()
                    },
                };
                silent(&api.add_machine(lab, &machine).await?)
            }
            Command::NewWire {
                wire,
                bus,
                settings,
            } => {
                let wire = NewWire {
                    name: wire.clone(),
                    spec: WireSpec {
                        settings: settings.clone(),
                        bus: *bus,
                        ..WireSpec::default()
                    },
                };
                silent(&api.add_wire(lab, &wire).await?)
            }
            Command::DeleteMachine(machine) => {
                api.remove_machine(lab, machine).await?;
                Ok(Reply::nothing())
            }
            Command::DeleteWire(wire) => {
                api.remove_wire(lab, wire).await?;
                Ok(Reply::nothing())
            }
            Command::DeleteInterface(End { machine, interface }) => {
                api.remove_interface(lab, machine, interface).await?;
                Ok(Reply::nothing())
            }
            Command::AddInterface(End { machine, interface }) => {
                let interface = NewInterface {
                    name: interface.clone(),
                    ..NewInterface::default()
                };
                silent(&api.add_interface(lab, machine, &interface).await?)
            }
            Command::WireUp { end, wire } => {
                let change = ChangeInterface {
                    wire: Some(wire.clone()),
                    ..ChangeInterface::default()
                };
                self.change(end, &change).await
            }
            Command::WireDown(end) => {
                let change = ChangeInterface {
                    detach: true,
                    ..ChangeInterface::default()
                };
                self.change(end, &change).await
            }
            Command::WireSet {
                wire,
                settings,
                from,
            } => {
                self.change_wire(wire, settings, from.as_deref(), None)
                    .await
            }
            Command::WirePlug { wire, up } => {
                self.change_wire(wire, &Settings::default(), None, Some(*up))
                    .await
            }
            Command::Clock => clock(&api.clock(lab).await?),
            Command::ChangeClock(change) => clock(&api.change_clock(lab, change).await?),
            Command::RunClock(run) => clock(&api.run_clock(lab, run).await?),
            Command::Show(what) => self.show(what).await,
            Command::Kill { program, signal } => self.kill(program, *signal).await,
            Command::Capture { end, file, filter } => {
                let capture = NewCapture {
                    interfaces: vec![format!("{}:{}", end.machine, end.interface)],
                    filter: filter.clone(),
                    snap: 0,
                    path: self.path(file).display().to_string(),
                };
                let capture = api.start_capture(lab, &capture).await?;
                let text = format!(
                    "capture {} goes to {file} until `capture stop {}`\n",
                    capture.id, capture.id
                );
                Ok(Reply::new(text, &capture))
            }
            Command::CaptureStop(number) => {
                Ok(reply::captured(&api.stop_capture(lab, *number).await?))
            }
            Command::Break(what) => self.breakpoint(what).await,
            Command::Pod(what) => self.pod(what).await,
            Command::Filter(what) => self.filter(what).await,
            Command::Save(file) => {
                let spec = api.spec(lab).await?;
                let path = self.path(file);
                std::fs::write(&path, spec.to_yaml()).map_err(ShellError::file(&path))?;
                Ok(Reply::new(String::new(), &spec))
            }
            Command::Load(file) => self.load(&self.path(file)).await,
            other => unreachable!("a session's own: {other:?}"),
        }
    }

    /// A file, as it was named in a line.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    async fn change(&self, end: &End, change: &ChangeInterface) -> Result<Reply, ShellError> {
        let End { machine, interface } = end;
        let changed = self
            .api
            .change_interface(&self.lab, machine, interface, change);
        silent(&changed.await?)
    }

    async fn change_wire(
        &self,
        wire: &str,
        settings: &Settings,
        from: Option<&str>,
        up: Option<bool>,
    ) -> Result<Reply, ShellError> {
        let change = ChangeWire {
            settings: settings.clone(),
            from: from.map(str::to_owned),
            replace: false,
            up,
        };
        let wire = self.api.change_wire(&self.lab, wire, &change).await?;
        match change.settings == Settings::default() {
            true => silent(&wire),
            false => Ok(Reply::new(reply::wire_line(&wire), &wire)),
        }
    }

    async fn show(&self, what: &Show) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self;
        Ok(match what {
            Show::Machines => reply::machines(&api.machines(lab).await?),
            Show::Wires => reply::wires(&api.wires(lab).await?),
            Show::Programs(machine) => {
                let mut programs = api.programs(lab).await?;
                if let Some(machine) = machine {
                    programs.retain(|program| program.machine == *machine);
                    if programs.is_empty() {
                        // That there is none is one thing, that there is no such machine another.
                        api.machine(lab, machine).await?;
                    }
                }
                reply::programs(&programs)
            }
            Show::Machine(machine) => reply::machine(&api.machine(lab, machine).await?),
            Show::Wire(wire) => reply::wire(&api.wire(lab, wire).await?),
            Show::Program(program) => {
                let found = api.program(lab, program).await?;
                let query = OutputQuery {
                    follow: false,
                    tail: Some(SHOWN),
                };
                let mut output = Vec::new();
                // A program in the foreground of a session has no log.
                if let Ok(mut log) = api.output(lab, program, &query).await {
                    while let Some(bytes) = log.next().await? {
                        output.extend(bytes);
                    }
                }
                reply::program(&found, &output)
            }
            Show::Named(name) => {
                let machine = api.machine(lab, name).await;
                let wire = api.wire(lab, name).await;
                match (machine, wire) {
                    (Ok(machine), Err(_)) => reply::machine(&machine),
                    (Err(_), Ok(wire)) => reply::wire(&wire),
                    (Ok(machine), Ok(wire)) => {
                        let [a, b] = [reply::machine(&machine), reply::wire(&wire)];
                        Reply::new(a.text + &b.text, &json!([a.value, b.value]))
                    }
                    (Err(error), Err(_)) if error.status() == Some(404) => {
                        return Err(ShellError::Other(format!(
                            "lab {lab} has no machine and no wire '{name}': `show machines` and `show wires` list them"
                        )))
                    }
                    (Err(error), Err(_)) => return Err(error.into()),
                }
            }
        })
    }

    async fn breakpoint(&self, what: &Break) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self;
        match what {
            Break::Add { name, spec } => {
                let new = NewBreakpoint {
                    name: name.clone(),
                    spec: (**spec).clone(),
                };
                let made = api.add_breakpoint(lab, &new).await?;
                Ok(Reply::new(format!("breakpoint {}\n", made.name), &made))
            }
            Break::List => Ok(reply::breakpoints(&api.breakpoints(lab).await?)),
            Break::Remove(name) => {
                api.remove_breakpoint(lab, name).await?;
                Ok(Reply::nothing())
            }
            Break::Enable {
                breakpoint,
                enabled,
            } => silent(&api.enable_breakpoint(lab, breakpoint, *enabled).await?),
            Break::Continue(machine) => {
                match machine {
                    Some(machine) => api.resume_machine(lab, machine).await?,
                    None => api.resume(lab).await?,
                }
                Ok(Reply::nothing())
            }
        }
    }

    async fn pod(&self, what: &Pod) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self;
        match what {
            Pod::List => Ok(reply::pods(&api.pods(lab).await?)),
            Pod::Load { pod, file } => {
                let spec = file.as_ref().map(|file| PodSpec {
                    file: self.path(file).display().to_string(),
                    ..PodSpec::default()
                });
                let new = NewPod {
                    name: pod.clone(),
                    spec,
                };
                silent(&api.load_pod(lab, &new).await?)
            }
            Pod::Revoke(name) => silent(&api.revoke_pod(lab, name).await?),
            Pod::Paths => Ok(reply::paths(&api.packet_paths(lab).await?)),
            Pod::RevokePath(name) => silent(&api.remove_path(lab, name).await?),
        }
    }

    async fn filter(&self, what: &Filter) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self;
        match what {
            Filter::List => Ok(reply::filters(&api.filters(lab).await?)),
            Filter::Set { place, file, check } => {
                let path = self.path(file);
                let text = vink_spec::read_text_file(&path, vink_spec::LARGEST_FILE);
                let new = NewFilter {
                    text: text.map_err(ShellError::file(&path))?,
                    file: Some(file.clone()),
                    check: *check,
                };
                silent(&api.put_filter(lab, place, &new).await?)
            }
            Filter::Show(place) => {
                let rules = api.filter(lab, place).await?;
                Ok(Reply::new(rules.listing.clone(), &rules))
            }
            Filter::Counters(place) => Ok(reply::counters(&api.filter(lab, place).await?.counters)),
            Filter::Rollback { place, version } => {
                let to = Rollback { version: *version };
                silent(&api.roll_back_filter(lab, place, &to).await?)
            }
            Filter::Remove(place) => {
                api.remove_filter(lab, place).await?;
                Ok(Reply::nothing())
            }
        }
    }

    async fn kill(&self, program: &str, signal: i32) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self;
        let found = api.program(lab, program).await?;
        let told = match (found.app, signal) {
            (true, _) | (_, libc::SIGKILL) => api.end_program(lab, program).await?,
            (false, signal) => api.signal_program(lab, program, signal).await?,
        };
        silent(&told)
    }

    /// Waits for the end of a program.
    pub(crate) async fn wait(&self, program: &str) -> Result<Program, ShellError> {
        let Executor { api, lab, .. } = self;
        // First, so that its end can't be missed.
        let mut events = api.lab_events(lab).await?;
        loop {
            let found = api.program(lab, program).await?;
            if found.state == ProgramState::Ended {
                return Ok(found);
            }
            loop {
                match events.next().await?.map(|event| event.what) {
                    Some(Happening::Ended { program, .. }) if program != found.id => {}
                    Some(
                        Happening::Ended { .. } | Happening::Missed { .. } | Happening::Dead { .. },
                    ) => break,
                    Some(_) => {}
                    None => {
                        return Err(ShellError::Other(
                            "the control process has ended".to_owned(),
                        ))
                    }
                }
            }
        }
    }

    async fn load(&self, path: &Path) -> Result<Reply, ShellError> {
        let file = vink_spec::read(path).map_err(|error| ShellError::Other(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let folder = folder.canonicalize().map_err(ShellError::file(folder))?;
        let wanted = PutLab {
            spec: file.lab,
            folder: folder.display().to_string(),
            running: true,
            ..PutLab::default()
        };
        let applied = self.api.put_lab(&self.lab, &wanted).await?;
        Ok(Reply::new(reply::changes(&applied.changes), &applied))
    }

    /// Gives an interface an address, or takes it away.
    pub(crate) async fn ifconfig(
        &self,
        machine: &str,
        what: &Ifconfig,
    ) -> Result<Reply, ShellError> {
        let end = End {
            machine: machine.to_owned(),
            interface: what.interface.clone(),
        };
        let mut change = ChangeInterface::default();
        match (what.remove, what.address) {
            (true, address) => change.remove.push(address),
            (false, address @ IpNet::V6(_)) => change.add.push(address),
            // An interface has one, in the view of ifconfig(8).
            (false, address @ IpNet::V4(_)) => {
                let found = self.api.machine(&self.lab, machine).await?;
                let here = found.interfaces.iter().find(|i| i.name == end.interface);
                let before = here.map(|i| i.addresses.clone()).unwrap_or_default();
                change.add.push(address);
                change.remove.extend(before);
                change
                    .remove
                    .retain(|a| a.addr().is_ipv4() && *a != address);
            }
        }
        self.change(&end, &change).await
    }

    /// A program that is to be started on a machine.
    pub(crate) fn program(&self, machine: &str, words: Vec<String>, app: bool) -> NewProgram {
        let env = match app {
            true => IndexMap::new(),
            false => IndexMap::from([("PATH".to_owned(), host::path())]),
        };
        NewProgram {
            machine: machine.to_owned(),
            words,
            app,
            env,
            ..NewProgram::default()
        }
    }

    /// What there is to be completed.
    pub(crate) async fn names(&self) -> Names {
        let Executor { api, lab, .. } = self;
        // Whatever of it can't be had is not offered.
        let machines = api.machines(lab).await.unwrap_or_default();
        let wires = api.wires(lab).await.unwrap_or_default();
        let programs = api.programs(lab).await.unwrap_or_default();
        Names {
            machines: machines
                .into_iter()
                .map(|machine| (machine.name, machine.interfaces.into_keys().collect()))
                .collect(),
            wires: wires.into_iter().map(|wire| wire.name).collect(),
            programs: programs
                .into_iter()
                .filter(|program| program.state != ProgramState::Ended)
                .map(|program| program.id.to_string())
                .collect(),
            folder: self.folder.clone(),
        }
    }
}

/// How the lab's clock is.
fn clock(clock: &Clock) -> Result<Reply, ShellError> {
    Ok(Reply::new(format!("{clock}\n"), clock))
}

/// Done: that is all there is to say to people.
fn silent(answer: &impl serde::Serialize) -> Result<Reply, ShellError> {
    Ok(Reply::new(String::new(), answer))
}

/// A terminal's size where it is not known.
pub(crate) const USUAL: Size = Size {
    rows: 24,
    columns: 80,
};
