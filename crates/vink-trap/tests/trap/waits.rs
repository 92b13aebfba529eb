//! C programs that wait in all ways there are, in virtual time: each line that they print has its
//! time in front, and is known beforehand.

use std::path::{Path, PathBuf};

use vink_kernel::Clock;
use vink_trap::{Program, Status, VirtualTime};

use crate::built::Built;
use crate::lab::{as_both, Lab};
use crate::shared_ring::Library;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waits")
}

/// How many were trapped.
fn writes(lab: &Lab) -> u64 {
    let trapped = lab.worker.statistics().trapped();
    let writes = trapped.filter(|(nr, _)| *nr == libc::SYS_write);
    writes.map(|(_, count)| count).sum()
}

fn prints_what_is_expected(name: &str) {
    let program = Built::of(&sources().join(format!("{name}.c")), &["-pthread"]);
    let expected = std::fs::read_to_string(sources().join(format!("{name}.expected"))).unwrap();
    let library = Library::new();
    // Four times on one clock, which makes no difference, nor does being traced, nor what is not
    // trapped. The clock's zero is never shown.
    let mut lab = Lab::on(Clock::Virtual);
    lab.ok("sleep 1");
    // (A traced process is woken by signals that it ignores, which this one would see.)
    let traced = name != "signals";
    for (counter, quick) in [
        (false, false),
        (traced, false),
        (false, true),
        (traced, true),
    ] {
        lab.worker.set_time(VirtualTime {
            tsc: counter,
            ..VirtualTime::default()
        });
        let mut words = Program::new(program.line());
        if quick {
            assert!(lab.worker.allow_shared_rings());
            words = library.before(words);
        }
        let before = writes(&lab);
        let running = lab.start_program(words);
        let output = lab.finish(running);
        let trapped = writes(&lab) - before;
        // (It writes each line to a file as well.)
        assert!(name != "pipes" || quick == (trapped < 300), "{trapped}");
        assert_eq!(output.status, Status::Exited(0), "{output:?}");
        for (line, (found, expected)) in output.out.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "{name}.expected:{}", line + 1);
        }
        assert_eq!(output.out.lines().count(), expected.lines().count());
    }
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            as_both(concat!("waits::", stringify!($name)), || {
                prints_what_is_expected(stringify!($name));
            });
        })*
    };
}

programs! { threads futexes robust timers children locks signals queues loops pipes }

#[test]
fn a_shell_and_what_it_starts() {
    as_both("waits::a_shell_and_what_it_starts", || {
        let mut lab = Lab::on(Clock::Virtual);
        let output = lab.shell(
            "now() { echo $(($(date +%s) - begun)) $*; }; begun=$(date +%s)
sleep 100 & wait; now waited
timeout 5 sleep 50; now timeout gave $?
trap 'now trap' USR1; (sleep 3; kill -USR1 $$) & sleep 10 & wait $!; now wait gave $?
set -m; sleep 20 & sleep 1; kill -STOP %%; sleep 1; now $(jobs %%); kill -CONT %%; wait %%; now went on
read -t 2 x < <(sleep 9); now read gave $?
lock=$(mktemp); flock $lock sleep 4 & sleep 1; flock -w 1 $lock true; now flock gave $?
flock $lock true; now locked; rm $lock",
        );
        let expected = "100 waited\n105 timeout gave 124\n108 trap\n108 wait gave 138\n\
                        110 [3]+ Stopped sleep 20\n128 went on\n130 read gave 142\n132 flock gave 1\n134 locked\n";
        assert_eq!(output.out, expected, "{output:?}");
    });
}

#[test]
fn threads_and_children_of_python() {
    as_both("waits::threads_and_children_of_python", || {
        let mut lab = Lab::on(Clock::Virtual);
        let out = lab.python(
            "
import asyncio, concurrent.futures, multiprocessing, queue, signal, subprocess, threading, time
begun = time.monotonic()
def say(*what): print(round(time.monotonic() - begun, 5), *what, flush=True)
q = queue.Queue()
try: q.get(timeout=2.5)
except queue.Empty: say('empty')
def put(n):
    for i in range(2): time.sleep(n); q.put(n)
threads = [threading.Thread(target=put, args=(n,)) for n in (0.5, 0.3)]
for t in threads: t.start()
say([q.get() for _ in range(4)])
for t in threads: t.join()
e = threading.Event(); threading.Timer(1.25, e.set).start(); say(e.wait(5))
with concurrent.futures.ThreadPoolExecutor(3) as pool: list(pool.map(time.sleep, [0.3, 0.2, 0.1]))
try: subprocess.run(['sleep', '30'], timeout=4)
except subprocess.TimeoutExpired: say('child')
async def main():
    await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
    child = await asyncio.create_subprocess_exec('sleep', '1.5'); say(await child.wait())
asyncio.run(main())
signal.signal(signal.SIGALRM, lambda *_: say('alarm'))
signal.setitimer(signal.ITIMER_REAL, 0.5, 0.25); time.sleep(0.8); signal.setitimer(signal.ITIMER_REAL, 0)
def child(q): time.sleep(1); q.put('from a process')
q = multiprocessing.Queue(); p = multiprocessing.Process(target=child, args=(q,)); p.start(); say(q.get()); p.join()
",
        );
        let expected = "2.5 empty\n3.5 [0.3, 0.5, 0.3, 0.5]\n4.75 True\n9.05 child\n12.55 0\n\
                        13.05 alarm\n13.3 alarm\n14.35 from a process\n";
        assert_eq!(out, expected);
    });
}
