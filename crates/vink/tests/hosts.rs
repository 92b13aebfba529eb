//! A lab over several hosts: each in a network namespace of its own, reached by a command that enters it,
//! or by ssh.

mod common;

use common::control::Control;
use common::Place;

/// For scripts on this host. Beside it are two others, `west` (10.9.1.2) and `east` (10.9.2.2), which reach
/// each other through it. All is in a PID namespace, so that no process outlives the script, and the script
/// sees all that are left.
const HERE: &str = r#"
import atexit, glob, json, os, pty, re, select, signal, socket, subprocess, sys, time
def run(*words, **more):
    done = subprocess.run(words, **more)
    assert done.returncode == 0, done
    return done
def said(*words, **more): return run(*words, capture_output=True, text=True, **more).stdout
def vink(*words, **more): return said("vink", *words, **more)
def fails(*words):
    done = subprocess.run(("vink", *words), capture_output=True, text=True)
    assert done.returncode != 0, done
    return done.stderr
def ps(): return json.loads(vink("lab", "ps", "--json", "lab"))
def until(condition):
    while not (value := condition()): time.sleep(0.02)
    return value
def processes(*names):
    "Of vink, by subcommands; not those that have ended."
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try: line = open(path, "rb").read().split(b"\0")
        except OSError: continue
        if line[0].endswith(b"vink") and len(line) > 1 and (not names or line[1].decode() in names):
            found.append(int(path.split("/")[2]))
    return found
def nothing_is_left():
    until(lambda: not processes() and not os.path.exists(os.environ["VINK_RUNTIME"] + "/socket"))
def agent_of(host):
    "The agent on a host, by its network."
    network = os.readlink(f"/proc/{hosts[host]}/ns/net")
    found = [pid for pid in processes("lab-host") if os.readlink(f"/proc/{pid}/ns/net") == network]
    assert len(found) == 1, found
    return found[0]
hosts = {}
def make(name, number):
    holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", "echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    hosts[name] = holder.pid
    there = ["nsenter", "-n", "-m", "-t", str(holder.pid)]
    run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
    run("ip", "address", "add", f"10.9.{number}.1/24", "dev", name)
    run("ip", "link", "set", name, "up")
    for line in ["link set lo up", f"address add 10.9.{number}.2/24 dev eth0", "link set eth0 up", f"route add default via 10.9.{number}.1"]:
        run(*there, "ip", *line.split())
    return there
run("ip", "link", "set", "lo", "up")
open("/proc/sys/net/ipv4/ip_forward", "w").write("1")
west, east = make("west", 1), make("east", 2)
VINK = os.path.abspath("../vink")
def lab_of(text, name="lab.yaml"):
    "A lab file; `WEST` and `EAST` are the commands that lead there."
    for word, words in [("WEST", west), ("EAST", east)]:
        text = text.replace(word, json.dumps(words))
    open(name, "w").write(text.replace("VINK", VINK))
"#;

/// A machine on each host, and one here; each two of them are joined.
const LAB: &str = "
name: lab
hosts:
  west: { command: WEST, vink: VINK, address: 10.9.1.2 }
  east: { command: EAST, vink: VINK, address: 10.9.2.2 }
machines:
  a:
    host: west
    interfaces: { eth0: { wire: ab, addresses: [10.0.0.1/24] }, eth1: { wire: ac, addresses: [10.0.1.1/24] } }
  b:
    host: east
    forward: true
    interfaces: { eth0: { wire: ab, addresses: [10.0.0.2/24] }, eth1: { wire: bc, addresses: [10.0.2.2/24] } }
    programs: { web: { command: 'echo here is b; exec python3 -m http.server 80', ready: { port: 80 } } }
  a2:
    host: west
    worker: other
    interfaces: { eth0: { wire: ac, addresses: [10.0.1.4/24] } }
  c:
    interfaces: { eth1: { wire: bc, addresses: [10.0.2.3/24] } }
wires:
  ab: { delay: 5ms }
  ac: {}
  bc: {}
";

fn on_hosts(control: &Control<'_>, lab: &str, script: &str) {
    let script = format!("{HERE}LAB = '''{lab}'''\nlab_of(LAB)\n{script}\nprint('good')");
    control.write("here.py", &script);
    let mut command = control.command("unshare");
    if !vink_sys::process::is_root() || control.is_nobody() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--mount-proc"]);
    command.args(["--kill-child", "--", "python3", "here.py"]);
    let output = command.output().expect("hosts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.ends_with("good\n"),
        "{}: {text}{errors}",
        control.place().user()
    );
}

