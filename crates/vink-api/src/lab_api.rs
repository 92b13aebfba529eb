//! What is asked of a lab, in one trait: a [`Client`](crate::Client) asks by HTTP, and a lab's own
//! timed and breakpoint lines ask the engine in the control process directly.

use std::fmt::Debug;
use std::future::Future;

use vink_spec::Lab;

use crate::{
    Applied, Breakpoint, Breakpoints, Capture, ChangeClock, ChangeInterface, ChangeWire, Clock,
    Error, Events, Filter, FilterRules, Interface, LabStatus, Log, Machine, MachineSummary,
    NewBreakpoint, NewCapture, NewFilter, NewInterface, NewMachine, NewPod, NewProgram, NewWire,
    OutputQuery, PacketPath, Pod, Program, PutLab, Rollback, RunClock, Terminal, Wire,
};

/// A request under way; the request is given up when this is dropped.
pub trait Answer<T>: Future<Output = Result<T, Error>> + Send {}
impl<T, F: Future<Output = Result<T, Error>> + Send> Answer<T> for F {}

/// The requests that the lines of a switch box consist of. Methods that answer `()` answer when it
/// is done.
pub trait LabApi: Clone + Debug + Send + Sync + 'static {
    /// How a lab is.
    fn lab(&self, lab: &str) -> impl Answer<LabStatus>;

    /// Makes a lab, or changes it. [`LabApi::lab_events`] tells how far it is.
    fn put_lab(&self, lab: &str, wanted: &PutLab) -> impl Answer<Applied>;

    /// As a lab file, what runs now.
    fn spec(&self, lab: &str) -> impl Answer<Lab>;

    /// How a lab's clock is.
    fn clock(&self, lab: &str) -> impl Answer<Clock>;

    /// Stops a lab's clock, lets it go on, or says how fast it may go.
    fn change_clock(&self, lab: &str, change: &ChangeClock) -> impl Answer<Clock>;

    /// Lets a lab's clock go so far, and answers when it is there. It goes no further when this is
    /// dropped.
    fn run_clock(&self, lab: &str, run: &RunClock) -> impl Answer<Clock>;

    /// All machines of a lab.
    fn machines(&self, lab: &str) -> impl Answer<Vec<MachineSummary>>;

    /// Makes a machine, and answers when its setup commands are done and its programs are started.
    fn add_machine(&self, lab: &str, machine: &NewMachine) -> impl Answer<Machine>;

    /// How a machine is.
    fn machine(&self, lab: &str, machine: &str) -> impl Answer<Machine>;

    /// Ends a machine's programs and gives it up.
    fn remove_machine(&self, lab: &str, machine: &str) -> impl Answer<()>;

    /// Gives a machine an interface.
    fn add_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &NewInterface,
    ) -> impl Answer<Interface>;

    /// Attaches an interface to a wire, detaches it, or changes its addresses.
    fn change_interface(
        &self,
        lab: &str,
        machine: &str,
        interface: &str,
        change: &ChangeInterface,
    ) -> impl Answer<Interface>;

    /// Takes an interface from a machine.
    fn remove_interface(&self, lab: &str, machine: &str, interface: &str) -> impl Answer<()>;

    /// All wires of a lab, without counters.
    fn wires(&self, lab: &str) -> impl Answer<Vec<Wire>>;

    /// Makes a wire without ends.
    fn add_wire(&self, lab: &str, wire: &NewWire) -> impl Answer<Wire>;

    /// How a wire is.
    fn wire(&self, lab: &str, wire: &str) -> impl Answer<Wire>;

    /// Changes what a wire does to packets from now on, or plugs it in or out.
    fn change_wire(&self, lab: &str, wire: &str, change: &ChangeWire) -> impl Answer<Wire>;

    /// Gives a wire up. Interfaces at it stay, without a carrier.
    fn remove_wire(&self, lab: &str, wire: &str) -> impl Answer<()>;

    /// Programs of a lab: those that run, those of the lab file, and the last ones that have ended.
    fn programs(&self, lab: &str) -> impl Answer<Vec<Program>>;

    /// Starts a program, or with `attach` has it ready to be started by [`LabApi::attach`].
    fn start_program(&self, lab: &str, program: &NewProgram) -> impl Answer<Program>;

    /// How a program is: its number, or its name as `machine.name`.
    fn program(&self, lab: &str, program: &str) -> impl Answer<Program>;

    /// Ends a program: a virtualized process by asking it to, any other with all its processes by
    /// SIGKILL.
    fn end_program(&self, lab: &str, program: &str) -> impl Answer<Program>;

    /// Sends a signal to a program's process group.
    fn signal_program(&self, lab: &str, program: &str, signal: i32) -> impl Answer<Program>;

    /// The output of a program that is not attached.
    fn output(&self, lab: &str, program: &str, query: &OutputQuery) -> impl Answer<Log>;

    /// Starts a program that was made with `attach`, and carries its input and output.
    fn attach(&self, lab: &str, program: u64) -> impl Answer<Terminal>;

    /// Writes packets to a file from now on.
    fn start_capture(&self, lab: &str, capture: &NewCapture) -> impl Answer<Capture>;

    /// Ends a capture, and tells how many packets there were.
    fn stop_capture(&self, lab: &str, capture: u64) -> impl Answer<Capture>;

    /// Breakpoints of a lab, with what they have counted.
    fn breakpoints(&self, lab: &str) -> impl Answer<Breakpoints>;

    /// Sets a breakpoint.
    fn add_breakpoint(&self, lab: &str, new: &NewBreakpoint) -> impl Answer<Breakpoint>;

    /// Has a breakpoint do something, or nothing for a while.
    fn enable_breakpoint(
        &self,
        lab: &str,
        breakpoint: &str,
        enabled: bool,
    ) -> impl Answer<Breakpoint>;

    /// Removes a breakpoint.
    fn remove_breakpoint(&self, lab: &str, breakpoint: &str) -> impl Answer<()>;

    /// Pods of a lab.
    fn pods(&self, lab: &str) -> impl Answer<Vec<Pod>>;

    /// Loads a pod, in the place of one of its name.
    fn load_pod(&self, lab: &str, new: &NewPod) -> impl Answer<Pod>;

    /// Ends a pod, and takes back all that it has.
    fn revoke_pod(&self, lab: &str, pod: &str) -> impl Answer<Pod>;

    /// Paths of a lab.
    fn packet_paths(&self, lab: &str) -> impl Answer<Vec<PacketPath>>;

    /// Removes a path.
    fn remove_path(&self, lab: &str, path: &str) -> impl Answer<PacketPath>;

    /// Filters that are in force.
    fn filters(&self, lab: &str) -> impl Answer<Vec<Filter>>;

    /// A filter of a place with its rules, counters and versions.
    fn filter(&self, lab: &str, place: &str) -> impl Answer<FilterRules>;

    /// Checks rules for a place, or has them in force there, in one transaction.
    fn put_filter(&self, lab: &str, place: &str, new: &NewFilter) -> impl Answer<Filter>;

    /// Has an earlier version of a filter in force.
    fn roll_back_filter(&self, lab: &str, place: &str, to: &Rollback) -> impl Answer<Filter>;

    /// Removes a filter.
    fn remove_filter(&self, lab: &str, place: &str) -> impl Answer<()>;

    /// Lets a lab go on that a breakpoint has stopped.
    fn resume(&self, lab: &str) -> impl Answer<()>;

    /// Lets a machine go on that a breakpoint has stopped.
    fn resume_machine(&self, lab: &str, machine: &str) -> impl Answer<()>;

    /// Events of a lab from now on.
    fn lab_events(&self, lab: &str) -> impl Answer<Events>;
}
