//! `vink explore`: a stock stack breaks nothing, what is planted is found, shrunk, written down and repeats.

mod common;

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;

use common::app::{app, program};
use common::control::Control;
use common::{root, Place};

/// A client that sends a few segments to a server.
const LAB: &str = r#"
name: small
time: virtual
memory: 32M
machines:
  client:
    SYSCTLS
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      source: { app: source -n 2k server, after: [server.sink] }
  server:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs:
      sink: { app: sink, ready: { port: 5001 } }
wires:
  w1: { delay: 5ms }
"#;

/// With it a client that has lost two SYNs gives up.
const IMPATIENT: &str =
    "sysctls: { net.ipv4.tcp_syn_retries: 1, net.ipv4.tcp_syn_linear_timeouts: 0 }";

fn write(control: &Control<'_>, sysctls: &str) {
    control.write("small.yaml", &LAB.replace("SYSCTLS", sysctls));
}

#[test]
fn a_stock_stack_breaks_nothing() {
    for place in Place::all() {
        let control = Control::of(&place);
        write(&control, "");
        let numbers = control.json(&["explore", "small.yaml", "--json"]);
        assert_eq!(numbers["complete"], 2, "{numbers}");
        assert_eq!(numbers["found"], serde_json::json!({}), "{numbers}");
        // Each packet has four fates, and each pair of packets sixteen.
        let first = control.json(&["explore", "small.yaml", "--json", "-k", "1"]);
        let runs = |numbers: &serde_json::Value| numbers["runs"].as_u64().expect("a number");
        let packets = (runs(&first) - 1) / 4;
        assert_eq!(runs(&first), 1 + 4 * packets);
        assert!(
            runs(&numbers) > packets * (packets - 1) / 2 * 16,
            "{numbers}"
        );
        assert!(!control.folder().join("small.explored").exists());
    }
}

#[test]
fn a_router_is_no_end_of_a_connection() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = r#"
time: virtual
memory: 32M
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: ["fd00:1::1/64"] } }
    routes: [{ to: default, via: "fd00:1::2" }]
    programs: { http: { app: http -6 -n 1 -s 1k b, after: [b.web] } }
  r:
    forward: true
    interfaces:
      eth0: { wire: w1, addresses: ["fd00:1::2/64"] }
      eth1: { wire: w2, addresses: ["fd00:2::2/64"] }
  b:
    interfaces: { eth0: { wire: w2, addresses: ["fd00:2::1/64"] } }
    routes: [{ to: default, via: "fd00:2::2" }]
    programs: { web: { app: httpserver, ready: { port: 80 } } }
wires: { w1: { delay: 5ms }, w2: { delay: 1ms, rate: 10mbit } }
"#;
    control.write("routed.yaml", lab);
    // What a router sends late or twice it has not been asked to back off with.
    let numbers = control.json(&["explore", "routed.yaml", "--json", "-k", "1"]);
    assert_eq!(numbers["found"], serde_json::json!({}), "{numbers}");
    assert!(numbers["runs"].as_u64() > Some(50), "{numbers}");
}

