//! A machine that has the host's address: its interface, routes and ports.
//!
//! The interface leads to the host by IP alone, so no Ethernet address is asked for (`IFF_NOARP`).
//! Packets of the machine's own programs to the shared address go to the host, too: a server there
//! may be the host's. So they are routed before the table of local addresses is looked at.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use vink_kernel::Kernel;
use vink_spec::ShareGrant;
use vink_sys::netlink::Message;

use super::Route;
use crate::network_config::family_and_bytes;
use crate::route::StaticRoute;
use crate::{Error, Machine, Network, NetworkConfig};

/// As the driver has it (`vink_port::ShareBackend`).
const MACHINE_MAC: [u8; 6] = [0x02, 0x76, 0x69, 0x6e, 0x6b, 0x0f];
/// Everything is behind these, which exist nowhere: so there is one neighbour.
const GATEWAYS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 118, 110)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0x76, 0x69, 0x6e, 0x6b)),
];

/// The interface's MTU: packets from the host's loopback interface are as long as they like. What the
/// machine sends keeps to its routes' MTU.
const ANY_LENGTH: u32 = 65535;

/// The order of routing rules: the host's address, then local ones, which are first by default.
const LOCAL: u32 = 0;
const TO_HOST: u32 = 1;
const LOCAL_LATER: u32 = 2;

/// Gives an interface of a machine what it has got of the host's address, and sets it up.
///
/// # Errors
/// [`Error::Refused`], [`Error::Kernel`].
pub fn configure(
    kernel: &mut Kernel,
    machine: &Machine,
    interface: &str,
    grant: &ShareGrant,
) -> Result<Route, Error> {
    let network = &machine.network;
    let has_v6 = network.has_ipv6(kernel)?;
    let usable = |address: &&IpAddr| address.is_ipv4() || has_v6;
    let addresses: Vec<IpAddr> = grant.addresses.iter().filter(usable).copied().collect();
    network.hardware(kernel, interface, MACHINE_MAC)?;
    network.mtu(kernel, interface, ANY_LENGTH)?;
    network.no_arp(kernel, interface)?;
    for address in &addresses {
        network.address(kernel, interface, *address, bits(*address))?;
    }
    network.up(kernel, interface)?;
    change_routes(kernel, network, interface, &addresses, Some(grant.mtu))?;
    change_rules(kernel, network, &addresses, false)?;
    set_ports(kernel, network, &grant.ephemeral)?;
    Ok(Route {
        addresses: networks(&addresses),
        resolver: resolvers(),
    })
}

/// Takes all of that from the machine but the addresses.
///
/// # Errors
/// As [`configure`].
pub(crate) fn unconfigure(
    kernel: &mut Kernel,
    network: &NetworkConfig,
    interface: &str,
    addresses: &[IpNet],
) -> Result<(), Error> {
    let addresses: Vec<IpAddr> = addresses.iter().map(IpNet::addr).collect();
    change_rules(kernel, network, &addresses, true)?;
    change_routes(kernel, network, interface, &addresses, None)?;
    match network.mtu(kernel, interface, 1500) {
        // A program has removed it.
        Ok(()) | Err(Error::Refused { .. }) => {}
        Err(error) => return Err(error),
    }
    // What Linux has by default.
    network.sysctl(kernel, "net/ipv4/ip_local_port_range", "32768 60999")?;
    network.sysctl(kernel, "net/ipv4/ip_local_reserved_ports", "\n")
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() {
        32
    } else {
        128
    }
}

fn networks(addresses: &[IpAddr]) -> Vec<Network> {
    let networks = addresses.iter().map(|address| Network {
        address: *address,
        prefix: bits(*address),
    });
    networks.collect()
}

/// The gateways of the families of these addresses.
fn gateways(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> + '_ {
    let has = |gateway: &IpAddr| {
        let mut all = addresses.iter();
        all.any(|address| address.is_ipv4() == gateway.is_ipv4())
    };
    GATEWAYS.into_iter().filter(has)
}

/// Adds the routes, for packets of up to `mtu` bytes; or removes them.
fn change_routes(
    kernel: &mut Kernel,
    network: &NetworkConfig,
    interface: &str,
    addresses: &[IpAddr],
    mtu: Option<u32>,
) -> Result<(), Error> {
    let remove = mtu.is_none();
    for gateway in gateways(addresses) {
        let all: IpAddr = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let network_of = |to, prefix| IpNet::new(to, prefix).expect("a prefix that fits");
        let link = StaticRoute {
            to: network_of(gateway, bits(gateway)),
            via: None,
            dev: Some(interface),
            metric: None,
            mtu: None,
        };
        let default = StaticRoute {
            to: network_of(all, 0),
            via: Some(gateway),
            mtu,
            ..link
        };
        let routes = match remove {
            true => [&default, &link],
            false => [&link, &default],
        };
        for route in routes {
            match network.change_route(kernel, route, remove) {
                // The interface may have gone, or a program has removed them.
                Err(Error::Refused { .. }) if remove => {}
                done => done?,
            }
        }
    }
    Ok(())
}

