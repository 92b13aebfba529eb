//! Guests and front-ends that do what can not be: the port is there for the next one.

mod guest;

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use guest::*;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vink_port::HEADER;
use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::eventfd::EventFd;

const NOTHING: [u8; HEADER] = [0; HEADER];

/// A guest that does as it should is served.
fn is_served(port: &mut Port) {
    let mut guest = Guest::new(&port.path, ALL);
    let mut wire = port.wire();
    guest.send(NOTHING, &[7; 60], &[100]);
    assert_eq!(wire.receive(), (NOTHING, vec![7; 60]));
    guest.offer(1, 2048);
    wire.send(NOTHING, &[8; 60]);
    assert_eq!(guest.receive(), (NOTHING, vec![8; 60], 1));
}

/// What a guest does to one of its queues.
type Deed = fn(&mut Guest);

/// Makes descriptor 0 a buffer to be sent, and what follows it.
fn sends(guest: &mut Guest, descriptors: &[(u64, u32, u16, u16)]) {
    for (n, descriptor) in descriptors.iter().enumerate() {
        guest.queues[SENDS].write_descriptor(&guest.memory, n as u16, *descriptor);
    }
    guest.queues[SENDS].show(&guest.memory, 0);
}

/// Writes a table of descriptors where buffers are.
fn table(guest: &Guest, descriptors: &[(u64, u32, u16, u16)]) {
    for (n, (address, length, flags, next)) in descriptors.iter().enumerate() {
        let raw = u128::from(*address)
            | u128::from(*length) << 64
            | u128::from(*flags) << 96
            | u128::from(*next) << 112;
        let at = GuestAddress(BUFFERS + 16 * n as u64);
        guest.memory.write_obj(raw, at).expect("room");
    }
}

const DEEDS: [(&str, u64, Deed); 18] = [
    ("has 300 new buffers", ALL, |guest| {
        let at = guest.queues[SENDS].available(2);
        guest.memory.write_obj(300_u16, at).expect("room");
    }),
    ("has 65535 new buffers", ALL, |guest| {
        let at = guest.queues[SENDS].available(2);
        guest.memory.write_obj(u16::MAX, at).expect("room");
    }),
    ("descriptor 256, of 256", ALL, |guest| {
        guest.queues[SENDS].show(&guest.memory, SIZE);
    }),
    ("descriptor 999, of 256", ALL, |guest| {
        sends(guest, &[(BUFFERS, 60, NEXT, 999)]);
    }),
    ("without an end", ALL, |guest| {
        sends(guest, &[(BUFFERS, 60, NEXT, 0)]);
    }),
    ("without an end", ALL, |guest| {
        sends(guest, &[(BUFFERS, 0, NEXT, 1), (BUFFERS, 0, NEXT, 0)]);
    }),
    ("outside of its memory", ALL, |guest| {
        sends(guest, &[(0, 60, 0, 0)]);
    }),
    ("outside of its memory", ALL, |guest| {
        sends(guest, &[(BUFFERS + PIECE - 30, 60, 0, 0)]);
    }),
    ("outside of its memory", ALL, |guest| {
        sends(guest, &[(u64::MAX - 30, 60, 0, 0)]);
    }),
    ("wrong direction", ALL, |guest| {
        sends(guest, &[(BUFFERS, 60, WRITE, 0)]);
    }),
    ("indirect", ALL & !INDIRECT, |guest| {
        sends(guest, &[(BUFFERS, 16, TABLE, 0)]);
    }),
    ("indirect", ALL, |guest| {
        sends(guest, &[(BUFFERS, 0, TABLE, 0)]);
    }),
    ("indirect", ALL, |guest| {
        sends(guest, &[(BUFFERS, 17, TABLE, 0)]);
    }),
    ("indirect", ALL, |guest| {
        sends(guest, &[(BUFFERS, !15, TABLE, 0)]);
    }),
    ("indirect", ALL, |guest| {
        sends(
            guest,
            &[(BUFFERS, 16, TABLE | NEXT, 1), (BUFFERS, 60, 0, 0)],
        );
    }),
    ("indirect", ALL, |guest| {
        table(guest, &[(BUFFERS, 16, TABLE, 0)]);
        sends(guest, &[(BUFFERS, 16, TABLE, 0)]);
    }),
    ("without an end", ALL, |guest| {
        table(guest, &[(BUFFERS, 1, NEXT, 1), (BUFFERS, 1, NEXT, 0)]);
        sends(guest, &[(BUFFERS, 32, TABLE, 0)]);
    }),
    ("outside of its memory", ALL, |guest| {
        sends(guest, &[(u64::MAX - 15, 32, TABLE, 0)]);
    }),
];

