//! Waiting for readiness: poll, select and epoll over Vink files, host files, or both.
//!
//! If all descriptors are Vink's and one of them is ready, the answer is what the kernel says of
//! them, exactly. In all other cases the placeholders are made to show the files' state and the
//! host does the waiting: so time-outs, signal masks, `EINTR` (which poll(2) gives even with
//! `SA_RESTART`, other than a call that waits for a seccomp answer) and mixed sets are the host's
//! own.

use std::rc::Rc;

use vink_ring::UNTRAPPED;
use vink_sys::errno::EFAULT;

use vink_syscalls::{polling, Polling};

use crate::calls::Calls;
use crate::decision::Decision;
use crate::error::to_errno_result;
use crate::fd_table::{Entry, FdTable};
use crate::file::File;
use crate::placement::Placement;
use crate::signal_poll::PendingCall;
use crate::syscall_ctx::SyscallCtx;
use crate::timeouts::{read_ppoll, timeout_and_mask};
use crate::tracee;
use crate::Error;

pub(crate) const POLLFD: usize = size_of::<libc::pollfd>();
/// The most descriptors that one call may name here; the host's limit is its descriptor limit.
pub(crate) const MAX_FDS: u64 = 1 << 20;

/// Bytes of memory that are kept from one call to the next.
const SCRATCH_KEPT: usize = 64 << 10;

/// What select(2) takes for readable, writable and exceptional, as in the kernel's fs/select.c.
pub(crate) const SETS: [u32; 3] = [
    (libc::EPOLLRDNORM | libc::EPOLLRDBAND | libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR)
        as u32,
    (libc::EPOLLWRBAND | libc::EPOLLWRNORM | libc::EPOLLOUT | libc::EPOLLERR) as u32,
    libc::EPOLLPRI as u32,
];

/// A Vink descriptor that a call asks about.
struct PolledFile {
    fd: i32,
    entry: Entry,
    /// Where the call names it: an index of the array, or a bit of a set.
    index: usize,
    /// What makes it ready for this call (`EPOLL*`).
    wanted: u32,
    /// What is true of it.
    events: u32,
}

impl FdTable {
    /// Descriptors of the host's of the calling process are about to be shared, duplicated or
    /// polled: if one is an epoll instance, the library does not see all waiters.
    pub(crate) fn show_to_others(&self, call: SyscallCtx, fds: &[i32]) {
        let ring = self.ring().filter(|_| self.mirrors_edges());
        let ring = ring.filter(|ring| ring.may_have_stale());
        let is_epoll = |fd: &i32| tracee::is_epoll(call.tid, *fd);
        if ring.is_some() && fds.iter().any(is_epoll) {
            self.set_seen_by_others();
        }
    }
}

impl Calls {
    /// epoll_create(2): from now on the placeholders of all that the process has follow their
    /// files.
    pub(crate) fn epoll_create(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let table = self.tasks.table.fd_table(call.pid);
        table.set_mirrors_edges();
        if call.args[5] != UNTRAPPED {
            table.set_seen_by_others();
        }
        for entry in table.entries() {
            self.mirror_edges(call.tid, &entry)?;
        }
        Ok(())
    }

    /// Reads the readiness of the files. Whether any is as wanted.
    fn look(&mut self, call: SyscallCtx, polled: &mut [PolledFile]) -> Result<bool, Error> {
        if polled.is_empty() {
            return Ok(false);
        }
        let task = match self.tasks.task_of(call.tid) {
            Ok(task) => task,
            Err(error) => return to_errno_result(error).map(|_| false),
        };
        let mut ready = false;
        for polled in polled {
            polled.events = self.watch_readiness(task, &polled.entry)?;
            ready |= polled.events & polled.wanted != 0;
        }
        Ok(ready)
    }

    /// Shows the readiness, for the host to do the call.
    fn show(&mut self, call: SyscallCtx, polled: &[PolledFile]) {
        let ring = self.tasks.table.fd_table(call.pid).ring();
        let is_counted = ring.is_some_and(|ring| ring.is_host_waiter(call.tid));
        for polled in polled {
            let placeholder = &polled.entry.file.placeholder;
            match is_counted {
                true => placeholder.flush(),
                false => placeholder.share(),
            }
            placeholder.show(polled.events);
        }
    }
}

/// What poll(2) and select(2) read of programs.
#[derive(Default)]
pub(crate) struct Polls {
    /// Kept from one call to the next.
    scratch: Vec<u8>,
}

