//! A guest without a virtual machine: a front-end, its memory, and the driver of two queues in it;
//! and a port for it, whose wire the test has the other end of.
#![allow(dead_code)] // Each test file uses a part.

use std::fs::File;
use std::num::Wrapping;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::thread::JoinHandle;

use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vink_port::{Counts, Driver, End, PeerState, Rendezvous, Taken, HEADER, LARGEST_SHARED};
use vink_sys::poll::is_readable;
use vink_vhost::VhostUserBackend;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EventFd, EFD_NONBLOCK};

pub const VERSION_1: u64 = 1 << 32;
pub const PROTOCOL: u64 = 1 << 30;
pub const EVENT_IDX: u64 = 1 << 29;
pub const INDIRECT: u64 = 1 << 28;
pub const MRG_RXBUF: u64 = 1 << 15;
/// CSUM, HOST_TSO4, HOST_TSO6, HOST_ECN.
pub const SENDS_LARGE: u64 = 1 | 1 << 11 | 1 << 12 | 1 << 13;
/// GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, GUEST_ECN.
pub const TAKES_LARGE: u64 = 1 << 1 | 1 << 7 | 1 << 8 | 1 << 9;
pub const ALL: u64 =
    VERSION_1 | PROTOCOL | EVENT_IDX | INDIRECT | MRG_RXBUF | SENDS_LARGE | TAKES_LARGE;

/// Descriptors of a queue.
pub const SIZE: u16 = 256;
/// The guest's memory is in two pieces: queues are in the first one, buffers in the second one.
pub const QUEUES: u64 = 0x10_0000;
pub const BUFFERS: u64 = 0x4000_0000;
pub const PIECE: u64 = 48 << 20;
/// Where the front-end has it.
const THERE: u64 = 0x7f00_0000_0000;

pub const RECEIVES: usize = 0;
pub const SENDS: usize = 1;

/// Longer than anything takes, in milliseconds.
const TIMEOUT_MS: i32 = 60_000;

/// A driver process's loop, and the other end of its wire.
pub struct Port {
    pub path: PathBuf,
    host: Rendezvous,
    links: Receiver<String>,
    thread: Option<JoinHandle<Counts>>,
    lifeline: Option<UnixStream>,
}

impl Port {
    pub fn new() -> Port {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("vink-vhost-{pid}-{count}"));
        let (host, asker) = UnixStream::pair().expect("sockets");
        let (lifeline, its) = UnixStream::pair().expect("sockets");
        let (tell, links) = channel();
        let place = path.clone();
        let thread = std::thread::spawn(move || {
            let backend = VhostUserBackend::listen(&place).expect("a backend");
            let asker = Rendezvous::asker(asker.into()).expect("a rendezvous");
            let driver = Driver::new(asker, Box::new(backend));
            let told = |link: &vink_port::LinkState| tell.send(link.to_string()).expect("heard");
            driver.run([Some(its.as_fd()), None], told).expect("no end")
        });
        let port = Port {
            path,
            host: Rendezvous::host(host.into()).expect("a rendezvous"),
            links,
            thread: Some(thread),
            lifeline: Some(lifeline),
        };
        assert!(port.link().contains("no virtual machine"));
        port
    }

    /// The next state of its link.
    pub fn link(&self) -> String {
        let timeout = std::time::Duration::from_millis(TIMEOUT_MS as u64);
        self.links.recv_timeout(timeout).expect("a change")
    }

    /// The states of its link, up to one with this text.
    pub fn wait_for_link(&self, text: &str) {
        while !self.link().contains(text) {}
    }

    /// The other end of its wire, once a guest's driver is there.
    pub fn wire(&mut self) -> Wire {
        while self.link() != "up" {}
        loop {
            if let Some(half) = self.host.answer(false) {
                return Wire(End::new(half).expect("an end"));
            }
            assert!(is_readable(&self.host, TIMEOUT_MS), "it does not ask");
        }
    }

    /// Ends it: what it has moved. It has not panicked.
    pub fn end(mut self) -> Counts {
        drop(self.lifeline.take());
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("no panic")
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "it panicked");
        }
    }
}

/// The other end of a port's wire.
pub struct Wire(pub End);

impl Wire {
    pub fn send(&mut self, header: [u8; HEADER], frame: &[u8]) {
        self.0.send(&header, frame);
        while self.0.is_full() {
            self.sleep(false);
            self.0.go_on();
        }
    }

