//! Descriptors, forks, execs, signals and waiting: what a program may rely on. The scripts assert
//! for themselves.

use std::io::Read;
use std::os::unix::net::UnixStream;

use crate::lab::{as_both, Lab};
use vink_kernel::Clock;
use vink_trap::{Program, Status, Worker};

/// A connected pair of TCP sockets a, b; the listener is l.
const PAIR: &str = "
import os, sys, socket, select, errno, signal, time, threading, fcntl, resource
def pair():
    global l
    l = socket.create_server(('127.0.0.1', 0))
    a = socket.create_connection(l.getsockname())
    return a, l.accept()[0]
a, b = pair()
";

fn check(script: &str) {
    let mut lab = Lab::new();
    let before = lab.used();
    lab.python(&format!("{PAIR}{script}"));
    // What was forked may end a little later.
    lab.worker
        .run_until(|w| {
            let c = w.counters().unwrap();
            (c.sockets, c.files, c.tasks) == before
        })
        .unwrap();
}

#[test]
fn descriptors() {
    as_both("semantics::descriptors", || {
        check(
            "
# Numbers are the host's: the lowest free one.
n = a.fileno()
d = os.dup(n); assert d == max(a.fileno(), b.fileno()) + 1, d
a.close()
os.write(d, b'x'); assert b.recv(9) == b'x'
e = os.open('/dev/null', os.O_RDONLY); assert e == n
os.dup2(d, e); os.write(e, b'y'); assert b.recv(9) == b'y'
os.close(d); os.write(e, b'z'); assert b.recv(9) == b'z'
f = fcntl.fcntl(e, fcntl.F_DUPFD, 100); assert f == 100
g = fcntl.fcntl(e, fcntl.F_DUPFD_CLOEXEC, 100); assert g == 101
assert fcntl.fcntl(g, fcntl.F_GETFD) == 1 and fcntl.fcntl(f, fcntl.F_GETFD) == 0
os.close(e); os.close(g); os.write(f, b'u'); assert b.recv(9) == b'u'
h = os.open('/dev/null', os.O_RDONLY)
os.dup2(h, f)  # a host file over a Vink file
assert os.read(f, 1) == b''
assert b.recv(9) == b''
for bad in (lambda: os.dup2(9999, b.fileno()), lambda: os.dup2(b.fileno(), 1 << 20)):
    try: bad(); assert False
    except OSError as x: assert x.errno == errno.EBADF
try: fcntl.fcntl(b, fcntl.F_DUPFD, 1 << 20); assert False
except OSError as x: assert x.errno == errno.EINVAL
c, d = pair()
os.closerange(c.fileno(), c.fileno() + 1)
assert d.recv(1) == b''
",
        );
    });
}

#[test]
fn copies_get_no_number_of_another_thread() {
    as_both("semantics::copies_get_no_number_of_another_thread", || {
        check(
            "
over = False
def opens():
    while not over:
        f = os.open('/dev/null', os.O_RDWR)
        assert os.write(f, b'not for the stream') == 18
        os.close(f)
ts = [threading.Thread(target=opens, daemon=True) for n in range(2)]
for t in ts: t.start()
for n in range(1500):
    for least in 0, b.fileno() + 1, 40:
        d = fcntl.fcntl(a, fcntl.F_DUPFD_CLOEXEC, least); assert d >= least
        assert os.write(d, b'x') == 1 and b.recv(20) == b'x'
        assert fcntl.fcntl(d, fcntl.F_GETFD) == 1
        os.close(d)
over = True
for t in ts: t.join()
f = fcntl.fcntl(a, fcntl.F_DUPFD, 100); assert f == 100
g = fcntl.fcntl(f, fcntl.F_DUPFD, 100); assert g == 101
e = select.epoll(); h = fcntl.fcntl(b, fcntl.F_DUPFD, 200); e.register(h, select.EPOLLIN)
os.write(g, b'y'); assert e.poll() == [(h, select.EPOLLIN)] and os.read(h, 9) == b'y'
a.close(); os.close(f); assert not e.poll(0)
os.close(g); assert os.read(h, 9) == b''
for bad in 1 << 20, (1 << 31) - 1:
    try: fcntl.fcntl(b, fcntl.F_DUPFD, bad); assert False
    except OSError as x: assert x.errno == errno.EINVAL
",
        );
    });
}

