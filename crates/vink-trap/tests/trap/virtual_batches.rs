//! In virtual time threads of different machines run in batches, and the run is the same on any
//! number of processors.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vink_kernel::{Clock, MachineId};
use vink_sys::process::{affinity, cpus, one_cpu, set_affinity};
use vink_trap::{Called, Program, Status, Stdio};

use crate::built::Built;
use crate::lab::{by_itself, Lab};

/// More than a batch may have.
const MACHINES: u64 = 33;

/// Time, machine, thread, system call and result.
type Seen = (u64, MachineId, u64, i64, Option<i64>);

/// All calls that are made for this script, on each of the machines at once; its argument is the
/// number of its machine.
fn calls_of(script: &str) -> Vec<Seen> {
    calls_of_programs(MACHINES, |n| {
        let program = Program::new("bash").args(["-c", script, &n.to_string()]);
        program.env("LC_ALL", "C")
    })
}

/// The same for a program on each of some machines.
fn calls_of_programs(machines: u64, program: impl Fn(u64) -> Program) -> Vec<Seen> {
    calls_of_begun(machines, program, || {})
}

/// The same, with something to do when all have begun, and before they run.
fn calls_of_begun(
    machines: u64,
    program: impl Fn(u64) -> Program,
    begun: impl FnOnce(),
) -> Vec<Seen> {
    let mut lab = Lab::on(Clock::Virtual);
    let calls = Rc::new(RefCell::new(Vec::new()));
    let seen = calls.clone();
    let observer = move |call: &Called| {
        let row = (call.time, call.machine, call.thread, call.nr, call.result);
        seen.borrow_mut().push(row);
    };
    lab.worker.observe_calls(Some(Box::new(observer)));
    let mut programs = Vec::new();
    for n in 0..machines {
        let machine = lab.worker.kernel().machine(&format!("m{n}")).unwrap();
        let program = program(n).stdin(Stdio::Null).stdout(Stdio::Null);
        programs.push(lab.worker.spawn(machine, program).unwrap());
    }
    begun();
    for program in programs {
        assert_eq!(lab.worker.wait(program).unwrap(), Status::Exited(0));
    }
    drop(lab);
    Rc::try_unwrap(calls).expect("no other").into_inner()
}

/// Does something while this thread, and what it starts, run on one processor.
fn on_one<T>(work: impl FnOnce() -> T) -> T {
    let all = affinity(0).unwrap();
    let first = cpus(&all).next().unwrap();
    assert!(set_affinity(0, &one_cpu(first)));
    let done = work();
    assert!(set_affinity(0, &all));
    done
}

fn assert_same(once: &[Seen], again: &[Seen]) {
    let of = |calls: &[Seen], machine| -> Vec<Seen> {
        let all = calls.iter().filter(|call| call.1 == machine);
        all.copied().collect()
    };
    let machines = once.iter().chain(again).map(|call| call.1);
    for machine in BTreeSet::from_iter(machines) {
        assert_same_calls(&of(once, machine), &of(again, machine), "of a machine");
    }
    assert_same_calls(once, again, "of all");
}

/// What both have before the first difference, and behind it, is told.
fn assert_same_calls(once: &[Seen], again: &[Seen], whose: &str) {
    let same = once.iter().zip(again).take_while(|(a, b)| a == b).count();
    let near = |calls: &[Seen]| calls[same.saturating_sub(8)..calls.len().min(same + 4)].to_vec();
    assert!(
        once == again,
        "call {same} {whose}: {:?}\nand {:?}",
        near(once),
        near(again)
    );
}

/// How often the next call is another machine's although its time is the same.
fn changes(calls: &[Seen]) -> usize {
    let pairs = calls.windows(2);
    pairs
        .filter(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1)
        .count()
}

