//! What a lab worker has: everything by its name, and what a request does with it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::calls::CallsSetup;
use vink_abi::{VINK_CALL_TEST, VINK_TEST_BUG};
use vink_kernel::EndId;
use vink_trap::{ProgramId, Worker};

use super::app::Fibers;
use super::breakpoint::Breakpoints;
use super::capture::Captures;
use super::clock_driver::ClockDriver;
use super::feed::Feeds;
use super::loader::Loader;
use super::machine::MachineEntry;
use super::path::Paths;
use super::program::Running;
use super::series::AllSeries;
use super::uplink::Uplinks;
use super::wire::Wire;
use vink_protocol::ProbeRequest;
use vink_protocol::{Action, Answer, Event};

use crate::{Error, Journal, SocketProbes};

/// The descriptors that came with a request.
pub(super) type Descriptors = std::vec::IntoIter<OwnedFd>;

/// Why a request was not carried out.
#[derive(Debug)]
pub(super) enum WorkerError {
    /// The request is refused, with this reason; nothing was changed.
    Refused(String),
    /// The kernel has panicked: the worker ends.
    Kernel(vink_kernel::Error),
    /// The socket failed, or what came is no request: the worker ends.
    Protocol(Error),
}

/// A machine's interface, as the lab names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EndName {
    pub(super) machine: String,
    pub(super) interface: String,
}

/// All that a worker has.
pub(super) struct Lab {
    pub(super) machines: HashMap<String, MachineEntry>,
    pub(super) wires: HashMap<String, Wire>,
    /// Whose interface an end of a wire is.
    pub(super) end_names: HashMap<EndId, EndName>,
    pub(super) programs: HashMap<u64, Running>,
    pub(super) numbers: HashMap<ProgramId, u64>,
    pub(super) last_program: u64,
    pub(super) fibers: Fibers,
    pub(super) captures: Captures,
    pub(super) feeds: Feeds,
    pub(super) breakpoints: Breakpoints,
    pub(super) paths: Paths,
    /// Loads pods, once there were some.
    pub(super) loader: Option<Loader>,
    pub(super) series: AllSeries,
    pub(super) probes: SocketProbes,
    pub(super) uplinks: Uplinks,
    pub(super) calls: CallsSetup,
    pub(super) journal: Option<Journal>,
    /// What every machine's /etc/hosts ends with, and how often it was changed.
    pub(super) hosts: Rc<str>,
    pub(super) hosts_changes: u64,
    pub(super) driver: ClockDriver,
    /// What is to be told.
    pub(super) events: Vec<Event>,
    /// How many of `events` are in the journal.
    pub(super) journaled: usize,
    /// Packets that the kernel could not keep until they were told.
    pub(super) missed: u64,
    // Last: the kernel outlives what holds on to it.
    pub(super) worker: Worker,
}

impl Lab {
    pub(super) fn new(mut worker: Worker, calls: CallsSetup) -> Lab {
        let clock = worker.kernel().clock();
        let paths = Paths::default();
        let mut fibers = Fibers::default();
        fibers
            .apps
            .set_paths(paths.of_streams(clock == vink_kernel::Clock::Virtual));
        Lab {
            machines: HashMap::new(),
            wires: HashMap::new(),
            end_names: HashMap::new(),
            programs: HashMap::new(),
            numbers: HashMap::new(),
            last_program: 0,
            fibers,
            captures: Captures::default(),
            feeds: Feeds::default(),
            breakpoints: Breakpoints::default(),
            paths,
            loader: None,
            series: AllSeries::default(),
            probes: SocketProbes::default(),
            uplinks: Uplinks::default(),
            calls,
            journal: None,
            hosts: "".into(),
            hosts_changes: 0,
            driver: ClockDriver::new(clock),
            events: Vec::new(),
            journaled: 0,
            missed: 0,
            worker,
        }
    }

    /// Of the kernel, as uname(1) has it.
    pub(super) fn release(&mut self) -> String {
        self.worker.kernel().image().release().to_owned()
    }

