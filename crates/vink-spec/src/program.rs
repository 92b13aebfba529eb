//! A program of a machine: what is started, after what, and when it is ready.

use std::collections::HashMap;
use std::fmt;
use std::mem::discriminant;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{both, differing, Object, Phase, Plan};
use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::{named_by, nearest, order, Lab, Span};

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

/// What becomes of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramChange {
    /// It is ended.
    Remove {
        /// Its machine.
        machine: String,
        /// Its name there.
        program: String,
    },
    /// It is started.
    Add {
        /// Its machine.
        machine: String,
        /// Its name there.
        program: String,
        /// All of it.
        spec: ProgramSpec,
    },
    /// It is ended if it runs, and started as it is now.
    Restart {
        /// Its machine.
        machine: String,
        /// Its name there.
        program: String,
        /// As it becomes.
        spec: ProgramSpec,
        /// Which of its keys differ.
        why: String,
    },
}

impl Object for ProgramChange {
    fn diff(plan: &mut Plan<'_>) {
        let mut gone = Vec::new();
        let mut starts = Vec::new();
        for (name, was, is) in plan.machines_that_stay() {
            let machine = || name.to_owned();
            for (program, old, new) in both(&was.programs, &is.programs) {
                let (machine, program) = (machine(), program.clone());
                match (old, new) {
                    (_, None) => gone.push(ProgramChange::Remove { machine, program }),
                    (None, Some(spec)) => starts.push(add(machine, program, spec)),
                    (Some(old), Some(new)) => starts.push(ProgramChange::Restart {
                        machine,
                        program,
                        spec: new.clone(),
                        why: differing(old, new, |_| true),
                    }),
                }
            }
        }
        for (name, is) in plan.machines_that_come() {
            for (program, spec) in &is.programs {
                starts.push(add(name.to_owned(), program.clone(), spec));
            }
        }
        // A program after those that it waits for.
        let places = order(plan.new).into_iter().enumerate();
        let places: HashMap<_, _> = places.map(|(at, program)| (program, at)).collect();
        starts.sort_by_key(|step| places.get(&step.program()).copied());
        for step in gone {
            plan.step(Phase::ProgramsEnd, step);
        }
        for step in starts {
            plan.step(Phase::Programs, step);
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other)
    }

    fn apply(&self, lab: &mut Lab) {
        match self {
            ProgramChange::Remove { machine, program } => {
                lab.machine(machine, |m| m.programs.shift_remove(program));
            }
            ProgramChange::Add {
                machine,
                program,
                spec,
            }
            | ProgramChange::Restart {
                machine,
                program,
                spec,
                ..
            } => {
                let spec = spec.clone();
                lab.machine(machine, |m| m.programs.insert(program.clone(), spec));
            }
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (machine, program) = self.program();
        match self {
            ProgramChange::Remove { .. } => write!(f, "- program {machine}.{program}"),
            ProgramChange::Add { .. } => write!(f, "+ program {machine}.{program}"),
            ProgramChange::Restart { why, .. } => {
                write!(f, "~ program {machine}.{program}, started again: {why}")
            }
        }
    }
}

impl ProgramChange {
    /// Its machine and its name there.
    fn program(&self) -> (&str, &str) {
        match self {
            ProgramChange::Remove { machine, program }
            | ProgramChange::Add {
                machine, program, ..
            }
            | ProgramChange::Restart {
                machine, program, ..
            } => (machine, program),
        }
    }
}

fn add(machine: String, program: String, spec: &ProgramSpec) -> ProgramChange {
    ProgramChange::Add {
        machine,
        program,
        spec: spec.clone(),
    }
}

impl Reader {
    pub(crate) fn program(&mut self, node: &Node) -> Option<ProgramSpec> {
        self.fields(node, "a program", |r, f| ProgramSpec {
            command: r.field(f, "command", |r, n| match &n.kind {
                Kind::List(_) => r.list(n, Reader::text).map(Command::List),
                _ => r.text(n).map(Command::Shell),
            }),
            app: r.field(f, "app", Reader::text),
            env: r.field_or_default(f, "env", |r, n| {
                r.named(n, |r, n| match n.is_null() {
                    true => Some(String::new()),
                    false => r.text(n),
                })
            }),
            dir: r.field(f, "dir", Reader::text),
            after: r.field_or_default(f, "after", |r, n| r.list(n, Reader::text)),
            ready: r.field(f, "ready", Reader::ready),
            restart: r.field_or_default(f, "restart", |r, n| {
                let words = [
                    ("never", Restart::Never),
                    ("on-failure", Restart::OnFailure),
                    ("always", Restart::Always),
                ];
                r.word(n, &words)
            }),
        })
    }

