//! What a lab worker has: everything by its name, and what a request does with it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use vink_abi::{VINK_CALL_TEST, VINK_TEST_BUG};
use vink_kernel::EndId;
use vink_trap::{ProgramId, Worker};

use super::app::Fibers;
use super::breakpoint::Breakpoints;
use super::capture::Captures;
use super::machine::Inhabited;
use super::pace::Pace;
use super::program::Running;
use super::protocol::{Action, Answer, Event};
use super::series::AllSeries;
use super::uplink::Outdoors;
use super::wire::Wire;
use crate::{Error, Journal, Recorders, Recording};

/// The descriptors that came with a request.
pub(super) type Descriptors = std::vec::IntoIter<OwnedFd>;

/// Why a request was not carried out.
#[derive(Debug)]
pub(super) enum Trouble {
    /// For its user; nothing was changed.
    Refused(String),
    /// The worker can't go on.
    Kernel(vink_kernel::Error),
    /// Neither can it.
    Broken(Error),
}

/// A machine's interface, as the lab names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) machine: String,
    pub(super) interface: String,
}

/// All that a worker has.
pub(super) struct Lab {
    pub(super) machines: HashMap<String, Inhabited>,
    pub(super) wires: HashMap<String, Wire>,
    /// Whose interface an end of a wire is.
    pub(super) places: HashMap<EndId, Place>,
    pub(super) programs: HashMap<u64, Running>,
    pub(super) numbers: HashMap<ProgramId, u64>,
    pub(super) last_program: u64,
    pub(super) fibers: Fibers,
    pub(super) captures: Captures,
    pub(super) breakpoints: Breakpoints,
    pub(super) series: AllSeries,
    pub(super) recorders: Recorders,
    pub(super) outdoors: Outdoors,
    pub(super) journal: Option<Journal>,
    /// What every machine's /etc/hosts ends with, and how often it was changed.
    pub(super) hosts: Rc<str>,
    pub(super) hosts_changes: u64,
    pub(super) pace: Pace,
    /// What is to be told.
    pub(super) events: Vec<Event>,
    /// Packets that the kernel could not keep until they were told.
    pub(super) missed: u64,
    // Last: the kernel outlives what holds on to it.
    pub(super) worker: Worker,
}

