//! From a tree of values to a lab: every key and value that is not as the model has it becomes a
//! mistake, and reading goes on.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use indexmap::IndexMap;

use crate::diagnostic::{nearest, Diagnostic, SourceSpan};
use crate::node::{Entry, Kind, Node};

/// What is being read, and what was wrong with it so far.
#[derive(Default)]
pub(crate) struct Reader {
    pub mistakes: Vec<Diagnostic>,
    path: Vec<String>,
    /// Something is missing of what was written, so that what is there may not fit together.
    pub lost: bool,
    /// Which items of lists could not be read, by the list's path.
    dropped: HashMap<Vec<String>, Vec<usize>>,
}

/// The keys of a map, of which each is asked for once.
pub(crate) struct Fields<'n> {
    entries: &'n [Entry],
    known: Vec<&'static str>,
    /// Of those, the ones that go with any other.
    beside: Vec<&'static str>,
}

impl Reader {
    /// A mistake that leaves something out of the lab.
    pub(crate) fn lose(
        &mut self,
        span: SourceSpan,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.lost = true;
        self.wrong(span, message, fix);
    }

    pub(crate) fn wrong(
        &mut self,
        span: SourceSpan,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.mistakes.push(Diagnostic {
            file: None,
            span,
            excerpt: String::new(),
            path: self.path.join("."),
            message: message.into(),
            fix: fix.into(),
            warning: false,
        });
    }

    /// Where a path of the lab leads in what was read, where lists may have further items.
    pub(crate) fn written(&self, path: &[String]) -> Vec<String> {
        let mut written: Vec<String> = Vec::with_capacity(path.len());
        for step in path {
            let at = self.dropped.get(&written).and_then(|dropped| {
                let at: usize = step.parse().ok()?;
                // Ascending, so that each one before it moves it on.
                Some(
                    dropped
                        .iter()
                        .fold(at, |at, item| at + usize::from(*item <= at)),
                )
            });
            written.push(at.map_or_else(|| step.clone(), |at| at.to_string()));
        }
        written
    }

    pub(crate) fn within<T>(
        &mut self,
        step: impl Display,
        read: impl FnOnce(&mut Reader) -> T,
    ) -> T {
        self.path.push(step.to_string());
        let value = read(self);
        self.path.pop();
        value
    }

