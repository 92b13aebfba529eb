//! Filters: nft rules that the control process loads, checks, shows, and returns to.

mod common;

use std::process::Stdio;

use common::control::Control;
use common::Place;

/// Two machines; b's filter counts what it drops.
const LAB: &str = "
name: filtered
machines:
  a: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }
  b:
    interfaces:
      eth0:
        wire: w1
        addresses: [10.0.0.2/24]
        filter: |
          table netdev {{interface}}-in {
            chain c { type filter hook ingress device {{interface}} priority 0; udp dport 99 counter drop; }
          }
    filter: { from: web.nft }
    programs:
      # It is not there before the rules are.
      rules: { command: nft list table inet web > at-start, ready: success }
      web: { command: exec python3 -m http.server 80, ready: { port: 80 } }
wires: { w1: {} }
";

const CLOSED: &str = "#!/usr/sbin/nft -f
flush ruleset

table inet web {
  counter refused { }
  chain input {
    type filter hook input priority 0; policy accept;
    ip saddr 10.0.0.8 tcp dport 80 accept
    ip saddr 10.0.0.9 tcp dport 80 accept
    tcp dport 80 counter name refused reject with tcp reset
  }
}
";

fn fetches(control: &Control) -> bool {
    let page = control.try_vink(&[
        "exec",
        "a",
        "--",
        "curl",
        "-sS",
        "-o",
        "/dev/null",
        "http://10.0.0.2/",
    ]);
    page.status.success()
}

