//! Frames between a guest's queues and a wire.

mod guest;

use guest::*;
use vink_port::HEADER;

const NOTHING: [u8; HEADER] = [0; HEADER];

fn frame(n: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + n) as u8).collect()
}

/// A header that leaves TCP's segmentation over IPv4 to be done.
fn large(size: u16) -> [u8; HEADER] {
    let [a, b] = size.to_le_bytes();
    [1, 1, 54, 0, a, b, 34, 0, 16, 0]
}

/// A frame of TCP over IPv4 with so many bytes.
fn tcp(bytes: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + bytes as u16).to_be_bytes());
    frame.extend([0, 7, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([
        0, 1, 0, 2, 0, 0, 0, 5, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
    ]);
    frame.extend((0..bytes).map(|n| n as u8));
    frame
}

/// What guests of all kinds have.
const KINDS: [u64; 6] = [
    ALL,
    ALL & !EVENT_IDX,
    ALL & !MRG_RXBUF,
    VERSION_1 | SENDS_LARGE | TAKES_LARGE,
    VERSION_1 | PROTOCOL | EVENT_IDX,
    0,
];

#[test]
fn frames_of_all_lengths_both_ways() {
    for features in KINDS {
        let mut port = Port::new();
        let mut guest = Guest::new(&port.path, features);
        let mut wire = port.wire();
        let lengths = [14, 15, 60, 1514, 4096, 65535, 65549];
        let parts: [&[u32]; 3] = [&[1 << 17], &[12, 100, 5000], &[1, 9, 4096]];
        for n in 0..300 {
            let frame = frame(n, lengths[n % 7]);
            let header = if n % 2 == 0 { NOTHING } else { large(1000) };
            guest.send(header, &frame, parts[n % 3]);
            assert_eq!(wire.receive(), (header, frame));
            guest.sent();
        }
        // What it may not say of a frame: that its checksum was looked at.
        guest.send([2, 0, 0, 0, 0, 0, 0, 0, 0, 0], &frame(1, 60), &[100]);
        assert_eq!(wire.receive(), (NOTHING, frame(1, 60)));
        guest.sent();
        for n in 0..300 {
            guest.offer(1, 1 << 17);
            let frame = frame(n, lengths[n % 7]);
            wire.send(NOTHING, &frame);
            assert_eq!(guest.receive(), (NOTHING, frame, 1));
        }
        drop((guest, wire));
        let counts = port.end();
        assert_eq!((counts.sent, counts.received, counts.lost), (300, 301, 0));
    }
}

#[test]
fn large_frames_are_whole_or_cut_as_the_guest_wants_it() {
    for features in [ALL, ALL & !TAKES_LARGE, ALL & !TAKES_LARGE | 2, 0] {
        let mut port = Port::new();
        let mut guest = Guest::new(&port.path, features);
        let mut wire = port.wire();
        guest.offer(100, 2048);
        if features == ALL {
            guest.offer(1, 2048);
        }
        wire.send(large(1000), &tcp(30_000));
        if features & TAKES_LARGE == TAKES_LARGE {
            let (header, frame, buffers) = guest.receive();
            assert_eq!((header, frame, buffers), (large(1000), tcp(30_000), 15));
            continue;
        }
        for n in 0..30 {
            let (header, frame, buffers) = guest.receive();
            assert_eq!((header, frame.len(), buffers), (NOTHING, 54 + 1000, 1));
            assert_eq!(frame[38..42], (5 + 1000 * n as u32).to_be_bytes());
            assert_eq!(frame[54..], tcp(30_000)[54 + 1000 * n..][..1000]);
        }
    }
}

#[test]
fn a_frame_that_fits_in_no_buffer_is_lost() {
    for features in [ALL & !MRG_RXBUF, 0] {
        let mut port = Port::new();
        let mut guest = Guest::new(&port.path, features);
        let mut wire = port.wire();
        guest.offer(1, 2048);
        wire.send(NOTHING, &frame(0, 4000));
        wire.send(NOTHING, &frame(1, 1000));
        assert_eq!(guest.receive(), (NOTHING, frame(1, 1000), 1));
        drop((guest, wire));
        assert_eq!(port.end().lost, 1);
    }
    // Nor in all of them.
    let mut port = Port::new();
    let mut guest = Guest::new(&port.path, ALL);
    let mut wire = port.wire();
    guest.offer(SIZE.into(), 100);
    wire.send(NOTHING, &frame(0, 60_000));
    wire.send(NOTHING, &frame(1, 1000));
    assert_eq!(guest.receive(), (NOTHING, frame(1, 1000), 11));
    // One of too many bytes, and of too few, from the guest.
    guest.send(NOTHING, &frame(0, 70_000), &[1 << 17]);
    guest.send(NOTHING, &frame(0, 13), &[1 << 17]);
    guest.send(NOTHING, &frame(2, 60), &[1 << 17]);
    assert_eq!(wire.receive(), (NOTHING, frame(2, 60)));
    drop((guest, wire));
    assert_eq!(port.end().lost, 3);
}

#[test]
fn frames_wait_for_buffers_and_buffers_for_room() {
    for features in [ALL, ALL & !EVENT_IDX] {
        let mut port = Port::new();
        let mut guest = Guest::new(&port.path, features);
        let mut wire = port.wire();
        // More than the ring has room for.
        let sender = std::thread::spawn(move || {
            for n in 0..300 {
                wire.send(NOTHING, &frame(n, 20_000));
            }
            wire
        });
        for n in 0..300 {
            // It needs both.
            guest.offer(1, 14_000);
            guest.offer(1, 14_000);
            assert_eq!(guest.receive(), (NOTHING, frame(n, 20_000), 2));
        }
        let mut wire = sender.join().expect("sent");
        // The other way, the wire takes nothing meanwhile.
        for n in 0..SIZE as usize / 2 {
            guest.send(NOTHING, &frame(n, 60_000), &[1 << 17]);
        }
        for n in 0..SIZE as usize / 2 {
            assert_eq!(wire.receive(), (NOTHING, frame(n, 60_000)));
        }
        drop((guest, wire));
        assert_eq!(port.end().lost, 0);
    }
}

#[test]
fn indirect_tables() {
    let mut port = Port::new();
    let mut guest = Guest::new(&port.path, ALL);
    let mut wire = port.wire();
    let table = BUFFERS + 0x40_0000;
    for n in 0..50 {
        let frame = frame(n, 900);
        let data = BUFFERS + 0x50_0000;
        let address = vm_memory::GuestAddress;
        use vm_memory::Bytes;
        guest
            .memory
            .write_slice(&[0; 12], address(data))
            .expect("room");
        guest
            .memory
            .write_slice(&frame, address(data + 12))
            .expect("room");
        for (at, (start, length)) in [(0, 12), (12, 400), (412, 500)].into_iter().enumerate() {
            let flags = if at < 2 { NEXT } else { 0 };
            let raw = u128::from(data + start)
                | u128::from(length as u32) << 64
                | u128::from(flags) << 96
                | (at as u128 + 1) << 112;
            let place = address(table + 16 * at as u64);
            guest.memory.write_obj(raw, place).expect("room");
        }
        // Alone, or behind a part of the header; and its direction is ignored.
        let queue = &mut guest.queues[SENDS];
        queue.add(&guest.memory, &[(table, 48, TABLE | WRITE)]);
        queue.kick(&guest.memory);
        assert_eq!(wire.receive(), (NOTHING, frame));
        guest.sent();
    }
}

#[test]
fn front_ends_that_come_and_go() {
    let mut port = Port::new();
    let mut guest = Guest::new(&port.path, ALL);
    let mut wire = port.wire();
    for (round, next) in [0, 0, KINDS[2], KINDS[3]].into_iter().enumerate() {
        guest.offer(2, 2048);
        for n in 0..70 {
            guest.offer(1, 2048);
            guest.send(NOTHING, &frame(n, 700), &[100]);
            assert_eq!(wire.receive(), (NOTHING, frame(n, 700)));
            guest.sent();
            wire.send(NOTHING, &frame(n, 800));
            assert_eq!(guest.receive(), (NOTHING, frame(n, 800), 1));
        }
        match round {
            // The same one stops, and goes on.
            0 => {
                use vhost::VhostBackend;
                for n in [RECEIVES, SENDS] {
                    let base = guest.frontend.get_vring_base(n).expect("a base");
                    assert_eq!(base, [70, 70][n], "of queue {n}");
                }
                // What stops and goes on at once has not changed.
                port.wait_for_link("has no driver");
                guest.start();
            }
            // It has lost its connection.
            1 => {
                guest = guest.connect_again(&port);
                guest.set_up();
                guest.start();
            }
            // Another guest.
            _ => {
                drop(guest);
                port.wait_for_link("is gone");
                guest = Guest::new(&port.path, next);
            }
        }
        wire = port.wire();
    }
    // A second one is turned away, and the first one is served.
    let mut second = std::os::unix::net::UnixStream::connect(&port.path).expect("a connection");
    assert_eq!(
        std::io::Read::read(&mut second, &mut [0]).expect("the end"),
        0
    );
    guest.send(NOTHING, &frame(1, 700), &[100]);
    assert_eq!(wire.receive(), (NOTHING, frame(1, 700)));
}

#[test]
fn a_call_that_is_known_after_the_kick() {
    use vhost::VhostBackend;
    let mut port = Port::new();
    let mut guest = Guest::new(&port.path, ALL);
    let mut wire = port.wire();
    // To another one at first, which the guest does not hear.
    let other = vmm_sys_util::eventfd::EventFd::new(0).expect("an eventfd");
    let set = guest.frontend.set_vring_call(SENDS, &other);
    set.expect("set");
    guest.send(NOTHING, &frame(0, 60), &[100]);
    assert_eq!(wire.receive(), (NOTHING, frame(0, 60)));
    other.read().expect("a call");
    guest.set_call(SENDS);
    guest.called(SENDS);
}
