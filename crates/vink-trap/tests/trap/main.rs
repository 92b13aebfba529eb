//! Real programs on a real image, as root and as an ordinary user.

mod built;
mod control;
mod deferred_sends;
mod horizon;
mod lab;
mod namespaces;
mod programs;
mod semantics;
mod shared_ring;
mod virtual_batches;
mod virtual_start;
mod virtual_time;
mod waits;
mod watchdog;
