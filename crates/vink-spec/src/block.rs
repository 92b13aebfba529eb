//! Addresses and static routes of many machines: each machine has a block of addresses by its
//! number, so that neighbouring numbers that are reached the same way share routes.
//!
//! A wire between two machines is a network of two addresses (/31, /127) in the block of the one
//! with the higher number. What is sent to either address goes towards that machine, and meets the
//! other end on its way or is handed to it over the wire. So the machine with the lowest number, 0,
//! needs no block, unless machines have addresses of their own besides, at `lo`: to those each way
//! is a shortest one in any graph.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;

use crate::{Interface, Lab, Route};

/// A network that is cut into blocks of equal size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    first: u128,
    /// The size of the whole network, in bits of an address.
    room: u32,
    /// The size of a block, as a power of two.
    block: u32,
    version_4: bool,
}

impl Blocks {
    /// So many blocks, each with room for so many wires; if not, what would be needed.
    pub fn new(network: IpNet, count: usize, wires: usize) -> Result<Blocks, String> {
        let (first, bits) = match network.network() {
            IpAddr::V4(first) => (u128::from(u32::from(first)), 32),
            IpAddr::V6(first) => (u128::from(first), 128),
        };
        let blocks = Blocks {
            first,
            room: bits - u32::from(network.prefix_len()),
            block: (2 * wires.max(1)).next_power_of_two().trailing_zeros(),
            version_4: bits == 32,
        };
        let needed = count.next_power_of_two().trailing_zeros() + blocks.block;
        match needed <= blocks.room {
            true => Ok(blocks),
            false => Err(format!(
                "{network} has no room for {count} blocks of {} addresses: a /{} is needed",
                1u64 << blocks.block,
                bits.saturating_sub(needed)
            )),
        }
    }

    fn bits(&self) -> u32 {
        if self.version_4 {
            32
        } else {
            128
        }
    }

    fn network(&self, first: u128, size: u32) -> IpNet {
        let address = match self.version_4 {
            true => IpAddr::V4((first as u32).into()),
            false => IpAddr::V6(first.into()),
        };
        IpNet::new(address, (self.bits() - size) as u8)
            .expect("at most as many bits as an address has")
    }

    /// The two ends of wire number `wire` of a block: the neighbour's, and its own.
    pub fn ends(&self, block: usize, wire: usize) -> (IpNet, IpNet) {
        debug_assert!(
            2 * wire < 1 << self.block,
            "more wires than a block has room for"
        );
        let first = self.first + ((block as u128) << self.block) + 2 * wire as u128;
        let end = |address: u128| {
            let network = self.network(address, 0);
            IpNet::new(network.addr(), (self.bits() - 1) as u8).expect("a prefix length")
        };
        (end(first), end(first + 1))
    }

    /// The fewest networks that are together a range of blocks.
    pub fn cover(&self, blocks: Range<usize>) -> Vec<IpNet> {
        let mut networks = Vec::new();
        let Range { mut start, end } = blocks;
        while start < end {
            let aligned = match start {
                0 => u32::BITS,
                _ => start.trailing_zeros(),
            };
            let size = aligned.min((end - start).ilog2());
            networks.push(self.network(
                self.first + ((start as u128) << self.block),
                self.block + size,
            ));
            start += 1 << size;
        }
        networks
    }
}

/// Machines of a lab by number, wires between them, and their addresses.
pub(crate) struct Plan {
    /// Names of machines.
    names: Vec<String>,
    /// For each machine its neighbours, by number and the address by which they are reached, one
    /// for each network.
    neighbours: Vec<Vec<(usize, Vec<IpAddr>)>>,
    blocks: Vec<Blocks>,
    /// How many wires each has in its block.
    owned: Vec<usize>,
    /// Machines have addresses of their own, before those of their wires.
    own: bool,
}

impl Plan {
    /// Of one machine at least. `wires`: how many a block must have room for; `own`: and for an
    /// address at `lo`.
    pub fn new(
        names: Vec<String>,
        networks: &[IpNet],
        wires: usize,
        own: bool,
    ) -> Result<Plan, String> {
        let count = names.len() - usize::from(!own);
        let room = wires + usize::from(own);
        let blocks: Result<Vec<Blocks>, String> = networks
            .iter()
            .map(|network| Blocks::new(*network, count, room))
            .collect();
        Ok(Plan {
            neighbours: vec![Vec::new(); names.len()],
            owned: vec![0; names.len()],
            blocks: blocks?,
            names,
            own,
        })
    }

    /// Attaches two machines to a wire, with addresses.
    pub fn join(&mut self, lab: &mut Lab, a: (usize, &str), b: (usize, &str), wire: &str) {
        let (low, high) = if a.0 < b.0 { (a, b) } else { (b, a) };
        let first = self.first();
        let number = self.owned[high.0] + usize::from(self.own);
        self.owned[high.0] += 1;
        let ends: Vec<(IpNet, IpNet)> = self
            .blocks
            .iter()
            .map(|blocks| blocks.ends(high.0 - first, number))
            .collect();
        let (lows, highs): (Vec<IpNet>, Vec<IpNet>) = ends.into_iter().unzip();
        for ((machine, interface), addresses) in [(low, &lows), (high, &highs)] {
            let spec = Interface {
                wire: Some(wire.to_owned()),
                addresses: addresses.clone(),
                ..Interface::default()
            };
            let machine = lab.machines.entry(self.names[machine].clone()).or_default();
            machine.interfaces.insert(interface.to_owned(), spec);
        }
        let via = |addresses: Vec<IpNet>| addresses.iter().map(IpNet::addr).collect();
        self.neighbours[low.0].push((high.0, via(highs)));
        self.neighbours[high.0].push((low.0, via(lows)));
    }

