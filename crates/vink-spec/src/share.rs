//! The host's own address as an uplink: what a lab asks for, and what it gets.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::node::Node;
use crate::read::Reader;

/// What a machine is to have of the host's address. In the short form items follow each other with commas:
/// addresses, ports, `on-demand`, `ephemeral=COUNT`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ShareSpec {
    /// Addresses of the host's; none: those that it uses by its default routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpAddr>,
    /// Ports at which the machine's programs listen: `80`, `53/udp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<TransportPort>,
    /// Its programs get other ports by binding them; else bind(2) refuses those (`EACCES`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_demand: bool,
    /// How many ports connections that the machine makes have (default 256).
    #[serde(default = "ephemeral", skip_serializing_if = "is_usual")]
    pub ephemeral: u16,
}

const EPHEMERAL: u16 = 256;
const ON_DEMAND: &str = "on-demand";

fn ephemeral() -> u16 {
    EPHEMERAL
}

fn is_usual(count: &u16) -> bool {
    *count == EPHEMERAL
}

impl Default for ShareSpec {
    fn default() -> ShareSpec {
        ShareSpec {
            addresses: Vec::new(),
            ports: Vec::new(),
            on_demand: false,
            ephemeral: EPHEMERAL,
        }
    }
}

/// A port of TCP, or of UDP: `80`, `80/tcp`, `53/udp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransportPort {
    /// 1 to 65535.
    pub number: u16,
    /// UDP rather than TCP.
    pub udp: bool,
}

impl FromStr for TransportPort {
    type Err = String;

    fn from_str(text: &str) -> Result<TransportPort, String> {
        let (number, udp) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.trim_end_matches("/tcp"), false),
            Some((number, "udp")) => (number, true),
            _ => ("", false),
        };
        match number.parse() {
            Ok(number) if number > 0 && !text.starts_with('+') => Ok(TransportPort { number, udp }),
            _ => Err(format!(
                "{text:?} is not a port: write it like 80, 80/tcp or 53/udp"
            )),
        }
    }
}

impl fmt::Display for TransportPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.udp { "/udp" } else { "" })
    }
}

impl Serialize for TransportPort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransportPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TransportPort, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TransportPort {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TransportPort".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A port of TCP, or of UDP: 80, 53/udp",
            "type": ["string", "integer"],
            "pattern": "^[0-9]+(/tcp|/udp)?$",
        })
    }
}

impl FromStr for ShareSpec {
    type Err = String;

    /// Reads the short form: `192.0.2.1,80,53/udp,on-demand,ephemeral=512`.
    fn from_str(text: &str) -> Result<ShareSpec, String> {
        let mut share = ShareSpec::default();
        for item in text.split(',').filter(|_| !text.is_empty()) {
            if let Ok(address) = item.parse() {
                if !can_be_shared(address) {
                    return Err(format!("{address} can't be shared"));
                }
                share.addresses.push(address);
            } else if let Some(count) = item.strip_prefix("ephemeral=") {
                let read = count.parse();
                share.ephemeral =
                    read.map_err(|_| format!("{count:?} is not a number of ports"))?;
            } else if item == ON_DEMAND {
                share.on_demand = true;
            } else {
                share.ports.push(item.parse()?);
            }
        }
        Ok(share)
    }
}

/// Whether an address is one that other hosts reach, of the host and not of one of its links.
pub(crate) fn can_be_shared(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(a) => a.segments()[0] & 0xffc0 == 0xfe80 || a.to_ipv4_mapped().is_some(),
    };
    !(address.is_loopback() || address.is_multicast() || address.is_unspecified() || is_link_local)
}

impl fmt::Display for ShareSpec {
    /// The short form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.addresses.iter().map(ToString::to_string);
        let ports = self.ports.iter().map(ToString::to_string);
        let mut items: Vec<_> = addresses.chain(ports).collect();
        if self.on_demand {
            items.push(ON_DEMAND.to_owned());
        }
        if self.ephemeral != EPHEMERAL {
            items.push(format!("ephemeral={}", self.ephemeral));
        }
        f.write_str(&items.join(","))
    }
}

/// What a machine has got of the host's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareGrant {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The least MTU of their interfaces, in bytes.
    pub mtu: u32,
    /// Ports at which its programs listen.
    pub ports: Vec<TransportPort>,
    /// Whether others are had by binding them.
    pub on_demand: bool,
    /// Ports of connections that the machine makes: the first and the last of each run.
    pub ephemeral: Vec<(u16, u16)>,
}

impl ShareGrant {
    /// Whether a port is the machine's from the start.
    pub fn has(&self, port: TransportPort) -> bool {
        let mut runs = self.ephemeral.iter();
        self.ports.contains(&port)
            || runs.any(|(first, last)| (*first..=*last).contains(&port.number))
    }
}

impl Reader {
    pub(crate) fn own_address(&mut self, node: &Node) -> Option<IpAddr> {
        let text = self.text(node)?;
        let address = text.parse();
        if address.is_err() {
            let message = format!("{text:?} is not an address");
            self.wrong(node.span, message, "write it like 192.0.2.1 or 2001:db8::1");
        }
        address.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in [
            "",
            "80",
            "192.0.2.1,2001:db8::1,80,53/udp,on-demand,ephemeral=512",
        ] {
            let share: ShareSpec = text.parse().expect(text);
            assert_eq!(share.to_string(), text);
        }
        let port: TransportPort = "443/tcp".parse().expect("a port");
        assert_eq!(port.to_string(), "443");
    }

    #[test]
    fn refuses() {
        for text in [
            "0",
            "80/sctp",
            "65536",
            "+80",
            "80,",
            "host",
            "127.0.0.1",
            "fe80::1",
            "ephemeral=x",
            "1-2",
        ] {
            text.parse::<ShareSpec>().expect_err(text);
        }
    }
}
