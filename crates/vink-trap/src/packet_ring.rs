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

use crate::decision::Decision;
use crate::error::to_errno_result;
use crate::file::File;
use crate::kernel_runner::KernelRunner;
use crate::mapped_ring::{Lent, Mapped};
use crate::notification::Reply;
use crate::process_table::ProcessTable;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::Error;

/// How long an epoll set may say that a ring has something that was taken from it.
const REFRESH_INTERVAL: Duration = Duration::from_millis(1);

/// How often it is checked whether another thread's mmap(2) that passed through is done.
const RETRIES: u32 = 1000;

const PAGE: u64 = 4096;
/// Of `<linux/socket.h>`.
const SOL_PACKET: u64 = 263;

/// The rings that programs may have mapped.
#[derive(Default)]
pub(crate) struct PacketRings(Vec<Mapped>);

impl PacketRings {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// mmap(2) of a Vink file with `MAP_SHARED`.
    pub(crate) fn mmap(&mut self, tasks: &mut Tasks, call: SyscallCtx) -> Result<Decision, Error> {
        let pid = call.pid;
        let [_, len, _, _, fd, offset] = call.args;
        let Some(entry) = tasks.table.process(pid).table.get(fd) else {
            return Ok(Decision::Host);
        };
        if entry.file.copy().is_some() {
            return Ok(Decision::Host);
        }
        self.sweep(tasks)?;
        let old = self
            .0
            .iter()
            .find(|mapped| std::ptr::eq(mapped.file.as_ptr(), Rc::as_ptr(&entry.file)));
        let ring = match old {
            Some(old) => old.ring,
            None => match self.map(tasks, call.tid, &entry.file, entry.number)? {
                Ok(ring) => ring,
                // Not a packet socket: any other is refused by its placeholder.
                Err(ENODEV) => return Ok(Decision::Host),
                Err(result) => return Ok(Decision::Answer(result)),
            },
        };
        let (Some(ring), Some(listener)) = (tasks.kernel.ring(ring), tasks.listener(call)) else {
            return Ok(Decision::Done);
        };
        if offset != 0 || len.checked_next_multiple_of(PAGE) != Some(ring.bytes()) {
            self.sweep(tasks)?;
            return Ok(Decision::Answer(EINVAL));
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
        Ok(
            match listener.put_fd(call.id, memory.as_raw_fd(), fd, cloexec) {
                Ok((Reply::Delivered, _)) => {
                    let process = tasks.table.process_mut(pid);
                    process.lent_ring = Some(lent);
                    process.needs_update = true;
                    Decision::Host
                }
                Ok((Reply::ThreadGone, _)) => Decision::Done,
                Err(errno) => Decision::Answer(-i64::from(errno)),
            },
        )
    }

    /// Has the kernel put the socket's rings into a file. The inner error is the call's result.
    fn map(
        &mut self,
        tasks: &mut Tasks,
        tid: i32,
        file: &Rc<File>,
        number: i32,
    ) -> Result<Result<RingId, i64>, Error> {
        let done = tasks.task_of(tid);
        let ring = match done.and_then(|task| tasks.kernel.map_ring(task, number)) {
            Ok(ring) => ring,
            Err(error) => return to_errno_result(error).map(Err),
        };
        tasks.kernel.dirty = true;
        let memory = tasks.kernel.ring(ring).expect("made just now").memory();
        let process = tasks.table.process_of(tid);
        self.0.push(Mapped {
            ring,
            file: Rc::downgrade(file),
            program: process.program,
            holder: Cell::new(process.pid),
            identity: tracee::identity(memory.as_raw_fd()),
        });
        Ok(Ok(ring))
    }

    /// Whether the call changes a packet socket's rings.
    pub(crate) fn are_changed_by(call: SyscallCtx) -> bool {
        let options = [libc::PACKET_RX_RING, libc::PACKET_TX_RING];
        call.nr == libc::SYS_setsockopt
            && call.args[1] == SOL_PACKET
            && options.contains(&(call.args[2] as i32))
    }

    /// Gives up the rings that no process has mapped any more.
    pub(crate) fn sweep(&mut self, tasks: &mut Tasks) -> Result<(), Error> {
        for mapped in std::mem::take(&mut self.0) {
            if mapped.is_mapped(&tasks.table) {
                self.0.push(mapped);
                continue;
            }
            tasks.kernel.dirty = true;
            if let Err(error) = tasks.kernel.unmap_ring(mapped.ring) {
                // No memory to put in its place: another time.
                to_errno_result(error)?;
                self.0.push(mapped);
            }
        }
        Ok(())
    }

    /// The sockets of rings that an epoll set may take for readable, and are perhaps not.
    fn doubtful(&self) -> impl Iterator<Item = (RingId, Rc<File>)> + '_ {
        self.0.iter().filter_map(|mapped| {
            let file = mapped.file.upgrade()?;
            let readable = file.placeholder.shown() & libc::EPOLLIN as u32 != 0;
            (file.mirrors_edges.get() && readable).then_some((mapped.ring, file))
        })
    }

    /// How long the worker may wait before [`PacketRings::refresh`].
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.doubtful().next().map(|_| REFRESH_INTERVAL)
    }

    /// Shows the readiness of the sockets whose rings programs may have emptied.
    pub(crate) fn refresh(&self, kernel: &mut KernelRunner) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        for (ring, file) in self.doubtful().collect::<Vec<_>>() {
            kernel.dirty = true;
            match kernel.poll_ring(ring) {
                Ok(events) => file.placeholder.show(events),
                Err(error) => {
                    to_errno_result(error)?;
                }
            }
        }
        Ok(())
    }
}

impl Mapped {
    /// Whether a process has it.
    fn is_mapped(&self, table: &ProcessTable) -> bool {
        let has = |pid: &i32| {
            let process = table.find_process(*pid);
            let lent = process.and_then(|p| p.lent_ring.as_ref());
            lent.is_some_and(|lent| lent.identity == self.identity)
                || tracee::maps(*pid, self.identity)
        };
        if has(&self.holder.get()) {
            return true;
        }
        let known = table.processes();
        let mut pids: Vec<i32> = known
            .filter(|process| process.program == self.program)
            .map(|process| process.pid)
            .collect();
        pids.extend(table.unknown_children(self.program));
        let found = pids.into_iter().find(has);
        self.holder.set(found.unwrap_or(0));
        found.is_some()
    }
}

impl Tasks {
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
}
