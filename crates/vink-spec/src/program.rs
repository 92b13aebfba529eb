//! A program of a machine: what is started, after what, and when it is ready.

use std::fmt;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// A program: an unmodified program of the host, or with `app` a virtualized process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProgramSpec {
    /// A shell command line (`sh -c`), or the program and its arguments as a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// A virtualized process and its arguments, such as `echoserver -p 7`, in the place of `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Environment variables on top of those of `vink lab up`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// Working directory, relative to the lab file (default: its folder).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Programs that must be ready first: `name` on the same machine, or `machine.name`. An ended one that
    /// succeeded counts as ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// What it is ready by; none: when it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    /// Whether it is started again when it ends.
    #[serde(default, skip_serializing_if = "Restart::is_never")]
    pub restart: Restart,
}

/// What is executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Command {
    /// By `sh -c`.
    Shell(String),
    /// Directly.
    List(Vec<String>),
}

impl Command {
    /// The program and its arguments.
    pub fn words(&self) -> Vec<String> {
        match self {
            Command::Shell(line) => ["sh", "-c", line].map(str::to_owned).to_vec(),
            Command::List(words) => words.clone(),
        }
    }
}

/// How long it may take until a program is ready, if nothing is said: a minute.
const DEFAULT_READY_TIMEOUT: Span = Span(60_000_000_000);

/// When a program counts as ready, and how long that may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
pub struct Readiness {
    /// By what.
    pub by: Ready,
    /// How long it may take, by the clock of the machines; none: a minute. Only for what is looked for again and again.
    pub timeout: Option<Span>,
}

impl Readiness {
    /// How long it may take; none: as long as it takes, since the program ends or time passes by itself.
    pub fn limit(&self) -> Option<Span> {
        match self.by {
            Ready::Success | Ready::Time(_) => None,
            _ => Some(self.timeout.unwrap_or(DEFAULT_READY_TIMEOUT)),
        }
    }
}

impl From<Ready> for Readiness {
    fn from(by: Ready) -> Readiness {
        Readiness { by, timeout: None }
    }
}

/// As it is written: `success`, or a map with one of the other keys.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    /// When it has ended with status 0.
    Word(Success),
    /// When something has come.
    Map(Map),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ReadyBySuccess")]
enum Success {
    /// When it has ended with status 0.
    Success,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "ReadyBy")]
struct Map {
    /// When something on its machine listens on this TCP port; of an app, a UDP socket that is bound to it will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// When this shell command succeeds on its machine; tried again until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// When it has written this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// When this long has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<Span>,
    /// How long it may take (default: 60s); not for `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
}

impl TryFrom<Written> for Readiness {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Readiness, &'static str> {
        let Written::Map(map) = written else {
            return Ok(Ready::Success.into());
        };
        let by = match (map.port, map.command, map.output, map.time) {
            (Some(port), None, None, None) => Ready::Port(port),
            (None, Some(command), None, None) => Ready::Command(command),
            (None, None, Some(output), None) => Ready::Output(output),
            (None, None, None, Some(time)) => Ready::Time(time),
            _ => return Err("`ready` is one of port, command, output, time"),
        };
        let timeout = map.timeout;
        Ok(Readiness { by, timeout })
    }
}

impl From<Readiness> for Written {
    fn from(ready: Readiness) -> Written {
        let mut map = Map {
            timeout: ready.timeout,
            ..Map::default()
        };
        match ready.by {
            Ready::Success => return Written::Word(Success::Success),
            Ready::Port(port) => map.port = Some(port),
            Ready::Command(command) => map.command = Some(command),
            Ready::Output(output) => map.output = Some(output),
            Ready::Time(time) => map.time = Some(time),
        }
        Written::Map(map)
    }
}

/// By what a program counts as ready.
#[derive(Clone, Debug, PartialEq)]
pub enum Ready {
    /// When something on its machine listens on this TCP port; of an app, a UDP socket that is bound to it will do.
    Port(u16),
    /// When this shell command succeeds on its machine; tried again until then.
    Command(String),
    /// When it has written this text.
    Output(String),
    /// When it has ended with status 0.
    Success,
    /// When this long has passed.
    Time(Span),
}

/// What is waited for.
impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ready::Port(port) => write!(f, "a listener on port {port}"),
            Ready::Command(line) => write!(f, "success of `{line}`"),
            Ready::Output(text) => write!(f, "the output {text:?}"),
            Ready::Success => f.write_str("its end"),
            Ready::Time(span) => write!(f, "{span} to pass"),
        }
    }
}

/// Whether a program is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// It runs once.
    #[default]
    Never,
    /// When it failed.
    OnFailure,
    /// Whenever it ends.
    Always,
}

impl Restart {
    fn is_never(&self) -> bool {
        *self == Restart::Never
    }
}
