//! What the control process and a lab worker say to each other, over a unix stream socket.
//!
//! Each message is its length (4 bytes, big endian, at most [`LONGEST`]) and that many bytes of JSON: a
//! [`Request`] to the worker, a [`Message`] from it. Descriptors travel by `SCM_RIGHTS` with a message's first
//! byte, as many as its kind says. Requests are carried out in order, and each is answered, in order. What
//! happens meanwhile is told by events in between. Either side ends when the other closes its socket.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vink_record::Totals;
use vink_spec::{Breakpoint, Series, Settings, Uplink};

pub use crate::samples::Recording;

/// Bytes that a message may have.
pub const LONGEST: usize = 64 << 20;

/// The version of this protocol: control and worker are the same `vink`, so that another one means that the file has been replaced.
pub const VERSION: u32 = 2;

/// Asks a worker to do something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back with the answer.
    pub id: u64,
    /// What is to be done.
    pub action: Action,
}

/// What a worker can do. Names are those of the lab; a name may be used again when what had it is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Several, one after the other, up to the first that fails. [`Answer::List`]: what those that were
    /// done answered. The error of one that failed names it by its place.
    All(Vec<Action>),
    /// Makes a machine with its loopback interface up.
    Machine(NewMachine),
    /// Kills its programs and gives it up with all its interfaces.
    RemoveMachine {
        /// Its name.
        machine: String,
    },
    /// What programs started from now on find in these files.
    Files {
        /// Whose.
        machine: String,
        /// Absolute paths, and texts.
        files: Vec<(String, String)>,
    },
    /// What programs of every machine find in /etc/hosts after their machine's own names, if they are started from
    /// now on: the names of the whole lab, in the format of hosts(5). All machines share this text, so that ten
    /// thousand of them have it once; [`NewMachine::files`] says nothing of /etc/hosts, unless the lab file does, which
    /// comes first.
    Hosts {
        /// The lines.
        text: String,
    },
    /// Sets a value below /proc/sys of a machine.
    Sysctl {
        /// Whose.
        machine: String,
        /// As in sysctl(8).
        name: String,
        /// What is written.
        value: String,
    },
    /// Makes a wire without ends.
    Wire {
        /// Its name.
        wire: String,
        /// An Ethernet segment of any number of ends.
        bus: bool,
    },
    /// Detaches all ends and gives the wire up.
    RemoveWire {
        /// Its name.
        wire: String,
    },
    /// Makes an interface, without a wire if none is given.
    Attach(NewInterface),
    /// Removes an interface.
    Detach {
        /// Whose.
        machine: String,
        /// Which.
        interface: String,
    },
    /// Adds an address to an interface.
    Address {
        /// Whose.
        machine: String,
        /// Which.
        interface: String,
        /// The address and its network.
        address: IpNet,
        /// Removes it instead.
        remove: bool,
    },
    /// Adds a route.
    Route {
        /// Whose.
        machine: String,
        /// Where to.
        to: IpNet,
        /// The next router.
        via: Option<IpAddr>,
        /// Through which interface.
        dev: Option<String>,
        /// Its metric.
        metric: Option<u32>,
        /// Removes it instead.
        remove: bool,
    },
    /// What a wire does to packets that are sent at an end, in the place of what it did.
    Set {
        /// The wire.
        wire: String,
        /// `machine:interface`, or `outside`; none: all ends, those to come too.
        end: Option<String>,
        /// All of it.
        settings: Settings,
    },
    /// Plugs a wire in or out.
    Plug {
        /// The wire.
        wire: String,
        /// In.
        up: bool,
    },
    /// Joins a wire to something outside. With [`Outside::Worker`], descriptors come along: what
    /// `uplink::shared` made. With passt the machine at the wire's first end gets addresses and routes, now or when
    /// it comes; if now, [`Answer::Route`] tells them.
    Uplink {
        /// The wire.
        wire: String,
        /// What.
        outside: Outside,
    },
    /// Ends that.
    RemoveUplink {
        /// The wire.
        wire: String,
    },
    /// Starts a program with the three descriptors that come along as its standard input, output and error.
    /// [`Answer::Program`]; [`Event::Ended`] follows.
    Spawn(NewProgram),
    /// Sends a signal to a program's process group.
    Signal {
        /// Which.
        program: u64,
        /// Its number.
        signal: i32,
    },
    /// Kills all that is left of a program's processes.
    Kill {
        /// Which.
        program: u64,
    },
    /// Starts a virtualized process. [`Answer::Program`]; [`Event::Ended`] follows, with its report.
    App {
        /// On which machine.
        machine: String,
        /// Its name and arguments.
        words: Vec<String>,
    },
    /// Asks a virtualized process to end; with `report` it only tells how far it is. [`Answer::Report`].
    StopApp {
        /// Which.
        program: u64,
        /// Don't.
        report: bool,
    },
    /// Whether something on a machine listens on a TCP port. [`Answer::Yes`].
    Listens {
        /// Where.
        machine: String,
        /// The port.
        port: u16,
    },
    /// How its machines, wires and kernel are. [`Answer::Status`].
    Status {
        /// These machines' interfaces and addresses, and the wires that they are at; none: of all. An empty list: no
        /// machine, but all wires.
        machines: Option<Vec<String>>,
    },
    /// Writes packets of interfaces to the descriptor that comes along, as pcapng. [`Answer::Capture`].
    Capture {
        /// `machine:interface`.
        interfaces: Vec<String>,
        /// As in pcap-filter(7).
        filter: Option<String>,
        /// Bytes of each packet; 0: all.
        snap: u32,
    },
    /// Ends a capture. [`Answer::Captured`].
    StopCapture {
        /// Which.
        capture: u64,
    },
    /// Sets a breakpoint, in the place of one of this name.
    Breakpoint {
        /// Its name.
        breakpoint: String,
        /// Where.
        place: Where,
        /// All of it; `at` counts for people only.
        what: Breakpoint,
    },
    /// Removes a breakpoint, if there is one. What waits because of it goes on.
    RemoveBreakpoint {
        /// Its name.
        breakpoint: String,
    },
    /// Enables or disables a breakpoint.
    EnableBreakpoint {
        /// Its name.
        breakpoint: String,
        /// Enabled.
        enabled: bool,
    },
    /// What they have counted, and which machines have stopped. [`Answer::Breakpoints`].
    Breakpoints,
    /// The line of a breakpoint was carried out: the packet that waited for it goes on.
    BreakpointRan {
        /// Its name.
        breakpoint: String,
    },
    /// Begins a time series, in the place of one of this name, in the file whose descriptor comes along.
    AddSeries {
        /// Its name.
        series: String,
        /// All of it.
        what: Series,
        /// Where paths of files begin.
        folder: String,
    },
    /// Ends a time series, if there is one, and its file.
    RemoveSeries {
        /// Its name.
        series: String,
    },
    /// How they are. [`Answer::Series`].
    Series,
    /// The lab stands still, since a breakpoint of another worker has stopped it.
    Stop,
    /// The lab goes on, if a breakpoint has stopped it.
    GoesOn,
    /// A machine that a breakpoint has stopped goes on.
    MachineGoesOn {
        /// Which; none: all of them.
        machine: Option<String>,
    },
    /// Writes what sockets are when the kernel passes these tracepoints to the descriptor that comes along,
    /// until nobody reads it any more; see [`Recording`].
    Record(Recording),
    /// Sends [`Event::Packet`] for what happens at these interfaces, from now on; none: nothing any more.
    Watch {
        /// `machine:interface`.
        interfaces: Vec<String>,
    },
    /// From now on writes all that happens to the descriptor that comes along: a journal (`vink_record`).
    Journal,
    /// Writes this into the journal, if there is one, behind all that has happened until now.
    Note(Noted),
    /// Ends it. [`Answer::Journal`].
    EndJournal {
        /// The control process has something to do at this time that is not done.
        amidst: bool,
    },
    /// Lets a virtual clock go on until it is at this time, in ns of the kernel's clock, where it stands again and
    /// [`Event::Stands`] comes: as one that has passed is, it stands at once. Does nothing if other than `news`
    /// news were told, each of which stops the clock: [`Event::Ended`], and [`Hit::is_news`]. [`Answer::Clock`].
    Go {
        /// The leg's number, for [`Event::Stands`].
        leg: u64,
        /// The time.
        until: u64,
        /// Also stands when this has happened.
        stop: Option<Stop>,
        /// So many times as fast as the host's clock, at most.
        speed: Option<f64>,
        /// News that were taken notice of.
        news: u64,
    },
    /// What time it is. [`Answer::Clock`].
    Clock,
    /// Has the kernel panic, to see what a lab makes of it. There is no answer: [`Event::Panic`] comes.
    Panic,
}

