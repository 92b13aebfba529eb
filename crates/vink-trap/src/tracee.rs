//! What the worker reads from and writes to a trapped process: its memory, and its `/proc`.

use std::time::Duration;

use vink_sys::process::{share, Shared};

pub(crate) use vink_sys::fd::identity;
pub(crate) use vink_sys::memory::{read, read_parts, read_string, read_u64, write, write_parts};
pub(crate) use vink_sys::procfs::{
    children, closes_on_exec, descriptor, descriptors, directory, has_room, has_thread, is_epoll,
    maps, network, ns_pid, ns_pid_of_kind, process_of_pidfd, tgid_and_ppid, thread_by_ns_pid,
    threads,
};

/// How long a thread may compute before it is named, and may take to go before it is not waited for.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the two processes have one memory.
pub(crate) fn share_memory(pid: i32, other: i32) -> bool {
    share(Shared::Memory, pid, other)
}
