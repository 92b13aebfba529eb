//! What a task with a user's credentials can't do: each attempt fails, and what it was about is as before.

mod common;

use std::sync::{Arc, Mutex};

use common::{at, at_mut, boot, loopback, Caller, Task};
use libc::{c_int, EACCES, EINVAL, ENOSPC, EPERM, EPROTONOSUPPORT};
use vink_abi::VINK_CALL_MACHINE_FD;
use vink_kernel::{CloneKind, Config, Credentials, Error, Kernel, MachineId, TaskId};

const SCTP: u64 = 132;

/// A kernel with a machine whose loopback interface is up, a task of root's and one of a user's.
fn both() -> (Kernel, MachineId, TaskId, TaskId) {
    let mut kernel = boot(Config::default());
    let machine = kernel.machine("alice").expect("a machine");
    let root = kernel.task(machine).expect("a task");
    Task(&mut kernel, root).loopback_up();
    let user = kernel.task_with(machine, Credentials::USER);
    (kernel, machine, root, user.expect("a task"))
}

fn set_option(sys: &mut impl Caller, fd: u64, level: c_int, option: c_int, value: c_int) -> i64 {
    let size = size_of_val(&value) as u64;
    let (level, option) = (level as u64, option as u64);
    sys.sys(
        libc::SYS_setsockopt,
        &[fd, level, option, at(&value), size, 0],
    )
}

fn open(sys: &mut impl Caller, path: &std::ffi::CStr, flags: c_int) -> i64 {
    let path = path.as_ptr() as u64;
    sys.sys(
        libc::SYS_openat,
        &[libc::AT_FDCWD as u64, path, flags as u64],
    )
}

/// What is in a short file.
fn text(sys: &mut impl Caller, path: &std::ffi::CStr) -> String {
    let fd = open(sys, path, libc::O_RDONLY) as u64;
    let mut room = [0; 256];
    let len = sys.read(fd, &mut room);
    sys.close(fd);
    String::from_utf8_lossy(&room[..len as usize]).into_owned()
}

