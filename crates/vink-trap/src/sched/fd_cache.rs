//! A cache of what is known of a process's descriptors, since programs poll, read and write the
//! same ones again and again: by thread what it has polled last, by process what data was moved to
//! or from.
//!
//! A copy of a descriptor keeps its file open, so none is kept across a call that may close the
//! descriptor or make it another file's, nor for processes that share their descriptors.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use vink_kernel::Numbered;
use vink_sys::{epoll, fd};
use vink_syscalls::{kind, Kind};

use super::call_budget::LastPoll;
use super::conflict::Shared;
use super::emulate::polled_fd::{file_type_of, CachedFd, PolledFd};
use crate::process_ring::ProcessRing;
use crate::process_table::ProcessTable;
use crate::syscall_ctx::SyscallCtx;
use crate::Error;

/// So many files that data was moved to or from are kept of a process.
const MAX_CACHED: usize = 32;

/// Descriptors of the host's that threads wait for, and what is known of others.
pub(super) struct HostFds {
    /// An epoll instance with copies of those that blocked threads wait for, by thread.
    epoll: OwnedFd,
    /// Those that threads have waited for last.
    polled: Numbered<i32, Vec<PolledFd>>,
    /// The last waits by poll(2) of processes with a ring, by thread.
    last_polls: Numbered<i32, LastPoll>,
    /// What processes move data to or from.
    moved: Numbered<i32, Vec<CachedFd>>,
}

impl HostFds {
    /// # Errors
    /// [`Error::System`] as epoll_create1(2).
    pub(super) fn new() -> Result<HostFds, Error> {
        Ok(HostFds {
            epoll: epoll::create().map_err(Error::of("epoll_create1()"))?,
            polled: Numbered::default(),
            last_polls: Numbered::default(),
            moved: Numbered::default(),
        })
    }

