//! mmap(2) of a packet socket: its rings (packet(7)) in the program's memory.
//!
//! The kernel puts the rings into a file ([`vink_kernel::Ring`]), which takes the placeholder's
//! number for as long as the mmap(2) needs that then passes through: until the process's next
//! trapped call. That call finds the placeholder in its place again. (epoll_ctl(2) is not trapped:
//! as the very first call after mmap(2), on the same descriptor, it meets the file, and says
//! `EPERM`.)
//!
//! A mapping holds the socket open, as on Linux. Whether a ring is still mapped is looked up when
//! it may matter: at the end of a process, of its old program (execve(2)) and of a descriptor, and
//! before a ring is changed or made.
//!
//! A program takes packets out of a ring without a system call, so the kernel can't know that the
//! socket is not readable any more. Each poll(2) asks; for an epoll set, which is not trapped when
//! it waits, rings that were readable are asked every [`REFRESH_INTERVAL`].

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

use vink_kernel::RingId;
use vink_sys::errno::{EINVAL, ENODEV};

use crate::error::to_errno_result;
use crate::file::File;
use crate::mapped_ring::{Lent, Mapped};
use crate::notification::Reply;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::worker::Worker;
use crate::Error;

/// How long an epoll set may say that a ring has something that was taken from it.
const REFRESH_INTERVAL: Duration = Duration::from_millis(1);

/// How often it is checked whether another thread's mmap(2) that passed through is done.
const RETRIES: u32 = 1000;

const PAGE: u64 = 4096;
/// Of `<linux/socket.h>`.
const SOL_PACKET: u64 = 263;

impl Worker {
    /// mmap(2) of a Vink file with `MAP_SHARED`.
    pub(crate) fn mmap(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let pid = call.pid;
        let [_, len, _, _, fd, offset] = call.args;
        let Some(entry) = self.table.process(pid).table.get(fd) else {
            return self.passthrough(call);
        };
        if entry.file.copy().is_some() {
            return self.passthrough(call);
        }
        self.sweep_rings()?;
        let old = self
            .packet_rings
            .iter()
            .find(|mapped| std::ptr::eq(mapped.file.as_ptr(), Rc::as_ptr(&entry.file)));
        let ring = match old {
            Some(old) => old.ring,
            None => match self.map_ring(call.tid, &entry.file, entry.number)? {
                Ok(ring) => ring,
                // Not a packet socket: any other is refused by its placeholder.
                Err(ENODEV) => return self.passthrough(call),
                Err(result) => return self.answer(call, result),
            },
        };
        let (Some(ring), Some(listener)) = (self.kernel.ring(ring), self.listener(call)) else {
            return Ok(());
        };
        if offset != 0 || len.checked_next_multiple_of(PAGE) != Some(ring.bytes()) {
            self.sweep_rings()?;
            return self.answer(call, EINVAL);
        }
        let fd = fd as i32;
        let memory = ring.memory();
        let lent = Lent {
            fd,
            file: entry.file,
            identity: tracee::identity(memory.as_raw_fd()),
            tid: call.tid,
        };
        let cloexec = tracee::closes_on_exec(pid, fd);
        match listener.put_fd(call.id, memory.as_raw_fd(), fd, cloexec) {
            Ok((Reply::Delivered, _)) => {
                let process = self.table.process_mut(pid);
                process.lent_ring = Some(lent);
                process.needs_update = true;
                self.passthrough(call)
            }
            Ok((Reply::ThreadGone, _)) => Ok(()),
            Err(errno) => self.answer(call, -i64::from(errno)),
        }
    }

    /// Has the kernel put the socket's rings into a file. The inner error is the call's result.
    fn map_ring(
        &mut self,
        tid: i32,
        file: &Rc<File>,
        number: i32,
    ) -> Result<Result<RingId, i64>, Error> {
        let done = self.task_of(tid);
        let ring = match done.and_then(|task| self.kernel.map_ring(task, number)) {
            Ok(ring) => ring,
            Err(error) => return to_errno_result(error).map(Err),
        };
        self.kernel_dirty = true;
        let memory = self.kernel.ring(ring).expect("made just now").memory();
        let process = self.table.process_of(tid);
        self.packet_rings.push(Mapped {
            ring,
            file: Rc::downgrade(file),
            program: process.program,
            holder: Cell::new(process.pid),
            identity: tracee::identity(memory.as_raw_fd()),
        });
        Ok(Ok(ring))
    }

