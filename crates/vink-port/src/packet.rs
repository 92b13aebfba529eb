//! An interface of the host as the host's side of an uplink: what it receives is the machine's, and
//! it sends what the machine does, by a packet socket (packet(7)).
//!
//! Several processes can have one interface together: the members of a *fanout group* each get the
//! frames of some flows. ARP and ICMPv6's neighbour discovery, which belong to no flow, come to each of
//! them, by a second socket. So stacks that have one Ethernet and one
//! IP address between them all know their neighbours.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use vink_sys::plain::Zeroed;
use vink_sys::rustix::net::{socket_with, AddressFamily, SocketFlags, SocketType};
use vink_sys::socket::{option, set_option};

use super::backend::{Backend, Deliver, LinkState, Offloads, Stop, HEADER};
use super::batch::{Datagram, Incoming, Outgoing, FRONT};
use super::bpf::{attach, step, AT_LEAST, BYTE, EQUAL, GREATER, HALF, NOTHING, RETURN, WHOLE};
use super::monitor::{HostLink, Monitor};
use super::poll::{Poll, INPUT, ROOM};
use crate::Error;

/// Size of the socket's buffers in bytes, each way, as far as the host allows.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// Of linux/if_packet.h.
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// Follows the interface: there is a socket as long as it is up.
pub struct PacketBackend {
    name: String,
    monitor: Monitor,
    link: HostLink,
    socket: Option<OwnedFd>,
    /// In a fanout group: the socket of ARP and neighbour discovery.
    neighbours: Option<OwnedFd>,
    fanout: Option<u16>,
    /// Why there is none, though there could be.
    error: Option<io::Error>,
    poll: Poll,
    incoming: Incoming,
    outgoing: Outgoing,
    full: bool,
    lost: u64,
    mtu: u32,
}

