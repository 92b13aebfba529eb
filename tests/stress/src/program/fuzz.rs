//! A program that makes random system calls: those that are trapped, and their neighbours.
//!
//! It must not harm the host, whatever Vink lets pass. So it has nothing but what it opens itself, opens
//! only what a list names, sends signals to itself and its own children alone, executes itself alone,
//! and has limits on what it forks and writes. What decides over that is never in memory that another
//! thread may change.
//!
//! From the first fork on nothing is allocated: a lock may be held by a thread that is no more.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::memory::Memory;
use crate::random::Random;

/// Descriptors that all threads of the process use.
static KNOWN: [AtomicI32; 48] = [const { AtomicI32::new(-1) }; 48];
/// Forks that this process may still make.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// For native asynchronous I/O (io_setup(2)); 0: none yet.
static CONTEXT: AtomicU64 = AtomicU64::new(0);
/// Signals whose handlers make a call as well.
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// The time between two ticks, in ns: any call that blocks is interrupted by one.
const TICK: i64 = 3_000_000;
const PORTS: u64 = 6;

/// What open(2) may be given: read-only ones, and ones of the machine's own that may be written.
const READABLE: [&std::ffi::CStr; 10] = [
    c"/proc/net/tcp",
    c"/proc/net/dev",
    c"/proc/net",
    c"/proc/self/net/udp",
    c"/sys/class/net",
    c"/sys/class/net/lo/mtu",
    c"/proc/sys/net/ipv4/ip_forward",
    c"/dev/null",
    c"/proc/self/status",
    c"/proc/net/nothing",
];
const WRITABLE: [&std::ffi::CStr; 2] = [
    c"/proc/sys/net/ipv4/ip_forward",
    c"/proc/sys/net/ipv4/tcp_ecn",
];

const LEVELS: [i32; 12] = [0, 1, 6, 17, 41, 58, 132, 255, 263, 270, 284, 77];

/// Calls whose arguments may be anything: they concern descriptors and memory of the process alone.
const ANY: [i64; 52] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_getdents64,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_copy_file_range,
    libc::SYS_uname,
    libc::SYS_io_uring_setup,
    libc::SYS_io_submit,
    libc::SYS_io_cancel,
    libc::SYS_io_destroy,
    libc::SYS_getpid,
];

/// A thread that makes calls.
struct Caller {
    random: Random,
    memory: Memory,
    /// May make threads: it has no lock that is held for ever.
    first: bool,
    /// Its children that have not been reaped; 0: none.
    children: [i32; 8],
    /// Calls still to be made.
    left: u64,
}

/// Makes so many calls, and may make so many forks.
pub(crate) fn run(seed: u64, calls: u64, forks: u32) {
    FORKS.store(forks, Ordering::Relaxed);
    for (resource, limit) in [
        (libc::RLIMIT_NOFILE, 200),
        (libc::RLIMIT_FSIZE, 1 << 20),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_AS, 1 << 30),
    ] {
        let limit = libc::rlimit {
            rlim_cur: limit,
            rlim_max: limit,
        };
        // SAFETY: reads the structure.
        unsafe { libc::setrlimit(resource, &limit) };
    }
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: no handler is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for (signal, flags) in [
        (libc::SIGALRM, 0),
        (libc::SIGUSR1, libc::SA_RESTART),
        (libc::SIGUSR2, 0),
        (libc::SIGIO, libc::SA_RESTART),
        (libc::SIGURG, libc::SA_RESTART),
    ] {
        // SAFETY: the handler makes system calls only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
            action.sa_flags = flags;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    let mut caller = Caller {
        random: Random::new(seed),
        memory: Memory::new(),
        first: true,
        children: [0; 8],
        left: calls,
    };
    caller.start();
    caller.clear_up();
}

extern "C" fn on_signal(_: i32) {
    // Some handlers make a trapped call themselves, in the middle of another one.
    if HANDLED.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
        let fd = KNOWN[0].load(Ordering::Relaxed);
        let mut byte = 0u8;
        // SAFETY: one byte of room; errno, which this changes, is not read.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
    }
}

