//! `vink run --in-process`: what it runs, what it refuses, and wires between processes.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use common::control::Control;
use common::Place;

fn run(place: &Place, options: &[&str], program: &[&str]) -> Command {
    let mut command = place.vink(&["run", "--in-process"]);
    command.args(options).arg("--").args(program);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output(mut command: Command) -> Output {
    command.output().expect("vink")
}

#[test]
fn the_program_sees_its_machine() {
    for place in Place::all() {
        let user = place.user();
        let out = output(run(
            &place,
            &["--uplink", "none"],
            &["ip", "-brief", "address"],
        ));
        let shown = text(&out.stdout);
        assert!(out.status.success(), "{user}: {}", text(&out.stderr));
        assert!(
            shown.starts_with("lo ") && shown.lines().count() == 1,
            "{user}: {shown}"
        );
        // Of Vegas hosts have no module; all that the host has is there, too.
        let look = "cat /sys/module/tcp_vegas/parameters/alpha; \
                    for i in /sys/module/*; do test -d $i || echo $i; done";
        let out = output(run(&place, &["--uplink", "none"], &["sh", "-c", look]));
        assert_eq!(text(&out.stdout), "2\n", "{user}: {}", text(&out.stderr));
        let out = output(run(&place, &["--uplink", "none"], &["sh", "-c", "exit 7"]));
        assert_eq!(out.status.code(), Some(7), "{user}");
    }
}

#[test]
fn passt_is_no_child_of_the_programs() {
    for place in Place::all() {
        let script = "import os, socket; socket.socket(); \
                      os.system('true'); \
                      print(socket.create_server(('10.0.2.15', 80)).getsockname()); \
                      print(os.waitpid(-1, 0))";
        let out = output(run(&place, &[], &["python3", "-c", script]));
        let (shown, said) = (text(&out.stdout), text(&out.stderr));
        let user = place.user();
        assert!(
            shown.starts_with("('10.0.2.15', 80)"),
            "{user}: {shown}{said}"
        );
        assert!(said.contains("ChildProcessError"), "{user}: {shown}{said}");
    }
}

#[test]
fn what_a_stack_has_started_has_none() {
    let place = Place::all().remove(0);
    let mut command = run(&place, &["--uplink", "none"], &["ip", "link"]);
    command.env("VINK_HELPER", "passt");
    let out = output(command);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.starts_with("vink: passt was started by"), "{said}");
}

#[test]
fn a_program_joins_a_lab() {
    for place in Place::all() {
        let control = Control::of(&place);
        let path = control.folder().join("wire");
        let lab = format!(
            "name: joined
machines:
  m1:
    interfaces: {{ eth0: {{ wire: out, addresses: [10.9.0.2/24] }} }}
    programs:
      web: {{ command: exec python3 -m http.server 80, ready: {{ port: 80 }} }}
wires:
  out: {{ uplink: {{ wire: {} }} }}
",
            path.display()
        );
        control.write("lab.yaml", &lab);
        control.vink(&["lab", "up"]);
        let wire = format!("wire:{}", path.display());
        for _ in 0..2 {
            let options = ["--uplink", &wire, "--address", "10.9.0.3/24"];
            let out = output(run(
                &place,
                &options,
                &["curl", "-sSf", "http://10.9.0.2/lab.yaml"],
            ));
            assert_eq!(text(&out.stdout), lab, "{}", text(&out.stderr));
        }
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn refusals_say_what_to_do() {
    let place = Place::all().remove(0);
    let folder = place.temporary();
    let refused = |program: &str, what: &str| {
        let out = output(run(&place, &[], &[program]));
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(125), "{program}: {said}");
        assert!(
            said.contains(what) && said.contains("without --in-process"),
            "{said}"
        );
    };
    let bare = folder.join("static");
    let mut program = fs::read("/bin/true").expect("a program");
    // As many program headers as a program without an interpreter has at least: see elf(5).
    program[56..58].copy_from_slice(&[0, 0]);
    fs::write(&bare, &program).expect("a file");
    let script = folder.join("script");
    fs::write(&script, format!("#!{}\n", bare.display())).expect("a file");
    for file in [&bare, &script] {
        let status = Command::new("chmod").arg("755").arg(file).status();
        assert!(status.expect("chmod").success());
        refused(file.to_str().expect("text"), "statically linked");
    }
    // What tells a dynamic Go program from others is a section's name.
    let source = folder.join("go.c");
    let section =
        "__asm__(\".section .go.buildinfo,\\\"aw\\\"; .zero 16\"); int main(void) { return 0; }";
    fs::write(&source, section).expect("a file");
    let go = folder.join("go");
    let made = Command::new("cc")
        .arg("-s")
        .arg("-o")
        .args([&go, &source])
        .status();
    assert!(made.expect("cc").success());
    refused(go.to_str().expect("text"), "is a Go program");
    // Another user's: only root can make one.
    if vink_sys::process::is_root() {
        let taken = folder.join("set-user-id");
        fs::copy("/bin/true", &taken).expect("a copy");
        let make = format!("chown 1 {0} && chmod 4755 {0}", taken.display());
        let status = Command::new("sh").args(["-c", &make]).status();
        assert!(status.expect("sh").success());
        refused(taken.to_str().expect("text"), "set-user-id");
    }
    let out = output(run(&place, &[], &["no-such-program"]));
    assert_eq!(out.status.code(), Some(127));
    let mut command = run(&place, &["--uplink", "none"], &["ip", "link"]);
    command.env("VINK_SPIN", "long");
    let out = output(command);
    assert_eq!(out.status.code(), Some(125));
    assert!(
        text(&out.stderr).contains("VINK_SPIN=long"),
        "{}",
        text(&out.stderr)
    );
}

const SERVER: &str = "import socket
s = socket.create_server(('10.9.0.2', 7000))
print('ready', flush=True)
while True:
    c, _ = s.accept()
    while True:
        b = c.recv(65536)
        if not b: break
        c.sendall(b)
    c.close()
";

const CLIENT: &str = "import socket, threading
c = socket.create_connection(('10.9.0.2', 7000), 60)
data = bytes(range(256)) * 4096
threading.Thread(target=c.sendall, args=(data,)).start()
got = b''
while len(got) < len(data): got += c.recv(1 << 20)
assert got == data
print('the same')
";

/// A server in its process, or trapped; clients in theirs, one after the other.
fn talk(place: &Place, how: &[&str]) {
    let path = place.temporary().join("wire");
    let wire = format!("wire:{}", path.display());
    let options = |address| ["--uplink", &wire, "--address", address].map(str::to_owned);
    let mut command = place.vink(&["run"]);
    command.args(how).args(options("10.9.0.2/24"));
    command.args(["--", "python3", "-c", SERVER]);
    let mut server = command.stdout(Stdio::piped()).spawn().expect("vink");
    let mut line = String::new();
    let mut shown = BufReader::new(server.stdout.take().expect("piped"));
    shown.read_line(&mut line).expect("a word");
    assert_eq!(line, "ready\n");
    for _ in 0..2 {
        let options = options("10.9.0.3/24");
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let out = output(run(place, &options, &["python3", "-c", CLIENT]));
        let (shown, said) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(shown, "the same\n", "{}, {how:?}: {said}", place.user());
    }
    server.kill().expect("it runs");
    server.wait().expect("its end");
}

#[test]
fn two_programs_share_a_wire() {
    for place in Place::all() {
        talk(&place, &["--in-process"]);
    }
}

#[test]
fn a_program_joins_one_that_is_trapped() {
    for place in Place::all() {
        talk(&place, &[]);
    }
}
