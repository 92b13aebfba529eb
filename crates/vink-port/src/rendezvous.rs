//! Rendezvous of two processes that share a wire, at the path of a unix socket. The first process
//! listens; it hands the descriptors of the other end to the process that connects. When one of
//! them ends, the other can meet the next.
//!
//! Or by a connected socket, whose ends were handed to both: a driver asks by a byte, and the process
//! with the wire hands it the other end. Neither needs a path. The process that has started the driver
//! keeps the driver's end of the socket, and can start another driver with it. A program without
//! rights asks its broker in the same way (`broker`).
//!
//! At a path, only processes of this one's PID namespace are met. A program of a machine is in another
//! one, though it often is the same user's and finds the socket.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::half::{halves, Half};
use super::poll::{Poll, Timer, INPUT};
use super::qemu::{failure, take};
use crate::Error;
use vink_sys::poll::is_readable;
use vink_sys::procfs::shares_pid_namespace;
use vink_sys::socket::{peer, peer_pidfd, receive_with, send_with};

/// How often connecting is tried again.
const RETRY_PERIOD: Duration = Duration::from_millis(100);

/// The byte that comes with the descriptors of a [`Half`].
const WELCOME: u8 = b'V';

/// The byte that comes instead, by which an asker knows that it has to wait for a peer.
const ALONE: u8 = b'A';

enum Role {
    Listener(UnixListener),
    /// Connected to a listener that has not answered yet.
    Guest(UnixStream),
    /// It has its end, or the timer tries again.
    Neither,
    /// Answers the process that asks by the other end of this socket.
    Host(UnixStream),
    /// Asks by it, as often as the timer goes off.
    Asker(UnixStream),
}

/// What is asked by.
const QUESTION: u8 = b'?';

/// How many bytes of an asker are read in a row.
const MOST_WORDS: usize = 4096;

/// What an asker says when it has been answered: questions before it are void.
const THANKS: u8 = b'!';

/// A path, and this process's role there.
pub struct Rendezvous {
    path: PathBuf,
    role: Role,
    /// An asker has not been answered yet.
    asking: bool,
    timer: Timer,
    poll: Poll,
}

impl Rendezvous {
    /// Connects to the process that listens at this path, or listens there. Only this user may
    /// connect.
    ///
    /// # Errors
    /// [`Error::Uplink`].
    pub fn open(path: &Path) -> Result<Rendezvous, Error> {
        let made = || -> io::Result<Rendezvous> {
            let (timer, poll) = (Timer::new()?, Poll::new()?);
            poll.add(&timer, INPUT)?;
            let mut rendezvous = Rendezvous {
                path: path.to_owned(),
                role: Role::Neither,
                asking: false,
                timer,
                poll,
            };
            rendezvous.meet()?;
            Ok(rendezvous)
        };
        made().map_err(|error| failure(path, error))
    }

    /// Meets the process that asks by the other end of a socket.
    ///
    /// # Errors
    /// [`Error::Uplink`]: the host is out of descriptors.
    pub fn host(socket: OwnedFd) -> Result<Rendezvous, Error> {
        Rendezvous::over(socket, Role::Host)
    }

    /// Meets the process with the wire, or its broker, which is asked when [`Rendezvous::again`] is
    /// called first.
    ///
    /// # Errors
    /// As [`Rendezvous::host`].
    pub fn asker(socket: OwnedFd) -> Result<Rendezvous, Error> {
        Rendezvous::over(socket, Role::Asker)
    }

    fn over(socket: OwnedFd, role: fn(UnixStream) -> Role) -> Result<Rendezvous, Error> {
        let made = || -> io::Result<Rendezvous> {
            let (timer, poll) = (Timer::new()?, Poll::new()?);
            let socket = UnixStream::from(socket);
            socket.set_nonblocking(true)?;
            poll.add(&timer, INPUT)?;
            poll.add(&socket, INPUT)?;
            Ok(Rendezvous {
                path: PathBuf::new(),
                role: role(socket),
                asking: false,
                timer,
                poll,
            })
        };
        made().map_err(|error| Error::Uplink(format!("meeting a process by a socket: {error}")))
    }

    /// Connects or listens.
    fn meet(&mut self) -> io::Result<()> {
        let _alone = lock(&self.path)?;
        match UnixStream::connect(&self.path) {
            Ok(socket) => {
                if !is_neighbour(&socket) {
                    let why = "the process that listens there is in another PID namespace, as a machine's programs are";
                    return Err(io::Error::new(ErrorKind::PermissionDenied, why));
                }
                socket.set_nonblocking(true)?;
                self.poll.add(&socket, INPUT)?;
                self.role = Role::Guest(socket);
            }
            Err(error) if is_unattended(&error) => {
                let listener = take(&self.path, || UnixListener::bind(&self.path))?;
                listener.set_nonblocking(true)?;
                self.poll.add(&listener, INPUT)?;
                self.role = Role::Listener(listener);
            }
            Err(error) => return Err(error),
        }
        self.timer.every(Duration::ZERO)
    }

