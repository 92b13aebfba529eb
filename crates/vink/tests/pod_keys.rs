//! The same pods behind three walls in a lab: `process` and `wasm` on the host, `key` in a guest of QEMU's whose
//! processor has keys. All that is counted is the same there.

mod common;
#[path = "../../vink-pod/tests/common/guest.rs"]
mod guest;

use std::path::Path;

use common::control::Control;
use common::pod::{compile_module, compile_pod};
use common::Place;
use guest::Guest;
use serde_json::{json, Value};
use vink_sys::process::tgkill;

/// A pod that does what the first letter of its configuration says.
const POD: &str = r#"
#include <vink/pod.h>

POD();

void *memcpy(void *, const void *, unsigned long);
void abort(void);

static char mode;
static uint8_t kept[2000];
static uint32_t kept_len;
static unsigned int seen;

int32_t pod_init(const char *config, uint32_t len)
{
	mode = *config;
	vink_log(config, len);
	return 0;
}

int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	vink_count(0, 1);
	vink_count(1 + direction, len);
	switch (mode) {
	case 'd': /* drop */
		return ++seen % 2 ? POD_DROP : POD_PASS;
	case 'c': /* change */
		/* Two bytes of the payload, so that the checksum stays right. */
		frame[70]++;
		frame[72]--;
		return len;
	case 'e': /* emit */
		vink_emit(POD_ONWARD, frame, len);
		break;
	case 't': /* timer */
		memcpy(kept, frame, len);
		kept_len = len;
		vink_timer(vink_now() + 50000000);
		return POD_DROP;
	case 'l': /* loop */
		for (;;)
			;
	case 'f': /* fault */
		*(volatile int *)(uintptr_t)-64 = 1;
	case 'a':
		abort();
	case 's': /* storm */
		for (;;)
			vink_emit(POD_BACK, kept, 1500);
	case 'k': /* kernel */
#ifdef __wasm__
		__builtin_trap();
#else
		__asm__ volatile("syscall" :: "a"(41), "D"(2), "S"(1), "d"(0) : "rcx", "r11", "memory");
#endif
	}
	return POD_PASS;
}

