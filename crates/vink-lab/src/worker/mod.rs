//! The lab worker: a process with one kernel, which does what the control process asks for.
//!
//! # Theory of operation
//!
//! There is one thread and one loop (`serve`): it lets the [`vink_trap::Worker`] take a step, which
//! waits for programs, devices, the kernel's timers and the socket alike; then it carries out some
//! of the requests that have come, tells what has happened, and sends what there is room for.
//! Nothing of this waits for the control process: requests come in pieces of any size, and while
//! the control process does not read, no more of its requests are carried out; programs and packets
//! go on. Where a request's work takes long (a pod's loading), its answer comes later.
//!
//! What a request does is in the file of its object: `machine`, `wire`, `program`, `app`, `uplink`,
//! `capture`, `feed`, `breakpoint`, `path`, `series`, `status`; `clock_driver` runs a virtual clock. All of them
//! work on one `Lab`, which has everything by its name.
//!
//! When the socket ends, so do all programs, and then the process.

mod app;
mod bpf;
mod breakpoint;
mod breakpoint_tcp;
mod capture;
mod clock_driver;
mod crossing;
mod feed;
mod journal;
mod lab;
mod loader;
mod machine;
mod packet_identity;
mod path;
mod program;
mod series;
mod serve;
mod status;
mod stream_path;
mod uplink;
mod wire;

pub use bpf::{compile_filter, compile_filter_bounded};
pub use machine::sysctl_path;
pub use path::load_pod;
pub use serve::{seed, serve, End};
pub(crate) use status::wire_numbers;
pub use wire::wire_settings;
