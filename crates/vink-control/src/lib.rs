//! The control process: labs that run, and the control API by which they are commanded.
//!
//! One for each user, started by the first command that needs it, ended after the last lab. It
//! loads no image: each image of a lab runs in a worker process of its own, which it talks to by
//! `vink_protocol`. When it dies, workers find the end of their sockets, and end with all their
//! programs.

mod accept;
mod auth;
mod daemon;
mod direct;
mod engine;
mod explored;
mod host;
mod http_error;
mod page;
mod parts;
mod ready;
mod replay;
mod routes;
mod runs;
mod server;
mod session;
mod sockets;
mod tcp;
mod views;

pub use daemon::{run, Options};
pub use direct::DirectApi;
pub use engine::{CheckLab, Hooks, Running};
pub use host::serve_host;
pub use replay::{again, repeat, requests, Done};
