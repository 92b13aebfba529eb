//! What is in a datagram of `source`, and in the answer to its last one. All numbers are
//! big-endian.

/// The first bytes of each: `Vnk` and a version.
const MAGIC: u32 = 0x566e_6b01;

/// The head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Tells flows between the same ports from each other.
    pub flow: u32,
    /// Counts from 0; of the end: how many there were.
    pub number: u64,
    /// `CLOCK_MONOTONIC` when it was sent, ns.
    pub time: u64,
    /// It is the end of the flow, not part of it, and wants an answer.
    pub end: bool,
}

impl Stamp {
    /// The bytes that a datagram has at least.
    pub const LEN: usize = 25;

    pub fn write(&self, to: &mut [u8]) {
        to[..4].copy_from_slice(&MAGIC.to_be_bytes());
        to[4..8].copy_from_slice(&self.flow.to_be_bytes());
        to[8..16].copy_from_slice(&self.number.to_be_bytes());
        to[16..24].copy_from_slice(&self.time.to_be_bytes());
        to[24] = self.end.into();
    }

    /// `None`: not one of ours.
    pub fn read(from: &[u8]) -> Option<Stamp> {
        let long = |at: usize| Some(u64::from_be_bytes(from.get(at..at + 8)?.try_into().ok()?));
        let head = long(0)?;
        (head >> 32 == u64::from(MAGIC)).then_some(())?;
        Some(Stamp {
            flow: head as u32,
            number: long(8)?,
            time: long(16)?,
            end: *from.get(24)? != 0,
        })
    }
}

/// What `sink` answers: how much of a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub flow: u32,
    pub packets: u64,
    pub reordered: u64,
    pub duplicates: u64,
    /// ns.
    pub jitter: u64,
}

impl Receipt {
    pub const LEN: usize = 40;

    pub fn write(&self) -> [u8; Self::LEN] {
        let head = u64::from(MAGIC) << 32 | u64::from(self.flow);
        let numbers = [
            head,
            self.packets,
            self.reordered,
            self.duplicates,
            self.jitter,
        ];
        let mut bytes = [0; Self::LEN];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// `None`: not one of ours.
    pub fn read(from: &[u8]) -> Option<Receipt> {
        let bytes: &[u8; Self::LEN] = from.try_into().ok()?;
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|b| u64::from_be_bytes(b.try_into().expect("eight bytes")));
        let mut next = || numbers.next().unwrap_or(0);
        let head = next();
        (head >> 32 == u64::from(MAGIC)).then_some(())?;
        Some(Receipt {
            flow: head as u32,
            packets: next(),
            reordered: next(),
            duplicates: next(),
            jitter: next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let stamp = Stamp {
            flow: 7,
            number: 1 << 40,
            time: u64::MAX,
            end: true,
        };
        let mut bytes = [0; Stamp::LEN];
        stamp.write(&mut bytes);
        assert_eq!(Stamp::read(&bytes), Some(stamp));
        assert_eq!(Stamp::read(&bytes[..24]), None);
        bytes[0] = 0;
        assert_eq!(Stamp::read(&bytes), None);

        let receipt = Receipt {
            flow: u32::MAX,
            packets: 1,
            reordered: 2,
            duplicates: 3,
            jitter: 4,
        };
        assert_eq!(Receipt::read(&receipt.write()), Some(receipt));
        assert_eq!(Receipt::read(&[0; Receipt::LEN]), None);
        assert_eq!(Receipt::read(b"hello"), None);
    }
}
