//! The loop of a driver process: frames between an end of a wire and a backend.
//!
//! It has no queue of its own to speak of. While one side takes nothing, nothing is taken from the
//! other, and the process sleeps. The carrier is the truth: while the backend's link is down, this
//! process is not at the wire.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use vink_sys::poll::{poll, wanted};

use crate::backend::{Backend, LinkState, Offloads, HEADER, LARGEST};
use crate::end::{End, Taken, LARGEST_SHARED};
use crate::line::PeerState;
use crate::rendezvous::Rendezvous;
use crate::segment::{complete, gso_type, GSO_UDP_L4};
use crate::Error;

/// Frames taken from the wire before it is the backend's turn.
const FRAME_BUDGET: usize = 256;

/// A driver, before it runs.
pub struct Driver {
    backend: Box<dyn Backend>,
    rendezvous: Rendezvous,
    end: Option<End>,
    /// Complete frames that the backend has no room for.
    unsent: VecDeque<Box<[u8]>>,
    /// A frame that is not for the backend as it is.
    scratch: Box<[u8]>,
    link: LinkState,
    counts: Counts,
}

/// What a driver has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames from the wire to the backend.
    pub sent: u64,
    /// Frames from the backend to the wire.
    pub received: u64,
    /// Frames that were malformed, or that there was no room for.
    pub lost: u64,
    /// Frames that the wire's other process had no right to send.
    pub refused: u64,
}

impl Driver {
    /// Between what is met at a path and a backend.
    pub fn new(mut rendezvous: Rendezvous, mut backend: Box<dyn Backend>) -> Driver {
        let link = backend.link_state();
        if link.is_up() {
            rendezvous.again();
        }
        Driver {
            link,
            backend,
            rendezvous,
            end: None,
            unsent: VecDeque::new(),
            scratch: vec![0; HEADER + LARGEST_SHARED].into(),
            counts: Counts::default(),
        }
    }

    /// Moves frames until one of the `ends` has something to read, or is closed: what was moved.
    /// `told` is told of the backend's link when it changes.
    ///
    /// # Errors
    /// [`Error::Uplink`]: what the backend leads to is gone, and takes opening anew.
    pub fn run(
        mut self,
        ends: [Option<BorrowedFd<'_>>; 2],
        mut told: impl FnMut(&LinkState),
    ) -> Result<Counts, Error> {
        told(&self.link);
        loop {
            let link = self.backend.link_state();
            if self.backend.is_gone() {
                return Err(Error::Uplink(link.to_string()));
            }
            if link != self.link {
                told(&link);
                if link.is_up() {
                    self.rendezvous.again();
                }
                self.link = link;
            }
            self.meet();
            let more = self.move_frames();
            if self.wait(ends, more) {
                return Ok(self.counts());
            }
        }
    }

    fn counts(&self) -> Counts {
        let end = self.end.as_ref().map_or(0, End::lost);
        Counts {
            lost: self.counts.lost + end + self.backend.lost(),
            refused: self.backend.refused(),
            ..self.counts
        }
    }

    /// Is at the wire as long as the backend's link is up.
    fn meet(&mut self) {
        let is_up = self.link.is_up();
        let gone = |end: &mut End| matches!(end.hear(), PeerState::Gone(_));
        if let Some(mut end) = self.end.take_if(|end| gone(end) || !is_up) {
            if is_up {
                // What has come before it went.
                self.serve_wire(&mut end);
                self.rendezvous.again();
            }
            self.counts.lost += end.lost();
        }
        let half = self.rendezvous.answer(!is_up || self.end.is_some());
        let (true, Some(half)) = (is_up && self.end.is_none(), half) else {
            return;
        };
        match End::new(half) {
            Ok(end) => self.end = Some(end),
            // Out of memory: the other process finds its end closed.
            Err(_) => self.rendezvous.again(),
        }
    }

    /// Moves what there is, up to a budget; true if there may be more.
    fn move_frames(&mut self) -> bool {
        let Some(mut end) = self.end.take() else {
            // No process is there for it.
            let discard = &mut |_: &[u8]| Ok(());
            return self.backend.receive(discard).unwrap_or(false);
        };
        end.wake();
        end.go_on();
        let mut more = self.serve_wire(&mut end);
        if !end.is_full() {
            let framed = self.backend.offloads() != Offloads::None;
            let counts = &mut self.counts;
            let received = self.backend.receive(&mut |frame| {
                match framed.then(|| frame.split_first_chunk()) {
                    Some(Some((header, frame))) => end.send(header, frame),
                    Some(None) => counts.lost += 1,
                    None => end.send(&[0; HEADER], frame),
                }
                counts.received += 1;
                Ok(())
            });
            more |= received.unwrap_or(false) && !end.is_full();
        }
        self.end = Some(end);
        more
    }

    /// Takes frames from the wire as long as the backend takes them; true if there may be more.
    fn serve_wire(&mut self, end: &mut End) -> bool {
        let mut more = false;
        'frames: for n in 0.. {
            while let Some(frame) = self.unsent.pop_front() {
                if !self.pass(&frame) {
                    self.unsent.push_front(frame);
                    break 'frames;
                }
            }
            if n == FRAME_BUDGET {
                more = true;
                break;
            }
            if !self.take(end) {
                break;
            }
        }
        end.taken();
        more | self.backend.flush()
    }

