//! What programs with a mailbox (`mail`) do untrapped in virtual time: reads and writes of the host's pipes that don't wait, and
//! a poll(2) that is like the last one and finds something of the host's ready, such as a pipe just written to.
//!
//! Whoever has the turn is out alone, so what it does to a pipe until its next trapped call comes before all else, trapped or not.
//! It may not where it is not alone: as long as somebody may go on in the host, or be born, every call is trapped. That others may be
//! ready by what it has done is seen when it is heard again, or dies, as it is after a call that the host has done for it.
//!
//! What is true of Vink's files stays so while nobody makes a call, for the kernel does nothing then: it is written down with the
//! answer of a poll(2), for the next one. The other way round, a process with a mailbox writes down what it is about to wait for, and
//! copies what it is shown of the clock itself: neither is worth a look at its memory, which costs the worker a system call. A wait
//! that is the thread's last one again, for which nothing has become ready since, begins where that has ended.

use std::sync::atomic::Ordering;

use vink_mailbox::{BROKEN, HAS_MASK, HAS_TIME, LOOKED, WAITED};

use super::{Patience, Until};
use crate::mail::Desk;
use crate::notify::Notification;
use crate::ready::POLLFD;
use crate::worker::Worker;

/// Calls that one trapped call may be followed by: whoever makes more shows that it does.
const FREE: u32 = 256;

/// What a process has written down of its poll(2).
pub(super) struct Asked {
    /// Each a `struct pollfd`.
    pub(super) fds: Vec<u64>,
    pub(super) time: Option<[u64; 2]>,
    pub(super) mask: Option<u64>,
    /// What of it is the host's is not ready.
    pub(super) looked: bool,
}

/// A thread's last wait by poll(2), which began with nothing ready.
pub(super) struct Waited {
    id: u64,
    fds: Vec<u64>,
    /// Of the kernel's files among them.
    cookies: Vec<u64>,
    /// How many are the host's.
    watched: usize,
}

/// How many calls the process may make untrapped.
fn set_free(desk: &Desk, calls: u32) {
    desk.turn().free.store(calls, Ordering::Relaxed);
    desk.turn().vain.store(0, Ordering::Relaxed);
}

