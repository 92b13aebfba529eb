//! Virtual machines at a wire: QEMU with a real guest, at the port that `vhost-user` makes.

mod common;

use std::path::PathBuf;

use common::control::Control;
use common::Place;

/// Answers with the digest of what it gets by TCP: busybox's nc does not read while it sends, so that
/// an echo may stand still.
const DIGEST: &str = r#"
import hashlib, socket, threading
listener = socket.create_server(("0.0.0.0", 7))
def answer(peer):
    digest = hashlib.md5()
    while data := peer.recv(1 << 16): digest.update(data)
    peer.sendall(digest.hexdigest().encode() + b"\n"); peer.close()
while True: threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"#;

/// For scripts on the host: a guest, which is done when it says so, and the processes of ports.
const HOST: &str = r#"
import atexit, glob, hashlib, json, os, signal, subprocess, sys, time
vink = lambda *words: subprocess.run(["vink", *words], check=True)
def pids(*words):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try: line = open(path, "rb").read().split(b"\0")
        except OSError: continue
        if all(word.encode() in line for word in words): found.append(int(path.split("/")[2]))
    return found
def until(condition):
    while not (value := condition()): time.sleep(0.01)
    return value
class Guest:
    def __init__(self, socket, script, device="", name="guest"):
        os.makedirs(name, exist_ok=True)
        open(name + "/script", "w").write(script)
        more = subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], input=b"script\n", cwd=name, stdout=subprocess.PIPE, check=True)
        open(name + "/initrd", "wb").write(open("initrd", "rb").read() + more.stdout)
        # Without KVM, QEMU 7.2 crashes if a vhost-user device has MSI-X.
        self.process = subprocess.Popen(["qemu-system-x86_64", "-machine", "q35,accel=tcg,memory-backend=m",
            "-object", "memory-backend-memfd,id=m,size=256M,share=on", "-m", "256M", "-nodefaults", "-no-reboot",
            "-display", "none", "-serial", "stdio", "-kernel", "vmlinuz", "-initrd", name + "/initrd",
            "-append", "console=ttyS0 quiet panic=-1", "-chardev", f"socket,id=c,path={socket},reconnect=1",
            "-netdev", "vhost-user,id=n,chardev=c", "-device", "virtio-net-pci,netdev=n,romfile=,vectors=0" + device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self.process.kill)
    def line(self, start):
        for line in self.process.stdout:
            line = line.decode(errors="replace").strip()
            print("guest:", line, flush=True)
            if line.startswith(start): return line[len(start):].strip()
        raise SystemExit(f"the guest has not said {start!r}")
    def answer(self, text):
        self.process.stdin.write(text.encode() + b"\n"); self.process.stdin.flush()
    def end(self):
        for _ in self.process.stdout: pass
        assert self.process.wait() == 0
"#;

/// A folder with the guest's parts, and a script of the host's in Python after [`HOST`]: what it
/// prints.
fn succeeds(control: &Control<'_>, lab: &str, script: &str) -> String {
    let cache = std::env::var_os("VINK_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache/vink");
    let cache = cache.unwrap_or_else(home).join("guest");
    for part in ["vmlinuz", "initrd"] {
        let copied = std::fs::copy(cache.join(part), control.folder().join(part));
        copied.unwrap_or_else(|error| panic!("{}: {error}: run .ci/guest", cache.display()));
    }
    control.write("digest.py", DIGEST);
    control.write("lab.yaml", lab);
    control.write("host.py", &format!("{HOST}{script}"));
    let output = control.command("python3").arg("host.py").output();
    let output = output.expect("python3");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

const LAB: &str = "
machines:
  m1:
    interfaces: { eth0: { wire: out, addresses: [10.9.0.1/24] } }
    programs:
      digest: { command: exec python3 digest.py, ready: { port: 7 } }
      web: { command: exec python3 -m http.server 80, ready: { port: 80 } }
wires:
  out: { uplink: { vhost-user: vm.sock } }
";

/// Packets both ways, large ones among them, while the port's process is killed again and again.
const DEATHS: &str = r#"
data = os.urandom(1 << 20) * 24
open("data", "wb").write(data)
digest = hashlib.md5(data).hexdigest()
vink("lab", "up")
guest = Guest("vm.sock", """
ip addr add 10.9.0.2/24 dev eth0; ip link set eth0 up
ping -c 3 10.9.0.1 >/dev/null && echo pinged
echo features $(cat /sys/bus/virtio/devices/virtio0/features)
wget -q -O /data http://10.9.0.1/data
echo got $(md5sum </data | cut -c 1-32)
(n=0; until [ -e /stop ]; do cat /data; n=$((n+1)); echo $n >/count; done) | nc 10.9.0.1 7 >/sum &
until [ "$(cat /sys/class/net/eth0/statistics/tx_bytes)" -gt 3000000 ]; do usleep 1000; done
echo sending
read line
touch /stop
wait
echo sent $(cat /sum) $(cat /count)
read line
""")
guest.line("pinged")
features = guest.line("features")
# CSUM, GUEST_CSUM, TSO4, TSO6, ECN both ways, merged buffers, indirect, events, version 1; no pairs of queues.
for bit in [0, 1, 7, 8, 9, 11, 12, 13, 15, 28, 29, 32]: assert features[bit] == "1", (bit, features)
assert features[22] == "0", features
assert guest.line("got") == digest
vink("exec", "m1", "--", "ping", "-c", "1", "10.9.0.2")
guest.line("sending")
words = ["driver", "vhost-user:vm.sock"]
killed = until(lambda: pids(*words))
for _ in range(2):
    os.kill(killed[-1], signal.SIGKILL)
    new, = until(lambda: [pid for pid in pids(*words) if pid != killed[-1]])
    killed.append(new)
assert len(set(killed)) == 3, killed
guest.answer("stop")
sent, count = guest.line("sent").split()
whole = hashlib.md5()
for _ in range(int(count)): whole.update(data)
assert sent == whole.hexdigest(), (sent, count)
# What holds of a driver holds of it: it has no rights.
status = dict(line.split(":\t", 1) for line in open(f"/proc/{killed[-1]}/status"))
assert int(status["CapEff"], 16) == 0 and status["Seccomp"].strip() == "2"
vink("exec", "m1", "--", "sh", "-c", "until ip -brief link show eth0 | grep LOWER_UP; do sleep 0.1; done")
guest.answer("bye")
guest.end()
# The guest is gone, and so is the carrier; another one may come.
vink("exec", "m1", "--", "sh", "-c", "until ip -brief link show eth0 | grep NO-CARRIER; do sleep 0.1; done")
guest = Guest("vm.sock", "ip addr add 10.9.0.2/24 dev eth0; ip link set eth0 up; ping -c 1 10.9.0.1 && echo pinged", ",mrg_rxbuf=off,guest_tso4=off,event_idx=off")
guest.line("pinged")
guest.end()
vink("lab", "down")
assert not os.path.exists("vm.sock") and not pids(*words)
"#;

#[test]
fn a_guest_and_the_deaths_of_its_port() {
    for place in Place::all() {
        let control = Control::of(&place);
        succeeds(&control, LAB, DEATHS);
        control.nothing_is_left();
    }
}

const SWITCH: &str = "
machines:
  a: { interfaces: { eth0: { switch: sw, addresses: [10.9.0.1/24] } } }
switches:
  sw:
    ports:
      vm: { wire: vm, mac: \"52:54:00:12:34:56\", addresses: [10.9.0.2] }
wires:
  vm: { uplink: { vhost-user: vm.sock } }
";

/// A guest at a switch's port, which sends from its own address and from another one.
const PINNED: &str = r#"
vink("lab", "up")
guest = Guest("vm.sock", """
ip addr add 10.9.0.2/24 dev eth0; ip link set eth0 up
ping -c 1 10.9.0.1 >/dev/null && echo pinged
ip addr add 10.9.0.3/24 dev eth0
ping -I 10.9.0.3 -c 1 -W 1 10.9.0.1 >/dev/null || echo dropped
""", ",mac=52:54:00:12:34:56")
guest.line("pinged")
guest.line("dropped")
guest.end()
counters = subprocess.run(["vink", "exec", "sw", "--", "nft", "-j", "list", "counters"], check=True, stdout=subprocess.PIPE)
counters = [entry["counter"] for entry in json.loads(counters.stdout)["nftables"] if "counter" in entry]
packets = {counter["name"]: counter["packets"] for counter in counters}
assert packets["port-vm-ip"] + packets["port-vm-arp"] > 0, packets
vink("lab", "down")
"#;

#[test]
fn a_guest_at_a_switch_has_its_own_address_only() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    succeeds(&control, SWITCH, PINNED);
    control.nothing_is_left();
}

/// The options that the page tells users of are those of the guests above.
#[test]
fn the_page_has_these_options() {
    let page = std::fs::read_to_string(common::root().join("docs/vm.md")).expect("the page");
    for options in [
        "memory-backend=m",
        "-object memory-backend-memfd,id=m,size=1G,share=on",
        "-chardev socket,id=c,path=vm.sock,reconnect=1",
        "-netdev vhost-user,id=n,chardev=c",
        "-device virtio-net-pci,netdev=n,vectors=0",
        "uplink: { vhost-user: vm.sock }",
    ] {
        assert!(page.contains(options), "{options}");
    }
}
