//! Bad pointers, in this process and in another one, and panics on purpose.

mod common;

use std::mem::size_of;

use common::{finish, local, loopback, one_machine, six, Caller, Task};
use libc::EFAULT;
use vink_abi::{VINK_CALL_TEST, VINK_TEST_BUG, VINK_TEST_NULL, VINK_TEST_STACK};
use vink_kernel::{Call, Config, Error, Fiber, Kernel, MachineId, Panic, TaskId};
use vink_sys::mapping::{Mapping, Pages};
use vink_sys::memory::read;
use vink_sys::plain::Zeroed;
use vink_sys::process::{kill, waitpid};

const PAGE: u64 = 4096;

/// Two pages that can be used and one that can't, in this process and, by fork(2), in a child that
/// only waits.
struct Memory {
    pages: Mapping,
    start: u64,
    child: i32,
}

impl Memory {
    fn new() -> Memory {
        let page = PAGE as usize;
        let pages = Mapping::new(3 * page).expect("pages");
        let last = 2 * page..3 * page;
        pages.replace(last, Pages::Guard).expect("a guard");
        Memory {
            start: pages.start() as u64,
            pages,
            child: 0,
        }
    }

    /// Where the page that can't be used begins.
    fn end(&self) -> u64 {
        self.start + 2 * PAGE
    }

    /// Puts a value at this offset.
    fn put<T>(&self, offset: u64, value: T) -> u64 {
        assert!(offset + size_of::<T>() as u64 <= 2 * PAGE);
        let address = self.start + offset;
        // SAFETY: inside of the mapping.
        unsafe { (address as *mut T).write_unaligned(value) };
        address
    }

    /// Makes the child: from now on it has what is in the memory.
    fn fork(&mut self) -> u64 {
        // SAFETY: the child only makes calls that are safe after fork() in a threaded process.
        unsafe {
            self.child = libc::fork();
            if self.child == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
        }
        assert!(self.child > 0, "fork: {}", std::io::Error::last_os_error());
        self.child as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.child > 0 {
            let _ = kill(self.child, libc::SIGKILL);
            let _ = waitpid(self.child, 0);
        }
    }
}

/// A call that succeeds as it is, and fails with `EFAULT` with any of these arguments spoilt.
struct Sample {
    what: &'static str,
    nr: i64,
    args: [u64; 6],
    /// Positions, and how many bytes the kernel reads or writes there.
    pointers: Vec<(usize, u64)>,
}

fn sample(what: &'static str, nr: i64, args: &[u64], pointers: &[(usize, u64)]) -> Sample {
    Sample {
        what,
        nr,
        args: six(args),
        pointers: pointers.to_vec(),
    }
}

fn call(kernel: &mut Kernel, task: TaskId, space: u64, nr: i64, args: [u64; 6]) -> i64 {
    kernel
        .start(
            task,
            Call {
                nr,
                args,
                space,
                ..Call::default()
            },
        )
        .expect("it starts");
    let result = finish(kernel, task).result;
    while kernel.next_event().is_some() {}
    result
}

