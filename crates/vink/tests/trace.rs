//! `vink run --trace-calls`: what is shown of programs' calls, and what is said about those that failed.

mod common;

use std::fs;
use std::process::Command;

use common::Place;

/// The lines without processes and times, which differ from run to run.
fn lines(trace: &str) -> Vec<String> {
    let strip = |line: &str| -> Option<String> {
        let (machine, rest) = line.split_once(' ')?;
        let (thread, call) = rest.split_once(' ')?;
        let (call, took) = call.rsplit_once(" <")?;
        let seconds = took.strip_suffix('>')?.parse::<f64>().ok()?;
        let ids = thread.split('/').all(|id| id.parse::<u32>().is_ok());
        (ids && seconds >= 0.0).then(|| format!("{machine} {call}"))
    };
    let strip = |line| strip(line).unwrap_or_else(|| panic!("{line:?} in\n{trace}"));
    trace.lines().map(strip).collect()
}

/// Runs vink with these arguments and `--trace-calls=FILE`: its output, and the lines.
fn traced(place: &Place, arguments: &[&str]) -> (String, Vec<String>) {
    let file = place.temporary().join("trace");
    let mut command = place.vink(&["run", &format!("--trace-calls={}", file.display())]);
    let output = command.args(arguments).output().expect("vink");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let trace = fs::read_to_string(&file).expect("the file");
    fs::remove_file(&file).expect("it is there");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {err}{trace}", place.user());
    (out + &err, lines(&trace))
}

#[test]
fn a_static_program() {
    for place in Place::all() {
        let source = place.temporary().join("udp.c");
        let program = place.temporary().join("udp");
        fs::write(&source, UDP).expect("a source file");
        let mut compile = Command::new("gcc");
        compile
            .args(["-static", "-w", "-o"])
            .arg(&program)
            .arg(&source);
        assert!(compile.status().expect("gcc").success());
        let program = program.display().to_string();
        let (said, lines) = traced(&place, &["--machine", "m", "--", &program]);
        assert_eq!(said, "done\n", "{}", place.user());
        let expected = [
            "m socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 3<vink>",
            "m bind(3<vink>, {AF_INET 127.0.0.1:9}, 16) = 0",
            "m setsockopt(3<vink>, SOL_IP, IP_PKTINFO, [1], 4) = 0",
            "m getsockopt(3<vink>, SOL_SOCKET, SO_DOMAIN, [2], [4]) = 0",
            "m sendto(3<vink>, \"a\\x00tab\\t and more than thirty-two \"..., 43, MSG_DONTWAIT|MSG_NOSIGNAL, \
             {AF_INET 127.0.0.1:9}, 16) = 43",
            "m ioctl(3<vink>, SIOCGIFFLAGS, {\"lo\", ...}) = 0",
            "m poll([{3<vink>, POLLIN}, {-1, POLLOUT}], 2, -1) = 1 ([3: POLLIN])",
            "m recvmsg(3<vink>, {{AF_INET 127.0.0.1:9}, [\"a\", \"\\x00tab\\t and more than thirty-two b\"...], \
             control=[SOL_IP IP_PKTINFO: 12 bytes]}, MSG_PEEK) = 43",
            "m fcntl(3<vink>, F_DUPFD, 7) = 7",
            "m fcntl(7<vink>, F_SETFL, O_NONBLOCK) = 0",
            "m recvfrom(7<vink>, \"a\\x00\", 2, MSG_TRUNC, {AF_INET 127.0.0.1:9}, [16]) = 43",
            "m read(7<vink>, PLACE, 64) = -1 EAGAIN (Resource temporarily unavailable)",
            "m write(7<vink>, 0x8, 5) = -1 EDESTADDRREQ (Destination address required)",
            "m close(7<vink>) = (host)",
        ];
        let place_of = |line: &String| match line.split_once("read(7<vink>, 0x") {
            Some((start, rest)) => {
                let digits = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
                format!("{start}read(7<vink>, PLACE{digits}")
            }
            None => line.clone(),
        };
        let lines: Vec<String> = lines.iter().map(place_of).collect();
        assert_eq!(lines, expected, "{}", place.user());
    }
}

const UDP: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
	static const char text[] = "a\0tab\t and more than thirty-two bytes, so.";
	static char a[1], b[64];
	struct sockaddr_in to = { AF_INET, htons(9), { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(to), four = 4;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;
	char control[64];
	struct iovec v[] = { { a, 1 }, { b, 64 } };
	struct msghdr m = { &to, len, v, 2, control, sizeof(control), 0 };
	struct pollfd p[] = { { fd, POLLIN, 0 }, { -1, POLLOUT, 0 } };
	struct ifreq name = { .ifr_name = "lo" };

	bind(fd, (void *)&to, len);
	setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, 4);
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &one, &four);
	sendto(fd, text, sizeof(text), MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&to, len);
	ioctl(fd, SIOCGIFFLAGS, &name);
	poll(p, 2, -1);
	recvmsg(fd, &m, MSG_PEEK);
	fcntl(fd, F_DUPFD, 7);
	fcntl(7, F_SETFL, O_NONBLOCK);
	recvfrom(7, b, 2, MSG_TRUNC, (void *)&to, &len);
	read(7, b, 64);
	write(7, (void *)8, 5);
	close(7);
	puts("done");
	return 0;
}
"#;

