//! Thrift's compact protocol, as far as Parquet's headers need it.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// A value, with its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    /// Of any size.
    Int(i64),
    Double(f64),
    Binary(Vec<u8>),
    List(Vec<Value>),
    /// By the fields' numbers, in their order.
    Struct(Vec<(i16, Value)>),
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;
/// Values in values, at most.
const DEEPEST: u32 = 32;

/// A structure that is being written.
#[derive(Default)]
pub(crate) struct Fields {
    bytes: Vec<u8>,
    last: i16,
}

impl Fields {
    pub(crate) fn i32(self, number: i16, value: i32) -> Fields {
        self.field(number, I32, |to| varint(to, zigzag(value.into())))
    }

    pub(crate) fn i64(self, number: i16, value: i64) -> Fields {
        self.field(number, I64, |to| varint(to, zigzag(value)))
    }

    pub(crate) fn text(self, number: i16, value: &str) -> Fields {
        self.field(number, BINARY, |to| binary(to, value))
    }

    pub(crate) fn fields(self, number: i16, value: Fields) -> Fields {
        self.field(number, STRUCT, |to| to.extend(value.end()))
    }

    pub(crate) fn list_of_i32(self, number: i16, values: &[i32]) -> Fields {
        let each = |to: &mut Vec<u8>, value: &i32| varint(to, zigzag((*value).into()));
        self.list(number, I32, values, each)
    }

    pub(crate) fn list_of_texts(self, number: i16, values: &[&str]) -> Fields {
        self.list(number, BINARY, values, |to, value| binary(to, value))
    }

    /// Structures that have been written.
    pub(crate) fn list_of_fields(self, number: i16, values: &[Vec<u8>]) -> Fields {
        self.list(number, STRUCT, values, |to, value| to.extend(value))
    }

    /// The bytes.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn list<T>(
        self,
        number: i16,
        kind: u8,
        values: &[T],
        each: impl Fn(&mut Vec<u8>, &T),
    ) -> Fields {
        self.field(number, LIST, |to| {
            match values.len() {
                short @ 0..15 => to.push((short as u8) << 4 | kind),
                long => {
                    to.push(0xf0 | kind);
                    varint(to, long as u64);
                }
            }
            values.iter().for_each(|value| each(to, value));
        })
    }

    /// Fields come in the order of their numbers, with less than 16 between one and the next.
    fn field(mut self, number: i16, kind: u8, value: impl FnOnce(&mut Vec<u8>)) -> Fields {
        let step = (number - self.last) as u8;
        self.last = number;
        self.bytes.push(step << 4 | kind);
        value(&mut self.bytes);
        self
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn binary(to: &mut Vec<u8>, text: &str) {
    varint(to, text.len() as u64);
    to.extend(text.as_bytes());
}

impl Value {
    /// A structure, which is taken off the front of `from`; `None`: there is none.
    pub(crate) fn take(from: &mut &[u8]) -> Option<Value> {
        value(from, STRUCT, DEEPEST)
    }

    /// A field of a structure.
    pub(crate) fn field(&self, number: i16) -> Option<&Value> {
        let Value::Struct(fields) = self else {
            return None;
        };
        let mut fields = fields.iter();
        fields.find_map(|(its, value)| (*its == number).then_some(value))
    }

    pub(crate) fn int(&self, number: i16) -> Option<i64> {
        match self.field(number)? {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn list(&self, number: i16) -> &[Value] {
        match self.field(number) {
            Some(Value::List(values)) => values,
            _ => &[],
        }
    }

    pub(crate) fn text(&self, number: i16) -> Option<String> {
        match self.field(number)? {
            Value::Binary(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

fn value(from: &mut &[u8], kind: u8, depth: u32) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    Some(match kind {
        TRUE => Value::Bool(true),
        FALSE => Value::Bool(false),
        BYTE => Value::Int(i64::from(byte(from)? as i8)),
        I16 | I32 | I64 => Value::Int(number(from)?),
        DOUBLE => {
            let bytes = from.split_off(..8)?;
            Value::Double(f64::from_le_bytes(bytes.try_into().ok()?))
        }
        BINARY => {
            let len = usize::try_from(unsigned(from)?).ok()?;
            Value::Binary(from.split_off(..len)?.to_vec())
        }
        LIST | SET => {
            let head = byte(from)?;
            let count = match head >> 4 {
                15 => unsigned(from)?,
                count => count.into(),
            };
            let all = (0..count).map(|_| match head & 15 {
                // In lists they have bytes of their own.
                TRUE | FALSE => Some(Value::Bool(byte(from)? == TRUE)),
                kind => value(from, kind, depth),
            });
            Value::List(all.collect::<Option<_>>()?)
        }
        STRUCT => {
            let mut fields = Vec::new();
            let mut last = 0i16;
            loop {
                let head = byte(from)?;
                if head == 0 {
                    break Value::Struct(fields);
                }
                last = match head >> 4 {
                    0 => i16::try_from(number(from)?).ok()?,
                    step => last.checked_add(step.into())?,
                };
                fields.push((last, value(from, head & 15, depth)?));
            }
        }
        _ => return None,
    })
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    from.split_off_first().copied()
}

fn unsigned(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(from)?;
        value |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn number(from: &mut &[u8]) -> Option<i64> {
    let value = unsigned(from)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Fields::default().i32(2, -1).end();
        let many = vec![inner.clone(); 20];
        let bytes = Fields::default()
            .i32(1, 300)
            .i64(2, i64::MIN)
            .text(4, "cwnd")
            .fields(5, Fields::default().i64(1, 7))
            .list_of_i32(6, &[0, -5])
            .list_of_texts(7, &["a", ""])
            .list_of_fields(9, &many)
            .end();
        let mut from = &bytes[..];
        let read = Value::take(&mut from).unwrap();
        assert!(from.is_empty());
        assert_eq!((read.int(1), read.int(2)), (Some(300), Some(i64::MIN)));
        assert_eq!(read.text(4).as_deref(), Some("cwnd"));
        assert_eq!(read.field(5).unwrap().int(1), Some(7));
        assert_eq!(read.list(6), [Value::Int(0), Value::Int(-5)]);
        assert_eq!(read.list(7)[1], Value::Binary(Vec::new()));
        assert_eq!(read.list(9).len(), 20);
        assert_eq!(read.list(9)[19].int(2), Some(-1));
        for end in 0..bytes.len() {
            assert_eq!(Value::take(&mut &bytes[..end]), None);
        }
    }
}