#[test]
fn what_is_found_is_shrunk_written_down_and_repeats() {
    for place in Place::all() {
        let control = Control::of(&place);
        write(&control, IMPATIENT);
        let searched = control.try_vink(&["explore", "small.yaml"]);
        let told = String::from_utf8_lossy(&searched.stdout).into_owned();
        assert_eq!(searched.status.code(), Some(1), "{told}");
        let folder = control.folder().join("small.explored/outcome");
        let file = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
        let story = file("story.txt");
        for part in [
            "the property \"outcome\" does not hold",
            "2 packets had other fates",
            "packet 1 of client:eth0 is lost: TCP 10.0.0.1:",
            // Which of two processes finds something first is left open: it may be late, too.
            "packet 2 of client:eth0 ",
            "on client:\n  source ended with status 1 (connect to 10.0.0.2:5001: Connection timed out",
            "<-- is lost",
        ] {
            assert!(story.contains(part), "no {part:?} in\n{story}");
        }
        assert!(story.starts_with(told.split("All of it").next().unwrap().trim_end()));
        assert!(file("script.pkt").contains("0.010000 > S 0:0(0) <...>\n"));
        let packets = fs::read(folder.join("packets.pcapng")).expect("a capture");
        assert_eq!(packets[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        let folder = folder.to_str().expect("a path");
        let repeated = control.vink(&["explore", "--replay", folder]);
        assert!(repeated.starts_with("the run repeats: "), "{repeated}");
        assert_eq!(control.vink(&["replay", folder]), repeated);
        for _ in 1..10 {
            assert_eq!(control.vink(&["explore", "--replay", folder]), repeated);
        }
        let mut alone = control.command("taskset");
        alone.args(["-c", "0", "vink", "explore", "--replay", folder]);
        let alone = alone.output().expect("taskset");
        assert_eq!(String::from_utf8_lossy(&alone.stdout), repeated);
    }
}

#[test]
fn the_lab_file_that_is_written_shows_the_same() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    write(&control, IMPATIENT);
    let searched = control.try_vink(&["explore", "small.yaml"]);
    assert_eq!(searched.status.code(), Some(1));
    let file = "small.explored/outcome/lab.yaml";
    control.vink(&["lab", "up", file, "--record", "again"]);
    control.vink(&["lab", "until", "60s"]);
    let programs = control.vink(&["lab", "ps"]);
    assert!(programs.contains("client.source  ended (1)"), "{programs}");
    control.vink(&["lab", "down"]);
    let repeated = control.vink(&["replay", "again"]);
    assert!(repeated.starts_with("the run repeats"), "{repeated}");
}

#[test]
fn both_engines_find_the_same() {
    for place in Place::all() {
        let control = Control::of(&place);
        let explore = |engine: &str, arguments: &[&str]| {
            let start = [
                "explore",
                "--json",
                "--verbose",
                "-j",
                "1",
                "--keep-going",
                "--engine",
                engine,
            ];
            let output = control.try_vink(&[&start, arguments].concat());
            let told = String::from_utf8_lossy(&output.stdout);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(&format!("vink: engine {engine}\n")), "{said}");
            let line = told.lines().next().unwrap_or_default();
            let mut numbers: serde_json::Value = serde_json::from_str(line).expect(&said);
            numbers["seconds"].take();
            numbers
        };
        let same = |arguments: &[&str]| {
            let [forks, pages] = ["fork", "pages"].map(|engine| explore(engine, arguments));
            assert_eq!(forks, pages, "{arguments:?}");
            assert_eq!(forks["complete"].to_string(), arguments[2], "{forks}");
            forks["found"].clone()
        };
        write(&control, "");
        assert_eq!(same(&["small.yaml", "-k", "1"]), serde_json::json!({}));
        write(&control, IMPATIENT);
        assert!(same(&["small.yaml", "-k", "2"])["outcome"].is_object());
        let samples = root().join("labs/explore");
        let lab = fs::read_to_string(samples.join("parcel.yaml")).expect("the lab");
        control.write("parcel.yaml", &lab);
        app(&control, samples.join("parcel.c"), "parcel.so", &[]);
        assert!(same(&["parcel.yaml", "-k", "2"])["outcome"].is_object());
        // A process that dies, in the middle of the search: all behind that is searched all the same.
        let parcel = fs::read_to_string(samples.join("parcel.c")).expect("the app");
        let delivers = "if (parcel.number == last + 1)";
        let dies = "if (parcel.number == last)\nabort();\nif (parcel.number == last + 1)";
        assert!(parcel.contains(delivers));
        control.write("dying.c", &parcel.replace(delivers, dies));
        app(&control, control.folder().join("dying.c"), "parcel.so", &[]);
        let found = same(&["parcel.yaml", "-k", "2"]);
        assert_eq!(
            found["panic"]["violation"]["what"],
            "The run has no end: signal 6 ended the process."
        );
        assert_eq!(found["panic"]["schedule"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn a_protocol_of_ones_own() {
    for place in Place::all() {
        let control = Control::of(&place);
        let samples = root().join("labs/explore");
        let lab = fs::read_to_string(samples.join("parcel.yaml")).expect("the lab");
        control.write("parcel.yaml", &lab);
        let build = |options: &[&str]| {
            app(&control, samples.join("parcel.c"), "parcel.so", options);
        };
        build(&[]);
        let searched = control.try_vink(&["explore", "parcel.yaml"]);
        assert_eq!(searched.status.code(), Some(1));
        let story = control.folder().join("parcel.explored/outcome/story.txt");
        let story = fs::read_to_string(story).expect("a story");
        assert!(story.contains("2 packets had other fates"), "{story}");
        assert!(story.contains("receiver ended with status 1"), "{story}");
        build(&["-DNUMBERED"]);
        let numbers = control.json(&["explore", "parcel.yaml", "--json"]);
        assert_eq!(numbers["found"], serde_json::json!({}), "{numbers}");
    }
}

/// Puts one of labs/explore's files there.
fn sample(control: &Control<'_>, name: &str) -> String {
    let text = fs::read_to_string(root().join("labs/explore").join(name)).expect(name);
    control.write(name, &text);
    text
}

/// Searches a lab that breaks a property with one deviation, and returns the story.
fn story_of(control: &Control<'_>, lab: &str, property: &str) -> String {
    let searched = control.try_vink(&["explore", &format!("{lab}.yaml")]);
    assert_eq!(searched.status.code(), Some(1), "{searched:?}");
    let story = format!("{lab}.explored/{property}/story.txt");
    let story = fs::read_to_string(control.folder().join(story)).expect("a story");
    assert!(story.contains("One packet had another fate"), "{story}");
    story
}

fn breaks_nothing(control: &Control<'_>, lab: &str, deviations: &str) {
    let file = format!("{lab}.yaml");
    let numbers = control.json(&["explore", &file, "--json", "-k", deviations]);
    assert_eq!(numbers["found"], serde_json::json!({}), "{numbers}");
    assert_eq!(numbers["complete"].to_string(), deviations, "{numbers}");
}

#[test]
fn a_split_brain_and_a_livelock_of_virtualized_processes() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    for (lab, property, said, right) in [
        (
            "leader",
            "outcome",
            "first ended with status 1 (two leaders",
            "-DLEASE",
        ),
        (
            "turn",
            "stall",
            "The last that it has written: refused",
            "-DUNEQUAL",
        ),
    ] {
        sample(&control, &format!("{lab}.yaml"));
        let (source, to) = (format!("labs/explore/{lab}.c"), format!("{lab}.so"));
        app(&control, &source, &to, &[]);
        let story = story_of(&control, lab, property);
        assert!(story.contains(said), "{story}");
        assert!(story.contains("alice:eth0 comes behind"), "{story}");
        app(&control, &source, &to, &[right]);
        breaks_nothing(&control, lab, "2");
    }
}

#[test]
fn a_livelock_that_is_fast() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = sample(&control, "turn.yaml");
    // More packets than a run may have, long before it is given up.
    control.write("turn.yaml", &lab.replace(" 150\"", " 70\""));
    app(
        &control,
        "labs/explore/turn.c",
        "turn.so",
        &["-DAGAIN_MS=20"],
    );
    let story = story_of(&control, "turn", "livelock");
    for part in [
        "Packets are sent without an end.",
        "turn on bob has not ended, as it does without faults.",
        "The last that it has written: refused",
    ] {
        assert!(story.contains(part), "no {part:?} in\n{story}");
    }
}

#[test]
fn a_deadlock_of_trapped_programs() {
    for place in Place::all() {
        let control = Control::of(&place);
        let lab = sample(&control, "bank.yaml");
        sample(&control, "bank.py");
        let searched = control.try_vink(&["explore", "bank.yaml", "--verbose", "-k", "1"]);
        let errors = String::from_utf8_lossy(&searched.stderr).into_owned();
        assert!(
            errors.contains("engine rerun (programs of the host are not copied)"),
            "{errors}"
        );
        let story = story_of(&control, "bank", "stall");
        for part in [
            "bank on alice has not ended, as it does without faults",
            "The last that it has written: a credit waits for the lock",
            " s  bank on bob writes: the other bank is asked\n",
            "packet 1 of alice:eth0 comes behind the next one: TCP 10.0.0.1:",
        ] {
            assert!(story.contains(part), "no {part:?} in\n{story}");
        }
        let repeated = control.vink(&["explore", "--replay", "bank.explored/stall"]);
        assert!(repeated.starts_with("the run repeats: "), "{repeated}");
        for _ in 1..5 {
            assert_eq!(control.vink(&["replay", "bank.explored/stall"]), repeated);
        }
        // The lab file that was written is of another folder.
        control.vink(&["lab", "up", "bank.explored/stall/lab.yaml"]);
        control.vink(&["lab", "until", "60s"]);
        let programs = control.vink(&["lab", "ps"]);
        let runs = |line: &&str| line.contains(".bank ") && line.contains(" running ");
        assert_eq!(programs.lines().filter(runs).count(), 2, "{programs}");
        control.vink(&["lab", "down"]);
        let ordered = lab.replace("\"0.1\"]", "\"0.1\", ordered]");
        let ordered = ordered.replace("\"0.2\"]", "\"0.2\", ordered]");
        control.write("bank.yaml", &ordered);
        breaks_nothing(&control, "bank", "1");
    }
}

#[test]
fn a_lost_wake_up_of_trapped_programs() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    sample(&control, "jobs.yaml");
    let jobs = "labs/explore/jobs.c";
    program(&control, jobs, "jobs", &["-pthread"]);
    let story = story_of(&control, "jobs", "stall");
    for part in [
        "server on server has not ended, as it does without faults",
        "The last that it has written: a job comes",
        "server on server writes: no job: it waits for one",
    ] {
        assert!(story.contains(part), "no {part:?} in\n{story}");
    }
    program(&control, jobs, "jobs", &["-pthread", "-DLOCKED"]);
    breaks_nothing(&control, "jobs", "1");
}

#[test]
fn a_store_that_is_not_linearizable() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = sample(&control, "store.yaml");
    sample(&control, "store.py");
    let story = story_of(&control, "store", "one-store");
    let line = lab.lines().position(|line| line.contains("one-store:"));
    let said = format!(
        "store.yaml:{}: always: one-store: linearizable client.client\n",
        line.expect("the property") + 1
    );
    for part in [
        &said,
        "No order of these calls explains what they have brought of x:",
        "call 3 of client on client, get, from ",
        " of first:eth0 ",
        " on client writes: call 1 put x 1\n",
    ] {
        assert!(story.contains(part), "no {part:?} in\n{story}");
    }
    let repeated = control.vink(&["replay", "store.explored/one-store"]);
    assert!(repeated.starts_with("the run repeats: "), "{repeated}");
    control.write(
        "store.yaml",
        &lab.replace("10.0.0.3], ready", "10.0.0.3, together], ready"),
    );
    breaks_nothing(&control, "store", "1");
}

