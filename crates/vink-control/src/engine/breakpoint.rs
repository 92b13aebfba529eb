//! Breakpoints: set in every worker of a lab, counted together, and their lines carried out.

use std::sync::Arc;

use vink_api::{Breakpoint, Breakpoints, Happening, NewBreakpoint, PacketVerdict};
use vink_protocol::{Action, Answer, BreakpointScope, Hit, PacketDecision};
use vink_spec::{Change, Lab as Spec, NamedChange, Stop};

use super::lab::{Lab, State};
use super::status::name_is_good;
use crate::http_error::HttpError;

impl State {
    /// What a worker is told of a breakpoint.
    pub(crate) fn breakpoint(&self, name: &str, spec: &vink_spec::Breakpoint) -> Action {
        Action::Breakpoint {
            breakpoint: name.to_owned(),
            scope: scope_of(&self.spec, spec.at.as_deref()),
            what: spec.clone(),
            filter: spec
                .filter
                .as_ref()
                .and_then(|text| self.filters.get(text).cloned()),
        }
    }

    /// The workers that run.
    pub(crate) fn alive(&self) -> Vec<usize> {
        let all = self.workers.iter().enumerate();
        all.filter(|(_, worker)| worker.client.is_some())
            .map(|(number, _)| number)
            .collect()
    }
}

/// The scope that `at` names in a lab.
fn scope_of(spec: &Spec, at: Option<&str>) -> BreakpointScope {
    match at {
        None => BreakpointScope::Everywhere,
        Some(at) if at.contains(':') => BreakpointScope::Interface(at.to_owned()),
        Some(at) if spec.machines.contains_key(at) => BreakpointScope::Machine(at.to_owned()),
        Some(at) => BreakpointScope::Wire(at.to_owned()),
    }
}

/// Whether `at` names something of the lab.
fn is_there(spec: &Spec, at: &str) -> Result<(), HttpError> {
    let ends = spec.ends();
    let wire = spec.wires.contains_key(at) || ends.contains_key(at);
    let known = match at.split_once(':') {
        Some((machine, interface)) => {
            let machine = spec.machines.get(machine);
            machine.is_some_and(|machine| machine.interfaces.contains_key(interface))
        }
        None if wire && spec.machines.contains_key(at) => {
            return Err(HttpError::invalid(format!("{at} is a machine and a wire"))
                .hint("name interfaces: machine:interface")
                .at("/spec/at"))
        }
        None => wire || spec.machines.contains_key(at),
    };
    if known {
        return Ok(());
    }
    let machines = spec.machines.iter();
    let interfaces = machines.flat_map(|(machine, its)| {
        let names = its.interfaces.keys();
        let names = names.map(move |interface| format!("{machine}:{interface}"));
        names.chain([machine.clone()])
    });
    let names: Vec<String> = interfaces.chain(spec.wires.keys().cloned()).collect();
    let names = names.iter().map(String::as_str);
    Err(HttpError::no("interface, machine or wire", at, names, "in the lab").at("/spec/at"))
}

/// Two digits for each byte.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is written so; none: it is not.
fn of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

impl Lab {
    /// All breakpoints, with what they have counted.
    pub(crate) async fn breakpoints(self: &Arc<Lab>) -> Result<Breakpoints, HttpError> {
        let workers = self.state().alive();
        let mut found = Breakpoints::default();
        let mut counted = Vec::new();
        for worker in workers {
            match self.have(worker, Action::Breakpoints, Vec::new()).await? {
                Answer::Breakpoints {
                    all,
                    stopped,
                    machines,
                } => {
                    counted.extend(all);
                    found.stopped |= stopped;
                    found.machines.extend(machines);
                }
                other => return Err(HttpError::invalid(format!("the worker answered {other:?}"))),
            }
        }
        found.machines.sort();
        let state = self.state();
        for (name, spec) in &state.spec.breakpoints {
            let its = counted.iter().filter(|count| count.breakpoint == *name);
            found.breakpoints.push(Breakpoint {
                name: name.clone(),
                spec: spec.clone(),
                seen: its.clone().map(|count| count.seen).sum(),
                hits: its.map(|count| count.hits).sum(),
            });
        }
        Ok(found)
    }

    /// Sets a breakpoint.
    pub(crate) async fn new_breakpoint(
        self: &Arc<Lab>,
        new: NewBreakpoint,
    ) -> Result<Breakpoint, HttpError> {
        if let Some((key, why, fix)) = new.spec.mistake() {
            let fault = HttpError::invalid(why).hint(fix);
            return Err(fault.at(format!("/spec/{key}")));
        }
        let _one = self.changing.lock().await;
        let name = {
            let state = self.state();
            if let Some(at) = &new.spec.at {
                is_there(&state.spec, at)?;
            }
            let known = &state.spec.breakpoints;
            match &new.name {
                Some(name) => {
                    name_is_good("breakpoint", name)?;
                    if known.contains_key(name) {
                        return Err(HttpError::conflict(format!(
                            "breakpoint {name} is in lab {} already",
                            self.name
                        )));
                    }
                    name.clone()
                }
                None => {
                    let mut numbers = (1..).map(|number: u64| number.to_string());
                    let free = numbers.find(|number| !known.contains_key(number));
                    free.expect("numbers do not end")
                }
            }
        };
        let step = Change::Breakpoint(NamedChange::Add {
            name: name.clone(),
            spec: new.spec.clone(),
        });
        self.reconcile(vec![step], true).await?;
        Ok(Breakpoint {
            name,
            spec: new.spec,
            seen: 0,
            hits: 0,
        })
    }

