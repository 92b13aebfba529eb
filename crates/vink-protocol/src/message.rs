//! Requests, answers and events.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use vink_record::{Part, Totals, Typed};
use vink_spec::{Breakpoint, PathSpec, PodSpec, Rights, Series, Settings, ShareGrant, Uplink};

use crate::{EndNumber, FeedRequest, Filter};

/// The version of this protocol: control and worker are the same `vink`, so that another one means
/// that the file has been replaced.
pub const VERSION: u32 = 6;

/// Asks a worker to do something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back with the answer.
    pub id: u64,
    /// What is to be done.
    pub action: Action,
}

/// What a worker can do. Names are those of the lab; a name may be used again when what had it is
/// gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Several, one after the other, up to the first that fails. [`Answer::List`]: what those that
    /// were done answered. The error of one that failed names it by its place.
    All(Vec<Action>),
    /// Makes a machine with its loopback interface up.
    Machine(NewMachine),
    /// Kills its programs and gives it up with all its interfaces.
    RemoveMachine {
        /// The machine's name.
        machine: String,
    },
    /// What programs started from now on find in these files.
    Files {
        /// The machine's name.
        machine: String,
        /// Absolute paths, and texts.
        files: Vec<(String, String)>,
    },
    /// What programs of every machine find in /etc/hosts after their machine's own names, if they
    /// are started from now on: the names of the whole lab, in the format of hosts(5). All machines
    /// share this text, so that ten thousand of them have it once; [`NewMachine::files`] says
    /// nothing of /etc/hosts, unless the lab file does, which comes first.
    Hosts {
        /// Lines in the format of hosts(5).
        text: String,
    },
    /// Sets a value below /proc/sys of a machine.
    Sysctl {
        /// The machine's name.
        machine: String,
        /// As in sysctl(8).
        name: String,
        /// What is written.
        value: String,
    },
    /// Lets a machine forward packets, IPv4 and IPv6, or not.
    Forward {
        /// The machine's name.
        machine: String,
        /// Whether it does.
        forward: bool,
    },
    /// Makes a wire without ends.
    Wire {
        /// The wire's name.
        wire: String,
        /// An Ethernet segment of any number of ends.
        bus: bool,
    },
    /// Detaches all ends and gives the wire up.
    RemoveWire {
        /// The wire's name.
        wire: String,
    },
    /// Makes an interface, without a wire if none is given.
    Attach(NewInterface),
    /// Removes an interface.
    Detach {
        /// The machine's name.
        machine: String,
        /// The interface's name.
        interface: String,
    },
    /// Adds an address to an interface.
    Address {
        /// The machine's name.
        machine: String,
        /// The interface's name.
        interface: String,
        /// The address and its network.
        address: IpNet,
        /// Removes it instead.
        remove: bool,
    },
    /// Adds a route.
    Route {
        /// The machine's name.
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
    /// Replaces the settings of a wire, or of what is sent at one end.
    Set {
        /// The wire's name.
        wire: String,
        /// `machine:interface`, or `outside`; none: all ends, those to come too.
        end: Option<String>,
        /// All settings; what is not named is ideal.
        settings: Settings,
    },
    /// Connects or disconnects a wire.
    Plug {
        /// The wire's name.
        wire: String,
        /// Whether it is connected.
        up: bool,
    },
    /// Attaches a wire to an uplink. With [`UplinkTarget::Worker`], descriptors come along: what
    /// `uplink::shared` made; with [`UplinkTarget::Driver`] and [`UplinkTarget::Host`], sockets. With passt, or an address of the host's, the machine at
    /// the wire's first end gets addresses and routes, now or when it comes; if now, [`Answer::Route`] tells them.
    Uplink {
        /// The wire's name.
        wire: String,
        /// What it leads to.
        target: UplinkTarget,
    },
    /// Detaches a wire from its uplink.
    RemoveUplink {
        /// The wire's name.
        wire: String,
    },
    /// Starts a program with the three descriptors that come along as its standard input, output
    /// and error. [`Answer::Program`]; [`Event::Ended`] follows.
    Spawn(NewProgram),
    /// Sends a signal to a program's process group.
    Signal {
        /// The program's number.
        program: u64,
        /// The signal's number.
        signal: i32,
    },
    /// Kills all that is left of a program's processes.
    Kill {
        /// The program's number.
        program: u64,
    },
    /// Starts a virtualized process. [`Answer::Program`]; [`Event::Ended`] follows, with its
    /// report.
    App {
        /// The machine's name.
        machine: String,
        /// Its name and arguments.
        words: Vec<String>,
    },
    /// Asks a virtualized process to end; with `report` it only tells how far it is.
    /// [`Answer::Report`].
    StopApp {
        /// The program's number.
        program: u64,
        /// Only reports, and does not end it.
        report: bool,
    },
    /// Whether something on a machine listens on a TCP port. [`Answer::Yes`].
    Listens {
        /// The machine's name.
        machine: String,
        /// The port.
        port: u16,
        /// A UDP socket that is bound to the port will do, too.
        udp: bool,
    },
    /// How its machines, wires and kernel are. [`Answer::Status`].
    Status {
        /// These machines' interfaces and addresses, and the wires that they are at; none: of all.
        /// An empty list: no machine, but all wires.
        machines: Option<Vec<String>>,
    },
    /// Writes packets of interfaces to the descriptor that comes along, as pcapng.
    /// [`Answer::Capture`].
    Capture {
        /// `machine:interface`.
        interfaces: Vec<String>,
        /// The packets that are written; `None`: all.
        filter: Option<Filter>,
        /// Bytes of each packet; 0: all.
        snap: u32,
    },
    /// Ends a capture. [`Answer::Captured`].
    StopCapture {
        /// The capture's number.
        capture: u64,
    },
    /// Sets a breakpoint, replacing one of this name.
    Breakpoint {
        /// The breakpoint's name.
        breakpoint: String,
        /// Where it is.
        scope: BreakpointScope,
        /// Its specification; the worker takes `scope` for `at`, and the compiled filter.
        what: Breakpoint,
        /// Its compiled filter.
        filter: Option<Filter>,
    },
    /// Removes a breakpoint, if there is one. What waits because of it goes on.
    RemoveBreakpoint {
        /// The breakpoint's name.
        breakpoint: String,
    },
    /// Enables or disables a breakpoint.
    EnableBreakpoint {
        /// The breakpoint's name.
        breakpoint: String,
        /// Whether it is enabled.
        enabled: bool,
    },
    /// What they have counted, and which machines have stopped. [`Answer::Breakpoints`].
    Breakpoints,
    /// The line of a breakpoint was carried out: the packet that waited for it goes on.
    BreakpointRan {
        /// The breakpoint's name.
        breakpoint: String,
    },
    /// Says what becomes of the packet by which a breakpoint has stopped the lab, when it goes on.
    DecidePacket {
        /// The breakpoint's name.
        breakpoint: String,
        /// Which hit of it.
        number: u64,
        /// What becomes of it.
        decision: PacketDecision,
    },
    /// Loads a pod, in the place of one of this name: paths go on through the new one.
    LoadPod {
        /// The pod's name.
        pod: String,
        /// Its specification.
        what: PodSpec,
        /// Its file, as an absolute path.
        file: String,
    },
    /// Ends a pod, if there is one, and takes back all that it has. Paths through it do with their
    /// packets what they do when a pod has ended.
    RevokePod {
        /// The pod's name.
        pod: String,
        /// It is forgotten, too; no path leads through it.
        forget: bool,
    },
    /// Makes a path, in the place of one of this name.
    AddPath {
        /// The path's name.
        path: String,
        /// Its specification.
        what: PathSpec,
        /// Its compiled filter.
        filter: Option<Filter>,
    },
    /// Removes a path, if there is one; its packets that wait are lost.
    RemovePath {
        /// The path's name.
        path: String,
    },
    /// How pods and paths are. [`Answer::Pods`].
    Pods,
    /// Begins a time series, replacing one of this name, in the file whose descriptor comes along.
    AddSeries {
        /// The series' name.
        series: String,
        /// Its specification.
        what: Series,
        /// Where paths of files begin.
        folder: String,
    },
    /// Ends a time series, if there is one, and its file.
    RemoveSeries {
        /// The series' name.
        series: String,
    },
    /// How they are. [`Answer::Series`].
    Series,
    /// Stops the lab: a breakpoint of another worker has stopped it.
    Stop,
    /// Resumes the lab, if a breakpoint has stopped it.
    Resume,
    /// Resumes a machine that a breakpoint has stopped.
    ResumeMachine {
        /// Which; none: all of them.
        machine: Option<String>,
    },
    /// Writes what sockets are when the kernel passes these tracepoints to the descriptor that
    /// comes along, until its reader has closed it; see [`ProbeRequest`].
    Probe(ProbeRequest),
    /// Sends [`Event::Packet`] for what happens at these interfaces, from now on; none: nothing any
    /// more.
    Watch {
        /// `machine:interface`.
        interfaces: Vec<String>,
    },
    /// From now on frames name ends by these numbers, which those of other ends have no more.
    NumberEnds {
        /// The topology's revision that has them.
        revision: u64,
        /// Of all ends of this worker.
        ends: Vec<EndNumber>,
    },
    /// Writes a feed's frames to the descriptor that comes along, until its reader has closed it.
    Feed(FeedRequest),
    /// From now on writes all that happens to the descriptor that comes along: a journal
    /// (`vink_record`).
    Journal,
    /// Writes this into the journal, if there is one, behind all that has happened until now.
    Note(Noted),
    /// Writes all of it that has happened until now.
    FlushJournal,
    /// Programs have been given something that no call has told the worker of: input, a signal of
    /// their terminal. It is looked for before time passes.
    Stir,
    /// Ends it. [`Answer::Journal`].
    EndJournal {
        /// The control process has something to do at this time that is not done.
        incomplete: bool,
    },
    /// Runs a virtual clock until it is at this time, in ns of the kernel's clock; then it pauses,
    /// and [`Event::Paused`] follows. If the time has passed, it pauses at once. Events that pause
    /// the clock ([`Event::Ended`], [`Hit::pauses_clock`]) advance the event epoch; a run requested
    /// in an earlier epoch is ignored. [`Answer::Clock`].
    RunUntil {
        /// The number of this run, for [`Event::Paused`].
        run: u64,
        /// The time.
        until: u64,
        /// Also pauses when this has happened.
        stop: Option<Stop>,
        /// At most so many times as fast as the host's clock.
        speed: Option<f64>,
        /// The event epoch that the control process has seen.
        epoch: u64,
    },
    /// What time it is. [`Answer::Clock`].
    Clock,
    /// Has the kernel panic, to see what a lab makes of it. There is no answer: [`Event::Panic`]
    /// comes.
    Panic,
}

