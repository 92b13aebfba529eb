//! The lab file, from outside.

mod diff;
mod docs;
mod generate;
mod golden;
mod import;
mod mistakes;
mod older;
mod random;
mod reach;
mod schema;
mod write;
