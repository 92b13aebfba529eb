//! Waiting for files of the host (pipes, terminals, unix sockets, event counters): a call passes
//! through when it will not block.
//!
//! The worker polls a copy of the program's descriptor (pidfd_getfd(2)): the same open file. The
//! copies that blocked threads wait for are in one epoll instance, so that a poll costs one call
//! however many there are. They are there with `EPOLLET`: nothing was ready just before the thread
//! blocked.

use std::os::fd::AsRawFd;

use vink_sys::{epoll, fd};
use vink_syscalls::{blocks, is_plain_io, Blocks};

use crate::process_table::ProcessTable;
use crate::sched::emulate::polled_fd::{events_of, CachedFd};
use crate::sched::{BlockCondition, Scheduler, ThreadState, VirtualWorker};
use crate::syscall_ctx::SyscallCtx;
use crate::Error;
use vink_sched::block::ERESTARTSYS;

/// As much can be written to a pipe that is not full without waiting (`PIPE_BUF`).
const PIPE_BUF: u64 = 4096;

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

impl Scheduler {
    /// Wakes threads that wait for a file of the host's that is ready now.
    pub(in crate::sched) fn wake_ready_on_host(&mut self, table: &ProcessTable) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let mut ready = Vec::new();
        let epoll = self.fds.epoll();
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
        self.sort_by_batch(table, &mut ready, |(tid, _)| *tid);
        for (tid, number) in ready {
            // What is cached for a thread's next wait is in the epoll instance, too.
            if let Some(blocked) = self.blocked.get(&tid) {
                if blocked.polled.iter().any(|w| w.number() == number) {
                    let id = blocked.call.id;
                    self.wake(tid, id, None);
                }
            }
        }
    }

    /// The worker itself has moved something into a pipe, or out of one.
    pub(crate) fn note_host_io(&mut self) {
        self.host_fds_dirty = true;
        self.host_ran = true;
    }
}

impl VirtualWorker<'_> {
    /// How the host may do a call on one of its own files now. `None`: it would wait for `events`
    /// (`POLL*`), and is blocked until it would not.
    pub(in crate::sched) fn block_or_move(
        &mut self,
        call: SyscallCtx,
        events: i16,
        len: u64,
    ) -> Result<Option<ThreadState>, Error> {
        let sched = self.worker.calls.clock.sched_mut();
        let cached = sched.fds.fd_of(
            (&self.worker.calls.tasks.table, &sched.shared),
            call,
            call.args[0],
        );
        let Some(CachedFd {
            copy: Some(copy),
            kind,
            outside,
            ..
        }) = cached
        else {
            // It may get a SIGXFSZ.
            self.worker.calls.signals.invalidate(call.pid);
            return Ok(Some(ThreadState::Running));
        };
        let fd = copy.as_raw_fd();
        let flags = fd::flags(fd);
        if is_refused(call.nr, kind, flags, events) {
            return Ok(Some(ThreadState::Running));
        }
        if is_plain_io(call.nr) && kind == libc::S_IFIFO && !outside {
            let worker = &mut *self.worker;
            let ring = match worker.placement.has_rings() {
                true => worker.calls.tasks.table.ring_for_call(call.pid),
                false => None,
            };
            if let Some(ring) = ring {
                ring.mark_pipe(call.args[0] as i32);
            }
        }
        let found = events_of(fd, events);
        if found & (libc::POLLERR | libc::POLLHUP) != 0 || kind == libc::S_IFCHR {
            // It may get a SIGPIPE, or what terminals send.
            self.worker.calls.signals.invalidate(call.pid);
        }
        if flags & libc::O_NONBLOCK != 0 {
            if found == 0 {
                self.count_poll(call.tid)?;
            }
            return Ok(Some(ThreadState::Running));
        }
        let worker = &mut *self.worker;
        let sched = worker.calls.clock.sched_mut();
        if let Some((wanted, has_any)) = sched.signalfd_state(call, call.args[0] as i32) {
            if has_any {
                return Ok(Some(ThreadState::Running));
            }
            let condition = BlockCondition {
                on_signal: ERESTARTSYS,
                awaited_signals: wanted,
                ..BlockCondition::forever()
            };
            sched.block(&mut worker.calls.signals, call, condition);
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
        let polled = match sched.fds.take_polled_fd(call.tid, call.args[0], events) {
            Some(kept) => vec![kept],
            None => {
                let copy = worker
                    .calls
                    .tasks
                    .table
                    .borrow_descriptor(call.tid, call.args[0]);
                let copy = copy.map(|copy| (call.args[0], copy, events));
                sched.fds.watch(call.tid, copy.into_iter().collect())
            }
        };
        sched.block_on(&mut worker.calls.signals, call, condition, polled, 0);
        Ok(None)
    }
}
