//! Packets as the routes of a lab send them.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use vink_spec::Lab;

/// Which machine has an address, and how each forwards.
pub struct Net<'a> {
    owners: HashMap<IpAddr, &'a str>,
    tables: HashMap<&'a str, Vec<(IpNet, IpAddr)>>,
    connected: HashMap<&'a str, Vec<IpNet>>,
    forwards: HashMap<&'a str, bool>,
}

impl<'a> Net<'a> {
    pub fn of(lab: &'a Lab) -> Net<'a> {
        let mut net = Net {
            owners: HashMap::new(),
            tables: HashMap::new(),
            connected: HashMap::new(),
            forwards: HashMap::new(),
        };
        for (name, machine) in &lab.machines {
            let addresses = machine
                .interfaces
                .values()
                .flat_map(|i| i.addresses.clone());
            let addresses: Vec<IpNet> = addresses.collect();
            for address in &addresses {
                let other = net.owners.insert(address.addr(), name);
                assert_eq!(other, None, "{address} twice");
            }
            net.connected.insert(name, addresses);
            net.forwards.insert(name, machine.forward);
            let routes = machine.routes.iter().map(|route| {
                let via = route.via.expect("a next router");
                let to = match (route.to.as_str(), via) {
                    ("default", IpAddr::V4(_)) => "0.0.0.0/0",
                    ("default", IpAddr::V6(_)) => "::/0",
                    (to, _) => to,
                };
                (to.parse().expect("a network"), via)
            });
            net.tables.insert(name, routes.collect());
        }
        net
    }

    /// How many wires a packet crosses to its destination, if it comes there.
    pub fn hops(&self, from: &'a str, to: IpAddr) -> Option<usize> {
        let mut at = from;
        for hops in 0..self.tables.len() + 2 {
            if self.owners.get(&to) == Some(&at) {
                return Some(hops);
            }
            if hops > 0 && !self.forwards[at] {
                return None;
            }
            let connected = self.connected[at].iter().map(|net| (*net, to));
            let routes = self.tables[at].iter().copied();
            let (_, via) = connected
                .chain(routes)
                .filter(|(net, _)| net.contains(&to))
                .max_by_key(|(net, _)| net.prefix_len())?;
            at = self.owners.get(&via)?;
        }
        None
    }

    /// An address of a machine, of each family that it has.
    pub fn addresses(&self, machine: &str) -> Vec<IpAddr> {
        let all = &self.connected[machine];
        let of = |four: bool| {
            all.iter()
                .map(IpNet::addr)
                .find(|address| address.is_ipv4() == four)
        };
        of(true).into_iter().chain(of(false)).collect()
    }
}
