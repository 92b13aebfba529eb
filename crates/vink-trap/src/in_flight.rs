//! Calls that the kernel works on, and what to do with their results.

use std::rc::Rc;

use crate::fd_table::Entry;
use crate::file::File;
use crate::process_ring::ProcessRing;
use crate::syscall_ctx::SyscallCtx;
use crate::transfer::{Sendfile, Splice};

/// A call of a thread that the kernel works on.
pub(crate) struct InFlight {
    pub(crate) call: SyscallCtx,
    pub(crate) continuation: Continuation,
    /// The file concerned: kept alive, and its readiness shown when the call is done.
    pub(crate) file: Option<Rc<File>>,
}

/// What to do with the kernel's result.
pub(crate) enum Continuation {
    /// It is the program's.
    Answer,
    /// The host does the same, unless it is an error.
    HostToo,
    /// It is a descriptor of the kernel's, for which the program needs a placeholder.
    Descriptor { cloexec: bool },
    /// A descriptor has been closed: close the rest, then go on.
    Close { rest: Vec<Entry>, then: AfterClose },
    /// A piece of a file has been sent.
    Sendfile(Box<Sendfile>),
    /// A step of a splice(2) is done.
    Splice(Box<Splice>),
    /// It is for the thread that has posted the call.
    Posted {
        ring: Rc<ProcessRing>,
        slot: usize,
        /// The call as it was posted would wait, if the file does.
        may_wait: bool,
        /// It was a deferred send: no thread waits for the answer.
        is_deferred: bool,
    },
}

/// How to go on after closing.
#[derive(Clone, Copy)]
pub(crate) enum AfterClose {
    /// Let the host do the call as well.
    Passthrough,
    /// Dispatch the call again.
    Dispatch,
    /// This is the result.
    Answer(i64),
}
