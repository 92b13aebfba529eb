//! What goes on: events, logs and packets, and the WebSockets that carry them.

use std::future::ready;
use std::io;

use futures_util::stream::BoxStream;
use futures_util::{SinkExt, Stream, StreamExt, TryStreamExt};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::WebSocketStream;

use crate::http::{connect, head, refused, Connection};
use crate::{Address, Bytes, Error, Event, FromViewer, ToViewer};

/// An open one.
pub(crate) type Socket = WebSocketStream<Box<dyn Connection>>;

/// For `map_err`: what the control process does no longer.
pub(crate) fn lost(what: &'static str, error: tungstenite::Error) -> Error {
    Error::Connection {
        what,
        source: match error {
            tungstenite::Error::Io(error) => error,
            error => io::Error::other(error),
        },
    }
}

/// Opens one at this path.
pub(crate) async fn open(address: &Address, path: &str) -> Result<Socket, Error> {
    let stream = connect(address).await?;
    let request = head(address)
        .uri(format!("ws://localhost{path}"))
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .body(())
        .map_err(|error| Error::Answer(error.to_string()))?;
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err(refused(response.status().as_u16(), body))
        }
        Err(error) => Err(lost("does not open a WebSocket", error)),
    }
}

/// Events as they happen.
pub struct Events(BoxStream<'static, Result<Event, Error>>);

impl Events {
    /// These ones, wherever they come from.
    pub fn new(events: impl Stream<Item = Result<Event, Error>> + Send + 'static) -> Events {
        Events(events.boxed())
    }

    /// The next one; none when the control process ends.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        self.0.try_next().await
    }
}

/// Events that an open WebSocket carries.
pub(crate) fn events(socket: Socket) -> Events {
    let messages = socket
        .map_err(|error| lost("went away", error))
        .try_take_while(|message| ready(Ok(!message.is_close())));
    Events::new(messages.try_filter_map(|message| {
        ready(match message {
            Message::Text(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| Error::Answer(error.to_string())),
            _ => Ok(None),
        })
    }))
}

/// A program's log in pieces.
pub struct Log(BoxStream<'static, Result<Bytes, Error>>);

impl Log {
    /// Of these pieces.
    pub fn new(pieces: impl Stream<Item = Result<Bytes, Error>> + Send + 'static) -> Log {
        Log(pieces.boxed())
    }

    /// The next piece; none at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.0.try_next().await
    }
}

/// A feed that is open.
pub struct Feed(pub(crate) Socket);

/// What comes from a feed.
#[derive(Clone, Debug, PartialEq)]
pub enum FromFeed {
    /// A frame (docs/api.md).
    Frame(Bytes),
    /// Anything else.
    Told(ToViewer),
}

impl Feed {
    /// Subscribes, or acknowledges.
    pub async fn say(&mut self, what: &FromViewer) -> Result<(), Error> {
        let text = serde_json::to_string(what).expect("plain data");
        let sent = self.0.send(Message::Text(text.into())).await;
        sent.map_err(|error| lost("takes nothing", error))
    }

    /// The next message; none when the lab ends.
    pub async fn next(&mut self) -> Result<Option<FromFeed>, Error> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Binary(frame))) => return Ok(Some(FromFeed::Frame(frame))),
                Some(Ok(Message::Text(text))) => {
                    let told = serde_json::from_str(&text);
                    let told = told.map_err(|error| Error::Answer(error.to_string()))?;
                    return Ok(Some(FromFeed::Told(told)));
                }
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(lost("went away", error)),
            }
        }
    }
}

/// A pcapng file, or a stream of samples, that comes in pieces.
pub struct Packets(pub(crate) Socket);

impl Packets {
    /// The next piece; none when there is no more to come.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes)),
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(lost("went away", error)),
            }
        }
    }
}