    /// Readable when something is as a blocked thread wants it.
    pub(super) fn epoll(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// The thread's wait is over.
    pub(super) fn keep_polled(
        &mut self,
        table: &ProcessTable,
        tid: i32,
        mut polled: Vec<PolledFd>,
    ) {
        let pid = table.find_pid(tid);
        if polled.is_empty() || pid.is_none_or(|pid| table.fd_table(pid).is_shared()) {
            return;
        }
        self.polled.entry(tid).or_default().append(&mut polled);
    }

    /// What is kept of a file that data was moved to or from.
    pub(super) fn moved(&self, pid: i32, number: u32) -> Option<CachedFd> {
        let mut all = self.moved.get(&pid)?.iter();
        all.find(|cached| cached.number == number).cloned()
    }

    /// Data is moved to or from this.
    pub(super) fn keep_moved(&mut self, table: &ProcessTable, pid: i32, cached: &CachedFd) {
        if table.fd_table(pid).is_shared() {
            return;
        }
        let all = self.moved.entry(pid).or_default();
        if all.len() == MAX_CACHED {
            all.remove(0);
        }
        all.push(cached.clone());
    }

    /// Before a call that may change what the process has open.
    pub(super) fn invalidate(
        &mut self,
        table: &ProcessTable,
        ring: impl FnOnce() -> Option<Rc<ProcessRing>>,
        call: SyscallCtx,
    ) {
        let closed = match kind(call.nr) {
            Kind::Close => Some(call.args[0] as u32),
            Kind::Dup2 | Kind::Dup3 => Some(call.args[1] as u32),
            Kind::CloseRange
            | Kind::Fork
            | Kind::Clone
            | Kind::Clone3
            | Kind::Exec
            | Kind::Unshare => None,
            _ => return,
        };
        match (ring(), closed) {
            (Some(ring), Some(number)) => ring.forget_file(number as i32),
            (Some(ring), None) => ring.unmark_pipes(),
            (None, _) => {}
        }
        let pid = call.pid;
        if let Some(cached) = self.moved.get_mut(&pid) {
            cached.retain(|cached| closed.is_some_and(|closed| closed != cached.number));
        }
        if self.polled.is_empty() && self.last_polls.is_empty() {
            return;
        }
        for tid in table.threads_of(pid) {
            self.last_polls.remove(tid);
            if let Some(polled) = self.polled.get_mut(tid) {
                polled.retain(|polled| closed.is_some_and(|closed| closed != polled.number()));
            }
        }
    }

    /// What is kept of the thread's last wait.
    pub(super) fn take_polled(&mut self, tid: i32) -> Vec<PolledFd> {
        self.polled.remove(&tid).unwrap_or_default()
    }

    /// How much that is.
    pub(super) fn count_polled(&self, tid: i32) -> usize {
        self.polled.get(&tid).map_or(0, Vec::len)
    }

    /// What is kept of waits for this.
    pub(super) fn take_polled_fd(
        &mut self,
        tid: i32,
        number: u64,
        events: i16,
    ) -> Option<PolledFd> {
        let polled = self.polled.get_mut(&tid)?;
        let index = polled.iter().position(|polled| polled.is(number, events))?;
        Some(polled.swap_remove(index))
    }

    /// A thread's last wait by poll(2), if its process has a ring.
    pub(super) fn last_poll(&self, tid: i32) -> Option<&LastPoll> {
        self.last_polls.get(&tid)
    }

    /// The same, to change it.
    pub(super) fn last_poll_mut(&mut self, tid: i32) -> Option<&mut LastPoll> {
        self.last_polls.get_mut(&tid)
    }

    /// A thread waits so.
    pub(super) fn note_last_poll(&mut self, tid: i32, waited: LastPoll) {
        self.last_polls.insert(tid, waited);
    }

    /// A thread is gone.
    pub(super) fn forget_thread(&mut self, tid: i32) {
        self.polled.remove(&tid);
        self.last_polls.remove(&tid);
    }

    /// A process is gone.
    pub(super) fn forget_process(&mut self, pid: i32) {
        self.moved.remove(&pid);
    }

    /// What a call moves data to or from; `None`: nothing is open under this number.
    pub(super) fn fd_of(
        &mut self,
        (table, shared): (&ProcessTable, &Shared),
        call: SyscallCtx,
        number: u64,
    ) -> Option<CachedFd> {
        if let Some(cached) = self.moved(call.pid, number as u32) {
            return Some(cached);
        }
        let copy = table.borrow_descriptor(call.tid, number)?;
        let (kind, identity, device) = file_type_of(copy.as_raw_fd());
        let waits = match kind {
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => false,
            libc::S_IFCHR => matches!(libc::major(device), 4 | 5 | 136..=143),
            _ => true,
        };
        if kind == libc::S_IFIFO {
            give_usual_room(&copy);
        }
        let cached = CachedFd {
            number: number as u32,
            copy: waits.then(|| Rc::new(copy)),
            kind,
            outside: kind != libc::S_IFCHR && shared.is_outside(identity),
        };
        self.keep_moved(table, call.pid, &cached);
        Some(cached)
    }

    /// Wakes the thread when one of these is as it wants (`POLL*`).
    pub(super) fn watch(&self, tid: i32, copies: Vec<(u64, OwnedFd, i16)>) -> Vec<PolledFd> {
        let mut polled = Vec::new();
        for (number, copy, events) in copies {
            let wanted = events as u16 as u32 | libc::EPOLLET as u32;
            let tag = (tid as u32 as u64) << 32 | number & 0xffff_ffff;
            if epoll::add(&self.epoll, copy.as_raw_fd(), wanted, tag).is_ok() {
                polled.push(PolledFd {
                    copy,
                    epoll: self.epoll(),
                    number,
                    events,
                });
            }
        }
        polled
    }
}

/// What a pipe has room for (pipe(7)), and what one that is made beside very many others has:
/// the host goes by the pages in all pipes of a user (`pipe-user-pages-soft`), bytes.
const PIPE_SIZE: usize = 65536;
const LEAST_PIPE_SIZE: usize = 8192;

/// How much a program can write before another one reads is not to depend on the host's other
/// pipes. An ordinary user's worker may not change that.
fn give_usual_room(pipe: &OwnedFd) {
    if fd::pipe_size(pipe).is_ok_and(|size| size == LEAST_PIPE_SIZE) {
        let _ = fd::set_pipe_size(pipe, PIPE_SIZE);
    }
}
