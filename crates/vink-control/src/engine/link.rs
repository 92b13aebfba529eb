//! A lab worker, as the engine talks to it: requests that are answered in order, events, and its end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use vink_lab::worker::protocol::{Action, Answer, Event, Message, Request, LONGEST};
use vink_lab::worker::send_with;

/// Why a request came to nothing.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// The worker's words.
    Failed(String),
    /// There is no worker any more.
    Dead,
}

type Reply = oneshot::Sender<Result<Answer, Refusal>>;

/// A request under way: its answer.
pub(crate) struct Asked(oneshot::Receiver<Result<Answer, Refusal>>);

impl Asked {
    /// When it comes.
    pub(crate) async fn answer(self) -> Result<Answer, Refusal> {
        self.0.await.unwrap_or(Err(Refusal::Dead))
    }
}

struct Outgoing {
    action: Action,
    descriptors: Vec<OwnedFd>,
    reply: Reply,
}

/// Requests go in here; the worker ends when all clones of it are gone.
#[derive(Clone)]
pub(crate) struct Link(mpsc::UnboundedSender<Outgoing>);

/// What a worker says of itself.
pub(crate) enum Said {
    /// It has booted.
    Ready { protocol: u32, release: String },
    /// Something happened.
    Event(Event),
}

impl Link {
    /// Over this socket. What the worker says of itself comes out of the other end, which ends when the worker does.
    pub(crate) fn new(socket: UnixStream) -> (Link, mpsc::UnboundedReceiver<Said>) {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let (said, saying) = mpsc::unbounded_channel();
        let (replies, answered) = mpsc::unbounded_channel();
        let (read, write) = socket.into_split();
        tokio::spawn(async move {
            let _ = send_all(outgoing, write, replies).await;
        });
        tokio::spawn(async move {
            if let Err(error) = receive_all(read, answered, said).await {
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    eprintln!("vink daemon: a worker's messages: {error}");
                }
            }
        });
        (Link(requests), saying)
    }

    /// Asks for something, after what was asked for before.
    pub(crate) fn ask(&self, action: Action, descriptors: Vec<OwnedFd>) -> Asked {
        let (reply, answer) = oneshot::channel();
        // If it has ended, the reply is dropped with the message.
        let _ = self.0.send(Outgoing {
            action,
            descriptors,
            reply,
        });
        Asked(answer)
    }
}

/// Writes requests until there are none any more, which closes the writing half and with that ends the worker.
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
        let body = serde_json::to_vec(&request)?;
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend(body);
        // Before it is sent, so that it is there when the answer is.
        let _ = replies.send((id, next.reply));
        let mut at = 0;
        while at < frame.len() {
            let descriptors = if at == 0 { &next.descriptors[..] } else { &[] };
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
    mut socket: OwnedReadHalf,
    mut replies: mpsc::UnboundedReceiver<(u64, Reply)>,
    said: mpsc::UnboundedSender<Said>,
) -> io::Result<()> {
    let mut waiting: VecDeque<(u64, Reply)> = VecDeque::new();
    let mut reader = tokio::io::BufReader::with_capacity(1 << 16, &mut socket);
    loop {
        let length = reader.read_u32().await? as usize;
        if length > LONGEST {
            let text = format!("one of {length} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).await?;
        let mut answer = |id: u64, result| {
            while let Ok(next) = replies.try_recv() {
                waiting.push_back(next);
            }
            match waiting.pop_front() {
                Some((expected, reply)) if expected == id => {
                    // Whoever asked may have gone.
                    let _ = reply.send(result);
                    Ok(())
                }
                _ => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("answer {id} was not asked for"),
                )),
            }
        };
        match serde_json::from_slice(&body)? {
            Message::Done { id, answer: with } => answer(id, Ok(with))?,
            Message::Failed { id, error } => answer(id, Err(Refusal::Failed(error)))?,
            Message::Ready {
                protocol, release, ..
            } => {
                let _ = said.send(Said::Ready { protocol, release });
            }
            Message::Event(event) => {
                let _ = said.send(Said::Event(event));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_in_order_and_the_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (link, mut said) = Link::new(ours);
        let first = link.ask(Action::Status { machines: None }, Vec::new());
        let second = link.ask(Action::StopCapture { capture: 1 }, Vec::new());
        let (mut read, mut write) = theirs.into_split();
        for id in [1, 2] {
            let length = read.read_u32().await.unwrap();
            let mut body = vec![0; length as usize];
            read.read_exact(&mut body).await.unwrap();
            let request: Request = serde_json::from_slice(&body).unwrap();
            assert_eq!(request.id, id);
        }
        use tokio::io::AsyncWriteExt;
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
        assert!(matches!(said.recv().await, Some(Said::Ready { .. })));
        assert!(matches!(first.answer().await, Ok(Answer::Nothing)));
        drop((read, write));
        assert!(matches!(second.answer().await, Err(Refusal::Dead)));
        assert!(said.recv().await.is_none());
        let third = link.ask(Action::Status { machines: None }, Vec::new());
        assert!(matches!(third.answer().await, Err(Refusal::Dead)));
    }
}