impl PacketBackend {
    /// Opens the interface of this name.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(name: &str) -> Result<PacketBackend, Error> {
        PacketBackend::open_with(name, None)
    }

    /// The same as a member of the fanout group of this number, of which those are members that
    /// open the same interface with the same number.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open_fanout(name: &str, group: u16) -> Result<PacketBackend, Error> {
        PacketBackend::open_with(name, Some(group))
    }

    fn open_with(name: &str, fanout: Option<u16>) -> Result<PacketBackend, Error> {
        let fail = |error: io::Error| {
            let why = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "; packets of the host's interfaces take CAP_NET_RAW: run it as root, or make a TAP device \
                     (tap:NAME) that belongs to you"
                }
                Some(libc::ENODEV) => "; ip link shows those that there are",
                Some(libc::EINVAL) if fanout.is_some() => {
                    "; another program has a fanout group of this number, of another kind: take another one"
                }
                _ => "",
            };
            Error::Uplink(format!("the uplink interface:{name}: {error}{why}"))
        };
        let monitor = Monitor::new(name).map_err(fail)?;
        let mut backend = PacketBackend {
            name: name.to_owned(),
            mtu: monitor.mtu().map_err(fail)?,
            monitor,
            neighbours: None,
            fanout,
            link: HostLink::Missing,
            socket: None,
            error: None,
            poll: Poll::new().map_err(fail)?,
            incoming: Incoming::new(),
            outgoing: Outgoing::new(0),
            full: false,
            lost: 0,
        };
        backend.poll.add(&backend.monitor, INPUT).map_err(fail)?;
        backend.follow(backend.monitor.now());
        match backend.error.take() {
            Some(error) => Err(fail(error)),
            None => Ok(backend),
        }
    }

    /// The interface has become this.
    fn follow(&mut self, link: HostLink) {
        let index = |link| match link {
            HostLink::Missing => None,
            HostLink::Down(index) | HostLink::Up { index, .. } => Some(index),
        };
        let before = index(self.link);
        self.link = link;
        if index(link) == before && self.socket.is_some() {
            return;
        }
        self.socket = None;
        self.full = false;
        self.lost += self.outgoing.forget() as u64;
        let Some(index) = index(link) else {
            return;
        };
        self.neighbours = None;
        let open = |share| {
            let socket = open(index, share)?;
            self.poll.add(&socket, INPUT)?;
            Ok(socket)
        };
        let opened = match self.fanout {
            None => open(Share::All).map(|socket| (socket, None)),
            Some(group) => open(Share::Flows(group))
                .and_then(|flows| Ok((flows, Some(open(Share::Neighbours)?)))),
        };
        match opened {
            Ok((socket, neighbours)) => {
                (self.socket, self.neighbours) = (Some(socket), neighbours);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
    }
}

impl Backend for PacketBackend {
    fn offloads(&self) -> Offloads {
        // Not UDP's: hosts before Linux 6.2 would refuse such packets.
        Offloads::Tcp
    }

    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        if let Some(link) = self.monitor.news() {
            self.follow(link);
        }
        let name = &self.name;
        match (self.link, &self.error) {
            (HostLink::Missing, _) => {
                LinkState::Down(format!("the host's interface {name} is gone"))
            }
            (_, Some(error)) => LinkState::Down(format!("the host's interface {name}: {error}")),
            (HostLink::Down(_), _) => LinkState::Down(format!(
                "the host's interface {name} is down: ip link set {name} up"
            )),
            (HostLink::Up { carrier: false, .. }, _) => {
                LinkState::Down(format!("the host's interface {name} has no carrier"))
            }
            _ => LinkState::Up,
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        for socket in [&self.socket, &self.neighbours].into_iter().flatten() {
            let lost = &mut self.lost;
            let received = self.incoming.receive(socket, |datagram| {
                match frame(datagram) {
                    Some(frame) => deliver(frame)?,
                    None => *lost += 1,
                }
                Ok(())
            })?;
            match received {
                Ok(0) => {}
                // More may be there; more may have been than there was room for.
                Ok(_) => *lost += missed(socket),
                // That the interface is down is told by the monitor.
                Err(_) => {}
            }
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.outgoing.room()
    }

    fn put(&mut self, length: usize) {
        self.outgoing.put(length);
    }

    fn flush(&mut self) -> bool {
        let Some(socket) = &self.socket else {
            self.lost += self.outgoing.forget() as u64;
            return false;
        };
        // ENOBUFS: the interface's queue is full. Anything else is told by the monitor, too.
        let full = !self.outgoing.send(socket, |_| self.lost += 1);
        if full != self.full {
            self.full = full;
            let events = if full { ROOM } else { INPUT };
            self.error = self.poll.change(socket, events).err();
        }
        false
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn is_gone(&self) -> bool {
        self.link == HostLink::Missing || self.error.is_some()
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }
}

/// Which frames a socket receives.
#[derive(Clone, Copy)]
enum Share {
    All,
    /// Of flows, the share of a member of this group.
    Flows(u16),
    /// ARP, and ICMPv6's neighbour discovery.
    Neighbours,
}

/// A packet socket that receives what the interface of this index does, as frames with a header.
fn open(index: u32, share: Share) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    match share {
        Share::All => {}
        Share::Flows(_) => attach_filter(&socket, false)?,
        Share::Neighbours => attach_filter(&socket, true)?,
    }
    take_all(&socket, index)?;
    bind(&socket, libc::ETH_P_ALL, index)?;
    if let Share::Flows(group) = share {
        // By the hash of a flow, the same in both directions, after fragments were put together.
        const HOW: u32 = libc::PACKET_FANOUT_HASH
            | libc::PACKET_FANOUT_FLAG_DEFRAG
            | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let fanout = u32::from(group) | HOW << 16;
        set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            fanout as i32,
        )?;
    }
    Ok(socket)
}

/// Has the interface take frames for any address, as long as the socket is there.
fn take_all(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let everything = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let (level, which) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
    set_option(socket, level, which, everything)
}

/// A socket that does nothing but have the interface of this index take frames for any address.
pub(crate) fn promiscuous(index: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    take_all(&socket, index)?;
    Ok(socket)
}

/// A packet socket of whole frames with a header, which receives nothing until it is bound.
pub(crate) fn unbound() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    // As large as allowed, or larger by CAP_NET_ADMIN.
    for (plain, forced) in [
        (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
    ] {
        if set_option(&socket, libc::SOL_SOCKET, forced, SOCKET_BUFFER).is_err() {
            set_option(&socket, libc::SOL_SOCKET, plain, SOCKET_BUFFER)?;
        }
    }
    Ok(socket)
}

/// Has a packet socket receive this protocol (`ETH_P_*`) at the interface of this index; 0: at all.
pub(crate) fn bind(socket: &OwnedFd, protocol: i32, index: u32) -> io::Result<()> {
    let mut address = libc::sockaddr_ll::zeroed();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: an address of this length.
    let bound = unsafe {
        let length = size_of_val(&address) as u32;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    match bound {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Of linux/if_packet.h.
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000;

/// Has a socket receive only frames of ARP and neighbour discovery, or all others.
fn attach_filter(socket: &OwnedFd, neighbours: bool) -> io::Result<()> {
    let [of_them, others] = match neighbours {
        true => [WHOLE, NOTHING],
        false => [NOTHING, WHOLE],
    };
    let mut program = [
        // The type of what Ethernet carries; IPv6's next header; ICMPv6's type.
        step(HALF, 12, 0, 0),
        step(EQUAL, libc::ETH_P_ARP as u32, 6, 0),
        step(EQUAL, libc::ETH_P_IPV6 as u32, 0, 6),
        step(BYTE, 14 + 6, 0, 0),
        step(EQUAL, libc::IPPROTO_ICMPV6 as u32, 0, 4),
        step(BYTE, 14 + 40, 0, 0),
        step(AT_LEAST, 133, 0, 2),
        step(GREATER, 137, 1, 0),
        step(RETURN, of_them, 0, 0),
        step(RETURN, others, 0, 0),
    ];
    attach(socket, &mut program)
}

/// Frames that the socket had no room for, since this was last asked.
pub(crate) fn missed(socket: &OwnedFd) -> u64 {
    // struct tpacket_stats: packets, and those dropped.
    let (level, which) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    let counters = option::<[u32; 2]>(socket.as_raw_fd(), level, which);
    counters.map_or(0, |[_, dropped]| dropped.into())
}

/// What has come, as a frame behind its header, with the VLAN tag that the host has taken out of
/// it. `None`: there is not enough of it.
fn frame(datagram: Datagram<'_>) -> Option<&[u8]> {
    const ADDRESSES: usize = 12;
    let Datagram {
        bytes,
        control,
        cut,
        ..
    } = datagram;
    if cut || bytes.len() < FRONT + HEADER + ADDRESSES + 2 {
        return None;
    }
    let Some([kind, tag]) = tag(control) else {
        return Some(&bytes[FRONT..]);
    };
    let start = FRONT - 4;
    let before = HEADER + ADDRESSES;
    bytes.copy_within(FRONT..FRONT + before, start);
    bytes[start + before..][..2].copy_from_slice(&kind.to_be_bytes());
    bytes[start + before + 2..][..2].copy_from_slice(&tag.to_be_bytes());
    // Where things are in the frame: how long all headers are, and where the checksum starts.
    let header = &mut bytes[start..][..HEADER];
    for at in [2, 6] {
        let place = u16::from_ne_bytes([header[at], header[at + 1]]);
        if place > 0 {
            header[at..at + 2].copy_from_slice(&(place + 4).to_ne_bytes());
        }
    }
    Some(&bytes[start..])
}

/// Protocol and contents of a VLAN tag, if the control messages have one.
fn tag(control: &[u8]) -> Option<[u16; 2]> {
    // struct cmsghdr: length, level, type; then struct tpacket_auxdata.
    let word = |at: usize| {
        let bytes = control.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let half = |at: usize| {
        let bytes = control.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_ne_bytes(bytes))
    };
    let kind = [word(8)? as i32, word(12)? as i32];
    let status = word(16)?;
    if kind != [libc::SOL_PACKET, libc::PACKET_AUXDATA] || status & TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let protocol = match status & TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => half(34)?,
    };
    Some([protocol, half(32)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control message with this status, tag and protocol.
    fn control(status: u32, tag: u16, protocol: u16) -> Vec<u8> {
        let mut bytes = 36u64.to_ne_bytes().to_vec();
        bytes.extend(libc::SOL_PACKET.to_ne_bytes());
        bytes.extend(libc::PACKET_AUXDATA.to_ne_bytes());
        bytes.extend(status.to_ne_bytes());
        bytes.extend([0; 12]);
        bytes.extend(tag.to_ne_bytes());
        bytes.extend(protocol.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_tag_goes_back_into_its_frame() {
        let valid = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
        let control = control(valid, 7, 0x88a8);
        let mut bytes = vec![0; FRONT];
        // Needs a checksum from byte 34 on.
        bytes.extend([1, 0, 0, 0, 0, 0]);
        bytes.extend(34u16.to_ne_bytes());
        bytes.extend(16u16.to_ne_bytes());
        bytes.extend(1..=12);
        bytes.extend([8, 0, 0x45]);
        fn datagram<'a>(bytes: &'a mut [u8], control: &'a [u8]) -> Datagram<'a> {
            Datagram {
                bytes,
                control,
                cut: false,
                name: &[],
            }
        }
        let plain = bytes.clone();
        let untagged = frame(datagram(&mut bytes, &[])).expect("a frame").to_vec();
        assert_eq!(untagged, plain[FRONT..]);
        let tagged = frame(datagram(&mut bytes, &control)).expect("a frame");
        assert_eq!(tagged.len(), untagged.len() + 4);
        assert_eq!(tagged[6..8], 38u16.to_ne_bytes());
        assert_eq!(tagged[2..4], [0, 0]);
        assert_eq!(tagged[10..22], untagged[10..22]);
        assert_eq!(tagged[22..], [0x88, 0xa8, 0, 7, 8, 0, 0x45]);
        assert!(frame(datagram(&mut bytes[..FRONT + 20], &control)).is_none());
    }
}
