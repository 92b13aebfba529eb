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

/// Any `struct sockaddr_*` of IPv4 or IPv6, as the kernel reads and writes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Raw {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Raw {
    /// To be filled by the kernel.
    pub fn empty() -> Raw {
        // SAFETY: plain numbers, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }

    /// The structure, and how many bytes of it count.
    pub fn new(address: SocketAddr) -> (Raw, u32) {
        let mut raw = Raw::empty();
        let size = match address {
            SocketAddr::V4(a) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(a.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(a) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: a.ip().octets(),
                    },
                    sin6_scope_id: a.scope_id(),
                };
                size_of::<libc::sockaddr_in6>()
            }
        };
        (raw, size as u32)
    }

    /// What the kernel has filled in. An IPv4 address that an IPv6 socket has to do with is shown
    /// as IPv4's. `EAFNOSUPPORT` for other families.
    pub fn address(&self) -> io::Result<SocketAddr> {
        // SAFETY: all variants begin with the family, and are plain numbers of which any value is
        // one.
        let (family, v4, v6) = unsafe { (self.family, self.v4, self.v6) };
        match i32::from(family) {
            libc::AF_INET => {
                let ip = v4.sin_addr.s_addr.to_ne_bytes();
                Ok((ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(match ip.to_ipv4_mapped() {
                    Some(ip) => (ip, port).into(),
                    None => SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
                })
            }
            _ => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }
}
