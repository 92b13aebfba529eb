//! WebSockets, once they are open.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{broadcast, mpsc, watch};
use vink_api::{Event, FromClient, FromServer, Happening, INPUT};

use crate::engine::{is_over, Attached, Lab, Phase, Pipe};

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;
/// Pieces that wait for the client, or for the program.
const PIECES: usize = 4;
/// What ends the input of a terminal.
const END_OF_FILE: u8 = 4;

/// Starts a program and carries its input and output until it ends. If the client goes away before, so does it.
pub(crate) async fn terminal(lab: Arc<Lab>, id: u64, mut socket: WebSocket) {
    let attached = match lab.attach(id).await {
        Ok(attached) => attached,
        Err(fault) => {
            let error = Some(fault.problem.to_string());
            let _ = socket.send(ended(126, error)).await;
            return;
        }
    };
    let Attached {
        id,
        outputs,
        input,
        terminal,
        mut phase,
    } = attached;
    let (mut sink, stream) = socket.split();
    let (pieces, mut coming) = mpsc::channel(PIECES);
    for (channel, output) in outputs {
        tokio::spawn(pump(channel, output, pieces.clone(), phase.clone()));
    }
    drop(pieces);
    // Only the client's going away ends that.
    let mut hearing = tokio::spawn(hear(lab.clone(), id, stream, input, terminal));
    let talking = async {
        while let Some(piece) = coming.recv().await {
            if sink.send(Message::Binary(piece)).await.is_err() {
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
        let error = lab
            .state()
            .tasks
            .get(&id)
            .and_then(|task| task.error.clone());
        let _ = sink.send(ended(code, error)).await;
        let _ = sink.close().await;
    }
    hearing.abort();
    if code.is_none() {
        // It may have ended meanwhile.
        let _ = lab.end_program(id).await;
    }
}

fn ended(code: i32, error: Option<String>) -> Message {
    text(&FromServer::Ended { code, error })
}

fn text(what: &impl serde::Serialize) -> Message {
    let text = serde_json::to_string(what).expect("plain data");
    Message::Text(text.into())
}

/// From an output to the client, until its end; when the program has ended, until all is read that it has written.
async fn pump(
    channel: u8,
    output: Arc<Pipe>,
    pieces: mpsc::Sender<axum::body::Bytes>,
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

/// From the client to the program; ends when the client goes away.
async fn hear(
    lab: Arc<Lab>,
    id: u64,
    mut stream: SplitStream<WebSocket>,
    mut input: Option<Arc<Pipe>>,
    terminal: bool,
) {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(frame) if frame.first() == Some(&INPUT) => {
                let Some(to) = &input else {
                    continue;
                };
                let bytes = &frame[1..];
                let written = match (bytes.is_empty(), terminal) {
                    (false, _) => to.write(bytes).await.is_ok(),
                    (true, true) => to.write(&[END_OF_FILE]).await.is_ok(),
                    (true, false) => false,
                };
                if !written {
                    // It is at its end, or the program reads no more.
                    input = None;
                }
            }
            Message::Text(text) => match serde_json::from_str(&text) {
                Ok(FromClient::Resize(size)) => {
                    if let Some(terminal) = input.as_ref().filter(|_| terminal) {
                        let _ = terminal.resize(size);
                    }
                }
                Ok(FromClient::Signal(signal)) => {
                    // It may just have ended.
                    let _ = lab.signal(id, signal).await;
                }
                Err(_) => return,
            },
            Message::Close(_) => return,
            _ => {}
        }
    }
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

/// Events, until the client goes away or the control process ends.
pub(crate) async fn events(
    mut events: broadcast::Receiver<Event>,
    of: Option<String>,
    watching: Option<(Arc<Lab>, Vec<String>)>,
    mut closing: watch::Receiver<bool>,
    socket: WebSocket,
) {
    let (mut sink, mut stream) = socket.split();
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            message = stream.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => break,
                Some(Ok(_)) => continue,
            },
            _ = closing.wait_for(|closing| *closing) => break,
        };
        let event = match event {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(missed)) => Event {
                lab: of.clone().unwrap_or_default(),
                time: 0.0,
                what: Happening::Missed { events: missed },
            },
            Err(broadcast::error::RecvError::Closed) => break,
        };
        let mine = of.as_ref().is_none_or(|of| *of == event.lab);
        // Another client's interfaces are not this one's.
        let wanted = match (&event.what, &watching) {
            (Happening::Packet(packet), Some((_, ends))) => ends.contains(&packet.end),
            (Happening::Packet(_), None) => false,
            _ => true,
        };
        if mine && wanted && sink.send(text(&event)).await.is_err() {
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
