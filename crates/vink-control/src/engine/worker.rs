//! Worker processes of a lab: one for each image and worker group, started when its first machine
//! comes.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use vink_protocol::{self as protocol, encode, Action, Answer, WorkerClock, WorkerConfig};
use vink_spec::{memory_bytes, Core, Time, Virtual};
use vink_sys::child::{prepare, Step};

use super::lab::{Lab, State};
use super::process_tree::{ProcessSample, ProcessTree};
use super::spawn::pipe;
use super::stuck::Stuck;
use super::worker_client::{PendingAnswer, RequestError, WorkerClient, WorkerMessage};
use crate::host::{Descriptor, RemoteProcess};
use crate::http_error::HttpError;

/// How long a worker may take to begin its shutdown before it is killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long its process then may take to exit, with all its programs.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Processor time that it may use before its shutdown begins: a worker whose kernel loops never
/// begins.
const MAX_CPU_TIME: Duration = Duration::from_millis(700);
/// How often that is checked; a worker that is stopped at so many checks in a row is killed, too.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_STOPPED_POLLS: u32 = 5;

/// The state of a worker's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Runs,
    /// Its socket is closed: it shuts down.
    Ends,
    /// It has exited, and was waited for.
    Gone,
}

/// A worker of a lab. Its place in the lab's list is its number, for as long as the lab runs; when
/// it is started again it is another process with the same number.
pub(crate) struct Worker {
    /// The host that it is on; none: this one.
    pub(crate) host: Option<String>,
    /// The image's name in the lab.
    pub(crate) image: Option<String>,
    /// The worker group of its machines; `None`: those that name none.
    pub(crate) group: Option<String>,
    /// The processors on which it stays; empty: any.
    pub(crate) cpus: Vec<u32>,
    /// The image's file.
    pub(crate) path: PathBuf,
    /// Counts its processes: messages of an earlier one are ignored.
    pub(crate) generation: u64,
    /// `None`: it has died, or is not started yet.
    pub(crate) client: Option<WorkerClient>,
    pub(crate) pid: Option<u32>,
    pub(crate) release: String,
    pub(crate) machines: usize,
    /// Why it died.
    pub(crate) error: Option<String>,
    /// Its kernel has not returned for long.
    pub(crate) stuck: Option<Stuck>,
    /// The state of its process.
    pub(crate) stage: Option<watch::Receiver<Stage>>,
    /// It has the names of all machines of the lab.
    pub(crate) knows_hosts: bool,
}

/// A worker that has just been started.
pub(crate) struct Started {
    pub(crate) client: WorkerClient,
    pub(crate) said: mpsc::UnboundedReceiver<WorkerMessage>,
    process: Process,
    pub(crate) pid: u32,
    pub(crate) release: String,
    /// The image's file on another host.
    image: Option<PathBuf>,
}

impl Started {
    /// One on another host that has said this first.
    ///
    /// # Errors
    /// It has ended, or is another version.
    pub(super) async fn there(
        client: WorkerClient,
        first: Option<WorkerMessage>,
        said: mpsc::UnboundedReceiver<WorkerMessage>,
        (mut process, pid): (RemoteProcess, u32),
        image: PathBuf,
    ) -> Result<Started, String> {
        match first {
            Some(WorkerMessage::Ready { protocol, release }) if protocol == protocol::VERSION => {
                Ok(Started {
                    client,
                    said,
                    process: Process::There(process),
                    pid,
                    release,
                    image: Some(image),
                })
            }
            Some(_) => Err("its vink was replaced meanwhile".to_owned()),
            None => Err(process.wait().await),
        }
    }
}

/// A worker's process.
enum Process {
    Here(Child),
    There(RemoteProcess),
}

impl Process {
    /// How it has ended.
    async fn wait(&mut self) -> String {
        match self {
            Process::There(process) => process.wait().await,
            Process::Here(child) => match child.wait().await {
                Ok(status) => format!("its process ended: {status}"),
                Err(error) => format!("its process could not be waited for: {error}"),
            },
        }
    }
}

