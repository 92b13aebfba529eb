//! Many requests to a web server, some at a time, and how long each takes.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::arguments::{self, Arguments, Opt, Syntax};
use crate::calls::family;
use crate::histogram::Histogram;
use crate::http_server::PORT;
use crate::random::Random;
use crate::{App, AppError, Calls, Epoll, HttpReport, Latency, Names, Report, Socket, Target};

/// Bytes per read.
const BLOCK: usize = 64 << 10;
/// A response's head has at most so many bytes.
const MOST_HEAD: usize = 16 << 10;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "http",
    purpose:
        "Asks a web server for pages, several at a time, and measures how long each takes; port 80.",
    operands: "HOST",
    options: &[
        Opt::new('p', "PORT", "the server's port instead of 80"),
        Opt::new('n', "COUNT", "so many requests (1, unless there is -t)"),
        Opt::new('t', "TIME", "begins requests for so long"),
        Opt::new('c', "COUNT", "so many connections at a time (1)"),
        Opt::new('s', "SIZE", "pages of so many bytes: /SIZE (1k)"),
        Opt::new('u', "PATH", "this page instead, of whatever size"),
        Opt::new('b', "SIZE", "sends so many bytes with each request (POST)"),
        Opt::new(
            'k',
            "TIME",
            "thinks for so long between an answer and the next request, on average (0)",
        ),
        Opt::new(
            'd',
            "KIND",
            "how that time varies: constant, uniform (0 to twice), exponential",
        ),
        Opt::new('K', "", "a connection of its own for each request"),
        Opt::new('w', "TIME", "waits so long for an answer (30s)"),
        arguments::IPV4,
        arguments::IPV6,
    ],
};

/// How thinking times vary.
#[derive(Clone, Copy)]
enum Kind {
    Constant,
    Uniform,
    Exponential,
}

struct HttpClient {
    target: Target,
    port: u16,
    count: Option<u64>,
    time: Option<Duration>,
    connections: usize,
    request: Vec<u8>,
    think: Duration,
    kind: Kind,
    fresh: bool,
    timeout: Duration,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let host = arguments.operand(0).unwrap_or_default();
    let target = Target::parse(host, names, arguments.ipv6()?)?;
    let size = arguments.value('s', arguments::size)?;
    let path = match (arguments.text('u'), size) {
        (Some(_), Some(_)) => return Err("-u and -s exclude each other".into()),
        (Some(path), None) if path.starts_with('/') => path.to_owned(),
        (Some(path), None) => return Err(format!("-u {path}: a path begins with /")),
        (None, size) => format!("/{}", size.unwrap_or(1000)),
    };
    let body = arguments.value('b', arguments::size)?.unwrap_or(0);
    let kind = |text: &str| match text {
        "constant" => Ok(Kind::Constant),
        "uniform" => Ok(Kind::Uniform),
        "exponential" => Ok(Kind::Exponential),
        _ => Err("it is constant, uniform or exponential".to_owned()),
    };
    let fresh = arguments.has('K');
    let method = if body > 0 { "POST" } else { "GET" };
    let connection = if fresh { "close" } else { "keep-alive" };
    let host = match target.address.is_ipv6() {
        true => format!("[{}]", target.address),
        false => target.address.to_string(),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {body}\r\n\
         Connection: {connection}\r\n\r\n"
    );
    let mut request = head.into_bytes();
    let length = request.len() + usize::try_from(body).map_err(|e| e.to_string())?;
    request.resize(length, b'x');
    let time = arguments.value('t', arguments::time)?;
    let count = arguments.number('n', 1)?;
    Ok(Box::new(HttpClient {
        target,
        port: arguments.number('p', 1)?.unwrap_or(PORT),
        count: count.or(time.is_none().then_some(1)),
        time,
        connections: arguments.number('c', 1)?.unwrap_or(1),
        request,
        think: arguments
            .value('k', arguments::time)?
            .unwrap_or(Duration::ZERO),
        kind: arguments.value('d', kind)?.unwrap_or(Kind::Constant),
        fresh,
        timeout: arguments
            .value('w', arguments::time)?
            .unwrap_or(Duration::from_secs(30)),
    }))
}

/// What is known so far.
#[derive(Default)]
struct Progress {
    report: HttpReport,
    times: Histogram,
}

