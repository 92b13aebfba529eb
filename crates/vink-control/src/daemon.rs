//! The life of a control process: its runtime folder, its sockets, its end.
//!
//! Of two that are started at once, the one that holds the folder's lock binds the socket; the
//! other finds a listener and ends. A socket without a listener was left by a process that was
//! killed. A process that ends removes its socket while it holds the lock, and then answers the
//! clients that have connected before.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use vink_api::RuntimeDir;
use vink_sys::fd::{lock, set_cloexec};
use vink_sys::process::{limit, set_limit};

use crate::accept::Acceptor;
use crate::auth;
use crate::engine::{Hooks, Labs};
use crate::server::{router, App, Inner};
use crate::tcp::TcpServer;

/// How long one that was started for a lab waits for it.
const FIRST_LAB_TIMEOUT: Duration = Duration::from_secs(30);
/// How long clients may take to read their last answer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// How many connections the owner may have at once.
const MAX_OWNER_CONNECTIONS: usize = 4096;
/// A log in the background that is longer is cut down to its newer half, which is looked at so
/// often.
const MAX_LOG_BYTES: u64 = 4 << 20;
const LOG_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How a control process is started.
#[derive(Debug, Default)]
pub struct Options {
    /// Clients over TCP are answered here too, which must be a loopback address.
    pub listen: Option<SocketAddr>,
    /// Started by a client: this descriptor is a socket that is told when clients are answered, and
    /// the process ends after the last lab.
    pub ready: Option<RawFd>,
    /// Started by a client for itself: this descriptor is a socket that is told when clients are
    /// answered, and the process ends with its labs when the socket's other end is closed.
    pub owner: Option<RawFd>,
}

