//! WebSockets, once they are open.

use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::{stream, SinkExt, Stream, StreamExt};
use tokio::sync::watch;
use vink_api::{Event, FromClient, FromViewer, Input, ToViewer, INPUT};

use crate::engine::{FromProgram, Giver, Lab, Pipe, Viewer, PIECE};
use crate::routes::body_of;

/// How long a viewer may take nothing.
const VIEWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a program and carries its input and output until it ends. If the client goes away before,
/// so does it, unless its terminal is kept.
pub(crate) async fn terminal(lab: Arc<Lab>, id: u64, giver: Giver, socket: WebSocket) {
    let (sink, stream) = socket.split();
    let sink = sink.with(|told| {
        ready(Ok::<_, axum::Error>(match told {
            FromProgram::Frame(frame) => Message::Binary(frame),
            FromProgram::Told(told) => text(&told),
        }))
    });
    let inputs = stream
        .map(input)
        .take_while(|input| ready(input.is_some()))
        .filter_map(|input| ready(input.flatten()));
    lab.carry(id, giver, sink, inputs).await;
}

/// What a client's message says to its program, if anything; `None`: the client has gone.
fn input(message: Result<Message, axum::Error>) -> Option<Option<Input>> {
    match message.ok()? {
        Message::Binary(frame) if frame.first() == Some(&INPUT) => match frame.slice(1..) {
            bytes if bytes.is_empty() => Some(Some(Input::End)),
            bytes => Some(Some(Input::Bytes(bytes))),
        },
        Message::Text(text) => match serde_json::from_str(&text).ok()? {
            FromClient::Resize(size) => Some(Some(Input::Resize(size))),
            FromClient::Signal(signal) => Some(Some(Input::Signal(signal))),
            FromClient::Keyboard(taken) => Some(Some(Input::Keyboard(taken))),
        },
        Message::Close(_) => None,
        _ => Some(None),
    }
}

fn text(what: &impl serde::Serialize) -> Message {
    let text = serde_json::to_string(what).expect("plain data");
    Message::Text(text.into())
}

/// Packets of a capture, until the client goes away or it ends.
pub(crate) async fn packets(lab: Arc<Lab>, id: u64, packets: Pipe, socket: WebSocket) {
    bytes(packets, socket).await;
    // It may have ended by itself.
    let _ = lab.stop_capture(id).await;
}

/// What comes from a pipe, to the client, until either ends.
pub(crate) async fn bytes(from: Pipe, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let mut buffer = vec![0; PIECE];
    loop {
        tokio::select! {
            read = from.read(&mut buffer) => match read {
                Ok(count @ 1..) => {
                    let piece = axum::body::Bytes::copy_from_slice(&buffer[..count]);
                    if sink.send(Message::Binary(piece)).await.is_err() {
                        break;
                    }
                }
                _ => break,
            },
            message = stream.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => break,
                Some(Ok(_)) => {}
            }
        }
    }
    let _ = sink.close().await;
}

/// A feed, until its viewer goes away, takes nothing for long, or the lab ends.
pub(crate) async fn feed(lab: Arc<Lab>, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let mut viewer: Option<Viewer> = None;
    let mut ending = lab.ending.subscribe();
    loop {
        let (message, frames) = tokio::select! {
            message = stream.next() => (message, Vec::new()),
            frames = next(&mut viewer) => (None, frames),
            () = ended(&mut ending) => break,
        };
        let messages = match message {
            None if frames.is_empty() => break,
            None => frames.into_iter().map(Message::Binary).collect(),
            Some(Err(_) | Ok(Message::Close(_))) => break,
            Some(Ok(message)) => match said(&lab, &mut viewer, &message).await {
                Some(answer) => vec![text(&answer)],
                None => continue,
            },
        };
        let mut messages = stream::iter(messages.into_iter().map(Ok));
        tokio::select! {
            sent = tokio::time::timeout(VIEWER_TIMEOUT, sink.send_all(&mut messages)) => match sent {
                Ok(Ok(())) => {}
                _ => break,
            },
            () = ended(&mut ending) => break,
        }
    }
    let _ = tokio::time::timeout(VIEWER_TIMEOUT, sink.close()).await;
}

/// Waits until a lab is to be taken down.
async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

/// The next frames of what is looked at, if something is.
async fn next(viewer: &mut Option<Viewer>) -> Vec<axum::body::Bytes> {
    let frames = match viewer {
        Some(viewer) => viewer.next().await,
        None => None,
    };
    match frames {
        Some(frames) => frames,
        None => pending().await,
    }
}

/// What a viewer has said, and the answer.
async fn said(lab: &Arc<Lab>, viewer: &mut Option<Viewer>, message: &Message) -> Option<ToViewer> {
    let Message::Text(message) = message else {
        return None;
    };
    let subscription = match body_of(message.as_bytes()) {
        Ok(FromViewer::Ack(seq)) => {
            if let Some(viewer) = viewer {
                viewer.acknowledge(seq);
            }
            return None;
        }
        Ok(FromViewer::Subscribe(subscription)) => Ok(subscription),
        Err(error) => Err(error),
    };
    let begun = match subscription {
        Ok(subscription) => lab.view(&subscription, viewer.as_ref()).await,
        Err(error) => Err(error),
    };
    Some(match begun {
        Ok(begun) => {
            *viewer = Some(begun);
            ToViewer::Subscribed
        }
        Err(error) => ToViewer::Refused(*error.problem),
    })
}

/// Events, until the client goes away or the control process ends.
pub(crate) async fn events(
    events: impl Stream<Item = Event>,
    watching: Option<(Arc<Lab>, Vec<String>)>,
    socket: WebSocket,
) {
    let mut events = pin!(events);
    let (mut sink, mut stream) = socket.split();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            message = stream.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => break,
                Some(Ok(_)) => continue,
            },
        };
        let Some(event) = event else { break };
        if sink.send(text(&event)).await.is_err() {
            break;
        }
    }
    let _ = sink.close().await;
    if let Some((lab, ends)) = watching {
        let _ = lab.watch(&ends, false).await;
    }
}

/// Figures, until the client goes away or the lab ends.
pub(crate) async fn statistics(lab: Arc<Lab>, interval: Duration, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ending = lab.ending.subscribe();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            message = stream.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => break,
                Some(Ok(_)) => continue,
            },
            _ = ending.wait_for(|ending| *ending) => break,
        }
        let Ok(figures) = lab.statistics().await else {
            break;
        };
        if sink.send(text(&figures)).await.is_err() {
            break;
        }
    }
    let _ = sink.close().await;
}
