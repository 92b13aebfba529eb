//! A wall, as its user sees it: it is crossed, or the pod behind it ends.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Batch;

/// What protects everything else from a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// An address space of its own, with an empty network and strict seccomp.
    Process,
    /// WebAssembly, compiled ahead of time.
    Wasm,
    /// Protection keys of the processor.
    Key,
    /// None: the pod is part of the worker. For measurements only.
    None,
}

/// What a pod may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of memory, its code's and stack's included.
    pub memory: u64,
    /// Time of one crossing. WebAssembly counts it as fuel in virtual time.
    pub time: Duration,
    /// Bytes that it may emit and log in one crossing.
    pub emit: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: 64 << 20,
            time: Duration::from_millis(100),
            emit: 4 << 20,
        }
    }
}

/// A pod behind its wall. When it is dropped, the pod and all that it had are gone.
pub trait Pod: Send {
    /// Crosses the wall, makes the calls of the batch in order, and comes back with the answers. A
    /// call of a function that the pod does not export is answered as if it did nothing: a packet
    /// passes, a unit is emitted on output 0.
    ///
    /// # Errors
    /// The pod has ended. The calls before [`Fault`]'s have their answers.
    fn cross(&mut self, batch: &mut Batch) -> Result<(), Fault>;

    /// The wall.
    fn wall(&self) -> Wall;

    /// Bytes of memory that it has now.
    fn memory(&self) -> u64;
}

/// Why a pod was ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A crossing took longer than its limit.
    #[error("took longer than {0:?} for one call")]
    Time(Duration),
    /// It wanted more memory than its limit.
    #[error("wanted more than {0} bytes of memory")]
    Memory(u64),
    /// It emitted or logged more than its limit.
    #[error("emitted more than {0} bytes in one call")]
    Emit(usize),
    /// A fault of its code: a bad address, a division by zero, `abort()`.
    #[error("{0}")]
    Code(String),
    /// It made a system call.
    #[error("made the system call {0}")]
    SystemCall(String),
    /// It called one of Vink's functions with what is not its own.
    #[error("gave {0} what is not its own memory")]
    Argument(&'static str),
    /// `pod_init()` or `pod_stream()` said that it can't go on.
    #[error("refused: {0} returned {1}")]
    Refused(&'static str, i32),
    /// It is not there any more, for this reason.
    #[error("{0}")]
    Ended(String),
    /// Its process is gone.
    #[error("lost its process: {0}")]
    Gone(String),
}

/// Why a pod can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is for another version of `pod.h`.
    #[error("{path}: the pod is for version {found} of vink/pod.h, and Vink has {expected}: compile it again")]
    Version {
        /// The pod's file.
        path: PathBuf,
        /// The pod's version.
        found: u32,
        /// Vink's.
        expected: u32,
    },
    /// The file is no pod, or there is none: what, and what to do.
    #[error("{path}: {why}")]
    File {
        /// The pod's file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// It was ended while it was initialised.
    #[error("{path}: the pod was ended in pod_init(): it {fault}")]
    Init {
        /// The pod's file.
        path: PathBuf,
        /// What it did.
        fault: Fault,
    },
    /// The host does not have what the wall needs.
    #[error("no {wall} wall here: {why}")]
    Host {
        /// The wall.
        wall: Wall,
        /// What is missing, and what to do.
        why: String,
    },
}

impl fmt::Display for Wall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Wall::Process => "process",
            Wall::Wasm => "wasm",
            Wall::Key => "key",
            Wall::None => "none",
        })
    }
}
