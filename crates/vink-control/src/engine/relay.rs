//! Relays of a lab: a relay is a virtualized process of its machine, which the lab file may say in
//! words of its own.

use std::sync::Arc;

use vink_api::{NewRelay, ProgramState, Relay};
use vink_spec::{Change, ProgramChange, RelayProtocol, RelaySpec};

use super::lab::Lab;
use super::status::name_is_good;
use crate::http_error::HttpError;

/// How a relay passes things on.
fn way(relay: &RelaySpec) -> &'static str {
    match (&relay.path, relay.protocol) {
        (Some(_), _) => "copy: through the pods of its path",
        (None, RelayProtocol::Tcp) => "splice: by reference, through a pipe of the stack's",
        (None, RelayProtocol::Udp) => "copy: a socket for each client",
    }
}

impl Lab {
    /// What is known of relays without asking their workers: machine, name and what each is.
    fn known_relays(&self) -> Vec<(String, String, RelaySpec)> {
        let state = self.state();
        let mut known = Vec::new();
        for (machine, spec) in &state.spec.machines {
            for (name, program) in &spec.programs {
                if let Some(relay) = RelaySpec::of(program) {
                    known.push((machine.clone(), name.clone(), relay));
                }
            }
        }
        known
    }

    /// All relays.
    pub(crate) async fn relays(self: &Arc<Lab>) -> Vec<Relay> {
        let mut relays = Vec::new();
        for (machine, name, spec) in self.known_relays() {
            relays.push(self.described_relay(machine, name, spec).await);
        }
        relays
    }

    /// A relay by its name, as `machine.name`.
    pub(crate) async fn relay(self: &Arc<Lab>, which: &str) -> Result<Relay, HttpError> {
        let (machine, name, spec) = self.known_relay(which)?;
        Ok(self.described_relay(machine, name, spec).await)
    }

    fn known_relay(&self, which: &str) -> Result<(String, String, RelaySpec), HttpError> {
        let known = self.known_relays();
        let full = |(machine, name, _): &(String, String, RelaySpec)| format!("{machine}.{name}");
        if let Some(found) = known.iter().find(|it| full(it) == which) {
            return Ok(found.clone());
        }
        let names: Vec<String> = known.iter().map(full).collect();
        let there = names.iter().map(String::as_str);
        Err(HttpError::no("relay", which, there, "in the lab"))
    }

    async fn described_relay(
        self: &Arc<Lab>,
        machine: String,
        name: String,
        spec: RelaySpec,
    ) -> Relay {
        let id = self
            .state()
            .named
            .get(&(machine.clone(), name.clone()))
            .copied();
        let program = id.and_then(|id| self.described(id).ok());
        let report = match id {
            // One that has not begun has none.
            Some(id) => self
                .report(id)
                .await
                .ok()
                .filter(|report| !report.is_null()),
            None => None,
        };
        Relay {
            machine,
            name,
            way: way(&spec).to_owned(),
            spec,
            state: program.as_ref().map_or(ProgramState::Ended, |it| it.state),
            error: program.and_then(|program| program.error),
            report,
        }
    }

    /// Adds a relay to a machine; answers when it listens.
    pub(crate) async fn new_relay(
        self: &Arc<Lab>,
        machine: &str,
        new: NewRelay,
    ) -> Result<Relay, HttpError> {
        let NewRelay { name, spec } = new;
        name_is_good("relay", &name)?;
        if spec.port().is_none() {
            return Err(HttpError::invalid(format!(
                "relay {machine}.{name}: {:?} is no address and port to listen on: write it like 10.0.0.1:80, \
                 [fd00::1]:80, or 80 for all addresses",
                spec.listen
            )));
        }
        if spec.target().is_none() {
            return Err(HttpError::invalid(format!(
                "relay {machine}.{name}: {:?} is no host and port to go to: write it like 10.0.1.2:80 or server:80",
                spec.to
            )));
        }
        let add = Change::Program(ProgramChange::Add {
            machine: machine.to_owned(),
            program: name.clone(),
            spec: spec.program(),
        });
        let remove = Change::Program(ProgramChange::Remove {
            machine: machine.to_owned(),
            program: name.clone(),
        });
        let _one = self.changing.lock().await;
        {
            let state = self.state();
            let Some(known) = state.spec.machines.get(machine) else {
                let names = state.spec.machines.keys().map(String::as_str);
                return Err(HttpError::no("machine", machine, names, "in the lab"));
            };
            if known.programs.contains_key(&name) {
                return Err(HttpError::conflict(format!(
                    "{machine}.{name} is in lab {} already: `vink relay rm {machine}.{name}` removes a relay",
                    self.name
                )));
            }
        }
        let added = self.reconcile(vec![add], true).await;
        if let Err(fault) = added {
            // It does not listen, and is not kept.
            self.reconcile(vec![remove], true).await?;
            return Err(fault);
        }
        Ok(self.described_relay(machine.to_owned(), name, spec).await)
    }

    /// Ends a relay and its connections; what it has counted.
    pub(crate) async fn remove_relay(self: &Arc<Lab>, which: &str) -> Result<Relay, HttpError> {
        let _one = self.changing.lock().await;
        let last = self.relay(which).await?;
        let step = Change::Program(ProgramChange::Remove {
            machine: last.machine.clone(),
            program: last.name.clone(),
        });
        self.reconcile(vec![step], true).await?;
        Ok(Relay {
            state: ProgramState::Ended,
            ..last
        })
    }
}