    /// A map with known keys; nothing at all is one with none.
    pub(crate) fn fields<'n, T>(
        &mut self,
        node: &'n Node,
        what: &str,
        read: impl FnOnce(&mut Reader, &mut Fields<'n>) -> T,
    ) -> Option<T> {
        let entries: &[Entry] = match &node.kind {
            Kind::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                let message = format!("{what} is a map, and this is {}", node.what());
                self.lose(
                    node.span,
                    message,
                    "write it as `key: value` lines, indented",
                );
                return None;
            }
        };
        let mut fields = Fields {
            entries,
            known: Vec::new(),
            beside: Vec::new(),
        };
        let value = read(self, &mut fields);
        for entry in entries {
            if !fields.known.contains(&entry.key.as_str()) && !entry.key.starts_with("x-") {
                let fix = unknown(&entry.key, &fields.known);
                let message = format!("{what} has no key `{}`", entry.key);
                self.within(&entry.key, |r| r.lose(entry.span, message, fix));
            }
        }
        Some(value)
    }

    /// A key's value, if it is there and as it should be.
    pub(crate) fn field<'n, T>(
        &mut self,
        fields: &mut Fields<'n>,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        fields.known.push(key);
        let entry = fields.entries.iter().find(|entry| entry.key == key)?;
        // `key:` without a value is as good as no key.
        if entry.value.is_null() && !matches!(key, "passt") {
            return None;
        }
        self.within(key, |r| read(r, &entry.value))
    }

    /// A key's value, or what stands for none.
    pub(crate) fn field_or_default<'n, T: Default>(
        &mut self,
        fields: &mut Fields<'n>,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> T {
        self.field(fields, key, read).unwrap_or_default()
    }

    /// A key that must be there.
    pub(crate) fn needed<'n, T>(
        &mut self,
        fields: &mut Fields<'n>,
        (node, key, example): (&Node, &'static str, &str),
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        let there = fields
            .entries
            .iter()
            .any(|e| e.key == key && !e.value.is_null());
        let value = self.field(fields, key, read);
        if !there {
            self.wrong(
                node.span,
                format!("`{key}` is missing"),
                format!("add `{key}: {example}`"),
            );
        }
        value
    }

    pub(crate) fn list<'n, T>(
        &mut self,
        node: &'n Node,
        mut read: impl FnMut(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        match &node.kind {
            Kind::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    match self.within(at, |r| read(r, item)) {
                        Some(item) => list.push(item),
                        None => self.dropped.entry(self.path.clone()).or_default().push(at),
                    }
                }
                Some(list)
            }
            kind => {
                let fix = match kind {
                    Kind::Scalar { text, .. } if !text.contains('\n') => {
                        format!("write it as a list: [{text}]")
                    }
                    _ => "write it as a list: `- ` before each item".to_owned(),
                };
                self.lose(
                    node.span,
                    format!("a list is needed here, and this is {}", node.what()),
                    fix,
                );
                None
            }
        }
    }

    /// A map from names to something.
    pub(crate) fn named<'n, T>(
        &mut self,
        node: &'n Node,
        mut read: impl FnMut(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<IndexMap<String, T>> {
        match &node.kind {
            Kind::Map(entries) => {
                let mut map = IndexMap::with_capacity(entries.len());
                for entry in entries {
                    if let Some(value) = self.within(&entry.key, |r| read(r, &entry.value)) {
                        map.insert(entry.key.clone(), value);
                    }
                }
                Some(map)
            }
            _ => {
                let message = format!(
                    "names with what they stand for are needed here, and this is {}",
                    node.what()
                );
                self.lose(
                    node.span,
                    message,
                    "write it as `name: ...` lines, indented",
                );
                None
            }
        }
    }

    pub(crate) fn text(&mut self, node: &Node) -> Option<String> {
        match &node.kind {
            Kind::Scalar { text, .. } if !node.is_null() => Some(text.clone()),
            _ => {
                let message = format!("text is needed here, and this is {}", node.what());
                let fix = match node.is_null() {
                    true => "write a value, or \"\" for an empty text",
                    false => {
                        "write it in one line, in quotes if it has brackets, braces or `: ` in it"
                    }
                };
                self.lose(node.span, message, fix);
                None
            }
        }
    }

    /// What is written as text and read by its own rules.
    pub(crate) fn parsed<T>(&mut self, node: &Node) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.text(node)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let error: T::Err = error;
                let error = error.to_string();
                let (message, fix) = match error.split_once(": ") {
                    Some((message, fix)) => (message, fix),
                    None => (error.as_str(), ""),
                };
                self.wrong(node.span, message, fix);
                None
            }
        }
    }

    /// A whole number between two limits.
    pub(crate) fn number<T>(&mut self, node: &Node, least: T, most: T) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.text(node)?;
        let number = text.parse().ok().filter(|n| (&least..=&most).contains(&n));
        if number.is_none() {
            let fix = format!("write a whole number from {least} to {most}");
            self.wrong(node.span, format!("{text:?} can't be used here"), fix);
        }
        number
    }

    pub(crate) fn flag(&mut self, node: &Node) -> Option<bool> {
        match &node.kind {
            Kind::Scalar { text, plain: true }
                if matches!(text.as_str(), "true" | "True" | "TRUE") =>
            {
                Some(true)
            }
            Kind::Scalar { text, plain: true }
                if matches!(text.as_str(), "false" | "False" | "FALSE") =>
            {
                Some(false)
            }
            _ => {
                let shown = match &node.kind {
                    Kind::Scalar { text, .. } => format!("{text:?}"),
                    _ => "this".to_owned(),
                };
                self.wrong(
                    node.span,
                    format!("{shown} is neither true nor false"),
                    "write true or false",
                );
                None
            }
        }
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(&mut self, node: &Node, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let fix = match (nearest(&text, all.iter().copied()), all.as_slice()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, [one]) => format!("write {one}"),
                (None, _) => format!("write one of {}", all.join(", ")),
            };
            self.wrong(node.span, format!("{text:?} can't be used here"), fix);
        }
        found.map(|(_, value)| *value)
    }

    /// A key beside the one that [`Reader::one`] is about.
    pub(crate) fn option<'n, T>(
        &mut self,
        fields: &mut Fields<'n>,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node) -> Option<T>,
    ) -> Option<T> {
        fields.beside.push(key);
        self.field(fields, key, read)
    }

    /// A map with exactly one key, of those that `read` asks for, and others by [`Reader::option`].
    pub(crate) fn one<'n, T>(
        &mut self,
        node: &'n Node,
        what: &str,
        read: impl FnOnce(&mut Reader, &mut Fields<'n>) -> Option<T>,
    ) -> Option<T> {
        let before = self.mistakes.len();
        let (mut known, mut beside) = (Vec::new(), Vec::new());
        let value = self.fields(node, what, |r, f| {
            let value = read(r, f);
            known = f.known.clone();
            known.retain(|key| !f.beside.contains(key));
            beside = f.beside.clone();
            value
        });
        let counts = |entry: &&Entry| !beside.contains(&entry.key.as_str());
        let many =
            matches!(&node.kind, Kind::Map(entries) if entries.iter().filter(counts).count() > 1);
        if self.mistakes.len() == before && (many || value.as_ref().is_none_or(Option::is_none)) {
            let message = format!("{what} is one of {}", known.join(", "));
            self.wrong(node.span, message, "write one of them");
        }
        value.flatten()
    }
}

/// What to say of a key that isn't known.
fn unknown(key: &str, known: &[&'static str]) -> String {
    let elsewhere = match key {
        "topology" | "nodes" | "links" | "kinds" => {
            Some("this looks like a containerlab file: `vink import` makes a lab of it")
        }
        "services" | "networks" | "volumes" => {
            Some("this looks like a compose file; a lab has `machines` and `wires`")
        }
        "exec" if known.contains(&"setup") => Some("commands for a machine's start are in `setup`"),
        "environment" => Some("did you mean `env`?"),
        "depends_on" | "depends-on" => Some("did you mean `after`?"),
        "cmd" | "run" | "exec" => Some("did you mean `command`?"),
        "latency" => Some("did you mean `delay`?"),
        "bandwidth" | "speed" => Some("did you mean `rate`?"),
        "gateway" | "gw" => Some("did you mean `via`?"),
        "ip" | "ipv4" | "ipv6" | "address" => Some("did you mean `addresses`?"),
        _ => None,
    };
    let named = |word: &str| {
        known
            .iter()
            .any(|known| word.contains(&format!("`{known}`")))
    };
    match elsewhere.filter(|text| !text.starts_with("did you") || named(text)) {
        Some(text) => text.to_owned(),
        None => match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its keys are {}", known.join(", ")),
        },
    }
}