    fn sleep(&mut self, frames: bool) {
        if self.0.may_sleep(frames) {
            assert!(is_readable(&self.0, TIMEOUT_MS), "nothing comes");
        }
        self.0.wake();
        assert!(!matches!(self.0.hear(), PeerState::Gone(_)), "it is gone");
    }

    /// The next frame, and its header.
    pub fn receive(&mut self) -> ([u8; HEADER], Vec<u8>) {
        let mut room = vec![0; HEADER + LARGEST_SHARED];
        loop {
            match self.0.receive(&mut room) {
                Taken::Frame(length) => {
                    self.0.taken();
                    let header = *room.first_chunk().expect("a header");
                    return (header, room[HEADER..length].to_vec());
                }
                Taken::TooLong => panic!("too long"),
                Taken::Nothing => self.sleep(true),
            }
        }
    }
}

/// A guest and its front-end.
pub struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap,
    pub file: File,
    pub features: u64,
    pub queues: [Queue; 2],
}

/// A queue, from the driver's side.
pub struct Queue {
    index: u64,
    has_events: bool,
    descriptor: u16,
    pub available: Wrapping<u16>,
    used: Wrapping<u16>,
    pub kick: EventFd,
    call: EventFd,
}

impl Guest {
    /// Connects, and does all but to start the queues.
    pub fn connect(path: &Path, features: u64) -> Guest {
        let file = vink_sys::fd::in_memory(c"guest").expect("memory");
        file.set_len(2 * PIECE).expect("its size");
        let piece = |start, n: u64| {
            let file = FileOffset::new(file.try_clone().expect("a descriptor"), n * PIECE);
            (GuestAddress(start), PIECE as usize, Some(file))
        };
        let pieces = [piece(QUEUES, 0), piece(BUFFERS, 1)];
        let memory = GuestMemoryMmap::from_ranges_with_files(pieces).expect("its memory");
        Guest::with_memory(path, features, memory, file)
    }

    fn with_memory(path: &Path, features: u64, memory: GuestMemoryMmap, file: File) -> Guest {
        let queue = |index| Queue {
            index,
            has_events: features & EVENT_IDX != 0,
            descriptor: 0,
            available: Wrapping(0),
            used: Wrapping(0),
            kick: EventFd::new(EFD_NONBLOCK).expect("an eventfd"),
            call: EventFd::new(EFD_NONBLOCK).expect("an eventfd"),
        };
        Guest {
            frontend: Frontend::connect(path, 2).expect("a connection"),
            memory,
            file,
            features,
            queues: [queue(0), queue(1)],
        }
    }

    /// The same guest after its front-end has lost the connection: the next buffers are those after
    /// the used ones.
    pub fn connect_again(self, port: &Port) -> Guest {
        drop(self.frontend);
        port.wait_for_link("is gone");
        let mut again = Guest::with_memory(&port.path, self.features, self.memory, self.file);
        again.queues = self.queues;
        again
    }

    /// Negotiates, and shares the memory.
    pub fn set_up(&mut self) {
        let regions = self.regions();
        let frontend = &mut self.frontend;
        frontend.set_owner().expect("set");
        let offered = frontend.get_features().expect("features");
        assert_eq!(self.features & !offered, 0, "{offered:#x}");
        if self.features & PROTOCOL != 0 {
            let protocol = frontend.get_protocol_features().expect("features");
            // No second pair of queues, no configuration: what is not served.
            assert_eq!(protocol, VhostUserProtocolFeatures::REPLY_ACK);
            frontend.set_protocol_features(protocol).expect("set");
        }
        frontend.set_features(self.features).expect("set");
        if self.features & PROTOCOL != 0 {
            frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        frontend.set_mem_table(&regions).expect("set");
    }

    pub fn regions(&self) -> [VhostUserMemoryRegionInfo; 2] {
        [(QUEUES, 0), (BUFFERS, 1)].map(|(start, n)| VhostUserMemoryRegionInfo {
            guest_phys_addr: start,
            memory_size: PIECE,
            userspace_addr: THERE + n * (PIECE + 0x1000),
            mmap_offset: n * PIECE,
            mmap_handle: self.file.as_raw_fd(),
        })
    }

    /// Where queue `n` is at the front-end.
    pub fn place(n: usize) -> VringConfigData {
        let start = THERE + 0x10000 * n as u64;
        VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: start,
            avail_ring_addr: start + AVAILABLE,
            used_ring_addr: start + USED,
            log_addr: None,
        }
    }

