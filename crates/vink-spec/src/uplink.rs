//! The outside end of a wire.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ShareSpec;

/// What a wire is joined to outside the box. It has a short form, as in `--uplink`; see [`Uplink::from_str`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Uplink {
    /// The host's networks, without root, by passt(1): gives addresses and a default route to the machine at
    /// the wire's other end.
    Passt {
        /// Ports of the host that lead inside: `[ADDRESS:]PORT:PORT[/udp]`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        publish: Vec<String>,
    },
    /// A TAP device of the host of this name.
    Tap(String),
    /// An interface of the host, by AF_PACKET.
    Interface(String),
    /// A unix stream socket in QEMU's framing (`-netdev stream`) at this path, which Vink listens on.
    Qemu(String),
    /// ... which QEMU listens on (`server=on`).
    QemuConnect(String),
    /// A unix datagram socket (`-netdev dgram`) at this path.
    QemuDgram(String),
    /// A virtual machine, by vhost-user at this path: a process of its own listens there, and QEMU connects.
    VhostUser(String),
    /// Another Vink on this host, by shared memory: the one that is met at the unix socket of this path.
    Wire(String),
    /// Another Vink, by UDP.
    Udp {
        /// Where datagrams are received.
        #[schemars(with = "String")]
        listen: SocketAddr,
        /// Where they are sent to.
        #[schemars(with = "String")]
        peer: SocketAddr,
    },
    /// The host's own address, beside the host's stack: ports tell the two apart.
    Share(ShareSpec),
    /// What is at the host is opened by a process of its own, which has no other right.
    Driver(Driver),
}

/// What a driver process opens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Driver {
    /// A TAP device of the host of this name.
    Tap(String),
    /// An interface of the host, by AF_PACKET.
    Interface(String),
    /// An interface that several drivers have together, each a share of its flows.
    Fanout {
        /// Its name.
        interface: String,
        /// Drivers with this number share it.
        group: u16,
    },
    /// A receive queue of an interface, by AF_XDP.
    Xdp {
        /// The interface's name.
        interface: String,
        /// The queue's number.
        queue: u16,
    },
}

impl Driver {
    /// The uplink that it is the driver of.
    pub fn opens(&self) -> Uplink {
        match self {
            Driver::Tap(name) => Uplink::Tap(name.clone()),
            Driver::Interface(interface)
            | Driver::Fanout { interface, .. }
            | Driver::Xdp { interface, .. } => Uplink::Interface(interface.clone()),
        }
    }

    /// An option of `vink driver` with its number.
    fn option(&self) -> Option<(&'static str, u16)> {
        match self {
            Driver::Tap(_) | Driver::Interface(_) => None,
            Driver::Fanout { group, .. } => Some(("--fanout", *group)),
            Driver::Xdp { queue, .. } => Some(("--xdp", *queue)),
        }
    }
}

impl Uplink {
    /// The word that it is written with in a lab file.
    pub fn kind(&self) -> &'static str {
        match self {
            Uplink::Passt { .. } => "passt",
            Uplink::Tap(_) => "tap",
            Uplink::Interface(_) => "interface",
            Uplink::Qemu(_) => "qemu",
            Uplink::QemuConnect(_) => "qemu-connect",
            Uplink::QemuDgram(_) => "qemu-dgram",
            Uplink::VhostUser(_) => "vhost-user",
            Uplink::Wire(_) => "wire",
            Uplink::Udp { .. } => "udp",
            Uplink::Share(_) => "share",
            Uplink::Driver(_) => "driver",
        }
    }

    /// If it leads through a driver process: what follows `vink driver` on its command line.
    pub fn driver(&self) -> Option<Vec<String>> {
        match self {
            Uplink::Driver(driver) => {
                let option = driver.option();
                let option = option.map(|(name, number)| [name.to_owned(), number.to_string()]);
                let words = [driver.opens().to_string()].into_iter();
                Some(words.chain(option.into_iter().flatten()).collect())
            }
            Uplink::VhostUser(_) | Uplink::Share(_) => Some(vec![self.to_string()]),
            _ => None,
        }
    }

    /// Whether its driver process is asked for ports that programs bind.
    pub fn has_ports_on_demand(&self) -> bool {
        matches!(self, Uplink::Share(share) if share.on_demand)
    }
}

/// The short forms of all kinds.
const FORMS: &str =
    "passt, tap:NAME, interface:NAME, qemu:PATH, qemu-connect:PATH, qemu-dgram:PATH, \
     vhost-user:PATH, wire:PATH, share:PORT,PORT/udp,..., driver:tap:NAME, driver:interface:NAME or udp:ADDRESS:PORT:ADDRESS:PORT (ours, the peer's)";

/// Not an uplink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an uplink: {why}{FORMS}")]
pub struct UplinkError {
    /// What was given.
    pub text: String,
    /// What is wrong with it, if it is of one of the kinds; ends with `; `.
    why: &'static str,
}

impl FromStr for Uplink {
    type Err = UplinkError;

