//! `vink lab-host`: what the control process of another host starts here. It starts workers, gives
//! requests on to them, and makes the descriptors that go with these.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::{Child, ChildStderr};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use vink_protocol::{
    encode, send_with, FromHost, Given, Hello, ToHost, WorkerConfig, HOST_VERSION,
};

use super::mux::Mux;
use super::{ALIVE_INTERVAL, GREETING, SILENCE_THERE};
use crate::engine::{nothing, shuts_down, ProcessTree, Stage, WorkerProcess};

/// How many ports are tried from the first one on.
const PORTS: u16 = 1000;
/// The last bytes of what a worker says that are kept.
const MAX_WORDS: usize = 4096;
/// How long a worker that has closed its socket may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);
/// ... and one that was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves the control process at this program's input and output until the input ends; then all
/// workers have ended, too. `executable` is `vink` itself.
///
/// # Errors
/// The input or output can't be used.
pub fn serve(executable: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(converse(executable));
    // A read of the input may still be waiting.
    runtime.shutdown_background();
    done
}

struct Agent {
    mux: Arc<Mux>,
    executable: PathBuf,
    folder: PathBuf,
    workers: HashMap<u64, Worker>,
    sockets: HashMap<u64, UdpSocket>,
    halves: HashMap<u64, [[Option<OwnedFd>; 3]; 2]>,
    /// The masters of terminals, by their streams.
    terminals: HashMap<u32, File>,
    /// What waits for workers' ends.
    ends: JoinSet<()>,
}

/// A worker's way in; when it is dropped, the worker ends.
struct Worker(mpsc::UnboundedSender<(Vec<u8>, Vec<OwnedFd>)>);

async fn converse(executable: &Path) -> io::Result<()> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    output.write_all(GREETING)?;
    let (input, output) = (
        tokio::fs::File::from_std(input),
        tokio::fs::File::from_std(output),
    );
    let (mux, mut messages) = Mux::start(input, output);
    let folder = std::env::current_dir()?;
    let env = std::env::vars_os();
    let hello = Hello {
        version: HOST_VERSION,
        protocol: vink_protocol::VERSION,
        vink: env!("CARGO_PKG_VERSION").to_owned(),
        address: ssh_address(),
        env: env
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        folder: folder.display().to_string(),
    };
    mux.send(&FromHost::Hello(hello));
    let mut agent = Agent {
        mux: mux.clone(),
        executable: executable.to_owned(),
        folder,
        workers: HashMap::new(),
        sockets: HashMap::new(),
        halves: HashMap::new(),
        terminals: HashMap::new(),
        ends: JoinSet::new(),
    };
    let began = Instant::now();
    let mut ticks = tokio::time::interval(ALIVE_INTERVAL);
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => agent.take(&message),
                None => break,
            },
            _ = ticks.tick() => {
                mux.send(&FromHost::Alive);
                if mux.heard().unwrap_or(began).elapsed() > SILENCE_THERE {
                    break;
                }
            }
        }
    }
    mux.end();
    agent.workers.clear();
    while agent.ends.join_next().await.is_some() {}
    Ok(())
}

/// This host's address in the connection that sshd has accepted; see ssh(1), "ENVIRONMENT".
fn ssh_address() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split(' ').nth(2)?.parse().ok()
}

impl Agent {
    fn take(&mut self, message: &[u8]) {
        let message = match serde_json::from_slice(message) {
            Ok(message) => message,
            Err(error) => {
                // The other side has found that it is another version.
                eprintln!("vink: a message that can't be read: {error}");
                return;
            }
        };
        match message {
            ToHost::Alive => {}
            ToHost::Start {
                worker,
                image,
                config,
                messages,
                watchdog,
            } => {
                let started = self.start(worker, image, config, (messages, watchdog));
                if let Err(how) = started {
                    self.mux.send(&FromHost::Ended {
                        worker,
                        how,
                        left: Vec::new(),
                    });
                }
            }
            ToHost::Ask {
                worker,
                request,
                given,
            } => {
                let Some(Worker(requests)) = self.workers.get(&worker) else {
                    return;
                };
                let requests = requests.clone();
                match self.make(&given) {
                    Ok(descriptors) => {
                        let mut frame = Vec::new();
                        encode(&request, &mut frame);
                        let _ = requests.send((frame, descriptors));
                    }
                    Err(error) => {
                        // Its answer would never come.
                        eprintln!("vink: a request's descriptors: {error}");
                        self.workers.remove(&worker);
                    }
                }
            }
            ToHost::End { worker } => {
                self.workers.remove(&worker);
            }
            ToHost::Bind { socket, v6, port } => {
                let port = match bind(v6, port) {
                    Ok((bound, port)) => {
                        self.sockets.insert(socket, bound);
                        Ok(port)
                    }
                    Err(error) => Err(error.to_string()),
                };
                self.mux.send(&FromHost::Bound { socket, port });
            }
            ToHost::Resize {
                stream,
                rows,
                columns,
            } => {
                if let Some(master) = self.terminals.get(&stream) {
                    // Its program may have gone.
                    let _ = vink_sys::terminal::resize(master, rows, columns);
                }
            }
        }
    }

