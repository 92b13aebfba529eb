//! Programs in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use vink_kernel::Clock;
use vink_trap::{Called, Status, Virtual};

use crate::lab::Lab;

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
    lab.worker.set_time(Virtual {
        seed,
        ..Virtual::default()
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
}
