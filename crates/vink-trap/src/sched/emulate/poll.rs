//! poll, select and epoll_wait in virtual time: over files of the kernel's and of the host's,
//! answered by the worker.

use std::os::fd::AsRawFd;

use vink_ring::MAX_POLLED;
use vink_sys::epoll::ready_events;
use vink_sys::errno::{EBADF, EFAULT, EINTR, EINVAL};
use vink_syscalls::{polling, Polling};

use crate::error::to_errno_result;
use crate::fd_table::Entry;
use crate::process_ring::ProcessRing;
use crate::ready::{MAX_FDS, POLLFD, SETS};
use crate::sched::call_budget::PostedPoll;
use crate::sched::determinism::clocks::remaining;
use crate::sched::emulate::polled_fd::{events_of, PolledFd};
use crate::sched::signals::{members, Signals};
use crate::sched::{BlockCondition, Scheduler, ThreadState, VirtualWorker};
use crate::signal_poll::SignalPoll;
use crate::supervisor::Supervisor;
use crate::syscall_ctx::SyscallCtx;
use crate::timeouts::{read_ppoll, timeout_and_mask};
use crate::tracee;
use crate::Error;

const MILLISECOND: u64 = 1_000_000;
/// `struct epoll_event`, which is packed.
const EPOLL_EVENT: usize = 12;
/// Reported of each member, wanted or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Events taken from an epoll instance at once.
const TAKEN: u64 = 1024;

/// What a thread is about to wait for.
struct Waits {
    /// Of the kernel's: their cookies.
    cookies: Vec<u64>,
    copies: Vec<(u64, std::os::fd::OwnedFd, i16)>,
    /// What was kept of the last wait, with what is true of it, and what of it is waited for again.
    kept: Vec<(PolledFd, i16)>,
    again: Vec<PolledFd>,
    /// Reported by a signalfd(2).
    signals: u64,
}

impl Waits {
    /// Nothing is waited for yet. `looked`: the thread may just have polled what is the host's, and
    /// nothing of that is ready.
    fn new(kept: Vec<PolledFd>, looked: bool) -> Waits {
        let found = match looked {
            true => vec![0; kept.len()],
            false => PolledFd::poll_all(&kept),
        };
        Waits {
            cookies: Vec::new(),
            copies: Vec::new(),
            kept: kept.into_iter().zip(found).collect(),
            again: Vec::new(),
            signals: 0,
        }
    }
}

/// Where a call has its time-out, if that is written to.
pub(in crate::sched) fn time_out_of(call: SyscallCtx) -> u64 {
    match polling(call.nr) {
        Polling::Ppoll => call.args[2],
        Polling::Select | Polling::Pselect6 => call.args[4],
        _ => 0,
    }
}

/// A descriptor, and what is true of it.
enum Found {
    Events(u32),
    /// There is no such file.
    None,
}

impl Scheduler {
    /// This has become true of a file of the kernel's.
    pub(crate) fn note_error(&mut self, events: u32) {
        self.any_file_error |= events & ALWAYS == libc::EPOLLERR as u32;
    }

    /// A file of the kernel's has become ready.
    pub(crate) fn wake_watchers(&mut self, cookie: u64) {
        self.host_fds_dirty = true;
        for (tid, id) in self.watchers.remove(&cookie).unwrap_or_default() {
            let blocked = self.blocked.get_mut(&tid);
            if let Some(blocked) = blocked.filter(|blocked| blocked.call.id == id) {
                blocked.kernel_file_ready = true;
            }
            self.wake(tid, id, None);
        }
    }

    /// Whether a signal is pending for the calling thread that this mask lets in, and that does
    /// anything.
    fn lets_in(&self, signals: &mut SignalPoll, call: SyscallCtx, mask: u64) -> bool {
        if self.has_no_pending_signal(signals, call) {
            return false;
        }
        let found = Signals::of(call.pid, call.tid);
        if found.pending == 0 {
            signals.mark_without_signal(call.pid, call.tid);
        }
        let blocked = mask;
        Signals { blocked, ..found }.would_act()
    }
}

