//! What a program on a machine can't get hold of: the host's namespaces, devices and processes, vink's above all.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use vink_sys::socket::send_with;

use common::control::Control;
use common::{is_readable, Place};

/// System calls for the scripts below: each gives 0 or more, or -errno.
const CALLS: &str = "
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(number, *[ctypes.c_long(a) for a in arguments])
    return -ctypes.get_errno() if result == -1 else result
def refused(what, result, *allowed):
    names = [errno.errorcode[-result]] if result < 0 else [result]
    assert names[0] in allowed, (what, names[0], allowed)
SETNS, MKNOD, PTRACE, WRITEV = 308, 133, 101, 311
PIDFD_SIGNAL, PIDFD_GETFD, SIGQUEUE = 424, 438, 129
NEWNS, NEWUTS, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x10000000, 0x20000000, 0x40000000
ATTACH, SEIZE = 16, 0x4206
own = os.stat('/proc/self/ns/net')
";

/// vink with a Python script on a machine, which starts with [`CALLS`].
fn python(place: &Place, script: &str) -> Command {
    let mut vink = place.vink(&["run", "--uplink", "none", "--", "/usr/bin/python3", "-c"]);
    vink.arg([CALLS, script].concat());
    vink
}

/// The script succeeds, and has said this.
fn succeeds(place: &Place, script: &str, said: &str) {
    let output = python(place, script).output().expect("vink");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((out.as_str(), err.as_str()), (said, ""), "{}", place.user());
    assert!(output.status.success(), "{}", place.user());
}

/// Descriptors over a unix socket (unix(7)), with a byte.
fn send(to: &UnixStream, fds: &[BorrowedFd<'_>]) {
    assert_eq!(send_with(to, b"x", fds).expect("sent"), 1);
}

fn pidfd(pid: u32) -> OwnedFd {
    vink_sys::pidfd::open(pid as i32).expect("a process")
}

#[test]
fn only_the_machines_processes_are_there() {
    for place in Place::all() {
        let script = "
seen = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())
print(seen, os.getpid(), os.getppid(), open('/proc/1/comm').read().strip())
print(open('/proc/1/cmdline').read().strip(chr(0)))
# Nor is another /proc below it.
path = ctypes.create_string_buffer(b'/proc')
refused('umount', call(166, ctypes.addressof(path), 2), 'EINVAL', 'EPERM')
";
        succeeds(&place, script, "[1, 2] 2 0 vink-init\nvink-init\n");
    }
}

