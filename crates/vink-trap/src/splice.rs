//! splice(2) and sendfile(2) between Vink sockets and host pipes and files.
//!
//! The kernel can't reach a pipe of the host's, so the worker moves the data: through a buffer of its
//! own, and without ever losing any. What a socket has is looked at (`MSG_PEEK`), put into the pipe
//! and only then taken; what a pipe has is looked at (tee(2)), sent and then taken. The worker never
//! waits for a pipe: its epoll set does, while the thread's task sleeps in the kernel's pause(2),
//! so that signals and the thread's end are treated as with every other call that waits.
//!
//! What cannot be (two sockets, a file and a socket, an offset, a wrong flag) is let pass: a
//! placeholder is a socket, and the host refuses it as it would any other. So are tee(2), vmsplice(2)
//! and copy_file_range(2) on a socket.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use crate::notify::Notification;
use crate::process::{Busy, Entry, Stage};
use crate::serve::{poll_fd, soften};
use crate::target;
use crate::worker::{Worker, PIPE};
use crate::Error;

/// Bytes moved at a time: what a pipe holds, or of a file.
const PIECE: u64 = 64 << 10;
const PIECE_OF_FILE: u64 = 128 << 10;
/// The most that one call moves (`MAX_RW_COUNT`).
const MOST: u64 = 0x7fff_f000;
/// All flags of splice(2).
const FLAGS: u64 = 15;

const EAGAIN: i64 = -(libc::EAGAIN as i64);
const EPIPE: i64 = -(libc::EPIPE as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);

/// A splice(2) between a host pipe and a Vink socket.
pub(crate) struct Splice {
    pipe: Pipe,
    socket: Entry,
    into_socket: bool,
    /// It must not wait for the pipe.
    non_blocking: bool,
    /// `MSG_MORE`, or 0.
    more: u64,
    done: u64,
    left: u64,
    step: Step,
}

/// What the thread's task does.
#[derive(Clone, Copy)]
enum Step {
    /// Sleeps until the pipe is ready.
    Wait,
    /// Looks at what the socket has.
    Peek,
    /// Takes from the socket what the pipe has taken.
    Take,
    /// Sends what the pipe has.
    Send,
}

/// A sendfile(2) from a host file to a Vink file.
pub(crate) struct Sendfile {
    /// The host file: the same open file as the program's.
    source: OwnedFd,
    to: Entry,
    /// Where in it the call started.
    base: i64,
    /// The program's offset variable; 0: the file's own offset counts.
    pointer: u64,
    /// Bytes sent.
    done: u64,
    /// Bytes to send.
    left: u64,
    /// The piece under way.
    piece: u64,
}

/// The program's end of a pipe: the same open file.
struct Pipe {
    fd: OwnedFd,
    /// The set that waits for it.
    epoll: RawFd,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The program has the file open too, so closing would not take it out of the set.
        // SAFETY: takes numbers and a null pointer; at worst the set is gone.
        unsafe {
            libc::epoll_ctl(
                self.epoll,
                libc::EPOLL_CTL_DEL,
                self.fd.as_raw_fd(),
                null_mut(),
            )
        };
    }
}

impl Pipe {
    /// What poll(2) says of it.
    fn ready(&self) -> i16 {
        let mut fd = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN | libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one structure, as said.
        unsafe { libc::poll(&mut fd, 1, 0) };
        fd.revents
    }
}

/// A pipe of the worker's, empty between uses: splice(2) and tee(2) to and from it don't wait,
/// whatever the flags of the other pipe are.
pub(crate) struct Basin {
    out: OwnedFd,
    into: OwnedFd,
    null: OwnedFd,
}

impl Basin {
    fn new() -> std::io::Result<Basin> {
        let mut ends = [-1; 2];
        // SAFETY: fills the two integers, with new descriptors that are then owned once each.
        let (out, into) = unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        let null = null.into();
        Ok(Basin { out, into, null })
    }

