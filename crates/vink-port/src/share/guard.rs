//! Which packets may pass between a stack and the host whose address it shares: both ways, those of
//! its own ports, and ICMP that belongs to them.
//!
//! What leaves is looked at as if an attacker had written it. Ports are in the first fragment of a
//! datagram; later fragments pass that belong to one which has passed.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ports::Reserved;

/// What has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// As IP has it.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => TCP,
            Protocol::Udp => UDP,
        }
    }

    /// Of that number.
    pub fn of(number: u8) -> Option<Protocol> {
        match number {
            TCP => Some(Protocol::Tcp),
            UDP => Some(Protocol::Udp),
            _ => None,
        }
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const FRAGMENT: u8 = 44;

/// The types of messages, in ICMP and in ICMPv6.
struct Types {
    echo: u8,
    reply: u8,
    /// Destination unreachable, packet too big, time exceeded, parameter problem.
    errors: [u8; 4],
    /// "Port unreachable", type and code: the only error that a host sends about a port.
    no_port: [u8; 2],
}

const V4: Types = Types {
    echo: 8,
    reply: 0,
    errors: [3, 11, 12, 3],
    no_port: [3, 3],
};
const V6: Types = Types {
    echo: 128,
    reply: 129,
    errors: [1, 2, 3, 4],
    no_port: [1, 4],
};

impl Types {
    fn of(address: IpAddr) -> &'static Types {
        match address {
            IpAddr::V4(_) => &V4,
            IpAddr::V6(_) => &V6,
        }
    }
}

/// Whether a packet that leaves may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// So many bytes, from this sender to this receiver.
    Passes(usize, [IpAddr; 2]),
    /// It is none of the stack's: why.
    Refused(Refusal),
    /// It is for neighbours, of which a shared address has none.
    Local,
}

/// Why a packet may not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is no packet of IP, or has options or headers that are not passed.
    Malformed,
    /// Its sender is not a shared address.
    Address(IpAddr),
    /// Its sender's port is not reserved.
    Port(Protocol, u16),
    /// It is not TCP, UDP, or ICMP about such.
    Protocol(u8),
    /// It is for the host's loopback interface, or no address of a host.
    Receiver(IpAddr),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Malformed => f.write_str("it is malformed, or has options"),
            Refusal::Address(address) => write!(f, "its sender is {address}, which is not shared"),
            Refusal::Port(protocol, port) => {
                let kind = match protocol {
                    Protocol::Tcp => "",
                    Protocol::Udp => "/udp",
                };
                write!(
                    f,
                    "its port is {port}{kind}: add that to the ports of the uplink"
                )
            }
            Refusal::Protocol(number) => write!(
                f,
                "its protocol is {number}, or ICMP that is not about a shared port"
            ),
            Refusal::Receiver(address) => write!(f, "its receiver is {address}"),
        }
    }
}

/// What the last packets were of: as many as are remembered.
struct Recent<T>(VecDeque<T>);

impl<T: PartialEq> Recent<T> {
    const MOST: usize = 256;

    fn add(&mut self, one: T) {
        if self.has(&one) {
            return;
        }
        if self.0.len() == Recent::<T>::MOST {
            self.0.pop_front();
        }
        self.0.push_back(one);
    }

    fn has(&self, one: &T) -> bool {
        self.0.contains(one)
    }
}

/// A datagram that was sent as fragments: sender, receiver, protocol, number.
type Datagram = (IpAddr, IpAddr, u8, u32);

/// The rules, and what is remembered for them.
pub struct Guard {
    addresses: Vec<IpAddr>,
    ports: Reserved,
    /// Echo requests that have left: receiver and identifier.
    echoes: Recent<(IpAddr, u16)>,
    /// Datagrams whose first fragment has passed.
    leaving: Recent<Datagram>,
    coming: Recent<Datagram>,
}

impl Guard {
    /// For these ports at these addresses.
    pub fn new(addresses: Vec<IpAddr>, ports: Reserved) -> Guard {
        Guard {
            addresses,
            ports,
            echoes: Recent(VecDeque::new()),
            leaving: Recent(VecDeque::new()),
            coming: Recent(VecDeque::new()),
        }
    }

    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// A port is the stack's from now on, or no more.
    pub fn set(&mut self, protocol: Protocol, port: u16, is_ours: bool) {
        self.ports.set(protocol, port, is_ours);
    }

