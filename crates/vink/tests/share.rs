//! The host's own address, beside the host's stack: which stack gets a packet, what may be sent, and what
//! is left when processes die.

mod common;

use std::process::Output;
use std::sync::atomic::{AtomicU16, Ordering};

use common::control::Control;
use common::Place;

/// Echoes TCP and UDP at a port, IPv4 and IPv6; its arguments are the port and what it calls itself.
const SERVER: &str = r#"
import socket, sys, threading
port, name = int(sys.argv[1]), sys.argv[2].encode()
def tell(family, any):
    s = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((any, port))
    while True:
        data, peer = s.recvfrom(1 << 16)
        s.sendto(name + data, peer)
for family, any in [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]:
    threading.Thread(target=tell, args=(family, any), daemon=True).start()
listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
def echo(peer):
    peer.sendall(name)
    while data := peer.recv(1 << 16): peer.sendall(data)
while True: threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Talks to such a server by all that there is; its arguments are an address, a port, the server's name and
/// the range of its own ports, if that matters.
const CLIENT: &str = r#"
import os, socket, sys, threading, time
address, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
own = range(*map(int, sys.argv[4].split("-"))) if len(sys.argv) > 4 else range(1 << 16)
family = socket.AF_INET6 if ":" in address else socket.AF_INET
def connect():
    while True:
        try: return socket.create_connection((address, port), timeout=60)
        except ConnectionRefusedError: time.sleep(0.01)
stream = connect()
assert stream.getsockname()[1] in own, stream.getsockname()
def read(length):
    back = bytearray()
    while len(back) < length:
        piece = stream.recv(1 << 16)
        assert piece
        back += piece
    return back
assert read(len(name)) == name
data = os.urandom(1 << 20) * 2
thread = threading.Thread(target=stream.sendall, args=(data,)); thread.start()
assert read(len(data)) == data
thread.join()
datagrams = socket.socket(family, socket.SOCK_DGRAM)
datagrams.settimeout(1)
# The longer ones come in fragments, on their way to another host. Of those, later ones have no port, only data.
for length in [0, 10, 1400, 1473, 4000, 20000]:
    data = (port.to_bytes(2, "big") * length)[:length]
    # One may be lost where much is going on, and not all.
    for _ in range(60):
        try: datagrams.sendto(data, (address, port))
        except ConnectionRefusedError: continue
        try:
            if datagrams.recv(1 << 16) == name + data: break
        except (TimeoutError, ConnectionRefusedError): pass
    else: assert False, length
assert datagrams.getsockname()[1] in own, datagrams.getsockname()
"#;

/// For scripts on the host. Beside it is a peer, in a network of its own; and another network with a smaller
/// MTU is behind that.
const HOST: &str = r#"
import atexit, ctypes, glob, json, os, signal, socket, struct, subprocess, sys, threading, time
port = PORT
V4, V6, PEER4, PEER6 = "10.9.0.1", "fd00:9::1", "10.9.0.2", "fd00:9::2"
def run(*words, **more): return subprocess.run(words, check=True, **more)
def said(*words): return run(*words, capture_output=True, text=True).stdout
def vink(*words): return run("vink", *words)
peer_process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
peer_process.stdout.readline()
atexit.register(peer_process.kill)
PEER = ["nsenter", "-n", "-t", str(peer_process.pid)]
for line in f"""ip link set lo up
ip link add host0 type veth peer name peer0 netns {peer_process.pid}
ip link add host1 type veth peer name peer1 netns {peer_process.pid}
ip address add {V4}/24 dev host0
ip address add {V6}/64 dev host0 nodad
ip link set host0 up
ip link set host1 mtu 1300 up
ip route add 10.8.0.0/24 dev host1
ip -6 route add fd00:8::/64 dev host1
ip route add default via {PEER4}
ip -6 route add default via {PEER6}
peer ip link set lo up
peer ip address add {PEER4}/24 dev peer0
peer ip address add {PEER6}/64 dev peer0 nodad
peer ip link set peer0 up
peer ip address add 10.8.0.2/24 dev peer1
peer ip address add fd00:8::2/64 dev peer1 nodad
peer ip link set peer1 mtu 1300 up""".splitlines():
    words = line.replace("peer ip", " ".join(PEER) + " ip", 1).split() if line.startswith("peer") else line.split()
    run(*words)
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
def server(where, port, name):
    server = subprocess.Popen(where + ["python3", "server.py", str(port), name])
    atexit.register(server.kill)
    return server