/// Lets a signal interrupt this thread again and again.
fn tick() {
    // SAFETY: plain structures that the calls read and fill; the timer is this process's.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: i32 = 0;
        libc::syscall(
            libc::SYS_timer_create,
            libc::CLOCK_MONOTONIC,
            &event,
            &mut timer,
        );
        let every = libc::timespec {
            tv_sec: 0,
            tv_nsec: TICK,
        };
        let times = libc::itimerspec {
            it_interval: every,
            it_value: every,
        };
        libc::syscall(libc::SYS_timer_settime, timer, 0, &times, 0);
    }
}

/// A system call whose arguments can only concern this process.
fn call(nr: i64, args: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: writes, if anywhere, to the memory of the fuzzed program, which has nothing to lose: all
    // that this program relies on is on its stacks, in statics, and in registers, and no address of
    // those is given. What may be changed is harmless: see the file's head.
    unsafe { libc::syscall(nr, a, b, c, d, e, f) }
}

impl Caller {
    fn start(&mut self) {
        tick();
        while self.left > 0 {
            self.left -= 1;
            self.act();
        }
    }

    /// Ends the children and takes their statuses.
    fn clear_up(&mut self) {
        for child in std::mem::take(&mut self.children) {
            if child > 0 {
                // SAFETY: a child that has not been reaped, so the number is its own.
                unsafe {
                    libc::kill(child, libc::SIGKILL);
                    while libc::waitpid(child, std::ptr::null_mut(), 0) < 0
                        && errno() == libc::EINTR
                    {}
                }
            }
        }
    }

    fn fd(&mut self) -> u64 {
        let known = KNOWN[self.random.below(KNOWN.len() as u64) as usize].load(Ordering::Relaxed);
        match self.random.below(20) {
            0 => self.random.below(48),
            1 => self
                .random
                .pick(&[u64::MAX, i32::MAX as u64, 1 << 20, 199, 200, 0x8000_0000]),
            // The upper half does not count.
            2 => known as u32 as u64 | self.random.next() << 32,
            _ => known as i64 as u64,
        }
    }

    fn keep(&mut self, fd: i64) {
        if fd >= 0 {
            let slot = &KNOWN[self.random.below(KNOWN.len() as u64) as usize];
            let old = slot.swap(fd as i32, Ordering::Relaxed);
            if old >= 0 && self.random.chance(85) {
                call(libc::SYS_close, [old as u64, 0, 0, 0, 0, 0]);
            }
        }
    }

    fn keep_pair(&mut self, done: i64, pair: [i32; 2]) {
        if done == 0 {
            self.keep(pair[0].into());
            self.keep(pair[1].into());
        }
    }

    fn address(&mut self) -> u64 {
        self.memory.address(&mut self.random)
    }