    /// Copies what the pipe has; it keeps it. 0: nothing, and no writers.
    fn peek(&self, pipe: &Pipe, buffer: &mut [u8]) -> i64 {
        // SAFETY: takes numbers.
        let there = unsafe {
            libc::tee(
                pipe.fd.as_raw_fd(),
                self.into.as_raw_fd(),
                buffer.len(),
                libc::SPLICE_F_NONBLOCK,
            )
        };
        if there <= 0 {
            return result(there);
        }
        let mut copied = 0;
        while copied < there as usize {
            let rest = &mut buffer[copied..there as usize];
            // SAFETY: the buffer is as long as said.
            let got =
                unsafe { libc::read(self.out.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
            match usize::try_from(got) {
                Ok(got @ 1..) => copied += got,
                _ => break,
            }
        }
        copied as i64
    }

    /// Takes so many bytes from the pipe.
    fn discard(&self, pipe: RawFd, len: u64) {
        move_bytes(pipe, self.null.as_raw_fd(), len);
    }

    /// Puts as much as there is room for into the pipe.
    fn put(&self, pipe: &Pipe, bytes: &[u8]) -> i64 {
        // SAFETY: the buffer is as long as said.
        let filled =
            unsafe { libc::write(self.into.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        if filled <= 0 {
            return result(filled);
        }
        let filled = filled as u64;
        let moved = move_bytes(self.out.as_raw_fd(), pipe.fd.as_raw_fd(), filled);
        let rest = filled - moved.max(0) as u64;
        self.discard(self.out.as_raw_fd(), rest);
        moved
    }
}

/// splice(2) that does not wait.
fn move_bytes(from: RawFd, to: RawFd, len: u64) -> i64 {
    let mut moved = 0;
    while moved < len {
        // SAFETY: takes numbers and null pointers.
        let step = unsafe {
            libc::splice(
                from,
                null_mut(),
                to,
                null_mut(),
                (len - moved) as usize,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        match step {
            1.. => moved += step as u64,
            _ if moved > 0 => break,
            _ => return result(step),
        }
    }
    moved as i64
}

/// As the system call itself gives it.
fn result(done: isize) -> i64 {
    match done {
        0.. => done as i64,
        _ => -i64::from(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        ),
    }
}

impl Worker {
    /// splice(2).
    pub(crate) fn splice(&mut self, call: Notification) -> Result<(), Error> {
        let [from, from_offset, to, to_offset, len, flags] = call.args;
        let process = &self.processes[&self.threads[&call.tid].pid];
        let socket = |fd| process.table.get(fd).filter(|e| e.file.copy.is_none());
        let (socket, other, into_socket) = match (socket(from), socket(to)) {
            (None, Some(socket)) => (socket.clone(), from, true),
            (Some(socket), None) => (socket.clone(), to, false),
            _ => return self.pass(call),
        };
        let plain = from_offset == 0 && to_offset == 0 && len != 0 && flags & !FLAGS == 0;
        match plain {
            true => self.splice_with(call, socket, other, into_socket),
            false => self.pass(call),
        }
    }

    /// splice(2) between the socket and what the program has as `other`; or sendfile(2) to that,
    /// which is the same if it is a pipe.
    fn splice_with(
        &mut self,
        call: Notification,
        socket: Entry,
        other: u64,
        into_socket: bool,
    ) -> Result<(), Error> {
        let (len, flags) = match call.nr {
            libc::SYS_sendfile => (call.args[3], 0),
            _ => (call.args[4], call.args[5] as u32),
        };
        let wrong_way = match into_socket {
            true => libc::O_WRONLY,
            false => libc::O_RDONLY,
        };
        let Some((fd, pipe_flags)) = self
            .borrow_descriptor(call.tid, other)
            .and_then(|fd| pipe_flags(&fd).map(|flags| (fd, flags)))
            .filter(|(_, flags)| flags & libc::O_ACCMODE != wrong_way)
        else {
            return self.pass(call);
        };
        let splice = Splice {
            pipe: Pipe {
                fd,
                epoll: self.as_raw_fd(),
            },
            into_socket,
            non_blocking: flags & libc::SPLICE_F_NONBLOCK != 0
                || pipe_flags & libc::O_NONBLOCK != 0,
            more: match flags & libc::SPLICE_F_MORE {
                0 => 0,
                _ => libc::MSG_MORE as u64,
            },
            done: 0,
            left: len.min(MOST),
            step: Step::Wait,
            socket: socket.clone(),
        };
        self.go_on_splicing(Busy {
            call,
            stage: Stage::Splice(Box::new(splice)),
            file: Some(socket.file),
        })
    }

    /// A copy of what the thread's process has open under a number.
    fn borrow_descriptor(&self, tid: i32, fd: u64) -> Option<OwnedFd> {
        let process = &self.processes[&self.threads[&tid].pid];
        let pidfd = process.pidfd.as_raw_fd();
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd, fd as i32, 0) };
        // SAFETY: new, and nobody else's.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }

    /// Looks at the pipe: starts the next step, or ends the call.
    pub(crate) fn go_on_splicing(&mut self, mut busy: Busy) -> Result<(), Error> {
        let Stage::Splice(s) = &mut busy.stage else {
            return Ok(());
        };
        if self.basin.is_none() {
            self.basin = Basin::new().ok();
        }
        let (task, basin) = match (self.task_of(busy.call.tid), &self.basin) {
            (Ok(task), Some(basin)) => (task, basin),
            (Ok(_), None) => return self.end_splice(busy, -i64::from(libc::ENFILE)),
            (Err(error), _) => {
                let result = soften(error)?;
                return self.end_splice(busy, result);
            }
        };
        let buffer = self.buffers.entry(task).or_default();
        buffer.resize(s.left.min(PIECE) as usize, 0);
        let number = s.socket.number as u64;
        let (address, len) = (buffer.as_mut_ptr() as u64, buffer.len() as u64);
        let (nr, args) = if s.into_socket {
            match basin.peek(&s.pipe, buffer) {
                len @ 1.. => {
                    s.step = Step::Send;
                    match s.more {
                        0 => (libc::SYS_write, [number, address, len as u64, 0, 0, 0]),
                        more => (libc::SYS_sendto, [number, address, len as u64, more, 0, 0]),
                    }
                }
                EAGAIN if s.done == 0 && !s.non_blocking => return self.wait_for_pipe(busy),
                none => return self.end_splice(busy, none),
            }
        } else {
            let ready = s.pipe.ready();
            if ready & libc::POLLERR != 0 {
                self.raise(busy.call.tid, 1 << (libc::SIGPIPE - 1));
                return self.end_splice(busy, EPIPE);
            }
            if ready & libc::POLLOUT == 0 {
                return match s.non_blocking {
                    true => self.end_splice(busy, EAGAIN),
                    false => self.wait_for_pipe(busy),
                };
            }
            s.step = Step::Peek;
            let flags = libc::MSG_PEEK as u64;
            (libc::SYS_recvfrom, [number, address, len, flags, 0, 0])
        };
        let poll_fd = poll_fd(&s.socket);
        self.start(busy, nr, args, 0, poll_fd)
    }

    /// The task sleeps until the pipe is ready.
    fn wait_for_pipe(&mut self, mut busy: Busy) -> Result<(), Error> {
        let Stage::Splice(s) = &mut busy.stage else {
            return Ok(());
        };
        s.step = Step::Wait;
        let wanted = match s.into_socket {
            true => libc::EPOLLIN,
            false => libc::EPOLLOUT,
        };
        let (fd, tid) = (s.pipe.fd.as_raw_fd(), busy.call.tid);
        self.start(busy, libc::SYS_pause, [0; 6], 0, None)?;
        self.neglect(fd);
        self.attend_to_events(fd, (wanted | libc::EPOLLONESHOT) as u32, PIPE | tid as u64)
    }

    /// A pipe that the thread waited for is ready.
    pub(crate) fn pipe_is_ready(&mut self, tid: i32) {
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        let stage = thread.busy.as_ref().map(|running| &running.busy.stage);
        if let (Some(Stage::Splice(s)), Some(task)) = (stage, thread.task) {
            if matches!(s.step, Step::Wait) {
                // Fails if it was cancelled for a signal before.
                let _ = self.kernel.cancel(task);
                self.stirred = true;
            }
        }
    }

    /// A step is done.
    pub(crate) fn spliced(&mut self, mut busy: Busy, result: i64) -> Result<(), Error> {
        self.note_moved();
        let Stage::Splice(s) = &mut busy.stage else {
            return Ok(());
        };
        match s.step {
            // It ends for the pipe's sake too, but then it is made again, not concluded.
            Step::Wait => self.end_splice(busy, result),
            Step::Take => {
                let done = s.done as i64;
                self.end_splice(busy, done)
            }
            Step::Send => {
                self.account(s, result);
                match result > 0 && s.left > 0 {
                    true => self.go_on_splicing(busy),
                    false => self.end_splice(busy, result),
                }
            }
            Step::Peek if result < 0 => self.end_splice(busy, result),
            Step::Peek => {
                let task = self.threads[&busy.call.tid].task;
                let buffer = task.and_then(|task| self.buffers.get(&task));
                let (Some(basin), Some(buffer)) = (&self.basin, buffer) else {
                    return self.end_splice(busy, 0);
                };
                let moved = match result {
                    0 => 0,
                    _ => basin.put(&s.pipe, &buffer[..result as usize]),
                };
                if moved < 0 {
                    // Somebody else has filled it.
                    return self.go_on_splicing(busy);
                }
                s.step = Step::Take;
                s.done = moved as u64;
                let (number, address) = (s.socket.number as u64, buffer.as_ptr() as u64);
                let flags = libc::MSG_DONTWAIT as u64;
                let args = [number, address, moved as u64, flags, 0, 0];
                let poll_fd = poll_fd(&s.socket);
                self.start(busy, libc::SYS_recvfrom, args, 0, poll_fd)
            }
        }
    }

    /// What was sent is the pipe's no more.
    fn account(&self, s: &mut Splice, result: i64) {
        if let (Step::Send, sent @ 1.., Some(basin)) = (s.step, result, &self.basin) {
            basin.discard(s.pipe.fd.as_raw_fd(), sent as u64);
            s.done += sent as u64;
            s.left -= (sent as u64).min(s.left);
        }
    }

    /// With the bytes moved, or with this if there are none.
    fn end_splice(&mut self, busy: Busy, result: i64) -> Result<(), Error> {
        self.forget_buffer(busy.call.tid);
        let done = match &busy.stage {
            Stage::Splice(s) => s.done,
            _ => 0,
        };
        self.answer(busy.call, if done > 0 { done as i64 } else { result })
    }

    /// sendfile(2).
    pub(crate) fn sendfile(&mut self, call: Notification) -> Result<(), Error> {
        let [to, from, pointer, count, ..] = call.args;
        let process = &self.processes[&self.threads[&call.tid].pid];
        let source = process.table.get(from);
        let Some(to) = process.table.get(to) else {
            return match source.filter(|s| s.file.copy.is_none() && pointer == 0 && count > 0) {
                Some(socket) => self.splice_with(call, socket.clone(), to, false),
                None => self.pass(call),
            };
        };
        // A socket is no source for sendfile(2), but a copy is as good as any file.
        let is_file = source.is_none_or(|source| source.file.copy.is_some());
        let source = self.borrow_descriptor(call.tid, from).filter(|_| is_file);
        let Some(source) = source else {
            return self.pass(call);
        };
        // SAFETY: takes numbers.
        let own = unsafe { libc::lseek(source.as_raw_fd(), 0, libc::SEEK_CUR) };
        let base = match pointer {
            // A pipe, a socket: the host says which error that is.
            _ if own < 0 => return self.pass(call),
            0 => own,
            pointer => match target::read_u64(call.tid, pointer) {
                Some(offset) => offset as i64,
                None => return self.answer(call, EFAULT),
            },
        };
        if base < 0 {
            return self.answer(call, EINVAL);
        }
        let sendfile = Sendfile {
            source,
            to: to.clone(),
            base,
            pointer,
            done: 0,
            left: count.min(MOST),
            piece: 0,
        };
        self.send_piece(Busy {
            call,
            stage: Stage::Sendfile(Box::new(sendfile)),
            file: Some(to.file),
        })
    }

    /// Starts sending the next piece, or ends the call.
    pub(crate) fn send_piece(&mut self, mut busy: Busy) -> Result<(), Error> {
        let Stage::Sendfile(s) = &mut busy.stage else {
            return Ok(());
        };
        let task = match self.task_of(busy.call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = soften(error)?;
                return self.end_sendfile(busy, result);
            }
        };
        let buffer = self.buffers.entry(task).or_default();
        buffer.resize(s.left.min(PIECE_OF_FILE) as usize, 0);
        // SAFETY: the buffer is as long as said.
        let got = unsafe {
            libc::pread(
                s.source.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                s.base + s.done as i64,
            )
        };
        if got <= 0 {
            return self.end_sendfile(busy, result(got));
        }
        s.piece = got as u64;
        let args = [s.to.number as u64, buffer.as_ptr() as u64, s.piece, 0, 0, 0];
        let poll_fd = poll_fd(&s.to);
        self.start(busy, libc::SYS_write, args, 0, poll_fd)
    }

    pub(crate) fn sent_piece(&mut self, mut busy: Busy, result: i64) -> Result<(), Error> {
        let Stage::Sendfile(s) = &mut busy.stage else {
            return Ok(());
        };
        s.count(result);
        match result > 0 && result as u64 == s.piece && s.left > 0 {
            true => self.send_piece(busy),
            false => self.end_sendfile(busy, result),
        }
    }

    /// With the bytes sent, or with this if there are none.
    fn end_sendfile(&mut self, busy: Busy, result: i64) -> Result<(), Error> {
        self.forget_buffer(busy.call.tid);
        let result = match &busy.stage {
            Stage::Sendfile(s) => s.result(busy.call.tid).unwrap_or(result),
            _ => result,
        };
        self.answer(busy.call, result)
    }

    fn forget_buffer(&mut self, tid: i32) {
        if let Some(task) = self.threads[&tid].task {
            self.buffers.remove(&task);
        }
    }
}

impl Sendfile {
    fn count(&mut self, result: i64) {
        let sent = u64::try_from(result).unwrap_or(0);
        self.done += sent;
        self.left -= sent.min(self.left);
    }

    /// If anything was sent: moves the offset and gives the call's result.
    fn result(&self, tid: i32) -> Option<i64> {
        let end = self.base + self.done as i64;
        if self.done == 0 {
            return None;
        }
        if self.pointer == 0 {
            // SAFETY: takes numbers.
            unsafe { libc::lseek(self.source.as_raw_fd(), end, libc::SEEK_SET) };
        } else if !target::write(tid, self.pointer, &end.to_ne_bytes()) {
            return Some(EFAULT);
        }
        Some(self.done as i64)
    }
}

/// The flags of an open file that is a pipe.
fn pipe_flags(fd: &OwnedFd) -> Option<i32> {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills the structure; takes numbers.
    let (done, flags) = unsafe {
        (
            libc::fstat(fd.as_raw_fd(), &mut stat),
            libc::fcntl(fd.as_raw_fd(), libc::F_GETFL),
        )
    };
    let is_pipe = done == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFIFO;
    is_pipe.then_some(flags)
}
