//! From a tree of values to a lab: every key and value that is not as the model has it becomes a
//! mistake, and reading goes on.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use indexmap::IndexMap;
use ipnet::IpNet;

use crate::breakpoint::{POINTS, STOPS};
use crate::calls::Calls;
use crate::core::{Core, MOST_CPUS};
use crate::diagnostic::{nearest, Diagnostic, SourceSpan};
use crate::generate::{Addresses, Generate, Kind as Shape};
use crate::node::{Entry, Kind, Node};
use crate::pod::{ON_FAULT, PATH_POINTS, WALLS};
use crate::rights::Rights;
use crate::series::SAMPLE_EVENTS;
use crate::{
    AtSwitch, Breakpoint, Burst, Claim, Command, Driver, Event, FileSpec, HostSpec, Interface, Lab,
    MachineSpec, PathSpec, PodSpec, PortOf, PortSpec, ProgramSpec, Readiness, Ready, RelayProtocol,
    RelaySpec, Restart, Route, Scalar, Series, Settings, ShareSpec, SwitchSpec, Time, Uplink,
    Virtual, WireSpec,
};

/// What is being read, and what was wrong with it so far.
#[derive(Default)]
pub(crate) struct Reader {
    pub mistakes: Vec<Diagnostic>,
    path: Vec<String>,
    /// Something is missing of what was written, so that what is there may not fit together.
    pub lost: bool,
    /// Which items of lists could not be read, by the list's path.
    dropped: HashMap<Vec<String>, Vec<usize>>,
}

/// The keys of a map, of which each is asked for once.
pub(crate) struct Fields<'n> {
    entries: &'n [Entry],
    known: Vec<&'static str>,
    /// Of those, the ones that go with any other.
    beside: Vec<&'static str>,
}

impl Reader {
    /// A mistake that leaves something out of the lab.
    fn lose(&mut self, span: SourceSpan, message: impl Into<String>, fix: impl Into<String>) {
        self.lost = true;
        self.wrong(span, message, fix);
    }

    fn wrong(&mut self, span: SourceSpan, message: impl Into<String>, fix: impl Into<String>) {
        self.mistakes.push(Diagnostic {
            file: None,
            span,
            excerpt: String::new(),
            path: self.path.join("."),
            message: message.into(),
            fix: fix.into(),
            warning: false,
        });
    }

    /// Where a path of the lab leads in what was read, where lists may have further items.
    pub fn written(&self, path: &[String]) -> Vec<String> {
        let mut written: Vec<String> = Vec::with_capacity(path.len());
        for step in path {
            let at = self.dropped.get(&written).and_then(|dropped| {
                let at: usize = step.parse().ok()?;
                // Ascending, so that each one before it moves it on.
                Some(
                    dropped
                        .iter()
                        .fold(at, |at, item| at + usize::from(*item <= at)),
                )
            });
            written.push(at.map_or_else(|| step.clone(), |at| at.to_string()));
        }
        written
    }

    fn within<T>(&mut self, step: impl Display, read: impl FnOnce(&mut Reader) -> T) -> T {
        self.path.push(step.to_string());
        let value = read(self);
        self.path.pop();
        value
    }

