//! Breakpoints: which packets, where, and what becomes of them.

use std::fmt;
use std::str::FromStr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::{Fields, Reader};
use crate::{nearest, Span};

/// Copies that a breakpoint may make of a packet.
pub(crate) const MOST_COPIES: u32 = 64;
/// How late a breakpoint may make a packet, in ns: a day.
pub(crate) const LONGEST: u64 = 86_400_000_000_000;

/// A breakpoint. With no word of what becomes of a packet (`stop` to `run`) the lab stops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Breakpoint {
    /// Where: `machine:interface`, a machine's name (all its interfaces), or a wire's (all its ends); none: everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What happens to the packet there; none: it departs.
    #[serde(
        default,
        deserialize_with = "one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Points")]
    pub on: Vec<Point>,
    /// Which packets, as in pcap-filter(7); none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Only TCP segments whose connection on this machine is so: `state = ESTABLISHED and snd_cwnd < 10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// What stops, until it is told to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// An event tells of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub log: bool,
    /// The packet is lost.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drop: bool,
    /// One bit of it is changed, behind its Ethernet header.
    #[serde(default, skip_serializing_if = "is_false")]
    pub corrupt: bool,
    /// It goes on so much later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// It goes on behind so many later ones that match, but not later than `delay`, or a second, says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<u32>,
    /// So many copies go on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<u32>,
    /// A line of the switch box; the packet waits until it is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// So many packets are let pass before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u64,
    /// Only so many packets; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// It does nothing until it is enabled.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disabled: bool,
}

/// One event, or several.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Points {
    One(Point),
    Many(Vec<Point>),
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Point>, D::Error> {
    Ok(match Points::deserialize(from)? {
        Points::One(point) => vec![point],
        Points::Many(points) => points,
    })
}

/// What happens to a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The interface has sent it; the wire does not have it yet.
    Departure,
    /// The wire has carried it; the interface does not have it yet.
    Arrival,
    /// The wire has lost it, or the stack has dropped it.
    Loss,
}

/// What stops at a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// All of the lab, its clock too.
    All,
    /// The machine: its packets and its programs wait.
    Machine,
}

