//! Recorded runs: what happened at any moment of them, and their moments opened as labs.

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use vink_spec::Settings;

use crate::Topology;

/// `POST /v1/runs`: lists what was recorded there, from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewRun {
    /// A manifest, the folder that a lab was recorded to, or a folder that has some of these; absolute.
    pub path: String,
}

/// A recorded run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunSummary {
    /// By this it is asked for.
    pub id: String,
    /// The lab; the program, if it was one by itself.
    pub lab: String,
    /// The manifest.
    pub path: String,
    /// The date at which its clock was at 0, in seconds since 1970.
    pub began: f64,
    /// How long it is on its own clock; none: it goes on, or was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nanoseconds: Option<u64>,
    /// Why its moments can't be opened as labs; none: they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_history: Option<String>,
    /// The moment of another run from which it went its own way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunPoint>,
}

/// A moment of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunPoint {
    /// The run's manifest.
    pub path: String,
    /// The run, if it is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// When, on its clock.
    pub nanoseconds: u64,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Run {
    /// What lists show of it.
    pub summary: RunSummary,
    /// The lab as it was made, with the ends of all flights of the run.
    pub topology: Topology,
    /// How often machines or wires have changed since; none: it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    /// How long it is, as far as its journal is whole.
    pub nanoseconds: u64,
    /// The journal has no end: the run goes on, or was cut short.
    pub cut: bool,
    /// How many records the journal has.
    pub records: u64,
    /// How many departures, arrivals and losses of packets.
    pub packets: u64,
    /// How many calls.
    pub calls: u64,
    /// Packets that were not seen, since too many came at once.
    pub missed: u64,
    /// What is counted in timelines: `classes` of packets that depart, then everything else.
    pub kinds: Vec<String>,
    /// How many of the kinds are classes of packets.
    pub classes: usize,
}

/// Which part of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TimelineQuery {
    /// From when, ns; 0 if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Until when; the end if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// How many bins at most, up to 10,000; 500 if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bins: Option<u64>,
    /// Only at this end, `machine:interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// How much happened over a span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunTimeline {
    /// When the first bin begins, ns.
    pub from: u64,
    /// How long each is, ns.
    pub width: u64,
    /// How many there are.
    pub bins: u64,
    /// Of the kinds that there are in this span.
    pub rows: Vec<TimelineRow>,
}

/// How much of one kind happened in each bin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TimelineRow {
    /// A class of packets, or `loss`, `breakpoint`, `request`, `line`, `program`, `call`, `clock`,
    /// `drop`, `change`.
    pub kind: String,
    /// For each bin.
    pub counts: Vec<u64>,
}

/// Which events of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunEventsQuery {
    /// From when, ns; 0 if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Until when; the end if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Behind the event of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Kinds, separated by commas; `packet` is all that happens to packets. All, if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<String>,
    /// At most so many, up to 10,000; 200 if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunEvent {
    /// Its place in the journal, from 0.
    pub number: u64,
    /// When, on the run's clock.
    pub nanoseconds: u64,
    /// A kind as timelines have them, or `arrival`, `thread`, `output`.
    pub kind: String,
    /// In one line.
    pub text: String,
    /// The interface where it happened, as `machine:interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// Which packets of a run: each departure, arrival and loss is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunPacketsQuery {
    /// From when, ns; 0 if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Until when; the end if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Behind the one of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Only at this end, `machine:interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// At most so many: 200, and never more than 2,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// Where the next event of a kind is searched from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NextEventQuery {
    /// From when, ns: what happened then is not found.
    pub at: u64,
    /// Of these kinds, separated by commas; any, if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<String>,
    /// The last one before it instead.
    #[serde(default)]
    pub back: bool,
}

/// A moment that is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunStateQuery {
    /// When, ns on the run's clock.
    pub at: u64,
}

/// How a run was at a moment, at the end of what happened then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunState {
    /// When, on the run's clock.
    pub nanoseconds: u64,
    /// How many records there were.
    pub records: u64,
    /// How many changes users had asked for.
    pub revision: u64,
    /// Packets under way.
    pub under_way: u64,
    /// What interfaces had counted.
    pub ends: Vec<RunEnd>,
    /// Programs that ran.
    pub programs: Vec<RunProgram>,
}

/// A run's machines and wires at a moment, at the end of what happened then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunTopology {
    /// When, on the run's clock.
    pub nanoseconds: u64,
    /// How often machines or wires had changed.
    pub changes: u64,
    /// Since when they are as they were then, ns.
    pub since: u64,
    /// When the next change is, ns; none: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Those that were there. Ends have the numbers that flights have, at any time: an end that was
    /// not there has no node, and belongs to no wire.
    pub topology: Topology,
    /// Addresses of interfaces that had some, by `machine:interface`, with the size of their network.
    #[schemars(with = "IndexMap<String, Vec<String>>")]
    pub addresses: IndexMap<String, Vec<IpNet>>,
    /// What wires did to packets, by name. A wire that is not here was ideal.
    pub settings: IndexMap<String, RunWire>,
}

/// What a wire did to packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunWire {
    /// To those of any end.
    pub settings: Settings,
    /// What was different for those that this end sent, such as `r1:eth0` or `outside`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub from: IndexMap<String, Settings>,
}

/// What an interface had counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunEnd {
    /// `machine:interface`.
    pub end: String,
    /// Packets that departed.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were lost here: by the wire, or a full queue.
    pub lost: u64,
}

/// A program that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunProgram {
    /// Its number in the run.
    pub program: u64,
    /// Where.
    pub machine: String,
    /// The first of its words.
    pub name: String,
    /// Since when, ns.
    pub started: u64,
}

/// Packets under way in a span of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FlightsQuery {
    /// From when, ns.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// At most so many, up to 200,000; 20,000 if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// `POST /v1/runs/RUN/open`: makes a lab that is as the run was at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OpenRun {
    /// When, ns on the run's clock. A moment before the lab was up is that at which it was.
    pub at: u64,
    /// The lab's name; `LAB-at-12.5s` if left away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Though the image, the lab file or programs are not what they were.
    #[serde(default)]
    pub anyway: bool,
}

/// A lab that is as a run was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OpenedRun {
    /// The lab.
    pub lab: String,
    /// The moment where it stands.
    pub nanoseconds: u64,
    /// Keyframes at which it was found to be as the run.
    pub checked: u64,
}

/// What of a run a lab is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OpenedFrom {
    /// The run's manifest.
    pub path: String,
    /// The run, if it is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The moment, ns on its clock.
    pub nanoseconds: u64,
    /// It was changed since, or its clock has gone on: it goes its own way, which is recorded as a
    /// run of its own.
    pub branch: bool,
}

/// Which run another one is compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DifferenceQuery {
    /// The other run.
    pub with: String,
    /// Leave chance aside, such as ephemeral ports.
    #[serde(default)]
    pub behaviour: bool,
}

/// Where two runs part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunDifference {
    /// They do not.
    pub same: bool,
    /// When the first event that differs happened in either run, ns; none: it has no such event.
    pub nanoseconds: [Option<u64>; 2],
    /// As `vink lab diff` tells it.
    pub text: String,
}
