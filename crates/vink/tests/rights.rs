//! What programs of a machine with `rights: user` can't do (docs/rights.md): each attempt fails, and what it was about is
//! as before, by the word of a program that may look.

mod common;

use std::io::{BufRead, BufReader};

use common::control::Control;
use common::Place;

/// A machine with rules, and the programs of `m1` locked out of them; `m2` is beside it.
const LAB: &str = "
machines:
  m1:
    rights: user
    interfaces: { eth0: { wire: w, addresses: [10.0.0.1/24] } }
    sysctls: { net.ipv4.ip_default_ttl: 61 }
    filter: |
      table inet filtered { chain in { type filter hook input priority 10; tcp dport 9 drop; }; }
    setup:
      - nft 'table inet guard { chain in { type filter hook input priority 0; tcp dport 7 counter drop; }; }'
      - tc qdisc add dev eth0 root fq_codel
      - ip rule add from 10.9.0.0/16 table 100
      - ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent
    programs:
      serves: { command: exec python3 -m http.server 80, ready: { port: 80 } }
  m2:
    interfaces: { eth0: { wire: w, addresses: [10.0.0.2/24] } }
";

/// What the attacks are about, all of it but counters.
const LOOK: &str =
    "nft --stateless list ruleset; ip -d link | grep -v -e valid_lft; ip address; ip rule; \
    ip route show table all; ip neigh show nud permanent; tc qdisc show; \
    sysctl net.ipv4.ip_forward net.ipv4.ip_default_ttl net.ipv4.conf.all.rp_filter; uname -n";

/// Attacks by stock programs.
const ATTACKS: [&str; 31] = [
    "nft flush ruleset",
    "nft add table inet mine",
    "nft delete table inet guard",
    "nft 'rename chain inet guard in out'",
    "nft 'add rule inet guard in accept'",
    "nft list ruleset",
    "tc qdisc del dev eth0 root",
    "tc qdisc add dev lo root netem loss 50%",
    "tc filter add dev eth0 parent 1: matchall action drop",
    "ip link set eth0 down",
    "ip link set eth0 address 02:00:00:00:00:99",
    "ip link set eth0 mtu 900",
    "ip link set eth0 netns 1",
    "ip link add d0 type dummy",
    "ip link add t0 type vxlan id 7 dstport 4789",
    "ip link add g0 type gre local 10.0.0.1 remote 10.0.0.2",
    "ip tuntap add dev tun0 mode tun",
    "ip address add 10.0.0.77/24 dev eth0",
    "ip address del 10.0.0.1/24 dev eth0",
    "ip route add 10.8.0.0/16 via 10.0.0.2",
    "ip route flush table main",
    "ip rule del from 10.9.0.0/16 table 100",
    "ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev eth0",
    "ip netns add mine",
    "sysctl -w net.ipv4.ip_forward=1",
    "echo 1 > /proc/sys/net/ipv4/ip_forward",
    "echo 1 > /sys/class/net/eth0/mtu",
    "unshare --net true",
    "unshare --user --map-root-user --net ip address",
    "nsenter --net=/proc/1/ns/net true",
    "hostname other",
];

#[test]
fn programs_change_nothing_of_their_machine() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("guarded.yaml", LAB);
        control.vink(&["lab", "up", "guarded.yaml"]);
        let rules = "table inet filtered { chain in { type filter hook input priority 10; tcp dport 11 drop; }; }";
        control.write("more.nft", rules);
        control.vink(&["filter", "set", "m1", "more.nft"]);
        let look = || control.vink(&["exec", "--rights", "full", "m1", "--", "sh", "-c", LOOK]);
        let before = look();
        for word in [
            "tcp dport 7",
            "tcp dport 11",
            "fq_codel",
            "10.9.0.0/16",
            "02:00:00:00:00:09",
            "= 61",
        ] {
            assert!(before.contains(word), "{word}: {before}");
        }
        for attack in ATTACKS {
            let line = ["exec", "m1", "--", "sh", "-c", attack];
            let output = control.try_vink(&line);
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                !output.status.success(),
                "{}: {attack}: {said}",
                place.user()
            );
        }
        assert_eq!(look(), before, "{}", place.user());
        // The machine's own programs have these rights from the beginning, and all of them work.
        let works =
            "ping -c 1 -W 5 10.0.0.2 > /dev/null && curl -sS http://10.0.0.1/ > /dev/null && \
                     ip -brief address && ss -tln";
        let seen = control.vink(&["exec", "m1", "--", "sh", "-c", works]);
        assert!(seen.contains("10.0.0.1/24"), "{seen}");
        let other =
            "curl -sS http://10.0.0.1/ > /dev/null && ip link set eth0 mtu 1400 && echo changed";
        assert_eq!(
            control.vink(&["exec", "m2", "--", "sh", "-c", other]),
            "changed\n"
        );
    }
}

