//! The file holder: what a task of the kernel's has open of files on their way (`scm_rights`).

use vink_kernel::TaskId;

use crate::fd_table::Entry;

/// Has the files that are, or were, on their way.
pub(crate) struct FileHolder {
    pub(crate) task: TaskId,
    /// Its process in the kernel.
    pub(crate) pid: i64,
    pub(crate) files: Vec<HeldFile>,
    /// A file has lost one of those that had it since this was last looked after.
    pub(crate) dirty: bool,
}

pub(crate) struct HeldFile {
    /// With the holder's number.
    pub(crate) entry: Entry,
    /// No program is known to have it: the end of its placeholder is waited for.
    pub(crate) only_in_flight: bool,
}
