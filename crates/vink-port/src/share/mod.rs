//! The host's own IP address as the host's side of an uplink: a stack uses it beside the host's.
//!
//! The two are told apart by ports. Some are reserved on the host (`ports`), so that the host's
//! stack does not use them. Packets to them are dropped before the host's stack has them (`rules`),
//! and received by packet sockets (`receive`). What the stack sends is looked at (`guard`) and sent
//! raw, by the host's routes and neighbours (`send`). So the uplink is a point-to-point link of IP:
//! the Ethernet headers of its frames have no meaning.
//!
//! Ports can also be had on demand, when a program binds them. That takes rights which this process
//! gives up, so a second one (`server`) does it, which sees no packet. The process with the stack asks
//! this one (`demand`).
//!
//! All of that is descriptors of these processes, and goes with them, however they end.

mod addresses;
mod demand;
mod guard;
mod ports;
mod receive;
mod rules;
mod send;
mod server;
mod unreachable;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use vink_sys::rustix::net::netdevice::index_to_name;
use vink_sys::socket::seqpacket_pair;

use self::addresses::{default_addresses, Addresses};
use self::guard::{Guard, Leaving, Protocol, Refusal};
use self::ports::Reserved;
use self::rules::Rules;
use self::send::Sender;
use crate::backend::{Backend, Deliver, LinkState, Offloads, Stop, HEADER, LARGEST};
use crate::batch::Incoming;
use crate::monitor::Monitor;
use crate::packet::{missed, unbound};
use crate::poll::{Poll, INPUT, ROOM};
use crate::Error;

use self::demand::Demand;
pub use self::demand::{Asked, PortAsker};
pub use self::server::PortServer;

/// Of Ethernet.
const ETHERNET: usize = 14;
/// The Ethernet addresses of the machine's interface, and of everything behind the uplink.
const MACHINE_MAC: [u8; 6] = [0x02, 0x76, 0x69, 0x6e, 0x6b, 0x0f];
const HOST_MAC: [u8; 6] = [0x02, 0x76, 0x69, 0x6e, 0x6b, 0x02];
/// Packets that the host tells the stack of are lost beyond this.
const MOST_TOLD: usize = 64;
/// Kinds of refused packets that are told of.
const MOST_KINDS: usize = 16;

/// What a stack is to have of the host.
#[derive(Debug, Default)]
pub struct ShareRequest {
    /// Addresses of the host's; none: those that it uses by its default routes.
    pub addresses: Vec<IpAddr>,
    /// Ports to listen at, of TCP and of UDP.
    pub tcp: Vec<u16>,
    /// ... of UDP.
    pub udp: Vec<u16>,
    /// Ports for connections that the stack makes, of both.
    pub ephemeral: Ephemeral,
    /// By which the process with the stack asks for more ports.
    pub demand: Option<OwnedFd>,
}

/// Ports for connections that a stack makes.
#[derive(Clone, Debug)]
pub enum Ephemeral {
    /// So many.
    Count(u16),
    /// Those that it had before: the first and the last of each run.
    These(Vec<(u16, u16)>),
}

impl Default for Ephemeral {
    fn default() -> Ephemeral {
        Ephemeral::Count(0)
    }
}

/// What it has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The least MTU of their interfaces, in bytes.
    pub mtu: u32,
    /// Ports for connections that it makes: the first and the last of each run.
    pub ephemeral: Vec<(u16, u16)>,
}

/// A shared address.
struct Shared {
    receiver: OwnedFd,
    sender: Sender,
    /// The host has no room for what it is to send.
    full: bool,
}

