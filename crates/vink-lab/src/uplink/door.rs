//! Where two processes meet that are to share a wire: a unix socket at a path. The first one listens; whoever connects
//! is given the other end's descriptors. When one of them goes, the other can meet the next.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::poll::{Poll, Timer, INPUT};
use super::qemu::{failure, take};
use super::shared::shared;
use super::Half;
use crate::worker::{receive_with, send_with};
use crate::Error;

/// How often it is tried again.
const PERIOD: Duration = Duration::from_millis(100);

/// What the one that listens says, with the descriptors of a [`Half`].
const WELCOME: u8 = b'V';

enum Role {
    Listener(UnixListener),
    /// Of one that listens, who has not answered yet.
    Guest(UnixStream),
    /// It has been given its end; or it is to be tried again.
    Neither,
}

/// A path, and who is at it.
pub struct Door {
    path: PathBuf,
    role: Role,
    timer: Timer,
    poll: Poll,
}

impl Door {
    /// Connects to who listens at this path, or listens there. The socket is for this user only.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(path: &Path) -> Result<Door, Error> {
        let made = || -> io::Result<Door> {
            let (timer, poll) = (Timer::new()?, Poll::new()?);
            poll.add(&timer, INPUT)?;
            let mut door = Door {
                path: path.to_owned(),
                role: Role::Neither,
                timer,
                poll,
            };
            door.meet()?;
            Ok(door)
        };
        made().map_err(|error| failure(path, error))
    }

    /// Connects or listens, or finds out that it must be tried again.
    fn meet(&mut self) -> io::Result<()> {
        let _alone = lock(&self.path)?;
        match UnixStream::connect(&self.path) {
            Ok(socket) => {
                socket.set_nonblocking(true)?;
                self.poll.add(&socket, INPUT)?;
                self.role = Role::Guest(socket);
            }
            Err(error) if is_nobody(&error) => {
                let listener = take(&self.path, || UnixListener::bind(&self.path))?;
                listener.set_nonblocking(true)?;
                self.poll.add(&listener, INPUT)?;
                self.role = Role::Listener(listener);
            }
            Err(error) => return Err(error),
        }
        self.timer.every(Duration::ZERO)
    }

    /// Whether somebody listens who has not answered yet.
    pub(crate) fn is_guest(&self) -> bool {
        matches!(self.role, Role::Guest(_))
    }

    /// To be asked whenever the descriptor is readable: this side's end of a wire, if somebody has come. As long as one
    /// is in use, whoever comes is sent away.
    pub fn answer(&mut self, in_use: bool) -> Option<Half> {
        if self.timer.went_off() && self.meet().is_err() {
            // Perhaps next time: the timer goes on.
            return None;
        }
        match &self.role {
            Role::Listener(listener) => {
                let mut half = None;
                while let Ok((socket, _)) = listener.accept() {
                    if !in_use && half.is_none() {
                        half = welcome(&socket);
                    }
                }
                half
            }
            Role::Guest(socket) => {
                let welcomed = welcomed(socket);
                if matches!(&welcomed, Err(error) if error.kind() == ErrorKind::WouldBlock) {
                    return None;
                }
                self.role = Role::Neither;
                if welcomed.is_err() {
                    self.again();
                }
                welcomed.ok()
            }
            Role::Neither => None,
        }
    }

    /// What it answered is of no use any more: the other side has gone.
    pub fn again(&mut self) {
        if let Role::Neither = self.role {
            // It can't fail: the period is a good one.
            let _ = self.timer.every(PERIOD);
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Role::Listener(_) = self.role {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Gives the guest its end; ours, if that worked.
fn welcome(guest: &UnixStream) -> Option<Half> {
    let [ours, theirs] = shared().ok()?;
    let sent = send_with(guest.as_fd(), &[WELCOME], &theirs.descriptors());
    sent.is_ok().then_some(ours)
}

/// What the one that listens has given.
fn welcomed(host: &UnixStream) -> io::Result<Half> {
    let (mut word, mut descriptors) = ([0], VecDeque::new());
    let got = receive_with(host.as_fd(), &mut word, &mut descriptors)?;
    let descriptors: Result<[_; 3], _> = Vec::from(descriptors).try_into();
    match descriptors {
        Ok(descriptors) if got == 1 && word == [WELCOME] => Ok(Half::from_descriptors(descriptors)),
        _ => Err(io::Error::other("sent away")),
    }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused
    )
}

/// Keeps others from the same path's folder, until it is dropped: of two that find nobody, one listens.
fn lock(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder)?;
    // SAFETY: an open descriptor. See flock(2).
    match unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) } {
        0 => Ok(folder),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of the test's own, in a folder that is removed with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let folder = format!("vink-door-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            std::fs::create_dir(&folder).expect("a folder");
            Place(folder.join("wire"))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.parent().expect("a folder"));
        }
    }

    /// Waits until both have an end.
    fn meet(doors: &mut [Door; 2]) -> [Half; 2] {
        let mut halves = [None, None];
        while halves.iter().any(Option::is_none) {
            let mut fds = doors.each_ref().map(|door| libc::pollfd {
                fd: door.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: two structures, as said.
            unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
            for (half, door) in halves.iter_mut().zip(doors.iter_mut()) {
                let found = door.answer(half.is_some());
                *half = half.take().or(found);
            }
        }
        halves.map(|half| half.expect("found"))
    }

    fn is_listener(door: &Door) -> bool {
        matches!(door.role, Role::Listener(_))
    }

    /// Writing to one end's bell is heard at the other's.
    fn are_one_wire([a, b]: [Half; 2]) -> bool {
        let [a, b] = [a, b].map(|half| {
            let [_, _, bell] = half.descriptors();
            UnixStream::from(bell.try_clone_to_owned().expect("a descriptor"))
        });
        let mut byte = [0];
        io::Write::write_all(&mut &a, b"!").is_ok()
            && io::Read::read_exact(&mut &b, &mut byte).is_ok()
            && byte == *b"!"
    }

    #[test]
    fn two_meet_and_meet_again() {
        let place = Place::new("two");
        let open = || Door::open(&place.0).expect("a door");
        let mut doors = [open(), open()];
        assert!(is_listener(&doors[0]) && !is_listener(&doors[1]));
        assert!(are_one_wire(meet(&mut doors)));
        // The guest goes, another one comes.
        let [listener, _] = doors;
        let mut doors = [listener, open()];
        assert!(are_one_wire(meet(&mut doors)));
        // The one that listens goes: the guest takes its place.
        let [listener, mut guest] = doors;
        drop(listener);
        assert!(!place.0.exists());
        guest.again();
        while !is_listener(&guest) {
            let mut fd = libc::pollfd {
                fd: guest.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one structure, as said.
            unsafe { libc::poll(&mut fd, 1, -1) };
            assert!(guest.answer(false).is_none());
        }
        assert!(are_one_wire(meet(&mut [guest, open()])));
    }

    #[test]
    fn a_third_one_waits() {
        let place = Place::new("three");
        let open = || Door::open(&place.0).expect("a door");
        let mut doors = [open(), open()];
        let _halves = meet(&mut doors);
        let [mut listener, mut third] = [doors, [open(), open()]].map(|[door, _]| door);
        assert!(listener.answer(true).is_none());
        assert!(third.answer(false).is_none());
        assert!(matches!(third.role, Role::Neither), "it was sent away");
        assert!(are_one_wire(meet(&mut [listener, third])));
    }

    #[test]
    fn what_is_left_of_others() {
        let place = Place::new("left");
        drop(UnixListener::bind(&place.0).expect("a socket"));
        assert!(place.0.exists());
        assert!(is_listener(&Door::open(&place.0).expect("a door")));
        std::fs::write(&place.0, "a file").expect("a file");
        let error = Door::open(&place.0).err().expect("no socket").to_string();
        assert!(error.contains("take another path"), "{error}");
        let nowhere = place.0.join("wire");
        assert!(Door::open(&nowhere).is_err());
    }
}
