//! A run without what may be any value: what each end of a connection has sent, in its order.
//!
//! Two runs of the same schedule on two images have other ports, initial sequence numbers, timestamps, and
//! windows. What is left of a segment when these are taken away is the same, if both images answer alike: its
//! flags, how far its numbers are behind the initial ones, its length, which bytes a receiver says that it has,
//! whether its window is open. When it was sent is kept for stories, and is not compared.
//!
//! A segment is looked at where it is sent, on the machine that sends it. What the schedule does to it comes
//! after that.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::outline::{Counterparts, Step};
use super::Comparison;
use crate::ends::ByEnds;
use crate::packet::internet;
use crate::{
    behind, blocks, options, AppCall, Ended, Ending, Fate, Moves, Packet, Point, Segment,
    Violation, World, BEHIND_LIMIT,
};

/// Numbers that are farther than this from where a connection began are of another one.
const FAR: i32 = 1 << 24;
/// Kinds of options (RFC 9293, 3.2; RFC 7323).
const NOP: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;

/// What has come of a run, to be compared with that of another image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Normal {
    /// What was sent, by sender and receiver, in the order in which that began.
    pub flows: Vec<Flow>,
    /// How programs have ended, and what they have received.
    pub programs: Vec<ProgramEnd>,
    /// Connections that are left: machine and state, in their order.
    pub left: Vec<(String, String)>,
    /// How the run has ended.
    pub ending: Option<Ending>,
    /// When, ns. Not compared.
    pub end: u64,
    /// What the kernel has complained of, or how its process has died.
    pub complaint: Option<String>,
    /// The packets that have had another fate: the flow's place, and theirs in it.
    pub hits: Vec<(usize, usize)>,
    /// What those have come behind that were to: packets that were sent until then, and whether the next one was of
    /// a flow; or none has come in time.
    pub behind: Vec<Option<(usize, bool)>>,
}

/// One direction of a connection; or all other packets of a protocol from one machine to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Which.
    pub name: FlowName,
    /// What was sent.
    pub sent: Vec<Sent>,
}

/// What tells a flow from others on any image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlowName {
    /// The machine that sends.
    pub from: String,
    /// The one that it is for.
    pub to: String,
    /// `TCP` and so on.
    pub protocol: String,
    /// Of TCP: the number of the connection between these two machines, from 1 on.
    pub number: usize,
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowName {
            from,
            to,
            protocol,
            number,
        } = self;
        match number {
            0 => write!(f, "{protocol} from {from} to {to}"),
            _ => write!(
                f,
                "{protocol} from {from} to {to}, connection {number} between them"
            ),
        }
    }
}

/// A packet of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// When, ns. Not compared.
    pub time: u64,
    /// Of a TCP segment: how many bytes may be sent behind it by the window that its sender has been told. Not
    /// compared.
    pub room: Option<i32>,
    /// What it says.
    pub item: Item,
}

/// What a packet says, without what may be any value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// A TCP segment.
    Segment(SegmentItem),
    /// Another packet: what its protocol calls its type, and how many bytes it carries.
    Other {
        /// ICMP's type and code, SCTP's first chunk; else 0.
        kind: u16,
        /// Bytes.
        length: usize,
    },
    /// Of an [outline](super::outline): the first segment of its sender that does this.
    Step {
        /// What it does.
        step: Step,
        /// Of data: how many bytes there are in all.
        bytes: Option<u64>,
    },
}

/// A TCP segment, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentItem {
    /// All flags.
    pub flags: u8,
    /// Where its data begins.
    pub seq: Number,
    /// What it acknowledges.
    pub ack: Option<Number>,
    /// Bytes of data.
    pub length: usize,
    /// Its window is 0.
    pub is_closed: bool,
    /// Its selective acknowledgements, from and to.
    pub sack: Vec<(Number, Number)>,
    /// The kinds of its options, in their order.
    pub options: Vec<u8>,
    /// The greatest segment that it takes.
    pub mss: Option<u16>,
    /// The state of the connection that has sent it, as ss(8) has it; nothing: it has no socket.
    pub state: String,
}

