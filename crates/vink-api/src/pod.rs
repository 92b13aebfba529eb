//! Pods of a lab, and the paths of packets through them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::{PathSpec, PodSpec};

/// A pod to be loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewPod {
    /// Its name. If there is one of this name, paths go on through the new one.
    pub name: String,
    /// As in a lab file; none: as it is in the lab.
    #[serde(
        default,
        deserialize_with = "vink_spec::as_written::pod",
        skip_serializing_if = "Option::is_none"
    )]
    pub spec: Option<PodSpec>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// As in a lab file.
    pub spec: PodSpec,
    /// Its wall.
    pub wall: String,
    /// Why it has ended; none: it has not.
    pub ended: Option<String>,
    /// Bytes of memory that it has.
    pub memory: u64,
    /// How often its wall was crossed.
    pub crossings: u64,
    /// Calls of its functions.
    pub calls: u64,
    /// Cycles of the processor (its time stamp counter's) that the crossings have taken.
    pub cycles: u64,
    /// What `vink_count()` has counted.
    pub counters: Vec<i64>,
    /// The last lines of its log.
    pub log: Vec<String>,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PacketPath {
    /// Its name.
    pub name: String,
    /// As in a lab file.
    pub spec: PathSpec,
    /// The pod of it that has ended; none: it works.
    pub ended: Option<String>,
    /// What it has counted, by name: `packets` and `bytes` that have come; `crossings` of pods'
    /// walls and their `cycles`; frames that have `passed`, of which pods have `changed` and
    /// `emitted` some; `dropped` by a pod; `waited` for another period, `waiting` now; `overdrafts`
    /// of the budget; `lost` for want of room or of a pod.
    pub numbers: BTreeMap<String, u64>,
}
