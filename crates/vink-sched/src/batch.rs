//! Batches: threads of different machines run at the same time, so that they compute on all
//! processors.

use std::collections::VecDeque;

use crate::run_queue::{Queued, RunQueue};

/// How many calls one thread may make in a row while others are in the run queue.
const TIMESLICE: u32 = 100;

/// How many threads may be in a batch. Runs repeat, so it does not depend on the number of
/// processors.
const MAX_MEMBERS: usize = 32;

/// How many entries of the run queue are examined for a batch.
pub const MAX_SCANNED: usize = 4 * MAX_MEMBERS;

/// What a batch depends on beside the run queue.
pub trait BatchRule<R> {
    /// The machine that this is of.
    fn machine(&self, runnable: &R) -> u64;

    /// Whether threads may run beside this one at all now.
    fn may_batch(&self, tid: i32) -> bool;

    /// Whether this may be done while threads of other machines run: [`crate::conflict`].
    fn is_independent(&mut self, runnable: &R) -> bool;
}

/// A thread that is in the batch.
#[derive(Debug)]
struct Member {
    tid: i32,
    machine: u64,
    /// Calls that it has made in a row.
    calls_in_row: u32,
    /// Its last call makes a thread (true) or a process (false).
    forking: Option<bool>,
}

/// The threads that run, or are about to run before anything else is decided.
pub struct Batch<R> {
    members: Vec<Member>,
    /// Those of the batch before.
    before: Vec<Member>,
    pending: VecDeque<R>,
    /// Threads and processes that were created, with the index of the member that created each.
    created: Vec<(usize, i32)>,
}

impl<R> Default for Batch<R> {
    fn default() -> Batch<R> {
        Batch {
            members: Vec::new(),
            before: Vec::new(),
            pending: VecDeque::new(),
            created: Vec::new(),
        }
    }
}

impl<R: Queued> Batch<R> {
    /// The next member to run, unless calls are held back.
    pub fn next_member(&mut self, held: bool) -> Option<R> {
        match held {
            true => None,
            false => self.pending.pop_front(),
        }
    }

    /// Whether members of this batch have still to run.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether one thread runs, and no other one beside it.
    pub fn is_of_one(&self) -> bool {
        self.members.len() == 1
    }

    /// Which member the thread is.
    pub fn index_of(&self, tid: i32) -> Option<usize> {
        self.members.iter().position(|member| member.tid == tid)
    }

    /// Whether the member may run on, although others wait.
    pub fn has_timeslice(&mut self, index: usize) -> bool {
        let member = &mut self.members[index];
        if member.calls_in_row < TIMESLICE {
            return true;
        }
        member.calls_in_row = 0;
        false
    }

    /// Other threads come before the thread's next call.
    pub fn end_timeslice(&mut self, tid: i32) {
        for member in self.members.iter_mut().filter(|h| h.tid == tid) {
            member.calls_in_row = TIMESLICE;
        }
    }

    /// Another thread takes the member's place.
    pub fn rename(&mut self, from: i32, to: i32) {
        for member in self.members.iter_mut().filter(|h| h.tid == from) {
            member.tid = to;
        }
    }

    /// The thread is not in the batch any more.
    pub fn leave(&mut self, tid: i32) {
        self.members.retain(|member| member.tid != tid);
    }

    /// The thread is gone.
    pub fn forget(&mut self, tid: i32) {
        self.pending.retain(|runnable| runnable.tid() != tid);
        self.rename(tid, 0);
    }

    /// The thread's call makes a thread, or a process.
    pub fn expect_fork(&mut self, tid: i32, thread: bool) {
        for member in self.members.iter_mut().filter(|h| h.tid == tid) {
            member.forking = Some(thread);
        }
    }

    /// What the thread's call was to create, once.
    pub fn take_fork(&mut self, tid: i32) -> Option<bool> {
        let mut members = self.members.iter_mut();
        members.find(|member| member.tid == tid)?.forking.take()
    }

    /// The members whose calls create a thread or a process.
    pub fn forking(&self) -> Vec<i32> {
        let parents = self
            .members
            .iter()
            .filter(|member| member.forking.is_some());
        parents.map(|member| member.tid).collect()
    }

    /// This thread was made.
    pub fn note_created(&mut self, parent: i32, child: i32) {
        let index = self.index_of(parent).unwrap_or(usize::MAX);
        self.created.push((index, child));
    }

    /// Threads and processes that were created in this batch, in the order of their creation, once.
    pub fn take_created(&mut self) -> Vec<i32> {
        let mut created = std::mem::take(&mut self.created);
        created.sort_by_key(|(index, _)| *index);
        created.into_iter().map(|(_, tid)| tid).collect()
    }

