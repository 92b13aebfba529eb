//! Answering a trapped call: the host does it, the kernel does it, or it is about descriptors.

use std::rc::Rc;

use vink_kernel::{Call, Outcome, TaskId};
use vink_sys::errno::{EBADF, EINVAL, EMFILE, ENFILE, ENOSYS};
use vink_sys::process::tgkill;

use crate::binding;
use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::file::{File, FileKind};
use crate::in_flight::{AfterClose, Continuation, InFlight};
use crate::notification::{Notification, Reply};
use crate::notify::Listener;
use crate::sched::ThreadState;
use crate::signal_poll::PendingCall;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::worker::Worker;
use crate::Error;
use vink_syscalls::{is_plain_io, kind, shapes, Kind, Shape};

impl Worker {
    /// A call has been trapped.
    pub(crate) fn on_syscall(&mut self, program: usize, call: Notification) -> Result<(), Error> {
        self.statistics.count_trapped(call.nr);
        self.placement.count_call(call.tid);
        let known = self.table.find_pid(call.tid);
        let pid = match known {
            Some(pid) => Some(pid),
            None => self.ensure_thread(program, call.tid)?,
        };
        let Some(pid) = pid else {
            if let Some(listener) = &self.programs[program].listener {
                listener.continue_call(call.id);
            }
            return Ok(());
        };
        let call = SyscallCtx {
            notification: call,
            pid,
            program,
        };
        if self.placement.has_rings() {
            if let Some(ring) = self.table.fd_table(pid).ring() {
                ring.count_trap();
            }
        }
        self.stamp_trace();
        if let Some(tracer) = &self.tracer {
            let process = self.table.process(call.pid);
            let machine = self.kernel.machine_name(process.machine).unwrap_or("?");
            let is_vink = |fd| process.table.get(fd as u64).is_some();
            tracer.begin(call.notification, pid, machine, &is_vink);
        }
        self.dispatch(call)
    }

