//! Placeholders: what stands for a Vink file among a program's descriptors, and shows its
//! readiness.
//!
//! A placeholder is one end of a host socket pair. A poll on the host sees its own state, so that
//! state is made to follow the Vink file's:
//!
//! | the Vink file | the placeholder |
//! |---|---|
//! | readable | a byte is queued for the program's end |
//! | `PRI` | an urgent byte is queued, so that it is readable too |
//! | not writable | the program's end has filled its (minimal) send buffer |
//! | `RDHUP` | our end has shut down writing; stays |
//! | `HUP` | our end has shut down both ways; stays |
//! | `HUP`, `ERR` | our end is closed with data unread: `ECONNRESET`; stays |
//!
//! Two things can't be shown. `ERR` alone (an ICMP error on a UDP socket) becomes "readable", which
//! makes the program call, and the call returns the error (in virtual time epoll_wait(2) reports
//! it, too). `HUP` without `RDHUP` is a socket that was never connected; it is left out, as it
//! could not be taken back.
//!
//! As long as its readiness is published (`readiness`), and no other process can poll it, it may be
//! stale.
//!
//! The placeholder's owner and `O_ASYNC` are the program's own settings (fcntl(2)), so that the
//! host sends `SIGIO` and `SIGURG` when this changes.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

use vink_sys::poll::events_of;
use vink_sys::rustix::net::{self, shutdown, RecvFlags, SendFlags, Shutdown};
use vink_sys::socket::{set_option, stream_pair};

use crate::readiness::FileReadiness;
use crate::tracee;
use crate::Error;

const IN: u32 = libc::EPOLLIN as u32;
const PRI: u32 = libc::EPOLLPRI as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;

/// What a file is watched for: everything a placeholder can express.
pub(crate) const WATCHED: u32 = IN | PRI | OUT | ERR | HUP | RDHUP;

/// One write of this size fills a minimal send buffer: unix sockets are writable up to a quarter.
const FILLING: usize = 2048;
/// Bytes queued for repeated edges before they are drained.
const MAX_EDGES: u32 = 16;
/// More single bytes than the host queues: each costs about 800 bytes of a buffer of 200 KiB.
const MAX_QUEUED: usize = 512;

/// The placeholder of one open file; shared by all descriptors of it, in all processes.
pub(crate) struct Placeholder {
    /// Our own descriptor of the end that the program has; `None` while it flies.
    program: RefCell<Option<OwnedFd>>,
    /// Of that end, once asked for.
    identity: OnceCell<(u64, u64)>,
    /// The other end; `None` once closed to show an error.
    worker: RefCell<Option<OwnedFd>>,
    /// It shows `HUP`, for good.
    hung_up: Cell<bool>,
    /// The `EPOLL*` bits that it shows now.
    shown: Cell<u32>,
    /// Bytes queued for the program's end.
    queued: Cell<u32>,
    /// The program's end has its minimal send buffer.
    minimal: Cell<bool>,
    /// Its readiness, and where that is published.
    pub(crate) readiness: FileReadiness,
}

impl Placeholder {
    /// A placeholder that is writable and not readable, of descriptors below `below`.
    pub(crate) fn new(below: i32) -> Result<Placeholder, Error> {
        let pair = stream_pair().map_err(Error::of("socketpair() for a placeholder"));
        let (program, worker) = pair?;
        let ends = [program.as_raw_fd(), worker.as_raw_fd()];
        if ends.iter().any(|end| *end >= below) {
            return Err(Error::System {
                what: "a placeholder beyond what one process may have",
                errno: libc::EMFILE,
            });
        }
        Ok(Placeholder::of(program, Some(worker), OUT))
    }

    /// What stands for a directory: the one of the same name that the process would find on the
    /// host, or the host's root. It shows nothing, as no thread waits for a directory.
    pub(crate) fn directory(pid: i32, path: &CStr) -> Result<Placeholder, Error> {
        // As the process sees it, whose mounts may be others; "self" would be this process.
        let path = match path.to_bytes() {
            path if path.starts_with(b"/sys/") || path.starts_with(b"/proc/sys/") => {
                [format!("/proc/{pid}/root").as_bytes(), path].concat()
            }
            _ => b"/".to_vec(),
        };
        let open = |path: &OsStr| {
            let mut how = File::options();
            how.read(true).custom_flags(libc::O_DIRECTORY).open(path)
        };
        let directory = open(OsStr::from_bytes(&path)).or_else(|_| open("/".as_ref()));
        let why = Error::of("opening a directory as a placeholder");
        Ok(Placeholder::fixed(directory.map_err(why)?.into()))
    }