def client(where, address, port, name, *more): return run(*where, "python3", "client.py", address, str(port), name, *more)
def is_free(port):
    "No process holds it, and no rule."
    for family, address in [(socket.AF_INET, V4), (socket.AF_INET6, V6)]:
        for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
            try:
                with socket.socket(family, kind) as s: s.bind((address, port))
            except OSError: return False
    return "vink" not in said("nft", "list", "tables")
"#;

/// A host with a script in Python after [`HOST`], and a port that no other test has, in `port`.
fn on_host(control: &Control<'_>, lab: &str, script: &str) -> Output {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    // Drivers are found by it in their command lines.
    let port = 2000 + (pid % 2000) as u16 * 8 + count;
    let named = |text: &str| text.replace("PORT", &port.to_string());
    control.write("server.py", SERVER);
    control.write("client.py", CLIENT);
    control.write("lab.yaml", &named(lab));
    control.write("host.py", &named(&format!("{HOST}{script}")));
    let mut command = control.command("unshare");
    if !vink_sys::process::is_root() || control.is_nobody() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--", "python3", "host.py"]);
    command.output().expect("a host")
}

fn succeeds(control: &Control<'_>, lab: &str, script: &str) {
    let output = on_host(control, lab, &format!("{script}\nprint('good')"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.ends_with("good\n"),
        "{}: {text}{errors}",
        control.place().user()
    );
}

const LAB: &str = "
machines:
  m1:
    interfaces: { eth0: { wire: one } }
    programs: { server: { command: exec python3 server.py PORT m1 } }
  m2:
    interfaces: { eth0: { wire: two } }
    programs: { server: { command: exec python3 server.py 20022 m2 } }
wires:
  one: { uplink: { share: { ports: [PORT, PORT/udp] } } }
  two: { uplink: 'share:10.9.0.1,fd00:9::1,20022,20022/udp,ephemeral=32' }
";

#[test]
fn two_stacks_and_the_hosts_at_one_address() {
    let script = r#"
vink("lab", "up")
m1, m2 = [["vink", "exec", machine, "--"] for machine in ["m1", "m2"]]
host = server([], 20033, "host")
peer = server(PEER, 20044, "peer")
# The host has its ports, the machines have theirs.
ranges = [said(*m, "cat", "/proc/sys/net/ipv4/ip_local_port_range").split() for m in [m1, m2]]
assert [int(last) - int(first) for first, last in ranges] == [255, 31], ranges
assert int(ranges[0][1]) < int(ranges[1][0]), ranges
own1, own2 = [f"{first}-{int(last) + 1}" for first, last in ranges]
for own in [V4, V6]:
    for number in [port, 20022]:
        try: socket.create_server((own, number), family=socket.AF_INET6 if ":" in own else socket.AF_INET); assert False
        except OSError as error: assert error.errno == 98, error
    for where in [PEER, []]:
        client(where, own, port, "m1"); client(where, own, 20022, "m2"); client(where, own, 20033, "host")
    client(m1, own, 20022, "m2", own1); client(m2, own, port, "m1", own2)
    client(m1, own, 20033, "host", own1); client(m2, own, 20033, "host", own2)
    # A machine's own server is there, too.
    client(m1, own, port, "m1", own1)
for other in [PEER4, PEER6]:
    for where in [m1, m2, []]: client(where, other, 20044, "peer")
# By a way with a smaller MTU, of which the machine learns.
for other in ["10.8.0.2", "fd00:8::2"]: client(m1, other, 20044, "peer")
# Echo requests and replies, of all at once, with fragments.
pings = [subprocess.Popen(where + ["ping", "-c", "3", "-i", "0.2", "-W", "60", "-s", size, other], stdout=subprocess.PIPE, text=True)
    for where in [m1, m2, []] for other in [PEER4, PEER6] for size in ["56", "4000"]]
for ping in pings:
    text = ping.communicate()[0]
    assert ping.returncode == 0 and "3 received" in text and "DUP" not in text, text
# The host answers pings to its address.
run(*PEER, "ping", "-c", "1", "-W", "60", V4, stdout=subprocess.DEVNULL)
# Errors come back: no program at the other end's port, in either direction; no route.
refused = f"""
import socket, sys, time
address, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
s.connect((address, port))
# IP_RECVERR, IPV6_RECVERR: of routers' errors, too.
s.setsockopt(*((41, 25) if ":" in address else (0, 11)), 1)
while True:
    try: s.send(b"?"); s.settimeout(1); s.recv(100)
    except TimeoutError: continue
    except OSError as error: print(error.errno); break
"""
for other in [PEER4, PEER6]: assert said(*m1, "python3", "-c", refused, other, "20099") == "111\n"
m1_port = ranges[0][0]
for own in [V4, V6]: assert said(*PEER, "python3", "-c", refused, own, m1_port) == "111\n"
run("ip", "route", "delete", "default"); run("ip", "-6", "route", "delete", "default")
assert said(*m1, "python3", "-c", refused, "192.0.2.9", "9") == "101\n"
assert said(*m1, "python3", "-c", refused, "2001:db8::9", "9") == "101\n"
# An address goes and comes back: so does the carrier.
def error(): return json.loads(said("vink", "wire", "show", "one", "--json")).get("uplink-error")
run("ip", "address", "delete", V4 + "/24", "dev", "host0")
assert "what that leads to is down" in until(error)
run("ip", "address", "add", V4 + "/24", "dev", "host0")
until(lambda: not error())
client(PEER, V4, port, "m1")
# The uplink goes: the machine is as it was.
text = open("lab.yaml").read()
start = text.index("wires:\n")
open("new.yaml", "w").write(text[:start] + "wires:\n  one: {}\n  two: {}\n")
os.replace("new.yaml", "lab.yaml")
vink("lab", "apply", "lab.yaml")
assert said(*m1, "cat", "/proc/sys/net/ipv4/ip_local_port_range").split() == ["32768", "60999"]
assert V4 not in said(*m1, "ip", "address") and "0:\tfrom all lookup local" in said(*m1, "ip", "rule")
assert is_free(port) and is_free(20022)
vink("lab", "down")
host.kill(); peer.kill()
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        succeeds(&control, LAB, script);
        control.nothing_is_left();
    }
}

