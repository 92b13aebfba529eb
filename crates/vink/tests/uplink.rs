//! The way out of a machine, and into it, through a network that the test makes itself.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use common::Place;

/// A host: its network, with nothing behind it, and a resolver in /etc/resolv.conf that is its own.
const SETUP: &str = r#"
set -e
ip link set lo up
ip link add out type veth peer name nowhere
ip address add 198.51.100.2/24 dev out
ip address add 2001:db8::2/64 dev out nodad
ip link set out up
ip link set nowhere up
ip route add default via 198.51.100.1
ip -6 route add default via 2001:db8::1
group=$(id -g)
echo "$group $((group ? group : 65534))" > /proc/sys/net/ipv4/ping_group_range
[ $group = 0 ] || echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
mount --make-rprivate /
echo 'nameserver 127.0.0.53' > resolv.conf
mount --bind resolv.conf /etc/resolv.conf
echo ready
exec cat
"#;

/// A host without a network.
const OFFLINE: &str = "ip link set lo up; [ $(id -g) = 0 ] ||
    echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start; echo ready; exec cat";

/// A program that has said that it is ready, and ends when its standard input does.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut running = Running {
            child,
            input,
            output,
        };
        assert_eq!(running.line(), "ready", "{command:?}");
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Network and mount namespaces of the host, and a user in them.
struct Host {
    place: Place,
    holder: Running,
}

impl Host {
    fn new(place: Place, setup: &str) -> Host {
        let mut holder = Command::new("unshare");
        if !vink_sys::process::is_root() {
            holder.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        holder
            .args(["--net", "--mount", "sh", "-c", setup])
            .current_dir(place.folder());
        let holder = Running::start(holder);
        Host { place, holder }
    }

    fn all(setup: &str) -> Vec<Host> {
        let places = Place::all().into_iter();
        places.map(|place| Host::new(place, setup)).collect()
    }

    /// A program on this host, as the user that runs vink.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.holder.child.id().to_string();
        command.args(["--target", &pid, "--net", "--mount"]);
        if !vink_sys::process::is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        let folder = self.place.folder().display();
        command.arg(format!("--wd={folder}"));
        if self.place.is_nobody() {
            let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            command.arg("setpriv").args(user);
        }
        command
            .args(words)
            .env("PATH", format!("{folder}:/usr/sbin:/usr/bin:/sbin:/bin"))
            .env("TMPDIR", self.place.temporary())
            .env_remove("VINK_IMAGE");
        command
    }

    fn vink(&self, options: &[&str], program: &[&str]) -> Command {
        self.command(&[&["vink", "run"], options, &["--"], program].concat())
    }

    /// Runs it to its end, which must be a good one; its standard output.
    fn ok(&self, command: Command) -> String {
        let what = format!("{command:?}");
        let output = run(command);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{what}, {}: {}\n{text}\n{}",
            self.place.user(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    fn python(&self, script: &str) -> Command {
        self.command(&["/usr/bin/python3", "-c", script])
    }
}

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().expect("a program")
}

/// The passt that a vink has started: its process id and a descriptor of it.
fn passt_of(vink: u32) -> (i32, OwnedFd) {
    let path = format!("/proc/{vink}/task/{vink}/children");
    let children = fs::read_to_string(path).expect("its children");
    let passt = children.split_whitespace().find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("passt")
    });
    let pid: i32 = passt.expect("a passt").parse().expect("a number");
    let pidfd = vink_sys::pidfd::open(pid).expect("a process");
    (pid, pidfd)
}

fn wait_for_end(pidfd: &OwnedFd) {
    assert!(
        vink_sys::poll::is_readable(pidfd, 60_000),
        "it is still there"
    );
}

/// Sends back 16 MB that it gets by TCP (port 7, IPv4 and IPv6) and what it gets by UDP (port 7, IPv4), and answers any question
/// for a name with 192.0.2.80, by UDP at port 53. Ends with its standard input.
const SERVERS: &str = r#"
import os, socket, sys, threading
def tcp(family, address):
    listener = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6: listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind((address, 7)); listener.listen()
    def serve():
        while True:
            peer = listener.accept()[0]
            def echo():
                data = bytearray()
                while len(data) < 16 << 20: data += peer.recv(1 << 20)
                peer.sendall(data)
                peer.close()
            threading.Thread(target=echo, daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
def udp(address, port, answer):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, port))
    def serve():
        while True:
            data, peer = s.recvfrom(65536)
            s.sendto(answer(data), peer)
    threading.Thread(target=serve, daemon=True).start()
