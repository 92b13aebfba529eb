//! Well-known programs, unmodified, on one machine.

use std::os::fd::OwnedFd;

use crate::lab::{as_both, Lab};
use vink_trap::{Program, Status, Stdio};

#[test]
fn ip_shows_and_changes() {
    as_both("programs::ip_shows_and_changes", || {
        let mut lab = Lab::new();
        let addresses = lab.ok("ip addr");
        assert!(addresses.contains("127.0.0.1/8"), "{addresses}");
        assert!(addresses.contains("::1/128"), "{addresses}");
        lab.ok("ip link add d0 type dummy");
        lab.ok("ip addr add 10.1.2.3/24 dev d0");
        lab.ok("ip link set d0 up");
        assert!(lab.ok("ip route").contains("10.1.2.0/24 dev d0"));
        let refused = lab.run("ip addr add 10.1.2.3/24 dev d0");
        assert_eq!(refused.status, Status::Exited(2));
        // Linux 6.1 says no more than EEXIST.
        let words = ["already assigned", "File exists"];
        assert!(words.iter().any(|w| refused.err.contains(w)), "{refused:?}");
    });
}

#[test]
fn ping_itself() {
    as_both("programs::ping_itself", || {
        let mut lab = Lab::new();
        let text = lab.ok("ping -c 3 -i 0.01 127.0.0.1");
        assert!(text.contains("3 received, 0% packet loss"), "{text}");
        let text = lab.ok("ping -c 2 -i 0.01 ::1");
        assert!(text.contains("2 received, 0% packet loss"), "{text}");
        let away = lab.run("ping -c 1 192.0.2.1");
        assert_eq!(away.status, Status::Exited(2));
        assert!(away.err.contains("Network is unreachable"), "{away:?}");
    });
}

#[test]
fn the_web() {
    as_both("programs::the_web", || {
        let mut lab = Lab::new();
        let server = Program::new("/usr/bin/python3")
            .args(["-m", "http.server", "8000"])
            .current_dir("/usr/share/common-licenses");
        let server = lab.start_program(server);
        lab.until_listening(8000);
        let page = std::fs::read_to_string("/usr/share/common-licenses/GPL-2").unwrap();
        let curl = lab.ok("curl -sS http://127.0.0.1:8000/GPL-2");
        assert!(curl == page);
        let wget = lab.ok("wget -q -O - http://127.0.0.1:8000/GPL-2");
        assert!(wget == page);
        let ipv6 = lab.run("curl -sS http://[::1]:8000/");
        assert_eq!(ipv6.status, Status::Exited(7));
        lab.worker.signal(server.id, libc::SIGTERM).unwrap();
        assert_eq!(lab.finish(server).status, Status::Killed(libc::SIGTERM));
        let gone = lab.run("curl -sS http://127.0.0.1:8000/");
        assert_eq!(gone.status, Status::Exited(7), "{gone:?}");
    });
}

#[test]
fn netcat_and_pipelines() {
    as_both("programs::netcat_and_pipelines", || {
        let mut lab = Lab::new();
        let server = lab.start("nc -l 7000");
        lab.until_listening(7000);
        let client = lab.shell("seq 1 20000 | nc -N 127.0.0.1 7000 && echo sent");
        assert_eq!(client.out, "sent\n", "{client:?}");
        let received = lab.finish(server).out;
        assert_eq!(received.lines().count(), 20000);
        assert_eq!(received.lines().last(), Some("20000"));

        let both = lab.shell(
            "nc -l 7001 < <(echo pong) & \
             until ss -Hltn | grep -q :7001; do :; done; \
             echo ping | nc -N 127.0.0.1 7001; wait",
        );
        let mut lines: Vec<_> = both.out.lines().collect();
        lines.sort();
        assert_eq!(lines, ["ping", "pong"], "{both:?}");
    });
}

#[test]
fn iperf() {
    as_both("programs::iperf", || {
        let mut lab = Lab::new();
        let server = lab.start("iperf3 -s -1");
        lab.until_listening(5201);
        let text = lab.ok("iperf3 -c 127.0.0.1 -n 64M");
        assert!(text.contains("iperf Done."), "{text}");
        assert_eq!(lab.finish(server).status, Status::Exited(0));
    });
}

