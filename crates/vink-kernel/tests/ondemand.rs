//! Protocols that wait until first use: absent, asked for, then there for every machine.

mod common;

use common::{at, at_mut, boot, Caller, Task};
use libc::{
    AF_INET, AF_INET6, AF_NETLINK, ENOENT, EOPNOTSUPP, EPROTONOSUPPORT, SOCK_RAW, SOCK_STREAM,
};
use vink_kernel::{Config, Kernel, MachineId, TaskId};

fn two_machines() -> (Kernel, [MachineId; 2]) {
    let mut kernel = boot(Config::default());
    let machines = ["alice", "bob"].map(|name| kernel.machine(name).expect("a machine"));
    (kernel, machines)
}

/// The error that opening this file ends in, or 0.
fn open_error(kernel: &mut Kernel, task: TaskId, path: &std::ffi::CStr) -> i32 {
    let mut sys = Task(kernel, task);
    match sys.sys(libc::SYS_open, &[at(path), libc::O_RDONLY as u64, 0]) {
        error @ ..0 => -error as i32,
        fd => {
            sys.close(fd as u64);
            0
        }
    }
}

#[test]
fn a_protocol_starts_in_every_machine_when_one_asks_for_it() {
    let (mut kernel, [alice, bob]) = two_machines();
    let [alice, bob] = [alice, bob].map(|machine| kernel.task(machine).expect("a task"));
    let asked = [
        (
            c"/proc/sys/net/sctp/rto_min",
            [AF_INET, SOCK_STREAM, libc::IPPROTO_SCTP],
        ),
        (
            c"/proc/sys/net/netfilter/nf_conntrack_max",
            [AF_NETLINK, SOCK_RAW, libc::NETLINK_NETFILTER],
        ),
    ];
    for (path, [domain, kind, protocol]) in asked {
        let args = [domain as u64, kind as u64, protocol as u64];
        for task in [alice, bob] {
            assert_eq!(open_error(&mut kernel, task, path), ENOENT, "{path:?}");
        }
        for task in [alice, bob, alice] {
            let mut sys = Task(&mut kernel, task);
            let fd = sys.ok(libc::SYS_socket, &args);
            sys.close(fd);
        }
        for task in [alice, bob] {
            assert_eq!(open_error(&mut kernel, task, path), 0, "{path:?}");
        }
        let later = kernel.machine("carol").expect("a machine");
        let task = kernel.task(later).expect("a task");
        assert_eq!(open_error(&mut kernel, task, path), 0, "{path:?}");
    }
}

/// Asks for an interface of this kind, as `ip link add type KIND` does; the errno of the answer.
fn add_link(kernel: &mut Kernel, task: TaskId, kind: &[u8]) -> i32 {
    const INFO_KIND: u16 = 1;
    let attribute = |kind: u16, value: &[u8]| {
        let len = (4 + value.len()) as u16;
        let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let info = attribute(libc::IFLA_LINKINFO, &attribute(INFO_KIND, kind));
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE) as u16;
    let mut message = (32 + info.len() as u32).to_ne_bytes().to_vec();
    message.extend_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    // The sequence and port numbers, and an ifinfomsg that says nothing.
    message.resize(32, 0);
    message.extend_from_slice(&info);

    let mut sys = Task(kernel, task);
    let fd = sys.socket(AF_NETLINK, SOCK_RAW);
    assert_eq!(sys.write(fd, &message), message.len() as i64);
    let mut answer = [0u8; 512];
    let len = sys.ok(
        libc::SYS_recvfrom,
        &[fd, at_mut(&mut answer), answer.len() as u64, 0, 0, 0],
    );
    sys.close(fd);
    assert!(len >= 20, "an answer of {len} bytes");
    assert_eq!(answer[4..6], (libc::NLMSG_ERROR as u16).to_ne_bytes());
    -i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]])
}

#[test]
fn tunnels_start_when_one_is_made() {
    let (mut kernel, machines) = two_machines();
    let kinds: [&[u8]; 7] = [
        b"ipip",
        b"gre",
        b"sit",
        b"ip6tnl",
        b"ip6gre",
        b"gretap",
        b"ip6gretap",
    ];
    for machine in machines {
        let task = kernel.task(machine).expect("a task");
        for kind in kinds {
            let name = String::from_utf8_lossy(kind);
            assert_eq!(add_link(&mut kernel, task, kind), 0, "{name}");
        }
        assert_eq!(add_link(&mut kernel, task, b"nothing"), EOPNOTSUPP);
    }
}

#[test]
fn unknown_modules_are_still_refused() {
    let (mut kernel, [alice, _]) = two_machines();
    let task = kernel.task(alice).expect("a task");
    let before = kernel.counters().expect("counters");
    for domain in [AF_INET, AF_INET6] {
        let args = [domain as u64, SOCK_STREAM as u64, 99];
        Task(&mut kernel, task).fails(EPROTONOSUPPORT, libc::SYS_socket, &args);
    }
    let after = kernel.counters().expect("counters");
    assert_eq!((after.tasks, after.sockets), (before.tasks, before.sockets));
}
