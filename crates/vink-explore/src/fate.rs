//! Schedules: what becomes of which packet. What a schedule does not name passes as ever.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// For how long a packet waits at most for the one that it is to come behind, as at a breakpoint
/// with `reorder`.
pub const BEHIND_LIMIT: Duration = Duration::from_secs(1);

/// What becomes of a packet instead of passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// The wire loses it.
    Drop,
    /// It comes twice.
    Duplicate,
    /// It comes behind the next one of its direction, [`BEHIND_LIMIT`] later at the latest.
    Behind,
    /// It comes when a timer of one of the machines has had something sent.
    Late,
    /// It comes so many ns later: what [`Fate::Late`] has been found to be.
    Delay(u64),
}

impl Fate {
    /// Those that are searched. The gravest first.
    pub const ALL: [Fate; 4] = [Fate::Drop, Fate::Late, Fate::Behind, Fate::Duplicate];

    /// Those that do less to a packet, the least first.
    pub fn weaker(self) -> &'static [Fate] {
        match self {
            Fate::Drop => &[Fate::Duplicate, Fate::Behind, Fate::Late],
            Fate::Late | Fate::Delay(_) => &[Fate::Duplicate, Fate::Behind],
            Fate::Behind => &[Fate::Duplicate],
            Fate::Duplicate => &[],
        }
    }
}

/// As a sentence about a packet goes on.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Drop => f.write_str("is lost"),
            Fate::Duplicate => f.write_str("comes twice"),
            Fate::Behind => f.write_str("comes behind the next one"),
            Fate::Late => f.write_str("comes after the next timer"),
            Fate::Delay(ns) => write!(f, "comes {:.6} s late", *ns as f64 / 1e9),
        }
    }
}

/// One packet's fate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deviation {
    /// The interface that sends it: `machine:interface`.
    pub from: String,
    /// Its number among the packets that are searched (TCP, UDP, SCTP) and that this interface
    /// sends, from 1 on.
    pub packet: u32,
    /// What becomes of it.
    pub fate: Fate,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deviation { from, packet, fate } = self;
        write!(f, "packet {packet} of {from} {fate}")
    }
}

/// All deviations of a run. The empty one is the run without faults.
pub type Schedule = Vec<Deviation>;
