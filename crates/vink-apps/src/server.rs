//! The event loop that all servers share: one epoll set for a listener, its connections and a UDP
//! socket.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use crate::arguments::{number, Arguments, Opt};
use crate::{AppError, Calls, Control, Epoll, ServerReport, Socket};

/// Bytes per read.
const BLOCK: usize = 64 << 10;
/// How often one socket is read from before the others have their turn.
const READ_BUDGET: usize = 16;
/// Events per wait.
const EVENTS: usize = 64;

const LISTENER: u64 = 0;
const DATAGRAMS: u64 = 1;
/// The token of the first connection.
const FIRST_CONNECTION: u64 = 2;

/// What a server does with what comes.
pub(crate) trait Service {
    /// What it remembers of a connection.
    type Talk: Default;

    /// A client has connected.
    fn opened(&mut self, _calls: &Calls<'_>, _from: SocketAddr) -> io::Result<Self::Talk> {
        Ok(Self::Talk::default())
    }

    /// Data of a connection, and where the answer goes. False: hang up when the answer has been
    /// sent.
    fn received(
        &mut self,
        calls: &Calls<'_>,
        talk: &mut Self::Talk,
        data: &[u8],
        answer: &mut Answer,
    ) -> io::Result<bool>;

    /// The connection has ended.
    fn closed(&mut self, _calls: &Calls<'_>, _talk: &mut Self::Talk) -> io::Result<()> {
        Ok(())
    }

    /// A datagram; true: the answer, empty at first, is to be sent back.
    fn datagram(
        &mut self,
        _calls: &Calls<'_>,
        _data: &[u8],
        _from: SocketAddr,
        _answer: &mut Vec<u8>,
    ) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether all that it was to do is done.
    fn is_done(&self) -> bool {
        false
    }
}

/// Where a server listens.
pub(crate) struct ListenAddress {
    pub address: Option<IpAddr>,
    pub port: u16,
    pub tcp: bool,
    pub udp: bool,
    /// Bytes of each socket's receive buffer, as of `SO_RCVBUFFORCE` (socket(7)).
    pub receive_buffer: Option<i32>,
}

/// The options that say where a server listens; a server's table begins with them.
pub(crate) const PORT: Opt = Opt::new('p', "PORT", "listens on this port instead of its own");
pub(crate) const BIND: Opt = Opt::new(
    'b',
    "ADDRESS",
    "listens on this address only (else all, IPv4 and IPv6)",
);
pub(crate) const TCP: Opt = Opt::new('t', "", "TCP only");
pub(crate) const UDP: Opt = Opt::new('u', "", "UDP only");

impl ListenAddress {
    pub fn parse(arguments: &Arguments<'_>, port: u16) -> Result<ListenAddress, String> {
        let address = |text: &str| text.parse().map_err(|_| "this is no address".to_owned());
        let (tcp, udp) = (arguments.has('t'), arguments.has('u'));
        if tcp && udp {
            return Err("-t and -u exclude each other; both are served without them".into());
        }
        Ok(ListenAddress {
            address: arguments.value('b', address)?,
            port: arguments
                .value('p', |text| number(text, 1))?
                .unwrap_or(port),
            tcp: !udp,
            udp: !tcp,
            receive_buffer: None,
        })
    }

    fn set_receive_buffer(&self, socket: &Socket<'_>) -> Result<(), AppError> {
        let Some(bytes) = self.receive_buffer else {
            return Ok(());
        };
        let set = socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes);
        set.map_err(AppError::during(format_args!(
            "set a receive buffer of {bytes} bytes"
        )))
    }

    fn socket_address(&self) -> SocketAddr {
        let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
        SocketAddr::new(self.address.unwrap_or(any), self.port)
    }
}

/// What is still to be sent on a connection.
#[derive(Default)]
pub(crate) struct Answer {
    pieces: VecDeque<Piece>,
    /// Of the first piece.
    sent: u64,
}

enum Piece {
    Bytes(Vec<u8>),
    Zeroes(u64),
}