#[test]
fn no_number_leads_to_a_namespace_or_a_process_of_the_hosts() {
    for place in Place::all() {
        let script = "
print('ready', flush=True)
worker = int(input())
for number in [*range(1, 100), *range(max(100, worker - 500), worker + 500)]:
    for name in 'net', 'user', 'mnt', 'pid':
        path = f'/proc/{number}/ns/{name}'
        try:
            with open(path) as namespace:
                assert number == os.getpid(), path
        except OSError as error:
            assert error.errno in (errno.ENOENT, errno.EACCES, errno.ESRCH), (path, error)
for number in worker, os.getppid() or worker:
    refused('seize', call(PTRACE, SEIZE, number, 0, 0), 'ESRCH')
    refused('attach', call(PTRACE, ATTACH, number, 0, 0), 'ESRCH')
    text = ctypes.create_string_buffer(256)
    vector = (ctypes.c_ulong * 2)(ctypes.addressof(text), 8)
    at = ctypes.addressof(vector)
    refused('write', call(WRITEV, number, at, 1, at, 1, 0), 'ESRCH')
    refused('kill', call(62, number, signal.SIGKILL), 'ESRCH')
    refused('queue', call(SIGQUEUE, number, signal.SIGKILL, ctypes.addressof(text)), 'ESRCH', 'EPERM')
print('alive')
";
        let mut vink = python(&place, script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("vink");
        let mut lines = BufReader::new(vink.stdout.take().expect("its output")).lines();
        let mut line = || lines.next().map(|line| line.expect("text"));
        assert_eq!(line().as_deref(), Some("ready"));
        let mut input = vink.stdin.take().expect("its input");
        writeln!(input, "{}", vink.id()).expect("room");
        assert_eq!(line().as_deref(), Some("alive"), "{}", place.user());
        assert!(vink.wait().expect("its status").success());
    }
}

/// An accomplice on the host, as whatever user the test is, hands in the best that it has.
#[test]
fn descriptors_of_the_hosts_namespaces_and_processes_are_of_no_use() {
    for place in Place::all() {
        let script = "
here = socket.socket(socket.AF_UNIX)
here.connect('accomplice')
_, fds, _, _ = socket.recv_fds(here, 1, 16)
net, user, mnt, uts, pid, worker, test, proc = fds
for fd, flag in (net, NEWNET), (net, 0), (user, NEWUSER), (mnt, NEWNS), (uts, NEWUTS), (pid, NEWPID):
    refused('setns', call(SETNS, fd, flag), 'EPERM')
for process in worker, test:
    for flag in NEWNET, NEWUSER, NEWNET | NEWUSER | NEWNS:
        refused('setns of a pidfd', call(SETNS, process, flag), 'EPERM')
    for number in range(20):
        refused('getfd', call(PIDFD_GETFD, process, number, 0), 'EPERM')
    refused('signal', call(PIDFD_SIGNAL, process, signal.SIGKILL, 0, 0), 'EINVAL', 'EPERM')
# The host's own /proc, where the worker has a name.
number = input()
for name in 'ns/net', 'ns/user', 'mem', 'maps', 'fd/0', 'environ', 'root/':
    try:
        os.open(f'{number}/{name}', os.O_RDONLY, dir_fd=proc)
        assert False, name
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.EPERM), (name, error)
folder = os.open(number, os.O_RDONLY, dir_fd=proc)
refused('signal', call(PIDFD_SIGNAL, folder, signal.SIGKILL, 0, 0), 'EINVAL', 'EPERM', 'EBADF')
now = os.stat('/proc/self/ns/net')
assert (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino)
print('alive')
";
        let listener = UnixListener::bind(place.folder().join("accomplice")).expect("a socket");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(place.folder().join("accomplice"), mode).expect("its mode");
        let mut vink = python(&place, script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("vink");
        let worker = vink.id();
        assert!(is_readable(&listener), "{}: no program comes", place.user());
        let (there, _) = listener.accept().expect("the program");
        let open = |path: &str| OwnedFd::from(std::fs::File::open(path).expect(path));
        let kinds = ["net", "user", "mnt", "uts", "pid"];
        let mut fds: Vec<_> = kinds
            .iter()
            .map(|kind| open(&format!("/proc/self/ns/{kind}")))
            .collect();
        fds.extend([pidfd(worker), pidfd(std::process::id()), open("/proc")]);
        let numbers: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        send(&there, &numbers);
        writeln!(vink.stdin.take().expect("its input"), "{worker}").expect("room");
        let output = vink.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "alive\n", "{}", place.user());
        assert!(output.status.success(), "{}", place.user());
    }
}

#[test]
fn devices_cannot_be_made() {
    for place in Place::all() {
        let script = "
for kind, major, minor in (0o020666, 10, 200), (0o060666, 7, 0), (0o020666, 1, 1):
    path = ctypes.create_string_buffer(os.path.join(os.environ['TMPDIR'], 'device').encode())
    refused('mknod', call(MKNOD, ctypes.addressof(path), kind, os.makedev(major, minor)), 'EPERM')
print('refused')
";
        succeeds(&place, script, "refused\n");
    }
}

