//! A guest of QEMU's, played by the test: it speaks ARP and ICMP itself, in QEMU's framing.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;

use vink_lab::{Machine, UplinkAttachment};
use vink_spec::Uplink;
use vink_trap::Worker;

use crate::common::{alone, machine, meanwhile, start, wait_for_line, worker};

const GUEST: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const OURS: [u8; 4] = [10, 9, 0, 1];
const MACHINE: [u8; 4] = [10, 9, 0, 2];

/// How a guest's frames come and go.
trait Wire {
    fn send(&mut self, frame: &[u8]);
    fn receive(&mut self) -> Vec<u8>;
}

impl Wire for UnixStream {
    fn send(&mut self, frame: &[u8]) {
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend(frame);
        // In two pieces.
        let (a, b) = bytes.split_at(bytes.len() / 2);
        self.write_all(a).expect("sent");
        self.write_all(b).expect("sent");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.read_exact(&mut length).expect("a length");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.read_exact(&mut frame).expect("a frame");
        frame
    }
}

/// A datagram socket, and the path of the other one.
struct Datagrams(UnixDatagram, PathBuf);

impl Wire for Datagrams {
    fn send(&mut self, frame: &[u8]) {
        self.0.send_to(frame, &self.1).expect("sent");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; 65536];
        let got = self.0.recv(&mut frame).expect("a frame");
        frame.truncate(got);
        frame
    }
}

fn ethernet(to: &[u8], kind: u16, rest: &[u8]) -> Vec<u8> {
    [to, &GUEST, &kind.to_be_bytes(), rest].concat()
}

