//! Datagrams of a relay.
//!
//! Each client (an address and a port) has a socket of its own towards the target, by which the
//! answers find back. A client that was not heard of for a while is forgotten. Datagrams that a
//! socket does not take are dropped, as a router would.

use std::collections::hash_map::{Entry, HashMap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use super::{Ground, Relay, CLIENTS};
use crate::echo::any_like;
use crate::server::send_back;
use crate::{AppError, Control, Socket};

/// The largest datagram.
const BLOCK: usize = 64 << 10;
/// How often one socket is read from before the others have their turn.
const BUDGET: usize = 64;
/// Events per wait.
const EVENTS: usize = 64;

// The token of a socket to the target is its client's number.

/// A client, and the socket that stands for it at the target.
struct Client<'c> {
    address: SocketAddr,
    /// Which address of the machine it writes to, if that listens on several.
    own: Option<Control>,
    target: Socket<'c>,
    /// When it last sent or was sent something, by the machine's clock.
    last: Duration,
}

struct Udp<'c> {
    ground: Ground<'c>,
    idle: Duration,
    clients: Vec<Option<Client<'c>>>,
    by_address: HashMap<SocketAddr, usize>,
    free: Vec<usize>,
    /// When clients were last forgotten.
    swept: Duration,
    buffer: Vec<u8>,
    /// Whose datagrams are to cross the path's pods.
    asked: Vec<usize>,
}

/// Relays until the app is to stop; `ready` is called when all is there.
pub(super) fn relay(
    ground: Ground<'_>,
    relay: &Relay,
    ready: impl FnOnce(),
) -> Result<i32, AppError> {
    let at = relay.listen;
    if at.ip().is_unspecified() && at.is_ipv6() {
        // Which of the machine's addresses was written to is where the answer comes from.
        let socket = &ground.socket;
        socket.set_option(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32)?;
    }
    ready();
    let mut udp = Udp {
        idle: relay.idle,
        clients: Vec::new(),
        by_address: HashMap::new(),
        free: Vec::new(),
        swept: ground.calls.now()?,
        buffer: vec![0; BLOCK],
        asked: Vec::new(),
        ground,
    };
    loop {
        udp.turn()?;
    }
}

