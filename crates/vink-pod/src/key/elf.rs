//! A shared object's file: its parts, its relocations and its names. It is read here and not by
//! dlopen(3), whose libraries and state would be the worker's.

use super::scan;

/// Bytes of a file; it is read whole.
pub(super) const MOST: usize = 16 << 20;
const PAGE: u64 = 4096;

/// A part of the object in memory, by addresses from its start on.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub start: u64,
    pub len: u64,
    pub bytes: Vec<u8>,
    pub is_writable: bool,
    pub is_code: bool,
}

/// What a word is to become.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// An address of the object.
    Own(u64),
    /// That of a function of Vink's, or nothing.
    Vinks(u64),
}

/// An object that a pod can be made of.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Bytes of memory from its first to its last, whole pages.
    pub len: u64,
    pub segments: Vec<Segment>,
    /// Where words are, and what they become.
    pub relocations: Vec<(u64, Value)>,
    /// Functions that are called before all others.
    pub constructors: Vec<u64>,
    /// Its names, for what it exports and for faults.
    pub names: Vec<(String, u64)>,
}

impl Object {
    /// The address of a name.
    pub fn find(&self, name: &str) -> Option<u64> {
        let found = self.names.iter().find(|(other, _)| other == name);
        found.map(|(_, at)| *at)
    }

    /// Which function this is in.
    pub fn name_of(&self, at: u64) -> Option<(&str, u64)> {
        let before = self.names.iter().filter(|(_, start)| *start <= at);
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
pub(super) fn read(bytes: &[u8], function: fn(&str) -> Option<u64>) -> Result<Object, String> {
    let file = File(bytes);
    let (table, size, count) = (file.long(32)?, file.half(54)?, file.half(56)?);
    let mut parts = Vec::new();
    let mut segments = Vec::new();
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
                segments.push(segment(&file, &part, flags)?);
                parts.push(part);
            }
            2 => dynamic = Some(part),
            7 if part.len > 0 => {
                return Err("it has variables of a thread (__thread), which this wall does not have: make them static".to_owned());
            }
            _ => {}
        }
    }
    let end = segments
        .iter()
        .map(|it| it.start + it.len)
        .max()
        .unwrap_or(0);
    let is_apart = segments
        .windows(2)
        .all(|two| two[0].start + two[0].len <= two[1].start);
    if segments.is_empty() || !is_apart {
        return Err("its parts are not one behind the other".to_owned());
    }
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
        names: Vec::new(),
    };
    let dynamic = dynamic.ok_or("it has no dynamic section: cc -shared -fPIC makes one")?;
    link(&file, &parts, &dynamic, &mut object, function)?;
    for segment in object.segments.iter().filter(|segment| segment.is_code) {
        if let Some(found) = scan::find(&segment.bytes).next() {
            let at = segment.start + found.at as u64;
            let place = match object.name_of(at) {
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

fn segment(file: &File<'_>, part: &Part, flags: u64) -> Result<Segment, String> {
    let end = part
        .address
        .checked_add(part.len)
        .filter(|end| *end < 1 << 32);
    let end = end.ok_or("it is larger than 4 GiB")?.next_multiple_of(PAGE);
    let start = part.address / PAGE * PAGE;
    let before = (part.address - start) as usize;
    if part.in_file > part.len {
        return Err("a part of it has more in the file than in memory".to_owned());
    }
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(file.bytes(part.offset, part.in_file)?);
    Ok(Segment {
        start,
        len: end - start,
        bytes,
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
    object: &mut Object,
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
    let text = |at: u64| -> Result<String, String> {
        let from = usize::try_from(strings.saturating_add(at)).unwrap_or(usize::MAX);
        let rest = file.0.get(from..).ok_or("a name is not in its file")?;
        let end = rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or("a name does not end")?;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
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
        // Something else may lie between them.
        let Ok(name) = text(file.word(at)?) else {
            break;
        };
        let index = file.half(at + 6)?;
        if index != 0 && file.bytes(at + 4, 1)?[0] & 15 <= 2 {
            let value = file.long(at + 8)?;
            if value < object.len {
                object.names.push((name, value));
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
                    let is_weak = file.bytes(symbol + 4, 1)?[0] >> 4 == 2;
                    match (index, function(&name)) {
                        (1.., _) => Value::Own(file.long(symbol + 8)?.wrapping_add(more)),
                        (_, Some(function)) => Value::Vinks(function.wrapping_add(more)),
                        _ if is_weak => Value::Vinks(0),
                        _ => return Err(missing(&name)),
                    }
                }
                37 => return Err("it has functions that are chosen when it is loaded (IFUNC), which this wall does not: take the process wall".to_owned()),
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
        for at in (0..size / 8).map(|n| table.wrapping_add(8 * n)) {
            let own = object.relocations.iter().find(|(place, _)| *place == at);
            if let Some((_, Value::Own(function))) = own {
                object.constructors.push(*function);
            }
        }
    }
    Ok(())
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
}
