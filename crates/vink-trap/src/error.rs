//! Everything that can go wrong between a worker and its programs.

/// An error of this crate. Each says what was tried, what was found and what can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel in the image failed; after a panic nothing works any more.
    #[error(transparent)]
    Kernel(#[from] vink_kernel::Error),
    /// The host refused something that the interposer needs.
    #[error("{what}: {}; `vink doctor` tells what is missing on this host", reason(*.errno))]
    System {
        /// What was tried.
        what: &'static str,
        /// A positive errno(3) value.
        errno: i32,
    },
    /// The host refused a part of a machine's [`NamespaceConfig`](crate::NamespaceConfig).
    #[error("{what}: {}", reason(*.errno))]
    Namespaces {
        /// What was tried, with the path.
        what: String,
        /// A positive errno(3) value.
        errno: i32,
    },
    /// Something in a machine's root folder can't appear on the machine.
    #[error("{}: {why}", .folder.display())]
    Folder {
        /// What is there.
        folder: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// The program's file could not be executed.
    #[error("cannot run '{program}': {}", reason(*.errno))]
    CannotRun {
        /// As it was named.
        program: String,
        /// A positive errno(3) value; `ENOENT` if there is no such file.
        errno: i32,
    },
    /// The program was never started, or its status has been taken.
    #[error("there is no such program (any more)")]
    NoSuchProgram,
}

impl Error {
    /// The exit status that a shell gives for this: 127 not found, 126 not executable, 125 else.
    pub fn exit_status(&self) -> i32 {
        match self {
            Error::CannotRun {
                errno: libc::ENOENT,
                ..
            } => 127,
            Error::CannotRun { .. } => 126,
            _ => 125,
        }
    }

    pub(crate) fn last(what: &'static str) -> Error {
        Error::of(what)(std::io::Error::last_os_error())
    }

    /// What makes an error of this of the system's.
    pub(crate) fn of(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::System {
            what,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// A kernel error that concerns one call becomes its result; one that ends everything stays.
pub(crate) fn to_errno_result(error: vink_kernel::Error) -> Result<i64, Error> {
    match error {
        vink_kernel::Error::Panic(_) => Err(error.into()),
        vink_kernel::Error::Errno { errno, .. } => Ok(-i64::from(errno)),
        _ => Ok(-i64::from(libc::EIO)),
    }
}

/// The host's words for an errno, without the number that std appends.
fn reason(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
