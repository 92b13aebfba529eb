//! Programs of a lab worker: started, signalled, killed, and their ends told.

use vink_trap::{Program, ProgramId, Stdio};

use super::lab::{refused, About, Descriptors, Lab, WorkerError};
use crate::rights::credentials;
use vink_protocol::{Answer, Event, NewProgram};

/// A program of which some process is left.
pub(super) struct Running {
    program: ProgramId,
    machine: String,
    /// What it was started as.
    name: String,
    /// Its first process has ended, which was told.
    ended: bool,
}

impl Lab {
    pub(super) fn spawn(
        &mut self,
        new: NewProgram,
        descriptors: &mut Descriptors,
    ) -> Result<Answer, WorkerError> {
        let [stdin, stdout, stderr] = [(); 3].map(|()| descriptors.next().map(Stdio::Fd));
        let entry = self.machine(&new.machine)?;
        let rights = new.rights.unwrap_or(entry.rights);
        let machine = entry.machine.id;
        let [name, arguments @ ..] = &new.words[..] else {
            let machine = &new.machine;
            return Err(refused(format!("machine {machine}: no program is named")));
        };
        self.configure_namespaces(&new.machine)?;
        let mut program = Program::new(name)
            .args(arguments)
            .env_clear()
            .credentials(credentials(rights))
            .current_dir(&new.dir)
            .stdin(stdin.unwrap_or_default())
            .stdout(stdout.unwrap_or_default())
            .stderr(stderr.unwrap_or_default());
        for (key, value) in &new.env {
            program = program.env(key, value);
        }
        program = match new.terminal {
            true => program.terminal(),
            false => program.new_session(),
        };
        let path = new.env.iter().find(|(key, _)| key == "PATH");
        let path = path.map_or("".as_ref(), |(_, path)| path.as_ref());
        let (program, why) = self.calls.apply(program, path, new.dir.as_ref());
        if let Some(why) = why {
            tracing::debug!(target: "calls", "trapped: {why}");
        }
        let started = self.worker.spawn(machine, program);
        let program = started.about(format!("machine {}: starting {name}", new.machine))?;
        self.last_program += 1;
        let number = self.last_program;
        self.journal_start(number, &new.machine, &new.words);
        let running = Running {
            program,
            machine: new.machine,
            name: name.clone(),
            ended: false,
        };
        self.numbers.insert(program, number);
        self.programs.insert(number, running);
        Ok(Answer::Program(number))
    }

    pub(super) fn signal(&mut self, number: u64, signal: i32) -> Result<(), WorkerError> {
        if self.is_app(number) {
            return Err(refused(format!(
                "program {number} is a virtualized process, which has no signals: it can be stopped"
            )));
        }
        let program = self.program(number)?;
        let name = program.name.clone();
        let sent = self.worker.signal_group(program.program, signal);
        sent.about(format!("program {number} ({name}): signal {signal}"))
    }

    /// Returns when all of it is gone; but a virtualized process is only told to stop.
    pub(super) fn kill(&mut self, number: u64) -> Result<(), WorkerError> {
        if self.is_app(number) {
            return self.stop_app(number, false).map(drop);
        }
        let program = self.program(number)?.program;
        self.worker.kill(program)?;
        self.look_after_programs()
    }

    /// Those of which some process is left.
    pub(super) fn programs_on(&self, machine: &str) -> Vec<ProgramId> {
        let all = self.programs.values();
        let here = all.filter(|program| program.machine == machine);
        here.map(|program| program.program).collect()
    }

    fn program(&self, number: u64) -> Result<&Running, WorkerError> {
        self.programs.get(&number).ok_or_else(|| {
            refused(format!(
                "program {number}: there is no such program (any more); `vink lab ps` lists them"
            ))
        })
    }

    /// Tells whose first process has ended, and whose last one.
    pub(super) fn look_after_programs(&mut self) -> Result<(), WorkerError> {
        while let Some(program) = self.worker.next_changed() {
            let Some(&number) = self.numbers.get(&program) else {
                continue;
            };
            let Some(running) = self.programs.get_mut(&number) else {
                continue;
            };
            let (code, error) = match self.worker.status(program) {
                Ok(None) => continue,
                Ok(Some(status)) => (status.code(), None),
                Err(error @ vink_trap::Error::CannotRun { .. }) => {
                    (error.exit_status(), Some(error.to_string()))
                }
                Err(error) => return Err(error.into()),
            };
            if !std::mem::replace(&mut running.ended, true) {
                let time = self.advance_epoch();
                self.events.push(Event::Ended {
                    program: number,
                    code,
                    time,
                    error,
                    report: None,
                });
            }
            if !self.worker.is_alive(program) {
                self.worker.forget(program)?;
                self.programs.remove(&number);
                self.numbers.remove(&program);
                self.events.push(Event::Gone { program: number });
            }
        }
        Ok(())
    }
}
