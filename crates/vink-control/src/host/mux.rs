//! Messages and streams of bytes over one stream of frames, the same on both sides.
//!
//! A frame is the length of what follows (4 bytes, big endian), its kind (1 byte), the number of a
//! stream (4 bytes), and its bytes. A stream's sender has a window: so many bytes may be under way
//! until the receiver has taken them and says so. A sender can be told to flush a stream: it sends
//! all that is there now, and a mark behind it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, Notify, Semaphore};
use tokio::task::JoinHandle;
use vink_protocol::MAX_FRAME;

use crate::engine::Pipe;

/// Bytes of a stream that may be under way.
const WINDOW: usize = 256 << 10;
/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;
/// Bytes of a frame's kind and stream.
const HEAD: usize = 5;
/// Bytes that a flush sends at most: a program that writes on and on is not waited for.
const MAX_FLUSH: usize = 1 << 20;

const MESSAGE: u8 = 0;
const DATA: u8 = 1;
/// The sender has no more.
const END: u8 = 2;
/// The receiver has taken so many bytes.
const CREDIT: u8 = 3;
/// The receiver takes no more.
const GONE: u8 = 4;
const FLUSH: u8 = 5;
const MARK: u8 = 6;

/// What comes of a stream.
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// All that was there at a flush has come.
    Mark,
    /// Nothing follows.
    End,
}

/// The sending end of a stream, for those that receive frames.
struct Source {
    window: Arc<Semaphore>,
    flush: Arc<Notify>,
    gone: Arc<Notify>,
}

/// The receiving end.
struct Sink {
    pieces: mpsc::UnboundedSender<Piece>,
    /// Those that wait for marks, in order.
    marks: VecDeque<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Streams {
    sources: HashMap<u32, Source>,
    sinks: HashMap<u32, Sink>,
    /// No frame comes any more.
    ended: bool,
    heard: Option<Instant>,
}

/// One side.
pub(crate) struct Mux {
    out: mpsc::UnboundedSender<Vec<u8>>,
    streams: Mutex<Streams>,
}

/// What is read from a stream, in order.
pub(crate) struct StreamReader {
    mux: Arc<Mux>,
    stream: u32,
    pieces: mpsc::UnboundedReceiver<Piece>,
    ended: bool,
}

impl StreamReader {
    /// The next piece; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        match self.pieces.recv().await.unwrap_or(Piece::End) {
            Piece::End => {
                self.ended = true;
                None
            }
            Piece::Bytes(bytes) => {
                let count = (bytes.len() as u32).to_be_bytes();
                self.mux.frame(CREDIT, self.stream, &count);
                Some(Piece::Bytes(bytes))
            }
            Piece::Mark => Some(Piece::Mark),
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let known = self.mux.streams().sinks.remove(&self.stream);
        if known.is_some() && !self.ended {
            self.mux.frame(GONE, self.stream, &[]);
        }
    }
}

/// A descriptor that may be a file, which no event tells of.
enum Handle {
    Pipe(Pipe),
    File(File),
}

impl Handle {
    fn new(descriptor: OwnedFd) -> io::Result<Handle> {
        let kind = descriptor.try_clone()?;
        match Pipe::new(descriptor) {
            Ok(pipe) => Ok(Handle::Pipe(pipe)),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                Ok(Handle::File(kind.into()))
            }
            Err(error) => Err(error),
        }
    }
}

impl Mux {
    /// Frames over these; what comes of messages is sent to a channel, which ends with the reader.
    pub(crate) fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> (Arc<Mux>, mpsc::UnboundedReceiver<Vec<u8>>) {
        let (out, outgoing) = mpsc::unbounded_channel();
        let (messages, coming) = mpsc::unbounded_channel();
        let mux = Arc::new(Mux {
            out,
            streams: Mutex::default(),
        });
        tokio::spawn(write_all(outgoing, writer));
        let receiving = mux.clone();
        tokio::spawn(async move {
            if let Err(error) = receiving.read_all(reader, messages).await {
                tracing::debug!(target: "control", "frames of another host: {error}");
            }
            receiving.end();
        });
        (mux, coming)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().expect("no panic while it is held")
    }

