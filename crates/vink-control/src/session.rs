//! Tickets and sessions: a ticket is used once, soon, for a session; a session's token is worth its role for as long as
//! the control process runs, or until it is revoked. Both are random numbers of 256 bits.

use std::fs;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime};

use axum::http::StatusCode;
use serde_json::json;
use vink_api::{NewSession, NewTicket, OpenSession, Revoked, Role, UseTicket};

use crate::http_error::HttpError;

/// How long a ticket may be used, if nothing else was said, and at most.
const TICKET_SECONDS: u32 = 60;
const MOST_TICKET_SECONDS: u32 = 24 * 60 * 60;
/// How many tickets may wait, and how many sessions are kept: the oldest one goes.
const MOST_TICKETS: usize = 256;
const MOST_SESSIONS: usize = 1024;
/// Bytes of a user's name.
const LONGEST_NAME: usize = 64;

/// The user that a request comes from, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) role: Role,
    pub(crate) actor: Arc<str>,
    /// It is a page's.
    pub(crate) is_page: bool,
}

impl Access {
    /// Of a request that has no session: it may read.
    pub(crate) fn without_session() -> Access {
        Access {
            role: Role::View,
            actor: "".into(),
            is_page: false,
        }
    }

    /// Refuses what needs a greater role.
    pub(crate) fn must_be(&self, needed: Role) -> Result<(), HttpError> {
        if self.role >= needed {
            return Ok(());
        }
        let word = |role| json!(role).as_str().unwrap_or_default().to_owned();
        let text = format!("this needs the role {}", word(needed));
        let hint = format!("this session has the role {}", word(self.role));
        Err(HttpError::new(StatusCode::FORBIDDEN, text).hint(hint))
    }

    /// The owner's, by the name of the user whose control process this is.
    pub(crate) fn owner() -> Access {
        Access {
            role: Role::Own,
            actor: vink_sys::process::user_name().into(),
            is_page: false,
        }
    }
}

/// All that are valid.
#[derive(Default)]
pub(crate) struct Sessions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tickets: Vec<(String, Access, Instant)>,
    sessions: Vec<Entered>,
    /// Tokens of sessions that were revoked, so that their pages can be told.
    revoked: Vec<String>,
    /// The number of the last session.
    number: u64,
}

/// A session.
struct Entered {
    number: u64,
    token: String,
    access: Access,
    since: SystemTime,
    /// What it is connected by, as far as that is still there.
    connections: Vec<Weak<Connection>>,
}

/// A connection over TCP, which can be cut from elsewhere: whatever is carried over it, WebSockets too, finds its end.
pub(crate) struct Connection(TcpStream);

impl Connection {
    /// `stream`: the connection's own, again.
    pub(crate) fn new(stream: TcpStream) -> Arc<Connection> {
        Arc::new(Connection(stream))
    }
}

