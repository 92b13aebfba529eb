//! Virtual time for programs: one thread of a machine runs at a time, and the clock jumps when none can.
//!
//! # Theory of operation
//!
//! The filter of such programs traps all but calls that can neither wait nor see time (`quiet`). So the worker
//! knows of each thread whether it is *out* (it may be running, until its next call is heard or it dies) or
//! *parked* (its call has been received and not been answered). Nothing is decided while anybody is out. Then
//! the thread at the head of the *line* gets the *turn*: its call is worked on, it is answered and is out, and
//! keeps the turn until a call of it waits. Threads of other machines that are in the line may have the turn beside it, as a
//! *round* (`round`), if nothing that they are about to do concerns each other (`company`): they compute at once, and their
//! calls are worked on one after the other. The line is in the order in which things became ready, so that a run
//! repeats; with a seed somebody in it is drawn. When nobody is in the line, the clock jumps to the next timer of
//! the kernel, deadline of a parked thread, or timer of a program (`timers`).
//!
//! # Parked threads
//!
//! Whoever handles a call that has to wait and is not the kernel's says [`Worker::park`]: until
//! when at most ([`Until::deadline`]), and what is answered then ([`Until::late`]; `None`: the call is dispatched
//! again, and finds its deadline by [`Worker::deadline`] to have passed). Parked threads are never looked at "from time to
//! time". They are woken by whoever has done what they wait for: [`Worker::wake`], which puts them in the
//! line, to be given a result or to be dispatched again when it is their turn. Who keeps a list of
//! parked calls names them by thread and by [`Notification::id`], and asks [`Worker::is_parked`]: they leave by
//! deadlines, signals and deaths as well. A signal ends the call as [`Until::interrupted`] says.
//!
//! Calls that wait in the kernel are the kernel's: `Thread::busy`. Calls that wait for descriptors of the host are
//! parked with copies of these in a set of the worker's (`host`), which is looked at after whatever may have
//! changed one. A call that waits in the host against expectation is found there by its thread's state
//! (`states`), and so is its going on.
//!
//! New threads and processes are out from the moment of their creation (`births`).

pub(crate) mod begin;
mod births;
mod children;
pub(crate) mod clocks;
mod company;
mod doubt;
mod free;
mod futex;
mod host;
mod kept;
mod killed;
pub(crate) mod linker;
mod locks;
mod pending;
pub(crate) mod pids;
mod poll;
mod queues;
pub(crate) mod quiet;
mod random;
mod round;
mod shown;
mod states;
mod system;
mod timers;
mod times;
mod treat;
pub(crate) mod tsc;
pub(crate) mod vdso;
mod watchdog;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use vink_kernel::{MachineId, Numbered, Outcome};

use crate::calls::{kind, Kind};
use crate::interrupt::Running;
use crate::notify::{Notification, Sent};
use crate::worker::Worker;
use crate::Error;

use children::Parents;
use company::Mingled;
use futex::Futexes;
use host::{Moved, Watched};
use locks::Locks;
use round::Round;
use timers::Timers;
use watchdog::{Astray, Repeats, Silence};

/// What a signal answers where the host then runs the handler, and restarts the call if there is none.
pub(crate) const ERESTARTNOHAND: i64 = -514;

/// How long one thread may keep the turn while others are in the line: so many calls.
const QUOTA: u32 = 100;
/// After so many jumps the world outside is looked at, if no program has had to do with the host.
const UNSEEN: u32 = 64;
/// After so many it is asked again whether somebody outside has sent a signal that its thread has blocked.
const UNSIGNALLED: u32 = 1024;
/// Jumps in one step with nobody out.
const JUMPS: u32 = 256;
/// How long a thread may compute before it is named.
const SILENCE: Duration = Duration::from_secs(5);

/// How virtual time passes.
#[derive(Clone, Debug, Default)]
pub struct Virtual {
    /// Draws who of those that could run comes next; `None`: whoever could first.
    pub seed: Option<u64>,
    /// What computing costs.
    pub charge: Charge,
    /// The processor's time stamp counter (rdtsc, rdtscp) is the virtual clock, too: a tick for each ns, and some for each
    /// look. Programs are traced for that (ptrace(2)), and can't trace each other.
    pub counter: bool,
}

