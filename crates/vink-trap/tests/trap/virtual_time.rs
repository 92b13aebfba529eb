//! Programs in virtual time.

use std::cell::RefCell;
use std::io::Read;
use std::process::{Command, Stdio};
use std::rc::Rc;

use vink_kernel::Clock;
use vink_trap::{Called, Status, VirtualTime};

use crate::lab::{by_itself, Lab};

const SECOND: u64 = 1_000_000_000;

fn lab() -> Lab {
    Lab::on(Clock::Virtual)
}

fn now(lab: &mut Lab) -> u64 {
    lab.worker.kernel().now()
}

#[test]
fn a_sleep_takes_no_time() {
    let mut lab = lab();
    let before = now(&mut lab);
    lab.ok("sleep 3600");
    assert_eq!(now(&mut lab) - before, 3600 * SECOND);
}

#[test]
fn no_time_passes_before_a_signal_from_outside_has_killed() {
    let mut lab = lab();
    for _ in 0..10 {
        let sleeper = lab.start("sleep 1000");
        let then = now(&mut lab) + SECOND;
        lab.worker.set_horizon(then);
        lab.worker.run_until(|w| w.kernel().now() == then).unwrap();
        lab.worker.set_horizon(u64::MAX);
        lab.worker.signal(sleeper.id, libc::SIGTERM).unwrap();
        let status = lab.worker.wait(sleeper.id).unwrap();
        assert_eq!(status, Status::Killed(libc::SIGTERM));
        assert_eq!(now(&mut lab), then);
    }
}

#[test]
fn waits_end_at_their_time() {
    let mut lab = lab();
    let before = now(&mut lab);
    lab.python(
        "import select
select.select([], [], [], 3.75)
select.poll().poll(250)
select.epoll().poll(1)",
    );
    assert_eq!(now(&mut lab) - before, 5 * SECOND);
}

#[test]
fn clocks_are_read_without_a_call() {
    let mut lab = lab();
    let output = lab.python(
        "import os, time
now = time.monotonic_ns
start = now()
assert all(now() == start for look in range(900))
time.sleep(1)
assert now() - start == 10**9
spent = [time.process_time_ns() for look in range(3)]
assert spent[0] < spent[1] < spent[2], spent
assert os.times().user * 10**9 < spent[2] + 10**9
assert time.process_time_ns() > spent[2]
parent = os.fork()
time.sleep(2 if parent else 1)
print(now() - start, flush=True)
if parent: os.wait()",
    );
    assert_eq!(output, "2000000000\n3000000000\n");
    let trapped = lab.worker.statistics().trapped();
    let looks = trapped.filter(|(nr, _)| *nr == libc::SYS_clock_gettime);
    let looks: u64 = looks.map(|(_, count)| count).sum();
    assert!(looks < 300, "{looks}");
}

#[test]
fn pipelines_and_children() {
    let mut lab = lab();
    let before = now(&mut lab);
    let output = lab.shell(
        "(sleep 1; echo a; sleep 1; echo b) | while read x; do sleep 5; echo $x; done; wait",
    );
    assert_eq!(output.out, "a\nb\n", "{output:?}");
    assert_eq!(now(&mut lab) - before, 11 * SECOND);
}

/// Thread, system call, result and time.
type Seen = (u64, i64, Option<i64>, u64);

/// What a script writes on a new worker, and all calls that are made for it.
fn calls_of(script: &str, seed: Option<u64>) -> (String, Vec<Seen>) {
    let mut lab = lab();
    lab.worker.set_time(VirtualTime {
        seed,
        ..VirtualTime::default()
    });
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = calls.clone();
    let observer = move |call: &Called| {
        seen.borrow_mut()
            .push((call.thread, call.nr, call.result, call.time));
    };
    lab.worker.observe_calls(Some(Box::new(observer)));
    let output = lab.shell(script);
    assert_eq!(output.status, Status::Exited(0), "{output:?}");
    drop(lab);
    let calls = Rc::try_unwrap(calls).expect("no other").into_inner();
    (output.out, calls)
}

#[test]
fn a_run_repeats() {
    by_itself("virtual_time::a_run_repeats", || {
        let script = "for i in 1 2 3; do (sleep 0.$i; echo $i; seq 2000 | tail -n 1) & done; wait
ip -br address show lo";
        let once = calls_of(script, None);
        assert!(
            once.0.starts_with("1\n2000\n2\n2000\n3\n2000\nlo "),
            "{}",
            once.0
        );
        let again = calls_of(script, None);
        for (n, (a, b)) in once.1.iter().zip(&again.1).enumerate() {
            assert_eq!(a, b, "call {n}");
        }
        assert_eq!(once.1.len(), again.1.len());
    });
}