/// A sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Number {
    /// So many behind the initial one.
    Of(i32),
    /// So many behind the initial one of the connection that these ends had before.
    Before(i32),
    /// Zero itself, as of a reset.
    Zero,
    /// Of no connection of these ends that is known.
    Unknown,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Of(number) => write!(f, "{number}"),
            Number::Before(number) => write!(f, "{number} of the connection before"),
            Number::Zero => f.write_str("zero"),
            Number::Unknown => f.write_str("of no connection"),
        }
    }
}

impl Item {
    /// Whether it is this step of an outline.
    pub(super) fn does(&self, wanted: Step) -> bool {
        matches!(self, Item::Step { step, .. } if *step == wanted)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Segment(segment) => segment.fmt(f),
            Item::Step {
                step,
                bytes: Some(bytes),
            } => write!(f, "{step}, {bytes} bytes in all"),
            Item::Step { step, bytes: None } => step.fmt(f),
            Item::Other { kind: 0, length } => write!(f, "{length} bytes"),
            Item::Other { kind, length } => write!(f, "type {kind:#06x}, {length} bytes"),
        }
    }
}

impl fmt::Display for SegmentItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] seq {}", flags(self.flags), self.seq)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        write!(f, ", {} bytes", self.length)?;
        if self.is_closed {
            f.write_str(", window 0")?;
        }
        for (from, to) in &self.sack {
            write!(f, ", has {from}:{to}")?;
        }
        if self.flags & Segment::SYN != 0 {
            let kinds: Vec<String> = self.options.iter().map(u8::to_string).collect();
            write!(f, ", options {}", kinds.join(" "))?;
            if let Some(mss) = self.mss {
                write!(f, ", MSS {mss}")?;
            }
        }
        match self.state.as_str() {
            "" => Ok(()),
            state => write!(f, ", in {state}"),
        }
    }
}

/// As tcpdump has them.
fn flags(set: u8) -> String {
    let all = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W'];
    let letters = all.into_iter().enumerate();
    letters
        .filter(|(bit, _)| set & 1 << bit != 0)
        .map(|(_, letter)| letter)
        .collect()
}

/// How a program has ended, and what it has received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// `machine.name`.
    pub name: String,
    /// When it ended, ns. Not compared.
    pub time: Option<u64>,
    /// Its exit status, if it has ended, and why it gave up.
    pub status: Option<(i32, Option<String>)>,
    /// Of each TCP connection, in the order in which data came: how many bytes it has received, and their hash.
    pub received: Vec<(u64, String)>,
}

impl FlowName {
    /// The other direction's.
    pub fn peer(&self) -> FlowName {
        FlowName {
            from: self.to.clone(),
            to: self.from.clone(),
            ..self.clone()
        }
    }
}

impl Normal {
    /// What was sent in a flow; nothing, if there is none of this name.
    pub fn sent(&self, name: &FlowName) -> &[Sent] {
        let flow = self.flows.iter().find(|flow| flow.name == *name);
        flow.map_or(&[], |flow| &flow.sent)
    }

    /// Of a run whose process has died.
    pub fn dead(how: String) -> Normal {
        Normal {
            complaint: Some(how),
            ..Normal::default()
        }
    }

    /// A hash of all that is compared.
    pub fn digest(&self) -> String {
        let flows = self.flows.iter().map(|flow| {
            let sent = flow.sent.iter().map(|sent| &sent.item);
            (&flow.name, sent.collect::<Vec<_>>())
        });
        let programs = self.programs.iter();
        let programs = programs.map(|its| (&its.name, &its.status, &its.received));
        let all = (
            flows.collect::<Vec<_>>(),
            programs.collect::<Vec<_>>(),
            &self.left,
            self.ending,
            &self.complaint,
        );
        let bytes = serde_json::to_vec(&all).expect("plain data");
        blake3::hash(&bytes).to_hex()[..32].to_owned()
    }
}

/// Takes a run down as it goes.
#[derive(Default)]
pub(crate) struct Normalizer {
    normal: Normal,
    /// Only the outline is wanted.
    counterparts: Option<Arc<Counterparts>>,
    /// By sender and receiver: the connections of these ends, the newest last.
    ways: ByEnds<Vec<Way>>,
    /// How many connections there have been between two machines, by their names in order.
    connections: HashMap<(String, String), usize>,
    /// Flows of other protocols.
    others: HashMap<FlowName, usize>,
    /// What programs have received: by the program, the connection.
    received: Vec<Vec<Received>>,
    /// How many packets were sent.
    count: usize,
    /// Packets that are to come behind the next one of an interface, until a time: their places among
    /// [`Normal::behind`].
    waiting: Vec<(usize, u64, usize)>,
}

