//! Memory for a fuzzed program: good, bad and half good addresses, and structures in it.

use std::ptr::{null_mut, write_unaligned};

use crate::random::Random;

const PAGE: u64 = 4096;
/// Readable and writable; then come a hole, a page that is writable, one that is not, one that is neither.
const GOOD: u64 = 64 * PAGE;
const WHOLE: u64 = GOOD + 4 * PAGE;

/// The mapping. Threads share it, and write to it as they like.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    start: u64,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, parts of which are given up again.
        let start = unsafe {
            let start = libc::mmap(null_mut(), WHOLE as usize, prot, flags, -1, 0);
            assert!(start != libc::MAP_FAILED, "mmap()");
            let at = |pages: u64| start.byte_add((GOOD + pages * PAGE) as usize);
            libc::munmap(at(0), PAGE as usize);
            libc::mprotect(at(2), PAGE as usize, libc::PROT_READ);
            libc::mprotect(at(3), PAGE as usize, libc::PROT_NONE);
            start as u64
        };
        Memory { start }
    }

    /// An address of any kind.
    pub(crate) fn address(&self, random: &mut Random) -> u64 {
        let near = random.below(64);
        match random.below(20) {
            0..=9 => self.good(random, 4096),
            10 | 11 => self.good(random, 4096) + 1 + random.below(7),
            // Up to the hole, and into it.
            12 => self.start + GOOD - near,
            13 => self.start + GOOD + near,
            14 => self.start + GOOD + PAGE * 2 - near,
            15 => self.start + GOOD + PAGE * 2 + near,
            16 => self.start + GOOD + PAGE * 3 - near,
            17 => near % 2 * near,
            18 => {
                random.pick(&[
                    0xffff_8000_0000_0000,
                    0x8000_0000_0000,
                    0xffff_ffff_8100_0000,
                ]) + near
            }
            _ => u64::MAX - near,
        }
    }

    /// An address with that much room behind it.
    pub(crate) fn good(&self, random: &mut Random, room: u64) -> u64 {
        self.start + random.below((GOOD - room) / 8) * 8
    }

    /// Puts a value into the memory: its address.
    pub(crate) fn put<T: Copy>(&self, random: &mut Random, value: T) -> u64 {
        let at = self.good(random, size_of::<T>().next_multiple_of(8) as u64);
        // SAFETY: within the good part, where all values are allowed.
        unsafe { write_unaligned(at as *mut T, value) };
        at
    }
}
