//! Pods and paths in labs: what pods make of packets, what ends them, and what a path may use.

mod common;

use std::path::Path;

use common::control::Control;
use common::pod::{compile_module, compile_pod};
use common::Place;
use serde_json::Value;
use vink_sys::poll::is_readable;

/// A pod that does what its configuration says.
const POD: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <vink/pod.h>

POD();

static char mode[16];
static uint8_t kept[2000];
static uint32_t kept_len;
static unsigned int seen;

static int is(const char *word)
{
	return !strcmp(mode, word);
}

int32_t pod_init(const char *config, uint32_t len)
{
	if (len >= sizeof(mode))
		return 7;
	memcpy(mode, config, len);
	if (is("slow"))
		for (;;)
			;
	vink_log(config, len);
	return 0;
}

static void swap(uint8_t *a, uint8_t *b, int len)
{
	while (len--) {
		uint8_t was = a[len];

		a[len] = b[len];
		b[len] = was;
	}
}

int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	volatile char *more;

	vink_count(0, 1);
	vink_count(1 + direction, len);
	if (is("drop"))
		return ++seen % 2 ? POD_DROP : POD_PASS;
	if (is("change")) {
		/* Two bytes of the payload, so that the checksum stays right. */
		frame[70]++;
		frame[72]--;
		return len;
	}
	if (is("emit"))
		vink_emit(POD_ONWARD, frame, len);
	if (is("back")) {
		swap(frame, frame + 6, 6);
		swap(frame + 26, frame + 30, 4);
		/* An echo reply, whose checksum is larger by what its type is smaller. */
		frame[34] = 0;
		frame[36] += 8;
		vink_emit(POD_BACK, frame, len);
		return POD_DROP;
	}
	if (is("late")) {
		memcpy(kept, frame, len);
		kept_len = len;
		vink_timer(vink_now() + 50000000);
		return POD_DROP;
	}
	if (is("loop") || (is("third") && ++seen == 3))
		for (;;)
			;
	if (is("fault"))
		*(volatile int *)(uintptr_t)(seen + 8) = 1;
	if (is("abort"))
		abort();
	if (is("storm"))
		for (;;)
			vink_emit(POD_BACK, kept, 1500);
	if (is("grow"))
		for (;;)
			if ((more = malloc(1 << 20)))
				more[seen++ % (1 << 20)] = 1;
	return POD_PASS;
}

void pod_timer(uint64_t now)
{
	vink_emit(POD_ONWARD, kept, kept_len);
}
"#;

const LAB: &str = "
name: three
time: virtual
seed: 1
machines:
  a:
    interfaces:
      eth0: { wire: w1, addresses: [10.0.0.1/24] }
      eth1: { wire: w2, addresses: [10.1.0.1/24] }
  b: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
  c: { interfaces: { eth0: { wire: w2, addresses: [10.1.0.2/24] } } }
pods:
  p: { file: pod.so, config: pass, time: 20ms, memory: 16M }
  q: { file: pod.so, config: pass }
paths:
  p: { at: \"a:eth0\", filter: icmp, pods: [q, p] }
  q: { at: \"c:eth0\", on: arrival, filter: icmp, pods: [q] }
";

fn up<'a>(place: &'a Place, lab: &str) -> Control<'a> {
    let control = Control::of(place);
    compile_pod(&control, "pod", POD);
    control.write("lab.yaml", lab);
    control.vink(&["lab", "up"]);
    control
}

