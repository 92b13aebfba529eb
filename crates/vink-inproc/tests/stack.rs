//! The stack of this process, which all tests of this file share: calls, waiting, signals, threads, the keeper.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::OnceLock;
use std::time::Duration;

use vink_inproc::{Config, Outcome, Stack, Waited};
use vink_spec::Uplink;

const ADDRESS: [u8; 4] = [10, 9, 0, 2];

/// The other end of its uplink.
fn outside() -> &'static UdpSocket {
    static OUTSIDE: OnceLock<UdpSocket> = OnceLock::new();
    OUTSIDE.get_or_init(|| UdpSocket::bind("127.0.0.1:0").expect("a socket of the host's"))
}

fn stack() -> &'static Stack {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/libvink-linux-6.12.so");
    let image = std::env::var_os("VINK_IMAGE").map_or(built, PathBuf::from);
    let config = || {
        Ok(Config {
            image: Some(image),
            uplink: Some(Uplink::Udp {
                listen: "127.0.0.1:0".parse().expect("an address"),
                peer: outside().local_addr().expect("an address"),
            }),
            addresses: vec!["10.9.0.2/24".parse().expect("an address")],
            ..Config::default()
        })
    };
    Stack::boot_with(config).expect("a stack")
}

fn outcome(nr: i64, args: &[u64]) -> Outcome {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    stack().call(nr, all)
}

fn call(nr: i64, args: &[u64]) -> i64 {
    outcome(nr, args).result
}

fn done(nr: i64, args: &[u64]) -> u64 {
    let result = call(nr, args);
    u64::try_from(result).unwrap_or_else(|_| panic!("call {nr}: {result}"))
}

/// A pair of connected sockets.
fn pair(kind: i32) -> [u64; 2] {
    let mut ends = [-1i32; 2];
    let at = ends.as_mut_ptr() as u64;
    done(
        libc::SYS_socketpair,
        &[libc::AF_UNIX as u64, kind as u64, 0, at],
    );
    ends.map(|end| end as u64)
}

fn write(file: u64, bytes: &[u8]) -> i64 {
    call(
        libc::SYS_write,
        &[file, bytes.as_ptr() as u64, bytes.len() as u64],
    )
}

fn read(file: u64, bytes: &mut [u8]) -> i64 {
    call(
        libc::SYS_read,
        &[file, bytes.as_mut_ptr() as u64, bytes.len() as u64],
    )
}

/// `struct sockaddr_in` of a port of the loopback interface.
fn loopback(port: u16) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    address
}

fn socket() -> u64 {
    let args = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
    done(libc::SYS_socket, &args)
}

#[test]
fn two_threads_talk() {
    const ROUNDS: u8 = 100;
    let listener = socket();
    let address = loopback(7001);
    let at = address.as_ptr() as u64;
    done(libc::SYS_bind, &[listener, at, 16]);
    done(libc::SYS_listen, &[listener, 1]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = done(libc::SYS_accept, &[listener]);
            let mut byte = [0];
            while read(file, &mut byte) == 1 {
                assert_eq!(write(file, &byte), 1);
            }
            done(libc::SYS_close, &[file]);
            stack().thread_ends();
        });
        let file = socket();
        done(libc::SYS_connect, &[file, at, 16]);
        for round in 0..ROUNDS {
            assert_eq!(write(file, &[round]), 1);
            let mut byte = [0];
            assert_eq!(read(file, &mut byte), 1);
            assert_eq!(byte, [round]);
        }
        done(libc::SYS_close, &[file]);
    });
    done(libc::SYS_close, &[listener]);
    stack().thread_ends();
}

#[test]
fn threads_are_of_one_process() {
    let own = || (done(libc::SYS_getpid, &[]), done(libc::SYS_gettid, &[]));
    let mine = own();
    let other = std::thread::spawn(move || {
        let other = own();
        stack().thread_ends();
        // Another task, for it has ended.
        let again = own();
        stack().thread_ends();
        (other, again)
    });
    let (other, again) = other.join().expect("its end");
    assert_eq!((mine.0, mine.0), (other.0, again.0));
    assert!(mine.1 != other.1 && mine.1 != again.1 && other.1 != again.1);
}

#[test]
fn errors_are_the_kernels() {
    let [a, b] = pair(libc::SOCK_STREAM);
    assert_eq!(call(libc::SYS_write, &[a, 16, 1]), -i64::from(libc::EFAULT));
    assert_eq!(call(libc::SYS_read, &[12345]), -i64::from(libc::EBADF));
    assert_eq!(call(1 << 40, &[]), -i64::from(libc::ENOSYS));
    done(libc::SYS_close, &[b]);
    let broken = outcome(libc::SYS_write, &[a, (&raw const a) as u64, 1]);
    assert_eq!(broken.result, -i64::from(libc::EPIPE));
    assert_eq!(broken.signals, 1 << (libc::SIGPIPE - 1));
    done(libc::SYS_close, &[a]);
}

