//! splice(2) and sendfile(2) between Vink sockets and host pipes and files.
//!
//! The kernel can't reach a pipe of the host's, so the worker moves the data: through a buffer of
//! its own, and without ever losing any. What a socket has is peeked at (`MSG_PEEK`), put into the
//! pipe and only then taken; what a pipe has is copied (tee(2)), sent and then taken. The worker
//! never waits for a pipe: its epoll instance does, while the thread's task sleeps in the kernel's
//! pause(2), so that signals and the thread's end are treated as with every other call that waits.
//!
//! What can't be done (two sockets, a file and a socket, an offset, a wrong flag) passes through: a
//! placeholder is a socket, and the host refuses it as it would any other. So are tee(2),
//! vmsplice(2) and copy_file_range(2) on a socket.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use vink_kernel::{Call, Numbered, TaskId};
use vink_sys::errno;
use vink_sys::errno::{EAGAIN, EFAULT, EINVAL, EPIPE};
use vink_sys::fd::{self};

use vink_syscalls::{kind, Kind};

use crate::decision::Decision;
use crate::fd_table::Entry;
use crate::in_flight::{Continuation, InFlight};
use crate::reactor::{Reactor, Token};
use crate::signal_poll::SignalPoll;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee;
use crate::transfer::{Pipe, ScratchPipe, Sendfile, Splice, Step};
use crate::Error;

/// Bytes moved at a time: what a pipe holds, or of a file.
const CHUNK: u64 = 64 << 10;
const FILE_CHUNK: u64 = 128 << 10;
/// The most that one call moves (`MAX_RW_COUNT`).
const MAX_COUNT: u64 = 0x7fff_f000;
/// All flags of splice(2).
const FLAGS: u64 = 15;

/// linux/sockios.h
const SIOCATMARK: u64 = 0x8905;

/// What transfers need of the worker.
pub(crate) struct Place<'a> {
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) signals: &'a mut SignalPoll,
    pub(crate) reactor: &'a Reactor,
}

impl Place<'_> {
    /// Starts a step in the kernel.
    fn start(
        &mut self,
        in_flight: InFlight,
        nr: i64,
        args: [u64; 6],
        poll_fd: Option<i32>,
    ) -> Result<Decision, Error> {
        let call = Call {
            nr,
            args,
            poll_fd,
            ..Call::default()
        };
        let refused = self.tasks.start(self.signals, in_flight, call)?;
        Ok(refused.map_or(Decision::Done, Decision::Answer))
    }

    /// The task sleeps until the pipe is ready.
    fn wait_for_pipe(&mut self, mut in_flight: InFlight) -> Result<Decision, Error> {
        let Continuation::Splice(s) = &mut in_flight.continuation else {
            return Ok(Decision::Done);
        };
        s.step = Step::Wait;
        let wanted = match s.into_socket {
            true => libc::EPOLLIN,
            false => libc::EPOLLOUT,
        };
        let (fd, tid) = (s.pipe.fd.as_raw_fd(), in_flight.call.tid);
        let decision = self.start(in_flight, libc::SYS_pause, [0; 6], None)?;
        if let Decision::Answer(_) = decision {
            return Ok(decision);
        }
        let events = (wanted | libc::EPOLLONESHOT) as u32;
        self.reactor.replace(fd, events, Token::Pipe(tid))?;
        Ok(decision)
    }
}

/// What the worker moves data with between sockets and pipes or files.
#[derive(Default)]
pub(crate) struct Transfers {
    /// For splice(2); made when first needed.
    scratch_pipe: Option<ScratchPipe>,
    /// Own memory that a task's call uses; must outlive the call, or the task.
    buffers: Numbered<TaskId, Vec<u8>>,
}

impl Transfers {
    /// Whether pipes may be waited for.
    pub(crate) fn wait_for_pipes(&self) -> bool {
        self.scratch_pipe.is_some()
    }

