//! Attacks on what keeps programs in: each fails where programs are locked in, and succeeds where
//! they are not, so that a failure means something.
//!
//! Where: a machine's program with `rights: user` (grade F1); a program that is root on its machine, at
//! a switch's port (F2); a program that has its stack in itself and is confined, at such a port (F3).
//! What stock programs try on their own machine is in `rights.rs`, frames of all kinds at a port in
//! `switch.rs`, the control process in `containment.rs`.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use vink_sys::socket::send_with;

use common::control::Control;
use common::Place;

/// Where an attack succeeds, as the place's user.
#[derive(Clone, Copy, PartialEq)]
enum Succeeds {
    /// On the host.
    Outside,
    /// In a user and network namespace, as its root.
    AsItsRoot,
    /// On the host for root.
    ForRoot,
    /// Where the host's kernel has it.
    IfThere,
}

use Succeeds::{AsItsRoot, ForRoot, IfThere, Outside};

/// What it is about.
#[derive(Clone, Copy, PartialEq)]
enum On {
    /// Nothing but itself.
    Own,
    /// A process of the same user, of the host or of vink.
    Process,
    /// An abstract unix socket.
    Abstract,
    /// A unix socket at a path.
    Stream,
    /// One of datagrams.
    Datagrams,
    /// The control process's socket.
    Control,
    /// The socket of a `wire:` uplink.
    Wire,
    /// An accomplice's socket, by which it hands in one of the host's network.
    Accomplice,
}

/// A name that `attack.c` knows; whether it fails on F1; what on; where it succeeds. All fail on F3.
const ATTACKS: &[(&str, bool, On, Succeeds)] = &[
    ("kill", true, On::Process, Outside),
    ("ptrace", true, On::Process, Outside),
    ("memory-file", true, On::Process, Outside),
    ("memory-call", true, On::Process, Outside),
    ("descriptor", true, On::Process, Outside),
    // Programs of a machine may debug each other.
    ("own-child", false, On::Own, Outside),
    ("join", true, On::Process, ForRoot),
    // It leads nowhere on F1, and `network` shows that.
    ("user-namespace", false, On::Own, Outside),
    ("clone-namespace", false, On::Own, Outside),
    ("network", true, On::Own, Outside),
    ("mount", true, On::Own, AsItsRoot),
    ("netlink", true, On::Own, AsItsRoot),
    ("flags", true, On::Own, AsItsRoot),
    ("sysctl", true, On::Own, AsItsRoot),
    ("raw-socket", true, On::Own, AsItsRoot),
    ("packet-socket", true, On::Own, AsItsRoot),
    // On F1 it is a socket of the machine's.
    ("internet", false, On::Own, Outside),
    ("bpf", true, On::Own, ForRoot),
    ("io_uring", true, On::Own, IfThere),
    // On F1 the host decides.
    ("keys", false, On::Own, IfThere),
    ("faults", false, On::Own, IfThere),
    ("x32", true, On::Own, IfThere),
    ("int-0x80", true, On::Own, IfThere),
    ("connect", true, On::Abstract, Outside),
    // Files are the host's on F1, and so are the sockets that have a path.
    ("connect", false, On::Stream, Outside),
    ("datagram", false, On::Datagrams, Outside),
    ("handed-in", false, On::Accomplice, Outside),
    ("connect", true, On::Control, Outside),
    ("wire", true, On::Wire, Outside),
];

/// A lab with a machine whose programs are locked in, one at whose port a wire's end is, a switch.
const LAB: &str = "
machines:
  m1: { rights: user, interfaces: { eth0: { wire: out, addresses: [10.9.0.2/24] } } }
  m2: { interfaces: { eth0: { switch: sw, addresses: [10.0.0.2/24] } } }
switches: { sw: {} }
wires: { out: { uplink: { wire: WIRE } } }
";

/// What the attacks are about: a victim, sockets of the host, a lab.
struct Scene<'a> {
    place: &'a Place,
    control: Control<'a>,
    attack: PathBuf,
    victim: Child,
    wire: PathBuf,
    stream: PathBuf,
    datagrams: PathBuf,
    accomplice: PathBuf,
    abstract_name: String,
    _sockets: (UnixListener, UnixDatagram, UnixListener),
}

