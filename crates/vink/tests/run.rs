//! `vink run` passes everything through: status, signals, terminal, standard descriptors.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use common::{is_readable, Place};

/// Status (negative: killed by that signal), standard output, standard error.
fn outcome(mut command: Command) -> (i32, String, String) {
    let output = command.output().expect("running it");
    let status = output
        .status
        .code()
        .or(output.status.signal().map(|s| -s))
        .expect("a status");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status, text(&output.stdout), text(&output.stderr))
}

#[test]
fn ends_as_the_program_ends() {
    for place in Place::all() {
        let status = |script: &str| {
            outcome(place.vink(&["run", "--uplink", "none", "--", "sh", "-c", script]))
        };
        for (script, expected) in [
            ("exit 0", 0),
            ("exit 7", 7),
            ("exit 255", 255),
            ("kill -TERM $$", -15),
            ("kill -KILL $$", -9),
            ("ulimit -c 0; kill -SEGV $$", -11),
            ("(exit 3)", 3),
        ] {
            assert_eq!(
                status(script),
                (expected, String::new(), String::new()),
                "{script}, {}",
                place.user()
            );
        }
    }
}

#[test]
fn says_what_it_cannot_do() {
    for place in Place::all() {
        let folder = place.folder().display().to_string();
        let cases: [(&[&str], i32, &str); 8] = [
            (
                &["run", "--uplink", "none", "--", "no-such-program"],
                127,
                "vink: cannot run 'no-such-program': ",
            ),
            (
                &["run", "--uplink", "none", "--", "/no/such/program"],
                127,
                "vink: cannot run '/no/such/program': ",
            ),
            (
                &["run", "--uplink", "none", "--", "/etc/passwd"],
                126,
                "vink: cannot run '/etc/passwd': ",
            ),
            (
                &[
                    "run",
                    "--uplink",
                    "none",
                    "--image",
                    "/etc/passwd",
                    "--",
                    "true",
                ],
                125,
                "vink: /etc/passwd is not a Vink image",
            ),
            (
                &[
                    "run",
                    "--uplink",
                    "none",
                    "--image",
                    "/no/image",
                    "--",
                    "true",
                ],
                125,
                "vink: ",
            ),
            (
                &["run", "--uplink", "none", "--arena", "1M", "--", "true"],
                125,
                "vink: an arena of 1048576 bytes: ",
            ),
            (
                &["run", "--uplink", "none", "--arena", "1X", "--", "true"],
                2,
                "error: invalid value '1X'",
            ),
            (
                &["run", "--uplink", "none", "--image", &folder, "--", "true"],
                125,
                "vink: ",
            ),
        ];
        for (arguments, status, start) in cases {
            let (found, out, err) = outcome(place.vink(arguments));
            assert_eq!(
                (found, out.as_str()),
                (status, ""),
                "{arguments:?}, {}: {err}",
                place.user()
            );
            assert!(
                err.starts_with(start),
                "{arguments:?}, {}: {err}",
                place.user()
            );
        }
    }
}

#[test]
fn a_panic_has_a_status_of_its_own() {
    for place in Place::all() {
        let arguments = [
            "run",
            "--uplink",
            "none",
            "--cmdline",
            "rdinit=/no init=/no",
            "--",
            "true",
        ];
        let (status, out, err) = outcome(place.vink(&arguments));
        assert_eq!((status, out.as_str()), (121, ""), "{}: {err}", place.user());
        assert!(
            err.contains("vink: kernel panic: Requested init /no failed"),
            "{}: {err}",
            place.user()
        );
        assert!(
            err.contains("Linux version 6.12"),
            "the log, {}: {err}",
            place.user()
        );
        assert!(
            err.contains("\n    kernel_init"),
            "the backtrace, {}: {err}",
            place.user()
        );
    }
}

#[test]
fn a_machine_has_its_loopback_interface_and_nothing_else() {
    for place in Place::all() {
        let (status, out, err) =
            outcome(place.vink(&["run", "--uplink", "none", "--", "ip", "-brief", "address"]));
        assert_eq!(status, 0, "{}: {err}", place.user());
        let words: Vec<_> = out.split_whitespace().collect();
        assert_eq!(
            words,
            ["lo", "UNKNOWN", "127.0.0.1/8", "::1/128"],
            "{}",
            place.user()
        );

        let (status, out, err) = outcome(place.vink(&[
            "run",
            "--uplink",
            "none",
            "--",
            "ping",
            "-c",
            "1",
            "127.0.0.1",
        ]));
        assert_eq!(status, 0, "{}: {err}", place.user());
        assert!(out.contains(" 0% packet loss"), "{}: {out}", place.user());
    }
}

