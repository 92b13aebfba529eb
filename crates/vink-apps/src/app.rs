//! What a virtualized process is to its author, and why one ends early.

use std::fmt;
use std::io;

use crate::Calls;

/// A program that runs as a task of a machine.
pub trait App {
    /// Does all of its work and returns its exit status, as `main()` would. It must not block other
    /// than by [`Calls`], on which it should make a call now and then: that is how others get their
    /// turn, and how it learns that it is to stop.
    ///
    /// # Errors
    /// What made it give up: it is written to the app's output, and the exit status is 1. A call
    /// that was interrupted because the app is to stop ([`Calls::stopping`]) is to be passed on as
    /// it is: it ends the app without a complaint.
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError>;
}

/// Why an app has given up.
#[derive(Debug)]
pub struct AppError {
    what: String,
    error: Option<io::Error>,
}

impl AppError {
    /// An error that is not a call's: what was tried, what was found, what to do.
    pub fn new(what: impl Into<String>) -> AppError {
        AppError {
            what: what.into(),
            error: None,
        }
    }

    /// Says what was tried when a call failed: `.map_err(AppError::during("connect to 10.0.0.1"))`.
    pub fn during(what: impl fmt::Display) -> impl FnOnce(io::Error) -> AppError {
        move |error| AppError {
            what: what.to_string(),
            error: Some(error),
        }
    }

    /// Whether it is a call that was interrupted.
    pub(crate) fn is_interruption(&self) -> bool {
        let kind = self.error.as_ref().map(io::Error::kind);
        kind == Some(io::ErrorKind::Interrupted)
    }
}

impl From<io::Error> for AppError {
    fn from(error: io::Error) -> AppError {
        AppError {
            what: String::new(),
            error: Some(error),
        }
    }
}

impl fmt::Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, self.what.as_str()) {
            (None, what) => f.write_str(what),
            (Some(error), "") => error.fmt(f),
            (Some(error), what) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for AppError {}
