//! A program of a machine: what is started, after what, and when it is ready.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// A program: an unmodified program of the host, or with `app` a virtualized process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub ready: Option<Ready>,
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

/// When a program counts as ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Ready {
    /// When something on its machine listens on this TCP port.
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
