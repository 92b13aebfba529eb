//! `vink lab`: up, ps, apply, save, down; what fails is taken back; nothing is left.

mod common;

use std::fs;

use common::control::Control;
use common::Place;

const PAIR: &str = "
name: pair
machines:
  m1:
    interfaces:
      eth0: { wire: w1, addresses: [10.0.0.1/24] }
    files: { /etc/motd: \"welcome to m1\\n\" }
    setup: [\"test -d /sys/class/net/eth0\"]
    programs:
      first: { command: \"echo begun; exec sleep 1000\", ready: { output: begun } }
  m2:
    interfaces:
      eth0: { wire: w1, addresses: [10.0.0.2/24] }
    sysctls: { net.ipv4.ip_default_ttl: 77 }
    programs:
      once: { command: [\"true\"], ready: success, after: [m1.first] }
      web: { command: exec python3 -m http.server 80, ready: { port: 80 }, after: [once] }
wires:
  w1: { loss: 0% }
";

#[test]
fn round_trip() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", PAIR);
        let said = control.vink(&["lab", "up"]);
        assert!(
            said.starts_with("lab pair is up: 2 machines, 1 wire, 2 programs;"),
            "{said}"
        );
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["summary"]["state"], "running");
        let states: Vec<(&str, &str)> = all["programs"]
            .as_array()
            .expect("programs")
            .iter()
            .map(|p| (p["name"].as_str().unwrap(), p["state"].as_str().unwrap()))
            .collect();
        assert_eq!(
            states,
            [("first", "running"), ("once", "ended"), ("web", "running")]
        );
        let ping = control.vink(&["exec", "m1", "--", "ping", "-c", "1", "m2"]);
        assert!(
            ping.contains("1 received") && ping.contains("ttl=77"),
            "{ping}"
        );
        let page = control.vink(&["exec", "m1", "--", "curl", "-sS", "http://m2/lab.yaml"]);
        assert_eq!(page, PAIR);
        if fs::metadata("/etc/motd").is_ok() {
            let text = control.vink(&["exec", "m1", "--", "cat", "/etc/motd"]);
            assert_eq!(text, "welcome to m1\n");
        }
        assert_eq!(control.vink(&["lab", "logs", "m1.first"]), "begun\n");

        // The same file twice changes nothing.
        for _ in 0..2 {
            let said = control.vink(&["lab", "apply"]);
            assert_eq!(said, "lab pair is as the file says\n");
        }
        // There and back again makes no difference, and each step is told.
        for (loss, told) in [
            ("100%", "wire w1: up, loss 100%\n"),
            ("0", "wire w1: up, ideal\n"),
        ] {
            assert_eq!(control.vink(&["wire", "set", "w1", "loss", loss]), told);
        }
        let own = control.vink(&["wire", "set", "w1", "loss", "0", "from", "m1:eth0"]);
        assert_eq!(own, "wire w1: up, ideal; from m1:eth0: loss 0%\n");
        let said = control.vink(&["lab", "apply", "--dry-run"]);
        assert_eq!(said, "lab pair is as the file says\n");
        let bare = control.try_vink(&["wire", "set", "w1", "delay", "20"]);
        let error = String::from_utf8_lossy(&bare.stderr);
        assert!(error.contains("20us or 20ms or 20s"), "{error}");
        // What runs is changed, and saved, and what is saved is what runs.
        control.vink(&["wire", "set", "w1", "delay", "30ms", "from", "m1:eth0"]);
        control.vink(&["machine", "add", "m3"]);
        let changes = control.vink(&["lab", "apply", "--dry-run"]);
        assert!(
            changes.contains("- machine m3\n") && changes.contains("~ wire w1"),
            "{changes}"
        );
        control.vink(&["lab", "save", "-o", "saved.yaml"]);
        let saved = control.vink(&["lab", "apply", "saved.yaml"]);
        assert_eq!(saved, "lab pair is as the file says\n");
        let back = control.vink(&["lab", "apply"]);
        assert_eq!(back.lines().count(), 2, "{back}");
        assert_eq!(
            control.vink(&["lab", "apply"]),
            "lab pair is as the file says\n"
        );

        // A changed file: a program with other words is started again, others are left alone.
        let before = control.json(&["lab", "ps", "--json"]);
        let changed = PAIR
            .replace("http.server 80,", "http.server 8080,")
            .replace("port: 80 ", "port: 8080 ");
        control.write("lab.yaml", &changed);
        let said = control.vink(&["lab", "apply"]);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("~ program m2.web"), "{said}");
        let page = control.vink(&["exec", "m1", "--", "curl", "-sS", "http://m2:8080/lab.yaml"]);
        assert_eq!(page, changed);
        let after = control.json(&["lab", "ps", "--json"]);
        assert_eq!(before["programs"][0]["id"], after["programs"][0]["id"]);

        let namespaces = control.namespaces();
        assert_eq!(control.vink(&["lab", "down"]), "lab pair is down\n");
        control.nothing_is_left();
        control.namespaces_are_gone(&namespaces);
    }
}

#[test]
fn two_labs_at_once() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", PAIR);
    control.vink(&["lab", "up", "--name", "one"]);
    control.vink(&["lab", "up", "--name", "two"]);
    let (code, said) = control.fails(&["lab", "up", "--name", "two"]);
    assert!(
        code == 125 && said.contains("lab two runs already"),
        "{said}"
    );
    let (code, said) = control.fails(&["exec", "m1", "--", "true"]);
    assert!(code == 125 && said.contains("one, two"), "{said}");
    for lab in ["one", "two"] {
        control.vink(&["exec", "--lab", lab, "m1", "--", "ping", "-c1", "m2"]);
    }
    control.vink(&["lab", "down", "one"]);
    control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
    control.vink(&["lab", "up", "--name", "one"]);
    control.vink(&["lab", "down", "--all"]);
    control.nothing_is_left();
    // Nothing runs: that is said, and what to do.
    let (code, said) = control.fails(&["lab", "down"]);
    assert!(code == 125 && said.contains("vink lab up"), "{said}");
    assert_eq!(control.vink(&["lab", "ps"]), "no lab runs\n");
    control.vink(&["lab", "down", "--all"]);
}

