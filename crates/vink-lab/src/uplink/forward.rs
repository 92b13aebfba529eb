//! Ports of the host that lead to ports of a machine, and how they are written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::str::FromStr;

use crate::Error;

/// A port of the host that leads to a port of a machine: `[ADDRESS:]PORT:PORT[/tcp|/udp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The host's address; `None`: all.
    pub address: Option<IpAddr>,
    /// The host's port.
    pub host: u16,
    /// The machine's port.
    pub machine: u16,
    /// UDP rather than TCP.
    pub udp: bool,
}

impl Forward {
    /// As passt's `-t` and `-u` want it.
    pub(crate) fn argument(&self) -> String {
        let address = self.address.map_or(String::new(), |a| format!("{a}/"));
        format!("{address}{}:{}", self.host, self.machine)
    }

    /// Whether the host's port is free. passt is content with one of several addresses.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let all = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let addresses = match &self.address {
            Some(address) => std::slice::from_ref(address),
            None => &all[..],
        };
        for address in addresses {
            let socket = SocketAddr::new(*address, self.host);
            let bound = match self.udp {
                true => UdpSocket::bind(socket).map(drop),
                false => TcpListener::bind(socket).map(drop),
            };
            match bound {
                Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
                    return Err(Error::Uplink(format!(
                        "forwarding {self}: another program has the host's port {}",
                        self.host
                    )))
                }
                // Whatever else is wrong passt knows better: it is another user, perhaps.
                _ => {}
            }
        }
        Ok(())
    }
}

impl FromStr for Forward {
    type Err = Error;

    fn from_str(text: &str) -> Result<Forward, Error> {
        let bad = || Error::Forward {
            text: text.to_owned(),
        };
        let (rest, udp) = match text.rsplit_once('/') {
            Some((rest, "udp")) => (rest, true),
            Some((rest, "tcp")) => (rest, false),
            Some(_) => return Err(bad()),
            None => (text, false),
        };
        let (rest, machine) = rest.rsplit_once(':').ok_or_else(bad)?;
        let (address, host) = match rest.rsplit_once(':') {
            Some((address, host)) => (Some(address), host),
            None => (None, rest),
        };
        let address = match address {
            Some(text) => {
                let plain = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
                let address: IpAddr = plain.unwrap_or(text).parse().map_err(|_| bad())?;
                if address.is_ipv6() != plain.is_some() {
                    return Err(bad());
                }
                Some(address)
            }
            None => None,
        };
        let port = |text: &str| match text.parse::<u16>() {
            Ok(port) if port > 0 && !text.starts_with('+') => Ok(port),
            _ => Err(bad()),
        };
        Ok(Forward {
            address,
            host: port(host)?,
            machine: port(machine)?,
            udp,
        })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            None => {}
        }
        write!(f, "{}:{}", self.host, self.machine)?;
        f.write_str(if self.udp { "/udp" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in [
            "8080:80",
            "127.0.0.1:8080:80",
            "[::1]:8080:80",
            "5353:53/udp",
            "10.0.0.1:5353:53/udp",
        ] {
            let forward: Forward = text.parse().expect(text);
            assert_eq!(forward.to_string(), text);
        }
        let forward: Forward = "127.0.0.1:8080:80/tcp".parse().expect("tcp");
        assert_eq!(forward.argument(), "127.0.0.1/8080:80");
        assert_eq!(
            (forward.host, forward.machine, forward.udp),
            (8080, 80, false)
        );
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "80",
            ":80",
            "80:",
            "0:80",
            "80:65536",
            "80:+80",
            "80:80/sctp",
            "::1:80:80",
            "[127.0.0.1]:80:80",
            "host:80:80",
            "1:2:3:4",
        ] {
            let error = text.parse::<Forward>().expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn a_port_that_is_taken() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        for text in [format!("127.0.0.1:{port}:80"), format!("{port}:80")] {
            let forward: Forward = text.parse().expect("a forward");
            let error = forward.check().expect_err("taken").to_string();
            assert!(error.contains(&format!("port {port}")), "{error}");
        }
        drop(taken);
        let udp: Forward = format!("127.0.0.1:{port}:80/udp").parse().expect("udp");
        udp.check().expect("free");
    }
}