#[test]
fn rules_by_version() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.write("web.nft", CLOSED);
        control.write("open.nft", &CLOSED.replace("10.0.0.9", "10.0.0.1"));
        control.vink(&["lab", "up"]);
        let at_start = control.vink(&["exec", "b", "--", "cat", "at-start"]);
        assert!(at_start.contains("counter refused"), "{at_start}");

        assert!(!fetches(&control), "the filter lets it through");
        let counted = control.json(&["filter", "counters", "b", "--json"]);
        assert_eq!(counted[0]["rule"], "refused");
        assert!(counted[0]["packets"].as_u64() >= Some(1), "{counted}");
        let said = control.vink(&["filter", "set", "b", "open.nft"]);
        assert_eq!(
            said,
            "filter of b, version 2 from open.nft: table inet web, optimized\n"
        );
        assert!(fetches(&control), "the filter is as it was");
        // What is alike is a set.
        let shown = control.vink(&["filter", "show", "b"]);
        assert!(
            shown.contains("{ 10.0.0.1 . 80, 10.0.0.8 . 80 } accept"),
            "{shown}"
        );
        assert!(
            shown.starts_with("# filter of b, version 2 from open.nft"),
            "{shown}"
        );

        // The interface's filter is another one, and counts what it drops.
        let sent = "echo x > /dev/udp/10.0.0.2/99";
        control.vink(&["exec", "a", "--", "bash", "-c", sent]);
        let counted = control.json(&["filter", "counters", "b:eth0", "--json"]);
        assert_eq!(
            (counted[0]["packets"].as_u64(), counted[0]["chain"].as_str()),
            (Some(1), Some("c"))
        );

        // What it was, and what it becomes.
        assert_eq!(
            control.vink(&["filter", "show", "--source", "b"]),
            CLOSED.replace("10.0.0.9", "10.0.0.1")
        );
        let differs = control.try_vink(&["filter", "diff", "b", "web.nft"]);
        let told = String::from_utf8_lossy(&differs.stdout).into_owned();
        assert_eq!(differs.status.code(), Some(1), "{told}");
        assert!(told.starts_with("--- version 2\n+++ web.nft\n"), "{told}");
        assert!(told.contains("\n+    ip saddr 10.0.0.9 "), "{told}");
        let same = control.vink(&["filter", "diff", "b", "open.nft"]);
        assert_eq!(same, "");

        let said = control.vink(&["filter", "rollback", "b"]);
        assert!(
            said.starts_with("filter of b, version 3 from version 1:"),
            "{said}"
        );
        assert!(!fetches(&control), "it is the open version");
        let said = control.vink(&["shell", "-c", "filter rollback b 2", "-c", "filter list"]);
        assert!(
            said.contains("filter of b, version 4 from version 2: table inet web, optimized\n"),
            "{said}"
        );
        assert!(fetches(&control), "it is the closed version");
        let (status, error) = control.fails(&["filter", "rollback", "b", "7"]);
        assert_eq!(status, 125);
        assert!(
            error.contains("no version 7") && error.contains("1, 2, 3, 4"),
            "{error}"
        );

        // A worker that starts again has them again, and an interface that is made again.
        control.vink(&["filter", "set", "b", "web.nft"]);
        control.vink(&["lab", "restart"]);
        assert!(!fetches(&control), "a restart opens it");
        let all = control.json(&["filter", "list", "--json"]);
        assert_eq!(
            (all[0]["version"].as_u64(), all[0]["file"].as_str()),
            (Some(5), Some("web.nft"))
        );
        let saved = control.vink(&["lab", "save"]);
        control.write(
            "saved.yaml",
            &saved.replace(
                "wire: w1\n        addresses: [10.0.0.2/24]",
                "wire: w1\n        mac: 02:00:00:00:00:02\n        addresses: [10.0.0.2/24]",
            ),
        );
        let changes = control.vink(&["lab", "apply", "saved.yaml"]);
        assert!(
            changes.contains("- interface b:eth0") && changes.contains("filter of b:eth0"),
            "{changes}"
        );
        control.vink(&["exec", "a", "--", "bash", "-c", sent]);
        let counted = control.json(&["filter", "counters", "b:eth0", "--json"]);
        assert_eq!(counted[0]["packets"].as_u64(), Some(1), "{counted}");

        control.vink(&["filter", "rm", "b"]);
        assert!(fetches(&control), "the rules are there still");
        let rest = control.vink(&["exec", "b", "--", "nft", "list", "tables"]);
        assert_eq!(rest, "table netdev eth0-in\n");
        let (_, error) = control.fails(&["filter", "show", "b"]);
        assert!(
            error.contains("no filter of b") && error.contains("b:eth0"),
            "{error}"
        );
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn bad_rules_change_nothing() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.write("web.nft", CLOSED);
        control.vink(&["lab", "up"]);
        let rules =
            |control: &Control| control.vink(&["exec", "b", "--", "nft", "list", "ruleset"]);
        let before = rules(&control);
        control.vink(&["exec", "a", "--", "nft", "add table inet mine"]);
        for (at, text, place_in_it, words) in [
            (
                "b",
                CLOSED.replace("tcp dport 80 acc", "tcp dprt 80 acc"),
                "bad.nft:8:27-30",
                "syntax error",
            ),
            (
                "b",
                CLOSED.replace("flush ruleset", "add tabel inet x"),
                "bad.nft:2",
                "table ip tabel",
            ),
            (
                "b",
                CLOSED.replace("counter name refused", "counter name absent"),
                "bad.nft:10",
                "No such file",
            ),
            (
                "b",
                CLOSED.replace("inet web", "netdev eth0-in"),
                "bad.nft",
                "filter of b:eth0",
            ),
            (
                "b",
                "table inet x { chain c { jump nowhere; }\n}\n".to_owned(),
                "bad.nft:1",
                "No such file",
            ),
            (
                "b",
                "# nothing\n".to_owned(),
                "bad.nft:1",
                "declares no table",
            ),
            (
                "a",
                "table inet mine { }\n".to_owned(),
                "bad.nft",
                "of its own",
            ),
            ("c", CLOSED.to_owned(), "no machine c", ""),
            ("b:eth7", CLOSED.to_owned(), "eth7", ""),
            ("b:lo", CLOSED.to_owned(), "`lo`", "machine"),
        ] {
            control.write("bad.nft", &text);
            for what in ["check", "set"] {
                let (status, error) = control.fails(&["filter", what, at, "bad.nft"]);
                assert_eq!(status, 125, "{at} {error}");
                assert!(
                    error.contains(place_in_it) && error.contains(words),
                    "{at}: {text}\n{error}"
                );
            }
            assert_eq!(rules(&control), before, "{text}");
        }
        // A good one is only checked.
        let said = control.vink(&["filter", "check", "b", "web.nft"]);
        assert!(
            said.starts_with("good, and not in force: filter of b, version 2 from web.nft"),
            "{said}"
        );
        assert_eq!(rules(&control), before);
        let (_, error) = control.fails(&["filter", "set", "b", "missing.nft"]);
        assert!(
            error.contains("missing.nft") && error.contains("No such file"),
            "{error}"
        );

        // A lab file's are checked before anything is made.
        control.write("bad.nft", "table inet a { }\nadd rule inet b c drop\n");
        control.write(
            "bad.yaml",
            &LAB.replace("web.nft", "bad.nft")
                .replace("filtered", "other"),
        );
        let (_, error) = control.fails(&["lab", "check", "bad.yaml"]);
        assert!(
            error.contains("bad.yaml:14:")
                && error.contains("bad.nft:2: this is about table inet b"),
            "{error}"
        );
        // What only nft can tell ends `lab up`, and nothing is left of it.
        control.write("bad.nft", &CLOSED.replace("dport", "dprt"));
        let (_, error) = control.fails(&["lab", "up", "bad.yaml"]);
        assert!(
            error.contains("filter of b: ") && error.contains("bad.nft:8:"),
            "{error}"
        );
        control.vink(&["lab", "down", "filtered"]);
        control.nothing_is_left();
    }
}

