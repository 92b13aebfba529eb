//! A relay: joins each connection that it accepts to one that it makes to its target, and passes
//! datagrams on in the same way.
//!
//! With a path, what passes goes through pods, and is copied: see `path`.
//!
//! It is an app, so a packet that comes in leaves again without a process of the host: the fiber
//! that passes it on runs in the `vink_run()` in which it came. TCP's bytes go from socket to
//! socket by splice(2), by reference; see `tcp`. Linux's own way, a sockmap, is not used: it reads
//! on while the other side's buffer is full (docs/design/measurements.md).

mod path;
mod pipe;
mod tcp;
mod udp;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::arguments::{self, Arguments, Opt, Syntax};
use crate::{App, AppError, Calls, Epoll, Names, Protocol, RelayReport, Report, Socket, Target};
use path::RelayPath;

/// The token of the socket where clients come.
const CLIENTS: u64 = u64::MAX;
/// How many connections or clients there are at most at a time, unless said otherwise.
const MOST: usize = 10_000;
/// How long a client that sends nothing and is sent nothing keeps its place, as for the host's
/// conntrack.
const IDLE: Duration = Duration::from_secs(120);

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "relay",
    purpose: "Joins each connection that it accepts to one to a target; with -u, datagrams.",
    operands: "LISTEN TARGET",
    options: &[
        Opt::new('u', "", "UDP instead of TCP"),
        Opt::new(
            'n',
            "COUNT",
            "at most so many connections at a time, or clients (10000)",
        ),
        Opt::new(
            'w',
            "TIME",
            "UDP: forgets a client after so long without a datagram (2m)",
        ),
        Opt::new(
            'p',
            "PATH",
            "what passes goes through the pods of this path of the lab",
        ),
        arguments::IPV4,
        arguments::IPV6,
    ],
};

/// A relay as its words say.
struct Relay {
    listen: SocketAddr,
    target: Target,
    port: u16,
    udp: bool,
    most: usize,
    idle: Duration,
    path: Option<String>,
}

/// What a relay has that listens, whatever it passes on.
struct Ground<'c> {
    calls: &'c Calls<'c>,
    to: SocketAddr,
    most: usize,
    statistics: Statistics,
    epoll: Epoll<'c>,
    /// Where clients come.
    socket: Socket<'c>,
    path: Option<RelayPath>,
}

/// Its counters, which its reporter reads.
type Statistics = Rc<RefCell<RelayReport>>;

/// `ADDRESS:PORT`, `[ADDRESS]:PORT`, or `PORT` alone for all addresses.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let all = |port: u16| SocketAddr::new(IpAddr::from(Ipv6Addr::UNSPECIFIED), port);
    let port = text.strip_prefix(':').unwrap_or(text);
    let address = text.parse().ok().or_else(|| port.parse().ok().map(all));
    match address {
        Some(address) if address.port() > 0 => Ok(address),
        _ => Err(format!(
            "'{text}' is no address and port, such as 10.0.0.1:80, [fd00::1]:80, or 80 for all addresses"
        )),
    }
}

/// The host and the port of `HOST:PORT`.
fn parted(text: &str) -> Result<(&str, u16), String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| {
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']')?,
            // One colon too many: an IPv6 address without its brackets.
            None if host.contains(':') => return None,
            None => host,
        };
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then_some((host, port))
    });
    parts.ok_or_else(|| {
        format!("'{text}' is no host and port, such as 10.0.1.2:80, [fd00::2]:80 or server:80")
    })
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let (host, port) = parted(arguments.operand(1).unwrap_or_default())?;
    Ok(Box::new(Relay {
        listen: listen_address(arguments.operand(0).unwrap_or_default())?,
        target: Target::parse(host, names, arguments.ipv6()?)?,
        port,
        udp: arguments.has('u'),
        most: arguments.number('n', 1)?.unwrap_or(MOST),
        idle: arguments.value('w', arguments::time)?.unwrap_or(IDLE),
        path: arguments.value('p', |name| Ok(name.to_owned()))?,
    }))
}

impl App for Relay {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let protocol = if self.udp {
            Protocol::Udp
        } else {
            Protocol::Tcp
        };
        let statistics = Statistics::new(RefCell::new(RelayReport {
            protocol,
            ..RelayReport::default()
        }));
        let seen = Rc::clone(&statistics);
        calls.publish(move || Report::Relay(seen.borrow().clone()));
        let to = self.target.at(calls, self.port)?;
        let at = self.listen;
        let (socket, what) = match self.udp {
            false => (calls.listen(at), "listen on"),
            true => (calls.datagrams(at), "bind to"),
        };
        let socket = socket.map_err(AppError::during(format_args!("{what} {at} ({protocol})")))?;
        socket.set_blocking(false)?;
        let path = self.path.as_ref();
        let ground = Ground {
            calls,
            to,
            most: self.most,
            statistics,
            epoll: calls.epoll()?,
            socket,
            path: path.map(|name| RelayPath::open(calls, name)).transpose()?,
        };
        ground.epoll.add(&ground.socket, libc::EPOLLIN, CLIENTS)?;
        let ready = || {
            calls.ready();
            calls.print(&format!("relay of {protocol} {at} to {to}\n"));
        };
        match self.udp {
            false => tcp::relay(ground, ready),
            true => udp::relay(ground, self, ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let listens = |text| listen_address(text).map(|a| a.to_string());
        assert_eq!(listens("10.0.0.1:80").as_deref(), Ok("10.0.0.1:80"));
        assert_eq!(listens("[fd00::1]:80").as_deref(), Ok("[fd00::1]:80"));
        assert_eq!(listens("80").as_deref(), Ok("[::]:80"));
        assert_eq!(listens(":80").as_deref(), Ok("[::]:80"));
        for bad in [
            "",
            "0",
            "10.0.0.1",
            "10.0.0.1:0",
            "fd00::1:",
            "web:80",
            "80x",
        ] {
            assert!(listens(bad).is_err(), "{bad}");
        }
        assert_eq!(parted("web:80"), Ok(("web", 80)));
        assert_eq!(parted("[fe80::1%eth0]:80"), Ok(("fe80::1%eth0", 80)));
        for bad in [
            "",
            "web",
            "web:",
            ":80",
            "fd00::1:80",
            "[]:80",
            "web:0",
            "[a:80",
        ] {
            assert!(parted(bad).is_err(), "{bad}");
        }
    }
}
