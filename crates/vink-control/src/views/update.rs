//! What an update of the document may hold: plain values in its seven parts, nothing nested, no formats, no other
//! documents.
//!
//! Whatever `yrs` reads was read here before, so that a client can't have it allocate what a number promises, descend
//! without end, or keep what is no view. The format is Yjs's, version 1: structs by client, then what is deleted.

use super::lib0::Reader;

/// The parts of the document.
pub(super) const MAPS: [&str; 6] = [
    "classes",
    "groups",
    "positions",
    "tasks",
    "views",
    "whiteboard",
];
pub(super) const NOTES: &str = "notes";

/// How deep a value may be: points of a stroke are two.
const DEEPEST: u32 = 8;
/// A client's clock stays below this.
const LATEST: u64 = 1 << 31;

/// What was found in an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// It says or deletes anything at all.
    pub(super) is_something: bool,
    /// It adds to the document, and does not delete only.
    pub(super) adds: bool,
}

/// Reads an update, and fails if it has anything that views have not.
pub(super) fn check(bytes: &[u8]) -> Result<Found, &'static str> {
    let mut reader = Reader(bytes);
    let adds = structs(&mut reader)?;
    let deletes = deletions(&mut reader)?;
    if !reader.0.is_empty() {
        return Err("bytes after its end");
    }
    Ok(Found {
        is_something: adds || deletes,
        adds,
    })
}

/// Whether a state vector is whole: clients and their clocks.
pub(super) fn is_state_vector(bytes: &[u8]) -> bool {
    let mut reader = Reader(bytes);
    let Some(count) = reader.number() else {
        return false;
    };
    (0..count).all(|_| reader.number().is_some() && reader.number().is_some_and(|at| at < LATEST))
        && reader.0.is_empty()
}

const SHORT: &str = "it ends too soon, or a number in it is too large";

fn structs(reader: &mut Reader) -> Result<bool, &'static str> {
    let mut adds = false;
    for _ in 0..reader.number().ok_or(SHORT)? {
        let count = reader.number().ok_or(SHORT)?;
        let _client = reader.number().ok_or(SHORT)?;
        let mut clock = reader.number().ok_or(SHORT)?;
        for _ in 0..count {
            adds = true;
            clock = clock.saturating_add(one(reader)?);
            if clock >= LATEST {
                return Err("a clock is too late");
            }
        }
    }
    Ok(adds)
}

/// One struct: how much of its client's clock it takes.
fn one(reader: &mut Reader) -> Result<u64, &'static str> {
    const GARBAGE: u8 = 0;
    const SKIP: u8 = 10;
    let info = reader.byte().ok_or(SHORT)?;
    let kind = info & 0x1f;
    if kind == GARBAGE || kind == SKIP {
        return reader.number().ok_or(SHORT);
    }
    // What it stands between, if anything: then it is where that is.
    for bit in [0x80, 0x40] {
        if info & bit != 0 {
            reader.number().ok_or(SHORT)?;
            reader.number().ok_or(SHORT)?;
        }
    }
    if info & 0xc0 == 0 {
        if reader.number().ok_or(SHORT)? != 1 {
            return Err("something nested");
        }
        let part = reader.text().ok_or(SHORT)?;
        if part != NOTES && !MAPS.contains(&part) {
            return Err("a part that views have not");
        }
        if info & 0x20 != 0 {
            reader.text().ok_or(SHORT)?;
        }
    }
    content(reader, kind)
}

fn content(reader: &mut Reader, kind: u8) -> Result<u64, &'static str> {
    const DELETED: u8 = 1;
    const TEXT: u8 = 4;
    const VALUES: u8 = 8;
    match kind {
        DELETED => reader.number().ok_or(SHORT),
        // Its length is in units of UTF-16.
        TEXT => {
            let text = reader.text().ok_or(SHORT)?;
            Ok(text.encode_utf16().count() as u64)
        }
        VALUES => {
            let count = reader.number().ok_or(SHORT)?;
            for _ in 0..count {
                value(reader, DEEPEST)?;
            }
            Ok(count)
        }
        _ => Err("something else than text and plain values"),
    }
}

fn value(reader: &mut Reader, depth: u32) -> Result<(), &'static str> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err("a value that is too deep");
    };
    match reader.byte().ok_or(SHORT)? {
        // Undefined, null, false, true.
        127 | 126 | 121 | 120 => {}
        // An integer: its first byte has a sign, too, which does not matter here.
        125 => {
            reader.number().ok_or(SHORT)?;
        }
        124 => {
            reader.take(4).ok_or(SHORT)?;
        }
        123 | 122 => {
            reader.take(8).ok_or(SHORT)?;
        }
        119 => {
            reader.text().ok_or(SHORT)?;
        }
        118 => {
            for _ in 0..reader.number().ok_or(SHORT)? {
                reader.text().ok_or(SHORT)?;
                value(reader, depth)?;
            }
        }
        117 => {
            for _ in 0..reader.number().ok_or(SHORT)? {
                value(reader, depth)?;
            }
        }
        _ => return Err("a value of a kind that views have not"),
    }
    Ok(())
}

