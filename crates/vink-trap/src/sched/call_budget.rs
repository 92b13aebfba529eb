//! What programs with a ring (`shared_ring`) do untrapped in virtual time: reads and writes of the
//! host's pipes that don't block, and a poll(2) that is like the last one and finds something of
//! the host's ready, such as a pipe just written to.
//!
//! The scheduled thread is the only one that runs, so what it does to a pipe until its next trapped
//! call comes before all else, trapped or not. It has no budget where it is not alone: while a
//! thread is blocked on the host, or is being forked, every call is trapped. Threads that became
//! ready by what it has done are found when its next call is received, or it dies, as after a call
//! that the host has done for it.
//!
//! The readiness of Vink's files stays as it is while no thread makes a call, for the kernel does
//! nothing then: it is written with the answer of a poll(2), for the next one. The other way round,
//! a process with a ring writes there what it is about to wait for, and copies the published time
//! itself: neither is worth a read of its memory, which costs the worker a system call. A wait that
//! is the thread's last one again, for which nothing has become ready since, begins where that has
//! ended.

use std::sync::atomic::Ordering;

use vink_ring::{HAS_MASK, HAS_TIME, HOST_POLLED, MAX_POLLED, PIPE_BROKEN};

use super::{BlockCondition, Scheduler, ThreadState, VirtualWorker};
use crate::process_ring::ProcessRing;
use crate::ready::POLLFD;
use crate::syscall_ctx::SyscallCtx;

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
    id: u64,
    fds: Vec<u64>,
    /// Of the kernel's files among them.
    cookies: Vec<u64>,
    /// How many are the host's.
    polled_on_host: usize,
}

/// How many calls the process may make untrapped.
fn set_call_budget(ring: &ProcessRing, calls: u32) {
    ring.sched().call_budget.store(calls, Ordering::Relaxed);
    ring.sched().pipe_would_block.store(0, Ordering::Relaxed);
}

