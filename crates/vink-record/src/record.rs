//! One thing that happened, its bytes in the journal, and a line about it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::{put_bytes, put_number, Bytes};
use crate::digest::Hash;
use crate::summary;

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// On the lab's clock, ns. That of a program's output or end is when the worker saw it, and is
    /// not compared.
    pub time: u64,
    /// What.
    pub event: Event,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something happened to a packet at an interface.
    Packet {
        /// `machine:interface`.
        place: String,
        /// What.
        outcome: PacketOutcome,
        /// Its length in bytes, with its Ethernet header.
        length: u32,
        /// Of all its bytes that were seen (65,535 at most).
        hash: u64,
        /// Its first bytes.
        head: Vec<u8>,
    },
    /// A trapped system call has ended.
    Call {
        /// Threads are numbered in the order in which they made their first call.
        thread: u64,
        /// When it was made, on the lab's clock.
        began: u64,
        /// The call with its arguments and its result, in the manner of strace(1).
        text: String,
        /// Of the bytes that it gave to a file of the host; 0: of none.
        hash: u64,
    },
    /// A thread has made its first call.
    Thread {
        /// Its number.
        thread: u64,
        /// On this machine.
        machine: String,
        /// In the process of this thread: its own number if it is the first one.
        process: u64,
    },
    /// A thread runs a program's file.
    Executed {
        /// Which thread.
        thread: u64,
        /// The file's path, as the program has it.
        path: String,
        /// Of its contents; none: it could not be read.
        hash: Option<Hash>,
    },
    /// A program was started.
    Started {
        /// Its number in the run.
        program: u64,
        /// Where.
        machine: String,
        /// It and its arguments.
        words: Vec<String>,
    },
    /// What a virtualized process has written.
    Output {
        /// Its number.
        program: u64,
        /// What.
        text: String,
    },
    /// A program has ended.
    Ended {
        /// Its number.
        program: u64,
        /// As a shell gives it.
        code: i32,
        /// A virtualized process's report, or why it was not run.
        report: String,
    },
    /// A line of the lab file's events, or of a breakpoint, was carried out.
    Line {
        /// The line.
        line: String,
        /// Why not; empty if it was.
        error: String,
    },
    /// A client has requested a change of the lab by the control API.
    Asked(Request),
    /// A client's request about the lab's clock. It is not compared.
    Clock(Request),
    /// A client has given a program input, or has done something to its terminal.
    Input {
        /// The program's number in the lab.
        program: u64,
        /// Its machine.
        machine: String,
        /// The client's user. It is not compared.
        actor: String,
        /// What.
        typed: Typed,
    },
    /// Machines or wires of the lab have changed. It is not compared: what has changed them is.
    Changed(Vec<Part>),
    /// A breakpoint has done something to a packet.
    Met {
        /// Its name.
        breakpoint: String,
        /// How often it has done something.
        number: u64,
        /// `machine:interface`.
        place: String,
        /// What it has done, and to which packet.
        what: String,
    },
}

/// A part of a lab, and how it is from now on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// Which, such as `wire w1`.
    pub name: String,
    /// JSON; empty: it is not there any more.
    pub state: String,
}

impl Part {
    /// Of a list: its length, and each part.
    pub(crate) fn write_all(parts: &[Part], to: &mut Vec<u8>) {
        put_number(to, parts.len() as u64);
        for part in parts {
            put_bytes(to, part.name.as_bytes());
            put_bytes(to, part.state.as_bytes());
        }
    }

    pub(crate) fn read_all(from: &mut Bytes<'_>) -> Option<Vec<Part>> {
        let part = |from: &mut Bytes<'_>| {
            Some(Part {
                name: from.text()?,
                state: from.text()?,
            })
        };
        (0..from.number()?).map(|_| part(from)).collect()
    }
}

/// What a client gives a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Typed {
    /// Bytes of its standard input, or typed at its terminal.
    Bytes(Vec<u8>),
    /// The end of its standard input.
    End,
    /// Another size of its terminal, in characters.
    Resize {
        /// Lines.
        rows: u16,
        /// Characters in a line.
        columns: u16,
    },
    /// A signal for its process group.
    Signal(i32),
    /// Nothing more: the client has gone, and the program is ended.
    Gone,
}

