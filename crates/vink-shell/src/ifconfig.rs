//! Lines of ifconfig(8) that give or take an address: the lab carries these out, so that it knows
//! of the address.
//!
//! All other lines of ifconfig, and all of route(8), are for the host's net-tools.

use std::net::Ipv4Addr;

use ipnet::IpNet;

/// An interface's address that is given or taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ifconfig {
    /// The interface's name.
    pub interface: String,
    /// The address with its network.
    pub address: IpNet,
    /// Takes it away.
    pub remove: bool,
}

impl Ifconfig {
    /// Reads the words behind `ifconfig`: `IF [inet] ADDRESS [netmask MASK] [up]` or
    /// `IF inet6 add|del ADDRESS/PREFIX`. `None`: a line that does something else, or more.
    pub(crate) fn read(words: &[&str]) -> Option<Ifconfig> {
        let (interface, words) = words.split_first()?;
        let new = |address, remove| Ifconfig {
            interface: (*interface).to_owned(),
            address,
            remove,
        };
        if let ["inet6", action @ ("add" | "del"), address] = *words {
            let address = address.parse().ok()?;
            return matches!(address, IpNet::V6(_)).then(|| new(address, action == "del"));
        }
        let words = words.strip_prefix(&["inet"]).unwrap_or(words);
        let (address, mut options) = words.split_first()?;
        let (address, prefix) = match address.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
            None => (*address, None),
        };
        let address: Ipv4Addr = address.parse().ok()?;
        let mut prefix = prefix.unwrap_or_else(|| classful(address));
        loop {
            options = match *options {
                ["netmask", given, ref rest @ ..] => {
                    prefix = mask(given)?;
                    rest
                }
                ["up", ref rest @ ..] => rest,
                // The kernel's own is as good.
                ["broadcast", _, ref rest @ ..] => rest,
                [] => return Some(new(IpNet::new(address.into(), prefix).ok()?, false)),
                _ => return None,
            };
        }
    }
}

/// The prefix that ifconfig(8) takes without a netmask: that of the address's class.
fn classful(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

/// The bits of a mask, whose ones must come first.
fn mask(text: &str) -> Option<u8> {
    let mask = u32::from(text.parse::<Ipv4Addr>().ok()?);
    (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Ifconfig> {
        Ifconfig::read(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn addresses() {
        for (line, address, remove) in [
            (
                "vx0 inet 128.84.254.1 netmask 255.255.255.0",
                "128.84.254.1/24",
                false,
            ),
            ("vx0 128.84.254.1 up", "128.84.254.1/16", false),
            ("vx0 192.168.7.1", "192.168.7.1/24", false),
            ("vx0 10.0.0.1/30", "10.0.0.1/30", false),
            (
                "vx0 10.0.0.1 broadcast 10.0.0.255 netmask 255.255.255.0",
                "10.0.0.1/24",
                false,
            ),
            ("vx0 inet6 add fd00::1/64", "fd00::1/64", false),
            ("vx0 inet6 del fd00::1/64", "fd00::1/64", true),
        ] {
            let expected = Ifconfig {
                interface: "vx0".to_owned(),
                address: address.parse().expect("an address"),
                remove,
            };
            assert_eq!(read(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn all_else_is_for_the_hosts() {
        for line in [
            "",
            "-a",
            "vx0",
            "vx0 up",
            "vx0 inet",
            "vx0 10.0.0",
            "vx0 10.0.0.1/33",
            "vx0 10.0.0.1 netmask",
            "vx0 10.0.0.1 netmask 255.0.255.0",
            "vx0 10.0.0.1 promisc",
            "vx0 10.0.0.1 | cat",
            "vx0 inet6 add 10.0.0.1/8",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
