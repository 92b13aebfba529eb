//! Machines and tasks: made, cloned, ended; readiness; signals; cancelled calls.

mod common;

use common::{at, at_mut, boot, finish, finish_task, one_machine, Caller, Task};
use libc::{EAGAIN, EBADF, EINTR, EINVAL, ENOENT, EPERM, EPIPE, SOCK_NONBLOCK, SOCK_STREAM};
use vink_abi::{
    VINK_CALL_MACHINE_FD, VINK_CALL_POLL, VINK_CALL_TASK_EXIT, VINK_CALL_WATCH, VINK_CALL_YIELD,
};
use vink_kernel::{Call, Clock, CloneKind, Config, Error, Event, Fiber, Kernel, TaskId};
use vink_sys::plain::Zeroed;

const EPOLLIN: u32 = libc::EPOLLIN as u32;
const EPOLLOUT: u32 = libc::EPOLLOUT as u32;

fn nodename(kernel: &mut Kernel, task: TaskId) -> String {
    let mut name = libc::utsname::zeroed();
    Task(kernel, task).ok(libc::SYS_uname, &[at_mut(&mut name)]);
    name.nodename
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8 as char)
        .collect()
}

#[test]
fn machines_have_names_networks_and_an_end() {
    let mut kernel = boot(Config::default());
    for name in ["", &"x".repeat(65)] {
        assert!(matches!(
            kernel.machine(name),
            Err(Error::Errno { errno: EINVAL, .. })
        ));
    }
    let alice = kernel.machine("alice").expect("a machine");
    let bob = kernel.machine("bob").expect("a machine");
    let at_alice = kernel.task(alice).expect("a task");
    let at_bob = kernel.task(bob).expect("a task");
    assert_eq!(nodename(&mut kernel, at_alice), "alice");
    assert_eq!(nodename(&mut kernel, at_bob), "bob");

    // The same port on both: two networks.
    for task in [at_alice, at_bob] {
        let mut sys = Task(&mut kernel, task);
        sys.loopback_up();
        sys.listen(80);
    }

    // setns() into the other one's network.
    let mut sys = Task(&mut kernel, at_bob);
    let fd = sys.ok(VINK_CALL_MACHINE_FD.into(), &[alice.get()]);
    sys.ok(libc::SYS_setns, &[fd, libc::CLONE_NEWNET as u64]);
    let mut sys = Task(&mut kernel, at_bob);
    let caller = sys.socket(libc::AF_INET, SOCK_STREAM);
    assert_eq!(sys.connect(caller, 80), 0);

    let before = kernel.counters().expect("counters");
    assert_eq!((before.machines, before.tasks), (2, 2));
    kernel.destroy_machine(alice).expect("it goes");
    assert!(matches!(
        kernel.destroy_machine(alice),
        Err(Error::NoSuchMachine)
    ));
    assert!(matches!(kernel.task(alice), Err(Error::NoSuchMachine)));
    assert!(matches!(
        kernel.fiber(alice, |_| 0),
        Err(Error::NoSuchMachine)
    ));
    // Its tasks live on.
    assert_eq!(nodename(&mut kernel, at_alice), "alice");
    assert_eq!(kernel.counters().expect("counters").machines, 1);
}

#[test]
fn a_machine_that_is_made_and_destroyed_leaves_nothing() {
    let mut kernel = boot(Config::default());
    let round = |kernel: &mut Kernel| {
        let machine = kernel.machine("carol").expect("a machine");
        let task = kernel.task(machine).expect("a task");
        let mut sys = Task(kernel, task);
        sys.loopback_up();
        sys.listen(80);
        kernel.exit_task(task, 0, true).expect("it exits");
        assert_eq!(finish_task(kernel, task), 0);
        kernel.destroy_machine(machine).expect("it goes");
        // The kernel takes a namespace down in a worker, some of it by timers.
        kernel.run().expect("it runs");
        kernel.counters().expect("counters")
    };
    for _ in 0..20 {
        round(&mut kernel);
    }
    let before = round(&mut kernel);
    for _ in 0..100 {
        round(&mut kernel);
    }
    let after = round(&mut kernel);
    assert_eq!(
        (after.tasks, after.machines, after.sockets),
        (0, 0, before.sockets)
    );
    let lost = before.free_pages.saturating_sub(after.free_pages);
    assert!(lost < 100, "101 machines took {lost} pages with them");
}

