//! Which clock a lab lives by.

use std::fmt;
use std::str::FromStr;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::node::{Kind, Node};
use crate::read::Reader;
use crate::{MachineSpec, Span, UnitError};

/// The clock of a lab: `real`, `virtual`, or `{scaled: 2}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Written")]
#[schemars(with = "Written")]
pub enum Time {
    /// The host's.
    #[default]
    Real,
    /// Its own, which stands still while anything is done, and goes to the next thing that is waited for when nothing is.
    Virtual(Virtual),
    /// Its own, which goes this many times as fast as the host's.
    Scaled(Factor),
}

/// What may be said of a virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Virtual {
    /// Wires may have uplinks, whose packets come when they come: runs are not the same then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uplinks: bool,
    /// What each system call of a program costs, such as 1us (default: nothing): computing takes no time otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Span>,
    /// The processor's time stamp counter shows this clock, too. Programs are traced for that, and can't trace each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rdtsc: bool,
}

/// How many times as fast: more than 0, at most a million.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Factor(f64);

/// As a lab file has it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    /// In a word.
    Word(Word),
    /// With what is said of it.
    Map(Map),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ClockName")]
enum Word {
    /// The host's clock.
    Real,
    /// A clock of its own, which goes to the next thing that is waited for when nothing is done.
    Virtual,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ClockKind")]
enum Map {
    /// A clock of its own, and what is said of it.
    Virtual(Virtual),
    /// So many times as fast as the host's clock.
    Scaled(Factor),
}

impl From<Written> for Time {
    fn from(written: Written) -> Time {
        match written {
            Written::Word(Word::Real) => Time::Real,
            Written::Word(Word::Virtual) => Time::Virtual(Virtual::default()),
            Written::Map(Map::Virtual(options)) => Time::Virtual(options),
            Written::Map(Map::Scaled(factor)) => Time::Scaled(factor),
        }
    }
}

impl From<Time> for Written {
    fn from(time: Time) -> Written {
        match time {
            Time::Real => Written::Word(Word::Real),
            Time::Virtual(options) if options == Virtual::default() => Written::Word(Word::Virtual),
            Time::Virtual(options) => Written::Map(Map::Virtual(options)),
            Time::Scaled(factor) => Written::Map(Map::Scaled(factor)),
        }
    }
}

impl Time {
    pub(crate) fn is_real(&self) -> bool {
        *self == Time::Real
    }

    /// Whether wires may lead outside.
    pub fn allows_uplinks(&self) -> bool {
        !matches!(self, Time::Virtual(Virtual { uplinks: false, .. }))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Time::Real => f.write_str("real"),
            Time::Virtual(Virtual { uplinks: false, .. }) => f.write_str("virtual"),
            Time::Virtual(Virtual { uplinks: true, .. }) => f.write_str("virtual:uplinks"),
            Time::Scaled(factor) => write!(f, "scaled:{factor}"),
        }
    }
}

/// As an option of a command has it: `real`, `virtual`, `virtual:uplinks`, `scaled:2`.
impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Time, UnitError> {
        match text.split_once(':') {
            None if text == "real" => Ok(Time::Real),
            None if text == "virtual" => Ok(Time::Virtual(Virtual::default())),
            Some(("virtual", "uplinks")) => Ok(Time::Virtual(Virtual {
                uplinks: true,
                ..Virtual::default()
            })),
            Some(("scaled", factor)) => factor.parse().map(Time::Scaled),
            _ => Err(UnitError::new(text, "clock", "real, virtual or scaled:2")),
        }
    }
}

impl Factor {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Factor {
    type Error = UnitError;

    fn try_from(number: f64) -> Result<Factor, UnitError> {
        match number > 0.0 && number <= 1e6 {
            true => Ok(Factor(number)),
            false => Err(UnitError::new(
                &number.to_string(),
                "factor",
                "2 or 0.1, more than 0",
            )),
        }
    }
}

impl FromStr for Factor {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Factor, UnitError> {
        let number = text.trim().parse().unwrap_or(f64::NAN);
        Factor::try_from(number)
            .map_err(|_| UnitError::new(text, "factor", "2 or 0.1, more than 0"))
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Factor {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Factor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How many times as fast as the host's clock",
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1_000_000
        })
    }
}