/// As a program of an ordinary user's in a network namespace finds it, on the host and here: socket calls, whole.
const CALLS: &str = "
import ctypes, errno, fcntl, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, call):
    try:
        call()
        print(what, 'done')
    except OSError as error:
        print(what, errno.errorcode[error.errno])
def system(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), '')
def option(level, name, value):
    return lambda: udp.setsockopt(level, name, value)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
tcp = socket.socket()
for family, kind, protocol in (
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
        (socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6), (socket.AF_PACKET, socket.SOCK_RAW, 0x300),
        (socket.AF_PACKET, socket.SOCK_DGRAM, 0x300)):
    attempt(('socket', int(family), int(kind), protocol), lambda: socket.socket(family, kind, protocol))
sol, ip = socket.SOL_SOCKET, socket.IPPROTO_IP
loopback = struct.pack('16s', b'lo')
for name, value in (
        ('mark', (sol, socket.SO_MARK, 7)), ('priority', (sol, socket.SO_PRIORITY, 7)),
        ('low priority', (sol, socket.SO_PRIORITY, 6)), ('debug', (sol, socket.SO_DEBUG, 1)),
        ('force', (sol, 33, 1 << 20)), ('bind to device', (sol, socket.SO_BINDTODEVICE, b'lo\\0')),
        ('transparent', (ip, 19, 1)), ('free bind', (ip, 15, 1)),
        ('source route', (ip, socket.IP_OPTIONS, bytes([131, 7, 4, 10, 0, 0, 9, 0]))),
        ('record route', (ip, socket.IP_OPTIONS, bytes([7, 7, 4, 0, 0, 0, 0, 0]))),
        ('low minimal ttl', (ip, 21, 5)), ('tos', (ip, socket.IP_TOS, 0xb8)),
        ('no such program', (sol, 50, 999))):
    attempt(name, option(*value))
accept_all = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0xffff))
filter = struct.pack('HxxxxxxQ', 1, ctypes.addressof(accept_all))
attempt('classic filter', option(sol, 26, filter))
attributes = ctypes.create_string_buffer(struct.pack('IIII', 2, 4, 4, 1), 128)
attempt('bpf map', lambda: system(321, 0, attributes, 128))
program = ctypes.create_string_buffer(struct.pack('QQ', 0xb7, 0x95))
text = ctypes.create_string_buffer(b'GPL')
attributes = ctypes.create_string_buffer(
    struct.pack('IIQQ', 1, 2, ctypes.addressof(program), ctypes.addressof(text)), 128)
attempt('bpf program', lambda: system(321, 5, attributes, 128))
for request in 0x8914, 0x8916, 0x8922, 0x8924, 0x8923, 0x890b, 0x8955:
    attempt(hex(request), lambda: fcntl.ioctl(udp, request, struct.pack('16sH22x', b'lo', 0)))
for path in 'ipv4/ip_forward', 'ipv4/conf/all/rp_filter', 'ipv6/conf/all/forwarding', 'ipv4/neigh/lo/gc_stale_time':
    attempt(path, lambda: os.open('/proc/sys/net/' + path, os.O_WRONLY))
    attempt(path, lambda: os.open('/proc/sys/net/' + path, os.O_RDONLY))
def ask(kind, body, protocol=0):
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    length = 16 + len(body)
    route.send(struct.pack('IHHII', length, kind, 5, 1, 0) + body)
    answer = route.recv(4096)
    if struct.unpack_from('H', answer, 4)[0] == 2:
        failed = -struct.unpack_from('i', answer, 16)[0]
        if failed:
            raise OSError(failed, '')
link = struct.pack('BxHiII', 0, 0, 1, 0, 1)
for kind, body in ((16, link), (17, link), (19, link), (18, link),
        (20, struct.pack('BBBBi', 2, 24, 0, 0, 1)), (24, bytes(12)), (28, bytes(12)), (32, bytes(12)),
        (36, bytes(20)), (44, bytes(20))):
    attempt(('rtnetlink', kind), lambda: ask(kind, body))
attempt('unshare', lambda: system(272, 0x40000000))
attempt('unshare mounts', lambda: system(272, 0x20000))
own = os.open('/proc/self/ns/net', os.O_RDONLY)
attempt('setns', lambda: system(308, own, 0x40000000))
attempt('host name', lambda: system(170, b'x', 1))
attempt('mount', lambda: system(165, b'x', b'/', b'tmpfs', 0, 0))
";

