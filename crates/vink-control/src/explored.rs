//! Labs that `vink explore` has explored, as clients may look at them: those that the owner has named.
//!
//! Runs of them are made when they are asked for. A run is a fork of a process without threads, so it is not this
//! process that makes them, but `vink explored`, one for each of these labs while there are questions.
//!
//! As with recorded runs, a client names one by its id, never by a path, and to list one is to show it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use vink_api::{Explored, ExploredQuestion, ExploredSummary, NewExplored};

use crate::http_error::HttpError;
use crate::runs::named;

/// The manifest's name in a folder that `vink explore` has written.
const MANIFEST: &str = "explore.json";
/// How many are listed at most.
const MOST: usize = 1000;
/// How long an answer may take: a run of an app that computes for ever ends after 20 s.
const LONGEST: Duration = Duration::from_secs(120);
/// A process that was asked nothing for so long ends.
const IDLE: Duration = Duration::from_secs(60);

/// Those that are listed, by id.
#[derive(Default)]
pub(crate) struct ExploredLabs {
    state: Mutex<BTreeMap<String, Arc<ExploredLab>>>,
}

/// One that is listed.
pub(crate) struct ExploredLab {
    pub(crate) about: Explored,
    folder: PathBuf,
    executable: PathBuf,
    /// Answers questions; none: it is started for the next one.
    process: tokio::sync::Mutex<Option<Process>>,
}

/// `vink explored`, which ends when this is dropped.
struct Process {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// When it was asked last.
    asked: Instant,
}

impl ExploredLabs {
    fn state(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ExploredLab>>> {
        self.state.lock().expect("no panic while it is held")
    }

    pub(crate) fn get(&self, id: &str) -> Result<Arc<ExploredLab>, HttpError> {
        let state = self.state();
        let known = state.keys().map(String::as_str);
        let found = state.get(id).cloned();
        found.ok_or_else(|| HttpError::no("explored lab", id, known, "listed"))
    }

    /// All, as far as they are still there.
    pub(crate) fn all(&self) -> Vec<ExploredSummary> {
        let mut state = self.state();
        state.retain(|_, one| one.folder.join(MANIFEST).is_file());
        state
            .values()
            .map(|one| one.about.summary.clone())
            .collect()
    }

    /// Lists what was found at a path: its folder, or a folder of these.
    pub(crate) async fn add(
        &self,
        new: &NewExplored,
        executable: &Path,
    ) -> Result<Vec<ExploredSummary>, HttpError> {
        let path = named(&new.path)?;
        let mut listed = Vec::new();
        for folder in folders(&path) {
            let one = self.list(&folder, executable).await;
            listed.push(one.map_err(|error| error.at("/path"))?);
        }
        if listed.is_empty() {
            let error = format!("vink explore has written nothing at {}", path.display());
            return Err(HttpError::invalid(error)
                .hint("name the folder that it tells of at its end, such as LAB.explored/outcome, or LAB.explored")
                .at("/path"));
        }
        Ok(listed)
    }

    async fn list(&self, folder: &Path, executable: &Path) -> Result<ExploredSummary, HttpError> {
        // What was written there since is another one.
        let (process, mut about) = Process::start(folder, executable).await?;
        let ExploredSummary { lab, violation, .. } = &about.summary;
        let name = format!("{lab}-{}", violation.property);
        let mut state = self.state();
        state.retain(|_, one| one.folder != folder);
        if state.len() >= MOST {
            return Err(HttpError::conflict(format!(
                "{MOST} explored labs are listed already"
            )));
        }
        let names = std::iter::once(name.clone());
        let mut names = names.chain((2..).map(|number| format!("{name}-{number}")));
        let id = names.find(|id| !state.contains_key(id));
        let id = id.expect("there are more numbers than labs");
        about.summary.id.clone_from(&id);
        about.summary.path = folder.display().to_string();
        let summary = about.summary.clone();
        let one = Arc::new(ExploredLab {
            about,
            folder: folder.to_owned(),
            executable: executable.to_owned(),
            process: tokio::sync::Mutex::new(Some(process)),
        });
        one.end_when_idle();
        state.insert(id, one);
        Ok(summary)
    }
}

/// The folders at a path that `vink explore` has written.
fn folders(path: &Path) -> Vec<PathBuf> {
    if path.join(MANIFEST).is_file() {
        return vec![path.to_owned()];
    }
    if path.file_name().is_some_and(|name| name == MANIFEST) {
        return path.parent().map(Path::to_owned).into_iter().collect();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let all = entries.map(|entry| entry.path());
    let mut all: Vec<PathBuf> = all
        .filter(|path| path.join(MANIFEST).is_file())
        .take(MOST)
        .collect();
    all.sort();
    all
}

impl ExploredLab {
    /// What it says to a question.
    pub(crate) async fn ask<T: DeserializeOwned>(
        self: &Arc<ExploredLab>,
        question: &ExploredQuestion,
    ) -> Result<T, HttpError> {
        let mut kept = self.process.lock().await;
        // One whose answer is not waited for any more is ended: it is not in its place then. And any process may be killed.
        let mut process = match kept.take().and_then(Process::if_alive) {
            Some(process) => process,
            None => {
                let (process, _) = Process::start(&self.folder, &self.executable).await?;
                self.end_when_idle();
                process
            }
        };
        let answer = process.ask(question).await?;
        *kept = Some(process);
        answer.map_err(HttpError::invalid)
    }

    /// Ends the process that was just started, when it has not been asked for a while.
    fn end_when_idle(self: &Arc<ExploredLab>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE).await;
                let Some(this) = this.upgrade() else { return };
                let mut kept = this.process.lock().await;
                // Another one has another task.
                match kept.as_ref() {
                    Some(process) if process.asked.elapsed() < IDLE => {}
                    _ => {
                        *kept = None;
                        return;
                    }
                }
            }
        });
    }
}