    /// Reads `passt`, `tap:NAME`, `interface:NAME`, `qemu:PATH`, `qemu-connect:PATH`, `qemu-dgram:PATH`,
    /// `vhost-user:PATH`, `wire:PATH`, `share`, `share:ADDRESS,PORT,PORT/udp,on-demand,ephemeral=COUNT`, `driver:tap:NAME`, `driver:interface:NAME`,
    /// `udp:ADDRESS:PORT:ADDRESS:PORT` (IPv6 addresses in brackets).
    fn from_str(text: &str) -> Result<Uplink, UplinkError> {
        let bad = |why| UplinkError {
            text: text.to_owned(),
            why,
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let path = || match rest {
            "" => Err(bad("a path is missing; ")),
            path => Ok(path.to_owned()),
        };
        let named = |rest: &str| match rest.len() {
            1..=15 if !rest.contains(['/', ' ']) => Ok(rest.to_owned()),
            _ => Err(bad("the name of an interface has 1 to 15 bytes; ")),
        };
        let name = || named(rest);
        match kind {
            "passt" if rest.is_empty() => Ok(Uplink::Passt {
                publish: Vec::new(),
            }),
            "tap" => Ok(Uplink::Tap(name()?)),
            "interface" => Ok(Uplink::Interface(name()?)),
            "qemu" => Ok(Uplink::Qemu(path()?)),
            "qemu-connect" => Ok(Uplink::QemuConnect(path()?)),
            "qemu-dgram" => Ok(Uplink::QemuDgram(path()?)),
            "vhost-user" => Ok(Uplink::VhostUser(path()?)),
            "wire" => Ok(Uplink::Wire(path()?)),
            "share" => match rest.parse() {
                Ok(share) => Ok(Uplink::Share(share)),
                Err(_) => Err(bad(
                    "it shares addresses and ports, as in share:192.0.2.1,80,53/udp,ephemeral=512; ",
                )),
            },
            "driver" => match rest.split_once(':') {
                Some(("tap", name)) => Ok(Uplink::Driver(Driver::Tap(named(name)?))),
                Some(("interface", name)) => Ok(Uplink::Driver(Driver::Interface(named(name)?))),
                _ => Err(bad("a driver is one of tap:NAME or interface:NAME; ")),
            },
            "udp" => {
                let mut colons = rest.match_indices(':').map(|(at, _)| at);
                // The only place where both halves are an address and a port.
                let found = colons.find_map(|at| {
                    let listen = rest[..at].parse().ok()?;
                    let peer = rest[at + 1..].parse().ok()?;
                    Some(Uplink::Udp { listen, peer })
                });
                found.ok_or(bad("two addresses with their ports are missing; "))
            }
            _ => Err(bad("")),
        }
    }
}

impl fmt::Display for Uplink {
    /// The short form, without the ports that passt publishes and without a driver's group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uplink::Passt { .. } => f.write_str("passt"),
            Uplink::Tap(name) => write!(f, "tap:{name}"),
            Uplink::Interface(name) => write!(f, "interface:{name}"),
            Uplink::Qemu(path) => write!(f, "qemu:{path}"),
            Uplink::QemuConnect(path) => write!(f, "qemu-connect:{path}"),
            Uplink::QemuDgram(path) => write!(f, "qemu-dgram:{path}"),
            Uplink::VhostUser(path) => write!(f, "vhost-user:{path}"),
            Uplink::Wire(path) => write!(f, "wire:{path}"),
            Uplink::Udp { listen, peer } => write!(f, "udp:{listen}:{peer}"),
            Uplink::Share(share) if share.to_string().is_empty() => f.write_str("share"),
            Uplink::Share(share) => write!(f, "share:{share}"),
            Uplink::Driver(driver) => write!(f, "driver:{}", driver.opens()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in [
            "passt",
            "tap:vink0",
            "interface:eth1",
            "qemu:/tmp/vink.sock",
            "qemu-connect:/tmp/a:b.sock",
            "qemu-dgram:vink.sock",
            "vhost-user:/tmp/vm.sock",
            "wire:/tmp/w",
            "share",
            "share:192.0.2.1,2001:db8::1,80,53/udp,on-demand,ephemeral=512",
            "driver:tap:vink0",
            "driver:interface:eth1",
            "udp:127.0.0.1:4000:127.0.0.1:4001",
            "udp:[::1]:4000:[fd00::1]:4001",
        ] {
            let uplink: Uplink = text.parse().expect(text);
            assert_eq!(uplink.to_string(), text);
        }
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "none",
            "passt:1",
            "tap",
            "tap:",
            "tap:a-name-that-is-too-long",
            "interface:a b",
            "qemu:",
            "vhost-user:",
            "share:80/sctp",
            "driver:tap",
            "driver:tap:",
            "driver:qemu:/tmp/q",
            "udp:",
            "udp:127.0.0.1:4000",
            "udp:127.0.0.1:4000:4001",
            "udp:::1:4000:::1:4001",
            "udp:host:4000:host:4001",
        ] {
            let error = text.parse::<Uplink>().expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains("tap:NAME"), "{error}");
        }
    }
}
