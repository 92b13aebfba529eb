//! What goes wrong: what the control process answers, and what keeps a client from asking.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to a request that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Problem {
    /// What was tried and what was found.
    pub error: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where in the request, as JSON pointers (RFC 6901), if that is what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What had been changed before, if a change failed half-way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// What was not changed for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_done: Vec<String>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.error)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// An error of the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control process refused the request.
    #[error("{problem}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its words.
        problem: Problem,
    },
    /// No control process runs, and so no lab.
    #[error("no lab runs: no control process listens at {0}; vink lab up FILE starts one")]
    NotRunning(String),
    /// The control process could not be started or reached.
    #[error("{0}")]
    Start(String),
    /// The connection failed.
    #[error("the control process {what}: {source}")]
    Connection {
        /// What was done.
        what: &'static str,
        /// How it failed.
        source: std::io::Error,
    },
    /// The answer was none of this API.
    #[error("the control process gave an answer that is not understood ({0}): is it of another version of vink?")]
    Answer(String),
}

impl Error {
    /// The HTTP status if the request was refused.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}