#[test]
fn clones_copy_or_share_descriptors_and_exits_close_them() {
    let (mut kernel, machine) = one_machine(Config::default());
    let parent = kernel.task(machine).expect("a task");
    let [near, far] = Task(&mut kernel, parent).socket_pair(SOCK_STREAM);
    let process = kernel
        .clone_task(parent, CloneKind::Process)
        .expect("a child");
    let thread = kernel
        .clone_task(parent, CloneKind::Thread)
        .expect("a thread");
    let sharer = kernel
        .clone_task(parent, CloneKind::SharedFiles)
        .expect("a child");

    let pid = |kernel: &mut Kernel, task| Task(kernel, task).ok(libc::SYS_getpid, &[]);
    let tid = |kernel: &mut Kernel, task| Task(kernel, task).ok(libc::SYS_gettid, &[]);
    assert_eq!(pid(&mut kernel, thread), pid(&mut kernel, parent));
    assert_ne!(tid(&mut kernel, thread), tid(&mut kernel, parent));
    assert_ne!(pid(&mut kernel, process), pid(&mut kernel, parent));
    assert_ne!(pid(&mut kernel, sharer), pid(&mut kernel, parent));

    Task(&mut kernel, parent).close(near);
    Task(&mut kernel, thread).fails(EBADF, libc::SYS_close, &[near]);
    Task(&mut kernel, sharer).fails(EBADF, libc::SYS_close, &[near]);
    // The copy still holds the other end open.
    assert_eq!(Task(&mut kernel, process).write(near, b"hello"), 5);
    let mut room = [0; 8];
    assert_eq!(Task(&mut kernel, thread).read(far, &mut room), 5);
    kernel.exit_task(process, 3 << 8, true).expect("it exits");
    assert_eq!(finish_task(&mut kernel, process), 3 << 8);
    assert_eq!(Task(&mut kernel, thread).read(far, &mut room), 0);

    // One thread alone, and then the group with a thread that waits in a call.
    let other = kernel
        .clone_task(parent, CloneKind::Thread)
        .expect("a thread");
    kernel.exit_task(other, 0, false).expect("it exits");
    assert_eq!(finish_task(&mut kernel, other), 0);
    let pause = Call {
        nr: libc::SYS_pause,
        ..Call::default()
    };
    kernel.start(thread, pause).expect("it starts");
    kernel.run().expect("it runs");
    kernel.exit_task(parent, 5 << 8, true).expect("it exits");
    kernel.run().expect("it runs");
    let mut gone = Vec::new();
    while let Some(event) = kernel.next_event() {
        if let Event::Gone { task, status } = event {
            gone.push((task, status));
        }
    }
    gone.sort();
    assert_eq!(gone, [(parent, 5 << 8), (thread, 5 << 8)]);
    for task in [parent, thread, process, other] {
        assert!(matches!(kernel.start(task, pause), Err(Error::NoSuchTask)));
        assert!(matches!(kernel.cancel(task), Err(Error::NoSuchTask)));
        assert!(matches!(
            kernel.exit_task(task, 0, true),
            Err(Error::NoSuchTask)
        ));
        assert!(matches!(
            kernel.clone_task(task, CloneKind::Thread),
            Err(Error::NoSuchTask)
        ));
        assert_eq!(kernel.poll(task), None);
    }
    assert_eq!(
        kernel.counters().expect("counters").tasks,
        1,
        "the one that only shared files"
    );
}

#[test]
fn the_null_call_and_calls_that_do_not_exist() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let before = kernel.counters().expect("counters").calls;
    let mut sys = Task(&mut kernel, task);
    sys.ok(libc::SYS_getppid, &[]);
    for nr in [
        -1,
        0x7fff,
        0x1_0000_0000,
        i64::MAX,
        vink_abi::VINK_CALL_END.into(),
    ] {
        sys.fails(libc::ENOSYS, nr, &[]);
    }
    assert!(kernel.counters().expect("counters").calls >= before + 6);
    let exit = Call {
        nr: VINK_CALL_TASK_EXIT.into(),
        ..Call::default()
    };
    assert!(matches!(
        kernel.start(task, exit),
        Err(Error::Errno { errno: EINVAL, .. })
    ));
}