def name(q):
    end = q.index(0, 12) + 5
    if q[end-4:end-2] != b"\0\1": return q[:2] + b"\x81\x80" + q[4:6] + bytes(6) + q[12:end]
    answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + bytes([192, 0, 2, 80])
    return q[:2] + b"\x81\x80" + q[4:6] + b"\0\1\0\0\0\0" + q[12:end] + answer
tcp(socket.AF_INET, "0.0.0.0"); tcp(socket.AF_INET6, "::"); udp("0.0.0.0", 7, lambda data: data); udp("127.0.0.53", 53, name)
print("ready", flush=True)
sys.stdin.read()
"#;

impl Host {
    /// A Python script of the host's own, such as [`SERVERS`].
    fn servers(&self, script: &str) -> Running {
        let mut command = Command::new("nsenter");
        let pid = self.holder.child.id().to_string();
        command.args(["--target", &pid, "--net", "--mount"]);
        if !vink_sys::process::is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["/usr/bin/python3", "-c", script]);
        Running::start(command)
    }
}

/// Sends 16 MB there and back by TCP, and compares. One after the other: passt as of March 2023 may stand
/// still when both directions are full, and repeats data after a shutdown(2) of one.
fn echo_by_tcp(address: &str) -> String {
    format!(
        r#"
import os, socket
s = socket.create_connection(("{address}", 7))
data = os.urandom(1 << 20) * 16
s.sendall(data)
back = bytearray()
while len(back) < len(data) and (piece := s.recv(1 << 20)): back += piece
assert back == data, len(back)
print("same")
"#
    )
}

#[test]
fn a_machine_reaches_the_outside() {
    for host in Host::all(SETUP) {
        let _servers = host.servers(SERVERS);
        let machine = |script: &str| host.vink(&[], &["/usr/bin/python3", "-c", script]);
        // The host's own servers at the gateway's address, and by the host's.
        for address in ["10.0.2.2", "fd76:696e:6b::2", "198.51.100.2"] {
            let out = host.ok(machine(&echo_by_tcp(address)));
            assert_eq!(out, "same\n", "{address}, {}", host.place.user());
        }
        let udp = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"question" * 1000, ("10.0.2.2", 7))
print(s.recvfrom(65536)[0] == b"question" * 1000)
"#;
        assert_eq!(host.ok(machine(udp)), "True\n", "{}", host.place.user());
        let name = host.ok(host.vink(&[], &["getent", "ahostsv4", "anything.example"]));
        assert!(name.starts_with("192.0.2.80 "), "{name}");
        let ping = host.ok(host.vink(&[], &["ping", "-c", "1", "198.51.100.2"]));
        assert!(ping.contains("1 received"), "{ping}");
    }
}

/// A program that does not wait for what it has sent to arrive.
#[test]
fn the_last_word_arrives() {
    for host in Host::all(SETUP) {
        // Has room for a little, and does not read before it is told to.
        let sink = r#"
import socket, sys
tcp = socket.socket(); tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
tcp.bind(("0.0.0.0", 9009)); tcp.listen()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("0.0.0.0", 9009))
print("ready", flush=True)
peer = tcp.accept()[0]
sys.stdin.readline()
count = 0
while piece := peer.recv(1 << 20): count += len(piece)
print(count, udp.recv(100), flush=True)
"#;
        let mut sink = Running::start(host.command(&["/usr/bin/python3", "-c", sink]));
        let script = r#"
import os, socket
s = socket.create_connection(("10.0.2.2", 9009)); s.sendall(bytes(400000))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"bye", ("10.0.2.2", 9009))
print("ready", flush=True)
os._exit(5)
"#;
        let mut vink = Running::start(host.vink(&[], &["/usr/bin/python3", "-c", script]));
        let mut input = sink.input.take().expect("its input");
        input.write_all(b"\n").expect("a line");
        assert_eq!(sink.line(), "400000 b'bye'", "{}", host.place.user());
        let status = vink.child.wait().expect("a status");
        assert_eq!(status.code(), Some(5), "{}", host.place.user());
    }
}

