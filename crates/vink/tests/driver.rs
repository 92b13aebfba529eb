//! Driver processes between wires and the host: frames, deaths, rights.

mod common;

use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};

use common::control::Control;
use common::pod::compile_pod;
use common::Place;

/// Sends back what it gets by TCP, each connection's first; and tells its name by UDP.
const ECHO: &str = r#"
import os, socket, threading
def tell():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 9))
    while True:
        data, peer = s.recvfrom(2048)
        s.sendto(os.uname().nodename.encode(), peer)
threading.Thread(target=tell, daemon=True).start()
listener = socket.create_server(("0.0.0.0", 7))
def echo(peer):
    while data := peer.recv(1 << 16): peer.sendall(data)
while True: threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"#;

/// For scripts on the host: its drivers, by what their command lines have; and a connection that
/// moves random bytes there and back, in the middle of which something happens.
const HOST: &str = r#"
import glob, os, signal, socket, subprocess, sys, threading, time
def pids(*words):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try: line = open(path, "rb").read().split(b"\0")
        except OSError: continue
        if all(word.encode() in line for word in words): found.append(int(path.split("/")[2]))
    return found
def environment(pid):
    try: return open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    # Another lab's, outside of this user namespace.
    except OSError: return []
def until(condition):
    while not (value := condition()): time.sleep(0.01)
    return value
def gone(pid): return not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().split(") ")[1][0] == "Z"
def connect(address):
    while True:
        try: return socket.create_connection((address, 7), timeout=120)
        except OSError: time.sleep(0.05)
class Stream:
    def __init__(self, address): self.socket = connect(address)
    def move(self, happens=lambda: None):
        data = os.urandom(1 << 20) * 3
        thread = threading.Thread(target=self.socket.sendall, args=(data,)); thread.start()
        back = bytearray()
        while len(back) < len(data):
            piece = self.socket.recv(1 << 16)
            assert piece, "the connection was lost"
            before = len(back); back += piece
            if before < len(data) // 3 <= len(back): happens()
        thread.join()
        assert back == data
"#;

/// A host with an interface whose other end is `plug0`, a lab file, and a script of the host's in
/// Python after [`HOST`]. The interface has another name in each, so that its driver has.
fn on_host(control: &Control<'_>, lab: &str, script: &str) -> Output {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let named = |text: &str| {
        let names = [("plug0", "p"), ("tap0", "t"), ("nowhere0", "n")];
        names.iter().fold(text.to_owned(), |text, (name, short)| {
            text.replace(name, &format!("{short}{pid}x{count}"))
        })
    };
    control.write("echo.py", ECHO);
    control.write("lab.yaml", &named(lab));
    control.write("host.py", &named(&format!("{HOST}{script}")));
    let mut command = control.command("unshare");
    if !vink_sys::process::is_root() || control.is_nobody() {
        command.args(["--user", "--map-root-user"]);
    }
    let setup = "ip link set lo up
        ip link add host0 type veth peer name plug0
        ip address add 10.9.0.1/24 dev host0
        ip link set host0 up
        ip link set plug0 up
        exec python3 host.py";
    command.args(["--net", "--", "bash", "-ec", &named(setup)]);
    command.output().expect("a host")
}

