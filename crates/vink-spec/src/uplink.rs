//! The outside end of a wire.

use std::fmt;
use std::mem::discriminant;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{Object, Phase, Plan};
use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::share::can_be_shared;
use crate::{Lab, ShareSpec};

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

/// What becomes of a wire's uplink.
#[derive(Clone, Debug, PartialEq)]
pub enum UplinkChange {
    /// It is cut.
    Remove {
        /// The wire.
        wire: String,
    },
    /// The wire is joined to something outside.
    Add {
        /// The wire.
        wire: String,
        /// What.
        uplink: Uplink,
    },
}

impl Object for UplinkChange {
    fn diff(plan: &mut Plan<'_>) {
        let (old, new) = (plan.old, plan.new);
        let stays = |plan: &Plan<'_>, name: &str| !plan.wires_gone.contains(name);
        let differs = |name: &String| {
            let of = |lab: &'_ Lab| lab.wires.get(name).and_then(|wire| wire.uplink.clone());
            of(old) != of(new)
        };
        for (name, was) in &old.wires {
            if was.uplink.is_some() && (!stays(plan, name) || differs(name)) {
                let wire = name.clone();
                plan.step(Phase::UplinksGo, UplinkChange::Remove { wire });
            }
        }
        // Those of wires that stay first.
        let (staying, coming): (Vec<_>, Vec<_>) = new
            .wires
            .iter()
            .partition(|(name, _)| !plan.wire_comes(name));
        let staying = staying.into_iter().filter(|(name, _)| differs(name));
        for (name, is) in staying.chain(coming) {
            if let Some(uplink) = is.uplink.clone() {
                let wire = name.clone();
                plan.step(Phase::Uplinks, UplinkChange::Add { wire, uplink });
            }
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    fn apply(&self, lab: &mut Lab) {
        match self {
            UplinkChange::Remove { wire } => lab.wire(wire, |w| w.uplink = None),
            UplinkChange::Add { wire, uplink } => {
                lab.wire(wire, |w| w.uplink = Some(uplink.clone()));
            }
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UplinkChange::Remove { wire } => write!(f, "- uplink of {wire}"),
            UplinkChange::Add { wire, uplink } => write!(f, "+ uplink of {wire}: {uplink}"),
        }
    }
}

impl Reader {
    pub(crate) fn uplink(&mut self, node: &Node) -> Option<Uplink> {
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

    pub(crate) fn driver(&mut self, node: &Node) -> Option<Driver> {
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

    pub(crate) fn socket(&mut self, node: &Node) -> Option<std::net::SocketAddr> {
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
}

impl<'a> Check<'a> {
    pub(crate) fn uplink(&mut self, uplink: &Uplink) {
        self.path.push(uplink.kind().to_owned());
        match uplink {
            Uplink::Tap(name) | Uplink::Interface(name) => self.interface_name(name),
            // The host's struct sockaddr_un: unix(7).
            Uplink::Qemu(path)
            | Uplink::QemuConnect(path)
            | Uplink::QemuDgram(path)
            | Uplink::VhostUser(path)
            | Uplink::Wire(path)
                if path.is_empty() || path.len() > 107 =>
            {
                self.add(
                    format!("{path:?} can't be the path of a socket"),
                    "write a path of 1 to 107 bytes",
                );
            }
            Uplink::Driver(driver) => self.uplink(&driver.opens()),
            Uplink::Share(share) => {
                let never = |address: &&IpAddr| !can_be_shared(**address);
                for address in share.addresses.iter().filter(never) {
                    self.add(
                        format!("{address} can't be shared"),
                        "write an address of the host's that other hosts reach",
                    );
                }
            }
            Uplink::Udp { listen, peer } if listen.is_ipv4() != peer.is_ipv4() => {
                self.add(
                    format!("{listen} can't send to {peer}"),
                    "both must be IPv4, or both IPv6",
                );
            }
            _ => {}
        }
        self.path.pop();
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
