//! A shared object's file: its parts, its relocations and its names. It is read here and not by
//! dlopen(3), whose libraries and state would be the worker's.
//!
//! What the file says is a pod's word. What is done for it, and the memory that it takes, are bounded by
//! the file's length, and not by a number in it.

use std::cell::Cell;

use super::scan;
use crate::batch::clean;

/// Bytes of a file; it is read whole.
pub(super) const MOST: usize = 16 << 20;
const PAGE: u64 = 4096;
/// How many parts it may have: linkers make four.
const PARTS: usize = 64;
/// Bytes of a name that are kept, and of all names that are read.
const NAME: usize = 4096;
const NAMES: usize = 64 << 20;

/// A part of the object in memory, by addresses from its start on: whole pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub start: u64,
    pub len: u64,
    /// What of it is in the file, and where that is in memory. The rest is zeroes.
    pub bytes: &'a [u8],
    pub at: u64,
    pub is_writable: bool,
    pub is_code: bool,
}

/// What a word is to become.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// An address of the object.
    Own(u64),
    /// This: the address of a function of Vink's, or a number.
    As(u64),
}

/// An object that a pod can be made of.
#[derive(Debug)]
pub(super) struct Object<'a> {
    /// Bytes of memory from its first to its last, whole pages.
    pub len: u64,
    /// One behind the other.
    pub segments: Vec<Segment<'a>>,
    /// Where words are, and what they become.
    pub relocations: Vec<(u64, Value)>,
    /// Functions that are called before all others.
    pub constructors: Vec<u64>,
    pub names: Names,
}

/// An object's names, for what it exports and for faults.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<(String, u64)>);

impl Names {
    /// The address of a name.
    pub fn find(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, at)| *at)
    }

    /// Which function this is in.
    pub fn name_of(&self, at: u64) -> Option<(&str, u64)> {
        let before = self.0.iter().filter(|(_, start)| *start <= at);
        let (name, start) = before.max_by_key(|(_, start)| *start)?;
        Some((name, at - start))
    }
}

struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn bytes(&self, at: u64, len: u64) -> Result<&'a [u8], String> {
        let range = usize::try_from(at).ok().zip(usize::try_from(len).ok());
        let bytes = range.and_then(|(at, len)| self.0.get(at..at.checked_add(len)?));
        bytes.ok_or_else(|| "its file is cut off".to_owned())
    }

    fn half(&self, at: u64) -> Result<u64, String> {
        let two = self.bytes(at, 2)?;
        Ok(u16::from_le_bytes([two[0], two[1]]).into())
    }

    fn word(&self, at: u64) -> Result<u64, String> {
        Ok(self.half(at)? | self.half(at.saturating_add(2))? << 16)
    }

    fn long(&self, at: u64) -> Result<u64, String> {
        Ok(self.word(at)? | self.word(at.saturating_add(4))? << 32)
    }
}

/// A PT_LOAD.
struct Part {
    offset: u64,
    address: u64,
    in_file: u64,
    len: u64,
}