    /// Removes a breakpoint.
    pub(crate) async fn remove_breakpoint(self: &Arc<Lab>, name: &str) -> Result<(), HttpError> {
        let _one = self.changing.lock().await;
        self.has_breakpoint(name)?;
        let breakpoint = name.to_owned();
        self.reconcile(
            vec![Change::Breakpoint(NamedChange::Remove { name: breakpoint })],
            true,
        )
        .await
    }

    /// Has a breakpoint do something, or nothing for a while. Its counters stay.
    pub(crate) async fn enable_breakpoint(
        self: &Arc<Lab>,
        name: &str,
        enabled: bool,
    ) -> Result<Breakpoint, HttpError> {
        {
            let _one = self.changing.lock().await;
            self.has_breakpoint(name)?;
            let workers = self.state().alive();
            for worker in workers {
                let breakpoint = name.to_owned();
                let action = Action::EnableBreakpoint {
                    breakpoint,
                    enabled,
                };
                self.have(worker, action, Vec::new()).await?;
            }
            if let Some(spec) = self.state().spec.breakpoints.get_mut(name) {
                spec.disabled = !enabled;
            }
        }
        let all = self.breakpoints().await?.breakpoints;
        let found = all.into_iter().find(|breakpoint| breakpoint.name == name);
        found.ok_or_else(|| HttpError::conflict(format!("breakpoint {name} was removed")))
    }

    fn has_breakpoint(&self, name: &str) -> Result<(), HttpError> {
        let state = self.state();
        let known = &state.spec.breakpoints;
        match known.contains_key(name) {
            true => Ok(()),
            false => {
                let names = known.keys().map(String::as_str);
                Err(HttpError::no("breakpoint", name, names, "in the lab"))
            }
        }
    }

    /// Says what becomes of the packet by which a breakpoint has stopped the lab.
    pub(crate) async fn decide_packet(
        self: &Arc<Lab>,
        name: &str,
        verdict: PacketVerdict,
    ) -> Result<(), HttpError> {
        let frame = match verdict.frame.as_deref().map(of_hex) {
            Some(None) => {
                let wanted = "give two hexadecimal digits for each byte";
                return Err(HttpError::invalid("frame: not hexadecimal")
                    .hint(wanted)
                    .at("/frame"));
            }
            Some(frame) => frame,
            None => None,
        };
        self.has_breakpoint(name)?;
        let workers = self.state().alive();
        let mut refused = None;
        // One of them has the packet.
        for worker in workers {
            let action = Action::DecidePacket {
                breakpoint: name.to_owned(),
                number: verdict.number,
                decision: PacketDecision {
                    drop: verdict.drop,
                    delay: verdict.delay.map_or(0, |delay| {
                        u64::try_from(delay.duration().as_nanos()).unwrap_or(u64::MAX)
                    }),
                    frame: frame.clone(),
                },
            };
            match self.have(worker, action, Vec::new()).await {
                Ok(_) => return Ok(()),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused
            .unwrap_or_else(|| HttpError::conflict(format!("lab {} has no worker", self.name))))
    }

    /// The lab goes on, if a breakpoint has stopped it.
    pub(crate) async fn resume(self: &Arc<Lab>) -> Result<(), HttpError> {
        let workers = self.state().alive();
        for worker in workers {
            self.have(worker, Action::Resume, Vec::new()).await?;
        }
        let mut state = self.state();
        state.clock.halted = false;
        state.schedule();
        Ok(())
    }

    /// All of the lab stops: workers but the one where it has.
    pub(super) fn stops(self: &Arc<Lab>, where_it_has: Option<usize>) {
        let workers = {
            let mut state = self.state();
            state.clock.halted = true;
            state.alive()
        };
        for worker in workers {
            if Some(worker) != where_it_has {
                // The answer says nothing; one that has died stands still.
                drop(self.ask(worker, Action::Stop, Vec::new()));
            }
        }
    }

    /// A machine that a breakpoint has stopped goes on.
    pub(crate) async fn resume_machine(self: &Arc<Lab>, machine: &str) -> Result<(), HttpError> {
        let worker = self.worker_for_machine(machine)?;
        let machine = Some(machine.to_owned());
        let action = Action::ResumeMachine { machine };
        self.have(worker, action, Vec::new()).await.map(drop)
    }

    /// A breakpoint was met: its line is carried out, and then the packet goes on.
    pub(crate) fn breakpoint_met(self: &Arc<Lab>, worker: usize, hit: Hit) {
        self.tell(Happening::Breakpoint {
            breakpoint: hit.breakpoint.clone(),
            number: hit.number,
            packet: super::lab::packet(hit.packet),
            stopped: hit.stopped,
            frame: hit.frame.as_deref().map(to_hex),
        });
        if hit.stopped == Some(Stop::All) {
            self.stops(Some(worker));
        }
        let Some(line) = hit.run else { return };
        let lab = self.clone();
        let breakpoint = hit.breakpoint;
        let carried_out = async move {
            lab.run_noted_line(&line).await;
            // A worker that has died has no packets.
            let _ = lab
                .have(worker, Action::BreakpointRan { breakpoint }, Vec::new())
                .await;
        };
        match self.new_actor() {
            Some(actor) => drop(tokio::spawn(actor.run(carried_out))),
            None => drop(tokio::spawn(carried_out)),
        }
    }
}
