//! What a thread has waited for is kept for its next wait, for event loops wait for the same descriptors again and again.
//!
//! A copy of a descriptor keeps its file open, so none is kept across a call that may close the descriptor or make it
//! another file's, nor for processes that share their descriptors.

use super::host::Watched;
use crate::calls::{kind, Kind};
use crate::notify::Notification;
use crate::worker::Worker;

impl Worker {
    /// What is kept of the thread's last wait.
    pub(super) fn take_kept(&mut self, tid: i32) -> Vec<Watched> {
        let turn = self.turn.as_mut().expect("virtual time");
        turn.kept.remove(&tid).unwrap_or_default()
    }

    /// The thread's wait is over, and none of these has ended it.
    pub(super) fn keep(&mut self, tid: i32, watched: Vec<Watched>) {
        if watched.is_empty() || !self.threads.contains_key(&tid) || self.table_of(tid).is_shared()
        {
            return;
        }
        let turn = self.turn.as_mut().expect("virtual time");
        turn.kept.insert(tid, watched);
    }

    /// Before a call that may change what the process has open.
    pub(super) fn give_up_kept(&mut self, call: Notification) {
        let turn = self.turn.as_mut().expect("virtual time");
        let changes = matches!(
            kind(call.nr),
            Kind::Close
                | Kind::CloseRange
                | Kind::Dup2
                | Kind::Dup3
                | Kind::Fork
                | Kind::Clone
                | Kind::Clone3
                | Kind::Exec
                | Kind::Unshare
        );
        if !changes || turn.kept.is_empty() {
            return;
        }
        for tid in &self.processes[&self.threads[&call.tid].pid].threads {
            turn.kept.remove(tid);
        }
    }
}
