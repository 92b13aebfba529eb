//! The input and output of an attached program, and how a WebSocket carries them.
//!
//! Binary frames carry bytes after one that says of what: [`INPUT`] from the client, and an empty
//! one at its end; [`STDOUT`] and [`STDERR`] to it. Text frames are JSON: [`FromClient`] and
//! [`FromServer`]; the last one says how the program ended.

use std::future::ready;
use std::pin::Pin;

use futures_util::stream::BoxStream;
use futures_util::{Sink, SinkExt, Stream, StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_tungstenite::tungstenite::Message;

use crate::socket::{lost, Socket};
use crate::{Bytes, Error, Problem};

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
    /// Of a kept terminal: the client takes the keyboard, from whichever client has it, or gives it
    /// up. What clients without it type is not used.
    Keyboard(bool),
}

/// A terminal that is kept, and the clients that look at it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct KeptTerminal {
    /// The number of its program in the lab.
    pub program: u64,
    /// The program's machine.
    pub machine: String,
    /// What runs there.
    pub words: Vec<String>,
    /// The user that has started it.
    pub actor: String,
    /// Its size, which is that of the client with the keyboard.
    pub size: Size,
    /// The users of the clients that look at it, as they came.
    pub viewers: Vec<String>,
    /// The user of the client that has the keyboard, if one has it.
    pub keyboard: Option<String>,
}

/// What a client is told about its program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum FromServer {
    /// A kept terminal: at first, and when a client has come, gone, taken the keyboard or given it
    /// up, or when the size is another.
    Terminal {
        /// Its size.
        size: Size,
        /// The users of the clients that look at it, as they came.
        viewers: Vec<String>,
        /// The user of the client that has the keyboard.
        keyboard: Option<String>,
        /// This client has it.
        yours: bool,
    },
    /// A kept terminal has written more than this client has read, and so much was left away.
    Missed {
        /// How many bytes.
        bytes: u64,
    },
    /// What the client has said is not done.
    Refused(Problem),
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
    Stdout(Bytes),
    /// Of its standard error.
    Stderr(Bytes),
    /// Of a kept terminal: what is told beside its output.
    Told(FromServer),
    /// It has ended; nothing follows.
    Ended {
        /// 0 to 255, or 128 + a signal.
        code: i32,
        /// Why it could not be executed.
        error: Option<String>,
    },
}

/// What a client gives its program.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// To its standard input.
    Bytes(Bytes),
    /// Its standard input ends.
    End,
    /// The client's terminal has another size.
    Resize(Size),
    /// For the program's process group.
    Signal(i32),
    /// Of a kept terminal: the client takes the keyboard, or gives it up.
    Keyboard(bool),
}

/// An attached program's input and output.
pub struct Terminal {
    input: TerminalInput,
    output: TerminalOutput,
}

/// The half that goes to the program.
pub struct TerminalInput(Pin<Box<dyn Sink<Input, Error = Error> + Send>>);

/// The half that comes from it.
pub struct TerminalOutput(BoxStream<'static, Result<Output, Error>>);

impl Terminal {
    /// Of both halves.
    pub fn new(
        input: impl Sink<Input, Error = Error> + Send + 'static,
        output: impl Stream<Item = Result<Output, Error>> + Send + 'static,
    ) -> Terminal {
        Terminal {
            input: TerminalInput(Box::pin(input)),
            output: TerminalOutput(output.boxed()),
        }
    }

    /// Both halves, for two tasks.
    pub fn split(self) -> (TerminalInput, TerminalOutput) {
        (self.input, self.output)
    }
}

impl TerminalInput {
    /// Gives the program something; returns when the connection takes more.
    pub async fn send(&mut self, input: Input) -> Result<(), Error> {
        match input {
            // On a WebSocket that would be the end.
            Input::Bytes(bytes) if bytes.is_empty() => Ok(()),
            input => self.0.send(input).await,
        }
    }
}

impl TerminalOutput {
    /// What comes next; [`Output::Ended`] is the last. An error if the control process goes away
    /// before.
    pub async fn next(&mut self) -> Result<Output, Error> {
        let gone = || Error::Connection {
            what: "went away before the program ended",
            source: std::io::ErrorKind::UnexpectedEof.into(),
        };
        self.0.try_next().await?.ok_or_else(gone)
    }
}

/// An attached program whose input and output this WebSocket carries.
pub(crate) fn of_socket(socket: Socket) -> Terminal {
    let (sink, stream) = socket.split();
    let input = sink
        .sink_map_err(|error| lost("does not take a program's input", error))
        .with(|input| ready(Ok(message(&input))));
    let output = stream
        .map_err(|error| lost("does not give a program's output", error))
        .try_take_while(|message| ready(Ok(!message.is_close())))
        .try_filter_map(|message| ready(output(&message)));
    Terminal::new(input, output)
}

fn message(input: &Input) -> Message {
    let frame = |bytes: &[u8]| Message::Binary([&[INPUT], bytes].concat().into());
    let said = match input {
        Input::Bytes(bytes) => return frame(bytes),
        Input::End => return frame(&[]),
        Input::Resize(size) => FromClient::Resize(*size),
        Input::Signal(signal) => FromClient::Signal(*signal),
        Input::Keyboard(taken) => FromClient::Keyboard(*taken),
    };
    Message::Text(serde_json::to_string(&said).expect("plain data").into())
}

impl From<FromServer> for Output {
    fn from(told: FromServer) -> Output {
        match told {
            FromServer::Ended { code, error } => Output::Ended { code, error },
            told => Output::Told(told),
        }
    }
}

fn output(message: &Message) -> Result<Option<Output>, Error> {
    match message {
        Message::Binary(frame) if !frame.is_empty() => {
            let bytes = frame.slice(1..);
            match frame[0] {
                STDOUT => Ok(Some(Output::Stdout(bytes))),
                STDERR => Ok(Some(Output::Stderr(bytes))),
                other => Err(Error::Answer(format!("channel {other}"))),
            }
        }
        Message::Text(text) => {
            let told: FromServer =
                serde_json::from_str(text).map_err(|error| Error::Answer(error.to_string()))?;
            Ok(Some(told.into()))
        }
        _ => Ok(None),
    }
}