#[test]
fn file_flags_are_the_kernels() {
    as_both("semantics::file_flags_are_the_kernels", || {
        check(
            "
assert fcntl.fcntl(a, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
a.setblocking(False)
assert fcntl.fcntl(os.dup(a.fileno()), fcntl.F_GETFL) & os.O_NONBLOCK
try: a.recv(1); assert False
except BlockingIOError: pass
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
assert fcntl.fcntl(u, fcntl.F_GETFD) == 1
try: u.recv(1); assert False
except BlockingIOError: pass
import stat
assert stat.S_ISSOCK(os.fstat(a.fileno()).st_mode)
try: os.lseek(a.fileno(), 0, 0); assert False
except OSError as x: assert x.errno == errno.ESPIPE
",
        );
    });
}

#[test]
fn what_starts_holds_nothing_open() {
    as_both("semantics::what_starts_holds_nothing_open", || {
        for clock in [Clock::Real, Clock::Virtual] {
            let mut lab = Lab::on(clock);
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            // It waits to be executed, of which the worker hears later.
            let running = lab.start("true");
            drop(theirs);
            assert_eq!(ours.read(&mut [0]).unwrap(), 0, "the end of the stream");
            assert_eq!(lab.finish(running).status, Status::Exited(0));
        }
    });
}

#[test]
fn no_more_descriptors() {
    as_both("semantics::no_more_descriptors", || {
        check(
            "
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
many = []
def full(f):
    try: f(); assert False
    except OSError as x: assert x.errno == errno.EMFILE, x
try:
    while True: many.append(socket.socket())
except OSError as x: assert x.errno == errno.EMFILE
assert max(s.fileno() for s in many) == 31
full(lambda: os.dup(a.fileno()))
full(lambda: fcntl.fcntl(a, fcntl.F_DUPFD, 3))
c = many.pop(); c.connect(l.getsockname())
full(lambda: l.accept())
many.pop().close()
os.dup(a.fileno())
",
        );
    });
}

#[test]
fn forks_inherit() {
    as_both("semantics::forks_inherit", || {
        check(
            "
# The parent closes at once: the child has its copy all the same.
for i in range(20):
    c, d = pair()
    pid = os.fork()
    if pid == 0:
        c.close(); l.close()
        d.sendall(b'from the child'); os._exit(0)
    d.close()
    got = b''
    while part := c.recv(100): got += part
    assert got == b'from the child', got
    assert os.waitpid(pid, 0)[1] == 0
# A child of a dead parent.
r, w = os.pipe()
c, d = pair()
if os.fork() == 0:
    if os.fork() == 0:
        os.close(w); os.read(r, 1)
        d.sendall(b'orphan'); os._exit(0)
    os._exit(0)
os.wait(); os.close(w); d.close()
assert c.recv(100) == b'orphan'
",
        );
    });
}

#[test]
fn threads_that_fork_at_once() {
    as_both("semantics::threads_that_fork_at_once", || {
        check(
            "
def one(i):
    for n in range(5):
        c, d = socket.socket(), None
        c.connect(l.getsockname())
        word = b'%d %d' % (i, n)
        pid = os.fork()
        if pid == 0:
            c.sendall(word); os._exit(0)
        c.close()
        assert os.waitpid(pid, 0)[1] == 0
threads = [threading.Thread(target=one, args=(i,)) for i in range(4)]
for t in threads: t.start()
words = set()
for i in range(20):
    s = l.accept()[0]; word = b''
    while part := s.recv(100): word += part
    words.add(word)
for t in threads: t.join()
assert len(words) == 20, words
",
        );
    });
}

#[test]
fn execs_close_what_they_should() {
    as_both("semantics::execs_close_what_they_should", || {
        check(
            "
import subprocess
a.set_inheritable(True)
n = a.fileno()
script = 'import socket, os; s = socket.socket(fileno=%d); s.sendall(b\"executed\"); os.read(0, 1)' % n
p = subprocess.Popen([sys.executable, '-c', script], stdin=subprocess.PIPE, close_fds=False)
assert b.recv(100) == b'executed'
a.close()
p.communicate(b'x'); assert p.returncode == 0
assert b.recv(100) == b''
# Close-on-exec: only the parent has it.
c, d = pair()
p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, close_fds=False)
c.close()
assert d.recv(100) == b''
p.communicate(); assert p.returncode == 0
# A failed exec changes nothing.
c, d = pair()
try: os.execv('/no/such/file', ['x'])
except FileNotFoundError: pass
c.sendall(b'still here'); assert d.recv(100) == b'still here'
# Failed ones, while another thread waits.
go = threading.Semaphore(0)
def fail():
    for i in range(20):
        go.acquire()
        try: os.execv('/no/such/file', ['x'])
        except FileNotFoundError: c.sendall(b'failed')
t = threading.Thread(target=fail); t.start()
for i in range(20):
    go.release(); assert d.recv(100) == b'failed'
t.join()
# An exec by another thread than the first, which waits.
if os.fork() == 0:
    c.set_inheritable(True)
    threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, '-c',
        'import socket; socket.socket(fileno=%d).sendall(b\"from a thread\")' % c.fileno()])).start()
    d.recv(100)
c.close()
assert d.recv(100) == b'from a thread'
os.wait()
",
        );
    });
}

