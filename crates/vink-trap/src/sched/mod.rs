//! Virtual time for programs: one thread of a machine runs at a time, and the clock jumps when none
//! can.
//!
//! # Theory of operation
//!
//! The filter of such programs traps all calls but those that can neither block nor see the time
//! (`untrapped`). So the worker knows of each thread whether it is *running* (until its next call
//! is received or it dies) or *blocked* (its call has been received and not been answered). Nothing
//! is decided while any thread is running. Then the thread at the head of the *run queue* is
//! scheduled: its call is dispatched and answered, and it keeps running, call after call, until a
//! call of it blocks or its time slice ends. Threads of other machines in the run queue may run
//! beside it, as a *batch* (`batch`), if their calls are independent (`conflict`): they compute in
//! parallel, and their calls are dispatched one after the other. The run queue is in the order in
//! which threads became runnable, so that a run repeats; with a seed, one of them is drawn. When
//! the run queue is empty, the clock jumps to the kernel's next timer, the next deadline of a
//! blocked thread, or the next timer of a program (`timers`).
//!
//! # Blocked threads
//!
//! The handler of a call that has to wait outside the kernel calls [`Scheduler::block`]. It says until
//! when ([`BlockCondition::deadline`]) and what is answered then ([`BlockCondition::on_timeout`];
//! `None`: the call is dispatched again, and finds by [`Scheduler::deadline`] that its deadline has
//! passed). Blocked threads are never polled. Code that makes a condition true calls
//! [`Scheduler::wake`], which puts the thread in the run queue, either with a result or to be
//! dispatched again. A list of blocked calls names them by thread and by [`Notification::id`], and
//! asks [`waits_in`]: a call also ends by its deadline, a signal or a death. A signal
//! ends it as [`BlockCondition::on_signal`] says.
//!
//! Calls that wait in the kernel are the kernel's: `Thread::pending`. Threads that wait for
//! descriptors of the host are blocked with copies of these in an epoll instance of the worker's
//! (`host_fds`), which is polled after anything that may have changed one. A call that blocks on
//! the host unexpectedly is found there by its thread's state (`thread_states`), and so is its
//! continuation.
//!
//! New threads and processes are running from the moment of their creation (`fork_watch`).

mod batch;
mod call_budget;
mod clock;
mod conflict;
mod deferred;
pub(crate) mod determinism;
mod emulate;
mod executed;
mod fd_cache;
mod fork_watch;
mod kill_barrier;
mod livelock;
mod pending_signal_cache;
mod signals;
mod syscalls;
mod thread_states;
mod tracees;
mod virtual_worker;
mod wait_log;

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use vink_kernel::{Kernel, MachineId, Numbered, Outcome};
use vink_sched::batch::Batch;
use vink_sched::block::{BlockCondition, Deadlines, ERESTARTNOHAND};
use vink_sched::futex::Futexes;
use vink_sched::livelock::{Livelock, Runaways, Stall};
use vink_sched::run_queue::{Queued, RunQueue};
use vink_sched::timers::Timers;
use vink_sys::poll::{poll, wanted};

use crate::notification::{Notification, Reply};
use crate::process_table::ProcessTable;
use crate::signal_poll::{PendingCall, SignalPoll};
use crate::syscall_ctx::SyscallCtx;
use crate::tracee::STALL_TIMEOUT;
use crate::Error;
use vink_syscalls::{blocks, is_plain_io, kind, sched_class, Blocks, Kind, Sched};

pub(crate) use clock::Clock;
use deferred::Deferred;
use determinism::vvar::ClockPages;
use emulate::locks::Locks;
use emulate::polled_fd::PolledFd;
use emulate::wait_children::Parents;
use fd_cache::HostFds;
use tracees::Memories;
pub(crate) use virtual_worker::VirtualWorker;
use wait_log::LastCall;

/// After so many jumps the host's events are polled, even if the host has done nothing for a
/// program.
const JUMPS_PER_POLL: u32 = 64;
/// After so many jumps it is checked again whether a process outside has sent a thread a signal
/// that it blocks.
const JUMPS_PER_SIGNAL_CHECK: u32 = 1024;
/// Jumps in one step with no thread running.
const MAX_JUMPS: u32 = 256;

/// How virtual time passes.
#[derive(Clone, Debug, Default)]
pub struct VirtualTime {
    /// Draws which of the runnable threads comes next; `None`: the one that became runnable first.
    pub seed: Option<u64>,
    /// What computing costs.
    pub charge: Charge,
    /// The processor's time stamp counter (rdtsc, rdtscp) is the virtual clock, too: a tick for
    /// each ns, and some for each look. Programs are traced for that (ptrace(2)), and can't trace
    /// each other.
    pub tsc: bool,
}

