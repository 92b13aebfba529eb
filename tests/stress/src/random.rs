//! Random numbers that a seed determines.

/// A generator of the splitmix kind: small, and good enough to choose with.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of 0..n; n is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True in so many of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// The same bytes with some mistakes: bytes and words put in, taken out, repeated.
    pub(crate) fn with_mistakes(&mut self, bytes: &[u8], words: &[&str]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() as u64 + 1) as usize;
            let end = (at + self.below(16) as usize).min(bytes.len());
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] = self.next() as u8,
                1 => drop(bytes.drain(at..end)),
                2 => bytes.truncate(at),
                3 => {
                    let piece = bytes[at..end].repeat(1 + self.below(100) as usize);
                    bytes.splice(at..at, piece);
                }
                // A number becomes another one.
                4 => {
                    let number = self.next() >> self.below(64);
                    bytes.splice(at..end, number.to_string().into_bytes());
                }
                _ => drop(bytes.splice(at..at, self.pick(words).bytes())),
            }
        }
        bytes
    }

    /// Another generator, which this one determines.
    pub(crate) fn split(&mut self) -> Random {
        Random(self.next())
    }
}
