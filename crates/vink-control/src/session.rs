//! Tickets and sessions: a ticket is used once, soon, for a session; a session's token is worth its role for as long as
//! the control process runs. Both are random numbers of 256 bits.

use std::fs;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use vink_api::{NewSession, NewTicket, Role, UseTicket};

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
    sessions: Vec<(String, Access)>,
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
        state.sessions.push((token.clone(), access.clone()));
        Ok(NewSession {
            token,
            role: access.role,
            actor: access.actor.to_string(),
        })
    }

    /// What the holder of this token may do.
    pub(crate) fn of(&self, token: &str) -> Option<Access> {
        let state = self.state();
        let own = state
            .sessions
            .iter()
            .find(|(own, _)| same(own.as_bytes(), token.as_bytes()));
        own.map(|(_, access)| access.clone())
    }
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
        let access = sessions.of(&session.token).expect("it is valid");
        assert_eq!((access.role, &*access.actor), (Role::View, "ann"));
        assert_eq!(sessions.enter(&ticket).unwrap_err().status, 401);
        // Neither a ticket nor anything else is a session's token.
        assert_eq!(sessions.of(&ticket.ticket), None);
        assert_eq!(sessions.of(""), None);
        let old = NewTicket {
            seconds: Some(0),
            ..NewTicket::default()
        };
        let (ticket, _) = sessions.new_ticket(&old).expect("a ticket");
        let old = sessions.enter(&UseTicket { ticket });
        assert_eq!(old.unwrap_err().status, 401);
    }
}
