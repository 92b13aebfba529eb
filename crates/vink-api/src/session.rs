//! Pages and their sessions: tickets, and what their holders may do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a client may do. Each one may do what those before it may.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything.
    View,
    /// Move and draw in the picture, which changes nothing in the lab.
    Draw,
    /// Change labs that run, and run programs on their machines.
    Operate,
    /// Everything: make labs and take them down, have files written, let others in.
    #[default]
    Own,
}

/// `POST /v1/tickets`: lets a page in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewTicket {
    /// What the page may do.
    #[serde(default)]
    pub role: Role,
    /// The name of its user, for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Seconds that it may be used for, once: 60 otherwise, a day at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// The loopback port where pages are answered: any otherwise. It is chosen once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A ticket: worth one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Ticket {
    /// The page's address, with the ticket in its fragment, which no browser sends.
    pub url: String,
    /// The ticket.
    pub ticket: String,
    /// Seconds that it may be used for.
    pub seconds: u32,
}

/// `POST /v1/session`: changes a ticket for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UseTicket {
    /// The ticket.
    pub ticket: String,
}

/// A session that was just made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NewSession {
    /// What the session's requests bear: `Authorization: Bearer TOKEN`.
    pub token: String,
    /// What it may do.
    pub role: Role,
    /// Its user's name.
    pub actor: String,
}

/// The session of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Session {
    /// What it may do.
    pub role: Role,
    /// Its user's name.
    pub actor: String,
}

/// A session that is valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OpenSession {
    /// Its number.
    pub session: u64,
    /// Its user's name.
    pub actor: String,
    /// What it may do.
    pub role: Role,
    /// When it began: seconds since 1970.
    pub since: f64,
    /// How many connections it has now.
    pub connections: usize,
}

/// `DELETE /v1/sessions/SESSION`: what is not valid any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Revoked {
    /// How many sessions.
    pub sessions: usize,
    /// How many tickets that were not used yet.
    pub tickets: usize,
}
