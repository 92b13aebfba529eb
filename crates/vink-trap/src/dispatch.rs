//! Answering a trapped call: the host does it, the kernel does it, or it is about descriptors.

use std::rc::Rc;

use vink_kernel::Outcome;
use vink_ring::HOST;
use vink_sys::errno::{EINVAL, EMFILE, ENFILE, ENOSYS};

use crate::aio;
use crate::calls::Calls;
use crate::decision::Decision;
use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::file::FileKind;
use crate::in_flight::{AfterClose, Continuation, InFlight};
use crate::notification::{Notification, Reply};
use crate::packet_ring::PacketRings;
use crate::restorer;
use crate::sched::ThreadState;
use crate::signal_poll::PendingCall;
use crate::splice::Place;
use crate::supervisor::Supervisor;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee;
use crate::Error;
use vink_syscalls::{kind, shapes, Kind, Shape};

impl Supervisor {
    /// A call has been trapped.
    pub(crate) fn on_syscall(&mut self, program: usize, call: Notification) -> Result<(), Error> {
        self.statistics.count_trapped(call.nr);
        self.placement.count_call(call.tid);
        let known = self.calls.tasks.table.find_pid(call.tid);
        let pid = match known {
            Some(pid) => Some(pid),
            None => self
                .calls
                .tasks
                .ensure_thread(&self.calls.reactor, program, call.tid)?,
        };
        let Some(pid) = pid else {
            if let Some(listener) = &self.calls.tasks.programs[program].listener {
                listener.continue_call(call.id);
            }
            return Ok(());
        };
        let call = SyscallCtx {
            notification: call,
            pid,
            program,
        };
        if self.placement.has_rings() && !self.calls.clock.is_virtual() {
            if let Some(ring) = self.calls.tasks.table.fd_table(pid).ring() {
                ring.count_trap();
            }
        }
        self.stamp_trace();
        if let Some(tracer) = &self.tracer {
            let process = self.calls.tasks.table.process(call.pid);
            let machine = self
                .calls
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
        if !self.calls.tasks.table.begin_call(call.tid) {
            // That thread is dead, and its number has passed to one that executed.
            self.end_thread(call.tid);
            self.calls.tasks.table.reuse_number(call.pid, call.tid);
        }
        let pid = call.pid;
        if self.calls.tasks.table.process(pid).needs_update && !self.update_process(call)? {
            return Ok(());
        }
        let table = self.calls.tasks.table.fd_table(pid);
        if !self.calls.held_files.is_empty() && table.may_have_received() {
            self.calls.adopt_named(call)?;
        }
        if let Some(mut time) = self.virtual_time() {
            if time.on_virtual_syscall(call)? {
                return Ok(());
            }
        }
        let table = self.calls.tasks.table.fd_table(pid);
        let first = table.get(call.args[0]);
        match kind(call.nr) {
            Kind::Io => match first {
                Some(entry)
                    if !self.packet_rings.is_empty() && PacketRings::are_changed_by(call) =>
                {
                    self.packet_rings.sweep(&mut self.calls.tasks)?;
                    self.calls.run_in_kernel(call, Continuation::Answer, &entry)
                }
                Some(entry) => {
                    if let Some(decision) = self.calls.decide_by_file(call, &entry)? {
                        return self.carry_out(call, decision);
                    }
                    if self.placement.has_rings() {
                        self.poll_ring_after(call, &entry)?;
                    }
                    self.calls.run_in_kernel(call, Continuation::Answer, &entry)
                }
                None if self.lend(call)? => Ok(()),
                None => {
                    let result = match self.calls.tasks.table.give_terminal_back(call) {
                        None => self.calls.tasks.ask_about_interfaces(call)?,
                        given => given,
                    };
                    if let Some(result) = result {
                        return self.calls.answer(call, result);
                    }
                    self.passthrough_io(call)
                }
            },
            Kind::Bind => match first {
                Some(entry) if entry.file.copy().is_some() => {
                    let decision = self.calls.tasks.io_on_copy(call, &entry)?;
                    self.carry_out(call, decision)
                }
                Some(entry) => {
                    let process = self.calls.tasks.table.process(pid);
                    let asks = !self.port_policies.is_empty() && !process.has_changed_netns;
                    let policies = &self.port_policies;
                    let refused = match asks {
                        true => policies.refuse(&mut self.calls.tasks, call, &entry)?,
                        false => None,
                    };
                    if let Some(result) = refused {
                        return self.calls.answer(call, result);
                    }
                    if self.placement.has_rings() {
                        self.poll_ring_after(call, &entry)?;
                    }
                    self.calls.run_in_kernel(call, Continuation::Answer, &entry)
                }
                None if call.nr == libc::SYS_getdents64 => self.getdents_on_host(call),
                None => self.passthrough_io(call),
            },
            Kind::Socket => {
                let cloexec = call.args[1] & libc::SOCK_CLOEXEC as u64 != 0;
                self.calls.make_descriptor(call, call.args, cloexec)
            }
            Kind::Accept => match first {
                Some(entry) => {
                    let flags = match call.nr {
                        libc::SYS_accept4 => call.args[3],
                        _ => 0,
                    };
                    let cloexec = flags & libc::SOCK_CLOEXEC as u64 != 0;
                    // Not to take a connection that could not be given.
                    let full = || self.calls.make_file(pid, FileKind::Plain).is_err();
                    if !tracee::has_room(pid, &self.calls.tasks.table.process(pid).pidfd) {
                        self.calls.answer(call, EMFILE)
                    } else if self.calls.fd_limit.is_tight() && full() {
                        self.calls.answer(call, ENFILE)
                    } else {
                        self.calls
                            .run_in_kernel(call, Continuation::Descriptor { cloexec }, &entry)
                    }
                }
                None => self.passthrough(call),
            },
            Kind::Close => match table.remove(call.args[0] as i32) {
                Some(entry) => self.close_all(call, vec![entry], AfterClose::Passthrough),
                None => {
                    if let Some(ring) = self.calls.tasks.table.fd_table(call.pid).ring() {
                        ring.close_file(call.args[0] as i32);
                    }
                    self.passthrough(call)
                }
            },
            Kind::CloseRange => {
                let decision = self.calls.tasks.close_range(&mut self.statistics, call)?;
                self.carry_out(call, decision)
            }
            Kind::Dup => match first {
                Some(entry) => self.calls.dup(call, &entry, false),
                None => {
                    table.show_to_others(call, &[call.args[0] as i32]);
                    self.passthrough(call)
                }
            },
            Kind::Dup2 | Kind::Dup3 => {
                let decision = self.calls.tasks.dup_to(call)?;
                self.carry_out(call, decision)
            }
            Kind::Fcntl => match (first, call.args[1] as i32) {
                (Some(entry), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    let decision = self.calls.dup_from(call, &entry)?;
                    self.carry_out(call, decision)
                }
                (Some(entry), _) => match self.calls.own(call, &entry)? {
                    Some(decision) => self.carry_out(call, decision),
                    None => self.calls.run_in_kernel(call, Continuation::Answer, &entry),
                },
                (None, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                    let table = self.calls.tasks.table.fd_table(pid);
                    table.show_to_others(call, &[call.args[0] as i32]);
                    self.passthrough(call)
                }
                (None, _) => self.passthrough(call),
            },
            Kind::Open => {
                let decision = self.calls.open(call)?;
                self.carry_out(call, decision)
            }
            Kind::LookUp => {
                let is_virtual = self.calls.clock.is_virtual();
                match self.calls.tasks.look_up(is_virtual, call)? {
                    Some(result) => self.calls.answer(call, result),
                    None => self.stat_on_host(call),
                }
            }
            Kind::Fstat => match first.filter(|entry| entry.file.is_procfs()) {
                Some(entry) => self.calls.run_in_kernel(call, Continuation::Answer, &entry),
                None => self.stat_on_host(call),
            },
            Kind::Chdir => {
                let is_virtual = self.calls.clock.is_virtual();
                let decision = self.calls.tasks.chdir(is_virtual, call)?;
                self.carry_out(call, decision)
            }
            Kind::Fchdir => match first {
                Some(entry) if entry.file.is_procfs() => {
                    let path = tracee::directory(pid, call.args[0] as i32);
                    let has = path.is_some_and(|path| path != b"/");
                    let decision = self.calls.tasks.table.chdir_on_host(pid, has);
                    self.carry_out(call, decision)
                }
                _ => self.passthrough(call),
            },
            Kind::Poll | Kind::Select => self.poll(call),
            Kind::EpollCreate => {
                self.calls.epoll_create(call)?;
                self.passthrough(call)
            }
            Kind::Mmap => {
                let decision = self.packet_rings.mmap(&mut self.calls.tasks, call)?;
                self.carry_out(call, decision)
            }
            of @ (Kind::Sendfile | Kind::Splice) => {
                let place = &mut Place {
                    tasks: &mut self.calls.tasks,
                    signals: &mut self.calls.signals,
                    reactor: &self.calls.reactor,
                };
                let decision = match of {
                    Kind::Splice => self.calls.transfers.splice(place, call)?,
                    _ => self.calls.transfers.sendfile(place, call)?,
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
                let process = self.calls.tasks.table.process_mut(pid);
                process.executing = Some(call.tid);
                process.needs_update = true;
                process.table.close_ring();
                if process.has_changed_netns {
                    // It goes on as the first thread, from where it is.
                    process.may_change_netns.push(pid);
                }
                if process.threaded {
                    self.calls.tasks.cancel_other_calls(pid, call.tid);
                    self.run_kernel()?;
                }
                self.passthrough(call)
            }
            Kind::Unshare if !self.calls.tasks.may_make_network(call.tid, call.args[0]) => {
                self.calls.answer(call, -i64::from(libc::EPERM))
            }
            Kind::Unshare => {
                if call.args[0] & libc::CLONE_NEWNET as u64 != 0 {
                    self.calls.tasks.table.expect_netns_change(call.tid);
                }
                let unshares = call.args[0] & libc::CLONE_FILES as u64 != 0;
                let refused = match unshares {
                    true => self.calls.tasks.unshare_files(&mut self.statistics, call)?,
                    false => None,
                };
                match refused {
                    Some(result) => self.calls.answer(call, result),
                    None => self.passthrough(call),
                }
            }
            Kind::Setns => {
                self.calls.tasks.table.expect_netns_change(call.tid);
                self.passthrough(call)
            }
            Kind::Exit => {
                let listener = self.calls.tasks.listener(call);
                let is_virtual = self.calls.clock.is_virtual();
                let number = is_virtual.then(|| tracee::ns_pid(call.tid));
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
                let signals = 1 << (libc::SIGSYS - 1);
                self.calls.signals.forward(pid, call.tid, signals);
                self.carry_out(call, Decision::Unsupported(ENOSYS))
            }
            Kind::Affinity => {
                self.placement.on_affinity_call(call.nr);
                self.passthrough(call)
            }
            Kind::Submit => {
                let decision = match aio::submits_vink_file(call, table) {
                    true => Decision::Unsupported(EINVAL),
                    false => Decision::Host,
                };
                self.carry_out(call, decision)
            }
            Kind::Sigaction => {
                restorer::set(call);
                self.passthrough(call)
            }
            Kind::Kill => {
                let Calls { tasks, reactor, .. } = &mut self.calls;
                match tasks.signal_own_group(reactor, call)? {
                    Some(result) => {
                        self.calls.signals.hint();
                        self.calls.answer(call, result)
                    }
                    None => self.passthrough(call),
                }
            }
            Kind::Uring | Kind::Other => self.passthrough(call),
        }
    }

    /// poll(2), select(2) and the like.
    pub(crate) fn poll(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let served = self.statistics.served();
        let place = (&mut self.calls, &mut self.placement, served);
        let decision = match kind(call.nr) {
            Kind::Poll => self.polls.poll(place, call)?,
            _ => self.polls.select(place, call)?,
        };
        self.carry_out(call, decision)
    }

    /// Does what was decided of a call.
    pub(crate) fn carry_out(&mut self, call: SyscallCtx, decision: Decision) -> Result<(), Error> {
        match decision {
            Decision::Done => Ok(()),
            Decision::Answer(result) => self.calls.answer(call, result),
            Decision::Unsupported(result) => {
                self.statistics.count_unsupported(call.nr);
                self.calls.answer(call, result)
            }
            Decision::Host => self.passthrough(call),
            Decision::Close(entries, then) => self.close_all(call, entries, then),
        }
    }

    /// The host does it.
    pub(crate) fn passthrough(&mut self, call: SyscallCtx) -> Result<(), Error> {
        match self.block_or_passthrough(call)? {
            Some(state) => self.calls.passthrough_as(call, state),
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

    /// A call that asks for the times of a file of the host's.
    pub(crate) fn stat_on_host(&mut self, call: SyscallCtx) -> Result<(), Error> {
        if let Some(sched) = self.calls.clock.virtual_time_mut() {
            let date = self.calls.tasks.kernel.date(self.calls.tasks.kernel.now()) as i64;
            if let Some(result) = sched.host_files.stat(call, date) {
                return self.calls.answer(call, result);
            }
        }
        self.passthrough(call)
    }

    /// A call that lists a directory of the host's.
    fn getdents_on_host(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let Calls { tasks, clock, .. } = &mut self.calls;
        if let Some(sched) = clock.virtual_time_mut() {
            if let Some(directory) = tasks.table.borrow_descriptor(call.tid, call.args[0]) {
                let result = sched.host_files.getdents(call, &directory);
                return self.calls.answer(call, result);
            }
        }
        self.passthrough_io(call)
    }

    /// The host does it, and Vink files may travel with it.
    fn passthrough_io(&mut self, call: SyscallCtx) -> Result<(), Error> {
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        if self.placement.has_rings()
            && self.calls.held_files.is_empty()
            && !self.calls.clock.is_virtual()
        {
            if let Some(ring) = self.calls.tasks.table.fd_table(call.pid).ring() {
                ring.mark(call.args[0] as i32, HOST);
            }
        }
        let Some(state) = self.block_or_passthrough(call)? else {
            return Ok(());
        };
        // Files travel in messages.
        match shapes(call.nr) {
            Some([_, Shape::InMessage | Shape::InMessages(_), ..]) => {
                self.calls.hold_sent_files(call)?
            }
            Some([_, Shape::OutMessage | Shape::OutMessages, ..]) => {
                self.calls
                    .tasks
                    .table
                    .fd_table(call.pid)
                    .set_may_have_received();
            }
            _ => {}
        }
        self.calls.passthrough_as(call, state)
    }

    /// Goes on with a call that is done in the kernel.
    pub(crate) fn conclude(&mut self, pending: PendingCall, outcome: Outcome) -> Result<(), Error> {
        let tid = pending.in_flight.call.tid;
        // Its process may have been retired by the conclusion of another call.
        if !self.calls.tasks.table.has_thread(tid) {
            return Ok(());
        }
        let call = pending.in_flight.call;
        self.calls.signals.forward(call.pid, tid, outcome.signals);
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
                let file = self.calls.make_file(call.pid, kind);
                self.calls.fd_limit.note(file.is_ok());
                let Ok(file) = file else {
                    self.calls.tasks.close_fd(call.tid, number)?;
                    return self.calls.answer(call, ENFILE);
                };
                if call.nr == libc::SYS_timerfd_create {
                    file.timer.set(call.args[0] as i32);
                }
                let entry = Entry { file, number };
                if self.calls.tasks.table.fd_table(call.pid).mirrors_edges() {
                    self.calls.mirror_edges(call.tid, &entry)?;
                }
                match self.calls.install(call, entry, *cloexec)? {
                    Reply::Delivered => Ok(()),
                    Reply::ThreadGone => self.calls.tasks.close_fd(call.tid, number),
                }
            }
            Continuation::HostToo if result >= 0 => self.passthrough(call),
            Continuation::Answer | Continuation::HostToo | Continuation::Descriptor { .. } => {
                self.calls.answer(call, result)
            }
            Continuation::Close { rest, then } => {
                let (rest, then) = (std::mem::take(rest), *then);
                // The file is given up before the program goes on to close it: the program's epoll
                // instances forget a file when no descriptor of it is open any more.
                let file = in_flight.file;
                if file.as_ref().is_some_and(|f| Rc::strong_count(f) == 2) {
                    self.calls.held_files.mark_dirty();
                }
                let last = file.and_then(|file| Rc::try_unwrap(file).ok());
                let end = last.and_then(|file| file.placeholder.release());
                self.calls.tasks.table.close_later(call.tid, end);
                self.packet_rings.sweep(&mut self.calls.tasks)?;
                self.close_all(call, rest, then)
            }
            Continuation::Sendfile(_) | Continuation::Splice(_) => {
                let place = &mut Place {
                    tasks: &mut self.calls.tasks,
                    signals: &mut self.calls.signals,
                    reactor: &self.calls.reactor,
                };
                let transfers = &mut self.calls.transfers;
                let decision = match in_flight.continuation {
                    Continuation::Sendfile(_) => transfers.chunk_sent(place, in_flight, result)?,
                    _ => {
                        if let Some(sched) = self.calls.clock.virtual_time_mut() {
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
                AfterClose::Answer(result) => self.calls.answer(call, result),
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
        self.calls
            .start_in_kernel(in_flight, libc::SYS_close, args, 0, None)
    }

    /// fork(2), vfork(2), clone(2), clone3(2).
    fn fork(&mut self, call: SyscallCtx, flags: u64) -> Result<(), Error> {
        self.placement.release(call.tid);
        if !self.calls.tasks.may_make_network(call.tid, flags) {
            return self.calls.answer(call, -i64::from(libc::EPERM));
        }
        if let Some(sched) = self.calls.clock.virtual_time_mut() {
            sched.watch_fork(call, flags);
            self.placement
                .revoke_call_budget(&self.calls.tasks.table, call.pid);
        }
        let done = if flags & libc::CLONE_THREAD as u64 != 0 {
            self.calls.tasks.expect_thread(call.tid)
        } else {
            self.calls.tasks.prepare_fork(call.tid, flags)
        };
        match done {
            Ok(()) => self.passthrough(call),
            Err(error) => {
                to_errno_result(error)?;
                self.calls.answer(call, -i64::from(libc::EAGAIN))
            }
        }
    }
}
