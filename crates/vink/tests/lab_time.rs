//! Labs with a clock of their own: it stands, goes, and repeats.

mod common;

use common::control::Control;
use common::Place;
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;

/// An echo over a wire of 100 ms, once a second for half a minute, of which the wire loses what is sent from 10.05 s to 20.05 s.
const PINGS: &str = "
name: pings
time: virtual
seed: 7
machines:
  a:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      ping: { app: ping -c 30 -i 1 10.0.0.2, after: [b.echo] }
  b:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
    programs:
      slow: { app: echoserver -p 9, ready: { time: 5s } }
      echo: { app: echoserver -p 7, after: [slow], ready: { port: 7 } }
wires:
  w1: { delay: 100ms, jitter: 1ms }
events:
  - { at: 10050ms, do: wire set w1 loss 100% }
  - { at: 20050ms, do: wire set w1 loss 0% }
";

fn clock(control: &Control, words: &[&str]) -> Value {
    let mut all = vec!["lab"];
    all.extend(words);
    all.push("--json");
    control.json(&all)
}

/// What the clock is at when it stands.
fn stands(clock: &Value) -> u64 {
    assert_eq!(clock["state"], "standing", "{clock}");
    clock["nanoseconds"].as_u64().expect("a number")
}

#[test]
fn it_stands_where_it_should_and_repeats() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", PINGS);
    let mut runs = Vec::new();
    for _ in 0..2 {
        control.vink(&["lab", "up"]);
        let up = clock(&control, &["clock"]);
        // It goes as far as the last event, and is up when all programs were ready.
        let ready =
            up["kernel-nanoseconds"].as_u64().unwrap() - up["nanoseconds"].as_u64().unwrap();
        assert!((5 * SECOND..6 * SECOND).contains(&ready), "{up}");
        let told = clock(&control, &["until", "--ended", "a.ping"]);
        let ended = told["nanoseconds"].as_u64().unwrap();
        assert!((29 * SECOND..31 * SECOND).contains(&ended), "{told}");
        let told = clock(&control, &["until", "1h"]);
        assert_eq!(stands(&told), 3600 * SECOND);
        let saved = control.vink(&["lab", "save"]);
        assert!(saved.contains("time: virtual\n"), "{saved}");
        let log = control.vink(&["lab", "logs", "a.ping"]);
        assert!(log.contains("30 packets transmitted, 19 received"), "{log}");
        runs.push((ready, ended, log));
        control.vink(&["lab", "down"]);
    }
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn pause_step_continue_speed() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", PINGS);
    let said = control.vink(&["lab", "up", "--paused"]);
    assert!(said.starts_with("lab pings is up"), "{said}");
    let told = clock(&control, &["clock"]);
    assert_eq!(
        (&told["state"], &told["nanoseconds"]),
        (&"paused".into(), &0.into()),
        "{told}"
    );
    // Exactly so far, though it is paused.
    let told = clock(&control, &["step", "3s"]);
    assert_eq!(told["nanoseconds"], 3 * SECOND);
    let told = clock(&control, &["until", "4s"]);
    assert_eq!(told["nanoseconds"], 4 * SECOND);
    assert_eq!(told["state"], "paused");
    let (mut before, mut packets) = (4 * SECOND, 0);
    while packets < 4 {
        let told = clock(&control, &["step", "packet"]);
        let now = told["nanoseconds"].as_u64().unwrap();
        assert!(now > before && now < 8 * SECOND, "{told}");
        (before, packets) = (now, packets + 1);
    }
    let told = clock(&control, &["step"]);
    assert!(told["nanoseconds"].as_u64().unwrap() > before, "{told}");
    // The events are waited for: it goes on to the last one by itself.
    clock(&control, &["continue"]);
    let told = clock(&control, &["until", "20050ms"]);
    assert_eq!(stands(&told), 20_050_000_000);
    // No faster than that: half a second of the host's at least.
    let told = clock(&control, &["speed", "20"]);
    assert_eq!(told["speed"], 20.0, "{told}");
    let began = std::time::Instant::now();
    let told = clock(&control, &["step", "10s"]);
    assert_eq!(told["nanoseconds"], 30_050_000_000_u64);
    assert!(began.elapsed().as_millis() >= 500);
    let told = clock(&control, &["speed", "max"]);
    assert_eq!(told["speed"], Value::Null);
    let told = clock(&control, &["continue", "--free"]);
    assert_eq!(told["free"], true, "{told}");
    control.vink(&["lab", "until", "1d"]);
    let told = clock(&control, &["pause"]);
    let at = told["kernel-nanoseconds"].as_u64().unwrap();
    assert!(at > 86_400 * SECOND, "{told}");
    let said = control.vink(&["lab", "clock"]);
    let time = said.strip_prefix("lab pings: paused at ");
    assert!(
        time.is_some_and(|time| time.ends_with(" s (virtual time)\n")),
        "{said}"
    );
    control.vink(&["lab", "down"]);
}