#[test]
fn threads() {
    as_both("semantics::threads", || {
        check(
            "
# Many accepts at once: the kernel's numbers and the host's go different ways.
def serve():
    s = l.accept()[0]
    while data := s.recv(1000): s.sendall(data)
    s.close()
servers = [threading.Thread(target=serve) for i in range(8)]
for t in servers: t.start()
def client(i):
    s = socket.create_connection(l.getsockname())
    for n in range(50):
        word = b'%d %d' % (i, n)
        s.sendall(word); assert s.recv(1000) == word
    s.close()
clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
for t in clients: t.start()
for t in servers + clients: t.join()
# A thread blocked in the kernel does not hold up others.
t = threading.Thread(target=lambda: a.recv(1)); t.start()
c, d = pair(); c.sendall(b'1'); assert d.recv(1) == b'1'
b.sendall(b'2'); t.join()
",
        );
    });
}

#[test]
fn signals() {
    as_both("semantics::signals", || {
        check(
            "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
calls = []
def handler(s, f): calls.append(s)
# Python's handlers have no SA_RESTART, and Python calls again: nothing may be lost.
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
def writer():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    for i in range(3000): b.sendall(b'%8d' % i)
    b.shutdown(socket.SHUT_WR)
t = threading.Thread(target=writer); t.start()
got = b''
while part := a.recv(7): got += part
t.join()
signal.setitimer(signal.ITIMER_REAL, 0)
assert got == b''.join(b'%8d' % i for i in range(3000))
# EINTR, from a call that waits.
CALL = ctypes.CFUNCTYPE(None, ctypes.c_int)
c_handler = CALL(lambda n: calls.append(n))
class Action(ctypes.Structure):
    _fields_ = [('handler', CALL), ('mask', ctypes.c_ulong * 16), ('flags', ctypes.c_int), ('restorer', ctypes.c_void_p)]
def install(flags):
    action = Action(c_handler, (ctypes.c_ulong * 16)(), flags, None)
    assert libc.sigaction(signal.SIGALRM, ctypes.byref(action), None) == 0
class Pollfd(ctypes.Structure):
    _fields_ = [('fd', ctypes.c_int), ('events', ctypes.c_short), ('revents', ctypes.c_short)]
c, d = pair()
buffer = ctypes.create_string_buffer(10)
install(0)
signal.setitimer(signal.ITIMER_REAL, 0.02)
assert libc.recv(c.fileno(), buffer, 10, 0) == -1 and ctypes.get_errno() == errno.EINTR
# poll(2) is never restarted, whatever the handler says.
SA_RESTART = 0x10000000
install(SA_RESTART)
signal.setitimer(signal.ITIMER_REAL, 0.02)
p = Pollfd(c.fileno(), select.POLLIN, 0)
assert libc.poll(ctypes.byref(p), 1, -1) == -1 and ctypes.get_errno() == errno.EINTR
# recv(2) is.
signal.setitimer(signal.ITIMER_REAL, 0.02)
threading.Timer(0.06, lambda: d.sendall(b'later')).start()
assert libc.recv(c.fileno(), buffer, 10, 0) == 5 and buffer.value == b'later'
# Stopped and continued, a call goes on as if nothing had happened.
c.setblocking(True)
pid = os.fork()
if pid == 0:
    os._exit(c.recv(10) != b'continue')
for i in range(3):
    os.kill(pid, signal.SIGSTOP); os.waitpid(pid, os.WUNTRACED)
    os.kill(pid, signal.SIGCONT); os.waitpid(pid, os.WCONTINUED)
d.sendall(b'continue')
assert os.waitpid(pid, 0)[1] == 0
# SIGPIPE: once for each call, and the call's result is not lost, whatever the handler says.
d.close(); c.sendall(b'x'); time.sleep(0.05)
for flags in (0, SA_RESTART):
    action = Action(c_handler, (ctypes.c_ulong * 16)(), flags, None)
    assert libc.sigaction(signal.SIGPIPE, ctypes.byref(action), None) == 0
    for i in range(20):
        del calls[:]
        result, e = libc.send(c.fileno(), buffer, 1, 0), ctypes.get_errno()
        assert result == -1 and e in (errno.EPIPE, errno.EINTR), (i, result, e)
        if e == errno.EINTR:
            assert libc.send(c.fileno(), buffer, 1, 0) == -1 and ctypes.get_errno() == errno.EPIPE
        assert calls == [signal.SIGPIPE], calls
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    while True: os.write(c.fileno(), b'x')
assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGPIPE
try: c.sendall(b'x'); c.sendall(b'x'); assert False
except (BrokenPipeError, ConnectionResetError): pass
",
        );
    });
}