/// A request of the control API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The user that has asked; empty: not known. It is not compared.
    pub actor: String,
    /// `POST` and so on; `ATTACH`: a client has attached itself to a program.
    pub method: String,
    /// With everything from `/v1` on.
    pub path: String,
    /// JSON, or nothing.
    pub body: String,
}

/// The strand of what breakpoints have done. Programs are numbered from 1 on.
pub const BREAKPOINTS: u64 = 0;

/// What has happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketOutcome {
    /// It was sent.
    Departure,
    /// It was received.
    Arrival,
    /// It was lost, for this reason.
    Loss(String),
}

/// What has lost a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostBy {
    /// A wire, on which it was.
    Wire,
    /// A full queue of an interface, a neighbour, a processor or a socket.
    Queue,
    /// A machine's stack had no use for it: it was for no socket, or a filter took it, and so on.
    Stack,
}

/// The words in which wires say why (`PacketKind::names` in vink-kernel). Machines have their kernel's: the names of
/// `enum skb_drop_reason`.
const WIRES: [&str; 6] = ["random", "limit", "mtu", "down", "breakpoint", "pod"];
/// Those of full queues among the kernel's, of all versions.
const QUEUES: [&str; 10] = [
    "QDISC_DROP",
    "FQ_BAND_LIMIT",
    "FQ_FLOW_LIMIT",
    "FQ_HORIZON_LIMIT",
    "FULL_RING",
    "NEIGH_QUEUEFULL",
    "CPU_BACKLOG",
    "SOCKET_BACKLOG",
    "SOCKET_RCVBUFF",
    "TCP_OFO_QUEUE_PRUNE",
];

impl PacketOutcome {
    /// What has lost it; `None`: it departed, or arrived.
    pub fn lost_by(&self) -> Option<LostBy> {
        let PacketOutcome::Loss(reason) = self else {
            return None;
        };
        let reason = reason.as_str();
        Some(match reason {
            _ if WIRES.contains(&reason) => LostBy::Wire,
            _ if QUEUES.contains(&reason) => LostBy::Queue,
            _ => LostBy::Stack,
        })
    }
}

impl fmt::Display for PacketOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketOutcome::Departure => write!(f, "sends"),
            PacketOutcome::Arrival => write!(f, "receives"),
            PacketOutcome::Loss(reason) if self.lost_by() == Some(LostBy::Stack) => {
                write!(f, "drops ({reason})")
            }
            PacketOutcome::Loss(reason) => write!(f, "loses ({reason})"),
        }
    }
}

const DEPARTURE: u8 = 1;
const ARRIVAL: u8 = 2;
const LOSS: u8 = 3;
const CALL: u8 = 4;
const THREAD: u8 = 5;
const EXECUTED: u8 = 6;
const STARTED: u8 = 7;
const OUTPUT: u8 = 8;
const ENDED: u8 = 9;
const LINE: u8 = 10;
const ASKED: u8 = 11;
const CLOCK: u8 = 12;
const MET: u8 = 13;
const ASKED_BY: u8 = 14;
const CLOCK_BY: u8 = 15;
const INPUT: u8 = 16;
const CHANGED: u8 = 17;

/// Parts of a change that its line names.
const NAMED: usize = 10;

// What is typed.
const BYTES: u8 = 1;
const END: u8 = 2;
const RESIZE: u8 = 3;
const SIGNAL: u8 = 4;
const GONE: u8 = 5;