    /// Whether a listener was found that has not answered yet, or an asker has not been answered.
    pub fn is_guest(&self) -> bool {
        match &self.role {
            Role::Guest(_) => true,
            // It has asked.
            Role::Host(socket) => is_readable(socket, 0),
            Role::Asker(_) => self.asking,
            _ => false,
        }
    }

    /// To be called whenever the descriptor is readable: this side's end of a wire, if a peer has
    /// come. While `in_use`, peers are turned away.
    pub fn answer(&mut self, in_use: bool) -> Option<Half> {
        if self.timer.went_off() {
            if let Role::Asker(socket) = &self.role {
                say(socket, QUESTION);
            } else if self.meet().is_err() {
                // The timer tries again.
                return None;
            }
        }
        match &self.role {
            Role::Listener(listener) => {
                let mut half = None;
                while let Ok((socket, _)) = listener.accept() {
                    if !in_use && half.is_none() && is_neighbour(&socket) {
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
            Role::Host(socket) => {
                let (asked, is_over) = heard(socket);
                if is_over {
                    // It would always be readable.
                    let _ = self.poll.remove(socket);
                }
                let asked = asked == Some(true) && !in_use;
                asked.then(|| welcome(socket)).flatten()
            }
            Role::Asker(socket) => {
                let mut half = None;
                // If it was answered twice, the last one holds.
                let why = loop {
                    match welcomed(socket) {
                        Ok(welcomed) => half = Some(welcomed),
                        Err(why) => break why,
                    }
                };
                if half.is_some() || why.kind() != ErrorKind::WouldBlock {
                    self.asking = false;
                }
                if half.is_some() {
                    say(socket, THANKS);
                    // Fails for no valid period.
                    let _ = self.timer.every(Duration::ZERO);
                }
                half.filter(|_| !in_use)
            }
        }
    }

    /// The peer has gone: looks for the next one.
    pub fn again(&mut self) {
        match &self.role {
            Role::Neither => {}
            Role::Asker(socket) => {
                self.asking = true;
                say(socket, QUESTION);
            }
            _ => return,
        }
        // Fails for no valid period.
        let _ = self.timer.every(RETRY_PERIOD);
    }

    /// The same, and does not wait before it looks.
    pub(crate) fn at_once(&mut self) {
        self.again();
        if let Role::Neither = self.role {
            // The timer tries again.
            let _ = self.meet();
        }
    }

    /// Whether no process was at the path: this one listens there.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.role, Role::Listener(_))
    }

    /// Looks no more for a peer, if it has not found one yet.
    pub(crate) fn rest(&mut self) {
        if let Role::Neither = self.role {
            // Fails for no valid period.
            let _ = self.timer.every(Duration::ZERO);
        }
    }
}

impl AsFd for Rendezvous {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        if let Role::Listener(_) = self.role {
            // Another process may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Says a word. That there is no room for it is an answer to come.
fn say(socket: &UnixStream, word: u8) {
    let _ = (&mut &*socket).write(&[word]);
}

/// What has been said last by a process that asks: whether it still does. And whether no process
/// will ask any more.
pub(crate) fn heard(socket: &UnixStream) -> (Option<bool>, bool) {
    let (mut asked, mut words) = (None, [0; 64]);
    // One that never stops asking does not keep this process from other things.
    for _ in 0..MOST_WORDS / words.len() {
        match (&mut &*socket).read(&mut words) {
            Ok(0) => return (asked, true),
            Ok(count) => asked = Some(words[count - 1] == QUESTION),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (asked, error.kind() != ErrorKind::WouldBlock),
        }
    }
    (asked, false)
}

/// Answers an asker: hands an end on, or says that there is none yet. False: it has no room.
pub(crate) fn answer(asker: &UnixStream, half: Option<&Half>) -> bool {
    let sent = match half {
        Some(half) => send_with(asker.as_fd(), &[WELCOME], &half.descriptors()),
        None => send_with(asker.as_fd(), &[ALONE], &[]),
    };
    sent.is_ok()
}

/// Whether the other side of a connection is in this process's PID namespace. A confined driver can't
/// know, for it has no `/proc`: no other program is to reach its folder.
fn is_neighbour(socket: &UnixStream) -> bool {
    let pid = peer(socket.as_raw_fd()).map_or(0, |peer| peer.pid);
    let Some(is_neighbour) = shares_pid_namespace(pid) else {
        return true;
    };
    // Else the number may be another process's by now, and that a neighbour.
    let is_there = match peer_pidfd(socket.as_raw_fd()) {
        Ok(process) => process.is_none_or(|process| !is_readable(&process, 0)),
        Err(_) => false,
    };
    is_neighbour && is_there
}

/// Sends the guest its end, and returns this process's.
fn welcome(guest: &UnixStream) -> Option<Half> {
    let [ours, theirs] = halves().ok()?;
    answer(guest, Some(&theirs)).then_some(ours)
}

/// Receives an end from the listener.
fn welcomed(host: &UnixStream) -> io::Result<Half> {
    let (mut word, mut descriptors) = ([0], VecDeque::new());
    let got = receive_with(host.as_fd(), &mut word, &mut descriptors)?;
    let descriptors: Result<[_; 3], _> = Vec::from(descriptors).try_into();
    match descriptors {
        Ok(descriptors) if got == 1 && word == [WELCOME] => Ok(Half::from_descriptors(descriptors)),
        _ => Err(io::Error::other("sent away")),
    }
}

fn is_unattended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused
    )
}

/// Locks the path's folder until this is dropped: of two processes that find no listener, one
/// listens.
fn lock(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder)?;
    vink_sys::fd::lock(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use vink_sys::poll::{poll, wanted};

    use super::*;

    /// A path of the test's own, in a folder that is removed with it.
    struct TestPath(PathBuf);

    impl TestPath {
        fn new(name: &str) -> TestPath {
            let folder = format!("vink-rendezvous-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            std::fs::create_dir(&folder).expect("a folder");
            TestPath(folder.join("wire"))
        }
    }

    impl Drop for TestPath {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.parent().expect("a folder"));
        }
    }

    /// Waits until both have an end.
    fn meet(pair: &mut [Rendezvous; 2]) -> [Half; 2] {
        let mut halves = [None, None];
        while halves.iter().any(Option::is_none) {
            let waits =
                |rendezvous: &Rendezvous| wanted(rendezvous.as_fd().as_raw_fd(), libc::POLLIN);
            let _ = poll(&mut pair.each_ref().map(waits), -1);
            for (half, rendezvous) in halves.iter_mut().zip(pair.iter_mut()) {
                let found = rendezvous.answer(half.is_some());
                *half = half.take().or(found);
            }
        }
        halves.map(|half| half.expect("found"))
    }

    fn is_listener(rendezvous: &Rendezvous) -> bool {
        matches!(rendezvous.role, Role::Listener(_))
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
        let path = TestPath::new("two");
        let open = || Rendezvous::open(&path.0).expect("a rendezvous");
        let mut pair = [open(), open()];
        assert!(is_listener(&pair[0]) && !is_listener(&pair[1]));
        assert!(are_one_wire(meet(&mut pair)));
        // The guest goes, another one comes.
        let [listener, _] = pair;
        let mut pair = [listener, open()];
        assert!(are_one_wire(meet(&mut pair)));
        // The one that listens goes: the guest takes its place.
        let [listener, mut guest] = pair;
        drop(listener);
        assert!(!path.0.exists());
        guest.again();
        while !is_listener(&guest) {
            is_readable(&guest, -1);
            assert!(guest.answer(false).is_none());
        }
        assert!(are_one_wire(meet(&mut [guest, open()])));
    }

    #[test]
    fn one_asks_by_a_socket_and_another_one_after_it() {
        let (host, asker) = UnixStream::pair().expect("sockets");
        let host = Rendezvous::host(host.into()).expect("a rendezvous");
        let open = || {
            let asker = asker.try_clone().expect("a descriptor");
            Rendezvous::asker(asker.into()).expect("a rendezvous")
        };
        let mut pair = [host, open()];
        assert!(pair[0].answer(false).is_none() && !pair[0].is_guest());
        for _ in 0..3 {
            pair[1].again();
            assert!(pair[0].is_guest());
            assert!(are_one_wire(meet(&mut pair)));
            // A process in its place asks anew.
            pair[1] = open();
        }
        // Asked before the one before it is known to be gone, it asks again.
        pair[1].again();
        assert!(pair[0].answer(true).is_none());
        assert!(are_one_wire(meet(&mut pair)));
    }

    #[test]
    fn a_third_one_waits() {
        let path = TestPath::new("three");
        let open = || Rendezvous::open(&path.0).expect("a rendezvous");
        let mut pair = [open(), open()];
        let _halves = meet(&mut pair);
        let [mut listener, mut third] = [pair, [open(), open()]].map(|[rendezvous, _]| rendezvous);
        assert!(listener.answer(true).is_none());
        assert!(third.answer(false).is_none());
        assert!(matches!(third.role, Role::Neither), "it was sent away");
        assert!(are_one_wire(meet(&mut [listener, third])));
    }

    #[test]
    fn what_is_left_of_others() {
        let path = TestPath::new("left");
        drop(UnixListener::bind(&path.0).expect("a socket"));
        assert!(path.0.exists());
        assert!(is_listener(
            &Rendezvous::open(&path.0).expect("a rendezvous")
        ));
        std::fs::write(&path.0, "a file").expect("a file");
        let error = Rendezvous::open(&path.0)
            .err()
            .expect("no socket")
            .to_string();
        assert!(error.contains("take another path"), "{error}");
        let nowhere = path.0.join("wire");
        assert!(Rendezvous::open(&nowhere).is_err());
    }
}
