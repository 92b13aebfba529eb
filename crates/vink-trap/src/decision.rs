//! What is decided of a trapped call, where that is not carried out by what decides it.

use crate::fd_table::Entry;
use crate::in_flight::AfterClose;

/// What becomes of a call.
pub(crate) enum Decision {
    /// It is answered, or will be.
    Done,
    /// This is the result.
    Answer(i64),
    /// The same, since it asks for what is not supported.
    Unsupported(i64),
    /// The host does it.
    Host,
    /// These are closed in the kernel before.
    Close(Vec<Entry>, AfterClose),
}
