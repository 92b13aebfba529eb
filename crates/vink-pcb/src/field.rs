//! The fields of a structure, and what they are in some bytes.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A structure of the kernel, taken apart into what has a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Structure {
    /// Its size in bytes.
    pub size: usize,
    /// Its fields, those of structures in it too, in the order of the source.
    pub fields: Vec<Field>,
}

/// Something that has a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// The path without the structures that this one begins with, as it extends them: `snd_cwnd`,
    /// `skc_state`, `rack.mstamp`. No other field has the same one.
    pub name: String,
    /// From the structure on, as C has it: `inet_conn.icsk_inet.sk.__sk_common.skc_state`.
    pub path: String,
    /// In bytes from the structure's start.
    pub offset: usize,
    /// How to read it.
    pub kind: Kind,
}

/// What a field is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    /// Of so many bytes.
    Unsigned(usize),
    /// Of so many bytes.
    Signed(usize),
    /// Of so many bytes.
    Bool(usize),
    /// Part of some bytes.
    Bits {
        /// The first bit, from the field's offset on.
        shift: u32,
        /// How many.
        width: u32,
        /// Whether the last one is a sign.
        signed: bool,
    },
    /// Of so many bytes, with names for numbers.
    Enum(usize, Vec<(i64, String)>),
    /// The address of something.
    Pointer,
    /// So many bytes of text, up to the first 0.
    Text(usize),
    /// Several of a kind.
    Array {
        /// Of which.
        of: Box<Kind>,
        /// How many.
        count: usize,
        /// Bytes from one to the next.
        stride: usize,
    },
}

/// What a field is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Unsigned(u64),
    /// A number that can be negative.
    Signed(i64),
    /// Yes or no.
    Bool(bool),
    /// A name for a number, or a text.
    Text(String),
    /// An address.
    #[serde(serialize_with = "as_text")]
    Pointer(u64),
    /// Several.
    List(Vec<Value>),
}

fn as_text<S: serde::Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{address:#x}"))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(number) => number.fmt(f),
            Value::Signed(number) => number.fmt(f),
            Value::Bool(yes) => u8::from(*yes).fmt(f),
            Value::Text(text) => text.fmt(f),
            Value::Pointer(address) => write!(f, "{address:#x}"),
            Value::List(values) => {
                for (i, value) in values.iter().enumerate() {
                    let between = if i == 0 { "" } else { " " };
                    write!(f, "{between}{value}")?;
                }
                Ok(())
            }
        }
    }
}

impl Structure {
    /// The field of this name, or the first one whose path ends so.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let named = self.fields.iter().find(|field| field.name == name);
        named.or_else(|| {
            let mut all = self.fields.iter();
            all.find(|field| ends(&field.path).any(|end| end == name))
        })
    }

    /// Gives those fields their path as a name that would have the same one.
    pub(crate) fn name_fields(&mut self) {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for field in &self.fields {
            *seen.entry(field.name.clone()).or_default() += 1;
        }
        for field in &mut self.fields {
            if seen[&field.name] > 1 {
                field.name.clone_from(&field.path);
            }
        }
    }
}

/// The ends of a path, the shortest first: `c`, `b.c`, `a.b.c`.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    let dots = path.rmatch_indices('.').map(|(at, _)| at + 1);
    dots.chain([0]).map(|from| &path[from..])
}

impl Field {
    /// What it is in a structure's bytes; `None`: they are too few.
    pub fn read(&self, bytes: &[u8]) -> Option<Value> {
        self.kind.read(bytes.get(self.offset..)?)
    }

    /// A number's value, or an address.
    pub fn number(&self, bytes: &[u8]) -> Option<u64> {
        // What most are, which an explorer asks for a hundred thousand times a second.
        let rest = bytes.get(self.offset..)?;
        match self.kind {
            Kind::Unsigned(4) => return Some(u32::from_le_bytes(*rest.first_chunk()?).into()),
            Kind::Unsigned(2) => return Some(u16::from_le_bytes(*rest.first_chunk()?).into()),
            Kind::Unsigned(8) | Kind::Pointer => {
                return Some(u64::from_le_bytes(*rest.first_chunk()?));
            }
            _ => {}
        }
        match self.read(bytes)? {
            Value::Unsigned(number) | Value::Pointer(number) => Some(number),
            Value::Signed(number) => Some(number as u64),
            Value::Bool(yes) => Some(yes.into()),
            Value::Text(_) | Value::List(_) => None,
        }
    }

    /// The bytes themselves.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.offset..)?.get(..self.kind.size())
    }
}

