//! A relay of a machine: what it accepts goes on to a target, inside the worker.
//!
//! A lab that runs knows a relay as the virtualized process that it is: [`MachineSpec::with_relays`]
//! makes programs of relays, and [`RelaySpec::of`] makes relays of such programs for a file again.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::Node;
use crate::read::Reader;
use crate::{nearest, MachineSpec, ProgramSpec, Ready};

/// The virtualized process.
const APP: &str = "relay";
/// What it writes when it listens.
const READY: &str = "relay of ";

/// A relay: TCP connections, or UDP's datagrams, that come to an address of the machine go on to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RelaySpec {
    /// The protocol.
    #[serde(default, skip_serializing_if = "RelayProtocol::is_tcp")]
    pub protocol: RelayProtocol,
    /// Where it listens: an address and a port such as 10.0.0.1:80 or [fd00::1]:80, or a port for all addresses.
    pub listen: String,
    /// The target: an address or a machine's name, and a port.
    pub to: String,
    /// The path of the lab whose pods what passes goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What a relay passes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RelayProtocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

impl RelayProtocol {
    /// All of them, by their names in lab files.
    pub const NAMES: [(&str, RelayProtocol); 2] =
        [("tcp", RelayProtocol::Tcp), ("udp", RelayProtocol::Udp)];

    fn is_tcp(&self) -> bool {
        *self == RelayProtocol::Tcp
    }
}

impl fmt::Display for RelayProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = RelayProtocol::NAMES.iter().find(|(_, it)| it == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// `tcp 10.0.0.1:80 to 10.0.1.2:80`.
impl fmt::Display for RelaySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} to {}", self.protocol, self.listen, self.to)?;
        match &self.path {
            Some(path) => write!(f, " through {path}"),
            None => Ok(()),
        }
    }
}

impl RelaySpec {
    /// The program that does it.
    pub fn program(&self) -> ProgramSpec {
        let udp = match self.protocol {
            RelayProtocol::Tcp => "",
            RelayProtocol::Udp => "-u ",
        };
        let path = self.path.as_ref();
        let path = path.map_or_else(String::new, |path| format!("-p {path} "));
        ProgramSpec {
            app: Some(format!("{APP} {udp}{path}{} {}", self.listen, self.to)),
            ready: Some(Ready::Output(READY.to_owned()).into()),
            ..ProgramSpec::default()
        }
    }

    /// The relay that a program is, if a relay says all of it.
    pub fn of(program: &ProgramSpec) -> Option<RelaySpec> {
        let words: Vec<&str> = program.app.as_ref()?.split_whitespace().collect();
        let (protocol, rest) = match words[..] {
            [APP, "-u", ref rest @ ..] => (RelayProtocol::Udp, rest),
            [APP, ref rest @ ..] => (RelayProtocol::Tcp, rest),
            _ => return None,
        };
        let (path, listen, to) = match *rest {
            ["-p", path, listen, to] => (Some(path.to_owned()), listen, to),
            [listen, to] => (None, listen, to),
            _ => return None,
        };
        let relay = RelaySpec {
            protocol,
            listen: listen.to_owned(),
            to: to.to_owned(),
            path,
        };
        (relay.program() == *program).then_some(relay)
    }

    /// The port where it listens; `None`: `listen` is no address and port.
    pub fn port(&self) -> Option<u16> {
        let port = match self.listen.parse::<SocketAddr>() {
            Ok(address) => address.port(),
            Err(_) => self.listen.parse().ok()?,
        };
        (port > 0).then_some(port)
    }

    /// The host and the port of the target; `None`: it is not written as such.
    pub fn target(&self) -> Option<(&str, u16)> {
        let (host, port) = self.to.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty() && !host.contains(char::is_whitespace)).then_some((host, port))
    }
}

impl MachineSpec {
    /// The same machine with its relays as programs; a program of that name stays.
    pub fn with_relays(mut self) -> MachineSpec {
        for (name, relay) in std::mem::take(&mut self.relays) {
            self.programs.entry(name).or_insert_with(|| relay.program());
        }
        self
    }

    /// The same machine with relays in the place of programs that are such.
    pub(crate) fn without_relays(mut self) -> MachineSpec {
        for (name, program) in std::mem::take(&mut self.programs) {
            match RelaySpec::of(&program) {
                Some(relay) => drop(self.relays.insert(name, relay)),
                None => drop(self.programs.insert(name, program)),
            }
        }
        self
    }
}

