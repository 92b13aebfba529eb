//! What becomes of packets by the host's will: on a virtual clock, on which all is exact.

mod common;
#[path = "common/net.rs"]
mod net;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{at, boot, Caller, Task};
use net::{number, sockaddr, Net, MS, TIMES};
use vink_kernel::{
    Config, EndId, Hold, LossCause, PacketHooks, PacketKind, PacketQuery, Puts, Trace, Verdict,
    WireKind, WireSettings,
};

const SECOND: u64 = 1_000_000_000;
const DEPARTURES: PacketHooks = PacketHooks {
    departures: true,
    arrivals: false,
    losses: false,
    frames: false,
    marks: false,
};
const ARRIVALS: PacketHooks = PacketHooks {
    departures: false,
    arrivals: true,
    losses: false,
    frames: false,
    marks: false,
};

/// Two machines; what is sent to the second one has the verdict that is said for its number, where
/// it is asked for.
fn net(
    at: usize,
    asks: PacketHooks,
    verdict: impl Fn(u32) -> Verdict + Send + 'static,
) -> (Net, EndId) {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let end = net.hosts[at].end;
    let answer = move |packet: &PacketQuery<'_>| verdict(number(packet.bytes));
    net.kernel.on_passing(Box::new(answer));
    net.kernel.ask(end, asks).expect("asked");
    (net, end)
}

/// Where one can be asked, and on what wires.
fn everywhere() -> impl Iterator<Item = (usize, PacketHooks, WireSettings)> {
    let line = WireSettings {
        rate: 1_000_000_000,
        delay: MS,
        ..WireSettings::default()
    };
    [(0, DEPARTURES), (1, ARRIVALS)]
        .into_iter()
        .flat_map(move |(at, asks)| {
            [WireSettings::default(), line].map(|settings| (at, asks, settings))
        })
}

fn delayed(by: Duration) -> Verdict {
    Verdict {
        delay: by,
        ..Verdict::default()
    }
}

#[test]
fn a_packet_is_lost_and_said_to_be() {
    for (at, asks, settings) in everywhere() {
        let (mut net, end) = net(at, asks, |n| Verdict {
            drop: n % 3 == 1,
            ..Verdict::default()
        });
        net.set(settings);
        let losses = Trace {
            losses: true,
            bytes: 100,
            ..Trace::default()
        };
        net.trace(at, losses);
        for n in 0..6 {
            net.send(n, 100);
            net.settle();
        }
        assert_eq!(net.received(1), [0, 2, 3, 5]);
        let events = net.events();
        assert_eq!(events.len(), 2);
        for (event, n) in events.iter().zip([1, 4]) {
            assert_eq!(event.kind, PacketKind::Loss(LossCause::Breakpoint));
            assert_eq!((event.end, number(&event.bytes)), (end, n));
        }
    }
}

#[test]
fn a_packet_comes_later_twice_or_with_another_bit() {
    for (at, asks, settings) in everywhere() {
        let (mut net, _) = net(at, asks, |n| match n {
            1 => delayed(7 * MS),
            2 => Verdict {
                copies: 2,
                ..Verdict::default()
            },
            3 => Verdict {
                corrupt: Some(8 * 60 + 3),
                ..Verdict::default()
            },
            4 => Verdict {
                copies: 1,
                delay: MS,
                ..Verdict::default()
            },
            _ => Verdict::default(),
        });
        net.set(settings);
        net.trace(
            1,
            Trace {
                bytes: 100,
                ..TIMES
            },
        );
        let start = net.kernel.now();
        for n in 0..5 {
            net.advance(start + u64::from(n) * SECOND);
            net.send(n, 100);
        }
        net.advance(start + 5 * SECOND);
        let way = match settings.rate {
            0 => 0,
            _ => 1_000_800,
        };
        let arrivals: Vec<_> = net
            .events()
            .iter()
            .map(|event| {
                let n = number(&event.bytes);
                let time = event.time - start - u64::from(n) * SECOND;
                (n, event.bytes[60], time - way)
            })
            .collect();
        // What goes on there has to be sent first, one after the other.
        let each = match at {
            0 if way > 0 => 800,
            _ => 0,
        };
        let expected = [
            (0, 0, 0),
            (1, 0, 7_000_000),
            (2, 0, 0),
            (2, 0, 0),
            (2, 0, each),
            (3, 8, 0),
            (4, 0, 1_000_000),
            (4, 0, 1_000_000 + each),
        ];
        assert_eq!(arrivals, expected);
    }
}

