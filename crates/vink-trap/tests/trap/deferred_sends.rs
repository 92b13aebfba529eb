//! Small sends over a wire that programs do not wait for: the same programs print the same on the
//! host.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vink_kernel::Clock;
use vink_trap::{Program, Status};

use crate::built::Built;
use crate::lab::{as_both, Lab, Running};
use crate::shared_ring::{hostile, lab, Library};

const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = include_str!("../ring/deferred_sends.py");

/// What a client prints on the host, whose server is there, too.
fn on_host(client: &[&str]) -> String {
    let mut server = Command::new(PYTHON)
        .args(["-c", SCRIPT, "server"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut port).unwrap();
    let output = Command::new(client[0])
        .args(&client[1..])
        .args(["127.0.0.1", port.trim()])
        .output();
    server.kill().unwrap();
    server.wait().unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A machine and another one with the server; programs on both post calls.
struct Pair<'a> {
    lab: &'a mut Lab,
    library: Library,
    server: Running,
}

impl Pair<'_> {
    fn new(lab: &mut Lab) -> Pair<'_> {
        let library = Library::new();
        let own = lab.machine;
        lab.machine = lab.neighbour();
        let server = Program::new(PYTHON).args(["-c", SCRIPT, "server"]);
        let mut server = lab.start_program(library.before(server));
        lab.until_written(&mut server, "\n");
        lab.machine = own;
        Pair {
            lab,
            library,
            server,
        }
    }

    /// Starts a client on the machine, with these words behind the server's address.
    fn start(&mut self, client: &[&str], more: &[&str]) -> Running {
        let port = self.server.out();
        let program = Program::new(client[0]).args(&client[1..]);
        let program = program.args(["10.0.0.2", port.trim()]).args(more);
        self.lab.start_program(self.library.before(program))
    }

    fn run(&mut self, client: &[&str], more: &[&str]) -> String {
        let running = self.start(client, more);
        let output = self.lab.finish(running);
        assert_eq!(output.status, Status::Exited(0), "{output:?}");
        output.out
    }

    fn end(self) {
        self.lab.worker.kill(self.server.id).unwrap();
        self.lab.finish(self.server);
    }
}

/// What a client prints on such a machine.
fn on_vink(lab: &mut Lab, client: &[&str]) -> String {
    let mut pair = Pair::new(lab);
    let out = pair.run(client, &[]);
    pair.end();
    out
}

/// On a clock of the lab's own there is always a worker to send them.
fn on(clock: Clock) -> Option<Lab> {
    match clock {
        Clock::Virtual => {
            let mut lab = Lab::on(clock);
            assert!(lab.worker.allow_shared_rings());
            Some(lab)
        }
        _ => lab(),
    }
}

fn is_as_on_host(clock: Clock, client: &[&str]) {
    let Some(mut lab) = on(clock) else { return };
    assert_eq!(on_vink(&mut lab, client), on_host(client));
    let sends = lab.worker.statistics().deferred_sends();
    assert!(sends > 0);
    println!("{sends} deferred sends");
}

/// One of the parts in C.
fn part_in_c(clock: Clock, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ring/deferred_sends.c");
    let built = Built::of(&source, &["-pthread"]);
    is_as_on_host(clock, &[built.line(), name]);
}

/// One of those in Python.
fn part(clock: Clock, name: &str) {
    is_as_on_host(clock, &[PYTHON, "-c", SCRIPT, name]);
}

/// Tests of this file, or of a module in it, by the names of their parts.
macro_rules! parts {
    ($path:literal, $clock:expr, $part:path: $($name:ident)*) => {
        $(#[test]
        fn $name() {
            as_both(concat!($path, stringify!($name)), || {
                $part($clock, stringify!($name));
            });
        })*
    };
}

parts! { "deferred_sends::", Clock::Real, part: requests ends full reset shared asked mixed }
parts! { "deferred_sends::", Clock::Real, part_in_c: threads signals between killed }

/// There what is deferred is sent with the process's next trapped call.
mod in_virtual_time {
    use super::*;

    parts! { "deferred_sends::in_virtual_time::", Clock::Virtual, part:
    requests few_ends full shared asked mixed }
    parts! { "deferred_sends::in_virtual_time::", Clock::Virtual, part_in_c: threads killed }

