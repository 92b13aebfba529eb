//! The lab worker: a process with one kernel, which does what the control process asks for.
//!
//! # Theory of operation
//!
//! There is one thread and one loop (`serve`): it lets the [`vink_trap::Worker`] take a step, which waits for programs,
//! devices, the kernel's timers and the socket alike; then it carries out some of the requests that have come, tells
//! what has happened, and sends what there is room for. Nothing of this waits for the control process: requests come in
//! whatever pieces (`channel`), and one that does not read what it is told gets no more of its requests carried out,
//! while programs and packets go on.
//!
//! What a request does is in the file of what it is about: `machine`, `wire`, `program`, `app`, `uplink`, `capture`, `breakpoint`,
//! `series`, `status`; how far a virtual clock goes, in `pace`. All of them work on one `Lab`, which knows everything by its name in the lab.
//!
//! When the socket ends, so do all programs, and then the process.

mod app;
mod bpf;
mod breakpoint;
mod breakpoint_tcp;
mod capture;
mod channel;
mod descriptors;
mod journal;
mod lab;
mod link;
mod machine;
mod pace;
mod program;
pub mod protocol;
mod series;
mod serve;
mod status;
mod uplink;
mod wire;

pub(crate) use descriptors::receive_with;
pub use descriptors::send_with;
pub use link::Link;
pub use serve::{seed, serve, Config, End};
