//! A host for each test, and boxes on it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::{channel, Receiver};

use vink_kernel::{Config, Image, Kernel};
use vink_lab::{Machine, Network, UplinkAttachment};
use vink_trap::{Program, ProgramId, Stdio, Worker};

const WITHIN: &str = "VINK_TEST_WITHIN";

/// Whether this is the test itself: a copy of this process, alone in a network, and in a user
/// namespace unless it is root. If it is not, runs that, which must succeed.
pub fn alone(test: &str) -> bool {
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    if !vink_sys::process::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--"]);
    command.arg(std::env::current_exe().expect("this test"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(WITHIN, "1").output().expect("unshare");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("1 passed"), "{test} is not its name: {ran}");
    false
}

/// A worker without machines.
pub fn worker() -> Worker {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let path = std::env::var_os("VINK_IMAGE").map_or(built, PathBuf::from);
    let image = Image::open(&path).expect("the image: run make stack");
    let config = Config {
        arena_bytes: 256 << 20,
        ..Config::default()
    };
    let kernel = Kernel::boot(image, config).expect("a kernel");
    Worker::new(kernel).expect("a worker")
}

pub fn network(text: &str) -> Network {
    text.parse().expect("a network")
}

/// A machine whose interface `out` is attached by `attach`, and has these addresses.
pub fn machine(
    worker: &mut Worker,
    name: &str,
    addresses: &[&str],
    attach: impl FnOnce(&mut Worker, &Machine) -> UplinkAttachment,
) -> (Machine, UplinkAttachment) {
    let machine = Machine::new(worker.kernel(), name).expect("a machine");
    let outside = attach(worker, &machine);
    let (kernel, config) = (worker.kernel(), machine.network);
    for address in addresses {
        let Network { address, prefix } = network(address);
        config
            .address(kernel, "out", address, prefix)
            .expect("an address");
    }
    config.up(kernel, "out").expect("up");
    (machine, outside)
}

/// A shell script of the host's, which must succeed; what it prints.
pub fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output();
    good(script, &output.expect("sh"))
}

pub fn good(what: &str, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{text}{errors}");
    text
}

/// Does something on another thread while the worker works.
pub fn meanwhile<T: Send + 'static>(
    worker: &mut Worker,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let (sender, receiver): (_, Receiver<T>) = channel();
    let thread = std::thread::spawn(move || {
        let _ = sender.send(work());
        // Its end wakes the worker.
        drop(theirs);
    });
    worker.watch_fd(ours.as_fd()).expect("attending");
    let mut done = None;
    let panicked = worker.run_until(|_| {
        done = receiver.try_recv().ok();
        done.is_some() || thread.is_finished()
    });
    panicked.expect("steps");
    worker.unwatch_fd(ours.as_fd());
    thread.join().expect("the other thread");
    done.or_else(|| receiver.try_recv().ok())
        .expect("what came of it")
}

/// [`sh`] while the worker works.
pub fn sh_beside(worker: &mut Worker, script: &str) -> String {
    let owned = script.to_owned();
    meanwhile(worker, move || sh(&owned))
}

/// Starts a program on a machine, whose standard output is read from what is returned.
pub fn start(worker: &mut Worker, machine: &Machine, words: &[&str]) -> (ProgramId, File) {
    let (ours, theirs) = vink_sys::fd::pipe().expect("a pipe");
    let program = Program::new(words[0])
        .args(&words[1..])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdout(Stdio::Fd(theirs));
    let program = worker.spawn(machine.id, program).expect("a program");
    (program, File::from(ours))
}

/// Runs a program on a machine to its good end; what it printed.
pub fn run(worker: &mut Worker, machine: &Machine, words: &[&str]) -> String {
    let (program, output) = start(worker, machine, words);
    let text = meanwhile(worker, move || {
        std::io::read_to_string(output).expect("text")
    });
    let status = worker.wait(program).expect("its end");
    assert_eq!(status.code(), 0, "{words:?}: {text}");
    text
}

/// Waits until the line is up or down.
pub fn wait_for_line(worker: &mut Worker, outside: &UplinkAttachment, up: bool) {
    let waited = worker.run_until(|_| outside.state().link.is_up() == up);
    waited.expect("steps");
}
