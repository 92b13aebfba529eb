//! A wire between two workers: a ring in shared memory for each direction, and a socket to wake each other by.
//!
//! A byte on the socket says "look", its end that the other worker is gone. There is one descriptor to wait for,
//! and nothing to be cleaned up by who survives. The line is up from the other side's first byte on.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::far::{Deliver, Far, Line, Offloads};
use super::poll::{Poll, INPUT};
use super::ring::{memory, Consumer, Corrupt, Producer};
use crate::Error;

/// Frames received before it is the others' turn.
const TURN: usize = 64;
/// Frames whose room is given back together.
const BATCH: usize = 8;

const GONE: &str = "the other worker is gone";
const SPOILED: &str = "the other worker has spoiled the memory that both share";

/// One end of a wire between two workers, before it is attached: three descriptors.
#[derive(Debug)]
pub struct Half {
    /// What this end sends.
    sends: OwnedFd,
    /// What it receives.
    receives: OwnedFd,
    bell: OwnedFd,
}

/// Makes both ends of a wire between two workers. Whoever makes it must not keep either: the end of a worker shows
/// when the last descriptor of its half is closed.
///
/// # Errors
/// [`Error::Uplink`]: the host is out of descriptors or memory.
pub fn shared() -> Result<[Half; 2], Error> {
    let made = || -> io::Result<[Half; 2]> {
        let [there, back] = [memory()?, memory()?];
        let (a, b) = UnixStream::pair()?;
        let half = |sends, receives, bell: UnixStream| Half {
            sends,
            receives,
            bell: bell.into(),
        };
        Ok([
            half(there.try_clone()?, back.try_clone()?, a),
            half(back, there, b),
        ])
    };
    made().map_err(|e| Error::Uplink(format!("making a wire in shared memory: {e}")))
}

impl Half {
    /// To send it to a worker by `SCM_RIGHTS`, in this order.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [&self.sends, &self.receives, &self.bell].map(AsFd::as_fd)
    }

    /// What was sent.
    pub fn from_descriptors([sends, receives, bell]: [OwnedFd; 3]) -> Half {
        Half {
            sends,
            receives,
            bell,
        }
    }
}

/// One end, attached.
pub(crate) struct SharedFar {
    producer: Producer,
    consumer: Consumer,
    bell: UnixStream,
    /// The other side is there.
    met: bool,
    gone: Option<&'static str>,
    /// It was found when there was no telling.
    spoiled: bool,
    poll: Poll,
}

impl SharedFar {
    /// # Errors
    /// [`Error::Uplink`]: these are not what [`shared`] made, or there is no memory.
    pub(crate) fn new(half: Half) -> Result<SharedFar, Error> {
        let open = || -> io::Result<SharedFar> {
            let far = SharedFar {
                producer: Producer::new(&half.sends)?,
                consumer: Consumer::new(&half.receives)?,
                bell: UnixStream::from(half.bell),
                met: false,
                gone: None,
                spoiled: false,
                poll: Poll::new()?,
            };
            far.poll.add(&far.bell, INPUT)?;
            Ok(far)
        };
        let mut far =
            open().map_err(|e| Error::Uplink(format!("a wire to another worker: {e}")))?;
        far.ring();
        Ok(far)
    }

    /// Has the other side look.
    fn ring(&mut self) {
        // If there is no room, so many have been rung that it will look. If it is gone, reading tells.
        send(&self.bell);
    }

    /// Takes the bytes that have come.
    fn listen(&mut self) {
        if self.gone.is_some() {
            return;
        }
        let mut bytes = [0u8; 64];
        loop {
            // SAFETY: room for as many bytes as said.
            let got = unsafe {
                let into = bytes.as_mut_ptr().cast();
                libc::recv(self.bell.as_raw_fd(), into, bytes.len(), libc::MSG_DONTWAIT)
            };
            match usize::try_from(got) {
                Ok(0) => return self.lose(GONE),
                Ok(got) => {
                    self.met = true;
                    if got < bytes.len() {
                        return;
                    }
                }
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::WouldBlock => return,
                    _ => return self.lose(GONE),
                },
            }
        }
    }

    /// The other side does not come back.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    fn lose(&mut self, why: &'static str) {
        if self.gone.is_none() {
            self.gone = Some(why);
            // The other side learns of it. Its end would always be ready. What is wrong with either does no harm.
            let _ = self.bell.shutdown(Shutdown::Both);
            let _ = self.poll.remove(&self.bell);
        }
    }
}

impl Far for SharedFar {
    fn offloads(&self) -> Offloads {
        Offloads::All
    }

    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn line(&mut self) -> Line {
        match &self.gone {
            Some(why) => Line::Down((*why).to_owned()),
            None if self.met => Line::Up,
            None => Line::Down("the other worker is not there yet".to_owned()),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, vink_kernel::Error> {
        self.listen();
        let mut turn = 0;
        while self.gone.is_none() && turn < TURN {
            match self.consumer.frame() {
                Ok(Some(frame)) => deliver(frame)?,
                Ok(None) => break,
                Err(Corrupt) => self.lose(SPOILED),
            }
            turn += 1;
            if turn % BATCH == 0 && self.consumer.release() {
                self.ring();
            }
        }
        if self.consumer.release() {
            self.ring();
        }
        Ok(turn == TURN)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        if self.gone.is_some() {
            return None;
        }
        match self.producer.room() {
            Ok(room) => room,
            Err(Corrupt) => {
                self.spoiled = true;
                None
            }
        }
    }

    fn put(&mut self, length: usize) {
        self.producer.put(length);
        // The other side may begin.
        if self.producer.publish() {
            self.ring();
        }
    }

    fn flush(&mut self) -> bool {
        if std::mem::take(&mut self.spoiled) {
            self.lose(SPOILED);
        }
        false
    }

    fn lost(&self) -> u64 {
        0
    }
}

/// A byte, without waiting and without SIGPIPE.
fn send(bell: &UnixStream) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: one byte, as said.
    unsafe { libc::send(bell.as_raw_fd(), b"!".as_ptr().cast(), 1, flags) };
}
