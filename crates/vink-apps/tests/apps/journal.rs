//! Runs on a virtual clock, written down: the same each time, and otherwise with another seed.

use std::fs::File;
use std::io::{Read, Seek};
use std::time::Duration;

use crate::lab::Lab;
use vink_kernel::{Clock, EndId, Loss, Trace, WireSettings};
use vink_lab::Journal;
use vink_record::{first_difference, pcapng, Event, PacketOutcome, Reader, Totals};
use vink_trap::Program;

/// A file without a name.
fn file() -> File {
    vink_sys::fd::in_memory(c"journal").expect("a file")
}

/// The journal of two transfers over a wire that loses packets, on a kernel with this seed.
fn run(seed: u8) -> (Vec<u8>, Totals) {
    let mut lab = Lab::with_seed(Clock::Virtual, 64 << 20, seed);
    lab.set_wire(WireSettings {
        rate: 10_000_000,
        delay: Duration::from_millis(10),
        loss: Loss::Random(0.02),
        ..WireSettings::default()
    });
    let mut to = file();
    let copy = to.try_clone().expect("a descriptor");
    let mut journal = Journal::start(&mut lab.worker, copy, "a journal");
    let all = Trace {
        departures: true,
        arrivals: true,
        losses: true,
        drops: true,
        bytes: u16::MAX,
    };
    for end in lab.ends {
        lab.kernel().trace(end, all).expect("it is traced");
    }
    let names: Vec<(EndId, &str)> = lab
        .ends
        .into_iter()
        .zip(["client:eth0", "server:eth0"])
        .collect();
    lab.serve("sink -n 2");
    for line in ["source -n 200000 10.0.0.2", "source -n 200000 fd00::2"] {
        let id = lab.start(lab.client.id, line);
        lab.finish(id);
        while let Some(packet) = lab.kernel().next_packet() {
            let place = names.iter().find(|(end, _)| *end == packet.end);
            journal.packet(place.map(|(_, name)| *name), &packet);
        }
        let missed = lab.kernel().missed_packets();
        journal.caught_up(missed);
    }
    let now = lab.kernel().now();
    let totals = journal.finish(now).expect("it is written");
    let mut bytes = Vec::new();
    to.rewind().expect("a file");
    to.read_to_end(&mut bytes).expect("a file");
    (bytes, totals)
}

fn reader(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(bytes, "a journal").expect("a journal")
}

#[test]
fn a_run_repeats_with_its_seed_and_not_with_another() {
    let (one, totals) = run(7);
    let (same, again) = run(7);
    assert_eq!(totals, again);
    assert!(totals.packets > 600 && totals.missed == 0, "{totals:?}");
    assert_eq!(one, same);
    let packets = |bytes| {
        let mut file = Vec::new();
        pcapng(reader(bytes), &mut file, "memory").expect("packets");
        file
    };
    assert_eq!(packets(&one), packets(&same));
    assert_eq!(
        first_difference(reader(&one), reader(&same), 1).expect("journals"),
        None
    );

    let (other, others) = run(8);
    assert_ne!(totals.digest, others.digest);
    let found = first_difference(reader(&one), reader(&other), 3).expect("journals");
    assert!(found.is_some_and(|found| found.strand.is_none()));

    // What arrives has departed with the same bytes.
    let (mut departed, mut arrived, mut lost) = (Vec::new(), 0, 0);
    let mut records = reader(&one);
    while let Some(record) = records.next_record().expect("a record") {
        match record.event {
            Event::Packet {
                outcome: PacketOutcome::Departure,
                hash,
                ..
            } => departed.push(hash),
            Event::Packet {
                outcome: PacketOutcome::Arrival,
                hash,
                ..
            } => {
                assert!(departed.contains(&hash), "{}", record.time);
                arrived += 1;
            }
            Event::Packet {
                outcome: PacketOutcome::Loss(_),
                ..
            } => lost += 1,
            other => panic!("{other}"),
        }
    }
    assert!(lost > 0 && arrived > 500, "{arrived} arrived, {lost} lost");
}

#[test]
fn a_call_comes_after_the_packets_that_were_sent_before_it() {
    let mut lab = Lab::with_seed(Clock::Virtual, 64 << 20, 7);
    let departures = Trace {
        departures: true,
        bytes: u16::MAX,
        ..Trace::default()
    };
    let [end, _] = lab.ends;
    lab.kernel().trace(end, departures).expect("it is traced");
    let script = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b'x', ('10.0.0.2', 9)); s.getsockname()";
    let send = |lab: &mut Lab| {
        let python = Program::new("/usr/bin/python3").args(["-c", script]);
        let id = lab.worker.spawn(lab.client.id, python).expect("python");
        lab.worker.wait(id).expect("it ends");
    };
    // Its packets wait to be taken when the journal starts.
    send(&mut lab);
    let mut to = file();
    let copy = to.try_clone().expect("a descriptor");
    let mut journal = Journal::start(&mut lab.worker, copy, "a journal");
    send(&mut lab);
    while let Some(packet) = lab.kernel().next_packet() {
        journal.packet(Some("client:eth0"), &packet);
    }
    journal.finish(lab.kernel().now()).expect("it is written");
    to.rewind().expect("a file");
    let mut bytes = Vec::new();
    to.read_to_end(&mut bytes).expect("a file");
    let mut records = reader(&bytes);
    let mut order = Vec::new();
    while let Some(record) = records.next_record().expect("a record") {
        match record.event {
            Event::Packet { length: 43, .. } => order.push("packet"),
            Event::Call { text, .. } if text.starts_with("sendto") => order.push("sendto"),
            Event::Call { text, .. } if text.starts_with("getsockname") => order.push("next call"),
            _ => {}
        }
    }
    order.dedup();
    assert_eq!(order, ["packet", "sendto", "next call"]);
}
