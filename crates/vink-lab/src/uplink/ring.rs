//! One direction of a wire in shared memory: a ring of frames with one producer and one consumer.
//!
//! The memory is a sealed memfd: a page of control words, and the ring. The ring is mapped twice in a row, so
//! that no frame is ever in two pieces: the kernel's read(2) puts it where its write(2) in the other worker takes
//! it from. `head` counts the bytes produced, `tail` those consumed; each side believes only its own copy of what
//! it counts itself, and checks what the other one says against the ring's size. A frame is its length (4 bytes),
//! 4 bytes of nothing, and its bytes, up to a multiple of 8.
//!
//! A side that finds nothing to do leaves a flag before it sleeps, looks once more, and is woken by who sees the
//! flag. All between the two sides that is not a control word is bytes of frames, which only the kernels read; a
//! peer that goes mad can spoil its own frames, and end the wire.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

use super::far::LARGEST;
use super::poll::descriptor;

/// Bytes of frames on their way: a power of two.
const SIZE: usize = 2 << 20;
/// Bytes of the page in front.
const CONTROL: usize = 4096;
/// In front of each frame.
const LEAD: usize = 8;
/// What a frame takes at most.
const MOST: usize = LEAD + LARGEST.next_multiple_of(8);

/// The control words, each on cache lines of its own.
#[repr(C)]
struct Words {
    head: Line<AtomicU64>,
    tail: Line<AtomicU64>,
    /// The consumer sleeps.
    asleep: Line<AtomicU32>,
    /// The producer waits for room.
    starved: Line<AtomicU32>,
}

/// Two lines: processors fetch pairs.
#[repr(C, align(128))]
struct Line<T>(T);

/// A mapping of the memory.
struct Mapping(NonNull<u8>);

const MAPPED: usize = CONTROL + 2 * SIZE;

/// The other side has written what can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// Makes the memory of a ring.
///
/// # Errors
/// As memfd_create(2), ftruncate(2) and fcntl(2).
pub(crate) fn memory() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: makes a descriptor.
    let memory = descriptor(unsafe { libc::memfd_create(c"vink wire".as_ptr(), flags) })?;
    let length = (CONTROL + SIZE) as libc::off_t;
    // SAFETY: the first changes the file, the second takes numbers.
    unsafe {
        if libc::ftruncate(memory.as_raw_fd(), length) < 0
            || libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, SEALS) < 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(memory)
}

/// What makes sure that a mapping stays backed.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl Mapping {
    /// Maps what [`memory`] made, perhaps in another process.
    fn new(memory: impl AsFd) -> io::Result<Mapping> {
        let file = memory.as_fd().as_raw_fd();
        // SAFETY: all zero is a valid value of this plain structure, which fstat() fills in.
        let (seals, length) = unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            if libc::fstat(file, &mut status) < 0 {
                return Err(io::Error::last_os_error());
            }
            (libc::fcntl(file, libc::F_GET_SEALS), status.st_size)
        };
        if seals < 0 || seals & SEALS != SEALS || length != (CONTROL + SIZE) as libc::off_t {
            return Err(io::Error::other("this is not the memory of a wire"));
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, and others in its place, within it.
        unsafe {
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let start = libc::mmap(null_mut(), MAPPED, libc::PROT_NONE, private, -1, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let mapping = Mapping(NonNull::new_unchecked(start.cast()));
            let shared = libc::MAP_SHARED | libc::MAP_FIXED;
            for (at, from, length) in [(0, 0, CONTROL + SIZE), (CONTROL + SIZE, CONTROL, SIZE)] {
                let place = start.byte_add(at);
                let from = from as libc::off_t;
                if libc::mmap(place, length, protection, shared, file, from) == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
            }
            // A child of ours has no business with it.
            libc::madvise(start, MAPPED, libc::MADV_DONTFORK);
            Ok(mapping)
        }
    }

    fn words(&self) -> &Words {
        // SAFETY: the page is there, is aligned, and only accessed by atomics, as long as the mapping.
        unsafe { self.0.cast().as_ref() }
    }

    /// What is in the ring at this count, and a length within it.
    fn at(&self, count: u64, length: usize) -> *mut [u8] {
        assert!(length <= SIZE);
        let at = CONTROL + (count % SIZE as u64) as usize;
        // SAFETY: within the mapping, since less than twice the size.
        let start = unsafe { self.0.as_ptr().add(at) };
        std::ptr::slice_from_raw_parts_mut(start, length)
    }

    /// The length of the frame there.
    fn length(&self, count: u64) -> &AtomicU32 {
        // SAFETY: within the mapping and aligned, as counts are multiples of 8; only accessed by atomics.
        unsafe { &*self.at(count, LEAD).cast::<AtomicU32>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), MAPPED) };
    }
}

