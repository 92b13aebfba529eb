//! Starts a control process in the background when none runs.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use vink_sys::child::{prepare, Step};

use crate::{Error, RuntimeDir};

/// Starts `EXECUTABLE daemon --ready FD` in a session of its own and returns when it listens, or
/// when another one does. The daemon gets a pipe's end to say so: an empty line when it listens or
/// finds that another one does, or why it can't.
pub(crate) fn start(dir: &RuntimeDir, executable: &Path) -> Result<(), Error> {
    let failed = |what: &str, error: io::Error| {
        Error::Start(format!("starting vink daemon: {what}: {error}"))
    };
    dir.secure()
        .map_err(|error| Error::Start(error.to_string()))?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(dir.log())
        .map_err(|error| failed(&dir.log().display().to_string(), error))?;
    let (mut answer, theirs) = UnixStream::pair().map_err(|error| failed("socketpair", error))?;
    let number = theirs.as_raw_fd();
    let mut command = Command::new(executable);
    command
        .args(["daemon", "--ready", &number.to_string()])
        .env("VINK_RUNTIME", dir.folder())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(|error| failed("dup", error))?)
        .stderr(log);
    // No child of a process that never waits for it.
    prepare(
        &mut command,
        [Step::Detach, Step::Session, Step::Keep(number)],
    );
    let mut child = command
        .spawn()
        .map_err(|error| failed(&executable.display().to_string(), error))?;
    drop(theirs);
    let mut text = String::new();
    let read = answer.read_to_string(&mut text);
    let _ = child.wait();
    read.map_err(|error| failed("waiting for it", error))?;
    match text.strip_prefix('\n') {
        Some(_) => Ok(()),
        None if text.is_empty() => Err(Error::Start(format!(
            "vink daemon ended before it listened; {} may say why",
            dir.log().display()
        ))),
        None => Err(Error::Start(format!("vink daemon: {}", text.trim_end()))),
    }
}
