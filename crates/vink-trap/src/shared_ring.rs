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
//! In virtual time nothing is posted but sends that are deferred, and no ring polled; what the ring
//! says of pipes is for calls that are not trapped (`sched`, `call_budget`).

use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use vink_kernel::{Call, Outcome};
use vink_ring::{
    Request, FLUSH, GET_RING, GET_SLOT, OTHER, RECEIVES, REFUSED, SENDS, STREAM, UNKNOWN,
};
use vink_sys::errno::{EAGAIN, EBADF};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::file::FileKind;
use crate::in_flight::{Continuation, InFlight};
use crate::notification::{Notification, Reply};
use crate::polling::CallsForm;
use crate::process_ring::ProcessRing;
use crate::process_table::ProcessTable;
use crate::signal_poll::SignalPoll;
use crate::supervisor::Supervisor;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;
use crate::tracee::ns_pid_of_kind;
use crate::worker::Worker;
use crate::Error;

/// How many calls that a ring might spare a process makes in virtual time before it gets one: making it
/// takes as long as some fifty traps, which a program that fetches a page does not save.
const CALLS_BEFORE_RING: u32 = 64;
const FIONREAD: i32 = libc::FIONREAD as i32;

/// A call as it was posted.
struct Posted<'a> {
    ring: &'a Rc<ProcessRing>,
    slot: usize,
    tid: i32,
    request: Request,
    /// Where its data is, in the worker's memory.
    at: u64,
    is_deferred: bool,
    /// Files of Vink's may be on their way to its process.
    holds_files: bool,
}

impl ProcessTable {
    /// Whether a request may be served before sends that were deferred before it: receipts that are
    /// certain to find something. What is on its way over a wire may come later.
    fn may_overtake(&self, ring: &ProcessRing, request: Request, tid: i32) -> bool {
        let entry = self.entry(tid, request.fd as u64);
        request.nr == libc::SYS_recvfrom
            && ring.kind(request.fd) == STREAM
            && entry
                .is_some_and(|e| e.file.placeholder.readiness.events() & libc::EPOLLIN as u32 != 0)
    }
}

impl Tasks {
    /// Makes a posted call in the kernel, if all is as it must be; what has come of it, if it is
    /// done.
    fn make_posted(
        &mut self,
        signals: &SignalPoll,
        posted: Posted<'_>,
    ) -> Result<Option<Option<Outcome>>, Error> {
        let Posted {
            ring,
            slot,
            tid,
            request,
            at,
            is_deferred,
            holds_files,
        } = posted;
        let Some((process, is_busy)) = self.table.process_and_state(tid) else {
            return Ok(None);
        };
        let (pid, program) = (process.pid, process.program);
        let table = &process.table;
        let awaits = holds_files && table.may_have_received();
        let is_its_own = table.ring().is_some_and(|own| Rc::ptr_eq(&own, ring));
        let is_elsewhere = is_busy || process.needs_update || process.executing.is_some() || awaits;
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
        let Ok(task) = self.try_task_of(tid)? else {
            return Ok(None);
        };
        let nr = request.nr;
        let poll_fd = entry.poll_fd();
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
        self.kernel.deadline = entered.deadline;
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
        self.table.set_pending(tid, signals.begin(in_flight));
        Ok(Some(entered.outcome))
    }

    /// Whether a descriptor of a process with a ring is a stream socket of the internet's, which is
    /// marked there from now on.
    pub(crate) fn finds_stream(
        &mut self,
        tid: i32,
        ring: &ProcessRing,
        fd: i32,
        entry: &Entry,
    ) -> Result<bool, Error> {
        if ring.kind(fd) == UNKNOWN {
            let task = match entry.file.kind {
                FileKind::Plain => self.try_task_of(tid)?.ok(),
                _ => None,
            };
            let protocol = match task {
                Some(task) => self.kernel.internet_protocol(task, entry.number)?,
                None => None,
            };
            let is_stream = protocol == Some(libc::IPPROTO_TCP);
            ring.mark(fd, if is_stream { STREAM } else { OTHER });
        }
        Ok(ring.kind(fd) == STREAM)
    }
}

impl Worker {
    /// Lets programs that are started from now on with `libvink_quick.so` loaded (`LD_PRELOAD`)
    /// post calls in shared memory, which costs them no system call. From now on this thread has
    /// one processor for itself, and programs have the others. False if it can't be: there is one
    /// processor only, or calls are traced.
    ///
    /// In virtual time they post nothing, and all stay on their processors. What the only thread that
    /// runs does with pipes of the host's is not trapped, if it can be done without waiting, nor are
    /// sends that are certain to succeed. Then such calls are not seen ([`Worker::observe_calls`]), nor
    /// charged for; where calls are to be charged for ([`crate::Charge::call`]), all are trapped.
    pub fn allow_shared_rings(&mut self) -> bool {
        self.supervisor.tracer.is_none()
            && self
                .supervisor
                .placement
                .allow_rings(self.supervisor.calls.clock.is_virtual())
    }

