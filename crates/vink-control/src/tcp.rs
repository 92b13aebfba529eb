//! Where clients over loopback TCP are answered: from the beginning on (`vink daemon --listen`), or once a page is asked for.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::{Extension, Router};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{watch, Mutex};
use vink_api::{NewTicket, RuntimeDir, Ticket};

use crate::accept::Acceptor;
use crate::auth::{self, Gate};
use crate::daemon::connection;
use crate::http_error::HttpError;
use crate::session::{Connection, Sessions};

/// How many connections clients over TCP may have at once, until they are WebSockets: few, so that they leave
/// descriptors to the owner.
const MAX_TCP_CONNECTIONS: usize = 128;
/// How long a client over TCP may take for the head of its first or its next request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a page may be away, as when it is loaded again, before it is gone.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The way in over TCP.
pub(crate) struct TcpServer {
    pub(crate) sessions: Arc<Sessions>,
    /// How many pages are open.
    pages: watch::Sender<usize>,
    /// What is answered.
    router: OnceLock<Router>,
    address: Mutex<Option<SocketAddr>>,
}

/// A page that is open, as long as this is there.
pub(crate) struct OpenPage(Arc<TcpServer>);

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.pages.send_modify(|pages| *pages -= 1);
    }
}

impl TcpServer {
    pub(crate) fn new() -> Arc<TcpServer> {
        Arc::new(TcpServer {
            sessions: Arc::default(),
            pages: watch::Sender::new(0),
            router: OnceLock::new(),
            address: Mutex::default(),
        })
    }

    /// What is answered: said once, before anything listens.
    pub(crate) fn leads_to(&self, router: Router) {
        let _ = self.router.set(router);
    }

    /// Listens at this address, which must be a loopback one, for clients with the token that is written down.
    pub(crate) async fn listen(&self, dir: &RuntimeDir, address: SocketAddr) -> io::Result<()> {
        if !address.ip().is_loopback() {
            let text = format!("{address} is not a loopback address, such as 127.0.0.1:8077");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
        let address = listener.local_addr()?;
        let token = auth::new_token(dir)?;
        *self.address.lock().await = Some(address);
        tracing::info!(target: "control", "listening at http://{address}/, token in {}",
            dir.token().display()
        );
        self.serve(listener, address.port(), Some(token));
        Ok(())
    }

    fn serve(&self, listener: TcpListener, port: u16, token: Option<String>) {
        let gate = Arc::new(Gate {
            port,
            token,
            sessions: self.sessions.clone(),
        });
        let router = self.router.get().expect("it was said before").clone();
        let router = router.layer(axum::middleware::from_fn(move |request, next| {
            auth::check(gate.clone(), request, next)
        }));
        tokio::spawn(async move {
            let mut acceptor = Acceptor::new("TCP", MAX_TCP_CONNECTIONS);
            loop {
                let ((stream, _), seat) = acceptor.next(|| listener.accept()).await;
                let _ = stream.set_nodelay(true);
                // The stream again, by which it is cut if its session is revoked.
                let Ok(again) = stream.as_fd().try_clone_to_owned() else {
                    continue;
                };
                let cut = Connection::new(again.into());
                let router = router.clone().layer(Extension(cut.clone()));
                let stream = Known { stream, _cut: cut };
                tokio::spawn(async move {
                    connection(stream, router, Some(HEADER_TIMEOUT)).await;
                    drop(seat);
                });
            }
        });
    }

    /// A ticket for a page, which is answered from now on, if it was not before.
    pub(crate) async fn new_ticket(&self, new: &NewTicket) -> Result<Ticket, HttpError> {
        let mut known = self.address.lock().await;
        let address = match *known {
            Some(address) if new.port.is_some_and(|port| port != address.port()) => {
                let text = format!("pages are answered at http://{address}/ already");
                return Err(HttpError::conflict(text)
                    .hint("leave the port away")
                    .at("/port"));
            }
            Some(address) => address,
            None => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, new.port.unwrap_or(0)));
                let failed = |error| HttpError::host(&format!("listening at {address}"), error);
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                self.serve(listener, address.port(), None);
                // Not all hosts have IPv6, and the port may be another's there.
                let also = SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()));
                if let Ok(listener) = TcpListener::bind(also).await {
                    self.serve(listener, address.port(), None);
                }
                *known.insert(address)
            }
        };
        let (ticket, seconds) = self.sessions.new_ticket(new)?;
        Ok(Ticket {
            url: format!("http://{address}/#t={ticket}"),
            ticket,
            seconds,
        })
    }

    /// A page was opened.
    pub(crate) fn page(self: &Arc<TcpServer>) -> OpenPage {
        self.pages.send_modify(|pages| *pages += 1);
        OpenPage(self.clone())
    }

    /// Returns when no page is open any more, and none has come back for a while.
    pub(crate) async fn is_left(&self) {
        let mut pages = self.pages.subscribe();
        while *pages.borrow_and_update() > 0 {
            let _ = pages.wait_for(|pages| *pages == 0).await;
            let back = pages.wait_for(|pages| *pages > 0);
            let _ = tokio::time::timeout(RELOAD_TIMEOUT, back).await;
        }
    }
}

/// A client's connection, which can be found and cut for as long as it is open: as a WebSocket, too, when it outlives
/// the requests that came over it.
struct Known {
    stream: TcpStream,
    _cut: Arc<Connection>,
}

impl AsyncRead for Known {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        to: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl AsyncWrite for Known {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        pieces: &[IoSlice],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
