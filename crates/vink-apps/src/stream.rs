//! A stream of a web server goes through pods, and its tiers to listeners: a transcoder, say.
//!
//! Pods, units, queues and shedding are `vink_pod::Stream`'s. This has the sockets: it asks the server
//! for the stream, reads no faster than units are due, and serves each tier at its own page. A listener
//! gets what leaves from when it asks; what one does not take in time is lost for it alone, by whole
//! units.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use vink_pod::{Chain, Meter, Next, OpenPath, Pace, Stack, Stream, StreamEnded, Tier};

use crate::arguments::{self, Arguments, Opt, Syntax};
use crate::calls::family;
use crate::http_server::PORT;
use crate::{App, AppError, Calls, Epoll, Names, Report, Socket, StreamReport, Target, TierReport};

/// The port where listeners ask.
const LISTEN_PORT: u16 = 8000;
/// A frame of MP3 at 44.1 kHz, in ns.
const UNIT: u64 = 26_122_449;
/// When a unit has to have left, after it has come.
const LATENCY: Duration = Duration::from_millis(150);
/// Bytes per read.
const BLOCK: usize = 16 << 10;
/// An answer's head, and a request's, have at most so many bytes.
const MOST_HEAD: usize = 16 << 10;
/// Units that wait for one listener.
const MOST_WAITING: usize = 128;

const SOURCE: u64 = 0;
const LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "stream",
    purpose: "Takes a stream of a web server through pods, and serves what leaves to listeners, by tier; port 8000.",
    operands: "URL PATH [PATH] [PATH] [PATH]",
    options: &[
        Opt::new('p', "PORT", "listens on this port instead of its own"),
        Opt::new('n', "COUNT", "begins when there are so many listeners (0)"),
        Opt::new('u', "TIME", "a unit's time (26122449ns, an MP3 frame's); 0: as fast as it goes"),
        Opt::new('l', "TIME", "a unit has to have left so long after it came (150ms)"),
        Opt::new('b', "UNITS", "so many units cross a wall together (2)"),
        Opt::new('c', "SHARE", "has this share of a processor, such as 2.5% (all that there is)"),
        arguments::IPV4,
        arguments::IPV6,
    ],
};

struct StreamApp {
    target: Target,
    server_port: u16,
    request: String,
    port: u16,
    listeners: usize,
    unit: u64,
    latency: Duration,
    crossing: usize,
    budget: Option<f64>,
    paths: Vec<String>,
}

/// The pods of a stream's paths: the one that makes units, those that all share, and the tiers.
struct Pods {
    units: Chain,
    shared: Chain,
    tiers: Vec<Tier>,
    meters: Vec<Box<dyn Meter>>,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let url = arguments.operand(0).unwrap_or_default();
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| format!("{url}: write http://HOST[:PORT]/PATH"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, server_port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, arguments::number(port, 1)?),
        _ => (authority, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let paths = (1..).map_while(|at| arguments.operand(at));
    let paths: Vec<String> = paths.map(str::to_owned).collect();
    Ok(Box::new(StreamApp {
        target: Target::parse(host, names, arguments.ipv6()?)?,
        server_port,
        request: format!("GET /{path} HTTP/1.0\r\nHost: {authority}\r\n\r\n"),
        port: arguments.number('p', 1)?.unwrap_or(LISTEN_PORT),
        listeners: arguments.number('n', 0)?.unwrap_or(0),
        unit: arguments
            .value('u', arguments::time)?
            .map_or(UNIT, |time| time.as_nanos() as u64),
        latency: arguments.value('l', arguments::time)?.unwrap_or(LATENCY),
        crossing: arguments.number('b', 1)?.unwrap_or(2),
        budget: arguments.value('c', share)?,
        paths,
    }))
}

/// A part of a processor: `2.5%`.
fn share(text: &str) -> Result<f64, String> {
    let part = text.strip_suffix('%').and_then(|part| part.parse().ok());
    let part = part.filter(|part: &f64| *part > 0.0 && *part <= 100.0);
    Ok(part.ok_or("write a part of a processor, such as 2.5%")? / 100.0)
}

impl Pods {
    /// Of a stream's paths, the highest class first. What they begin with alike is shared, but a last
    /// pod of their own.
    fn of(mut paths: Vec<OpenPath>) -> Result<Pods, String> {
        paths.sort_by_key(|path| std::cmp::Reverse(path.class));
        let least = paths.iter().map(|path| path.pods.len()).min();
        let name = |path: &OpenPath, at: usize| path.pods.get(at).map(|pod| pod.name.clone());
        let is_alike = |at: &usize| {
            let mut names = paths.iter().map(|path| name(path, *at));
            let first = names.next();
            names.all(|name| Some(name) == first)
        };
        if !is_alike(&0) {
            return Err(
                "the paths of a stream begin with the same pod, which makes units of bytes"
                    .to_owned(),
            );
        }
        let shared = (1..least.unwrap_or(1) - 1).take_while(is_alike).count();
        let mut begins = Vec::new();
        for path in &mut paths {
            begins.push(path.pods.drain(..=shared).collect::<Vec<_>>());
        }
        let mut own = Vec::new();
        for path in &paths {
            for pod in &path.pods {
                if own.contains(&&pod.name) {
                    return Err(format!(
                        "pod {} is on several paths behind pods that are on one: give path {} one of its own",
                        pod.name, path.name
                    ));
                }
                own.push(&pod.name);
            }
        }
        let mut begin = begins.swap_remove(0);
        let rest = begin.split_off(1);
        let mut pods = Pods {
            units: Chain::new(begin),
            shared: Chain::new(rest),
            tiers: Vec::new(),
            meters: Vec::new(),
        };
        for path in paths {
            let tier = Tier::new(path.name, path.account, Chain::new(path.pods));
            pods.tiers.push(tier);
            pods.meters.push(path.meter);
        }
        Ok(pods)
    }
}

/// The stream, and what is told of it.
struct Shared {
    stream: Stream,
    /// The tiers' paths'.
    meters: Vec<Box<dyn Meter>>,
    start: Duration,
    now: Duration,
    /// For each tier: listeners now, and units that were lost for one of them.
    listeners: Vec<(u64, u64)>,
}

impl App for StreamApp {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let start = calls.now()?;
        let pace = Pace {
            unit: self.unit,
            latency: self.latency.as_nanos() as u64,
            crossing: self.crossing,
            budget: self.budget,
        };
        let stack = Stack::new();
        let mut stack = stack.map_err(AppError::during("map a stack for pods"))?;
        let paths = calls.open_paths(&self.paths, true, &mut stack)?;
        let pods = Pods::of(paths).map_err(AppError::new)?;
        let stream = Stream::new(pace, stack, pods.units, pods.shared, pods.tiers);
        let shared = Rc::new(RefCell::new(Shared {
            listeners: vec![(0, 0); stream.tiers.len()],
            stream,
            meters: pods.meters,
            start,
            now: start,
        }));
        let seen = Rc::clone(&shared);
        calls.publish(move || Report::Stream(seen.borrow().report()));

