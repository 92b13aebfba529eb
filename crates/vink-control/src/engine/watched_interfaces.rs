//! Interfaces whose packets clients watch.

use std::collections::HashMap;
use std::sync::Arc;

use vink_protocol::Action;

use super::lab::Lab;
use crate::http_error::HttpError;

/// Each interface, and how many clients watch it.
#[derive(Default)]
pub(crate) struct WatchedInterfaces(HashMap<String, usize>);

impl Lab {
    /// The worker of an interface.
    pub(crate) fn worker_of_end(&self, end: &str) -> Result<usize, HttpError> {
        let (machine, interface) = end.split_once(':').ok_or_else(|| {
            HttpError::invalid(format!("{end:?} is not an interface")).hint("write it like m1:eth0")
        })?;
        let worker = self.worker_for_machine(machine)?;
        self.state().interface(machine, interface)?;
        Ok(worker)
    }

    /// A client begins or ends to watch these interfaces.
    pub(crate) async fn watch(
        self: &Arc<Lab>,
        ends: &[String],
        wanted: bool,
    ) -> Result<(), HttpError> {
        if wanted {
            for end in ends {
                self.worker_of_end(end)?;
            }
        }
        {
            let mut state = self.state();
            for end in ends {
                let count = state.watched.0.entry(end.clone()).or_default();
                match wanted {
                    true => *count += 1,
                    false => *count = count.saturating_sub(1),
                }
            }
            state.watched.0.retain(|_, count| *count > 0);
        }
        self.watch_again().await;
        Ok(())
    }

    /// Tells all workers which interfaces are watched.
    pub(crate) async fn watch_again(self: &Arc<Lab>) {
        let lists = {
            let state = self.state();
            let mut lists = vec![Vec::new(); state.workers.len()];
            for end in state.watched.0.keys() {
                let machine = end.split_once(':').map(|(machine, _)| machine);
                if let Some(worker) = machine.and_then(|machine| state.worker_of.get(machine)) {
                    lists[*worker].push(end.clone());
                }
            }
            lists
        };
        for (worker, interfaces) in lists.into_iter().enumerate() {
            // Fails for a worker that has died.
            let _ = self
                .have(worker, Action::Watch { interfaces }, Vec::new())
                .await;
        }
    }
}