fn arp(operation: u8, to: &[u8]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    [&head, &GUEST[..], &OURS, &to[..6], &MACHINE].concat()
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let pairs = bytes.chunks(2);
    let mut sum: u32 = pairs
        .map(|p| u32::from(p[0]) << 8 | u32::from(*p.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An echo request or reply.
fn echo(kind: u8, from: [u8; 4], to: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut icmp = [&[kind, 0, 0, 0], rest].concat();
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    let length = (20 + icmp.len() as u16).to_be_bytes();
    let mut ip = [
        &[0x45, 0][..],
        &length,
        &[0, 0, 0, 0, 64, 1, 0, 0],
        &from,
        &to,
    ]
    .concat();
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    [ip, icmp].concat()
}

/// Asks for the machine's Ethernet address and pings it.
fn ping(wire: &mut impl Wire) {
    wire.send(&ethernet(&[0xff; 6], 0x0806, &arp(1, &[0; 6])));
    let address = loop {
        let frame = wire.receive();
        if frame[12..14] == [8, 6] && frame[20..22] == [0, 2] && frame[28..32] == MACHINE {
            break frame[22..28].to_vec();
        }
    };
    let request = echo(8, OURS, MACHINE, b"\x12\x34\0\x01some data");
    wire.send(&ethernet(&address, 0x0800, &request));
    let expected = echo(0, MACHINE, OURS, b"\x12\x34\0\x01some data");
    loop {
        let frame = wire.receive();
        let ip = &frame[14..];
        if frame[12..14] == [8, 0] && ip[9] == 1 && ip[20] == 0 {
            assert_eq!(ip[20..], expected[20..]);
            assert_eq!(checksum(&ip[..20]), [0, 0]);
            break;
        }
    }
}

/// Answers a ping of the machine's.
fn answer(wire: &mut impl Wire) {
    loop {
        let frame = wire.receive();
        match frame[12..14] {
            [8, 6] if frame[20..22] == [0, 1] && frame[38..42] == OURS => {
                wire.send(&ethernet(&frame[6..12], 0x0806, &arp(2, &frame[6..12])));
            }
            [8, 0] if frame[23] == 1 && frame[34] == 8 => {
                let reply = echo(0, OURS, MACHINE, &frame[38..]);
                return wire.send(&ethernet(&frame[6..12], 0x0800, &reply));
            }
            _ => {}
        }
    }
}

fn path(name: &str) -> PathBuf {
    let name = format!("vink-test-{}-{name}", std::process::id());
    std::env::temp_dir().join(name)
}

fn attached(worker: &mut Worker, uplink: Uplink) -> (Machine, UplinkAttachment) {
    machine(worker, "m", &["10.9.0.2/24"], |worker, machine| {
        UplinkAttachment::attach(worker, machine, "out", &uplink).expect("attached")
    })
}

/// The machine pings the guest, which answers.
fn ping_the_guest<W: Wire + Send + 'static>(
    worker: &mut Worker,
    machine: &Machine,
    mut wire: W,
) -> W {
    let words = ["ping", "-c", "1", "10.9.0.1"];
    let (program, _output) = start(worker, machine, &words);
    let wire = meanwhile(worker, move || {
        answer(&mut wire);
        wire
    });
    assert_eq!(worker.wait(program).expect("its end").code(), 0);
    wire
}

#[test]
fn stream() {
    if !alone("qemu::stream") {
        return;
    }
    let mut worker = worker();
    let path = path("stream");
    let uplink = Uplink::Qemu(path.display().to_string());
    let (m, outside) = attached(&mut worker, uplink.clone());
    wait_for_line(&mut worker, &outside, false);
    let connect = {
        let path = path.clone();
        move || UnixStream::connect(&path).expect("a connection")
    };
    let again = connect.clone();
    let socket = meanwhile(&mut worker, move || {
        let mut socket = connect();
        ping(&mut socket);
        socket
    });
    assert!(outside.state().link.is_up());
    assert!(m
        .network
        .carrier(worker.kernel(), "out")
        .expect("a carrier"));
    let mut socket = ping_the_guest(&mut worker, &m, socket);

    // A second guest is turned away; the first one stays.
    let connect = again.clone();
    let nothing = meanwhile(&mut worker, move || {
        let mut second = connect();
        second.read(&mut [0; 4]).expect("an end")
    });
    assert_eq!(nothing, 0);
    assert!(outside.state().link.is_up());

    // Nonsense ends the connection.
    socket.write_all(&[0xff; 64]).expect("sent");
    wait_for_line(&mut worker, &outside, false);
    let why = outside.state().link.to_string();
    assert!(why.contains("4294967295 bytes"), "{why}");
    assert!(!m
        .network
        .carrier(worker.kernel(), "out")
        .expect("a carrier"));
    drop(socket);

    // The next one may come, and go in the middle of a frame.
    let connect = again.clone();
    let mut socket = meanwhile(&mut worker, move || {
        let mut socket = connect();
        ping(&mut socket);
        socket
    });
    socket.write_all(&[0, 0, 1, 0, 1, 2, 3]).expect("sent");
    drop(socket);
    wait_for_line(&mut worker, &outside, false);
    let socket = again();
    wait_for_line(&mut worker, &outside, true);
    ping_the_guest(&mut worker, &m, socket);

    // The path is ours until we let go of it.
    let other = Machine::new(worker.kernel(), "other").expect("a machine");
    let text = UplinkAttachment::attach(&mut worker, &other, "out", &uplink);
    let text = text.expect_err("it is taken").to_string();
    assert!(text.contains("another program has it"), "{text}");
    outside.detach(&mut worker).expect("detached");
    assert!(!path.exists());
}

#[test]
fn client() {
    if !alone("qemu::client") {
        return;
    }
    let mut worker = worker();
    let path = path("client");
    let uplink = Uplink::QemuConnect(path.display().to_string());
    let (m, outside) = attached(&mut worker, uplink);
    wait_for_line(&mut worker, &outside, false);
    for _ in 0..2 {
        let listener = UnixListener::bind(&path).expect("a listener");
        let socket = meanwhile(&mut worker, move || {
            let mut socket = listener.accept().expect("a connection").0;
            ping(&mut socket);
            socket
        });
        assert!(outside.state().link.is_up());
        let socket = ping_the_guest(&mut worker, &m, socket);
        std::fs::remove_file(&path).expect("the path is free");
        drop(socket);
        wait_for_line(&mut worker, &outside, false);
    }
    outside.detach(&mut worker).expect("detached");
}

#[test]
fn datagrams() {
    if !alone("qemu::datagrams") {
        return;
    }
    let mut worker = worker();
    let [ours, theirs] = ["ours", "theirs"].map(path);
    let uplink = Uplink::QemuDgram(ours.display().to_string());
    let (m, outside) = attached(&mut worker, uplink);
    wait_for_line(&mut worker, &outside, false);
    for _ in 0..2 {
        let socket = UnixDatagram::bind(&theirs).expect("a socket");
        let mut wire = Datagrams(socket, ours.clone());
        let mut wire = meanwhile(&mut worker, move || {
            ping(&mut wire);
            wire
        });
        // No frame at all, and one that is none.
        wire.send(&[]);
        wire.send(&[1, 2, 3]);
        let wire = ping_the_guest(&mut worker, &m, wire);
        assert!(outside.state().link.is_up());
        drop(wire);
        std::fs::remove_file(&theirs).expect("the path is free");
        // That it is gone shows when something is sent.
        let (program, _output) =
            start(&mut worker, &m, &["ping", "-c", "1", "-W", "1", "10.9.0.1"]);
        worker.wait(program).expect("its end");
        wait_for_line(&mut worker, &outside, false);
    }
    outside.detach(&mut worker).expect("detached");
    assert!(!ours.exists());
}