impl Polls {
    /// poll(2) and ppoll(2).
    pub(crate) fn poll(
        &mut self,
        (calls, placement, served): (&mut Calls, &mut Placement, u64),
        call: SyscallCtx,
    ) -> Result<Decision, Error> {
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_KEPT);
        let count = call.args[1] & 0xffff_ffff;
        let table = calls.tasks.table.fd_table(call.pid);
        if table.is_empty() || count == 0 || count > MAX_FDS {
            return Ok(Decision::Host);
        }
        self.scratch.resize(count as usize * POLLFD, 0);
        // What the host refuses whatever is ready is the host's.
        let is_sound = match polling(call.nr) {
            Polling::Ppoll => read_ppoll(call, &mut self.scratch).is_ok(),
            _ => tracee::read(call.tid, call.args[0], &mut self.scratch),
        };
        if !is_sound {
            return Ok(Decision::Host);
        }
        let (mut polled, mut hosts) = (Vec::new(), Vec::new());
        let mut pure = true;
        for (index, pollfd) in self.scratch.chunks_exact_mut(POLLFD).enumerate() {
            let fd = i32::from_ne_bytes(pollfd[..4].try_into().expect("four bytes"));
            let events = u16::from_ne_bytes(pollfd[4..6].try_into().expect("two bytes"));
            pollfd[6..].fill(0);
            match table.get(fd as u64) {
                Some(entry) => polled.push(PolledFile {
                    fd,
                    entry: entry.clone(),
                    index,
                    wanted: u32::from(events) | (libc::EPOLLERR | libc::EPOLLHUP) as u32,
                    events: 0,
                }),
                None if fd < 0 => {}
                None => {
                    pure = false;
                    hosts.push(fd);
                }
            }
        }
        table.show_to_others(call, &hosts);
        publish_files((calls, placement, served), call, &polled)?;
        if !calls.look(call, &mut polled)? || !pure {
            calls.show(call, &polled);
            return Ok(Decision::Host);
        }
        let mut ready = 0;
        for polled in &polled {
            let found = polled.events & polled.wanted;
            ready += i64::from(found != 0);
            let at = polled.index * POLLFD + 6;
            self.scratch[at..at + 2].copy_from_slice(&(found as u16).to_ne_bytes());
        }
        let written = tracee::write(call.tid, call.args[0], &self.scratch);
        Ok(Decision::Answer(if written { ready } else { EFAULT }))
    }

    /// select(2) and pselect6(2).
    pub(crate) fn select(
        &mut self,
        (calls, placement, served): (&mut Calls, &mut Placement, u64),
        call: SyscallCtx,
    ) -> Result<Decision, Error> {
        let table = calls.tasks.table.fd_table(call.pid);
        let count = call.args[0] as i32;
        if table.is_empty() || count <= 0 || count as u64 > MAX_FDS {
            return Ok(Decision::Host);
        }
        let set_len = (count as usize).div_ceil(64) * 8;
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_KEPT);
        self.scratch.resize(SETS.len() * set_len, 0);
        let sets = self.scratch.chunks_exact_mut(set_len).zip(&call.args[1..4]);
        let named = |(set, address): (_, &u64)| (*address != 0).then_some((*address, set));
        let mut named: Vec<_> = sets.filter_map(named).collect();
        if tracee::read_parts(call.tid, &mut named) != named.len() * set_len {
            return Ok(Decision::Host);
        }
        let (mut polled, mut hosts) = (Vec::new(), Vec::new());
        let mut pure = true;
        for (n, set) in self.scratch.chunks_exact(set_len).enumerate() {
            for fd in 0..count as usize {
                if set[fd / 8] & 1 << (fd % 8) == 0 {
                    continue;
                }
                match table.get(fd as u64) {
                    Some(entry) => polled.push(PolledFile {
                        fd: fd as i32,
                        entry: entry.clone(),
                        index: n * set_len * 8 + fd,
                        wanted: SETS[n],
                        events: 0,
                    }),
                    None => {
                        pure = false;
                        hosts.push(fd as i32);
                    }
                }
            }
        }
        table.show_to_others(call, &hosts);
        publish_files((calls, placement, served), call, &polled)?;
        if !calls.look(call, &mut polled)? || !pure || timeout_and_mask(call).is_err() {
            calls.show(call, &polled);
            return Ok(Decision::Host);
        }
        self.scratch.fill(0);
        let mut ready = 0;
        for polled in polled.iter().filter(|a| a.events & a.wanted != 0) {
            self.scratch[polled.index / 8] |= 1 << (polled.index % 8);
            ready += 1;
        }
        let sets = self.scratch.chunks_exact(set_len).zip(&call.args[1..4]);
        let named = |(set, address): (_, &u64)| (*address != 0).then_some((*address, set));
        let named: Vec<_> = sets.filter_map(named).collect();
        let written = tracee::write_parts(call.tid, &named) == named.len() * set_len;
        Ok(Decision::Answer(if written { ready } else { EFAULT }))
    }
}

/// From now on the readiness of the streams that a process with a ring waits for is published.
fn publish_files(
    (calls, placement, served): (&mut Calls, &mut Placement, u64),
    call: SyscallCtx,
    polled: &[PolledFile],
) -> Result<(), Error> {
    let ring = calls.tasks.table.fd_table(call.pid).ring();
    let Some(ring) = ring.filter(|_| placement.has_rings() && !calls.clock.is_virtual()) else {
        return Ok(());
    };
    let mut any = false;
    for PolledFile { fd, entry, .. } in polled {
        any |= calls.tasks.finds_stream(call.tid, &ring, *fd, entry)?;
    }
    if !any {
        return Ok(());
    }
    placement.consider_polling(call.tid, served);
    if !placement.wants_rings() {
        return Ok(());
    }
    for PolledFile { fd, entry, .. } in polled {
        if !calls.tasks.finds_stream(call.tid, &ring, *fd, entry)? {
            continue;
        }
        // A call that is in progress would not tell what it leaves.
        let is_it = |file: &Rc<File>| Rc::ptr_eq(file, &entry.file);
        let has_it = |p: &PendingCall| p.in_flight.file.as_ref().is_some_and(is_it);
        if !entry.file.mirrors_edges.get() && calls.tasks.table.any_pending(has_it) {
            continue;
        }
        calls.mirror_edges(call.tid, entry)?;
        if entry.file.cookie.get() != 0 {
            entry.file.publish_on(&ring, *fd);
        }
    }
    placement.poll_ring(ring);
    Ok(())
}