/// The words for events and for what stops.
pub(crate) const POINTS: [(&str, Point); 3] = [
    ("departure", Point::Departure),
    ("arrival", Point::Arrival),
    ("loss", Point::Loss),
];
pub(crate) const STOPS: [(&str, Stop); 2] = [("all", Stop::All), ("machine", Stop::Machine)];

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn word_of<T: PartialEq + Copy>(words: &[(&'static str, T)], value: T) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == value);
    found.map_or("", |(word, _)| word)
}

fn value_of<T: Copy>(words: &[(&'static str, T)], word: &str) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, value)| *value)
}

impl Point {
    /// Its word.
    pub fn word(self) -> &'static str {
        word_of(&POINTS, self)
    }
}

impl Breakpoint {
    /// What happens to the packets that it is about.
    pub fn points(&self) -> &[Point] {
        match self.on[..] {
            [] => &[Point::Departure],
            _ => &self.on,
        }
    }

    /// What stops.
    pub fn stops(&self) -> Option<Stop> {
        let idle = !self.log && !self.changes() && self.run.is_none();
        self.stop.or(idle.then_some(Stop::All))
    }

    /// Whether it changes what becomes of a packet.
    pub fn changes(&self) -> bool {
        self.drop
            || self.corrupt
            || self.delay.is_some()
            || self.reorder.is_some()
            || self.duplicate.is_some()
    }

    /// What is wrong with it by itself: the key, and why; the fix.
    pub fn mistake(&self) -> Option<(&'static str, &'static str, &'static str)> {
        let empty = |text: &Option<String>| text.as_ref().is_some_and(|t| t.trim().is_empty());
        if empty(&self.filter) {
            let why = "a filter that says nothing";
            return Some((
                "filter",
                why,
                "write one as in pcap-filter(7), such as tcp port 80, or leave it out",
            ));
        }
        if empty(&self.tcp) {
            let fix = "write one such as state = ESTABLISHED, or leave it out";
            return Some(("tcp", "a condition that says nothing", fix));
        }
        if empty(&self.run) {
            let fix = "write a line of the switch box, such as wire down w1";
            return Some(("run", "there is nothing to run", fix));
        }
        if self.times == Some(0) {
            let fix = "write 1 or more, or `disabled` for one that does nothing yet";
            return Some(("times", "a breakpoint for no packet", fix));
        }
        if self.reorder == Some(0) {
            return Some(("reorder", "behind no packet at all", "write 1 or more"));
        }
        if !matches!(self.duplicate, None | Some(1..=MOST_COPIES)) {
            return Some(("duplicate", "so many copies can't be made", "write 1 to 64"));
        }
        if self.delay.is_some_and(|delay| delay.0 > LONGEST) {
            return Some((
                "delay",
                "longer than a day",
                "write a shorter time, such as 20ms",
            ));
        }
        if self.points() == [Point::Loss] && self.changes() {
            let why = "what is lost can't be dropped, changed or delayed any more";
            return Some(("on", why, "use departure or arrival, or log, stop or run"));
        }
        None
    }

    /// From the words of a command: a place (`any`: everywhere), then `departure`, `arrival`, `loss`, `filter EXPRESSION`,
    /// `tcp CONDITION`, `stop all|machine`, `log`, `drop`, `corrupt`, `delay TIME`, `reorder N`, `duplicate N`, `run LINE`,
    /// `after N`, `times N`, `disabled`, and `name NAME`, in any order. The name comes apart.
    ///
    /// # Errors
    /// Which word is wrong, and what was expected.
    pub fn from_words(words: &[String]) -> Result<(Option<String>, Breakpoint), String> {
        let mut words = words.iter().map(String::as_str);
        let place = words
            .next()
            .ok_or("expected a place: MACHINE:INTERFACE, a machine, a wire, or any")?;
        let mut name = None;
        let mut new = Breakpoint {
            at: (place != "any").then(|| place.to_owned()),
            ..Breakpoint::default()
        };
        while let Some(word) = words.next() {
            let mut value = |what: &str| {
                let next = words.next();
                next.ok_or_else(|| format!("{word}: expected {what}"))
            };
            match word {
                "name" => name = Some(value("a name")?.to_owned()),
                "filter" => new.filter = Some(value("an expression in quotes")?.to_owned()),
                "tcp" => new.tcp = Some(value("a condition in quotes")?.to_owned()),
                "run" => new.run = Some(value("a line in quotes")?.to_owned()),
                "stop" => {
                    let what = value("all or machine")?;
                    let stop = value_of(&STOPS, what);
                    let wrong = || format!("stop: expected all or machine, found '{what}'");
                    new.stop = Some(stop.ok_or_else(wrong)?);
                }
                "log" => new.log = true,
                "drop" => new.drop = true,
                "corrupt" => new.corrupt = true,
                "disabled" => new.disabled = true,
                "delay" => new.delay = Some(parsed(word, value("a time")?, "a time such as 20ms")?),
                "reorder" => new.reorder = Some(parsed(word, value("a number")?, "a number")?),
                "duplicate" => new.duplicate = Some(parsed(word, value("a number")?, "a number")?),
                "after" => new.after = parsed(word, value("a number")?, "a number")?,
                "times" => new.times = Some(parsed(word, value("a number")?, "a number")?),
                other => match value_of(&POINTS, other) {
                    Some(point) => new.on.push(point),
                    None => {
                        return Err(format!(
                            "'{other}' is no word of a breakpoint: {}",
                            WORDS.join(", ")
                        ))
                    }
                },
            }
        }
        match new.mistake() {
            Some((key, why, fix)) => Err(format!("{key}: {why}: {fix}")),
            None => Ok((name, new)),
        }
    }
}

/// The words that follow a place.
pub const WORDS: [&str; 17] = [
    "departure",
    "arrival",
    "loss",
    "filter",
    "tcp",
    "stop",
    "log",
    "drop",
    "corrupt",
    "delay",
    "reorder",
    "duplicate",
    "run",
    "after",
    "times",
    "disabled",
    "name",
];

fn parsed<T: FromStr>(word: &str, text: &str, what: &str) -> Result<T, String> {
    let wrong = |_| format!("{word}: expected {what}, found '{text}'");
    text.parse().map_err(wrong)
}

/// The words that make it again, without its name.
impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.at.as_deref().unwrap_or("any"))?;
        for point in &self.on {
            write!(f, " {}", point.word())?;
        }
        for (word, text) in [("filter", &self.filter), ("tcp", &self.tcp)] {
            if let Some(text) = text {
                write!(f, " {word} {}", quoted(text))?;
            }
        }
        if let Some(stop) = self.stop {
            write!(f, " stop {}", word_of(&STOPS, stop))?;
        }
        for (word, set) in [
            ("log", self.log),
            ("drop", self.drop),
            ("corrupt", self.corrupt),
        ] {
            if set {
                write!(f, " {word}")?;
            }
        }
        if let Some(delay) = self.delay {
            write!(f, " delay {delay}")?;
        }
        for (word, number) in [
            ("reorder", self.reorder.map(u64::from)),
            ("duplicate", self.duplicate.map(u64::from)),
        ] {
            if let Some(number) = number {
                write!(f, " {word} {number}")?;
            }
        }
        if let Some(line) = &self.run {
            write!(f, " run {}", quoted(line))?;
        }
        if self.after > 0 {
            write!(f, " after {}", self.after)?;
        }
        if let Some(times) = self.times {
            write!(f, " times {times}")?;
        }
        if self.disabled {
            write!(f, " disabled")?;
        }
        Ok(())
    }
}

