//! How programs make their calls on sockets.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How dynamically linked programs make their calls on sockets (docs/calls.md). All others trap each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Calls {
    /// Shared while they come often, else trapped. In virtual time trapped.
    #[default]
    Auto,
    /// Posted in memory shared with the stack, which has a processor of its own.
    Shared,
    /// Each a seccomp notification.
    Trapped,
}

impl Calls {
    /// All of them, by their names in lab files and options.
    pub const NAMES: [(&str, Calls); 3] = [
        ("auto", Calls::Auto),
        ("shared", Calls::Shared),
        ("trapped", Calls::Trapped),
    ];

    /// Whether this is what a lab has that says nothing.
    pub fn is_auto(&self) -> bool {
        *self == Calls::Auto
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Calls::NAMES.iter().find(|(_, calls)| calls == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Calls {
    type Err = String;

    fn from_str(text: &str) -> Result<Calls, String> {
        let found = Calls::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, calls)| *calls)
            .ok_or_else(|| format!("{text:?} is none of auto, shared, trapped"))
    }
}