    /// Those that are still to run.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &R> {
        self.pending.iter()
    }

    /// The index of the first member on a machine.
    pub fn index_of_machine(&self, machine: u64) -> Option<usize> {
        let mut members = self.members.iter();
        members.position(|member| member.machine == machine)
    }

    /// No thread is running: ends the batch, and begins the next one with what is first in the run
    /// queue. False: that is empty.
    pub fn begin_next(&mut self, queue: &mut RunQueue<R>, rule: &mut impl BatchRule<R>) -> bool {
        self.pending.clear();
        std::mem::swap(&mut self.members, &mut self.before);
        self.members.clear();
        let Some(first) = queue.take_next() else {
            return false;
        };
        let tid = first.tid();
        let machine = rule.machine(&first);
        let is_other = |runnable| rule.machine(runnable) != machine;
        let has_other = queue.iter().take(MAX_SCANNED).any(is_other);
        let batches = has_other && rule.may_batch(tid);
        let is_independent = batches && rule.is_independent(&first);
        self.join(tid, machine);
        self.pending.push_back(first);
        if is_independent {
            let others = queue.take_some(MAX_SCANNED, |runnable| {
                let machine = rule.machine(runnable);
                let joins = self.index_of_machine(machine).is_none()
                    && rule.may_batch(runnable.tid())
                    && rule.is_independent(runnable);
                if joins {
                    self.join(runnable.tid(), machine);
                }
                (joins, self.members.len() == MAX_MEMBERS)
            });
            self.pending.extend(others);
        }
        if batches && !is_independent {
            // Threads behind it in the run queue make such calls, too, before they all run in a
            // batch again.
            self.end_timeslice(tid);
        }
        true
    }

    /// The thread is in this batch.
    fn join(&mut self, tid: i32, machine: u64) {
        let before = self.before.iter().find(|member| member.tid == tid);
        self.members.push(Member {
            tid,
            machine,
            calls_in_row: before.map_or(0, |member| member.calls_in_row) + 1,
            forking: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads whose machine is their number's tens; odd ones conflict with all others.
    struct Tens(bool);

    impl BatchRule<i32> for Tens {
        fn machine(&self, tid: &i32) -> u64 {
            *tid as u64 / 10
        }
        fn may_batch(&self, _: i32) -> bool {
            self.0
        }
        fn is_independent(&mut self, tid: &i32) -> bool {
            tid % 2 == 0
        }
    }

    fn queue(tids: &[i32]) -> RunQueue<i32> {
        let mut queue = RunQueue::default();
        tids.iter().for_each(|tid| queue.push(*tid));
        queue
    }

    fn next(batch: &mut Batch<i32>, queue: &mut RunQueue<i32>, may_batch: bool) -> Vec<i32> {
        assert!(batch.begin_next(queue, &mut Tens(may_batch)));
        std::iter::from_fn(|| batch.next_member(false)).collect()
    }

    #[test]
    fn one_thread_of_each_machine_runs() {
        let (mut batch, mut queue) = (Batch::default(), queue(&[10, 12, 20, 21, 31, 40, 32]));
        assert_eq!(next(&mut batch, &mut queue, true), [10, 20, 40, 32]);
        assert_eq!((batch.index_of(40), batch.index_of(12)), (Some(2), None));
        assert_eq!(batch.index_of_machine(3), Some(3));
        assert_eq!(next(&mut batch, &mut queue, true), [12]);
        assert_eq!(next(&mut batch, &mut queue, true), [21]);
        assert_eq!(next(&mut batch, &mut queue, true), [31]);
        assert!(!batch.begin_next(&mut queue, &mut Tens(true)));
        assert_eq!(batch.index_of(31), None);
    }

    #[test]
    fn what_conflicts_runs_alone_and_makes_way() {
        let (mut batch, mut queue) = (Batch::default(), queue(&[11, 20, 30]));
        assert_eq!(next(&mut batch, &mut queue, true), [11]);
        assert!(!batch.has_timeslice(0) && batch.has_timeslice(0));
        assert_eq!(next(&mut batch, &mut queue, false), [20]);
        assert!(batch.has_timeslice(0));
    }

    #[test]
    fn a_batch_is_so_wide_at_most() {
        let tids: Vec<i32> = (0..200).map(|n| 10 * n).collect();
        let (mut batch, mut queue) = (Batch::default(), queue(&tids));
        assert_eq!(next(&mut batch, &mut queue, true), tids[..MAX_MEMBERS]);
        assert_eq!(
            next(&mut batch, &mut queue, true),
            tids[MAX_MEMBERS..2 * MAX_MEMBERS]
        );
    }

    #[test]
    fn a_thread_has_so_many_calls_in_a_row() {
        let mut batch = Batch::default();
        for n in 0..TIMESLICE {
            assert_eq!(next(&mut batch, &mut queue(&[10]), true), [10]);
            assert_eq!(batch.has_timeslice(0), n + 1 < TIMESLICE);
        }
    }

    #[test]
    fn what_was_created_is_in_the_order_of_the_members() {
        let (mut batch, mut queue) = (Batch::default(), queue(&[10, 20]));
        next(&mut batch, &mut queue, true);
        batch.expect_fork(20, true);
        batch.expect_fork(10, false);
        assert_eq!(batch.forking(), [10, 20]);
        assert_eq!(
            (batch.take_fork(20), batch.take_fork(20)),
            (Some(true), None)
        );
        batch.note_created(20, 21);
        batch.note_created(10, 11);
        batch.note_created(99, 98);
        assert_eq!(batch.take_created(), [11, 21, 98]);
        assert!(batch.take_created().is_empty());
        batch.rename(10, 15);
        batch.forget(20);
        assert_eq!((batch.index_of(15), batch.index_of(20)), (Some(0), None));
        batch.leave(15);
        assert_eq!(batch.index_of(15), None);
    }
}
