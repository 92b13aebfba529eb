//! Breakpoints and steps in labs with a clock of their own, whose programs are the host's: all is exact.

mod common;

use common::control::Control;
use common::Place;
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;

const LAB: &str = "
name: two
time: virtual
seed: 1
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
  b:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs: { web: { command: [python3, -m, http.server, \"80\"], ready: { port: 80 } } }
wires: { w1: { delay: 10ms } }
";

fn clock(control: &Control, words: &[&str]) -> (String, u64) {
    let mut all = vec!["lab"];
    all.extend(words);
    all.push("--json");
    let clock: Value = control.json(&all);
    let state = clock["state"].as_str().expect("a state").to_owned();
    (state, clock["nanoseconds"].as_u64().expect("a number"))
}

/// Sets a breakpoint, and removes it when this has been done.
fn with<T>(control: &Control, words: &[&str], work: impl FnOnce() -> T) -> T {
    let mut all = vec!["break", "add", "--name", "x"];
    all.extend(words);
    control.vink(&all);
    let done = work();
    control.vink(&["break", "rm", "x"]);
    done
}

fn ping(control: &Control, words: &[&str]) -> String {
    let mut all = vec!["exec", "a", "--", "ping", "-n", "-W", "2"];
    all.extend(words);
    all.push("10.0.0.2");
    let output = control.try_vink(&all);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_becomes_of_packets() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        // Addresses are looked up before.
        let said = ping(&control, &["-c", "1"]);
        assert!(said.contains(" 1 received"), "{said}");

        let one = ["w1", "filter", "icmp"];
        let on = |more: &[&'static str]| [&one[..], more].concat();
        let said = with(&control, &on(&["delay", "500ms"]), || {
            ping(&control, &["-c", "1"])
        });
        assert!(said.contains(" time=1020 ms"), "{said}");
        for lost in ["drop", "corrupt"] {
            let said = with(&control, &on(&[lost, "times", "1"]), || {
                ping(&control, &["-c", "2"])
            });
            assert!(said.contains("2 packets transmitted, 1 received"), "{said}");
        }
        let said = with(&control, &on(&["duplicate", "1", "times", "1"]), || {
            ping(&control, &["-c", "2"])
        });
        assert!(said.contains("2 received, +1 duplicates"), "{said}");
        let said = with(
            &control,
            &["a", "filter", "icmp", "reorder", "1", "times", "1"],
            || ping(&control, &["-c", "2", "-i", "0.2"]),
        );
        let (first, second) = (said.find("icmp_seq=1"), said.find("icmp_seq=2"));
        assert!(second.is_some() && second < first, "{said}");

        // The line is carried out before the packet goes on, and takes no time.
        let run = [
            "a",
            "filter",
            "icmp",
            "times",
            "1",
            "run",
            "wire set w1 delay 100ms",
        ];
        let said = with(&control, &run, || ping(&control, &["-c", "1"]));
        assert!(said.contains(" time=200 ms"), "{said}");
        control.vink(&["wire", "set", "w1", "delay", "10ms"]);

        // What is lost is sent again a second later, and not a moment sooner.
        let syn = [
            "b",
            "arrival",
            "filter",
            "tcp[tcpflags] & tcp-syn != 0",
            "drop",
            "times",
            "1",
        ];
        let took = with(&control, &syn, || {
            let (_, before) = clock(&control, &["clock"]);
            control.vink(&[
                "exec",
                "a",
                "--",
                "curl",
                "-sS",
                "-o",
                "/dev/null",
                "10.0.0.2",
            ]);
            clock(&control, &["clock"]).1 - before
        });
        assert!((SECOND..2 * SECOND).contains(&took), "{took}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn what_stops() {
    for place in Place::all() {
        let control = Control::of(&place);
        let programs = "programs: { ping: { command: [ping, -c, \"3\", 10.0.0.2] } }\n  b:";
        control.write("lab.yaml", &LAB.replace("  b:", &format!("    {programs}")));
        // Twice: it stops at the same time.
        let mut stops = Vec::new();
        for _ in 0..2 {
            control.vink(&["lab", "up", "--paused"]);
            control.vink(&[
                "break", "add", "b", "arrival", "filter", "icmp", "after", "1", "times", "1",
            ]);
            let (state, at) = clock(&control, &["until", "1h"]);
            assert_eq!(state, "stopped");
            assert_eq!(clock(&control, &["clock"]), ("stopped".to_owned(), at));
            // Nothing goes on, whatever asks.
            assert_eq!(
                clock(&control, &["until", "1h"]),
                ("stopped".to_owned(), at)
            );
            let listed = control.vink(&["break", "list"]);
            assert!(listed.contains("the lab is stopped"), "{listed}");
            assert_eq!(clock(&control, &["continue"]).1, at);
            let (state, end) = clock(&control, &["until", "1h"]);
            assert_eq!((state.as_str(), end), ("standing", 3600 * SECOND));
            let log = control.vink(&["lab", "logs", "a.ping"]);
            assert!(
                log.contains("3 received") && !log.contains("time=21"),
                "{log}"
            );
            stops.push(at);
            control.vink(&["lab", "down"]);
        }
        assert_eq!(stops[0], stops[1]);

        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let machine = [
            "b", "arrival", "filter", "icmp", "times", "1", "stop", "machine",
        ];
        with(&control, &machine, || {
            let said = ping(&control, &["-c", "1"]);
            assert!(said.contains(" 0 received"), "{said}");
            control.vink(&["break", "continue", "b"]);
        });
        let said = ping(&control, &["-c", "1"]);
        assert!(said.contains(" 1 received"), "{said}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn steps() {
    for place in Place::all() {
        let control = Control::of(&place);
        let programs = "programs: { ping: { command: [ping, -c, \"3\", 10.0.0.2] } }\n  b:";
        control.write("lab.yaml", &LAB.replace("  b:", &format!("    {programs}")));
        control.vink(&["lab", "up", "--paused", "--record", "steps"]);
        let mut before = 0;
        let mut packets = Vec::new();
        for step in [
            "call", "call", "packet", "packet", "call", "packet", "packet", "event",
        ] {
            let (state, now) = clock(&control, &["step", step]);
            assert_eq!(state, "paused");
            assert!(
                now >= before && now < 10 * SECOND,
                "{step}: {now} after {before}"
            );
            if step == "packet" {
                packets.push(now);
            }
            before = now;
        }
        // From one end of the wire to the other.
        assert!(packets.contains(&(packets[0] + 10_000_000)), "{packets:?}");
        assert_eq!(clock(&control, &["step", "10ms"]).1, before + 10_000_000);
        clock(&control, &["until", "20s"]);
        let log = control.vink(&["lab", "logs", "a.ping"]);
        assert!(log.contains("3 received"), "{log}");
        control.vink(&["lab", "down"]);
        // Steps leave no traces.
        control.vink(&["lab", "up", "--paused", "--record", "whole"]);
        clock(&control, &["until", "20s"]);
        control.vink(&["lab", "down"]);
        let differences = control.vink(&["lab", "diff", "steps", "whole"]);
        assert_eq!(differences, "the runs are the same\n");
    }
}

#[test]
fn a_lab_by_the_hosts_clock_pauses() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", &LAB.replace("time: virtual\n", ""));
    control.vink(&["lab", "up"]);
    let state = |words: &[&str]| control.json(words)["state"].clone();
    assert_eq!(state(&["lab", "pause", "--json"]), "paused");
    let ping = ["exec", "a", "--", "ping", "-c", "1", "-W", "60", "10.0.0.2"];
    let mut pinging = control.start(&ping);
    assert_eq!(state(&["lab", "clock", "--json"]), "paused");
    assert!(pinging.try_wait().expect("its state").is_none());
    assert_eq!(state(&["lab", "continue", "--json"]), "running");
    assert!(pinging.wait().expect("its end").success());
    control.vink(&["lab", "down"]);
}
