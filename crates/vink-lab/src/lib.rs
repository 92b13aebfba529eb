//! Machines, wires and programs of one worker.

mod address;
mod admin;
mod error;
mod files;
mod machine;
mod message;

pub use address::Network;
pub use admin::Admin;
pub use error::Error;
pub use machine::{wire, End, Machine};