impl Scene<'_> {
    fn new(place: &Place) -> Scene<'_> {
        let control = Control::of(place);
        let folder = control.folder();
        let attack = compiled(&folder);
        let file = |name| folder.join(name);
        let (wire, stream, datagrams) = (file("wire"), file("stream"), file("datagrams"));
        let abstract_name = folder.display().to_string();
        let name = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
        let sockets = (
            UnixListener::bind(&stream).expect("a socket"),
            UnixDatagram::bind(&datagrams).expect("a socket"),
            UnixListener::bind_addr(&name).expect("a socket"),
        );
        let accomplice = file("accomplice");
        hand_in(&accomplice);
        for path in [&stream, &datagrams, &accomplice] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("its mode");
        }
        control.write(
            "lab.yaml",
            &LAB.replace("WIRE", &wire.display().to_string()),
        );
        control.vink(&["lab", "up"]);
        let mut victim = place.command(&attack);
        victim.args(["victim", "0", "-"]).stdout(Stdio::piped());
        let mut victim = victim.spawn().expect("a victim");
        let mut line = String::new();
        let output = victim.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Scene {
            place,
            control,
            attack,
            victim,
            wire,
            stream,
            datagrams,
            accomplice,
            abstract_name,
            _sockets: sockets,
        }
    }

    /// The processes that an attack is about; those of vink's only where it is to fail.
    fn processes(&self, all: bool) -> Vec<u32> {
        let mut found = vec![self.victim.id()];
        if all {
            // The control process, the workers of the machines and of the switch.
            found.extend(self.control.processes().iter().map(|pid| *pid as u32));
            assert!(found.len() > 3, "{found:?}");
        }
        found
    }

    /// The attack's words, for each of what it is about.
    fn words(&self, name: &str, on: On, all: bool) -> Vec<[String; 3]> {
        let with =
            |pid: u32, path: &Path| [name.to_owned(), pid.to_string(), path.display().to_string()];
        let path = match on {
            On::Process => {
                let processes = self.processes(all);
                return processes
                    .into_iter()
                    .map(|pid| with(pid, Path::new("-")))
                    .collect();
            }
            On::Own => PathBuf::from("-"),
            On::Abstract => format!("@{}", self.abstract_name).into(),
            On::Stream => self.stream.clone(),
            On::Datagrams => self.datagrams.clone(),
            On::Control => self.control.runtime().join("control.sock"),
            On::Wire => self.wire.clone(),
            On::Accomplice => self.accomplice.clone(),
        };
        vec![with(0, &path)]
    }

    /// What comes of an attack on the host.
    fn outside(&self, how: Succeeds, words: &[String; 3]) -> Output {
        let mut command = match how {
            AsItsRoot => {
                let mut command = self.place.command("unshare");
                command.args(["--user", "--map-root-user", "--net", "--mount"]);
                command.arg(&self.attack);
                command
            }
            ForRoot => Command::new(&self.attack),
            Outside | IfThere => self.place.command(&self.attack),
        };
        command.args(words).output().expect("an attack")
    }

    /// ... of one on the machine (F1).
    fn on_machine(&self, words: &[String; 3]) -> Output {
        let mut line = vec!["exec", "m1", "--", self.attack.to_str().expect("text")];
        line.extend(words.iter().map(String::as_str));
        self.control.try_vink(&line)
    }

    /// ... of one by a program that a confined one executes (F3).
    fn confined(&self, words: &[String; 3]) -> Output {
        let mut command = self
            .place
            .vink(&["run", "--in-process", "--rights", "user"]);
        command
            .env("VINK_RUNTIME", self.control.runtime())
            .args(["--uplink", "none", "--", "sh", "-c", "exec \"$0\" \"$@\""])
            .arg(&self.attack)
            .args(words);
        command.output().expect("vink")
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// `attack.c`, where all users find it.
fn compiled(folder: &Path) -> PathBuf {
    let program = folder.join("attack");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack.c");
    let made = Command::new("cc")
        .args(["-static", "-no-pie", "-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .status();
    assert!(made.expect("cc").success());
    program
}

/// Hands each process that connects there a socket that is connected in the host's network.
fn hand_in(path: &Path) {
    let listener = UnixListener::bind(path).expect("a socket");
    std::thread::spawn(move || {
        let other = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = other.local_addr().expect("its address");
        socket.connect(address).expect("connected");
        while let Ok((stream, _)) = listener.accept() {
            let _ = send_with(&stream, b"x", &[socket.as_fd()]);
        }
    });
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    format!(
        "{}: {} {}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

#[test]
fn attacks_fail_where_programs_are_locked_in() {
    for place in Place::all() {
        let scene = Scene::new(&place);
        for (name, fails_on_f1, on, succeeds) in ATTACKS {
            let user = place.user();
            for words in scene.words(name, *on, false) {
                let output = scene.outside(*succeeds, &words);
                let is_tried = match succeeds {
                    ForRoot => vink_sys::process::is_root(),
                    IfThere => false,
                    Outside | AsItsRoot => true,
                };
                let done = output.status.success() || !is_tried;
                assert!(done, "{user}, outside: {words:?}: {}", said(&output));
            }
            for words in scene.words(name, *on, true) {
                // 1: it was tried, and failed.
                let output = scene.confined(&words);
                let failed = output.status.code() == Some(1);
                assert!(failed, "{user}, F3: {words:?}: {}", said(&output));
                let output = scene.on_machine(&words);
                let as_told = match output.status.code() {
                    // The last one: by SIGSYS.
                    Some(1 | 159) => *fails_on_f1 || *succeeds == IfThere,
                    code => code == Some(0) && !fails_on_f1,
                };
                assert!(as_told, "{user}, F1: {words:?}: {}", said(&output));
            }
        }
    }
}

/// A confined program that sends by its own stack, and is root there.
fn at_port(scene: &Control<'_>, place: &Place, wire: &Path, address: &str, line: &str) -> Output {
    let uplink = format!("wire:{}", wire.display());
    let mut command = place.vink(&["run", "--in-process", "--rights", "user"]);
    command
        .current_dir(scene.folder())
        .args(["--uplink", &uplink, "--mac", "02:00:00:00:00:01"])
        .args(["--address", address, "--", "sh", "-c", line]);
    command.output().expect("vink")
}

/// A machine whose programs are root there, and a confined program, at a switch's ports with a filter.
const PORTS: &str = "
machines:
  web:
    interfaces: { eth0: { switch: sw, addresses: [10.0.0.2/24] } }
    programs:
      web: { command: exec python3 -m http.server 80, ready: { port: 80 } }
      other: { command: exec python3 -m http.server 81, ready: { port: 81 } }
  root: { interfaces: { eth0: { switch: sw, addresses: [10.0.0.1/24] } } }
switches:
  sw: { ports: { p1: { wire: out, mac: \"02:00:00:00:00:01\", addresses: [10.0.0.1] } } }
wires: { out: { uplink: { wire: WIRE } } }
";

/// What a port has dropped in all.
fn dropped(control: &Control<'_>, port: &str) -> u64 {
    let said = control.vink(&["exec", "sw", "--", "nft", "-j", "list", "counters"]);
    let all: serde_json::Value = serde_json::from_str(&said).expect(&said);
    let counters = all["nftables"].as_array().expect(&said).iter();
    let of_port = counters.filter_map(|it| {
        let name = it["counter"]["name"].as_str()?;
        name.starts_with(&format!("port-{port}-"))
            .then(|| it["counter"]["packets"].as_u64())?
    });
    of_port.sum()
}

#[test]
fn a_ports_filter_is_out_of_reach() {
    for place in Place::all() {
        let control = Control::of(&place);
        let wire = control.folder().join("wire");
        control.write("frames.py", include_str!("frames.py"));
        // What both do as root of their stack, and then what is to be stopped at the port.
        let attack = "nft flush ruleset; tc qdisc del dev eth0 root 2> /dev/null; \
                      curl -sSf --max-time 2 http://10.0.0.2:81/ > /dev/null && exit 3; \
                      python3 frames.py send eth0 other-mac other-ip other-ip6 arp-mac arp-ip nd-router tag; \
                      curl -sSf --max-time 9 http://10.0.0.2/ > /dev/null";
        let filter = "table netdev {{interface}} { counter other { }; chain in { \
                      type filter hook ingress device {{interface}} priority 0; \
                      tcp dport 81 counter name other drop; }; }";
        control.write("port.nft", filter);
        for (port, is_confined) in [("root-eth0", false), ("p1", true)] {
            let wire_text = wire.display().to_string();
            control.write("lab.yaml", &PORTS.replace("WIRE", &wire_text));
            control.vink(&["lab", "up"]);
            let attacked = || match is_confined {
                true => at_port(&control, &place, &wire, "10.0.0.1/24", attack),
                false => control.try_vink(&["exec", "root", "--", "sh", "-c", attack]),
            };
            let user = place.user();
            // Without a filter at the port it gets through.
            let output = attacked();
            assert_eq!(
                output.status.code(),
                Some(3),
                "{user}, {port}: {}",
                said(&output)
            );
            let spoofed = dropped(&control, port);
            let at = format!("sw:{port}");
            control.vink(&["filter", "set", &at, "port.nft"]);
            let before = control.vink(&["exec", "sw", "--", "nft", "-s", "list", "ruleset"]);
            let output = attacked();
            assert_eq!(
                output.status.code(),
                Some(0),
                "{user}, {port}: {}",
                said(&output)
            );
            let counters = control.vink(&["exec", "sw", "--", "nft", "list", "counters"]);
            let stopped = dropped(&control, port) - spoofed;
            assert!(stopped >= 7, "{user}, {port}: {stopped}: {counters}");
            let counted = control.vink(&["filter", "counters", &at]);
            assert!(counted.contains("other"), "{counted}");
            let after = control.vink(&["exec", "sw", "--", "nft", "-s", "list", "ruleset"]);
            assert_eq!(after, before, "{user}, {port}");
            control.vink(&["lab", "down"]);
        }
        control.nothing_is_left();
    }
}

/// It runs as others do: exit statuses, signals, output, other programs, the wire's other side anew.
#[test]
fn a_confined_program_is_an_ordinary_one() {
    for place in Place::all() {
        let user = place.user();
        let run = |more: &[&str], line: &str| {
            let mut command = place.vink(&["run", "--in-process", "--rights", "user"]);
            command.args(more).args(["--", "sh", "-c", line]);
            command.output().expect("vink")
        };
        let none = ["--uplink", "none"];
        let output = run(&none, "ip -brief address; exit 7");
        let shown = said(&output);
        assert!(
            output.status.code() == Some(7) && shown.contains("lo "),
            "{user}: {shown}"
        );
        let killed = run(&none, "kill -KILL $$");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&killed.status),
            Some(9),
            "{killed:?}"
        );
        // Nor does a signal to its group, or to all, reach vink.
        let alive = run(
            &none,
            "trap '' TERM USR1; kill -TERM 0; kill -USR1 -1; echo alive",
        );
        assert_eq!(
            String::from_utf8_lossy(&alive.stdout),
            "alive\n",
            "{user}: {alive:?}"
        );
        let missing = place
            .vink(&[
                "run",
                "--in-process",
                "--rights",
                "user",
                "--uplink",
                "none",
                "--",
                "no-such-program",
            ])
            .output()
            .expect("vink");
        assert_eq!(
            missing.status.code(),
            Some(127),
            "{user}: {}",
            said(&missing)
        );
        // Only its own processes are there, and what it leaves behind ends.
        let seen = run(&none, "echo /proc/[0-9]*; sleep 1000 & exit 0");
        assert_eq!(
            String::from_utf8_lossy(&seen.stdout),
            "/proc/1 /proc/2\n",
            "{user}: {seen:?}"
        );
        for way in [
            "passt",
            "udp:127.0.0.1:4001:127.0.0.1:4000",
            "interface:eth0",
        ] {
            let refused = run(&["--uplink", way], "true");
            assert_eq!(refused.status.code(), Some(125), "{way}");
            assert!(
                said(&refused).contains("wire:PATH"),
                "{way}: {}",
                said(&refused)
            );
        }
        let folder = place.temporary().join("no-such-folder/wire");
        let refused = run(
            &["--uplink", &format!("wire:{}", folder.display())],
            "ip link",
        );
        assert_eq!(
            refused.status.code(),
            Some(125),
            "{user}: {}",
            said(&refused)
        );
    }
}

const SERVER: &str = "import socket
s = socket.create_server(('10.9.0.2', 7000))
print('ready', flush=True)
while True:
    c, _ = s.accept()
    c.sendall(c.recv(65536))
    c.close()
";

const CLIENT: &str = "import socket
c = socket.create_connection(('10.9.0.2', 7000), 60)
c.sendall(b'hello')
assert c.recv(9) == b'hello'
print('the same')
";

/// Two that share a wire; each of them comes and goes, and a signal ends the server.
#[test]
fn the_wire_comes_back() {
    for place in Place::all() {
        let wire = format!("wire:{}", place.temporary().join("wire").display());
        let run = |address: &str, script: &str| {
            let mut command = place.vink(&["run", "--in-process", "--rights", "user"]);
            command
                .args(["--uplink", &wire, "--address", address])
                .args(["--", "python3", "-c", script]);
            command
        };
        let serve = || {
            let mut server = run("10.9.0.2/24", SERVER);
            let mut server = server.stdout(Stdio::piped()).spawn().expect("vink");
            let mut line = String::new();
            let mut shown = BufReader::new(server.stdout.take().expect("piped"));
            shown.read_line(&mut line).expect("a word");
            assert_eq!(line, "ready\n", "{}", place.user());
            server
        };
        let ask = || {
            let output = run("10.9.0.3/24", CLIENT).output().expect("vink");
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "the same\n",
                "{}",
                said(&output)
            );
        };
        // Two programs that one confined shell starts ask one after the other.
        let twice = |server: &mut Child| {
            ask();
            let script = format!("python3 -c \"{CLIENT}\" && python3 -c \"{CLIENT}\"");
            let mut command = place.vink(&["run", "--in-process", "--rights", "user"]);
            command
                .args(["--uplink", &wire, "--address", "10.9.0.3/24"])
                .args(["--", "sh", "-c", &script]);
            let output = command.output().expect("vink");
            let shown = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(shown, "the same\nthe same\n", "{}", said(&output));
            vink_sys::process::kill(server.id() as i32, libc::SIGTERM).expect("it runs");
            let status = server.wait().expect("its end");
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&status),
                Some(libc::SIGTERM)
            );
        };
        twice(&mut serve());
        // Its end was killed with it: nothing is left, and the next one has the place.
        twice(&mut serve());
        // A client that stays while servers come and go.
        let script = "import socket, sys
for line in sys.stdin:
    c = socket.create_connection(('10.9.0.2', 7000), 60)
    c.sendall(b'hello')
    assert c.recv(9) == b'hello'
    print('the same', flush=True)
";
        let mut client = run("10.9.0.3/24", script);
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.spawn().expect("vink");
        let mut shown = BufReader::new(client.stdout.take().expect("piped"));
        let mut input = client.stdin.take().expect("piped");
        for _ in 0..2 {
            let mut server = serve();
            writeln!(input, "again").expect("room");
            let mut line = String::new();
            shown.read_line(&mut line).expect("a line");
            assert_eq!(line, "the same\n", "{}", place.user());
            server.kill().expect("it runs");
            server.wait().expect("its end");
        }
        drop(input);
        assert!(client.wait().expect("its end").success());
        let mut rest = String::new();
        shown.read_to_string(&mut rest).expect("text");
    }
}