fn succeeds(control: &Control<'_>, lab: &str, script: &str) -> String {
    let output = on_host(control, lab, script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

const LAB: &str = "
machines:
  m1:
    interfaces: { eth0: { wire: out, addresses: [10.9.0.2/24] } }
    programs: { echo: { command: exec python3 echo.py } }
wires:
  out: { uplink: { driver: { interface: plug0 } } }
";

/// Kills the driver again and again under one TCP connection, which goes on; then what it is between.
const DEATHS: &str = r#"
vink = lambda *words: subprocess.run(["vink", *words], check=True)
vink("lab", "up")
words = ["driver", "interface:plug0"]
first, = until(lambda: pids(*words))
stream = Stream("10.9.0.2")
stream.move()
killed = [first]
def kill():
    pid, = pids(*words)
    os.kill(pid, signal.SIGKILL)
    killed.append(until(lambda: [other for other in pids(*words) if other != pid])[0])
for _ in range(4): stream.move(kill)
assert len(set(killed)) == 5, killed
# One that is stopped is ended with the others.
vink("lab", "restart")
pid, = pids(*words)
Stream("10.9.0.2").move()
# The worker's end is not the driver's, and it is met again.
vink("wire", "down", "out")
vink("wire", "up", "out")
Stream("10.9.0.2").move()
os.kill(pid, signal.SIGSTOP)
vink("lab", "down")
assert gone(pid)
vink("lab", "up")
pid, = until(lambda: pids(*words))
Stream("10.9.0.2").move()
# The control process, and nothing is left.
own = ("VINK_RUNTIME=" + os.environ["VINK_RUNTIME"]).encode()
daemon, = [pid for pid in pids("daemon") if own in environment(pid)]
os.kill(daemon, signal.SIGKILL)
until(lambda: gone(pid))
print("good")
"#;

#[test]
fn connections_outlive_it_and_it_outlives_nobody() {
    for place in Place::all() {
        let control = Control::of(&place);
        assert!(succeeds(&control, LAB, DEATHS).ends_with("good\n"));
        control.wait_for_no_process();
    }
}

#[test]
fn two_stacks_behind_one_address() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let machine = |name: &str| {
        format!(
            "  {name}:\n    interfaces: {{ eth0: {{ wire: {name}-out, mac: \"02:00:00:00:00:07\", addresses: [10.9.0.2/24] }} }}\n    \
             programs: {{ echo: {{ command: exec python3 echo.py }} }}\n"
        )
    };
    let wire = |name: &str| {
        format!(
            "  {name}-out: {{ uplink: {{ driver: {{ fanout: {{ interface: plug0, group: 5 }} }} }} }}\n"
        )
    };
    let lab = format!(
        "machines:\n{}{}wires:\n{}{}",
        machine("m1"),
        machine("m2"),
        wire("m1"),
        wire("m2")
    );
    let script = r#"
subprocess.run(["vink", "lab", "up"], check=True)
connect("10.9.0.2")
names = set()
for port in range(20000, 20064):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.9.0.1", port)); s.settimeout(1)
    while True:
        s.sendto(b"?", ("10.9.0.2", 9))
        try: names.add(s.recv(100)); break
        except (TimeoutError, ConnectionRefusedError): pass
assert names == {b"m1", b"m2"}, names
streams = [Stream("10.9.0.2") for _ in range(8)]
for stream in streams: stream.move()
subprocess.run(["vink", "lab", "down"], check=True)
"#;
    succeeds(&control, &lab, script);
    control.nothing_is_left();
}

#[test]
fn a_tap_device_goes_with_it() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = LAB.replace("interface: plug0", "tap: tap0");
    let script = r#"
if not os.access("/dev/net/tun", os.W_OK): sys.exit(0)
subprocess.run(["vink", "lab", "up"], check=True)
setup = ["ip address add 10.9.8.1/24 dev tap0", "ip link set tap0 up", "ip route add 10.9.0.2 dev tap0 src 10.9.0.1"]
for line in setup: subprocess.run(line.split(), check=True)
Stream("10.9.0.2").move()
pid, = pids("driver", "tap:tap0")
os.kill(pid, signal.SIGKILL)
until(lambda: [other for other in pids("driver", "tap:tap0") if other != pid])
subprocess.run(["vink", "lab", "down"], check=True)
assert not os.path.exists("/sys/class/net/tap0") or open("/proc/net/dev").read().count("tap0") == 0
"#;
    succeeds(&control, &lab, script);
    control.nothing_is_left();
}

