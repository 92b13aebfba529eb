//! A kernel that does not return: told of with its backtrace, looked at, and ended, whatever it does.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};

use common::control::Control;
use common::{ticks, Place};
use object::{Object, ObjectSegment, ObjectSymbol};

/// A jump to itself.
const LOOP: [u8; 2] = [0xeb, 0xfe];
/// Where the kernel loops: a program that connects finds it.
const FUNCTION: &str = "tcp_v4_connect";
const CONNECTS: &str = "
import signal, socket
signal.signal(signal.SIGTERM, lambda *_: None)
socket.create_connection(('127.0.0.1', 9))
";

/// A copy of the image whose kernel loops.
fn image(place: &Place) -> PathBuf {
    let folder = place.folder();
    let mut bytes = fs::read(folder.join("libvink-linux-6.12.so")).expect("the image");
    let at = {
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        let named = |symbol: &object::Symbol| symbol.name() == Ok(FUNCTION);
        let address = elf.symbols().find(named).expect(FUNCTION).address();
        let within = elf.segments().find_map(|segment| {
            let (start, _) = segment.file_range();
            let inside = address.checked_sub(segment.address())?;
            (inside < segment.size()).then_some(start + inside)
        });
        within.expect("the function's bytes") as usize
    };
    bytes[at..at + LOOP.len()].copy_from_slice(&LOOP);
    let path = folder.join("libvink-linux-6.12-loops.so");
    fs::write(&path, bytes).expect("a copy");
    path
}

/// Waits until a process has computed for half a second more.
fn computes(pid: u32) {
    let until = ticks(pid as i32) + 50;
    while ticks(pid as i32) < until {
        assert!(Path::new(&format!("/proc/{pid}")).exists(), "{pid} is gone");
        std::thread::yield_now();
    }
}

/// Lines of a child's standard error up to one that has this.
fn said(output: &mut BufReader<ChildStderr>, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let read = output.read_line(&mut text).expect("a line");
        assert!(read > 0, "no {part:?} in\n{text}");
    }
    text
}

fn run(place: &Place, options: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let image = image(place);
    let mut command = place.vink(&["run", "--uplink", "none", "--image"]);
    command.arg(image).args(options);
    command.args(["--", "python3", "-c", CONNECTS]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("vink run");
    let output = BufReader::new(child.stderr.take().expect("a pipe"));
    (child, output)
}

fn send(pid: u32, signal: i32) {
    vink_sys::process::kill(pid as i32, signal).expect("a process");
}

/// It is told where the kernel is, and a signal that its program would ignore ends it.
fn told_and_ended(place: &Place, options: &[&str]) {
    let control = Control::of(place);
    let (mut child, mut output) = run(place, options);
    let text = said(&mut output, "to look at it: vink debug --pid");
    let user = place.user();
    assert!(text.contains("the kernel has not returned for "), "{text}");
    assert!(text.contains("    tcp_v4_connect+0x"), "{user}: {text}");
    assert!(text.contains("net/ipv4/tcp_ipv4.c:"), "{user}: {text}");
    assert!(text.contains("    __sys_connect+0x"), "{user}: {text}");
    send(child.id(), libc::SIGTERM);
    let text = said(&mut output, "signal 15 ends");
    let status = child.wait().expect("our child");
    assert_eq!(status.signal(), Some(libc::SIGTERM), "{text}");
    control.wait_for_no_process();
}

#[test]
fn it_is_told_where_the_kernel_is() {
    let places = Place::all();
    told_and_ended(places.last().expect("a place"), &[]);
}

#[test]
fn in_process_too() {
    told_and_ended(&Place::all()[0], &["--in-process"]);
}

#[test]
fn a_signal_ends_it_before_that() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let (mut child, mut output) = run(place, &["--time", "virtual"]);
    computes(child.id());
    send(child.id(), libc::SIGTERM);
    said(&mut output, "signal 15 ends vink");
    let status = child.wait().expect("our child");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    control.wait_for_no_process();
}

const LAB: &str = "
time: virtual
images: { loops: IMAGE }
machines:
  m1:
    image: loops
    programs:
      client: { command: \"sleep 1; exec nc -z 127.0.0.1 9\" }
";

#[test]
fn a_lab_says_so_and_goes_down() {
    let places = Place::all();
    let place = places.last().expect("a place");
    let control = Control::of(place);
    let image = image(place);
    control.write(
        "lab.yaml",
        &LAB.replace("IMAGE", &image.display().to_string()),
    );
    control.vink(&["lab", "up", "--paused"]);
    let worker = || {
        let all = control.json(&["lab", "ps", "--json"]);
        all["workers"][0]["pid"].as_u64().expect("a worker") as u32
    };
    let first = worker();
    let mut until = control.start(&["lab", "until", "1h"]);
    let mut output = BufReader::new(until.stderr.take().expect("a pipe"));
    let told = format!("the kernel of worker 0 (process {first}) has not returned for ");
    said(&mut output, &told);
    said(&mut output, "tcp_v4_connect+0x");
    let shown = control.vink(&["lab", "ps"]);
    assert!(shown.contains(&told), "{shown}");
    assert!(shown.contains("tcp_v4_connect+0x"), "{shown}");
    assert!(
        shown.contains(&format!("vink debug --pid {first}")),
        "{shown}"
    );
    // Not as nobody: a debugger of another process may need to be root.
    let mut gdb = Place::command(&places[0], "vink");
    let pid = first.to_string();
    gdb.args(["debug", "--pid", &pid, "--batch", "-x", "bt 3"]);
    let shown = gdb.output().expect("vink debug");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("#0 ") && shown.contains("tcp_v4_connect"),
        "{shown}"
    );
    // A program that can't be started, as the worker does not answer, can be given up.
    let mut exec = control.start(&["exec", "m1", "--", "true"]);
    common::catches(exec.id() as i32, libc::SIGTERM);
    let mut output = BufReader::new(exec.stderr.take().expect("a pipe"));
    said(&mut output, &told);
    said(&mut output, "vink debug --pid ");
    send(exec.id(), libc::SIGTERM);
    assert_eq!(
        exec.wait().expect("our child").code(),
        Some(128 + libc::SIGTERM)
    );

    control.vink(&["lab", "restart"]);
    let _ = until.kill();
    until.wait().expect("our child");
    assert!(!Path::new(&format!("/proc/{first}")).exists());
    let second = worker();
    let shown = control.vink(&["lab", "ps"]);
    assert!(!shown.contains("has not returned"), "{shown}");
    let mut until = control.start(&["lab", "until", "2h"]);
    computes(second);
    // Before the watchdog has said anything.
    control.vink(&["lab", "down"]);
    assert!(!Path::new(&format!("/proc/{second}")).exists());
    until.wait().expect("our child");
    control.nothing_is_left();
}