    pub(crate) fn ready(&mut self, node: &Node) -> Option<Readiness> {
        if matches!(&node.kind, Kind::Scalar { .. }) {
            let word = self.word(node, &[("success", ())]);
            return word.map(|()| Ready::Success.into());
        }
        let mut timeout = None;
        let by = self.one(node, "`ready`", |r, f| {
            let port = r
                .field(f, "port", |r, n| r.number(n, 1, u16::MAX))
                .map(Ready::Port);
            let command = r.field(f, "command", Reader::text).map(Ready::Command);
            let output = r.field(f, "output", Reader::text).map(Ready::Output);
            let time = r.field(f, "time", Reader::parsed).map(Ready::Time);
            timeout = r.option(f, "timeout", Reader::parsed);
            port.or(command).or(output).or(time)
        });
        by.map(|by| Readiness { by, timeout })
    }
}

impl<'a> Check<'a> {
    pub(crate) fn program(&mut self, machine: &'a str, program: &str, spec: &'a ProgramSpec) {
        let empty = spec.command.as_ref().is_some_and(|command| match command {
            crate::Command::Shell(line) => line.trim().is_empty(),
            crate::Command::List(words) => words.first().is_none_or(String::is_empty),
        });
        match (&spec.command, &spec.app) {
            (None, None) => {
                let fix =
                    "add `command:` with a shell command, or `app:` with a virtualized process";
                let finding = self.add("nothing says what is run", fix);
                (finding.key, finding.may_follow) = (true, true);
            }
            (Some(_), Some(_)) => {
                self.add("`command` and `app` are both there", "remove one of them")
                    .key = true;
            }
            _ if empty => {
                self.at("command", |c| {
                    c.add("there is nothing to do", "write a shell command").key = false
                });
            }
            _ => {}
        }
        for name in spec.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                self.path.extend(["env".to_owned(), name.clone()]);
                let message = format!("{name:?} can't be the name of an environment variable");
                self.add(message, "write it without `=`").key = true;
                self.path.truncate(self.path.len() - 2);
            }
        }
        if let Some(dir) = &spec.dir {
            self.at("dir", |c| c.inside(dir, Some(true)));
        }
        for (at, after) in spec.after.iter().enumerate() {
            self.path.extend(["after".to_owned(), at.to_string()]);
            match named_by(self.lab, machine, after) {
                None => {
                    let fix = self.program_like(machine, after);
                    self.add(format!("there is no program `{after}` to wait for"), fix)
                        .may_follow = true;
                }
                // Longer cycles are found for the whole lab.
                Some(found) if found == (machine, program) => {
                    self.add("it waits for itself", "remove it");
                }
                Some(_) => {}
            }
            self.path.truncate(self.path.len() - 2);
        }
        let by = spec.ready.as_ref().map(|ready| &ready.by);
        if matches!(by, Some(Ready::Time(_)))
            && spec.ready.as_ref().is_some_and(|r| r.timeout.is_some())
        {
            self.at("ready", |c| {
                c.add(
                    "`timeout` says nothing here: `time` passes by itself",
                    "remove `timeout`",
                )
                .key = false
            });
        }
        if matches!(by, Some(Ready::Output(text)) if text.is_empty()) {
            self.at("ready", |c| {
                c.add(
                    "each output has an empty text in it",
                    "write what it says when it is ready",
                )
                .key = false
            });
        }
    }

    pub(crate) fn program_like(&self, machine: &str, after: &str) -> String {
        let here = self.lab.machines[machine].programs.keys().cloned();
        let there = self.lab.machines.iter().flat_map(|(machine, spec)| {
            spec.programs
                .keys()
                .map(move |program| format!("{machine}.{program}"))
        });
        let known: Vec<String> = here.chain(there).collect();
        let suffix = format!(".{after}");
        let elsewhere = known
            .iter()
            .find(|name| name.ends_with(&suffix))
            .map(String::as_str);
        match nearest(after, known.iter().map(String::as_str)).or(elsewhere) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a program of this machine, or `machine.program`".to_owned(),
        }
    }
}
