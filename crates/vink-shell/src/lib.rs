//! The switch box: one language to command a lab, over telnet, in a terminal and in scripts.
//!
//! [`parse`] makes a [`Command`] of a line. A session (`session.rs`) carries it out by requests of
//! the control API (`executor.rs`), and works for a front (`front.rs`): a user at a telnet
//! connection ([`serve`]), at a terminal ([`interact`]), or a script ([`run_script`]). What there
//! is to say is in [`COMMANDS`], from which `help`, the table of docs/switchbox.md and completion
//! come too.

mod command;
mod complete;
mod definition;
mod edit;
mod error;
mod executor;
mod front;
mod host;
mod ifconfig;
mod interactive;
mod job;
mod parse;
mod parse_error;
mod peer;
mod reply;
mod script;
mod session;
mod settings;
mod switchbox;
mod telnet;
mod words;

pub use command::{Break, Command, End, Filter, Pod, Show};
pub use definition::{overview, table, Definition, Place, COMMANDS};
pub use error::ShellError;
pub use ifconfig::Ifconfig;
pub use interactive::interact;
pub use parse::parse;
pub use parse_error::ParseError;
pub use reply::Reply;
pub use script::{run_line, run_script, Options};
pub use settings::is_setting;
pub use switchbox::serve;
