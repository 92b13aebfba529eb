//! Echo (RFC 862) and discard (RFC 863): servers, and the client that measures round trips.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::arguments::{self, number, Arguments, Opt, Syntax};
use crate::round_trips::RoundTrips;
use crate::server::{self, serve, Answer, ListenAddress, Service};
use crate::{App, AppError, Calls, EchoReport, Names, Report, ServerReport, Socket, Target};

const ECHO_PORT: u16 = 7;
pub(crate) const DISCARD_PORT: u16 = 9;

pub(crate) static SERVER: Syntax = Syntax {
    name: "echoserver",
    purpose: "Sends back what it is sent, TCP and UDP (RFC 862); port 7.",
    operands: "",
    options: &[server::PORT, server::BIND, server::TCP, server::UDP],
};

pub(crate) static DISCARD_SERVER: Syntax = Syntax {
    name: "discardserver",
    purpose: "Reads what it is sent and forgets it, TCP and UDP (RFC 863); port 9.",
    operands: "",
    options: &[server::PORT, server::BIND, server::TCP, server::UDP],
};

pub(crate) static CLIENT: Syntax = Syntax {
    name: "echo",
    purpose:
        "Sends messages to an echo server one by one and measures how long they are away; port 7.",
    operands: "HOST",
    options: &[
        Opt::new('p', "PORT", "the server's port instead of 7"),
        Opt::new('u', "", "UDP instead of TCP"),
        Opt::new('c', "COUNT", "so many messages (1)"),
        Opt::new('s', "SIZE", "of so many bytes (64)"),
        Opt::new(
            'i',
            "TIME",
            "from the start of one to the start of the next (0: at once)",
        ),
        Opt::new(
            'w',
            "TIME",
            "waits so long for an answer (10s; UDP: 1s, then goes on)",
        ),
        arguments::IPV4,
        arguments::IPV6,
    ],
};

struct Echo;

impl Service for Echo {
    type Talk = ();

    fn received(
        &mut self,
        _: &Calls<'_>,
        (): &mut (),
        data: &[u8],
        answer: &mut Answer,
    ) -> io::Result<bool> {
        answer.push(data);
        Ok(true)
    }

    fn datagram(
        &mut self,
        _: &Calls<'_>,
        data: &[u8],
        _: SocketAddr,
        answer: &mut Vec<u8>,
    ) -> io::Result<bool> {
        answer.extend_from_slice(data);
        Ok(true)
    }
}

struct Discard;

impl Service for Discard {
    type Talk = ();

    fn received(
        &mut self,
        _: &Calls<'_>,
        (): &mut (),
        _: &[u8],
        _: &mut Answer,
    ) -> io::Result<bool> {
        Ok(true)
    }
}

/// A server of one of these.
struct Server {
    address: ListenAddress,
    echoes: bool,
}

pub(crate) fn server(arguments: &Arguments<'_>, _: &Names) -> Result<Box<dyn App>, String> {
    Ok(Box::new(Server {
        address: ListenAddress::parse(arguments, ECHO_PORT)?,
        echoes: true,
    }))
}

pub(crate) fn discard_server(arguments: &Arguments<'_>, _: &Names) -> Result<Box<dyn App>, String> {
    Ok(Box::new(Server {
        address: ListenAddress::parse(arguments, DISCARD_PORT)?,
        echoes: false,
    }))
}

impl App for Server {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let statistics = Rc::new(RefCell::new(ServerReport::default()));
        let seen = Rc::clone(&statistics);
        calls.publish(move || Report::Server(seen.borrow().clone()));
        match self.echoes {
            true => serve(calls, &self.address, Echo, &statistics),
            false => serve(calls, &self.address, Discard, &statistics),
        }
    }
}

struct Client {
    target: Target,
    port: u16,
    udp: bool,
    count: u64,
    size: usize,
    interval: Duration,
    timeout: Duration,
}