#[test]
fn socket_statistics() {
    as_both("programs::socket_statistics", || {
        let mut lab = Lab::new();
        let server = lab.start("nc -l 7000");
        lab.until_listening(7000);
        assert!(lab.ok("ss -tlnp").contains("0.0.0.0:7000"));
        let client = lab.start("nc -d 127.0.0.1 7000");
        while !lab.ok("ss -tn").contains("ESTAB") {}
        let details = lab.ok("ss -tin");
        assert!(details.contains("cubic"), "{details}");
        assert!(details.contains("cwnd:10"), "{details}");
        assert!(details.contains("rtt:"), "{details}");
        lab.worker.signal(client.id, libc::SIGKILL).unwrap();
        assert_eq!(lab.finish(client).status, Status::Killed(libc::SIGKILL));
        assert_eq!(lab.finish(server).status, Status::Exited(0));
    });
}

#[test]
fn exit_statuses_and_signals_pass() {
    as_both("programs::exit_statuses_and_signals_pass", || {
        let mut lab = Lab::new();
        assert_eq!(lab.run("true").status, Status::Exited(0));
        assert_eq!(lab.shell("exit 42").status, Status::Exited(42));
        let killed = lab.shell("kill -USR1 $$").status;
        assert_eq!(killed, Status::Killed(libc::SIGUSR1));
        assert_eq!(killed.code(), 138);
        let trap = lab.start_program(Program::new("bash").args([
            "-c",
            "trap 'echo caught; exit 5' TERM; echo ready; while :; do read -t 1 < /dev/zero; done",
        ]));
        let mut trap = trap;
        lab.until_written(&mut trap, "ready");
        lab.worker.signal(trap.id, libc::SIGTERM).unwrap();
        let output = lab.finish(trap);
        assert_eq!(output.status, Status::Exited(5));
        assert_eq!(output.out, "ready\ncaught\n");
        let missing = lab.worker.spawn(
            lab.machine,
            Program::new("no-such-program").env("PATH", "/bin"),
        );
        let error = lab.worker.wait(missing.unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot run 'no-such-program': No such file or directory"
        );
        assert_eq!(error.exit_status(), 127);
    });
}

#[test]
fn what_a_program_leaves_running_is_served_and_can_be_killed() {
    as_both(
        "programs::what_a_program_leaves_running_is_served_and_can_be_killed",
        || {
            let mut lab = Lab::new();
            let before = lab.used();
            let daemon = lab
                .start_program(Program::new("bash").args(["-c", "nc -lk 7000 & disown; exit 0"]));
            let id = daemon.id;
            assert_eq!(lab.finish(daemon).status, Status::Exited(0));
            assert!(lab.worker.is_alive(id));
            lab.until_listening(7000);
            assert_eq!(lab.shell("nc -zv 127.0.0.1 7000").status, Status::Exited(0));
            lab.worker.kill(id).unwrap();
            assert!(!lab.worker.is_alive(id));
            assert_eq!(lab.ok("ss -Hltn"), "");
            assert_eq!(lab.used(), before);
        },
    );
}

#[test]
fn standard_input_is_the_callers() {
    as_both("programs::standard_input_is_the_callers", || {
        let mut lab = Lab::new();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (mut output, end) = std::io::pipe().unwrap();
        let program = Program::new("tr")
            .args(["a-z", "A-Z"])
            .stdin(Stdio::Fd(OwnedFd::from(reader)))
            .stdout(Stdio::Fd(OwnedFd::from(end)));
        let id = lab.worker.spawn(lab.machine, program).unwrap();
        std::io::Write::write_all(&mut writer, b"shout").unwrap();
        drop(writer);
        assert_eq!(lab.worker.wait(id).unwrap(), Status::Exited(0));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).unwrap();
        assert_eq!(text, "SHOUT");
    });
}

#[test]
fn a_dropped_worker_leaves_no_process() {
    as_both("programs::a_dropped_worker_leaves_no_process", || {
        let mut lab = Lab::new();
        // Numbers inside say nothing outside: this argument does.
        let mark = format!("1000.{}", std::process::id());
        let script = format!("sleep {mark} & setsid sleep {mark} & nc -l 7000; : {mark}");
        let _tree = lab.start_program(Program::new("bash").args(["-c", &script]));
        lab.until_listening(7000);
        let marked = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline"));
            let has = |line: &Vec<u8>| String::from_utf8_lossy(line).contains(&mark);
            all.filter_map(|entry| line(entry).ok()).filter(has).count()
        };
        assert_ne!(marked(), 0);
        drop(lab);
        assert_eq!(marked(), 0);
    });
}

