//! On which processors the worker and its programs run, and whether it polls their shared rings: what
//! is decided there belongs together, for a ring is polled on a processor of the worker's own, and
//! where none is, threads that call all the time had better be near (`affinity`).
//!
//! While other processes of the host have that processor, too, no ring is polled (`contention`).
//! Where that is left to the worker, it does so only while calls come often (`polling`).

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vink_sys::process::{affinity, cpus, one_cpu, set_affinity, CpuSet};
use vink_syscalls::{sched_class, Sched};

use crate::affinity::CpuAffinity;
use crate::contention::{Change, Contention};
use crate::polling::{CallsForm, PollingPolicy, Separation};
use crate::process_ring::ProcessRing;
use crate::process_table::ProcessTable;

/// How long the worker stays awake for the next posted call.
const AWAKE: Duration = Duration::from_micros(50);
/// Polls of rings between two of all else, and for how many of them serving what was found there
/// counts.
const IDLE_POLLS: u32 = 256;
const SERVED_POLLS: u32 = 16;
/// While rings are polled, the clock is read once in so many steps: a step is shorter than 10 µs.
const STEPS_PER_CHECK: u32 = 16;

/// Which processors the worker and the programs have.
struct Processors {
    worker: CpuSet,
    programs: CpuSet,
    contention: Contention,
    /// A program has set an affinity: none is to be changed.
    set: bool,
}

impl Processors {
    /// Takes the last of this thread's processors for it alone: the first one tends to have the
    /// most interrupts. `None` if there is no other.
    fn split() -> Option<Processors> {
        let mut programs = affinity(0).filter(|own| own.count() > 1)?;
        let last = cpus(&programs).next_back()?;
        programs.unset(last);
        let worker = one_cpu(last);
        set_affinity(0, &worker).then(|| Processors {
            worker,
            programs,
            contention: Contention::new(),
            set: false,
        })
    }

    /// Goes where the worker is to be.
    fn bind_worker(&self) {
        let place = match self.contention.is_contended() {
            true => &self.programs,
            false => &self.worker,
        };
        set_affinity(0, place);
    }

    /// What is forked meanwhile is a program.
    fn lend<T>(&self, fork: impl FnOnce() -> T) -> T {
        set_affinity(0, &self.programs);
        let done = fork();
        self.bind_worker();
        done
    }
}

/// Polling that is left to the worker.
struct Auto {
    policy: PollingPolicy,
    /// There while the worker polls.
    separation: Option<Separation>,
    contention: Contention,
    /// A program has set an affinity: none is to be changed.
    set: bool,
}

/// The rings of the programs of a worker.
struct RingPolling {
    /// `None`: in virtual time, or if polling is left to the worker.
    processors: Option<Processors>,
    auto: Option<Auto>,
    last_id: u64,
    /// Those attended to.
    polled: Vec<Rc<ProcessRing>>,
    /// Until when, if nothing is posted.
    until: Option<Instant>,
    /// Polls of rings since the last one of all else.
    looks: u32,
    /// Steps since the worker last looked whether polling pays.
    steps: u32,
    /// Readiness that an answered call has caused may not be published yet.
    publish_pending: bool,
}

impl RingPolling {
    fn new(processors: Option<Processors>, auto: Option<Auto>) -> RingPolling {
        RingPolling {
            processors,
            auto,
            last_id: 0,
            polled: Vec::new(),
            until: None,
            looks: 0,
            steps: 0,
            publish_pending: false,
        }
    }

    /// Whether readiness that answered calls have caused is still to be published, for readers of
    /// the page.
    fn set_publish_pending(&mut self, pending: bool) {
        if self.publish_pending != pending {
            self.publish_pending = pending;
            for ring in &self.polled {
                ring.shared()
                    .publish_pending
                    .0
                    .store(pending.into(), Ordering::SeqCst);
            }
        }
    }

    /// Whether no ring is polled for now: other processes have the worker's processor, or calls
    /// come too seldom.
    fn is_off(&self) -> bool {
        let is_contended = |processors: &Processors| processors.contention.is_contended();
        self.processors.as_ref().is_some_and(is_contended)
            || self.auto.as_ref().is_some_and(|auto| !auto.policy.polls())
    }