/// Shares addresses of the host as long as it is there.
pub struct ShareBackend {
    name: String,
    guard: Guard,
    _rules: Rules,
    shared: Vec<Shared>,
    demand: Option<Demand>,
    monitor: Addresses,
    /// An address that the host has no more.
    missing: Option<IpAddr>,
    poll: Poll,
    incoming: Incoming,
    room: Box<[u8]>,
    /// Packets by which the host tells the stack what it can't send.
    told: VecDeque<Vec<u8>>,
    lost: u64,
    refused: u64,
    /// The kinds of refused packets that were told of.
    seen: HashSet<Refusal>,
    mtu: u32,
}

impl ShareBackend {
    /// Reserves the ports, and takes their packets. If more are to be had on demand, there is a server
    /// that has to run in a process of its own.
    ///
    /// # Errors
    /// [`Error::Uplink`]: a port or an address that can't be had, a right that is missing.
    pub fn open(
        name: &str,
        request: ShareRequest,
    ) -> Result<(ShareBackend, Grant, Option<PortServer>), Error> {
        let fail = |what: String| Error::Uplink(format!("the uplink {name}: {what}"));
        let host = |what: &'static str| {
            move |error: io::Error| fail(format!("{what}: {error}{}", remedy(&error)))
        };
        // Without a right, nothing else is of interest.
        drop(unbound().map_err(host("a packet socket"))?);
        let addresses = match request.addresses.is_empty() {
            true => default_addresses(),
            false => request.addresses.clone(),
        };
        if addresses.is_empty() {
            let what = "the host has no default route: name the address to be shared, as in share:192.0.2.1,80";
            return Err(fail(what.to_owned()));
        }
        let monitor = Addresses::new().map_err(host("following the host's addresses"))?;
        let found = monitor.interfaces(&addresses);
        let found = found.map_err(host("asking for the host's addresses"))?;
        let mut mtu = u32::MAX;
        for (address, index) in addresses.iter().zip(found) {
            let index = index.ok_or_else(|| {
                let what = format!(
                    "{address} is not an address of the host: ip address shows those that there are"
                );
                fail(what)
            })?;
            mtu = mtu.min(mtu_of(&monitor, index).map_err(host("asking for the MTU"))?);
        }
        let poll = Poll::new().map_err(host("epoll_create1"))?;
        let mut reserved = Reserved::new(&addresses);
        for (protocol, ports) in [(Protocol::Tcp, &request.tcp), (Protocol::Udp, &request.udp)] {
            for port in ports {
                if reserved.of(protocol).has(*port) {
                    continue;
                }
                let done = reserved.reserve(*port, &[protocol]);
                done.map_err(|(address, error)| fail(in_use(address.ip(), *port, &error)))?;
            }
        }
        let ephemeral = reserve_ephemeral(&mut reserved, &request.ephemeral).map_err(fail)?;
        let rules = Rules::load(&addresses, &reserved);
        let rules = rules.map_err(host("its rules in nf_tables"))?;
        poll.add(&monitor, INPUT).map_err(host("epoll_ctl"))?;
        let mut shared = Vec::new();
        for address in &addresses {
            let receiver = receive::open(*address, &reserved).map_err(host("a packet socket"))?;
            poll.add(&receiver, INPUT).map_err(host("epoll_ctl"))?;
            let sender = Sender::open(*address).map_err(host("a raw socket"))?;
            poll.add(sender.socket(), 0).map_err(host("epoll_ctl"))?;
            shared.push(Shared {
                receiver,
                sender,
                full: false,
            });
        }
        let mut server = None;
        let demand = request.demand.map(|stack| -> io::Result<Demand> {
            let receivers = shared.iter().map(|each| each.receiver.try_clone());
            let receivers = receivers.collect::<io::Result<Vec<_>>>()?;
            let (channel, its) = seqpacket_pair()?;
            let known = reserved.known();
            server = Some(PortServer::new(its, known, rules.try_clone()?, receivers));
            poll.add(&channel, INPUT)?;
            poll.add(&stack, INPUT)?;
            Demand::new(stack, channel)
        });
        let demand = demand.transpose().map_err(host("ports on demand"))?;
        let grant = Grant {
            addresses: addresses.clone(),
            mtu,
            ephemeral,
        };
        let backend = ShareBackend {
            name: name.to_owned(),
            guard: Guard::new(addresses, reserved),
            _rules: rules,
            shared,
            demand,
            monitor,
            missing: None,
            poll,
            incoming: Incoming::new(),
            room: vec![0; LARGEST].into(),
            told: VecDeque::new(),
            lost: 0,
            refused: 0,
            seen: HashSet::new(),
            mtu,
        };
        Ok((backend, grant, server))
    }

    /// Waits until the port server says that it is there; false: it has ended. True if there is none.
    pub fn awaits_server(&self) -> bool {
        self.demand.as_ref().is_none_or(Demand::awaits_server)
    }

    /// Says once for each kind of packet why such is not sent.
    fn refuse(&mut self, why: Refusal) {
        self.refused += 1;
        if self.seen.len() < MOST_KINDS && self.seen.insert(why) {
            eprintln!(
                "vink: the uplink {}: a packet is not sent: {why}",
                self.name
            );
        }
    }
}

