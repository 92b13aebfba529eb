//! What programs may do on their machine.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What programs may do on their machine (docs/rights.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rights {
    /// Root's: they may configure its network.
    #[default]
    Full,
    /// A user's: they may use its network and change nothing of it.
    User,
}

impl Rights {
    /// All of them, by their names in lab files and options.
    pub const NAMES: [(&str, Rights); 2] = [("full", Rights::Full), ("user", Rights::User)];

    /// Whether these are what programs have if nothing is said.
    pub fn is_full(&self) -> bool {
        *self == Rights::Full
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Rights::NAMES.iter().find(|(_, rights)| rights == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Rights {
    type Err = String;

    fn from_str(text: &str) -> Result<Rights, String> {
        let found = Rights::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, rights)| *rights)
            .ok_or_else(|| format!("{text:?} is neither full nor user"))
    }
}
