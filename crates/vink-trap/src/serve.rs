//! Answering a trapped call: the host does it, the kernel does it, or it is about descriptors.

use std::rc::Rc;

use vink_kernel::{Call, Outcome, TaskId};

use crate::calls::{kind, Kind};
use crate::interrupt::Running;
use crate::notify::{Listener, Notification, Sent};
use crate::process::{Busy, Entry, File, Stage, Table, Then};
use crate::target;
use crate::turn::Patience;
use crate::worker::Worker;
use crate::Error;

pub(crate) const EAGAIN: i64 = -(libc::EAGAIN as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
const EBADF: i64 = -(libc::EBADF as i64);
const ENOSYS: i64 = -(libc::ENOSYS as i64);
const EMFILE: i64 = -(libc::EMFILE as i64);

/// A kernel error that concerns one call becomes its result; one that ends everything stays.
pub(crate) fn soften(error: vink_kernel::Error) -> Result<i64, Error> {
    match error {
        vink_kernel::Error::Panic(_) => Err(error.into()),
        vink_kernel::Error::Errno { errno, .. } => Ok(-i64::from(errno)),
        _ => Ok(-i64::from(libc::EIO)),
    }
}

/// The descriptor whose readiness must be told after a call on it, if any.
pub(crate) fn poll_fd(entry: &Entry) -> Option<i32> {
    entry.file.followed.get().then_some(entry.number)
}

impl Worker {
    /// A call has been trapped.
    pub(crate) fn trapped(&mut self, program: usize, call: Notification) -> Result<(), Error> {
        if let Some(count) = self.statistics.trapped.get_mut(call.nr as usize) {
            *count += 1;
        }
        if let Some(near) = &mut self.near {
            near.note(call.tid);
        }
        if !self.threads.contains_key(&call.tid) && !self.meet(program, call.tid)? {
            if let Some(listener) = &self.trees[program].listener {
                listener.let_pass(call.id);
            }
            return Ok(());
        }
        if self.mail.is_some() {
            if let Some(desk) = self.table_of(call.tid).desk() {
                desk.note_trap();
            }
        }
        self.mark_moment();
        if let Some(tracer) = &self.tracer {
            let process = &self.processes[&self.threads[&call.tid].pid];
            let machine = self.kernel.machine_name(process.machine).unwrap_or("?");
            let is_vink = |fd| process.table.get(fd as u64).is_some();
            tracer.begin(call, process.pid, machine, &is_vink);
        }
        self.dispatch(call)
    }

    /// Decides on a call.
    pub(crate) fn dispatch(&mut self, call: Notification) -> Result<(), Error> {
        let thread = self.threads.get_mut(&call.tid).expect("just met");
        thread.closing.clear();
        thread.vain.call(call);
        if thread.busy.is_some() || thread.aside.is_some() {
            self.succeed(call.tid);
        }
        let pid = self.threads[&call.tid].pid;
        if self.processes[&pid].attention && !self.catch_up(call)? {
            return Ok(());
        }
        if self.carrier.is_some() && self.processes[&pid].table.is_receiving() {
            self.recognise_named(call)?;
        }
        if self.turn.is_some() && self.treat(call)? {
            return Ok(());
        }
        let table = &mut self.process_mut(pid).table;
        let first = table.get(call.args[0]);
        match kind(call.nr) {
            Kind::Io => match first {
                Some(entry) if !self.rings.is_empty() && Worker::changes_ring(call) => {
                    self.sweep_rings()?;
                    self.run(call, Stage::Answer, &entry)
                }
                Some(entry) if entry.file.copy.is_some() => self.use_copy(call, &entry),
                Some(entry) if entry.file.named && call.nr == libc::SYS_getdents64 => {
                    self.list(call, &entry)
                }
                Some(entry) if call.nr == libc::SYS_ioctl && self.own(call, &entry)? => Ok(()),
                Some(entry) if entry.file.named && self.attach_tun(call, &entry)? => Ok(()),
                Some(entry) if entry.file.rtnetlink.get() && self.send_changed(call, &entry)? => {
                    Ok(())
                }
                Some(entry) => {
                    if self.mail.is_some() {
                        self.expect_mail(call, &entry)?;
                    }
                    self.run(call, Stage::Answer, &entry)
                }
                None if self.lend(call)? => Ok(()),
                None if self.ask_about_interfaces(call)? => Ok(()),
                None => {
                    if self.mail.is_some() {
                        self.expect_none(call);
                    }
                    self.pass_io(call)
                }
            },
            Kind::Socket => {
                let cloexec = call.args[1] & libc::SOCK_CLOEXEC as u64 != 0;
                self.make(call, call.args, cloexec)
            }
            Kind::Accept => match first {
                Some(entry) => {
                    let flags = match call.nr {
                        libc::SYS_accept4 => call.args[3],
                        _ => 0,
                    };
                    let cloexec = flags & libc::SOCK_CLOEXEC as u64 != 0;
                    // Not to take a connection that could not be given.
                    match target::has_room(pid, &self.processes[&pid].pidfd) {
                        true => self.run(call, Stage::Descriptor { cloexec }, &entry),
                        false => self.answer(call, EMFILE),
                    }
                }
                None => self.pass(call),
            },
            Kind::Close => match table.remove(call.args[0] as i32) {
                Some(entry) => self.close_all(call, vec![entry], Then::Pass),
                None => {
                    if let Some(desk) = self.table_of(call.tid).desk() {
                        desk.clear(call.args[0] as i32);
                    }
                    self.pass(call)
                }
            },
            Kind::CloseRange => self.close_range(call),
            Kind::Dup => match first {
                Some(entry) => self.dup(call, &entry),
                None => {
                    self.show_to_others(call.tid, &[call.args[0] as i32]);
                    self.pass(call)
                }
            },
            Kind::Dup2 | Kind::Dup3 => self.dup_to(call),
            Kind::Fcntl => match (first, call.args[1] as i32) {
                (Some(entry), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => self.dup_from(call, &entry),
                (Some(entry), _) if self.own(call, &entry)? => Ok(()),
                (Some(entry), _) => self.run(call, Stage::Answer, &entry),
                (None, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    self.show_to_others(call.tid, &[call.args[0] as i32]);
                    self.pass(call)
                }
                (None, _) => self.pass(call),
            },
            Kind::Open => self.open(call),
            Kind::LookUp => self.look_up(call),
            Kind::Fstat => match first.filter(|entry| entry.file.named) {
                Some(entry) => self.run(call, Stage::Answer, &entry),
                None => self.look_at_hosts(call),
            },
            Kind::Chdir => self.change_directory(call),
            Kind::Fchdir => match first {
                Some(entry) if entry.file.named => self.change_to(call),
                _ => self.pass(call),
            },
            Kind::Poll => self.poll(call),
            Kind::Select => self.select(call),
            Kind::EpollCreate => self.epoll_create(call),
            Kind::Mmap => self.mmap(call),
            Kind::Sendfile => self.sendfile(call),
            Kind::Splice => self.splice(call),
            Kind::Fork => self.fork(call, 0),
            Kind::Clone => self.fork(call, call.args[0]),
            // Unreadable flags: the host will say so.
            Kind::Clone3 => match target::read_u64(call.tid, call.args[0]) {
                Some(flags) => self.fork(call, flags),
                None => self.pass(call),
            },
            Kind::Exec => {
                if let Some(near) = &mut self.near {
                    near.release(call.tid);
                }
                let process = self.process_mut(pid);
                process.executing = Some(call.tid);
                process.attention = true;
                process.table.close_desk();
                if process.moved {
                    // It goes on as the first thread, from where it is.
                    process.moving.push(pid);
                }
                if process.threaded {
                    self.put_aside(pid, call.tid)?;
                }
                self.pass(call)
            }
            Kind::Unshare => {
                if call.args[0] & libc::CLONE_NEWNET as u64 != 0 {
                    self.may_move(call.tid);
                }
                let unshares = call.args[0] & libc::CLONE_FILES as u64 != 0;
                if unshares && !self.unshare_files(call)? {
                    return Ok(());
                }
                self.pass(call)
            }
            Kind::Setns => {
                self.may_move(call.tid);
                self.pass(call)
            }
            Kind::Exit => {
                let listener = self.listener(call.tid);
                let number = self.turn.as_ref().map(|_| target::own_number(call.tid));
                self.end_thread(call.tid);
                if let Some(listener) = listener {
                    listener.let_pass(call.id);
                }
                self.await_end(pid, call.tid, number.flatten().unwrap_or(call.tid))
            }
            Kind::Foreign => {
                self.note_unsupported(call.nr);
                self.raise(call.tid, 1 << (libc::SIGSYS - 1));
                self.answer(call, ENOSYS)
            }
            Kind::Affinity => {
                self.look_at_affinity(call);
                self.pass(call)
            }
            Kind::Uring | Kind::Other => self.pass(call),
        }
    }

    /// The table of a thread's process.
    pub(crate) fn table_of(&self, tid: i32) -> &Table {
        &self.processes[&self.threads[&tid].pid].table
    }

    /// The listener that serves a thread; `None` if its tree is gone.
    pub(crate) fn listener(&self, tid: i32) -> Option<Rc<Listener>> {
        let process = &self.processes[&self.threads[&tid].pid];
        self.trees[process.program].listener.clone()
    }

    /// The host does it.
    pub(crate) fn pass(&mut self, call: Notification) -> Result<(), Error> {
        match self.ready_to_pass(call)? {
            Some(patience) => self.pass_with(call, patience),
            None => Ok(()),
        }
    }

    /// The host does it, and Vink files may travel with it.
    fn pass_io(&mut self, call: Notification) -> Result<(), Error> {
        let Some(patience) = self.ready_to_pass(call)? else {
            return Ok(());
        };
        match call.nr {
            libc::SYS_sendmsg | libc::SYS_sendmmsg => self.send_off(call)?,
            libc::SYS_recvmsg | libc::SYS_recvmmsg => {
                self.table_of(call.tid).set_receiving();
            }
            _ => {}
        }
        self.pass_with(call, patience)
    }

    /// This is the result.
    pub(crate) fn answer(&mut self, call: Notification, result: i64) -> Result<(), Error> {
        if let Some(listener) = self.listener(call.tid) {
            self.tell_of(call, Some(result));
            self.show_time(call.tid, Patience::Runs);
            let sent = listener.answer(call.id, result);
            self.goes_out(call, sent, Patience::Runs);
        }
        Ok(())
    }

    pub(crate) fn note_unsupported(&mut self, nr: i64) {
        *self.statistics.unsupported.entry(nr).or_default() += 1;
    }

    /// The kernel does it, as it is but for its own number of the file, on the program's memory.
    pub(crate) fn run(
        &mut self,
        call: Notification,
        stage: Stage,
        entry: &Entry,
    ) -> Result<(), Error> {
        let mut args = call.args;
        args[0] = entry.number as u64;
        let file = Some(entry.file.clone());
        let busy = Busy { call, stage, file };
        self.start(busy, call.nr, args, call.tid as u64, poll_fd(entry))
    }

    /// The kernel makes a descriptor.
    pub(crate) fn make(
        &mut self,
        call: Notification,
        args: [u64; 6],
        cloexec: bool,
    ) -> Result<(), Error> {
        let busy = Busy {
            call,
            stage: Stage::Descriptor { cloexec },
            file: None,
        };
        self.start(busy, call.nr, args, call.tid as u64, None)
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
                ..Call::default()
            };
            self.kernel.start(task, call)
        });
        self.stirred = true;
        match started {
            Ok(()) => {
                let thread = self.threads.get_mut(&busy.call.tid);
                thread.expect("it makes this call").busy = Some(self.pulse.begin(busy));
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
        let call = Call {
            nr,
            args,
            ..Call::default()
        };
        self.complete(task, &call)
    }

    /// The same for a call whose pointers may be into a program's memory.
    pub(crate) fn complete(&mut self, task: TaskId, call: &Call) -> Result<i64, Error> {
        self.stirred = true;
        match self.kernel.complete(task, call) {
            Ok(result) => Ok(result),
            Err(error) => soften(error),
        }
    }

    /// A task's call is done: shows the readiness that it left, and queues it to be finished.
    pub(crate) fn done(&mut self, task: TaskId) {
        let Some(tid) = self.tasks.get(&task).copied() else {
            return;
        };
        let is_busy = self.threads.get(&tid).is_some_and(|t| t.busy.is_some());
        let outcome = is_busy.then(|| self.kernel.poll(task));
        if let Some(outcome) = outcome.flatten() {
            self.end(tid, outcome);
        }
    }

    /// The same of a thread's call, which has ended so.
    pub(crate) fn end(&mut self, tid: i32, outcome: Outcome) {
        let busy = self.threads.get_mut(&tid).and_then(|t| t.busy.take());
        if let Some(mut running) = busy {
            let busy = &mut running.busy;
            if let (Some(file), Some(events)) = (&busy.file, outcome.events) {
                file.placeholder.show(events);
                if let Some(room) = outcome.room {
                    file.placeholder.telling.tell_room(room);
                }
            }
            if matches!(
                busy.stage,
                Stage::Answer | Stage::Descriptor { .. } | Stage::Mail { .. }
            ) {
                // Its last descriptor may be closed before this call is concluded.
                let file = busy.file.take();
                self.finished.push_back((running, outcome));
                if file.is_some_and(|f| Rc::strong_count(&f) == 2) {
                    self.stir_carried();
                }
                return;
            }
            self.finished.push_back((running, outcome));
        }
    }

    /// Goes on with a call that is done in the kernel.
    pub(crate) fn conclude(&mut self, running: Running, outcome: Outcome) -> Result<(), Error> {
        let tid = running.busy.call.tid;
        // Its process may have been retired by the conclusion of another call.
        if !self.threads.contains_key(&tid) {
            return Ok(());
        }
        self.raise(tid, outcome.signals);
        match self.result_of(running, &outcome)? {
            Some((busy, result)) => self.conclude_with(busy, result),
            None => Ok(()),
        }
    }

    /// This is the result of the kernel's part of a call.
    pub(crate) fn conclude_with(&mut self, mut busy: Busy, result: i64) -> Result<(), Error> {
        let call = busy.call;
        match &mut busy.stage {
            Stage::Descriptor { cloexec } if result >= 0 => {
                let number = result as i32;
                let Ok(file) = File::new() else {
                    self.close_own(call.tid, number)?;
                    return self.answer(call, -i64::from(libc::ENFILE));
                };
                if call.nr == libc::SYS_socket {
                    let kind = (call.args[0] as i32, call.args[2] as i32);
                    let is_rtnetlink = kind == (libc::AF_NETLINK, libc::NETLINK_ROUTE);
                    file.rtnetlink.set(is_rtnetlink);
                }
                if call.nr == libc::SYS_timerfd_create {
                    file.timer.set(call.args[0] as i32);
                }
                let entry = Entry { file, number };
                if self.table_of(call.tid).is_followed() {
                    self.follow(call.tid, &entry)?;
                }
                match self.install(call, entry, *cloexec)? {
                    Sent::Taken => Ok(()),
                    Sent::Gone => self.close_own(call.tid, number),
                }
            }
            Stage::Both if result >= 0 => self.pass(call),
            Stage::Answer if result == EAGAIN && self.is_idle_talk(call) => self.lull(call),
            Stage::Answer | Stage::Both | Stage::Descriptor { .. } => self.answer(call, result),
            Stage::Close { rest, then } => {
                let (rest, then) = (std::mem::take(rest), *then);
                self.let_go(call.tid, busy.file);
                self.sweep_rings()?;
                self.close_all(call, rest, then)
            }
            Stage::Sendfile(_) => self.sent_piece(busy, result),
            Stage::Splice(_) => self.spliced(busy, result),
            Stage::Lull { .. } => self.lulled(call, result),
            Stage::Mail { .. } => self.answer_posted(&busy, result),
        }
    }

    /// Sends the thread the signals that the kernel sent to its task.
    pub(crate) fn raise(&mut self, tid: i32, signals: u64) {
        if signals != 0 {
            self.pulse.hint_of(self.threads[&tid].pid);
        }
        for bit in 0..64 {
            if signals & 1 << bit != 0 {
                let pid = self.threads[&tid].pid;
                // SAFETY: takes numbers.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, bit + 1) };
            }
        }
    }

    fn enter(&mut self, tid: i32, fd: i32, entry: Entry) -> Option<Entry> {
        let pid = self.threads[&tid].pid;
        self.process_mut(pid).table.insert(fd, entry)
    }

    /// Runs a call of the worker's own on the thread's task.
    fn call_for(&mut self, tid: i32, nr: i64, number: i32) -> Result<i64, Error> {
        match self.task_of(tid) {
            Ok(task) => self.call(task, nr, [number as u64, 0, 0, 0, 0, 0]),
            Err(error) => soften(error),
        }
    }

    pub(crate) fn close_own(&mut self, tid: i32, number: i32) -> Result<(), Error> {
        self.call_for(tid, libc::SYS_close, number).map(drop)
    }

    /// Closes what the program's table had, on behalf of a call, and then goes on with that.
    pub(crate) fn close_all(
        &mut self,
        call: Notification,
        mut entries: Vec<Entry>,
        then: Then,
    ) -> Result<(), Error> {
        let Some(entry) = entries.pop() else {
            return match then {
                Then::Pass => self.pass(call),
                Then::Dispatch => self.dispatch(call),
                Then::Answer(result) => self.answer(call, result),
            };
        };
        let busy = Busy {
            call,
            stage: Stage::Close {
                rest: entries,
                then,
            },
            file: Some(entry.file),
        };
        let args = [entry.number as u64, 0, 0, 0, 0, 0];
        self.start(busy, libc::SYS_close, args, 0, None)
    }

    /// Gives up a file that was closed in the kernel, before the program goes on to close it: the
    /// program's epoll instances forget a file when nobody has it open any more.
    fn let_go(&mut self, tid: i32, file: Option<Rc<File>>) {
        if file.as_ref().is_some_and(|f| Rc::strong_count(f) == 2) {
            self.stir_carried();
        }
        let last = file.and_then(|file| Rc::try_unwrap(file).ok());
        let end = last.and_then(|file| file.placeholder.release());
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.closing.extend(end);
        }
    }

    /// Gives the program a placeholder under the lowest free number, which ends its call. If it
    /// has no room, the kernel's descriptor is closed.
    pub(crate) fn install(
        &mut self,
        call: Notification,
        entry: Entry,
        cloexec: bool,
    ) -> Result<Sent, Error> {
        let Some(listener) = self.listener(call.tid) else {
            return Ok(Sent::Gone);
        };
        let end = entry.file.placeholder.program_end();
        self.show_time(call.tid, Patience::Runs);
        match listener.answer_fd(call.id, end, cloexec) {
            Ok((Sent::Gone, _)) => return Ok(Sent::Gone),
            Ok((Sent::Taken, fd)) => {
                self.tell_of(call, Some(fd.into()));
                self.goes_out(call, Sent::Taken, Patience::Runs);
                // The host gives no number that is in use.
                if let Some(stale) = self.enter(call.tid, fd, entry) {
                    self.close_own(call.tid, stale.number)?;
                }
            }
            Err(errno) => {
                self.close_own(call.tid, entry.number)?;
                return self.answer(call, -i64::from(errno)).map(|()| Sent::Taken);
            }
        }
        Ok(Sent::Taken)
    }

    /// Another descriptor of the kernel's for the same file. The error is the call's result.
    fn another(&mut self, tid: i32, entry: &Entry) -> Result<Result<Entry, i64>, Error> {
        entry.file.placeholder.share();
        let number = self.call_for(tid, libc::SYS_dup, entry.number)?;
        Ok(match number {
            0.. => Ok(Entry {
                file: entry.file.clone(),
                number: number as i32,
            }),
            error => Err(error),
        })
    }

    fn dup(&mut self, call: Notification, entry: &Entry) -> Result<(), Error> {
        let new = match self.another(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return self.answer(call, result),
        };
        let number = new.number;
        if self.install(call, new, false)? == Sent::Gone {
            self.close_own(call.tid, number)?;
        }
        Ok(())
    }

    /// dup2(2) and dup3(2).
    fn dup_to(&mut self, call: Notification) -> Result<(), Error> {
        let (from, to) = (call.args[0] as i32, call.args[1] as i32);
        let flags = match call.nr {
            libc::SYS_dup3 => call.args[2] as i32,
            _ => 0,
        };
        let pid = self.threads[&call.tid].pid;
        let table = &mut self.process_mut(pid).table;
        // Equal numbers and bad flags: the host's answer is right for placeholders too.
        if from == to || flags & !libc::O_CLOEXEC != 0 {
            return self.pass(call);
        }
        if let Some(entry) = table.get(call.args[0]) {
            return self.put(call, &entry, to, flags & libc::O_CLOEXEC != 0, EBADF);
        }
        self.show_to_others(call.tid, &[from]);
        let table = &mut self.process_mut(pid).table;
        if let Some(desk) = table.desk() {
            desk.clear(to);
        }
        // A host file over a Vink file, unless the host will refuse.
        let closed = match target::descriptor(pid, from) {
            Some(_) => table.remove(to),
            None => None,
        };
        self.close_all(call, closed.into_iter().collect(), Then::Pass)
    }

    /// fcntl(2) with `F_DUPFD` and `F_DUPFD_CLOEXEC`.
    fn dup_from(&mut self, call: Notification, entry: &Entry) -> Result<(), Error> {
        let pid = self.threads[&call.tid].pid;
        let cloexec = call.args[1] as i32 == libc::F_DUPFD_CLOEXEC;
        let least = match i32::try_from(call.args[2]) {
            Ok(least) => least,
            Err(_) => return self.answer(call, EINVAL),
        };
        let free = (least..=i32::MAX).find(|fd| target::descriptor(pid, *fd).is_none());
        match free {
            // Beyond the limit, the least number allowed is a bad argument, any other too many.
            Some(fd) if fd == least => self.put(call, entry, fd, cloexec, EINVAL),
            Some(fd) => self.put(call, entry, fd, cloexec, EMFILE),
            None => self.answer(call, EMFILE),
        }
    }

    /// Gives the program another descriptor of the file under the number `to`. `beyond` is for a
    /// number beyond the program's limit.
    fn put(
        &mut self,
        call: Notification,
        entry: &Entry,
        to: i32,
        cloexec: bool,
        beyond: i64,
    ) -> Result<(), Error> {
        let Some(listener) = self.listener(call.tid) else {
            return Ok(());
        };
        let new = match self.another(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return self.answer(call, result),
        };
        let end = entry.file.placeholder.program_end();
        let failure = match listener.put_fd(call.id, end, to, cloexec) {
            Ok((Sent::Taken, _)) => {
                let old = self.enter(call.tid, to, new);
                return self.close_all(call, old.into_iter().collect(), Then::Answer(to.into()));
            }
            Ok((Sent::Gone, _)) => None,
            Err(libc::EBADF) => Some(beyond),
            Err(errno) => Some(-i64::from(errno)),
        };
        self.close_own(call.tid, new.number)?;
        match failure {
            Some(result) => self.answer(call, result),
            None => Ok(()),
        }
    }

    fn close_range(&mut self, call: Notification) -> Result<(), Error> {
        let [first, last, flags] = [0, 1, 2].map(|n: usize| call.args[n] as u32);
        if first > last || flags & !(libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE) != 0 {
            return self.pass(call); // to be refused
        }
        if flags & libc::CLOSE_RANGE_UNSHARE != 0 && !self.unshare_files(call)? {
            return Ok(());
        }
        let closing = flags & libc::CLOSE_RANGE_CLOEXEC == 0;
        let table = self.table_of(call.tid);
        if let Some(desk) = table.desk() {
            desk.unmark_range(first, last);
        }
        let closed = table.remove_if(|fd, _| closing && (first..=last).contains(&(fd as u32)));
        self.close_all(call, closed, Then::Pass)
    }

    /// fork(2), vfork(2), clone(2), clone3(2).
    fn fork(&mut self, call: Notification, flags: u64) -> Result<(), Error> {
        if let Some(near) = &mut self.near {
            near.release(call.tid);
        }
        self.expect_birth(call.tid, flags);
        let done = if flags & libc::CLONE_THREAD as u64 != 0 {
            self.expect_thread(call.tid)
        } else {
            self.conceive(call.tid, flags)
        };
        match done {
            Ok(()) => self.pass(call),
            Err(error) => {
                soften(error)?;
                self.answer(call, -i64::from(libc::EAGAIN))
            }
        }
    }
}
