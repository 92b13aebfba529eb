//! Connections of a relay.
//!
//! A join is two sockets and two ways, one in each direction. A way takes what its one socket has
//! into a pipe and gives it to the other one. As long as the other one does not take all, it reads
//! nothing more: then the sender's window closes, and a slow reader costs no more memory than the
//! two sockets' buffers and a pipe. A pipe is borrowed for as long as it holds something.
//!
//! The end of a stream is passed on behind its last byte, by shutdown(2), and the other direction
//! goes on. A connection that is reset resets the one that it is joined to.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::time::Duration;

use super::path::{new_connection, RelayPath};
use super::pipe::Pipe;
use super::{Ground, CLIENTS};
use crate::calls::family;
use crate::{AppError, Socket};

/// How often one direction passes something on before others have their turn.
const BUDGET: usize = 16;
/// Empty pipes that are kept.
const SPARE_PIPES: usize = 16;
/// Events per wait.
const EVENTS: usize = 64;

/// Bytes that a path's pods get at once.
const BLOCK: usize = 64 << 10;

// A socket's token is twice the number of its join, and which of the two it is.

/// The client's socket of a join, and the target's.
const CLIENT: usize = 0;
const TARGET: usize = 1;

/// One direction.
#[derive(Default)]
struct Way<'c> {
    /// What it holds for the socket that it goes to.
    pipe: Option<Pipe<'c>>,
    /// The socket that it comes from may have something.
    readable: bool,
    /// The socket that it goes to may have room.
    writable: bool,
    /// The stream has ended; what the pipe holds is the last of it.
    ending: bool,
    /// That was passed on, too.
    ended: bool,
    /// What a path's pods have made for the socket that it goes to, and how much of it was sent.
    bytes: Vec<u8>,
    sent: usize,
}

/// A client's connection and the one to the target.
struct Join<'c> {
    sockets: [Socket<'c>; 2],
    /// That from the client, and that from the target.
    ways: [Way<'c>; 2],
    /// The target's socket has told how it is.
    asked: bool,
    connected: bool,
    /// It is in the list of those that go on without an event.
    busy: bool,
    /// It is in the list of those that wait for their path's budget.
    is_delayed: bool,
    /// Its number for a path's pods.
    number: u32,
}

/// What became of a join when it was looked at.
enum Fate {
    /// It waits for an event.
    Waits,
    /// It waits until its path's budget allows more.
    Delayed,
    /// It has more to pass on at once.
    GoesOn,
    /// Both directions have ended.
    Done,
    /// The target does not want the connection.
    Refused,
}

struct Tcp<'c> {
    ground: Ground<'c>,
    /// There is no room for another connection: the listener is not watched.
    full: bool,
    joins: Vec<Option<Join<'c>>>,
    free: Vec<usize>,
    /// Empty pipes.
    pipes: Vec<Pipe<'c>>,
    busy: Vec<usize>,
    /// Those that wait until the path's budget allows more, and when that is.
    delayed: Vec<usize>,
    opens: Option<Duration>,
    /// What was read for the path's pods.
    buffer: Vec<u8>,
}

/// Relays until the app is to stop; `ready` is called when all is there.
pub(super) fn relay(ground: Ground<'_>, ready: impl FnOnce()) -> Result<i32, AppError> {
    ready();
    let mut tcp = Tcp {
        full: false,
        joins: Vec::new(),
        free: Vec::new(),
        pipes: Vec::new(),
        busy: Vec::new(),
        delayed: Vec::new(),
        opens: None,
        buffer: vec![0; if ground.path.is_some() { BLOCK } else { 0 }],
        ground,
    };
    loop {
        tcp.turn()?;
    }
}

