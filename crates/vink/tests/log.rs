//! `VINK_LOG`: what libraries log, what a run in virtual time waits for, and where labs log it.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use vink_sys::rustix::fs::{mknodat, FileType, Mode, CWD};

use common::control::Control;
use common::Place;

/// A pipe with a name, which every user may open.
fn fifo(place: &Place) -> PathBuf {
    let path = place.temporary().join("fifo");
    let kind = FileType::Fifo;
    mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&path, mode).expect("its mode");
    path
}

fn run(place: &Place, log: &str, program: &[&str]) -> Command {
    let mut command = place.vink(&["run", "--time", "virtual", "--uplink", "none", "--"]);
    command
        .args(program)
        .env("VINK_LOG", log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Its standard error up to a line that has all of these.
fn line_with(child: &mut Child, parts: &[&str]) -> String {
    line_of(child.stderr.as_mut().expect("a pipe"), parts)
}

fn line_of(output: impl Read, parts: &[&str]) -> String {
    let mut output = BufReader::new(output);
    let mut text = String::new();
    loop {
        let mut line = String::new();
        let count = output.read_line(&mut line).expect("a line");
        text += &line;
        assert!(count > 0, "no line with {parts:?} in\n{text}");
        if parts.iter().all(|part| line.contains(part)) {
            return line;
        }
    }
}

#[test]
fn a_call_of_the_host_that_does_not_return_is_named() {
    for place in Place::all() {
        let path = fifo(&place);
        // Open for reading, too: so that neither side waits for the other.
        let writer = File::options().read(true).write(true).open(&path);
        let writer = writer.expect("the pipe");
        let name = path.display().to_string();
        let script = format!("sleep 1.5; exec cat < {name}");
        let mut child = run(&place, "sched=debug", &["sh", "-c", &script])
            .spawn()
            .expect("vink");
        // Since when, on the machine's clock: it began before 1.5 s, and has slept so long.
        let file = format!("read(0 <{name}>, ...), since ");
        let line = line_with(&mut child, &["vink sched: cat (process ", &file]);
        let (_, since) = line.split_once(", since ").expect("a time");
        let seconds: f64 = since
            .split(' ')
            .next()
            .and_then(|s| s.parse().ok())
            .expect("seconds");
        assert!(seconds >= 1.5, "{line}");
        // It ends when there is no writer any more.
        drop(writer);
        let output = child.wait_with_output().expect("vink");
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn threads_that_wait_for_each_other_are_named() {
    let place = &Place::all()[0];
    let script = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()";
    let mut child = run(place, "sched=debug", &["python3", "-c", script])
        .spawn()
        .expect("vink");
    line_with(
        &mut child,
        &[
            "vink sched: python3 (process ",
            "is blocked: futex, since ",
            ", for ever",
        ],
    );
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[test]
fn without_it_nothing_is_said() {
    let place = &Place::all()[0];
    let quiet = run(place, "", &["sleep", "2"]).output().expect("vink");
    assert!(
        quiet.status.success() && quiet.stderr.is_empty(),
        "{quiet:?}"
    );
    let wrong = run(place, "sched=loud", &["true"]).output().expect("vink");
    let errors = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(125), "{errors}");
    assert!(
        errors.contains("VINK_LOG=sched=loud: write TARGET=LEVEL"),
        "{errors}"
    );
}

/// Not even at the lowest level: what is not logged is not evaluated either.
#[test]
fn nothing_is_logged_for_a_call() {
    let place = &Place::all()[0];
    let calls = "for i in range(5000): os.stat('/proc/self/stat'); os.write(1, b'x')";
    let script = format!("import os\n{calls}");
    for time in ["real", "virtual"] {
        let mut command = place.vink(&["run", "--time", time, "--uplink", "none", "--"]);
        command.args(["python3", "-c", &script]);
        let output = command.env("VINK_LOG", "trace").output().expect("vink");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{errors}");
        assert_eq!(output.stdout.len(), 5000);
    }
}

const WAITS: &str = "
name: waits
time: virtual
machines:
  m:
    programs:
      reader: { command: 'exec cat < fifo' }
";

#[test]
fn a_labs_worker_logs_beside_its_lab() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let path = fifo(place);
    let writer = File::options().read(true).write(true).open(&path);
    control.write("lab.yaml", WAITS);
    let mut up = control.command("vink");
    up.args(["lab", "up"]).env("VINK_LOG", "sched=debug");
    assert!(up.output().expect("vink").status.success());
    let mut until = control.start(&["lab", "until", "5s"]);
    let workers = control.runtime().join("labs/waits/workers");
    let mut tail = control.command("tail");
    let tail = tail.args(["-n", "+1", "-F"]).arg(workers);
    let mut tail = tail.stdout(Stdio::piped()).spawn().expect("tail");
    let file = format!("read(0 <{}>, ...), since ", path.display());
    let parts = ["vink sched: cat (process ", "machine m", &file];
    line_of(tail.stdout.as_mut().expect("a pipe"), &parts);
    tail.kill().expect("it is there");
    tail.wait().expect("ended");
    drop(writer);
    assert!(until.wait().expect("vink").success());
}

#[test]
fn the_control_process_logs_to_its_file() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    control.write("lab.yaml", "{ name: empty }");
    for (log, told) in [("sched=debug", true), ("control=off", false)] {
        let mut up = control.command("vink");
        up.args(["lab", "up"]).env("VINK_LOG", log);
        assert!(up.output().expect("vink").status.success());
        let is_daemon = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == b"daemon")
        };
        let daemon = control.processes().into_iter().find(is_daemon);
        vink_sys::process::kill(daemon.expect("it runs"), libc::SIGTERM).expect("it is there");
        control.wait_for_no_process();
        let file = control.runtime().join("log");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        assert_eq!(text == "vink daemon: ended by SIGTERM\n", told, "{text:?}");
        assert_eq!(text.is_empty(), !told, "{text:?}");
    }
}
