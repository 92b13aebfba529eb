//! Hellos over a UDP socket: by them each side knows that the other one is there.
//!
//! A side says hello each [`HELLO_PERIOD`], and at once to a peer that is heard again. A peer that
//! has been silent for [`MAX_SILENT_PERIODS`] is gone.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use vink_sys::socket::set_option;

use super::poll::{Poll, Timer, INPUT, ROOM};

const HELLO_PERIOD: Duration = Duration::from_secs(1);
/// Periods of silence after which a peer is gone.
const MAX_SILENT_PERIODS: u32 = 3;
/// Size of the socket's buffers in bytes, each way, as far as the host allows.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// What a socket's backend waits for, and how long its peer has been silent.
pub struct Hello {
    poll: Poll,
    timer: Timer,
    /// Periods since the peer's last datagram.
    silence: u32,
    /// The socket had no room.
    full: bool,
}

impl Hello {
    /// Prepares the socket. Its peer has not been heard.
    ///
    /// # Errors
    /// As timerfd_create(2), epoll_create1(2), epoll_ctl(2) and setsockopt(2).
    pub fn new(socket: &UdpSocket) -> io::Result<Hello> {
        socket.set_nonblocking(true)?;
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            set_option(socket, libc::SOL_SOCKET, option, SOCKET_BUFFER)?;
        }
        let (timer, poll) = (Timer::new()?, Poll::new()?);
        timer.every(HELLO_PERIOD)?;
        poll.add(&timer, INPUT)?;
        poll.add(socket, INPUT)?;
        Ok(Hello {
            poll,
            timer,
            silence: MAX_SILENT_PERIODS,
            full: false,
        })
    }

    /// Whether a period is over: a hello is due.
    pub fn is_due(&mut self) -> bool {
        let due = self.timer.went_off();
        if due {
            self.silence = (self.silence + 1).min(MAX_SILENT_PERIODS);
        }
        due
    }

    /// Whether the peer has been heard lately.
    pub fn is_heard(&self) -> bool {
        self.silence < MAX_SILENT_PERIODS
    }

    /// A datagram of the peer has come.
    pub fn heard(&mut self) {
        self.silence = 0;
    }

    /// Waits for room, too, as long as the socket has none.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn set_full(&mut self, socket: &UdpSocket, full: bool) -> io::Result<()> {
        if full == self.full {
            return Ok(());
        }
        self.full = full;
        self.poll.change(socket, if full { ROOM } else { INPUT })
    }
}

impl AsFd for Hello {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