#[test]
fn a_resolver_elsewhere_is_asked_directly() {
    let elsewhere = |text: &str| text.replace("127.0.0.53", "198.51.100.2");
    for host in Host::all(&elsewhere(SETUP)) {
        let _servers = host.servers(&elsewhere(SERVERS));
        let script = "cat /etc/resolv.conf; getent ahostsv4 anything.example";
        let out = host.ok(host.vink(&[], &["sh", "-c", script]));
        assert!(
            out.starts_with("nameserver 198.51.100.2\n192.0.2.80 "),
            "{}: {out}",
            host.place.user()
        );
    }
}

#[test]
fn what_a_machine_is_given() {
    for host in Host::all(SETUP) {
        let script = "ip -brief address show eth0; ip route show default; ip -6 route show default;
            cat /etc/resolv.conf; getent hosts vink; cat /sys/class/net/eth0/mtu";
        let out = host.ok(host.vink(&[], &["sh", "-c", script]));
        for part in [
            "10.0.2.15/24 fd76:696e:6b::15/64",
            "default via 10.0.2.2 dev eth0",
            "default via fd76:696e:6b::2 dev eth0",
            "nameserver 10.0.2.3\n",
            "fd76:696e:6b::15 vink",
            "\n65520\n",
        ] {
            assert!(out.contains(part), "{part}, {}: {out}", host.place.user());
        }
        let alone = ["--uplink", "none"];
        let out = host.ok(host.vink(&alone, &["ip", "-brief", "link"]));
        assert_eq!(out.lines().count(), 1, "{}: {out}", host.place.user());
        let lost = run(host.vink(&alone, &["ping", "-c", "1", "10.0.2.2"]));
        let text = String::from_utf8_lossy(&lost.stderr);
        assert!(text.contains("Network is unreachable"), "{text}");
    }
}

#[test]
fn a_host_without_a_network() {
    for host in Host::all(OFFLINE) {
        let _servers = host.servers(SERVERS);
        let script = echo_by_tcp("10.0.2.2");
        let out = host.ok(host.vink(&[], &["/usr/bin/python3", "-c", &script]));
        assert_eq!(out, "same\n", "{}", host.place.user());
    }
}

#[test]
fn ports_lead_in() {
    for host in Host::all(SETUP) {
        let server = SERVERS.replace(
            "udp(\"127.0.0.53\", 53, name)",
            "udp(\"0.0.0.0\", 53, lambda data: b'answer to ' + data)",
        );
        let forwards = [
            "-p",
            "127.0.0.1:8007:7",
            "-p",
            "8008:7",
            "-p",
            "8053:53/udp",
        ];
        let vink = host.vink(&forwards, &["/usr/bin/python3", "-c", &server]);
        let _vink = Running::start(vink);
        for (address, port) in [
            ("127.0.0.1", "8007"),
            ("127.0.0.1", "8008"),
            ("198.51.100.2", "8008"),
            ("::1", "8008"),
        ] {
            let script = echo_by_tcp(address).replace(", 7)", &format!(", {port})"));
            let out = host.ok(host.python(&script));
            assert_eq!(out, "same\n", "{address} {port}, {}", host.place.user());
        }
        let ask = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"me", ("127.0.0.1", 8053)); print(s.recvfrom(100)[0])
s = socket.socket()
try: s.connect(("198.51.100.2", 8007))
except ConnectionRefusedError: print("refused")
"#;
        let out = host.ok(host.python(ask));
        assert_eq!(out, "b'answer to me'\nrefused\n", "{}", host.place.user());
    }
}

