//! Flights: that they are what departures, arrivals and losses say, and when they are told.

mod common;
#[path = "common/net.rs"]
mod net;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use net::{number, Net, MS, TIMES};
use vink_kernel::{Loss, LossCause, PacketKind, WireKind, WireSettings};

/// A flight, and the number of its frame.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    id: u64,
    number: u32,
    sent: u64,
    arrives: u64,
    lost: Option<LossCause>,
}

type All = Arc<Mutex<Vec<Told>>>;

/// Hears of what the first machine sends.
fn fly(net: &mut Net) -> All {
    let all = All::default();
    let to = all.clone();
    net.kernel.on_flight(Box::new(move |flight| {
        to.lock().expect("no panic").push(Told {
            id: flight.id,
            number: number(flight.bytes),
            sent: flight.sent,
            arrives: flight.arrives,
            lost: flight.lost,
        });
    }));
    net.kernel.fly(net.hosts[0].end, true).expect("flights");
    all
}

fn taken(all: &All) -> Vec<Told> {
    std::mem::take(&mut all.lock().expect("no panic"))
}

#[test]
fn a_flight_is_its_departure_and_its_arrival() {
    for settings in [
        WireSettings::default(),
        WireSettings {
            rate: 3_000_000,
            delay: 7 * MS,
            jitter: 3 * MS,
            overtake: true,
            duplicate: 0.2,
            loss: Loss::Random(0.2),
            ..WireSettings::default()
        },
    ] {
        let mut net = Net::new(WireKind::PointToPoint, 2);
        net.set(settings);
        let all = fly(&mut net);
        for host in [0, 1] {
            net.trace(
                host,
                vink_kernel::Trace {
                    bytes: 2000,
                    ..TIMES
                },
            );
        }
        for n in 0..60 {
            net.send(n, 100);
        }
        net.settle();
        let mut flights = taken(&all);
        let events = net.events();
        let of = |kind: PacketKind| -> Vec<(u32, u64)> {
            let events = events.iter().filter(|event| event.kind == kind);
            let mut all: Vec<_> = events.map(|e| (number(&e.bytes), e.time)).collect();
            all.sort_unstable();
            all
        };
        let departures = of(PacketKind::Departure);
        for flight in &flights {
            assert!(
                departures.contains(&(flight.number, flight.sent)),
                "{flight:?}"
            );
        }
        flights.sort_by_key(|flight| (flight.number, flight.arrives));
        let mut ids: Vec<u64> = flights.iter().map(|flight| flight.id).collect();
        let some = |lost: bool| {
            let some = flights.iter().filter(move |f| f.lost.is_some() == lost);
            some.map(|f| (f.number, f.arrives)).collect::<Vec<_>>()
        };
        assert_eq!(some(false), of(PacketKind::Arrival));
        assert_eq!(some(true), of(PacketKind::Loss(LossCause::Random)));
        // Those that were lost at once have none.
        ids.retain(|id| *id > 0);
        ids.sort_unstable();
        let count = some(false).len() as u64;
        assert_eq!(ids, (1..=count).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_lost_on_its_way_is_told_again_by_its_id() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        delay: 10 * MS,
        ..WireSettings::default()
    });
    let all = fly(&mut net);
    net.send(1, 100);
    let start = net.kernel.now();
    let first = taken(&all);
    assert_eq!(first.len(), 1, "told as it departs: {first:?}");
    assert_eq!(first[0].arrives, start + 10_000_000);
    net.advance(start + 4_000_000);
    net.kernel.wire_up(net.wire, false).expect("down");
    let lost = Told {
        arrives: start + 4_000_000,
        lost: Some(LossCause::Down),
        ..first[0]
    };
    assert_eq!(taken(&all), [lost]);

    // A far interface that is down is found out when the packet is there.
    net.kernel.wire_up(net.wire, true).expect("up");
    net.send(2, 100);
    let second = taken(&all);
    net::set_flags(&mut net.kernel, net.hosts[1].task, 0);
    net.settle();
    let lost = Told {
        lost: Some(LossCause::Down),
        ..second[0]
    };
    assert_eq!(taken(&all), [lost]);
}

#[test]
fn nothing_is_told_when_nothing_is_wanted() {
    let mut net = Net::new(WireKind::Bus, 3);
    let all = fly(&mut net);
    net.send(1, 100);
    assert_eq!(taken(&all).len(), 1);
    let end = net.hosts[0].end;
    net.kernel
        .ask(end, vink_kernel::PacketHooks::default())
        .expect("hooks");
    net.send(2, 100);
    assert_eq!(taken(&all).len(), 1, "other wishes do not end them");
    net.kernel.fly(end, false).expect("no flights");
    net.send(3, 100);
    assert_eq!(taken(&all), []);
    assert_eq!(net.received(1), [1, 2, 3]);
}

#[test]
fn counts_of_many_ends() {
    let mut net = Net::new(WireKind::PointToPoint, 2);
    net.set(WireSettings {
        rate: 8_000_000,
        delay: Duration::from_millis(1),
        ..WireSettings::default()
    });
    for n in 0..10 {
        net.send(n, 1000);
    }
    let ends = [net.hosts[1].end, net.hosts[0].end];
    let counts = net.kernel.counts(&ends).expect("counts");
    assert_eq!(counts[0], vink_kernel::EndCounts::default());
    // One is being sent, one follows, the others wait in the interface's queue.
    assert_eq!((counts[1].under_way, counts[1].queued), (2, 8));
    net.settle();
    let counts = net.kernel.counts(&ends).expect("counts");
    assert_eq!((counts[1].sent, counts[1].sent_bytes), (10, 10_000));
    assert_eq!((counts[1].under_way, counts[1].queued), (0, 0));
}