/// Reads a file. `function` knows the names that a pod may call.
///
/// # Errors
/// A sentence: what this wall does not take, and what to do.
pub(super) fn read(bytes: &[u8], function: fn(&str) -> Option<u64>) -> Result<Object<'_>, String> {
    let file = File(bytes);
    let (table, size, count) = (file.long(32)?, file.half(54)?, file.half(56)?);
    let mut parts = Vec::new();
    let mut segments: Vec<Segment<'_>> = Vec::new();
    let mut dynamic = None;
    for at in (0..count).map(|n| table.saturating_add(n * size)) {
        let (kind, flags) = (file.word(at)?, file.word(at + 4)?);
        let part = Part {
            offset: file.long(at + 8)?,
            address: file.long(at + 16)?,
            in_file: file.long(at + 32)?,
            len: file.long(at + 40)?,
        };
        match kind {
            1 => {
                let segment = segment(&file, &part, flags)?;
                let end = segments.last().map_or(0, |last| last.start + last.len);
                if segment.start < end {
                    return Err("its parts are not one behind the other".to_owned());
                }
                if segments.len() == PARTS {
                    return Err(format!("it has more than {PARTS} parts: cc -shared -fPIC"));
                }
                segments.push(segment);
                parts.push(part);
            }
            2 => dynamic = Some(part),
            7 if part.len > 0 => {
                return Err("it has variables of a thread (__thread), which this wall does not have: make them static".to_owned());
            }
            _ => {}
        }
    }
    let end = segments.last().map(|last| last.start + last.len);
    let end = end.ok_or("there is nothing in it: cc -shared -fPIC")?;
    for segment in segments.iter().filter(|segment| segment.is_code) {
        if segment.is_writable {
            return Err("it has code that can be written: link it without -N".to_owned());
        }
    }
    let mut object = Object {
        len: end,
        segments,
        relocations: Vec::new(),
        constructors: Vec::new(),
        names: Names::default(),
    };
    let dynamic = dynamic.ok_or("it has no dynamic section: cc -shared -fPIC makes one")?;
    link(&file, &parts, &dynamic, &mut object, function)?;
    for segment in object.segments.iter().filter(|segment| segment.is_code) {
        if let Some(found) = scan::find(segment.bytes).next() {
            let at = segment.at + found.at as u64;
            let place = match object.names.name_of(at) {
                Some((name, far)) => format!("{name}+{far:#x}"),
                None => format!("{at:#x}"),
            };
            return Err(format!(
                "it has the bytes of {} in {place}, which would open its wall: change that code, or take the process wall",
                found.what
            ));
        }
    }
    Ok(object)
}

fn segment<'a>(file: &File<'a>, part: &Part, flags: u64) -> Result<Segment<'a>, String> {
    let end = part
        .address
        .checked_add(part.len)
        .filter(|end| *end < 1 << 32);
    let end = end.ok_or("it is larger than 4 GiB")?.next_multiple_of(PAGE);
    let start = part.address / PAGE * PAGE;
    if part.in_file > part.len {
        return Err("a part of it has more in the file than in memory".to_owned());
    }
    Ok(Segment {
        start,
        len: end - start,
        bytes: file.bytes(part.offset, part.in_file)?,
        at: part.address,
        is_writable: flags & 2 != 0,
        is_code: flags & 1 != 0,
    })
}

/// A file's offset of an address.
fn offset(parts: &[Part], address: u64) -> Result<u64, String> {
    let part = parts
        .iter()
        .find(|part| address >= part.address && address - part.address < part.in_file);
    let part = part.ok_or("an address in it is not in its file")?;
    Ok(address - part.address + part.offset)
}

