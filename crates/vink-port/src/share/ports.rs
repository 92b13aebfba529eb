//! The port server: ports of the host that are held by sockets which are bound and do nothing else,
//! so that neither the host's stack nor its programs use them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use vink_sys::process::{limit, set_limit};
use vink_sys::rustix::net::{bind, ipproto, socket_with, AddressFamily, SocketFlags, SocketType};

use super::guard::Protocol;

/// A set of ports of a protocol.
#[derive(Clone)]
pub struct PortSet(Box<[u64; 1024]>);

impl PortSet {
    pub fn new() -> PortSet {
        PortSet(Box::new([0; 1024]))
    }

    pub fn insert(&mut self, port: u16) {
        self.0[usize::from(port >> 6)] |= 1 << (port & 63);
    }

    pub fn remove(&mut self, port: u16) {
        self.0[usize::from(port >> 6)] &= !(1 << (port & 63));
    }

    pub fn has(&self, port: u16) -> bool {
        self.0[usize::from(port >> 6)] >> (port & 63) & 1 != 0
    }

    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..=u16::MAX).filter(|port| self.has(*port))
    }

    /// The first and the last of each run.
    pub fn runs(&self) -> Vec<(u16, u16)> {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for port in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == port => *last = port,
                _ => runs.push((port, port)),
            }
        }
        runs
    }
}

/// Ports of the host that are reserved as long as this is there.
pub struct Reserved {
    addresses: Vec<IpAddr>,
    tcp: PortSet,
    udp: PortSet,
    /// None of a port that another process holds.
    sockets: HashMap<(Protocol, u16), Vec<OwnedFd>>,
}

impl Reserved {
    /// None yet, at these addresses of the host's.
    pub fn new(addresses: &[IpAddr]) -> Reserved {
        raise_limit();
        Reserved {
            addresses: addresses.to_vec(),
            tcp: PortSet::new(),
            udp: PortSet::new(),
            sockets: HashMap::new(),
        }
    }

    /// The same ports for another process, which does not hold them.
    pub fn known(&self) -> Reserved {
        Reserved {
            addresses: self.addresses.clone(),
            tcp: self.tcp.clone(),
            udp: self.udp.clone(),
            sockets: HashMap::new(),
        }
    }

    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    pub fn of(&self, protocol: Protocol) -> &PortSet {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
        }
    }

    /// Reserves a port for these protocols at all addresses, or not at all.
    ///
    /// # Errors
    /// As bind(2), with the address: `EADDRINUSE`, if the host uses it; `EADDRNOTAVAIL`, if the address
    /// is not the host's.
    pub fn reserve(
        &mut self,
        port: u16,
        protocols: &[Protocol],
    ) -> Result<(), (SocketAddr, io::Error)> {
        let mut all = Vec::new();
        for protocol in protocols {
            let mut sockets = Vec::new();
            for address in &self.addresses {
                let address = SocketAddr::new(*address, port);
                let held = hold(address, *protocol);
                sockets.push(held.map_err(|error| (address, error))?);
            }
            all.push(((*protocol, port), sockets));
        }
        self.sockets.extend(all);
        for protocol in protocols {
            self.set(*protocol, port, true);
        }
        Ok(())
    }

    /// Reserves it no more.
    pub fn release(&mut self, port: u16, protocol: Protocol) {
        self.set(protocol, port, false);
        self.sockets.remove(&(protocol, port));
    }

    /// Whether it counts as reserved from now on. If another process holds it, this one only knows.
    pub fn set(&mut self, protocol: Protocol, port: u16, reserved: bool) {
        let set = match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
        };
        match reserved {
            true => set.insert(port),
            false => set.remove(port),
        }
    }
}

/// Binds a socket. It never listens and never receives.
fn hold(address: SocketAddr, protocol: Protocol) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let (kind, protocol) = match protocol {
        Protocol::Tcp => (SocketType::STREAM, ipproto::TCP),
        Protocol::Udp => (SocketType::DGRAM, ipproto::UDP),
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol))?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// As many descriptors as this process may have.
fn raise_limit() {
    if let Ok(mut files) = limit(0, libc::RLIMIT_NOFILE) {
        files.rlim_cur = files.rlim_max;
        // Fewer may be enough; else the host says so.
        let _ = set_limit(0, libc::RLIMIT_NOFILE, &files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    #[test]
    fn runs() {
        let mut set = PortSet::new();
        for port in [1, 2, 3, 80, 65534, 65535] {
            set.insert(port);
        }
        assert_eq!(set.runs(), [(1, 3), (80, 80), (65534, 65535)]);
        assert!(set.has(80) && !set.has(81));
        set.remove(2);
        assert_eq!(set.runs(), [(1, 1), (3, 3), (80, 80), (65534, 65535)]);
    }

    #[test]
    fn a_reserved_port_is_no_one_elses() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listener = TcpListener::bind((here, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let mut reserved = Reserved::new(&[here]);
        let both = [Protocol::Udp, Protocol::Tcp];
        let (address, error) = reserved.reserve(port, &both).expect_err("it is used");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(address.port(), port);
        // Nothing of it is held.
        drop(UdpSocket::bind((here, port)).expect("free"));
        drop(listener);
        reserved.reserve(port, &both).expect("free");
        assert!(TcpListener::bind((here, port)).is_err());
        assert!(UdpSocket::bind((here, port)).is_err());
        reserved.release(port, Protocol::Tcp);
        drop(TcpListener::bind((here, port)).expect("free"));
        assert!(UdpSocket::bind((here, port)).is_err());
        drop(reserved);
        UdpSocket::bind((here, port)).expect("free again");
    }
}