#[test]
fn the_machines_own_files() {
    as_both("programs::the_machines_own_files", || {
        let mut lab = Lab::new();
        let server = lab.start("nc -l 7000");
        lab.until_listening(7000);
        // As netstat(8) does.
        assert!(lab.ok("cat /proc/net/tcp").contains("00000000:1B58"));
        assert!(lab.ok("ss -s").contains("TCP:   1"));
        lab.ok("ip link add d0 type dummy");
        let devices = lab.ok("cat /proc/net/dev");
        assert!(devices.contains(" d0:"), "{devices}");
        let names = lab.ok("ls /sys/class/net");
        assert!(names.lines().any(|name| name == "d0"), "{names}");
        assert_eq!(lab.ok("cat /sys/class/net/d0/mtu"), "1500\n");
        let name = "net.ipv4.ip_forward";
        assert_eq!(lab.ok(&format!("sysctl -n {name}")), "0\n");
        lab.ok(&format!("sysctl -w {name}=1"));
        assert_eq!(lab.ok(&format!("sysctl -n {name}")), "1\n");
        let redirected = lab.shell("echo 0 > /proc/sys/net/ipv4/ip_forward");
        assert_eq!(redirected.status, Status::Exited(0), "{redirected:?}");
        assert_eq!(lab.ok("cat /proc/sys/net/ipv4/ip_forward"), "0\n");
        let missing = lab.run("cat /proc/net/nothing");
        assert!(missing.err.contains("No such file"), "{missing:?}");
        assert!(lab.ok("cat /proc/self/comm").contains("cat"));

        // By every call and from every directory. ls(1) looks for attributes too.
        let list = lab.ok("ls -l /sys/class/net");
        assert!(
            list.contains(" d0 -> ../../devices/virtual/net/d0"),
            "{list}"
        );
        assert_eq!(
            lab.ok("readlink -e /sys/class/net/d0"),
            "/sys/devices/virtual/net/d0\n"
        );
        let states = lab.shell("cat /sys/class/net/*/operstate").out;
        assert_eq!(states, "down\nunknown\n");
        let here = lab
            .shell("cd /sys/class/net && echo 1400 >d0/mtu && ls && cat d0/mtu")
            .out;
        assert_eq!(here, "bonding_masters\nd0\nlo\n1400\n");
        let hosts = lab
            .shell("for i in /sys/class/net/*/; do test -d $i && echo $i; done")
            .out;
        assert_eq!(hosts, "/sys/class/net/d0/\n/sys/class/net/lo/\n");
        let own = lab
            .shell("cat /proc/$$/net/dev /proc/thread-self/net/dev | grep -c d0")
            .out;
        assert_eq!(own, "2\n");
        let all = lab.ok("sysctl -a");
        assert!(all.contains("net.ipv4.conf.d0.forwarding = 0"), "{all}");
        let copied = lab.shell("cp /proc/net/dev /dev/stdout | grep -c d0");
        assert_eq!(copied.out, "1\n", "{copied:?}");
        // A module of the image's is the image's, by whatever path; all others are the host's. Of
        // Vegas hosts have no module.
        let alpha = "/sys/module/tcp_vegas/parameters/alpha";
        assert_eq!(lab.ok(&format!("cat {alpha}")), "2\n");
        let written = lab.shell(&format!("echo 3 > {alpha} && cd /sys/module && cat tcp_vegas/parameters/alpha && cd /sys && cat module/tcp_vegas/parameters/alpha"));
        assert_eq!(written.out, "3\n3\n", "{written:?}");
        let shared = lab.ok("grep -s . /sys/module/ipv6/parameters/disable /sys/module/ipv6/../tcp_vegas/parameters/alpha");
        assert_eq!(
            shared,
            "/sys/module/ipv6/parameters/disable:0\n/sys/module/ipv6/../tcp_vegas/parameters/alpha:3\n"
        );
        let lost = lab.shell("cd /sys/module && for i in *; do test -d $i && test -d /sys/module/$i || echo $i; done");
        assert_eq!(lost.out, "", "{lost:?}");
        // Where the host has no such directory, no process can be.
        let lost = lab.shell("cd /sys/class/net/d0");
        assert!(lost.err.contains("Permission denied"), "{lost:?}");
        lab.worker.kill(server.id).unwrap();
    });
}

