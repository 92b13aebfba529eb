//! The feed: what a viewer of a lab wants to see, and the frames that it gets, little-endian.
//!
//! A worker writes frames to a descriptor of its own for each feed; the control process numbers them
//! and gives them to viewers as they are. docs/api.md has the format.

use serde::{Deserialize, Serialize};

use crate::Filter;

/// Bytes in front of a frame's records.
pub const FEED_HEADER: usize = 24;

/// What a frame's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FeedKind {
    /// Packets under way.
    Flights = 0,
    /// What ends have counted that have counted something since.
    Counters = 1,
    /// How many packets wait at ends where that has changed.
    Queues = 2,
    /// None: the lab's time.
    Clock = 3,
    /// What all ends have counted.
    Keyframe = 4,
}

impl FeedKind {
    /// The kind of this number.
    pub fn of(number: u8) -> Option<FeedKind> {
        [
            FeedKind::Flights,
            FeedKind::Counters,
            FeedKind::Queues,
            FeedKind::Clock,
            FeedKind::Keyframe,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == number)
    }

    /// Bytes of one record.
    pub fn record(self) -> usize {
        match self {
            FeedKind::Flights => 24,
            FeedKind::Counters | FeedKind::Keyframe => 32,
            FeedKind::Queues => 8,
            FeedKind::Clock => 0,
        }
    }
}

/// What is in front of a frame's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedHeader {
    /// What they are.
    pub kind: FeedKind,
    /// The lowest bits of the topology's revision by whose numbers they name ends.
    pub revision: u8,
    /// How many there are.
    pub count: u16,
    /// The frame's number.
    pub seq: u32,
    /// ns of the kernel's clock, to which the records' times are added.
    pub base: u64,
    /// Flights that should have been here, but came faster than they could be carried.
    pub missed: u32,
    /// One of so many flights was taken, beside those that are always taken.
    pub one_in: u32,
}

impl FeedHeader {
    /// As it is written.
    pub fn to_bytes(self) -> [u8; FEED_HEADER] {
        let mut bytes = [0; FEED_HEADER];
        bytes[0] = self.kind as u8;
        bytes[1] = self.revision;
        bytes[2..4].copy_from_slice(&self.count.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.base.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.missed.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.one_in.to_le_bytes());
        bytes
    }

    /// The one that the bytes begin with; `None`: there is none.
    pub fn read(bytes: &[u8]) -> Option<FeedHeader> {
        let bytes: &[u8; FEED_HEADER] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        Some(FeedHeader {
            kind: FeedKind::of(bytes[0])?,
            revision: bytes[1],
            count: u16::from_le_bytes([bytes[2], bytes[3]]),
            seq: word(4),
            base: u64::from(word(8)) | u64::from(word(12)) << 32,
            missed: word(16),
            one_in: word(20),
        })
    }

    /// Bytes of the records behind it.
    pub fn records(&self) -> usize {
        usize::from(self.count) * self.kind.record()
    }
}

/// What a viewer wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRequest {
    /// A flight's class is the place of the first that fits, from 1 on; 0: none does.
    pub classes: Vec<Filter>,
    /// Flights that are always told.
    pub follow: Option<Filter>,
    /// ... and those of this flow.
    #[serde(default)]
    pub flow: Option<u32>,
    /// How often counters and queues are told, in 1/s; 0: never.
    pub hz: u32,
    /// Which flights are told.
    pub detail: Option<FeedDetail>,
}

/// Which flights are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedDetail {
    /// Those that these ends send, by their names in [`EndNumber`]; `None`: all.
    pub ends: Option<Vec<String>>,
    /// So many a second.
    pub budget: u32,
}

/// The number of an end in frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndNumber {
    /// `machine:interface`; or `:wire`, for its end outside.
    pub end: String,
    /// The number.
    pub number: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_was_written() {
        let header = FeedHeader {
            kind: FeedKind::Queues,
            revision: 7,
            count: 513,
            seq: 0x0102_0304,
            base: 0x0506_0708_090a_0b0c,
            missed: 1,
            one_in: 64,
        };
        let bytes = header.to_bytes();
        assert_eq!(FeedHeader::read(&bytes), Some(header));
        assert_eq!(bytes[..4], [2, 7, 1, 2]);
        assert_eq!(header.records(), 513 * 8);
        assert_eq!(FeedHeader::read(&bytes[1..]), None);
        assert_eq!(FeedHeader::read(&[5; FEED_HEADER]), None);
    }
}
