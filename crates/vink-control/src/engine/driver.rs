//! Driver processes of a lab's wires: started with the uplink, started again when they end.
//!
//! A worker answers a driver by a socket whose both ends this process keeps. So a worker that is
//! started again gets the same socket, and a driver that is started again asks by it.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use vink_api::Happening;
use vink_port::{said_with, Backoff, HostEnds, Launch};
use vink_spec::{ShareGrant, Uplink};

use super::lab::Lab;
use crate::http_error::HttpError;

/// How long a driver may take to end by itself before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The last bytes of what a driver says that are kept.
const MAX_WORDS: usize = 4096;

/// The driver of a wire, whichever process it is now.
pub(crate) struct WireDriver {
    words: Vec<String>,
    /// What its machine has got of the host's address, if that is what it leads to.
    share: Option<ShareGrant>,
    /// The ends of its sockets that a worker has.
    host: HostEnds,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// A process of it.
struct Started {
    child: Child,
    said: JoinHandle<String>,
    began: Instant,
}

impl WireDriver {
    /// Ends it, and waits for its end.
    pub(crate) async fn end(self) {
        let _ = self.stop.send(());
        // It has ended, however.
        let _ = self.task.await;
    }
}

impl Lab {
    /// Starts the driver of a wire, unless it runs: its worker's ends, and what it has got of the host's
    /// address.
    ///
    /// # Errors
    /// What the driver said when it ended.
    pub(crate) async fn driver(
        self: &Arc<Lab>,
        wire: &str,
        uplink: &Uplink,
        words: Vec<String>,
    ) -> Result<(HostEnds, Option<ShareGrant>), HttpError> {
        let what = format!("wire {wire}: its driver process");
        let host = |error| HttpError::host(&what, error);
        let before = self.state().drivers.remove(wire);
        match before {
            Some(same) if same.words == words => {
                let socket = same.host.try_clone().map_err(host)?;
                let share = same.share.clone();
                self.state().drivers.insert(wire.to_owned(), same);
                return Ok((socket, share));
            }
            Some(other) => other.end().await,
            None => {}
        }
        let (launch, host_end) = Launch::new(uplink.has_ports_on_demand()).map_err(host)?;
        let mut started = self.start_driver(&launch, &words).map_err(host)?;
        let Some(said) = is_ready(&mut started.child).await else {
            let why = started.words().await;
            return Err(HttpError::invalid(format!("{what}: {why}")));
        };
        let share: Option<ShareGrant> = serde_json::from_str(&said).ok();
        // One that is started again gets the same.
        let mut again = words.clone();
        if share.is_some() {
            again.extend(["--again".to_owned(), said]);
        }
        let socket = host_end.try_clone().map_err(host)?;
        let (stop, stopped) = oneshot::channel();
        let supervision =
            self.clone()
                .keep_driver(wire.to_owned(), launch, again, started, stopped);
        let driver = WireDriver {
            words,
            share: share.clone(),
            host: host_end,
            stop,
            task: tokio::spawn(supervision),
        };
        self.state().drivers.insert(wire.to_owned(), driver);
        Ok((socket, share))
    }

    /// Ends the driver of a wire, if it has one.
    pub(crate) async fn end_driver(&self, wire: &str) {
        let driver = self.state().drivers.remove(wire);
        if let Some(driver) = driver {
            driver.end().await;
        }
    }

    /// Ends all of them, at once.
    pub(crate) async fn end_drivers(&self) {
        let drivers = std::mem::take(&mut self.state().drivers);
        futures_util::future::join_all(drivers.into_values().map(WireDriver::end)).await;
    }

    fn start_driver(&self, launch: &Launch, words: &[String]) -> std::io::Result<Started> {
        let mut command = launch.command(&self.hooks.executable, words);
        command.current_dir(&self.folder);
        command.stderr(std::process::Stdio::piped());
        let mut command = Command::from(command);
        let mut child = command.kill_on_drop(true).spawn()?;
        let errors = child.stderr.take().expect("it is piped");
        Ok(Started {
            child,
            said: tokio::spawn(last_words(errors)),
            began: Instant::now(),
        })
    }

    /// Starts a driver again when it has ended, until it is to end.
    async fn keep_driver(
        self: Arc<Lab>,
        wire: String,
        launch: Launch,
        words: Vec<String>,
        first: Started,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut backoff = Backoff::default();
        let mut running = Some(first);
        loop {
            let (why, ran) = match running.take() {
                Some(mut started) => {
                    tokio::select! {
                        _ = started.child.wait() => {}
                        _ = &mut stop => return started.end(launch).await,
                    }
                    let ran = started.began.elapsed();
                    (started.words().await, ran)
                }
                None => ("it can't be started".to_owned(), Duration::ZERO),
            };
            self.driver_ended(&wire, &why);
            tokio::select! {
                () = tokio::time::sleep(backoff.after(ran)) => {}
                _ = &mut stop => return,
            }
            running = self.start_driver(&launch, &words).ok();
        }
    }

    fn driver_ended(&self, wire: &str, why: &str) {
        let error = format!("its driver process: {why}; it is started again");
        if let Some(placement) = self.state().wires.get_mut(wire) {
            placement.uplink_error = Some(error.clone());
        }
        self.tell(Happening::Uplink {
            wire: wire.to_owned(),
            error: Some(error),
        });
    }
}

impl Started {
    /// Why it has ended: what it said last, or its status.
    async fn words(mut self) -> String {
        let status = self.child.wait().await;
        let said = self.said.await.unwrap_or_default();
        let said = said.trim();
        let (said, status) = (said.strip_prefix("vink: ").unwrap_or(said), status.ok());
        match status {
            // Not by itself, and what it said before has nothing to do with it.
            Some(status) if status.signal().is_some() => format!("it ended with {status}"),
            Some(status) if said.is_empty() => format!("it ended with {status}"),
            _ => said.to_owned(),
        }
    }

    /// Has it end.
    async fn end(mut self, launch: Launch) {
        drop(launch);
        let ended = tokio::time::timeout(EXIT_TIMEOUT, self.child.wait()).await;
        if ended.is_err() {
            // It does not move, or was stopped.
            let _ = self.child.kill().await;
        }
    }
}

/// Waits until it has opened what it leads to, and what it says with that; `None` if it has ended
/// before.
async fn is_ready(child: &mut Child) -> Option<String> {
    let output = child.stdout.take()?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await.ok()?;
    said_with(&line)
}

/// Reads what a driver says to its end, and keeps the last of it.
async fn last_words(mut errors: ChildStderr) -> String {
    let (mut text, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        text.extend_from_slice(&buffer[..count]);
        text.drain(..text.len().saturating_sub(MAX_WORDS));
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().last().unwrap_or_default().to_owned()
}