#[test]
fn calls_are_started_told_and_taken_once() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let call = Call {
        nr: libc::SYS_getpid,
        ..Call::default()
    };
    assert_eq!(kernel.poll(task), None);
    kernel.start(task, call).expect("it starts");
    assert_eq!(kernel.poll(task), None);
    assert!(matches!(kernel.start(task, call), Err(Error::Busy)));
    kernel.run().expect("it runs");
    assert_eq!(kernel.next_event(), Some(Event::Done(task)));
    assert_eq!(kernel.next_event(), None);
    assert!(
        matches!(kernel.start(task, call), Err(Error::Busy)),
        "not taken yet"
    );
    let outcome = kernel.poll(task).expect("an outcome");
    assert!(outcome.result > 0 && !outcome.restart && outcome.events.is_none());
    assert_eq!(kernel.poll(task), None);
    kernel
        .call(task, libc::SYS_getpid, [0; 6])
        .expect("free again");
    assert_eq!(kernel.next_event(), None, "call() tells by its result");
}

#[test]
fn blocked_calls_are_cancelled() {
    let (mut kernel, machine) = one_machine(Config::default());
    let before = kernel.counters().expect("counters").files;
    let task = kernel.task(machine).expect("a task");
    assert!(matches!(
        kernel.cancel(task),
        Err(Error::Errno { errno: ENOENT, .. })
    ));
    let listener = Task(&mut kernel, task).listen(80);
    let accept = Call {
        nr: libc::SYS_accept,
        args: [listener, 0, 0, 0, 0, 0],
        ..Call::default()
    };
    kernel.start(task, accept).expect("it starts");
    kernel.run().expect("it runs");
    assert_eq!((kernel.poll(task), kernel.next_event()), (None, None));
    kernel.cancel(task).expect("it is cancelled");
    let outcome = finish(&mut kernel, task);
    assert_eq!(outcome.result, -i64::from(EINTR));
    assert!(outcome.restart);
    assert_eq!(kernel.next_event(), Some(Event::Done(task)));

    // A task that exits from a blocked call; the listener goes with it.
    kernel.start(task, accept).expect("it starts");
    kernel.run().expect("it runs");
    kernel.exit_task(task, 9, true).expect("it exits");
    assert!(
        matches!(kernel.start(task, accept), Err(Error::NoSuchTask)),
        "it is exiting"
    );
    assert_eq!(finish_task(&mut kernel, task), 9);
    assert_eq!(kernel.counters().expect("counters").files, before);
}

#[test]
fn a_kernel_may_be_dropped_with_calls_in_progress() {
    let (mut kernel, machine) = one_machine(Config::default());
    for _ in 0..10 {
        let task = kernel.task(machine).expect("a task");
        kernel
            .start(
                task,
                Call {
                    nr: libc::SYS_pause,
                    ..Call::default()
                },
            )
            .expect("it starts");
    }
    kernel.run().expect("it runs");
    kernel
        .fiber(machine, |fiber| fiber.call(libc::SYS_pause, [0; 6]) as i32)
        .expect("a fiber");
    kernel.run().expect("it runs");
    kernel.fiber(machine, |_| 0).expect("one that never begins");
    drop(kernel);
    let (mut next, _) = one_machine(Config::default());
    next.run().expect("it runs");
}

