//! Clients that are let in: the owner's from outside of all machines, by the unix socket; over
//! loopback TCP those that know the token, and no web page.

use std::fs;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;

use axum::extract::Request;
use axum::http::{header, HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::net::UnixStream;
use vink_api::RuntimeDir;

use crate::http_error::HttpError;

/// Whether the other side of a connection is the user whose control process this is.
pub(crate) fn is_owner(stream: &UnixStream) -> bool {
    let own = vink_sys::process::geteuid();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

/// Whether the other side of a connection shares this process's PID namespace. A program on a
/// machine does not (docs/programs.md): it finds the socket's file, and often runs as the owner.
pub(crate) fn is_outside_machines(stream: &UnixStream) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let theirs = peer.and_then(|pid| namespace(&pid.to_string()));
    theirs.is_some() && theirs == namespace("self")
}

/// Answers every request of a program on a machine.
pub(crate) async fn refuse_machine() -> Response {
    HttpError::new(
        StatusCode::FORBIDDEN,
        "a program on a machine can't command the control process",
    )
    .hint("run vink on the host, outside of 'vink run' and 'vink exec'")
    .into_response()
}

/// A new token in a file that only the owner can read.
pub(crate) fn new_token(dir: &RuntimeDir) -> io::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = dir.token();
    // One of another control process, or of one that was killed.
    let _ = fs::remove_file(&path);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(token.as_bytes())?;
    Ok(token)
}

/// Over TCP: refuses requests without the token, and those that a foreign web page makes a browser
/// send.
pub(crate) async fn check(
    address: SocketAddr,
    token: std::sync::Arc<str>,
    request: Request,
    next: Next,
) -> Response {
    match refused(address, &token, request.headers()) {
        Some(fault) => fault.into_response(),
        None => next.run(request).await,
    }
}

/// A page whose name was made to lead here (DNS rebinding) has the wrong `Host`; another page the
/// wrong `Origin`.
fn refused(address: SocketAddr, token: &str, headers: &HeaderMap) -> Option<HttpError> {
    let text = |name| {
        let value: Option<&axum::http::HeaderValue> = headers.get(name);
        value.map(|value| value.to_str().unwrap_or("?"))
    };
    let hosts = [address.to_string(), format!("localhost:{}", address.port())];
    let host = text(header::HOST).unwrap_or_default();
    if !hosts.iter().any(|own| own == host) {
        return Some(HttpError::new(
            StatusCode::FORBIDDEN,
            format!("the host {host:?} is not this one"),
        ));
    }
    if let Some(origin) = text(header::ORIGIN) {
        if !hosts.iter().any(|own| origin == format!("http://{own}")) {
            return Some(HttpError::new(
                StatusCode::FORBIDDEN,
                format!("pages of {origin} may not ask for anything here"),
            ));
        }
    }
    let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if !given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) {
        return Some(
            HttpError::new(StatusCode::UNAUTHORIZED, "a token is needed")
                .hint("send \"Authorization: Bearer TOKEN\", with what is in the file token of the runtime folder"),
        );
    }
    None
}

/// Without telling by the time it takes how much of it is right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .fold(0, |different, (a, b)| different | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_with_token_and_from_here() {
        let address: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let status = |pairs: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                let name: header::HeaderName = name.parse().unwrap();
                headers.insert(name, value.parse().unwrap());
            }
            refused(address, "secret", &headers).map(|fault| fault.status.as_u16())
        };
        let host = ("host", "127.0.0.1:4000");
        let token = ("authorization", "Bearer secret");
        assert_eq!(status(&[host, token]), None);
        assert_eq!(status(&[("host", "localhost:4000"), token]), None);
        assert_eq!(
            status(&[host, token, ("origin", "http://localhost:4000")]),
            None
        );
        assert_eq!(status(&[host]), Some(401));
        assert_eq!(
            status(&[host, ("authorization", "Bearer secre")]),
            Some(401)
        );
        assert_eq!(status(&[token]), Some(403));
        assert_eq!(status(&[("host", "evil.example:4000"), token]), Some(403));
        assert_eq!(
            status(&[host, token, ("origin", "http://evil.example")]),
            Some(403)
        );
        assert_eq!(status(&[host, token, ("origin", "null")]), Some(403));
    }
}
