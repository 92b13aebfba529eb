//! Deferred sends: when a TCP socket has send credit for one, and what becomes of one that had
//! better not have been sent.

mod common;
#[path = "common/net.rs"]
mod net;

use common::{at, at_mut, finish, Caller, Task};
use net::{sockaddr, Net};
use vink_kernel::{Call, Outcome, SendMode, WireKind};

const PORT: u16 = 80;
const AGAIN: i64 = -(libc::EAGAIN as i64);

/// Two machines, the first one connected to the second and to itself.
struct Ends {
    net: Net,
    client: u64,
    server: u64,
    own: u64,
}

impl Ends {
    fn new() -> Ends {
        let mut net = Net::new(WireKind::PointToPoint, 2);
        net.address();
        let mut ends = Ends {
            net,
            client: 0,
            server: 0,
            own: 0,
        };
        ends.task(0).loopback_up();
        (ends.client, ends.server) = ends.connected(1);
        (ends.own, _) = ends.connected(0);
        ends
    }

    fn task(&mut self, host: usize) -> Task<'_> {
        let task = self.net.hosts[host].task;
        Task(&mut self.net.kernel, task)
    }

    /// A connection from the first machine to this one: both descriptors.
    fn connected(&mut self, to: usize) -> (u64, u64) {
        let name = sockaddr(to as u8 + 1, PORT);
        let name = [at(&name), size_of_val(&name) as u64];
        let mut sys = self.task(to);
        let listener = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
        sys.ok(libc::SYS_bind, &[listener, name[0], name[1]]);
        sys.ok(libc::SYS_listen, &[listener, 1]);
        let mut sys = self.task(0);
        let client = sys.socket(libc::AF_INET, libc::SOCK_STREAM);
        let call = Call {
            nr: libc::SYS_connect,
            args: [client, name[0], name[1], 0, 0, 0],
            ..Call::default()
        };
        assert_eq!(self.make(call).result, 0);
        let server = self.task(to).ok(libc::SYS_accept, &[listener, 0, 0]);
        (client, server)
    }

    fn make(&mut self, call: Call) -> Outcome {
        let task = self.net.hosts[0].task;
        self.net.kernel.start(task, call).expect("it starts");
        let outcome = finish(&mut self.net.kernel, task);
        self.net.settle();
        while self.net.kernel.next_event().is_some() {}
        outcome
    }

    /// Sends so many bytes without waiting.
    fn send(&mut self, fd: u64, len: usize, mode: SendMode) -> Outcome {
        let data = vec![7u8; len];
        let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64;
        self.make(Call {
            nr: libc::SYS_sendto,
            args: [fd, at(data.as_slice()), len as u64, flags, 0, 0],
            poll_fd: Some(fd as i32),
            send_mode: mode,
            ..Call::default()
        })
    }

    fn credit(&mut self, fd: u64) -> Option<u32> {
        let call = Call {
            nr: libc::SYS_getpid,
            poll_fd: Some(fd as i32),
            send_mode: SendMode::ReportCredit,
            ..Call::default()
        };
        self.make(call).credit
    }

    fn option(&mut self, fd: u64, name: i32) -> i32 {
        let (mut value, mut len) = (0i32, size_of::<i32>() as u32);
        let option = [libc::SOL_SOCKET as u64, name as u64];
        let args = [
            fd,
            option[0],
            option[1],
            at_mut(&mut value),
            at_mut(&mut len),
        ];
        self.task(0).ok(libc::SYS_getsockopt, &args);
        value
    }

    fn set(&mut self, host: usize, fd: u64, option: (i32, i32), value: &[i32]) {
        let args = [
            fd,
            option.0 as u64,
            option.1 as u64,
            at(value),
            4 * value.len() as u64,
        ];
        self.task(host).ok(libc::SYS_setsockopt, &args);
    }

    /// Sends until there is no room.
    fn fill(&mut self, fd: u64) {
        while self.send(fd, 4096, SendMode::Ordinary).result != AGAIN {}
    }

    /// All that the server can read now.
    fn received(&mut self) -> usize {
        let (server, mut buffer, mut all) = (self.server, vec![0u8; 1 << 20], 0);
        let args = |buffer: &mut Vec<u8>| {
            let at = at_mut(buffer.as_mut_slice());
            [server, at, 1 << 20, libc::MSG_DONTWAIT as u64, 0, 0]
        };
        loop {
            let args = args(&mut buffer);
            match self.task(1).sys(libc::SYS_recvfrom, &args) {
                AGAIN => return all,
                n => all += usize::try_from(n).expect("bytes"),
            }
            self.net.settle();
        }
    }
}