    /// The task is gone, or its call is over.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.buffers.remove(&task);
    }

    /// splice(2).
    pub(crate) fn splice(
        &mut self,
        place: &mut Place<'_>,
        call: SyscallCtx,
    ) -> Result<Decision, Error> {
        let [from, from_offset, to, to_offset, len, flags] = call.args;
        let table = place.tasks.table.fd_table(call.pid);
        let socket = |fd| table.get(fd).filter(|e| e.file.copy().is_none());
        let (socket, other, into_socket) = match (socket(from), socket(to)) {
            (None, Some(socket)) => (socket.clone(), from, true),
            (Some(socket), None) => (socket.clone(), to, false),
            _ => return Ok(Decision::Host),
        };
        let plain = from_offset == 0 && to_offset == 0 && len != 0 && flags & !FLAGS == 0;
        match plain {
            true => self.splice_with(place, call, socket, (other, into_socket)),
            false => Ok(Decision::Host),
        }
    }

    /// splice(2) between the socket and what the program has as `other`; or sendfile(2) to that,
    /// which is the same if it is a pipe.
    fn splice_with(
        &mut self,
        place: &mut Place<'_>,
        call: SyscallCtx,
        socket: Entry,
        (other, into_socket): (u64, bool),
    ) -> Result<Decision, Error> {
        let (len, flags) = match kind(call.nr) {
            Kind::Sendfile => (call.args[3], 0),
            _ => (call.args[4], call.args[5] as u32),
        };
        let wrong_way = match into_socket {
            true => libc::O_WRONLY,
            false => libc::O_RDONLY,
        };
        let Some((fd, pipe_flags)) = place
            .tasks
            .table
            .borrow_descriptor(call.tid, other)
            .and_then(|fd| pipe_flags(&fd).map(|flags| (fd, flags)))
            .filter(|(_, flags)| flags & libc::O_ACCMODE != wrong_way)
        else {
            return Ok(Decision::Host);
        };
        let splice = Splice {
            pipe: Pipe {
                fd,
                epoll: place.reactor.as_raw_fd(),
            },
            into_socket,
            non_blocking: flags & libc::SPLICE_F_NONBLOCK != 0
                || pipe_flags & libc::O_NONBLOCK != 0,
            more: match flags & libc::SPLICE_F_MORE {
                0 => 0,
                _ => libc::MSG_MORE as u64,
            },
            done: 0,
            left: len.min(MAX_COUNT),
            step: Step::Wait,
            socket: socket.clone(),
        };
        let in_flight = InFlight {
            call,
            continuation: Continuation::Splice(Box::new(splice)),
            file: Some(socket.file),
        };
        self.continue_splice(place, in_flight)
    }

    /// Polls the pipe: starts the next step, or ends the call.
    pub(crate) fn continue_splice(
        &mut self,
        place: &mut Place<'_>,
        mut in_flight: InFlight,
    ) -> Result<Decision, Error> {
        let Continuation::Splice(s) = &mut in_flight.continuation else {
            return Ok(Decision::Done);
        };
        if self.scratch_pipe.is_none() {
            self.scratch_pipe = ScratchPipe::new().ok();
        }
        let task = place.tasks.try_task_of(in_flight.call.tid)?;
        let (task, scratch) = match (task, &self.scratch_pipe) {
            (Ok(task), Some(scratch)) => (task, scratch),
            (Ok(_), None) => return self.end_splice(place, in_flight, -i64::from(libc::ENFILE)),
            (Err(result), _) => return self.end_splice(place, in_flight, result),
        };
        let buffer = self.buffers.entry(task).or_default();
        buffer.resize(s.left.min(CHUNK) as usize, 0);
        let number = s.socket.number as u64;
        let (address, len) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
        let (nr, args) = if s.into_socket {
            match scratch.peek(&s.pipe, buffer) {
                len @ 1.. => {
                    s.step = Step::Send;
                    match s.more {
                        0 => (libc::SYS_write, [number, address, len as u64, 0, 0, 0]),
                        more => (libc::SYS_sendto, [number, address, len as u64, more, 0, 0]),
                    }
                }
                EAGAIN if s.done == 0 && !s.non_blocking => return place.wait_for_pipe(in_flight),
                none => return self.end_splice(place, in_flight, none),
            }
        } else {
            let ready = s.pipe.ready();
            if ready & libc::POLLERR != 0 {
                place.signals.forward(
                    in_flight.call.pid,
                    in_flight.call.tid,
                    1 << (libc::SIGPIPE - 1),
                );
                return self.end_splice(place, in_flight, EPIPE);
            }
            if ready & libc::POLLOUT == 0 {
                return match s.non_blocking {
                    true => self.end_splice(place, in_flight, EAGAIN),
                    false => place.wait_for_pipe(in_flight),
                };
            }
            // A reader goes past urgent data, and would wait for what comes behind it; splice(2)
            // ends before it.
            let mut at_mark = 0i32;
            let mark = &raw mut at_mark as u64;
            place.tasks.kernel.run_call(
                task,
                libc::SYS_ioctl,
                [number, SIOCATMARK, mark, 0, 0, 0],
            )?;
            if at_mark != 0 {
                return self.end_splice(place, in_flight, 0);
            }
            s.step = Step::Peek;
            let flags = libc::MSG_PEEK as u64;
            (libc::SYS_recvfrom, [number, address, len, flags, 0, 0])
        };
        let poll_fd = s.socket.poll_fd();
        place.start(in_flight, nr, args, poll_fd)
    }

    /// A step is done.
    pub(crate) fn splice_step_done(
        &mut self,
        place: &mut Place<'_>,
        mut in_flight: InFlight,
        result: i64,
    ) -> Result<Decision, Error> {
        let Continuation::Splice(s) = &mut in_flight.continuation else {
            return Ok(Decision::Done);
        };
        match s.step {
            // It ends for the pipe's sake too, but then it is made again, not concluded.
            Step::Wait => self.end_splice(place, in_flight, result),
            Step::Take => {
                let done = s.done as i64;
                self.end_splice(place, in_flight, done)
            }
            Step::Send => {
                self.account(s, result);
                match result > 0 && s.left > 0 {
                    true => self.continue_splice(place, in_flight),
                    false => self.end_splice(place, in_flight, result),
                }
            }
            Step::Peek if result < 0 => self.end_splice(place, in_flight, result),
            Step::Peek => {
                let task = place.tasks.table.task(in_flight.call.tid);
                let buffer = task.and_then(|task| self.buffers.get(&task));
                let (Some(scratch), Some(buffer)) = (&self.scratch_pipe, buffer) else {
                    return self.end_splice(place, in_flight, 0);
                };
                let moved = match result {
                    0 => 0,
                    _ => scratch.put(&s.pipe, &buffer[..result as usize]),
                };
                if moved < 0 {
                    // Another process has filled it.
                    return self.continue_splice(place, in_flight);
                }
                s.step = Step::Take;
                s.done = moved as u64;
                let (number, address) = (s.socket.number as u64, buffer.as_ptr() as u64);
                let flags = libc::MSG_DONTWAIT as u64;
                let args = [number, address, moved as u64, flags, 0, 0];
                let poll_fd = s.socket.poll_fd();
                place.start(in_flight, libc::SYS_recvfrom, args, poll_fd)
            }
        }
    }

    /// What was sent is the pipe's no more.
    fn account(&self, s: &mut Splice, result: i64) {
        if let (Step::Send, sent @ 1.., Some(scratch)) = (s.step, result, &self.scratch_pipe) {
            scratch.discard(s.pipe.fd.as_raw_fd(), sent as u64);
            s.done += sent as u64;
            s.left -= (sent as u64).min(s.left);
        }
    }

    /// With the bytes moved, or with this if there are none.
    fn end_splice(
        &mut self,
        place: &mut Place<'_>,
        in_flight: InFlight,
        result: i64,
    ) -> Result<Decision, Error> {
        self.forget_buffer(place, in_flight.call.tid);
        let done = match &in_flight.continuation {
            Continuation::Splice(s) => s.done,
            _ => 0,
        };
        let result = if done > 0 { done as i64 } else { result };
        Ok(Decision::Answer(result))
    }

    /// sendfile(2).
    pub(crate) fn sendfile(
        &mut self,
        place: &mut Place<'_>,
        call: SyscallCtx,
    ) -> Result<Decision, Error> {
        let [to, from, pointer, count, ..] = call.args;
        let table = place.tasks.table.fd_table(call.pid);
        let source = table.get(from);
        let Some(to) = table.get(to) else {
            return match source.filter(|s| s.file.copy().is_none() && pointer == 0 && count > 0) {
                Some(socket) => self.splice_with(place, call, socket.clone(), (to, false)),
                None => Ok(Decision::Host),
            };
        };
        // A socket is no source for sendfile(2), but a copy is as good as any file.
        let is_file = source.is_none_or(|source| source.file.copy().is_some());
        let source = place
            .tasks
            .table
            .borrow_descriptor(call.tid, from)
            .filter(|_| is_file);
        let Some(source) = source.map(File::from) else {
            return Ok(Decision::Host);
        };
        let own = fd::offset(source.as_raw_fd());
        let base = match pointer {
            // A pipe, a socket: the host says which error that is.
            _ if own < 0 => return Ok(Decision::Host),
            0 => own,
            pointer => match tracee::read_u64(call.tid, pointer) {
                Some(offset) => offset as i64,
                None => return Ok(Decision::Answer(EFAULT)),
            },
        };
        if base < 0 {
            return Ok(Decision::Answer(EINVAL));
        }
        let sendfile = Sendfile {
            source,
            to: to.clone(),
            base,
            pointer,
            done: 0,
            left: count.min(MAX_COUNT),
            piece: 0,
        };
        let in_flight = InFlight {
            call,
            continuation: Continuation::Sendfile(Box::new(sendfile)),
            file: Some(to.file),
        };
        self.send_chunk(place, in_flight)
    }

    /// Starts sending the next piece, or ends the call.
    pub(crate) fn send_chunk(
        &mut self,
        place: &mut Place<'_>,
        mut in_flight: InFlight,
    ) -> Result<Decision, Error> {
        let Continuation::Sendfile(s) = &mut in_flight.continuation else {
            return Ok(Decision::Done);
        };
        let task = match place.tasks.try_task_of(in_flight.call.tid)? {
            Ok(task) => task,
            Err(result) => return self.end_sendfile(place, in_flight, result),
        };
        let buffer = self.buffers.entry(task).or_default();
        buffer.resize(s.left.min(FILE_CHUNK) as usize, 0);
        let got = match s.source.read_at(buffer, s.base as u64 + s.done) {
            Ok(got @ 1..) => got,
            none => {
                let result = errno::result(none);
                return self.end_sendfile(place, in_flight, result);
            }
        };
        s.piece = got as u64;
        let args = [s.to.number as u64, buffer.as_ptr() as u64, s.piece, 0, 0, 0];
        let poll_fd = s.to.poll_fd();
        place.start(in_flight, libc::SYS_write, args, poll_fd)
    }

    /// A piece has been sent.
    pub(crate) fn chunk_sent(
        &mut self,
        place: &mut Place<'_>,
        mut in_flight: InFlight,
        result: i64,
    ) -> Result<Decision, Error> {
        let Continuation::Sendfile(s) = &mut in_flight.continuation else {
            return Ok(Decision::Done);
        };
        s.count(result);
        match result > 0 && result as u64 == s.piece && s.left > 0 {
            true => self.send_chunk(place, in_flight),
            false => self.end_sendfile(place, in_flight, result),
        }
    }

    /// With the bytes sent, or with this if there are none.
    fn end_sendfile(
        &mut self,
        place: &mut Place<'_>,
        in_flight: InFlight,
        result: i64,
    ) -> Result<Decision, Error> {
        self.forget_buffer(place, in_flight.call.tid);
        let result = match &in_flight.continuation {
            Continuation::Sendfile(s) => s.result(in_flight.call.tid).unwrap_or(result),
            _ => result,
        };
        Ok(Decision::Answer(result))
    }

    fn forget_buffer(&mut self, place: &Place<'_>, tid: i32) {
        if let Some(task) = place.tasks.table.task(tid) {
            self.forget(task);
        }
    }
}

impl Tasks {
    /// A pipe that the thread waited for is ready.
    pub(crate) fn on_pipe_ready(&mut self, tid: i32) {
        let pending = self.table.pending(tid);
        let continuation = pending.map(|pending| &pending.in_flight.continuation);
        if let (Some(Continuation::Splice(s)), Some(task)) = (continuation, self.table.task(tid)) {
            if matches!(s.step, Step::Wait) {
                // Fails if it was cancelled for a signal before.
                self.kernel.cancel_call(task);
            }
        }
    }
}

/// The flags of an open file that is a pipe.
fn pipe_flags(fd: &OwnedFd) -> Option<i32> {
    let stat = fd::stat(fd.as_raw_fd()).ok()?;
    let is_pipe = stat.st_mode & libc::S_IFMT == libc::S_IFIFO;
    is_pipe.then(|| fd::flags(fd.as_raw_fd()))
}

use std::os::unix::fs::FileExt;
