//! What happens at a time.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{Object, Phase, Plan};
use crate::node::Node;
use crate::read::Reader;
use crate::{Lab, Span};

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

/// The lab has other events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventsChange {
    /// All of them.
    pub events: Vec<Event>,
}

impl Object for EventsChange {
    fn diff(plan: &mut Plan<'_>) {
        let events = plan.new.events.clone();
        if plan.old.events != events {
            plan.step(Phase::Events, EventsChange { events });
        }
    }

    fn apply(&self, lab: &mut Lab) {
        lab.events = self.events.clone();
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~ events: {}", self.events.len())
    }
}

impl Reader {
    pub(crate) fn event(&mut self, node: &Node) -> Option<Event> {
        let event = self.fields(node, "an event", |r, f| {
            let at = r.needed(f, (node, "at", "10s"), Reader::parsed);
            let every = r.field(f, "every", Reader::parsed);
            let line = r.needed(f, (node, "do", "wire set w1 loss 1%"), Reader::text);
            Some(Event {
                at: at?,
                every,
                line: line?,
            })
        });
        event.flatten()
    }
}