impl Record {
    /// Writes it behind others: what is compared, and the time.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        match &self.event {
            Event::Packet {
                place,
                outcome,
                length,
                hash,
                head,
            } => {
                match outcome {
                    PacketOutcome::Departure => to.push(DEPARTURE),
                    PacketOutcome::Arrival => to.push(ARRIVAL),
                    PacketOutcome::Loss(reason) => {
                        to.push(LOSS);
                        put_bytes(to, reason.as_bytes());
                    }
                }
                put_bytes(to, place.as_bytes());
                put_number(to, (*length).into());
                to.extend(hash.to_le_bytes());
                put_bytes(to, head);
            }
            Event::Call {
                thread,
                began,
                text,
                hash,
            } => {
                to.push(CALL);
                put_number(to, *thread);
                put_number(to, *began);
                put_bytes(to, text.as_bytes());
                to.extend(hash.to_le_bytes());
            }
            Event::Thread {
                thread,
                machine,
                process,
            } => {
                to.push(THREAD);
                put_number(to, *thread);
                put_bytes(to, machine.as_bytes());
                put_number(to, *process);
            }
            Event::Executed { thread, path, hash } => {
                to.push(EXECUTED);
                put_number(to, *thread);
                put_bytes(to, path.as_bytes());
                put_bytes(to, hash.as_ref().map_or(&[], |hash| &hash.0[..]));
            }
            Event::Started {
                program,
                machine,
                words,
            } => {
                to.push(STARTED);
                put_number(to, *program);
                put_bytes(to, machine.as_bytes());
                put_number(to, words.len() as u64);
                for word in words {
                    put_bytes(to, word.as_bytes());
                }
            }
            Event::Output { program, text } => {
                to.push(OUTPUT);
                put_number(to, *program);
                put_bytes(to, text.as_bytes());
            }
            Event::Ended {
                program,
                code,
                report,
            } => {
                to.push(ENDED);
                put_number(to, *program);
                to.extend(code.to_le_bytes());
                put_bytes(to, report.as_bytes());
            }
            Event::Line { line, error } => {
                to.push(LINE);
                put_bytes(to, line.as_bytes());
                put_bytes(to, error.as_bytes());
            }
            Event::Asked(request) => request.write([ASKED, ASKED_BY], to),
            Event::Clock(request) => request.write([CLOCK, CLOCK_BY], to),
            Event::Input {
                program,
                machine,
                actor,
                typed,
            } => {
                to.push(INPUT);
                put_number(to, *program);
                put_bytes(to, machine.as_bytes());
                put_bytes(to, actor.as_bytes());
                typed.write(to);
            }
            Event::Changed(parts) => {
                to.push(CHANGED);
                Part::write_all(parts, to);
            }
            Event::Met {
                breakpoint,
                number,
                place,
                what,
            } => {
                to.push(MET);
                put_bytes(to, breakpoint.as_bytes());
                put_number(to, *number);
                put_bytes(to, place.as_bytes());
                put_bytes(to, what.as_bytes());
            }
        }
        put_number(to, self.time);
    }

    /// Without what two runs are not compared by: the user that has asked for it.
    pub(crate) fn compared(&self) -> Cow<'_, Record> {
        match self.event {
            Event::Asked(_) | Event::Clock(_) | Event::Input { .. } => {
                let mut record = self.clone();
                if let Some(actor) = record.event.actor() {
                    actor.clear();
                }
                Cow::Owned(record)
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The time, if it is compared; 0: it is that at which the worker looked.
    pub(crate) fn compared_time(&self) -> u64 {
        match self.event {
            Event::Started { .. } | Event::Output { .. } | Event::Ended { .. } => 0,
            _ => self.time,
        }
    }

    /// Reads one; `None`: these bytes are none.
    pub(crate) fn read(from: &mut Bytes<'_>) -> Option<Record> {
        let event = match from.byte()? {
            kind @ (DEPARTURE | ARRIVAL | LOSS) => Event::Packet {
                outcome: match kind {
                    DEPARTURE => PacketOutcome::Departure,
                    ARRIVAL => PacketOutcome::Arrival,
                    _ => PacketOutcome::Loss(from.text()?),
                },
                place: from.text()?,
                length: u32::try_from(from.number()?).ok()?,
                hash: u64::from_le_bytes(from.array()?),
                head: from.bytes()?.to_vec(),
            },
            CALL => Event::Call {
                thread: from.number()?,
                began: from.number()?,
                text: from.text()?,
                hash: u64::from_le_bytes(from.array()?),
            },
            THREAD => Event::Thread {
                thread: from.number()?,
                machine: from.text()?,
                process: from.number()?,
            },
            EXECUTED => Event::Executed {
                thread: from.number()?,
                path: from.text()?,
                hash: match from.bytes()? {
                    [] => None,
                    bytes => Some(Hash(bytes.try_into().ok()?)),
                },
            },
            STARTED => Event::Started {
                program: from.number()?,
                machine: from.text()?,
                words: {
                    let count = from.number()?;
                    (0..count).map(|_| from.text()).collect::<Option<_>>()?
                },
            },
            OUTPUT => Event::Output {
                program: from.number()?,
                text: from.text()?,
            },
            ENDED => Event::Ended {
                program: from.number()?,
                code: i32::from_le_bytes(from.array()?),
                report: from.text()?,
            },
            LINE => Event::Line {
                line: from.text()?,
                error: from.text()?,
            },
            kind @ (ASKED | ASKED_BY) => Event::Asked(Request::read(kind == ASKED_BY, from)?),
            kind @ (CLOCK | CLOCK_BY) => Event::Clock(Request::read(kind == CLOCK_BY, from)?),
            INPUT => Event::Input {
                program: from.number()?,
                machine: from.text()?,
                actor: from.text()?,
                typed: Typed::read(from)?,
            },
            CHANGED => Event::Changed(Part::read_all(from)?),
            MET => Event::Met {
                breakpoint: from.text()?,
                number: from.number()?,
                place: from.text()?,
                what: from.text()?,
            },
            _ => return None,
        };
        let time = from.number()?;
        Some(Record { time, event })
    }
}

impl Request {
    /// The kinds are those of a request without an actor, and with one.
    fn write(&self, kinds: [u8; 2], to: &mut Vec<u8>) {
        match self.actor.is_empty() {
            true => to.push(kinds[0]),
            false => {
                to.push(kinds[1]);
                put_bytes(to, self.actor.as_bytes());
            }
        }
        for text in [&self.method, &self.path, &self.body] {
            put_bytes(to, text.as_bytes());
        }
    }

    fn read(has_actor: bool, from: &mut Bytes<'_>) -> Option<Request> {
        Some(Request {
            actor: match has_actor {
                true => from.text()?,
                false => String::new(),
            },
            method: from.text()?,
            path: from.text()?,
            body: from.text()?,
        })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actor = named(&self.actor);
        write!(f, "{actor} asks for {} {}", self.method, self.path)?;
        match self.body.is_empty() {
            true => Ok(()),
            false => write!(f, " {}", self.body),
        }
    }
}

/// A user, or a client whose user is not known.
fn named(actor: &str) -> &str {
    match actor {
        "" => "a client",
        actor => actor,
    }
}

impl Typed {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Typed::Bytes(bytes) => {
                to.push(BYTES);
                put_bytes(to, bytes);
            }
            Typed::End => to.push(END),
            Typed::Resize { rows, columns } => {
                to.push(RESIZE);
                put_number(to, (*rows).into());
                put_number(to, (*columns).into());
            }
            Typed::Signal(signal) => {
                to.push(SIGNAL);
                to.extend(signal.to_le_bytes());
            }
            Typed::Gone => to.push(GONE),
        }
    }

    fn read(from: &mut Bytes<'_>) -> Option<Typed> {
        Some(match from.byte()? {
            BYTES => Typed::Bytes(from.bytes()?.to_vec()),
            END => Typed::End,
            RESIZE => Typed::Resize {
                rows: u16::try_from(from.number()?).ok()?,
                columns: u16::try_from(from.number()?).ok()?,
            },
            SIGNAL => Typed::Signal(i32::from_le_bytes(from.array()?)),
            GONE => Typed::Gone,
            _ => return None,
        })
    }
}