const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.0.0.2', 9))
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(data, peer)
";

/// Bursts of 32 datagrams, each echoed, until the input ends: how many there were, and how many of
/// them came back.
const FLOOD: &str = "
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('10.0.0.2', 9))
s.settimeout(20)
sent = got = 0
print('begun', flush=True)
while got == sent and not select.select([sys.stdin], [], [], 0)[0]:
    for i in range(32):
        s.send(b'%d' % (sent + i))
    sent += 32
    try:
        while got < sent:
            s.recv(2048)
            got += 1
    except socket.timeout:
        break
print(sent, got, flush=True)
";

/// Rules whose last one drops what the first one has not seen.
fn marked(version: usize) -> String {
    let mut text = format!("table inet web {{\n  chain input {{\n    type filter hook input priority 0; policy accept;\n    udp dport 9 meta mark set {version}\n");
    for at in 0..100 {
        text += &format!(
            "    ip saddr 192.0.2.{at} udp dport {} drop\n    udp sport {} drop\n",
            at + 100,
            at + 1
        );
    }
    text += &format!("    udp dport 9 meta mark != {version} drop\n  }}\n}}\n");
    text
}

#[test]
fn a_change_under_traffic_loses_nothing() {
    let place = Place::urgent();
    let control = Control::of(&place);
    control.write(
        "lab.yaml",
        &(LAB
            .split("        filter: |")
            .next()
            .expect("text")
            .to_owned()
            + "wires: { w1: {} }\n"),
    );
    control.write("echo.py", ECHO);
    control.write("flood.py", FLOOD);
    control.vink(&["lab", "up"]);
    let mut echo = control.start(&["exec", "b", "--", "python3", "echo.py"]);
    control.vink(&[
        "exec",
        "b",
        "--",
        "sh",
        "-c",
        "until ss -Hlun sport = :9 | grep -q .; do sleep 0.01; done",
    ]);
    let mut command = control.command("vink");
    command.args(["exec", "-i", "a", "--", "python3", "flood.py"]);
    let mut flood = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("vink");
    let mut output = std::io::BufReader::new(flood.stdout.take().expect("a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    assert_eq!(line, "begun\n");
    for version in 1..=20 {
        control.write("rules.nft", &marked(version));
        let said = control.vink(&["filter", "set", "b", "rules.nft"]);
        assert!(
            said.starts_with(&format!("filter of b, version {version} ")),
            "{said}"
        );
    }
    drop(flood.stdin.take());
    line.clear();
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    let counts: Vec<u64> = line
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    assert!(
        counts[0] > 32 && counts[0] == counts[1],
        "sent and echoed: {line}"
    );
    assert!(flood.wait().expect("vink").success());
    echo.kill().expect("vink");
    let _ = echo.wait();
    control.vink(&["lab", "down"]);
}

/// Which of some addresses get through to which ports.
const PROBE: &str = "
import socket
ports = range(1000, 1008)
to = []
for port in ports:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('127.0.0.1', port))
    s.setblocking(False)
    to.append(s)
for host in range(1, 9):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('127.0.0.%d' % host, 0))
    for port in ports:
        s.sendto(b'x', ('127.0.0.1', port))
    def came(s):
        try:
            s.recv(10)
            return '1'
        except BlockingIOError:
            return '0'
    print(''.join(came(s) for s in to))
