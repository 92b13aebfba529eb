//! The worker: a kernel, the programs trapped for it, and the event loop between them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use vink_abi::Counters;
use vink_kernel::{monotonic, Credentials, Event, Kernel, MachineId, Numbered, Outcome, TaskId};
use vink_sys::pidfd::{child_event, send_signal};
use vink_sys::poll::events_of;
use vink_sys::process::{getpgid, kill};
use vink_sys::rseq;
use vink_sys::signals::{is_ignored, Action};

use crate::device::{self, Devices};
use crate::fd_limit::FdLimit;
use crate::fd_table::Entry;
use crate::file_holder::HeldFiles;
use crate::filter::Purpose;
use crate::guardian::Guardian;
use crate::namespaces::{MountPlan, NamespaceConfig, Namespaces};
use crate::notification::Notification;
use crate::notify::Listener;
use crate::packet_ring::PacketRings;
use crate::pids::{open_pidfd, wait_until_reaped};
use crate::placement::{Placement, RingCheck};
use crate::port_policy::Policies;
use crate::process::Process;
use crate::program_table::{ProgramEntry, ProgramId};
use crate::reactor::{Reactor, Ready, Token};
use crate::sched::ld_so::LdSo;
use crate::sched::{Clock, Scheduler, VirtualTime};
use crate::signal_poll::{PendingCall, SignalPoll};
use crate::spawn::{spawn, NamespaceSource, Program, Spawned};
use crate::splice::Transfers;
use crate::statistics::Statistics;
use crate::status::{reap, wait_for_end, Status};
use crate::tasks::Tasks;
use crate::trace::subscriber::{TraceSubscriber, TraceTime};
use crate::trace::Tracer;
use crate::tracee;
use crate::watches::Watches;
use crate::Error;

/// Owns a [`Kernel`] and serves any number of programs on its machines. Stays on one thread; when
/// it is dropped, all its programs are killed. If it can't be, since its process is killed, the
/// host's kernel kills them: they live in PID namespaces that end with it.
pub struct Worker {
    /// The kernel, the programs, and the tasks that stand for their threads.
    pub(crate) tasks: Tasks,
    pub(crate) reactor: Reactor,
    /// What each machine is on the host, and its namespaces from the first program on.
    namespaces: Numbered<MachineId, HostSide>,
    /// There from when there are helpers.
    guardian: Option<Guardian>,
    watches: Watches,
    pub(crate) devices: Devices,
    /// Of machines whose ports are not theirs alone.
    pub(crate) port_policies: Policies,
    /// On their way over unix sockets.
    pub(crate) held_files: HeldFiles,
    /// Between sockets and pipes or files of the host.
    pub(crate) transfers: Transfers,
    /// Rings of packet sockets that programs may have mapped.
    pub(crate) packet_rings: PacketRings,
    /// Calls received in this step: program and call.
    pub(crate) received: Vec<(usize, Notification)>,
    /// Calls that the kernel has done, to be concluded.
    pub(crate) finished: VecDeque<(PendingCall, Outcome)>,
    /// When to look for signals.
    pub(crate) signals: SignalPoll,
    /// For the memory of programs.
    pub(crate) scratch: Vec<u8>,
    /// How far a virtual clock may go, and whether it has nowhere to go.
    pub(crate) horizon: u64,
    pub(crate) idle: bool,
    /// A descriptor of the caller's is ready.
    caller_fd_ready: bool,
    /// What is due by the clock may be due now.
    alarm_went_off: bool,
    pub(crate) fd_limit: FdLimit,
    pub(crate) statistics: Statistics,
    pub(crate) tracer: Option<Rc<Tracer>>,
    pub(crate) clock: Clock,
    pub(crate) placement: Placement,
}

/// A machine on the host. Programs with other credentials have other namespaces, in which they are
/// out of one another's reach: else a program could trace one that may do more.
#[derive(Default)]
struct HostSide {
    mounts: MountPlan,
    made: Vec<(Credentials, Rc<Namespaces>)>,
}

impl HostSide {
    fn namespaces(&self, credentials: Credentials) -> Option<&Rc<Namespaces>> {
        let found = self.made.iter().find(|(has, _)| *has == credentials);
        found.map(|(_, namespaces)| namespaces)
    }
}