#[test]
fn waiting_for_sockets_alone_and_mixed() {
    as_both("semantics::waiting_for_sockets_alone_and_mixed", || {
        check(
            "
r, w = os.pipe()
IN, OUT, HUP = select.POLLIN, select.POLLOUT, select.POLLHUP
def poll(*fds, t=0):
    p = select.poll()
    for fd, events in fds: p.register(fd, events)
    return dict(p.poll(t))
n, m = a.fileno(), b.fileno()
assert poll((n, IN | OUT)) == {n: OUT}
assert poll((n, IN), (r, IN)) == {}
assert poll((n, IN), t=10) == {}
assert select.select([a, r], [a, w], [a], 0) == ([], [a, w], [])
def later(f): threading.Timer(0.02, f).start()
later(lambda: b.sendall(b'x')); assert poll((n, IN), t=-1) == {n: IN}
assert poll((n, IN), (r, IN), t=-1) == {n: IN}
assert select.select([a, r], [], []) == ([a], [], [])
assert select.select([a], [], [], 0) == ([a], [], [])
a.recv(9)
assert poll((n, IN), (r, IN)) == {}
later(lambda: os.write(w, b'x')); assert poll((n, IN), (r, IN), t=-1) == {r: IN}
assert select.select([a, r], [], [a]) == ([r], [], [])
os.read(r, 1)
later(lambda: b.sendall(b'y')); assert select.select([a, r], [], [a]) == ([a], [], [])
a.recv(9)
# Full, and room again.
a.setblocking(False)
try:
    while True: a.send(bytes(65536))
except BlockingIOError: pass
assert poll((n, OUT)) == {} and poll((n, OUT), (r, IN)) == {}
def drain():
    total = 0
    b.setblocking(False)
    while select.select([b], [], [], 0.05)[0]: total += len(b.recv(1 << 20))
later(drain); assert poll((n, OUT), (r, IN), t=-1) == {n: OUT}
# The listener, and the end.
k = l.fileno()
later(lambda: socket.create_connection(l.getsockname()))
assert poll((k, IN), (r, IN), t=-1) == {k: IN}
l.accept()
time.sleep(0.1); drain()
later(b.close); assert poll((n, IN | select.POLLRDHUP), (r, IN), t=-1) == {n: IN | select.POLLRDHUP}
assert a.recv(1) == b''
",
        );
    });
}

