//! `vink debug`: gdb stops in the stack, changes it, and the kernel's clock stands still meanwhile.

mod common;

use common::Place;

/// A connection of a program to itself, and what ss sees of it.
const PROGRAM: &str = "
import socket, subprocess
listener = socket.create_server(('127.0.0.1', 8000))
client = socket.create_connection(('127.0.0.1', 8000))
subprocess.run(['ss', '-tinH', 'state', 'established', 'dport', '=', ':8000'])
";

/// What gdb and the program say when gdb carries out these commands.
fn debug(place: &Place, commands: &[&str]) -> String {
    let mut command = place.vink(&["debug", "--batch"]);
    for text in commands {
        command.args(["-x", text]);
    }
    command.args(["--", "--uplink", "none", "--", "python3", "-c", PROGRAM]);
    let output = command.output().expect("vink debug");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn a_panic_ends_the_program_with_its_status() {
    let place = &Place::all()[0];
    let said = debug(
        place,
        &[
            "break tcp_v4_connect",
            "run",
            "set var sk = 0",
            "delete",
            "continue",
        ],
    );
    assert!(
        said.contains("vink: kernel panic: Unable to handle a fault"),
        "{said}"
    );
    assert!(said.contains("    tcp_v4_connect+"), "{said}");
    // 121.
    assert!(said.contains("exited with code 0171"), "{said}");
}

#[test]
fn a_window_is_changed() {
    // Only who has built the image can read its debug information: it is beside the objects.
    let place = &Place::all()[0];
    let said = debug(
        place,
        &[
            "break tcp_v4_connect",
            "run",
            "print ((struct tcp_sock *)sk)->snd_cwnd",
            "vink-machine",
            "vink-machine vink",
            "vink-socks vink",
            "vink-pcb sk /^snd_cwnd$",
            "vink-tasks",
            // The connection gets its window when it is made.
            "tbreak tcp_init_transfer",
            "continue",
            "set var $sk = sk",
            "finish",
            "set var ((struct tcp_sock *)$sk)->snd_cwnd = 77",
            "continue",
        ],
    );
    for part in [
        "Breakpoint 1, tcp_v4_connect",
        "$1 = 10",
        "1 vink ",
        "1 lo               up   mtu 65536",
        "inet tcp LISTEN 127.0.0.1:8000",
        "snd_cwnd = 10",
        " init             vink             runs",
        "cwnd:77",
    ] {
        assert!(
            said.contains(part),
            "{}: no {part:?} in\n{said}",
            place.user()
        );
    }
}

#[test]
fn the_clock_stands_still() {
    let place = &Place::all()[0];
    // The SYN is on its way: were time to pass, it would be sent again after a second.
    let said = debug(
        place,
        &[
            "tbreak tcp_v4_rcv",
            "run",
            "vink-skb skb",
            "vink-bt",
            "shell sleep 2.5",
            "continue",
        ],
    );
    assert!(said.contains("127.0.0.1 > 127.0.0.1 TCP"), "{said}");
    assert!(said.contains("[S] seq"), "{said}");
    // The kernel's threads wait where they were begun.
    assert!(said.contains("in worker_thread"), "{said}");
    assert!(said.contains("in vink_fiber_start"), "{said}");
    assert!(said.contains("cwnd:10"), "{said}");
    assert!(!said.contains("retrans:"), "{said}");
}

#[test]
fn mistakes_are_named() {
    let place = &Place::all()[0];
    let said = debug(place, &["vink-machine", "run"]);
    assert!(said.contains("no image is loaded yet"), "{said}");
    let said = debug(
        place,
        &["break tcp_v4_connect", "run", "vink-pcb 99", "continue"],
    );
    assert!(said.contains("has no socket 99"), "{said}");
}
