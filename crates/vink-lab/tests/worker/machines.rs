//! Machines and wires.

use vink_protocol::{Action, Answer, NewMachine};
use vink_spec::{Rights, Settings, Share, Span};

use crate::place::Place;
use crate::talk::{attach, machine, Talk};

#[test]
fn two_machines_and_a_router() {
    for place in Place::all() {
        let mut talk = Talk::new(&place);
        let before = talk.used();
        for name in ["client", "server"] {
            talk.machine(name);
        }
        talk.ok(Action::Machine(NewMachine {
            machine: "router".to_owned(),
            forward: true,
            rights: Rights::Full,
            hidden: None,
            files: Vec::new(),
            root: None,
            sysctls: vec![("net.ipv4.ip_default_ttl".to_owned(), "33".to_owned())],
        }));
        let wires = ["w1", "w2"].map(|wire| Action::Wire {
            wire: wire.to_owned(),
            bus: false,
        });
        assert_eq!(
            talk.ok(Action::All(wires.into())),
            Answer::List(vec![Answer::Nothing, Answer::Nothing])
        );
        for (machine, interface, wire, addresses) in [
            ("client", "eth0", "w1", ["10.0.1.1/24", "fd00:1::1/64"]),
            ("router", "eth0", "w1", ["10.0.1.254/24", "fd00:1::fe/64"]),
            ("router", "eth1", "w2", ["10.0.2.254/24", "fd00:2::fe/64"]),
            ("server", "eth0", "w2", ["10.0.2.1/24", "fd00:2::1/64"]),
        ] {
            talk.ok(attach(machine, interface, Some(wire), &addresses));
        }
        for (machine, to, via) in [
            ("client", "0.0.0.0/0", "10.0.1.254"),
            ("client", "::/0", "fd00:1::fe"),
            ("server", "10.0.1.0/24", "10.0.2.254"),
            ("server", "fd00:1::/64", "fd00:2::fe"),
        ] {
            let route = |remove| Action::Route {
                machine: machine.to_owned(),
                to: to.parse().unwrap(),
                via: Some(via.parse().unwrap()),
                dev: Some("eth0".to_owned()),
                metric: Some(7),
                remove,
            };
            talk.ok(route(false));
            talk.ok(route(true));
            let error = talk.refused(route(true));
            assert!(error.contains(machine) && error.contains(to), "{error}");
            talk.ok(route(false));
        }
        for to in ["10.0.2.1", "fd00:2::1"] {
            let (code, text) = talk.run("client", &format!("ping -c 2 -i 0.01 -W 10 {to}"));
            assert_eq!(code, 0, "{text}");
        }
        let (_, ttl) = talk.run("router", "sysctl -n net.ipv4.ip_default_ttl; hostname");
        assert_eq!(ttl, "33\nrouter\n");

        let status = talk.status(Some(&["client", "router"]));
        let names: Vec<_> = status.machines.iter().map(|m| m.machine.as_str()).collect();
        assert_eq!(names, ["client", "router"]);
        let eth0 = &status.machines[0].interfaces[0];
        assert_eq!(
            (eth0.interface.as_str(), eth0.wire.as_deref()),
            ("eth0", Some("w1"))
        );
        assert!(eth0.up && eth0.carrier);
        let addresses: Vec<_> = eth0.addresses.iter().map(ToString::to_string).collect();
        for address in ["10.0.1.1/24", "fd00:1::1/64"] {
            assert!(addresses.contains(&address.to_owned()), "{addresses:?}");
        }
        let count = |list: &[(String, u64)], name: &str| {
            let found = list.iter().find(|(its, _)| its == name);
            found.unwrap_or_else(|| panic!("{name} in {list:?}")).1
        };
        assert!(count(&eth0.counters, "rx_packets") >= 4);
        let w1 = &status.wires[0];
        assert_eq!((w1.wire.as_str(), w1.up, w1.ends.len()), ("w1", true, 2));
        assert_eq!(w1.ends[0].0, "client:eth0");
        assert!(count(&w1.ends[0].1, "sent") >= 4);
        assert!(status.resident > 0);

        for machine in ["client", "router", "server"] {
            talk.ok(Action::RemoveMachine {
                machine: machine.to_owned(),
            });
        }
        for wire in ["w1", "w2"] {
            let wire = wire.to_owned();
            talk.ok(Action::RemoveWire { wire });
        }
        assert_eq!(talk.used(), before);
        assert_eq!(talk.close(), Some(0));
    }
}