#[test]
fn properties_of_the_lab_file() {
    for place in Place::all() {
        let control = Control::of(&place);
        let lab = LAB.replace("    SYSCTLS\n", "");
        let explore = |claims: &str| {
            control.write("small.yaml", &format!("{lab}{claims}\n"));
            control.json(&["explore", "small.yaml", "--json", "-k", "1"])["found"].clone()
        };
        // What holds of a stack that works, by each kind of number.
        let found = explore(
            "always:\n  few: counter server TcpInErrs = 0\n  \
             wire: wire client:eth0 corrupted + interface server:eth0 rx_errors + qdisc client:eth0 drops < 1\n\
             eventually:\n  all: app server sink bytes >= 2000\n  come: lines server.sink = 0 within 60s",
        );
        assert_eq!(found, serde_json::json!({}));
        let tell = |claims: &str, name: &str| {
            control.write("small.yaml", &format!("{lab}{claims}\n"));
            let searched = control.try_vink(&["explore", "small.yaml", "-k", "1"]);
            assert_eq!(searched.status.code(), Some(1), "{searched:?}");
            let story = format!("small.explored/{name}/story.txt");
            fs::read_to_string(control.folder().join(story)).expect("a story")
        };
        let story = tell(
            "always:\n  none-again: counter client TcpRetransSegs = 0",
            "none-again",
        );
        for part in [
            "small.yaml:17: always: none-again: counter client TcpRetransSegs = 0\n",
            "One packet had another fate",
            "on client:\n  This is not so: counter client TcpRetransSegs = 0: it is 1 there, and 0 here.",
        ] {
            assert!(story.contains(part), "no {part:?} in\n{story}");
        }
        let repeated = control.vink(&["explore", "--replay", "small.explored/none-again"]);
        assert!(repeated.starts_with("the run repeats: "), "{repeated}");
        let story = tell(
            "eventually:\n  soon: app server sink bytes >= 2000 within 500ms",
            "soon",
        );
        assert!(
            story.contains("this was never so: app server sink bytes >= 2000"),
            "{story}"
        );
    }
}

