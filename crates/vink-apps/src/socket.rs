//! Sockets and epoll sets of an app; closed when dropped.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use vink_sys::plain::{FromBytes, Zeroed};

use crate::address::Raw;
use crate::calls::timespec;
use crate::Calls;

/// A socket of an app.
pub struct Socket<'c> {
    calls: &'c Calls<'c>,
    fd: i32,
}

impl<'c> Socket<'c> {
    pub(crate) fn new(calls: &'c Calls<'c>, fd: i32) -> Socket<'c> {
        Socket { calls, fd }
    }

    /// Its number among the descriptors of the app, for [`Calls::poll`] and [`Calls::call`].
    pub fn fd(&self) -> i32 {
        self.fd
    }

    fn call(&self, nr: i64, args: [u64; 5]) -> io::Result<u64> {
        let [a, b, c, d, e] = args;
        self.calls.call(nr, [self.fd as u64, a, b, c, d, e])
    }

    fn with_address(&self, nr: i64, address: SocketAddr) -> io::Result<()> {
        let (raw, len) = Raw::new(address);
        self.call(nr, [(&raw const raw) as u64, len.into(), 0, 0, 0])?;
        Ok(())
    }

    fn get_address(&self, nr: i64) -> io::Result<SocketAddr> {
        let mut raw = Raw::default();
        let mut len = size_of::<Raw>() as libc::socklen_t;
        self.call(nr, [(&raw mut raw) as u64, (&raw mut len) as u64, 0, 0, 0])?;
        raw.address()
    }

    /// bind(2).
    ///
    /// # Errors
    /// As bind(2).
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        self.with_address(libc::SYS_bind, address)
    }

    /// connect(2).
    ///
    /// # Errors
    /// As connect(2).
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        self.with_address(libc::SYS_connect, address)
    }

    /// listen(2).
    ///
    /// # Errors
    /// As listen(2).
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        self.call(libc::SYS_listen, [backlog as u64, 0, 0, 0, 0])?;
        Ok(())
    }

    /// accept(2): the connection, and its peer's address.
    ///
    /// # Errors
    /// As accept(2).
    pub fn accept(&self) -> io::Result<(Socket<'c>, SocketAddr)> {
        self.accept_with(0)
    }

    /// accept4(2) with flags (`SOCK_NONBLOCK`).
    ///
    /// # Errors
    /// As accept4(2).
    pub fn accept_with(&self, flags: i32) -> io::Result<(Socket<'c>, SocketAddr)> {
        let mut raw = Raw::default();
        let mut len = size_of::<Raw>() as libc::socklen_t;
        let (raw_at, len_at) = ((&raw mut raw) as u64, (&raw mut len) as u64);
        let fd = self.call(libc::SYS_accept4, [raw_at, len_at, flags as u64, 0, 0])?;
        let socket = Socket::new(self.calls, fd as i32);
        Ok((socket, raw.address()?))
    }

    /// send(2) with flags (`MSG_*`; no `SIGPIPE` ever): how many bytes were taken.
    ///
    /// # Errors
    /// As send(2).
    pub fn send(&self, data: &[u8], flags: i32) -> io::Result<usize> {
        let args = [data.as_ptr() as u64, data.len() as u64, flags as u64, 0, 0];
        Ok(self.call(libc::SYS_sendto, args)? as usize)
    }

    /// Sends all of it, over a socket that blocks.
    ///
    /// # Errors
    /// As send(2).
    pub fn send_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            data = &data[self.send(data, 0)?..];
        }
        Ok(())
    }

    /// recv(2) with flags (`MSG_*`): how many bytes came; 0 at the end of a stream.
    ///
    /// # Errors
    /// As recv(2).
    pub fn recv(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        let (at, len) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
        Ok(self.call(libc::SYS_recvfrom, [at, len, flags as u64, 0, 0])? as usize)
    }

    /// sendto(2).
    ///
    /// # Errors
    /// As sendto(2).
    pub fn send_to(&self, data: &[u8], flags: i32, to: SocketAddr) -> io::Result<usize> {
        let (raw, len) = Raw::new(to);
        let (at, size) = (data.as_ptr() as u64, data.len() as u64);
        let args = [at, size, flags as u64, (&raw const raw) as u64, len.into()];
        Ok(self.call(libc::SYS_sendto, args)? as usize)
    }

    /// recvfrom(2): how many bytes came, and the sender's address.
    ///
    /// # Errors
    /// As recvfrom(2).
    pub fn recv_from(&self, buffer: &mut [u8], flags: i32) -> io::Result<(usize, SocketAddr)> {
        let mut raw = Raw::default();
        let mut len = size_of::<Raw>() as libc::socklen_t;
        let (at, size) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
        let (raw_at, len_at) = ((&raw mut raw) as u64, (&raw mut len) as u64);
        let got = self.call(libc::SYS_recvfrom, [at, size, flags as u64, raw_at, len_at])?;
        Ok((got as usize, raw.address()?))
    }

    /// recvmsg(2): how many bytes came, the sender's address, and the first control message if
    /// there is one that is short, such as of `IPV6_RECVHOPLIMIT`.
    ///
    /// # Errors
    /// As recvmsg(2).
    pub fn recv_message(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<(usize, SocketAddr, Option<Control>)> {
        let mut raw = Raw::default();
        let mut room = Room::empty();
        let mut data = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut message = message(&raw mut raw, &raw mut data);
        message.msg_control = (&raw mut room).cast();
        message.msg_controllen = size_of::<Room>();
        let args = [(&raw mut message) as u64, flags as u64, 0, 0, 0];
        let got = self.call(libc::SYS_recvmsg, args)? as usize;
        Ok((got, raw.address()?, room.read(message.msg_controllen)))
    }

    /// sendmsg(2) to an address, with a control message, such as of `IPV6_PKTINFO`.
    ///
    /// # Errors
    /// As sendmsg(2).
    pub fn send_message(
        &self,
        data: &[u8],
        flags: i32,
        to: SocketAddr,
        control: Control,
    ) -> io::Result<usize> {
        let (mut raw, len) = Raw::new(to);
        let mut room = Room::empty();
        let mut data = libc::iovec {
            iov_base: data.as_ptr().cast_mut().cast(),
            iov_len: data.len(),
        };
        let mut message = message(&raw mut raw, &raw mut data);
        message.msg_namelen = len;
        message.msg_control = (&raw mut room).cast();
        message.msg_controllen = room.write(control);
        let args = [(&raw const message) as u64, flags as u64, 0, 0, 0];
        Ok(self.call(libc::SYS_sendmsg, args)? as usize)
    }

    /// shutdown(2).
    ///
    /// # Errors
    /// As shutdown(2).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        };
        self.call(libc::SYS_shutdown, [how as u64, 0, 0, 0, 0])?;
        Ok(())
    }

    /// getsockname(2).
    ///
    /// # Errors
    /// As getsockname(2); `EAFNOSUPPORT`: neither IPv4 nor IPv6.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.get_address(libc::SYS_getsockname)
    }

    /// getpeername(2).
    ///
    /// # Errors
    /// As getpeername(2); `EAFNOSUPPORT`: neither IPv4 nor IPv6.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        self.get_address(libc::SYS_getpeername)
    }

    /// poll(2) of this socket alone, for something to read: whether there is, before the time is
    /// over.
    ///
    /// # Errors
    /// As ppoll(2).
    pub fn is_readable(&self, timeout: Duration) -> io::Result<bool> {
        let mut wait = [libc::pollfd {
            fd: self.fd,
            events: libc::POLLIN,
            revents: 0,
        }];
        Ok(self.calls.poll(&mut wait, Some(timeout))? > 0)
    }

    /// setsockopt(2) of any value without pointers in it, such as a number or a byte string.
    ///
    /// # Errors
    /// As setsockopt(2).
    pub fn set_option<T: Copy>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        let bytes = (&raw const *value).cast::<u8>() as u64;
        self.set_option_at(level, name, bytes, size_of::<T>())
    }

    /// setsockopt(2) of bytes, such as the name of a congestion control.
    ///
    /// # Errors
    /// As setsockopt(2).
    pub fn set_option_bytes(&self, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
        self.set_option_at(level, name, value.as_ptr() as u64, value.len())
    }

    fn set_option_at(&self, level: i32, name: i32, at: u64, len: usize) -> io::Result<()> {
        let args = [level as u64, name as u64, at, len as u64, 0];
        self.call(libc::SYS_setsockopt, args)?;
        Ok(())
    }

    /// getsockopt(2) of raw bytes: how many were written to the buffer.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn option_bytes(&self, level: i32, name: i32, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = buffer.len() as libc::socklen_t;
        let (at, len_at) = (buffer.as_mut_ptr() as u64, (&raw mut len) as u64);
        let args = [level as u64, name as u64, at, len_at, 0];
        self.call(libc::SYS_getsockopt, args)?;
        Ok(len as usize)
    }

    /// getsockopt(2) of an `int`.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn option(&self, level: i32, name: i32) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.option_bytes(level, name, &mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    /// `TCP_INFO` of tcp(7): the kernel's own view of the connection.
    ///
    /// # Errors
    /// As getsockopt(2): `ENOPROTOOPT` if this is no TCP socket.
    pub fn tcp_info(&self) -> io::Result<libc::tcp_info> {
        let mut bytes = [0; size_of::<libc::tcp_info>()];
        self.option_bytes(libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(libc::tcp_info::from_bytes(&bytes).expect("as many bytes as it has"))
    }

    /// Says whether calls on this socket wait (`FIONBIO`, ioctl(2)): they fail with `EAGAIN`
    /// otherwise.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        let value = i32::from(!blocking);
        let args = [libc::FIONBIO, (&raw const value) as u64, 0, 0, 0];
        self.call(libc::SYS_ioctl, args)?;
        Ok(())
    }
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        self.calls.close(self.fd);
    }
}