#[test]
fn a_packet_goes_behind_those_that_follow() {
    for (at, asks, settings) in everywhere() {
        let (mut net, _) = net(at, asks, |n| match n {
            1 => Verdict {
                behind: 2,
                delay: Duration::from_secs(1),
                ..Verdict::default()
            },
            6 => Verdict {
                behind: 3,
                delay: Duration::from_secs(1),
                ..Verdict::default()
            },
            n => Verdict {
                uncounted: n == 3,
                ..Verdict::default()
            },
        });
        net.set(settings);
        for n in 0..8 {
            net.send(n, 100);
        }
        net.advance(net.kernel.now() + 2 * SECOND);
        // Too few follow the last one: its time comes.
        assert_eq!(net.received(1), [0, 2, 3, 4, 1, 5, 7, 6]);
    }
}

#[test]
fn what_is_held_goes_on_in_order_when_it_may() {
    for (at, asks, settings) in everywhere() {
        let holds = Arc::new(Mutex::new(false));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer_holds, answer_seen) = (holds.clone(), seen.clone());
        let (mut net, end) = net(at, asks, move |n| {
            let mut holds = answer_holds.lock().unwrap();
            if *holds {
                return Verdict {
                    hold: Hold::Again,
                    ..Verdict::default()
                };
            }
            answer_seen.lock().unwrap().push(n);
            *holds = n == 2 || n == 4;
            Verdict {
                hold: if *holds { Hold::Stay } else { Hold::No },
                ..Verdict::default()
            }
        });
        net.set(settings);
        for n in 0..6 {
            net.send(n, 100);
        }
        net.settle();
        assert_eq!(net.received(1), [0, 1]);
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
        for more in [&[2, 3][..], &[4, 5], &[]] {
            *holds.lock().unwrap() = false;
            net.kernel.release(end).expect("released");
            net.settle();
            assert_eq!(net.received(1), more);
        }
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn nothing_is_asked_without_need_and_what_is_held_may_go() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let (mut net, end) = net(0, DEPARTURES, move |_| {
        *count.lock().unwrap() += 1;
        Verdict {
            hold: Hold::Stay,
            ..Verdict::default()
        }
    });
    net.send(1, 100);
    assert_eq!(*asked.lock().unwrap(), 1);
    net.kernel
        .ask(end, PacketHooks::default())
        .expect("no longer");
    // A trace does not bring the questions back.
    net.trace(0, TIMES);
    net.send(2, 100);
    net.settle();
    assert_eq!(*asked.lock().unwrap(), 1);
    assert_eq!(net.received(1), [2]);
    assert_eq!(net.events().len(), 1);
    net.kernel
        .detach(end)
        .expect("the end goes with what it holds");
    net.kernel.release(end).expect_err("there is no end");
    assert_eq!(net.received(1), []);
}

/// A mark is told of a packet that departs, where it is asked for.
#[test]
fn marks_are_told_where_they_are_asked_for() {
    for (at_host, asks, told) in [
        (0, DEPARTURES, [0, 0]),
        (
            0,
            PacketHooks {
                marks: true,
                ..DEPARTURES
            },
            [0, 7],
        ),
        (
            1,
            PacketHooks {
                marks: true,
                ..ARRIVALS
            },
            [0, 0],
        ),
    ] {
        let mut net = Net::new(WireKind::PointToPoint, 2);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let marks = seen.clone();
        net.kernel.on_passing(Box::new(move |packet| {
            marks.lock().unwrap().push(packet.mark);
            Verdict::default()
        }));
        let end = net.hosts[at_host].end;
        net.kernel.ask(end, asks).expect("asked");
        net.send(1, 100);
        let (task, socket) = (net.hosts[0].task, net.hosts[0].socket);
        let (level, option) = (libc::SOL_SOCKET as u64, libc::SO_MARK as u64);
        let args = [socket, level, option, at(&7u32), 4];
        Task(&mut net.kernel, task).ok(libc::SYS_setsockopt, &args);
        net.send(2, 100);
        net.settle();
        assert_eq!(*seen.lock().unwrap(), told, "{asks:?}");
        assert_eq!(net.received(1), [1, 2]);
    }
}

#[test]
fn losses_are_told_and_a_callback_that_panics_is_not_asked_again() {
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let told = kinds.clone();
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.kernel.on_passing(Box::new(move |packet| {
        told.lock().unwrap().push(packet.kind.clone());
        assert!(number(packet.bytes) < 3, "enough");
        Verdict {
            drop: packet.kind == PacketKind::Departure,
            ..Verdict::default()
        }
    }));
    let all = PacketHooks {
        departures: true,
        arrivals: true,
        losses: true,
        frames: false,
        marks: false,
    };
    let end = net.hosts[0].end;
    net.kernel.ask(end, all).expect("asked");
    for n in 2..5 {
        net.send(n, 100);
    }
    net.settle();
    assert_eq!(
        *kinds.lock().unwrap(),
        [
            PacketKind::Departure,
            PacketKind::Loss(LossCause::Breakpoint),
            PacketKind::Departure,
        ]
    );
    assert_eq!(net.received(1), [3, 4]);
}

