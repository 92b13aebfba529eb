//! Two workers in two processes, joined by UDP and by shared memory.

use std::net::UdpSocket;

use vink_lab::{shared, Half, Machine, UplinkAttachment};
use vink_spec::Uplink;
use vink_trap::Worker;

use crate::common::{alone, machine, run, sh, wait_for_line, worker};

/// Another process; killed when dropped.
pub struct Peer(i32);

impl Peer {
    /// Does this in a copy of this process, which nothing but the test's own thread is in.
    pub fn start(work: impl FnOnce()) -> Peer {
        // SAFETY: the other thread, which waits for this one, has nothing that the child needs.
        match unsafe { libc::fork() } {
            0 => {
                work();
                std::process::exit(0)
            }
            pid => {
                assert!(pid > 0, "fork");
                Peer(pid)
            }
        }
    }

    pub fn kill(&self) {
        // It is our child, and has not been waited for.
        let _ = vink_sys::process::kill(self.0, libc::SIGKILL);
        let _ = vink_sys::process::waitpid(self.0, 0);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A worker with one machine, for ever.
fn serve(addresses: &[&str], attach: impl FnOnce(&mut Worker, &Machine) -> UplinkAttachment) {
    let mut worker = worker();
    let (_machine, _outside) = machine(&mut worker, "b", addresses, attach);
    worker.run_until(|_| false).expect("steps");
}

fn udp(listen: u16, peer: u16) -> Uplink {
    let text = format!("udp:127.0.0.1:{listen}:127.0.0.1:{peer}");
    text.parse().expect("an uplink")
}

#[test]
fn by_udp() {
    if !alone("workers::by_udp") {
        return;
    }
    sh("ip link set lo up");
    let mut worker = worker();
    let (a, outside) = machine(&mut worker, "a", &["10.1.0.1/24"], |worker, machine| {
        UplinkAttachment::attach(worker, machine, "out", &udp(4000, 4001)).expect("attached")
    });
    wait_for_line(&mut worker, &outside, false);

    // A peer that speaks another protocol.
    let garbage = UdpSocket::bind("127.0.0.1:4001").expect("a socket");
    for length in [0, 1, 7, 8, 60, 1500, 60_000] {
        let bytes: Vec<u8> = (0..length).map(|n| (n * 31 % 251) as u8).collect();
        garbage.send_to(&bytes, "127.0.0.1:4000").expect("sent");
    }
    let counted = worker.run_until(|_| outside.state().lost == 7);
    counted.expect("steps");
    // One that says the right thing with nonsense behind it is a peer, for now.
    garbage
        .send_to(b"VNK\x01\0\0\0\0\xff\xff", "127.0.0.1:4000")
        .expect("sent");
    wait_for_line(&mut worker, &outside, true);
    drop(garbage);
    wait_for_line(&mut worker, &outside, false);
    assert!(!a
        .network
        .carrier(worker.kernel(), "out")
        .expect("a carrier"));

    for _ in 0..2 {
        let peer = Peer::start(|| {
            serve(&["10.1.0.2/24"], |worker, machine| {
                UplinkAttachment::attach(worker, machine, "out", &udp(4001, 4000))
                    .expect("attached")
            });
        });
        wait_for_line(&mut worker, &outside, true);
        let text = "ping -c 2 -i 0.2 -s 1472 -M do 10.1.0.2";
        let words: Vec<_> = text.split(' ').collect();
        run(&mut worker, &a, &words);
        peer.kill();
        wait_for_line(&mut worker, &outside, false);
        let why = outside.state().link.to_string();
        assert!(why.contains("no answer from 127.0.0.1:4001"), "{why}");
        assert!(!a
            .network
            .carrier(worker.kernel(), "out")
            .expect("a carrier"));
    }

    let other = Machine::new(worker.kernel(), "other").expect("a machine");
    let text = UplinkAttachment::attach(&mut worker, &other, "out", &udp(4000, 4002));
    let text = text.expect_err("it is taken").to_string();
    assert!(text.contains("another program has that port"), "{text}");
    outside.detach(&mut worker).expect("detached");
    UdpSocket::bind("127.0.0.1:4000").expect("the port is free");
}

fn attach(half: Half) -> impl FnOnce(&mut Worker, &Machine) -> UplinkAttachment {
    move |worker, machine| {
        UplinkAttachment::attach_half(worker, machine, "out", half).expect("attached")
    }
}

#[test]
fn by_shared_memory() {
    if !alone("workers::by_shared_memory") {
        return;
    }
    let mut worker = worker();
    for round in 0..3 {
        let [ours, theirs] = shared().expect("a wire");
        let mut ends = [Some(ours), Some(theirs)];
        // They know that the other one is gone when its descriptors are.
        let peer = Peer::start(|| {
            ends[0] = None;
            let half = ends[1].take().expect("a half");
            serve(&["10.1.0.2/24"], attach(half));
        });
        ends[1] = None;
        let half = ends[0].take().expect("a half");
        let name = format!("a{round}");
        let (a, outside) = machine(&mut worker, &name, &["10.1.0.1/24"], attach(half));
        wait_for_line(&mut worker, &outside, true);
        assert!(a
            .network
            .carrier(worker.kernel(), "out")
            .expect("a carrier"));
        let text = "ping -c 2 -i 0.2 -s 1472 -M do 10.1.0.2";
        let words: Vec<_> = text.split(' ').collect();
        run(&mut worker, &a, &words);
        peer.kill();
        wait_for_line(&mut worker, &outside, false);
        let why = outside.state().link.to_string();
        assert!(why.contains("the other worker is gone"), "{why}");
        assert!(!a
            .network
            .carrier(worker.kernel(), "out")
            .expect("a carrier"));
        // What is sent to no peer is lost.
        let (lost, _output) =
            crate::common::start(&mut worker, &a, &["ping", "-c", "1", "-W", "1", "10.1.0.2"]);
        assert_ne!(worker.wait(lost).expect("its end").code(), 0);
        outside.detach(&mut worker).expect("detached");
    }
}

/// A worker that writes anything into what both share.
#[test]
fn a_peer_gone_mad() {
    if !alone("workers::a_peer_gone_mad") {
        return;
    }
    let mut worker = worker();
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("fds").count();
    let mut before = 0;
    for seed in 1..12u64 {
        let [ours, theirs] = shared().expect("a wire");
        let (a, outside) = machine(&mut worker, "a", &["10.1.0.1/24"], attach(ours));
        // It has said that it is there.
        let fds = theirs
            .descriptors()
            .map(|fd| fd.try_clone_to_owned().expect("a copy"));
        let [sends, receives, bell] = fds;
        let mut bell = std::os::unix::net::UnixStream::from(bell);
        let mut random = seed;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 20
        };
        use std::io::Write;
        use std::os::unix::fs::FileExt;
        for file in [sends, receives].map(std::fs::File::from) {
            // The control words, and what is in the ring.
            for at in [0, 128, 256, 384, 4096, 4104, 8192] {
                if next() % 2 == 0 {
                    let value = next() & !7;
                    let bytes = (value >> (next() % 40)).to_ne_bytes();
                    file.write_all_at(&bytes, at).expect("written");
                }
            }
        }
        drop(theirs);
        bell.write_all(&vec![1; 1000]).expect("rung");
        let (ping, _output) =
            crate::common::start(&mut worker, &a, &["ping", "-c", "1", "-W", "1", "10.1.0.2"]);
        assert_ne!(worker.wait(ping).expect("its end").code(), 0);
        drop(bell);
        wait_for_line(&mut worker, &outside, false);
        outside.detach(&mut worker).expect("detached");
        worker.destroy_machine(a.id).expect("gone");
        if seed == 1 {
            before = descriptors();
        }
        assert_eq!(descriptors(), before);
    }
}