#[test]
fn a_call_that_waits_is_interrupted() {
    let [a, b] = pair(libc::SOCK_STREAM);
    let (here, there) = channel();
    let (tell, told) = channel();
    let (go, gone) = channel::<()>();
    let reader = std::thread::spawn(move || {
        done(libc::SYS_getpid, &[]);
        here.send(Stack::thread().expect("it has made a call"))
            .expect("a listener");
        let mut byte = [0];
        let ended = outcome(libc::SYS_read, &[b, byte.as_mut_ptr() as u64, 1]);
        let waited = stack().wait(&mut [], &mut |_| false, None);
        tell.send((ended, waited)).expect("a listener");
        // An ended thread's record is the next thread's, which is not to be interrupted.
        assert!(gone.recv().is_err());
        stack().thread_ends();
    });
    let thread = there.recv().expect("a thread");
    stack().interrupt(thread);
    // Whether it waits already or not; as often as it takes to end both of its waits.
    let (ended, waited) = loop {
        if let Ok(both) = told.try_recv() {
            break both;
        }
        stack().interrupt(thread);
        std::thread::yield_now();
    };
    drop(go);
    reader.join().expect("its end");
    assert_eq!(ended.result, -i64::from(libc::EINTR));
    assert!(ended.restart, "read() is started again by SA_RESTART");
    assert_eq!(waited, Waited::Interrupted);
    done(libc::SYS_close, &[a]);
    done(libc::SYS_close, &[b]);
}

/// Whether the file is readable.
fn is_readable(file: u64) -> bool {
    let mut entry = libc::pollfd {
        fd: file as i32,
        events: libc::POLLIN,
        revents: 0,
    };
    done(libc::SYS_poll, &[(&raw mut entry) as u64, 1, 0]) == 1
}

#[test]
fn waiting_for_both_sides() {
    let [a, b] = pair(libc::SOCK_STREAM);
    let (reader, mut writer) = std::io::pipe().expect("a pipe of the host's");
    let mut host = [libc::pollfd {
        fd: reader.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }];
    let mut ready = |_: &Stack| is_readable(b);
    let passed = Some(1);
    let wait = |host: &mut [libc::pollfd], ready: &mut dyn FnMut(&Stack) -> bool, deadline| {
        stack().wait(host, ready, deadline)
    };
    assert_eq!(wait(&mut host, &mut ready, passed), Waited::TimedOut);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(write(a, b"x"), 1);
            stack().thread_ends();
        });
        assert_eq!(wait(&mut host, &mut ready, None), Waited::Ready);
    });
    let mut byte = [0];
    assert_eq!(read(b, &mut byte), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| std::io::Write::write_all(&mut writer, b"y").expect("room"));
        assert_eq!(wait(&mut host, &mut ready, None), Waited::Host(1));
    });
    assert_eq!(host[0].revents, libc::POLLIN);
    // A thread that is not the driver, too: the other one waits for longer.
    let [c, d] = pair(libc::SOCK_STREAM);
    std::thread::scope(|scope| {
        let (here, there) = channel();
        scope.spawn(move || {
            here.send(()).expect("a listener");
            let mut byte = [0];
            assert_eq!(read(d, &mut byte), 1);
            stack().thread_ends();
        });
        there.recv().expect("a thread");
        scope.spawn(|| {
            assert_eq!(write(a, b"x"), 1);
            stack().thread_ends();
        });
        let none = &mut [];
        assert_eq!(wait(none, &mut ready, None), Waited::Ready);
        assert_eq!(write(c, b"x"), 1);
    });
    for file in [a, b, c, d] {
        done(libc::SYS_close, &[file]);
    }
    stack().thread_ends();
}

#[test]
fn sleeping_in_the_kernel_takes_as_long_as_it_should() {
    let time = [0u64, 3_000_000];
    let before = std::time::Instant::now();
    done(libc::SYS_nanosleep, &[time.as_ptr() as u64]);
    assert!(before.elapsed() >= Duration::from_nanos(time[1]));
    stack().thread_ends();
}

/// While no thread is in the stack at all.
#[test]
fn the_keeper_answers() {
    stack();
    let outside = outside();
    let limit = Some(Duration::from_secs(60));
    outside.set_read_timeout(limit).expect("a limit");
    let mut frame = [0; 2000];
    // Its own first word tells where it is.
    let (_, inside) = outside.recv_from(&mut frame).expect("a frame");
    // Who has 10.9.0.2? Tell 10.9.0.1: RFC 826.
    let mut request = vec![0xff; 6];
    let sender = [2, 0, 0, 0, 0, 1];
    request.extend(sender);
    request.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend(sender);
    request.extend([10, 9, 0, 1, 0, 0, 0, 0, 0, 0]);
    request.extend(ADDRESS);
    // Each datagram has a mark and a number in front. The first one, without a frame: we are here.
    let lead = |number: u32| [*b"VNK\x01", number.to_be_bytes()].concat();
    outside.send_to(&lead(0), inside).expect("sent");
    for number in 1.. {
        // The interface may not have been up yet: once more, for each datagram that comes.
        let asked = [lead(number), request.clone()].concat();
        outside.send_to(&asked, inside).expect("sent");
        let (length, _) = outside.recv_from(&mut frame).expect("an answer");
        let answer = &frame[8..length.max(8)];
        let is_reply = answer.len() >= 42 && answer[12..14] == [8, 6] && answer[20..22] == [0, 2];
        if is_reply && answer[28..32] == ADDRESS {
            return;
        }
    }
}
