//! The protocol itself: pieces, bursts, a control process that does not read, garbage.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Stdio;

use vink_protocol::{Action, Answer, Event, Message, Request, WorkerClock, WorkerConfig};
use vink_spec::Calls;

use crate::place::Place;
use crate::talk::{image, machine, null, shell, Talk};
use crate::worker_process::WorkerProcess;

#[test]
fn bursts_and_pieces() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    // Thousands of requests before the first answer is looked at; their answers fit into no socket's buffer.
    let ids: Vec<_> = (0..5000)
        .map(|i| {
            let wire = format!("w{i}");
            talk.send(Action::Wire { wire, bus: true }, &[])
        })
        .collect();
    for id in ids {
        talk.answer(id).unwrap();
    }
    // Byte by byte.
    let request = Request {
        id: 1_000_000,
        action: Action::Status {
            machines: Some(Vec::new()),
        },
    };
    let body = serde_json::to_vec(&request).unwrap();
    let mut socket = talk.link.socket();
    for byte in (body.len() as u32).to_be_bytes().iter().chain(&body) {
        socket.write_all(&[*byte]).unwrap();
    }
    match talk.answer(1_000_000).unwrap() {
        Answer::Status(status) => assert_eq!(status.wires.len(), 5000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_control_process_that_does_not_read() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    for name in ["a", "b"] {
        talk.machine(name);
    }
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    talk.ok(Action::Watch {
        interfaces: vec!["a:eth0".to_owned(), "b:eth0".to_owned()],
    });
    // Much more is to be told than is kept, and programs go on all the same: its end shows on a pipe.
    let flood = "ping -q -f -l 100 -c 20000 10.0.0.2 >/dev/null; echo done";
    let (program, mut output) = talk.start("a", flood);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "done\n");
    talk.ended(program);
    // All was told or counted, and nothing else was lost.
    let status = talk.ok(Action::Status {
        machines: Some(Vec::new()),
    });
    assert!(matches!(status, Answer::Status(_)));
    let (mut told, mut missed) = (0, 0);
    for event in talk.events.drain(..) {
        match event {
            Event::Packet(_) => told += 1,
            Event::Missed { packets } => missed += packets,
            _ => {}
        }
    }
    assert!(missed > 0, "{told} were told, {missed} missed");
    assert!(told + missed >= 80_000, "{told} were told, {missed} missed");
}

#[test]
fn packets_are_told() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    talk.machine("a");
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    let watch = |interfaces: &[&str]| Action::Watch {
        interfaces: interfaces.iter().map(|i| (*i).to_owned()).collect(),
    };
    talk.ok(watch(&["a:eth0"]));
    talk.machine("b");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    talk.run("a", "ping -c 1 10.0.0.2");
    let mut find = |kind: &str, words: &str| {
        talk.event(|event| match event {
            Event::Packet(packet) if packet.kind == kind && packet.summary.contains(words) => {
                Some((packet.end.clone(), packet.length))
            }
            _ => None,
        })
    };
    let end = "a:eth0".to_owned();
    assert_eq!(
        find("departure", "ARP, who-has 10.0.0.2 tell 10.0.0.1").0,
        end
    );
    assert_eq!(
        find("departure", "10.0.0.1 > 10.0.0.2: ICMP echo request"),
        (end.clone(), 98)
    );
    assert_eq!(
        find("arrival", "10.0.0.2 > 10.0.0.1: ICMP echo reply"),
        (end, 98)
    );
    talk.ok(watch(&[]));
    talk.events.clear();
    talk.run("a", "ping -c 1 10.0.0.2");
    assert!(!talk.events.iter().any(|e| matches!(e, Event::Packet(_))));
}

#[test]
fn garbage() {
    let place = &Place::all()[0];
    for (bytes, words) in [
        (&b"\xff\xff\xff\xff"[..], "4294967295 bytes"),
        (b"\0\0\0\x04oops", "can't be read"),
        (
            b"\0\0\0\x1b{\"id\":1,\"action\":\"nothing\"}",
            "can't be read",
        ),
        (
            b"\0\0\0\x1d{\"id\":1,\"action\":{\"nothing\":1",
            "can't be read",
        ),
    ] {
        let config = WorkerConfig {
            image: image(place),
            cpus: Vec::new(),
            memory: 32 << 20,
            cmdline: String::new(),
            seed: None,
            calls: Calls::Auto,
            clock: WorkerClock::Real,
        };
        let mut command = place.worker();
        command.stderr(Stdio::piped());
        let mut link = WorkerProcess::spawn(command, &config).unwrap();
        assert!(matches!(
            link.receive().unwrap(),
            Some(Message::Ready { .. })
        ));
        link.socket().write_all(bytes).unwrap();
        while let Some(message) = link.receive().unwrap() {
            assert!(matches!(message, Message::Event(Event::Log { .. })));
        }
        let mut said = String::new();
        let errors = link.process().stderr.as_mut().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(
            said.starts_with("vink-lab-worker: ") && said.contains(words),
            "{said}"
        );
        assert_eq!(link.process().wait().unwrap().code(), Some(125));
    }
    // Descriptors that should have come.
    let mut talk = Talk::new(place);
    talk.machine("m");
    talk.send(Action::Spawn(shell("m", ":")), &[null().as_fd()]);
    assert!(talk.link.receive().unwrap().is_none());
    assert_eq!(talk.link.process().wait().unwrap().code(), Some(125));
}

#[test]
fn what_can_not_be_started() {
    let place = &Place::all()[0];
    let mut config = WorkerConfig {
        image: "/no/such/image.so".into(),
        cpus: Vec::new(),
        memory: 64 << 20,
        cmdline: String::new(),
        seed: None,
        calls: Calls::Auto,
        clock: WorkerClock::Real,
    };
    for words in ["/no/such/image.so", "1048576"] {
        let mut command = place.worker();
        command.stderr(Stdio::piped());
        let mut link = WorkerProcess::spawn(command, &config).unwrap();
        assert!(link.receive().unwrap().is_none());
        let mut said = String::new();
        let errors = link.process().stderr.as_mut().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(said.contains(words), "{said}");
        config.image = image(place);
        config.memory = 1 << 20;
    }
}

#[test]
fn a_full_arena() {
    let place = &Place::all()[0];
    let mut talk = Talk::with_memory(place, 32 << 20);
    let mut made = 0;
    let error = loop {
        match talk.ask(machine(&format!("m{made}"))) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(
        made > 10 && error.contains(&format!("machine m{made}")),
        "{made}: {error}"
    );
    talk.ok(Action::RemoveMachine {
        machine: "m0".to_owned(),
    });
    let status = talk.status(Some(&["m1"]));
    assert_eq!(status.machines.len(), 1);
}
