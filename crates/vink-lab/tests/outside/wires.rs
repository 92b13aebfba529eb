//! Wires that lead outside: machines at a bus, at a cable, behind passt, and in another worker.

use std::net::TcpListener;

use vink_kernel::{Attachment, Loss, WireId, WireKind, WireSettings};
use vink_lab::{shared, Half, Machine, Network, Passt, TcBridge};
use vink_spec::Uplink;
use vink_trap::Worker;

use crate::common::{alone, network, run, sh, sh_beside, start, worker};
use crate::workers::Peer;

/// A machine with an interface `eth0` at a wire.
fn machine(worker: &mut Worker, name: &str, wire: WireId, address: Option<&str>) -> Machine {
    let kernel = worker.kernel();
    let machine = Machine::new(kernel, name).expect("a machine");
    let attachment = Attachment {
        interface: "eth0",
        ..Attachment::default()
    };
    kernel
        .attach(wire, machine.id, attachment)
        .expect("an interface");
    if let Some(text) = address {
        let Network { address, prefix } = network(text);
        let given = machine.network.address(kernel, "eth0", address, prefix);
        given.expect("an address");
    }
    machine.network.up(kernel, "eth0").expect("up");
    machine
}

fn has_carrier(worker: &mut Worker, machine: &Machine) -> bool {
    let carrier = machine.network.carrier(worker.kernel(), "eth0");
    carrier.expect("a carrier")
}

#[test]
fn a_bus() {
    if !alone("wires::a_bus") {
        return;
    }
    sh(
        "ip link add host0 type veth peer name plug0; ip link set plug0 up
        ip link set host0 up; ip address add 10.9.0.1/24 dev host0",
    );
    let mut worker = worker();
    let wire = worker.kernel().wire(WireKind::Bus).expect("a wire");
    let tc_bridge = TcBridge::new(worker.kernel()).expect("a hidden machine");
    let [a, b] = [("a", "10.9.0.2/24"), ("b", "10.9.0.3/24")]
        .map(|(name, address)| machine(&mut worker, name, wire, Some(address)));
    let uplink = Uplink::Interface("plug0".to_owned());
    let counted = |worker: &mut Worker| {
        let counters = worker.counters().expect("counters");
        (counters.tasks, counters.sockets, counters.files)
    };
    let alone = counted(&mut worker);
    let attached = tc_bridge.attach(&mut worker, wire, &uplink);
    let attached = attached.expect("attached");
    for target in ["10.9.0.2", "10.9.0.3"] {
        sh_beside(&mut worker, &format!("ping -c 2 -i 0.2 {target}"));
    }
    run(&mut worker, &a, &["ping", "-c", "1", "10.9.0.3"]);
    run(&mut worker, &b, &["ping", "-c", "1", "10.9.0.1"]);
    // No other packets: the hidden machine sends none of its own.
    let before = attached.attachment.state().clone();
    assert_eq!(before.lost, 0, "{before:?}");

    // What the wire does, it does to packets from outside.
    let lossy = WireSettings {
        loss: Loss::Random(1.0),
        ..WireSettings::default()
    };
    let end = Some(attached.end);
    let set = worker.kernel().set_wire(wire, end, &lossy);
    set.expect("settings");
    let out = sh_beside(&mut worker, "! ping -c 2 -i 0.2 -W 1 10.9.0.2");
    assert!(out.contains("100% packet loss"), "{out}");
    let statistics = worker.kernel().wire_statistics(attached.end);
    assert!(statistics.expect("statistics").lost_random >= 2);
    run(&mut worker, &a, &["ping", "-c", "1", "10.9.0.3"]);
    let set = worker
        .kernel()
        .set_wire(wire, end, &WireSettings::default());
    set.expect("settings");
    sh_beside(&mut worker, "ping -c 1 10.9.0.2");

    // There is nothing left of it, and it may come again.
    attached.detach(&mut worker).expect("detached");
    assert!(sh("ip -d link show plug0").contains("promiscuity 0"));
    run(&mut worker, &b, &["true"]);
    assert_eq!(counted(&mut worker), alone);
    run(&mut worker, &a, &["ping", "-c", "1", "10.9.0.3"]);
    let again = tc_bridge.attach(&mut worker, wire, &uplink);
    let again = again.expect("attached again");
    sh_beside(&mut worker, "ping -c 1 10.9.0.3");
    // The wire may go first.
    worker.kernel().destroy_wire(wire).expect("gone");
    again.detach(&mut worker).expect("detached");
}

