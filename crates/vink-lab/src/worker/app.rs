//! Virtualized processes of a lab worker: apps that run inside it, under the numbers of programs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use vink_apps::{AppId, Apps, State};
use vink_kernel::MachineId;

use super::lab::{refused, About, Lab, WorkerError};
use crate::numbers::report_of;
use vink_protocol::{Answer, Event};

/// How long an app may take to stop when its machine is removed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Apps and their numbers.
#[derive(Default)]
pub(super) struct Fibers {
    pub(super) apps: Apps,
    running: HashMap<u64, AppId>,
    numbers: HashMap<AppId, (u64, MachineId)>,
    /// How much of its output each has been told of, in bytes.
    told: HashMap<AppId, u64>,
    /// The control process reads too slowly: apps keep the newest of their output until it does.
    pub(super) hold: bool,
}

impl Fibers {
    /// The report of the app of this name on a machine; of several, the newest's.
    pub(super) fn report(&self, machine: MachineId, name: &str) -> Option<serde_json::Value> {
        report_of(&self.apps, machine, name)
    }
}

impl Lab {
    pub(super) fn start_app(
        &mut self,
        machine: &str,
        words: &[String],
    ) -> Result<Answer, WorkerError> {
        let id = self.machine(machine)?.machine.id;
        let kernel = self.worker.kernel();
        let started = self.fibers.apps.start(kernel, id, words);
        let app = started.about(format!("machine {machine}"))?;
        self.last_program += 1;
        let number = self.last_program;
        self.journal_start(number, machine, words);
        self.fibers.running.insert(number, app);
        self.fibers.numbers.insert(app, (number, id));
        Ok(Answer::Program(number))
    }

    pub(super) fn stop_app(&mut self, number: u64, report: bool) -> Result<Answer, WorkerError> {
        let app = self.fibers.running.get(&number).copied().ok_or_else(|| {
            refused(format!(
                "program {number}: there is no such virtualized process (any more); `vink lab ps` lists them"
            ))
        })?;
        if !report {
            let kernel = self.worker.kernel();
            self.fibers.apps.stop(kernel, app)?;
        }
        let status = self.fibers.apps.status(app)?;
        Ok(Answer::Report(value(status.report)))
    }

    /// Whether it is an app's number.
    pub(super) fn is_app(&self, number: u64) -> bool {
        self.fibers.running.contains_key(&number)
    }

    /// What the lab's machines are called, as hosts(5), for apps that look names up.
    pub(super) fn name_machines(&mut self, hosts: &str) {
        let mut names: HashMap<&str, Vec<IpAddr>> = HashMap::new();
        for line in hosts.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
                continue;
            };
            for name in words {
                names.entry(name).or_default().push(address);
            }
        }
        let names = names.into_iter();
        let names = names.map(|(name, addresses)| (name.to_owned(), addresses));
        self.fibers.apps.names().replace(names);
    }

    /// Stops those of a machine and waits until they have ended.
    pub(super) fn end_apps(&mut self, machine: MachineId) -> Result<(), WorkerError> {
        let start = Instant::now();
        // Their last words may take time on the machine's clock, too.
        let horizon = self.worker.now() + STOP_TIMEOUT.as_nanos() as u64;
        self.worker.set_horizon(horizon);
        loop {
            self.look_after_apps()?;
            let mut left = self
                .fibers
                .numbers
                .values()
                .filter(|(_, on)| *on == machine);
            let Some((number, _)) = left.next() else {
                return Ok(());
            };
            if start.elapsed() > STOP_TIMEOUT {
                let seconds = STOP_TIMEOUT.as_secs();
                return Err(refused(format!(
                    "virtualized process {number} was told to stop, and has not for {seconds} s; \
                     it ends with the lab"
                )));
            }
            let kernel = self.worker.kernel();
            self.fibers.apps.stop_machine(kernel, machine)?;
            self.worker.step(Some(Duration::from_millis(1)))?;
        }
    }

    /// Tells what an app has written since that was last told.
    fn tell_output(&mut self, app: AppId) {
        let fibers = &mut self.fibers;
        let Some((program, _)) = fibers.numbers.get(&app) else {
            return;
        };
        let told = fibers.told.entry(app).or_default();
        if let Ok(output) = fibers.apps.output(app, *told) {
            *told = output.next;
            if !output.text.is_empty() {
                self.events.push(Event::Output {
                    program: *program,
                    text: output.text,
                });
            }
        }
    }

    /// Tells which have written something, and which have ended.
    pub(super) fn look_after_apps(&mut self) -> Result<(), WorkerError> {
        while !self.fibers.hold {
            let Some(app) = self.fibers.apps.next_written() else {
                break;
            };
            self.tell_output(app);
        }
        while let Some(app) = self.fibers.apps.next_ended() {
            self.tell_output(app);
            self.fibers.told.remove(&app);
            let status = self.fibers.apps.take(app)?;
            let Some((program, _)) = self.fibers.numbers.remove(&app) else {
                continue;
            };
            self.fibers.running.remove(&program);
            if let State::Ended {
                status: code,
                error,
            } = status.state
            {
                let report = status.report.map(|report| value(Some(report)));
                let time = self.advance_epoch();
                self.events.push(Event::Ended {
                    program,
                    code,
                    time,
                    error,
                    report,
                });
                self.events.push(Event::Gone { program });
            }
        }
        Ok(())
    }
}

/// A report as data; none is null.
fn value(report: Option<vink_apps::Report>) -> serde_json::Value {
    serde_json::to_value(report).expect("a report is plain data")
}

impl From<vink_apps::Error> for WorkerError {
    fn from(error: vink_apps::Error) -> WorkerError {
        match error {
            vink_apps::Error::Kernel(error) => error.into(),
            other => WorkerError::Refused(other.to_string()),
        }
    }
}
