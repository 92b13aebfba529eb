//! What happens at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// Switch box lines, carried out when the lab has been up for so long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Event {
    /// How long after the lab is up.
    pub at: Span,
    /// Again each time this long has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// A line of the switch box, such as `wire set w1 loss 1%`.
    #[serde(rename = "do")]
    pub line: String,
}
