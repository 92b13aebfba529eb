//! The direct way in: what a task that stays must not get in the way of.

mod common;

use common::{at, at_mut, boot, finish, one_machine, six, Caller, Task};
use libc::{EINTR, EINVAL, EPIPE, SIGPIPE};
use vink_abi::{VINK_CALL_TASK_EXIT, VINK_CALL_TEST, VINK_TEST_NULL};
use vink_kernel::{Call, Clock, CloneKind, Config, Error, Event, Kernel, Outcome, TaskId};

fn call(nr: i64, args: &[u64]) -> Call {
    Call {
        nr,
        args: six(args),
        ..Call::default()
    }
}

/// The outcome of a call that is done at once.
fn enter(kernel: &mut Kernel, task: TaskId, nr: i64, args: &[u64]) -> Outcome {
    let entered = kernel.enter(task, &call(nr, args)).expect("it runs");
    entered.outcome.expect("it is done at once")
}

/// A call that waits.
fn block(kernel: &mut Kernel, task: TaskId, nr: i64, args: &[u64]) -> Option<u64> {
    let entered = kernel.enter(task, &call(nr, args)).expect("it runs");
    assert_eq!(entered.outcome, None);
    entered.deadline
}

#[test]
fn calls_are_done_at_once_and_told_by_nothing_else() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let pid = kernel.call(task, libc::SYS_getpid, [0; 6]).expect("a pid");
    for _ in 0..1000 {
        assert_eq!(enter(&mut kernel, task, libc::SYS_getpid, &[]).result, pid);
    }
    assert_eq!(kernel.next_event(), None);
    assert_eq!(kernel.poll(task), None);

    // What kernel the calls came by is all the same to them.
    let [a, b] = Task(&mut kernel, task).socket_pair(libc::SOCK_STREAM);
    let sent = kernel.call(task, libc::SYS_write, six(&[a, at(b"one"), 3]));
    assert_eq!(sent.expect("it is sent"), 3);
    let mut room = [0u8; 8];
    let read = [b, at_mut(&mut room), 8];
    let poll_fd = Some(b as i32);
    let wanted = Call {
        poll_fd,
        ..call(libc::SYS_read, &read)
    };
    let outcome = kernel.enter(task, &wanted).expect("it runs").outcome;
    let outcome = outcome.expect("it is done at once");
    assert_eq!((outcome.result, &room[..3]), (3, &b"one"[..]));
    assert_eq!(outcome.events.map(|e| e & libc::EPOLLIN as u32), Some(0));

    // A signal comes along with the outcome.
    enter(&mut kernel, task, libc::SYS_close, &[b]);
    let broken = enter(&mut kernel, task, libc::SYS_write, &[a, at(b"x"), 1]);
    assert_eq!(broken.result, -i64::from(EPIPE));
    assert_eq!(broken.signals, 1 << (SIGPIPE - 1));
}

#[test]
fn refused_are_the_same_calls_as_elsewhere() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let exit = call(VINK_CALL_TASK_EXIT.into(), &[]);
    let refused = kernel.enter(task, &exit);
    assert!(matches!(refused, Err(Error::Errno { errno: EINVAL, .. })));
    block(&mut kernel, task, libc::SYS_pause, &[]);
    let second = kernel.enter(task, &call(libc::SYS_getpid, &[]));
    assert!(matches!(second, Err(Error::Busy)));
    kernel.exit_task(task, 0, true).expect("it exits");
    let late = kernel.enter(task, &call(libc::SYS_getpid, &[]));
    assert!(matches!(late, Err(Error::NoSuchTask)));
}

#[test]
fn a_call_that_waits_is_as_one_that_was_started() {
    let (mut kernel, machine) = one_machine(Config::default());
    let [reader, writer] = [(); 2].map(|()| kernel.task(machine).expect("a task"));
    let [a, b] = Task(&mut kernel, reader).socket_pair(libc::SOCK_STREAM);
    let writer = {
        let clone = kernel.clone_task(reader, CloneKind::Thread);
        kernel.exit_task(writer, 0, true).expect("it exits");
        clone.expect("a thread")
    };
    kernel.run().expect("it runs");
    while kernel.next_event().is_some() {}
    for round in 0..100u8 {
        let mut room = [0u8; 8];
        let read = [b, at_mut(&mut room), 8];
        block(&mut kernel, reader, libc::SYS_read, &read);
        assert_eq!(kernel.next_event(), None);
        // The writer runs the reader, too.
        let sent = enter(&mut kernel, writer, libc::SYS_write, &[a, at(&round), 1]);
        assert_eq!(sent.result, 1);
        assert_eq!(kernel.next_event(), Some(Event::Done(reader)));
        let outcome = kernel.poll(reader).expect("it is done");
        assert_eq!((outcome.result, room[0]), (1, round));
    }
    // Cancelled, it is as if a signal had come; and the next call is not.
    block(&mut kernel, reader, libc::SYS_read, &[b, 0, 8]);
    kernel.cancel(reader).expect("it waits");
    let outcome = finish(&mut kernel, reader);
    assert!(outcome.result == -i64::from(EINTR) && outcome.restart);
    assert!(enter(&mut kernel, reader, libc::SYS_getpid, &[]).result > 0);
}

