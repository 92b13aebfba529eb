//! When the worker polls the shared rings of its programs (`shared_ring`), if that is left to it (`--calls
//! auto`).
//!
//! Polling pays where calls come often: a posted call costs a quarter of a trapped one. Where they
//! come seldom, it costs a wake-up of another processor for each call, and a spin that finds
//! nothing. So the worker begins with trapped calls. It counts those on streams of programs that
//! have a ring. If [`OFTEN`] come within [`FAST`], it takes a processor of its own, has the threads
//! that call it run on the others, and polls. While it polls, it looks every [`WINDOW`] at how many
//! calls were posted for each time that it went to sleep, as none had come for a while. If these
//! are too few, it goes back to trapped calls, and waits before the next attempt: longer each time
//! that an attempt was short.
//!
//! Nothing of this costs anything on an idle machine: a worker that is not called goes back within
//! one window, and sleeps.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use vink_sys::process::{affinity, cpus, current_cpu, one_cpu, set_affinity, CpuSet};

/// So many trapped calls on streams are often if they come within this time.
const OFTEN: u32 = 128;
const FAST: Duration = Duration::from_millis(8);
/// How often a worker that polls looks at what it has found.
const WINDOW: Duration = Duration::from_millis(10);
/// Posted calls for each time that the worker went to sleep, at least.
const WORTH: u64 = 8;
/// Attempts that are shorter than this make the next pause longer.
const SHORT: Duration = Duration::from_millis(200);
/// How long the worker waits before it polls again, at first and at most.
const FIRST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(1280);

/// Which form the calls of programs with a shared ring have now, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallsForm {
    /// Posted in the shared ring, which the worker polls.
    Shared,
    /// Trapped: they come too seldom.
    Seldom,
    /// Trapped: other processes use the processor that the worker would poll on.
    Crowded,
}

impl std::fmt::Display for CallsForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CallsForm::Shared => "shared: calls come often, the stack polls the shared rings",
            CallsForm::Seldom => "trapped: calls come too seldom for polling",
            CallsForm::Crowded => "trapped: other processes use the processors",
        })
    }
}

/// When to begin and when to end.
#[derive(Debug)]
pub(crate) struct PollingPolicy {
    form: CallsForm,
    /// Trapped calls since `since`.
    trapped: u32,
    /// The window's begin.
    since: Instant,
    /// Posted calls, by the worker's count, when the window began.
    posted: u64,
    /// How often the worker went to sleep in this window.
    sleeps: u64,
    /// When polling began.
    begun: Instant,
    /// No attempt before.
    not_before: Option<Instant>,
    pause: Duration,
}

impl PollingPolicy {
    pub(crate) fn new() -> PollingPolicy {
        let now = Instant::now();
        PollingPolicy {
            form: CallsForm::Seldom,
            trapped: 0,
            since: now,
            posted: 0,
            sleeps: 0,
            begun: now,
            not_before: None,
            pause: FIRST,
        }
    }

    pub(crate) fn form(&self) -> CallsForm {
        self.form
    }

    pub(crate) fn polls(&self) -> bool {
        self.form == CallsForm::Shared
    }

    /// A call on a stream has been trapped whose process has a ring. Whether they come so often
    /// that polling pays.
    pub(crate) fn count_trapped(&mut self) -> bool {
        self.trapped += 1;
        self.trapped >= OFTEN && self.weigh_trapped(Instant::now())
    }

    fn weigh_trapped(&mut self, now: Instant) -> bool {
        let took = now - std::mem::replace(&mut self.since, now);
        self.trapped = 0;
        took < FAST && self.not_before.is_none_or(|until| until <= now)
    }

    /// The worker polls from now on.
    pub(crate) fn begin(&mut self, now: Instant, posted: u64) {
        (self.form, self.begun, self.since) = (CallsForm::Shared, now, now);
        (self.posted, self.sleeps) = (posted, 0);
        tracing::debug!(target: "calls", "{}", self.form);
    }

    /// Nothing was posted for a while: the worker goes to sleep.
    pub(crate) fn count_sleep(&mut self) {
        self.sleeps += 1;
    }

    /// Whether it still pays, with so many calls posted so far; looked at once in a window.
    pub(crate) fn pays(&mut self, now: Instant, posted: u64) -> bool {
        if now < self.since + WINDOW {
            return true;
        }
        let served = posted - std::mem::replace(&mut self.posted, posted);
        let sleeps = std::mem::take(&mut self.sleeps);
        self.since = now;
        served > 0 && served >= sleeps * WORTH
    }

    /// It does not poll any more.
    pub(crate) fn end(&mut self, now: Instant, form: CallsForm) {
        self.form = form;
        tracing::debug!(target: "calls", "{form}");
        (self.trapped, self.since) = (0, now);
        if form == CallsForm::Crowded {
            // For how long is `contention`'s to say.
            return;
        }
        self.pause = match now - self.begun < SHORT {
            true => MOST.min(self.pause * 2),
            false => FIRST,
        };
        self.not_before = Some(now + self.pause);
    }

    /// How long the worker may sleep at most: until the window ends in which it polls.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.polls()
            .then(|| WINDOW.saturating_sub(self.since.elapsed()))
    }
}