    /// Mostly small, sometimes not.
    fn size(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1 => self.random.below(1 << 16),
            2 => self
                .random
                .pick(&[1 << 20, 0x7fff_ffff, 0x8000_0000, 1 << 40, u64::MAX]),
            _ => self.random.below(256),
        }
    }

    fn any(&mut self) -> u64 {
        match self.random.below(6) {
            0 | 1 => self.fd(),
            2 | 3 => self.address(),
            4 => self.size(),
            _ => self.random.next() >> self.random.below(64),
        }
    }

    fn message_flags(&mut self) -> u64 {
        match self.random.below(4) {
            0 => 0,
            1 => self.random.next() & 0xffff_ffff,
            2 => libc::MSG_DONTWAIT as u64,
            _ => 1 << self.random.below(31) | libc::MSG_DONTWAIT as u64,
        }
    }

    /// A socket address and its length.
    fn socket_address(&mut self) -> (u64, u64) {
        let port = (1000 + self.random.below(PORTS) as u16).to_be();
        let loopback = 0x7f00_0001u32.to_be();
        let (at, len) = match self.random.below(6) {
            0 | 1 => {
                let address: [u16; 8] = [
                    2,
                    port,
                    loopback as u16,
                    (loopback >> 16) as u16,
                    0,
                    0,
                    0,
                    0,
                ];
                (self.memory.put(&mut self.random, address), 16)
            }
            2 => {
                let mut address = [0u16; 14];
                (address[0], address[1], address[11]) = (10, port, 0x100);
                (self.memory.put(&mut self.random, address), 28)
            }
            3 => (
                self.memory.put(&mut self.random, [16u16, 0, 0, 0, 0, 0]),
                12,
            ),
            4 => {
                let protocol = 3u16.to_be();
                let address = [17u16, protocol, 1, 0, 0, 0, 0, 0, 0, 0];
                (self.memory.put(&mut self.random, address), 20)
            }
            _ => (self.address(), self.size()),
        };
        let len = if self.random.chance(90) {
            len
        } else {
            self.size()
        };
        (at, len)
    }

    /// Vectors of buffers, and how many.
    fn vectors(&mut self) -> (u64, u64) {
        let mut all = [[0u64; 2]; 4];
        for vector in &mut all {
            *vector = [self.address(), self.size()];
        }
        let count = match self.random.below(10) {
            0 => self.size(),
            _ => self.random.below(5),
        };
        (self.memory.put(&mut self.random, all), count)
    }

    /// A `struct msghdr`, with descriptors in its control data at times.
    fn message(&mut self) -> u64 {
        let (name, name_len) = match self.random.chance(50) {
            true => self.socket_address(),
            false => (0, 0),
        };
        let (vectors, count) = self.vectors();
        let (control, control_len) = match self.random.below(4) {
            0 => (self.address(), self.size()),
            1 | 2 => {
                let (a, b) = (self.fd() as u32, self.fd() as u32);
                let rights = [20 + 4 * self.random.below(2) as u32, 0, 1, 1, a, b];
                (self.memory.put(&mut self.random, rights), 24)
            }
            _ => (0, 0),
        };
        let header = [name, name_len, vectors, count, control, control_len, 0];
        self.memory.put(&mut self.random, header)
    }

    fn time(&mut self) -> u64 {
        match self.random.below(4) {
            0 => 0,
            1 => self.address(),
            _ => {
                let part = self.random.below(2_000_000);
                self.memory.put(&mut self.random, [0, part])
            }
        }
    }

    fn act(&mut self) {
        match self.random.below(40) {
            0..=3 => self.make(),
            4..=6 => self.set_up(),
            7..=12 => self.transfer(),
            13 | 14 => self.options(),
            15 => self.request(),
            16 => self.control(),
            17..=19 => self.duplicate_or_close(),
            20..=23 => self.wait(),
            24 | 25 => self.splice(),
            26 => self.open(),
            27 => self.multiply(),
            28 => self.signal(),
            29 => self.reap(),
            30 => self.connect_to_itself(),
            31 => self.submit(),
            _ => {
                let nr = self.random.pick(&ANY);
                let args = [(); 6].map(|()| self.any());
                let fd = call(nr, args);
                if matches!(
                    nr,
                    libc::SYS_socket
                        | libc::SYS_accept
                        | libc::SYS_accept4
                        | libc::SYS_dup
                        | libc::SYS_epoll_create1
                        | libc::SYS_eventfd2
                ) {
                    self.keep(fd);
                }
            }
        }
    }

    /// Native asynchronous I/O: some requests at once, mostly well-formed.
    fn submit(&mut self) {
        const MOST: usize = 8;
        let mut context = CONTEXT.load(Ordering::Relaxed);
        if context == 0 || self.random.chance(5) {
            context = 0;
            let at = (&raw mut context) as u64;
            call(libc::SYS_io_setup, [64, at, 0, 0, 0, 0]);
            CONTEXT.store(context, Ordering::Relaxed);
        }
        let mut list = [0u64; MOST];
        for place in &mut list {
            let operation = self.random.pick(&[0, 1, 2, 3, 5, 6, 7, 8, 9]);
            let request = [
                self.random.next(),
                0,
                operation | self.fd() << 32,
                self.address(),
                self.size(),
                self.random.pick(&[0, 0, 0, 1, 4096, u64::MAX]),
                0,
                self.random.pick(&[0, 0, 0, 1]) | self.fd() << 32,
            ];
            *place = match self.random.chance(90) {
                true => self.memory.put(&mut self.random, request),
                false => self.address(),
            };
        }
        let at = match self.random.chance(90) {
            true => self.memory.put(&mut self.random, list),
            false => self.address(),
        };
        let count = match self.random.chance(90) {
            true => self.random.below(MOST as u64 + 1),
            false => self.size(),
        };
        call(libc::SYS_io_submit, [context, count, at, 0, 0, 0]);
        let (events, nothing) = (self.address(), self.memory.put(&mut self.random, [0u64; 2]));
        call(libc::SYS_io_getevents, [context, 0, 8, events, nothing, 0]);
    }

    fn make(&mut self) {
        let flags = self.random.pick(&[0, 0, 0o4000, 0o2000000, 0o2004000]);
        let mut pair = [0i32; 2];
        let at = (&raw mut pair) as u64;
        match self.random.below(12) {
            0 => {
                let done = call(libc::SYS_pipe2, [at, flags, 0, 0, 0, 0]);
                self.keep_pair(done, pair);
            }
            1 => {
                let kind = self.random.pick(&[1, 2, 5]) | flags;
                let done = call(libc::SYS_socketpair, [1, kind, 0, at, 0, 0]);
                self.keep_pair(done, pair);
            }
            2 => {
                let fd = call(libc::SYS_epoll_create1, [0; 6]);
                self.keep(fd);
            }
            3 => {
                let fd = call(
                    libc::SYS_eventfd2,
                    [self.random.below(3), flags, 0, 0, 0, 0],
                );
                self.keep(fd);
            }
            4 => {
                let fd = call(
                    libc::SYS_memfd_create,
                    [c"f".as_ptr() as u64, 0, 0, 0, 0, 0],
                );
                self.keep(fd);
            }
            _ => {
                let (family, kind, protocol) = match self.random.below(14) {
                    0..=3 => (2, 1, 0),
                    4 | 5 => (2, 2, 0),
                    6 | 7 => (10, 1 + self.random.below(2), 0),
                    8 => (16, 3, self.random.below(22)),
                    9 => (17, 2 + self.random.below(2), 0x300),
                    10 => (2 + 8 * self.random.below(2), 3, self.random.below(256)),
                    11 => (
                        2,
                        1 + 4 * self.random.below(2),
                        self.random.pick(&[132, 262, 33]),
                    ),
                    _ => (
                        self.random.below(46),
                        self.random.below(11),
                        self.random.below(300),
                    ),
                };
                let fd = call(libc::SYS_socket, [family, kind | flags, protocol, 0, 0, 0]);
                self.keep(fd);
            }
        }
    }

    fn set_up(&mut self) {
        let fd = self.fd();
        let (at, len) = self.socket_address();
        match self.random.below(8) {
            0 | 1 => _ = call(libc::SYS_bind, [fd, at, len, 0, 0, 0]),
            2 | 3 => _ = call(libc::SYS_connect, [fd, at, len, 0, 0, 0]),
            4 => _ = call(libc::SYS_listen, [fd, self.random.below(5), 0, 0, 0, 0]),
            5 => {
                let room = self.memory.put(&mut self.random, 128u32);
                let flags = self.random.pick(&[0, 0o4000, 0o2004000, u64::MAX]);
                let new = call(libc::SYS_accept4, [fd, at, room, flags, 0, 0]);
                self.keep(new);
            }
            6 => _ = call(libc::SYS_shutdown, [fd, self.random.below(4), 0, 0, 0, 0]),
            _ => {
                let nr = self
                    .random
                    .pick(&[libc::SYS_getsockname, libc::SYS_getpeername]);
                let room = match self.random.chance(80) {
                    true => self.memory.put(&mut self.random, 28u32),
                    false => self.address(),
                };
                call(nr, [fd, at, room, 0, 0, 0]);
            }
        }
    }

    fn transfer(&mut self) {
        let (fd, at, len) = (self.fd(), self.address(), self.size());
        let flags = self.message_flags();
        match self.random.below(12) {
            0 => _ = call(libc::SYS_read, [fd, at, len, 0, 0, 0]),
            1 => _ = call(libc::SYS_write, [fd, at, len, 0, 0, 0]),
            2 | 3 => {
                let (vectors, count) = self.vectors();
                let nr = self.random.pick(&[
                    libc::SYS_readv,
                    libc::SYS_writev,
                    libc::SYS_preadv2,
                    libc::SYS_pwritev2,
                    libc::SYS_preadv,
                    libc::SYS_pwritev,
                ]);
                let offset = self.random.pick(&[u64::MAX, 0, 7]);
                call(nr, [fd, vectors, count, offset, offset, 0]);
            }
            4 | 5 => {
                let (to, to_len) = self.socket_address();
                call(libc::SYS_sendto, [fd, at, len, flags, to, to_len]);
            }
            6 => {
                let (from, room) = (self.address(), self.memory.put(&mut self.random, 28u32));
                call(libc::SYS_recvfrom, [fd, at, len, flags, from, room]);
            }
            7 | 8 => _ = call(libc::SYS_sendmsg, [fd, self.message(), flags, 0, 0, 0]),
            9 | 10 => _ = call(libc::SYS_recvmsg, [fd, self.message(), flags, 0, 0, 0]),
            _ => {
                // struct mmsghdr begins with a msghdr; what is behind the first is anything.
                let (messages, count) = (self.message(), self.random.below(4));
                match self.random.chance(50) {
                    true => call(libc::SYS_sendmmsg, [fd, messages, count, flags, 0, 0]),
                    false => call(
                        libc::SYS_recvmmsg,
                        [fd, messages, count, flags, self.time(), 0],
                    ),
                };
            }
        }
    }

    fn options(&mut self) {
        let (fd, level) = (self.fd(), self.random.pick(&LEVELS) as u64);
        let option = self.random.below(84);
        if self.random.chance(50) {
            let room = match self.random.chance(80) {
                true => {
                    let len = self.size() as u32;
                    self.memory.put(&mut self.random, len)
                }
                false => self.address(),
            };
            call(
                libc::SYS_getsockopt,
                [fd, level, option, self.address(), room, 0],
            );
        } else {
            let value = [self.size() as u32, self.size() as u32, 1, 0, 0, 0, 0, 0];
            let at = match self.random.chance(80) {
                true => self.memory.put(&mut self.random, value),
                false => self.address(),
            };
            let len = self.random.pick(&[4, 4, 4, 1, 8, 16, 28, 32]);
            call(libc::SYS_setsockopt, [fd, level, option, at, len, 0]);
        }
    }

    fn request(&mut self) {
        let request = match self.random.below(4) {
            0 => self
                .random
                .pick(&[0x541b, 0x5411, 0x5421, 0x5452, 0x5450, 0x5451]),
            1 | 2 => 0x8903 + self.random.below(0xf0),
            _ => self.random.next() & 0xffff_ffff,
        };
        // FIOSETOWN, SIOCSPGRP: the receiver of signals. TIOCSTI: a user's keyboard.
        if matches!(request, 0x8901 | 0x8902 | 0x5412) {
            return;
        }
        // Without its loopback interface, its address or its routes, a machine's connections end
        // minutes after their last descriptor: rather an interface that is not there.
        let name = match request {
            0x890b..0x890e | 0x8914..0x8925 | 0x8936 => b"none\0\0\0\0",
            _ => b"lo\0\0\0\0\0\0",
        };
        let mut ifreq = [0u64; 5];
        ifreq[0] = u64::from_ne_bytes(*name);
        let at = match self.random.chance(60) {
            true => self.memory.put(&mut self.random, ifreq),
            false => self.address(),
        };
        call(libc::SYS_ioctl, [self.fd(), request, at, 0, 0, 0]);
    }

    fn control(&mut self) {
        let fd = self.fd();
        // SAFETY: returns a number.
        let own = unsafe { libc::getpid() } as u64;
        let (command, argument) = match self.random.below(10) {
            0 | 1 => (libc::F_DUPFD, self.random.below(220)),
            2 => (libc::F_DUPFD_CLOEXEC, self.size()),
            3 => (libc::F_GETFL, self.any()),
            4 | 5 => (
                libc::F_SETFL,
                self.random.pick(&[0, 0o4000, 0o24000, u64::MAX]),
            ),
            6 => (libc::F_SETFD, self.random.below(2)),
            7 => (libc::F_SETOWN, own),
            8 => (libc::F_GETOWN, 0),
            // Locks, leases, pipe sizes: nothing that names a process.
            _ => (
                self.random
                    .pick(&[5, 6, 16, 1024, 1025, 1032, 1033, 1034, 99]),
                self.address(),
            ),
        };
        let new = call(libc::SYS_fcntl, [fd, command as u64, argument, 0, 0, 0]);
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            self.keep(new);
        }
    }

    fn duplicate_or_close(&mut self) {
        let (fd, to) = (self.fd(), self.fd());
        match self.random.below(10) {
            0 | 1 => {
                let new = call(libc::SYS_dup, [fd, 0, 0, 0, 0, 0]);
                self.keep(new);
            }
            2 => _ = call(libc::SYS_dup2, [fd, to, 0, 0, 0, 0]),
            3 => {
                let flags = self.random.pick(&[0, 0o2000000, 1]);
                call(libc::SYS_dup3, [fd, to, flags, 0, 0, 0]);
            }
            4 => {
                let last = fd.wrapping_add(self.random.below(4));
                let flags = self.random.pick(&[0, 0, 4, 2, 9]);
                call(libc::SYS_close_range, [fd, last, flags, 0, 0, 0]);
            }
            _ => _ = call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]),
        }
    }

    fn wait(&mut self) {
        match self.random.below(6) {
            0 | 1 => {
                let mut all = [0u64; 8];
                for pollfd in &mut all {
                    *pollfd = self.fd() & 0xffff_ffff | self.random.below(1 << 14) << 32;
                }
                let at = self.memory.put(&mut self.random, all);
                let count = match self.random.below(10) {
                    0 => self.size(),
                    _ => self.random.below(9),
                };
                let until = self.random.below(3);
                let until = if until == 2 { u64::MAX } else { until };
                match self.random.chance(50) {
                    true => call(libc::SYS_poll, [at, count, until, 0, 0, 0]),
                    false => call(libc::SYS_ppoll, [at, count, self.time(), 0, 8, 0]),
                };
            }
            2 => {
                let sets = [(); 3].map(|()| {
                    let set = [self.random.next() & self.random.next(), 0];
                    match self.random.below(5) {
                        0 => self.address(),
                        1 => 0,
                        _ => self.memory.put(&mut self.random, set),
                    }
                });
                let nr = self.random.pick(&[libc::SYS_select, libc::SYS_pselect6]);
                let count = self.random.pick(&[0, 10, 64, 64, 1024, 1 << 20, u64::MAX]);
                call(nr, [count, sets[0], sets[1], sets[2], self.time(), 0]);
            }
            3 | 4 => {
                let event = [self.random.next() as u32 & 0xe000_ffff, 7, 0];
                let at = match self.random.chance(85) {
                    true => self.memory.put(&mut self.random, event),
                    false => self.address(),
                };
                let operation = self.random.below(5);
                call(
                    libc::SYS_epoll_ctl,
                    [self.fd(), operation, self.fd(), at, 0, 0],
                );
            }
            _ => {
                let (at, until) = (self.address(), self.random.below(3));
                call(libc::SYS_epoll_pwait, [self.fd(), at, 4, until, 0, 8]);
            }
        }
    }

    fn splice(&mut self) {
        let (from, to, len) = (self.fd(), self.fd(), self.size());
        let offset = match self.random.below(3) {
            0 => {
                let offset = self.size();
                self.memory.put(&mut self.random, offset)
            }
            1 => self.address(),
            _ => 0,
        };
        let flags = self.random.below(16) | 2;
        match self.random.below(6) {
            0 | 1 => _ = call(libc::SYS_sendfile, [to, from, offset, len, 0, 0]),
            2 => _ = call(libc::SYS_splice, [from, offset, to, 0, len, flags]),
            3 => _ = call(libc::SYS_tee, [from, to, len, flags, 0, 0]),
            4 => {
                let (vectors, count) = self.vectors();
                call(libc::SYS_vmsplice, [to, vectors, count, flags, 0, 0]);
            }
            _ => _ = call(libc::SYS_copy_file_range, [from, offset, to, 0, len, 0]),
        }
    }

    fn open(&mut self) {
        let flags = self
            .random
            .pick(&[0, 0, 0o2000000, 0o4000, 0o200000, 0o10000000]);
        let (path, flags) = match self.random.chance(85) {
            true => (self.random.pick(&READABLE), flags),
            false => (
                self.random.pick(&WRITABLE),
                flags & 0o2004000 | self.random.below(3),
            ),
        };
        let path = path.as_ptr() as u64;
        let new = match self.random.below(6) {
            0 => call(libc::SYS_open, [path, flags, 0, 0, 0, 0]),
            1 => {
                let directory = self.fd();
                let name = self.random.pick(&[c"lo", c"tcp", c"..", c"", c"lo/mtu"]);
                // For reading only, as the directory may be any.
                let flags = flags & !3 & !0o200000;
                call(
                    libc::SYS_openat,
                    [directory, name.as_ptr() as u64, flags, 0, 0, 0],
                )
            }
            // What is at a bad address names nothing, and is opened for reading.
            2 => call(
                libc::SYS_openat,
                [u64::MAX - 99, self.address() | 1 << 63, 0, 0, 0, 0],
            ),
            _ => call(libc::SYS_openat, [u64::MAX - 99, path, flags, 0, 0, 0]),
        };
        self.keep(new);
    }

    /// Forks, threads, and execution of this program.
    fn multiply(&mut self) {
        let may = |n: u32| n.checked_sub(1);
        if FORKS
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, may)
            .is_err()
        {
            return;
        }
        let calls = self.left / 4;
        let seed = self.random.next();
        match self.random.below(10) {
            0..=2 => {
                // SAFETY: the child goes on with system calls and never allocates.
                let pid = unsafe { libc::syscall(libc::SYS_fork) } as i32;
                self.go_on(pid, seed, calls);
            }
            3 => {
                let arguments = [0u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
                // SAFETY: as fork(2), with the same arguments on the stack.
                let pid = unsafe { libc::syscall(libc::SYS_clone3, &arguments, 64) } as i32;
                self.go_on(pid, seed, calls);
            }
            4 => {
                let flags = self.random.pick(&[
                    libc::CLONE_FILES,
                    libc::CLONE_FS,
                    libc::CLONE_FILES | libc::CLONE_FS,
                ]);
                let flags = (flags | libc::SIGCHLD) as u64;
                // SAFETY: as fork(2).
                let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } as i32;
                self.go_on(pid, seed, calls);
            }
            5 => {
                // What the host refuses: flags that don't go together.
                let flags = self.random.pick(&[0x1_0000, 0x800, 0x1_0800, 0x2_0200]);
                call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
                call(
                    libc::SYS_clone3,
                    [
                        self.memory.address(&mut self.random) | 1 << 63,
                        64,
                        0,
                        0,
                        0,
                        0,
                    ],
                );
            }
            6 => vfork_and_exit(),
            7 | 8 if self.first => {
                let (memory, random) = (self.memory, Random::new(seed));
                let thread = move || {
                    let mut caller = Caller {
                        random,
                        memory,
                        first: false,
                        children: [0; 8],
                        left: calls,
                    };
                    caller.start();
                    caller.clear_up();
                };
                // One that can't be made is one less.
                drop(
                    std::thread::Builder::new()
                        .stack_size(64 << 10)
                        .spawn(thread),
                );
            }
            7 | 8 => {}
            _ if self.random.chance(30) && !self.first => self.execute(seed),
            _ => {
                // Fails, one way or another.
                let bad = self.memory.address(&mut self.random) | 1 << 63;
                let path = self.random.pick(&[
                    bad,
                    c"/proc/self/status".as_ptr() as u64,
                    c"/".as_ptr() as u64,
                ]);
                call(libc::SYS_execve, [path, 0, 0, 0, 0, 0]);
            }
        }
    }

    /// After a fork: the child makes its calls and ends; the parent remembers it.
    fn go_on(&mut self, pid: i32, seed: u64, calls: u64) {
        if pid > 0 {
            let free = self.children.iter_mut().find(|c| **c == 0);
            match free {
                Some(slot) => *slot = pid,
                None => {
                    // SAFETY: a child that has not been reaped, so the number is its own.
                    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
                }
            }
        }
        if pid != 0 {
            return;
        }
        let mut child = Caller {
            random: Random::new(seed),
            memory: self.memory,
            first: false,
            children: [0; 8],
            left: calls,
        };
        if child.random.chance(10) {
            child.execute(seed);
        }
        child.start();
        child.clear_up();
        // SAFETY: ends the process, or its only thread.
        unsafe {
            match child.random.below(3) {
                0 => libc::syscall(libc::SYS_exit, 0),
                1 => libc::raise(libc::SIGKILL).into(),
                _ => libc::syscall(libc::SYS_exit_group, 0),
            };
            libc::_exit(0)
        }
    }

    /// This program anew, with fewer calls to make and no forks.
    fn execute(&mut self, seed: u64) {
        let mut digits = [[0u8; 24]; 2];
        for (text, mut number) in digits.iter_mut().zip([seed, self.left / 4]) {
            for place in (0..20).rev() {
                text[place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        let [seed, calls] = digits.each_ref().map(|text| text.as_ptr());
        let words = [
            c"vink-stress".as_ptr().cast(),
            c"program".as_ptr().cast(),
            c"fuzz".as_ptr().cast(),
            seed,
            calls,
            c"0".as_ptr().cast(),
            std::ptr::null(),
        ];
        let path = c"/proc/self/exe".as_ptr();
        // SAFETY: strings and vectors that outlive the call; on success there is no way back.
        unsafe { libc::execve(path, words.as_ptr().cast(), [std::ptr::null()].as_ptr()) };
    }

    fn signal(&mut self) {
        let signal = self
            .random
            .pick(&[libc::SIGUSR1, libc::SIGUSR2, libc::SIGURG]);
        let child = self.random.pick(&self.children);
        // SAFETY: to ourselves, or to a child that has not been reaped, so the number is its own.
        unsafe {
            match child {
                1.. if self.random.chance(70) => {
                    let signal =
                        self.random
                            .pick(&[signal, signal, signal, libc::SIGKILL, libc::SIGTERM]);
                    libc::kill(child, signal)
                }
                _ => libc::kill(libc::getpid(), signal),
            };
        }
    }

    fn reap(&mut self) {
        for child in &mut self.children {
            // SAFETY: our own child.
            let gone = *child > 0
                && unsafe {
                    libc::waitpid(*child, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL)
                } != 0;
            if gone && errno() != libc::EINTR {
                *child = 0;
            }
        }
    }

    /// A TCP connection, both ends known: what most calls find interesting.
    fn connect_to_itself(&mut self) {
        let nonblocking = 0o4000;
        let listener = call(libc::SYS_socket, [2, 1, 0, 0, 0, 0]) as u64;
        let address: [u16; 8] = [2, 0, 0x7f, 0x100, 0, 0, 0, 0];
        let at = self.memory.put(&mut self.random, address);
        let room = self.memory.put(&mut self.random, 16u32);
        call(libc::SYS_bind, [listener, at, 16, 0, 0, 0]);
        call(libc::SYS_listen, [listener, 3, 0, 0, 0, 0]);
        call(libc::SYS_getsockname, [listener, at, room, 0, 0, 0]);
        let one = call(libc::SYS_socket, [2, 1 | nonblocking, 0, 0, 0, 0]);
        call(libc::SYS_connect, [one as u64, at, 16, 0, 0, 0]);
        let other = call(libc::SYS_accept4, [listener, 0, 0, nonblocking, 0, 0]);
        self.keep(one);
        self.keep(other);
        self.keep(listener as i64);
    }
}

/// vfork(2), of which the child does nothing but end: it runs on our stack.
fn vfork_and_exit() {
    // SAFETY: the child neither returns nor touches memory.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test eax, eax",
            "jnz 2f",
            "mov edi, 0",
            "mov eax, 231",
            "syscall",
            "2:",
            inout("rax") libc::SYS_vfork => _,
            out("rdi") _,
            out("rcx") _,
            out("r11") _,
        );
    }
}

fn errno() -> i32 {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() }
}