#[test]
fn watched_files_tell_edges_and_polled_ones_their_state() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, task);
    let [near, far] = sys.socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
    let events = (EPOLLIN | EPOLLOUT) as u64;
    let now = sys.ok(VINK_CALL_WATCH.into(), &[far, 1234, events]) as u32;
    assert_eq!(now & (EPOLLIN | EPOLLOUT), EPOLLOUT);
    assert_eq!(sys.ok(VINK_CALL_POLL.into(), &[far]) as u32 & EPOLLIN, 0);
    sys.fails(EBADF, VINK_CALL_POLL.into(), &[77]);
    // What was true from the start may be told as the first edge.
    while kernel.next_event().is_some() {}

    assert_eq!(Task(&mut kernel, task).write(near, b"x"), 1);
    match kernel.next_event() {
        Some(Event::Ready {
            cookie: 1234,
            events,
        }) => assert_ne!(events & EPOLLIN, 0),
        other => panic!("{other:?}"),
    }
    assert_eq!(kernel.next_event(), None);
    let mut sys = Task(&mut kernel, task);
    assert_ne!(sys.ok(VINK_CALL_POLL.into(), &[far]) as u32 & EPOLLIN, 0);

    // With the call that changes it: what it is afterwards.
    let mut room = [0u8; 8];
    let args = [far, at_mut(&mut room), 8, 0, 0, 0];
    let read = Call {
        nr: libc::SYS_read,
        args,
        poll_fd: Some(far as i32),
        ..Call::default()
    };
    kernel.start(task, read).expect("it starts");
    let outcome = finish(&mut kernel, task);
    let now = outcome.events.expect("as asked for") & (EPOLLIN | EPOLLOUT);
    assert_eq!((outcome.result, now), (1, EPOLLOUT));

    // Not watched any more.
    while kernel.next_event().is_some() {}
    let mut sys = Task(&mut kernel, task);
    sys.ok(VINK_CALL_WATCH.into(), &[far, 1234, 0]);
    assert_eq!(sys.write(near, b"x"), 1);
    assert_eq!(kernel.next_event(), None);

    // Closed while watched.
    let mut sys = Task(&mut kernel, task);
    sys.ok(VINK_CALL_WATCH.into(), &[far, 1, events]);
    sys.close(far);
    sys.close(near);
    kernel.run().expect("it runs");
}

#[test]
fn signals_of_a_call_are_told_with_its_outcome() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, task);
    let [near, far] = sys.socket_pair(SOCK_STREAM);
    sys.close(far);
    let data = [0u8; 4];
    let write = |flags: i32| Call {
        nr: libc::SYS_sendto,
        args: [near, at(&data), 4, flags as u64, 0, 0],
        ..Call::default()
    };
    kernel.start(task, write(0)).expect("it starts");
    let outcome = finish(&mut kernel, task);
    assert_eq!(outcome.result, -i64::from(EPIPE));
    assert_eq!(outcome.signals, 1 << (libc::SIGPIPE - 1));
    kernel
        .start(task, write(libc::MSG_NOSIGNAL))
        .expect("it starts");
    let outcome = finish(&mut kernel, task);
    assert_eq!((outcome.result, outcome.signals), (-i64::from(EPIPE), 0));
}

#[test]
fn fibers_run_in_order_and_their_panics_stay_inside() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let (mut kernel, machine) = one_machine(Config::default());
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut fibers = Vec::new();
    for number in 0..3 {
        let order = order.clone();
        let fiber = kernel.fiber(machine, move |fiber| {
            order.borrow_mut().push(number);
            assert!(fiber.call(libc::SYS_gettid, [0; 6]) > 0);
            number
        });
        fibers.push(fiber.expect("a fiber"));
    }
    assert!(order.borrow().is_empty(), "nothing runs before run()");
    assert!(matches!(
        kernel.start(fibers[0], Call::default()),
        Err(Error::Busy)
    ));
    kernel.run().expect("it runs");
    assert_eq!(*order.borrow(), [0, 1, 2]);
    for (number, task) in fibers.into_iter().enumerate() {
        let status = (number as i32) << 8;
        assert_eq!(kernel.next_event(), Some(Event::Gone { task, status }));
    }
    let panics = kernel
        .fiber(machine, |_| panic!("this text is expected"))
        .expect("a fiber");
    assert_eq!(finish_task(&mut kernel, panics), 101 << 8);
    // A stack that is left behind by exit(2) could not be unwound.
    let exits = kernel.fiber(machine, |mut fiber: &Fiber| {
        fiber.fails(libc::ENOSYS, libc::SYS_exit, &[7]);
        8
    });
    assert_eq!(finish_task(&mut kernel, exits.expect("a fiber")), 8 << 8);
    assert_eq!(kernel.counters().expect("counters").tasks, 0);
}