    /// Starts a worker's process, and what carries what it says.
    fn start(
        &mut self,
        number: u64,
        image: Option<String>,
        mut config: WorkerConfig,
        (messages, watchdog): (u32, u32),
    ) -> Result<(), String> {
        config.image = find_image(&self.folder, image)?;
        let failed = |error: io::Error| format!("starting a worker: {error}");
        let mut process =
            WorkerProcess::spawn(&self.executable, &self.folder, &config, Stdio::piped())
                .map_err(failed)?;
        let errors = process.child.stderr.take().expect("it is piped");
        self.mux.send(&FromHost::Started {
            worker: number,
            pid: process.pid,
            image: config.image.display().to_string(),
        });
        let reading = process.socket.as_fd().try_clone_to_owned();
        let hearing = reading.and_then(|reading| self.mux.from_descriptor(messages, reading));
        let hearing = hearing.map_err(failed)?;
        self.mux
            .from_descriptor(watchdog, process.watchdog)
            .map_err(failed)?;
        let (_, write) = process.socket.into_split();
        let (requests, outgoing) = mpsc::unbounded_channel();
        self.workers.insert(number, Worker(requests));
        let mux = self.mux.clone();
        let words = tokio::spawn(last_words(errors));
        self.ends.spawn(async move {
            let process = (process.child, process.pid);
            let (how, left) = attend(outgoing, write, process, hearing).await;
            let words = tokio::time::timeout(Duration::from_secs(1), words).await;
            let words = words.map(Result::unwrap_or_default).unwrap_or_default();
            let how = match words.trim() {
                "" => how,
                words => words.strip_prefix("vink: ").unwrap_or(words).to_owned(),
            };
            mux.send(&FromHost::Ended {
                worker: number,
                how,
                left,
            });
        });
        Ok(())
    }

    /// The descriptors that go with a request.
    fn make(&mut self, given: &[Given]) -> io::Result<Vec<OwnedFd>> {
        let gone = |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("{what} is gone"));
        let mut made: Vec<OwnedFd> = Vec::with_capacity(given.len());
        for each in given {
            let descriptor = match each {
                Given::Nothing => nothing()?,
                Given::Input(stream) => {
                    let (theirs, ours) = vink_sys::fd::pipe()?;
                    self.mux.to_descriptor(*stream, ours)?;
                    theirs
                }
                Given::Output(stream) => {
                    let (ours, theirs) = vink_sys::fd::pipe()?;
                    self.mux.from_descriptor(*stream, ours)?;
                    theirs
                }
                Given::Terminal {
                    stream,
                    rows,
                    columns,
                } => {
                    let (master, slave) = vink_sys::terminal::open(*rows, *columns)?;
                    self.mux
                        .from_descriptor(*stream, master.try_clone()?.into())?;
                    self.mux
                        .to_descriptor(*stream, master.try_clone()?.into())?;
                    self.terminals
                        .retain(|stream, _| self.mux.is_sending(*stream));
                    self.terminals.insert(*stream, master);
                    slave
                }
                Given::Same(at) => {
                    let same = made.get(*at).ok_or_else(|| gone("a descriptor"))?;
                    same.try_clone()?
                }
                Given::Socket(number) => {
                    let socket = self.sockets.remove(number);
                    socket.ok_or_else(|| gone("a socket"))?.into()
                }
                Given::Half { wire, side, part } => {
                    if !self.halves.contains_key(wire) {
                        let halves = vink_kernel::halves()?;
                        let mut both: [[Option<OwnedFd>; 3]; 2] = Default::default();
                        for (half, parts) in halves.iter().zip(&mut both) {
                            for (part, place) in half.descriptors().iter().zip(parts) {
                                *place = Some(part.try_clone_to_owned()?);
                            }
                        }
                        self.halves.insert(*wire, both);
                    }
                    let both = self.halves.get_mut(wire);
                    let parts = both.and_then(|both| both.get_mut(*side));
                    let taken = parts.and_then(|parts| parts.get_mut(*part)?.take());
                    let taken = taken.ok_or_else(|| gone("a wire's half"))?;
                    self.halves
                        .retain(|_, both| both.iter().flatten().any(Option::is_some));
                    taken
                }
            };
            made.push(descriptor);
        }
        Ok(made)
    }
}

