//! What is timed, the same for both kernels: written against [`Calls`], which is syscall(2) on the
//! host and a fiber's call on Vink.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use vink_kernel::Fiber;

use crate::{beside, floor, BoxError};

/// A way to make system calls. Results are raw: `-errno` on failure.
pub(crate) trait Calls {
    /// One call; pointers among the arguments are into this process and must be valid.
    fn call(&self, nr: i64, args: [u64; 6]) -> i64;
}

/// The host's own kernel.
pub(crate) struct Host;

impl Calls for Host {
    #[inline]
    fn call(&self, nr: i64, a: [u64; 6]) -> i64 {
        // SAFETY: every pointer passed in this file is to a live buffer of the length passed.
        let result = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) };
        match result {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            _ => result,
        }
    }
}

impl Calls for Fiber {
    #[inline]
    fn call(&self, nr: i64, args: [u64; 6]) -> i64 {
        Fiber::call(self, nr, args)
    }
}

/// Milliseconds that a program takes from its start to its end.
pub(crate) fn timed_command(words: &[&str]) -> Result<f64, BoxError> {
    let start = Instant::now();
    let status = std::process::Command::new(words[0])
        .args(&words[1..])
        .status()
        .map_err(|e| {
            format!(
                "{}: {e} (cargo build --release -p vink makes vink)",
                words[0]
            )
        })?;
    let taken = start.elapsed().as_secs_f64() * 1e3;
    match status.success() {
        true => Ok(taken),
        false => Err(format!("{}: {status}", words.join(" ")).into()),
    }
}

/// Of a round of `inproc_null_call`.
const LIBRARY_CALLS: u64 = 2_000_000;
/// Of a round of `inproc_rtt`.
const ECHOES: u64 = 20_000;

/// Bytes per round of a throughput benchmark: a fraction of a second.
pub(crate) const BULK: u64 = 4 << 30;
/// Bytes per write, and at most per read.
const BLOCK: usize = 64 << 10;
/// Round trips per round.
const ROUND_TRIPS: u64 = 100_000;
/// Calls per round.
const CALLS: u64 = 4_000_000;
/// The same under the interposer, where each takes microseconds.
const TRAPPED_CALLS: u64 = 50_000;

/// How many wires are between machines that ping each other.
pub(crate) const HOPS: [u32; 4] = [10, 50, 100, 250];
/// How often they do in each round.
pub(crate) const PINGS: u32 = 200;

/// From the time of a round trip over each of [`HOPS`]: us for one hop, there or back, by the slope of the line that
/// fits best; then the times, us.
pub(crate) fn hop_figures(times: [Result<f64, BoxError>; 4]) -> Result<Vec<Option<f64>>, BoxError> {
    let times: Vec<f64> = times.into_iter().collect::<Result<_, _>>()?;
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let hops = HOPS.map(f64::from);
    let (x, y) = (mean(&hops), mean(&times));
    let pairs = || hops.iter().zip(&times);
    let slope = pairs().map(|(h, t)| (h - x) * (t - y)).sum::<f64>()
        / pairs().map(|(h, _)| (h - x) * (h - x)).sum::<f64>();
    let mut figures = vec![Some(slope / 2.0)];
    figures.extend(times.into_iter().map(Some));
    Ok(figures)
}

/// The value of an option that is switched on.
pub(crate) const ON: [u8; 4] = 1i32.to_ne_bytes();

/// The port that servers listen on.
pub(crate) const PORT: u16 = 5000;

/// How long datagrams are sent in a round.
pub(crate) const FLOOD: Duration = Duration::from_secs(1);
/// Bytes of each, with which a frame has 64 and some: an app's datagrams have so many at least.
pub(crate) const DATAGRAM: usize = 25;
/// What ends the flood is sent so often, so that one gets through.
const ENDS: u32 = 20;

/// `getppid()`, which does nothing; ns per call.
pub(crate) fn null_calls(kernel: &impl Calls) -> f64 {
    per_call(CALLS, || {
        kernel.call(libc::SYS_getppid, [0; 6]);
    })
}

/// `getsockopt(SO_TYPE)` of a TCP socket; ns per call.
pub(crate) fn getsockopts(kernel: &impl Calls) -> Result<f64, BoxError> {
    let socket = Socket::new(kernel)?;
    Ok(per_call(CALLS, || socket.socket_type()))
}