#[test]
fn timers_fire_while_a_task_stays_and_when_it_is_left() {
    let clock = Clock::Virtual;
    let config = Config {
        clock,
        ..Config::default()
    };
    let (mut kernel, machine) = one_machine(config);
    let [sleeper, other] = [(); 2].map(|()| kernel.task(machine).expect("a task"));
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 5_000_000,
    };
    let until = kernel.now() + 5_000_000;
    block(&mut kernel, sleeper, libc::SYS_nanosleep, &[at(&time), 0]);
    // The other one stays: its ticks are the deadlines.
    let get = call(libc::SYS_getppid, &[]);
    while kernel.poll(sleeper).is_none() {
        let entered = kernel.enter(other, &get).expect("it runs");
        assert!(entered.outcome.is_some());
        let deadline = entered.deadline.expect("a tick or the sleeper's timer");
        assert!(deadline <= until + 4_000_000, "the tick goes on");
        kernel.wait(deadline);
    }
    assert!(kernel.now() >= until);
    // Without a call of its own it is put to sleep: no more ticks.
    let mut quiet = false;
    for _ in 0..100 {
        match kernel.run().expect("it runs") {
            Some(deadline) if deadline < kernel.now() + 500_000_000 => kernel.wait(deadline),
            _ => quiet = true,
        }
    }
    assert!(quiet);
}

#[test]
fn tasks_that_stay_and_others_take_turns_and_end() {
    let (mut kernel, machine) = one_machine(Config::default());
    let tasks = [(); 4].map(|()| kernel.task(machine).expect("a task"));
    let pids = tasks.map(|task| enter(&mut kernel, task, libc::SYS_getpid, &[]).result);
    for round in 0..400 {
        let (task, pid) = (tasks[round * 7 % 4], pids[round * 7 % 4]);
        let result = match round % 3 {
            0 => kernel.call(task, libc::SYS_getpid, [0; 6]).expect("a pid"),
            _ => enter(&mut kernel, task, libc::SYS_getpid, &[]).result,
        };
        assert_eq!(result, pid, "it is the task itself that calls");
    }
    // One that has been killed ends with its next call.
    let kill = [pids[1] as u64, libc::SIGKILL as u64];
    let killed = enter(&mut kernel, tasks[0], libc::SYS_kill, &kill);
    assert_eq!(killed.result, 0);
    let last = enter(&mut kernel, tasks[1], libc::SYS_getpid, &[]);
    assert_eq!(last.result, -i64::from(EINTR));
    let gone = Event::Gone {
        task: tasks[1],
        status: libc::SIGKILL,
    };
    assert_eq!(kernel.next_event(), Some(gone));
    let late = kernel.enter(tasks[1], &call(libc::SYS_getpid, &[]));
    assert!(matches!(late, Err(Error::NoSuchTask)));
    for task in [tasks[0], tasks[2], tasks[3]] {
        enter(&mut kernel, task, libc::SYS_getpid, &[]);
        kernel.exit_task(task, 0, true).expect("it exits");
        kernel.run().expect("it runs");
        let gone = Event::Gone { task, status: 0 };
        assert_eq!(kernel.next_event(), Some(gone));
    }
    assert_eq!(kernel.counters().expect("counters").tasks, 0);
}

#[test]
fn a_task_stays_for_whichever_thread_has_the_token() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let pid = enter(&mut kernel, task, libc::SYS_getpid, &[]).result;
    for _ in 0..4 {
        kernel = std::thread::spawn(move || {
            assert_eq!(enter(&mut kernel, task, libc::SYS_getpid, &[]).result, pid);
            kernel
        })
        .join()
        .expect("no panic");
    }
    // Fibers run before it stays, and are not kept waiting by it.
    let fiber = kernel.fiber(machine, |fiber| {
        fiber.call(libc::SYS_sched_yield, [0; 6]);
        7
    });
    let fiber = fiber.expect("a fiber");
    assert_eq!(enter(&mut kernel, task, libc::SYS_getpid, &[]).result, pid);
    kernel.run().expect("it runs");
    let (task, status) = (fiber, 7 << 8);
    assert_eq!(kernel.next_event(), Some(Event::Gone { task, status }));
}

#[test]
fn packets_of_its_own_calls_are_received_before_it_is_left() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let listener = Task(&mut kernel, task).listen(80);
    let caller = Task(&mut kernel, task).socket(libc::AF_INET, libc::SOCK_STREAM);
    let to = common::local(80);
    let args = [caller, at(&to), size_of_val(&to) as u64];
    assert_eq!(enter(&mut kernel, task, libc::SYS_connect, &args).result, 0);
    let accepted = enter(&mut kernel, task, libc::SYS_accept, &[listener, 0, 0]).result;
    let accepted = u64::try_from(accepted).expect("a connection");
    let mut room = [0u8; 16];
    for _ in 0..2000 {
        let sent = [caller, at(b"0123456789"), 10];
        assert_eq!(enter(&mut kernel, task, libc::SYS_write, &sent).result, 10);
        let read = [accepted, at_mut(&mut room), 16];
        assert_eq!(enter(&mut kernel, task, libc::SYS_read, &read).result, 10);
    }
    kernel.run().expect("it runs");
}

#[test]
fn a_panic_of_a_task_that_stays_has_its_backtrace() {
    let mut kernel = boot(Config::default());
    let machine = kernel.machine("alice").expect("a machine");
    let task = kernel.task(machine).expect("a task");
    enter(&mut kernel, task, libc::SYS_getpid, &[]);
    let fault = call(VINK_CALL_TEST.into(), &[VINK_TEST_NULL]);
    let Err(Error::Panic(panic)) = kernel.enter(task, &fault) else {
        panic!("it goes on");
    };
    let names: Vec<_> = panic.backtrace.iter().map(|f| f.to_string()).collect();
    for wanted in [
        "vink_control_call",
        "vink_serve_staying",
        "vink_serve_calls",
    ] {
        assert!(
            names.iter().any(|n| n.contains(wanted)),
            "{wanted}: {names:#?}"
        );
    }
    let dead = kernel.enter(task, &call(libc::SYS_getpid, &[]));
    assert!(matches!(dead, Err(Error::Panic(_))));
}
