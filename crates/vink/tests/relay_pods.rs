//! Pods in relays: what they make of a connection's bytes and of datagrams, what ends, what waits.

mod common;

use common::control::Control;
use common::{root, Place};
use serde_json::Value;

/// Changes x into y on the way to the target, drops and ends what is to be dropped and ended, and
/// tells at a connection's end how much it was.
const POD: &str = r#"
#include <stdio.h>
#include <string.h>
#include <vink/pod.h>

POD();

static uint32_t totals[256];

int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
	static uint8_t changed[1 << 16];
	uint32_t at, *total = &totals[POD_CONNECTION(flags) % 256];
	char text[40];

	vink_count(flags & POD_BACKWARD ? 1 : 0, len);
	if (flags & POD_BACKWARD)
		return vink_emit(POD_ONWARD, bytes, len);
	if (flags & POD_END) {
		vink_emit(POD_ONWARD, text, snprintf(text, sizeof(text), "%u\n", *total));
		*total = 0;
		return 0;
	}
	*total += len;
	if (len >= 4 && !memcmp(bytes, "drop", 4))
		return 0;
	if (len >= 4 && !memcmp(bytes, "quit", 4)) {
		vink_emit(POD_BACK, "bye\n", 4);
		return POD_CLOSE;
	}
	if (len >= 5 && !memcmp(bytes, "fault", 5))
		*(volatile int *)8 = 0;
	for (at = 0; at < len; at++)
		changed[at] = bytes[at] == 'x' ? 'y' : bytes[at];
	return vink_emit(POD_ONWARD, changed, len);
}

int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	vink_count(2 + direction, len);
	if (direction == POD_ARRIVES)
		return POD_PASS;
	if (frame[0] == 'd')
		return POD_DROP;
	if (frame[0] == 'b') {
		vink_emit(POD_BACK, "bye", 3);
		return POD_DROP;
	}
	if (frame[0] == 'e')
		vink_emit(POD_ONWARD, frame, len);
	if (frame[0] == 'c') {
		frame[0] = 'C';
		return len;
	}
	return POD_PASS;
}
"#;

