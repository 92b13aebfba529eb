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
    // gdb's status is 0 whatever its commands run into.
    for failure in ["Python Exception", "gdb.error", "Missing auto-load"] {
        assert!(!text.contains(failure), "{text}");
    }
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
    // Only the user that built the image can read its debug information: it is beside the objects.
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

/// The page's table has no other commands than these, and each shows what it says. Functions of the image's variables' names are
/// in another object, as in a release's `vink`: those of Rust.
#[test]
fn each_command_of_the_page_by_its_output() {
    let place = &Place::all()[0];
    let decoy = place.temporary().join("decoy.o");
    let names = ["machines", "init_task", "vink_current", "socket_file_ops"];
    let functions = names.map(|name| format!("int {name}(void) {{ return 0; }}\n"));
    std::fs::write(decoy.with_extension("c"), functions.concat()).expect("decoy.c");
    let compiled = std::process::Command::new("cc")
        .args(["-g", "-c", "-o"])
        .args([&decoy, &decoy.with_extension("c")])
        .status();
    assert!(compiled.expect("cc").success());
    let load = format!("add-symbol-file {} 0x10000", decoy.display());
    // Of each command: what it must say.
    let commands: [(&str, &[&str]); 9] = [
        (
            "vink-machine",
            &["    1 vink             (struct net *) 0x"],
        ),
        (
            "vink-machine vink",
            &["    1 lo               up   mtu 65536 (struct net_device *) 0x"],
        ),
        (
            "vink-tasks",
            &[
                "      2 kthreadd         -                waits",
                " init             vink             runs",
            ],
        ),
        (
            "vink-socks",
            &[
                "fd 0: inet tcp LISTEN 127.0.0.1:8000 0.0.0.0:0 (struct sock *) 0x",
                "fd 1: inet tcp CLOSE 0.0.0.0:0 0.0.0.0:0 (struct sock *) 0x",
            ],
        ),
        ("vink-socks nothing", &[]),
        ("vink-pcb 1 /^snd_cwnd$", &["snd_cwnd = 10"]),
        ("vink-pcb sk /^mss_cache$", &["mss_cache = 536"]),
        (
            "vink-bt 2",
            &[
                "task 2 (kthreadd):",
                "in kthreadd (",
                "in vink_fiber_start (",
            ],
        ),
        (
            "vink-skb skb",
            &[
                "segments 1 of",
                "IPv4 ttl 64 127.0.0.1 > 127.0.0.1 TCP",
                "[S] seq",
            ],
        ),
    ];
    let page = std::fs::read_to_string(common::root().join("docs/debugging.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| `vink-"));
    let mut shown = 0;
    for row in rows {
        let name = row[3..].split(['`', ' ']).next().expect("a name");
        let is_tried = |(command, _): &(&str, _)| command.split(' ').next() == Some(name);
        assert!(commands.iter().any(is_tried), "{name} is not tried");
        shown += 1;
    }
    assert_eq!(shown, 6, "commands in docs/debugging.md");
    let echoes: Vec<String> = commands
        .iter()
        .map(|(command, _)| format!("echo +++{command}\\n"))
        .collect();
    let mut script = vec![load.as_str(), "tbreak tcp_v4_connect", "run"];
    for (n, (command, _)) in commands.iter().enumerate() {
        if command.starts_with("vink-skb") {
            script.extend(["tbreak tcp_v4_rcv", "continue"]);
        }
        script.extend([echoes[n].as_str(), command]);
    }
    script.extend(["echo +++end\\n", "continue"]);
    let said = debug(place, &script);
    for (command, parts) in commands {
        let (_, rest) = said.split_once(&format!("+++{command}\n")).expect(command);
        let output = rest.split("+++").next().expect("what it says");
        for part in parts {
            assert!(output.contains(part), "{command}: no {part:?} in\n{output}");
        }
        assert!(
            !parts.is_empty() || output.is_empty(),
            "{command}: {output}"
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