    /// A map with known keys; nothing at all is one with none.
    pub fn fields<'n, T>(
        &mut self,
        node: &'n Node,
        what: &str,
        read: impl FnOnce(&mut Reader, &mut Fields<'n>) -> T,
    ) -> Option<T> {
        let entries: &[Entry] = match &node.kind {
            Kind::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                let message = format!("{what} is a map, and this is {}", node.what());
                self.lose(
                    node.span,
                    message,
                    "write it as `key: value` lines, indented",
                );
                return None;
            }
        };
        let mut fields = Fields {
            entries,
            known: Vec::new(),
            beside: Vec::new(),
        };
        let value = read(self, &mut fields);
        for entry in entries {
            if !fields.known.contains(&entry.key.as_str()) && !entry.key.starts_with("x-") {
                let fix = unknown(&entry.key, &fields.known);
                let message = format!("{what} has no key `{}`", entry.key);
                self.within(&entry.key, |r| r.lose(entry.span, message, fix));
            }
        }
        Some(value)
    }

    /// A key's value, if it is there and as it should be.
    pub fn field<'n, T>(
        &mut self,
        fields: &mut Fields<'n>,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        fields.known.push(key);
        let entry = fields.entries.iter().find(|entry| entry.key == key)?;
        // `key:` without a value is as good as no key.
        if entry.value.is_null() && !matches!(key, "passt") {
            return None;
        }
        self.within(key, |r| read(r, &entry.value))
    }

    /// A key's value, or what stands for none.
    fn field_or_default<'n, T: Default>(
        &mut self,
        fields: &mut Fields<'n>,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> T {
        self.field(fields, key, read).unwrap_or_default()
    }

    /// A key that must be there.
    fn needed<'n, T>(
        &mut self,
        fields: &mut Fields<'n>,
        (node, key, example): (&Node, &'static str, &str),
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        let there = fields
            .entries
            .iter()
            .any(|e| e.key == key && !e.value.is_null());
        let value = self.field(fields, key, read);
        if !there {
            self.wrong(
                node.span,
                format!("`{key}` is missing"),
                format!("add `{key}: {example}`"),
            );
        }
        value
    }

    fn list<'n, T>(
        &mut self,
        node: &'n Node,
        mut read: impl FnMut(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        match &node.kind {
            Kind::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    match self.within(at, |r| read(r, item)) {
                        Some(item) => list.push(item),
                        None => self.dropped.entry(self.path.clone()).or_default().push(at),
                    }
                }
                Some(list)
            }
            kind => {
                let fix = match kind {
                    Kind::Scalar { text, .. } if !text.contains('\n') => {
                        format!("write it as a list: [{text}]")
                    }
                    _ => "write it as a list: `- ` before each item".to_owned(),
                };
                self.lose(
                    node.span,
                    format!("a list is needed here, and this is {}", node.what()),
                    fix,
                );
                None
            }
        }
    }

    /// A map from names to something.
    fn named<'n, T>(
        &mut self,
        node: &'n Node,
        mut read: impl FnMut(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<IndexMap<String, T>> {
        match &node.kind {
            Kind::Map(entries) => {
                let mut map = IndexMap::with_capacity(entries.len());
                for entry in entries {
                    if let Some(value) = self.within(&entry.key, |r| read(r, &entry.value)) {
                        map.insert(entry.key.clone(), value);
                    }
                }
                Some(map)
            }
            _ => {
                let message = format!(
                    "names with what they stand for are needed here, and this is {}",
                    node.what()
                );
                self.lose(
                    node.span,
                    message,
                    "write it as `name: ...` lines, indented",
                );
                None
            }
        }
    }

    pub fn text(&mut self, node: &Node) -> Option<String> {
        match &node.kind {
            Kind::Scalar { text, .. } if !node.is_null() => Some(text.clone()),
            _ => {
                let message = format!("text is needed here, and this is {}", node.what());
                let fix = match node.is_null() {
                    true => "write a value, or \"\" for an empty text",
                    false => {
                        "write it in one line, in quotes if it has brackets, braces or `: ` in it"
                    }
                };
                self.lose(node.span, message, fix);
                None
            }
        }
    }

    /// What is written as text and read by its own rules.
    pub fn parsed<T>(&mut self, node: &Node) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.text(node)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let error: T::Err = error;
                let error = error.to_string();
                let (message, fix) = match error.split_once(": ") {
                    Some((message, fix)) => (message, fix),
                    None => (error.as_str(), ""),
                };
                self.wrong(node.span, message, fix);
                None
            }
        }
    }

    /// A whole number between two limits.
    pub fn number<T>(&mut self, node: &Node, least: T, most: T) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.text(node)?;
        let number = text.parse().ok().filter(|n| (&least..=&most).contains(&n));
        if number.is_none() {
            let fix = format!("write a whole number from {least} to {most}");
            self.wrong(node.span, format!("{text:?} can't be used here"), fix);
        }
        number
    }

    pub fn flag(&mut self, node: &Node) -> Option<bool> {
        match &node.kind {
            Kind::Scalar { text, plain: true }
                if matches!(text.as_str(), "true" | "True" | "TRUE") =>
            {
                Some(true)
            }
            Kind::Scalar { text, plain: true }
                if matches!(text.as_str(), "false" | "False" | "FALSE") =>
            {
                Some(false)
            }
            _ => {
                let shown = match &node.kind {
                    Kind::Scalar { text, .. } => format!("{text:?}"),
                    _ => "this".to_owned(),
                };
                self.wrong(
                    node.span,
                    format!("{shown} is neither true nor false"),
                    "write true or false",
                );
                None
            }
        }
    }

    /// One of some words.
    fn word<T: Copy>(&mut self, node: &Node, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let fix = match (nearest(&text, all.iter().copied()), all.as_slice()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, [one]) => format!("write {one}"),
                (None, _) => format!("write one of {}", all.join(", ")),
            };
            self.wrong(node.span, format!("{text:?} can't be used here"), fix);
        }
        found.map(|(_, value)| *value)
    }

    /// The lab, and what it says is to be generated.
    pub fn lab(&mut self, node: &Node) -> Option<(Lab, Vec<Generate>)> {
        if node.is_null() {
            self.wrong(
                node.span,
                "there is nothing in it",
                "write a lab, such as\n    machines:\n      m1: {}",
            );
            return None;
        }
        self.fields(node, "a lab", |r, f| {
            let lab = Lab {
                name: r.field_or_default(f, "name", Reader::text),
                time: r.field_or_default(f, "time", Reader::time),
                seed: r.field(f, "seed", |r, n| r.number(n, 0, u64::MAX)),
                memory: r.field(f, "memory", Reader::text),
                calls: r.field_or_default(f, "calls", |r, n| r.word(n, &Calls::NAMES)),
                images: r.field_or_default(f, "images", |r, n| r.named(n, Reader::text)),
                hosts: r.field_or_default(f, "hosts", |r, n| r.named(n, Reader::host)),
                machines: r.field_or_default(f, "machines", |r, n| r.named(n, Reader::machine)),
                switches: r.field_or_default(f, "switches", |r, n| r.named(n, Reader::switch)),
                wires: r.field_or_default(f, "wires", |r, n| r.named(n, Reader::wire)),
                breakpoints: r
                    .field_or_default(f, "breakpoints", |r, n| r.named(n, Reader::breakpoint)),
                pods: r.field_or_default(f, "pods", |r, n| r.named(n, Reader::pod)),
                paths: r.field_or_default(f, "paths", |r, n| r.named(n, Reader::packet_path)),
                series: r.field_or_default(f, "series", |r, n| r.named(n, Reader::series)),
                always: r.field_or_default(f, "always", |r, n| r.named(n, Reader::claim)),
                eventually: r.field_or_default(f, "eventually", |r, n| r.named(n, Reader::claim)),
                events: r.field_or_default(f, "events", |r, n| r.list(n, Reader::event)),
            };
            let generate = r.field(f, "generate", |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::generate),
                _ => r.generate(n).map(|generate| vec![generate]),
            });
            (lab, generate.unwrap_or_default())
        })
    }

    fn time(&mut self, node: &Node) -> Option<Time> {
        if matches!(&node.kind, Kind::Scalar { .. }) {
            let plain = Time::Virtual(Virtual::default());
            return self.word(node, &[("real", Time::Real), ("virtual", plain)]);
        }
        self.one(node, "a clock", |r, f| {
            let own = r.field(f, "virtual", |r, n| {
                r.fields(n, "`virtual`", |r, f| {
                    let uplinks = r.field_or_default(f, "uplinks", Reader::flag);
                    let call = r.field(f, "call", Reader::parsed);
                    let rdtsc = r.field_or_default(f, "rdtsc", Reader::flag);
                    Time::Virtual(Virtual {
                        uplinks,
                        call,
                        rdtsc,
                    })
                })
            });
            let scaled = r.field(f, "scaled", Reader::parsed).map(Time::Scaled);
            own.or(scaled)
        })
    }

    fn machine(&mut self, node: &Node) -> Option<MachineSpec> {
        self.fields(node, "a machine", |r, f| MachineSpec {
            host: r.field(f, "host", Reader::text),
            image: r.field(f, "image", Reader::text),
            worker: r.field(f, "worker", Reader::text),
            core: r.field(f, "core", Reader::core),
            interfaces: r.field_or_default(f, "interfaces", |r, n| r.named(n, Reader::interface)),
            routes: r.field_or_default(f, "routes", |r, n| r.list(n, Reader::route)),
            forward: r.field_or_default(f, "forward", Reader::flag),
            rights: r.field_or_default(f, "rights", |r, n| r.word(n, &Rights::NAMES)),
            sysctls: r.field_or_default(f, "sysctls", |r, n| r.named(n, Reader::scalar)),
            files: r.field_or_default(f, "files", |r, n| r.named(n, Reader::file)),
            root: r.field(f, "root", Reader::text),
            filter: r.field(f, "filter", Reader::file),
            setup: r.field_or_default(f, "setup", |r, n| r.list(n, Reader::text)),
            programs: r.field_or_default(f, "programs", |r, n| r.named(n, Reader::program)),
            relays: r.field_or_default(f, "relays", |r, n| r.named(n, Reader::relay)),
            bridge: None,
        })
    }

    fn host(&mut self, node: &Node) -> Option<HostSpec> {
        self.fields(node, "a host", |r, f| HostSpec {
            ssh: r.field(f, "ssh", Reader::text),
            command: r.field_or_default(f, "command", |r, n| r.list(n, Reader::text)),
            vink: r.field(f, "vink", Reader::text),
            address: r.field(f, "address", Reader::parsed),
            port: r.field(f, "port", |r, n| r.number(n, 1, u16::MAX)),
        })
    }

    fn relay(&mut self, node: &Node) -> Option<RelaySpec> {
        let relay = self.fields(node, "a relay", |r, f| {
            let protocol =
                r.field_or_default(f, "protocol", |r, n| r.word(n, &RelayProtocol::NAMES));
            let listen = r.needed(f, (node, "listen", "10.0.0.1:80"), Reader::text);
            let to = r.needed(f, (node, "to", "10.0.1.2:80"), Reader::text);
            let path = r.field(f, "path", Reader::text);
            Some(RelaySpec {
                protocol,
                listen: listen?,
                to: to?,
                path,
            })
        });
        relay.flatten()
    }

    fn switch(&mut self, node: &Node) -> Option<SwitchSpec> {
        self.fields(node, "a switch", |r, f| SwitchSpec {
            host: r.field(f, "host", Reader::text),
            image: r.field(f, "image", Reader::text),
            core: r.field(f, "core", Reader::core),
            vlan: r.field(f, "vlan", Reader::flag),
            multicast_snooping: r.field(f, "multicast-snooping", Reader::flag),
            filter: r.field(f, "filter", Reader::file),
            ports: r.field_or_default(f, "ports", |r, n| r.named(n, Reader::port)),
        })
    }

    fn port(&mut self, node: &Node) -> Option<PortSpec> {
        self.fields(node, "a port", |r, f| PortSpec {
            wire: r.field(f, "wire", Reader::text),
            mac: r.field(f, "mac", Reader::text),
            addresses: r.field_or_default(f, "addresses", |r, n| r.list(n, Reader::parsed)),
            pin: r.field(f, "pin", Reader::flag),
            vlan: r.field(f, "vlan", Reader::vlan),
            tagged: r.field_or_default(f, "tagged", |r, n| r.list(n, Reader::vlan)),
            group: r.field(f, "group", Reader::text),
            filter: r.field(f, "filter", Reader::file),
        })
    }

    fn at_switch(&mut self, node: &Node) -> Option<AtSwitch> {
        if !matches!(&node.kind, Kind::Map(_)) {
            return self.text(node).map(AtSwitch::Name);
        }
        let port = self.fields(node, "the port of a switch", |r, f| {
            let name = r.needed(f, (node, "name", "sw"), Reader::text);
            let pin = r.field(f, "pin", Reader::flag);
            let vlan = r.field(f, "vlan", Reader::vlan);
            let tagged = r.field_or_default(f, "tagged", |r, n| r.list(n, Reader::vlan));
            let group = r.field(f, "group", Reader::text);
            let filter = r.field(f, "filter", Reader::file);
            Some(AtSwitch::Port(PortOf {
                name: name?,
                pin,
                vlan,
                tagged,
                group,
                filter,
            }))
        });
        port.flatten()
    }

    fn vlan(&mut self, node: &Node) -> Option<u16> {
        self.number(node, 1, 4094)
    }

    fn core(&mut self, node: &Node) -> Option<Core> {
        let cpu = |r: &mut Reader, n: &Node| r.number(n, 0, MOST_CPUS - 1);
        match &node.kind {
            Kind::List(items) => {
                let cpus = self.list(node, cpu)?;
                if items.is_empty() {
                    let fix = "name a processor, such as 0, or leave `core` out";
                    self.wrong(node.span, "there is no processor in this list", fix);
                }
                (!cpus.is_empty()).then_some(Core::Several(cpus))
            }
            _ => cpu(self, node).map(Core::One),
        }
    }

    fn interface(&mut self, node: &Node) -> Option<Interface> {
        self.fields(node, "an interface", |r, f| Interface {
            wire: r.field(f, "wire", Reader::text),
            switch: r.field(f, "switch", Reader::at_switch),
            addresses: r.field_or_default(f, "addresses", |r, n| r.list(n, Reader::address)),
            mac: r.field(f, "mac", Reader::text),
            filter: r.field(f, "filter", Reader::file),
        })
    }

    fn address(&mut self, node: &Node) -> Option<IpNet> {
        let text = self.text(node)?;
        let address = text.parse();
        if address.is_err() {
            let fix = match text.split_once('/') {
                None if text.parse::<IpAddr>().is_ok() => {
                    let size = if text.contains(':') { 64 } else { 24 };
                    format!("say how large its network is, such as {text}/{size}")
                }
                _ => "write it like 10.0.0.1/24 or fd00::1/64".to_owned(),
            };
            self.lose(
                node.span,
                format!("{text:?} is not an address with the size of its network"),
                fix,
            );
        }
        address.ok()
    }

    fn route(&mut self, node: &Node) -> Option<Route> {
        let route = self.fields(node, "a route", |r, f| {
            let to = r.needed(f, (node, "to", "default"), Reader::text);
            let via = r.field(f, "via", |r, n| {
                let text = r.text(n)?;
                let via = text.parse();
                if via.is_err() {
                    let message = format!("{text:?} is not an address");
                    r.lose(n.span, message, "write it like 10.0.0.1 or fd00::1");
                }
                via.ok()
            });
            let dev = r.field(f, "dev", Reader::text);
            let metric = r.field(f, "metric", |r, n| r.number(n, 0, u32::MAX));
            Some(Route {
                to: to?,
                via,
                dev,
                metric,
            })
        });
        route.flatten()
    }

    fn scalar(&mut self, node: &Node) -> Option<Scalar> {
        let text = self.text(node)?;
        let plain = matches!(&node.kind, Kind::Scalar { plain: true, .. });
        // Only what is printed as it was written: 010 may be meant as something else.
        let number = text
            .parse()
            .ok()
            .filter(|n: &i64| plain && n.to_string() == text);
        Some(number.map_or(Scalar::Text(text), Scalar::Number))
    }

    fn file(&mut self, node: &Node) -> Option<FileSpec> {
        match &node.kind {
            Kind::Map(_) => self
                .fields(node, "a file", |r, f| {
                    let from = r.needed(f, (node, "from", "path/of/the/file"), Reader::text)?;
                    Some(FileSpec::From { from })
                })
                .flatten(),
            _ if node.is_null() => Some(FileSpec::Text(String::new())),
            _ => self.text(node).map(FileSpec::Text),
        }
    }

    fn program(&mut self, node: &Node) -> Option<ProgramSpec> {
        self.fields(node, "a program", |r, f| ProgramSpec {
            command: r.field(f, "command", |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::text).map(Command::List),
                _ => r.text(n).map(Command::Shell),
            }),
            app: r.field(f, "app", Reader::text),
            env: r.field_or_default(f, "env", |r, n| {
                r.named(n, |r, n| match n.is_null() {
                    true => Some(String::new()),
                    false => r.text(n),
                })
            }),
            dir: r.field(f, "dir", Reader::text),
            after: r.field_or_default(f, "after", |r, n| r.list(n, Reader::text)),
            ready: r.field(f, "ready", Reader::ready),
            restart: r.field_or_default(f, "restart", |r, n| {
                let words = [
                    ("never", Restart::Never),
                    ("on-failure", Restart::OnFailure),
                    ("always", Restart::Always),
                ];
                r.word(n, &words)
            }),
        })
    }

    /// A key beside the one that [`Reader::one`] is about.
    fn option<'n, T>(
        &mut self,
        fields: &mut Fields<'n>,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        fields.beside.push(key);
        self.field(fields, key, read)
    }

    /// A map with exactly one key, of those that `read` asks for, and others by [`Reader::option`].
    fn one<'n, T>(
        &mut self,
        node: &'n Node,
        what: &str,
        read: impl FnOnce(&mut Reader, &mut Fields<'n>) -> Option<T>,
    ) -> Option<T> {
        let before = self.mistakes.len();
        let (mut known, mut beside) = (Vec::new(), Vec::new());
        let value = self.fields(node, what, |r, f| {
            let value = read(r, f);
            known = f.known.clone();
            known.retain(|key| !f.beside.contains(key));
            beside = f.beside.clone();
            value
        });
        let counts = |entry: &&Entry| !beside.contains(&entry.key.as_str());
        let many =
            matches!(&node.kind, Kind::Map(entries) if entries.iter().filter(counts).count() > 1);
        if self.mistakes.len() == before && (many || value.as_ref().is_none_or(Option::is_none)) {
            let message = format!("{what} is one of {}", known.join(", "));
            self.wrong(node.span, message, "write one of them");
        }
        value.flatten()
    }

    fn ready(&mut self, node: &Node) -> Option<Readiness> {
        if matches!(&node.kind, Kind::Scalar { .. }) {
            let word = self.word(node, &[("success", ())]);
            return word.map(|()| Ready::Success.into());
        }
        let mut timeout = None;
        let by = self.one(node, "`ready`", |r, f| {
            let port = r
                .field(f, "port", |r, n| r.number(n, 1, u16::MAX))
                .map(Ready::Port);
            let command = r.field(f, "command", Reader::text).map(Ready::Command);
            let output = r.field(f, "output", Reader::text).map(Ready::Output);
            let time = r.field(f, "time", Reader::parsed).map(Ready::Time);
            timeout = r.option(f, "timeout", Reader::parsed);
            port.or(command).or(output).or(time)
        });
        by.map(|by| Readiness { by, timeout })
    }

    fn wire(&mut self, node: &Node) -> Option<WireSpec> {
        self.fields(node, "a wire", |r, f| WireSpec {
            settings: r.settings(f),
            bus: r.field(f, "bus", Reader::flag),
            up: r.field(f, "up", Reader::flag),
            from: r.field_or_default(f, "from", |r, n| {
                r.named(n, |r, n| {
                    r.fields(n, "one direction of a wire", Reader::settings)
                })
            }),
            uplink: r.field(f, "uplink", Reader::uplink),
        })
    }

    fn settings(&mut self, f: &mut Fields<'_>) -> Settings {
        Settings {
            rate: self.field(f, "rate", Reader::parsed),
            delay: self.field(f, "delay", Reader::parsed),
            jitter: self.field(f, "jitter", Reader::parsed),
            overtake: self.field(f, "overtake", Reader::flag),
            loss: self.field(f, "loss", Reader::parsed),
            burst: self
                .field(f, "burst", |r, n| {
                    r.fields(n, "`burst`", |r, f| {
                        let start = r.needed(f, (n, "start", "1%"), Reader::parsed);
                        let end = r.needed(f, (n, "end", "10%"), Reader::parsed);
                        let loss = r.field(f, "loss", Reader::parsed);
                        let good_loss = r.field(f, "good-loss", Reader::parsed);
                        Some(Burst {
                            start: start?,
                            end: end?,
                            loss: loss.unwrap_or(crate::Share(1.0)),
                            good_loss: good_loss.unwrap_or_default(),
                        })
                    })
                })
                .flatten(),
            corrupt: self.field(f, "corrupt", Reader::parsed),
            duplicate: self.field(f, "duplicate", Reader::parsed),
            reorder: self.field(f, "reorder", Reader::parsed),
            limit: self.field(f, "limit", |r, n| r.number(n, 1, u32::MAX)),
            mtu: self.field(f, "mtu", |r, n| r.number(n, 68, 65_535)),
        }
    }

    fn uplink(&mut self, node: &Node) -> Option<Uplink> {
        if matches!(&node.kind, Kind::Scalar { .. }) {
            return self.parsed(node);
        }
        self.one(node, "an uplink", |r, f| {
            let passt = r.field(f, "passt", |r, n| {
                r.fields(n, "`passt`", |r, f| Uplink::Passt {
                    publish: r.field_or_default(f, "publish", |r, n| r.list(n, Reader::text)),
                })
            });
            let tap = r.field(f, "tap", Reader::text).map(Uplink::Tap);
            let interface = r.field(f, "interface", Reader::text).map(Uplink::Interface);
            let qemu = r.field(f, "qemu", Reader::text).map(Uplink::Qemu);
            let connect = r
                .field(f, "qemu-connect", Reader::text)
                .map(Uplink::QemuConnect);
            let dgram = r
                .field(f, "qemu-dgram", Reader::text)
                .map(Uplink::QemuDgram);
            let machine = r
                .field(f, "vhost-user", Reader::text)
                .map(Uplink::VhostUser);
            let wire = r.field(f, "wire", Reader::text).map(Uplink::Wire);
            let udp = r.field(f, "udp", |r, n| {
                let udp = r.fields(n, "`udp`", |r, f| {
                    let listen = r.needed(f, (n, "listen", "0.0.0.0:7000"), Reader::socket);
                    let peer = r.needed(f, (n, "peer", "192.0.2.1:7000"), Reader::socket);
                    Some(Uplink::Udp {
                        listen: listen?,
                        peer: peer?,
                    })
                });
                udp.flatten()
            });
            let share = r.field(f, "share", |r, n| {
                r.fields(n, "`share`", |r, f| {
                    Uplink::Share(ShareSpec {
                        addresses: r.field_or_default(f, "addresses", |r, n| {
                            r.list(n, Reader::own_address)
                        }),
                        ports: r.field_or_default(f, "ports", |r, n| r.list(n, Reader::parsed)),
                        on_demand: r.field_or_default(f, "on-demand", Reader::flag),
                        ephemeral: r
                            .field(f, "ephemeral", |r, n| r.number(n, 0, u16::MAX))
                            .unwrap_or(ShareSpec::default().ephemeral),
                    })
                })
            });
            let driver = r.field(f, "driver", Reader::driver).map(Uplink::Driver);
            passt
                .or(tap)
                .or(interface)
                .or(qemu)
                .or(connect)
                .or(dgram)
                .or(machine)
                .or(wire)
                .or(udp)
                .or(share)
                .or(driver)
        })
    }

    fn own_address(&mut self, node: &Node) -> Option<IpAddr> {
        let text = self.text(node)?;
        let address = text.parse();
        if address.is_err() {
            let message = format!("{text:?} is not an address");
            self.wrong(node.span, message, "write it like 192.0.2.1 or 2001:db8::1");
        }
        address.ok()
    }

    fn driver(&mut self, node: &Node) -> Option<Driver> {
        self.one(node, "a driver", |r, f| {
            let tap = r.field(f, "tap", Reader::text).map(Driver::Tap);
            let interface = r.field(f, "interface", Reader::text);
            let interface = interface.map(Driver::Interface);
            let fanout = r.field(f, "fanout", |r, n| {
                let fanout = r.fields(n, "`fanout`", |r, f| {
                    let interface = r.needed(f, (n, "interface", "eth1"), Reader::text);
                    let group = r.needed(f, (n, "group", "1"), |r, n| r.number(n, 0, u16::MAX));
                    Some(Driver::Fanout {
                        interface: interface?,
                        group: group?,
                    })
                });
                fanout.flatten()
            });
            let xdp = r.field(f, "xdp", |r, n| {
                let xdp = r.fields(n, "`xdp`", |r, f| {
                    let interface = r.needed(f, (n, "interface", "eth1"), Reader::text);
                    let queue = r.field(f, "queue", |r, n| r.number(n, 0, u16::MAX));
                    Some(Driver::Xdp {
                        interface: interface?,
                        queue: queue.unwrap_or(0),
                    })
                });
                xdp.flatten()
            });
            tap.or(interface).or(fanout).or(xdp)
        })
    }

    fn socket(&mut self, node: &Node) -> Option<std::net::SocketAddr> {
        let text = self.text(node)?;
        let socket = text.parse();
        if socket.is_err() {
            let message = format!("{text:?} is not an address and a port");
            self.wrong(
                node.span,
                message,
                "write it like 192.0.2.1:7000 or [2001:db8::1]:7000, without a name",
            );
        }
        socket.ok()
    }

    fn series(&mut self, node: &Node) -> Option<Series> {
        self.fields(node, "a time series", |r, f| Series {
            every: r.field(f, "every", Reader::parsed),
            on: r.field(f, "on", |r, n| r.word(n, &SAMPLE_EVENTS)),
            at: r.field(f, "at", Reader::text),
            values: r.field_or_default(f, "values", |r, n| r.named(n, Reader::parsed)),
            file: r.field(f, "file", Reader::text),
        })
    }

    fn claim(&mut self, node: &Node) -> Option<Claim> {
        let claim: Claim = self.parsed(node)?;
        let line = node.span.line;
        Some(Claim { line, ..claim })
    }

    fn breakpoint(&mut self, node: &Node) -> Option<Breakpoint> {
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

    fn pod(&mut self, node: &Node) -> Option<PodSpec> {
        let pod = self.fields(node, "a pod", |r, f| {
            let file = r.needed(f, (node, "file", "count.so"), Reader::text);
            let wall = r.field(f, "wall", |r, n| r.word(n, &WALLS));
            let config = r.field_or_default(f, "config", Reader::text);
            let memory = r.field(f, "memory", Reader::text);
            let time = r.field(f, "time", Reader::parsed);
            Some(PodSpec {
                file: file?,
                wall,
                config,
                memory,
                time,
            })
        });
        pod.flatten()
    }

    fn packet_path(&mut self, node: &Node) -> Option<PathSpec> {
        let path = self.fields(node, "a path", |r, f| {
            let stream = r.field(f, "stream", Reader::text);
            let at = match stream {
                Some(_) => r.field(f, "at", Reader::text).or(Some(String::new())),
                None => r.needed(f, (node, "at", "client:eth0"), Reader::text),
            };
            let on = r.field(f, "on", |r, n| r.word(n, &PATH_POINTS));
            let filter = r.field(f, "filter", Reader::text);
            let mark = r.field(f, "mark", |r, n| r.number(n, 0, u32::MAX));
            let pods = r.needed(f, (node, "pods", "[count]"), |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::text),
                _ => r.text(n).map(|pod| vec![pod]),
            });
            let period = r.field(f, "period", Reader::parsed);
            let cycles = r.field(f, "cycles", |r, n| r.number(n, 1, u64::MAX));
            let bytes = r.field(f, "bytes", Reader::text);
            let queue = r.field(f, "queue", |r, n| r.number(n, 1, u32::MAX));
            let class = r.field_or_default(f, "class", |r, n| r.number(n, 0, u32::MAX));
            let on_fault = r.field_or_default(f, "on-fault", |r, n| r.word(n, &ON_FAULT));
            Some(PathSpec {
                at: at?,
                stream,
                on,
                filter,
                mark,
                pods: pods?,
                period,
                cycles,
                bytes,
                queue,
                class,
                on_fault,
            })
        });
        path.flatten()
    }

    fn event(&mut self, node: &Node) -> Option<Event> {
        let event = self.fields(node, "an event", |r, f| {
            let at = r.needed(f, (node, "at", "10s"), Reader::parsed);
            let every = r.field(f, "every", Reader::parsed);
            let line = r.needed(f, (node, "do", "wire set w1 loss 1%"), Reader::text);
            Some(Event {
                at: at?,
                every,
                line: line?,
            })
        });
        event.flatten()
    }

    fn generate(&mut self, node: &Node) -> Option<Generate> {
        let generate = self.fields(node, "`generate`", |r, f| {
            let kinds = [
                ("line", Shape::Line),
                ("ring", Shape::Ring),
                ("star", Shape::Star),
                ("tree", Shape::Tree),
                ("grid", Shape::Grid),
                ("mesh", Shape::Mesh),
                ("leaf-spine", Shape::LeafSpine),
                ("random", Shape::Random),
            ];
            let kind = r.needed(f, (node, "kind", "line"), |r, n| r.word(n, &kinds));
            let most = crate::generate::MOST;
            let machines = r.needed(f, (node, "machines", "10"), |r, n| r.number(n, 2, most));
            let fanout = r.field(f, "fanout", |r, n| r.number(n, 1, most));
            let columns = r.field(f, "columns", |r, n| r.number(n, 1, most));
            let spines = r.field(f, "spines", |r, n| r.number(n, 1, most));
            let degree = r.field(f, "degree", |r, n| r.number(n, 1, 1000));
            let seed = r.field(f, "seed", |r, n| r.number(n, 0, u64::MAX));
            let name = r.field(f, "name", Reader::text);
            let machine = r.field_or_default(f, "machine", Reader::machine);
            let wire = r.field_or_default(f, "wire", Reader::wire);
            let addresses = r.field(f, "addresses", |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::address).map(Addresses::List),
                _ => r.address(n).map(Addresses::One),
            });
            let routes = r.field(f, "routes", |r, n| {
                r.word(n, &[("static", true), ("none", false)])
            });
            Some(Generate {
                kind: kind?,
                machines: machines?,
                fanout,
                columns,
                spines,
                degree,
                seed,
                name,
                machine,
                wire,
                addresses: addresses.unwrap_or_default(),
                routes: crate::generate::Routes::from(routes.unwrap_or(true)),
            })
        });
        generate.flatten()
    }
}

