//! A session: which machine its lines are for, its jobs, and what is in the foreground.

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;

use serde_json::json;
use tokio::time::sleep;
use vink_api::{Input, LabApi, RunClock};
use vink_spec::Time;

use crate::complete::complete;
use crate::edit::{Editor, Step};
use crate::error::ended;
use crate::executor::Executor;
use crate::front::{Act, Connection, Front};
use crate::job::{Channel, Job, News, Told};
use crate::{host, overview, parse, reply, Command, Definition, Reply, ShellError};

/// Files of lines may name files of lines, this deep.
const DEEPEST: usize = 16;

/// What follows a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Flow {
    /// The next one.
    Next(Reply),
    /// The end of the session.
    End,
}

/// A session at the switch box.
#[derive(Debug)]
pub(crate) struct Session<A> {
    pub(crate) executor: Executor<A>,
    /// The machine that lines are for.
    pub(crate) machine: Option<String>,
    /// Stop at the first line that fails.
    pub(crate) stops: bool,
    /// A user is there, and is shown what happens in the background.
    interactive: bool,
    jobs: Vec<Job>,
    news: Channel,
    depth: usize,
}

impl<A: LabApi> Session<A> {
    /// Outside of all machines. Names of files are relative to `folder`.
    pub(crate) fn new(api: A, lab: &str, folder: PathBuf, interactive: bool) -> Session<A> {
        Session {
            executor: Executor {
                api,
                lab: lab.to_owned(),
                folder,
            },
            machine: None,
            stops: !interactive,
            interactive,
            jobs: Vec::new(),
            news: Channel::new(),
            depth: 0,
        }
    }

    /// What is shown before a line is read.
    pub(crate) fn prompt(&self) -> String {
        match &self.machine {
            Some(machine) => format!("{machine}# "),
            None => "vink> ".to_owned(),
        }
    }

    /// Edits a line by what was typed, until it is finished or there is no more.
    pub(crate) async fn edit(&self, editor: &mut Editor, typed: &mut VecDeque<u8>) -> Option<Step> {
        while let Some(byte) = typed.pop_front() {
            match editor.byte(byte) {
                Step::More => {}
                Step::Complete => {
                    let names = self.executor.names().await;
                    let before = editor.before_cursor();
                    let (start, found) = complete(&before, self.machine.as_deref(), &names);
                    editor.complete(start, &found);
                }
                step => return Some(step),
            }
        }
        None
    }

    /// The next thing that a job tells. Nothing is lost when the future is dropped.
    pub(crate) async fn news(&mut self) -> Told {
        let told = self.news.receiver.recv().await;
        told.expect("a sender is kept here")
    }

    /// What a job's news look like, if it is in the background.
    pub(crate) fn shown(&mut self, (number, news): Told) -> Vec<u8> {
        let at = self.jobs.iter().position(|job| job.number == number);
        let text = match (news, at) {
            (News::Output(bytes) | News::Error(bytes), _) => return bytes.into(),
            (News::Ended { .. }, Some(at)) if !self.interactive => {
                self.jobs.remove(at);
                String::new()
            }
            (
                News::Ended {
                    code,
                    error,
                    report,
                },
                Some(at),
            ) => {
                let job = self.jobs.remove(at);
                let report = report.as_ref().map(reply::report).unwrap_or_default();
                format!(
                    "[{number}] {}  {}\n{report}",
                    ended(code, error.as_deref()),
                    job.line
                )
            }
            (News::Lost(why), Some(at)) => {
                let job = self.jobs.remove(at);
                format!("[{number}] {why}  {}\n", job.line)
            }
            (_, None) => String::new(),
        };
        text.into_bytes()
    }

    /// What has happened in the background since the last time.
    pub(crate) fn past(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Ok(told) = self.news.receiver.try_recv() {
            bytes.extend(self.shown(told));
        }
        bytes
    }

    /// Carries out a line.
    pub(crate) async fn line(
        &mut self,
        line: &str,
        front: &mut impl Front,
    ) -> Result<Flow, ShellError> {
        let Some(command) = parse(line, self.machine.as_deref())? else {
            return Ok(Flow::Next(Reply::nothing()));
        };
        match command {
            Command::Exit if self.machine.is_none() => return Ok(Flow::End),
            Command::Exit => self.machine = None,
            Command::Connect(machine) => {
                self.executor
                    .api
                    .machine(&self.executor.lab, &machine)
                    .await?;
                self.machine = Some(machine);
            }
            command => return self.carry_out(command, front).await.map(Flow::Next),
        }
        Ok(Flow::Next(Reply::nothing()))
    }