impl Worker {
    /// A worker around a booted kernel. Raises this process's descriptor limit as far as it goes.
    ///
    /// # Errors
    /// [`Error::System`] if epoll_create1(2) fails.
    pub fn new(kernel: Kernel) -> Result<Worker, Error> {
        // Inherited as ignored, it would make children leave no status.
        if is_ignored(libc::SIGCHLD) {
            let _ = Action::DEFAULT.set(libc::SIGCHLD);
        }
        // This thread waits once for each call that is trapped.
        rseq::unregister();
        let clock = match kernel.clock() {
            vink_kernel::Clock::Real => Clock::Real,
            vink_kernel::Clock::Virtual => {
                Clock::Virtual(Box::new(Scheduler::new(VirtualTime::default())?))
            }
        };
        Ok(Worker {
            tasks: Tasks::new(kernel),
            reactor: Reactor::new()?,
            namespaces: Numbered::default(),
            guardian: None,
            devices: Devices::default(),
            port_policies: Policies::default(),
            watches: Watches::default(),
            held_files: HeldFiles::default(),
            transfers: Transfers::default(),
            packet_rings: PacketRings::default(),
            received: Vec::new(),
            finished: VecDeque::new(),
            signals: SignalPoll::new(),
            scratch: Vec::new(),
            horizon: u64::MAX,
            idle: false,
            caller_fd_ready: false,
            alarm_went_off: false,
            fd_limit: FdLimit::raise(),
            statistics: Statistics::new(),
            tracer: None,
            placement: Placement::new(clock.is_virtual()),
            clock,
        })
    }

    /// The kernel, to make machines and to configure them. Programs stand still meanwhile. Events
    /// of tasks that the caller starts calls on are taken by the worker: use `Kernel::call`.
    pub fn kernel(&mut self) -> &mut Kernel {
        self.tasks.kernel.dirty = true;
        &mut self.tasks.kernel
    }

    /// The kernel's counters.
    ///
    /// # Errors
    /// [`Error::Kernel`] after a panic.
    pub fn counters(&mut self) -> Result<Counters, Error> {
        Ok(self.tasks.kernel.counters()?)
    }

    /// How many processes and threads of programs it keeps account of, and how many tasks it has
    /// for them: none when no program is left.
    pub fn object_counts(&self) -> [usize; 3] {
        self.tasks.table.counts()
    }

    /// What was counted so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Writes a line for each system call that programs started from now on make and that concerns
    /// Vink, when it ends; with `host_too` also for those that were trapped and passed through. The
    /// thread, the arguments, the result and how long it took are shown as strace(1) does it;
    /// Vink's descriptors as `3<vink>`.
    pub fn trace_calls(&mut self, to: Box<dyn io::Write>, host_too: bool) {
        self.change_tracer(|tracer| tracer.write_to(to, host_too));
    }

    /// Reports each trapped call that programs started from now on make, when it has ended, with
    /// its thread. It costs time, for arguments are read from the program's memory.
    pub fn subscribe_to_calls(&mut self, subscriber: TraceSubscriber) {
        self.change_tracer(|tracer| tracer.subscribe(subscriber));
    }

    /// Before there are listeners that have it.
    fn change_tracer(&mut self, change: impl FnOnce(Tracer) -> Tracer) {
        let tracer = self.tracer.take().and_then(|t| Rc::try_unwrap(t).ok());
        self.tracer = Some(Rc::new(change(tracer.unwrap_or_default())));
    }

    /// What is traced from now on happens now.
    pub(crate) fn stamp_trace(&self) {
        if let Some(tracer) = &self.tracer {
            tracer.set_time(|| TraceTime {
                time: self.tasks.kernel.now(),
                packets: self.tasks.kernel.reported_packets(),
            });
        }
    }

    /// Says how programs on a machine see the system around them. Those that run already see no
    /// change, and share nothing with later ones.
    ///
    /// # Errors
    /// [`Error::Folder`].
    pub fn configure_namespaces(
        &mut self,
        machine: MachineId,
        config: &NamespaceConfig,
    ) -> Result<(), Error> {
        let side = HostSide {
            mounts: config.plan()?,
            made: Vec::new(),
        };
        self.namespaces.insert(machine, side);
        Ok(())
    }