/// The body of the program that runs under the interposer: prints ns per call.
pub(crate) fn print_loop(group: &str, to: Option<&str>) -> Result<(), BoxError> {
    let figure = match group {
        "echo_server" => return echo_server(),
        "echo" => return beside::echo(),
        "spin" => {
            beside::spin();
            return Ok(());
        }
        "echo_client" => echo_client(to.ok_or("an address is missing")?)?,
        "inproc_null_call" => library_getsockopts()?,
        "trap_null_call" => trapped_calls(),
        "trap_floor" => return floor::trapped(),
        "trap_getsockopt" => {
            let socket = Socket::new(&Host)?;
            per_call(TRAPPED_CALLS, || socket.socket_type())
        }
        _ => return Err(format!("no loop is called {group}").into()),
    };
    println!("{figure}");
    Ok(())
}

/// Of the trapped calls the one with the least to do, an error that the host finds; ns per call.
/// (getppid() itself passes the filter and is as fast as ever.)
pub(crate) fn trapped_calls() -> f64 {
    per_call(TRAPPED_CALLS, || {
        Host.call(libc::SYS_shutdown, [u64::MAX, 0, 0, 0, 0, 0]);
    })
}

/// Where the server of round trips listens.
const ECHO_PORT: u16 = 7007;

/// Sends back whatever comes, to one client after the other.
fn echo_server() -> Result<(), BoxError> {
    let listener = std::net::TcpListener::bind(("0.0.0.0", ECHO_PORT))?;
    println!("ready");
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        while stream.read(&mut byte)? == 1 {
            stream.write_all(&byte)?;
        }
    }
}

/// Microseconds for a byte there and back.
fn echo_client(to: &str) -> Result<f64, BoxError> {
    let mut stream = std::net::TcpStream::connect((to, ECHO_PORT))?;
    stream.set_nodelay(true)?;
    let mut failure = None;
    let mut byte = [0];
    let ns = per_call(ECHOES, || {
        let done = stream
            .write_all(&[1])
            .and_then(|()| stream.read_exact(&mut byte));
        failure = done.err().or(failure.take());
    });
    match failure {
        None => Ok(ns / 1000.0),
        Some(error) => Err(error.into()),
    }
}