impl Action {
    /// How many descriptors come along.
    pub fn descriptors(&self) -> usize {
        match self {
            Action::All(actions) => actions.iter().map(Action::descriptors).sum(),
            Action::Spawn(_) => 3,
            Action::Uplink { target, .. } => target.descriptors(),
            Action::Capture { .. }
            | Action::AddSeries { .. }
            | Action::Probe(_)
            | Action::Feed(_)
            | Action::Journal => 1,
            _ => 0,
        }
    }
}

/// Which samples of sockets a worker takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// The names of tracepoints whose first argument is a `struct sock *`.
    pub points: Vec<String>,
    /// Bytes of each socket, 65,536 at most.
    pub bytes: usize,
    /// Only sockets that have this 64-bit number at this offset in bytes.
    pub only: Option<(usize, u64)>,
}

/// Journal entries that the worker cannot make by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Noted {
    /// A line was carried out.
    Line {
        /// The line.
        line: String,
        /// Why it failed.
        error: Option<String>,
    },
    /// A client's request.
    Asked {
        /// The user that has asked.
        actor: String,
        /// `POST` and so on.
        method: String,
        /// The request's path.
        path: String,
        /// The request's body.
        body: String,
        /// It is only about the clock.
        clock: bool,
    },
    /// Machines or wires have changed.
    Changed {
        /// Those that have, as they are now.
        parts: Vec<Part>,
    },
    /// What a client gives a program.
    Input {
        /// The program's number in the lab.
        program: u64,
        /// Its machine.
        machine: String,
        /// The client's user.
        actor: String,
        /// What.
        typed: Typed,
    },
}