#[test]
fn what_fails_is_taken_back() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    for (broken, expected) in [
        (
            PAIR.replace("test -d /sys/class/net/eth0", "echo oops; exit 3"),
            "`echo oops; exit 3` ended with status 3: oops",
        ),
        (
            PAIR.replace("[\"true\"]", "echo no good; exit 4"),
            "status 4; its last words:\nno good",
        ),
        (
            PAIR.replace("net.ipv4.ip_default_ttl: 77", "net.ipv4.nonsense: 1"),
            "nonsense",
        ),
        (
            PAIR.replace("wire: w1, addresses: [10.0.0.1/24]", "wyre: w1"),
            "wyre",
        ),
    ] {
        control.write("lab.yaml", &broken);
        let (code, said) = control.fails(&["lab", "up"]);
        assert!(code == 125 && said.contains(expected), "{said}");
        control.nothing_is_left();
    }
    // Kept, to be looked at.
    control.write(
        "lab.yaml",
        &PAIR.replace("test -d /sys/class/net/eth0", "exit 3"),
    );
    control.fails(&["lab", "up", "--keep"]);
    let all = control.json(&["lab", "ps", "--json"]);
    assert_eq!(all["summary"]["state"], "failed");
    control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn a_lab_stays_in_its_folder() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let inner = control.folder().join("inner");
    fs::create_dir(&inner).expect("a folder");
    fs::write(control.folder().join("secret"), "secret").expect("a file");
    std::os::unix::fs::symlink("../secret", inner.join("link")).expect("a link");
    std::os::unix::fs::symlink("..", inner.join("up")).expect("a link");
    for entry in [
        "files: { /etc/motd: { from: ../secret } }",
        "files: { /etc/motd: { from: link } }",
        "files: { /etc/motd: { from: /etc/passwd } }",
        "root: ..",
        "root: up",
    ] {
        let text = format!("machines:\n  m1:\n    {entry}\n");
        fs::write(inner.join("lab.yaml"), text).expect("a file");
        let (code, said) = control.fails(&["lab", "up", "inner/lab.yaml"]);
        assert!(code == 125 && said.contains("folder"), "{entry}: {said}");
    }
    control.nothing_is_left();
}

#[test]
fn programs_start_again_and_events_come_in_time() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write(
        "lab.yaml",
        "
machines:
  m1:
    programs:
      flaky:
        command: \"n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count; test $n -ge 2\"
        restart: on-failure
        ready: success
      after: { command: exec sleep 1000, after: [flaky] }
  m2: { interfaces: { eth0: { wire: w1 } } }
wires: { w1: {} }
events:
  - { at: 0s, do: wire w1 down }
  - { at: 1h, do: wire w1 up }
",
    );
    let mut events = control.start(&["lab", "up", "--foreground"]);
    // Kept open: vink ends when its output has no reader.
    let mut output = std::io::BufReader::new(events.stdout.take().expect("a pipe"));
    let mut seen = String::new();
    let read = std::io::BufRead::read_line(&mut output, &mut seen).expect("a line");
    assert!(read > 0 && seen.contains(" is up: "), "{seen}");
    while control.json(&["wire", "ls", "--json"])[0]["up"] == true {}
    let all = control.json(&["lab", "ps", "--json"]);
    let flaky = &all["programs"][0];
    assert_eq!((&flaky["restarts"], &flaky["code"]), (&2.into(), &0.into()));
    assert_eq!(all["programs"][1]["state"], "running");
    // Ctrl-C takes it down.
    vink_sys::process::kill(events.id() as i32, libc::SIGINT).expect("it is there");
    std::io::Read::read_to_string(&mut output, &mut seen).expect("the rest");
    assert!(events.wait().expect("vink").success());
    control.nothing_is_left();
}

