//! What the end-to-end tests share: where things are, and programs in networks of their own.

mod difference;
mod paths;
mod process;

pub use difference::difference;
pub use paths::{image, place, preload, quick, root, stage, vink};
pub use process::{run, Ended, Network, User};