/// Has packets to the addresses leave, though they are the machine's own.
fn change_rules(
    kernel: &mut Kernel,
    network: &NetworkConfig,
    addresses: &[IpAddr],
    remove: bool,
) -> Result<(), Error> {
    let mut change = |add, family, order, table, to: Option<IpAddr>| {
        let rule = Rule {
            family,
            order,
            table,
            to,
        };
        match network.change_rule(kernel, &rule, add) {
            // An image without policy routing: the machine does not reach the host itself.
            Err(Error::Refused {
                errno: libc::EOPNOTSUPP,
                ..
            }) => Ok(()),
            Err(Error::Refused { .. }) if remove => Ok(()),
            done => done,
        }
    };
    let (local, main) = (libc::RT_TABLE_LOCAL, libc::RT_TABLE_MAIN);
    for address in addresses {
        let family = family_and_bytes(*address).0;
        change(!remove, family, TO_HOST, main, Some(*address))?;
    }
    for gateway in gateways(addresses) {
        let family = family_and_bytes(gateway).0;
        let (comes, goes) = match remove {
            false => (LOCAL_LATER, LOCAL),
            true => (LOCAL, LOCAL_LATER),
        };
        change(true, family, comes, local, None)?;
        change(false, family, goes, local, None)?;
    }
    Ok(())
}

/// Of policy routing, as `ip rule` shows it.
struct Rule {
    family: u8,
    order: u32,
    table: u8,
    /// Only packets of the machine's own to this address.
    to: Option<IpAddr>,
}

impl NetworkConfig {
    /// As `ip rule add` or `ip rule del`.
    fn change_rule(&self, kernel: &mut Kernel, rule: &Rule, add: bool) -> Result<(), Error> {
        const FRA_DST: u16 = 1;
        const FRA_IIFNAME: u16 = 3;
        const FRA_PRIORITY: u16 = 6;
        const FR_ACT_TO_TBL: u8 = 1;
        let (kind, flags) = match add {
            true => (libc::RTM_NEWRULE, libc::NLM_F_CREATE | libc::NLM_F_EXCL),
            false => (libc::RTM_DELRULE, 0),
        };
        let prefix = rule.to.map_or(0, bits);
        // struct fib_rule_hdr.
        let (family, table) = (rule.family, rule.table);
        let body = [family, prefix, 0, 0, table, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
        let message = Message::new(kind, flags, &body);
        let mut message = message.attr(FRA_PRIORITY, &rule.order.to_ne_bytes());
        if let Some(to) = rule.to {
            message = message.attr(FRA_DST, &family_and_bytes(to).1);
            message = message.text(FRA_IIFNAME, "lo");
        }
        let what = || format!("a routing rule of order {}", rule.order);
        self.request(kernel, message, what)
    }
}

/// Has connections that the machine makes use these ports.
fn set_ports(
    kernel: &mut Kernel,
    network: &NetworkConfig,
    runs: &[(u16, u16)],
) -> Result<(), Error> {
    let first = runs.iter().map(|run| run.0).min();
    let last = runs.iter().map(|run| run.1).max();
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(());
    };
    let range = format!("{first} {last}");
    network.sysctl(kernel, "net/ipv4/ip_local_port_range", &range)?;
    let reserved = between(runs);
    if reserved.is_empty() {
        return Ok(());
    }
    network.sysctl(kernel, "net/ipv4/ip_local_reserved_ports", &reserved)
}

/// What is between the runs, as the sysctl has it.
fn between(runs: &[(u16, u16)]) -> String {
    let mut runs = runs.to_vec();
    runs.sort_unstable();
    let gaps = runs.windows(2).map(|pair| (pair[0].1 + 1, pair[1].0 - 1));
    let gaps = gaps.filter(|(first, last)| first <= last);
    let texts: Vec<_> = gaps
        .map(|(first, last)| format!("{first}-{last}"))
        .collect();
    texts.join(",")
}

/// The host's resolv.conf(5) without resolvers on its loopback interface, which the machine does not
/// reach; if there are only such, that of systemd-resolved, which is one of them.
fn resolvers() -> String {
    let direct = |text: &str| {
        let is_direct = |line: &&str| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["nameserver", server, ..] => {
                let server = server.parse::<IpAddr>();
                server.is_ok_and(|server| !server.is_loopback())
            }
            _ => true,
        };
        let lines: Vec<_> = text.lines().filter(is_direct).collect();
        lines.join("\n") + "\n"
    };
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let host = direct(&read("/etc/resolv.conf"));
    match host.contains("nameserver ") {
        true => host,
        false => direct(&read("/run/systemd/resolve/resolv.conf")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between() {
        assert_eq!(between(&[(61000, 61255)]), "");
        assert_eq!(between(&[(9, 9), (1, 3), (4, 5)]), "6-8");
    }
}