/// What programs' computing costs in virtual time: nothing, but for these.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    /// Each trapped system call; by count, so that runs repeat.
    pub call: Duration,
    /// Of the processor's time: so long a thread may compute without a system call while all others wait for it. From then on
    /// time passes for it as on the host's clock, and the others go on.
    pub endurance: Duration,
}

impl Default for Charge {
    /// Nothing for a call, and half a minute.
    fn default() -> Charge {
        Charge {
            call: Duration::ZERO,
            endurance: Duration::from_secs(30),
        }
    }
}

/// Why nothing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standstill {
    /// It does.
    No,
    /// The turns that [`Worker::allow_turns`] gave are used up.
    Held,
    /// The clock is at its horizon, or nobody waits for any time.
    Stands,
    /// Somebody is astray, and the clock keeps to the host's.
    Paced,
}

/// A wait of a parked thread.
#[derive(Debug)]
pub(crate) struct Until {
    /// On [`vink_kernel::Kernel::now`]'s clock.
    pub(crate) deadline: Option<u64>,
    /// The result at the deadline; `None`: the call is dispatched once more.
    pub(crate) late: Option<i64>,
    /// The result if a signal comes: what the host's kernel makes of it is as if it had been its own.
    pub(crate) interrupted: i64,
    /// The signal mask of this call alone (ppoll(2) and others): if one of the others comes, the host does the call, and
    /// finds it.
    pub(crate) mask: Option<u64>,
    /// Signals that it waits for although they are blocked: if one is pending the call is dispatched again.
    pub(crate) wanted: u64,
    /// What comes by a network may end it.
    pub(crate) network: bool,
}

impl Until {
    pub(crate) const fn forever() -> Until {
        Until {
            deadline: None,
            late: None,
            interrupted: ERESTARTNOHAND,
            mask: None,
            wanted: 0,
            network: false,
        }
    }
}

/// A parked thread.
struct Parked {
    call: Notification,
    until: Until,
    /// It is in the line.
    called: bool,
    /// Descriptors of the host that it waits for: in the set for as long as they are here.
    watched: Vec<Watched>,
    /// When it must be called to write down the rest of its sleep: where to.
    rest: u64,
    /// A file of the kernel's that it waits for may have become ready.
    stirred: bool,
}

/// How soon a thread that is out is looked after when nothing is heard of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It runs, as far as is known.
    Runs,
    /// Its call may wait in the host.
    MayWait,
    /// It waits for somebody outside, and time stands still meanwhile.
    Outside,
    /// It waits for its child's exec or end (vfork(2)).
    Vfork,
    /// ... which this child may be at; the exec may fail.
    Released(i32),
    /// As `Runs`; its number may become its process's.
    Executes,
}

/// A thread that may be running.
struct Out {
    tid: i32,
    pid: i32,
    patience: Patience,
}

/// Somebody who can go on.
enum Ready {
    /// A call that was not looked at yet, and its program.
    Heard(usize, Notification),
    /// The kernel is done.
    Done(Box<(Running, Outcome)>),
    /// A parked call: to be answered like this, or dispatched again.
    Parked(Notification, Option<i64>),
    /// A parked call whose thread has a signal pending that only the host can deliver.
    Pass(Notification),
}

impl Ready {
    fn tid(&self) -> i32 {
        match self {
            Ready::Heard(_, call) | Ready::Parked(call, _) | Ready::Pass(call) => call.tid,
            Ready::Done(done) => done.0.busy.call.tid,
        }
    }
}

/// Of a parked call: its thread and name.
type Deadline = (i32, u64);

