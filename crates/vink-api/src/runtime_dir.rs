//! Where a user's control process listens.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The runtime folder of a user's control process: `$VINK_RUNTIME`, `$XDG_RUNTIME_DIR/vink`, or
/// `/tmp/vink-UID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeDir(PathBuf);

/// Where a control process is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Its unix socket.
    Unix(PathBuf),
    /// `vink daemon --listen`, with the token that it wrote down.
    Tcp(SocketAddr, String),
}

impl RuntimeDir {
    /// The current user's.
    pub fn find() -> RuntimeDir {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        RuntimeDir(
            match (variable("VINK_RUNTIME"), variable("XDG_RUNTIME_DIR")) {
                (Some(folder), _) => folder.into(),
                (None, Some(folder)) => Path::new(&folder).join("vink"),
                (None, None) => format!("/tmp/vink-{}", user()).into(),
            },
        )
    }

    /// This folder.
    pub fn at(folder: impl Into<PathBuf>) -> RuntimeDir {
        RuntimeDir(folder.into())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The control process's socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// What a control process holds locked for as long as it runs.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// What a control process in the background writes.
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// The token for clients over TCP.
    pub fn token(&self) -> PathBuf {
        self.0.join("token")
    }

    /// The page that leads `vink ui`'s browser to the true one, with a ticket.
    pub fn page(&self) -> PathBuf {
        self.0.join("ui.html")
    }

    /// Makes the folder if it is not there, and refuses one into which another user could have put
    /// something: it must be a folder and no symbolic link, belong to the user, and be closed to
    /// all others.
    pub fn secure(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        match builder.mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.refuse(&format!(
                    "can't be made: {error}; VINK_RUNTIME names another"
                )))
            }
            _ => {}
        }
        let found = fs::symlink_metadata(&self.0)?;
        if !found.is_dir() {
            return Err(self.refuse("is not a folder; remove it, or VINK_RUNTIME names another"));
        }
        if found.uid() != user() {
            return Err(self.refuse(&format!(
                "belongs to user {}; VINK_RUNTIME names another",
                found.uid()
            )));
        }
        if found.mode() & 0o077 != 0 {
            // It is the user's own, so this is no more than the user could do.
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> io::Error {
        let text = format!("the runtime folder {} {why}", self.0.display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }
}

/// The user of this process.
fn user() -> u32 {
    vink_sys::process::geteuid()
}
