//! A pod's malloc(), kept on the worker's side: what it says of itself is in no memory of the pod's.

use std::collections::BTreeMap;
use std::ops::Range;

const LEAST: u64 = 16;
/// Bytes of the worker's memory for what is written down of a piece, at most. They are the pod's, too.
const BOOK: u64 = 48;

/// What is free, and what is not, of a range of addresses.
#[derive(Debug)]
pub(super) struct Heap {
    all: Range<u64>,
    /// The first address that was never given away.
    next: u64,
    /// How many pieces there are, given away or free.
    pieces: u64,
    /// What is given away: how many bytes it has.
    given: BTreeMap<u64, u64>,
    /// What was given back, by its size.
    free: BTreeMap<u64, Vec<u64>>,
}

impl Heap {
    /// Of these addresses.
    pub fn new(all: Range<u64>) -> Heap {
        let next = all.start.next_multiple_of(LEAST);
        Heap {
            all,
            next,
            pieces: 0,
            given: BTreeMap::new(),
            free: BTreeMap::new(),
        }
    }

    /// So many bytes; `None`: there are not as many.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        // Powers of two, but for large ones.
        let size = match len {
            0..=0xffff => len.max(LEAST).next_power_of_two(),
            _ => len.checked_next_multiple_of(1 << 16)?,
        };
        let again = self.free.get_mut(&size).and_then(Vec::pop);
        let at = match again {
            Some(at) => at,
            None => {
                let end = self.next.checked_add(size)?;
                if end.checked_add(BOOK * (self.pieces + 1))? > self.all.end {
                    return None;
                }
                self.pieces += 1;
                std::mem::replace(&mut self.next, end)
            }
        };
        self.given.insert(at, size);
        Some(at)
    }

    /// How many bytes there are at this address; `None`: it was not given away.
    pub fn size(&self, at: u64) -> Option<u64> {
        self.given.get(&at).copied()
    }

    /// Takes it back; `None`: it was not given away.
    pub fn give_back(&mut self, at: u64) -> Option<()> {
        let size = self.given.remove(&at)?;
        self.free.entry(size).or_default().push(at);
        Some(())
    }

    /// Bytes that were given away at some time, and those of the books.
    pub fn used(&self) -> u64 {
        self.next - self.all.start + BOOK * self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_given_again() {
        let mut heap = Heap::new(0x1000..0x1180);
        let first = heap.take(1).unwrap();
        let second = heap.take(17).unwrap();
        assert_eq!((first, second), (0x1000, 0x1010));
        assert_eq!((heap.size(second), heap.size(second + 1)), (Some(32), None));
        assert_eq!(heap.give_back(first), Some(()));
        assert_eq!(heap.give_back(first), None);
        assert_eq!(heap.take(16), Some(first));
        assert_eq!(heap.take(0x100), None);
        assert_eq!(heap.take(u64::MAX), None);
        assert!(heap.take(0x80).is_some() && heap.used() <= 0x180);
    }

    #[test]
    fn books_are_the_pods_too() {
        let mut heap = Heap::new(0..1 << 20);
        let all: Vec<u64> = std::iter::from_fn(|| heap.take(1)).collect();
        assert_eq!(all.len() as u64, (1 << 20) / (LEAST + BOOK));
        assert!(all.iter().all(|at| heap.give_back(*at).is_some()));
        // What is free stays so.
        assert_eq!(std::iter::from_fn(|| heap.take(1)).count(), all.len());
        assert!(heap.used() <= 1 << 20 && heap.take(1).is_none());
    }
}
