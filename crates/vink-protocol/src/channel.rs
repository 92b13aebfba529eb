//! Messages with descriptors over a unix stream socket.
//!
//! Descriptors come out of the socket in the order of the messages that they belong to, but perhaps
//! with bytes of an earlier message. So they are kept in that order, and each message takes as many
//! as its kind says.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::descriptors::{receive_with, send_with, MAX_DESCRIPTORS};
use crate::frame::{encode, FrameDecoder};

/// One side of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    input: FrameDecoder,
    descriptors: VecDeque<OwnedFd>,
    /// Encoded messages; bytes before `sent` have been sent.
    output: Vec<u8>,
    sent: usize,
}

impl Channel {
    /// Over this socket, blocking or not.
    pub fn new(socket: UnixStream) -> Channel {
        Channel {
            socket,
            input: FrameDecoder::default(),
            descriptors: VecDeque::new(),
            output: Vec::new(),
            sent: 0,
        }
    }

    /// Receives once. False at the end of the socket.
    ///
    /// # Errors
    /// As recvmsg(2); [`ErrorKind::InvalidData`]: descriptors were lost for lack of room for them.
    pub fn receive(&mut self) -> io::Result<bool> {
        let (socket, descriptors) = (self.socket.as_fd(), &mut self.descriptors);
        let got = self
            .input
            .fill(|room| receive_with(socket, room, descriptors))?;
        Ok(got > 0)
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    /// As [`FrameDecoder::next`].
    pub fn next_message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.input.next_message()
    }

    /// The descriptors that came with a message.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`]: fewer have come.
    pub fn descriptors(&mut self, count: usize) -> io::Result<Vec<OwnedFd>> {
        if self.descriptors.len() < count {
            let why = format!("a message without the {count} descriptors that belong to it");
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(self.descriptors.drain(..count).collect())
    }

    /// Appends a message to those that wait to be sent.
    pub fn push(&mut self, message: &impl Serialize) {
        encode(message, &mut self.output);
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Sends as much of that as the socket takes.
    ///
    /// # Errors
    /// As send(2), but for [`ErrorKind::WouldBlock`].
    pub fn flush(&mut self) -> io::Result<()> {
        while self.waiting() > 0 {
            match self.send(self.sent, &[]) {
                Ok(sent) => self.sent += sent,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if self.waiting() == 0 {
            self.output.clear();
            self.sent = 0;
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Sends a message with its descriptors, and waits until it has gone.
    ///
    /// # Errors
    /// As sendmsg(2).
    pub fn send_now(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let start = self.output.len();
        self.push(message);
        while self.waiting() > 0 {
            let with = if self.sent == start { descriptors } else { &[] };
            self.sent += self.send(self.sent, with)?;
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// sendmsg(2).
    fn send(&self, from: usize, descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        assert!(descriptors.len() <= MAX_DESCRIPTORS);
        send_with(self.socket.as_fd(), &self.output[from..], descriptors)
    }

    /// The socket.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn pair() -> (Channel, Channel) {
        let (a, b) = UnixStream::pair().unwrap();
        (Channel::new(a), Channel::new(b))
    }

    #[test]
    fn pieces() {
        let (a, mut b) = pair();
        let bytes = b"\0\0\0\x03\"a\"\0\0\0\x03\"b\"";
        for (i, byte) in bytes.iter().enumerate() {
            a.socket().write_all(&[*byte]).unwrap();
            assert!(b.receive().unwrap());
            let next: Option<String> = b.next_message().unwrap();
            assert_eq!(next.is_some(), i == 6 || i == 13, "{i}");
        }
        drop(a);
        assert!(!b.receive().unwrap());
    }

    #[test]
    fn descriptors_keep_their_order() {
        let (mut a, mut b) = pair();
        let files: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        a.send_now(&"none", &[]).unwrap();
        a.send_now(&"two", &[files[0].0.as_fd(), files[1].0.as_fd()])
            .unwrap();
        a.send_now(&"one", &[files[2].0.as_fd()]).unwrap();
        for (name, count, first) in [("none", 0, 0), ("two", 2, 0), ("one", 1, 2)] {
            let next = loop {
                match b.next_message::<String>().unwrap() {
                    Some(next) => break next,
                    None => assert!(b.receive().unwrap()),
                }
            };
            assert_eq!(next, name);
            for (i, fd) in b.descriptors(count).unwrap().into_iter().enumerate() {
                let mut sender = UnixStream::from(fd);
                sender.write_all(&[i as u8]).unwrap();
                let mut got = [9];
                (&files[first + i].1).read_exact(&mut got).unwrap();
                assert_eq!(got, [i as u8]);
            }
        }
        assert!(b.descriptors(1).is_err());
    }

    #[test]
    fn what_is_no_message() {
        for (bytes, why) in [
            (&b"\xff\xff\xff\xff"[..], "4294967295 bytes"),
            (b"\0\0\0\x02{]", "can't be read"),
        ] {
            let (a, mut b) = pair();
            a.socket().write_all(bytes).unwrap();
            b.receive().unwrap();
            let error = b.next_message::<String>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_side_that_does_not_read() {
        let (mut a, mut b) = pair();
        a.socket().set_nonblocking(true).unwrap();
        let text = "x".repeat(1000);
        for _ in 0..1000 {
            a.push(&text);
            a.flush().unwrap();
        }
        assert!(a.waiting() > 0);
        let mut got = 0;
        while got < 1000 {
            match b.next_message::<String>().unwrap() {
                Some(next) => {
                    assert_eq!(next, text);
                    got += 1;
                }
                None => assert!(b.receive().unwrap()),
            }
            a.flush().unwrap();
        }
        assert_eq!(a.waiting(), 0);
    }
}
