//! The control process's way to a host: the program that leads there, what is asked of the agent,
//! and what becomes of it all when the host is lost.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use vink_protocol::{
    Action, FromHost, Given, Hello, Request, ToHost, WorkerConfig, HOST_VERSION, VERSION,
};
use vink_spec::HostSpec;
use vink_sys::child::{prepare, Step};
use vink_sys::terminal::{self, Mode, When};

use super::mux::{Mux, StreamReader};
use super::{ALIVE_INTERVAL, GREETING, SILENCE_HERE};
use crate::http_error::HttpError;

/// How long a host may take to greet: ssh gives up before.
const GREETING_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that may come before the greeting: what a shell's start-up files print.
const MAX_NOISE: usize = 64 << 10;
/// How long the program that leads there may take to end once the agent's input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(75);
/// The last bytes of what it says that are kept.
const MAX_WORDS: usize = 4096;
/// Of these a person reads the last.
const MAX_LINES: usize = 5;

/// A descriptor that goes with a request: one of this process, or one that a host has.
pub(crate) enum Descriptor {
    Here(OwnedFd),
    /// A bound socket.
    Socket(u64),
    /// A part of a half of a wire there.
    Half {
        wire: u64,
        side: usize,
        part: usize,
    },
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Descriptor {
        Descriptor::Here(descriptor)
    }
}

impl Descriptor {
    /// `None`: a host has it.
    pub(crate) fn here(self) -> Option<OwnedFd> {
        match self {
            Descriptor::Here(descriptor) => Some(descriptor),
            _ => None,
        }
    }
}

/// What becomes of a request's descriptors.
#[derive(Default)]
pub(crate) struct Carried {
    given: Vec<Given>,
    /// Streams that come from there.
    pub(crate) outputs: Vec<u32>,
    /// Those that go there, once the request has gone, and what they are read from.
    inputs: Vec<(u32, OwnedFd)>,
}

/// A worker that has been started on a host.
pub(crate) struct RemoteWorker {
    pub(crate) number: u64,
    pub(crate) pid: u32,
    pub(crate) image: String,
    pub(crate) messages: StreamReader,
    pub(crate) watchdog: StreamReader,
    pub(crate) process: RemoteProcess,
}

/// Its process.
pub(crate) struct RemoteProcess {
    link: Arc<HostLink>,
    ended: oneshot::Receiver<String>,
}

impl RemoteProcess {
    /// Waits for its end, and how that was.
    pub(crate) async fn wait(&mut self) -> String {
        tokio::select! {
            biased;
            how = &mut self.ended => match how {
                Ok(how) => format!("on host {}: {how}", self.link.name),
                Err(_) => self.link.lost().await,
            },
            lost = self.link.lost() => lost,
        }
    }
}

type Started = Result<(u32, String), String>;

/// What is waited for, by numbers of workers and sockets.
#[derive(Default)]
struct Waiting {
    started: HashMap<u64, oneshot::Sender<Started>>,
    ended: HashMap<u64, oneshot::Sender<String>>,
    bound: HashMap<u64, oneshot::Sender<Result<u16, String>>>,
    /// Streams of terminals, by what identifies those here.
    terminals: HashMap<(u64, u64), u32>,
}

/// A host that is there, or was.
pub(crate) struct HostLink {
    pub(crate) name: String,
    pub(crate) spec: HostSpec,
    pub(crate) hello: Hello,
    mux: Arc<Mux>,
    next: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Why it is lost.
    lost: watch::Sender<Option<String>>,
    /// It is to be closed.
    closing: watch::Sender<bool>,
}

/// The last that a program has written to its error output.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<VecDeque<u8>>>);

impl Words {
    async fn listen(self, mut errors: impl AsyncRead + Unpin) {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = errors.read(&mut buffer).await {
            let mut words = self.0.lock().expect("no panic while it is held");
            words.extend(&buffer[..count]);
            let excess = words.len().saturating_sub(MAX_WORDS);
            words.drain(..excess);
        }
    }

    fn text(&self) -> String {
        let mut words = self.0.lock().expect("no panic while it is held");
        let text = String::from_utf8_lossy(words.make_contiguous()).into_owned();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.collect();
        lines[lines.len().saturating_sub(MAX_LINES)..].join("; ")
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// What leads to `vink lab-host` on a host.
fn command_of(spec: &HostSpec) -> Vec<String> {
    let vink = spec.vink.as_deref().unwrap_or("vink");
    let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|w| (*w).to_owned()).collect() };
    match &spec.ssh {
        Some(name) => {
            let mut words = owned(&[
                "ssh",
                "-T",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=15",
            ]);
            words.extend(owned(&["-o", "ServerAliveInterval=5", "--", name]));
            words.push(format!("exec {} lab-host", quoted(vink)));
            words
        }
        None => {
            let mut words = spec.command.clone();
            words.extend(owned(&[vink, "lab-host"]));
            words
        }
    }
}