#[test]
fn properties_of_the_lab_file_that_cannot_be() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = LAB.replace("    SYSCTLS\n", "");
    for (claims, said) in [
        ("always: { x: tcp client snd_cwnd }", "is no comparison"),
        (
            "always: { x: tcp other snd_cwnd < 1 }",
            "the lab has no machine other",
        ),
        (
            "always: { x: lines server.other < 1 }",
            "the lab has no program server.other",
        ),
        (
            "always: { x: linearizable server.other }",
            "the lab has no program server.other",
        ),
        (
            "always: { x: lines server.sink < 1 within 1s }",
            "has no time by which it does",
        ),
        (
            "eventually: { x: linearizable server.sink }",
            "write it below `always:`",
        ),
        (
            "always: { stall: lines server.sink < 1 }",
            "is the name of a property that is always checked",
        ),
        (
            "always: { x: file served < 1 }",
            "a file of the host is shared by all runs",
        ),
    ] {
        control.write("refused.yaml", &format!("{lab}{claims}\n"));
        let (code, errors) = control.fails(&["explore", "refused.yaml"]);
        assert_eq!(code, 125, "{errors}");
        assert!(errors.contains(said), "no {said:?} in\n{errors}");
        assert!(errors.contains("refused.yaml:16:"), "{errors}");
    }
    control.write(
        "wrong.yaml",
        &format!("{lab}always: {{ x: tcp client no_such_field = 1 }}\n"),
    );
    let (_, errors) = control.fails(&["explore", "wrong.yaml"]);
    assert!(
        errors.contains(
            "line 16 of the lab file: tcp client no_such_field: a connection has no field"
        ),
        "{errors}"
    );
    control.write(
        "wrong.yaml",
        &format!("{lab}always: {{ x: counter client NoSuch = 1 }}\n"),
    );
    let (_, errors) = control.fails(&["explore", "wrong.yaml"]);
    assert!(
        errors.contains("line 16 of the lab file: counter client NoSuch: client has no counter"),
        "{errors}"
    );
    // A connection that is there.
    control.write(
        "small.yaml",
        &format!("{lab}always: {{ x: tcp client snd_cwnd <= 20 }}\neventually: {{ y: tcp client snd_cwnd > 9 }}\n"),
    );
    let numbers = control.json(&["explore", "small.yaml", "--json", "-k", "1"]);
    assert_eq!(numbers["found"], serde_json::json!({}), "{numbers}");
}