    /// When the last frame has come.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.streams().heard
    }

    /// Whether a stream's bytes are sent.
    pub(crate) fn is_sending(&self, stream: u32) -> bool {
        self.streams().sources.contains_key(&stream)
    }

    /// Whether more of it may come.
    pub(crate) fn is_receiving(&self, stream: u32) -> bool {
        self.streams().sinks.contains_key(&stream)
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &impl Serialize) {
        let text = serde_json::to_vec(message).expect("plain data");
        self.frame(MESSAGE, 0, &text);
    }

    fn frame(&self, kind: u8, stream: u32, bytes: &[u8]) {
        let length = (HEAD + bytes.len()) as u32;
        let mut frame = Vec::with_capacity(4 + HEAD + bytes.len());
        frame.extend(length.to_be_bytes());
        frame.push(kind);
        frame.extend(stream.to_be_bytes());
        frame.extend(bytes);
        // If no frame goes out any more, the other side is gone.
        let _ = self.out.send(frame);
    }

    /// No frame goes out after those that wait: the other side finds its input's end.
    pub(crate) fn close(&self) {
        let _ = self.out.send(Vec::new());
    }

    /// No frame comes any more: all streams are at their end.
    pub(crate) fn end(&self) {
        let mut streams = self.streams();
        streams.ended = true;
        for source in std::mem::take(&mut streams.sources).into_values() {
            source.gone.notify_one();
        }
        streams.sinks.clear();
    }

    /// What comes of a stream, which the other side begins after this.
    pub(crate) fn receive(self: &Arc<Mux>, stream: u32) -> StreamReader {
        let (pieces, coming) = mpsc::unbounded_channel();
        let mut streams = self.streams();
        if !streams.ended {
            let marks = VecDeque::new();
            streams.sinks.insert(stream, Sink { pieces, marks });
        }
        StreamReader {
            mux: self.clone(),
            stream,
            pieces: coming,
            ended: false,
        }
    }

    /// Writes what comes of a stream to a descriptor, until either ends.
    pub(crate) fn to_descriptor(self: &Arc<Mux>, stream: u32, to: OwnedFd) -> io::Result<()> {
        let (handle, mut reader) = (Handle::new(to)?, self.receive(stream));
        tokio::spawn(async move {
            while let Some(piece) = reader.next().await {
                let bytes = match piece {
                    Piece::Bytes(bytes) => bytes,
                    Piece::Mark => {
                        reader.mux.marked(stream);
                        continue;
                    }
                    Piece::End => break,
                };
                let written = match &handle {
                    Handle::Pipe(pipe) => pipe.write(&bytes).await,
                    Handle::File(file) => match file.try_clone() {
                        Ok(mut file) => blocking(move || file.write_all(&bytes)).await,
                        Err(error) => Err(error),
                    },
                };
                if written.is_err() {
                    break;
                }
            }
        });
        Ok(())
    }

    /// Has the other side send all that is there, and returns when that was written.
    pub(crate) async fn flush(&self, stream: u32) {
        let waiting = {
            let mut streams = self.streams();
            let Some(sink) = streams.sinks.get_mut(&stream) else {
                return;
            };
            let (done, waiting) = oneshot::channel();
            sink.marks.push_back(done);
            waiting
        };
        self.frame(FLUSH, stream, &[]);
        // An error: the stream has ended.
        let _ = waiting.await;
    }

    fn marked(&self, stream: u32) {
        let mut streams = self.streams();
        let sink = streams.sinks.get_mut(&stream);
        if let Some(done) = sink.and_then(|sink| sink.marks.pop_front()) {
            let _ = done.send(());
        }
    }

    /// Sends what is read from a descriptor, until it ends or the other side takes no more: whether
    /// it has ended.
    pub(crate) fn from_descriptor(
        self: &Arc<Mux>,
        stream: u32,
        from: OwnedFd,
    ) -> io::Result<JoinHandle<bool>> {
        let handle = Handle::new(from)?;
        let (window, flush, gone) = (
            Arc::new(Semaphore::new(WINDOW)),
            Arc::new(Notify::new()),
            Arc::new(Notify::new()),
        );
        {
            let mut streams = self.streams();
            if streams.ended {
                return Ok(tokio::spawn(async { false }));
            }
            let source = Source {
                window: window.clone(),
                flush: flush.clone(),
                gone: gone.clone(),
            };
            streams.sources.insert(stream, source);
        }
        let mux = self.clone();
        Ok(tokio::spawn(async move {
            let sending = async {
                let mut buffer = vec![0; CHUNK];
                loop {
                    let Ok(permit) = window.acquire_many(CHUNK as u32).await else {
                        return;
                    };
                    let read = match &handle {
                        Handle::File(file) => read_file(file, &mut buffer).await,
                        Handle::Pipe(pipe) => tokio::select! {
                            read = pipe.read(&mut buffer) => read,
                            () = flush.notified() => {
                                drop(permit);
                                mux.send_all(stream, pipe, &window, &mut buffer).await;
                                mux.frame(MARK, stream, &[]);
                                continue;
                            }
                        },
                    };
                    let Ok(count @ 1..) = read else { return };
                    permit.forget();
                    window.add_permits(CHUNK - count);
                    mux.frame(DATA, stream, &buffer[..count]);
                }
            };
            let ended = tokio::select! {
                () = sending => true,
                () = gone.notified() => false,
            };
            mux.streams().sources.remove(&stream);
            mux.frame(END, stream, &[]);
            ended
        }))
    }

    /// Sends what is there now.
    async fn send_all(&self, stream: u32, pipe: &Pipe, window: &Semaphore, buffer: &mut [u8]) {
        let mut sent = 0;
        while sent < MAX_FLUSH {
            let Ok(permit) = window.acquire_many(CHUNK as u32).await else {
                return;
            };
            let Ok(count @ 1..) = pipe.read_now(buffer) else {
                return;
            };
            permit.forget();
            window.add_permits(CHUNK - count);
            self.frame(DATA, stream, &buffer[..count]);
            sent += count;
        }
    }

    async fn read_all(
        &self,
        mut reader: impl AsyncRead + Unpin,
        messages: mpsc::UnboundedSender<Vec<u8>>,
    ) -> io::Result<()> {
        loop {
            let length = reader.read_u32().await? as usize;
            if !(HEAD..=MAX_FRAME + HEAD).contains(&length) {
                let why = format!("a frame of {length} bytes");
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
            let mut head = [0; HEAD];
            reader.read_exact(&mut head).await?;
            let mut bytes = vec![0; length - HEAD];
            reader.read_exact(&mut bytes).await?;
            let [kind, stream @ ..] = head;
            self.take(kind, u32::from_be_bytes(stream), bytes, &messages);
        }
    }

    fn take(
        &self,
        kind: u8,
        stream: u32,
        bytes: Vec<u8>,
        messages: &mpsc::UnboundedSender<Vec<u8>>,
    ) {
        let mut streams = self.streams();
        streams.heard = Some(Instant::now());
        match kind {
            MESSAGE => {
                let _ = messages.send(bytes);
            }
            DATA => {
                // A reader that has gone has said so.
                if let Some(sink) = streams.sinks.get(&stream) {
                    let _ = sink.pieces.send(Piece::Bytes(bytes));
                }
            }
            MARK => {
                if let Some(sink) = streams.sinks.get(&stream) {
                    let _ = sink.pieces.send(Piece::Mark);
                }
            }
            END => {
                // It is forgotten when what came before has been taken.
                if let Some(sink) = streams.sinks.get(&stream) {
                    let _ = sink.pieces.send(Piece::End);
                }
            }
            CREDIT => {
                let count = bytes.first_chunk().map_or(0, |it| u32::from_be_bytes(*it));
                if let Some(source) = streams.sources.get(&stream) {
                    source.window.add_permits((count as usize).min(WINDOW));
                }
            }
            GONE => {
                if let Some(source) = streams.sources.get(&stream) {
                    source.gone.notify_one();
                }
            }
            FLUSH => match streams.sources.get(&stream) {
                Some(source) => source.flush.notify_one(),
                // Its end has been sent.
                None => self.frame(MARK, stream, &[]),
            },
            _ => {}
        }
    }
}

async fn write_all(
    mut outgoing: mpsc::UnboundedReceiver<Vec<u8>>,
    mut writer: impl AsyncWrite + Unpin,
) {
    let mut next = Vec::new();
    while outgoing.recv_many(&mut next, 64).await > 0 {
        for frame in next.drain(..) {
            if frame.is_empty() || writer.write_all(&frame).await.is_err() {
                return;
            }
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
}

async fn read_file(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let (mut file, size) = (file.try_clone()?, buffer.len());
    let bytes = blocking(move || {
        let mut bytes = vec![0; size];
        let count = file.read(&mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    });
    let bytes = bytes.await?;
    buffer[..bytes.len()].copy_from_slice(&bytes);
    Ok(bytes.len())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}