/// Why there is no agent, and what to do.
fn refusal(name: &str, spec: &HostSpec, status: &str, words: &str) -> HttpError {
    let command = command_of(spec);
    let program = match &spec.ssh {
        Some(ssh) => format!("ssh {ssh}"),
        None => command[0].clone(),
    };
    let vink = spec.vink.as_deref().unwrap_or("vink");
    let said = if words.is_empty() { "" } else { ": " };
    let error =
        format!("host {name}: {program} has ended ({status}) before vink greeted{said}{words}");
    let version = env!("CARGO_PKG_VERSION");
    let hint = if words.contains("lab-host") && words.contains("subcommand") {
        format!("{vink} there is older than this one: install {version} there, too")
    } else if words.contains("not found") || words.contains("No such file") {
        format!("install vink {version} there, or say where it is: `vink: PATH` of host {name}")
    } else if spec.ssh.is_some() {
        format!(
            "`{program} -o BatchMode=yes {vink} version` has to work without a question: ssh-copy-id gives it your key, and a first `{program}` its own"
        )
    } else {
        format!("`{}` has to start `vink lab-host`", command.join(" "))
    };
    HttpError::conflict(error).hint(hint)
}

impl HostLink {
    /// Starts the agent of a host, by a program that has this environment and begins in this folder.
    ///
    /// # Errors
    /// What the program said when it ended; that `vink` there is another.
    pub(crate) async fn connect(
        name: &str,
        spec: &HostSpec,
        env: &IndexMap<String, String>,
        folder: &Path,
    ) -> Result<Arc<HostLink>, HttpError> {
        let words = command_of(spec);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .envs(env)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C at a terminal is for the control process, which ends it.
        prepare(command.as_std_mut(), [Step::Session, Step::UnblockAll]);
        let started = command.spawn();
        let mut child = started.map_err(|error| {
            HttpError::conflict(format!("host {name}: starting {}: {error}", words[0]))
        })?;
        let (input, mut output) = (child.stdin.take(), child.stdout.take());
        let said = Words::default();
        let errors = child.stderr.take().expect("it is piped");
        let hearing = tokio::spawn(said.clone().listen(errors));
        let greeted = async {
            match &mut output {
                Some(output) => greeting(output).await,
                None => false,
            }
        };
        let greeted = tokio::time::timeout(GREETING_TIMEOUT, greeted).await;
        let (Ok(true), Some(input), Some(output)) = (greeted, input, output) else {
            let status = match tokio::time::timeout(Duration::from_secs(1), child.wait()).await {
                Ok(Ok(status)) => status.to_string(),
                _ => "it was killed after a minute".to_owned(),
            };
            let _ = child.start_kill();
            let _ = tokio::time::timeout(Duration::from_secs(1), hearing).await;
            return Err(refusal(name, spec, &status, &said.text()));
        };
        let (mux, mut messages) = Mux::start(output, input);
        let first = tokio::time::timeout(SILENCE_HERE, messages.recv()).await;
        let hello = match first {
            Ok(Some(text)) => serde_json::from_slice(&text).ok(),
            _ => None,
        };
        let own = env!("CARGO_PKG_VERSION");
        let same = |hello: &Hello| {
            (hello.version, hello.protocol, hello.vink.as_str()) == (HOST_VERSION, VERSION, own)
        };
        let hello = match hello {
            Some(FromHost::Hello(hello)) if same(&hello) => hello,
            Some(FromHost::Hello(hello)) => {
                let version = |vink: &str, protocol: u32| format!("{vink} (protocol {protocol})");
                let theirs = version(&hello.vink, hello.protocol);
                let error = format!(
                    "host {name}: vink there is {theirs}, and this is {}",
                    version(own, VERSION)
                );
                return Err(HttpError::conflict(error).hint("install the same on both"));
            }
            _ => {
                let error = format!("host {name}: what answers there is another version of vink");
                let hint = format!("install {own} there, too");
                return Err(HttpError::conflict(error).hint(hint));
            }
        };
        let link = Arc::new(HostLink {
            name: name.to_owned(),
            spec: spec.clone(),
            hello,
            mux,
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            lost: watch::Sender::new(None),
            closing: watch::Sender::new(false),
        });
        tokio::spawn(link.clone().attend(child, messages, (said, hearing)));
        Ok(link)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no panic while it is held")
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a wire between two workers there.
    pub(crate) fn wire_number(&self) -> u64 {
        self.number()
    }

    fn stream(&self) -> u32 {
        self.number() as u32
    }

    /// Waits until it is lost, and tells why.
    pub(crate) async fn lost(&self) -> String {
        let mut lost = self.lost.subscribe();
        let why = lost.wait_for(Option::is_some).await;
        let why = why.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| format!("host {} is lost", self.name))
    }