/// Runs a control process in this folder until it ends.
///
/// # Errors
/// The folder, or a socket in it, can't be had; the text says what to do.
pub fn run(dir: &RuntimeDir, options: Options, hooks: Hooks) -> io::Result<()> {
    let mut client = match options.owner.or(options.ready) {
        Some(number) => Some(Client::of(number)?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(serve(dir, &options, hooks, &mut client));
    if let (Err(error), Some(client)) = (&done, &mut client) {
        client.say(&error.to_string());
    }
    // What still runs are readers of pipes whose programs have gone.
    runtime.shutdown_background();
    done
}

/// The client that has started this process.
struct Client(Option<StdUnixStream>);

impl Client {
    fn of(number: RawFd) -> io::Result<Client> {
        // SAFETY: the command line says that this descriptor is ours; one that is none is refused.
        let owned = unsafe {
            set_cloexec(number, true)?;
            OwnedFd::from_raw_fd(number)
        };
        Ok(Client(Some(owned.into())))
    }

    /// Tells it once. It may have gone.
    fn say(&mut self, text: &str) {
        if let Some(mut stream) = self.0.take() {
            let _ = stream.write_all(text.as_bytes());
        }
    }

    /// Tells the client whose own this process is that clients are answered, and returns when it
    /// has closed its end, or has ended.
    async fn gone(&mut self) -> io::Result<()> {
        let Some(mut stream) = self.0.take() else {
            return Ok(());
        };
        let _ = stream.write_all(b"\n");
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream)?;
        // An error, such as that of a socket whose peer has not read everything, is an end too.
        while stream.read_u8().await.is_ok() {}
        Ok(())
    }
}

/// The lock of a runtime folder: held while a socket comes or goes.
struct Lock(#[allow(dead_code)] fs::File);

impl Lock {
    /// Waits for it.
    fn take(dir: &RuntimeDir) -> io::Result<Lock> {
        loop {
            dir.secure()?;
            let file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(dir.lock());
            let file = match file {
                Ok(file) => file,
                // The folder has just been taken away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            lock(&file)?;
            // The file may have been taken away while it was waited for: then the lock is
            // another's.
            let here = fs::symlink_metadata(dir.lock());
            if here.is_ok_and(|here| file.metadata().is_ok_and(|own| own.ino() == here.ino())) {
                return Ok(Lock(file));
            }
        }
    }
}

async fn serve(
    dir: &RuntimeDir,
    options: &Options,
    hooks: Hooks,
    client: &mut Option<Client>,
) -> io::Result<()> {
    // Tokio's own threads are not disturbed: nothing else runs yet.
    let lock = Lock::take(dir)?;
    let path = dir.socket();
    if StdUnixStream::connect(&path).is_ok() {
        let text = format!(
            "another control process listens at {} already",
            path.display()
        );
        return match client {
            Some(client) if options.owner.is_none() => {
                client.say("\n");
                Ok(())
            }
            _ => Err(io::Error::new(io::ErrorKind::AddrInUse, text)),
        };
    }
    // What one that was killed has left.
    for leftover in [path.clone(), dir.token(), dir.page()] {
        let _ = fs::remove_file(leftover);
    }
    let _ = fs::remove_dir_all(dir.folder().join("labs"));
    many_descriptors();

    let labs = Labs::new(dir.folder().to_owned(), hooks.clone());
    let tcp = TcpServer::new();
    let app: App = Arc::new(Inner {
        labs: labs.clone(),
        executable: hooks.executable.clone(),
        check: hooks.check.clone(),
        tcp: tcp.clone(),
    });
    let router = router(app.clone());
    tcp.leads_to(router.clone());
    let router = router.layer(axum::middleware::from_fn(auth::admit_owner));
    let crowd = Arc::new(Crowd::default());
    let listening = async {
        if let Some(address) = options.listen {
            tcp.listen(dir, address).await?;
        }
        UnixListener::bind(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let listener = match listening.await {
        Ok(listener) => listener,
        Err(error) => {
            leave(dir, lock);
            return Err(error);
        }
    };
    drop(lock);
    let mut owner = None;
    match client {
        Some(_) if options.owner.is_some() => owner = client.take(),
        Some(client) => client.say("\n"),
        None => tracing::info!(target: "control", "listening at {}", path.display()),
    }
    if options.ready.is_some() {
        tokio::spawn(keep_short(dir.log()));
    }
    let mut acceptor = Acceptor::new("its socket", MAX_OWNER_CONNECTIONS);

    let mut ended = Box::pin(end(labs.clone(), tcp, options.ready.is_some(), owner));
    loop {
        tokio::select! {
            ((stream, _), seat) = acceptor.next(|| listener.accept()) => accept(stream, seat, &router, &crowd),
            reason = &mut ended => {
                reason?;
                break;
            }
        }
    }
    labs.closing.send_replace(true);
    for lab in labs.all() {
        if let Err(fault) = labs.end(&lab).await {
            tracing::warn!(target: "control", "{}", fault.problem.error);
        }
    }
    let lock = Lock::take(dir)?;
    let _ = fs::remove_file(&path);
    // Clients that have connected, but are not accepted yet.
    while let Ok(((stream, _), seat)) =
        tokio::time::timeout(Duration::ZERO, acceptor.next(|| listener.accept())).await
    {
        accept(stream, seat, &router, &crowd);
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, crowd.gone()).await;
    leave(dir, lock);
    Ok(())
}

/// Leaves nothing in the folder but a log that says something, and no folder if it is empty.
fn leave(dir: &RuntimeDir, lock: Lock) {
    let _ = fs::remove_file(dir.token());
    let _ = fs::remove_file(dir.page());
    let _ = fs::remove_dir(dir.folder().join("labs"));
    if fs::metadata(dir.log()).is_ok_and(|log| log.len() == 0) {
        let _ = fs::remove_file(dir.log());
    }
    let _ = fs::remove_file(dir.lock());
    let _ = fs::remove_dir(dir.folder());
    drop(lock);
}

/// Until the process is to end: by a signal, (in the background) when there is neither a lab nor a
/// page any more, or when its owner has gone.
async fn end(
    labs: Arc<Labs>,
    tcp: Arc<TcpServer>,
    background: bool,
    owner: Option<Client>,
) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let none_left = async {
        if !background {
            std::future::pending::<()>().await;
        }
        let mut count = labs.count.subscribe();
        let _ = tokio::time::timeout(FIRST_LAB_TIMEOUT, count.wait_for(|count| *count > 0)).await;
        loop {
            let _ = count.wait_for(|count| *count == 0).await;
            tcp.is_left().await;
            if *count.borrow_and_update() == 0 {
                break;
            }
        }
    };
    let owner_gone = async {
        match owner {
            Some(mut owner) => owner.gone().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = none_left => {}
        gone = owner_gone => gone?,
        _ = terminate.recv() => tracing::info!(target: "control", "ended by SIGTERM"),
        _ = interrupt.recv() => tracing::info!(target: "control", "ended by SIGINT"),
        _ = hangup.recv() => tracing::info!(target: "control", "ended by SIGHUP"),
    }
    Ok(())
}

/// Connections that are open.
#[derive(Default)]
struct Crowd {
    count: AtomicUsize,
    left: Notify,
}

impl Crowd {
    /// Returns when there is none any more.
    async fn gone(&self) {
        loop {
            let left = self.left.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            left.await;
        }
    }
}

fn accept(
    stream: tokio::net::UnixStream,
    seat: OwnedSemaphorePermit,
    router: &Router,
    crowd: &Arc<Crowd>,
) {
    // Another user can't be there: the folder is closed to others.
    if !auth::is_owner(&stream) {
        return;
    }
    let router = if auth::is_outside_machines(&stream) {
        router.clone()
    } else {
        Router::new().fallback(auth::refuse_machine)
    };
    let crowd = crowd.clone();
    crowd.count.fetch_add(1, Ordering::SeqCst);
    tokio::spawn(async move {
        connection(stream, router, None).await;
        drop(seat);
        crowd.count.fetch_sub(1, Ordering::SeqCst);
        crowd.left.notify_one();
    });
}

/// Answers requests; `head`: how long the head of one may take.
pub(crate) async fn connection<S>(stream: S, router: Router, head: Option<Duration>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(router);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    // A client that goes away in the middle has its reasons.
    drop(served);
}

/// Cuts the log down whenever it is too long. It is open for appending, so that it goes on at its
/// new end.
async fn keep_short(path: std::path::PathBuf) {
    loop {
        tokio::time::sleep(LOG_CHECK_INTERVAL).await;
        if fs::metadata(&path).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
            // Its disk may be full: then it stays as it is.
            let _ = cut(&path);
        }
    }
}

/// Leaves the newer half of a file, from a line's beginning on.
fn cut(path: &std::path::Path) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().read(true).append(true).open(path)?;
    let mut text = Vec::new();
    let length = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(length - length / 2))?;
    file.read_to_end(&mut text)?;
    file.set_len(0)?;
    let line = text.iter().position(|byte| *byte == b'\n');
    file.write_all(&text[line.map_or(0, |at| at + 1)..])
}

/// A lab of ten thousand programs has as many logs and pipes.
fn many_descriptors() {
    if let Ok(mut most) = limit(0, libc::RLIMIT_NOFILE) {
        most.rlim_cur = most.rlim_max;
        let _ = set_limit(0, libc::RLIMIT_NOFILE, &most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_keeps_its_newer_lines() {
        let path = std::env::temp_dir().join(format!("vink-log-{}", std::process::id()));
        let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        fs::write(&path, &lines).expect("a file");
        cut(&path).expect("it is cut");
        let left = fs::read_to_string(&path).expect("text");
        fs::remove_file(&path).expect("it is there");
        assert!(left.len() * 2 <= lines.len() && left.starts_with("line "));
        assert!(left.ends_with("line 999\n"));
    }
}