impl Reader {
    pub(crate) fn relay(&mut self, node: &Node) -> Option<RelaySpec> {
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
}

impl<'a> Check<'a> {
    pub(crate) fn relay(&mut self, spec: &RelaySpec, all: &IndexMap<String, RelaySpec>) {
        let listen = &spec.listen;
        self.at("listen", |c| {
            if spec.port().is_none() {
                let fix = "write it like 10.0.0.1:80, [fd00::1]:80, or 80 for all addresses";
                c.add(format!("{listen:?} is no address and port"), fix);
            }
            let mut others = all.iter().filter(|(_, other)| !std::ptr::eq(*other, spec));
            let same =
                |other: &RelaySpec| (&other.listen, other.protocol) == (listen, spec.protocol);
            if let Some((other, _)) = others.find(|(_, other)| same(other)) {
                let message = format!("relay {other} listens on {} {listen}, too", spec.protocol);
                c.add(message, "give one of them another address or port");
            }
        });
        self.at("to", |c| match spec.target() {
            None => {
                let to = &spec.to;
                let fix = "write it like 10.0.1.2:80, [fd00::2]:80 or server:80";
                c.add(format!("{to:?} is no host and port"), fix);
            }
            Some((host, _)) => {
                let address = host.split('%').next().unwrap_or_default();
                if address.parse::<IpAddr>().is_ok() || c.lab.machines.contains_key(host) {
                    return;
                }
                let known = c.lab.machines.keys().map(String::as_str);
                let fix = match nearest(host, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name a machine of this lab, or write an address".to_owned(),
                };
                c.add(format!("`{host}` is neither an address nor a machine"), fix)
                    .may_follow = true;
            }
        });
    }

    pub(crate) fn path_of_relay(
        &mut self,
        machine: &str,
        spec: &RelaySpec,
        all: &IndexMap<String, RelaySpec>,
    ) {
        let Some(path) = &spec.path else { return };
        let known = self.lab.paths.get(path);
        let is_here = known.is_some_and(|its| its.stream.as_deref() == Some(machine));
        let mut others = all.iter().filter(|(_, other)| !std::ptr::eq(*other, spec));
        let other = others.find(|(_, other)| other.path.as_ref() == Some(path));
        self.at("path", |c| {
            if let (Some((other, _)), true) = (other, is_here) {
                let message = format!("path {path} is that of relay {other}");
                c.add(message, "give each relay a path of its own");
            } else if !is_here {
                let message = format!("the lab has no path {path} of a stream of {machine}");
                let fix = format!("add {path} to `paths`, with stream: {machine}");
                c.add(message, fix).may_follow = true;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(listen: &str, to: &str) -> RelaySpec {
        RelaySpec {
            protocol: RelayProtocol::Udp,
            listen: listen.to_owned(),
            to: to.to_owned(),
            path: None,
        }
    }

    #[test]
    fn a_relay_is_a_program_and_back() {
        let relay = relay("10.0.0.1:53", "ns:53");
        let program = relay.program();
        assert_eq!(program.app.as_deref(), Some("relay -u 10.0.0.1:53 ns:53"));
        assert_eq!(RelaySpec::of(&program), Some(relay.clone()));
        let relay = RelaySpec {
            path: Some("scan".to_owned()),
            ..relay
        };
        let program = relay.program();
        let app = "relay -u -p scan 10.0.0.1:53 ns:53";
        assert_eq!(program.app.as_deref(), Some(app));
        assert_eq!(RelaySpec::of(&program), Some(relay));
        let other = ProgramSpec {
            dir: Some("x".to_owned()),
            ..program
        };
        assert_eq!(RelaySpec::of(&other), None);
    }

    #[test]
    fn addresses() {
        let port = |listen| relay(listen, "").port();
        assert_eq!(port("10.0.0.1:80"), Some(80));
        assert_eq!(port("[fd00::1]:80"), Some(80));
        assert_eq!(port("80"), Some(80));
        for bad in [
            "",
            "0",
            "tcp 80",
            "10.0.0.1",
            "10.0.0.1:0",
            "web:80",
            "fd00::1",
        ] {
            assert_eq!(port(bad), None, "{bad}");
        }
        let to = relay("1", "[fd00::1]:80");
        assert_eq!(to.target(), Some(("fd00::1", 80)));
        assert_eq!(relay("1", "web:80").target(), Some(("web", 80)));
        for bad in ["", "web", "web:", ":80", "fd00::1:80", "web:0", "a b:80"] {
            assert_eq!(relay("1", bad).target(), None, "{bad}");
        }
    }
}
