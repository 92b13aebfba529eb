//! The lab engine: what should run, what runs, and the way from one to the other.

mod breakpoint;
mod capture;
mod carry;
mod clock;
mod drive;
mod home;
mod hosts;
mod lab;
mod link;
mod log;
mod program;
mod record;
mod sample;
mod series;
mod spawn;
mod status;
mod terminal;
mod timed;
mod watch;
mod worker;

pub(crate) use clock::{is_of_line, of_line_scope};
pub(crate) use lab::{is_over, Lab, Labs};
pub(crate) use program::Phase;
pub(crate) use terminal::{Attached, Pipe};

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// A line of a lab's timed events and what came of it.
pub type Running = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What this crate asks the command for, since it comes from crates that use the API: the language of the switch
/// box, and processes.
#[derive(Clone)]
pub struct Hooks {
    /// `vink` itself, which is started as `vink lab-worker`.
    pub executable: PathBuf,
    /// Carries out a line of the switch box in the lab of this name.
    pub run_line: Arc<dyn Fn(String, String) -> Running + Send + Sync>,
    /// Answers telnet sessions for the lab of this name; the future ends when it is dropped.
    pub switch_box: Arc<dyn Fn(String, tokio::net::TcpListener) -> Running + Send + Sync>,
}

/// Where a lab's switch box listens, and what ends it.
pub(crate) struct SwitchBox {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}
