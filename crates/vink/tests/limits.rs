//! What runs out is an error for the program that asks for too much, and is told; other programs and signals are served.

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use common::Place;

/// A command that is killed after two minutes: what has to end by itself ends sooner.
fn limited(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command("timeout");
    command
        .args(["-s", "KILL", "120"])
        .arg(place.folder().join("vink"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output(mut command: Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("running it");
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_full_arena_is_an_error_for_the_program_and_told() {
    for place in Place::all() {
        let lines: String = (0..1000)
            .map(|n| format!("link add d{n} type dummy\n"))
            .collect();
        let script = "ip -force -batch -; echo served";
        let run = [
            "run", "--arena", "16M", "--uplink", "none", "--", "sh", "-c", script,
        ];
        let mut command = limited(&place, &run);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut vink = command.spawn().expect("running it");
        let mut stdin = vink.stdin.take().expect("its input");
        stdin.write_all(lines.as_bytes()).expect("a batch");
        drop(stdin);
        let done = vink.wait_with_output().expect("its end");
        let (out, err) = (text(&done.stdout), text(&done.stderr));
        let refused = err.matches("RTNETLINK answers:").count();
        assert!(
            (1..1000).contains(&refused),
            "{refused} refused, {}: {err}",
            place.user()
        );
        assert!(
            err.contains("vink: the kernel's memory was full"),
            "{}: {err}",
            place.user()
        );
        assert_eq!(out, "served\n", "{}", place.user());
    }
}

/// Threads that each wait in the kernel, as many as it is told; prints how many there are.
const THREADS: &str = "
import os, socket, sys, threading
threading.stack_size(65536)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 0))
count = 0
try:
    for _ in range(int(sys.argv[1])):
        threading.Thread(target=lambda: s.recv(10), daemon=True).start()
        count += 1
except RuntimeError as error:
    print(error)
print(count, flush=True)
os._exit(0)
";

#[test]
fn two_thousand_threads_wait_in_the_kernel() {
    for place in Place::all() {
        let run = [
            "run", "--uplink", "none", "--", "python3", "-c", THREADS, "2000",
        ];
        let (code, out, err) = output(limited(&place, &run));
        assert_eq!(
            (code, out.as_str(), err.as_str()),
            (Some(0), "2000\n", ""),
            "{}",
            place.user()
        );
    }
}

#[test]
fn threads_that_have_no_room_are_explained() {
    let place = &Place::all()[0];
    let run = [
        "run", "--arena", "16M", "--uplink", "none", "--", "python3", "-c", THREADS, "2000",
    ];
    let (_, out, err) = output(limited(place, &run));
    assert!(out.starts_with("can't start new thread\n"), "{out}{err}");
    assert!(err.contains("give it more than --arena 16M"), "{err}");
}

/// Takes sockets until there are no more, waits meanwhile for another process to do its work, and says what ended it.
const GREEDY: &str = "
import errno, os, resource, socket, subprocess, sys
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
listener = socket.create_server(('127.0.0.1', 0))
taken = []
try:
    while True: taken.append(socket.socket())
except OSError as error:
    print(errno.errorcode[error.errno])
# The listener keeps a connection that there is no room for.
modest = '''
import socket, subprocess, sys
near = socket.create_connection((\"127.0.0.1\", int(sys.argv[1])))
far = [socket.socket() for _ in range(5)]
subprocess.run([\"true\"], check=True)
near.sendall(b\"all is well\")
'''
taken.pop().close()
taken.pop().close()
child = subprocess.Popen([sys.executable, '-c', modest, str(listener.getsockname()[1])])
if child.wait() == 0:
    accepted, _ = listener.accept()
    print(accepted.recv(100).decode())
print(len(taken) > int(sys.argv[1]))
";

/// Whether this process has CAP_SYS_RESOURCE.
fn raises_limits() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("its status");
    let mut lines = status
        .lines()
        .filter_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = lines.next().expect("capabilities").trim();
    u64::from_str_radix(capabilities, 16).expect("a mask") & 1 << 24 != 0
}

#[test]
fn a_program_that_takes_all_sockets_leaves_some_to_others() {
    for place in Place::all() {
        let mut command = place.command("sh");
        let run = "ulimit -n 400; exec timeout -s KILL 120 \"$0\" run --uplink none -- python3 -c \"$1\" $2";
        // With CAP_SYS_RESOURCE the worker has more than the program; otherwise as many, and two for each socket.
        let [errno, least] = match raises_limits() && !place.is_nobody() {
            true => ["EMFILE", "380"],
            false => ["ENFILE", "120"],
        };
        let vink = place.folder().join("vink");
        command.args(["-c", run]).arg(vink).args([GREEDY, least]);
        let (code, out, err) = output(command);
        let expected = format!("400 400\n{errno}\nall is well\nTrue\n");
        assert_eq!(
            (code, out, err),
            (Some(0), expected, String::new()),
            "{}",
            place.user()
        );
    }
}

#[test]
fn files_without_an_end_are_refused() {
    let place = &Place::all()[0];
    for (arguments, why) in [
        (&["lab", "check", "/dev/zero"][..], "it is a device"),
        (&["lab", "check", "/dev/tty"], "device"),
        (&["lab", "check", "/proc/kmsg"], "/proc/kmsg"),
        (&["plot", "/dev/zero", "-o", "x.svg"], "it is a device"),
        (&["replay", "/dev/zero"], "it is a device"),
        (
            &[
                "run",
                "--image",
                "/dev/zero",
                "--uplink",
                "none",
                "--",
                "true",
            ],
            "no image found: looked at /dev/zero",
        ),
    ] {
        let (code, out, err) = output(limited(place, arguments));
        assert!(
            code.is_some_and(|code| code != 0 && code != 137),
            "{arguments:?}: {code:?} {err}"
        );
        assert!(
            out.is_empty() && err.contains(why),
            "{arguments:?}: {out}{err}"
        );
    }
    // A pipe is read.
    let mut command = place.command("sh");
    command.args([
        "-c",
        "echo 'machines: {a: {}}' | timeout -s KILL 120 vink lab check /dev/stdin",
    ]);
    let (code, _, err) = output(command);
    assert_eq!(code, Some(0), "{err}");
}