/// A direction of a connection.
struct Way {
    flow: usize,
    /// Its initial sequence number.
    start: Option<u32>,
    /// The shift of the windows that its sender tells (RFC 7323, 2).
    scale: Option<u8>,
    /// The end of the window that its sender has been told.
    edge: Option<u32>,
}

struct Received {
    ends: (SocketAddr, SocketAddr),
    bytes: u64,
    hash: Box<blake3::Hasher>,
}

impl Normalizer {
    pub fn of(comparison: &Comparison) -> Box<Normalizer> {
        let counterparts = match comparison {
            Comparison::Packets => None,
            Comparison::Outlines(counterparts) => Some(Arc::clone(counterparts)),
        };
        Box::new(Normalizer {
            counterparts,
            ..Normalizer::default()
        })
    }

    /// A packet departs, or something else happens to it; what the schedule does to it.
    pub fn packet(&mut self, world: &World, packet: &Packet<'_>, fate: Option<Fate>) {
        if packet.point == Point::Arrival && packet.at_end {
            self.learn(packet.tcp.as_ref());
        }
        if packet.point != Point::Departure {
            return;
        }
        let count = self.count;
        let place = match packet.tcp {
            Some(segment) if packet.at_end => self.segment(world, packet, &segment),
            Some(_) => None,
            None => self.other(world, packet),
        };
        let behind = &mut self.normal.behind;
        self.waiting.retain(|(end, until, slot)| {
            if *end == packet.end && packet.time <= *until {
                behind[*slot] = Some((count, place.is_some()));
            }
            *end != packet.end
        });
        if fate == Some(Fate::Behind) {
            let until = packet.time + BEHIND_LIMIT.as_nanos() as u64;
            self.waiting.push((packet.end, until, behind.len()));
            behind.push(None);
        }
        if let (Some(place), Some(_)) = (place, fate) {
            self.normal.hits.push(place);
        }
    }

    /// An app's call has returned.
    pub fn call(&mut self, call: &AppCall<'_>) {
        let (Moves::Received, Some(ends)) = (call.moves, call.ends) else {
            return;
        };
        if self.received.len() <= call.program {
            self.received.resize_with(call.program + 1, Vec::new);
        }
        let its = &mut self.received[call.program];
        let at = its.iter().position(|one| one.ends == ends);
        let at = at.unwrap_or_else(|| {
            its.push(Received {
                ends,
                bytes: 0,
                hash: Box::default(),
            });
            its.len() - 1
        });
        its[at].bytes += call.data.len() as u64;
        its[at].hash.update(call.data);
    }

    /// The run is over.
    pub fn end(
        mut self,
        world: &World,
        ending: Option<Ending>,
        violation: Option<&Violation>,
    ) -> Normal {
        let mut normal = self.normal;
        self.received.resize_with(world.programs.len(), Vec::new);
        let programs = world.programs.iter().zip(self.received);
        normal.programs = programs
            .map(|(program, received)| {
                let status = |ended: &Ended| (ended.status, ended.error.clone());
                ProgramEnd {
                    name: format!("{}.{}", program.machine, program.name),
                    time: program.ended.as_ref().map(|ended| ended.time),
                    status: program.ended.as_ref().map(status),
                    received: received
                        .into_iter()
                        .map(|one| (one.bytes, one.hash.finalize().to_hex()[..16].to_owned()))
                        .collect(),
                }
            })
            .collect();
        if violation.is_none() {
            let layout = world.memory.as_ref().map(vink_pcb::Process::layout);
            let left = world.connections().into_iter();
            normal.left = left
                .map(|(machine, one)| {
                    let state = layout.map_or("?", |layout| layout.state(one.state));
                    (machine.to_owned(), state.to_owned())
                })
                .collect();
            normal.left.sort();
        }
        let late = world
            .faults
            .iter()
            .filter(|fault| fault.deviation.fate == Fate::Late);
        let until = late.map(|fault| fault.until.unwrap_or(u64::MAX));
        let before = |until: u64| {
            let all = normal.flows.iter().flat_map(|flow| &flow.sent);
            all.filter(|sent| sent.time <= until).count()
        };
        let late: Vec<_> = until.map(|until| Some((before(until), true))).collect();
        normal.behind.extend(late);
        normal.ending = ending;
        normal.end = world.now;
        normal.complaint = violation.map(|violation| violation.what.clone());
        match self.counterparts {
            Some(counterparts) => counterparts.outline(normal),
            None => normal,
        }
    }

