//! Maps by the ends of connections, in which each property looks at each packet.
//!
//! A run has few connections, and their addresses are not hostile input: so the hash function is a cheap
//! one without a random seed, and the same in all runs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddr;

/// By an address and its peer's.
pub(crate) type ByEnds<T> = Cheaply<(SocketAddr, SocketAddr), T>;

/// By something else that each packet has.
pub(crate) type Cheaply<K, T> = HashMap<K, T, BuildHasherDefault<Cheap>>;

/// Multiplies, and turns.
#[derive(Default)]
pub(crate) struct Cheap(u64);

impl Cheap {
    fn add(&mut self, word: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(ODD);
    }
}

impl Hasher for Cheap {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add(u64::from_ne_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.add(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.add(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        // The table looks at the highest bits and at the lowest ones.
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let end = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
        let mut map = ByEnds::default();
        for port in 0..1000 {
            for (own, peer) in [(1, 2), (2, 1)] {
                map.insert((end(own, port), end(peer, 80)), (own, port));
                map.insert((end(own, 80), end(peer, port)), (own, port));
            }
        }
        // Port 80 to port 80 is both.
        assert_eq!(map.len(), 4 * 1000 - 2);
        assert_eq!(map.get(&(end(2, 7), end(1, 80))), Some(&(2, 7)));
        assert_eq!(map.get(&(end(2, 7), end(1, 81))), None);
    }
}