#[test]
fn programs_of_the_host() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write(
            "lab.yaml",
            "name: two\ntime: virtual\nmachines:\n  \
             a: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }\n  \
             b: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }, programs: { web: { \
             command: [python3, -m, http.server, \"80\"], ready: { port: 80 } } } }\n\
             wires: { w1: { delay: 10ms } }\n",
        );
        let mut runs = Vec::new();
        for _ in 0..2 {
            control.vink(&["lab", "up"]);
            let before = stands(&clock(&control, &["clock"]));
            control.vink(&["exec", "a", "--", "sleep", "100"]);
            let after = stands(&clock(&control, &["clock"]));
            assert_eq!(after - before, 100 * SECOND);
            let ping = control.vink(&["exec", "a", "--", "ping", "-c", "3", "b"]);
            assert!(ping.contains("time=20.0 ms"), "{ping}");
            let page = control.vink(&["exec", "a", "--", "curl", "-sS", "http://b/lab.yaml"]);
            assert!(page.starts_with("name: two"), "{page}");
            let end = stands(&clock(&control, &["until", "1h"]));
            assert_eq!(end, 3600 * SECOND);
            runs.push((before, ping));
            control.vink(&["lab", "down"]);
        }
        assert_eq!(runs[0], runs[1]);
        // The same without a lab.
        let slept = control.vink(&[
            "run",
            "--time",
            "virtual",
            "--",
            "sh",
            "-c",
            "date +%s; sleep 1000; date +%s",
        ]);
        let times: Vec<u64> = slept.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(times[1] - times[0], 1000, "{slept}");
        let (_, said) = control.fails(&[
            "run", "--time", "virtual", "--uplink", "passt", "--", "true",
        ]);
        assert!(said.contains("leave --uplink away"), "{said}");
    }
}

#[test]
fn a_step_to_what_does_not_come_ends() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let up = |program: &str| {
        let lab = format!(
            "name: quiet\ntime: virtual\nmachines: {{ a: {{ programs: {{ one: {program} }} }} }}\n"
        );
        control.write("lab.yaml", &lab);
        control.vink(&["lab", "up"]);
    };
    let step = |to: &str| {
        let before = stands(&clock(&control, &["clock"]));
        let (_, said) = control.fails(&["lab", "step", to]);
        (said, stands(&clock(&control, &["clock"])) - before)
    };
    up("{ app: sink }");
    let (said, passed) = step("packet");
    assert!(said.contains("no packet was sent"), "{said}");
    assert_eq!(passed, 3600 * SECOND);
    let (said, passed) = step("call");
    assert!(said.contains("none to make a call"), "{said}");
    assert_eq!(passed, 0);
    control.vink(&["lab", "down"]);
    up("{ command: exec sleep 100000 }");
    let (said, passed) = step("call");
    assert!(said.contains("no program has made a call"), "{said}");
    assert_eq!(passed, 3600 * SECOND);
    control.vink(&["lab", "down"]);
}