/// Most of an image's debug information lies where it was built: in the folder of one user.
#[test]
fn a_connection_s_numbers_need_debug_information() {
    let places = Place::all();
    let Some(place) = places.iter().find(|place| place.is_nobody()) else {
        return;
    };
    let control = Control::of(place);
    let lab = LAB.replace("SYSCTLS", "");
    control.write(
        "small.yaml",
        &format!("{lab}always: {{ x: tcp client snd_cwnd <= 20 }}\n"),
    );
    let (code, errors) = control.fails(&["explore", "small.yaml", "-k", "0"]);
    assert_eq!(code, 125, "{errors}");
    for said in [
        "line 17 of the lab file: tcp client snd_cwnd: it is read by the image's debug information",
        "tcp_ipv4.dwo: Permission denied",
        "the image is another user's: build one of your own with stack/build, or vink image build",
    ] {
        assert!(errors.contains(said), "no {said:?} in\n{errors}");
    }
}

#[test]
fn trapped_programs_end_with_their_search() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let word = format!("{}/waits", control.folder().display());
    let lab = LAB.replace("    SYSCTLS\n", "").replace(
        "{ app: source -n 2k server, after: [server.sink] }",
        &format!("{{ command: \"sleep 1; : {word}\" }}"),
    );
    control.write("small.yaml", &lab);
    let mut command = control.command("vink");
    command.args(["explore", "small.yaml", "-k", "0"]);
    assert!(command.status().expect("vink").success());
    // Nothing is sent, so there is one run; a program that never ends is never a run's end.
    control.write("small.yaml", &lab.replace("sleep 1", "while :; do :; done"));
    let mut command = control.command("vink");
    let mut vink = command
        .args(["explore", "small.yaml"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("vink");
    let runs = || {
        let all = fs::read_dir("/proc").expect("/proc").flatten();
        let mut lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(&word))
    };
    while !runs() {
        std::thread::yield_now();
    }
    vink_sys::process::kill(vink.id() as i32, libc::SIGINT).expect("kill");
    vink.wait().expect("its end");
    while runs() {
        std::thread::yield_now();
    }
}