#[test]
fn a_wire_while_it_runs() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    talk.machine("a");
    talk.machine("b");
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    let ping =
        "ping -q -c 3 -i 0.01 -W 0.3 10.0.0.2 | sed -n 's/.* \\([0-9]*\\)% packet loss.*/\\1/p'";
    assert_eq!(talk.run("a", ping).1, "0\n");
    let set = |end: Option<&str>, settings: Settings| Action::Set {
        wire: "w".to_owned(),
        end: end.map(str::to_owned),
        settings,
    };
    let lossy = Settings {
        loss: Some(Share(1.0)),
        ..Settings::default()
    };
    talk.ok(set(Some("b:eth0"), lossy));
    assert_eq!(talk.run("a", ping).1, "100\n");
    let slow = Settings {
        delay: Some(Span(20_000_000)),
        ..Settings::default()
    };
    talk.ok(set(None, slow));
    let rtt = "ping -q -c 2 -i 0.01 10.0.0.2 | sed -n 's,^rtt min.* = \\([0-9]*\\).*,\\1,p'";
    let ms: u32 = talk.run("a", rtt).1.trim().parse().expect("milliseconds");
    assert!(ms >= 40, "{ms}");
    talk.ok(set(None, Settings::default()));
    let plug = |up| Action::Plug {
        wire: "w".to_owned(),
        up,
    };
    talk.ok(plug(false));
    let link = "ip -o link show dev eth0 | grep -o NO-CARRIER";
    assert_eq!(talk.run("b", link).1, "NO-CARRIER\n");
    let status = talk.status(Some(&["a"]));
    assert!(!status.machines[0].interfaces[0].carrier && !status.wires[0].up);
    talk.ok(plug(true));
    assert_eq!(talk.run("a", ping).1, "0\n");

    // Elsewhere, and to nothing.
    talk.ok(Action::Detach {
        machine: "b".to_owned(),
        interface: "eth0".to_owned(),
    });
    assert_eq!(talk.run("a", link).1, "NO-CARRIER\n");
    talk.ok(attach("b", "eth7", None, &["10.0.0.2/24"]));
    let status = talk.status(Some(&["b"]));
    let eth7 = &status.machines[0].interfaces[0];
    assert!(eth7.up && !eth7.carrier && eth7.wire.is_none());
    talk.attach("b", "eth8", "w", "10.0.0.2/24");
    assert_eq!(talk.run("b", "ip -o link | grep -c eth").1, "2\n");
    let address = |remove| Action::Address {
        machine: "b".to_owned(),
        interface: "eth7".to_owned(),
        address: "10.0.0.2/24".parse().unwrap(),
        remove,
    };
    talk.ok(address(true));
    assert_eq!(talk.run("a", ping).1, "0\n");
    let error = talk.refused(address(true));
    assert!(error.contains("removing 10.0.0.2/24 from eth7"), "{error}");
    talk.ok(address(false));
}

