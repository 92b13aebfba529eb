//! Time series: which numbers of a lab are looked at, when, and the file that they go to.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::Node;
use crate::read::Reader;
use crate::Span;

/// Columns of numbers, a row for each time that they are looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// How often they are looked at, by the clock of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Or at which event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<SampleEvent>,
    /// Where the event is: a machine, or for packets `machine:interface`; none: anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What is looked at, by the columns' names.
    #[serde(default)]
    pub values: IndexMap<String, Quantity>,
    /// The file, in the lab's folder unless its path is absolute; its ending says what it looks like: csv, jsonl, parquet. None: the
    /// series' name with `.csv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// An event at which numbers are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SampleEvent {
    /// An interface has sent a packet.
    Departure,
    /// An interface has received a packet.
    Arrival,
    /// A packet is lost.
    Loss,
    /// An established TCP connection is about to look at a segment that has come.
    Ack,
    /// A TCP connection has sent a segment again.
    Retransmit,
    /// A TCP connection's congestion control is about to change its state.
    Congestion,
    /// A TCP connection is about to change its state.
    State,
    /// A program has read from a TCP connection.
    Read,
    /// A TCP connection ends.
    End,
}

pub(crate) const SAMPLE_EVENTS: [(&str, SampleEvent); 9] = [
    ("departure", SampleEvent::Departure),
    ("arrival", SampleEvent::Arrival),
    ("loss", SampleEvent::Loss),
    ("ack", SampleEvent::Ack),
    ("retransmit", SampleEvent::Retransmit),
    ("congestion", SampleEvent::Congestion),
    ("state", SampleEvent::State),
    ("read", SampleEvent::Read),
    ("end", SampleEvent::End),
];

impl SampleEvent {
    /// The kernel's tracepoint, which passes a connection; none: it is about a packet.
    pub fn tracepoint(self) -> Option<&'static str> {
        Some(match self {
            SampleEvent::Departure | SampleEvent::Arrival | SampleEvent::Loss => return None,
            SampleEvent::Ack => "tcp_probe",
            SampleEvent::Retransmit => "tcp_retransmit_skb",
            SampleEvent::Congestion => "tcp_cong_state_set",
            SampleEvent::State => "inet_sock_set_state",
            SampleEvent::Read => "tcp_rcv_space_adjust",
            SampleEvent::End => "tcp_destroy_sock",
        })
    }
}

impl FromStr for SampleEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<SampleEvent, String> {
        let found = SAMPLE_EVENTS.iter().find(|(word, _)| *word == text);
        found.map(|(_, event)| *event).ok_or_else(|| {
            let words = SAMPLE_EVENTS.map(|(word, _)| word).join(", ");
            format!("{text:?} is no event: {words}")
        })
    }
}

impl fmt::Display for SampleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = SAMPLE_EVENTS.iter().find(|(_, event)| event == self);
        f.write_str(found.map_or("", |(word, _)| word))
    }
}

/// A number that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Quantity {
    /// How much it has grown by, rather.
    pub growth: Option<Growth>,
    /// Where it comes from.
    pub source: Source,
}

/// By how much a number has grown since it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// For each second.
    Rate,
    /// Eight times that: of bytes it is bits.
    Bitrate,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A field of the kernel's `struct tcp_sock`, as `vink pcb` names it.
    Tcp {
        /// On which machine.
        machine: String,
        /// Which.
        field: String,
        /// Of a connection with this in one of its addresses; of several, the one with the most bytes.
        with: Option<String>,
    },
    /// A number of a queueing discipline, one of [`QDISC_NUMBERS`]; see tc(8).
    Qdisc {
        /// `machine:interface`.
        place: String,
        /// Which.
        number: String,
        /// Which discipline: its handle, such as `1:`; none: the root.
        handle: Option<String>,
    },
    /// A counter of an interface, one of [`INTERFACE_NUMBERS`].
    Interface {
        /// `machine:interface`.
        place: String,
        /// Which.
        number: String,
    },
    /// What a wire has done to the packets that an end sent, one of [`WIRE_NUMBERS`].
    Wire {
        /// `machine:interface`.
        place: String,
        /// Which.
        number: String,
    },
    /// A counter of a machine's, as nstat(8) names it: `TcpRetransSegs`.
    Counter {
        /// Which machine.
        machine: String,
        /// Which.
        name: String,
    },
    /// A number in one of a machine's own files, such as `/proc/net/sockstat`.
    Proc {
        /// Which machine.
        machine: String,
        /// The file.
        path: String,
        /// The first number behind this text; none: the first one.
        after: Option<String>,
    },
    /// A number of a virtualized process's report.
    App {
        /// On which machine.
        machine: String,
        /// Its name, such as `stream`; of several, the one that was started last.
        app: String,
        /// Which, with dots between the names of what is in each other: `tiers.gold.shed`.
        number: String,
    },
    /// A number in a file of the host, such as one that a program writes.
    File {
        /// Its path, from the lab's folder on.
        path: String,
        /// The first number behind this text; none: the first one.
        after: Option<String>,
    },
}

