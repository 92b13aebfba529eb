//! Probes: the kernel's tracepoints are told, with what they are about.

mod common;

use common::{boot, one_machine, Caller, Task};
use vink_kernel::{Clock, Config, Copied, Error, Kernel, ProbeHit, TaskId};

/// A connection over the loopback interface, and its two ends.
fn connected(kernel: &mut Kernel, task: TaskId, port: u16) -> (u64, u64) {
    let mut task = Task(kernel, task);
    let listener = task.listen(port);
    let client = task.socket(libc::AF_INET, libc::SOCK_STREAM);
    assert_eq!(task.connect(client, port), 0);
    (client, task.ok(libc::SYS_accept, &[listener, 0, 0]))
}

fn passages(kernel: &mut Kernel) -> Vec<ProbeHit> {
    std::iter::from_fn(|| kernel.next_passage()).collect()
}

#[test]
fn each_segment_of_a_connection_is_told() {
    let (mut kernel, machine) = one_machine(Config {
        clock: Clock::Virtual,
        ..Config::default()
    });
    let task = kernel.task(machine).expect("a task");
    let (client, server) = connected(&mut kernel, task, 80);
    let copied = Copied {
        bytes: 64,
        only: None,
    };
    let probe = kernel.probe("tcp_probe", copied).expect("a probe");
    for n in 0..5 {
        assert_eq!(Task(&mut kernel, task).write(client, b"five"), 4, "{n}");
    }
    let found = passages(&mut kernel);
    let now = kernel.now();
    assert!(found.iter().all(|p| p.probe == probe && p.time <= now));
    assert!(found.iter().all(|p| p.bytes.len() == 64));
    // Data and acknowledgements: what has data belongs to one end, what has none to the other.
    let mut sockets: Vec<u64> = found.iter().map(|passage| passage.args[0]).collect();
    assert_eq!(sockets.iter().filter(|at| **at == sockets[0]).count(), 5);
    sockets.sort_unstable();
    sockets.dedup();
    assert!((1..=2).contains(&sockets.len()), "{sockets:x?}");

    kernel.end_probe(probe).expect("it ends");
    Task(&mut kernel, task).write(server, b"unseen");
    assert_eq!(passages(&mut kernel), []);
    assert!(matches!(
        kernel.end_probe(probe),
        Err(Error::Errno {
            errno: libc::ENOENT,
            ..
        })
    ));
    assert_eq!(kernel.missed_passages(), 0);
}

#[test]
fn two_probes_of_a_tracepoint_each_have_their_own_wishes() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let copied = |bytes, only| Copied { bytes, only };
    let all = kernel.probe("inet_sock_set_state", copied(16, None));
    let all = all.expect("a probe");
    let none = copied(8, Some((0, u64::MAX)));
    kernel.probe("inet_sock_set_state", none).expect("another");
    connected(&mut kernel, task, 80);
    let found = passages(&mut kernel);
    assert!(!found.is_empty());
    assert!(found.iter().all(|p| p.probe == all && p.bytes.len() == 16));
    // What is at the start of the first one found: the addresses, which sockets that listen do not
    // have.
    let start = &found[0].bytes[..8];
    let number = u64::from_ne_bytes(start.try_into().expect("eight bytes"));
    let some = copied(0, Some((0, number)));
    let some = kernel.probe("inet_sock_set_state", some).expect("a third");
    connected(&mut kernel, task, 81);
    let found = passages(&mut kernel);
    let told = |probe, start: &[u8]| -> Vec<[u64; 3]> {
        let told = found.iter().filter(|p| p.probe == probe);
        let told = told.filter(|p| p.bytes.starts_with(start));
        told.map(|p| p.args).collect()
    };
    assert_eq!(told(some, &[]), told(all, start));
    assert!(told(all, start).len() < told(all, &[]).len());
}

#[test]
fn a_tracepoint_that_is_not_there_is_refused() {
    let mut kernel = boot(Config::default());
    let refused = kernel.probe("tcp_prob", Copied::default());
    assert!(matches!(
        refused,
        Err(Error::Errno {
            errno: libc::ESRCH,
            ..
        })
    ));
}