/// What programs' computing costs in virtual time: nothing, but for these.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// Each trapped system call; by count, so that runs repeat.
    pub call: Duration,
    /// How much processor time a thread may use without a system call while all others wait for it.
    /// From then on time passes for it as on the host's clock, and the others go on; later its
    /// process has 20 ms each time.
    pub cpu_budget: Duration,
}

impl Default for Charge {
    /// Nothing for a call, and half a minute.
    fn default() -> Charge {
        Charge {
            call: Duration::ZERO,
            cpu_budget: Duration::from_secs(30),
        }
    }
}

/// Why nothing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It does.
    Running,
    /// A signal from outside may have ended processes: the caller of `step` is to see that before
    /// time passes.
    Killed,
    /// The calls that [`Worker::allow_calls`](crate::Worker::allow_calls) gave are used up.
    Held,
    /// The clock is at its horizon, or no thread waits for any time.
    Idle,
    /// A thread is a runaway, and the clock keeps to the host's.
    Paced,
}

/// A blocked thread.
struct BlockedThread {
    call: SyscallCtx,
    condition: BlockCondition,
    /// It is in the run queue.
    is_queued: bool,
    /// Descriptors of the host that it waits for: in the set for as long as they are here.
    polled: Vec<PolledFd>,
    /// When it must be called to write down the rest of its sleep: where to.
    remaining_at: u64,
    /// A file of the kernel's that it waits for may have become ready.
    kernel_file_ready: bool,
}

impl BlockedThread {
    /// Whether it waits in this call, and has not been woken.
    fn waits_in(&self, id: u64) -> bool {
        self.call.id == id && !self.is_queued
    }
}

/// What a running thread is expected to do, and so how soon it is checked when no call of it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// It runs, as far as is known.
    Running,
    /// Its call may wait in the host.
    MayBlock,
    /// It waits for a process outside, and time stands still meanwhile.
    WaitsOutside,
    /// It waits for its child's exec or end (vfork(2)).
    InVfork,
    /// ... which this child may be at; the exec may fail.
    VforkReleased(i32),
    /// As `Runs`; its number may become its process's.
    InExec,
}

/// A thread that may be running.
struct RunningThread {
    tid: i32,
    pid: i32,
    state: ThreadState,
}

/// What can go on.
enum Runnable {
    /// A call that has not been dispatched yet, and its program.
    Syscall(usize, Notification),
    /// The kernel is done.
    Completed(Box<(PendingCall, Outcome)>),
    /// A blocked call: to be answered like this, or dispatched again.
    Woken(SyscallCtx, Option<i64>),
    /// A blocked call whose thread has a signal pending that only the host can deliver.
    HostSignal(SyscallCtx),
}

impl Queued for Runnable {
    fn tid(&self) -> i32 {
        match self {
            Runnable::Syscall(_, call) => call.tid,
            Runnable::Woken(call, _) | Runnable::HostSignal(call) => call.tid,
            Runnable::Completed(done) => done.0.in_flight.call.tid,
        }
    }
}