/// Reads the time stamp counter before and after two seconds of sleep.
const COUNTER: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <x86intrin.h>

int main(void)
{
	unsigned long long before = __rdtsc();

	sleep(2);
	printf("%llu %llu\n", before, __rdtsc() - before);
	return 0;
}
"#;

#[test]
fn a_lab_whose_time_stamp_counter_is_its_clock() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("counter.c", COUNTER);
    let mut compiler = control.command("cc");
    let compiled = compiler
        .args(["-O1", "-o", "counter", "counter.c"])
        .status();
    assert!(compiled.expect("cc").success());
    let program = control.folder().join("counter");
    let lab = |time: &str| {
        format!(
            "name: counted\nseed: 1\ntime: {time}\nmachines: {{ a: {{ programs: {{ counter: {{ command: [{program:?}] }} }} }} }}\n"
        )
    };
    let counted = |time: &str| -> (u64, u64) {
        control.write("lab.yaml", &lab(time));
        control.vink(&["lab", "up"]);
        control.vink(&["lab", "until", "--ended", "a.counter"]);
        let said = control.vink(&["lab", "logs", "a.counter"]);
        control.vink(&["lab", "down"]);
        let numbers: Vec<u64> = said
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        assert_eq!(numbers.len(), 2, "{said}");
        (numbers[0], numbers[1])
    };
    let runs = [(); 2].map(|()| counted("{virtual: {rdtsc: true}}"));
    assert_eq!(runs[0], runs[1]);
    assert!(
        (2 * SECOND..2 * SECOND + SECOND / 100).contains(&runs[0].1),
        "{runs:?}"
    );
    // The processor's does not wait for that, and began another time.
    let hosts = counted("virtual");
    assert_ne!(hosts.0, runs[0].0);
    assert!(hosts.0 > runs[0].0, "{hosts:?}");
}

#[test]
fn scaled() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", PINGS);
    let began = std::time::Instant::now();
    control.vink(&["lab", "up", "--time", "scaled:50"]);
    let told = clock(&control, &["until", "10s"]);
    // It was up after 5 s of its own.
    assert!(began.elapsed().as_millis() >= 300, "{told}");
    let time = told["nanoseconds"].as_u64().unwrap();
    assert!(time >= 10 * SECOND, "{told}");
    assert_eq!(told["time"]["scaled"], 50.0);
    control.vink(&["lab", "down"]);
}

#[test]
fn what_it_does_not_go_with() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write(
        "lab.yaml",
        "time: virtual\nmachines:\n  m1: { interfaces: { eth0: { wire: w1 } } }\nwires:\n  w1: { uplink: passt }\n",
    );
    let (_, said) = control.fails(&["lab", "up"]);
    assert!(
        said.contains("lab.yaml:5:") && said.contains("time: {virtual: {uplinks: true}}"),
        "{said}"
    );
    control.write("lab.yaml", "machines:\n  m1: {}\n");
    let (_, said) = control.fails(&["lab", "up", "--paused"]);
    assert!(said.contains("lives by the host's clock"), "{said}");
    control.vink(&["lab", "up"]);
    for words in [
        &["lab", "speed", "2"][..],
        &["lab", "step", "1s"],
        &["lab", "until", "1s"],
    ] {
        let (_, said) = control.fails(words);
        assert!(
            said.contains("lives by the host's clock") && said.contains("--time virtual"),
            "{said}"
        );
    }
    control.vink(&["lab", "down"]);
    control.write("lab.yaml", "time: virtual\nmachines: {}\n");
    control.vink(&["lab", "up"]);
    let (_, said) = control.fails(&["lab", "until", "1s"]);
    assert!(said.contains("has no machine, so no kernel"), "{said}");
    control.vink(&["machine", "add", "m1"]);
    control.vink(&["lab", "until", "1s"]);
    control.vink(&["lab", "down"]);
}