#[test]
fn a_bus() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    talk.ok(Action::Wire {
        wire: "lan".to_owned(),
        bus: true,
    });
    for i in 1..=5 {
        let name = format!("m{i}");
        talk.machine(&name);
        talk.attach(&name, "eth0", "lan", &format!("10.0.0.{i}/24"));
    }
    let pings = "for i in 1 2 3 4; do ping -q -c 1 -W 10 10.0.0.$i || exit 1; done";
    let (code, text) = talk.run("m5", pings);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn mistakes_are_named() {
    let place = &Place::all()[0];
    let mut talk = Talk::new(place);
    talk.machine("a");
    talk.machine("b");
    talk.machine("c");
    talk.wire("w");
    talk.attach("a", "eth0", "w", "10.0.0.1/24");
    talk.attach("b", "eth0", "w", "10.0.0.2/24");
    let before = talk.used();
    let text = |s: &str| s.to_owned();
    let sysctl = |name: &str, value: &str| Action::Sysctl {
        machine: text("a"),
        name: text(name),
        value: text(value),
    };
    let with_sysctl = Action::Machine(NewMachine {
        machine: text("d"),
        forward: false,
        rights: Rights::Full,
        hidden: None,
        files: Vec::new(),
        root: None,
        sysctls: vec![(text("net.ipv4.no_such"), text("1"))],
    });
    let with_root = Action::Machine(NewMachine {
        machine: text("d"),
        forward: false,
        rights: Rights::Full,
        hidden: None,
        files: Vec::new(),
        root: Some(text("/no/such/folder")),
        sysctls: Vec::new(),
    });
    for (action, words) in [
        (machine("a"), vec!["machine a", "already"]),
        (
            machine(&"x".repeat(65)),
            vec!["machine xxx", "Invalid argument"],
        ),
        (with_sysctl, vec!["machine d", "net.ipv4.no_such"]),
        (with_root, vec!["machine d", "/no/such/folder"]),
        (
            Action::RemoveMachine { machine: text("x") },
            vec!["machine x", "vink lab ps"],
        ),
        (
            Action::RemoveWire { wire: text("x") },
            vec!["wire x", "vink wire ls"],
        ),
        (
            Action::Wire {
                wire: text("w"),
                bus: true,
            },
            vec!["wire w", "already"],
        ),
        (
            attach("c", "eth0", Some("w"), &[]),
            vec!["c:eth0", "wire w", "two ends", "bus"],
        ),
        (attach("c", "eth0", Some("x"), &[]), vec!["wire x"]),
        (
            attach("a", "eth0", None, &[]),
            vec!["a:eth0", "of this name"],
        ),
        (
            attach("c", "a-name-too-long-for-it", None, &[]),
            vec!["15 bytes"],
        ),
        (
            attach("c", "eth0", None, &["10.0.0.1/24", "10.0.0.1/24"]),
            vec!["c:eth0", "10.0.0.1/24"],
        ),
        (
            sysctl("net.ipv4.ip_forward", "yes"),
            vec!["machine a", "net.ipv4.ip_forward"],
        ),
        (sysctl("../../etc/passwd", "x"), vec!["no sysctl"]),
        (
            Action::Set {
                wire: text("w"),
                end: Some(text("c:eth0")),
                settings: Settings::default(),
            },
            vec!["wire w", "c:eth0 is no end"],
        ),
        (
            Action::Set {
                wire: text("w"),
                end: Some(text("outside")),
                settings: Settings::default(),
            },
            vec!["wire w", "no uplink"],
        ),
        (
            Action::Set {
                wire: text("w"),
                end: None,
                settings: Settings {
                    delay: Some(Span(90_000_000_000_000)),
                    ..Settings::default()
                },
            },
            vec!["wire w", "Invalid argument"],
        ),
        (
            Action::Detach {
                machine: text("a"),
                interface: text("eth1"),
            },
            vec!["machine a", "eth1", "eth0"],
        ),
        (
            Action::Signal {
                program: 99,
                signal: 1,
            },
            vec!["program 99"],
        ),
        (
            Action::StopApp {
                program: 99,
                report: false,
            },
            vec!["program 99"],
        ),
        (Action::StopCapture { capture: 99 }, vec!["capture 99"]),
        (
            Action::Watch {
                interfaces: vec![text("eth0")],
            },
            vec!["eth0", "MACHINE:INTERFACE"],
        ),
        (
            Action::All(vec![machine("d"), machine("a"), machine("e")]),
            vec!["request 2 of 3", "machine a"],
        ),
    ] {
        let what = format!("{action:?}");
        let error = talk.refused(action);
        for word in words {
            assert!(
                error.contains(word),
                "{what}: {error:?} says nothing of {word:?}"
            );
        }
    }
    talk.ok(Action::RemoveMachine { machine: text("d") });
    // What failed has left nothing.
    assert_eq!(talk.used(), before);
}