    /// Gives up a machine, and what its programs saw of it on the host. It ends with its last
    /// program and socket.
    ///
    /// # Errors
    /// [`Error::Kernel`]: there is no such machine.
    pub fn destroy_machine(&mut self, machine: MachineId) -> Result<(), Error> {
        self.kernel().destroy_machine(machine)?;
        self.namespaces.remove(&machine);
        Ok(())
    }

    /// Starts a program on a machine. It gets going when the worker is next stepped.
    ///
    /// # Errors
    /// [`Error::System`] if the host refuses a namespace or the filter, [`Error::Namespaces`]. If
    /// the program's file can't be executed, [`Worker::wait`] fails.
    pub fn spawn(&mut self, machine: MachineId, program: Program) -> Result<ProgramId, Error> {
        let nofile = self.fd_limit.before();
        self.placement.before_spawn();
        let credentials = program.its_credentials();
        let side = self.namespaces.entry(machine).or_default();
        let source = match side.namespaces(credentials) {
            Some(namespaces) => NamespaceSource::Join(namespaces),
            None => NamespaceSource::New(&side.mounts),
        };
        let Spawned {
            pid,
            pidfd,
            listener,
            shared,
            namespaces,
        } = match (self.placement.has_rings(), self.clock.virtual_time()) {
            (has_rings, Some(sched)) => {
                let linker = LdSo::expected();
                let purpose = match has_rings {
                    true => Purpose::TimeAndSharedRing(linker),
                    false => Purpose::Time(linker),
                };
                let counter = sched.tsc.as_ref();
                spawn(&program, nofile, source, purpose, counter)?
            }
            (true, None) => self
                .placement
                .lend(|| spawn(&program, nofile, source, Purpose::SharedRing, None))?,
            (false, None) => spawn(&program, nofile, source, Purpose::Plain, None)?,
        };
        if let Some(namespaces) = namespaces {
            side.made.push((credentials, Rc::new(namespaces)));
        }
        let namespaces = side.namespaces(credentials).cloned();
        let id = self.tasks.programs.next();
        let listener = Listener::new(listener, self.tracer.clone())?;
        self.reactor
            .add_readable(listener.as_fd().as_raw_fd(), Token::Listener(id))?;
        let name = self.tasks.programs.add(ProgramEntry {
            name: program.name().to_string_lossy().into_owned(),
            machine,
            credentials,
            namespaces,
            listener: Some(Rc::new(listener)),
            root: pid,
            start_page: Some(shared),
            status: None,
            failure: None,
            orphans: Vec::new(),
        });
        self.tasks.networks.register_machine(machine, pid);
        self.tasks
            .add_process(&self.reactor, id, pid, pidfd, None)?;
        if let Some(sched) = self.clock.virtual_time_mut() {
            sched
                .shared
                .note_standard_fds(machine, program.descriptors());
            sched.process_started(pid);
        }
        Ok(name)
    }

    /// Has a child of this process, which has not been waited for, killed too if this process is
    /// killed: one that helps the worker, and may not notice.
    ///
    /// # Errors
    /// [`Error::System`] as fork(2), pidfd_open(2).
    pub fn guard_helper(&mut self, helper: &Child) -> Result<(), Error> {
        let pidfd = open_pidfd(helper.id() as i32)?;
        guardian(&mut self.guardian)?.add_helper(pidfd.as_fd());
        Ok(())
    }

    /// How the program's first process ended; `None` while it runs. What it started may run on.
    ///
    /// # Errors
    /// [`Error::CannotRun`] if it was never executed, [`Error::NoSuchProgram`].
    pub fn status(&self, program: ProgramId) -> Result<Option<Status>, Error> {
        let entry = &self.tasks.programs[self.tasks.programs.find(program)?];
        match (entry.status, entry.failure) {
            (Some(_), Some(errno)) => Err(Error::CannotRun {
                program: entry.name.clone(),
                errno,
            }),
            (status, _) => Ok(status),
        }
    }

