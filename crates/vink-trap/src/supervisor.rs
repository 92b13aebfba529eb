//! The event loop between a kernel and the programs that are trapped for it.

use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::time::Duration;

use vink_kernel::{monotonic, Kernel};
use vink_sys::give_way::GiveWay;
use vink_sys::poll::events_of;

use crate::calls::Calls;
use crate::device::Devices;
use crate::notification::Notification;
use crate::packet_ring::PacketRings;
use crate::pids::wait_until_reaped;
use crate::placement::{Placement, RingCheck};
use crate::port_policy::Policies;
use crate::reactor::{Ready, Token};
use crate::ready::Polls;
use crate::sched::Clock;
use crate::statistics::Statistics;
use crate::status::{reap, Status};
use crate::trace::subscriber::TraceTime;
use crate::trace::Tracer;
use crate::tracee;
use crate::wire_spin::WireSpin;
use crate::Error;

/// So many times as long as a thread that computes has had this worker's processor, it is not given more
/// than Linux gives it.
const SHARE_OF_OTHERS: u32 = 8;

/// Serves programs and devices: takes events and calls, and has each call decided and concluded.
pub(crate) struct Supervisor {
    pub(crate) calls: Calls,
    pub(crate) devices: Devices,
    /// Of machines whose ports are not theirs alone.
    pub(crate) port_policies: Policies,
    /// Rings of packet sockets that programs may have mapped.
    pub(crate) packet_rings: PacketRings,
    /// Calls received in this step: program and call.
    pub(crate) received: Vec<(usize, Notification)>,
    pub(crate) polls: Polls,
    /// How far a virtual clock may go, and whether it has nowhere to go.
    pub(crate) horizon: u64,
    pub(crate) idle: bool,
    /// A descriptor of the caller's is ready.
    pub(crate) caller_fd_ready: bool,
    /// What is due by the clock may be due now.
    alarm_went_off: bool,
    pub(crate) statistics: Statistics,
    pub(crate) tracer: Option<Rc<Tracer>>,
    pub(crate) placement: Placement,
    wire_spin: WireSpin,
    /// Threads of the host that could run on this processor.
    others: GiveWay,
}

impl Supervisor {
    /// Of a kernel for which no program runs yet.
    ///
    /// # Errors
    /// [`Error::System`] if epoll_create1(2) fails.
    pub(crate) fn new(kernel: Kernel, clock: Clock) -> Result<Supervisor, Error> {
        Ok(Supervisor {
            placement: Placement::new(clock.is_virtual()),
            calls: Calls::new(kernel, clock)?,
            devices: Devices::default(),
            port_policies: Policies::default(),
            packet_rings: PacketRings::default(),
            received: Vec::new(),
            polls: Polls::default(),
            horizon: u64::MAX,
            idle: false,
            caller_fd_ready: false,
            alarm_went_off: false,
            statistics: Statistics::new(),
            tracer: None,
            wire_spin: WireSpin::default(),
            others: GiveWay::with_share(SHARE_OF_OTHERS),
        })
    }

    /// What is traced from now on happens now.
    pub(crate) fn stamp_trace(&self) {
        if let Some(tracer) = &self.tracer {
            tracer.set_time(|| TraceTime {
                time: self.calls.tasks.kernel.now(),
                packets: self.calls.tasks.kernel.reported_packets(),
            });
        }
    }

