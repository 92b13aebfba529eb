//! `vink run --calls auto`, the default: when calls are shared, and what is said of it. Whether they are depends on what
//! else runs on the host: this program is run alone.

mod common;

use std::fs;

use common::Place;

/// What is said of calls.
fn said_of_calls(place: &Place, options: &[&str], program: &[&str]) -> String {
    let mut command = place.vink(&["run", "--verbose", "--uplink", "none"]);
    command.args(options).arg("--").args(program);
    let out = command.output().expect("vink");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}");
    said
}

#[test]
fn auto_says_why_calls_are_trapped() {
    let place = Place::all().remove(0);
    let auto = |options: &[&str], program: &[&str]| said_of_calls(&place, options, program);
    let said = auto(&[], &["true"]);
    assert!(
        said.contains("calls: trapped at first, shared while they come often"),
        "{said}"
    );
    let said = auto(&["--trace-calls=/dev/null"], &["true"]);
    assert!(
        said.contains("calls: trapped: --trace-calls sees every call"),
        "{said}"
    );
    let said = auto(&["--time", "virtual"], &["true"]);
    assert!(
        said.contains("calls: trapped, but for sends and pipes of the only thread that runs"),
        "{said}"
    );
    let said = said_of_calls(&place, &["--calls", "trapped"], &["true"]);
    assert!(said.contains("calls: trapped: by request"), "{said}");
    // Without its library as well.
    let vink = place.vink(&[]).get_program().to_owned();
    let library = std::path::Path::new(&vink).with_file_name("libvink_quick.so");
    fs::remove_file(library).expect("the library");
    let said = auto(&[], &["true"]);
    assert!(
        said.contains("calls: trapped: ") && said.contains("libvink_quick.so"),
        "{said}"
    );
}

#[test]
fn auto_polls_while_calls_come_often_and_stops() {
    // Posted calls are counted at the end; then the program waits, without any.
    let script = "import os, socket, time
l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen()
if os.fork() == 0:
    c, _ = l.accept()
    while c.send(c.recv(100) or b'x') and c.recv(1, socket.MSG_PEEK): pass
    os._exit(0)
s = socket.create_connection(l.getsockname())
for n in range(20000): s.send(b'x'); s.recv(100)
s.close(); time.sleep(0.2)";
    let place = Place::all().remove(0);
    // The worker may find both processors busy for all of the program's time: with another test of this program, say.
    let attempts = (0..10).map(|_| said_of_calls(&place, &[], &["python3", "-c", script]));
    let said = attempts
        .into_iter()
        .find(|said| said.contains("calls: shared: calls come often"))
        .expect("one that polls");
    let last = said
        .lines()
        .rfind(|line| line.contains("calls: ") && !line.contains("posted"));
    assert!(
        last.is_some_and(|line| line.contains("calls: trapped: ")),
        "{said}"
    );
}