    /// The first trapped call after an mmap(2): gives the placeholder its number back.
    pub(crate) fn give_back(&mut self, call: SyscallCtx) {
        let pid = call.pid;
        let Some(lent) = self.table.process_mut(pid).lent_ring.take() else {
            return;
        };
        if lent.tid != call.tid {
            // The other thread may not have got to it yet.
            for _ in 0..RETRIES {
                if tracee::maps(pid, lent.identity) || !tracee::has_thread(pid, lent.tid) {
                    break;
                }
                std::thread::yield_now();
            }
        }
        let Some(listener) = self.listener(call) else {
            return;
        };
        let end = lent.file.placeholder.program_end();
        let cloexec = tracee::closes_on_exec(pid, lent.fd);
        if let Ok((Reply::ThreadGone, _)) = listener.put_fd(call.id, end, lent.fd, cloexec) {
            self.table.process_mut(pid).lent_ring = Some(lent);
        }
    }

    /// Whether the call changes a packet socket's rings.
    pub(crate) fn changes_ring(call: SyscallCtx) -> bool {
        let options = [libc::PACKET_RX_RING, libc::PACKET_TX_RING];
        call.nr == libc::SYS_setsockopt
            && call.args[1] == SOL_PACKET
            && options.contains(&(call.args[2] as i32))
    }

    /// Gives up the rings that no process has mapped any more.
    pub(crate) fn sweep_rings(&mut self) -> Result<(), Error> {
        for mapped in std::mem::take(&mut self.packet_rings) {
            if self.is_mapped(&mapped) {
                self.packet_rings.push(mapped);
                continue;
            }
            self.kernel_dirty = true;
            if let Err(error) = self.kernel.unmap_ring(mapped.ring) {
                // No memory to put in its place: another time.
                to_errno_result(error)?;
                self.packet_rings.push(mapped);
            }
        }
        Ok(())
    }

    fn is_mapped(&self, mapped: &Mapped) -> bool {
        let has = |pid: &i32| {
            let lent = self
                .table
                .find_process(*pid)
                .and_then(|p| p.lent_ring.as_ref());
            lent.is_some_and(|lent| lent.identity == mapped.identity)
                || tracee::maps(*pid, mapped.identity)
        };
        if has(&mapped.holder.get()) {
            return true;
        }
        let known = self.table.processes();
        let mut pids: Vec<i32> = known
            .filter(|process| process.program == mapped.program)
            .map(|process| process.pid)
            .collect();
        pids.extend(self.table.unknown_children(mapped.program));
        let found = pids.into_iter().find(has);
        mapped.holder.set(found.unwrap_or(0));
        found.is_some()
    }

    /// The sockets of rings that an epoll set may take for readable, and are perhaps not.
    fn doubtful(&self) -> impl Iterator<Item = (RingId, Rc<File>)> + '_ {
        self.packet_rings.iter().filter_map(|mapped| {
            let file = mapped.file.upgrade()?;
            let readable = file.placeholder.shown() & libc::EPOLLIN as u32 != 0;
            (file.mirrors_edges.get() && readable).then_some((mapped.ring, file))
        })
    }

    /// How long the worker may wait before [`Worker::refresh_rings`].
    pub(crate) fn ring_timeout(&self) -> Option<Duration> {
        self.doubtful().next().map(|_| REFRESH_INTERVAL)
    }

    /// Shows the readiness of the sockets whose rings programs may have emptied.
    pub(crate) fn refresh_rings(&mut self) -> Result<(), Error> {
        if self.packet_rings.is_empty() {
            return Ok(());
        }
        for (ring, file) in self.doubtful().collect::<Vec<_>>() {
            self.kernel_dirty = true;
            match self.kernel.poll_ring(ring) {
                Ok(events) => file.placeholder.show(events),
                Err(error) => {
                    to_errno_result(error)?;
                }
            }
        }
        Ok(())
    }
}