    /// Whether it is.
    pub fn has(&self, protocol: Protocol, port: u16) -> bool {
        self.ports.of(protocol).has(port)
    }

    /// Whether this packet may leave.
    pub fn leaving(&mut self, bytes: &[u8]) -> Leaving {
        let Some(packet) = Packet::parse(bytes, true) else {
            return Leaving::Refused(Refusal::Malformed);
        };
        let (from, to) = (packet.from, packet.to);
        if is_local(from) || is_local(to) {
            return Leaving::Local;
        }
        if !self.addresses.contains(&from) {
            return Leaving::Refused(Refusal::Address(from));
        }
        if !is_host(to) {
            return Leaving::Refused(Refusal::Receiver(to));
        }
        if let Err(why) = self.may_leave(&packet) {
            return Leaving::Refused(why);
        }
        Leaving::Passes(packet.length, [from, to])
    }

    fn may_leave(&mut self, packet: &Packet<'_>) -> Result<(), Refusal> {
        let datagram = packet.datagram();
        if let Some(Fragment { first: false, .. }) = packet.fragment {
            let known = datagram.is_some_and(|datagram| self.leaving.has(&datagram));
            return known.then_some(()).ok_or(Refusal::Malformed);
        }
        match Protocol::of(packet.protocol) {
            Some(protocol) => {
                let [port, _] = packet.ports().ok_or(Refusal::Malformed)?;
                if !self.has(protocol, port) {
                    return Err(Refusal::Port(protocol, port));
                }
            }
            None => self.icmp_may_leave(packet)?,
        }
        if let Some(datagram) = datagram {
            self.leaving.add(datagram);
        }
        Ok(())
    }

    fn icmp_may_leave(&mut self, packet: &Packet<'_>) -> Result<(), Refusal> {
        let other = Refusal::Protocol(packet.protocol);
        let message = packet.icmp().ok_or(other)?;
        let types = Types::of(packet.from);
        if [message.kind, message.code] == [types.echo, 0] {
            self.echoes.add((packet.to, message.id));
            return Ok(());
        }
        // About a packet that has come to one of the ports.
        let about = Packet::parse(message.about, false).ok_or(other)?;
        let [_, port] = about.ports().ok_or(other)?;
        let protocol = Protocol::of(about.protocol).ok_or(other)?;
        let fits = [message.kind, message.code] == types.no_port
            && about.from == packet.to
            && about.to == packet.from
            && self.has(protocol, port);
        fits.then_some(()).ok_or(other)
    }

    /// Whether this packet, which has come to the host, is the stack's.
    pub fn coming(&mut self, bytes: &[u8]) -> bool {
        let Some(packet) = Packet::parse(bytes, false) else {
            return false;
        };
        if !self.addresses.contains(&packet.to) {
            return false;
        }
        let datagram = packet.datagram();
        if let Some(Fragment { first: false, .. }) = packet.fragment {
            return datagram.is_some_and(|datagram| self.coming.has(&datagram));
        }
        let ours = match Protocol::of(packet.protocol) {
            Some(protocol) => packet
                .ports()
                .is_some_and(|[_, port]| self.has(protocol, port)),
            None => self.icmp_is_ours(&packet),
        };
        if let Some(datagram) = datagram.filter(|_| ours) {
            self.coming.add(datagram);
        }
        ours
    }

    fn icmp_is_ours(&self, packet: &Packet<'_>) -> bool {
        let Some(message) = packet.icmp() else {
            return false;
        };
        let types = Types::of(packet.to);
        if message.kind == types.reply {
            return self.echoes.has(&(packet.from, message.id));
        }
        if !types.errors.contains(&message.kind) {
            return false;
        }
        let Some(about) = Packet::parse(message.about, false) else {
            return false;
        };
        if about.from != packet.to {
            return false;
        }
        match Protocol::of(about.protocol) {
            Some(protocol) => about
                .ports()
                .is_some_and(|[port, _]| self.has(protocol, port)),
            None => about.icmp().is_some_and(|message| {
                message.kind == types.echo && self.echoes.has(&(about.to, message.id))
            }),
        }
    }
}

/// For this link or for many: of a machine's interface, not of the host's address.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_multicast() || a == Ipv4Addr::BROADCAST,
        IpAddr::V6(a) => a.is_multicast() || a.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Whether it may be another host's, or the shared one. The host's loopback interface is not for the