impl Sessions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is held")
    }

    /// A ticket, and the seconds for which it may be used.
    pub(crate) fn new_ticket(&self, new: &NewTicket) -> Result<(String, u32), HttpError> {
        let name = new.name.as_deref().unwrap_or("owner");
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let text = format!("{name:?} can't be a user's name");
            return Err(HttpError::invalid(text)
                .hint("a name has 1 to 64 bytes, and no control characters")
                .at("/name"));
        }
        let seconds = new.seconds.unwrap_or(TICKET_SECONDS);
        if seconds > MOST_TICKET_SECONDS {
            return Err(HttpError::invalid("a ticket is valid for a day at most").at("/seconds"));
        }
        let ticket = secret().map_err(|error| HttpError::host("/dev/urandom", error))?;
        let access = Access {
            role: new.role,
            actor: name.into(),
            is_page: true,
        };
        let now = Instant::now();
        let mut state = self.state();
        state.tickets.retain(|(_, _, end)| *end > now);
        if state.tickets.len() >= MOST_TICKETS {
            state.tickets.remove(0);
        }
        let end = now + Duration::from_secs(seconds.into());
        state.tickets.push((ticket.clone(), access, end));
        Ok((ticket, seconds))
    }

    /// A session in exchange for a ticket, which is used up.
    pub(crate) fn enter(&self, asked: &UseTicket) -> Result<NewSession, HttpError> {
        let mut state = self.state();
        let given = |(ticket, _, _): &(String, Access, Instant)| {
            same(ticket.as_bytes(), asked.ticket.as_bytes())
        };
        let found = state.tickets.iter().position(given);
        let found = found.map(|at| state.tickets.remove(at));
        let Some((_, access, _)) = found.filter(|(_, _, end)| *end > Instant::now()) else {
            return Err(HttpError::new(
                StatusCode::UNAUTHORIZED,
                "this ticket is used up, too old, or of another control process",
            )
            .hint("vink ui opens the page with a new one"));
        };
        let token = secret().map_err(|error| HttpError::host("/dev/urandom", error))?;
        if state.sessions.len() >= MOST_SESSIONS {
            state.sessions.remove(0);
        }
        state.number += 1;
        let entered = Entered {
            number: state.number,
            token: token.clone(),
            access: access.clone(),
            since: SystemTime::now(),
            connections: Vec::new(),
        };
        state.sessions.push(entered);
        Ok(NewSession {
            token,
            role: access.role,
            actor: access.actor.to_string(),
        })
    }

    /// What the holder of this token may do; over this connection, which is cut if the session is revoked.
    ///
    /// # Errors
    /// It was revoked, or there never was one.
    pub(crate) fn of(
        &self,
        token: &str,
        over: Option<&Arc<Connection>>,
    ) -> Result<Access, Rejected> {
        let mut state = self.state();
        let is_own = |own: &String| same(own.as_bytes(), token.as_bytes());
        if state.revoked.iter().any(is_own) {
            return Err(Rejected::Revoked);
        }
        let found = state.sessions.iter_mut().find(|own| is_own(&own.token));
        let session = found.ok_or(Rejected::Unknown)?;
        if let Some(over) = over {
            session.connections.retain(|known| known.strong_count() > 0);
            let over = Arc::downgrade(over);
            if !session.connections.iter().any(|known| known.ptr_eq(&over)) {
                session.connections.push(over);
            }
        }
        Ok(session.access.clone())
    }

    /// All that are valid, oldest first.
    pub(crate) fn all(&self) -> Vec<OpenSession> {
        let state = self.state();
        let told = |session: &Entered| OpenSession {
            session: session.number,
            actor: session.access.actor.to_string(),
            role: session.access.role,
            since: session
                .since
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0.0, |time| time.as_secs_f64()),
            connections: session
                .connections
                .iter()
                .filter(|connection| connection.strong_count() > 0)
                .count(),
        };
        state.sessions.iter().map(told).collect()
    }

    /// Ends the session of this number, or all of a user of this name, with tickets that were not used yet. Their
    /// connections are cut.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn revoke(&self, which: &str) -> Result<Revoked, HttpError> {
        let mut state = self.state();
        let number: Option<u64> = which.parse().ok();
        let by_number = |session: &Entered| Some(session.number) == number;
        let is_number = state.sessions.iter().any(by_number);
        let is_meant = |session: &Entered| match is_number {
            true => by_number(session),
            false => *session.access.actor == *which,
        };
        let (gone, stay) = std::mem::take(&mut state.sessions)
            .into_iter()
            .partition::<Vec<_>, _>(is_meant);
        state.sessions = stay;
        let before = state.tickets.len();
        if !is_number {
            state
                .tickets
                .retain(|(_, access, _)| *access.actor != *which);
        }
        let tickets = before - state.tickets.len();
        if gone.is_empty() && tickets == 0 {
            let names = state.sessions.iter().map(|session| &*session.access.actor);
            return Err(HttpError::no("session", which, names, "valid"));
        }
        for session in &gone {
            for connection in session.connections.iter().filter_map(Weak::upgrade) {
                // It may have ended by itself.
                let _ = connection.0.shutdown(Shutdown::Both);
            }
        }
        let sessions = gone.len();
        state
            .revoked
            .extend(gone.into_iter().map(|session| session.token));
        let many = state.revoked.len().saturating_sub(MOST_SESSIONS);
        state.revoked.drain(..many);
        Ok(Revoked { sessions, tickets })
    }
}

