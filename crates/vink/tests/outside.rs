//! The commands of docs/outside.md, docs/driver.md and docs/share.md, block by block, each in a network of its own.

mod common;

use std::fs;
use std::process::Command;

use common::{root, Place};

/// The lines after `$ ` of each console block.
fn blocks(text: &str) -> Vec<String> {
    let parts = text.split("```console\n").skip(1);
    let bodies = parts.map(|part| part.split("```").next().unwrap_or_default());
    let commands = bodies.map(|body| {
        let lines = body.lines().filter_map(|line| line.strip_prefix("$ "));
        lines.collect::<Vec<_>>().join("\n")
    });
    commands.collect()
}

/// A command in a network that is its own, in which it is root.
fn alone(place: &Place, script: &str) -> Command {
    let mut command = place.command("unshare");
    if !vink_sys::process::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--", "bash", "-ec", script]);
    command
}

#[test]
fn what_the_page_shows_works() {
    let place = &Place::all()[0];
    let read = |name: &str| fs::read_to_string(root().join("docs").join(name)).expect("the page");
    let pages = ["outside.md", "driver.md", "share.md"].map(|name| blocks(&read(name)));
    let counts = pages.each_ref().map(Vec::len);
    assert_eq!(counts, [5, 2, 1], "{pages:?}");
    for block in pages.into_iter().flatten() {
        let tap = block.contains(" tap ");
        let mut script = format!("ip link set lo up\n{block}");
        let opened = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun");
        if tap && opened.is_err() {
            // Not every user may, and then it says what helps.
            script = "! vink run --uplink tap:vink0 -- true".to_owned();
        }
        let output = alone(place, &script).output().expect("bash");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{block}\n{}{errors}",
            String::from_utf8_lossy(&output.stdout)
        );
        if tap && opened.is_err() {
            assert!(errors.contains("as root: "), "{errors}");
        }
    }
}

#[test]
fn programs_with_the_stack_in_their_process_reach_the_host_in_the_same_ways() {
    let place = &Place::all()[0];
    let page = fs::read_to_string(root().join("docs/outside.md")).expect("the page");
    let mut found = 0;
    for block in blocks(&page) {
        if !block.contains("tap:") && !block.contains("interface:") {
            continue;
        }
        found += 1;
        let tun = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun");
        if block.contains("tap:") && tun.is_err() {
            // Not every user may.
            continue;
        }
        let block = block.replace("vink run ", "vink run --in-process ");
        let output = alone(place, &format!("ip link set lo up\n{block}")).output();
        let output = output.expect("bash");
        let errors = String::from_utf8_lossy(&output.stderr);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{block}\n{shown}{errors}");
    }
    assert_eq!(found, 2);
}

#[test]
fn what_does_not_go_together() {
    let place = &Place::all()[0];
    let tap = ["--uplink", "tap:vink0"];
    for (options, text) in [
        (
            &["--address", "10.9.0.2/24"][..],
            "passt, which gives its own",
        ),
        (
            &["--uplink", "none", "--gateway", "10.9.0.1"],
            "leave --uplink none away",
        ),
        (&[tap[0], tap[1], "-p", "8080:80"], "--publish is for passt"),
        (&["--uplink", "tap:"], "1 to 15 bytes"),
        (
            &["--uplink", "udp:localhost:1"],
            "two addresses with their ports",
        ),
        (&["--uplink", "interface:nowhere0"], "nowhere0"),
        (
            &["--uplink", "qemu:/no/such/folder/socket"],
            "is its folder there?",
        ),
    ] {
        let words = [&["run"], options, &["--", "true"]].concat();
        let output = alone(place, &format!("exec vink {}", words.join(" "))).output();
        let output = output.expect("vink");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options:?}");
        assert!(errors.contains(text), "{options:?}: {errors}");
    }
}

#[test]
fn what_is_not_allowed() {
    let place = &Place::all()[0];
    for (capability, uplink, text) in [
        ("net_raw", "interface:lo", "CAP_NET_RAW: run it as root"),
        ("net_admin", "tap:vink0", "as root: "),
    ] {
        let without = format!("setpriv --bounding-set=-{capability} --inh-caps=-{capability}");
        let script = format!("exec {without} vink run --uplink {uplink} -- true");
        let output = alone(place, &script).output().expect("vink");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{uplink}");
        assert!(errors.contains(text), "{uplink}: {errors}");
    }
}

#[test]
fn says_what_has_become_of_it() {
    let place = &Place::all()[0];
    let script = "ip link add host0 type veth peer name plug0; ip link set host0 up
        ip link set plug0 up
        vink run --uplink interface:plug0 -- sh -c '
            echo ready
            read line
            until grep -q 0 /sys/class/net/eth0/carrier; do sleep 0.05; done
            echo gone
            until grep -q 1 /sys/class/net/eth0/carrier; do sleep 0.05; done' < go > told &
        exec 3> go 4< told
        read line <&4
        ip link set host0 down
        echo on >&3
        read line <&4
        ip link set host0 up
        wait $!";
    let script = format!("mkfifo go told\n{script}");
    let output = alone(place, &script).output().expect("bash");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = "vink: the uplink interface:plug0: the host's interface plug0 has no carrier\n\
                vink: the uplink interface:plug0: up\n";
    assert_eq!(errors, said);
}