/// The worker has a processor of its own, and threads of programs are kept off it, until this is
/// dropped.
pub(crate) struct Separation {
    worker: CpuSet,
    /// What the worker had.
    own: CpuSet,
    /// What threads had.
    threads: HashMap<i32, CpuSet>,
}

impl Separation {
    /// The worker stays on the processor that it is on, but for the first one, which tends to have
    /// the most interrupts. `None` if there is one processor only.
    pub(crate) fn begin() -> Option<Separation> {
        let own = affinity(0).filter(|own| own.count() > 1)?;
        let here = current_cpu();
        let (first, last) = (cpus(&own).next()?, cpus(&own).next_back()?);
        let place = Some(here).filter(|here| *here != first && own.is_set(*here));
        let worker = one_cpu(place.unwrap_or(last));
        set_affinity(0, &worker).then(|| Separation {
            worker,
            own,
            threads: HashMap::new(),
        })
    }

    /// Keeps a thread off the worker's processor, if it may be elsewhere.
    pub(crate) fn hold(&mut self, tid: i32) {
        if self.threads.contains_key(&tid) {
            return;
        }
        let Some(had) = affinity(tid) else { return };
        let others = without(&had, &self.worker);
        if others.count() > 0 && others.count() < had.count() && set_affinity(tid, &others) {
            self.threads.insert(tid, had);
        }
    }

    /// A thread has its own affinity again, unless it was changed meanwhile.
    pub(crate) fn release(&mut self, tid: i32) {
        if let Some(had) = self.threads.remove(&tid) {
            self.give_back(tid, &had);
        }
    }

    fn give_back(&self, tid: i32, had: &CpuSet) {
        let held = without(had, &self.worker);
        if affinity(tid) == Some(held) {
            set_affinity(tid, had);
        }
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }
}

impl Drop for Separation {
    fn drop(&mut self) {
        for (tid, had) in &self.threads {
            self.give_back(*tid, had);
        }
        set_affinity(0, &self.own);
    }
}

/// The members of one set that the other one has not.
fn without(set: &CpuSet, other: &CpuSet) -> CpuSet {
    let mut left = *set;
    for cpu in cpus(other) {
        left.unset(cpu);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::tests::unbound_child;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn polling_begins_where_calls_come_often() {
        let mut policy = PollingPolicy::new();
        let begin = policy.since;
        assert!(!policy.weigh_trapped(begin + 20 * MS), "seldom");
        assert!(policy.weigh_trapped(begin + 24 * MS), "often");
        assert!(!policy.polls());
        policy.begin(begin + 24 * MS, 100);
        assert_eq!(policy.form(), CallsForm::Shared);
    }

    #[test]
    fn a_worker_that_polls_in_vain_goes_back_and_tries_less_often() {
        let mut policy = PollingPolicy::new();
        let mut now = policy.since;
        let mut posted = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            policy.begin(now, posted);
            posted += 1000;
            now += WINDOW;
            assert!(policy.pays(now, posted), "1,000 calls and no sleep");
            policy.count_sleep();
            posted += WORTH - 1;
            assert!(policy.pays(now + WINDOW / 2, posted), "not looked at yet");
            now += WINDOW;
            assert!(!policy.pays(now, posted), "too few for a sleep");
            policy.end(now, CallsForm::Seldom);
            let until = policy.not_before.expect("a pause");
            pauses.push(until - now);
            policy.since = until - 2 * MS;
            assert!(!policy.weigh_trapped(until - MS), "during the pause");
            assert!(policy.weigh_trapped(until), "after it");
            now = until;
        }
        assert!(pauses.is_sorted() && pauses[7] == MOST);
        policy.begin(now, posted);
        policy.end(now + WINDOW, CallsForm::Crowded);
        assert_eq!(
            policy.pause, MOST,
            "a crowd says nothing of how often calls come"
        );
        policy.begin(now, posted);
        policy.end(now + SHORT, CallsForm::Seldom);
        assert_eq!(policy.pause, FIRST);
    }

    #[test]
    fn no_calls_end_it() {
        let mut policy = PollingPolicy::new();
        let now = policy.since;
        assert_eq!(policy.limit(), None);
        policy.begin(Instant::now(), 5);
        assert!(policy.limit().is_some_and(|limit| limit <= WINDOW));
        assert!(!policy.pays(now + WINDOW * 100, 5));
    }

    #[test]
    fn threads_get_their_own_affinity_back() {
        let Some(own) = affinity(0).filter(|own| own.count() > 1) else {
            return;
        };
        let mut separation = Separation::begin().expect("of several processors");
        assert_eq!(affinity(0).unwrap().count(), 1);
        let mut child = unbound_child(&own);
        let tid = child.id() as i32;
        separation.hold(tid);
        assert_eq!(affinity(tid).unwrap().count(), own.count() - 1);
        separation.release(tid);
        assert_eq!(affinity(tid).unwrap().count(), own.count());
        separation.hold(tid);
        drop(separation);
        assert_eq!(affinity(tid).unwrap().count(), own.count());
        assert_eq!(affinity(0).unwrap().count(), own.count());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
