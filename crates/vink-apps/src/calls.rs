//! An app's system calls, typed: what a program finds in its libc.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use vink_kernel::{Clock, Fiber};
use vink_pod::{OpenPath, Stack};

use crate::handle::AppHandle;
use crate::{AppError, Epoll, Report, Socket};

/// For so long an app may keep the worker from its other clients, and from threads that wait for its
/// processor.
const TIMESLICE: Duration = Duration::from_micros(20);
/// After so many calls the time is looked at.
const CALLS_UNCHECKED: u32 = 16;
/// In virtual time, where nothing may depend on the host's, a turn lasts for so many calls.
const CALLS_OF_A_TURN: u32 = 1024;

/// An app's way into its kernel. Its errors are those of the calls' man pages, and one more:
/// `EINTR` ([`io::ErrorKind::Interrupted`]) from every call once the app is to stop.
pub struct Calls<'f> {
    fiber: &'f Fiber,
    pub(crate) handle: Rc<AppHandle>,
    /// Made since the time was looked at, or since its turn began.
    calls: Cell<u32>,
}

thread_local! {
    /// When the host last had its turn, for all that an app of this thread knows.
    static TURN_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

impl<'f> Calls<'f> {
    /// The calls of the fiber that this is made on.
    pub(crate) fn new(fiber: &'f Fiber, handle: Rc<AppHandle>) -> Calls<'f> {
        let calls = Calls {
            fiber,
            handle,
            calls: Cell::new(0),
        };
        // Sleep as long as asked and no longer: prctl(2), PR_SET_TIMERSLACK, 1 ns.
        let slack = [libc::PR_SET_TIMERSLACK as u64, 1, 0, 0, 0, 0];
        calls.fiber.call(libc::SYS_prctl, slack);
        calls
    }

    /// Any system call (`libc::SYS_*`) or `vink_abi::VINK_CALL_*`; its result. Pointers among the
    /// arguments are into this process and are the caller's responsibility, as with syscall(2).
    ///
    /// # Errors
    /// As the call's; `EINTR` once the app is to stop.
    pub fn call(&self, nr: i64, args: [u64; 6]) -> io::Result<u64> {
        if self.handle.stop.get() {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        let result = match &self.handle.observer {
            None => {
                self.take_turns();
                self.fiber.call(nr, args)
            }
            Some(observer) => {
                let result = self.fiber.call(nr, args);
                observer(self.fiber, self.handle.id, nr, args, result);
                result
            }
        };
        u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32))
    }

    /// Closes a descriptor, whether or not the app is to stop; the raw result.
    pub(crate) fn close(&self, fd: i32) -> i64 {
        let args = [fd as u64, 0, 0, 0, 0, 0];
        let result = self.fiber.call(libc::SYS_close, args);
        if let Some(observer) = &self.handle.observer {
            observer(self.fiber, self.handle.id, libc::SYS_close, args, result);
        }
        result
    }

    /// Whether the app is to stop: it ends what it does and returns.
    pub fn stopping(&self) -> bool {
        self.handle.stop.get()
    }

    /// Tells the owner that the app now does what it is there for: a server listens.
    pub fn ready(&self) {
        self.handle.ready.set(true);
    }

    /// Opens paths of streams, as [`vink_pod::OpenPaths::open`].
    ///
    /// # Errors
    /// As there, for users.
    pub(crate) fn open_paths(
        &self,
        paths: &[String],
        anew: bool,
        stack: &mut Stack,
    ) -> Result<Vec<OpenPath>, AppError> {
        let Some(there) = &self.handle.paths else {
            return Err(AppError::new("there are no paths here, but in labs"));
        };
        let now = self.now()?.as_nanos() as u64;
        // A pod may be loaded again.
        let opened = stack.run(|| there.open(paths, anew, now));
        opened.map_err(AppError::new)
    }

    /// Writes to the app's output, which its owner keeps (the newest 32 KiB at least).
    pub fn print(&self, text: &str) {
        self.handle.write(text);
    }

    /// From now on the owner gets its reports from this, at any time between two calls.
    pub fn publish(&self, reporter: impl Fn() -> Report + 'static) {
        *self.handle.reporter.borrow_mut() = Some(Box::new(reporter));
    }

    /// socket(2); with `SOCK_CLOEXEC` or without, there is no exec.
    ///
    /// # Errors
    /// As socket(2).
    pub fn socket(&self, domain: i32, kind: i32, protocol: i32) -> io::Result<Socket<'_>> {
        let args = [domain as u64, kind as u64, protocol as u64, 0, 0, 0];
        let fd = self.call(libc::SYS_socket, args)?;
        Ok(Socket::new(self, fd as i32))
    }

    /// A TCP socket that listens on an address (`SO_REUSEADDR`; an IPv6 one also for IPv4, as Linux
    /// does).
    ///
    /// # Errors
    /// As socket(2), bind(2), listen(2).
    pub fn listen(&self, at: SocketAddr) -> io::Result<Socket<'_>> {
        let socket = self.socket(family(at), libc::SOCK_STREAM, 0)?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
        socket.bind(at)?;
        socket.listen(libc::SOMAXCONN)?;
        Ok(socket)
    }

    /// A TCP socket that is connected to an address.
    ///
    /// # Errors
    /// As socket(2), connect(2).
    pub fn connect(&self, to: SocketAddr) -> io::Result<Socket<'_>> {
        let socket = self.socket(family(to), libc::SOCK_STREAM, 0)?;
        socket.connect(to)?;
        Ok(socket)
    }

    /// A UDP socket with an address of its own; port 0: any.
    ///
    /// # Errors
    /// As socket(2), bind(2).
    pub fn datagrams(&self, at: SocketAddr) -> io::Result<Socket<'_>> {
        let socket = self.socket(family(at), libc::SOCK_DGRAM, 0)?;
        socket.bind(at)?;
        Ok(socket)
    }

    /// poll(2), or rather ppoll(2); how many entries have something to tell. `None`: without end.
    ///
    /// # Errors
    /// As ppoll(2).
    pub fn poll(&self, fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.map(timespec);
        let limit = timeout.as_ref().map_or(0, |t| (&raw const *t) as u64);
        let args = [fds.as_mut_ptr() as u64, fds.len() as u64, limit, 0, 0, 0];
        Ok(self.call(libc::SYS_ppoll, args)? as usize)
    }

    /// epoll_create1(2).
    ///
    /// # Errors
    /// As epoll_create1(2).
    pub fn epoll(&self) -> io::Result<Epoll<'_>> {
        let fd = self.call(libc::SYS_epoll_create1, [0; 6])?;
        Ok(Epoll::new(self, fd as i32))
    }

    /// clock_gettime(2): the time of a clock (`libc::CLOCK_*`) since its beginning.
    ///
    /// # Errors
    /// `EINVAL`: there is no such clock.
    pub fn clock(&self, clock: libc::clockid_t) -> io::Result<Duration> {
        let mut now = timespec(Duration::ZERO);
        let args = [clock as u64, (&raw mut now) as u64, 0, 0, 0, 0];
        self.call(libc::SYS_clock_gettime, args)?;
        Ok(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }

    /// The machine's `CLOCK_MONOTONIC`, real or virtual.
    ///
    /// # Errors
    /// `EINTR` only.
    pub fn now(&self) -> io::Result<Duration> {
        self.clock(libc::CLOCK_MONOTONIC)
    }

    /// nanosleep(2).
    ///
    /// # Errors
    /// `EINTR` only.
    pub fn sleep(&self, time: Duration) -> io::Result<()> {
        let time = timespec(time);
        let args = [(&raw const time) as u64, 0, 0, 0, 0, 0];
        self.call(libc::SYS_nanosleep, args).map(drop)
    }

    /// clock_nanosleep(2) until [`Calls::now`] is this; not at all if it was.
    ///
    /// # Errors
    /// `EINTR` only.
    pub fn sleep_until(&self, time: Duration) -> io::Result<()> {
        let time = timespec(time);
        let clock = libc::CLOCK_MONOTONIC as u64;
        let flags = libc::TIMER_ABSTIME as u64;
        let args = [clock, flags, (&raw const time) as u64, 0, 0, 0];
        self.call(libc::SYS_clock_nanosleep, args).map(drop)
    }

    /// An interface's index, as if_nametoindex(3).
    ///
    /// # Errors
    /// `ENODEV`: the machine has none of this name.
    pub fn interface_index(&self, name: &str) -> io::Result<u32> {
        // A name that is too long is cut off, and so not found.
        let mut request = [0u8; size_of::<libc::ifreq>()];
        let len = name.len().min(libc::IFNAMSIZ - 1);
        request[..len].copy_from_slice(&name.as_bytes()[..len]);
        let socket = self.socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let address = request.as_mut_ptr() as u64;
        let args = [socket.fd() as u64, libc::SIOCGIFINDEX, address, 0, 0, 0];
        self.call(libc::SYS_ioctl, args)?;
        let index = &request[libc::IFNAMSIZ..][..4];
        Ok(u32::from_ne_bytes(index.try_into().expect("four bytes")))
    }

    /// The machine's name, as gethostname(2).
    ///
    /// # Errors
    /// `EINTR` only.
    pub fn host_name(&self) -> io::Result<String> {
        let mut names = [0u8; size_of::<libc::utsname>()];
        self.call(libc::SYS_uname, [names.as_mut_ptr() as u64, 0, 0, 0, 0, 0])?;
        let from = std::mem::offset_of!(libc::utsname, nodename);
        let name = names[from..].split(|byte| *byte == 0).next();
        Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
    }

    /// Lets the worker's other clients have their turn if this app's has been long.
    fn take_turns(&self) {
        let calls = self.calls.get() + 1;
        let unchecked = match self.handle.clock {
            Clock::Real => CALLS_UNCHECKED,
            Clock::Virtual => CALLS_OF_A_TURN,
        };
        self.calls.set(calls % unchecked);
        if calls < unchecked {
            return;
        }
        if self.handle.clock == Clock::Real && !is_turn_over() {
            return;
        }
        self.fiber
            .call(i64::from(vink_abi::VINK_CALL_YIELD), [0; 6]);
        TURN_BEGAN.set(Some(Instant::now()));
    }
}

/// Whether the apps of this thread have run for long.
fn is_turn_over() -> bool {
    let now = Instant::now();
    let began = TURN_BEGAN.get().unwrap_or(now);
    TURN_BEGAN.set(Some(began));
    now - began >= TIMESLICE
}

/// `AF_INET` or `AF_INET6`.
pub(crate) fn family(address: SocketAddr) -> i32 {
    match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    }
}

pub(crate) fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}