/// The state of virtual time.
pub(crate) struct Turn {
    how: Virtual,
    random: u64,
    /// What programs are given of it.
    chance: random::Chance,
    times: times::FileTimes,
    /// If programs find the clock in their processor, too.
    pub(crate) counter: Option<Arc<tsc::Counter>>,
    /// Whose turn it is.
    round: Round,
    mingled: Mingled,
    out: Vec<Out>,
    /// Threads that wait in the host although their calls were passed: with their processes.
    inside: Vec<(i32, i32)>,
    /// Parents in vfork(2), and their children.
    vforked: Vec<(i32, i32)>,
    /// On this machine somebody may have been killed by a call that has passed.
    killing: Option<MachineId>,
    arrived: Vec<(usize, Notification)>,
    line: VecDeque<Ready>,
    /// Threads that a signal has come for before their turn: to be looked at after it.
    signalled: HashSet<i32>,
    parked: Numbered<i32, Parked>,
    /// Threads parked for a file of the kernel's, by its cookie.
    watchers: Numbered<u64, Vec<(i32, u64)>>,
    /// Copies of the host's descriptors that parked threads wait for, by thread.
    set: OwnedFd,
    /// Those that threads have waited for last.
    kept: Numbered<i32, Vec<Watched>>,
    /// Waits by poll(2) of processes with a mailbox, by thread: the last ones.
    waited: Numbered<i32, free::Waited>,
    /// What processes move data to or from.
    moved: Numbered<i32, Vec<Moved>>,
    /// Something may have become true of the host's files.
    stale: bool,
    /// The host has done something for a program since the worker's events were last looked for with everybody parked.
    passed: bool,
    jumps: u32,
    deadlines: BinaryHeap<Reverse<(u64, u64, Deadline)>>,
    futexes: Futexes,
    timers: Timers,
    parents: Parents,
    locks: Locks,
    /// Calls that the host begins anew after a signal without a handler, by thread: number and arguments, and the
    /// deadline that stays.
    restarts: Numbered<i32, ((i64, [u64; 6]), u64)>,
    /// Somebody has made a signalfd(2).
    signalfds: bool,
    /// Somebody has asked for signals that files send.
    file_signals: bool,
    /// Threads in the order of their creation.
    serials: Numbered<i32, u64>,
    last_serial: u64,
    /// The deadline of the call that is dispatched again.
    resumed: Option<Option<u64>>,
    /// What has been waited for without anything coming, since somebody last went out.
    waits: u32,
    silence: Silence,
    astray: Astray,
    /// Calls of all threads since time last jumped.
    restless: u64,
    repeats: Repeats,
    /// Calls of each thread, by which its CPU time is told.
    calls: Numbered<i32, u64>,
    /// Open `/proc/PID/task/TID/status` files.
    status: Numbered<i32, File>,
    /// What processes read of the clock.
    shown: Numbered<i32, shown::Shown>,
    /// Looks of each thread at the clock and the like since time last jumped.
    looks: Numbered<i32, u64>,
    named: HashSet<i32>,
    /// Standard descriptors that programs have from outside.
    outside: HashSet<(u64, u64)>,
    allowed: Option<u64>,
    most_jumps: u32,
    /// Last calls, for messages.
    last: BTreeMap<i32, i64>,
    observer: Option<Observer>,
}

/// Is told of each call of a program in virtual time when it is answered: just before, but for a new descriptor.
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