    /// Starts both queues.
    pub fn start(&mut self) {
        for n in [RECEIVES, SENDS] {
            let queue = &self.queues[n];
            let frontend = &mut self.frontend;
            frontend.set_vring_num(n, SIZE).expect("set");
            frontend.set_vring_base(n, queue.used.0).expect("set");
            frontend.set_vring_addr(n, &Guest::place(n)).expect("set");
            frontend.set_vring_call(n, &queue.call).expect("set");
            frontend.set_vring_kick(n, &queue.kick).expect("set");
            if self.features & PROTOCOL != 0 {
                frontend.set_vring_enable(n, true).expect("set");
            }
        }
    }

    /// Says by what queue `n` is told of used buffers.
    pub fn set_call(&mut self, n: usize) {
        let call = &self.queues[n].call;
        // What it was told by it before, if at all.
        let _ = call.read();
        self.frontend.set_vring_call(n, call).expect("set");
    }

    /// Waits until it was told.
    pub fn called(&self, n: usize) {
        self.queues[n].wait_for_call();
    }

    /// Connects, negotiates, starts.
    pub fn new(path: &Path, features: u64) -> Guest {
        let mut guest = Guest::connect(path, features);
        guest.set_up();
        guest.start();
        guest
    }

    /// Bytes of the header in front of a frame.
    pub fn header(&self) -> usize {
        match self.features & (VERSION_1 | MRG_RXBUF) {
            0 => 10,
            _ => 12,
        }
    }

    /// Makes a buffer of these parts available, as addresses and lengths.
    pub fn add(&mut self, n: usize, parts: &[(u64, u32)]) {
        let flags = if n == RECEIVES { WRITE } else { 0 };
        let descriptors: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(at, (address, length))| {
                let next = if at + 1 < parts.len() { NEXT } else { 0 };
                (*address, *length, flags | next)
            })
            .collect();
        self.queues[n].add(&self.memory, &descriptors);
    }

    /// Sends a frame in a buffer of parts of such lengths, which repeat.
    pub fn send(&mut self, header: [u8; 10], frame: &[u8], lengths: &[u32]) {
        let mut bytes = header.to_vec();
        bytes.resize(self.header(), 0);
        bytes.extend_from_slice(frame);
        while self.queues[SENDS].is_full(bytes.len().div_ceil(lengths[0] as usize) + 1) {
            self.sent();
        }
        // A place that no other frame in the queue has.
        let place = u64::from(self.queues[SENDS].available.0 % SIZE) * 0x2_0000;
        let start = BUFFERS + place;
        self.memory
            .write_slice(&bytes, GuestAddress(start))
            .expect("room");
        let (mut parts, mut at) = (Vec::new(), 0);
        for length in lengths.iter().cycle() {
            let length = (*length).min((bytes.len() - at) as u32);
            parts.push((start + at as u64, length));
            at += length as usize;
            if at == bytes.len() {
                break;
            }
        }
        self.add(SENDS, &parts);
        self.queues[SENDS].kick(&self.memory);
    }

    /// Waits until one more buffer was sent.
    pub fn sent(&mut self) {
        self.queues[SENDS].wait_used(&self.memory);
    }

    /// Has this many buffers of such a length for frames to come.
    pub fn offer(&mut self, count: usize, length: u32) {
        for _ in 0..count {
            let queue = &self.queues[RECEIVES];
            let place = u64::from(queue.available.0 % SIZE) * 0x2_0000;
            self.add(
                RECEIVES,
                &[(BUFFERS + PIECE / 2 + place % (PIECE / 2), length)],
            );
        }
        self.queues[RECEIVES].kick(&self.memory);
    }

    /// The next frame: its header, the frame, and in how many buffers it came.
    pub fn receive(&mut self) -> ([u8; 10], Vec<u8>, u16) {
        let longer = self.header();
        let (mut bytes, mut left) = (Vec::new(), 1);
        let mut buffers = 1;
        while left > 0 {
            let (head, length) = self.queues[RECEIVES].wait_used(&self.memory);
            let at = self.queues[RECEIVES].descriptor(head);
            let address: u64 = self.memory.read_obj(at).expect("a descriptor");
            let mut part = vec![0; length as usize];
            let address = GuestAddress(address);
            self.memory
                .read_slice(&mut part, address)
                .expect("a buffer");
            if bytes.is_empty() && longer == 12 {
                buffers = u16::from_le_bytes([part[10], part[11]]);
                left = buffers;
            }
            bytes.extend(part);
            left -= 1;
        }
        let header = *bytes.first_chunk().expect("a header");
        (header, bytes[longer..].to_vec(), buffers)
    }
}

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const TABLE: u16 = 4;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;

