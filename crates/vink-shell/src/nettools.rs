//! `ifconfig` and `route` in the switch box's own hands, for hosts without net-tools.
//!
//! What teaching material and the ENTRAPID paper use of ifconfig(8) and route(8) is understood; the rest is
//! said to need the programs themselves.

use std::net::Ipv4Addr;

use ipnet::IpNet;

use crate::Mistake;

/// What a line of ifconfig or route does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetTool {
    /// Shows an interface, or all.
    ShowInterfaces(Option<String>),
    /// Gives an interface an address, or takes it away.
    Address {
        /// Which.
        interface: String,
        /// The address with its network.
        address: IpNet,
        /// Takes it away.
        remove: bool,
    },
    /// What `route` does, ip(8) does too.
    Ip(Vec<String>),
    /// Nothing is to be done: an interface is up as soon as it is there.
    Nothing,
}

/// Understands the words of a line that begins with `ifconfig` or `route`.
///
/// # Errors
/// What of it is beyond this translation.
pub fn translate(words: &[String]) -> Result<NetTool, Mistake> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["ifconfig", ref rest @ ..] => ifconfig(rest),
        ["route", ref rest @ ..] => route(rest),
        _ => unreachable!("only called for these two"),
    }
}

fn beyond(program: &str, what: &str) -> Mistake {
    Mistake::new(format!(
        "{program}: {what}; this host has no {program} of its own, and the switch box's knows `ifconfig [IF]`, \
         `ifconfig IF [inet] ADDRESS [netmask MASK] [up]`, `ifconfig IF inet6 add|del ADDRESS/PREFIX` and \
         `route [-A inet6] add|del default|-net NETWORK|-host ADDRESS [netmask MASK] [gw ADDRESS] [metric N] \
         [dev IF]`: use ip(8), or apt-get install net-tools"
    ))
}

fn ifconfig(words: &[&str]) -> Result<NetTool, Mistake> {
    let wrong = |what: &str| beyond("ifconfig", what);
    let (interface, mut rest) = match *words {
        [] | ["-a"] => return Ok(NetTool::ShowInterfaces(None)),
        [interface] => return Ok(NetTool::ShowInterfaces(Some(interface.to_owned()))),
        [interface, ref rest @ ..] => (interface.to_owned(), rest),
    };
    if rest == ["up"] {
        return Ok(NetTool::Nothing);
    }
    if let ["inet6", action @ ("add" | "del"), address] = *rest {
        let address = address.parse::<IpNet>();
        let address = address
            .ok()
            .filter(|a| a.addr().is_ipv6())
            .ok_or_else(|| wrong("after 'inet6 add' comes ADDRESS/PREFIX, such as fd00::1/64"))?;
        let remove = action == "del";
        return Ok(NetTool::Address {
            interface,
            address,
            remove,
        });
    }
    if let ["inet", ref after @ ..] = *rest {
        rest = after;
    }
    let [address, ref options @ ..] = *rest else {
        return Err(wrong("an address is missing"));
    };
    let (address, prefix) = match address.split_once('/') {
        Some((address, prefix)) => (address, prefix.parse::<u8>().ok()),
        None => (address, None),
    };
    let address: Ipv4Addr = address
        .parse()
        .map_err(|_| wrong(&format!("'{address}' is not an IPv4 address")))?;
    let mut prefix = prefix.unwrap_or_else(|| classful(address));
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "netmask" => {
                prefix = mask(options.next().copied().unwrap_or_default())
                    .ok_or_else(|| wrong("after 'netmask' comes a mask such as 255.255.255.0"))?
            }
            "up" => {}
            // The kernel's own is as good.
            "broadcast" if options.next().is_some() => {}
            other => return Err(wrong(&format!("'{other}' is not known here"))),
        }
    }
    let address = IpNet::new(address.into(), prefix)
        .map_err(|_| wrong("a network's prefix has at most 32 bits"))?;
    Ok(NetTool::Address {
        interface,
        address,
        remove: false,
    })
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