impl Turn {
    pub(crate) fn new(how: Virtual) -> Result<Turn, Error> {
        // SAFETY: makes a descriptor.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if set < 0 {
            return Err(Error::last("epoll_create1()"));
        }
        Ok(Turn {
            random: how.seed.unwrap_or(0),
            chance: random::Chance::default(),
            times: times::FileTimes::new(),
            counter: None,
            how,
            round: Round::default(),
            mingled: Mingled::default(),
            out: Vec::new(),
            inside: Vec::new(),
            vforked: Vec::new(),
            killing: None,
            arrived: Vec::new(),
            line: VecDeque::new(),
            signalled: HashSet::new(),
            parked: Numbered::default(),
            watchers: Numbered::default(),
            // SAFETY: new, and nobody else's.
            set: unsafe { OwnedFd::from_raw_fd(set) },
            kept: Numbered::default(),
            waited: Numbered::default(),
            moved: Numbered::default(),
            stale: false,
            passed: true,
            jumps: 0,
            deadlines: BinaryHeap::new(),
            futexes: Futexes::default(),
            timers: Timers::default(),
            parents: Parents::default(),
            locks: Locks::default(),
            restarts: Numbered::default(),
            signalfds: false,
            file_signals: false,
            serials: Numbered::default(),
            last_serial: 0,
            resumed: None,
            waits: 0,
            silence: Silence::default(),
            astray: Astray::default(),
            restless: 0,
            repeats: Repeats::default(),
            calls: Numbered::default(),
            status: Numbered::default(),
            shown: Numbered::default(),
            looks: Numbered::default(),
            named: HashSet::new(),
            outside: HashSet::new(),
            allowed: None,
            most_jumps: JUMPS,
            last: BTreeMap::new(),
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

    /// Takes whose turn is next out of the line.
    fn next(&mut self) -> Option<Ready> {
        if self.how.seed.is_none() || self.line.len() < 2 {
            return self.line.pop_front();
        }
        let index = splitmix(&mut self.random) % self.line.len() as u64;
        self.line.remove(index as usize)
    }

    /// From now on the thread is waited for.
    fn go_out(&mut self, tid: i32, pid: i32, patience: Patience) {
        self.waits = 0;
        self.out.push(Out { tid, pid, patience });
    }

    fn has_arrived(&self, tid: i32) -> bool {
        self.arrived.iter().any(|(_, call)| call.tid == tid)
    }

    fn is_out(&self, tid: i32) -> bool {
        self.out.iter().any(|out| out.tid == tid)
    }

    /// Nobody needs to be waited for: somebody can be given the turn, or nobody is out.
    fn goes_on(&self) -> bool {
        let next = self.round.has_begun() && self.allowed != Some(0);
        next || self.out.is_empty()
    }

    /// Nobody is out but those that read what comes from outside.
    pub(crate) fn waits_for_input(&self) -> bool {
        let reads = |out: &Out| {
            let last = self.last.get(&out.tid).copied();
            let is_read = matches!(last, Some(libc::SYS_read | libc::SYS_readv));
            out.patience == Patience::Outside && is_read
        };
        !self.out.is_empty() && self.out.iter().all(reads)
    }
}

/// SplitMix64: the next number of a sequence.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Worker {
    /// Says how virtual time passes, before the first program is started. The worker's kernel must be on
    /// [`vink_kernel::Clock::Virtual`], or nothing comes of it.
    pub fn set_time(&mut self, how: Virtual) {
        if let Some(turn) = &mut self.turn {
            turn.random = how.seed.unwrap_or(0);
            turn.counter = how.counter.then(Arc::default);
            turn.how = how;
        }
    }

    /// In virtual time: has this told of all calls of programs, in their order. There is one observer at most.
    pub fn observe_calls(&mut self, observer: Option<Observer>) {
        if let Some(turn) = &mut self.turn {
            turn.observer = observer;
        }
    }

    /// In virtual time: how often the clock may jump in a step, for those who have to look around after each.
    pub fn set_jumps(&mut self, jumps: u32) {
        if let Some(turn) = &mut self.turn {
            turn.most_jumps = jumps;
        }
    }

    /// In virtual time: how many more turns may be given, each for a system call of a program. `None`: any
    /// number.
    pub fn allow_turns(&mut self, turns: Option<u64>) {
        if let Some(turn) = &mut self.turn {
            turn.allowed = turns;
        }
    }

    /// In virtual time: whether programs could go on, but for want of turns ([`Worker::allow_turns`]).
    pub fn is_held(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| turn.allowed == Some(0) && turn.out.is_empty())
    }

    /// [`Worker::step`] in virtual time.
    pub(crate) fn step_turn(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        self.refresh_rings()?;
        let stood = std::mem::take(&mut self.stands);
        match self.advance()? {
            Standstill::No if self.turn.as_ref().is_some_and(|t| t.goes_on()) => Ok(()),
            Standstill::No | Standstill::Paced => self.await_out(timeout),
            Standstill::Held => self.await_outside(timeout).map(drop),
            Standstill::Stands if stood => {
                self.stands = !self.await_outside(timeout)?;
                Ok(())
            }
            Standstill::Stands => {
                self.stands = true;
                Ok(())
            }
        }
    }

