//! A lab's clock: how it is, and what may be asked of it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::{Factor, Span, Time, UnitError};

/// How a lab's clock is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Clock {
    /// Which one it is.
    pub time: Time,
    /// What it does.
    pub state: ClockState,
    /// How long the lab has been up by this clock, in seconds.
    pub seconds: f64,
    /// The same in nanoseconds.
    pub nanoseconds: u64,
    /// What the kernel's clock is at, in nanoseconds: as packets and captures have it.
    pub kernel_nanoseconds: u64,
    /// It goes on even if no program waits.
    pub free: bool,
    /// At most so many times as fast as the host's clock; none: as fast as it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Factor>,
}

/// What a clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockState {
    /// It goes.
    Running,
    /// It goes on when a program waits.
    Standing,
    /// It stands until it is told to go on.
    Paused,
    /// A breakpoint has stopped all of the lab, until it is told to go on.
    Stopped,
}

/// `PATCH /v1/labs/NAME/clock`: what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeClock {
    /// Stop the lab, or let it go on, also if a breakpoint has stopped it. One that lives by the
    /// host's clock is stopped as a breakpoint does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Go on even if no program waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<bool>,
    /// The most times as fast as the host's clock that it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
}

/// How fast a clock may go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// As fast as it can be.
    Max,
    /// So many times as fast as the host's.
    Factor(Factor),
}

/// `POST /v1/labs/NAME/clock/run`: lets the clock go until the first of these, or until a
/// breakpoint stops the lab, and answers then. Even a paused one, which is paused again then. One
/// of them must be named.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunClock {
    /// The lab has been up for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
    /// So much time has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Span>,
    /// This has happened once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Step>,
    /// This program has ended: its number, or its name as `machine.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// This program is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

/// A step of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// To the next time that the kernel waits for.
    Event,
    /// Until a packet is sent, received or lost at an interface.
    Packet,
    /// Until a program of the host has made a system call that concerns Vink.
    Call,
}

/// For people, in a line.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            ClockState::Running => "the clock goes, and is",
            ClockState::Standing => "the clock stands",
            ClockState::Paused => "paused",
            ClockState::Stopped => "stopped by a breakpoint",
        };
        write!(
            f,
            "{state} at {} ({} time",
            digits(self.nanoseconds),
            self.time
        )?;
        if let Some(speed) = self.speed {
            write!(f, ", at most {speed} times as fast as the host's")?;
        }
        if self.free && !matches!(self.state, ClockState::Paused | ClockState::Stopped) {
            f.write_str(", free-running")?;
        }
        f.write_str(")")
    }
}

/// Seconds with as many digits as there are.
fn digits(nanoseconds: u64) -> String {
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let text = format!("{seconds}.{rest:09}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `max`, or a factor.
impl FromStr for Speed {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Speed, UnitError> {
        match text {
            "max" => Ok(Speed::Max),
            _ => text.parse().map(Speed::Factor),
        }
    }
}

/// One step: `event`, `packet`, `call`, or a length of time.
impl FromStr for RunClock {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<RunClock, UnitError> {
        let next = match text {
            "event" => Some(Step::Event),
            "packet" => Some(Step::Packet),
            "call" => Some(Step::Call),
            _ => None,
        };
        let by = match next {
            Some(_) => None,
            None => Some(text.parse()?),
        };
        Ok(RunClock {
            by,
            next,
            ..RunClock::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (nanoseconds, text) in [
            (0, "0 s"),
            (10_000_000_000, "10 s"),
            (1_500_000_000, "1.5 s"),
            (1, "0.000000001 s"),
        ] {
            assert_eq!(digits(nanoseconds), text);
        }
    }

    #[test]
    fn steps_and_speeds() {
        let step: RunClock = "packet".parse().unwrap();
        assert_eq!(step.next, Some(Step::Packet));
        let step: RunClock = "10ms".parse().unwrap();
        assert_eq!(step.by, Some(Span(10_000_000)));
        assert!("soon".parse::<RunClock>().is_err());
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert!("0".parse::<Speed>().is_err());
    }
}