    fn segment(
        &mut self,
        world: &World,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
    ) -> Option<(usize, usize)> {
        let there = (segment.from, segment.to);
        let back = (segment.to, segment.from);
        let begins = segment.has(Segment::SYN) && !segment.has(Segment::ACK);
        let is_known = |start: Option<u32>| start.is_some_and(|start| start != segment.seq);
        let newest = self.ways.get(&there).and_then(|all| all.last());
        if newest.is_none_or(|way| begins && is_known(way.start)) {
            self.connect(world, there);
        }
        let way = self.ways.get_mut(&there)?.last_mut()?;
        if segment.has(Segment::SYN) {
            way.start = Some(segment.seq);
            way.scale = options(segment.options).find_map(|(kind, value)| match (kind, value) {
                (SCALE, [shift]) => Some(*shift),
                _ => None,
            });
        }
        let room = way.edge.map(|edge| behind(edge, segment.end()));
        let flow = way.flow;
        let own = &self.ways[&there];
        let peers = &self.ways[&back];
        let ack = segment.has(Segment::ACK).then_some(segment.ack);
        let kinds = options(segment.options).map(|(kind, _)| kind);
        let mss = options(segment.options).find_map(|(kind, value)| match (kind, value) {
            (MSS, [a, b]) => Some(u16::from_be_bytes([*a, *b])),
            _ => None,
        });
        let has_window = segment.flags & (Segment::RST | Segment::SYN) == 0;
        let item = SegmentItem {
            flags: segment.flags,
            seq: number(own, segment.seq),
            ack: ack.map(|ack| number(peers, ack)),
            length: segment.data.len(),
            is_closed: has_window && segment.window == 0,
            sack: blocks(segment.options)
                .map(|(from, to)| (number(peers, from), number(peers, to)))
                .collect(),
            options: kinds.filter(|kind| *kind != NOP).collect(),
            mss,
            state: match packet.socket {
                [] => String::new(),
                socket => world.state(socket).to_owned(),
            },
        };
        Some(self.push(flow, packet.time, room, Item::Segment(item)))
    }

    /// A segment tells its receiver how far it may send.
    fn learn(&mut self, segment: Option<&Segment<'_>>) -> Option<()> {
        let segment = segment.filter(|segment| segment.has(Segment::ACK))?;
        let told = self.ways.get(&(segment.from, segment.to))?.last()?.scale;
        let own = self.ways.get_mut(&(segment.to, segment.from))?.last_mut()?;
        let shift = match (told, own.scale) {
            (Some(shift), Some(_)) if !segment.has(Segment::SYN) => shift,
            _ => 0,
        };
        let window = u32::from(segment.window) << shift.min(14);
        own.edge = Some(segment.ack.wrapping_add(window));
        Some(())
    }

    /// Another connection of these ends.
    fn connect(&mut self, world: &World, ends: (SocketAddr, SocketAddr)) {
        let from = machine(world, ends.0.ip());
        let to = machine(world, ends.1.ip());
        let pair = match from <= to {
            true => (from.clone(), to.clone()),
            false => (to.clone(), from.clone()),
        };
        let count = self.connections.entry(pair).or_default();
        *count += 1;
        let number = *count;
        for (ends, from, to) in [
            (ends, from.clone(), to.clone()),
            ((ends.1, ends.0), to, from),
        ] {
            let flow = self.normal.flows.len();
            self.normal.flows.push(Flow {
                name: FlowName {
                    from,
                    to,
                    protocol: "TCP".to_owned(),
                    number,
                },
                sent: Vec::new(),
            });
            let ways = self.ways.entry(ends).or_default();
            ways.push(Way {
                flow,
                start: None,
                scale: None,
                edge: None,
            });
        }
    }