/// Puts frames in.
pub(crate) struct Producer {
    mapping: Mapping,
    /// Produced, and perhaps not published.
    head: u64,
    /// What the consumer last said.
    tail: u64,
    published: u64,
}

impl Producer {
    /// Of a ring in which nothing has been produced.
    pub(crate) fn new(memory: impl AsFd) -> io::Result<Producer> {
        Ok(Producer {
            mapping: Mapping::new(memory)?,
            head: 0,
            tail: 0,
            published: 0,
        })
    }

    /// Where the next frame is to be put; `None` if there is no room, which the consumer will tell of.
    pub(crate) fn room(&mut self) -> Result<Option<&mut [u8]>, Corrupt> {
        if !self.has_room() {
            let words = self.mapping.words();
            self.tail = words.tail.0.load(Ordering::Acquire);
            if !self.has_room() {
                words.starved.0.store(1, Ordering::Relaxed);
                // Either we see what the consumer frees now, or it sees the flag.
                fence(Ordering::SeqCst);
                self.tail = words.tail.0.load(Ordering::Acquire);
            }
            // The consumer can't be ahead of us, nor so far behind.
            if self.head.wrapping_sub(self.tail) > SIZE as u64 {
                return Err(Corrupt);
            }
            if !self.has_room() {
                return Ok(None);
            }
            words.starved.0.store(0, Ordering::Relaxed);
        }
        let place = self.mapping.at(self.head + LEAD as u64, LARGEST);
        // SAFETY: the room is the producer's alone until it is published. A peer that writes there all the same
        // changes bytes that are given to system calls only.
        Ok(Some(unsafe { &mut *place }))
    }

    fn has_room(&self) -> bool {
        self.head.wrapping_sub(self.tail) <= (SIZE - MOST) as u64
    }

    /// A frame of this length has been put there.
    pub(crate) fn put(&mut self, length: usize) {
        let word = self.mapping.length(self.head);
        word.store(length as u32, Ordering::Relaxed);
        self.head += (LEAD + length).next_multiple_of(8) as u64;
    }

    /// Shows the consumer what has been put; true if it sleeps and must be woken.
    pub(crate) fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        let words = self.mapping.words();
        words.head.0.store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        words.asleep.0.load(Ordering::Relaxed) != 0
            && words.asleep.0.swap(0, Ordering::Relaxed) != 0
    }
}

/// Takes frames out.
pub(crate) struct Consumer {
    mapping: Mapping,
    tail: u64,
    /// What the producer last said.
    head: u64,
}

impl Consumer {
    /// Of a ring of which nothing has been consumed.
    pub(crate) fn new(memory: impl AsFd) -> io::Result<Consumer> {
        Ok(Consumer {
            mapping: Mapping::new(memory)?,
            tail: 0,
            head: 0,
        })
    }

    /// The next frame; `None` if there is none, and then the producer wakes us when there is one.
    pub(crate) fn frame(&mut self) -> Result<Option<&[u8]>, Corrupt> {
        if self.head == self.tail {
            let words = self.mapping.words();
            self.head = words.head.0.load(Ordering::Acquire);
            if self.head == self.tail {
                words.asleep.0.store(1, Ordering::Relaxed);
                // Either we see what the producer shows now, or it sees the flag.
                fence(Ordering::SeqCst);
                self.head = words.head.0.load(Ordering::Acquire);
                if self.head == self.tail {
                    return Ok(None);
                }
                words.asleep.0.store(0, Ordering::Relaxed);
            }
        }
        let there = self.head.wrapping_sub(self.tail);
        if there > SIZE as u64 || self.head & 7 != 0 {
            return Err(Corrupt);
        }
        let length = self.mapping.length(self.tail).load(Ordering::Relaxed) as usize;
        if length > LARGEST || (LEAD + length).next_multiple_of(8) as u64 > there {
            return Err(Corrupt);
        }
        let place = self.mapping.at(self.tail + LEAD as u64, length);
        self.tail += (LEAD + length).next_multiple_of(8) as u64;
        // SAFETY: published, and not given back before release(). A peer that writes there all the same changes
        // bytes that are given to system calls only.
        Ok(Some(unsafe { &*place }))
    }

