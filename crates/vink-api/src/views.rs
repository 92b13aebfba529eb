//! Views of a lab: what its pages share that changes nothing in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/labs/LAB/views/save`: the files that were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SavedViews {
    /// The document, as Yjs has it.
    pub views: String,
    /// The same as JSON with sorted keys, for people and version control.
    pub json: String,
}
