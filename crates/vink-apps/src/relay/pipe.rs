//! A pipe between two sockets: bytes go from one to the other by reference, as splice(2) has it.

use std::io;

use crate::{Calls, Socket};

/// The most bytes per splice(2).
const MOST: u64 = 1 << 20;

/// A pipe(7) of an app; closed when dropped.
pub(super) struct Pipe<'c> {
    calls: &'c Calls<'c>,
    reader: i32,
    writer: i32,
    /// Bytes in it.
    held: usize,
}

impl<'c> Pipe<'c> {
    /// An empty one. As pipe2(2).
    pub fn new(calls: &'c Calls<'c>) -> io::Result<Pipe<'c>> {
        let mut ends = [0i32; 2];
        let args = [(&raw mut ends) as u64, libc::O_NONBLOCK as u64, 0, 0, 0, 0];
        calls.call(libc::SYS_pipe2, args)?;
        let [reader, writer] = ends;
        Ok(Pipe {
            calls,
            reader,
            writer,
            held: 0,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Takes what a socket has; 0 at the end of the stream. As splice(2). Only for an empty pipe,
    /// so that `EAGAIN` means that the socket has nothing.
    pub fn fill(&mut self, from: &Socket<'_>) -> io::Result<usize> {
        debug_assert!(self.is_empty());
        let got = self.splice(from.fd(), self.writer, MOST)?;
        self.held = got;
        Ok(got)
    }

    /// Gives a socket as much as it takes. As splice(2).
    pub fn drain(&mut self, to: &Socket<'_>) -> io::Result<usize> {
        let sent = self.splice(self.reader, to.fd(), self.held as u64)?;
        self.held -= sent;
        Ok(sent)
    }

    fn splice(&self, from: i32, to: i32, most: u64) -> io::Result<usize> {
        let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
        let args = [from as u64, 0, to as u64, 0, most, flags.into()];
        Ok(self.calls.call(libc::SYS_splice, args)? as usize)
    }
}

impl Drop for Pipe<'_> {
    fn drop(&mut self) {
        self.calls.close(self.reader);
        self.calls.close(self.writer);
    }
}