/// A machine that can send any frame to a driver of its own, which only knows the ports.
#[test]
fn what_is_not_its_own_is_not_sent() {
    let script = r#"
os.mkdir("port")
uplink = f"share:{port},{port}/udp,ephemeral=16"
driver = subprocess.Popen(["vink", "driver", uplink, "--port", "wire:port/wire", "--verbose"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
word, grant = driver.stdout.readline().split(maxsplit=1)
assert word == "ready"
(first, last), = json.loads(grant)["ephemeral"]
attack = r"""
import json, socket, struct, sys
port, free = int(sys.argv[1]), int(sys.argv[2])
def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def v4(payload, protocol=17, source="10.9.0.1", to="10.9.0.2", fragment=0, number=1, options=b""):
    words = 5 + len(options) // 4
    header = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, words * 4 + len(payload), number, fragment, 64, protocol, 0,
        socket.inet_aton(source), socket.inet_aton(to)) + options
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return b"\x08\0" + header + payload
def v6(payload, protocol=17, source="fd00:9::1", to="fd00:9::2"):
    return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + \
        socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to) + payload
def udp(source, to=20077, data=b"attack"): return struct.pack("!HHHH", source, to, 8 + len(data), 0) + data
def tcp(source): return struct.pack("!HHIIBBHHH", source, 20077, 1, 0, 5 << 4, 2, 100, 0, 0)
def icmp(kind, code, rest): return struct.pack("!BBHI", kind, code, 0, 0) + rest
about = lambda port, **more: v4(udp(20077, port, b"about"), source="10.9.0.2", to="10.9.0.1", **more)[2:]
attacks = [
    # Another sender's address, and no address.
    v4(udp(port), source="10.9.0.77"), v4(udp(port), source="10.9.0.2"), v4(udp(port), source="0.0.0.0"),
    v6(udp(port), source="fd00:9::77"), v4(udp(port), source="127.0.0.1"),
    # Ports of the host's: of each protocol, beside the range, and of the other protocol.
    v4(udp(22)), v4(tcp(22), 6), v4(udp(free)), v4(tcp(free), 6), v6(udp(22)), v6(tcp(free), 6),
    # The host's own servers.
    v4(udp(port), to="127.0.0.1"), v6(udp(port), to="::1"), v4(udp(port), to="0.0.0.0"), v6(udp(port), to="::ffff:127.0.0.1"),
    # Too short to have ports; fragments of nothing, and a first one without ports; options.
    v4(b"\0\0"), v4(tcp(22)[:3], 6), v4(udp(port), fragment=100), v4(b"12", fragment=0x2000), v4(udp(22), fragment=0x2000),
    v4(udp(port), options=b"\x83\x07\x04\x0a\x09\0\x02\0"),
    # Protocols without ports.
    v4(udp(port), 132), v4(udp(port), 47), v4(b"\5\1" + udp(port), 1), v4(icmp(8, 12, b""), 1), v6(udp(port), 0), v6(udp(port), 43), v6(b"\x11\0\0\0" + udp(port), 60),
    # Errors about others' packets, about those of the host's ports, and such as no host sends.
    v4(icmp(3, 3, about(22)), 1), v4(icmp(3, 3, about(port)), 1, to="10.9.0.3"), v4(icmp(3, 4, about(port)), 1),
    v4(icmp(5, 1, about(port)), 1), v4(icmp(0, 0, b""), 1), v4(icmp(13, 0, b"\0" * 12), 1), v4(icmp(3, 3, b""), 1),
    v6(icmp(2, 0, b"\0" * 48), 58), v6(icmp(1, 4, b"\0" * 48), 58), v6(icmp(129, 0, b""), 58),
    # Longer than it says, of no IP, and nothing.
    b"\x08\0" + v4(udp(port))[2:12], b"\x08\0\x95" + b"\0" * 40, b"\x08\0" + v4(udp(port))[2:4] + b"\xff\xff" + v4(udp(port))[6:],
    b"\x08\6" + b"\0" * 28,
]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
def send(frame): s.send(b"\2viNk\2" + b"\2viNk\2" + frame)
for frame in attacks: send(frame)
# What belongs to a neighbour is of no interest.
send(v6(icmp(135, 0, b"\0" * 16), 58, source="fe80::1", to="ff02::1")); send(v4(udp(port), to="224.0.0.1"))
# What may be sent: from each of its ports; the second fragment belongs to the first.
for good in [port, free - 1]: send(v4(udp(good, data=b"good")))
send(v4(udp(port, data=b"frag" * 4)[:16], fragment=0x2000, number=7)); send(v4(b"frag" * 2, fragment=2, number=7))
send(v4(icmp(3, 3, about(port)), 1))
send(v6(udp(port, data=b"good6") ))
send(v4(udp(port, data=b"end")))
print(len(attacks))
"""
# All that the peer gets is looked at.
watch = subprocess.Popen(PEER + ["python3", "-c", r"""
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(("peer0", 3))
print("ready", flush=True)
seen, last = [], {b"end", b"od6"}
while last:
    frame = s.recv(1 << 16)
    if frame[12:14] == b"\x08\0" and frame[26:30] == socket.inet_aton("10.9.0.2"): continue
    if frame[12:14] == b"\x86\xdd" and frame[20] in (0, 58): continue
    if frame[12:14] not in (b"\x08\0", b"\x86\xdd"): continue
    seen.append(frame[14:])
    last.discard(frame[-3:])
for packet in seen: print(packet.hex())
"""], stdout=subprocess.PIPE, text=True)
watch.stdout.readline()
run_it = ["vink", "run", "--uplink", "wire:port/wire", "--address", f"{V4}/32", "--", "sh", "-c",
    'ip link set eth0 arp off; exec python3 -c "$0" "$@"']
done = subprocess.run(run_it + [attack, str(port), str(last + 1)], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
count = int(done.stdout)
packets = [bytes.fromhex(line) for line in watch.communicate()[0].split()]
assert not any(b"attack" in packet for packet in packets), packets
# One of IPv6 may have waited for its neighbour.
assert [packet[-4:] for packet in packets if packet[0] >> 4 == 4 and packet[9] == 17] == [b"good", b"good", b"frag", b"frag", b"\0end"], packets
assert [packet[20:22] for packet in packets if packet[0] >> 4 == 4 and packet[9] == 1] == [b"\3\3"], packets
assert any(packet.endswith(b"good6") for packet in packets), packets
assert len(packets) == 7, packets
status = dict(line.split(":\t", 1) for line in open(f"/proc/{driver.pid}/status"))
for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]: assert int(status[name], 16) == 0, name
assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2"
driver.terminate()
text = driver.stderr.read()
assert driver.wait() == 143
# Besides, the machine's kernel has its own to say.
refused = int(text.split(" frames refused")[0].split()[-1])
assert refused == count, (refused, count, text)
assert "its sender is 10.9.0.77, which is not shared" in text and "its port is 22/udp: add that" in text, text
assert is_free(port)
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        succeeds(&control, LAB, script);
    }
}

#[test]
fn killed_at_any_moment_it_leaves_nothing() {
    let script = r#"
words = ["vink", "driver", f"share:{port},{port}/udp", "--port", "wire:wire"]
began = time.monotonic()
driver = subprocess.Popen(words, stdout=subprocess.PIPE)
assert driver.stdout.readline().startswith(b"ready")
took = time.monotonic() - began
assert not is_free(port)
driver.kill(); driver.wait()
assert is_free(port)
# At moments all over its start.
rounds = 40
for n in range(rounds):
    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    time.sleep(took * 1.2 * n / rounds)
    driver.kill(); driver.wait()
    assert is_free(port), n
# The process with the stack, while packets pass.
uplink = ["--uplink", f"share:{port},{port}/udp"]
for victim in ["vink", "driver", "both"]:
    stack = subprocess.Popen(["vink", "run", *uplink, "--", "python3", "server.py", str(port), "m"], stderr=subprocess.DEVNULL)
    flood = subprocess.Popen(PEER + ["python3", "client.py", V4, str(port), "m"], stderr=subprocess.DEVNULL)
    driver = until(lambda: pids("driver", uplink[1]))[0]
    flood.wait()
    if victim != "driver": os.kill(stack.pid, signal.SIGKILL)
    if victim != "vink":
        try: os.kill(driver, signal.SIGKILL)
        except ProcessLookupError: pass
    if victim == "driver": until(lambda: is_free(port)); stack.kill()
    stack.wait()
    until(lambda: is_free(port) and not pids("driver", uplink[1]))
# In a lab it is started again, with the same ports.
vink("lab", "up")
words = ["driver", f"share:{port},{port}/udp"]
m1 = ["vink", "exec", "m1", "--"]
before = said(*m1, "cat", "/proc/sys/net/ipv4/ip_local_port_range")
peer = server(PEER, 20044, "peer")
for _ in range(3):
    client(PEER, V4, port, "m1")
    driver, = until(lambda: pids(*words))
    os.kill(driver, signal.SIGKILL)
    until(lambda: [other for other in pids(*words) if other != driver])
    until(lambda: not json.loads(said("vink", "wire", "show", "one", "--json")).get("uplink-error"))
    client(PEER, V6, port, "m1"); client(m1, PEER4, 20044, "peer")
assert said(*m1, "cat", "/proc/sys/net/ipv4/ip_local_port_range") == before
own = ("VINK_RUNTIME=" + os.environ["VINK_RUNTIME"]).encode()
def mine(pid):
    try: return own in open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    except OSError: return False
daemon, = [pid for pid in pids("daemon") if mine(pid)]
os.kill(daemon, signal.SIGKILL)
until(lambda: is_free(port) and is_free(20022) and not pids(*words))
peer.kill()
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        succeeds(&control, LAB, script);
        control.wait_for_no_process();
    }
}

