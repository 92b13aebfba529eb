//! What a trapped call asks for, and what became of its answer.

/// A trapped call: its thread, and what it asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    /// Names the waiting call at its listener.
    pub(crate) id: u64,
    /// The waiting thread, in our pid namespace.
    pub(crate) tid: i32,
    pub(crate) nr: i64,
    pub(crate) args: [u64; 6],
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The thread has it.
    Delivered,
    /// The thread is dead.
    ThreadGone,
}
