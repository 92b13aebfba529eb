//! Apps' calls on sockets, as properties see them: which connection, which bytes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use vink_apps::{AppId, Observer};
use vink_kernel::Fiber;

use crate::run::Shared;
use crate::{AppCall, Moves};

/// The result of a call on a connection that was reset.
pub(crate) const RESET: i64 = -(libc::ECONNRESET as i64);

/// The result of a call that has begun to connect.
const CONNECTS: i64 = -(libc::EINPROGRESS as i64);

/// A socket's own address and its peer's.
type Ends = (SocketAddr, SocketAddr);

/// What is known of apps' descriptors.
pub(crate) struct Calls {
    shared: Shared,
    /// The ends of TCP sockets that are connected, or connect; none of one of another protocol
    /// (Multipath TCP), whose peer may have one of TCP.
    sockets: RefCell<HashMap<(AppId, i32), Option<Ends>>>,
}

impl Calls {
    /// What is to be told of each call.
    pub fn observer(shared: Shared) -> Observer {
        let calls = Rc::new(Calls {
            shared,
            sockets: RefCell::default(),
        });
        Rc::new(move |fiber, app, nr, args, result| calls.returned(fiber, app, nr, args, result))
    }

    fn returned(&self, fiber: &Fiber, app: AppId, nr: i64, args: [u64; 6], result: i64) {
        let fd = args[0] as i32;
        let bytes = usize::try_from(result).unwrap_or(0);
        let peeks = |flags: u64| flags as i32 & libc::MSG_PEEK != 0;
        let (moves, data) = match nr {
            libc::SYS_write | libc::SYS_sendto if result > 0 => (Moves::Sent, one(args[1], bytes)),
            libc::SYS_sendmsg if result > 0 => (Moves::Sent, several(args[1], bytes)),
            libc::SYS_read if result >= 0 && args[2] > 0 => (Moves::Received, one(args[1], bytes)),
            libc::SYS_recvfrom if result >= 0 && args[2] > 0 && !peeks(args[3]) => {
                (Moves::Received, one(args[1], bytes))
            }
            libc::SYS_recvmsg if result >= 0 && !peeks(args[2]) => {
                (Moves::Received, several(args[1], bytes))
            }
            libc::SYS_shutdown if result >= 0 && args[1] as i32 != libc::SHUT_RD => {
                (Moves::Closes, Vec::new())
            }
            libc::SYS_close => (Moves::Closes, Vec::new()),
            // By its peer, as the stack has it.
            libc::SYS_read
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_write
            | libc::SYS_sendto
            | libc::SYS_sendmsg
                if result == RESET =>
            {
                (Moves::Nothing, Vec::new())
            }
            libc::SYS_connect => (Moves::Nothing, Vec::new()),
            libc::SYS_sendto if result == CONNECTS => (Moves::Nothing, Vec::new()),
            libc::SYS_accept | libc::SYS_accept4 if result >= 0 => (Moves::Nothing, Vec::new()),
            _ => return,
        };
        let socket = match nr {
            libc::SYS_accept | libc::SYS_accept4 => result as i32,
            _ => fd,
        };
        let key = (app, socket);
        let known = self.sockets.borrow().get(&key).copied();
        let ends = match (nr, known) {
            (libc::SYS_close, known) => known.flatten(),
            (libc::SYS_connect, known) => {
                connects(fiber, fd, result, args[1], args[2]).or(known.flatten())
            }
            (libc::SYS_sendto, None) if args[3] as i32 & libc::MSG_FASTOPEN != 0 => {
                connects(fiber, fd, result, args[4], args[5])
            }
            // By the socket that listens.
            (libc::SYS_accept | libc::SYS_accept4, _) if !is_tcp(fiber, fd) => None,
            (libc::SYS_accept | libc::SYS_accept4, _) => ends_of(fiber, socket),
            (_, Some(known)) => known,
            (_, None) => ends_of(fiber, socket),
        };
        // One that is not connected yet is looked at again.
        let is_settled = known.is_some() || ends.is_some() || key.1 != fd;
        match nr {
            libc::SYS_close => self.sockets.borrow_mut().remove(&key),
            _ if is_settled => self.sockets.borrow_mut().insert(key, ends),
            _ => None,
        };
        let mut state = self.shared.lock();
        let Some(program) = state.world.apps.get(&app).copied() else {
            return;
        };
        state.call(&AppCall {
            time: now(fiber),
            program,
            nr,
            args,
            result,
            ends,
            data: &data,
            moves,
        });
    }
}

fn now(fiber: &Fiber) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = libc::CLOCK_MONOTONIC as u64;
    fiber.call(
        libc::SYS_clock_gettime,
        [clock, (&raw mut now) as u64, 0, 0, 0, 0],
    );
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// So many bytes of a buffer that the kernel has just read or filled.
fn one(at: u64, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: the call has said that it has read or written so many bytes there, for the app whose
    // memory is this process's, and which waits for this.
    unsafe { std::slice::from_raw_parts(at as *const u8, len) }.to_vec()
}

