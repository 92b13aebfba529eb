//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Why a connection can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("{path}: {source}{}", elsewhere(.path, .source))]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The image has no debug information, or it can't be read.
    #[error(
        "{image}: {why}; build it with stack/build, or vink image build, which leave it there"
    )]
    Debug {
        /// The image.
        image: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The kernel was changed too far for Vink to find its way.
    #[error("the image's {structure} has no {member}: Vink finds connections by it")]
    NoMember {
        /// The structure.
        structure: String,
        /// What is missing.
        member: String,
    },
    /// There is no kernel in the process.
    #[error("process {0} has no image loaded: it is neither a worker nor a program with the stack in it")]
    NoImage(u32),
    /// The process can't be read.
    #[error("reading process {pid}: {source}{}", hint(.source))]
    Memory {
        /// Which.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// What to do about it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it must be yours, and /proc/sys/kernel/yama/ptrace_scope 0, unless you are root"
        }
        _ => "",
    }
}

/// The same of debug information, most of which lies where an image was built.
fn elsewhere(path: &std::path::Path, error: &io::Error) -> &'static str {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let is_debug = path.extension().is_some_and(|extension| extension == "dwo");
    match (is_debug, error.kind()) {
        (true, PermissionDenied) => {
            "; the image is another user's: build one of your own with stack/build, or vink image build"
        }
        (true, NotFound) => {
            "; it was where the image was built: build it again with stack/build, or vink image build"
        }
        _ => "",
    }
}

/// Of a file.
pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::File {
        path: path.to_owned(),
        source,
    }
}
