//! The switch box: one language to command a lab, over telnet, in a terminal and in scripts.
//!
//! [`parse`] makes a [`Command`] of a line. A session (`session.rs`) carries it out by requests of the control API
//! (`executor.rs`), and works for a front (`front.rs`): somebody at a telnet connection ([`serve`]), at a terminal
//! ([`interact`]), or a script ([`run_script`]). What there is to say is in [`COMMANDS`], from which `help`, the table of
//! docs/switchbox.md and completion come too.

mod command;
mod complete;
mod definition;
mod edit;
mod executor;
mod failure;
mod front;
mod host;
mod interactive;
mod job;
mod mistake;
mod nettools;
mod parse;
mod peer;
mod reply;
mod script;
mod session;
mod settings;
mod switchbox;
mod telnet;
mod words;

pub use command::{Break, Command, End, Show};
pub use definition::{overview, table, Definition, Place, COMMANDS};
pub use failure::Failure;
pub use interactive::interact;
pub use mistake::Mistake;
pub use nettools::NetTool;
pub use parse::parse;
pub use reply::Reply;
pub use script::{run_line, run_script, Options};
pub use switchbox::serve;