    /// Gives turns, and lets time pass, until somebody is out or nothing goes on.
    fn advance(&mut self) -> Result<Standstill, Error> {
        let mut jumps = 0;
        let mut granted = false;
        loop {
            self.settle()?;
            let turn = self.turn.as_mut().expect("virtual time");
            if granted && !turn.out.is_empty() {
                // Whoever steps the worker may look around before the next one of the round.
                return Ok(Standstill::No);
            }
            let held = turn.allowed == Some(0);
            if let Some(ready) = turn.round.next(held) {
                if let Some(allowed) = &mut turn.allowed {
                    *allowed -= 1;
                }
                self.grant(ready)?;
                granted = true;
                continue;
            }
            if !turn.out.is_empty() {
                return Ok(Standstill::No);
            }
            if held && turn.round.has_begun() {
                return Ok(Standstill::Held);
            }
            if self.await_deaths()? {
                continue;
            }
            self.collect()?;
            let turn = self.turn.as_mut().expect("virtual time");
            if !turn.out.is_empty() || self.stirred {
                continue;
            }
            if turn.allowed == Some(0) {
                return Ok(Standstill::Held);
            }
            if self.begin_round()? {
                continue;
            }
            let turn = self.turn.as_mut().expect("virtual time");
            jumps += 1;
            if jumps > turn.most_jumps {
                return Ok(Standstill::No);
            }
            turn.jumps = turn.jumps.wrapping_add(1);
            if std::mem::take(&mut turn.passed) || turn.jumps.is_multiple_of(UNSEEN) {
                self.catch_events(Some(Duration::ZERO))?;
                self.arrive()?;
            }
            let turn = self.turn.as_mut().expect("virtual time");
            if turn.jumps.is_multiple_of(UNSIGNALLED) {
                self.pulse.doubt_all();
            }
            if !turn.out.is_empty() || !turn.arrived.is_empty() || self.stirred {
                continue;
            }
            if !self.jump()? {
                let turn = self.turn.as_ref().expect("virtual time");
                return Ok(match turn.astray.limit() {
                    Some(limit) if limit < self.horizon => Standstill::Paced,
                    _ => Standstill::Stands,
                });
            }
        }
    }

    /// Lets the clock jump to whatever comes next. False: there is nothing, or it may not.
    fn jump(&mut self) -> Result<bool, Error> {
        let alarm = self.next_alarm();
        let turn = self.turn.as_ref().expect("virtual time");
        // What the kernel does by itself matters to nobody if no program waits for it.
        let matters = self.horizon != u64::MAX
            || alarm.is_some()
            || self.threads.is_empty()
            || self.kernel.has_fibers()
            || turn.parked.values().any(|parked| parked.until.network)
            || self.threads.values().any(|thread| thread.busy.is_some());
        let kernel = self.deadline.filter(|_| matters);
        let now = self.kernel.now();
        let next = [kernel, alarm].into_iter().flatten().min();
        let horizon = match turn.astray.limit() {
            Some(limit) => limit.min(self.horizon),
            None => self.horizon,
        };
        let to = match next {
            None if horizon == u64::MAX => return Ok(false),
            None => horizon,
            Some(next) => next.max(now).min(horizon.max(now)),
        };
        if to > now {
            self.pass_time(to);
            let turn = self.turn.as_mut().expect("virtual time");
            turn.looks.clear();
            turn.restless = 0;
            turn.repeats = Repeats::default();
        }
        let due = next.is_some_and(|next| next <= to);
        if due && kernel.is_some_and(|time| time <= to) {
            self.stirred = true;
        }
        self.settle()?;
        self.ring_alarms()?;
        Ok(due || to > now)
    }

    fn pass_time(&mut self, to: u64) {
        self.kernel.wait(to);
        self.stirred = true;
        self.show_time_to_wanderers();
        let counter = self.turn.as_ref().and_then(|turn| turn.counter.as_ref());
        if let Some(counter) = counter {
            counter.set(self.kernel.now());
        }
    }

    /// When the next deadline is that still means something, or the next timer of a program is due.
    pub(crate) fn next_alarm(&mut self) -> Option<u64> {
        let turn = self.turn.as_mut()?;
        let timer = turn.timers.next();
        while let Some(Reverse((time, _, (tid, id)))) = turn.deadlines.peek() {
            match turn.parked.get(tid) {
                Some(parked) if parked.call.id == *id && !parked.called => {
                    return Some(timer.map_or(*time, |timer| timer.min(*time)));
                }
                _ => drop(turn.deadlines.pop()),
            }
        }
        timer
    }

    /// Does what is due: timers of programs first.
    fn ring_alarms(&mut self) -> Result<(), Error> {
        let now = self.kernel.now();
        self.ring_timers();
        while self.next_alarm().is_some_and(|time| time <= now) {
            let turn = self.turn.as_mut().expect("virtual time");
            if let Some(Reverse((_, _, (tid, id)))) = turn.deadlines.pop() {
                let parked = turn.parked.get(&tid);
                let late = parked.and_then(|parked| parked.until.late);
                self.wake(tid, id, late);
            }
        }
        Ok(())
    }

