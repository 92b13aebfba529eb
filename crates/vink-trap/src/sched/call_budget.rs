//! What programs with a ring (`shared_ring`) do untrapped in virtual time: reads and writes of the
//! host's pipes that don't block, a poll(2) that is like the last one and finds something of the
//! host's ready, such as a pipe just written to, and sends that are certain to succeed.
//!
//! The scheduled thread is the only one that runs, so what it does to a pipe until its next trapped
//! call comes before all else, trapped or not. It has no budget where it is not alone: in a batch of
//! several, while a thread is blocked on the host, or is being forked, every call is trapped. Threads
//! that became ready by what it has done are found when its next call is received, or it dies, as
//! after a call that the host has done for it.
//!
//! A send is *deferred* until its process's next trapped call is dispatched, at the same virtual time,
//! if the socket has *send credit* left: bytes that it can't fail to take. A trapped call on a stream
//! gives it that with its answer, and all of it is void when the kernel has run since, for whatever
//! that has brought. So a send in between would have done the same, and the program's next calls find
//! what they would have found.
//!
//! The readiness of Vink's files stays as it is while no thread makes a call, for the kernel does
//! nothing then: it is written with the answer of a poll(2), for the next one. The other way round,
//! a process with a ring writes there what it is about to wait for, and copies the published time
//! itself: neither is worth a read of its memory, which costs the worker a system call. A wait that
//! is the thread's last one again, for which nothing has become ready since, begins where that has
//! ended.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use vink_ring::{HAS_MASK, HAS_TIME, HOST_POLLED, MAX_DATA, MAX_POLLED, PIPE_BROKEN, STREAM};

use super::determinism::vvar::ClockBytes;
use super::{BlockCondition, Scheduler, VirtualWorker};
use crate::fd_table::FdTable;
use crate::placement::Placement;
use crate::process_ring::ProcessRing;
use crate::process_table::ProcessTable;
use crate::ready::POLLFD;
use crate::signal_poll::SignalPoll;
use crate::syscall_ctx::SyscallCtx;
use crate::tasks::Tasks;

/// How many untrapped calls may follow a trapped one: after more, the next call is trapped.
const CALL_BUDGET: u32 = 256;

/// What a process has written down of its poll(2).
pub(super) struct PostedPoll {
    /// Each a `struct pollfd`.
    pub(super) fds: Vec<u64>,
    pub(super) time: Option<[u64; 2]>,
    pub(super) mask: Option<u64>,
    /// What of it is the host's is not ready.
    pub(super) host_polled: bool,
}

/// A thread's last wait by poll(2), which began with nothing ready.
pub(super) struct LastPoll {
    pub(super) id: u64,
    fds: Vec<u64>,
    /// Of the kernel's files among them.
    cookies: Vec<u64>,
    /// How many are the host's.
    polled_on_host: usize,
}

impl LastPoll {
    /// Whether the thread has waited for these events of this descriptor.
    fn is_for(&self, number: u64, events: u32) -> bool {
        let wanted = (libc::POLLERR | libc::POLLHUP) as u32;
        self.fds.iter().any(|fd| {
            let same = *fd & 0xffff_ffff == number & 0xffff_ffff;
            same && (fd >> 32) as u16 as u32 | wanted == events
        })
    }
}

/// What is said and heard in virtual time.
impl ProcessRing {
    /// How many calls the process may make untrapped.
    fn set_call_budget(&self, calls: u32) {
        self.sched().call_budget.store(calls, Ordering::Relaxed);
        self.sched().pipe_would_block.store(0, Ordering::Relaxed);
    }

    /// The kernel has run so often: send credit that was published before is void.
    fn void_credit_before(&self, run: u64) {
        if self.credit_run.replace(run) != run {
            self.count_trap();
        }
    }

    /// A call of the process was received: what was written down for the last one is void. What its
    /// threads have done to pipes meanwhile.
    pub(super) fn take_touched(&self) -> u32 {
        self.polled_by.set(0);
        self.posted_by.set(0);
        self.sched().polled_count.store(0, Ordering::Relaxed);
        self.sched().touched.swap(0, Ordering::Relaxed)
    }