impl App for HttpClient {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let progress = Rc::new(RefCell::new(Progress::default()));
        let seen = Rc::clone(&progress);
        calls.publish(move || Report::Http(seen.borrow().report()));
        let to = self.target.at(calls, self.port)?;
        calls.ready();
        let mut clients = Clients {
            calls,
            app: self,
            to,
            epoll: calls.epoll()?,
            all: Vec::new(),
            alarms: BinaryHeap::new(),
            begun: 0,
            start: calls.now()?,
            random: Random::new(calls)?,
            progress: &progress,
            buffer: vec![0; BLOCK],
        };
        for at in 0..self.connections {
            clients.all.push(Client::default());
            clients.begin(at)?;
        }
        while clients.turn()? {}
        let errors = progress.borrow().report.errors;
        Ok(i32::from(errors > 0))
    }
}

impl Progress {
    fn report(&self) -> HttpReport {
        let report = self.report.clone();
        let [min, avg, max] = self.times.summary();
        let q = |part| self.times.quantile(part);
        HttpReport {
            rate: match report.seconds {
                0.0 => 0.0,
                seconds => report.requests as f64 / seconds,
            },
            latency: Latency {
                min,
                avg,
                p50: q(0.5),
                p90: q(0.9),
                p99: q(0.99),
                p999: q(0.999),
                max,
            },
            ..report
        }
    }
}

/// Where one of the connections stands.
#[derive(Default)]
struct Client<'c> {
    socket: Option<Socket<'c>>,
    phase: Phase,
    /// When its request began.
    asked: Duration,
    /// Counts its requests and thoughts: an alarm of an earlier one means nothing.
    round: u64,
}

#[derive(Default)]
enum Phase {
    /// There is nothing to do any more.
    #[default]
    Over,
    Thinking,
    /// So much of the request has been sent.
    Sending(usize),
    /// So much of the answer's head has come.
    Head(Vec<u8>),
    /// So much of its body is to come, and then the connection ends or not.
    Body {
        left: u64,
        lives: bool,
    },
}

struct Clients<'c> {
    calls: &'c Calls<'c>,
    app: &'c HttpClient,
    to: SocketAddr,
    epoll: Epoll<'c>,
    all: Vec<Client<'c>>,
    /// When, whose, of which round.
    alarms: BinaryHeap<Reverse<(Duration, usize, u64)>>,
    begun: u64,
    start: Duration,
    random: Random,
    progress: &'c RefCell<Progress>,
    buffer: Vec<u8>,
}