/// Reads the dynamic section.
fn link(
    file: &File<'_>,
    parts: &[Part],
    dynamic: &Part,
    object: &mut Object<'_>,
    function: fn(&str) -> Option<u64>,
) -> Result<(), String> {
    let mut tags = Vec::new();
    for at in (0..dynamic.in_file / 16).map(|n| dynamic.offset.saturating_add(16 * n)) {
        match file.long(at)? {
            0 => break,
            tag => tags.push((tag, file.long(at + 8)?)),
        }
    }
    let tag = |wanted| {
        tags.iter()
            .find(|(tag, _)| *tag == wanted)
            .map(|(_, value)| *value)
    };
    let strings = offset(parts, tag(5).ok_or("it has no names")?)?;
    let symbols = offset(parts, tag(6).ok_or("it has no symbols")?)?;
    let read = Cell::new(0);
    let text = |at: u64| -> Result<String, String> {
        let from = usize::try_from(strings.saturating_add(at)).unwrap_or(usize::MAX);
        let rest = file.0.get(from..).ok_or("a name is not in its file")?;
        let most = &rest[..rest.len().min(NAME)];
        let end = most.iter().position(|byte| *byte == 0);
        let name = &most[..end.unwrap_or(most.len())];
        // Names may overlap.
        read.set(read.get() + name.len());
        match read.get() > NAMES {
            true => Err("its names are too long: strip -x leaves fewer of them".to_owned()),
            false => Ok(clean(name, NAME)),
        }
    };
    for (_, name) in tags.iter().filter(|(tag, _)| *tag == 1) {
        let name = text(*name)?;
        // What is called of it is looked at below.
        if name != "libc.so.6" {
            return Err(format!("it needs {name}, and this wall loads no libraries: link it statically (its .a), or take the process wall"));
        }
    }
    // DT_TEXTREL, DT_RELR.
    if tag(22).is_some() || tag(36).is_some() {
        return Err("it has relocations of its code, or packed ones: cc -shared -fPIC -Wl,-z,nopack-relative-relocs".to_owned());
    }
    // The symbols lie before the names.
    let count = strings.saturating_sub(symbols) / 24;
    for n in 0..count {
        let at = symbols + 24 * n;
        let name = match text(file.word(at)?) {
            Ok(name) => name,
            Err(why) if read.get() > NAMES => return Err(why),
            // Something else may lie between them.
            Err(_) => break,
        };
        let index = file.half(at + 6)?;
        if index != 0 && file.bytes(at + 4, 1)?[0] & 15 <= 2 {
            let value = file.long(at + 8)?;
            if value < object.len {
                object.names.0.push((name, value));
            }
        }
    }
    for (table, size) in [(tag(7), tag(8)), (tag(23), tag(2))] {
        let (Some(table), Some(size)) = (table, size) else {
            continue;
        };
        let table = offset(parts, table)?;
        for n in 0..size / 24 {
            let at = table + 24 * n;
            let (place, info, more) = (file.long(at)?, file.long(at + 8)?, file.long(at + 16)?);
            let symbol = symbols + 24 * (info >> 32);
            let value = match info as u32 {
                0 => continue,
                // R_X86_64_RELATIVE
                8 => Value::Own(more),
                // R_X86_64_64, GLOB_DAT, JUMP_SLOT
                kind @ (1 | 6 | 7) => {
                    let more = if kind == 1 { more } else { 0 };
                    let (name, index) = (text(file.word(symbol)?)?, file.half(symbol + 6)?);
                    let kind = file.bytes(symbol + 4, 1)?[0];
                    let is_weak = kind >> 4 == 2;
                    match (index, function(&name)) {
                        (1.., _) if kind & 15 == CHOSEN => return Err(chosen()),
                        (ABSOLUTE, _) => Value::As(file.long(symbol + 8)?.wrapping_add(more)),
                        (1.., _) => Value::Own(file.long(symbol + 8)?.wrapping_add(more)),
                        (_, Some(function)) => Value::As(function.wrapping_add(more)),
                        _ if is_weak => Value::As(0),
                        _ => return Err(missing(&name)),
                    }
                }
                37 => return Err(chosen()),
                kind => return Err(format!("it has relocations of type {kind}, which this wall does not know: cc -shared -fPIC")),
            };
            let is_inside = object.segments.iter().any(|segment| {
                segment.is_writable
                    && place >= segment.start
                    && place < (segment.start + segment.len).saturating_sub(7)
            });
            if !is_inside {
                return Err(
                    "it has relocations of what it can't write: cc -shared -fPIC".to_owned(),
                );
            }
            object.relocations.push((place, value));
        }
    }
    if let Some(first) = tag(12) {
        object.constructors.push(first);
    }
    if let (Some(table), Some(size)) = (tag(25), tag(27)) {
        // The words have relocations.
        let is_word = |far: u64| far < size / 8 * 8 && far.is_multiple_of(8);
        let words = object.relocations.iter();
        let mut words: Vec<_> = words
            .filter_map(|(place, value)| match value {
                Value::Own(function) if is_word(place.wrapping_sub(table)) => {
                    Some((*place, *function))
                }
                _ => None,
            })
            .collect();
        words.sort_by_key(|(place, _)| *place);
        words.dedup_by_key(|(place, _)| *place);
        let functions = words.into_iter().map(|(_, function)| function);
        object.constructors.extend(functions);
    }
    Ok(())
}

/// `STT_GNU_IFUNC`, and `SHN_ABS`.
const CHOSEN: u8 = 10;
const ABSOLUTE: u64 = 0xfff1;

fn chosen() -> String {
    "it has functions that are chosen when it is loaded (IFUNC), which this wall does not: take the process wall".to_owned()
}