impl Kind {
    /// How many bytes it takes.
    pub fn size(&self) -> usize {
        match self {
            Kind::Unsigned(size) | Kind::Signed(size) | Kind::Bool(size) | Kind::Text(size) => {
                *size
            }
            Kind::Enum(size, _) => *size,
            Kind::Bits { shift, width, .. } => (shift + width).div_ceil(8) as usize,
            Kind::Pointer => 8,
            Kind::Array { count, stride, .. } => count * stride,
        }
    }

    fn read(&self, bytes: &[u8]) -> Option<Value> {
        let bytes = bytes.get(..self.size())?;
        Some(match self {
            Kind::Unsigned(_) => Value::Unsigned(number(bytes)),
            Kind::Signed(size) => Value::Signed(signed(number(bytes), *size as u32 * 8)),
            Kind::Bool(_) => Value::Bool(number(bytes) != 0),
            Kind::Bits {
                shift,
                width,
                signed: sign,
            } => {
                let bits = number(bytes) >> shift & (u64::MAX >> (64 - width));
                match sign {
                    true => Value::Signed(signed(bits, *width)),
                    false => Value::Unsigned(bits),
                }
            }
            Kind::Enum(size, names) => {
                let number = signed(number(bytes), *size as u32 * 8);
                let mut names = names.iter();
                match names.find(|(value, _)| *value == number) {
                    Some((_, name)) => Value::Text(name.clone()),
                    None => Value::Signed(number),
                }
            }
            Kind::Pointer => Value::Pointer(number(bytes)),
            Kind::Text(_) => {
                let end = bytes.iter().position(|byte| *byte == 0);
                let text = &bytes[..end.unwrap_or(bytes.len())];
                Value::Text(String::from_utf8_lossy(text).into_owned())
            }
            Kind::Array { of, stride, .. } => {
                let parts = bytes.chunks(*stride);
                Value::List(parts.filter_map(|part| of.read(part)).collect())
            }
        })
    }
}

/// Up to eight bytes, the lowest first.
fn number(bytes: &[u8]) -> u64 {
    let add = |number, byte: &u8| number << 8 | u64::from(*byte);
    bytes.iter().take(8).rev().fold(0, add)
}

/// A number of so many bits, the last one being its sign.
fn signed(number: u64, bits: u32) -> i64 {
    let unused = 64 - bits.min(64);
    (number << unused) as i64 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &str, offset: usize, kind: Kind) -> Field {
        Field {
            name: path.rsplit('.').next().unwrap_or_default().to_owned(),
            path: path.to_owned(),
            offset,
            kind,
        }
    }

    #[test]
    fn fields_are_found_by_their_names_and_no_two_have_the_same() {
        let paths = ["a.state", "b.c.state", "b.d.mss"];
        let fields = paths.map(|path| field(path, 0, Kind::Pointer));
        let mut structure = Structure {
            size: 0,
            fields: fields.into(),
        };
        structure.name_fields();
        let names: Vec<&str> = structure.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a.state", "b.c.state", "mss"]);
        let path = |name| structure.field(name).map(|field| field.path.as_str());
        assert_eq!(path("mss"), Some("b.d.mss"));
        assert_eq!(path("c.state"), Some("b.c.state"));
        assert_eq!(path("d.mss"), Some("b.d.mss"));
        assert_eq!(path("ss"), None);
    }

    #[test]
    fn values() {
        let bytes = [0xff, 0xff, 0b1011_0100, 0, b'c', b'u', 0, b'x', 2, 0, 0, 0];
        let read = |offset, kind| field("", offset, kind).read(&bytes);
        let bits = |signed| Kind::Bits {
            shift: 4,
            width: 4,
            signed,
        };
        assert_eq!(read(0, Kind::Unsigned(2)), Some(Value::Unsigned(65535)));
        assert_eq!(read(0, Kind::Signed(2)), Some(Value::Signed(-1)));
        assert_eq!(read(2, bits(false)), Some(Value::Unsigned(0b1011)));
        assert_eq!(read(2, bits(true)), Some(Value::Signed(-5)));
        assert_eq!(read(4, Kind::Text(4)), Some(Value::Text("cu".into())));
        let names = vec![(2, "TWO".to_owned())];
        let named = |offset| read(offset, Kind::Enum(4, names.clone()));
        assert_eq!(named(8), Some(Value::Text("TWO".into())));
        assert_eq!(named(0), Some(Value::Signed(0x00b4_ffff)));
        let pairs = Kind::Array {
            of: Box::new(Kind::Unsigned(1)),
            count: 2,
            stride: 2,
        };
        let list = read(8, pairs.clone()).expect("four bytes");
        assert_eq!(list.to_string(), "2 0");
        assert_eq!(read(10, pairs), None);
        assert_eq!(Value::Pointer(255).to_string(), "0xff");
        let json = serde_json::to_string(&Value::Pointer(255)).expect("JSON");
        assert_eq!(json, "\"0xff\"");
    }
}