impl<'c> Tcp<'c> {
    /// Waits for events and handles them.
    fn turn(&mut self) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let timeout = match (self.busy.is_empty(), self.opens) {
            (false, _) => Some(Duration::ZERO),
            (true, Some(opens)) => Some(opens.saturating_sub(self.ground.calls.now()?)),
            (true, None) => None,
        };
        let count = self.ground.epoll.wait(&mut events, timeout)?.len();
        let busy = std::mem::take(&mut self.busy);
        let delayed = match self.opens {
            Some(opens) if opens <= self.ground.calls.now()? => {
                self.opens = None;
                std::mem::take(&mut self.delayed)
            }
            _ => Vec::new(),
        };
        for event in &events[..count] {
            match event.u64 {
                CLIENTS => self.accept()?,
                token => self.event(token, event.events as i32)?,
            }
        }
        for at in busy.into_iter().chain(delayed) {
            if let Some(join) = &mut self.joins[at] {
                (join.busy, join.is_delayed) = (false, false);
                self.visit(at)?;
            }
        }
        Ok(())
    }

    /// Takes clients from the queue as long as there are some, and room for them.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let open = self.ground.statistics.borrow().open;
            if open >= self.ground.most as u64 {
                return self.pause();
            }
            let client = match self.ground.socket.accept_with(libc::SOCK_NONBLOCK) {
                Ok((client, _)) => client,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) if self.ground.calls.stopping() => return Err(error),
                // No memory or no descriptor: clients wait in the queue until a join ends.
                Err(_) if open > 0 => return self.pause(),
                Err(error) => return Err(error),
            };
            self.ground.statistics.borrow_mut().connections += 1;
            let target = match self.connect(&client) {
                Ok(target) => target,
                Err(error) if self.ground.calls.stopping() => return Err(error),
                Err(_) => {
                    self.ground.statistics.borrow_mut().refused += 1;
                    reset(&client);
                    continue;
                }
            };
            let at = self.free.pop().unwrap_or_else(|| {
                self.joins.push(None);
                self.joins.len() - 1
            });
            let sockets = [client, target];
            for (side, socket) in sockets.iter().enumerate() {
                let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
                self.ground
                    .epoll
                    .add(socket, events, (2 * at + side) as u64)?;
            }
            self.joins[at] = Some(Join {
                sockets,
                ways: Default::default(),
                asked: false,
                connected: false,
                busy: false,
                is_delayed: false,
                number: new_connection(),
            });
            self.ground.statistics.borrow_mut().open += 1;
        }
    }

    /// No more clients are taken until a join ends.
    fn pause(&mut self) -> io::Result<()> {
        self.full = true;
        self.ground.epoll.modify(&self.ground.socket, 0, CLIENTS)
    }

    /// Begins to connect a client to the target.
    fn connect(&self, client: &Socket<'c>) -> io::Result<Socket<'c>> {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let target = self.ground.calls.socket(family(self.ground.to), kind, 0)?;
        for socket in [client, &target] {
            socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
            // A peer that is gone without a word is noticed, if late.
            socket.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32)?;
        }
        match target.connect(self.ground.to) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(target),
        }
    }

    /// Something happened to a socket of a join.
    fn event(&mut self, token: u64, events: i32) -> io::Result<()> {
        const READABLE: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        const WRITABLE: i32 = libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR;
        let (at, side) = ((token / 2) as usize, (token % 2) as usize);
        let Some(join) = &mut self.joins[at] else {
            return Ok(());
        };
        join.ways[side].readable |= events & READABLE != 0;
        join.ways[1 - side].writable |= events & WRITABLE != 0;
        // Nothing is known of the target's socket before it can be written to.
        join.asked |= side == TARGET && events & WRITABLE != 0;
        self.visit(at)
    }

    /// Passes on what there is, as far as it goes.
    fn visit(&mut self, at: usize) -> io::Result<()> {
        let Some(mut join) = self.joins[at].take() else {
            return Ok(());
        };
        let fate = join.go_on(self);
        if self.ground.calls.stopping() {
            return fate.map(drop);
        }
        match fate {
            Ok(Fate::Waits) => self.joins[at] = Some(join),
            Ok(Fate::Delayed) => {
                if !std::mem::replace(&mut join.is_delayed, true) {
                    self.delayed.push(at);
                }
                self.joins[at] = Some(join);
            }
            Ok(Fate::GoesOn) => {
                if !join.busy {
                    join.busy = true;
                    self.busy.push(at);
                }
                self.joins[at] = Some(join);
            }
            fate => self.end(at, &join, &fate)?,
        }
        Ok(())
    }

    /// A join ends: what it has is closed when it is dropped.
    fn end(&mut self, at: usize, join: &Join<'_>, fate: &io::Result<Fate>) -> io::Result<()> {
        {
            let mut statistics = self.ground.statistics.borrow_mut();
            statistics.open -= 1;
            match fate {
                Ok(Fate::Done) => {}
                Ok(_) => statistics.refused += 1,
                Err(_) => statistics.errors += 1,
            }
        }
        if !matches!(fate, Ok(Fate::Done)) {
            join.sockets.iter().for_each(reset);
        }
        if let Some(path) = &mut self.ground.path {
            // Pods forget it; a direction that has ended is known to them.
            for (side, _) in join.ways.iter().enumerate().filter(|(_, way)| !way.ending) {
                path.stream(join.number, side, &[], true);
            }
            path.cross(self.ground.calls.now()?);
        }
        self.free.push(at);
        if std::mem::take(&mut self.full) {
            let socket = &self.ground.socket;
            self.ground.epoll.modify(socket, libc::EPOLLIN, CLIENTS)?;
        }
        Ok(())
    }
}