/// A process of this host that has just been started, and the ways to it.
pub(crate) struct WorkerProcess {
    pub(crate) socket: tokio::net::UnixStream,
    pub(crate) watchdog: OwnedFd,
    pub(crate) child: Child,
    pub(crate) pid: u32,
}

impl WorkerProcess {
    /// Starts `vink lab-worker` in this folder.
    pub(crate) fn spawn(
        executable: &Path,
        folder: &Path,
        config: &WorkerConfig,
        errors: Stdio,
    ) -> std::io::Result<WorkerProcess> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let (watchdog, dog) = pipe()?;
        let (number, dog_number) = (theirs.as_raw_fd(), dog.as_raw_fd());
        let mut first = Vec::new();
        encode(config, &mut first);
        (&ours).write_all(&first)?;
        let mut command = Command::new(executable);
        command
            .arg("lab-worker")
            .args(["--socket", &number.to_string()])
            .args(["--watchdog", &dog_number.to_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .kill_on_drop(true);
        prepare(
            command.as_std_mut(),
            [Step::Keep(number), Step::Keep(dog_number)],
        );
        let child = command.spawn()?;
        let pid = child.id().unwrap_or_default();
        ours.set_nonblocking(true)?;
        Ok(WorkerProcess {
            socket: tokio::net::UnixStream::from_std(ours)?,
            watchdog,
            child,
            pid,
        })
    }
}

impl Worker {
    /// Whether there is something to be told of it: not of one that has ended with its last machine.
    pub(crate) fn is_shown(&self) -> bool {
        self.machines > 0 || self.client.is_some() || self.error.is_some()
    }

    /// The error for a machine that wants its worker on other processors than its machines do.
    pub(crate) fn has_other_cpus(&self, wanted: &[u32]) -> HttpError {
        let name = self.group.as_deref().unwrap_or_default();
        let core = |cpus: &[u32]| match cpus {
            [] => "no core".to_owned(),
            cpus => format!("core {}", Core::Several(cpus.to_vec())),
        };
        let (own, wanted) = (core(&self.cpus), core(wanted));
        let error = format!("worker {name} has {own} by its machines, and can't have {wanted} too");
        HttpError::conflict(error).hint("give the machine the same `core`, or another `worker`")
    }
}

impl State {
    /// What a worker is started with.
    fn worker_config(&self, number: usize) -> Result<WorkerConfig, HttpError> {
        let memory = self.spec.memory.as_deref().unwrap_or("256M");
        let memory = memory_bytes(memory).ok_or_else(|| {
            HttpError::invalid("the lab's memory is no size").hint("write it like 64M or 4G")
        })?;
        Ok(WorkerConfig {
            image: self.workers[number].path.clone(),
            cpus: self.workers[number].cpus.clone(),
            memory,
            cmdline: String::new(),
            seed: self.spec.seed,
            calls: self.spec.calls,
            clock: match self.spec.time {
                Time::Real => WorkerClock::Real,
                Time::Virtual(Virtual { call, rdtsc, .. }) => WorkerClock::Virtual {
                    call: call.map_or(0, |call| call.0),
                    rdtsc,
                },
                Time::Scaled(_) => WorkerClock::Virtual {
                    call: 0,
                    rdtsc: false,
                },
            },
        })
    }
}

impl Lab {
    /// Starts the process of a worker and waits until its kernel has booted.
    pub(crate) async fn start_worker(
        self: &Arc<Lab>,
        worker: (usize, u64),
        config: WorkerConfig,
    ) -> Result<Started, HttpError> {
        if let Some(link) = self.link_of_worker(worker.0).await? {
            return self.start_worker_there(worker, config, &link).await;
        }
        let what = format!("starting a worker with {}", config.image.display());
        let host = |error| HttpError::host(&what, error);
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.runtime.join("workers"))
            .map_err(host)?;
        let log_path = self.runtime.join("workers");
        let logged = std::fs::metadata(&log_path).map_or(0, |log| log.len());
        let process = WorkerProcess::spawn(
            &self.hooks.executable,
            &self.folder,
            &config,
            Stdio::from(log),
        )
        .map_err(host)?;
        let (mut child, pid) = (process.child, process.pid);
        let (client, mut said) = WorkerClient::new(process.socket);
        let watch = tokio::net::unix::pipe::Receiver::from_owned_fd(process.watchdog);
        let watch = watch.map_err(host)?;
        tokio::spawn(self.clone().hear_watchdog(worker, pid, watch));
        let mut ending = self.ending.subscribe();
        let first = tokio::select! {
            first = said.recv() => first,
            // A kernel may hang while it boots; the process is killed when it is dropped.
            _ = ending.wait_for(|ending| *ending) => {
                return Err(HttpError::conflict(format!("{what}: the lab is being taken down")));
            }
        };
        match first {
            Some(WorkerMessage::Ready { protocol, release }) if protocol == protocol::VERSION => {
                Ok(Started {
                    client,
                    said,
                    process: Process::Here(child),
                    pid,
                    release,
                    image: None,
                })
            }
            Some(WorkerMessage::Ready { .. }) => Err(HttpError::conflict(format!(
                "{what}: {} is another version than this control process",
                self.hooks.executable.display()
            ))
            .hint("take all labs down, which ends the control process: vink lab down --all")),
            _ => {
                let status = child.wait().await.map_err(host)?;
                let log = std::fs::read(&log_path).unwrap_or_default();
                let words = String::from_utf8_lossy(&log[(logged as usize).min(log.len())..])
                    .trim()
                    .to_owned();
                let words = match words.is_empty() {
                    true => format!("it ended with {status}"),
                    false => words,
                };
                Err(HttpError::invalid(format!("{what}: {words}")))
            }
        }
    }

