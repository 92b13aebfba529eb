//! One kernel inside the program that uses it: a system call is a function call.
//!
//! Theory of operation: the process has one [`Stack`], with one machine, booted at the first call that
//! concerns it, as the environment says (`config`). Each thread that calls has a task. A thread that calls takes the
//! *token* (`token`), starts the call, and runs the kernel until that has nothing to do; most calls are done
//! by then. Of the threads whose calls wait, one is the *driver* (`wait`): it moves what comes by the
//! devices, runs timers, first spinning, then asleep in the host's poll. The others sleep until the thread that runs
//! the kernel finds their calls done. If no thread has waited or called for a while, a thread of our own is the
//! driver, the *keeper* (`keeper`), so that packets are taken and timers fire while the program computes. Another one is the watchdog (`watchdog`).
//!
//! This crate catches nothing: the interposer, `vink-preload`, calls it.

mod boot;
mod config;
mod devices;
mod error;
pub mod host;
mod keeper;
mod spin;
mod stack;
mod thread;
mod token;
mod wait;
pub mod watchdog;

pub use config::{Config, BROKER};
pub use error::Error;
pub use stack::Stack;
pub use thread::Thread;
pub use vink_kernel::{monotonic, Outcome};
pub use wait::Waited;