    /// Does what is asked for.
    pub(super) fn carry_out(
        &mut self,
        action: Action,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, WorkerError> {
        match action {
            Action::All(actions) => return self.all(actions, descriptors),
            Action::Machine(machine) => self.new_machine(machine)?,
            Action::RemoveMachine { machine } => self.remove_machine(&machine)?,
            Action::Files { machine, files } => self.set_files(&machine, files)?,
            Action::Hosts { text } => self.set_hosts(text),
            Action::Sysctl {
                machine,
                name,
                value,
            } => self.sysctl(&machine, &name, &value)?,
            Action::Forward { machine, forward } => self.set_forwarding(&machine, forward)?,
            Action::Wire { wire, bus } => self.new_wire(wire, bus)?,
            Action::RemoveWire { wire } => self.remove_wire(&wire)?,
            Action::Attach(interface) => self.attach(interface)?,
            Action::Detach { machine, interface } => self.detach(&machine, &interface)?,
            Action::Address {
                machine,
                interface,
                address,
                remove,
            } => self.address(&machine, &interface, address, remove)?,
            Action::Route {
                machine,
                to,
                via,
                dev,
                metric,
                remove,
            } => {
                let route = crate::route::StaticRoute {
                    to,
                    via,
                    dev: dev.as_deref(),
                    metric,
                    mtu: None,
                };
                self.route(&machine, &route, remove)?;
            }
            Action::Set {
                wire,
                end,
                settings,
            } => self.set_wire(&wire, end.as_deref(), &settings)?,
            Action::Plug { wire, up } => self.plug(&wire, up)?,
            Action::Uplink { wire, target } => return self.uplink(&wire, target, descriptors),
            Action::RemoveUplink { wire } => self.remove_uplink(&wire)?,
            Action::Spawn(program) => return self.spawn(program, descriptors),
            Action::Signal { program, signal } => self.signal(program, signal)?,
            Action::Kill { program } => self.kill(program)?,
            Action::App { machine, words } => return self.start_app(&machine, &words),
            Action::StopApp { program, report } => return self.stop_app(program, report),
            Action::Listens { machine, port, udp } => return self.listens(&machine, port, udp),
            Action::Status { machines } => return self.status(machines),
            Action::Capture {
                interfaces,
                filter,
                snap,
            } => return self.capture(interfaces, filter, snap, descriptors),
            Action::StopCapture { capture } => return self.stop_capture(capture),
            Action::Breakpoint {
                breakpoint,
                scope,
                what,
                filter,
            } => self.set_breakpoint(breakpoint, scope, what, filter)?,
            Action::RemoveBreakpoint { breakpoint } => self.remove_breakpoint(&breakpoint)?,
            Action::EnableBreakpoint {
                breakpoint,
                enabled,
            } => self.enable_breakpoint(&breakpoint, enabled)?,
            Action::Breakpoints => return Ok(self.breakpoints()),
            Action::BreakpointRan { breakpoint } => self.breakpoint_ran(&breakpoint)?,
            Action::DecidePacket {
                breakpoint,
                number,
                decision,
            } => self.decide_packet(&breakpoint, number, decision)?,
            Action::LoadPod { pod, what, file } => self.load_pod(pod, &what, &file)?,
            Action::RevokePod { pod, forget } => self.revoke_pod(&pod, forget)?,
            Action::AddPath { path, what, filter } => self.add_path(path, what, filter)?,
            Action::RemovePath { path } => self.remove_path(&path)?,
            Action::Pods => return Ok(self.pods()),
            Action::AddSeries {
                series,
                what,
                folder,
            } => self.add_series(series, what, folder.as_ref(), descriptors)?,
            Action::RemoveSeries { series } => self.remove_series(&series)?,
            Action::Series => return Ok(self.all_series()),
            Action::Stop => self.stop(),
            Action::Resume => self.resume()?,
            Action::ResumeMachine { machine } => self.resume_machine(machine.as_deref())?,
            Action::Probe(what) => self.probe(&what, descriptors)?,
            Action::NumberEnds { revision, ends } => self.number_ends(revision, ends)?,
            Action::Feed(what) => return self.feed(what, descriptors),
            Action::Watch { interfaces } => self.watch(interfaces)?,
            Action::Journal => self.start_journal(descriptors)?,
            Action::Note(noted) => self.note(noted)?,
            Action::FlushJournal => self.flush_journal()?,
            Action::Stir => self.worker.stir(),
            Action::EndJournal { incomplete } => return self.end_journal(incomplete),
            Action::RunUntil {
                run,
                until,
                stop,
                speed,
                epoch,
            } => return Ok(self.run_until(run, until, stop, speed, epoch)),
            Action::Clock => return Ok(self.clock()),
            Action::Panic => self.panic()?,
        }
        Ok(Answer::Nothing)
    }

    /// One after the other, up to the first that fails.
    fn all(
        &mut self,
        actions: Vec<Action>,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, WorkerError> {
        let count = actions.len();
        let mut answers = Vec::with_capacity(count);
        for (i, action) in actions.into_iter().enumerate() {
            match self.carry_out(action, descriptors) {
                Ok(answer) => answers.push(answer),
                Err(WorkerError::Refused(why)) => {
                    let why = format!("request {} of {count}: {why}", i + 1);
                    return Err(WorkerError::Refused(why));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::List(answers))
    }

    /// To be called after each step: what has happened.
    pub(super) fn look_around(&mut self) -> Result<(), WorkerError> {
        self.look_after_programs()?;
        self.look_after_apps()?;
        self.look_after_uplinks();
        self.look_after_packets()?;
        self.look_after_feeds()?;
        self.look_after_breakpoints();
        self.look_after_paths()?;
        self.probes.look_after(&mut self.worker)?;
        self.look_after_series();
        self.report_pause()
    }

    fn probe(
        &mut self,
        what: &ProbeRequest,
        descriptors: &mut Descriptors,
    ) -> Result<(), WorkerError> {
        let to = descriptors.next().expect("counted before");
        self.probes.start(self.worker.kernel(), what, to)?;
        Ok(())
    }

    fn panic(&mut self) -> Result<(), WorkerError> {
        let kernel = self.worker.kernel();
        let machine = kernel.machine("panic")?;
        let task = kernel.task(machine)?;
        let args = [VINK_TEST_BUG, 0, 0, 0, 0, 0];
        kernel.call(task, VINK_CALL_TEST.into(), args)?;
        Ok(())
    }
}

impl EndName {
    /// From `machine:interface`.
    pub(super) fn parse(text: &str) -> Result<EndName, WorkerError> {
        let (machine, interface) = text.split_once(':').ok_or_else(|| {
            refused(format!(
                "{text:?} is no interface: it is written as MACHINE:INTERFACE, such as m1:eth0"
            ))
        })?;
        Ok(EndName {
            machine: machine.to_owned(),
            interface: interface.to_owned(),
        })
    }
}

impl std::fmt::Display for EndName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.machine, self.interface)
    }
}

pub(super) fn refused(why: impl Into<String>) -> WorkerError {
    WorkerError::Refused(why.into())
}

impl WorkerError {
    /// Puts the object of a refusal before its reason.
    pub(super) fn about(self, what: impl std::fmt::Display) -> WorkerError {
        match self {
            WorkerError::Refused(why) => WorkerError::Refused(format!("{what}: {why}")),
            other => other,
        }
    }
}

/// `about` for results.
pub(super) trait About<T> {
    fn about(self, what: impl std::fmt::Display) -> Result<T, WorkerError>;
}

impl<T, E: Into<WorkerError>> About<T> for Result<T, E> {
    fn about(self, what: impl std::fmt::Display) -> Result<T, WorkerError> {
        self.map_err(|error| error.into().about(what))
    }
}

impl From<vink_kernel::Error> for WorkerError {
    fn from(error: vink_kernel::Error) -> WorkerError {
        match error {
            vink_kernel::Error::Panic(_) => WorkerError::Kernel(error),
            vink_kernel::Error::Errno { errno, .. } if errno == libc::ENOMEM => refused(format!(
                "{error}: the kernel's memory is used up; give it more by `memory:` in the lab file, \
                 or the machine another `worker`"
            )),
            other => WorkerError::Refused(other.to_string()),
        }
    }
}

impl From<vink_trap::Error> for WorkerError {
    fn from(error: vink_trap::Error) -> WorkerError {
        match error {
            vink_trap::Error::Kernel(error) => error.into(),
            other => WorkerError::Refused(other.to_string()),
        }
    }
}

impl From<Error> for WorkerError {
    fn from(error: Error) -> WorkerError {
        match error {
            Error::Kernel(error) => error.into(),
            Error::Trap(error) => error.into(),
            Error::Protocol(_) => WorkerError::Protocol(error),
            other => WorkerError::Refused(other.to_string()),
        }
    }
}

impl From<WorkerError> for Error {
    fn from(error: WorkerError) -> Error {
        match error {
            WorkerError::Kernel(error) => Error::Kernel(error),
            WorkerError::Protocol(error) => error,
            WorkerError::Refused(why) => Error::Protocol(why),
        }
    }
}
