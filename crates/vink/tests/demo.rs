//! The demo works for every user, and leaves nothing behind when it is interrupted.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use common::Place;

#[test]
fn shows_everything() {
    for place in Place::all() {
        let output = place.vink(&["demo"]).output().expect("vink demo");
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}: {}\n{out}\n{err}",
            place.user(),
            output.status
        );
        for (what, times) in [
            ("    booted   in ", 1),
            ("client$ ", 8),
            (" 0% packet loss", 2),
            ("200 from 10.0.2.2: 8388608 bytes", 2),
            ("200 from fd00:0:0:2::2: 8388608 bytes", 1),
            (": the same", 3),
            // ping's word for a kernel whose clock is not the host's.
            ("time of day goes back", 0),
            (" cwnd:", 1),
            (" rtt:", 1),
            ("How to go on", 1),
        ] {
            assert_eq!(
                out.matches(what).count(),
                times,
                "{what:?}, {}:\n{out}",
                place.user()
            );
        }
        let left = fs::read_dir(place.temporary()).expect("TMPDIR").count();
        assert_eq!(left, 0, "{}: files are left", place.user());
    }
}

#[test]
fn control_c_cleans_up() {
    for place in Place::all() {
        let mut child = place
            .vink(&["demo"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("vink demo");
        let screen = BufReader::new(child.stdout.as_mut().expect("its output"));
        let server = screen
            .lines()
            .map_while(Result::ok)
            .find(|line| line.contains("http.server"));
        assert!(server.is_some(), "{}: it ended early", place.user());
        vink_sys::process::kill(child.id() as i32, libc::SIGINT).expect("it is there");
        let output = child.wait_with_output().expect("its end");
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGINT),
            "{}",
            place.user()
        );
        let left = fs::read_dir(place.temporary()).expect("TMPDIR").count();
        assert_eq!(left, 0, "{}: files are left", place.user());
    }
}

#[test]
fn names_the_package_of_a_missing_program() {
    let place = &Place::all()[0];
    let output = place
        .vink(&["demo"])
        .env("PATH", place.folder())
        .output()
        .expect("vink demo");
    assert_eq!(output.status.code(), Some(125));
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        err,
        "vink: the demo needs 'ip', which is not in PATH: apt-get install iproute2\n"
    );
}