/// So many bytes of the buffers of a `struct msghdr`.
fn several(message: u64, len: usize) -> Vec<u8> {
    // SAFETY: as in one(): the call has taken the header for one, and its buffers.
    let buffers = unsafe {
        let message = &*(message as *const libc::msghdr);
        match message.msg_iovlen {
            0 => &[],
            count => std::slice::from_raw_parts(message.msg_iov, count),
        }
    };
    let mut data = Vec::new();
    for buffer in buffers {
        let part = buffer.iov_len.min(len - data.len());
        data.extend(one(buffer.iov_base as u64, part));
    }
    data
}

/// Whether a socket is one of TCP.
fn is_tcp(fiber: &Fiber, fd: i32) -> bool {
    let mut protocol = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    let option = [
        fd as u64,
        libc::SOL_SOCKET as u64,
        libc::SO_PROTOCOL as u64,
        (&raw mut protocol) as u64,
        (&raw mut len) as u64,
        0,
    ];
    fiber.call(libc::SYS_getsockopt, option) == 0 && protocol == libc::IPPROTO_TCP
}

/// The ends of a TCP socket that is connected.
fn ends_of(fiber: &Fiber, fd: i32) -> Option<Ends> {
    if !is_tcp(fiber, fd) {
        return None;
    }
    let own = name(fiber, libc::SYS_getsockname, fd)?;
    Some((own, name(fiber, libc::SYS_getpeername, fd)?))
}

/// The ends of a TCP socket after a call that connects it to the address of `len` bytes at `at`. As
/// long as it connects it has no name of its peer.
fn connects(fiber: &Fiber, fd: i32, result: i64, at: u64, len: u64) -> Option<Ends> {
    let is_begun = result >= 0 || result == CONNECTS;
    if !is_begun || !is_tcp(fiber, fd) {
        return None;
    }
    // Of a socket that is connected already MSG_FASTOPEN needs no address.
    if len == 0 {
        return ends_of(fiber, fd);
    }
    let own = name(fiber, libc::SYS_getsockname, fd)?;
    Some((own, address(&one(at, len as usize))?))
}

fn name(fiber: &Fiber, nr: i64, fd: i32) -> Option<SocketAddr> {
    let mut raw = [0u8; size_of::<libc::sockaddr_in6>()];
    let mut len = raw.len() as libc::socklen_t;
    let args = [
        fd as u64,
        raw.as_mut_ptr() as u64,
        (&raw mut len) as u64,
        0,
        0,
        0,
    ];
    if fiber.call(nr, args) < 0 {
        return None;
    }
    address(&raw)
}

/// A `struct sockaddr_in` or `sockaddr_in6`.
fn address(raw: &[u8]) -> Option<SocketAddr> {
    let two = |at: usize| Some([*raw.get(at)?, *raw.get(at + 1)?]);
    let ip: IpAddr = match i32::from(u16::from_ne_bytes(two(0)?)) {
        libc::AF_INET => {
            let four: [u8; 4] = raw.get(4..8)?.try_into().ok()?;
            Ipv4Addr::from(four).into()
        }
        libc::AF_INET6 => {
            let sixteen: [u8; 16] = raw.get(8..24)?.try_into().ok()?;
            Ipv6Addr::from(sixteen).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(two(2)?)))
}

#[cfg(test)]
mod tests {
    use vink_sys::plain::Zeroed;

    use super::*;

    /// As the kernel writes it: family, port, then what the family has.
    fn raw(family: i32, rest: &[u8]) -> Vec<u8> {
        [&(family as u16).to_ne_bytes(), &80u16.to_be_bytes(), rest].concat()
    }

    #[test]
    fn addresses_are_ip_s_or_none() {
        let v4 = raw(libc::AF_INET, &[10, 0, 0, 1]);
        assert_eq!(address(&v4), Some("10.0.0.1:80".parse().unwrap()));
        assert_eq!(address(&v4[..7]), None);

        let flow = [0; 4];
        let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let v6 = raw(libc::AF_INET6, &[&flow[..], &ip("fd00::1")].concat());
        assert_eq!(address(&v6), Some("[fd00::1]:80".parse().unwrap()));
        assert_eq!(address(&v6[..23]), None);
        // Of IPv4 at a socket of IPv6: its packets are IPv4's.
        let mapped = raw(
            libc::AF_INET6,
            &[&flow[..], &ip("::ffff:10.0.0.1")].concat(),
        );
        assert_eq!(address(&mapped), address(&v4));

        assert_eq!(address(&raw(libc::AF_UNIX, b"/tmp/socket")), None);
        assert_eq!(address(&[2]), None);
    }

    #[test]
    fn a_message_s_bytes_are_those_that_were_moved() {
        let (mut one, mut other) = (*b"hello, ", *b"world");
        let mut buffers = [&mut one[..], &mut other].map(|buffer| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        });
        let mut message = libc::msghdr::zeroed();
        assert_eq!(several((&raw const message) as u64, 0), b"");
        message.msg_iov = buffers.as_mut_ptr();
        message.msg_iovlen = buffers.len();
        for len in 0..=12 {
            assert_eq!(
                several((&raw const message) as u64, len),
                &b"hello, world"[..len]
            );
        }
    }
}
