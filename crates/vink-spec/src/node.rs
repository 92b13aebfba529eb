//! A tree of maps, lists and scalars that knows where each of them was written: what YAML and JSON
//! are read into.

use serde_json::Value;

use crate::diagnostic::SourceSpan;

/// A value, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub span: SourceSpan,
    pub kind: Kind,
}

/// What is written there. What a scalar is depends on what is expected: `no` may well be a name.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar {
        text: String,
        /// Not quoted: may be a number, a truth value or nothing at all.
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub span: SourceSpan,
    pub value: Node,
}

impl Node {
    pub fn null(span: SourceSpan) -> Node {
        Node {
            span,
            kind: Kind::Scalar {
                text: String::new(),
                plain: true,
            },
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => {
                let found = entries.iter().find(|entry| entry.key == key);
                found.map(|entry| &entry.value)
            }
            _ => None,
        }
    }

    /// What it is, for messages.
    pub fn what(&self) -> &'static str {
        match &self.kind {
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
            Kind::Scalar { .. } if self.is_null() => "nothing",
            Kind::Scalar { .. } => "text",
        }
    }

    /// Where a path leads, or as far as it does: to the key of the last step (`key`) or to its
    /// value.
    pub fn find(&self, path: &[String], key: bool) -> SourceSpan {
        let mut node = self;
        let mut span = self.span;
        for step in path {
            match &node.kind {
                Kind::Map(entries) => match entries.iter().find(|entry| entry.key == *step) {
                    Some(entry) => {
                        let one_line = matches!(entry.value.kind, Kind::Scalar { .. });
                        span = match key || !one_line || entry.value.is_null() {
                            true => entry.span,
                            false => entry.value.span,
                        };
                        node = &entry.value;
                    }
                    None => break,
                },
                Kind::List(items) => match step.parse().ok().and_then(|at: usize| items.get(at)) {
                    Some(item) => (node, span) = (item, item.span),
                    None => break,
                },
                Kind::Scalar { .. } => break,
            }
        }
        span
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Node {
        let span = SourceSpan::default();
        let kind = match value {
            Value::Array(items) => Kind::List(items.iter().map(Node::from).collect()),
            Value::Object(map) => Kind::Map(
                map.iter()
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        span,
                        value: Node::from(value),
                    })
                    .collect(),
            ),
            Value::String(text) => Kind::Scalar {
                text: text.clone(),
                plain: false,
            },
            other => Kind::Scalar {
                text: other.to_string(),
                plain: true,
            },
        };
        Node { span, kind }
    }
}