    /// A program has set an affinity.
    fn keep_affinities(&mut self) {
        if let Some(processors) = &mut self.processors {
            processors.set = true;
        }
        if let Some(auto) = &mut self.auto {
            auto.set = true;
        }
    }

    /// How long the worker may sleep at most.
    fn limit(&self) -> Option<Duration> {
        self.auto.as_ref().and_then(|auto| auto.policy.limit())
    }

    fn separation(&mut self) -> Option<&mut Separation> {
        self.auto.as_mut()?.separation.as_mut()
    }

    /// A thread stays off the processor on which the worker polls.
    fn hold(&mut self, tid: i32) {
        if let Some(auto) = self.auto.as_mut().filter(|auto| !auto.set) {
            if let Some(separation) = &mut auto.separation {
                separation.hold(tid);
            }
        }
    }

    /// What is forked meanwhile is a program.
    fn lend<T>(&self, fork: impl FnOnce() -> T) -> T {
        match &self.processors {
            Some(processors) => processors.lend(fork),
            None => fork(),
        }
    }
}

/// Where the worker and its programs run.
pub(crate) struct Placement {
    /// There if programs had better be near.
    affinity: Option<CpuAffinity>,
    /// There if programs may post calls.
    rings: Option<RingPolling>,
}

impl Placement {
    /// Programs post no calls. They are kept near, if time is real.
    pub(crate) fn new(is_virtual: bool) -> Placement {
        Placement {
            affinity: (!is_virtual).then(CpuAffinity::new).flatten(),
            rings: None,
        }
    }

    /// See [`Worker::allow_shared_rings`](crate::Worker::allow_shared_rings).
    pub(crate) fn allow_rings(&mut self, is_virtual: bool) -> bool {
        self.affinity = None;
        self.rings = match is_virtual {
            true => Some(RingPolling::new(None, None)),
            false => Processors::split().map(|processors| RingPolling::new(Some(processors), None)),
        };
        self.rings.is_some()
    }

    /// See [`Worker::allow_shared_rings_when_often`](crate::Worker::allow_shared_rings_when_often).
    pub(crate) fn allow_rings_when_often(&mut self) -> bool {
        if affinity(0).is_none_or(|own| own.count() < 2) {
            return false;
        }
        let auto = Auto {
            policy: PollingPolicy::new(),
            separation: None,
            contention: Contention::new(),
            set: false,
        };
        self.rings = Some(RingPolling::new(None, Some(auto)));
        true
    }

    /// Whether programs may have shared rings.
    pub(crate) fn has_rings(&self) -> bool {
        self.rings.is_some()
    }