impl Clients<'_> {
    /// Waits for something to happen; false when all is over.
    fn turn(&mut self) -> io::Result<bool> {
        let now = self.calls.now()?;
        while let Some(Reverse((time, at, round))) = self.alarms.peek().copied() {
            if time > now {
                break;
            }
            self.alarms.pop();
            let client = &self.all[at];
            if client.round == round {
                match client.phase {
                    Phase::Thinking => self.begin(at)?,
                    _ => self.failed(at)?,
                }
            }
        }
        if self.all.iter().all(|c| matches!(c.phase, Phase::Over)) {
            return Ok(false);
        }
        let next = self.alarms.peek().map(|Reverse((time, ..))| *time);
        let timeout = next.map(|time| time.saturating_sub(now));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let count = self.epoll.wait(&mut events, timeout)?.len();
        for event in &events[..count] {
            self.drive(event.u64 as usize)?;
        }
        Ok(true)
    }

    /// Begins a request, if there is one to make.
    fn begin(&mut self, at: usize) -> io::Result<()> {
        let now = self.calls.now()?;
        let enough = self.app.count.is_some_and(|count| self.begun >= count)
            || self.app.time.is_some_and(|time| now - self.start >= time);
        let client = &mut self.all[at];
        client.round += 1;
        client.asked = now;
        if enough {
            client.phase = Phase::Over;
            client.socket = None;
            return Ok(());
        }
        self.begun += 1;
        client.phase = Phase::Sending(0);
        let alarm = (now + self.app.timeout, at, client.round);
        self.alarms.push(Reverse(alarm));
        if client.socket.is_some() {
            return self.drive(at);
        }
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let socket = self.calls.socket(family(self.to), kind, 0)?;
        socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
        self.progress.borrow_mut().report.connections += 1;
        // How it ends is told by the first send.
        let begun = socket.connect(self.to);
        let both = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;
        self.epoll.add(&socket, both, at as u64)?;
        client.socket = Some(socket);
        match begun {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(_) => self.failed(at),
            Ok(()) => self.drive(at),
        }
    }

    /// Goes on with a request as far as it goes.
    fn drive(&mut self, at: usize) -> io::Result<()> {
        match self.exchange(at) {
            Ok(false) => Ok(()),
            Ok(true) => self.succeeded(at),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(_) => self.failed(at),
        }
    }

    /// Sends and receives; true: the answer is complete.
    fn exchange(&mut self, at: usize) -> io::Result<bool> {
        let client = &mut self.all[at];
        let Some(socket) = &client.socket else {
            return Ok(false);
        };
        loop {
            match &mut client.phase {
                Phase::Over | Phase::Thinking => {
                    // It may only end meanwhile; then the next request needs another one.
                    if socket.recv(&mut self.buffer, 0)? == 0 {
                        client.socket = None;
                    }
                    return Ok(false);
                }
                Phase::Sending(sent) => {
                    let rest = &self.app.request[*sent..];
                    *sent += socket.send(rest, libc::MSG_NOSIGNAL)?;
                    if *sent == self.app.request.len() {
                        client.phase = Phase::Head(Vec::new());
                    }
                }
                Phase::Head(head) => {
                    let got = socket.recv(&mut self.buffer, 0)?;
                    head.extend_from_slice(&self.buffer[..got]);
                    let end = head.windows(4).position(|w| w == b"\r\n\r\n");
                    let Some(end) = end else {
                        if got == 0 || head.len() > MOST_HEAD {
                            return Err(ErrorKind::InvalidData.into());
                        }
                        continue;
                    };
                    let (length, lives) = read_head(&head[..end])?;
                    let came = (head.len() - end - 4) as u64;
                    self.progress.borrow_mut().report.received += came;
                    let left = length.checked_sub(came).ok_or(ErrorKind::InvalidData)?;
                    client.phase = Phase::Body { left, lives };
                }
                Phase::Body { left: 0, lives } => {
                    if !*lives || self.app.fresh {
                        client.socket = None;
                    }
                    return Ok(true);
                }
                Phase::Body { left, .. } => {
                    let room = (*left).min(BLOCK as u64) as usize;
                    let got = socket.recv(&mut self.buffer[..room], 0)?;
                    if got == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    *left -= got as u64;
                    self.progress.borrow_mut().report.received += got as u64;
                }
            }
        }
    }

    fn succeeded(&mut self, at: usize) -> io::Result<()> {
        let now = self.calls.now()?;
        {
            let progress = &mut *self.progress.borrow_mut();
            progress.report.requests += 1;
            progress.report.seconds = (now - self.start).as_secs_f64();
            progress.times.add(now - self.all[at].asked);
        }
        self.think(at, now)
    }

    fn failed(&mut self, at: usize) -> io::Result<()> {
        let now = self.calls.now()?;
        self.all[at].socket = None;
        {
            let report = &mut self.progress.borrow_mut().report;
            report.errors += 1;
            report.seconds = (now - self.start).as_secs_f64();
        }
        self.think(at, now)
    }

    /// The time between two requests; the next one begins with its alarm, even if it is no time at
    /// all.
    fn think(&mut self, at: usize, now: Duration) -> io::Result<()> {
        let factor = match self.app.kind {
            Kind::Constant => 1.0,
            Kind::Uniform => 2.0 * self.random.unit(),
            Kind::Exponential => -(1.0 - self.random.unit()).ln(),
        };
        let client = &mut self.all[at];
        client.phase = Phase::Thinking;
        client.round += 1;
        let time = now + self.app.think.mul_f64(factor);
        self.alarms.push(Reverse((time, at, client.round)));
        Ok(())
    }
}

/// The length of the body, and whether the connection lives on. Anything but success is an error.
fn read_head(head: &[u8]) -> io::Result<(u64, bool)> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let mut length = None;
    let mut lives = head.starts_with("http/1.1");
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name {
            "content-length" => length = value.trim().parse().ok(),
            "connection" => lives = value.trim() != "close",
            _ => {}
        }
    }
    let good = status.is_some_and(|status| status.starts_with('2'));
    let length = length.filter(|_| good).ok_or(ErrorKind::InvalidData)?;
    Ok((length, lives))
}