/// The state of virtual time.
pub(crate) struct Scheduler {
    config: VirtualTime,
    /// What programs are given of it.
    prngs: determinism::prng::Prngs,
    pub(crate) host_files: determinism::host_files::HostFiles,
    /// If programs find the clock in their processor, too.
    pub(crate) tsc: Option<Arc<determinism::tsc::VirtualTsc>>,
    /// The threads that are scheduled.
    batch: Batch<Runnable>,
    deferred: Deferred,
    /// What machines share with one another, or with the outside.
    pub(crate) shared: conflict::Shared,
    running: Vec<RunningThread>,
    /// Threads that wait in the host although their calls passed through: with their processes.
    blocked_on_host: Vec<(i32, i32)>,
    /// Parents in vfork(2), and their children.
    vforked: Vec<(i32, i32)>,
    pub(crate) kills: kill_barrier::Kills,
    arrived: Vec<(usize, Notification)>,
    run_queue: RunQueue<Runnable>,
    /// Threads that a signal has come for while they were in the run queue: to be checked when they
    /// are scheduled.
    signal_checks: HashSet<i32>,
    blocked: Numbered<i32, BlockedThread>,
    /// Threads blocked for a file of the kernel's, by its cookie.
    watchers: Numbered<u64, Vec<(i32, u64)>>,
    /// Descriptors of the host's that blocked threads wait for, and what is known of others.
    fds: HostFds,
    /// Something may have become true of the host's files.
    host_fds_dirty: bool,
    /// The host has done something for a program since the worker's events were last polled with
    /// all threads blocked.
    host_ran: bool,
    jumps: u32,
    deadlines: Deadlines,
    futexes: Futexes,
    memories: Memories,
    timers: Timers,
    parents: Parents,
    locks: Locks,
    /// Calls that the host begins anew after a signal without a handler, by thread: number and
    /// arguments, and the deadline that stays.
    restarts: Numbered<i32, ((i64, [u64; 6]), u64)>,
    /// A program has made a signalfd(2).
    any_signalfd: bool,
    /// A program has asked for signals that files send.
    any_file_signals: bool,
    /// A file has had an error that its placeholder can't show.
    any_file_error: bool,
    /// Threads in the order of their creation.
    serials: Numbered<i32, u64>,
    last_serial: u64,
    /// The deadline of the call that is dispatched again.
    resumed_deadline: Option<Option<u64>>,
    /// Waits without an event since a thread last began to run.
    empty_waits: u32,
    stall: Stall,
    runaways: Runaways,
    livelock: Livelock,
    status_files: thread_states::StatusFiles,
    /// What processes read of the clock, and of their CPU time.
    pub(crate) clocks: ClockPages,
    warned: HashSet<i32>,
    pub(crate) calls_left: Option<u64>,
    pub(crate) max_jumps: u32,
    /// Last calls, for messages.
    last_calls: BTreeMap<i32, LastCall>,
    /// What was logged last: the time, and a line for each thread.
    logged_waits: Option<(String, Vec<String>)>,
    pub(crate) observer: Option<Observer>,
}

/// Is called for each call of a program in virtual time when it is answered: just before, but for a
/// new descriptor.
pub type Observer = Box<dyn FnMut(&Called)>;

/// A call that is being answered, in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Called {
    /// The kernel's clock, in ns.
    pub time: u64,
    /// Of the program.
    pub machine: MachineId,
    /// Which of the worker's threads it is, in the order of their creation: the same in each run.
    pub thread: u64,
    /// The host's number of the thread, by which its memory can be read.
    pub tid: i32,
    /// The system call's number.
    pub nr: i64,
    /// Its arguments.
    pub args: [u64; 6],
    /// `None`: the host does it.
    pub result: Option<i64>,
}

impl Scheduler {
    pub(crate) fn new(how: VirtualTime) -> Result<Scheduler, Error> {
        Ok(Scheduler {
            prngs: determinism::prng::Prngs::default(),
            host_files: determinism::host_files::HostFiles::new()?,
            tsc: None,
            config: how,
            batch: Batch::default(),
            deferred: Deferred::default(),
            shared: conflict::Shared::default(),
            running: Vec::new(),
            blocked_on_host: Vec::new(),
            vforked: Vec::new(),
            kills: kill_barrier::Kills::default(),
            arrived: Vec::new(),
            run_queue: RunQueue::default(),
            signal_checks: HashSet::new(),
            blocked: Numbered::default(),
            watchers: Numbered::default(),
            fds: HostFds::new()?,
            host_fds_dirty: false,
            host_ran: true,
            jumps: 0,
            deadlines: Deadlines::default(),
            futexes: Futexes::default(),
            memories: Memories::default(),
            timers: Timers::default(),
            parents: Parents::default(),
            locks: Locks::default(),
            restarts: Numbered::default(),
            any_signalfd: false,
            any_file_signals: false,
            any_file_error: false,
            serials: Numbered::default(),
            last_serial: 0,
            resumed_deadline: None,
            empty_waits: 0,
            stall: Stall::default(),
            runaways: Runaways::default(),
            livelock: Livelock::default(),
            status_files: thread_states::StatusFiles::default(),
            clocks: ClockPages::default(),
            warned: HashSet::new(),
            calls_left: None,
            max_jumps: MAX_JUMPS,
            last_calls: BTreeMap::new(),
            logged_waits: None,
            observer: None,
        })
    }

    /// The thread's place in the order of creation.
    fn serial(&mut self, tid: i32) -> u64 {
        let last = &mut self.last_serial;
        *self.serials.entry(tid).or_insert_with(|| {
            *last += 1;
            *last
        })
    }

    /// From now on the thread is waited for.
    fn add_running(&mut self, tid: i32, pid: i32, state: ThreadState) {
        self.empty_waits = 0;
        self.running.push(RunningThread { tid, pid, state });
    }