#[test]
fn queues_that_can_not_be() {
    let mut port = Port::new();
    for (text, features, deed) in DEEDS {
        let mut guest = Guest::new(&port.path, features);
        let wire = port.wire();
        deed(&mut guest);
        guest.queues[SENDS].kick.write(1).expect("a kick");
        let link = port.link();
        let is_it = link.contains("spoiled a queue") && link.contains(text);
        assert!(is_it, "{text}: {link}");
        // It is told, too.
        assert!(guest.frontend.get_features().is_err());
        drop(wire);
        is_served(&mut port);
        port.wait_for_link("is gone");
    }
    // Of the queue of frames to come it finds that with a frame.
    for (text, descriptor) in [
        ("wrong direction", (BUFFERS, 2048, 0, 0)),
        ("outside of its memory", (BUFFERS + PIECE, 2048, WRITE, 0)),
        ("without an end", (BUFFERS, 0, WRITE | NEXT, 0)),
    ] {
        let mut guest = Guest::new(&port.path, ALL);
        let mut wire = port.wire();
        let queue = &mut guest.queues[RECEIVES];
        queue.write_descriptor(&guest.memory, 0, descriptor);
        queue.show(&guest.memory, 0);
        wire.send(NOTHING, &[1; 60]);
        let link = port.link();
        assert!(link.contains(text), "{text}: {link}");
        drop(wire);
        is_served(&mut port);
        port.wait_for_link("is gone");
    }
}

/// A number between 0 and `below`, of a sequence.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn queues_of_random_bytes() {
    let mut port = Port::new();
    let mut state = 1;
    for round in 0..200 {
        let features = if round % 2 == 0 {
            ALL
        } else {
            ALL & !EVENT_IDX
        };
        let mut guest = Guest::new(&port.path, features);
        let mut wire = port.wire();
        for n in [RECEIVES, SENDS] {
            for descriptor in 0..SIZE {
                let address = match random(&mut state, 50) {
                    0 => random(&mut state, u64::MAX),
                    _ => BUFFERS + random(&mut state, PIECE),
                };
                let length = match random(&mut state, 50) {
                    0 => random(&mut state, u64::MAX) as u32,
                    _ => random(&mut state, 5000) as u32,
                };
                let mut flags = if n == RECEIVES { WRITE } else { 0 };
                flags |= [0, 0, 0, NEXT, NEXT, TABLE][random(&mut state, 6) as usize];
                flags ^= u16::from(random(&mut state, 100) == 0) * WRITE;
                let next = random(&mut state, u64::from(SIZE) + 1) as u16;
                let queue = &guest.queues[n];
                queue.write_descriptor(&guest.memory, descriptor, (address, length, flags, next));
            }
        }
        // Until it is gone, or there were many.
        for _ in 0..100 {
            for n in [RECEIVES, SENDS] {
                let head = random(&mut state, u64::from(SIZE) + 1).min(SIZE.into()) as u16;
                guest.queues[n].show(&guest.memory, head);
                guest.queues[n].kick.write(1).expect("a kick");
            }
            wire.0.send(&NOTHING, &[3; 1500]);
        }
        drop((guest, wire));
        is_served(&mut port);
    }
}

#[test]
fn memory_that_changes_meanwhile() {
    let mut port = Port::new();
    let mut guest = Guest::new(&port.path, ALL);
    let wire = port.wire();
    let over = Arc::new(AtomicBool::new(false));
    let (memory, ends) = (guest.memory.clone(), over.clone());
    let changer = std::thread::spawn(move || {
        let mut n = 0_u32;
        while !ends.load(Ordering::Relaxed) {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let length = if n & 64 == 0 { 100 } else { n };
            let _ = memory.write_obj(length, GuestAddress(QUEUES + 0x10000 + 8));
            let flags = (n >> 16) as u16 & (NEXT | TABLE);
            let _ = memory.write_obj(flags, GuestAddress(QUEUES + 0x10000 + 12));
        }
    });
    guest.queues[SENDS].write_descriptor(&guest.memory, 0, (BUFFERS, 100, 0, 1));
    for _ in 0..20_000 {
        guest.queues[SENDS].show(&guest.memory, 0);
        guest.queues[SENDS].kick.write(1).expect("a kick");
    }
    over.store(true, Ordering::Relaxed);
    changer.join().expect("its end");
    drop((guest, wire));
    is_served(&mut port);
}

