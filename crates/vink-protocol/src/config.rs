//! What a worker is started with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vink_spec::Calls;

/// The first message to a worker, which boots its kernel by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerConfig {
    /// The image's path.
    pub image: PathBuf,
    /// The processors on which it stays, with all that it starts; empty: any.
    pub cpus: Vec<u32>,
    /// The kernel's memory in bytes.
    pub memory: u64,
    /// Kernel parameters added to the image's own.
    pub cmdline: String,
    /// The seed of all random numbers; `None`: other ones each time.
    pub seed: Option<u64>,
    /// How programs make their calls.
    pub calls: Calls,
    /// The kernel's clock.
    pub clock: WorkerClock,
}

/// The clock of a worker's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerClock {
    /// The host's.
    Real,
    /// A virtual clock, which is paused until [`Action::RunUntil`](crate::Action::RunUntil).
    Virtual {
        /// The time that a system call of a program takes, in ns.
        call: u64,
        /// The processor's time stamp counter shows this clock, too.
        rdtsc: bool,
    },
}
