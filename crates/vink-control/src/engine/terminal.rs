//! A program's input and output for its client: pipes, or a terminal.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use vink_api::{Size, STDERR, STDOUT};

use super::lab::Lab;
use super::program::Phase;
use super::spawn::{nothing, pipe, Start};
use crate::fault::Fault;

/// How long a program that was made with `attach` waits for its client.
const WAITING: Duration = Duration::from_secs(60);

/// A pipe or a terminal's master, read and written without blocking.
pub(crate) struct Pipe(AsyncFd<OwnedFd>);

impl Pipe {
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Pipe> {
        // SAFETY: changes a flag of a descriptor that is ours.
        let set = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        // Its access mode is not changed by F_SETFL.
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it owns the descriptor, which stays the same until it is dropped.
        Ok(Pipe(unsafe { AsyncFd::register(descriptor) }?))
    }

    /// 0 at its end. A terminal whose program has gone (`EIO`) is at its end.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_by(|| self.read_now(buffer)).await
    }

    /// The same by another who reads.
    pub(crate) async fn read_by(
        &self,
        mut read: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(read) = ready.try_io(|_| read()) {
                return read;
            }
        }
    }

    /// What is there.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is as large as said.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(read) {
            Ok(read) => Ok(read),
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EIO) => Ok(0),
                error => Err(error),
            },
        }
    }

    /// All of it.
    pub(crate) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            let write = |fd: &AsyncFd<OwnedFd>| {
                // SAFETY: the buffer is as large as said.
                let written =
                    unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
                usize::try_from(written).map_err(|_| io::Error::last_os_error())
            };
            if let Ok(written) = ready.try_io(write) {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }

    /// Gives a terminal another size.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        resize(&self.0.get_ref().as_raw_fd(), size)
    }
}

/// Our side of an attached program that has just been started.
pub(crate) struct Attached {
    pub(crate) id: u64,
    /// Each with its channel.
    pub(crate) outputs: Vec<(u8, Arc<Pipe>)>,
    pub(crate) input: Option<Arc<Pipe>>,
    /// The input is a terminal, which ends by a character.
    pub(crate) terminal: bool,
    pub(crate) phase: watch::Receiver<Phase>,
}

impl Lab {
    /// Forgets a program whose client does not come.
    pub(crate) fn expire(self: &Arc<Lab>, id: u64) {
        let lab = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(WAITING).await;
            if let Some(lab) = lab.upgrade() {
                let mut state = lab.state();
                if state
                    .tasks
                    .get(&id)
                    .is_some_and(|task| task.attach.is_some())
                {
                    state.tasks.remove(&id);
                }
            }
        });
    }

    /// Whether there is a program that waits for its client.
    pub(crate) fn is_attachable(&self, id: u64) -> Result<(), Fault> {
        let state = self.state();
        match state.tasks.get(&id) {
            Some(task) if task.attach.is_some() => Ok(()),
            _ => Err(Fault::conflict(format!(
                "program {id} does not wait for a client: it was not made with \"attach\", or has one"
            ))),
        }
    }

    /// Its client has come.
    pub(crate) async fn attach(self: &Arc<Lab>, id: u64) -> Result<Attached, Fault> {
        self.is_attachable(id)?;
        let (new, phase) = {
            let mut state = self.state();
            let task = state.tasks.get_mut(&id);
            let task = task.ok_or_else(|| Fault::conflict("its machine was removed"))?;
            let new = task.attach.take();
            task.awaited = true;
            let new = new.ok_or_else(|| Fault::conflict("it has a client already"))?;
            (new, task.phase.subscribe())
        };
        let host = |error| Fault::host("a program's input and output", error);
        let (theirs, attached) = match new.terminal {
            Some(size) => terminal(size),
            None => pipes(new.input),
        }
        .map_err(host)?;
        let (outputs, input) = attached;
        let start = Start {
            env: self.environment(&new.machine, &new.env, new.only_env),
            dir: self.directory(new.dir.as_deref()),
            machine: new.machine,
            words: new.words,
            app: false,
        };
        let is_terminal = new.terminal.is_some();
        let path = format!("/v1/labs/{}/programs/{id}/terminal", self.name);
        let started = self.changed_by("ATTACH", &path, &[], async {
            self.start(id, start, is_terminal, theirs).await?;
            self.ready(id);
            Ok(())
        });
        if let Err(fault) = Box::pin(started).await {
            let fault: Fault = fault;
            self.never_started(id, fault.problem.to_string());
            return Err(fault);
        }
        Ok(Attached {
            id,
            outputs,
            input,
            terminal: is_terminal,
            phase,
        })
    }
}

/// Ours: outputs with their channels, and the input.
type Ours = (Vec<(u8, Arc<Pipe>)>, Option<Arc<Pipe>>);

fn pipes(input: bool) -> io::Result<(Vec<OwnedFd>, Ours)> {
    let (stdin, ours) = match input {
        true => {
            let (stdin, ours) = pipe()?;
            (stdin, Some(Arc::new(Pipe::new(ours)?)))
        }
        false => (nothing()?, None),
    };
    let (out, stdout) = pipe()?;
    let (err, stderr) = pipe()?;
    let outputs = vec![
        (STDOUT, Arc::new(Pipe::new(out)?)),
        (STDERR, Arc::new(Pipe::new(err)?)),
    ];
    Ok((vec![stdin, stdout, stderr], (outputs, ours)))
}

/// See pty(7).
fn terminal(size: Size) -> io::Result<(Vec<OwnedFd>, Ours)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: system calls on a descriptor that was just opened, and is ours alone.
    let (master, slave) = unsafe {
        let master = libc::posix_openpt(flags);
        if master < 0 {
            return Err(io::Error::last_os_error());
        }
        let master = OwnedFd::from_raw_fd(master);
        if libc::unlockpt(master.as_raw_fd()) < 0 {
            return Err(io::Error::last_os_error());
        }
        // By the master, not by a path below /dev.
        let slave = libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags);
        if slave < 0 {
            return Err(io::Error::last_os_error());
        }
        (master, OwnedFd::from_raw_fd(slave))
    };
    resize(&master, size)?;
    let master = Arc::new(Pipe::new(master)?);
    let theirs = vec![slave.try_clone()?, slave.try_clone()?, slave];
    Ok((theirs, (vec![(STDOUT, master.clone())], Some(master))))
}

fn resize(master: &impl AsRawFd, size: Size) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure outlives the call, which only reads it.
    match unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