impl VirtualWorker<'_> {
    fn ring_of(&self, pid: i32) -> Option<std::rc::Rc<ProcessRing>> {
        self.worker.placement.has_rings().then_some(())?;
        self.worker.table.ring(pid)
    }

    /// This thread is scheduled.
    pub(super) fn grant_call_budget(&self, tid: i32) {
        if !self.worker.placement.has_rings() {
            return;
        }
        let sched = self.worker.clock.sched();
        let pid = self.worker.table.find_pid(tid);
        if let Some(ring) = pid.and_then(|pid| self.ring_of(pid)) {
            let others = !sched.blocked_on_host.is_empty() || !sched.vforked.is_empty();
            let alone = !others && sched.limit().is_none();
            set_call_budget(&ring, if alone { CALL_BUDGET } else { 0 });
        }
    }

    /// A thread of the process does not run alone, or will not.
    pub(super) fn revoke_call_budget(&self, pid: i32) {
        if let Some(ring) = self.ring_of(pid) {
            set_call_budget(&ring, 0);
        }
    }

    /// The thread's call was received: what it has done to pipes may matter to others.
    pub(super) fn note_untrapped(&mut self, tid: i32) {
        if !self.worker.placement.has_rings() {
            return;
        }
        let Some(pid) = self.worker.table.find_pid(tid) else {
            return;
        };
        let Some(ring) = self.ring_of(pid) else {
            return;
        };
        ring.polled_by.set(0);
        ring.posted_by.set(0);
        ring.sched().polled_count.store(0, Ordering::Relaxed);
        match ring.sched().touched.swap(0, Ordering::Relaxed) {
            0 => return,
            touched if touched & PIPE_BROKEN != 0 => self.worker.signals.invalidate(pid),
            _ => {}
        }
        // The worker itself waits for pipes only for splice(2).
        let waits = self.worker.scratch_pipe.is_some();
        let sched = self.worker.clock.sched_mut();
        sched.host_fds_dirty = true;
        sched.host_ran |= waits;
    }

    /// What the thread's call moves data to or from is a pipe.
    pub(super) fn mark_pipe(&self, tid: i32, number: u64) {
        if let Some(ring) = self.ring_of(self.worker.table.pid_of(tid)) {
            ring.mark_pipe(number as i32);
        }
    }

    /// Before a call that may change what this number means, or any does.
    pub(super) fn unmark_pipes(&self, pid: i32, closed: Option<u32>) {
        match (self.ring_of(pid), closed) {
            (Some(ring), Some(number)) => ring.forget_file(number as i32),
            (Some(ring), None) => ring.unmark_pipes(),
            (None, _) => {}
        }
    }

    /// What a poll(2) has found of its descriptors, for the next one: valid when the call is
    /// answered.
    pub(super) fn publish_polled(&self, call: SyscallCtx, fds: &[u8]) {
        let Some(ring) = self.ring_of(call.pid) else {
            return;
        };
        let count = fds.len() / POLLFD;
        ring.polled_by.set(0);
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        if count > MAX_POLLED || self.worker.file_holder.is_some() {
            return;
        }
        let (table, sched) = (self.table.fd_table(call.pid), ring.sched());
        let mut own = 0;
        for (n, fd) in fds.chunks_exact(POLLFD).enumerate() {
            let bytes = u64::from_le_bytes(fd.try_into().expect("eight bytes"));
            sched.polled[n].store(bytes, Ordering::Relaxed);
            own |= u64::from(table.get(bytes & 0xffff_ffff).is_some()) << n;
        }
        sched.vink_fds.store(own, Ordering::Relaxed);
        ring.polled_by.set(call.id);
    }

    /// The call is answered, and what was written down for it is still true.
    pub(super) fn validate_polled(&self, call: SyscallCtx, count: usize) {
        let ring = self.ring_of(call.pid);
        if let Some(ring) = ring.filter(|ring| ring.polled_by.get() == call.id) {
            ring.sched()
                .polled_count
                .store(count as u32, Ordering::Relaxed);
        }
    }

    /// What the process has written down of this poll(2).
    pub(super) fn take_posted_poll(&self, call: SyscallCtx) -> Option<PostedPoll> {
        let ring = self.ring_of(call.pid)?;
        let sched = ring.sched();
        let count = call.args[1] as usize;
        let is_first = sched.posted_poll.swap(0, Ordering::Relaxed) == call.args[0];
        if is_first && (1..=MAX_POLLED).contains(&count) {
            ring.posted_by.set(call.id);
            // Of a thread that has died before it looked.
            sched.results_ready.store(0, Ordering::Relaxed);
            sched.clock_at.store(0, Ordering::Relaxed);
        }
        if ring.posted_by.get() != call.id {
            return None;
        }
        let how = sched.flags.load(Ordering::Relaxed);
        let word = |place: &std::sync::atomic::AtomicU64| place.load(Ordering::Relaxed);
        Some(PostedPoll {
            fds: sched.polled[..count].iter().map(word).collect(),
            time: (how & HAS_TIME != 0).then(|| [word(&sched.time[0]), word(&sched.time[1])]),
            mask: (how & HAS_MASK != 0).then(|| word(&sched.mask)),
            host_polled: is_first && how & HOST_POLLED != 0,
        })
    }

    /// Waits as the thread has waited last, if nothing has become ready since. False if that is not
    /// so.
    pub(super) fn repeat_wait(
        &mut self,
        call: SyscallCtx,
        asked: &PostedPoll,
        ns: Option<u64>,
    ) -> bool {
        let deadline = self.deadline(ns);
        let now = self.worker.kernel.now();
        let Some(ring) = self.ring_of(call.pid) else {
            return false;
        };
        let carries = self.worker.file_holder.is_some();
        let sched = self.worker.clock.sched_mut();
        let ends = deadline.is_some_and(|deadline| deadline > now);
        let Some(waited) = sched.last_polls.get_mut(&call.tid) else {
            return false;
        };
        if !ends || !asked.host_polled || sched.any_signalfd || carries || waited.fds != asked.fds {
            return false;
        }
        let (before, after) = ((call.tid, waited.id), (call.tid, call.id));
        let kept = sched.polled_fds.get(&call.tid).map_or(0, Vec::len);
        let registered = |cookie| {
            sched
                .watchers
                .get(cookie)
                .is_some_and(|all| all.contains(&before))
        };
        if kept != waited.polled_on_host || !waited.cookies.iter().all(registered) {
            return false;
        }
        for cookie in &waited.cookies {
            let all = sched.watchers.get_mut(cookie).expect("looked at");
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
        let watched = self.worker.clock.sched_mut().take_polled(call.tid);
        self.block_on(call, condition, watched, 0);
        ring.polled_by.set(call.id);
        true
    }

    /// Whether the process itself has written down what this poll(2) is to wait for, and will look
    /// there for what was found.
    pub(super) fn has_posted_poll(&self, call: SyscallCtx) -> bool {
        let ring = self.ring_of(call.pid);
        ring.is_some_and(|ring| ring.posted_by.get() == call.id && ring.polled_by.get() == call.id)
    }

    /// The process finds what was written down for this poll(2).
    pub(super) fn post_results(&self, call: SyscallCtx) {
        if let Some(ring) = self.ring_of(call.pid) {
            ring.sched().results_ready.store(1, Ordering::Relaxed);
        }
    }

    /// A poll(2) that the process has posted ends: it copies the published time itself, unless it
    /// may read that before it gets there, or that is unknown.
    pub(super) fn post_time(&mut self, call: SyscallCtx) {
        let pid = call.pid;
        if !self.has_no_pending_signal(call.tid)
            || !self.worker.clock.sched().is_time_published(pid)
        {
            return;
        }
        let shown = self.next_vvar(call.tid, ThreadState::Running);
        if let (Some(ring), Some((place, bytes))) = (self.ring_of(pid), shown) {
            let sched = ring.sched();
            for (word, bytes) in sched.clock.iter().zip(bytes.chunks_exact(4)) {
                let bytes = bytes.try_into().expect("four bytes");
                word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
            }
            sched.clock_at.store(place, Ordering::Relaxed);
        }
    }
}

impl Scheduler {
    /// Whether nothing has become true of this file of the kernel's, for which the thread has
    /// waited last with these events.
    pub(super) fn is_still_not_ready(
        &self,
        tid: i32,
        number: u64,
        events: u32,
        cookie: u64,
    ) -> bool {
        let Some(waited) = self.last_polls.get(&tid) else {
            return false;
        };
        let watches = self.watchers.get(&cookie);
        // (As long as the watch stands, the number has not been closed.)
        let wanted = (libc::POLLERR | libc::POLLHUP) as u32;
        waited.fds.iter().any(|fd| {
            let same = *fd & 0xffff_ffff == number & 0xffff_ffff;
            same && (fd >> 32) as u16 as u32 | wanted == events
        }) && watches.is_some_and(|all| all.contains(&(tid, waited.id)))
    }

    /// The thread waits until then for these, of which nothing is ready.
    pub(super) fn note_last_poll(&mut self, call: SyscallCtx, fds: Vec<u64>, cookies: Vec<u64>) {
        let watched = self.blocked[&call.tid].polled.len();
        let id = call.id;
        let waited = LastPoll {
            id,
            fds,
            cookies,
            polled_on_host: watched,
        };
        self.last_polls.insert(call.tid, waited);
    }
}