    /// Whether it is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }

    /// Ends the agent with all its workers, and waits for that.
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        self.mux.close();
        self.lost().await;
    }

    /// Messages of the agent, until it has gone or is silent.
    async fn attend(
        self: Arc<HostLink>,
        mut child: Child,
        mut messages: mpsc::UnboundedReceiver<Vec<u8>>,
        (said, hearing): (Words, JoinHandle<()>),
    ) {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(ALIVE_INTERVAL);
        let silent = loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.take(&message),
                    None => break false,
                },
                _ = ticks.tick() => {
                    self.mux.send(&ToHost::Alive);
                    let limit = match *self.closing.borrow() {
                        // It ends its workers.
                        true => EXIT_TIMEOUT,
                        false => SILENCE_HERE,
                    };
                    if self.mux.heard().unwrap_or(began).elapsed() > limit {
                        break true;
                    }
                }
            }
        };
        self.mux.close();
        self.mux.end();
        let status = match silent {
            true => None,
            false => tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.ok(),
        };
        let why = match status {
            None if silent => format!("nothing has come from it for {} s", SILENCE_HERE.as_secs()),
            None => "the program that leads there does not end".to_owned(),
            Some(status) => {
                let _ = tokio::time::timeout(Duration::from_secs(1), hearing).await;
                match (said.text(), status) {
                    (words, _) if !words.is_empty() => words,
                    (_, Ok(status)) => format!("the way there has ended ({status})"),
                    (_, Err(error)) => error.to_string(),
                }
            }
        };
        // It ends by SIGKILL, if it runs still.
        let _ = child.kill().await;
        self.lost
            .send_replace(Some(format!("host {} is lost: {why}", self.name)));
        let mut waiting = self.waiting();
        *waiting = Waiting::default();
    }

    fn take(&self, message: &[u8]) {
        let message = match serde_json::from_slice(message) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(target: "control", "host {}: {error}", self.name);
                return;
            }
        };
        let mut waiting = self.waiting();
        match message {
            FromHost::Hello(_) | FromHost::Alive => {}
            FromHost::Started { worker, pid, image } => {
                if let Some(started) = waiting.started.remove(&worker) {
                    let _ = started.send(Ok((pid, image)));
                }
            }
            FromHost::Ended { worker, how, left } => {
                let how = match left.is_empty() {
                    true => how,
                    false => format!("{how}; killed processes are still there: {left:?}"),
                };
                if let Some(started) = waiting.started.remove(&worker) {
                    let _ = started.send(Err(how.clone()));
                }
                if let Some(ended) = waiting.ended.remove(&worker) {
                    let _ = ended.send(how);
                }
            }
            FromHost::Bound { socket, port } => {
                if let Some(bound) = waiting.bound.remove(&socket) {
                    let _ = bound.send(port);
                }
            }
        }
    }

    /// Starts a worker.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn start(
        self: &Arc<HostLink>,
        image: Option<String>,
        config: WorkerConfig,
    ) -> Result<RemoteWorker, String> {
        let number = self.number();
        let (messages, watchdog) = (self.stream(), self.stream());
        let (start, started) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            waiting.started.insert(number, start);
            waiting.ended.insert(number, end);
        }
        let reading = (self.mux.receive(messages), self.mux.receive(watchdog));
        self.mux.send(&ToHost::Start {
            worker: number,
            image,
            config,
            messages,
            watchdog,
        });
        let started = tokio::select! {
            Ok(started) = started => started,
            lost = self.lost() => Err(lost),
        };
        let (pid, image) = started?;
        Ok(RemoteWorker {
            number,
            pid,
            image,
            messages: reading.0,
            watchdog: reading.1,
            process: RemoteProcess {
                link: self.clone(),
                ended,
            },
        })
    }

    /// Ends a worker.
    pub(crate) fn end(&self, worker: u64) {
        self.mux.send(&ToHost::End { worker });
    }

    /// What stands there for the descriptors of a request.
    ///
    /// # Errors
    /// A descriptor can't be carried.
    pub(crate) fn carry(
        self: &Arc<HostLink>,
        action: &Action,
        descriptors: Vec<Descriptor>,
    ) -> io::Result<Carried> {
        let has_input = matches!(action, Action::Spawn(_));
        let mut carried = Carried::default();
        let mut known = Vec::new();
        for (at, descriptor) in descriptors.into_iter().enumerate() {
            let descriptor = match descriptor {
                Descriptor::Here(descriptor) => descriptor,
                Descriptor::Socket(number) => {
                    carried.given.push(Given::Socket(number));
                    known.push((0, 0));
                    continue;
                }
                Descriptor::Half { wire, side, part } => {
                    carried.given.push(Given::Half { wire, side, part });
                    known.push((0, 0));
                    continue;
                }
            };
            let identity = vink_sys::fd::identity(descriptor.as_raw_fd());
            let same = known.iter().position(|other| *other == identity);
            known.push(identity);
            let given = match same {
                Some(same) => Given::Same(same),
                None => self.give(descriptor, identity, has_input && at == 0, &mut carried)?,
            };
            carried.given.push(given);
        }
        Ok(carried)
    }

    /// Sends a request to a worker.
    pub(crate) fn ask(self: &Arc<HostLink>, worker: u64, request: Request, carried: Carried) {
        self.mux.send(&ToHost::Ask {
            worker,
            request,
            given: carried.given,
        });
        for (stream, input) in carried.inputs {
            if let Err(error) = self.mux.from_descriptor(stream, input) {
                tracing::warn!(target: "control", "a program's input: {error}");
            }
        }
    }

    fn give(
        &self,
        descriptor: OwnedFd,
        identity: (u64, u64),
        is_input: bool,
        carried: &mut Carried,
    ) -> io::Result<Given> {
        if let Ok(mode) = Mode::of(&descriptor) {
            // The one there does what terminals do.
            mode.raw().set(&descriptor, When::Now)?;
            let (rows, columns) = terminal::size(&descriptor).unwrap_or((24, 80));
            let stream = self.stream();
            self.mux.to_descriptor(stream, descriptor.try_clone()?)?;
            {
                let terminals = &mut self.waiting().terminals;
                terminals.retain(|_, stream| self.mux.is_receiving(*stream));
                terminals.insert(identity, stream);
            }
            carried.inputs.push((stream, descriptor));
            carried.outputs.push(stream);
            return Ok(Given::Terminal {
                stream,
                rows,
                columns,
            });
        }
        let kind = vink_sys::fd::stat(descriptor.as_raw_fd())?.st_mode & libc::S_IFMT;
        if kind == libc::S_IFCHR {
            return Ok(Given::Nothing);
        }
        let stream = self.stream();
        if is_input {
            carried.inputs.push((stream, descriptor));
            return Ok(Given::Input(stream));
        }
        self.mux.to_descriptor(stream, descriptor)?;
        carried.outputs.push(stream);
        Ok(Given::Output(stream))
    }

    /// All that was written to this stream until now has been written here when this returns.
    pub(crate) async fn flush(&self, stream: u32) {
        self.mux.flush(stream).await;
    }

    /// The size of the terminal that has this identity here.
    pub(crate) fn resize(&self, identity: (u64, u64), rows: u16, columns: u16) {
        let stream = self.waiting().terminals.get(&identity).copied();
        if let Some(stream) = stream {
            self.mux.send(&ToHost::Resize {
                stream,
                rows,
                columns,
            });
        }
    }

    /// Binds a UDP socket there: its number and its port.
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn bind(&self, v6: bool) -> Result<(u64, u16), String> {
        let socket = self.number();
        let (bind, bound) = oneshot::channel();
        self.waiting().bound.insert(socket, bind);
        let port = self.spec.port;
        self.mux.send(&ToHost::Bind { socket, v6, port });
        let bound = tokio::select! {
            Ok(bound) = bound => bound,
            lost = self.lost() => Err(lost),
        };
        Ok((socket, bound?))
    }
}

