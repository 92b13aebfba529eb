//! A TAP device and a veth interface of the host: it reaches machines, and a machine behind another
//! one.

use std::fs::File;
use std::path::Path;

use vink_lab::{wire, End, Machine, UplinkAttachment};
use vink_spec::Uplink;
use vink_trap::{ProgramId, Worker};

use crate::common::{alone, machine, network, run, sh, sh_beside, start, wait_for_line, worker};

fn attach<'a>(uplink: &'a str) -> impl FnOnce(&mut Worker, &Machine) -> UplinkAttachment + 'a {
    move |worker, machine| {
        let uplink: Uplink = uplink.parse().expect("an uplink");
        UplinkAttachment::attach(worker, machine, "out", &uplink).expect("attached")
    }
}

/// The host, 10.9.0.1, and a router; behind it, at 10.8.0.2, a machine with a web server.
fn site(worker: &mut Worker, uplink: &str) -> (Machine, UplinkAttachment, (ProgramId, File)) {
    let addresses = ["10.9.0.2/24", "fd09::2/64"];
    let (router, outside) = machine(worker, "router", &addresses, attach(uplink));
    let kernel = worker.kernel();
    let server = Machine::new(kernel, "server").expect("a machine");
    let ends = [[network("10.8.0.1/24")], [network("10.8.0.2/24")]];
    let [near, far] = [(&router, 0), (&server, 1)].map(|(machine, n)| End {
        machine,
        interface: "in",
        addresses: &ends[n],
    });
    wire(kernel, near, far).expect("a wire");
    router.forward(kernel).expect("forwarding");
    let [all, gateway] = ["0.0.0.0", "10.8.0.1"].map(|a| a.parse().expect("an address"));
    server
        .network
        .route(kernel, all, 0, gateway)
        .expect("a route");
    let page = "python3 -m http.server --bind 0.0.0.0 80";
    let words: Vec<_> = page.split(' ').collect();
    let program = start(worker, &server, &words);
    (router, outside, program)
}

/// What a host does with what it is attached to.
fn look_around(worker: &mut Worker, router: &Machine) {
    sh_beside(worker, "ping -c 3 -i 0.2 10.9.0.2; ping -c 1 fd09::2");
    let hops = sh_beside(worker, "traceroute -n -q 1 10.8.0.2");
    let hops: Vec<_> = hops.lines().skip(1).collect();
    assert_eq!(hops.len(), 2, "{hops:?}");
    assert!(hops[0].contains(" 10.9.0.2 "), "{hops:?}");
    assert!(hops[1].contains(" 10.8.0.2 "), "{hops:?}");
    let page = "curl -sS --retry 30 --retry-delay 1 --retry-connrefused http://10.8.0.2/";
    let page = sh_beside(worker, page);
    assert!(page.contains("Directory listing"), "{page}");
    run(worker, router, &["ping", "-c", "1", "10.9.0.1"]);
}

#[test]
fn tap() {
    if !alone("host::tap") {
        return;
    }
    let mut worker = worker();
    let opened = File::options().read(true).write(true).open("/dev/net/tun");
    if let Err(error) = opened {
        // Not every user may, and then it says what helps.
        let machine = Machine::new(worker.kernel(), "m").expect("a machine");
        let uplink = Uplink::Tap("vinktest0".to_owned());
        let refused = UplinkAttachment::attach(&mut worker, &machine, "out", &uplink);
        let text = refused.expect_err("no TAP device").to_string();
        assert!(text.contains("as root: "), "{text} ({error})");
        return;
    }
    // Made by us, and gone with us.
    let (router, outside, server) = site(&mut worker, "tap:vinktest0");
    wait_for_line(&mut worker, &outside, false);
    let why = outside.state().link.to_string();
    assert!(why.contains("ip link set vinktest0 up"), "{why}");
    assert!(!router
        .network
        .carrier(worker.kernel(), "out")
        .expect("a carrier"));
    let setup = "ip link set vinktest0 up; ip address add 10.9.0.1/24 dev vinktest0
        ip address add fd09::1/64 dev vinktest0 nodad; ip route add 10.8.0.0/24 via 10.9.0.2";
    sh(setup);
    wait_for_line(&mut worker, &outside, true);
    assert!(router
        .network
        .carrier(worker.kernel(), "out")
        .expect("a carrier"));
    look_around(&mut worker, &router);
    // The device is ours alone.
    let other = Machine::new(worker.kernel(), "other").expect("a machine");
    let uplink = Uplink::Tap("vinktest0".to_owned());
    let text = UplinkAttachment::attach(&mut worker, &other, "out", &uplink);
    let text = text.expect_err("it is taken").to_string();
    assert!(text.contains("another program has it"), "{text}");
    outside.detach(&mut worker).expect("detached");
    assert!(!Path::new("/sys/class/net/vinktest0").exists());
    let links = run(&mut worker, &router, &["ip", "-brief", "link"]);
    assert!(!links.contains("out"), "{links}");

    // There before us, and after us.
    sh("ip tuntap add dev vinktest1 mode tap user 0 vnet_hdr; ip link set vinktest1 up");
    let (_, outside) = machine(&mut worker, "m", &["10.7.0.2/24"], attach("tap:vinktest1"));
    sh("ip address add 10.7.0.1/24 dev vinktest1");
    wait_for_line(&mut worker, &outside, true);
    sh_beside(&mut worker, "ping -c 1 10.7.0.2");
    sh_beside(&mut worker, "ip link delete vinktest1");
    wait_for_line(&mut worker, &outside, false);
    let why = outside.state().link.to_string();
    assert!(why.contains("deleted"), "{why}");
    outside.detach(&mut worker).expect("detached");

    // Not a TAP device at all.
    sh("ip link add vinktest2 type veth peer name vinktest3");
    let uplink = Uplink::Tap("vinktest2".to_owned());
    let text = UplinkAttachment::attach(&mut worker, &other, "out", &uplink);
    let text = text.expect_err("a veth").to_string();
    assert!(text.contains("no TAP device"), "{text}");
    worker.kill(server.0).expect("the server ends");
}