impl VirtualWorker<'_> {
    /// What is true of one of the thread's descriptors; it is added to what is waited for.
    fn find(
        &mut self,
        call: SyscallCtx,
        number: u64,
        wanted: u32,
        waits: &mut Waits,
    ) -> Result<Found, Error> {
        let tid = call.tid;
        if let Some(entry) = self.worker.calls.tasks.table.fd_table(call.pid).get(number) {
            let cookie = entry.file.cookie.get();
            let sched = self.worker.calls.clock.sched();
            let events = match sched.is_still_not_ready(tid, number, wanted, cookie) {
                true => 0,
                false => self.watch_entry(tid, &entry)?,
            };
            waits.cookies.push(entry.file.cookie.get());
            return Ok(Found::Events(events & wanted));
        }
        let events = wanted as i16;
        let mut kept = waits.kept.iter();
        if let Some(index) = kept.position(|(kept, _)| kept.is(number, events)) {
            let (kept, found) = waits.kept.swap_remove(index);
            waits.again.push(kept);
            return Ok(Found::Events((found as u16).into()));
        }
        let Some(copy) = self.worker.calls.tasks.table.borrow_descriptor(tid, number) else {
            return Ok(Found::None);
        };
        let sched = self.worker.calls.clock.sched();
        if let Some((set, has_any)) = sched.signalfd_state(call, number as i32) {
            waits.signals |= set;
            let found = if has_any { libc::POLLIN as u32 } else { 0 };
            return Ok(Found::Events(found & wanted));
        }
        let found = events_of(copy.as_raw_fd(), events) as u16;
        waits.copies.push((number, copy, events));
        Ok(Found::Events(found.into()))
    }

    fn watch_entry(&mut self, tid: i32, entry: &Entry) -> Result<u32, Error> {
        match self.calls.tasks.task_of(tid) {
            Ok(task) => self.calls.watch_readiness(task, entry),
            Err(error) => to_errno_result(error).map(|_| 0),
        }
    }

    /// Nothing is ready: waits, or answers with `none` if time is up.
    fn wait_for(
        &mut self,
        call: SyscallCtx,
        mut waits: Waits,
        lasting: Option<u64>,
        mask: Option<u64>,
    ) -> Result<bool, Error> {
        let now = self.worker.calls.tasks.kernel.now();
        let deadline = self.worker.calls.clock.sched().deadline(now, lasting);
        if lasting == Some(0) {
            self.count_poll(call.tid)?;
        }
        let worker = &mut *self.worker;
        let sched = worker.calls.clock.sched_mut();
        let late = deadline.is_some_and(|deadline| deadline <= worker.calls.tasks.kernel.now());
        // As on the host, a signal comes before the end of time.
        let lets_in = |mask| sched.lets_in(&mut worker.calls.signals, call, mask);
        let interrupted = late && mask.is_some_and(lets_in);
        if late && !interrupted {
            sched
                .fds
                .keep_polled(&worker.calls.tasks.table, call.tid, waits.again);
            return Ok(false);
        }
        let mut polled = sched.fds.watch(call.tid, waits.copies);
        polled.append(&mut waits.again);
        let condition = BlockCondition {
            deadline,
            mask,
            awaited_signals: waits.signals,
            by_network: true,
            ..BlockCondition::forever()
        };
        for cookie in waits.cookies {
            let watchers = sched.watchers.entry(cookie).or_default();
            watchers.retain(|(tid, _)| *tid != call.tid);
            watchers.push((call.tid, call.id));
        }
        let rest = time_out_of(call);
        sched.block_on(&mut worker.calls.signals, call, condition, polled, rest);
        if interrupted {
            sched.have_host_interrupt(call.tid);
        }
        Ok(true)
    }

    /// What is kept of the thread's last wait.
    fn take_polled(&mut self, tid: i32) -> Vec<PolledFd> {
        let sched = self.worker.calls.clock.sched_mut();
        sched.fds.take_polled(tid)
    }

    /// The thread need not wait: what was looked at is kept for its next wait.
    fn keep_polled(&mut self, tid: i32, polled: Vec<PolledFd>) {
        let calls = &mut self.worker.calls;
        let fds = &mut calls.clock.sched_mut().fds;
        fds.keep_polled(&calls.tasks.table, tid, polled);
    }

    /// poll(2) and ppoll(2).
    pub(in crate::sched) fn poll_virtual(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let count = call.args[1] & 0xffff_ffff;
        let room = if count > MAX_FDS { 0 } else { count };
        let worker = &mut *self.worker;
        let ring = worker
            .placement
            .ring_of(&worker.calls.tasks.table, call.pid);
        let ring = ring.as_deref();
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        let has_strangers = !worker.calls.held_files.is_empty();
        let posted = ring.and_then(|ring| ring.take_posted_poll(call));
        if let (Some(ring), Some(posted)) = (ring, &posted) {
            let (now, sched) = (
                worker.calls.tasks.kernel.now(),
                worker.calls.clock.sched_mut(),
            );
            let deadline = sched.deadline(now, limit_of(call, posted));
            let ends = deadline.is_some_and(|deadline| deadline > now);
            if ends
                && !has_strangers
                && sched.repeat_wait(&mut worker.calls.signals, call, posted, deadline)
            {
                ring.polled_by.set(call.id);
                return Ok(());
            }
        }
        let publish_polled = |worker: &Supervisor, fds: &[u8]| {
            let Some(ring) = ring else {
                return;
            };
            ring.polled_by.set(0);
            if count as usize <= MAX_POLLED && worker.calls.held_files.is_empty() {
                ring.publish_polled(call, fds, worker.calls.tasks.table.fd_table(call.pid));
            }
        };
        let mut fds = vec![0; room as usize * POLLFD];
        let lasting = match polling(call.nr) {
            _ if posted.is_some() => {
                let posted = posted.as_ref().expect("looked at");
                for (fd, bytes) in fds.chunks_exact_mut(POLLFD).zip(&posted.fds) {
                    fd.copy_from_slice(&bytes.to_le_bytes());
                }
                Ok((limit_of(call, posted), posted.mask))
            }
            Polling::Poll if !tracee::read(call.tid, call.args[0], &mut fds) && count != 0 => {
                Err(EFAULT)
            }
            Polling::Poll => timeout_and_mask(call),
            _ => read_ppoll(call, &mut fds),
        };
        let (lasting, mask) = match lasting {
            Ok(_) if count > MAX_FDS => return self.calls.answer(call, EINVAL),
            Ok(found) => found,
            Err(error) => return self.calls.answer(call, error),
        };
        let looked = posted.as_ref().is_some_and(|posted| posted.host_polled);
        let kept = self.take_polled(call.tid);
        let mut waits = Waits::new(kept, looked);
        let mut ready = 0;
        let mut changes = false;
        for fd in fds.chunks_exact_mut(POLLFD) {
            let number = i32::from_ne_bytes(fd[..4].try_into().expect("four bytes"));
            let events = u16::from_ne_bytes(fd[4..6].try_into().expect("two bytes"));
            let found = match number {
                ..0 => 0,
                _ => {
                    let wanted = u32::from(events) | (libc::EPOLLERR | libc::EPOLLHUP) as u32;
                    match self.find(call, number as u64, wanted, &mut waits)? {
                        Found::Events(events) => events as u16,
                        Found::None => libc::POLLNVAL as u16,
                    }
                }
            };
            ready += i64::from(found != 0);
            changes |= fd[6..] != found.to_ne_bytes();
            fd[6..].copy_from_slice(&found.to_ne_bytes());
        }
        let cookies = waits.cookies.clone();
        if ready != 0 {
            self.keep_polled(call.tid, waits.again);
        } else if self.wait_for(call, waits, lasting, mask)? {
            let sched = self.worker.calls.clock.sched_mut();
            let condition = &mut sched
                .blocked
                .get_mut(&call.tid)
                .expect("just blocked")
                .condition;
            // That nothing is ready is written at once, also for a signal, and not again.
            let written = !changes || tracee::write(call.tid, call.args[0], &fds);
            if condition.deadline.is_some() && written {
                condition.on_timeout = Some(0);
                publish_polled(self.worker, &fds);
                if let Some(posted) = posted.filter(|_| !changes) {
                    self.worker
                        .calls
                        .clock
                        .sched_mut()
                        .note_last_poll(call, posted.fds, cookies);
                }
            }
            return Ok(());
        }
        publish_polled(self.worker, &fds);
        if let Some(ring) = ring {
            ring.validate_polled(call, count as usize);
            if ring.has_posted_poll(call) {
                ring.post_results();
                self.post_time(ring, call);
                return self.calls.answer(call, ready);
            }
        }
        self.answer_with(call, lasting, &[(call.args[0], &fds)], ready)
    }

    /// A poll(2) that the process has posted ends: it copies the published time itself, unless it
    /// may read that before it gets there, or that is unknown.
    pub(in crate::sched) fn post_time(&mut self, ring: &ProcessRing, call: SyscallCtx) {
        let worker = &mut *self.worker;
        let sched = worker.calls.clock.sched_mut();
        if !sched.has_no_pending_signal(&worker.calls.signals, call)
            || !sched.clocks.is_published(call.pid)
        {
            return;
        }
        let place = worker.calls.tasks.place();
        let shown = sched.clocks.next(place, call.tid, ThreadState::Running);
        if let Some(time) = shown {
            ring.post_time(time);
        }
    }

    /// A call with this time-out ends, and has found this. The rest of its time-out is written
    /// where that was, as Linux does.
    fn answer_with(
        &mut self,
        call: SyscallCtx,
        lasting: Option<u64>,
        found: &[(u64, &[u8])],
        result: i64,
    ) -> Result<(), Error> {
        let worker = &mut *self.worker;
        let (now, sched) = (
            worker.calls.tasks.kernel.now(),
            worker.calls.clock.sched_mut(),
        );
        let deadline = sched.deadline(now, lasting).unwrap_or(0);
        let left = remaining(call, deadline.saturating_sub(now));
        let rest = [(time_out_of(call), &left[..])];
        let rest = rest.into_iter().filter(|(address, _)| *address != 0);
        let all: Vec<(u64, &[u8])> = found.iter().copied().chain(rest).collect();
        let wanted: usize = found.iter().map(|(_, bytes)| bytes.len()).sum();
        // The host does not mind either if the time can't be written.
        let place = worker.calls.tasks.place();
        let state = ThreadState::Running;
        let written = sched.clocks.publish(place, call.tid, &all, state) >= wanted;
        self.calls
            .answer(call, if written { result } else { EFAULT })
    }

    /// select(2) and pselect6(2).
    pub(in crate::sched) fn select_virtual(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (lasting, mask) = match timeout_and_mask(call) {
            Ok(limits) => limits,
            Err(error) => return self.calls.answer(call, error),
        };
        let count = call.args[0] as i32;
        if count < 0 || count as u64 > MAX_FDS {
            return self.calls.answer(call, EINVAL);
        }
        let set_len = (count as usize).div_ceil(64) * 8;
        let mut sets = vec![0; SETS.len() * set_len];
        let kept = self.take_polled(call.tid);
        let mut waits = Waits::new(kept, false);
        let mut found = vec![0; sets.len()];
        let mut ready = 0;
        for (n, wanted) in SETS.into_iter().enumerate() {
            let (address, place) = (call.args[1 + n], n * set_len);
            let set = &mut sets[place..place + set_len];
            if address == 0 || count == 0 {
                continue;
            }
            if !tracee::read(call.tid, address, set) {
                return self.calls.answer(call, EFAULT);
            }
            for fd in 0..count as usize {
                if sets[place + fd / 8] & 1 << (fd % 8) == 0 {
                    continue;
                }
                match self.find(call, fd as u64, wanted, &mut waits)? {
                    Found::None => return self.calls.answer(call, EBADF),
                    Found::Events(0) => {}
                    Found::Events(_) => {
                        found[place + fd / 8] |= 1 << (fd % 8);
                        ready += 1;
                    }
                }
            }
        }
        if ready != 0 {
            self.keep_polled(call.tid, waits.again);
        } else if self.wait_for(call, waits, lasting, mask)? {
            return Ok(());
        }
        let sets = call.args[1..4].iter().enumerate();
        let sets = sets.map(|(n, address)| (*address, &found[n * set_len..(n + 1) * set_len]));
        let sets: Vec<(u64, &[u8])> = sets.filter(|(address, _)| *address != 0).collect();
        self.answer_with(call, lasting, &sets, ready)
    }

    /// Corrects what an epoll instance of the host's reports of files with errors.
    fn correct_errors(&mut self, call: SyscallCtx, events: &mut [u8]) -> Result<(), Error> {
        if !self.worker.calls.clock.sched().any_file_error {
            return Ok(());
        }
        let pid = call.pid;
        for (fd, wanted, data) in members(pid, call.args[0] as i32) {
            let entry = self
                .worker
                .calls
                .tasks
                .table
                .fd_table(call.pid)
                .get(fd as u64);
            let told = |event: &&mut [u8]| event[4..] == data.to_ne_bytes();
            let event = events.chunks_exact_mut(EPOLL_EVENT).find(told);
            let (Some(entry), Some(event)) = (entry, event) else {
                continue;
            };
            let found = self.watch_entry(call.tid, &entry)?;
            // A member with EPOLLONESHOT wants nothing any more.
            let shown = u32::from_ne_bytes(event[..4].try_into().expect("four bytes"));
            let found = found & (wanted | shown | ALWAYS);
            if found & ALWAYS != 0 {
                event[..4].copy_from_slice(&found.to_ne_bytes());
            }
        }
        Ok(())
    }

    /// epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2).
    pub(in crate::sched) fn epoll_virtual(&mut self, call: SyscallCtx) -> Result<(), Error> {
        let (lasting, mask) = match timeout_and_mask(call) {
            Ok(limits) => limits,
            Err(error) => return self.calls.answer(call, error),
        };
        let mut kept = self.take_polled(call.tid);
        kept.retain(|kept| kept.is(call.args[0], libc::POLLIN));
        let copy = match kept.first() {
            Some(_) => None,
            None => self
                .worker
                .calls
                .tasks
                .table
                .borrow_descriptor(call.tid, call.args[0]),
        };
        let Some(set) = kept
            .first()
            .map(PolledFd::fd)
            .or(copy.as_ref().map(|c| c.as_raw_fd()))
        else {
            return self.calls.answer(call, EBADF);
        };
        let most = call.args[2] as i32;
        if most <= 0 {
            return self.calls.answer(call, EINVAL);
        }
        let most = (most as u64).min(TAKEN) as usize;
        let mut events = vec![0u8; most * EPOLL_EVENT];
        let Ok(count) = ready_events(set, &mut events) else {
            // The host will say what is wrong.
            return self.passthrough(call);
        };
        let sched = self.worker.calls.clock.sched();
        let (signals, told) = sched.signalfd_states_in(call, call.args[0] as i32);
        let room = events[count * EPOLL_EVENT..].chunks_exact_mut(EPOLL_EVENT);
        let mut count = count;
        for (event, (found, data)) in room.zip(told) {
            event[..4].copy_from_slice(&found.to_ne_bytes());
            event[4..].copy_from_slice(&data.to_ne_bytes());
            count += 1;
        }
        if count == 0 {
            let waits = Waits {
                cookies: Vec::new(),
                copies: copy
                    .map(|copy| (call.args[0], copy, libc::POLLIN))
                    .into_iter()
                    .collect(),
                kept: Vec::new(),
                again: kept,
                signals,
            };
            if self.wait_for(call, waits, lasting, mask)? {
                let sched = self.worker.calls.clock.sched_mut();
                let blocked = sched.blocked.get_mut(&call.tid).expect("just blocked");
                blocked.condition.on_signal = EINTR;
                blocked.condition.on_timeout = Some(0);
                return Ok(());
            }
        } else {
            self.keep_polled(call.tid, kept);
            self.correct_errors(call, &mut events[..count * EPOLL_EVENT])?;
        }
        events.truncate(count * EPOLL_EVENT);
        let written = count == 0 || tracee::write(call.tid, call.args[1], &events);
        self.calls
            .answer(call, if written { count as i64 } else { EFAULT })
    }
}

/// How long a poll(2) may last that its process has written down.
fn limit_of(call: SyscallCtx, posted: &PostedPoll) -> Option<u64> {
    match polling(call.nr) {
        Polling::Poll => u64::try_from(call.args[2] as i32)
            .ok()
            .map(|ms| ms * MILLISECOND),
        _ => posted
            .time
            .map(|[secs, ns]| secs.saturating_mul(1_000_000_000).saturating_add(ns)),
    }
}
