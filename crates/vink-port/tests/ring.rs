//! An end without an image: beside another one, and beside a process that writes nonsense.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use vink_port::{halves, End, Half, PeerState, Taken, HEADER, LARGEST_SHARED, SIZE};
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::poll::is_readable;

const CONTROL: usize = 4096;
/// Where the control words are: `struct vink_pipe` of abi.h.
const HEAD: usize = 0;
const TAIL: usize = 128;
const ASLEEP: usize = 256;
const STARVED: usize = 384;
const MOST: usize = 512;
const NO_HEADER: [u8; HEADER] = [0; HEADER];

fn pair() -> [End; 2] {
    let mut ends = halves()
        .expect("two halves")
        .map(|half| End::new(half).expect("an end"));
    for end in &mut ends {
        assert_eq!(end.hear(), PeerState::Present);
    }
    ends
}

fn frame(n: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + n) as u8).collect()
}

/// The other side's memory, mapped by hand.
struct Hostile {
    /// What it sends, and what it receives.
    sends: Mapping,
    receives: Mapping,
    bell: OwnedFd,
}

impl Hostile {
    fn new(half: &Half) -> Hostile {
        let [sends, receives, bell] = half.descriptors();
        let map = |memory| {
            let mapping = Mapping::new(CONTROL + SIZE).expect("memory");
            let pages = Pages::Shared(memory, 0);
            mapping
                .replace(0..CONTROL + SIZE, pages)
                .expect("its memory");
            mapping
        };
        Hostile {
            sends: map(sends),
            receives: map(receives),
            bell: bell.try_clone_to_owned().expect("a descriptor"),
        }
    }

    fn word(memory: &Mapping, at: usize, value: u64) {
        memory.write(at, &value.to_ne_bytes());
    }

    /// Puts a frame at the ring's start that says it has this length.
    fn claim(&self, length: u32, head: u64) {
        self.sends.write(CONTROL, &length.to_ne_bytes());
        Hostile::word(&self.sends, HEAD, head);
    }
}

fn beside() -> (End, Hostile) {
    let [one, other] = halves().expect("two halves");
    let hostile = Hostile::new(&other);
    drop(other);
    (End::new(one).expect("an end"), hostile)
}

#[test]
fn frames_of_all_lengths_and_their_headers() {
    let [mut a, mut b] = pair();
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    assert_eq!(b.receive(&mut room), Taken::Nothing);
    for (n, length) in [14, 15, 60, 1514, 4096, 65535, LARGEST_SHARED]
        .into_iter()
        .cycle()
        .take(700)
        .enumerate()
    {
        let header: [u8; HEADER] = std::array::from_fn(|at| (at + n) as u8);
        let frame = frame(n, length);
        a.send(&header, &frame);
        assert!(!a.is_full());
        assert_eq!(b.receive(&mut room), Taken::Frame(HEADER + length));
        assert!(room[..HEADER] == header && room[HEADER..HEADER + length] == frame);
    }
    // No frames at all, and one that does not fit.
    a.send(&NO_HEADER, &frame(0, 13));
    a.send(&NO_HEADER, &frame(0, LARGEST_SHARED + 1));
    assert_eq!((a.lost(), b.receive(&mut room)), (2, Taken::Nothing));
    a.send(&NO_HEADER, &frame(0, 100));
    a.send(&NO_HEADER, &frame(1, 50));
    assert_eq!(b.receive(&mut room[..HEADER + 60]), Taken::TooLong);
    assert_eq!(
        b.receive(&mut room[..HEADER + 60]),
        Taken::Frame(HEADER + 50)
    );
    assert!(b.lost() == 1 && room[HEADER..HEADER + 50] == frame(1, 50));
}

#[test]
fn a_full_ring_keeps_the_order_and_wakes_when_half_is_free() {
    let [mut a, mut b] = pair();
    let mut sent = 0;
    while !a.is_full() {
        a.send(&NO_HEADER, &frame(sent, 9000));
        sent += 1;
    }
    a.send(&NO_HEADER, &frame(sent, 9000));
    sent += 1;
    // It sleeps until there is room.
    assert!(a.may_sleep(true) && !is_readable(&a, 0));
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    let mut got = 0;
    while !is_readable(&a, 0) {
        assert_eq!(b.receive(&mut room), Taken::Frame(HEADER + 9000));
        assert_eq!(room[HEADER..HEADER + 9000], frame(got, 9000));
        got += 1;
        b.taken();
    }
    assert!(got < sent && got >= sent / 2 - 1, "{got} of {sent}");
    assert_eq!(a.hear(), PeerState::Present);
    assert!(!a.may_sleep(true));
    a.go_on();
    assert!(!a.is_full());
    while b.receive(&mut room) != Taken::Nothing {
        assert_eq!(room[HEADER..HEADER + 9000], frame(got, 9000));
        got += 1;
    }
    assert_eq!((got, a.lost(), b.lost()), (sent, 0, 0));
}

