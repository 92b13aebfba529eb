//! Interfaces whose packets somebody wants to be told of.

use std::collections::HashMap;
use std::sync::Arc;

use vink_lab::worker::protocol::Action;

use super::lab::Lab;
use crate::fault::Fault;

/// How many want which.
#[derive(Default)]
pub(crate) struct Watched(HashMap<String, usize>);

impl Lab {
    /// The worker of an interface.
    pub(crate) fn end_place(&self, end: &str) -> Result<usize, Fault> {
        let (machine, interface) = end.split_once(':').ok_or_else(|| {
            Fault::invalid(format!("{end:?} is not an interface")).hint("write it like m1:eth0")
        })?;
        let worker = self.place(machine)?;
        self.state().interface(machine, interface)?;
        Ok(worker)
    }

    /// Somebody wants to be told of these interfaces' packets, or no longer.
    pub(crate) async fn watch(self: &Arc<Lab>, ends: &[String], wanted: bool) -> Result<(), Fault> {
        if wanted {
            for end in ends {
                self.end_place(end)?;
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
                if let Some(worker) = machine.and_then(|machine| state.places.get(machine)) {
                    lists[*worker].push(end.clone());
                }
            }
            lists
        };
        for (worker, interfaces) in lists.into_iter().enumerate() {
            // One that has died tells nothing anyway.
            let _ = self
                .have(worker, Action::Watch { interfaces }, Vec::new())
                .await;
        }
    }
}
