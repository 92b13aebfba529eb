//! Reconciles a lab with its specification, one step after the other.
//!
//! A step becomes requests to workers. Many steps of a kind are in flight at once: workers answer
//! in order, and a step is committed to the lab's state when its answers have come. So the state
//! says what runs even if a step fails.

use std::collections::VecDeque;
use std::sync::Arc;

use vink_api::Happening;
use vink_protocol::{Action, Answer};
use vink_spec::{
    Change, FilterChange, InterfaceChange, MachineChange, ProgramChange, SwitchChange,
    UplinkChange, WireChange,
};

use super::command::WorkerCmd;
use super::lab::{api_change, Lab};
use super::worker_client::PendingAnswer;
use crate::http_error::HttpError;

/// Steps in flight at once.
const MAX_IN_FLIGHT: usize = 128;
/// The most steps that an error names.
const MAX_NAMED_STEPS: usize = 100;

/// A step in flight.
struct InFlightStep {
    at: usize,
    commands: Vec<(usize, PendingAnswer, Option<Action>, bool)>,
}

impl Lab {
    /// Carries out these steps in order, up to the first that fails; with `commit`, the lab's state
    /// follows.
    pub(crate) async fn reconcile(
        self: &Arc<Lab>,
        steps: Vec<Change>,
        commit: bool,
    ) -> Result<(), HttpError> {
        let mut done = 0;
        let steps = self.with_filters(steps);
        // Before the actor's turn: the lab's clock runs meanwhile.
        let prepared = match self.connect_hosts(&steps).await {
            Ok(()) => self.compile_filters(&steps).await,
            Err(fault) => Err(fault),
        };
        let carried = match prepared {
            Ok(()) => {
                self.as_actor(Box::pin(self.steps(&steps, commit, &mut done)))
                    .await
            }
            Err(fault) => Err((0, fault)),
        };
        if done > 0 {
            for worker in &mut self.state().workers {
                worker.knows_hosts = false;
            }
        }
        let unused = self.state().unused_workers();
        for number in unused {
            self.retire(number).await?;
        }
        carried.map_err(|(at, mut fault)| {
            let name = |steps: &[Change]| {
                let mut names: Vec<String> = steps
                    .iter()
                    .take(MAX_NAMED_STEPS)
                    .map(Change::to_string)
                    .collect();
                if steps.len() > MAX_NAMED_STEPS {
                    names.push(format!("and {} more", steps.len() - MAX_NAMED_STEPS));
                }
                names
            };
            fault.problem.done = name(&steps[..at]);
            fault.problem.not_done = name(&steps[at..]);
            fault
        })
    }

    /// The error comes with the index of the step that failed.
    async fn steps(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
        done: &mut usize,
    ) -> Result<(), (usize, HttpError)> {
        let mut window: VecDeque<InFlightStep> = VecDeque::new();
        let mut at = 0;
        let mut failed: Option<(usize, HttpError)> = None;
        while at < steps.len() && failed.is_none() {
            if *self.ending.borrow() {
                failed = Some((
                    at,
                    HttpError::conflict(format!("lab {} is being taken down", self.name)),
                ));
                break;
            }
            let exclusive = matches!(
                steps[at],
                Change::Options(_)
                    | Change::Machine(MachineChange::Setup { .. })
                    | Change::Filter(_)
                    | Change::Switch(_)
                    | Change::Program(_)
                    | Change::Events(_)
            );
            // A step needs the commits of steps of other kinds: a machine those of its wires.
            let other = window
                .back()
                .is_some_and(|step_in_flight| !steps[step_in_flight.at].is_like(&steps[at]));
            let left = match exclusive || other {
                true => 0,
                false => MAX_IN_FLIGHT / 2,
            };
            if left == 0 || window.len() >= MAX_IN_FLIGHT {
                while window.len() > left && failed.is_none() {
                    let step_in_flight = window.pop_front().expect("not empty");
                    failed = self
                        .finish_step(steps, step_in_flight, commit, done)
                        .await
                        .err();
                }
                if failed.is_some() {
                    break;
                }
            }
            if exclusive {
                // The lab's clock may go on meanwhile.
                self.note_changes().await;
                match self.exclusive(&steps[at..], commit).await {
                    Ok(count) => {
                        at += count;
                        *done = at;
                    }
                    Err((after, fault)) => failed = Some((at + after, fault)),
                }
                continue;
            }
            match self.command(&steps[at]).await {
                Ok(commands) => {
                    window.push_back(self.send(at, commands));
                    at += 1;
                }
                Err(fault) => failed = Some((at, fault)),
            }
        }
        // Steps in flight are carried out even if an earlier one has failed.
        while let Some(step_in_flight) = window.pop_front() {
            if let Err(error) = self.finish_step(steps, step_in_flight, commit, done).await {
                failed.get_or_insert(error);
            }
        }
        self.note_changes().await;
        match failed {
            Some((at, fault)) => Err((at, fault.during(&steps[at].to_string()))),
            None => Ok(()),
        }
    }

    fn send(&self, at: usize, commands: Vec<WorkerCmd>) -> InFlightStep {
        let state = self.state();
        let commands = commands
            .into_iter()
            .filter_map(|command| {
                // `None`: the worker has died, and its machines are known to be dead.
                let client = state.workers[command.worker].client.as_ref()?;
                let asked = client.ask(command.action, command.descriptors);
                Some((command.worker, asked, command.undo, command.lenient))
            })
            .collect();
        InFlightStep { at, commands }
    }

