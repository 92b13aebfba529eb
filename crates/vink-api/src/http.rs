//! One request, one answer: HTTP/1.1 over a connection of its own.

use std::io;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::{Address, Error, Problem};

/// Bytes of a body or a frame, shared rather than copied.
pub use bytes::Bytes;

/// A connection of either kind.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Connects to the control process.
pub(crate) async fn connect(address: &Address) -> Result<Box<dyn Connection>, Error> {
    match address {
        Address::Unix(path) => match UnixStream::connect(path).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Err(Error::NotRunning(path.display().to_string()))
            }
            Err(source) => Err(Error::Connection {
                what: "can't be reached",
                source,
            }),
        },
        Address::Tcp(address, _) => {
            let stream = TcpStream::connect(address)
                .await
                .map_err(|source| Error::Connection {
                    what: "can't be reached",
                    source,
                })?;
            let _ = stream.set_nodelay(true);
            Ok(Box::new(stream))
        }
    }
}

/// The head of a request, with its `Host` and credentials.
pub(crate) fn head(address: &Address) -> hyper::http::request::Builder {
    let builder = Request::builder();
    match address {
        Address::Unix(_) => builder.header(HOST, "localhost"),
        Address::Tcp(address, token) => builder
            .header(HOST, address.to_string())
            .header(AUTHORIZATION, format!("Bearer {token}")),
    }
}

/// Sends a request; the answer's body is still to be read. An error if it was refused.
pub(crate) async fn send(
    address: &Address,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
) -> Result<Response<Incoming>, Error> {
    let lost = |error: hyper::Error| Error::Connection {
        what: "went away before it answered",
        source: io::Error::other(error),
    };
    let stream = connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    // Ends with the answer, or when the caller is dropped; the sender sees its errors, too.
    tokio::spawn(connection);
    let request = head(address)
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| Error::Answer(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(lost)?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = response.into_body().collect().await.map_err(lost)?;
    Err(refused(status.as_u16(), &body.to_bytes()))
}

/// The error of an answer that is none.
pub(crate) fn refused(status: u16, body: &[u8]) -> Error {
    let problem = serde_json::from_slice(body).unwrap_or_else(|_| Problem {
        error: format!("HTTP status {status}: {}", String::from_utf8_lossy(body)),
        ..Problem::default()
    });
    Error::Refused { status, problem }
}

/// Sends a request and reads the answer.
pub(crate) async fn ask<A: DeserializeOwned>(
    address: &Address,
    method: Method,
    path: &str,
    body: Option<&(impl Serialize + ?Sized)>,
) -> Result<A, Error> {
    let body = body.map(|body| serde_json::to_vec(body).expect("plain data"));
    let response = send(address, method, path, body).await?;
    let body = response.into_body().collect().await;
    let body = body
        .map_err(|error| Error::Answer(error.to_string()))?
        .to_bytes();
    // Status 204 has no body.
    let body = if body.is_empty() { b"null" } else { &body[..] };
    serde_json::from_slice(body).map_err(|error| Error::Answer(error.to_string()))
}

/// A name as a segment of a path (RFC 3986).
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte) {
            text.push(byte as char);
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    text
}