    /// Decides on a call.
    pub(crate) fn dispatch(&mut self, call: SyscallCtx) -> Result<(), Error> {
        if !self.table.begin_call(call.tid) {
            self.replace_thread(call.tid);
        }
        let pid = call.pid;
        if self.table.process(pid).needs_update && !self.update_process(call)? {
            return Ok(());
        }
        if self.file_holder.is_some() && self.table.process(pid).table.may_have_received() {
            self.adopt_named(call)?;
        }
        if let Some(mut time) = self.virtual_time() {
            if time.on_virtual_syscall(call)? {
                return Ok(());
            }
        }
        let table = &mut self.table.process_mut(pid).table;
        let first = table.get(call.args[0]);
        match kind(call.nr) {
            Kind::Io => match first {
                Some(entry) if !self.packet_rings.is_empty() && Worker::changes_ring(call) => {
                    self.sweep_rings()?;
                    self.run_in_kernel(call, Continuation::Answer, &entry)
                }
                Some(entry) => {
                    let is_answered = match &entry.file.kind {
                        FileKind::Copy(_) => return self.io_on_copy(call, &entry),
                        FileKind::Procfs if call.nr == libc::SYS_getdents64 => {
                            return self.getdents(call, &entry)
                        }
                        _ if call.nr == libc::SYS_ioctl && self.own(call, &entry)? => true,
                        FileKind::Procfs => self.attach_tun(call, &entry)?,
                        FileKind::Rtnetlink => self.send_changed(call, &entry)?,
                        FileKind::Plain => false,
                    };
                    if is_answered {
                        return Ok(());
                    }
                    if self.placement.has_rings() {
                        self.poll_ring_after(call, &entry)?;
                    }
                    self.run_in_kernel(call, Continuation::Answer, &entry)
                }
                None if self.lend(call)? => Ok(()),
                None if self.give_terminal_back(call)? => Ok(()),
                None if self.ask_about_interfaces(call)? => Ok(()),
                None => {
                    if self.placement.has_rings() {
                        self.mark_host_file(call);
                    }
                    self.passthrough_io(call)
                }
            },
            Kind::Bind => match first {
                Some(entry) if entry.file.copy().is_some() => self.io_on_copy(call, &entry),
                Some(entry) => {
                    let process = self.table.process(pid);
                    let asks = !self.port_policies.is_empty() && !process.has_changed_netns;
                    let machine = process.machine;
                    if asks && binding::refuses(self, call, &entry, machine)? {
                        return Ok(());
                    }
                    if self.placement.has_rings() {
                        self.poll_ring_after(call, &entry)?;
                    }
                    self.run_in_kernel(call, Continuation::Answer, &entry)
                }
                None => {
                    if self.placement.has_rings() {
                        self.mark_host_file(call);
                    }
                    self.passthrough_io(call)
                }
            },
            Kind::Socket => {
                let cloexec = call.args[1] & libc::SOCK_CLOEXEC as u64 != 0;
                self.make_descriptor(call, call.args, cloexec)
            }
            Kind::Accept => match first {
                Some(entry) => {
                    let flags = match call.nr {
                        libc::SYS_accept4 => call.args[3],
                        _ => 0,
                    };
                    let cloexec = flags & libc::SOCK_CLOEXEC as u64 != 0;
                    // Not to take a connection that could not be given.
                    let full = || File::new(self.fd_limit_for(call.pid)).is_err();
                    if !tracee::has_room(pid, &self.table.process(pid).pidfd) {
                        self.answer(call, EMFILE)
                    } else if self.fd_limit.is_tight() && full() {
                        self.answer(call, ENFILE)
                    } else {
                        self.run_in_kernel(call, Continuation::Descriptor { cloexec }, &entry)
                    }
                }
                None => self.passthrough(call),
            },
            Kind::Close => match table.remove(call.args[0] as i32) {
                Some(entry) => self.close_all(call, vec![entry], AfterClose::Passthrough),
                None => {
                    if let Some(ring) = self.table.fd_table(call.pid).ring() {
                        ring.close_file(call.args[0] as i32);
                    }
                    self.passthrough(call)
                }
            },
            Kind::CloseRange => self.close_range(call),
            Kind::Dup => match first {
                Some(entry) => self.dup(call, &entry),
                None => {
                    self.show_to_others(call, &[call.args[0] as i32]);
                    self.passthrough(call)
                }
            },
            Kind::Dup2 | Kind::Dup3 => self.dup_to(call),
            Kind::Fcntl => match (first, call.args[1] as i32) {
                (Some(entry), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => self.dup_from(call, &entry),
                (Some(entry), _) if self.own(call, &entry)? => Ok(()),
                (Some(entry), _) => self.run_in_kernel(call, Continuation::Answer, &entry),
                (None, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    self.show_to_others(call, &[call.args[0] as i32]);
                    self.passthrough(call)
                }
                (None, _) => self.passthrough(call),
            },
            Kind::Open => self.open(call),
            Kind::LookUp => self.look_up(call),
            Kind::Fstat => match first.filter(|entry| entry.file.is_procfs()) {
                Some(entry) => self.run_in_kernel(call, Continuation::Answer, &entry),
                None => self.stat_on_host(call),
            },
            Kind::Chdir => self.chdir(call),
            Kind::Fchdir => match first {
                Some(entry) if entry.file.is_procfs() => self.fchdir(call),
                _ => self.passthrough(call),
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
            Kind::Clone3 => match tracee::read_u64(call.tid, call.args[0]) {
                Some(flags) => self.fork(call, flags),
                None => self.passthrough(call),
            },
            Kind::Exec => {
                self.placement.release(call.tid);
                let process = self.table.process_mut(pid);
                process.executing = Some(call.tid);
                process.needs_update = true;
                process.table.close_ring();
                if process.has_changed_netns {
                    // It goes on as the first thread, from where it is.
                    process.may_change_netns.push(pid);
                }
                if process.threaded {
                    self.suspend_other_calls(pid, call.tid)?;
                }
                self.passthrough(call)
            }
            Kind::Unshare if !self.may_make_network(call.tid, call.args[0]) => {
                self.answer(call, -i64::from(libc::EPERM))
            }
            Kind::Unshare => {
                if call.args[0] & libc::CLONE_NEWNET as u64 != 0 {
                    self.table.expect_netns_change(call.tid);
                }
                let unshares = call.args[0] & libc::CLONE_FILES as u64 != 0;
                if unshares && !self.unshare_files(call)? {
                    return Ok(());
                }
                self.passthrough(call)
            }
            Kind::Setns => {
                self.table.expect_netns_change(call.tid);
                self.passthrough(call)
            }
            Kind::Exit => {
                let listener = self.listener(call);
                let number = self.clock.is_virtual().then(|| tracee::ns_pid(call.tid));
                self.end_thread(call.tid);
                if let Some(listener) = listener {
                    listener.continue_call(call.id);
                }
                let number = number.flatten().unwrap_or(call.tid);
                match self.virtual_time() {
                    None => Ok(()),
                    Some(mut time) => time.wait_for_thread_exit(pid, call.tid, number),
                }
            }
            Kind::Foreign => {
                self.statistics.count_unsupported(call.nr);
                self.forward_signals(call.tid, 1 << (libc::SIGSYS - 1));
                self.answer(call, ENOSYS)
            }
            Kind::Affinity => {
                self.placement.on_affinity_call(call.nr);
                self.passthrough(call)
            }
            Kind::Submit => self.submit(call),
            Kind::Sigaction => {
                self.set_restorer(call);
                self.passthrough(call)
            }
            Kind::Kill => match self.signal_own_group(call)? {
                true => Ok(()),
                false => self.passthrough(call),
            },
            Kind::Uring | Kind::Other => self.passthrough(call),
        }
    }

    /// Below which number the placeholders of a process are to be.
    pub(crate) fn fd_limit_for(&self, pid: i32) -> i32 {
        self.fd_limit.below(self.table.fd_table(pid).len())
    }

    /// The listener that serves a call; `None` if its program is gone.
    pub(crate) fn listener(&self, call: SyscallCtx) -> Option<Rc<Listener>> {
        self.programs[call.program].listener.clone()
    }

    /// The host does it.
    pub(crate) fn passthrough(&mut self, call: SyscallCtx) -> Result<(), Error> {
        match self.block_or_passthrough(call)? {
            Some(state) => self.passthrough_as(call, state),
            None => Ok(()),
        }
    }

    /// How the host may do this call now; `None`: it would wait, and virtual time blocks it.
    fn block_or_passthrough(&mut self, call: SyscallCtx) -> Result<Option<ThreadState>, Error> {
        match self.virtual_time() {
            None => Ok(Some(ThreadState::Running)),
            Some(mut time) => time.block_or_passthrough(call),
        }
    }

    /// The host does it, now.
    pub(crate) fn passthrough_as(
        &mut self,
        call: SyscallCtx,
        state: ThreadState,
    ) -> Result<(), Error> {
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.note_host_io();
            if !is_plain_io(call.nr) {
                // It may send signals.
                self.signals.invalidate_all();
            }
        }
        self.notify_observer(call, None);
        self.publish_time(call.tid, state);
        if let Some(listener) = self.listener(call) {
            let sent = listener.continue_call(call.id);
            self.thread_resumed(call, sent, state);
        }
        Ok(())
    }

    /// A call that asks for the times of a file of the host's.
    pub(crate) fn stat_on_host(&mut self, call: SyscallCtx) -> Result<(), Error> {
        if let Some(sched) = self.clock.virtual_time_mut() {
            let date = self.kernel.date(self.kernel.now()) as i64;
            if let Some(result) = sched.file_times.stat(call, date) {
                return self.answer(call, result);
            }
        }
        self.passthrough(call)
    }

    /// The host does it, and Vink files may travel with it.
    fn passthrough_io(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let Some(state) = self.block_or_passthrough(call)? else {
            return Ok(());
        };
        // Files travel in messages.
        match shapes(call.nr) {
            Some([_, Shape::InMessage | Shape::InMessages(_), ..]) => self.hold_sent_files(call)?,
            Some([_, Shape::OutMessage | Shape::OutMessages, ..]) => {
                self.table.fd_table(call.pid).set_may_have_received();
            }
            _ => {}
        }
        self.passthrough_as(call, state)
    }

    /// This is the result.
    pub(crate) fn answer(&mut self, call: SyscallCtx, result: i64) -> Result<(), Error> {
        if let Some(listener) = self.listener(call) {
            self.notify_observer(call, Some(result));
            self.publish_time(call.tid, ThreadState::Running);
            let sent = listener.answer(call.id, result);
            self.thread_resumed(call, sent, ThreadState::Running);
        }
        Ok(())
    }

    /// The kernel does it, as it is but for its own number of the file, on the program's memory.
    pub(crate) fn run_in_kernel(
        &mut self,
        call: SyscallCtx,
        stage: Continuation,
        entry: &Entry,
    ) -> Result<(), Error> {
        let mut args = call.args;
        args[0] = entry.number as u64;
        let file = Some(entry.file.clone());
        let in_flight = InFlight {
            call,
            continuation: stage,
            file,
        };
        self.start_in_kernel(in_flight, call.nr, args, call.tid as u64, entry.poll_fd())
    }

    /// The kernel makes a descriptor.
    pub(crate) fn make_descriptor(
        &mut self,
        call: SyscallCtx,
        args: [u64; 6],
        cloexec: bool,
    ) -> Result<(), Error> {
        let in_flight = InFlight {
            call,
            continuation: Continuation::Descriptor { cloexec },
            file: None,
        };
        self.start_in_kernel(in_flight, call.nr, args, call.tid as u64, None)
    }

    /// Starts something in the kernel for a call.
    pub(crate) fn start_in_kernel(
        &mut self,
        in_flight: InFlight,
        nr: i64,
        args: [u64; 6],
        space: u64,
        poll_fd: Option<i32>,
    ) -> Result<(), Error> {
        let started = self.task_of(in_flight.call.tid).and_then(|task| {
            let call = Call {
                nr,
                args,
                space,
                poll_fd,
                ..Call::default()
            };
            self.kernel.start(task, call)
        });
        self.kernel_dirty = true;
        match started {
            Ok(()) => {
                let tid = in_flight.call.tid;
                self.table.set_pending(tid, self.signals.begin(in_flight));
                Ok(())
            }
            Err(error) => {
                let result = to_errno_result(error)?;
                self.answer(in_flight.call, result)
            }
        }
    }

    /// A call of the worker's own, that ends by itself, on a task that has none in progress.
    pub(crate) fn kernel_call(
        &mut self,
        task: TaskId,
        nr: i64,
        args: [u64; 6],
    ) -> Result<i64, Error> {
        let call = Call {
            nr,
            args,
            ..Call::default()
        };
        self.complete_kernel_call(task, &call)
    }

    /// The same for a call whose pointers may be into a program's memory.
    pub(crate) fn complete_kernel_call(&mut self, task: TaskId, call: &Call) -> Result<i64, Error> {
        self.kernel_dirty = true;
        match self.kernel.complete(task, call) {
            Ok(result) => Ok(result),
            Err(error) => to_errno_result(error),
        }
    }

    /// A task's call is done: shows the readiness that it left, and queues it to be finished.
    pub(crate) fn kernel_call_done(&mut self, task: TaskId) {
        let Some(tid) = self.table.thread_of(task) else {
            return;
        };
        let is_busy = self.table.pending(tid).is_some();
        let outcome = is_busy.then(|| self.kernel.poll(task));
        if let Some(outcome) = outcome.flatten() {
            self.finish_kernel_call(tid, outcome);
        }
    }

    /// The same of a thread's call, which has ended so.
    pub(crate) fn finish_kernel_call(&mut self, tid: i32, outcome: Outcome) {
        let in_flight = self.table.take_pending(tid);
        if let Some(mut pending) = in_flight {
            let in_flight = &mut pending.in_flight;
            if let (Some(file), Some(events)) = (&in_flight.file, outcome.events) {
                file.placeholder.show(events);
                if let Some(credit) = outcome.credit {
                    file.placeholder.readiness.publish_credit(credit);
                }
            }
            if matches!(
                in_flight.continuation,
                Continuation::Answer
                    | Continuation::Descriptor { .. }
                    | Continuation::Posted { .. }
            ) {
                // Its last descriptor may be closed before this call is concluded.
                let file = in_flight.file.take();
                self.finished.push_back((pending, outcome));
                if file.is_some_and(|f| Rc::strong_count(&f) == 2) {
                    self.mark_held_dirty();
                }
                return;
            }
            self.finished.push_back((pending, outcome));
        }
    }

    /// Goes on with a call that is done in the kernel.
    pub(crate) fn conclude(&mut self, pending: PendingCall, outcome: Outcome) -> Result<(), Error> {
        let tid = pending.in_flight.call.tid;
        // Its process may have been retired by the conclusion of another call.
        if !self.table.has_thread(tid) {
            return Ok(());
        }
        self.forward_signals(tid, outcome.signals);
        match self.result_of(pending, &outcome)? {
            Some((in_flight, result)) => self.conclude_with(in_flight, result),
            None => Ok(()),
        }
    }

    /// This is the result of the kernel's part of a call.
    pub(crate) fn conclude_with(
        &mut self,
        mut in_flight: InFlight,
        result: i64,
    ) -> Result<(), Error> {
        let call = in_flight.call;
        match &mut in_flight.continuation {
            Continuation::Descriptor { cloexec } if result >= 0 => {
                let number = result as i32;
                let netlink = (libc::AF_NETLINK, libc::NETLINK_ROUTE);
                let kind = match (call.args[0] as i32, call.args[2] as i32) {
                    kind if call.nr == libc::SYS_socket && kind == netlink => FileKind::Rtnetlink,
                    _ => FileKind::Plain,
                };
                let file = File::of_kind(self.fd_limit_for(call.pid), kind);
                self.fd_limit.note(file.is_ok());
                let Ok(file) = file else {
                    self.close_kernel_fd(call.tid, number)?;
                    return self.answer(call, ENFILE);
                };
                if call.nr == libc::SYS_timerfd_create {
                    file.timer.set(call.args[0] as i32);
                }
                let entry = Entry { file, number };
                if self.table.fd_table(call.pid).mirrors_edges() {
                    self.mirror_edges(call.tid, &entry)?;
                }
                match self.install(call, entry, *cloexec)? {
                    Reply::Delivered => Ok(()),
                    Reply::ThreadGone => self.close_kernel_fd(call.tid, number),
                }
            }
            Continuation::HostToo if result >= 0 => self.passthrough(call),
            Continuation::Answer | Continuation::HostToo | Continuation::Descriptor { .. } => {
                self.answer(call, result)
            }
            Continuation::Close { rest, then } => {
                let (rest, then) = (std::mem::take(rest), *then);
                self.release_file(call.tid, in_flight.file);
                self.sweep_rings()?;
                self.close_all(call, rest, then)
            }
            Continuation::Sendfile(_) => self.chunk_sent(in_flight, result),
            Continuation::Splice(_) => self.splice_step_done(in_flight, result),
            Continuation::Posted { .. } => self.answer_posted(&in_flight, result),
        }
    }

    /// Sends the thread the signals that the kernel sent to its task.
    pub(crate) fn forward_signals(&mut self, tid: i32, signals: u64) {
        if signals == 0 {
            return;
        }
        let pid = self.table.pid_of(tid);
        self.signals.hint_of(pid);
        for bit in (0..64).filter(|bit| signals & 1 << bit != 0) {
            let _ = tgkill(pid, tid, bit + 1);
        }
    }

    /// Runs a call of the worker's own on the thread's task.
    fn kernel_call_for(&mut self, tid: i32, nr: i64, number: i32) -> Result<i64, Error> {
        match self.task_of(tid) {
            Ok(task) => self.kernel_call(task, nr, [number as u64, 0, 0, 0, 0, 0]),
            Err(error) => to_errno_result(error),
        }
    }

    pub(crate) fn close_kernel_fd(&mut self, tid: i32, number: i32) -> Result<(), Error> {
        self.kernel_call_for(tid, libc::SYS_close, number).map(drop)
    }

    /// Closes what the program's table had, on behalf of a call, and then goes on with that.
    pub(crate) fn close_all(
        &mut self,
        call: SyscallCtx,
        mut entries: Vec<Entry>,
        then: AfterClose,
    ) -> Result<(), Error> {
        let Some(entry) = entries.pop() else {
            return match then {
                AfterClose::Passthrough => self.passthrough(call),
                AfterClose::Dispatch => self.dispatch(call),
                AfterClose::Answer(result) => self.answer(call, result),
            };
        };
        let in_flight = InFlight {
            call,
            continuation: Continuation::Close {
                rest: entries,
                then,
            },
            file: Some(entry.file),
        };
        let args = [entry.number as u64, 0, 0, 0, 0, 0];
        self.start_in_kernel(in_flight, libc::SYS_close, args, 0, None)
    }

    /// Gives up a file that was closed in the kernel, before the program goes on to close it: the
    /// program's epoll instances forget a file when no descriptor of it is open any more.
    fn release_file(&mut self, tid: i32, file: Option<Rc<File>>) {
        if file.as_ref().is_some_and(|f| Rc::strong_count(f) == 2) {
            self.mark_held_dirty();
        }
        let last = file.and_then(|file| Rc::try_unwrap(file).ok());
        let end = last.and_then(|file| file.placeholder.release());
        self.table.close_later(tid, end);
    }

    /// Gives the program a placeholder under the lowest free number, which ends its call. If it
    /// has no room, the kernel's descriptor is closed.
    pub(crate) fn install(
        &mut self,
        call: SyscallCtx,
        entry: Entry,
        cloexec: bool,
    ) -> Result<Reply, Error> {
        let Some(listener) = self.listener(call) else {
            return Ok(Reply::ThreadGone);
        };
        let end = entry.file.placeholder.program_end();
        self.publish_time(call.tid, ThreadState::Running);
        match listener.answer_fd(call.id, end, cloexec) {
            Ok((Reply::ThreadGone, _)) => return Ok(Reply::ThreadGone),
            Ok((Reply::Delivered, fd)) => {
                self.notify_observer(call, Some(fd.into()));
                self.thread_resumed(call, Reply::Delivered, ThreadState::Running);
                // The host gives no number that is in use.
                if let Some(stale) = self.table.insert_entry(call.tid, fd, entry) {
                    self.close_kernel_fd(call.tid, stale.number)?;
                }
            }
            Err(errno) => {
                self.close_kernel_fd(call.tid, entry.number)?;
                return self
                    .answer(call, -i64::from(errno))
                    .map(|()| Reply::Delivered);
            }
        }
        Ok(Reply::Delivered)
    }

    /// Another descriptor of the kernel's for the same file. The error is the call's result.
    fn dup_entry(&mut self, tid: i32, entry: &Entry) -> Result<Result<Entry, i64>, Error> {
        entry.file.placeholder.share();
        let number = self.kernel_call_for(tid, libc::SYS_dup, entry.number)?;
        Ok(match number {
            0.. => Ok(Entry {
                file: entry.file.clone(),
                number: number as i32,
            }),
            error => Err(error),
        })
    }

    fn dup(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let new = match self.dup_entry(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return self.answer(call, result),
        };
        let number = new.number;
        if self.install(call, new, false)? == Reply::ThreadGone {
            self.close_kernel_fd(call.tid, number)?;
        }
        Ok(())
    }

    /// dup2(2) and dup3(2).
    fn dup_to(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (from, to) = (call.args[0] as i32, call.args[1] as i32);
        let flags = match kind(call.nr) {
            Kind::Dup3 => call.args[2] as i32,
            _ => 0,
        };
        let pid = call.pid;
        let table = &mut self.table.process_mut(pid).table;
        // Equal numbers and bad flags: the host's answer is right for placeholders too.
        if from == to || flags & !libc::O_CLOEXEC != 0 {
            return self.passthrough(call);
        }
        if let Some(entry) = table.get(call.args[0]) {
            return self.install_at(call, &entry, to, flags & libc::O_CLOEXEC != 0, EBADF);
        }
        self.show_to_others(call, &[from]);
        let table = &mut self.table.process_mut(pid).table;
        if let Some(ring) = table.ring() {
            ring.close_file(to);
        }
        // A host file over a Vink file, unless the host will refuse.
        let closed = match tracee::descriptor(pid, from) {
            Some(_) => table.remove(to),
            None => None,
        };
        self.close_all(call, closed.into_iter().collect(), AfterClose::Passthrough)
    }

    /// fcntl(2) with `F_DUPFD` and `F_DUPFD_CLOEXEC`.
    fn dup_from(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let pid = call.pid;
        let cloexec = call.args[1] as i32 == libc::F_DUPFD_CLOEXEC;
        let least = match i32::try_from(call.args[2]) {
            Ok(least) => least,
            Err(_) => return self.answer(call, EINVAL),
        };
        let free = (least..=i32::MAX).find(|fd| tracee::descriptor(pid, *fd).is_none());
        match free {
            // Beyond the limit, the least number allowed is a bad argument, any other too many.
            Some(fd) if fd == least => self.install_at(call, entry, fd, cloexec, EINVAL),
            Some(fd) => self.install_at(call, entry, fd, cloexec, EMFILE),
            None => self.answer(call, EMFILE),
        }
    }

    /// Gives the program another descriptor of the file under the number `to`. `beyond` is for a
    /// number beyond the program's limit.
    fn install_at(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
        to: i32,
        cloexec: bool,
        beyond: i64,
    ) -> Result<(), Error> {
        let Some(listener) = self.listener(call) else {
            return Ok(());
        };
        let new = match self.dup_entry(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return self.answer(call, result),
        };
        let end = entry.file.placeholder.program_end();
        let failure = match listener.put_fd(call.id, end, to, cloexec) {
            Ok((Reply::Delivered, _)) => {
                let old = self.table.insert_entry(call.tid, to, new);
                return self.close_all(
                    call,
                    old.into_iter().collect(),
                    AfterClose::Answer(to.into()),
                );
            }
            Ok((Reply::ThreadGone, _)) => None,
            Err(libc::EBADF) => Some(beyond),
            Err(errno) => Some(-i64::from(errno)),
        };
        self.close_kernel_fd(call.tid, new.number)?;
        match failure {
            Some(result) => self.answer(call, result),
            None => Ok(()),
        }
    }

    fn close_range(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let [first, last, flags] = [0, 1, 2].map(|n: usize| call.args[n] as u32);
        if first > last || flags & !(libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE) != 0 {
            return self.passthrough(call); // to be refused
        }
        if flags & libc::CLOSE_RANGE_UNSHARE != 0 && !self.unshare_files(call)? {
            return Ok(());
        }
        let closing = flags & libc::CLOSE_RANGE_CLOEXEC == 0;
        let table = self.table.fd_table(call.pid);
        if let Some(ring) = table.ring() {
            ring.unmark_range(first, last);
        }
        let closed = table.remove_if(|fd, _| closing && (first..=last).contains(&(fd as u32)));
        self.close_all(call, closed, AfterClose::Passthrough)
    }

    /// fork(2), vfork(2), clone(2), clone3(2).
    fn fork(&mut self, call: SyscallCtx, flags: u64) -> Result<(), Error> {
        self.placement.release(call.tid);
        if !self.may_make_network(call.tid, flags) {
            return self.answer(call, -i64::from(libc::EPERM));
        }
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.watch_fork(call, flags);
            self.placement.revoke_call_budget(&self.table, call.pid);
        }
        let done = if flags & libc::CLONE_THREAD as u64 != 0 {
            self.expect_thread(call.tid)
        } else {
            self.prepare_fork(call.tid, flags)
        };
        match done {
            Ok(()) => self.passthrough(call),
            Err(error) => {
                to_errno_result(error)?;
                self.answer(call, -i64::from(libc::EAGAIN))
            }
        }
    }
}