#[test]
fn a_user_here_is_as_a_user_on_the_host() {
    let place = Place::all().pop().expect("an ordinary user");
    // No id of the host's is mapped, so that the program has no capabilities.
    let words = ["--user", "--net", "/usr/bin/python3", "-c", CALLS];
    let host = place.command("unshare").args(words).output();
    let host = host.expect("unshare");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(host.status.success(), "{}", text(&host.stderr));
    let host = text(&host.stdout);
    assert!(host.contains("EPERM"), "{host}");
    for place in Place::all() {
        for more in [&[][..], &["--quick"], &["--time", "virtual"]] {
            let mut line = vec!["run", "--rights", "user", "--uplink", "none"];
            line.extend(more);
            line.extend(["--", "/usr/bin/python3", "-c", CALLS]);
            let here = place.vink(&line).output().expect("vink");
            let errors = text(&here.stderr);
            assert!(here.status.success(), "{errors}");
            assert_eq!(text(&here.stdout), host, "{}: {more:?}", place.user());
        }
    }
}

/// One that may do more is out of reach of those that may not, though it is of the same user and machine.
#[test]
fn a_program_with_all_rights_is_out_of_reach() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("guarded.yaml", LAB);
        control.vink(&["lab", "up", "guarded.yaml"]);
        let full = ["exec", "--rights", "full", "m1", "--"];
        let mut child =
            control.start(&[&full[..], &["sh", "-c", "echo here; exec sleep 1000"]].concat());
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "here\n");
        let look = "cat /proc/[0-9]*/comm | sort | tr '\\n' ' '";
        let seen = control.vink(&["exec", "m1", "--", "sh", "-c", look]);
        assert!(
            seen.contains("python3") && !seen.contains("sleep"),
            "{seen}"
        );
        let seen = control.vink(&[&full[..], &["sh", "-c", look]].concat());
        assert!(
            seen.contains("sleep") && !seen.contains("python3"),
            "{seen}"
        );
        child.kill().expect("its end");
        child.wait().expect("its status");
    }
}

/// Nor do they find the control process's socket, which answers no program of a machine anyway.
#[test]
fn programs_find_nothing_in_the_control_processs_folder() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("guarded.yaml", "machines: { m1: { rights: user } }\n");
        control.vink(&["lab", "up", "guarded.yaml"]);
        let folder = control.runtime().display().to_string();
        let before = std::fs::read_dir(&folder).expect("a folder").count();
        let look = format!(
            "ls -A {folder}; umount {folder} 2> /dev/null && echo unmounted; \
             touch {folder}/control.sock 2> /dev/null && echo made; \
             unshare --user --map-root-user --mount umount {folder} 2> /dev/null && echo gone; \
             curl -sS --unix-socket {folder}/control.sock http://localhost/v1/labs 2> /dev/null || echo refused"
        );
        let seen = control.vink(&["exec", "m1", "--", "sh", "-c", &look]);
        assert_eq!(seen, "refused\n", "{}", place.user());
        let run = [
            "run", "--rights", "user", "--uplink", "none", "--", "sh", "-c", &look,
        ];
        assert_eq!(control.vink(&run), "refused\n", "{}", place.user());
        let full = ["exec", "--rights", "full", "m1", "--", "ls", "-A", &folder];
        assert!(control.vink(&full).contains("control.sock"));
        let after = std::fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(after, before);
    }
}

#[test]
fn rights_are_said_and_saved() {
    let place = Place::all().remove(0);
    let control = Control::of(&place);
    control.write(
        "guarded.yaml",
        "machines: { m1: { rights: user }, m2: {} }\n",
    );
    control.vink(&["lab", "up", "guarded.yaml"]);
    let show = |machine| control.vink(&["machine", "show", machine]);
    assert!(show("m1").contains("rights user"), "{}", show("m1"));
    assert!(!show("m2").contains("rights"), "{}", show("m2"));
    control.vink(&["machine", "add", "m3", "--rights", "user"]);
    let (code, error) = control.fails(&[
        "exec", "m3", "--", "ip", "link", "add", "d0", "type", "dummy",
    ]);
    assert_eq!(code, 2, "{error}");
    let saved = control.vink(&["lab", "save", "guarded"]);
    assert_eq!(saved.matches("rights: user").count(), 2, "{saved}");
    // What it may do can't be changed under a program: the machine is made anew.
    control.write("guarded.yaml", "machines: { m1: {}, m2: {} }\n");
    let told = control.vink(&["lab", "apply", "guarded.yaml"]);
    assert!(told.contains("rights"), "{told}");
    control.vink(&[
        "exec", "m1", "--", "ip", "link", "add", "d0", "type", "dummy",
    ]);
    control.write("wrong.yaml", "machines: { m1: { rights: root } }\n");
    let (_, error) = control.fails(&["lab", "check", "wrong.yaml"]);
    assert!(error.contains("full") && error.contains("user"), "{error}");
}
