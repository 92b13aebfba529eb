//! What dies: the control process, a worker, programs, clients in the middle of something.

mod common;

use std::io::{BufRead, BufReader};

use common::control::Control;
use common::Place;

const LAB: &str = "
machines:
  m1:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs:
      quiet: { command: exec sleep 1000 }
      stubborn: { command: exec sleep 1000, restart: always }
  m2:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } }
";

fn kill(pid: i64) {
    vink_sys::process::kill(pid as i32, libc::SIGKILL).expect("a process");
}

/// Follows events of the lab until one says this.
fn until(control: &Control<'_>, what: &str, cause: impl FnOnce()) {
    let mut events = control.start(&["lab", "events", "--json"]);
    let output = BufReader::new(events.stdout.take().expect("a pipe"));
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines() {
            let _ = tell.send(line.expect("a line"));
        }
    });
    // Something happens until it is told: from then on nothing is missed.
    while told.try_recv().is_err() {
        control.vink(&["machine", "add", "marker"]);
        control.vink(&["machine", "rm", "marker"]);
    }
    cause();
    let found = told.iter().any(|line| line.contains(what));
    let _ = events.kill();
    let _ = events.wait();
    let _ = reader.join();
    assert!(found, "{what} was never told");
}

#[test]
fn the_control_process() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["summary"]["programs"], 2);
        let namespaces = control.namespaces();
        let daemon = control
            .processes()
            .into_iter()
            .find(|pid| {
                let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                words.windows(7).any(|part| part == b"daemon\0")
            })
            .expect("the control process");
        kill(daemon.into());
        // Workers and programs go with it.
        control.wait_for_no_process();
        control.namespaces_are_gone(&namespaces);
        // Its socket is still there, and in no other's way.
        let (code, said) = control.fails(&["lab", "down"]);
        assert!(code == 125 && said.contains("no lab runs"), "{said}");
        control.vink(&["lab", "up"]);
        control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_worker() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let all = control.json(&["lab", "ps", "--json"]);
        let worker = all["workers"][0]["pid"].as_i64().expect("a worker");
        until(&control, "\"kind\":\"dead\"", || kill(worker));
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["summary"]["state"], "broken");
        assert_eq!(all["machines"][0]["state"], "dead");
        let error = all["workers"][0]["error"].as_str().expect("why");
        assert!(error.contains("signal: 9"), "{error}");
        let (code, said) = control.fails(&["exec", "m1", "--", "true"]);
        assert!(said.contains("vink lab restart"), "{code}: {said}");
        let restarted = control.json(&["lab", "restart", "m1", "--json"]);
        assert_eq!(restarted["machines"], serde_json::json!(["m1", "m2"]));
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["summary"]["state"], "running");
        assert_eq!(all["summary"]["programs"], 2);
        control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn programs() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let sleepers = || -> Vec<i64> {
        let processes = control.processes();
        let is_sleep = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.starts_with(b"sleep\0")
        };
        processes
            .into_iter()
            .filter(is_sleep)
            .map(i64::from)
            .collect()
    };
    // A program has started before its shell has become what it is to run.
    while sleepers().len() < 2 {
        std::thread::yield_now();
    }
    // Both at once: the one is started again, the other not.
    until(&control, "\"kind\":\"started\"", || {
        sleepers().into_iter().for_each(kill)
    });
    let state = |name: &str| {
        let all = control.json(&["lab", "ps", "--json"]);
        let programs = all["programs"].as_array().expect("programs");
        let found = programs.iter().find(|p| p["name"] == name);
        found.expect(name).clone()
    };
    // Its end may be told later than the other's new start.
    while state("quiet")["state"] != "ended" {}
    assert_eq!(state("quiet")["code"], 137);
    assert_eq!(state("stubborn")["restarts"], 1);
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn interrupted_while_it_comes_up() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write(
        "lab.yaml",
        "machines: { m1: { setup: [\"touch begun; exec sleep 1000\"] } }",
    );
    let mut up = control.start(&["lab", "up"]);
    let begun = control.folder().join("begun");
    while !begun.exists() {
        std::thread::yield_now();
    }
    vink_sys::process::kill(up.id() as i32, libc::SIGINT).expect("it is there");
    let status = up.wait().expect("vink");
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(libc::SIGINT), "{status}");
    control.nothing_is_left();
}

