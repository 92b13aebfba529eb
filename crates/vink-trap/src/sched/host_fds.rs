//! Waiting for files of the host (pipes, terminals, unix sockets, event counters): a call passes
//! through when it will not block.
//!
//! The worker polls a copy of the program's descriptor (pidfd_getfd(2)): the same open file. The
//! copies that blocked threads wait for are in one epoll instance, so that a poll costs one call
//! however many there are. They are there with `EPOLLET`: nothing was ready just before the thread
//! blocked.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use vink_kernel::MachineId;
use vink_sys::pidfd::copy_fd;
use vink_sys::plain::Zeroed;
use vink_sys::{epoll, fd, poll};
use vink_syscalls::{blocks, is_plain_io, Blocks};

use super::{BlockCondition, Scheduler, ThreadState, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;
use crate::Error;
use vink_sched::block::ERESTARTSYS;

/// As much can be written to a pipe that is not full without waiting (`PIPE_BUF`).
const PIPE_BUF: u64 = 4096;

/// A descriptor of the host's in the set; leaves it when dropped.
pub(super) struct PolledFd {
    copy: OwnedFd,
    epoll: RawFd,
    /// The program's descriptor, and what is waited for (`POLL*`).
    number: u64,
    events: i16,
}

impl PolledFd {
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
    pub(super) fn poll_all(all: &[PolledFd]) -> Vec<i16> {
        let fd = |polled: &PolledFd| libc::pollfd {
            fd: polled.fd(),
            events: polled.events,
            revents: 0,
        };
        let mut fds: Vec<libc::pollfd> = all.iter().map(fd).collect();
        if !fds.is_empty() {
            let _ = poll::poll(&mut fds, 0);
        }
        fds.iter().map(|fd| fd.revents).collect()
    }
}

impl Drop for PolledFd {
    fn drop(&mut self) {
        // The program has the file open too, so closing would not take it out of the set.
        let _ = epoll::remove(self.epoll, self.copy.as_raw_fd());
    }
}

/// What poll(2) says of a descriptor.
pub(super) fn events_of(fd: RawFd, events: i16) -> i16 {
    poll::events_of(fd, events, 0)
}

/// What kind of file it is (`S_IFMT`), and which.
pub(super) fn file_type_of(fd: RawFd) -> (libc::mode_t, (u64, u64), u64) {
    let stat = fd::stat(fd).unwrap_or(libc::stat::zeroed());
    (
        stat.st_mode & libc::S_IFMT,
        (stat.st_dev, stat.st_ino),
        stat.st_rdev,
    )
}

/// What a program moves data to or from.
#[derive(Clone)]
pub(super) struct CachedFd {
    /// The low half of the program's descriptor.
    pub(super) number: u32,
    /// A copy of it; `None`: the host never waits for such a file.
    copy: Option<Rc<OwnedFd>>,
    /// `S_IFMT`: of the character devices there are terminals only.
    kind: libc::mode_t,
    /// It is a pipe or a socket whose other end is outside the worker's programs.
    outside: bool,
}

/// Whether a call is for files of all kinds, not for sockets only.
fn is_for_all(nr: i64) -> bool {
    matches!(blocks(nr), Blocks::Reads | Blocks::Writes(_))
}

/// Whether the host refuses a call that moves data in this direction (`POLLIN`, `POLLOUT`): it is
/// for sockets, or the file was opened for the other direction.
fn is_refused(nr: i64, kind: libc::mode_t, flags: i32, events: i16) -> bool {
    let other = match events {
        libc::POLLOUT => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    !is_for_all(nr) && kind != libc::S_IFSOCK || flags & libc::O_ACCMODE == other
}

impl VirtualWorker<'_> {
    /// What the process has open under this number.
    pub(super) fn dup_tracee_fd(&self, tid: i32, number: u64) -> Option<OwnedFd> {
        let process = self.worker.table.process_of(tid);
        copy_fd(&process.pidfd, number as i32).ok()
    }

    /// What the thread's call moves data to or from; `None`: nothing is open under this number.
    fn fd_of(&mut self, tid: i32, number: u64) -> Option<CachedFd> {
        if let Some(cached) = self.cached_fd(tid, number as u32) {
            return Some(cached);
        }
        let copy = self.dup_tracee_fd(tid, number)?;
        let (kind, identity, device) = file_type_of(copy.as_raw_fd());
        let waits = match kind {
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => false,
            libc::S_IFCHR => matches!(libc::major(device), 4 | 5 | 136..=143),
            _ => true,
        };
        let sched = self.worker.clock.sched();
        let cached = CachedFd {
            number: number as u32,
            copy: waits.then(|| Rc::new(copy)),
            kind,
            outside: kind != libc::S_IFCHR && sched.outside_files.contains(&identity),
        };
        self.cache_fd(tid, &cached);
        Some(cached)
    }

    fn host_epoll(&self) -> BorrowedFd<'_> {
        let sched = self.worker.clock.sched();
        sched.host_epoll.as_fd()
    }

    /// Wakes the thread when one of these is as it wants (`POLL*`).
    pub(super) fn poll_host_fds(
        &self,
        tid: i32,
        copies: Vec<(u64, OwnedFd, i16)>,
    ) -> Vec<PolledFd> {
        let epoll = self.host_epoll();
        let mut polled = Vec::new();
        for (number, copy, events) in copies {
            let wanted = events as u16 as u32 | libc::EPOLLET as u32;
            let tag = (tid as u32 as u64) << 32 | number & 0xffff_ffff;
            if epoll::add(epoll, copy.as_raw_fd(), wanted, tag).is_ok() {
                polled.push(PolledFd {
                    copy,
                    epoll: epoll.as_raw_fd(),
                    number,
                    events,
                });
            }
        }
        polled
    }

    /// Wakes threads that wait for a file of the host's that is ready now.
    pub(super) fn wake_ready_on_host(&mut self) -> Result<(), Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let mut ready = Vec::new();
        let epoll = self.host_epoll().as_raw_fd();
        loop {
            let count = epoll::wait(epoll, &mut events, 0).unwrap_or(0);
            ready.extend(
                events[..count]
                    .iter()
                    .map(|event| ((event.u64 >> 32) as i32, event.u64 as u32)),
            );
            if count < events.len() {
                break;
            }
        }
        self.sort_by_batch(&mut ready, |(tid, _)| *tid);
        for (tid, number) in ready {
            let sched = self.worker.clock.sched();
            // What is cached for a thread's next wait is in the epoll instance, too.
            if let Some(blocked) = sched.blocked.get(&tid) {
                if blocked.polled.iter().any(|w| w.number() == number) {
                    let id = blocked.call.id;
                    self.wake(tid, id, None);
                }
            }
        }
        Ok(())
    }

    /// How the host may do a call on one of its own files now. `None`: it would wait for `events`
    /// (`POLL*`), and is blocked until it would not.
    pub(super) fn block_or_move(
        &mut self,
        call: SyscallCtx,
        events: i16,
        len: u64,
    ) -> Result<Option<ThreadState>, Error> {
        let cached = self.fd_of(call.tid, call.args[0]);
        let Some(CachedFd {
            copy: Some(copy),
            kind,
            outside,
            ..
        }) = cached
        else {
            // It may get a SIGXFSZ.
            self.worker.signals.invalidate(call.pid);
            return Ok(Some(ThreadState::Running));
        };
        let fd = copy.as_raw_fd();
        let flags = fd::flags(fd);
        if is_refused(call.nr, kind, flags, events) {
            return Ok(Some(ThreadState::Running));
        }
        if is_plain_io(call.nr) && kind == libc::S_IFIFO && !outside {
            self.mark_pipe(call.tid, call.args[0]);
        }
        let found = events_of(fd, events);
        if found & (libc::POLLERR | libc::POLLHUP) != 0 || kind == libc::S_IFCHR {
            // It may get a SIGPIPE, or what terminals send.
            self.worker.signals.invalidate(call.pid);
        }
        if flags & libc::O_NONBLOCK != 0 {
            if found == 0 {
                self.count_poll(call.tid)?;
            }
            return Ok(Some(ThreadState::Running));
        }
        if let Some((wanted, has_any)) = self.signalfd_state(call.tid, call.args[0] as i32) {
            if has_any {
                return Ok(Some(ThreadState::Running));
            }
            let condition = BlockCondition {
                on_signal: ERESTARTSYS,
                awaited_signals: wanted,
                ..BlockCondition::forever()
            };
            self.block(call, condition);
            return Ok(None);
        }
        let out = events == libc::POLLOUT;
        if kind == libc::S_IFCHR && out || outside {
            return Ok(Some(ThreadState::WaitsOutside));
        }
        if found != 0 {
            return Ok(Some(match out && len > PIPE_BUF {
                true => ThreadState::MayBlock,
                false => ThreadState::Running,
            }));
        }
        if kind == libc::S_IFIFO && out {
            // The last page may have room, of which poll(2) does not tell.
            return Ok(Some(ThreadState::MayBlock));
        }
        let condition = BlockCondition {
            on_signal: ERESTARTSYS,
            ..BlockCondition::forever()
        };
        let polled =
            match self
                .worker
                .clock
                .sched_mut()
                .take_polled_fd(call.tid, call.args[0], events)
            {
                Some(kept) => vec![kept],
                None => {
                    let copy = self.dup_tracee_fd(call.tid, call.args[0]);
                    let copy = copy.map(|copy| (call.args[0], copy, events));
                    self.poll_host_fds(call.tid, copy.into_iter().collect())
                }
            };
        self.block_on(call, condition, polled, 0);
        Ok(None)
    }
}

impl Scheduler {
    /// The worker itself has moved something into a pipe, or out of one.
    pub(crate) fn note_host_io(&mut self) {
        self.host_fds_dirty = true;
        self.host_ran = true;
    }

    /// A program's standard descriptors, which come from outside.
    pub(crate) fn note_standard_fds(&mut self, machine: MachineId, descriptors: [RawFd; 3]) {
        for fd in descriptors {
            let (kind, identity, _) = file_type_of(fd);
            match kind {
                libc::S_IFIFO | libc::S_IFSOCK => drop(self.outside_files.insert(identity)),
                libc::S_IFREG => self.shared_state.note_file(machine.get(), identity),
                _ => {}
            }
        }
    }
}