#[test]
fn there_is_credit_on_a_connection_over_a_wire() {
    let mut ends = Ends::new();
    let (client, own) = (ends.client, ends.own);
    let limit = ends.option(client, libc::SO_SNDBUF) as u32;
    let credit = ends.credit(client).expect("as asked for");
    assert!(credit > limit / 2 && credit < limit, "{credit} of {limit}");
    assert_eq!(ends.send(client, 1, SendMode::Ordinary).credit, None);
    // Within a machine what is sent is there at once.
    assert_eq!(ends.credit(own), Some(0));
    let datagrams = ends.task(0).socket(libc::AF_INET, libc::SOCK_DGRAM);
    let alone = ends.task(0).socket(libc::AF_INET, libc::SOCK_STREAM);
    for fd in [datagrams, alone, 77] {
        assert_eq!(ends.credit(fd), Some(0));
    }

    let lowat = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    ends.set(0, client, lowat, &[4096]);
    assert_eq!(ends.credit(client), Some(0));
    ends.set(0, client, lowat, &[-1]);
    assert!(ends.credit(client) > Some(0));

    ends.task(0)
        .ok(libc::SYS_shutdown, &[client, libc::SHUT_WR as u64]);
    assert_eq!(ends.credit(client), Some(0));
}

#[test]
fn what_there_is_credit_for_can_be_sent_and_leaves_the_socket_writable() {
    let mut ends = Ends::new();
    let client = ends.client;
    let mut sent = 0;
    while let Some(credit @ 1..) = ends.credit(client) {
        let len = (credit as usize).min(4080);
        let outcome = ends.send(client, len, SendMode::Deferred);
        assert_eq!(outcome.result, len as i64);
        let events = outcome.events.expect("as asked for");
        assert_ne!(events & libc::EPOLLOUT as u32, 0, "{sent} bytes");
        sent += len;
    }
    assert!(sent > 10_000, "{sent}");
    assert_eq!(ends.received(), sent);
}

#[test]
fn a_deferred_send_goes_beyond_the_limit() {
    let mut ends = Ends::new();
    let client = ends.client;
    ends.fill(client);
    assert_eq!(ends.credit(client), Some(0));
    let limit = ends.option(client, libc::SO_SNDBUF);
    let before = ends.send(client, 4080, SendMode::Deferred);
    assert_eq!((before.result, before.credit), (4080, Some(0)));
    assert_eq!(ends.option(client, libc::SO_SNDBUF), limit);
    // Others do not.
    ends.fill(client);
    assert!(ends.received() > 4080);
    assert!(ends.credit(client) > Some(0));
}

#[test]
fn on_a_connection_that_has_ended_it_is_lost() {
    let mut ends = Ends::new();
    let (client, server) = (ends.client, ends.server);
    ends.set(1, server, (libc::SOL_SOCKET, libc::SO_LINGER), &[1, 0]);
    ends.task(1).close(server);
    ends.net.settle();
    assert_eq!(ends.credit(client), Some(0));
    assert_eq!(ends.send(client, 100, SendMode::Deferred).result, 100);
    // Which leaves the error to be told.
    assert_eq!(ends.option(client, libc::SO_ERROR), libc::ECONNRESET);
    let broken = -i64::from(libc::EPIPE);
    assert_eq!(ends.send(client, 100, SendMode::Ordinary).result, broken);
}