#[test]
fn a_lab_that_cannot_be_copied_is_refused() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = LAB.replace("    SYSCTLS\n", "");
    let app = "{ app: sink, ready: { port: 5001 } }";
    for (from, to, said) in [
        (
            "time: virtual",
            "time: real",
            "exploring needs a virtual clock; this lab's is real",
        ),
        (
            app,
            "{ command: sleep 1, restart: always }",
            "program sink of server is started again by the control process",
        ),
        (
            app,
            "{ command: sleep 1, ready: { command: true } }",
            "program sink of server: `ready: command` runs programs of the host",
        ),
        (
            app,
            "{ app: stream x, ready: { port: 5001 } }",
            "stream can't be copied: its pods are processes",
        ),
        (
            app,
            "{ app: sink, restart: always }",
            "program sink of server is started again by the control process",
        ),
        (
            "{ delay: 5ms }",
            "{ delay: 5ms, uplink: passt }",
            "wire w1 has an uplink",
        ),
        (
            "  server:\n",
            "  server:\n    worker: other\n",
            "the machines are on 2 workers",
        ),
        (
            "  server:\n",
            "  server:\n    setup: [ip link]\n",
            "machine server: setup runs programs of the host",
        ),
        (
            "wires:",
            "breakpoints: { b: { at: w1, drop: true } }\nwires:",
            "breakpoints: b decides of packets",
        ),
        (
            "wires:",
            "events: [{ at: 1s, do: wire set w1 delay 1ms }]\nwires:",
            "events: the control process carries them out",
        ),
    ] {
        let other = lab.replace(from, to);
        assert_ne!(other, lab, "{from}");
        control.write("refused.yaml", &other);
        let (code, errors) = control.fails(&["explore", "refused.yaml"]);
        assert_eq!(code, 125, "{errors}");
        assert!(errors.contains(said), "no {said:?} in\n{errors}");
        assert!(
            errors.contains("refused.yaml:") && errors.contains("fix: "),
            "{errors}"
        );
    }
    control.write(
        "endless.yaml",
        &lab.replace("app: source -n 2k server", "app: httpserver"),
    );
    let (_, errors) = control.fails(&["explore", "endless.yaml"]);
    assert!(
        errors.contains("no program of this lab has ended"),
        "{errors}"
    );
    let (_, errors) = control.fails(&["explore", "--replay", "."]);
    assert!(errors.contains("reading ./explore.json"), "{errors}");
}

/// How far a search is by its file: of how many deviations all schedules are done, and how many first deviations of
/// one more.
fn done_in(saved: &serde_json::Value) -> (u64, u64) {
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let done = saved["done"].as_array().expect("a list");
    let count = done
        .iter()
        .map(|range| number(&range[1]) - number(&range[0]));
    (number(&saved["complete"]), count.sum())
}