/// Why a token is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Its session was revoked.
    Revoked,
    /// It is no session's.
    Unknown,
}

/// A random number of 256 bits, in hexadecimal digits.
pub(crate) fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Without telling by the time it takes how much of it is right.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
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
    fn a_ticket_is_used_once_and_soon() {
        let sessions = Sessions::default();
        let new = NewTicket {
            role: Role::View,
            name: Some("ann".to_owned()),
            ..NewTicket::default()
        };
        let (ticket, seconds) = sessions.new_ticket(&new).expect("a ticket");
        assert_eq!(seconds, TICKET_SECONDS);
        let ticket = UseTicket { ticket };
        let session = sessions.enter(&ticket).expect("a session");
        let access = sessions.of(&session.token, None).expect("it is valid");
        assert_eq!((access.role, &*access.actor), (Role::View, "ann"));
        assert_eq!(sessions.enter(&ticket).unwrap_err().status, 401);
        // Neither a ticket nor anything else is a session's token.
        for token in [&*ticket.ticket, ""] {
            assert_eq!(sessions.of(token, None), Err(Rejected::Unknown));
        }
        let old = NewTicket {
            seconds: Some(0),
            ..NewTicket::default()
        };
        let (ticket, _) = sessions.new_ticket(&old).expect("a ticket");
        let old = sessions.enter(&UseTicket { ticket });
        assert_eq!(old.unwrap_err().status, 401);
    }
    #[test]
    fn a_revoked_session_is_worth_nothing_and_its_connections_end() {
        let sessions = Sessions::default();
        let enter = |name: &str| {
            let new = NewTicket {
                name: Some(name.to_owned()),
                ..NewTicket::default()
            };
            let (ticket, _) = sessions.new_ticket(&new).expect("a ticket");
            sessions
                .enter(&UseTicket { ticket })
                .expect("a session")
                .token
        };
        let (ann, bob, second) = (enter("ann"), enter("bob"), enter("ann"));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("one")).expect("it listens");
        let (server, _) = listener.accept().expect("a connection");
        let connection = Connection::new(server);
        for _ in 0..2 {
            sessions.of(&ann, Some(&connection)).expect("it is valid");
        }
        let open: Vec<_> = sessions
            .all()
            .iter()
            .map(|open| (open.session, open.connections))
            .collect();
        assert_eq!(open, [(1, 1), (2, 0), (3, 0)]);
        // A ticket that was not used is as good as a session.
        let unused = NewTicket {
            name: Some("ann".to_owned()),
            ..NewTicket::default()
        };
        let (unused, _) = sessions.new_ticket(&unused).expect("a ticket");
        let revoked = sessions.revoke("ann").expect("two");
        assert_eq!(
            revoked,
            Revoked {
                sessions: 2,
                tickets: 1
            }
        );
        assert_eq!(client.read(&mut [0]).expect("an end"), 0);
        for token in [&ann, &second] {
            assert_eq!(sessions.of(token, None), Err(Rejected::Revoked));
        }
        assert!(sessions.enter(&UseTicket { ticket: unused }).is_err());
        assert!(sessions.of(&bob, None).is_ok());
        let none = sessions.revoke("ann").expect_err("they are gone");
        assert!(none.status == 404 && none.problem.error.contains("ann"));
        assert_eq!(
            sessions.revoke("2").map(|revoked| revoked.sessions).ok(),
            Some(1)
        );
        assert_eq!(sessions.all(), []);
    }
}
