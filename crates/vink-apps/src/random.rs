//! Random numbers from the machine's kernel: they repeat when its seed does.

use std::io;

use crate::Calls;

/// A generator (SplitMix64) seeded by getrandom(2).
pub(crate) struct Random(u64);

impl Random {
    pub fn new(calls: &Calls<'_>) -> io::Result<Random> {
        let mut seed = 0u64;
        let args = [(&raw mut seed) as u64, 8, 0, 0, 0, 0];
        calls.call(libc::SYS_getrandom, args)?;
        Ok(Random(seed))
    }

    /// From 0 on, below 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
