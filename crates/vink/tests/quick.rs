//! `vink run --calls`: what it runs in each form, and what it refuses. (What is posted, and that it is: vink-trap's `shared_ring`.)

mod common;

use std::fs;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use common::Place;

fn run(place: &Place, options: &[&str], program: &[&str]) -> Output {
    let mut command = place.vink(&["run", "--quick", "--uplink", "none"]);
    command.args(options).arg("--").args(program);
    command.output().expect("vink")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_and_its_clients() {
    for place in Place::all() {
        // A shell, so that servers and clients are processes of their own, as are static ones without the library.
        let script =
            "cd /tmp; python3 -m http.server --bind 127.0.0.1 80 > /dev/null 2>&1 & server=$!
            until ss -Hltn sport = :80 | grep -q LISTEN; do :; done
            for n in 1 2 3; do curl -sS -o /dev/null -w '%{http_code} ' http://127.0.0.1/; done
            kill $server; wait $server; echo $?";
        let out = run(&place, &[], &["sh", "-c", script]);
        let (shown, said) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(shown, "200 200 200 143\n", "{}: {said}", place.user());
    }
}

/// Threads that compute, two for each processor, as long as this is there.
struct Crowd(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Crowd {
    fn new() -> Crowd {
        let goes_on = Arc::new(AtomicBool::new(true));
        let count = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let goes_on = goes_on.clone();
            std::thread::spawn(move || while goes_on.load(Ordering::Relaxed) {})
        };
        let threads = (0..count).map(spin).collect();
        Crowd(goes_on, threads)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn beside_busy_processes_the_worker_goes_to_its_programs() {
    // Some milliseconds for each of these calls, and more than a minute for all, if the worker insists on its processor.
    let script = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(sum(s.sendto(b'x', ('127.0.0.1', 9)) for _ in range(10000)))";
    let place = Place::all().remove(0);
    let crowd = Crowd::new();
    let out = run(&place, &[], &["timeout", "60", "python3", "-c", script]);
    drop(crowd);
    let (shown, said) = (text(&out.stdout), text(&out.stderr));
    assert_eq!((out.status.code(), &*shown), (Some(0), "10000\n"), "{said}");
}

#[test]
fn what_is_preloaded_anyway_stays() {
    let place = Place::all().remove(0);
    let mut command = place.vink(&["run", "--quick", "--uplink", "none", "--"]);
    command.args(["sh", "-c", "echo $LD_PRELOAD"]);
    command.env("LD_PRELOAD", "libm.so.6");
    let shown = text(&command.output().expect("vink").stdout);
    assert_eq!(shown, "libm.so.6\n");
}

#[test]
fn the_environment_is_the_hosts() {
    // Of the shell, of what it executes, and of what that executes in turn.
    let script =
        "env | sort; env -i /bin/sh -c 'env | sort'; cat /proc/self/maps | grep -c vink_quick";
    for place in Place::all() {
        let out = |form: &str| {
            let mut command = place.vink(&["run", "--calls", form, "--uplink", "none", "--"]);
            let out = command.args(["sh", "-c", script]).output().expect("vink");
            (text(&out.stdout), text(&out.stderr))
        };
        let (trapped, shared) = (out("trapped"), out("auto"));
        let (environment, maps) = shared.0.trim_end().rsplit_once('\n').expect("lines");
        assert_eq!(
            trapped.0.trim_end().rsplit_once('\n'),
            Some((environment, "0"))
        );
        assert_ne!(
            maps, "0",
            "what the shell executes has the library: {}",
            shared.1
        );
    }
}

#[test]
fn in_virtual_time_children_that_execute_a_file_are_trapped() {
    // Of the shell, of a child of its, of a child that executes it itself, and of the shell's process in the end.
    let script = "cat /proc/$$/maps | grep -c vink_quick; grep -c vink_quick /proc/self/maps
        (exec grep -c vink_quick /proc/self/maps); exec grep -c vink_quick /proc/self/maps";
    let place = &Place::all()[0];
    for shell in ["dash", "bash"] {
        let loaded = |form: &str| {
            let mut command = place.vink(&["run", "--time", "virtual", "--calls", form]);
            command.args(["--uplink", "none", "--", shell, "-c", script]);
            let out = command.output().expect("vink");
            let lines = text(&out.stdout);
            let loaded: Vec<_> = lines.lines().map(|line| line != "0").collect();
            assert_eq!(loaded.len(), 4, "{shell}: {}", text(&out.stderr));
            loaded
        };
        assert_eq!(loaded("auto"), [true, false, false, true], "{shell}");
        assert_eq!(loaded("shared"), [true; 4], "{shell}");
    }
}

#[test]
fn what_does_not_go_together() {
    let place = Place::all().remove(0);
    for other in [
        &["--in-process"][..],
        &["--trace-calls"],
        &["--record", "run.json"],
        &["--calls", "auto"],
    ] {
        let out = run(&place, other, &["true"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{other:?}: {said}");
        assert!(
            said.contains("--quick") && said.contains(other[0]),
            "{said}"
        );
    }
}

/// Runs it on one processor.
fn run_on_one(options: &[&str], program: &[&str]) -> Output {
    let mut all = vec!["--quick"];
    all.extend(options);
    taskset(&Place::all().remove(0), &all, program)
}

fn taskset(place: &Place, options: &[&str], program: &[&str]) -> Output {
    let mut command = Command::new("taskset");
    let vink = place.vink(&[]).get_program().to_owned();
    command.args(["-c", "0"]).arg(vink);
    command.args(["run", "--uplink", "none"]);
    command.args(options).arg("--").args(program);
    for (name, value) in place.vink(&[]).get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.output().expect("taskset")
}

#[test]
fn in_virtual_time_one_processor_is_enough() {
    let script = "(for n in 1 2 3; do sleep 1000; echo $n; done) | while read n; do echo $n; done";
    for options in [
        &["--time", "virtual"][..],
        &["--time", "virtual", "--rdtsc"],
    ] {
        let out = run_on_one(options, &["bash", "-c", script]);
        let (shown, said) = (text(&out.stdout), text(&out.stderr));
        assert_eq!((&*shown, &*said), ("1\n2\n3\n", ""), "{options:?}");
    }
}

#[test]
fn one_processor_is_too_few() {
    let out = run_on_one(&[], &["true"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(
        said.contains("--calls shared: shared calls need two processors"),
        "{said}"
    );
}

#[test]
fn auto_is_content_with_one_processor() {
    let place = Place::all().remove(0);
    let out = taskset(&place, &["--calls", "auto", "--verbose"], &["true"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("calls: trapped: there is one processor only"),
        "{said}"
    );
}

#[test]
fn a_missing_library_is_named() {
    let place = Place::all().remove(0);
    let vink = place.vink(&[]).get_program().to_owned();
    let library = std::path::Path::new(&vink).with_file_name("libvink_quick.so");
    fs::remove_file(library).expect("the library");
    let out = run(&place, &[], &["true"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(
        said.contains("libvink_quick.so") && said.contains("cargo build -p vink-quick"),
        "{said}"
    );
}