        let at = SocketAddr::new(IpAddr::from(Ipv6Addr::UNSPECIFIED), self.port);
        let listener = calls.listen(at);
        let listener = listener.map_err(AppError::during(format_args!("listen on {at}")))?;
        listener.set_blocking(false)?;
        let mut sockets = Sockets {
            calls,
            epoll: calls.epoll()?,
            listener,
            source: None,
            connections: Vec::new(),
            shared: &shared,
            buffer: vec![0; BLOCK],
        };
        sockets
            .epoll
            .add(&sockets.listener, libc::EPOLLIN, LISTENER)?;
        calls.ready();
        while sockets.count() < self.listeners {
            sockets.wait(None)?;
        }
        // What came before was waiting for listeners.
        shared.borrow_mut().start = calls.now()?;
        sockets.ask(self)?;
        while sockets.turn()? {}
        sockets.drain()?;
        let ended = shared
            .borrow()
            .stream
            .tiers
            .iter()
            .any(|tier| tier.pods.ended.is_some());
        Ok(i32::from(ended))
    }
}

impl Shared {
    /// The tiers' paths count what they have got.
    fn count(&self) {
        for (tier, meter) in self.stream.tiers.iter().zip(&self.meters) {
            meter.count(tier.counted());
        }
    }

    fn report(&self) -> StreamReport {
        let shares = self.stream.shares();
        let tier = |at: usize| {
            let tier = &self.stream.tiers[at];
            let n = &tier.numbers;
            let (listeners, missed) = self.listeners[at];
            let report = TierReport {
                offered: n.offered,
                delivered: n.delivered,
                late: n.late,
                shed: n.shed,
                lost: n.lost,
                bytes: n.bytes,
                cycles: n.cycles,
                time: n.time as f64 / 1e9,
                share: shares[at],
                listeners,
                missed,
                crossings: tier.pods.crossings(),
                ended: tier.pods.ended.clone(),
            };
            (tier.name.clone(), report)
        };
        let stages = self.stream.units.stages.iter();
        let stages = stages.chain(&self.stream.shared.stages);
        let cycles = stages.map(|stage| stage.cycles).sum();
        StreamReport {
            seconds: (self.now - self.start).as_secs_f64(),
            units: self.stream.came(),
            shared_cycles: cycles,
            tiers: (0..self.stream.tiers.len()).map(tier).collect(),
        }
    }
}

