//! The client of a lab worker: requests, which are answered in order, events, and the worker's end.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use vink_protocol::{encode, send_with};
use vink_protocol::{Action, Answer, Event, FrameDecoder, Message, Request};

use crate::host::{Descriptor, HostLink, Piece, StreamReader};
/// Why a request has failed.
#[derive(Clone, Debug)]
pub(crate) enum RequestError {
    /// The worker has refused it, with this text.
    Failed(String),
    /// The worker has ended.
    Dead,
}

type Reply = oneshot::Sender<Result<Answer, RequestError>>;

/// The answer to a request in flight.
pub(crate) struct PendingAnswer(oneshot::Receiver<Result<Answer, RequestError>>);

impl PendingAnswer {
    /// Waits for the answer.
    pub(crate) async fn answer(self) -> Result<Answer, RequestError> {
        self.0.await.unwrap_or(Err(RequestError::Dead))
    }
}

struct Outgoing {
    action: Action,
    descriptors: Vec<Descriptor>,
    reply: Reply,
}

/// Sends requests; the worker ends when all clones of this are dropped.
#[derive(Clone)]
pub(crate) struct WorkerClient(mpsc::UnboundedSender<Outgoing>);

/// A message that is no answer.
pub(crate) enum WorkerMessage {
    /// It has booted.
    Ready { protocol: u32, release: String },
    /// Something happened.
    Event(Event),
}

impl WorkerClient {
    /// A client over this socket, and a channel of messages, which ends when the worker does.
    pub(crate) fn new(
        socket: UnixStream,
    ) -> (WorkerClient, mpsc::UnboundedReceiver<WorkerMessage>) {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let (said, saying) = mpsc::unbounded_channel();
        let (replies, answered) = mpsc::unbounded_channel();
        let (read, write) = socket.into_split();
        tokio::spawn(async move {
            let _ = send_all(outgoing, write, replies).await;
        });
        tokio::spawn(async move {
            if let Err(error) = receive_all(read, answered, said).await {
                // A worker that was killed may have left requests unread.
                if error.kind() != io::ErrorKind::ConnectionReset {
                    tracing::warn!(target: "control", "a worker's messages: {error}");
                }
            }
        });
        (WorkerClient(requests), saying)
    }

    /// The same of a worker on another host.
    pub(crate) fn there(
        link: Arc<HostLink>,
        worker: u64,
        messages: StreamReader,
    ) -> (WorkerClient, mpsc::UnboundedReceiver<WorkerMessage>) {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let (said, saying) = mpsc::unbounded_channel();
        let (replies, answered) = mpsc::unbounded_channel();
        tokio::spawn(ask_all(outgoing, link.clone(), worker, replies));
        tokio::spawn(async move {
            if let Err(error) = hear_all(messages, answered, said, link).await {
                tracing::warn!(target: "control", "a worker's messages: {error}");
            }
        });
        (WorkerClient(requests), saying)
    }

    /// Sends a request, after all earlier ones.
    pub(crate) fn ask(&self, action: Action, descriptors: Vec<Descriptor>) -> PendingAnswer {
        let (reply, answer) = oneshot::channel();
        // If it has ended, the reply is dropped with the message.
        let _ = self.0.send(Outgoing {
            action,
            descriptors,
            reply,
        });
        PendingAnswer(answer)
    }
}

/// Writes requests until the channel is closed; then it closes the writing half, which ends the
/// worker.
async fn send_all(
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    socket: tokio::net::unix::OwnedWriteHalf,
    replies: mpsc::UnboundedSender<(u64, Reply)>,
) -> io::Result<()> {
    let mut id = 0;
    while let Some(next) = outgoing.recv().await {
        id += 1;
        let request = Request {
            id,
            action: next.action,
        };
        let mut frame = Vec::new();
        encode(&request, &mut frame);
        // Queued before the request is sent, so that the answer finds it.
        let _ = replies.send((id, next.reply));
        let descriptors = next.descriptors.into_iter();
        let descriptors: Vec<OwnedFd> = descriptors.filter_map(Descriptor::here).collect();
        let mut at = 0;
        while at < frame.len() {
            let descriptors = if at == 0 { &descriptors[..] } else { &[] };
            let stream: &UnixStream = socket.as_ref();
            at += stream
                .async_io(Interest::WRITABLE, || {
                    send_with(stream.as_fd(), &frame[at..], descriptors)
                })
                .await?;
        }
    }
    Ok(())
}

