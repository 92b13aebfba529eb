//! Filters of a lab: nft rules that the control process loads, by place and version.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::RulesetTable;

/// Rules for a place: a machine, or `machine:interface`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NewFilter {
    /// In the language of nft(8).
    pub text: String,
    /// The file that they are from, for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// They are checked by the kernel, and nothing is changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
}

/// To an earlier version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rollback {
    /// Which; none: the one before the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// A filter that is in force, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Filter {
    /// A machine, or `machine:interface`.
    pub place: String,
    /// Counted from 1, for each place.
    pub version: u64,
    /// The file that it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The tables that it declares.
    pub tables: Vec<RulesetTable>,
    /// nft has made sets and maps of rules that are alike (`nft --optimize`).
    pub optimized: bool,
    /// When it was loaded, in seconds since 1970.
    pub time: f64,
}

/// Which version of which place, where it is from, and what it declares.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter of {}, version {}", self.place, self.version)?;
        if let Some(file) = &self.file {
            write!(f, " from {file}")?;
        }
        let tables: Vec<String> = self.tables.iter().map(|t| format!("table {t}")).collect();
        let form = if self.optimized {
            "optimized"
        } else {
            "as written"
        };
        write!(f, ": {}, {form}", tables.join(", "))
    }
}

/// A filter with its rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FilterRules {
    /// Which it is.
    #[serde(flatten)]
    pub filter: Filter,
    /// As it was given.
    pub text: String,
    /// What the kernel has, as `nft list table` prints it.
    pub listing: String,
    /// What its rules and named counters have counted.
    pub counters: Vec<FilterCounter>,
    /// Versions that can be returned to, oldest first.
    pub versions: Vec<FilterVersion>,
}

/// A version of a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FilterVersion {
    /// Its number.
    pub version: u64,
    /// The file that it was from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// When it was loaded, in seconds since 1970.
    pub time: f64,
    /// As it was given.
    pub text: String,
}

/// A rule that counts, or a named counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FilterCounter {
    /// Its table.
    pub table: RulesetTable,
    /// The rule's chain; none: a named counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The rule without its counter, or the counter's name.
    pub rule: String,
    /// Packets since the version was loaded.
    pub packets: u64,
    /// Their bytes, from the network header on.
    pub bytes: u64,
}
