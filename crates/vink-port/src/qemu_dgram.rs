//! The backend to QEMU's `-netdev dgram`: a unix datagram socket, and a frame in each datagram.
//!
//! The peer is the process that sent last. It is gone when its socket is, which is noticed when
//! something is sent to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::backend::{Backend, Deliver, LinkState, Stop, LARGEST};
use super::poll::{Poll, INPUT};
use super::qemu::{failure, take};
use crate::Error;

/// Frames received before other devices are served.
const FRAME_BUDGET: usize = 64;

/// A socket in the file system.
pub struct QemuDgramBackend {
    socket: UnixDatagram,
    path: PathBuf,
    /// A socket that is connected to the peer's, so that the host tells when there is room.
    peer: Option<(PathBuf, UnixDatagram)>,
    /// Why there is none.
    why: String,
    poll: Poll,
    buffer: Box<[u8]>,
    /// A new peer's first frame is in `buffer`, and may be answered only when the link is up.
    first: Option<usize>,
    /// A frame that there was no room for: so many bytes.
    waits: usize,
    kept: Box<[u8]>,
    lost: u64,
}

impl QemuDgramBackend {
    /// Binds a socket at this path, for this user only.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(path: &Path) -> Result<QemuDgramBackend, Error> {
        let socket = take(path, || UnixDatagram::bind(path));
        let socket = socket.map_err(|error| failure(path, error))?;
        let made = socket.set_nonblocking(true).and_then(|()| {
            let poll = Poll::new()?;
            poll.add(&socket, INPUT)?;
            Ok(poll)
        });
        Ok(QemuDgramBackend {
            poll: made.map_err(|error| failure(path, error))?,
            socket,
            path: path.to_owned(),
            peer: None,
            why: "the peer has not sent anything yet".to_owned(),
            buffer: vec![0; LARGEST].into(),
            first: None,
            waits: 0,
            kept: vec![0; LARGEST].into(),
            lost: 0,
        })
    }

    /// Something came from a socket at this path.
    fn meet(&mut self, path: &Path) {
        if self.peer.as_ref().is_some_and(|(known, _)| known == path) {
            return;
        }
        let connected = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(path)?;
            socket.set_nonblocking(true)?;
            self.poll.add(&socket, 0)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => self.peer = Some((path.to_owned(), socket)),
            Err(error) => self.why = format!("{}: {error}", path.display()),
        }
    }

    /// Sends the frame that waits, if there is room.
    fn send(&mut self) {
        let Some((path, socket)) = &self.peer else {
            self.waits = 0;
            return;
        };
        let mut sent = socket.send(&self.kept[..self.waits]);
        if gone(&sent) {
            // There may be another one in its place.
            let path = path.clone();
            self.peer = None;
            self.meet(&path);
            if let Some((_, socket)) = &self.peer {
                sent = socket.send(&self.kept[..self.waits]);
            }
        }
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.wait(true),
            Err(error) if self.peer.is_some() && error.raw_os_error() == Some(libc::EMSGSIZE) => {
                self.lost += 1;
            }
            Err(error) => {
                self.lost += 1;
                self.peer = None;
                self.why = format!("the peer is gone: {error}");
            }
            Ok(_) => {}
        }
        self.waits = 0;
    }

    /// Whether to be told when the peer has room.
    fn wait(&mut self, wait: bool) {
        if let Some((_, socket)) = &self.peer {
            let events = if wait { libc::EPOLLOUT } else { 0 };
            if let Err(error) = self.poll.change(socket, events) {
                self.peer = None;
                self.why = error.to_string();
            }
        }
    }
}

/// Whether the peer's socket is closed.
fn gone(sent: &io::Result<usize>) -> bool {
    let error = sent.as_ref().err().and_then(io::Error::raw_os_error);
    matches!(
        error,
        Some(libc::ECONNREFUSED | libc::ENOTCONN | libc::ECONNRESET)
    )
}

impl Backend for QemuDgramBackend {
    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        match self.peer {
            Some(_) => LinkState::Up,
            None => LinkState::Down(format!("{}: {}", self.path.display(), self.why)),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        for _ in 0..FRAME_BUDGET {
            if let Some(length) = self.first.take() {
                deliver(&self.buffer[..length])?;
            }
            let Ok((got, from)) = self.socket.recv_from(&mut self.buffer) else {
                break;
            };
            let was_there = self.peer.is_some();
            // Others can't be answered.
            if let Some(path) = from.as_pathname() {
                self.meet(path);
            }
            if !was_there {
                self.first = Some(got);
                break;
            }
            deliver(&self.buffer[..got])?;
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        if self.waits > 0 {
            self.send();
            if self.waits > 0 {
                return None;
            }
            self.wait(false);
        }
        Some(&mut self.kept)
    }

    fn put(&mut self, length: usize) {
        self.waits = length;
        self.send();
    }

    fn flush(&mut self) -> bool {
        false
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for QemuDgramBackend {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}
