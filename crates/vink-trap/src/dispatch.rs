//! Answering a trapped call: the host does it, the kernel does it, or it is about descriptors.

use std::rc::Rc;

use vink_kernel::{Call, Outcome, TaskId};
use vink_ring::HOST;
use vink_sys::errno::{EINVAL, EMFILE, ENFILE, ENOSYS};

use crate::aio;
use crate::decision::Decision;
use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::file::{File, FileKind};
use crate::in_flight::{AfterClose, Continuation, InFlight};
use crate::notification::{Notification, Reply};
use crate::packet_ring::PacketRings;
use crate::restorer;
use crate::sched::ThreadState;
use crate::signal_poll::PendingCall;
use crate::splice::Place;
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
        let known = self.tasks.table.find_pid(call.tid);
        let pid = match known {
            Some(pid) => Some(pid),
            None => self.tasks.ensure_thread(&self.reactor, program, call.tid)?,
        };
        let Some(pid) = pid else {
            if let Some(listener) = &self.tasks.programs[program].listener {
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
            if let Some(ring) = self.tasks.table.fd_table(pid).ring() {
                ring.count_trap();
            }
        }
        self.stamp_trace();
        if let Some(tracer) = &self.tracer {
            let process = self.tasks.table.process(call.pid);
            let machine = self
                .tasks
                .kernel
                .machine_name(process.machine)
                .unwrap_or("?");
            let is_vink = |fd| process.table.get(fd as u64).is_some();
            tracer.begin(call.notification, pid, machine, &is_vink);
        }
        self.dispatch(call)
    }

    /// Decides on a call.
    pub(crate) fn dispatch(&mut self, call: SyscallCtx) -> Result<(), Error> {
        if !self.tasks.table.begin_call(call.tid) {
            // That thread is dead, and its number has passed to one that executed.
            self.end_thread(call.tid);
            self.tasks.table.reuse_number(call.pid, call.tid);
        }
        let pid = call.pid;
        if self.tasks.table.process(pid).needs_update && !self.update_process(call)? {
            return Ok(());
        }
        if !self.held_files.is_empty() && self.tasks.table.process(pid).table.may_have_received() {
            self.adopt_named(call)?;
        }
        if let Some(mut time) = self.virtual_time() {
            if time.on_virtual_syscall(call)? {
                return Ok(());
            }
        }
        let table = self.tasks.table.fd_table(pid);
        let first = table.get(call.args[0]);
        match kind(call.nr) {
            Kind::Io => match first {
                Some(entry)
                    if !self.packet_rings.is_empty() && PacketRings::are_changed_by(call) =>
                {
                    self.packet_rings.sweep(&mut self.tasks)?;
                    self.run_in_kernel(call, Continuation::Answer, &entry)
                }
                Some(entry) => {
                    let is_answered = match &entry.file.kind {
                        FileKind::Copy(_) => {
                            let decision = self.tasks.io_on_copy(call, &entry)?;
                            return self.carry_out(call, decision);
                        }
                        FileKind::Procfs if call.nr == libc::SYS_getdents64 => {
                            let result = self.tasks.getdents(call, &entry)?;
                            return self.answer(call, result);
                        }
                        _ if call.nr == libc::SYS_ioctl && self.own(call, &entry)? => true,
                        FileKind::Procfs => self.attach_tun(call, &entry)?,
                        FileKind::Rtnetlink => match self.tasks.send_changed(call, &entry)? {
                            Some(result) => return self.answer(call, result),
                            None => false,
                        },
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
                None => {
                    let result = match self.tasks.table.give_terminal_back(call) {
                        None => self.tasks.ask_about_interfaces(call)?,
                        given => given,
                    };
                    if let Some(result) = result {
                        return self.answer(call, result);
                    }
                    self.passthrough_io(call)
                }
            },
            Kind::Bind => match first {
                Some(entry) if entry.file.copy().is_some() => {
                    let decision = self.tasks.io_on_copy(call, &entry)?;
                    self.carry_out(call, decision)
                }
                Some(entry) => {
                    let process = self.tasks.table.process(pid);
                    let asks = !self.port_policies.is_empty() && !process.has_changed_netns;
                    let policies = &self.port_policies;
                    let refused = match asks {
                        true => policies.refuse(&mut self.tasks, call, &entry)?,
                        false => None,
                    };
                    if let Some(result) = refused {
                        return self.answer(call, result);
                    }
                    if self.placement.has_rings() {
                        self.poll_ring_after(call, &entry)?;
                    }
                    self.run_in_kernel(call, Continuation::Answer, &entry)
                }
                None => self.passthrough_io(call),
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
                    let full = || {
                        File::new(
                            self.fd_limit
                                .below(self.tasks.table.fd_table(call.pid).len()),
                        )
                        .is_err()
                    };
                    if !tracee::has_room(pid, &self.tasks.table.process(pid).pidfd) {
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
                    if let Some(ring) = self.tasks.table.fd_table(call.pid).ring() {
                        ring.close_file(call.args[0] as i32);
                    }
                    self.passthrough(call)
                }
            },
            Kind::CloseRange => {
                let decision = self.tasks.close_range(&mut self.statistics, call)?;
                self.carry_out(call, decision)
            }
            Kind::Dup => match first {
                Some(entry) => self.dup(call, &entry),
                None => {
                    table.show_to_others(call, &[call.args[0] as i32]);
                    self.passthrough(call)
                }
            },
            Kind::Dup2 | Kind::Dup3 => {
                let decision = self.tasks.dup_to(call)?;
                self.carry_out(call, decision)
            }
            Kind::Fcntl => match (first, call.args[1] as i32) {
                (Some(entry), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    let decision = self.tasks.dup_from(call, &entry)?;
                    self.carry_out(call, decision)
                }
                (Some(entry), _) if self.own(call, &entry)? => Ok(()),
                (Some(entry), _) => self.run_in_kernel(call, Continuation::Answer, &entry),
                (None, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    let table = self.tasks.table.fd_table(pid);
                    table.show_to_others(call, &[call.args[0] as i32]);
                    self.passthrough(call)
                }
                (None, _) => self.passthrough(call),
            },
            Kind::Open => self.open(call),
            Kind::LookUp => match self.tasks.look_up(self.clock.is_virtual(), call)? {
                Some(result) => self.answer(call, result),
                None => self.stat_on_host(call),
            },
            Kind::Fstat => match first.filter(|entry| entry.file.is_procfs()) {
                Some(entry) => self.run_in_kernel(call, Continuation::Answer, &entry),
                None => self.stat_on_host(call),
            },
            Kind::Chdir => {
                let decision = self.tasks.chdir(self.clock.is_virtual(), call)?;
                self.carry_out(call, decision)
            }
            Kind::Fchdir => match first {
                Some(entry) if entry.file.is_procfs() => {
                    let path = tracee::directory(pid, call.args[0] as i32);
                    let has = path.is_some_and(|path| path != b"/");
                    let decision = self.tasks.table.chdir_on_host(pid, has);
                    self.carry_out(call, decision)
                }
                _ => self.passthrough(call),
            },
            Kind::Poll => self.poll(call),
            Kind::Select => self.select(call),
            Kind::EpollCreate => self.epoll_create(call),
            Kind::Mmap => {
                let decision = self.packet_rings.mmap(&mut self.tasks, call)?;
                self.carry_out(call, decision)
            }
            of @ (Kind::Sendfile | Kind::Splice) => {
                let place = &mut Place {
                    tasks: &mut self.tasks,
                    signals: &mut self.signals,
                    reactor: &self.reactor,
                };
                let decision = match of {
                    Kind::Splice => self.transfers.splice(place, call)?,
                    _ => self.transfers.sendfile(place, call)?,
                };
                self.carry_out(call, decision)
            }
            Kind::Fork => self.fork(call, 0),
            Kind::Clone => self.fork(call, call.args[0]),
            // Unreadable flags: the host will say so.
            Kind::Clone3 => match tracee::read_u64(call.tid, call.args[0]) {
                Some(flags) => self.fork(call, flags),
                None => self.passthrough(call),
            },
            Kind::Exec => {
                self.placement.release(call.tid);
                let process = self.tasks.table.process_mut(pid);
                process.executing = Some(call.tid);
                process.needs_update = true;
                process.table.close_ring();
                if process.has_changed_netns {
                    // It goes on as the first thread, from where it is.
                    process.may_change_netns.push(pid);
                }
                if process.threaded {
                    self.tasks.cancel_other_calls(pid, call.tid);
                    self.run_kernel()?;
                }
                self.passthrough(call)
            }
            Kind::Unshare if !self.tasks.may_make_network(call.tid, call.args[0]) => {
                self.answer(call, -i64::from(libc::EPERM))
            }
            Kind::Unshare => {
                if call.args[0] & libc::CLONE_NEWNET as u64 != 0 {
                    self.tasks.table.expect_netns_change(call.tid);
                }
                let unshares = call.args[0] & libc::CLONE_FILES as u64 != 0;
                let refused = match unshares {
                    true => self.tasks.unshare_files(&mut self.statistics, call)?,
                    false => None,
                };
                match refused {
                    Some(result) => self.answer(call, result),
                    None => self.passthrough(call),
                }
            }
            Kind::Setns => {
                self.tasks.table.expect_netns_change(call.tid);
                self.passthrough(call)
            }
            Kind::Exit => {
                let listener = self.tasks.listener(call);
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
                self.signals.forward(pid, call.tid, 1 << (libc::SIGSYS - 1));
                self.carry_out(call, Decision::Unsupported(ENOSYS))
            }
            Kind::Affinity => {
                self.placement.on_affinity_call(call.nr);
                self.passthrough(call)
            }
            Kind::Submit => {
                let decision = match aio::submits_vink_file(call, self.tasks.table.fd_table(pid)) {
                    true => Decision::Unsupported(EINVAL),
                    false => Decision::Host,
                };
                self.carry_out(call, decision)
            }
            Kind::Sigaction => {
                restorer::set(call);
                self.passthrough(call)
            }
            Kind::Kill => match self.tasks.signal_own_group(&self.reactor, call)? {
                Some(result) => {
                    self.signals.hint();
                    self.answer(call, result)
                }
                None => self.passthrough(call),
            },
            Kind::Uring | Kind::Other => self.passthrough(call),
        }
    }

    /// Does what was decided of a call.
    pub(crate) fn carry_out(&mut self, call: SyscallCtx, decision: Decision) -> Result<(), Error> {
        match decision {
            Decision::Done => Ok(()),
            Decision::Answer(result) => self.answer(call, result),
            Decision::Unsupported(result) => {
                self.statistics.count_unsupported(call.nr);
                self.answer(call, result)
            }
            Decision::Host => self.passthrough(call),
            Decision::Close(entries, then) => self.close_all(call, entries, then),
        }
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
        self.clock.notify_observer(&self.tasks, call, None);
        self.clock.publish_time(&self.tasks, call.tid, state);
        if let Some(listener) = self.tasks.listener(call) {
            let sent = listener.continue_call(call.id);
            self.clock.thread_resumed(&self.tasks, call, sent, state);
        }
        Ok(())
    }

    /// A call that asks for the times of a file of the host's.
    pub(crate) fn stat_on_host(&mut self, call: SyscallCtx) -> Result<(), Error> {
        if let Some(sched) = self.clock.virtual_time_mut() {
            let date = self.tasks.kernel.date(self.tasks.kernel.now()) as i64;
            if let Some(result) = sched.file_times.stat(call, date) {
                return self.answer(call, result);
            }
        }
        self.passthrough(call)
    }

    /// The host does it, and Vink files may travel with it.
    fn passthrough_io(&mut self, call: SyscallCtx) -> Result<(), Error> {
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        if self.placement.has_rings() && self.held_files.is_empty() && !self.clock.is_virtual() {
            if let Some(ring) = self.tasks.table.fd_table(call.pid).ring() {
                ring.mark(call.args[0] as i32, HOST);
            }
        }
        let Some(state) = self.block_or_passthrough(call)? else {
            return Ok(());
        };
        // Files travel in messages.
        match shapes(call.nr) {
            Some([_, Shape::InMessage | Shape::InMessages(_), ..]) => self.hold_sent_files(call)?,
            Some([_, Shape::OutMessage | Shape::OutMessages, ..]) => {
                self.tasks.table.fd_table(call.pid).set_may_have_received();
            }
            _ => {}
        }
        self.passthrough_as(call, state)
    }

    /// This is the result.
    pub(crate) fn answer(&mut self, call: SyscallCtx, result: i64) -> Result<(), Error> {
        if let Some(listener) = self.tasks.listener(call) {
            self.clock.notify_observer(&self.tasks, call, Some(result));
            self.clock
                .publish_time(&self.tasks, call.tid, ThreadState::Running);
            let sent = listener.answer(call.id, result);
            self.clock
                .thread_resumed(&self.tasks, call, sent, ThreadState::Running);
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
        let (of, call) = (
            in_flight.call,
            Call {
                nr,
                args,
                space,
                poll_fd,
                ..Call::default()
            },
        );
        match self.tasks.start(&self.signals, in_flight, call)? {
            None => Ok(()),
            Some(result) => self.answer(of, result),
        }
    }

    /// A task's call is done: shows the readiness that it left, and queues it to be finished.
    pub(crate) fn kernel_call_done(&mut self, task: TaskId) {
        let Some(tid) = self.tasks.table.thread_of(task) else {
            return;
        };
        let is_busy = self.tasks.table.pending(tid).is_some();
        let outcome = is_busy.then(|| self.tasks.kernel.poll(task));
        if let Some(outcome) = outcome.flatten() {
            self.finish_kernel_call(tid, outcome);
        }
    }

    /// The same of a thread's call, which has ended so.
    pub(crate) fn finish_kernel_call(&mut self, tid: i32, outcome: Outcome) {
        let in_flight = self.tasks.table.take_pending(tid);
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
                    self.held_files.mark_dirty();
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
        if !self.tasks.table.has_thread(tid) {
            return Ok(());
        }
        let call = pending.in_flight.call;
        self.signals.forward(call.pid, tid, outcome.signals);
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
                let file = File::of_kind(
                    self.fd_limit
                        .below(self.tasks.table.fd_table(call.pid).len()),
                    kind,
                );
                self.fd_limit.note(file.is_ok());
                let Ok(file) = file else {
                    self.tasks.close_fd(call.tid, number)?;
                    return self.answer(call, ENFILE);
                };
                if call.nr == libc::SYS_timerfd_create {
                    file.timer.set(call.args[0] as i32);
                }
                let entry = Entry { file, number };
                if self.tasks.table.fd_table(call.pid).mirrors_edges() {
                    self.mirror_edges(call.tid, &entry)?;
                }
                match self.install(call, entry, *cloexec)? {
                    Reply::Delivered => Ok(()),
                    Reply::ThreadGone => self.tasks.close_fd(call.tid, number),
                }
            }
            Continuation::HostToo if result >= 0 => self.passthrough(call),
            Continuation::Answer | Continuation::HostToo | Continuation::Descriptor { .. } => {
                self.answer(call, result)
            }
            Continuation::Close { rest, then } => {
                let (rest, then) = (std::mem::take(rest), *then);
                // The file is given up before the program goes on to close it: the program's epoll
                // instances forget a file when no descriptor of it is open any more.
                let file = in_flight.file;
                if file.as_ref().is_some_and(|f| Rc::strong_count(f) == 2) {
                    self.held_files.mark_dirty();
                }
                let last = file.and_then(|file| Rc::try_unwrap(file).ok());
                let end = last.and_then(|file| file.placeholder.release());
                self.tasks.table.close_later(call.tid, end);
                self.packet_rings.sweep(&mut self.tasks)?;
                self.close_all(call, rest, then)
            }
            Continuation::Sendfile(_) | Continuation::Splice(_) => {
                let place = &mut Place {
                    tasks: &mut self.tasks,
                    signals: &mut self.signals,
                    reactor: &self.reactor,
                };
                let transfers = &mut self.transfers;
                let decision = match in_flight.continuation {
                    Continuation::Sendfile(_) => transfers.chunk_sent(place, in_flight, result)?,
                    _ => {
                        if let Some(sched) = self.clock.virtual_time_mut() {
                            sched.note_host_io();
                        }
                        transfers.splice_step_done(place, in_flight, result)?
                    }
                };
                self.carry_out(call, decision)
            }
            Continuation::Posted { .. } => self.answer_posted(&in_flight, result),
        }
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

    /// Gives the program a placeholder under the lowest free number, which ends its call. If it
    /// has no room, the kernel's descriptor is closed.
    pub(crate) fn install(
        &mut self,
        call: SyscallCtx,
        entry: Entry,
        cloexec: bool,
    ) -> Result<Reply, Error> {
        let Some(listener) = self.tasks.listener(call) else {
            return Ok(Reply::ThreadGone);
        };
        let end = entry.file.placeholder.program_end();
        self.clock
            .publish_time(&self.tasks, call.tid, ThreadState::Running);
        match listener.answer_fd(call.id, end, cloexec) {
            Ok((Reply::ThreadGone, _)) => return Ok(Reply::ThreadGone),
            Ok((Reply::Delivered, fd)) => {
                self.clock
                    .notify_observer(&self.tasks, call, Some(fd.into()));
                self.clock.thread_resumed(
                    &self.tasks,
                    call,
                    Reply::Delivered,
                    ThreadState::Running,
                );
                // The host gives no number that is in use.
                if let Some(stale) = self.tasks.table.insert_entry(call.tid, fd, entry) {
                    self.tasks.close_fd(call.tid, stale.number)?;
                }
            }
            Err(errno) => {
                self.tasks.close_fd(call.tid, entry.number)?;
                return self
                    .answer(call, -i64::from(errno))
                    .map(|()| Reply::Delivered);
            }
        }
        Ok(Reply::Delivered)
    }

    fn dup(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let new = match self.tasks.dup_entry(call.tid, entry)? {
            Ok(new) => new,
            Err(result) => return self.answer(call, result),
        };
        let number = new.number;
        if self.install(call, new, false)? == Reply::ThreadGone {
            self.tasks.close_fd(call.tid, number)?;
        }
        Ok(())
    }

    /// fork(2), vfork(2), clone(2), clone3(2).
    fn fork(&mut self, call: SyscallCtx, flags: u64) -> Result<(), Error> {
        self.placement.release(call.tid);
        if !self.tasks.may_make_network(call.tid, flags) {
            return self.answer(call, -i64::from(libc::EPERM));
        }
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.watch_fork(call, flags);
            self.placement
                .revoke_call_budget(&self.tasks.table, call.pid);
        }
        let done = if flags & libc::CLONE_THREAD as u64 != 0 {
            self.tasks.expect_thread(call.tid)
        } else {
            self.tasks.prepare_fork(call.tid, flags)
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
