//! What goes on: WebSockets that carry events, statistics, packets, and terminals.

use std::io;

use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::WebSocketStream;

use crate::http::{connect, head, refused, Stream};
use crate::{Address, Bytes, Error, Event, Statistics};

/// An open one.
pub(crate) type Socket = WebSocketStream<Box<dyn Stream>>;

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

/// The next message as JSON; none: the other side has ended it.
async fn next<A: DeserializeOwned>(socket: &mut Socket) -> Result<Option<A>, Error> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                return serde_json::from_str(&text)
                    .map(Some)
                    .map_err(|error| Error::Answer(error.to_string()))
            }
            Some(Ok(Message::Close(_))) | None => return Ok(None),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(lost("went away", error)),
        }
    }
}

/// Events as they happen.
pub struct Events(pub(crate) Socket);

impl Events {
    /// The next one; none when the control process ends.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        next(&mut self.0).await
    }
}

/// Statistics at an interval.
pub struct StatisticsStream(pub(crate) Socket);

impl StatisticsStream {
    /// The next ones; none when the lab ends.
    pub async fn next(&mut self) -> Result<Option<Statistics>, Error> {
        next(&mut self.0).await
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