impl<'c> Join<'c> {
    /// Both directions, as far as they go. An error is that of a connection.
    fn go_on(&mut self, tcp: &mut Tcp<'c>) -> io::Result<Fate> {
        if !self.connected {
            if !self.asked {
                return Ok(Fate::Waits);
            }
            match self.sockets[TARGET].option(libc::SOL_SOCKET, libc::SO_ERROR)? {
                0 => {}
                // It had accepted.
                reset @ (libc::ECONNRESET | libc::EPIPE) => {
                    return Err(io::Error::from_raw_os_error(reset))
                }
                _ => return Ok(Fate::Refused),
            }
            self.connected = true;
        }
        let mut goes_on = false;
        let mut is_delayed = false;
        for side in [CLIENT, TARGET] {
            let has_path = tcp.ground.path.is_some();
            let more = match has_path {
                true => self.pass_pods(tcp, side)?,
                false => {
                    let [from, to] = [&self.sockets[side], &self.sockets[1 - side]];
                    Some(self.ways[side].pass(from, to, tcp, side)?)
                }
            };
            goes_on |= more == Some(true);
            is_delayed |= more.is_none();
        }
        // What pods have made for a direction that was looked at before.
        goes_on |= self.ways.iter().any(|way| !way.ended && way.has_more());
        Ok(match goes_on {
            true => Fate::GoesOn,
            false if is_delayed => Fate::Delayed,
            false if self.ways.iter().all(|way| way.ended) => Fate::Done,
            false => Fate::Waits,
        })
    }
}

impl<'c> Join<'c> {
    /// As [`Way::pass`], through the pods of the relay's path; `None`: its budget is spent.
    fn pass_pods(&mut self, tcp: &mut Tcp<'c>, side: usize) -> io::Result<Option<bool>> {
        let Tcp { ground, buffer, .. } = tcp;
        let Some(path) = &mut ground.path else {
            return Ok(Some(false));
        };
        for _ in 0..BUDGET {
            let way = &mut self.ways[side];
            if way.ended {
                return Ok(Some(false));
            }
            if way.bytes.is_empty() && !way.ending && way.readable {
                let now = ground.calls.now()?;
                if let Some(opens) = path.waits(now) {
                    path.waited();
                    let before = tcp.opens.unwrap_or(opens);
                    tcp.opens = Some(before.min(opens));
                    return Ok(None);
                }
                match waits(self.sockets[side].recv(buffer, libc::MSG_DONTWAIT))? {
                    None => way.readable = false,
                    Some(got) => self.ask_pods(path, side, &buffer[..got], now)?,
                }
            }
            let way = &mut self.ways[side];
            if way.bytes.is_empty() {
                if way.ending {
                    way.ended = true;
                    self.sockets[1 - side].shutdown(Shutdown::Write)?;
                }
                if way.ended || !way.readable {
                    return Ok(Some(false));
                }
                continue;
            }
            if !way.writable {
                return Ok(Some(false));
            }
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match waits(self.sockets[1 - side].send(&way.bytes[way.sent..], flags))? {
                None => way.writable = false,
                Some(sent) => {
                    way.sent += sent;
                    ground.statistics.borrow_mut().passed[side] += sent as u64;
                }
            }
            if way.sent == way.bytes.len() {
                way.bytes.clear();
                way.sent = 0;
            }
        }
        Ok(Some(true))
    }