    /// What a poll(2) has found of its descriptors, for the next one: valid when the call is
    /// answered. `own` are those of them that are Vink's.
    pub(super) fn publish_polled(&self, call: SyscallCtx, fds: &[u8], own: &FdTable) {
        let sched = self.sched();
        let mut vink_fds = 0;
        for (n, fd) in fds.chunks_exact(POLLFD).enumerate() {
            let bytes = u64::from_le_bytes(fd.try_into().expect("eight bytes"));
            sched.polled[n].store(bytes, Ordering::Relaxed);
            vink_fds |= u64::from(own.get(bytes & 0xffff_ffff).is_some()) << n;
        }
        sched.vink_fds.store(vink_fds, Ordering::Relaxed);
        self.polled_by.set(call.id);
    }

    /// The call is answered, and what was written down for it is still true.
    pub(super) fn validate_polled(&self, call: SyscallCtx, count: usize) {
        if self.polled_by.get() == call.id {
            let place = &self.sched().polled_count;
            place.store(count as u32, Ordering::Relaxed);
        }
    }

    /// What the process has written down of this poll(2).
    pub(super) fn take_posted_poll(&self, call: SyscallCtx) -> Option<PostedPoll> {
        let sched = self.sched();
        let count = call.args[1] as usize;
        let is_first = sched.posted_poll.swap(0, Ordering::Relaxed) == call.args[0];
        if is_first && (1..=MAX_POLLED).contains(&count) {
            self.posted_by.set(call.id);
            // Of a thread that has died before it looked.
            sched.results_ready.store(0, Ordering::Relaxed);
            sched.clock_at.store(0, Ordering::Relaxed);
        }
        if self.posted_by.get() != call.id {
            return None;
        }
        let how = sched.flags.load(Ordering::Relaxed);
        let word = |place: &AtomicU64| place.load(Ordering::Relaxed);
        Some(PostedPoll {
            fds: sched.polled[..count].iter().map(word).collect(),
            time: (how & HAS_TIME != 0).then(|| [word(&sched.time[0]), word(&sched.time[1])]),
            mask: (how & HAS_MASK != 0).then(|| word(&sched.mask)),
            host_polled: is_first && how & HOST_POLLED != 0,
        })
    }

    /// Whether the process itself has written down what this poll(2) is to wait for, and will look
    /// there for what was found.
    pub(super) fn has_posted_poll(&self, call: SyscallCtx) -> bool {
        self.posted_by.get() == call.id && self.polled_by.get() == call.id
    }

    /// The process finds what was written down for this poll(2).
    pub(super) fn post_results(&self) {
        self.sched().results_ready.store(1, Ordering::Relaxed);
    }

    /// A poll(2) that the process has posted ends: it copies the published time there itself.
    pub(super) fn post_time(&self, (place, bytes): ClockBytes) {
        let sched = self.sched();
        for (word, bytes) in sched.clock.iter().zip(bytes.chunks_exact(4)) {
            let bytes = bytes.try_into().expect("four bytes");
            word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        sched.clock_at.store(place, Ordering::Relaxed);
    }
}

impl ProcessRing {
    /// Where what this call receives is to be put, of which the process has been told: in the worker's
    /// memory.
    fn take_posted_receive(&self, call: SyscallCtx, has_task: bool) -> Option<u64> {
        let owners = self.owners.borrow();
        let slot = owners.iter().position(|owner| *owner == call.tid)?;
        let slot = &self.shared().slots[slot];
        let posted = slot.posted_receive.swap(0, Ordering::Relaxed);
        // What else it writes would be in the program's memory.
        let is_plain = call.nr == libc::SYS_read || call.args[4] == 0;
        let takes = posted != 0
            && posted == call.args[1]
            && call.args[2] <= MAX_DATA as u64
            && is_plain
            && has_task
            && self.kind(call.args[0] as i32) == STREAM;
        slot.received.store(takes.into(), Ordering::Relaxed);
        takes.then(|| slot.data() as u64)
    }
}

impl Tasks {
    /// The same of a process that may have a ring. The ring stays as long as the task may write there.
    pub(crate) fn take_posted_receive(&mut self, call: SyscallCtx) -> Option<u64> {
        if !matches!(call.nr, libc::SYS_read | libc::SYS_recvfrom) {
            return None;
        }
        let ring = self.table.ring(call.pid)?;
        let task = self.table.task(call.tid);
        let at = ring.take_posted_receive(call, task.is_some())?;
        let task = task?;
        let kept = self.rings.entry(task).or_insert_with(|| ring.clone());
        if !Rc::ptr_eq(kept, &ring) {
            *kept = ring;
        }
        Some(at)
    }

