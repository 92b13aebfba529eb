//! What a kernel knows of a TCP connection: every field of its `struct tcp_sock`, wherever the
//! image has it.
//!
//! # Theory of operation
//!
//! No layout is written down here. [`Layout::of`] takes the structures apart that the image's own
//! debug information describes (`dwarf`), once for each build of an image (`layout`). [`Process`]
//! reads the memory of the process that an image is loaded in, from outside and without stopping it
//! (process_vm_readv(2)). [`Process::connections`] goes from the machines to their connections as
//! the kernel would (`walk`); a [`Layout`] makes fields of the bytes (`field`).
//!
//! Nothing here knows how the process came to have a kernel: a worker of `vink run` or of a lab, or
//! a program with the stack in it.

mod dwarf;
mod error;
mod field;
mod layout;
mod process;
mod walk;

pub use error::Error;
pub use field::{Field, Kind, Structure, Value};
pub use layout::{Layout, Symbol};
pub use process::{image_of, Process};
pub use walk::{Connection, Machine};
