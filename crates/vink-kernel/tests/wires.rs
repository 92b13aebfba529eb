//! Wires: what each setting does, by frames of packet sockets and a virtual clock, on which all is
//! exact.

mod common;
#[path = "common/net.rs"]
mod net;

use std::time::Duration;

use common::{at, boot, Caller, Task};
use net::{assert_binomial, number, set_flags, Net, HEADER, MS, PROTOCOL, TIMES};
use vink_kernel::{
    Attachment, Clock, Config, EndId, Error, Kernel, Loss, LossCause, PacketKind, Trace, WireKind,
    WireSettings,
};

#[test]
fn an_ideal_wire_takes_no_time_and_loses_nothing() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let start = net.kernel.now();
    for n in 0..100 {
        net.send(n, 1514);
    }
    assert_eq!(net.received(1), (0..100).collect::<Vec<_>>());
    assert_eq!(net.kernel.now(), start);
    let ends = [net.hosts[0].end, net.hosts[1].end];
    let [a, b] = ends.map(|end| net.kernel.wire_statistics(end).expect("statistics"));
    assert_eq!((a.sent, a.sent_bytes, a.received), (100, 151_400, 0));
    assert_eq!((b.sent, b.received, b.received_bytes), (0, 100, 151_400));
}

#[test]
fn a_delay_is_exact() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let delay = Duration::from_nanos(12_345_678);
    net.set(WireSettings {
        delay,
        ..WireSettings::default()
    });
    net.trace(0, TIMES);
    net.trace(1, TIMES);
    net.send(1, 100);
    net.settle();
    let events = net.events();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.clone()).collect();
    assert_eq!(kinds, [PacketKind::Departure, PacketKind::Arrival]);
    assert_eq!(events[1].time - events[0].time, 12_345_678);
    assert_eq!(net.received(1), [1]);
}

#[test]
fn a_rate_sends_one_frame_at_a_time() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    // 1000 bytes take 2666666 2/3 ns.
    net.set(WireSettings {
        rate: 3_000_000,
        ..WireSettings::default()
    });
    net.trace(1, TIMES);
    let start = net.kernel.now();
    for n in 0..30 {
        net.send(n, 1000);
    }
    net.settle();
    let times: Vec<_> = net
        .events()
        .iter()
        .map(|event| event.time - start)
        .collect();
    let planned: Vec<_> = (1..=30).map(|n| n * 8_000_000_000 / 3_000).collect();
    assert_eq!(times, planned);
}

/// Sends so many frames over a wire with a delay of 10 ms and these settings, one each ms; how long
/// each was under way.
fn travel_times(settings: WireSettings, count: u32) -> Vec<(u32, u64)> {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        delay: 10 * MS,
        ..settings
    });
    net.trace(1, Trace { bytes: 64, ..TIMES });
    let start = net.kernel.now();
    for n in 0..count {
        net.advance(start + u64::from(n) * 1_000_000);
        net.send(n, 64);
    }
    net.settle();
    let times = net.events().into_iter().map(|event| {
        let n = number(&event.bytes);
        (n, event.time - start - u64::from(n) * 1_000_000)
    });
    times.collect()
}

#[test]
fn jitter_keeps_the_order_unless_it_may_not() {
    let settings = WireSettings {
        jitter: 4 * MS,
        ..WireSettings::default()
    };
    let times = travel_times(settings, 1000);
    assert!(times.is_sorted_by_key(|(n, _)| *n));
    assert!(times
        .iter()
        .all(|(_, t)| (6_000_000..=14_000_000).contains(t)));
    let times = travel_times(
        WireSettings {
            overtake: true,
            ..settings
        },
        1000,
    );
    assert_eq!(times.len(), 1000);
    assert!(!times.is_sorted_by_key(|(n, _)| *n));
    assert!(times
        .iter()
        .all(|(_, t)| (6_000_000..=14_000_000).contains(t)));
    // Evenly: each quarter of the range has a quarter of the packets.
    for quarter in 0..4 {
        let from = 6_000_000 + quarter * 2_000_000;
        let inside = |(_, t): &&(u32, u64)| (from..from + 2_000_000).contains(t);
        assert_binomial(times.iter().filter(inside).count() as u64, 1000, 0.25);
    }
}

