//! `vink capture` and the plugin for Wireshark: what is written, and what happens when it can't be.

mod common;

use std::fs;
use std::process::{Command, Output, Stdio};

use common::lab::Up;
use common::Place;

/// Starts `arguments` and pings until it ends by itself.
fn while_pinging(lab: &Up<'_>, mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a capture");
    while child.try_wait().expect("its state").is_none() {
        lab.on("alice", "ping -n -c 5 -i 0.01 10.0.0.2");
    }
    child.wait_with_output().expect("what it says")
}

fn vink(lab: &Up<'_>, arguments: &[&str]) -> Command {
    let mut command = lab.command("vink");
    command.args(arguments);
    command
}

/// Lines that tcpdump makes of a file.
fn read(lab: &Up<'_>, file: &str) -> Vec<String> {
    let output = lab.command("tcpdump").args(["-n", "-r", file]).output();
    let output = output.expect("tcpdump");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn packets_are_written() {
    for place in Place::all() {
        let lab = Up::new(&place, "hello");
        let capture = [
            "capture", "-c", "4", "-w", "a.pcapng", "alice", "eth0", "icmp",
        ];
        let output = while_pinging(&lab, vink(&lab, &capture));
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("4 packets captured"));
        let lines = read(&lab, "a.pcapng");
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(
            lines.iter().all(|line| line.contains("ICMP echo")),
            "{lines:?}"
        );
    }
}

#[test]
fn what_is_lost_is_said() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "hello");
    lab.vink(&["wire", "set", "w1", "loss", "100%"]);
    let mut command = vink(
        &lab,
        &[
            "capture", "-c", "2", "-w", "l.pcapng", "alice", "eth0", "icmp",
        ],
    );
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a capture");
    while child.try_wait().expect("its state").is_none() {
        // None of them is answered.
        lab.succeeds("alice", "ping -n -c 5 -i 0.01 -W 0.1 10.0.0.2");
    }
    let output = child.wait_with_output().expect("what it says");
    assert!(output.status.success(), "{output:?}");
    let file = fs::read(place.temporary().join("l.pcapng")).expect("the file");
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("dropped: "), "no comment");
}

#[test]
fn a_full_disk_ends_it() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "hello");
    let output = while_pinging(
        &lab,
        vink(&lab, &["capture", "-w", "/dev/full", "alice", "eth0"]),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("/dev/full") && said.contains("No space left"),
        "{said}"
    );
    // Nothing else is hurt.
    lab.on("alice", "ping -c 1 10.0.0.2");
}

#[test]
fn mistakes_are_named() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "hello");
    for (arguments, part) in [
        (vec!["capture", "-w", "x", "carol"], "carol"),
        (vec!["capture", "-w", "x", "alice", "eth9"], "eth9"),
        (
            vec!["capture", "-w", "x", "alice", "eth0", "not", "a", "filter"],
            "filter",
        ),
        (vec!["capture", "-w", "/nowhere/x", "alice"], "/nowhere/x"),
    ] {
        let output = vink(&lab, &arguments).output().expect("vink");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(part),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn wireshark_finds_interfaces() {
    let place = &Place::all()[0];
    let lab = Up::new(place, "hello");
    let list = lab.vink(&["extcap", "--extcap-interfaces", "--extcap-version=4.0"]);
    assert!(
        list.contains("interface {value=vink:hello:alice:eth0}"),
        "{list}"
    );
    let interface = "--extcap-interface=vink:hello:alice:eth0";
    let types = lab.vink(&["extcap", "--extcap-dlts", interface]);
    assert!(types.contains("{number=1}{name=EN10MB}"), "{types}");
    let fifo = place.temporary().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let path = fifo.to_str().expect("a path");
    let arguments = ["extcap", "--capture", interface, "--fifo", path];
    let mut plugin = vink(&lab, &arguments).spawn().expect("the plugin");
    // As Wireshark does: reads, and then closes.
    let reader = Command::new("timeout")
        .args(["60", "tcpdump", "-n", "-c", "2", "-r", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut reader = reader.expect("tcpdump");
    while reader.try_wait().expect("its state").is_none() {
        lab.on("alice", "ping -n -c 5 -i 0.01 10.0.0.2");
    }
    let output = reader.wait_with_output().expect("what it says");
    assert!(output.status.success(), "{output:?}");
    // The next packet finds no reader.
    while plugin.try_wait().expect("its state").is_none() {
        lab.on("alice", "ping -n -c 5 -i 0.01 10.0.0.2");
    }
}
