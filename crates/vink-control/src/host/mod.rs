//! Workers on other hosts.
//!
//! # Theory of operation
//!
//! The control process starts `vink lab-host` on each host, by ssh or another command (`link`). What
//! goes over that program's input and output are frames (`mux`): messages in both directions, and
//! streams of bytes, each with a window of its own, so that a client that does not read holds up
//! nothing else. The agent there (`agent`) starts workers as the control process does here, and gives
//! requests on to them. A descriptor that goes with a request is a stream whose other end the agent
//! makes there: a pipe, a terminal, a socket.
//!
//! Nothing there is in the file system. An agent whose input ends, or that has heard nothing for
//! [`SILENCE_THERE`], ends its workers and itself; a worker whose agent was killed ends by itself.

mod agent;
mod link;
mod mux;

use std::time::Duration;

pub(crate) use agent::bind_here;
pub use agent::serve as serve_host;
pub(crate) use link::{Descriptor, HostLink, RemoteProcess};
pub(crate) use mux::{Piece, StreamReader};

/// What the agent writes before its first frame: what came before is not its.
const GREETING: &[u8] = b"\nvink lab-host 1\n";
/// How often either side says that it is there.
const ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// After so much silence the control process holds a host for lost.
const SILENCE_HERE: Duration = Duration::from_secs(10);
/// ... and an agent the control process.
const SILENCE_THERE: Duration = Duration::from_secs(15);