    /// Send credit that a process was given before the kernel last ran is void.
    pub(crate) fn void_credit(&self, pid: i32) {
        if let Some(ring) = self.table.ring(pid) {
            ring.void_credit_before(self.kernel.runs());
        }
    }
}

impl Placement {
    /// A thread of the process does not run alone, or will not: its calls are trapped.
    pub(crate) fn revoke_call_budget(&self, table: &ProcessTable, pid: i32) {
        if let Some(ring) = self.ring_of(table, pid) {
            ring.set_call_budget(0);
        }
    }
}

impl VirtualWorker<'_> {
    /// The thread's call was received: what it has done to pipes may matter to others.
    pub(super) fn note_untrapped(&mut self, tid: i32) {
        let Some(ring) = self.ring_of_thread(tid) else {
            return;
        };
        match ring.take_touched() {
            0 => return,
            touched if touched & PIPE_BROKEN != 0 => {
                let pid = self.worker.calls.tasks.table.pid_of(tid);
                self.worker.calls.signals.invalidate(pid);
            }
            _ => {}
        }
        // The worker itself waits for pipes only for splice(2).
        let waits = self.worker.calls.transfers.wait_for_pipes();
        let sched = self.worker.calls.clock.sched_mut();
        sched.host_fds_dirty = true;
        sched.host_ran |= waits;
    }

    /// The shared ring of a thread's process, if it has one.
    pub(super) fn ring_of_thread(&self, tid: i32) -> Option<Rc<ProcessRing>> {
        let table = &self.worker.calls.tasks.table;
        let has_rings = self.worker.placement.has_lent_rings();
        let pid = has_rings.then(|| table.find_pid(tid)).flatten();
        pid.and_then(|pid| table.ring(pid))
    }
}

impl Scheduler {
    /// A thread of the ring's process is scheduled, after the kernel has run so often: how many calls
    /// it may make untrapped.
    pub(super) fn grant_call_budget(&self, ring: &ProcessRing, runs: u64) {
        ring.void_credit_before(runs);
        let others = !self.blocked_on_host.is_empty() || !self.vforked.is_empty();
        let alone = !others && self.batch.is_of_one() && self.limit().is_none();
        ring.set_call_budget(if alone { CALL_BUDGET } else { 0 });
    }

    /// Waits as the thread has waited last, if nothing has become ready since. False if that is not
    /// so.
    pub(super) fn repeat_wait(
        &mut self,
        signals: &mut SignalPoll,
        call: SyscallCtx,
        asked: &PostedPoll,
        deadline: Option<u64>,
    ) -> bool {
        let kept = self.fds.count_polled(call.tid);
        let Some(waited) = self.fds.last_poll_mut(call.tid) else {
            return false;
        };
        if !asked.host_polled || self.any_signalfd || waited.fds != asked.fds {
            return false;
        }
        let (before, after) = ((call.tid, waited.id), (call.tid, call.id));
        let registered = |cookie| {
            let all = self.watchers.get(cookie);
            all.is_some_and(|all| all.contains(&before))
        };
        if kept != waited.polled_on_host || !waited.cookies.iter().all(registered) {
            return false;
        }
        for cookie in &waited.cookies {
            let all = self.watchers.get_mut(cookie).expect("looked at");
            // Behind threads that wait already.
            all.retain(|one| *one != before);
            all.push(after);
        }
        waited.id = call.id;
        let condition = BlockCondition {
            deadline,
            on_timeout: Some(0),
            mask: asked.mask,
            by_network: true,
            ..BlockCondition::forever()
        };
        let watched = self.fds.take_polled(call.tid);
        self.block_on(signals, call, condition, watched, 0);
        true
    }

    /// Whether nothing has become true of this file of the kernel's, for which the thread has
    /// waited last with these events.
    pub(super) fn is_still_not_ready(
        &self,
        tid: i32,
        number: u64,
        events: u32,
        cookie: u64,
    ) -> bool {
        let watches = self.watchers.get(&cookie);
        // (As long as the watch stands, the number has not been closed.)
        self.fds.last_poll(tid).is_some_and(|waited| {
            let is_there = |all: &Vec<_>| all.contains(&(tid, waited.id));
            waited.is_for(number, events) && watches.is_some_and(is_there)
        })
    }

    /// The thread waits until then for these, of which nothing is ready.
    pub(super) fn note_last_poll(&mut self, call: SyscallCtx, fds: Vec<u64>, cookies: Vec<u64>) {
        let waited = LastPoll {
            id: call.id,
            fds,
            cookies,
            polled_on_host: self.blocked[&call.tid].polled.len(),
        };
        self.fds.note_last_poll(call.tid, waited);
    }
}
