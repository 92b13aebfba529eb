//! The few encodings of lib0 in which Yjs's messages are written: numbers of seven bits to a byte, lowest first, and
//! bytes or text with their length before them.

/// Reads one message; `None` where it ends too soon or is not as it must be.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number below 2^53, as JavaScript has them.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..53).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (value < 1 << 53).then_some(value);
            }
        }
        None
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.take(count)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

pub(super) fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

pub(super) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_ends_are_found() {
        let mut bytes = Vec::new();
        let numbers = [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            (1 << 53) - 1,
        ];
        for number in numbers {
            put_number(&mut bytes, number);
        }
        put_bytes(&mut bytes, "é".as_bytes());
        let mut reader = Reader(&bytes);
        assert!(numbers
            .iter()
            .all(|number| reader.number() == Some(*number)));
        assert_eq!((reader.text(), reader.byte()), (Some("é"), None));
        for wrong in [&[0x80][..], &[0xff; 8], &[0xff; 20]] {
            assert_eq!(Reader(wrong).number(), None);
        }
        assert_eq!(Reader(&[5, 1]).bytes(), None);
        assert_eq!(Reader(&[1, 0xff]).text(), None);
    }
}
