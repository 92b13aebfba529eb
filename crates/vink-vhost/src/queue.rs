//! A split virtqueue from the device's side: virtio 1.2, section 2.7.
//!
//! Descriptors, rings and buffers are in the guest's memory, and the guest may write anything there
//! at any time. So a descriptor is copied before it is looked at, each address is looked up in the
//! guest's memory, and a chain has an end. What can not be is [`Broken`]: the queue is not served
//! any more.

use std::num::Wrapping;
use std::sync::atomic::{fence, Ordering};

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

/// `VIRTQ_DESC_F_*`.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// `VIRTQ_AVAIL_F_NO_INTERRUPT`: of a driver that does not want to be told.
const NO_INTERRUPT: u16 = 1;
/// `VIRTQ_USED_F_NO_NOTIFY`: of a device that looks anyway.
const NO_NOTIFY: u16 = 1;
/// Bytes of a descriptor.
const DESCRIPTOR: u64 = 16;
/// The most descriptors of an indirect table, as Linux's vhost has it.
const MOST_INDIRECT: u16 = 1024;
/// The most descriptors of a queue.
pub(crate) const MOST: u16 = 32768;

/// What the guest has written can not be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("it has {0} new buffers, of {1} that there are")]
    Count(u16, u16),
    #[error("descriptor {0}, of {1} that there are")]
    Descriptor(u16, u16),
    #[error("a chain of descriptors without an end")]
    Loop,
    #[error("a descriptor of the wrong direction")]
    Direction,
    #[error("an indirect descriptor that can not be")]
    Indirect,
    #[error("an address outside of its memory: {0}")]
    Memory(#[from] GuestMemoryError),
}

/// Part of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) at: GuestAddress,
    pub(crate) length: usize,
}

/// Where the parts of a queue are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) size: u16,
    pub(crate) descriptors: GuestAddress,
    pub(crate) available: GuestAddress,
    pub(crate) used: GuestAddress,
}

/// What was negotiated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// `VIRTIO_F_INDIRECT_DESC`.
    pub(crate) indirect: bool,
    /// `VIRTIO_F_EVENT_IDX`: each side says from which buffer on it is to be told.
    pub(crate) event_index: bool,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    place: Place,
    manners: Manners,
    /// Where the next buffer is in the ring of available ones, and in that of used ones.
    next: Wrapping<u16>,
    used: Wrapping<u16>,
    /// Up to where the guest was told of used ones.
    told: Wrapping<u16>,
}

impl Queue {
    /// One whose first buffer is `base`.
    pub(crate) fn new(
        memory: &GuestMemoryMmap,
        place: Place,
        manners: Manners,
        base: u16,
    ) -> Result<Queue, Broken> {
        let used = memory.load(field(place.used, 2), Ordering::Acquire)?;
        let used = Wrapping(u16::from_le(used));
        let queue = Queue {
            place,
            manners,
            next: Wrapping(base),
            used,
            told: used,
        };
        queue.be_quiet(memory)?;
        Ok(queue)
    }

    /// The next buffer, for the device that goes on with it.
    pub(crate) fn base(&self) -> u16 {
        self.next.0
    }

    /// The most buffers that it can have.
    pub(crate) fn size(&self) -> u16 {
        self.place.size
    }

    /// How many buffers the guest has made available.
    pub(crate) fn available(&self, memory: &GuestMemoryMmap) -> Result<u16, Broken> {
        let index = memory.load(field(self.place.available, 2), Ordering::Acquire)?;
        let count = (Wrapping(u16::from_le(index)) - self.next).0;
        match count > self.place.size {
            true => Err(Broken::Count(count, self.place.size)),
            false => Ok(count),
        }
    }

    /// The parts of the available buffer `n` from the next one on, to which the device may write, or
    /// from which it may read: they are added to `spans`. Its number, and bytes.
    pub(crate) fn buffer(
        &self,
        memory: &GuestMemoryMmap,
        n: u16,
        is_written: bool,
        spans: &mut Vec<Span>,
    ) -> Result<(u16, usize), Broken> {
        let slot = u64::from((self.next.0.wrapping_add(n)) % self.place.size);
        let head = memory.load(field(self.place.available, 4 + 2 * slot), Ordering::Relaxed)?;
        let head = u16::from_le(head);
        let mut table = (self.place.descriptors, self.place.size);
        let (mut number, mut left, mut bytes) = (head, self.place.size, 0);
        let mut is_indirect = false;
        loop {
            let (first, size) = table;
            if number >= size {
                return Err(Broken::Descriptor(number, size));
            }
            left = left.checked_sub(1).ok_or(Broken::Loop)?;
            let mut raw = [0; DESCRIPTOR as usize];
            memory.read_slice(&mut raw, field(first, DESCRIPTOR * u64::from(number)))?;
            let descriptor = Descriptor::from(raw);
            if descriptor.flags & INDIRECT != 0 {
                if is_indirect {
                    return Err(Broken::Indirect);
                }
                is_indirect = true;
                table = self.indirect(descriptor)?;
                (number, left) = (0, table.1);
                continue;
            }
            if (descriptor.flags & WRITE != 0) != is_written {
                return Err(Broken::Direction);
            }
            let length = descriptor.length as usize;
            bytes += length;
            spans.push(Span {
                at: descriptor.at,
                length,
            });
            if descriptor.flags & NEXT == 0 {
                return Ok((head, bytes));
            }
            number = descriptor.next;
        }
    }

