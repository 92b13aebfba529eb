//! Ways from a machine to the outside.

mod forward;
mod handshake;
mod link;
mod passt;
mod tap;

pub use forward::Forward;
pub use passt::{Passt, Route};