#[test]
fn machines_of_several_hosts_are_one_lab() {
    for place in Place::all() {
        let control = Control::of(&place);
        on_hosts(
            &control,
            LAB,
            r#"
vink("lab", "up", "lab.yaml")
status = ps()
assert {host["name"]: host["state"] for host in status["hosts"]} == {"west": "connected", "east": "connected"}, status
assert {m["name"]: m.get("host") for m in status["machines"]} == {"a": "west", "a2": "west", "b": "east", "c": None}
table = vink("lab", "ps", "lab")
assert re.search(r"MACHINE +STATE +HOST", table) and re.search(r"\na +running +west ", table), table
# Each worker is in the network of its host.
network = lambda pid: os.readlink(f"/proc/{pid}/ns/net")
for worker in status["workers"]:
    own = network(hosts[worker["host"]]) if "host" in worker else network("self")
    assert network(worker["pid"]) == own, worker
# What a program reads and writes, all of it, and how it ends.
assert vink("exec", "a", "--", "hostname") == "a\n"
numbers = "".join(f"{n}\n" for n in range(100000))
assert vink("exec", "a", "--", "seq", "0", "99999") == numbers
assert vink("exec", "-i", "a", "--", "cat", input=numbers) == numbers
ended = subprocess.run(["vink", "exec", "a", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], capture_output=True)
assert (ended.returncode, ended.stdout, ended.stderr) == (7, b"out\n", b"err\n"), ended
assert "here is b" in vink("lab", "logs", "b.web")
# Between two hosts, between two workers of one host, and with this host.
for machine, address in [("a", "10.0.0.2"), ("a2", "10.0.1.1"), ("c", "10.0.2.2")]:
    vink("exec", machine, "--", "ping", "-c", "3", "-i", "0.1", "-W", "30", address)
page = vink("exec", "c", "--", "curl", "-sS", "http://10.0.2.2/")
assert "Directory listing" in page, page
# The wire's settings are those of the sending ends, once in each direction.
def rtt():
    text = vink("exec", "a", "--", "ping", "-c", "3", "-i", "0.1", "-W", "30", "10.0.0.2")
    return float(re.search(r"= ([\d.]+)/", text)[1])
assert rtt() >= 10
vink("wire", "set", "ab", "delay", "40ms", "from", "a:eth0")
assert rtt() >= 45
vink("wire", "set", "ab", "loss", "100%")
assert subprocess.run(["vink", "exec", "a", "--", "ping", "-c", "2", "-i", "0.1", "-W", "1", "10.0.0.2"], capture_output=True).returncode == 1
vink("wire", "set", "ab", "loss", "0%")
# Captures, breakpoints and numbers are as anywhere.
capture = subprocess.Popen(["vink", "capture", "-c", "2", "-w", "a.pcapng", "a", "eth0", "icmp"], stderr=subprocess.PIPE)
while capture.poll() is None: vink("exec", "a", "--", "ping", "-c", "1", "-W", "30", "10.0.0.2")
assert capture.returncode == 0 and os.path.getsize("a.pcapng") > 200
vink("break", "add", "b:eth0", "departure", "filter", "icmp", "drop", "name", "drops")
assert subprocess.run(["vink", "exec", "a", "--", "ping", "-c", "1", "-W", "1", "10.0.0.2"], capture_output=True).returncode == 1
vink("break", "rm", "drops")
vink("exec", "a", "--", "ping", "-c", "1", "-W", "30", "10.0.0.2")
# A terminal, and its size.
master, slave = pty.openpty()
import fcntl, struct, termios
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
shell = subprocess.Popen(["vink", "exec", "-it", "a", "--", "sh"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
text = b""
def wait_for(pattern):
    global text
    while not re.search(pattern, text): text += os.read(master, 4096)
wait_for(rb"[#$] ")
os.write(master, b"stty size; echo $((6 * 7)) there\n")
wait_for(rb"33 77\r\n42 there")
os.write(master, b"sh -c 'echo sle''ep; exec sleep 1000'\n")
wait_for(rb"sleep\r\n")
os.write(master, b"\x03")
os.write(master, b"exit 3\n")
assert shell.wait() == 3, text
vink("lab", "down", "lab")
nothing_is_left()
"#,
        );
    }
}

#[test]
fn a_lost_host_is_a_lost_carrier_and_comes_back() {
    for place in Place::all() {
        let control = Control::of(&place);
        on_hosts(
            &control,
            LAB,
            r#"
vink("lab", "up", "lab.yaml")
worker_of = lambda host: [w["pid"] for w in ps()["workers"] if w.get("host") == host]
state_of = lambda host: [h["state"] for h in ps()["hosts"] if h["name"] == host][0]
carrier = lambda interface: vink("exec", "b", "--", "cat", f"/sys/class/net/{interface}/carrier").strip()
ping = lambda machine, address: vink("exec", machine, "--", "ping", "-c", "1", "-W", "30", address)
others = worker_of("east"), worker_of(None)
events = subprocess.Popen(["vink", "lab", "events", "--json"], stdout=subprocess.PIPE, text=True)
# Killed, and silent: then its machines' peers have no carrier, and all else goes on.
for signal_ in [signal.SIGKILL, signal.SIGSTOP]:
    ping("a", "10.0.0.2")
    assert carrier("eth0") == "1"
    before = worker_of("west")
    os.kill(agent_of("west"), signal_)
    until(lambda: state_of("west") == "lost")
    while '"kind":"host"' not in (line := events.stdout.readline()).replace(" ", "") or '"lost"' not in line: assert line
    status = ps()
    assert {m["name"]: m["state"] for m in status["machines"]} == {"a": "lost", "a2": "lost", "b": "running", "c": "running"}
    table = vink("lab", "ps", "lab")
    assert "host west is lost" in table and re.search(r"\na +lost +west ", table), table
    until(lambda: carrier("eth0") == "0")
    ping("c", "10.0.2.2")
    assert "lost" in fails("exec", "a", "--", "true")
    until(lambda: not set(before) & set(processes()))
    # What ran there is started afresh, and nothing else.
    vink("lab", "up", "lab.yaml")
    assert state_of("west") == "connected"
    assert (worker_of("east"), worker_of(None)) == others
    until(lambda: carrier("eth0") == "1")
    for machine, address in [("a", "10.0.0.2"), ("a2", "10.0.1.1")]: ping(machine, address)
    assert "runs already" in fails("lab", "up", "lab.yaml")
# What neither side has sent is dropped and counted, and harms nothing.
rejected = lambda: json.loads(vink("wire", "show", "--json", "ab"))["rejected"]
assert rejected() == 0
ports = [int(line.split()[3].rsplit(":", 1)[1]) for line in said(*west, "ss", "-Huln").splitlines()]
stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in ports:
    for data in [b"", b"VNK\2", b"VNK\2" + bytes(60), os.urandom(1400), b"VNK\2" + os.urandom(1400)]:
        stranger.sendto(data, ("10.9.1.2", port))
until(lambda: rejected() >= 5)
for _ in range(3): ping("a", "10.0.0.2")
assert carrier("eth0") == "1"
events.kill()
vink("lab", "down", "lab")
nothing_is_left()
"#,
        );
    }
}

#[test]
fn nothing_is_left_on_any_host_whatever_is_killed() {
    for place in Place::all() {
        let control = Control::of(&place);
        on_hosts(
            &control,
            LAB,
            r#"
victims = ["daemon", "lab-host", "lab-worker"]
for round in range(20):
    up = subprocess.Popen(["vink", "lab", "up", "lab.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: processes("daemon") or up.poll() is not None)
    # At another moment each time; that is no more than a choice.
    time.sleep(round * 0.05)
    for pid in processes(victims[round % 3]):
        try: os.kill(pid, signal.SIGKILL)
        except ProcessLookupError: pass
    up.wait()
    # The control process is there, or is gone with all that it had.
    if victims[round % 3] != "daemon": subprocess.run(["vink", "lab", "down", "--all"], capture_output=True, check=True)
    until(lambda: not processes())
# Ctrl-C while hosts are being reached: one that never greets, whatever its command line goes on with.
lab_of(LAB.replace("command: EAST", "command: [sh, -c, 'exec sleep 1000']"))
up = subprocess.Popen(["vink", "lab", "up", "lab.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
until(lambda: processes("lab-host") or up.poll() is not None)
up.send_signal(signal.SIGINT)
assert up.wait() != 0
until(lambda: not processes())
"#,
        );
    }
}

#[test]
fn what_can_not_be_is_refused_with_its_reason() {
    for place in Place::all() {
        let control = Control::of(&place);
        on_hosts(
            &control,
            LAB,
            r##"
def up(**changes):
    text = LAB
    for old, new in changes.values(): text = text.replace(old, new)
    lab_of(text)
    error = fails("lab", "up", "lab.yaml")
    nothing_is_left()
    return error
def tool(name, text):
    open(name, "w").write(text)
    os.chmod(name, 0o755)
    return os.path.abspath(name)
error = up(where=("WEST, vink: VINK", "WEST, vink: /nowhere/vink"))
assert "host west" in error and "No such file" in error and "install vink" in error, error
old = tool("old", "#!/bin/sh\necho \"error: unrecognized subcommand 'lab-host'\" >&2; exit 2\n")
error = up(where=("WEST, vink: VINK", f"WEST, vink: {old}"))
assert "host west" in error and "older" in error, error
other = tool("other", """#!/usr/bin/env python3
import json, struct, sys
hello = {"version": 1, "protocol": 0, "vink": "0.0.1", "address": None, "env": [], "folder": "/"}
text = json.dumps({"hello": hello}).encode()
sys.stdout.buffer.write(b"motd\\nvink lab-host 1\\n" + struct.pack(">IBI", 5 + len(text), 0, 0) + text)
sys.stdout.flush()
sys.stdin.read()
""")
error = up(where=("WEST, vink: VINK", f"WEST, vink: {other}"))
assert "host west" in error and "0.0.1" in error and "install the same" in error, error
error = up(west=(", address: 10.9.1.2", ""), east=(", address: 10.9.2.2", ""))
assert "no address is known of host" in error and "west" in error and "wire a" in error, error
error = up(image=("host: west\n    worker", "host: west\n    image: none\n    worker"), images=("name: lab", "name: lab\nimages: { none: no-such-image }"))
assert "host west" in error and "no-such-image" in error, error
for what, old, new in [
    ("clock", "name: lab", "name: lab\ntime: virtual"),
    ("no host `wst`", "host: west\n    worker", "host: wst\n    worker"),
    ("one way", "command: EAST", "ssh: east, command: EAST"),
    ("not on host west", "host: west\n    worker", "host: west\n    root: .\n    worker"),
]:
    lab_of(LAB.replace(old, new))
    checked = subprocess.run(["vink", "lab", "check", "lab.yaml"], capture_output=True, text=True)
    text = checked.stdout + checked.stderr
    assert checked.returncode == 1 and re.search(r"lab.yaml:\d+:\d+: error", text) and what in text, text
"##,
        );
    }
}

/// By ssh, with a server and keys of the test's own. Root's, since sshd is.
#[test]
fn a_host_is_reached_by_ssh() {
    let place = Place::all().remove(0);
    if !vink_sys::process::is_root() {
        return;
    }
    let control = Control::of(&place);
    on_hosts(
        &control,
        &LAB.replace(
            "command: WEST, vink: VINK, address: 10.9.1.2",
            "ssh: west, vink: VINK",
        ),
        r#"
import pwd
home = pwd.getpwuid(0).pw_dir + "/.ssh"
os.makedirs(home, exist_ok=True)
run("mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", home)
for key in ["server", home + "/client"]: run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
here = os.getcwd()
open("sshd", "w").write(f"""ListenAddress 10.9.1.2:2222
HostKey {here}/server
AuthorizedKeysFile {home}/client.pub {here}/client.pub
PidFile none
StrictModes no
PermitRootLogin prohibit-password
""")
run("cp", home + "/client.pub", "client.pub")
server = subprocess.Popen(west + ["sh", "-c", f"mount -t tmpfs tmpfs /run; mkdir -p -m 755 /run/sshd; exec /usr/sbin/sshd -D -e -f {here}/sshd"], stderr=subprocess.DEVNULL)
atexit.register(server.kill)
def answers():
    try: socket.create_connection(("10.9.1.2", 2222)).close()
    except OSError: return False
    return True
until(answers)
open(home + "/config", "w").write(f"Host west\n HostName 10.9.1.2\n Port 2222\n User root\n IdentityFile {home}/client\n")
error = fails("lab", "up", "lab.yaml")
assert "host west" in error and "Host key verification failed" in error and "BatchMode" in error, error
open(home + "/known_hosts", "w").write(f"[10.9.1.2]:2222 {open('server.pub').read()}")
vink("lab", "up", "lab.yaml")
assert "connected by ssh west" in vink("lab", "ps", "lab")
for machine, address in [("a", "10.0.0.2"), ("a2", "10.0.1.1"), ("c", "10.0.2.2")]:
    vink("exec", machine, "--", "ping", "-c", "1", "-W", "30", address)
# The network goes: the host is lost here, and nothing stays there.
run("ip", "link", "set", "west", "down")
until(lambda: [h["state"] for h in ps()["hosts"]] == ["lost", "connected"])
until(lambda: len(processes("lab-host")) == 1)
run("ip", "link", "set", "west", "up")
vink("lab", "up", "lab.yaml")
vink("exec", "a", "--", "ping", "-c", "1", "-W", "30", "10.0.0.2")
vink("lab", "down", "lab")
nothing_is_left()
"#,
    );
}