/// Binds an address and a port as its other arguments say, prints the error number or 0, and has it until
/// its input ends.
const HOLD: &str = r#"
import socket, sys
address, port, kind, *options = sys.argv[1:]
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
for option in options:
    if option != "listen": s.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_" + option.upper()), 1)
try:
    s.bind((address, int(port)))
    if "listen" in options: s.listen()
    print(0, flush=True)
except OSError as error:
    print(error.errno, flush=True); sys.exit()
sys.stdin.readline()
"#;

/// After [`HOST`]: for labs whose programs bind ports.
const BINDING: &str = r#"
vink("lab", "up")
m1, m2 = [["vink", "exec", "-i", machine, "--"] for machine in ["m1", "m2"]]
def hold(where, address, number, kind, *options):
    "A process that has it or not, and the error number."
    words = where + ["python3", "hold.py", address, str(number), kind, *options]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process, int(process.stdout.readline())
def ends(process): process.stdin.close(); assert process.wait() == 0
def tries(*words):
    process, error = hold(*words)
    ends(process)
    return error
def gets(*words): return not tries(*words)
"#;

const LAB_ON_DEMAND: &str = "
machines:
  m1: { interfaces: { eth0: { wire: one } } }
  m2: { interfaces: { eth0: { wire: two } } }