#[test]
fn a_jitter_larger_than_the_delay_does_not_go_back_in_time() {
    let settings = WireSettings {
        jitter: 30 * MS,
        overtake: true,
        ..WireSettings::default()
    };
    let times = travel_times(settings, 500);
    assert!(times.iter().all(|(_, t)| *t <= 40_000_000));
    assert!(times.iter().any(|(_, t)| *t < 2_000_000));
}

#[test]
fn reordered_packets_have_no_delay() {
    let reorder = |reorder, gap| WireSettings {
        reorder,
        gap,
        ..WireSettings::default()
    };
    let times = travel_times(reorder(0.25, 0), 2000);
    let at_once = times.iter().filter(|(_, t)| *t == 0).count();
    assert_binomial(at_once as u64, 2000, 0.25);
    assert!(times.iter().all(|(_, t)| *t == 0 || *t == 10_000_000));

    let mut times = travel_times(reorder(1.0, 5), 100);
    times.sort();
    let at_once: Vec<_> = times.iter().filter(|(_, t)| *t == 0).collect();
    let fifth: Vec<_> = (0..20).map(|n| (5 * n + 4, 0)).collect();
    assert_eq!(at_once, fifth.iter().collect::<Vec<_>>());
}

/// Sends so many frames of 100 bytes at once and lets them arrive.
fn after(settings: WireSettings, count: u32) -> Net {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(settings);
    net.trace(
        1,
        Trace {
            bytes: 100,
            ..TIMES
        },
    );
    for n in 0..count {
        net.send(n, 100);
    }
    net.settle();
    net
}

#[test]
fn losses_by_chance() {
    for probability in [0.0, 0.01, 0.3, 1.0] {
        let settings = WireSettings {
            loss: Loss::Random(probability),
            ..WireSettings::default()
        };
        let mut net = after(settings, 5000);
        let [a, b] = [0, 1].map(|host| net.statistics(host));
        assert_binomial(a.lost_random, 5000, probability);
        assert_eq!(b.received, 5000 - a.lost_random);
        assert_eq!(net.received(1).len() as u64, b.received);
    }
}

#[test]
fn losses_in_bursts() {
    let settings = WireSettings {
        loss: Loss::Bursts {
            to_bad: 0.02,
            to_good: 0.2,
            loss_bad: 0.9,
            loss_good: 0.001,
        },
        ..WireSettings::default()
    };
    let mut net = after(settings, 20_000);
    let received = net.received(1);
    let mut lost = vec![true; 20_000];
    for n in received {
        lost[n as usize] = false;
    }
    // The chain is in its bad state for 0.02 / (0.02 + 0.2) of the packets; of those behind a lost
    // one nearly all find it there still, unless it has changed (0.2).
    let share = |of: &[bool]| of.iter().filter(|lost| **lost).count() as f64 / of.len() as f64;
    let (bad, all) = (0.02 / 0.22, share(&lost));
    let expected = bad * 0.9 + (1.0 - bad) * 0.001;
    assert!(
        (all - expected).abs() < 0.1 * expected,
        "{all}, not {expected}"
    );
    let behind: Vec<_> = lost.windows(2).filter(|w| w[0]).map(|w| w[1]).collect();
    let expected = 0.8 * 0.9;
    assert!(
        (share(&behind) - expected).abs() < 0.1 * expected,
        "{}",
        share(&behind)
    );
}

#[test]
fn corruption_changes_one_bit() {
    let settings = WireSettings {
        corrupt: 0.2,
        ..WireSettings::default()
    };
    let mut net = after(settings, 3000);
    let corrupted = net.statistics(0).corrupted;
    assert_binomial(corrupted, 3000, 0.2);
    let events = net.events();
    assert_eq!(events.len(), 3000);
    let mut changed = 0;
    for (n, event) in (0u32..).zip(events) {
        let mut sent = [0u8; 100];
        sent[..6].copy_from_slice(&net.hosts[1].address);
        sent[6..12].copy_from_slice(&net.hosts[0].address);
        sent[12..14].copy_from_slice(&PROTOCOL);
        sent[96..].copy_from_slice(&n.to_be_bytes());
        let pairs = sent.iter().zip(&event.bytes);
        let bits: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(bits <= 1, "frame {n}");
        changed += u64::from(bits);
    }
    assert_eq!(changed, corrupted);
}