    async fn carry_out(
        &mut self,
        command: Command,
        front: &mut impl Front,
    ) -> Result<Reply, ShellError> {
        match command {
            Command::Help(definition) => Ok(help(definition)),
            Command::Errors { stop } => {
                self.stops = stop;
                Ok(Reply::nothing())
            }
            Command::Jobs => Ok(self.list_jobs()),
            Command::Foreground(number) => {
                let number = self.job(number)?;
                let line = self.job_mut(number).map(|job| format!("{}\n", job.line));
                front.write(line.unwrap_or_default().as_bytes()).await?;
                self.go_on(number).await?;
                self.foreground(number, front).await
            }
            Command::Background(number) => {
                let number = self.job(number)?;
                self.go_on(number).await?;
                Ok(Reply::nothing())
            }
            Command::Kill { program, signal } => {
                let program = self.program(&program)?;
                let kill = Command::Kill { program, signal };
                self.executor.ask(&kill).await
            }
            Command::Wait(program) => self.wait(&program, front).await,
            Command::Sleep(span) => {
                let Executor { api, lab, .. } = self.executor.clone();
                let slept = async move {
                    if api.clock(&lab).await?.time == Time::Real {
                        sleep(span.duration()).await;
                        return Ok(());
                    }
                    let run = RunClock {
                        by: Some(span),
                        ..RunClock::default()
                    };
                    api.run_clock(&lab, &run).await?;
                    Ok(())
                };
                self.unless_interrupted(front, slept).await?;
                Ok(Reply::nothing())
            }
            Command::Source(file) => self.source(&file, front).await,
            Command::Run {
                machine,
                line,
                background,
            } => match host::app(&line) {
                Some(words) => {
                    self.run(&machine, &line, words, true, background, front)
                        .await
                }
                None => {
                    let words = ["sh", "-c", &line].map(str::to_owned).to_vec();
                    self.run(&machine, &line, words, false, background, front)
                        .await
                }
            },
            Command::App {
                machine,
                words,
                background,
            } => {
                let line = words.join(" ");
                self.run(&machine, &line, words, true, background, front)
                    .await
            }
            Command::Ifconfig {
                machine,
                line,
                change,
            } => match self.executor.ifconfig(&machine, &change).await {
                // A program has made that interface.
                Err(ShellError::Api(error)) if error.status() == Some(404) => {
                    let words = ["sh", "-c", &line].map(str::to_owned).to_vec();
                    self.run(&machine, &line, words, false, false, front).await
                }
                done => done,
            },
            command => {
                let executor = self.executor.clone();
                self.unless_interrupted(front, executor.ask(&command)).await
            }
        }
    }

    fn list_jobs(&self) -> Reply {
        let mut text = String::new();
        let mut value = Vec::new();
        for job in &self.jobs {
            let state = if job.stopped { "stopped" } else { "running" };
            text += &format!("[{}] {state}  {}\n", job.number, job.line);
            value.push(json!({
                "job": job.number, "program": job.program, "state": state, "line": job.line,
            }));
        }
        Reply::new(text, &value)
    }

    /// The number of a job that there is: this one, or the last.
    fn job(&self, number: Option<usize>) -> Result<usize, ShellError> {
        let found = match number {
            Some(number) => self.jobs.iter().find(|job| job.number == number),
            None => self.jobs.last(),
        };
        found.map(|job| job.number).ok_or_else(|| {
            ShellError::Other(match number {
                Some(number) => format!("this session has no job {number}: `jobs` lists them"),
                None => "this session has no job".to_owned(),
            })
        })
    }