    fn has_arrived(&self, tid: i32) -> bool {
        self.arrived.iter().any(|(_, call)| call.tid == tid)
    }

    fn is_running(&self, tid: i32) -> bool {
        self.running.iter().any(|running| running.tid == tid)
    }

    /// Whether the thread is scheduled: its calls may be concluded.
    pub(crate) fn is_in_batch(&self, tid: i32) -> bool {
        self.batch.index_of(tid).is_some()
    }

    /// The kernel is done with a call whose thread is not in the batch.
    pub(crate) fn enqueue_completed(&mut self, pending: PendingCall, outcome: Outcome) {
        let done = Runnable::Completed(Box::new((pending, outcome)));
        self.run_queue.push(done);
    }

    /// No running thread needs to be waited for: one can be scheduled, or none is running.
    fn can_go_on(&self) -> bool {
        let next = self.batch.has_pending() && self.calls_left != Some(0);
        next || self.running.is_empty()
    }

    /// No thread is running but those that read what comes from outside.
    pub(crate) fn waits_for_input(&self) -> bool {
        let reads = |running: &RunningThread| {
            let last = self.last_calls.get(&running.tid).map(|last| last.nr);
            let is_read = last.is_some_and(|nr| is_plain_io(nr) && blocks(nr) == Blocks::Reads);
            running.state == ThreadState::WaitsOutside && is_read
        };
        !self.running.is_empty() && self.running.iter().all(reads)
    }
}

impl Scheduler {
    /// How virtual time passes, before the first program is started.
    pub(crate) fn configure(&mut self, how: VirtualTime) {
        self.run_queue.set_seed(how.seed);
        self.tsc = how.tsc.then(Arc::default);
        self.clocks.are_hidden = !how.charge.call.is_zero();
        self.config = how;
    }

    /// Whether threads could go on, but for [`Worker::allow_calls`](crate::Worker::allow_calls).
    pub(crate) fn is_held(&self) -> bool {
        self.calls_left == Some(0) && self.running.is_empty()
    }
}