    /// A server that tells when requests come, and a client that sends some after its last trapped call
    /// before it computes, and before it dies.
    const ECHO: &str = "
import ctypes, socket, sys, time
def told(*what): print(round(time.monotonic() - begun, 6), *what, flush=True)
def serve():
    with socket.create_server(('', 7)) as l:
        print('listens', flush=True)
        global begun
        c = l.accept()[0]
        begun = time.monotonic()
        while data := c.recv(100):
            told(data)
            c.send(data.upper())
def ask():
    global begun
    s = socket.create_connection(('10.0.0.2', 7))
    begun = time.monotonic()
    for n in range(300):
        s.send(b'%d' % n)
        told(s.recv(100))
        if n % 30 == 0: time.sleep(0.5)
    s.send(b'last')
    s.recv(100)
    s.send(b'left')
    ctypes.string_at(0)
globals()[sys.argv[1]]()
";

    /// What both print.
    fn echoes(is_shared: bool) -> (String, String, u64) {
        let mut lab = Lab::on(Clock::Virtual);
        let library = is_shared.then(Library::new);
        if is_shared {
            assert!(lab.worker.allow_shared_rings());
        }
        let own = lab.machine;
        let start = |lab: &mut Lab, what: &str| {
            let program = Program::new(PYTHON).args(["-c", ECHO, what]);
            lab.start_program(match &library {
                Some(library) => library.before(program),
                None => program,
            })
        };
        lab.machine = lab.neighbour_at(Duration::from_millis(10));
        let mut server = start(&mut lab, "serve");
        lab.until_written(&mut server, "listens\n");
        lab.machine = own;
        let client = start(&mut lab, "ask");
        let client = lab.finish(client);
        assert_eq!(client.status, Status::Killed(libc::SIGSEGV), "{client:?}");
        let server = lab.finish(server);
        let sends = lab.worker.statistics().deferred_sends();
        (client.out, server.out, sends)
    }

    #[test]
    fn all_comes_at_the_same_time() {
        as_both(
            "deferred_sends::in_virtual_time::all_comes_at_the_same_time",
            || {
                let (trapped, shared) = (echoes(false), echoes(true));
                assert_eq!((&shared.0, &shared.1), (&trapped.0, &trapped.1));
                assert!(shared.1.contains("b'left'"), "{}", shared.1);
                assert!(trapped.2 == 0 && shared.2 >= 400, "{}", shared.2);
            },
        );
    }
}

/// The number that the victim has on the host: the one that it prints is its machine's. It is the
/// worker's child.
fn victim_on_host() -> String {
    let own = format!("PPid:\t{}\n", std::process::id());
    let is_victim = |process: &Path| {
        let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
        read("status").contains(&own) && read("cmdline").contains("\0victim\0")
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = all.map(|entry| entry.path()).filter(|path| is_victim(path));
    let victim = found.next().expect("it has just printed a line");
    victim.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Whether a process is dead, or else waits for something; proc_pid_stat(5).
fn is_dead(pid: &str) -> bool {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        match stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next())
        {
            Some('Z') => return true,
            Some('S' | 'D') => return false,
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn left_by_the_dead() {
    as_both("deferred_sends::left_by_the_dead", || {
        let Some(mut lab) = lab() else { return };
        let mut pair = Pair::new(&mut lab);
        let name = format!("vink-sends-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let word = path.to_str().unwrap();
        let mut found = 0;
        // A victim that finds the worker asleep makes system calls: then another one is to try.
        for n in 0..200 {
            std::fs::write(&path, [0]).unwrap();
            let number = n.to_string();
            let mut victim = pair.start(&[PYTHON, "-c", SCRIPT, "victim"], &[&number, word]);
            while victim.out().lines().nth(1).is_none() {
                pair.lab.worker.step(Some(Duration::ZERO)).unwrap();
            }
            let pid = victim_on_host();
            let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all(&[1]).unwrap();
            let before = pair.lab.worker.statistics().deferred_sends();
            let was_dead = is_dead(&pid);
            pair.lab.finish(victim);
            let sends = pair.lab.worker.statistics().deferred_sends() - before;
            found += u32::from(was_dead && sends >= 10);
            pair.run(&[PYTHON, "-c", SCRIPT, "buried"], &[&number]);
            if found == 3 {
                break;
            }
        }
        std::fs::remove_file(&path).unwrap();
        pair.end();
        assert_eq!(found, 3);
    });
}

#[test]
fn beside_garbage() {
    as_both("deferred_sends::beside_garbage", || {
        let Some(mut lab) = lab() else { return };
        let (_hostile, line) = hostile(3000);
        let hostile = lab.start(&line);
        let client = [PYTHON, "-c", SCRIPT, "requests"];
        assert_eq!(on_vink(&mut lab, &client), "400 answers\n");
        assert_eq!(lab.finish(hostile).out, "done\n");
    });
}