/// What ping says of a machine.
fn ping(control: &Control, words: &[&str]) -> String {
    let mut all = vec!["exec", "a", "--", "ping", "-n", "-W", "2"];
    all.extend(words);
    let output = control.try_vink(&all);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn load(control: &Control, mode: &str) {
    let config = format!("--config={mode}");
    let words = [
        "pod", "load", "p", "pod.so", "--time", "20ms", "--memory", "16M",
    ];
    control.vink(&[&words[..], &[&config]].concat());
}

fn pod(control: &Control, name: &str) -> Value {
    control.json(&["pod", "stat", name, "--json"])
}

fn numbers(control: &Control, path: &str) -> Value {
    control.json(&["path", "stat", path, "--json"])["numbers"].clone()
}

#[test]
fn what_pods_make_of_packets() {
    for place in Place::all() {
        let control = up(&place, LAB);
        let to_b = |count: &str| ping(&control, &["-c", count, "-i", "0.1", "10.0.0.2"]);
        let said = to_b("2");
        assert!(
            said.contains(" 2 received") && said.contains("time=0.000 ms"),
            "{said}"
        );
        for (mode, expected) in [
            ("drop", "4 packets transmitted, 2 received"),
            ("change", "wrong data byte #28"),
            ("emit", "4 received, +3 duplicates"),
            ("back", "4 packets transmitted, 4 received"),
            ("late", "time=50.0 ms"),
            ("pass", "time=0.000 ms"),
        ] {
            load(&control, mode);
            let before = numbers(&control, "p");
            let said = to_b("4");
            assert!(said.contains(expected), "{} {mode}: {said}", place.user());
            let after = numbers(&control, "p");
            let more = |name: &str| {
                let number = |of: &Value| of[name].as_u64().expect("a number");
                number(&after) - number(&before)
            };
            let found = ["packets", "passed", "dropped", "changed", "emitted"].map(more);
            let expected = match mode {
                "drop" => [4, 2, 2, 0, 0],
                "change" => [4, 4, 0, 4, 0],
                // The last one's copy comes when ping has ended, or before.
                "emit" => [4, 8, 0, 0, 4],
                "back" => [4, 0, 4, 0, 4],
                "late" => [4, 4, 4, 0, 4],
                _ => [4, 4, 0, 0, 0],
            };
            assert_eq!(found, expected, "{mode}");
            assert_eq!(more("lost"), 0);
            let shown = pod(&control, "p");
            assert_eq!(shown["log"], serde_json::json!([mode]), "{mode}");
            assert_eq!(shown["counters"][0], 4, "{mode}");
            assert_eq!(shown["counters"][1], 4 * 98, "they depart");
        }
        let said = ping(&control, &["-c", "3", "10.1.0.2"]);
        assert!(said.contains(" 3 received"), "{said}");
        assert_eq!(pod(&control, "q")["counters"][2], 3 * 98, "they arrive");

        // A breakpoint at the same end sees what pods have made of packets.
        load(&control, "emit");
        control.vink(&[
            "break", "add", "--name", "x", "a:eth0", "filter", "icmp", "drop",
        ]);
        let said = to_b("2");
        assert!(said.contains(" 0 received"), "{said}");
        let all: Value = control.json(&["break", "list", "--json"]);
        assert_eq!(all["breakpoints"][0]["hits"], 4);
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn what_a_pod_does_ends_it_and_nothing_else() {
    for place in Place::all() {
        let control = up(&place, LAB);
        let to_b = || ping(&control, &["-c", "2", "-i", "0.1", "10.0.0.2"]);
        let to_c = || ping(&control, &["-c", "2", "-i", "0.1", "10.1.0.2"]);
        for (mode, why) in [
            ("loop", "took longer than 20ms"),
            ("fault", "SIGSEGV"),
            ("abort", "abort"),
            ("storm", "emitted more than"),
            // malloc() gives no more than there is.
            ("grow", "took longer than 20ms"),
        ] {
            load(&control, mode);
            let said = to_b();
            assert!(said.contains(" 0 received"), "{mode}: {said}");
            let ended = pod(&control, "p");
            let found = ended["ended"].as_str().unwrap_or_default();
            assert!(found.contains(why), "{} {mode}: {found}", place.user());
            assert_eq!(ended["memory"], 0, "{mode}");
            let shown = control.vink(&["path", "ls"]);
            assert!(
                shown.contains("path p is closed: pod p has ended"),
                "{shown}"
            );
            let said = to_c();
            assert!(said.contains(" 2 received"), "{mode}: {said}");
        }
        // Told of with its name, its path and what it did.
        let mut events = control.start(&["lab", "events"]);
        let out = events.stdout.take().expect("a pipe");
        // It listens when it has told something.
        while !is_readable(&out, 100) {
            load(&control, "loop");
        }
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
        to_b();
        let wanted = "pod p was ended on path p: it took longer than 20ms for one call";
        assert!(lines.any(|line| line.expect("text").contains(wanted)));
        let _ = events.kill();
        let _ = events.wait();

        // Where its packets may pass without it, they do.
        load(&control, "abort");
        let open = LAB.replace("pods: [q, p] }", "pods: [q, p], on-fault: pass }");
        control.write(
            "open.yaml",
            &open.replace("config: pass, time", "config: abort, time"),
        );
        control.vink(&["lab", "apply", "open.yaml"]);
        let said = to_b();
        assert!(said.contains(" 2 received"), "{said}");
        assert!(pod(&control, "p")["ended"].is_string());

        control.write("closed.yaml", LAB);
        let said = control.vink(&["lab", "apply", "closed.yaml"]);
        assert!(
            said.contains("+ pod p: pod.so") && said.contains("+ path p: a:eth0"),
            "{said}"
        );
        assert!(to_b().contains(" 2 received"));
        control.vink(&["pod", "revoke", "p"]);
        assert_eq!(pod(&control, "p")["ended"], "it was revoked");
        assert!(to_b().contains(" 0 received"));
        assert!(to_c().contains(" 2 received"));
        control.vink(&["pod", "load", "p"]);
        assert!(to_b().contains(" 2 received"));
        control.vink(&["pod", "revoke", "p"]);
        control.vink(&["path", "revoke", "p"]);
        assert!(to_b().contains(" 2 received"));
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_path_waits_for_its_next_period() {
    let place = Place::all().pop().expect("a user");
    let lab = LAB.replace(
        "pods: [q, p] }",
        "pods: [q, p], period: 100ms, bytes: \"98\", queue: 4 }",
    );
    let control = up(&place, &lab);
    assert!(ping(&control, &["-c", "1", "10.0.0.2"]).contains(" 1 received"));
    let said = ping(&control, &["-c", "4", "-i", "0.01", "10.0.0.2"]);
    assert!(said.contains(" 4 received"), "{said}");
    let times = said.lines().filter_map(|line| {
        let (_, time) = line.split_once("time=")?;
        time.strip_suffix(" ms")?.parse::<f64>().ok()
    });
    let times: Vec<f64> = times.collect();
    // Ten milliseconds apart they come, and go at a period's begin each.
    assert_eq!(times.len(), 4, "{said}");
    for pair in times[1..].windows(2) {
        assert!((80.0..100.0).contains(&(pair[1] - pair[0])), "{said}");
    }
    let found = numbers(&control, "p");
    assert!(found["waited"].as_u64() >= Some(3), "{found}");
    assert_eq!(found["lost"], 0);
    assert_eq!(found["waiting"], 0);
    // Packets of no path do not wait for it, and of more than may wait the rest is lost.
    let said = ping(&control, &["-c", "12", "-i", "0.01", "-W", "1", "10.0.0.2"]);
    assert!(!said.contains(" 12 received"), "{said}");
    let found = numbers(&control, "p");
    assert!(found["lost"].as_u64() >= Some(3), "{found}");
    control.vink(&["lab", "down"]);
}

#[test]
fn connections_go_on_while_pods_are_loaded_again() {
    let place = Place::all().remove(0);
    let lab = LAB
        .replace("time: virtual\nseed: 1\n", "")
        .replace("filter: icmp, pods: [q, p]", "pods: [q, p]")
        .replace(
            "  b: { interfaces",
            "  b: { programs: { web: { app: httpserver, ready: { port: 80 } } }, interfaces",
        );
    let control = up(&place, &lab);
    let url = "http://10.0.0.2/20M";
    let mut client = control.start(&["exec", "a", "--", "curl", "-sS", "-o", "got", url]);
    let mut loads = 0;
    while client.try_wait().expect("a child").is_none() {
        load(&control, "pass");
        loads += 1;
    }
    let output = client.wait_with_output().expect("curl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let got = std::fs::metadata(control.folder().join("got")).expect("a file");
    assert_eq!(got.len(), 20_000_000.max(got.len() / (1 << 20) * (1 << 20)));
    assert!(loads > 0);
    assert_eq!(numbers(&control, "p")["lost"], 0);
    control.vink(&["lab", "down"]);
}

#[test]
fn bad_pods_are_told_of_with_their_place() {
    let place = Place::all().pop().expect("a user");
    let control = Control::of(&place);
    let source = |text: &str| format!("#include <vink/pod.h>\n{text}\n");
    compile_pod(
        &control,
        "old",
        "unsigned int pod_version(void) { return 99; }\n",
    );
    compile_pod(&control, "none", "int x;\n");
    compile_pod(
        &control,
        "import",
        &source("POD(); void missing(void); int32_t pod_packet(uint8_t *f, uint32_t l, uint32_t r, uint32_t d) { missing(); return 0; }"),
    );
    compile_pod(
        &control,
        "trap",
        &source("POD(); int32_t pod_init(const char *c, uint32_t l) { __builtin_trap(); }"),
    );
    compile_pod(
        &control,
        "refuses",
        &source("POD(); int32_t pod_init(const char *c, uint32_t l) { return 3; }"),
    );
    compile_pod(&control, "large", &source("POD(); static volatile char room[64 << 20]; int32_t pod_init(const char *c, uint32_t l) { for (int i = 0; i < sizeof(room); i += 4096) room[i] = 1; return 0; }"));
    control.write("text.so", "no ELF");
    for (name, what) in [
        ("missing", "can't be used"),
        ("text", "is no ELF file"),
        ("old", "is for version 99"),
        ("none", "pod_version"),
        ("import", "missing"),
        ("trap", "pod_init()"),
        ("refuses", "returned 3"),
        ("large", "memory"),
    ] {
        let lab =
            format!("machines: {{ m: {{}} }}\npods:\n  x: {{ file: {name}.so, memory: 16M }}\n");
        control.write("bad.yaml", &lab);
        let output = control.try_vink(&["lab", "check", "bad.yaml"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("bad.yaml:3:14: error: "), "{name}: {said}");
        assert!(
            said.contains(what) && said.contains("fix: "),
            "{name}: {said}"
        );
        let (_, up) = control.fails(&["lab", "up", "bad.yaml"]);
        assert!(up.contains(what), "{name}: {up}");
    }
}

#[test]
fn a_run_with_pods_repeats() {
    let place = Place::all().pop().expect("a user");
    let lab = LAB.replace(
        "  b: { interfaces",
        "  b: { programs: { ping: { command: [ping, -c, \"20\", -i, \"0.1\", 10.0.0.1] } }, interfaces",
    );
    let lab = lab.replace(
        "pods: [q, p] }",
        "pods: [q, p], bytes: \"98\", period: 150ms }",
    );
    let lab = lab.replace("config: pass, time", "config: late, time");
    let control = Control::of(&place);
    compile_pod(&control, "pod", POD);
    control.write("lab.yaml", &lab);
    control.vink(&["lab", "up", "--record", "one"]);
    control.vink(&["lab", "until", "10s"]);
    assert!(numbers(&control, "p")["waited"].as_u64() > Some(5));
    control.vink(&["lab", "down"]);
    let said = control.vink(&["replay", "one"]);
    assert!(said.starts_with("the run repeats: "), "{said}");
}

#[test]
fn a_rule_of_the_stack_says_which_packets_take_a_path() {
    for place in Place::all() {
        let marked = "at: \"a:eth0\", mark: 7,";
        let control = up(&place, &LAB.replace("at: \"a:eth0\",", marked));
        load(&control, "drop");
        let to_b = |words: &[&str]| ping(&control, &[&["-c", "4", "-i", "0.1"], words].concat());
        let on_a = |line: &str| control.vink(&["exec", "a", "--", "sh", "-c", line]);
        let packets = || numbers(&control, "p")["packets"].clone();
        assert!(to_b(&["10.0.0.2"]).contains(" 4 received"));
        assert_eq!(packets(), 0);
        // By nftables: those of a size only; the pod drops every second one.
        on_a(
            "nft add table ip t
            nft add chain ip t out '{ type filter hook output priority 0; }'
            nft add rule ip t out ip length '>' 500 meta mark set 7",
        );
        assert!(to_b(&["10.0.0.2"]).contains(" 4 received"));
        assert!(to_b(&["-s", "1000", "10.0.0.2"]).contains(" 2 received"));
        assert_eq!(packets(), 4);
        // By tc, behind the queue; by the socket.
        on_a(
            "nft flush ruleset
            tc qdisc add dev eth0 clsact
            tc filter add dev eth0 egress matchall action skbedit mark 7",
        );
        assert!(to_b(&["10.0.0.2"]).contains(" 2 received"));
        on_a("tc qdisc del dev eth0 clsact");
        assert!(to_b(&["10.0.0.2"]).contains(" 4 received"));
        assert!(to_b(&["-m", "7", "10.0.0.2"]).contains(" 2 received"));
        assert!(to_b(&["-m", "8", "10.0.0.2"]).contains(" 4 received"));
        assert_eq!(packets(), 12);
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn a_fault_takes_no_packet_that_was_answered_before() {
    let place = Place::all().pop().expect("a user");
    for (on_fault, passed, lost) in [("drop", 2, 3), ("pass", 5, 0)] {
        let path = format!("filter: icmp, on-fault: {on_fault}, pods: [p] }}");
        let lab = LAB.replace("filter: icmp, pods: [q, p] }", &path);
        let control = up(&place, &lab);
        load(&control, "third");
        // Five fragments cross together.
        let said = ping(&control, &["-c", "1", "-s", "6000", "10.0.0.2"]);
        assert_eq!(said.contains(" 1 received"), on_fault == "pass", "{said}");
        let n = numbers(&control, "p");
        assert_eq!([&n["packets"], &n["crossings"]], [5, 1], "{n}");
        assert_eq!([&n["passed"], &n["lost"]], [passed, lost], "{n}");
        assert!(pod(&control, "p")["ended"].is_string());
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn others_go_on_while_a_pod_is_loaded() {
    let place = Place::all().pop().expect("a user");
    let control = up(&place, &LAB.replace("time: virtual\nseed: 1\n", ""));
    let words = [
        "pod",
        "load",
        "p",
        "pod.so",
        "--config=slow",
        "--time",
        "1s",
    ];
    // Where the host is busy with others, it may be over before.
    let is_apart = (0..10).any(|_| {
        let mut load = control.start(&words);
        let said = ping(&control, &["-c", "2", "-i", "0.01", "10.0.0.2"]);
        assert!(said.contains(" 2 received"), "{said}");
        let goes_on = load.try_wait().expect("its state").is_none();
        let loaded = load.wait().expect("its end");
        assert!(!loaded.success(), "pod_init() never ends");
        goes_on
    });
    assert!(is_apart, "packets waited for a pod's loading");
    // The old one is still there.
    assert_eq!(pod(&control, "p")["ended"], Value::Null);
    control.vink(&["lab", "down"]);
}

/// WebAssembly, whose limits and budgets are instructions by a virtual clock: all that is counted repeats.
#[test]
fn modules_on_a_path_repeat_to_the_instruction() {
    let place = Place::all().pop().expect("a user");
    let lab = LAB.replace("pod.so", "pod.wasm").replace(
        "pods: [q, p] }",
        "pods: [q, p], cycles: 4000, period: 40ms }",
    );
    let run = || {
        let control = Control::of(&place);
        compile_module(&control, "pod", POD);
        control.write("lab.yaml", &lab);
        control.vink(&["lab", "up"]);
        let said = ping(&control, &["-c", "20", "-i", "0.01", "10.0.0.2"]);
        assert!(said.contains(" 20 received"), "{said}");
        let n = numbers(&control, "p");
        assert!(
            n["waited"].as_u64() > Some(2) && n["overdrafts"].as_u64() > Some(2),
            "{n}"
        );
        assert_eq!(pod(&control, "p")["wall"], "wasm");
        // A path that loops would owe what it has used.
        control.write("lab.yaml", &LAB.replace("pod.so", "pod.wasm"));
        control.vink(&["lab", "apply"]);
        for (mode, why) in [
            ("loop", "took longer than 20ms"),
            ("abort", "abort"),
            ("fault", ""),
        ] {
            let config = format!("--config={mode}");
            control.vink(&["pod", "load", "p", "pod.wasm", "--time", "20ms", &config]);
            let said = ping(&control, &["-c", "1", "10.0.0.2"]);
            let shown = pod(&control, "p");
            let ended = shown["ended"].as_str().unwrap_or_default();
            // Address 8 is its own.
            assert_eq!(said.contains(" 1 received"), mode == "fault", "{said}");
            assert!(ended.contains(why), "{ended}");
        }
        let end = (said, n, numbers(&control, "p"), pod(&control, "q"));
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
        end
    };
    assert_eq!(run(), run());
}

#[test]
fn a_lab_file_with_pods_is_written_and_changed() {
    let place = Place::all().pop().expect("a user");
    let control = up(&place, LAB);
    let saved = control.vink(&["lab", "save"]);
    assert!(
        saved.contains("\npods:\n  p: {") && saved.contains("\npaths:\n"),
        "{saved}"
    );
    let all: Value = control.json(&["pod", "ls", "--json"]);
    assert_eq!(all[0]["wall"], "process");
    control.write(
        "lab.yaml",
        &LAB.replace("filter: icmp, pods: [q]", "pods: [q]"),
    );
    let said = control.vink(&["lab", "apply"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    control.write("lab.yaml", LAB.split("pods:").next().expect("a part"));
    let said = control.vink(&["lab", "apply"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines, ["- path p", "- path q", "- pod p", "- pod q"]);
    assert_eq!(
        control.json(&["pod", "ls", "--json"]),
        serde_json::json!([])
    );
    assert!(Path::new(&control.folder().join("pod.so")).exists());
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

#[test]
fn a_wall_that_the_host_lacks_is_refused() {
    let place = Place::all().pop().expect("a user");
    let control = Control::of(&place);
    compile_pod(&control, "pod", POD);
    control.write(
        "lab.yaml",
        &LAB.replace("p: { file:", "p: { wall: key, file:"),
    );
    let found = control.vink(&["doctor"]);
    let line = found
        .lines()
        .find_map(|line| line.split_once(" key wall: "));
    let (_, lacks) = line.expect("a line of the key wall");
    for words in [&["lab", "check", "lab.yaml"], &["lab", "up", "lab.yaml"]] {
        let (_, said) = control.fails(words);
        assert!(
            said.contains(&format!("no key wall here: {lacks}")),
            "{said}"
        );
        assert!(
            said.contains("the process wall takes the same pods"),
            "{said}"
        );
    }
    control.nothing_is_left();
}