";

/// Rules of a kind that nft makes sets and maps of, at random.
fn random_rules(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % limit
    };
    let policy = ["accept", "drop"][below(2) as usize];
    let mut text = format!("table inet t {{\n  chain input {{\n    type filter hook input priority 0; policy {policy};\n");
    for _ in 0..2 + below(4) {
        let kind = below(4);
        let verdict = ["accept", "drop"][below(2) as usize];
        for _ in 0..1 + below(5) {
            let (host, port) = (1 + below(8), 1000 + below(8));
            let verdict = if below(4) == 0 {
                ["accept", "drop"][below(2) as usize]
            } else {
                verdict
            };
            text += &match kind {
                0 => format!("    ip saddr 127.0.0.{host} {verdict}\n"),
                1 => format!("    udp dport {port} {verdict}\n"),
                2 => format!("    ip saddr 127.0.0.{host} udp dport {port} {verdict}\n"),
                _ => format!(
                    "    udp dport {port}-{} {verdict}\n",
                    (port + below(3)).min(1007)
                ),
            };
        }
    }
    text + "  }\n}\n"
}

#[test]
fn optimized_rules_judge_as_written() {
    let place = Place::urgent();
    let control = Control::of(&place);
    control.write("lab.yaml", "machines: { m: {} }\n");
    control.write("probe.py", PROBE);
    control.vink(&["lab", "up"]);
    let probe = |control: &Control| control.vink(&["exec", "m", "--", "python3", "probe.py"]);
    let mut optimized = 0;
    for seed in 1..=24 {
        let rules = random_rules(seed);
        control.write("rules.nft", &rules);
        let said = control.vink(&["filter", "set", "m", "rules.nft"]);
        optimized += u32::from(said.ends_with(", optimized\n"));
        let filtered = probe(&control);
        let shown = control.vink(&["filter", "show", "m"]);
        control.vink(&["filter", "rm", "m"]);
        control.vink(&["exec", "m", "--", "nft", "-f", "rules.nft"]);
        assert_eq!(filtered, probe(&control), "{rules}\n{shown}");
        control.vink(&["exec", "m", "--", "nft", "flush", "ruleset"]);
    }
    assert!(optimized > 6, "{optimized} of 24");
    control.vink(&["lab", "down"]);
}

#[test]
fn a_run_with_a_filter() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("ping.nft", "table inet f {\n  chain out { type filter hook output priority 0; icmp type echo-request counter drop; }\n}\n");
        let run = ["run", "--uplink", "none", "--filter", "ping.nft", "--"];
        let listed = control.vink(&[&run[..], &["nft", "list", "table", "inet", "f"]].concat());
        assert!(
            listed.contains("icmp type echo-request counter packets 0"),
            "{listed}"
        );
        let ping =
            control.try_vink(&[&run[..], &["ping", "-c", "1", "-W", "1", "127.0.0.1"]].concat());
        assert_eq!(ping.status.code(), Some(1));
        control.write("ping.nft", "table inet f {\n  chian out { }\n}\n");
        let (status, error) = control.fails(&[&run[..], &["true"]].concat());
        assert_eq!(status, 125);
        assert!(
            error.contains("ping.nft:2:3-7: Error: syntax error"),
            "{error}"
        );
        control.write("ping.nft", "add rule inet f c drop\n");
        let (_, error) = control.fails(&[&run[..], &["true"]].concat());
        assert!(
            error.contains("ping.nft:1: this is about table inet f"),
            "{error}"
        );
    }
}