    /// Whether a program has had one.
    pub(crate) fn has_lent_rings(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| rings.last_id > 0)
    }

    /// The shared ring of a process, if programs may have some and this one has.
    pub(crate) fn ring_of(&self, table: &ProcessTable, pid: i32) -> Option<Rc<ProcessRing>> {
        let has_rings = self.has_lent_rings();
        has_rings.then(|| table.ring(pid)).flatten()
    }

    /// The number of a new ring, if programs may have some.
    pub(crate) fn next_ring(&mut self) -> Option<u64> {
        let rings = self.rings.as_mut()?;
        rings.last_id += 1;
        Some(rings.last_id)
    }

    /// Which form calls have in real time; `None`: programs have no rings.
    pub(crate) fn form(&self) -> Option<CallsForm> {
        let rings = self.rings.as_ref()?;
        Some(match &rings.auto {
            Some(auto) => auto.policy.form(),
            None if rings.is_off() => CallsForm::Crowded,
            None => CallsForm::Shared,
        })
    }

    /// A program is about to be forked: it has this thread's affinity, which is not to be one that
    /// only the worker has.
    pub(crate) fn before_spawn(&mut self) {
        self.stop_polling(CallsForm::Seldom);
        if let Some(affinity) = &mut self.affinity {
            affinity.unpin_all();
        }
    }

    /// What is forked meanwhile is a program.
    pub(crate) fn lend<T>(&self, fork: impl FnOnce() -> T) -> T {
        match &self.rings {
            Some(rings) => rings.lend(fork),
            None => fork(),
        }
    }

    /// A thread has made a trapped call.
    pub(crate) fn count_call(&mut self, tid: i32) {
        if let Some(affinity) = &mut self.affinity {
            affinity.count_call(tid);
        }
    }

    /// sched_getaffinity(2) and sched_setaffinity(2): a program is to find, and to change, its own.
    pub(crate) fn on_affinity_call(&mut self, nr: i64) {
        match sched_class(nr) {
            Sched::Getaffinity => self.before_spawn(),
            _ => {
                self.stop_polling(CallsForm::Seldom);
                self.affinity = None;
                if let Some(rings) = &mut self.rings {
                    rings.keep_affinities();
                }
            }
        }
    }

    /// When something of it is due (`CLOCK_MONOTONIC`, ns).
    pub(crate) fn due(&self) -> Option<u64> {
        self.affinity.as_ref().and_then(CpuAffinity::due)
    }

    /// It is now.
    pub(crate) fn expire(&mut self, now: u64) {
        if let Some(affinity) = &mut self.affinity {
            affinity.expire(now);
        }
    }

    /// How long the worker may sleep at most.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.rings.as_ref().and_then(RingPolling::limit)
    }

    /// See [`RingPolling::set_publish_pending`].
    pub(crate) fn set_publish_pending(&mut self, pending: bool) {
        if let Some(rings) = &mut self.rings {
            rings.set_publish_pending(pending);
        }
    }

    /// A thread stays off the processor on which the worker polls.
    pub(crate) fn hold(&mut self, tid: i32) {
        if let Some(rings) = &mut self.rings {
            rings.hold(tid);
        }
    }

    /// The rings that are polled.
    pub(crate) fn polled(&self) -> &[Rc<ProcessRing>] {
        self.rings.as_ref().map_or(&[], |rings| &rings.polled)
    }

    /// Something was posted: the worker polls for a while, unless it polls nothing.
    pub(crate) fn stay_awake(&mut self) {
        if let Some(rings) = self.rings.as_mut().filter(|rings| !rings.is_off()) {
            rings.until = Some(Instant::now() + AWAKE);
        }
    }

    /// A call on a stream has been trapped, of a thread that could post it: if such calls come
    /// often, the worker polls. So many calls were posted so far, and not refused.
    pub(crate) fn consider_polling(&mut self, tid: i32, posted: u64) {
        let Some(auto) = self
            .rings
            .as_mut()
            .and_then(|polling| polling.auto.as_mut())
        else {
            return;
        };
        if auto.policy.polls() || !auto.policy.count_trapped() || !auto.contention.is_over() {
            return;
        }
        // All have their own affinity again.
        self.affinity = None;
        auto.separation = Separation::begin();
        match auto.separation {
            Some(_) => auto.policy.begin(Instant::now(), posted),
            None => self.affinity = CpuAffinity::new(),
        }
        if let Some(polling) = &mut self.rings {
            polling.hold(tid);
        }
    }

    /// The worker goes back to trapped calls, if polling is left to it.
    pub(crate) fn stop_polling(&mut self, form: CallsForm) {
        let Some(polling) = &mut self.rings else {
            return;
        };
        let Some(auto) = polling.auto.as_mut().filter(|auto| auto.policy.polls()) else {
            return;
        };
        auto.separation = None;
        auto.policy.end(Instant::now(), form);
        if !auto.set {
            self.affinity = CpuAffinity::new();
        }
        // No more posted calls: what is there is served before the worker sleeps.
        (polling.until, polling.looks) = (None, IDLE_POLLS);
    }

    fn mind_polling(&mut self, served: u64) {
        let auto = self
            .rings
            .as_mut()
            .and_then(|polling| polling.auto.as_mut());
        let Some(auto) = auto.filter(|auto| auto.policy.polls()) else {
            return;
        };
        if auto.contention.check() == Some(Change::Contended) {
            self.stop_polling(CallsForm::Crowded);
        } else if !auto.policy.pays(Instant::now(), served) {
            self.stop_polling(CallsForm::Seldom);
        }
    }

    /// A thread is to have its own affinity, for what it is about to do.
    pub(crate) fn release(&mut self, tid: i32) {
        if let Some(affinity) = &mut self.affinity {
            affinity.unpin(tid);
        }
        if let Some(separation) = self.rings.as_mut().and_then(RingPolling::separation) {
            separation.release(tid);
        }
    }

    /// A thread is gone, and its affinity with it.
    pub(crate) fn forget(&mut self, tid: i32) {
        if let Some(affinity) = &mut self.affinity {
            affinity.forget(tid);
        }
        if let Some(separation) = self.rings.as_mut().and_then(RingPolling::separation) {
            separation.forget(tid);
        }
    }

    /// Polls rings also while other processes of the host have the worker's processor, which is
    /// slow (`contention`). For tests of what is posted: other tests run beside them.
    pub(crate) fn poll_despite_contention(&mut self) {
        if let Some(processors) = self
            .rings
            .as_mut()
            .and_then(|polling| polling.processors.as_mut())
        {
            processors.contention = Contention::none();
        }
        if let Some(auto) = self
            .rings
            .as_mut()
            .and_then(|polling| polling.auto.as_mut())
        {
            auto.contention = Contention::none();
        }
    }

    /// Whether calls are better posted: always, unless that is left to the worker.
    pub(crate) fn wants_rings(&self) -> bool {
        let polling = self.rings.as_ref();
        polling.is_some_and(|polling| polling.auto.is_none() || !polling.is_off())
    }

    /// Sees to it that the worker is on its own processor, or near its programs where that one is
    /// busy with others' work.
    pub(crate) fn update_contention(&mut self, served: u64) {
        let Some(polling) = &mut self.rings else {
            return;
        };
        polling.steps += 1;
        if polling.steps < STEPS_PER_CHECK && !polling.polled.is_empty() {
            return;
        }
        polling.steps = 0;
        self.mind_polling(served);
        let Some(polling) = &mut self.rings else {
            return;
        };
        let Some(processors) = &mut polling.processors else {
            return;
        };
        let Some(change) = processors.contention.check() else {
            return;
        };
        self.affinity = None;
        processors.bind_worker();
        if change == Change::Contended {
            if !processors.set {
                self.affinity = CpuAffinity::new();
            }
            // No more posted calls: what is there is served before the worker sleeps.
            (polling.until, polling.looks) = (None, IDLE_POLLS);
        }
    }

    /// Polls a ring from now on.
    pub(crate) fn poll_ring(&mut self, ring: Rc<ProcessRing>) {
        let polling = self.rings.as_mut().expect("it has lent this one");
        if polling.is_off() {
            return;
        }
        polling.until = Some(Instant::now() + AWAKE);
        if !ring.is_polled() {
            ring.set_polled(true);
            for owner in ring.threads() {
                polling.hold(owner);
            }
            polling.polled.push(ring);
        }
    }

    /// What to do next about the rings.
    pub(crate) fn check_rings(&mut self) -> RingCheck {
        let Some(polling) = self
            .rings
            .as_mut()
            .filter(|polling| !polling.polled.is_empty())
        else {
            return RingCheck::Sleep;
        };
        loop {
            if polling.looks >= IDLE_POLLS {
                polling.looks = 0;
                if polling.until.is_some_and(|until| Instant::now() < until) {
                    return RingCheck::Around;
                }
                for ring in &polling.polled {
                    ring.set_polled(false);
                }
                // What was posted before that was seen must be served.
                if polling.polled.iter().all(|ring| ring.is_empty()) {
                    polling.polled.clear();
                    if let Some(auto) = &mut polling.auto {
                        auto.policy.count_sleep();
                    }
                    return RingCheck::Sleep;
                }
                for ring in &polling.polled {
                    ring.set_polled(true);
                }
            }
            polling.looks += 1;
            if polling.polled.iter().any(|ring| !ring.is_empty()) {
                polling.looks += SERVED_POLLS;
                return RingCheck::Serve;
            }
            std::hint::spin_loop();
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingCheck {
    /// Serve what is posted.
    Serve,
    /// See what else there is, without waiting for it.
    Around,
    /// No call is posted: wait for something else.
    Sleep,
}
