//! Waiting for files of the host (pipes, terminals, unix sockets, event counters): a call is let pass when it will
//! not wait.
//!
//! What the worker looks at is a copy of the program's descriptor (pidfd_getfd(2)): the same open file. The copies that
//! parked threads wait for are in one epoll set, so that a look costs one call however many there are. They are there by their
//! edges: who parks has found nothing ready just before.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::rc::Rc;

use vink_kernel::MachineId;

use super::{Patience, Until};
use crate::interrupt::ERESTARTSYS;
use crate::notify::Notification;
use crate::worker::Worker;
use crate::Error;

/// As much can be written to a pipe that is not full without waiting (`PIPE_BUF`).
const AT_ONCE: u64 = 4096;

/// A descriptor of the host's in the set; leaves it when dropped.
pub(super) struct Watched {
    copy: OwnedFd,
    set: RawFd,
    /// The program's descriptor, and what is waited for (`POLL*`).
    number: u64,
    events: i16,
}

impl Watched {
    /// Whether this waits for the same.
    pub(super) fn is(&self, number: u64, events: i16) -> bool {
        (self.number, self.events) == (number, events)
    }

    /// The low half of the program's descriptor.
    pub(super) fn number(&self) -> u32 {
        self.number as u32
    }

    /// The worker's own descriptor of it.
    pub(super) fn fd(&self) -> RawFd {
        self.copy.as_raw_fd()
    }

    /// What is true of all of these now, by one look.
    pub(super) fn look_at(all: &[Watched]) -> Vec<i16> {
        let fd = |watched: &Watched| libc::pollfd {
            fd: watched.fd(),
            events: watched.events,
            revents: 0,
        };
        let mut fds: Vec<libc::pollfd> = all.iter().map(fd).collect();
        if !fds.is_empty() {
            // SAFETY: as many structures as said.
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) };
        }
        fds.iter().map(|fd| fd.revents).collect()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The program has the file open too, so closing would not take it out of the set.
        // SAFETY: takes numbers and a null pointer; at worst the set is gone.
        unsafe {
            libc::epoll_ctl(
                self.set,
                libc::EPOLL_CTL_DEL,
                self.copy.as_raw_fd(),
                null_mut(),
            )
        };
    }
}

/// What poll(2) says of a descriptor.
pub(super) fn events_of(fd: RawFd, events: i16) -> i16 {
    let mut fd = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one structure, as said.
    unsafe { libc::poll(&mut fd, 1, 0) };
    fd.revents
}

/// What kind of file it is (`S_IFMT`), and which.
pub(super) fn kind_of(fd: RawFd) -> (libc::mode_t, (u64, u64), u64) {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure.
    unsafe { libc::fstat(fd, &mut stat) };
    (
        stat.st_mode & libc::S_IFMT,
        (stat.st_dev, stat.st_ino),
        stat.st_rdev,
    )
}

/// What a program moves data to or from.
#[derive(Clone)]
pub(super) struct Moved {
    /// The low half of the program's descriptor.
    pub(super) number: u32,
    /// A copy of it; `None`: the host never waits for such a file.
    copy: Option<Rc<OwnedFd>>,
    /// `S_IFMT`: of the character devices there are terminals only.
    kind: libc::mode_t,
    /// It is a pipe or a socket that leads out of the worker's programs.
    outside: bool,
}

