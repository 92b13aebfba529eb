//! What the steps of a plan request of workers: each kind of object has a file.

mod interface;
mod machine;
mod named;
mod wire;

use std::sync::Arc;

use vink_protocol::Action;
use vink_spec::{Change, InterfaceChange, MachineChange, UplinkChange};

use crate::engine::lab::{Lab, State};
use crate::host::Descriptor;
use crate::http_error::HttpError;

pub(super) use wire::join;

/// A request for a worker.
pub(super) struct WorkerCmd {
    pub(super) worker: usize,
    pub(super) action: Action,
    pub(super) descriptors: Vec<Descriptor>,
    /// Undoes what was done of it if it fails.
    pub(super) undo: Option<Action>,
    /// It may fail: what it removes may be gone.
    pub(super) lenient: bool,
}

impl WorkerCmd {
    fn new(worker: usize, action: Action) -> WorkerCmd {
        WorkerCmd {
            worker,
            action,
            descriptors: Vec::new(),
            undo: None,
            lenient: false,
        }
    }

    /// The same for each of these workers.
    fn to_each(workers: impl IntoIterator<Item = usize>, action: &Action) -> Vec<WorkerCmd> {
        let workers = workers.into_iter();
        workers
            .map(|worker| WorkerCmd::new(worker, action.clone()))
            .collect()
    }
}

/// What a step of one kind requests.
trait Commands {
    /// The requests, in order.
    fn commands(&self, lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError>;
}

impl Lab {
    /// The requests that a step becomes.
    pub(super) async fn command(
        self: &Arc<Lab>,
        step: &Change,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        match step {
            Change::Machine(MachineChange::Add { machine, spec }) => {
                self.new_machine_commands(machine, spec).await
            }
            Change::Uplink(UplinkChange::Add { wire, uplink }) => {
                self.uplink_commands(wire, uplink).await
            }
            step => {
                match step {
                    Change::Uplink(UplinkChange::Remove { wire }) => self.end_driver(wire).await,
                    Change::Interface(InterfaceChange::Add { machine, spec, .. }) => {
                        let worker = self.worker_for_machine(machine)?;
                        self.prepare_wires(worker, spec.wire.as_deref().into_iter())
                            .await?;
                    }
                    _ => {}
                }
                let mut state = self.state();
                state.command(self, step)
            }
        }
    }
}

impl State {
    fn command(&mut self, lab: &Lab, step: &Change) -> Result<Vec<WorkerCmd>, HttpError> {
        match step {
            Change::Wire(step) => step.commands(lab, self),
            Change::Uplink(step) => step.commands(lab, self),
            Change::Machine(step) => step.commands(lab, self),
            Change::Interface(step) => step.commands(lab, self),
            Change::Routes(step) => step.commands(lab, self),
            Change::Sysctl(step) => step.commands(lab, self),
            Change::File(step) => step.commands(lab, self),
            Change::Breakpoint(step) => step.commands(lab, self),
            Change::Pod(step) => step.commands(lab, self),
            Change::Path(step) => step.commands(lab, self),
            Change::Series(step) => step.commands(lab, self),
            Change::Options(_)
            | Change::Filter(_)
            | Change::Switch(_)
            | Change::Program(_)
            | Change::Events(_) => unreachable!("{step} is not a step for workers"),
        }
    }
}
