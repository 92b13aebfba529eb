//! Maps by serial numbers: of tasks, processes, files.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by serial numbers. Not for numbers that a program may choose: they could be made to
/// collide.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Serial>>;

/// Spreads serial numbers, for less than the standard library's hash costs: a tenth of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial(u64);

impl Hasher for Serial {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio: neighbours end up far from each other.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
