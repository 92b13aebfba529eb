//! The backend to QEMU's `-netdev stream`: a unix stream socket, and frames behind their lengths.
//!
//! Either side may be the one that listens. There is one connection at a time; when it ends, the
//! next one may come. What a peer sends is not trusted: a length that can't be ends its connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::backend::{Backend, Deliver, LinkState, Stop};
use super::poll::{Poll, Timer, INPUT, ROOM};
use super::stream::{Gone, Stream};
use crate::Error;

/// How often a peer that does not listen is tried again.
const RETRY_PERIOD: Duration = Duration::from_millis(250);

/// How connections are made.
enum Origin {
    Listener(UnixListener),
    Client(Timer),
}

/// A socket in the file system.
pub struct QemuBackend {
    origin: Origin,
    path: PathBuf,
    stream: Option<Stream>,
    /// Why there is none.
    why: String,
    poll: Poll,
    full: bool,
}

impl QemuBackend {
    /// Listens at this path, at which no other process may listen. Only this user may connect.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn listen(path: &Path) -> Result<QemuBackend, Error> {
        let listener = take(path, || UnixListener::bind(path));
        let listener = listener.map_err(|error| failure(path, error))?;
        let made = listener.set_nonblocking(true).and_then(|()| {
            let poll = Poll::new()?;
            poll.add(&listener, INPUT)?;
            Ok(poll)
        });
        let poll = made.map_err(|error| failure(path, error))?;
        Ok(QemuBackend {
            origin: Origin::Listener(listener),
            path: path.to_owned(),
            stream: None,
            why: "no peer has connected yet".to_owned(),
            poll,
            full: false,
        })
    }

    /// Connects to the process that listens at this path, now or as soon as one does.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn connect(path: &Path) -> Result<QemuBackend, Error> {
        let made = Timer::new().and_then(|timer| {
            timer.every(RETRY_PERIOD)?;
            let poll = Poll::new()?;
            poll.add(&timer, INPUT)?;
            Ok((timer, poll))
        });
        let (timer, poll) = made.map_err(|error| failure(path, error))?;
        let mut backend = QemuBackend {
            origin: Origin::Client(timer),
            path: path.to_owned(),
            stream: None,
            why: String::new(),
            poll,
            full: false,
        };
        backend.try_to_connect();
        Ok(backend)
    }

    fn try_to_connect(&mut self) {
        match UnixStream::connect(&self.path) {
            Ok(socket) => self.begin(socket),
            Err(error) => self.why = format!("no listener yet: {error}"),
        }
    }

    fn begin(&mut self, socket: UnixStream) {
        self.full = false;
        match self.poll.add(&socket, INPUT) {
            Ok(()) => self.stream = Some(Stream::new(socket)),
            Err(error) => self.why = error.to_string(),
        }
        self.keep_trying();
    }

    fn end(&mut self, gone: Gone) {
        self.stream = None;
        self.why = gone.to_string();
        self.keep_trying();
    }

    /// As long as there is no connection.
    fn keep_trying(&mut self) {
        if let Origin::Client(timer) = &self.origin {
            let period = match self.stream {
                Some(_) => Duration::ZERO,
                None => RETRY_PERIOD,
            };
            if let Err(error) = timer.every(period) {
                self.why = error.to_string();
            }
        }
    }

    /// A connection that waits, if any.
    fn accept(&mut self) -> Option<UnixStream> {
        let Origin::Listener(listener) = &self.origin else {
            return None;
        };
        match listener.accept() {
            Ok((socket, _)) => Some(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => {
                self.why = error.to_string();
                None
            }
        }
    }
}

impl Backend for QemuBackend {
    fn host(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    fn link_state(&mut self) -> LinkState {
        while let Some(socket) = self.accept() {
            // One that comes while another one is there finds its connection closed.
            if self.stream.is_none() {
                self.begin(socket);
            }
        }
        if let Origin::Client(timer) = &self.origin {
            if timer.went_off() && self.stream.is_none() {
                self.try_to_connect();
            }
        }
        match self.stream {
            Some(_) => LinkState::Up,
            None => LinkState::Down(format!("{}: {}", self.path.display(), self.why)),
        }
    }

    fn receive(&mut self, deliver: Deliver<'_>) -> Result<bool, Stop> {
        if let Some(stream) = &mut self.stream {
            if let Err(gone) = stream.receive(deliver)? {
                self.end(gone);
            }
        }
        Ok(false)
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.stream.as_mut()?.room()
    }

    fn put(&mut self, length: usize) {
        if let Some(stream) = &mut self.stream {
            stream.put(length);
        }
    }

    fn flush(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            return false;
        };
        let mut sent = stream.flush();
        if stream.is_full() != self.full {
            self.full = stream.is_full();
            let events = if self.full { ROOM } else { INPUT };
            let changed = self.poll.change(stream.socket(), events);
            sent = sent.and(changed.map_err(Gone::Failed));
        }
        if let Err(gone) = sent {
            self.end(gone);
        }
        false
    }

    fn lost(&self) -> u64 {
        0
    }
}

impl Drop for QemuBackend {
    fn drop(&mut self) {
        if let Origin::Listener(_) = self.origin {
            // Another process may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a socket at this path by `bind`, to which only this user may connect; also in place of one
/// whose process has ended.
pub fn take<T>(path: &Path, bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let bound = match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
            std::fs::remove_file(path)?;
            bind()?
        }
        other => other?,
    };
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    Ok(bound)
}

/// Whether this is a socket whose owner is gone.
fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    // One of datagrams refuses a stream by another error if it is there.
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

/// That there can be no socket at this path, and what to do.
pub fn failure(path: &Path, error: io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program has it, or it is no socket: take another path"
        }
        io::ErrorKind::NotFound => "; is its folder there?",
        io::ErrorKind::InvalidInput => "; the path of a socket has at most 107 bytes",
        _ => "",
    };
    Error::Uplink(format!("the uplink at {}: {error}{why}", path.display()))
}
