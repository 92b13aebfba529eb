//! Labs: what is asked for, and how they are.

use std::net::SocketAddr;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::Lab;

use crate::{HostStatus, OpenedFrom};

/// Which control process answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Version {
    /// Of `vink`.
    pub vink: String,
    /// The control process.
    pub pid: u32,
    /// Its executable, for clients that find that another one is installed by now.
    pub executable: String,
}

/// `PUT /v1/labs/NAME`: makes a lab, or changes the one that runs so that it is as asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PutLab {
    /// What the lab is to be.
    #[serde(deserialize_with = "vink_spec::as_written::lab")]
    pub spec: Lab,
    /// The lab file's folder, absolute: what relative paths of the lab are relative to, and must
    /// stay inside of.
    pub folder: String,
    /// The lab file, absolute: beside it the views of a new lab are kept, as LAB.views.yjs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// Fail (409) if it runs already, and none of its hosts is lost: these come back then.
    #[serde(default)]
    pub new: bool,
    /// Fail (404) if it does not run yet.
    #[serde(default)]
    pub running: bool,
    /// When a new lab can't be made, leave what there is of it, to be looked at.
    #[serde(default)]
    pub keep: bool,
    /// When a new lab is up, its clock stands until it is told to go: only for labs with a clock of
    /// their own.
    #[serde(default)]
    pub paused: bool,
    /// The environment of its programs.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Listen for telnet sessions on this loopback port (0: any) for as long as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switchbox: Option<u16>,
    /// Write down all that happens in a new lab, from its beginning until it is taken down: see
    /// docs/replay.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordLab>,
}

/// Where a lab is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecordLab {
    /// A new folder, absolute: `manifest.json` and `run.journal` come to be there.
    pub folder: String,
    /// The lab file, absolute, whose hash the manifest then has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_file: Option<String>,
    /// What clients give programs is not recorded, as it was not at first.
    #[serde(default)]
    pub without_inputs: bool,
}

/// What [`PutLab`] came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Applied {
    /// The lab.
    pub lab: String,
    /// It did not run before.
    pub created: bool,
    /// What was changed (or would be), in order; nothing if the lab was as asked for.
    pub changes: Vec<Change>,
    /// Where its switch box listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub switchbox: Option<SocketAddr>,
}

/// One thing that was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Change {
    /// How.
    pub kind: ChangeKind,
    /// What: `machine m1`, `wire w1`, `interface m1:eth0`, `program m1.web` ...
    pub object: String,
    /// What about it, in words, if there is more to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// How something was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It is new.
    Add,
    /// It is different.
    Change,
    /// It is gone.
    Remove,
}

/// How far a lab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabState {
    /// It is being made.
    Starting,
    /// All of it runs.
    Running,
    /// A worker has died, and its machines with it: `vink lab restart` brings them back.
    Broken,
    /// It could not be made, and was kept as it was.
    Failed,
    /// It is being taken down.
    Ending,
}

/// A lab in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LabSummary {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub state: LabState,
    /// Its folder.
    pub folder: String,
    /// How many machines it has.
    pub machines: usize,
    /// How many wires.
    pub wires: usize,
    /// How many programs run.
    pub programs: usize,
    /// Seconds since it is up; 0 before.
    pub up_seconds: f64,
    /// Where its switch box listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub switchbox: Option<SocketAddr>,
    /// The moment of a recorded run that it was opened at; none: it is no such lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<OpenedFrom>,
}

/// How a lab is: the summary, and its processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LabStatus {
    /// What lists show of it.
    pub summary: LabSummary,
    /// Its other hosts.
    pub hosts: Vec<HostStatus>,
    /// Its workers, one for each image and worker group.
    pub workers: Vec<WorkerStatus>,
    /// Names of programs that were started, and have failed, with the reason.
    pub failed: Vec<String>,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WorkerStatus {
    /// Which of the lab's hosts it is on; none: the one of the control process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The image's name in the lab; none: the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The worker group of its machines; none: those that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The processors on which it stays; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core: Vec<u32>,
    /// The image's file.
    pub path: String,
    /// The process, by its number on its host; none: it has died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The release of its kernel.
    pub release: String,
    /// How many machines it has.
    pub machines: usize,
    /// Why it died: a panic with its backtrace, or how the process ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For how long its kernel has not returned, and where it was found, if it does not come back
    /// from what it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
}

/// What was restarted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Restarted {
    /// The machines that have booted again: all of the worker's.
    pub machines: Vec<String>,
}