#[test]
fn a_machine_has_its_own_name_and_files() {
    for place in Place::all() {
        let script =
            "hostname; cat /etc/hostname /etc/passwd; getent hosts alpha; cat /etc/resolv.conf; pwd";
        let root = place.folder().join("root/etc");
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(root.join("passwd"), "root:x:0:0:of alpha:/:\n").expect("a file");
        let arguments = [
            "run",
            "--uplink",
            "none",
            "--machine",
            "alpha",
            "--root",
            "root",
        ];
        let mut command = place.vink(&arguments);
        command.args(["--", "sh", "-c", script]);
        let (status, out, err) = outcome(command);
        assert_eq!(status, 0, "{}: {err}", place.user());
        let lines: Vec<_> = out.lines().collect();
        let here = place.folder().display().to_string();
        let expected = [
            "alpha",
            "alpha",
            "root:x:0:0:of alpha:/:",
            "127.0.1.1       alpha",
            here.as_str(),
        ];
        assert_eq!(lines, expected, "{}", place.user());

        let arguments = [
            "run",
            "--uplink",
            "none",
            "--root",
            "/no/such/folder",
            "--",
            "true",
        ];
        let (status, _, err) = outcome(place.vink(&arguments));
        assert_eq!(status, 125, "{}: {err}", place.user());
        assert!(
            err.starts_with("vink: /no/such/folder: No such file"),
            "{}: {err}",
            place.user()
        );
    }
}

#[test]
fn a_machine_can_be_administered_by_every_user() {
    let script = "set -e
        ip link add d0 type dummy; ip addr add 10.1.1.1/24 dev d0; ip link set d0 up; ip route
        tc qdisc add dev lo root netem delay 1ms; tc qdisc show dev lo
        nft add table ip t; nft list ruleset
        ping -c 1 10.1.1.1; ping -6 -c 1 ::1
        hostname changed; hostname";
    for place in Place::all() {
        let (status, out, err) =
            outcome(place.vink(&["run", "--uplink", "none", "--", "sh", "-c", script]));
        assert_eq!(status, 0, "{}: {err}", place.user());
        for part in [
            "10.1.1.0/24 dev d0",
            "netem",
            "table ip t",
            "1 received, 0% packet loss",
            "changed",
        ] {
            assert!(out.contains(part), "{part}, {}: {out}", place.user());
        }
    }
}

#[test]
fn standard_descriptors_are_the_callers() {
    for place in Place::all() {
        let mut command = place.vink(&[
            "run",
            "--uplink",
            "none",
            "--",
            "sh",
            "-c",
            "cat; echo error >&2",
        ]);
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("vink");
        let text = "line\n".repeat(100_000);
        let mut input = child.stdin.take().expect("its input");
        let writer = std::thread::spawn({
            let text = text.clone();
            move || input.write_all(text.as_bytes())
        });
        let output = child.wait_with_output().expect("its output");
        writer.join().expect("the writer").expect("writing");
        assert!(
            output.stdout == text.as_bytes(),
            "{} bytes, {}",
            output.stdout.len(),
            place.user()
        );
        assert_eq!(output.stderr, b"error\n", "{}", place.user());
    }
}

#[test]
fn signals_are_passed_on() {
    for place in Place::all() {
        for (name, number) in [
            ("TERM", libc::SIGTERM),
            ("HUP", libc::SIGHUP),
            ("WINCH", libc::SIGWINCH),
        ] {
            // A signal just before its read(2) the shell would only see when that is done; wait does not miss one.
            let script = format!("sleep 1000 & trap 'exit 9' {name}; echo ready; wait");
            let mut command = place.vink(&["run", "--uplink", "none", "--", "sh", "-c", &script]);
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("vink");
            // Kept open: the program waits for it.
            let _input = child.stdin.take();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().expect("its output"))
                .read_line(&mut line)
                .expect("a line");
            assert_eq!(line, "ready\n", "{}", place.user());
            vink_sys::process::kill(child.id() as i32, number).expect("it is there");
            assert_eq!(
                child.wait().expect("its status").code(),
                Some(9),
                "{name}, {}",
                place.user()
            );
        }
    }
}

