//! Answering a trapped call: the host does it, the kernel does it, or it is about descriptors.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use vink_kernel::{Call, Outcome, TaskId};

use crate::calls::{kind, Kind};
use crate::notify::{Listener, Notification, Sent};
use crate::process::{Busy, File, Sendfile, Stage, Then};
use crate::target;
use crate::worker::Worker;
use crate::Error;

/// Bytes of a file that sendfile(2) moves at a time.
const PIECE: u64 = 128 << 10;

const EINTR: i64 = -(libc::EINTR as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EBADF: i64 = -(libc::EBADF as i64);
const EMFILE: i64 = -(libc::EMFILE as i64);

/// A kernel error that concerns one call becomes its result; one that ends everything stays.
pub(crate) fn soften(error: vink_kernel::Error) -> Result<i64, Error> {
    match error {
        vink_kernel::Error::Panic(_) => Err(error.into()),
        vink_kernel::Error::Errno { errno, .. } => Ok(-i64::from(errno)),
        _ => Ok(-i64::from(libc::EIO)),
    }
}

impl Worker {
    /// A call has been trapped.
    pub(crate) fn trapped(&mut self, program: usize, call: Notification) -> Result<(), Error> {
        if let Some(count) = self.statistics.trapped.get_mut(call.nr as usize) {
            *count += 1;
        }
        if !self.threads.contains_key(&call.tid) && !self.meet(program, call.tid)? {
            if let Some(listener) = &self.trees[program].listener {
                listener.let_pass(call.id);
            }
            return Ok(());
        }
        self.dispatch(call)
    }

    /// Decides on a call.
    pub(crate) fn dispatch(&mut self, call: Notification) -> Result<(), Error> {
        let thread = self.threads.get_mut(&call.tid).expect("just met");
        if thread.busy.is_some() {
            // A signal took the thread out of that call; end it before this one.
            thread.queued = Some(call);
            if let Some(task) = thread.task {
                // Fails if the call is done, and Event::Done on its way.
                let _ = self.kernel.cancel(task);
                self.stirred = true;
            }
            return Ok(());
        }
        let kept = thread.kept.is_some();
        let pid = thread.pid;
        if self.processes[&pid].attention && !self.catch_up(call)? {
            return Ok(());
        }
        if kept && self.hand_over_kept(call)? {
            return Ok(());
        }
        let table = &self.processes[&pid].table;
        let first = table.get(call.args[0]);
        match kind(call.nr) {
            Kind::Io => match first {
                Some(file) => {
                    let file = file.clone();
                    self.run(call, Stage::Answer, Some(file))
                }
                None => self.pass(call),
            },
            Kind::Socket => {
                let cloexec = call.args[1] & libc::SOCK_CLOEXEC as u64 != 0;
                self.run(call, Stage::Descriptor { cloexec }, None)
            }
            Kind::Accept => match first {
                Some(file) => {
                    let file = file.clone();
                    let flags = match call.nr {
                        libc::SYS_accept4 => call.args[3],
                        _ => 0,
                    };
                    let cloexec = flags & libc::SOCK_CLOEXEC as u64 != 0;
                    self.run(call, Stage::Descriptor { cloexec }, Some(file))
                }
                None => self.pass(call),
            },
            Kind::Close => match first {
                Some(_) => self.close_then(call, vec![call.args[0] as i32], Then::Pass),
                None => self.pass(call),
            },
            Kind::CloseRange => {
                let (first, last) = (call.args[0] as u32, call.args[1] as u32);
                let closing = call.args[2] as u32 & libc::CLOSE_RANGE_CLOEXEC == 0;
                let numbers = table.iter().map(|(number, _)| number);
                let numbers = numbers.filter(|n| closing && (first..=last).contains(&(*n as u32)));
                let numbers = numbers.collect();
                self.close_then(call, numbers, Then::Pass)
            }
            Kind::Dup => match first {
                Some(file) => {
                    let file = file.clone();
                    self.dup(call, &file)
                }
                None => self.pass(call),
            },
            Kind::Dup2 | Kind::Dup3 => self.dup_to(call),
            Kind::Fcntl => match (first, call.args[1] as i32) {
                (Some(file), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    let file = file.clone();
                    self.dup_from(call, &file)
                }
                (Some(file), _) => {
                    let file = file.clone();
                    self.run(call, Stage::Answer, Some(file))
                }
                (None, _) => self.pass(call),
            },
            Kind::Open => self.open(call),
            Kind::Poll => self.poll(call),
            Kind::Select => self.select(call),
            Kind::EpollCtl => self.epoll_ctl(call),
            Kind::Sendfile => self.sendfile(call),
            Kind::Splice => {
                if first.is_some() || table.get(call.args[2]).is_some() {
                    self.refuse(call)
                } else {
                    self.pass(call)
                }
            }
            Kind::Fork => self.fork(call, 0),
            Kind::Clone => self.fork(call, call.args[0]),
            // Unreadable flags: the host will say so.
            Kind::Clone3 => match target::read_u64(call.tid, call.args[0]) {
                Some(flags) => self.fork(call, flags),
                None => self.pass(call),
            },
            Kind::Exec => {
                let process = self.process_mut(pid);
                process.executing = Some(call.tid);
                process.attention = true;
                self.pass(call)
            }
            Kind::Exit => {
                let listener = self.listener(call.tid);
                self.end_thread(call.tid);
                if let Some(listener) = listener {
                    listener.let_pass(call.id);
                }
                Ok(())
            }
            Kind::ExitGroup => {
                self.retire(pid);
                self.pass(call)
            }
            Kind::Uring | Kind::Other => self.pass(call),
        }
    }

    /// The listener that serves a thread; `None` if its tree is gone.
    pub(crate) fn listener(&self, tid: i32) -> Option<Rc<Listener>> {
        let process = &self.processes[&self.threads[&tid].pid];
        self.trees[process.program].listener.clone()
    }

    /// The host does it.
    pub(crate) fn pass(&mut self, call: Notification) -> Result<(), Error> {
        if let Some(listener) = self.listener(call.tid) {
            listener.let_pass(call.id);
        }
        Ok(())
    }

    /// This is the result.
    pub(crate) fn answer(&mut self, call: Notification, result: i64) -> Result<(), Error> {
        if let Some(listener) = self.listener(call.tid) {
            listener.answer(call.id, result);
        }
        Ok(())
    }

    /// Nothing of the kind is possible with Vink files.
    fn refuse(&mut self, call: Notification) -> Result<(), Error> {
        self.note_unsupported(call.nr);
        self.answer(call, EINVAL)
    }

    fn note_unsupported(&mut self, nr: i64) {
        *self.statistics.unsupported.entry(nr).or_default() += 1;
    }

    /// The kernel does it, as it is, on the program's memory.
    pub(crate) fn run(
        &mut self,
        call: Notification,
        stage: Stage,
        file: Option<Rc<File>>,
    ) -> Result<(), Error> {
        let poll_fd = match &file {
            Some(file) if file.epoll.get() => Some(call.args[0] as i32),
            _ => None,
        };
        let busy = Busy { call, stage, file };
        self.start(busy, call.nr, call.args, call.tid as u64, poll_fd)
    }

    /// Starts something in the kernel for a call.
    pub(crate) fn start(
        &mut self,
        busy: Busy,
        nr: i64,
        args: [u64; 6],
        space: u64,
        poll_fd: Option<i32>,
    ) -> Result<(), Error> {
        let started = self.task_of(busy.call.tid).and_then(|task| {
            let call = Call {
                nr,
                args,
                space,
                poll_fd,
            };
            self.kernel.start(task, call)
        });
        self.stirred = true;
        match started {
            Ok(()) => {
                let thread = self.threads.get_mut(&busy.call.tid);
                thread.expect("it makes this call").busy = Some(busy);
                Ok(())
            }
            Err(error) => {
                let result = soften(error)?;
                self.answer(busy.call, result)
            }
        }
    }

    /// A call of the worker's own, that ends by itself, on a task that has none in progress.
    pub(crate) fn call(&mut self, task: TaskId, nr: i64, args: [u64; 6]) -> Result<i64, Error> {
        self.stirred = true;
        match self.kernel.call(task, nr, args) {
            Ok(result) => Ok(result),
            Err(error) => soften(error),
        }
    }

    /// A task's call is done: shows the readiness that it left, and queues it to be finished.
    pub(crate) fn done(&mut self, task: TaskId) {
        let thread = self.tasks.get(&task).and_then(|t| self.threads.get_mut(t));
        let Some(thread) = thread.filter(|t| t.busy.is_some()) else {
            return;
        };
        let Some(outcome) = self.kernel.poll(task) else {
            return;
        };
        if let Some(busy) = thread.busy.take() {
            if let (Some(file), Some(events)) = (&busy.file, outcome.events) {
                file.placeholder.show(events);
            }
            self.finished.push_back((busy, outcome));
        }
    }

    /// Goes on with a call that is done.
    pub(crate) fn finish(&mut self, mut busy: Busy, outcome: Outcome) -> Result<(), Error> {
        // Its process may have been retired by the conclusion of another call.
        let Some(thread) = self.threads.get_mut(&busy.call.tid) else {
            return Ok(());
        };
        let queued = thread.queued.take();
        let Some(next) = queued else {
            return self.conclude(busy, outcome);
        };
        // The thread left this call for a signal's sake, and has made the next one since.
        let same = next.nr == busy.call.nr && next.args == busy.call.args;
        if matches!(busy.stage, Stage::Answer | Stage::Descriptor { .. }) && outcome.result == EINTR
        {
            self.dispatch(next)
        } else if same {
            busy.call = next;
            self.conclude(busy, outcome)
        } else {
            thread.kept = Some((busy, outcome));
            self.dispatch(next)
        }
    }

    /// The thread that left a call which ended all the same makes another one. True if it is the
    /// same one, which is then answered at last.
    fn hand_over_kept(&mut self, call: Notification) -> Result<bool, Error> {
        let thread = self.threads.get_mut(&call.tid).expect("it makes a call");
        let Some((mut busy, outcome)) = thread.kept.take() else {
            return Ok(false);
        };
        let old = busy.call;
        if old.nr == call.nr && old.args == call.args {
            busy.call = call;
            self.conclude(busy, outcome)?;
            return Ok(true);
        }
        if old.args[0] == call.args[0] {
            // It does not want it any more.
            if matches!(busy.stage, Stage::Descriptor { .. }) && outcome.result >= 0 {
                let number = self.moved(call.tid, outcome.result);
                self.close_own(call.tid, number)?;
            }
        } else {
            thread.kept = Some((busy, outcome));
        }
        Ok(false)
    }

    /// Keeps what a thread could not be told, in case that it asks again.
    fn keep(&mut self, busy: Busy, mut outcome: Outcome) {
        outcome.signals = 0;
        outcome.events = None;
        if let Some(thread) = self.threads.get_mut(&busy.call.tid) {
            thread.kept = Some((busy, outcome));
        }
    }

    /// The kernel has done its part of a call.
    fn conclude(&mut self, mut busy: Busy, outcome: Outcome) -> Result<(), Error> {
        let call = busy.call;
        let Some(listener) = self.listener(call.tid) else {
            return Ok(());
        };
        self.raise(call.tid, outcome.signals);
        match &mut busy.stage {
            Stage::Answer => {
                if listener.answer(call.id, outcome.result) == Sent::Gone && outcome.result != EINTR
                {
                    self.keep(busy, outcome);
                }
                Ok(())
            }
            Stage::Descriptor { cloexec } => {
                if outcome.result < 0 {
                    listener.answer(call.id, outcome.result);
                    return Ok(());
                }
                let number = self.moved(call.tid, outcome.result);
                let Ok(file) = File::new() else {
                    self.close_own(call.tid, number)?;
                    return self.answer(call, -i64::from(libc::ENFILE));
                };
                if self.install(call, number, file, *cloexec)? == Sent::Gone {
                    let result = number.into();
                    self.keep(busy, Outcome { result, ..outcome });
                }
                Ok(())
            }
            Stage::Close { rest, then } => {
                let (rest, then) = (std::mem::take(rest), *then);
                if self.close_all(call, rest, then)? {
                    return Ok(());
                }
                match then {
                    Then::Pass => self.pass(call),
                    Then::Dispatch => self.dispatch(call),
                }
            }
            Stage::Sendfile(_) => self.sent_piece(busy, outcome.result),
        }
    }

    /// Sends the thread the signals that the kernel sent to its task.
    fn raise(&self, tid: i32, signals: u64) {
        for bit in 0..64 {
            if signals & 1 << bit != 0 {
                let pid = self.threads[&tid].pid;
                // SAFETY: takes numbers.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, bit + 1) };
            }
        }
    }

    /// Where a descriptor that the kernel gave has moved to since.
    fn moved(&mut self, tid: i32, number: i64) -> i32 {
        let pid = self.threads[&tid].pid;
        self.process_mut(pid).moved_to(number as i32)
    }

    fn enter(&mut self, tid: i32, at: i32, file: Rc<File>) {
        let pid = self.threads[&tid].pid;
        self.process_mut(pid).table.insert(at, file);
    }

    /// Runs a call of the worker's own on the thread's task.
    fn call_for(&mut self, tid: i32, nr: i64, a: [i32; 3]) -> Result<i64, Error> {
        match self.task_of(tid) {
            Ok(task) => self.call(task, nr, [a[0] as u64, a[1] as u64, a[2] as u64, 0, 0, 0]),
            Err(error) => soften(error),
        }
    }

    /// Gives the program a placeholder for the kernel's descriptor `number`, and the kernel the
    /// placeholder's number. If the program has no room, the descriptor is closed.
    pub(crate) fn install(
        &mut self,
        call: Notification,
        number: i32,
        file: Rc<File>,
        cloexec: bool,
    ) -> Result<Sent, Error> {
        let Some(listener) = self.listener(call.tid) else {
            return Ok(Sent::Gone);
        };
eprintln!("install tid {} nr {} number {number}", call.tid, call.nr);
        match listener.answer_fd(call.id, file.placeholder.program_end(), cloexec) {
            Ok((Sent::Taken, at)) => {
                if number != at {
                    self.name(call.tid, number, at)?;
                    self.close_own(call.tid, number)?;
                }
                self.enter(call.tid, at, file);
            }
            Ok((Sent::Gone, _)) => return Ok(Sent::Gone),
            Err(errno) => {
                self.close_own(call.tid, number)?;
                listener.answer(call.id, -i64::from(errno));
            }
        }
        Ok(Sent::Taken)
    }

    pub(crate) fn close_own(&mut self, tid: i32, number: i32) -> Result<(), Error> {
        self.call_for(tid, libc::SYS_close, [number, 0, 0])
            .map(drop)
    }

    /// Gives the kernel's descriptor `from` the number `at` as well, which the host gave.
    ///
    /// The number may be taken: while one thread's accept() is about to be concluded, its new
    /// descriptor has whatever number was free in the kernel. That one then moves away. F_DUPFD
    /// finds this out without ever closing what is there, as dup3() would.
    fn name(&mut self, tid: i32, from: i32, at: i32) -> Result<(), Error> {
 eprintln!("name tid {tid} from {from} at {at}");
        let pid = self.threads[&tid].pid;
        if !self.processes[&pid].table.has(at) {
            let got = self.call_for(tid, libc::SYS_fcntl, [from, libc::F_DUPFD, at])?;
            if got == i64::from(at) {
                return Ok(());
            }
            if got >= 0 {
                self.close_own(tid, got as i32)?;
            }
            let away = self.call_for(tid, libc::SYS_fcntl, [at, libc::F_DUPFD, 0])?;
            if away >= 0 {
                self.process_mut(pid).moved.push((at, away as i32));
            }
        }
        self.call_for(tid, libc::SYS_dup3, [from, at, 0]).map(drop)
    }

    fn close_then(
        &mut self,
        call: Notification,
        numbers: Vec<i32>,
        then: Then,
    ) -> Result<(), Error> {
        match self.close_all(call, numbers, then)? {
            true => Ok(()),
            false => self.pass(call),
        }
    }

    fn dup(&mut self, call: Notification, file: &Rc<File>) -> Result<(), Error> {
        let Some(listener) = self.listener(call.tid) else {
            return Ok(());
        };
        match listener.answer_fd(call.id, file.placeholder.program_end(), false) {
            Ok((Sent::Taken, at)) => {
                self.name(call.tid, call.args[0] as i32, at)?;
                self.enter(call.tid, at, file.clone());
                Ok(())
            }
            Ok((Sent::Gone, _)) => Ok(()),
            Err(errno) => self.answer(call, -i64::from(errno)),
        }
    }

    /// dup2(2) and dup3(2).
    fn dup_to(&mut self, call: Notification) -> Result<(), Error> {
        let (from, to) = (call.args[0] as i32, call.args[1] as i32);
        let flags = match call.nr {
            libc::SYS_dup3 => call.args[2] as i32,
            _ => 0,
        };
        let pid = self.threads[&call.tid].pid;
        let table = &self.processes[&pid].table;
        // Equal numbers and bad flags: the host's answer is right for placeholders too.
        if from == to || flags & !libc::O_CLOEXEC != 0 {
            return self.pass(call);
        }
        match table.get(call.args[0]).cloned() {
            Some(file) => self.put(call, &file, to, flags & libc::O_CLOEXEC != 0, EBADF),
            None if table.has(to) && target::descriptor(pid, from).is_some() => {
                self.close_then(call, vec![to], Then::Pass)
            }
            None => self.pass(call),
        }
    }

    /// fcntl(2) with `F_DUPFD` and `F_DUPFD_CLOEXEC`.
    fn dup_from(&mut self, call: Notification, file: &Rc<File>) -> Result<(), Error> {
        let pid = self.threads[&call.tid].pid;
        let cloexec = call.args[1] as i32 == libc::F_DUPFD_CLOEXEC;
        let Ok(least) = i32::try_from(call.args[2] as i64) else {
            return self.answer(call, EINVAL);
        };
        if least < 0 {
            return self.answer(call, EINVAL);
        }
        let table = &self.processes[&pid].table;
        let mut numbers = least..=i32::MAX;
        let free = numbers.find(|n| !table.has(*n) && target::descriptor(pid, *n).is_none());
        match free {
            // Beyond the limit, the least number allowed is a bad argument, any other too many.
            Some(at) if at == least => self.put(call, file, at, cloexec, EINVAL),
            Some(at) => self.put(call, file, at, cloexec, EMFILE),
            None => self.answer(call, EMFILE),
        }
    }

    /// Gives the program another descriptor of the file under the number `at`. `beyond` is for a
    /// number beyond the program's limit.
    fn put(
        &mut self,
        call: Notification,
        file: &Rc<File>,
        at: i32,
        cloexec: bool,
        beyond: i64,
    ) -> Result<(), Error> {
        let Some(listener) = self.listener(call.tid) else {
            return Ok(());
        };
        match listener.put_fd(call.id, file.placeholder.program_end(), at, cloexec) {
            Ok((Sent::Taken, at)) => {
                self.name(call.tid, call.args[0] as i32, at)?;
                self.enter(call.tid, at, file.clone());
                self.answer(call, at.into())
            }
            Ok((Sent::Gone, _)) => Ok(()),
            Err(libc::EBADF) => self.answer(call, beyond),
            Err(errno) => self.answer(call, -i64::from(errno)),
        }
    }

    /// fork(2), vfork(2), clone(2), clone3(2).
    fn fork(&mut self, call: Notification, flags: u64) -> Result<(), Error> {
        let done = if flags & libc::CLONE_THREAD as u64 != 0 {
            self.expect_thread(call.tid)
        } else {
            let shared = flags & libc::CLONE_FILES as u64 != 0;
            if shared
                && !self.processes[&self.threads[&call.tid].pid]
                    .table
                    .is_empty()
            {
                // The child gets a copy of the table.
                self.note_unsupported(call.nr);
            }
            self.conceive(call.tid)
        };
        match done {
            Ok(()) => self.pass(call),
            Err(error) => {
                soften(error)?;
                self.answer(call, -i64::from(libc::EAGAIN))
            }
        }
    }

    fn sendfile(&mut self, call: Notification) -> Result<(), Error> {
        let [_, from, pointer, count, ..] = call.args;
        let process = &self.processes[&self.threads[&call.tid].pid];
        let Some(file) = process.table.get(call.args[0]).cloned() else {
            return match process.table.get(from) {
                // A socket is no source for sendfile(2).
                Some(_) => self.answer(call, EINVAL),
                None => self.pass(call),
            };
        };
        if process.table.get(from).is_some() {
            return self.answer(call, EINVAL);
        }
        let pidfd = process.pidfd.as_raw_fd();
        // SAFETY: makes a descriptor.
        let source = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd, from as i32, 0) };
        if source < 0 {
            return self.answer(call, EBADF);
        }
        // SAFETY: new, and nobody else's.
        let source = unsafe { OwnedFd::from_raw_fd(source as RawFd) };
        let base = match pointer {
            // SAFETY: takes numbers.
            0 => unsafe { libc::lseek(source.as_raw_fd(), 0, libc::SEEK_CUR) },
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
            base,
            pointer,
            done: 0,
            left: count.min(0x7fff_f000),
            piece: 0,
        };
        let busy = Busy {
            call,
            stage: Stage::Sendfile(Box::new(sendfile)),
            file: Some(file),
        };
        self.send_piece(busy)
    }

    /// Starts sending the next piece, or ends the call.
    fn send_piece(&mut self, mut busy: Busy) -> Result<(), Error> {
        let Stage::Sendfile(s) = &mut busy.stage else {
            return Ok(());
        };
        let task = match self.task_of(busy.call.tid) {
            Ok(task) => task,
            Err(error) => {
                let result = soften(error)?;
                return self.answer(busy.call, result);
            }
        };
        let buffer = self.buffers.entry(task).or_default();
        buffer.resize(s.left.min(PIECE) as usize, 0);
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
            let error = std::io::Error::last_os_error().raw_os_error();
            let result = match got {
                0 => 0,
                _ => -i64::from(error.unwrap_or(libc::EIO)),
            };
            return self.end_sendfile(busy, task, result);
        }
        s.piece = got as u64;
        let args = [busy.call.args[0], buffer.as_ptr() as u64, s.piece, 0, 0, 0];
        let poll_fd = match &busy.file {
            Some(file) if file.epoll.get() => Some(busy.call.args[0] as i32),
            _ => None,
        };
        self.start(busy, libc::SYS_write, args, 0, poll_fd)
    }

    fn sent_piece(&mut self, mut busy: Busy, result: i64) -> Result<(), Error> {
        let Stage::Sendfile(s) = &mut busy.stage else {
            return Ok(());
        };
        let sent = u64::try_from(result).unwrap_or(0);
        s.done += sent;
        s.left -= sent.min(s.left);
        if sent == s.piece && s.left > 0 {
            return self.send_piece(busy);
        }
        match self.task_of(busy.call.tid) {
            Ok(task) => self.end_sendfile(busy, task, result),
            Err(error) => soften(error).map(drop),
        }
    }

    /// Sets the offset and answers: with the bytes sent, or with the error if there are none.
    fn end_sendfile(&mut self, busy: Busy, task: TaskId, result: i64) -> Result<(), Error> {
        self.buffers.remove(&task);
        let Stage::Sendfile(s) = &busy.stage else {
            return Ok(());
        };
        let call = busy.call;
        let end = s.base + s.done as i64;
        if s.done == 0 && result < 0 {
            return self.answer(call, result);
        }
        if s.pointer == 0 {
            // SAFETY: takes numbers.
            unsafe { libc::lseek(s.source.as_raw_fd(), end, libc::SEEK_SET) };
        } else if !target::write(call.tid, s.pointer, &end.to_ne_bytes()) {
            return self.answer(call, EFAULT);
        }
        self.answer(call, s.done as i64)
    }
}