    /// The same, but the worker polls, on a processor of its own, only while calls come so often
    /// that it pays. Otherwise they are trapped, and it has no processor of its own. False also in
    /// virtual time.
    pub fn allow_shared_rings_when_often(&mut self) -> bool {
        let may = self.supervisor.tracer.is_none() && !self.supervisor.calls.clock.is_virtual();
        may && self.supervisor.placement.allow_rings_when_often()
    }

    /// Which form the calls of programs with a shared ring have now; `None`: they have none
    /// ([`Worker::allow_shared_rings`], [`Worker::allow_shared_rings_when_often`]).
    pub fn calls_form(&self) -> Option<CallsForm> {
        self.supervisor
            .placement
            .form()
            .filter(|_| !self.supervisor.calls.clock.is_virtual())
    }

    /// Polls rings also while other processes of the host have the worker's processor, which is
    /// slow (`contention`). For tests of what is posted: other tests run beside them.
    pub fn poll_despite_contention(&mut self) {
        self.supervisor.placement.poll_despite_contention();
    }
}

impl Supervisor {
    /// Whether the call asks for a ring or a slot; it is answered then.
    pub(crate) fn lend(&mut self, call: SyscallCtx) -> Result<bool, Error> {
        if call.nr != libc::SYS_ioctl || call.args[0] as i32 != -1 {
            return Ok(false);
        }
        match call.args[1] {
            GET_RING => self.lend_ring(call)?,
            GET_SLOT => {
                let table = self.calls.tasks.table.fd_table(call.pid);
                let pid = call.pid;
                let alive = |tid| self.calls.tasks.table.find_pid(tid) == Some(pid);
                let ring = table.ring();
                let slot = ring.and_then(|ring| ring.slot(call.tid, alive));
                if slot.is_some() {
                    self.placement.hold(call.tid);
                }
                self.calls
                    .answer(call, slot.map_or(EBADF, |slot| slot as i64))?;
            }
            FLUSH => {
                let ring = self.calls.tasks.table.fd_table(call.pid).ring();
                if let Some(ring) = &ring {
                    self.send_deferred_of(ring)?;
                    ring.stale.flush();
                }
                self.calls.answer(call, ring.map_or(EBADF, |_| 0))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn lend_ring(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let table = self.calls.tasks.table.fd_table(call.pid);
        let shares = table.is_shared() || table.ring().is_some();
        let (is_virtual, all_trapped) = (
            self.calls.clock.is_virtual(),
            self.calls.clock.charges_calls(),
        );
        let pid = call.pid;
        // A tracer is to see all calls of its tracees.
        let has_tracer = || !is_virtual && ns_pid_of_kind(pid, "TracerPid:") != Some(0);
        let is_traced = self.tracer.is_some() || has_tracer();
        let is_refused = shares || all_trapped || is_traced;
        let calls = self.calls.tasks.table.process(pid).calls_without_ring;
        if is_virtual && calls < CALLS_BEFORE_RING && !is_refused {
            return self.calls.answer(call, EAGAIN);
        }
        let id = match is_refused {
            true => None,
            false => self.placement.next_ring(),
        };
        let Some(id) = id else {
            return self.calls.answer(call, EBADF);
        };
        let Ok((ring, file)) = ProcessRing::new(id, pid) else {
            return self.calls.answer(call, -i64::from(libc::ENOMEM));
        };
        let sched = ring.sched();
        sched.is_virtual.store(is_virtual.into(), Ordering::Relaxed);
        match self.calls.answer_fd(call, file.as_raw_fd(), true) {
            Ok((Reply::ThreadGone, _)) => Ok(()),
            Ok((Reply::Delivered, _)) => {
                let table = self.calls.tasks.table.fd_table(call.pid);
                if table.is_seen_by_others() {
                    ring.forbid_stale();
                }
                table.set_ring(Rc::new(ring));
                Ok(())
            }
            Err(errno) => self.calls.answer(call, -i64::from(errno)),
        }
    }

    /// A call on one of Vink's files has been trapped, though its process may have a ring.
    pub(crate) fn poll_ring_after(&mut self, call: SyscallCtx, entry: &Entry) -> Result<(), Error> {
        let Some(ring) = self.calls.tasks.table.ring_for_call(call.pid) else {
            return Ok(());
        };
        let fd = call.args[0] as i32;
        if !self.calls.tasks.finds_stream(call.tid, &ring, fd, entry)? {
            return Ok(());
        }
        if self.calls.clock.is_virtual() {
            entry.file.publish_credit_on(&ring, fd);
            return Ok(());
        }
        if can_be_posted(call.nr) {
            self.placement
                .consider_polling(call.tid, self.statistics.served());
        }
        // Also while no ring is polled: once it is, calls on the stream are posted, and this would
        // be done no more.
        entry.file.publish_on(&ring, fd);
        if self.placement.wants_rings() {
            self.placement.poll_ring(ring);
        }
        Ok(())
    }

    /// Serves what is posted.
    pub(crate) fn serve_rings(&mut self) -> Result<(), Error> {
        for n in 0..self.placement.polled().len() {
            let Some(ring) = self.placement.polled().get(n).cloned() else {
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
            if served {
                self.placement.stay_awake();
            }
        }
        Ok(())
    }

    /// Carries out all deferred sends that were made so far, before what was done later.
    pub(crate) fn send_deferred(&mut self) -> Result<(), Error> {
        if self.placement.polled().is_empty() {
            return Ok(());
        }
        let polled = self.placement.polled().iter();
        let late: Vec<_> = polled.filter(|ring| ring.has_deferred()).cloned().collect();
        late.iter().try_for_each(|ring| self.send_deferred_of(ring))
    }

    /// The same of a process in virtual time, where no ring is polled: when its next trapped call is
    /// dispatched, or there is none any more, or for long.
    pub(crate) fn send_deferred_in_virtual_time(&mut self, pid: i32) -> Result<(), Error> {
        let ring = match self.calls.clock.is_virtual() {
            true => self.placement.ring_of(&self.calls.tasks.table, pid),
            false => None,
        };
        match ring.filter(|ring| ring.has_deferred()) {
            Some(ring) => self.send_deferred_of(&ring),
            None => Ok(()),
        }
    }

    /// Carries out those of one process.
    pub(crate) fn send_deferred_of(&mut self, ring: &Rc<ProcessRing>) -> Result<(), Error> {
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
            let posted = Posted {
                ring,
                slot,
                tid,
                request,
                at,
                is_deferred: true,
                holds_files: !self.calls.held_files.is_empty(),
            };
            let outcome = self.calls.tasks.make_posted(&self.calls.signals, posted)?;
            self.statistics.posted += u64::from(outcome.is_some());
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
        let is_own = |tid: &i32| self.calls.tasks.table.find_pid(*tid) == Some(ring.pid);
        let Some(tid) = Some(owner).filter(is_own) else {
            return Ok(None);
        };
        self.finish_posted(tid)?;
        let is_free =
            self.calls.tasks.table.has_thread(tid) && self.calls.tasks.table.pending(tid).is_none();
        Ok(is_free.then_some(tid))
    }

    /// Goes on until a thread's posted call, if there is one, is done: in the kernel it waits for
    /// nothing but another task's lock.
    fn finish_posted(&mut self, tid: i32) -> Result<(), Error> {
        loop {
            let pending = self.calls.tasks.table.pending(tid);
            let stage = pending.map(|pending| &pending.in_flight.continuation);
            if !stage.is_some_and(|stage| matches!(stage, Continuation::Posted { .. })) {
                return Ok(());
            }
            self.calls.tasks.kernel.dirty = true;
            self.run_kernel()?;
        }
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
        if !self.calls.tasks.table.may_overtake(ring, request, tid) {
            self.send_deferred()?;
        }
        let posted = Posted {
            ring,
            slot,
            tid,
            request,
            at: place.data() as u64,
            is_deferred: false,
            holds_files: !self.calls.held_files.is_empty(),
        };
        let Some(outcome) = self.calls.tasks.make_posted(&self.calls.signals, posted)? else {
            self.statistics.refused += 1;
            ring.answer(slot, REFUSED);
            return Ok(());
        };
        self.statistics.posted += 1;
        self.conclude_posted(tid, outcome)
    }

    /// Goes on with a posted call, if it is done.
    fn conclude_posted(&mut self, tid: i32, outcome: Option<Outcome>) -> Result<(), Error> {
        // Before all that the call has brought about elsewhere is shown, as the thread waits awake.
        if let Some(outcome) = outcome {
            self.calls.finish_kernel_call(tid, outcome);
            while let Some((pending, outcome)) = self.calls.finished.pop_front() {
                self.conclude(pending, outcome)?;
            }
        }
        self.drain_kernel_events()?;
        self.run_kernel()
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
                let flags = match self.calls.tasks.task_of(in_flight.call.tid) {
                    Ok(task) => {
                        let args = [number, libc::F_GETFL as u64, 0, 0, 0, 0];
                        self.calls
                            .tasks
                            .kernel
                            .run_call(task, libc::SYS_fcntl, args)?
                    }
                    Err(error) => to_errno_result(error)?,
                };
                flags & i64::from(libc::O_NONBLOCK) == 0
            }
            // Interrupted, by whatever: nothing has been done.
            _ => result == -i64::from(libc::EINTR),
        };
        self.statistics.refused += u64::from(refused);
        self.placement.set_publish_pending(true);
        ring.answer(*slot, if refused { REFUSED } else { result });
        Ok(())
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
