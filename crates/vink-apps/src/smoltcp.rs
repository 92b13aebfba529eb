//! An app with a TCP of its own: smoltcp on a packet socket (packet(7)), so that Linux's TCP meets
//! one that is not Linux's. The machine's own stack has no address on that interface, and says
//! nothing there.

use std::io;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};

use crate::arguments::{self, number, Arguments, Opt, Syntax};
use crate::steps::byte;
use crate::{App, AppError, Calls, Names, Socket, Target};

/// Of the receive window, and of what waits to be acknowledged: bytes.
const BUFFER: usize = 16 << 10;
/// The largest frame that a wire has: an IPv6 packet, with Ethernet's header.
const FRAME: usize = (64 << 10) + 54;
/// The interface's.
const MTU: usize = 1500 + 14;
/// The first of the ports that a connection may begin from (RFC 6335, 6).
const DYNAMIC_PORTS: u16 = 49152;
/// packet(7): no copies of what this machine sends. `libc` has it not for `SOL_PACKET`.
const PACKET_IGNORE_OUTGOING: i32 = 23;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "smoltcp",
    purpose: "Speaks TCP by smoltcp, on an interface without an address: listen PORT receives until the end of the \
              stream; connect HOST PORT sends, and closes.",
    operands: "ADDRESS/LENGTH STEP...",
    options: &[
        Opt::new('i', "INTERFACE", "its interface (eth0)"),
        Opt::new('n', "SIZE", "so many bytes, those of steps; another stream is a failure (8k)"),
    ],
};

/// What becomes of the connection.
enum Role {
    /// It is accepted on this port, and received from.
    Listen(u16),
    /// It is made to there, and sent over.
    Connect(Target, u16),
}

struct Smoltcp {
    own: IpCidr,
    role: Role,
    interface: String,
    size: u64,
}

pub(crate) fn make(arguments: &Arguments<'_>, names: &Names) -> Result<Box<dyn App>, String> {
    let (own, role) = match arguments.operands() {
        [own, "listen", port] => (*own, Role::Listen(number(port, 1)?)),
        [own, "connect", host, port] => {
            let host = Target::parse(host, names, None)?;
            (*own, Role::Connect(host, number(port, 1)?))
        }
        _ => return Err("behind the address comes listen PORT, or connect HOST PORT".to_owned()),
    };
    let own = own.parse::<IpCidr>();
    Ok(Box::new(Smoltcp {
        own: own.map_err(|()| "the address has a length, such as 10.0.0.2/24".to_owned())?,
        role,
        interface: arguments.text('i').unwrap_or("eth0").to_owned(),
        size: arguments.value('n', arguments::size)?.unwrap_or(8000),
    }))
}

/// The interface, as smoltcp has one.
struct Link<'c> {
    socket: Socket<'c>,
    /// Why it can't be used any more.
    error: Option<io::Error>,
}

impl<'c> Link<'c> {
    /// Opens an interface; its hardware address is the second.
    fn open(calls: &'c Calls<'c>, name: &str) -> io::Result<(Link<'c>, EthernetAddress)> {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let socket = calls.socket(libc::AF_PACKET, libc::SOCK_RAW, all.into())?;
        socket.set_option(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        let mut at = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: all,
            sll_ifindex: calls.interface_index(name)? as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let mut len = size_of_val(&at) as libc::socklen_t;
        let (fd, raw) = (socket.fd() as u64, (&raw mut at) as u64);
        calls.call(libc::SYS_bind, [fd, raw, len.into(), 0, 0, 0])?;
        let told = [fd, raw, (&raw mut len) as u64, 0, 0, 0];
        calls.call(libc::SYS_getsockname, told)?;
        let own = EthernetAddress::from_bytes(&at.sll_addr[..6]);
        let error = None;
        Ok((Link { socket, error }, own))
    }
}

/// A frame that has come.
struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

/// Leave to send a frame.
struct Sending<'a, 'c>(&'a mut Link<'c>);

impl TxToken for Sending<'_, '_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let written = write(&mut frame);
        if let Err(error) = self.0.socket.send(&frame, 0) {
            // A queue that is full loses it, as a wire may.
            if error.raw_os_error() != Some(libc::ENOBUFS) {
                self.0.error = Some(error);
            }
        }
        written
    }
}

impl<'c> Device for Link<'c> {
    type RxToken<'a>
        = Received
    where
        Self: 'a;
    type TxToken<'a>
        = Sending<'a, 'c>
    where
        Self: 'a;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Sending<'_, 'c>)> {
        let mut frame = vec![0; FRAME];
        match self.socket.recv(&mut frame, libc::MSG_DONTWAIT) {
            Ok(len) => {
                frame.truncate(len);
                Some((Received(frame), Sending(self)))
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.error = Some(error);
                }
                None
            }
        }
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_, 'c>> {
        Some(Sending(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut able = DeviceCapabilities::default();
        able.medium = Medium::Ethernet;
        able.max_transmission_unit = MTU;
        // A sender of the lab leaves TCP's to its interface, which leaves it out.
        able.checksum.tcp = Checksum::Tx;
        able
    }
}

