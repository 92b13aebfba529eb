//! Addresses as people write them, and as socket calls want them.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::{Calls, Names};

/// Where an app is told to go: `10.0.0.1`, `fe80::1%eth0`, or a name of the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it was given.
    pub text: String,
    /// Its address.
    pub address: IpAddr,
    /// The interface of a link-local address.
    interface: Option<String>,
}

impl Target {
    /// Understands an address, or looks a name up: its first address, of the wanted family if there
    /// is one (`Some(true)`: IPv6).
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str, names: &Names, ipv6: Option<bool>) -> Result<Target, String> {
        let wanted = |a: &&IpAddr| ipv6.is_none_or(|six| six == a.is_ipv6());
        let (bare, interface) = match text.split_once('%') {
            Some((bare, interface)) => (bare, Some(interface.to_owned())),
            None => (text, None),
        };
        let known = match bare.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => names
                .addresses(text)
                .ok_or_else(|| format!("'{text}' is neither an address nor a name of this lab"))?,
        };
        let family = match ipv6 {
            Some(true) => "IPv6 ",
            Some(false) => "IPv4 ",
            None => "",
        };
        let address = known.iter().find(wanted).copied();
        Ok(Target {
            text: text.to_owned(),
            address: address.ok_or_else(|| format!("'{text}' has no {family}address"))?,
            interface,
        })
    }

    /// With a port, for socket calls. Asks the machine for the interface's index.
    ///
    /// # Errors
    /// `ENODEV`: the machine has no such interface.
    pub fn at(&self, calls: &Calls<'_>, port: u16) -> io::Result<SocketAddr> {
        Ok(match (self.address, &self.interface) {
            (IpAddr::V6(address), Some(name)) => {
                let index = calls.interface_index(name)?;
                SocketAddrV6::new(address, port, 0, index).into()
            }
            (address, _) => SocketAddr::new(address, port),
        })
    }
}

/// The bytes of any `struct sockaddr_*` of IPv4 or IPv6, as the kernel reads and writes it: the
/// family and the port, then an IPv4 address, or what IPv6 calls flow, an address and an interface.
#[repr(C, align(4))]
#[derive(Clone, Copy, Default)]
pub(crate) struct Raw([u8; size_of::<libc::sockaddr_in6>()]);

impl Raw {
    /// The structure, and how many bytes of it count.
    pub fn new(address: SocketAddr) -> (Raw, u32) {
        let mut raw = Raw::default();
        raw.0[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, size) = match address {
            SocketAddr::V4(a) => {
                raw.0[4..8].copy_from_slice(&a.ip().octets());
                (libc::AF_INET, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(a) => {
                raw.0[4..8].copy_from_slice(&a.flowinfo().to_ne_bytes());
                raw.0[8..24].copy_from_slice(&a.ip().octets());
                raw.0[24..].copy_from_slice(&a.scope_id().to_ne_bytes());
                (libc::AF_INET6, size_of::<libc::sockaddr_in6>())
            }
        };
        raw.0[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        (raw, size as u32)
    }

    /// What the kernel has filled in. An IPv4 address that an IPv6 socket has to do with is shown
    /// as IPv4's. `EAFNOSUPPORT` for other families.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let port = u16::from_be_bytes(self.part(2));
        match u16::from_ne_bytes(self.part(0)).into() {
            libc::AF_INET => Ok((self.part::<4>(4), port).into()),
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.part::<16>(8));
                let [flow, interface] = [4, 24].map(|at| u32::from_ne_bytes(self.part(at)));
                Ok(match ip.to_ipv4_mapped() {
                    Some(ip) => (ip, port).into(),
                    None => SocketAddrV6::new(ip, port, flow, interface).into(),
                })
            }
            _ => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|n| self.0[at + n])
    }
}
