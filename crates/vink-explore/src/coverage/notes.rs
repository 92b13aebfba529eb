//! What gcov's counters count: the notes that gcc 12 and later writes beside an object (`.gcno`).
//!
//! A function is a graph of blocks and arcs. Arcs that are not on a spanning tree of it have a counter each, in
//! the order in which they are here; what the others count follows (`flow`).

/// A function that has counters.
#[derive(Debug, Default)]
pub(super) struct Function {
    pub name: String,
    /// The file that it begins in.
    pub file: String,
    /// How many blocks: the first one is the function's entry, the second one its exit.
    pub blocks: usize,
    pub arcs: Vec<Arc>,
    /// A line of `file`, and a block that has code of it.
    pub lines: Vec<(u32, usize)>,
}

/// A way from block to block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub from: usize,
    pub to: usize,
    pub has_counter: bool,
}

impl Function {
    /// How many counters it has.
    pub fn counters(&self) -> usize {
        self.arcs.iter().filter(|arc| arc.has_counter).count()
    }
}

const FUNCTION: u32 = 0x0100_0000;
const BLOCKS: u32 = 0x0141_0000;
const ARCS: u32 = 0x0143_0000;
const LINES: u32 = 0x0145_0000;
/// An arc's flag.
const ON_TREE: u32 = 1;
/// The first release of gcc that counts lengths in bytes.
const GCC: u32 = 12;

/// All functions of an object. What is wrong with its notes, if they can't be read.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Function>, String> {
    let mut rest = Bytes(bytes);
    if rest.word() != Some(u32::from_be_bytes(*b"gcno")) {
        return Err("they are no notes of gcov's".to_owned());
    }
    let [_, minor, major, tens] = rest.word().unwrap_or(0).to_le_bytes();
    let gcc = u32::from(tens.saturating_sub(b'A')) * 10 + u32::from(major.saturating_sub(b'0'));
    if gcc < GCC {
        let minor = char::from(minor);
        return Err(format!(
            "they are gcc {gcc}.{minor}'s: {GCC} or later is needed"
        ));
    }
    read_functions(rest).ok_or_else(|| "they end in the middle".to_owned())
}

fn read_functions(mut rest: Bytes<'_>) -> Option<Vec<Function>> {
    // A stamp, a checksum, the compiler's folder, whether blocks may be marked as not executed.
    rest.word()?;
    rest.word()?;
    rest.text()?;
    rest.word()?;
    let mut all: Vec<Function> = Vec::new();
    while !rest.0.is_empty() {
        let tag = rest.word()?;
        let length = rest.word()? as usize;
        let mut record = Bytes(rest.take(length)?);
        if tag == FUNCTION {
            all.push(function(&mut record)?);
            continue;
        }
        let Some(function) = all.last_mut() else {
            continue;
        };
        match tag {
            BLOCKS => function.blocks = record.word()? as usize,
            ARCS => arcs(&mut record, function)?,
            LINES => lines(&mut record, function)?,
            _ => {}
        }
    }
    Some(all)
}

fn function(record: &mut Bytes<'_>) -> Option<Function> {
    // Its number, and checksums of its lines and of its graph.
    for _ in 0..3 {
        record.word()?;
    }
    let name = record.text()?;
    let _is_artificial = record.word()?;
    let file = record.text()?;
    Some(Function {
        name,
        file,
        ..Function::default()
    })
}

fn arcs(record: &mut Bytes<'_>, function: &mut Function) -> Option<()> {
    let from = record.word()? as usize;
    while !record.0.is_empty() {
        let to = record.word()? as usize;
        let has_counter = record.word()? & ON_TREE == 0;
        let is_there = from < function.blocks && to < function.blocks;
        is_there.then(|| {
            function.arcs.push(Arc {
                from,
                to,
                has_counter,
            });
        })?;
    }
    Some(())
}

fn lines(record: &mut Bytes<'_>, function: &mut Function) -> Option<()> {
    let block = record.word()? as usize;
    if block >= function.blocks {
        return None;
    }
    let mut is_own = false;
    loop {
        match record.word()? {
            0 => {
                let file = record.text()?;
                if file.is_empty() {
                    return Some(());
                }
                is_own = file == function.file;
            }
            line if is_own => function.lines.push((line, block)),
            _ => {}
        }
    }
}

/// What is still to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// With its length before it, and a zero at its end.
    fn text(&mut self) -> Option<String> {
        let length = self.word()? as usize;
        let bytes = self.take(length)?;
        let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