    /// Gives back the room of the frames that were had; true if the producer waits for it and must be woken.
    pub(crate) fn release(&mut self) -> bool {
        let words = self.mapping.words();
        words.tail.0.store(self.tail, Ordering::Release);
        fence(Ordering::SeqCst);
        words.starved.0.load(Ordering::Relaxed) != 0
            && words.starved.0.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> (OwnedFd, Producer, Consumer) {
        let memory = memory().expect("memory");
        let producer = Producer::new(&memory).expect("a producer");
        let consumer = Consumer::new(&memory).expect("a consumer");
        (memory, producer, consumer)
    }

    fn put(producer: &mut Producer, length: usize, byte: u8) -> bool {
        let Some(room) = producer.room().expect("a sound ring") else {
            return false;
        };
        room[..length].fill(byte);
        producer.put(length);
        true
    }

    #[test]
    fn frames_come_out_as_they_went_in() {
        let (_memory, mut producer, mut consumer) = ring();
        let mut random = 1u64;
        let (mut sent, mut received) = (0u64, 0u64);
        let length =
            |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (LARGEST + 1);
        while received < 5000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            for _ in 0..random >> 58 {
                if !put(&mut producer, length(sent), sent as u8) {
                    break;
                }
                sent += 1;
            }
            producer.publish();
            for _ in 0..random >> 53 & 63 {
                let Some(frame) = consumer.frame().expect("a sound ring") else {
                    break;
                };
                assert_eq!(frame.len(), length(received));
                assert!(frame.iter().all(|byte| *byte == received as u8));
                received += 1;
            }
            consumer.release();
        }
        assert!(producer.head > 10 * SIZE as u64);
    }

    #[test]
    fn who_sleeps_is_woken() {
        let (_memory, mut producer, mut consumer) = ring();
        put(&mut producer, 100, 1);
        assert!(!producer.publish(), "nobody sleeps");
        assert!(consumer.frame().expect("sound").is_some());
        assert!(consumer.frame().expect("sound").is_none());
        put(&mut producer, 100, 1);
        assert!(producer.publish());
        put(&mut producer, 100, 1);
        assert!(!producer.publish(), "once is enough");
        while put(&mut producer, LARGEST, 2) {}
        producer.publish();
        assert!(consumer.frame().expect("sound").is_some());
        assert!(consumer.release());
        assert!(!consumer.release());
        assert!(!producer.publish(), "there was nothing new");
    }

    #[test]
    fn threads() {
        let memory = memory().expect("memory");
        let mut consumer = Consumer::new(&memory).expect("a consumer");
        const COUNT: u32 = 200_000;
        let sender = std::thread::spawn(move || {
            let mut producer = Producer::new(&memory).expect("a producer");
            for n in 0..COUNT {
                loop {
                    if let Some(room) = producer.room().expect("sound") {
                        room[..4].copy_from_slice(&n.to_ne_bytes());
                        break;
                    }
                    std::thread::yield_now();
                }
                producer.put(4 + n as usize % 1500);
                producer.publish();
            }
        });
        let mut next = 0u32;
        while next < COUNT {
            match consumer.frame().expect("sound") {
                Some(frame) => {
                    assert_eq!(frame[..4], next.to_ne_bytes());
                    assert_eq!(frame.len(), 4 + next as usize % 1500);
                    next += 1;
                }
                None => std::thread::yield_now(),
            }
            consumer.release();
        }
        sender.join().expect("its end");
    }

    /// A peer that writes anything anywhere.
    #[test]
    fn garbage_is_noticed_or_harmless() {
        let mut random = 7u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 16
        };
        let mut noticed = 0;
        for _ in 0..300 {
            let (memory, mut producer, mut consumer) = ring();
            let peer = Mapping::new(&memory).expect("a mapping");
            for _ in 0..20 {
                for _ in 0..next() % 4 {
                    put(&mut producer, next() as usize % LARGEST, 1);
                }
                producer.publish();
                let words = peer.words();
                let value = next() << (next() % 48);
                match next() % 6 {
                    0 => words.head.0.store(value, Ordering::Relaxed),
                    1 => words.tail.0.store(value, Ordering::Relaxed),
                    2 => words.asleep.0.store(value as u32, Ordering::Relaxed),
                    3 => words.starved.0.store(value as u32, Ordering::Relaxed),
                    _ => {
                        let at = value & (SIZE as u64 - 1) & !7;
                        peer.length(at).store(next() as u32, Ordering::Relaxed);
                    }
                }
                let mut frames = 0;
                let ended = loop {
                    match consumer.frame() {
                        Ok(Some(frame)) => frames += usize::from(frame.len() <= LARGEST),
                        Ok(None) => break false,
                        Err(Corrupt) => break true,
                    }
                    assert!(frames <= SIZE / LEAD);
                };
                consumer.release();
                if ended || producer.room().is_err() {
                    noticed += 1;
                    break;
                }
            }
        }
        assert!(noticed > 100, "{noticed}");
    }

    #[test]
    fn other_memory_is_refused() {
        // SAFETY: makes a descriptor.
        let unsealed = unsafe { libc::memfd_create(c"other".as_ptr(), libc::MFD_CLOEXEC) };
        let unsealed = descriptor(unsealed).expect("memory");
        assert!(Consumer::new(&unsealed).is_err());
        let file = std::fs::File::open("/dev/null").expect("a file");
        assert!(Producer::new(&file).is_err());
    }
}
