//! Wires to the outside, and to another worker.

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};

use vink_protocol::{Action, Answer, Event, UplinkTarget};
use vink_spec::{Settings, Share, Uplink};

use crate::place::Place;
use crate::talk::Talk;

fn uplink(wire: &str, target: UplinkTarget) -> Action {
    let wire = wire.to_owned();
    Action::Uplink { wire, target }
}

fn one_machine(talk: &mut Talk, machine: &str, wire: &str, address: &str) {
    talk.machine(machine);
    talk.wire(wire);
    talk.attach(machine, "eth0", wire, address);
}

fn line(talk: &mut Talk, wire: &str) -> Option<String> {
    talk.event(|event| match event {
        Event::Uplink { wire: its, error } if its == wire => Some(error.clone()),
        _ => None,
    })
}

#[test]
fn a_wire_between_two_workers() {
    for place in Place::all() {
        let (mut one, mut two) = (Talk::new(&place), Talk::new(&place));
        one_machine(&mut one, "a", "w", "10.0.0.1/24");
        one_machine(&mut two, "b", "w", "10.0.0.2/24");
        let halves = vink_lab::shared().unwrap();
        for (talk, half) in [&mut one, &mut two].into_iter().zip(halves) {
            let action = uplink("w", UplinkTarget::Worker);
            assert_eq!(
                talk.ask_with(action, &half.descriptors()),
                Ok(Answer::Nothing)
            );
        }
        let ping = "ping -q -c 3 -i 0.01 -W 10 10.0.0.2";
        assert_eq!(one.run("a", ping).0, 0);
        let again = vink_lab::shared().unwrap();
        let action = uplink("w", UplinkTarget::Worker);
        let error = one.ask_with(action, &again[0].descriptors()).unwrap_err();
        assert!(
            error.contains("wire w: it has an uplink already"),
            "{error}"
        );
        // What comes from outside is what that end sends.
        one.ok(Action::Set {
            wire: "w".to_owned(),
            end: Some("outside".to_owned()),
            settings: Settings {
                loss: Some(Share(1.0)),
                ..Settings::default()
            },
        });
        assert_eq!(one.run("a", "ping -q -c 1 -W 0.1 10.0.0.2").0, 1);
        let status = one.status(Some(&[]));
        assert_eq!(status.wires[0].ends[1].0, "outside");
        // The other worker is killed: this one goes on.
        two.link.process().kill().unwrap();
        while !line(&mut one, "w").is_some_and(|why| why.contains("gone")) {}
        let error = one.status(Some(&[])).wires[0].uplink_error.clone();
        assert!(error.is_some_and(|why| why.contains("gone")));
        one.ok(Action::RemoveUplink {
            wire: "w".to_owned(),
        });
        let outside = one.used();
        // The hidden machine stays for the next one.
        let [mine, _its] = vink_lab::shared().unwrap();
        one.ask_with(uplink("w", UplinkTarget::Worker), &mine.descriptors())
            .unwrap();
        one.ok(Action::RemoveUplink {
            wire: "w".to_owned(),
        });
        assert_eq!(one.used(), outside);
    }
}

#[test]
fn by_udp() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    one_machine(&mut talk, "a", "w", "10.0.0.1/24");
    one_machine(&mut talk, "b", "x", "10.0.0.2/24");
    // Two free ports.
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [one, two] = [0, 1].map(|i: usize| sockets[i].local_addr().unwrap());
    drop(sockets);
    for (wire, listen, peer) in [("w", one, two), ("x", two, one)] {
        talk.ok(uplink(
            wire,
            UplinkTarget::Uplink(Uplink::Udp { listen, peer }),
        ));
    }
    assert_eq!(talk.run("a", "ping -q -c 3 -i 0.01 -W 10 10.0.0.2").0, 0);
    let taken = Uplink::Udp {
        listen: one,
        peer: two,
    };
    talk.wire("y");
    let error = talk.refused(uplink("y", UplinkTarget::Uplink(taken)));
    assert!(
        error.contains("wire y") && error.contains(&one.to_string()),
        "{error}"
    );
    talk.ok(Action::RemoveWire {
        wire: "x".to_owned(),
    });
    assert_eq!(talk.run("a", "ping -q -c 1 -W 0.1 10.0.0.2").0, 1);
}

#[test]
fn by_passt() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let passt = || {
            let publish = vec![format!("127.0.0.1:{port}:80")];
            uplink("w", UplinkTarget::Uplink(Uplink::Passt { publish }))
        };
        talk.machine("a");
        talk.wire("w");
        // The machine may come later.
        assert_eq!(talk.ok(passt()), Answer::Nothing);
        talk.attach("a", "eth0", "w", "10.0.0.1/24");
        let (_, addresses) = talk.run("a", "ip -o addr show dev eth0; ip route");
        assert!(addresses.contains("10.0.2.15/24"), "{addresses}");
        assert!(addresses.contains("default via 10.0.2.2"), "{addresses}");
        let (server, _output) = talk.start("a", "echo hello from inside | nc -n -N -l 80");
        let listens = Action::Listens {
            machine: "a".to_owned(),
            port: 80,
            udp: false,
        };
        while talk.ok(listens.clone()) != Answer::Yes(true) {}
        let mut text = String::new();
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello from inside\n");
        drop(socket);
        talk.ended(server);
        talk.ok(Action::RemoveUplink {
            wire: "w".to_owned(),
        });
        // The port is free again.
        while TcpStream::connect(("127.0.0.1", port)).is_ok() {}
        talk.ok(passt());
    }
}
