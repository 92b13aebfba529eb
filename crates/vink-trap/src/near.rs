//! Keeping the worker and programs that call it all the time on one processor.
//!
//! They wait for each other: who is woken on another processor, which has gone to sleep meanwhile, is there later by several times what
//! a call costs. The host's scheduler prefers an idle processor all the same. So while calls come thick and fast, the worker stays on
//! the processor that it is on and has the threads that make them stay there too; whoever computes for long makes few calls, and is
//! left alone. Now and then all are let go for a moment, so that the scheduler may find a better place.
//!
//! Programs don't see it: when one asks for an affinity all have their own again, and when one sets an affinity that is the end of it.
//! A child is made with the affinity of a parent that is free. (`/proc/PID/status` does tell.)

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::notify::Notification;
use crate::worker::Worker;

/// Every so many calls, it is noted who makes one: not a number of calls that programs make over and over.
const STRIDE: u32 = 7;
/// So many notes are looked at together.
const NOTES: usize = 32;
/// How many of them make a thread stay.
const MANY: usize = 3;
/// They come thick and fast if they take less time, and no longer if they take more.
const FAST: Duration = Duration::from_millis(8);
const SLOW: Duration = Duration::from_millis(12);
/// For how long they stay.
const STAY: Duration = Duration::from_secs(1);

/// Who stays where.
pub(crate) struct Near {
    calls: u32,
    notes: Vec<i32>,
    /// Since they were last looked at.
    since: Instant,
    stay: Option<Stay>,
}

/// On one processor.
struct Stay {
    processor: libc::cpu_set_t,
    until: Instant,
    /// What the worker and the threads had.
    own: libc::cpu_set_t,
    threads: HashMap<i32, libc::cpu_set_t>,
}

impl Near {
    /// `None` if there is one processor only.
    pub(crate) fn new() -> Option<Near> {
        let several = affinity(0).is_some_and(|own| count(&own) > 1);
        several.then(|| Near {
            calls: 0,
            notes: Vec::with_capacity(NOTES),
            since: Instant::now(),
            stay: None,
        })
    }

    /// A thread has made a call.
    pub(crate) fn note(&mut self, tid: i32) {
        self.calls += 1;
        if self.calls < STRIDE {
            return;
        }
        self.calls = 0;
        self.notes.push(tid);
        if self.notes.len() == NOTES {
            self.judge();
        }
    }

    /// Who stays from now on.
    fn judge(&mut self) {
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.since, now);
        let mut notes = std::mem::replace(&mut self.notes, Vec::with_capacity(NOTES));
        if took > SLOW || self.stay.as_ref().is_some_and(|stay| stay.until < now) {
            return self.let_go();
        }
        if self.stay.is_none() && took < FAST {
            self.stay = Stay::begin(now);
        }
        let Some(stay) = &mut self.stay else { return };
        let quiet: Vec<i32> = stay.threads.keys().copied().collect();
        for tid in quiet.iter().filter(|tid| !notes.contains(tid)) {
            stay.release(*tid);
        }
        notes.sort_unstable();
        for same in notes.chunk_by(|a, b| a == b).filter(|s| s.len() >= MANY) {
            stay.hold(same[0]);
        }
    }

    /// Until when the next call is waited for at most; nobody stays where nobody calls.
    pub(crate) fn limit(&mut self) -> Option<Duration> {
        self.stay.as_ref()?;
        let left = SLOW.checked_sub(self.since.elapsed());
        if left.is_none() {
            self.let_go();
        }
        left
    }

    /// All have their own affinity again.
    pub(crate) fn let_go(&mut self) {
        self.stay = None;
    }

    /// A thread has its own affinity again.
    pub(crate) fn release(&mut self, tid: i32) {
        if let Some(stay) = &mut self.stay {
            stay.release(tid);
        }
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, tid: i32) {
        if let Some(stay) = &mut self.stay {
            stay.threads.remove(&tid);
        }
    }
}

