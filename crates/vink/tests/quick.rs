//! `vink run --quick`: what it runs, and what it refuses. (What is posted, and that it is: vink-trap's `mail`.)

mod common;

use std::fs;
use std::process::{Command, Output};

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

#[test]
fn what_is_preloaded_anyway_stays() {
    let place = Place::all().remove(0);
    let mut command = place.vink(&["run", "--quick", "--uplink", "none", "--"]);
    command.args(["sh", "-c", "echo $LD_PRELOAD"]);
    command.env("LD_PRELOAD", "libm.so.6");
    let shown = text(&command.output().expect("vink").stdout);
    assert!(shown.ends_with("/libvink_quick.so:libm.so.6\n"), "{shown}");
}

#[test]
fn what_does_not_go_together() {
    let place = Place::all().remove(0);
    for other in [
        &["--in-process"][..],
        &["--trace-calls"],
        &["--record", "run.json"],
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
    let place = Place::all().remove(0);
    let mut command = Command::new("taskset");
    let vink = place.vink(&[]).get_program().to_owned();
    command.args(["-c", "0"]).arg(vink);
    command.args(["run", "--quick", "--uplink", "none"]);
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
    assert!(said.contains("--quick needs two processors"), "{said}");
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
