//! Programs that post calls in shared memory: what gets there, what does not, and what a hostile
//! one can do.

use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use vink_kernel::Clock;
use vink_ring::{DeferredSend, ReadinessEntry, SharedRing, Slot, GET_RING, PUBLISHED};
use vink_trap::{CallsForm, Program, Status};

use crate::built::Built;
use crate::lab::{as_both, Lab};

/// A lab whose programs may post calls; `None`: there is one processor only.
pub fn lab() -> Option<Lab> {
    let mut lab = Lab::new();
    let allowed = lab.worker.allow_shared_rings();
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!(allowed || processors == 1);
    lab.worker.poll_despite_contention();
    allowed.then_some(lab)
}

/// The library, where every user can read it.
pub struct Library(PathBuf);

impl Library {
    pub fn new() -> Library {
        let test = std::env::current_exe().unwrap();
        let folders = test.ancestors().skip(1).take(2);
        let mut built = folders.map(|folder| folder.join("libvink_quick.so"));
        let built = built.find(|path| path.exists());
        let built = built.expect("`cargo build -p vink-quick` makes it");
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vink-quick-{}-{count}.so", std::process::id());
        let library = Library(std::env::temp_dir().join(name));
        std::fs::copy(built, &library.0).unwrap();
        library
    }

    pub fn before(&self, program: Program) -> Program {
        program.env("LD_PRELOAD", &self.0)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // A test's failure matters more than what it leaves.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Two threads and a child at each of two connections, which check every byte that they exchange.
const STREAMS: &str = "
import hashlib, os, socket, threading
def pair():
    l = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(l.getsockname())
    s = l.accept()[0]
    for e in c, s: e.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return c, s
data = [os.urandom(n) for n in (1, 100, 65536, 65537, 1 << 20)]
def sends(s):
    for n in range(60): s.sendall(data[n % 5])
def receives(s, sums):
    h = hashlib.sha256(); left = 60 // 5 * sum(map(len, data))
    while left: got = s.recv(min(left, 40000)); assert got; h.update(got); left -= len(got)
    sums.append(h.hexdigest())
expected = hashlib.sha256()
for n in range(60): expected.update(data[n % 5])
def both(a, b):
    sums = []
    ts = [threading.Thread(target=f) for f in
          (lambda: sends(a), lambda: receives(b, sums), lambda: sends(b), lambda: receives(a, sums))]
    for t in ts: t.start()
    for t in ts: t.join()
    assert sums == [expected.hexdigest()] * 2, sums
a, b = pair(); both(a, b); both(a, b)
child = os.fork()
if child == 0: both(a, b); os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
both(a, b)
c = os.dup(a.fileno()); a.close(); s = socket.socket(fileno=c); both(s, b)
b.setblocking(False); s.sendall(b'x'); assert b.recv(9) == b'x'
try: b.recv(9); assert False
except BlockingIOError: pass
s.close(); assert b.recv(9) == b''
try:
    for n in range(9): b.send(b'x')
    assert False
except (BrokenPipeError, ConnectionResetError): pass
print('done')";

#[test]
fn streams_are_as_they_are() {
    as_both("shared_ring::streams_are_as_they_are", || {
        let Some(mut lab) = lab() else { return };
        let library = Library::new();
        let before = lab.used();
        let python = Program::new("/usr/bin/python3").args(["-c", STREAMS]);
        let running = lab.start_program(library.before(python));
        let output = lab.finish(running);
        assert_eq!(output.out, "done\n", "{output:?}");
        assert!(lab.worker.statistics().posted() > 0);
        assert_eq!(lab.used(), before);
    });
}

#[test]
fn a_stream_that_becomes_a_file() {
    as_both("shared_ring::a_stream_that_becomes_a_file", || {
        let Some(mut lab) = lab() else { return };
        let library = Library::new();
        // Each number is a stream, then a file, then a pipe, and the stream again.
        let script = "
import os, socket, tempfile
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname()); s = l.accept()[0]
kept = os.dup(c.fileno()); fd = c.detach()
for n in range(200):
    for m in range(3): assert os.write(fd, b'stream') == 6 and s.recv(9) == b'stream'
    f, name = tempfile.mkstemp(); os.unlink(name)
    os.dup2(f, fd); os.close(f)
    for m in range(3): os.write(fd, b'file')
    os.lseek(fd, 0, 0); assert os.read(fd, 99) == b'file' * 3
    os.close(fd); r, w = os.pipe(); assert fd in (r, w)
    os.write(w, b'pipe'); assert os.read(r, 9) == b'pipe'
    os.close(r); os.close(w)
    assert os.dup2(kept, fd) == fd
    os.closerange(fd + 9, fd + 20)
print('done')";
        let python = Program::new("/usr/bin/python3").args(["-c", script]);
        let running = lab.start_program(library.before(python));
        let output = lab.finish(running);
        assert_eq!(output.out, "done\n", "{output:?}");
        assert!(lab.worker.statistics().posted() > 0);
    });
}

#[test]
fn a_killed_program_leaves_nothing() {
    as_both("shared_ring::a_killed_program_leaves_nothing", || {
        let Some(mut lab) = lab() else { return };
        let library = Library::new();
        let before = lab.used();
        let script = "
import socket
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname()); s = l.accept()[0]
for n in range(100): c.send(b'x'); s.recv(1)
print('going', flush=True)
while True: c.send(b'x'); s.recv(1)";
        for _ in 0..10 {
            let python = Program::new("/usr/bin/python3").args(["-c", script]);
            let mut running = lab.start_program(library.before(python));
            lab.until_written(&mut running, "going");
            lab.worker.kill(running.id).unwrap();
            let output = lab.finish(running);
            assert_eq!(output.status, Status::Killed(libc::SIGKILL));
        }
        assert!(lab.worker.statistics().posted() > 0);
        lab.ok("true");
        assert_eq!(lab.used(), before);
    });
}

