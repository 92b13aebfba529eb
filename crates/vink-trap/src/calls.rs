//! Calls of programs that are under way: into the kernel, and back to their threads.
//!
//! A call ends by an answer ([`Calls::answer`]), or the host does it ([`Calls::passthrough_as`]). In
//! between the kernel may have it: what that says of calls and of files is taken here, and calls
//! that are done are queued to be concluded (`dispatch`).

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::rc::Rc;

use vink_abi::VINK_SPACE_SELF;
use vink_kernel::{Call, Event, Kernel, MachineId, Outcome, SendMode, TaskId};
use vink_syscalls::is_plain_io;

use crate::decision::Decision;
use crate::device;
use crate::error::to_errno_result;
use crate::fd_limit::FdLimit;
use crate::fd_table::Entry;
use crate::file::{File, FileKind};
use crate::file_holder::HeldFiles;
use crate::in_flight::{Continuation, InFlight};
use crate::notification::Reply;
use crate::reactor::Reactor;
use crate::sched::{Clock, Scheduler, ThreadState};
use crate::signal_poll::{PendingCall, SignalPoll};
use crate::splice::Transfers;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::watches::Watches;
use crate::Error;

/// What calls under way have: the tasks that make them, the clock that their threads live by, and
/// the files that they concern.
pub(crate) struct Calls {
    /// The kernel, the programs, and the tasks that stand for their threads.
    pub(crate) tasks: Tasks,
    pub(crate) clock: Clock,
    pub(crate) reactor: Reactor,
    /// When to look for signals.
    pub(crate) signals: SignalPoll,
    watches: Watches,
    /// On their way over unix sockets.
    pub(crate) held_files: HeldFiles,
    /// Between sockets and pipes or files of the host.
    pub(crate) transfers: Transfers,
    /// Calls that the kernel has done, to be concluded.
    pub(crate) finished: VecDeque<(PendingCall, Outcome)>,
    /// Devices whose kernel's side has something.
    ready_devices: Vec<usize>,
    pub(crate) fd_limit: FdLimit,
}

impl Calls {
    /// Of a kernel for which no program runs yet.
    ///
    /// # Errors
    /// [`Error::System`] if epoll_create1(2) fails.
    pub(crate) fn new(kernel: Kernel, clock: Clock) -> Result<Calls, Error> {
        Ok(Calls {
            tasks: Tasks::new(kernel),
            clock,
            reactor: Reactor::new()?,
            signals: SignalPoll::new(),
            watches: Watches::default(),
            held_files: HeldFiles::default(),
            transfers: Transfers::default(),
            finished: VecDeque::new(),
            ready_devices: Vec::new(),
            fd_limit: FdLimit::raise(),
        })
    }

    /// What becomes of a call that moves data, or asks for something, for the sake of the file that
    /// it is about; `None`: it is the kernel's as it is.
    pub(crate) fn decide_by_file(
        &mut self,
        call: SyscallCtx,
        entry: &Entry,
    ) -> Result<Option<Decision>, Error> {
        let of_copy = match &entry.file.kind {
            FileKind::Copy(_) => Some(self.tasks.io_on_copy(call, entry)?),
            FileKind::Procfs if call.nr == libc::SYS_getdents64 => {
                Some(Decision::Answer(self.tasks.getdents(call, entry)?))
            }
            _ if call.nr == libc::SYS_ioctl => self.own(call, entry)?,
            _ => None,
        };
        if of_copy.is_some() {
            return Ok(of_copy);
        }
        let result = match &entry.file.kind {
            FileKind::Procfs => self.attach_tun(call, entry)?,
            FileKind::Rtnetlink => self.tasks.send_changed(call, entry)?,
            FileKind::Copy(_) | FileKind::Plain => None,
        };
        Ok(result.map(Decision::Answer))
    }

    /// A file for a process, unless the last descriptors of the worker's are not for it.
    pub(crate) fn make_file(&self, pid: i32, kind: FileKind) -> Result<Rc<File>, Error> {
        let files = self.tasks.table.fd_table(pid).len();
        File::of_kind(self.fd_limit.below(files), kind)
    }

    /// What is waited for next, by the kernel or by a program, on the kernel's clock in ns.
    pub(crate) fn next_timer(&mut self) -> Option<u64> {
        let sched = self.clock.virtual_time_mut();
        let alarm = sched.and_then(Scheduler::next_deadline);
        let timers = [self.tasks.kernel.deadline, alarm];
        timers.into_iter().flatten().min()
    }