/// Something else to do for all processors.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn begin() -> Busy {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..3 {
            let over = over.clone();
            std::thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        Busy(over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The same on all processors, on one, and on all while they have much else to do.
fn repeats(script: &str) -> Vec<Seen> {
    let once = calls_of(script);
    assert_same(&once, &on_one(|| calls_of(script)));
    let busy = Busy::begin();
    let beside = calls_of(script);
    drop(busy);
    assert_same(&once, &beside);
    once
}

#[test]
fn threads_that_are_made_at_once_have_the_same_numbers() {
    by_itself(
        "virtual_batches::threads_that_are_made_at_once_have_the_same_numbers",
        || {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/waits/makers.c");
            let makers = Built::of(&source, &["-pthread"]);
            let calls = || calls_of_programs(2, |_| Program::new(makers.line()));
            let once = calls();
            for _ in 0..2 {
                assert_same(&once, &calls());
            }
            assert!(changes(&once) > 100, "no batches");
        },
    );
}

#[test]
fn machines_compute_at_once() {
    by_itself("virtual_batches::machines_compute_at_once", || {
        // Of different lengths.
        let script = "for n in 1 2 3; do seq $(($0 * 500)) | tail -n 1; done
        trap 'exit 0' TERM; (sleep 1; kill $$) & sleep 0.5; for n in {1..100}; do [ -e / ]; done; wait; wait";
        let calls = repeats(script);
        // Each would have a hundred in a row.
        let changes = changes(&calls);
        assert!(changes > calls.len() / 2, "{changes} of {}", calls.len());
    });
}

#[test]
fn what_machines_share_is_used_in_one_order() {
    by_itself(
        "virtual_batches::what_machines_share_is_used_in_one_order",
        || {
            let folder = std::env::temp_dir().join(format!("vink-batches-{}", std::process::id()));
            let script = format!(
                "cd {}; for n in 1 2 3 4 5; do
            read before < number; echo $((before + 1)) > number; echo $0 $before >> all
            : > $0.$n; echo * >> all; mv $0.$n last; [ -e last ] || echo gone >> all
        done; /usr/bin/python3 -Sc 'import os, sys
fd = os.open(\"parts\", os.O_RDWR)
for n in range(9):
    os.pwrite(fd, sys.argv[1].encode(), n); print(os.pread(fd, 9, 0), flush=True)' $0 >> all",
                folder.display()
            );
            let mut told = Vec::new();
            let shares = |told: &mut Vec<String>| {
                fs::create_dir(&folder).unwrap();
                fs::write(folder.join("number"), "0\n").unwrap();
                fs::write(folder.join("parts"), "---------").unwrap();
                let calls = calls_of(&script);
                told.push(fs::read_to_string(folder.join("all")).unwrap());
                fs::remove_dir_all(&folder).unwrap();
                calls
            };
            let once = shares(&mut told);
            let again = on_one(|| shares(&mut told));
            assert_same(&once, &again);
            assert_eq!(told[0], told[1]);
        },
    );
}

/// Takes a processor away from all that runs there, for most of the time, if it may: what is in the middle
/// of a call stays there for longer than the worker waits before it looks at threads.
fn begin_hog(cpu: usize) -> Busy {
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    std::thread::spawn(move || {
        assert!(set_affinity(0, &one_cpu(cpu)));
        let first = libc::sched_param { sched_priority: 1 };
        // SAFETY: it reads a structure that lives here.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &first) };
        while !ends.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(60) {}
            std::thread::sleep(Duration::from_millis(15));
        }
    });
    Busy(over)
}

#[test]
fn a_thread_that_reaps_a_child_is_not_asleep() {
    by_itself(
        "virtual_batches::a_thread_that_reaps_a_child_is_not_asleep",
        || {
            let all = affinity(0).unwrap();
            let (first, last) = (cpus(&all).next().unwrap(), cpus(&all).last().unwrap());
            let calls = || {
                assert!(set_affinity(0, &one_cpu(last)));
                let program =
                    |_| Program::new("bash").args(["-c", "for n in {1..100}; do (:); done"]);
                let begin = || assert!(set_affinity(0, &one_cpu(first)));
                let calls = calls_of_begun(3, program, begin);
                assert!(set_affinity(0, &all));
                calls
            };
            let once = calls();
            // Two of them would leave the processor to nothing else: other runs of this program wait.
            let turn = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
            turn.lock().unwrap();
            let hog = begin_hog(last);
            for _ in 0..3 {
                assert_same(&once, &calls());
            }
            drop(hog);
        },
    );
}