const LAB: &str = "
name: looked
machines:
  client: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
  r:
    interfaces:
      west: { wire: w1, addresses: [10.0.0.1/24] }
      east: { wire: w2, addresses: [10.0.1.1/24] }
    relays:
      text: { listen: 7000, to: 10.0.1.2:7000, path: text }
      free: { listen: 7002, to: 10.0.1.2:7000 }
      sum: { listen: 7003, to: 10.0.1.2:7003, path: slow }
      names: { protocol: udp, listen: 7001, to: 10.0.1.2:7001, path: names }
  server:
    interfaces: { eth0: { wire: w2, addresses: [10.0.1.2/24] } }
    programs:
      text: { command: \"exec socat -t 20 TCP-LISTEN:7000,fork,reuseaddr EXEC:cat\", ready: { port: 7000 } }
      sum: { command: \"exec socat -t 20 TCP-LISTEN:7003,fork,reuseaddr EXEC:sha256sum\", ready: { port: 7003 } }
      names: { app: echoserver -p 7001 }
wires: { w1: {}, w2: { delay: 1ms } }
pods:
  look: { file: look.so }
  pass: { file: pass.so }
paths:
  text: { stream: r, pods: [look, pass] }
  names: { stream: r, pods: [pass, look] }
  slow: { stream: r, pods: [pass], bytes: 100K, period: 10ms }
";

fn up(control: &Control<'_>, lab: &str) {
    for (name, source) in [("look", POD), ("pass", "#include <vink/pod.h>\nPOD();\n")] {
        control.write(&format!("{name}.c"), source);
        let mut cc = control.command("cc");
        cc.arg("-I").arg(root().join("include"));
        cc.args(["-shared", "-fPIC", "-o", &format!("{name}.so")]);
        let status = cc.arg(format!("{name}.c")).status().expect("cc");
        assert!(status.success());
    }
    control.write("lab.yaml", lab);
    control.vink(&["lab", "up"]);
}

fn on(control: &Control<'_>, line: &str) -> String {
    let output = control.try_vink(&["exec", "client", "--", "sh", "-c", line]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What comes back of a text that is sent to the relay at a port.
fn said(control: &Control<'_>, port: u16, text: &str) -> String {
    on(
        control,
        &format!("printf '{text}' | socat -t 20 - TCP:10.0.0.1:{port}"),
    )
}

fn numbers(control: &Control<'_>, path: &str) -> Value {
    control.json(&["path", "stat", path, "--json"])["numbers"].clone()
}

#[test]
fn what_pods_make_of_connections_and_datagrams() {
    for place in Place::all() {
        for time in ["", "time: virtual\n"] {
            let control = Control::of(&place);
            up(&control, &format!("{time}{LAB}"));
            let text = |text: &str| said(&control, 7000, text);
            assert_eq!(text("xaxb\\n"), "yayb\n5\n", "{}", place.user());
            assert_eq!(text("drop\\n"), "5\n");
            assert_eq!(text("quit"), "bye\n");
            assert_eq!(said(&control, 7002, "quit"), "quit", "another relay");
            let n = numbers(&control, "text");
            assert_eq!(
                [&n["packets"], &n["bytes"], &n["lost"], &n["dropped"]],
                [
                    &n["packets"],
                    &Value::from(5 + 5 + 4 + 7 + 2),
                    &0.into(),
                    &0.into()
                ]
            );
            // Several at once are several to the pod.
            let both = "printf x | socat -t 20 - TCP:10.0.0.1:7000 >a &
                printf xx | socat -t 20 - TCP:10.0.0.1:7000 >b; wait; cat a b";
            assert_eq!(on(&control, both), "y1\nyy2\n");
            let look = control.json(&["pod", "stat", "look", "--json"]);
            assert_eq!(look["counters"][0], 5 + 5 + 4 + 3);

            let datagram = |text: &str| {
                let line = format!("printf {text} | socat -t 1 - UDP:10.0.0.1:7001");
                on(&control, &line)
            };
            for (sent, came) in [
                ("abc", "abc"),
                ("drop", ""),
                ("back", "bye"),
                ("ea", "eaea"),
                ("cab", "Cab"),
            ] {
                assert_eq!(datagram(sent), came, "{sent}");
            }
            let n = numbers(&control, "names");
            for (name, expected) in [
                ("packets", 5 + 4),
                ("passed", 4 + 4),
                ("dropped", 2),
                ("changed", 1),
                ("emitted", 2),
            ] {
                assert_eq!(n[name], expected, "{name}: {n}");
            }

            // A spent budget makes the sender wait, and nothing is lost.
            let line = "head -c 1000000 /dev/urandom >data; sha256sum <data >sum
                socat -t 20 - TCP:10.0.0.1:7003 <data | cmp sum && echo same";
            assert_eq!(on(&control, line), "same\n");
            let n = numbers(&control, "slow");
            assert!(n["bytes"].as_u64() > Some(1_000_000), "{n}");
            // A host that is busy with others may be slower than the budget.
            assert!(time.is_empty() || n["waited"].as_u64() > Some(0), "{n}");
            assert_eq!(n["lost"], 0);
            let relay = control.vink(&["relay", "stat", "r.text", "--verbose"]);
            assert!(relay.contains("through the pods of its path"), "{relay}");
            control.vink(&["lab", "down"]);
            control.nothing_is_left();
        }
    }
}

#[test]
fn a_pod_that_ends_ends_connections_until_it_is_there_again() {
    for place in Place::all() {
        let control = Control::of(&place);
        up(&control, LAB);
        let text = |text: &str| said(&control, 7000, text);
        assert_eq!(text("a"), "a1\n");
        assert_eq!(text("fault"), "");
        let ended = control.json(&["pod", "stat", "look", "--json"])["ended"].clone();
        let ended = ended.as_str().expect("it has ended");
        assert!(ended.contains("SIGSEGV"), "{ended}");
        assert_eq!(text("a"), "", "closed");
        assert_eq!(said(&control, 7002, "a"), "a", "others go on");
        let failed = &control.json(&["relay", "stat", "r.text", "--json"])["report"]["errors"];
        assert_eq!(*failed, 2);
        assert!(numbers(&control, "text")["lost"].as_u64() > Some(0));
        control.vink(&["pod", "load", "look"]);
        assert_eq!(text("a"), "a1\n");

        // They pass unseen, if that is wanted; else not, also without the path.
        control.vink(&["path", "revoke", "text"]);
        assert_eq!(text("x"), "");
        let pass = LAB.replace("pods: [look, pass]", "pods: [look, pass], on-fault: pass");
        control.write("lab.yaml", &pass);
        control.vink(&["lab", "apply"]);
        control.vink(&["relay", "rm", "r.text"]);
        control.vink(&[
            "relay",
            "add",
            "r.text",
            "7000",
            "10.0.1.2:7000",
            "--path",
            "text",
        ]);
        assert_eq!(text("x"), "y1\n");
        control.vink(&["pod", "revoke", "look"]);
        assert_eq!(text("x"), "x");
        let saved = control.vink(&["lab", "save"]);
        assert!(saved.contains("path: text"), "{saved}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn mistakes_are_named() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    up(&control, LAB);
    let add = ["relay", "add", "r.more", "7010", "10.0.1.2:7000", "--path"];
    let (_, said) = control.fails(&[&add[..], &["text"]].concat());
    assert!(said.contains("path text has another stream"), "{said}");
    let (_, said) = control.fails(&[&add[..], &["none"]].concat());
    assert!(said.contains("no path none of a stream is here"), "{said}");
    control.vink(&["lab", "down"]);
    for (from, to, why) in [
        ("path: slow }", "path: text }", "is that of relay text"),
        (
            "path: slow }",
            "path: quick }",
            "no path quick of a stream of r",
        ),
        (
            "slow: { stream: r",
            "slow: { stream: server",
            "no path slow of a stream of r",
        ),
    ] {
        control.write("lab.yaml", &LAB.replace(from, to));
        let (_, said) = control.fails(&["lab", "check", "lab.yaml"]);
        assert!(said.contains(why), "{to}: {said}");
    }
}
