//! Relays, with unmodified programs at both ends: bytes, ends of streams, resets, refusals, changes.

mod common;

use std::io::Write;
use std::process::Stdio;

use common::control::Control;
use common::Place;
use serde_json::Value;

/// A client, a machine with relays, and a server that is behind it.
const LAB: &str = "
name: relayed
machines:
  client: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24, \"fd00::2/64\"] } } }
  r:
    interfaces:
      west: { wire: w1, addresses: [10.0.0.1/24, \"fd00::1/64\"] }
      east: { wire: w2, addresses: [10.0.1.1/24] }
    relays:
      web: { listen: 10.0.0.1:80, to: server:8000 }
      sum: { listen: 7000, to: 10.0.1.2:7000 }
      echo: { protocol: udp, listen: 7001, to: 10.0.1.2:7001 }
      iperf: { listen: 5201, to: server:5201 }
      iperf-data: { protocol: udp, listen: 5201, to: server:5201 }
      none: { listen: 9, to: server:9 }
  server:
    interfaces: { eth0: { wire: w2, addresses: [10.0.1.2/24] } }
    programs:
      web: { command: exec python3 -m http.server 8000, ready: { port: 8000 } }
      sum: { command: \"exec socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:sha256sum\", ready: { port: 7000 } }
      echo: { command: \"exec socat -t 2 UDP-RECVFROM:7001,fork EXEC:cat\", ready: { command: ss -Hlun | grep -q 7001 } }
      iperf: { command: exec iperf3 -s, ready: { port: 5201 } }
wires: { w1: {}, w2: { delay: 1ms } }
";

fn on(control: &Control<'_>, machine: &str, line: &str) -> String {
    control.vink(&["exec", machine, "--", "sh", "-c", line])
}

fn stat(control: &Control<'_>, relay: &str) -> Value {
    control.json(&["relay", "stat", relay, "--json"])
}

/// A number of a relay's report once it is this; a connection's last packets come a little later
/// than its client's end.
fn becomes(control: &Control<'_>, relay: &str, number: &str, wanted: u64) {
    let mut last = Value::Null;
    for _ in 0..600 {
        last = stat(control, relay);
        if last["report"][number] == wanted {
            return;
        }
        on(control, "client", "sleep 0.05");
    }
    panic!("{relay}: {number} is not {wanted}: {last}");
}

/// Ten megabytes that do not repeat, and their SHA-256.
fn random_file(control: &Control<'_>) -> String {
    let made = control
        .command("sh")
        .args([
            "-c",
            "head -c 10000000 /dev/urandom > data; sha256sum < data",
        ])
        .output();
    String::from_utf8(made.expect("sh").stdout).expect("text")
}

#[test]
fn unmodified_programs_at_both_ends() {
    for place in Place::all() {
        for time in ["", "time: virtual\n"] {
            let control = Control::of(&place);
            control.write("lab.yaml", &format!("{time}{LAB}"));
            let sum = random_file(&control);
            control.vink(&["lab", "up"]);

            // To the client: the server's end is the client's.
            let got = on(
                &control,
                "client",
                "curl -sS http://10.0.0.1/data | sha256sum",
            );
            assert_eq!(got, sum);
            // To the server, which answers behind the client's half-close; several at a time, over
            // both families.
            let line = "for to in 10.0.0.1 fd00::1 10.0.0.1 fd00::1; do nc -N $to 7000 < data & done; wait";
            assert_eq!(on(&control, "client", line), sum.repeat(4));
            becomes(&control, "r.sum", "open", 0);
            let counted = stat(&control, "r.sum");
            let report = &counted["report"];
            assert_eq!(report["connections"], 4, "{counted}");
            assert_eq!(report["passed"][0], 40_000_000, "{counted}");
            assert_eq!(report["passed"][1], 4 * sum.len(), "{counted}");
            assert_eq!(report["errors"], 0, "{counted}");

            // Datagrams of several clients, each of which gets its own back.
            let line = "for n in 1 2 3 4 5; do (echo hello $n | socat -t 1 - UDP:10.0.0.1:7001) & done; wait";
            let said = on(&control, "client", line);
            let mut lines: Vec<&str> = said.lines().collect();
            lines.sort_unstable();
            let expected = ["hello 1", "hello 2", "hello 3", "hello 4", "hello 5"];
            assert_eq!(lines, expected);
            let counted = stat(&control, "r.echo");
            assert_eq!(counted["report"]["connections"], 5, "{counted}");
            assert_eq!(counted["report"]["datagrams"], serde_json::json!([5, 5]));

            // Nothing listens there: the client is reset, as its own connection would be.
            let line = "curl -sS http://10.0.0.1:9/ 2>&1; echo status $?";
            let said = on(&control, "client", line);
            // Before it has sent its request, or while it waits for an answer.
            let is_reset = ["status 55\n", "status 56\n"];
            assert!(is_reset.iter().any(|end| said.ends_with(end)), "{said}");
            becomes(&control, "r.none", "refused", 1);

            for options in [
                "-n 20M",
                "-n 20M -R",
                "-n 2M -P 20",
                "-u -b 10M -n 500K",
                "-u -b 10M -n 500K -R",
            ] {
                // The server is busy until the last test's end has reached it.
                let line = format!(
                    "for n in $(seq 100); do said=$(iperf3 -J -c 10.0.0.1 {options}); \
                     case $said in *'\"error\"'*) sleep 0.1;; *) break;; esac; done; echo \"$said\""
                );
                let said = on(&control, "client", &line);
                let json: Value = serde_json::from_str(&said).expect(&said);
                if options.starts_with("-u") {
                    let bytes = &json["end"]["sum"]["bytes"];
                    assert!(bytes.as_u64() >= Some(400_000), "{options}: {said}");
                } else {
                    // What is on its way at the end of the test is not counted as received.
                    let [sent, got] =
                        ["sum_sent", "sum_received"].map(|sum| json["end"][sum]["bytes"].as_u64());
                    let enough = sent >= Some(2 << 20) && got <= sent;
                    assert!(enough, "{options}: {sent:?} {got:?} {said}");
                }
            }
            // iperf3 loses some of a burst by itself; the relay does not.
            let counted = stat(&control, "r.iperf-data");
            let report = &counted["report"];
            assert_eq!(report["dropped"], 0, "{counted}");
            for way in 0..2 {
                assert!(report["datagrams"][way].as_u64() >= Some(300), "{counted}");
            }
            control.vink(&["lab", "down"]);
        }
    }
}

#[test]
fn resets_are_passed_on() {
    const PEER: &str = "
import socket, struct, sys
def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    peer.close()
";
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("peer.py", PEER);
        control.write(
            "server.py",
            "from peer import *
server = socket.create_server(('', 9))
print('ready', flush=True)
# Data, and then the reset: of this one, and then of the client.
reset_by_us = server.accept()[0]
assert reset_by_us.recv(5) == b'hello'
reset(reset_by_us)
reset_by_client = server.accept()[0]
reset_by_client.sendall(b'hello')
try:
    reset_by_client.recv(5)
except ConnectionResetError:
    print('reset', flush=True)
",
        );
        control.write(
            "client.py",
            "from peer import *
first = socket.create_connection(('10.0.0.1', 9))
first.sendall(b'hello')
try:
    first.recv(5)
except ConnectionResetError:
    print('reset')
second = socket.create_connection(('10.0.0.1', 9))
assert second.recv(5) == b'hello'
reset(second)
",
        );
        let server = "programs:\n      s: { command: exec python3 server.py, ready: { output: ready } }\n      ";
        control.write("lab.yaml", &LAB.replace("programs:\n      ", server));
        control.vink(&["lab", "up"]);
        assert_eq!(on(&control, "client", "python3 client.py"), "reset\n");
        becomes(&control, "r.none", "errors", 2);
        becomes(&control, "r.none", "open", 0);
        let log = control.vink(&["lab", "logs", "server.s"]);
        assert_eq!(log, "ready\nreset\n");
        control.vink(&["lab", "down"]);
    }
}

/// Sockets of the lab's kernel.
fn sockets(control: &Control<'_>) -> u64 {
    let socket = control.runtime().join("control.sock");
    let mut curl = control.command("curl");
    curl.arg("-sS").arg("--unix-socket").arg(socket);
    let said = curl
        .arg("http://localhost/v1/labs/relayed/statistics")
        .output();
    let said = said.expect("curl").stdout;
    let all: Value = serde_json::from_slice(&said).expect("JSON");
    let count = all["workers"][0]["counters"]["sockets"].as_u64();
    count.unwrap_or_else(|| panic!("{all}"))
}

#[test]
fn relays_come_change_and_go() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let before = sockets(&control);
        control.vink(&["relay", "add", "r.more", "10.0.0.1:81", "server:8000"]);
        // With connections that are open, and stay so.
        let mut open: Vec<_> = (0..3)
            .map(|_| control.start(&["exec", "client", "--", "nc", "10.0.0.1", "81"]))
            .collect();
        for nc in &mut open {
            let input = nc.stdin.as_mut().expect("a pipe");
            input.write_all(b"GET / HTTP/1.1\r\n").expect("a line");
        }
        becomes(&control, "r.more", "open", 3);
        assert!(sockets(&control) >= before + 7);
        let listed = control.vink(&["relay", "ls"]);
        assert!(listed.contains("r.more"), "{listed}");
        // Removed: its connections end.
        control.vink(&["relay", "rm", "r.more"]);
        for nc in open {
            let ended = nc.wait_with_output().expect("nc");
            assert!(ended.status.success(), "{ended:?}");
        }
        let mut left = sockets(&control);
        for _ in 0..600 {
            if left <= before {
                break;
            }
            // The server's side of the connections ends a little later.
            on(&control, "client", "sleep 0.05");
            left = sockets(&control);
        }
        assert_eq!(left, before);
        assert!(!control.vink(&["relay", "ls"]).contains("r.more"));

        // A file that says something else.
        let page = |port: u16| {
            let line = format!(
                "curl -sS -o /dev/null -w '%{{http_code}}' http://10.0.0.1:{port}/ || true"
            );
            on(&control, "client", &line)
        };
        control.write(
            "lab.yaml",
            &LAB.replace("listen: 10.0.0.1:80,", "listen: 10.0.0.1:82,"),
        );
        let changes = control.vink(&["lab", "apply"]);
        assert!(changes.contains("r.web"), "{changes}");
        assert_eq!((page(80).as_str(), page(82).as_str()), ("000", "200"));
        // What runs, as a file, is the same lab.
        let saved = control.vink(&["lab", "save"]);
        assert!(
            saved.contains("web: {listen: \"10.0.0.1:82\", to: server:8000}"),
            "{saved}"
        );
        control.write("saved.yaml", &saved);
        let same = control.vink(&["lab", "apply", "saved.yaml"]);
        assert_eq!(same, "lab relayed is as the file says\n");

        // Each mistake says what is wrong, and leaves nothing.
        for (words, why) in [
            (["r.x", "10.0.0.1:82", "server:1"], "Address already in use"),
            (
                ["r.x", "10.9.9.9:82", "server:1"],
                "assign requested address",
            ),
            (["r.x", "tcp", "server:1"], "write it like 10.0.0.1:80"),
            (["r.x", "83", "server"], "write it like 10.0.1.2:80"),
            (["r.x", "83", "nobody:1"], "neither an address nor a name"),
            (["r.web", "83", "server:1"], "is in lab relayed already"),
            (["q.x", "83", "server:1"], "no machine q"),
            (["x", "83", "server:1"], "write MACHINE.NAME"),
        ] {
            let (_, said) = control.fails(&[&["relay", "add"], &words[..]].concat());
            assert!(said.contains(why), "{words:?}: {said}");
            assert!(!control.vink(&["relay", "ls"]).contains("r.x"), "{words:?}");
        }
        let (_, said) = control.fails(&["relay", "rm", "r.x"]);
        assert!(said.contains("no relay r.x; 6 are in the lab"), "{said}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn mistakes_of_a_file() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    for (from, to, why) in [
        (
            "listen: 10.0.0.1:80",
            "listen: tcp 10.0.0.1:80",
            "is no address and port",
        ),
        (
            "to: server:8000",
            "to: servr:8000",
            "did you mean `server`?",
        ),
        ("to: server:8000", "to: server", "is no host and port"),
        (
            "listen: 9,",
            "listen: 7000,",
            "relay sum listens on tcp 7000, too",
        ),
        (
            "      none: { listen: 9, to: server:9 }",
            "      none: { to: server:9 }",
            "`listen` is missing",
        ),
        ("protocol: udp", "protocol: udpp", "did you mean `udp`?"),
        (
            "    relays:",
            "    programs: { web: { command: x } }\n    relays:",
            "`web` is a program and a relay of r",
        ),
    ] {
        let lab = LAB.replacen(from, to, 1);
        assert_ne!(lab, LAB, "{from}");
        control.write("lab.yaml", &lab);
        let mut check = control.command("vink");
        let said = check
            .args(["lab", "check", "lab.yaml"])
            .stdin(Stdio::null())
            .output();
        let said = String::from_utf8_lossy(&said.expect("vink").stderr).into_owned();
        assert!(said.contains(why), "{to}: {said}");
    }
}