    /// It is this one's turn.
    fn grant(&mut self, ready: Ready) -> Result<(), Error> {
        let tid = ready.tid();
        self.set_free(tid);
        let turn = self.turn.as_mut().expect("virtual time");
        if turn.signalled.remove(&tid) {
            if let Some(thread) = self.threads.get(&tid) {
                self.pulse.hint_of(thread.pid);
            }
        }
        match ready {
            Ready::Heard(program, call) => {
                turn.serial(tid);
                *turn.calls.entry(tid).or_default() += 1;
                turn.last.insert(tid, call.nr);
                let cost = turn.how.charge.call;
                self.note_mingling(call);
                self.note_call(&call)?;
                if !cost.is_zero() {
                    let to = self.kernel.now() + cost.as_nanos() as u64;
                    self.pass_time(to);
                    self.settle()?;
                    self.ring_alarms()?;
                }
                let turn = self.turn.as_mut().expect("virtual time");
                let restart = turn.restarts.remove(&tid);
                let same = restart.filter(|(first, _)| *first == (call.nr, call.args));
                turn.resumed = same.map(|(_, deadline)| Some(deadline));
                let done = self.trapped(program, call);
                self.turn.as_mut().expect("virtual time").resumed = None;
                done
            }
            Ready::Done(done) => self.conclude(done.0, done.1),
            Ready::Parked(call, result) => {
                let Some(mut parked) = turn.parked.remove(&tid) else {
                    return Ok(());
                };
                self.keep(tid, std::mem::take(&mut parked.watched));
                match result {
                    Some(result) => self.answer_parked(parked, result),
                    None => {
                        let turn = self.turn.as_mut().expect("virtual time");
                        turn.resumed = Some(parked.until.deadline);
                        drop(parked);
                        let done = self.dispatch(call);
                        self.turn.as_mut().expect("virtual time").resumed = None;
                        done
                    }
                }
            }
            Ready::Pass(call) => {
                turn.parked.remove(&tid);
                match kind(call.nr) {
                    // What is ready comes before the signal.
                    Kind::Poll => self.poll(call),
                    Kind::Select => self.select(call),
                    _ => self.pass_with(call, Patience::Runs),
                }
            }
        }
    }

    /// Answers a call that was parked.
    fn answer_parked(&mut self, parked: Parked, result: i64) -> Result<(), Error> {
        let call = parked.call;
        let is_poll = matches!(call.nr, libc::SYS_poll | libc::SYS_ppoll) && result == 0;
        let has_asked = is_poll && self.has_asked(call);
        if has_asked {
            self.leave_time(call);
        }
        let tells = result == ERESTARTNOHAND || poll::time_out_of(call) != 0;
        if tells && parked.rest != 0 && !has_asked {
            self.tell_rest(&parked);
        }
        if is_poll && !parked.stirred {
            self.tell_waits(call, call.args[1] as usize);
        }
        self.answer(call, result)
    }

    /// Whether calls of this thread may be concluded now.
    pub(crate) fn has_turn(&self, tid: i32) -> bool {
        let turn = self.turn.as_ref();
        turn.is_none_or(|turn| turn.round.place_of(tid).is_some())
    }

    /// The kernel is done with a call whose thread has not the turn.
    pub(crate) fn line_up(&mut self, running: Running, outcome: Outcome) {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.line
            .push_back(Ready::Done(Box::new((running, outcome))));
    }

    /// The thread's call waits, for something that is not the kernel's.
    pub(crate) fn park(&mut self, call: Notification, until: Until) {
        self.park_for(call, until, Vec::new(), 0);
    }

    fn park_for(&mut self, call: Notification, until: Until, watched: Vec<Watched>, rest: u64) {
        let turn = self.turn.as_mut().expect("virtual time");
        if let Some(deadline) = until.deadline {
            let serial = turn.serial(call.tid);
            let name = (call.tid, call.id);
            turn.deadlines.push(Reverse((deadline, serial, name)));
        }
        if until.wanted != 0 || until.mask.is_some() && !self.has_no_signals(call.tid) {
            // One that it waits for may be pending already.
            self.pulse.hint_of(self.threads[&call.tid].pid);
        }
        let turn = self.turn.as_mut().expect("virtual time");
        let parked = Parked {
            call,
            until,
            called: false,
            watched,
            rest,
            stirred: false,
        };
        turn.parked.insert(call.tid, parked);
    }

