//! GML, the Graph Modelling Language: `key value` pairs, of which values in brackets are lists of
//! such.

use super::graph::{Edge, Graph, Vertex};
use super::{text_place, wrong};
use crate::diagnostic::Diagnostics;

/// Lists within lists; a graph needs three.
const DEEPEST: usize = 32;

#[derive(Debug)]
enum Token<'a> {
    Word(&'a str),
    Text(&'a str),
    Open,
    Close,
}

pub(super) fn read(text: &str, file: &str) -> Result<Graph, Diagnostics> {
    let fix = "this is to be GML: give another --format if it is something else";
    let bad = |at: usize, message: &str| wrong(text_place(text, at), file, message.to_owned(), fix);
    let mut graph = Graph::default();
    // The keys of the lists that are open, and the key that waits for its value.
    let mut open: Vec<&str> = Vec::new();
    let mut key: Option<&str> = None;
    let mut at = 0;
    let mut found = false;
    while let Some((start, token, end)) =
        next(text, at).map_err(|at| bad(at, "this text has no end"))?
    {
        at = end;
        match (token, key.take()) {
            (Token::Word(word), None) => key = Some(word),
            (Token::Word(value) | Token::Text(value), Some(key)) => {
                put(&mut graph, &open, key, &unescape(value));
            }
            (Token::Open, Some(key)) => {
                open.push(key);
                if open.len() > DEEPEST {
                    return Err(bad(start, "too many lists within each other"));
                }
                match open[..] {
                    ["graph"] => found = true,
                    ["graph", "node"] => graph.nodes.push(Vertex::default()),
                    ["graph", "edge"] => graph.edges.push(Edge::default()),
                    _ => {}
                }
            }
            (Token::Close, None) if !open.is_empty() => {
                open.pop();
            }
            (Token::Open | Token::Text(_), None) => {
                return Err(bad(start, "a key is missing before this"))
            }
            (Token::Close, Some(_)) => return Err(bad(start, "a value is missing before this")),
            (Token::Close, None) => return Err(bad(start, "this closes nothing")),
        }
    }
    if !open.is_empty() || key.is_some() {
        return Err(bad(text.len(), "the text ends in the middle"));
    }
    if !found {
        return Err(bad(0, "there is no `graph [` in it"));
    }
    Ok(graph)
}

/// The next token from a byte on, with where it begins and where to go on; an error is where an
/// open text begins.
fn next(text: &str, from: usize) -> Result<Option<(usize, Token<'_>, usize)>, usize> {
    let mut at = from;
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if !trimmed.starts_with('#') {
            break;
        }
        at += trimmed.find('\n').unwrap_or(trimmed.len());
    }
    let rest = &text[at..];
    Ok(match rest.chars().next() {
        None => None,
        Some('[') => Some((at, Token::Open, at + 1)),
        Some(']') => Some((at, Token::Close, at + 1)),
        Some('"') => {
            let end = rest[1..].find('"').ok_or(at)?;
            Some((at, Token::Text(&rest[1..=end]), at + end + 2))
        }
        Some(_) => {
            let ends = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"');
            let end = rest.find(ends).unwrap_or(rest.len());
            Some((at, Token::Word(&rest[..end]), at + end))
        }
    })
}

fn put(graph: &mut Graph, open: &[&str], key: &str, value: &str) {
    match open {
        ["graph"] if key == "Network" => graph.name = value.to_owned(),
        ["graph", "node"] => {
            if let Some(node) = graph.nodes.last_mut() {
                match key {
                    "id" => node.id = value.to_owned(),
                    _ => {
                        node.attributes.insert(key.to_owned(), value.to_owned());
                    }
                }
            }
        }
        ["graph", "edge"] => {
            if let Some(edge) = graph.edges.last_mut() {
                match key {
                    "source" => edge.source = value.to_owned(),
                    "target" => edge.target = value.to_owned(),
                    _ => {
                        edge.attributes.insert(key.to_owned(), value.to_owned());
                    }
                }
            }
        }
        _ => {}
    }
}

/// GML has the character references of XML.
fn unescape(raw: &str) -> String {
    quick_xml::escape::unescape(raw).map_or_else(|_| raw.to_owned(), |text| text.into_owned())
}