impl Action {
    /// How many descriptors come along.
    pub fn descriptors(&self) -> usize {
        match self {
            Action::All(actions) => actions.iter().map(Action::descriptors).sum(),
            Action::Spawn(_)
            | Action::Uplink {
                outside: Outside::Worker,
                ..
            } => 3,
            Action::Capture { .. }
            | Action::AddSeries { .. }
            | Action::Record(_)
            | Action::Journal => 1,
            _ => 0,
        }
    }
}

/// What of a lab's doings its worker can't see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Noted {
    /// A line was carried out.
    Line {
        /// The line.
        line: String,
        /// Why not.
        error: Option<String>,
    },
    /// Somebody outside asks for something.
    Asked {
        /// `POST` and so on.
        method: String,
        /// Of the request.
        path: String,
        /// Of the request.
        body: String,
        /// It is only about the clock.
        clock: bool,
    },
}

/// A machine to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewMachine {
    /// Its name in the lab, and its host name.
    pub machine: String,
    /// Forwards packets.
    pub forward: bool,
    /// Absolute paths and texts of its files.
    pub files: Vec<(String, String)>,
    /// An absolute path: the folder whose files shadow the host's.
    pub root: Option<String>,
    /// Values below /proc/sys, by their names in sysctl(8), set before its interfaces come.
    pub sysctls: Vec<(String, String)>,
}