/// Nanoseconds for the C library's getsockopt(2), as programs call it.
fn library_getsockopts() -> Result<f64, BoxError> {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    let mut failed = 0u32;
    let ns = per_call(LIBRARY_CALLS, || {
        let (mut value, mut size) = (0i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: an integer and its size, which are filled in.
        let result = unsafe {
            let (level, what) = (libc::SOL_SOCKET, libc::SO_RCVBUF);
            libc::getsockopt(fd, level, what, (&raw mut value).cast(), &mut size)
        };
        failed += u32::from(result != 0 || value == 0);
    });
    match failed {
        0 => Ok(ns),
        _ => Err(format!("{failed} of the calls failed").into()),
    }
}

fn per_call(count: u64, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// A TCP socket; closed on drop.
pub(crate) struct Socket<'a, K: Calls> {
    kernel: &'a K,
    fd: u64,
}

impl<'a, K: Calls> Socket<'a, K> {
    fn new(kernel: &'a K) -> Result<Self, BoxError> {
        let [family, kind] = [libc::AF_INET, libc::SOCK_STREAM].map(|a| a as u64);
        let fd = check(
            "socket",
            kernel.call(libc::SYS_socket, [family, kind, 0, 0, 0, 0]),
        )?;
        Ok(Socket { kernel, fd })
    }

    /// A socket for transfers. The kernels' default congestion control may differ, and then what is
    /// compared would be that.
    fn for_transfer(kernel: &'a K) -> Result<Self, BoxError> {
        let socket = Socket::new(kernel)?;
        socket.option(libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"cubic")?;
        Ok(socket)
    }

    /// A socket that listens on all addresses.
    pub fn listener(kernel: &'a K) -> Result<Self, BoxError> {
        let socket = Socket::for_transfer(kernel)?;
        socket.option(libc::SOL_SOCKET, libc::SO_REUSEADDR, &ON)?;
        socket.with_address([0, 0, 0, 0], "bind", libc::SYS_bind)?;
        check(
            "listen",
            kernel.call(libc::SYS_listen, [socket.fd, 1, 0, 0, 0, 0]),
        )?;
        Ok(socket)
    }

    /// A socket for datagrams.
    fn datagrams(kernel: &'a K) -> Result<Self, BoxError> {
        let [family, kind] = [libc::AF_INET, libc::SOCK_DGRAM].map(|a| a as u64);
        let args = [family, kind, 0, 0, 0, 0];
        let fd = check("socket", kernel.call(libc::SYS_socket, args))?;
        Ok(Socket { kernel, fd })
    }

    /// One that receives them.
    pub fn receiver(kernel: &'a K) -> Result<Self, BoxError> {
        let socket = Socket::datagrams(kernel)?;
        socket.with_address([0, 0, 0, 0], "bind", libc::SYS_bind)?;
        Ok(socket)
    }

    fn accept(&self) -> Result<Self, BoxError> {
        let args = [self.fd, 0, 0, 0, 0, 0];
        let fd = check("accept", self.kernel.call(libc::SYS_accept, args))?;
        let kernel = self.kernel;
        Ok(Socket { kernel, fd })
    }

    pub(crate) fn connected(kernel: &'a K, to: [u8; 4]) -> Result<Self, BoxError> {
        let socket = Socket::for_transfer(kernel)?;
        socket.with_address(to, "connect", libc::SYS_connect)?;
        Ok(socket)
    }

    fn with_address(&self, to: [u8; 4], name: &'static str, nr: i64) -> Result<(), BoxError> {
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: PORT.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(to),
            },
            sin_zero: [0; 8],
        };
        let pointer = (&raw const address) as u64;
        let len = size_of_val(&address) as u64;
        check(name, self.kernel.call(nr, [self.fd, pointer, len, 0, 0, 0]))?;
        Ok(())
    }

    pub(crate) fn option(&self, level: i32, option: i32, value: &[u8]) -> Result<(), BoxError> {
        let args = [
            self.fd,
            level as u64,
            option as u64,
            value.as_ptr() as u64,
            value.len() as u64,
            0,
        ];
        check("setsockopt", self.kernel.call(libc::SYS_setsockopt, args))?;
        Ok(())
    }

    fn socket_type(&self) {
        let mut value = 0i32;
        let mut len = size_of_val(&value) as libc::socklen_t;
        let args = [
            self.fd,
            libc::SOL_SOCKET as u64,
            libc::SO_TYPE as u64,
            (&raw mut value) as u64,
            (&raw mut len) as u64,
            0,
        ];
        self.kernel.call(libc::SYS_getsockopt, args);
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, BoxError> {
        let args = [
            self.fd,
            buffer.as_mut_ptr() as u64,
            buffer.len() as u64,
            0,
            0,
            0,
        ];
        Ok(check("read", self.kernel.call(libc::SYS_read, args))? as usize)
    }

    pub(crate) fn write(&self, buffer: &[u8]) -> Result<usize, BoxError> {
        let args = [
            self.fd,
            buffer.as_ptr() as u64,
            buffer.len() as u64,
            0,
            0,
            0,
        ];
        Ok(check("write", self.kernel.call(libc::SYS_write, args))? as usize)
    }
}

impl<K: Calls> Drop for Socket<'_, K> {
    fn drop(&mut self) {
        self.kernel.call(libc::SYS_close, [self.fd, 0, 0, 0, 0, 0]);
    }
}

fn check(name: &'static str, result: i64) -> Result<u64, BoxError> {
    u64::try_from(result).map_err(|_| {
        let error = std::io::Error::from_raw_os_error(-result as i32);
        format!("{name}: {error}").into()
    })
}

/// The server's part of a round of throughput: takes one connection; Gbit/s from its go to the last
/// byte.
pub(crate) fn receive<K: Calls>(listener: &Socket<'_, K>, bytes: u64) -> Result<f64, BoxError> {
    let socket = listener.accept()?;
    let mut buffer = vec![0u8; BLOCK];
    socket.write(b"!")?;
    let start = Instant::now();
    let mut left = bytes;
    while left > 0 {
        match socket.read(&mut buffer)? as u64 {
            0 => return Err(format!("the sender ended {left} bytes early").into()),
            n => left -= n,
        }
    }
    Ok(bytes as f64 * 8.0 / start.elapsed().as_nanos() as f64)
}

/// The client's part; it sends so many bytes.
pub(crate) fn send(kernel: &impl Calls, to: [u8; 4], bytes: u64) -> Result<(), BoxError> {
    let socket = Socket::connected(kernel, to)?;
    let buffer = vec![0x5au8; BLOCK];
    socket.read(&mut [0])?;
    let mut left = bytes;
    while left > 0 {
        left -= socket.write(&buffer[..left.min(BLOCK as u64) as usize])? as u64;
    }
    Ok(())
}