/// As a shell and the switch box read it back.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Reader {
    pub(crate) fn breakpoint(&mut self, node: &Node) -> Option<Breakpoint> {
        let flag =
            |r: &mut Reader, f: &mut Fields<'_>, key| r.field_or_default(f, key, Reader::flag);
        let few = |r: &mut Reader, n: &Node| r.number(n, 1, u32::MAX);
        self.fields(node, "a breakpoint", |r, f| Breakpoint {
            at: r.field(f, "at", Reader::text),
            on: r.field_or_default(f, "on", |r, n| match &n.kind {
                Kind::List(_) => r.list(n, |r, n| r.word(n, &POINTS)),
                _ => r.word(n, &POINTS).map(|point| vec![point]),
            }),
            filter: r.field(f, "filter", Reader::text),
            tcp: r.field(f, "tcp", Reader::text),
            stop: r.field(f, "stop", |r, n| r.word(n, &STOPS)),
            log: flag(r, f, "log"),
            drop: flag(r, f, "drop"),
            corrupt: flag(r, f, "corrupt"),
            delay: r.field(f, "delay", Reader::parsed),
            reorder: r.field(f, "reorder", few),
            duplicate: r.field(f, "duplicate", few),
            run: r.field(f, "run", Reader::text),
            after: r.field_or_default(f, "after", |r, n| r.number(n, 0, u64::MAX)),
            times: r.field(f, "times", |r, n| r.number(n, 0, u64::MAX)),
            disabled: flag(r, f, "disabled"),
        })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn breakpoint(
        &mut self,
        name: &str,
        breakpoint: &Breakpoint,
        ends: &IndexMap<&str, Vec<(&str, &str)>>,
    ) {
        self.name("a breakpoint", name, false);
        if let Some((key, message, fix)) = breakpoint.mistake() {
            self.at(key, |c| c.add(message, fix).path.len());
        }
        let Some(at) = &breakpoint.at else { return };
        let machines = &self.lab.machines;
        let known = match at.split_once(':') {
            Some((machine, interface)) => machines
                .get(machine)
                .is_some_and(|machine| machine.interfaces.contains_key(interface)),
            None => {
                let wire = self.lab.wires.contains_key(at) || ends.contains_key(at.as_str());
                wire || machines.contains_key(at)
            }
        };
        if !known {
            let names = machines
                .keys()
                .map(String::as_str)
                .chain(ends.keys().copied());
            let fix = match nearest(at, names) {
                Some(near) => format!("did you mean {near}?"),
                None => "write machine:interface, a machine, or a wire".to_owned(),
            };
            self.at("at", |c| {
                let message = format!("the lab has no interface, machine or wire {at}");
                c.add(message, fix).path.len()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_and_back() {
        let (name, syn) = Breakpoint::from_words(&words(&[
            "m1:eth0",
            "departure",
            "filter",
            "tcp[tcpflags] & tcp-syn != 0",
            "drop",
            "times",
            "1",
            "name",
            "syn",
        ]))
        .unwrap();
        assert_eq!(name.as_deref(), Some("syn"));
        assert_eq!(
            syn.to_string(),
            "m1:eth0 departure filter 'tcp[tcpflags] & tcp-syn != 0' drop times 1"
        );
        assert_eq!(syn.stops(), None);
        let (name, all) = Breakpoint::from_words(&words(&[
            "any",
            "arrival",
            "loss",
            "tcp",
            "state = SYN_SENT",
            "stop",
            "machine",
            "log",
            "corrupt",
            "delay",
            "20ms",
            "reorder",
            "3",
            "duplicate",
            "2",
            "run",
            "wire down w1",
            "after",
            "10",
            "disabled",
        ]))
        .unwrap();
        assert_eq!(name, None);
        assert_eq!(all.delay, Some(Span(20_000_000)));
        assert_eq!(all.points(), [Point::Arrival, Point::Loss]);
        assert_eq!(
            all.to_string(),
            "any arrival loss tcp 'state = SYN_SENT' stop machine log corrupt delay 20ms reorder 3 \
             duplicate 2 run 'wire down w1' after 10 disabled"
        );
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Breakpoint>(&json).unwrap(), all);
        let (_, plain) = Breakpoint::from_words(&words(&["w1"])).unwrap();
        assert_eq!(plain.stops(), Some(Stop::All));
        assert_eq!(plain.points(), [Point::Departure]);
    }

    #[test]
    fn mistakes() {
        for (text, error) in [
            (&[][..], "expected a place"),
            (&["m1", "filter"], "filter: expected an expression"),
            (&["m1", "filter", " "], "filter: a filter that says nothing"),
            (&["m1", "times", "x"], "times: expected a number, found 'x'"),
            (&["m1", "times", "0"], "times: a breakpoint for no packet"),
            (&["m1", "delay", "soon"], "delay: expected a time"),
            (&["m1", "delay", "2y"], "delay: expected a time"),
            (&["m1", "delay", "25h"], "delay: longer than a day"),
            (
                &["m1", "stop", "now"],
                "stop: expected all or machine, found 'now'",
            ),
            (
                &["m1", "lost"],
                "'lost' is no word of a breakpoint: departure, arrival",
            ),
            (&["m1", "loss", "drop"], "on: what is lost can't be dropped"),
            (&["m1", "duplicate", "65"], "duplicate: so many copies"),
            (&["m1", "reorder", "0"], "reorder: behind no packet"),
            (&["m1", "run", ""], "run: there is nothing to run"),
            (&["m1", "tcp", ""], "tcp: a condition that says nothing"),
        ] {
            let found = Breakpoint::from_words(&words(text)).unwrap_err();
            assert!(found.starts_with(error), "{text:?}: {found}");
        }
    }
}
