//! A program's input and output for its client: pipes, or a terminal.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};
use vink_api::{Bytes, FromServer, Input, NewProgram, Size, STDERR, STDOUT};
use vink_sys::fd::set_flags;
use vink_sys::{poll, rustix};

use super::clock::Requester;
use super::input::{Giver, InputEnd};
use super::lab::{is_over, Lab};
use super::program::Phase;
use super::spawn::{nothing, pipe, Start};
use crate::host::HostLink;
use crate::http_error::HttpError;

/// How long a program that was made with `attach` waits for its client.
pub(crate) const ATTACH_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
pub(crate) const PIECE: usize = 1 << 16;
/// Pieces that wait for the client.
pub(crate) const PIECES: usize = 4;

/// A program's outputs, each with its channel ([`STDOUT`], [`STDERR`]).
pub(crate) type Outputs = Vec<(u8, Arc<Pipe>)>;

/// A pipe or a terminal's master, read and written without blocking.
pub(crate) struct Pipe(AsyncFd<OwnedFd>);

impl Pipe {
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Pipe> {
        // Its access mode is not changed by F_SETFL.
        set_flags(&descriptor, libc::O_NONBLOCK)?;
        // SAFETY: it owns the descriptor, which stays the same until it is dropped.
        Ok(Pipe(unsafe { AsyncFd::register(descriptor) }?))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }

    /// Whether something can be written, or it is known that nothing can any more.
    pub(crate) fn has_room(&self) -> bool {
        poll::events_of(self.0.as_raw_fd(), libc::POLLOUT, 0) != 0
    }

    /// Returns when there may be room.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.writable().await?;
            let look = |_: &AsyncFd<OwnedFd>| match self.has_room() {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
            if let Ok(looked) = ready.try_io(look) {
                return looked;
            }
        }
    }

    /// 0 at its end. A terminal whose program has gone (`EIO`) is at its end.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_by(|| self.read_now(buffer)).await
    }

    /// The same by another reader.
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
        match rustix::io::read(self.0.get_ref(), buffer) {
            Ok(read) => Ok(read),
            Err(error) => match io::Error::from(error) {
                error if error.raw_os_error() == Some(libc::EIO) => Ok(0),
                error => Err(error),
            },
        }
    }

    /// All of it.
    pub(crate) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            let write = |fd: &AsyncFd<OwnedFd>| Ok(rustix::io::write(fd.get_ref(), bytes)?);
            if let Ok(written) = ready.try_io(write) {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }

    /// Gives a terminal another size.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        vink_sys::terminal::resize(self.0.get_ref(), size.rows, size.columns)
    }

    /// ... and the one on another host that this one stands for.
    pub(super) fn resize_there(&self, link: &HostLink, size: Size) {
        if let Ok(slave) = vink_sys::terminal::slave_of(self.0.get_ref()) {
            let identity = vink_sys::fd::identity(slave.as_raw_fd());
            link.resize(identity, size.rows, size.columns);
        }
    }
}

/// Our side of an attached program that has just been started.
struct Attached {
    /// Each with its channel.
    outputs: Outputs,
    phase: watch::Receiver<Phase>,
}

