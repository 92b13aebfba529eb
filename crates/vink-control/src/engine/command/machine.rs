//! Machines, their sysctls and files.

use std::sync::Arc;

use vink_protocol::{Action, NewMachine};
use vink_spec::{inside, FileChange, FileSpec, MachineChange, MachineSpec, SysctlChange};

use super::{Commands, WorkerCmd};
use crate::engine::lab::{Lab, State};
use crate::http_error::HttpError;

impl Commands for MachineChange {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        Ok(match self {
            MachineChange::Remove { machine, .. } => {
                let worker = state.worker_for_machine(machine)?;
                state.forget_programs(machine);
                state.unplace(machine);
                let machine = machine.clone();
                vec![WorkerCmd::new(worker, Action::RemoveMachine { machine })]
            }
            MachineChange::Forward { machine, forward } => {
                let worker = state.worker_for_machine(machine)?;
                let (machine, forward) = (machine.clone(), *forward);
                vec![WorkerCmd::new(worker, Action::Forward { machine, forward })]
            }
            MachineChange::Add { .. } | MachineChange::Setup { .. } => {
                unreachable!("it may have to wait for workers")
            }
        })
    }
}

impl Commands for SysctlChange {
    fn commands(&self, _lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        let worker = state.worker_for_machine(&self.machine)?;
        let set = self.new.as_ref().map(|value| {
            let action = Action::Sysctl {
                machine: self.machine.clone(),
                name: self.name.clone(),
                value: value.to_string(),
            };
            WorkerCmd::new(worker, action)
        });
        // The kernel does not report defaults: the value stays until the machine is made again.
        Ok(set.into_iter().collect())
    }
}

impl Commands for FileChange {
    fn commands(&self, lab: &Lab, state: &mut State) -> Result<Vec<WorkerCmd>, HttpError> {
        let machine = self.machine.clone();
        let worker = state.worker_for_machine(&machine)?;
        let spec = state.spec.machines.get(&machine);
        let mut spec = spec.cloned().unwrap_or_default();
        match &self.new {
            Some(file) => spec.files.insert(self.path.clone(), file.clone()),
            None => spec.files.shift_remove(&self.path),
        };
        let files = lab.files(&machine, &spec)?;
        let action = Action::Files { machine, files };
        Ok(vec![WorkerCmd::new(worker, action)])
    }
}

impl Lab {
    /// A new machine, with its interfaces and routes, on its worker.
    pub(super) async fn new_machine_commands(
        self: &Arc<Lab>,
        machine: &str,
        spec: &MachineSpec,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let worker = self.worker_for(spec).await?;
        let wires = spec.interfaces.values();
        self.prepare_wires(worker, wires.filter_map(|it| it.wire.as_deref()))
            .await?;
        let files = self.files(machine, spec)?;
        let root = match &spec.root {
            Some(root) => Some(
                inside(&self.folder, root)
                    .map_err(|error| HttpError::invalid(format!("root of {machine}: {error}")))?,
            ),
            None => None,
        };
        let new = NewMachine {
            machine: machine.to_owned(),
            forward: spec.forward,
            rights: spec.rights,
            // The control process's folder; that of this lab is below it.
            hidden: self
                .runtime
                .ancestors()
                .nth(2)
                .filter(|_| spec.host.is_none())
                .map(|folder| folder.display().to_string()),
            files,
            root: root.map(|root| root.display().to_string()),
            sysctls: spec
                .sysctls
                .iter()
                .map(|(name, value)| (name.clone(), value.to_string()))
                .collect(),
        };
        let mut state = self.state();
        let commands = state.add_machine(&self.label, spec, new, worker)?;
        if state.worker_of.insert(machine.to_owned(), worker).is_none() {
            state.workers[worker].machines += 1;
        }
        Ok(commands)
    }

    /// The texts of a machine's files.
    pub(super) fn files(
        &self,
        machine: &str,
        spec: &MachineSpec,
    ) -> Result<Vec<(String, String)>, HttpError> {
        let mut files = Vec::with_capacity(spec.files.len());
        for (path, file) in &spec.files {
            files.push((
                path.clone(),
                self.text_of(&format!("file {path} of {machine}"), file)?,
            ));
        }
        Ok(files)
    }

    /// The text itself, or that of the file that it is from; `of` what it is, for messages.
    pub(in crate::engine) fn text_of(
        &self,
        of: &str,
        file: &FileSpec,
    ) -> Result<String, HttpError> {
        match file {
            FileSpec::Text(text) => Ok(text.clone()),
            FileSpec::From { from } => {
                let source = inside(&self.folder, from)
                    .map_err(|error| HttpError::invalid(format!("{of}: {error}")))?;
                vink_spec::read_text_file(&source, vink_spec::LARGEST_FILE).map_err(|error| {
                    HttpError::invalid(format!("{of}: {}: {error}", source.display()))
                })
            }
        }
    }
}

impl State {
    /// Forgets the worker of a machine.
    pub(in crate::engine) fn unplace(&mut self, machine: &str) {
        if let Some(worker) = self.worker_of.remove(machine) {
            self.workers[worker].machines -= 1;
        }
        let is_its = |end: &str| end.split_once(':').is_some_and(|(it, _)| it == machine);
        for placement in self.wires.values_mut() {
            placement.ends.retain(|end, _| !is_its(end));
        }
    }

    pub(super) fn add_machine(
        &mut self,
        lab: &str,
        spec: &MachineSpec,
        new: NewMachine,
        worker: usize,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let name = new.machine.clone();
        let machine = name.as_str();
        let mut before = Vec::new();
        let mut actions = vec![Action::Machine(new)];
        let mut after = Vec::new();
        for (name, interface) in &spec.interfaces {
            if let Some(wire) = &interface.wire {
                let end = format!("{machine}:{name}");
                before.extend(self.ensure_wire(wire, worker, Some(end))?);
            }
            actions.push(self.attach(lab, machine, name, interface)?);
            if let Some(wire) = &interface.wire {
                after.extend(self.end_settings(wire, worker, &format!("{machine}:{name}")));
            }
        }
        for route in &spec.routes {
            actions.push(super::interface::route(machine, route, false)?);
        }
        before.push(WorkerCmd {
            undo: Some(Action::RemoveMachine {
                machine: machine.to_owned(),
            }),
            ..WorkerCmd::new(worker, Action::All(actions))
        });
        before.extend(after);
        Ok(before)
    }
}