impl Answer {
    pub fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(Piece::Bytes(bytes.to_vec())),
        }
    }

    /// So many zeroes, which take no memory.
    pub fn push_zeroes(&mut self, count: u64) {
        if count > 0 {
            self.pieces.push_back(Piece::Zeroes(count));
        }
    }

    /// All of another one, which is empty then and has not begun to be sent.
    pub fn append(&mut self, other: &mut Answer) {
        self.pieces.append(&mut other.pieces);
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Sends what the socket takes; how many bytes.
    fn flush(&mut self, socket: &Socket<'_>) -> io::Result<u64> {
        static ZEROES: [u8; BLOCK] = [0; BLOCK];
        let mut total = 0;
        while let Some(first) = self.pieces.front() {
            let (bytes, all) = match first {
                Piece::Bytes(bytes) => (&bytes[self.sent as usize..], bytes.len() as u64),
                Piece::Zeroes(count) => {
                    let now = (count - self.sent).min(BLOCK as u64);
                    (&ZEROES[..now as usize], *count)
                }
            };
            let sent = match socket.send(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
                Ok(sent) => sent as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(total),
                Err(error) => return Err(error),
            };
            total += sent;
            self.sent += sent;
            if self.sent == all {
                self.pieces.pop_front();
                self.sent = 0;
            }
        }
        Ok(total)
    }
}

/// Sends a datagram from the address (`IPV6_PKTINFO`) that it answers for.
pub(crate) fn send_back(
    socket: &Socket<'_>,
    data: &[u8],
    to: SocketAddr,
    own: Option<Control>,
) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT;
    let sent = own.map(|mut own| {
        // By whichever interface leads there.
        own.data[16..].fill(0);
        socket.send_message(data, flags, to, own)
    });
    match sent {
        Some(Ok(sent)) => Ok(sent),
        // A multicast or broadcast address is no source address.
        Some(Err(_)) | None => socket.send_to(data, flags, to),
    }
}

struct Connection<'c, T> {
    socket: Socket<'c>,
    talk: T,
    answer: Answer,
    /// Nothing more is read: hang up when the answer has been sent.
    ends: bool,
    /// Waits for room to write, and reads nothing meanwhile.
    full: bool,
}

/// A server at work.
struct Server<'c, S: Service> {
    calls: &'c Calls<'c>,
    service: S,
    statistics: Rc<RefCell<ServerReport>>,
    epoll: Epoll<'c>,
    listener: Option<Socket<'c>>,
    datagrams: Option<Socket<'c>>,
    connections: Vec<Option<Connection<'c, S::Talk>>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

/// Serves until the app is to stop.
pub(crate) fn serve<S: Service>(
    calls: &Calls<'_>,
    address: &ListenAddress,
    service: S,
    statistics: &Rc<RefCell<ServerReport>>,
) -> Result<i32, AppError> {
    let at = address.socket_address();
    let epoll = calls.epoll()?;
    let mut listener = None;
    if address.tcp {
        let socket = calls.listen(at);
        let socket = socket.map_err(AppError::during(format_args!("listen on {at} (TCP)")))?;
        socket.set_blocking(false)?;
        address.set_receive_buffer(&socket)?;
        epoll.add(&socket, libc::EPOLLIN, LISTENER)?;
        listener = Some(socket);
    }
    let mut datagrams = None;
    if address.udp {
        let socket = calls.datagrams(at);
        let socket = socket.map_err(AppError::during(format_args!("bind to {at} (UDP)")))?;
        socket.set_blocking(false)?;
        address.set_receive_buffer(&socket)?;
        if at.is_ipv6() {
            // Which of the machine's addresses was written to is where the answer comes from.
            socket.set_option(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1i32)?;
        }
        epoll.add(&socket, libc::EPOLLIN, DATAGRAMS)?;
        datagrams = Some(socket);
    }
    calls.ready();
    let mut server = Server {
        calls,
        service,
        statistics: Rc::clone(statistics),
        epoll,
        listener,
        datagrams,
        connections: Vec::new(),
        free: Vec::new(),
        buffer: Vec::new(),
    };
    while !server.service.is_done() {
        server.turn()?;
    }
    Ok(0)
}