    /// A host file as a placeholder, which always shows that it is ready.
    pub(crate) fn fixed(program: OwnedFd) -> Placeholder {
        Placeholder::of(program, None, IN | OUT)
    }

    fn of(program: OwnedFd, worker: Option<OwnedFd>, shown: u32) -> Placeholder {
        Placeholder {
            program: RefCell::new(Some(program)),
            identity: OnceCell::new(),
            hung_up: Cell::new(worker.is_none()),
            worker: RefCell::new(worker),
            shown: Cell::new(shown),
            queued: Cell::new(0),
            minimal: Cell::new(false),
            readiness: FileReadiness::new(OUT),
        }
    }

    /// The end to install in a program; -1 while it flies.
    pub(crate) fn program_end(&self) -> RawFd {
        self.program
            .borrow()
            .as_ref()
            .map_or(-1, AsRawFd::as_raw_fd)
    }

    /// The other one; `None` if it is closed.
    pub(crate) fn worker_end(&self) -> Option<RawFd> {
        self.worker.borrow().as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Gives up our descriptor of the program's end: what is left of it is in messages, or with a
    /// process that has not named it since. Nothing that is shown is taken back until it lands.
    pub(crate) fn set_in_flight(&self) {
        self.identity();
        *self.program.borrow_mut() = None;
    }

    /// The program's end has been received.
    pub(crate) fn set_received(&self, program: OwnedFd) {
        *self.program.borrow_mut() = Some(program);
    }

    /// While it is in flight: no process can receive it any more. If that can't be determined, it
    /// counts as gone.
    pub(crate) fn is_gone(&self) -> bool {
        let Some(end) = self.worker_end() else {
            return true;
        };
        let events = events_of(end, 0, 0);
        let sign = match self.hung_up.get() {
            true => libc::POLLERR,
            false => libc::POLLHUP,
        };
        events & sign != 0
    }

    /// What tells this placeholder from any other file of the host: device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        let identity = || tracee::identity(self.program_end());
        *self.identity.get_or_init(identity)
    }

    /// Releases the program's end, and returns the other one. That must stay open for as long as a
    /// program may still poll its own, or it would see a hang-up.
    pub(crate) fn release(self) -> Option<OwnedFd> {
        self.worker.into_inner()
    }

    /// The bits last shown.
    pub(crate) fn shown(&self) -> u32 {
        self.shown.get()
    }

    /// This is true of the file now (`EPOLL*`): shows it, as far as that can be, and has to be.
    pub(crate) fn show(&self, events: u32) {
        if !self.readiness.publish(events, 0) {
            self.flush();
            self.set_level(events);
        }
    }

    /// It has become ready, or ready again.
    pub(crate) fn signal_edge(&self, events: u32, followed: bool) {
        if self
            .readiness
            .publish(events, again(events, self.readiness.events()))
        {
            self.readiness.owe_edge();
            return;
        }
        self.flush();
        let before = self.shown();
        self.set_level(events);
        if followed {
            self.repeat_edge(again(events, before));
            if events & ERR != 0 {
                // An error is news for each that waits, also for those that wait for room only.
                self.repeat_edge(events & OUT);
            }
        }
    }

    /// Shows what has been published only.
    pub(crate) fn flush(&self) {
        if let Some(owes) = self.readiness.take_stale() {
            let (events, before) = (self.readiness.events(), self.shown());
            self.set_level(events);
            if owes {
                self.repeat_edge(again(events, before));
            }
        }
    }

    /// From now on others may poll it, which don't read the page.
    pub(crate) fn share(&self) {
        self.readiness.share();
        self.flush();
    }