impl Process {
    /// Starts one, which says first what was explored.
    async fn start(folder: &Path, executable: &Path) -> Result<(Process, Explored), HttpError> {
        let mut command = Command::new(executable);
        command
            .arg("explored")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let started = command.spawn();
        let mut child = started.map_err(|error| HttpError::host("vink explored", error))?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take());
        let mut process = Process {
            questions: questions.expect("a pipe"),
            answers: BufReader::new(answers.expect("a pipe")),
            child,
            asked: Instant::now(),
        };
        let about = process.answer().await?;
        let about = about.map_err(|error| {
            HttpError::conflict(format!("{} can't be run: {error}", folder.display()))
        })?;
        Ok((process, about))
    }

    /// This one, unless it has ended.
    fn if_alive(mut self) -> Option<Process> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    async fn ask<T: DeserializeOwned>(
        &mut self,
        question: &ExploredQuestion,
    ) -> Result<Result<T, String>, HttpError> {
        self.asked = Instant::now();
        let mut line = serde_json::to_vec(question).expect("plain data");
        line.push(b'\n');
        // One that has ended says so by its answer.
        let _ = self.questions.write_all(&line).await;
        self.answer().await
    }

    async fn answer<T: DeserializeOwned>(&mut self) -> Result<Result<T, String>, HttpError> {
        let mut line = String::new();
        let read = tokio::time::timeout(LONGEST, self.answers.read_line(&mut line)).await;
        let wrong = |error: String| HttpError::conflict(format!("vink explored: {error}"));
        match read {
            Ok(Ok(0)) => Err(wrong("it has ended".to_owned())),
            Ok(Ok(_)) => serde_json::from_str(&line).map_err(|error| wrong(error.to_string())),
            Ok(Err(error)) => Err(wrong(error.to_string())),
            Err(_) => Err(wrong(format!(
                "no answer in {} s, so it was ended",
                LONGEST.as_secs()
            ))),
        }
    }
}
