//! Machines in workers of their own, and on which processors these and the programs are.

mod common;

use common::control::Control;
use common::Place;
use vink_sys::process::{affinity, cpu_list, cpu_set, cpus, set_affinity};

/// The processors on which a process may be, by the host.
fn allowed(pid: i64) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list"));
    let (_, list) = line.expect(&status).split_once(':').expect("a value");
    list.trim().to_owned()
}

/// The first and the last processor that this test may use.
fn two() -> [usize; 2] {
    let own = affinity(0).expect("this thread's");
    let mut all = cpus(&own);
    let first = all.next().expect("a processor");
    [first, all.next_back().unwrap_or(first)]
}

fn pid_of(all: &serde_json::Value, machine: &str) -> i64 {
    let machines = all["machines"].as_array().expect("machines");
    let found = machines.iter().find(|it| it["name"] == machine);
    found.expect(machine)["pid"].as_i64().expect("a process")
}

#[test]
fn machines_in_workers_of_their_own() {
    let [first, last] = two();
    for place in Place::all() {
        let control = Control::of(&place);
        let lab = |b: &str| {
            format!(
                "machines:
  a: {{ core: {first}, interfaces: {{ eth0: {{ wire: w1, addresses: [10.0.0.1/24] }} }} }}
  b: {{ {b}, interfaces: {{ eth0: {{ wire: w1, addresses: [10.0.0.2/24] }} }},
        programs: {{ sleeper: {{ command: exec sleep 1000 }} }} }}
  c: {{ worker: own, interfaces: {{ eth0: {{ wire: w2, addresses: [10.1.0.1/24] }} }} }}
  d: {{ interfaces: {{ eth0: {{ wire: w2, addresses: [10.1.0.2/24] }} }} }}
"
            )
        };
        control.write(
            "lab.yaml",
            &lab(&format!("worker: own, core: [{first}, {last}]")),
        );
        control.vink(&["lab", "up"]);
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["workers"].as_array().map(Vec::len), Some(3), "{all:#}");
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| pid_of(&all, name));
        assert!(a != b && b == c && c != d && a != d, "{all:#}");
        let both = cpu_list(&cpu_set([first, last]));
        assert_eq!(allowed(a), first.to_string());
        // While a program makes many calls, it and the worker stay on one of theirs.
        let ones = [both.clone(), first.to_string(), last.to_string()];
        assert!(ones.contains(&allowed(b)));
        // What is started is where its worker is.
        let is_where = |machine: &str| {
            let line = "exec grep -h Cpus_allowed_list /proc/self/status";
            let said = control.vink(&["exec", machine, "--", "sh", "-c", line]);
            said.trim()
                .rsplit('\t')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(is_where("a"), first.to_string());
        assert!(ones.contains(&is_where("c")));
        control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
        control.vink(&["exec", "c", "--", "ping", "-c1", "d"]);
        let shown = control.vink(&["lab", "ps"]);
        let line = format!("worker own: process {b} on core {}, 2 machines", {
            let mut list = vec![first.to_string(), last.to_string()];
            list.dedup();
            list.join(",")
        });
        assert!(shown.contains(&line) && shown.contains("WORKER"), "{shown}");
        // What is saved is the same lab.
        let saved = control.vink(&["lab", "save"]);
        control.write("saved.yaml", &saved);
        let said = control.vink(&["lab", "apply", "saved.yaml"]);
        assert_eq!(
            said,
            "lab lab is as the file says
"
        );

        // The group gets another core: its machines are made again there, with their programs; the others stay.
        control.write("lab.yaml", &lab(&format!("worker: own, core: {last}")));
        control.vink(&["lab", "apply"]);
        let all = control.json(&["lab", "ps", "--json"]);
        let again = pid_of(&all, "b");
        assert!(
            again == pid_of(&all, "c") && (again != b || first == last),
            "{all:#}"
        );
        assert_eq!((pid_of(&all, "a"), pid_of(&all, "d")), (a, d));
        assert_eq!(allowed(again), last.to_string());
        let programs = all["programs"].as_array().expect("programs");
        let sleeper = programs
            .iter()
            .find(|it| it["name"] == "sleeper")
            .expect("it");
        assert_eq!(sleeper["state"], "running", "{all:#}");
        control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
        control.vink(&["exec", "d", "--", "ping", "-c1", "c"]);

        // Into a third worker: the wire's half in the former one is given up.
        control.write("lab.yaml", &lab("worker: other"));
        control.vink(&["lab", "apply"]);
        control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
        control.vink(&["exec", "d", "--", "ping", "-c1", "c"]);
        // The last machine of a group takes its worker along.
        control.vink(&["machine", "rm", "b"]);
        let all = control.json(&["lab", "ps", "--json"]);
        assert_eq!(all["workers"].as_array().map(Vec::len), Some(3), "{all:#}");
        control.vink(&["lab", "apply"]);
        control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_worker_dies() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = "machines:
  a: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } } }
  b: { worker: own, interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
";
    control.write("lab.yaml", lab);
    control.vink(&["lab", "up"]);
    let all = control.json(&["lab", "ps", "--json"]);
    let worker = pid_of(&all, "b");
    let process = vink_sys::pidfd::open(worker as i32).expect("a process");
    vink_sys::process::kill(worker as i32, libc::SIGKILL).expect("a process");
    assert!(vink_sys::poll::is_readable(&process, 60_000));
    // The other's wire has lost its carrier, and it lives.
    let line = "until ip link show eth0 | grep -q NO-CARRIER; do :; done";
    control.vink(&["exec", "a", "--", "sh", "-c", line]);
    assert_eq!(
        control.json(&["lab", "restart", "b", "--json"])["machines"],
        serde_json::json!(["b"])
    );
    control.vink(&["exec", "a", "--", "ping", "-c1", "b"]);
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn what_can_not_be() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", "machines:\n  a: {}\n  b: { core: 1000 }\n");
    let (_, said) = control.fails(&["lab", "up"]);
    assert!(
        said.contains("lab.yaml:3:14: error: there is no core 1000 here"),
        "{said}"
    );
    control.write("lab.yaml", "machines:\n  a: { worker: w }\n");
    control.vink(&["lab", "up"]);
    // A machine that comes later can't move the worker.
    let [first, _] = two();
    control.write(
        "lab.yaml",
        &format!("machines:\n  a: {{ worker: w }}\n  b: {{ worker: w, core: {first} }}\n"),
    );
    control.vink(&["lab", "apply"]);
    let all = control.json(&["lab", "ps", "--json"]);
    assert_eq!(allowed(pid_of(&all, "a")), first.to_string());
    control.vink(&["lab", "down"]);
    // The control process has fewer processors than the one that asks.
    let [first, last] = two();
    if first != last {
        let own = affinity(0).expect("this thread's");
        assert!(set_affinity(0, &cpu_set([first])));
        control.write("other.yaml", "machines:\n  a: {}\n");
        control.vink(&["lab", "up", "other.yaml"]);
        assert!(set_affinity(0, &own));
        control.write("lab.yaml", &format!("machines:\n  a: {{ core: {last} }}\n"));
        let (_, said) = control.fails(&["lab", "up"]);
        assert!(
            said.contains(&format!(
                "core {last} can't be used: the control process may use {first}"
            )),
            "{said}"
        );
        control.vink(&["lab", "down", "--all"]);
    }
    control.nothing_is_left();
}