impl Worker {
    /// Whether each call costs virtual time, so that each must be trapped.
    pub(crate) fn charges_calls(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| !turn.how.charge.call.is_zero())
    }

    fn desk_of(&self, pid: i32) -> Option<std::rc::Rc<Desk>> {
        self.mail.as_ref()?;
        self.processes.get(&pid)?.table.desk()
    }

    /// It is this thread's turn.
    pub(super) fn set_free(&self, tid: i32) {
        if self.mail.is_none() {
            return;
        }
        let turn = self.turn.as_ref().expect("virtual time");
        let thread = self.threads.get(&tid);
        if let Some(desk) = thread.and_then(|thread| self.desk_of(thread.pid)) {
            let others = !turn.inside.is_empty() || !turn.vforked.is_empty();
            let alone = !others && turn.astray.limit().is_none();
            set_free(&desk, if alone { FREE } else { 0 });
        }
    }

    /// A thread of the process is not out alone, or will not be.
    pub(super) fn set_unfree(&self, pid: i32) {
        if let Some(desk) = self.desk_of(pid) {
            set_free(&desk, 0);
        }
    }

    /// The thread is heard: what it has done to pipes may matter to others.
    pub(super) fn note_untrapped(&mut self, tid: i32) {
        if self.mail.is_none() {
            return;
        }
        let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid) else {
            return;
        };
        let Some(desk) = self.desk_of(pid) else {
            return;
        };
        desk.waits.set(0);
        desk.asks.set(0);
        desk.turn().count.store(0, Ordering::Relaxed);
        match desk.turn().touched.swap(0, Ordering::Relaxed) {
            0 => return,
            touched if touched & BROKEN != 0 => self.pulse.doubt(pid),
            _ => {}
        }
        // The worker itself waits for pipes only for splice(2).
        let waits = self.basin.is_some();
        let turn = self.turn.as_mut().expect("virtual time");
        turn.stale = true;
        turn.passed |= waits;
    }

    /// What the thread's call moves data to or from is a pipe.
    pub(super) fn mark_pipe(&self, tid: i32, number: u64) {
        if let Some(desk) = self.desk_of(self.threads[&tid].pid) {
            desk.mark_pipe(number as i32);
        }
    }

    /// Before a call that may change what this number means, or any does.
    pub(super) fn unmark_pipes(&self, pid: i32, closed: Option<u32>) {
        match (self.desk_of(pid), closed) {
            (Some(desk), Some(number)) => desk.unmark(number as i32),
            (Some(desk), None) => desk.unmark_pipes(),
            (None, _) => {}
        }
    }

    /// What a poll(2) has found of its descriptors, for the next one: told when the call is answered.
    pub(super) fn write_down_waits(&self, call: Notification, fds: &[u8]) {
        let Some(desk) = self.desk_of(self.threads[&call.tid].pid) else {
            return;
        };
        let count = fds.len() / POLLFD;
        desk.waits.set(0);
        // While a file of Vink's may be on its way, what it has arrived as is not yet known.
        if count > WAITED || self.carrier.is_some() {
            return;
        }
        let (table, turn) = (self.table_of(call.tid), desk.turn());
        let mut own = 0;
        for (n, fd) in fds.chunks_exact(POLLFD).enumerate() {
            let bytes = u64::from_le_bytes(fd.try_into().expect("eight bytes"));
            turn.waited[n].store(bytes, Ordering::Relaxed);
            own |= u64::from(table.get(bytes & 0xffff_ffff).is_some()) << n;
        }
        turn.own.store(own, Ordering::Relaxed);
        desk.waits.set(call.id);
    }

    /// The call is answered, and what was written down for it is still true.
    pub(super) fn tell_waits(&self, call: Notification, count: usize) {
        let desk = self.desk_of(self.threads[&call.tid].pid);
        if let Some(desk) = desk.filter(|desk| desk.waits.get() == call.id) {
            desk.turn().count.store(count as u32, Ordering::Relaxed);
        }
    }

    /// What the process has written down of this poll(2).
    pub(super) fn take_asked(&self, call: Notification) -> Option<Asked> {
        let desk = self.desk_of(self.threads[&call.tid].pid)?;
        let turn = desk.turn();
        let count = call.args[1] as usize;
        let is_first = turn.asked.swap(0, Ordering::Relaxed) == call.args[0];
        if is_first && (1..=WAITED).contains(&count) {
            desk.asks.set(call.id);
            // Of a thread that has died before it looked.
            turn.found.store(0, Ordering::Relaxed);
            turn.clock_at.store(0, Ordering::Relaxed);
        }
        if desk.asks.get() != call.id {
            return None;
        }
        let how = turn.how.load(Ordering::Relaxed);
        let word = |place: &std::sync::atomic::AtomicU64| place.load(Ordering::Relaxed);
        Some(Asked {
            fds: turn.waited[..count].iter().map(word).collect(),
            time: (how & HAS_TIME != 0).then(|| [word(&turn.time[0]), word(&turn.time[1])]),
            mask: (how & HAS_MASK != 0).then(|| word(&turn.mask)),
            looked: is_first && how & LOOKED != 0,
        })
    }

    /// The thread waits until then for these, of which nothing is ready.
    pub(super) fn note_wait(&mut self, call: Notification, fds: Vec<u64>, cookies: Vec<u64>) {
        let turn = self.turn.as_mut().expect("virtual time");
        let watched = turn.parked[&call.tid].watched.len();
        let id = call.id;
        let waited = Waited {
            id,
            fds,
            cookies,
            watched,
        };
        turn.waited.insert(call.tid, waited);
    }

    /// Whether nothing has become true of this file of the kernel's, for which the thread has waited last with these events.
    pub(super) fn is_still_waited_for(
        &self,
        tid: i32,
        number: u64,
        events: u32,
        cookie: u64,
    ) -> bool {
        let turn = self.turn.as_ref().expect("virtual time");
        let Some(waited) = turn.waited.get(&tid) else {
            return false;
        };
        let watches = turn.watchers.get(&cookie);
        // (As long as the watch stands, the number has not been closed.)
        let wanted = (libc::POLLERR | libc::POLLHUP) as u32;
        waited.fds.iter().any(|fd| {
            let same = *fd & 0xffff_ffff == number & 0xffff_ffff;
            same && (fd >> 32) as u16 as u32 | wanted == events
        }) && watches.is_some_and(|all| all.contains(&(tid, waited.id)))
    }

    /// Waits as the thread has waited last, if nothing has become ready since. False if that is not so.
    pub(super) fn wait_again(
        &mut self,
        call: Notification,
        asked: &Asked,
        ns: Option<u64>,
    ) -> bool {
        let deadline = self.deadline(ns);
        let now = self.kernel.now();
        let Some(desk) = self.desk_of(self.threads[&call.tid].pid) else {
            return false;
        };
        let carries = self.carrier.is_some();
        let turn = self.turn.as_mut().expect("virtual time");
        let ends = deadline.is_some_and(|deadline| deadline > now);
        let Some(waited) = turn.waited.get_mut(&call.tid) else {
            return false;
        };
        if !ends || !asked.looked || turn.signalfds || carries || waited.fds != asked.fds {
            return false;
        }
        let (before, after) = ((call.tid, waited.id), (call.tid, call.id));
        let kept = turn.kept.get(&call.tid).map_or(0, Vec::len);
        let registered = |cookie| {
            turn.watchers
                .get(cookie)
                .is_some_and(|all| all.contains(&before))
        };
        if kept != waited.watched || !waited.cookies.iter().all(registered) {
            return false;
        }
        for cookie in &waited.cookies {
            let all = turn.watchers.get_mut(cookie).expect("looked at");
            // Behind those who wait already.
            all.retain(|one| *one != before);
            all.push(after);
        }
        waited.id = call.id;
        let until = Until {
            deadline,
            late: Some(0),
            mask: asked.mask,
            network: true,
            ..Until::forever()
        };
        let watched = self.take_kept(call.tid);
        self.park_for(call, until, watched, 0);
        desk.waits.set(call.id);
        true
    }

    /// Whether the process itself has written down what this poll(2) is to wait for, and will look there for what was found.
    pub(super) fn has_asked(&self, call: Notification) -> bool {
        let desk = self.desk_of(self.threads[&call.tid].pid);
        desk.is_some_and(|desk| desk.asks.get() == call.id && desk.waits.get() == call.id)
    }

    /// The process finds what was written down for this poll(2).
    pub(super) fn leave_found(&self, call: Notification) {
        if let Some(desk) = self.desk_of(self.threads[&call.tid].pid) {
            desk.turn().found.store(1, Ordering::Relaxed);
        }
    }

    /// A poll(2) that the process has written down ends: it copies what it is shown of the clock itself, unless it may look at that
    /// before it gets there, or nobody knows whether it can.
    pub(super) fn leave_time(&mut self, call: Notification) {
        let pid = self.threads[&call.tid].pid;
        if !self.has_no_signals(call.tid) || !self.is_shown_for_sure(pid) {
            return;
        }
        let shown = self.next_shown(call.tid, Patience::Runs);
        if let (Some(desk), Some((place, bytes))) = (self.desk_of(pid), shown) {
            let turn = desk.turn();
            for (word, bytes) in turn.clock.iter().zip(bytes.chunks_exact(4)) {
                let bytes = bytes.try_into().expect("four bytes");
                word.store(u32::from_ne_bytes(bytes), Ordering::Relaxed);
            }
            turn.clock_at.store(place, Ordering::Relaxed);
        }
    }
}