/// The image of a worker here.
fn find_image(folder: &Path, image: Option<String>) -> Result<PathBuf, String> {
    let usual = std::env::var("VINK_IMAGE")
        .ok()
        .filter(|name| !name.is_empty());
    let found = match image.or(usual) {
        Some(path) if path.contains('/') => return Ok(folder.join(path)),
        Some(name) => vink_kernel::image_named(Path::new(&name)),
        None => vink_kernel::find_image(),
    };
    found.map_err(|error| error.to_string())
}

fn bind(v6: bool, first: Option<u16>) -> io::Result<(UdpSocket, u16)> {
    let any: IpAddr = match v6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let ports = match first {
        None => 0..=0,
        Some(first) => first..=first.saturating_add(PORTS - 1),
    };
    let mut last = io::ErrorKind::AddrInUse.into();
    for port in ports {
        match UdpSocket::bind(SocketAddr::new(any, port)) {
            Ok(socket) => {
                let port = socket.local_addr()?.port();
                return Ok((socket, port));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Binds a socket on this host, for the control process's own workers.
pub(crate) fn bind_here(v6: bool) -> io::Result<(UdpSocket, u16)> {
    bind(v6, None)
}

/// Sends requests to a worker until there are no more, or it has ended.
async fn send_requests(
    mut outgoing: mpsc::UnboundedReceiver<(Vec<u8>, Vec<OwnedFd>)>,
    socket: OwnedWriteHalf,
    mut stage: watch::Receiver<Stage>,
) {
    let sending = async {
        while let Some((frame, descriptors)) = outgoing.recv().await {
            let mut at = 0;
            while at < frame.len() {
                let with: Vec<BorrowedFd<'_>> = match at {
                    0 => descriptors.iter().map(AsFd::as_fd).collect(),
                    _ => Vec::new(),
                };
                let stream: &tokio::net::UnixStream = socket.as_ref();
                let sent = stream.async_io(Interest::WRITABLE, || {
                    send_with(stream.as_fd(), &frame[at..], &with)
                });
                match sent.await {
                    Ok(sent) => at += sent,
                    Err(_) => return,
                }
            }
        }
    };
    tokio::select! {
        () = sending => {}
        _ = stage.wait_for(|stage| *stage != Stage::Runs) => {}
    }
}

/// A worker's life: its requests, its end when there are no more, and what is still there then.
async fn attend(
    outgoing: mpsc::UnboundedReceiver<(Vec<u8>, Vec<OwnedFd>)>,
    socket: OwnedWriteHalf,
    (mut child, pid): (Child, u32),
    hearing: JoinHandle<bool>,
) -> (String, Vec<i32>) {
    let (stage, mut stages) = watch::channel(Stage::Runs);
    tokio::spawn(async move {
        // Otherwise the control process hears nothing any more.
        if hearing.await.unwrap_or(false) {
            stage.send_replace(Stage::Ends);
        }
        stage.closed().await;
    });
    send_requests(outgoing, socket, stages.clone()).await;
    let mut left = Vec::new();
    let ended = tokio::select! {
        status = child.wait() => Some(status),
        shuts_down = shuts_down(pid as i32, &mut stages) => match shuts_down {
            true => tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.ok(),
            false => None,
        },
    };
    let ended = match ended {
        Some(ended) => Some(ended),
        None => {
            let killed = ProcessTree::of(pid as i32).end().await;
            left = killed.err().unwrap_or_default();
            tokio::time::timeout(KILL_TIMEOUT, child.wait()).await.ok()
        }
    };
    let how = match ended {
        Some(Ok(status)) => format!("its process ended: {status}"),
        Some(Err(error)) => format!("its process could not be waited for: {error}"),
        None => "its process was killed, and is still there".to_owned(),
    };
    (how, left)
}

async fn last_words(mut errors: ChildStderr) -> String {
    let (mut words, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        words.extend(&buffer[..count]);
        let excess = words.len().saturating_sub(MAX_WORDS);
        words.drain(..excess);
    }
    String::from_utf8_lossy(&words).into_owned()
}
