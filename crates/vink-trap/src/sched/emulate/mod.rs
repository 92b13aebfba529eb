//! Calls that would wait on the host, carried out by the worker: futexes, timers, children, locks,
//! queues, and readiness of descriptors of any kind.

pub(in crate::sched) mod futex;
pub(in crate::sched) mod host_fds;
pub(in crate::sched) mod ipc;
pub(in crate::sched) mod locks;
pub(in crate::sched) mod poll;
pub(in crate::sched) mod polled_fd;
pub(in crate::sched) mod timers;
pub(in crate::sched) mod wait_children;