    /// A device whose kernel's side has something, once.
    pub(crate) fn next_ready_device(&mut self) -> Option<usize> {
        self.ready_devices.pop()
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

    /// A process of this machine has been sent a signal that is no program's.
    pub(crate) fn note_signal_from_outside(&mut self, machine: MachineId) {
        self.signals.hint();
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.kills.note_from_outside(machine);
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

    /// The kernel does it, as it is but for its own number of the file, on the program's memory.
    pub(crate) fn run_in_kernel(
        &mut self,
        call: SyscallCtx,
        stage: Continuation,
        entry: &Entry,
    ) -> Result<(), Error> {
        let mut args = call.args;
        args[0] = entry.number as u64;
        let mut space = call.tid as u64;
        let is_virtual = self.clock.is_virtual();
        if is_virtual && matches!(stage, Continuation::Answer) {
            if let Some(at) = self.tasks.take_posted_receive(call) {
                (args[1], space) = (at, VINK_SPACE_SELF);
            }
        }
        let file = Some(entry.file.clone());
        let in_flight = InFlight {
            call,
            continuation: stage,
            file,
        };
        // In real time credit that a trapped call leaves is of little use: the next one voids it.
        let gives_credit = is_virtual && entry.file.placeholder.readiness.has_entry();
        let in_kernel = Call {
            nr: call.nr,
            args,
            space,
            poll_fd: match gives_credit {
                true => Some(entry.number),
                false => entry.poll_fd(),
            },
            send_mode: match gives_credit {
                true => SendMode::ReportCredit,
                false => SendMode::Ordinary,
            },
        };
        self.start(in_flight, in_kernel)
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
        let call = Call {
            nr,
            args,
            space,
            poll_fd,
            ..Call::default()
        };
        self.start(in_flight, call)
    }

    fn start(&mut self, in_flight: InFlight, call: Call) -> Result<(), Error> {
        let of = in_flight.call;
        match self.tasks.start(&self.signals, in_flight, call)? {
            None => Ok(()),
            Some(result) => self.answer(of, result),
        }
    }

    /// Gives the program a copy of a descriptor of the worker's, which ends its call, and the number
    /// of it. `Err`: it can't have it (`EMFILE`); the call still waits.
    pub(crate) fn answer_fd(
        &mut self,
        call: SyscallCtx,
        fd: RawFd,
        cloexec: bool,
    ) -> Result<(Reply, i32), i32> {
        let (tasks, state) = (&self.tasks, ThreadState::Running);
        let Some(listener) = tasks.listener(call) else {
            return Ok((Reply::ThreadGone, -1));
        };
        self.clock.publish_time(tasks, call.tid, state);
        let (sent, new) = listener.answer_fd(call.id, fd, cloexec)?;
        if sent == Reply::Delivered {
            self.clock.notify_observer(tasks, call, Some(new.into()));
            self.clock.thread_resumed(tasks, call, sent, state);
        }
        Ok((sent, new))
    }

    /// Gives the program a placeholder under the lowest free number, which ends its call. If it
    /// has no room, the kernel's descriptor is closed.
    pub(crate) fn install(
        &mut self,
        call: SyscallCtx,
        entry: Entry,
        cloexec: bool,
    ) -> Result<Reply, Error> {
        let end = entry.file.placeholder.program_end();
        match self.answer_fd(call, end, cloexec) {
            Ok((Reply::ThreadGone, _)) => return Ok(Reply::ThreadGone),
            Ok((Reply::Delivered, fd)) => {
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
                if file.mirrors_edges.get() {
                    file.placeholder.show(events);
                }
                if let Some(credit) = outcome.credit {
                    if self.clock.is_virtual() {
                        self.tasks.void_credit(in_flight.call.pid);
                    }
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

    /// Handles the kernel's events, oldest first. Whether there was any.
    pub(crate) fn take_kernel_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.tasks.kernel.next_event() {
            any = true;
            match event {
                Event::Done(task) => self.kernel_call_done(task),
                Event::Ready { cookie, events } => match device::of_cookie(cookie) {
                    Some(id) => self.ready_devices.push(id),
                    None => self.on_kernel_readiness(cookie, events),
                },
                Event::Gone { task, .. } => {
                    self.transfers.forget(task);
                    self.tasks.rings.remove(&task);
                }
            }
        }
        any
    }

    /// A watched file has become ready: threads that wait on the host must see it.
    fn on_kernel_readiness(&mut self, cookie: u64, events: u32) {
        let Some(file) = self.watches.file(cookie) else {
            return;
        };
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.note_error(events);
        }
        file.placeholder
            .signal_edge(events, file.mirrors_edges.get());
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched.wake_watchers(cookie);
        }
        if file.owned.get() {
            self.signals.hint();
        }
    }

    /// The readiness of a Vink file now (`EPOLL*`), asked on a task that has it and no call in
    /// progress. From now on every change is an event. Earlier events are handled first: this is
    /// newer.
    pub(crate) fn watch_readiness(&mut self, task: TaskId, entry: &Entry) -> Result<u32, Error> {
        let mut result = self.watches.ask(&mut self.tasks.kernel, task, entry)?;
        // The kernel may have had events of the same file in that run, before its answer or after
        // it.
        while result >= 0 && self.take_kernel_events() {
            result = self.watches.ask(&mut self.tasks.kernel, task, entry)?;
        }
        // A file that can't be watched is as one that is always ready: a call will tell.
        Ok(u32::try_from(result).unwrap_or((libc::EPOLLIN | libc::EPOLLOUT) as u32))
    }

    /// Has a file's placeholder show every change of it, for an epoll instance that may get it. For
    /// a thread that makes a call.
    pub(crate) fn mirror_edges(&mut self, tid: i32, entry: &Entry) -> Result<(), Error> {
        if entry.file.mirrors_edges.replace(true) {
            return Ok(());
        }
        match self.tasks.task_of(tid) {
            Ok(task) => {
                let events = self.watch_readiness(task, entry)?;
                entry.file.placeholder.show(events);
                Ok(())
            }
            Err(error) => to_errno_result(error).map(drop),
        }
    }
}