/// As the words of ip(8), which reads everything again: here is only told apart what is what.
fn route(words: &[&str]) -> Result<NetTool, Mistake> {
    let wrong = |what: &str| beyond("route", what);
    let (six, words) = match *words {
        ["-A", "inet6", ref rest @ ..] | ["-6", ref rest @ ..] => (true, rest),
        ["-A", "inet", ref rest @ ..] | ["-4", ref rest @ ..] => (false, rest),
        _ => (false, words),
    };
    let mut ip = vec!["ip", if six { "-6" } else { "-4" }, "route"];
    let (action, words) = match *words {
        [] | ["-n"] => {
            return Ok(NetTool::Ip(ip.into_iter().map(str::to_owned).collect()));
        }
        [action @ ("add" | "del"), ref rest @ ..] => (action, rest),
        _ => return Err(wrong("'add' or 'del' is missing")),
    };
    let (network, words) = match *words {
        ["-net", ref rest @ ..] => (true, rest),
        ["-host", ref rest @ ..] => (false, rest),
        _ => (false, words),
    };
    let [target, ref options @ ..] = *words else {
        return Err(wrong("where the route leads to is missing"));
    };
    let mut prefix = None;
    let mut rest = Vec::new();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let name = match *option {
            "gw" => "via",
            "dev" | "metric" | "netmask" => option,
            // `route add default gw 10.0.0.1 eth0` needs no `dev`.
            interface if options.len() == 0 => {
                rest.extend(["dev", interface]);
                break;
            }
            other => return Err(wrong(&format!("'{other}' is not known here"))),
        };
        let value = options.next().copied();
        let value = value.ok_or_else(|| wrong(&format!("nothing follows '{option}'")))?;
        match name {
            "netmask" => {
                let bits = mask(value).ok_or_else(|| wrong(&format!("'{value}' is not a mask")))?;
                prefix = Some(bits);
            }
            name => rest.extend([name, value]),
        }
    }
    let to = match target.parse::<Ipv4Addr>() {
        Ok(address) if network || prefix.is_some() => {
            let prefix = prefix.unwrap_or_else(|| classful(address));
            let network = IpNet::new(address.into(), prefix);
            network.expect("32 bits at most").trunc().to_string()
        }
        _ => target.to_owned(),
    };
    ip.extend([action, &to]);
    ip.extend(rest);
    Ok(NetTool::Ip(ip.into_iter().map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<NetTool, Mistake> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        translate(&words)
    }

    fn address(text: &str, remove: bool) -> NetTool {
        NetTool::Address {
            interface: "vx0".to_owned(),
            address: text.parse().expect("an address"),
            remove,
        }
    }

    fn ip(line: &str) -> NetTool {
        NetTool::Ip(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn understood() {
        for (line, meaning) in [
            ("ifconfig", NetTool::ShowInterfaces(None)),
            (
                "ifconfig vx0",
                NetTool::ShowInterfaces(Some("vx0".to_owned())),
            ),
            ("ifconfig vx0 up", NetTool::Nothing),
            (
                "ifconfig vx0 inet 128.84.254.1 netmask 255.255.255.0",
                address("128.84.254.1/24", false),
            ),
            (
                "ifconfig vx0 128.84.254.1 up",
                address("128.84.254.1/16", false),
            ),
            ("ifconfig vx0 10.0.0.1/30", address("10.0.0.1/30", false)),
            (
                "ifconfig vx0 10.0.0.1 broadcast 10.0.0.255 netmask 255.255.255.0",
                address("10.0.0.1/24", false),
            ),
            (
                "ifconfig vx0 inet6 add fd00::1/64",
                address("fd00::1/64", false),
            ),
            (
                "ifconfig vx0 inet6 del fd00::1/64",
                address("fd00::1/64", true),
            ),
            ("route", ip("ip -4 route")),
            ("route -A inet6 -n", ip("ip -6 route")),
            (
                "route add default gw 10.0.0.1",
                ip("ip -4 route add default via 10.0.0.1"),
            ),
            (
                "route del -net 10.1.0.7 netmask 255.255.0.0 gw 10.0.0.1 metric 5 dev vx0",
                ip("ip -4 route del 10.1.0.0/16 via 10.0.0.1 metric 5 dev vx0"),
            ),
            (
                "route add -net 192.168.7.0 vx0",
                ip("ip -4 route add 192.168.7.0/24 dev vx0"),
            ),
            (
                "route add -host 10.9.9.9 dev vx0",
                ip("ip -4 route add 10.9.9.9 dev vx0"),
            ),
            (
                "route -A inet6 add default gw fd00::2",
                ip("ip -6 route add default via fd00::2"),
            ),
            (
                "route -A inet6 add fd01::/64 gw fd00::2",
                ip("ip -6 route add fd01::/64 via fd00::2"),
            ),
        ] {
            assert_eq!(read(line), Ok(meaning), "{line}");
        }
    }

    #[test]
    fn beyond_it() {
        for (line, why) in [
            ("ifconfig vx0 inet", "an address is missing"),
            ("ifconfig vx0 10.0.0", "'10.0.0' is not an IPv4 address"),
            ("ifconfig vx0 10.0.0.1 netmask", "after 'netmask' comes"),
            (
                "ifconfig vx0 10.0.0.1 netmask 255.0.255.0",
                "after 'netmask' comes",
            ),
            (
                "ifconfig vx0 10.0.0.1 promisc",
                "'promisc' is not known here",
            ),
            (
                "ifconfig vx0 inet6 add 10.0.0.1/8",
                "after 'inet6 add' comes",
            ),
            ("route flush", "'add' or 'del' is missing"),
            ("route add default gw", "nothing follows 'gw'"),
            (
                "route add -net 10.0.0.0 netmask 1.2.3.4",
                "'1.2.3.4' is not a mask",
            ),
        ] {
            let mistake = read(line).expect_err(line).to_string();
            assert!(mistake.contains(why), "{line}: {mistake}");
            assert!(mistake.contains("apt-get install net-tools"), "{mistake}");
        }
    }
}
