//! Schedules: what becomes of which packet. What a schedule does not name passes as ever.

use std::fmt;
use std::str::FromStr;
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

    /// Its name, as manifests have it.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Drop => "drop",
            Fate::Duplicate => "duplicate",
            Fate::Behind => "behind",
            Fate::Late => "late",
            Fate::Delay(_) => "delay",
        }
    }

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

impl Deviation {
    /// As a word list: `alice:eth0 1 behind`, which [`Deviation::from_str`] reads.
    pub fn words(&self) -> String {
        let Deviation { from, packet, fate } = self;
        match fate {
            Fate::Delay(ns) => format!("{from} {packet} delay={ns}"),
            fate => format!("{from} {packet} {}", fate.word()),
        }
    }
}

impl FromStr for Deviation {
    type Err = String;

    fn from_str(text: &str) -> Result<Deviation, String> {
        let mistake =
            || format!("{text:?} is no packet with another fate: \"alice:eth0 1 drop\" is one");
        let words: Vec<&str> = text.split_whitespace().collect();
        let [from, packet, fate] = words[..] else {
            return Err(mistake());
        };
        let packet = packet.parse().ok().filter(|number| *number > 0);
        let fate = match fate.strip_prefix("delay=") {
            Some(ns) => ns.parse().ok().map(Fate::Delay),
            None => Fate::ALL.into_iter().find(|known| known.word() == fate),
        };
        match (from.contains(':'), packet, fate) {
            (true, Some(packet), Some(fate)) => Ok(Deviation {
                from: from.to_owned(),
                packet,
                fate,
            }),
            _ => Err(mistake()),
        }
    }
}

/// All deviations of a run. The empty one is the run without faults.
pub type Schedule = Vec<Deviation>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let all = Fate::ALL.into_iter().chain([Fate::Delay(1_500)]);
        for (packet, fate) in (1..).zip(all) {
            let from = "alice:eth0".to_owned();
            let one = Deviation { from, packet, fate };
            assert_eq!(one.words().parse(), Ok(one));
        }
        for text in [
            "",
            "alice:eth0 1",
            "alice 1 drop",
            "a:b 0 drop",
            "a:b -1 drop",
            "a:b 1 lost",
            "a:b 1 delay=",
            "a:b 1 delay",
            "a:b 1 drop late",
        ] {
            let mistake = Deviation::from_str(text).unwrap_err();
            assert!(
                mistake.starts_with(&format!("{text:?} is no packet")),
                "{mistake}"
            );
        }
    }
}