    /// Serves all programs until this one's first process has ended.
    ///
    /// # Errors
    /// As [`Worker::status`] and [`Worker::step`].
    pub fn wait(&mut self, program: ProgramId) -> Result<Status, Error> {
        loop {
            if let Some(status) = self.status(program)? {
                return Ok(status);
            }
            self.step(None)?;
        }
    }

    /// Serves all programs until the condition holds; it is evaluated after each step.
    ///
    /// # Errors
    /// As [`Worker::step`].
    pub fn run_until(
        &mut self,
        mut condition: impl FnMut(&mut Worker) -> bool,
    ) -> Result<(), Error> {
        while !condition(self) {
            self.step(None)?;
        }
        Ok(())
    }

    /// Whether any process of the program, its first one or another, is left.
    pub fn is_alive(&self, program: ProgramId) -> bool {
        let entry = self.tasks.programs.find(program);
        entry.is_ok_and(|index| self.tasks.programs[index].is_alive())
    }

    /// A program whose first or last process has ended since this was last asked for it; see
    /// [`Worker::status`] and [`Worker::is_alive`].
    pub fn next_changed(&mut self) -> Option<ProgramId> {
        self.tasks.programs.next_changed()
    }

    /// Forgets a program of which no process is left, and its status. Nothing is kept of it.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]: it was forgotten before, or is alive; as [`Worker::step`].
    pub fn forget(&mut self, program: ProgramId) -> Result<(), Error> {
        let index = self.tasks.programs.find(program)?;
        if self.tasks.programs[index].is_alive() {
            return Err(Error::NoSuchProgram);
        }
        // Processes whose end has not been received yet: the filter's came first.
        let left = self.tasks.table.processes_in(index);
        let left: Vec<_> = left.map(|p| p.pid).collect();
        if !left.is_empty() {
            self.send_deferred()?;
        }
        for pid in left {
            self.on_process_exit(pid)?;
        }
        self.tasks.programs.forget(index);
        Ok(())
    }

