//! Placeholders: what stands for a Vink file among a program's descriptors, and shows its readiness.
//!
//! A placeholder is one end of a host socket pair. Whoever polls it natively sees its own state, so
//! that state is made to follow the Vink file's:
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
//! makes the program call, and the call tells the truth. `HUP` without `RDHUP` is a socket that
//! was never connected; it is left out, as it could not be taken back.
//!
//! As long as its readiness is told on a board (`board`), and nobody else can look, it need not follow.
//!
//! The placeholder's owner and `O_ASYNC` are the program's own settings (fcntl(2)), so that the host
//! sends `SIGIO` and `SIGURG` when this changes.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::board::Telling;
use crate::target;
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
const EDGES: u32 = 16;
/// More single bytes than the host queues: each costs about 800 bytes of a buffer of 200 KiB.
const MOST_QUEUED: usize = 512;

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
    /// What else is told of it.
    pub(crate) telling: Telling,
}

impl Placeholder {
    /// A placeholder that is writable and not readable.
    pub(crate) fn new() -> Result<Placeholder, Error> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: the call fills the two integers.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
            return Err(Error::last("socketpair() for a placeholder"));
        }
        // SAFETY: both descriptors are new and nobody else's.
        let (program, worker) =
            unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        Ok(Placeholder::of(program, Some(worker), OUT))
    }

    /// What stands for a directory: the one of the same name that the process would find on the
    /// host, or the host's root. It shows nothing, as nobody waits for a directory.
    pub(crate) fn directory(pid: i32, path: &CStr) -> Result<Placeholder, Error> {
        // As the process sees it, whose mounts may be others; "self" would be this process.
        let path = match path.to_bytes() {
            path if path.starts_with(b"/sys/") || path.starts_with(b"/proc/sys/") => {
                [format!("/proc/{pid}/root").as_bytes(), path].concat()
            }
            _ => b"/".to_vec(),
        };
        let path = CString::new(path).expect("no zero in there");
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the paths are NUL-terminated; makes a descriptor.
        let fd = unsafe {
            match libc::open(path.as_ptr(), flags) {
                -1 => libc::open(c"/".as_ptr(), flags),
                fd => fd,
            }
        };
        if fd < 0 {
            return Err(Error::last("opening a directory as a placeholder"));
        }
        // SAFETY: new, and nobody else's.
        Ok(Placeholder::fixed(unsafe { OwnedFd::from_raw_fd(fd) }))
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
            telling: Telling::new(OUT),
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

    /// Gives up our descriptor of the program's end: what is left of it is in messages, or with a process
    /// that has not named it since. Nothing that is shown is taken back until it lands.
    pub(crate) fn fly(&self) {
        self.identity();
        *self.program.borrow_mut() = None;
    }

    /// The program's end has been received.
    pub(crate) fn land(&self, program: OwnedFd) {
        *self.program.borrow_mut() = Some(program);
    }

    /// While it flies: nobody can receive it any more. What can't be told is taken for gone.
    pub(crate) fn is_gone(&self) -> bool {
        let Some(end) = self.worker_end() else {
            return true;
        };
        let mut fd = libc::pollfd {
            fd: end,
            events: 0,
            revents: 0,
        };
        // SAFETY: one structure, as said.
        unsafe { libc::poll(&mut fd, 1, 0) };
        let sign = match self.hung_up.get() {
            true => libc::POLLERR,
            false => libc::POLLHUP,
        };
        fd.revents & sign != 0
    }

    /// What tells this placeholder from any other file of the host: device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        let identity = || target::identity(self.program_end());
        *self.identity.get_or_init(identity)
    }

    /// Lets go of the program's end alone: the other one, which must stay open for as long as a
    /// program may still look at its own, or it would see a hang-up.
    pub(crate) fn release(self) -> Option<OwnedFd> {
        self.worker.into_inner()
    }

    /// The bits last shown.
    pub(crate) fn shown(&self) -> u32 {
        self.shown.get()
    }

    /// This is true of the file now (`EPOLL*`): shows it, as far as that can be, and has to be.
    pub(crate) fn show(&self, events: u32) {
        if !self.telling.tell(events, 0) {
            self.catch_up();
            self.follow(events);
        }
    }

    /// It has become ready, or ready again.
    pub(crate) fn happens(&self, events: u32, followed: bool) {
        if self
            .telling
            .tell(events, again(events, self.telling.told()))
        {
            self.telling.owe();
            return;
        }
        self.catch_up();
        let before = self.shown();
        self.follow(events);
        if followed {
            self.edge(again(events, before));
        }
    }

    /// Shows what has been told on a board only.
    pub(crate) fn catch_up(&self) {
        if let Some(owes) = self.telling.catch_up() {
            let (events, before) = (self.telling.told(), self.shown());
            self.follow(events);
            if owes {
                self.edge(again(events, before));
            }
        }
    }

    /// From now on others may look, whom no board tells.
    pub(crate) fn share(&self) {
        self.telling.share();
        self.catch_up();
    }

    /// Makes the placeholder show this, as far as it can.
    fn follow(&self, events: u32) {
        let (program, Some(worker)) = (self.program_end(), self.worker_end()) else {
            return;
        };
        if self.hung_up.get() {
            return;
        }
        let before = self.shown.get();
        let flies = program < 0;
        if events & HUP != 0 && events & RDHUP != 0 {
            drain(worker);
            if events & ERR != 0 && !flies {
                push(program, 1);
                *self.worker.borrow_mut() = None;
            } else {
                // Left unread, it makes the last close of the program's end an error of ours.
                push(worker, 1);
                // SAFETY: works on a descriptor of ours.
                unsafe { libc::shutdown(worker, libc::SHUT_RDWR) };
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
            self.silence();
            rings = wanted & IN != 0;
        }
        if rises & PRI != 0 {
            rings = !push_urgent(worker);
        }
        // Before the byte, which would wake someone who looks for both.
        if rises & RDHUP != 0 {
            // SAFETY: works on a descriptor of ours.
            unsafe { libc::shutdown(worker, libc::SHUT_WR) };
        } else if rings {
            self.ring(worker);
        }
        if rises & OUT != 0 {
            drain(worker);
        } else if falls & OUT != 0 {
            self.fill();
        }
        self.shown.set(wanted);
    }

    /// Something happened again that is shown already: wake edge-triggered watchers once more.
    fn edge(&self, events: u32) {
        let (program, Some(worker)) = (self.program_end(), self.worker_end()) else {
            return;
        };
        if self.hung_up.get() {
            return;
        }
        let again = events & self.shown.get();
        if again & IN != 0 && self.shown.get() & RDHUP == 0 {
            if self.queued.get() >= EDGES && program >= 0 {
                self.silence();
            }
            // Whoever is woken looks at everything: this will do for OUT too.
            self.ring(worker);
        } else if again & OUT != 0 && program >= 0 {
            // The receiver's freeing of data is what tells a sender that there is room.
            push(program, 1);
            drain(worker);
        }
    }

    fn ring(&self, worker: RawFd) {
        push(worker, 1);
        self.queued.set(self.queued.get() + 1);
    }

    /// Takes back what was queued. All of it is there, and nothing else: one call is enough, unless an
    /// urgent byte stands between.
    fn silence(&self) {
        let program = self.program_end();
        if self.shown.get() & PRI != 0 {
            drain_urgent(program);
            drain(program);
        } else {
            receive(program, &mut [0u8; MOST_QUEUED]);
        }
        self.queued.set(0);
    }

    fn fill(&self) {
        if !self.minimal.replace(true) {
            let least: libc::c_int = 0;
            // SAFETY: the option's value is an integer that outlives the call.
            unsafe {
                libc::setsockopt(
                    self.program_end(),
                    libc::SOL_SOCKET,
                    libc::SO_SNDBUF,
                    (&raw const least).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
        }
        push(self.program_end(), FILLING);
    }
}

/// Of what is ready, that of which those must be told who knew of `before`: what is new has woken those who wait for it, and
/// they look at everything. Those who wait for data alone must see that more has come.
fn again(events: u32, before: u32) -> u32 {
    match events & !before {
        0 => events,
        new if new & IN == 0 => events & IN,
        _ => 0,
    }
}

/// Sends `len` bytes; a full or broken pair is no matter, it shows what it should already.
fn push(fd: RawFd, len: usize) {
    let bytes = [0u8; FILLING];
    // SAFETY: the buffer is at least `len` bytes long.
    unsafe {
        libc::send(
            fd,
            bytes.as_ptr().cast(),
            len,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
}

/// Sends an urgent byte. False if the host's unix sockets know of none (`CONFIG_AF_UNIX_OOB`).
fn push_urgent(fd: RawFd) -> bool {
    let flags = libc::MSG_OOB | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: one byte, as said.
    unsafe { libc::send(fd, [0u8].as_ptr().cast(), 1, flags) == 1 }
}

/// Receives the urgent byte, if there is one.
fn drain_urgent(fd: RawFd) {
    let mut byte = [0u8];
    let flags = libc::MSG_OOB | libc::MSG_DONTWAIT;
    // SAFETY: room for one byte, as said.
    unsafe { libc::recv(fd, byte.as_mut_ptr().cast(), 1, flags) };
}

/// Receives all there is.
fn drain(fd: RawFd) {
    let mut bytes = [0u8; FILLING];
    while receive(fd, &mut bytes) > 0 {}
}

/// Receives what is there and fits.
fn receive(fd: RawFd, bytes: &mut [u8]) -> isize {
    let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the buffer is as long as said.
    unsafe { libc::recv(fd, at, len, libc::MSG_DONTWAIT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What poll(2) says of the program's end.
    fn polled(p: &Placeholder) -> u32 {
        let mut fd = libc::pollfd {
            fd: p.program_end(),
            events: (WATCHED & 0x7fff) as i16,
            revents: 0,
        };
        // SAFETY: one structure, as said.
        unsafe { libc::poll(&mut fd, 1, 0) };
        fd.revents as u32
    }

    #[test]
    fn levels_come_and_go() {
        let p = Placeholder::new().unwrap();
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
        let p = Placeholder::new().unwrap();
        p.show(OUT | HUP); // never connected
        assert_eq!(polled(&p), OUT);
        p.show(IN | OUT | RDHUP | HUP);
        assert_eq!(polled(&p), IN | OUT | RDHUP | HUP);
        p.show(0); // sticky
        assert_eq!(polled(&p), IN | OUT | RDHUP | HUP);

        for before in [OUT, 0, IN] {
            let p = Placeholder::new().unwrap();
            p.show(before);
            p.show(IN | OUT | RDHUP | HUP | ERR);
            assert_eq!(polled(&p), IN | OUT | RDHUP | HUP | ERR);
        }
    }

    #[test]
    fn errors_wake() {
        let p = Placeholder::new().unwrap();
        p.show(ERR);
        assert_eq!(polled(&p), IN | OUT);
        p.show(OUT);
        assert_eq!(polled(&p), OUT);
    }

    #[test]
    fn edges_wake_edge_triggered_watchers() {
        let p = Placeholder::new().unwrap();
        // SAFETY: makes a descriptor.
        let epoll = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        let mut event = libc::epoll_event {
            events: (libc::EPOLLET | libc::EPOLLIN | libc::EPOLLOUT) as u32,
            u64: 7,
        };
        // SAFETY: adds a descriptor with a structure that outlives the call.
        let added = unsafe {
            libc::epoll_ctl(
                epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                p.program_end(),
                &mut event,
            )
        };
        assert_eq!(added, 0);
        let next = || {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: room for one event, as said.
            match unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, 0) } {
                1 => event.events,
                _ => 0,
            }
        };
        assert_eq!(next(), OUT);
        assert_eq!(next(), 0);
        p.show(IN | OUT);
        assert_eq!(next(), IN | OUT);
        assert_eq!(next(), 0);
        for _ in 0..100 {
            p.edge(IN);
            assert_eq!(next(), IN | OUT);
            assert_eq!(next(), 0);
        }
        p.edge(OUT);
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
            let p = Placeholder::new().unwrap();
            if hung_up {
                p.show(IN | OUT | RDHUP | HUP);
            }
            // SAFETY: makes a descriptor, which is then owned once.
            let sent = unsafe { OwnedFd::from_raw_fd(libc::dup(p.program_end())) };
            let identity = p.identity();
            p.fly();
            p.show(IN | OUT);
            // Not taken back: only who has the end can do that.
            p.show(OUT);
            assert!(!p.is_gone() && p.program_end() < 0);
            p.land(sent);
            assert_eq!(p.identity(), identity);
            let shown = match hung_up {
                true => IN | OUT | RDHUP | HUP,
                false => IN | OUT,
            };
            assert_eq!(p.shown(), shown);
            assert_eq!(polled(&p) & shown, shown);
            p.fly();
            assert!(p.is_gone());
        }
    }

    #[test]
    fn identities_differ() {
        let (a, b) = (Placeholder::new().unwrap(), Placeholder::new().unwrap());
        assert_ne!(a.identity(), b.identity());
        assert_eq!(a.identity(), a.identity());
    }
}