#[test]
fn epoll() {
    as_both("semantics::epoll", || {
        check(
            "
IN, OUT, ET = select.EPOLLIN, select.EPOLLOUT, select.EPOLLET
e = select.epoll()
e.register(a, IN | OUT)
n = a.fileno()
assert e.poll(0) == [(n, OUT)]
b.sendall(b'xx'); assert e.poll() == [(n, IN | OUT)] == e.poll(0)
a.recv(1); assert e.poll(0) == [(n, IN | OUT)]
a.recv(1); assert e.poll(0) == [(n, OUT)]
e.modify(a, IN); assert e.poll(0) == []
b.sendall(b'x'); assert e.poll() == [(n, IN)]; a.recv(9)
e.modify(a, IN | OUT | ET)
assert e.poll(0) == [(n, OUT)] and e.poll(0) == []
for i in range(50):
    b.sendall(b'x'); assert e.poll()[0][1] & IN  # an edge each, though never read
assert len(a.recv(100)) == 50
a.setblocking(False)
try:
    while True: a.send(bytes(65536))
except BlockingIOError: pass
e.poll(0); assert e.poll(0) == []
t = threading.Thread(target=lambda: [b.recv(1 << 20) for i in range(20)])
t.start(); assert e.poll() == [(n, OUT)]
e.unregister(a); e.close()
os._exit(0)
",
        );
    });
}

#[test]
fn an_event_loop() {
    as_both("semantics::an_event_loop", || {
        check(
            "
import asyncio
async def serve(reader, writer):
    while data := await reader.read(4096):
        writer.write(data); await writer.drain()
    writer.close()
async def client(port, i):
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    for n in range(20):
        word = b'%d %d.' % (i, n) * 100
        writer.write(word); assert await reader.readexactly(len(word)) == word
    big = bytes(3000000)
    async def send(): writer.write(big); await writer.drain(); writer.write_eof()
    task = asyncio.create_task(send())
    assert await reader.read(-1) == big
    await task; writer.close(); await writer.wait_closed()
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(port, i) for i in range(10)))
    p = await asyncio.create_subprocess_exec('echo', 'hello', stdout=asyncio.subprocess.PIPE)
    assert (await p.communicate())[0] == b'hello\\n'
    try: await asyncio.open_connection('127.0.0.1', 1); assert False
    except ConnectionRefusedError: pass
    server.close(); await server.wait_closed()
asyncio.run(main())
",
        );
    });
}

#[test]
fn files_are_sent() {
    as_both("semantics::files_are_sent", || {
        check(
            "
import tempfile
f = tempfile.TemporaryFile(); data = os.urandom(1000000); f.write(data); f.flush()
def receive(n):
    got = b''
    while len(got) < n: got += b.recv(1 << 20)
    return got
def start(n):
    global t, got
    def run(): global got; got = receive(n)
    t = threading.Thread(target=run); t.start()
start(1000000); f.seek(0)
assert os.sendfile(a.fileno(), f.fileno(), None, 2000000) == 1000000
t.join(); assert got == data and f.tell() == 1000000
start(500); f.seek(7)
assert os.sendfile(a.fileno(), f.fileno(), 100, 500) == 500
t.join(); assert got == data[100:600] and f.tell() == 7
a.setblocking(False)
sent = os.sendfile(a.fileno(), f.fileno(), 0, 1000000)
while True:
    try: sent += os.sendfile(a.fileno(), f.fileno(), sent, 100000) or 0
    except BlockingIOError: break
    if sent >= 1000000: sent = 0
",
        );
    });
}

#[test]
fn what_is_not_supported() {
    as_both("semantics::what_is_not_supported", || {
        let mut lab = Lab::new();
        lab.python(&format!(
            "{PAIR}
import ctypes
CLONE_FILES = 0x400
for _ in 0, 1:
    t = threading.Thread(target=ctypes.CDLL(None).unshare, args=(CLONE_FILES,))
    t.start(); t.join()
"
        ));
        let refused: Vec<_> = lab.worker.statistics().unsupported().collect();
        let [(libc::SYS_unshare, 2, advice)] = refused[..] else {
            panic!("{refused:?}");
        };
        assert!(advice.contains("thread"), "{advice}");
    });
}