/// An interface to be made, and set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewInterface {
    /// Whose.
    pub machine: String,
    /// Its name.
    pub interface: String,
    /// The wire that it is attached to.
    pub wire: Option<String>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
}

/// A program to be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewProgram {
    /// On which machine.
    pub machine: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub dir: String,
    /// Its standard input is a terminal, which becomes its controlling one.
    pub terminal: bool,
}

/// What is outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// As in the lab file.
    Uplink(Uplink),
    /// A wire to another worker.
    Worker,
}

/// What stops a virtual clock, besides the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Something has happened to a packet at an interface.
    Packet,
    /// A program of the host has made a system call that concerns Vink.
    Call,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// The first one: it has booted.
    Ready {
        /// [`VERSION`].
        protocol: u32,
        /// The release of its kernel.
        release: String,
        /// Milliseconds that it took to boot.
        boot_ms: f64,
    },
    /// A request was carried out.
    Done {
        /// The request's.
        id: u64,
        /// What came of it.
        answer: Answer,
    },
    /// A request failed, and changed nothing.
    Failed {
        /// The request's.
        id: u64,
        /// For its user: what was tried, what was found, what to do.
        error: String,
    },
    /// Something happened.
    Event(Event),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Nothing to tell.
    Nothing,
    /// Of each of several.
    List(Vec<Answer>),
    /// The number of what was started.
    Program(u64),
    /// The number of a capture.
    Capture(u64),
    /// How many packets a capture has written, and how many it has missed.
    Captured {
        /// Packets written.
        written: u64,
        /// Packets that came faster than they could be written.
        missed: u64,
    },
    /// A virtualized process's report.
    Report(serde_json::Value),
    /// To a question.
    Yes(bool),
    /// What time it is, in ns of the kernel's clock.
    Clock {
        /// Now.
        now: u64,
        /// When the kernel does something by itself next.
        next: Option<u64>,
    },
    /// What passt gave a machine.
    Route {
        /// Its addresses.
        addresses: Vec<IpNet>,
        /// Its resolver, as in resolv.conf(5).
        resolver: String,
    },
    /// What came of a run.
    Journal(Totals),
    /// How everything is.
    Status(Status),
    /// How time series are.
    Series(Vec<SeriesStatus>),
    /// How breakpoints are.
    Breakpoints {
        /// All of them, by name.
        all: Vec<BreakpointStatus>,
        /// All of the lab has stopped.
        stopped: bool,
        /// The machines that have stopped.
        machines: Vec<String>,
    },
}

/// Where a breakpoint is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// At all interfaces.
    Everywhere,
    /// `machine:interface`.
    Interface(String),
    /// At all of a machine's.
    Machine(String),
    /// At all of a wire's.
    Wire(String),
}

/// How a breakpoint is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreakpointStatus {
    /// Its name.
    pub breakpoint: String,
    /// Packets that it was about.
    pub seen: u64,
    /// Packets that it has done something to.
    pub hits: u64,
}

