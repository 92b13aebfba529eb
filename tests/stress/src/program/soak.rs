//! Programs that do real work and check every byte of it.
//!
//! Each has sockets of its own on its machine's loopback interface, so that it does not matter to the
//! others when it is killed. What is sent is made from a seed that both ends know.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::Random;

/// Bytes of one long stream, and connections, datagrams and passed descriptors of one program.
const STREAM: u64 = 8 << 20;
const CONNECTIONS: u64 = 40;
const DATAGRAMS: u64 = 200;
const PASSED: u64 = 40;
const PIECE: usize = 64 << 10;

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// A loopback address of either family, without a port.
fn loopback(random: &mut Random) -> SocketAddr {
    match random.chance(50) {
        true => (Ipv4Addr::LOCALHOST, 0).into(),
        false => (Ipv6Addr::LOCALHOST, 0).into(),
    }
}

/// What a seed stands for, byte after byte.
struct Pattern {
    random: Random,
    rest: [u8; 8],
    at: usize,
}

impl Pattern {
    fn new(seed: u64) -> Pattern {
        let random = Random::new(seed);
        let (rest, at) = ([0; 8], 8);
        Pattern { random, rest, at }
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.at == 8 {
                (self.rest, self.at) = (self.random.next().to_ne_bytes(), 0);
            }
            *byte = self.rest[self.at];
            self.at += 1;
        }
    }

    /// Writes so many bytes.
    fn send(&mut self, to: &mut impl Write, mut len: u64, random: &mut Random) -> io::Result<()> {
        let mut bytes = vec![0; PIECE];
        while len > 0 {
            let piece = &mut bytes[..len.min(1 + random.below(PIECE as u64)) as usize];
            self.fill(piece);
            to.write_all(piece)?;
            len -= piece.len() as u64;
        }
        Ok(())
    }

    /// Reads so many bytes, each of which must be right.
    fn expect(
        &mut self,
        from: &mut impl Read,
        mut len: u64,
        random: &mut Random,
    ) -> io::Result<()> {
        let (mut bytes, mut right) = (vec![0; PIECE], vec![0; PIECE]);
        let all = len;
        while len > 0 {
            let room = len.min(1 + random.below(PIECE as u64)) as usize;
            let got = match from.read(&mut bytes[..room]) {
                Ok(0) => return Err(wrong(format!("the stream ended {len} bytes early"))),
                Ok(got) => got,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            self.fill(&mut right[..got]);
            if let Some(n) = (0..got).find(|n| bytes[*n] != right[*n]) {
                let at = all - len + n as u64;
                return Err(wrong(format!(
                    "byte {at} of {all} is {:#x}, not {:#x}",
                    bytes[n], right[n]
                )));
            }
            len -= got as u64;
        }
        Ok(())
    }
}

/// A child made with fork(2), that does this and ends.
struct Child(i32);

impl Child {
    fn new(work: impl FnOnce() -> io::Result<()>) -> io::Result<Child> {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os_error()),
            0 => {
                let status = match work() {
                    Ok(()) => 0,
                    Err(error) => {
                        eprintln!("vink-stress: child: {error}");
                        1
                    }
                };
                // SAFETY: ends the child.
                unsafe { libc::_exit(status) }
            }
            pid => Ok(Child(pid)),
        }
    }

    fn wait(self) -> io::Result<()> {
        let mut status = 0;
        // SAFETY: our own child; fills an integer.
        while unsafe { libc::waitpid(self.0, &mut status, 0) } < 0 {
            if Error::last_os_error().kind() != ErrorKind::Interrupted {
                return Err(Error::last_os_error());
            }
        }
        match status {
            0 => Ok(()),
            status => Err(wrong(format!("a child ended with status {status:#x}"))),
        }
    }
}

/// Signals that were handled.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// From now on a signal comes every millisecond, with a handler that does or doesn't restart calls.
fn shake(restart: bool) {
    signals(restart, 1000);
}

/// No more of them. A signal that comes before the worker has received a call makes it `EINTR`, which
/// no Linux program expects of close(2).
fn calm() {
    signals(true, 0);
}

fn signals(restart: bool, tv_usec: i64) {
    // SAFETY: plain structures; the handler counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
        action.sa_flags = if restart { libc::SA_RESTART } else { 0 };
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let every = libc::timeval { tv_sec: 0, tv_usec };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
}

/// Does again what a signal interrupted.
fn again<T>(mut what: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match what() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Sends back what it gets, until the end.
fn echo(mut connection: TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; PIECE];
    loop {
        match again(|| connection.read(&mut bytes))? {
            0 => return Ok(()),
            got => connection.write_all(&bytes[..got])?,
        }
    }
}

/// The same, through a pipe (splice(2)).
fn echo_spliced(connection: TcpStream) -> io::Result<()> {
    let (from, to) = io::pipe()?;
    let fd = connection.as_raw_fd();
    let moved = |from: RawFd, to: RawFd, len: usize| {
        let null = std::ptr::null_mut;
        // SAFETY: takes numbers and null pointers.
        match unsafe { libc::splice(from, null(), to, null(), len, 0) } {
            -1 => Err(Error::last_os_error()),
            moved => Ok(moved as usize),
        }
    };
    loop {
        let mut left = again(|| moved(fd, to.as_raw_fd(), PIECE))?;
        if left == 0 {
            return Ok(());
        }
        while left > 0 {
            left -= again(|| moved(from.as_raw_fd(), fd, left))?;
        }
    }
}

