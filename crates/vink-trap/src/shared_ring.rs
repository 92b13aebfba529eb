//! Calls that programs post in shared memory instead of making them (`vink-ring`): making rings,
//! and serving what is posted there.
//!
//! A process that has `vink-quick` loaded asks for its ring, and each of its threads for a slot, by
//! a call that no kernel knows and that is trapped. The ring says of which descriptors calls may be
//! posted: a stream is marked when a call on it has been trapped, and unmarked when the table loses
//! it, before its number can mean anything else.
//!
//! After a trapped call on a stream of a process with a ring, the worker polls the ring for
//! [`AWAKE`], and again after each call found. Then it sleeps, as ever, until something is trapped.
//! It has a processor of its own for that, which its programs don't use (`processors`).
//!
//! A posted call goes the way of a trapped one ([`Continuation::Posted`]), but with the worker's
//! own memory, and never waits.
//!
//! While other processes of the host have that processor, too, no ring is polled (`contention`).
//! Where that is left to the worker, it does so only while calls come often (`polling`).
//!
//! In virtual time nothing is posted, and no ring polled; what the ring says of pipes is for calls
//! that are not trapped (`sched`, `call_budget`).

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{null_mut, NonNull};
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vink_kernel::{Call, Outcome};
use vink_ring::{
    Request, SchedPage, SharedRing, FILES, FLUSH, GET_RING, GET_SLOT, HOST, OTHER, PIPE, RECEIVES,
    REFUSED, SENDS, SLOTS, STREAM, UNKNOWN,
};
use vink_sys::errno::{EAGAIN, EBADF};
use vink_sys::fd::in_memory_sealed;
use vink_sys::process::{affinity, cpus, one_cpu, set_affinity, CpuSet};

use crate::affinity::CpuAffinity;
use crate::contention::{Change, Contention};
use crate::dispatch::{poll_fd, to_errno_result};
use crate::notification::{Notification, Reply};
use crate::polling::{CallsForm, PollingPolicy, Separation};
use crate::process::{Continuation, Entry, File, FileKind, InFlight};
use crate::readiness::StalePlaceholders;
use crate::sched::Clock;
use crate::sched::ThreadState;
use crate::syscall_ctx::SyscallCtx;
use crate::tracee::ns_pid_of_kind;
use crate::worker::Worker;
use crate::Error;

const FIONREAD: i32 = libc::FIONREAD as i32;

/// How long the worker stays awake for the next posted call.
const AWAKE: Duration = Duration::from_micros(50);
/// Polls of rings between two of all else, and for how many of them serving what was found there
/// counts.
const IDLE_POLLS: u32 = 256;
const SERVED_POLLS: u32 = 16;
/// While rings are polled, the clock is read once in so many steps: a step is shorter than 10 µs.
const STEPS_PER_CHECK: u32 = 16;

/// The ring of one process, and the threads of its slots.
pub(crate) struct ProcessRing {
    shared: NonNull<SharedRing>,
    /// The thread of each slot; 0: none.
    owners: RefCell<[i32; SLOTS]>,
    /// The process.
    pid: i32,
    polled: Cell<bool>,
    /// In virtual time, the call whose descriptors are there as those waited for; 0: none.
    pub(crate) polled_by: Cell<u64>,
    /// ... and the one that the process itself has written down there.
    pub(crate) posted_by: Cell<u64>,
    stale: StalePlaceholders,
    /// The slot whose deferred sends are next.
    next: Cell<usize>,
}

impl ProcessRing {
    /// A ring that no process has yet, and its file.
    fn new(id: u64, pid: i32) -> io::Result<(ProcessRing, OwnedFd)> {
        let len = size_of::<SharedRing>();
        let file = in_memory_sealed(c"vink-ring", len as u64)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping of all of the file.
        let at = unsafe { libc::mmap(null_mut(), len, access, shared, fd, 0) };
        let shared = match NonNull::new(at.cast::<SharedRing>()) {
            Some(shared) if at != libc::MAP_FAILED => shared,
            _ => return Err(io::Error::last_os_error()),
        };
        let ring = ProcessRing {
            shared,
            owners: RefCell::new([0; SLOTS]),
            pid,
            polled: Cell::new(false),
            polled_by: Cell::new(0),
            posted_by: Cell::new(0),
            stale: StalePlaceholders::default(),
            next: Cell::new(0),
        };
        ring.shared().id.store(id, Ordering::Relaxed);
        ring.shared().host_waiters.store(1, Ordering::Relaxed);
        Ok((ring, file.into()))
    }