/// A request as bytes.
fn request(code: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let head = [code, flags, body.len() as u32].map(u32::to_le_bytes);
    [head.as_flattened(), body].concat()
}

/// Sends these bytes, and waits for the end of the connection.
fn is_sent_away(path: &Path, bytes: &[u8]) {
    let mut socket = UnixStream::connect(path).expect("a connection");
    socket.write_all(bytes).expect("sent");
    let mut rest = [0; 4096];
    // Reset, if not all of it was read.
    while matches!(socket.read(&mut rest), Ok(1..)) {}
}

#[test]
fn requests_that_can_not_be() {
    let mut port = Port::new();
    let states = |index: u32, value: u32| [index, value].map(u32::to_le_bytes).concat();
    let long = vec![7; 5000];
    let all: Vec<Vec<u8>> = vec![
        vec![0; 12],
        vec![0xff; 12],
        vec![1, 2, 3],
        request(1, 1, &[])[..8].to_vec(),
        request(8, 1, &states(0, 256))[..16].to_vec(),
        request(999, 1, &[]),
        request(1, 2, &[]),
        request(1, 1, &[0; 8]),
        request(5, 1, &long),
        // Features that were not offered, and the configuration, queues, memory of others.
        request(2, 1, &u64::MAX.to_le_bytes()),
        request(16, 1, &u64::MAX.to_le_bytes()),
        request(17, 1, &[]),
        request(24, 1, &[0; 12]),
        request(36, 1, &[]),
        // Queues that are none, of such sizes, without what they need.
        request(8, 1, &states(2, 256)),
        request(8, 1, &states(u32::MAX, 256)),
        request(8, 1, &states(0, 0)),
        request(8, 1, &states(0, 3)),
        request(8, 1, &states(0, 65536)),
        request(8, 1, &states(0, u32::MAX)),
        request(10, 1, &states(7, 0)),
        request(11, 1, &states(7, 0)),
        request(18, 1, &states(7, 1)),
        request(18, 1, &states(0, 2)),
        request(18, 1, &[0; 4]),
        request(12, 1, &0_u64.to_le_bytes()),
        request(12, 1, &0x100_u64.to_le_bytes()),
        request(13, 1, &7_u64.to_le_bytes()),
        // Memory without a descriptor.
        request(5, 1, &[&1_u64.to_le_bytes()[..], &[1; 32]].concat()),
    ];
    for bytes in &all {
        is_sent_away(&port.path, bytes);
    }
    let mut state = 1;
    for _ in 0..500 {
        let code = random(&mut state, 45) as u32;
        let length = random(&mut state, 60) as usize;
        let body: Vec<_> = (0..length).map(|_| random(&mut state, 256) as u8).collect();
        let mut socket = UnixStream::connect(&port.path).expect("a connection");
        // It may be gone already.
        let _ = socket.write_all(&request(code, 1 | 8, &body));
    }
    is_served(&mut port);
}

#[test]
fn a_peer_that_reads_no_replies() {
    let mut port = Port::new();
    let mut socket = UnixStream::connect(&port.path).expect("a connection");
    let one = request(1, 1, &[]);
    while socket.write_all(&one).is_ok() {}
    port.wait_for_link("reads no replies");
    is_served(&mut port);
}

/// A front-end's descriptor or address that is another one than it should be.
type Slip = fn(&mut Guest) -> bool;

