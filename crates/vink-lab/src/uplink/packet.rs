//! An interface of the host as the host's side of an uplink: what it receives is the machine's, and
//! it sends what the machine does, by a packet socket (packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use vink_sys::plain::Zeroed;
use vink_sys::rustix::net::{socket_with, AddressFamily, SocketFlags, SocketType};
use vink_sys::socket::{option, set_option};

use super::backend::{Backend, Deliver, LinkState, Offloads, HEADER};
use super::batch::{Datagram, Incoming, Outgoing, FRONT};
use super::monitor::{mtu, HostLink, Monitor};
use super::poll::{Poll, INPUT, ROOM};
use crate::Error;

/// Size of the socket's buffers in bytes, each way, as far as the host allows.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// Of linux/if_packet.h.
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// Follows the interface: there is a socket as long as it is up.
pub(crate) struct PacketBackend {
    name: String,
    monitor: Monitor,
    link: HostLink,
    socket: Option<OwnedFd>,
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
    pub(crate) fn open(name: &str) -> Result<PacketBackend, Error> {
        let fail = |error: io::Error| {
            let why = match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    "; packets of the host's interfaces take CAP_NET_RAW: run it as root, or make a TAP device \
                     (tap:NAME) that belongs to you"
                }
                Some(libc::ENODEV) => "; ip link shows those that there are",
                _ => "",
            };
            Error::Uplink(format!("the uplink interface:{name}: {error}{why}"))
        };
        let mut backend = PacketBackend {
            name: name.to_owned(),
            monitor: Monitor::new(name).map_err(fail)?,
            link: HostLink::Missing,
            socket: None,
            error: None,
            poll: Poll::new().map_err(fail)?,
            incoming: Incoming::new(),
            outgoing: Outgoing::new(0),
            full: false,
            lost: 0,
            mtu: mtu(name).map_err(fail)?,
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
        let opened = open(index).and_then(|socket| {
            self.poll.add(&socket, INPUT)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => (self.socket, self.error) = (Some(socket), None),
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

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, vink_kernel::Error> {
        let Some(socket) = &self.socket else {
            return Ok(false);
        };
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

    fn mtu(&self) -> u32 {
        self.mtu
    }
}

/// A packet socket that receives all that the interface of this index does, as frames with a
/// header.
fn open(index: u32) -> io::Result<OwnedFd> {
    // Of no protocol: until it is bound it receives nothing.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
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
    let everything = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let level = libc::SOL_PACKET;
    set_option(&socket, level, libc::PACKET_ADD_MEMBERSHIP, everything)?;
    let mut address = libc::sockaddr_ll::zeroed();
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: an address of this length.
    let bound = unsafe {
        let length = size_of_val(&address) as u32;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    match bound {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Frames that the socket had no room for, since this was last asked.
fn missed(socket: &OwnedFd) -> u64 {
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