/// Reads up to the agent's greeting; false at the end, or if it does not come.
async fn greeting(output: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut last = VecDeque::with_capacity(GREETING.len());
    for _ in 0..MAX_NOISE {
        let Ok(byte) = output.read_u8().await else {
            return false;
        };
        if last.len() == GREETING.len() {
            last.pop_front();
        }
        last.push_back(byte);
        if last.iter().eq(GREETING) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_before_the_greeting_is_not_read() {
        for noise in ["", "Welcome\n", "no line", "\nvink lab-host \n"] {
            let text = [noise.as_bytes(), GREETING, b"rest"].concat();
            let mut rest = &text[..];
            assert!(greeting(&mut rest).await, "{noise:?}");
            assert_eq!(rest, b"rest");
        }
        assert!(!greeting(&mut &b"vink: error: unrecognized subcommand\n"[..]).await);
        assert!(!greeting(&mut &vec![b'x'; MAX_NOISE + 100][..]).await);
    }

    #[test]
    fn commands() {
        let mut spec = HostSpec {
            ssh: Some("user@lab2".to_owned()),
            vink: Some("/opt/my vink".to_owned()),
            ..HostSpec::default()
        };
        let words = command_of(&spec);
        assert_eq!(
            words[words.len() - 2..],
            ["user@lab2", "exec '/opt/my vink' lab-host"]
        );
        spec.ssh = None;
        spec.command = ["kubectl", "exec", "-i", "pod", "--"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(command_of(&spec)[5..], ["/opt/my vink", "lab-host"]);
    }
}