fn missing(name: &str) -> String {
    match name {
        "__stack_chk_fail" => "it checks its stack by a thread's variable, which this wall does not have: compile it with -fno-stack-protector".to_owned(),
        name => format!("it calls {name}: behind this wall there are vink/pod.h, malloc() and its family, abort(), memcpy(), memmove(), memset(), memcmp() and strlen(); write it in the pod, or take the process wall"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        // This test is no pod: it needs libraries. What is cut off is told first, or that.
        let own = std::fs::read("/proc/self/exe").expect("this test");
        for len in (0..2000).chain([own.len() / 2]) {
            read(&own[..len], |_| None).unwrap_err();
        }
    }

    /// Where what an object of these tests has is, in its file and in memory: the dynamic section, two
    /// symbols, relocations, names.
    const DYNAMIC: u64 = 0x1000;
    const SYMBOLS: u64 = 0x2000;
    const RELOCATIONS: u64 = 0x3000;
    const NAMES_AT: u64 = 0x4000;

    /// An object that may be: a part that can be written, and a function.
    struct Made(Vec<u8>);

    impl Made {
        fn new() -> Made {
            let mut made = Made(vec![0; 0x5000]);
            made.parts(&[[1, 6, 0, 0, 0x5000, 0x5000]]);
            made.dynamic(&[]);
            made.symbol(1, 1, 0x12, 1, 0x100);
            made.at(NAMES_AT, b"\0function\0");
            made
        }

        fn at(&mut self, at: u64, bytes: &[u8]) {
            self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }

        fn words(&mut self, at: u64, words: &[u64]) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.at(at, &bytes);
        }

        /// Type, flags, offset, address, bytes in the file and in memory.
        fn parts(&mut self, parts: &[[u64; 6]]) {
            self.words(32, &[64]);
            let count = parts.len() as u64 + 1;
            self.words(54, &[56 | count << 16]);
            let dynamic = [2, 6, DYNAMIC, DYNAMIC, 0x1000, 0x1000];
            for (n, part) in parts.iter().chain([&dynamic]).enumerate() {
                let [kind, flags, offset, address, in_file, len] = *part;
                let words = [kind | flags << 32, offset, address, 0, in_file, len];
                self.words(64 + 56 * n as u64, &words);
            }
        }

        fn dynamic(&mut self, more: &[[u64; 2]]) {
            let tags = [[5, NAMES_AT], [6, SYMBOLS], [7, RELOCATIONS], [8, 0x1000]];
            self.words(DYNAMIC, &[tags.as_slice(), more].concat().concat());
        }

        fn symbol(&mut self, n: u64, name: u64, kind: u64, index: u64, value: u64) {
            let words = [name | kind << 32 | index << 48, value, 0];
            self.words(SYMBOLS + 24 * n, &words);
        }

        fn relocation(&mut self, n: u64, place: u64, kind: u64, symbol: u64, more: u64) {
            self.words(RELOCATIONS + 24 * n, &[place, kind | symbol << 32, more]);
        }

        fn read(&self) -> Result<Object<'_>, String> {
            read(&self.0, |name| (name == "malloc").then_some(77))
        }

        #[track_caller]
        fn refused(&self, words: &str) {
            let why = self.read().map(drop).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn what_is_needed_is_enough() {
        let mut made = Made::new();
        made.relocation(0, 0x4100, 8, 0, 0x200);
        made.relocation(1, 0x4108, 1, 1, 4);
        made.relocation(2, 0x4110, 6, 2, 0);
        made.relocation(3, 0x4118, 1, 3, 1);
        made.symbol(2, 10, 0x10, 0, 0);
        made.symbol(3, 1, 0x10, ABSOLUTE, 0x1234);
        made.at(NAMES_AT + 10, b"malloc\0");
        let object = made.read().unwrap();
        assert_eq!(
            (object.len, object.names.find("function")),
            (0x5000, Some(0x100))
        );
        let values = object.relocations.iter().map(|(at, value)| match value {
            Value::Own(value) => (*at, *value, true),
            Value::As(value) => (*at, *value, false),
        });
        let expected = [
            (0x4100, 0x200, true),
            (0x4108, 0x104, true),
            (0x4110, 77, false),
            (0x4118, 0x1235, false),
        ];
        assert_eq!(values.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn parts_are_few_and_apart() {
        let part = |address, len| [1, 6, 0, address, 0x10, len];
        let mut made = Made::new();
        for parts in [
            // Over another one, before it, and in a page of it.
            [part(0, 0x2000), part(0x1000, 0x1000)],
            [part(0x1000, 0x1000), part(0, 0x1000)],
            [part(0, 0x1010), part(0x1020, 0x1000)],
        ] {
            made.parts(&parts);
            made.refused("one behind the other");
        }
        for (part, words) in [
            ([1, 6, 0, 0xffff_f000, 0, 0x1000], "larger than 4 GiB"),
            ([1, 6, 0, u64::MAX, 0, 0x1000], "larger than 4 GiB"),
            ([1, 6, 0, 0x1000, 0, u64::MAX], "larger than 4 GiB"),
            (
                [1, 6, 0, 0, 0x1000, 0x100],
                "more in the file than in memory",
            ),
            ([1, 6, u64::MAX, 0, 0x10, 0x10], "cut off"),
            ([1, 7, 0, 0, 0x10, 0x10], "code that can be written"),
            ([7, 4, 0, 0, 0, 8], "variables of a thread"),
            ([0; 6], "nothing in it"),
        ] {
            made.parts(&[part]);
            made.refused(words);
        }
        // As many as a header can say: each of them had the whole file.
        let mut made = Made::new();
        made.0.resize(MOST, 0);
        made.0[54..58].copy_from_slice(&[0, 0, 0xff, 0xff]);
        made.words(64, &[1 | 6 << 32, 0, 0, 0, MOST as u64, MOST as u64]);
        made.refused("one behind the other");
        let mut made = Made::new();
        let many: Vec<_> = (0..PARTS as u64 + 1)
            .map(|n| [1, 6, 0, n << 12, 0x10, 0x10])
            .collect();
        made.0.resize(0x8000, 0);
        made.parts(&many);
        made.refused("more than 64 parts");
    }

    #[test]
    fn relocations_are_in_what_can_be_written() {
        for place in [0x4ff9, 0x5000, 0xffff, u64::MAX, u64::MAX - 7] {
            let mut made = Made::new();
            made.relocation(0, place, 8, 0, 0);
            made.refused("what it can't write");
            made.relocation(0, 0x4ff8, 8, 0, 0);
            made.read().unwrap();
        }
        let mut made = Made::new();
        made.parts(&[[1, 5, 0, 0, 0x5000, 0x5000]]);
        made.relocation(0, 0x4ff8, 8, 0, 0);
        made.refused("what it can't write");
        let mut made = Made::new();
        made.relocation(0, 0x4100, 6, u64::from(u32::MAX), 0);
        made.refused("cut off");
        made.relocation(0, 0x4100, 18, 0, 0);
        made.refused("type 18");
    }

    /// They would have been called as if they were what they choose.
    #[test]
    fn functions_that_are_chosen_are_refused() {
        for (relocation, symbol) in [(37, 0), (6, 2), (7, 2), (1, 2)] {
            let mut made = Made::new();
            made.symbol(2, 1, 0x1a, 1, 0x200);
            made.relocation(0, 0x4100, relocation, symbol, 0x200);
            made.refused("IFUNC");
        }
    }

    #[test]
    fn constructors_are_as_many_as_have_relocations() {
        let mut made = Made::new();
        // More of them than there is time for, from the end on.
        made.dynamic(&[[12, 0x99], [25, 0x4100], [27, u64::MAX]]);
        for (n, place) in [0x4110, 0x4100, 0x4104, 0x4110, 0x40f8]
            .into_iter()
            .enumerate()
        {
            made.relocation(n as u64, place, 8, 0, 0x200 + n as u64);
        }
        assert_eq!(made.read().unwrap().constructors, [0x99, 0x201, 0x200]);
        made.dynamic(&[[25, 0x4100], [27, 15]]);
        assert_eq!(made.read().unwrap().constructors, [0x201]);
    }

    #[test]
    fn names_are_short_and_can_be_printed() {
        let mut made = Made::new();
        made.at(NAMES_AT, b"\0a\x1b[2J\xff\0");
        let object = made.read().unwrap();
        assert_eq!(object.names.name_of(0x101), Some(("a [2J\u{fffd}", 1)));
        // One of a megabyte, which each of many symbols has.
        let mut made = Made::new();
        let (many, names) = (100_000, 0x30_0000);
        made.0.resize(names + (2 << 20), b'x');
        made.parts(&[[1, 6, 0, 0, names as u64 + 0x1000, names as u64 + 0x1000]]);
        made.words(DYNAMIC, &[5, names as u64, 6, 0x8000]);
        for n in 0..many {
            made.words(0x8000 + 24 * n, &[1 | 0x12 << 32 | 1 << 48, 0x100, 0]);
        }
        made.refused("names are too long");
    }
}
