//! passt as the host's side of an uplink: a stream, and answers in passt's place.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use vink_port::{Backend, Deliver, Gone, LinkState, Poll, Stop, Stream, INPUT, ROOM};

use super::handshake::Handshakes;

/// Frames go through one stream for as long as passt lives.
pub(crate) struct PasstBackend {
    stream: Stream,
    poll: Poll,
    handshakes: Handshakes,
    /// To the machine's own frames.
    answers: Vec<Vec<u8>>,
    gone: Option<Gone>,
    full: bool,
}

impl PasstBackend {
    pub(crate) fn new(socket: UnixStream) -> io::Result<PasstBackend> {
        let poll = Poll::new()?;
        poll.add(&socket, INPUT)?;
        Ok(PasstBackend {
            stream: Stream::new(socket),
            poll,
            handshakes: Handshakes::default(),
            answers: Vec::new(),
            gone: None,
            full: false,
        })
    }
}

impl Backend for PasstBackend {
    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        match &self.gone {
            None => LinkState::Up,
            Some(gone) => LinkState::Ended(format!("passt: {gone}")),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        for answer in self.answers.drain(..) {
            deliver(&answer)?;
        }
        if self.gone.is_none() {
            self.gone = self.stream.receive(deliver)?.err();
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.stream.room()
    }

    fn put(&mut self, length: usize) {
        let frame = self.stream.put(length);
        self.answers.extend(self.handshakes.answer(frame));
    }

    fn flush(&mut self) -> bool {
        if self.gone.is_none() {
            self.gone = self.stream.flush().err();
        }
        if self.stream.is_full() != self.full {
            self.full = !self.full;
            let events = if self.full { ROOM } else { INPUT };
            if let Err(error) = self.poll.change(self.stream.socket(), events) {
                self.gone = Some(Gone::Failed(error));
            }
        }
        !self.answers.is_empty()
    }

    fn lost(&self) -> u64 {
        0
    }
}