/// The program that writes garbage, and how it is called.
pub fn hostile(rounds: usize) -> (Built, String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ring/hostile.c");
    let built = Built::of(&source, &[]);
    let parts = [
        size_of::<SharedRing>(),
        rounds,
        offset_of!(SharedRing, deferred),
        offset_of!(SharedRing, slots),
        size_of::<Slot>(),
        offset_of!(Slot, deferred_sends),
        size_of::<DeferredSend>(),
        offset_of!(Slot, posted_receive),
    ];
    let line = parts.iter().fold(built.line().to_owned(), |line, part| {
        format!("{line} {part}")
    });
    (built, line)
}

#[test]
fn garbage_harms_no_other_program() {
    as_both("shared_ring::garbage_harms_no_other_program", || {
        lab().map_or((), garbage_harms_none)
    });
}

#[test]
fn nor_does_it_in_virtual_time() {
    as_both("shared_ring::nor_does_it_in_virtual_time", || {
        let mut lab = Lab::on(Clock::Virtual);
        assert!(lab.worker.allow_shared_rings());
        garbage_harms_none(lab);
    });
}

fn garbage_harms_none(mut lab: Lab) {
    let (_hostile, line) = hostile(3000);
    let before = lab.used();
    let output = lab.run(&line);
    assert_eq!(output.status, Status::Exited(0), "{output:?}");
    assert_eq!(output.out, "done\n");
    assert!(lab.worker.statistics().deferred_sends() > 0);
    // The worker, and others' rings, are well.
    let library = Library::new();
    let python = Program::new("/usr/bin/python3").args(["-c", STREAMS]);
    let running = lab.start_program(library.before(python));
    assert_eq!(lab.finish(running).out, "done\n");
    assert_eq!(lab.used(), before);
}

/// Prints what its ring says of both ends of a connection, before and after calls on them.
const PUBLISHED_EVENTS: &str = "
import ctypes, mmap, select, socket, sys
size, get_ring, readiness, entry, published = map(int, sys.argv[1:])
epoll = select.epoll()
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname()); s = l.accept()[0]
ring = mmap.mmap(ctypes.CDLL(None).ioctl(-1, get_ring), size)
def events(e):
    at = readiness + entry * e.fileno()
    return int.from_bytes(ring[at:at + 8], 'little') & published
print(events(c), events(s))
assert c.send(b'x') == 1 and s.recv(2) == b'x' and s.send(b'y') == 1
print(events(c) == select.EPOLLIN | select.EPOLLOUT, events(s) == select.EPOLLOUT)";

#[test]
fn streams_are_published_before_the_worker_polls() {
    // Once it polls, all calls on them are posted: no trapped one would have them published.
    as_both(
        "shared_ring::streams_are_published_before_the_worker_polls",
        || {
            let mut lab = Lab::new();
            if !lab.worker.allow_shared_rings_when_often() {
                return;
            }
            let parts = [
                size_of::<SharedRing>(),
                GET_RING as usize,
                offset_of!(SharedRing, readiness),
                size_of::<ReadinessEntry>(),
                PUBLISHED as usize,
            ];
            let words = parts.map(|part| part.to_string());
            let python = Program::new("/usr/bin/python3").args(["-c", PUBLISHED_EVENTS]);
            let running = lab.start_program(python.args(&words));
            let output = lab.finish(running);
            assert_eq!(output.out, "0 0\nTrue True\n", "{output:?}");
            assert_eq!(lab.worker.calls_form(), Some(CallsForm::Seldom));
        },
    );
}

#[test]
fn children_of_vfork() {
    as_both("shared_ring::children_of_vfork", || {
        if let Some(lab) = lab() {
            has_children_by_vfork(lab);
        }
    });
}

#[test]
fn children_of_vfork_in_virtual_time() {
    as_both("shared_ring::children_of_vfork_in_virtual_time", || {
        let mut lab = Lab::on(Clock::Virtual);
        assert!(lab.worker.allow_shared_rings());
        has_children_by_vfork(lab);
    });
}

fn has_children_by_vfork(mut lab: Lab) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ring/vfork.c");
    let (built, library) = (Built::of(&source, &["-pthread"]), Library::new());
    let running = lab.start_program(library.before(Program::new(built.line())));
    let output = lab.finish(running);
    assert_eq!(
        output.out,
        "the child's memory is its parent's\n\
         0 mappings more\n\
         a busy child: 0\n\
         one that has a child: 7\n\
         beside a thread it is its own\n\
         with a ring it is its own\n",
        "{output:?}"
    );
}

#[test]
fn without_leave_there_is_no_ring() {
    let mut lab = Lab::new();
    let (_hostile, line) = hostile(1);
    let output = lab.run(&line);
    assert_eq!(output.status, Status::Exited(3), "{output:?}");
}