#[test]
fn by_hand_at_a_path() {
    for place in Place::all() {
        let control = Control::of(&place);
        let script = r#"
os.mkdir("port")
driver = subprocess.Popen(["vink", "driver", "interface:plug0", "--port", "wire:port/wire", "--verbose"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
assert driver.stdout.readline() == "ready\n"
run = ["vink", "run", "--uplink", "wire:port/wire", "--address", "10.9.0.2/24", "--"]
for _ in range(2):
    subprocess.run(run + ["ping", "-c", "1", "-W", "60", "10.9.0.1"], check=True)
server = subprocess.Popen(run + ["python3", "echo.py"])
Stream("10.9.0.2").move()
status = dict(line.split(":\t", 1) for line in open(f"/proc/{driver.pid}/status"))
for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]: assert int(status[name], 16) == 0, name
assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2"
server.kill(); server.wait()
driver.terminate()
said = driver.stderr.read()
assert driver.wait() == 143, driver.returncode
assert os.listdir("port") == [], os.listdir("port")
for text in ["an empty network", "capabilities: none", "system calls", "frames sent"]: assert text in said, said
# What it leads to goes: it says so, and ends.
driver = subprocess.Popen(["vink", "driver", "interface:plug0", "--port", "wire:port/wire"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
assert driver.stdout.readline() == "ready\n"
subprocess.run(["ip", "link", "delete", "plug0"], check=True)
assert driver.wait() == 125 and "gone" in driver.stderr.read()
print("good")
"#;
        assert!(succeeds(&control, LAB, script).ends_with("good\n"));
    }
}

/// The host's stack gets none of what comes to a queue that a driver has, and all of it when the driver has ended.
#[test]
fn a_receive_queue_of_its_own() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = LAB.replace("interface: plug0", "xdp: { interface: plug0 }");
    let script = r#"
def xdp(): return "xdp" in subprocess.run(["ip", "link", "show", "plug0"], capture_output=True, text=True).stdout
subprocess.run(["vink", "lab", "up"], check=True)
stream = Stream("10.9.0.2")
stream.move()
assert xdp()
pid, = pids("driver", "interface:plug0")
os.kill(pid, signal.SIGKILL)
until(lambda: [other for other in pids("driver", "interface:plug0") if other != pid])
stream.move()
subprocess.run(["vink", "lab", "down"], check=True)
until(lambda: not xdp())
"#;
    succeeds(&control, &lab, script);
    control.nothing_is_left();
}

/// Answers datagrams to port 9 in the stack's place, without a checksum.
const ANSWERS: &str = r#"
#include <string.h>
#include <vink/pod.h>

POD();

static void swap(uint8_t *one, uint8_t *two, uint32_t len)
{
	for (uint8_t byte; len--; one++, two++)
		byte = *one, *one = *two, *two = byte;
}

int32_t pod_packet(uint8_t *frame, uint32_t len, uint32_t room, uint32_t direction)
{
	swap(frame, frame + 6, 6);
	swap(frame + 26, frame + 30, 4);
	swap(frame + 34, frame + 36, 2);
	memset(frame + 40, 0, 2);
	memcpy(frame + 42, "pod", 3);
	vink_emit(POD_BACK, frame, len);
	vink_count(0, 1);
	return POD_DROP;
}
"#;

/// What comes to a queue of the interface meets a pod before the stack, which sees none of it.
#[test]
fn a_pod_before_the_stack() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    compile_pod(&control, "answers", ANSWERS);
    let lab = LAB.replace("interface: plug0", "xdp: { interface: plug0 }")
        + "pods:
  answers: { file: answers.so, wall: process }
paths:
  front: { at: \"m1:eth0\", on: arrival, filter: udp dst port 9, pods: [answers] }
";
    let script = r#"
import json
vink = lambda *words: subprocess.run(["vink", *words], check=True, stdout=subprocess.PIPE, text=True).stdout
vink("lab", "up")
stream = Stream("10.9.0.2")
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.settimeout(60)
udp.connect(("10.9.0.2", 9))
def ask(count):
    for number in range(count):
        udp.send(b"...%d" % number)
        said = udp.recv(99)
        yield said
assert list(ask(20)) == [b"pod%d" % number for number in range(20)]
stream.move()
assert json.loads(vink("pod", "stat", "answers", "--json"))["counters"][0] == 20
seen = lambda: vink("exec", "m1", "--", "nstat", "-asz", "UdpInDatagrams").split()[-2]
assert seen() == "0", seen()
# Without the path they are the stack's.
vink("path", "revoke", "front")
assert list(ask(1)) == [b"m1"]
assert seen() == "1", seen()
vink("lab", "down")
"#;
    succeeds(&control, &lab, script);
    control.nothing_is_left();
}

#[test]
fn what_is_wrong() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    let lab = LAB.replace("plug0", "nowhere0");
    let script = r#"
def fails(*words):
    done = subprocess.run(["vink", *words], capture_output=True, text=True)
    assert done.returncode != 0, words
    return done.stderr
said = fails("lab", "up")
assert "nowhere0" in said and "ip link shows" in said, said
assert not pids("driver", "interface:nowhere0")
assert "wire:PATH" in fails("driver", "tap:tap1", "--port", "tap:x")
assert "--port" in fails("driver", "tap:tap1")
assert "interface:NAME" in fails("driver", "tap:tap1", "--fanout", "3", "--port", "wire:w")
assert "interface:NAME" in fails("driver", "tap:tap1", "--xdp", "3", "--port", "wire:w")
assert "ethtool --show-channels" in fails("driver", "interface:plug0", "--xdp", "77", "--port", "wire:w")
assert "a driver is one of" in fails("run", "--uplink", "driver:qemu:/tmp/x", "--", "true")
assert "nowhere0" in fails("run", "--uplink", "driver:interface:nowhere0", "--", "true")
"#;
    succeeds(&control, &lab, script);
    control.nothing_is_left();
}
