//! A client of a lab's views, for as long as its WebSocket is open.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{close_code, CloseFrame, Message, WebSocket};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{denied, Refusal, Seat, LARGEST_UPDATE};

/// What a WebSocket takes in one message: a larger one than is allowed, so that its client can be told so.
pub(crate) const LARGEST_MESSAGE: usize = 2 * LARGEST_UPDATE;
/// Bytes that a client may send in a second, and at once after a while; a message counts as so many at least.
const RATE: f64 = 256.0 * 1024.0;
const BURST: f64 = 8.0 * RATE;
const LEAST: f64 = 1024.0;
/// Bytes of an answer that count as one that was sent.
const ANSWER: usize = 8;
/// How long a client may leave a message unread, once no more fits between here and there.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the reason in a close frame (RFC 6455, 5.5).
const LONGEST_REASON: usize = 123;

/// A client that sends more than it may is read later: the others do not wait for that.
struct Pace {
    /// What it may send at `at`; below 0 it has to wait.
    left: f64,
    at: Instant,
}

impl Pace {
    fn new() -> Pace {
        Pace {
            left: BURST,
            at: Instant::now(),
        }
    }

    fn spend(&mut self, bytes: usize) {
        let now = Instant::now();
        let passed = now.duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * RATE).min(BURST) - (bytes as f64).max(LEAST);
        self.at = now;
    }

    /// From when on it is read again.
    fn ready(&self) -> Instant {
        self.at + Duration::from_secs_f64((-self.left / RATE).max(0.0))
    }
}

/// Until the client goes away, breaks a rule, or the lab ends.
pub(crate) async fn serve(
    seat: Seat,
    greetings: Vec<Bytes>,
    ending: watch::Receiver<bool>,
    socket: WebSocket,
) {
    let (sink, stream) = socket.split();
    carry(seat, greetings, ending, sink, stream).await;
}

async fn carry<E>(
    mut seat: Seat,
    greetings: Vec<Bytes>,
    mut ending: watch::Receiver<bool>,
    mut sink: impl Sink<Message, Error = E> + Unpin,
    mut stream: impl Stream<Item = Result<Message, E>> + Unpin,
) {
    let mut pace = Pace::new();
    let mut to_send = greetings;
    loop {
        for bytes in to_send.drain(..) {
            let sent = tokio::time::timeout(SEND_TIMEOUT, sink.send(Message::Binary(bytes)));
            if !matches!(sent.await, Ok(Ok(()))) {
                return;
            }
        }
        let next = async {
            tokio::time::sleep_until(pace.ready()).await;
            stream.next().await
        };
        let refused = tokio::select! {
            told = seat.told() => {
                to_send = told;
                None
            }
            _ = ending.wait_for(|ending| *ending) => break,
            message = next => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(Message::Binary(bytes))) => {
                    pace.spend(bytes.len());
                    match seat.take(&bytes) {
                        Ok(answer) => {
                            if let Some(answer) = &answer {
                                pace.spend(answer.len() / ANSWER);
                            }
                            to_send.extend(answer);
                            None
                        }
                        Err(refusal) => Some(refusal),
                    }
                }
                Some(Ok(message)) => {
                    pace.spend(message.into_data().len());
                    None
                }
            },
        };
        if let Some(refusal) = refused {
            return refuse(&mut sink, &mut stream, refusal).await;
        }
    }
    let _ = sink.close().await;
}

/// Tells a client why it is dropped.
async fn refuse<E>(
    sink: &mut (impl Sink<Message, Error = E> + Unpin),
    stream: &mut (impl Stream<Item = Result<Message, E>> + Unpin),
    refusal: Refusal,
) {
    let (code, text) = match refusal {
        Refusal::Role(text) => {
            let told = sink.send(Message::Binary(denied(&text)));
            let _ = tokio::time::timeout(SEND_TIMEOUT, told).await;
            (close_code::POLICY, text)
        }
        Refusal::Invalid(text) => (close_code::INVALID, text),
        Refusal::TooLarge(text) => (close_code::SIZE, text),
    };
    let mut end = text.len().min(LONGEST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let reason = text[..end].into();
    let close = sink.send(Message::Close(Some(CloseFrame { code, reason })));
    if !matches!(tokio::time::timeout(SEND_TIMEOUT, close).await, Ok(Ok(()))) {
        return;
    }
    // With what it has sent meanwhile unread, TCP would reset the connection, and the reason be lost.
    let rest = async { while let Some(Ok(_)) = stream.next().await {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Access;
    use crate::views::Views;
    use futures_util::stream;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};
    use vink_api::Role;

    /// A connection whose other end reads so many messages, and then no more.
    struct Reads(usize, Arc<Mutex<Vec<Message>>>);

    impl Sink<Message> for Reads {
        type Error = ();
        fn poll_ready(self: Pin<&mut Self>, _: &mut Context) -> Poll<Result<(), ()>> {
            match self.1.lock().expect("one thread").len() < self.0 {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        }
        fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), ()> {
            self.1.lock().expect("one thread").push(message);
            Ok(())
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Context) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_dropped() {
        let views = Views::new(std::env::temp_dir(), "of-no-file");
        let access = |role| Access {
            role,
            ..Access::without_session()
        };
        let (dead, greetings) = views.enter(access(Role::View)).expect("a seat");
        let (_ending, ending) = watch::channel(false);
        let read = Arc::default();
        let carried = tokio::spawn(carry(
            dead,
            greetings,
            ending,
            Reads(1, Arc::clone(&read)),
            stream::pending::<Result<Message, ()>>(),
        ));
        // Its presence and its place are there until then.
        tokio::time::sleep(10 * SEND_TIMEOUT).await;
        assert!(!carried.is_finished(), "nothing was to be told");
        let (other, _) = views.enter(access(Role::Draw)).expect("a seat");
        other
            .take(&[1, 6, 1, 1, 1, 2, b'{', b'}'])
            .expect("presence");
        tokio::time::sleep(SEND_TIMEOUT / 2).await;
        assert!(!carried.is_finished(), "it may be slow");
        tokio::time::sleep(SEND_TIMEOUT).await;
        assert!(carried.is_finished(), "it is dropped");
        assert_eq!(read.lock().expect("one thread").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_read_at_its_rate() {
        let mut pace = Pace::new();
        for _ in 0..2048 {
            pace.spend(10);
        }
        assert!(pace.ready() <= Instant::now(), "a burst is read at once");
        for _ in 0..256 {
            pace.spend(10);
        }
        assert_eq!(pace.ready() - Instant::now(), Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(pace.ready() <= Instant::now());
        pace.spend(LARGEST_UPDATE);
        assert_eq!(pace.ready() - Instant::now(), Duration::from_secs(3));
    }
}