/// A machine to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewMachine {
    /// Its name in the lab, and its host name.
    pub machine: String,
    /// Forwards packets.
    pub forward: bool,
    /// What its programs may do.
    pub rights: Rights,
    /// An absolute path: a folder of the host in which programs without full rights find nothing.
    pub hidden: Option<String>,
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
    /// The machine's name.
    pub machine: String,
    /// The interface's name.
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
    /// The machine's name.
    pub machine: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub dir: String,
    /// Its standard input is a terminal, which becomes its controlling one.
    pub terminal: bool,
    /// What it may do; none: what the machine's programs may. Programs with different rights share
    /// no namespace of the host.
    pub rights: Option<Rights>,
}

/// What an uplink leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UplinkTarget {
    /// As in the lab file.
    Uplink(Uplink),
    /// A wire to another worker.
    Worker,
    /// A wire to a worker on another host, by a bound UDP socket.
    Host {
        /// Where the other side is; none: it is known when it has been heard.
        peer: Option<SocketAddr>,
        /// What packets are encrypted with.
        keys: WireKeys,
    },
    /// A driver process, which asks for its end by the other end of a socket.
    Driver {
        /// What the machine at the wire's first end has got of the host's address.
        share: Option<ShareGrant>,
    },
}

impl UplinkTarget {
    /// How many descriptors come along.
    pub fn descriptors(&self) -> usize {
        match self {
            UplinkTarget::Uplink(_) => 0,
            UplinkTarget::Worker => 3,
            UplinkTarget::Host { .. } => 1,
            // It is asked for ports by another one.
            UplinkTarget::Driver { share } => match share {
                Some(share) if share.on_demand => 2,
                _ => 1,
            },
        }
    }
}