wires:
  one: { uplink: { share: { ports: [PORT], on-demand: true } } }
  two: { uplink: 'share:10.9.0.1,fd00:9::1,on-demand,ephemeral=32' }
";

fn binding_succeeds(control: &Control<'_>, lab: &str, script: &str) {
    control.write("hold.py", HOLD);
    succeeds(control, lab, &format!("{BINDING}{script}"));
}

#[test]
fn a_port_is_had_by_binding_it() {
    let script = r#"
# The host or the stack that binds it first has it; the other protocol's is another port.
for kind, other in [("tcp", "udp"), ("udp", "tcp")]:
    for own in [V4, V6, "0.0.0.0", "::"]:
        for first, others in [(m1, [m2, []]), ([], [m1])]:
            # It may still be that of the round before.
            until(lambda: gets([], own, 21000, kind))
            holder, error = hold(first, own, 21000, kind, *["listen"] * (kind == "tcp"))
            assert error == 0, (kind, own, error)
            for place in others + [first]:
                error = tries(place, own, 21000, kind)
                assert error == 98, (kind, own, place, error)
            until(lambda: gets([], own, 21000, other))
            ends(holder)
# A machine's own sockets share it as on any host. The last one gives it up.
for option, kind in [("reuseaddr", "tcp"), ("reuseport", "udp")]:
    until(lambda: gets([], V4, 21000, kind))
    holders = [hold(m1, V4, 21000, kind, option) for _ in range(3)]
    assert [error for _, error in holders] == [0, 0, 0], (option, kind, holders)
    for holder, _ in holders[:2]: ends(holder)
    for place in [m2, []]: assert tries(place, V4, 21000, kind, option) == 98
    ends(holders[2][0])
# The machine's loopback is its own, even if another stack or the host has the port.
holder, error = hold([], "0.0.0.0", 21001, "tcp", "listen")
assert error == 0 and gets(m1, "127.0.0.1", 21001, "tcp") and gets(m1, "::1", 21001, "udp")
ends(holder)
# Ports that there were from the start, and such as the kernel chooses.
assert gets(m1, V4, port, "tcp") and gets(m1, V4, 0, "udp") and tries([], V4, port, "tcp") == 98
# Low ones, for the lab's owner may bind them.
assert gets(m1, V4, 81, "tcp")
# It is reached, from everywhere, as one from the start is.
servers = [server(machine, number, f"s{number}") for machine, number in [(m1, 21002), (m2, 21003)]]
for own in [V4, V6]:
    for where in [PEER, [], m1, m2]:
        for number in [21002, 21003]: client(where, own, number, f"s{number}")
# All want all: each port is one's.
contend = """
import socket, sys
kept = []
for number in range(21100, 21160):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: s.bind((sys.argv[1], number))
    except OSError as error: assert error.errno == 98, error
    else: kept.append((number, s))
print(*[number for number, _ in kept], flush=True)
sys.stdin.readline()
"""
words = ["python3", "-c", contend, V4]
rivals = [subprocess.Popen(where + words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for where in [m1, m2, []]]
owned = [number for rival in rivals for number in rival.stdout.readline().split()]
assert sorted(owned) == [str(number) for number in range(21100, 21160)], owned
for rival in rivals: ends(rival)
# There is a bound, of which m2's server has two.
many = """
import socket
kept, errors = [], set()
for number in range(23000, 23300):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: s.bind(("", number)); kept.append(s)
    except OSError as error: errors.add(error.errno)
print(len(kept), errors)
"""
until(lambda: said(*m2, "python3", "-c", many) == "254 {98}\n")
for process in servers: process.kill()
vink("lab", "down")
until(lambda: is_free(21002) and is_free(port))
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        binding_succeeds(&control, LAB_ON_DEMAND, script);
        control.nothing_is_left();
    }
}