    fn other(&mut self, world: &World, packet: &Packet<'_>) -> Option<(usize, usize)> {
        let (protocol, from, to, rest) = internet(packet.frame)?;
        if !world.is_at(packet.end, from) {
            return None;
        }
        let two = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
        let (name, kind) = match i32::from(protocol) {
            libc::IPPROTO_UDP => ("UDP", 0),
            libc::IPPROTO_SCTP => ("SCTP", u16::from(*rest.get(12)?)),
            libc::IPPROTO_ICMP => ("ICMP", two(0)?),
            // Those that look for neighbours and routers are no answers.
            libc::IPPROTO_ICMPV6 if *rest.first()? < 130 => ("ICMPv6", two(0)?),
            _ => return None,
        };
        let name = FlowName {
            from: machine(world, from),
            to: machine(world, to),
            protocol: name.to_owned(),
            number: 0,
        };
        let flow = match self.others.get(&name) {
            Some(flow) => *flow,
            None => {
                let flow = self.normal.flows.len();
                self.others.insert(name.clone(), flow);
                let sent = Vec::new();
                self.normal.flows.push(Flow { name, sent });
                flow
            }
        };
        let length = rest.len();
        Some(self.push(flow, packet.time, None, Item::Other { kind, length }))
    }

    fn push(&mut self, flow: usize, time: u64, room: Option<i32>, item: Item) -> (usize, usize) {
        self.count += 1;
        let sent = &mut self.normal.flows[flow].sent;
        sent.push(Sent { time, room, item });
        (flow, sent.len() - 1)
    }
}

/// The machine that has an address; else the address.
fn machine(world: &World, address: IpAddr) -> String {
    let known = world.addresses.get(&address);
    known.cloned().unwrap_or_else(|| address.to_string())
}

