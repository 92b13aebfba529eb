//! A bulk sender, TCP and UDP: as fast as it goes, or evenly at a rate.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::arguments::{self, Arguments, Opt, Syntax};
use crate::calls::family;
use crate::echo::{any_like, DISCARD_PORT};
use crate::report::Protocol;
use crate::series::Series;
use crate::stamp::{Receipt, Stamp};
use crate::{App, AppError, Calls, Epoll, Names, Report, Socket, SourceReport, Target};

/// The port of `sink`.
pub(crate) const PORT: u16 = 5001;
/// What TCP is given at once.
const BLOCK: u64 = 64 << 10;
/// With a rate, at most what goes in this time.
const BURST: Duration = Duration::from_millis(2);
/// A datagram that fits everywhere, with its headers (RFC 8200: 1280 bytes).
const DATAGRAM: u64 = 1200;
/// What UDP sends at unless told otherwise, bits per second.
const UDP_RATE: f64 = 1e6;
/// How long an answer to the last datagram is waited for, and how often it is asked for.
const REPLY_TIMEOUT: Duration = Duration::from_millis(250);
const TRIES: u32 = 20;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "source",
    purpose: "Sends as much as it can, or evenly at a rate, to a sink and measures; TCP or UDP, port 5001.",
    operands: "HOST",
    options: &OPTIONS,
};

pub(crate) static DISCARD: Syntax = Syntax {
    name: "discard",
    purpose: "Sends to a discard server, as source does; TCP or UDP, port 9.",
    operands: "HOST",
    options: &OPTIONS,
};

static OPTIONS: [Opt; 11] = [
    Opt::new('p', "PORT", "the server's port instead of its own"),
    Opt::new('u', "", "UDP instead of TCP"),
    Opt::new('t', "TIME", "sends for so long (10s, unless there is -n)"),
    Opt::new('n', "SIZE", "sends so many bytes"),
    Opt::new(
        'r',
        "RATE",
        "at this rate of all flows together, such as 10mbit, or max (UDP: 1mbit)",
    ),
    Opt::new('P', "FLOWS", "so many flows at once (1)"),
    Opt::new(
        'l',
        "SIZE",
        "bytes of a datagram (1200), or that TCP is given at once (64Ki)",
    ),
    Opt::new('C', "NAME", "TCP's congestion control"),
    Opt::new('i', "TIME", "also reports each interval of this length"),
    arguments::IPV4,
    arguments::IPV6,
];

struct Source {
    /// A sink is there, which says what has come of UDP.
    asks: bool,
    target: Target,
    port: u16,
    udp: bool,
    time: Option<Duration>,
    bytes: Option<u64>,
    /// Bits per second.
    rate: Option<f64>,
    flows: usize,
    block: u64,
    control: Option<String>,
    interval: Option<Duration>,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    make_for(arguments, names, PORT, true)
}

/// A source for a discard server.
pub(crate) fn discard(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    make_for(arguments, names, DISCARD_PORT, false)
}

fn make_for(
    arguments: &Arguments<'_>,
    names: &Names,
    port: u16,
    asks: bool,
) -> Result<Box<dyn App>, String> {
    let udp = arguments.has('u');
    let host = arguments.operand(0).unwrap_or_default();
    let rate = |text: &str| match text {
        "max" => Ok(None),
        text => arguments::rate(text).map(Some),
    };
    let block = |text: &str| match arguments::size(text)? {
        size if udp && !(Stamp::LEN as u64..=65507).contains(&size) => {
            Err(format!("a datagram has {} to 65507 bytes", Stamp::LEN))
        }
        0 => Err("nothing at once is never much".into()),
        size => Ok(size),
    };
    let bytes = arguments.value('n', arguments::size)?;
    let time = arguments.value('t', arguments::time)?;
    let ten = bytes.is_none().then_some(Duration::from_secs(10));
    Ok(Box::new(Source {
        asks,
        target: Target::parse(host, names, arguments.ipv6()?)?,
        port: arguments.number('p', 1)?.unwrap_or(port),
        udp,
        time: time.or(ten),
        bytes,
        rate: arguments
            .value('r', rate)?
            .unwrap_or(udp.then_some(UDP_RATE)),
        flows: arguments.number('P', 1)?.unwrap_or(1),
        block: arguments
            .value('l', block)?
            .unwrap_or(if udp { DATAGRAM } else { BLOCK }),
        control: arguments.text('C').map(str::to_owned),
        interval: arguments.value('i', arguments::time)?,
    }))
}

/// What is known so far.
struct Progress {
    report: SourceReport,
    series: Series,
}

type Shared = Rc<RefCell<Progress>>;