/// Three machines in three workers at a switch, with filters at two of its ports and of all of it.
const SWITCH: &str = "
name: ports
machines:
  a:
    interfaces:
      eth0:
        mac: \"02:00:00:00:00:0a\"
        addresses: [10.0.0.1/24]
        switch: { name: sw, filter: { from: a.nft } }
  b:
    worker: two
    interfaces: { eth0: { mac: \"02:00:00:00:00:0b\", switch: sw, addresses: [10.0.0.2/24] } }
  c: { worker: three, interfaces: { eth0: { wire: w1, addresses: [10.0.0.3/24] } } }
switches:
  sw:
    filter: |
      table bridge {{machine}} {
        chain each { type filter hook forward priority 0; udp dport 97 counter drop; }
      }
    ports:
      p1:
        wire: w1
        filter: |
          table netdev {{machine}}-{{interface}} {
            chain from { type filter hook ingress device {{interface}} priority 0; udp dport 98 counter drop; }
            chain to { type filter hook egress device {{interface}} priority 0; udp dport 96 counter drop; }
          }
";

/// The filter of a's port.
const OF_A: &str = "table netdev {{interface}} {
  chain c { type filter hook ingress device {{interface}} priority 0; udp dport 99 counter drop; }
}
";

/// What a place's filter has counted, rule by rule.
fn counted(control: &Control, place: &str) -> Vec<(String, u64)> {
    let all = control.json(&["filter", "counters", place, "--json"]);
    let all = all.as_array().expect("a list").iter();
    let counted = all.map(|it| {
        let rule = it["rule"].as_str().expect("a rule").to_owned();
        (rule, it["packets"].as_u64().expect("a number"))
    });
    counted.collect()
}

#[test]
fn at_ports_of_a_switch() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", SWITCH);
        control.write("a.nft", OF_A);
        control.vink(&["lab", "up"]);
        let send = |machine: &str, to: &str| {
            let line = format!("echo x > /dev/udp/{to}");
            control.vink(&["exec", machine, "--", "bash", "-c", &line]);
            // What comes in the same order has come when this has.
            control.vink(&[
                "exec",
                machine,
                "--",
                "ping",
                "-c1",
                to.split('/').next().expect("it"),
            ]);
        };
        let drops = |port: u16, packets: u64| vec![(format!("udp dport {port} drop"), packets)];
        let both = |to: u64, from: u64| [drops(98, from), drops(96, to)].concat();
        send("a", "10.0.0.2/99");
        send("b", "10.0.0.1/99");
        assert_eq!(counted(&control, "sw:a-eth0"), drops(99, 1));
        send("c", "10.0.0.2/98");
        send("a", "10.0.0.3/98");
        send("a", "10.0.0.3/96");
        send("b", "10.0.0.3/96");
        send("c", "10.0.0.2/96");
        assert_eq!(counted(&control, "sw:p1"), both(2, 1));
        send("b", "10.0.0.3/97");
        assert_eq!(counted(&control, "sw"), drops(97, 1));
        let tables =
            |control: &Control| control.vink(&["exec", "sw", "--", "nft", "list", "tables"]);
        let all =
            "table bridge sw\ntable netdev vink_switch\ntable netdev sw-p1\ntable netdev a-eth0\n";
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&tables(&control)), sorted(all));

        // A change while it runs is saved, and what is saved is what runs.
        control.write("other.nft", &OF_A.replace("99", "95"));
        control.vink(&["filter", "set", "sw:a-eth0", "other.nft"]);
        send("a", "10.0.0.2/95");
        assert_eq!(counted(&control, "sw:a-eth0"), drops(95, 1));
        let saved = control.vink(&["lab", "save"]);
        for part in [
            "udp dport 95",
            "udp dport 96",
            "udp dport 97",
            "{{machine}}-{{interface}}",
        ] {
            assert!(saved.contains(part), "{part}: {saved}");
        }
        control.write("saved.yaml", &saved);
        let same = "lab ports is as the file says\n";
        assert_eq!(control.vink(&["lab", "apply", "saved.yaml"]), same);
        // The switch started again has the last ones.
        control.vink(&["lab", "restart", "sw"]);
        send("a", "10.0.0.2/95");
        assert_eq!(counted(&control, "sw:a-eth0"), drops(95, 1));
        assert_eq!(sorted(&tables(&control)), sorted(all));

        // A file changes, removes and adds them, and nothing else.
        let said = control.vink(&["lab", "apply", "lab.yaml"]);
        assert_eq!(said, "~ filter of sw:a-eth0\n");
        send("a", "10.0.0.2/95");
        send("a", "10.0.0.2/99");
        assert_eq!(counted(&control, "sw:a-eth0"), drops(99, 1));
        let less = SWITCH.replace("{ name: sw, filter: { from: a.nft } }", "sw");
        control.write("less.yaml", &less);
        assert_eq!(
            control.vink(&["lab", "apply", "less.yaml"]),
            "- filter of sw:a-eth0\n"
        );
        assert!(!tables(&control).contains("a-eth0"));
        assert_eq!(
            control.vink(&["lab", "apply", "lab.yaml"]),
            "+ filter of sw:a-eth0\n"
        );
        // A port whose interface is made again has its filter again.
        control.write("moved.yaml", &SWITCH.replace("wire: w1", "wire: w2"));
        let said = control.vink(&["lab", "apply", "moved.yaml"]);
        let (gone, come) = (
            said.find("- interface sw:p1"),
            said.find("- filter of sw:p1"),
        );
        assert!(gone.is_some() && gone < come, "{said}");
        send("c", "10.0.0.2/98");
        assert_eq!(counted(&control, "sw:p1"), both(0, 1));
        // With the port the filter goes.
        control.write(
            "gone.yaml",
            less.replace("{ wire: w1, addresses: [10.0.0.3/24] }", "{ switch: sw }")
                .split("    ports:")
                .next()
                .expect("text"),
        );
        control.vink(&["lab", "apply", "gone.yaml"]);
        assert_eq!(
            sorted(&tables(&control)),
            ["table bridge sw", "table netdev vink_switch"]
        );
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