/// What to say of a key that isn't known.
fn unknown(key: &str, known: &[&'static str]) -> String {
    let elsewhere = match key {
        "topology" | "nodes" | "links" | "kinds" => {
            Some("this looks like a containerlab file: `vink import` makes a lab of it")
        }
        "services" | "networks" | "volumes" => {
            Some("this looks like a compose file; a lab has `machines` and `wires`")
        }
        "exec" if known.contains(&"setup") => Some("commands for a machine's start are in `setup`"),
        "environment" => Some("did you mean `env`?"),
        "depends_on" | "depends-on" => Some("did you mean `after`?"),
        "cmd" | "run" | "exec" => Some("did you mean `command`?"),
        "latency" => Some("did you mean `delay`?"),
        "bandwidth" | "speed" => Some("did you mean `rate`?"),
        "gateway" | "gw" => Some("did you mean `via`?"),
        "ip" | "ipv4" | "ipv6" | "address" => Some("did you mean `addresses`?"),
        _ => None,
    };
    let named = |word: &str| {
        known
            .iter()
            .any(|known| word.contains(&format!("`{known}`")))
    };
    match elsewhere.filter(|text| !text.starts_with("did you") || named(text)) {
        Some(text) => text.to_owned(),
        None => match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its keys are {}", known.join(", ")),
        },
    }
}