    /// Sends a signal to the program's first process (kill(2)).
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`] if it has ended, [`Error::System`] for a bad signal.
    pub fn signal(&mut self, program: ProgramId, signal: i32) -> Result<(), Error> {
        let entry = &self.tasks.programs[self.tasks.programs.find(program)?];
        let process = self.tasks.table.find_process(entry.root);
        let process = process.ok_or(Error::NoSuchProgram)?;
        send_signal(&process.pidfd, signal).map_err(Error::of("pidfd_send_signal()"))?;
        self.signals.hint();
        Ok(())
    }

    /// Sends a signal to the process group that a program in a session of its own has begun with
    /// ([`Program::new_session`]), also if its first process has ended.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`] if no process is in that group any more, [`Error::System`] for a
    /// bad signal.
    pub fn signal_group(&mut self, program: ProgramId, signal: i32) -> Result<(), Error> {
        let index = self.tasks.programs.find(program)?;
        // A group has its dead, too, until they have been waited for.
        if !self.tasks.programs[index].is_alive() {
            return Err(Error::NoSuchProgram);
        }
        self.tasks.resolve_all_forks(&self.reactor, index)?;
        let group = self.tasks.programs[index].root;
        // As long as one of its members is known, the group can't be another's.
        let is_member = |p: &&Process| getpgid(p.pid) == group;
        let mut members = self.tasks.table.processes().filter(|p| p.program == index);
        members.find(is_member).ok_or(Error::NoSuchProgram)?;
        kill(-group, signal).map_err(Error::of("kill()"))?;
        self.signals.hint();
        Ok(())
    }

    /// Whether a signal has stopped the program's first process since this was last asked; as
    /// `WUNTRACED` of wait(2).
    pub fn has_stopped(&self, program: ProgramId) -> bool {
        let entry = self.tasks.programs.find(program).ok();
        let process = entry.and_then(|index| {
            self.tasks
                .table
                .find_process(self.tasks.programs[index].root)
        });
        process.is_some_and(|process| child_event(&process.pidfd, libc::WSTOPPED).is_some())
    }

    /// Kills all processes of the program and waits until they are gone.
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]; as [`Worker::step`].
    pub fn kill(&mut self, program: ProgramId) -> Result<(), Error> {
        self.tasks.programs.find(program)?;
        while self.is_alive(program) {
            self.kill_known(program)?;
            self.step(Some(Duration::from_millis(10)))?;
        }
        Ok(())
    }

    /// Kills all processes of the program that are known now, and doesn't wait. One that was
    /// forking may leave a child: to be repeated as long as [`Worker::is_alive`].
    ///
    /// # Errors
    /// [`Error::NoSuchProgram`]; as [`Worker::step`].
    pub fn kill_known(&mut self, program: ProgramId) -> Result<(), Error> {
        let index = self.tasks.programs.find(program)?;
        // A child that has made no call yet must be known to be killed.
        self.tasks.resolve_all_forks(&self.reactor, index)?;
        if let Some(mut time) = self.virtual_time() {
            return time.kill_in_order(index);
        }
        for process in self.tasks.table.processes() {
            if process.program == index {
                let _ = send_signal(&process.pidfd, libc::SIGKILL);
            }
        }
        self.signals.hint();
        Ok(())
    }

    /// Lets [`Worker::step`] also return when this descriptor is readable. It must be removed
    /// with [`Worker::unwatch_fd`] before it is closed.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub fn watch_fd(&mut self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        self.reactor.add_readable(fd.as_raw_fd(), Token::Caller)
    }

    /// The same when something can be written to it.
    ///
    /// # Errors
    /// [`Error::System`] as epoll_ctl(2).
    pub fn watch_fd_writable(&mut self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let writable = libc::EPOLLOUT as u32;
        self.reactor.add(fd.as_raw_fd(), writable, Token::Caller)
    }

    /// Whether a watched descriptor was ready in a step since this was last called.
    pub fn take_fd_ready(&mut self) -> bool {
        std::mem::take(&mut self.caller_fd_ready)
    }

    /// Undoes [`Worker::watch_fd`].
    pub fn unwatch_fd(&mut self, fd: BorrowedFd<'_>) {
        self.reactor.remove(fd.as_raw_fd());
    }

    /// Waits for something to happen, for `timeout` at most, and handles it. Returns early,
    /// without an error, when a signal handler of this process ran.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the kernel panicked: the worker is of no use any more.
    pub fn step(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        if let Some(mut time) = self.virtual_time() {
            return time.step(timeout);
        }
        if std::mem::take(&mut self.alarm_went_off) {
            self.do_what_is_due()?;
        }
        self.packet_rings.refresh(&mut self.tasks.kernel)?;
        self.run_kernel()?;
        self.placement.update_contention(self.statistics.served());
        let timeout = loop {
            match self.placement.check_rings() {
                RingCheck::Serve => self.serve_rings()?,
                RingCheck::Around => break Some(Duration::ZERO),
                RingCheck::Sleep => break timeout,
            }
        };
        let timeout = match self.may_sleep()? {
            true => timeout,
            false => Some(Duration::ZERO),
        };
        let ready = self.wait_for_events(timeout)?;
        self.handle_events(&ready)?;
        self.reactor.reuse(ready);
        // What the callers and others have sent before comes before.
        if !self.received.is_empty() {
            self.send_deferred()?;
        }
        let mut received = std::mem::take(&mut self.received);
        for (program, call) in received.drain(..) {
            self.on_syscall(program, call)?;
            self.run_kernel()?;
        }
        self.received = received;
        self.held_files.release(&mut self.tasks, &self.reactor)?;
        Ok(())
    }

    /// Waits for events, for `limit` at most, and handles all but calls, which are received. How
    /// many there were.
    pub(crate) fn poll_events(&mut self, limit: Option<Duration>) -> Result<usize, Error> {
        let ready = self.reactor.wait(limit)?;
        self.handle_events(&ready)?;
        self.held_files.release(&mut self.tasks, &self.reactor)?;
        let host_events = ready.host_events();
        self.reactor.reuse(ready);
        Ok(host_events)
    }

    /// Handles what has become ready; calls are only received.
    fn handle_events(&mut self, ready: &Ready) -> Result<(), Error> {
        let mut deferred_sent = false;
        for (token, events) in ready.iter() {
            match token {
                Token::ProcessExit(pid) => {
                    // What the dead have sent comes before their end.
                    if !std::mem::replace(&mut deferred_sent, true) {
                        self.send_deferred()?;
                    }
                    let sched = self.clock.virtual_time_mut();
                    if sched.is_some_and(|sched| sched.defer_exit(pid)) {
                        if let Some(process) = self.tasks.table.find_process(pid) {
                            self.reactor.remove(process.pidfd.as_raw_fd());
                        }
                        continue;
                    }
                    self.on_process_exit(pid)?;
                    self.run_kernel()?;
                }
                Token::HeldFile => {
                    self.held_files.mark_dirty();
                    self.held_files.release(&mut self.tasks, &self.reactor)?;
                    self.run_kernel()?;
                }
                Token::Pipe(tid) => match self.clock.deferred() {
                    Some(deferred) => deferred.ready_pipes.push(tid),
                    None => self.tasks.on_pipe_ready(tid),
                },
                Token::Device(id) => {
                    self.serve_device(id)?;
                    self.run_kernel()?;
                }
                Token::Alarm => self.alarm_went_off = true,
                Token::Caller => self.caller_fd_ready = true,
                Token::Listener(id) => self.on_listener_event(id, events)?,
            }
        }
        Ok(())
    }

    /// Whether other processes that share a wire with this one have nothing for it; what they have
    /// is seen to.
    fn may_sleep(&mut self) -> Result<bool, Error> {
        if self.tasks.kernel.may_sleep() {
            return Ok(true);
        }
        self.tasks.kernel.dirty = true;
        self.run_kernel()?;
        Ok(false)
    }

    /// What is due by the clock. Nothing may be: the alarm was for something that is over.
    fn do_what_is_due(&mut self) -> Result<(), Error> {
        self.tasks.kernel.dirty |= self
            .tasks
            .kernel
            .deadline
            .is_some_and(|t| t <= self.tasks.kernel.now());
        let now = monotonic();
        self.placement.expire(now);
        match self.signals.due() {
            Some(due) if due <= now => self.poll_signals(),
            _ => Ok(()),
        }
    }

    fn wait_for_events(&mut self, timeout: Option<Duration>) -> Result<Ready, Error> {
        let due = [
            self.tasks.kernel.deadline.map(Kernel::host_time),
            self.signals.due(),
            self.placement.due(),
        ];
        let limits = [timeout, self.packet_rings.timeout(), self.placement.limit()];
        let (due, limits) = (due.into_iter().flatten(), limits.into_iter().flatten());
        self.reactor.wait_until(due.min(), limits.min())
    }

    /// If anything was started, runs the kernel until it is idle and handles all that it has to
    /// say.
    pub(crate) fn run_kernel(&mut self) -> Result<(), Error> {
        while self.tasks.kernel.run_if_dirty()? {
            self.stamp_trace();
            self.drain_kernel_events()?;
        }
        self.placement.set_publish_pending(false);
        Ok(())
    }

    /// Handles all that the kernel had to say when it last ran.
    pub(crate) fn drain_kernel_events(&mut self) -> Result<(), Error> {
        self.take_kernel_events();
        // A program that gets its call's result may at once look for what the call changed
        // elsewhere: all readiness is shown before any answer is sent.
        while let Some((pending, outcome)) = self.finished.pop_front() {
            match self.clock.virtual_time_mut() {
                Some(sched) if !sched.is_in_batch(pending.in_flight.call.tid) => {
                    sched.enqueue_completed(pending, outcome);
                }
                _ => self.conclude(pending, outcome)?,
            }
        }
        while let Some(id) = self.devices.next_ready() {
            self.serve_device(id)?;
        }
        Ok(())
    }

    /// One of a device's sides has something.
    fn serve_device(&mut self, id: usize) -> Result<(), Error> {
        self.tasks.kernel.dirty = true;
        let place = (&mut *self.tasks.kernel, &mut self.reactor);
        self.devices.serve(place, id)
    }

    /// Handles the kernel's events, oldest first. Whether there was any.
    fn take_kernel_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.tasks.kernel.next_event() {
            any = true;
            match event {
                Event::Done(task) => self.kernel_call_done(task),
                Event::Ready { cookie, events } => match device::of_cookie(cookie) {
                    Some(id) => self.devices.note_ready(id),
                    None => self.on_kernel_readiness(cookie, events),
                },
                Event::Gone { task, .. } => {
                    self.transfers.forget(task);
                }
            }
        }
        any
    }

    /// A listener has a trapped call, or hangs up when its program has ended. All calls are received
    /// before one is dispatched, since until then a signal can end them.
    fn on_listener_event(&mut self, id: usize, events: u32) -> Result<(), Error> {
        let Some(listener) = self.tasks.programs[id].listener.clone() else {
            return Ok(());
        };
        if events & libc::EPOLLIN as u32 != 0 {
            let call = listener.receive().map_err(|e| Error::System {
                what: "receiving a seccomp notification",
                errno: e.raw_os_error().unwrap_or(libc::EIO),
            })?;
            self.received.extend(call.map(|call| (id, call)));
            return Ok(());
        }
        if events & libc::EPOLLHUP as u32 != 0 {
            self.reactor.remove(listener.as_fd().as_raw_fd());
            match self.clock.deferred() {
                Some(deferred) => deferred.hung_up.push(id),
                None => self.on_tree_exit(id),
            }
        }
        Ok(())
    }

    /// No process of the program is left.
    pub(crate) fn on_tree_exit(&mut self, id: usize) {
        self.tasks.programs[id].listener = None;
        // No process is left that lives there.
        self.tasks.programs[id].namespaces = None;
        self.tasks.programs.mark_changed(id);
        self.held_files.mark_dirty();
        for orphan in std::mem::take(&mut self.tasks.programs[id].orphans) {
            self.tasks.drop_fork(orphan);
        }
    }

    /// A process has ended.
    pub(crate) fn on_process_exit(&mut self, pid: i32) -> Result<(), Error> {
        let Some((pidfd, program)) = self.remove_process(pid) else {
            return Ok(());
        };
        self.packet_rings.sweep(&mut self.tasks)?;
        self.reactor.remove(pidfd.as_raw_fd());
        if let Some(tracer) = &self.tracer {
            tracer.died(pid);
        }
        // Its parent gets a SIGCHLD.
        let counter = self
            .clock
            .virtual_time()
            .and_then(|sched| sched.tsc.as_ref());
        let traced = counter.map(|counter| counter.end_of(pid));
        let kin = self
            .clock
            .virtual_time()
            .and_then(|_| tracee::tgid_and_ppid(pid));
        match kin {
            Some((_, parent)) => self.signals.hint_of(parent),
            None => self.signals.hint(),
        }
        let status = match traced {
            Some(status) => status.map(Status::of),
            None => reap(&pidfd),
        };
        if let Some(mut time) = self.virtual_time() {
            time.find_orphan(program)?;
        }
        let entry = &mut self.tasks.programs[program];
        let first = entry.namespaces.as_ref().map(|n| n.init_pid());
        if first.is_some() && kin.map(|(_, parent)| parent) == first {
            wait_until_reaped(&pidfd);
        }
        if entry.root == pid {
            entry.status = status.or(Some(Status::Exited(0)));
            entry.failure = entry.start_page.take().and_then(|s| s.exec_failure());
            self.tasks.programs.mark_changed(program);
        }
        Ok(())
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
}