impl Lab {
    pub(super) fn new(mut worker: Worker) -> Lab {
        let clock = worker.kernel().clock();
        Lab {
            machines: HashMap::new(),
            wires: HashMap::new(),
            places: HashMap::new(),
            programs: HashMap::new(),
            numbers: HashMap::new(),
            last_program: 0,
            fibers: Fibers::default(),
            captures: Captures::default(),
            breakpoints: Breakpoints::default(),
            series: AllSeries::default(),
            recorders: Recorders::default(),
            outdoors: Outdoors::default(),
            journal: None,
            hosts: "".into(),
            hosts_changes: 0,
            pace: Pace::new(clock),
            events: Vec::new(),
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
    ) -> Result<Answer, Trouble> {
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
                };
                self.route(&machine, &route, remove)?;
            }
            Action::Set {
                wire,
                end,
                settings,
            } => self.set_wire(&wire, end.as_deref(), &settings)?,
            Action::Plug { wire, up } => self.plug(&wire, up)?,
            Action::Uplink { wire, outside } => return self.uplink(&wire, outside, descriptors),
            Action::RemoveUplink { wire } => self.remove_uplink(&wire)?,
            Action::Spawn(program) => return self.spawn(program, descriptors),
            Action::Signal { program, signal } => self.signal(program, signal)?,
            Action::Kill { program } => self.kill(program)?,
            Action::App { machine, words } => return self.start_app(&machine, &words),
            Action::StopApp { program, report } => return self.stop_app(program, report),
            Action::Listens { machine, port } => return self.listens(&machine, port),
            Action::Status { machines } => return self.status(machines),
            Action::Capture {
                interfaces,
                filter,
                snap,
            } => return self.capture(interfaces, filter.as_deref(), snap, descriptors),
            Action::StopCapture { capture } => return self.stop_capture(capture),
            Action::Breakpoint {
                breakpoint,
                place,
                what,
            } => self.set_breakpoint(breakpoint, place, what)?,
            Action::RemoveBreakpoint { breakpoint } => self.remove_breakpoint(&breakpoint)?,
            Action::EnableBreakpoint {
                breakpoint,
                enabled,
            } => self.enable_breakpoint(&breakpoint, enabled)?,
            Action::Breakpoints => return Ok(self.breakpoints()),
            Action::BreakpointRan { breakpoint } => self.breakpoint_ran(&breakpoint)?,
            Action::AddSeries {
                series,
                what,
                folder,
            } => self.add_series(series, what, folder.as_ref(), descriptors)?,
            Action::RemoveSeries { series } => self.remove_series(&series)?,
            Action::Series => return Ok(self.all_series()),
            Action::Stop => self.stop(),
            Action::GoesOn => self.goes_on()?,
            Action::MachineGoesOn { machine } => self.machine_goes_on(machine.as_deref())?,
            Action::Record(what) => self.record(&what, descriptors)?,
            Action::Watch { interfaces } => self.watch(interfaces)?,
            Action::Journal => self.start_journal(descriptors)?,
            Action::Note(noted) => self.note(noted)?,
            Action::EndJournal { amidst } => return self.end_journal(amidst),
            Action::Go {
                leg,
                until,
                stop,
                speed,
                news,
            } => return Ok(self.go(leg, until, stop, speed, news)),
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
    ) -> Result<Answer, Trouble> {
        let count = actions.len();
        let mut answers = Vec::with_capacity(count);
        for (i, action) in actions.into_iter().enumerate() {
            match self.carry_out(action, descriptors) {
                Ok(answer) => answers.push(answer),
                Err(Trouble::Refused(why)) => {
                    let why = format!("request {} of {count}: {why}", i + 1);
                    return Err(Trouble::Refused(why));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(Answer::List(answers))
    }

    /// To be called after each step: what has happened.
    pub(super) fn look_around(&mut self) -> Result<(), Trouble> {
        self.look_after_programs()?;
        self.look_after_apps()?;
        self.look_after_uplinks();
        self.look_after_packets()?;
        self.look_after_breakpoints();
        self.recorders.look_after(&mut self.worker)?;
        self.look_after_series();
        self.look_at_clock();
        Ok(())
    }

    fn record(&mut self, what: &Recording, descriptors: &mut Descriptors) -> Result<(), Trouble> {
        let to = descriptors.next().expect("counted before");
        self.recorders.start(self.worker.kernel(), what, to)?;
        Ok(())
    }

    fn panic(&mut self) -> Result<(), Trouble> {
        let kernel = self.worker.kernel();
        let machine = kernel.machine("panic")?;
        let task = kernel.task(machine)?;
        let args = [VINK_TEST_BUG, 0, 0, 0, 0, 0];
        kernel.call(task, VINK_CALL_TEST.into(), args)?;
        Ok(())
    }
}

impl Place {
    /// From `machine:interface`.
    pub(super) fn parse(text: &str) -> Result<Place, Trouble> {
        let (machine, interface) = text.split_once(':').ok_or_else(|| {
            refused(format!(
                "{text:?} is no interface: it is written as MACHINE:INTERFACE, such as m1:eth0"
            ))
        })?;
        Ok(Place {
            machine: machine.to_owned(),
            interface: interface.to_owned(),
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.machine, self.interface)
    }
}

pub(super) fn refused(why: impl Into<String>) -> Trouble {
    Trouble::Refused(why.into())
}

impl Trouble {
    /// Says what a refusal was about.
    pub(super) fn about(self, what: impl std::fmt::Display) -> Trouble {
        match self {
            Trouble::Refused(why) => Trouble::Refused(format!("{what}: {why}")),
            other => other,
        }
    }
}

/// `about` for results.
pub(super) trait About<T> {
    fn about(self, what: impl std::fmt::Display) -> Result<T, Trouble>;
}

impl<T, E: Into<Trouble>> About<T> for Result<T, E> {
    fn about(self, what: impl std::fmt::Display) -> Result<T, Trouble> {
        self.map_err(|error| error.into().about(what))
    }
}

impl From<vink_kernel::Error> for Trouble {
    fn from(error: vink_kernel::Error) -> Trouble {
        match error {
            vink_kernel::Error::Panic(_) => Trouble::Kernel(error),
            other => Trouble::Refused(other.to_string()),
        }
    }
}

impl From<vink_trap::Error> for Trouble {
    fn from(error: vink_trap::Error) -> Trouble {
        match error {
            vink_trap::Error::Kernel(error) => error.into(),
            other => Trouble::Refused(other.to_string()),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        match error {
            Error::Kernel(error) => error.into(),
            Error::Trap(error) => error.into(),
            Error::Protocol(_) => Trouble::Broken(error),
            other => Trouble::Refused(other.to_string()),
        }
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Kernel(error) => Error::Kernel(error),
            Trouble::Broken(error) => error,
            Trouble::Refused(why) => Error::Protocol(why),
        }
    }
}