async fn receive_all(
    socket: OwnedReadHalf,
    replies: mpsc::UnboundedReceiver<(u64, Reply)>,
    said: mpsc::UnboundedSender<WorkerMessage>,
) -> io::Result<()> {
    let mut replies = Replies::of(replies);
    let mut decoder = FrameDecoder::default();
    loop {
        while let Some(message) = decoder.next_message()? {
            if let Some(message) = replies.take(message)? {
                let _ = said.send(message);
            }
        }
        socket.readable().await?;
        match decoder.fill(|room| socket.try_read(room)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Those that wait for answers. Mostly they are answered in their order.
struct Replies {
    coming: mpsc::UnboundedReceiver<(u64, Reply)>,
    waiting: VecDeque<(u64, Reply)>,
}

impl Replies {
    fn of(coming: mpsc::UnboundedReceiver<(u64, Reply)>) -> Replies {
        let waiting = VecDeque::new();
        Replies { coming, waiting }
    }

    /// Gives an answer to the one that waits for it. What is none is left.
    fn take(&mut self, message: Message) -> io::Result<Option<WorkerMessage>> {
        let (id, result) = match message {
            Message::Done { id, answer } => (id, Ok(answer)),
            Message::Failed { id, error } => (id, Err(RequestError::Failed(error))),
            Message::Ready {
                protocol, release, ..
            } => return Ok(Some(WorkerMessage::Ready { protocol, release })),
            Message::Event(event) => return Ok(Some(WorkerMessage::Event(event))),
        };
        while let Ok(next) = self.coming.try_recv() {
            self.waiting.push_back(next);
        }
        let mut waiting = self.waiting.iter();
        let its = waiting.position(|(expected, _)| *expected == id);
        match its.and_then(|at| self.waiting.remove(at)) {
            Some((_, reply)) => {
                // The task that asked may have been dropped.
                let _ = reply.send(result);
                Ok(None)
            }
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("answer {id} was not asked for"),
            )),
        }
    }
}

/// Sends requests to another host until the channel is closed; then the worker is ended. Streams of
/// programs' output are told beside the replies.
async fn ask_all(
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    link: Arc<HostLink>,
    worker: u64,
    replies: mpsc::UnboundedSender<(u64, Reply, Vec<u32>)>,
) {
    let mut id = 0;
    while let Some(next) = outgoing.recv().await {
        id += 1;
        match link.carry(&next.action, next.descriptors) {
            Ok(carried) => {
                // Queued before the request is sent, so that the answer finds it.
                let _ = replies.send((id, next.reply, carried.outputs.clone()));
                let action = next.action;
                link.ask(worker, Request { id, action }, carried);
            }
            Err(error) => {
                let error = format!("descriptors for host {}: {error}", link.name);
                let _ = next.reply.send(Err(RequestError::Failed(error)));
            }
        }
    }
    link.end(worker);
}

/// Messages of a worker on another host. The end of a program is told when all is here that it had
/// written: its output comes by streams of its own.
async fn hear_all(
    mut messages: StreamReader,
    mut answered: mpsc::UnboundedReceiver<(u64, Reply, Vec<u32>)>,
    said: mpsc::UnboundedSender<WorkerMessage>,
    link: Arc<HostLink>,
) -> io::Result<()> {
    let (to, coming) = mpsc::unbounded_channel();
    let mut replies = Replies::of(coming);
    let mut decoder = FrameDecoder::default();
    // By requests that have started programs, and by programs.
    let mut asked: HashMap<u64, Vec<u32>> = HashMap::new();
    let mut outputs: HashMap<u64, Vec<u32>> = HashMap::new();
    // Ends of programs of which it is not known yet that they were started.
    let mut early: HashMap<u64, Event> = HashMap::new();
    let tell_end = |streams: Vec<u32>, event: Event| {
        let (link, said) = (link.clone(), said.clone());
        tokio::spawn(async move {
            for stream in streams {
                link.flush(stream).await;
            }
            let _ = said.send(WorkerMessage::Event(event));
        });
    };
    while let Some(piece) = messages.next().await {
        let Piece::Bytes(bytes) = piece else { continue };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            decoder.fill(|room| rest.read(room))?;
        }
        while let Some(message) = decoder.next_message()? {
            while let Ok((id, reply, streams)) = answered.try_recv() {
                asked.insert(id, streams);
                let _ = to.send((id, reply));
            }
            match &message {
                Message::Done { id, answer } => {
                    let streams = asked.remove(id).unwrap_or_default();
                    if let Answer::Program(number) = answer {
                        match early.remove(number) {
                            Some(event) => tell_end(streams, event),
                            None => drop(outputs.insert(*number, streams)),
                        }
                    }
                }
                Message::Failed { id, .. } => drop(asked.remove(id)),
                _ => {}
            }
            match replies.take(message)? {
                None => {}
                Some(WorkerMessage::Event(event)) => match event {
                    Event::Ended { program, .. } => match outputs.remove(&program) {
                        Some(streams) => tell_end(streams, event),
                        None => drop(early.insert(program, event)),
                    },
                    event => drop(said.send(WorkerMessage::Event(event))),
                },
                Some(message) => drop(said.send(message)),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn answers_in_order_and_the_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (client, mut said) = WorkerClient::new(ours);
        let first = client.ask(Action::Status { machines: None }, Vec::new());
        let second = client.ask(Action::StopCapture { capture: 1 }, Vec::new());
        let (mut read, mut write) = theirs.into_split();
        for id in [1, 2] {
            let length = read.read_u32().await.unwrap();
            let mut body = vec![0; length as usize];
            read.read_exact(&mut body).await.unwrap();
            let request: Request = serde_json::from_slice(&body).unwrap();
            assert_eq!(request.id, id);
        }
        for message in [
            Message::Ready {
                protocol: 1,
                release: "6.12".to_owned(),
                boot_ms: 1.0,
            },
            Message::Done {
                id: 1,
                answer: Answer::Nothing,
            },
        ] {
            let body = serde_json::to_vec(&message).unwrap();
            write.write_u32(body.len() as u32).await.unwrap();
            write.write_all(&body).await.unwrap();
        }
        assert!(matches!(
            said.recv().await,
            Some(WorkerMessage::Ready { .. })
        ));
        assert!(matches!(first.answer().await, Ok(Answer::Nothing)));
        drop((read, write));
        assert!(matches!(second.answer().await, Err(RequestError::Dead)));
        assert!(said.recv().await.is_none());
        let third = client.ask(Action::Status { machines: None }, Vec::new());
        assert!(matches!(third.answer().await, Err(RequestError::Dead)));
    }
}
