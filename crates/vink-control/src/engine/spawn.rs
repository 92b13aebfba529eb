//! Starts programs: their environment, their input and output.

use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use vink_api::{Happening, NewProgram, Program};
use vink_protocol::{self as protocol, Action, Answer};
use vink_spec::{app_words, Rights};

use super::lab::{is_over, Lab};
use super::log::Log;
use super::program::{Phase, Task};
use super::terminal::Pipe;
use crate::http_error::HttpError;

/// The last bytes of a set-up line's output that are kept.
pub(super) const MAX_ERROR_BYTES: usize = 4096;

/// What is started.
pub(crate) struct Start {
    pub(crate) machine: String,
    pub(crate) words: Vec<String>,
    pub(crate) app: bool,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) dir: String,
    /// What it may do; none: what the machine's programs may.
    pub(crate) rights: Option<Rights>,
}

/// A program of the lab's own that is no longer waited for is ended when this is dropped.
struct Unfinished<'a>(Option<(&'a Arc<Lab>, u64)>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some((lab, id)) = self.0.take() {
            let lab = lab.clone();
            tokio::spawn(async move {
                // What can't be ended has ended, or its worker has.
                let _ = lab.end_program(id).await;
                lab.state().tasks.remove(&id);
            });
        }
    }
}

impl Lab {
    /// The environment of a program: the lab's, where it is, and its own on top.
    pub(crate) fn environment(
        &self,
        machine: &str,
        own: &IndexMap<String, String>,
        only: bool,
    ) -> Vec<(String, String)> {
        let mut all = match (only, self.link_of_machine(machine)) {
            (true, _) => IndexMap::new(),
            (false, Some(link)) => link.hello.env.iter().cloned().collect(),
            (false, None) => self.env.clone(),
        };
        all.extend(self.machine_variables(machine));
        all.extend(own.clone());
        all.into_iter().collect()
    }

    /// The working directory of a machine's program.
    pub(crate) fn directory(&self, machine: &str, dir: Option<&str>) -> String {
        let folder = match self.link_of_machine(machine) {
            Some(link) => PathBuf::from(&link.hello.folder),
            None => self.folder.clone(),
        };
        let dir = dir.map_or_else(|| folder.clone(), |dir| folder.join(dir));
        dir.display().to_string()
    }

    pub(crate) fn new_log(&self, id: u64) -> Log {
        Log::new(self.runtime.join(format!("{id}.log")))
    }

    /// Starts a program with these three descriptors, and notes that it runs.
    pub(crate) async fn start(
        self: &Arc<Lab>,
        id: u64,
        start: Start,
        terminal: bool,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), HttpError> {
        let worker = self.worker_for_machine(&start.machine)?;
        if start.words.is_empty() {
            return Err(HttpError::invalid("no program is named").at("/words"));
        }
        self.tell_hosts(worker)?;
        let action = match start.app {
            true => Action::App {
                machine: start.machine,
                words: app_words(&start.words, Path::new(&start.dir)),
            },
            false => Action::Spawn(protocol::NewProgram {
                machine: start.machine,
                words: start.words,
                env: start.env,
                dir: start.dir,
                terminal,
                rights: start.rights,
            }),
        };
        {
            let mut state = self.state();
            if let Some(task) = state.tasks.get_mut(&id) {
                task.began = Some(Instant::now());
                task.code = None;
                task.error = None;
                task.phase.send_replace(Phase::Starting);
            }
        }
        let number = match self.have(worker, action, descriptors).await? {
            Answer::Program(number) => number,
            other => return Err(HttpError::invalid(format!("the worker answered {other:?}"))),
        };
        let early = {
            let mut state = self.state();
            let state = &mut *state;
            // The next actor acts after the program is idle.
            state.clock.needs_quiesce = true;
            if let Some(task) = state.tasks.get_mut(&id) {
                task.run = Some((worker, number));
                self.tell(Happening::Started {
                    program: id,
                    machine: task.machine.clone(),
                    name: task.name.clone(),
                });
            }
            state.running.insert((worker, number), id);
            state.early.remove(&(worker, number))
        };
        for event in early.into_iter().flatten() {
            self.program_told(worker, number, event);
        }
        Ok(())
    }