/// Where the stream comes from.
struct Server<'c> {
    socket: Socket<'c>,
    /// The answer's head, as far as it has come; none: the body is being read.
    head: Option<Vec<u8>>,
    is_watched: bool,
}

/// A listener.
struct Connection<'c> {
    socket: Socket<'c>,
    request: Vec<u8>,
    tier: Option<usize>,
    waiting: VecDeque<Rc<[u8]>>,
    /// Of the first.
    sent: usize,
    /// Nothing more comes.
    ends: bool,
}

struct Sockets<'c> {
    calls: &'c Calls<'c>,
    epoll: Epoll<'c>,
    listener: Socket<'c>,
    source: Option<Server<'c>>,
    connections: Vec<Option<Connection<'c>>>,
    shared: &'c RefCell<Shared>,
    buffer: Vec<u8>,
}

fn ended(error: StreamEnded) -> AppError {
    AppError::new(error.to_string())
}

impl Sockets<'_> {
    /// Listeners that have asked.
    fn count(&self) -> usize {
        let all = self.connections.iter().flatten();
        all.filter(|its| its.tier.is_some()).count()
    }

    /// Asks the server for the stream.
    fn ask(&mut self, app: &StreamApp) -> Result<(), AppError> {
        let to = app.target.at(self.calls, app.server_port)?;
        let socket = self.calls.socket(family(to), libc::SOCK_STREAM, 0)?;
        let connected = socket.connect(to);
        connected.map_err(AppError::during(format_args!("connect to {to}")))?;
        socket.send_all(app.request.as_bytes())?;
        socket.set_blocking(false)?;
        self.epoll.add(&socket, libc::EPOLLIN, SOURCE)?;
        self.source = Some(Server {
            socket,
            head: Some(Vec::new()),
            is_watched: true,
        });
        Ok(())
    }

    fn now(&self) -> io::Result<u64> {
        let now = self.calls.now()?;
        self.shared.borrow_mut().now = now;
        Ok(now.as_nanos() as u64)
    }

    /// Does what is to be done, and waits for the next thing to happen; false: all has left.
    fn turn(&mut self) -> Result<bool, AppError> {
        let now = self.now()?;
        let (next, left, gone) = {
            let stream = &mut self.shared.borrow_mut().stream;
            let next = stream.step(now).map_err(ended)?;
            (next, stream.left(), stream.ended())
        };
        self.shared.borrow().count();
        for (tier, bytes) in left {
            self.hand_out(tier, &bytes)?;
        }
        for tier in gone {
            self.tier_ended(tier);
        }
        self.watch_source()?;
        match next {
            Next::Over => return Ok(false),
            Next::More => self.wait(Some(Duration::ZERO))?,
            Next::Wait(until) => {
                let until = until.map(|until| Duration::from_nanos(until.saturating_sub(now)));
                self.wait(until)?;
            }
        }
        Ok(true)
    }

    /// The source is read from while bytes are wanted.
    fn watch_source(&mut self) -> io::Result<()> {
        let wants = self.shared.borrow().stream.wants_bytes();
        let Some(source) = &mut self.source else {
            return Ok(());
        };
        if source.is_watched != wants {
            source.is_watched = wants;
            let events = if wants { libc::EPOLLIN } else { 0 };
            self.epoll.modify(&source.socket, events, SOURCE)?;
        }
        Ok(())
    }

    /// Waits for events for so long (`None`: for any time), and handles them.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), AppError> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let count = self.epoll.wait(&mut events, timeout)?.len();
        for event in &events[..count] {
            match event.u64 {
                SOURCE => self.read()?,
                LISTENER => self.accept()?,
                token => {
                    let at = (token - FIRST_CONNECTION) as usize;
                    self.serve(at)?;
                }
            }
        }
        Ok(())
    }

    /// Reads from the source, once.
    fn read(&mut self) -> Result<(), AppError> {
        let now = self.now()?;
        let Some(source) = &mut self.source else {
            return Ok(());
        };
        let got = match source.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(AppError::during("read the stream")(error)),
        };
        let mut body = &self.buffer[..got];
        if let Some(head) = &mut source.head {
            head.extend_from_slice(body);
            let end = head.windows(4).position(|w| w == b"\r\n\r\n");
            let Some(end) = end else {
                return match got == 0 || head.len() > MOST_HEAD {
                    true => Err(AppError::new("the server's answer has no end of a head")),
                    false => Ok(()),
                };
            };
            let first = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let first = String::from_utf8_lossy(first);
            if first.split(' ').nth(1) != Some("200") {
                return Err(AppError::new(format!("the server answered: {first}")));
            }
            body = &body[got - (head.len() - end - 4)..];
            source.head = None;
        }
        let is_end = got == 0;
        if is_end {
            self.source = None;
        }
        let stream = &mut self.shared.borrow_mut().stream;
        stream.push(body, is_end, now).map_err(ended)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let (socket, _) = match self.listener.accept_with(libc::SOCK_NONBLOCK) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
            let free = self.connections.iter().position(Option::is_none);
            let at = free.unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let token = FIRST_CONNECTION + at as u64;
            let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;
            self.epoll.add(&socket, events, token)?;
            self.connections[at] = Some(Connection {
                socket,
                request: Vec::new(),
                tier: None,
                waiting: VecDeque::new(),
                sent: 0,
                ends: false,
            });
        }
    }

    /// Something happened to a listener.
    fn serve(&mut self, at: usize) -> io::Result<()> {
        let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
            return Ok(());
        };
        let lives = connection.drive(self.shared, &mut self.buffer);
        if self.calls.stopping() {
            lives?;
            return Ok(());
        }
        if !matches!(lives, Ok(true)) {
            if let Some(tier) = connection.tier {
                self.shared.borrow_mut().listeners[tier].0 -= 1;
            }
            return Ok(());
        }
        self.connections[at] = Some(connection);
        Ok(())
    }

    /// All listeners of a tier get a unit.
    fn hand_out(&mut self, tier: usize, unit: &Rc<[u8]>) -> io::Result<()> {
        for at in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[at] else {
                continue;
            };
            if connection.tier != Some(tier) {
                continue;
            }
            if connection.waiting.len() >= MOST_WAITING {
                self.shared.borrow_mut().listeners[tier].1 += 1;
                continue;
            }
            connection.waiting.push_back(Rc::clone(unit));
            self.serve(at)?;
        }
        Ok(())
    }

    /// Its listeners get what is left, and no more.
    fn tier_ended(&mut self, tier: usize) {
        let why = {
            let tier = &self.shared.borrow().stream.tiers[tier];
            let why = tier.pods.ended.as_deref().unwrap_or_default();
            format!("path {}: {why}\n", tier.name)
        };
        self.calls.print(&why);
        for connection in self.connections.iter_mut().flatten() {
            connection.ends |= connection.tier == Some(tier);
        }
        for at in 0..self.connections.len() {
            let _ = self.serve(at);
        }
    }

    /// The stream is over: listeners get what is left.
    fn drain(&mut self) -> Result<(), AppError> {
        for connection in self.connections.iter_mut().flatten() {
            connection.ends = true;
        }
        for at in 0..self.connections.len() {
            self.serve(at)?;
        }
        while self.count() > 0 {
            self.wait(None)?;
        }
        Ok(())
    }
}