    /// Makes the placeholder show this, as far as it can.
    fn set_level(&self, events: u32) {
        let (program, Some(_worker)) = (self.program_end(), self.worker_end()) else {
            return;
        };
        if self.hung_up.get() {
            return;
        }
        let before = self.shown.get();
        let flies = program < 0;
        if events & HUP != 0 && events & RDHUP != 0 {
            drain(&self.worker);
            if events & ERR != 0 && !flies {
                push(&self.program, 1);
                *self.worker.borrow_mut() = None;
            } else {
                // Left unread, it makes the last close of the program's end an error of ours.
                push(&self.worker, 1);
                end_of(&self.worker, Shutdown::Both);
            }
            self.hung_up.set(true);
            self.shown.set(IN | OUT | RDHUP | HUP | (events & ERR));
            return;
        }
        let mut wanted = events & (IN | PRI | OUT | RDHUP);
        if events & ERR != 0 {
            wanted |= IN | OUT;
        }
        if wanted & PRI != 0 {
            wanted |= IN;
        }
        wanted |= before & if flies { IN | PRI | OUT | RDHUP } else { RDHUP };
        let (rises, falls) = (wanted & !before, before & !wanted);
        let mut rings = rises & IN != 0;
        if falls & (IN | PRI) != 0 {
            self.clear_queued();
            rings = wanted & IN != 0;
        }
        if rises & PRI != 0 {
            rings = !push_urgent(&self.worker);
        }
        // Before the byte, which would wake a thread that waits for both.
        if rises & RDHUP != 0 {
            end_of(&self.worker, Shutdown::Write);
        } else if rings {
            self.queue_byte();
        }
        if rises & OUT != 0 {
            drain(&self.worker);
        } else if falls & OUT != 0 {
            self.fill();
        }
        self.shown.set(wanted);
    }

    /// Something happened again that is shown already: wake edge-triggered watchers once more.
    fn repeat_edge(&self, events: u32) {
        let (program, Some(_worker)) = (self.program_end(), self.worker_end()) else {
            return;
        };
        if self.hung_up.get() {
            return;
        }
        let again = events & self.shown.get();
        if again & IN != 0 && self.shown.get() & RDHUP == 0 {
            if self.queued.get() >= MAX_EDGES && program >= 0 {
                self.clear_queued();
            }
            // A woken thread handles all events: this will do for OUT too.
            self.queue_byte();
        } else if again & OUT != 0 && program >= 0 {
            // The receiver's freeing of data is what tells a sender that there is room.
            push(&self.program, 1);
            drain(&self.worker);
        }
    }

    fn queue_byte(&self) {
        push(&self.worker, 1);
        self.queued.set(self.queued.get() + 1);
    }

    /// Takes back what was queued. All of it is there, and nothing else: one call is enough, unless
    /// an urgent byte stands between.
    fn clear_queued(&self) {
        if self.shown.get() & PRI != 0 {
            drain_urgent(&self.program);
            drain(&self.program);
        } else {
            receive(&self.program, &mut [0u8; MAX_QUEUED], RecvFlags::empty());
        }
        self.queued.set(0);
    }

    fn fill(&self) {
        if !self.minimal.replace(true) {
            if let Some(end) = &*self.program.borrow() {
                let _ = set_option(end, libc::SOL_SOCKET, libc::SO_SNDBUF, 0);
            }
        }
        push(&self.program, FILLING);
    }
}

/// Of what is ready, the edges for waiters that knew of `before`: what is new has woken those that
/// wait for it, and they handle all events. Those that wait for data alone must see that more has
/// come.
fn again(events: u32, before: u32) -> u32 {
    match events & !before {
        0 => events,
        new if new & IN == 0 => events & IN,
        _ => 0,
    }
}

/// An end of the pair, while it is open here.
type End = RefCell<Option<OwnedFd>>;

/// Sends `len` bytes; a full or broken pair is no matter, it shows what it should already.
fn push(end: &End, len: usize) {
    send(end, &[0u8; FILLING][..len], SendFlags::empty());
}

/// Sends an urgent byte. False if the host's unix sockets know of none (`CONFIG_AF_UNIX_OOB`).
fn push_urgent(end: &End) -> bool {
    send(end, &[0], SendFlags::OOB) == 1
}

/// Receives the urgent byte, if there is one.
fn drain_urgent(end: &End) {
    receive(end, &mut [0], RecvFlags::OOB);
}

/// Receives all there is.
fn drain(end: &End) {
    let mut bytes = [0u8; 4096];
    while receive(end, &mut bytes, RecvFlags::empty()) > 0 {}
}

/// Sends as much as there is room for: how many bytes, 0 if none could be.
fn send(end: &End, bytes: &[u8], flags: SendFlags) -> usize {
    let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let end = end.borrow();
    let sent = end.as_ref().map(|end| net::send(end, bytes, flags));
    sent.and_then(Result::ok).unwrap_or(0)
}

/// Receives what is there and fits: how many bytes.
fn receive(end: &End, bytes: &mut [u8], flags: RecvFlags) -> usize {
    let end = end.borrow();
    let got = end
        .as_ref()
        .map(|end| net::recv(end, bytes, flags | RecvFlags::DONTWAIT));
    got.and_then(Result::ok).map_or(0, |(count, _)| count)
}

