//! Clients that are let in: the owner's from outside of all machines, by the unix socket; over
//! loopback TCP those that know a token, and no web page but Vink's own.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{header, HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::net::UnixStream;
use vink_api::RuntimeDir;

use crate::http_error::HttpError;
use crate::page;
use crate::session::{same, secret, Access, Connection, Rejected, Sessions};

/// The name of the request's user.
const ACTOR: HeaderName = HeaderName::from_static("vink-actor");

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
    let token = secret()?;
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

/// Over the unix socket: all of it is the owner's, with the name that the client gives.
pub(crate) async fn admit_owner(mut request: Request, next: Next) -> Response {
    let mut access = Access::owner();
    let actor = text(request.headers(), ACTOR).filter(|actor| !actor.is_empty());
    if let Some(actor) = actor {
        access.actor = actor.into();
    }
    request.extensions_mut().insert(access);
    next.run(request).await
}

/// What clients over TCP must know.
pub(crate) struct Gate {
    /// Where they are answered.
    pub(crate) port: u16,
    /// The token of those that are as good as the owner.
    pub(crate) token: Option<String>,
    pub(crate) sessions: Arc<Sessions>,
}

/// Over TCP: refuses requests without a token, and those that a foreign web page makes a browser
/// send. The page itself, and exchanging a ticket, need no token.
pub(crate) async fn check(gate: Arc<Gate>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_open =
        !path.starts_with("/v1/") || path == "/v1/session" && request.method() == Method::POST;
    let connection = request.extensions().get::<Arc<Connection>>();
    let mut response = match gate.access(request.headers(), is_open, connection) {
        Err(fault) => fault.into_response(),
        Ok(access) => {
            if let Some(access) = access {
                request.extensions_mut().insert(access);
            }
            next.run(request).await
        }
    };
    page::secure(&mut response);
    response
}

impl Gate {
    /// A page whose name was made to lead here (DNS rebinding) has the wrong `Host`; another page
    /// the wrong `Origin`.
    fn access(
        &self,
        headers: &HeaderMap,
        is_open: bool,
        connection: Option<&Arc<Connection>>,
    ) -> Result<Option<Access>, HttpError> {
        let forbidden = |error| HttpError::new(StatusCode::FORBIDDEN, error);
        let hosts = ["127.0.0.1", "[::1]", "localhost"].map(|host| format!("{host}:{}", self.port));
        let host = text(headers, header::HOST).unwrap_or_default();
        if !hosts.iter().any(|own| own == host) {
            return Err(forbidden(format!("the host {host:?} is not this one")));
        }
        if let Some(origin) = text(headers, header::ORIGIN) {
            // The page's own, not only one of this process.
            if origin != format!("http://{host}") {
                let error = format!("pages of {origin} may not ask for anything here");
                return Err(forbidden(error));
            }
        }
        if is_open {
            return Ok(None);
        }
        let access = bearer(headers).ok_or(Rejected::Unknown).and_then(|given| {
            let is_owner = |own: &String| same(given.as_bytes(), own.as_bytes());
            match self.token.as_ref().is_some_and(is_owner) {
                true => Ok(Access::owner()),
                false => self.sessions.of(given, connection),
            }
        });
        access.map(Some).map_err(|rejected| {
            let (error, hint) = match rejected {
                Rejected::Revoked => (
                    "this session was ended by the owner",
                    "the owner can let you in again: vink ui --share NAME",
                ),
                Rejected::Unknown => (
                    "a token is needed",
                    "send \"Authorization: Bearer TOKEN\", with a session's token, or what is in the file token of \
                     the runtime folder",
                ),
            };
            HttpError::new(StatusCode::UNAUTHORIZED, error).hint(hint)
        })
    }
}

/// The token of a request. A browser can't send `Authorization` with a WebSocket, but names of
/// protocols.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    if let Some(authorization) = text(headers, header::AUTHORIZATION) {
        return authorization.strip_prefix("Bearer ");
    }
    if !text(headers, header::UPGRADE).is_some_and(|name| name.eq_ignore_ascii_case("websocket")) {
        return None;
    }
    let protocols = text(headers, header::SEC_WEBSOCKET_PROTOCOL)?.split(',');
    protocols
        .filter_map(|name| name.trim().strip_prefix("vink.bearer."))
        .next()
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let value = headers.get(name);
    value.map(|value| value.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vink_api::{NewTicket, Role, UseTicket};

    #[test]
    fn only_with_a_token_and_from_here() {
        let sessions = Arc::new(Sessions::default());
        let new = NewTicket {
            role: Role::View,
            ..NewTicket::default()
        };
        let (ticket, _) = sessions.new_ticket(&new).expect("a ticket");
        let session = sessions.enter(&UseTicket { ticket }).expect("a session");
        let gate = Gate {
            port: 4000,
            token: Some("secret".to_owned()),
            sessions,
        };
        let headers = |pairs: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                let name: HeaderName = name.parse().unwrap();
                headers.insert(name, value.parse().unwrap());
            }
            headers
        };
        let status = |pairs: &[(&str, &str)]| match gate.access(&headers(pairs), false, None) {
            Ok(access) => Ok(access.expect("it is no open path").role),
            Err(fault) => Err(fault.status.as_u16()),
        };
        let host = ("host", "127.0.0.1:4000");
        let named = ("host", "localhost:4000");
        let token = ("authorization", "Bearer secret");
        assert_eq!(status(&[host, token]), Ok(Role::Own));
        assert_eq!(status(&[named, token]), Ok(Role::Own));
        assert_eq!(status(&[("host", "[::1]:4000"), token]), Ok(Role::Own));
        let origin = ("origin", "http://localhost:4000");
        assert_eq!(status(&[named, token, origin]), Ok(Role::Own));
        assert_eq!(status(&[host, token, origin]), Err(403));
        assert_eq!(status(&[host]), Err(401));
        assert_eq!(status(&[host, ("authorization", "Bearer secre")]), Err(401));
        assert_eq!(status(&[host, ("authorization", "secret")]), Err(401));
        assert_eq!(status(&[token]), Err(403));
        assert_eq!(status(&[("host", "evil.example:4000"), token]), Err(403));
        for origin in ["http://evil.example", "null", "https://127.0.0.1:4000"] {
            assert_eq!(status(&[host, token, ("origin", origin)]), Err(403));
        }
        let bearer = format!("Bearer {}", session.token);
        assert_eq!(status(&[host, ("authorization", &bearer)]), Ok(Role::View));
        let protocols = format!("vink.v1, vink.bearer.{}", session.token);
        let protocols = ("sec-websocket-protocol", protocols.as_str());
        assert_eq!(
            status(&[host, protocols, ("upgrade", "websocket")]),
            Ok(Role::View)
        );
        assert_eq!(status(&[host, protocols]), Err(401));
        // The page itself has no token yet, but the other checks.
        assert_eq!(gate.access(&headers(&[host]), true, None).ok(), Some(None));
        assert!(gate
            .access(&headers(&[("host", "evil.example")]), true, None)
            .is_err());
        let evil = ("origin", "http://evil.example");
        assert!(gate.access(&headers(&[host, evil]), true, None).is_err());
    }
}