    /// Starts a worker, and a task that handles its events.
    pub(crate) async fn boot(self: &Arc<Lab>, number: usize) -> Result<(), HttpError> {
        let config = self.state().worker_config(number)?;
        let path = config.image.clone();
        let generation = {
            let mut state = self.state();
            let worker = &mut state.workers[number];
            worker.generation += 1;
            worker.stuck = None;
            worker.generation
        };
        let started = self.start_worker((number, generation), config).await?;
        let (stage, stages) = watch::channel(Stage::Runs);
        {
            let mut state = self.state();
            let worker = &mut state.workers[number];
            worker.client = Some(started.client);
            worker.pid = Some(started.pid);
            worker.path = started.image.unwrap_or(std::mem::take(&mut worker.path));
            worker.release = started.release;
            worker.error = None;
            worker.stage = Some(stages);
            worker.knows_hosts = false;
            let time = state.spec.time;
            state.clock.begin(time);
        }
        let lab = self.clone();
        let (mut said, mut process, pid) = (started.said, started.process, started.pid);
        tokio::spawn(async move {
            let mut last_words = None;
            while let Some(next) = said.recv().await {
                if let WorkerMessage::Event(event) = next {
                    lab.happened(number, generation, event, &mut last_words);
                }
            }
            stage.send_replace(Stage::Ends);
            let how = match tokio::time::timeout(EXIT_TIMEOUT, process.wait()).await {
                Ok(how) => how,
                Err(_) => {
                    if let Process::Here(_) = process {
                        // Processes that stay are reported by the task that waits for this worker.
                        let _ = ProcessTree::of(pid as i32).end().await;
                    }
                    process.wait().await
                }
            };
            lab.worker_ended(number, generation, how, last_words);
            stage.send_replace(Stage::Gone);
        });
        let first: Vec<Action> = {
            let state = self.state();
            let breakpoints = state.spec.breakpoints.iter();
            let mut all: Vec<Action> = breakpoints
                .map(|(name, spec)| state.breakpoint(name, spec))
                .collect();
            all.extend(state.pods_of(self, number)?);
            all
        };
        for action in first {
            self.have(number, action, Vec::new()).await?;
        }
        self.open_feeds(number).await?;
        self.begin_record(number, &path).await
    }

    /// Sends a request to a worker.
    pub(crate) fn ask(
        &self,
        worker: usize,
        action: Action,
        descriptors: Vec<OwnedFd>,
    ) -> Result<PendingAnswer, HttpError> {
        self.ask_in(&self.state(), worker, action, descriptors)
    }