/// The numbers of a queueing discipline.
pub const QDISC_NUMBERS: [&str; 7] = [
    "bytes",
    "packets",
    "qlen",
    "backlog",
    "drops",
    "requeues",
    "overlimits",
];
/// The counters of an interface.
pub const INTERFACE_NUMBERS: [&str; 8] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
];
/// The counters of a wire's end.
pub const WIRE_NUMBERS: [&str; 13] = [
    "sent",
    "sent_bytes",
    "received",
    "received_bytes",
    "lost",
    "lost_random",
    "lost_limit",
    "lost_mtu",
    "lost_down",
    "corrupted",
    "duplicated",
    "reordered",
    "under_way",
];

const FORMS: &str =
    "write tcp MACHINE FIELD [ADDRESS], qdisc MACHINE:INTERFACE NUMBER [HANDLE], interface MACHINE:INTERFACE \
     NUMBER, wire MACHINE:INTERFACE NUMBER, counter MACHINE NAME, app MACHINE APP NUMBER, proc MACHINE PATH [TEXT] or file PATH [TEXT], with rate or bitrate before it \
     for how much it grows in a second";

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Quantity, String> {
        let wrong = || format!("{text:?} is no number of a lab: {FORMS}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let (growth, words) = match words[..] {
            ["rate", ref rest @ ..] => (Some(Growth::Rate), rest),
            ["bitrate", ref rest @ ..] => (Some(Growth::Bitrate), rest),
            ref all => (None, all),
        };
        let own = |word: &&str| (*word).to_owned();
        let rest = |words: &[&str]| (!words.is_empty()).then(|| words.join(" "));
        let one_of = |number: &&str, known: &[&str]| match known.contains(number) {
            true => Ok((*number).to_owned()),
            false => Err(format!(
                "{number:?} is no number of that kind: {}",
                known.join(", ")
            )),
        };
        let source = match words {
            ["tcp", machine, field, with @ ..] if with.len() <= 1 => Source::Tcp {
                machine: own(machine),
                field: own(field),
                with: with.first().map(own),
            },
            ["qdisc", place, number, handle @ ..] if handle.len() <= 1 => Source::Qdisc {
                place: own(place),
                number: one_of(number, &QDISC_NUMBERS)?,
                handle: match handle.first() {
                    Some(text) if self::handle(text).is_none() => {
                        return Err(format!("{text:?} is no handle: write it like 1: or 8001:"))
                    }
                    handle => handle.map(own),
                },
            },
            ["interface", place, number] => Source::Interface {
                place: own(place),
                number: one_of(number, &INTERFACE_NUMBERS)?,
            },
            ["wire", place, number] => Source::Wire {
                place: own(place),
                number: one_of(number, &WIRE_NUMBERS)?,
            },
            ["counter", machine, name] => Source::Counter {
                machine: own(machine),
                name: own(name),
            },
            ["app", machine, app, number] => Source::App {
                machine: own(machine),
                app: own(app),
                number: own(number),
            },
            ["proc", machine, path, after @ ..] => Source::Proc {
                machine: own(machine),
                path: own(path),
                after: rest(after),
            },
            ["file", path, after @ ..] => Source::File {
                path: own(path),
                after: rest(after),
            },
            _ => return Err(wrong()),
        };
        let quantity = Quantity { growth, source };
        match quantity.source.place() {
            Some((_, Some(""))) | Some(("", _)) => Err(wrong()),
            // What has the form of a place may be none.
            Some((_, None)) if quantity.source.is_at_an_interface() => Err(wrong()),
            _ => Ok(quantity),
        }
    }
}

/// A queueing discipline's handle, as tc(8) writes it.
pub fn handle(text: &str) -> Option<u32> {
    let major = text.strip_suffix(':').unwrap_or(text);
    let major = u16::from_str_radix(major, 16).ok()?;
    Some(u32::from(major) << 16)
}

