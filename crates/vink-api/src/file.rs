//! Lab files' texts, and the ready labs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vink_spec::Lab;

/// `POST /v1/spec/check`: what a lab file says, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckSpec {
    /// Its text, in YAML.
    pub text: String,
    /// Its folder, absolute; without it, what paths lead to is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its name, for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A lab file that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CheckedSpec {
    /// The lab, with all that it generates; none if it can't be used.
    pub spec: Option<Lab>,
    /// What is wrong, in the order of the text.
    pub mistakes: Vec<Mistake>,
}

/// What is wrong in a lab file's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Mistake {
    /// Its line, from 1; 0: nowhere in particular.
    pub line: usize,
    /// Its column, in characters from 1.
    pub column: usize,
    /// How many characters of the line are wrong.
    pub length: usize,
    /// Where in the lab: `machines.m1.interfaces.eth0.wire`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
    /// The lab can be used all the same.
    pub warning: bool,
}

/// `POST /v1/spec/format`: the lab file of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FormatSpec {
    /// The lab.
    #[serde(deserialize_with = "vink_spec::as_written::lab")]
    pub spec: Lab,
}

/// A lab file's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FormattedSpec {
    /// The text, in YAML.
    pub text: String,
}

/// A lab that comes with Vink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ReadyLab {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// Its folder, absolute.
    pub folder: String,
    /// The lab file in it.
    pub file: String,
}

/// A lab that comes with Vink, with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ReadyLabFile {
    /// Its name.
    pub name: String,
    /// Its folder, absolute.
    pub folder: String,
    /// Its lab file's text.
    pub text: String,
}
