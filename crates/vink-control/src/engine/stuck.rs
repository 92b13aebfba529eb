//! Kernels that do not return, as a worker's watchdog tells of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use vink_api::Happening;
use vink_protocol::WatchdogReport;

use super::lab::Lab;

/// A worker whose kernel has not returned.
pub(crate) struct Stuck {
    since: Instant,
    /// So much of the processor's time when it was told, and where it was, innermost first.
    told: String,
}

impl Stuck {
    /// For how long, and where it was found.
    pub(crate) fn describe(&self) -> String {
        let secs = self.since.elapsed().as_secs_f64();
        format!("has not returned for {secs:.1} s; {}", self.told)
    }
}

impl Lab {
    /// Listens to a worker's watchdog until the worker has gone.
    pub(crate) async fn hear_watchdog(
        self: Arc<Lab>,
        (number, generation): (usize, u64),
        pid: u32,
        pipe: Receiver,
    ) {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match serde_json::from_str(&line) {
                Ok(report) => {
                    if !self.watchdog_told((number, generation), pid, report) {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "control", "a worker's watchdog: {error}");
                }
            }
        }
    }

    /// A worker's watchdog has told this; false: of an earlier process.
    pub(crate) fn watchdog_told(
        &self,
        (number, generation): (usize, u64),
        pid: u32,
        report: WatchdogReport,
    ) -> bool {
        let told = match report {
            WatchdogReport::Stuck {
                seconds,
                processor_seconds,
                backtrace,
            } => {
                let since = Instant::now() - Duration::from_secs_f64(seconds);
                let mut told =
                    format!("after {processor_seconds:.1} s of processor time it was at");
                for frame in backtrace {
                    told += "\n    ";
                    told += &frame;
                }
                Some(Stuck { since, told })
            }
            WatchdogReport::Returned { .. } => None,
        };
        let message = match &told {
            Some(stuck) => stuck.describe(),
            None => "has returned".to_owned(),
        };
        {
            let mut state = self.state();
            let worker = &mut state.workers[number];
            if worker.generation != generation {
                return false;
            }
            worker.stuck = told;
        }
        self.tell(Happening::Kernel {
            worker: number,
            pid,
            message,
        });
        true
    }
}