/// The keys of one side of a wire between two hosts. What is printed of them does not tell them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireKeys {
    /// Of what this side sends.
    pub send: [u8; 32],
    /// Of what it receives.
    pub receive: [u8; 32],
}

impl std::fmt::Debug for WireKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WireKeys")
    }
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
        /// The request's number.
        id: u64,
        /// What came of it.
        answer: Answer,
    },
    /// A request failed, and changed nothing.
    Failed {
        /// The request's number.
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
    /// How pods and paths are, by name.
    Pods {
        /// The pods.
        pods: Vec<PodStatus>,
        /// The paths.
        paths: Vec<PathStatus>,
    },
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
pub enum BreakpointScope {
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
    /// The breakpoint's name.
    pub breakpoint: String,
    /// Packets that it was about.
    pub seen: u64,
    /// Packets that it has done something to.
    pub hits: u64,
}

/// How a pod is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodStatus {
    /// The pod's name.
    pub pod: String,
    /// Its wall, by its word in a lab file.
    pub wall: String,
    /// Why it has ended.
    pub ended: Option<String>,
    /// Bytes of memory that it has.
    pub memory: u64,
    /// How often its wall was crossed, and how many calls that were.
    pub crossings: u64,
    /// Calls of its functions.
    pub calls: u64,
    /// Cycles of the processor in these crossings.
    pub cycles: u64,
    /// Its counters.
    pub counters: Vec<i64>,
    /// The last lines of its log.
    pub log: Vec<String>,
}

