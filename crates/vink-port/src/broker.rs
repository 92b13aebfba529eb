//! A broker meets the other side of a wire at a path for a program that may not go there, and hands
//! on the ends that it gets.
//!
//! The program is confined and reaches no path. It has the other end of the broker's socket, asks by
//! it as a driver does (`rendezvous`), and asks again when its peer has gone. What it says by the
//! socket is a byte or is nothing; the most that it gets by asking too often is another end in place
//! of the one that it has.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::poll::{Poll, INPUT};
use super::rendezvous::{answer, heard, Rendezvous};
use crate::Error;

/// The broker's side.
pub struct Broker {
    path: PathBuf,
    socket: UnixStream,
    /// From the first question on: a program that makes no socket takes no place at a wire.
    rendezvous: Option<Rendezvous>,
    /// The program has asked, and has no end yet.
    asked: bool,
    /// It was told that no peer is there.
    told: bool,
    poll: Poll,
}

impl Broker {
    /// One for this path, and the program's end of its socket, for [`Rendezvous::asker`].
    ///
    /// # Errors
    /// [`Error::Uplink`]: the host is out of descriptors.
    pub fn new(path: &Path) -> Result<(Broker, OwnedFd), Error> {
        let made = || {
            let (socket, program) = UnixStream::pair()?;
            socket.set_nonblocking(true)?;
            let poll = Poll::new()?;
            poll.add(&socket, INPUT)?;
            let broker = Broker {
                path: path.to_owned(),
                socket,
                rendezvous: None,
                asked: false,
                told: false,
                poll,
            };
            Ok((broker, program.into()))
        };
        made().map_err(|error: std::io::Error| {
            Error::Uplink(format!("a broker for {}: {error}", path.display()))
        })
    }

    /// To be called whenever the descriptor is readable.
    ///
    /// # Errors
    /// As [`Rendezvous::open`].
    pub fn serve(&mut self) -> Result<(), Error> {
        let (asks, is_over) = heard(&self.socket);
        if is_over {
            // It would always be readable.
            let _ = self.poll.remove(&self.socket);
        }
        let is_new = asks == Some(true) && !self.asked;
        self.asked = asks.unwrap_or(self.asked) && !is_over;
        let rendezvous = match &mut self.rendezvous {
            Some(rendezvous) => rendezvous,
            None if is_new => {
                let opened = Rendezvous::open(&self.path)?;
                if let Err(error) = self.poll.add(&opened, INPUT) {
                    let why = format!("a broker for {}: {error}", self.path.display());
                    return Err(Error::Uplink(why));
                }
                self.rendezvous.insert(opened)
            }
            None => return Ok(()),
        };
        if is_new {
            self.told = false;
            rendezvous.at_once();
        } else if !self.asked {
            rendezvous.rest();
        }
        match rendezvous.answer(!self.asked) {
            Some(half) if self.asked => match answer(&self.socket, Some(&half)) {
                true => self.asked = false,
                false => rendezvous.again(),
            },
            // The peer finds its end closed.
            Some(_) => {}
            None => {
                if self.asked && !self.told && rendezvous.is_alone() {
                    self.told = answer(&self.socket, None);
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Broker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Half, PeerState};

    /// Serves until the program, or the other side, has an end.
    fn meet(broker: &mut Broker, sides: [&mut Rendezvous; 2]) -> [Half; 2] {
        let mut halves = [None, None];
        let [program, other] = sides;
        let mut fds = [(); 3].map(|()| vink_sys::poll::wanted(-1, libc::POLLIN));
        while halves.iter().any(Option::is_none) {
            use std::os::fd::AsRawFd;
            fds[0].fd = broker.as_fd().as_raw_fd();
            fds[1].fd = program.as_fd().as_raw_fd();
            fds[2].fd = other.as_fd().as_raw_fd();
            let _ = vink_sys::poll::poll(&mut fds, -1);
            broker.serve().expect("served");
            for (half, rendezvous) in halves.iter_mut().zip([&mut *program, &mut *other]) {
                let found = rendezvous.answer(half.is_some());
                *half = half.take().or(found);
            }
        }
        halves.map(|half| half.expect("found"))
    }

    #[test]
    fn ends_are_handed_on() {
        let folder = std::env::temp_dir().join(format!("vink-broker-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let path = folder.join("wire");
        let (mut broker, socket) = Broker::new(&path).expect("a broker");
        broker.serve().expect("served");
        assert!(!path.exists(), "no question, no place");
        let mut program = Rendezvous::asker(socket).expect("a rendezvous");
        let mut other = Rendezvous::open(&path).expect("a rendezvous");
        // The broker is a guest first; when the other has gone, it listens.
        for _ in 0..2 {
            program.again();
            assert!(program.is_guest());
            let halves = meet(&mut broker, [&mut program, &mut other]);
            let [mut ours, theirs] = halves.map(|half| crate::End::new(half).expect("an end"));
            assert!(!program.is_guest());
            assert_eq!(ours.hear(), PeerState::Present);
            drop(theirs);
            assert!(matches!(ours.hear(), PeerState::Gone(_)));
            drop(other);
            program.again();
            while !path.exists() {
                vink_sys::poll::is_readable(&broker, -1);
                broker.serve().expect("served");
            }
            other = Rendezvous::open(&path).expect("a rendezvous");
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}