    /// Takes one frame from the wire; false if there is none, or no room for it.
    fn take(&mut self, end: &mut End) -> bool {
        if self.backend.room().is_none() {
            self.backend.flush();
        }
        let offloads = self.backend.offloads();
        let Some(room) = self.backend.room() else {
            return false;
        };
        let is_direct = |room: &[u8]| match (offloads, room.first_chunk()) {
            (Offloads::All, _) => true,
            (Offloads::Tcp, Some(header)) => gso_type(header) != GSO_UDP_L4,
            _ => false,
        };
        let taken = end.receive(match offloads {
            Offloads::None => &mut self.scratch,
            _ => room,
        });
        let length = match taken {
            Taken::Nothing => return false,
            Taken::TooLong => return true,
            Taken::Frame(length) => length,
        };
        if offloads != Offloads::None {
            if is_direct(room) {
                self.backend.put(length);
                self.counts.sent += 1;
                return true;
            }
            self.scratch[..length].copy_from_slice(&room[..length]);
        }
        self.cut(length);
        true
    }

    /// Makes complete frames of what is in `scratch`.
    fn cut(&mut self, length: usize) {
        let (header, frame) = self.scratch[..length].split_at_mut(HEADER);
        let header: [u8; HEADER] = *header.first_chunk().expect("as long as it is");
        // Complete: nothing is left to be done.
        let lead: &[u8] = match self.backend.offloads() {
            Offloads::None => &[],
            _ => &[0; HEADER],
        };
        let unsent = &mut self.unsent;
        let done = complete(&header, frame, &mut |packet| {
            unsent.push_back([lead, packet].concat().into());
        });
        match done {
            true => self.counts.sent += 1,
            false => self.counts.lost += 1,
        }
    }

    /// Gives the backend a frame; false if there is no room.
    fn pass(&mut self, frame: &[u8]) -> bool {
        if self.backend.room().is_none() {
            self.backend.flush();
        }
        let Some(room) = self.backend.room() else {
            return false;
        };
        debug_assert!(room.len() >= LARGEST);
        match room.get_mut(..frame.len()) {
            Some(room) => {
                room.copy_from_slice(frame);
                self.backend.put(frame.len());
            }
            None => self.counts.lost += 1,
        }
        true
    }

    /// Sleeps until there is something to do; true if the lifeline says that it is over.
    fn wait(&mut self, ends: [Option<BorrowedFd<'_>>; 2], more: bool) -> bool {
        let (mut timeout, mut listens) = (-1, true);
        if let Some(end) = &self.end {
            // A frame that has no room in the backend leaves those behind it where they are.
            let wants_frames = self.unsent.is_empty() && self.backend.room().is_some();
            listens = !end.is_full();
            if !more && !end.may_sleep(wants_frames) {
                timeout = 0;
            }
        }
        if more {
            timeout = 0;
        }
        let fd = |fd: BorrowedFd<'_>| wanted(fd.as_raw_fd(), libc::POLLIN);
        let none = || wanted(-1, 0);
        let mut fds = [
            ends[0].map_or_else(none, fd),
            ends[1].map_or_else(none, fd),
            fd(self.rendezvous.as_fd()),
            self.end.as_ref().map_or_else(none, |end| fd(end.as_fd())),
            if listens {
                fd(self.backend.host())
            } else {
                none()
            },
        ];
        // Interrupted: it looks.
        let _ = poll(&mut fds, timeout);
        fds[..2].iter().any(|end| end.revents != 0)
    }
}