#[test]
fn a_server_may_speak_first() {
    let greeter = r#"
import socket
server = socket.create_server(("::", 25), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True: server.accept()[0].send(b"220 alpha")
"#;
    for host in Host::all(SETUP) {
        let vink = host.vink(&["-p", "8025:25"], &["/usr/bin/python3", "-c", greeter]);
        let _vink = Running::start(vink);
        for address in ["127.0.0.1", "198.51.100.2", "::1"] {
            let script = format!(
                "import socket; print(socket.create_connection(('{address}', 8025)).recv(100))"
            );
            let out = host.ok(host.python(&script));
            assert_eq!(out, "b'220 alpha'\n", "{address}, {}", host.place.user());
        }
    }
}

#[test]
fn says_what_is_wrong() {
    for host in Host::all(SETUP) {
        let taken = "import socket, sys; s = socket.create_server(('0.0.0.0', 8080)); \
                     print('ready', flush=True); sys.stdin.read()";
        let _taken = Running::start(host.python(taken));
        let cases: [(&[&str], i32, &str); 5] = [
            (
                &["-p", "8080:80"],
                125,
                "vink: forwarding 8080:80: another program has the host's port 8080\n",
            ),
            (
                &["-p", "192.0.2.1:8081:80"],
                125,
                "Failed to bind any port for '-t 192.0.2.1/8081:80'",
            ),
            (&["-p", "80"], 2, "\"80\" is not a forward such as 8080:80"),
            (
                &["--uplink", "none", "-p", "8081:80"],
                125,
                "vink: --publish needs an uplink",
            ),
            (&["--uplink", "some"], 2, "invalid value 'some'"),
        ];
        for (options, status, text) in cases {
            let output = run(host.vink(options, &["echo", "it ran"]));
            let err = String::from_utf8_lossy(&output.stderr);
            let found = (output.status.code(), output.stdout.as_slice());
            assert_eq!(
                found,
                (Some(status), &b""[..]),
                "{options:?}, {}: {err}",
                host.place.user()
            );
            assert!(
                err.contains(text),
                "{options:?}, {}: {err}",
                host.place.user()
            );
        }
        let script = format!(
            "PATH={} exec vink run -- true",
            host.place.folder().display()
        );
        let output = run(host.command(&["/bin/sh", "-c", &script]));
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{err}");
        let text =
            "vink: no uplink without passt: apt-get install passt, or run with --uplink none\n";
        assert_eq!(err, text, "{}", host.place.user());
    }
}

#[test]
fn passt_may_die() {
    for host in Host::all(SETUP) {
        let script = "echo ready; read line; ip -brief link; read line; exit 3";
        let mut vink = host.vink(&[], &["sh", "-c", script]);
        vink.stderr(Stdio::piped());
        let mut vink = Running::start(vink);
        let (pid, pidfd) = passt_of(vink.child.id());
        vink_sys::process::kill(pid, libc::SIGKILL).expect("it is there");
        wait_for_end(&pidfd);
        let mut errors = BufReader::new(vink.child.stderr.take().expect("its errors"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a message");
        assert!(
            line.starts_with("vink: passt has ended (signal: 9 (SIGKILL)): ")
                && line.ends_with("; the program goes on without a way out\n"),
            "{}: {line}",
            host.place.user()
        );
        let mut input = vink.input.take().expect("its input");
        input.write_all(b"\n").expect("a line");
        assert!(vink.line().starts_with("lo "), "{}", host.place.user());
        input.write_all(b"\n").expect("a line");
        let mut rest = String::new();
        vink.output.read_to_string(&mut rest).expect("the rest");
        assert_eq!(rest, "", "{}", host.place.user());
        assert_eq!(vink.child.wait().expect("a status").code(), Some(3));
    }
}

#[test]
fn no_passt_is_left_behind() {
    for host in Host::all(SETUP) {
        let mut kill = true;
        for _ in 0..2 {
            let mut vink = Running::start(host.vink(&[], &["sh", "-c", "echo ready; read line"]));
            let (pid, pidfd) = passt_of(vink.child.id());
            if kill {
                // Stopped, it can't notice by itself that its socket has come to an end.
                vink_sys::process::kill(pid, libc::SIGSTOP).expect("it is there");
                vink_sys::process::kill(vink.child.id() as i32, libc::SIGKILL)
                    .expect("it is there");
                let status = vink.child.wait().expect("a status");
                assert_eq!(status.signal(), Some(libc::SIGKILL));
                wait_for_end(&pidfd);
            } else {
                drop(vink.input.take());
                vink.child.wait().expect("a status");
                assert!(!fs::exists(format!("/proc/{pid}")).expect("/proc"), "{pid}");
            }
            kill = false;
        }
    }
}