/// How a path is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// The path's name.
    pub path: String,
    /// The pod of it that has ended.
    pub ended: Option<String>,
    /// Its numbers, by name: `packets`, `bytes`, `cycles`, `passed`, `changed`, `dropped`, `emitted`,
    /// `waited`, `waiting`, `lost`, `overdrafts`.
    pub numbers: Vec<(String, u64)>,
}

/// How a time series is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesStatus {
    /// The series' name.
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
    /// The breakpoint's name.
    pub breakpoint: String,
    /// How often it was met by now.
    pub number: u64,
    /// By which packet.
    pub packet: Packet,
    /// What has stopped.
    pub stopped: Option<vink_spec::Stop>,
    /// The packet's bytes from its Ethernet header on, if all of the lab has stopped before it
    /// passes.
    pub frame: Option<Vec<u8>>,
    /// A line that is to be carried out; then [`Action::BreakpointRan`].
    pub run: Option<String>,
}

/// What becomes of a packet that has stopped the lab, beside what breakpoints do to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketDecision {
    /// It is lost.
    pub drop: bool,
    /// It passes so much later, in nanoseconds.
    pub delay: u64,
    /// These bytes pass in its place, from the Ethernet header on.
    pub frame: Option<Vec<u8>>,
}

impl Hit {
    /// Whether the clock is paused until the control process has seen it ([`Action::RunUntil`]).
    pub fn pauses_clock(&self) -> bool {
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
    /// The machine's name.
    pub machine: String,
    /// Its interfaces but `lo`.
    pub interfaces: Vec<InterfaceStatus>,
}

/// How an interface is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// The interface's name.
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
    /// The wire's name.
    pub wire: String,
    /// Whether it is connected.
    pub up: bool,
    /// Its ends, and what happened to packets sent there, by name (`sent`, `lost`, `corrupted`
    /// ...).
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
        /// The program's number.
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
    /// A virtual clock is at the end of its run, and the lab is idle at that time.
    Paused {
        /// The run that has ended.
        run: u64,
        /// The time, in ns of the kernel's clock.
        now: u64,
    },
    /// A virtualized process has written something.
    Output {
        /// The program's number.
        program: u64,
        /// The text.
        text: String,
    },
    /// The last process of a program has ended.
    Gone {
        /// The program's number.
        program: u64,
    },
    /// An uplink has failed, or works again.
    Uplink {
        /// The wire's name.
        wire: String,
        /// What is wrong; none: nothing any more.
        error: Option<String>,
    },
    /// A capture has ended by itself.
    CaptureEnded {
        /// The capture's number.
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
    /// A pod was ended by what it did.
    PodEnded {
        /// The pod's name.
        pod: String,
        /// The path that has crossed its wall then; none: no path.
        path: Option<String>,
        /// What it did.
        fault: String,
        /// When, in ns of the kernel's clock.
        time: u64,
    },
    /// A line of a pod's log.
    PodLog {
        /// The pod's name.
        pod: String,
        /// The line.
        line: String,
    },
    /// So many packets since the last one were not told, since they came faster than they were
    /// taken.
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

/// What a worker's watchdog says, as a line of JSON on a pipe of its own: its kernel may be in the
/// middle of something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogReport {
    /// The kernel has not returned.
    Stuck {
        /// For so long, by the host's clock.
        seconds: f64,
        /// So much of the processor's time.
        processor_seconds: f64,
        /// Symbols, innermost first.
        backtrace: Vec<String>,
    },
    /// It has, after so long.
    Returned {
        /// By the host's clock.
        seconds: f64,
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