/// A control message of cmsg(3), of 20 bytes at most: an `int`, a `struct in6_pktinfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// `cmsg_level`.
    pub level: i32,
    /// `cmsg_type`.
    pub kind: i32,
    /// Its data.
    pub data: [u8; 20],
    /// How many of these bytes count.
    pub len: usize,
}

impl Control {
    /// Its data as an `int`; 0 if it is shorter.
    pub fn value(&self) -> i32 {
        i32::from_ne_bytes(self.data[..4].try_into().expect("four bytes"))
    }
}

/// Room for a control message as the kernel has it.
#[repr(C)]
struct Room {
    head: libc::cmsghdr,
    data: [u8; 20],
    /// For others behind it, which are not looked at.
    more: [u64; 8],
}

impl Room {
    fn empty() -> Room {
        Room {
            head: libc::cmsghdr::zeroed(),
            data: [0; 20],
            more: [0; 8],
        }
    }

    /// The message, if so many bytes hold one that is short enough.
    fn read(&self, filled: usize) -> Option<Control> {
        let head = size_of::<libc::cmsghdr>();
        let len = self.head.cmsg_len.checked_sub(head)?;
        (filled >= head && len <= self.data.len()).then_some(Control {
            level: self.head.cmsg_level,
            kind: self.head.cmsg_type,
            data: self.data,
            len,
        })
    }

