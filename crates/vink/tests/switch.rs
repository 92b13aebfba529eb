//! Switches: what passes a port and what does not, VLANs, changes, faults.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Child;

use common::control::Control;
use common::Place;

/// A lab with three machines in three workers at a switch in a fourth.
const LAB: &str = "
machines:
  a: { interfaces: { eth0: { switch: sw, addresses: [10.0.0.1/24, \"fd00::1/64\"] } } }
  b: { worker: two, interfaces: { eth0: { switch: sw, addresses: [10.0.0.2/24, \"fd00::2/64\"] } } }
  c: { worker: three, interfaces: { eth0: { wire: w1, addresses: [10.0.0.3/24, \"fd00::3/64\"] } } }
switches:
  sw: { ports: { p1: { wire: w1 } } }
";

/// The script that sends and receives frames, where programs of labs find it.
fn with_frames(control: &Control<'_>) {
    control.write("frames.py", include_str!("frames.py"));
}

/// A receiver of frames on a machine, which listens by now.
fn receive(control: &Control<'_>, machine: &str, until: &str) -> (Child, BufReader<impl Read>) {
    let words = [
        "exec",
        machine,
        "--",
        "python3",
        "frames.py",
        "receive",
        "eth0",
        until,
    ];
    let mut child = control.start(&words);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "listening\n", "{machine}");
    (child, output)
}

/// The names that a receiver has found.
fn received((mut child, mut output): (Child, BufReader<impl Read>)) -> Vec<String> {
    let mut text = String::new();
    output.read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("it").success());
    text.lines().map(str::to_owned).collect()
}

fn send(control: &Control<'_>, machine: &str, names: &[&str]) {
    let mut words = vec![
        "exec",
        machine,
        "--",
        "python3",
        "frames.py",
        "send",
        "eth0",
    ];
    words.extend(names);
    control.vink(&words);
}

/// What a port has dropped, by why.
fn dropped(control: &Control<'_>, port: &str) -> BTreeMap<String, u64> {
    let said = control.vink(&["exec", "sw", "--", "nft", "-j", "list", "counters"]);
    let all: serde_json::Value = serde_json::from_str(&said).expect(&said);
    let counters = all["nftables"].as_array().expect(&said).iter();
    let counters = counters.filter_map(|it| {
        let counter = &it["counter"];
        let why = counter["name"]
            .as_str()?
            .strip_prefix(&format!("port-{port}-"))?;
        Some((why.to_owned(), counter["packets"].as_u64()?))
    });
    counters.filter(|(_, packets)| *packets > 0).collect()
}

fn pid_of(control: &Control<'_>, machine: &str) -> i32 {
    let all = control.json(&["lab", "ps", "--json"]);
    let machines = all["machines"].as_array().expect("machines");
    let found = machines.iter().find(|it| it["name"] == machine);
    found.expect(machine)["pid"].as_i64().expect("a process") as i32
}

#[test]
fn machines_of_several_workers_meet() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let workers: std::collections::BTreeSet<i32> = ["a", "b", "c", "sw"]
            .into_iter()
            .map(|it| pid_of(&control, it))
            .collect();
        assert_eq!(workers.len(), 4);
        for to in ["10.0.0.2", "10.0.0.3", "fd00::2", "fd00::3"] {
            control.vink(&["exec", "a", "--", "ping", "-c1", to]);
        }
        control.vink(&["exec", "c", "--", "ping", "-c1", "b"]);
        // A stream, whole: what arrives is what was sent.
        let mut server = control.start(&[
            "exec",
            "b",
            "--",
            "python3",
            "-c",
            "import socket, hashlib
with socket.create_server(('10.0.0.2', 9)) as server:
    print('ready', flush=True)
    with server.accept()[0] as peer:
        got = hashlib.sha256()
        while data := peer.recv(1 << 20):
            got.update(data)
    print(got.hexdigest())",
        ]);
        let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let sent = control.vink(&[
            "exec",
            "a",
            "--",
            "python3",
            "-c",
            "import socket, hashlib
data = bytes(range(256)) * (1 << 16)
with socket.create_connection(('10.0.0.2', 9)) as peer:
    peer.sendall(data)
print(hashlib.sha256(data).hexdigest())",
        ]);
        let mut got = String::new();
        output.read_to_string(&mut got).expect("text");
        assert!(server.wait().expect("it").success());
        assert_eq!(got, sent);
        assert!(dropped(&control, "a-eth0").is_empty() && dropped(&control, "b-eth0").is_empty());
        // It is a bridge, and what is known of machines is known of it.
        let fdb = control.vink(&["exec", "sw", "--", "bridge", "fdb", "show", "br", "br0"]);
        assert!(fdb.contains("dev a-eth0 sticky master br0 static"), "{fdb}");
        let shown = control.vink(&["machine", "show", "sw"]);
        assert!(shown.contains("a-eth0") && shown.contains("p1"), "{shown}");
        let saved = control.vink(&["lab", "save"]);
        assert!(
            saved.contains("eth0: {switch: sw, addresses: ") && !saved.contains("br0"),
            "{saved}"
        );
        control.write("saved.yaml", &saved);
        assert_eq!(
            control.vink(&["lab", "apply", "saved.yaml"]),
            "lab lab is as the file says\n"
        );
        let graph = control.vink(&["lab", "graph", "lab.yaml"]);
        assert!(
            graph.contains("\"sw\" [label=\"sw\" shape=hexagon]"),
            "{graph}"
        );
        control.vink(&["break", "add", "--name", "lost", "sw:a-eth0", "drop"]);
        control.fails(&["exec", "a", "--", "ping", "-c1", "-W1", "10.0.0.3"]);
        control.vink(&["break", "rm", "lost"]);
        control.vink(&["exec", "a", "--", "ping", "-c1", "10.0.0.3"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_pinned_port() {
    for place in Place::all() {
        let control = Control::of(&place);
        with_frames(&control);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let good = ["own-ip", "own-arp", "probe", "own-nd", "dad", "own-ip6"];
        let bad: [(&str, &[&str]); 6] = [
            ("mac", &["other-mac"]),
            (
                "ip",
                &[
                    "other-ip",
                    "no-ip",
                    "cut-ip",
                    "other-ip6",
                    "other-link",
                    "no-ip6",
                ],
            ),
            ("arp", &["arp-mac", "arp-ip"]),
            ("nd", &["nd-target", "nd-router"]),
            ("tag", &["tag", "double-tag", "service-tag"]),
            ("other", &["other-type"]),
        ];
        let receivers = ["b", "c"].map(|machine| receive(&control, machine, "end"));
        let mut names: Vec<&str> = good.to_vec();
        names.extend(bad.iter().flat_map(|(_, names)| *names));
        names.push("end");
        send(&control, "a", &names);
        for receiver in receivers {
            let mut found = received(receiver);
            assert_eq!(found.pop().as_deref(), Some("end"));
            assert_eq!(found, good, "{}", place.user());
        }
        let counted = dropped(&control, "a-eth0");
        let told = bad.map(|(why, names)| (why.to_owned(), names.len() as u64));
        assert_eq!(counted, BTreeMap::from(told));
        // As root of its machine it can't change that: other addresses are of no use.
        control.vink(&[
            "exec",
            "a",
            "--",
            "ip",
            "address",
            "add",
            "10.0.0.77/24",
            "dev",
            "eth0",
        ]);
        control.fails(&[
            "exec",
            "a",
            "--",
            "ping",
            "-c1",
            "-W1",
            "-I",
            "10.0.0.77",
            "10.0.0.2",
        ]);
        // An address that the lab gives it may be used.
        control.vink(&[
            "exec",
            "a",
            "--",
            "ip",
            "address",
            "del",
            "10.0.0.77/24",
            "dev",
            "eth0",
        ]);
        let more = LAB.replace("[10.0.0.1/24,", "[10.0.0.1/24, 10.0.0.77/24,");
        control.write("lab.yaml", &more);
        let said = control.vink(&["lab", "apply"]);
        assert!(said.contains("~ switch sw: ~ port a-eth0"), "{said}");
        control.vink(&[
            "exec",
            "a",
            "--",
            "ping",
            "-c1",
            "-I",
            "10.0.0.77",
            "10.0.0.2",
        ]);
        // A port that is not pinned can't take over an address that is.
        let mac = control.vink(&["exec", "a", "--", "cat", "/sys/class/net/eth0/address"]);
        control.vink(&[
            "exec",
            "c",
            "--",
            "ip",
            "link",
            "set",
            "eth0",
            "address",
            mac.trim(),
        ]);
        let receiver = receive(&control, "a", "end");
        send(&control, "c", &["from-the-thief"]);
        send(&control, "b", &["mine"]);
        send(&control, "c", &["end"]);
        let _ = received(receiver);
        let fdb = control.vink(&["exec", "sw", "--", "bridge", "fdb", "show", "br", "br0"]);
        let line = format!("{} dev a-eth0 sticky master br0 static", mac.trim());
        assert!(fdb.contains(&line), "{fdb}");
        // Not pinned, nothing is filtered.
        control.write(
            "lab.yaml",
            &LAB.replace(
                "{ switch: sw, addresses: [10.0.0.1",
                "{ switch: { name: sw, pin: false }, addresses: [10.0.0.1",
            ),
        );
        control.vink(&["lab", "apply"]);
        let receiver = receive(&control, "b", "end");
        send(&control, "a", &["other-ip", "arp-ip", "end"]);
        assert_eq!(received(receiver), ["other-ip", "arp-ip", "end"]);
        let rules = control.vink(&["exec", "sw", "--", "nft", "list", "ruleset"]);
        assert!(!rules.contains("chain port-a-eth0"), "{rules}");
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn vlans() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    with_frames(&control);
    let lab = "
machines:
  a: { interfaces: { eth0: { switch: { name: sw, vlan: 10, pin: false }, addresses: [10.0.0.1/24] } } }
  b: { interfaces: { eth0: { switch: { name: sw, vlan: 10, pin: false }, addresses: [10.0.0.2/24] } } }
  c: { interfaces: { eth0: { switch: { name: sw, vlan: 20, pin: false }, addresses: [10.0.0.3/24] } } }
  t: { interfaces: { eth0: { switch: { name: sw, tagged: [10, 20], pin: false } } } }
switches:
  sw: {}
";
    control.write("lab.yaml", lab);
    control.vink(&["lab", "up"]);
    control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
    let b = receive(&control, "b", "vlan-10-end");
    let c = receive(&control, "c", "vlan-20-last");
    let t = receive(&control, "t", "end");
    // Of VLAN 10; and tagged, by one whose frames have no tags, once and twice.
    send(&control, "a", &["ten", "tag", "double-tag", "vlan-20-hop"]);
    send(
        &control,
        "t",
        &[
            "vlan-20-first",
            "vlan-30-none",
            "double-tag",
            "untagged",
            "vlan-10-end",
        ],
    );
    assert_eq!(received(b), ["ten", "vlan-10-end"]);
    send(&control, "c", &["twenty", "end"]);
    assert_eq!(received(t), ["ten", "twenty", "end"]);
    // What comes last is behind whatever else has come to c.
    send(&control, "t", &["vlan-20-last"]);
    assert_eq!(received(c), ["vlan-20-first", "vlan-20-last"]);
    assert_eq!(
        dropped(&control, "a-eth0"),
        BTreeMap::from([("tag".to_owned(), 3)])
    );
    assert_eq!(
        dropped(&control, "t-eth0"),
        BTreeMap::from([("tag".to_owned(), 1)])
    );
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn ports_come_and_go() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    with_frames(&control);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let before = ["a", "b", "c", "sw"].map(|machine| pid_of(&control, machine));
    send(&control, "a", &["other-ip", "arp-ip", "arp-ip"]);
    let counted = dropped(&control, "a-eth0");
    assert_eq!(counted.values().sum::<u64>(), 3);
    let more = LAB.replace(
        "switches:",
        "  d: { worker: two, interfaces: { eth0: { switch: sw, addresses: [10.0.0.4/24] } } }\nswitches:",
    );
    control.write("lab.yaml", &more);
    let said = control.vink(&["lab", "apply"]);
    assert!(said.contains("~ switch sw: + port d-eth0"), "{said}");
    control.vink(&["exec", "d", "--", "ping", "-c1", "a"]);
    // The others are as they were, with what they have counted.
    assert_eq!(
        before,
        ["a", "b", "c", "sw"].map(|machine| pid_of(&control, machine))
    );
    assert_eq!(dropped(&control, "a-eth0"), counted);
    control.write("lab.yaml", LAB);
    let said = control.vink(&["lab", "apply"]);
    assert!(said.contains("~ switch sw: - port d-eth0"), "{said}");
    let rules = control.vink(&["exec", "sw", "--", "nft", "list", "ruleset"]);
    assert!(!rules.contains("d-eth0"), "{rules}");
    assert_eq!(dropped(&control, "a-eth0"), counted);
    control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
    // Machines that commands make and remove have ports, too.
    control.vink(&["machine", "rm", "b"]);
    let ports = control.vink(&["exec", "sw", "--", "bridge", "link"]);
    assert!(!ports.contains("b-eth0"), "{ports}");
    control.vink(&["lab", "apply"]);
    control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
    // A port at another wire is in the bridge again.
    control.write("lab.yaml", &LAB.replace("wire: w1", "wire: w2"));
    control.vink(&["lab", "apply"]);
    control.vink(&["exec", "c", "--", "ping", "-c1", "b"]);
    // Without the switch nothing is there of it.
    control.write(
        "lab.yaml",
        "machines:\n  a: { interfaces: { eth0: { addresses: [10.0.0.1/24] } } }\n",
    );
    control.vink(&["lab", "apply"]);
    let all = control.json(&["lab", "ps", "--json"]);
    assert_eq!(all["machines"].as_array().map(Vec::len), Some(1), "{all:#}");
    assert_eq!(all["workers"].as_array().map(Vec::len), Some(1), "{all:#}");
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn an_ordinary_path_is_enough() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        // A user's on Debian, without the folders of bridge(8) and nft(8).
        let path = format!("{}:/usr/bin:/bin", place.folder().display());
        let mut up = control.command("vink");
        let out = up
            .args(["lab", "up"])
            .env("PATH", path)
            .output()
            .expect("vink");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        control.vink(&["exec", "a", "--", "ping", "-c1", "10.0.0.3"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_switch_dies() {
    for place in Place::all() {
        let control = Control::of(&place);
        with_frames(&control);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let worker = pid_of(&control, "sw");
        let process = vink_sys::pidfd::open(worker).expect("a process");
        vink_sys::process::kill(worker, libc::SIGKILL).expect("a process");
        assert!(vink_sys::poll::is_readable(&process, 60_000));
        for machine in ["a", "b", "c"] {
            let line = "until ip link show eth0 | grep -q NO-CARRIER; do :; done";
            control.vink(&["exec", machine, "--", "sh", "-c", line]);
        }
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["summary"]["state"], "broken");
        control.fails(&["exec", "a", "--", "ping", "-c1", "-W1", "10.0.0.2"]);
        let restarted = control.json(&["lab", "restart", "sw", "--json"]);
        assert_eq!(restarted["machines"], serde_json::json!(["sw"]));
        control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
        control.vink(&["exec", "c", "--", "ping", "-c1", "b"]);
        // It filters as before.
        let receiver = receive(&control, "b", "end");
        send(&control, "a", &["other-ip", "end"]);
        assert_eq!(received(receiver), ["end"]);
        // The control process takes it along, and leaves nothing.
        let is_daemon = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.windows(7).any(|part| part == b"daemon\0")
        };
        let daemon = control.processes().into_iter().find(is_daemon);
        vink_sys::process::kill(daemon.expect("it"), libc::SIGKILL).expect("a process");
        control.wait_for_no_process();
        control.vink(&["lab", "up"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_program_with_its_own_stack() {
    for place in Place::all() {
        let control = Control::of(&place);
        let path = control.folder().join("wire");
        let lab = format!(
            "name: joined
machines:
  m1:
    interfaces: {{ eth0: {{ switch: sw, addresses: [10.9.0.2/24] }} }}
    programs:
      web: {{ command: exec python3 -m http.server 80, ready: {{ port: 80 }} }}
switches:
  sw: {{ ports: {{ p1: {{ wire: out, mac: \"02:00:00:00:00:03\", addresses: [10.9.0.3] }} }} }}
wires:
  out: {{ uplink: {{ wire: {} }} }}
",
            path.display()
        );
        control.write("lab.yaml", &lab);
        control.vink(&["lab", "up"]);
        let wire = format!("wire:{}", path.display());
        let mac = "02:00:00:00:00:03";
        for (mac, address, passes) in [
            (mac, "10.9.0.3/24", true),
            (mac, "10.9.0.4/24", false),
            ("02:00:00:00:00:04", "10.9.0.3/24", false),
            (mac, "10.9.0.3/24", true),
        ] {
            let mut command = place.command("vink");
            command
                .args([
                    "run",
                    "--in-process",
                    "--uplink",
                    &wire,
                    "--mac",
                    mac,
                    "--address",
                    address,
                    "--",
                ])
                .args([
                    "curl",
                    "-sSf",
                    "--max-time",
                    "2",
                    "http://10.9.0.2/lab.yaml",
                ]);
            let out = command.output().expect("vink");
            let said = String::from_utf8_lossy(&out.stdout);
            assert_eq!(
                said == lab,
                passes,
                "{}: {}",
                place.user(),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        let dropped = dropped(&control, "p1");
        assert!(
            ["mac", "arp"].iter().all(|why| dropped[*why] > 0),
            "{dropped:?}"
        );
        // The same of a program whose stack is in a worker.
        let out = place
            .command("vink")
            .args([
                "run",
                "--uplink",
                "wire:/dev/null",
                "--mac",
                "03:00:00:00:00:03",
                "true",
            ])
            .output()
            .expect("vink");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            said.contains("is not the Ethernet address of one interface"),
            "{said}"
        );
        let out = place
            .command("vink")
            .args([
                "run",
                "--uplink",
                &wire,
                "--mac",
                mac,
                "--address",
                "10.9.0.3/24",
                "--",
            ])
            .args(["ping", "-c1", "10.9.0.2"])
            .output()
            .expect("vink");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

/// Four machines in workers of their own behind one address, and two others.
const GROUP: &str = "
x-member: &member
  interfaces: { eth0: { switch: { name: sw, group: kvs }, addresses: [10.0.0.100/24, \"fd00::100/64\"] } }
  programs: { serve: { command: exec python3 group.py serve, ready: { port: 7 } } }
machines:
  c: { interfaces: { eth0: { switch: sw, addresses: [10.0.0.1/24, \"fd00::1/64\"] } } }
  d: { interfaces: { eth0: { switch: { name: sw, pin: false }, addresses: [10.0.0.2/24, \"fd00::2/64\"] } } }
  m1: { <<: *member, worker: one }
  m2: { <<: *member, worker: two }
  m3: { <<: *member, worker: three }
  m4: { <<: *member, worker: four }
switches:
  sw: {}
";
const MEMBERS: [&str; 4] = ["m1", "m2", "m3", "m4"];

/// A client of a group, which keeps its flows.
struct Client {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn of(control: &Control<'_>, machine: &str, address: &str) -> Client {
        let mut words = vec!["exec", "-i", machine, "--"];
        words.extend(["python3", "group.py", "ask", address]);
        let mut child = control.start(&words);
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Client { child, output }
    }

    /// How many flows are whose, by the answers of all that are not dead.
    fn ask(&mut self, dead: &str) -> BTreeMap<String, u64> {
        let mut input = self.child.stdin.as_ref().expect("a pipe");
        writeln!(input, "{dead}").expect("a client");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        if line.is_empty() {
            let mut why = String::new();
            let mut error = self.child.stderr.take().expect("a pipe");
            error.read_to_string(&mut why).expect("text");
            panic!("{why}");
        }
        serde_json::from_str(&line).expect(&line)
    }
}

#[test]
fn several_ports_behind_one_address() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("group.py", include_str!("group.py"));
        control.write("lab.yaml", GROUP);
        control.vink(&["lab", "up"]);
        let mut clients = [
            Client::of(&control, "c", "10.0.0.100"),
            Client::of(&control, "d", "10.0.0.100"),
            Client::of(&control, "d", "fd00::100"),
        ];
        let shares: Vec<_> = clients.iter_mut().map(|client| client.ask("")).collect();
        for share in &shares {
            // Of 128 flows that go anywhere with the same chance, five standard deviations.
            assert_eq!(share.keys().collect::<Vec<_>>(), MEMBERS);
            assert!(
                share.values().all(|flows| (7..=57).contains(flows)),
                "{share:?}"
            );
        }
        // None of the members says that another one has its address.
        for member in MEMBERS {
            let addresses = control.vink(&["exec", member, "--", "ip", "address", "show", "eth0"]);
            assert!(!addresses.contains("dadfailed"), "{addresses}");
        }
        control.vink(&["exec", "c", "--", "ping", "-c1", "10.0.0.100"]);
        control.vink(&["exec", "c", "--", "ping", "-c1", "fd00::100"]);
        // A change elsewhere moves no flow.
        let fewer = GROUP.replace("10.0.0.2/24", "10.0.0.3/24");
        control.write("lab.yaml", &fewer);
        control.vink(&["lab", "apply"]);
        assert_eq!(clients[0].ask(""), shares[0]);
        control.write("lab.yaml", GROUP);
        control.vink(&["lab", "apply"]);
        // What dies takes its flows along; the others go on, also if it was the first.
        for dies in ["m3", "m1"] {
            let worker = pid_of(&control, dies);
            let process = vink_sys::pidfd::open(worker).expect("a process");
            vink_sys::process::kill(worker, libc::SIGKILL).expect("a process");
            assert!(vink_sys::poll::is_readable(&process, 60_000));
            for (client, share) in clients.iter_mut().zip(&shares) {
                let dead = if dies == "m3" { "m3" } else { "m1 m3" };
                assert_eq!(client.ask(dead), *share);
            }
        }
        control.vink(&["lab", "restart", "m1"]);
        control.vink(&["lab", "restart", "m3"]);
        let mut again = Client::of(&control, "c", "fd00::100");
        assert_eq!(again.ask("").keys().collect::<Vec<_>>(), MEMBERS);
        // What goes to one of them is filtered at its port.
        let rules = "table netdev no-{{interface}} {
  chain to {
    type filter hook egress device {{interface}} priority 0; policy accept;
    meta l4proto { tcp, udp } th dport 7 drop
  }
}
";
        control.write("no.nft", rules);
        control.vink(&["filter", "set", "sw:m2-eth0", "no.nft"]);
        again.ask("m2");
        control.vink(&["filter", "rm", "sw:m2-eth0"]);
        // As it was written.
        let saved = control.vink(&["lab", "save"]);
        assert!(
            saved.contains("group: kvs") && !saved.contains("mac:"),
            "{saved}"
        );
        control.write("saved.yaml", &saved);
        assert_eq!(
            control.vink(&["lab", "apply", "saved.yaml"]),
            "lab lab is as the file says\n"
        );
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn who_answers_for_a_group() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    with_frames(&control);
    control.write("group.py", include_str!("group.py"));
    control.write("lab.yaml", GROUP);
    control.vink(&["lab", "up"]);
    control.vink(&["exec", "c", "--", "ping", "-c1", "10.0.0.100"]);
    let receivers = MEMBERS.map(|member| receive(&control, member, "end"));
    // A request tells each port the client's Ethernet address, which may have changed.
    let names = [
        "who-a", "who-b", "asks-a", "asks-b", "again-a", "again-b", "is-it", "lost-it", "end",
    ];
    send(&control, "c", &names);
    for got in receivers.map(received) {
        assert_eq!(got, names);
    }
    // Members come and go, also the first one.
    let other = GROUP
        .replace("  m1: {", "  m0: {")
        .replace("worker: two }", "worker: two2 }");
    control.write("lab.yaml", &other);
    control.vink(&["lab", "apply"]);
    let shares = Client::of(&control, "c", "10.0.0.100").ask("");
    assert_eq!(shares.keys().collect::<Vec<_>>(), ["m0", "m2", "m3", "m4"]);
    control.vink(&["exec", "c", "--", "ping", "-c1", "10.0.0.100"]);
    // One that is left needs no rules, and none leaves none.
    for left in ["m4", "m2"] {
        control.write("lab.yaml", GROUP);
        control.vink(&["lab", "apply"]);
        for member in MEMBERS.iter().filter(|member| **member != left) {
            control.vink(&["machine", "rm", member]);
        }
        let shares = Client::of(&control, "c", "fd00::100").ask("");
        assert_eq!(shares.keys().collect::<Vec<_>>(), [left]);
    }
    let rules = control.vink(&["exec", "sw", "--", "nft", "list", "ruleset"]);
    assert!(!rules.contains("kvs"), "{rules}");
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

/// Floods a port with frames of 60 KB, many more than the switch has memory for, and then has round
/// trips with another one: how many of each were sent and came back.
const FLOOD: &str = "
import socket
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood.setsockopt(socket.IPPROTO_UDP, 103, 1200)  # UDP_SEGMENT: in one piece
flood.connect(('10.0.0.3', 9))
sent = 0
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.connect(('10.0.0.2', 7))
echo.settimeout(20)
answered = 0
for turn in range(200):
    for _ in range(20):
        flood.send(bytes(60000))
        sent += 1
    echo.send(b'x')
    answered += len(echo.recv(10))
print(sent, answered)
";

const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.0.0.2', 7))
print('ready', flush=True)
for _ in range(200):
    data, peer = s.recvfrom(10)
    s.sendto(data, peer)
";

/// Bytes of memory that a process has.
fn resident(pid: i32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("a process");
    let pages: u64 = pages
        .split(' ')
        .nth(1)
        .expect(&pages)
        .parse()
        .expect(&pages);
    pages * 4096
}

#[test]
fn a_port_that_does_not_read() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", &format!("memory: 64M\n{LAB}"));
    control.write("flood.py", FLOOD);
    control.write("echo.py", ECHO);
    control.vink(&["lab", "up"]);
    for to in ["10.0.0.2", "10.0.0.3"] {
        control.vink(&["exec", "a", "--", "ping", "-c1", to]);
    }
    let line = "ip neighbour replace 10.0.0.3 dev eth0 nud permanent lladdr $(ip neighbour show 10.0.0.3 | grep -o 'lladdr [^ ]*' | cut -d' ' -f2)";
    control.vink(&["exec", "a", "--", "sh", "-c", line]);
    let mut echo = control.start(&["exec", "b", "--", "python3", "echo.py"]);
    let mut output = BufReader::new(echo.stdout.take().expect("a pipe"));
    let mut ready = String::new();
    output.read_line(&mut ready).expect("a line");
    let switch = pid_of(&control, "sw");
    let before = resident(switch);
    let deaf = pid_of(&control, "c");
    vink_sys::process::kill(deaf, libc::SIGSTOP).expect("a process");
    let counts = control.vink(&["exec", "a", "--", "python3", "flood.py"]);
    let after = resident(switch);
    vink_sys::process::kill(deaf, libc::SIGCONT).expect("a process");
    assert_eq!(counts, "4000 200\n");
    assert!(echo.wait().expect("it").success());
    // An eighth of the arena waits for the port, and what bears it.
    let more = after.saturating_sub(before);
    assert!((4 << 20..16 << 20).contains(&more), "{more} bytes");
    // It reads again, and all is as it was.
    control.vink(&["exec", "a", "--", "ping", "-c1", "c"]);
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}