impl fmt::Display for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Typed::Bytes(bytes) => write!(f, "types \"{}\"", bytes.escape_ascii()),
            Typed::End => f.write_str("ends the input"),
            Typed::Resize { rows, columns } => {
                write!(f, "makes the terminal {rows} lines of {columns}")
            }
            Typed::Signal(signal) => write!(f, "sends signal {signal}"),
            Typed::Gone => f.write_str("goes away"),
        }
    }
}

impl Event {
    pub(crate) fn actor(&mut self) -> Option<&mut String> {
        match self {
            Event::Asked(request) | Event::Clock(request) => Some(&mut request.actor),
            Event::Input { actor, .. } => Some(actor),
            _ => None,
        }
    }

    /// Whether two runs in which it is not the same differ.
    pub fn is_compared(&self) -> bool {
        !matches!(self, Event::Clock(_) | Event::Changed(_))
    }

    /// The program whose strand it is in, or [`BREAKPOINTS`]; `None`: it is in the order of packets
    /// and calls.
    pub fn strand(&self) -> Option<u64> {
        match self {
            Event::Met { .. } => Some(BREAKPOINTS),
            Event::Started { program, .. }
            | Event::Output { program, .. }
            | Event::Ended { program, .. } => Some(*program),
            _ => None,
        }
    }
}