/// The MTU of the interface of this index.
fn mtu_of(monitor: &Addresses, index: u32) -> io::Result<u32> {
    let name = index_to_name(monitor, index)?;
    Monitor::new(&name)?.mtu()
}

/// Why a port can't be reserved.
fn in_use(address: IpAddr, port: u16, error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => "; a program of the host has it: ss -tulnp shows which",
        Some(libc::EMFILE) => "; each port takes a descriptor: ulimit -n allows fewer",
        _ => remedy(error),
    };
    format!("reserving port {port} of {address}: {error}{why}")
}

/// What to do.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; sharing the host's address takes CAP_NET_ADMIN and CAP_NET_RAW: run it as root, or use the uplink passt"
        }
        Some(libc::EPROTONOSUPPORT | libc::EOPNOTSUPP | libc::ENOENT | libc::EINVAL) => {
            "; it takes Linux 5.12 or later with nf_tables: as root: modprobe nf_tables"
        }
        _ => "",
    }
}

/// Reserves ports for connections that the stack makes: the runs.
fn reserve_ephemeral(
    reserved: &mut Reserved,
    wanted: &Ephemeral,
) -> Result<Vec<(u16, u16)>, String> {
    let both = [Protocol::Tcp, Protocol::Udp];
    let count = match wanted {
        Ephemeral::Count(count) => *count,
        Ephemeral::These(runs) => {
            for port in runs.iter().flat_map(|(first, last)| *first..=*last) {
                let done = reserved.reserve(port, &both);
                done.map_err(|(address, error)| in_use(address.ip(), port, &error))?;
            }
            return Ok(runs.clone());
        }
    };
    let mut set = ports::PortSet::new();
    let mut left = count;
    for port in candidates() {
        if left == 0 {
            break;
        }
        let listens = |protocol| reserved.of(protocol).has(port);
        if listens(Protocol::Tcp) || listens(Protocol::Udp) {
            continue;
        }
        match reserved.reserve(port, &both) {
            Ok(()) => {
                set.insert(port);
                left -= 1;
            }
            Err((_, error)) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err((address, error)) => return Err(in_use(address.ip(), port, &error)),
        }
    }
    match left {
        0 => Ok(set.runs()),
        _ => Err(format!(
            "of {count} ports for connections, the host has only {} left: ask for fewer (ephemeral)",
            count - left
        )),
    }
}

/// In which order ports are tried: first those that the host does not choose by itself
/// (`ip_local_port_range`, ip(7)).
fn candidates() -> impl Iterator<Item = u16> {
    const UNPRIVILEGED: u16 = 1024;
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let last = text.ok().and_then(|text| {
        let last = text.split_ascii_whitespace().nth(1)?;
        last.parse::<u16>().ok()
    });
    let last = last.unwrap_or(60999);
    let beyond = last.checked_add(1).into_iter();
    let beyond = beyond.flat_map(|first| first..=u16::MAX);
    beyond.chain((UNPRIVILEGED..=last).rev())
}

