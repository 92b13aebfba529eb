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
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use super::pipe::Pipe;
use super::{Relay, Statistics};
use crate::calls::family;
use crate::{AppError, Calls, Epoll, Socket};

/// How often one direction passes something on before others have their turn.
const BUDGET: usize = 16;
/// Empty pipes that are kept.
const SPARE_PIPES: usize = 16;
/// Events per wait.
const EVENTS: usize = 64;

/// The token of the listener; a socket's is twice the number of its join, and which of the two it
/// is.
const LISTENER: u64 = u64::MAX;

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
}

/// What became of a join when it was looked at.
enum Fate {
    /// It waits for an event.
    Waits,
    /// It has more to pass on at once.
    GoesOn,
    /// Both directions have ended.
    Done,
    /// The target does not want the connection.
    Refused,
}

struct Tcp<'c> {
    calls: &'c Calls<'c>,
    to: SocketAddr,
    most: usize,
    statistics: Statistics,
    epoll: Epoll<'c>,
    listener: Socket<'c>,
    /// There is no room for another connection: the listener is not watched.
    full: bool,
    joins: Vec<Option<Join<'c>>>,
    free: Vec<usize>,
    /// Empty pipes.
    pipes: Vec<Pipe<'c>>,
    busy: Vec<usize>,
}

/// Relays until the app is to stop; `ready` is called when it listens.
pub(super) fn relay(
    calls: &Calls<'_>,
    relay: &Relay,
    to: SocketAddr,
    statistics: &Statistics,
    ready: impl FnOnce(),
) -> Result<i32, AppError> {
    let at = relay.listen;
    let listener = calls.listen(at);
    let listener = listener.map_err(AppError::during(format_args!("listen on {at} (TCP)")))?;
    listener.set_blocking(false)?;
    let epoll = calls.epoll()?;
    epoll.add(&listener, libc::EPOLLIN, LISTENER)?;
    ready();
    let mut tcp = Tcp {
        calls,
        to,
        most: relay.most,
        statistics: Statistics::clone(statistics),
        epoll,
        listener,
        full: false,
        joins: Vec::new(),
        free: Vec::new(),
        pipes: Vec::new(),
        busy: Vec::new(),
    };
    loop {
        tcp.turn()?;
    }
}

impl<'c> Tcp<'c> {
    /// Waits for events and handles them.
    fn turn(&mut self) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let timeout = (!self.busy.is_empty()).then_some(Duration::ZERO);
        let count = self.epoll.wait(&mut events, timeout)?.len();
        let busy = std::mem::take(&mut self.busy);
        for event in &events[..count] {
            match event.u64 {
                LISTENER => self.accept()?,
                token => self.event(token, event.events as i32)?,
            }
        }
        for at in busy {
            if let Some(join) = &mut self.joins[at] {
                join.busy = false;
                self.visit(at)?;
            }
        }
        Ok(())
    }

    /// Takes clients from the queue as long as there are some, and room for them.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let open = self.statistics.borrow().open;
            if open >= self.most as u64 {
                return self.pause();
            }
            let client = match self.listener.accept_with(libc::SOCK_NONBLOCK) {
                Ok((client, _)) => client,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) if self.calls.stopping() => return Err(error),
                // No memory or no descriptor: clients wait in the queue until a join ends.
                Err(_) if open > 0 => return self.pause(),
                Err(error) => return Err(error),
            };
            self.statistics.borrow_mut().connections += 1;
            // The place for a pod that refuses a client, or chooses its target.
            let target = match self.connect(&client) {
                Ok(target) => target,
                Err(error) if self.calls.stopping() => return Err(error),
                Err(_) => {
                    self.statistics.borrow_mut().refused += 1;
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
                self.epoll.add(socket, events, (2 * at + side) as u64)?;
            }
            self.joins[at] = Some(Join {
                sockets,
                ways: Default::default(),
                asked: false,
                connected: false,
                busy: false,
            });
            self.statistics.borrow_mut().open += 1;
        }
    }

    /// No more clients are taken until a join ends.
    fn pause(&mut self) -> io::Result<()> {
        self.full = true;
        self.epoll.modify(&self.listener, 0, LISTENER)
    }

    /// Begins to connect a client to the target.
    fn connect(&self, client: &Socket<'c>) -> io::Result<Socket<'c>> {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        let target = self.calls.socket(family(self.to), kind, 0)?;
        for socket in [client, &target] {
            socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
            // A peer that is gone without a word is noticed, if late.
            socket.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32)?;
        }
        match target.connect(self.to) {
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
        if self.calls.stopping() {
            return fate.map(drop);
        }
        match fate {
            Ok(Fate::Waits) => self.joins[at] = Some(join),
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
            let mut statistics = self.statistics.borrow_mut();
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
        self.free.push(at);
        if std::mem::take(&mut self.full) {
            self.epoll.modify(&self.listener, libc::EPOLLIN, LISTENER)?;
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
        for side in [CLIENT, TARGET] {
            goes_on |=
                self.ways[side].pass(&self.sockets[side], &self.sockets[1 - side], tcp, side)?;
        }
        Ok(match goes_on {
            true => Fate::GoesOn,
            false if self.ways.iter().all(|way| way.ended) => Fate::Done,
            false => Fate::Waits,
        })
    }
}

impl<'c> Way<'c> {
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
                    None => Pipe::new(tcp.calls)?,
                };
                match waits(pipe.fill(from))? {
                    None => self.readable = false,
                    Some(0) => self.ending = true,
                    // Here a pod may look at the bytes before they go on.
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
                        Some(sent) => tcp.statistics.borrow_mut().passed[side] += sent as u64,
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