impl fmt::Display for Event {
    /// In one line. Threads have their numbers only: their identity was recorded when they came.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Packet {
                place,
                outcome,
                length,
                hash,
                head,
            } => {
                let line = summary(head, *length);
                write!(f, "{place} {outcome} {line} [{length} bytes, {hash:016x}]")
            }
            Event::Call {
                thread, text, hash, ..
            } => {
                write!(f, "thread {thread}: {text}")?;
                match hash {
                    0 => Ok(()),
                    hash => write!(f, " [{hash:016x}]"),
                }
            }
            Event::Thread {
                thread,
                machine,
                process,
            } if thread == process => write!(f, "thread {thread}: new on {machine}"),
            Event::Thread {
                thread,
                machine,
                process,
            } => write!(
                f,
                "thread {thread}: new on {machine}, beside thread {process}"
            ),
            Event::Executed {
                thread,
                path,
                hash: Some(hash),
            } => write!(f, "thread {thread}: runs {path} [{}]", hash.short()),
            Event::Executed { thread, path, .. } => write!(f, "thread {thread}: runs {path}"),
            Event::Started {
                program,
                machine,
                words,
            } => write!(
                f,
                "program {program}: started on {machine}: {}",
                words.join(" ")
            ),
            Event::Output { program, text } => write!(f, "program {program}: writes {text:?}"),
            Event::Ended {
                program,
                code,
                report,
            } => {
                write!(f, "program {program}: ended with {code}")?;
                match report.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {report}"),
                }
            }
            Event::Line { line, error } if error.is_empty() => write!(f, "carried out: {line}"),
            Event::Line { line, error } => write!(f, "not carried out: {line}: {error}"),
            Event::Asked(request) | Event::Clock(request) => write!(f, "{request}"),
            Event::Input {
                program,
                machine,
                actor,
                typed,
            } => write!(
                f,
                "{}, to program {program} of {machine}: {typed}",
                named(actor)
            ),
            Event::Changed(parts) => {
                f.write_str("changed")?;
                for (nth, part) in parts.iter().take(NAMED).enumerate() {
                    let before = if nth == 0 { ": " } else { "; " };
                    match part.state.as_str() {
                        "" => write!(f, "{before}{} goes", part.name)?,
                        state => write!(f, "{before}{} {state}", part.name)?,
                    }
                }
                match parts.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            Event::Met {
                breakpoint,
                number,
                place,
                what,
            } => write!(f, "breakpoint {breakpoint} ({number}) at {place}: {what}"),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = (self.time / 1_000_000_000, self.time % 1_000_000_000);
        write!(f, "{seconds}.{ns:09} {}", self.event)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One of each kind.
    pub(crate) fn samples() -> Vec<Record> {
        let packet = |outcome| Event::Packet {
            place: "client:eth0".to_owned(),
            outcome,
            length: 98,
            hash: 0x1234_5678_9abc_def0,
            head: vec![1, 2, 3],
        };
        let input = |typed| Event::Input {
            program: 9,
            machine: "m".to_owned(),
            actor: "ann".to_owned(),
            typed,
        };
        let events = vec![
            Event::Thread {
                thread: 1,
                machine: "client".to_owned(),
                process: 1,
            },
            Event::Executed {
                thread: 1,
                path: "/usr/bin/curl".to_owned(),
                hash: Some(Hash::of(b"curl")),
            },
            Event::Executed {
                thread: 1,
                path: "/gone".to_owned(),
                hash: None,
            },
            packet(PacketOutcome::Departure),
            packet(PacketOutcome::Arrival),
            packet(PacketOutcome::Loss("random".to_owned())),
            Event::Call {
                thread: 300,
                began: 5,
                text: "close(4<vink>) = 0".to_owned(),
                hash: 0,
            },
            Event::Started {
                program: 7,
                machine: "m".to_owned(),
                words: vec!["ping".to_owned(), "-c 1".to_owned()],
            },
            Event::Output {
                program: 7,
                text: "hello\n".to_owned(),
            },
            Event::Ended {
                program: 7,
                code: -1,
                report: String::new(),
            },
            Event::Line {
                line: "wire set w loss 1%".to_owned(),
                error: String::new(),
            },
            Event::Asked(Request {
                method: "PATCH".to_owned(),
                path: "/v1/labs/x/wires/w".to_owned(),
                body: "{}".to_owned(),
                ..Request::default()
            }),
            input(Typed::Bytes(b"ls\r\x03".to_vec())),
            input(Typed::End),
            input(Typed::Resize {
                rows: 24,
                columns: 300,
            }),
            input(Typed::Signal(2)),
            input(Typed::Gone),
            Event::Met {
                breakpoint: "syn".to_owned(),
                number: 1,
                place: "m:eth0".to_owned(),
                what: "drop".to_owned(),
            },
        ];
        let timed = events.into_iter().enumerate();
        timed
            .map(|(i, event)| Record {
                time: i as u64 * 1_000_000_007,
                event,
            })
            .collect()
    }

    #[test]
    fn there_and_back() {
        for record in samples() {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            assert_eq!(Record::read(&mut Bytes(&bytes)), Some(record.clone()));
            for end in 0..bytes.len() {
                assert_eq!(Record::read(&mut Bytes(&bytes[..end])), None, "{record}");
            }
        }
        assert_eq!(Record::read(&mut Bytes(&[99, 0])), None);
    }

    #[test]
    fn lines() {
        let lines: Vec<_> = samples().iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "0.000000000 thread 1: new on client");
        assert!(lines[5].starts_with("5.000000035 client:eth0 loses (random) "));
        assert_eq!(lines[6], "6.000000042 thread 300: close(4<vink>) = 0");
        assert_eq!(lines[7], "7.000000049 program 7: started on m: ping -c 1");
        assert!(lines[11].ends_with(" a client asks for PATCH /v1/labs/x/wires/w {}"));
        assert!(lines[12].ends_with(" ann, to program 9 of m: types \"ls\\r\\x03\""));
    }

    /// A change of so many parts; the last one goes.
    pub(crate) fn change(parts: usize) -> Record {
        let part = |nth| Part {
            name: format!("wire w{nth}"),
            state: if nth + 1 < parts { "{}" } else { "" }.to_owned(),
        };
        Record {
            time: 3,
            event: Event::Changed((0..parts).map(part).collect()),
        }
    }

    #[test]
    fn a_change_has_all_of_its_parts_and_its_line_the_first() {
        for parts in [0, 1, 12] {
            let record = change(parts);
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            assert_eq!(Record::read(&mut Bytes(&bytes)), Some(record.clone()));
            for end in 0..bytes.len() {
                assert_eq!(Record::read(&mut Bytes(&bytes[..end])), None, "{record}");
            }
        }
        let line = |parts| change(parts).event.to_string();
        assert_eq!(line(2), "changed: wire w0 {}; wire w1 goes");
        assert!(
            line(12).ends_with("; wire w9 {}; and 2 more"),
            "{}",
            line(12)
        );
    }

    #[test]
    fn an_actor_is_kept_and_not_compared() {
        let request = |actor: &str| Request {
            actor: actor.to_owned(),
            method: "PATCH".to_owned(),
            path: "/v1/labs/x/wires/w".to_owned(),
            body: String::new(),
        };
        for kind in [Event::Asked, Event::Clock] {
            let mut bytes = Vec::new();
            let (time, event) = (3, kind(request("ann")));
            let record = Record { time, event };
            record.write(&mut bytes);
            assert_eq!(Record::read(&mut Bytes(&bytes)), Some(record.clone()));
            assert!(record.to_string().contains(" ann asks for PATCH "));
            assert_eq!(record.compared().event, kind(request("")));
        }
    }
}