impl Stay {
    /// The worker stays where it is.
    fn begin(now: Instant) -> Option<Stay> {
        let own = affinity(0)?;
        // SAFETY: all zero is an empty set; the number of this processor is one that a set can have.
        let processor = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu()).ok()?, &mut set);
            set
        };
        bind(0, &processor).then(|| Stay {
            processor,
            until: now + STAY,
            own,
            threads: HashMap::new(),
        })
    }

    /// A thread stays too, if it may be there and the host lets this process say so.
    fn hold(&mut self, tid: i32) {
        if self.threads.contains_key(&tid) {
            return;
        }
        let Some(had) = affinity(tid) else { return };
        if count(&had) > 1 && contains(&had, &self.processor) && bind(tid, &self.processor) {
            self.threads.insert(tid, had);
        }
    }

    fn release(&mut self, tid: i32) {
        if let Some(had) = self.threads.remove(&tid) {
            self.give_back(tid, &had);
        }
    }

    /// Unless somebody else has said something meanwhile.
    fn give_back(&self, tid: i32, had: &libc::cpu_set_t) {
        // SAFETY: compares sets.
        let is_ours = |now: libc::cpu_set_t| unsafe { libc::CPU_EQUAL(&now, &self.processor) };
        if affinity(tid).is_some_and(is_ours) {
            bind(tid, had);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        for (tid, had) in &self.threads {
            self.give_back(*tid, had);
        }
        self.give_back(0, &self.own);
    }
}

/// sched_getaffinity(2).
pub(crate) fn affinity(tid: i32) -> Option<libc::cpu_set_t> {
    // SAFETY: all zero is an empty set; fills a set of the size that is said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(tid, size_of_val(&set), &mut set) == 0).then_some(set)
    }
}

/// sched_setaffinity(2); false if it can't be.
pub(crate) fn bind(tid: i32, to: &libc::cpu_set_t) -> bool {
    // SAFETY: reads a set of the size that is said.
    unsafe { libc::sched_setaffinity(tid, size_of_val(to), to) == 0 }
}

/// How many processors there are in a set.
pub(crate) fn count(set: &libc::cpu_set_t) -> i32 {
    // SAFETY: counts members of a set.
    unsafe { libc::CPU_COUNT(set) }
}

/// Whether the only member of the other one is a member.
fn contains(set: &libc::cpu_set_t, one: &libc::cpu_set_t) -> bool {
    // SAFETY: looks at numbers that a set can have.
    unsafe {
        let all = 0..libc::CPU_SETSIZE as usize;
        all.into_iter()
            .any(|n| libc::CPU_ISSET(n, one) && libc::CPU_ISSET(n, set))
    }
}

impl Worker {
    /// sched_getaffinity(2) and sched_setaffinity(2): a program is to find, and to change, its own.
    pub(crate) fn look_at_affinity(&mut self, call: Notification) {
        match call.nr {
            libc::SYS_sched_getaffinity => {
                if let Some(near) = &mut self.near {
                    near.let_go();
                }
            }
            _ => self.near = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays() {
        let Some(mut near) = Near::new() else { return };
        let own = affinity(0).expect("this thread's");
        // SAFETY: takes nothing.
        let tid = unsafe { libc::gettid() };
        for _ in 0..STRIDE as usize * NOTES {
            near.note(tid);
        }
        // The worker is this thread; what it was given back is what it had.
        let stay = near.stay.as_ref().expect("these calls are fast");
        assert_eq!(count(&affinity(0).unwrap()), 1);
        // SAFETY: compares sets.
        assert!(unsafe { libc::CPU_EQUAL(&stay.own, &own) });
        near.let_go();
        // SAFETY: compares sets.
        assert!(unsafe { libc::CPU_EQUAL(&affinity(0).unwrap(), &own) });
        assert!(near.limit().is_none());
    }

    #[test]
    fn others_have_their_say() {
        let Some(own) = affinity(0).filter(|own| count(own) > 1) else {
            return;
        };
        let mut stay = Stay::begin(Instant::now()).expect("of several processors");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let tid = child.id() as i32;
        // Made while this thread was bound.
        assert!(bind(tid, &own));
        stay.hold(tid);
        assert_eq!(count(&affinity(tid).unwrap()), 1);
        stay.release(tid);
        assert_eq!(count(&affinity(tid).unwrap()), count(&own));
        stay.hold(tid);
        assert!(bind(tid, &own));
        drop(stay);
        assert_eq!(count(&affinity(tid).unwrap()), count(&own));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
