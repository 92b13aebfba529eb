//! What a line of the switch box asks for.

use vink_api::{ChangeClock, RunClock};
use vink_spec::{Settings, Span};

use crate::ifconfig::Ifconfig;
use crate::Definition;

/// A line, understood. Names are as they were written: whether they exist is for the lab to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Makes a machine.
    NewMachine {
        /// Its name.
        machine: String,
        /// The image that it runs; none: the lab's default.
        image: Option<String>,
        /// Whether it forwards packets.
        forward: bool,
    },
    /// Makes a wire.
    NewWire {
        /// Its name.
        wire: String,
        /// With any number of ends; none: if it gets more than two.
        bus: Option<bool>,
        /// What it does to packets.
        settings: Settings,
    },
    /// Removes a machine with all that is on it.
    DeleteMachine(String),
    /// Removes a wire; interfaces at it stay, without a carrier.
    DeleteWire(String),
    /// Removes an interface.
    DeleteInterface(End),
    /// Further lines are for this machine.
    Connect(String),
    /// Back out of the machine, or the end of the session.
    Exit,
    /// Makes an interface without a wire.
    AddInterface(End),
    /// Attaches an interface to a wire.
    WireUp {
        /// The interface.
        end: End,
        /// The wire.
        wire: String,
    },
    /// Takes an interface off its wire.
    WireDown(End),
    /// Changes what a wire does to packets.
    WireSet {
        /// The wire.
        wire: String,
        /// What changes.
        settings: Settings,
        /// Only for packets sent by this end: `machine:interface`, or `outside`.
        from: Option<String>,
    },
    /// Plugs a wire in or out.
    WirePlug {
        /// The wire.
        wire: String,
        /// In.
        up: bool,
    },
    /// Tells how the lab's clock is.
    Clock,
    /// Stops it, lets it go on, or says how fast it may go.
    ChangeClock(ChangeClock),
    /// Lets it go so far.
    RunClock(RunClock),
    /// Tells how something is.
    Show(Show),
    /// Sends a signal to a program.
    Kill {
        /// Its number or its name, or `%N` for a job of this session.
        program: String,
        /// The signal's number.
        signal: i32,
    },
    /// Waits for the end of a program.
    Wait(String),
    /// Writes an interface's packets to a file.
    Capture {
        /// The interface.
        end: End,
        /// A pcapng file, made anew.
        file: String,
        /// As in pcap-filter(7).
        filter: Option<String>,
    },
    /// Ends a capture.
    CaptureStop(u64),
    /// Something about breakpoints.
    Break(Break),
    /// Something about pods, or about paths of packets.
    Pod(Pod),
    /// Something about filters.
    Filter(Filter),
    /// Writes the lab as it is to a file.
    Save(String),
    /// Makes the lab what a file says.
    Load(String),
    /// Does nothing for some time.
    Sleep(Span),
    /// Carries out the lines of a file.
    Source(String),
    /// Explains.
    Help(Option<&'static Definition>),
    /// Lists the jobs of this session.
    Jobs,
    /// Goes on with a job in the foreground; none: the last one.
    Foreground(Option<usize>),
    /// Lets a stopped job go on in the background; none: the last one.
    Background(Option<usize>),
    /// Whether the session ends at the first line that fails.
    Errors {
        /// It does.
        stop: bool,
    },
    /// Gives an interface an address by `ifconfig`, or takes it away.
    Ifconfig {
        /// The machine.
        machine: String,
        /// The line, for the host's ifconfig(8) where the lab has no such interface.
        line: String,
        /// What it does.
        change: Ifconfig,
    },
    /// Starts a virtualized process.
    App {
        /// On which machine.
        machine: String,
        /// Its name and arguments.
        words: Vec<String>,
        /// Without waiting for it.
        background: bool,
    },
    /// Runs a program of the host on a machine, or a virtualized process if only that has this
    /// name.
    Run {
        /// On which machine.
        machine: String,
        /// For `sh -c`.
        line: String,
        /// Without waiting for it.
        background: bool,
    },
}

/// An interface of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The machine's name.
    pub machine: String,
    /// The interface's.
    pub interface: String,
}

/// What can be done with breakpoints.
#[derive(Clone, Debug, PartialEq)]
pub enum Break {
    /// Sets one.
    Add {
        /// Its name; none: a number.
        name: Option<String>,
        /// All of it.
        spec: Box<vink_spec::Breakpoint>,
    },
    /// Tells of all of them.
    List,
    /// Removes one.
    Remove(String),
    /// Has one do something, or nothing for a while.
    Enable {
        /// Its name.
        breakpoint: String,
        /// Something.
        enabled: bool,
    },
    /// Lets a machine go on that one has stopped; none: all of the lab.
    Continue(Option<String>),
}

/// What can be done with pods, and with the paths of packets through them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pod {
    /// Tells of all pods.
    List,
    /// Loads one, in the place of one of its name.
    Load {
        /// Its name.
        pod: String,
        /// Its file; none: the one that it has.
        file: Option<String>,
    },
    /// Ends one.
    Revoke(String),
    /// Tells of all paths.
    Paths,
    /// Removes one.
    RevokePath(String),
}

/// What can be done with filters: nft rules of a place, which is a machine or `machine:interface`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Tells of all of them.
    List,
    /// Has the rules of a file in force, or checks them.
    Set {
        /// The place.
        place: String,
        /// A file for nft(8).
        file: String,
        /// Only checks.
        check: bool,
    },
    /// Tells the rules as the kernel has them.
    Show(String),
    /// Tells what they have counted.
    Counters(String),
    /// Has an earlier version in force; none: the one before.
    Rollback {
        /// The place.
        place: String,
        /// The version's number.
        version: Option<u64>,
    },
    /// Removes them.
    Remove(String),
}

/// What can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    /// All machines.
    Machines,
    /// All wires.
    Wires,
    /// Programs, of one machine or of all.
    Programs(Option<String>),
    /// A machine.
    Machine(String),
    /// A wire.
    Wire(String),
    /// A program and its output.
    Program(String),
    /// Whichever has this name.
    Named(String),
}
