//! Protocol Buffers, written: the wire format of
//! <https://protobuf.dev/programming-guides/encoding/>.

use crate::bytes::{put_bytes, put_number};

/// A field's type on the wire, the lowest three bits of its tag.
const VARINT: u64 = 0;
const I64: u64 = 1;
const LEN: u64 = 2;

/// A message; fields are written in the order in which they are added.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A field of type `uint64`, `uint32`, or an enum's.
    pub(crate) fn varint(&mut self, field: u64, value: u64) {
        self.tag(field, VARINT);
        put_number(&mut self.0, value);
    }

    /// A field of type `fixed64`.
    pub(crate) fn fixed64(&mut self, field: u64, value: u64) {
        self.tag(field, I64);
        self.0.extend(value.to_le_bytes());
    }

    /// A field of type `string`.
    pub(crate) fn text(&mut self, field: u64, text: &str) {
        self.tag(field, LEN);
        put_bytes(&mut self.0, text.as_bytes());
    }

    /// A field that is a message.
    pub(crate) fn message(&mut self, field: u64, message: &Message) {
        self.tag(field, LEN);
        put_bytes(&mut self.0, &message.0);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        put_number(&mut self.0, field << 3 | wire_type);
    }
}