    /// Puts a message in; the bytes that count.
    fn write(&mut self, control: Control) -> usize {
        let len = control.len.min(self.data.len());
        self.head.cmsg_len = size_of::<libc::cmsghdr>() + len;
        self.head.cmsg_level = control.level;
        self.head.cmsg_type = control.kind;
        self.data = control.data;
        // To the next multiple of a number's size, as CMSG_SPACE.
        size_of::<libc::cmsghdr>() + len.next_multiple_of(8)
    }
}

/// One that is in one piece.
fn message(name: *mut Raw, data: *mut libc::iovec) -> libc::msghdr {
    let mut message = libc::msghdr::zeroed();
    message.msg_name = name.cast();
    message.msg_namelen = size_of::<Raw>() as u32;
    message.msg_iov = data;
    message.msg_iovlen = 1;
    message
}

/// An epoll(7) set of an app.
pub struct Epoll<'c> {
    calls: &'c Calls<'c>,
    fd: i32,
}

impl<'c> Epoll<'c> {
    pub(crate) fn new(calls: &'c Calls<'c>, fd: i32) -> Epoll<'c> {
        Epoll { calls, fd }
    }

    fn control(&self, what: i32, fd: i32, events: i32, token: u64) -> io::Result<()> {
        let event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        let at = (&raw const event) as u64;
        let args = [self.fd as u64, what as u64, fd as u64, at, 0, 0];
        self.calls.call(libc::SYS_epoll_ctl, args)?;
        Ok(())
    }

    /// Watches a socket for events (`EPOLL*`), which come with the token.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add(&self, socket: &Socket<'_>, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket.fd, events, token)
    }

    /// Changes what a socket is watched for.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn modify(&self, socket: &Socket<'_>, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket.fd, events, token)
    }

    /// Watches a socket no more; one that is closed leaves by itself.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn remove(&self, socket: &Socket<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, socket.fd, 0, 0)
    }

    /// epoll_pwait2(2): waits for events, without end if there is no timeout; those that there are.
    ///
    /// # Errors
    /// As epoll_pwait2(2).
    pub fn wait<'e>(
        &self,
        events: &'e mut [libc::epoll_event],
        timeout: Option<Duration>,
    ) -> io::Result<&'e [libc::epoll_event]> {
        let timeout = timeout.map(timespec);
        let limit = timeout.as_ref().map_or(0, |t| (&raw const *t) as u64);
        let (at, room) = (events.as_mut_ptr() as u64, events.len() as u64);
        let args = [self.fd as u64, at, room, limit, 0, 0];
        let count = self.calls.call(libc::SYS_epoll_pwait2, args)?;
        Ok(&events[..count as usize])
    }
}

impl Drop for Epoll<'_> {
    fn drop(&mut self) {
        self.calls.close(self.fd);
    }
}
