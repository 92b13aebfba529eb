//! What is known of a process's descriptors is kept, for programs wait for the same ones, read and write them, again and
//! again: by thread what it has waited for last, by process what data was moved to or from.
//!
//! A copy of a descriptor keeps its file open, so none is kept across a call that may close the descriptor or make it
//! another file's, nor for processes that share their descriptors.

use super::host::{Moved, Watched};
use crate::calls::{kind, Kind};
use crate::notify::Notification;
use crate::worker::Worker;

/// So many files that data was moved to or from are kept of a process.
const MOST_MOVED: usize = 32;

impl Worker {
    /// What is kept of the thread's last wait.
    pub(super) fn take_kept(&mut self, tid: i32) -> Vec<Watched> {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.kept.remove(&tid).unwrap_or_default()
    }

    /// What is kept of waits for this.
    pub(super) fn take_kept_of(&mut self, tid: i32, number: u64, events: i16) -> Option<Watched> {
        let turn = self.turn.as_mut().expect("virtual time");
        let kept = turn.kept.get_mut(&tid)?;
        let index = kept.iter().position(|kept| kept.is(number, events))?;
        Some(kept.swap_remove(index))
    }

    /// The thread's wait is over.
    pub(super) fn keep(&mut self, tid: i32, mut watched: Vec<Watched>) {
        if watched.is_empty() || !self.threads.contains_key(&tid) || self.table_of(tid).is_shared()
        {
            return;
        }
        let turn = self.turn.as_mut().expect("virtual time");
        turn.kept.entry(tid).or_default().append(&mut watched);
    }

    /// What is kept of a file that data was moved to or from.
    pub(super) fn kept_moved(&self, tid: i32, number: u32) -> Option<Moved> {
        let turn = self.turn.as_ref().expect("virtual time");
        let kept = turn.moved.get(&self.threads[&tid].pid)?;
        kept.iter().find(|moved| moved.number == number).cloned()
    }

    /// Data is moved to or from this.
    pub(super) fn keep_moved(&mut self, tid: i32, moved: &Moved) {
        if self.table_of(tid).is_shared() {
            return;
        }
        let pid = self.threads[&tid].pid;
        let turn = self.turn.as_mut().expect("virtual time");
        let kept = turn.moved.entry(pid).or_default();
        if kept.len() == MOST_MOVED {
            kept.remove(0);
        }
        kept.push(moved.clone());
    }

    /// Before a call that may change what the process has open.
    pub(super) fn give_up_kept(&mut self, call: Notification) {
        let closed = match kind(call.nr) {
            Kind::Close => Some(call.args[0] as u32),
            Kind::Dup2 | Kind::Dup3 => Some(call.args[1] as u32),
            Kind::CloseRange
            | Kind::Fork
            | Kind::Clone
            | Kind::Clone3
            | Kind::Exec
            | Kind::Unshare => None,
            _ => return,
        };
        let pid = self.threads[&call.tid].pid;
        self.unmark_pipes(pid, closed);
        let turn = self.turn.as_mut().expect("virtual time");
        if let Some(moved) = turn.moved.get_mut(&pid) {
            moved.retain(|moved| closed.is_some_and(|closed| closed != moved.number));
        }
        if turn.kept.is_empty() && turn.waited.is_empty() {
            return;
        }
        for tid in &self.processes[&pid].threads {
            turn.waited.remove(tid);
            if let Some(kept) = turn.kept.get_mut(tid) {
                kept.retain(|kept| closed.is_some_and(|closed| closed != kept.number()));
            }
        }
    }
}
