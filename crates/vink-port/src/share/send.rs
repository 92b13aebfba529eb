//! Sends packets with the headers that they have, by the host's routes and neighbours: raw(7),
//! `IP_HDRINCL`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;

use vink_sys::plain::Zeroed;
use vink_sys::rustix::net::{bind, ipproto, socket_with, AddressFamily, SocketFlags, SocketType};
use vink_sys::socket::set_option;

/// Packets of one call.
const COUNT: usize = 64;
/// Bytes that wait, at most, beside the last packet.
const BYTES: usize = 256 << 10;
/// Size of the socket's buffer in bytes.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// Packets of one sender that wait to be sent, and their socket.
pub struct Sender {
    from: IpAddr,
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// Where each ends, and its receiver. The first `sent` are gone.
    packets: Vec<(usize, IpAddr)>,
    sent: usize,
}

/// Why a packet was not sent, as a router would tell its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// It is longer than this, in bytes.
    TooBig(u32),
    /// There is no route.
    NoRoute,
    /// For another reason.
    Lost,
}

impl Sender {
    /// Of packets of this sender, by which the host chooses their routes.
    ///
    /// # Errors
    /// As socket(2), raw(7): it takes `CAP_NET_RAW`.
    pub fn open(address: IpAddr) -> io::Result<Sender> {
        let is_v4 = address.is_ipv4();
        let family = match is_v4 {
            true => AddressFamily::INET,
            false => AddressFamily::INET6,
        };
        // Of this protocol it receives nothing, and headers come with packets.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::RAW, flags, Some(ipproto::RAW))?;
        let (level, option) = match is_v4 {
            true => (libc::IPPROTO_IP, libc::IP_RECVERR),
            false => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        };
        // Tells how long a packet may be.
        set_option(&socket, level, option, 1)?;
        for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
            // As large as allowed, or larger by CAP_NET_ADMIN.
            let _ = set_option(&socket, libc::SOL_SOCKET, option, SOCKET_BUFFER);
        }
        bind(&socket, &SocketAddr::new(address, 0))?;
        Ok(Sender {
            from: address,
            socket,
            bytes: Vec::new(),
            packets: Vec::new(),
            sent: 0,
        })
    }

    /// Whether it sends packets of this sender.
    pub fn is_of(&self, from: IpAddr) -> bool {
        self.from == from
    }

    /// Readable when there is room again.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether no more should be put now.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= COUNT || self.bytes.len() >= BYTES
    }

    /// Puts a packet to the others.
    pub fn put(&mut self, packet: &[u8], to: IpAddr) {
        self.bytes.extend_from_slice(packet);
        self.packets.push((self.bytes.len(), to));
    }

    fn packet(&self, n: usize) -> (&[u8], IpAddr) {
        let start = n.checked_sub(1).map_or(0, |before| self.packets[before].0);
        let (end, to) = self.packets[n];
        (&self.bytes[start..end], to)
    }

    /// Sends all that has been put. False if the host has no room for it now. What it does not take
    /// for another reason is gone: the packet and the reason are told.
    pub fn flush(&mut self, mut unsent: impl FnMut(&[u8], Unsent)) -> bool {
        while self.sent < self.packets.len() {
            match self.send() {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => {
                    let why = match error.raw_os_error() {
                        Some(libc::EMSGSIZE) => self.limit().map_or(Unsent::Lost, Unsent::TooBig),
                        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => Unsent::NoRoute,
                        _ => Unsent::Lost,
                    };
                    unsent(self.packet(self.sent).0, why);
                    self.sent += 1;
                }
            }
        }
        self.bytes.clear();
        self.packets.clear();
        self.sent = 0;
        true
    }

    /// Sends some; how many.
    fn send(&self) -> io::Result<usize> {
        let left = self.packets.len() - self.sent;
        let count = left.min(COUNT);
        let mut messages = [libc::mmsghdr::zeroed(); COUNT];
        let mut vectors = [libc::iovec {
            iov_base: null_mut(),
            iov_len: 0,
        }; COUNT];
        let mut names = [libc::sockaddr_in6::zeroed(); COUNT];
        for n in 0..count {
            let (bytes, to) = self.packet(self.sent + n);
            vectors[n].iov_base = bytes.as_ptr().cast_mut().cast();
            vectors[n].iov_len = bytes.len();
            let length = name(&mut names[n], to);
            let header = &mut messages[n].msg_hdr;
            header.msg_iov = &mut vectors[n];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut names[n]).cast();
            header.msg_namelen = length as u32;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: that many messages, whose names, vectors and bytes live here.
        let sent = unsafe {
            let first = messages.as_mut_ptr();
            libc::sendmmsg(self.socket.as_raw_fd(), first, count as u32, flags as _)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// The length that the last packet was too long for: ip(7), `IP_RECVERR`.
    fn limit(&self) -> Option<u32> {
        let mut found = None;
        loop {
            let mut control = [0u64; 32];
            let mut header = libc::msghdr::zeroed();
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control);
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: a header whose buffer lives here.
            let got = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut header, flags) };
            if got < 0 {
                return found;
            }
            // struct cmsghdr of 16 bytes; of struct sock_extended_err, ee_errno and ee_info.
            let [error, info] = [control[2] as u32, control[3] as u32];
            if error == libc::EMSGSIZE as u32 {
                found = Some(info);
            }
        }
    }
}

/// Writes an address, whose place is as large as any; its length.
fn name(place: &mut libc::sockaddr_in6, to: IpAddr) -> usize {
    match to {
        IpAddr::V4(a) => {
            let mut v4 = libc::sockaddr_in::zeroed();
            v4.sin_family = libc::AF_INET as u16;
            v4.sin_addr.s_addr = u32::from_ne_bytes(a.octets());
            // SAFETY: it is shorter, and of integers.
            unsafe { (&raw mut *place).cast::<libc::sockaddr_in>().write(v4) };
            size_of_val(&v4)
        }
        IpAddr::V6(a) => {
            place.sin6_family = libc::AF_INET6 as u16;
            place.sin6_addr.s6_addr = a.octets();
            size_of::<libc::sockaddr_in6>()
        }
    }
}
