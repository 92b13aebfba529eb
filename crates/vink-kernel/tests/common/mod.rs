//! What the tests share: kernels, and system calls by name for tasks and fibers.
#![allow(dead_code, reason = "each test uses a part")]

use std::mem::size_of_val;
use std::path::Path;

use vink_kernel::{find_image, Config, Fiber, Image, Kernel, MachineId, Outcome, TaskId};

/// A private copy of the image that was built.
pub fn image() -> Image {
    // Where `build/` is.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::set_current_dir(root).expect("the workspace");
    let path = find_image().unwrap_or_else(|error| panic!("these tests need an image: {error}"));
    Image::open(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// A kernel that tells its log if the test fails.
pub fn boot(config: Config) -> Kernel {
    Kernel::boot(image(), config).unwrap_or_else(|error| panic!("{error}"))
}

/// A kernel and one machine with its loopback interface up.
pub fn one_machine(config: Config) -> (Kernel, MachineId) {
    let mut kernel = boot(config);
    let machine = kernel.machine("alice").expect("a machine");
    let task = kernel.task(machine).expect("a task");
    Task(&mut kernel, task).loopback_up();
    kernel.exit_task(task, 0, true).expect("it exits");
    kernel.run().expect("it runs");
    assert_eq!(
        kernel.next_event(),
        Some(vink_kernel::Event::Gone { task, status: 0 }),
        "nothing else has happened"
    );
    (kernel, machine)
}

/// Runs the kernel, timers included, until the task's call is done.
pub fn finish(kernel: &mut Kernel, task: TaskId) -> Outcome {
    loop {
        let deadline = kernel.run().expect("it runs");
        if let Some(outcome) = kernel.poll(task) {
            return outcome;
        }
        kernel.wait(deadline.expect("the call ends"));
    }
}

/// Runs the kernel, timers included, until this task is gone; its status.
pub fn finish_task(kernel: &mut Kernel, wanted: TaskId) -> i32 {
    loop {
        let deadline = kernel.run().expect("it runs");
        while let Some(event) = kernel.next_event() {
            match event {
                vink_kernel::Event::Gone { task, status } if task == wanted => return status,
                _ => {}
            }
        }
        kernel.wait(deadline.expect("the task ends"));
    }
}

/// The address of something that a call reads.
pub fn at<T: ?Sized>(thing: &T) -> u64 {
    (&raw const *thing).cast::<u8>() as u64
}

/// As [`at`], for what is written.
pub fn at_mut<T: ?Sized>(thing: &mut T) -> u64 {
    (&raw mut *thing).cast::<u8>() as u64
}

/// 127.0.0.1 and a port.
pub fn local(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    }
}

/// An interface request for `lo` with these flags.
pub fn loopback(flags: i32) -> libc::ifreq {
    let mut name = [0; libc::IFNAMSIZ];
    name[0] = b'l' as libc::c_char;
    name[1] = b'o' as libc::c_char;
    let ifru_flags = flags as libc::c_short;
    libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags },
    }
}

/// What makes system calls.
pub trait Caller {
    /// The raw result.
    fn sys(&mut self, nr: i64, args: &[u64]) -> i64;

    /// A result that is no error.
    fn ok(&mut self, nr: i64, args: &[u64]) -> u64 {
        let result = self.sys(nr, args);
        u64::try_from(result).unwrap_or_else(|_| panic!("call {nr} {args:x?}: {}", words(result)))
    }

    /// Fails with this error.
    fn fails(&mut self, errno: i32, nr: i64, args: &[u64]) {
        let result = self.sys(nr, args);
        assert_eq!(
            result,
            -i64::from(errno),
            "call {nr} {args:x?}: {}",
            words(result)
        );
    }

    fn socket(&mut self, domain: i32, kind: i32) -> u64 {
        self.ok(libc::SYS_socket, &[domain as u64, kind as u64, 0])
    }

    /// Two Unix sockets that are connected.
    fn socket_pair(&mut self, kind: i32) -> [u64; 2] {
        let mut pair = [0u32; 2];
        self.ok(
            libc::SYS_socketpair,
            &[libc::AF_UNIX as u64, kind as u64, 0, at_mut(&mut pair)],
        );
        pair.map(u64::from)
    }

    fn close(&mut self, fd: u64) {
        self.ok(libc::SYS_close, &[fd]);
    }

    fn bind(&mut self, fd: u64, port: u16) {
        let address = local(port);
        self.ok(
            libc::SYS_bind,
            &[fd, at(&address), size_of_val(&address) as u64],
        );
    }

    fn connect(&mut self, fd: u64, port: u16) -> i64 {
        let address = local(port);
        self.sys(
            libc::SYS_connect,
            &[fd, at(&address), size_of_val(&address) as u64],
        )
    }

    /// A listening TCP socket.
    fn listen(&mut self, port: u16) -> u64 {
        let fd = self.socket(libc::AF_INET, libc::SOCK_STREAM);
        self.bind(fd, port);
        self.ok(libc::SYS_listen, &[fd, 16]);
        fd
    }

    fn write(&mut self, fd: u64, data: &[u8]) -> i64 {
        self.sys(libc::SYS_write, &[fd, at(data), data.len() as u64])
    }

    fn read(&mut self, fd: u64, room: &mut [u8]) -> i64 {
        self.sys(libc::SYS_read, &[fd, at_mut(room), room.len() as u64])
    }

    fn loopback_up(&mut self) {
        let fd = self.socket(libc::AF_INET, libc::SOCK_DGRAM);
        let request = loopback(libc::IFF_UP | libc::IFF_RUNNING);
        self.ok(libc::SYS_ioctl, &[fd, libc::SIOCSIFFLAGS, at(&request)]);
        self.close(fd);
    }

    /// At most this many descriptors.
    fn limit_descriptors(&mut self, limit: u64) {
        let limit = libc::rlimit {
            rlim_cur: limit,
            rlim_max: limit,
        };
        self.ok(
            libc::SYS_setrlimit,
            &[libc::RLIMIT_NOFILE.into(), at(&limit)],
        );
    }
}

/// A remote task whose calls end by themselves.
pub struct Task<'a>(pub &'a mut Kernel, pub TaskId);

impl Caller for Task<'_> {
    fn sys(&mut self, nr: i64, args: &[u64]) -> i64 {
        self.0
            .call(self.1, nr, six(args))
            .unwrap_or_else(|error| panic!("call {nr}: {error}"))
    }
}

impl Caller for &Fiber {
    fn sys(&mut self, nr: i64, args: &[u64]) -> i64 {
        self.call(nr, six(args))
    }
}

/// The arguments, and zeroes.
pub fn six(args: &[u64]) -> [u64; 6] {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    all
}

fn words(result: i64) -> String {
    match result {
        0.. => format!("succeeded with {result}"),
        _ => std::io::Error::from_raw_os_error(-result as i32).to_string(),
    }
}
