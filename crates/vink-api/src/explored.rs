//! Labs that `vink explore` has explored: the tree of their schedules, runs of any of these, and moments opened as labs.
//!
//! A schedule says which packets have which other fate. As text it is a list with commas, of an interface, the packet's
//! number among those that it sends and that are searched, and a fate: `alice:eth0 1 behind,alice:eth0 3 drop`. Empty,
//! it is the run without faults. Fates are `drop`, `late`, `behind`, `duplicate`, and `delay=NS` in ns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use vink_spec::Lab;

use crate::CapturedPacket;

/// `POST /v1/explored`: lists what `vink explore` has written there, from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewExplored {
    /// The folder of what was found, or one that has some of these, such as `LAB.explored`; absolute.
    pub path: String,
}

/// What `vink explore` has found, in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredSummary {
    /// By this it is asked for.
    pub id: String,
    /// The lab.
    pub lab: String,
    /// The folder.
    pub path: String,
    /// The image that was explored.
    pub image: String,
    /// What was found.
    pub violation: ExploredViolation,
    /// The schedule that breaks it.
    pub schedule: Vec<ExploredDeviation>,
}

/// A property that a run breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredViolation {
    /// Its name.
    pub property: String,
    /// What it says, with an RFC or as in the lab file.
    pub says: String,
    /// When, ns on the run's clock.
    pub nanoseconds: u64,
    /// Where; empty: at no machine.
    pub machine: String,
    /// What went wrong.
    pub what: String,
}

/// A packet with another fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredDeviation {
    /// As a schedule has it: `alice:eth0 1 behind`.
    pub words: String,
    /// In a sentence.
    pub says: String,
}

/// What was explored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Explored {
    /// What lists show of it.
    pub summary: ExploredSummary,
    /// The lab's machines.
    pub machines: Vec<String>,
    /// The fates that are tried, the gravest first.
    pub fates: Vec<String>,
    /// What was explored; of a difference (`vink explore --against`) also what it was compared with, as the second one.
    pub sides: Vec<ExploredSide>,
}

/// A lab on an image that was explored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredSide {
    /// What it is called where two are told apart: the image's name or the lab's.
    pub name: String,
    /// The lab.
    pub lab: String,
    /// The image.
    pub image: String,
}

/// Which run of an explored lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExploredQuery {
    /// Its schedule; the run without faults if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// On which of `sides`, from 0 on; the first one if left away.
    #[serde(default, skip_serializing_if = "is_first")]
    pub side: usize,
}

fn is_first(side: &usize) -> bool {
    *side == 0
}

/// Of which packet the fates are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChoicesQuery {
    /// The schedule of the run that has it; the run without faults if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The interface that sends it.
    pub from: String,
    /// Its number among those that this interface sends and that are searched, from 1 on.
    pub packet: u32,
}

/// A run of an explored lab, from its beginning to its end. It is run when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredRun {
    /// Its schedule.
    pub schedule: Vec<ExploredDeviation>,
    /// When it ended, ns on its clock.
    pub nanoseconds: u64,
    /// What it breaks; none: all properties hold. Of a difference: how the two runs with this schedule differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<ExploredViolation>,
    /// Of a difference, if the two runs are not told to differ: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<String>,
    /// What happened, in its order.
    pub events: Vec<ExploredEvent>,
    /// Events behind these, which are too many to be told.
    pub more: u64,
    /// Programs, and how they have ended.
    pub programs: Vec<ExploredProgram>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredEvent {
    /// When, ns on the run's clock.
    pub nanoseconds: u64,
    /// `departure`, `arrival`, `loss` of a packet, or `output` of a program.
    pub kind: String,
    /// Where.
    pub machine: String,
    /// The packet in a line, or what the program has written.
    pub text: String,
    /// The program that has written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The packet's interface, `machine:interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// By this number the packet is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<u64>,
    /// Of one that departs and that is searched: its number among these, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// What the schedule has done to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fate: Option<String>,
    /// Why it was lost, in the kernel's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of one that arrives or is lost: its departure, by its place among these events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departure: Option<u64>,
}

/// A program of an explored lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredProgram {
    /// Where.
    pub machine: String,
    /// Its name there.
    pub name: String,
    /// How it has ended; none: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ExploredEnd>,
}

/// How a program has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredEnd {
    /// When, ns on the run's clock.
    pub nanoseconds: u64,
    /// Its exit status.
    pub status: i32,
    /// Why it gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What comes of a run if a packet has another fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ExploredChoice {
    /// The fate.
    pub fate: String,
    /// What the run breaks; none: all properties hold. Of a difference: how the two runs differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<ExploredViolation>,
}

/// `POST /v1/explored/EXPLORED/open`: makes a lab in which packets have the same fates, as it is at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OpenExplored {
    /// The schedule; the run without faults if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// On which of `sides`, from 0 on; the first one if left away.
    #[serde(default, skip_serializing_if = "is_first")]
    pub side: usize,
    /// When, ns on the run's clock.
    pub at: u64,
    /// The lab's name; `LAB-at-12.5s` if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A lab that was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OpenedExplored {
    /// The lab.
    pub lab: String,
    /// The moment where it stands, ns on the run's clock.
    pub nanoseconds: u64,
    /// When its own clock is at 0, ns on the run's clock.
    pub begin: u64,
}

/// What the control process asks `vink explored`, a line of JSON each. Each answer is one, too: a `Result` of what is
/// asked for, or why there is none. An [`Explored`] with an empty id comes unasked, first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExploredQuestion {
    /// [`ExploredRun`].
    Run(ExploredQuery),
    /// A list of [`ExploredChoice`].
    Choices(ChoicesQuery),
    /// [`ExploredCapture`] of a packet of this run, by its number.
    Packet(ExploredQuery, u64),
    /// [`ExploredLab`] with this run's schedule.
    Lab(ExploredQuery),
}

/// A packet of a run, among those before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExploredCapture {
    /// What lists show of it.
    pub packet: CapturedPacket,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The run's packets as a pcapng file.
    pub file: Vec<u8>,
}

/// A lab in which breakpoints do to packets what a schedule does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExploredLab {
    /// The lab.
    pub lab: Lab,
    /// The folder of the lab's file.
    pub folder: String,
    /// The environment of its programs.
    pub env: Vec<(String, String)>,
    /// When its clock is at 0, ns on the run's clock.
    pub begin: u64,
}