#[test]
fn a_kernel_moves_between_threads_unless_it_has_fibers() {
    let (mut kernel, machine) = one_machine(Config::default());
    let waits = kernel.fiber(machine, |mut fiber: &Fiber| {
        let fd = fiber.listen(80);
        fiber.call(libc::SYS_accept, [fd, 0, 0, 0, 0, 0]) as i32
    });
    let waits = waits.expect("a fiber");
    kernel.run().expect("it runs");
    let mut kernel = std::thread::spawn(move || {
        assert!(matches!(kernel.run(), Err(Error::WrongThread)));
        assert!(matches!(kernel.machine("x"), Err(Error::WrongThread)));
        kernel
    })
    .join()
    .expect("the thread");
    let caller = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, caller);
    let fd = sys.socket(libc::AF_INET, SOCK_STREAM);
    assert_eq!(sys.connect(fd, 80), 0);
    assert!(finish_task(&mut kernel, waits) > 0);
    std::thread::spawn(move || {
        let mut sys = Task(&mut kernel, caller);
        let mut room = [0; 1];
        assert_eq!(sys.read(fd, &mut room), 0);
        let [near, _] = sys.socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
        assert_eq!(sys.read(near, &mut room), -i64::from(EAGAIN));
    })
    .join()
    .expect("the thread");
}

#[test]
fn a_busy_fiber_gives_others_their_turn() {
    use std::cell::Cell;
    use std::rc::Rc;
    for clock in [Clock::Real, Clock::Virtual] {
        let (mut kernel, machine) = one_machine(Config {
            clock,
            ..Config::default()
        });
        let task = kernel.task(machine).expect("a task");
        let stop = Rc::new(Cell::new(false));
        let mut busy = Vec::new();
        for _ in 0..3 {
            let stop = Rc::clone(&stop);
            let fiber = kernel.fiber(machine, move |mut fiber: &Fiber| {
                while !stop.get() {
                    fiber.ok(libc::SYS_getppid, &[]);
                    fiber.ok(VINK_CALL_YIELD.into(), &[]);
                }
                0
            });
            busy.push(fiber.expect("a fiber"));
        }
        // The host is heard while they work, and timers fire.
        let deadline = kernel.run().expect("it runs");
        assert!(deadline.is_some_and(|time| time <= kernel.now()));
        Task(&mut kernel, task).ok(libc::SYS_getppid, &[]);
        if clock == Clock::Real {
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 1_000_000,
            };
            Task(&mut kernel, task).ok(libc::SYS_nanosleep, &[at(&time), 0]);
        }
        Task(&mut kernel, task).fails(EPERM, VINK_CALL_YIELD.into(), &[]);
        stop.set(true);
        while kernel.counters().expect("counters").tasks > 1 {
            kernel.run().expect("it runs");
        }
        while let Some(event) = kernel.next_event() {
            let Event::Gone { task, status: 0 } = event else {
                panic!("{event:?}")
            };
            assert!(busy.contains(&task));
        }
    }
}

#[test]
fn a_fibers_call_can_be_cancelled() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let (mut kernel, machine) = one_machine(Config::default());
    let results = Rc::new(RefCell::new(Vec::new()));
    let inside = Rc::clone(&results);
    let fiber = kernel.fiber(machine, move |mut fiber: &Fiber| {
        let [near, _far] = fiber.socket_pair(SOCK_STREAM);
        let byte = [0u8];
        for _ in 0..3 {
            let result = fiber.sys(libc::SYS_read, &[near, at(&byte), 1]);
            inside.borrow_mut().push(result);
        }
        0
    });
    let fiber = fiber.expect("a fiber");
    // Not before it has begun.
    assert!(matches!(
        kernel.cancel(fiber),
        Err(Error::Errno { errno: ENOENT, .. })
    ));
    kernel.run().expect("it runs");
    for count in 1..=3 {
        kernel.cancel(fiber).expect("it is told");
        kernel.run().expect("it runs");
        assert_eq!(*results.borrow(), vec![-i64::from(EINTR); count]);
    }
    assert_eq!(finish_task(&mut kernel, fiber), 0);
    assert!(matches!(kernel.cancel(fiber), Err(Error::NoSuchTask)));
}