    /// Bytes of one direction, none at its end, cross the path's pods.
    fn ask_pods(
        &mut self,
        path: &mut RelayPath,
        side: usize,
        bytes: &[u8],
        now: Duration,
    ) -> io::Result<()> {
        path.stream(self.number, side, bytes, bytes.is_empty());
        let Some(outcomes) = path.cross(now) else {
            return Err(io::Error::other("a pod of its path has ended"));
        };
        self.ways[side].ending |= bytes.is_empty();
        for outcome in outcomes {
            self.ways[side].bytes.extend(outcome.onward.concat());
            let back = &mut self.ways[1 - side];
            if !back.ended {
                back.bytes.extend(outcome.back.concat());
            }
            if outcome.closes {
                // What pods have made so far is the last of it.
                self.ways.iter_mut().for_each(|way| way.ending = true);
            }
        }
        Ok(())
    }
}

impl<'c> Way<'c> {
    /// It can go on without an event.
    fn has_more(&self) -> bool {
        match self.bytes.is_empty() {
            true => self.ending && self.pipe.is_none(),
            false => self.writable,
        }
    }

    /// Keeps a pipe that holds something; another one may borrow an empty one.
    fn keep(&mut self, pipe: Pipe<'c>, tcp: &mut Tcp<'c>) {
        match pipe.is_empty() {
            false => self.pipe = Some(pipe),
            true if tcp.pipes.len() < SPARE_PIPES => tcp.pipes.push(pipe),
            true => {}
        }
    }

    /// Passes on what there is; whether there is more.
    fn pass(
        &mut self,
        from: &Socket<'c>,
        to: &Socket<'c>,
        tcp: &mut Tcp<'c>,
        side: usize,
    ) -> io::Result<bool> {
        for _ in 0..BUDGET {
            if self.ended {
                return Ok(false);
            }
            if self.pipe.is_none() && !self.ending && self.readable {
                let mut pipe = match tcp.pipes.pop() {
                    Some(pipe) => pipe,
                    None => Pipe::new(tcp.ground.calls)?,
                };
                match waits(pipe.fill(from))? {
                    None => self.readable = false,
                    Some(0) => self.ending = true,
                    Some(_) => {}
                }
                self.keep(pipe, tcp);
            }
            match self.pipe.take() {
                Some(pipe) if !self.writable => {
                    self.pipe = Some(pipe);
                    return Ok(false);
                }
                Some(mut pipe) => {
                    match waits(pipe.drain(to))? {
                        None => self.writable = false,
                        Some(sent) => {
                            tcp.ground.statistics.borrow_mut().passed[side] += sent as u64
                        }
                    }
                    self.keep(pipe, tcp);
                }
                None if self.ending => {
                    self.ended = true;
                    to.shutdown(Shutdown::Write)?;
                    return Ok(false);
                }
                None if !self.readable => return Ok(false),
                None => {}
            }
        }
        Ok(true)
    }
}

/// What a call that does not wait has done; `None`: nothing now.
fn waits(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Has the peer told by a reset when the socket is closed, as its own peer would.
fn reset(socket: &Socket<'_>) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = socket.set_option(libc::SOL_SOCKET, libc::SO_LINGER, &at_once);
}
