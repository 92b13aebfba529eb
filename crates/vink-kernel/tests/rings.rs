//! Packet rings: what the kernel writes into one is in the ring's file, and the other way round.

mod common;

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use common::{at, local, one_machine, Caller, Task};
use vink_kernel::{Config, Error};

const SOL_PACKET: u64 = 263;
const FRAME: u32 = 2048;
/// Four blocks of two frames.
const REQUEST: [u32; 4] = [2 * FRAME, 4, FRAME, 8];

/// The first word of a frame in a ring of version 1 or 2: whose it is.
fn status(file: &File, frame: u64) -> u32 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, frame * u64::from(FRAME))
        .expect("a frame");
    u64::from_ne_bytes(word) as u32
}

fn errno<T>(result: Result<T, Error>) -> i32 {
    match result {
        Err(Error::Errno { errno, .. }) => errno,
        _ => 0,
    }
}

#[test]
fn a_ring_is_where_its_file_is() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let before = kernel.counters().expect("counters");

    let mut sys = Task(&mut kernel, task);
    let outbox = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
    sys.bind(outbox, 9);
    let all = u64::from(3u16.to_be());
    let family = libc::AF_PACKET as u64;
    let packet = sys.ok(libc::SYS_socket, &[family, libc::SOCK_RAW as u64, all]);
    let option = |option: i32| [packet, SOL_PACKET, option as u64, at(&REQUEST), 16];
    sys.ok(libc::SYS_setsockopt, &option(libc::PACKET_RX_RING));

    let ring = kernel.map_ring(task, packet as i32).expect("a ring");
    let other = kernel.map_ring(task, outbox as i32);
    assert_eq!(errno(other), libc::ENODEV);
    let mapped = kernel.ring(ring).expect("it is mapped");
    assert_eq!(mapped.bytes(), 4 * u64::from(2 * FRAME));
    let file = File::from(
        mapped
            .memory()
            .as_fd()
            .try_clone_to_owned()
            .expect("a copy"),
    );
    assert!(file.set_len(0).is_err(), "no program can shorten it");

    let mut sys = Task(&mut kernel, task);
    let (to, data) = (local(9), b"a packet in the ring");
    let send = [outbox, at(data), 20, 0, at(&to), 16];
    sys.ok(libc::SYS_sendto, &send);
    // Once sent and once received, on the same interface.
    for frame in 0..2 {
        assert_eq!(
            status(&file, frame) & libc::TP_STATUS_USER,
            libc::TP_STATUS_USER
        );
    }
    assert_eq!(status(&file, 2), libc::TP_STATUS_KERNEL);
    let mut frame = vec![0; FRAME as usize];
    file.read_exact_at(&mut frame, 0).expect("the first frame");
    assert!(frame.windows(data.len()).any(|bytes| bytes == data));

    // The kernel sees that both were taken.
    let readable = |kernel: &mut vink_kernel::Kernel| {
        let events = kernel.poll_ring(ring).expect("events");
        events & libc::EPOLLIN as u32 != 0
    };
    assert!(readable(&mut kernel));
    for frame in 0..2 {
        file.write_all_at(&[0; 8], frame * u64::from(FRAME))
            .expect("a frame is given back");
    }
    assert!(!readable(&mut kernel));

    let mut sys = Task(&mut kernel, task);
    sys.fails(
        libc::EBUSY,
        libc::SYS_setsockopt,
        &option(libc::PACKET_TX_RING),
    );
    sys.ok(libc::SYS_close, &[packet]);
    sys.ok(libc::SYS_sendto, &send);
    assert_ne!(status(&file, 2), libc::TP_STATUS_KERNEL, "it is still open");
    kernel.unmap_ring(ring).expect("it ends");
    assert_eq!(errno(kernel.unmap_ring(ring)), libc::ENOENT);
    assert!(kernel.ring(ring).is_none());

    // What the file has now belongs to no socket.
    file.write_all_at(&[0xff; 4 * 2 * FRAME as usize], 0)
        .expect("a write");
    let mut sys = Task(&mut kernel, task);
    sys.ok(libc::SYS_sendto, &send);
    sys.ok(libc::SYS_close, &[outbox]);
    let after = kernel.counters().expect("counters");
    assert_eq!((after.sockets, after.files), (before.sockets, before.files));
}