impl Source {
    /// The machine, and its interface, that it is about.
    pub fn place(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Source::Tcp { machine, .. }
            | Source::Counter { machine, .. }
            | Source::App { machine, .. }
            | Source::Proc { machine, .. } => Some((machine, None)),
            Source::Qdisc { place, .. }
            | Source::Interface { place, .. }
            | Source::Wire { place, .. } => Some(match place.split_once(':') {
                Some((machine, interface)) => (machine, Some(interface)),
                None => (place, None),
            }),
            Source::File { .. } => None,
        }
    }

    fn is_at_an_interface(&self) -> bool {
        matches!(
            self,
            Source::Qdisc { .. } | Source::Interface { .. } | Source::Wire { .. }
        )
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.growth {
            Some(Growth::Rate) => f.write_str("rate ")?,
            Some(Growth::Bitrate) => f.write_str("bitrate ")?,
            None => {}
        }
        let (words, last) = match &self.source {
            Source::Tcp {
                machine,
                field,
                with,
            } => (["tcp", machine, field].join(" "), with.as_ref()),
            Source::Qdisc {
                place,
                number,
                handle,
            } => (["qdisc", place, number].join(" "), handle.as_ref()),
            Source::Interface { place, number } => (["interface", place, number].join(" "), None),
            Source::Wire { place, number } => (["wire", place, number].join(" "), None),
            Source::Counter { machine, name } => (["counter", machine, name].join(" "), None),
            Source::App {
                machine,
                app,
                number,
            } => (["app", machine, app, number].join(" "), None),
            Source::Proc {
                machine,
                path,
                after,
            } => (["proc", machine, path].join(" "), after.as_ref()),
            Source::File { path, after } => (["file", path].join(" "), after.as_ref()),
        };
        f.write_str(&words)?;
        match last {
            Some(last) => write!(f, " {last}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for Quantity {
    type Error = String;

    fn try_from(text: String) -> Result<Quantity, String> {
        text.parse()
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> String {
        quantity.to_string()
    }
}

impl Series {
    /// The file of a series of this name.
    pub fn file(&self, name: &str) -> String {
        self.file.clone().unwrap_or_else(|| format!("{name}.csv"))
    }

    /// What is wrong with it by itself: the key, and why; the fix.
    pub fn mistake(&self) -> Option<(&'static str, &'static str, &'static str)> {
        const WHEN: &str =
            "write `every: 10ms`, or an event such as `on: ack`: one of them, not both";
        match (self.every, self.on) {
            (None, None) => return Some(("every", "a series that is never looked at", WHEN)),
            (Some(_), Some(_)) => return Some(("on", "a series with two clocks", WHEN)),
            (Some(Span(0)), None) => {
                let why = "every no time at all";
                return Some(("every", why, "write a time such as 10ms"));
            }
            _ => {}
        }
        let at_interface = self.at.as_ref().is_some_and(|at| at.contains(':'));
        match self.on {
            None if self.at.is_some() => {
                let fix = "leave it out: each of `values` says where it is";
                return Some(("at", "there is no event to be anywhere", fix));
            }
            Some(on) if at_interface && on.tracepoint().is_some() => {
                let why = "a connection is at no interface";
                return Some(("at", why, "write the machine's name"));
            }
            _ => {}
        }
        if self.values.is_empty() {
            let fix = "write names with what they stand for, such as `cwnd: tcp m1 snd_cwnd`";
            return Some(("values", "a series of nothing", fix));
        }
        if self.values.contains_key("time") {
            let why = "the first column is called time";
            return Some(("values", why, "give it another name"));
        }
        let file = self.file.as_deref().unwrap_or("x.csv");
        let (_, ending) = file.rsplit_once('.').unwrap_or_default();
        if !["csv", "jsonl", "ndjson", "parquet"].contains(&ending) {
            let why = "what the file should look like is not known";
            return Some(("file", why, "have it end in .csv, .jsonl or .parquet"));
        }
        None
    }
}

/// For people.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.every, self.on) {
            (Some(every), _) => write!(f, "every {every}")?,
            (None, Some(on)) => write!(f, "on {on}")?,
            (None, None) => {}
        }
        if let Some(at) = &self.at {
            write!(f, " at {at}")?;
        }
        let mut between = ": ";
        for (name, value) in &self.values {
            write!(f, "{between}{name} = {value}")?;
            between = ", ";
        }
        Ok(())
    }
}

