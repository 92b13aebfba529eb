//! Lines and trees of machines: made with working routes, and pinged through.
//!
//! A line is a tree in which each machine has one child. Machines are numbered in the order of a walk that
//! comes to a machine before its children, so that those below one are a range; the link to machine N's parent
//! has the addresses 10.0.0.0 + 2N (the parent's) and + 2N + 1. Downwards a machine has routes to the ranges of
//! its children, upwards it has a default route.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use vink_kernel::{Kernel, MachineId};
use vink_lab::{wire, End, Machine, Network};

use crate::work;
use crate::BoxError;

/// The address of the parent's end (`far` 0) or the machine's own (1) of the link from machine `number` upwards.
pub(crate) fn address(number: u32, far: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 + 2 * number + far)
}

const EVERYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A plan of machines.
pub(crate) struct Tree {
    /// Of each machine but the first, which is 0. Always a lower number.
    parents: Vec<u32>,
    /// How many machines there are below each, itself included.
    sizes: Vec<u32>,
}

impl Tree {
    /// So many machines, each but the last ones with this many children.
    pub fn new(count: u32, children: u32) -> Tree {
        // By levels at first: the parent of n is (n - 1) / children.
        let parent = |n: u32| ((n - 1) / children) as usize;
        let mut sizes = vec![1; count as usize];
        for n in (1..count).rev() {
            sizes[parent(n)] += sizes[n as usize];
        }
        // Then in the order of the walk.
        let mut numbers = vec![0; count as usize];
        let mut next: Vec<u32> = vec![1; count as usize];
        let mut tree = Tree {
            parents: vec![0; count as usize],
            sizes: vec![0; count as usize],
        };
        for n in 0..count {
            if n > 0 {
                let parent = parent(n);
                numbers[n as usize] = numbers[parent] + next[parent];
                next[parent] += sizes[n as usize];
                tree.parents[numbers[n as usize] as usize] = numbers[parent];
            }
            tree.sizes[numbers[n as usize] as usize] = sizes[n as usize];
        }
        tree
    }

    /// Makes them all.
    pub fn build(&self, kernel: &mut Kernel) -> Result<Vec<Machine>, BoxError> {
        let mut machines: Vec<Machine> = Vec::with_capacity(self.parents.len());
        for (number, parent) in (0u32..).zip(&self.parents) {
            let machine = Machine::new(kernel, &format!("m{number}"))?;
            machine.forward(kernel)?;
            if number > 0 {
                let parent = &machines[*parent as usize];
                link(kernel, parent, number, &machine)?;
                let [above, below] = [0, 1].map(|far| IpAddr::from(address(number, far)));
                machine.network.route(kernel, EVERYWHERE, 0, above)?;
                // The link itself is there already.
                let below_it = self.sizes[number as usize] - 1;
                for (first, prefix) in prefixes(number + 1, below_it) {
                    let to = address(first, 0).into();
                    parent.network.route(kernel, to, prefix, below)?;
                }
            }
            machines.push(machine);
        }
        Ok(machines)
    }
    /// How many wires are between two machines.
    pub fn distance(&self, mut a: u32, mut b: u32) -> u32 {
        let mut wires = 0;
        while a != b {
            // The higher number is not above the other one.
            let further = if a > b { &mut a } else { &mut b };
            *further = self.parents[*further as usize];
            wires += 1;
        }
        wires
    }
}

/// A line in which pings from the first machine find their way, and their answers.
pub(crate) fn line(kernel: &mut Kernel, count: u32) -> Result<Vec<Machine>, BoxError> {
    let mut machines: Vec<Machine> = Vec::new();
    for number in 0..count {
        let machine = Machine::new(kernel, &format!("m{number}"))?;
        machine.forward(kernel)?;
        let ttl = "net/ipv4/ip_default_ttl";
        machine.network.sysctl(kernel, ttl, "255")?;
        if let Some(parent) = machines.last() {
            link(kernel, parent, number, &machine)?;
            let [above, below] = [0, 1].map(|far| IpAddr::from(address(number, far)));
            parent.network.route(kernel, EVERYWHERE, 0, below)?;
            if number > 1 {
                let start = address(1, 0).into();
                machine.network.route(kernel, start, 31, above)?;
            }
        }
        machines.push(machine);
    }
    Ok(machines)
}

fn link(
    kernel: &mut Kernel,
    parent: &Machine,
    number: u32,
    machine: &Machine,
) -> Result<(), BoxError> {
    let ends = [0, 1].map(|far| {
        [Network {
            address: address(number, far).into(),
            prefix: 31,
        }]
    });
    let end = |machine, interface, addresses| End {
        machine,
        interface,
        addresses,
    };
    let down = format!("d{number}");
    wire(
        kernel,
        end(parent, &down, &ends[0]),
        end(machine, "u", &ends[1]),
    )?;
    Ok(())
}

/// The fewest prefixes that are the links of a range of machines: their first one and length in bits.
fn prefixes(mut first: u32, mut count: u32) -> Vec<(u32, u8)> {
    let mut all = Vec::new();
    while count > 0 {
        let most = count.ilog2();
        let bits = first.trailing_zeros().min(most);
        all.push((first, 31 - bits as u8));
        first += 1 << bits;
        count -= 1 << bits;
    }
    all
}

/// Pings machine `to` from a machine, many times: us for each.
pub(crate) fn ping(
    kernel: &mut Kernel,
    from: MachineId,
    to: u32,
    times: u32,
) -> Result<f64, BoxError> {
    let took = Rc::new(Cell::new(None));
    let told = Rc::clone(&took);
    let address = address(to, 1).octets();
    let failed = Rc::new(Cell::new(None));
    let why = Rc::clone(&failed);
    kernel.fiber(from, move |fiber| {
        match work::echo_requests(fiber, address, times) {
            Ok(us) => told.set(Some(us)),
            Err(error) => why.set(Some(error)),
        }
        0
    })?;
    crate::vink::finish(kernel, 1)?;
    match failed.take() {
        Some(error) => Err(format!("pinging machine {to}: {error}").into()),
        None => took.get().ok_or("the fiber panicked".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_numbered_by_a_walk() {
        let tree = Tree::new(7, 2);
        assert_eq!(tree.parents, [0, 0, 1, 1, 0, 4, 4]);
        assert_eq!(tree.sizes, [7, 3, 1, 1, 3, 1, 1]);
        assert_eq!(tree.distance(3, 6), 4);
        assert_eq!(Tree::new(4, 1).parents, [0, 0, 1, 2]);
    }

    #[test]
    fn prefixes_are_the_range() {
        assert_eq!(prefixes(1, 7), [(1, 31), (2, 30), (4, 29)]);
        assert_eq!(prefixes(8, 8), [(8, 28)]);
        assert_eq!(prefixes(5, 0), []);
    }
}