#[test]
fn duplicates() {
    let settings = WireSettings {
        duplicate: 0.1,
        delay: MS,
        ..WireSettings::default()
    };
    let mut net = after(settings, 3000);
    let duplicated = net.statistics(0).duplicated;
    assert_binomial(duplicated, 3000, 0.1);
    let mut received = net.received(1);
    assert_eq!(received.len() as u64, 3000 + duplicated);
    assert!(received.is_sorted());
    received.dedup();
    assert_eq!(received.len(), 3000);
}

#[test]
fn a_limit_of_packets_under_way() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        delay: 1000 * MS,
        limit: 10,
        ..WireSettings::default()
    });
    net.trace(0, TIMES);
    for n in 0..15 {
        net.send(n, 100);
    }
    assert_eq!(net.statistics(0).under_way, 10);
    net.settle();
    assert_eq!(net.statistics(0).lost_limit, 5);
    assert_eq!(net.received(1), (0..10).collect::<Vec<_>>());
    let lost = PacketKind::Loss(LossCause::Limit);
    assert_eq!(
        net.events()
            .iter()
            .filter(|event| event.kind == lost)
            .count(),
        5
    );
}

#[test]
fn no_limit_but_memory() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        delay: 10_000 * MS,
        ..WireSettings::default()
    });
    let mut n = 0;
    while net.statistics(0).lost_limit == 0 {
        net.send(n, 1514);
        n += 1;
    }
    assert!(n > 10_000, "{n} packets in 64 MiB");
    let counters = net.kernel.counters().expect("counters");
    assert!(counters.free_pages * 16 > counters.arena_pages);
    net.kernel.wire_up(net.wire, false).expect("down");
    assert_eq!(net.statistics(0).under_way, 0);
}

#[test]
fn an_mtu_of_the_wire() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        mtu: 1000,
        ..WireSettings::default()
    });
    net.send(1, HEADER + 1000);
    net.send(2, HEADER + 1001);
    assert_eq!(net.received(1), [1]);
    assert_eq!(net.statistics(0).lost_mtu, 1);
}

#[test]
fn directions_are_apart() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let (wire, slow) = (net.wire, net.hosts[0].end);
    let settings = WireSettings {
        delay: 5 * MS,
        ..WireSettings::default()
    };
    let set = net.kernel.set_wire(wire, Some(slow), &settings);
    set.expect("settings");
    let to = net.hosts[0].address;
    net.send(1, 64);
    net.send_to(1, to, 2, 64);
    assert_eq!((net.received(0), net.received(1)), (vec![2], vec![]));
    net.settle();
    assert_eq!(net.received(1), [1]);
}

#[test]
fn a_change_holds_for_the_next_packet() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let delay = |delay| WireSettings {
        delay,
        ..WireSettings::default()
    };
    net.set(delay(1000 * MS));
    net.send(1, 64);
    net.set(delay(MS));
    net.send(2, 64);
    net.set(WireSettings::default());
    net.send(3, 64);
    assert_eq!(net.received(1), [3]);
    net.settle();
    assert_eq!(net.received(1), [2, 1]);
}

#[test]
fn a_change_of_rate_holds_for_the_packet_that_is_being_sent() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let rate = |rate| WireSettings {
        rate,
        ..WireSettings::default()
    };
    // A frame of 1000 bytes would take two hours, and another 8 ms.
    net.set(rate(1));
    net.trace(1, TIMES);
    let start = net.kernel.now();
    for n in 0..4 {
        net.send(n, 1000);
    }
    net.kernel.wait(start + 1_000_000);
    net.set(rate(1_000_000));
    net.settle();
    let times: Vec<_> = net
        .events()
        .iter()
        .map(|event| event.time - start)
        .collect();
    assert_eq!(times, [9_000_000, 17_000_000, 25_000_000, 33_000_000]);

    // Ideal, while frames wait: they go in their order.
    net.set(rate(1));
    for n in 4..8 {
        net.send(n, 1000);
    }
    net.set(WireSettings::default());
    net.send(8, 1000);
    net.settle();
    assert_eq!(net.received(1), (0..9).collect::<Vec<_>>());
}

