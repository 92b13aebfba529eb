//! Conditions on a packet's TCP connection: fields of the kernel's `struct tcp_sock` against
//! numbers.
//!
//! `state = ESTABLISHED and snd_cwnd < 10`: names as `vink pcb --json` shows them, and `state` with
//! the names of the states. Where a field is, is in the image's debug information.

use std::path::Path;

use vink_pcb::{Field, Layout, Value};

/// All of some comparisons.
#[derive(Clone, Debug)]
pub(super) struct Condition(Vec<Comparison>);

#[derive(Clone, Debug)]
struct Comparison {
    field: Field,
    operator: &'static str,
    number: i128,
}

/// The longer ones first: one begins with another.
const OPERATORS: [&str; 6] = ["!=", "<=", ">=", "=", "<", ">"];

impl Condition {
    /// Reads a condition, for connections of this image.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn read(text: &str, image: &Path) -> Result<Condition, String> {
        let parts = split(text)?;
        let layout = Layout::of_file(image).map_err(|error| error.to_string())?;
        let read = |(name, operator, value): (&str, &'static str, &str)| {
            let own = if name == "state" { "skc_state" } else { name };
            let field = layout.tcp.field(own).ok_or_else(|| {
                format!("a connection has no field {name}: `vink pcb --json` shows them")
            })?;
            let states = layout.states.iter();
            let mut states = states.filter(|_| name == "state");
            let named = states.find(|(_, state)| *state == value);
            let number = match named {
                Some((number, _)) => i128::from(*number),
                None => value.parse().map_err(|_| match name {
                    "state" => {
                        let names = layout.states.iter().map(|(_, name)| name.as_str());
                        let names: Vec<&str> = names.collect();
                        format!("{value} is no state: {}", names.join(", "))
                    }
                    _ => format!("{value} is no number"),
                })?,
            };
            Ok(Comparison {
                field: field.clone(),
                operator,
                number,
            })
        };
        let all: Result<Vec<_>, String> = parts.into_iter().map(read).collect();
        Ok(Condition(all?))
    }

    /// Whether it is so of a connection, whose bytes these are; none: it is not.
    pub(super) fn holds(&self, socket: &[u8]) -> bool {
        self.0.iter().all(|comparison| comparison.holds(socket))
    }
}

impl Comparison {
    fn holds(&self, socket: &[u8]) -> bool {
        let value = match self.field.read(socket) {
            Some(Value::Unsigned(number) | Value::Pointer(number)) => i128::from(number),
            Some(Value::Signed(number)) => i128::from(number),
            Some(Value::Bool(yes)) => i128::from(yes),
            Some(Value::Text(_) | Value::List(_)) | None => return false,
        };
        match self.operator {
            "=" => value == self.number,
            "!=" => value != self.number,
            "<" => value < self.number,
            "<=" => value <= self.number,
            ">" => value > self.number,
            _ => value >= self.number,
        }
    }
}

/// Names, operators and values.
fn split(text: &str) -> Result<Vec<(&str, &'static str, &str)>, String> {
    let part = |part| {
        let part: &str = str::trim(part);
        let found = OPERATORS
            .into_iter()
            .filter_map(|operator| Some((part.find(operator)?, operator)))
            .min_by_key(|(at, operator)| (*at, usize::MAX - operator.len()));
        let found = found.map(|(at, operator)| {
            let name = part[..at].trim();
            (name, operator, part[at + operator.len()..].trim())
        });
        let good = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        found
            .filter(|(name, _, value)| good(name) && good(value))
            .ok_or_else(|| {
                format!("{part:?} is no comparison: write it like state = ESTABLISHED or snd_cwnd < 10, joined by and")
            })
    };
    text.split(" and ").map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        assert_eq!(
            split("state = ESTABLISHED and snd_cwnd<10 and a.b >= -3 and c != 0").unwrap(),
            [
                ("state", "=", "ESTABLISHED"),
                ("snd_cwnd", "<", "10"),
                ("a.b", ">=", "-3"),
                ("c", "!=", "0"),
            ]
        );
        for wrong in [
            "",
            "state",
            "= 3",
            "a b = 3",
            "x <",
            "x = 1 and",
            "x = 1 or y = 2",
        ] {
            assert!(
                split(wrong).unwrap_err().contains("is no comparison"),
                "{wrong}"
            );
        }
    }
}
