//! A lab as a lab file: what `vink lab save` writes. The same lab gives the same text, which reads
//! as the same lab.

use serde_json::{Map, Value};

use crate::Lab;

/// How long a line may be for a map or list that is written in one.
const WIDTH: usize = 100;

impl Lab {
    /// The lab in YAML.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        if let Ok(Value::Object(map)) = serde_json::to_value(self) {
            for (key, value) in &map {
                // A line between the parts.
                if !text.is_empty() && matches!(value, Value::Object(_) | Value::Array(_)) {
                    text.push('\n');
                }
                let folded = matches!(
                    key.as_str(),
                    "hosts"
                        | "machines"
                        | "switches"
                        | "wires"
                        | "breakpoints"
                        | "pods"
                        | "paths"
                        | "series"
                        | "always"
                        | "eventually"
                        | "events"
                );
                entry(&mut text, 0, key, value, folded);
            }
        }
        text
    }
}

/// `key: value`, from the beginning of a line. `apart`: what is in it has lines of its own.
fn entry(text: &mut String, indent: usize, key: &str, value: &Value, apart: bool) {
    let start = format!("{:indent$}{}:", "", scalar(key, false));
    text.push_str(&start);
    content(text, indent, value, start.len(), apart);
}

/// A value after `key:` or `-`, and the end of its line.
fn content(text: &mut String, indent: usize, value: &Value, column: usize, apart: bool) {
    match value {
        Value::Object(map) if map.is_empty() => text.push_str(" {}\n"),
        Value::Array(items) if items.is_empty() => text.push_str(" []\n"),
        Value::Object(_) | Value::Array(_) => {
            let line = if apart { None } else { flow(value, true) };
            match (line.filter(|line| column + 1 + line.len() <= WIDTH), value) {
                (Some(line), _) => *text += &format!(" {line}\n"),
                (None, Value::Object(map)) => {
                    text.push('\n');
                    entries(text, indent + 2, map);
                }
                (None, Value::Array(items)) => {
                    text.push('\n');
                    for item in items {
                        *text += &format!("{:width$}-", "", width = indent + 2);
                        content(text, indent + 2, item, indent + 3, false);
                    }
                }
                _ => {}
            }
        }
        Value::String(string) => match literal(string) {
            Some(chomping) => {
                *text += &format!(" |{chomping}\n");
                for line in string.lines() {
                    if !line.is_empty() {
                        *text += &format!("{:width$}{line}", "", width = indent + 2);
                    }
                    text.push('\n');
                }
            }
            None => *text += &format!(" {}\n", scalar(string, false)),
        },
        other => *text += &format!(" {other}\n"),
    }
}

fn entries(text: &mut String, indent: usize, map: &Map<String, Value>) {
    for (key, value) in map {
        entry(text, indent, key, value, false);
    }
}

/// A map or list in one line, if it is a simple one: two levels of them at most.
fn flow(value: &Value, deeper: bool) -> Option<String> {
    let simple = |value: &Value| match value {
        Value::String(string) if literal(string).is_some() => None,
        Value::String(string) => Some(scalar(string, true)),
        Value::Object(map) if map.is_empty() => Some("{}".to_owned()),
        Value::Object(_) | Value::Array(_) => match deeper {
            true => flow(value, false),
            false => None,
        },
        other => Some(other.to_string()),
    };
    match value {
        Value::Object(map) => {
            let entries: Option<Vec<String>> = map
                .iter()
                .map(|(key, value)| Some(format!("{}: {}", scalar(key, true), simple(value)?)))
                .collect();
            Some(format!("{{{}}}", entries?.join(", ")))
        }
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(simple).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        _ => None,
    }
}

/// Whether a text of several lines can be written as it is, and what comes after the `|`.
fn literal(text: &str) -> Option<&'static str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let printable = |c: char| c == '\n' || c == '\t' || is_printable(c);
    // What begins or ends with white space would need an explicit indentation or lose lines.
    let fits = body.contains('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with('\n')
        && text.chars().all(printable)
        && body
            .lines()
            .all(|line| line.is_empty() || !line.trim().is_empty());
    fits.then(|| if text.ends_with('\n') { "" } else { "-" })
}

fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// A text in one line: plain where no reader of YAML, old or new, could take it for something else.
fn scalar(text: &str, within: bool) -> String {
    let plain = |c: char| {
        c.is_alphanumeric()
            || "_-./:@+%=~()*!?$^;<>|&'\" #,".contains(c) && !(within && ",".contains(c))
    };
    let starts = |c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '.');
    let word = text.to_ascii_lowercase();
    let is_taken = matches!(
        word.as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | ".nan"
    );
    // Numbers, and what 1.1 takes for minutes and dates: `10ms` and `10.0.0.1/24` are neither.
    let digits = |c: char| c.is_ascii_hexdigit() || "_.:+-xo".contains(c);
    let is_number =
        text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && text.chars().all(digits);
    let is_plain = text.starts_with(starts)
        && text.chars().all(plain)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !is_taken
        && (!is_number || text.parse::<std::net::Ipv4Addr>().is_ok());
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if is_printable(c) => quoted.push(c),
            c if c <= '\u{ff}' => quoted += &format!("\\x{:02x}", c as u32),
            c => quoted += &format!("\\u{:04x}", c as u32),
        }
    }
    quoted.push('"');
    quoted
}