    /// See [`Worker::step`](crate::Worker::step).
    pub(crate) fn step(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        if let Some(mut time) = self.virtual_time() {
            return time.step(timeout);
        }
        if std::mem::take(&mut self.alarm_went_off) {
            self.do_what_is_due()?;
        }
        self.packet_rings.refresh(&mut self.calls.tasks.kernel)?;
        self.run_kernel()?;
        self.placement.update_contention(self.statistics.served());
        let timeout = loop {
            match self.placement.check_rings() {
                RingCheck::Serve => self.serve_rings()?,
                RingCheck::Around => break Some(Duration::ZERO),
                RingCheck::Sleep => break timeout,
            }
        };
        let has_programs = !self.calls.tasks.table.is_empty();
        let spins = !has_programs && self.calls.tasks.kernel.is_shared();
        if spins && timeout != Some(Duration::ZERO) {
            let (kernel, reactor) = (&self.calls.tasks.kernel, &self.calls.reactor);
            let due = kernel.deadline.map_or(u64::MAX, Kernel::host_time);
            let is_ready = || events_of(reactor.as_raw_fd(), libc::POLLIN, 0) != 0;
            self.wire_spin.spin(due, || kernel.is_called(), is_ready);
        }
        let may_sleep = self.may_sleep()?;
        let timeout = match may_sleep {
            true => timeout,
            false => Some(Duration::ZERO),
        };
        // One with programs sleeps at each of their calls.
        let goes_on = !has_programs && (!may_sleep || self.calls.tasks.kernel.is_due());
        let ready = self.wait_for_events(timeout)?;
        if spins {
            self.wire_spin.woken();
        }
        if goes_on {
            // Linux has a thread that this one woke wait for the next tick if it has just run, as that of
            // an idle port beside a flooded one.
            self.others.give_way(monotonic);
        }
        self.handle_events(&ready)?;
        self.calls.reactor.reuse(ready);
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
        self.calls
            .held_files
            .release(&mut self.calls.tasks, &self.calls.reactor)?;
        Ok(())
    }

    /// Waits for events, for `limit` at most, and handles all but calls, which are received. How
    /// many there were.
    pub(crate) fn poll_events(&mut self, limit: Option<Duration>) -> Result<usize, Error> {
        let ready = self.calls.reactor.wait(limit)?;
        self.handle_events(&ready)?;
        self.calls
            .held_files
            .release(&mut self.calls.tasks, &self.calls.reactor)?;
        let host_events = ready.host_events();
        self.calls.reactor.reuse(ready);
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
                    let sched = self.calls.clock.virtual_time_mut();
                    if sched.is_some_and(|sched| sched.defer_exit(pid)) {
                        if let Some(process) = self.calls.tasks.table.find_process(pid) {
                            self.calls.reactor.remove(process.pidfd.as_raw_fd());
                        }
                        continue;
                    }
                    self.on_process_exit(pid)?;
                    self.run_kernel()?;
                }
                Token::HeldFile => {
                    self.calls.held_files.mark_dirty();
                    self.calls
                        .held_files
                        .release(&mut self.calls.tasks, &self.calls.reactor)?;
                    self.run_kernel()?;
                }
                Token::Pipe(tid) => match self.calls.clock.deferred() {
                    Some(deferred) => deferred.ready_pipes.push(tid),
                    None => self.calls.tasks.on_pipe_ready(tid),
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
        if self.calls.tasks.kernel.may_sleep() {
            return Ok(true);
        }
        self.calls.tasks.kernel.dirty = true;
        self.run_kernel()?;
        Ok(false)
    }

    /// What is due by the clock. Nothing may be: the alarm was for something that is over.
    fn do_what_is_due(&mut self) -> Result<(), Error> {
        self.calls.tasks.kernel.dirty |= self.calls.tasks.kernel.is_due();
        let now = monotonic();
        self.placement.expire(now);
        match self.calls.signals.due() {
            Some(due) if due <= now => self.poll_signals(),
            _ => Ok(()),
        }
    }

    fn wait_for_events(&mut self, timeout: Option<Duration>) -> Result<Ready, Error> {
        let due = [
            self.calls.tasks.kernel.deadline.map(Kernel::host_time),
            self.calls.signals.due(),
            self.placement.due(),
        ];
        let limits = [timeout, self.packet_rings.timeout(), self.placement.limit()];
        let (due, limits) = (due.into_iter().flatten(), limits.into_iter().flatten());
        self.calls.reactor.wait_until(due.min(), limits.min())
    }

    /// If anything was started, runs the kernel until it is idle and handles all that it has to
    /// say.
    pub(crate) fn run_kernel(&mut self) -> Result<(), Error> {
        while self.calls.tasks.kernel.run_if_dirty()? {
            self.stamp_trace();
            self.drain_kernel_events()?;
        }
        self.placement.set_publish_pending(false);
        Ok(())
    }