#[test]
fn killed_while_blocked() {
    as_both("semantics::killed_while_blocked", || {
        let mut lab = Lab::new();
        let before = lab.used();
        for blocked in [
            "socket.create_server(('', 0)).accept()",
            "a.recv(1)",
            "[a.sendmsg([bytes(1 << 20)]) for i in range(100)]",
            "a.sendall(bytes(100 << 20))",
            "select.select([a, sys.stdin], [], [a])",
            "[t.start() for t in [threading.Thread(target=a.recv, args=(1,)) for i in range(5)]]",
            "[os.fork() for i in range(3)]; a.recv(1)",
            "r, w = os.pipe(); os.splice(r, a.fileno(), 1)",
            "r, w = os.pipe(); b.send(bytes(1 << 17)); [os.splice(a.fileno(), w, 1 << 16) for i in range(3)]",
            "r, w = os.pipe(); os.splice(a.fileno(), w, 1)",
            "u = socket.socketpair(); socket.send_fds(u[0], [b'x'], [a.fileno()] * 9); a.close(); u[0].recv(1)",
        ] {
            let script = format!("{PAIR}print('ready', flush=True)\n{blocked}\ntime.sleep(1000)");
            let mut program = lab.start_python(&script);
            lab.until_written(&mut program, "ready");
            // Another program's calls are served meanwhile, and give it time to block.
            lab.ok("ss -tn");
            lab.worker.kill(program.id).unwrap();
            assert_eq!(lab.finish(program).status, Status::Killed(libc::SIGKILL));
            lab.worker
                .run_until(|w| {
                    let c = w.counters().unwrap();
                    (c.sockets, c.files, c.tasks) == before
                })
                .unwrap();
        }
    });
}

#[test]
fn files_handed_over_leave_nothing() {
    as_both("semantics::files_handed_over_leave_nothing", || {
        check(
            "
# A dispatcher hands each of 300 connections to one of three servers, which answer and close.
servers = []
for i in range(3):
    near, far = socket.socketpair()
    if os.fork() == 0:
        near.close(); l.close(); a.close(); b.close()
        for _, other in servers: other.close()
        while True:
            word, fds, _, _ = socket.recv_fds(far, 1, 4)
            if not word: os._exit(0)
            for fd in fds:
                s = socket.socket(fileno=fd)
                s.sendall(s.recv(100).upper())
                s.close()
    far.close()
    servers.append((i, near))
port = l.getsockname()
for i in range(100):
    clients = [socket.create_connection(port) for j in range(3)]
    fds = [l.accept()[0] for j in range(3)]
    # One is sent by itself, the others together, some of them twice or never received.
    near = servers[i % 3][1]
    socket.send_fds(near, [b'x'], [fds[0].fileno()])
    socket.send_fds(near, [b'x'], [fds[1].fileno(), fds[2].fileno()])
    lost = socket.socketpair()
    socket.send_fds(lost[0], [b'x'], [f.fileno() for f in fds])
    for f in fds: f.close()
    for end in lost: end.close()
    for j, c in enumerate(clients):
        word = b'client %d' % (3 * i + j)
        c.sendall(word)
        assert c.recv(100) == word.upper()
        assert c.recv(100) == b''
        c.close()
for _, near in servers: near.close()
for _ in servers: assert os.wait()[1] == 0
",
        );
    });
}

#[test]
fn what_a_mapped_ring_leaves() {
    as_both("semantics::what_a_mapped_ring_leaves", || {
        let mut lab = Lab::new();
        let before = lab.used();
        for (then, keeps) in [
            ("pass", true),
            ("os.execvp('sleep', ['sleep', '1000'])", false),
            ("m.close(); s.close()", false),
        ] {
            let script = format!(
                "import mmap, os, socket, struct, time\n\
                 s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)\n\
                 s.setsockopt(263, 5, struct.pack('IIII', 1 << 16, 16, 2048, 512))\n\
                 m = mmap.mmap(s.fileno(), 1 << 20)\n\
                 print('ready', flush=True)\n\
                 {then}\n\
                 time.sleep(1000)"
            );
            let mut program = lab.start_python(&script);
            lab.until_written(&mut program, "ready");
            if keeps {
                assert_eq!(lab.used().0, before.0 + 1);
            } else {
                let ended = |w: &mut Worker| w.counters().unwrap().sockets == before.0;
                lab.worker.run_until(ended).unwrap();
            }
            lab.worker.kill(program.id).unwrap();
            lab.finish(program);
            lab.worker
                .run_until(|w| {
                    let c = w.counters().unwrap();
                    (c.sockets, c.files, c.tasks) == before
                })
                .unwrap();
        }
    });
}