    /// Whether the thread waits in this call.
    pub(crate) fn is_parked(&self, tid: i32, id: u64) -> bool {
        let parked = self.turn.as_ref().and_then(|t| t.parked.get(&tid));
        parked.is_some_and(|parked| parked.call.id == id && !parked.called)
    }

    /// A parked call can go on, with this result, or to be dispatched again. False if the thread does not
    /// wait in it any more.
    pub(crate) fn wake(&mut self, tid: i32, id: u64, result: Option<i64>) -> bool {
        if !self.is_parked(tid, id) {
            return false;
        }
        let turn = self.turn.as_mut().expect("virtual time");
        let parked = turn.parked.get_mut(&tid).expect("looked at");
        parked.called = true;
        turn.line.push_back(Ready::Parked(parked.call, result));
        true
    }

    /// Until when a call waits that may last so many ns: from its first dispatch on.
    pub(crate) fn deadline(&self, lasting: Option<u64>) -> Option<u64> {
        let resumed = self.turn.as_ref().and_then(|turn| turn.resumed);
        resumed.unwrap_or_else(|| lasting.map(|ns| self.kernel.now().saturating_add(ns)))
    }

    /// The thread has its answer, or its call is the host's now.
    pub(crate) fn goes_out(&mut self, call: Notification, sent: Sent, patience: Patience) {
        let Some(turn) = &mut self.turn else { return };
        let Some(thread) = self.threads.get(&call.tid) else {
            return;
        };
        if sent == Sent::Gone {
            return;
        }
        let pid = thread.pid;
        turn.silence = Silence::default();
        turn.go_out(call.tid, pid, patience);
    }

    /// Tells the observer of a call that is about to be answered.
    pub(crate) fn tell_of(&mut self, call: Notification, result: Option<i64>) {
        let Some(turn) = &mut self.turn else { return };
        let thread = self.threads.get(&call.tid);
        if let (Some(observer), Some(thread)) = (&mut turn.observer, thread) {
            observer(&Called {
                time: self.kernel.now(),
                machine: self.processes[&thread.pid].machine,
                thread: turn.serials.get(&call.tid).copied().unwrap_or(0),
                tid: call.tid,
                nr: call.nr,
                args: call.args,
                result,
            });
        }
    }

    /// A process that nobody has heard of yet runs.
    pub(crate) fn sets_out(&mut self, pid: i32) {
        if let Some(turn) = &mut self.turn {
            turn.serial(pid);
            turn.go_out(pid, pid, Patience::Runs);
        }
    }

    /// What was heard is put in the line.
    fn arrive(&mut self) -> Result<(), Error> {
        for index in 0..self.heard.len() {
            self.note_untrapped(self.heard[index].1.tid);
        }
        let turn = self.turn.as_mut().expect("virtual time");
        for (program, call) in self.heard.drain(..) {
            let execed = |out: &Out| {
                out.patience == Patience::Executes && out.pid == call.tid && out.tid != call.tid
            };
            if let Some(index) = turn.out.iter().position(execed) {
                let out = turn.out.remove(index);
                turn.round.rename(out.tid, call.tid);
            }
            turn.out.retain(|out| out.tid != call.tid);
            turn.inside.retain(|(tid, _)| *tid != call.tid);
            turn.astray.remove(call.tid);
            turn.arrived.push((program, call));
        }
        self.look_for_going_on();
        self.find_births()
    }

