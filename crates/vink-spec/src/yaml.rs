//! YAML into a tree, with anchors, merge keys and places.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::diagnostic::SourceSpan;
use crate::node::{Entry, Kind, Node};

/// Values within values; a file that nests deeper is no lab.
const DEEPEST: usize = 64;
/// Values that aliases may add up to, so that ten lines can't fill the memory ("billion laughs").
const MOST_ALIASED: usize = 1_000_000;

/// Something wrong with the text itself.
pub(crate) struct YamlError {
    pub span: SourceSpan,
    pub message: String,
    pub fix: String,
}

/// A map or list that is not complete yet.
struct Open {
    span: SourceSpan,
    anchor: usize,
    kind: Kind,
    /// The key whose value comes next; none in it if it can't be used.
    key: Option<(Option<String>, SourceSpan)>,
    /// Where the keys of a map are.
    keys: HashMap<String, SourceSpan>,
    /// Maps merged into this one: of what they have, only other keys count.
    merged: Vec<Node>,
}

struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    aliased: usize,
    root: Option<Node>,
    wrong: Vec<YamlError>,
}

/// Reads the one document of a text. What is wrong comes along; without a tree, nothing could be
/// made of it.
pub(crate) fn parse(text: &str) -> (Option<Node>, Vec<YamlError>) {
    let mut builder = Builder {
        open: Vec::new(),
        anchors: HashMap::new(),
        aliased: 0,
        root: None,
        wrong: Vec::new(),
    };
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    loop {
        match parser.next_event() {
            None => break,
            Some(Err(error)) => {
                let wrong = YamlError::from_scanner(&error, text);
                builder.wrong.push(wrong);
                return (None, builder.wrong);
            }
            Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((Event::DocumentStart(_), span))) => {
                documents += 1;
                if documents == 2 {
                    builder.add(
                        span,
                        "a second YAML document",
                        "a lab is one document: remove `---` and what follows",
                    );
                    break;
                }
            }
            Some(Ok((event, span))) => {
                if let Err(wrong) = builder.take(event, span) {
                    builder.wrong.push(wrong);
                    return (None, builder.wrong);
                }
            }
        }
    }
    (builder.root, builder.wrong)
}

fn source_span(span: Span) -> SourceSpan {
    let (start, end) = (span.start, span.end);
    SourceSpan {
        line: start.line(),
        column: start.col() + 1,
        length: match start.line() == end.line() {
            true => end.col().saturating_sub(start.col()).max(1),
            false => 1,
        },
    }
}

impl YamlError {
    fn from_scanner(error: &ScanError, text: &str) -> YamlError {
        let marker = error.marker();
        let span = SourceSpan {
            line: marker.line(),
            column: marker.col() + 1,
            length: 1,
        };
        let line = text
            .lines()
            .nth(span.line.saturating_sub(1))
            .unwrap_or_default();
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let fix = if indent.contains('\t') {
            "indent with spaces: YAML allows no tabs there"
        } else if error.info().contains("mapping values are not allowed") {
            "put a text that has `: ` in it in quotes; if none is meant, look at the indentation"
        } else if error.info().contains("unknown anchor") {
            "write `&name` before what `*name` stands for, further up"
        } else if line.trim_start().starts_with(['@', '`', '%']) || line.contains(": @") {
            "put it in quotes"
        } else {
            "look at the indentation, quotes and brackets here and in the lines above"
        };
        YamlError {
            span,
            message: format!("this is not YAML: {}", error.info()),
            fix: fix.to_owned(),
        }
    }
}