/// A shell's line in a terminal of its own, with its keyboard and its screen as pipes (script(1)).
fn in_a_terminal(place: &Place, line: &str) -> Command {
    let mut command = place.command("script");
    command
        .args(["-qefc", line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The terminal sends its signals to both; the program must see one, and vink must not end.
#[test]
fn control_c_is_the_programs() {
    for place in Place::all() {
        // Not as a child of the shell that script(1) starts: some shells end by the signal as well.
        let program = "exec vink run --uplink none -- sh -c 'n=0; trap \"n=$((n+1))\" INT; echo ready; read line; echo caught $n; exit 5'";
        let mut child = in_a_terminal(&place, program).spawn().expect("script(1)");
        let mut input = child.stdin.take().expect("the terminal's keyboard");
        let mut screen = BufReader::new(child.stdout.take().expect("the terminal's screen"));
        let mut line = String::new();
        screen.read_line(&mut line).expect("a line");
        assert_eq!(line.trim_end(), "ready", "{}", place.user());
        input.write_all(b"\x03").expect("Ctrl-C");
        // The terminal shows it once it has sent the signal.
        let mut echo = [0; 2];
        screen.read_exact(&mut echo).expect("an echo");
        assert_eq!(&echo, b"^C", "{}", place.user());
        // In case it came just before the program's read.
        input.write_all(b"\n").expect("a line");
        let mut rest = String::new();
        screen.read_to_string(&mut rest).expect("the rest");
        assert!(rest.contains("caught 1"), "{}: {rest:?}", place.user());
        assert_eq!(
            child.wait().expect("a status").code(),
            Some(5),
            "{}",
            place.user()
        );
    }
}

/// A program that lends its terminal to another process group, as debuggers and shells do, has it back afterwards,
/// and so has whatever comes after vink.
#[test]
fn a_terminal_is_given_back() {
    const LENDS: &str = "
import os, signal
had = os.tcgetpgrp(0)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    os._exit(os.tcgetpgrp(0) != os.getpid())
print(os.waitpid(child, 0)[1], flush=True)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
os.tcsetpgrp(0, had)
print(os.tcgetpgrp(0) == had, input(), flush=True)
os.execlp('bash', 'bash', '--norc', '-ic', 'exit')
"; // Which takes the terminal, and does not give it back.
    for place in Place::all() {
        let line = "vink run --uplink none -- python3 -c \"$LENDS\"; read word; echo then $word";
        let mut child = in_a_terminal(&place, line)
            .env("LENDS", LENDS)
            .spawn()
            .expect("script(1)");
        let mut input = child.stdin.take().expect("the terminal's keyboard");
        input.write_all(b"first\nsecond\n").expect("lines");
        let mut screen = child.stdout.take().expect("the terminal's screen");
        let mut shown = String::new();
        assert!(is_readable(&screen), "{}", place.user());
        screen.read_to_string(&mut shown).expect("the screen");
        for text in ["0\r\n", "True first\r\n", "then second\r\n"] {
            assert!(shown.contains(text), "{}: {shown:?}", place.user());
        }
        assert!(child.wait().expect("a status").success());
    }
}

/// Not even vink's own death spares what its program has started and let go.
#[test]
fn nothing_outlives_a_killed_vink() {
    const STARTS: &str = "
        sleep 1000 & setsid sh -c 'sleep 1000 &'
        unshare --net sh -c 'setsid sleep 1000 &'
        echo started; wait";
    for place in Place::all() {
        let mut command = place.vink(&["run", "--uplink", "none", "--", "sh", "-c", STARTS]);
        let mut vink = command.stdout(Stdio::piped()).spawn().expect("vink");
        let mut output = BufReader::new(vink.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "started\n", "{}", place.user());
        vink.kill().expect("its death");
        vink.wait().expect("its status");
        // Each of them has it open.
        let ended = is_readable(output.get_ref());
        assert!(ended, "{}: something lives", place.user());
        assert_eq!(output.read(&mut [0]).expect("the end"), 0);
    }
}

/// A job whose program waits in a call on a socket: Ctrl-Z, fg, and the call goes on.
#[test]
fn a_job_stops_and_goes_on() {
    // The wake-up descriptor is written to in the signal's own handler. Python's handler runs later, and another signal
    // that comes while it does is forgotten until its call has ended.
    const WAITS: &str = "
import os, signal, socket, threading
told, tell = os.pipe()
os.set_blocking(tell, False)
signal.set_wakeup_fd(tell)
signal.signal(signal.SIGCONT, lambda *_: None)
l = socket.create_server((\"127.0.0.1\", 7))
a = socket.create_connection(l.getsockname())
b = l.accept()[0]
def say():
    while os.read(told, 1):
        os.write(1, b\"go\" + b\"ing\\n\")
def pass_on():
    a.sendall(input().encode())
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
for does in say, pass_on:
    threading.Thread(target=does, daemon=True).start()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCONT])
print(\"rea\" + \"dy\", flush=True)
print(\"has \" + b.recv(100).decode(), flush=True)
";
    for place in Place::all() {
        let mut child = in_a_terminal(&place, "exec bash --norc --noprofile -i")
            .env("TERM", "dumb")
            .env("PS1", "next: ")
            .env("WAITS", WAITS)
            .spawn()
            .expect("script(1)");
        let mut input = child.stdin.take().expect("the terminal's keyboard");
        let mut screen = child.stdout.take().expect("the terminal's screen");
        let mut shown = String::new();
        let mut until = |text: &str| {
            let mut some = [0; 1000];
            while !shown.contains(text) {
                let said = || format!("{}: {text:?} in {shown:?}", place.user());
                assert!(is_readable(&screen), "nothing more comes: {}", said());
                let count = screen.read(&mut some).expect("the screen");
                assert_ne!(count, 0, "the end: {}", said());
                shown += &String::from_utf8_lossy(&some[..count]);
            }
            let end = shown.find(text).expect("just found") + text.len();
            shown.drain(..end);
        };
        let mut enter = |keys: &str| input.write_all(keys.as_bytes()).expect("keys");
        enter("vink run -- python3 -c \"$WAITS\"\n");
        until("ready");
        for _ in 0..3 {
            enter("\x1a");
            until("Stopped");
            until("next: ");
            enter("fg\n");
            until("going");
        }
        enter("words\n");
        until("has words");
        enter("exit 3\n");
        assert_eq!(
            child.wait().expect("a status").code(),
            Some(3),
            "{}",
            place.user()
        );
    }
}

#[test]
fn nothing_is_left_behind() {
    for place in Place::all() {
        // The sleepers have the output open, so that it has no end as long as they live.
        let script = "sleep 1000 & sleep 1000 & echo started";
        let (status, out, err) =
            outcome(place.vink(&["run", "--uplink", "none", "--", "sh", "-c", script]));
        assert_eq!(
            (status, out.as_str()),
            (0, "started\n"),
            "{}: {err}",
            place.user()
        );
    }
}

#[test]
fn programs_that_ask_for_time_in_virtual_time() {
    let place = &Place::all()[0];
    let python = |script| {
        let line = ["run", "--time", "virtual", "--", "/usr/bin/python3", "-c"];
        place.vink(&[&line[..], &[script]].concat())
    };
    let script = "import time\nend = time.monotonic() + 0.01\nwhile time.monotonic() < end: pass";
    let (status, _, said) = outcome(python(script));
    assert_eq!(status, 0, "{said}");
    assert!(
        said.starts_with("vink: python3 (process ") && said.contains("last call: clock_gettime)"),
        "{said}"
    );
    let (status, _, said) = outcome(place.vink(&["run", "--rdtsc", "--", "true"]));
    assert_ne!(status, 0);
    assert!(said.contains("add --time virtual"), "{said}");
    let line = ["run", "--time", "virtual", "--rdtsc", "--", "sleep", "100"];
    assert_eq!(outcome(place.vink(&line)).0, 0);
    // A thread that makes no call is named while that lasts.
    let mut vink = python("while True: pass")
        .stderr(Stdio::piped())
        .spawn()
        .expect("vink");
    let mut said = String::new();
    let errors = vink.stderr.take().expect("a pipe");
    BufReader::new(errors).read_line(&mut said).expect("text");
    vink.kill().expect("a process");
    vink.wait().expect("its end");
    assert!(
        said.starts_with("vink: python3 (process ")
            && said.contains("last call: ")
            && said.ends_with(" s, and all wait for it\n"),
        "{said}"
    );
}

/// As by `| head`: the command ends as by the signal, and says nothing.
#[test]
fn a_command_whose_reader_has_gone_ends_quietly() {
    for place in Place::all() {
        for command in ["version", "doctor"] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let vink = place.vink(&[command]).stdout(writer).output();
            let output = vink.expect("vink");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.signal(),
                Some(libc::SIGPIPE),
                "{command}: {said}"
            );
            assert_eq!(said, "", "{command}");
        }
    }
}

#[test]
fn doctor_finds_what_run_needs() {
    for place in Place::all() {
        let output = place.vink(&["doctor"]).output().expect("vink");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {text}", place.user());
        for found in ["ok      namespaces: ", "ok      process wall: "] {
            assert!(text.contains(&format!("\n{found}")), "{text}");
        }
        // Whichever the host has.
        for known in [" wasm wall: ", " key wall: "] {
            assert!(text.contains(known), "{text}");
        }
        let address = match vink_sys::process::is_root() && !place.is_nobody() {
            true => "ok      host's address: the rights are there",
            false => "absent  host's address: this process has no CAP_NET_ADMIN and no CAP_NET_RAW",
        };
        assert!(text.contains(&format!("\n{address}")), "{text}");
    }
}