#[test]
fn a_connection_waits_for_its_second_syn() {
    /// The flags of a TCP segment over IPv4.
    fn flags(frame: &[u8]) -> u8 {
        let tcp = 14 + usize::from(frame[14] & 15) * 4;
        frame[tcp + 13]
    }
    const SYN: u8 = 2;
    let times = [false, true, true].map(|drops| {
        let mut net = Net::new(WireKind::PointToPoint, 2);
        net.address();
        net.set(WireSettings {
            delay: MS,
            ..WireSettings::default()
        });
        let mut left = u32::from(drops);
        net.kernel.on_passing(Box::new(move |packet| {
            let first = packet.bytes[12..14] == [8, 0] && flags(packet.bytes) == SYN && left > 0;
            left -= u32::from(first);
            // A connection that is being made: nothing of it is to be looked at before.
            assert!(!first || !packet.socket.is_empty());
            Verdict {
                drop: first,
                ..Verdict::default()
            }
        }));
        let end = net.hosts[0].end;
        net.kernel.ask(end, DEPARTURES).expect("asked");
        let server = net.hosts[1].task;
        let mut sys = Task(&mut net.kernel, server);
        let listener = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
        let name = sockaddr(2, 80);
        let len = size_of_val(&name) as u64;
        sys.ok(libc::SYS_bind, &[listener, at(&name), len]);
        sys.ok(libc::SYS_listen, &[listener, 1]);
        let client = net.hosts[0].task;
        let mut sys = Task(&mut net.kernel, client);
        let socket = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
        let before = sys.0.now();
        sys.ok(libc::SYS_connect, &[socket, at(&name), len]);
        net.kernel.now() - before
    });
    assert!(times[0] >= 2_000_000, "{times:?}");
    assert_eq!(times[1], times[2]);
    // TCP_TIMEOUT_INIT, and what the kernel's timer wheel adds at such a distance: eight ticks at
    // most.
    let later = times[1] - times[0];
    assert!((1_000_000_000..1_080_000_000).contains(&later), "{times:?}");
}

/// Takes all packets that are no frames of the host's own, and has others in their place.
fn taking(net: &mut Net, replace: impl Fn(&[u8], EndId, &PacketKind, &mut Puts) + Send + 'static) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let take = taken.clone();
    net.kernel.on_passing(Box::new(move |packet| {
        if packet.put {
            return Verdict::default();
        }
        let copy = (packet.bytes.to_vec(), packet.end, packet.kind.clone());
        take.lock().unwrap().push(copy);
        Verdict {
            take: true,
            ..Verdict::default()
        }
    }));
    net.kernel.on_taken(Box::new(move |_, puts| {
        for (bytes, end, kind) in taken.lock().unwrap().drain(..) {
            replace(&bytes, end, &kind, puts);
        }
    }));
}

fn on(puts: &mut Puts, end: EndId, kind: &PacketKind, frame: &[u8]) {
    match kind {
        PacketKind::Departure => puts.departs(end, frame),
        _ => puts.arrives(end, frame),
    }
}

/// By the real clock: each ARP reply is taken, and another request comes in its place, for ever.
#[test]
fn what_is_taken_again_and_again_leaves_the_caller_its_turn() {
    let mut net = Net::of(boot(Config::default()), WireKind::PointToPoint, 2);
    net.address();
    let [asking, asked] = [0, 1].map(|at| net.hosts[at].address);
    let [from, to] = [1, 2].map(|n| sockaddr(n, 0).sin_addr.s_addr.to_ne_bytes());
    // RFC 826: a request for the second machine's address.
    let question = [
        &asked[..],
        &asking,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &asking,
        &from,
        &[0; 6],
        &to,
    ]
    .concat();
    let answers = Arc::new(AtomicU32::new(0));
    let (count, again) = (answers.clone(), question.clone());
    taking(&mut net, move |_, end, _, puts| {
        count.fetch_add(1, SeqCst);
        puts.arrives(end, &again);
    });
    let end = net.hosts[1].end;
    net.kernel.ask(end, DEPARTURES).expect("asked");
    net.kernel
        .put(|puts| puts.arrives(end, &question))
        .expect("put");
    let mut last = 0;
    for _ in 0..3 {
        let due = net.kernel.run().expect("it runs").expect("there is more");
        assert!(due <= net.kernel.now());
        let so_far = answers.load(SeqCst);
        assert!(so_far > last, "{so_far} after {last}");
        last = so_far;
    }
}