impl Reader {
    pub(crate) fn time(&mut self, node: &Node) -> Option<Time> {
        if matches!(&node.kind, Kind::Scalar { .. }) {
            let plain = Time::Virtual(Virtual::default());
            return self.word(node, &[("real", Time::Real), ("virtual", plain)]);
        }
        self.one(node, "a clock", |r, f| {
            let own = r.field(f, "virtual", |r, n| {
                r.fields(n, "`virtual`", |r, f| {
                    let uplinks = r.field_or_default(f, "uplinks", Reader::flag);
                    let call = r.field(f, "call", Reader::parsed);
                    let rdtsc = r.field_or_default(f, "rdtsc", Reader::flag);
                    Time::Virtual(Virtual {
                        uplinks,
                        call,
                        rdtsc,
                    })
                })
            });
            let scaled = r.field(f, "scaled", Reader::parsed).map(Time::Scaled);
            own.or(scaled)
        })
    }
}

impl<'a> Check<'a> {
    /// What a clock of the lab's own does not go with.
    pub(crate) fn clock(&mut self) {
        let lab = self.lab;
        if lab.time == Time::Real {
            return;
        }
        let first = lab.machines.values().next();
        let other = |(_, machine): &(&String, &MachineSpec)| {
            first.is_some_and(|first| first.image != machine.image)
        };
        let apart = |(_, machine): &(&String, &MachineSpec)| {
            let differ = first.is_some_and(|first| first.worker_group() != machine.worker_group());
            // Of a switch it has been told.
            differ && machine.bridge.is_none()
        };
        // Of two that differ, one at least says where it is.
        let two = [lab.machines.iter().find(apart), lab.machines.first()];
        let mut saying = two.into_iter().flatten();
        if let (Some(_), Some((name, machine))) =
            (two[0], saying.find(|(_, it)| it.worker_group().is_some()))
        {
            let key = if machine.worker.is_some() {
                "worker"
            } else {
                "core"
            };
            self.path = ["machines", name, key].map(str::to_owned).to_vec();
            self.add(
                "machines of several workers can't share a clock of the lab's own: each worker has a kernel of its own",
                "give all machines the same `worker` and `core`, or none, or say `time: real`",
            );
        }
        if let Some((name, _)) = lab.machines.iter().find(other) {
            self.path = ["machines", name, "image"].map(str::to_owned).to_vec();
            let fix = "give all machines the same image, or say `time: real`";
            self.add(
                "machines of several images can't share a clock of the lab's own: each image has a kernel of its own",
                fix,
            );
        }
        if lab.time.allows_uplinks() {
            self.path.clear();
            return;
        }
        for (name, _) in lab.wires.iter().filter(|(_, wire)| wire.uplink.is_some()) {
            self.path = ["wires", name, "uplink"].map(str::to_owned).to_vec();
            self.add(
                "what is outside does not live by the lab's virtual clock",
                "leave the uplink out, or say `time: {virtual: {uplinks: true}}`: runs are not the same then",
            );
        }
        self.path.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_and_read() {
        let uplinks = Virtual {
            uplinks: true,
            ..Virtual::default()
        };
        let call = Virtual {
            call: Some(Span(1000)),
            ..Virtual::default()
        };
        let rdtsc = Virtual {
            rdtsc: true,
            ..Virtual::default()
        };
        for (time, json) in [
            (Time::Real, "\"real\""),
            (Time::Virtual(Virtual::default()), "\"virtual\""),
            (Time::Virtual(uplinks), "{\"virtual\":{\"uplinks\":true}}"),
            (Time::Virtual(call), "{\"virtual\":{\"call\":\"1us\"}}"),
            (Time::Virtual(rdtsc), "{\"virtual\":{\"rdtsc\":true}}"),
            (Time::Scaled(Factor(2.5)), "{\"scaled\":2.5}"),
        ] {
            assert_eq!(serde_json::to_string(&time).unwrap(), json);
            assert_eq!(serde_json::from_str::<Time>(json).unwrap(), time);
        }
        for bad in ["\"fast\"", "{\"scaled\":0}", "{\"virtual\":{\"a\":1}}"] {
            assert!(serde_json::from_str::<Time>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options() {
        for text in [
            "real",
            "virtual",
            "virtual:uplinks",
            "scaled:2",
            "scaled:0.25",
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.to_string(), text);
        }
        for bad in [
            "",
            "scaled",
            "scaled:0",
            "scaled:-1",
            "virtual:1",
            "scaled:x",
        ] {
            assert!(bad.parse::<Time>().is_err(), "{bad}");
        }
    }
}