/// Sends what a's port drops and what it lets pass, by turns, until the input ends; then the word that
/// ends the receiver, until that answers.
const TURNS: &str = "
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def send(port, data):
    try:
        s.sendto(data, ('10.0.0.2', port))
    except OSError:
        pass  # without a carrier
print('begun', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    send(99, b'forbidden')
    send(90, b'allowed')
s.settimeout(0.1)
while True:
    send(90, b'end')
    try:
        s.recv(10)
        break
    except OSError:
        pass
";

/// Says what came from a, each kind once.
const RECEIVER: &str = "
import selectors, socket
found = set()
sockets = selectors.DefaultSelector()
for port in 90, 99:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('10.0.0.2', port))
    sockets.register(s, selectors.EVENT_READ)
print('begun', flush=True)
while 'end' not in found:
    for key, _ in sockets.select():
        data, peer = key.fileobj.recvfrom(20)
        found.add(data.decode())
        if data == b'end':
            key.fileobj.sendto(data, peer)
print(*sorted(found))
";

#[test]
fn a_port_is_never_without_its_filter() {
    let place = Place::urgent();
    let control = Control::of(&place);
    control.write("lab.yaml", SWITCH);
    control.write("a.nft", OF_A);
    control.write("turns.py", TURNS);
    control.write("receiver.py", RECEIVER);
    control.vink(&["lab", "up"]);
    // What is sent first needs no answer.
    for (machine, to, mac) in [("a", 2, "0b"), ("b", 1, "0a")] {
        let line = format!("ip neighbour replace 10.0.0.{to} lladdr 02:00:00:00:00:{mac} dev eth0");
        control.vink(&["exec", machine, "--", "sh", "-c", &line]);
    }
    let begin = |machine: &str, script: &str| {
        let mut command = control.command("vink");
        command.args(["exec", "-i", machine, "--", "python3", script]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("vink");
        let mut output = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
        assert_eq!(line, "begun\n", "{script}");
        (child, output)
    };
    let (mut receiver, mut output) = begin("b", "receiver.py");
    let (mut sender, _kept) = begin("a", "turns.py");
    for _ in 0..3 {
        control.vink(&["lab", "restart", "sw"]);
    }
    // The same for one that is made again.
    control.write(
        "moved.yaml",
        &SWITCH.replace("  sw:\n", "  sw:\n    core: 0\n"),
    );
    control.vink(&["lab", "apply", "moved.yaml"]);
    drop(sender.stdin.take());
    assert!(sender.wait().expect("vink").success());
    let mut found = String::new();
    std::io::Read::read_to_string(&mut output, &mut found).expect("text");
    assert_eq!(found, "allowed end\n");
    assert!(receiver.wait().expect("vink").success());
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}
