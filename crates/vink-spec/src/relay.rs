//! A relay of a machine: what it accepts goes on to a target, inside the worker.
//!
//! A lab that runs knows a relay as the virtualized process that it is: [`MachineSpec::with_relays`]
//! makes programs of relays, and [`RelaySpec::of`] makes relays of such programs for a file again.

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MachineSpec, ProgramSpec, Ready};

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
