//! The units of a lab file: rates, times and shares, as `tc` writes them, and sizes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that is no quantity of the kind that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {wrong}: write {fix}")]
pub struct UnitError {
    text: String,
    wrong: String,
    fix: String,
}

/// Bits per second; 0 is unlimited. `10mbit`, `1.5gbit`, `64kbit`, and with `bps` for `bit` bytes per second, as
/// tc(8); upper and lower case alike. Only 0 needs no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// A length of time in nanoseconds: `10ms`, `1.5s`, `20us`, `100ns`, `2min`, `1h`, `1d`. Only 0 needs no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

/// A probability between 0 and 1: `1%`, `0.5%`, or a bare fraction, `0.01`. A bare 1 could be either, and is neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl UnitError {
    pub(crate) fn new(text: &str, kind: &'static str, example: &'static str) -> UnitError {
        UnitError {
            text: text.to_owned(),
            wrong: format!("is not a {kind}"),
            fix: format!("it like {example}"),
        }
    }

    /// A number that may mean several things: 20 milliseconds, or seconds?
    fn ambiguous(text: &str, kind: &str, units: &str) -> UnitError {
        let text = text.trim().to_owned();
        let fixes: Vec<String> = units
            .split_whitespace()
            .map(|unit| format!("{text}{unit}"))
            .collect();
        UnitError {
            wrong: format!("is a {kind} without a unit"),
            fix: format!("the one that is meant, such as {}", fixes.join(" or ")),
            text,
        }
    }
}

impl Span {
    /// As the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// Reads a size in bytes, with an optional K, M or G (powers of 1024).
///
/// # Errors
/// What is wrong with it, in words.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = digits(text);
    scaled(digits, unit)
}