    /// Nobody is out: what has happened meanwhile is put in the line, in an order that depends on nothing else.
    fn collect(&mut self) -> Result<(), Error> {
        self.arrive()?;
        self.take_in_ends()?;
        let mut turn = self.turn.as_mut().expect("virtual time");
        let mut stale = false;
        // Whoever goes on in the host by what has happened is heard before anybody else is told of that.
        while turn.out.is_empty() && std::mem::take(&mut turn.stale) {
            stale = true;
            self.look_inside()?;
            turn = self.turn.as_mut().expect("virtual time");
        }
        if !turn.out.is_empty() {
            turn.stale |= stale;
            return Ok(());
        }
        turn.name_born();
        let mut arrived = std::mem::take(&mut turn.arrived);
        arrived.sort_by_key(|(_, call)| {
            let serial = turn.serials.get(&call.tid).copied().unwrap_or(u64::MAX);
            (serial, call.tid)
        });
        let mut own = Vec::new();
        for (program, call) in arrived {
            turn.serial(call.tid);
            let heard = Ready::Heard(program, call);
            match turn.round.place_of(call.tid) {
                Some(place) => own.push((place, heard)),
                None => turn.line.push_back(heard),
            }
        }
        if stale {
            self.look_at_host()?;
            self.look_at_locks();
        }
        self.look_at_children();
        self.find_signals()?;
        let turn = self.turn.as_mut().expect("virtual time");
        own.sort_by_key(|(place, _)| *place);
        for (place, own) in own.into_iter().rev() {
            match turn.round.may_keep(place) {
                true => turn.line.push_front(own),
                false => turn.line.push_back(own),
            }
        }
        Ok(())
    }

    /// Waits until something is heard of those who are out.
    fn await_out(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        let turn = self.turn.as_ref().expect("virtual time");
        let patience = states::interval(&turn.out, turn.waits);
        let limit = timeout.map_or(patience, |t| t.min(patience));
        let before = turn.out.len();
        self.catch_events(Some(limit))?;
        self.arrive()?;
        let turn = self.turn.as_mut().expect("virtual time");
        if turn.out.len() == before && limit == patience {
            turn.waits += 1;
            turn.silence.lasts += limit;
            self.look_after_out()?;
            self.look_at_silence()?;
        }
        // Before time passes, whoever steps the worker is to see who has ended.
        match self.turn.as_ref().is_some_and(|turn| turn.out.is_empty()) {
            true => self.take_in_ends(),
            false => Ok(()),
        }
    }

    /// Nobody can go on: waits for the world outside. Whether it has something.
    fn await_outside(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        let own = self.as_raw_fd();
        let turn = self.turn.as_mut().expect("virtual time");
        turn.stale = true;
        let mut fds = [own, turn.set.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // Whoever waits may be sent a signal from outside, which nothing tells of.
        let most = Duration::from_millis(100);
        let limit = timeout.map_or(most, |t| t.min(most));
        // SAFETY: two structures, as said.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, limit.as_millis() as i32) };
        let any = fds.iter().any(|fd| fd.revents != 0);
        if !any {
            self.pulse.hint();
        }
        Ok(self.catch_events(Some(Duration::ZERO))? > 0 || any)
    }

    /// Forgets a thread that is gone.
    pub(crate) fn forget_thread(&mut self, tid: i32) {
        if let Some(near) = &mut self.near {
            near.forget(tid);
        }
        let Some(turn) = &mut self.turn else { return };
        turn.parked.remove(&tid);
        // A signal to others may have gone with it.
        self.pulse.doubt_all();
        turn.out.retain(|out| out.tid != tid);
        turn.inside.retain(|(inside, _)| *inside != tid);
        turn.astray.remove(tid);
        turn.arrived.retain(|(_, call)| call.tid != tid);
        turn.line.retain(|ready| ready.tid() != tid);
        turn.round.forget(tid);
        turn.signalled.remove(&tid);
        turn.kept.remove(&tid);
        turn.waited.remove(&tid);
        turn.status.remove(&tid);
        turn.serials.remove(&tid);
        turn.calls.remove(&tid);
        turn.last.remove(&tid);
        turn.futexes.forget(tid);
        turn.restarts.remove(&tid);
        turn.stale = true;
    }

    /// Forgets a process that is gone.
    pub(crate) fn forget_process(&mut self, pid: i32) {
        let Some(turn) = &mut self.turn else { return };
        turn.out.retain(|out| out.pid != pid);
        turn.inside.retain(|(_, inside)| *inside != pid);
        turn.chance.forget(pid);
        turn.shown.remove(&pid);
        turn.moved.remove(&pid);
        turn.stale = true;
        turn.timers.forget(pid);
        turn.futexes.forget_memory(pid);
        self.note_end(pid);
        let number = crate::target::own_number(pid).unwrap_or(pid);
        self.wake_after_end(number);
        self.release_vfork(pid);
    }
}