impl Connection<'_> {
    /// Receives and sends as far as it goes; whether it goes on.
    fn drive(&mut self, shared: &RefCell<Shared>, buffer: &mut [u8]) -> io::Result<bool> {
        loop {
            match self.socket.recv(buffer, libc::MSG_DONTWAIT) {
                // It may still listen: what ends it is that nothing can be sent.
                Ok(0) if self.tier.is_some() => break,
                Ok(0) => return Ok(false),
                Ok(got) if self.tier.is_none() => self.request.extend_from_slice(&buffer[..got]),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if self.tier.is_none() && !self.asked(shared) {
                break;
            }
        }
        self.flush()
    }

    /// Looks at what it wants, when that has come; false: nothing that there is.
    fn asked(&mut self, shared: &RefCell<Shared>) -> bool {
        if !self.request.windows(4).any(|w| w == b"\r\n\r\n") {
            self.ends |= self.request.len() > MOST_HEAD;
            return !self.ends;
        }
        let line = self.request.split(|byte| *byte == b'\r').next();
        let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
        let name = line.split(' ').nth(1).unwrap_or_default();
        let name = name.trim_start_matches('/');
        let mut shared = shared.borrow_mut();
        let tiers = &shared.stream.tiers;
        let found = tiers.iter().position(|tier| tier.name == name);
        let Some(tier) = found.filter(|at| tiers[*at].pods.ended.is_none()) else {
            let names: Vec<_> = tiers.iter().map(|t| format!("/{}\n", t.name)).collect();
            let answer = format!(
                "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{}",
                names.concat()
            );
            self.waiting.push_back(answer.into_bytes().into());
            self.ends = true;
            return false;
        };
        self.tier = Some(tier);
        shared.listeners[tier].0 += 1;
        let head = "HTTP/1.0 200 OK\r\nContent-Type: audio/mpeg\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";
        self.waiting.push_back(head.as_bytes().into());
        true
    }

    /// Sends what there is room for; whether it goes on.
    fn flush(&mut self) -> io::Result<bool> {
        while let Some(first) = self.waiting.front() {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match self.socket.send(&first[self.sent..], flags) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            if self.sent == first.len() {
                self.waiting.pop_front();
                self.sent = 0;
            }
        }
        Ok(!self.ends)
    }
}