    /// Handles all that the kernel had to say when it last ran.
    pub(crate) fn drain_kernel_events(&mut self) -> Result<(), Error> {
        self.calls.take_kernel_events();
        // A program that gets its call's result may at once look for what the call changed
        // elsewhere: all readiness is shown before any answer is sent.
        while let Some((pending, outcome)) = self.calls.finished.pop_front() {
            match self.calls.clock.virtual_time_mut() {
                Some(sched) if !sched.is_in_batch(pending.in_flight.call.tid) => {
                    sched.enqueue_completed(pending, outcome);
                }
                _ => self.conclude(pending, outcome)?,
            }
        }
        while let Some(id) = self.calls.next_ready_device() {
            self.serve_device(id)?;
        }
        Ok(())
    }

    /// One of a device's sides has something.
    fn serve_device(&mut self, id: usize) -> Result<(), Error> {
        self.calls.tasks.kernel.dirty = true;
        let place = (&mut *self.calls.tasks.kernel, &mut self.calls.reactor);
        self.devices.serve(place, id)
    }

    /// A listener has a trapped call, or hangs up when its program has ended. All calls are received
    /// before one is dispatched, since until then a signal can end them.
    fn on_listener_event(&mut self, id: usize, events: u32) -> Result<(), Error> {
        let Some(listener) = self.calls.tasks.programs[id].listener.clone() else {
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
            self.calls.reactor.remove(listener.as_fd().as_raw_fd());
            match self.calls.clock.deferred() {
                Some(deferred) => deferred.hung_up.push(id),
                None => self.on_tree_exit(id),
            }
        }
        Ok(())
    }

    /// No process of the program is left.
    pub(crate) fn on_tree_exit(&mut self, id: usize) {
        self.calls.tasks.programs[id].listener = None;
        // No process is left that lives there.
        self.calls.tasks.programs[id].namespaces = None;
        self.calls.tasks.programs.mark_changed(id);
        self.calls.held_files.mark_dirty();
        for orphan in std::mem::take(&mut self.calls.tasks.programs[id].orphans) {
            self.calls.tasks.drop_fork(orphan);
        }
    }

    /// A process has ended.
    pub(crate) fn on_process_exit(&mut self, pid: i32) -> Result<(), Error> {
        self.send_deferred_in_virtual_time(pid)?;
        let Some((pidfd, program)) = self.remove_process(pid) else {
            return Ok(());
        };
        self.packet_rings.sweep(&mut self.calls.tasks)?;
        self.calls.reactor.remove(pidfd.as_raw_fd());
        if let Some(tracer) = &self.tracer {
            tracer.died(pid);
        }
        // Its parent gets a SIGCHLD.
        let counter = self
            .calls
            .clock
            .virtual_time()
            .and_then(|sched| sched.tsc.as_ref());
        let traced = counter.map(|counter| counter.end_of(pid));
        let kin = self
            .calls
            .clock
            .virtual_time()
            .and_then(|_| tracee::tgid_and_ppid(pid));
        match kin {
            Some((_, parent)) => self.calls.signals.hint_of(parent),
            None => self.calls.signals.hint(),
        }
        let status = match traced {
            Some(status) => status.map(Status::of),
            None => reap(&pidfd),
        };
        if let Some(mut time) = self.virtual_time() {
            time.find_orphan(program)?;
        }
        let entry = &mut self.calls.tasks.programs[program];
        let first = entry.namespaces.as_ref().map(|n| n.init_pid());
        if first.is_some() && kin.map(|(_, parent)| parent) == first {
            wait_until_reaped(&pidfd);
        }
        if entry.root == pid {
            entry.status = status.or(Some(Status::Exited(0)));
            entry.failure = entry.start_page.take().and_then(|s| s.exec_failure());
            self.calls.tasks.programs.mark_changed(program);
        }
        Ok(())
    }
}