fn samples(memory: &Memory, sys: &mut Task) -> Vec<Sample> {
    use libc::*;
    // A string that runs out of the memory.
    memory.put(PAGE, [b'x'; PAGE as usize]);
    let address = memory.put(0, local(7));
    let length = memory.put(64, 16u32);
    let buffer = memory.put(128, [1u8; 256]);
    let interface = memory.put(512, loopback(0));
    let request = size_of::<ifreq>() as u64;
    let number = memory.put(640, 1u64);
    let pair = memory.put(704, [0i32; 2]);
    let time = memory.put(
        768,
        timespec {
            tv_sec: 0,
            tv_nsec: 1,
        },
    );
    let path = memory.put(832, *b"/proc/net/tcp\0");
    let polled = memory.put(
        896,
        pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        },
    );
    let event = memory.put(
        960,
        epoll_event {
            events: EPOLLOUT as u32,
            u64: 7,
        },
    );
    let vector = iovec {
        iov_base: buffer as *mut _,
        iov_len: 8,
    };
    let vectors = memory.put(1024, vector);
    let mut header = msghdr::zeroed();
    header.msg_name = address as *mut _;
    header.msg_namelen = 16;
    header.msg_iov = vectors as *mut _;
    header.msg_iovlen = 1;
    let message = memory.put(1088, header);
    let head = size_of::<msghdr>() as u64;
    let name = memory.put(2048, [0u8; size_of::<utsname>()]);

    let udp = sys.socket(AF_INET, SOCK_DGRAM);
    sys.bind(udp, 7);
    // Something to read, which peeking leaves there.
    sys.ok(SYS_sendto, &[udp, buffer, 32, 0, address, 16]);
    let fresh = sys.socket(AF_INET, SOCK_DGRAM);
    let epoll = sys.ok(SYS_epoll_create1, &[0]);
    let watched = sys.socket(AF_INET, SOCK_DGRAM);
    sys.ok(
        SYS_epoll_ctl,
        &[epoll, EPOLL_CTL_ADD as u64, watched, event],
    );
    // A failing read takes one as well.
    let counter = sys.ok(SYS_eventfd2, &[1000, EFD_SEMAPHORE as u64]);
    let peek = MSG_PEEK as u64;
    vec![
        // The first: others leave zeroes at the end of the memory.
        sample(
            "openat",
            SYS_openat,
            &[AT_FDCWD as u64, path, 0],
            &[(1, 14)],
        ),
        sample(
            "getsockname",
            SYS_getsockname,
            &[udp, address, length],
            &[(1, 16), (2, 4)],
        ),
        sample(
            "sendto",
            SYS_sendto,
            &[udp, buffer, 32, 0, address, 16],
            &[(1, 32), (4, 16)],
        ),
        sample(
            "recvfrom",
            SYS_recvfrom,
            &[udp, buffer, 32, peek, address, length],
            &[(1, 32), (4, 16), (5, 4)],
        ),
        sample("sendmsg", SYS_sendmsg, &[udp, message, 0], &[(1, head)]),
        sample("recvmsg", SYS_recvmsg, &[udp, message, peek], &[(1, head)]),
        sample("writev", SYS_writev, &[counter, vectors, 1], &[(1, 16)]),
        sample(
            "write to an eventfd",
            SYS_write,
            &[counter, number, 8],
            &[(1, 8)],
        ),
        sample(
            "read from an eventfd",
            SYS_read,
            &[counter, buffer, 8],
            &[(1, 8)],
        ),
        sample(
            "getsockopt",
            SYS_getsockopt,
            &[udp, SOL_SOCKET as u64, SO_SNDBUF as u64, number, length],
            &[(3, 4), (4, 4)],
        ),
        sample(
            "setsockopt",
            SYS_setsockopt,
            &[udp, SOL_SOCKET as u64, SO_REUSEADDR as u64, number, 4],
            &[(3, 4)],
        ),
        sample(
            "ioctl",
            SYS_ioctl,
            &[udp, SIOCGIFFLAGS, interface],
            &[(2, request)],
        ),
        sample("connect", SYS_connect, &[fresh, address, 16], &[(1, 16)]),
        sample("bind", SYS_bind, &[fresh, address, 16], &[(1, 16)]),
        sample("socketpair", SYS_socketpair, &[1, 1, 0, pair], &[(3, 8)]),
        sample("pipe2", SYS_pipe2, &[pair, 0], &[(0, 8)]),
        sample(
            "uname",
            SYS_uname,
            &[name],
            &[(0, size_of::<utsname>() as u64)],
        ),
        sample("poll", SYS_poll, &[polled, 1, 0], &[(0, 8)]),
        sample("nanosleep", SYS_nanosleep, &[time, 0], &[(0, 16)]),
        sample("clock_gettime", SYS_clock_gettime, &[1, time], &[(1, 16)]),
        sample("nanosleep", SYS_nanosleep, &[time, 0], &[]),
        sample(
            "epoll_ctl",
            SYS_epoll_ctl,
            &[epoll, 3, watched, event],
            &[(3, 12)],
        ),
        sample(
            "epoll_wait",
            SYS_epoll_wait,
            &[epoll, event, 1, 0],
            &[(1, 12)],
        ),
        sample("getrandom", SYS_getrandom, &[buffer, 64, 0], &[]),
    ]
}

#[test]
fn bad_pointers_are_efault_in_any_position_and_any_process() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let mut memory = Memory::new();
    let samples = samples(&memory, &mut Task(&mut kernel, task));
    let child = memory.fork();
    let end = memory.end();
    let mut tried = 0;
    for space in [0, child] {
        for Sample {
            what,
            nr,
            args,
            pointers,
        } in &samples
        {
            for (position, bytes) in pointers {
                for bad in [
                    8,
                    end,
                    end - 1,
                    end - bytes + 1,
                    1 << 63,
                    1 << 47,
                    u64::MAX - 4096,
                ] {
                    let mut args = *args;
                    args[*position] = bad;
                    let result = call(&mut kernel, task, space, *nr, args);
                    assert_eq!(
                        result,
                        -i64::from(EFAULT),
                        "{what}, argument {position} = {bad:#x} of process {space}"
                    );
                    tried += 1;
                }
            }
            if *nr != libc::SYS_connect && *nr != libc::SYS_bind {
                let result = call(&mut kernel, task, space, *nr, *args);
                assert!(
                    result >= 0,
                    "{what}, all arguments good, process {space}: {result}"
                );
            }
        }
    }
    assert!(tried > 300, "{tried}");
    assert!(kernel.counters().is_ok());
}