#[test]
fn a_search_that_was_killed_goes_on() {
    for place in Place::all() {
        let control = Control::of(&place);
        write(&control, IMPATIENT);
        let search = [
            "explore",
            "small.yaml",
            "--json",
            "--keep-going",
            "-j",
            "1",
            "--resume",
        ];
        let numbers = |folder: &str| {
            let output = control.try_vink(&[&search[..], &[folder]].concat());
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = told.lines().next().unwrap_or_default();
            let said = String::from_utf8_lossy(&output.stderr);
            serde_json::from_str::<serde_json::Value>(line).expect(&said)
        };
        let whole = numbers("whole");
        assert_eq!(whole["resumed"], 0, "{whole}");
        let file = control.folder().join("killed/search.json");
        let mut known = 0;
        let mut done = (0, 0);
        for _ in 0..3 {
            let mut command = control.command("vink");
            command.args(search).arg("killed").stdout(Stdio::null());
            command.stderr(Stdio::null()).process_group(0);
            let mut vink = command.spawn().expect("vink");
            // Until it has written down more than the one before.
            let saved = || -> Option<serde_json::Value> {
                Some(serde_json::from_slice(&fs::read(&file).ok()?).expect("a whole file"))
            };
            let runs = || saved()?["runs"].as_u64();
            while runs().unwrap_or_default() <= known {
                assert!(
                    vink.try_wait().expect("its state").is_none(),
                    "it has ended"
                );
                std::thread::yield_now();
            }
            vink_sys::process::kill(-(vink.id() as i32), libc::SIGKILL).expect("kill");
            vink.wait().expect("its end");
            known = runs().expect("a number");
            let now = done_in(&saved().expect("a file"));
            assert!(now >= done, "{now:?} after {done:?}");
            done = now;
        }
        let resumed = numbers("killed");
        for same in ["complete", "found"] {
            assert_eq!(resumed[same], whole[same], "{resumed}");
        }
        assert!(resumed["resumed"].as_u64() >= Some(known), "{resumed}");
        // A branch that was under way is tried again; nothing is left out.
        assert!(
            resumed["runs"].as_u64() >= whole["runs"].as_u64(),
            "{resumed}"
        );
        // All is done: there is nothing to be tried any more.
        let again = numbers("killed");
        assert_eq!(again["runs"], again["resumed"], "{again}");
        assert_eq!(again["found"], whole["found"], "{again}");
        write(&control, "");
        let other = control.try_vink(&["explore", "small.yaml", "--resume", "killed"]);
        let said = String::from_utf8_lossy(&other.stderr);
        assert!(
            said.contains("killed has a search of another lab"),
            "{said}"
        );
    }
}

#[test]
fn it_ends_when_it_is_told_to() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    write(&control, "");
    let mut command = control.command("vink");
    command
        .args(["explore", "small.yaml", "-k", "9", "-j", "2"])
        .stderr(Stdio::piped())
        .process_group(0);
    let mut vink = command.spawn().expect("vink");
    let group = vink.id() as i32;
    // It searches as soon as it has children.
    let children = format!("/proc/{group}/task/{group}/children");
    while fs::read_to_string(&children)
        .expect("it runs")
        .split_whitespace()
        .count()
        < 2
    {
        std::thread::yield_now();
    }
    vink_sys::process::kill(group, libc::SIGINT).expect("kill");
    assert_eq!(vink.wait().expect("its end").signal(), Some(libc::SIGINT));
    // Nothing that it has forked goes on.
    while vink_sys::process::kill(-group, 0).is_ok() {
        std::thread::yield_now();
    }
}

/// By smoltcp, and by lwIP.
#[test]
fn linux_meets_another_tcp() {
    for place in Place::all() {
        let control = Control::of(&place);
        let options = ["-I/usr/include/lwip", "-Wl,--no-as-needed", "-llwip"];
        app(&control, "labs/explore/lwip.c", "lwip.so", &options);
        for name in ["smoltcp", "smoltcp-sends", "lwip", "lwip-sends"] {
            let lab = format!("{name}.yaml");
            sample(&control, &lab);
            let numbers = control.json(&["explore", &lab, "-k", "1", "--json"]);
            assert_eq!(numbers["complete"], 1, "{numbers}");
            assert_eq!(numbers["found"], serde_json::json!({}), "{numbers}");
            // A SYN, a SYN-ACK, data, a FIN at least.
            assert!(numbers["runs"].as_u64() > Some(4 * 8), "{numbers}");
        }
    }
}