void pod_timer(uint64_t now)
{
	vink_count(3, now != 0);
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
    filter: |
      table ip t {
        chain out { type filter hook output priority 0; ip daddr 10.1.0.2 meta mark set 7; }
      }
  b: { interfaces: { eth0: { wire: w1, addresses: [10.0.0.2/24] } } }
  c: { interfaces: { eth0: { wire: w2, addresses: [10.1.0.2/24] } } }
pods:
  p: { file: POD, wall: WALL, config: pass, time: 500ms, memory: 16M }
  q: { file: POD, wall: WALL, config: pass, time: 500ms }
  r: { file: POD, wall: WALL, config: pass, time: 500ms }
paths:
  p: { at: \"a:eth0\", filter: icmp, pods: [q, p] }
  q: { at: \"c:eth0\", on: arrival, filter: icmp, pods: [q] }
  r: { at: \"a:eth1\", mark: 7, pods: [r] }
";

/// One worker has pods behind all walls, and a packet crosses each.
const SIDE_BY_SIDE: &str = "
pods:
  p: { file: pod.so, wall: process, config: pass, time: 1s }
  q: { file: pod.so, wall: key, config: pass, time: 1s }
  r: { file: pod.wasm, config: pass, time: 1s }
paths:
  p: { at: \"a:eth0\", filter: icmp, pods: [q, r, p, q] }
";

/// What ends a pod, and how the key wall says so.
const ENDS: [(&str, &str); 3] = [
    ("loop", "it took longer than 500ms for one call"),
    ("fault", "(SIGSEGV) in pod_packet+0x"),
    ("kernel call", "it made the system call socket"),
];

/// A user's labs with pods behind one wall.
struct Walled<'a> {
    control: Control<'a>,
    wall: &'static str,
}

impl Walled<'_> {
    fn file(&self) -> &'static str {
        match self.wall {
            "wasm" => "pod.wasm",
            _ => "pod.so",
        }
    }

    fn lab(&self, lab: &str) {
        let lab = lab.replace("POD", self.file()).replace("WALL", self.wall);
        self.control.write("lab.yaml", &lab);
    }

    fn load(&self, mode: &str) {
        let config = format!("--config={mode}");
        let words = ["pod", "load", "p", self.file(), "--wall", self.wall];
        let limits = ["--time", "500ms", "--memory", "16M"];
        self.control
            .vink(&[&words[..], &limits, &[&config]].concat());
    }

    /// All pods, then all paths: `p`, `q` and `r` each.
    fn counted(&self) -> [Value; 2] {
        ["pod", "path"].map(|what| {
            let mut all = self.control.json(&[what, "ls", "--json"]);
            for one in all.as_array_mut().expect("a list") {
                // What differs in each run, and between walls.
                for place in ["/cycles", "/numbers/cycles"] {
                    if let Some(cycles) = one.pointer_mut(place) {
                        *cycles = Value::Null;
                    }
                }
            }
            all
        })
    }

    /// Which of so many echo requests to `b` and then to `c` machine `a` gets answers to, and how often.
    fn ping(&self, count: u32) -> [Vec<String>; 2] {
        let one = |to| format!("busybox ping -c {count} -W 1 {to}");
        let both = format!("{}; echo; {}", one("10.0.0.2"), one("10.1.0.2"));
        let words = ["exec", "a", "--", "busybox", "sh", "-c", &both];
        let text = self.control.vink(&words);
        let (first, second) = text.split_once("PING 10.1").expect(&text);
        [first, second].map(|text| {
            let answers = text.lines().filter_map(|line| line.split_once("seq="));
            answers.map(|(_, answer)| answer.to_owned()).collect()
        })
    }

    /// All that three walls have in common.
    fn story(&self) -> Value {
        self.lab(LAB);
        self.control.vink(&["lab", "up"]);
        let mut story = Vec::new();
        for mode in ["drop", "change", "emit", "timer", "pass"] {
            self.load(mode);
            let answers = self.ping(3);
            let [mut pods, paths] = self.counted();
            for pod in pods.as_array_mut().expect("a list") {
                assert_eq!(pod["wall"], self.wall);
                assert_eq!(pod["ended"], Value::Null, "{mode}");
                for own in ["wall", "memory", "spec"] {
                    pod[own] = Value::Null;
                }
            }
            story.push(json!([mode, answers, pods, paths]));
        }
        for mode in ["loop", "fault", "abort", "storm", "kernel call"] {
            self.load(mode);
            let [lost, others] = self.ping(3);
            assert!(lost.is_empty(), "{mode}: {lost:?}");
            assert_eq!(others.len(), 3, "{mode}: {others:?}");
            let [pods, paths] = self.counted();
            assert!(pods[0]["ended"].is_string(), "{mode}: {pods}");
            assert_eq!(pods[0]["memory"], 0, "{mode}");
            story.push(json!([
                mode,
                others,
                pods[0]["calls"],
                pods[1]["counters"],
                paths
            ]));
        }
        self.load("pass");
        assert_eq!(self.ping(1).map(|it| it.len()), [1, 1]);
        self.control.vink(&["pod", "revoke", "p"]);
        let pod = self.control.json(&["pod", "stat", "p", "--json"]);
        assert_eq!(pod["ended"], "it was revoked");
        assert_eq!(self.ping(1).map(|it| it.len()), [0, 1]);
        self.control.vink(&["pod", "load", "p"]);
        assert_eq!(self.ping(1).map(|it| it.len()), [1, 1]);
        let [_, paths] = self.counted();
        story.push(paths);
        self.control.vink(&["lab", "down"]);
        self.control.nothing_is_left();
        Value::Array(story)
    }
}

/// What is told of it in the guest.
const TOLD: &str = "the story is ";

#[test]
fn walls_differ_in_nothing_that_is_counted() {
    let place = Place::all().remove(0);
    let control = Control::of(&place);
    compile_pod(&control, "pod", POD);
    compile_module(&control, "pod", POD);
    let guest = Guest::new(&place.folder().join("guest"));
    let own = Path::new(env!("CARGO_BIN_EXE_vink"));
    guest.put_program(own, &own.display().to_string());
    guest.put_program(&std::env::current_exe().unwrap(), "/bin/keys");
    guest.put_program(Path::new("/usr/sbin/nft"), "/bin/nft");
    let process = "vink-pod-process";
    let beside = own.with_file_name(process).display().to_string();
    guest.put_program(&place.folder().join(process), &beside);
    // For filters.
    let pcap = "/usr/lib/x86_64-linux-gnu/libpcap.so.0.8";
    guest.put_program(Path::new(pcap), pcap);
    let image = "libvink-linux-6.12.so";
    guest.put_stripped(&place.folder().join(image), &format!("/bin/{image}"));
    for pod in ["pod.so", "pod.wasm"] {
        let to = guest.place(&format!("/pods/{pod}"));
        std::fs::copy(control.folder().join(pod), to).expect("a pod");
    }
    // Folders that are looked for.
    guest.place("/tmp/x");
    guest.place(&format!("{}/x", env!("CARGO_MANIFEST_DIR")));
    let words = "export PATH=/bin HOME=/ RUST_BACKTRACE=1; cd /\n\
                 keys --ignored --test-threads=1 --nocapture; echo ended with $?\n";
    let in_guest = std::thread::spawn(move || guest.run(words, 1024));
    let [process, wasm] = ["process", "wasm"].map(|wall| {
        let control = Control::of(&place);
        Walled { control, wall }.story()
    });
    let said = in_guest.join().expect("the guest");
    assert!(said.contains("test result: ok. 3 passed"), "{said}");
    let key = said.lines().find_map(|line| line.split_once(TOLD));
    let key: Value = serde_json::from_str(key.expect(&said).1).expect(&said);
    assert_eq!(wasm, process);
    assert_eq!(key, process);
}

/// In the guest: a lab's folder, and the pod in it.
fn with_keys(place: &Place) -> Walled<'_> {
    let control = Control::of(place);
    for pod in ["pod.so", "pod.wasm"] {
        std::fs::copy(format!("/pods/{pod}"), control.folder().join(pod)).expect("a pod");
    }
    Walled {
        control,
        wall: "key",
    }
}

#[test]
#[ignore = "by another test, in the guest"]
fn in_virtual_time() {
    let place = Place::all().remove(0);
    let found = with_keys(&place).control.vink(&["doctor"]);
    assert!(
        found.contains("ok      key wall: the processor has keys"),
        "{found}"
    );
    println!("{TOLD}{}", with_keys(&place).story());
}

#[test]
#[ignore = "by another test, in the guest"]
fn side_by_side() {
    let place = Place::all().remove(0);
    let walled = with_keys(&place);
    let (machines, _) = LAB.split_once("pods:").expect("pods");
    walled.lab(&format!("{machines}{SIDE_BY_SIDE}"));
    walled.control.vink(&["lab", "up"]);
    assert_eq!(walled.ping(3).map(|it| it.len()), [3, 3]);
    let [pods, paths] = walled.counted();
    for (n, (wall, calls)) in [("process", 3), ("key", 6), ("wasm", 3)].iter().enumerate() {
        assert_eq!(pods[n]["wall"], *wall);
        assert_eq!(pods[n]["counters"][0], *calls, "{pods}");
        assert_eq!(pods[n]["ended"], Value::Null);
    }
    assert_eq!(paths[0]["numbers"]["packets"], 3, "{paths}");
    walled.control.vink(&["lab", "down"]);
    walled.control.nothing_is_left();
}

/// Pods are loaded by a thread of their own, which takes the gate from the worker's, and back.
#[test]
#[ignore = "by another test, in the guest"]
fn in_real_time() {
    let place = Place::all().remove(0);
    let walled = with_keys(&place);
    let control = &walled.control;
    let lab = LAB
        .replace("time: virtual\nseed: 1\n", "")
        .replace("filter: icmp, pods: [q, p]", "pods: [q, p]")
        .replace(
            "  b: { interfaces",
            "  b: { programs: { web: { app: httpserver, ready: { port: 80 } } }, interfaces",
        );
    walled.lab(&lab);
    control.vink(&["lab", "up"]);
    let worker = worker_of(control);
    let url = "http://10.0.0.2/4M";
    let fetch = ["exec", "a", "--", "busybox", "wget", "-q", "-O", "got", url];
    let mut client = control.start(&fetch);
    while client.try_wait().expect("a child").is_none() {
        walled.load("pass");
        // As those by which the gate is given up, whatever the worker waits for.
        for _ in 0..200 {
            tgkill(worker, worker, libc::SIGSYS).expect("it is there");
            std::thread::yield_now();
        }
    }
    let output = client.wait_with_output().expect("wget");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let got = std::fs::metadata(control.folder().join("got")).expect("a file");
    assert!(got.len() >= 4_000_000, "{}", got.len());
    assert_eq!(walled.counted()[1][0]["numbers"]["lost"], 0);

    let mut events = control.start(&["lab", "events"]);
    let out = events.stdout.take().expect("a pipe");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    for (mode, why) in ENDS {
        walled.load(mode);
        assert_eq!(walled.ping(1).map(|it| it.len()), [0, 1], "{mode}");
        // Told of with its name, its path and what it did.
        let wanted = "pod p was ended on path p: ";
        let told = lines.find_map(|line| {
            let line = line.expect("text");
            Some(line.split_once(wanted)?.1.to_owned())
        });
        let told = told.expect(mode);
        assert!(told.contains(why), "{mode}: {told}");
    }
    let pod = control.json(&["pod", "stat", "p", "--json"]);
    let ended = pod["ended"].as_str().unwrap_or_default();
    assert!(ended.ends_with("made the system call socket"), "{ended}");
    let _ = events.kill();
    let _ = events.wait();
    assert_eq!(worker_of(control), worker);
    control.vink(&["lab", "down"]);
    control.nothing_is_left();
}

/// The process of a lab's worker.
fn worker_of(control: &Control) -> i32 {
    let all = control.processes();
    let is_worker = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words
            .split(|byte| *byte == 0)
            .any(|word| word == b"lab-worker")
    };
    all.into_iter().find(is_worker).expect("a worker")
}