fn instant(now: Duration) -> Instant {
    Instant::from_micros(now.as_micros() as i64)
}

impl App for Smoltcp {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let opened = Link::open(calls, &self.interface);
        let what = format!("open the interface {}", self.interface);
        let (mut link, hardware) = opened.map_err(AppError::during(what))?;
        let mut random = [0; 8];
        calls.call(
            libc::SYS_getrandom,
            [(&raw mut random) as u64, 8, 0, 0, 0, 0],
        )?;
        let mut config = Config::new(hardware.into());
        config.random_seed = u64::from_ne_bytes(random);
        let mut interface = Interface::new(config, &mut link, instant(calls.now()?));
        interface.update_ip_addrs(|addresses| {
            addresses.push(self.own).expect("room for one");
        });
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_congestion_control(tcp::CongestionControl::Reno);
        match &self.role {
            Role::Listen(port) => socket.listen(*port).expect("a new socket, a port above 0"),
            Role::Connect(host, port) => {
                let from = DYNAMIC_PORTS + u16::from_ne_bytes([random[0], random[1]]) % 16384;
                let to = (host.address, *port);
                let begun = socket.connect(interface.context(), to, from);
                begun.map_err(|error| AppError::new(format!("connect: {error}")))?;
            }
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        calls.ready();
        let mut stream = Stream::new(self.size);
        loop {
            let now = instant(calls.now()?);
            interface.poll(now, &mut link, &mut sockets);
            let ended = match self.role {
                Role::Listen(_) => stream.receive(&mut sockets, handle),
                Role::Connect(..) => stream.send(&mut sockets, handle),
            };
            if let Some(error) = link.error.take() {
                return Err(AppError::during(&self.interface)(error));
            }
            if ended {
                break;
            }
            let delay = interface.poll_delay(now, &sockets);
            let mut fds = [libc::pollfd {
                fd: link.socket.fd(),
                events: libc::POLLIN,
                revents: 0,
            }];
            calls.poll(&mut fds, delay.map(Duration::from))?;
        }
        calls.print(&format!("{stream}\n"));
        Ok(i32::from(!stream.is_whole()))
    }
}

/// What has gone over the connection.
struct Stream {
    /// So many bytes are right.
    size: u64,
    /// So many have gone, of those that are wanted.
    done: u64,
    /// One of them was another than was sent, or too many.
    is_wrong: bool,
    /// The end has come, or has been acknowledged.
    has_ended: bool,
}

impl Stream {
    fn new(size: u64) -> Stream {
        Stream {
            size,
            done: 0,
            is_wrong: false,
            has_ended: false,
        }
    }

    fn is_whole(&self) -> bool {
        self.has_ended && !self.is_wrong && self.done == self.size
    }

    /// Takes what has come, and closes behind the end. Whether the connection is over.
    fn receive(&mut self, sockets: &mut SocketSet<'_>, handle: SocketHandle) -> bool {
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
        let mut buffer = [0; 4096];
        loop {
            match socket.recv_slice(&mut buffer) {
                Ok(0) | Err(tcp::RecvError::InvalidState) => break,
                Ok(len) => {
                    let wanted = (self.done..self.size).map(byte);
                    let found = buffer[..len].iter().copied();
                    self.is_wrong |= !wanted.take(len).eq(found);
                    self.done += len as u64;
                }
                Err(tcp::RecvError::Finished) => {
                    self.has_ended = true;
                    socket.close();
                    break;
                }
            }
        }
        socket.state() == tcp::State::Closed
    }

    /// Sends as much as there is room for, and closes behind the last byte. Whether the connection
    /// is over.
    fn send(&mut self, sockets: &mut SocketSet<'_>, handle: SocketHandle) -> bool {
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
        let next = self.size.min(self.done + BUFFER as u64);
        let data: Vec<u8> = (self.done..next).map(byte).collect();
        if let Ok(len) = socket.send_slice(&data) {
            self.done += len as u64;
            if self.done == self.size {
                socket.close();
            }
        }
        let state = socket.state();
        self.has_ended |= matches!(state, tcp::State::FinWait2 | tcp::State::TimeWait);
        state == tcp::State::Closed
    }
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (done, size) = (self.done, self.size);
        let how = match (self.is_wrong, self.has_ended) {
            (true, _) => "not as they were sent",
            (false, true) => "to the end",
            (false, false) => "and no end",
        };
        write!(f, "{done} of {size} bytes, {how}")
    }
}
