//! Captures: what is in the files, filters, and descriptors that take no more.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use vink_lab::worker::compile_filter;
use vink_protocol::{Action, Answer, Event};
use vink_spec::{Settings, Share};

use crate::place::Place;
use crate::talk::{pipe, Talk};

fn two_machines(place: &Place) -> Talk {
    let mut talk = Talk::new(place);
    talk.machine("a");
    talk.machine("b");
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    talk
}

fn capture(interfaces: &[&str], filter: &str, snap: u32) -> Action {
    Action::Capture {
        interfaces: interfaces.iter().map(|i| (*i).to_owned()).collect(),
        filter: (!filter.is_empty()).then(|| compile_filter(filter).expect(filter)),
        snap,
    }
}

fn begin(talk: &mut Talk, action: Action, to: &impl AsFd) -> u64 {
    match talk.ask_with(action, &[to.as_fd()]) {
        Ok(Answer::Capture(number)) => number,
        other => panic!("{other:?}"),
    }
}

fn end(talk: &mut Talk, capture: u64) -> (u64, u64) {
    match talk.ok(Action::StopCapture { capture }) {
        Answer::Captured { written, missed } => (written, missed),
        other => panic!("{other:?}"),
    }
}

/// A packet of a file.
#[derive(Debug)]
struct Found {
    interface: String,
    time: u128,
    bytes: Vec<u8>,
    length: u32,
    flags: u32,
    comment: String,
}

