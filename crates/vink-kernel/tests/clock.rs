//! Time and chance: the virtual clock, the real one, seeds.

mod common;

use common::{at, at_mut, finish_task, one_machine, Caller, Task};
use vink_kernel::{Clock, Config, Fiber};

const SECOND: u64 = 1_000_000_000;
/// Timer slack (50 µs) and the clock's rounding.
const SLACK: u64 = 1_000_000;

#[test]
fn a_virtual_clock_jumps_and_stands_still_otherwise() {
    let (mut kernel, machine) = one_machine(Config {
        clock: Clock::Virtual,
        ..Config::default()
    });
    let task = kernel.task(machine).expect("a task");
    let time = libc::timespec {
        tv_sec: 100,
        tv_nsec: 0,
    };
    let before = kernel.now();
    Task(&mut kernel, task).ok(libc::SYS_nanosleep, &[at(&time), 0]);
    let passed = kernel.now() - before;
    assert!(
        (100 * SECOND..=100 * SECOND + SLACK).contains(&passed),
        "{passed} ns"
    );

    let before = kernel.now();
    for _ in 0..1000 {
        Task(&mut kernel, task).ok(libc::SYS_getppid, &[]);
    }
    assert_eq!(kernel.now(), before);
}

#[test]
fn run_alone_drives_fibers_through_virtual_time() {
    let (mut kernel, machine) = one_machine(Config {
        clock: Clock::Virtual,
        ..Config::default()
    });
    let before = kernel.now();
    let sleeper = kernel.fiber(machine, |mut fiber: &Fiber| {
        let time = libc::timespec {
            tv_sec: 3600,
            tv_nsec: 0,
        };
        for _ in 0..24 {
            fiber.ok(libc::SYS_nanosleep, &[at(&time), 0]);
        }
        0
    });
    let sleeper = sleeper.expect("a fiber");
    loop {
        kernel.run().expect("it runs");
        if kernel.next_event().is_some() {
            break;
        }
    }
    let passed = kernel.now() - before;
    let day = 24 * 3600 * SECOND;
    assert!(
        (day..=day + 24 * SLACK).contains(&passed),
        "{passed} ns for {sleeper}"
    );
}

#[test]
fn the_real_clock_is_the_hosts() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, task);
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let clock = |sys: &mut Task| {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let monotonic = libc::CLOCK_MONOTONIC as u64;
        sys.ok(libc::SYS_clock_gettime, &[monotonic, at_mut(&mut now)]);
        now.tv_sec as u64 * SECOND + now.tv_nsec as u64
    };
    let (inside, outside) = (clock(&mut sys), std::time::Instant::now());
    sys.ok(libc::SYS_nanosleep, &[at(&time), 0]);
    let inside = clock(&mut sys) - inside;
    assert!(inside >= 20_000_000, "{inside} ns");
    assert!(outside.elapsed().as_nanos() as u64 >= 20_000_000);
    let mut real = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    sys.ok(
        libc::SYS_clock_gettime,
        &[libc::CLOCK_REALTIME as u64, at_mut(&mut real)],
    );
    let host = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a date");
    assert!(host.as_secs().abs_diff(real.tv_sec as u64) <= 60);
}

#[test]
fn a_seed_decides_the_random_numbers() {
    let draw = |seed| {
        let config = Config {
            seed,
            clock: Clock::Virtual,
            ..Config::default()
        };
        let (mut kernel, machine) = one_machine(config);
        let task = kernel.task(machine).expect("a task");
        let mut bytes = [0u8; 64];
        let args = [at_mut(&mut bytes), 64, 0];
        assert_eq!(Task(&mut kernel, task).ok(libc::SYS_getrandom, &args), 64);
        bytes
    };
    let first = draw(Some([1; 32]));
    assert_eq!(first, draw(Some([1; 32])));
    assert_ne!(first, draw(Some([2; 32])));
    assert_ne!(draw(None), draw(None));
}

#[test]
fn fibers_that_sleep_wake_in_the_order_of_their_deadlines() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let (mut kernel, machine) = one_machine(Config {
        clock: Clock::Virtual,
        ..Config::default()
    });
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut last = None;
    for seconds in [30, 10, 20, 40] {
        let order = order.clone();
        let fiber = kernel.fiber(machine, move |mut fiber: &Fiber| {
            let time = libc::timespec {
                tv_sec: seconds,
                tv_nsec: 0,
            };
            fiber.ok(libc::SYS_nanosleep, &[at(&time), 0]);
            order.borrow_mut().push(seconds);
            0
        });
        last = Some(fiber.expect("a fiber"));
    }
    finish_task(&mut kernel, last.expect("four"));
    assert_eq!(*order.borrow(), [10, 20, 30, 40]);
}
