//! The input and output of an attached program, over a WebSocket.
//!
//! Binary frames carry bytes after one that says of what: [`INPUT`] from the client, and an empty one at its end;
//! [`STDOUT`] and [`STDERR`] to it. Text frames are JSON: [`FromClient`] and [`FromServer`]; the last one says how
//! the program ended.

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::Message;

use crate::socket::{lost, Socket};
use crate::Error;

/// First byte of frames with the program's standard input.
pub const INPUT: u8 = 0;
/// First byte of frames with its standard output, and all output of a terminal.
pub const STDOUT: u8 = 1;
/// First byte of frames with its standard error.
pub const STDERR: u8 = 2;

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// What a client of a program says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum FromClient {
    /// The terminal has another size.
    Resize(Size),
    /// A signal for the program's process group.
    Signal(i32),
}

/// What a client is told about its program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum FromServer {
    /// It has ended; nothing follows.
    Ended {
        /// 0 to 255, or 128 + a signal; 126 and 127: it could not be executed.
        code: i32,
        /// Why it could not be executed, or how it failed.
        #[serde(default)]
        error: Option<String>,
    },
}

/// What a program gives its client.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Of its standard output.
    Stdout(crate::Bytes),
    /// Of its standard error.
    Stderr(crate::Bytes),
    /// It has ended; nothing follows.
    Ended {
        /// 0 to 255, or 128 + a signal.
        code: i32,
        /// Why it could not be executed.
        error: Option<String>,
    },
}

/// An attached program's input and output.
pub struct Terminal {
    input: TerminalInput,
    output: TerminalOutput,
}

/// The half that goes to the program.
pub struct TerminalInput(SplitSink<Socket, Message>);

/// The half that comes from it.
pub struct TerminalOutput(SplitStream<Socket>);

impl Terminal {
    pub(crate) fn new(socket: Socket) -> Terminal {
        let (sink, stream) = socket.split();
        Terminal {
            input: TerminalInput(sink),
            output: TerminalOutput(stream),
        }
    }

    /// Both halves, for two tasks.
    pub fn split(self) -> (TerminalInput, TerminalOutput) {
        (self.input, self.output)
    }
}

impl TerminalInput {
    /// Gives bytes to the program's standard input; returns when the connection takes more.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.frame(bytes).await
    }

    /// Ends the program's standard input.
    pub async fn end(&mut self) -> Result<(), Error> {
        self.frame(&[]).await
    }

    /// Tells that the client's terminal has another size.
    pub async fn resize(&mut self, size: Size) -> Result<(), Error> {
        self.say(&FromClient::Resize(size)).await
    }

    /// Sends a signal to the program's process group.
    pub async fn signal(&mut self, signal: i32) -> Result<(), Error> {
        self.say(&FromClient::Signal(signal)).await
    }

    async fn frame(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut frame = Vec::with_capacity(1 + bytes.len());
        frame.push(INPUT);
        frame.extend(bytes);
        let sent = self.0.send(Message::Binary(frame.into())).await;
        sent.map_err(|error| lost("does not take a program's input", error))
    }

    async fn say(&mut self, what: &FromClient) -> Result<(), Error> {
        let text = serde_json::to_string(what).expect("plain data");
        let sent = self.0.send(Message::Text(text.into())).await;
        sent.map_err(|error| lost("does not take a program's signal", error))
    }
}

impl TerminalOutput {
    /// What comes next; [`Output::Ended`] is the last. An error if the control process goes away before.
    pub async fn next(&mut self) -> Result<Output, Error> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Binary(frame))) if !frame.is_empty() => {
                    let bytes = frame.slice(1..);
                    match frame[0] {
                        STDOUT => return Ok(Output::Stdout(bytes)),
                        STDERR => return Ok(Output::Stderr(bytes)),
                        other => return Err(Error::Answer(format!("channel {other}"))),
                    }
                }
                Some(Ok(Message::Text(text))) => {
                    let FromServer::Ended { code, error } = serde_json::from_str(&text)
                        .map_err(|error| Error::Answer(error.to_string()))?;
                    return Ok(Output::Ended { code, error });
                }
                Some(Ok(Message::Close(_))) | None => {
                    return Err(Error::Connection {
                        what: "went away before the program ended",
                        source: std::io::ErrorKind::UnexpectedEof.into(),
                    })
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(lost("does not give a program's output", error)),
            }
        }
    }
}
