//! What is under way between a Vink socket and a pipe or file of the host (`splice`).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use vink_sys::errno::EFAULT;
use vink_sys::fd::{self, pipe_that_never_waits, splice, tee};
use vink_sys::poll::events_of;
use vink_sys::{epoll, errno};

use crate::fd_table::Entry;
use crate::tracee;

/// A splice(2) between a host pipe and a Vink socket.
pub(crate) struct Splice {
    pub(crate) pipe: Pipe,
    pub(crate) socket: Entry,
    pub(crate) into_socket: bool,
    /// It must not wait for the pipe.
    pub(crate) non_blocking: bool,
    /// `MSG_MORE`, or 0.
    pub(crate) more: u64,
    pub(crate) done: u64,
    pub(crate) left: u64,
    pub(crate) step: Step,
}

/// What the thread's task does.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Sleeps until the pipe is ready.
    Wait,
    /// Peeks at what the socket has.
    Peek,
    /// Takes from the socket what the pipe has taken.
    Take,
    /// Sends what the pipe has.
    Send,
}

/// A sendfile(2) from a host file to a Vink file.
pub(crate) struct Sendfile {
    /// The host file: the same open file as the program's.
    pub(crate) source: File,
    pub(crate) to: Entry,
    /// Where in it the call started.
    pub(crate) base: i64,
    /// The program's offset variable; 0: the file's own offset counts.
    pub(crate) pointer: u64,
    /// Bytes sent.
    pub(crate) done: u64,
    /// Bytes to send.
    pub(crate) left: u64,
    /// The piece under way.
    pub(crate) piece: u64,
}

/// The program's end of a pipe: the same open file.
pub(crate) struct Pipe {
    pub(crate) fd: OwnedFd,
    /// The set that waits for it.
    pub(crate) epoll: RawFd,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The program has the file open too, so closing would not take it out of the set.
        let _ = epoll::remove(self.epoll, self.fd.as_raw_fd());
    }
}

impl Pipe {
    /// What poll(2) says of it.
    pub(crate) fn ready(&self) -> i16 {
        events_of(self.fd.as_raw_fd(), libc::POLLIN | libc::POLLOUT, 0)
    }
}

/// A pipe of the worker's, empty between uses: splice(2) and tee(2) to and from it don't wait,
/// whatever the flags of the other pipe are.
pub(crate) struct ScratchPipe {
    pub(crate) out: File,
    pub(crate) into: File,
    pub(crate) null: OwnedFd,
}

impl ScratchPipe {
    pub(crate) fn new() -> std::io::Result<ScratchPipe> {
        let (out, into) = pipe_that_never_waits()?;
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        let null = null.into();
        Ok(ScratchPipe {
            out: out.into(),
            into: into.into(),
            null,
        })
    }

    /// Copies what the pipe has; it keeps it. 0: nothing, and no writers.
    pub(crate) fn peek(&self, pipe: &Pipe, buffer: &mut [u8]) -> i64 {
        let there = match tee(&pipe.fd, &self.into, buffer.len()) {
            Ok(there @ 1..) => there,
            none => return errno::result(none),
        };
        let mut copied = 0;
        while copied < there {
            let rest = &mut buffer[copied..there];
            match (&self.out).read(rest) {
                Ok(got @ 1..) => copied += got,
                _ => break,
            }
        }
        copied as i64
    }

    /// Takes so many bytes from the pipe.
    pub(crate) fn discard(&self, pipe: RawFd, len: u64) {
        move_bytes(pipe, self.null.as_raw_fd(), len);
    }

    /// Puts as much as there is room for into the pipe.
    pub(crate) fn put(&self, pipe: &Pipe, bytes: &[u8]) -> i64 {
        let filled = match (&self.into).write(bytes) {
            Ok(filled @ 1..) => filled as u64,
            none => return errno::result(none),
        };
        let moved = move_bytes(self.out.as_raw_fd(), pipe.fd.as_raw_fd(), filled);
        let rest = filled - moved.max(0) as u64;
        self.discard(self.out.as_raw_fd(), rest);
        moved
    }
}

/// splice(2) that does not wait.
fn move_bytes(from: RawFd, to: RawFd, len: u64) -> i64 {
    let mut moved = 0;
    while moved < len {
        match splice(from, to, (len - moved) as usize) {
            Ok(step @ 1..) => moved += step as u64,
            _ if moved > 0 => break,
            none => return errno::result(none),
        }
    }
    moved as i64
}

impl Sendfile {
    pub(crate) fn count(&mut self, result: i64) {
        let sent = u64::try_from(result).unwrap_or(0);
        self.done += sent;
        self.left -= sent.min(self.left);
    }

    /// If anything was sent: moves the offset and gives the call's result.
    pub(crate) fn result(&self, tid: i32) -> Option<i64> {
        let end = self.base + self.done as i64;
        if self.done == 0 {
            return None;
        }
        if self.pointer == 0 {
            fd::set_offset(self.source.as_raw_fd(), end);
        } else if !tracee::write(tid, self.pointer, &end.to_ne_bytes()) {
            return Some(EFAULT);
        }
        Some(self.done as i64)
    }
}
