//! What runs out: descriptors and the arena. The kernel says so and works on.

mod common;

use common::{at_mut, boot, one_machine, Caller, Task};
use libc::{EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM, SOCK_NONBLOCK, SOCK_STREAM};
use vink_kernel::{Config, Error, Kernel, TaskId};

#[test]
fn descriptors_run_out_and_come_back() {
    let (mut kernel, machine) = one_machine(Config::default());
    let before = kernel.counters().expect("counters").files;
    let task = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, task);
    sys.limit_descriptors(100);
    for wanted in 0..100 {
        assert_eq!(sys.socket(libc::AF_INET, SOCK_STREAM), wanted);
    }
    for _ in 0..3 {
        sys.fails(
            EMFILE,
            libc::SYS_socket,
            &[libc::AF_INET as u64, SOCK_STREAM as u64, 0],
        );
        sys.fails(EMFILE, libc::SYS_dup, &[5]);
        sys.fails(
            EMFILE,
            vink_abi::VINK_CALL_MACHINE_FD.into(),
            &[machine.get()],
        );
        sys.close(50);
        assert_eq!(sys.socket(libc::AF_INET, SOCK_STREAM), 50);
    }
    assert_eq!(kernel.counters().expect("counters").files, before + 100);
}

/// Makes socket pairs and fills them until something runs out; what it was.
fn fill(kernel: &mut Kernel, task: TaskId, data: &[u8]) -> i32 {
    loop {
        let mut pair = [0u32; 2];
        let kind = (SOCK_STREAM | SOCK_NONBLOCK) as u64;
        let args = [libc::AF_UNIX as u64, kind, 0, at_mut(&mut pair)];
        let made = Task(kernel, task).sys(libc::SYS_socketpair, &args);
        if made < 0 {
            return -made as i32;
        }
        for fd in pair {
            loop {
                match Task(kernel, task).write(fd.into(), data) {
                    0.. => {}
                    error if error == -i64::from(EAGAIN) => break,
                    error => return -error as i32,
                }
            }
        }
    }
}

#[test]
fn an_arena_runs_out_and_the_kernel_works_on() {
    let (mut kernel, machine) = one_machine(Config {
        arena_bytes: 32 << 20,
        ..Config::default()
    });
    let data = vec![7u8; 16 << 10];
    let mut free = Vec::new();
    for round in 0..3 {
        let task = kernel.task(machine).expect("a task");
        Task(&mut kernel, task).limit_descriptors(100_000);
        let before = kernel.counters().expect("counters").free_pages;
        let errno = fill(&mut kernel, task, &data);
        assert!(
            [ENOMEM, ENOBUFS, EMFILE, ENFILE].contains(&errno),
            "round {round}: errno {errno}"
        );
        let after = kernel.counters().expect("counters").free_pages;
        assert!(
            after < before / 2,
            "round {round}: {after} of {before} pages are free"
        );
        // Others fail as well, but they fail.
        match kernel.machine("one-more") {
            Ok(machine) => kernel.destroy_machine(machine).expect("it goes"),
            Err(Error::Errno { errno: ENOMEM, .. }) => {}
            Err(other) => panic!("{other}"),
        }
        kernel.exit_task(task, 0, true).expect("it exits");
        common::finish_task(&mut kernel, task);
        free.push(kernel.counters().expect("counters").free_pages);
    }
    assert!(
        free[2] + 500 >= free[0],
        "free pages after each round: {free:?}"
    );
    let task = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, task);
    let listener = sys.listen(80);
    let near = sys.socket(libc::AF_INET, SOCK_STREAM);
    assert_eq!(sys.connect(near, 80), 0);
    sys.ok(libc::SYS_accept, &[listener, 0, 0]);
}

#[test]
fn machines_run_out_of_arena_and_say_so() {
    let mut kernel = boot(Config {
        arena_bytes: 16 << 20,
        ..Config::default()
    });
    let mut machines = Vec::new();
    let errno = loop {
        match kernel.machine("crowd") {
            Ok(machine) => machines.push(machine),
            Err(Error::Errno { errno, .. }) => break errno,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(errno, ENOMEM);
    for machine in machines.drain(..) {
        kernel.destroy_machine(machine).expect("it goes");
    }
    kernel.run().expect("it runs");
    kernel.machine("alone").expect("there is room again");
}