/// Every attempt, by whatever task of a user's it is made.
fn attempts(sys: &mut impl Caller, machine: MachineId) {
    let refused = |result: i64, errno: c_int, what: &str| {
        assert_eq!(result, -i64::from(errno), "{what}");
    };
    // Packets past the rules.
    let packet = libc::AF_PACKET as u64;
    for (family, kind, protocol) in [
        (libc::AF_INET as u64, libc::SOCK_RAW, libc::IPPROTO_RAW),
        (libc::AF_INET as u64, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        (libc::AF_INET6 as u64, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        (packet, libc::SOCK_RAW, 0x0300),
        (packet, libc::SOCK_DGRAM, 0x0300),
    ] {
        let args = [family, kind as u64, protocol as u64];
        sys.fails(EPERM, libc::SYS_socket, &args);
    }
    // What rules or routes look at.
    let socket = sys.socket(libc::AF_INET, libc::SOCK_DGRAM);
    for (level, option) in [
        (libc::SOL_SOCKET, libc::SO_MARK),
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
        (libc::SOL_SOCKET, libc::SO_DEBUG),
        (libc::SOL_IP, libc::IP_TRANSPARENT),
    ] {
        let expected = match option {
            libc::SO_DEBUG => EACCES,
            _ => EPERM,
        };
        let done = set_option(sys, socket, level, option, 1);
        refused(done, expected, &format!("option {option}"));
    }
    refused(
        set_option(sys, socket, libc::SOL_SOCKET, libc::SO_PRIORITY, 7),
        EPERM,
        "a priority of the kernel's own",
    );
    // Interfaces, addresses, routes, rules, neighbours, as old programs change them.
    let mut down = loopback(0);
    for request in [
        libc::SIOCSIFFLAGS,
        libc::SIOCSIFADDR,
        libc::SIOCSIFMTU,
        libc::SIOCSIFNAME,
        libc::SIOCSIFHWADDR,
        libc::SIOCADDRT,
        libc::SIOCSARP,
    ] {
        let args = [socket, request, at_mut(&mut down)];
        sys.fails(EPERM, libc::SYS_ioctl, &args);
    }
    // A TUN interface.
    let tun = open(sys, c"/dev/net/tun", libc::O_RDWR);
    let tun = u64::try_from(tun).expect("its file, as on any host");
    let mut new = loopback(libc::IFF_TUN);
    new.ifr_name = [0; libc::IFNAMSIZ];
    sys.fails(
        EPERM,
        libc::SYS_ioctl,
        &[tun, libc::TUNSETIFF, at_mut(&mut new)],
    );
    // Sysctls.
    for path in [
        c"/proc/sys/net/ipv4/ip_forward",
        c"/proc/sys/net/ipv4/ping_group_range",
        c"/proc/sys/net/core/somaxconn",
        c"/proc/sys/kernel/unprivileged_bpf_disabled",
        c"/proc/sys/user/max_user_namespaces",
        c"/proc/sys/kernel/modprobe",
        c"/sys/class/net/lo/mtu",
    ] {
        let done = open(sys, path, libc::O_WRONLY);
        refused(done, EACCES, &path.to_string_lossy());
    }
    // Programs in the kernel.
    let mut attributes = [0u32; 32];
    attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
    let size = size_of_val(&attributes) as u64;
    for command in [0, 5] {
        // BPF_MAP_CREATE, BPF_PROG_LOAD.
        sys.fails(EPERM, libc::SYS_bpf, &[command, at(&attributes), size]);
    }
    // Namespaces; its own rights.
    sys.fails(EPERM, libc::SYS_unshare, &[libc::CLONE_NEWNET as u64]);
    sys.fails(EPERM, libc::SYS_unshare, &[libc::CLONE_NEWNS as u64]);
    for more in [0, libc::CLONE_NEWNET] {
        let flags = libc::CLONE_NEWUSER | more;
        let made = sys.sys(libc::SYS_unshare, &[flags as u64]);
        // There may be none; and a thread among others may not have one of its own.
        let refusals = [ENOSPC, EINVAL].map(|errno| -i64::from(errno));
        assert!(refusals.contains(&made), "a user namespace: {made}");
    }
    let own = sys.ok(VINK_CALL_MACHINE_FD.into(), &[machine.get()]);
    sys.fails(EPERM, libc::SYS_setns, &[own, libc::CLONE_NEWNET as u64]);
    for call in [libc::SYS_setuid, libc::SYS_setgid] {
        sys.fails(EPERM, call, &[0]);
    }
    let header = [0x2008_0522u32, 0];
    let all = [u32::MAX; 6];
    sys.fails(EPERM, libc::SYS_capset, &[at(&header), at(&all)]);
    let (none, folder) = (c"none".as_ptr() as u64, c"/".as_ptr() as u64);
    let kind = c"tmpfs".as_ptr() as u64;
    sys.fails(EPERM, libc::SYS_mount, &[none, folder, kind, 0, 0]);
    sys.fails(EPERM, libc::SYS_chroot, &[folder]);
    sys.fails(EPERM, libc::SYS_sethostname, &[none, 4]);
    // Another task of its machine's, which is root's.
    sys.fails(EPERM, libc::SYS_kill, &[1, libc::SIGTERM as u64]);
    for fd in [socket, tun, own] {
        sys.close(fd);
    }
}

/// ... and what it can do.
fn use_the_network(sys: &mut impl Caller, port: u16) {
    let listener = sys.listen(port);
    let caller = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
    assert_eq!(sys.connect(caller, port), 0);
    sys.close(caller);
    sys.close(listener);
}

#[test]
fn a_users_task_uses_the_network_and_changes_nothing() {
    let (mut kernel, machine, root, user) = both();
    let seen = |kernel: &mut Kernel| {
        let mut sys = Task(kernel, root);
        [
            c"/proc/net/dev_mcast",
            c"/proc/net/route",
            c"/proc/net/if_inet6",
            c"/proc/sys/net/ipv4/ip_forward",
            c"/proc/sys/net/ipv4/ping_group_range",
            c"/proc/sys/kernel/unprivileged_bpf_disabled",
        ]
        .map(|path| text(&mut sys, path))
    };
    let before = seen(&mut kernel);
    attempts(&mut Task(&mut kernel, user), machine);
    let child = kernel
        .clone_task(user, CloneKind::Process)
        .expect("a child");
    let thread = kernel.clone_task(child, CloneKind::Thread).expect("one");
    for inherits in [child, thread] {
        attempts(&mut Task(&mut kernel, inherits), machine);
    }
    assert_eq!(seen(&mut kernel), before);
    for task in [user, child, thread] {
        use_the_network(&mut Task(&mut kernel, task), 80);
    }
    let mut sys = Task(&mut kernel, user);
    let ids = [
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
    ];
    assert_eq!(ids.map(|call| sys.ok(call, &[])), [65534; 4]);
    // Root can do on the same machine what it could.
    let mut sys = Task(&mut kernel, root);
    let fd = sys.socket(libc::AF_PACKET, libc::SOCK_RAW);
    assert_eq!(
        set_option(&mut sys, fd, libc::SOL_SOCKET, libc::SO_MARK, 1),
        0
    );
    let path = c"/proc/sys/net/ipv4/ip_forward";
    let fd = open(&mut sys, path, libc::O_WRONLY) as u64;
    assert_eq!(sys.write(fd, b"1\n"), 2);
    assert_eq!(text(&mut sys, path), "1\n");
}

#[test]
fn a_fiber_can_be_a_users() {
    let (mut kernel, machine, ..) = both();
    let fiber = kernel.fiber_with(machine, Credentials::USER, move |mut fiber| {
        attempts(&mut fiber, machine);
        use_the_network(&mut fiber, 81);
        7
    });
    let fiber = fiber.expect("a fiber");
    assert_eq!(common::finish_task(&mut kernel, fiber), 7 << 8);
}

/// Protocols are started for those that may load modules, and said not to be for others.
#[test]
fn a_users_task_starts_no_protocol() {
    let log = Arc::new(Mutex::new(String::new()));
    let to = log.clone();
    let config = Config {
        console: Some(Box::new(move |text| {
            to.lock().expect("whole").push_str(text)
        })),
        ..Config::default()
    };
    let mut kernel = boot(config);
    let machine = kernel.machine("alice").expect("a machine");
    let root = kernel.task(machine).expect("a task");
    let user = kernel.task_with(machine, Credentials::USER).expect("one");
    let sctp = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, SCTP];
    let raw = [libc::AF_NETLINK as u64, libc::SOCK_RAW as u64];
    let netfilter = [raw[0], raw[1], libc::NETLINK_NETFILTER as u64];
    for _ in 0..3 {
        let mut sys = Task(&mut kernel, user);
        sys.fails(EPROTONOSUPPORT, libc::SYS_socket, &sctp);
        sys.fails(EPROTONOSUPPORT, libc::SYS_socket, &netfilter);
    }
    let said = log.lock().expect("whole").clone();
    assert!(said.contains("net-pf-2-proto-132"), "{said}");
    assert!(said.contains("CAP_SYS_MODULE"), "{said}");
    let mut sys = Task(&mut kernel, root);
    for args in [sctp, netfilter] {
        let fd = sys.ok(libc::SYS_socket, &args);
        sys.close(fd);
    }
    // What has been started is there for all.
    let mut sys = Task(&mut kernel, user);
    let fd = sys.ok(libc::SYS_socket, &sctp);
    sys.close(fd);
}

#[test]
fn credentials_that_there_are_none_of() {
    let (mut kernel, machine, ..) = both();
    let before = kernel.counters().expect("counters").tasks;
    for (uid, gid) in [(u32::MAX, 0), (0, u32::MAX)] {
        let capabilities = 0;
        let what = Credentials {
            uid,
            gid,
            capabilities,
        };
        let made = kernel.task_with(machine, what);
        assert!(matches!(made, Err(Error::Errno { errno: EINVAL, .. })));
    }
    assert_eq!(kernel.counters().expect("counters").tasks, before);
}