impl AsRawFd for Worker {
    /// Readable when [`Worker::step`] has something to do other than what its clocks tell, of which it
    /// may be readable, too: the kernel's timers, and looking for signals while calls wait.
    fn as_raw_fd(&self) -> RawFd {
        self.reactor.as_raw_fd()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The kernel may be dead: only the host is asked.
        for id in 0..self.tasks.programs.len() {
            for _ in 0..100 {
                for child in self.tasks.table.unknown_children(id) {
                    // The process is a child of one that is still there.
                    let _ = kill(child, libc::SIGKILL);
                }
                for process in self.tasks.table.processes().filter(|p| p.program == id) {
                    let _ = send_signal(&process.pidfd, libc::SIGKILL);
                }
                let Some(listener) = &self.tasks.programs[id].listener else {
                    break;
                };
                if has_hung_up(listener.as_fd()) {
                    break;
                }
            }
        }
        for process in self.tasks.table.processes() {
            wait_for_end(&process.pidfd);
            reap(&process.pidfd);
        }
    }
}

/// The guardian, from when there is something to guard.
fn guardian(place: &mut Option<Guardian>) -> Result<&Guardian, Error> {
    Ok(match place {
        Some(guardian) => guardian,
        none => none.insert(Guardian::start()?),
    })
}