#[test]
fn a_bell_for_those_who_sleep_only() {
    let [mut a, mut b] = pair();
    a.send(&NO_HEADER, &frame(0, 60));
    assert!(!is_readable(&b, 0), "it is awake");
    assert!(!b.may_sleep(true), "there is something");
    assert!(b.may_sleep(false), "it wants no frames");
    b.wake();
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    assert_eq!(b.receive(&mut room), Taken::Frame(HEADER + 60));
    assert!(b.may_sleep(true) && !is_readable(&b, 0));
    a.send(&NO_HEADER, &frame(1, 60));
    a.send(&NO_HEADER, &frame(2, 60));
    assert!(is_readable(&b, 0));
    assert_eq!(b.hear(), PeerState::Present);
    assert!(!is_readable(&b, 0), "once");
    drop(a);
    assert!(is_readable(&b, 0) && matches!(b.hear(), PeerState::Gone(_)));
    // What has come is not lost.
    assert_eq!(b.receive(&mut room), Taken::Frame(HEADER + 60));
    assert_eq!(b.receive(&mut room), Taken::Frame(HEADER + 60));
    assert_eq!(b.receive(&mut room), Taken::Nothing);
}

#[test]
fn other_descriptors_are_no_end() {
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let refused = End::new(Half::from_descriptors([null(), null(), null()]));
    assert!(refused.is_err());
    // Memory of the right size that could be made smaller.
    let soft = || {
        let file = vink_sys::fd::in_memory(c"soft").expect("memory");
        file.set_len((CONTROL + SIZE) as u64).expect("its size");
        OwnedFd::from(file)
    };
    assert!(End::new(Half::from_descriptors([soft(), soft(), null()])).is_err());
}

#[test]
fn counters_and_lengths_that_can_not_be() {
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    for (length, head) in [
        (60, 8),           // Less than a frame's head.
        (60, 24 + 64 - 4), // Not a multiple of 8.
        (60, 24),          // A frame that is not there.
        (0, 88),
        (13, 88),
        (u32::MAX, 88),
        (u32::MAX - 23, 88),
        (LARGEST_SHARED as u32 + 1, SIZE as u64),
        (60, SIZE as u64 + 8), // More than the ring has.
        (60, u64::MAX),
        (60, 1 << 63),
    ] {
        let (mut end, hostile) = beside();
        hostile.claim(length, head);
        assert_eq!(end.receive(&mut room), Taken::Nothing, "{length} {head}");
        let PeerState::Gone(why) = end.hear() else {
            panic!("{length} {head}: it is still there");
        };
        assert!(why.contains("spoiled"), "{why}");
        // It is over: what comes now is not looked at.
        hostile.claim(60, 88);
        assert_eq!(end.receive(&mut room), Taken::Nothing);
        end.send(&NO_HEADER, &frame(0, 60));
        assert_eq!(end.lost(), 1);
        assert!(end.may_sleep(true));
        assert!(is_readable(&hostile.bell, 0), "it is told");
    }
    for tail in [1, u64::MAX / 2, SIZE as u64, 1 << 40] {
        let (mut end, hostile) = beside();
        Hostile::word(&hostile.receives, TAIL, tail);
        end.send(&NO_HEADER, &frame(0, 60));
        assert!(
            matches!(end.hear(), PeerState::Gone(why) if why.contains("spoiled")),
            "{tail}"
        );
    }
}

#[test]
fn what_it_wrote_itself_is_not_believed() {
    let [one, other] = halves().expect("two halves");
    let hostile = Hostile::new(&other);
    let [mut a, mut b] = [one, other].map(|half| End::new(half).expect("an end"));
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    for n in 0..50 {
        a.send(&NO_HEADER, &frame(n, 1000));
        // The counters of those that they belong to, and what they are for.
        for memory in [&hostile.sends, &hostile.receives] {
            for (at, value) in [(MOST, 0), (MOST, u64::MAX), (ASLEEP, 7), (STARVED, 7)] {
                Hostile::word(memory, at, value);
            }
        }
        Hostile::word(&hostile.sends, TAIL, 12345);
        assert_eq!(b.receive(&mut room), Taken::Frame(HEADER + 1000));
        assert_eq!(room[HEADER..HEADER + 1000], frame(n, 1000));
    }
}

#[test]
fn frames_that_change_while_they_are_taken() {
    let (mut end, hostile) = beside();
    let over = Arc::new(AtomicBool::new(false));
    let changer = {
        let over = over.clone();
        std::thread::spawn(move || {
            let mut n = 0_u32;
            while !over.load(Ordering::Relaxed) {
                n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let length = if n & 64 == 0 { 60 } else { n };
                hostile.claim(length, u64::from(n >> 16));
            }
        })
    };
    let mut room = vec![0; HEADER + LARGEST_SHARED];
    for _ in 0..20_000 {
        if let Taken::Frame(length) = end.receive(&mut room) {
            assert!((HEADER + 14..=room.len()).contains(&length));
        }
        if let PeerState::Gone(_) = end.hear() {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    changer.join().expect("its end");
}

#[test]
fn a_flood_of_bells_is_one_look() {
    let (mut end, hostile) = beside();
    let bell = std::os::unix::net::UnixStream::from(
        hostile
            .bell
            .as_fd()
            .try_clone_to_owned()
            .expect("a descriptor"),
    );
    bell.set_nonblocking(true).expect("set");
    while std::io::Write::write(&mut &bell, &[b'!'; 4096]).is_ok() {}
    assert_eq!(end.hear(), PeerState::Present);
    assert!(!is_readable(&end, 0));
}
