//! The lab file, from outside.

mod diff;
mod golden;
mod mistakes;
mod random;
mod schema;
mod write;
