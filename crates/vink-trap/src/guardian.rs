//! The guardian: a process that ends the helpers of a worker that was killed.
//!
//! A worker that ends in good order ends its helpers, such as passt. One that is killed (kill -9,
//! the OOM killer) can't, and a helper that ends by itself at the end of a socket may hang just
//! then. The guardian waits for the end of a socket whose other end only the worker has. It has the
//! helpers' pidfds, so that their numbers can't become another's. Programs need no guardian: they
//! end with their PID namespace (`pids`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vink_sys::pidfd::send_signal;
use vink_sys::process::{exit_now, waitpid};
use vink_sys::rustix::process::setsid;
use vink_sys::rustix::stdio::{dup2_stdin, stdin};
use vink_sys::rustix::thread::set_name;
use vink_sys::signals::{mask, Mask, SignalSet};
use vink_sys::socket::{receive_with, send_with, seqpacket_pair};

use crate::Error;

/// What the worker tells, with a descriptor: this process is a helper.
const HELPER: u8 = 1;
/// The worker needs no guardian any more; without a descriptor.
const DISMISSED: u8 = 2;

/// The worker's side.
pub(crate) struct Guardian {
    pid: i32,
    socket: OwnedFd,
}

impl Guardian {
    /// Forks it off.
    pub(crate) fn start() -> Result<Guardian, Error> {
        let pair = seqpacket_pair().map_err(Error::of("socketpair() for a guardian"));
        let (socket, other) = pair?;
        // SAFETY: the child runs nothing but `guard`, which takes no lock that another thread may
        // have: glibc keeps the allocator usable over a fork.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last("fork() for a guardian")),
            0 => guard(other.as_fd()),
            pid => Ok(Guardian { pid, socket }),
        }
    }

    /// The process of this pidfd is to end with the worker.
    pub(crate) fn add_helper(&self, pidfd: BorrowedFd<'_>) {
        self.tell(HELPER, Some(pidfd));
    }

    fn tell(&self, what: u8, about: Option<BorrowedFd<'_>>) {
        // Fails if it has been killed.
        let _ = send(self.socket.as_fd(), what, about);
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.tell(DISMISSED, None);
        let _ = waitpid(self.pid, 0);
    }
}

/// What the guardian does until it ends.
fn guard(socket: BorrowedFd<'_>) -> ! {
    let _ = setsid();
    let _ = set_name(c"vink-guardian");
    mask(Mask::Set, SignalSet::ALL);
    let _ = dup2_stdin(socket);
    // SAFETY: no descriptor of the worker's is used after this but the socket, which is 0 from here
    // on: no reader may be kept waiting for the end of an output that only the guardian still has.
    unsafe { libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) };
    let socket = stdin();
    let mut helpers = Vec::new();
    loop {
        match receive(socket) {
            Ok((HELPER, about)) => helpers.extend(about),
            Ok((DISMISSED, _)) => exit_now(0),
            _ => break,
        }
    }
    for helper in &helpers {
        let _ = send_signal(helper, libc::SIGKILL);
    }
    exit_now(0)
}

/// A message of a byte, and a descriptor.
fn send(socket: BorrowedFd<'_>, what: u8, about: Option<BorrowedFd<'_>>) -> io::Result<()> {
    send_with(socket, &[what], about.as_slice()).map(|_| ())
}

/// The next message; an error at the end of all.
fn receive(socket: BorrowedFd<'_>) -> io::Result<(u8, Option<OwnedFd>)> {
    let (mut what, mut about) = ([0], Vec::new());
    match receive_with(socket, &mut what, &mut about)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok((what[0], about.pop())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee;
    use std::os::fd::AsRawFd;

    #[test]
    fn messages_and_their_descriptors() {
        let (a, b) = seqpacket_pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send(a.as_fd(), HELPER, Some(file.as_fd())).unwrap();
        send(a.as_fd(), DISMISSED, None).unwrap();
        drop(a);
        let (what, about) = receive(b.as_fd()).unwrap();
        let identities = [about.unwrap().as_raw_fd(), file.as_raw_fd()].map(tracee::identity);
        assert_eq!((what, identities[0]), (HELPER, identities[1]));
        let (what, about) = receive(b.as_fd()).unwrap();
        assert_eq!((what, about.is_none()), (DISMISSED, true));
        assert!(receive(b.as_fd()).is_err());
    }
}