#[test]
fn set_up_that_can_not_be() {
    let mut port = Port::new();
    let slips: [Slip; 11] = [
        // Memory: overlapping, of a device, of a file that can't be mapped, and too much of it.
        |guest| {
            let [one, _] = guest.regions();
            guest.frontend.set_mem_table(&[one, one]).is_err()
        },
        |guest| {
            let null = std::fs::File::open("/dev/null").expect("it is there");
            let region = with_file(guest, null.as_raw_fd());
            guest.frontend.set_mem_table(&[region]).is_err()
        },
        |guest| {
            let kick = guest.queues[0].kick.as_raw_fd();
            let region = with_file(guest, kick);
            guest.frontend.set_mem_table(&[region]).is_err()
        },
        |guest| {
            let mut region = with_file(guest, guest.file.as_raw_fd());
            region.memory_size = u64::MAX / 2;
            guest.frontend.set_mem_table(&[region]).is_err()
        },
        |guest| {
            let mut region = with_file(guest, guest.file.as_raw_fd());
            region.mmap_offset = 7;
            guest.frontend.set_mem_table(&[region]).is_err()
        },
        // Queues outside of it, and across its pieces.
        |guest| starts(guest, |place| place.desc_table_addr = 0),
        |guest| starts(guest, |place| place.used_ring_addr = u64::MAX - 100),
        |guest| starts(guest, |place| place.desc_table_addr += PIECE - 4000),
        |guest| starts(guest, |place| place.avail_ring_addr += 1),
        // Kicks that none can wait for, or that end.
        |guest| {
            let file = std::fs::File::open("/proc/self/exe").expect("it is there");
            kicks(guest, file.into())
        },
        |guest| guest.frontend.set_vring_num(0, 3).is_err(),
    ];
    for (n, slip) in slips.into_iter().enumerate() {
        let mut guest = Guest::connect(&port.path, ALL);
        guest.set_up();
        assert!(slip(&mut guest), "slip {n}");
        drop(guest);
        is_served(&mut port);
    }
}

fn with_file(guest: &Guest, file: i32) -> VhostUserMemoryRegionInfo {
    let [one, _] = guest.regions();
    VhostUserMemoryRegionInfo {
        mmap_handle: file,
        ..one
    }
}

/// Whether a queue of which the place is changed is refused.
fn starts(guest: &mut Guest, change: fn(&mut VringConfigData)) -> bool {
    let mut place = Guest::place(0);
    change(&mut place);
    let frontend = &mut guest.frontend;
    frontend.set_vring_num(0, SIZE).expect("set");
    let kick = &guest.queues[0].kick;
    frontend.set_vring_addr(0, &place).is_err() || frontend.set_vring_kick(0, kick).is_err()
}

/// Whether a queue with such a kick is refused.
fn kicks(guest: &mut Guest, kick: std::os::fd::OwnedFd) -> bool {
    use std::os::fd::IntoRawFd;
    // SAFETY: it is this one's; only its descriptor is sent.
    let kick = unsafe { EventFd::from_raw_fd(kick.into_raw_fd()) };
    let frontend = &mut guest.frontend;
    frontend.set_vring_num(0, SIZE).expect("set");
    frontend.set_vring_addr(0, &Guest::place(0)).expect("set");
    frontend.set_vring_kick(0, &kick).is_err()
}

#[test]
fn a_kick_that_ends() {
    let mut port = Port::new();
    let mut guest = Guest::connect(&port.path, ALL);
    guest.set_up();
    let (reads, writes) = vink_sys::fd::pipe().expect("a pipe");
    drop(writes);
    assert!(!kicks(&mut guest, reads));
    port.wait_for_link("is none");
    is_served(&mut port);
}

#[test]
fn kicks_without_end() {
    let mut port = Port::new();
    let mut guest = Guest::new(&port.path, ALL);
    let mut wire = port.wire();
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let kicks = [0, 1].map(|n| guest.queues[n].kick.try_clone().expect("a descriptor"));
    let kicker = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            for kick in &kicks {
                kick.write(1).expect("a kick");
            }
        }
    });
    for n in 0..2000 {
        guest.send(NOTHING, &[n as u8; 60], &[100]);
        assert_eq!(wire.receive(), (NOTHING, vec![n as u8; 60]));
        guest.offer(1, 2048);
        wire.send(NOTHING, &[n as u8; 80]);
        assert_eq!(guest.receive(), (NOTHING, vec![n as u8; 80], 1));
    }
    over.store(true, Ordering::Relaxed);
    kicker.join().expect("its end");
    drop((guest, wire));
    is_served(&mut port);
}