impl<'c> Udp<'c> {
    /// Waits for datagrams and passes them on.
    fn turn(&mut self) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let timeout = (!self.by_address.is_empty()).then_some(self.idle);
        let count = self.ground.epoll.wait(&mut events, timeout)?.len();
        let now = self.ground.calls.now()?;
        for event in &events[..count] {
            match event.u64 {
                CLIENTS => self.pass_on(now)?,
                token => self.pass_back(token as usize, now)?,
            }
        }
        self.forget_idle(now);
        Ok(())
    }

    fn pass_on(&mut self, now: Duration) -> io::Result<()> {
        for _ in 0..BUDGET {
            let received = self
                .ground
                .socket
                .recv_message(&mut self.buffer, libc::MSG_DONTWAIT);
            let (len, from, own) = match received {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if self.ground.calls.stopping() => return Err(error),
                // What became of an earlier answer, such as that its port is closed.
                Err(_) => continue,
            };
            let at = match self.client(from, own) {
                Ok(Some(at)) => at,
                Ok(None) => {
                    self.ground.statistics.borrow_mut().dropped += 1;
                    continue;
                }
                Err(error) if self.ground.calls.stopping() => return Err(error),
                Err(_) => {
                    self.ground.statistics.borrow_mut().refused += 1;
                    continue;
                }
            };
            let Some(client) = &mut self.clients[at] else {
                continue;
            };
            client.last = now;
            self.passes(at, 0, len, now);
        }
        self.cross(0, now);
        Ok(())
    }

    /// A datagram of a client has come, by a way (0: to the target): it goes on, or crosses the path's
    /// pods with others.
    fn passes(&mut self, at: usize, way: usize, len: usize, now: Duration) {
        let Some(path) = &mut self.ground.path else {
            let bytes = std::mem::take(&mut self.buffer);
            self.send(at, way, &bytes[..len]);
            self.buffer = bytes;
            return;
        };
        if path.waits(now).is_some() {
            path.lost();
            self.ground.statistics.borrow_mut().dropped += 1;
            return;
        }
        path.datagram(way, &self.buffer[..len]);
        self.asked.push(at);
    }

    /// What has come by a way crosses the path's pods.
    fn cross(&mut self, way: usize, now: Duration) {
        let asked = std::mem::take(&mut self.asked);
        let Some(path) = self.ground.path.as_mut().filter(|_| !asked.is_empty()) else {
            return;
        };
        let Some(outcomes) = path.cross(now) else {
            self.ground.statistics.borrow_mut().dropped += asked.len() as u64;
            return;
        };
        for (at, outcome) in asked.into_iter().zip(outcomes) {
            for bytes in outcome.onward {
                self.send(at, way, &bytes);
            }
            for bytes in outcome.back {
                self.send(at, 1 - way, &bytes);
            }
        }
    }

    /// A datagram goes on by a way.
    fn send(&mut self, at: usize, way: usize, bytes: &[u8]) {
        let Some(client) = &self.clients[at] else {
            return;
        };
        let sent = match way {
            0 => {
                let mut sent = client.target.send(bytes, libc::MSG_DONTWAIT);
                let refused = |e: &io::Error| e.kind() == ErrorKind::ConnectionRefused;
                if sent.as_ref().is_err_and(refused) {
                    // Of an earlier datagram, and this one was not sent.
                    self.ground.statistics.borrow_mut().refused += 1;
                    sent = client.target.send(bytes, libc::MSG_DONTWAIT);
                }
                sent
            }
            _ => send_back(&self.ground.socket, bytes, client.address, client.own),
        };
        self.count(way, &sent);
    }

    fn pass_back(&mut self, at: usize, now: Duration) -> io::Result<()> {
        for _ in 0..BUDGET {
            let Some(client) = &mut self.clients[at] else {
                return Ok(());
            };
            let len = match client.target.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if self.ground.calls.stopping() => return Err(error),
                // Nothing listens there, or there is no way there.
                Err(_) => {
                    self.ground.statistics.borrow_mut().refused += 1;
                    continue;
                }
            };
            client.last = now;
            self.passes(at, 1, len, now);
        }
        self.cross(1, now);
        Ok(())
    }

    fn count(&self, way: usize, sent: &io::Result<usize>) {
        let mut statistics = self.ground.statistics.borrow_mut();
        match sent {
            Ok(bytes) => {
                statistics.datagrams[way] += 1;
                statistics.passed[way] += *bytes as u64;
            }
            Err(_) => statistics.dropped += 1,
        }
    }

    /// The place of a client, which is made if it is a new one; `None`: there is no room for it.
    fn client(&mut self, address: SocketAddr, own: Option<Control>) -> io::Result<Option<usize>> {
        let open = self.by_address.len();
        let entry = match self.by_address.entry(address) {
            Entry::Occupied(entry) => return Ok(Some(*entry.get())),
            Entry::Vacant(_) if open >= self.ground.most => return Ok(None),
            Entry::Vacant(entry) => entry,
        };
        let target = self.ground.calls.datagrams(any_like(self.ground.to))?;
        target.connect(self.ground.to)?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.ground.epoll.add(&target, libc::EPOLLIN, at as u64)?;
        self.clients[at] = Some(Client {
            address,
            own,
            target,
            last: Duration::ZERO,
        });
        entry.insert(at);
        let mut statistics = self.ground.statistics.borrow_mut();
        statistics.connections += 1;
        statistics.open += 1;
        Ok(Some(at))
    }

    /// Forgets clients that were silent for too long; each of them is looked at twice in that time.
    fn forget_idle(&mut self, now: Duration) {
        if now - self.swept < self.idle / 2 {
            return;
        }
        self.swept = now;
        for (at, place) in self.clients.iter_mut().enumerate() {
            let Some(client) = place.take_if(|client| now - client.last >= self.idle) else {
                continue;
            };
            self.by_address.remove(&client.address);
            self.free.push(at);
            self.ground.statistics.borrow_mut().open -= 1;
        }
    }
}