#[test]
fn what_waits_is_the_queueing_disciplines() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        rate: 1_000_000,
        ..WireSettings::default()
    });
    for n in 0..50 {
        net.send(n, 1000);
    }
    let statistics = net.statistics(0);
    assert_eq!((statistics.sent, statistics.under_way), (2, 2));
    net.settle();
    assert_eq!(net.received(1), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_rate_holds_for_long() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        rate: 9_999_991,
        delay: 3 * MS,
        ..WireSettings::default()
    });
    net.trace(1, TIMES);
    let start = net.kernel.now();
    let mut bytes = 0;
    for n in 0..5000 {
        let len = 60 + n as usize % 1455;
        bytes += len as u64;
        net.send(n, len);
    }
    net.settle();
    let last = net.events().last().expect("an arrival").time - start;
    assert_eq!(last, 3_000_000 + bytes * 8 * 1_000_000_000 / 9_999_991);
}

#[test]
fn carriers_are_those_of_a_cable() {
    let mut net = Net::new(WireKind::PointToPoint, 1);
    assert!(!net.carrier(0), "alone");
    net.add(2);
    assert_eq!([net.carrier(0), net.carrier(1)], [true; 2]);

    let far = net.hosts[1].task;
    set_flags(&mut net.kernel, far, 0);
    assert!(!net.carrier(0), "the far interface is down");
    set_flags(&mut net.kernel, far, libc::IFF_UP);
    assert_eq!([net.carrier(0), net.carrier(1)], [true; 2]);

    let wire = net.wire;
    net.set(WireSettings {
        delay: MS,
        ..WireSettings::default()
    });
    net.send(1, 64);
    net.kernel.wire_up(wire, false).expect("down");
    assert_eq!([net.carrier(0), net.carrier(1)], [false; 2]);
    let statistics = net.statistics(0);
    assert_eq!((statistics.lost_down, statistics.under_way), (1, 0));
    net.kernel.wire_up(wire, true).expect("up");
    assert_eq!([net.carrier(0), net.carrier(1)], [true; 2]);
    net.send(2, 64);
    net.settle();
    assert_eq!(net.received(1), [2]);

    net.kernel.detach(net.hosts[1].end).expect("detached");
    assert!(!net.carrier(0), "alone again");
}

#[test]
fn netlink_tells_of_carriers_at_once() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let (wire, task) = (net.wire, net.hosts[0].task);
    let mut sys = Task(&mut net.kernel, task);
    let args = [
        libc::AF_NETLINK,
        libc::SOCK_RAW | libc::SOCK_NONBLOCK,
        libc::NETLINK_ROUTE,
    ];
    let socket = sys.ok(libc::SYS_socket, &args.map(|arg| arg as u64));
    let name = [libc::AF_NETLINK as u32, 0, libc::RTMGRP_LINK as u32];
    sys.ok(libc::SYS_bind, &[socket, at(&name), 12]);
    for up in [false, true, false, true] {
        net.kernel.wire_up(wire, up).expect("changed");
        let mut message = [0u8; 8192];
        let len = Task(&mut net.kernel, task).read(socket, &mut message);
        assert!(len > 32, "a message: {len}");
        let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().expect("four"));
        // struct nlmsghdr (16 bytes), struct ifinfomsg: flags at 8.
        assert_eq!(word(4) as u16, libc::RTM_NEWLINK);
        assert_eq!(word(24) & libc::IFF_RUNNING as u32 != 0, up);
        assert!(
            Task(&mut net.kernel, task).read(socket, &mut message) < 0,
            "one message"
        );
    }
}

#[test]
fn a_bus_delivers_to_its_addressees() {
    let mut net = Net::new(WireKind::Bus, 5);
    assert!(net.carrier(0));
    let to = net.hosts[3].address;
    net.send_to(0, to, 1, 64);
    net.send_to(0, [0xff; 6], 2, 64);
    net.send_to(4, [1, 0, 0x5e, 0, 0, 9], 3, 64);
    net.send_to(4, [2, 0, 0, 0, 0, 99], 4, 64);
    // What is addressed to others comes to packet sockets as PACKET_OTHERHOST.
    assert_eq!(net.received(0), [3, 4]);
    assert_eq!(net.received(1), [2, 3, 4]);
    assert_eq!(net.received(2), [2, 3, 4]);
    assert_eq!(net.received(3), [1, 2, 3, 4]);
    assert_eq!(net.received(4), [2]);

    let watcher = net.hosts[1].task;
    set_flags(&mut net.kernel, watcher, libc::IFF_UP | libc::IFF_PROMISC);
    let asleep = net.hosts[2].task;
    set_flags(&mut net.kernel, asleep, 0);
    net.send_to(0, to, 5, 64);
    net.send_to(0, [0xff; 6], 6, 64);
    assert_eq!(net.received(1), [5, 6]);
    assert_eq!(net.received(2), []);
    assert_eq!(net.received(3), [5, 6]);
    assert!(net.carrier(0), "whatever other end is down");
    net.kernel.wire_up(net.wire, false).expect("down");
    assert!(!net.carrier(0));
}