impl Builder {
    fn add(&mut self, span: Span, message: impl Into<String>, fix: impl Into<String>) {
        self.wrong.push(YamlError {
            span: source_span(span),
            message: message.into(),
            fix: fix.into(),
        });
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain =
                    matches!(style, ScalarStyle::Plain) && !self.is_text(tag.as_deref(), span);
                let node = Node {
                    span: source_span(span),
                    kind: Kind::Scalar {
                        text: text.into_owned(),
                        plain,
                    },
                };
                self.put(node, anchor, span);
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some((node, size)) => {
                    self.aliased += size;
                    if self.aliased > MOST_ALIASED {
                        return Err(YamlError {
                            span: source_span(span),
                            message: format!(
                                "its aliases (`*name`) stand for more than {MOST_ALIASED} values"
                            ),
                            fix: "use fewer of them".to_owned(),
                        });
                    }
                    let node = node.clone();
                    self.put(node, 0, span);
                }
                None => {
                    let fix = "an alias stands for something complete that is written before it";
                    self.add(span, "this alias is within what it stands for", fix);
                    self.put(Node::null(source_span(span)), 0, span);
                }
            },
            Event::SequenceStart(anchor, tag) => {
                self.is_text(tag.as_deref(), span);
                self.start(Kind::List(Vec::new()), anchor, span)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.is_text(tag.as_deref(), span);
                self.start(Kind::Map(Vec::new()), anchor, span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let (opened, anchor) = (open.span, open.anchor);
                    let kind = self.close(open);
                    self.put(Node { span: opened, kind }, anchor, span);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a tag says that a scalar is text, whatever it looks like.
    fn is_text(&mut self, tag: Option<&Tag>, span: Span) -> bool {
        let Some(tag) = tag else { return false };
        if tag.is_yaml_core_schema() || tag.handle == "!" && tag.suffix.is_empty() {
            return tag.suffix == "str" || tag.suffix.is_empty();
        }
        self.add(span, format!("unknown tag {tag}"), "remove it");
        false
    }

    fn start(&mut self, kind: Kind, anchor: usize, span: Span) -> Result<(), YamlError> {
        if self.open.len() == DEEPEST {
            return Err(YamlError {
                span: source_span(span),
                message: format!("more than {DEEPEST} values within each other"),
                fix: "no lab needs that".to_owned(),
            });
        }
        self.open.push(Open {
            span: source_span(span),
            anchor,
            kind,
            key: None,
            keys: HashMap::new(),
            merged: Vec::new(),
        });
        Ok(())
    }

    /// A complete map gets what is merged into it.
    fn close(&mut self, mut open: Open) -> Kind {
        if let Kind::Map(entries) = &mut open.kind {
            for node in open.merged {
                if let Kind::Map(others) = node.kind {
                    for other in others {
                        if !open.keys.contains_key(&other.key) {
                            open.keys.insert(other.key.clone(), other.span);
                            entries.push(other);
                        }
                    }
                }
            }
        }
        open.kind
    }

    /// Puts a complete value where it belongs.
    fn put(&mut self, node: Node, anchor: usize, span: Span) {
        if anchor > 0 {
            let size = size(&node);
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match (&mut open.kind, open.key.take()) {
            (Kind::List(items), _) => items.push(node),
            (Kind::Map(_), None) => {
                let at = node.span;
                let key = match node.kind {
                    Kind::Scalar { text, .. } => Some(text),
                    _ => None,
                };
                let usable = key.is_some();
                open.key = Some((key, at));
                if !usable {
                    self.add(
                        span,
                        "a key must be text",
                        "write it without brackets and braces",
                    );
                }
            }
            (Kind::Map(_), Some((None, _))) => {}
            (Kind::Map(entries), Some((Some(key), at))) => {
                if key == "<<" {
                    let nodes = match node.kind {
                        Kind::List(items) => items,
                        _ => vec![node],
                    };
                    let maps = nodes.iter().all(|node| matches!(node.kind, Kind::Map(_)));
                    open.merged.extend(nodes);
                    if !maps {
                        self.add(
                            span,
                            "only maps can be merged",
                            "write `<<: *name` with `name` being a map's anchor",
                        );
                    }
                } else if let Some(first) = open.keys.get(&key) {
                    let wrong = YamlError {
                        span: at,
                        message: format!("`{key}` is here twice, first in line {}", first.line),
                        fix: "give one of them another name, or write both as one".to_owned(),
                    };
                    self.wrong.push(wrong);
                } else {
                    open.keys.insert(key.clone(), at);
                    entries.push(Entry {
                        key,
                        span: at,
                        value: node,
                    });
                }
            }
            (Kind::Scalar { .. }, _) => {}
        }
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.kind {
        Kind::Scalar { .. } => 0,
        Kind::List(items) => items.iter().map(size).sum(),
        Kind::Map(entries) => entries.iter().map(|entry| size(&entry.value)).sum(),
    }
}