/// A program, and a virtualized process that does not end by itself.
const APPS: &str = "
name: apps
machines:
  m1:
    interfaces:
      eth0: { wire: w1, addresses: [10.0.0.1/24] }
    programs:
      ping: { app: ping -c 3 -i 10ms m2, ready: success }
      source: { app: source -n 1M m2, after: [m2.sink], ready: success }
  m2:
    interfaces:
      eth0: { wire: w1, addresses: [10.0.0.2/24] }
    programs:
      sink: { app: sink }
wires:
  w1: {}
";

#[test]
fn what_a_virtualized_process_writes_is_in_its_log() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", APPS);
    control.vink(&["lab", "up"]);
    // It follows until the process has ended.
    let ping = control.vink(&["lab", "logs", "--follow", "m1.ping"]);
    assert!(
        ping.contains("3 received") && ping.contains("10.0.0.2"),
        "{ping}"
    );
    let source = control.vink(&["lab", "logs", "--follow", "m1.source"]);
    assert!(source.contains("1000000 bytes sent"), "{source}");
    control.vink(&["lab", "down"]);
}

/// A program that is never ready is given up, and the error says what it waited for, what came of that, and what the program wrote.
/// What looks at it is not among the programs.
#[test]
fn what_is_never_ready_is_told() {
    for place in Place::all() {
        let control = Control::of(&place);
        let lab = |time: &str, ready: &str| {
            format!(
                "name: late\ntime: {time}\nmachines:\n  m1:\n    programs:\n      zebra: {{command: \"echo not part of vty group; exec sleep 1000\", ready: {ready}}}\n"
            )
        };
        for (time, ready, said) in [
            ("real", "{command: echo no answer; false, timeout: 500ms}", "not ready after 500ms: it waited for success of `echo no answer; false` (status 1, no answer)"),
            ("virtual", "{command: echo no answer; false, timeout: 2s}", "not ready after 2s: it waited for success of `echo no answer; false` (status 1, no answer)"),
            ("real", "{port: 2601, timeout: 100ms}", "not ready after 100ms: it waited for a listener on port 2601;"),
            // A minute of the lab's clock is soon over.
            ("virtual", "{output: up and running}", "not ready after 60s: it waited for the output \"up and running\";"),
        ] {
            control.write("late.yaml", &lab(time, ready));
            let up = control.try_vink(&["lab", "up", "late.yaml"]);
            let error = String::from_utf8_lossy(&up.stderr);
            assert!(!up.status.success(), "{ready}");
            for said in ["zebra", said, "`timeout`", "its last words:\nnot part of vty group"] {
                assert!(error.contains(said), "{said}: {error}");
            }
        }
        control.write(
            "late.yaml",
            &lab("real", "{command: sleep 1000, timeout: 200ms}"),
        );
        let up = control.try_vink(&["lab", "up", "--keep", "late.yaml"]);
        assert!(!up.status.success());
        let all = control.json(&["lab", "ps", "--lab", "late", "--json"]);
        let programs = all["programs"].as_array().expect("programs");
        assert_eq!(programs.len(), 1, "{all}");
        assert_eq!(programs[0]["name"], "zebra");
        control.vink(&["lab", "down", "--lab", "late"]);
        control.nothing_is_left();
    }
}

/// One name for a lab, whatever the command; and a hint at the command that is meant.
#[test]
fn a_lab_is_named_in_one_way() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    for name in ["one", "two"] {
        control.write("x.yaml", "machines: {m1: {}}\n");
        control.vink(&["lab", "up", "--lab", name, "x.yaml"]);
    }
    for (command, other) in [
        (&["lab", "ps"][..], "two"),
        (&["lab", "save"], "two"),
        (&["lab", "clock"], "two"),
        (&["lab", "pause"], "two"),
        (&["lab", "continue"], "two"),
        (&["machine", "ls"], "two"),
        (&["lab", "down"], "two"),
        (&["lab", "down"], "one"),
    ] {
        let words = [command, &["--lab", other]].concat();
        control.vink(&words);
    }
    control.nothing_is_left();
    for (wrong, hint) in [
        (&["ps"][..], "`vink lab ps`"),
        (
            &["wire", "w1", "delay", "20ms"],
            "`vink wire set w1 delay 20ms`",
        ),
    ] {
        let output = control.try_vink(wrong);
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(&format!("did you mean {hint}?")), "{error}");
    }
}