/// Sends datagrams as fast as it goes, for a while.
pub(crate) fn flood(kernel: &impl Calls, to: [u8; 4]) -> Result<(), BoxError> {
    let socket = Socket::datagrams(kernel)?;
    socket.with_address(to, "connect", libc::SYS_connect)?;
    let start = Instant::now();
    while start.elapsed() < FLOOD {
        socket.write(&[0; DATAGRAM])?;
    }
    for _ in 0..ENDS {
        std::thread::sleep(Duration::from_millis(10));
        socket.write(&[0])?;
    }
    Ok(())
}

/// Counts them, up to the one that ends them: thousands a second.
pub(crate) fn count<K: Calls>(socket: &Socket<'_, K>) -> Result<f64, BoxError> {
    let mut buffer = [0; DATAGRAM];
    let mut count = 0u64;
    loop {
        match socket.read(&mut buffer)? {
            DATAGRAM => count += 1,
            // What ended the round before.
            _ if count == 0 => {}
            _ => break,
        }
    }
    Ok(count as f64 / FLOOD.as_secs_f64() / 1000.0)
}

/// The server's part of a round of round trips: sends back what comes, byte by byte.
pub(crate) fn echo<K: Calls>(listener: &Socket<'_, K>) -> Result<(), BoxError> {
    let socket = listener.accept()?;
    socket.option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON)?;
    let mut byte = [0];
    while socket.read(&mut byte)? == 1 {
        socket.write(&byte)?;
    }
    Ok(())
}

/// Sends ICMP echo requests and waits for the answer to each; us per round trip.
pub(crate) fn echo_requests(kernel: &impl Calls, to: [u8; 4], times: u32) -> Result<f64, BoxError> {
    const ECHO_REQUEST: u8 = 8;
    const IP_HEADER: usize = 20;
    let [family, kind, protocol] = [libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP];
    let args = [family as u64, kind as u64, protocol as u64, 0, 0, 0];
    let fd = check("socket", kernel.call(libc::SYS_socket, args))?;
    let socket = Socket { kernel, fd };
    socket.option(libc::IPPROTO_IP, libc::IP_TTL, &255i32.to_ne_bytes())?;
    let timeout = libc::timeval {
        tv_sec: 10,
        tv_usec: 0,
    };
    // SAFETY: plain bytes.
    let timeout: [u8; size_of::<libc::timeval>()] = unsafe { std::mem::transmute(timeout) };
    socket.option(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)?;
    socket.with_address(to, "connect", libc::SYS_connect)?;
    let round_trip = |number: u16| -> Result<(), BoxError> {
        let mut request = [ECHO_REQUEST, 0, 0, 0, 0x12, 0x34, 0, 0];
        request[6..].copy_from_slice(&number.to_be_bytes());
        // RFC 1071, of words that don't carry over.
        let sum = u16::from_be_bytes([ECHO_REQUEST, 0]) + 0x1234;
        let (sum, carry) = sum.overflowing_add(number);
        request[2..4].copy_from_slice(&(!(sum + u16::from(carry))).to_be_bytes());
        socket.write(&request)?;
        loop {
            let mut answer = [0; 128];
            let got = socket.read(&mut answer)?;
            let answer = &answer[IP_HEADER..got.max(IP_HEADER)];
            match answer {
                [0, 0, _, _, rest @ ..] if *rest == request[4..] => return Ok(()),
                // Such as an answer to an earlier one.
                _ => {}
            }
        }
    };
    // The first one finds the neighbours.
    round_trip(0)?;
    let start = Instant::now();
    for n in 1..=times {
        round_trip(n as u16)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / 1000.0 / f64::from(times))
}

/// The client's part; us per round trip.
pub(crate) fn ping(kernel: &impl Calls, to: [u8; 4]) -> Result<f64, BoxError> {
    let socket = Socket::connected(kernel, to)?;
    socket.option(libc::IPPROTO_TCP, libc::TCP_NODELAY, &ON)?;
    let mut byte = [0];
    // One for the way: neighbours are found, windows opened.
    socket.write(&byte)?;
    socket.read(&mut byte)?;
    let start = Instant::now();
    for _ in 0..ROUND_TRIPS {
        socket.write(&byte)?;
        if socket.read(&mut byte)? != 1 {
            return Err("the echo ended early".into());
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / 1000.0 / ROUND_TRIPS as f64)
}
