//! How a line fails.

use crate::ParseError;

/// Why a line did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// It can't be understood.
    #[error(transparent)]
    ParseError(#[from] ParseError),
    /// The control process refused, or is gone.
    #[error(transparent)]
    Api(Box<vink_api::Error>),
    /// A program failed.
    #[error("{}", ended(*.code, .error.as_deref()))]
    Program {
        /// 1 to 255; 128 and more: that minus 128 is the signal that ended it.
        code: i32,
        /// Why it could not be executed, or how it failed.
        error: Option<String>,
    },
    /// Something else: what was tried, what was found, what to do.
    #[error("{0}")]
    Other(String),
    /// ^C, while it waited.
    #[error("interrupted")]
    Interrupted,
    /// The session's client has gone.
    #[error("the session has ended")]
    Gone,
}

impl ShellError {
    /// For `map_err`: something with a file went wrong.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> ShellError + '_ {
        move |error| ShellError::Other(format!("{}: {error}", path.display()))
    }

    /// The status that a process which stops for this exits with: a program's own, and 125
    /// otherwise, as with env(1).
    pub fn exit_status(&self) -> i32 {
        match self {
            ShellError::Program { code, .. } => *code,
            ShellError::Interrupted => 130,
            _ => 125,
        }
    }
}

impl From<vink_api::Error> for ShellError {
    fn from(error: vink_api::Error) -> ShellError {
        ShellError::Api(Box::new(error))
    }
}

// A session writes to its client only.
impl From<std::io::Error> for ShellError {
    fn from(_: std::io::Error) -> ShellError {
        ShellError::Gone
    }
}

/// How a program ended, in words.
pub(crate) fn ended(code: i32, error: Option<&str>) -> String {
    let how = match code {
        0 => "done".to_owned(),
        129..=192 => format!("ended by signal {}", code - 128),
        code => format!("exit status {code}"),
    };
    match error {
        Some(error) => format!("{how}: {error}"),
        None => how,
    }
}
