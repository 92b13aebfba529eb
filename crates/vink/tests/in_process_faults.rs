//! `vink run --in-process`: programs that crash, run out of descriptors or memory, or are killed.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use common::Place;

fn run(place: &Place, options: &[&str], program: &[&str]) -> Command {
    let mut command = place.vink(&["run", "--in-process"]);
    command.args(options).arg("--").args(program);
    command
}

fn ended(mut command: Command) -> (Output, String, String) {
    let output = command.output().expect("vink");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

const CRASH: &str = "
#include <netinet/in.h>
#include <sys/socket.h>
__attribute__((noinline)) int crash_here(volatile int *p) { return *p; }
int main(void) { return socket(AF_INET, SOCK_STREAM, 0) + crash_here((int *)16); }
";

/// With a core file where the host's core_pattern puts it into the current folder.
#[test]
fn a_crash_of_the_programs_own_dumps_core() {
    for place in Place::all() {
        let folder = place.temporary();
        let (source, program) = (folder.join("crash.c"), folder.join("crash"));
        fs::write(&source, CRASH).expect("a source");
        let compiled = Command::new("cc")
            .args(["-g", "-o"])
            .args([&program, &source])
            .status();
        assert!(compiled.expect("cc").success());
        let shell = "ulimit -c unlimited; exec \"$0\" \"$@\"";
        let mut command = place.command("bash");
        command
            .current_dir(&folder)
            .args(["-c", shell, "vink", "run", "--in-process"]);
        command.args(["--uplink", "none", "--", "./crash"]);
        use std::os::unix::process::ExitStatusExt;
        let (output, out, err) = ended(command);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{out}{err}");
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a pattern");
        if pattern.contains('/') || pattern.starts_with('|') {
            continue;
        }
        assert!(output.status.core_dumped(), "{pattern}");
        let core = fs::read_dir(&folder).expect("the folder").flatten();
        let core = core.map(|file| file.path()).find(|path| {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            name.contains("core")
        });
        let core = core.expect("a core file");
        let shown = Command::new("gdb")
            .args(["-q", "-batch", "-ex", "backtrace"])
            .args([&program, &core])
            .output()
            .expect("gdb");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        for frame in ["#0 ", "crash_here (p=0x10)", "main ()"] {
            assert!(shown.contains(frame), "{frame}: {shown}");
        }
    }
}

/// What a program does that has too few descriptors is the same as on the host.
const FEW: &str = "
import errno, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
def attempt(what):
    try: return what()
    except OSError as e: print(errno.errorcode[e.errno])
kept = []
while (s := attempt(socket.socket)): kept.append(s)
print(len(kept) > 30)
attempt(lambda: open('/dev/null'))
kept.pop().close()
server = socket.create_server(('127.0.0.1', 0))
attempt(socket.socket)
kept.pop().close()
client = socket.create_connection(server.getsockname())
attempt(server.accept)
kept.pop().close()
peer, _ = server.accept()
peer.sendall(b'x')
print(client.recv(1))
";

#[test]
fn descriptors_run_out_as_on_the_host() {
    let place = &Place::all()[0];
    let host = Command::new("python3")
        .args(["-c", FEW])
        .output()
        .expect("python3");
    let host = String::from_utf8_lossy(&host.stdout).into_owned();
    assert_eq!(host.lines().last(), Some("b'x'"), "{host}");
    let (_, out, err) = ended(run(place, &["--uplink", "none"], &["python3", "-c", FEW]));
    assert_eq!(out, host, "{err}");
}

/// More sockets than the kernel has memory for.
const MANY: &str = "
import errno, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = []
try:
    while True: kept.append(socket.socket())
except OSError as e: print(errno.errorcode[e.errno])
while len(kept) > 10: kept.pop().close()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
print(server.accept()[0].send(b'x'))
";

#[test]
fn the_kernels_memory_runs_out_and_the_program_goes_on() {
    let place = &Place::all()[0];
    let options = ["--uplink", "none", "--arena", "16M"];
    let (output, out, err) = ended(run(place, &options, &["python3", "-c", MANY]));
    assert!(output.status.success(), "{err}");
    let (error, sent) = out.trim().split_once('\n').expect("two lines");
    assert!(
        ["ENOMEM", "ENOBUFS", "ENFILE", "EMFILE"].contains(&error),
        "{out}"
    );
    assert_eq!(sent, "1");
}

/// Echoes; connections of clients that were killed wait for ever.
const SERVER: &str = "
import socket, threading
s = socket.create_server(('10.9.0.2', 7000))
print('ready', flush=True)
def echo(c):
    while (b := c.recv(100)): c.sendall(b)
while True: threading.Thread(target=echo, args=s.accept()[:1], daemon=True).start()
";

/// Asks for an echo once for each line of its input, of any server that is there.
const CLIENT: &str = "
import socket, sys
for line in sys.stdin:
    while True:
        try:
            c = socket.create_connection(('10.9.0.2', 7000), 2)
            c.sendall(line.encode())
            print(c.recv(100).decode(), end='', flush=True)
            break
        except OSError: pass
";

/// A program that runs, and what it writes.
struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn new(place: &Place, wire: &str, address: &str, script: &str) -> Running {
        let options = ["--uplink", wire, "--address", address];
        let mut command = run(place, &options, &["python3", "-u", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("vink");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Running(child, out)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).expect("a line");
        line
    }

    fn ask(&mut self, words: &str) {
        let input = self.0.stdin.as_mut().expect("piped");
        writeln!(input, "{words}").expect("it listens");
        assert_eq!(self.line(), format!("{words}\n"));
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("its end");
    }
}

#[test]
fn the_other_one_survives_kill() {
    for place in Place::all() {
        let path = place.temporary().join("wire");
        let wire = format!("wire:{}", path.display());
        let server = || {
            let mut server = Running::new(&place, &wire, "10.9.0.2/24", SERVER);
            assert_eq!(server.line(), "ready\n");
            server
        };
        let client = || Running::new(&place, &wire, "10.9.0.3/24", CLIENT);
        // The one that listens at the path is killed, then the one that has taken its place.
        let first = server();
        let mut other = client();
        other.ask("the first");
        first.kill();
        let second = server();
        other.ask("the second");
        other.kill();
        let mut other = client();
        other.ask("another client");
        second.kill();
        drop(other.0.stdin.take());
        assert!(other.0.wait().expect("its end").success());
        // A process that ends in good order leaves nothing, and the one that was killed only what the next one removes.
        let third = server();
        let mut last = client();
        last.ask("the last");
        third.kill();
        drop(last.0.stdin.take());
        last.0.wait().expect("its end");
        drop(
            Running::new(
                &place,
                &wire,
                "10.9.0.2/24",
                "import socket; socket.socket()",
            )
            .0
            .wait(),
        );
        assert!(!path.exists());
    }
}

/// Whether a process has this text in its environment.
fn is_there(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let mut environments = processes.map(|entry| fs::read(entry.path().join("environ")));
    environments.any(|found| {
        let found = found.unwrap_or_default();
        found
            .windows(mark.len())
            .any(|part| part == mark.as_bytes())
    })
}

fn shared_memory() -> Vec<String> {
    let files = fs::read_dir(Path::new("/dev/shm"))
        .into_iter()
        .flatten()
        .flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("vink")).collect()
}

#[test]
fn nothing_is_left_of_a_killed_process() {
    for place in Place::all() {
        let name = format!("killed-{}", std::process::id());
        let script = "import socket; socket.socket(); print('ready', flush=True); input()";
        let mut command = run(&place, &["--machine", &name], &["python3", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("vink");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let mark = format!("VINK_NAME={name}");
        assert!(is_there(&mark));
        child.kill().expect("it runs");
        child.wait().expect("its end");
        // passt sees the end of its socket.
        while is_there(&mark) {
            std::thread::yield_now();
        }
        assert_eq!(shared_memory(), Vec::<String>::new());
    }
}