#[test]
fn a_port_on_demand_goes_with_what_has_it() {
    let script = r#"
words = ["driver", f"share:{port},on-demand"]
def parent(pid): return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
def both():
    "The driver, and its child, which reserves; nothing, if they are not both there."
    found = pids(*words)
    try: return [parent(max(found, key=lambda pid: parent(pid) in found)), max(found, key=lambda pid: parent(pid) in found)] if len(found) == 2 else None
    except OSError: return None
def rights(pid): return dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status"))
driver, ports = until(both)
# CAP_NET_ADMIN and CAP_NET_BIND_SERVICE.
for name, mask in [("CapInh", 0), ("CapPrm", 0x1400), ("CapEff", 0x1400), ("CapBnd", 0), ("CapAmb", 0)]:
    assert int(rights(ports)[name], 16) == mask, (name, rights(ports)[name])
    assert int(rights(driver)[name], 16) == 0, name
for pid in [driver, ports]: assert rights(pid)["NoNewPrivs"].strip() == "1" and rights(pid)["Seccomp"].strip() == "2"
# A program that is killed has it no more.
holder, error = hold(m1, V4, port + 1, "tcp", "listen")
assert error == 0 and tries([], V4, port + 1, "tcp") == 98
# Not `vink exec`, which has the same words.
program, = [pid for pid in pids("hold.py", str(port + 1)) if open(f"/proc/{pid}/comm").read() == "python3\n"]
os.kill(program, signal.SIGKILL); holder.wait()
until(lambda: gets([], V4, port + 1, "tcp"))
# One that is there when the driver or its child is killed, has it again.
one = server(m1, 21002, "s")
for which in [0, 1]:
    client(PEER, V4, 21002, "s")
    before = both()
    os.kill(before[which], signal.SIGKILL)
    until(lambda: not set(before) & set(pids(*words)) and both())
    until(lambda: said("nft", "list", "ruleset").count("21002") == 2)
    assert tries([], V4, 21002, "tcp") == 98
    client(PEER, V6, 21002, "s")
# With all of it, nothing is left.
own = ("VINK_RUNTIME=" + os.environ["VINK_RUNTIME"]).encode()
def mine(pid):
    try: return own in open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    except OSError: return False
daemon, = [pid for pid in pids("daemon") if mine(pid)]
os.kill(daemon, signal.SIGKILL)
until(lambda: is_free(port) and is_free(21002) and not pids(*words))
one.wait()
uplink = ["--uplink", "share:on-demand"]
words = ["driver", "share:on-demand"]
for victim in ["vink", "driver", "ports"]:
    stack = subprocess.Popen(["vink", "run", *uplink, "--", "python3", "server.py", "21002", "r"], stderr=subprocess.DEVNULL)
    driver, ports = until(both)
    client(PEER, V4, 21002, "r")
    os.kill({"vink": stack.pid, "driver": driver, "ports": ports}[victim], signal.SIGKILL)
    until(lambda: is_free(21002) and not pids(*words))
    stack.kill(); stack.wait()
# The right to low ports is the owner's.
low = ["vink", "run", *uplink, "--", "python3", "-c", "import socket; socket.socket().bind(('', 81))"]
run(*low)
done = subprocess.run(["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service", *low], capture_output=True, text=True)
assert "PermissionError: [Errno 13]" in done.stderr, done.stderr
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        binding_succeeds(&control, LAB_ON_DEMAND, script);
        control.wait_for_no_process();
    }
}