fn deletions(reader: &mut Reader) -> Result<bool, &'static str> {
    let mut deletes = false;
    for _ in 0..reader.number().ok_or(SHORT)? {
        let _client = reader.number().ok_or(SHORT)?;
        for _ in 0..reader.number().ok_or(SHORT)? {
            deletes = true;
            let clock = reader.number().ok_or(SHORT)?;
            let length = reader.number().ok_or(SHORT)?;
            if clock.saturating_add(length) >= LATEST {
                return Err("a clock is too late");
            }
        }
    }
    Ok(deletes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use yrs::updates::decoder::Decode;
    use yrs::{Any, Doc, Map, MapPrelim, ReadTxn, StateVector, Text, Transact, WriteTxn};

    fn update(change: impl FnOnce(&mut yrs::TransactionMut)) -> Vec<u8> {
        let doc = Doc::new();
        let mut txn = doc.transact_mut();
        change(&mut txn);
        txn.encode_state_as_update_v1(&StateVector::default())
    }

    #[test]
    fn views_pass_and_nothing_else() {
        let good = update(|txn| {
            let positions = txn.get_or_insert_map("positions");
            let point = |x: f64| Any::from(vec![Any::from(x), Any::from(-7), Any::from(true)]);
            positions.insert(txn, "r1", point(0.5));
            positions.insert(txn, "r1", point(1e300));
            positions.insert(txn, "é", Any::from("text \u{1f600}"));
            positions.remove(txn, "r1");
            let notes = txn.get_or_insert_text("notes");
            notes.insert(txn, 0, "hello \u{1f600} world");
            notes.remove_range(txn, 2, 3);
        });
        let found = Found {
            is_something: true,
            adds: true,
        };
        assert_eq!(check(&good), Ok(found));
        let doc = Doc::new();
        let read = yrs::Update::decode_v1(&good).expect("an update");
        doc.transact_mut().apply_update(read).expect("it fits");
        assert_eq!(
            check(&[0, 0]),
            Ok(Found {
                is_something: false,
                adds: false
            })
        );
        let only_deletes = [0, 1, 1, 1, 0, 1];
        assert_eq!(
            check(&only_deletes),
            Ok(Found {
                is_something: true,
                adds: false
            })
        );

        let elsewhere = update(|txn| {
            txn.get_or_insert_map("else").insert(txn, "a", 1);
        });
        assert_eq!(check(&elsewhere), Err("a part that views have not"));
        let nested = update(|txn| {
            let whiteboard = txn.get_or_insert_map("whiteboard");
            whiteboard.insert(txn, "a", MapPrelim::default());
        });
        assert!(check(&nested).is_err());
        let format = update(|txn| {
            let attributes = yrs::types::Attrs::from([("bold".into(), true.into())]);
            let notes = txn.get_or_insert_text("notes");
            notes.insert_with_attributes(txn, 0, "a", attributes);
        });
        assert!(check(&format).is_err());
        let deep = update(|txn| {
            let mut value = Any::from(1);
            for _ in 0..1000 {
                value = Any::from(vec![value]);
            }
            txn.get_or_insert_map("whiteboard").insert(txn, "a", value);
        });
        assert_eq!(check(&deep), Err("a value that is too deep"));
    }

    #[test]
    fn broken_ones_fail() {
        let good = update(|txn| {
            let whiteboard = txn.get_or_insert_map("whiteboard");
            whiteboard.insert(txn, "a", Any::from(vec![Any::from("x"), Any::from(2.5)]));
            whiteboard.remove(txn, "a");
        });
        for length in 0..good.len() {
            assert!(check(&good[..length]).is_err(), "{length}");
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(check(&longer), Err("bytes after its end"));
        // Numbers that promise more than there is.
        let many = [0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(check(&many).is_err() && !is_state_vector(&many));
        let late = [1, 1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert_eq!(check(&late), Err("a clock is too late"));
        assert!(is_state_vector(&[0]) && is_state_vector(&[1, 9, 3]) && !is_state_vector(&[1, 9]));
        // What passes can be read: any byte of a good one may be another.
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut other = good.clone();
                other[at] = byte;
                if check(&other).is_ok() {
                    let _ = yrs::Update::decode_v1(&other)
                        .map(|read| Doc::new().transact_mut().apply_update(read));
                }
            }
        }
    }
}
