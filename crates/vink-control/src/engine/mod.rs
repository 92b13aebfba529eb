//! The lab engine: what should run, what runs, and the way from one to the other.

mod breakpoint;
mod capture;
mod captured;
mod clock;
mod clock_requests;
mod command;
mod dissect;
mod driver;
mod feed;
mod filter;
mod hosts;
mod input;
mod kept;
mod lab;
mod log;
mod machine_dir;
mod opened;
mod opened_explored;
mod place;
mod pod;
mod process_tree;
mod program;
mod reconcile;
mod record;
mod relay;
mod rows;
mod ruleset;
mod run_packets;
mod sample;
mod series;
mod setup;
mod spawn;
mod status;
mod stuck;
mod switch;
mod terminal;
mod timed;
mod watched_interfaces;
mod worker;
mod worker_client;
mod worker_for;

pub(crate) use clock::Requester;
pub(crate) use dissect::detail;
pub(crate) use feed::Viewer;
pub(crate) use input::Giver;
pub(crate) use lab::{Lab, Labs};
pub(crate) use process_tree::ProcessTree;
pub(crate) use spawn::nothing;
pub(crate) use status::topology_of;
pub(crate) use terminal::{FromProgram, Pipe, PIECE, PIECES};
pub(crate) use worker::{shuts_down, Stage, WorkerProcess};

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use vink_spec::LabDiagnostic;

use crate::direct::DirectApi;

/// A line of a lab's timed events and what came of it.
pub type Running = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What is wrong with a lab whose file is in this folder.
pub type CheckLab = Arc<dyn Fn(&vink_spec::Lab, &Path) -> Vec<LabDiagnostic> + Send + Sync>;

/// What this crate asks the command for, since it comes from crates that use the API: the language
/// of the switch box, and processes.
#[derive(Clone)]
pub struct Hooks {
    /// `vink` itself, which is started as `vink lab-worker`.
    pub executable: PathBuf,
    /// Carries out a line of the switch box in the lab of this name, by requests to the engine.
    pub run_line: Arc<dyn Fn(DirectApi, String, String) -> Running + Send + Sync>,
    /// Finds what is wrong with a lab whose file is in a folder, beyond what `vink_spec` knows.
    pub check: CheckLab,
    /// Answers telnet sessions for the lab of this name; the future ends when it is dropped.
    pub switch_box: Arc<dyn Fn(String, tokio::net::TcpListener) -> Running + Send + Sync>,
}

/// Where a lab's switch box listens, and what ends it.
pub(crate) struct SwitchBox {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}