impl App for Source {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let progress = Rc::new(RefCell::new(Progress {
            report: SourceReport {
                protocol: if self.udp {
                    Protocol::Udp
                } else {
                    Protocol::Tcp
                },
                flows: self.flows as u64,
                ..SourceReport::default()
            },
            series: Series::new(self.interval),
        }));
        let seen = Rc::clone(&progress);
        calls.publish(move || {
            let progress = seen.borrow();
            let mut report = progress.report.clone();
            report.intervals = progress.series.intervals();
            Report::Source(report)
        });
        let to = self.target.at(calls, self.port)?;
        match self.udp {
            true => self.datagrams(calls, to, &progress)?,
            false => self.streams(calls, to, &progress)?,
        }
        Ok(0)
    }
}

impl Progress {
    /// So many bytes were sent until now.
    fn add(&mut self, since: Duration, bytes: u64) {
        self.report.bytes += bytes;
        self.set_time(since);
        self.series.add(since, bytes);
    }

    fn set_time(&mut self, since: Duration) {
        self.report.seconds = since.as_secs_f64();
        self.report.rate = match since.is_zero() {
            true => 0.0,
            false => self.report.bytes as f64 * 8.0 / self.report.seconds,
        };
    }
}

impl Source {
    /// When so many bytes may have been sent, since the start.
    fn due(&self, bytes: u64) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| {
            Duration::from_nanos((bytes as f64 * 8e9 / rate) as u64)
        })
    }

    /// Whether the limits leave something to send: how much.
    fn left(&self, sent: u64, since: Duration) -> u64 {
        let bytes = self.bytes.map_or(u64::MAX, |all| all.saturating_sub(sent));
        match self.time {
            Some(time) if since >= time => 0,
            _ => bytes,
        }
    }

    fn streams(
        &self,
        calls: &Calls<'_>,
        to: SocketAddr,
        progress: &Shared,
    ) -> Result<(), AppError> {
        let epoll = calls.epoll()?;
        let sockets = self.connect(calls, &epoll, to)?;
        calls.ready();
        let burst = self.rate.map_or(u64::MAX, |rate| {
            ((rate / 8.0 * BURST.as_secs_f64()) as u64).max(1)
        });
        let most = self.bytes.unwrap_or(u64::MAX).min(burst);
        let buffer = vec![0; self.block.min(most) as usize];
        // Those that may take something.
        let mut open: VecDeque<usize> = (0..sockets.len()).collect();
        let start = calls.now()?;
        loop {
            let since = calls.now()? - start;
            let sent = progress.borrow().report.bytes;
            let left = self.left(sent, since);
            if left == 0 {
                break;
            }
            let due = self.due(sent);
            let end = self.time.unwrap_or(Duration::MAX);
            let Some(at) = open.front().copied().filter(|_| due <= since) else {
                // For room, or for the time.
                let until = if open.is_empty() { end } else { due.min(end) };
                let timeout = (until != Duration::MAX).then(|| until.saturating_sub(since));
                wait(&epoll, timeout, &mut open)?;
                continue;
            };
            let piece = &buffer[..left.min(buffer.len() as u64) as usize];
            match sockets[at].send(piece, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
                Ok(sent) => {
                    open.rotate_left(1);
                    let since = calls.now()? - start;
                    progress.borrow_mut().add(since, sent as u64);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    open.pop_front();
                }
                Err(error) => return Err(AppError::during(format_args!("send to {to}"))(error)),
            }
        }
        for socket in &sockets {
            socket.shutdown(Shutdown::Write)?;
        }
        // The sink closes when it has read everything.
        for socket in &sockets {
            socket.set_blocking(true)?;
            let what = format_args!("wait until {to} has read everything");
            while socket
                .recv(&mut [0; 512], 0)
                .map_err(AppError::during(what))?
                > 0
            {}
        }
        let since = calls.now()? - start;
        let mut rtt = 0.0;
        let mut retransmits = 0;
        for socket in &sockets {
            let info = socket.tcp_info()?;
            rtt += f64::from(info.tcpi_rtt) / 1e6 / sockets.len() as f64;
            retransmits += u64::from(info.tcpi_total_retrans);
        }
        let progress = &mut *progress.borrow_mut();
        progress.set_time(since);
        progress.report.rtt = Some(rtt);
        progress.report.retransmits = Some(retransmits);
        Ok(())
    }

    /// Connects all flows, at the same time.
    fn connect<'c>(
        &self,
        calls: &'c Calls<'_>,
        epoll: &Epoll<'_>,
        to: SocketAddr,
    ) -> Result<Vec<Socket<'c>>, AppError> {
        let mut sockets = Vec::new();
        for at in 0..self.flows {
            let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
            let socket = calls.socket(family(to), kind, 0)?;
            if let Some(name) = &self.control {
                let option = libc::TCP_CONGESTION;
                let set = socket.set_option_bytes(libc::IPPROTO_TCP, option, name.as_bytes());
                set.map_err(AppError::during(format_args!(
                    "use the congestion control '{name}'"
                )))?;
            }
            match socket.connect(to) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                    return Err(AppError::during(format_args!("connect to {to}"))(error));
                }
                _ => epoll.add(&socket, libc::EPOLLOUT | libc::EPOLLET, at as u64)?,
            }
            sockets.push(socket);
        }
        let mut connected = vec![false; self.flows];
        let mut told = VecDeque::new();
        while connected.contains(&false) {
            wait(epoll, None, &mut told)?;
            for at in told.drain(..) {
                let error = sockets[at].option(libc::SOL_SOCKET, libc::SO_ERROR)?;
                if error != 0 {
                    let error = io::Error::from_raw_os_error(error);
                    return Err(AppError::during(format_args!("connect to {to}"))(error));
                }
                connected[at] = true;
            }
        }
        Ok(sockets)
    }

    fn datagrams(
        &self,
        calls: &Calls<'_>,
        to: SocketAddr,
        progress: &Shared,
    ) -> Result<(), AppError> {
        let mut sockets = Vec::new();
        for _ in 0..self.flows {
            let socket = calls.datagrams(any_like(to))?;
            let connected = socket.connect(to);
            connected.map_err(AppError::during(format_args!("connect to {to}")))?;
            sockets.push(socket);
        }
        calls.ready();
        let start = calls.now()?;
        let flow = start.as_nanos() as u32;
        let mut buffer = vec![0; self.block as usize];
        let stamp = |number: u64, now: Duration, end: bool, buffer: &mut [u8]| {
            let time = now.as_nanos() as u64;
            let stamp = Stamp {
                flow,
                number,
                time,
                end,
            };
            stamp.write(buffer);
        };
        let mut total = 0;
        loop {
            let sent = progress.borrow().report.bytes;
            let mut now = calls.now()?;
            let due = self.due(sent);
            if self.left(sent, due.max(now - start)) == 0 {
                break;
            }
            if now < start + due {
                calls.sleep_until(start + due)?;
                now = calls.now()?;
            }
            let flows = sockets.len() as u64;
            stamp(total / flows, now, false, &mut buffer);
            let socket = &sockets[(total % flows) as usize];
            match socket.send(&buffer, libc::MSG_NOSIGNAL) {
                Ok(_) => {}
                // A queue on this machine is full: lost, as it may be anywhere.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(AppError::during(format_args!("send to {to}"))(error)),
            }
            total += 1;
            let mut progress = progress.borrow_mut();
            progress.report.packets = Some(total);
            progress.add(now - start, self.block);
        }
        // The last one's share of the time, too.
        let since = (calls.now()? - start).max(self.due(progress.borrow().report.bytes));
        progress.borrow_mut().set_time(since);

        if !self.asks {
            return Ok(());
        }
        // For those that others overtake.
        calls.sleep(REPLY_TIMEOUT)?;
        let flows = sockets.len() as u64;
        for (at, socket) in sockets.iter().enumerate() {
            // As many as went over this one.
            let sent = (total + flows - 1 - at as u64) / flows;
            let mut ask = |now| {
                stamp(sent, now, true, &mut buffer);
                socket.send(&buffer[..Stamp::LEN], libc::MSG_NOSIGNAL)
            };
            let receipt = receipt(calls, socket, flow, &mut ask)?;
            let receipt = receipt.ok_or_else(|| {
                AppError::new(format!("{to} does not say what has come: is a sink there?"))
            })?;
            let mut progress = progress.borrow_mut();
            let arrived = progress.report.arrived.get_or_insert_default();
            arrived.packets += receipt.packets;
            arrived.lost += sent.saturating_sub(receipt.packets);
            arrived.reordered += receipt.reordered;
            arrived.duplicates += receipt.duplicates;
            arrived.jitter = arrived.jitter.max(receipt.jitter as f64 / 1e9);
        }
        Ok(())
    }
}

/// Asks for a receipt until it comes. `None`: it does not.
fn receipt(
    calls: &Calls<'_>,
    socket: &Socket<'_>,
    flow: u32,
    ask: &mut impl FnMut(Duration) -> io::Result<usize>,
) -> Result<Option<Receipt>, AppError> {
    for _ in 0..TRIES {
        let asked = calls.now()?;
        ask(asked)?;
        loop {
            let left = (asked + REPLY_TIMEOUT).saturating_sub(calls.now()?);
            if !socket.is_readable(left)? {
                break;
            }
            let mut answer = [0; Receipt::LEN + 1];
            let got = socket.recv(&mut answer, 0);
            let got = got.map_err(AppError::during("ask the sink what has come"))?;
            match Receipt::read(&answer[..got]) {
                Some(receipt) if receipt.flow == flow => return Ok(Some(receipt)),
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Waits for events; adds those that they are of.
fn wait(epoll: &Epoll<'_>, timeout: Option<Duration>, to: &mut VecDeque<usize>) -> io::Result<()> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    for event in epoll.wait(&mut events, timeout)? {
        let at = event.u64 as usize;
        // The edge after a wait that has ended by its time.
        if !to.contains(&at) {
            to.push_back(at);
        }
    }
    Ok(())
}
