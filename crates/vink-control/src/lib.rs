//! The control process: labs that run, and the control API by which they are commanded.
//!
//! One for each user, started by the first command that needs it, ended after the last lab. It loads no image: each
//! image of a lab runs in a worker process of its own, which it talks to by `vink_lab::worker::protocol`. When it
//! dies, workers find the end of their sockets, and end with all their programs.

mod daemon;
mod door;
mod engine;
mod fault;
mod server;
mod sockets;
mod table;

pub use daemon::{run, Options};
pub use engine::{Hooks, Running};