impl Reader {
    pub(crate) fn series(&mut self, node: &Node) -> Option<Series> {
        self.fields(node, "a time series", |r, f| Series {
            every: r.field(f, "every", Reader::parsed),
            on: r.field(f, "on", |r, n| r.word(n, &SAMPLE_EVENTS)),
            at: r.field(f, "at", Reader::text),
            values: r.field_or_default(f, "values", |r, n| r.named(n, Reader::parsed)),
            file: r.field(f, "file", Reader::text),
        })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn series(&mut self, name: &str, series: &Series) {
        self.name("a time series", name, false);
        if let Some((key, message, fix)) = series.mistake() {
            self.at(key, |c| c.add(message, fix).path.len());
        }
        if let Some(at) = &series.at {
            let (machine, interface) = match at.split_once(':') {
                Some((machine, interface)) => (machine, Some(interface)),
                None => (at.as_str(), None),
            };
            self.at("at", |c| c.is_there(machine, interface));
        }
        self.path.push("values".to_owned());
        let mut worker = None;
        for (column, value) in &series.values {
            let Some((machine, interface)) = value.source.place() else {
                continue;
            };
            self.at(column, |c| {
                c.is_there(machine, interface);
                let Some(its) = c.lab.machines.get(machine) else {
                    return;
                };
                let its = (&its.host, &its.image, its.worker_group());
                if *worker.get_or_insert_with(|| its.clone()) != its {
                    let message = format!("{machine} is in another worker than machines before it");
                    c.add(message, "make a series for each worker");
                }
            });
        }
        self.path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_and_back() {
        for text in [
            "tcp a snd_cwnd",
            "tcp a rack.rtt_us :5201",
            "qdisc r:eth1 backlog",
            "rate qdisc r:eth1 drops 8001:",
            "bitrate interface a:eth0 tx_bytes",
            "wire a:eth0 under_way",
            "counter a TcpExtTCPTimeouts",
            "proc a /proc/net/sockstat TCP: inuse",
            "rate file counters/served",
            "file state.txt served so far:",
        ] {
            let read: Quantity = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), read);
        }
        for (text, error) in [
            ("", "is no number of a lab: write tcp"),
            ("tcp a", "is no number of a lab"),
            ("tcp a b c d", "is no number of a lab"),
            ("qdisc a qlen", "is no number of a lab"),
            (
                "qdisc a:e0 length",
                "is no number of that kind: bytes, packets",
            ),
            ("qdisc a:e0 qlen x:y", "is no handle"),
            ("wire a:eth0 tx_bytes", "is no number of that kind: sent"),
            ("interface a: tx_bytes", "is no number of a lab"),
        ] {
            let found = text.parse::<Quantity>().unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }

    #[test]
    fn moments() {
        for (word, event) in SAMPLE_EVENTS {
            assert_eq!(word.parse(), Ok(event));
            assert_eq!(serde_json::to_value(event).unwrap(), word);
            assert_eq!(event.to_string(), word);
        }
        assert!("ACK".parse::<SampleEvent>().is_err());
    }

    #[test]
    fn mistakes() {
        let good = Series {
            every: Some(Span(1)),
            values: [("x".to_owned(), "tcp a snd_cwnd".parse().unwrap())].into(),
            ..Series::default()
        };
        assert_eq!(good.mistake(), None);
        assert_eq!(good.to_string(), "every 1ns: x = tcp a snd_cwnd");
        let mistake = |change: fn(&mut Series)| {
            let mut series = good.clone();
            change(&mut series);
            series.mistake().map(|(key, ..)| key)
        };
        assert_eq!(mistake(|s| s.every = None), Some("every"));
        assert_eq!(mistake(|s| s.every = Some(Span(0))), Some("every"));
        assert_eq!(mistake(|s| s.on = Some(SampleEvent::Ack)), Some("on"));
        assert_eq!(mistake(|s| s.at = Some("a".to_owned())), Some("at"));
        assert_eq!(mistake(|s| s.values.clear()), Some("values"));
        assert_eq!(mistake(|s| s.file = Some("x.xls".to_owned())), Some("file"));
        let at_interface = |s: &mut Series| {
            (s.every, s.on) = (None, Some(SampleEvent::State));
            s.at = Some("a:eth0".to_owned());
        };
        assert_eq!(mistake(at_interface), Some("at"));
    }
}