/// Writes an Ethernet header for the machine in front of a packet.
fn address(frame: &mut [u8]) {
    let is_v4 = frame[ETHERNET] >> 4 == 4;
    let kind: u16 = match is_v4 {
        true => libc::ETH_P_IP as u16,
        false => libc::ETH_P_IPV6 as u16,
    };
    frame[..6].copy_from_slice(&MACHINE_MAC);
    frame[6..12].copy_from_slice(&HOST_MAC);
    frame[12..14].copy_from_slice(&kind.to_be_bytes());
}

impl Backend for ShareBackend {
    fn offloads(&self) -> Offloads {
        Offloads::Received
    }

    fn host(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        if let Some(demand) = &mut self.demand {
            demand.serve(&mut self.guard, &self.poll);
            if demand.is_over() {
                return LinkState::Ended("its port server has ended".to_owned());
            }
        }
        if self.monitor.news() {
            let addresses = self.guard.addresses();
            // What is not known is as it was.
            if let Ok(found) = self.monitor.interfaces(addresses) {
                let mut each = addresses.iter().zip(found);
                let missing = each.find(|(_, index)| index.is_none());
                self.missing = missing.map(|(address, _)| *address);
            }
        }
        match self.missing {
            Some(address) => LinkState::Down(format!("the host has the address {address} no more")),
            None => LinkState::Up,
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        while let Some(packet) = self.told.pop_front() {
            let mut frame = [&[0; HEADER + ETHERNET][..], &packet].concat();
            address(&mut frame[HEADER..]);
            deliver(&frame)?;
        }
        for each in &self.shared {
            let (lost, guard) = (&mut self.lost, &mut self.guard);
            let received = self.incoming.receive(&each.receiver, |datagram| {
                match receive::frame(datagram) {
                    Some((frame, packet)) => {
                        if guard.coming(&frame[packet..]) {
                            address(&mut frame[HEADER..]);
                            deliver(frame)?;
                        }
                    }
                    None => *lost += 1,
                }
                Ok(())
            })?;
            match received {
                Ok(0) => {}
                Ok(_) => self.lost += missed(&each.receiver),
                // An interface of the host's went down; others are still up.
                Err(_) => {}
            }
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        match self.shared.iter().any(|each| each.sender.is_full()) {
            true => None,
            false => Some(&mut self.room),
        }
    }

    fn put(&mut self, length: usize) {
        let Some(packet) = self.room[..length].get(HEADER + ETHERNET..) else {
            return self.refuse(Refusal::Malformed);
        };
        match self.guard.leaving(packet) {
            Leaving::Passes(length, [from, to]) => {
                let mut shared = self.shared.iter_mut();
                match shared.find(|each| each.sender.is_of(from)) {
                    Some(each) => each.sender.put(&packet[..length], to),
                    None => self.lost += 1,
                }
            }
            Leaving::Refused(why) => self.refuse(why),
            Leaving::Local => {}
        }
    }

    fn flush(&mut self) -> bool {
        for each in &mut self.shared {
            let (lost, told) = (&mut self.lost, &mut self.told);
            let full = !each.sender.flush(|packet, why| {
                *lost += 1;
                if told.len() < MOST_TOLD {
                    told.extend(unreachable::told(packet, why));
                }
            });
            if full != each.full {
                let events = if full { ROOM } else { 0 };
                // Else it is tried again with the next frame.
                let _ = self.poll.change(each.sender.socket(), events);
                each.full = full;
            }
        }
        !self.told.is_empty()
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn refused(&self) -> u64 {
        self.refused
    }

    fn is_gone(&self) -> bool {
        self.demand.as_ref().is_some_and(Demand::is_over)
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }
}