pub(crate) fn client(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let udp = arguments.has('u');
    let host = arguments.operand(0).unwrap_or_default();
    let size = |text: &str| match arguments::size(text)? {
        size @ 0..=65507 => Ok(size as usize),
        _ => Err("a message has at most 65507 bytes".to_owned()),
    };
    let size = arguments.value('s', size)?.unwrap_or(64);
    if size == 0 && !udp {
        return Err("-s 0: only a datagram (-u) can be empty".into());
    }
    let timeout = Duration::from_secs(if udp { 1 } else { 10 });
    Ok(Box::new(Client {
        target: Target::parse(host, names, arguments.ipv6()?)?,
        port: arguments
            .value('p', |text| number(text, 1))?
            .unwrap_or(ECHO_PORT),
        udp,
        count: arguments.number('c', 1)?.unwrap_or(1),
        size,
        interval: arguments
            .value('i', arguments::time)?
            .unwrap_or(Duration::ZERO),
        timeout: arguments.value('w', arguments::time)?.unwrap_or(timeout),
    }))
}

/// An address of any kind to send from.
pub(crate) fn any_like(address: SocketAddr) -> SocketAddr {
    let any = match address {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, 0)
}

impl App for Client {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let statistics = Rc::new(RefCell::new((EchoReport::default(), RoundTrips::default())));
        let seen = Rc::clone(&statistics);
        calls.publish(move || {
            let (report, times) = &*seen.borrow();
            let [min, avg, max, mdev] = times.summary();
            Report::Echo(EchoReport {
                min,
                avg,
                max,
                mdev,
                ..report.clone()
            })
        });
        let to = self.target.at(calls, self.port)?;
        let what = format!("connect to {to}");
        let socket = match self.udp {
            true => {
                let socket = calls.datagrams(any_like(to))?;
                socket.connect(to).map_err(AppError::during(what))?;
                socket
            }
            false => calls.connect(to).map_err(AppError::during(what))?,
        };
        if !self.udp {
            socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
        }
        calls.ready();
        let mut message = vec![0x5a; self.size];
        let mut answer = vec![0; self.size.max(8) + 1];
        let mut start = calls.now()?;
        for number in 0..self.count {
            if number > 0 && !self.interval.is_zero() {
                start += self.interval;
                calls.sleep_until(start)?;
            }
            let len = self.size.min(8);
            message[..len].copy_from_slice(&number.to_be_bytes()[8 - len..]);
            let sent = calls.now()?;
            let done = match self.udp {
                true => socket.send(&message, 0).map(drop),
                false => socket.send_all(&message),
            };
            done.map_err(AppError::during("send a message"))?;
            statistics.borrow_mut().0.sent += 1;
            let got = self.answer(calls, &socket, &mut answer, sent, &message)?;
            let taken = calls.now()? - sent;
            let (report, times) = &mut *statistics.borrow_mut();
            match got {
                Some(got) if answer[..got] == message => {
                    report.received += 1;
                    times.add(taken);
                }
                Some(_) => report.wrong += 1,
                None => {}
            }
        }
        let report = &statistics.borrow().0;
        Ok(i32::from(report.received < self.count))
    }
}

impl Client {
    /// Waits for the answer; how many bytes of it there are. `None`: it does not come.
    fn answer(
        &self,
        calls: &Calls<'_>,
        socket: &Socket<'_>,
        buffer: &mut [u8],
        sent: Duration,
        message: &[u8],
    ) -> Result<Option<usize>, AppError> {
        let mut have = 0;
        loop {
            let left = (sent + self.timeout).saturating_sub(calls.now()?);
            if !socket.is_readable(left)? {
                return match self.udp {
                    true => Ok(None),
                    false => Err(AppError::new("the server does not answer")),
                };
            }
            let got = match socket.recv(&mut buffer[have..], 0) {
                Ok(got) => got,
                // No peer: as if the datagram were lost.
                Err(error) if self.udp && error.kind() == ErrorKind::ConnectionRefused => {
                    return Ok(None)
                }
                Err(error) => return Err(AppError::during("receive an answer")(error)),
            };
            if self.udp {
                // One that was waited for no more.
                if got == message.len() && got >= 8 && buffer[..8] != message[..8] {
                    continue;
                }
                return Ok(Some(got));
            }
            have += got;
            if got == 0 && !message.is_empty() {
                let error = io::Error::from(ErrorKind::UnexpectedEof);
                return Err(AppError::during("the server hung up")(error));
            }
            if have >= message.len() {
                return Ok(Some(have));
            }
        }
    }
}