#[test]
fn namespaces_of_the_programs_own() {
    as_both("programs::namespaces_of_the_programs_own", || {
        let mut lab = Lab::new();
        // Root of a user namespace, with a /run of its own: ordinary users can have that too.
        let all = lab.shell(
            "unshare --user --map-root-user --mount --net sh -e -c '
mount -t tmpfs none /run
ip netns add blue
ip netns add red
ip link add v0 type veth peer name v1
ip link set v1 netns blue
ip link add v2 netns red type veth peer name v3 netns blue
ip addr add 10.0.0.1/24 dev v0
ip link set v0 up
ip -n blue addr add 10.0.0.2/24 dev v1
ip -n blue link set v1 up
ip netns exec blue ping -q -c 1 -W 5 10.0.0.1 | grep -o 1.received
ip netns exec blue sleep 100 &
until ip netns pids blue | grep -q .; do :; done
ip link add v4 type veth peer name v5
ip link set v5 netns $!
kill $!
wait $! 2>/dev/null || :
for name in blue red; do ip -n $name -o link | cut -d: -f2 | cut -d@ -f1 | xargs; done
ip -o link | cut -d: -f2 | cut -d@ -f1 | xargs
ip netns del blue
ip netns list
unshare --net ip -o addr
' 2>&1",
        );
        let lines: Vec<_> = all.out.lines().collect();
        let expected = ["1 received", "lo v1 v3 v5", "lo v2", "lo v0 v4", "red"];
        let same = lines.iter().zip(&expected).all(|(a, b)| a.trim_end() == *b);
        assert!(same && lines.len() == expected.len(), "{}", all.out);
    });
}

#[test]
fn debuggers() {
    as_both("programs::debuggers", || {
        let mut lab = Lab::new();
        // Attached to a call that waits, and away again: the call goes on.
        let all = lab.shell(
            "set -e; cd $(mktemp -d); trap 'rm -r $PWD' EXIT
cat >wait.py <<'end'
import os, socket
l = socket.create_server(('127.0.0.1', 7))
a = l.accept()[0]
while data := a.recv(100): os.write(1, data)
end
cat >send.py <<'end'
import os, socket, sys
a = socket.create_connection(('127.0.0.1', 7))
while data := os.read(0, 100): a.sendall(data)
end
mkfifo words
/usr/bin/python3 wait.py & waiting=$!
until ss -Hltn | grep -q :7; do :; done
gdb -q -batch -p $waiting -ex 'print $orig_rax' -ex detach 2>/dev/null | grep '^.1 = '
/usr/bin/python3 send.py <words & exec 3>words
echo one >&3
strace -o trace -p $waiting 2>/dev/null & tracing=$!
until grep -qs recvfrom trace; do :; done
echo two >&3
until grep -q two trace; do :; done
kill -INT $tracing; wait $tracing || :
echo three >&3
exec 3>&-
wait $waiting
# From the start, with all that it makes.
strace -f -o trace /usr/bin/python3 -c \"
import os, socket, threading
a, l = socket.socket(), socket.create_server(('127.0.0.1', 0))
a.connect(l.getsockname()); b = l.accept()[0]
threading.Thread(target=lambda: [b.sendall(b.recv(100)) for i in range(20)]).start()
for i in range(20):
    a.sendall(b'%d' % i); assert a.recv(100) == b'%d' % i
if os.fork() == 0: os._exit(a.fileno() and 3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
\"
grep -c recvfrom trace >&2
",
        );
        let recvs = all.err.trim().lines().last().and_then(|n| n.parse().ok());
        assert!(recvs.is_some_and(|n: u32| n >= 40), "{all:?}");
        assert_eq!(all.out, "$1 = 288\none\ntwo\nthree\n3\n", "{}", all.err);
    });
}
