//! Programs of machines: unmodified programs of the host, and virtualized processes.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::Rights;

use crate::Size;

/// A program to be started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewProgram {
    /// On which machine.
    pub machine: String,
    /// The program and its arguments, or a virtualized process and its arguments.
    pub words: Vec<String>,
    /// A virtualized process, which runs inside the worker.
    #[serde(default)]
    pub app: bool,
    /// Environment variables on top of the lab's.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// Its environment is `env` and nothing else.
    #[serde(default)]
    pub only_env: bool,
    /// Its working directory, absolute or relative to the lab's folder, which it is otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Its input and output are those of the client, which starts it by opening `.../terminal`; it
    /// is ended when the client goes away. Otherwise it starts at once, and its output goes to a
    /// log.
    #[serde(default)]
    pub attach: bool,
    /// With `attach`: it gets the client's input. Otherwise it finds its input at an end.
    #[serde(default)]
    pub input: bool,
    /// With `attach`: its input and output are a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Size>,
    /// With `attach` and `terminal`: it starts at once, and its terminal is the lab's. Clients come
    /// and go by `.../terminal`, any number of them, and the program stays.
    #[serde(default)]
    pub keep: bool,
    /// What it may do on the machine; none: what the machine's programs may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<Rights>,
}

/// How far a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramState {
    /// It waits for others to be ready, for its client, or for its next start.
    Waiting,
    /// It runs, and is not ready yet.
    Starting,
    /// It runs.
    Running,
    /// It has ended.
    Ended,
}

/// A program as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Program {
    /// Its number in the lab.
    pub id: u64,
    /// On which machine.
    pub machine: String,
    /// Its name there, if it is of the lab file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What runs.
    pub words: Vec<String>,
    /// A virtualized process.
    pub app: bool,
    /// How far it is.
    pub state: ProgramState,
    /// How it ended: 0 to 255, or 128 + a signal; 126 and 127: it could not be executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Why it could not be executed, or how it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// Seconds that it has run, or ran.
    pub seconds: f64,
    /// What a virtualized process has found out, when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<serde_json::Value>,
}

/// What a virtualized process has found out so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// Its words about that.
    pub report: serde_json::Value,
}

/// What a client gives a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum ProgramInput {
    /// To its standard input, as if it were typed.
    Text(String),
    /// The same, of any bytes.
    Bytes(Vec<u8>),
    /// Its standard input ends.
    End,
    /// Its terminal has another size.
    Resize(Size),
    /// A signal for its process group.
    Signal(i32),
    /// Its client has gone: it is ended.
    HangUp,
}

/// A signal for a program's process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SendSignal {
    /// Its number, see signal(7).
    #[schemars(range(min = 1, max = 64))]
    pub signal: i32,
}

/// Which part of a detached program's output is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutputQuery {
    /// Go on until the program ends.
    #[serde(default)]
    pub follow: bool,
    /// Only these last bytes of what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
}
