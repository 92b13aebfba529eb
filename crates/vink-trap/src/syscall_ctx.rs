//! A trapped call on its way through the worker, with what it concerns: found once, when the call
//! begins, and not at each step.

use std::ops::Deref;

use crate::notification::Notification;

/// A trapped call of a thread that the worker knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyscallCtx {
    pub(crate) notification: Notification,
    /// The thread's process.
    pub(crate) pid: i32,
    /// The program's place in the table of programs.
    pub(crate) program: usize,
}

impl Deref for SyscallCtx {
    type Target = Notification;

    fn deref(&self) -> &Notification {
        &self.notification
    }
}