/// Waits a little for the last process under a filter to go.
fn has_hung_up(listener: BorrowedFd<'_>) -> bool {
    events_of(listener.as_raw_fd(), 0, 10) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::File;
    use vink_kernel::{find_image, Config, Image};

    const IN: u32 = libc::EPOLLIN as u32;

    /// A worker whose machine has its loopback interface up, and a task.
    fn worker() -> (Worker, TaskId) {
        let built = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../build/libvink-linux-6.12.so"
        );
        let path = find_image().unwrap_or_else(|_| built.into());
        let mut kernel = Kernel::boot(Image::open(&path).unwrap(), Config::default()).unwrap();
        let machine = kernel.machine("m").unwrap();
        let task = kernel.task(machine).unwrap();
        (Worker::new(kernel).unwrap(), task)
    }

    fn call(w: &mut Worker, task: TaskId, nr: i64, args: [u64; 6]) -> i64 {
        w.kernel().call(task, nr, args).unwrap()
    }

    #[test]
    fn an_older_readiness_is_not_shown_after_a_newer_answer() {
        let (mut w, task) = worker();
        let mut ends = [-1i32; 2];
        let kind = libc::SOCK_DGRAM as u64;
        let args = [
            libc::AF_UNIX as u64,
            kind,
            0,
            ends.as_mut_ptr() as u64,
            0,
            0,
        ];
        assert_eq!(call(&mut w, task, libc::SYS_socketpair, args), 0);
        let file = File::new(i32::MAX).unwrap();
        let number = ends[0];
        let entry = Entry { file, number };
        let (full, empty) = ([number as u64, 1], [ends[1] as u64, 1]);
        let mut byte = [0u8];
        let at = byte.as_mut_ptr() as u64;
        let transfer = |w: &mut Worker, nr, [fd, len]: [u64; 2]| {
            assert_eq!(call(w, task, nr, [fd, at, len, 0, 0, 0]), 1);
        };
        let events = w.watch_readiness(task, &entry).unwrap();
        entry.file.placeholder.show(events);
        w.run_kernel().unwrap();
        assert_eq!(entry.file.placeholder.shown() & IN, 0);

        // That it is readable is an event, which has not been handled.
        transfer(&mut w, libc::SYS_write, empty);
        transfer(&mut w, libc::SYS_read, full);
        let events = w.watch_readiness(task, &entry).unwrap();
        assert_eq!(events & IN, 0);
        entry.file.placeholder.show(events);
        w.run_kernel().unwrap();
        assert_eq!(entry.file.placeholder.shown() & IN, 0);

        // And the other way round: the event has been handled, and it is still true.
        transfer(&mut w, libc::SYS_write, empty);
        let events = w.watch_readiness(task, &entry).unwrap();
        assert_ne!(events & IN, 0);
        entry.file.placeholder.show(events);
        w.run_kernel().unwrap();
        assert_ne!(entry.file.placeholder.shown() & IN, 0);
    }

    #[test]
    fn a_file_that_could_not_be_watched_is_watched_later() {
        let (mut w, task) = worker();
        let socket = [libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64, 0, 0, 0, 0];
        let number = call(&mut w, task, libc::SYS_socket, socket) as i32;
        let file = File::new(i32::MAX).unwrap();
        let entry = Entry { file, number };
        let limit = |w: &mut Worker, most: u64| {
            let limit = [most, 4096];
            let at = (&raw const limit) as u64;
            let args = [0, libc::RLIMIT_NOFILE.into(), at, 0, 0, 0];
            assert_eq!(call(w, task, libc::SYS_prlimit64, args), 0);
        };
        // The watch takes a descriptor for a moment.
        limit(&mut w, number as u64 + 1);
        assert_ne!(w.watch_readiness(task, &entry).unwrap() & IN, 0);
        assert_eq!(entry.file.cookie.get(), 0);
        limit(&mut w, 64);
        assert_eq!(w.watch_readiness(task, &entry).unwrap() & IN, 0);
        assert_ne!(entry.file.cookie.get(), 0);
    }
}