#[test]
fn other_ports_are_refused_unless_on_demand() {
    let lab = "
machines:
  m1: { interfaces: { eth0: { wire: one } } }
  m2: { interfaces: { eth0: { wire: two }, eth1: { wire: inside, addresses: [10.1.0.1/24] } } }
wires:
  one: { uplink: { share: { ports: [PORT] } } }
  two: { uplink: { share: { ports: [20022/udp] } } }
  inside: {}
";
    let script = r#"
for own in [V4, V6, "0.0.0.0", "::"]:
    for kind in ["tcp", "udp"]:
        # EACCES; the host has it, if it likes.
        assert tries(m1, own, 21000, kind) == 13 and gets([], own, 21000, kind), (own, kind)
    assert gets(m1, own, port, "tcp") and tries(m1, own, port, "udp") == 13 and gets(m1, own, 0, "tcp")
assert gets(m1, "127.0.0.1", 21000, "tcp")
# A machine that is elsewhere, too, may have it there.
assert gets(m2, "0.0.0.0", 21000, "tcp") and gets(m2, "10.1.0.1", 21000, "tcp")
assert tries(m2, V4, 21000, "tcp") == 13 and gets(m2, V4, 20022, "udp")
vink("lab", "down")
words = ["vink", "run", "--uplink", f"share:{port}", "--", "python3", "hold.py", "0.0.0.0", "21000", "tcp"]
done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
assert done.stdout == "13\n" and "does not get port 21000: add it to the ports of the uplink, or `on-demand`" in done.stderr, done
done = subprocess.run(["vink", "driver", "share:on-demand", "--port", "wire:wire"], capture_output=True, text=True)
assert done.returncode != 0 and "name the ports" in done.stderr, done
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        binding_succeeds(&control, lab, script);
        control.nothing_is_left();
    }
}