    /// Sends a request while the state is locked, for what must not be overtaken.
    pub(crate) fn ask_in(
        &self,
        state: &State,
        worker: usize,
        action: Action,
        descriptors: Vec<OwnedFd>,
    ) -> Result<PendingAnswer, HttpError> {
        // A lab without machines has no worker yet.
        let client = state.workers.get(worker).and_then(|w| w.client.as_ref());
        client
            .map(|client| {
                let descriptors = descriptors.into_iter().map(Descriptor::Here);
                client.ask(action, descriptors.collect())
            })
            .ok_or_else(|| state.lost_host_of(worker).unwrap_or_else(|| self.is_dead()))
    }

    /// Sends a request, and waits for the answer.
    pub(crate) async fn have(
        &self,
        worker: usize,
        action: Action,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, HttpError> {
        let asked = self.ask(worker, action, descriptors)?;
        self.read(asked.answer().await)
    }

    /// An answer, or the refusal as an HTTP error.
    pub(crate) fn read(&self, answer: Result<Answer, RequestError>) -> Result<Answer, HttpError> {
        answer.map_err(|refusal| match refusal {
            RequestError::Failed(error) => HttpError::invalid(error),
            RequestError::Dead => self.is_dead(),
        })
    }

    /// The error for a request that needs a worker that has died.
    pub(crate) fn is_dead(&self) -> HttpError {
        let error = format!("a worker of lab {} has died", self.name);
        HttpError::conflict(error).hint(format!(
            "vink lab ps {0} says why, vink lab restart --lab {0} boots it again",
            self.name
        ))
    }

    /// Ends a worker's process and waits for that: by closing its socket, and if that does not
    /// help, by SIGKILL.
    ///
    /// # Errors
    /// It, or something that it has started, is still there.
    pub(crate) async fn end_worker(&self, number: usize) -> Result<(), HttpError> {
        let (pid, stage, stuck, host) = {
            let mut state = self.state();
            let worker = &mut state.workers[number];
            // Its messages are ignored from here on.
            worker.generation += 1;
            worker.client = None;
            let stuck = worker.stuck.take().is_some();
            let host = worker.host.clone();
            (worker.pid.take(), worker.stage.take(), stuck, host)
        };
        let Some(mut stage) = stage else {
            return Ok(());
        };
        // One on another host is ended by the agent there, by the same rules.
        let pid = pid.map(|pid| pid as i32).filter(|_| host.is_none());
        if let Some(pid) = pid.filter(|_| *stage.borrow() == Stage::Runs) {
            if stuck || !shuts_down(pid, &mut stage).await {
                ProcessTree::of(pid)
                    .end()
                    .await
                    .map_err(|left| self.stays(number, &left))?;
            }
        }
        let gone = stage.wait_for(|stage| *stage == Stage::Gone);
        let gone = tokio::time::timeout(2 * EXIT_TIMEOUT, gone).await.is_ok();
        match gone {
            true => Ok(()),
            false => Err(self.stays(number, pid.as_slice())),
        }
    }

    fn stays(&self, number: usize, pids: &[i32]) -> HttpError {
        let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
        HttpError::conflict(format!(
            "worker {number} of lab {}: killed processes are still there: {}",
            self.name,
            pids.join(" ")
        ))
        .hint("ps -o pid,stat,wchan:32,args -p PID shows what each waits for in the host's kernel")
    }
}

/// Whether a worker whose socket was closed begins its shutdown.
pub(crate) async fn shuts_down(pid: i32, stage: &mut watch::Receiver<Stage>) -> bool {
    let until = Instant::now() + SHUTDOWN_TIMEOUT;
    let before = ProcessSample::at(pid).map_or(Duration::ZERO, |sample| sample.time);
    let mut stopped = 0;
    while Instant::now() < until {
        let ends = stage.wait_for(|stage| *stage != Stage::Runs);
        if tokio::time::timeout(POLL_INTERVAL, ends).await.is_ok() {
            return true;
        }
        let Some(sample) = ProcessSample::at(pid) else {
            continue;
        };
        stopped = if sample.is_stopped() { stopped + 1 } else { 0 };
        if stopped >= MAX_STOPPED_POLLS || sample.time.saturating_sub(before) >= MAX_CPU_TIME {
            return false;
        }
    }
    false
}
