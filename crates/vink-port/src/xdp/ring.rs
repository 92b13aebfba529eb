//! Memory that a process shares with the host's AF_XDP (Documentation/networking/af_xdp.rst): frames, and rings of their
//! addresses. Of a ring one side is the producer and the other the consumer.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use vink_sys::mapping::{Mapping, Pages};
use vink_sys::rustix::net::xdp::XdpRingOffset;

/// Entries of a ring; a power of two.
pub const ENTRIES: u32 = 2048;
const PAGE: usize = 4096;
/// Of a ring's flags: the host wants to be called before it goes on.
const NEED_WAKEUP: u32 = 1;

/// Bytes of frames; `None` where there are not that many.
///
/// # Safety
/// The host has no descriptor of them meanwhile, and they are not had a second time.
pub unsafe fn bytes(frames: &mut Mapping, at: usize, length: usize) -> Option<&mut [u8]> {
    let end = at.checked_add(length)?;
    let start = frames.start().cast::<u8>();
    // SAFETY: within the mapping, and the caller's alone.
    (end <= frames.len()).then(|| unsafe { std::slice::from_raw_parts_mut(start.add(at), length) })
}

/// One of the four rings, with entries of `T`: an address, or an address and a length.
pub struct Ring<T> {
    mapping: Mapping,
    offsets: XdpRingOffset,
    /// How many entries this side has produced or consumed.
    own: u32,
    entry: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps the ring at this place of the socket's.
    ///
    /// # Errors
    /// As mmap(2).
    pub fn map(socket: &OwnedFd, place: u64, offsets: XdpRingOffset) -> io::Result<Ring<T>> {
        let length = offsets.desc as usize + ENTRIES as usize * size_of::<T>();
        let mapping = Mapping::new(length.next_multiple_of(PAGE))?;
        mapping.replace(0..mapping.len(), Pages::Shared(socket.as_fd(), place))?;
        Ok(Ring {
            mapping,
            offsets,
            own: 0,
            entry: PhantomData,
        })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        let start = self.mapping.start().cast::<u8>();
        // SAFETY: the host has placed a word there, aligned and within the mapping.
        unsafe { &*start.add(offset as usize).cast() }
    }

    fn entry(&self) -> *mut T {
        let start = self.mapping.start().cast::<u8>();
        // SAFETY: one of the entries, which begin at that offset.
        unsafe {
            let first = start.add(self.offsets.desc as usize).cast::<T>();
            first.add((self.own % ENTRIES) as usize)
        }
    }

    /// As the producer: room for so many entries.
    pub fn room(&self) -> u32 {
        let consumed = self.word(self.offsets.consumer).load(Ordering::Acquire);
        ENTRIES.saturating_sub(self.own.wrapping_sub(consumed))
    }

    /// As the producer: an entry, for which there is room.
    pub fn push(&mut self, entry: T) {
        debug_assert!(self.room() > 0);
        // SAFETY: the host does not read it before it is published.
        unsafe { self.entry().write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// As the producer: gives the entries to the host.
    pub fn publish(&self) {
        let producer = self.word(self.offsets.producer);
        producer.store(self.own, Ordering::Release);
    }

    /// As the producer: so many entries have not been consumed.
    pub fn waiting(&self) -> u32 {
        ENTRIES - self.room()
    }

    /// As the consumer: so many entries are there.
    pub fn ready(&self) -> u32 {
        let produced = self.word(self.offsets.producer).load(Ordering::Acquire);
        produced.wrapping_sub(self.own).min(ENTRIES)
    }

    /// As the consumer: the next entry, if there is one.
    pub fn take(&mut self) -> Option<T> {
        if self.ready() == 0 {
            return None;
        }
        // SAFETY: the host has written it, and does not before it is released.
        let entry = unsafe { self.entry().read() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// As the consumer: gives the entries back.
    pub fn release(&self) {
        let consumer = self.word(self.offsets.consumer);
        consumer.store(self.own, Ordering::Release);
    }

    /// The host sleeps, and has to be called.
    pub fn needs_wakeup(&self) -> bool {
        let flags = self.offsets.flags.map(|at| self.word(at));
        flags.is_none_or(|flags| flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }
}