/// The digits that a text begins with, and the rest.
pub(crate) fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// So many K, M or G, in bytes.
pub(crate) fn scaled(digits: &str, unit: &str) -> Result<u64, String> {
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return Err(format!("unknown unit {unit:?}: K, M or G")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a number is missing, as in 64M".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

/// A number of at least 0 and its unit in lower case.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    Some((number, unit.trim().to_ascii_lowercase()))
}

/// Whether it has no unit and needs one, which 0 doesn't.
fn is_bare(text: &str) -> bool {
    split(text).is_some_and(|(number, unit)| unit.is_empty() && number != 0.0)
}

/// A whole number of the smallest unit, if it fits.
fn whole(value: f64) -> Option<u64> {
    (value < u64::MAX as f64).then_some(value.round() as u64)
}

/// Writes a number with the largest unit of which it is a whole multiple.
fn write_largest(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    for (size, unit) in units {
        if value != 0 && value.is_multiple_of(*size) {
            return write!(f, "{}{unit}", value / size);
        }
    }
    write!(f, "{value}{}", units[units.len() - 1].1)
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Rate, UnitError> {
        if is_bare(text) {
            return Err(UnitError::ambiguous(text, "rate", "bit kbit mbit gbit"));
        }
        let read = || {
            let (number, unit) = split(text)?;
            let unit = unit.strip_suffix("/s").unwrap_or(&unit);
            let (prefix, bits) = match unit.strip_suffix("bit") {
                Some(prefix) => (prefix, 1.0),
                None => match unit.strip_suffix("bps") {
                    Some(prefix) => (prefix, 8.0),
                    None => (unit, 1.0),
                },
            };
            let scale = match prefix {
                "" => 1.0,
                "k" => 1e3,
                "m" => 1e6,
                "g" => 1e9,
                "t" => 1e12,
                _ => return None,
            };
            whole(number * scale * bits).map(Rate)
        };
        read().ok_or_else(|| UnitError::new(text, "rate", "10mbit, 1.5gbit or 64kbit"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000, "gbit"),
            (1_000_000, "mbit"),
            (1_000, "kbit"),
            (1, "bit"),
        ];
        write_largest(f, self.0, &UNITS)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Span, UnitError> {
        if is_bare(text) {
            return Err(UnitError::ambiguous(text, "time", "us ms s min"));
        }
        let read = || {
            let (number, unit) = split(text)?;
            let scale = match unit.as_str() {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" | "" => 1e9,
                "m" | "min" => 60e9,
                "h" => 3600e9,
                "d" => 86400e9,
                _ => return None,
            };
            whole(number * scale).map(Span)
        };
        read().ok_or_else(|| UnitError::new(text, "time", "10ms, 1.5s, 20us or 2min"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        write_largest(f, self.0, &UNITS)
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Share, UnitError> {
        if split(text) == Some((1.0, String::new())) {
            return Err(UnitError {
                text: text.to_owned(),
                wrong: "can be 1% or all".to_owned(),
                fix: "1% or 100%".to_owned(),
            });
        }
        let read = || {
            let (number, unit) = split(text)?;
            // Twelve digits, so that what is printed is read as the same number.
            let digits = match unit.as_str() {
                "%" => number * 1e10,
                "" => number * 1e12,
                _ => return None,
            };
            let share = digits.round() / 1e12;
            (share <= 1.0).then_some(Share(share))
        };
        read().ok_or_else(|| UnitError::new(text, "share", "1%, 0.5% or 0.01, at most 100%"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Twelve digits: more than are there make 0.07 * 100 into 7.000000000000001.
        let percent = (self.0 * 100.0 * 1e10).round() / 1e10;
        write!(f, "{percent}%")
    }
}

/// Text in files and messages; where a number without a unit can be meant, files may also have a number.
macro_rules! as_text {
    ($type:ident, $pattern:literal, $numbers:tt, $description:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Written {
                    Number(f64),
                    Text(String),
                }
                let text = match Written::deserialize(deserializer)? {
                    Written::Number(number) => number.to_string(),
                    Written::Text(text) => text,
                };
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": $description,
                    "anyOf": [
                        { "type": "string", "pattern": $pattern },
                        $numbers
                    ]
                })
            }
        }
    };
}

as_text!(
    Rate,
    r"^([0-9.]+ *[kKmMgGtT]?([bB][iI][tT]|[bB][pP][sS])(/s)?|0)$",
    { "const": 0 },
    "Bits per second: 10mbit, 1.5gbit, 64kbit; with bps for bit: bytes per second; 0 is unlimited"
);
as_text!(
    Span,
    r"^([0-9.]+ *(ns|us|µs|ms|s|m|min|h|d)|0)$",
    { "const": 0 },
    "A length of time: 10ms, 1.5s, 20us, 2min; only 0 needs no unit"
);
as_text!(
    Share,
    r"^([0-9.]+ *%|0|0?\.[0-9]+)$",
    { "type": "number", "minimum": 0, "exclusiveMaximum": 1 },
    "A probability: 1%, 0.5%, or a fraction such as 0.01"
);

/// How many bytes `64M` or `4G` are.
pub fn memory_bytes(text: &str) -> Option<u64> {
    let (number, unit) = digits(text);
    let unit = unit.trim_start().trim_end_matches(['B', 'b', 'i']);
    scaled(number, unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, bits, written) in [
            ("10mbit", 10_000_000, "10mbit"),
            ("1.5Gbit", 1_500_000_000, "1500mbit"),
            ("64 kbit/s", 64_000, "64kbit"),
            ("1mbps", 8_000_000, "8mbit"),
            ("9600bit", 9600, "9600bit"),
            ("0", 0, "0bit"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate(bits), "{text}");
            assert_eq!(rate.to_string(), written);
            assert_eq!(written.parse(), Ok(rate));
        }
        for bad in [
            "",
            "fast",
            "-1mbit",
            "10mbyte",
            "1e9",
            "9600",
            "99999999999tbit",
        ] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn spans() {
        for (text, nanoseconds, written) in [
            ("10ms", 10_000_000, "10ms"),
            ("1.5s", 1_500_000_000, "1500ms"),
            ("2 s", 2_000_000_000, "2s"),
            ("20us", 20_000, "20us"),
            ("2min", 120_000_000_000, "120s"),
            ("1d", 86_400_000_000_000, "86400s"),
            ("0", 0, "0ns"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span, Span(nanoseconds), "{text}");
            assert_eq!(span.to_string(), written);
            assert_eq!(written.parse(), Ok(span));
        }
        for bad in ["", "soon", "-1s", "1y", "ms", "20", "0.5"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn shares() {
        for (text, share, written) in [
            ("1%", 0.01, "1%"),
            ("0.07", 0.07, "7%"),
            ("100%", 1.0, "100%"),
            ("0.001%", 0.00001, "0.001%"),
        ] {
            let read: Share = text.parse().unwrap();
            assert!((read.0 - share).abs() < 1e-12, "{text}");
            assert_eq!(read.to_string(), written);
        }
        for bad in ["", "101%", "1.1", "-1%", "often", "1"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("32M"), Ok(32 << 20));
        assert_eq!(size("1g"), Ok(1 << 30));
        for bad in ["", "M", "-1", "1.5M", "64MB", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_say_how() {
        let error = "fast".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"fast\" is not a rate: write it like 10mbit, 1.5gbit or 64kbit"
        );
        let error = "20".parse::<Span>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"20\" is a time without a unit: write the one that is meant, such as 20us or 20ms or 20s or 20min"
        );
    }
}
