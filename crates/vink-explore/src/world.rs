//! What is known of the lab and its run: for properties, and for reports.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use vink_apps::AppId;
use vink_pcb::{Connection, Process};

use crate::ends::Cheaply;
use crate::fields::Fields;

/// Bytes of a program's output that are kept.
const MOST_OUTPUT: usize = 1 << 20;

/// An interface at a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whose.
    pub machine: String,
    /// Its name there.
    pub interface: String,
    /// The wire's name.
    pub wire: String,
}

impl End {
    /// `machine:interface`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.machine, self.interface)
    }
}

/// An app of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Whose.
    pub machine: String,
    /// Its name there.
    pub name: String,
    /// The app, or the program, and its arguments.
    pub words: Vec<String>,
    /// What it has written: to standard output and error.
    #[serde(default)]
    pub output: String,
    /// How it has ended.
    pub ended: Option<Ended>,
}

impl Program {
    /// The last line that it has written, if there is one.
    pub fn last_line(&self) -> Option<&str> {
        let mut lines = self.output.lines().rev();
        lines.find(|line| !line.trim().is_empty())
    }

    /// How it has failed: with which status, and why. `None`: it has not ended, or with status 0.
    pub fn failure(&self) -> Option<String> {
        let ended = self.ended.as_ref().filter(|ended| ended.status != 0)?;
        let why = ended.error.as_deref().or(self.last_line());
        let why = why.unwrap_or("it does not say why");
        Some(format!("status {} ({why})", ended.status))
    }
}

/// What a program has written: as much as was there when all machines waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// When, ns.
    pub time: u64,
    /// The program's place in [`World::programs`].
    pub program: usize,
    /// Whole lines, mostly.
    pub text: String,
}

/// How a program has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When, ns.
    pub time: u64,
    /// Its exit status.
    pub status: i32,
    /// Why it gave up.
    pub error: Option<String>,
}

/// What a schedule has done to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When the packet departed, ns.
    pub time: u64,
    /// Which one, and what has become of it.
    pub deviation: crate::Deviation,
    /// Of one that comes late: when it went on.
    pub until: Option<u64>,
}

/// An app's call that has returned.
#[derive(Debug)]
pub struct AppCall<'a> {
    /// On the clock of the machines, ns.
    pub time: u64,
    /// Whose: its place in [`World::programs`].
    pub program: usize,
    /// The call's number: `libc::SYS_*`.
    pub nr: i64,
    /// Its arguments.
    pub args: [u64; 6],
    /// Its raw result: `-errno` on failure.
    pub result: i64,
    /// Of a TCP socket that is connected, or connects: its own address and its peer's.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The bytes that it has sent or received, as many as the result says.
    pub data: &'a [u8],
    /// What the bytes are.
    pub moves: Moves,
}

/// What a call does with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moves {
    /// Nothing.
    Nothing,
    /// It gives them to the socket.
    Sent,
    /// It has them from the socket; none at its end.
    Received,
    /// It ends the sending side: shutdown(2), close(2).
    Closes,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The programs that end have ended, and so have their connections.
    Done,
    /// Nothing will ever happen: no timer is armed.
    Silent,
    /// The time after the last fault is over.
    Late,
    /// More packets were sent than a run may have.
    Flood,
}

/// The lab, and how far it is.
pub struct World {
    /// The clock of the machines, ns.
    pub now: u64,
    /// When its programs begin, ns.
    pub begin: u64,
    /// Interfaces at wires.
    pub ends: Vec<End>,
    /// Programs.
    pub programs: Vec<Program>,
    /// The run without faults: how its apps have ended. Empty in that run itself.
    pub expected: Vec<Option<Ended>>,
    /// How many connections the run without faults has left.
    pub expected_connections: usize,
    /// What the schedule has done so far.
    pub faults: Vec<Fault>,
    /// Packets, of those that are searched, that have departed and neither arrived nor been lost:
    /// those that are held, too.
    pub under_way: i64,
    /// What the kernel has said of itself that is no good sign: lines of its log.
    pub complaints: Vec<String>,
    /// What programs have written, in its order.
    pub lines: Vec<Written>,
    /// Numbers that the lab file's properties compare, by their words: those that are there.
    pub numbers: HashMap<String, f64>,
    /// Which machines have which addresses.
    pub(crate) addresses: Cheaply<IpAddr, String>,
    /// Apps that run: their programs' places.
    pub(crate) apps: HashMap<AppId, usize>,
    /// Reads the kernel's memory; none: the image's debug information can't be read.
    pub(crate) memory: Option<Process>,
    /// Why it can't.
    pub(crate) unreadable: Option<String>,
    /// Fields that were asked for.
    pub(crate) fields: RefCell<Fields>,
    /// Machines by the addresses of their `struct net`.
    pub(crate) nets: Vec<(u64, String)>,
}

impl World {
    /// Without any program.
    pub(crate) fn new(now: u64, ends: Vec<End>) -> World {
        World {
            now,
            begin: now,
            ends,
            programs: Vec::new(),
            expected: Vec::new(),
            expected_connections: usize::MAX,
            faults: Vec::new(),
            under_way: 0,
            complaints: Vec::new(),
            lines: Vec::new(),
            numbers: HashMap::new(),
            addresses: Cheaply::default(),
            apps: HashMap::new(),
            memory: None,
            unreadable: None,
            fields: RefCell::default(),
            nets: Vec::new(),
        }
    }

