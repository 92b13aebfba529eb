//! Programs in virtual time.

use vink_kernel::Clock;

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