/// stack.
fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => !a.is_loopback() && a.octets()[0] != 0,
        IpAddr::V6(a) => !a.is_loopback() && !a.is_unspecified() && a.to_ipv4_mapped().is_none(),
    }
}

#[derive(Clone, Copy)]
struct Fragment {
    number: u32,
    first: bool,
}

/// A packet of IP, as far as it matters here.
struct Packet<'a> {
    from: IpAddr,
    to: IpAddr,
    /// Of all of it, by its own word.
    length: usize,
    protocol: u8,
    fragment: Option<Fragment>,
    payload: &'a [u8],
}

/// A message of ICMP.
struct Message<'a> {
    kind: u8,
    code: u8,
    id: u16,
    /// The packet that an error is about.
    about: &'a [u8],
}

impl<'a> Packet<'a> {
    /// `whole`: it has all of its bytes and no options. Else it may be the beginning of one, or
    /// longer than its header says, as packets that were put together are.
    fn parse(bytes: &'a [u8], whole: bool) -> Option<Packet<'a>> {
        let half = |at: usize| {
            let bytes = bytes.get(at..at + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        match bytes.first()? >> 4 {
            4 => {
                let header: &[u8; 20] = bytes.first_chunk()?;
                let start = usize::from(header[0] & 15) * 4;
                let length = usize::from(half(2)?);
                let fits = (start..=bytes.len()).contains(&length);
                if start < 20 || (whole && (start != 20 || !fits)) {
                    return None;
                }
                let end = if whole { length } else { bytes.len() };
                let [a, b, c, d] = *header[12..16].first_chunk()?;
                let [e, f, g, h] = *header[16..20].first_chunk()?;
                let place = half(6)?;
                let number = half(4)?.into();
                let first = place & 0x1fff == 0;
                Some(Packet {
                    from: Ipv4Addr::new(a, b, c, d).into(),
                    to: Ipv4Addr::new(e, f, g, h).into(),
                    length: end,
                    protocol: header[9],
                    // The bit says that more follow.
                    fragment: (place & 0x3fff != 0).then_some(Fragment { number, first }),
                    payload: bytes.get(start..end)?,
                })
            }
            6 => {
                let header: &[u8; 40] = bytes.first_chunk()?;
                let length = 40 + usize::from(half(4)?);
                if whole && length > bytes.len() {
                    return None;
                }
                let end = if whole { length } else { bytes.len() };
                let address = |at: usize| {
                    let bytes: [u8; 16] = *header[at..].first_chunk()?;
                    Some(IpAddr::V6(Ipv6Addr::from(bytes)))
                };
                let mut packet = Packet {
                    from: address(8)?,
                    to: address(24)?,
                    length: end,
                    protocol: header[6],
                    fragment: None,
                    payload: bytes.get(40..end)?,
                };
                if packet.protocol == FRAGMENT {
                    let (header, payload) = packet.payload.split_first_chunk::<8>()?;
                    let place = u16::from_be_bytes([header[2], header[3]]);
                    packet.protocol = header[0];
                    packet.payload = payload;
                    packet.fragment = Some(Fragment {
                        number: u32::from_be_bytes(*header[4..].first_chunk()?),
                        first: place & 0xfff8 == 0,
                    });
                }
                Some(packet)
            }
            _ => None,
        }
    }

    /// The datagram of which it is a fragment.
    fn datagram(&self) -> Option<Datagram> {
        let Fragment { number, .. } = self.fragment?;
        Some((self.from, self.to, self.protocol, number))
    }

    /// Those of the sender and of the receiver; none in later fragments.
    fn ports(&self) -> Option<[u16; 2]> {
        Protocol::of(self.protocol)?;
        if self.fragment.is_some_and(|fragment| !fragment.first) {
            return None;
        }
        let bytes: &[u8; 8] = self.payload.first_chunk()?;
        Some([[0, 1], [2, 3]].map(|[high, low]| u16::from_be_bytes([bytes[high], bytes[low]])))
    }

    fn icmp(&self) -> Option<Message<'a>> {
        let own = match self.from {
            IpAddr::V4(_) => ICMP,
            IpAddr::V6(_) => ICMPV6,
        };
        if self.protocol != own || self.fragment.is_some_and(|fragment| !fragment.first) {
            return None;
        }
        let (header, about) = self.payload.split_first_chunk::<8>()?;
        Some(Message {
            kind: header[0],
            code: header[1],
            id: u16::from_be_bytes([header[4], header[5]]),
            about,
        })
    }
}