    /// The number of the first machine that has a block.
    fn first(&self) -> usize {
        usize::from(!self.own)
    }

    /// Gives machines their own addresses, if they have such: before they are joined, so that names
    /// stand for them.
    pub fn address(&self, lab: &mut Lab) {
        for (number, name) in self.names.iter().enumerate().filter(|_| self.own) {
            let alone = |blocks: &Blocks| IpNet::from(blocks.ends(number, 0).0.addr());
            let spec = Interface {
                addresses: self.blocks.iter().map(alone).collect(),
                ..Interface::default()
            };
            let machine = lab.machines.entry(name.clone()).or_default();
            machine.interfaces.insert("lo".to_owned(), spec);
        }
    }

    pub fn name(&self, machine: usize) -> &str {
        &self.names[machine]
    }

    /// Its neighbours, in the order in which they were joined.
    pub fn neighbours(&self, machine: usize) -> impl Iterator<Item = usize> + '_ {
        self.neighbours[machine].iter().map(|(number, _)| *number)
    }

    /// Static routes of a machine: to ranges of machines by a neighbour's place in
    /// [`Plan::neighbours`], and to all others by `default`.
    pub fn route(
        &self,
        lab: &mut Lab,
        machine: usize,
        ranges: &[(Range<usize>, usize)],
        default: Option<usize>,
    ) {
        let Some(spec) = lab.machines.get_mut(&self.names[machine]) else {
            return;
        };
        for (family, blocks) in self.blocks.iter().enumerate() {
            let via = |neighbour: usize| self.neighbours[machine][neighbour].1[family];
            let mut add = |to: String, neighbour| {
                spec.routes.push(Route {
                    to,
                    via: Some(via(neighbour)),
                    dev: None,
                    metric: None,
                });
            };
            for (range, neighbour) in ranges {
                // A network of two addresses is the wire itself, which the kernel knows already.
                let direct = |network: &IpNet| {
                    network.prefix_len() as u32 == blocks.bits() - 1
                        && network.contains(&via(*neighbour))
                };
                let first = self.first();
                let numbers = range.start.max(first) - first..range.end.max(first) - first;
                for network in blocks.cover(numbers) {
                    if !direct(&network) {
                        add(network.to_string(), *neighbour);
                    }
                }
            }
            if let Some(neighbour) = default {
                add("default".to_owned(), neighbour);
            }
        }
    }
}

/// By which of its neighbours (its place among them) a machine reaches each other one: Dijkstra's
/// algorithm.
pub(crate) fn ways(costs: &[Vec<(usize, u64)>], from: usize) -> Vec<Option<usize>> {
    let mut way = vec![None; costs.len()];
    let mut least = vec![u64::MAX; costs.len()];
    let mut heap = BinaryHeap::from([Reverse((0, from, None))]);
    while let Some(Reverse((cost, machine, first))) = heap.pop() {
        if cost >= least[machine] {
            continue;
        }
        least[machine] = cost;
        way[machine] = first;
        for (place, (next, more)) in costs[machine].iter().enumerate() {
            if cost + more < least[*next] {
                heap.push(Reverse((cost + more, *next, first.or(Some(place)))));
            }
        }
    }
    way
}

/// Ranges of machines with the same way, and the way that most ranges have as default. Where no way
/// leads, none need be right.
pub(crate) fn table(ways: &[Option<usize>]) -> (Vec<(Range<usize>, usize)>, Option<usize>) {
    let mut ranges: Vec<(Range<usize>, usize)> = Vec::new();
    for (machine, way) in ways.iter().enumerate() {
        let Some(way) = *way else {
            continue;
        };
        match ranges.last_mut() {
            Some((range, same)) if *same == way => range.end = machine + 1,
            _ => ranges.push((machine..machine + 1, way)),
        }
    }
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for (_, way) in &ranges {
        *counts.entry(*way).or_default() += 1;
    }
    let default = counts
        .into_iter()
        .max_by_key(|(way, count)| (*count, Reverse(*way)))
        .map(|(way, _)| way);
    ranges.retain(|(_, way)| Some(*way) != default);
    (ranges, default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers() {
        let blocks = Blocks::new("10.0.0.0/24".parse().unwrap(), 64, 2).unwrap();
        let cover = |range| {
            let networks: Vec<String> = blocks.cover(range).iter().map(IpNet::to_string).collect();
            networks.join(" ")
        };
        assert_eq!(cover(0..64), "10.0.0.0/24");
        assert_eq!(cover(1..4), "10.0.0.4/30 10.0.0.8/29");
        assert_eq!(cover(5..5), "");
        assert!(Blocks::new("10.0.0.0/24".parse().unwrap(), 65, 2).is_err());
        let blocks = Blocks::new("fd00::/64".parse().unwrap(), 1000, 1).unwrap();
        let (a, b) = blocks.ends(999, 0);
        assert_eq!(format!("{a} {b}"), "fd00::7ce/127 fd00::7cf/127");
    }
}