#[test]
fn a_bus_may_be_slow() {
    let mut net = Net::new(WireKind::Bus, 3);
    net.set(WireSettings {
        rate: 1_000_000,
        delay: MS,
        ..WireSettings::default()
    });
    net.trace(1, TIMES);
    net.trace(2, TIMES);
    let start = net.kernel.now();
    net.send_to(0, [0xff; 6], 1, 125);
    net.settle();
    let times: Vec<_> = net
        .events()
        .iter()
        .map(|event| event.time - start)
        .collect();
    assert_eq!(times, [2_000_000, 2_000_000]);
    assert_eq!((net.received(1), net.received(2)), (vec![1], vec![1]));
}

#[test]
fn what_happens_happens_again() {
    let run = |seed| {
        let kernel = boot(Config {
            clock: Clock::Virtual,
            seed: Some([seed; 32]),
            ..Config::default()
        });
        let mut net = Net::of(kernel, WireKind::PointToPoint, 2);
        net.set(WireSettings {
            rate: 10_000_000,
            delay: 2 * MS,
            jitter: MS,
            overtake: true,
            loss: Loss::Random(0.1),
            duplicate: 0.1,
            corrupt: 0.1,
            ..WireSettings::default()
        });
        net.trace(
            1,
            Trace {
                bytes: 100,
                ..TIMES
            },
        );
        for n in 0..200 {
            net.send(n, 100);
        }
        net.settle();
        net.events()
    };
    let first = run(1);
    assert!(first.len() > 150);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn errors_and_what_is_gone() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    let (wire, machine, end) = (net.wire, net.hosts[0].machine, net.hosts[0].end);
    let kernel = &mut net.kernel;
    let attach = |kernel: &mut Kernel, wire, interface, mtu| {
        let attachment = Attachment {
            interface,
            address: None,
            mtu,
        };
        kernel.attach(wire, machine, attachment)
    };
    let refused = |result: Result<EndId, Error>, errno| {
        let found = matches!(&result, Err(Error::Errno { errno: e, .. }) if *e == errno);
        assert!(found, "{result:?}");
    };
    refused(attach(kernel, wire, "vx1", None), libc::EBUSY);
    let bus = kernel.wire(WireKind::Bus).expect("a bus");
    refused(attach(kernel, bus, "vx0", None), libc::EEXIST);
    for name in ["", "a/b", "a b", "a\0b", "vx%d", "a-name-of-16-chr"] {
        refused(attach(kernel, bus, name, None), libc::EINVAL);
    }
    for mtu in [0, 67, 65536] {
        refused(attach(kernel, bus, "vx1", Some(mtu)), libc::EINVAL);
    }
    let own = attach(kernel, bus, "vx1", Some(9000)).expect("an end");
    let wrong = WireSettings {
        corrupt: 1.5,
        ..WireSettings::default()
    };
    assert!(matches!(
        kernel.set_wire(bus, None, &wrong),
        Err(Error::Errno { .. })
    ));
    let ideal = WireSettings::default();
    assert!(matches!(
        kernel.set_wire(bus, Some(end), &ideal),
        Err(Error::NoSuchWire)
    ));
    kernel.destroy_wire(bus).expect("the bus goes");
    assert!(matches!(kernel.destroy_wire(bus), Err(Error::NoSuchWire)));
    assert!(matches!(kernel.wire_up(bus, true), Err(Error::NoSuchWire)));
    assert!(matches!(
        attach(kernel, bus, "vx1", None),
        Err(Error::NoSuchWire)
    ));
    assert!(matches!(kernel.detach(own), Err(Error::NoSuchEnd)));
    assert!(matches!(kernel.wire_statistics(own), Err(Error::NoSuchEnd)));
    assert!(matches!(kernel.trace(own, TIMES), Err(Error::NoSuchEnd)));
    kernel.destroy_machine(machine).expect("the machine goes");
    let attached = attach(kernel, wire, "vx9", None);
    assert!(matches!(attached, Err(Error::NoSuchMachine)));
}
