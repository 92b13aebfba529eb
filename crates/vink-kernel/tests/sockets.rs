//! Traffic over loopback: between tasks, between fibers, in two kernels at once.

mod common;

use std::mem::size_of_val;

use common::{at, at_mut, finish, finish_task, local, one_machine, Caller, Task};
use vink_kernel::{Call, Config, Fiber, Kernel, MachineId};

#[test]
fn datagrams_between_two_tasks() {
    let (mut kernel, machine) = one_machine(Config::default());
    let server = kernel.task(machine).expect("a task");
    let client = kernel.task(machine).expect("a task");
    let mut sys = Task(&mut kernel, server);
    let inbox = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
    sys.bind(inbox, 53);

    // The server waits first.
    let mut room = [0u8; 64];
    let mut from = local(0);
    let mut from_len = size_of_val(&from) as u32;
    let args = [
        inbox,
        at_mut(&mut room),
        64,
        0,
        at_mut(&mut from),
        at_mut(&mut from_len),
    ];
    kernel
        .start(
            server,
            Call {
                nr: libc::SYS_recvfrom,
                args,
                ..Call::default()
            },
        )
        .expect("it starts");
    kernel.run().expect("it runs");
    assert_eq!(kernel.poll(server), None);

    let mut sys = Task(&mut kernel, client);
    let outbox = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
    sys.bind(outbox, 5353);
    let (to, data) = (local(53), b"question");
    let args = [outbox, at(data), 8, 0, at(&to), size_of_val(&to) as u64];
    assert_eq!(sys.ok(libc::SYS_sendto, &args), 8);

    assert_eq!(finish(&mut kernel, server).result, 8);
    assert_eq!(&room[..8], data);
    assert_eq!((from.sin_port, from_len), (5353u16.to_be(), 16));
}

#[test]
fn a_connection_between_two_tasks() {
    let (mut kernel, machine) = one_machine(Config::default());
    let server = kernel.task(machine).expect("a task");
    let client = kernel.task(machine).expect("a task");
    let listener = Task(&mut kernel, server).listen(80);
    let accept = Call {
        nr: libc::SYS_accept,
        args: [listener, 0, 0, 0, 0, 0],
        ..Call::default()
    };
    kernel.start(server, accept).expect("it starts");

    let mut sys = Task(&mut kernel, client);
    let near = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
    assert_eq!(sys.connect(near, 81), -i64::from(libc::ECONNREFUSED));
    sys.close(near);
    let near = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
    assert_eq!(sys.connect(near, 80), 0);
    let far = u64::try_from(finish(&mut kernel, server).result).expect("a connection");

    for round in 0..100u8 {
        let data = [round; 1000];
        assert_eq!(Task(&mut kernel, client).write(near, &data), 1000);
        let mut room = [0; 2000];
        assert_eq!(Task(&mut kernel, server).read(far, &mut room), 1000);
        assert_eq!(room[..1000], data);
        assert_eq!(Task(&mut kernel, server).write(far, &data[..1]), 1);
        assert_eq!(Task(&mut kernel, client).read(near, &mut room), 1);
    }
    Task(&mut kernel, client).close(near);
    assert_eq!(Task(&mut kernel, server).read(far, &mut [0; 1]), 0);
}

/// Sends this many bytes through a connection between two fibers; what arrived.
fn transfer(kernel: &mut Kernel, machine: MachineId, port: u16, bytes: usize) -> (usize, u64) {
    use std::cell::Cell;
    use std::rc::Rc;
    fn pattern(at: usize) -> u8 {
        (at % 251) as u8
    }
    let arrived = Rc::new(Cell::new((0, 0)));
    let sum = arrived.clone();
    let server = kernel.fiber(machine, move |mut fiber: &Fiber| {
        let listener = fiber.listen(port);
        let connection = fiber.ok(libc::SYS_accept, &[listener, 0, 0]);
        let mut room = vec![0; 65536];
        loop {
            let got = fiber.read(connection, &mut room);
            let Some(got) = usize::try_from(got).ok().filter(|n| *n > 0) else {
                break;
            };
            let (count, wrong) = sum.get();
            let bad = room[..got]
                .iter()
                .enumerate()
                .filter(|(i, b)| **b != pattern(count + i));
            sum.set((count + got, wrong + bad.count() as u64));
        }
        fiber.close(connection);
        fiber.close(listener);
        0
    });
    let client = kernel.fiber(machine, move |mut fiber: &Fiber| {
        let connection = fiber.socket(libc::AF_INET, libc::SOCK_STREAM);
        assert_eq!(fiber.connect(connection, port), 0);
        let mut sent = 0;
        while sent < bytes {
            let chunk: Vec<u8> = (sent..bytes.min(sent + 65536)).map(pattern).collect();
            let wrote = fiber.write(connection, &chunk);
            sent += usize::try_from(wrote).expect("a count");
        }
        fiber.close(connection);
        0
    });
    let (server, client) = (server.expect("a fiber"), client.expect("a fiber"));
    let mut open = 2;
    while open > 0 {
        let deadline = kernel.run().expect("it runs");
        while let Some(event) = kernel.next_event() {
            match event {
                vink_kernel::Event::Gone { task, status } => {
                    assert!(task == server || task == client);
                    assert_eq!(status, 0);
                    open -= 1;
                }
                other => panic!("{other:?}"),
            }
        }
        if open > 0 {
            kernel.wait(deadline.expect("a timer"));
        }
    }
    arrived.get()
}

#[test]
fn a_large_transfer_between_fibers_arrives_whole() {
    let (mut kernel, machine) = one_machine(Config::default());
    let before = kernel.counters().expect("counters").files;
    assert_eq!(transfer(&mut kernel, machine, 80, 64 << 20), (64 << 20, 0));
    assert_eq!(kernel.counters().expect("counters").files, before);
}

#[test]
fn two_kernels_on_two_threads() {
    let threads: Vec<_> = (0..2u16)
        .map(|number| {
            std::thread::spawn(move || {
                let (mut kernel, machine) = one_machine(Config::default());
                for round in 0..20 {
                    let bytes = 3 << 20;
                    let port = 80 + 100 * number + round;
                    assert_eq!(transfer(&mut kernel, machine, port, bytes), (bytes, 0));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread");
    }
}

#[test]
fn a_killed_client_is_seen_by_its_peer() {
    let (mut kernel, machine) = one_machine(Config::default());
    let client = kernel.task(machine).expect("a task");
    let server = kernel.fiber(machine, |mut fiber: &Fiber| {
        let listener = fiber.listen(80);
        let connection = fiber.ok(libc::SYS_accept, &[listener, 0, 0]);
        assert_eq!(fiber.read(connection, &mut [0; 8]), 2);
        fiber.read(connection, &mut [0; 8]) as i32
    });
    let server = server.expect("a fiber");
    kernel.run().expect("it runs");
    let mut sys = Task(&mut kernel, client);
    let fd = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
    assert_eq!(sys.connect(fd, 80), 0);
    assert_eq!(sys.write(fd, b"hi"), 2);
    let mut room = [0u8; 8];
    let read = Call {
        nr: libc::SYS_read,
        args: [fd, at_mut(&mut room), 8, 0, 0, 0],
        ..Call::default()
    };
    kernel.start(client, read).expect("it starts");
    kernel.run().expect("it runs");
    kernel
        .exit_task(client, libc::SIGKILL, true)
        .expect("it exits");
    assert_eq!(finish_task(&mut kernel, server), 0);
}