/// Nothing is to come any more, or to be received.
fn end_of(end: &End, how: Shutdown) {
    if let Some(end) = &*end.borrow() {
        let _ = shutdown(end, how);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_sys::epoll;
    use vink_sys::fd::duplicate;

    /// What poll(2) says of the program's end.
    fn polled(p: &Placeholder) -> u32 {
        events_of(p.program_end(), (WATCHED & 0x7fff) as i16, 0) as u32
    }

    #[test]
    fn levels_come_and_go() {
        let p = Placeholder::new(i32::MAX).unwrap();
        assert_eq!(polled(&p), OUT);
        for events in [
            0,
            IN,
            OUT,
            IN | OUT,
            0,
            IN | OUT,
            OUT,
            IN,
            0,
            0,
            OUT,
            OUT,
            IN | PRI,
            IN | PRI | OUT,
            IN | OUT,
            IN | PRI | OUT,
            OUT,
            IN | PRI,
            0,
            IN | RDHUP,
            IN | OUT | RDHUP,
        ] {
            p.show(events);
            assert_eq!(polled(&p), events);
            assert_eq!(p.shown(), events);
        }
    }

    #[test]
    fn the_ends_of_a_connection() {
        let p = Placeholder::new(i32::MAX).unwrap();
        p.show(OUT | HUP); // never connected
        assert_eq!(polled(&p), OUT);
        p.show(IN | OUT | RDHUP | HUP);
        assert_eq!(polled(&p), IN | OUT | RDHUP | HUP);
        p.show(0); // sticky
        assert_eq!(polled(&p), IN | OUT | RDHUP | HUP);

        for before in [OUT, 0, IN] {
            let p = Placeholder::new(i32::MAX).unwrap();
            p.show(before);
            p.show(IN | OUT | RDHUP | HUP | ERR);
            assert_eq!(polled(&p), IN | OUT | RDHUP | HUP | ERR);
        }
    }

    #[test]
    fn errors_wake() {
        let p = Placeholder::new(i32::MAX).unwrap();
        p.show(ERR);
        assert_eq!(polled(&p), IN | OUT);
        p.show(OUT);
        assert_eq!(polled(&p), OUT);
    }

    #[test]
    fn edges_wake_edge_triggered_watchers() {
        let p = Placeholder::new(i32::MAX).unwrap();
        let epoll = epoll::create().unwrap();
        let events = (libc::EPOLLET | libc::EPOLLIN | libc::EPOLLOUT) as u32;
        epoll::add(&epoll, p.program_end(), events, 7).unwrap();
        let next = || {
            let mut event = [libc::epoll_event { events: 0, u64: 0 }];
            match epoll::wait(epoll.as_raw_fd(), &mut event, 0).unwrap() {
                1 => event[0].events,
                _ => 0,
            }
        };
        assert_eq!(next(), OUT);
        assert_eq!(next(), 0);
        p.show(IN | OUT);
        assert_eq!(next(), IN | OUT);
        assert_eq!(next(), 0);
        for _ in 0..100 {
            p.repeat_edge(IN);
            assert_eq!(next(), IN | OUT);
            assert_eq!(next(), 0);
        }
        p.repeat_edge(OUT);
        assert_eq!(next(), IN | OUT);
        assert_eq!(next(), 0);
        p.show(IN);
        p.show(OUT);
        assert_eq!(next(), OUT);
        assert_eq!(next(), 0);
    }

    #[test]
    fn the_end_of_a_flight() {
        for hung_up in [false, true] {
            let p = Placeholder::new(i32::MAX).unwrap();
            if hung_up {
                p.show(IN | OUT | RDHUP | HUP);
            }
            let sent = duplicate(p.program_end(), true).unwrap();
            let identity = p.identity();
            p.set_in_flight();
            p.show(IN | OUT);
            // Not taken back: only a process that has the end can do that.
            p.show(OUT);
            assert!(!p.is_gone() && p.program_end() < 0);
            p.set_received(sent);
            assert_eq!(p.identity(), identity);
            let shown = match hung_up {
                true => IN | OUT | RDHUP | HUP,
                false => IN | OUT,
            };
            assert_eq!(p.shown(), shown);
            assert_eq!(polled(&p) & shown, shown);
            p.set_in_flight();
            assert!(p.is_gone());
        }
    }

    #[test]
    fn identities_differ() {
        let (a, b) = (
            Placeholder::new(i32::MAX).unwrap(),
            Placeholder::new(i32::MAX).unwrap(),
        );
        assert_ne!(a.identity(), b.identity());
        assert_eq!(a.identity(), a.identity());
    }
}