    /// Waits for a step's answers, and commits it.
    async fn finish_step(
        self: &Arc<Lab>,
        steps: &[Change],
        step_in_flight: InFlightStep,
        commit: bool,
        done: &mut usize,
    ) -> Result<(), (usize, HttpError)> {
        let step = &steps[step_in_flight.at];
        let mut failed = None;
        for (worker, asked, undo, lenient) in step_in_flight.commands {
            match self.read(asked.answer().await) {
                Err(fault) if !lenient => {
                    if let Some(undo) = undo {
                        // It was done in part, or not at all.
                        let _ = self.have(worker, undo, Vec::new()).await;
                    }
                    failed.get_or_insert(fault);
                }
                Ok(Answer::Route { .. }) | Ok(_) | Err(_) => {}
            }
        }
        if let Some(fault) = failed {
            match step {
                Change::Machine(MachineChange::Add { machine, .. }) => {
                    self.state().unplace(machine)
                }
                Change::Interface(InterfaceChange::Add {
                    machine, interface, ..
                }) => self.state().detach(machine, interface),
                _ => {}
            }
            if let Change::Uplink(UplinkChange::Add { wire, .. }) = step {
                self.end_driver(wire).await;
            }
            return Err((step_in_flight.at, fault));
        }
        self.commit(step, commit);
        *done += 1;
        let (at, total) = (step_in_flight.at + 1, steps.len());
        if at % 64 == 0 || at == total {
            self.tell(Happening::Progress {
                step: api_change(step).object,
                done: at,
                total,
            });
        }
        Ok(())
    }

    /// Applies a step to the lab's state, and sends its events.
    pub(super) fn commit(&self, step: &Change, commit: bool) {
        if let Change::Machine(MachineChange::Remove { machine, again }) = step {
            let mut state = self.state();
            match again {
                Some(_) => state.rulesets.lost(|lost| lost == machine),
                None => state.rulesets.forget(machine),
            }
        }
        if !commit {
            return;
        }
        let revision = {
            let mut state = self.state();
            step.apply(&mut state.spec);
            state.record_step(step);
            state.revision += 1;
            state.revision
        };
        self.changes.send_replace(revision);
        self.tell(Happening::Changed {
            change: api_change(step),
            revision,
        });
        match step {
            Change::Wire(WireChange::Set { wire, new, .. }) => self.tell(Happening::Wire {
                wire: wire.clone(),
                from: None,
                settings: new.settings.clone(),
                up: new.up != Some(false),
            }),
            Change::Wire(WireChange::Plug { wire, up }) => {
                let settings = {
                    let state = self.state();
                    let wire = state.spec.wires.get(wire);
                    wire.map(|wire| wire.settings.clone()).unwrap_or_default()
                };
                self.tell(Happening::Wire {
                    wire: wire.clone(),
                    from: None,
                    settings,
                    up: *up,
                });
            }
            _ => {}
        }
    }

    /// Steps that cannot be in flight with others: returns how many were committed, or which
    /// failed.
    async fn exclusive(
        self: &Arc<Lab>,
        steps: &[Change],
        commit: bool,
    ) -> Result<usize, (usize, HttpError)> {
        match &steps[0] {
            Change::Machine(MachineChange::Setup { .. }) => {
                let count = steps
                    .iter()
                    .take_while(|step| matches!(step, Change::Machine(MachineChange::Setup { .. })))
                    .count();
                self.run_setup(&steps[..count], commit).await?;
                Ok(count)
            }
            Change::Filter(FilterChange { place, new, .. }) => {
                let done = self.carry_out_filter(place, new.as_ref()).await;
                done.map_err(|fault| (0, fault))?;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            Change::Program(ProgramChange::Add { .. })
            | Change::Program(ProgramChange::Restart { .. }) => {
                let is_program = |step: &&Change| {
                    matches!(
                        step,
                        Change::Program(ProgramChange::Add { .. })
                            | Change::Program(ProgramChange::Restart { .. })
                    )
                };
                let count = steps.iter().take_while(is_program).count();
                for step in &steps[..count] {
                    self.commit(step, commit);
                }
                self.start_named(&steps[..count]).await?;
                Ok(count)
            }
            Change::Program(ProgramChange::Remove { machine, program }) => {
                self.remove_named(machine, program).await;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            Change::Switch(SwitchChange {
                switch, old, new, ..
            }) => {
                self.set_switch(switch, old.as_ref(), new)
                    .await
                    .map_err(|fault| (0, fault))?;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            Change::Options(options) => {
                let others = {
                    let state = self.state();
                    options.memory != state.spec.memory
                        || options.calls != state.spec.calls
                        || options.seed != state.spec.seed
                        || options.time != state.spec.time
                };
                if others {
                    // Their machines are removed by now, and are made again on new workers.
                    let count = self.state().workers.len();
                    for number in 0..count {
                        self.retire(number).await.map_err(|fault| (0, fault))?;
                    }
                }
                self.leave_hosts(&options.hosts)
                    .await
                    .map_err(|fault| (0, fault))?;
                self.commit(&steps[0], commit);
                Ok(1)
            }
            step => {
                self.commit(step, commit);
                self.start_timed();
                Ok(1)
            }
        }
    }
}
