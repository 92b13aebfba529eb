//! What the end-to-end tests share: where things are, and programs in networks of their own.

mod paths;
mod process;

pub use paths::{image, root, stage, vink};
pub use process::{run, Ended, Network, User};