    fn shared(&self) -> &SharedRing {
        // SAFETY: mapped until this is dropped; all that another process can change are atomics,
        // and bytes that are reached by pointers only.
        unsafe { self.shared.as_ref() }
    }

    /// Says what a descriptor of the program's is.
    fn mark(&self, fd: i32, kind: u8) {
        if let Some(file) = self.shared().files.get(fd as u32 as usize) {
            file.store(kind, Ordering::Release);
        }
    }

    /// It is a pipe of the host's, in virtual time.
    pub(crate) fn mark_pipe(&self, fd: i32) {
        self.mark(fd, PIPE);
    }

    /// No number is known as a pipe's any more.
    pub(crate) fn unmark_pipes(&self) {
        let files = self.shared().files.iter();
        for file in files.filter(|file| file.load(Ordering::Relaxed) == PIPE) {
            file.store(UNKNOWN, Ordering::Release);
        }
    }

    /// What there is to say in virtual time.
    pub(crate) fn sched(&self) -> &SchedPage {
        &self.shared().sched
    }

    fn kind(&self, fd: i32) -> u8 {
        let file = self.shared().files.get(fd as u32 as usize);
        file.map_or(OTHER, |file| file.load(Ordering::Relaxed))
    }

    /// The number does not mean what it has meant.
    pub(crate) fn forget_file(&self, fd: i32) {
        self.mark(fd, UNKNOWN);
    }

    /// The same when it has been closed.
    pub(crate) fn close_file(&self, fd: i32) {
        self.forget_file(fd);
        if let Some(entry) = self.shared().readiness.get(fd as u32 as usize) {
            entry.reset();
        }
    }

    pub(crate) fn has_readiness_entry(&self, fd: i32) -> bool {
        (fd as u32 as usize) < FILES && !self.is_closed()
    }

    /// Publishes send credit on a number.
    pub(crate) fn publish_credit(&self, fd: i32, credit: u32) {
        let shared = self.shared();
        if let Some(entry) = shared.readiness.get(fd as u32 as usize) {
            entry.publish_credit(shared.syscall_seq.load(Ordering::Relaxed), credit);
        }
    }

    /// Whether a deferred send for a number is on its way.
    fn has_deferred_for(&self, fd: i32) -> bool {
        let entry = self.shared().readiness.get(fd as u32 as usize);
        entry.is_some_and(|entry| entry.is_credit_taken())
    }

    /// A call of the process has been trapped: send credit published before is void.
    pub(crate) fn count_trap(&self) {
        self.shared().syscall_seq.fetch_add(1, Ordering::AcqRel);
    }

    fn has_deferred(&self) -> bool {
        self.shared().deferred.0.load(Ordering::SeqCst) != 0
    }

    /// A slot that may have deferred sends, round robin.
    fn next_deferred_slot(&self) -> Option<usize> {
        let there = self.shared().deferred.0.load(Ordering::Acquire);
        if there == 0 {
            return None;
        }
        let first = self.next.get() as u32;
        let ahead = there.rotate_right(first).trailing_zeros();
        let slot = (first + ahead) as usize % SLOTS;
        self.next.set((slot + 1) % SLOTS);
        Some(slot)
    }

