//! The life of a control process: its runtime folder, its sockets, its end.
//!
//! Two that are started at once: whoever holds the folder's lock binds the socket, the other then finds that somebody
//! listens and leaves it to him. A socket that nobody listens at is of one that was killed. One that ends takes its
//! socket away while it holds the lock, and then answers who had connected before.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::{watch, Notify};
use vink_api::Place;

use crate::door;
use crate::engine::{Hooks, Labs};
use crate::server::{router, App, Inner};

/// How long one that was started for a lab waits for it.
const FIRST: Duration = Duration::from_secs(30);
/// How long clients may take to read their last answer.
const LAST: Duration = Duration::from_secs(2);

/// How a control process is started.
#[derive(Debug, Default)]
pub struct Options {
    /// Clients over TCP are answered here too, which must be a loopback address.
    pub listen: Option<SocketAddr>,
    /// Started by a client: this descriptor is a socket that is told when clients are answered, and the process
    /// ends after the last lab.
    pub ready: Option<RawFd>,
}

/// Runs a control process in this folder until it ends.
///
/// # Errors
/// The folder, or a socket in it, can't be had; the text says what to do.
pub fn run(place: &Place, options: Options, hooks: Hooks) -> io::Result<()> {
    let mut client = match options.ready {
        Some(number) => Some(Client::of(number)?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(serve(place, &options, hooks, &mut client));
    if let (Err(error), Some(client)) = (&done, &mut client) {
        client.say(&error.to_string());
    }
    // What still runs are readers of pipes whose programs have gone.
    runtime.shutdown_background();
    done
}

/// Who has started this one.
struct Client(Option<fs::File>);

impl Client {
    fn of(number: RawFd) -> io::Result<Client> {
        // SAFETY: the command line says that this descriptor is ours; one that is none is refused.
        let owned = unsafe {
            if libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(number)
        };
        Ok(Client(Some(owned.into())))
    }

    /// Tells once. Nobody may listen.
    fn say(&mut self, text: &str) {
        if let Some(mut file) = self.0.take() {
            let _ = file.write_all(text.as_bytes());
        }
    }
}

/// The lock of a runtime folder: held while a socket comes or goes.
struct Lock(#[allow(dead_code)] fs::File);

impl Lock {
    /// Waits for it.
    fn take(place: &Place) -> io::Result<Lock> {
        loop {
            place.secure()?;
            let file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(place.lock());
            let file = match file {
                Ok(file) => file,
                // The folder has just been taken away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // SAFETY: a system call on a descriptor that is ours.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } < 0 {
                return Err(io::Error::last_os_error());
            }
            // The file may have been taken away while it was waited for: then the lock is another's.
            let here = fs::symlink_metadata(place.lock());
            if here.is_ok_and(|here| file.metadata().is_ok_and(|own| own.ino() == here.ino())) {
                return Ok(Lock(file));
            }
        }
    }
}

async fn serve(
    place: &Place,
    options: &Options,
    hooks: Hooks,
    client: &mut Option<Client>,
) -> io::Result<()> {
    // Tokio's own threads are not disturbed: nothing else runs yet.
    let lock = Lock::take(place)?;
    let path = place.socket();
    if std::os::unix::net::UnixStream::connect(&path).is_ok() {
        let text = format!(
            "another control process listens at {} already",
            path.display()
        );
        return match client {
            Some(client) => {
                client.say("\n");
                Ok(())
            }
            None => Err(io::Error::new(io::ErrorKind::AddrInUse, text)),
        };
    }
    // What one that was killed has left.
    for leftover in [path.clone(), place.token()] {
        let _ = fs::remove_file(leftover);
    }
    let _ = fs::remove_dir_all(place.folder().join("labs"));
    many_descriptors();

    let labs = Labs::new(place.folder().to_owned(), hooks.clone());
    let app: App = Arc::new(Inner {
        labs: labs.clone(),
        executable: hooks.executable.display().to_string(),
        closing: watch::Sender::new(false),
    });
    let router = router(app.clone());
    let crowd = Arc::new(Crowd::default());
    let listening = async {
        if let Some(address) = options.listen {
            listen(place, address, router.clone()).await?;
        }
        UnixListener::bind(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let listener = match listening.await {
        Ok(listener) => listener,
        Err(error) => {
            leave(place, lock);
            return Err(error);
        }
    };
    drop(lock);
    match client {
        Some(client) => client.say("\n"),
        None => eprintln!("vink daemon: listening at {}", path.display()),
    }

    let mut ended = Box::pin(end(labs.clone(), options.ready.is_some()));
    loop {
        tokio::select! {
            stream = listener.accept() => accept(stream, &router, &crowd),
            reason = &mut ended => {
                reason?;
                break;
            }
        }
    }
    app.closing.send_replace(true);
    for lab in labs.all() {
        labs.end(&lab).await;
    }
    let lock = Lock::take(place)?;
    let _ = fs::remove_file(&path);
    // Who had connected before, but was not seen yet.
    while let Ok(stream) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
        accept(stream, &router, &crowd);
    }
    drop(listener);
    let _ = tokio::time::timeout(LAST, crowd.gone()).await;
    leave(place, lock);
    Ok(())
}

/// Leaves nothing in the folder but a log that says something, and no folder if it is empty.
fn leave(place: &Place, lock: Lock) {
    let _ = fs::remove_file(place.token());
    let _ = fs::remove_dir(place.folder().join("labs"));
    if fs::metadata(place.log()).is_ok_and(|log| log.len() == 0) {
        let _ = fs::remove_file(place.log());
    }
    let _ = fs::remove_file(place.lock());
    let _ = fs::remove_dir(place.folder());
    drop(lock);
}

/// Until the process is to end: by a signal, or (in the background) when there is no lab any more.
async fn end(labs: Arc<Labs>, background: bool) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let none_left = async {
        if !background {
            std::future::pending::<()>().await;
        }
        let mut count = labs.count.subscribe();
        let _ = tokio::time::timeout(FIRST, count.wait_for(|count| *count > 0)).await;
        let _ = count.wait_for(|count| *count == 0).await;
    };
    tokio::select! {
        () = none_left => {}
        _ = terminate.recv() => eprintln!("vink daemon: ended by SIGTERM"),
        _ = interrupt.recv() => eprintln!("vink daemon: ended by SIGINT"),
        _ = hangup.recv() => eprintln!("vink daemon: ended by SIGHUP"),
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
    stream: io::Result<(tokio::net::UnixStream, tokio::net::unix::SocketAddr)>,
    router: &Router,
    crowd: &Arc<Crowd>,
) {
    match stream {
        Ok((stream, _)) if door::is_owner(&stream) => {
            let (router, crowd) = (router.clone(), crowd.clone());
            crowd.count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                connection(stream, router).await;
                crowd.count.fetch_sub(1, Ordering::SeqCst);
                crowd.left.notify_one();
            });
        }
        // Somebody else, who can't be there: the folder is closed to others.
        Ok(_) => {}
        Err(error) => eprintln!("vink daemon: accept: {error}"),
    }
}

async fn connection<S>(stream: S, router: Router)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(router);
    let served = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    // A client that goes away in the middle has its reasons.
    drop(served);
}

/// Answers clients over TCP.
async fn listen(place: &Place, address: SocketAddr, router: Router) -> io::Result<()> {
    if !address.ip().is_loopback() {
        let text = format!("{address} is not a loopback address, such as 127.0.0.1:8077");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    let address = listener.local_addr()?;
    let token: Arc<str> = door::new_token(place)?.into();
    let router = router.layer(axum::middleware::from_fn(move |request, next| {
        door::check(address, token.clone(), request, next)
    }));
    eprintln!(
        "vink daemon: listening at http://{address}/, token in {}",
        place.token().display()
    );
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(connection(stream, router.clone()));
                }
                Err(error) => eprintln!("vink daemon: accept: {error}"),
            }
        }
    });
    Ok(())
}

/// A lab of ten thousand programs has as many logs and pipes.
fn many_descriptors() {
    // SAFETY: the structure is plain data that the calls fill and read.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