#[test]
fn what_is_wrong() {
    let script = r#"
def fails(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    assert done.returncode != 0, words
    return done.stderr
def run_fails(uplink, *more): return fails("vink", "run", "--uplink", uplink, *more, "--", "true")
listener = socket.create_server((V4, port))
for uplink in [f"share:{port}", f"share:{V4},{port}"]:
    text = run_fails(uplink)
    assert f"reserving port {port} of {V4}" in text and "ss -tulnp" in text, text
assert f"reserving port {port}" in fails("vink", "lab", "up")
listener.close()
assert "10.9.0.3 is not an address of the host" in run_fails("share:10.9.0.3,80")
assert "share:192.0.2.1,80" in run_fails("share:80/sctp")
assert "gives its own addresses" in run_fails("share:80", "--address", "10.0.0.1/24")
assert "starts no driver process" in run_fails("share:80", "--in-process")
assert "shares these ports" in run_fails("share:80", "-p", "80:80")
assert "of 65535 ports for connections" in run_fails("share:ephemeral=65535") or "ulimit -n" in run_fails("share:ephemeral=65535")
for capability in ["net_admin", "net_raw"]:
    text = fails("setpriv", f"--bounding-set=-{capability}", f"--inh-caps=-{capability}", "vink", "run", "--uplink", f"share:{port}", "--", "true")
    assert "takes CAP_NET_ADMIN and CAP_NET_RAW" in text, text
# A host without nf_tables: its sockets are refused.
def no_netfilter():
    # struct sock_filter: of socket(AF_NETLINK, ..., NETLINK_NETFILTER), EPROTONOSUPPORT.
    program = [(0x20, 0, 0, 0), (0x15, 0, 5, 41), (0x20, 0, 0, 16), (0x15, 0, 3, 16), (0x20, 0, 0, 32), (0x15, 0, 1, 12),
        (0x06, 0, 0, 0x50000 | 93), (0x06, 0, 0, 0x7fff0000)]
    code = b"".join(struct.pack("HBBI", *each) for each in program)
    code = ctypes.create_string_buffer(code)
    filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0
text = fails("vink", "driver", f"share:{port}", "--port", "wire:wire", preexec_fn=no_netfilter)
assert "Linux 5.12 or later with nf_tables" in text, text
assert is_free(port)
run("ip", "route", "delete", "default"); run("ip", "-6", "route", "delete", "default")
assert "no default route" in run_fails("share:80")
"#;
    for place in Place::all() {
        let control = Control::of(&place);
        succeeds(&control, LAB, script);
    }
}

#[test]
fn an_ordinary_user_is_told() {
    for place in Place::all().iter().filter(|place| place.is_nobody()) {
        let output = place.vink(&["run", "--uplink", "share:192.0.2.1,80", "--", "true"]);
        let output = { output }.output().expect("vink");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success()
                && errors.contains("CAP_NET_ADMIN and CAP_NET_RAW: run it as root"),
            "{errors}"
        );
    }
}