    /// A field of a `struct tcp_sock` as a number, by its name as `vink pcb --json` has it; `None`:
    /// there is no such field, or it is no number.
    pub fn field(&self, socket: &[u8], name: &'static str) -> Option<u64> {
        if socket.is_empty() {
            return None;
        }
        self.fields.borrow_mut().number(socket, name, || {
            self.memory.as_ref()?.layout().tcp.field(name).cloned()
        })
    }

    /// Whether a socket is that of a connection between these ports. What answers for connections
    /// that have none of their own, as with a reset, is no `struct tcp_sock`.
    pub(crate) fn is_of(&self, socket: &[u8], own: u16, peer: u16) -> bool {
        self.field(socket, "skc_num") == Some(own.into())
            && self.field(socket, "skc_dport") == Some(peer.to_be().into())
    }

    /// The state of a connection, as ss(8) has it.
    pub fn state(&self, socket: &[u8]) -> &str {
        let number = self.field(socket, "skc_state").unwrap_or(0);
        let layout = self.memory.as_ref().map(Process::layout);
        layout.map_or("?", |layout| layout.state(number))
    }

    /// All TCP connections of all machines, with their machines' names. Not those that only wait
    /// for their last segments to die (TIME-WAIT), nor sockets that listen. None without the image's
    /// debug information.
    pub fn connections(&self) -> Vec<(&str, Connection)> {
        let Some(memory) = &self.memory else {
            return Vec::new();
        };
        let nets: Vec<u64> = self.nets.iter().map(|(net, _)| *net).collect();
        let found = memory.connections_of(&nets).unwrap_or_default();
        let named = |one: Connection| {
            let (_, machine) = self.nets.iter().find(|(net, _)| *net == one.net)?;
            Some((machine.as_str(), one))
        };
        found.into_iter().filter_map(named).collect()
    }

    /// The program `machine.program`.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|its| {
            let rest = name.strip_prefix(its.machine.as_str());
            rest.and_then(|rest| rest.strip_prefix('.')) == Some(&its.name)
        })
    }

    /// The programs that end without faults, and have not ended.
    pub fn waiting(&self) -> impl Iterator<Item = &Program> {
        let all = self.programs.iter().zip(&self.expected);
        all.filter_map(|(program, expected)| {
            (expected.is_some() && program.ended.is_none()).then_some(program)
        })
    }

    /// Whether a packet with this address is at the machine that has it: at an end of its way, and
    /// not at a router between.
    pub(crate) fn is_at(&self, end: usize, address: IpAddr) -> bool {
        let machine = &self.ends[end].machine;
        // What no lab file names is not forwarded.
        self.addresses
            .get(&address)
            .is_none_or(|its| its == machine)
    }

    /// Whether a program speaks for this address with a TCP of its own, on an interface that has
    /// none: no machine of the lab has it.
    pub(crate) fn is_foreign(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_own = match address {
            IpAddr::V4(address) => address.is_loopback(),
            IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
        };
        !is_own && !self.addresses.is_empty() && !self.addresses.contains_key(&address)
    }

    /// A program has written something.
    pub(crate) fn hear(&mut self, program: usize, text: &str) {
        let known = &mut self.programs[program].output;
        if text.is_empty() || known.len() > MOST_OUTPUT {
            return;
        }
        known.push_str(text);
        self.lines.push(Written {
            time: self.now,
            program,
            text: text.to_owned(),
        });
    }

    /// This process may be a fork of the one whose memory was read.
    pub(crate) fn follow_fork(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.follow_fork(std::process::id());
        }
    }

    /// When the last fault was over, ns: 0 without one.
    pub fn last_fault(&self) -> u64 {
        let times = self.faults.iter();
        times
            .map(|fault| fault.until.unwrap_or(fault.time))
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
impl World {
    /// With an interface of each of these machines, for tests of properties.
    pub(crate) fn of_ends(machines: &[&str]) -> World {
        let ends = machines.iter().map(|machine| End {
            machine: (*machine).to_owned(),
            interface: "eth0".to_owned(),
            wire: "w1".to_owned(),
        });
        World::new(0, ends.collect())
    }

    /// And a `struct tcp_sock` of these fields, which [`World::socket`] makes the bytes of.
    pub(crate) fn with_fields(self, names: &[&'static str]) -> World {
        self.fields.replace(Fields::of_names(names));
        self
    }

    /// The bytes of a `struct tcp_sock`: those of [`World::with_fields`] that are not named are 0.
    pub(crate) fn socket(&self, values: &[(&str, u64)]) -> Vec<u8> {
        let fields = self.fields.borrow();
        let value = |name: &&str| values.iter().find(|(its, _)| its == name);
        let numbers = fields.names();
        let numbers = numbers.map(|name| value(&name).map_or(0, |(_, value)| *value));
        numbers.flat_map(u64::to_le_bytes).collect()
    }
}