impl<S: Service> Server<'_, S> {
    /// Waits for events and handles them.
    fn turn(&mut self) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let count = self.epoll.wait(&mut events, None)?.len();
        // Made when it is first needed: an idle server has none.
        self.buffer.resize(BLOCK, 0);
        for event in &events[..count] {
            match event.u64 {
                LISTENER => self.accept()?,
                DATAGRAMS => self.datagram()?,
                token => self.serve((token - FIRST_CONNECTION) as usize)?,
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else {
            return Ok(());
        };
        loop {
            let (socket, from) = match listener.accept_with(libc::SOCK_NONBLOCK) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
            let talk = self.service.opened(self.calls, from)?;
            let at = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            self.epoll
                .add(&socket, libc::EPOLLIN, FIRST_CONNECTION + at as u64)?;
            self.connections[at] = Some(Connection {
                socket,
                talk,
                answer: Answer::default(),
                ends: false,
                full: false,
            });
            let mut statistics = self.statistics.borrow_mut();
            statistics.connections += 1;
            statistics.open += 1;
        }
    }

    fn datagram(&mut self) -> io::Result<()> {
        let Some(socket) = &self.datagrams else {
            return Ok(());
        };
        let mut answer = Vec::new();
        for _ in 0..READ_BUDGET {
            let received = socket.recv_message(&mut self.buffer, libc::MSG_DONTWAIT);
            let (len, from, own) = match received {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if self.calls.stopping() => return Err(error),
                // What became of an earlier answer, such as that its port is closed.
                Err(_) => continue,
            };
            let data = &self.buffer[..len];
            answer.clear();
            let answered = self.service.datagram(self.calls, data, from, &mut answer)?;
            // As any datagram, it may be lost.
            let sent = answered && send_back(socket, &answer, from, own).is_ok();
            let mut statistics = self.statistics.borrow_mut();
            statistics.datagrams += 1;
            statistics.received += len as u64;
            statistics.sent += if sent { answer.len() as u64 } else { 0 };
        }
        Ok(())
    }

    /// Something happened to a connection.
    fn serve(&mut self, at: usize) -> io::Result<()> {
        let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
            return Ok(());
        };
        let lives = self.talk(&mut connection);
        if self.calls.stopping() {
            lives?;
            return Ok(());
        }
        if let Ok(true) = lives {
            if connection.full == connection.answer.is_empty() {
                connection.full = !connection.full;
                let events = match connection.full {
                    true => libc::EPOLLOUT,
                    false => libc::EPOLLIN,
                };
                let token = FIRST_CONNECTION + at as u64;
                self.epoll.modify(&connection.socket, events, token)?;
            }
            self.connections[at] = Some(connection);
            return Ok(());
        }
        self.service.closed(self.calls, &mut connection.talk)?;
        let mut statistics = self.statistics.borrow_mut();
        statistics.open -= 1;
        statistics.errors += u64::from(lives.is_err());
        self.free.push(at);
        Ok(())
    }

    /// Sends and receives as far as it goes; whether the connection goes on.
    fn talk(&mut self, connection: &mut Connection<'_, S::Talk>) -> io::Result<bool> {
        for _ in 0..READ_BUDGET {
            let sent = connection.answer.flush(&connection.socket)?;
            self.statistics.borrow_mut().sent += sent;
            if !connection.answer.is_empty() {
                return Ok(true);
            }
            if connection.ends {
                return Ok(false);
            }
            let got = match connection.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            self.statistics.borrow_mut().received += got as u64;
            connection.ends = match got {
                0 => true,
                _ => {
                    let data = &self.buffer[..got];
                    let (talk, answer) = (&mut connection.talk, &mut connection.answer);
                    !self.service.received(self.calls, talk, data, answer)?
                }
            };
        }
        // The last answer may not have been sent: then the socket is as good as full.
        let sent = connection.answer.flush(&connection.socket)?;
        self.statistics.borrow_mut().sent += sent;
        Ok(!connection.ends || !connection.answer.is_empty())
    }
}