#[test]
fn a_forking_server() {
    as_both("semantics::a_forking_server", || {
        let mut lab = Lab::new();
        let script = "
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile: self.wfile.write(line.upper())
class Server(socketserver.ForkingTCPServer): allow_reuse_address = True
Server(('', 7000), Echo).serve_forever()
";
        let server = lab.start_python(script);
        lab.until_listening(7000);
        let clients =
            lab.shell("for i in 1 2 3 4 5 6; do echo hello $i | nc -N 127.0.0.1 7000 & done; wait");
        let mut lines: Vec<_> = clients.out.lines().collect();
        lines.sort();
        let wanted = [
            "HELLO 1", "HELLO 2", "HELLO 3", "HELLO 4", "HELLO 5", "HELLO 6",
        ];
        assert_eq!(lines, wanted, "{clients:?}");
        lab.worker.kill(server.id).unwrap();
    });
}

#[test]
fn other_families() {
    as_both("semantics::other_families", || {
        check(
            "
u, v = socket.socketpair()
u.sendall(b'unix'); assert v.recv(9) == b'unix'
path = '/tmp/vink-trap-%d' % os.getpid()
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect(path); os.unlink(path)
d = s.accept()[0]; c.sendall(b'x'); assert d.recv(1) == b'x'
for family, kind, address in ((socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', 0)), (socket.AF_INET6, socket.SOCK_DGRAM, ('::1', 0))):
    x, y = socket.socket(family, kind), socket.socket(family, kind)
    x.bind(address); y.connect(x.getsockname()); y.send(b'datagram')
    data, source = x.recvfrom(100); assert data == b'datagram' and source[1] == y.getsockname()[1]
    x.close(); y.send(b'refused')
    try: y.recv(1); assert False
    except ConnectionRefusedError: pass
p = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
y = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); y.sendto(b'seen', ('127.0.0.1', 9))
while b'seen' not in p.recv(2000): pass
try: socket.socket(99); assert False
except OSError as x: assert x.errno == errno.EAFNOSUPPORT
assert (1, 'lo') in socket.if_nameindex()
",
        );
    });
}

#[test]
fn bad_pointers_are_the_programs_fault() {
    as_both("semantics::bad_pointers_are_the_programs_fault", || {
        check(
            "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def fails(e, name, *args):
    ctypes.set_errno(0)
    r = getattr(libc, name)(*args)
    assert r == -1 and ctypes.get_errno() == e, (name, args, r, ctypes.get_errno())
bad, n = ctypes.c_void_p(8), a.fileno()
b.sendall(b'data')
fails(errno.EFAULT, 'recv', n, bad, 10, 0)
fails(errno.EFAULT, 'send', n, bad, 10, 0)
fails(errno.EFAULT, 'read', n, bad, 10)
fails(errno.EFAULT, 'getsockname', n, bad, bad)
fails(errno.EFAULT, 'getsockopt', n, 1, 3, bad, bad)
fails(errno.EFAULT, 'setsockopt', n, 1, 2, bad, 4)
fails(errno.EFAULT, 'recvmsg', n, bad, 0)
fails(errno.EFAULT, 'poll', bad, 1, 0)
fails(errno.EFAULT, 'select', n + 1, bad, None, None, None)
fails(errno.EFAULT, 'connect', n, bad, 16)
fails(errno.EBADF, 'recv', 9999, bad, 10, 0)
fails(errno.EBADF, 'accept', -1, None, None)
fails(errno.ENOTSOCK, 'recv', 0, bad, 10, 0)
assert a.recv(10) == b'data'
",
        );
    });
}

#[test]
fn statistics_count() {
    let mut lab = Lab::new();
    lab.python(PAIR);
    let counts = lab.worker.statistics();
    for nr in [libc::SYS_socket, libc::SYS_connect, libc::SYS_accept4] {
        assert!(counts.trapped().any(|(n, count)| n == nr && count > 0));
    }
    assert_eq!(counts.unsupported().count(), 0);
    let program = Program::new("true");
    assert_eq!(program.name(), "true");
}