#[test]
fn others_come_in_the_place_of_what_is_taken() {
    for (at, asks, settings) in everywhere() {
        let mut net = Net::new(WireKind::PointToPoint, 2);
        let end = net.hosts[at].end;
        net.set(settings);
        let (own, other) = (net.hosts[0].address, net.hosts[1].address);
        taking(&mut net, move |frame, end, kind, puts| {
            let mut changed = frame.to_vec();
            changed[80] += 1;
            match number(frame) {
                1 => puts.loses(end, frame),
                2 => {
                    on(puts, end, kind, frame);
                    on(puts, end, kind, &changed);
                }
                3 => on(puts, end, kind, &changed),
                4 => {
                    changed[..6].copy_from_slice(&own);
                    changed[6..12].copy_from_slice(&other);
                    match kind {
                        PacketKind::Departure => puts.arrives(end, &changed),
                        _ => puts.departs(end, &changed),
                    }
                }
                _ => on(puts, end, kind, frame),
            }
        });
        net.kernel.ask(end, asks).expect("asked");
        let losses = Trace {
            losses: true,
            bytes: 200,
            ..Trace::default()
        };
        net.trace(at, losses);
        for n in 0..6 {
            net.send(n, 100);
        }
        net.settle();
        let lost = net.events();
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].kind, PacketKind::Loss(LossCause::Pod));
        assert_eq!((lost[0].end, number(&lost[0].bytes)), (end, 1));
        let frames = net.frames(1);
        let arrived: Vec<_> = frames.iter().map(|f| (number(f), f[80])).collect();
        assert_eq!(arrived, [(0, 0), (2, 0), (2, 1), (3, 1), (5, 0)]);
        assert_eq!(net.received(0), [4]);
        let kind = match at {
            0 => PacketKind::Departure,
            _ => PacketKind::Arrival,
        };
        net.kernel
            .put(|puts| on(puts, end, &kind, &frames[0]))
            .expect("put");
        net.settle();
        assert_eq!(net.received(1).len(), 1);
        assert_eq!(net.statistics(0).lost_limit, 0);
    }
}

#[test]
fn what_is_taken_has_the_size_of_the_mtu_and_its_checksums() {
    /// The ones' complement sum of a TCP segment over IPv4 with its pseudo header: 0xffff.
    fn sum(frame: &[u8]) -> u32 {
        let ip = usize::from(frame[14] & 15) * 4;
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let segment = &frame[14 + ip..end];
        let mut sum = 6 + segment.len() as u32;
        for bytes in [&frame[26..34], segment] {
            for pair in bytes.chunks(2) {
                let low = pair.get(1).copied().unwrap_or(0);
                sum += u32::from(u16::from_be_bytes([pair[0], low]));
            }
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }
    for (at_host, asks) in [(0, DEPARTURES), (1, ARRIVALS)] {
        let mut net = Net::new(WireKind::PointToPoint, 2);
        net.address();
        let seen = Arc::new(Mutex::new(0));
        let count = seen.clone();
        taking(&mut net, move |frame, end, kind, puts| {
            assert!(frame.len() <= 1514, "{}", frame.len());
            if frame[12..14] == [8, 0] {
                assert_eq!(sum(frame), 0xffff);
            }
            *count.lock().unwrap() += 1;
            on(puts, end, kind, frame);
        });
        let end = net.hosts[at_host].end;
        let asks = PacketHooks {
            frames: true,
            ..asks
        };
        net.kernel.ask(end, asks).expect("asked");
        let (server, client) = (net.hosts[1].task, net.hosts[0].task);
        let mut sys = Task(&mut net.kernel, server);
        let listener = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
        let name = sockaddr(2, 80);
        let len = size_of_val(&name) as u64;
        sys.ok(libc::SYS_bind, &[listener, at(&name), len]);
        sys.ok(libc::SYS_listen, &[listener, 1]);
        let mut sys = Task(&mut net.kernel, client);
        let socket = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
        sys.ok(libc::SYS_connect, &[socket, at(&name), len]);
        let accepted = Task(&mut net.kernel, server).ok(libc::SYS_accept, &[listener, 0, 0]);
        let data: Vec<u8> = (0..30_000u32).map(|n| (n % 251) as u8).collect();
        let mut got = Vec::new();
        for _ in 0..10 {
            assert_eq!(Task(&mut net.kernel, client).write(socket, &data), 30_000);
            net.kernel.run().expect("it runs");
            let mut part = vec![0; 30_000];
            let all = libc::MSG_WAITALL as u64;
            let args = [
                accepted,
                common::at_mut(part.as_mut_slice()),
                30_000,
                all,
                0,
                0,
            ];
            assert_eq!(
                Task(&mut net.kernel, server).ok(libc::SYS_recvfrom, &args),
                30_000
            );
            got.push(part);
        }
        assert!(got.iter().all(|part| *part == data));
        assert!(*seen.lock().unwrap() > 10 * 30_000 / 1448);
    }
}
