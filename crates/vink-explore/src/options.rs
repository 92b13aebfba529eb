//! A TCP segment's options (RFC 9293, 3.2), for properties.

/// Each with its kind and its value. What is cut off is left out.
pub fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || loop {
        match *bytes {
            [] | [0, ..] => return None,
            [1, ..] => bytes = &bytes[1..],
            [kind, length, ..] => {
                let value = bytes.get(2..usize::from(length))?;
                bytes = &bytes[usize::from(length)..];
                return Some((kind, value));
            }
            [_] => return None,
        }
    })
}

/// The selective acknowledgements: the first sequence number of each and the one behind it
/// (RFC 2018, 3).
pub fn blocks(from: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let value = options(from)
        .find(|(kind, _)| *kind == 5)
        .map_or(&[][..], |(_, value)| value);
    value.chunks_exact(8).map(|block| {
        let four = |at: usize| {
            u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
        };
        (four(0), four(4))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let bytes = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9, 3, 3, 7, 0, 8];
        let kinds: Vec<_> = options(&bytes).map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [5, 3]);
        assert_eq!(blocks(&bytes).collect::<Vec<_>>(), [(1, 9)]);
        // One that says that it is longer than all, and one that says nothing.
        assert_eq!(options(&[8, 10, 0]).count() + options(&[8, 0]).count(), 0);
        assert_eq!(blocks(&[]).count(), 0);
    }
}
