//! Datagrams of a relay.
//!
//! Each client (an address and a port) has a socket of its own towards the target, by which the
//! answers find back. A client that was not heard of for a while is forgotten. Datagrams that a
//! socket does not take are dropped, as a router would.

use std::collections::hash_map::{Entry, HashMap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use super::{Relay, Statistics};
use crate::echo::any_like;
use crate::server::send_back;
use crate::{AppError, Calls, Control, Epoll, Socket};

/// The largest datagram.
const BLOCK: usize = 64 << 10;
/// How often one socket is read from before the others have their turn.
const BUDGET: usize = 64;
/// Events per wait.
const EVENTS: usize = 64;

/// The token of the clients' socket; one to the target has its number.
const CLIENTS: u64 = u64::MAX;

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
    calls: &'c Calls<'c>,
    to: SocketAddr,
    most: usize,
    idle: Duration,
    statistics: Statistics,
    epoll: Epoll<'c>,
    socket: Socket<'c>,
    clients: Vec<Option<Client<'c>>>,
    by_address: HashMap<SocketAddr, usize>,
    free: Vec<usize>,
    /// When clients were last forgotten.
    swept: Duration,
    buffer: Vec<u8>,
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
    let socket = calls.datagrams(at);
    let socket = socket.map_err(AppError::during(format_args!("bind to {at} (UDP)")))?;
    socket.set_blocking(false)?;
    if at.ip().is_unspecified() && at.is_ipv6() {
        // Which of the machine's addresses was written to is where the answer comes from.
        socket.set_option(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32)?;
    }
    let epoll = calls.epoll()?;
    epoll.add(&socket, libc::EPOLLIN, CLIENTS)?;
    ready();
    let mut udp = Udp {
        calls,
        to,
        most: relay.most,
        idle: relay.idle,
        statistics: Statistics::clone(statistics),
        epoll,
        socket,
        clients: Vec::new(),
        by_address: HashMap::new(),
        free: Vec::new(),
        swept: calls.now()?,
        buffer: vec![0; BLOCK],
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
        let count = self.epoll.wait(&mut events, timeout)?.len();
        let now = self.calls.now()?;
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
                .socket
                .recv_message(&mut self.buffer, libc::MSG_DONTWAIT);
            let (len, from, own) = match received {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if self.calls.stopping() => return Err(error),
                // What became of an earlier answer, such as that its port is closed.
                Err(_) => continue,
            };
            // The place for a pod that looks at a datagram, refuses it or chooses its target.
            let at = match self.client(from, own) {
                Ok(Some(at)) => at,
                Ok(None) => {
                    self.statistics.borrow_mut().dropped += 1;
                    continue;
                }
                Err(error) if self.calls.stopping() => return Err(error),
                Err(_) => {
                    self.statistics.borrow_mut().refused += 1;
                    continue;
                }
            };
            let Some(client) = &mut self.clients[at] else {
                continue;
            };
            client.last = now;
            let mut sent = client.target.send(&self.buffer[..len], libc::MSG_DONTWAIT);
            let refused = |e: &io::Error| e.kind() == ErrorKind::ConnectionRefused;
            if sent.as_ref().is_err_and(refused) {
                // Of an earlier datagram, and this one was not sent.
                self.statistics.borrow_mut().refused += 1;
                sent = client.target.send(&self.buffer[..len], libc::MSG_DONTWAIT);
            }
            self.count(0, &sent);
        }
        Ok(())
    }

    fn pass_back(&mut self, at: usize, now: Duration) -> io::Result<()> {
        for _ in 0..BUDGET {
            let Some(client) = &mut self.clients[at] else {
                return Ok(());
            };
            let len = match client.target.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if self.calls.stopping() => return Err(error),
                // Nothing listens there, or there is no way there.
                Err(_) => {
                    self.statistics.borrow_mut().refused += 1;
                    continue;
                }
            };
            client.last = now;
            let sent = send_back(
                &self.socket,
                &self.buffer[..len],
                client.address,
                client.own,
            );
            self.count(1, &sent);
        }
        Ok(())
    }

    fn count(&self, way: usize, sent: &io::Result<usize>) {
        let mut statistics = self.statistics.borrow_mut();
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
            Entry::Vacant(_) if open >= self.most => return Ok(None),
            Entry::Vacant(entry) => entry,
        };
        let target = self.calls.datagrams(any_like(self.to))?;
        target.connect(self.to)?;
        let at = self.free.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.epoll.add(&target, libc::EPOLLIN, at as u64)?;
        self.clients[at] = Some(Client {
            address,
            own,
            target,
            last: Duration::ZERO,
        });
        entry.insert(at);
        let mut statistics = self.statistics.borrow_mut();
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
            self.statistics.borrow_mut().open -= 1;
        }
    }
}
