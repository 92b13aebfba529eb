//! passt as the host's side of an uplink: a stream, and what passt needs help with.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use vink_port::{Backend, Deliver, Gone, LinkState, Poll, Stop, Stream, INPUT, ROOM};

use super::fins::Fins;
use super::handshake::Handshakes;
use super::segment::Segment;

/// Frames go through one stream for as long as passt lives.
pub(crate) struct PasstBackend {
    stream: Stream,
    poll: Poll,
    fins: Fins,
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
            fins: Fins::default(),
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
            let fins = &mut self.fins;
            let received = self.stream.receive(&mut |frame| {
                fins.learn(frame);
                deliver(frame)
            });
            self.gone = received?.err();
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.stream.room()
    }

    fn put(&mut self, length: usize) {
        let room = self.stream.room().expect("the room that it has given");
        if let Some(segment) = Segment::of(&room[..length]) {
            if self.fins.keeps(segment) {
                return;
            }
            self.answers.extend(self.handshakes.answer(segment));
        }
        self.stream.put(length);
    }

    fn flush(&mut self) -> bool {
        while let Some(room) = self.stream.room() {
            let Some(fin) = self.fins.due() else { break };
            room[..fin.len()].copy_from_slice(&fin);
            self.stream.put(fin.len());
        }
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::uplink::fins::tests::{acknowledgement, fin, segment};
    use crate::uplink::segment::{ACK, SYN};

    /// A frame as it is on the stream.
    fn framed(frame: &[u8]) -> Vec<u8> {
        [&(frame.len() as u32).to_be_bytes(), frame].concat()
    }

    /// The machine sends a frame.
    fn send(backend: &mut PasstBackend, frame: &[u8]) {
        backend.room().expect("room")[..frame.len()].copy_from_slice(frame);
        backend.put(frame.len());
        backend.flush();
    }

    #[test]
    fn a_fin_comes_last() {
        let (socket, mut passt) = UnixStream::pair().expect("a pair");
        let mut backend = PasstBackend::new(socket).expect("a backend");
        let expect = |mut passt: &UnixStream, frame: &[u8]| {
            let mut come = framed(frame);
            passt.read_exact(&mut come).expect("a frame");
            assert_eq!(come, framed(frame));
        };
        let syn = segment(true, 1, [49, 1], SYN | ACK, b"");
        let data = segment(true, 1, [50, 1], ACK, &[7; 50]);
        for frame in [&syn, &data, &fin(1, 100)] {
            send(&mut backend, frame);
        }
        expect(&passt, &syn);
        expect(&passt, &data);
        for acknowledged in [80, 100] {
            let frame = acknowledgement(1, acknowledged);
            passt.write_all(&framed(&frame)).expect("it is read");
            let received = backend.receive(&mut |come| {
                assert_eq!(come, frame);
                Ok(())
            });
            assert!(received.is_ok());
            // What passt had no room for, at first.
            send(&mut backend, &data);
            expect(&passt, &data);
        }
        expect(&passt, &fin(1, 100));
    }
}