    /// Publishes the readiness of a number, and which of it is an edge.
    pub(crate) fn publish(&self, fd: i32, events: u32, again: u32, shared: bool) {
        let ring = self.shared();
        if let Some(entry) = ring.readiness.get(fd as u32 as usize) {
            entry.publish(events, again, shared);
            ring.publish_count.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether placeholders may be stale: all waiters read the readiness page.
    pub(crate) fn may_leave_host_stale(&self) -> bool {
        self.polled.get()
            && self.stale.are_allowed()
            && self.shared().host_waiters.load(Ordering::SeqCst) == 0
    }

    /// Whether this thread, which polls, is counted as a host waiter.
    pub(crate) fn is_host_waiter(&self, tid: i32) -> bool {
        let slot = self.owners.borrow().iter().position(|o| *o == tid);
        let looking = self.shared().polling_slots.load(Ordering::SeqCst);
        slot.is_some_and(|slot| looking & 1 << slot != 0 && !self.may_leave_host_stale())
    }

    /// This file's placeholder is stale.
    pub(crate) fn add_stale(&self, file: Weak<File>) {
        self.stale.add(file);
    }

    pub(crate) fn may_have_stale(&self) -> bool {
        self.stale.are_allowed()
    }

    /// From now on none does.
    pub(crate) fn forbid_stale(&self) {
        self.stale.forbid();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stale.is_closed()
    }

    /// Nothing is published here any more.
    pub(crate) fn close(&self) {
        self.stale.close();
        self.unmark_range(0, u32::MAX);
    }

    /// The same of all numbers from `first` to `last`.
    pub(crate) fn unmark_range(&self, first: u32, last: u32) {
        let files = self.shared().files.iter().enumerate();
        for (fd, file) in files.skip(first as usize) {
            if fd > last as usize {
                break;
            }
            file.store(UNKNOWN, Ordering::Release);
            self.shared().readiness[fd].reset();
        }
    }

    /// Whether nothing is posted.
    fn is_empty(&self) -> bool {
        self.shared().is_empty()
    }

    fn set_polled(&self, attended: bool) {
        if !attended {
            self.stale.flush();
        }
        self.polled.set(attended);
        self.shared().set_polling(attended);
    }

    /// A slot for a thread; none if all are taken by threads that are `alive`.
    fn slot(&self, tid: i32, alive: impl Fn(i32) -> bool) -> Option<usize> {
        let mut owners = self.owners.borrow_mut();
        let own = owners.iter().position(|owner| *owner == tid);
        let free = || owners.iter().position(|o| *o == 0 || !alive(*o));
        let slot = own.or_else(free)?;
        if owners[slot] != tid {
            owners[slot] = tid;
            self.shared().slots[slot].deferred_sends.clear();
        }
        Some(slot)
    }

    pub(crate) fn answer(&self, slot: usize, result: i64) {
        self.shared().slots[slot].set_answer(result);
    }
}

impl Drop for ProcessRing {
    fn drop(&mut self) {
        // A thread that has just posted finds that the worker does not poll.
        self.set_polled(false);
        // SAFETY: mapped by `new`, and not referred to any more.
        unsafe { libc::munmap(self.shared.as_ptr().cast(), size_of::<SharedRing>()) };
    }
}

/// Which processors the worker and the programs have.
pub(crate) struct Processors {
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
pub(crate) struct RingPolling {
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
    pub(crate) fn set_publish_pending(&mut self, pending: bool) {
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
    pub(crate) fn is_off(&self) -> bool {
        let is_contended = |processors: &Processors| processors.contention.is_contended();
        self.processors.as_ref().is_some_and(is_contended)
            || self.auto.as_ref().is_some_and(|auto| !auto.policy.polls())
    }

    /// A program has set an affinity.
    pub(crate) fn keep_affinities(&mut self) {
        if let Some(processors) = &mut self.processors {
            processors.set = true;
        }
        if let Some(auto) = &mut self.auto {
            auto.set = true;
        }
    }

    /// How long the worker may sleep at most.
    pub(crate) fn limit(&self) -> Option<Duration> {
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
    pub(crate) fn lend<T>(&self, fork: impl FnOnce() -> T) -> T {
        match &self.processors {
            Some(processors) => processors.lend(fork),
            None => fork(),
        }
    }
}

impl Worker {
    /// Lets programs that are started from now on with `libvink_quick.so` loaded (`LD_PRELOAD`)
    /// post calls in shared memory, which costs them no system call. From now on this thread has
    /// one processor for itself, and programs have the others. False if it can't be: there is one
    /// processor only, or calls are traced.
    ///
    /// In virtual time they post nothing, and all stay on their processors: what they do with pipes
    /// of the host's is not trapped, if it can be done without waiting. Then such calls are not
    /// seen ([`Worker::observe_calls`]), nor charged for; where calls are to be charged for
    /// ([`crate::Charge::call`]), all are trapped.
    pub fn allow_shared_rings(&mut self) -> bool {
        if self.tracer.is_some() {
            return false;
        }
        self.cpu_affinity = None;
        self.ring_polling = match self.clock {
            Clock::Virtual(_) => Some(RingPolling::new(None, None)),
            Clock::Real => {
                Processors::split().map(|processors| RingPolling::new(Some(processors), None))
            }
        };
        self.ring_polling.is_some()
    }

    /// The same, but the worker polls, on a processor of its own, only while calls come so often
    /// that it pays. Otherwise they are trapped, and it has no processor of its own. False also in
    /// virtual time.
    pub fn allow_shared_rings_when_often(&mut self) -> bool {
        let several = affinity(0).is_some_and(|own| own.count() > 1);
        if self.tracer.is_some() || self.clock.is_virtual() || !several {
            return false;
        }
        let auto = Auto {
            policy: PollingPolicy::new(),
            separation: None,
            contention: Contention::new(),
            set: false,
        };
        self.ring_polling = Some(RingPolling::new(None, Some(auto)));
        true
    }

    /// Which form the calls of programs with a shared ring have now; `None`: they have none
    /// ([`Worker::allow_shared_rings`], [`Worker::allow_shared_rings_when_often`]).
    pub fn calls_form(&self) -> Option<CallsForm> {
        let polling = self
            .ring_polling
            .as_ref()
            .filter(|_| !self.clock.is_virtual())?;
        Some(match &polling.auto {
            Some(auto) => auto.policy.form(),
            None if polling.is_off() => CallsForm::Crowded,
            None => CallsForm::Shared,
        })
    }

    /// A call on a stream has been trapped, of a thread that could post it: if such calls come
    /// often, the worker polls.
    pub(crate) fn consider_polling(&mut self, tid: i32) {
        let posted = self.statistics.served();
        let Some(auto) = self
            .ring_polling
            .as_mut()
            .and_then(|polling| polling.auto.as_mut())
        else {
            return;
        };
        if auto.policy.polls() || !auto.policy.count_trapped() || !auto.contention.is_over() {
            return;
        }
        // All have their own affinity again.
        self.cpu_affinity = None;
        auto.separation = Separation::begin();
        match auto.separation {
            Some(_) => auto.policy.begin(Instant::now(), posted),
            None => self.cpu_affinity = CpuAffinity::new(),
        }
        if let Some(polling) = &mut self.ring_polling {
            polling.hold(tid);
        }
    }

    /// The worker goes back to trapped calls, if polling is left to it.
    pub(crate) fn stop_polling(&mut self, form: CallsForm) {
        let Some(polling) = &mut self.ring_polling else {
            return;
        };
        let Some(auto) = polling.auto.as_mut().filter(|auto| auto.policy.polls()) else {
            return;
        };
        auto.separation = None;
        auto.policy.end(Instant::now(), form);
        if !auto.set {
            self.cpu_affinity = CpuAffinity::new();
        }
        // No more posted calls: what is there is served before the worker sleeps.
        (polling.until, polling.looks) = (None, IDLE_POLLS);
    }

    fn mind_polling(&mut self) {
        let served = self.statistics.served();
        let auto = self
            .ring_polling
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
    pub(crate) fn release_affinity(&mut self, tid: i32) {
        if let Some(affinity) = &mut self.cpu_affinity {
            affinity.unpin(tid);
        }
        if let Some(separation) = self.ring_polling.as_mut().and_then(RingPolling::separation) {
            separation.release(tid);
        }
    }

    /// A thread is gone, and its affinity with it.
    pub(crate) fn forget_affinity(&mut self, tid: i32) {
        if let Some(affinity) = &mut self.cpu_affinity {
            affinity.forget(tid);
        }
        if let Some(separation) = self.ring_polling.as_mut().and_then(RingPolling::separation) {
            separation.forget(tid);
        }
    }

    /// Polls rings also while other processes of the host have the worker's processor, which is
    /// slow (`contention`). For tests of what is posted: other tests run beside them.
    pub fn poll_despite_contention(&mut self) {
        if let Some(processors) = self
            .ring_polling
            .as_mut()
            .and_then(|polling| polling.processors.as_mut())
        {
            processors.contention = Contention::none();
        }
        if let Some(auto) = self
            .ring_polling
            .as_mut()
            .and_then(|polling| polling.auto.as_mut())
        {
            auto.contention = Contention::none();
        }
    }

    /// Whether the call asks for a ring or a slot; it is answered then.
    pub(crate) fn lend(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        if call.nr != libc::SYS_ioctl || call.args[0] as i32 != -1 {
            return Ok(false);
        }
        match call.args[1] {
            GET_RING => self.lend_ring(call)?,
            GET_SLOT => {
                let table = self.fd_table(call.pid);
                let pid = call.pid;
                let alive = |tid| self.threads.get(&tid).is_some_and(|t| t.pid == pid);
                let ring = table.ring();
                let slot = ring.and_then(|ring| ring.slot(call.tid, alive));
                if let Some(polling) = self.ring_polling.as_mut().filter(|_| slot.is_some()) {
                    polling.hold(call.tid);
                }
                self.answer(call, slot.map_or(EBADF, |slot| slot as i64))?;
            }
            FLUSH => {
                let ring = self.fd_table(call.pid).ring();
                if let Some(ring) = &ring {
                    self.send_deferred_of(ring)?;
                    ring.stale.flush();
                }
                self.answer(call, ring.map_or(EBADF, |_| 0))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn lend_ring(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let table = self.fd_table(call.pid);
        let shares = table.is_shared() || table.ring().is_some();
        let (is_virtual, all_trapped) = (self.clock.is_virtual(), self.clock.charges_calls());
        let pid = call.pid;
        // A tracer is to see all calls of its tracees.
        let is_traced = !is_virtual && ns_pid_of_kind(pid, "TracerPid:") != Some(0);
        let (Some(polling), false) = (&mut self.ring_polling, shares || all_trapped || is_traced)
        else {
            return self.answer(call, EBADF);
        };
        polling.last_id += 1;
        let Ok((ring, file)) = ProcessRing::new(polling.last_id, pid) else {
            return self.answer(call, -i64::from(libc::ENOMEM));
        };
        let sched = ring.sched();
        sched.is_virtual.store(is_virtual.into(), Ordering::Relaxed);
        let Some(listener) = self.listener(call) else {
            return Ok(());
        };
        self.publish_time(call.tid, ThreadState::Running);
        match listener.answer_fd(call.id, file.as_raw_fd(), true) {
            Ok((Reply::ThreadGone, _)) => Ok(()),
            Ok((Reply::Delivered, fd)) => {
                self.notify_observer(call, Some(fd.into()));
                self.thread_resumed(call, Reply::Delivered, ThreadState::Running);
                let table = self.fd_table(call.pid);
                if table.is_seen_by_others() {
                    ring.forbid_stale();
                }
                table.set_ring(Rc::new(ring));
                Ok(())
            }
            Err(errno) => self.answer(call, -i64::from(errno)),
        }
    }

    /// A call on one of Vink's files has been trapped, though its process may have a ring.
    pub(crate) fn poll_ring_after(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let ring = self.fd_table(call.pid).ring();
        let Some(ring) = ring.filter(|_| !self.clock.is_virtual()) else {
            return Ok(());
        };
        let fd = call.args[0] as i32;
        if !self.finds_stream(call.tid, &ring, fd, entry)? {
            return Ok(());
        }
        if can_be_posted(call.nr) {
            self.consider_polling(call.tid);
        }
        // Also while no ring is polled: once it is, calls on the stream are posted, and this would
        // be done no more.
        entry.file.publish_on(&ring, fd);
        if self.wants_rings() {
            self.poll_ring(ring);
        }
        Ok(())
    }

    /// Whether calls are better posted: always, unless that is left to the worker.
    pub(crate) fn wants_rings(&self) -> bool {
        let polling = self.ring_polling.as_ref();
        polling.is_some_and(|polling| polling.auto.is_none() || !polling.is_off())
    }

    /// Sees to it that the worker is on its own processor, or near its programs where that one is
    /// busy with others' work.
    pub(crate) fn update_contention(&mut self) {
        let Some(polling) = &mut self.ring_polling else {
            return;
        };
        polling.steps += 1;
        if polling.steps < STEPS_PER_CHECK && !polling.polled.is_empty() {
            return;
        }
        polling.steps = 0;
        self.mind_polling();
        let Some(polling) = &mut self.ring_polling else {
            return;
        };
        let Some(processors) = &mut polling.processors else {
            return;
        };
        let Some(change) = processors.contention.check() else {
            return;
        };
        self.cpu_affinity = None;
        processors.bind_worker();
        if change == Change::Contended {
            if !processors.set {
                self.cpu_affinity = CpuAffinity::new();
            }
            // No more posted calls: what is there is served before the worker sleeps.
            (polling.until, polling.looks) = (None, IDLE_POLLS);
        }
    }

    /// Polls a ring from now on.
    pub(crate) fn poll_ring(&mut self, ring: Rc<ProcessRing>) {
        let polling = self.ring_polling.as_mut().expect("it has lent this one");
        if polling.is_off() {
            return;
        }
        polling.until = Some(Instant::now() + AWAKE);
        if !ring.polled.get() {
            ring.set_polled(true);
            for owner in ring.owners.borrow().iter().filter(|owner| **owner != 0) {
                polling.hold(*owner);
            }
            polling.polled.push(ring);
        }
    }

    /// Whether a descriptor of a process with a ring is a stream, which is marked there from now
    /// on.
    pub(crate) fn finds_stream(
        &mut self,
        tid: i32,
        ring: &ProcessRing,
        fd: i32,
        entry: &Entry,
    ) -> Result<bool, Error> {
        if ring.kind(fd) == UNKNOWN {
            let is_stream = self.is_stream(tid, entry)?;
            ring.mark(fd, if is_stream { STREAM } else { OTHER });
        }
        Ok(ring.kind(fd) == STREAM)
    }

    /// A call on one of the host's files has been trapped, though its process may have a ring.
    pub(crate) fn mark_host_file(&self, call: SyscallCtx) {
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        if self.file_holder.is_none() && !self.clock.is_virtual() {
            if let Some(ring) = self.fd_table(call.pid).ring() {
                ring.mark(call.args[0] as i32, HOST);
            }
        }
    }

    /// Whether it is a stream socket of the internet's.
    fn is_stream(&mut self, tid: i32, entry: &Entry) -> Result<bool, Error> {
        let file = &entry.file;
        if !matches!(file.kind, FileKind::Plain) {
            return Ok(false);
        }
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return to_errno_result(error).map(|_| false),
        };
        let mut option = |name: i32| -> Result<i32, Error> {
            let (mut value, mut len) = (-1i32, size_of::<i32>() as libc::socklen_t);
            let at = [(&raw mut value) as u64, (&raw mut len) as u64];
            let level = libc::SOL_SOCKET as u64;
            let args = [entry.number as u64, level, name as u64, at[0], at[1], 0];
            let result = self.kernel_call(task, libc::SYS_getsockopt, args)?;
            Ok(if result < 0 { -1 } else { value })
        };
        let of_internet = matches!(option(libc::SO_DOMAIN)?, libc::AF_INET | libc::AF_INET6);
        Ok(of_internet && option(libc::SO_PROTOCOL)? == libc::IPPROTO_TCP)
    }

    /// Serves what is posted.
    pub(crate) fn serve_rings(&mut self) -> Result<(), Error> {
        let count = self
            .ring_polling
            .as_ref()
            .map_or(0, |polling| polling.polled.len());
        for n in 0..count {
            let Some(ring) = self
                .ring_polling
                .as_ref()
                .and_then(|polling| polling.polled.get(n))
                .cloned()
            else {
                break;
            };
            let mut posted = ring.shared().posted.0.load(Ordering::Acquire);
            let mut served = posted != 0;
            while posted != 0 {
                let slot = posted.trailing_zeros() as usize;
                posted &= posted - 1;
                if ring.shared().take(slot) {
                    self.serve_posted(&ring, slot)?;
                }
            }
            // One at a time: threads wait for what is posted.
            if let Some(slot) = ring.next_deferred_slot() {
                served = true;
                self.send_one_deferred(&ring, slot)?;
            }
            let polling = self
                .ring_polling
                .as_mut()
                .filter(|polling| served && !polling.is_off());
            if let Some(polling) = polling {
                polling.until = Some(Instant::now() + AWAKE);
            }
        }
        Ok(())
    }

    /// Carries out all deferred sends that were made so far, before what was done later.
    pub(crate) fn send_deferred(&mut self) -> Result<(), Error> {
        let Some(polling) = &self.ring_polling else {
            return Ok(());
        };
        let late: Vec<_> = polling
            .polled
            .iter()
            .filter(|ring| ring.has_deferred())
            .cloned()
            .collect();
        late.iter().try_for_each(|ring| self.send_deferred_of(ring))
    }

    fn send_deferred_of(&mut self, ring: &Rc<ProcessRing>) -> Result<(), Error> {
        let shared = ring.shared();
        let mut there = shared.deferred.0.load(Ordering::SeqCst);
        while there != 0 {
            let slot = there.trailing_zeros() as usize;
            there &= there - 1;
            // Those that are there: a thread that goes on deferring sends must not keep all others
            // waiting.
            for _ in 0..shared.slots[slot].deferred_sends.count() {
                self.send_one_deferred(ring, slot)?;
            }
        }
        Ok(())
    }

    /// Carries out the first deferred send of a slot, if there is one.
    fn send_one_deferred(&mut self, ring: &Rc<ProcessRing>, slot: usize) -> Result<(), Error> {
        let shared = ring.shared();
        let deferred = &shared.slots[slot].deferred_sends;
        shared.deferred.0.fetch_and(!(1 << slot), Ordering::SeqCst);
        let Some(send) = deferred.first() else {
            return Ok(());
        };
        let (fd, flags, len) = send.read();
        let request = Request {
            nr: libc::SYS_sendto,
            fd,
            flags: flags | libc::MSG_NOSIGNAL,
            len,
        };
        let at = send.data() as u64;
        // Until what comes of it is published.
        ring.publish_credit(fd, 0);
        if let Some(tid) = self.deferred_sender(ring, slot)? {
            let outcome = self.make_posted(ring, slot, tid, request, at, true)?;
            self.conclude_posted(tid, outcome.flatten())?;
            self.finish_posted(tid)?;
            self.statistics.deferred += 1;
        }
        deferred.pop();
        if deferred.first().is_some() {
            shared.deferred.0.fetch_or(1 << slot, Ordering::SeqCst);
        }
        Ok(())
    }

    /// The thread in whose name a slot's deferred sends are made. It makes no trapped call as long
    /// as there are any; a thread that pretends to has none.
    fn deferred_sender(
        &mut self,
        ring: &Rc<ProcessRing>,
        slot: usize,
    ) -> Result<Option<i32>, Error> {
        let owner = ring.owners.borrow()[slot];
        let is_own = |tid: &i32| self.threads.get(tid).is_some_and(|t| t.pid == ring.pid);
        let Some(tid) = Some(owner).filter(is_own) else {
            return Ok(None);
        };
        self.finish_posted(tid)?;
        let thread = self.threads.get(&tid);
        Ok(thread.is_some_and(|t| t.pending.is_none()).then_some(tid))
    }

    /// Goes on until a thread's posted call, if there is one, is done: in the kernel it waits for
    /// nothing but another task's lock.
    fn finish_posted(&mut self, tid: i32) -> Result<(), Error> {
        loop {
            let thread = self.threads.get(&tid);
            let stage = thread.and_then(|t| Some(&t.pending.as_ref()?.in_flight.continuation));
            if !stage.is_some_and(|stage| matches!(stage, Continuation::Posted { .. })) {
                return Ok(());
            }
            self.kernel_dirty = true;
            self.run_kernel()?;
        }
    }

    /// Whether a request may be served before sends that were deferred before it: receipts that are
    /// certain to find something. What is on its way over a wire may come later.
    fn may_overtake(&self, ring: &Rc<ProcessRing>, request: Request, tid: i32) -> bool {
        let table = self
            .threads
            .get(&tid)
            .map(|thread| &self.processes[&thread.pid].table);
        let entry = table.and_then(|table| table.get(request.fd as u64));
        request.nr == libc::SYS_recvfrom
            && ring.kind(request.fd) == STREAM
            && entry
                .is_some_and(|e| e.file.placeholder.readiness.events() & libc::EPOLLIN as u32 != 0)
    }

    fn serve_posted(&mut self, ring: &Rc<ProcessRing>, slot: usize) -> Result<(), Error> {
        let tid = ring.owners.borrow()[slot];
        if ring.shared().slots[slot].read() == Request::FLUSH {
            ring.stale.flush();
            ring.answer(slot, 0);
            return Ok(());
        }
        let place = &ring.shared().slots[slot];
        let request = place.read();
        if !self.may_overtake(ring, request, tid) {
            self.send_deferred()?;
        }
        let at = place.data() as u64;
        let Some(outcome) = self.make_posted(ring, slot, tid, request, at, false)? else {
            self.statistics.refused += 1;
            ring.answer(slot, REFUSED);
            return Ok(());
        };
        self.conclude_posted(tid, outcome)
    }

    /// Goes on with a posted call, if it is done.
    fn conclude_posted(&mut self, tid: i32, outcome: Option<Outcome>) -> Result<(), Error> {
        // Before all that the call has brought about elsewhere is shown, as the thread waits awake.
        if let Some(outcome) = outcome {
            self.finish_kernel_call(tid, outcome);
            while let Some((pending, outcome)) = self.finished.pop_front() {
                self.conclude(pending, outcome)?;
            }
        }
        self.drain_kernel_events()?;
        self.run_kernel()
    }

    /// Makes a posted call in the kernel, if all is as it must be; what has come of it, if it is
    /// done.
    fn make_posted(
        &mut self,
        ring: &Rc<ProcessRing>,
        slot: usize,
        tid: i32,
        request: Request,
        at: u64,
        is_deferred: bool,
    ) -> Result<Option<Option<Outcome>>, Error> {
        let Some(thread) = self.threads.get(&tid) else {
            return Ok(None);
        };
        let process = &self.processes[&thread.pid];
        let (pid, program) = (process.pid, process.program);
        let table = &process.table;
        let awaits = self.file_holder.is_some() && table.may_have_received();
        let is_its_own = table.ring().is_some_and(|own| Rc::ptr_eq(&own, ring));
        let is_elsewhere = thread.pending.is_some()
            || thread.suspended.is_some()
            || process.needs_update
            || process.executing.is_some()
            || awaits;
        let entry = table.get(request.fd as u64);
        // A deferred send was checked when there was credit for it, and the kernel checks again.
        let may = is_deferred || !is_elsewhere && is_its_own && ring.kind(request.fd) == STREAM;
        let Some(entry) = entry.filter(|_| may) else {
            return Ok(None);
        };
        let number = entry.number as u64;
        let args = match (request.nr, request.flags) {
            (nr @ (libc::SYS_sendto | libc::SYS_recvfrom), flags) => {
                let known = match nr {
                    libc::SYS_sendto => SENDS,
                    _ => RECEIVES,
                };
                if flags & !known != 0 {
                    return Ok(None);
                }
                let flags = (flags | libc::MSG_DONTWAIT) as u64;
                [number, at, request.len as u64, flags, 0, 0]
            }
            (libc::SYS_ioctl, FIONREAD) => [number, FIONREAD as u64, at, 0, 0, 0],
            (libc::SYS_fcntl, libc::F_GETFL) => [number, libc::F_GETFL as u64, 0, 0, 0, 0],
            _ => return Ok(None),
        };
        let task = match self.task_of(tid) {
            Ok(task) => task,
            Err(error) => return to_errno_result(error).map(|_| None),
        };
        let nr = request.nr;
        let poll_fd = poll_fd(&entry);
        let space = 0;
        let call = Call {
            nr,
            args,
            space,
            poll_fd,
            send_mode: match is_deferred {
                true => vink_kernel::SendMode::Deferred,
                // What is on its way would not be counted.
                false if ring.has_deferred_for(request.fd) => vink_kernel::SendMode::Ordinary,
                false => vink_kernel::SendMode::ReportCredit,
            },
        };
        let entered = match self.kernel.enter(task, &call) {
            Ok(entered) => entered,
            Err(error) => return to_errno_result(error).map(|_| None),
        };
        self.deadline = entered.deadline;
        let in_flight = InFlight {
            call: SyscallCtx {
                notification: Notification {
                    id: 0,
                    tid,
                    nr,
                    args,
                },
                pid,
                program,
            },
            continuation: Continuation::Posted {
                ring: ring.clone(),
                slot,
                may_wait: request.flags & libc::MSG_DONTWAIT == 0,
                is_deferred,
            },
            file: Some(entry.file),
        };
        self.statistics.posted += 1;
        let thread = self.threads.get_mut(&tid).expect("looked at");
        thread.pending = Some(self.signals.begin(in_flight));
        Ok(Some(entered.outcome))
    }

    /// The kernel has answered a posted call.
    pub(crate) fn answer_posted(&mut self, in_flight: &InFlight, result: i64) -> Result<(), Error> {
        let Continuation::Posted {
            ring,
            slot,
            may_wait,
            is_deferred: false,
        } = &in_flight.continuation
        else {
            return Ok(());
        };
        let refused = match result {
            // A thread whose call would block makes the call.
            EAGAIN if *may_wait => {
                let number = in_flight.call.args[0];
                let flags = match self.task_of(in_flight.call.tid) {
                    Ok(task) => {
                        let args = [number, libc::F_GETFL as u64, 0, 0, 0, 0];
                        self.kernel_call(task, libc::SYS_fcntl, args)?
                    }
                    Err(error) => to_errno_result(error)?,
                };
                flags & i64::from(libc::O_NONBLOCK) == 0
            }
            // Interrupted, by whatever: nothing has been done.
            _ => result == -i64::from(libc::EINTR),
        };
        self.statistics.refused += u64::from(refused);
        if let Some(polling) = &mut self.ring_polling {
            polling.set_publish_pending(true);
        }
        ring.answer(*slot, if refused { REFUSED } else { result });
        Ok(())
    }

    /// What to do next about the rings.
    pub(crate) fn check_rings(&mut self) -> RingCheck {
        let Some(polling) = self
            .ring_polling
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

/// Whether a call on a stream is posted where the ring is polled.
fn can_be_posted(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_recvfrom
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_ioctl
    )
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