    /// The table that the last descriptor of a chain leads to, in which the chain goes on: its
    /// start, and how many descriptors it has.
    fn indirect(&self, descriptor: Descriptor) -> Result<(GuestAddress, u16), Broken> {
        let length = u64::from(descriptor.length);
        let count = length / DESCRIPTOR;
        let fits = (1..=u64::from(MOST_INDIRECT)).contains(&count);
        let is_whole = length.is_multiple_of(DESCRIPTOR) && descriptor.flags & NEXT == 0;
        match self.manners.indirect && fits && is_whole {
            true => Ok((descriptor.at, count as u16)),
            false => Err(Broken::Indirect),
        }
    }

    /// The next buffer is used, and so many bytes were written to it. The guest sees that from
    /// [`Queue::publish`] on.
    pub(crate) fn put_used(
        &mut self,
        memory: &GuestMemoryMmap,
        head: u16,
        bytes: u32,
    ) -> Result<(), Broken> {
        let slot = u64::from(self.used.0 % self.place.size);
        let element = u64::from(head) | u64::from(bytes) << 32;
        let at = field(self.place.used, 4 + 8 * slot);
        memory.write_slice(&element.to_le_bytes(), at)?;
        self.next += 1;
        self.used += 1;
        Ok(())
    }

    /// Shows the guest what was used.
    pub(crate) fn publish(&self, memory: &GuestMemoryMmap) -> Result<(), Broken> {
        let index = self.used.0.to_le();
        Ok(memory.store(index, field(self.place.used, 2), Ordering::Release)?)
    }

    /// Whether the guest wants to be told of what was used since this was last asked.
    pub(crate) fn is_to_be_told(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Broken> {
        let before = std::mem::replace(&mut self.told, self.used);
        if before == self.used {
            return Ok(false);
        }
        // Either the guest sees what was used, or this sees what it wants.
        fence(Ordering::SeqCst);
        if !self.manners.event_index {
            let flags = memory.load(self.place.available, Ordering::Relaxed)?;
            return Ok(u16::from_le(flags) & NO_INTERRUPT == 0);
        }
        let at = field(self.place.available, 4 + 2 * u64::from(self.place.size));
        let event = Wrapping(u16::from_le(memory.load(at, Ordering::Relaxed)?));
        // The buffer is among the new ones.
        Ok((self.used - event - Wrapping(1)) < (self.used - before))
    }

    /// Has the guest tell when there are more than these available buffers. False if there are now.
    pub(crate) fn listen(&self, memory: &GuestMemoryMmap, available: u16) -> Result<bool, Broken> {
        if self.manners.event_index {
            let event = (self.next + Wrapping(available)).0.to_le();
            memory.store(event, self.event(), Ordering::Relaxed)?;
        } else {
            memory.store(0_u16, self.place.used, Ordering::Relaxed)?;
        }
        // Either the guest sees this, or this sees its buffers.
        fence(Ordering::SeqCst);
        Ok(self.available(memory)? == available)
    }

    /// The device looks by itself.
    pub(crate) fn be_quiet(&self, memory: &GuestMemoryMmap) -> Result<(), Broken> {
        if self.manners.event_index {
            // What it has asked for is over with the first one that it was told of.
            return Ok(());
        }
        let flags = NO_NOTIFY.to_le();
        Ok(memory.store(flags, self.place.used, Ordering::Relaxed)?)
    }

    /// Where the device says from which buffer on it is to be told.
    fn event(&self) -> GuestAddress {
        field(self.place.used, 4 + 8 * u64::from(self.place.size))
    }
}

/// A copy of a descriptor.
#[derive(Clone, Copy)]
struct Descriptor {
    at: GuestAddress,
    length: u32,
    flags: u16,
    next: u16,
}

impl From<[u8; DESCRIPTOR as usize]> for Descriptor {
    fn from(raw: [u8; DESCRIPTOR as usize]) -> Descriptor {
        let raw = u128::from_le_bytes(raw);
        Descriptor {
            at: GuestAddress(raw as u64),
            length: (raw >> 64) as u32,
            flags: (raw >> 96) as u16,
            next: (raw >> 112) as u16,
        }
    }
}

/// An address beyond the largest one is in no memory.
fn field(start: GuestAddress, offset: u64) -> GuestAddress {
    GuestAddress(start.0.saturating_add(offset))
}