impl VirtualWorker<'_> {
    /// [`Worker::step`](crate::Worker::step) in virtual time.
    pub(crate) fn step(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        let worker = &mut *self.worker;
        worker
            .packet_rings
            .refresh(&mut worker.calls.tasks.kernel)?;
        let stood = std::mem::take(&mut self.worker.idle);
        match self.advance()? {
            Progress::Killed => self.handle_deferred(),
            Progress::Running if self.worker.calls.clock.sched().can_go_on() => Ok(()),
            Progress::Running | Progress::Paced => self.wait_for_running(timeout),
            Progress::Held => self.wait_for_outside(timeout).map(drop),
            Progress::Idle if stood => {
                self.worker.idle = !self.wait_for_outside(timeout)?;
                Ok(())
            }
            Progress::Idle => {
                self.worker.idle = true;
                Ok(())
            }
        }
    }

    /// Schedules threads and lets time pass until a thread is running or nothing can go on.
    fn advance(&mut self) -> Result<Progress, Error> {
        let mut jumps = 0;
        let mut granted = false;
        loop {
            self.run_kernel()?;
            let sched = self.worker.calls.clock.sched_mut();
            if granted && !sched.running.is_empty() {
                // The caller of `step` may act before the next member of the batch.
                return Ok(Progress::Running);
            }
            let held = sched.calls_left == Some(0);
            if let Some(runnable) = sched.batch.next_member(held) {
                if let Some(allowed) = &mut sched.calls_left {
                    *allowed -= 1;
                }
                self.schedule(runnable)?;
                granted = true;
                continue;
            }
            if !sched.running.is_empty() {
                return Ok(Progress::Running);
            }
            if held && sched.batch.has_pending() {
                return Ok(Progress::Held);
            }
            let from_outside = sched.kills.take_from_outside();
            if self.wait_for_kills()? {
                match from_outside {
                    true => return Ok(Progress::Killed),
                    false => continue,
                }
            }
            self.enqueue_arrived()?;
            let sched = self.worker.calls.clock.sched_mut();
            if !sched.running.is_empty() || self.worker.calls.tasks.kernel.dirty {
                continue;
            }
            if sched.calls_left == Some(0) {
                return Ok(Progress::Held);
            }
            let worker = &mut *self.worker;
            let has_batches = worker.calls.held_files.is_empty();
            let sched = worker.calls.clock.sched_mut();
            if sched.begin_batch(
                (&worker.calls.tasks.table, &worker.calls.tasks.programs),
                has_batches,
            ) {
                continue;
            }
            jumps += 1;
            if jumps > sched.max_jumps {
                return Ok(Progress::Running);
            }
            sched.jumps = sched.jumps.wrapping_add(1);
            if std::mem::take(&mut sched.host_ran) || sched.jumps.is_multiple_of(JUMPS_PER_POLL) {
                self.poll_events(Some(Duration::ZERO))?;
                self.note_arrivals()?;
            }
            let sched = self.worker.calls.clock.sched_mut();
            if sched.jumps.is_multiple_of(JUMPS_PER_SIGNAL_CHECK) {
                self.worker.calls.signals.invalidate_all();
            }
            if !sched.running.is_empty()
                || !sched.arrived.is_empty()
                || self.worker.calls.tasks.kernel.dirty
            {
                continue;
            }
            if !self.jump()? {
                let sched = self.worker.calls.clock.sched();
                return Ok(match sched.limit() {
                    Some(limit) if limit < self.worker.horizon => Progress::Paced,
                    _ => Progress::Idle,
                });
            }
        }
    }

    /// Lets the clock jump to whatever comes next. False: there is nothing, or it may not.
    fn jump(&mut self) -> Result<bool, Error> {
        let alarm = self.worker.calls.clock.sched_mut().next_deadline();
        let sched = self.worker.calls.clock.sched();
        // What the kernel does by itself does not matter if no program waits for it.
        let matters = self.worker.horizon != u64::MAX
            || alarm.is_some()
            || self.worker.calls.tasks.table.is_empty()
            || self.worker.calls.tasks.kernel.has_fibers()
            || sched
                .blocked
                .values()
                .any(|blocked| blocked.condition.by_network)
            || self.worker.calls.tasks.table.any_pending(|_| true);
        let kernel = self.worker.calls.tasks.kernel.deadline.filter(|_| matters);
        let now = self.worker.calls.tasks.kernel.now();
        let next = [kernel, alarm].into_iter().flatten().min();
        let horizon = match sched.limit() {
            Some(limit) => limit.min(self.worker.horizon),
            None => self.worker.horizon,
        };
        let to = match next {
            None if horizon == u64::MAX => return Ok(false),
            None => horizon,
            Some(next) => next.max(now).min(horizon.max(now)),
        };
        if to > now {
            self.advance_to(to);
            let sched = self.worker.calls.clock.sched_mut();
            sched.livelock = Livelock::default();
        }
        let due = next.is_some_and(|next| next <= to);
        if due && kernel.is_some_and(|time| time <= to) {
            self.worker.calls.tasks.kernel.dirty = true;
        }
        self.run_kernel()?;
        self.fire_deadlines();
        Ok(due || to > now)
    }

    fn advance_to(&mut self, to: u64) {
        self.worker.calls.tasks.kernel.wait(to);
        self.worker.calls.tasks.kernel.dirty = true;
        let worker = &mut *self.worker;
        let sched = worker.calls.clock.sched_mut();
        let (table, kernel) = worker.calls.tasks.place();
        sched.publish_time_to_runaways(table, kernel);
        if let Some(counter) = &sched.tsc {
            counter.set(worker.calls.tasks.kernel.now());
        }
    }

    /// Does what is due: timers of programs first.
    fn fire_deadlines(&mut self) {
        let worker = &mut *self.worker;
        let due = (&worker.calls.tasks.table, &mut worker.calls.signals);
        let now = worker.calls.tasks.kernel.now();
        worker.calls.clock.sched_mut().fire_deadlines(due, now);
    }

    /// Lets this one run.
    fn schedule(&mut self, runnable: Runnable) -> Result<(), Error> {
        let tid = runnable.tid();
        let ring = self.ring_of_thread(tid);
        let sched = self.worker.calls.clock.sched_mut();
        if let Some(ring) = &ring {
            sched.grant_call_budget(ring, self.worker.calls.tasks.kernel.runs());
        }
        if sched.signal_checks.remove(&tid) {
            if let Some(pid) = self.worker.calls.tasks.table.find_pid(tid) {
                self.worker.calls.signals.hint_of(pid);
            }
        }
        match runnable {
            Runnable::Syscall(program, call) => {
                // What its process has sent before comes first.
                if let Some(ring) = ring {
                    self.send_deferred_of(&ring)?;
                }
                let sched = self.worker.calls.clock.sched_mut();
                sched.serial(tid);
                sched.clocks.count_call(tid);
                let (nr, time) = (call.nr, self.worker.calls.tasks.kernel.now());
                sched.last_calls.insert(tid, LastCall { nr, time });
                let cost = sched.config.charge.call;
                sched.shared.note_call(&self.worker.calls.tasks.table, call);
                self.count_call(&call)?;
                if !cost.is_zero() {
                    let to = self.worker.calls.tasks.kernel.now() + cost.as_nanos() as u64;
                    self.advance_to(to);
                    self.run_kernel()?;
                    self.fire_deadlines();
                }
                let sched = self.worker.calls.clock.sched_mut();
                let restart = sched.restarts.remove(&tid);
                let same = restart.filter(|(first, _)| *first == (call.nr, call.args));
                sched.resumed_deadline = same.map(|(_, deadline)| Some(deadline));
                let done = self.on_syscall(program, call);
                self.worker.calls.clock.sched_mut().resumed_deadline = None;
                done
            }
            Runnable::Completed(done) => self.conclude(done.0, done.1),
            Runnable::Woken(call, result) => {
                let Some(mut blocked) = sched.blocked.remove(&tid) else {
                    return Ok(());
                };
                let polled = std::mem::take(&mut blocked.polled);
                sched
                    .fds
                    .keep_polled(&self.worker.calls.tasks.table, tid, polled);
                match result {
                    Some(result) => self.answer_blocked(blocked, result),
                    None => {
                        let sched = self.worker.calls.clock.sched_mut();
                        sched.resumed_deadline = Some(blocked.condition.deadline);
                        drop(blocked);
                        let done = self.dispatch(call);
                        self.worker.calls.clock.sched_mut().resumed_deadline = None;
                        done
                    }
                }
            }
            Runnable::HostSignal(call) => {
                sched.blocked.remove(&tid);
                match kind(call.nr) {
                    // What is ready comes before the signal.
                    Kind::Poll | Kind::Select => self.poll(call),
                    _ => self.calls.passthrough_as(call, ThreadState::Running),
                }
            }
        }
    }

    /// Answers a blocked call.
    fn answer_blocked(&mut self, blocked: BlockedThread, result: i64) -> Result<(), Error> {
        let call = blocked.call;
        let is_poll = sched_class(call.nr) == Sched::Poll && result == 0;
        let placement = &self.worker.placement;
        let ring = match is_poll {
            true => placement.ring_of(&self.worker.calls.tasks.table, call.pid),
            false => None,
        };
        let asked = ring.as_deref().filter(|ring| ring.has_posted_poll(call));
        if let Some(ring) = asked {
            self.post_time(ring, call);
        }
        let tells = result == ERESTARTNOHAND || emulate::poll::time_out_of(call) != 0;
        if tells && blocked.remaining_at != 0 && asked.is_none() {
            let place = self.worker.calls.tasks.place();
            let sched = self.worker.calls.clock.sched_mut();
            sched.clocks.write_remaining(place, &blocked);
        }
        if let Some(ring) = ring.filter(|_| !blocked.kernel_file_ready) {
            ring.validate_polled(call, call.args[1] as usize);
        }
        self.calls.answer(call, result)
    }

    /// Threads whose calls were received are not running any more.
    fn note_arrivals(&mut self) -> Result<(), Error> {
        for index in 0..self.worker.received.len() {
            self.note_untrapped(self.worker.received[index].1.tid);
        }
        let sched = self.worker.calls.clock.sched_mut();
        for (program, call) in self.worker.received.drain(..) {
            let execed = |running: &RunningThread| {
                running.state == ThreadState::InExec
                    && running.pid == call.tid
                    && running.tid != call.tid
            };
            if let Some(index) = sched.running.iter().position(execed) {
                let running = sched.running.remove(index);
                sched.batch.rename(running.tid, call.tid);
            }
            sched.running.retain(|running| running.tid != call.tid);
            sched.blocked_on_host.retain(|(tid, _)| *tid != call.tid);
            sched.runaways.remove(call.tid);
            sched.arrived.push((program, call));
        }
        if sched.parents.has_stopped() {
            sched.parents.note_continued(sched.tsc.as_deref());
        }
        self.find_forked()
    }

    /// No thread is running: puts what has happened meanwhile in the run queue, in an order that
    /// depends on nothing else.
    fn enqueue_arrived(&mut self) -> Result<(), Error> {
        self.note_arrivals()?;
        self.handle_deferred()?;
        let mut sched = self.worker.calls.clock.sched_mut();
        let mut stale = false;
        // A thread that goes on in the host because of what has happened must make its next call
        // before other threads are woken by the same.
        while sched.running.is_empty() && std::mem::take(&mut sched.host_fds_dirty) {
            stale = true;
            self.check_blocked_on_host()?;
            sched = self.worker.calls.clock.sched_mut();
        }
        if !sched.running.is_empty() {
            sched.host_fds_dirty |= stale;
            return Ok(());
        }
        sched.number_created();
        let mut arrived = std::mem::take(&mut sched.arrived);
        arrived.sort_by_key(|(_, call)| {
            let serial = sched.serials.get(&call.tid).copied().unwrap_or(u64::MAX);
            (serial, call.tid)
        });
        let mut own = Vec::new();
        for (program, call) in arrived.drain(..) {
            sched.serial(call.tid);
            let heard = Runnable::Syscall(program, call);
            match sched.batch.index_of(call.tid) {
                Some(index) => own.push((index, heard)),
                None => sched.run_queue.push(heard),
            }
        }
        // With its room, for the next ones.
        sched.arrived = arrived;
        let table = &self.worker.calls.tasks.table;
        if stale {
            sched.wake_ready_on_host(table);
            sched.retry_locks();
        }
        sched.wake_waiting_parents(table);
        self.check_signals()?;
        let sched = self.worker.calls.clock.sched_mut();
        own.sort_by_key(|(index, _)| *index);
        for (index, own) in own.into_iter().rev() {
            match sched.batch.has_timeslice(index) {
                true => sched.run_queue.push_first(own),
                false => sched.run_queue.push(own),
            }
        }
        Ok(())
    }

    /// Waits until a running thread makes a call.
    fn wait_for_running(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        let sched = self.worker.calls.clock.sched();
        let interval = thread_states::interval(&sched.running, sched.empty_waits, &sched.runaways);
        let limit = timeout.map_or(interval, |t| t.min(interval));
        let before = sched.running.len();
        self.poll_events(Some(limit))?;
        self.note_arrivals()?;
        let sched = self.worker.calls.clock.sched_mut();
        if sched.running.len() == before && limit == interval {
            sched.empty_waits += 1;
            sched.stall.lasted += limit;
            let is_quiet = sched.stall.lasted >= wait_log::QUIET;
            self.check_running()?;
            self.check_stall()?;
            if is_quiet {
                let place = self.worker.calls.tasks.place();
                self.worker.calls.clock.sched_mut().log_waits(place);
            }
        }
        // Before time passes, the caller of `step` is to see which processes have ended.
        match self.worker.calls.clock.sched().running.is_empty() {
            true => self.handle_deferred(),
            false => Ok(()),
        }
    }

    /// No thread can go on: waits for events from outside. Whether there was one.
    fn wait_for_outside(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        let own = self.worker.calls.reactor.as_raw_fd();
        let sched = self.worker.calls.clock.sched_mut();
        sched.host_fds_dirty = true;
        let mut fds = [own, sched.fds.epoll()].map(|fd| wanted(fd, libc::POLLIN));
        // A waiting thread may be sent a signal from outside, of which there is no event.
        let most = Duration::from_millis(100);
        let limit = timeout.map_or(most, |t| t.min(most));
        let _ = poll(&mut fds, limit.as_millis() as i32);
        let any = fds.iter().any(|fd| fd.revents != 0);
        if !any {
            sched.log_waits(self.worker.calls.tasks.place());
            self.worker.calls.signals.hint();
        }
        Ok(self.poll_events(Some(Duration::ZERO))? > 0 || any)
    }
}