/// Whatever a program names as its parent or its group, vink is not in it.
#[test]
fn signals_to_parents_and_groups_do_not_reach_vink() {
    for place in Place::all() {
        for time in [&[][..], &["--time", "virtual"]] {
            let script = "
trap '' ALRM; trap 'echo caught' USR1
kill -ALRM $PPID; kill -ALRM 0; kill -USR1 0; kill -0 0 && echo there
rm -f told; mkfifo told; exec 3<>told
# An orphan's parent is number 1.
(sh -c 'while [ $(cut -d\" \" -f4 /proc/$$/stat) != 1 ]; do sleep 0.01; done
        kill -ALRM 1; kill -KILL 1; kill -STOP 1; echo orphan >&3' &)
read line <&3; echo $line; setsid sh -c 'kill -KILL 0'; echo alive; exit 3";
            let mut line = vec!["run"];
            line.extend(time);
            if time.is_empty() {
                line.extend(["--uplink", "none"]);
            }
            line.extend(["--", "sh", "-c", script]);
            let mut command = place.vink(&line);
            command.current_dir(place.temporary());
            // A group of its own, as a shell's job.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let output = command.output().expect("vink");
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                said,
                "caught\nthere\norphan\nalive\n",
                "{time:?}, {}: {output:?}",
                place.user()
            );
            assert_eq!(output.status.code(), Some(3), "{output:?}");
        }
    }
}

/// What has left its session, its group and its namespaces, and lost its parents, ends with a killed vink.
#[test]
fn what_has_left_everything_ends_with_vink() {
    const LEAVES: &str =
        "setsid unshare -n -u -m sh -c '(echo left; exec sleep 1000) &'; read line";
    for place in Place::all() {
        let mut command = place.vink(&["run", "--uplink", "none", "--", "sh", "-c", LEAVES]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut vink = command.spawn().expect("vink");
        let _input = vink.stdin.take();
        let mut output = BufReader::new(vink.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "left\n", "{}", place.user());
        vink.kill().expect("its death");
        vink.wait().expect("its status");
        // The sleeper has the output open.
        assert!(is_readable(output.get_ref()), "{}: it lives", place.user());
        assert_eq!(output.read(&mut [0]).expect("the end"), 0);
    }
}

/// Each machine of a lab has an init of its own, and what is executed there later is with the others.
#[test]
fn a_machine_of_a_lab_has_processes_of_its_own() {
    const TWO: &str = "
machines:
  m1: { programs: { stays: { command: exec sleep 1000 } } }
  m2: {}
";
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("two.yaml", TWO);
        control.vink(&["lab", "up", "two.yaml"]);
        let on = |machine, line| control.vink(&["exec", machine, "--", "sh", "-c", line]);
        let space = "readlink /proc/self/ns/pid";
        assert_eq!(on("m1", space), on("m1", space), "{}", place.user());
        assert_ne!(on("m1", space), on("m2", space), "{}", place.user());
        let names = "cat /proc/[0-9]*/comm | sort -u | tr '\\n' ' '";
        let seen = |machine| {
            let names = on(machine, names);
            ["vink-init", "sleep", "vink"].map(|name| names.split(' ').any(|n| n == name))
        };
        assert_eq!(seen("m1"), [true, true, false], "{}", place.user());
        assert_eq!(seen("m2"), [true, false, false], "{}", place.user());
        // All of them can look at each other, and at nothing of vink's.
        let look = "readlink /proc/1/exe; for n in /proc/[0-9]*; do [ $n = /proc/1 ] || readlink $n/exe; done";
        assert!(!on("m1", look).contains("vink"), "{}", place.user());
    }
}

/// A program on a machine is the owner's, and finds the control process's socket; it is refused there.
#[test]
fn a_program_does_not_command_its_lab() {
    for place in Place::all() {
        let control = Control::of(&place);
        control.write("one.yaml", "machines: { m1: {} }\n");
        control.vink(&["lab", "up", "one.yaml"]);
        let socket = control.runtime().join("control.sock");
        let ask = [
            "curl",
            "-sS",
            "--unix-socket",
            socket.to_str().expect("a name of characters"),
            "http://localhost/v1/labs",
        ];
        let inside = control.vink(&[&["exec", "m1", "--"], &ask[..]].concat());
        assert!(
            inside.contains("can't command"),
            "{}: {inside}",
            place.user()
        );
        let outside = control.command(ask[0]).args(&ask[1..]).output();
        let outside = String::from_utf8(outside.expect("curl").stdout).expect("text");
        assert!(outside.contains("\"one\""), "{}: {outside}", place.user());
    }
}