/// One connection to an echo server: the bytes there and back.
fn converse(to: SocketAddr, random: &mut Random) -> io::Result<()> {
    let mut connection = TcpStream::connect(to)?;
    for _ in 0..=random.below(3) {
        let (seed, len) = (random.next(), 1 + random.below(20_000));
        Pattern::new(seed).send(&mut connection, len, random)?;
        Pattern::new(seed).expect(&mut connection, len, random)?;
    }
    Ok(())
}

pub(super) fn connections(seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let listener = TcpListener::bind(loopback(&mut random))?;
    let address = listener.local_addr()?;
    let forking = random.chance(50);
    let server = Child::new(|| {
        let mut children = Vec::new();
        for _ in 0..CONNECTIONS {
            let connection = again(|| listener.accept())?.0;
            if forking {
                children.push(Child::new(|| echo(connection))?);
            } else {
                echo(connection)?;
            }
        }
        children.into_iter().try_for_each(Child::wait)
    })?;
    for _ in 0..CONNECTIONS {
        converse(address, &mut random)?;
    }
    server.wait()
}

pub(super) fn stream(seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let listener = TcpListener::bind(loopback(&mut random))?;
    let address = listener.local_addr()?;
    let (restart, bytes) = (random.chance(50), random.next());
    let (mut here, mut there) = (random.split(), random.split());
    let receiver = Child::new(|| {
        shake(restart);
        let mut connection = again(|| listener.accept())?.0;
        Pattern::new(bytes).expect(&mut connection, STREAM, &mut there)?;
        match again(|| connection.read(&mut [0]))? {
            0 => Ok(()),
            _ => Err(wrong("more than was sent".into())),
        }
    })?;
    // connect(2), interrupted, goes on by itself: not to be done again.
    let mut connection = TcpStream::connect(address)?;
    shake(!restart);
    Pattern::new(bytes).send(&mut connection, STREAM, &mut here)?;
    calm();
    drop(connection);
    receiver.wait()
}

pub(super) fn datagrams(seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let here = UdpSocket::bind(loopback(&mut random))?;
    let there = UdpSocket::bind((here.local_addr()?.ip(), 0))?;
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    let restart = random.chance(50);
    let mirror = Child::new(|| {
        shake(restart);
        let mut bytes = vec![0; PIECE];
        for _ in 0..DATAGRAMS {
            let got = again(|| there.recv(&mut bytes))?;
            again(|| there.send(&bytes[..got]))?;
        }
        Ok(())
    })?;
    let mut bytes = vec![0; PIECE];
    for n in 0..DATAGRAMS {
        let seed = random.next();
        let mut datagram = vec![0; random.below(8000) as usize];
        Pattern::new(seed).fill(&mut datagram);
        again(|| here.send(&datagram))?;
        let got = again(|| here.recv(&mut bytes))?;
        if bytes[..got] != datagram {
            let len = datagram.len();
            return Err(wrong(format!(
                "datagram {n} of {len} bytes came back as another of {got}"
            )));
        }
    }
    mirror.wait()
}

pub(super) fn tree(seed: u64, depth: u32) -> io::Result<()> {
    let mut random = Random::new(seed);
    let mut children = Vec::new();
    for _ in 0..depth {
        let (seed, depth) = (random.next().to_string(), (depth - 1).to_string());
        let mut child = Command::new("/proc/self/exe");
        children.push(child.args(["program", "tree", &seed, &depth]).spawn()?);
    }
    let listener = TcpListener::bind(loopback(&mut random))?;
    let address = listener.local_addr()?;
    let server = Child::new(|| echo(listener.accept()?.0))?;
    converse(address, &mut random)?;
    server.wait()?;
    for mut child in children {
        let status = child.wait()?;
        if !status.success() {
            return Err(wrong(format!("a program of the tree: {status}")));
        }
    }
    Ok(())
}

/// Gives `work` a message of one byte with room for one descriptor (unix(7)).
fn with_message<T>(work: impl FnOnce(&mut libc::msghdr) -> io::Result<T>) -> io::Result<T> {
    let mut byte = 0u8;
    let mut control = [0u64; 3];
    let mut vector = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: all zero is a valid value of this plain structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    work(&mut message)
}

/// Sends a descriptor.
fn pass(over: &UnixStream, fd: RawFd) -> io::Result<()> {
    // SAFETY: the control data has room for one header and one descriptor; all outlive the call.
    with_message(|message| unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        match libc::sendmsg(over.as_raw_fd(), message, 0) {
            1 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    })
}

/// Receives a descriptor.
fn take(over: &UnixStream) -> io::Result<OwnedFd> {
    // SAFETY: the kernel fills what is here; a descriptor that it gives is new and owned here alone.
    with_message(|message| unsafe {
        if libc::recvmsg(over.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC) < 0 {
            return Err(Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(wrong("a message without its descriptor".into()));
        }
        let fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        Ok(OwnedFd::from_raw_fd(fd))
    })
}

pub(super) fn passing(seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let listener = TcpListener::bind(loopback(&mut random))?;
    let address = listener.local_addr()?;
    let (here, there) = UnixStream::pair()?;
    let server = Child::new(|| {
        for _ in 0..PASSED {
            echo_spliced(TcpStream::from(again(|| take(&there))?))?;
        }
        Ok(())
    })?;
    let client = Child::new(|| (0..PASSED).try_for_each(|_| converse(address, &mut random)))?;
    for _ in 0..PASSED {
        let connection = again(|| listener.accept())?.0;
        pass(&here, connection.as_raw_fd())?;
    }
    client.wait()?;
    server.wait()
}