#[test]
fn curl_and_its_server() {
    for place in Place::all() {
        let script = "python3 -c '
import http.server as h
s = h.HTTPServer((\"127.0.0.1\", 8000), h.SimpleHTTPRequestHandler)
open(\"listening\", \"w\").close()
s.handle_request()
' 2>server & until [ -e listening ]; do :; done; curl -sS -o page http://127.0.0.1:8000/; wait";
        let script = format!("cd {}; {script}", place.temporary().display());
        let (said, lines) = traced(&place, &["--", "sh", "-c", &script]);
        assert_eq!(said, "", "{}", place.user());
        let has = |start: &str, part: &str| {
            let found = |l: &String| l.starts_with(start) && l.contains(part);
            assert!(lines.iter().any(found), "{start}, {part}: {lines:#?}");
        };
        has(
            "vink connect(",
            "<vink>, {AF_INET 127.0.0.1:8000}, 16) = -1 EINPROGRESS (",
        );
        has("vink accept4(", "<vink>, {AF_INET 127.0.0.1:");
        has("vink sendto(", "\"GET / HTTP/1.1\\r\\nHost: 127.0.0.1:");
        has("vink recvfrom(", "<vink>, \"HTTP/1.0 200 OK\\r\\n");
        has("vink getsockopt(", "SOL_SOCKET, SO_ERROR, [0], [4]) = 0");
        has("vink poll([{", "<vink>, POLL");
        // The host's files are not shown.
        assert!(!lines.iter().any(|l| l.contains("openat(")), "{lines:#?}");
    }
}

#[test]
fn python_with_signals_and_threads() {
    for place in Place::all() {
        let script = "
import os, signal, socket, threading
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::1', 5))
os.write(1, b'here')
signal.signal(signal.SIGALRM, lambda *_: s.sendto(b'alarm', ('::1', 5)))
signal.setitimer(signal.ITIMER_REAL, 0.01)
s.recv(10)
def more(): s.sendto(b'thread', ('::1', 5))
t = threading.Thread(target=more); t.start(); t.join()
s.recv(10)
";
        let (_, lines) = traced(&place, &["--trace-host", "--", "python3", "-c", script]);
        let has = |line: &str| assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
        has("vink bind(3<vink>, {AF_INET6 [::1]:5}, 28) = 0");
        has("vink write(1, \"here\", 4) = (host)");
        has("vink sendto(3<vink>, \"alarm\", 5, 0, {AF_INET6 [::1]:5}, 28) = 5");
        has("vink recvfrom(3<vink>, \"alarm\", 10, 0, NULL, NULL) = 5");
        has("vink sendto(3<vink>, \"thread\", 6, 0, {AF_INET6 [::1]:5}, 28) = 6");
        has("vink recvfrom(3<vink>, \"thread\", 10, 0, NULL, NULL) = 6");
        let left = lines.iter().filter(|l| l.contains("interrupted)"));
        assert!(left.count() >= 1, "{lines:#?}");
        let started = |l: &String| l.starts_with("vink execve(\"") && l.ends_with(" = (host)");
        assert!(lines.iter().any(started), "{lines:#?}");
    }
}

#[test]
fn a_failing_program_explains_itself() {
    for place in Place::all() {
        let script = "
import ctypes, socket, threading
s = socket.socket()
CLONE_FILES = 0x400
for _ in 0, 1:
    t = threading.Thread(target=ctypes.CDLL(None).unshare, args=(CLONE_FILES,))
    t.start(); t.join()
";
        let output = place
            .vink(&["run", "--", "python3", "-c", script])
            .output()
            .expect("vink");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(
                "vink: not supported: unshare, 2 times: a thread that asked for descriptors"
            ),
            "{}: {said}",
            place.user()
        );
        let mut wrong = place.vink(&["run", "--trace-calls=/no/such/folder/file", "--", "true"]);
        let output = wrong.output().expect("vink");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        let start = "vink: creating /no/such/folder/file for --trace-calls: No such file";
        assert!(said.starts_with(start), "{}: {said}", place.user());
        // Without a file, lines are among the program's own.
        let mut plain = place.vink(&[
            "run",
            "--trace-calls",
            "--",
            "sh",
            "-c",
            "ip link show lo >&2",
        ]);
        let output = plain.output().expect("vink");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("LOOPBACK") && said.contains("socket(AF_NETLINK, "),
            "{said}"
        );
    }
}

#[test]
fn a_32_bit_program_is_told_from_a_crash() {
    for place in Place::all() {
        // Its one system call is exit(7), by its 32-bit number.
        let source = "void _start(void) { __asm__ volatile(\"int $0x80\" :: \"a\"(1), \"b\"(7)); for (;;); }";
        let (c, program) = (place.temporary().join("a.c"), place.temporary().join("a"));
        std::fs::write(&c, source).expect("a source file");
        let compiler = std::process::Command::new("cc")
            .args(["-m32", "-nostdlib", "-static", "-fno-pic", "-o"])
            .args([&program, &c])
            .output()
            .expect("cc");
        assert!(compiler.status.success(), "{compiler:?}");
        let output = place
            .vink(&["run", "--", program.to_str().expect("a path")])
            .output()
            .expect("vink");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = "vink: not supported: a system call of a 32-bit program, once: ended the";
        assert!(said.contains(expected), "{}: {said}", place.user());
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(libc::SIGSYS), "{}", place.user());
    }
}
