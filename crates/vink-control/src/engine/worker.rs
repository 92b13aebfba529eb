//! Worker processes of a lab: one for each image, started when its first machine comes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use vink_lab::worker::protocol::{self, Action, Answer};
use vink_spec::{memory_bytes, Time, Virtual};

use super::lab::Lab;
use super::link::{Asked, Link, Refusal, Said};
use crate::fault::Fault;

/// How long a worker may take to end when it has been told to, before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker of a lab. Its place in the lab's list is its number, for as long as the lab runs; when it is started
/// again it is another process with the same number.
pub(crate) struct Worker {
    /// The image's name in the lab.
    pub(crate) image: Option<String>,
    /// The image's file.
    pub(crate) path: PathBuf,
    /// Counts its processes: what is told by one that is gone does not concern the next.
    pub(crate) generation: u64,
    /// None if it has died or is not started yet.
    pub(crate) link: Option<Link>,
    pub(crate) pid: Option<u32>,
    pub(crate) release: String,
    pub(crate) machines: usize,
    /// Why it died.
    pub(crate) error: Option<String>,
    /// Told when the process has been waited for.
    pub(crate) gone: Option<oneshot::Receiver<()>>,
    /// It has all names of the lab.
    pub(crate) knows_hosts: bool,
}

/// A worker that has just been started.
pub(crate) struct Started {
    pub(crate) link: Link,
    pub(crate) said: mpsc::UnboundedReceiver<Said>,
    pub(crate) child: Child,
    pub(crate) pid: u32,
    pub(crate) release: String,
}

impl Lab {
    /// Starts the process of a worker and waits until its kernel has booted.
    pub(crate) async fn start_worker(
        self: &Arc<Lab>,
        path: &std::path::Path,
        memory: u64,
        seed: Option<u64>,
        time: Time,
    ) -> Result<Started, Fault> {
        let what = format!("starting a worker with {}", path.display());
        let host = |error| Fault::host(&what, error);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(host)?;
        let theirs = OwnedFd::from(theirs);
        let number = theirs.as_raw_fd();
        let mut command = Command::new(&self.hooks.executable);
        command
            .arg("lab-worker")
            .args(["--socket", &number.to_string()])
            .arg("--image")
            .arg(path)
            .args(["--memory", &memory.to_string()])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        if let Some(seed) = seed {
            command.args(["--seed", &seed.to_string()]);
        }
        if time != Time::Real {
            command.arg("--virtual-time");
        }
        if let Time::Virtual(Virtual {
            call: Some(call), ..
        }) = time
        {
            command.args(["--call", &call.0.to_string()]);
        }
        if let Time::Virtual(Virtual { rdtsc: true, .. }) = time {
            command.arg("--rdtsc");
        }
        // SAFETY: one system call without memory, between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            })
        };
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.runtime.join("workers"))
            .map_err(host)?;
        let log_path = self.runtime.join("workers");
        let logged = std::fs::metadata(&log_path).map_or(0, |log| log.len());
        command.stderr(log);
        let mut child = command.spawn().map_err(host)?;
        drop(theirs);
        let pid = child.id().unwrap_or_default();
        ours.set_nonblocking(true).map_err(host)?;
        let (link, mut said) = Link::new(tokio::net::UnixStream::from_std(ours).map_err(host)?);
        match said.recv().await {
            Some(Said::Ready { protocol, release }) if protocol == protocol::VERSION => {
                Ok(Started {
                    link,
                    said,
                    child,
                    pid,
                    release,
                })
            }
            Some(Said::Ready { .. }) => Err(Fault::conflict(format!(
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
                Err(Fault::invalid(format!("{what}: {words}")))
            }
        }
    }

    /// Starts a worker and from then on listens to it.
    pub(crate) async fn boot(self: &Arc<Lab>, number: usize) -> Result<(), Fault> {
        let (path, memory, seed, time) = {
            let state = self.state();
            let path = state.workers[number].path.clone();
            let memory = state.spec.memory.as_deref().unwrap_or("256M");
            let time = state.spec.time;
            (path, memory_bytes(memory), state.spec.seed, time)
        };
        let memory = memory.ok_or_else(|| {
            Fault::invalid("the lab's memory is no size").hint("write it like 64M or 4G")
        })?;
        let started = self.start_worker(&path, memory, seed, time).await?;
        let (gone, is_gone) = oneshot::channel();
        let generation = {
            let mut state = self.state();
            let worker = &mut state.workers[number];
            worker.generation += 1;
            worker.link = Some(started.link);
            worker.pid = Some(started.pid);
            worker.release = started.release;
            worker.error = None;
            worker.gone = Some(is_gone);
            worker.knows_hosts = false;
            let generation = worker.generation;
            state.clock.begin(time);
            generation
        };
        let lab = self.clone();
        let (mut said, mut child) = (started.said, started.child);
        tokio::spawn(async move {
            let mut last_words = None;
            while let Some(next) = said.recv().await {
                if let Said::Event(event) = next {
                    lab.happened(number, generation, event, &mut last_words);
                }
            }
            let status = match tokio::time::timeout(PATIENCE, child.wait()).await {
                Ok(status) => status,
                Err(_) => {
                    let _ = child.start_kill();
                    child.wait().await
                }
            };
            lab.worker_ended(number, generation, status, last_words);
            // Nobody may wait for it.
            let _ = gone.send(());
        });
        let breakpoints: Vec<Action> = {
            let state = self.state();
            let all = state.spec.breakpoints.iter();
            all.map(|(name, spec)| state.breakpoint(name, spec))
                .collect()
        };
        for breakpoint in breakpoints {
            self.have(number, breakpoint, Vec::new()).await?;
        }
        self.begin_record(number, &path).await
    }

    /// Asks a worker for something.
    pub(crate) fn ask(
        &self,
        worker: usize,
        action: Action,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Asked, Fault> {
        match &self.state().workers[worker].link {
            Some(link) => Ok(link.ask(action, descriptors)),
            None => Err(self.is_dead()),
        }
    }

    /// Asks and waits for the answer.
    pub(crate) async fn have(
        &self,
        worker: usize,
        action: Action,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, Fault> {
        let asked = self.ask(worker, action, descriptors)?;
        self.read(asked.answer().await)
    }

    /// An answer, or the refusal in words.
    pub(crate) fn read(&self, answer: Result<Answer, Refusal>) -> Result<Answer, Fault> {
        answer.map_err(|refusal| match refusal {
            Refusal::Failed(error) => Fault::invalid(error),
            Refusal::Dead => self.is_dead(),
        })
    }

    /// What is asked for needs a worker that has died.
    pub(crate) fn is_dead(&self) -> Fault {
        let error = format!("a worker of lab {} has died", self.name);
        Fault::conflict(error).hint(format!(
            "vink lab ps {0} says why, vink lab restart --lab {0} boots it again",
            self.name
        ))
    }

    /// Ends a worker's process and waits for that.
    pub(crate) async fn end_worker(&self, number: usize) {
        let gone = {
            let mut state = self.state();
            let worker = &mut state.workers[number];
            // From here on what it says does not count.
            worker.generation += 1;
            worker.pid = None;
            worker.link = None;
            worker.gone.take()
        };
        if let Some(gone) = gone {
            let _ = gone.await;
        }
    }
}