#[test]
fn a_cable() {
    if !alone("wires::a_cable") {
        return;
    }
    sh(
        "ip link add host0 type veth peer name plug0; ip link set plug0 up
        ip link set host0 up; ip address add 10.9.0.1/24 dev host0",
    );
    let mut worker = worker();
    let wire = worker.kernel().wire(WireKind::PointToPoint);
    let wire = wire.expect("a wire");
    let tc_bridge = TcBridge::new(worker.kernel()).expect("a hidden machine");
    let a = machine(&mut worker, "a", wire, Some("10.9.0.2/24"));
    assert!(!has_carrier(&mut worker, &a));
    let uplink = Uplink::Interface("plug0".to_owned());
    let attached = tc_bridge.attach(&mut worker, wire, &uplink);
    let attached = attached.expect("attached");
    assert!(has_carrier(&mut worker, &a));
    sh_beside(&mut worker, "ping -c 1 10.9.0.2");
    for (change, up) in [("down", false), ("up", true), ("down", false)] {
        sh_beside(&mut worker, &format!("ip link set host0 {change}"));
        let seen = worker.run_until(|_| attached.attachment.state().link.is_up() == up);
        seen.expect("steps");
        assert_eq!(has_carrier(&mut worker, &a), up, "{change}");
    }
    sh_beside(&mut worker, "ip link set host0 up");
    let seen = worker.run_until(|_| attached.attachment.state().link.is_up());
    seen.expect("steps");
    // A wire with two ends has no room for a third one.
    let text = tc_bridge.attach(&mut worker, wire, &uplink);
    assert!(text.is_err());
    sh_beside(&mut worker, "ping -c 1 10.9.0.2");
    attached.detach(&mut worker).expect("detached");
    assert!(!has_carrier(&mut worker, &a));
}

#[test]
fn passt() {
    if !alone("wires::passt") {
        return;
    }
    sh("ip link set lo up");
    let listener = TcpListener::bind("127.0.0.1:7007").expect("a listener");
    let answer = std::thread::spawn(move || {
        use std::io::Write;
        let mut peer = listener.accept().expect("a connection").0;
        peer.write_all(b"hello from the host").expect("sent");
    });
    let mut passt = Passt::start(&[]).expect("passt");
    let mut worker = worker();
    let wire = worker.kernel().wire(WireKind::PointToPoint);
    let wire = wire.expect("a wire");
    let tc_bridge = TcBridge::new(worker.kernel()).expect("a hidden machine");
    let a = machine(&mut worker, "a", wire, None);
    let end = passt.attach_to_wire(&mut worker, &tc_bridge, wire);
    let end = end.expect("attached");
    let route = passt.configure(worker.kernel(), &a, "eth0");
    let route = route.expect("addresses");
    assert_eq!(route.addresses, [network("10.0.2.15/24")]);
    passt.wait().expect("it is ready");
    let ask = "import socket; print(socket.create_connection(('10.0.2.2', 7007)).recv(100))";
    let heard = run(&mut worker, &a, &["/usr/bin/python3", "-c", ask]);
    assert_eq!(heard, "b'hello from the host'\n");
    answer.join().expect("the host's side");
    end.detach(&mut worker).expect("detached");
    assert!(!has_carrier(&mut worker, &a));
}

/// A worker with a machine at a wire that leads to another worker.
fn site(worker: &mut Worker, address: &str, half: Half) -> (Machine, vink_lab::UplinkEnd) {
    let wire = worker.kernel().wire(WireKind::PointToPoint);
    let wire = wire.expect("a wire");
    let machine = machine(worker, "m", wire, Some(address));
    let end = vink_lab::UplinkEnd::of_half(worker, wire, half);
    (machine, end.expect("attached"))
}

#[test]
fn another_worker() {
    if !alone("wires::another_worker") {
        return;
    }
    let sink = r#"
import socket
peer = socket.create_server(("0.0.0.0", 9)).accept()[0]
n = 0
while piece := peer.recv(1 << 20): n += len(piece)
peer.sendall(str(n).encode())
"#;
    let source = r#"
import socket, time
while True:
    try: s = socket.create_connection(("10.1.0.2", 9)); break
    except ConnectionRefusedError: time.sleep(.1)
for _ in range(100): s.sendall(bytes(1 << 20))
s.shutdown(socket.SHUT_WR)
print(s.recv(100).decode())
"#;
    let [ours, theirs] = shared().expect("a wire");
    let mut ends = [Some(ours), Some(theirs)];
    let peer = Peer::start(|| {
        ends[0] = None;
        let half = ends[1].take().expect("a half");
        let mut worker = worker();
        let (machine, _end) = site(&mut worker, "10.1.0.2/24", half);
        let words = ["/usr/bin/python3", "-c", sink];
        let _program = start(&mut worker, &machine, &words);
        worker.run_until(|_| false).expect("steps");
    });
    ends[1] = None;
    let half = ends[0].take().expect("a half");
    let mut worker = worker();
    let (machine, end) = site(&mut worker, "10.1.0.1/24", half);
    let seen = worker.run_until(|_| end.attachment.state().link.is_up());
    seen.expect("steps");
    let words = ["/usr/bin/python3", "-c", source];
    assert_eq!(run(&mut worker, &machine, &words), "104857600\n");
    // Packets went through whole: of 1,500 bytes there would be 70,000.
    let numbers = worker.kernel().wire_statistics(end.end).expect("numbers");
    assert!(numbers.received < 35_000, "{numbers:?}");
    peer.kill();
    let seen = worker.run_until(|_| !end.attachment.state().link.is_up());
    seen.expect("steps");
    assert!(!has_carrier(&mut worker, &machine));
    end.detach(&mut worker).expect("detached");
}