    /// A job that there is.
    fn job_mut(&mut self, number: usize) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.number == number)
    }

    /// A program of the lab, by what it was called in a line.
    fn program(&self, name: &str) -> Result<String, ShellError> {
        let Some(number) = name.strip_prefix('%') else {
            return Ok(name.to_owned());
        };
        let number = number.parse().map_err(|_| {
            ShellError::Other(format!(
                "'{name}' is no job: write it like %1; `jobs` lists them"
            ))
        })?;
        let number = self.job(Some(number))?;
        let job = self.jobs.iter().find(|job| job.number == number);
        Ok(job.expect("just found").program.to_string())
    }

    /// Lets a stopped job go on.
    async fn go_on(&mut self, number: usize) -> Result<(), ShellError> {
        let Executor { api, lab, .. } = self.executor.clone();
        let Some(job) = self.job_mut(number).filter(|job| job.stopped) else {
            return Ok(());
        };
        job.stopped = false;
        let program = job.program.to_string();
        api.signal_program(&lab, &program, libc::SIGCONT).await?;
        Ok(())
    }

    /// Starts a program, and unless it is for the background, stays with it.
    async fn run(
        &mut self,
        machine: &str,
        line: &str,
        words: Vec<String>,
        app: bool,
        background: bool,
        front: &mut impl Front,
    ) -> Result<Reply, ShellError> {
        let Executor { api, lab, .. } = self.executor.clone();
        let mut program = self.executor.program(machine, words, app);
        // A virtualized process has no input, so nothing has to be attached.
        program.attach = !background && !app;
        if program.attach {
            match front.connection() {
                Connection::Output => {}
                Connection::Lines => program.input = true,
                Connection::Terminal(size, name) => {
                    program.input = true;
                    program.terminal = Some(size);
                    program
                        .env
                        .extend(name.map(|name| ("TERM".to_owned(), name)));
                }
            }
        }
        let started = api.start_program(&lab, &program).await?;
        let number = self.jobs.last().map_or(1, |job| job.number + 1);
        let news = self.news.sender.clone();
        if program.attach {
            let terminal = api.attach(&lab, started.id).await?;
            self.jobs
                .push(Job::attached(number, started.id, line, terminal, news));
        } else {
            let executor = self.executor.clone();
            self.jobs
                .push(Job::detached(number, started.id, line, app, executor, news));
        }
        match (background, self.interactive) {
            (true, true) => Ok(Reply::new(format!("[{number}] {}\n", started.id), &started)),
            (true, false) => Ok(Reply::new(String::new(), &started)),
            (false, _) => self.foreground(number, front).await,
        }
    }

    /// Gives a job the front's terminal until it ends or is stopped.
    async fn foreground(
        &mut self,
        number: usize,
        front: &mut impl Front,
    ) -> Result<Reply, ShellError> {
        let input = self.job_mut(number).and_then(|job| job.input.as_ref());
        let (Some(input), Connection::Terminal(size, _)) = (input, front.connection()) else {
            return self.stay(number, front).await;
        };
        // It may have been another one before the job was stopped.
        input.send(Input::Resize(size));
        front.begin();
        let done = self.stay(number, front).await;
        front.end();
        done
    }

    /// Carries input and output of a job until it ends or is stopped.
    async fn stay(&mut self, number: usize, front: &mut impl Front) -> Result<Reply, ShellError> {
        loop {
            tokio::select! {
                act = front.act() => match act {
                    Act::Gone => {
                        self.abandon(number).await;
                        return Err(ShellError::Gone);
                    }
                    Act::Suspend => {
                        if let Some(reply) = self.suspend(number).await? {
                            return Ok(reply);
                        }
                    }
                    act => self.act(number, act, front).await?,
                },
                told = self.news() => match told {
                    (of, News::Output(bytes)) if of == number => front.write(&bytes).await?,
                    (of, News::Error(bytes)) if of == number => front.write_error(&bytes).await?,
                    (of, News::Ended { code, error, report }) if of == number => {
                        self.jobs.retain(|job| job.number != number);
                        if code != 0 {
                            return Err(ShellError::Program { code, error });
                        }
                        let text = report.as_ref().map(reply::report).unwrap_or_default();
                        return Ok(Reply::new(text, &json!({ "status": code, "report": report })));
                    }
                    (of, News::Lost(why)) if of == number => {
                        self.jobs.retain(|job| job.number != number);
                        return Err(ShellError::Other(why));
                    }
                    told => {
                        let bytes = self.shown(told);
                        front.write(&bytes).await?;
                    }
                },
            }
        }
    }

    /// Passes on a user's keys to a job in the foreground.
    async fn act(
        &mut self,
        number: usize,
        act: Act,
        front: &mut impl Front,
    ) -> Result<(), ShellError> {
        let terminal = matches!(front.connection(), Connection::Terminal(..));
        let Some(job) = self.job_mut(number) else {
            return Ok(());
        };
        match (&job.input, act) {
            (Some(input), Act::Input(bytes)) => {
                let taken = input.write(bytes);
                if !taken {
                    front.write(b"\x07").await?;
                }
            }
            (Some(input), Act::Resize(size)) => input.send(Input::Resize(size)),
            // The terminal knows what that means to its program.
            (Some(input), Act::Interrupt) if terminal => {
                input.write(vec![0x03]);
            }
            (Some(input), Act::Interrupt) => input.send(Input::Signal(libc::SIGINT)),
            (Some(input), Act::End) if terminal => {
                input.write(vec![0x04]);
            }
            (Some(input), Act::End) => input.send(Input::End),
            (None, Act::Interrupt) => self.signal(number, libc::SIGINT).await?,
            (None, Act::Input(bytes)) if bytes.contains(&0x03) => {
                self.signal(number, libc::SIGINT).await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn signal(&mut self, number: usize, signal: i32) -> Result<(), ShellError> {
        let program = format!("%{number}");
        let program = self.program(&program)?;
        self.executor
            .ask(&Command::Kill { program, signal })
            .await?;
        Ok(())
    }

    /// ^Z: stops a job and lets go of it. A virtualized process can't be stopped, but let go of.
    async fn suspend(&mut self, number: usize) -> Result<Option<Reply>, ShellError> {
        let Some(job) = self.job_mut(number) else {
            return Ok(None);
        };
        let (line, app) = (job.line.clone(), job.app);
        if app {
            return Ok(Some(Reply::new(
                format!("\n[{number}] running  {line}\n"),
                &(),
            )));
        }
        job.stopped = true;
        self.signal(number, libc::SIGSTOP).await?;
        Ok(Some(Reply::new(
            format!("\n[{number}] stopped  {line}\n"),
            &(),
        )))
    }

    /// Ends the foreground job of a client that has gone.
    async fn abandon(&mut self, number: usize) {
        let Some(at) = self.jobs.iter().position(|job| job.number == number) else {
            return;
        };
        let job = self.jobs.remove(at);
        // One that is attached ends with its connection, which the job had.
        if job.input.is_none() {
            let program = job.program.to_string();
            let Executor { api, lab, .. } = &self.executor;
            // It may have ended by itself.
            let _ = api.end_program(lab, &program).await;
        }
    }

    async fn wait(&mut self, program: &str, front: &mut impl Front) -> Result<Reply, ShellError> {
        if let Some(number) = program.strip_prefix('%').and_then(|n| n.parse().ok()) {
            let number = self.job(Some(number))?;
            return self.foreground(number, front).await;
        }
        let name = self.program(program)?;
        let executor = self.executor.clone();
        let ended = self.unless_interrupted(front, executor.wait(&name)).await?;
        match ended.code {
            None | Some(0) => Ok(Reply::new(String::new(), &ended)),
            Some(code) => Err(ShellError::Program {
                code,
                error: ended.error,
            }),
        }
    }

    /// Waits for something that ^C may keep it from.
    async fn unless_interrupted<T>(
        &mut self,
        front: &mut impl Front,
        what: impl Future<Output = Result<T, ShellError>>,
    ) -> Result<T, ShellError> {
        tokio::pin!(what);
        loop {
            tokio::select! {
                done = &mut what => return done,
                act = front.act() => match act {
                    Act::Gone => return Err(ShellError::Gone),
                    Act::Interrupt => return Err(ShellError::Interrupted),
                    Act::Input(bytes) if bytes.contains(&0x03) => return Err(ShellError::Interrupted),
                    Act::Input(bytes) => front.keep(bytes),
                    Act::Suspend | Act::Resize(_) | Act::End => {}
                },
                told = self.news() => {
                    let bytes = self.shown(told);
                    front.write(&bytes).await?;
                }
            }
        }
    }

    /// Carries out the lines of a file. They are as if they were written here, but that the machine
    /// is the one of before afterwards.
    async fn source(&mut self, file: &str, front: &mut impl Front) -> Result<Reply, ShellError> {
        if self.depth == DEEPEST {
            return Err(ShellError::Other(format!(
                "{file}: files of lines name each other more than {DEEPEST} deep"
            )));
        }
        let path = self.executor.path(file);
        let text = vink_spec::read_text_file(&path, vink_spec::LARGEST_FILE)
            .map_err(ShellError::file(&path))?;
        let machine = self.machine.clone();
        self.depth += 1;
        let mut done = Ok(());
        for (index, line) in text.lines().enumerate() {
            // A future that contains itself needs a place of its own.
            match Box::pin(self.line(line, front)).await {
                Ok(Flow::Next(reply)) => front.write(reply.text.as_bytes()).await?,
                Ok(Flow::End) => break,
                Err(failure @ (ShellError::Gone | ShellError::Interrupted)) => {
                    done = Err(failure);
                    break;
                }
                Err(failure) => {
                    done = Err(ShellError::Other(format!(
                        "{file}:{}: {failure}",
                        index + 1
                    )));
                    break;
                }
            }
        }
        self.depth -= 1;
        self.machine = machine;
        done.map(|()| Reply::nothing())
    }
}

fn help(definition: Option<&Definition>) -> Reply {
    let text = definition.map_or_else(overview, Definition::help);
    let value = json!({ "help": text });
    Reply { text, value }
}
