//! Set-up lines of new machines.

use std::sync::Arc;

use vink_api::Happening;
use vink_spec::{Change, MachineChange};

use super::lab::Lab;
use crate::http_error::HttpError;

/// Machines whose set-up lines run at once.
const MAX_PARALLEL_SETUPS: usize = 8;

impl Lab {
    /// Runs the set-up lines of several machines at once.
    pub(super) async fn run_setup(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
    ) -> Result<(), (usize, HttpError)> {
        if self.state().clock.is_virtual {
            return self.run_setup_in_order(steps, commit).await;
        }
        let mut running = tokio::task::JoinSet::new();
        let mut failed: Option<(usize, HttpError)> = None;
        let mut done = 0;
        let mut next = steps.iter().enumerate();
        loop {
            while running.len() < MAX_PARALLEL_SETUPS && failed.is_none() {
                let Some((at, Change::Machine(MachineChange::Setup { machine, lines }))) =
                    next.next()
                else {
                    break;
                };
                let (lab, machine, lines) = (self.clone(), machine.clone(), lines.clone());
                running.spawn(async move {
                    for line in &lines {
                        let ran = lab.set_up_line(&machine, line).await;
                        ran.map_err(|fault| (at, fault))?;
                    }
                    Ok(at)
                });
            }
            match running.join_next().await {
                None => break,
                Some(Ok(Ok(at))) => {
                    self.commit(&steps[at], commit);
                    done += 1;
                    self.tell(Happening::Progress {
                        step: "setup".to_owned(),
                        done,
                        total: steps.len(),
                    });
                }
                Some(Ok(Err(error))) => {
                    failed.get_or_insert(error);
                }
                Some(Err(error)) => {
                    failed.get_or_insert((0, HttpError::invalid(error.to_string())));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Runs them one after the other, for a lab with a clock of its own.
    async fn run_setup_in_order(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
    ) -> Result<(), (usize, HttpError)> {
        for (at, step) in steps.iter().enumerate() {
            if let Change::Machine(MachineChange::Setup { machine, lines }) = step {
                for line in lines {
                    let ran = self.set_up_line(machine, line).await;
                    ran.map_err(|fault| (at, fault))?;
                }
            }
            self.commit(step, commit);
            self.tell(Happening::Progress {
                step: "setup".to_owned(),
                done: at + 1,
                total: steps.len(),
            });
        }
        Ok(())
    }
}