/// Whether the host refuses a call that moves data in this direction (`POLLIN`, `POLLOUT`): it is for sockets, or the
/// file was opened for the other direction.
fn is_refused(nr: i64, kind: libc::mode_t, flags: i32, events: i16) -> bool {
    let is_for_all = matches!(
        nr,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_preadv2
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwritev2
    );
    let other = match events {
        libc::POLLOUT => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    !is_for_all && kind != libc::S_IFSOCK || flags & libc::O_ACCMODE == other
}

impl Worker {
    /// What the process has open under this number.
    pub(super) fn copy_of(&self, tid: i32, number: u64) -> Option<OwnedFd> {
        let process = &self.processes[&self.threads[&tid].pid];
        let (pidfd, number) = (process.pidfd.as_raw_fd(), number as u32);
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd, number, 0) };
        // SAFETY: new, and nobody else's.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }

    /// What the thread's call moves data to or from; `None`: nothing is open under this number.
    fn moved_of(&mut self, tid: i32, number: u64) -> Option<Moved> {
        if let Some(moved) = self.kept_moved(tid, number as u32) {
            return Some(moved);
        }
        let copy = self.copy_of(tid, number)?;
        let (kind, identity, device) = kind_of(copy.as_raw_fd());
        let waits = match kind {
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => false,
            libc::S_IFCHR => matches!(libc::major(device), 4 | 5 | 136..=143),
            _ => true,
        };
        let turn = self.turn.as_ref().expect("virtual time");
        let moved = Moved {
            number: number as u32,
            copy: waits.then(|| Rc::new(copy)),
            kind,
            outside: kind != libc::S_IFCHR && turn.outside.contains(&identity),
        };
        self.keep_moved(tid, &moved);
        Some(moved)
    }

    /// The worker itself has moved something into a pipe, or out of one.
    pub(crate) fn note_moved(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.stale = true;
            turn.passed = true;
        }
    }

    /// Has the thread looked at again when one of these is as it wants (`POLL*`).
    pub(super) fn watch_host(&self, tid: i32, copies: Vec<(u64, OwnedFd, i16)>) -> Vec<Watched> {
        let set = self.turn.as_ref().expect("virtual time").set.as_raw_fd();
        let mut watched = Vec::new();
        for (number, copy, events) in copies {
            let mut event = libc::epoll_event {
                events: events as u16 as u32 | libc::EPOLLET as u32,
                u64: (tid as u32 as u64) << 32 | number & 0xffff_ffff,
            };
            // SAFETY: adds an open descriptor with a structure that outlives the call.
            let done =
                unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, copy.as_raw_fd(), &mut event) };
            if done == 0 {
                watched.push(Watched {
                    copy,
                    set,
                    number,
                    events,
                });
            }
        }
        watched
    }

    /// Whoever waits for a file of the host's that is ready now goes on.
    pub(super) fn look_at_host(&mut self) -> Result<(), Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let mut told = Vec::new();
        let set = self.turn.as_ref().expect("virtual time").set.as_raw_fd();
        loop {
            // SAFETY: room for as many events as said.
            let count = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), 64, 0) };
            let count = usize::try_from(count).unwrap_or(0);
            told.extend(
                events[..count]
                    .iter()
                    .map(|event| ((event.u64 >> 32) as i32, event.u64 as u32)),
            );
            if count < events.len() {
                break;
            }
        }
        self.sort_by_round(&mut told, |(tid, _)| *tid);
        for (tid, number) in told {
            let turn = self.turn.as_ref().expect("virtual time");
            // What is kept for somebody's next wait is in the set, too.
            if let Some(parked) = turn.parked.get(&tid) {
                if parked.watched.iter().any(|w| w.number() == number) {
                    let id = parked.call.id;
                    self.wake(tid, id, None);
                }
            }
        }
        Ok(())
    }

    /// How the host may do a call on one of its own files now. `None`: it would wait for `events` (`POLL*`), and
    /// is parked until it would not.
    pub(super) fn ready_to_move(
        &mut self,
        call: Notification,
        events: i16,
        len: u64,
    ) -> Result<Option<Patience>, Error> {
        let moved = self.moved_of(call.tid, call.args[0]);
        let Some(Moved {
            copy: Some(copy),
            kind,
            outside,
            ..
        }) = moved
        else {
            // It may get a SIGXFSZ.
            self.pulse.doubt(self.threads[&call.tid].pid);
            return Ok(Some(Patience::Runs));
        };
        let fd = copy.as_raw_fd();
        // SAFETY: takes numbers.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if is_refused(call.nr, kind, flags, events) {
            return Ok(Some(Patience::Runs));
        }
        let moves = matches!(
            call.nr,
            libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev
        );
        if moves && kind == libc::S_IFIFO && !outside {
            self.mark_pipe(call.tid, call.args[0]);
        }
        let found = events_of(fd, events);
        if found & (libc::POLLERR | libc::POLLHUP) != 0 || kind == libc::S_IFCHR {
            // It may get a SIGPIPE, or what terminals send.
            self.pulse.doubt(self.threads[&call.tid].pid);
        }
        if flags & libc::O_NONBLOCK != 0 {
            if found == 0 {
                self.note_look(call.tid)?;
            }
            return Ok(Some(Patience::Runs));
        }
        if let Some((wanted, has_any)) = self.signals_told_by(call.tid, call.args[0] as i32) {
            if has_any {
                return Ok(Some(Patience::Runs));
            }
            let until = Until {
                interrupted: ERESTARTSYS,
                wanted,
                ..Until::forever()
            };
            self.park(call, until);
            return Ok(None);
        }
        let out = events == libc::POLLOUT;
        if kind == libc::S_IFCHR && out || outside {
            return Ok(Some(Patience::Outside));
        }
        if found != 0 {
            return Ok(Some(match out && len > AT_ONCE {
                true => Patience::MayWait,
                false => Patience::Runs,
            }));
        }
        if kind == libc::S_IFIFO && out {
            // The last page may have room, of which poll(2) does not tell.
            return Ok(Some(Patience::MayWait));
        }
        let until = Until {
            interrupted: ERESTARTSYS,
            ..Until::forever()
        };
        let watched = match self.take_kept_of(call.tid, call.args[0], events) {
            Some(kept) => vec![kept],
            None => {
                let copy = self.copy_of(call.tid, call.args[0]);
                let copy = copy.map(|copy| (call.args[0], copy, events));
                self.watch_host(call.tid, copy.into_iter().collect())
            }
        };
        self.park_for(call, until, watched, 0);
        Ok(None)
    }

    /// A program's standard descriptors, which come from outside.
    pub(crate) fn note_outside(&mut self, machine: MachineId, descriptors: [RawFd; 3]) {
        let Some(turn) = &mut self.turn else { return };
        for fd in descriptors {
            let (kind, identity, _) = kind_of(fd);
            match kind {
                libc::S_IFIFO | libc::S_IFSOCK => drop(turn.outside.insert(identity)),
                libc::S_IFREG => turn.mingled.note_file(machine, identity),
                _ => {}
            }
        }
    }
}
