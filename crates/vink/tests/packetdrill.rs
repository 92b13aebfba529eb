//! `vink packetdrill`: scripts through the library for packetdrill, on both clocks.
//!
//! packetdrill itself is in no package. What runs the scripts is crates/vink-packetdrill/tests/packetdrill, which calls the
//! library as packetdrill does and knows a part of its language.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{root, Place};

/// Of Linux's own scripts those whose system calls the driver knows.
const LINUX: [&str; 4] = [
    "tcp_slow_start_slow-start-ack-per-2pkt.pkt",
    "tcp_slow_start_slow-start-after-idle.pkt",
    "tcp_slow_start_slow-start-after-win-update.pkt",
    "tcp_slow_start_slow-start-app-limited-9-packets-out.pkt",
];

/// Puts the driver, the library and the scripts where the user can read them.
fn furnish(place: &Place) -> PathBuf {
    let own = root().join("crates/vink-packetdrill/tests");
    fs::copy(own.join("packetdrill"), place.folder().join("packetdrill")).expect("the driver");
    // Cargo has made it for this test, since the crate is a dependency of it.
    let beside = Path::new(env!("CARGO_BIN_EXE_vink")).parent();
    let library = beside
        .expect("target/…")
        .join("deps/libvink_packetdrill.so");
    let to = place.folder().join("libvink_packetdrill.so");
    fs::copy(&library, to).expect("the library");
    let scripts = place.temporary().join("scripts");
    fs::create_dir(&scripts).expect("a folder for scripts");
    // The kernel's scripts write beside themselves.
    fs::set_permissions(&scripts, fs::Permissions::from_mode(0o777)).expect("its mode");
    let tree =
        fs::read_to_string(root().join("build/libvink-linux-6.12.tree")).expect("make stack");
    let linux = Path::new(tree.trim()).join("tools/testing/selftests/net/packetdrill");
    for folder in [own.join("scripts"), linux] {
        for entry in fs::read_dir(folder).expect("scripts") {
            let from = entry.expect("a script").path();
            let to = scripts.join(from.file_name().expect("a name"));
            fs::copy(from, to).expect("a copy");
        }
    }
    scripts
}

/// What the command says, standard error last, and whether it succeeded.
fn said(mut command: Command) -> (String, bool) {
    let output = command.output().expect("vink packetdrill");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    (text, output.status.success())
}

fn drill(place: &Place, scripts: &Path, options: &[&str], names: &[&str]) -> (String, bool) {
    let mut command = place.vink(&["packetdrill"]);
    command.args(options);
    command.args(names.iter().map(|name| scripts.join(name)));
    said(command)
}

#[test]
fn scripts_by_the_virtual_clock() {
    for place in Place::all() {
        let scripts = furnish(&place);
        let own = ["retransmissions.pkt", "blocking.pkt", "connect.pkt"];
        // Virtual time is exact: of 4 ms that packetdrill allows a fifth is enough.
        let exact = ["--option=--tolerance_usecs=800"];
        let (text, good) = drill(&place, &scripts, &exact, &own);
        assert!(
            good && text.contains("6 ok, 0 failed"),
            "{}: {text}",
            place.user()
        );
    }
}

#[test]
fn scripts_of_linux() {
    let place = &Place::all()[0];
    let scripts = furnish(place);
    let (text, good) = drill(place, &scripts, &[], &LINUX);
    assert!(good && text.contains("8 ok, 0 failed"), "{text}");
}

#[test]
fn scripts_on_a_tun_interface() {
    let place = Place::all().pop().expect("a place");
    let scripts = furnish(&place);
    // This machine may be busy: that the packets come is what counts.
    let patient = ["--clock=real", "--option=--tolerance_usecs=10000000"];
    let (text, good) = drill(&place, &scripts, &patient, &LINUX[..1]);
    assert!(good && text.contains("2 ok, 0 failed"), "{text}");
}

#[test]
fn a_run_repeats() {
    let place = &Place::all()[0];
    let scripts = furnish(place);
    let run = || {
        drill(
            place,
            &scripts,
            &["--ip=4", "--option=-v"],
            &["connect.pkt"],
        )
    };
    let (first, good) = run();
    assert!(good && first.contains(" > 45"), "{first}");
    assert_eq!(first, run().0);
}

#[test]
fn failures_are_told() {
    let place = &Place::all()[0];
    let scripts = furnish(place);
    let names = ["wrong.pkt", "retransmissions.pkt"];
    let (text, good) = drill(place, &scripts, &["--ip=4"], &names);
    assert!(!good, "{text}");
    for part in [
        "ack of the packet: 1, not 2",
        "over IPv4: FAILED",
        "1 ok, 1 failed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, good) = drill(place, &scripts, &["--ip=6"], &["never.pkt"]);
    assert!(
        !good && text.contains("waiting for a packet of the machine's"),
        "{text}"
    );
    let (text, good) = drill(place, &scripts, &[], &["none.pkt"]);
    assert!(!good && text.contains("none.pkt: No such file"), "{text}");
    let flags = ["--ip=4", "--option=--so_flags=clock=slow"];
    let (text, good) = drill(place, &scripts, &flags, &["connect.pkt"]);
    assert!(
        !good && text.contains("\"clock=slow\" is none of"),
        "{text}"
    );
    fs::remove_file(place.folder().join("packetdrill")).expect("the driver");
    let mut command = place.vink(&["packetdrill"]);
    command.arg(scripts.join("connect.pkt"));
    command.env("PATH", "/usr/bin:/bin");
    let (text, good) = said(command);
    assert!(
        !good && text.contains("packetdrill is not on the PATH"),
        "{text}"
    );
}