#[test]
fn clocks_agree() {
    let mut lab = lab();
    let script = "import time, select
a, b = time.monotonic_ns(), time.time_ns()
time.sleep(1.5)
select.select([], [], [], 2.25)
select.poll().poll(250)
print(time.monotonic_ns() - a, time.time_ns() - b)
print(time.localtime().tm_year, a >= 60 * 10**9)
f = open('/proc/uptime')
for _ in range(2):
    up = float(f.read().split()[0])
    print(round(time.clock_gettime(time.CLOCK_BOOTTIME) - up, 1))
    time.sleep(5)
    f.seek(0)
boot, = [line for line in open('/proc/stat') if line.startswith('btime ')]
print(int(boot.split()[1]) - round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)))";
    assert_eq!(
        lab.python(script),
        "4000000000 4000000000\n2025 True\n0.0\n0.0\n0\n"
    );
}

#[test]
fn timer_files_keep_to_the_programs_clock() {
    let mut lab = lab();
    let script = "import ctypes, os, struct, time
libc = ctypes.CDLL(None)
for clock in time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME:
    fd = libc.timerfd_create(clock, 0)
    start = time.clock_gettime_ns(clock)
    end = start + 2 * 10**9
    for flags, times in (1, (0, 0, end // 10**9, end % 10**9)), (0, (1, 0, 1, 0)):
        assert libc.timerfd_settime(fd, flags, struct.pack('4q', *times), None) == 0
        count, = struct.unpack('Q', os.read(fd, 8))
        print(count, time.clock_gettime_ns(clock) - start)
    time.sleep(2.5)
    print(*struct.unpack('Q', os.read(fd, 8)))
";
    assert_eq!(
        lab.python(script),
        "1 2000000000\n1 3000000000\n2\n".repeat(3)
    );
}

#[test]
fn pings_have_their_second() {
    let mut lab = lab();
    let before = now(&mut lab);
    lab.ok("ping -q -c 4 127.0.0.1");
    // It waits with SO_RCVTIMEO, by ticks.
    let took = now(&mut lab) - before;
    assert!((3 * SECOND..7 * SECOND / 2).contains(&took), "{took}");
}

#[test]
fn a_loop_that_waits_for_time_ends() {
    let mut lab = lab();
    let script = "import time
end = time.monotonic() + 0.5
while time.monotonic() < end: pass";
    let running = lab.start_python(script);
    let output = lab.finish(running);
    assert_eq!(output.status, Status::Exited(0), "{output:?}");
    assert!(now(&mut lab) >= SECOND / 2);
}

#[test]
fn a_seed_draws_the_next_thread() {
    by_itself("virtual_time::a_seed_draws_the_next_thread", || {
        let script = "for i in 1 2 3 4 5 6; do echo $i & done; wait";
        let (first, calls) = calls_of(script, Some(3));
        assert_eq!(calls_of(script, Some(3)), (first, calls));
        let outputs: Vec<_> = (0..6).map(|seed| calls_of(script, Some(seed)).0).collect();
        assert!(outputs.iter().any(|o| *o != outputs[0]), "{outputs:?}");
    });
}

#[test]
fn threads_and_children_repeat() {
    by_itself("virtual_time::threads_and_children_repeat", || {
        let script = "/usr/bin/python3 -c '
import subprocess, threading, time
def work(n):
    time.sleep(n % 3)
    print(n, time.monotonic(), flush=True)
threads = [threading.Thread(target=work, args=[n]) for n in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(subprocess.run([\"sleep\", \"7\"]).returncode, time.monotonic())'";
        let once = calls_of(script, None);
        assert!(once.0.ends_with("0 69.0\n"), "{}", once.0);
        assert_eq!(once, calls_of(script, None));
    });
}

/// A process that has so many pipes as long as its standard input is open.
const PIPES: &str = "import os, sys
pipes = [os.pipe() for _ in range(480)]
print(len(pipes), flush=True)
sys.stdin.read()";

/// Above 1,024 pipes of one user a new pipe of the host has less room (pipe(7)).
#[test]
fn the_room_in_a_pipe_is_not_the_hosts() {
    by_itself("virtual_time::the_room_in_a_pipe_is_not_the_hosts", || {
        let script = "yes | head -c 100000 | { sleep 1; wc -c; }";
        let once = calls_of(script, None);
        let mut others: Vec<_> = (0..3)
            .map(|_| {
                let mut python = Command::new("/usr/bin/python3");
                let python = python.args(["-c", PIPES]);
                let python = python.stdin(Stdio::piped()).stdout(Stdio::piped());
                python.spawn().expect("python3")
            })
            .collect();
        for other in &mut others {
            let mut said = [0; 4];
            let output = other.stdout.as_mut().expect("piped");
            output.read_exact(&mut said).expect("its pipes");
        }
        let again = calls_of(script, None);
        for mut other in others {
            drop(other.stdin.take());
            assert!(other.wait().expect("its end").success());
        }
        assert_eq!(once.0, again.0);
        // Only the host's root may give a pipe more.
        if vink_sys::process::geteuid() == 0 {
            assert_eq!(once, again);
        }
    });
}

#[test]
fn programs_are_killed_at_the_time_it_is() {
    let mut lab = lab();
    let running = lab.start("sleep 100");
    let started = now(&mut lab);
    lab.worker.set_horizon(started + SECOND);
    lab.worker.run_until(|worker| worker.is_idle()).unwrap();
    lab.worker.kill(running.id).unwrap();
    assert_eq!(lab.finish(running).status, Status::Killed(libc::SIGKILL));
    assert_eq!(now(&mut lab) - started, SECOND);
}

#[test]
fn a_killed_process_is_dead_at_once() {
    let mut lab = lab();
    let output = lab.python(
        "import ctypes, os, signal, socket, time
server = socket.create_server(('127.0.0.1', 0))
seen = set()
for n in range(100):
    how = (signal.SIGKILL, signal.SIGTERM)[n % 2]
    child = os.fork()
    if child == 0:
        # Much to give up, which takes the host its time.
        ballast = b'x' * (n % 4 << 23)
        peer = socket.create_connection(server.getsockname())
        # Blocked, in the stack, or in the host.
        empty, other = os.pipe()[0], os.pipe()[1]
        tee = lambda: ctypes.CDLL(None).tee(empty, other, 1, 0)
        (signal.pause, lambda: peer.recv(1), tee)[n % 3]()
    peer, _ = server.accept()
    time.sleep(1)
    before = time.monotonic_ns()
    os.kill(child, how)
    peer.setblocking(False)
    try:
        found = peer.recv(1)
    except OSError as error:
        found = error.errno
    seen.add((found, time.monotonic_ns() - before))
    assert os.wait()[1] == how
    peer.close()
print(seen)",
    );
    assert_eq!(output, "{(b'', 0)}\n");
}

#[test]
fn a_parent_that_kills_its_child_knows_when_the_call_returns() {
    let mut lab = lab();
    let output = lab.python(
        "import os, signal
chld = {signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, chld)
seen = []
for n in range(100):
    how = (signal.SIGKILL, signal.SIGTERM)[n % 2]
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        ballast = b'x' * (n % 4 << 23)
        os.write(told, b'x')
        signal.pause()
    os.read(ready, 1)
    os.kill(child, how)
    # Not a trapped call, for which the worker would wait.
    seen.append(signal.sigpending() == chld)
    assert os.wait() == (child, how)
    signal.sigwait(chld)
    os.close(ready), os.close(told)
print(set(seen))
# What ends no child is the host's.
signal.pthread_sigmask(signal.SIG_UNBLOCK, chld)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while True: signal.pause()
import time
time.sleep(1)
os.kill(child, signal.SIGHUP), os.kill(child, 0), os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.wait()[1]))
for pid, how in [(child, 9), (os.getpid() + 1000, 15), (1 << 30, 9)]:
    try: os.kill(pid, how)
    except OSError as error: print(error.errno)",
    );
    assert_eq!(output, "{True}\n5\n3\n3\n3\n");
}

#[test]
fn turns_are_given_one_by_one() {
    let mut lab = lab();
    let seen = Rc::new(RefCell::new(0));
    let calls = seen.clone();
    lab.worker
        .observe_calls(Some(Box::new(move |_| *calls.borrow_mut() += 1)));
    let running = lab.start("true");
    for turns in [1, 5] {
        lab.worker.allow_calls(Some(turns));
        lab.worker.run_until(|worker| worker.is_held()).unwrap();
    }
    assert_eq!(*seen.borrow(), 6);
    lab.worker.allow_calls(None);
    assert_eq!(lab.finish(running).status, Status::Exited(0));
}

#[test]
fn an_error_alone_is_told_by_epoll() {
    let mut lab = lab();
    // A completion of MSG_ZEROCOPY is an error for poll(2), even if the thread waits for room only.
    let output = lab.python(
        "import select, socket
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.setsockopt(socket.SOL_SOCKET, 60, 1)
edges, once = select.epoll(), select.epoll()
edges.register(client, select.EPOLLOUT | select.EPOLLET)
once.register(client, select.EPOLLOUT | select.EPOLLONESHOT)
print(edges.poll(0)[0][1], edges.poll(0))
client.send(bytes(4000), 0x4000000)
server.recv(4000, socket.MSG_WAITALL)
print(edges.poll(0)[0][1], edges.poll(0), once.poll(0)[0][1], once.poll(0))",
    );
    assert_eq!(output, "4 []\n12 [] 12 []\n");
}

#[test]
fn ticks_come_and_memory_is_not_locked() {
    let mut lab = lab();
    let output = lab.python(
        "import ctypes, os, resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
print(ctypes.CDLL(None).mlockall(3))
start = os.times().elapsed
while os.times().elapsed < start + 0.1: pass",
    );
    assert_eq!(output, "0\n");
    let trapped = lab.worker.statistics().trapped();
    let looks = trapped.filter(|(nr, _)| *nr == libc::SYS_times);
    let looks: u64 = looks.map(|(_, count)| count).sum();
    assert!(looks < 1_000, "{looks}");
}
