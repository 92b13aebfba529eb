//! JSON lines: an object for each row.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::{Cell, Error, Table};

/// A row as a line.
pub(crate) fn line(names: &[String], row: &[Option<f64>]) -> String {
    let mut text = String::from("{");
    for (i, (name, cell)) in names.iter().zip(row).enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let name = Value::from(name.as_str());
        // What is no number (a rate over no time) is none in JSON either.
        let done = match cell.filter(|number| number.is_finite()) {
            Some(number) => write!(text, "{comma}{name}:{number}"),
            None => write!(text, "{comma}{name}:null"),
        };
        done.expect("memory");
    }
    text + "}\n"
}

pub(crate) fn read(bytes: &[u8]) -> Result<Table, Error> {
    let text = String::from_utf8_lossy(bytes);
    let mut table = Table::default();
    let mut places = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |error| Error::Malformed(format!("line {}: {error}", at + 1));
        let object: Map<String, Value> = serde_json::from_str(line).map_err(wrong)?;
        let mut row = vec![Cell::Empty; table.names.len()];
        add("", object, &mut |name, cell| {
            let new = places.len();
            let place = *places.entry(name.clone()).or_insert(new);
            if place == new {
                table.names.push(name);
                row.push(Cell::Empty);
            }
            row[place] = cell;
        });
        table.rows.push(row);
        table.lines.push(at as u64 + 1);
    }
    for row in &mut table.rows {
        row.resize(table.names.len(), Cell::Empty);
    }
    Ok(table)
}

/// The cells of an object, and of those in it.
fn add(before: &str, object: Map<String, Value>, each: &mut dyn FnMut(String, Cell)) {
    for (key, value) in object {
        let name = format!("{before}{key}");
        let cell = match value {
            Value::Object(inner) => {
                add(&format!("{name}."), inner, each);
                continue;
            }
            Value::Null => Cell::Empty,
            Value::Number(number) => number.as_f64().map_or(Cell::Empty, Cell::Number),
            Value::String(text) => Cell::Text(text),
            other => Cell::Text(other.to_string()),
        };
        each(name, cell);
    }
}