/// How a time series is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesStatus {
    /// Its name.
    pub series: String,
    /// Rows that were written.
    pub rows: u64,
    /// Events that came faster than they could be kept.
    pub missed: u64,
    /// Why it has ended.
    pub error: Option<String>,
}

/// A breakpoint that was met, and that tells of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Its name.
    pub breakpoint: String,
    /// How often it was met by now.
    pub number: u64,
    /// By which packet.
    pub packet: Packet,
    /// What has stopped.
    pub stopped: Option<vink_spec::Stop>,
    /// A line that is to be carried out; then [`Action::BreakpointRan`].
    pub run: Option<String>,
}

impl Hit {
    /// Whether the clock stands until the control process knows of it ([`Action::Go`]).
    pub fn is_news(&self) -> bool {
        self.run.is_some() || self.stopped == Some(vink_spec::Stop::All)
    }
}

/// How a worker is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The kernel's counters by name (struct vink_counters).
    pub counters: Vec<(String, u64)>,
    /// Resident memory of the worker in bytes.
    pub resident: u64,
    /// Its machines.
    pub machines: Vec<MachineStatus>,
    /// Its wires.
    pub wires: Vec<WireStatus>,
}

/// How a machine is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineStatus {
    /// Its name.
    pub machine: String,
    /// Its interfaces but `lo`.
    pub interfaces: Vec<InterfaceStatus>,
}

/// How an interface is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub interface: String,
    /// The wire it is attached to.
    pub wire: Option<String>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its addresses now, those that programs have added too.
    pub addresses: Vec<IpNet>,
    /// Packets and bytes received and sent, and packets dropped, by name (`rx_packets` ...).
    pub counters: Vec<(String, u64)>,
}

/// How a wire is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireStatus {
    /// Its name.
    pub wire: String,
    /// Plugged in.
    pub up: bool,
    /// Its ends, and what happened to packets sent there, by name (`sent`, `lost`, `corrupted` ...).
    pub ends: Vec<(String, Vec<(String, u64)>)>,
    /// What is wrong with its uplink.
    pub uplink_error: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A program has ended: its first process.
    Ended {
        /// Which.
        program: u64,
        /// 0 to 255, or 128 + a signal; 126 and 127 if it could not be executed.
        code: i32,
        /// When, in ns of the kernel's clock.
        time: u64,
        /// Why it could not be executed, or how a virtualized process failed.
        error: Option<String>,
        /// A virtualized process's report.
        report: Option<serde_json::Value>,
    },
    /// A virtual clock has come as far as it was to go, and nothing more can happen at that time.
    Stands {
        /// Where it was last sent.
        leg: u64,
        /// The time, in ns of the kernel's clock.
        now: u64,
    },
    /// A virtualized process has written something.
    Output {
        /// Which.
        program: u64,
        /// What.
        text: String,
    },
    /// The last process of a program has ended.
    Gone {
        /// Which.
        program: u64,
    },
    /// An uplink has failed, or works again.
    Uplink {
        /// Of which wire.
        wire: String,
        /// What is wrong; none: nothing any more.
        error: Option<String>,
    },
    /// A capture has ended by itself.
    CaptureEnded {
        /// Which.
        capture: u64,
        /// Why.
        error: String,
    },
    /// A packet departed, arrived or was lost.
    Packet(Packet),
    /// A breakpoint was met, and this is what the kernel's clock was at (ns) when that was found.
    Breakpoint {
        /// What has happened.
        hit: Hit,
        /// When it was found.
        time: u64,
    },
    /// So many packets since the last one were not told, since they came faster than they were taken.
    Missed {
        /// How many.
        packets: u64,
    },
    /// The kernel has panicked; the worker ends now.
    Panic {
        /// What it said.
        message: String,
        /// Symbols, innermost first.
        backtrace: Vec<String>,
        /// The end of its log.
        log: String,
    },
    /// Text of the kernel's log: whole lines.
    Log {
        /// The text.
        text: String,
    },
}

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Packet {
    /// Nanoseconds of the kernel's clock.
    pub time: u64,
    /// `machine:interface`.
    pub end: String,
    /// `departure`, `arrival` or `loss`.
    pub kind: String,
    /// Why it was lost, in the kernel's or the wire's word.
    pub reason: Option<String>,
    /// Its length in bytes, with its Ethernet header.
    pub length: u32,
    /// A line such as tcpdump's about it.
    pub summary: String,
}