#[test]
fn many_starts_at_once() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let names: Vec<String> = (0..6).map(|i| format!("lab{i}")).collect();
    let starting: Vec<_> = names
        .iter()
        .map(|name| control.start(&["lab", "up", "--name", name]))
        .collect();
    for mut up in starting {
        assert!(up.wait().expect("vink").success());
    }
    let labs = control.json(&["lab", "ps", "--json"]);
    assert_eq!(labs.as_array().expect("labs").len(), 6);
    control.vink(&["lab", "down", "--all"]);
    control.nothing_is_left();
}

#[test]
fn a_worker_that_is_stopped() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("lab.yaml", LAB);
        control.vink(&["lab", "up"]);
        let all = control.json(&["lab", "ps", "--json"]);
        let worker = all["workers"][0]["pid"].as_i64().expect("a worker") as i32;
        let mut running = control.start(&[
            "exec",
            "m1",
            "--",
            "sh",
            "-c",
            "echo begun; exec sleep 1000",
        ]);
        let mut begun = String::new();
        BufReader::new(running.stdout.take().expect("a pipe"))
            .read_line(&mut begun)
            .expect("a line");
        assert_eq!(begun, "begun\n");
        let processes = control.processes();
        vink_sys::process::kill(worker, libc::SIGSTOP).expect("it is there");
        let mut starting = control.start(&["exec", "m2", "--", "true"]);
        for (child, signal) in [(&mut running, libc::SIGTERM), (&mut starting, libc::SIGINT)] {
            let pid = child.id() as i32;
            common::catches(pid, signal);
            vink_sys::process::kill(pid, signal).expect("it is there");
            assert_eq!(child.wait().expect("our child").code(), Some(128 + signal));
        }
        control.vink(&["lab", "down"]);
        // Gone when it has said so, not some time after; what init has not waited for yet has no memory.
        for pid in processes {
            let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let daemon = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_daemon = daemon.windows(7).any(|part| part == b"daemon\0");
            assert!(maps.is_empty() || is_daemon, "process {pid} is left");
        }
        control.nothing_is_left();
    }
}

#[test]
fn a_filter_of_a_thousand_terms() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", LAB);
    control.vink(&["lab", "up"]);
    let all = control.json(&["lab", "ps", "--json"]);
    let worker = all["workers"][0]["pid"].as_i64().expect("a worker") as i32;
    let before = common::ticks(worker);
    let terms = |count: usize| -> String {
        let hosts = (0..count).map(|n| format!("host 10.{}.{}.1", n / 250, n % 250));
        hosts.collect::<Vec<_>>().join(" or ")
    };
    let (_, said) = control.fails(&["break", "add", "m1", "filter", &terms(1000), "log"]);
    assert!(said.contains("within 5 s of processor time"), "{said}");
    assert!(said.len() < 1000, "{said}");
    let (_, said) = control.fails(&["break", "add", "m1", "filter", &terms(5000), "log"]);
    assert!(said.contains("65536 are the most"), "{said}");
    let (_, said) = control.fails(&["break", "add", "m1", "filter", "tpc port 80", "log"]);
    assert!(
        said.contains("breakpoint 1: filter \"tpc port 80\": "),
        "{said}"
    );
    let breakpoint = format!(
        "breakpoints:\n  b: {{filter: {}, log: true}}\n",
        terms(1000)
    );
    control.write("long.yaml", &format!("{LAB}{breakpoint}"));
    let (_, said) = control.fails(&["lab", "check", "long.yaml"]);
    assert!(said.contains("within 5 s of processor time"), "{said}");
    assert!(said.len() < 1000, "{said}");
    // Seconds of libpcap's are not the worker's, whose lab goes on.
    control.vink(&["break", "add", "m1", "filter", &terms(100), "log"]);
    control.vink(&["exec", "m1", "--", "ping", "-c1", "m2"]);
    let used = common::ticks(worker) - before;
    assert!(used < 200, "the worker has computed for {used} ticks");
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn a_worker_is_not_started_by_hand() {
    let place = &Place::all()[0];
    let output = place.vink(&["lab-worker", "--socket", "77"]).output();
    let said = output.expect("vink").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("--socket 77"), "{said}");
}

#[test]
fn more_machines_than_memory_has_room_for_say_what_to_do() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let machines: String = (0..300).map(|n| format!("  m{n}: {{}}\n")).collect();
    control.write("lab.yaml", &format!("memory: 16M\nmachines:\n{machines}"));
    let (_, said) = control.fails(&["lab", "up"]);
    assert!(
        said.contains("machine m") && said.contains("give it more by `memory:`"),
        "{said}"
    );
    control.nothing_is_left();
}