/// A number of one direction of a connection. It may be one less than the initial one (RFC 9293, 3.8.4).
fn number(ways: &[Way], value: u32) -> Number {
    let newest = ways.len().saturating_sub(1);
    let mut near = ways.iter().enumerate().rev().filter_map(|(at, way)| {
        let behind = behind(value, way.start?);
        ((-1..FAR).contains(&behind)).then_some((at, behind))
    });
    match near.next() {
        Some((at, behind)) if at == newest => Number::Of(behind),
        Some((_, behind)) => Number::Before(behind),
        None if value == 0 => Number::Zero,
        None => Number::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: u8 = Segment::ACK;
    const SYN: u8 = Segment::SYN;

    /// Two machines, and their ends of a connection.
    fn world() -> (World, SocketAddr, SocketAddr) {
        let mut world = World::of_ends(&["a", "b"]);
        let ends = [("10.0.0.1", "a"), ("10.0.0.2", "b")];
        for (address, machine) in ends {
            let address: IpAddr = address.parse().expect("an address");
            world.addresses.insert(address, machine.to_owned());
        }
        let end = |text: &str| text.parse().expect("an end");
        (world, end("10.0.0.1:40000"), end("10.0.0.2:80"))
    }

    /// A connection of three segments and an answer with a gap, from these initial numbers and this port on.
    fn connection(own: u32, peers: u32, port: u16, time: u64) -> Normal {
        let (world, mut a, b) = world();
        a.set_port(port);
        let mut normalizer = Normalizer::default();
        let seq = |start: u32, number: u32| start.wrapping_add(number);
        let mut sack = vec![5, 10];
        sack.extend(seq(own, 101).to_be_bytes());
        sack.extend(seq(own, 201).to_be_bytes());
        let mut stamped = vec![NOP, NOP, 8, 10];
        stamped.extend((time as u32).to_be_bytes());
        stamped.extend([0; 4]);
        let data = [7; 100];
        let none = &[][..];
        let all = [
            (0, a, SYN, own, 0, none, &[2, 4, 5, 180][..]),
            (
                1,
                b,
                SYN | ACK,
                peers,
                seq(own, 1),
                none,
                &[2, 4, 5, 180][..],
            ),
            (
                0,
                a,
                ACK,
                seq(own, 1),
                seq(peers, 1),
                &data[..],
                &stamped[..],
            ),
            (
                0,
                a,
                ACK,
                seq(own, 101),
                seq(peers, 1),
                &data[..],
                &stamped[..],
            ),
            (1, b, ACK, seq(peers, 1), seq(own, 1), none, &sack[..]),
        ];
        for (at, (end, from, flags, seq, ack, data, options)) in all.into_iter().enumerate() {
            let to = if from == a { b } else { a };
            let segment = Segment {
                options,
                // Its size is left out, and whether it is open is not.
                window: 1000 + port,
                ..Segment::of((from, to), flags, seq, ack, data)
            };
            let packet = Packet::at_end_of(segment, end, Point::Departure, time + at as u64);
            normalizer.packet(&world, &packet, (at == 2).then_some(Fate::Behind));
        }
        normalizer.end(&world, Some(Ending::Done), None)
    }

    #[test]
    fn what_may_be_any_value_is_left_out() {
        let one = connection(5, 9, 40_000, 1_000);
        let other = connection(u32::MAX - 50, 1 << 31, 50_000, 7_000);
        assert_ne!(one, other);
        assert_eq!(one.digest(), other.digest());
        let said = |flow: &Flow| -> Vec<String> {
            let sent = flow.sent.iter();
            sent.map(|sent| sent.item.to_string()).collect()
        };
        assert_eq!(
            said(&other.flows[0]),
            [
                "[S] seq 0, 0 bytes, options 2, MSS 1460",
                "[.] seq 1 ack 1, 100 bytes",
                "[.] seq 101 ack 1, 100 bytes",
            ]
        );
        assert_eq!(
            said(&other.flows[1]),
            [
                "[S.] seq 0 ack 1, 0 bytes, options 2, MSS 1460",
                "[.] seq 1 ack 1, 0 bytes, has 101:201",
            ]
        );
        assert_eq!(
            other.flows[1].name.to_string(),
            "TCP from b to a, connection 1 between them"
        );
        // The next one of its interface is the fourth segment.
        assert_eq!(other.hits, [(0, 1)]);
        assert_eq!(other.behind, [Some((3, true))]);
    }

    #[test]
    fn all_else_is_compared() {
        let plain = connection(5, 9, 40_000, 1_000);
        let mut others = vec![plain.clone(); 9];
        let mut change = |number: usize, flow: usize, at: usize, how: &dyn Fn(&mut SegmentItem)| {
            match &mut others[number].flows[flow].sent[at].item {
                Item::Segment(segment) => how(segment),
                _ => panic!("a segment"),
            }
        };
        change(0, 0, 1, &|segment| segment.flags |= Segment::PSH);
        change(1, 0, 1, &|segment| segment.seq = Number::Of(2));
        change(2, 0, 1, &|segment| segment.ack = Some(Number::Of(2)));
        change(3, 0, 1, &|segment| segment.length += 1);
        change(4, 1, 1, &|segment| segment.sack[0].1 = Number::Of(202));
        change(5, 0, 1, &|segment| segment.is_closed = true);
        change(6, 0, 0, &|segment| segment.options.push(4));
        others[7].left.push(("a".to_owned(), "ESTAB".to_owned()));
        others[8].ending = Some(Ending::Late);
        for (number, other) in others.iter().enumerate() {
            assert_ne!(plain.digest(), other.digest(), "{number}");
        }
    }

    #[test]
    fn a_connection_of_the_same_ends_is_another_one() {
        let (world, a, b) = world();
        let mut normalizer = Normalizer::default();
        let mut send = |from, to, flags, seq, ack| {
            let segment = Segment::of((from, to), flags, seq, ack, &[]);
            let end = usize::from(from == b);
            let packet = Packet::at_end_of(segment, end, Point::Departure, 0);
            normalizer.packet(&world, &packet, None);
        };
        send(a, b, SYN, 1_000, 0);
        send(a, b, SYN, 1_000, 0);
        send(b, a, SYN | ACK, 5_000, 1_001);
        send(a, b, SYN, 1 << 30, 0);
        // An answer to what is left of the first one, and a reset to what is of none.
        send(b, a, ACK, 5_001, 1_001);
        send(b, a, Segment::RST, 0, 0);
        send(b, a, Segment::RST, 1 << 31, 0);
        let normal = normalizer.end(&world, None, None);
        let sent: Vec<usize> = normal.flows.iter().map(|flow| flow.sent.len()).collect();
        assert_eq!(sent, [2, 1, 1, 3]);
        let said: Vec<String> = normal.flows[3]
            .sent
            .iter()
            .map(|sent| sent.item.to_string())
            .collect();
        assert_eq!(
            said,
            [
                "[.] seq 1 of the connection before ack 1 of the connection before, 0 bytes",
                "[R] seq zero, 0 bytes",
                "[R] seq of no connection, 0 bytes",
            ]
        );
    }
}