/// Whether a thread waits in a call, by its number and the call's name.
fn waits_in(blocked: &Numbered<i32, BlockedThread>) -> impl Fn(i32, u64) -> bool + '_ {
    |tid, id| {
        let blocked = blocked.get(&tid);
        blocked.is_some_and(|blocked| blocked.waits_in(id))
    }
}

impl Scheduler {
    /// When the next deadline is that still means something, or the next timer of a program is due.
    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        let deadline = self.deadlines.next(waits_in(&self.blocked));
        [deadline, self.timers.next()].into_iter().flatten().min()
    }

    /// A process that has made no call yet runs.
    pub(crate) fn process_started(&mut self, pid: i32) {
        self.serial(pid);
        self.add_running(pid, pid, ThreadState::Running);
    }

    /// Until when a call waits that may last so many ns from now on: from its first dispatch on.
    fn deadline(&self, now: u64, lasting: Option<u64>) -> Option<u64> {
        let new = || lasting.map(|ns| now.saturating_add(ns));
        self.resumed_deadline.unwrap_or_else(new)
    }

    /// The thread's call waits, for something that is not the kernel's.
    fn block(&mut self, signals: &mut SignalPoll, call: SyscallCtx, condition: BlockCondition) {
        self.block_on(signals, call, condition, Vec::new(), 0);
    }

    fn block_on(
        &mut self,
        signals: &mut SignalPoll,
        call: SyscallCtx,
        condition: BlockCondition,
        polled: Vec<PolledFd>,
        rest: u64,
    ) {
        if let Some(deadline) = condition.deadline {
            let serial = self.serial(call.tid);
            self.deadlines.add(deadline, serial, call.tid, call.id);
        }
        if condition.awaited_signals != 0
            || condition.mask.is_some() && !self.has_no_pending_signal(signals, call)
        {
            // One that it waits for may be pending already.
            signals.hint_of(call.pid);
        }
        let blocked = BlockedThread {
            call,
            condition,
            is_queued: false,
            polled,
            remaining_at: rest,
            kernel_file_ready: false,
        };
        self.blocked.insert(call.tid, blocked);
    }

    /// A blocked call can go on, with this result, or to be dispatched again. Nothing happens if
    /// the thread does not wait in it any more.
    fn wake(&mut self, tid: i32, id: u64, result: Option<i64>) {
        let blocked = self.blocked.get_mut(&tid);
        if let Some(blocked) = blocked.filter(|blocked| blocked.waits_in(id)) {
            blocked.is_queued = true;
            self.run_queue.push(Runnable::Woken(blocked.call, result));
        }
    }

    /// Does what is due now: timers of programs first.
    fn fire_deadlines(&mut self, due: (&ProcessTable, &mut SignalPoll), now: u64) {
        self.fire_timers(due, now);
        while self.next_deadline().is_some_and(|time| time <= now) {
            if let Some((tid, id)) = self.deadlines.take_due(now) {
                let blocked = self.blocked.get(&tid);
                let late = blocked.and_then(|blocked| blocked.condition.on_timeout);
                self.wake(tid, id, late);
            }
        }
    }

    /// The thread has its answer, or its call is the host's now.
    pub(crate) fn thread_resumed(
        &mut self,
        table: &ProcessTable,
        tid: i32,
        sent: Reply,
        state: ThreadState,
    ) {
        let Some(pid) = table.find_pid(tid) else {
            return;
        };
        if sent == Reply::ThreadGone {
            return;
        }
        self.stall = Stall::default();
        self.add_running(tid, pid, state);
    }

    /// Tells the observer of a call that is about to be answered.
    pub(crate) fn notify_observer(
        &mut self,
        (table, kernel): (&ProcessTable, &Kernel),
        call: SyscallCtx,
        result: Option<i64>,
    ) {
        let pid = table.find_pid(call.tid);
        if let (Some(observer), Some(pid)) = (&mut self.observer, pid) {
            observer(&Called {
                time: kernel.now(),
                machine: table.machine_of(pid),
                thread: self.serials.get(&call.tid).copied().unwrap_or(0),
                tid: call.tid,
                nr: call.nr,
                args: call.args,
                result,
            });
        }
    }

    /// Forgets a thread that is gone.
    pub(crate) fn forget_thread(&mut self, tid: i32) {
        self.blocked.remove(&tid);
        self.running.retain(|running| running.tid != tid);
        self.blocked_on_host
            .retain(|(blocked_on_host, _)| *blocked_on_host != tid);
        self.runaways.remove(tid);
        self.arrived.retain(|(_, call)| call.tid != tid);
        self.run_queue.forget(tid);
        self.batch.forget(tid);
        self.signal_checks.remove(&tid);
        self.fds.forget_thread(tid);
        self.status_files.forget(tid);
        self.serials.remove(&tid);
        self.clocks.forget_thread(tid);
        self.last_calls.remove(&tid);
        self.futexes.forget(tid);
        self.restarts.remove(&tid);
        self.host_fds_dirty = true;
    }

    /// Forgets a process that is gone.
    pub(crate) fn forget_process(&mut self, table: &ProcessTable, pid: i32) {
        self.running.retain(|running| running.pid != pid);
        self.blocked_on_host
            .retain(|(_, blocked_on_host)| *blocked_on_host != pid);
        self.prngs.forget(pid);
        self.runaways.forget_process(pid);
        self.clocks.forget_process(pid);
        self.fds.forget_process(pid);
        self.host_fds_dirty = true;
        self.timers.forget(pid);
        self.memories.forget(pid);
        self.parents.note_exit(pid);
        let number = crate::tracee::ns_pid(pid).unwrap_or(pid);
        self.wake_after_end(table, number);
        self.release_vfork(table, pid);
    }
}