fn read(bytes: &[u8]) -> Vec<Found> {
    let mut reader = PcapNgReader::new(bytes).expect("a section");
    let mut names = Vec::new();
    let mut found = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.expect("a block") {
            Block::InterfaceDescription(block) => {
                let mut name = String::new();
                for option in block.options {
                    match option {
                        InterfaceDescriptionOption::IfName(text) => name = text.into_owned(),
                        InterfaceDescriptionOption::IfTsResol(digits) => assert_eq!(digits, 9),
                        _ => {}
                    }
                }
                names.push(name);
            }
            Block::EnhancedPacket(block) => {
                let (mut flags, mut comment) = (0, String::new());
                for option in &block.options {
                    match option {
                        EnhancedPacketOption::Flags(bits) => flags = *bits,
                        EnhancedPacketOption::Comment(text) => comment = text.to_string(),
                        _ => {}
                    }
                }
                found.push(Found {
                    interface: names[block.interface_id as usize].clone(),
                    time: block.timestamp.as_nanos(),
                    bytes: block.data.into_owned(),
                    length: block.original_len,
                    flags,
                    comment,
                });
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

#[test]
fn two_interfaces_in_a_file() {
    for place in Place::all() {
        let mut talk = two_machines(&place);
        talk.run("a", "ping -q -c 1 10.0.0.2");
        let path = place.temporary().join("both.pcapng");
        let file = File::create(&path).unwrap();
        let both = begin(&mut talk, capture(&["a:eth0", "b:eth0"], "", 0), &file);
        let short = place.temporary().join("short.pcapng");
        let filter = "icmp[icmptype] = icmp-echoreply";
        let only = begin(
            &mut talk,
            capture(&["b:eth0"], filter, 40),
            &File::create(&short).unwrap(),
        );
        let before = std::time::SystemTime::now();
        talk.run("a", "ping -q -c 3 -i 0.01 10.0.0.2");
        let set = |loss| Action::Set {
            wire: "w".to_owned(),
            end: Some("a:eth0".to_owned()),
            settings: Settings {
                loss: Some(Share(loss)),
                ..Settings::default()
            },
        };
        talk.ok(set(1.0));
        talk.run("a", "ping -q -c 1 -W 0.01 10.0.0.2");
        talk.ok(set(0.0));
        // Nothing listens there, so that the stack drops it.
        talk.run("a", "echo > /dev/udp/10.0.0.2/4444");
        assert_eq!(end(&mut talk, only), (3, 0));
        let (written, missed) = end(&mut talk, both);
        assert_eq!(missed, 0);

        let packets = read(&std::fs::read(&path).unwrap());
        assert_eq!(packets.len() as u64, written);
        let icmp = |packet: &&Found| packet.bytes[23] == 1 && packet.comment.is_empty();
        let count = |interface: &str, flags: u32| {
            let here = packets
                .iter()
                .filter(icmp)
                .filter(|p| p.interface == interface);
            here.filter(|p| p.flags & 3 == flags && p.length == 98)
                .count()
        };
        // Outbound: three requests and the lost one; three replies.
        assert_eq!((count("a:eth0", 2), count("a:eth0", 1)), (4, 3));
        assert_eq!((count("b:eth0", 2), count("b:eth0", 1)), (3, 3));
        let comments: Vec<_> = packets.iter().map(|p| p.comment.as_str()).collect();
        assert!(comments.contains(&"dropped: random"), "{comments:?}");
        assert!(comments.contains(&"dropped: NO_SOCKET"), "{comments:?}");
        assert!(packets.iter().all(|p| p.bytes.len() == p.length as usize));
        assert!(packets.is_sorted_by_key(|p| p.time));
        let date = before
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos();
        let off = packets[0].time.abs_diff(date);
        assert!(off < 60_000_000_000, "{off} ns from now");

        let replies = read(&std::fs::read(&short).unwrap());
        assert_eq!(replies.len(), 3);
        for reply in &replies {
            assert_eq!((reply.bytes.len(), reply.length, reply.flags), (40, 98, 2));
        }
        let tcpdump = std::process::Command::new("tcpdump")
            .args(["-n", "-r"])
            .arg(&path)
            .output()
            .expect("tcpdump");
        let text = String::from_utf8_lossy(&tcpdump.stdout);
        assert!(
            text.contains("10.0.0.2 > 10.0.0.1: ICMP echo reply"),
            "{text}"
        );
    }
}

#[test]
fn descriptors_that_take_no_more() {
    let place = &Place::all()[0];
    let mut talk = two_machines(place);
    let all = || capture(&["a:eth0"], "", 0);
    let ended = |talk: &mut Talk, number: u64| {
        talk.event(|event| match event {
            Event::CaptureEnded { capture, error } if *capture == number => Some(error.clone()),
            _ => None,
        })
    };
    let full = File::options().write(true).open("/dev/full").unwrap();
    let number = begin(&mut talk, all(), &full);
    let error = ended(&mut talk, number);
    assert!(error.contains("No space left"), "{error}");

    let (reader, writer) = pipe();
    let number = begin(&mut talk, all(), &writer);
    drop((reader, writer));
    talk.run("a", "ping -q -c 1 10.0.0.2");
    let error = ended(&mut talk, number);
    assert!(error.contains("reader has gone"), "{error}");

    // A reader that doesn't read: what does not fit is counted, and the rest comes when it does.
    let (mut reader, writer) = pipe();
    let number = begin(&mut talk, all(), &writer);
    drop(writer);
    let (code, text) = talk.run("a", "ping -q -f -l 100 -s 1400 -c 10000 10.0.0.2");
    assert_eq!(code, 0, "{text}");
    let (written, missed) = end(&mut talk, number);
    assert!(missed > 0 && written > 0, "{written}, {missed}");
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(read(&bytes).len() as u64, written);
    let refused = talk.refused(Action::StopCapture { capture: number });
    assert!(refused.contains("no such capture"), "{refused}");
}

#[test]
fn what_can_not_be_captured() {
    let place = &Place::all()[0];
    let mut talk = two_machines(place);
    let (_reader, writer) = pipe();
    for (interfaces, words) in [
        (&["a:eth1"][..], "eth1"),
        (&["a"], "MACHINE:INTERFACE"),
        (&["c:eth0"], "machine c"),
        (&[], "no interface"),
    ] {
        let action = capture(interfaces, "", 0);
        let error = talk.ask_with(action, &[writer.as_fd()]).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