const VETH: &str = "ip link add host0 type veth peer name plug0; ip link set plug0 up
    ip link set host0 up; ip address add 10.9.0.1/24 dev host0
    ip address add fd09::1/64 dev host0 nodad; ip route add 10.8.0.0/24 via 10.9.0.2";

/// Asks in VLAN 7 for 10.7.0.2, and prints the VLAN that the answer comes in, which the host takes
/// out of frames.
const TAGGED: &str = r#"
import socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(263, 8, 1)
s.bind(("host0", 3))
own = s.getsockname()[4]
ask = bytes([0, 1, 8, 0, 6, 4, 0, 1]) + own + bytes([10, 7, 0, 1]) + bytes(6) + bytes([10, 7, 0, 2])
s.send(bytes([255] * 6) + own + bytes([0x81, 0, 0, 7, 8, 6]) + ask)
while True:
    frame, control, flags, address = s.recvmsg(2000, 200)
    if frame[:6] == own and frame[12:14] == bytes([8, 6]) and frame[20:22] == bytes([0, 2]):
        status, length, snap, mac, net, tci, tpid = struct.unpack("IIIHHHH", control[0][2])
        print(tci if status & 16 else "none")
        break
"#;

#[test]
fn interface() {
    if !alone("host::interface") {
        return;
    }
    sh(VETH);
    let mut worker = worker();
    let (router, outside, server) = site(&mut worker, "interface:plug0");
    wait_for_line(&mut worker, &outside, true);
    look_around(&mut worker, &router);

    // Tagged frames keep their tags, in either direction.
    let tagged = "ip link add link out name out.7 type vlan id 7 && ip link set out.7 up &&
        ip address add 10.7.0.2/24 dev out.7";
    run(&mut worker, &router, &["sh", "-ec", tagged]);
    let answer = sh_beside(&mut worker, &format!("python3 -c '{TAGGED}'"));
    assert_eq!(answer, "7\n");

    for (change, up, reason) in [
        ("ip link set plug0 down", false, "plug0 is down"),
        ("ip link set plug0 up", true, "up"),
        ("ip link set host0 down", false, "no carrier"),
        ("ip link delete plug0", false, "plug0 is gone"),
        (VETH, true, "up"),
    ] {
        sh_beside(&mut worker, change);
        let told = worker.run_until(|_| outside.state().link.to_string().contains(reason));
        told.expect(reason);
        let carrier = router
            .network
            .carrier(worker.kernel(), "out")
            .expect("a carrier");
        assert_eq!(carrier, up, "{change}");
        if up {
            sh_beside(&mut worker, "ping -c 1 10.9.0.2");
        }
    }
    outside.detach(&mut worker).expect("detached");
    worker.kill(server.0).expect("the server ends");

    let machine = Machine::new(worker.kernel(), "m").expect("a machine");
    let uplink = Uplink::Interface("nowhere0".to_owned());
    let text = UplinkAttachment::attach(&mut worker, &machine, "out", &uplink);
    let text = text.expect_err("no such interface").to_string();
    assert!(
        text.contains("nowhere0") && text.contains("ip link"),
        "{text}"
    );
    let links = run(&mut worker, &machine, &["ip", "-brief", "link"]);
    assert_eq!(links.lines().count(), 1, "{links}");
}