#[test]
fn pointers_inside_of_structures_are_efault_too() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let mut memory = Memory::new();
    let udp = Task(&mut kernel, task).socket(libc::AF_INET, libc::SOCK_DGRAM);
    let address = memory.put(0, local(9));
    let buffer = memory.put(64, [1u8; 64]);
    let mut messages = Vec::new();
    for bad in [8, memory.end() - 1, 1 << 63] {
        for spoilt in 0..4 {
            let pick = |place, good: u64| if spoilt == place { bad } else { good };
            let at = 512 + messages.len() as u64 * 128;
            let base = pick(0, buffer) as *mut _;
            let vector = memory.put(
                at,
                libc::iovec {
                    iov_base: base,
                    iov_len: 64,
                },
            );
            let mut header = libc::msghdr::zeroed();
            header.msg_iov = pick(1, vector) as *mut _;
            header.msg_iovlen = 1;
            header.msg_name = pick(2, address) as *mut _;
            header.msg_namelen = 16;
            if spoilt == 3 {
                header.msg_control = bad as *mut _;
                header.msg_controllen = 32;
            }
            messages.push(memory.put(at + 16, header));
        }
    }
    let child = memory.fork();
    for space in [0, child] {
        for message in &messages {
            let args = six(&[udp, *message, 0]);
            let result = call(&mut kernel, task, space, libc::SYS_sendmsg, args);
            assert_eq!(result, -i64::from(EFAULT));
        }
    }
}

#[test]
fn what_a_call_writes_is_found_in_the_other_process() {
    let (mut kernel, machine) = one_machine(Config::default());
    let task = kernel.task(machine).expect("a task");
    let mut memory = Memory::new();
    let child = memory.fork();
    assert_eq!(
        call(
            &mut kernel,
            task,
            child,
            libc::SYS_uname,
            six(&[memory.start])
        ),
        0
    );
    let mut here = vec![0u8; size_of::<libc::utsname>()];
    assert!(read(child as i32, memory.start, &mut here));
    assert!(here.starts_with(b"Linux\0"));
    assert!(here.windows(6).any(|w| w == b"alice\0"));
    // The child's copy was written.
    let mut own = [1];
    memory.pages.read(0, &mut own);
    assert_eq!(own, [0]);
}

/// Calls that don't panic but for these.
fn panic_of(kernel: &mut Kernel, machine: MachineId, kind: u64) -> Panic {
    let task = kernel.task(machine).expect("a task");
    match kernel.call(task, VINK_CALL_TEST.into(), six(&[kind])) {
        Err(Error::Panic(panic)) => *panic,
        other => panic!("{other:?}"),
    }
}

fn check(panic: &Panic, function: &str) {
    let names: Vec<_> = panic
        .backtrace
        .iter()
        .filter_map(|f| f.symbol.as_ref())
        .collect();
    assert!(
        names.iter().any(|(name, _)| name.contains(function)),
        "{function} is not in the backtrace: {panic}\n{}",
        panic.log
    );
    assert!(!panic.message.is_empty() && !panic.message.contains('\n'));
    assert!(panic.log.contains("Kernel panic"), "{}", panic.log);
    assert!(panic.log.contains("Linux version"));
}

#[test]
fn a_panic_is_an_error_with_a_backtrace_and_stays_in_its_kernel() {
    let (mut other, other_machine) = one_machine(Config::default());
    for (kind, function) in [
        (VINK_TEST_BUG, "vink_control_call"),
        (VINK_TEST_NULL, "vink_control_call"),
        (VINK_TEST_STACK, "test_recursion"),
    ] {
        let (mut kernel, machine) = one_machine(Config::default());
        let waits = kernel.fiber(machine, |fiber| fiber.call(libc::SYS_pause, [0; 6]) as i32);
        waits.expect("a fiber");
        kernel.run().expect("it runs");
        let panic = panic_of(&mut kernel, machine, kind);
        check(&panic, function);
        // From then on it is all that it says.
        for result in [
            kernel.run().map(|_| ()),
            kernel.machine("x").map(|_| ()),
            kernel.counters().map(|_| ()),
            kernel.fiber(machine, |_| 0).map(|_| ()),
        ] {
            assert!(matches!(result, Err(Error::Panic(p)) if p.message == panic.message));
        }
        assert!(kernel.log().contains("Kernel panic"));
        drop(kernel);

        let task = other.task(other_machine).expect("a task");
        Task(&mut other, task).listen(1000 + kind as u16);
    }
}

#[test]
fn a_fiber_that_panics_the_kernel_does_not_take_the_thread_with_it() {
    for kind in [VINK_TEST_BUG, VINK_TEST_NULL, VINK_TEST_STACK] {
        let (mut kernel, machine) = one_machine(Config::default());
        let fiber = kernel.fiber(machine, move |mut fiber: &Fiber| {
            fiber.sys(VINK_CALL_TEST.into(), &[kind]);
            unreachable!("the kernel is dead");
        });
        fiber.expect("a fiber");
        match kernel.run() {
            Err(Error::Panic(panic)) => {
                assert!(panic.backtrace[0].symbol.is_some(), "{panic}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn addresses_have_names() {
    let (kernel, _) = one_machine(Config::default());
    let here = kernel.symbolise(common::at(&kernel));
    assert_eq!(here.symbol, None);
    assert_eq!(here.to_string(), format!("{:#x}", here.addr));
}