    /// Starts a program whose output goes to a log.
    pub(crate) async fn start_logged(
        self: &Arc<Lab>,
        id: u64,
        start: Start,
        log: Option<Arc<Log>>,
    ) -> Result<(), HttpError> {
        if start.app {
            if let Some(log) = log {
                log.end(false);
            }
            return self.start(id, start, false, Vec::new()).await;
        }
        let (output, descriptors) =
            output_only(b"").map_err(|error| HttpError::host("pipe", error))?;
        let output = Arc::new(output);
        if let Some(log) = &log {
            log.come_from(output.clone());
        }
        self.start(id, start, false, descriptors).await?;
        let (Some(log), Some(mut phase)) = (log, self.phase(id)) else {
            return Ok(());
        };
        log.end(false);
        tokio::spawn(async move {
            let mut over = false;
            loop {
                let read = tokio::select! {
                    biased;
                    read = output.read_by(|| log.fetch()) => read,
                    _ = phase.wait_for(is_over), if !over => {
                        // What it has written is there; its children may write more.
                        over = true;
                        match log.fetch() {
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                                log.end(true);
                                continue;
                            }
                            read => read,
                        }
                    }
                };
                match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) if over => log.end(true),
                    Ok(_) => {}
                }
            }
            log.end(true);
        });
        Ok(())
    }

    /// Runs a shell's line on a machine, with these rights or those of its programs: its status,
    /// and the last that it wrote.
    pub(crate) async fn shell(
        self: &Arc<Lab>,
        machine: &str,
        line: &str,
        rights: Option<Rights>,
    ) -> Result<(i32, Vec<u8>), HttpError> {
        let words = ["sh", "-c", line].map(str::to_owned).to_vec();
        self.run_own(machine, words, rights, b"", MAX_ERROR_BYTES)
            .await
    }

    /// Runs a program of the lab's own on a machine, with these rights or those of its programs, and
    /// with this input: its status, and the last bytes that it wrote.
    pub(crate) async fn run_own(
        self: &Arc<Lab>,
        machine: &str,
        words: Vec<String>,
        rights: Option<Rights>,
        input: &[u8],
        most: usize,
    ) -> Result<(i32, Vec<u8>), HttpError> {
        let (output, descriptors) =
            output_only(input).map_err(|error| HttpError::host("pipe", error))?;
        let (id, mut phase) = {
            let mut state = self.state();
            let id = state.number();
            let mut task = Task::new(machine, words.clone());
            task.own = true;
            let phase = task.phase.subscribe();
            state.tasks.insert(id, task);
            (id, phase)
        };
        let mut unfinished = Unfinished(Some((self, id)));
        let start = Start {
            machine: machine.to_owned(),
            words,
            app: false,
            env: self.environment(machine, &IndexMap::new(), false),
            dir: self.directory(machine, None),
            rights,
        };
        let started = self.start(id, start, false, descriptors).await;
        if let Err(fault) = started {
            unfinished.0 = None;
            self.state().tasks.remove(&id);
            return Err(fault);
        }
        self.ready(id);
        let mut resting = phase.clone();
        let mut text = Vec::new();
        let mut buffer = vec![0; 1 << 12];
        let mut keep = |bytes: &[u8]| {
            text.extend(bytes);
            text.drain(..text.len().saturating_sub(most));
        };
        let reading = async {
            loop {
                tokio::select! {
                    biased;
                    read = output.read(&mut buffer) => match read {
                        Ok(0) | Err(_) => break,
                        Ok(count) => keep(&buffer[..count]),
                    },
                    _ = phase.wait_for(is_over) => {
                        while let Ok(count @ 1..) = output.read_now(&mut buffer) {
                            keep(&buffer[..count]);
                        }
                        break;
                    }
                }
            }
        };
        let ((), over) = tokio::join!(reading, self.let_reach(&mut resting, is_over));
        unfinished.0 = None;
        let task = self.state().tasks.remove(&id);
        match over {
            Some(Phase::Ended { code, .. }) => {
                let error = task.and_then(|task| task.error);
                match error {
                    Some(error) => Err(HttpError::invalid(error)),
                    None => Ok((code, text)),
                }
            }
            _ => Err(HttpError::conflict(format!(
                "machine {machine} was removed"
            ))),
        }
    }

    /// `POST .../programs`.
    pub(crate) async fn new_program(
        self: &Arc<Lab>,
        new: NewProgram,
    ) -> Result<Program, HttpError> {
        self.worker_for_machine(&new.machine)?;
        if new.words.is_empty() {
            return Err(HttpError::invalid("no program is named").at("/words"));
        }
        if new.app && new.attach {
            return Err(HttpError::invalid(
                "a virtualized process has no input and output to attach to",
            )
            .at("/attach"));
        }
        if new.keep && (!new.attach || new.terminal.is_none()) {
            let text = "a terminal is kept of a program that has one";
            return Err(HttpError::invalid(text)
                .hint("\"keep\" goes with \"attach\" and \"terminal\"")
                .at("/keep"));
        }
        let id = {
            let mut state = self.state();
            let id = state.number();
            let mut task = Task::new(&new.machine, new.words.clone());
            task.app = new.app;
            if new.keep {
                // Made when it starts.
            } else if new.attach {
                task.attach = Some(new.clone());
            } else {
                task.log = Some(Arc::new(self.new_log(id)));
            }
            state.tasks.insert(id, task);
            id
        };
        if new.keep {
            if let Err(fault) = self.start_kept(id, &new).await {
                self.state().tasks.remove(&id);
                return Err(fault);
            }
        } else if new.attach {
            self.expire(id);
        } else {
            let start = Start {
                env: self.environment(&new.machine, &new.env, new.only_env),
                dir: self.directory(&new.machine, new.dir.as_deref()),
                machine: new.machine,
                words: new.words,
                app: new.app,
                rights: new.rights,
            };
            let log = self
                .state()
                .tasks
                .get(&id)
                .and_then(|task| task.log.clone());
            if let Err(fault) = self.start_logged(id, start, log).await {
                self.state().tasks.remove(&id);
                return Err(fault);
            }
            self.ready(id);
        }
        self.described(id)
    }

    /// `POST .../programs/ID/signal`.
    pub(crate) async fn signal(self: &Arc<Lab>, id: u64, signal: i32) -> Result<(), HttpError> {
        if !(1..=64).contains(&signal) {
            return Err(
                HttpError::invalid(format!("{signal} is not the number of a signal"))
                    .hint("kill -l lists them")
                    .at("/signal"),
            );
        }
        let (run, app) = {
            let state = self.state();
            let task = state.tasks.get(&id);
            (
                task.and_then(|task| task.run),
                task.is_some_and(|task| task.app),
            )
        };
        let Some((worker, program)) = run else {
            return Err(HttpError::conflict(format!("program {id} does not run")));
        };
        if app {
            return Err(HttpError::conflict(format!(
                "program {id} is a virtualized process, which takes no signals"
            ))
            .hint("DELETE asks it to end"));
        }
        self.have(worker, Action::Signal { program, signal }, Vec::new())
            .await?;
        Ok(())
    }

    /// A virtualized process's report.
    pub(crate) async fn report(self: &Arc<Lab>, id: u64) -> Result<serde_json::Value, HttpError> {
        let (run, app, report) = {
            let state = self.state();
            let task = state.tasks.get(&id);
            (
                task.and_then(|task| task.run),
                task.is_some_and(|task| task.app),
                task.and_then(|task| task.report.clone()),
            )
        };
        if let (None, Some(report)) = (run, report) {
            return Ok(report);
        }
        let (true, Some((worker, program))) = (app, run) else {
            return Err(HttpError::conflict(format!(
                "program {id} is no virtualized process that runs, and has no report"
            )));
        };
        let action = Action::StopApp {
            program,
            report: true,
        };
        match self.have(worker, action, Vec::new()).await? {
            Answer::Report(report) => Ok(report),
            other => Err(HttpError::invalid(format!("the worker answered {other:?}"))),
        }
    }
}

/// For a program with this input: where its outputs are read, and its first three descriptors.
fn output_only(input: &[u8]) -> io::Result<(Pipe, Vec<OwnedFd>)> {
    let (output, theirs) = pipe()?;
    let input = match input {
        [] => nothing()?,
        input => {
            let mut file = vink_sys::fd::in_memory(c"input")?;
            file.write_all(input)?;
            file.rewind()?;
            file.into()
        }
    };
    let descriptors = vec![input, theirs.try_clone()?, theirs];
    Ok((Pipe::new(output)?, descriptors))
}

pub(crate) use vink_sys::fd::pipe;

/// An input that is at its end.
pub(crate) fn nothing() -> io::Result<OwnedFd> {
    let path = PathBuf::from("/dev/null");
    Ok(std::fs::File::open(path)?.into())
}