impl Queue {
    pub fn descriptor(&self, n: u16) -> GuestAddress {
        GuestAddress(QUEUES + 0x10000 * self.index + 16 * u64::from(n))
    }

    pub fn available(&self, offset: u64) -> GuestAddress {
        GuestAddress(QUEUES + 0x10000 * self.index + AVAILABLE + offset)
    }

    fn used(&self, offset: u64) -> GuestAddress {
        GuestAddress(QUEUES + 0x10000 * self.index + USED + offset)
    }

    fn is_full(&self, more: usize) -> bool {
        usize::from((self.available - self.used).0) * more >= usize::from(SIZE)
    }

    pub fn write_descriptor(
        &self,
        memory: &GuestMemoryMmap,
        n: u16,
        (address, length, flags, next): (u64, u32, u16, u16),
    ) {
        let raw = u128::from(address)
            | u128::from(length) << 64
            | u128::from(flags) << 96
            | u128::from(next) << 112;
        let at = self.descriptor(n);
        memory.write_obj(raw, at).expect("a descriptor");
    }

    /// Makes a buffer available: addresses, lengths, flags.
    pub fn add(&mut self, memory: &GuestMemoryMmap, descriptors: &[(u64, u32, u16)]) {
        let head = self.descriptor;
        for (address, length, flags) in descriptors {
            let next = (self.descriptor + 1) % SIZE;
            self.write_descriptor(memory, self.descriptor, (*address, *length, *flags, next));
            self.descriptor = next;
        }
        self.show(memory, head);
    }

    /// Makes the buffer that starts with a descriptor available.
    pub fn show(&mut self, memory: &GuestMemoryMmap, head: u16) {
        let slot = u64::from(self.available.0 % SIZE);
        memory
            .write_obj(head, self.available(4 + 2 * slot))
            .expect("the ring");
        self.available += 1;
        memory
            .store(self.available.0, self.available(2), Ordering::Release)
            .expect("the ring");
    }

    /// Kicks if the device wants it.
    pub fn kick(&self, memory: &GuestMemoryMmap) {
        fence(Ordering::SeqCst);
        let word = |at| memory.load::<u16>(at, Ordering::Relaxed).expect("the ring");
        let is_wanted = match self.has_events {
            // The last one, or one of those before it: more kicks than needed do no harm.
            true => {
                let event = Wrapping(word(self.used(4 + 8 * u64::from(SIZE))));
                (self.available - event).0.wrapping_sub(1) <= SIZE
            }
            false => word(self.used(0)) & 1 == 0,
        };
        if is_wanted {
            self.kick.write(1).expect("a kick");
        }
    }

    /// Waits for a used buffer: its number, and how much was written.
    pub fn wait_used(&mut self, memory: &GuestMemoryMmap) -> (u16, u32) {
        loop {
            let event = self.available(4 + 2 * u64::from(SIZE));
            memory
                .store(self.used.0, event, Ordering::Relaxed)
                .expect("the ring");
            fence(Ordering::SeqCst);
            let index = memory.load::<u16>(self.used(2), Ordering::Acquire);
            if index.expect("the ring") != self.used.0 {
                let slot = u64::from(self.used.0 % SIZE);
                let element: u64 = memory.read_obj(self.used(4 + 8 * slot)).expect("the ring");
                self.used += 1;
                return (element as u16, (element >> 32) as u32);
            }
            self.wait_for_call();
        }
    }

    fn wait_for_call(&self) {
        // SAFETY: it is open as long as this is.
        let call = unsafe { std::os::fd::BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
        assert!(is_readable(call, TIMEOUT_MS), "it does not call");
        // None, if it was for one that was found before.
        let _ = self.call.read();
    }
}