impl Lab {
    /// Forgets a program whose client does not come.
    pub(crate) fn expire(self: &Arc<Lab>, id: u64) {
        let lab = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(ATTACH_TIMEOUT).await;
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
    pub(crate) fn is_attachable(&self, id: u64) -> Result<(), HttpError> {
        let state = self.state();
        match state.tasks.get(&id) {
            Some(task) if task.attach.is_some() || task.kept.is_some() => Ok(()),
            _ => Err(HttpError::conflict(format!(
                "program {id} does not wait for a client: it was not made with \"attach\", has one, or its terminal has gone"
            ))),
        }
    }

    /// Its client has come, or the line that has made it.
    async fn attach(self: &Arc<Lab>, id: u64, giver: &Giver) -> Result<Attached, HttpError> {
        self.is_attachable(id)?;
        let (new, phase) = {
            let mut state = self.state();
            let task = state.tasks.get_mut(&id);
            let task = task.ok_or_else(|| HttpError::conflict("its machine was removed"))?;
            let new = task.attach.take();
            task.awaited_by = Some(giver.requester);
            let new = new.ok_or_else(|| HttpError::conflict("it has a client already"))?;
            (new, task.phase.subscribe())
        };
        let path = format!("/v1/labs/{}/programs/{id}/terminal", self.name);
        let (start, outputs) = self.attached(id, &new, giver.requester)?;
        let start = Box::pin(start);
        let started: Result<(), HttpError> = match giver.requester {
            Requester::Client => {
                self.changed_by(&giver.actor, "ATTACH", &path, &[], start)
                    .await
            }
            Requester::Line => start.await,
        };
        if let Err(fault) = started {
            self.never_started(id, fault.problem.to_string());
            return Err(fault);
        }
        Ok(Attached { outputs, phase })
    }

    /// Both sides of a program's input and output: what starts it, and its outputs with their
    /// channels.
    pub(crate) fn attached(
        self: &Arc<Lab>,
        id: u64,
        new: &NewProgram,
        requester: Requester,
    ) -> Result<(impl Future<Output = Result<(), HttpError>> + use<>, Outputs), HttpError> {
        let (theirs, (outputs, input)) = match new.terminal {
            Some(size) => terminal(size),
            None => pipes(new.input),
        }
        .map_err(|error| HttpError::host("a program's input and output", error))?;
        let is_terminal = new.terminal.is_some();
        let there = self.link_of_machine(&new.machine);
        if let Some(task) = self.state().tasks.get_mut(&id) {
            task.input = input.map(|to| InputEnd {
                to,
                is_terminal,
                there,
            });
        }
        let mut env = self.environment(&new.machine, &new.env, new.only_env);
        if is_terminal && self.records_inputs(requester) {
            // A shell reads its history, and writes it at its end: the run would not repeat.
            let history = ("HISTFILE".to_owned(), "/dev/null".to_owned());
            env.extend((!new.env.contains_key("HISTFILE")).then_some(history));
        }
        let start = Start {
            env,
            dir: self.directory(&new.machine, new.dir.as_deref()),
            machine: new.machine.clone(),
            words: new.words.clone(),
            app: false,
            rights: new.rights,
        };
        let lab = self.clone();
        let start = async move {
            lab.start(id, start, is_terminal, theirs).await?;
            lab.ready(id);
            Ok(())
        };
        Ok((start, outputs))
    }
}

/// What a program's client is told.
pub(crate) enum FromProgram {
    /// A piece of output behind the byte of its channel.
    Frame(Bytes),
    /// What is told beside that; after [`FromServer::Ended`] nothing follows.
    Told(FromServer),
}

impl Lab {
    /// Starts a program that was made with `attach`, and carries its input and output until it ends
    /// or its client, on which `inputs` end, has gone.
    pub(crate) async fn carry(
        self: Arc<Lab>,
        id: u64,
        giver: Giver,
        sink: impl Sink<FromProgram>,
        inputs: impl Stream<Item = Input> + Send + 'static,
    ) {
        let mut sink = pin!(sink);
        let ended = |code, error| FromProgram::Told(FromServer::Ended { code, error });
        let kept = self
            .state()
            .tasks
            .get(&id)
            .and_then(|task| task.kept.clone());
        if let Some(kept) = kept {
            return self.look_at(id, kept, giver, sink, inputs).await;
        }
        let attached = match self.attach(id, &giver).await {
            Ok(attached) => attached,
            Err(fault) => {
                let error = Some(fault.problem.to_string());
                let _ = sink.send(ended(126, error)).await;
                return;
            }
        };
        let mut phase = attached.phase;
        let (pieces, mut coming) = mpsc::channel(PIECES);
        for (channel, output) in attached.outputs {
            tokio::spawn(pump(channel, output, pieces.clone(), phase.clone()));
        }
        drop(pieces);
        // Only the client's going away ends that.
        let heard = self.clone().hear(id, inputs, giver.clone());
        let mut hearing = tokio::spawn(heard);
        let talking = async {
            while let Some(piece) = coming.recv().await {
                if sink.send(FromProgram::Frame(piece)).await.is_err() {
                    return false;
                }
            }
            let _ = phase.wait_for(is_over).await;
            true
        };
        let client_is_there = tokio::select! {
            is_there = talking => is_there,
            _ = &mut hearing => false,
        };
        let code = match phase.borrow().clone() {
            Phase::Ended { code, .. } => Some(code),
            _ => None,
        };
        if let (true, Some(code)) = (client_is_there, code) {
            let error = {
                let state = self.state();
                state.tasks.get(&id).and_then(|task| task.error.clone())
            };
            let _ = sink.send(ended(code, error)).await;
            let _ = sink.close().await;
        }
        hearing.abort();
        if code.is_none() {
            self.client_gone(id, &giver).await;
        }
    }

    /// From the client to the program; ends when the client goes away.
    async fn hear(self: Arc<Lab>, id: u64, inputs: impl Stream<Item = Input>, giver: Giver) {
        let mut inputs = pin!(inputs);
        while let Some(input) = inputs.next().await {
            // If the program reads no more, it is told by its end.
            self.give(id, input, &giver).await;
        }
    }
}

/// From an output to the client, until its end; when the program has ended, until all is read that
/// it has written.
pub(crate) async fn pump(
    channel: u8,
    output: Arc<Pipe>,
    pieces: mpsc::Sender<Bytes>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut over = false;
    loop {
        let mut buffer = vec![0; PIECE];
        buffer[0] = channel;
        let read = match over {
            true => output.read_now(&mut buffer[1..]),
            false => tokio::select! {
                read = output.read(&mut buffer[1..]) => read,
                _ = phase.wait_for(is_over) => {
                    over = true;
                    continue;
                }
            },
        };
        let Ok(count @ 1..) = read else {
            return;
        };
        buffer.truncate(1 + count);
        // Small ones would keep much more memory than they need.
        if count < PIECE / 4 {
            buffer.shrink_to_fit();
        }
        if pieces.send(buffer.into()).await.is_err() {
            return;
        }
    }
}

/// Ours: outputs with their channels, and the input.
type Ours = (Outputs, Option<Arc<Pipe>>);

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
    let (master, slave) = vink_sys::terminal::open(size.rows, size.columns)?;
    let master = Arc::new(Pipe::new(master.into())?);
    let theirs = vec![slave.try_clone()?, slave.try_clone()?, slave];
    Ok((theirs, (vec![(STDOUT, master.clone())], Some(master))))
}
